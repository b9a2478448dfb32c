"""The plan of a Strassen product: whether it qualifies, the cuts to choose from, and an estimate of each. `strassen.py` has the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import inf, prod

from polyreme.ir import config, dims
from polyreme.ir.core import BlockArgument
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.estimates import ASSUMED, estimate
from polyreme.lowering.kernels.gemm.strassen_schemes import BY_THIRDS, STRASSEN, Scheme, Terms, places
from polyreme.lowering.kernels.microkernel import MOST_UNROLLED, UNROLL, Registers, choose_tile, split_extent, step_cycles
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.problem import Product, find_product
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.strassen_costs import WITH_SPARE_ADDERS, WITH_SPARE_UNITS, StrassenCosts, strassen_costs
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import GRAIN_CYCLES, TASK_STACK_BYTES, TASKS_OF_THREAD, TASKS_WITH_MEMORY

CUT_SCHEMES: dict[str, tuple[Scheme, ...]] = {
    "halves": (STRASSEN,),
    "thirds": (BY_THIRDS,),
    "thirds of rows": (BY_THIRDS.transposed,),
    "quarters": (STRASSEN, STRASSEN),
}
"""By name, the schemes that parts are multiplied by, the outermost first."""


def cycles_of_step(target: Target, rows: int, vectors: int) -> float:
    """Cycles of a step of a register tile."""
    return max(step_cycles(rows, vectors), rows * vectors / target.multiply_adds, vectors * strassen_costs(target).vector)


@cache
def fewest_loads(registers: Registers) -> float:
    """Loads for each multiply-add of the tile that has the fewest: 6 x 4 vectors with 32 registers."""
    tiles = ((registers.most_rows(vectors), vectors) for vectors in range(1, registers.count) if registers.most_rows(vectors))
    return min((rows + vectors) / (rows * vectors) for rows, vectors in tiles)


def results_room(idle_units: bool) -> int:
    """Bytes of a thread's unfinished results, if it makes one product of the outer level after the other."""
    return (WITH_SPARE_UNITS if idle_units else WITH_SPARE_ADDERS).results_bytes


@dataclass(frozen=True)
class StrassenSchedule(Schedule, kind="strassen"):
    """How a product of `sizes` (rows, steps, lanes) is cut: by a `scheme` of `CUT_SCHEMES`, into register tiles of `tile` rows and vectors,
    tasks of `rows` rows of each part, and `blocks` of the steps; `from_rows`, `most_rows`, `half_packed`, `idle_units` and `grain` are
    `least`, `most` and what they are of `Cut`.

    Chunks of `chunk_rows` rows are made one after the other (None: all rows at once). With `chunks` whole chunks of an unknown number of
    rows are cut like that, and the rest like this.
    """

    sizes: str
    scheme: str
    tile: tuple[int, int]
    rows: int
    blocks: int = 1
    chunk_rows: int | None = None
    from_rows: int = 0
    most_rows: int = 0
    half_packed: bool = False
    idle_units: bool = False
    grain: int = 1
    chunks: StrassenSchedule | None = None


def schedule_cut(found: Matrices, chosen: Cut) -> StrassenSchedule:
    """A cut of a product as a value without the product."""
    target = found.product.problem.request.target
    grain = max(1, int(GRAIN_CYCLES / (chosen.products * chosen.steps * strassen_costs(target).combine)))
    rows = chosen.matrices.m
    return StrassenSchedule(
        f"{found.m}x{found.k}x{found.n}",
        next(name for name, schemes in CUT_SCHEMES.items() if schemes == chosen.schemes),
        (chosen.rows, chosen.vectors),
        chosen.piece,
        chosen.blocks,
        rows if isinstance(rows, int) and rows != found.m else None,
        chosen.least,
        chosen.most,
        chosen.half_packed,
        chosen.idle_units,
        grain,
        None if chosen.chunk is None else schedule_cut(found, chosen.chunk),
    )


