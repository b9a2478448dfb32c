"""Quantised products in integers: what moves between two layers are bytes, and what is multiplied are bytes.

A quantised model says `contract(steps of activations * scale, steps of weights * scales)` in floats, with `nn.dequantize_linear` in front
of each operand. The scales leave the sum if that of the activations is a single number, and those of the weights go with channels of the
result. What is left is a contract of integers, which is exact.

`kernel.dot4`, and the instructions behind it, want one unsigned operand. So activations are shifted, `u = q + 128`, which costs nothing
where they are rounded anyway. With the zero point z of the activations,

    sum (q - z) w  =  sum u w - (z + 128) sum w

and the last term is one number per channel, known at compile time. A pad of zeros becomes one of `z + 128`.

If the machine multiplies pairs of 16-bit numbers but no bytes, u and w are 16-bit numbers in memory, since widening them in front of each
product would cost as much as multiplying. Products of few rows, which wait for their weights, keep bytes there too.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import erase_unused
from polyreme.ir.types import ScalarType, element_type, f32, i8, i16, i32, u8
from polyreme.lowering.analysis.estimates import FOLDED_ELEMENTS, estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.instructions import BYTES
from polyreme.lowering.machines.memory import ROWS_OF_WEIGHTS

Array = np.ndarray[Any, Any]

# From steps with a sign to steps without one.
SHIFT = 128
# Sums of so many products of bytes stay within 32 bits.
MOST_STEPS = (1 << 31) // (255 * 128)
# With fewer channels in a group, floats have as much to do.
LEAST_GROUP = 8

_VIEWS = (tensor.Reshape, tensor.Transpose, tensor.Slice, tensor.Reverse, tensor.Broadcast, tensor.Window, tensor.Pad)


@register_pass
@dataclass(frozen=True)
class IntegerProducts(FuncPass):
    """contract(views((q - z) s), (w t))  ->  (contract(views(q + 128), w) - (z + 128) sum w) (s t)    in integers of 32 bits up to the
    product with s t

    Before and after: `tensor` ops.  q are bytes, w constant bytes; z and s are numbers, t one per channel of the result. A bias behind it
    becomes part of the last
    product, and images are turned channels-last, so that four channels are one word. Products of other kinds, depthwise convolutions among
    them, stay what they are,
    their weights floats again.
    Runs right behind the lowering from `nn`: later, constants are folded to floats. For processors only. With `pairs` bytes are 16-bit
    numbers in memory, of which two are a word.
    """

    name: ClassVar[str] = "integer-products"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    pairs: bool = False

    def run_on(self, func: Func) -> None:
        unsigned: dict[tuple[Value, ScalarType], Value] = {}
        pooled = [_round_before_pool(op) for op in func.block if isinstance(op, tensor.Map)]
        if any(pooled):
            erase_unused(func)
        for op in func.block:
            if isinstance(op, tensor.Contract) and op.dtype is None and element_type(op.result.type) == f32:
                found = _match(op)
                if found is not None:
                    _rewrite(op, found, unsigned, i16 if self.pairs and _rows(op, found) >= ROWS_OF_WEIGHTS else u8)
        if unsigned:
            for (steps, _), bytes_ in unsigned.items():
                _read_without_sign(steps, bytes_)
            erase_unused(func)
        for op in func.block:
            if isinstance(op, tensor.Map):
                _restore_weight(op)


class _Bytes(NamedTuple):
    """An operand that is steps of a scale: `views`, the innermost first, of `steps`, whose zero is `zero`."""

    steps: Value
    views: tuple[Op, ...]
    scale: Array
    zero: int


class _FoundProduct(NamedTuple):
    """A contract in integers: letters and operands of both sides, and the letter that has a word's bytes."""

    spec: tensor.ContractSpec
    letters: str
    image: _Bytes
    weight: Array
    scales: Array
    weight_letters: str
    word_letter: str


