"""Fused inverted residuals: which groups gain by one kernel, and how it is cut. `inverted_residual.py` says what it is, and writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.dims import product as size_of
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.conv.depthwise_plan import (
    ChannelwisePlan,
    WindowAxis,
    find_depthwise,
    lanes_of,
    pixels_of_tile,
    widths_of_tiles,
)
from polyreme.lowering.kernels.conv.direct_plan import Direct, DirectSchedule, choose_direct, find_direct
from polyreme.lowering.kernels.conv.winograd import build_winograd
from polyreme.lowering.kernels.microkernel import rank_tiles
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.problem import Problem, Product, find_product, typical
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.instructions import HIDDEN_ROWS, MANY_REGISTERS
from polyreme.lowering.machines.memory import STACK_BYTES
from polyreme.lowering.machines.rooms import ROOMS
from polyreme.lowering.machines.tasks import EVEN_GROUPS, LEAST_GROUPS, PIECES, TASKS_WITH_MEMORY


@dataclass(frozen=True)
class InvertedResidual:
    """What `find_inverted_residual` finds. The parts' functions have the group's arguments as theirs, and behind these what the part before
    made.
    """

    request: Request
    first: Product | Direct
    depthwise: ChannelwisePlan
    last: Product | None

    @property
    def problems(self) -> list[Problem]:
        """The first product or convolution, and the last product if there is one."""
        first = self.first.p if isinstance(self.first, Direct) else self.first.problem
        return [first, *([] if self.last is None else [self.last.problem])]

    @property
    def down(self) -> WindowAxis:
        """How windows go down the rows."""
        return self.depthwise.window_axes[0]

    @cached_property
    def fitting(self) -> tuple[int, ...]:
        """How many rows of the windows' result may be made at a time: what fits the cache, in a whole number of groups of an image of known
        or of a usual size.
        """
        room = min(self.request.target.caches[1], STACK_BYTES) * ROOMS.scratch
        places = estimate_pixels(self.down.places)
        most = max(1, places // PIECES) if self.is_open else places
        return tuple(n for n in range(1, most + 1) if places % n == 0 and self._bytes(n) <= room)

    @property
    def is_open(self) -> bool:
        """Whether the image has an open number of rows or pixels."""
        return not all(axis.known for axis in self.depthwise.window_axes)

    @property
    def images(self) -> int:
        """How many images there are, which is always known."""
        return typical(self.depthwise.shape[0])

    @property
    def most_tasks(self) -> int:
        """For how many tasks a buffer has scratch memory; one, where each makes its own."""
        return max(1, TASKS_WITH_MEMORY // self.images) * self.images if self.is_open else 1

    @property
    def buffered_rows(self) -> int:
        """Rows of the wide image under a row of windows: as many wait in scratch memory."""
        return self.down.reach + 1

    @property
    def wide_row(self) -> Dim:
        """Elements of a row of the wide image."""
        return size_of(shape_of(self.depthwise.image)[2:])

    @property
    def narrow_row(self) -> Dim:
        """Elements of a row between the windows and the last product."""
        return size_of(self.depthwise.shape[2:])

    def _bytes(self, rows: int) -> int:
        narrow = rows * self.narrow_row if self.last is not None else 0
        return estimate_pixels(self.buffered_rows * self.wide_row + narrow) * self.depthwise.dtype.bytes


def find_inverted_residual(request: Request) -> InvertedResidual | None:
    """The fused inverted residual that a group is; None for any other group."""
    contracts = request.ops(tensor.Contract)
    if len(contracts) not in (2, 3):
        return None
    first, middle, *others = contracts
    wide = _made_from(middle, first)
    if wide is None:
        return None
    narrow = _made_from(others[0], middle) if others else None
    if others and narrow is None:
        return None
    windows = find_depthwise(_part(request, [narrow] if narrow is not None else request.results, wide))
    depthwise = None if windows is None else windows.chosen
    if depthwise is None or not _is_picture(depthwise, len(request.func.args)):
        return None
    maker = _maker(_part(request, [wide], None), depthwise.image)
    if maker is None:
        return None
    block = InvertedResidual(request, maker, depthwise, None)
    if narrow is not None:
        last = find_product(_part(request, request.results, narrow), halves=True)
        if last is None or not _reads_rows(last, narrow, len(request.func.args)):
            return None
        block = replace(block, last=last)
    return block


@dataclass(frozen=True)
class ProductTile(Schedule, kind="product"):
    """Tiles of so many rows and vectors."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class InvertedResidualSchedule(Schedule, kind="inverted_residual"):
    """So many `rows` of the windows' result are made at a time. `first` says how the wide image is computed, as a product or a convolution,
    and `last` how the last product is, if there is one.

    The depthwise convolution has vectors of so many `lanes`, with `masked` ends or scalar ones, and tiles of so many `pixels`, as in
    `ChannelwiseSchedule`. With `final_addresses` LLVM looks for no cheaper addresses.
    """

    rows: int
    first: ProductTile | DirectSchedule
    lanes: int
    pixels: int
    last: ProductTile | None = None
    masked: bool = False
    final_addresses: bool = False


