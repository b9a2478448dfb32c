"""Channels last: image networks run in [N, H, W, C] inside, whatever their inputs and outputs are.

With channels contiguous a 1x1 convolution is a plain matrix product over all pixels. What follows a convolution has lanes along channels,
as the product has. A depthwise convolution is elementwise along them.

So every convolution gives its channels last, which is another order of letters of a contract. The transposes behind it are sunk through all
that follows: elementwise ops, pads, windows, reductions, concatenations, slices, reshapes. Most meet the next convolution, which absorbs
them as its own order of letters. The others stay at results of the function, and where axes are joined in an order that is not the
memory's.

Vectors along channels become [1, 1, 1, C], which costs nothing. Images from outside are read as they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir import config
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, element_type, i16
from polyreme.lowering.analysis.axes import matching_groups
from polyreme.lowering.analysis.estimates import FOLDED_ELEMENTS, estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.instructions import FEW_CHANNELS, WIDEST_LANES
from polyreme.lowering.machines.step_costs import STEP_COSTS
from polyreme.lowering.transforms.dilation import without_dilation
from polyreme.lowering.transforms.grouped_convolutions import larger_groups
from polyreme.lowering.transforms.pixel_blocks import pixel_blocks

Axes = tuple[int, ...]

# Products that a convolution over rows of unknown length sums up where a few channels pay: elsewhere each pixel is a sum of its own.
DEEP = 128



@register_pass
@dataclass(frozen=True)
class ChannelsLast(FuncPass):
    """contract(window(x), w): NCabmn,OCmn->NOab  ->  transpose(contract(window(transpose(x)), w): NabCmn,OCmn->NabO), and transposes sunk
    through ops behind it

    Before and after: `tensor` ops on values.  Only in functions where most of the work is in convolutions with at least `channels` output
    channels (depthwise ones: 16). With few channels, lanes along a row of pixels do better. Functions that return all that they compute,
    such as halves of training steps, stay as they are, and so do whole steps without much for Winograd's algorithm. Runs before reshapes
    are sunk and before fusion, which find longer chains afterwards. With `blocks`, convolutions with very few channels compute several
    pixels at once. With `row_windows` the target has a kernel for depthwise convolutions along rows of pixels, so that one of them alone is
    better left as it is.

    Groups of fewer channels than lanes of the widest vectors are no axis to have lanes along.
    """

    name: ClassVar[str] = "channels-last"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    channels: int = 32
    blocks: bool = True
    row_windows: bool = False

    def run_on(self, func: Func) -> None:
        if self._pays(func):
            _LayoutConverter(func, self.blocks).run()

    def _pays(self, func: Func) -> bool:
        """Whether most multiply-adds are in convolutions that win by it, as those of bytes always do."""
        if "state" in func.arg_roles:
            return self.blocks and config.winograd() and self._step_pays(func)
        wins = others = made = 0.0
        for op in func.block:
            if isinstance(op, tensor.Contract) and op.dtype is not None and _windowed(op):
                return True
            if isinstance(op, tensor.Fold):
                return False
            if not isinstance(op, tensor.Contract) or not _windowed(op):
                continue
            conv = _conv_of(op)
            if conv is None:
                # A gradient: it sums over the places of windows.
                return False
            sizes = conv.spec.sizes(shape_of(op.a), shape_of(op.b))
            work = estimate(product(sizes.values()))
            # Depthwise ones pay as soon as a vector is full: pixels of a row share no loads of theirs.
            alone = all(sizes[c] == 1 for c in conv.spec.contracted if c not in conv.taps)
            # Lanes along pixels a stride apart would gather, which costs more than transposing the result back. So do long sums along rows
            # of unknown length, which the kernels for planar images do not take.
            unknown = not isinstance(shape_of(op.result)[conv.spec.out.index(conv.places[-1])], int)
            strided = any(w.strides[-1:] not in ((), (1,)) for x in op.operands if (w := _windows(x)) is not None)
            summed = estimate(product(sizes[c] for c in conv.spec.contracted))
            shared = [c for c in conv.channels if c in conv.spec.a and c in conv.spec.b]
            grouped = any(sizes[c] != 1 for c in shared)
            of_group = [sizes[c] for c in (*conv.spec.contracted, *conv.channels) if c not in conv.taps and c not in shared]
            few = grouped and all(isinstance(n, int) and n <= FEW_CHANNELS for n in of_group)
            rows = (alone or few) and self.row_windows
            apart = not rows and ((strided and (alone or unknown)) or (unknown and (alone or (summed >= DEEP and not grouped))))
            many = estimate(product(shape_of(op.result)[conv.spec.out.index(c)] for c in conv.channels)) >= (
                min(FEW_CHANNELS, self.channels) if apart and unknown else min(WIDEST_LANES, self.channels) if alone else self.channels
            )
            made += estimate(product(shape_of(op.result))) * (3 if apart else 1)
            wins, others = wins + work * many, others + work * (not many)
        returned = sum(
            estimate(product(shape_of(v))) for v in func.block.terminator.operands if len(shape_of(v)) > 2 and not _moves_channels_last(v)
        )
        return wins > others and 2 * returned < made


    def _step_pays(self, func: Func) -> bool:
        """The same of a whole step of training: it wins by the convolutions that Winograd's algorithm takes then, and loses a little by
        sums over the places of windows, more where each channel has sums of its own.
        """
        wins = others = 0.0
        for op in func.block:
            if not isinstance(op, tensor.Contract) or not _windowed(op):
                continue
            spec = tensor.ContractSpec(op.spec)
            sizes = spec.sizes(shape_of(op.a), shape_of(op.b))
            if any(c in spec.a and c in spec.b and size != 1 for c, size in sizes.items() if c in spec.out):
                return False
            conv = _conv_of(op)
            taken = False
            if conv is not None:
                window = _windows(op.a if conv.windows_are_a else op.b)
                summed = [sizes[c] for c in spec.contracted if c not in conv.taps]
                taken = (
                    window is not None
                    and window.sizes == (3, 3)
                    and window.strides == (1, 1)
                    and estimate(product(sizes[c] for c in conv.places)) >= STEP_COSTS.winograd_places
                    and min(map(estimate, (product(summed), product(sizes[c] for c in conv.channels)))) >= self.channels
                )
            work = estimate(product(sizes.values()))
            wins, others = wins + work * taken, others + work * (not taken)
        return wins > STEP_COSTS.channels_last * others


def _moves_channels_last(value: Value) -> bool:
    """Whether a value is another one with its channels last, which then need not be moved back."""
    op = value.producer(tensor.Transpose)
    return op is not None and op.perm == (0, *range(2, len(op.perm)), 1)


class _Conv(NamedTuple):
    """A convolution: which operand has the windows, and the letters of its places, of its taps, and of the result's channels."""

    spec: tensor.ContractSpec
    windows_are_a: bool
    places: str
    taps: str
    channels: str


