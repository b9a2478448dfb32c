"""Depthwise convolutions and poolings of channels-last images: windows that slide over each channel on its own.

Lanes are neighbouring channels, so nothing is gathered or transposed. A tile is a run of pixels of a row, with one accumulator for each.
For each row of the window the pixels below are read once, and go to every accumulator that they belong to:

    acc[x] = acc[x] + image[y * stride + m][x * stride + n] * weights[m][n]        for all n, for all x of the tile

A pad around the image is usually not made (`_plan_windows` decides). Rows of the window outside of the image are left out of the loop over
rows. Columns outside are left out of the first and last tile of a row. If the width is unknown, tiles of a width chosen at run time cover a
row, and the last one ends with the row, over pixels of the one before; pixels that may lie outside are read as padding. Weights lie in
panels `[C / lanes][taps][lanes]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd, prod

from polyreme.dialects import tensor
from polyreme.ir import dims
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import ScalarType, element_type, f32, f64, i8, i16, u8
from polyreme.lowering.analysis.access import trace
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, buffer_leaf
from polyreme.lowering.kernels.epilogue import Epilogue, find_epilogue
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, each, run, vector_loop
from polyreme.lowering.kernels.packing import Panels, PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Request, Slot, Step, operand, result, told
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.tasks import WINDOW_GRAIN_CYCLES, WINDOW_SERIAL_CYCLES

# Multiply-adds that are written out in one tile: a row of the window for each of its pixels.
MOST_TAPS = 448
# Tiles of a row that are written out one by one, because some of their taps lie outside of the image.
MOST_EDGES = 6
# Widths of tiles for rows of unknown length, one of which suits nearly every length; and what a tile costs before it computes, in pixels.
OPEN_WIDTHS, TILE_PIXELS = (1, 3, 4, 5, 6, 7, 8), 2
# Rows of work that threads share well. As many rows make a piece of an image worth its first ones.
ENOUGH_ROWS = 8
# Vectors of channels that go through an image together if L1 is to hold what lies under a window.
FEW_VECTORS = 4
# Bytes after which addresses share their places in L1.
L1_WAY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """Axis `number` of an image under windows: `places` windows of `taps` elements, over `size` elements with `low` of padding before and
    `high` behind them.
    """

    number: int
    size: Dim
    low: int
    high: int
    places: Dim
    taps: int
    stride: int
    dilation: int

    @property
    def known(self) -> bool:
        """Whether its sizes are."""
        return isinstance(self.size, int) and isinstance(self.places, int)

    @property
    def reach(self) -> int:
        """From a window's first tap to its last one."""
        return (self.taps - 1) * self.dilation

    def inside(self, place: int, tap: int) -> bool:
        """Whether a tap of the window at `place` lies in the image, whose size is known."""
        assert isinstance(self.size, int)
        return 0 <= place * self.stride + tap * self.dilation - self.low < self.size

    def whole(self, place: int) -> bool:
        """Whether all of the window at `place` lies in the image."""
        return self.inside(place, 0) and self.inside(place, self.taps - 1)

    @property
    def clipped(self) -> bool:
        """Whether some window may reach out of the image."""
        if not isinstance(self.size, int) or not isinstance(self.places, int):
            return self.low > 0 or self.high > 0
        return not (self.whole(0) and self.whole(self.places - 1))


