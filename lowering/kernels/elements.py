"""Code for any element, or vector of elements, of a tensor value, by recursion over the ops that make it.

    emitter = ElementEmitter(code, {x: buffer_leaf(code, x_buffer, x.type)})
    v = emitter.at(y, (row, Position(const=0, terms=((i, 1),), step=1)), lanes=16)

Leaves end the recursion: operands in memory, results of earlier loops, accumulators of a matrix product. Views only change the position
that is asked for, so a pad, a window or a transpose costs no memory. A reduction inside becomes a loop, unrolled if it is short. Each
request for an element computes it again: `fuse.py` makes sure that expensive ones are requested once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product as cartesian
from math import copysign, prod

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim
from polyreme.ir.dims import product as dim_product
from polyreme.ir.python.records import dataclass
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import ScalarType, TensorType, VectorType, f32, index
from polyreme.lowering.analysis.axes import matching_groups
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.positions import Position, position, total
from polyreme.lowering.machines.code_size import WRITTEN_OUT

Positions = tuple[Position, ...]
# Gives `lanes` elements at the positions, one per axis; lanes that the mask turns off may hold anything but must not touch memory.
Leaf = Callable[[Positions, int, Value | None], Value]


@dataclass(frozen=True)
class VectorLeaf:
    """A leaf that is in registers: `read` gives the vector that is at hand for the positions. In memory equal positions have equal
    elements; here lanes may differ all the same.
    """

    read: Callable[[Positions], Value]

    def __call__(self, places: Positions, lanes: int, mask: Value | None) -> Value:
        return self.read(places)


_VIEWS = (tensor.Transpose, tensor.Reshape, tensor.Window, tensor.Slice, tensor.Reverse, tensor.Broadcast)


class ElementEmitter:
    """Emits elements of the tensor values that `leaves` and the ops above them define.

    What was emitted is remembered by value and position, so memory behind the leaves must not change while one emitter is in use.
    """

    def __init__(self, b: Builder | Code, leaves: Mapping[Value, Leaf], of_memory: bool = False):
        """`of_memory`: every leaf is memory, so that elements of it under a mask that is off are zeros."""
        self.code = b if isinstance(b, Code) else Code(b)
        self.leaves = dict(leaves)
        self.of_memory = of_memory
        self._seen: dict[object, tuple[Value, Block]] = {}

    def at(
        self, value: Value, indices: Sequence[Index | Position], lanes: int = 1, mask: Value | None = None, guards: tuple[Value, ...] = ()
    ) -> Value:
        """The elements of `value` at `indices`: a scalar for one lane, else a vector.

        `mask` is that of a loop's tail: at least lane 0 is on. `guards` are further conditions, each an i1 or one per lane; where one does
        not hold, the position may lie outside of the value and the result is arbitrary.
        """
        places = tuple(position(x) for x in indices)
        if lanes > 1 and all(p.uniform for p in places) and not isinstance(self.leaves.get(value), VectorLeaf):
            return self.code.broadcast(self.at(value, places, 1, None, tuple(self._any_lane(g) for g in guards)), lanes)
        key = (value, places, lanes, mask, guards)
        seen = self._seen.get(key)
        if seen is not None and _encloses(seen[1], self.code.b.block):
            return seen[0]
        found = self._emit(value, places, lanes, mask, guards)
        self._seen[key] = (found, self.code.b.block)
        return found

    def _emit(self, value: Value, places: Positions, lanes: int, mask: Value | None, guards: tuple[Value, ...]) -> Value:
        if value in self.leaves:
            return self.leaves[value](places, lanes, self._full_mask(lanes, mask, guards))
        op = value.producer()
        rule = _RULES.get(type(op))
        if rule is None:
            raise PolyremeError(
                f"no rule gives single elements of '{op.name if op else 'a block argument'}'",
                op.location if op else None,  # type: ignore[arg-type]
                code="E0408",
            )
        return rule(_Request(self, op, places, lanes, mask, guards))

    def is_zero_outside(self, value: Value) -> bool:
        """Whether elements of `value` that guards shut out are zeros without further ado: memory, seen through views and pads with zeros.
        """
        if not self.of_memory:
            return False
        while value not in self.leaves:
            op = value.producer()
            if not isinstance(op, _VIEWS) and not (isinstance(op, tensor.Pad) and op.value == 0 and copysign(1, op.value) > 0):
                return False
            value = op.operands[0]
        return True

    def _any_lane(self, guard: Value) -> Value:
        return self.code.reduce(guard, "or") if isinstance(guard.type, VectorType) else guard

    def _full_mask(self, lanes: int, mask: Value | None, guards: tuple[Value, ...]) -> Value | None:
        full = mask
        for guard in guards:
            wide = guard if isinstance(guard.type, VectorType) or lanes == 1 else self.code.broadcast(guard, lanes)
            full = wide if full is None else self.code.apply("and", full, wide)
        return full


def _encloses(outer: Block, inner: Block) -> bool:
    block: Block | None = inner
    while block is not None:
        if block is outer:
            return True
        parent = block.parent_op
        block = parent.parent if parent is not None else None
    return False


# --- memory


def buffer_leaf(code: Code, buffer: Value, shape: Sequence[Dim]) -> Leaf:
    """Reads a row-major buffer of this shape."""

    def leaf(places: Positions, lanes: int, mask: Value | None) -> Value:
        return load(code, buffer, linear(code, places, shape), lanes, mask)

    return leaf


def linear(code: Code, places: Sequence[Position], shape: Sequence[Dim]) -> Position:
    """The offset of a multi-index into row-major `shape`; axes of size 1 add nothing."""
    return total(code, (p.times(code, s) for p, s, n in zip(places, _strides(tuple(shape)), shape, strict=True) if n != 1))


@lru_cache(maxsize=1000)
def _strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(dim_product(shape[i + 1 :]) for i in range(len(shape)))


def load(code: Code, buffer: Value, at: Position, lanes: int, mask: Value | None) -> Value:
    """The elements at `at`, by the cheapest loads that its lanes allow."""
    if lanes == 1 or at.uniform:
        if lanes > 1 and mask is not None:
            mask = code.reduce(mask, "or")
        return code.broadcast(code.load(buffer, at.scalar(code), mask=mask), lanes)
    if at.vector is None and at.step == 1:
        return code.load(buffer, at.scalar(code), lanes, mask)
    if at.vector is None and at.step == -1 and mask is None:
        first = code.sub(at.scalar(code), lanes - 1)
        v = code.load(buffer, first, lanes)
        return code.shuffle(v, v, tuple(range(lanes - 1, -1, -1)))
    if at.vector is None and at.step == 2:
        tail = mask.producer(kernel.LaneMask) if mask is not None else None
        if mask is None or tail is not None:
            return _load_every_other(code, buffer, at, lanes, tail)
    value: Value = code.b(kernel.Gather, buffer, at.lanes(code, lanes), mask)
    return value


def _load_every_other(code: Code, buffer: Value, at: Position, lanes: int, tail: kernel.LaneMask | None) -> Value:
    """Step 2 by two loads and a shuffle. The second load starts one early, so that nothing after the last element asked for is read."""
    start = at.scalar(code)
    first_mask = second_mask = None
    if tail is not None:
        reach = code.mul(tail.n, 2)
        first_mask = code.lane_mask(code.sub(reach, 1), lanes)
        second_mask = code.lane_mask(code.sub(reach, lanes), lanes)
    first = code.load(buffer, start, lanes, first_mask)
    second = code.load(buffer, code.add(start, lanes - 1), lanes, second_mask)
    picks = [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)]
    return code.shuffle(first, second, picks)


def store(
    code: Code, value: Value, buffer: Value, at: Position, mask: Value | None = None, align: int | None = None, streaming: bool = False
) -> None:
    """Write a scalar, or a vector whose lanes go to `at`'s lanes; `align` and `streaming` as in `kernel.store`, where these lie side by
    side.
    """
    if not isinstance(value.type, VectorType) or (at.vector is None and at.step == 1):
        code.store(value, buffer, at.scalar(code), mask, align, streaming)
    else:
        code.b(kernel.Scatter, value, buffer, at.lanes(code, value.type.lanes), mask)


# --- rules: one per tensor op


class _Request:
    """An element that is read: the op, the positions in its result, and how to read its operands."""

    def __init__(self, emitter: ElementEmitter, op: Op, places: Positions, lanes: int, mask: Value | None, guards: tuple[Value, ...]):
        self.emitter, self.code = emitter, emitter.code
        self.op, self.places, self.lanes, self.mask, self.guards = op, places, lanes, mask, guards

    def of(self, value: Value, places: Sequence[Position], guards: tuple[Value, ...] = ()) -> Value:
        """The elements of an operand."""
        return self.emitter.at(value, places, self.lanes, self.mask, self.guards + guards)

    def constant(self, value: float, dtype: ScalarType) -> Value:
        return self.code.broadcast(self.code.constant(value, dtype), self.lanes)

    def compare(self, fn: str, place: Position, bound: Dim) -> Value:
        """A guard `place fn bound`: one condition when the lanes agree, else one per lane."""
        code = self.code
        if place.uniform:
            return code.apply(fn, code.value(place.scalar(code)), code.value(bound))
        if place.vector is None and place.step == 1 and fn in ("lt", "ge"):
            # The lanes below the bound are the first ones.
            below: Value = code.b(kernel.LaneMask, code.value(code.sub(bound, place.scalar(code))), lanes=self.lanes)
            return below if fn == "lt" else code.apply("not", below)
        return code.apply(fn, place.lanes(code, self.lanes), code.broadcast(code.value(bound), self.lanes))

    def select(self, guards: Sequence[Value], value: Value, other: Value) -> Value:
        mask = self.emitter._full_mask(self.lanes, None, tuple(guards))
        return value if mask is None else self.code.apply("select", mask, value, other)

    def offset(self, place: Position, const: Dim) -> Position:
        return place.plus(self.code, Position(const))


def _dtype(value: Value) -> ScalarType:
    assert isinstance(value.type, TensorType)
    return value.type.dtype


def _map(r: _Request) -> Value:
    shape = shape_of(r.op.result)
    operands = []
    for x in r.op.operands:
        given = shape_of(x)
        # A rank-0 operand is read at no position, a repeated axis at 0.
        operands.append(r.of(x, [Position() if n == 1 and shape[i] != 1 else r.places[i] for i, n in enumerate(given)]))
    return r.code.apply(r.op.attributes["fn"], *operands, dtype=r.op.attributes["dtype"])


def _full(r: _Request) -> Value:
    return r.constant(r.op.attributes["value"], _dtype(r.op.result))


def _constant(r: _Request) -> Value:
    array = r.op.attributes["value"].array
    if array.size != 1:
        raise PolyremeError("expected a constant of one element inside a group; larger ones are operands", r.op.location, code="E0408")
    return r.constant(array.reshape(())[()].item(), _dtype(r.op.result))


def _dim_value(r: _Request) -> Value:
    size = r.code.value(r.op.attributes["size"])
    return r.code.broadcast(r.code.apply("cast", size, dtype=_dtype(r.op.result)), r.lanes)


def _iota(r: _Request) -> Value:
    return r.code.apply("cast", r.places[r.op.attributes["axis"]].lanes(r.code, r.lanes), dtype=_dtype(r.op.result))


def _broadcast(r: _Request) -> Value:
    (x,) = r.op.operands
    return r.of(x, [Position() if n == 1 else p for n, p in zip(shape_of(x), r.places, strict=True)])


def _transpose(r: _Request) -> Value:
    places = [Position()] * len(r.places)
    for i, axis in enumerate(r.op.attributes["perm"]):
        places[axis] = r.places[i]
    return r.of(r.op.operands[0], places)


def _slice(r: _Request) -> Value:
    starts, strides = r.op.attributes["starts"], r.op.attributes["strides"]
    return r.of(r.op.operands[0], [r.offset(p.times(r.code, k), s) for p, s, k in zip(r.places, starts, strides, strict=True)])


def _reverse(r: _Request) -> Value:
    shape = shape_of(r.op.result)
    places = list(r.places)
    for axis in r.op.attributes["axes"]:
        places[axis] = r.offset(places[axis].times(r.code, -1), shape[axis] - 1)
    return r.of(r.op.operands[0], places)


def _window(r: _Request) -> Value:
    a = r.op.attributes
    rank = len(r.places) - len(a["axes"])
    places = list(r.places[:rank])
    for k, (axis, stride, dilation) in enumerate(zip(a["axes"], a["strides"], a["dilations"], strict=True)):
        places[axis] = places[axis].times(r.code, stride).plus(r.code, r.places[rank + k].times(r.code, dilation))
    return r.of(r.op.operands[0], places)


def _pad(r: _Request) -> Value:
    a, (x,) = r.op.attributes, r.op.operands
    places, guards = [], []
    for place, n, low, high, gap in zip(r.places, shape_of(x), a["low"], a["high"], a["interior"], strict=True):
        moved = r.offset(place, -low)
        if low != 0:
            guards.append(r.compare("ge", moved, 0))
        if gap != 0:
            moved, rest = _divide(r, moved, gap + 1)
            guards.append(r.compare("eq", rest, 0))
        if high != 0:
            guards.append(r.compare("lt", moved, n))
        places.append(moved)
    inside = r.of(x, places, tuple(guards))
    if not guards or r.emitter.is_zero_outside(r.op.result):
        return inside
    return r.select(guards, inside, r.constant(a["value"], _dtype(x)))


def _divide(r: _Request, place: Position, by: Dim) -> tuple[Position, Position]:
    """Quotient and remainder of a position by a known size; positions below 0 give a quotient that guards must catch."""
    code = r.code
    if place.known is not None and isinstance(place.const, int) and isinstance(by, int):
        return Position(place.const // by), Position(place.const % by)
    if place.uniform:
        whole, divisor, lanes = code.value(place.scalar(code)), code.value(by), 1
    else:
        lanes = r.lanes
        whole, divisor = place.lanes(code, lanes), code.broadcast(code.value(by), lanes)
    quotient = code.apply("div", whole, divisor)
    rest = code.apply("sub", whole, code.apply("mul", quotient, divisor))
    return position(quotient), position(rest)


def _reshape(r: _Request) -> Value:
    """Positions are regrouped only where the shapes differ: axes between matching products are joined and split again."""
    (x,) = r.op.operands
    places: list[Position] = []
    for given, wanted in matching_groups(shape_of(x), shape_of(r.op.result)):
        old, new = [shape_of(x)[i] for i in given], [r.places[i] for i in wanted]
        flat = linear(r.code, new, [shape_of(r.op.result)[i] for i in wanted])
        parts: list[Position] = []
        for n in reversed(old):
            if n == 1:
                parts.append(Position())
            elif all(m == 1 for m in old[: len(old) - len(parts) - 1]):
                parts.append(flat)
            else:
                flat, rest = _divide(r, flat, n)
                parts.append(rest)
        places += reversed(parts)
    return r.of(x, places)


def _concat(r: _Request) -> Value:
    axis = r.op.attributes["axis"]
    found: Value | None = None
    start: Dim = 0
    for x in r.op.operands:
        n = shape_of(x)[axis]
        moved = r.offset(r.places[axis], -start)
        guards = (r.compare("ge", moved, 0), r.compare("lt", moved, n))
        here = r.of(x, (*r.places[:axis], moved, *r.places[axis + 1 :]), guards)
        # Later parts only replace what lies from their start on.
        found = here if found is None else r.select(guards[:1], here, found)
        start = start + n
    assert found is not None
    return found


def _gather(r: _Request) -> Value:
    x, which = r.op.operands
    axis, code = r.op.attributes["axis"], r.code
    rank = len(shape_of(which))
    inner = r.places[axis : axis + rank]
    lanes = 1 if all(p.uniform for p in inner) else r.lanes
    if lanes == r.lanes:
        raw = r.of(which, inner)
    else:
        raw = r.emitter.at(which, inner, 1, None, tuple(r.emitter._any_lane(g) for g in r.guards))
    at = code.apply("cast", raw, dtype=index) if r.op.attributes["inside"] else place_named(code, raw, shape_of(x)[axis], lanes)
    places = (*r.places[:axis], position(at), *r.places[axis + rank :])
    if not r.op.attributes["may_be_empty"]:
        return r.of(x, places)
    some = r.compare("lt", Position(0), shape_of(x)[axis])
    return r.select((some,), r.of(x, places, (some,)), r.constant(0, _dtype(x)))


def place_named(code: Code, raw: Value, size: Dim, lanes: int = 1) -> Value:
    """The place along an axis of `size` that an element of an index tensor names: negative ones count from the end, those outside are moved
    to the nearest end.
    """
    at = code.apply("cast", raw, dtype=index)
    extent = code.broadcast(code.value(size), lanes)
    zero = code.broadcast(code.constant(0, index), lanes)
    at = code.apply("select", code.apply("lt", at, zero), code.apply("add", at, extent), at)
    last = code.apply("sub", extent, code.broadcast(code.constant(1, index), lanes))
    return code.apply("max", code.apply("min", at, last), zero)


def _scatter(r: _Request) -> Value:
    """All updates in their order, of which those that name the element's place count: for kernels that compute each element on its own.
    `scatter.py` has the kernel that walks through the updates once.
    """
    x, which, updates = r.op.operands
    axis, fn, code = r.op.attributes["axis"], r.op.attributes["fn"], r.code
    dtype = _dtype(x)
    inner = wide(dtype) if fn == "add" else dtype
    place = r.places[axis].lanes(code, r.lanes)

    def step(offsets: list[Position], values: list[Value]) -> list[Value]:
        raw = r.emitter.at(which, offsets, 1, None, tuple(r.emitter._any_lane(g) for g in r.guards))
        named = code.apply("eq", code.broadcast(place_named(code, raw, shape_of(x)[axis]), r.lanes), place)
        element = convert(code, r.of(updates, (*r.places[:axis], *offsets, *r.places[axis + 1 :])), inner)
        return [code.apply("select", named, code.apply("add", values[0], element) if fn == "add" else element, values[0])]

    return convert(code, _accumulate(r, shape_of(which), [convert(code, r.of(x, r.places), inner)], step)[0], dtype)


def wide(dtype: ScalarType) -> ScalarType:
    """The type in which sums of `dtype` are kept."""
    return f32 if dtype.is_float and dtype.bits < 32 else dtype


def convert(code: Code, x: Value, dtype: ScalarType) -> Value:
    current = x.type.dtype if isinstance(x.type, VectorType) else x.type
    return x if current == dtype else code.apply("cast", x, dtype=dtype)


def _accumulate(
    r: _Request, sizes: Sequence[Dim], start: Sequence[Value], step: Callable[[list[Position], list[Value]], list[Value]]
) -> list[Value]:
    """`step(positions, accumulators)` over all positions in row-major order, written out when they are few."""
    code = r.code
    if all(isinstance(n, int) for n in sizes) and prod(sizes) <= WRITTEN_OUT.reduction:
        values = list(start)
        for offsets in cartesian(*(range(n) for n in sizes)):
            values = step([Position(k) for k in offsets], values)
        return values

    def nest(axis: int, outer: list[Position], values: list[Value]) -> list[Value]:
        if axis == len(sizes):
            return step(outer, values)
        with code.loop(0, sizes[axis], values, name="r") as loop:
            loop.next = nest(axis + 1, [*outer, position(loop.iv)], loop.carried)
        return loop.results

    return nest(0, [], list(start))


def _reduce(r: _Request) -> Value:
    (x,), a, code = r.op.operands, r.op.attributes, r.code
    axes, shape = a["axes"], shape_of(x)
    dtype = _dtype(x)
    inner = wide(dtype) if a["fn"] in ("add", "mul") else dtype
    kept = iter([p for i, p in enumerate(r.places) if not (a["keepdims"] and i in axes)])
    base = [None if i in axes else next(kept) for i in range(len(shape))]

    def step(offsets: list[Position], values: list[Value]) -> list[Value]:
        inside = iter(offsets)
        element = convert(code, r.of(x, [next(inside) if p is None else p for p in base]), inner)
        return [code.apply(a["fn"], values[0], element) if values else element]

    sizes = [shape[i] for i in axes]
    written_out = all(isinstance(n, int) and n for n in sizes) and prod(sizes) <= WRITTEN_OUT.reduction
    start = [] if written_out else [r.constant(identity_of(a["fn"], inner), inner)]
    return convert(code, _accumulate(r, sizes, start, step)[0], dtype)


def _cumulate(r: _Request) -> Value:
    """All elements up to this one, again for each: for kernels that compute each element on its own. `cumulate.py` has the one that takes
    what it has.
    """
    (x,), a, code = r.op.operands, r.op.attributes, r.code
    axis, dtype = a["axis"], _dtype(x)
    inner = wide(dtype) if a["fn"] in ("add", "mul") else dtype
    place = r.places[axis].lanes(code, r.lanes)

    def step(offsets: list[Position], values: list[Value]) -> list[Value]:
        element = convert(code, r.of(x, [*r.places[:axis], *offsets, *r.places[axis + 1 :]]), inner)
        before = code.apply("le", offsets[0].lanes(code, r.lanes), place)
        return [code.apply("select", before, code.apply(a["fn"], values[0], element), values[0])]

    return convert(code, _accumulate(r, [shape_of(x)[axis]], [r.constant(identity_of(a["fn"], inner), inner)], step)[0], dtype)


def _arg_reduce(r: _Request) -> Value:
    (x,), a, code = r.op.operands, r.op.attributes, r.code
    axis, dtype, compare = a["axis"], _dtype(x), "gt" if a["fn"] == "max" else "lt"
    places = list(r.places)
    if not a["keepdims"]:
        places.insert(axis, Position())

    def element(at: Position) -> Value:
        return r.of(x, [*places[:axis], at, *places[axis + 1 :]])

    with code.loop(1, shape_of(x)[axis], [element(Position()), r.constant(0, index)], name="r") as loop:
        best, where = loop.carried
        here = element(position(loop.iv))
        better = code.apply(compare, here, best)
        if dtype.is_float:
            # A nan beats everything but an earlier nan.
            news = code.apply("and", code.apply("isnan", here), code.apply("not", code.apply("isnan", best)))
            better = code.apply("or", better, news)
        loop.next = [code.apply("select", better, here, best), code.apply("select", better, code.broadcast(loop.iv, r.lanes), where)]
    return code.apply("cast", loop.results[1], dtype=a["dtype"]) if a["dtype"] != index else loop.results[1]


def _contract(r: _Request) -> Value:
    a, b = r.op.operands
    code, spec, dtype = r.code, tensor.ContractSpec(r.op.attributes["spec"]), _dtype(r.op.result)
    inner = wide(dtype)
    sizes = spec.sizes(shape_of(a), shape_of(b))
    outer = dict(zip(spec.out, r.places, strict=True))

    def step(offsets: list[Position], values: list[Value]) -> list[Value]:
        at = {**outer, **dict(zip(spec.contracted, offsets, strict=True))}
        left = convert(code, r.of(a, [at[c] for c in spec.a]), inner)
        right = convert(code, r.of(b, [at[c] for c in spec.b]), inner)
        if inner.is_float:
            return [code.fma(left, right, values[0])]
        return [code.apply("add", values[0], code.apply("mul", left, right))]

    start = [r.constant(0.0 if inner.is_float else 0, inner)]
    return convert(code, _accumulate(r, [sizes[c] for c in spec.contracted], start, step)[0], dtype)


def _fold(r: _Request) -> Value:
    """The sum over the windows that cover an element. Along an axis that has one window, or whose windows do not overlap, at most one does,
    and is found at once. Along the others all windows are tried, or all places in a window, whichever are fewer.
    """
    (w,), a, code = r.op.operands, r.op.attributes, r.code
    axes, dtype = a["axes"], _dtype(w)
    shape, rank, inner = shape_of(w), len(r.places), wide(dtype)
    zero = r.constant(0.0 if inner.is_float else 0, inner)
    sizes = shape[rank:]
    outer = list(r.places)
    found: dict[int, Position] = {}
    sure: list[Value] = []
    for k, (axis, size, stride, dilation) in enumerate(zip(axes, sizes, a["strides"], a["dilations"], strict=True)):
        if shape[axis] == 1 and dilation == 1:
            found[k], outer[axis] = outer[axis], Position()
            if size != shape_of(r.op.result)[axis]:
                sure.append(r.compare("lt", found[k], size))
        elif isinstance(size, int) and isinstance(stride, int) and size <= stride and dilation == 1:
            outer[axis], found[k] = _divide(r, outer[axis], stride)
            if size < stride:
                sure.append(r.compare("lt", found[k], size))
            if (shape[axis] - 1) * stride + size != shape_of(r.op.result)[axis]:
                sure.append(r.compare("lt", outer[axis], shape[axis]))
    tried = [k for k in range(len(axes)) if k not in found]
    by_window = {k for k in tried if tries_windows(r.op, k)}

    def step(offsets: list[Position], values: list[Value]) -> list[Value]:
        places, guards, inside = list(outer), list(sure), dict(found)
        for k, offset in zip(tried, offsets, strict=True):
            axis, stride = axes[k], a["strides"][k]
            if k in by_window:
                inside[k] = places[axis].plus(code, offset.times(code, -stride))
                places[axis] = offset
                if offset != Position():
                    guards.append(r.compare("ge", inside[k], 0))
                guards.append(r.compare("lt", inside[k], sizes[k]))
                continue
            moved = places[axis].plus(code, offset.times(code, -a["dilations"][k]))
            if offset != Position():
                guards.append(r.compare("ge", moved, 0))
            if stride != 1:
                moved, rest = _divide(r, moved, stride)
                guards.append(r.compare("eq", rest, 0))
            guards.append(r.compare("lt", moved, shape[axis]))
            places[axis], inside[k] = moved, offset
        element = convert(code, r.of(w, (*places, *(inside[k] for k in range(len(axes)))), tuple(guards)), inner)
        return [code.apply("add", values[0], r.select(guards, element, zero))]

    numbers = [shape[axes[k]] if k in by_window else sizes[k] for k in tried]
    return convert(code, _accumulate(r, numbers, [zero], step)[0], dtype)


def tries_windows(op: Op, k: int) -> bool:
    """Whether along the `k`th axis of a fold each window is asked for an element, rather than each place in a window."""
    a, shape = op.attributes, shape_of(op.operands[0])
    count, size = shape[a["axes"][k]], shape[len(shape) - len(a["axes"]) + k]
    return a["dilations"][k] == 1 and isinstance(count, int) and (not isinstance(size, int) or count < size)


def fold_tries(op: Op) -> list[Dim]:
    """Along each of a fold's axes, the most elements of windows that one element of its result can be a sum of."""
    shape, axes = shape_of(op.operands[0]), op.attributes["axes"]
    return [shape[axis] if tries_windows(op, k) else shape[len(shape) - len(axes) + k] for k, axis in enumerate(axes)]


_RULES: dict[type[Op], Callable[[_Request], Value]] = {
    tensor.Map: _map,
    tensor.Full: _full,
    tensor.Constant: _constant,
    tensor.DimValue: _dim_value,
    tensor.Iota: _iota,
    tensor.Broadcast: _broadcast,
    tensor.Transpose: _transpose,
    tensor.Reshape: _reshape,
    tensor.Slice: _slice,
    tensor.Reverse: _reverse,
    tensor.Window: _window,
    tensor.Pad: _pad,
    tensor.Concat: _concat,
    tensor.Gather: _gather,
    tensor.Scatter: _scatter,
    tensor.Reduce: _reduce,
    tensor.Cumulate: _cumulate,
    tensor.ArgReduce: _arg_reduce,
    tensor.Contract: _contract,
    tensor.Fold: _fold,
}
