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

`inverted_residual_plan.py` finds such groups and cuts them; here the kernel is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, ceildiv, maximum
from polyreme.ir.dims import product as size_of
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.depthwise import ChannelwiseKernel
from polyreme.lowering.kernels.conv.direct import DirectPixels, DirectTask
from polyreme.lowering.kernels.conv.direct_plan import Direct, DirectSchedule, ScheduledDirect
from polyreme.lowering.kernels.conv.inverted_residual_plan import (
    InvertedResidual,
    InvertedResidualSchedule,
    ProductTile,
    choose_inverted_residual,
    find_inverted_residual,
    fit_inverted_residual,
    other_inverted_residuals,
    why_no_inverted_residual,
)
from polyreme.lowering.kernels.elements import ElementEmitter, buffer_leaf, linear, store
from polyreme.lowering.kernels.epilogue import Epilogue
from polyreme.lowering.kernels.gemm.contract_schedule import tile_form
from polyreme.lowering.kernels.gemm.product_tile import ProductKernel, Tile
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, run
from polyreme.lowering.kernels.microkernel import Axis, tile_heights
from polyreme.lowering.kernels.packing import Panels, PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Slot, Step, operand, result
from polyreme.lowering.kernels.positions import Position, position, total
from polyreme.lowering.kernels.problem import Product, typical
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.tasks import LEAST_GROUPS


def write_inverted_residual(block: InvertedResidual, schedule: InvertedResidualSchedule) -> KernelPlan:
    """The plan of a fused inverted residual as its schedule says."""
    return _ResidualKernel(block, schedule).build()


build_inverted_residual = Way(
    "inverted_residual",
    InvertedResidualSchedule,
    find_inverted_residual,
    choose_inverted_residual,
    write_inverted_residual,
    fit_inverted_residual,
    refusal=why_no_inverted_residual,
    others=other_inverted_residuals,
)


class _Product:
    """The first or last product of a fused inverted residual: its panels, and tiles of some of its rows."""

    def __init__(self, product: Product, rows: Dim, tile: ProductTile, parts: PlanParts):
        """For pieces of so many `rows`."""
        p = product.problem
        self.product, self.lanes = product, typical(product.n)
        self.count, self.high, self.vectors = rows, tile.rows, tile.vectors
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
        tile = Tile(self.product, made, {}, panel, self.panels, self.vectors, tile_form(self.product, self.panels))
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

    def __init__(self, block: InvertedResidual, schedule: InvertedResidualSchedule):
        self.c, self.schedule, self.rows = block, schedule, schedule.rows
        # The last group of an open number of rows may have fewer.
        self.groups = ceildiv(block.down.places, self.rows)
        self.parts = PlanParts(block.request)
        pixels, narrow = shape_of(block.depthwise.image)[2], block.depthwise.shape[2]
        self.first: _Product | _Convolution
        self.last: _Product | None = None
        if isinstance(block.first, Direct):
            assert isinstance(schedule.first, DirectSchedule)
            self.first = _Convolution(ScheduledDirect(block.first, schedule.first), self.parts)
        else:
            assert isinstance(schedule.first, ProductTile)
            self.first = _Product(block.first, pixels, schedule.first, self.parts)
        if block.last is not None and schedule.last is not None:
            self.last = _Product(block.last, self.rows * narrow, schedule.last, self.parts)
        self.middle = _Rows(block, schedule, self.first.panels, self.parts)

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
        final = self.schedule.final_addresses or None
        types = [self.parts.buffer_type(x) for x in slots]
        func = Func.empty(c.request.name("inverted_residual"), types, loc=c.request.func.location, final_addresses=final)
        code = Code(Builder.at_end(func.block, func.location))
        image, *args = func.args
        packed, (self.middle.weights, *args) = args[: len(weights)], args[len(weights) :]
        scratch, args = args[: len(shared)], args[len(shared) :]
        self.buffers, outputs = dict(zip(extra_operands, args, strict=False)), args[len(extra_operands) :]
        self.middle.begin(code)
        with self._tasks(code) as (task, picture, start, stop):
            if c.is_open:
                self.middle.task, kept = task, code.mul(task, self.rows)
            else:
                scratch, kept = [code.scratch(typical(size), c.depthwise.dtype) for size in self._scratch()], 0
            buffered_rows, *narrow = scratch
            with code.loop(start, stop, name="group") as group:
                top = code.mul(group.iv, self.rows)
                high = code.min(self.rows, code.sub(c.down.places, top)) if c.is_open else self.rows

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
                            made, picture, before.add(before.mul(group.iv, self.rows), y.iv), before.mul(start, self.rows), panel, valid
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
        return self.parts.plan("inverted_residual")

    def _epilogues(self) -> list[Epilogue]:
        return [self.c.depthwise.epilogue, *(p.epilogue for p in self.c.problems)]

    def _buffers(self, epilogue: Epilogue) -> dict[Value, Value]:
        return {arg: self.buffers[arg.index] for arg in epilogue.args}

    def _scratch(self) -> list[Dim]:
        """Elements of a task's scratch memory: its row buffers, and the rows between the windows and the last product if there is one."""
        c = self.c
        return [self.middle.panel_size * self.first.panels.count, *([] if self.last is None else [self.rows * c.narrow_row])]

    @contextmanager
    def _tasks(self, code: Code) -> Iterator[tuple[Index, Index, Index, Index]]:
        """Tasks for all threads: their number, an image, and its groups of rows from the first to before the second."""
        c, images = self.c, self.c.images
        threads: Value = code.b(kernel.Threads)
        pieces = code.min(code.ceildiv(threads, images), maximum(1, self.groups // LEAST_GROUPS))
        if c.is_open:
            pieces = code.min(pieces, c.most_tasks // images)
        with code.parallel(code.mul(pieces, images), name="task") as task:
            picture, piece = code.split(task, [images, pieces])
            start, stop = (code.div(code.mul(p, self.groups), pieces) for p in (piece, code.add(piece, 1)))
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

    def __init__(self, block: InvertedResidual, schedule: InvertedResidualSchedule, wide: Panels, parts: PlanParts):
        super().__init__(block.depthwise, Lanes(schedule.lanes, schedule.masked), schedule.pixels, parts)
        self.c, self.rows = block, schedule.rows
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
                linear(code, here, (1, self.rows * self.c.most_tasks, *plan.shape[2:])),
                mask,
            )
