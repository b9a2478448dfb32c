"""What exporters say in one op that the nn level says in several: found by matching, so that other runtimes get the ops that they have fast
code for.

`clip` comes as comparisons and selections (which is what keeps its gradient and its NaNs as Paddle has them), a recurrent layer as the
product of all its inputs and an op for the steps, `hard_swish` as arithmetic around a clip, a resize or a border that repeats elements as
lookups, one for each axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme.dialects import nn
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value

Array = Any
# Constants of idioms are rounded to float32 on their way.
CLOSE = 1e-6


@dataclass(frozen=True)
class Idiom:
    """One op of a runtime: `kind` is "clip" (low, high), "hard_sigmoid" (slope, offset), "hard_swish", "lstm" or "gru" (arrays of weights,
    and whether it runs in `reverse`), "enlarge" or "reflect" (`axes`: for each, how often an element comes, or how many are mirrored before
    and after).
    """

    kind: str
    operands: tuple[Value, ...]
    numbers: dict[str, Any] = field(default_factory=dict)


def program(main: Func) -> list[tuple[Op, Idiom | None]]:
    """The ops of `main` that its results need, in order; an op that ends an idiom stands for all of it."""
    idioms = {op: found for op in main.block if (found := _match(op)) is not None}
    needed: set[Op] = set()
    for op in reversed(main.block.ops):
        if isinstance(op, Return) or op in needed:
            needed.add(op)
            found = idioms.get(op)
            for value in op.operands if found is None else found.operands:
                producer = value.producer()
                if producer is not None:
                    needed.add(producer)
    return [(op, idioms.get(op)) for op in main.block if op in needed]


def known(value: Value) -> Array | None:
    """The elements of a value that is known now: a constant, a full tensor, or a sum of such."""
    op = value.producer()
    if isinstance(op, nn.Constant):
        return op.value.array
    if isinstance(op, nn.Full) and all(isinstance(d, int) for d in op.shape):
        return np.full(op.shape, op.value, op.dtype.np)
    if isinstance(op, nn.Add):
        a, b = known(op.operands[0]), known(op.operands[1])
        return None if a is None or b is None else a + b
    if isinstance(op, (nn.Slice, nn.Reshape)):
        source = known(op.operands[0])
        if source is not None and not source.any():
            return np.zeros(op.result.type.shape, source.dtype)
    return None


def _match(op: Op) -> Idiom | None:
    for rule in (_hard_sigmoid, _hard_swish, _clip, _recurrent, _lookups):
        found = rule(op)
        if found is not None:
            return found
    return None


def _number(value: Value) -> float | None:
    """The number that a value is full of."""
    array = known(value)
    if array is None or array.size == 0 or (array != array.flat[0]).any():
        return None
    return float(array.flat[0])


def _clip(op: Op) -> Idiom | None:
    """where(x <= low, low, where(x >= high, high, x))."""
    if not isinstance(op, nn.Where):
        return None
    below, low, inner = op.operands
    first, second = below.producer(nn.LessEqual), inner.producer(nn.Where)
    if first is None or second is None:
        return None
    above, high, x = second.operands
    third = above.producer(nn.GreaterEqual)
    if third is None or first.operands[0] is not x or third.operands[0] is not x:
        return None
    bounds = [_number(v) for v in (low, first.operands[1], high, third.operands[1])]
    if None in bounds or bounds[0] != bounds[1] or bounds[2] != bounds[3]:
        return None
    return Idiom("clip", (x,), {"low": bounds[0], "high": bounds[2]})


def _hard_sigmoid(op: Op) -> Idiom | None:
    """clip(x slope + offset, 0, 1)."""
    clip = _clip(op)
    if clip is None or (clip.numbers["low"], clip.numbers["high"]) != (0.0, 1.0):
        return None
    offset = _with_number(clip.operands[0], nn.Add)
    slope = None if offset is None else _with_number(offset[0], nn.Mul)
    if offset is None or slope is None:
        return None
    return Idiom("hard_sigmoid", (slope[0],), {"slope": slope[1], "offset": offset[1]})


def _hard_swish(op: Op) -> Idiom | None:
    """x clip(x + 3, 0, 6) / 6."""
    sixth = _with_number(op.results[0], nn.Mul) if isinstance(op, nn.Mul) else None
    product = None if sixth is None or abs(sixth[1] * 6 - 1) > CLOSE else sixth[0].producer(nn.Mul)
    if product is None:
        return None
    for x, other in (product.operands, reversed(product.operands)):
        clipped = other.producer()
        clip = None if clipped is None else _clip(clipped)
        shifted = (
            None if clip is None or (clip.numbers["low"], clip.numbers["high"]) != (0.0, 6.0) else _with_number(clip.operands[0], nn.Add)
        )
        if shifted is not None and shifted[0] is x and shifted[1] == 3.0:
            return Idiom("hard_swish", (x,))
    return None


def _with_number(value: Value, kind: type[Op]) -> tuple[Value, float] | None:
    """The operands of the op that makes `value`, if it is of this kind and the second one is a number."""
    op = value.producer(kind)
    number = None if op is None else _number(op.operands[1])
    return None if op is None or number is None else (op.operands[0], number)


def _recurrent(op: Op) -> Idiom | None:
    """An LSTM or GRU with the product of its inputs by constant weights: x is [steps, batch, inputs], and only the states are read, not the
    cells.
    """
    if not isinstance(op, (nn.LSTM, nn.GRU)) or op.lengths is not None or any(_read(cells) for cells in op.results[1:]):
        return None
    bias = np.zeros(op.weight.type.shape[:1], op.x.type.dtype.np)
    product, added = op.x, op.x.producer(nn.Add)
    if added is not None:
        given = known(added.operands[1])
        if given is None:
            return None
        product, bias = added.operands[0], given
    matmul, weight = product.producer(nn.MatMul), known(op.weight)
    inputs = None if matmul is None or not matmul.transpose_y or matmul.transpose_x else known(matmul.operands[1])
    states = [_number(v) for v in (op.first, *([op.first_cell] if isinstance(op, nn.LSTM) else []))]
    if matmul is None or inputs is None or weight is None or any(s != 0.0 for s in states):
        return None
    own = known(op.bias) if isinstance(op, nn.GRU) and op.bias is not None else np.zeros_like(bias)
    if own is None:
        return None
    numbers = {"inputs": inputs, "weight": weight, "bias": bias, "own_bias": own, "reverse": op.reverse}
    return Idiom("lstm" if isinstance(op, nn.LSTM) else "gru", (matmul.operands[0],), numbers)


def _lookups(op: Op) -> Idiom | None:
    """Elements repeated, or mirrored at the ends, along one axis after the other."""
    taken = _taken(op)
    if taken is None:
        return None
    x, axis, index = taken
    size = x.type.shape[axis]
    if len(index) <= size:
        return None
    times = len(index) // size
    ends = int(np.argmin(index)), len(index) - 1 - int(np.argmax(index))
    made: Any
    none: Any
    if np.array_equal(index, np.repeat(np.arange(size), times)):
        kind, made, none = "enlarge", times, 1
    elif max(ends) < size and np.array_equal(index, np.pad(np.arange(size), ends, "reflect")):
        kind, made, none = "reflect", ends, (0, 0)
    else:
        return None
    axes = [made if i == axis else none for i in range(x.type.rank)]
    before = x.producer()
    inner = _lookups(before) if before is not None and all(use.op is op or isinstance(use.op, nn.Slice) for use in x.uses) else None
    if inner is None or inner.kind != kind or inner.numbers["axes"][axis] != none:
        return Idiom(kind, (x,), {"axes": axes})
    return Idiom(kind, inner.operands, {"axes": [made if i == axis else a for i, a in enumerate(inner.numbers["axes"])]})


def _taken(op: Op) -> tuple[Value, int, Array] | None:
    """What an op takes elements of, along which axis, and which: those at known places, or parts that are laid end to end, turned round or
    not.
    """
    if isinstance(op, nn.Gather) and isinstance(op.x.type.shape[op.axis], int):
        index = known(op.index)
        return None if index is None or index.ndim != 1 else (op.x, op.axis % op.x.type.rank, index)
    if not isinstance(op, nn.Concat) or not all(isinstance(d, int) for d in op.result.type.shape):
        return None
    axis = op.axis % op.result.type.rank
    spans = [_span(x, axis) for x in op.xs]
    whole = next((source for source, _ in spans if source in op.xs), None)
    if whole is None:
        return None
    if any(x is not whole and source is not whole for x, (source, _) in zip(op.xs, spans, strict=True)):
        return None
    places = np.arange(whole.type.shape[axis])
    return whole, axis, np.concatenate([places if x is whole else index for x, (_, index) in zip(op.xs, spans, strict=True)])


def _span(value: Value, axis: int) -> tuple[Value, Array]:
    """Of what a value is a part along `axis` alone, and which: of itself where it is no such part."""
    op = value.producer()
    if isinstance(op, nn.Flip) and op.axes == (axis,):
        source, index = _span(op.x, axis)
        return source, index[::-1]
    if isinstance(op, nn.Slice):
        bounds = enumerate(zip(op.starts, op.stops, op.strides, op.x.type.shape, strict=True))
        if all(i == axis or (start, stop, stride) == (0, size, 1) for i, (start, stop, stride, size) in bounds):
            return op.x, np.arange(op.starts[axis], op.stops[axis], op.strides[axis])
    return value, np.arange(value.type.shape[axis])


def _read(value: Value) -> bool:
    """Whether a result of `main` needs the value."""
    return any(isinstance(use.op, Return) or any(_read(r) for r in use.op.results) for use in value.uses)


def layer_norm(op: Any) -> tuple[int, ...] | None:
    """The sizes that a norm by its own statistics runs over, if it is a layer norm: over the last axes, with its weights along the same."""
    rank = op.x.type.rank
    axes, affine = (tuple(sorted(a % rank for a in given)) for given in (op.axes, op.affine))
    last = tuple(range(rank - len(axes), rank))
    if axes != last or (affine and affine != last) or any(v.uses for v in op.results[1:]):
        return None
    return tuple(op.x.type.shape[a] for a in axes)


def group_norm(op: Any) -> bool:
    """Whether a norm by its own statistics runs over all axes behind those of the batch and of groups, with weights by group, or by channel
    of a group: an instance norm or a group norm.
    """
    rank = op.x.type.rank
    axes, affine = (tuple(sorted(a % rank for a in given)) for given in (op.axes, op.affine))
    return rank > 2 and axes == tuple(range(2, rank)) and affine in ((), (1,), (1, 2)) and not any(v.uses for v in op.results[1:])


def transposed_sizes(op: nn.ConvTranspose) -> tuple[list[Any], list[Any], list[Any]]:
    """Strides and dilations of a transposed convolution, and how many elements its result has beyond the smallest possible."""
    rank = op.x.type.rank - 2
    strides, dilations, padding = list(op.strides) or [1] * rank, list(op.dilations) or [1] * rank, op.padding or (0,) * (2 * rank)
    smallest = [
        (size - 1) * stride + dilation * (kernel - 1) + 1 - low - high
        for size, kernel, stride, dilation, low, high in zip(
            op.x.type.shape[2:], op.weight.type.shape[2:], strides, dilations, padding[0::2], padding[1::2], strict=True
        )
    ]
    return strides, dilations, [made - least for made, least in zip(op.result.type.shape[2:], smallest, strict=True)]