def known(value: Value) -> Array | None:
    """The elements of what is made of constants, if they are few, as weights of eight bits need not be."""
    if not all(isinstance(n, int) for n in shape_of(value)) or product(shape_of(value)) > FOLDED_ELEMENTS:
        return None
    op = value.producer()
    if isinstance(op, (tensor.Constant, tensor.Full)):
        array: Array = op.evaluate([], _no_regions)[0]
        return array
    if not isinstance(op, (tensor.Map, tensor.Reshape, tensor.Broadcast, tensor.Transpose)):
        return None
    operands = [known(x) for x in op.operands]
    return None if any(x is None for x in operands) else np.asarray(op.evaluate(operands, _no_regions)[0])


def _no_regions(*_: Any) -> Any:
    raise AssertionError("elementwise ops and views have no regions")


# --- finding


def _match(op: tensor.Contract) -> _FoundProduct | None:
    spec = tensor.ContractSpec(op.spec)
    for x, letters, w, weight_letters in ((op.a, spec.a, op.b, spec.b), (op.b, spec.b, op.a, spec.a)):
        weight = _weight(w)
        image = None if weight is None else _bytes_of(x)
        if image is None or weight is None or image.scale.size != 1:
            continue
        array, scales = weight
        contracted = tuple(i for i, c in enumerate(weight_letters) if c in spec.contracted)
        first = scales[tuple(slice(0, 1) if i in contracted else slice(None) for i in range(scales.ndim))]
        word_letter = _word_letter(spec, x, letters, array, weight_letters)
        if word_letter is None or not (scales == first).all() or np.prod([array.shape[i] for i in contracted]) > MOST_STEPS:
            continue
        return _FoundProduct(spec, letters, image, array, first, weight_letters, word_letter)
    return None


def _steps(value: Value) -> tuple[Value, Array, int] | None:
    """mul(sub(cast(q), z), s)  ->  q, s, z    of bytes q and a number z"""
    scaled = value.producer(tensor.Map)
    if scaled is None or scaled.fn != "mul":
        return None
    steps = scaled.xs[0].producer(tensor.Map)
    shifted = steps if steps is not None and steps.fn == "sub" else None
    if shifted is not None:
        steps = shifted.xs[0].producer(tensor.Map)
    if steps is None or steps.fn != "cast" or element_type(steps.xs[0].type) != i8:
        return None
    scale, point = known(scaled.xs[1]), np.zeros(1) if shifted is None else known(shifted.xs[1])
    if scale is None or point is None or point.size != 1:
        return None
    return steps.xs[0], scale, int(point.reshape(-1)[0])


def _behind(value: Value) -> tuple[Value, tuple[Op, ...]]:
    """What `value` is views of, the innermost first."""
    views: list[Op] = []
    op = value.producer()
    while isinstance(op, _VIEWS):
        views.insert(0, op)
        value = op.operands[0]
        op = value.producer()
    return value, tuple(views)


def _bytes_of(value: Value) -> _Bytes | None:
    source, views = _behind(value)
    found = _steps(source)
    if found is None or any(isinstance(v, tensor.Pad) and v.value != 0 for v in views):
        return None
    steps, scale, zero = found
    return _Bytes(steps, views, scale.reshape(-1), zero)


def _weight(value: Value) -> tuple[Array, Array] | None:
    """The bytes of constant weights as the contract takes them, and for each its scale."""
    source, views = _behind(value)
    found = _steps(source)
    constant = None if found is None else found[0].producer(tensor.Constant)
    if found is None or constant is None or found[2] != 0:
        return None
    array, scales = constant.value.array, np.broadcast_to(found[1], constant.value.array.shape)
    for view in views:
        array, scales = (view.evaluate([x], _no_regions)[0] for x in (array, scales))
    return array, scales