def choose_inverted_residual(block: InvertedResidual) -> InvertedResidualSchedule | None:
    """As many rows as fit the cache, so that there are groups of them in a number that threads share evenly; None where the kernel does not
    pay.
    """
    if why_no_inverted_residual(block):
        return None
    places = estimate_pixels(block.down.places)
    order = lambda n: (gcd(places // n, EVEN_GROUPS), places // n >= 2 * LEAST_GROUPS, n)
    return schedule_inverted_residual(block, max(block.fitting, key=order))


def why_no_inverted_residual(block: InvertedResidual) -> str:
    """Why a kernel does not pay; nothing where the wide image exceeds the cache, and some of its rows with the weights do not.

    If L3 is slow nearly every image counts as too large, because the kernels around it want the same cache. If cores may share no L3, a
    quarter of L2 is the threshold.
    """
    target, dtype = block.request.target, block.depthwise.dtype
    threshold, room = ROOMS.handed_on(target), int(target.caches[1] * ROOMS.weights)
    weights = sum(estimate_pixels(size_of(p.sizes[c] for c in p.right_letters)) for p in block.problems) * dtype.bytes
    image = estimate_pixels(size_of(shape_of(block.depthwise.image)[1:])) * dtype.bytes
    if image <= threshold:
        return f"the wide image has {image} bytes; more than {threshold} are asked"
    if weights > room:
        return f"the weights have {weights} bytes; at most {room} are asked"
    return "" if block.fitting else "not even one row fits the cache"


def schedule_inverted_residual(block: InvertedResidual, rows: int) -> InvertedResidualSchedule:
    """What is chosen for so many rows at a time."""
    plan, target = block.depthwise, block.request.target
    first: ProductTile | DirectSchedule
    if isinstance(block.first, Direct):
        first = choose_direct(block.first)
    else:
        # Row buffers stay in L1.
        pixels = shape_of(plan.image)[2]
        most = max(1, target.caches[0] * 7 // 8 // (block.buffered_rows * estimate_pixels(pixels) * target.vector_bytes))
        first = _tile_of(block.first, pixels, most, HIDDEN_ROWS if target.half_width_vectors else None)
    last = None if block.last is None else _tile_of(block.last, rows * plan.shape[2])
    # LLVM's search for cheaper addresses takes half of its time and gains nothing where there are 32 registers.
    final = target.vector_registers >= MANY_REGISTERS
    return InvertedResidualSchedule(rows, first, lanes_of(plan), pixels_of_tile(plan), last, target.masked, final)


def _tile_of(product: Product, rows: Dim, most: int | None = None, highest: int | None = None) -> ProductTile:
    """The tile with the fewest estimated cycles for pieces of so many `rows`, of at most so many vectors; one vector has tiles of at most
    `highest` rows. None: as registers allow.
    """
    registers = product.problem.registers
    most, highest = most or registers.count, highest or registers.count
    tiles = rank_tiles(estimate_pixels(rows), typical(product.n), typical(product.k), registers)
    return ProductTile(*next(tile for tile in tiles if tile[1] <= most and (tile[1] > 1 or tile[0] <= highest)))


def other_inverted_residuals(block: InvertedResidual) -> Iterator[InvertedResidualSchedule]:
    """Other numbers of rows, and other tiles of the first product."""
    own = choose_inverted_residual(block)
    assert own is not None
    for rows in sorted(block.fitting, key=lambda n: (abs(n - own.rows), n)):
        yield schedule_inverted_residual(block, rows)
    if isinstance(block.first, Product):
        registers, pixels = block.first.problem.registers, estimate_pixels(shape_of(block.depthwise.image)[2])
        for vectors in range(1, min(-(-typical(block.first.n) // registers.lanes), registers.accumulators) + 1):
            yield replace(own, first=ProductTile(min(registers.most_rows(vectors), pixels), vectors))


def fit_inverted_residual(block: InvertedResidual, schedule: InvertedResidualSchedule) -> None:
    """`ScheduleError` unless it is a schedule of this group: with any rows that fit the cache, and tiles that registers hold."""
    own = choose_inverted_residual(block)
    like = own
    if schedule.rows in block.fitting and schedule.pixels in widths_of_tiles(block.depthwise):
        like = replace(schedule_inverted_residual(block, schedule.rows), pixels=schedule.pixels)
        if isinstance(block.first, Product) and _holds(block.first, schedule.first):
            like = replace(like, first=schedule.first)
        if block.last is not None and _holds(block.last, schedule.last):
            like = replace(like, last=schedule.last)
    if schedule != like:
        raise ScheduleError(f"expected a schedule like {own} for these layers and this machine but got {schedule}")


def _holds(product: Product, tile: ProductTile | DirectSchedule | None) -> bool:
    """Whether registers hold a tile of a product."""
    registers = product.problem.registers
    return (
        isinstance(tile, ProductTile)
        and 0 < tile.vectors <= -(-typical(product.n) // registers.lanes)
        and 0 < tile.rows * tile.vectors <= registers.count
    )


def _made_from(contract: tensor.Contract, before: tensor.Contract) -> Value | None:
    """What `contract` reads that comes of `before`, without views in front of it; None where that is not one operand."""
    found = [x for x in (contract.a, contract.b) if before in _ancestors(x, ())]
    if len(found) != 1:
        return None
    value = found[0]
    while (op := value.producer()) is not None and isinstance(op, (tensor.Reshape, tensor.Window, tensor.Pad)):
        if isinstance(op, tensor.Reshape) and len(shape_of(value)) == 4:
            # The image under the windows is one in this shape.
            break
        value = op.operands[0]
    return value


def _ancestors(value: Value, given: Sequence[Value]) -> set[Op]:
    """The ops that `value` is made by, as far as what is `given`."""
    found: set[Op] = set()
    todo = [value]
    while todo:
        value = todo.pop()
        op = value.producer()
        if op is not None and value not in given and op not in found:
            found.add(op)
            todo += op.operands
    return found


def _part(request: Request, results: Sequence[Value], given: Value | None) -> Request:
    """The part of a group that makes `results` of its arguments and of what is `given`, which comes behind them."""
    func = request.func
    taken = [*func.args, *([] if given is None else [given])]
    part = Func.empty("part", [x.type for x in taken], loc=func.location)
    mapping: dict[Value, Value] = dict(zip(taken, part.args, strict=True))
    needed = {op for value in results for op in _ancestors(value, taken)}
    b = Builder.at_end(part.block, func.location)
    for op in func.block:
        if op in needed:
            b.insert(op.clone(mapping))
    b.insert(Return([mapping[value] for value in results]))
    return replace(request, func=part.finish())


def _is_picture(depthwise: ChannelwisePlan, given: int) -> bool:
    """Whether windows go down the rows and along the pixels of argument `given`, which has a known number of images, one result for each
    channel.
    """
    image = depthwise.image
    if not isinstance(image, BlockArgument) or image.index != given or len(shape_of(image)) != 4 or depthwise.copies is not None:
        return False
    extra_operands = [n for arg in depthwise.epilogue.args for n in arg.type.shape[:-1]]
    return (
        [axis.number for axis in depthwise.window_axes] == [1, 2]
        and isinstance(shape_of(image)[0], int)
        and all(n == 1 for n in extra_operands)
    )


def _is_plain(product: Product) -> bool:
    """Whether all of a product is rows by lanes, of one type, from weights in memory."""
    p = product.problem
    plain = p.word_letter is None and not p.is_narrow and not product.outer and isinstance(product.n, int) and isinstance(product.k, int)
    return plain and isinstance(p.right.source, BlockArgument) and isinstance(p.left.source, BlockArgument)


def _maker(part: Request, image: Value) -> Product | Direct | None:
    """The product whose rows are the pixels of the image made from its results, or the convolution that gives the image."""
    *pixels, channels = shape_of(image)
    product = find_product(part)
    if product is not None and _is_plain(product):
        return product if product.n == channels and product.m == size_of(pixels) and len(product.problem.epilogue.values) == 1 else None
    direct = find_direct(part, by_rows=True)
    if direct is None or build_winograd.takes(part):
        return None
    p = direct.p
    plain = (
        p.word_letter is None
        and not p.is_narrow
        and not direct.keeps
        and isinstance(p.right.source, BlockArgument)
        and direct.image_slot().kind == "operand"
    )
    whole = shape_of(p.contract.result) == shape_of(image) and p.out == p.out[:1] + "".join(direct.spatial) + direct.lane
    return direct if plain and whole and len(p.epilogue.values) == 1 else None


def _reads_rows(product: Product, narrow: Value, given: int) -> bool:
    """Whether the rows of a product are the pixels of argument `given`."""
    *pixels, channels = shape_of(narrow)
    left = product.problem.left
    if (
        not _is_plain(product)
        or product.m != size_of(pixels)
        or product.k != channels
        or not isinstance(left.source, BlockArgument)
        or left.source.index != given
    ):
        return False
    steps = product.problem.step_letters
    if len(steps) != 1 or not product.rows or any(arg.index == given for arg in product.problem.epilogue.args):
        return False
    return left.base == 0 and left.stride(steps[0]) == 1 and left.stride(product.rows[-1]) == channels
