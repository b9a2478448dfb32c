"""What exporters say in one op that the nn level says in several: found by matching, so that other runtimes get the ops that they have fast code for.

`clip` comes as comparisons and selections (which is what keeps its gradient and its NaNs as Paddle has them), a recurrent layer as the product of all its inputs and an op for
the steps, `hard_swish` as arithmetic around a clip.
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
    """One op of a runtime: `kind` is "clip" (low, high), "hard_sigmoid" (slope, offset), "hard_swish", "lstm" or "gru" (arrays of weights)."""

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
    for rule in (_hard_sigmoid, _hard_swish, _clip, _recurrent):
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
        shifted = None if clip is None or (clip.numbers["low"], clip.numbers["high"]) != (0.0, 6.0) else _with_number(clip.operands[0], nn.Add)
        if shifted is not None and shifted[0] is x and shifted[1] == 3.0:
            return Idiom("hard_swish", (x,))
    return None


def _with_number(value: Value, kind: type[Op]) -> tuple[Value, float] | None:
    """The operands of the op that makes `value`, if it is of this kind and the second one is a number."""
    op = value.producer(kind)
    number = None if op is None else _number(op.operands[1])
    return None if op is None or number is None else (op.operands[0], number)


def _recurrent(op: Op) -> Idiom | None:
    """An LSTM or GRU with the product of its inputs by constant weights: x is [steps, batch, inputs], and only the states are read, not the cells."""
    if not isinstance(op, (nn.LSTM, nn.GRU)) or op.lengths is not None or op.reverse or any(_read(cells) for cells in op.results[1:]):
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
    return Idiom("lstm" if isinstance(op, nn.LSTM) else "gru", (matmul.operands[0],), {"inputs": inputs, "weight": weight, "bias": bias, "own_bias": own})


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
