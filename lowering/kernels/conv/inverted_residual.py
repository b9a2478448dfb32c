"""Fused inverted residuals: a 1x1 product or convolution, a depthwise convolution and a 1x1 product, in one kernel.

    wide = act(x · w1)        narrow = act(windows(wide) * w2)        out = narrow · w3 + …

The wide image is usually several times as large as what goes in and comes out, and exceeds L2. So it is never made. A task takes a few rows
of the result, and for these the panels of the wide image's channels:

1. It makes the rows of the wide image that lie under the windows, in a circular buffer of rows that stays in L1.
2. The depthwise convolution reads that buffer, and writes to scratch memory.
3. The last product makes the result from there. It may be missing.

Tasks share the rows of an image, one task for each thread. Rows of the wide image that two tasks need are made by both, so that none reads
what another one wrote.

The number of rows and pixels may be unknown. Rows are then taken as many at a time as for an image of a usual size, and each task's scratch
memory is a part of one buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, ceildiv, maximum
from polyreme.ir.dims import product as size_of
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.depthwise import ChannelwiseKernel, ChannelwisePlan, WindowAxis, find_depthwise
from polyreme.lowering.kernels.conv.direct import DirectPixels, DirectTask
from polyreme.lowering.kernels.conv.direct_plan import MAX_L2_BYTES, Direct, find_direct
from polyreme.lowering.kernels.conv.winograd import build_winograd
from polyreme.lowering.kernels.elements import ElementEmitter, buffer_leaf, linear, store
from polyreme.lowering.kernels.epilogue import Epilogue
from polyreme.lowering.kernels.gemm.product_tile import ProductKernel, Tile
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import run
from polyreme.lowering.kernels.microkernel import Axis, rank_tiles, tile_heights
from polyreme.lowering.kernels.packing import Panels, PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Request, Slot, Step, operand, result, told
from polyreme.lowering.kernels.positions import Position, position, total
from polyreme.lowering.kernels.problem import Problem, Product, find_product, typical

# Parts of L2, 1 / this: scratch memory of a task, and weights, which are read again for each row.
L2_SHARE, WEIGHTS_SHARE = 2, 4
# A smaller image than L2 is worth the kernel if a core reads fewer bytes from L3 in a cycle, or may share no L3 with another: 1 / this of
# L2.
SLOW_BYTES, SLOW_SHARE, FAR_CORE_SHARE = 16, 32, 4
# Groups of rows of a task at least.
LEAST_GROUPS = 2
# So many tasks share groups evenly.
EVEN_GROUPS = 8
# Groups of an image of unknown size, so that threads share them about evenly.
OPEN_GROUPS = 16
# Tasks with scratch memory if its size is unknown. Further threads get none.
MOST_OPEN_TASKS = 16
# Rows of a tile of one vector: no limit; or, on machines with half as many multiply-adds a cycle, as many as let other units finish one
# tile meanwhile.
MOST_HIGH, HIDDEN_HIGH = 1 << 20, 14


def build_inverted_residual(request: Request) -> KernelPlan | None:
    """The plan of a fused inverted residual; None for any other group."""
    block = find_inverted_residual(request)
    return None if block is None else _ResidualKernel(block).build()


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
    depthwise = find_depthwise(_part(request, [narrow] if narrow is not None else request.results, wide))
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
    threshold = cache // (SLOW_SHARE if target.l3_bytes_per_cycle < SLOW_BYTES else FAR_CORE_SHARE if target.separate_l3 else 1)
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
    if direct is None or build_winograd(part) is not None:
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


class _Product:
    """The first or last product of a fused inverted residual: its panels, and tiles of some of its rows."""

    def __init__(self, product: Product, rows: Dim, most: int, parts: PlanParts, highest: int = MOST_HIGH):
        """For pieces of so many `rows`, in panels of at most so many vectors, where one vector has tiles of at most `highest` rows."""
        p = product.problem
        self.product, self.lanes = product, typical(product.n)
        tiles = rank_tiles(estimate_pixels(rows), typical(product.n), typical(product.k), p.registers)
        self.count, (self.high, self.vectors) = (
            rows,
            next(tile for tile in tiles if tile[1] <= most and (tile[1] > 1 or tile[0] <= highest)),
        )
        self.panels = Panels((), tuple(p.contracted), product.lane, self.vectors * product.lanes, p.sizes)
        self.weights = parts.packed(p.contract.b if p.right_is_b else p.contract.a, p.right_letters, p.right, self.panels)

    @property
    def image(self) -> Slot:
        """What is multiplied."""
        source = self.product.problem.left.source
        assert isinstance(source, BlockArgument)
        return operand(source.index)

    def write(self, made: ProductKernel, panel: Index, valid: int | None, first: Index, count: Index) -> None:
        """`count` rows from `first` on by a panel, of which `valid` lanes exist (None: all)."""
        tile = Tile(self.product, made, {}, panel, self.panels, self.vectors)
        vectors = self.vectors if valid is None else -(-valid // self.product.lanes)
        tile.write_rows(first, count, tile_heights(self.high, count), vectors, valid)

    def write_row(self, made: ProductKernel, row: tuple[Index, Index, Index], at: Index, panel: Index, valid: int | None) -> None:
        """A row of the wide image (its number among those of all images, then which image, and its row) to position `at` of a panel's ring.
        """
        code, width = made.code, typical(self.panels.width)
        first = code.mul(row[0], self.count)
        self.write(replace(made, kept=(code.sub(at, code.mul(first, width)), width)), panel, valid, first, self.count)


class _Convolution:
    """The same of a convolution at the beginning."""

    def __init__(self, direct: Direct, parts: PlanParts):
        self.direct, self.lanes, self.panels = direct, direct.n, direct.panels
        self.image, self.weights = direct.image_slot(), direct.packed(parts)

    def write_row(self, made: ProductKernel, row: tuple[Index, Index, Index], at: Index, panel: Index, valid: int | None) -> None:
        code, direct = made.code, self.direct
        pixels = direct.whole[1]
        around = dict.fromkeys(direct.outer, row[1])
        args = [made.left, made.right, *(made.buffers[a] for a in direct.p.epilogue.args), *made.outputs]
        task = _IntoRowBuffer(direct, code, args, around, [row[2], 0], [1, pixels], [1, estimate_pixels(pixels)])
        task.to, task.panel = at, panel
        task.run(panel, 1, typical(self.panels.count))


class _IntoRowBuffer(DirectTask):
    """A row of a convolution, into the row buffer of a panel."""

    to: Index
    panel: Index

    def _tile(self, corner: Sequence[Index], pixels: DirectPixels, axes: Sequence[Axis], at: Index, *others: Any) -> None:
        if self.direct.border is not None:
            self._prefetch_row(pixels, axes, self.code.add(at, pixels.first))
        super()._tile(corner, pixels, axes, at, *others)

    def _prefetch_row(self, pixels: DirectPixels, axes: Sequence[Axis], at: Index) -> None:
        """Prefetches what lies under a tile of the next row, but not under this one's, whose first window begins at `at`.

        An image from outside is in memory, and its rows are too short for the hardware prefetcher.
        """
        line = self.p.request.target.line_bytes // self.direct.image_bytes
        (columns, across), (rows, down), *inner = ((typical(axis.size), axis.a) for axis in axes)
        reach = 1 + (columns - 1) * typical(across) + (len(pixels.places) - 1) * typical(self.moves[-1])
        begins = [down * (rows + i) for i in range(self.direct.window.strides[0])]
        for size, step in inner:
            if isinstance(step, int) and step < line:
                reach += (size - 1) * step
            else:
                begins = [begin + i * step for begin in begins for i in range(size)]
        for begin in begins:
            for along in range(0, reach, line):
                self.code.prefetch(self.image, self.code.add(at, begin + along))

    def write(self, emitter: ElementEmitter, places: list[Position], lanes: int, mask: Value | None) -> None:
        code, width = self.code, self.direct.width
        lane = places[3].plus(code, position(code.mul(self.panel, width)).times(code, -1))
        here = total(code, [position(self.to), places[2].times(code, width), lane])
        for value, buffer in zip(self.p.epilogue.values, self.results, strict=True):
            store(code, emitter.at(value, places, lanes, mask), buffer, here, mask)


def _each_panel(code: Code, lanes: int, panels: Panels, body: Callable[[Index, int | None], None]) -> None:
    """`body(panel, valid)` for all panels of so many lanes, of the last one of which `valid` exist (None: all)."""
    full, rest = divmod(lanes, typical(panels.width))

    def whole(panel: Position, carried: list[Value]) -> list[Value]:
        body(panel.scalar(code), None)
        return carried

    run(code, 0, full, 1, [], whole, name="panel")
    if rest:
        body(full, rest)


class _ResidualKernel:
    """Makes the plan of a fused inverted residual."""

    def __init__(self, block: InvertedResidual):
        self.c = block
        self.parts = PlanParts(block.request)
        pixels, narrow = shape_of(block.depthwise.image)[2], block.depthwise.shape[2]
        vector = block.request.target.vector_bytes
        threshold = block.request.target.caches[0] * 7 // 8
        self.first: _Product | _Convolution
        if isinstance(block.first, Direct):
            self.first = _Convolution(block.first, self.parts)
        else:
            most = max(1, threshold // (block.buffered_rows * estimate_pixels(pixels) * vector))
            high = HIDDEN_HIGH if block.request.target.half_width_vectors else MOST_HIGH
            self.first = _Product(block.first, pixels, most, self.parts, high)
        self.last = None if block.last is None else _Product(block.last, block.rows * narrow, 8, self.parts)
        self.middle = _Rows(block, self.first.panels, self.parts)

    def build(self) -> KernelPlan:
        c = self.c
        weights = [product.weights for product in (self.first, self.last) if product is not None]
        # What the epilogues read, by the group's arguments.
        extra_operands = sorted({arg.index for epilogue in self._epilogues() for arg in epilogue.args})
        shared = [self.parts.new_scratch(size * c.most_tasks, c.depthwise.dtype) for size in self._scratch()] if c.is_open else []
        slots = [
            self.first.image,
            *weights,
            *self.middle.panels(),
            *shared,
            *map(operand, extra_operands),
            *(result(i) for i in range(len(c.request.results))),
        ]
        func = Func.empty(c.request.name("inverted_residual"), [self.parts.buffer_type(x) for x in slots], loc=c.request.func.location)
        code = Code(Builder.at_end(func.block, func.location))
        image, *args = func.args
        packed, (self.middle.weights, *args) = args[: len(weights)], args[len(weights) :]
        scratch, args = args[: len(shared)], args[len(shared) :]
        self.buffers, outputs = dict(zip(extra_operands, args, strict=False)), args[len(extra_operands) :]
        self.middle.begin(code)
        with self._tasks(code) as (task, picture, start, stop):
            if c.is_open:
                self.middle.task, kept = task, code.mul(task, c.rows)
            else:
                scratch, kept = [code.scratch(typical(size), c.depthwise.dtype) for size in self._scratch()], 0
            buffered_rows, *narrow = scratch
            with code.loop(start, stop, name="group") as group:
                top = code.mul(group.iv, c.rows)
                high = code.min(c.rows, code.sub(c.down.places, top)) if c.is_open else c.rows

                def rows(panel: Index, valid: int | None) -> None:
                    with code.loop(0, high, name="y") as y:
                        body, row = code.b.block, code.add(top, y.iv)
                        self.middle.write_row(
                            code,
                            self._buffers(c.depthwise.epilogue),
                            buffered_rows,
                            narrow or outputs,
                            (picture, row, code.add(kept, y.iv)),
                            panel,
                            valid,
                        )
                        # This part alone: sums of products would spill what is hoisted out of their loops.
                        clean_up_kernel(func, body)
                        before = Code(Builder(body, next(iter(body)), func.location))
                        made = ProductKernel(func, before, image, packed[0], self._buffers(c.problems[0].epilogue), [buffered_rows])
                        self._wide_rows(
                            made, picture, before.add(before.mul(group.iv, c.rows), y.iv), before.mul(start, c.rows), panel, valid
                        )

                _each_panel(code, self.first.lanes, self.first.panels, rows)
                if self.last is not None:
                    self._results(
                        ProductKernel(func, code, narrow[0], packed[1], self._buffers(c.problems[1].epilogue), outputs),
                        picture,
                        top,
                        high,
                        kept,
                    )
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))
        chosen = told("inverted_residual", rows=c.rows, groups=c.groups, last=c.last is not None)
        return self.parts.plan("inverted_residual", schedule=chosen)

    def _epilogues(self) -> list[Epilogue]:
        return [self.c.depthwise.epilogue, *(p.epilogue for p in self.c.problems)]

    def _buffers(self, epilogue: Epilogue) -> dict[Value, Value]:
        return {arg: self.buffers[arg.index] for arg in epilogue.args}

    def _scratch(self) -> list[Dim]:
        """Elements of a task's scratch memory: its row buffers, and the rows between the windows and the last product if there is one."""
        c = self.c
        return [self.middle.panel_size * self.first.panels.count, *([] if self.last is None else [c.rows * c.narrow_row])]

    @contextmanager
    def _tasks(self, code: Code) -> Iterator[tuple[Index, Index, Index, Index]]:
        """Tasks for all threads: their number, an image, and its groups of rows from the first to before the second."""
        c, images = self.c, self.c.images
        threads: Value = code.b(kernel.Threads)
        pieces = code.min(code.ceildiv(threads, images), maximum(1, c.groups // LEAST_GROUPS))
        if c.is_open:
            pieces = code.min(pieces, c.most_tasks // images)
        with code.parallel(code.mul(pieces, images), name="task") as task:
            picture, piece = code.split(task, [images, pieces])
            start, stop = (code.div(code.mul(p, c.groups), pieces) for p in (piece, code.add(piece, 1)))
            yield task, picture, start, stop

    def _wide_rows(self, made: ProductKernel, picture: Index, row: Index, start: Index, panel: Index, valid: int | None) -> None:
        """The rows of the wide image that row `row` of the windows needs and the one before it, if this task had one, did not."""
        code, down = made.code, self.c.down
        top = code.sub(code.mul(row, down.stride), down.low)
        behind = code.min(code.add(top, self.c.buffered_rows - down.stride), down.size)
        behind = code.apply("select", code.apply("eq", code.value(row), code.value(start)), code.value(0), code.value(behind))
        begin = code.apply("max", code.apply("max", code.value(top), code.value(0)), behind)
        with code.loop(begin, code.min(code.add(top, self.c.buffered_rows), down.size), name="wide") as loop:
            number = code.add(code.mul(picture, down.size), loop.iv)
            self.first.write_row(made, (number, picture, loop.iv), self.middle.place(code, panel, loop.iv), panel, valid)

    def _results(self, made: ProductKernel, picture: Index, top: Index, high: Index, kept: Index) -> None:
        """`high` rows of the result from `top` on, whose windows' results are rows of scratch memory from `kept` on."""
        c, code = self.c, made.code
        last, pixels = self.last, c.depthwise.shape[2]
        assert last is not None
        row = code.add(code.mul(picture, c.down.places), top)
        here = replace(made, left_at=code.mul(code.sub(row, kept), -c.narrow_row))
        first, count = code.mul(row, pixels), code.mul(high, pixels)
        _each_panel(code, last.lanes, last.panels, lambda panel, valid: last.write(here, panel, valid, first, count))


class _Rows(ChannelwiseKernel):
    """The depthwise convolution: from the row buffer of each panel of channels, and into scratch memory if another product follows."""

    def __init__(self, block: InvertedResidual, wide: Panels, parts: PlanParts):
        super().__init__(block.depthwise, parts)
        self.c = block
        # Whose part of the scratch memory is used, where that of all tasks is one buffer.
        self.task: Index = 0
        self.panels_of_task = typical(wide.count)
        pixels = shape_of(block.depthwise.image)[2]
        self.buffer_shape = (self.panels_of_task * block.most_tasks, block.buffered_rows, pixels, typical(wide.width))

    @property
    def panel_size(self) -> Dim:
        """Elements of the row buffer of a panel."""
        return size_of(self.buffer_shape[1:])

    def _buffer_of(self, code: Code, panel: Index) -> Index:
        """The number of a panel's row buffer among those of all tasks."""
        return code.add(code.mul(self.task, self.panels_of_task), panel)

    def place(self, code: Code, panel: Index, row: Index) -> Index:
        """Where a row of the image begins in the row buffer of a panel."""
        return code.add(
            code.mul(self._buffer_of(code, panel), self.panel_size),
            code.mul(code.mod(row, self.c.buffered_rows), size_of(self.buffer_shape[2:])),
        )


    def write_row(
        self,
        code: Code,
        buffers: dict[Value, Value],
        buffered_rows: Value,
        results: list[Value],
        row: tuple[Index, Index, Index],
        panel: Index,
        valid: int | None,
    ) -> None:
        """The channels of a panel in a row: which image, which of its rows, and which row of the scratch memory."""
        plan, width = self.plan, self.buffer_shape[-1]
        picture, y, self.kept_row = row
        self.code, self.buffers, self.outs = code, buffers, results
        self.panel, self.lane0 = panel, code.mul(panel, width)
        read = buffer_leaf(code, buffered_rows, self.buffer_shape)

        def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
            *pixel, channel = places
            return read((*pixel, channel.plus(code, position(self.lane0).times(code, -1))), lanes, mask)

        self.inputs = {plan.image: leaf}
        self.columns([position(picture), position(y)], None, 0, width if valid is None else valid)

    def within(self, places: list[Position]) -> list[Position]:
        code = self.code
        return [position(self._buffer_of(code, self.panel)), position(code.mod(places[1].scalar(code), self.c.buffered_rows))]

    def write(self, emitter: ElementEmitter, places: list[Position], lanes: int, mask: Value | None) -> None:
        if self.c.last is None:
            super().write(emitter, places, lanes, mask)
            return
        code, plan = self.code, self.plan
        here = [Position(), position(self.kept_row), *places[2:]]
        for value, buffer in zip(plan.epilogue.values, self.outs, strict=True):
            store(
                code,
                emitter.at(value, places, lanes, mask),
                buffer,
                linear(code, here, (1, self.c.rows * self.c.most_tasks, *plan.shape[2:])),
                mask,
            )