@dataclass(frozen=True)
class ChannelwisePlan:
    """A group to be computed: `image` under the windows, its last axis the channels; what is made of them by `op`, a contract or a
    reduction.

    `letters` of the result give the image's axes in order; a contract with several results of each channel has their `copies` as a further
    axis behind them.
    """

    request: Request
    op: tensor.Contract | tensor.Reduce
    image: Value
    window_axes: tuple[WindowAxis, ...]
    epilogue: Epilogue
    copies: int | None = None

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.op.result.type)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The result's: outer axes, places and channels in the image's order, and copies."""
        return shape_of(self.op.result)

    @property
    def channels(self) -> int:
        channels = shape_of(self.image)[-1]
        assert isinstance(channels, int)
        return channels


def build_depthwise_or_pooling(request: Request) -> KernelPlan | None:
    """The plan of a group around a depthwise convolution or an overlapping pooling with channels last; None for any other group."""
    plan = find_depthwise(request) or _find_pooling(request)
    return None if plan is None else ChannelwiseKernel(plan).build()


def find_depthwise(request: Request) -> ChannelwisePlan | None:
    """A contract of windows and weights [channels, (copies,) taps…] whose channels are neither summed nor mixed."""
    contracts = request.ops(tensor.Contract)
    if len(contracts) != 1:
        return None
    contract = contracts[0]
    window = contract.a.producer(tensor.Window)
    spec = tensor.ContractSpec(contract.spec)
    if window is None or len(spec.batch) != 1:
        return None
    rank = len(shape_of(window.x))
    image, taps = spec.a[:rank], spec.a[rank:]
    mixed = spec.free_b
    if (
        spec.contracted != taps
        or spec.b not in (spec.batch + mixed + taps,)
        or spec.out != image + mixed
        or len(mixed) > 1
        or image[-1] != spec.batch
    ):
        return None
    copies = spec.sizes(shape_of(contract.a), shape_of(contract.b))[mixed] if mixed else None
    if copies is not None and not isinstance(copies, int):
        return None
    return _plan_windows(request, contract, window, 0.0, copies)


def _find_pooling(request: Request) -> ChannelwisePlan | None:
    """A reduction of overlapping windows over memory. Others do as well in the generic loops."""
    reduces = request.ops(tensor.Reduce)
    if len(reduces) != 1 or request.ops(tensor.Contract):
        return None
    op = reduces[0]
    window = op.x.producer(tensor.Window)
    if window is None or op.keepdims or op.fn not in ("max", "min", "add"):
        return None
    rank = len(shape_of(window.x))
    if op.axes != tuple(range(rank, rank + len(window.axes))):
        return None
    return _plan_windows(request, op, window, identity_of(op.fn, element_type(op.result.type)), None)


def _plan_windows(
    request: Request, op: tensor.Contract | tensor.Reduce, window: tensor.Window, filling: float, copies: int | None
) -> ChannelwisePlan | None:
    """The group if sizes and what follows are of a kind that the kernel takes. Padding with `filling` is left to the kernel's loops, other
    padding (or so much of it that most tiles would be written out on their own) is made in memory first.
    """
    kinds = (f32, f64, i8, u8, i16) if isinstance(op, tensor.Reduce) and op.fn != "add" else (f32, f64)
    if element_type(op.result.type) not in kinds or 0 in shape_of(op.result):
        return None
    epilogue = find_epilogue(request, op)
    if epilogue is None or epilogue.pools:
        return None
    rank = len(shape_of(window.x))
    if (
        not window.axes
        or window.axes != tuple(sorted(window.axes))
        or window.axes[-1] != rank - 2
        or not isinstance(shape_of(window.x)[-1], int)
    ):
        return None
    pad = window.x.producer(tensor.Pad)
    if pad is not None and _only_around(pad, window.axes, filling):
        window_axes = _window_axes(window, pad.x, pad.low, pad.high)
        plan = None if window_axes is None else ChannelwisePlan(request, op, pad.x, window_axes, epilogue, copies)
        if window_axes is not None and plan is not None and _is_view(pad.x) and _few_edges(plan):
            return plan
    window_axes = _window_axes(window, window.x, (0,) * rank, (0,) * rank)
    if window_axes is None or not (pad is not None or _is_view(window.x)):
        return None
    return ChannelwisePlan(request, op, window.x, window_axes, epilogue, copies)


def _few_edges(plan: ChannelwisePlan) -> bool:
    """Whether what lies outside of the image is little enough to be left to the kernel: an image of unknown width is known to be there
    where a window is.
    """
    row = plan.window_axes[-1]
    return sum(1 for tile in _tiles(plan) if tile.count == 1) <= MOST_EDGES if row.known else row.low + row.high <= row.reach


def _only_around(pad: tensor.Pad, axes: tuple[int, ...], filling: float) -> bool:
    """Whether a pad puts `filling` around an image, along some of `axes`."""
    known = all(isinstance(n, int) and n >= 0 for n in (*pad.low, *pad.high))
    elsewhere = any(pad.low[axis] != 0 or pad.high[axis] != 0 for axis in range(len(pad.low)) if axis not in axes)
    return known and not elsewhere and not any(pad.interior) and pad.value == filling


def _is_memory(image: Value) -> bool:
    """Whether an image is (a view of) an argument with channels as neighbours."""
    letters = "abcdefgh"[: len(shape_of(image))]
    access = trace(image, letters)
    return isinstance(access.source, BlockArgument) and access.stride(letters[-1]) == 1


def _is_view(image: Value) -> bool:
    """Whether an image is a view of an argument; one whose channels are no neighbours is made in memory first."""
    return isinstance(trace(image, "abcdefgh"[: len(shape_of(image))]).source, BlockArgument)


def _window_axes(window: tensor.Window, image: Value, low: Sequence[Dim], high: Sequence[Dim]) -> tuple[WindowAxis, ...] | None:
    """The axes of windows over `image`, which has so much padding; None where a window or the padding is not known, or a row of taps too
    long to be written out.
    """
    window_axes = []
    for axis, taps, stride, dilation in zip(window.axes, window.sizes, window.strides, window.dilations, strict=True):
        before, behind = low[axis], high[axis]
        if not all(isinstance(n, int) for n in (before, behind, taps, stride, dilation)):
            return None
        assert isinstance(before, int) and isinstance(behind, int)
        window_axes.append(WindowAxis(axis, shape_of(image)[axis], before, behind, shape_of(window.result)[axis], taps, stride, dilation))
    return tuple(window_axes) if window_axes[-1].taps <= MOST_TAPS else None


@dataclass(frozen=True, slots=True)
class PixelTiles:
    """`count` neighbouring tiles of `width` pixels each from pixel `start` on; more than one only where no window reaches out of the image.
    """

    start: int
    width: int
    count: int = 1


def _widest(plan: ChannelwisePlan) -> int:
    """Pixels that a tile may have."""
    axis = plan.window_axes[-1]
    most = max(1, min(plan.request.target.vector_registers * 7 // 16, MOST_TAPS // axis.taps) // (plan.copies or 1))
    return -(-most // 2) if _conflicts_in_l1(plan, most) else most


def _tiles(plan: ChannelwisePlan) -> list[PixelTiles]:
    """A row of the result, whose size is known, in tiles of nearly equal width."""
    axis = plan.window_axes[-1]
    assert isinstance(axis.places, int)
    count = -(-axis.places // _widest(plan))
    width = -(-axis.places // count)
    tiles: list[PixelTiles] = []
    for start in range(0, axis.places, width):
        tile = PixelTiles(start, min(width, axis.places - start))
        last = tiles[-1] if tiles else None
        plain = all(axis.whole(x) for x in range(tile.start, tile.start + tile.width))
        if plain and last is not None and last.width == tile.width and all(axis.whole(x) for x in range(last.start, start)):
            tiles[-1] = PixelTiles(last.start, last.width, last.count + 1)
        else:
            tiles.append(tile)
    return tiles


def _conflicts_in_l1(plan: ChannelwisePlan, width: int) -> bool:
    """Whether the pixels under a tile evict each other from L1, because they are (nearly) a power of two apart."""
    *down, along = plan.window_axes
    pixels = prod(axis.taps for axis in down) * ((width - 1) * along.stride + (along.taps - 1) * along.dilation + 1)
    ways = plan.request.target.caches[0] // L1_WAY_BYTES
    places = L1_WAY_BYTES // gcd(plan.channels * plan.dtype.bytes, L1_WAY_BYTES)
    return pixels > ways * places * 3 // 4


class ChannelwiseKernel:
    """Makes the plan of one group, or a part of a kernel that other builders' groups have around it."""

    def __init__(self, plan: ChannelwisePlan, parts: PlanParts | None = None):
        self.plan = plan
        self.parts = parts or PlanParts(plan.request)
        target = plan.request.target
        widest = target.lanes(plan.dtype)
        n = plan.channels
        if n < widest:
            widest = 1 << ((n - 1).bit_length() if target.masked else n.bit_length() - 1)
        self.lanes = Lanes(widest, target.masked)
        self.taps = prod(axis.taps for axis in plan.window_axes)
        # From which channel on they are counted.
        self.lane0: Index = 0
        # Of a row of unknown length: pixels of its tiles, and columns of the tile being written that may lie outside of the image.
        self.width: Value | None = None
        self.outside: dict[int, tuple[Position, Value]] = {}

    def build(self) -> KernelPlan:
        plan = self.plan
        made = not _is_memory(plan.image)
        read: list[Value] = [plan.image] if made else list(_arguments(plan.image))
        weights = self.panels()
        slots: list[Slot] = [*(self.parts.memory_of(x) for x in read), *weights]
        slots += [*(operand(a.index) for a in plan.epilogue.args), *(result(i) for i in range(len(plan.epilogue.values)))]
        name = plan.request.name("depthwise" if weights else "pool")
        # Tiles of all widths are many loops, whose addresses LLVM would search for longest; with 16 registers that gains some percent. For
        # pooling the search takes most of LLVM's time, and gains nothing.
        searched = plan.window_axes[-1].known and bool(weights)
        final = (not searched and plan.request.target.vector_registers >= MANY_REGISTERS) or None
        func = Func.empty(name, [self.parts.buffer_type(x) for x in slots], loc=plan.op.location, final_addresses=final)
        code = Code(Builder.at_end(func.block, func.location), merged=True)
        args = list(func.args)
        self.begin(code)
        self.inputs = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in zip(read, args, strict=False)}
        self.weights = args[len(read)] if weights else None
        after = args[len(read) + len(weights) :]
        self.buffers: dict[Value, Value] = dict(zip(plan.epilogue.args, after, strict=False))
        self.outs = after[len(plan.epilogue.args) :]
        self._nest()
        code.b.insert(Return([]))
        clean_up_kernel(func)
        self.parts.steps.append(Step(func, tuple(slots)))
        along = plan.window_axes[-1]
        widths = " ".join(f"{t.count}x{t.width}" for t in _tiles(plan)) if along.known else "chosen at run time"
        return self.parts.plan("depthwise" if weights else "pool", schedule=told("channelwise", lanes=self.lanes.count, tiles=widths))

    def panels(self) -> list[Slot]:
        """The panels of weights; none for a pooling."""
        op = self.plan.op
        if isinstance(op, tensor.Reduce):
            return []
        spec = tensor.ContractSpec(op.spec)
        sizes = spec.sizes(shape_of(op.a), shape_of(op.b))
        panels = Panels((), (*spec.free_b, *spec.contracted), spec.batch, self.lanes.count, sizes)
        return [self.parts.packed(op.b, spec.b, trace(op.b, spec.b), panels)]

    def _nest(self) -> None:
        """Images, blocks of channels and pieces of images on threads."""
        plan, code = self.plan, self.code
        first, row = plan.window_axes[0].number, plan.window_axes[-1].number
        sizes = list(plan.shape[:row])
        vectors = -(-plan.channels // self.lanes.count)
        block = self._block(vectors, estimate_pixels(product(sizes))) * self.lanes.count
        blocks = -(-plan.channels // block)
        tall = self._tall(estimate_pixels(product(sizes[:-1])) * blocks)
        cycles = estimate_pixels(plan.window_axes[-1].places) * (self.taps * (plan.copies or 1) / 2 + 4) * vectors / blocks * tall
        if tall > 1:
            sizes[-1] = dims.ceildiv(plan.window_axes[-2].places, tall)

        def body(places: list[Position]) -> None:
            lo: Index = 0
            hi: Index = plan.channels
            if blocks > 1:
                lo = code.mul(places.pop(first).scalar(code), block)
                hi = code.add(lo, block) if plan.channels % block == 0 else code.min(code.add(lo, block), plan.channels)
            self._piece(places, tall, lo, hi)

        eager = replace(plan.request.target, serial_cycles=WINDOW_SERIAL_CYCLES, grain_cycles=WINDOW_GRAIN_CYCLES)
        each(code, eager, [*sizes[:first], *([blocks] if blocks > 1 else []), *sizes[first:]], cycles, body)

    def begin(self, code: Code) -> None:
        """What all tasks share, before them."""
        self.code = code
        if not self.plan.window_axes[-1].known:
            self.width = self._open_width()

    @cached_property
    def _exceeds_l2(self) -> bool:
        """Whether an image is too large for L2."""
        plan = self.plan
        pixels = prod(estimate_pixels(axis.size) for axis in plan.window_axes)
        return pixels * plan.channels * plan.dtype.bytes > plan.request.target.caches[1]

    def _block(self, vectors: int, rows: int) -> int:
        """Vectors of channels that go through an image together.

        If the image fits into L2, few at a time: what lies under a window then stays in L1, and each pixel is read from L2 once. A few long
        rows, as of sounds, are cut for the threads.
        """
        if not self._exceeds_l2:
            return min(vectors, FEW_VECTORS)
        return vectors if rows >= ENOUGH_ROWS else max(1, vectors * rows // ENOUGH_ROWS)

    def _tall(self, around: int) -> int:
        """Rows of the result in a piece; there are `around` pieces besides those that an image is cut into.

        Each tile goes down through all rows of a piece before the next one. What a row of a large image has under its windows is then in L1
        for the next row.
        """
        window_axes = self.plan.window_axes
        if not self._exceeds_l2 or len(window_axes) < 2 or window_axes[-2].number != window_axes[-1].number - 1:
            return 1
        rows = estimate_pixels(window_axes[-2].places)
        return min(rows, max(ENOUGH_ROWS, -(-rows * around // ENOUGH_ROWS)))

    def _piece(self, places: list[Position], tall: int, first: Index, end: Index) -> None:
        """Some rows of the result: `places` of its outer axes, of which the last one counts pieces of `tall` rows; channels from `first` to
        `end`.
        """
        code = self.code
        rows: tuple[Index, Index] | None = None
        if tall > 1:
            count = self.plan.window_axes[-2].places
            start = code.mul(places[-1].scalar(code), tall)
            whole = isinstance(count, int) and count % tall == 0
            rows = start, code.add(start, tall) if whole else code.min(code.add(start, tall), count)
        self.columns(places, rows, first, end)

    def columns(self, places: list[Position], rows: tuple[Index, Index] | None, first: Index, end: Index) -> None:
        """All tiles of a row, each of all of the `rows` or of the one at `places`; channels from `first` to `end`."""
        if self.width is not None:
            self._open_columns(self.width, places, rows, first, end)
            return
        for tile in _tiles(self.plan):
            if tile.count == 1:
                self._column(places, rows, tile, tile.start, first, end)
            else:
                with self.code.loop(tile.start, tile.start + tile.count * tile.width, step=tile.width, name="x") as loop:
                    self._column(places, rows, tile, loop.iv, first, end)

    @property
    def _open_widths(self) -> list[int]:
        """Pixels that tiles of a row of unknown length may have."""
        return [width for width in OPEN_WIDTHS if width <= _widest(self.plan)]

    def _open_width(self) -> Value:
        """How many pixels the tiles of such a row have, so that they cover it with the least work."""
        code, places = self.code, self.plan.window_axes[-1].places
        chosen, least = code.value(1), code.value(code.mul(places, 1 + TILE_PIXELS))
        for width in self._open_widths[1:]:
            work = code.value(code.mul(code.ceildiv(places, width), width + TILE_PIXELS))
            better = code.apply("and", code.apply("lt", work, least), code.apply("ge", code.value(places), code.value(width)))
            chosen, least = (code.apply("select", better, a, b) for a, b in ((code.value(width), chosen), (work, least)))
        return chosen

    def _open_columns(self, chosen: Value, places: list[Position], rows: tuple[Index, Index] | None, first: Index, end: Index) -> None:
        """All tiles of a row of unknown length, of the width that was chosen."""
        code, count = self.code, self.plan.window_axes[-1].places
        for width in self._open_widths:
            with code.when(code.apply("eq", chosen, code.value(width))), code.loop(0, count, step=width, name="x") as loop:
                start = code.min(loop.iv, code.sub(count, width))
                self.outside = self._columns_outside(start, width)
                self._column(places, rows, PixelTiles(0, width), start, first, end)

    def _columns_outside(self, start: Index, width: int) -> dict[int, tuple[Position, Value]]:
        """The columns under a tile that may lie outside of the image: for each the nearest one inside, and whether that is the same."""
        code, row = self.code, self.plan.window_axes[-1]
        first = code.sub(code.mul(start, row.stride), row.low)
        count = (width - 1) * row.stride + row.reach + 1
        found = {}
        for i in range(count):
            if i < row.low or i >= count - row.high:
                at = code.value(code.add(first, i))
                inside = code.min(code.apply("max", at, code.value(0)), code.sub(row.size, 1))
                found[i] = position(inside), code.apply("eq", at, code.value(inside))
        return found


    def _column(
        self, places: list[Position], rows: tuple[Index, Index] | None, tile: PixelTiles, start: Index, first: Index, end: Index
    ) -> None:
        """One tile of each of the `rows`, or of the row at `places`."""

        def row(y: Position, values: list[Value]) -> list[Value]:
            here = places if rows is None else [*places[:-1], y]
            ranges = [self._range(axis, here[axis.number]) for axis in self.plan.window_axes[:-1]]

            def vector(c: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                self._tile(here, ranges, tile, position(start), c.plus(self.code, position(self.lane0)), lanes, mask)
                return carried

            # Blocks of channels are of whole vectors.
            return vector_loop(self.code, first, end, self.lanes, values, vector, has_tail=self.plan.channels % self.lanes.count != 0)

        if rows is None:
            row(Position(), [])
        else:
            run(self.code, *rows, 1, [], row, name="y")

    def _range(self, axis: WindowAxis, place: Position) -> tuple[Index, Index]:
        """The taps of a window at `place` that lie in the image: from the first to before the second."""
        if not axis.clipped:
            return 0, axis.taps
        code = self.code
        start = code.mul(place.scalar(code), axis.stride)
        zero = code.value(0)
        before = code.apply("max", code.value(code.sub(axis.low, start)), zero)
        left = code.apply("max", code.value(code.sub(axis.size + axis.low, start)), zero)
        return code.ceildiv(before, axis.dilation), code.min(axis.taps, code.ceildiv(left, axis.dilation))


    def _tile(
        self,
        places: list[Position],
        ranges: list[tuple[Index, Index]],
        tile: PixelTiles,
        start: Position,
        c: Position,
        lanes: int,
        mask: Value | None,
    ) -> None:
        """The results of one tile for one vector of channels."""
        plan, code = self.plan, self.code
        copies = plan.copies or 1
        panel = self._panel(c, lanes)

        def nest(k: int, taps: list[Position], sums: list[Value]) -> list[Value]:
            if k < len(ranges):
                lo, hi = ranges[k]
                return run(code, lo, hi, 1, sums, lambda tap, inner: nest(k + 1, [*taps, tap], inner), name="m")
            return self._steps(places, taps, tile, start, c, lanes, mask, panel, sums)

        sums = nest(0, [], [self._identity(lanes)] * (tile.width * copies))
        emitter = plan.epilogue.emitter(code, self.buffers, lambda _places, _lanes, _mask: current[0])
        for x in range(tile.width):
            for copy in range(copies):
                current = [sums[x * copies + copy]]
                at = [*places, start.plus(code, Position(x)), c]
                if plan.copies is not None:
                    at.append(Position(copy))
                self.write(emitter, at, lanes, mask)

    def write(self, emitter: ElementEmitter, places: list[Position], lanes: int, mask: Value | None) -> None:
        """Store the results' elements at `places`."""
        self.plan.epilogue.write(emitter, self.outs, places, lanes, mask)

    def within(self, places: list[Position]) -> list[Position]:
        """Where the row of the image at `places` lies in the memory that is read."""
        return places


    def _steps(
        self,
        places: list[Position],
        taps: list[Position],
        tile: PixelTiles,
        start: Position,
        c: Position,
        lanes: int,
        mask: Value | None,
        panel: Index,
        sums: list[Value],
    ) -> list[Value]:
        """One row of the window: every tap of it for every pixel of the tile."""
        plan, code, row = self.plan, self.code, self.plan.window_axes[-1]
        copies = plan.copies or 1
        around = list(places)
        for axis, tap in zip(plan.window_axes[:-1], taps, strict=True):
            around[axis.number] = (
                places[axis.number].times(code, axis.stride).plus(code, tap.times(code, axis.dilation)).plus(code, Position(-axis.low))
            )
        around = self.within(around)
        first = start.times(code, row.stride).plus(code, Position(-row.low))
        pixels = ElementEmitter(code, self.inputs)
        strides = [prod(x.taps for x in plan.window_axes[i + 1 :]) for i in range(len(plan.window_axes))]
        along = code.add(*(code.mul(tap.scalar(code), k) for tap, k in zip(taps, strides, strict=False)), 0)

        read: dict[int, Value] = {}

        def pixel(column: int) -> Value:
            """What the image has in a column under the tile."""
            if column not in read:
                inside, same = self.outside.get(column, (first.plus(code, Position(column)), None))
                value = pixels.at(plan.image, [*around, inside, c], lanes, mask)
                read[column] = value if same is None else code.apply("select", code.broadcast(same, lanes), value, self._identity(lanes))
            return read[column]

        sums = list(sums)
        for n in range(row.taps):
            weights = self._tap(panel, along, n, lanes)
            for x in range(tile.width):
                if tile.count == 1 and row.known and not row.inside(tile.start + x, n):
                    continue
                value = pixel(x * row.stride + n * row.dilation)
                for copy in range(copies):
                    i = x * copies + copy
                    if isinstance(plan.op, tensor.Reduce):
                        sums[i] = code.apply(plan.op.fn, sums[i], value)
                    else:
                        sums[i] = code.fma(value, weights[copy], sums[i])
        return sums

    def _identity(self, lanes: int) -> Value:
        """What changes nothing where it is taken in: sums begin with it, and padding is read as it."""
        fn = self.plan.op.fn if isinstance(self.plan.op, tensor.Reduce) else "add"
        return self.code.broadcast(self.code.constant(identity_of(fn, self.plan.dtype), self.plan.dtype), lanes)

    def _panel(self, c: Position, lanes: int) -> Index:
        """Where the weights of channel `c` begin; for a single lane of a panel, its lane."""
        code, at = self.code, c.scalar(self.code)
        depth = self.taps * (self.plan.copies or 1)
        if lanes == self.lanes.count:
            return code.mul(at, depth)
        lane = code.mod(at, self.lanes.count)
        return code.add(code.mul(code.sub(at, lane), depth), lane)

    def _tap(self, panel: Index, along: Index, n: int, lanes: int) -> list[Value]:
        """The weights of a tap, one vector per copy."""
        if self.weights is None:
            return []
        code, width = self.code, self.lanes.count
        at = code.add(panel, code.mul(along, width), n * width)
        align = width * self.plan.dtype.bytes if lanes == width else None
        copies = range(self.plan.copies or 1)
        return [code.load(self.weights, code.add(at, copy * self.taps * width), lanes, None, align) for copy in copies]


def _arguments(value: Value) -> list[BlockArgument]:
    """The arguments of the group that `value` is made from."""
    found: dict[Value, None] = {}
    todo = [value]
    while todo:
        value = todo.pop()
        if value in found:
            continue
        found[value] = None
        if isinstance(value.owner, Op):
            todo += value.owner.operands
    return [v for v in found if isinstance(v, BlockArgument)]
