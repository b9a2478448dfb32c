"""Depthwise convolutions and poolings of images with channels before pixels (NCHW): windows that slide over the rows of each channel.
Convolutions in groups of few channels are done likewise, each of whose results sums up the channels of its group.

Lanes are neighbouring pixels of a row. A tile is some rows of the result under each other, with one accumulator for each. What the image
has in a row and column below is loaded once, and goes to every accumulator that it belongs to:

    acc[y] = acc[y] + image[y * stride + m][x * stride + n] * weights[m][n]        for all m, for all y of the tile

Rows of two pixels' stride are loaded as they lie, and parted into even and odd ones. A pad around the image is not made: loads are masked
where they may lie outside. Sizes may be free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from math import prod

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, Expr, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, element_type, f32, f64
from polyreme.lowering.analysis.access import Access, trace
from polyreme.lowering.analysis.estimates import estimate, estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.epilogue import Epilogue, find_epilogue
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import NestSchedule, choose_nest, is_like, run, write_nest
from polyreme.lowering.kernels.microkernel import Registers
from polyreme.lowering.kernels.packing import PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.code_size import WRITTEN_OUT
from polyreme.lowering.machines.instructions import FEW_CHANNELS, MANY_REGISTERS
from polyreme.lowering.machines.tasks import PIECES

# Rows of a tile, with so many vector registers and with fewer.
ROWS, ROWS_OF_16_REGISTERS = 7, 4


@dataclass(frozen=True)
class Along:
    """Windows along an axis of the image: `places` of them over `size` elements, with `low` of padding before and `high` behind them."""

    size: Dim
    places: Dim
    low: int
    high: int
    taps: int
    stride: int
    dilation: int

    @property
    def reach(self) -> int:
        """From a window's first tap to its last one."""
        return (self.taps - 1) * self.dilation


@dataclass(frozen=True)
class NchwWindows:
    """A group to be computed: what `op` makes of windows `down` and `along` the last axes of an image.

    `image` and `weights` (None: a pooling) say where elements are, by the `letters` of the result, those of the `taps`, and that of the
    `channels` that are `summed` ("" where each is on its own); what lies in the padding is `filling`.
    """

    op: tensor.Contract | tensor.Reduce
    epilogue: Epilogue
    letters: str
    taps: str
    summed: str
    channels: Dim
    image: Access
    weights: Access | None
    down: Along
    along: Along
    filling: float
    request: Request

    @property
    def read(self) -> list[Value]:
        """The image, and the weights if there are any."""
        return [self.image.source, *([] if self.weights is None else [self.weights.source])]

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.op.result.type)


@dataclass(frozen=True)
class WindowsSchedule(Schedule, kind="windows"):
    """Vectors of so many `lanes` pixels, tiles of so many `rows`. Tiles of up to `at_once` rows go through a row of the image once, with
    all weights of a window in registers; others go through it for each column of the window.

    A task has so many `channels`, and all rows of these, or one tile down if `by_tiles`. `nest` says how threads share tasks.
    """

    lanes: int
    rows: int
    channels: int = 1
    at_once: int = 0
    by_tiles: bool = False
    nest: NestSchedule | None = None


