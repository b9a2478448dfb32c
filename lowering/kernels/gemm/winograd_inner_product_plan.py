"""Winograd's inner product: which products gain by it, and how they are cut. `winograd_inner_product.py` says what it is, and writes it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import lcm

from polyreme.ir import config, dims
from polyreme.ir.core import BlockArgument
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32
from polyreme.lowering.analysis.estimates import ASSUMED
from polyreme.lowering.kernels.gemm.winograd_inner_product_rows import WinogradInnerProductRows, find_rows
from polyreme.lowering.kernels.plan import AxisOrder, Request
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.inner_product_costs import INNER_PRODUCT_COSTS as COSTS
from polyreme.lowering.machines.instructions import WIDEST_BYTES
from polyreme.lowering.machines.memory import L3_SHARE
from polyreme.lowering.machines.targets import Target

# The lanes of its vectors, which are whole ones of AVX-512.
LANES = WIDEST_BYTES // f32.bytes
# Steps of a group.
GROUP = 6
# Steps after which groups begin with a vector again.
PERIOD = lcm(GROUP, LANES)
# Rows of a tile.
MOST_ROWS = 15


@dataclass(frozen=True)
class WinogradInnerProduct:
    """A product as it is made: `m` rows, `k` steps, `n` lanes. What is estimated is for `usual` rows."""

    rows: WinogradInnerProductRows
    m: Dim
    usual: int
    k: int
    n: int
    lanes: int

    @cached_property
    def groups(self) -> int:
        """Groups of steps."""
        return -(-self.k // GROUP)

    @cached_property
    def line(self) -> int:
        """Elements from one row of A's copy to the next: an odd number of vectors, so that rows do not meet in one set of the cache."""
        return (-(-self.k // PERIOD) * PERIOD // self.lanes | 1) * self.lanes

    @cached_property
    def panels(self) -> int:
        return -(-self.n // self.lanes)

    @cached_property
    def panel(self) -> int:
        """Elements of a panel."""
        return self.groups * GROUP * self.lanes

    @cached_property
    def tiles(self) -> Dim:
        """Tiles of all rows: an even number where two threads share them, unless they are so few that each tile would wait for its own
        sums.
        """
        each = MOST_ROWS if self.most_groups > 1 else 2 * MOST_ROWS
        tiles = dims.minimum(dims.ceildiv(self.m, each) * (each // MOST_ROWS), dims.ceildiv(self.m, COSTS.rows_together))
        return dims.minimum(self.m, tiles) if isinstance(self.m, int) else dims.maximum(tiles, 1)

    @cached_property
    def most_high(self) -> int:
        """Rows of a tile, at most."""
        return -(-self.m // self.tiles) if isinstance(self.m, int) and isinstance(self.tiles, int) else MOST_ROWS

    @cached_property
    def l2_tiles(self) -> int:
        """Tiles whose rows of A fit into L2; if all of B fits there too, together with the rows of results."""
        cache = self.target.caches[1]
        row = self.line + (self.panels * self.lanes if self.panels * self.panel * f32.bytes <= cache // COSTS.l2_share_of_weights else 0)
        room = cache // COSTS.l2_share_of_rows if self.is_constant else cache * 3 // 4 - self.panel * f32.bytes
        most = max(1, room // (self.most_high * row * f32.bytes))
        return -(-self.tiles // -(-self.tiles // most)) if isinstance(self.tiles, int) else most

    @property
    def rows_bytes(self) -> int:
        """Bytes of the copy of `usual` rows."""
        return self.usual * self.line * f32.bytes

    @cached_property
    def rows_in_l3(self) -> bool:
        """Whether tasks read rows of A from L3 for each panel, so that they pack each panel once for all rows."""
        if self.is_constant or self.rows.outer or not isinstance(self.tiles, int):
            return False
        if self.rows_bytes > self.target.caches[2] // L3_SHARE:
            return False
        pieces = -(-self.tiles // self.l2_tiles)
        return pieces > 1 and (pieces <= COSTS.few_pieces or not self.panels_fit_in_l3)

    @property
    def panels_fit_in_l3(self) -> bool:
        """Whether all panels stay in L3, if a kernel packs them in front."""
        return self.panels * self.panel * f32.bytes <= self.target.caches[2] // L3_SHARE

    @cached_property
    def holds_all(self) -> bool:
        """Whether tasks of one of several products pack all panels first, which stay in L2.

        One tile's rows after another then meet all panels, so that A is read and results are written in the order of memory.
        """
        return bool(self.rows.outer) and self.panels * self.panel * f32.bytes <= self.target.caches[1] // COSTS.l2_share_of_weights

    @cached_property
    def most_tiles(self) -> int:
        """Tiles whose rows of A a task has."""
        return self.tiles if (self.rows_in_l3 or self.holds_all) and isinstance(self.tiles, int) else self.l2_tiles

    @property
    def copied_tiles(self) -> int:
        """Tiles whose rows of A a task copies at a time."""
        return 1 if self.holds_all else self.most_tiles

    @cached_property
    def prefetches_results(self) -> bool:
        """Whether results exceed L2, so that their lines are prefetched."""
        return isinstance(self.m, int) and self.rows.around * self.m * self.n * f32.bytes > self.target.caches[1]

    @property
    def target(self) -> Target:
        return self.rows.problem.request.target

    @property
    def copy_cycles(self) -> float:
        """An estimate of a row's copy."""
        return -(-self.k // self.lanes) * (COSTS.copy + COSTS.gather * self.rows.are_gathered) + COSTS.row

    @property
    def panel_cycles(self) -> float:
        """An estimate of a row by all panels."""
        return self.panels * (self.groups * COSTS.step + COSTS.result)

    @cached_property
    def most_groups(self) -> int:
        """Groups of panels that threads share."""
        return max(1, int(self.panel_cycles / (self.copy_cycles * COSTS.copies_share)))

    @cached_property
    def copies(self) -> int:
        """Copies of all rows that there is memory for, if they are read from L3: one for each group of panels."""
        return max(1, min(self.most_groups, self.target.caches[2] // (COSTS.l3_share_of_copies * self.rows_bytes)))

    @cached_property
    def is_constant(self) -> bool:
        """Whether B is packed before the call."""
        problem = self.rows.problem
        return isinstance(problem.right.source, BlockArgument) and problem.right.source.index in problem.request.constant

    @cached_property
    def result_order(self) -> AxisOrder | None:
        """The order of the result's lanes, which the order of B's panels follows; None: row-major."""
        problem = self.rows.problem
        order, source = problem.request.preferred_order, problem.right.source
        known = isinstance(source, BlockArgument) and source.index in problem.request.known
        rows_end = (
            len(problem.epilogue.values) == 1 and problem.out[-1] == self.rows.lane and problem.request.result_types[0].shape[-1] == self.n
        )
        return (
            order
            if order is not None and known and rows_end and self.n % (order.blocks * order.width) == 0 == order.width % self.lanes
            else None
        )

    @cached_property
    def packs_per_task(self) -> bool:
        """Whether tasks pack each panel of B just before its tiles: it stays in L2 then, and costs no memory."""
        return not self.is_constant and isinstance(self.m, int) and self.pieces <= (COSTS.few_pieces if self.rows.outer else 1)

    @property
    def pieces(self) -> int:
        """Pieces of `usual` rows, each of which a task may have."""
        return -(-self.usual // (self.most_tiles * self.most_high))

    @property
    def packing_cycles(self) -> float:
        """The estimated cycles of packing B at each call, over those of the direct product."""
        if self.is_constant:
            return 0
        vectors = self.panels * self.groups * GROUP
        if self.packs_per_task:
            return vectors * COSTS.pack * self.pieces
        return vectors * (COSTS.pack if self.panels_fit_in_l3 else COSTS.memory_pack)

    @property
    def cycles(self) -> float:
        """An estimate."""
        return self.usual * (self.copy_cycles + self.panel_cycles) + self.packing_cycles + COSTS.end * bool(self.rows.outer)

    @property
    def gains(self) -> bool:
        """Whether it takes less time than the direct product."""
        return self.cycles < (COSTS.share if self.rows.are_joined else COSTS.share_of_windows) * self.direct_cycles

    @property
    def direct_cycles(self) -> float:
        """The estimated cycles of the direct product, whose last vector may be half of one."""
        vectors = -(-2 * self.n // self.lanes) / 2
        is_transposed = not self.is_constant and self.rows.problem.right.stride(self.rows.lane) != 1
        products = self.usual * vectors * (self.k * self.rows.part_inside + COSTS.direct_result)
        return products + self.k * vectors * COSTS.transpose * is_transposed


@dataclass(frozen=True)
class WinogradInnerProductSchedule(Schedule, kind="winograd_inner_product"):
    """How a product of `sizes` (rows, steps, lanes) is computed by Winograd's inner product, with vectors of so many `lanes`.

    So many `tiles_in_l2` have their rows of A there; these are read from L3 for each panel if `rows_in_l3`, where there is memory for so
    many `copies` of them. Tasks pack panels just before they use them if `packs`, all of them first if `holds_all`. With
    `prefetch_results` lines of results are prefetched.
    """

    sizes: str
    lanes: int
    tiles_in_l2: int
    rows_in_l3: bool = False
    copies: int = 1
    packs: bool = False
    holds_all: bool = False
    prefetch_results: bool = False


def schedule_inner_product(found: WinogradInnerProduct) -> WinogradInnerProductSchedule:
    """What is chosen, as a value without the product."""
    return WinogradInnerProductSchedule(
        f"{found.m}x{found.k}x{found.n}",
        found.lanes,
        found.l2_tiles,
        found.rows_in_l3,
        found.copies if found.rows_in_l3 else 1,
        found.packs_per_task,
        found.holds_all,
        found.prefetches_results,
    )


def choose_winograd_inner_product(found: WinogradInnerProduct) -> WinogradInnerProductSchedule | None:
    """The schedule of a product; None if it does not gain."""
    return schedule_inner_product(found) if found.gains else None


def fit_winograd_inner_product(found: WinogradInnerProduct, schedule: WinogradInnerProductSchedule) -> None:
    """`ScheduleError` unless it is the schedule of this product, with any prefetching."""
    own = schedule_inner_product(found)
    if schedule != replace(own, prefetch_results=schedule.prefetch_results):
        raise ScheduleError(f"expected a schedule like {own} for this product and machine but got {schedule}")


@dataclass(frozen=True)
class ScheduledInnerProduct(WinogradInnerProduct):
    """A product with all that is chosen as a schedule says."""

    schedule: WinogradInnerProductSchedule

    @cached_property
    def l2_tiles(self) -> int:
        return self.schedule.tiles_in_l2

    @cached_property
    def rows_in_l3(self) -> bool:
        return self.schedule.rows_in_l3

    @cached_property
    def copies(self) -> int:
        return self.schedule.copies

    @cached_property
    def packs_per_task(self) -> bool:
        return self.schedule.packs

    @cached_property
    def holds_all(self) -> bool:
        return self.schedule.holds_all

    @cached_property
    def prefetches_results(self) -> bool:
        return self.schedule.prefetch_results


def by_schedule(found: WinogradInnerProduct, schedule: WinogradInnerProductSchedule) -> ScheduledInnerProduct:
    """The product as the schedule says."""
    return ScheduledInnerProduct(found.rows, found.m, found.usual, found.k, found.n, found.lanes, schedule)


def find_winograd_inner_product(request: Request) -> WinogradInnerProduct | None:
    """The product of a group, if the method gains: by the machine, the number of steps, and of rows if B is packed at each call."""
    found = find_inner_product(request)
    return found if found is not None and found.gains else None


def find_inner_product(request: Request) -> WinogradInnerProduct | None:
    """The product of a group that the method can compute on this machine, if the user allows it."""
    target = request.target
    if (
        not target.strassen
        or not config.strassen()
        or not target.spare_adders
        or target.multiply_adds >= 2
        or not target.fma
        or target.lanes(f32) != LANES
    ):
        return None
    a = find_rows(request)
    if a is None or a.m == 1:
        return None
    usual = a.m if isinstance(a.m, int) else ASSUMED.rows
    found = WinogradInnerProduct(a, a.m, usual, a.k, a.n, target.lanes(f32))
    # A tile's rows stay in L2; they are on the stack.
    return None if found.most_high * found.line * f32.bytes > target.caches[1] or (a.outer and not found.packs_per_task) else found