def _windowed(op: tensor.Contract) -> bool:
    return any(_windows(x) for x in op.operands)


def _windows(value: Value) -> tensor.Window | None:
    """The windows that a value is; None for windows along no axis, which are their operand."""
    op = value.producer(tensor.Window)
    return op if op is not None and op.axes else None


def _conv_of(op: tensor.Contract) -> _Conv | None:
    """The contract as a convolution of windows by weights, or None."""
    spec = tensor.ContractSpec(op.spec)
    for value, letters, other in ((op.a, spec.a, spec.b), (op.b, spec.b, spec.a)):
        window = _windows(value)
        if window is None:
            continue
        places = "".join(letters[axis] for axis in window.axes)
        taps = letters[len(shape_of(window.x)) :]
        if all(c in spec.out and c not in other for c in places) and all(c in spec.contracted for c in taps):
            channels = "".join(c for c in spec.out if c in other)
            return _Conv(spec, value is op.a, places, taps, channels)
    return None


class _Version(NamedTuple):
    """A value in another order of axes: what it stands for is `transpose(value, perm)`."""

    value: Value
    perm: Axes


class _LayoutConverter:
    """One walk through a function, which makes convolutions channels-last and carries the new order along."""

    def __init__(self, func: Func, blocks: bool):
        self.func = func
        self.blocks = blocks
        self.versions: dict[Value, _Version] = {}
        self.channels_first: dict[Value, Value] = {}
        self.replaced: list[Op] = []

    def run(self) -> None:
        for op in self.func.block:
            b = Builder.before_op(op)
            rule = _RULES.get(type(op))
            made = rule(self, op, b) if rule is not None else None
            if made is None:
                self._keep(op, b)
                continue
            made.value.name = made.value.name or op.results[0].name
            if made.perm == tuple(range(len(made.perm))):
                op.results[0].replace_all_uses_with(made.value)
            else:
                self.versions[op.results[0]] = made
            self.replaced.append(op)
        for op in reversed(self.replaced):
            op.erase()

    def _keep(self, op: Op, b: Builder) -> None:
        """Leave an op as it is, on values in their own order."""
        for i, x in enumerate(op.operands):
            if x in self.versions:
                op.set_operand(i, self.plain(x, b))

    # --- values in one order or the other

    def plain(self, x: Value, b: Builder) -> Value:
        """`x` in its own order of axes."""
        if x not in self.versions:
            return x
        if x not in self.channels_first:
            self.channels_first[x] = _transposed(b, *self.versions[x])
        return self.channels_first[x]

    def ordered(self, x: Value, perm: Axes, b: Builder) -> Value:
        """What `x` is the transpose of by `perm`."""
        version = self.versions.get(x, _Version(x, tuple(range(len(perm)))))
        return _transposed(b, version.value, tuple(version.perm[i] for i in inverse(perm)))

    def version(self, x: Value) -> _Version | None:
        """`x` in another order, if there is one already. Bytes and 16-bit integers are always converted: products read some channels as one
        word.
        """
        if x in self.versions:
            return self.versions[x]
        source = x.producer(tensor.Transpose)
        kind = element_type(x.type)
        return None if source is None or kind.bits == 8 or kind == i16 else _Version(source.x, source.perm)

    def leading(self, values: Sequence[Value]) -> Axes | None:
        """The order in which an op of these operands is computed; None to leave it in its own: the order that most elements have already.
        """
        weights: dict[Axes | None, float] = {}
        for x in values:
            if isinstance(x.producer(), (tensor.Constant, tensor.Full)) or not shape_of(x):
                continue
            version = self.versions.get(x)
            count = estimate(product(shape_of(x)))
            weights[version.perm if version else None] = weights.get(version.perm if version else None, 0) + count
        return max(weights, key=lambda perm: (weights[perm], perm is not None)) if weights else None


