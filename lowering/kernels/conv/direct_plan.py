"""The plan of a direct convolution: which groups qualify, and how the work is cut. `direct.py` writes the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import prod

from polyreme.dialects import tensor
from polyreme.dialects.kernel.int8_block import STEP
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.estimates import ASSUMED, estimate, estimate_pixels
from polyreme.lowering.analysis.rows import behind_reshapes, shape_of
from polyreme.lowering.kernels.amx_blocks import VECTORS, pixels_of_block, step_of_block, target_has_blocks
from polyreme.lowering.kernels.microkernel import MOST_UNROLLED, split_extent, step_cycles, streamed_cycles
from polyreme.lowering.kernels.packing import Panels, PlanParts
from polyreme.lowering.kernels.plan import Request, Slot
from polyreme.lowering.kernels.problem import Problem, find_problem, in_words, typical
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.cost import NOTICED, Traffic, traffic_cycles
from polyreme.lowering.machines.direct_costs import DIRECT_COSTS as COSTS
from polyreme.lowering.machines.instructions import FEW_CHANNELS, MANY_REGISTERS
from polyreme.lowering.machines.memory import L1_PANEL_VECTORS, STACK_BYTES
from polyreme.lowering.machines.rooms import ROOMS
from polyreme.lowering.machines.tasks import PIECE_CYCLES, PIECES, TILES_OF_TASK


def find_direct(request: Request, by_rows: bool = False, vectors: int | None = None) -> Direct | None:
    """A group around a convolution that gives its channels last; None for any other group. With `by_rows` it is cut for tasks of single
    rows of pixels, by a kernel around them; its tiles are so many `vectors` wide, if that is given.
    """
    problem = find_problem(request, narrow=True, words=True, turned=True)
    if problem is None:
        return None
    lane = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if lane is None or lane in problem.batch:
        return None
    if lane in problem.rows:
        problem = problem.flipped()
    if problem.contract.dtype is None and element_type(problem.left.source.type) != problem.dtype:
        return None
    problem = in_words(problem)
    window = None if problem is None else _windows(problem)
    if problem is None or window is None or not all(isinstance(problem.size(c), int) for c in (lane, *problem.contracted)):
        return None
    slid = [problem.left_letters[axis] for axis in window.axes]
    # Only the innermost two letters are tiled; others become loops outside.
    spatial = [c for c in problem.rows if c in slid and problem.size(c) != 1][-2:]
    direct = Direct(problem, lane, tuple(spatial), window, by_rows, vectors)
    return direct if spatial and direct.possible() else None


def _windows(p: Problem) -> tensor.Window | None:
    """What slides over the image, when the left operand is its windows as they are."""
    value = p.contract.a if p.right_is_b else p.contract.b
    window: tensor.Window | None = value.producer(tensor.Window)
    return window


@dataclass(frozen=True)
class Border:
    """Zeros of `pad` that tiles leave out: `low` of them above and on the left of an image of `sizes`, rows and pixels of a row. `taps` are
    the letters of taps along a row and down the rows.
    """

    pad: tensor.Pad
    low: tuple[int, ...]
    sizes: tuple[Dim, ...]
    taps: tuple[str, str]


class Direct:
    """A convolution, the memory of image and weights, tile and pieces."""

    def __init__(
        self,
        problem: Problem,
        lane: str,
        spatial: tuple[str, ...],
        window: tensor.Window,
        by_rows: bool = False,
        vectors: int | None = None,
    ):
        self.p, self.lane, self.spatial, self.window = problem, lane, spatial, window
        self.parts = PlanParts(problem.request)
        self.lanes = problem.registers.lanes
        self.outer = [c for c in problem.out if c != lane and c not in spatial and problem.size(c) != 1]
        self.n = typical(problem.size(lane))
        self.k = typical(product(problem.size(c) for c in problem.contracted))
        self.extents = [_assumed(problem.size(c)) for c in spatial]
        at = [problem.out.index(c) for c in spatial]
        self.steps = [typical(problem.epilogue.steps[i]) for i in at]
        self.reaches = [typical(problem.epilogue.reaches[i]) for i in at]
        # How many pixels the result has, by letter, and as many to reckon with.
        self.whole = [problem.epilogue.shape[i] for i in at]
        self.outputs = [_assumed(n) for n in self.whole]
        self.by_rows, self.vectors = by_rows, vectors
        if by_rows:
            self.extents[:-1] = self.outputs[:-1] = [1] * (len(spatial) - 1)

    def possible(self) -> bool:
        """Whether pooling is along the pixels only, by known sizes."""
        epilogue = self.p.epilogue
        others = [i for i, c in enumerate(self.p.out) if c not in self.spatial]
        known = all(isinstance(n, int) for n in (*epilogue.steps, *epilogue.reaches))
        if epilogue.turned and not self._turns():
            return False
        return known and all(n > 0 for n in self.outputs) and all(epilogue.steps[i] == 1 and epilogue.reaches[i] == 1 for i in others)

    def _turns(self) -> bool:
        """Whether results can be written with the channels first: of rows of unknown length, in square blocks of pixels and channels."""
        p, axes = self.p, [self.p.out.index(c) for c in self.spatial]
        return (
            self.lanes > 1
            and p.request.target.masked
            and not self.by_rows
            and not p.epilogue.pools
            and self.blocks == 1
            and p.word_letter is None
            and not isinstance(self.whole[-1], int)
            and p.out[-1] == self.lane
            and axes == list(range(len(p.out) - 1 - len(axes), len(p.out) - 1))
            and element_type(p.epilogue.values[0].type) == p.dtype
        )

    @cached_property
    def numbered(self) -> bool:
        """Whether tiles are runs of an image's pixels, numbered through, and not parts of a row."""
        open_rows = (
            len(self.spatial) == 2 and not isinstance(self.whole[-1], int) and not self.p.epilogue.pools and self.p.word_letter is None
        )
        return open_rows and estimate_pixels(self.whole[-1]) <= COSTS.short_row

    @property
    def extent(self) -> list[Dim]:
        """What is cut into pieces: rows and pixels of a row, or all pixels."""
        return [product(self.whole)] if self.numbered else list(self.whole)

    # --- the image

    @cached_property
    def around(self) -> tensor.Pad | None:
        """The pad under the windows: one around an image in memory, that leaves its batch and channels alone."""
        pad: tensor.Pad | None = self.window.x.producer(tensor.Pad)
        if pad is None or any(n != 0 for n in pad.interior):
            return None
        amounts = list(enumerate(zip(pad.low, pad.high, strict=True)))
        known = all(isinstance(n, int) for _, pair in amounts for n in pair)
        return pad if known and not any(any(pair) for i, pair in amounts if i not in self.window.axes) else None

    @cached_property
    def border(self) -> Border | None:
        """The pad, if tiles leave it out: of zeros, under tiles of one row of pixels, of which only the first one and the last one reach
        out of the image.
        """
        pad, window, letters = self.around, self.window, self.p.left_letters
        if (
            pad is None
            or pad.value != 0
            or self.numbered
            or self.in_blocks
            or self.tile[0] != 1
            or tuple(letters.index(c) for c in self.spatial) != window.axes
        ):
            return None
        taps = list(letters[len(shape_of(window.x)) :])
        inner = [c for c in self._by_distance() if c not in taps]
        # Few channels in planes are the innermost steps.
        is_inner = self._by_distance()[:2] == taps or prod(typical(self.p.size(c)) for c in inner) <= FEW_CHANNELS
        if len(taps) != 2 or not is_inner or any(d != 1 for d in window.dilations):
            return None
        low, sizes = (tuple(of[axis] for axis in window.axes) for of in (pad.low, shape_of(pad.x)))
        many, stride = window.sizes[1], window.strides[1]
        if not all(isinstance(n, int) for n in (*window.sizes, *window.strides)):
            return None
        # How far the last pixel's window goes beyond the image; if that is unknown, as far as there are zeros.
        beyond = (self.p.size(self.spatial[1]) - 1) * stride - low[1] + many - sizes[1]
        beyond = beyond if isinstance(beyond, int) else pad.high[window.axes[1]]
        alone = low[1] <= stride and beyond <= stride and low[1] + beyond <= many
        return Border(pad, low, sizes, (taps[1], taps[0])) if alone and max(low[1], beyond) < many else None

    @cached_property
    def above(self) -> tensor.Pad | None:
        """The pad, if tiles of numbered pixels leave out its rows: of zeros, in memory, under taps whose rows come first."""
        pad, window, letters = self.around, self.window, self.p.left_letters
        if (
            not self.numbered
            or pad is None
            or pad.value != 0
            or tuple(letters.index(c) for c in self.spatial) != window.axes
            or window.dilations[0] != 1
        ):
            return None
        return pad if self.apart is None and self._order()[0] == letters[len(shape_of(window.x))] else None

    @cached_property
    def has_whole_rows(self) -> bool:
        """Whether rows may be a tile each where tiles are of numbered pixels: the first and last pixel then leave out the taps outside of
        the image.
        """
        pad, window, letters = self.above, self.window, self.p.left_letters
        if pad is None or window.strides[1] != 1 or window.dilations[1] != 1 or self._order()[1] != letters[len(shape_of(window.x)) + 1]:
            return False
        axis = window.axes[1]
        return pad.low[axis] == pad.high[axis] == 1 and window.sizes[1] == pad.low[axis] + 1 + pad.high[axis]

    @property
    def whole_rows(self) -> range:
        """How many pixels such rows may have: as many as a window has taps, and more."""
        return range(self.window.sizes[1], min(self.tile[1], COSTS.most_of_rows) + 1) if self.has_whole_rows else range(0)

    @cached_property
    def pad(self) -> tensor.Pad | None:
        """The pad, if tasks copy the image with it."""
        if (
            self.around is None
            or self.border is not None
            or self.numbered
            or prod(self.region(self.needed(self.pieces()))) * self.image_bytes > STACK_BYTES
        ):
            return None
        return self.around

    @property
    def image_bytes(self) -> int:
        """Bytes of an element of the image."""
        return element_type(self.window.x.type).bytes

    def region(self, counts: Sequence[int]) -> tuple[int, ...]:
        """The extents of the image under the windows of a rectangle of `counts` pixels, by axis."""
        letters = self.p.left_letters
        counted = dict(zip(self.spatial, counts, strict=True))
        sizes = []
        for axis, size in enumerate(shape_of(self.window.x)):
            if axis in self.window.axes:
                i = self.window.axes.index(axis)
                taps, stride, dilation = (typical(v[i]) for v in (self.window.sizes, self.window.strides, self.window.dilations))
                sizes.append((counted.get(letters[axis], 1) - 1) * stride + (taps - 1) * dilation + 1)
            else:
                sizes.append(1 if letters[axis] in self.outer or letters[axis] in self.p.out else typical(size))
        return tuple(sizes)

    # --- sizes of tiles and tasks

    @cached_property
    def in_blocks(self) -> bool:
        """Whether sums are made by tile registers (`kernel.dot_block`): of words whose neighbours in the image are channels, as many as
        whole steps take, in images of known sizes.
        """
        p, target = self.p, self.p.request.target
        if (
            p.word_letter is None
            or self.by_rows
            or p.epilogue.pools
            or not target_has_blocks(target)
            or not all(isinstance(n, int) for n in (*p.sizes.values(), *self.whole))
        ):
            return False
        fits = self.k * VECTORS * self.lanes * p.dtype.bytes <= target.caches[1] * ROOMS.panel
        return fits and typical(p.size(p.word_letter)) % STEP == 0 and self._block is not None

    @property
    def _block(self) -> tuple[int, int] | None:
        *above, width = self.extents
        return pixels_of_block(above[0] if above else 1, width)

    @cached_property
    def tile(self) -> tuple[int, int, int]:
        """(high, wide, vectors) with the fewest estimated cycles: part of a row of pixels, or some whole rows."""
        if self.in_blocks and self._block is not None:
            return (*self._block, VECTORS)
        across = -(-self.n // self.lanes)
        *above, width = self.extents
        height = above[0] if above else 1
        if not isinstance(self.whole[-1], int):
            width, height = ASSUMED.size, 1
        registers = self.p.registers
        best: tuple[float, int, int, int] | None = None
        given = COSTS.vectors_of_rows if self.has_whole_rows else self.vectors
        for vectors in range(1, min(across, COSTS.most_vectors) + 1) if given is None else (min(across, given),):
            # Rows alone have simple addresses: all registers but for those of a step's weights and of one pixel hold sums, and nothing
            # spills.
            pixels = (registers.count - vectors - 1) // vectors if self.by_rows else registers.most_rows(vectors)
            if not pixels:
                continue
            wide = -(-width // -(-width // min(pixels, width)))
            high = max(1, min(height, pixels // wide)) if wide == width else 1
            high = -(-height // -(-height // high))
            cost = sum(
                times_v * times_y * times_x * (self.k * self._step_cycles(y * x, v) + 20 + 1.5 * y * x * v)
                for v, times_v in split_extent(across, vectors)
                for y, times_y in split_extent(height, high)
                for x, times_x in split_extent(width, wide)
            )
            if best is None or (cost, -vectors) < best[:2]:
                best = cost, -vectors, high, wide
        assert best is not None
        _, vectors, high, wide = best
        return high, wide, self._shared(-vectors, high * wide, -(-height // high) * -(-width // wide))

    def _step_cycles(self, pixels: int, vectors: int) -> float:
        """An estimate of a step of a tile. With few registers a tile has few pixels, and so waits for its weights."""
        streamed = not self.by_rows and self.p.registers.count < MANY_REGISTERS and self.k * vectors > L1_PANEL_VECTORS
        return (streamed_cycles if streamed else step_cycles)(pixels, vectors)

    def _shared(self, vectors: int, pixels: int, tiles: int) -> int:
        """Of panels that threads share, since the image has no more than so many tiles, the vectors: those of whole panels, where these are
        no slower.
        """
        across = -(-self.n // self.lanes)
        if self.vectors is not None or tiles >= 2 * TILES_OF_TASK or self.places * -(-across // vectors) >= PIECES:
            return vectors
        cycles = step_cycles(pixels, vectors) / vectors
        return next((v for v in range(vectors, 1, -1) if across % v == 0 and step_cycles(pixels, v) / v <= cycles), vectors)

    @property
    def places(self) -> int:
        """Places of the outer letters."""
        return max(estimate(product(self.p.size(c) for c in self.outer)), 1)

    @property
    def width(self) -> int:
        """Lanes of a panel."""
        return self.tile[2] * self.lanes

    @cached_property
    def blocks(self) -> int:
        """Blocks that the taps are cut into, so that a panel's part stays in L2 from tile to tile."""
        return -(-self.k * self.width * self.p.dtype.bytes // ROOMS.panel_bytes(self.p.request.target))

    @cached_property
    def prefetch(self) -> str:
        """How tiles prefetch weights, as `DirectSchedule` has it."""
        if not self.weights_exceed_l3_share:
            return ""
        return "streams" if self.p.request.target.hardware_prefetch else "lines"

    @property
    def weights_exceed_l3_share(self) -> bool:
        """Whether the weights come from memory each time, because the other layers evict them from L3."""
        return self.k * -(-self.n // self.width) * self.width * self.p.dtype.bytes > self.p.request.target.caches[2] * ROOMS.weights_of_l3

    @property
    def keeps(self) -> bool:
        """Whether the sums of a panel wait in a scratch tile."""
        return self.p.epilogue.pools or self.blocks > 1

    def cycles(self) -> float:
        """An estimate for one place of the outer letters."""
        high, wide, vectors = self.tile
        across = -(-self.n // self.lanes)
        step = step_of_block(high * wide) if self.in_blocks else step_cycles(high * wide, vectors)
        return prod(self.extents) * across / (high * wide * vectors) * self.k * step

    def needed(self, outputs: Sequence[int]) -> list[int]:
        """The pixels of the contract that so many of the result need, by letter."""
        return [(n - 1) * s + r for n, s, r in zip(outputs, self.steps, self.reaches, strict=True)]

    def _fits(self, outputs: Sequence[int]) -> bool:
        # A task has its memory on the stack.
        room = min(self.p.request.target.caches[1], STACK_BYTES)
        needed = self.needed(outputs)
        # Windows with gaps between them leave out some of the region.
        image = min(prod(self.region(needed)) * self.image_bytes, prod(needed) * self.k * self.p.dtype.bytes)
        sums = prod(needed) * self.width * self.p.dtype.bytes if self.keeps else 0
        return image <= room * (ROOMS.streamed_image if self.weights_exceed_l3_share else ROOMS.image) and sums <= room * ROOMS.sums

    def pieces(self) -> list[int]:
        """Pixels of the result in a task, by letter: what fits the cache, and no more than leaves work for the threads."""
        if self.numbered:
            return [-(-COSTS.numbered // self.tile[1]) * self.tile[1]]
        size = list(self.outputs)
        high, wide, _ = self.tile
        if self._leaves_pixels_out and len(size) == 2:
            rows, pixels = COSTS.piece
            return [rows, -(-pixels // wide) * wide]
        least = [-(-t // s) for t, s in zip(([high, wide] if len(size) > 1 else [wide]), self.steps, strict=True)]
        size[-1] = self._piece(-1, least[-1], lambda n: self._fits([1] * (len(size) - 1) + [n]))
        if len(size) > 1:
            size[0] = self._piece(0, least[0], lambda n: self._fits([n, size[1]]))
            # Threads share panels rather than pixels, so that a task reads each panel from memory once.
            around = self.places * self.count * -(-self.outputs[-1] // size[-1])
            enough = self.outputs[0] * -(-self.outputs[-1] // self.tile[1]) // (TILES_OF_TASK * self.tile[0])
            wanted = min(-(-PIECES // around), int(self.cycles() / PIECE_CYCLES), self.outputs[0] // least[0], max(1, enough))
            if wanted > -(-self.outputs[0] // size[0]):
                size[0] = _even(self.outputs[0], wanted, least[0])
        if not isinstance(self.whole[-1], int):
            size[-1] = -(-size[-1] // least[-1]) * least[-1]
        return size

    @property
    def _leaves_pixels_out(self) -> bool:
        """Whether single pixels of rows of unknown length are read, and neighbours in memory are not: lines come for a part of them, so few
        lines are read again for the next panel.
        """
        along = self.window.axes.index(self.p.left_letters.index(self.spatial[-1]))
        return (
            not isinstance(self.whole[-1], int)
            and all(n == 1 for n in self.window.sizes)
            and self.window.strides[along] != 1
            and self.p.left.stride(self.spatial[-1]) == self.window.strides[along]
        )

    @cached_property
    def panels(self) -> Panels:
        """How the weights lie."""
        outer = tuple(c for c in self.outer if self.p.right.stride(c) != 0)
        return Panels(outer, tuple(self._order()), self.lane, self.width, self.p.sizes)

    def packed(self, parts: PlanParts) -> Slot:
        """The weights, packed for the plan that `parts` belong to."""
        p = self.p
        return parts.packed(
            p.contract.b if p.right_is_b else p.contract.a, p.right_letters, p.right, self.panels, word_letter=p.word_letter
        )

    @property
    def count(self) -> int:
        """Panels of all lanes."""
        return -(-self.n // self.width)

    def count_pieces(self, size: Sequence[int]) -> int:
        """Pieces of `size` pixels of an image, about as many where it is not known."""
        return max(estimate(product(ceildiv(n, s) for n, s in zip(self.extent, size, strict=True))), 1)

    def by_vectors(self, vectors: int) -> Direct:
        """The same with tiles so many vectors wide."""
        return Direct(self.p, self.lane, self.spatial, self.window, self.by_rows, vectors)

    def chunk(self, pieces: int) -> int:
        """Panels of a task, if the pixels of an image are cut into so many pieces: few enough for the threads."""
        tasks = self.places * pieces
        parts = min(self.count, PIECES // tasks, int(self.cycles() / PIECE_CYCLES / pieces))
        return min(max(-(-self.count // max(1, parts)), self._min_panels_to_copy()), self.count)

    def _min_panels_to_copy(self) -> int:
        """The least number of panels that pays for a task's copy of the image."""
        if self.pad is None:
            return 1
        copied = prod(self.region(self.needed(self.pieces()))) * self.image_bytes
        copying = traffic_cycles(Traffic(l2=2 * copied), self.p.request.target)
        cycles = self.cycles() * prod(self.pieces()) / prod(self.outputs) * self.width / self.n
        return int(copying / ((1 - NOTICED) * cycles))

    def _piece(self, axis: int, least: int, fits: Callable[[int], bool]) -> int:
        """The largest of about equal pieces along a letter that fits; `least` if none does."""
        whole = self.outputs[axis]
        sizes = (_even(whole, pieces, least) for pieces in range(2, whole // least + 1))
        return whole if fits(whole) else next((n for n in sizes if fits(n)), min(least, whole))

    @cached_property
    def apart(self) -> str | None:
        """The taps along a row of pixels, if steps over them would be written out side by side: neighbouring pixels share what they read
        there, and would keep it in more registers than there are. They become the outermost loop instead.
        """
        p = self.p
        if self.in_blocks:
            return None
        taps = p.left_letters[len(shape_of(self.window.x)) :]
        along = taps[self.window.axes.index(p.left_letters.index(self.spatial[-1]))]
        inner = 1
        for letter in reversed(self._by_distance()):
            inner *= typical(p.size(letter))
            if letter == along:
                return along if 1 < typical(p.size(along)) and inner <= MOST_UNROLLED else None
        return None

    def _by_distance(self) -> list[str]:
        """The contracted letters by their stride in the image, the largest first."""
        return sorted(self.p.contracted, key=lambda c: -estimate(self.p.left.stride(c)))

    def _order(self) -> list[str]:
        """The contracted letters, the outermost first."""
        first = [self.apart] if self.border is None else [*self.border.taps]
        return sorted(self._by_distance(), key=lambda c: first.index(c) if c in first else len(first))

    def image_slot(self) -> Slot:
        """Where the image is."""
        pad = self.pad if self.border is None else self.border.pad
        return self.parts.memory_of(self.p.left.source if pad is None else behind_reshapes(pad.x))

    def moves(self, strides: Sequence[Dim]) -> dict[str, Dim]:
        """How far the letters of the windows move in an image whose axes have these strides."""
        letters, window = self.p.left_letters, self.window
        moves = {letters[axis]: stride for axis, stride in enumerate(strides)}
        for i, axis in enumerate(window.axes):
            moves[letters[axis]] = window.strides[i] * strides[axis]
            moves[letters[len(strides) + i]] = window.dilations[i] * strides[axis]
        return self.p.in_words(moves)


@dataclass(frozen=True)
class DirectSchedule(Schedule, kind="direct"):
    """How a direct convolution is computed: by tiles of `tile` (rows of pixels, pixels of a row, vectors), vectors of so many `lanes`.

    A task has `pixels` of the result (rows, and of a row; of all if `numbered`) and so many `panels` of output channels. Taps are taken in
    `blocks`, between which sums wait. Tiles are blocks of tile registers if `amx`, and runs of numbered pixels if `numbered`. Each tile
    prefetches a part of the next panel if `prefetch` says so: some "lines" in each round of steps, or "streams" of neighbouring lines. With
    `final_addresses` LLVM looks for no cheaper addresses.
    """

    tile: tuple[int, int, int]
    lanes: int
    pixels: tuple[int, ...]
    panels: int
    blocks: int = 1
    amx: bool = False
    numbered: bool = False
    prefetch: str = ""
    final_addresses: bool = False


def choose_direct(direct: Direct) -> DirectSchedule:
    """The schedule with the fewest estimated cycles."""
    size = direct.pieces()
    few_registers = direct.p.registers.count < MANY_REGISTERS
    return DirectSchedule(
        direct.tile,
        direct.lanes,
        tuple(size),
        direct.chunk(direct.count_pieces(size)),
        direct.blocks,
        direct.in_blocks,
        direct.numbered,
        direct.prefetch,
        # With 16 registers LLVM's search for cheaper addresses gains nothing and takes most of its time; with 32 first convolutions need
        # it.
        few_registers or not isinstance(direct.whole[-1], int),
    )


def other_direct(direct: Direct) -> Iterator[DirectSchedule]:
    """Tiles of any number of vectors."""
    for vectors in range(1, COSTS.most_vectors + 1):
        yield choose_direct(direct.by_vectors(vectors))


def fit_direct(direct: Direct, schedule: DirectSchedule) -> None:
    """`ScheduleError` unless it is a schedule of this convolution, by tiles of any number of vectors."""
    own = choose_direct(direct)
    if schedule != own and all(schedule != other for other in other_direct(direct)):
        raise ScheduleError(f"expected a schedule like {own} for this convolution and machine but got {schedule}")


class ScheduledDirect(Direct):
    """A convolution with all of it as a schedule says, which asks no machine."""

    def __init__(self, found: Direct, schedule: DirectSchedule):
        super().__init__(found.p, found.lane, found.spatial, found.window, found.by_rows, found.vectors)
        self.schedule = schedule

    @cached_property
    def tile(self) -> tuple[int, int, int]:
        return self.schedule.tile

    @cached_property
    def in_blocks(self) -> bool:
        return self.schedule.amx

    @cached_property
    def numbered(self) -> bool:
        return self.schedule.numbered

    @cached_property
    def blocks(self) -> int:
        return self.schedule.blocks

    @cached_property
    def prefetch(self) -> str:
        return self.schedule.prefetch

    def pieces(self) -> list[int]:
        return list(self.schedule.pixels)

    def chunk(self, pieces: int) -> int:
        return self.schedule.panels


def _assumed(size: Dim) -> int:
    """The number of pixels in estimates: an unknown one counts as large enough for a large tile."""
    return size if isinstance(size, int) else max(estimate(size), ASSUMED.row)


def _even(whole: int, pieces: int, multiple: int) -> int:
    """The size of about so many equal pieces of `whole`, a multiple of `multiple` but for the last piece; one without a rest, if there is
    one close.
    """
    size = max(multiple, -(-whole // max(pieces, 1) // multiple) * multiple)
    return next((s for s in range(size, max(multiple, size * 3 // 4) - 1, -multiple) if whole % s == 0), size)
