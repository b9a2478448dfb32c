"""What a product takes by a schedule, from sizes alone: the work that `lowering/analysis/kernel_work.py` counts of the kernel once it is
written, turned into cycles by the same functions of the machine. So candidates compare before any code is there.

A task's loops are tiles of rows, blocks of steps, panels and pieces of rows. What each of A, B and the results touches in a round of a loop
stays in the first cache that has room for all that the round touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from math import ceil, gcd, inf

from polyreme.dialects import tensor
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.define import ConstantLike
from polyreme.ir.dims import product as product_of
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.estimates import ASSUMED
from polyreme.lowering.kernels.gemm.product_schedule import BufferedTasks, ContractSchedule, DotTasks, TileTasks
from polyreme.lowering.kernels.microkernel import MOST_UNROLLED, PART, UNROLL, split_extent
from polyreme.lowering.kernels.problem import Product, typical
from polyreme.lowering.machines.cost import Traffic, Work, busy_cycles, rates_of, with_traffic, work_of_function
from polyreme.lowering.machines.functions import LATENCY, LATENCY_OF_SIMPLE
from polyreme.lowering.machines.memory import FOLLOWED_LOADS, L2_WAYS, L3_SHARE
from polyreme.lowering.machines.targets import Target

__all__ = ["ProductEstimate"]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Registers of a `vector` of sums, and of the `least` one, as the machine counts them; whether long sums are made in parts."""

    vector: float
    least: float
    parts: bool