def cut_by(found: Matrices, schedule: StrassenSchedule) -> Cut:
    """The product, cut like that."""
    s = schedule
    chunk = None if s.chunks is None else cut_by(found, s.chunks)
    rows = found.m if s.chunk_rows is None else s.chunk_rows
    if chunk is not None:
        rows = dims.mod(rows, chunk.matrices.m)
    return Cut(
        replace(found, m=rows), CUT_SCHEMES[s.scheme], *s.tile, s.rows, s.blocks, s.from_rows, s.most_rows, chunk, s.half_packed,
        s.idle_units, s.grain,
    )  # fmt: skip


def choose_strassen(found: Matrices) -> StrassenSchedule | None:
    """The schedule of the best cut of a product; None as `choose_cut` has it."""
    chosen = None if is_forbidden(found.product.problem.request.target) else best_cut(found)
    return None if chosen is None else schedule_cut(found, chosen)


def fit_strassen(found: Matrices, schedule: StrassenSchedule) -> None:
    """`ScheduleError` unless a product can be cut as this schedule says: one of the cuts of a known number of rows, or as it is chosen."""
    if is_forbidden(found.product.problem.request.target):
        raise ScheduleError("expected a product that may be cut but Strassen's algorithm is forbidden here")
    known = isinstance(found.m, int)
    every = (*cuts(found), *in_chunks(found, tuple(CUT_SCHEMES.values()), inf)) if known else ()
    if all(schedule != schedule_cut(found, one) for one in every) and schedule != choose_strassen(found):
        raise ScheduleError(f"expected one of the cuts of a product of {found.m}x{found.k}x{found.n} but got {schedule}")


def why_not_cut(found: Matrices) -> str:
    """Why a product is not cut, for people."""
    if is_forbidden(found.product.problem.request.target):
        return "forbidden"
    if not isinstance(found.m, int):
        return "no cut is estimated to be faster for a usual number of rows"
    fitting = [cut.cycles_of_all for cut in cuts(found) if cut.fits]
    if not fitting:
        return "no cut fits into the caches"
    return f"estimated {min(fitting):.0f} cycles; less than {found.costs.share} of the direct product's {found.direct_cycles:.0f} are asked"


def is_forbidden(target: Target) -> bool:
    """Whether the user forbids it."""
    return not target.strassen or not config.strassen()


def choose_cut(request: Request) -> Cut | None:
    """How to cut a large float32 product with a known B. None for any other group, if the direct product is as fast, or if it is forbidden.

    `Target.strassen` and `POLYREME_STRASSEN` forbid it.
    """
    if is_forbidden(request.target):
        return None
    found = find_matrices(request)
    return None if found is None else best_cut(found)


def best_cut(found: Matrices) -> Cut | None:
    """The cut with the fewest estimated cycles. None if the direct product is about as fast."""
    levels = strassen_costs(found.product.problem.request.target).levels
    if isinstance(found.m, int):
        known, choices, enough = (
            found,
            [choice for choice in CUT_SCHEMES.values() if len(choice) <= levels],
            found.costs.share * found.direct_cycles,
        )
    else:
        known, choices, enough = (
            replace(found, m=min(estimate(found.m, ASSUMED.rows), ASSUMED.rows)),
            [choice for choice in CUT_SCHEMES.values() if len(choice) == 1 and choice[0].few is not None],
            inf,
        )
        # Most products are too small for any.
        if next(iter(cuts(known, choices, found.costs.share * known.direct_cycles)), None) is None:
            return None
    fitting = [cut for cut in cuts(known, choices, enough) if cut.fits and (known is found or cut.rows % 2 == 0)]
    transposed = CUT_SCHEMES["thirds of rows"]
    if any(cut.schemes == transposed for cut in fitting) and any(cut.fits for cut in cuts(known, [CUT_SCHEMES["thirds"]])):
        # Thirds of rows have half as many weights more: they are for where the combinations of A would be too many otherwise.
        fitting = [cut for cut in fitting if cut.schemes != transposed]
    if known is found and levels == 1:
        fitting += in_chunks(found, choices, enough)
    best = min(fitting, key=lambda cut: (known is not found and not cut.halves, cut.cycles_of_all), default=None)
    # Whole chunks of an unknown number of rows go by two levels, too.
    one_kernel = known is found and found.has_spare_units and best is not None and not best.is_pipelined
    if best is None or best.cycles_of_all > (found.costs.share_of_one_kernel if one_kernel else found.costs.share) * known.direct_cycles:
        return None
    if known is found:
        return best
    of_any = for_any_rows(best, found.m)
    return with_chunks(of_any, known, best.cycles) if levels > 1 else of_any


