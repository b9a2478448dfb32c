"""Adaptive pooling of images with channels before pixels (NCHW): the sums, means or extremes of a few parts of rows and columns.

Such a group is what `nn.functional.adaptive_avg_pool2d` is made of: slices of the rows, each reduced, laid side by side, and the same of
the columns of that, or windows where all are known to be of one size. Taken together nothing in between goes to memory:

    for each part of the rows:
      for each channel:
        rows of the part, added up                           as vectors along the row
        parts of the columns of that ──► a vector of results

- A row no longer than a vector stays in one register. A result's columns are fetched from there by their numbers, which are the same in all
  channels: `kernel.permute`.
- Longer rows are read part by part, with an accumulator for each part of the columns; the lanes of all of these are then added up together.

Where parts begin and end may be free sizes. Which of both forms a row takes is decided when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce

from polyreme.dialects import tensor
from polyreme.dialects.kernel import lanes_of
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, Expr, ceildiv, maximum, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import BufferType, ScalarType, element_type, f32, f64, i32, i64, index
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import NestSchedule, choose_nest, is_like, run, write_nest
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.functions import ENOUGH_SUMS
from polyreme.lowering.machines.instructions import WIDEST_LANES
from polyreme.lowering.machines.targets import Target

# Parts of an axis: each has a lane, and a size of its own that the kernel looks up.
MOST_PARTS = WIDEST_LANES
# Channels of a task.
CHANNELS = 16


@dataclass(frozen=True)
class Parts:
    """Parts of an axis, each from one of `starts` to before one of `stops`."""

    starts: tuple[Dim, ...]
    stops: tuple[Dim, ...]

    @property
    def lengths(self) -> tuple[Dim, ...]:
        return tuple(stop - start for start, stop in zip(self.starts, self.stops, strict=True))


@dataclass(frozen=True)
class AdaptivePooling:
    """A group to be computed: `fn` over parts `down` and `along` the last two axes of `x`, divided by how many elements they have if it is
    a `mean`. `ops` are those of the group, in no order.
    """

    x: Value
    fn: str
    mean: bool
    down: Parts
    along: Parts
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class _Reduced:
    """What is laid side by side along one axis."""

    x: Value
    fn: str
    mean: bool
    parts: Parts
    ops: tuple[Op, ...]


def find_adaptive_pooling(value: Value, target: Target) -> AdaptivePooling | None:
    """How `value` is pooled, if it is and nothing else reads what is in between; None for any other value, and on machines without masks.
    """
    shape = shape_of(value)
    if not target.masked or len(shape) < 2 or element_type(value.type) not in (f32, f64) or 0 in shape:
        return None
    found = _windows(value) or _parts_of_both_axes(value)
    if found is None:
        return None
    # Numbers and sizes are made again in each group that has them.
    inner = [op for op in found.ops if op.operands and op is not value.owner]
    alone = all(user in found.ops for op in inner for made in op.results for user in made.users)
    return found if alone else None


def _windows(value: Value) -> AdaptivePooling | None:
    """Known numbers of windows further than two columns apart, which have no other kernel."""
    divided = value.producer(tensor.Map)
    reduce = (value if divided is None or not divided.xs else divided.xs[0]).producer(tensor.Reduce)
    window = None if reduce is None else reduce.x.producer(tensor.Window)
    if reduce is None or window is None or reduce.keepdims or reduce.fn not in ("add", "max", "min"):
        return None
    rank = len(shape_of(window.x))
    places = shape_of(window.result)[rank - 2 : rank]
    stride = window.strides[-1] if window.strides else 1
    if (
        window.axes != (rank - 2, rank - 1)
        or reduce.axes != (rank, rank + 1)
        or window.dilations != (1, 1)
        or (isinstance(stride, int) and stride <= 2)
        or not all(isinstance(n, int) and n <= MOST_PARTS for n in places)
        or places[1] == 1
    ):
        return None
    ops: tuple[Op, ...] = (reduce, window)
    if divided is not None:
        if reduce.fn != "add" or not _divides(divided, product(window.sizes)):
            return None
        ops = (divided, divided.xs[1].owner, *ops)
    down, along = (
        Parts(tuple(i * step for i in range(n)), tuple(i * step + size for i in range(n)))
        for n, step, size in zip(places, window.strides, window.sizes, strict=True)
    )
    return AdaptivePooling(window.x, reduce.fn, divided is not None, down, along, ops)


def _parts_of_both_axes(value: Value) -> AdaptivePooling | None:
    """Parts of the columns of parts of the rows."""
    rank = len(shape_of(value))
    along = _reduced(value, rank - 1)
    down = None if along is None else _reduced(along.x, rank - 2)
    if along is None or down is None or (along.fn, along.mean) != (down.fn, down.mean):
        return None
    return AdaptivePooling(down.x, along.fn, along.mean, down.parts, along.parts, (*along.ops, *down.ops))


def _reduced(value: Value, axis: int) -> _Reduced | None:
    """The reductions of slices of one axis that `value` has side by side."""
    concat = value.producer(tensor.Concat)
    if concat is None or concat.axis != axis or len(concat.xs) > MOST_PARTS:
        return None
    ops: list[Op] = [concat]
    found: list[tuple[Value, str, bool]] = []
    starts, stops = [], []
    for part in concat.xs:
        reshape = part.producer(tensor.Reshape)
        inner = None if reshape is None else reshape.x
        divided = None if inner is None else inner.producer(tensor.Map)
        reduce = (inner if divided is None else divided.xs[0]).producer(tensor.Reduce) if inner is not None else None
        piece = None if reduce is None else reduce.x.producer(tensor.Slice)
        if reshape is None or reduce is None or piece is None or reduce.axes != (axis,) or reduce.keepdims:
            return None
        outer = [i for i in range(len(piece.starts)) if i != axis]
        whole = all(piece.starts[i] == 0 and piece.stops[i] == shape_of(piece.x)[i] for i in outer)
        shape = tuple(1 if i == axis else n for i, n in enumerate(shape_of(piece.x)))
        if not whole or any(step != 1 for step in piece.strides) or shape_of(part) != shape or reduce.fn not in ("add", "max", "min"):
            return None
        if divided is not None:
            if reduce.fn != "add" or not _divides(divided, piece.stops[axis] - piece.starts[axis]):
                return None
            ops += [divided, divided.xs[1].owner]
        ops += [reshape, reduce, piece]
        found.append((piece.x, reduce.fn, divided is not None))
        starts.append(piece.starts[axis])
        stops.append(piece.stops[axis])
    if len(set(found)) != 1:
        return None
    x, fn, mean = found[0]
    return _Reduced(x, fn, mean, Parts(tuple(starts), tuple(stops)), tuple(dict.fromkeys(ops)))


def _divides(op: tensor.Map, by: Dim) -> bool:
    """Whether an op divides its first operand by a size."""
    if len(op.xs) != 2 or op.dtype is not None:
        return False
    size, number = op.xs[1].producer(tensor.DimValue), op.xs[1].producer(tensor.Full)
    if size is not None:
        return op.fn == "div" and size.size == by
    if number is None or not isinstance(by, int):
        return False
    return (op.fn == "div" and number.value == by) or (op.fn == "mul" and by & (by - 1) == 0 and number.value * by == 1)


@dataclass(frozen=True)
class AdaptiveRoot:
    """A group that is an adaptive pooling."""

    request: Request
    pooling: AdaptivePooling

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.request.results[0].type)


@dataclass(frozen=True)
class AdaptiveSchedule(Schedule, kind="adaptive_pooling"):
    """Vectors of so many `lanes`; of longer rows so many parts are done `together`. A task has so many `channels`, and `nest` says how
    threads share tasks.
    """

    lanes: int
    together: int
    channels: int
    nest: NestSchedule | None = None


def find_adaptive_root(request: Request) -> AdaptiveRoot | None:
    """A group that is an adaptive pooling of planar images; None for any other group."""
    if len(request.results) != 1:
        return None
    pooling = find_adaptive_pooling(request.results[0], request.target)
    if pooling is None or not isinstance(pooling.x, BlockArgument) or set(request.ops()) != set(pooling.ops):
        return None
    return AdaptiveRoot(request, pooling)


def choose_adaptive(root: AdaptiveRoot) -> AdaptiveSchedule:
    """As many parts together as there are, up to eight, and sixteen channels to a task."""
    count, lanes = len(root.pooling.along.starts), root.request.target.lanes(root.dtype)
    return _schedule(root, min(ENOUGH_SUMS, lanes, 1 << (count - 1).bit_length()), CHANNELS)


def _schedule(root: AdaptiveRoot, together: int, channels: int) -> AdaptiveSchedule:
    target = root.request.target
    lanes, shapes = target.lanes(root.dtype), [shape_of(v) for v in (root.pooling.x, root.request.results[0])]
    *outer, height, width = shapes[0]
    cycles = channels * (estimate_pixels(height) * estimate_pixels(width)) / lanes
    free = any(isinstance(n, Expr) for shape in shapes for n in shape)
    return AdaptiveSchedule(lanes, together, channels, choose_nest(target, [ceildiv(product(outer), channels)], cycles, free))


def other_adaptive(root: AdaptiveRoot) -> Iterator[AdaptiveSchedule]:
    """Fewer parts together, and other tasks."""
    own = choose_adaptive(root)
    if own.together > 2:
        yield _schedule(root, own.together // 2, own.channels)
    count = product(shape_of(root.pooling.x)[:-2])
    for channels in (CHANNELS // 4, CHANNELS * 4):
        if isinstance(count, Expr) or min(channels, own.channels) < count:
            yield _schedule(root, own.together, channels)


def fit_adaptive(root: AdaptiveRoot, schedule: AdaptiveSchedule) -> None:
    """`ScheduleError` unless it is a schedule of this pooling, with fewer parts together, and any tasks and grain."""
    own = choose_adaptive(root)
    fits = schedule.channels > 0 and schedule.together in (own.together, *(n for n in (2, 4, 8) if n < own.together))
    like = _schedule(root, schedule.together, schedule.channels) if fits else own
    if not is_like(schedule, like):
        raise ScheduleError(f"expected a schedule like {own} for this pooling and machine but got {schedule}")


def write_adaptive(root: AdaptiveRoot, schedule: AdaptiveSchedule) -> KernelPlan:
    """The plan of a pooling as its schedule says."""
    return _AdaptiveKernel(root, schedule).build()


build_adaptive_pooling = Way(
    "adaptive_pooling", AdaptiveSchedule, find_adaptive_root, choose_adaptive, write_adaptive, fit_adaptive, others=other_adaptive
)


class _AdaptiveKernel:
    """Writes the kernel of one group."""

    def __init__(self, root: AdaptiveRoot, schedule: AdaptiveSchedule):
        self.request, self.p, self.schedule = root.request, root.pooling, schedule
        self.out, self.dtype = root.request.results[0], root.dtype
        *self.outer, self.height, self.width = shape_of(root.pooling.x)
        self.lanes = schedule.lanes

    def build(self) -> KernelPlan:
        types = [BufferType(shape_of(v), self.dtype) for v in (self.p.x, self.out)]
        func = Func.empty(self.request.name("adaptive_pool"), types, loc=self.out.producer().location)
        self.code = code = Code(Builder.at_end(func.block, func.location))
        self.image, self.results = func.args
        count, channels = product(self.outer), self.schedule.channels

        def body(places: list[Position]) -> None:
            first = code.mul(places[0].scalar(code), channels)
            self._channels(first, code.min(code.add(first, channels), count))

        write_nest(code, [ceildiv(count, channels)], self.schedule.nest, body)
        code.b.insert(Return([]))
        clean_up_kernel(func)
        return KernelPlan((Step(func, (operand(0), result(0))),))

    def _channels(self, first: Index, end: Index) -> None:
        """Channels from the first one to before the last one."""
        code = self.code
        short = code.condition("le", self.width, self.lanes)
        for taken in (True, False):
            if isinstance(short, Value):
                with code.when(short, then=taken):
                    self._parts(first, end, taken)
            elif short == taken:
                self._parts(first, end, taken)

    def _parts(self, first: Index, end: Index, short: bool) -> None:
        """All parts of the rows, for rows of a vector or less, or for longer ones."""
        code, down, count = self.code, self.p.down, len(self.p.down.starts)
        bounds = code.scratch(2 * count, i64)
        for i, bound in enumerate((*down.starts, *down.stops)):
            code.store(code.apply("cast", code.value(bound), dtype=i64), bounds, i)
        groups = [_PartsTogether(self, 0, self.lanes)] if short else self._groups()

        def part(number: Position, carried: list[Value]) -> list[Value]:
            i = number.scalar(code)
            top, bottom = (code.apply("cast", code.load(bounds, code.add(i, at)), dtype=index) for at in (0, count))
            scales = [group.scale(code.sub(bottom, top)) for group in groups]

            def channel(at: Position, carried: list[Value]) -> list[Value]:
                channel = at.scalar(code)
                image = code.mul(channel, code.value(self.height * self.width))
                place = code.mul(code.add(code.mul(channel, count), i), len(self.p.along.starts))
                for group, scale in zip(groups, scales, strict=True):
                    total = group.short(image, top, bottom) if short else group.long(image, top, bottom)
                    total = total if scale is None else code.apply("mul", total, scale)
                    code.store(total, self.results, code.add(place, group.first), code.lane_mask(group.count, group.lanes))
                return carried

            return run(code, first, end, 1, carried, channel, name="channel")

        run(code, 0, count, 1, [], part, name="part")

    def _groups(self) -> list[_PartsTogether]:
        """Parts of long rows that are done together."""
        count, together = len(self.p.along.starts), self.schedule.together
        return [_PartsTogether(self, at, together) for at in range(0, count, together)]


class _PartsTogether:
    """Parts along the rows from part `first` on, as many as `lanes` or those that are left."""

    def __init__(self, kernel: _AdaptiveKernel, first: int, lanes: int):
        self.kernel, self.code, self.first, self.lanes = kernel, kernel.code, first, lanes
        along = kernel.p.along
        self.starts, self.lengths = (of[first : first + lanes] for of in (along.starts, along.lengths))
        self.count, self.longest = len(self.starts), reduce(maximum, dict.fromkeys(self.lengths))

    def _vector(self, sizes: Sequence[Dim], dtype: ScalarType) -> Value:
        """Sizes as lanes; 0 behind them."""
        code = self.code
        vector = code.zero(dtype, self.lanes)
        for lane, size in enumerate(sizes):
            vector = code.insert(vector, code.apply("cast", code.value(size), dtype=dtype), lane)
        return vector

    def scale(self, rows: Index) -> Value | None:
        """What sums over so many rows are multiplied by; None where they stay as they are."""
        kernel, code = self.kernel, self.code
        if not kernel.p.mean:
            return None
        down = code.broadcast(code.apply("cast", code.value(rows), dtype=kernel.dtype), self.lanes)
        one = code.broadcast(code.constant(1.0, kernel.dtype), self.lanes)
        return code.apply("div", one, code.apply("mul", down, self._vector(self.lengths, kernel.dtype)))

    def _identity(self, lanes: int) -> Value:
        kernel = self.kernel
        return self.code.broadcast(self.code.constant(identity_of(kernel.p.fn, kernel.dtype), kernel.dtype), lanes)

    def short(self, image: Index, top: Index, bottom: Index) -> Value:
        """Of rows in one vector: all columns first, then each lane goes through those of its part."""
        kernel, code, lanes = self.kernel, self.code, self.lanes
        mask = code.lane_mask(kernel.width, lanes)

        def row(y: Position, sums: list[Value]) -> list[Value]:
            place = code.add(image, code.mul(y.scalar(code), code.value(kernel.width)))
            return [code.apply(kernel.p.fn, sums[0], code.load(kernel.image, place, lanes, mask))]

        (columns,) = run(code, top, bottom, 1, [self._identity(lanes)], row, name="row")
        one = code.broadcast(code.constant(1, i32), lanes)

        def column(number: Position, carried: list[Value]) -> list[Value]:
            total, places, left = carried
            found = code.apply(kernel.p.fn, total, code.permute(columns, places))
            total = code.apply("select", code.apply("gt", left, code.zero(i32, lanes)), found, total)
            return [total, code.apply("add", places, one), code.apply("sub", left, one)]

        carried = [self._identity(lanes), self._vector(self.starts, i32), self._vector(self.lengths, i32)]
        return run(code, 0, self.longest, 1, carried, column, name="column")[0]

    def long(self, image: Index, top: Index, bottom: Index) -> Value:
        """Of longer rows: an accumulator for each part, then the lanes of all of them together."""
        kernel, code, lanes = self.kernel, self.code, self.kernel.lanes
        fn = kernel.p.fn

        def vector(at: Position, sums: list[Value]) -> list[Value]:
            behind = at.scalar(code)
            masks = [code.lane_mask(code.sub(length, behind), lanes) for length in self.lengths]

            def row(y: Position, sums: list[Value]) -> list[Value]:
                place = code.add(image, code.mul(y.scalar(code), code.value(kernel.width)), behind)
                made = []
                for total, start, mask in zip(sums, self.starts, masks, strict=True):
                    element = code.load(kernel.image, code.add(place, code.value(start)), lanes, mask)
                    if mask is not None and fn != "add":
                        element = code.apply("select", mask, element, self._identity(lanes))
                    made.append(code.apply(fn, total, element))
                return made

            return run(code, top, bottom, 1, sums, row, name="row")

        # Most parts have no more than one vector, whose masks are the same in all channels.
        sums = vector(Position(), [self._identity(lanes)] * self.count)
        sums = run(code, lanes, self.longest, lanes, sums, vector, name="column")
        sums += [self._identity(lanes)] * (self.lanes - self.count)
        return fold_lanes(code, sums, partial(code.apply, fn))


def fold_lanes(code: Code, vectors: Sequence[Value], fn: partial[Value]) -> Value:
    """A vector with the lanes of each vector folded into one by `fn`. There are a power of two of them, at least two and at most as many as
    they have lanes.

    Two vectors at a time become one, of whose lanes one half is of either; then the halves of what is left of each meet.
    """
    made = list(vectors)
    lanes = lanes_of(made[0].type)
    of_each = lanes
    while of_each > 1 and (len(made) > 1 or lanes > len(vectors)):
        half = of_each // 2
        pairs = list(zip(made[::2], made[1::2], strict=True)) if len(made) > 1 else [(made[0], made[0])]
        total = 2 * lanes if len(made) > 1 else lanes
        low, high = ([start + i + at for start in range(0, total, of_each) for i in range(half)] for at in (0, half))
        made = [fn(code.shuffle(a, b, low), code.shuffle(a, b, high)) for a, b in pairs]
        lanes, of_each = len(low), half
    return made[0]