@lru_cache(maxsize=8192)
def tile_cycles(target: Target, numbers: Numbers, rows: int, vectors: float, steps: int, ends: Work, copied: float = 0.0) -> float:
    """Cycles of a register tile whose data is in L1, with the work at its `ends`; so many vectors are copied in each round of steps."""
    sums = rows * vectors * numbers.vector
    step = Work(multiply_adds=sums, loads=rows * numbers.least + vectors * numbers.vector)
    if steps <= MOST_UNROLLED:
        return max(busy_cycles(step * steps + ends, target), 1.0)
    copying, parts = copied * numbers.vector, numbers.parts and steps > PART
    rounds, rest = divmod(steps, UNROLL)
    cycles = rounds * busy_cycles(step * UNROLL + Work(loads=copying, stores=copying, waits=UNROLL * LATENCY), target)
    if not parts:
        return cycles + busy_cycles(step * rest + ends, target)
    adding = busy_cycles(Work(arithmetic=sums, waits=LATENCY_OF_SIMPLE), target)
    return cycles + -(-steps // PART) * adding + rest * busy_cycles(step + Work(waits=LATENCY), target) + busy_cycles(ends, target)


Missed = dict[str, tuple[float, ...]]


def missed_of(
    inner: Mapping[str, float], loops: Iterable[tuple[float, str]], caches: tuple[int, ...], sizes: Mapping[str, float] | None = None
) -> Missed:
    """Bytes of each operand, by its letter, that come to a cache of each size, where a round of the innermost loop touches so many. The
    loops, from the innermost on, have so many rounds, from one to the next of which the operands that are named move. No more is touched
    than the `sizes` of operands, whose pieces may share lines.
    """
    touched = dict(inner)
    missed = {name: [count] * len(caches) for name, count in inner.items()}
    for rounds, moving in loops:
        of_round = sum(touched.values())
        for name, by_cache in missed.items():
            if name in moving:
                touched[name] = min(touched[name] * rounds, inf if sizes is None else sizes.get(name, inf))
            for i, room in enumerate(caches):
                if name in moving or of_round > room:
                    by_cache[i] *= rounds
        of_run = sum(touched.values())
        for name, by_cache in missed.items():
            for i, room in enumerate(caches):
                if of_run <= room:
                    by_cache[i] = min(by_cache[i], touched[name])
    # The next call finds in a cache what this one has touched, if all of that has room there.
    whole = sum(touched.values())
    return {name: tuple(0.0 if whole <= room else n for n, room in zip(by, caches, strict=True)) for name, by in missed.items()}


def traffic_of(missed: Missed) -> Traffic:
    """The same of all operands as what comes from each level."""
    of_all = [sum(by) for by in zip(*missed.values(), strict=True)]
    first, second, third = (max(of_all[i:]) for i in range(len(of_all)))
    return Traffic(first - second, second - third, third)


class ProductEstimate:
    """Estimates of a product of so many `rows` (None: those that it has, or is taken to have)."""

    def __init__(self, found: Product, rows: int | None = None):
        p = found.problem
        self.found, self.problem, self.target, self.rates = found, p, p.request.target, rates_of(p.request.target)
        self.m = typical(found.m) if rows is None else rows
        self.n, self.k, self.lanes = typical(found.n), typical(found.k), found.lanes
        # Words that are multiplied as they are have the bytes of a sum.
        self.left_bytes, self.right_bytes = (
            (p.dtype if p.word_letter is not None else element_type(x.source.type)).bytes for x in (p.left, p.right)
        )
        self.result_bytes = sum(element_type(v.type).bytes for v in (*p.epilogue.values, *p.epilogue.residuals))
        self.of_b, self.shared = (
            typical(product_of(p.size(c) for c in found.outer if (p.right.stride(c) == 0) == shared)) for shared in (False, True)
        )
        least = 0.5 if self.target.half_width_vectors else 1.0
        self.numbers = Numbers(max(least, self.lanes * p.dtype.bytes / self.target.vector_bytes), least, p.dtype == f32)
        self.ends = self._ends()

    def _ends(self) -> Work:
        """Work of a vector of results behind its sums."""
        epilogue, vector = self.problem.epilogue, self.numbers.vector
        work, seen, todo = Work(stores=len(epilogue.values), loads=len(epilogue.args)), set[Value](), list(epilogue.values)
        while todo:
            value = todo.pop()
            op = value.owner
            if value in seen or not isinstance(op, Op) or op is epilogue.contract:
                continue
            seen.add(value)
            todo += op.operands
            if isinstance(op, tensor.Map):
                is_bound = op.fn in ("max", "min") and any(map(_is_constant, op.operands))
                work = work + (Work(arithmetic=1.0) if is_bound else work_of_function(op.fn))
        return work * vector

    def cycles(self, schedule: ContractSchedule) -> float:
        """Cycles of one thread by a schedule; by that one of its two forms that so many rows take."""
        packed, place = schedule.packed, schedule.in_place
        if packed is None or (schedule.packed_from_rows is not None and self.m * self.shared < schedule.packed_from_rows):
            if isinstance(place, DotTasks):
                return self._dots(place)
            assert place is not None
            return self._tiles(schedule, place)
        if isinstance(packed, BufferedTasks):
            return self._buffered(schedule, packed)
        return self._tiles(schedule, packed) + (0.0 if packed.local else self._packing((schedule.tile or (1, 1))[1] * self.lanes))

    # --- B

    @property
    def _vectors(self) -> int:
        """Vectors of B, of which whole blocks of steps are transposed."""
        p = self.problem
        steps = self.k if p.right.stride(self.found.lane) == 1 else -(-self.k // self.lanes) * self.lanes
        return self.of_b * steps * -(-self.n // self.lanes)

    @property
    def _sizes(self) -> dict[str, float]:
        """Bytes of A, of B, and of what is read and written at the results."""
        times = self.of_b * self.shared
        return {
            "A": float(times * self.m * self.k * self.left_bytes),
            "B": float(self.of_b * self.k * self.n * self.right_bytes),
            "C": float(times * self.m * self.n * self.result_bytes),
        }

    @property
    def _packed_bytes(self) -> float:
        """Bytes of all panels."""
        return self._vectors * self._vector_bytes

    @property
    def _vector_bytes(self) -> int:
        return self.lanes * self.problem.dtype.bytes

    def _packing(self, width: int) -> float:
        """Cycles of packing all of B before, in panels of so many lanes; a part of them where the panels are kept for several calls."""
        source, request = self.problem.right.source, self.problem.request
        if isinstance(source, BlockArgument) and source.index in request.constant:
            return 0.0
        size = self.of_b * self.k * self.n * self.right_bytes
        missed = missed_of({"B": size, "P": self._vectors * self.lanes * self.right_bytes}, (), self.target.caches)
        # Nothing hides that these bytes are moved.
        waited = self._packed_bytes / self.rates.pack_bytes_per_cycle + self._conflicts(width, self.k)
        cycles = self.rates.call_cycles + with_traffic(0.0, traffic_of(missed), self.target) + waited
        return cycles / ASSUMED.calls if isinstance(source, BlockArgument) and source.index in request.kept else cycles

    def _apart(self, missed: tuple[float, ...]) -> float:
        """Cycles for which B is waited for that is read where it stands, beyond those that computing hides: pieces of rows that are apart
        come slower than what is contiguous.
        """
        near, far = max(0.0, missed[0] - missed[1]), missed[1]
        rates = self.rates
        return near * rates.apart_l2_shows / rates.l2_bytes_per_cycle + far * rates.apart_l3_shows / self.target.l3_bytes_per_cycle

    @cached_property
    def _apart_in_l2(self) -> int:
        """Bytes of L2 that each row of B takes the place of: more than its own where rows are a large power of two apart."""
        letters, way = self.problem.step_letters, self.target.caches[1] // L2_WAYS
        stride = self.problem.right.stride(letters[0]) if len(letters) == 1 else 1
        return 1 if not isinstance(stride, int) or stride == 1 else gcd(stride * self.right_bytes, way)

    def _conflicts(self, width: float, depth: int, tiles: float = 1.0, group: float = 1.0) -> float:
        """Cycles for which pieces of B's rows of so many lanes are waited for, if so many rows drive each other out of L2. They come from
        L3 again for each of so many tiles. From beyond L3 lines come in vain that belong to the next pieces: they have left before
        these are read, if that is not for a group of panels at a time.
        """
        size, cache = self.k * self.n * self.right_bytes, self.target.caches
        if size <= cache[1] or self.k * self._apart_in_l2 <= cache[1]:
            return 0.0
        again = self.of_b * (tiles - 1) * size / self.target.l3_bytes_per_cycle if depth * self._apart_in_l2 > cache[1] else 0.0
        if size <= cache[2] // L3_SHARE:
            return again
        pieces = self.n / width if depth * self._apart_in_l2 > cache[1] else self.n / (width * group)
        return again + self.of_b * self.k * ceil(pieces) * self.rates.conflict_cycles

    # --- tiles

    def _tiles(self, schedule: ContractSchedule, tasks: TileTasks) -> float:
        assert schedule.tile is not None
        rows, vectors = schedule.tile
        width = min(vectors * self.lanes, self.n)
        piece, depth = min(tasks.rows or self.m, self.m), tasks.steps or self.k
        times, pieces, panels = self.of_b * self.shared, self.m / piece, max(1.0, self.n / (vectors * self.lanes))
        busy = times * pieces * self._piece(rows, vectors, piece, depth, bool(tasks.panels))
        inner, loops = self._nest(min(rows, piece), width, piece, depth, not tasks.panels)
        groups = 1.0 if tasks.across is None else max(1.0, panels / tasks.across)
        inside = [(pieces, "AC"), (panels, "BC")] if tasks.order == "panels" else [(panels / groups, "BC"), (pieces, "AC"), (groups, "BC")]
        missed = missed_of(inner, [*loops, *inside, *self._around], self.target.caches, self._sizes)
        starts, waited = times * pieces * panels * ceil(self.k / depth), 0.0
        if tasks.local:
            waited = pieces * self.shared * (self._packed_bytes / self.rates.pack_bytes_per_cycle + self._conflicts(width, depth))
            waited += starts * self.rates.start_cycles
        elif not tasks.panels:
            waited = self._apart(missed["B"]) + self._conflicts(width, self.k, self.m / min(rows, piece))
        if tasks.alternates:
            first, *others = missed["B"]
            missed["B"] = (first, *(max(0.0, n - self.target.caches[1]) for n in others))
        is_followed = tasks.order == "rows" and max(rows, tasks.rows or self.m) <= self.rates.streams
        return self._all(busy, missed, waited + self._read_results(missed["C"], is_followed), starts, inner["B"], vectors)

    def _read_results(self, missed: tuple[float, ...], is_followed: bool) -> float:
        """Cycles for which lines of results from beyond L2 are waited for that the epilogue reads before it writes them: as long again if
        they are not so few rows that the machine follows them.
        """
        if not self.problem.epilogue.residuals or not self.target.hardware_prefetch:
            return 0.0
        leaves = self._sizes["C"] > self.target.caches[2] // L3_SHARE
        far = missed[1] / (self.target.memory_bytes_per_cycle if leaves else self.target.l3_bytes_per_cycle)
        return far if is_followed else 2 * far

    def _all(self, busy: float, missed: Missed, waited: float, starts: float = 0.0, panel: float = 1.0, vectors: int = 1) -> float:
        """Cycles of all; sums that wait between blocks of steps beyond L1 are read and written for each. Panels of so many bytes are begun
        so often, and waited for if they come from L2; throughout, if a round has more loads of vectors than the machine follows.
        """
        waited += min(starts, missed["B"][0] / panel) * self.rates.start_cycles
        if vectors * UNROLL >= FOLLOWED_LOADS:
            waited += max(0.0, missed["B"][0] - missed["B"][1]) / self.rates.l2_bytes_per_cycle
        # A's rows, or columns, are many places that are read at a time.
        waited += max(0.0, missed["A"][0] - missed["A"][1]) * self.rates.overlap_shows / self.rates.l2_bytes_per_cycle
        sums = 2 * missed["S"][0] / self.rates.l2_bytes_per_cycle if "S" in missed else 0.0
        return self.rates.call_cycles + with_traffic(busy, traffic_of(missed), self.target) + waited + sums

    def _lines(self, count: int, aligned: bool) -> int:
        """Bytes of the lines that so many bytes are in, which begin at a line or anywhere."""
        line = self.target.line_bytes
        return -(-count // line) * line if aligned else count + line - self.left_bytes

    def _nest(self, rows: int, width: int, piece: int, depth: int, apart: bool = False) -> tuple[dict[str, float], list[tuple[float, str]]]:
        """What a tile touches, and the loops of a panel around it."""
        letters, line = self.problem.step_letters, self.target.line_bytes
        row, piece_of_row = rows * self.left_bytes, width * self.right_bytes
        if len(letters) == 1 and self.problem.left.stride(letters[0]) != 1:
            row = self._lines(row, False)
        if apart:
            piece_of_row = self._lines(piece_of_row, self.n * self.right_bytes % line == 0)
        inner: dict[str, float] = {
            "A": depth * row,
            "B": depth * piece_of_row,
            "C": rows * width * self.result_bytes,
        }
        if depth == self.k:
            return inner, [(piece / rows, "AC")]
        # Partial sums wait between the blocks.
        inner["S"] = rows * width * self.problem.dtype.bytes
        return inner, [(piece / rows, "ACS"), (self.k / depth, "AB")]

    @property
    def _around(self) -> list[tuple[float, str]]:
        moves = any(self.problem.left.stride(c) != 0 for c in self.found.outer if self.problem.right.stride(c) != 0)
        return [(self.shared, "AC"), (self.of_b, "ABC" if moves else "BC")]

    def _piece(self, rows: int, vectors: int, piece: int, depth: int, has_panels: bool, copied: float = 0.0) -> float:
        """Cycles of the tiles of a piece of the rows by all panels, with data in L1."""
        return sum(
            across * down * self._tile(r, self._wide(r, v, across, has_panels), v, depth, copied)
            for v, across in split_extent(-(-self.n // self.lanes), vectors)
            for r, down in split_extent(piece, rows)
        )

    def _wide(self, rows: int, vectors: int, across: int, has_panels: bool) -> float:
        """Vectors of a row, of which two rows may share the last one if it is half full."""
        shares = has_panels and across == 1 and vectors > 1 and rows % 2 == 0 and 2 * (self.n % self.lanes) == self.lanes
        return vectors - 0.5 if shares else vectors

    def _tile(self, rows: int, wide: float, vectors: int, depth: int, copied: float) -> float:
        """Cycles of a tile, block by block of its steps."""
        ends, sums = self.ends * (rows * vectors), rows * vectors * self.numbers.vector
        blocks = split_extent(self.k, depth)
        if len(blocks) == 1 and blocks[0][1] == 1:
            return tile_cycles(self.target, self.numbers, rows, wide, depth, ends, copied)
        # Sums are taken up and put down in each block; memory for them is cleared first.
        kept = Work(loads=sums, stores=sums)
        cycles = sum(count * tile_cycles(self.target, self.numbers, rows, wide, steps, kept, copied) for steps, count in blocks)
        return cycles + busy_cycles(ends + Work(stores=sums), self.target)

    # --- other tasks

    def _buffered(self, schedule: ContractSchedule, tasks: BufferedTasks) -> float:
        """Tiles that copy the next block while they multiply; the first block of all is waited for."""
        assert schedule.tile is not None
        rows, vectors = schedule.tile
        width = vectors * self.lanes
        piece, depth, whole = min(tasks.rows or self.m, self.m), tasks.steps, self.n // width
        times, pieces = self.of_b * self.shared, self.m / piece
        tiles, rounds = max(1, piece // rows), max(1, depth // UNROLL)
        alone = whole == 1 and depth >= self.k
        copied = 0.0 if alone else vectors * depth / (tiles * rounds)
        busy = sum(down * self._tile(r, vectors, vectors, depth, copied) for r, down in split_extent(piece, rows))
        busy, starts = times * pieces * whole * busy, times * pieces * whole * ceil(self.k / depth)
        step = times * pieces * vectors * self._vector_bytes
        group = float(min(whole, tasks.panels or whole))
        waited = step * depth / self.rates.pack_bytes_per_cycle
        waited += pieces * self.shared * self._conflicts(width, depth, group=group)
        waited += 0.0 if alone else step * whole * self.k / self.rates.copy_bytes_per_cycle
        inner, loops = self._nest(min(rows, piece), width, piece, min(depth, self.k))
        if depth < self.k:
            # Each block is taken for all panels of a group.
            tile, block = loops
            loops = [tile, (group, "BCS"), block]
        else:
            loops = [*loops, (group, "BC")]
        inside = [(whole / group, "BC"), (pieces, "AC")]
        missed = missed_of(inner, [*loops, *inside, *self._around], self.target.caches, self._sizes)
        if tasks.rest is not None:
            over = self.n - whole * width
            v = -(-over // self.lanes)
            last = tasks.rest.steps or self.k
            tiles_of_rest = (down * self._tile(r, self._wide(r, v, 1, True), v, last, 0.0) for r, down in split_extent(piece, rows))
            busy += times * pieces * sum(tiles_of_rest)
            waited += times * pieces * self.k * v * self._vector_bytes / self.rates.pack_bytes_per_cycle
        return self._all(busy, missed, waited + self._read_results(missed["C"], False), starts, inner["B"], vectors)

    def _dots(self, tasks: DotTasks) -> float:
        """Tiles of dot products, whose lanes are added up at the end."""
        rows, columns = tasks.rows, tasks.columns
        vector, steps = self.numbers.vector, -(-self.k // self.lanes)
        # Vectors of rows that do not begin with a line are in two of them.
        lines = 1 if self.k * self.right_bytes % self.target.line_bytes == 0 else 2
        busy = 0.0
        for c, across in split_extent(self.n, columns):
            for r, down in split_extent(self.m, rows):
                step = Work(multiply_adds=r * c * vector, loads=lines * (r + c) * vector)
                summed = max(self.lanes, 2).bit_length()
                # One number after the other is made and stored.
                ends = Work(shuffles=summed, arithmetic=summed) + self.ends * (self.numbers.least / vector)
                if steps <= MOST_UNROLLED:
                    cycles = busy_cycles(step * steps + ends * (r * c), self.target)
                else:
                    waiting = Work(waits=UNROLL * LATENCY)
                    cycles = steps // UNROLL * busy_cycles(step * UNROLL + waiting, self.target)
                    cycles += busy_cycles(step * (steps % UNROLL) + ends * (r * c), self.target)
                busy += down * across * cycles
        busy *= self.of_b * self.shared
        r, c = min(rows, self.m), min(columns, self.n)
        inner = {"A": r * self.k * self.left_bytes, "B": c * self.k * self.right_bytes, "C": float(r * c * self.result_bytes)}
        loops = [(self.m / r, "AC"), (self.n / c, "BC"), *self._around]
        return self._all(busy, missed_of(inner, loops, self.target.caches), 0.0)


def _is_constant(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.has(ConstantLike)