def find_nchw_windows(request: Request) -> NchwWindows | None:
    """A group around a depthwise convolution or a pooling of planar images; None for any other group, and on machines without masks."""
    if not request.target.masked:
        return None
    contracts, reduces = request.ops(tensor.Contract), request.ops(tensor.Reduce)
    if len(contracts) + len(reduces) != 1:
        return None
    op = (contracts or reduces)[0]
    window = (op.a if contracts else op.x).producer(tensor.Window)
    if window is None or element_type(op.result.type) not in (f32, f64) or element_type(window.x.type) != element_type(op.result.type):
        return None
    if shape_of(op.result)[-1] == 1:  # no vectors of neighbouring pixels
        return None
    epilogue = find_epilogue(request, op)
    rank = len(shape_of(window.x))
    if epilogue is None or epilogue.pools or window.axes != (rank - 2, rank - 1) or 0 in shape_of(op.result):
        return None
    weights: Access | None = None
    summed = ""
    channels: Dim = 1
    if contracts:
        spec = tensor.ContractSpec(op.spec)
        of_image, taps, letters = spec.a[:rank], spec.a[rank:], spec.out
        sizes = spec.sizes(shape_of(op.a), shape_of(op.b))
        summed = "".join(c for c in spec.contracted if sizes[c] != 1 and c not in taps)
        grouped = any(c in spec.a and c in spec.b and sizes[c] != 1 for c in letters)
        of_group = [sizes[c] for c in (*summed, *(c for c in letters if c not in of_image))]
        few = grouped and all(isinstance(n, int) and n <= FEW_CHANNELS for n in of_group)
        apart = len(summed) <= 1 and all(sizes[c] == 1 or c in of_image or few for c in letters)
        if not apart or op.dtype is not None or letters[-2:] != of_image[-2:] or any(c in spec.b for c in letters[-2:]):
            return None
        channels = sizes[summed] if summed else 1
        weights = trace(op.b, spec.b)
        if not isinstance(weights.source, BlockArgument) or element_type(weights.source.type) != element_type(op.result.type):
            return None
    else:
        if op.keepdims or op.fn not in ("max", "min", "add") or op.axes != (rank, rank + 1):
            return None
        of_image = letters = "abcdefgh"[:rank]
        taps = "mn"
    x, low, high, filling = window.x, (0,) * rank, (0,) * rank, 0.0
    pad = x.producer(tensor.Pad)
    if pad is not None:
        x, low, high, filling = pad.x, pad.low, pad.high, pad.value
        if any(pad.interior) or any(n != 0 for n in (*low[:-2], *high[:-2])):
            return None
    image = trace(x, of_image)
    if not isinstance(image.source, BlockArgument) or image.stride(of_image[-1]) != 1:
        return None
    down, along = (
        _along(shape_of(x)[rank - 2 + i], shape_of(window.result)[rank - 2 + i], low[i - 2], high[i - 2], window, i) for i in (0, 1)
    )
    if down is None or along is None or along.stride > 2 or down.taps * along.taps > WRITTEN_OUT.window or along.taps * down.taps == 1:
        return None
    return NchwWindows(op, epilogue, letters, taps, summed, channels, image, weights, down, along, filling, request)


def _along(size: Dim, places: Dim, low: Dim, high: Dim, window: tensor.Window, axis: int) -> Along | None:
    """The windows along one of the two axes; None where they or the padding are not known."""
    numbers = low, high, window.sizes[axis], window.strides[axis], window.dilations[axis]
    known = [n for n in numbers if isinstance(n, int)]
    return Along(size, places, *known) if len(known) == len(numbers) and min(known) >= 0 else None


# --- what is chosen


