"""How a matrix product is computed by register tiles: all that is chosen, before a kernel is written."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from polyreme.ir.core import BlockArgument
from polyreme.ir.dims import Dim, ceildiv
from polyreme.ir.dims import product as product_of
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.estimates import ASSUMED
from polyreme.lowering.kernels.amx_blocks import VECTORS, rows_of_block, step_of_block, steps_of, target_has_blocks
from polyreme.lowering.kernels.gemm.double_buffered import (
    L2_SHARE_OF_LEFT,
    L2_SHARE_OF_SUMS,
    DoubleBufferPlan,
    is_packed_at_once,
    plan_double_buffer,
)
from polyreme.lowering.kernels.gemm.product_tile import PLAIN_FORM, TileForm
from polyreme.lowering.kernels.microkernel import UNROLL, choose_tile, rank_tiles, step_cycles, streams_of_row, vectors_of_row
from polyreme.lowering.kernels.packing import Panels
from polyreme.lowering.kernels.problem import Product, typical
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.memory import FAST_L3_BYTES, L2_WAYS, PAGE_BYTES
from polyreme.lowering.machines.tasks import GRAIN_CYCLES, PIECE_CYCLES, PIECES

# With fewer rows B is not packed at run time: if its lanes are contiguous; if also a panel of it stays in L2 unpacked; if lanes run over
# the contracted axis; if the packed form is kept between runs.
MIN_ROWS_TO_PACK, MIN_ROWS_TO_PACK_L2_PANEL, MIN_ROWS_TO_PACK_DOTS, MIN_ROWS_TO_PACK_ONCE = 48, 130, 32, 16
# The same if lanes are contiguous and L3 is slow: for a B larger than half of L2, which tasks that pack prefetch, and for a smaller one.
MIN_ROWS_TO_PACK_BEYOND_L2, MIN_ROWS_TO_PACK_L2_RESIDENT = 8, 96
# A task has its panel on the stack, and threads of programs that call a library may have small ones.
MOST_PANEL_BYTES = 256 << 10
# With fewer rows the contracted axis is not cut into blocks.
MIN_ROWS_FOR_K_BLOCKS = 32
# If L3 is slow, a task packs B in blocks of 1 / this of L1. Whole panels would go to L2, and evict what was prefetched there.
L1_SHARE_OF_BLOCK = 3
# Vectors of such a block, if the lanes are a whole number of such panels or more than so many of them. Wider ones read longer pieces of B's
# rows, which the hardware prefetcher follows.
L1_BLOCK_VECTORS, MIN_PANELS_TO_NARROW = 4, 4
# The same with 16 registers.
L1_BLOCK_VECTORS_OF_16_REGISTERS = 3
# With fewer rows for each panel a task does not pack the panels for itself.
MIN_ROWS_TO_PACK_PER_TASK = 48
# The tile where lanes run over the contracted axis.
ROWS_OF_DOT, COLUMNS_OF_DOT = 4, 8
# Rows of a task if the contracted axis is cut into blocks, whose partial sums wait in scratch memory.
ROWS_OF_BLOCKS = 128
# If L3 is slow, pieces of A's rows that fit into 1 / this of L2 stay there while all panels pass. Pieces of fewer rows do not pay.
L2_SHARE_OF_ROWS, MIN_RESIDENT_ROWS = 3, 64
# The rows of a tile and of the next one are prefetched from L2 if they take at most 1 / this of L1.
L1_SHARE_OF_TILES = 4
# Rows of a task that makes all lanes of its rows. With fewer, panels are read from L2 too often; with more, results are evicted half made.
ROWS_OF_TASK = 192
# Bounds of the same if all panels fit into 1 / this of L2 and L3 is slow: fewer rows, so that A stays in L2 while every panel passes.
L2_SHARE_OF_PANELS, MIN_ROWS_OF_TASK, MAX_ROWS_OF_TASK = 4, 24, 56
# The order of panels is reversed in every other call for up to so many rows, if the panels are at most so many times L2.
MOST_ALTERNATING_ROWS, MOST_ALTERNATING = 32, 5
# One row does not prefetch B if a thread's share of it is at most so many times L2: most of it is resident.
L2_SLACK = 1.25

# An epilogue that reads more than so many times L2 where it writes its results, which takes this part of the products' time at least, goes
# so many rows at a time through all panels that fit into 5 / 8 of L2: the lines of such rows are so few streams that the machine prefetches
# them itself. A step of training reads weights and their averages so while it updates them.
MEMORY_OF_RESULTS, SHARE_OF_MEMORY, ROWS_OF_STREAMS, PANELS_BESIDE_STREAMS = 2, 1 / 4, 4, 5 / 8

PACKED, LOCAL = "packed", "packed by each task"


@dataclass(frozen=True)
class TileTasks(Schedule, kind="tiles"):
    """Tasks of tiles: B is read from `panels`, "packed" before or "packed by each task" for itself, or in place where that is "".

    Steps are taken in blocks of so many `steps`, between which sums wait in scratch memory (None: all at once). `order` says what a task
    is: one panel and a piece of the rows, with neighbouring tasks on one panel ("panels") or on one piece ("pieces"), or all panels one
    after the other for a piece ("rows"). A piece has so many `rows` (None: all). As many tasks as `grain` are worth a thread. With
    `alternates` every other call takes the panels from the last one on, with `prefetch_rows` those of A are prefetched for the first panel.
    """

    panels: str = ""
    steps: int | None = None
    rows: int | None = None
    order: str = "panels"
    across: int | None = None
    grain: int = 1
    alternates: bool = False
    prefetch_rows: bool = False

    @property
    def local(self) -> bool:
        """Whether each task packs its panels for itself."""
        return self.panels == LOCAL


@dataclass(frozen=True)
class BufferedTasks(Schedule, kind="double_buffered"):
    """Tasks that pack the next block of a panel, of so many `steps`, while they multiply by this one, with so many `rows` each (None: all).

    What is left of the lanes beside full panels is computed by tiles, as `rest` says. With several blocks a task has at most so many
    `panels`, whose sums wait. With `prefetch_rows` the rows of A are prefetched, too.
    """

    steps: int
    rows: int | None = None
    panels: int | None = None
    grain: int = 1
    rest: TileTasks | None = None
    prefetch_rows: bool = False


@dataclass(frozen=True)
class DotTasks(Schedule, kind="dots"):
    """Tasks of dot products, with lanes along the letter `along`: tiles of `rows` and `columns`. As many as `grain` are worth a thread."""

    along: str
    rows: int
    columns: int
    grain: int = 1


@dataclass(frozen=True)
class ContractSchedule(Schedule, kind="gemm"):
    """How one product of `sizes` (rows, steps, lanes) is computed: by tiles of `tile` rows and vectors (None: by dot products alone), which
    cover an unknown number of rows with about as many each if `evenly`; tiles are blocks of tile registers if `amx`, and each vector of a
    row has a panel of its own if `streams`. Vectors have so many `lanes`.

    B is `packed`, or read where it stands (`in_place`); both, where it shows at run time only that there are too few rows for packing:
    fewer than `packed_from_rows`. `form` is how tiles are written. With `rows_by_size` the rows of a tile are along one of two letters of
    unknown size, that of which there are more at run time.
    """

    sizes: str
    tile: tuple[int, int] | None = None
    lanes: int = 1
    evenly: bool = False
    amx: bool = False
    streams: bool = False
    packed: TileTasks | BufferedTasks | None = None
    in_place: TileTasks | DotTasks | None = None
    packed_from_rows: int | None = None
    form: TileForm = PLAIN_FORM
    rows_by_size: bool = False


def sizes_of(product: Product) -> str:
    """Rows, steps and lanes, as a schedule says them."""
    return f"{product.m}x{product.k}x{product.n}"


def panels_for(product: Product, schedule: ContractSchedule) -> Panels:
    """How B lies where it is packed."""
    p = product.problem
    outer = tuple(c for c in product.outer if p.right.stride(c) != 0)
    width = product.lanes * (1 if schedule.streams or schedule.tile is None else schedule.tile[1])
    return Panels(outer, tuple(p.contracted), product.lane, width, p.sizes)


def other_rows(product: Product) -> Product | None:
    """The same product with its rows along another letter, where both have an unknown size, are apart in A, and meet all of B; else None.

    So lie the words of sentences that a recurrent layer takes word by word: of one sentence each tile would have one row.
    """
    p = product.problem
    others = [c for c in p.rows if c not in product.rows and p.size(c) != 1]
    if len(product.rows) != 1 or len(others) != 1 or any(isinstance(p.size(c), int) for c in (*product.rows, *others)):
        return None
    return Product(p, product.lane, row=others[0])


def rows_that_meet_b(product: Product) -> Dim:
    """Rows that meet each element of B."""
    p = product.problem
    return product_of([product.m, *(p.size(c) for c in product.outer if p.right.stride(c) == 0)])


def tile_form(product: Product, panels: Panels | None, evenly: bool = False) -> TileForm:
    """How the tiles of a product are written, whose B lies in `panels` (None: in place)."""
    p, target = product.problem, product.problem.request.target
    size = 0 if panels is None else typical(panels.elements) * p.dtype.bytes
    over = None
    if product.m == 1 and panels is not None and isinstance(panels.depth, int) and not target.hardware_prefetch:
        each = (p.dtype if p.word_letter is not None else element_type(p.right.source.type)).bytes
        if typical(panels.elements) * each > target.caches[1]:
            over = int(L2_SLACK * target.caches[1])
    even = not isinstance(product.m, int) and not evenly and size > target.caches[1]
    return TileForm(target.half_width_vectors and p.word_letter is None, over, even)


def schedule_product(found: Product, tile: tuple[int, int] | None = None, evenly: bool = False) -> ContractSchedule:
    """The schedule of a product, with this tile if one is given."""
    choices = _ProductChoices(found)
    if tile is not None:
        choices.take(tile, evenly)
    return choices.schedule()


def fit_product(found: Product, schedule: ContractSchedule) -> None:
    """`ScheduleError` unless a product can be computed as this schedule says. It may have another tile, and cut the rows in another way,
    than `schedule_product` chooses; the rest follows from the product, the machine and the tile.
    """
    registers = found.problem.registers
    if schedule.sizes != sizes_of(found):
        raise ScheduleError(f"expected a schedule for sizes = {sizes_of(found)} but got sizes = {schedule.sizes}")
    rows, vectors = schedule.tile or (1, 1)
    if not (rows >= 1 and vectors >= 1 and rows * vectors <= registers.count):
        raise ScheduleError(f"expected a tile that {registers.count} vector registers hold but got tile = {rows}x{vectors}")
    own = schedule_product(found)
    is_own = (schedule.tile, schedule.evenly) == (own.tile, own.evenly)
    follows = own if is_own else schedule_product(found, schedule.tile, schedule.evenly)
    tasks = {name: _with_rows_of(getattr(follows, name), getattr(schedule, name), found) for name in ("packed", "in_place")}
    expected = replace(follows, form=schedule.form, **tasks)
    if schedule != expected:
        raise ScheduleError(f"expected a schedule like {expected} for this product and machine but got {schedule}")


def _with_rows_of(follows: Any, given: Any, found: Product) -> Any:
    """Tasks with what may be chosen of `given`: how many tasks are worth a thread, and how the rows are cut, if nothing waits for that."""
    if type(given) is not type(follows) or follows is None or given.grain < 1:
        return follows
    if not isinstance(given, TileTasks) or given.steps is not None or follows.steps is not None:
        return replace(follows, grain=given.grain)
    is_cut = given.rows is not None and given.rows >= 1
    if given.order not in ("panels", "pieces", "rows") or not (is_cut or (isinstance(found.m, int) and given.rows is None)):
        return replace(follows, grain=given.grain)
    if given.order != "panels" and (not is_cut or given.panels != PACKED or follows.alternates):
        return replace(follows, grain=given.grain)
    return replace(follows, grain=given.grain, rows=given.rows, order=given.order, prefetch_rows=given.prefetch_rows and is_cut)


class _ProductChoices:
    """The choices, in the order in which they need each other."""

    def __init__(self, product: Product):
        self.product, self.p = product, product.problem
        self.lane, self.lanes, self.outer = product.lane, product.lanes, product.outer
        self.m, self.n, self.k = product.m, product.n, product.k
        self.tile = choose_tile(typical(self.m), typical(self.n), typical(self.k), self.p.registers)
        self.evenly = False
        self.in_blocks = False
        self.in_streams = False
        transposes = self._transposes()
        self.transposes_panels = transposes and typical(self.k) * self.tile[1] * self.lanes * self.p.dtype.bytes > MOST_PANEL_BYTES
        # How B is packed while it is multiplied, if it is.
        self.double_buffer = plan_double_buffer(product, self._l3_is_slow) if self._pays_to_pack else None
        if self._streams_results:
            self.double_buffer = None
            ranked = rank_tiles(typical(self.m), typical(self.n), typical(self.k), self.p.registers)
            self.tile = next((tile for tile in ranked if tile[0] == ROWS_OF_STREAMS), self.tile)
        elif self.double_buffer is not None:
            self.tile = self.double_buffer.tile
        elif self.transposes_panels:
            # Narrow, so that B's rows to transpose are few pages at a time; tall, since B is read from L2 once for each tile.
            self.tile = self.p.registers.accumulators // 2, 2
        elif transposes and isinstance(self.n, int) and self.n % (self.tile[1] * self.lanes) and self.n % (2 * self.lanes) == 0:
            # Narrow panels transpose as fast, and these divide the lanes evenly.
            ranked = rank_tiles(typical(self.m), self.n, typical(self.k), self.p.registers)
            self.tile = next(tile for tile in ranked if tile[1] == 2)
        elif self._packs_l1_blocks and (
            self.n % (self._block_vectors * self.lanes) == 0 or self.n > MIN_PANELS_TO_NARROW * self._block_vectors * self.lanes
        ):
            ranked = rank_tiles(self.m, self.n, self.k, self.p.registers)
            self.tile = next((tile for tile in ranked if tile[1] == self._block_vectors), self.tile)
        elif (rows := self._rows_of_block()) is not None:
            self.tile = rows, VECTORS
            self.in_blocks = True
        elif self.m == 1 and self._is_constant and isinstance(self.n, int):
            vectors = -(-self.n // self.lanes)
            self.in_streams = self._comes_in_streams()
            self.tile = 1, streams_of_row(vectors, self.p.request.target.memory_streams) if self.in_streams else vectors_of_row(vectors)

    def take(self, tile: tuple[int, int], evenly: bool) -> None:
        """Another tile, in whose panels B is packed while it is multiplied only if there are whole tiles."""
        self.tile, self.evenly = tile, evenly
        if self.double_buffer is not None:
            is_whole = typical(self.m) >= tile[0] and typical(self.n) >= tile[1] * self.lanes
            self.double_buffer = replace(self.double_buffer, tile=tile) if is_whole else None

    def schedule(self) -> ContractSchedule:
        p = self.p
        dot = next((c for c in p.contracted if p.left.stride(c) == 1 and p.right.stride(c) == 1), None)
        # B may be read where it stands: along its lanes, or else along a contracted letter.
        may_stay = not self._is_constant and p.word_letter is None and (self._is_unit or (dot is not None and self.lanes > 1))
        reuse, least = self._reuse, self._min_rows_to_pack
        few = may_stay and isinstance(reuse, int) and reuse < least
        threshold = least if may_stay and not isinstance(reuse, int) else None
        packed, form = (None, self._form(None)) if few else self._packed(threshold is not None)
        in_place: TileTasks | DotTasks | None = None
        if few or threshold is not None:
            in_place = self._tile_tasks(None, False) if self._is_unit or dot is None else self._dot_tasks(dot)
        tile = None if packed is None and isinstance(in_place, DotTasks) else self.tile
        by_size = isinstance(packed, TileTasks) and not packed.local and other_rows(self.product) is not None
        return ContractSchedule(
            sizes_of(self.product),
            tile,
            self.lanes,
            self.evenly,
            self.in_blocks,
            self.in_streams,
            packed,
            in_place,
            threshold,
            form,
            by_size,
        )

    def _packed(self, may_be_few: bool) -> tuple[TileTasks | BufferedTasks, TileForm]:
        outer = tuple(c for c in self.outer if self.p.right.stride(c) != 0)
        width = self.lanes * (1 if self.in_streams else self.tile[1])
        panels = Panels(outer, tuple(self.p.contracted), self.lane, width, self.p.sizes)
        local = not may_be_few and self._packs_in_tasks(panels)
        form = self._form(panels)
        if local and self.double_buffer is not None:
            return self._buffered_tasks(self.double_buffer, panels), form
        return self._tile_tasks(panels, local), form

    def _form(self, panels: Panels | None) -> TileForm:
        return tile_form(self.product, panels, evenly=self.evenly)

    # --- the tile

    def _rows_of_block(self) -> int | None:
        """Rows of a block for tile registers, where the target has them for a product like this."""
        p = self.p
        if p.word_letter is None or not target_has_blocks(p.request.target) or not isinstance(self.m, int) or not isinstance(self.n, int):
            return None
        last = self.product.rows[-1] if self.product.rows else None
        width = VECTORS * self.lanes
        panels = Panels((), tuple(p.contracted), self.lane, width, p.sizes)
        if last is None or not isinstance(p.left.stride(last), int) or steps_of(p.axes(panels.strides), width) is None:
            return None
        return rows_of_block(self.m)

    def _comes_in_streams(self) -> bool:
        """Whether one row reads a constant B the fastest in several streams: B exceeds L2, and the panels of vectors are pages apart."""
        p, target = self.p, self.p.request.target
        if target.memory_streams == 1 or not isinstance(self.n, int) or not isinstance(self.k, int):
            return False
        step = self.lanes * (p.dtype if p.word_letter is not None else element_type(p.right.source.type)).bytes
        return self.k * step >= PAGE_BYTES and -(-self.n // self.lanes) * self.k * step > target.caches[1]

    def _transposes(self) -> bool:
        """Whether tasks transpose panels of B, of known sizes, that are contiguous along the steps."""
        letters = self.p.step_letters
        if self.p.right.stride(self.lane) == 1 or len(letters) != 1 or self.p.right.stride(letters[0]) != 1:
            return False
        if not isinstance(self.m, int) or not isinstance(self.k, int) or self.m < MIN_ROWS_TO_PACK_PER_TASK or self.lanes == 1:
            return False
        return not self._is_known

    @property
    def _streams_results(self) -> bool:
        """Whether the epilogue reads much that comes from memory where it writes its results."""
        p, target = self.p, self.p.request.target
        if not (isinstance(self.m, int) and isinstance(self.n, int) and isinstance(self.k, int)) or self.outer or self._is_known:
            return False
        if not target.hardware_prefetch or self.lanes == 1 or p.word_letter is not None or p.is_narrow or p.epilogue.pools:
            return False
        if p.out[-1] != self.lane or self.m < MIN_ROWS_TO_PACK_L2_PANEL:
            return False
        read, written = (sum(element_type(v.type).bytes for v in of) for of in (p.epilogue.residuals, p.epilogue.values))
        if (read + written) / target.memory_bytes_per_cycle < SHARE_OF_MEMORY * self.k / (self.lanes * target.multiply_adds):
            return False
        return read * self.m * self.n > MEMORY_OF_RESULTS * target.caches[1]

    def _panels_in_l2(self) -> int | None:
        """Panels that stay in L2 beside the streams of results, where these are not all: as many for each piece of the lanes."""
        if not self._streams_results:
            return None
        assert isinstance(self.n, int)
        width = self.tile[1] * self.lanes
        panels, room = -(-self.n // width), int(PANELS_BESIDE_STREAMS * self.p.request.target.caches[1])
        most = max(1, room // (typical(self.k) * width * self.p.dtype.bytes))
        return None if panels <= most else -(-panels // -(-panels // most))

    # --- where B comes from

    @property
    def _is_constant(self) -> bool:
        """Whether B is known at compile time, and packed there."""
        source = self.p.right.source
        return isinstance(source, BlockArgument) and source.index in self.p.request.constant

    @property
    def _is_known(self) -> bool:
        """Whether B is packed at compile time, or stays packed between runs."""
        source = self.p.right.source
        return self._is_constant or (isinstance(source, BlockArgument) and source.index in self.p.request.kept)

    @property
    def _is_unit(self) -> bool:
        """Whether the lanes of B are neighbours."""
        return self.p.right.stride(self.lane) == 1

    @property
    def _reuse(self) -> Dim:
        """Rows that meet each element of B."""
        return rows_that_meet_b(self.product)

    @property
    def _packs_l1_blocks(self) -> bool:
        """Whether tasks pack B, of known sizes, in blocks that stay in L1."""
        if (
            self._is_known
            or not self._packs_small_blocks
            or not self._is_unit
            or self.p.word_letter is not None
            or self.p.is_narrow
            or self.lanes == 1
        ):
            return False
        return isinstance(self.n, int) and isinstance(self.k, int) and self._pays_to_pack

    @property
    def _pays_to_pack(self) -> bool:
        """Whether known rows of A are enough for tasks to pack B, whose lanes are neighbours."""
        if self._is_known or not isinstance(self.m, int) or not isinstance(self._reuse, int):
            return False
        return self._reuse >= self._min_rows_to_pack and (self.m >= MIN_ROWS_TO_PACK_PER_TASK or not self._is_shared)

    @property
    def _min_rows_to_pack(self) -> int:
        """From how many rows on B is packed at run time."""
        source, target = self.p.right.source, self.p.request.target
        if isinstance(source, BlockArgument) and source.index in self.p.request.kept:
            return MIN_ROWS_TO_PACK_ONCE
        if not self._is_unit:
            return MIN_ROWS_TO_PACK_DOTS
        if not isinstance(self._reuse, int):
            return MIN_ROWS_TO_PACK
        if not self._packs_small_blocks:
            return MIN_ROWS_TO_PACK_L2_PANEL if self._panel_stays_in_l2() else MIN_ROWS_TO_PACK
        size = product_of(self.p.size(c) for c in self.p.right_letters)
        if self._is_shared or not isinstance(size, int):
            return MIN_ROWS_TO_PACK
        return MIN_ROWS_TO_PACK_BEYOND_L2 if 2 * size * self.p.dtype.bytes > target.caches[1] else MIN_ROWS_TO_PACK_L2_RESIDENT

    def _panel_stays_in_l2(self) -> bool:
        """Whether an unpacked panel stays in L2: rows of B that are far apart may share few of its sets."""
        p = self.p
        letters = p.step_letters
        if len(letters) != 1 or not isinstance(self.k, int):
            return False
        stride = p.right.stride(letters[0])
        if not isinstance(stride, int) or self.k * self.tile[1] * self.lanes * p.dtype.bytes > self._panel_budget:
            return False
        period = p.request.target.caches[1] // L2_WAYS
        places = period // gcd(stride * p.dtype.bytes, period)
        return self.k * 4 <= places * L2_WAYS * 3

    def _packs_in_tasks(self, panels: Panels) -> bool:
        """Whether each task packs its panels into its own memory, which stays in L2. B is then read once, and never written back."""
        if self._is_known or self.p.is_narrow or self._streams_results:
            return False
        if not isinstance(panels.depth, int) or not isinstance(self.m, int):
            return False
        if panels.depth * panels.width * self.p.dtype.bytes > self._panel_budget and len(self.p.step_letters) != 1:
            return False
        if self._is_unit and is_packed_at_once(self.product, self._l3_is_slow):
            return False
        return self.m >= MIN_ROWS_TO_PACK_PER_TASK or not self._is_shared

    @property
    def _is_shared(self) -> bool:
        """Whether B is the same at several places of the outer letters."""
        return any(self.p.right.stride(c) == 0 for c in self.outer)

    @property
    def _panel_budget(self) -> int:
        """Bytes of a panel, or of a block of one, that leave room for rows of A in L2, and on the stack of a task that
        packs it.
        """
        return min(self.p.request.target.caches[1] // 4, MOST_PANEL_BYTES) // (2 if self.transposes_panels else 1)

    # --- tasks

    def _buffered_tasks(self, plan: DoubleBufferPlan, panels: Panels) -> BufferedTasks:
        p, (rows, _) = self.p, self.tile
        assert isinstance(self.m, int) and isinstance(self.n, int) and isinstance(self.k, int)
        whole = self.n // panels.width
        outer = product_of(p.size(c) for c in self.outer)
        row, most = plan.depth * element_type(p.left.source.type).bytes, None
        if self._l3_is_slow and self.m * row > p.request.target.caches[1] // L2_SHARE_OF_LEFT:
            most = max(MIN_RESIDENT_ROWS, p.request.target.caches[1] // L2_SHARE_OF_LEFT // row)
        piece = self._row_piece(rows, typical(outer) * whole, most, True)
        if piece is not None and self.m % piece and self.m % piece < rows:
            piece = None
        at_once = None
        if plan.depth < self.k:
            sums = (piece or self.m) * panels.width * p.dtype.bytes
            at_once = max(1, p.request.target.caches[1] // L2_SHARE_OF_SUMS // sums)
        rest = self._tile_tasks(panels, True) if self.n % panels.width else None
        cycles = step_cycles(*plan.tile) / plan.tile[0] * (piece or self.m) * self.k * max(1, whole // 2)
        grain = max(1, int(GRAIN_CYCLES / cycles))
        return BufferedTasks(plan.depth, piece, at_once, grain, rest, self.n == panels.width and self._rows_need_prefetch())

    def _tile_tasks(self, panels: Panels | None, local: bool) -> TileTasks:
        """Tiles of all rows and lanes, B read from `panels` or in place; the panels are made by each task when they are `local`."""
        rows, vectors = self.tile
        depth = self._depth(panels, local)
        around = typical(product_of(self.p.size(c) for c in self.outer)) * typical(ceildiv(self.n, vectors * self.lanes))
        piece = self._row_piece(rows, around, None if depth is None else ROWS_OF_BLOCKS * (1 + local), local)
        step = step_of_block(rows) if self.in_blocks else step_cycles(rows, vectors)
        per_task = typical(piece or self.m) * step / rows * typical(self.k)
        grain, order, across = max(1, int(GRAIN_CYCLES / max(per_task, 1))), "panels", None
        if (first := self._rows_first(panels, local)) is not None:
            order, piece, across = "rows", first, self._panels_in_l2()
        elif (near := self._resident_rows(panels, local)) is not None:
            order, piece = "pieces", near
        alternates = order != "rows" and self._alternates(panels, local)
        source = "" if panels is None else LOCAL if local else PACKED
        return TileTasks(source, depth, piece, order, across, grain, alternates, order == "rows" and self._rows_exceed_l2())

    def _dot_tasks(self, dot: str) -> DotTasks:
        rows = min(self.m, ROWS_OF_DOT) if isinstance(self.m, int) else ROWS_OF_DOT
        most = min(self.p.registers.accumulators // rows, COLUMNS_OF_DOT)
        columns = min(self.n, most) if isinstance(self.n, int) else most
        per_task = typical(self.m) * columns * typical(self.k) / self.lanes / 2
        return DotTasks(dot, rows, columns, max(1, int(GRAIN_CYCLES / max(per_task, 1))))

    def _rows_need_prefetch(self) -> bool:
        """Whether to prefetch the rows of A that a single panel reads, once.

        Those beyond L2 are. Of several products also those in L2, if the rows of two tiles are whole lines and leave room in L1.
        """
        p, target = self.p, self.p.request.target
        products = product_of(p.size(c) for c in self.outer if p.left.stride(c) != 0)
        row = typical(self.k) * element_type(p.left.source.type).bytes
        fits = row % target.line_bytes == 0 and 2 * self.tile[0] * row <= target.caches[0] // L1_SHARE_OF_TILES
        return self._rows_exceed_l2(products) or (typical(products) > 1 and fits)

    def _depth(self, panels: Panels | None, local: bool) -> int | None:
        """Steps of a block of a panel, `local` if a task packs it, that has room in L2, or in the first one; None when
        a panel is such a block as a whole.
        """
        near = local and self._packs_small_blocks and self._is_unit
        if panels is None or self.in_blocks or not isinstance(panels.depth, int) or (typical(self.m) < MIN_ROWS_FOR_K_BLOCKS and not near):
            return None
        # A task packs along one letter: several may be one axis of A and of the panels, and not of B.
        if local and len(self.p.step_letters) != 1:
            return None
        room = self.p.request.target.caches[0] // L1_SHARE_OF_BLOCK if near else self._panel_budget
        blocks = -(-panels.depth * panels.width * self.p.dtype.bytes // room)
        if blocks < 2 or len(self.p.axes(panels.strides)) != 1:
            return None
        return -(-panels.depth // blocks // UNROLL) * UNROLL

    def _row_piece(self, rows: int, outer: int, most: int | None, local: bool) -> int | None:
        """How many rows each of the pieces has that the rows are cut into for the threads (None: all of them); `most` if that is given.
        `local` panels are packed for each piece anew.
        """
        cycles = typical(self.m) * -(-typical(self.n) // self.lanes) * typical(self.k) * outer / 2
        if self.in_blocks:
            cycles *= step_of_block(rows) / (rows * VECTORS / 2)
        wanted = min(-(-PIECES // max(outer, 1)), int(cycles / PIECE_CYCLES / max(outer, 1)))
        if local:
            wanted = min(wanted, typical(self.m) // ROWS_OF_BLOCKS)
        if most is not None:
            wanted = max(wanted, -(-typical(self.m) // most))
        if not isinstance(self.m, int):
            return -(-ASSUMED.size // rows) * rows
        if wanted <= 1:
            return None
        piece = -(-self.m // (wanted * rows)) * rows
        return None if piece >= self.m else piece

    def _rows_first(self, panels: Panels | None, local: bool) -> int | None:
        """Rows of a task that makes all lanes of its rows, panel by panel. None if a task has one panel.

        It pays for many rows, whose results come from memory and are then read and written once, in whole rows. Fewer rows are enough if
        all panels stay in L2, from where they are read for each task.
        """
        if panels is None or local or not isinstance(self.m, int):
            return None
        rows, depth = self.tile[0], self._depth(panels, local)
        if self._streams_results and rows <= ROWS_OF_STREAMS and depth is None:
            return rows
        if self.m >= PIECES * MIN_ROWS_OF_TASK * 2 and self._panels_stay_in_l2(panels) and depth is None:
            sizes = range(-(-MIN_ROWS_OF_TASK // rows) * rows, MAX_ROWS_OF_TASK + 1, rows)
            # What the busier one of two threads has to do, and the larger piece of equal ones.
            return min(sizes, key=lambda size: (-(-self.m // (2 * size)) * size, -size))
        if self.m >= PIECES * ROWS_OF_TASK:
            return -(-(ROWS_OF_TASK if depth is None else ROWS_OF_BLOCKS) // rows) * rows
        return None

    def _rows_exceed_l2(self, products: Dim = 1) -> bool:
        """Whether A of so many products is more than L2 holds."""
        size = typical(products) * typical(self.m) * typical(self.k) * element_type(self.p.left.source.type).bytes
        return size > self.p.request.target.caches[1]

    def _alternates(self, panels: Panels | None, local: bool) -> bool:
        """Whether one call goes through the panels forwards and the next one backwards, so that it begins with those that are still in the
        L2: more of them than it holds, but not many times as many, which are read once in each call.
        """
        if panels is None or local or self.outer or not isinstance(panels.elements, int):
            return False
        size, cache = panels.elements * self.p.dtype.bytes, self.p.request.target.caches[1]
        is_read_once = not isinstance(self.m, int) or self.m <= MOST_ALTERNATING_ROWS
        return is_read_once and 3 * cache < 4 * size <= 4 * MOST_ALTERNATING * cache

    def _panels_stay_in_l2(self, panels: Panels) -> bool:
        """Whether several panels, and room for more, are in L2, and the third one is too slow to read anything else
        from it more often than needed.
        """
        target, size = self.p.request.target, panels.elements
        if self.in_blocks or not self._l3_is_slow or not isinstance(size, int) or not isinstance(self.n, int) or self.n <= panels.width:
            return False
        return size * self.p.dtype.bytes <= target.caches[1] // L2_SHARE_OF_PANELS

    def _resident_rows(self, panels: Panels | None, local: bool) -> int | None:
        """Rows of a piece that stays in L2 while every panel passes. None if all rows of A fit, if L3 is fast, or if rows are too long."""
        target = self.p.request.target
        if panels is None or local or self.in_blocks or self.outer or not self._l3_is_slow or self._depth(panels, local) is not None:
            return None
        if not isinstance(self.m, int) or not isinstance(self.n, int) or not isinstance(self.k, int) or self.n <= panels.width:
            return None
        room, row = target.caches[1] // L2_SHARE_OF_ROWS, self.k * element_type(self.p.left.source.type).bytes
        if self.m * row <= room or room < row * MIN_RESIDENT_ROWS:
            return None
        rows, _ = self.tile
        return -(-self.m // (-(-self.m * row // room) * rows)) * rows

    @property
    def _l3_is_slow(self) -> bool:
        """Whether L3 is much slower than the second one."""
        return self.p.request.target.l3_bytes_per_cycle < FAST_L3_BYTES

    @property
    def _packs_small_blocks(self) -> bool:
        """Whether tasks that pack B make blocks that stay in L1.

        They do if L3 is slow. They also do if tiles have few registers and B exceeds half of L2: a row of a panel is then a line or two
        from afar.
        """
        if self._l3_is_slow or self.p.registers.count >= MANY_REGISTERS:
            return self._l3_is_slow
        return (
            isinstance(self.k, int)
            and isinstance(self.n, int)
            and 2 * self.k * self.n * self.p.dtype.bytes > self.p.request.target.caches[1]
        )

    @property
    def _block_vectors(self) -> int:
        """Vectors of such a block."""
        return L1_BLOCK_VECTORS if self.p.registers.count >= MANY_REGISTERS else L1_BLOCK_VECTORS_OF_16_REGISTERS