@dataclass(frozen=True)
class Matrices:
    """A product of m rows and k steps, contiguous along the steps, by n packed lanes. Estimates are for a known m."""

    product: Product
    m: Dim
    k: int
    n: int
    step: str

    @property
    def costs(self) -> StrassenCosts:
        """What cutting costs on the machine."""
        return strassen_costs(self.product.problem.request.target)

    @property
    def direct_cycles(self) -> float:
        """The estimated cycles of the direct product."""
        assert isinstance(self.m, int)
        target = self.product.problem.request.target
        lanes, n = self.product.lanes, -(-self.n // self.product.lanes)
        rows, vectors = choose_tile(self.m, self.n, self.k, self.product.problem.registers)
        tiles = sum(
            across * down * (self.k * cycles_of_step(target, r, v) + 20 + 1.5 * r * v)
            for v, across in split_extent(n, vectors)
            for r, down in split_extent(self.m, rows)
        )
        return tiles + strassen_costs(target).loading * self.k * n * lanes * f32.bytes / target.memory_bytes_per_cycle

    @property
    def has_spare_units(self) -> bool:
        """Whether multiply-adds leave units idle, so that making panels and parts without all rows pays, too."""
        target = self.product.problem.request.target
        return target.spare_adders and target.multiply_adds < 2

    def least_cycles(self, schemes: tuple[Scheme, ...], rows: int, vectors: int) -> float:
        """What no cut by these schemes, into tiles of so many rows and vectors, is estimated to take less than: its multiplications, A's
        combinations made and weights loaded once.
        """
        assert isinstance(self.m, int)
        target = self.product.problem.request.target
        costs = strassen_costs(target)
        products = prod(s.products for s in schemes)
        m, k, n = (
            size / prod(parts)
            for size, parts in zip((self.m, self.k, self.n), zip(*((s.rows, s.steps, s.lanes) for s in schemes), strict=True), strict=True)
        )
        tiles = n / (vectors * self.product.lanes) * m * (k * _cycles_of_row(target, rows, vectors) + 20 / rows + 3 * vectors)
        return products * (
            tiles
            + m * k * min(costs.combine, costs.overlapped_combine)
            + k * n * min(costs.loading, costs.loading_l3) * f32.bytes / target.memory_bytes_per_cycle
        )


@cache
def _cycles_of_row(target: Target, rows: int, vectors: int) -> float:
    """Cycles of a step for each row of a tile, at least: what is left of the rows has tiles of fewer."""
    return min(cycles_of_step(target, r, vectors) / r for r in range(1, rows + 1))


def find_matrices(request: Request, packed_ahead: bool = True) -> Matrices | None:
    """The product of a group, if it is one that this file knows how to make; `packed_ahead` if its weights are to be known or kept, else it
    may be one of several at places of outer letters.
    """
    found = find_product(request)
    if found is None or found.problem.dtype != f32 or found.lanes == 1 or (packed_ahead and found.outer):
        return None
    p, source = found.problem, found.problem.right.source
    if (
        not isinstance(source, BlockArgument)
        or (packed_ahead and source.index not in request.constant)
        or any(element_type(x.type) != f32 for x in (source, p.left.source))
    ):
        return None
    steps = p.step_letters
    if len(steps) != 1 or p.left.stride(steps[0]) != 1:
        return None
    if not isinstance(found.k, int) or not isinstance(found.n, int):
        return None
    return Matrices(found, found.m, found.k, found.n, steps[0])


@dataclass(frozen=True)
class Cut:
    """How the work is cut.

    - `schemes` cut rows, steps and lanes into parts; a register tile is `rows` x `vectors`; a task has `piece` rows of each part; the steps
      are cut into `blocks`.
    - A product with more rows than `matrices` is made in chunks of as many.
    - An unknown number of rows is cut like this from `least` rows on, in as few chunks of at most `most` rows as there can be. Fewer rows
      go by `of_few`.
    - With a `chunk`, whole multiples of its rows are cut by it, and the rest by this one.
    - With `half_packed` weights are packed in combinations of the outer level. Those of the inner one are made while the tiles multiply.
    - With `idle_units` multiply-adds leave units of the machine idle, so that making panels and parts without all rows pays, too.
    - A kernel that makes A's combinations gives a thread as many rows at a time as `grain`.
    """

    matrices: Matrices
    schemes: tuple[Scheme, ...]
    rows: int
    vectors: int
    piece: int
    blocks: int
    least: int = 0
    most: int = 0
    chunk: Cut | None = None
    half_packed: bool = False
    idle_units: bool = False
    grain: int = 1

    @property
    def of_few(self) -> Cut:
        """The same for rows that stay in one part, as many to a task as the memory for sums holds."""
        few = tuple(s.few for s in self.schemes if s.few is not None)
        return replace(self, schemes=few, piece=self.piece * self.products // prod(s.products for s in few) // self.rows * self.rows)

    @cached_property
    def products(self) -> int:
        return prod(s.products for s in self.schemes)

    @cached_property
    def down(self) -> int:
        """Parts of the rows."""
        return prod(s.rows for s in self.schemes)

    @cached_property
    def along(self) -> int:
        """Parts of the steps."""
        return prod(s.steps for s in self.schemes)

    @cached_property
    def across(self) -> int:
        """Parts of the lanes."""
        return prod(s.lanes for s in self.schemes)

    @property
    def left_parts(self) -> list[tuple[int, int]]:
        return places([(s.rows, s.steps) for s in self.schemes])

    @property
    def right_parts(self) -> list[tuple[int, int]]:
        return places([(s.steps, s.lanes) for s in self.schemes])

    @property
    def result_parts(self) -> list[tuple[int, int]]:
        return places([(s.rows, s.lanes) for s in self.schemes])

    @cached_property
    def lanes(self) -> int:
        return self.matrices.product.lanes

    @property
    def width(self) -> int:
        """Lanes of a panel."""
        return self.vectors * self.lanes

    @cached_property
    def height(self) -> Dim:
        """Rows of a part."""
        return dims.ceildiv(self.matrices.m, self.down)

    @cached_property
    def depth(self) -> int:
        """Steps of a block."""
        return -(-self.matrices.k // (self.along * self.blocks * UNROLL)) * UNROLL

    @property
    def steps(self) -> int:
        """Steps of a part."""
        return self.depth * self.blocks

    @property
    def line(self) -> int:
        """Elements of a row of A's combinations: a vector more than needed, so that rows do not meet in the same set of the cache."""
        return (-(-self.steps // self.lanes) + 1) * self.lanes

    @property
    def matrix(self) -> Dim:
        """Elements from one of A's combinations to the next, of which the last piece may compute some more rows than there are."""
        return self.matrix_of(self.pieces * self.piece if isinstance(self.matrices.m, int) else self.height + self.rows)

    def matrix_of(self, rows: Dim) -> Dim:
        """The same where so many rows of a part are computed."""
        return rows * self.line + self.matrices.costs.apart * self.lanes

    @property
    def combined(self) -> Dim:
        """Elements of A's combinations, of a chunk."""
        if isinstance(self.matrices.m, int):
            return self.products * self.matrix
        # A chunk is of whole tiles.
        most = -(-self.most // (self.down * self.rows)) * self.down * self.rows
        some, few = (
            replace(cut, matrices=replace(self.matrices, m=dims.minimum(self.matrices.m, rows)))
            for cut, rows in ((self, most), (self.of_few, self.least))
        )
        return dims.maximum(some.products * some.matrix, few.products * few.matrix)

    @property
    def alive(self) -> Dim:
        """Elements of A's combinations, and of what two threads keep with them, that are there at a time."""
        return 2 * self.memory_of_thread if self.is_pipelined else self.combined

    @cached_property
    def is_pipelined(self) -> bool:
        """Whether each thread makes A's combinations for itself, and adds up, while it multiplies: two levels whose parts are all there."""
        a = self.matrices
        if len(self.schemes) != 2 or self.blocks != 1 or not isinstance(a.m, int) or a.k != self.along * self.steps:
            return False
        if a.m % self.down and not self.idle_units:
            return False
        if self.groups * self.pieces < TASKS_OF_THREAD:
            return False
        outer, inner = self.schemes
        # Each round overlaps one vector of work at most; short sums have no rounds.
        rounds = self.depth // UNROLL if self.depth > MOST_UNROLLED else 0
        overlapped_vectors = self.piece * (self.vectors + self.vectors_of_steps)
        simple = all(len(terms) <= 2 for terms in outer.left) and all(len(x) <= 2 and not any(t.last for t in x[1:]) for x in outer.targets)
        return simple and overlapped_vectors <= inner.products * self.tiles * rounds

    @property
    def vectors_of_steps(self) -> int:
        """Vectors in a row of A's combinations."""
        return -(-self.steps // self.lanes)

    @property
    def tiles(self) -> int:
        """Register tiles of a panel."""
        return -(-self.piece // self.rows)

    @property
    def matrix_of_task(self) -> int:
        """Elements from one of A's combinations to the next, of a piece of the rows."""
        return self.piece * self.line + self.matrices.costs.apart * self.lanes

    @property
    def results_of_group(self) -> int:
        """Elements of the unfinished results of a group of panels, for a piece of the rows."""
        return self.down * self.across * self.plane

    @property
    def groups_of_thread(self) -> int:
        """Groups whose results a thread makes at a time, at most."""
        most = max(1, results_room(self.idle_units) // (self.results_of_group * f32.bytes))
        return -(-self.groups // -(-self.groups // most))

    @property
    def combinations_of_thread(self) -> int:
        """Elements of A's combinations for two products of the outer level."""
        return 2 * self.schemes[1].products * self.matrix_of_task

    @property
    def memory_of_thread(self) -> int:
        """Elements of a thread's memory: combinations of two outer products, sums of two items, unfinished results, and two panels if it
        makes them.
        """
        panels = 2 * self.panel if self.half_packed else 0
        return (
            self.combinations_of_thread + 2 * self.schemes[1].products * self.plane + self.groups_of_thread * self.results_of_group + panels
        )

    @property
    def items_of_run(self) -> int:
        """Products of the outer level for groups of panels that a thread makes at a time, at most."""
        return self.groups_of_thread * self.schemes[0].products

    @property
    def items_kept(self) -> int:
        """Turns whose sums have room where a thread's own sums and results were."""
        return 2 + self.groups_of_thread * self.results_of_group // (self.schemes[1].products * self.plane)

    @property
    def most_makers(self) -> int:
        """Threads that share groups of panels and pieces of rows, at most."""
        return min(self.groups * self.pieces, TASKS_WITH_MEMORY)

    @property
    def plane(self) -> int:
        """Elements from the sums of one product to the next one's."""
        return self.piece * self.width + self.lanes

    @property
    def groups(self) -> int:
        """Groups of neighbouring panels, one for each part."""
        return -(-self.matrices.n // (self.across * self.width))

    @property
    def pieces(self) -> int:
        assert isinstance(self.height, int)
        return -(-self.height // self.piece)

    @property
    def panel(self) -> int:
        """Elements of a block of a panel for one product."""
        return self.depth * self.width

    @property
    def weight_elements(self) -> int:
        return self.groups * self.blocks * self.panels_of_group * self.panel

    @property
    def panels_of_group(self) -> int:
        """Packed panels of a group."""
        outer, *inner = self.schemes
        return outer.products * prod(s.steps * s.lanes for s in inner) if self.half_packed else self.products

    @property
    def packed_by(self) -> list[tuple[Terms, ...]]:
        """The tables of combinations that weights are packed in."""
        return [s.right for s in (self.schemes[:1] if self.half_packed else self.schemes)]

    @property
    def halves(self) -> bool:
        """Whether two tiles of half as many rows take no longer than one."""
        return 2 * step_cycles(self.rows // 2, self.vectors) <= step_cycles(self.rows, self.vectors)

    @property
    def most_rows(self) -> int:
        """Rows of a part whose sums fit into L2."""
        room = min(TASK_STACK_BYTES, self.matrices.product.problem.request.target.caches[1] // self.matrices.costs.l2_share)
        return max(1, room // (self.products * self.width * f32.bytes))

    @property
    def fits_in_l3(self) -> bool:
        """Whether the combinations of A stay in L3, and those of B if there are many."""
        third, alive = self.matrices.product.problem.request.target.caches[2], self.alive
        assert isinstance(alive, int) and isinstance(self.height, int)
        costs = self.matrices.costs
        has_many_rows = self.is_pipelined and self.height >= costs.many_rows
        kept = third // (costs.l3_share_of_weights_for_many_rows if has_many_rows else costs.l3_share_of_weights)
        return (
            len(self.schemes) == 1 or self.half_packed or self.weight_elements * f32.bytes <= kept
        ) and alive * f32.bytes <= third // costs.l3_share_of_combinations

    @property
    def hides_memory(self) -> bool:
        """Whether multiplications take longer than what goes through memory for each of several pieces of the rows, where nothing else is
        done in that time.
        """
        return (
            not self.is_pipelined
            or self.pieces == 1
            or (self.steps >= self.matrices.costs.steps_of_pieces and not self.matrices.product.problem.epilogue.residuals)
        )

    @property
    def is_shared(self) -> bool:
        """Whether tasks are enough for two threads to have about as much to do each."""
        tasks = self.groups * self.pieces
        return -(-tasks // 2) * 2 <= self.matrices.costs.most_uneven * tasks

    @property
    def fits(self) -> bool:
        """Whether it may be chosen at all."""
        return self.fits_in_l3 and self.hides_memory and self.is_shared

    @property
    def cycles_of_all(self) -> float:
        """An estimate for all chunks of a known number of rows, or for those that `matrices` has of an unknown one."""
        assert isinstance(self.matrices.m, int)
        rows = self.matrices.product.m
        return self.cycles * (-(-rows // self.matrices.m) if isinstance(rows, int) else 1)

    @cached_property
    def cycles(self) -> float:
        """An estimate for a chunk on one thread."""
        combined, alive, a = self.combined, self.alive, self.matrices
        assert isinstance(self.height, int) and isinstance(a.m, int) and isinstance(combined, int) and isinstance(alive, int)
        target = a.product.problem.request.target
        costs = strassen_costs(target)
        waits = {
            r: 1 + costs.loads * max(0, 1 / r + 1 / self.vectors - fewest_loads(a.product.problem.registers)) if self.is_pipelined else 1
            for r in (self.rows, self.piece % self.rows)
            if r
        }
        tiles = sum(
            n * (self.depth * cycles_of_step(target, r, self.vectors) * waits[r] + 20 + 3 * r * self.vectors)
            for r, n in split_extent(self.piece, self.rows)
        )
        products = self.groups * self.pieces * self.blocks * self.products * tiles
        used = min((alive + a.m * (a.k + a.n)) * f32.bytes / target.caches[2], 1)
        first = costs.loading_l3 if len(self.schemes) > 1 and self.height >= costs.rows_hide_loading else costs.loading
        again = self.weight_elements * (self.pieces - 1)
        if self.is_pipelined:
            combining = (
                combined * costs.overlapped_combine
                + a.m * a.k * costs.overlapped_combine_l3 * used**2
                + self.groups * self.pieces * self.products * self.plane * costs.added
            )
            if self.combinations_of_thread * f32.bytes > target.caches[1]:
                combining += self.groups * combined * costs.combinations_l3
        else:
            combining = combined * (costs.combine + costs.combine_l3 * used**2)
            again += combined * self.groups
        loading = (first * self.weight_elements + costs.loading_again * again) * f32.bytes / target.memory_bytes_per_cycle
        if self.half_packed:
            combining += self.groups * self.pieces * self.products * self.panel * costs.panels
        return products + combining + loading


def cuts(matrices: Matrices, choices: Iterable[tuple[Scheme, ...]] = tuple(CUT_SCHEMES.values()), enough: float = inf) -> Iterator[Cut]:
    """Ways to cut the work whose panels and sums fit into L2, of those that may be estimated to take as few cycles as
    are `enough`.
    """
    target, registers = matrices.product.problem.request.target, matrices.product.problem.registers
    room = target.caches[1] // matrices.costs.l2_share
    for schemes in choices:
        for vectors in range(1, 5):
            for rows in range(1, registers.most_rows(vectors) + 1):
                if matrices.least_cycles(schemes, rows, vectors) > enough:
                    continue
                one = Cut(matrices, schemes, rows, vectors, 1, 1, idle_units=matrices.has_spare_units)
                blocks = -(-one.steps * one.width * f32.bytes // min(TASK_STACK_BYTES // 2, room))
                assert isinstance(one.height, int)
                pieces = -(-one.height // one.most_rows)
                yield replace(one, piece=-(-one.height // pieces), blocks=blocks)
                if matrices.has_spare_units and len(schemes) == 2 and blocks == 1:
                    # Memory holds the sums of two items only, and whole tiles but for the last piece.
                    few = max(-(-one.height * 2 * schemes[1].products * one.width * f32.bytes // room), -(-TASKS_OF_THREAD // one.groups))
                    for pieces in (few, 2 * few):
                        cut = replace(one, piece=min(one.height, -(-one.height // (pieces * rows)) * rows))
                        if cut.is_pipelined:
                            yield cut
                            if cut.piece >= matrices.costs.rows_hide_panels:
                                yield replace(cut, half_packed=True)


def in_chunks(whole: Matrices, choices: Sequence[tuple[Scheme, ...]], enough: float) -> Iterator[Cut]:
    """Cuts of chunks of a known number of rows: as few chunks as leave A's combinations in L3, or in L2."""
    assert isinstance(whole.m, int)
    target, times = whole.product.problem.request.target, max(len(choice[0].left) / choice[0].rows / choice[0].steps for choice in choices)
    rooms = target.caches[2] // whole.costs.l3_share_of_combinations, target.caches[1]
    counts = {-(-int(times * whole.m * whole.k * f32.bytes) // room) for room in rooms}
    for chunks in sorted(counts):
        if chunks > 1 and whole.m >= chunks * whole.costs.rows_of_chunk:
            yield from (cut for cut in cuts(replace(whole, m=-(-whole.m // chunks)), choices, enough / chunks) if cut.fits)


def for_any_rows(cut: Cut, m: Dim) -> Cut:
    """The same for an unknown number of rows, of which `cut` has a usual one."""
    known = cut.matrices
    assert isinstance(known.m, int)

    def gains(rows: int) -> bool:
        sized = replace(cut, matrices=replace(known, m=rows), piece=min(cut.most_rows, -(-rows // cut.down)))
        return sized.cycles < sized.matrices.direct_cycles

    least = next((rows for rows in range(known.costs.least_rows, known.m, 8) if gains(rows)), known.m)
    combinations = known.costs.l3_share_of_combinations * f32.bytes * cut.products * cut.line
    most = known.product.problem.request.target.caches[2] // combinations * cut.down
    return replace(
        cut, matrices=replace(known, m=m), piece=max(1, cut.most_rows // cut.rows) * cut.rows, least=least, most=max(most, known.m)
    )


def with_chunks(cut: Cut, known: Matrices, cycles: float) -> Cut:
    """The cut for an unknown number of rows with chunks of `known` rows by two levels, if a chunk is estimated to take less than `cycles`.

    Only if the weights, which are packed twice then, stay in L3.
    """
    room = known.product.problem.request.target.caches[2] // known.costs.l3_share_of_weights
    fitting = (
        c
        for c in cuts(known, [CUT_SCHEMES["quarters"]])
        if c.is_pipelined and c.fits_in_l3 and c.is_shared and c.weight_elements * f32.bytes <= room
    )
    chunk = min(fitting, key=lambda c: c.cycles, default=None)
    if chunk is None or chunk.cycles >= cycles:
        return cut
    assert isinstance(known.m, int)
    return replace(cut, matrices=replace(cut.matrices, m=dims.mod(cut.matrices.m, known.m)), chunk=chunk)
