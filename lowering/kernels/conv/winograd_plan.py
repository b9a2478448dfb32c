"""The plan of a Winograd convolution: which groups qualify, how the work may be cut, and an estimate of each. `winograd.py` has the
algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import isqrt

from polyreme.dialects import tensor
from polyreme.ir import config, dims
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, f32
from polyreme.lowering.analysis.accuracy import ALGORITHMS
from polyreme.lowering.analysis.estimates import ASSUMED, estimate
from polyreme.lowering.kernels.conv.direct_plan import DirectSchedule, choose_direct, find_direct
from polyreme.lowering.kernels.conv.winograd_transforms import Transforms, sizes_of_pieces, transforms
from polyreme.lowering.kernels.gemm.winograd_inner_product_plan import find_winograd_inner_product
from polyreme.lowering.kernels.microkernel import Registers, split_extent, step_cycles
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.problem import Problem, find_problem
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.cost import is_faster
from polyreme.lowering.machines.memory import STACK_BYTES
from polyreme.lowering.machines.tasks import GRAIN_CYCLES, PIECES
from polyreme.lowering.machines.winograd_costs import WINOGRAD_CHANNELS, WinogradCosts, winograd_costs

ACCURACY = ALGORITHMS["winograd"]
"""By the side of the window and the size of a piece; see `winograd.py` for the magnitude."""


@dataclass(frozen=True)
class ExactPieces:
    """How integers are convolved: by pieces of `size`, whose transforms hold 1 and -1 and the weights' halves, so that sums are `scale`
    times too large; 9 products of bytes of so many `channels`, times that, still fit into 32 bits. The numbers of two rows and their
    products take so many registers (`Registers.factors`).
    """

    size: int
    scale: int
    channels: int
    factors: int


EXACT = ExactPieces(size=2, scale=4, channels=512, factors=4)


@dataclass(frozen=True)
class WinogradImage:
    """The convolution of `x`, [batch, height, width, channels], with zeros around it, and `weights`; `high` x `wide` pixels with `outputs`
    channels come out. The batch, and the sizes of the image, need not be known.

    Windows are of `span` x `span` pixels, `stride` apart, down and across. `top` and `left` are how many zeros there are before the image.
    Letters: `letters` are those of x, `taps` the window's, `output` the output channel's. With `pairs` its numbers are integers of 16 bits,
    of which two channels are a word, and `channels` are words.
    """

    problem: Problem
    x: Value
    span: int
    stride: int
    top: int
    left: int
    batch: Dim
    height: Dim
    width: Dim
    channels: int
    high: Dim
    wide: Dim
    outputs: int
    weights: Value
    weight_letters: str
    letters: str
    taps: str
    output: str

    @property
    def request(self) -> Request:
        return self.problem.request

    @property
    def pairs(self) -> bool:
        return self.problem.pairs

    @cached_property
    def dtype(self) -> ScalarType:
        return self.problem.dtype

    @cached_property
    def transforms_weights(self) -> bool:
        """Whether each run transforms the weights, as where a step of training has changed them."""
        source = self.problem.right.source
        return isinstance(source, BlockArgument) and source.index not in self.request.constant | self.request.kept

    @cached_property
    def lanes(self) -> int:
        return self.problem.registers.lanes

    @cached_property
    def vectors(self) -> int:
        """Vectors of output channels."""
        return -(-self.outputs // self.lanes)

    @property
    def steps(self) -> tuple[int, int]:
        """How many pixels down and across are pooled to one."""
        down, across = self.problem.epilogue.steps[1:3]
        assert isinstance(down, int) and isinstance(across, int)
        return down, across

    @cached_property
    def known(self) -> bool:
        """Whether sizes and batch are known."""
        return all(isinstance(n, int) for n in (self.batch, self.high, self.wide))

    def sized(self, pixels: int) -> WinogradImage:
        """The same with numbers to plan with where sizes are unknown, those of images with sides of so many pixels."""
        batch = dict.fromkeys(dims.symbols(self.batch), ASSUMED.images)

        def number(size: Dim) -> int:
            return estimate(dims.substitute(size, batch), pixels)

        return replace(
            self,
            batch=number(self.batch),
            height=number(self.height),
            width=number(self.width),
            high=number(self.high),
            wide=number(self.wide),
        )

    @cached_property
    def usual(self) -> tuple[WinogradImage, ...]:
        """Images of known sizes to plan with, all the same where it is only the batch that is unknown."""
        known = isinstance(self.high, int) and isinstance(self.wide, int)
        return tuple(self.sized(pixels) for pixels in ((ASSUMED.pixels,) if known else ASSUMED.sides))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of pieces that it may be cut into."""
        if self.pairs:
            return (EXACT.size,)
        return self.costs.sizes.get((self.span, self.stride), ())

    @property
    def costs(self) -> WinogradCosts:
        """What it costs besides its multiply-adds."""
        return winograd_costs(self.request.target)

    @property
    def pixels(self) -> int:
        """How many come out, of all images."""
        assert isinstance(self.batch, int) and isinstance(self.high, int) and isinstance(self.wide, int)
        return self.batch * self.high * self.wide

    @property
    def enough(self) -> float:
        """Estimated cycles below which Winograd's algorithm is taken; per pixel if sizes are unknown."""
        return self.costs.share * self.direct_cycles

    @property
    def direct_cycles(self) -> float:
        """The estimated cycles of the direct convolution; per pixel, as the mean of usual sizes, if sizes are unknown."""
        if not self.known:
            slower = 1 if len(self.usual) == 1 else self.costs.unknown_rows
            return sum(slower * image.direct_cycles / image.pixels for image in self.usual) / len(self.usual)
        target, costs = self.request.target, self.costs
        arithmetic = self.pixels * self.channels * self.span**2 * self.vectors / 2
        loading = self.channels * self.outputs * self.span**2 * self.dtype.bytes / target.memory_bytes_per_cycle
        inside = self._inside if costs.direct_skips else 1.0
        shows = costs.stream_shows if target.hardware_prefetch else costs.loading_shows
        return _overlapped_cycles(costs.direct * inside * arithmetic, loading, shows)

    @property
    def _inside(self) -> float:
        """What part of all pixels' taps lies in the image."""
        part = 1.0
        for before, size, pixels in ((self.top, self.height, self.high), (self.left, self.width, self.wide)):
            assert isinstance(size, int) and isinstance(pixels, int)
            part *= sum(0 <= i * self.stride + tap - before < size for i in range(pixels) for tap in range(self.span)) / (
                self.span * pixels
            )
        return part