def choose_nchw_windows(windows: NchwWindows) -> WindowsSchedule:
    """Tiles of as many rows as registers hold, and tasks of some channels, or of a tile where channels are few."""
    rows = _most_rows(windows)
    if windows.down.reach < windows.down.stride:
        # Windows under each other share nothing.
        rows = 1
    outer = shape_of(windows.op.result)[:-2]
    channels = max(1, prod(n for n in outer if isinstance(n, int)) // PIECES)
    by_tiles = channels == 1 and estimate_pixels(product(outer)) < PIECES
    return _schedule(windows, rows, channels, by_tiles)


def _most_rows(windows: NchwWindows) -> int:
    """Rows of a tile that registers hold."""
    rows = ROWS if windows.request.target.vector_registers >= MANY_REGISTERS else ROWS_OF_16_REGISTERS
    return min(rows, windows.down.places) if isinstance(windows.down.places, int) else rows


def _schedule(windows: NchwWindows, rows: int, channels: int, by_tiles: bool, at_once: int | None = None) -> WindowsSchedule:
    """The schedule with what is given, and the rest as it suits that."""
    w, target = windows, windows.request.target
    n, widest = w.along.places, target.lanes(w.dtype)
    lanes = min(widest, 1 << (n - 1).bit_length()) if isinstance(n, int) else widest
    taps = w.down.taps * w.along.taps
    if at_once is None:
        # Each row of the image is gone through once, if the machine has registers for all weights. Where rows of pixels two apart are of
        # unknown length, to find so many of them again costs more than to load weights.
        dear = w.along.stride > 1 and not isinstance(w.along.size, int)
        fitting = [r for r in (rows, 1) if dear or taps + r <= Registers.of(target, w.dtype).accumulators]
        at_once = fitting[0] if fitting and w.weights is not None else 0
    vectors = estimate_pixels(n) / lanes + 1
    cycles = vectors * (taps * estimate(w.channels) / 2 + 3) * estimate_pixels(rows if by_tiles else w.down.places) * channels
    memory = [*w.read, *w.epilogue.args, *w.epilogue.values]
    free = any(isinstance(n, Expr) for value in memory for n in shape_of(value))
    nest = choose_nest(target, _tasks(w, rows, channels, by_tiles), cycles, free)
    return WindowsSchedule(lanes, rows, channels, at_once, by_tiles, nest)


def _tasks(windows: NchwWindows, rows: int, channels: int, by_tiles: bool) -> list[Dim]:
    """How many tasks there are of the channels of all images, and of the rows."""
    return [ceildiv(product(shape_of(windows.op.result)[:-2]), channels), ceildiv(windows.down.places, rows) if by_tiles else 1]


def other_nchw_windows(windows: NchwWindows) -> Iterator[WindowsSchedule]:
    """Lower tiles, the other order of taps, and other tasks."""
    own = choose_nchw_windows(windows)
    for rows in (-(-own.rows // 2), 1, _most_rows(windows)):
        yield _schedule(windows, rows, own.channels, own.by_tiles)
    if windows.weights is not None and windows.along.taps > 1:
        yield _schedule(windows, own.rows, own.channels, own.by_tiles, 0 if own.at_once else own.rows)
    for channels in (1, 2 * own.channels):
        yield _schedule(windows, own.rows, channels, own.by_tiles)
    if isinstance(windows.down.places, int) and windows.down.places > own.rows:
        yield _schedule(windows, own.rows, own.channels, not own.by_tiles)


def fit_nchw_windows(windows: NchwWindows, schedule: WindowsSchedule) -> None:
    """`ScheduleError` unless it is a schedule of these windows: with tiles that registers hold, taps in either order, and any tasks."""
    orders = (0, 1, schedule.rows) if windows.weights is not None else (0,)
    fits = 0 < schedule.rows <= _most_rows(windows) and schedule.channels > 0 and schedule.at_once in orders
    like = _schedule(windows, schedule.rows, schedule.channels, schedule.by_tiles, schedule.at_once) if fits else None
    if like is None or not is_like(schedule, like):
        own = choose_nchw_windows(windows)
        raise ScheduleError(f"expected a schedule like {own} for these windows and this machine but got {schedule}")


def write_nchw_windows(windows: NchwWindows, schedule: WindowsSchedule) -> KernelPlan:
    """The plan of a group as its schedule says."""
    return _Kernel(windows, schedule).build()


build_nchw_windows = Way(
    "windows",
    WindowsSchedule,
    find_nchw_windows,
    choose_nchw_windows,
    write_nchw_windows,
    fit_nchw_windows,
    "build_nchw_windows",
    others=other_nchw_windows,
)


class _Kernel:
    """Makes the plan of one group."""

    def __init__(self, windows: NchwWindows, schedule: WindowsSchedule):
        self.request, self.w, self.schedule = windows.request, windows, schedule
        self.parts = PlanParts(windows.request)
        self.lanes, self.rows = schedule.lanes, schedule.rows

    def build(self) -> KernelPlan:
        w, request, read = self.w, self.request, self.w.read
        slots = [self.parts.memory_of(x) for x in read]
        slots += [*(operand(a.index) for a in w.epilogue.args), *(result(i) for i in range(len(w.epilogue.values)))]
        name = request.name("pool" if w.weights is None else "depthwise")
        func = Func.empty(name, [self.parts.buffer_type(s) for s in slots], loc=w.op.location)
        self.code = code = Code(Builder.at_end(func.block, func.location), merged=True)
        args = list(func.args)
        self.image, self.weights = args[0], args[len(read) - 1]
        self.buffers: dict[Value, Value] = dict(zip(w.epilogue.args, args[len(read) :], strict=False))
        self.outs = args[len(read) + len(w.epilogue.args) :]
        self._nest()
        code.b.insert(Return([]))
        clean_up_kernel(func)
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("windows")

    def _nest(self) -> None:
        """Channels on threads, and pieces of rows where channels are few."""
        w, code, group, few = self.w, self.code, self.schedule.channels, self.schedule.by_tiles
        height, outer = w.down.places, shape_of(w.op.result)[:-2]
        count = product(outer)
        piece: Dim = self.rows if few else height

        def body(places: list[Position]) -> None:
            first = code.mul(places[0].scalar(code), group)
            end = code.min(code.add(first, group), count)
            lo = code.mul(places[1].scalar(code), piece)
            hi = code.min(code.add(lo, piece), height) if few else height

            def channel(lanes: int, narrow: bool, number: Position, carried: list[Value]) -> list[Value]:
                self._channel([position(i) for i in code.split(number.scalar(code), list(outer))], lo, hi, lanes, narrow)
                return carried

            def channels(lanes: int, narrow: bool) -> None:
                run(code, first, end, 1, [], partial(channel, lanes, narrow), name="channel")

            self._by_width(self.lanes, channels)

        write_nest(code, _tasks(w, self.rows, group, few), self.schedule.nest, body)

    def _by_width(self, lanes: int, channels: Callable[[int, bool], None]) -> None:
        """`channels` for rows of at least `lanes` results, or for narrower ones, which are one vector."""
        code, target = self.code, self.request.target
        wide = code.condition("ge", self.w.along.places, lanes)
        if not isinstance(wide, Value):
            channels(lanes, not wide)
            return
        with code.when(wide):
            channels(lanes, False)
        with code.when(wide, then=False):
            if lanes < target.lanes(self.w.dtype):
                channels(lanes, True)
            else:
                half = code.condition("le", self.w.along.places, lanes // 2)
                assert isinstance(half, Value)
                for taken, count in ((True, lanes // 2), (False, lanes)):
                    with code.when(half, then=taken):
                        channels(count, True)

    def _channel(self, around: list[Position], lo: Index, hi: Index, lanes: int, narrow: bool) -> None:
        """The rows of the result from `lo` to before `hi`, tile by tile, and what is left row by row."""
        code = self.code
        whole = code.add(lo, code.mul(code.div(code.sub(hi, lo), self.rows), self.rows))
        run(code, lo, whole, self.rows, [], partial(self._row, around, self.rows, lanes, narrow), name="y")
        if self.rows > 1:
            run(code, whole, hi, 1, [], partial(self._row, around, 1, lanes, narrow), name="y")

    def _row(self, around: list[Position], rows: int, lanes: int, narrow: bool, y: Position, carried: list[Value]) -> list[Value]:
        """`rows` rows of the result from row `y` on. The last vector ends with the row, over pixels of the one before."""
        code, width = self.code, self.w.along.places
        if narrow:
            self._tile(around, y, rows, 0, lanes, code.lane_mask(width, lanes))
            return carried

        def vector(x: Position, carried: list[Value]) -> list[Value]:
            self._tile(around, y, rows, x.scalar(code), lanes, None)
            return carried

        whole = code.mul(code.div(width, lanes), lanes)
        carried = run(code, 0, whole, lanes, carried, vector, name="x")
        rest = code.condition("lt", whole, width)
        if rest is True:
            self._tile(around, y, rows, code.sub(width, lanes), lanes, None)
        elif isinstance(rest, Value):
            with code.when(rest):
                self._tile(around, y, rows, code.sub(width, lanes), lanes, None)
        return carried

    def _tile(self, around: list[Position], y: Position, rows: int, first: Index, lanes: int, mask: Value | None) -> None:
        """A vector of each of `rows` rows of the result, from pixel `first` on."""
        w, code = self.w, self.code
        places = dict(zip(w.letters, around, strict=False))
        x = position(first).plus(code, Position(step=1))
        loads = partial(_Loads, self, y=y, rows=rows, x=first, lanes=lanes, mask=mask)
        if w.weights is None:
            sums = self._pooled(loads(places), rows)
        else:
            sums = self._convolved(w.weights, loads, places, rows, lanes)
        emitter = w.epilogue.emitter(code, self.buffers, lambda _places, _lanes, _mask: current)
        # Products of sizes are sums of many products, where sizes are sums.
        width = code.value(w.along.places)
        for r, total in enumerate(sums):
            current = total
            at = y.plus(code, Position(r))
            to = [*(Position() for _ in (*around, at)), position(code.mul(self._number([*around, at]), width)).plus(code, x)]
            w.epilogue.write(emitter, self.outs, [*around, at, x], lanes, mask, to)

    def _number(self, places: Sequence[Position]) -> Index:
        """Which one a row of the result is."""
        code, number = self.code, places[0].scalar(self.code)
        for place, size in zip(places[1:], shape_of(self.w.op.result)[1:], strict=False):
            number = code.add(code.mul(number, code.value(size) if isinstance(size, Expr) else size), place.scalar(code))
        return number

    def _readers(self, rows: int) -> dict[int, list[tuple[int, int]]]:
        """The rows of the image under so many rows of the result: for each, which of these see it, through which row of their windows."""
        readers: dict[int, list[tuple[int, int]]] = {}
        for r in range(rows):
            for m in range(self.w.down.taps):
                readers.setdefault(r * self.w.down.stride + m * self.w.down.dilation, []).append((r, m))
        return dict(sorted(readers.items()))

    def _pooled(self, loads: _Loads, rows: int) -> list[Value]:
        """What a pooling makes of each row's windows: first along the rows of the image, then down."""
        w, code = self.w, self.code
        assert isinstance(w.op, tensor.Reduce)
        fold = partial(reduce, partial(code.apply, w.op.fn))
        below = {i: fold([loads.at(i, n) for n in range(w.along.taps)]) for i in self._readers(rows)}
        return [fold([below[r * w.down.stride + m * w.down.dilation] for m in range(w.down.taps)]) for r in range(rows)]

    def _convolved(
        self, weights: Access, loads: Callable[[dict[str, Position]], _Loads], places: dict[str, Position], rows: int, lanes: int
    ) -> list[Value]:
        """What a convolution makes of each row's windows."""
        w, code = self.w, self.code
        sums = [code.zero(w.dtype, lanes)] * rows
        if not w.summed:
            return self._multiplied(weights, loads(places), places, sums, lanes)

        def channel(number: Position, sums: list[Value]) -> list[Value]:
            here = {**places, w.summed: number}
            return self._multiplied(weights, loads(here), here, sums, lanes)

        return run(code, 0, w.channels, 1, sums, channel, name="summed")

    def _multiplied(self, weights: Access, loads: _Loads, places: dict[str, Position], sums: list[Value], lanes: int) -> list[Value]:
        """The sums with the products of one channel."""
        w, code, sums = self.w, self.code, list(sums)
        weights_at = code.add(weights.base, *self._moves(weights, places))
        down, along = (weights.stride(c) for c in w.taps)
        for taps in [range(w.along.taps)] if len(sums) <= self.schedule.at_once else loads.taps_together:
            factors = {
                (m, n): code.broadcast(code.load(self.weights, code.add(weights_at, m * down + n * along)), lanes)
                for m in range(w.down.taps)
                for n in taps
            }
            for i, readers in self._readers(len(sums)).items():
                for n in taps:
                    for r, m in readers:
                        sums[r] = code.fma(loads.at(i, n), factors[m, n], sums[r])
        return sums

    def _moves(self, access: Access, places: dict[str, Position]) -> list[Index]:
        """How far the outer places move in an operand."""
        return [self.code.mul(p.scalar(self.code), access.stride(c)) for c, p in places.items()]


class _Loads:
    """What the image has under a tile, each vector loaded once: by the row below the tile's first one, and the tap along the row."""

    def __init__(
        self, kernel: _Kernel, places: dict[str, Position], y: Position, rows: int, x: Index, lanes: int, mask: Value | None
    ):
        self.kernel, self.code, self.w = kernel, kernel.code, kernel.w
        self.lanes, self.tail = lanes, mask is not None
        w, code = self.w, self.code
        self.rows = rows
        self.pitch = w.image.stride(w.letters[-2])
        self.row = code.add(code.mul(y.scalar(code), w.down.stride), -w.down.low)
        self.column = code.add(code.mul(x, w.along.stride), -w.along.low)
        self.base = code.add(w.image.base, *kernel._moves(w.image, places), code.mul(self.row, self.pitch), self.column)
        self.row_bases: dict[int, Index] = {0: self.base}
        self.row_guards: dict[int, Value | None] = {}
        self.column_masks: dict[int, Value | None] = {}
        self.loaded: dict[tuple[int, int], Value] = {}
        self.made: dict[tuple[int, int], Value] = {}

    @property
    def taps_together(self) -> list[Sequence[int]]:
        """The taps along the row, those together that are made from the same loads."""
        along = self.w.along
        together: dict[int, list[int]] = {}
        for n in range(along.taps):
            together.setdefault(n * along.dilation // along.stride, []).append(n)
        return [*together.values()]

    def at(self, i: int, n: int) -> Value:
        """The elements of row `i` at tap `n` of the lanes' windows."""
        if (i, n) not in self.made:
            w, offset = self.w, n * self.w.along.dilation
            if w.along.stride == 1:
                value = self._load(i, offset, self.lanes)
            else:
                even, lanes = offset - offset % 2, self.lanes
                picks = [2 * lane + offset % 2 for lane in range(lanes)]
                if 2 * lanes <= self.kernel.request.target.lanes(w.dtype):
                    # One register holds both halves.
                    half = other = self._load(i, even, 2 * lanes)
                else:
                    half, other = self._load(i, even, lanes), self._load(i, even + lanes, lanes)
                value = self.code.shuffle(half, other, picks)
            self.made[i, n] = value
        return self.made[i, n]

    def _load(self, i: int, offset: int, lanes: int) -> Value:
        """`lanes` elements of row `i`, from `offset` columns behind the tile's first one on."""
        if (i, offset) not in self.loaded:
            code, w = self.code, self.w
            mask, guard = self._inside_row(offset, lanes), self._is_row(i)
            if guard is not None:
                wide = code.broadcast(guard, lanes)
                mask = wide if mask is None else code.apply("and", mask, wide)
            value = code.load(self.kernel.image, code.add(self._row_base(i), offset), lanes, mask)
            # Two pixels apart, a load is of the next tap too.
            last = offset + w.along.stride - 1
            padded = guard is not None or offset < w.along.low or last + w.along.high > w.along.reach
            if mask is not None and padded and w.filling != 0:
                value = code.apply("select", mask, value, code.broadcast(code.constant(w.filling, w.dtype), lanes))
            self.loaded[i, offset] = value
        return self.loaded[i, offset]

    def _row_base(self, i: int) -> Index:
        """Where row `i` has the element of the first lane, without an offset."""
        if i not in self.row_bases:
            # Each free one from the one before: a multiple of a free pitch would be a size of its own, which has to be looked up.
            free = isinstance(self.pitch, Expr)
            before = self.code.add(self._row_base(i - 1), self.code.value(self.pitch)) if free else self.code.add(self.base, i * self.pitch)
            self.row_bases[i] = before
        return self.row_bases[i]

    def _is_row(self, i: int) -> Value | None:
        """Whether row `i` lies in the image; None where it surely does."""
        if i not in self.row_guards:
            code, down = self.code, self.w.down
            at = code.value(code.add(self.row, i))
            found = []
            if i < down.low:
                found.append(code.apply("ge", at, code.value(0)))
            if i > (self.rows - 1) * down.stride + down.reach - down.high:
                found.append(code.apply("lt", at, code.value(down.size)))
            self.row_guards[i] = None if not found else found[0] if len(found) == 1 else code.apply("and", *found)
        return self.row_guards[i]

    def _inside_row(self, offset: int, lanes: int) -> Value | None:
        """Which of `lanes` elements, from `offset` columns behind the tile's first one on, lie in a row of the image; None where all surely
        do.
        """
        if offset not in self.column_masks:
            code, along = self.code, self.w.along
            first = code.add(self.column, offset)
            found = []
            if offset < along.low:
                before = code.lane_mask(code.sub(0, first), lanes)
                found.append(code.apply("not", before) if before is not None else code.lane_mask(0, lanes))
            last = offset + lanes - along.stride * self.lanes + along.stride - 1
            if self.tail or last + along.high > along.reach:
                found.append(code.lane_mask(code.sub(along.size, first), lanes))
            masks = [mask for mask in found if mask is not None]
            self.column_masks[offset] = None if not masks else masks[0] if len(masks) == 1 else code.apply("and", *masks)
        return self.column_masks[offset]
