"""Schedules of matrix products by register tiles, as values. `contract_schedule.py` chooses them, `contract.py` writes what they say."""

from __future__ import annotations

from polyreme.ir.dims import Dim
from polyreme.ir.dims import product as product_of
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.gemm.product_tile import PLAIN_FORM, TileForm
from polyreme.lowering.kernels.packing import Panels
from polyreme.lowering.kernels.problem import Product
from polyreme.lowering.kernels.schedule import Schedule

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
