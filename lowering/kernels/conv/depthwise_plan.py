"""The plan of depthwise convolutions and poolings: which groups qualify, and what is chosen. `depthwise.py` writes the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd, prod

from polyreme.dialects import tensor
from polyreme.ir import dims
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import ScalarType, element_type, f32, f64, i8, i16, u8
from polyreme.lowering.analysis.access import trace
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.epilogue import Epilogue, find_epilogue
from polyreme.lowering.kernels.loop_nest import NestSchedule, choose_nest, is_like
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.code_size import WRITTEN_OUT
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.memory import L1_WAY_BYTES
from polyreme.lowering.machines.tasks import EVEN_GROUPS, WINDOW_GRAIN_CYCLES, WINDOW_SERIAL_CYCLES

# Widths of tiles for rows of unknown length, one of which suits nearly every length; and what a tile costs before it computes, in pixels.
OPEN_WIDTHS, TILE_PIXELS = (1, 3, 4, 5, 6, 7, 8), 2
# Vectors of channels that go through an image together if L1 is to hold what lies under a window.
FEW_VECTORS = 4


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


@dataclass(frozen=True)
class Channelwise:
    """A group around such windows: of an image as it is (`whole`), padded in memory first if it has a pad, and of one whose pad the
    kernel's loops leave out (`bare`), where they can.
    """

    whole: ChannelwisePlan
    bare: ChannelwisePlan | None

    @property
    def has_pad(self) -> bool:
        return self.whole.image.producer(tensor.Pad) is not None

    def plan(self, padded: bool) -> ChannelwisePlan:
        """What is computed, with the image `padded` in memory first or its pad left out."""
        return self.whole if padded or self.bare is None else self.bare

    @property
    def chosen(self) -> ChannelwisePlan:
        """The one that is chosen."""
        return self.plan(self.is_padded_first)

    @property
    def is_padded_first(self) -> bool:
        """Whether the pad is made in memory: where the loops cannot leave it out, or so much of it that most tiles would be written out on
        their own.
        """
        return self.has_pad and (self.bare is None or _edges(self.bare) > WRITTEN_OUT.edges)


@dataclass(frozen=True)
class ChannelwiseSchedule(Schedule, kind="channelwise"):
    """Vectors of so many `lanes` channels, with `masked` ends or scalar ones, and tiles of so many `pixels` of a row. Of rows of unknown
    length, tiles have at most so many, which the kernel chooses when it runs.

    So many `channels` go through an image together, down so many `rows` of the result tile by tile. An image with a pad is `padded` in
    memory first, or its pad is left out. With `final_addresses` LLVM looks for no cheaper addresses. `nest` says how threads share the
    images, blocks of channels and pieces of rows.
    """

    lanes: int
    pixels: int
    channels: int
    rows: int = 1
    masked: bool = False
    padded: bool = False
    final_addresses: bool = False
    nest: NestSchedule | None = None


def find_channelwise(request: Request) -> Channelwise | None:
    """A group around a depthwise convolution or an overlapping pooling with channels last; None for any other group."""
    return find_depthwise(request) or _find_pooling(request)


def find_depthwise(request: Request) -> Channelwise | None:
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
    return _over_windows(request, contract, window, 0.0, copies)


def _find_pooling(request: Request) -> Channelwise | None:
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
    return _over_windows(request, op, window, identity_of(op.fn, element_type(op.result.type)), None)


def _over_windows(
    request: Request, op: tensor.Contract | tensor.Reduce, window: tensor.Window, filling: float, copies: int | None
) -> Channelwise | None:
    """The group if sizes and what follows are of a kind that the kernel takes. Only padding with `filling` may be left to the kernel's
    loops.
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
    window_axes = _window_axes(window, window.x, (0,) * rank, (0,) * rank)
    if window_axes is None or not (pad is not None or _is_view(window.x)):
        return None
    whole, bare = ChannelwisePlan(request, op, window.x, window_axes, epilogue, copies), None
    if pad is not None and _only_around(pad, window.axes, filling) and _is_view(pad.x):
        window_axes = _window_axes(window, pad.x, pad.low, pad.high)
        if window_axes is not None and _is_there(window_axes[-1]):
            bare = replace(whole, image=pad.x, window_axes=window_axes)
    return Channelwise(whole, bare)


def _is_there(row: WindowAxis) -> bool:
    """Whether each window along a row is known to have pixels of the image in it: what lies outside is read from the nearest pixel if the
    width is unknown.
    """
    return row.known or row.low + row.high <= row.reach


def _edges(plan: ChannelwisePlan) -> int:
    """Tiles of a row that are written out one by one; none of a row of unknown length."""
    row = plan.window_axes[-1]
    return sum(1 for tile in tiles_of(row, pixels_of_tile(plan)) if tile.count == 1) if row.known else 0


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
    return tuple(window_axes) if window_axes[-1].taps <= WRITTEN_OUT.tile else None


