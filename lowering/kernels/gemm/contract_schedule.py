"""How a matrix product is computed by register tiles: all that is chosen, before a kernel is written.

B may be packed ahead, packed by each task, packed while it is multiplied, or read where it stands, by tiles of several sizes, whose rows
and steps are cut in several ways. `product_estimate.py` tells what each candidate takes; the one that takes the least is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from polyreme.ir.core import BlockArgument
from polyreme.ir.dims import Dim, ceildiv
from polyreme.ir.dims import product as product_of
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.estimates import ASSUMED
from polyreme.lowering.kernels.amx_blocks import VECTORS, rows_of_block, step_of_block, steps_of, target_has_blocks
from polyreme.lowering.kernels.gemm.double_buffered import can_buffer, depths_of_buffer
from polyreme.lowering.kernels.gemm.product_estimate import ProductEstimate
from polyreme.lowering.kernels.gemm.product_schedule import (
    LOCAL,
    PACKED,
    BufferedTasks,
    ContractSchedule,
    DotTasks,
    TileTasks,
    other_rows,
    rows_that_meet_b,
    sizes_of,
)
from polyreme.lowering.kernels.gemm.product_tile import TileForm
from polyreme.lowering.kernels.microkernel import UNROLL, rank_tiles, step_cycles, streams_of_row, vectors_of_row
from polyreme.lowering.kernels.packing import Panels
from polyreme.lowering.kernels.problem import Product, typical
from polyreme.lowering.kernels.schedule import ScheduleError
from polyreme.lowering.machines.cost import rates_of, rows_that_hide_packing
from polyreme.lowering.machines.memory import FOLLOWED_LOADS, PAGE_BYTES
from polyreme.lowering.machines.tasks import GRAIN_CYCLES, PIECE_CYCLES, PIECES, TASK_STACK_BYTES

# How B is read: packed ahead, by each task, or while it is multiplied; where it stands, by tiles or by dot products.
AHEAD, EACH, BUFFERED, PLACE, DOTS = "ahead", "each", "buffered", "place", "dots"


def tile_form(product: Product, panels: Panels | None, evenly: bool = False) -> TileForm:
    """How the tiles of a product are written, whose B lies in `panels` (None: in place)."""
    p, target = product.problem, product.problem.request.target
    size = 0 if panels is None else typical(panels.elements) * p.dtype.bytes
    over = None
    if product.m == 1 and panels is not None and isinstance(panels.depth, int) and not target.hardware_prefetch:
        each = (p.dtype if p.word_letter is not None else element_type(p.right.source.type)).bytes
        if typical(panels.elements) * each > target.caches[1]:
            over = target.caches[1]
    even = not isinstance(product.m, int) and not evenly and size > target.caches[1]
    return TileForm(target.half_width_vectors and p.word_letter is None, over, even)


def schedule_product(found: Product, tile: tuple[int, int] | None = None, evenly: bool = False) -> ContractSchedule:
    """The schedule of a product that is estimated to take the fewest cycles, with this tile if one is given."""
    return rank_schedules(found, tile, evenly)[0]


def rank_schedules(found: Product, tile: tuple[int, int] | None = None, evenly: bool = False) -> list[ContractSchedule]:
    """The candidates, those with the fewest estimated cycles first, and simple ones first when they tie."""
    candidates = list(dict.fromkeys(_Candidates(found, tile, evenly).all()))
    if len(candidates) == 1:
        return candidates
    estimate = ProductEstimate(found)
    cycles = {schedule: estimate.cycles(schedule) for schedule in candidates}
    return sorted(candidates, key=lambda schedule: cycles[schedule])


def fit_product(found: Product, schedule: ContractSchedule) -> None:
    """`ScheduleError` unless it is one of the candidates of a product, with any tile; its rows may be cut in another way. The rest follows
    from the product, the machine and the tile.
    """
    registers = found.problem.registers
    if schedule.sizes != sizes_of(found):
        raise ScheduleError(f"expected a schedule for sizes = {sizes_of(found)} but got sizes = {schedule.sizes}")
    rows, vectors = schedule.tile or (1, 1)
    if not (rows >= 1 and vectors >= 1 and rows * vectors <= registers.count):
        raise ScheduleError(f"expected a tile that {registers.count} vector registers hold but got tile = {rows}x{vectors}")
    own = rank_schedules(found)
    follows = own if schedule.tile is None or (schedule.tile, schedule.evenly) == (own[0].tile, own[0].evenly) else []
    follows = follows + (rank_schedules(found, schedule.tile, schedule.evenly) if schedule.tile is not None else [])
    if not any(schedule == _as_given(one, schedule, found) for one in follows):
        alike = [one for one in follows if _kind(one) == _kind(schedule)] or follows
        raise ScheduleError(f"expected a schedule like {alike[0]} for this product and machine but got {schedule}")


def _kind(schedule: ContractSchedule) -> Any:
    return schedule.tile, *((type(tasks), getattr(tasks, "panels", None)) for tasks in (schedule.packed, schedule.in_place))


def _as_given(follows: ContractSchedule, given: ContractSchedule, found: Product) -> ContractSchedule:
    """A candidate with what may be chosen freely of a schedule that is given."""
    tasks = {name: _with_rows_of(getattr(follows, name), getattr(given, name), found) for name in ("packed", "in_place")}
    return replace(follows, form=given.form, **tasks)


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


class _Candidates:
    """The candidates of a product: how B is read, for each of these the tile, for each of those how the rows and the steps are cut. With a
    `tile` all have this one.
    """

    def __init__(self, product: Product, tile: tuple[int, int] | None, evenly: bool):
        self.product, self.p, self.target = product, product.problem, product.problem.request.target
        self.lane, self.lanes, self.outer = product.lane, product.lanes, product.outer
        self.m, self.n, self.k = product.m, product.n, product.k
        self.given, self.evenly = tile, evenly
        self.is_known_size = all(isinstance(size, int) for size in (self.m, self.n, self.k))

    def all(self) -> Iterator[ContractSchedule]:
        """Those of each way to read B."""
        p = self.p
        dot = next((c for c in p.contracted if p.left.stride(c) == 1 and p.right.stride(c) == 1), None)
        # B may be read where it stands: along its lanes, or else along a contracted letter.
        may_stay = not self._is_constant and p.word_letter is None and (self._is_unit or (dot is not None and self.lanes > 1))
        place = PLACE if self._is_unit or dot is None else DOTS
        if may_stay and not isinstance(rows_that_meet_b(self.product), int):
            yield self._by_rows(place, dot)
            return
        sources = [AHEAD] if self._is_known else [AHEAD, *self._sources_of_tasks()]
        for source in [place, *sources] if may_stay else sources:
            yield from self._of_source(source, dot)

    def _by_rows(self, place: str, dot: str | None) -> ContractSchedule:
        """B packed ahead for enough of an unknown number of rows, and in place for fewer; in place alone if no number is enough."""
        packed, stays = next(self._of_source(AHEAD, dot)), next(self._of_source(place, dot))

        def gains(rows: int) -> bool:
            estimate = ProductEstimate(self.product, rows)
            return estimate.cycles(packed) < estimate.cycles(stays)

        powers = (1 << i for i in range((PIECES * ASSUMED.size).bit_length()))
        most = next((rows for rows in powers if gains(rows)), None)
        if most is None:
            return stays
        least = most // 2
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (least, middle) if gains(middle) else (middle, most)
        return replace(packed, in_place=stays.in_place, packed_from_rows=most)

    def _sources_of_tasks(self) -> Iterator[str]:
        """How tasks may pack B for themselves: into memory of their own, so that B is read once, and never written back."""
        if self.p.is_narrow or not isinstance(self.m, int) or not isinstance(self.k, int):
            return
        yield EACH
        if can_buffer(self.product):
            yield BUFFERED

    def _of_source(self, source: str, dot: str | None) -> Iterator[ContractSchedule]:
        if source == DOTS and dot is not None:
            for dots in self._dot_tasks(dot):
                yield self._schedule(None, None, dots)
            return
        for tile in self._tiles(source):
            for tasks in self._tasks(source, tile):
                if source == PLACE and isinstance(tasks, TileTasks):
                    yield self._schedule(tile, None, tasks)
                else:
                    yield self._schedule(tile, tasks, None)

    def _schedule(
        self, tile: tuple[int, int] | None, packed: TileTasks | BufferedTasks | None, in_place: TileTasks | DotTasks | None
    ) -> ContractSchedule:
        by_size = isinstance(packed, TileTasks) and not packed.local and other_rows(self.product) is not None
        panels = None if packed is None or tile is None else self._panels(tile)
        return ContractSchedule(
            sizes_of(self.product),
            tile,
            self.lanes,
            self.evenly,
            self._rows_of_block is not None and tile is not None and tile == (self._rows_of_block, VECTORS),
            self._in_streams and packed is not None,
            packed,
            in_place,
            None,
            tile_form(self.product, panels, evenly=self.evenly),
            by_size,
        )

    def _panels(self, tile: tuple[int, int]) -> Panels:
        outer = tuple(c for c in self.outer if self.p.right.stride(c) != 0)
        width = self.lanes * (1 if self._in_streams else tile[1])
        return Panels(outer, tuple(self.p.contracted), self.lane, width, self.p.sizes)

    # --- the tile

    def _tiles(self, source: str) -> list[tuple[int, int]]:
        """The tiles that are tried: the best one, and the best ones that are as wide as another reason asks."""
        if self.given is not None:
            is_whole = typical(self.m) >= self.given[0] and typical(self.n) >= self.given[1] * self.lanes
            return [self.given] if source != BUFFERED or is_whole else []
        ranked = rank_tiles(typical(self.m), typical(self.n), typical(self.k), self.p.registers)
        if self._rows_of_block is not None:
            return [(self._rows_of_block, VECTORS)]
        if self.m == 1 and self._is_constant and isinstance(self.n, int):
            vectors = -(-self.n // self.lanes)
            return [(1, streams_of_row(vectors, self.target.memory_streams) if self._in_streams else vectors_of_row(vectors))]
        found = [ranked[0]]
        if source in (EACH, BUFFERED):
            # A panel of few lanes is packed before it is multiplied: others may divide the lanes evenly.
            found += [next(tile for tile in ranked if tile[1] == vectors) for vectors in dict.fromkeys(v for _, v in ranked)]
            if source == EACH and not self._is_unit:
                # B's rows to transpose are few pages at a time, and B is read from L2 once for each tile.
                found.append((self.p.registers.most_rows(2), 2))
        if source == AHEAD and self._reads_results:
            found += [tile for tile in ranked if tile[0] <= rates_of(self.target).streams][:1]
        if source == BUFFERED:
            found = [(rows, v) for rows, v in found if typical(self.n) >= v * self.lanes and typical(self.m) >= rows]
        return list(dict.fromkeys(found))

    @cached_property
    def _rows_of_block(self) -> int | None:
        """Rows of a block for tile registers, where the target has them for a product like this."""
        p = self.p
        if p.word_letter is None or not target_has_blocks(self.target) or not isinstance(self.m, int) or not isinstance(self.n, int):
            return None
        last = self.product.rows[-1] if self.product.rows else None
        width = VECTORS * self.lanes
        panels = Panels((), tuple(p.contracted), self.lane, width, p.sizes)
        if last is None or not isinstance(p.left.stride(last), int) or steps_of(p.axes(panels.strides), width) is None:
            return None
        return rows_of_block(self.m)

    @cached_property
    def _in_streams(self) -> bool:
        """Whether one row reads a constant B the fastest in several streams: B exceeds L2, and the panels of vectors are pages apart."""
        p, target = self.p, self.target
        if self.m != 1 or self.given is not None or not self._is_constant or self._rows_of_block is not None or target.memory_streams == 1:
            return False
        if not isinstance(self.n, int) or not isinstance(self.k, int):
            return False
        step = self.lanes * (p.dtype if p.word_letter is not None else element_type(p.right.source.type)).bytes
        return self.k * step >= PAGE_BYTES and -(-self.n // self.lanes) * self.k * step > target.caches[1]

    @cached_property
    def _reads_results(self) -> bool:
        """Whether the epilogue reads arrays where it writes its results, which the machine may follow as streams."""
        p = self.p
        simple = self.lanes > 1 and p.word_letter is None and not p.is_narrow and not p.epilogue.pools and p.out[-1] == self.lane
        if not simple or not self.is_known_size or self.outer or not self.target.hardware_prefetch:
            return False
        return sum(element_type(v.type).bytes for v in p.epilogue.residuals) * typical(self.m) * typical(self.n) > self.target.caches[1]

    # --- where B comes from

    @cached_property
    def _is_constant(self) -> bool:
        """Whether B is known at compile time, and packed there."""
        source = self.p.right.source
        return isinstance(source, BlockArgument) and source.index in self.p.request.constant

    @cached_property
    def _is_known(self) -> bool:
        """Whether B is packed at compile time, or stays packed between runs."""
        source = self.p.right.source
        return self._is_constant or (isinstance(source, BlockArgument) and source.index in self.p.request.kept)

    @cached_property
    def _is_unit(self) -> bool:
        """Whether the lanes of B are neighbours."""
        return self.p.right.stride(self.lane) == 1

    # --- tasks

    def _tasks(self, source: str, tile: tuple[int, int]) -> Iterator[TileTasks | BufferedTasks]:
        """How the rows and the steps are cut into tasks."""
        panels = self._panels(tile)
        if source == BUFFERED:
            yield from self._buffered_tasks(tile)
            return
        if source == PLACE:
            yield self._tile_tasks("", tile, None, "panels", self._row_piece(tile, None, False))
            return
        local = source == EACH
        for depth in self._depths(panels, local) if typical(self.m) > tile[0] else (None,):
            most = None if depth is None else self._most_rows(tile, depth if local else 0)
            base = self._row_piece(tile, most, local)
            # A task has memory for its panel, and for the sums that wait between blocks.
            if local and typical(panels.depth if depth is None else depth) * panels.width * self.p.dtype.bytes > TASK_STACK_BYTES:
                continue
            yield self._tile_tasks(LOCAL if local else PACKED, tile, depth, "panels", base)
            if not local:
                yield from self._row_orders(tile, panels, depth, most)

    def _row_orders(self, tile: tuple[int, int], panels: Panels, depth: int | None, most: int | None) -> Iterator[TileTasks]:
        """Tasks that share pieces of the rows, or have all lanes of one."""
        m, n = self.m, self.n
        if not isinstance(m, int) or not isinstance(n, int) or not isinstance(panels.elements, int) or n <= panels.width:
            return
        touched = m * (typical(self.k) * self._left_bytes + n * self._result_bytes) + panels.elements * self.p.dtype.bytes
        if touched <= self.target.caches[1]:
            return
        count, streams = 2, rates_of(self.target).streams
        while m >= count * tile[0]:
            rows = -(-m // (count * tile[0])) * tile[0]
            if most is None or rows <= most:
                yield self._tile_tasks(PACKED, tile, depth, "pieces" if count < PIECES else "rows", rows)
            count *= 2
        if self._reads_results and tile[0] <= streams and m >= PIECES * tile[0] and depth is None:
            every = -(-n // panels.width)
            room = self.target.caches[1] - tile[0] * n * self._result_bytes
            fitting = max(1, room // max(1, panels.elements * self.p.dtype.bytes // every))
            across = None if every <= fitting else -(-every // -(-every // fitting))
            yield self._tile_tasks(PACKED, tile, depth, "rows", tile[0], across)

    def _tile_tasks(
        self, panels: str, tile: tuple[int, int], depth: int | None, order: str, piece: int | None, across: int | None = None
    ) -> TileTasks:
        rows, vectors = tile
        in_blocks = self._rows_of_block is not None
        step = step_of_block(rows) if in_blocks else step_cycles(rows, vectors)
        of_rows = self._row_piece(tile, None if depth is None else self._most_rows(tile, 0), panels == LOCAL) if order == "rows" else piece
        grain = max(1, int(GRAIN_CYCLES / max(typical(of_rows or self.m) * step / rows * typical(self.k), 1)))
        alternates = panels == PACKED and order != "rows" and self._alternates(tile)
        return TileTasks(panels, depth, piece, order, across, grain, alternates, order == "rows" and self._rows_exceed_l2())

    def _buffered_tasks(self, tile: tuple[int, int]) -> Iterator[BufferedTasks]:
        """Tasks that pack the next block while they multiply."""
        p, (rows, vectors), cache = self.p, tile, self.target.caches[1]
        assert isinstance(self.m, int) and isinstance(self.n, int) and isinstance(self.k, int)
        width = vectors * self.lanes
        whole, outer = self.n // width, typical(product_of(p.size(c) for c in self.outer))
        for depth in depths_of_buffer(self.product, tile):
            panel, row = 2 * depth * width * p.dtype.bytes, depth * self._left_bytes
            # All rows that threads do not share, or as many as stay in half of L2.
            for most in (None, max(rows, (cache - panel) // 2 // row)):
                piece = self._row_piece(tile, most, True, outer * whole)
                if piece is not None and self.m % piece and self.m % piece < rows:
                    continue
                at_once = None
                if depth < self.k:
                    # The rows of A's block and the sums of all panels of a task stay in L2.
                    sums = (piece or self.m) * width * p.dtype.bytes
                    at_once = max(1, (cache - panel - (piece or self.m) * row) // sums)
                rest = None
                if self.n % width:
                    # It has the memory of one block at least.
                    each = (t for t in self._tasks(EACH, tile) if isinstance(t, TileTasks) and (t.steps or self.k) <= depth)
                    rest = next(each, None)
                    if rest is None:
                        continue
                cycles = step_cycles(*tile) / rows * (piece or self.m) * self.k * max(1, whole // 2)
                grain = max(1, int(GRAIN_CYCLES / cycles))
                yield BufferedTasks(depth, piece, at_once, grain, rest, self.n == width and self._rows_need_prefetch(tile))

    def _dot_tasks(self, dot: str) -> Iterator[DotTasks]:
        """Tiles of dot products: for each number of rows as many columns as there are registers for, and for the columns' vectors."""
        registers = self.p.registers
        for rows in range(1, min(typical(self.m), registers.accumulators) + 1):
            columns = min(registers.accumulators // rows, (registers.count - registers.factors) // (rows + 1))
            columns = min(columns, FOLLOWED_LOADS // UNROLL, *([self.n] if isinstance(self.n, int) else []))
            per_task = typical(self.m) * columns * typical(self.k) / self.lanes / 2
            yield DotTasks(dot, rows, columns, max(1, int(GRAIN_CYCLES / max(per_task, 1))))

    @property
    def _left_bytes(self) -> int:
        return element_type(self.p.left.source.type).bytes

    @property
    def _result_bytes(self) -> int:
        return sum(element_type(v.type).bytes for v in (*self.p.epilogue.values, *self.p.epilogue.residuals))

    def _rows_need_prefetch(self, tile: tuple[int, int]) -> bool:
        """Whether to prefetch the rows of A that a single panel reads, once.

        Those beyond L2 are. Of several products also those in L2, if the rows are whole lines and those of two tiles leave half of L1.
        """
        products = product_of(self.p.size(c) for c in self.outer if self.p.left.stride(c) != 0)
        row = typical(self.k) * self._left_bytes
        fits = row % self.target.line_bytes == 0 and 4 * tile[0] * row <= self.target.caches[0]
        return self._rows_exceed_l2(products) or (typical(products) > 1 and fits)

    def _rows_exceed_l2(self, products: Dim = 1) -> bool:
        """Whether A of so many products is more than L2 holds."""
        return typical(products) * typical(self.m) * typical(self.k) * self._left_bytes > self.target.caches[1]

    def _depths(self, panels: Panels, local: bool) -> Iterator[int | None]:
        """Steps of a block of a panel: all of them (None), or as many as leave half of L1, or of L2, for other things."""
        yield None
        if self._rows_of_block is not None or not isinstance(panels.depth, int) or len(self.p.axes(panels.strides)) != 1:
            return
        # A task packs along one letter: several may be one axis of A and of the panels, and not of B.
        if local and len(self.p.step_letters) != 1:
            return
        for cache in self.target.caches[:2]:
            blocks = -(-2 * panels.depth * panels.width * self.p.dtype.bytes // cache)
            if blocks > 1:
                yield -(-panels.depth // blocks // UNROLL) * UNROLL

    def _most_rows(self, tile: tuple[int, int], depth: int) -> int:
        """Rows of a task whose sums wait in its memory, beside a block of so many steps."""
        width = tile[1] * self.lanes * self.p.dtype.bytes
        return max(tile[0], (TASK_STACK_BYTES // width - depth) // tile[0] * tile[0])

    def _row_piece(self, tile: tuple[int, int], most: int | None, local: bool, around: int | None = None) -> int | None:
        """How many rows each of the pieces has that the rows are cut into for the threads (None: all of them); `most` if that is given.
        `local` panels are packed for each piece anew, in a small part of the time that it takes.
        """
        rows, vectors = tile
        if not isinstance(self.m, int):
            return -(-ASSUMED.size // rows) * rows
        outer = around or typical(product_of(self.p.size(c) for c in self.outer)) * typical(ceildiv(self.n, vectors * self.lanes))
        cycles = self.m * -(-typical(self.n) // self.lanes) * typical(self.k) * outer / 2
        if self._rows_of_block is not None:
            cycles *= step_of_block(rows) / (rows * VECTORS / 2)
        wanted = min(-(-PIECES // max(outer, 1)), int(cycles / PIECE_CYCLES / max(outer, 1)))
        if local:
            wanted = min(wanted, self.m // rows_that_hide_packing(self.target))
        if most is not None:
            wanted = max(wanted, -(-self.m // most))
        if wanted <= 1:
            return None
        piece = -(-self.m // (wanted * rows)) * rows
        return None if piece >= self.m else piece

    def _alternates(self, tile: tuple[int, int]) -> bool:
        """Whether one call goes through the panels forwards and the next one backwards, so that it begins with those that are still in L2:
        there are more of them than it holds, and it holds A and the results beside some.
        """
        elements = self._panels(tile).elements
        if self.outer or not self._is_known or not isinstance(elements, int):
            return False
        cache = self.target.caches[1]
        beside = typical(self.m) * (typical(self.k) * self._left_bytes + typical(self.n) * self._result_bytes)
        return elements * self.p.dtype.bytes + beside > cache > 2 * beside