def _word_letter(spec: tensor.ContractSpec, x: Value, letters: str, weight: Array, weight_letters: str) -> str | None:
    """The contracted letter that words of bytes run along: channels of an image, or the only contracted axis that is longer than 1."""
    sizes = dict(zip(weight_letters, weight.shape, strict=True))
    outputs = [c for c in spec.out if c in weight_letters and c not in letters and sizes[c] != 1]
    batch = [c for c in spec.batch if sizes[c] != 1]
    if not outputs:
        return None
    window = x.producer(tensor.Window)
    if window is None:
        last = next(c for c in reversed(spec.out) if c in letters or sizes[c] != 1)
        contracted = [c for c in spec.contracted if sizes[c] != 1]
        return contracted[0] if last in outputs and not batch and len(contracted) == 1 else None
    rank = len(shape_of(window.x))
    channels = [c for i, c in enumerate(letters[:rank]) if c in spec.contracted and i not in window.axes]
    if len(channels) != 1 or not all(letters[a] in spec.out and letters[a] not in weight_letters for a in window.axes):
        return None
    (word_letter,) = channels
    if batch and (sizes[word_letter] % BYTES or sizes[word_letter] < LEAST_GROUP or min(sizes[c] for c in outputs) < LEAST_GROUP):
        return None
    return word_letter


def _rows(op: tensor.Contract, found: _FoundProduct) -> int:
    """About how many rows of activations meet the weights."""
    return estimate(product(size for c, size in zip(found.spec.out, shape_of(op.result), strict=True) if c not in found.weight_letters))


# --- rewriting


def _restore_weight(op: tensor.Map) -> None:
    """Steps of constant weights that a product of floats takes are those floats: not made anew in every run."""
    found = _steps(op.result)
    constant = None if found is None else found[0].producer(tensor.Constant)
    if found is not None and constant is not None:
        steps, scale, zero = constant.value.array, found[1], found[2]
        op.replace_with(Builder.before_op(op)(tensor.Constant, value=Dense((steps.astype(np.float32) - np.float32(zero)) * scale)))


