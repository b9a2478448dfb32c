"""Where the elements of a contract's operand lie in memory: linear functions of the contract's letters.

Transposes, windows, slices, reversals, broadcasts and reshapes of an argument cost nothing here: they only change the stride of each
letter. So a convolution, which is a contract of a window, reads the image itself, and a transposed matrix is read in place. If the chain of
views meets any other op, such as a pad, the operand's memory is what that op makes, and somebody has to make it first.
"""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, mod, product
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.half_floats import is_widening
from polyreme.lowering.analysis.rows import shape_of

Linear = tuple[Dim, dict[str, Dim]]

_VIEWS = (tensor.Transpose, tensor.Window, tensor.Slice, tensor.Reverse, tensor.Broadcast)


@dataclass(frozen=True)
class Access:
    """Element (letters) of the operand stands at `base + sum(strides[letter] * letter)` of row-major `source`."""

    source: Value
    base: Dim
    strides: dict[str, Dim]

    def stride(self, letter: str) -> Dim:
        """Elements between neighbours along `letter`; 0 for a letter that the operand does not have."""
        return self.strides.get(letter, 0)


def trace(value: Value, letters: str, narrow: bool = False) -> Access:
    """The access of `value`, whose axes are the letters of `letters`, through as many views as can be seen through.

    With `narrow` a cast of 16-bit floats to float32 in front of them is one too: the source then has another element type than `value`, and
    who reads it widens what it reads.
    """
    memory, shaped, axes = _walk(value, [(0, {letter: 1}) for letter in letters])
    made = memory.producer()
    if narrow and made is not None and is_widening(made):
        inner = _through_reshape(shape_of(memory), shape_of(shaped), axes)
        if inner is not None:
            memory, shaped, axes = _walk(made.operands[0], inner)
    return _access(memory, shaped, axes)


def trace_parts(value: Value, letters: str, along: str) -> list[tuple[Access, Dim]]:
    """The accesses of `value` piece by piece along one letter, counted from 0 in each, with the sizes of the pieces: what a concat puts end
    to end that nobody else reads, or the value as a whole.
    """
    memory, shaped, axes = _walk(value, [(0, {letter: 1}) for letter in letters])
    concat = memory.producer(tensor.Concat)
    inner = None if concat is None else _through_reshape(shape_of(memory), shape_of(shaped), axes)
    if concat is None or inner is None or inner[concat.axis] != (0, {along: 1}) or not _is_read_once(value, memory):
        return [(_access(memory, shaped, axes), shape_of(value)[letters.index(along)])]
    return [(_access(*_walk(x, inner)), shape_of(x)[concat.axis]) for x in concat.xs]


def _is_read_once(value: Value, memory: Value) -> bool:
    """Whether no other value than `value`, which is a view of `memory`, is made of it."""
    while len(value.users) == 1 and value is not memory:
        value = value.producer().operands[0]
    return len(value.users) == 1


def trace_copied(value: Value, letters: str) -> Access:
    """The access of `value` where transposes are no views but copies, whose memory is read."""
    views = tuple(kind for kind in _VIEWS if kind is not tensor.Transpose)
    return _access(*_walk(value, [(0, {letter: 1}) for letter in letters], views))


def _walk(value: Value, axes: list[Linear], views: tuple[type[Op], ...] = _VIEWS) -> tuple[Value, Value, list[Linear]]:
    """Through views: the memory, the value whose shape it is seen under (by a reshape of the whole, if any), and that one's axes."""
    while True:
        memory = value
        while memory.producer(tensor.Reshape):
            memory = memory.producer().x
        if not isinstance(memory.owner, views):
            # A reshape of whole memory changes no position, whatever its shape.
            return memory, value, axes
        inner = _through_reshape(shape_of(memory), shape_of(value), axes)
        if inner is None:
            return value, value, axes
        value, axes = _through(memory.owner, inner)


def _access(source: Value, shaped: Value, axes: list[Linear]) -> Access:
    """The access to `source` under the shape of `shaped`."""
    return Access(source, *_scaled(axes, row_major(shape_of(shaped))))