def inverse(perm: Axes) -> Axes:
    """The permutation that undoes `perm`."""
    return tuple(sorted(range(len(perm)), key=lambda i: perm[i]))


def _reshaped(b: Builder, x: Value, shape: tuple[Dim, ...]) -> Value:
    """`x` in another shape, through reshapes that made it."""
    source = x.producer(tensor.Reshape)
    if source is not None:
        x = source.x
    number = x.producer(tensor.Full)
    if number is not None:
        full: Value = b(tensor.Full, value=number.value, shape=shape, dtype=number.dtype)
        return full
    made: Value = x if shape_of(x) == shape else b(tensor.Reshape, x, shape=shape)
    return made


def _transposed(b: Builder, x: Value, perm: Axes) -> Value:
    """The transpose, of what `x` is the transpose of; for nothing where sizes of 1 move or a constant is small."""
    source = x.producer(tensor.Transpose)
    if source is not None:
        x, perm = source.x, tuple(source.perm[i] for i in perm)
    shape = shape_of(x)
    long = [p for p in perm if shape[p] != 1]
    if long == sorted(long):
        return _reshaped(b, x, tuple(shape[p] for p in perm))
    constant = x.producer(tensor.Constant)
    if constant is not None and constant.value.size <= FOLDED_ELEMENTS:
        folded: Value = b(tensor.Constant, value=Dense(np.ascontiguousarray(constant.value.array.transpose(perm))))
        return folded
    made: Value = b(tensor.Transpose, x, perm=perm)
    return made