@dataclass(frozen=True, slots=True)
class PixelTiles:
    """`count` neighbouring tiles of `width` pixels each from pixel `start` on; more than one only where no window reaches out of the image.
    """

    start: int
    width: int
    count: int = 1


def tiles_of(axis: WindowAxis, width: int) -> list[PixelTiles]:
    """A row of the result, whose size is known, in tiles of so many pixels."""
    assert isinstance(axis.places, int)
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


# --- what is chosen


def lanes_of(plan: ChannelwisePlan) -> int:
    """Channels of a vector."""
    target, n = plan.request.target, plan.channels
    widest = target.lanes(plan.dtype)
    return widest if n >= widest else 1 << ((n - 1).bit_length() if target.masked else n.bit_length() - 1)


def _most_pixels(plan: ChannelwisePlan) -> int:
    """Pixels of a tile that registers hold, and whose multiply-adds are few enough."""
    taps = plan.window_axes[-1].taps
    return max(1, min(plan.request.target.vector_registers * 7 // 16, WRITTEN_OUT.tile // taps) // (plan.copies or 1))


def pixels_of_tile(plan: ChannelwisePlan) -> int:
    """Pixels of a tile: tiles of a row are of nearly equal width, where its length is known."""
    most, places = _most_pixels(plan), plan.window_axes[-1].places
    if _conflicts_in_l1(plan, most):
        most = -(-most // 2)
    return _even_width(places, most) if isinstance(places, int) else max(width for width in OPEN_WIDTHS if width <= most)


def widths_of_tiles(plan: ChannelwisePlan) -> Sequence[int]:
    """How many pixels a tile may have."""
    most, places = _most_pixels(plan), plan.window_axes[-1].places
    return range(1, min(most, places) + 1) if isinstance(places, int) else [width for width in OPEN_WIDTHS if width <= most]


def _even_width(places: int, most: int) -> int:
    """The width of about equal tiles of at most so many pixels."""
    return -(-places // -(-places // most))


def _conflicts_in_l1(plan: ChannelwisePlan, width: int) -> bool:
    """Whether the pixels under a tile evict each other from L1, because they are (nearly) a power of two apart."""
    *down, along = plan.window_axes
    pixels = prod(axis.taps for axis in down) * ((width - 1) * along.stride + (along.taps - 1) * along.dilation + 1)
    ways = plan.request.target.caches[0] // L1_WAY_BYTES
    places = L1_WAY_BYTES // gcd(plan.channels * plan.dtype.bytes, L1_WAY_BYTES)
    return pixels > ways * places * 3 // 4


def _exceeds_l2(plan: ChannelwisePlan) -> bool:
    """Whether an image is too large for L2."""
    pixels = prod(estimate_pixels(axis.size) for axis in plan.window_axes)
    return pixels * plan.channels * plan.dtype.bytes > plan.request.target.caches[1]


def _vectors_together(plan: ChannelwisePlan, vectors: int, rows: int) -> int:
    """Vectors of channels that go through an image together.

    If the image fits into L2, few at a time: what lies under a window then stays in L1, and each pixel is read from L2 once. A few long
    rows, as of sounds, are cut for the threads.
    """
    if not _exceeds_l2(plan):
        return min(vectors, FEW_VECTORS)
    return vectors if rows >= EVEN_GROUPS else max(1, vectors * rows // EVEN_GROUPS)


def _cuts_rows(plan: ChannelwisePlan) -> bool:
    """Whether a piece may have several rows: windows go down the axis in front of the one that tiles are of."""
    window_axes = plan.window_axes
    return len(window_axes) > 1 and window_axes[-2].number == window_axes[-1].number - 1


def _rows_of_piece(plan: ChannelwisePlan, around: int) -> int:
    """Rows of the result in a piece; there are `around` pieces besides those that an image is cut into.

    Each tile goes down through all rows of a piece before the next one. What a row of a large image has under its windows is then in L1
    for the next row.
    """
    if not _exceeds_l2(plan) or not _cuts_rows(plan):
        return 1
    rows = estimate_pixels(plan.window_axes[-2].places)
    return min(rows, max(EVEN_GROUPS, -(-rows * around // EVEN_GROUPS)))


def choose_channelwise(found: Channelwise) -> ChannelwiseSchedule:
    """Wide tiles, few channels together where the image fits into L2, and a pad that is left out where few tiles reach out of the image."""
    return _schedule(found, found.is_padded_first)


def _schedule(
    found: Channelwise, padded: bool, pixels: int | None = None, channels: int | None = None, rows: int | None = None
) -> ChannelwiseSchedule:
    """The schedule with what is given, and the rest as it suits that."""
    plan = found.plan(padded)
    target, along = plan.request.target, plan.window_axes[-1]
    lanes = lanes_of(plan)
    sizes = plan.shape[: along.number]
    vectors = -(-plan.channels // lanes)
    if channels is None:
        channels = _vectors_together(plan, vectors, estimate_pixels(product(sizes))) * lanes
    blocks = -(-plan.channels // channels)
    if rows is None:
        rows = _rows_of_piece(plan, estimate_pixels(product(sizes[:-1])) * blocks)
    taps = prod(axis.taps for axis in plan.window_axes)
    cycles = estimate_pixels(along.places) * (taps * (plan.copies or 1) / 2 + 4) * vectors / blocks * rows
    eager = replace(target, serial_cycles=WINDOW_SERIAL_CYCLES, grain_cycles=WINDOW_GRAIN_CYCLES)
    memory = [*memory_read(plan), *plan.epilogue.args, *plan.epilogue.values]
    free = any(isinstance(n, Expr) for value in memory for n in shape_of(value))
    # Tiles of all widths are many loops, whose addresses LLVM would search for longest; with 16 registers that gains some percent. For
    # pooling the search takes most of LLVM's time, and gains nothing.
    searched = along.known and isinstance(plan.op, tensor.Contract)
    return ChannelwiseSchedule(
        lanes,
        pixels_of_tile(plan) if pixels is None else pixels,
        channels,
        rows,
        target.masked,
        padded,
        not searched and target.vector_registers >= MANY_REGISTERS,
        choose_nest(eager, iterations_of(plan, channels, rows), cycles, free),
    )


def iterations_of(plan: ChannelwisePlan, channels: int, rows: int) -> list[Dim]:
    """What is iterated over: the outer axes, with blocks of channels among them if there are several, and pieces of rows in place of rows.
    """
    first, row = plan.window_axes[0].number, plan.window_axes[-1].number
    sizes, blocks = list(plan.shape[:row]), -(-plan.channels // channels)
    if rows > 1:
        sizes[-1] = dims.ceildiv(plan.window_axes[-2].places, rows)
    return [*sizes[:first], *([blocks] if blocks > 1 else []), *sizes[first:]]


def other_channelwise(found: Channelwise) -> Iterator[ChannelwiseSchedule]:
    """Narrower tiles, other blocks of channels and rows, and the other way to pad."""
    own = choose_channelwise(found)
    plan = found.plan(own.padded)
    row, down = plan.window_axes[-1].places, plan.window_axes[-2].places if _cuts_rows(plan) else 1
    most = _most_pixels(plan)
    halves = [most, -(-own.pixels // 2), -(-own.pixels // 3)]
    widths = [_even_width(row, n) for n in halves] if isinstance(row, int) else [n for n in OPEN_WIDTHS if n in halves]
    for width in widths:
        yield _schedule(found, own.padded, width, own.channels, own.rows)
    all_channels = -(-plan.channels // own.lanes) * own.lanes
    for channels in (own.lanes, FEW_VECTORS * own.lanes, all_channels):
        if channels <= all_channels:
            yield _schedule(found, own.padded, own.pixels, channels, own.rows)
    for rows in (1, EVEN_GROUPS):
        if rows <= estimate_pixels(down):
            yield _schedule(found, own.padded, own.pixels, own.channels, rows)
    if found.bare is not None and _edges(found.bare) <= 2 * WRITTEN_OUT.edges:
        yield _schedule(found, not own.padded)


def fit_channelwise(found: Channelwise, schedule: ChannelwiseSchedule) -> None:
    """`ScheduleError` unless it is a schedule of these windows: with any tile that registers hold, any blocks of whole vectors of channels,
    any pieces of rows, any grain, and a pad that is left out if the loops can do so.
    """
    own = choose_channelwise(found)
    error = ScheduleError(f"expected a schedule like {own} for these windows and this machine but got {schedule}")
    if found.bare is None and schedule.padded != found.has_pad:
        raise error
    plan = found.plan(schedule.padded)
    rows = range(1, estimate_pixels(plan.window_axes[-2].places) + 1) if _cuts_rows(plan) else range(1, 2)
    if (
        schedule.pixels not in widths_of_tiles(plan)
        or schedule.channels not in range(own.lanes, plan.channels + own.lanes, own.lanes)
        or schedule.rows not in rows
    ):
        raise error
    like = _schedule(found, schedule.padded, schedule.pixels, schedule.channels, schedule.rows)
    if not is_like(schedule, like):
        raise error


def memory_read(plan: ChannelwisePlan) -> list[Value]:
    """What is read in place of the image: it, if it is made in memory first, or the arguments that it is a view of."""
    return list(_arguments(plan.image)) if _is_memory(plan.image) else [plan.image]


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
