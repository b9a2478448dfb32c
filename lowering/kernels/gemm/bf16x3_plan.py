"""The plan of a bf16x3 product: whether it qualifies, how the work is cut, and its cycles, estimated. `bf16x3.py` writes the kernels."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import gcd, prod

from polyreme.dialects.kernel.bf16x3 import LANES, MOST_ROWS, PAIRS, PRODUCTS, STEPS, TERMS, VECTOR
from polyreme.ir import config
from polyreme.ir.core import BlockArgument
from polyreme.ir.dims import Dim, ceildiv, maximum
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, f32, i32
from polyreme.lowering.kernels.conv.direct_plan import DirectSchedule, choose_direct, find_direct
from polyreme.lowering.kernels.gemm.contract_schedule import schedule_product
from polyreme.lowering.kernels.gemm.product_schedule import ContractSchedule
from polyreme.lowering.kernels.gemm.strassen_plan import Matrices, find_matrices
from polyreme.lowering.kernels.packing import Panels
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.problem import find_product, typical
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.bf16x3_costs import BF16X3_COSTS as COSTS
from polyreme.lowering.machines.cost import rates_of
from polyreme.lowering.machines.instructions import has_bf16_tiles
from polyreme.lowering.machines.memory import L2_WAYS, PAGE_BYTES
from polyreme.lowering.machines.targets import Target


def find_bf16x3(request: Request) -> Bf16x3Plan | None:
    """The plan of a bf16x3 product; None if the target has no such registers, the user forbids it, or it does not pay."""
    plan = find_plan(request)
    return plan if plan is not None and plan.pays else None


def find_plan(request: Request) -> Bf16x3Plan | None:
    """The plan of a product that may be computed so, whether it pays or not."""
    target = request.target
    if not target.bf16_terms or not config.bf16_terms() or not has_bf16_tiles(target) or target.lanes(f32) != VECTOR:
        return None
    found = find_matrices(request) or find_unknown_b(request) or find_strided_rows(request)
    return None if found is None or found.k < COSTS.least_steps or found.n < LANES else Bf16x3Plan(found, target)


@dataclass(frozen=True)
class Bf16x3Schedule(Schedule, kind="bf16x3"):
    """How a product of `sizes` (rows, steps, lanes) is computed by bf16x3 splits: tiles of so many `rows`, in so many `chunks` (None: of
    `Bf16x3Costs.most_tiles` tiles each, of an unknown number of rows); blocks of so many `steps`, which are taken in `runs`.

    B is read where it stands if `in_place`. With `prefetch_rows` and `prefetch_results` these are prefetched. An unknown number of rows is
    computed as `few` says where there are too few: of `balance`, rows times the first number are at most tiles of rows times the second one
    and the third one.
    """

    sizes: str
    rows: int
    steps: int
    chunks: int | None = None
    runs: int = 1
    in_place: bool = False
    prefetch_rows: bool = False
    prefetch_results: bool = False
    balance: tuple[int, ...] = ()
    few: DirectSchedule | ContractSchedule | None = None


def choose_bf16x3(plan: Bf16x3Plan) -> Bf16x3Schedule | None:
    """The schedule of a product; None if it does not pay."""
    return schedule_plan(plan) if plan.pays else None


def why_not_split(plan: Bf16x3Plan) -> str:
    """Why a product is not computed so, for people."""
    rows = plan.m if isinstance(plan.m, int) else COSTS.unknown_rows
    if rows < COSTS.least_rows:
        return f"{rows} rows are fewer than {COSTS.least_rows}"
    row, tile, all_rows = plan.balance
    cost = -(-rows // plan.height) * tile + all_rows
    return f"{rows} rows are estimated to gain {rows * row} cycles over the direct product, and to cost {cost}"


def schedule_plan(plan: Bf16x3Plan) -> Bf16x3Schedule:
    """What a plan says, as a value without the product."""
    known = isinstance(plan.m, int)
    return Bf16x3Schedule(
        f"{plan.m}x{plan.matrices.k}x{plan.matrices.n}",
        plan.height,
        STEPS * plan.block,
        plan.chunks if isinstance(plan.chunks, int) else None,
        plan.runs,
        plan.in_place,
        plan.rows_exceed_l2,
        plan.results_exceed_l2,
        () if known else plan.balance,
        None if known else plan.few,
    )


def fit_bf16x3(plan: Bf16x3Plan, schedule: Bf16x3Schedule) -> None:
    """`ScheduleError` unless it is the schedule of this product, in any number of runs, and with any prefetching."""
    own = schedule_plan(plan)
    free = replace(own, prefetch_rows=schedule.prefetch_rows, prefetch_results=schedule.prefetch_results)
    if 1 <= schedule.runs <= plan.blocks and -(-plan.blocks // -(-plan.blocks // schedule.runs)) == schedule.runs:
        free = replace(free, runs=schedule.runs)
    if schedule != free:
        raise ScheduleError(f"expected a schedule like {own} for this product and machine but got {schedule}")


def find_unknown_b(request: Request) -> Matrices | None:
    """A product by a B that is not known, and an A whose steps or rows are neighbours: of whole steps, as gradients have them too."""
    found = find_product(request)
    if found is None or found.problem.dtype != f32 or found.lanes != VECTOR or len(found.problem.step_letters) != 1:
        return None
    p, (step,) = found.problem, found.problem.step_letters
    if isinstance(p.right.source, BlockArgument) and p.right.source.index in request.constant:
        return None
    sizes = (found.m, found.k, found.n, *(p.size(c) for c in found.outer))
    if not all(isinstance(n, int) for n in (*sizes, p.right.stride(found.lane), p.right.stride(step))) or typical(found.k) % STEPS:
        return None
    neighbours = p.left.stride(step) == 1 or (bool(found.rows) and p.left.stride(found.rows[-1]) == 1)
    is_wide = all(element_type(x.type) == f32 for x in (p.left.source, p.right.source))
    return Matrices(found, found.m, typical(found.k), typical(found.n), step) if neighbours and is_wide else None


def find_strided_rows(request: Request) -> Matrices | None:
    """A product by known weights whose rows are neighbours in the result only, as those of a strided 1x1 convolution are."""
    found = find_product(request, strided_rows=True)
    if found is None or found.problem.dtype != f32 or found.lanes != VECTOR or found.outer or len(found.problem.step_letters) != 1:
        return None
    p, (step,) = found.problem, found.problem.step_letters
    is_known = isinstance(p.right.source, BlockArgument) and p.right.source.index in request.constant
    is_wide = all(element_type(x.type) == f32 for x in (p.left.source, p.right.source))
    if not is_known or not is_wide or p.left.stride(step) != 1 or not all(isinstance(n, int) for n in (found.k, found.n)):
        return None
    return Matrices(found, found.m, typical(found.k), typical(found.n), step)


@dataclass(frozen=True)
class Bf16x3Plan:
    """How the work is cut: `m` rows into tiles and chunks of these, the steps into blocks and, where they are many, into runs of blocks,
    the lanes into panels.
    """

    matrices: Matrices
    target: Target

    @property
    def m(self) -> Dim:
        return self.matrices.m

    @cached_property
    def around(self) -> dict[str, int]:
        """The sizes of the outer letters: there is a product for each place of them."""
        product = self.matrices.product
        return {c: typical(product.problem.size(c)) for c in product.outer}

    @property
    def products(self) -> int:
        return prod(self.around.values())

    @property
    def is_known(self) -> bool:
        """Whether B is packed at compile time."""
        problem = self.matrices.product.problem
        source = problem.right.source
        return isinstance(source, BlockArgument) and source.index in problem.request.constant

    @property
    def pays(self) -> bool:
        """Whether there are enough rows, or may be."""
        rows = self.m if isinstance(self.m, int) else COSTS.unknown_rows
        return rows >= COSTS.least_rows and self.gains(rows)

    @cached_property
    def few(self) -> DirectSchedule | ContractSchedule:
        """How few rows are computed, of an unknown number: by the same panels."""
        request, vectors = self.matrices.product.problem.request, LANES // VECTOR
        direct = find_direct(request, vectors=vectors) if self.matrices.product.strided_rows else None
        if direct is not None:
            return choose_direct(direct)
        product = find_product(request, halves=True)
        assert product is not None
        return schedule_product(product, (COSTS.few_rows, vectors), evenly=True)

    @cached_property
    def in_place(self) -> bool:
        """Whether B is read where it stands, instead of from panels: lanes that are neighbours, where not so many rows meet them that a
        kernel in front may make panels of them.
        """
        if self.is_known or not isinstance(self.m, int):
            return False
        return self.is_unit and self.matrices.n % LANES == 0 and self.m <= COSTS.most_rows_in_place

    @property
    def is_unit(self) -> bool:
        """Whether the lanes of B are neighbours."""
        return self.matrices.product.problem.right.stride(self.matrices.product.lane) == 1

    @property
    def packed(self) -> Panels:
        """How B is packed, where the steps are whole blocks."""
        problem = self.matrices.product.problem
        moving = tuple(c for c in self.around if problem.right.stride(c) != 0)
        return Panels(moving, tuple(problem.contracted), self.matrices.product.lane, LANES, problem.sizes)

    @property
    def apart(self) -> int:
        """Numbers from a row of B to the next one."""
        stride = self.matrices.product.problem.right.stride(self.matrices.step) if self.in_place else LANES
        assert isinstance(stride, int)
        return stride

    @cached_property
    def height(self) -> int:
        """Rows of a tile."""
        return -(-self.m // -(-self.m // MOST_ROWS)) if isinstance(self.m, int) else MOST_ROWS

    @cached_property
    def tiles(self) -> Dim:
        return ceildiv(self.m, self.height)

    @cached_property
    def block(self) -> int:
        """Steps of a block."""
        steps = -(-self.matrices.k // STEPS)
        fitting = [n for n in COSTS.steps_of_block if steps % n == 0 or self.is_known]
        return min(fitting, key=lambda n: -(-steps // n) * n * COSTS.steps_of_block[n])

    @cached_property
    def blocks(self) -> int:
        return -(-self.matrices.k // (STEPS * self.block))

    @property
    def steps(self) -> int:
        """Steps of all blocks, the last ones of which may be of zeros."""
        return self.blocks * self.block

    @cached_property
    def panels(self) -> int:
        return -(-self.matrices.n // LANES)

    @cached_property
    def chunks(self) -> Dim:
        few = COSTS.tiles_of_two, COSTS.most_tiles
        if self.products == 1 and isinstance(self.tiles, int) and few[0] <= self.tiles <= few[1] and self.panels <= COSTS.few_panels:
            return 2
        return maximum(ceildiv(self.tiles, COSTS.most_tiles), 1)

    @cached_property
    def chunk(self) -> Dim:
        """Tiles of a chunk, but for the last one, which may have fewer."""
        return ceildiv(self.tiles, self.chunks)

    @property
    def is_even(self) -> bool:
        """Whether the rows are whole chunks of whole tiles."""
        return self.m == self.chunks * self.chunk * self.height

    @cached_property
    def runs(self) -> int:
        """Runs of blocks: how often the sums are taken up again."""
        row = self.block * STEPS * TERMS * i32.bytes // 2
        tiles = self.chunk if isinstance(self.chunk, int) else COSTS.most_tiles
        block, cache = tiles * self.height * row, self.target.caches[1]
        if self.blocks * block <= cache * 5 // 8:
            return 1
        return -(-self.blocks // max(1, cache // COSTS.l2_share_of_chunk // block))

    @property
    def run(self) -> int:
        """Blocks of a run, but for the last one."""
        return -(-self.blocks // self.runs)

    @property
    def tile_words(self) -> int:
        """Words of the terms of a tile of rows and a step."""
        return TERMS * self.height * PAIRS

    @property
    def chunk_words(self) -> Dim:
        """Words of the terms of a chunk of rows."""
        return self.chunk * self.steps * self.tile_words

    @property
    def makers(self) -> int:
        """How many threads at most make terms of A each for itself."""
        if not isinstance(self.chunk_words, int):
            return COSTS.least_makers
        return max(COSTS.least_makers, min(COSTS.most_makers, COSTS.makers_bytes // (self.chunk_words * i32.bytes)))

    @cached_property
    def rows_exceed_l2(self) -> bool:
        """Whether A is so large that its rows are prefetched before they are split."""
        return self._exceeds_l2(self.matrices.k)

    @cached_property
    def results_exceed_l2(self) -> bool:
        """Whether results are so large that their lines are prefetched before they are written."""
        return self._exceeds_l2(self.matrices.n)

    def _exceeds_l2(self, columns: int) -> bool:
        return isinstance(self.m, int) and self.m * columns * f32.bytes > COSTS.l2_multiple * self.target.caches[1]

    @property
    def block_words(self) -> int:
        """Words of the terms of a block."""
        return self.block * TERMS * PAIRS * LANES

    @property
    def sums(self) -> int:
        """Sums of a tile of rows."""
        return self.height * LANES

    @property
    def cuts(self) -> tuple[int, int]:
        """Pairs of rows of a block that each step of a tile splits: in chunks of few tiles and of many, so that the tiles of a chunk split
        all of them.
        """
        least, most = COSTS.least_tiles, self.chunk if isinstance(self.chunk, int) else COSTS.unknown_tiles
        if isinstance(self.tiles, int) and isinstance(self.chunk, int):
            least = max(least, self.tiles - (-(-self.tiles // self.chunk) - 1) * self.chunk)
        return -(-PAIRS // least), -(-PAIRS // max(least, most))

    @cached_property
    def balance(self) -> tuple[int, int, int]:
        """Estimated cycles: what a row gains over the direct product, what a tile of rows costs, and what all of them cost together.

        They are for two threads, each of which splits all of A.
        """
        a, several = self.matrices, self.products > 1
        vectors = -(-a.n // VECTOR)
        epilogue = a.product.problem.epilogue
        far = len(epilogue.values) + len(epilogue.residuals) if self.results_exceed_l2 else 0
        direct = (COSTS.share_of_several if several else COSTS.share) * a.k * vectors / 4
        row = a.k * COSTS.cut * (COSTS.cut_of_several if several else 1) + vectors * (COSTS.result + COSTS.memory_result * far) / 2
        tile = self.steps * self.panels * len(PRODUCTS) * self.height * rates_of(self.target).tile_row_cycles
        return int(direct - row), int(tile), int(a.k * a.n * self.packing_cycles / 2 + COSTS.start / self.products)

    def gains(self, m: int) -> bool:
        """Whether so many rows are estimated to take less time than the direct product."""
        # Of several products, those whose B has to be transposed gain nothing.
        if self.products > 1 and (self.runs > 1 or not self.is_unit):
            return False
        row, tile, all_rows = self.balance
        return m * row > -(-m // self.height) * tile + all_rows

    @property
    def packing_cycles(self) -> float:
        """An estimate of what a number of B that is not known takes."""
        if self.is_known:
            return 0
        if not self.in_place:
            return COSTS.pack if self.is_unit else COSTS.transpose
        # Rows a large power of two apart share few sets of L2: the rest of a page is evicted before the next panel needs it.
        row = self.apart * f32.bytes
        near = self.target.caches[1] // gcd(row, self.target.caches[1] // L2_WAYS)
        return COSTS.conflict if row < PAGE_BYTES and self.matrices.k > near else 0


@dataclass(frozen=True)
class ScheduledBf16x3(Bf16x3Plan):
    """A plan with all that is chosen as a schedule says."""

    schedule: Bf16x3Schedule

    @cached_property
    def height(self) -> int:
        return self.schedule.rows

    @cached_property
    def block(self) -> int:
        return self.schedule.steps // STEPS

    @cached_property
    def chunks(self) -> Dim:
        return super().chunks if self.schedule.chunks is None else self.schedule.chunks

    @cached_property
    def runs(self) -> int:
        return self.schedule.runs

    @cached_property
    def in_place(self) -> bool:
        return self.schedule.in_place

    @cached_property
    def rows_exceed_l2(self) -> bool:
        return self.schedule.prefetch_rows

    @cached_property
    def results_exceed_l2(self) -> bool:
        return self.schedule.prefetch_results

    @cached_property
    def balance(self) -> tuple[int, int, int]:
        row, tile, all_rows = self.schedule.balance
        return row, tile, all_rows

    @cached_property
    def few(self) -> DirectSchedule | ContractSchedule:
        assert self.schedule.few is not None
        return self.schedule.few