# --- rules: what an op becomes when operands come in another order; None to leave it as it is

_Rule = Callable[[_LayoutConverter, Any, Builder], _Version | None]
_RULES: dict[type[Op], _Rule] = {}


def _rule(*kinds: type[Op]) -> Callable[[_Rule], _Rule]:
    def note(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return note


def _moved(values: Sequence[Any], perm: Axes) -> tuple[Any, ...]:
    """A list with one entry per axis, for the axes in the version's order."""
    return tuple(values[i] for i in inverse(perm))


@_rule(tensor.Map)
def _map(converter: _LayoutConverter, op: tensor.Map, b: Builder) -> _Version | None:
    perm = converter.leading(op.xs)
    if perm is None or len(perm) != len(shape_of(op.result)):
        return None
    operands = [converter.ordered(x, perm, b) if shape_of(x) else x for x in op.xs]
    return _Version(_lanes_over_groups(b, operands, op), perm)


def _lanes_over_groups(b: Builder, xs: Sequence[Value], op: tensor.Map) -> Value:
    """The op on operands in another order. Where channels stand in groups of few, what is known of each group is written out for its
    channels, so that lanes run along all of them.
    """
    shape = _common([shape_of(x) for x in xs])
    groups, few = shape[-2:] if len(shape) > 2 else (1, 1)
    if not (isinstance(groups, int) and isinstance(few, int) and 1 < few < WIDEST_LANES <= groups * few) or all(
        shape_of(x)[-1:] in ((), (few,)) for x in xs
    ):
        return b(tensor.Map, *xs, **op.attributes)
    flat = []
    for x in xs:
        own = shape_of(x)
        if own[-2:] not in ((), (1, 1), (groups, few)):
            x = b(tensor.Broadcast, x, shape=(*own[:-2], groups, few))
        flat.append(_reshaped(b, x, (*own[:-2], product(shape_of(x)[-2:]))) if own else x)
    made = b(tensor.Map, *flat, **op.attributes)
    return b(tensor.Reshape, made, shape=shape)


def _common(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape of an op on operands of these, sizes of 1 repeated."""
    rank = max(map(len, shapes))
    return tuple(next((n for shape in shapes if len(shape) == rank and (n := shape[i]) != 1), 1) for i in range(rank))


@_rule(tensor.Concat)
def _concat(converter: _LayoutConverter, op: tensor.Concat, b: Builder) -> _Version | None:
    perm = converter.leading(op.xs)
    if perm is None:
        return None
    return _Version(b(tensor.Concat, [converter.ordered(x, perm, b) for x in op.xs], axis=perm[op.axis]), perm)


@_rule(tensor.Pad)
def _pad(converter: _LayoutConverter, op: tensor.Pad, b: Builder) -> _Version | None:
    version = converter.version(op.x)
    if version is None:
        return None
    x, perm = version
    low, high, interior = (_moved(amounts, perm) for amounts in (op.low, op.high, op.interior))
    return _Version(b(tensor.Pad, x, low=low, high=high, interior=interior, value=op.value), perm)


@_rule(tensor.Slice)
def _slice(converter: _LayoutConverter, op: tensor.Slice, b: Builder) -> _Version | None:
    if op.x not in converter.versions:
        return None
    x, perm = converter.versions[op.x]
    starts, stops, strides = (_moved(numbers, perm) for numbers in (op.starts, op.stops, op.strides))
    return _Version(b(tensor.Slice, x, starts=starts, stops=stops, strides=strides), perm)


@_rule(tensor.Reverse)
def _reverse(converter: _LayoutConverter, op: tensor.Reverse, b: Builder) -> _Version | None:
    if op.x not in converter.versions:
        return None
    x, perm = converter.versions[op.x]
    return _Version(b(tensor.Reverse, x, axes=tuple(sorted(perm[a] for a in op.axes))), perm)


@_rule(tensor.Broadcast)
def _broadcast(converter: _LayoutConverter, op: tensor.Broadcast, b: Builder) -> _Version | None:
    if op.x not in converter.versions:
        return None
    x, perm = converter.versions[op.x]
    return _Version(b(tensor.Broadcast, x, shape=_moved(op.shape, perm)), perm)


@_rule(tensor.Window)
def _window(converter: _LayoutConverter, op: tensor.Window, b: Builder) -> _Version | None:
    version = converter.version(op.x)
    if version is None:
        return None
    x, perm = version
    made = b(tensor.Window, x, axes=tuple(perm[a] for a in op.axes), sizes=op.sizes, strides=op.strides, dilations=op.dilations)
    return _Version(made, (*perm, *range(len(perm), len(shape_of(op.result)))))


@_rule(tensor.Reduce)
def _reduce(converter: _LayoutConverter, op: tensor.Reduce, b: Builder) -> _Version | None:
    if op.x not in converter.versions:
        return None
    x, perm = converter.versions[op.x]
    axes = tuple(sorted(perm[a] for a in op.axes))
    last, few = len(perm) - 1, shape_of(x)[-1]
    if last in axes and last - 1 not in axes and len(axes) > 1 and isinstance(few, int) and few < WIDEST_LANES:
        # Over all but the channels of a group, with lanes along all channels; then what is left of each group.
        x, axes = b(tensor.Reduce, x, fn=op.fn, axes=axes[:-1], keepdims=True), axes if not op.keepdims else (last,)
    made = b(tensor.Reduce, x, fn=op.fn, axes=axes, keepdims=op.keepdims)
    return _Version(made, perm if op.keepdims else _without(perm, op.axes))


@_rule(tensor.ArgReduce)
def _arg_reduce(converter: _LayoutConverter, op: tensor.ArgReduce, b: Builder) -> _Version | None:
    if op.x not in converter.versions:
        return None
    x, perm = converter.versions[op.x]
    made = b(tensor.ArgReduce, x, fn=op.fn, axis=perm[op.axis], keepdims=op.keepdims, dtype=op.dtype)
    return _Version(made, perm if op.keepdims else _without(perm, (op.axis,)))


def _without(perm: Axes, axes: Axes) -> Axes:
    """The permutation of the axes that are left."""
    left = [p for i, p in enumerate(perm) if i not in axes]
    return tuple(sorted(left).index(p) for p in left)


@_rule(tensor.Gather)
def _gather(converter: _LayoutConverter, op: tensor.Gather, b: Builder) -> _Version | None:
    if op.x not in converter.versions or len(shape_of(op.index)) != 1:
        return None
    x, perm = converter.versions[op.x]
    made = b(tensor.Gather, x, converter.plain(op.index, b), axis=perm[op.axis], may_be_empty=op.may_be_empty, inside=op.inside)
    return _Version(made, perm)


@_rule(tensor.Transpose)
def _transpose(converter: _LayoutConverter, op: tensor.Transpose, b: Builder) -> _Version | None:
    if op.x not in converter.versions:
        # What a product, or a sum of its parts, gives pixel by pixel is as a convolution gives it.
        return _Version(op.x, op.perm) if _moves_channels_first(op) and _is_made_by_pixels(op.x) else None
    x, perm = converter.versions[op.x]
    return _Version(x, tuple(perm[i] for i in op.perm))


def _moves_channels_first(op: tensor.Transpose) -> bool:
    rank = len(op.perm)
    return rank > 2 and op.perm == (0, rank - 1, *range(1, rank - 1))


def _is_made_by_pixels(x: Value) -> bool:
    while isinstance(op := x.producer(), (tensor.Reshape, tensor.Slice)):
        x = op.x
    return isinstance(op, (tensor.Contract, tensor.Fold))


@_rule(tensor.Reshape)
def _reshape(converter: _LayoutConverter, op: tensor.Reshape, b: Builder) -> _Version | None:
    """Axes are split where they stand. Axes that are joined are brought together first, in the order in which they stand otherwise."""
    old, new = shape_of(op.x), shape_of(op.result)
    groups = [(before, after) for before, after in matching_groups(old, new)]
    # Where axes are only split, nothing is to be moved.
    version = converter.version(op.x) if all(len(before) == 1 for before, _ in groups) else converter.versions.get(op.x)
    if version is None:
        return None
    x, perm = version
    # Axes of size 1 that come or go alone may stand anywhere: with their neighbour in front.
    where = [
        min((perm[i] for i in before if old[i] != 1), default=min((perm[i] for i in before), default=len(perm))) for before, _ in groups
    ]
    order = sorted(range(len(groups)), key=lambda g: (where[g], g))
    together = [perm[i] for g in order for i in groups[g][0]]
    x = _transposed(b, x, tuple(together))
    made = _reshaped(b, x, tuple(new[i] for g in order for i in groups[g][1]))
    return _Version(made, inverse(tuple(i for g in order for i in groups[g][1])))


@_rule(tensor.Contract)
def _contract(converter: _LayoutConverter, op: tensor.Contract, b: Builder) -> _Version | None:
    """Operands in another order have their letters in another order; a convolution gives its channels last."""
    conv = _conv_of(op)
    spec = tensor.ContractSpec(op.spec)
    sides = []
    for x, letters in ((op.a, spec.a), (op.b, spec.b)):
        version = converter.versions.get(x)
        sides.append((x, letters) if version is None else (version.value, "".join(_moved(letters, version.perm))))
    if conv is None:
        if all(x not in converter.versions for x in op.operands):
            return None
        (a, letters_a), (c, letters_c) = sides
        return _Version(b(tensor.Contract, a, c, spec=f"{letters_a},{letters_c}->{spec.out}", dtype=op.dtype), tuple(range(len(spec.out))))
    image, weight = sides if conv.windows_are_a else reversed(sides)
    if op.dtype is None and _gives_one_each(conv, image, weight):
        return None
    if _is_depthwise(conv, image, weight) and not _channels_are_last(image, conv):
        image = _windows_channels_last(b, image[0], image[1], conv)
    return _convolution(b, conv, image, weight, op.dtype, converter.blocks)


def _is_depthwise(conv: _Conv, image: tuple[Value, str], weight: tuple[Value, str]) -> bool:
    """Whether nothing but the taps of windows is summed: each channel stays on its own."""
    sizes = dict(zip(weight[1], shape_of(weight[0]), strict=True))
    channels = [c for c in conv.channels if c in image[1]]
    return len(channels) == 1 and all(sizes.get(c) == 1 for c in conv.spec.contracted if c not in conv.taps)


def _gives_one_each(conv: _Conv, image: tuple[Value, str], weight: tuple[Value, str]) -> bool:
    """Whether a grouped convolution sums several channels to one for each group: lanes along the results would each read a place of their
    own, and those along pixels do not.
    """
    sizes = dict(zip(weight[1], shape_of(weight[0]), strict=True))
    summed = any(sizes.get(c) != 1 for c in conv.spec.contracted if c not in conv.taps)
    return (
        summed
        and any(c in image[1] and sizes[c] != 1 for c in conv.channels)
        and all(sizes[c] == 1 for c in conv.channels if c not in image[1])
    )


def _channels_are_last(image: tuple[Value, str], conv: _Conv) -> bool:
    """Whether the image under the windows has its places in order and its channels last, but for axes of size 1 that are summed over."""
    window = image[0].producer(tensor.Window)
    assert window is not None
    inside = [c for c, n in zip(image[1], shape_of(window.x), strict=False) if n != 1 or c not in conv.spec.contracted]
    return "".join(inside).endswith(conv.places + "".join(c for c in conv.channels if c in inside))


def _windows_channels_last(b: Builder, windows: Value, letters: str, conv: _Conv) -> tuple[Value, str]:
    """The windows of an image that comes with its channels in front, over the image with these last: a channel's pixels are no lanes of a
    vector, and each is read for many windows.
    """
    alone = "".join(
        c for c, n in zip(letters, shape_of(windows), strict=True) if n == 1 and c in conv.spec.contracted and c not in conv.taps
    )
    windows, letters = _narrowed(b, windows, letters, alone)
    window = windows.producer(tensor.Window)
    assert window is not None
    rank = len(shape_of(window.x))
    inside = letters[:rank]
    order = "".join(sorted(inside, key=lambda c: (c in conv.channels, conv.places.find(c))))
    to = tuple(inside.index(c) for c in order)
    pad = window.x.producer(tensor.Pad)
    x = _transposed(b, window.x if pad is None else pad.x, to)
    if pad is not None:
        x = b(tensor.Pad, x, low=_picked(pad.low, to), high=_picked(pad.high, to), interior=_picked(pad.interior, to), value=pad.value)
    made = b(
        tensor.Window,
        x,
        axes=tuple(order.index(inside[a]) for a in window.axes),
        sizes=window.sizes,
        strides=window.strides,
        dilations=window.dilations,
    )
    return made, order + letters[rank:]


def _picked(values: Sequence[Any], places: Axes) -> tuple[Any, ...]:
    return tuple(values[i] for i in places)


def _convolution(
    b: Builder, conv: _Conv, image: tuple[Value, str], weight: tuple[Value, str], dtype: ScalarType | None, blocks: bool
) -> _Version:
    """A convolution with the channels of its result last; `dtype` is the contract's."""
    out = conv.spec.out
    target_order = "".join(c for c in out if c not in conv.places + conv.channels) + conv.places + conv.channels
    perm = tuple(target_order.index(c) for c in out)
    sizes = {**dict(zip(weight[1], shape_of(weight[0]), strict=True)), **dict(zip(image[1], shape_of(image[0]), strict=True))}
    made = _product(b, image, weight, target_order, sizes, dtype)
    if made is None and dtype is None and blocks:
        made = (
            _in_blocks(b, conv, image, weight, target_order, sizes)
            or _in_larger_groups(b, conv, image, weight, target_order)
            or _without_dilation(b, conv, image, weight, target_order)
        )
    if made is None:
        grouped = any(c in image[1] for c in conv.channels)
        single = "".join(
            c
            for c in image[1] + weight[1]
            if sizes[c] == 1 and c not in conv.places + conv.taps and (c in conv.spec.contracted or c in conv.channels)
        )
        (x, letters), (w, letters_w) = image, weight
        if grouped and single:
            x, letters = _narrowed(b, x, letters, single)
            w, letters_w = _dropped(b, w, letters_w, single)
        short = "".join(c for c in target_order if c in letters + letters_w)
        made = b(tensor.Contract, x, w, spec=f"{letters},{letters_w}->{short}", dtype=dtype)
    return _Version(_reshaped(b, made, tuple(sizes[c] for c in target_order)), perm)


def _product(
    b: Builder, image: tuple[Value, str], weight: tuple[Value, str], out: str, sizes: dict[str, Dim], dtype: ScalarType | None
) -> Value | None:
    """A convolution that looks at single pixels as the product of a matrix with a row per pixel; None for any other."""
    window = image[0].producer(tensor.Window)
    assert window is not None
    if any(n != 1 for n in (*window.sizes, *window.strides)):
        return None
    rank = len(shape_of(window.x))
    letters, rows, lane = image[1][:rank], out[:-1], out[-1]
    if letters[:-1] != rows or letters[-1] in out or any(c in weight[1] for c in rows):
        return None
    order = "".join(c for c in weight[1] if c in (lane, letters[-1]))
    flat = _reshaped(b, window.x, (product(sizes[c] for c in rows), sizes[letters[-1]]))
    matrix = _reshaped(b, weight[0], tuple(sizes[c] for c in order))
    spec = f"r{letters[-1]},{order}->r{lane}".replace("r", _free_letter(order))
    return b(tensor.Contract, flat, matrix, spec=spec, dtype=dtype)


def _in_blocks(
    b: Builder, conv: _Conv, image: tuple[Value, str], weight: tuple[Value, str], out: str, sizes: dict[str, Dim]
) -> Value | None:
    """A convolution with few channels, several pixels of a row at once; None for any other."""
    window = image[0].producer(tensor.Window)
    assert window is not None
    letters, (w, letters_w) = image[1], weight
    if len(conv.channels) != 1 or conv.channels in letters or conv.taps[-1] not in letters_w or out[-2:] != conv.places[-1] + conv.channels:
        return None
    blocks = pixel_blocks(b, window, w, letters_w.index(conv.channels), letters_w.index(conv.taps[-1]))
    if blocks is None:
        return None
    made = b(tensor.Contract, blocks.windows, blocks.weight, spec=f"{letters},{letters_w}->{out}")
    *outer, count, _ = shape_of(made)
    shape = tuple(sizes[c] for c in out)
    rows = b(tensor.Reshape, made, shape=(*outer, count * blocks.pixels, shape[-1]))
    if shape_of(rows) == shape:
        return rows
    return b(tensor.Slice, rows, starts=(0,) * len(shape), stops=shape, strides=(1,) * len(shape))


def _in_larger_groups(b: Builder, conv: _Conv, image: tuple[Value, str], weight: tuple[Value, str], out: str) -> Value | None:
    """A convolution with few channels to a group, several groups at once; None for any other."""
    window = image[0].producer(tensor.Window)
    assert window is not None
    rank = len(shape_of(window.x))
    letters, inside = image[1], "".join(c for c in conv.spec.contracted if c not in conv.taps)
    if len(conv.channels) != 2 or len(inside) != 1 or letters[rank - 2 : rank] != conv.channels[0] + inside or out[-2:] != conv.channels:
        return None
    order = conv.channels + inside + conv.taps
    if any(axis >= rank - 2 for axis in window.axes) or sorted(order) != sorted(weight[1]):
        return None
    groups = larger_groups(b, window, weight[0], tuple(weight[1].index(c) for c in order))
    return None if groups is None else b(tensor.Contract, groups.windows, groups.weight, spec=f"{letters},{order}->{out}")


def _without_dilation(b: Builder, conv: _Conv, image: tuple[Value, str], weight: tuple[Value, str], out: str) -> Value | None:
    """A dilated convolution by one without gaps; None for any other."""
    window = image[0].producer(tensor.Window)
    assert window is not None
    inside = image[1][: len(shape_of(window.x))]
    if len(inside) != 4 or len(conv.channels) != 1 or conv.channels in inside or out != inside[:3] + conv.channels:
        return None
    return without_dilation(b, window, weight[0], f"{image[1]},{weight[1]}->{out}")


def _free_letter(taken: str) -> str:
    return next(c for c in "rst" if c not in taken)


def _dropped(b: Builder, x: Value, letters: str, single: str) -> tuple[Value, str]:
    """`x` without the axes of these letters, which have size 1."""
    kept = [i for i, c in enumerate(letters) if c not in single]
    return _reshaped(b, x, tuple(shape_of(x)[i] for i in kept)), "".join(letters[i] for i in kept)


def _narrowed(b: Builder, windows: Value, letters: str, single: str) -> tuple[Value, str]:
    """The same for windows: the axes are dropped in front of the window."""
    window = windows.producer(tensor.Window)
    assert window is not None
    x, kept = _dropped(b, window.x, letters[: len(shape_of(window.x))], single)
    axes = tuple(kept.index(letters[a]) for a in window.axes)
    made = b(tensor.Window, x, axes=axes, sizes=window.sizes, strides=window.strides, dilations=window.dilations)
    return made, kept + letters[len(shape_of(window.x)) :]