def _overlapped_cycles(first: float, second: float, shows: float) -> float:
    """Cycles of two things at the same time."""
    return max(first, second) + shows * min(first, second)


def find_image(request: Request) -> WinogradImage | None:
    """The convolution of a group, if it is one that this file knows how to make."""
    problem = find_problem(request, words=True)
    if problem is None or problem.registers.lanes == 1:
        return None
    contract, epilogue = problem.contract, problem.epilogue
    if problem.dtype != f32 and not problem.pairs:
        return None
    spec = tensor.ContractSpec(contract.spec)
    window = contract.a.producer(tensor.Window)
    if window is None or window.axes != (1, 2) or window.x.type.rank != 4:
        return None
    if any(n != of[0] for of in (window.sizes, window.strides) for n in of) or window.dilations != (1, 1):
        return None
    if not sizes_of_pieces(window.sizes[0], window.strides[0]):
        return None
    letters, taps = spec.a[:4], spec.a[4:]
    output = spec.out[3:]
    if spec.out[:3] != letters[:3] or len(output) != 1 or output in spec.a or sorted(spec.b) != sorted(output + letters[3] + taps):
        return None
    apart = all(reach == step for step, reach in zip(epilogue.steps, epilogue.reaches, strict=True))
    if not apart or len(epilogue.steps) != 4 or any(epilogue.steps[i] != 1 for i in (0, -1)):
        return None
    padded = window.x.producer(tensor.Pad)
    x, top, left = window.x, 0, 0
    if padded is not None:
        if padded.value != 0 or any(padded.interior) or any(padded.low[i] != 0 or padded.high[i] != 0 for i in (0, 3)):
            return None
        x, top, left = padded.x, padded.low[1], padded.low[2]
    batch, height, width, channels = x.type.shape
    _, high, wide, outputs = contract.result.type.shape
    if not all(isinstance(n, int) for n in (channels, outputs, top, left, *epilogue.steps)):
        return None
    if not isinstance(problem.right.source, BlockArgument) or (problem.pairs and problem.right.source.index not in request.constant):
        return None
    if min(channels, outputs) < WINOGRAD_CHANNELS or high * wide == 0:
        return None
    if problem.pairs:
        if channels % 2 or channels > EXACT.channels or (window.sizes[0], window.strides[0]) != (3, 1):
            return None
        channels //= 2
    return WinogradImage(
        problem, x, window.sizes[0], window.strides[0], top, left, batch, height, width, channels, high, wide, outputs, contract.b, spec.b,
        letters, taps, output
    )  # fmt: skip