def _rewrite(op: tensor.Contract, found: _FoundProduct, unsigned: dict[tuple[Value, ScalarType], Value], kind: ScalarType) -> None:
    b = Builder.before_op(op)
    steps = found.image.steps
    if (steps, kind) not in unsigned:
        unsigned[steps, kind] = _without_sign(Builder.after_op(steps.owner) if isinstance(steps.owner, Op) else b, steps, kind)
    more = -found.weight.shape[found.weight_letters.index(found.word_letter)] % (BYTES // kind.bytes)
    weight = (
        np.pad(found.weight, [(0, more if c == found.word_letter else 0) for c in found.weight_letters])
        if more
        else np.ascontiguousarray(found.weight)
    )
    weight = weight if kind == u8 else weight.astype(np.int16)
    image, letters = _image(b, found, unsigned[steps, kind], more)
    spec = f"{letters},{found.weight_letters}->{found.spec.out}"
    sums = b(tensor.Contract, image, b(tensor.Constant, value=Dense.taking(weight)), spec=spec, dtype=i32)
    zero = found.image.zero + SHIFT
    if zero:
        sums = b(
            tensor.Map, sums, _per_channel(b, found, -zero * weight.sum(axis=_contracted(found), dtype=np.int32, keepdims=True)), fn="add"
        )
    made = b(tensor.Map, sums, fn="cast", dtype=f32)
    factor = _per_channel(b, found, (found.scales.astype(np.float64) * float(found.image.scale[0])).astype(np.float32))
    bias = op.result.users[0] if len(op.result.uses) == 1 else None
    if isinstance(bias, tensor.Map) and bias.fn == "add" and known(other := bias.xs[bias.xs[0] is op.result]) is not None:
        # The product with the scales and the bias is rounded once.
        bias.replace_with(Builder.before_op(bias)(tensor.Map, made, factor, other, fn="fma"))
    else:
        op.replace_with(b(tensor.Map, made, factor, fn="mul"))


def _contracted(found: _FoundProduct) -> tuple[int, ...]:
    return tuple(i for i, c in enumerate(found.weight_letters) if c in found.spec.contracted)


def _per_channel(b: Builder, found: _FoundProduct, numbers: Array) -> Value:
    """Numbers by the weight's letters, with contracted ones of size 1, as a constant that runs along the same letters of the result."""
    kept = [c for c in found.spec.out if c in found.weight_letters]
    squeezed = numbers.reshape([n for i, n in enumerate(numbers.shape) if i not in _contracted(found)])
    order = [c for c in found.weight_letters if c not in found.spec.contracted]
    channels_last = squeezed.transpose([order.index(c) for c in kept])
    sizes = iter(channels_last.shape)
    shape = [next(sizes) if c in kept else 1 for c in found.spec.out]
    made: Value = b(tensor.Constant, value=Dense(np.ascontiguousarray(channels_last).reshape(shape)))
    return made


def _round_before_pool(op: tensor.Map) -> bool:
    """steps(k max of windows of x)  ->  max of windows of steps(k x)    the same ones, since steps grow with x: what the windows read is
    bytes then. Whether it was done.
    """
    rounded = _rounding(op.result) if element_type(op.result.type) == i8 else None
    scaled = None if rounded is None else rounded[0].producer(tensor.Map)
    if rounded is None or scaled is None or scaled.fn != "mul":
        return False
    k, pool = known(scaled.xs[1]), _max_pool(scaled.xs[0])
    if k is None or k.size != 1 or not k > 0 or pool is None or any(isinstance(v, tensor.Pad) and v.value != -math.inf for v in pool[1]):
        return False
    x, views = pool
    _, zero, low, high = rounded
    b = Builder.before_op(op)
    y: Value = b(tensor.Map, b(tensor.Map, x, scaled.xs[1], fn="mul"), fn="round")
    for fn, number in (("add", zero), ("max", low), ("min", high)):
        y = b(tensor.Map, y, _number(b, number, f32), fn=fn)
    y = b(tensor.Map, y, fn="cast", dtype=i8)
    for view in views:
        y = _again(b, view, y, low)
    op.replace_with(y)
    return True


def _max_pool(value: Value) -> tuple[Value, tuple[Op, ...]] | None:
    """What `value` has the maxima of windows of, and the ops in between, the innermost first, which nobody else reads: a pad, perhaps,
    windows, maxima.
    """
    pool = value.producer(tensor.Reduce)
    window = None if pool is None or pool.fn != "max" else pool.x.producer(tensor.Window)
    if pool is None or window is None:
        return None
    pad = window.x.producer(tensor.Pad)
    views: tuple[Op, ...] = (window, pool) if pad is None else (pad, window, pool)
    return None if any(len(view.result.uses) > 1 for view in views) else (views[0].operands[0], views)


def _without_sign(b: Builder, steps: Value, kind: ScalarType) -> Value:
    """Steps counted from -128, as numbers of this kind. What rounds numbers to steps is written anew, and never makes any with a sign."""
    pool = _max_pool(steps)
    if pool is not None:
        x, views = pool
        largest = _without_sign(b, x, kind)
        for view in views:
            largest = _again(b, view, largest, view.value + SHIFT if isinstance(view, tensor.Pad) else 0)
        return largest
    rounded = _rounding(steps)
    if rounded is None:
        made: Value = b(tensor.Map, b(tensor.Map, steps, fn="cast", dtype=kind), _number(b, SHIFT, kind), fn="xor" if kind == u8 else "add")
        return made
    x, zero, low, high = rounded
    x = _scaled(b, x)
    # Both ends are whole numbers, so that it is the same to clip first.
    if not (low - zero <= 0 and _is_positive(x)):
        x = b(tensor.Map, x, _number(b, low - zero, f32), fn="max")
    x = b(tensor.Map, x, _number(b, high - zero, f32), fn="min")
    whole = b(tensor.Map, b(tensor.Map, x, fn="round"), fn="cast", dtype=i32)
    if zero + SHIFT:
        whole = b(tensor.Map, whole, _number(b, zero + SHIFT, i32), fn="add")
    made = b(tensor.Map, whole, fn="cast", dtype=kind)
    return made


def _read_without_sign(steps: Value, unsigned: Value) -> None:
    """cast(q) - z  ->  cast(u) - (z + 128)    where numbers are made of the steps q that are in memory as u, for products."""
    for cast in [
        user for user in steps.users if isinstance(user, tensor.Map) and user.fn == "cast" and element_type(user.result.type) == f32
    ]:
        b = Builder.before_op(cast)
        whole: Value = b(tensor.Map, unsigned, fn="cast", dtype=f32)
        reader, zero = cast.result.users[0] if len(cast.result.users) == 1 else None, None
        if isinstance(reader, tensor.Map) and reader.fn == "sub" and reader.xs[0] is cast.result:
            zero = known(reader.xs[1])
        if reader is None or zero is None or zero.size != 1:
            cast.replace_with(b(tensor.Map, whole, _number(b, SHIFT, f32), fn="sub"))
            continue
        more = float(zero.reshape(-1)[0]) + SHIFT
        reader.replace_with(b(tensor.Map, whole, _number(b, more, f32), fn="sub") if more else whole)


def _scaled(b: Builder, x: Value) -> Value:
    """k y  with k in the factors and biases that y is made with (`_times`); elsewhere k becomes a number per channel, as factors are.

    Either way the kernels of equal layers are the same ones, whatever their scales.
    """
    scaled = x.producer(tensor.Map)
    if scaled is None or scaled.fn != "mul":
        return x
    k, y = known(scaled.xs[1]), scaled.xs[0]
    product = _product_behind(y)
    if k is None or k.size != 1 or not k > 0 or product is None:
        return x
    shape = shape_of(product.xs[1])
    made: Value = _times(b, y, k, shape) or b(tensor.Map, y, _numbers(b, k, shape), fn="mul")
    return made


def _times(b: Builder, y: Value, k: Array, shape: tuple[Any, ...]) -> Value | None:
    """relu(sums * factor + bias + residual * step) * k  ->  relu(residual * (step k) + (sums * (factor k) + bias k))    with any of these
    parts left out, numbers of `shape`.
    None where there is something else, or somebody else who reads a sum. (A residual may be read by others: it is bytes in memory.)"""
    op = y.producer(tensor.Map)
    if op is None or (len(y.uses) > 1 and not _is_stepped(op)):
        return None
    if op.fn == "max" and _is_zero(op.xs[1]):
        inside = _times(b, op.xs[0], k, shape)
        return None if inside is None else b(tensor.Map, inside, op.xs[1], fn="max")
    if op.fn == "add":
        parts = [_times(b, part, k, shape) for part in op.xs]
        one, other = parts
        if one is None or other is None:
            return None
        for part, rest in ((other, one), (one, other)):
            factor = part.producer(tensor.Map)
            if factor is not None and factor.fn == "mul":
                return b(tensor.Map, *factor.xs, rest, fn="fma")
        return b(tensor.Map, one, other, fn="add")
    numbers = [known(x) for x in op.xs[1:]] if op.fn in ("mul", "fma") else [None]
    if any(n is None for n in numbers):
        return None
    return b(tensor.Map, op.xs[0], *(_numbers(b, n * k, shape) for n in numbers if n is not None), fn=op.fn)


def _is_stepped(op: tensor.Map) -> bool:
    """Whether it makes numbers of bytes: cast(q) * step or (cast(q) - z) * step."""
    return op.fn == "mul" and _steps(op.result) is not None


def _numbers(b: Builder, numbers: Array, shape: tuple[Any, ...]) -> Value:
    """A constant of `shape`: these numbers, or one number everywhere."""
    made: Value = b(
        tensor.Constant,
        value=Dense(np.ascontiguousarray(np.full(shape, numbers, np.float32) if numbers.size == 1 else numbers.astype(np.float32))),
    )
    return made


def _is_zero(x: Value) -> bool:
    array = known(x)
    return array is not None and not array.any()


def _product_behind(y: Value) -> tensor.Map | None:
    """The product of an integer contract with its scales that `y` is made from element by element."""
    pending, seen = [y], set()
    while pending:
        op = pending.pop().producer(tensor.Map)
        if op is None or op in seen:
            continue
        seen.add(op)
        cast = op.xs[0].producer(tensor.Map) if op.fn in ("mul", "fma") else None
        if cast is not None and cast.fn == "cast" and element_type(cast.xs[0].type) == i32 and known(op.xs[1]) is not None:
            return op
        pending += [v for v in op.xs if shape_of(v) == shape_of(y)]
    return None


def _number(b: Builder, value: float, dtype: Any) -> Value:
    made: Value = b(tensor.Full, value=value, dtype=dtype)
    return made


def _rounding(steps: Value) -> tuple[Value, int, int, int] | None:
    """cast(min(max(round(x) + zero, low), high))  ->  x, zero, low, high"""
    ends: list[int] = []
    op = steps.producer(tensor.Map)
    if op is None or op.fn != "cast":
        return None
    op = op.xs[0].producer(tensor.Map)
    for fn in ("min", "max", "add"):
        if op is not None and op.fn == fn:
            number = known(op.xs[1])
            if number is None or number.size != 1 or not float(number.reshape(-1)[0]).is_integer():
                return None
            ends.append(int(number.reshape(-1)[0]))
            op = op.xs[0].producer(tensor.Map)
        elif fn == "add":
            ends.append(0)
        else:
            return None
    if op is None or op.fn != "round" or element_type(op.result.type) != f32:
        return None
    high, low, zero = ends
    return op.xs[0], zero, low, high


def _is_positive(x: Value) -> bool:
    """Whether x is a relu's result, or a positive multiple of one."""
    op = x.producer(tensor.Map)
    if op is not None and op.fn == "mul":
        factor = known(op.xs[1])
        return factor is not None and bool((factor > 0).all()) and _is_positive(op.xs[0])
    bound = known(op.xs[1]) if op is not None and op.fn in ("max", "min") else None
    if op is None or bound is None:
        return False
    return bool((bound >= 0).all()) and (op.fn == "max" or _is_positive(op.xs[0]))


def _image(b: Builder, found: _FoundProduct, x: Value, more: int) -> tuple[Value, str]:
    """The activations as the contract takes them and their letters: channels last, with `more` of them whose weights are 0."""
    views = found.image.views
    filling = found.image.zero + SHIFT
    if not views or not isinstance(views[-1], tensor.Window):
        for view in views:
            x = _again(b, view, x, filling)
        return _widened(b, x, found.letters.index(found.word_letter), more), found.letters
    window = views[-1]
    around = len(views) - 1
    while around and isinstance(views[around - 1], tensor.Pad):
        around -= 1
    for view in views[:around]:
        x = _again(b, view, x, filling)
    rank = len(shape_of(x))
    channel = found.letters.index(found.word_letter)
    perm = (*(i for i in range(rank) if i != channel), channel)
    x = _widened(b, b(tensor.Transpose, x, perm=perm), rank - 1, more)
    for pad in views[around:-1]:
        assert isinstance(pad, tensor.Pad)
        low, high, interior = (tuple(amounts[i] for i in perm) for amounts in (pad.low, pad.high, pad.interior))
        x = b(tensor.Pad, x, low=low, high=high, interior=interior, value=filling)
    axes = tuple(perm.index(a) for a in window.axes)
    made = b(tensor.Window, x, axes=axes, sizes=window.sizes, strides=window.strides, dilations=window.dilations)
    return made, "".join(found.letters[i] for i in perm) + found.letters[rank:]


def _again(b: Builder, view: Op, x: Value, filling: int) -> Value:
    """A view of bytes in place of floats."""
    attributes = dict(view.attributes)
    if isinstance(view, tensor.Pad):
        attributes["value"] = filling
    made: Value = b(type(view), x, **attributes)
    return made


def _widened(b: Builder, x: Value, axis: int, more: int) -> Value:
    if not more:
        return x
    none = (0,) * len(shape_of(x))
    made: Value = b(tensor.Pad, x, low=none, high=(*none[:axis], more, *none[axis + 1 :]), interior=none, value=0)
    return made