def row_major(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Elements between neighbours along each axis of a row-major array."""
    return tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))


def _scaled(parts: list[Linear], factors: tuple[Dim, ...]) -> Linear:
    """sum(part * factor)"""
    const: Dim = 0
    terms: dict[str, Dim] = {}
    for (c, t), factor in zip(parts, factors, strict=True):
        const = const + c * factor
        for letter, coefficient in t.items():
            terms[letter] = terms.get(letter, 0) + coefficient * factor
    return const, terms


def _through(op: object, axes: list[Linear]) -> tuple[Value, list[Linear]]:
    """The operand of a view, and its axes given those of the view's result."""
    if isinstance(op, tensor.Transpose):
        inner: list[Linear] = [(0, {})] * len(axes)
        for axis, source in enumerate(op.perm):
            inner[source] = axes[axis]
        return op.x, inner
    if isinstance(op, tensor.Window):
        rank = op.x.type.rank
        inner = list(axes[:rank])
        for j, (axis, stride, dilation) in enumerate(zip(op.axes, op.strides, op.dilations, strict=True)):
            inner[axis] = _scaled([axes[axis], axes[rank + j]], (stride, dilation))
        return op.x, inner
    if isinstance(op, tensor.Slice):
        return op.x, [
            (c * step + start, {k: v * step for k, v in t.items()}) for (c, t), start, step in zip(axes, op.starts, op.strides, strict=True)
        ]
    if isinstance(op, tensor.Reverse):
        flipped = set(op.axes)
        sizes = op.x.type.shape
        return op.x, [(sizes[i] - 1 - c, {k: -v for k, v in t.items()}) if i in flipped else (c, t) for i, (c, t) in enumerate(axes)]
    assert isinstance(op, tensor.Broadcast)
    return op.x, [(0, {}) if size == 1 else axis for axis, size in zip(axes, op.x.type.shape, strict=True)]


def _through_reshape(inner: tuple[Dim, ...], outer: tuple[Dim, ...], axes: list[Linear]) -> list[Linear] | None:
    """The axes of a reshape's operand (`inner`) from those of its result (`outer`): each one the mixed-radix number of those it was split
    into. None where axes were joined, which is not linear."""
    result: list[Linear] = []
    j = 0
    for size in inner:
        group: list[int] = []
        joined: Dim = 1
        while joined != size:
            if j == len(outer):
                return None
            joined = joined * outer[j]
            group.append(j)
            j += 1
            if isinstance(joined, int) and isinstance(size, int) and joined > size:
                return None
        if size == 1:
            result.append((0, {}))
            continue
        result.append(_scaled([axes[k] for k in group], row_major(tuple(outer[k] for k in group))))
    return result


def axes_behind_views(value: Value, letters: str) -> tuple[Value, tuple[Linear, ...], frozenset[int]] | None:
    """The value that `value` is a view of, through views and pads, its axes as linear functions of the letters, and which of them are
    padded; None where an axis is no such function. Letters of size 1 are in none.
    """
    axes: list[Linear] = [(0, {} if size == 1 else {letter: 1}) for letter, size in zip(letters, shape_of(value), strict=True)]
    padded: set[str] = set()
    while True:
        memory, shaped, axes = _walk(value, axes)
        pad = memory.producer(tensor.Pad)
        if pad is None or pad.value != 0:
            return shaped, tuple(axes), frozenset(i for i, (_, terms) in enumerate(axes) if padded & set(terms))
        inner = _through_reshape(shape_of(memory), shape_of(shaped), axes)
        if inner is None:
            return None
        axes = []
        for (const, terms), low, high, gap in zip(inner, pad.low, pad.high, pad.interior, strict=True):
            axes.append((const - low, terms))
            if not (low == 0 and high == 0 and gap == 0):
                padded |= set(terms)
        value = pad.x


def side_by_side(value: Value, letters: str, lanes: int) -> str | None:
    """The letter along which every `lanes` elements from a multiple of `lanes` on lie side by side in an argument's memory, at multiples of
    `lanes`, seen through views and pads; None where there is no such letter. Of the `lanes` elements all or none lie in a pad; what lies
    past the letter's size is other memory of the argument.
    """
    found = axes_behind_views(value, letters)
    if found is None:
        return None
    shaped, axes, padded = found
    memory = shaped
    while memory.producer(tensor.Reshape):
        memory = memory.producer().x
    if isinstance(memory.owner, Op):
        return None
    shape = shape_of(shaped)
    last = max((i for i, n in enumerate(shape) if n != 1), default=-1)
    if last < 0 or last in padded or mod(shape[last], lanes) != 0 or mod(axes[last][0], lanes) != 0:
        return None
    odd = {letter: n for letter, n in axes[last][1].items() if mod(n, lanes) != 0}
    if list(odd.values()) != [1]:
        return None
    (letter,) = odd
    return None if any(letter in terms for i, (_, terms) in enumerate(axes) if i != last) else letter