@dataclass(frozen=True)
class Blocking:
    """How the work is cut.

    A block has `pieces` of `size` x `size` pixels and takes `depth` channels at a time. A panel has `vectors` vectors of output channels, a
    task `panels` panels, a register tile `rows` pieces. With `transforms_first` a kernel transforms the image once for all tasks. For an
    unknown number of pieces, `pieces` is the most that fit into a block. The blocking serves calls with at least `least` pixels and with
    fewer than `below`. With `copies` each of two threads makes the transformed image for itself. A thread takes `grain` tasks at a time.
    """

    image: WinogradImage
    size: int
    pieces: int
    depth: int
    vectors: int
    panels: int
    rows: int
    transforms_first: bool = False
    least: int = 0
    below: int | None = None
    copies: bool = False
    grain: int = 1

    @cached_property
    def transforms(self) -> Transforms:
        return transforms(self.size, self.image.stride, self.image.span)

    @cached_property
    def products(self) -> int:
        """How many numbers are multiplied for a piece and a pair of channels."""
        return self.transforms.reach**2

    @property
    def step(self) -> int:
        """Pixels of the image from one piece to the next."""
        return self.size * self.image.stride

    @cached_property
    def grid(self) -> tuple[Dim, Dim]:
        """Pieces down and across."""
        return dims.ceildiv(self.image.high, self.size), dims.ceildiv(self.image.wide, self.size)

    @cached_property
    def all_pieces(self) -> Dim:
        """Pieces of the whole batch."""
        return dims.product(self.grid) * self.image.batch

    @property
    def known(self) -> bool:
        """Whether it is known how many pieces there are."""
        return self.image.known

    def of(self, image: WinogradImage) -> Blocking:
        """The same for an image of known sizes, whose pieces are shared out evenly."""
        one = replace(self, image=image)
        assert isinstance(one.blocks, int) and isinstance(one.all_pieces, int)
        return replace(one, pieces=-(-one.all_pieces // one.blocks))

    @cached_property
    def blocks(self) -> Dim:
        return dims.ceildiv(self.all_pieces, self.pieces)

    @property
    def divides(self) -> bool:
        """Whether no piece reaches out of the image."""
        return self.image.high % self.size == 0 and self.image.wide % self.size == 0

    @property
    def parts(self) -> int:
        """Tasks that share a block."""
        return -(-self.image.vectors // (self.vectors * self.panels))

    @property
    def ranges(self) -> int:
        """Ranges of channels."""
        return self.image.channels // self.depth

    @property
    def width(self) -> int:
        """Output channels of a panel."""
        return self.vectors * self.image.lanes

    @property
    def row(self) -> int:
        """Elements of a row of the transformed data: one vector more than needed, so that rows do not meet in the same set of the cache."""
        return (-(-self.depth // self.image.lanes) + 1) * self.image.lanes

    @property
    def data_plane(self) -> int:
        """Elements between one product's data and the next one's."""
        return self.pieces * self.row + self.image.lanes

    @property
    def sums_plane(self) -> int:
        return self.pieces * self.width + self.image.lanes

    @property
    def panels_at_once(self) -> int:
        """Panels whose sums are kept: all of a task while more channels are to come."""
        return self.panels if self.ranges > 1 else 1

    @property
    def data_elements(self) -> int:
        """Elements of a block's transformed data."""
        return self.products * self.data_plane

    @property
    def transformed_elements(self) -> Dim:
        """Elements of all blocks' transformed data."""
        if self.known:
            return self.blocks * self.data_elements
        # Blocks have whole tiles of pieces, and some less than one more than they need.
        return self.products * ((self.all_pieces + self.blocks * self.rows) * self.row + self.blocks * self.image.lanes)

    @property
    def scratch_bytes(self) -> int:
        data = self.data_elements * (not self.transforms_first)
        return (data + self.products * self.panels_at_once * self.sums_plane) * self.image.dtype.bytes

    @property
    def weight_elements(self) -> int:
        return self.parts * self.panels * self.width * self.products * self.image.channels

    @cached_property
    def cycles(self) -> float:
        """An estimate for the whole batch on one thread; per pixel where sizes are unknown, as the mean of the usual ones."""
        if not self.known:
            return sum(self.of(image).cycles / image.pixels for image in self.image.usual) / len(self.image.usual)
        image, q, blocks, elements = self.image, self.products, self.blocks, self.transformed_elements
        assert isinstance(blocks, int) and isinstance(elements, int)
        vectors_in = -(-image.channels // image.lanes)
        tiles = sum(
            count * (image.channels * step_cycles(rows, self.vectors) + self.ranges * (20 + 1.5 * rows * self.vectors))
            for rows, count in split_extent(self.pieces, self.rows)
        )
        products = blocks * self.parts * self.panels * q * tiles
        times = 1 if self.transforms_first else self.parts
        target = image.request.target
        costs = image.costs
        each = costs.transform.get((self.size, image.stride), costs.usual_transform)
        transformed = blocks * self.pieces * (times * vectors_in + image.vectors) * q * each
        weights, data = self.weight_elements * image.dtype.bytes, elements * image.dtype.bytes * self.transforms_first
        l3 = target.caches[2]
        again, there = (target.l3_bytes_per_cycle if size <= l3 // 2 else target.memory_bytes_per_cycle for size in (weights, data))
        moved = self._moved(data, there)
        loading = weights / target.memory_bytes_per_cycle + (blocks - 1) * weights / again
        if image.transforms_weights:
            # Gathered and multiplied, and written to lines that are read first.
            vectors = image.channels * self.parts * self.panels * self.vectors
            transformed += vectors * image.span**2 * costs.gather + 2 * weights / target.memory_bytes_per_cycle
        # Few tasks leave threads idle at the end.
        waiting = 1 + 0.3 / (blocks * self.parts)
        first = costs.step * self.transforms_first
        return (_overlapped_cycles(products, loading, costs.loading_shows) + moved + transformed + first) * waiting

    def _moved(self, data: int, bandwidth: float) -> float:
        """Cycles for data transformed in front, and sums that wait for more channels, to leave the caches and come back."""
        target, blocks = self.image.request.target, self.blocks
        assert isinstance(blocks, int)
        l2, costs = target.caches[1], self.image.costs
        if target.spare_adders:
            l3 = costs.beyond_l2 * data if target.multiply_adds < 2 and data > costs.l2_multiple * l2 else 0
            return l3 + (costs.loading_shows * data * (1 + self.parts) / bandwidth if data > l2 // 2 * blocks else 0)
        sums = (
            blocks * self.parts * self.panels * self.products * self.sums_plane * self.image.dtype.bytes * self.ranges * (self.ranges > 1)
        )
        # Each panel meets all of a block's data.
        again = data * self.parts * self.panels if data > l2 * 7 // 8 * blocks else 0
        return costs.transform_first * data + costs.loading_shows * again / bandwidth + costs.ranges * sums


@dataclass(frozen=True)
class WinogradCut(Schedule, kind="pieces"):
    """A `Blocking` without its image: pieces of `pixels` x `pixels`, so many `pieces` to a block, and register tiles of `tile` pieces; for
    calls from `from_pixels` pixels on and below `below_pixels`. The other fields are those of `Blocking`.
    """

    pixels: int
    pieces: int
    depth: int
    vectors: int
    panels: int
    tile: int
    transforms_first: bool = False
    copies: bool = False
    grain: int = 1
    from_pixels: int = 0
    below_pixels: int | None = None

    def of(self, image: WinogradImage) -> Blocking:
        """The work on an image, cut like this."""
        return Blocking(
            image, self.pixels, self.pieces, self.depth, self.vectors, self.panels, self.tile, self.transforms_first, self.from_pixels,
            self.below_pixels, self.copies, self.grain,
        )  # fmt: skip


@dataclass(frozen=True)
class WinogradSchedule(Schedule, kind="winograd"):
    """How a convolution is computed by Winograd's algorithm: by one of `cuts` for each range of sizes. Images with fewer pixels than any of
    them is for are convolved as `direct` says.
    """

    cuts: tuple[WinogradCut, ...]
    direct: DirectSchedule | None = None


def choose_winograd(image: WinogradImage) -> WinogradSchedule | None:
    """The schedule with the fewest estimated cycles. None if the direct convolution or Winograd's inner product is estimated to be faster,
    or if `Target.winograd` or `POLYREME_WINOGRAD` forbids it.
    """
    if not image.request.target.winograd or not config.winograd():
        return None
    cuts = choose_blockings(image)
    return schedule_blockings(image, cuts) if cuts and not _prefers_inner_product(image.request, cuts) else None


def _prefers_inner_product(request: Request, cuts: Sequence[Blocking]) -> bool:
    """Whether Winograd's inner product takes less time. Estimates here are in cycles of two multiply-adds."""
    inner_product = find_winograd_inner_product(request)
    cycles = 2 / request.target.multiply_adds * min(cut.cycles for cut in cuts)
    return inner_product is not None and cycles > winograd_costs(request.target).inner_product * inner_product.cycles


def why_not_winograd(image: WinogradImage) -> str:
    """Why a convolution is not computed so, for people."""
    if not image.request.target.winograd or not config.winograd():
        return "forbidden"
    per = "" if image.known else " for each pixel"
    best = min((b.cycles for b in blockings(image)), default=None)
    if best is None:
        return "no cut fits into the caches"
    if best > image.enough:
        return f"estimated {best:.1f} cycles{per}; at most {image.enough:.1f} are asked, by the direct convolution's"
    return "Winograd's inner product, or for unknown sizes the direct convolution, is estimated to be faster"


def schedule_blockings(image: WinogradImage, cuts: Sequence[Blocking]) -> WinogradSchedule:
    """Blockings, each for a range of sizes, as a value without the image; sizes below all of them are convolved directly."""
    least = min(cut.least for cut in cuts)
    direct = find_direct(image.request) if least else None
    if least and direct is None:
        cuts = [replace(cut, least=0) if cut.least == least else cut for cut in cuts]
    return WinogradSchedule(tuple(map(_cut_of, cuts)), None if direct is None else choose_direct(direct))


def _cut_of(cut: Blocking) -> WinogradCut:
    usual = cut if cut.known else cut.of(cut.image.usual[0])
    assert isinstance(usual.blocks, int)
    grain = max(1, int(GRAIN_CYCLES / (usual.cycles / (cut.parts * usual.blocks))))
    copies = cut.transforms_first and cut.known and cut.image.request.target.separate_l3
    return WinogradCut(
        cut.size, cut.pieces, cut.depth, cut.vectors, cut.panels, cut.rows, cut.transforms_first, copies, grain, cut.least, cut.below
    )


def fit_winograd(image: WinogradImage, schedule: WinogradSchedule) -> None:
    """`ScheduleError` unless it is what is chosen for this convolution, or the cut of a known size by one of its blockings."""
    every = blockings(image) if image.known else ()
    if all(schedule != schedule_blockings(image, [cut]) for cut in every) and schedule != choose_winograd(image):
        raise ScheduleError(f"expected one of the cuts of this convolution on this machine but got {schedule}")


def other_winograd(image: WinogradImage) -> Iterator[WinogradSchedule]:
    """Of each size of pieces the cut with the fewest estimated cycles, where all sizes are known."""
    best: dict[int, Blocking] = {}
    for cut in sorted(blockings(image), key=lambda b: b.cycles) if image.known else ():
        best.setdefault(cut.size, cut)
    for cut in best.values():
        yield schedule_blockings(image, [cut])


def choose_blockings(image: WinogradImage) -> list[Blocking]:
    """The blocking with the fewest estimated cycles; two if sizes are unknown and one of them is much better for few pixels.

    None if the direct convolution is better. If it is better for few pixels, all blockings are for more.
    """
    found = list(blockings(image))
    best = min(found, key=lambda b: b.cycles, default=None)
    if best is None or best.cycles > image.enough:
        return []
    usual = image.usual
    if image.known or len(usual) == 1:
        return [best]

    def best_for(some: Sequence[WinogradImage]) -> Blocking:
        return min(found, key=lambda b: sum(b.of(one).cycles / one.pixels for one in some))

    # For how many of the usual sizes, from the smallest one on, the direct convolution is better.
    direct = next((i for i, one in enumerate(usual) if image.steps != (1, 1) or best_for([one]).of(one).cycles <= one.enough), len(usual))
    if direct == len(usual):
        return []
    if direct:
        return [replace(best_for(usual[direct:]), least=isqrt(usual[direct - 1].pixels * usual[direct].pixels))]
    few, *more = usual
    small = best_for([few])
    if not is_faster(small.of(few).cycles, best.of(few).cycles):
        return [best]
    limit = isqrt(few.pixels * more[0].pixels)
    return [replace(small, below=limit), replace(best_for(more), least=limit)]


def blockings(image: WinogradImage, sizes: Sequence[int] | None = None) -> Iterator[Blocking]:
    """Blockings whose scratch memory fits into L2, with pieces of these sizes (None: the image's own)."""
    room = min(image.request.target.caches[1] * 7 // 8, STACK_BYTES)
    registers = replace(image.problem.registers, factors=EXACT.factors) if image.pairs else image.problem.registers
    depths = [image.channels] + [d for d in range(32, image.channels, image.lanes) if image.channels % d == 0 and d % image.lanes == 0]
    for size in (s for s in (image.sizes if sizes is None else sizes) if not any(s % step for step in image.steps)):
        for vectors in range(1, min(image.vectors, 4) + 1):
            panels = -(-image.vectors // vectors)
            for at_once in sorted({-(-panels // n) for n in range(1, min(panels, PIECES) + 1)}):
                one = Blocking(image, size, 1, image.channels, vectors, at_once, 1)
                for depth in depths:
                    yield from _fitting(replace(one, depth=depth), registers, room)
                if one.parts > 1:
                    yield from _fitting(replace(one, transforms_first=True), registers, room)


def _fitting(one: Blocking, registers: Registers, room: int) -> Iterator[Blocking]:
    """With as many pieces to a block as the room allows, or half as many, and register tiles that suit them."""
    image = one.image
    per_piece = one.products * (one.row * (not one.transforms_first) + one.panels_at_once * one.width) * image.dtype.bytes
    fitting = (room - one.products * 2 * image.lanes * one.panels * image.dtype.bytes) // per_piece
    if not one.known:
        # Whole tiles, which are halved where fewer pieces are left.
        rows = registers.most_rows(one.vectors) // 2 * 2
        for usual in image.usual if rows else ():
            in_all = replace(one, image=usual).all_pieces
            assert isinstance(in_all, int)
            pieces = min(-(-in_all // rows), fitting // rows) * rows
            if pieces:
                yield replace(one, pieces=pieces, rows=rows)
        return
    in_all = one.all_pieces
    assert isinstance(in_all, int)
    most = min(fitting, in_all)
    if most < 1:
        return
    fewest = -(-in_all // most)
    for blocks in {fewest, min(2 * fewest, in_all)}:
        pieces = -(-in_all // blocks)
        tallest = min(registers.most_rows(one.vectors), pieces)
        for rows in {tallest, -(-pieces // -(-pieces // tallest))}:
            yield replace(one, pieces=pieces, rows=rows)
