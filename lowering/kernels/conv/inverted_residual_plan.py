"""Fused inverted residuals: which groups gain by one kernel, and how it is cut. `inverted_residual.py` says what it is, and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, ceildiv
from polyreme.ir.dims import product as size_of
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.conv.depthwise import ChannelwisePlan, WindowAxis, find_depthwise
from polyreme.lowering.kernels.conv.direct_plan import MAX_L2_BYTES, Direct, find_direct
from polyreme.lowering.kernels.conv.winograd import build_winograd
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.problem import Problem, Product, find_product, typical
from polyreme.lowering.machines.memory import FAST_L3_BYTES

# Parts of L2, 1 / this: scratch memory of a task, and weights, which are read again for each row.
L2_SHARE, WEIGHTS_SHARE = 2, 4
# A smaller image than L2 is worth the kernel if L3 is slow, or if cores may share none: 1 / this of L2.
SLOW_SHARE, FAR_CORE_SHARE = 32, 4
# Groups of rows of a task at least.
LEAST_GROUPS = 2
# So many tasks share groups evenly.
EVEN_GROUPS = 8
# Groups of an image of unknown size, so that threads share them about evenly.
OPEN_GROUPS = 16
# Tasks with scratch memory if its size is unknown. Further threads get none.
MOST_OPEN_TASKS = 16


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
    def rows(self) -> int:
        """Rows of the windows' result that are made at a time: as many as fit the cache, so that there are groups of them in a number that
        threads share evenly.
        """
        room = min(self.request.target.caches[1], MAX_L2_BYTES) // L2_SHARE
        places = estimate_pixels(self.down.places)
        most = max(1, places // OPEN_GROUPS) if self.is_open else places
        fitting = [n for n in range(1, most + 1) if places % n == 0 and self._bytes(n) <= room]
        return max(fitting, default=0, key=lambda n: (gcd(places // n, EVEN_GROUPS), places // n >= 2 * LEAST_GROUPS, n))

    @property
    def groups(self) -> Dim:
        """Groups of so many rows; the last one of an open number may have fewer."""
        return ceildiv(self.down.places, self.rows)

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
        return max(1, MOST_OPEN_TASKS // self.images) * self.images if self.is_open else 1

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
    """The fused inverted residual that a group is, if the kernel pays; None for any other group."""
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
    return block if _pays_off(block) else None


def _pays_off(block: InvertedResidual) -> bool:
    """Whether the wide image exceeds the cache, and some of its rows with the weights do not.

    If L3 is slow nearly every image counts as too large, because the kernels around it want the same cache. If cores may share no L3, a
    quarter of L2 is the threshold.
    """
    target, dtype = block.request.target, block.depthwise.dtype
    cache = target.caches[1]
    threshold = cache // (SLOW_SHARE if target.l3_bytes_per_cycle < FAST_L3_BYTES else FAR_CORE_SHARE if target.separate_l3 else 1)
    weights = sum(estimate_pixels(size_of(p.sizes[c] for c in p.right_letters)) for p in block.problems)
    image = estimate_pixels(size_of(shape_of(block.depthwise.image)[1:]))
    return image * dtype.bytes > threshold and weights * dtype.bytes <= cache // WEIGHTS_SHARE and block.rows > 0


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
