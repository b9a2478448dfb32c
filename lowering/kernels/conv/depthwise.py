"""Depthwise convolutions and poolings of channels-last images: windows that slide over each channel on its own.

Lanes are neighbouring channels, so nothing is gathered or transposed. A tile is a run of pixels of a row, with one accumulator for each.
For each row of the window the pixels below are read once, and go to every accumulator that they belong to:

    acc[x] = acc[x] + image[y * stride + m][x * stride + n] * weights[m][n]        for all n, for all x of the tile

A pad around the image is usually not made (`depthwise_plan.py:Channelwise`). Rows of the window outside of the image are left out of the
loop over rows. Columns outside are left out of the first and last tile of a row. If the width is unknown, tiles of a width chosen at run
time cover a row, and the last one ends with the row, over pixels of the one before; pixels that may lie outside are read as padding.
Weights lie in panels `[C / lanes][taps][lanes]`.
"""

from __future__ import annotations

from math import prod

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.scalar import identity_of
from polyreme.lowering.analysis.access import trace
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.depthwise_plan import (
    OPEN_WIDTHS,
    TILE_PIXELS,
    Channelwise,
    ChannelwisePlan,
    ChannelwiseSchedule,
    PixelTiles,
    WindowAxis,
    choose_channelwise,
    find_channelwise,
    fit_channelwise,
    iterations_of,
    memory_read,
    other_channelwise,
    tiles_of,
)
from polyreme.lowering.kernels.elements import ElementEmitter, buffer_leaf
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, run, vector_loop, write_nest
from polyreme.lowering.kernels.packing import Panels, PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Slot, Step, operand, result
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.way import Way


def write_channelwise(found: Channelwise, schedule: ChannelwiseSchedule) -> KernelPlan:
    """The plan of a group as its schedule says."""
    plan = found.plan(schedule.padded)
    return ChannelwiseKernel(plan, Lanes(schedule.lanes, schedule.masked), schedule.pixels).build(schedule)


build_depthwise_or_pooling = Way(
    "channelwise",
    ChannelwiseSchedule,
    find_channelwise,
    choose_channelwise,
    write_channelwise,
    fit_channelwise,
    "build_depthwise_or_pooling",
    others=other_channelwise,
)


class ChannelwiseKernel:
    """Makes the plan of one group, or a part of a kernel that other builders' groups have around it; with tiles of so many pixels."""

    def __init__(self, plan: ChannelwisePlan, lanes: Lanes, pixels: int, parts: PlanParts | None = None):
        self.plan, self.lanes, self.pixels = plan, lanes, pixels
        self.parts = parts or PlanParts(plan.request)
        self.taps = prod(axis.taps for axis in plan.window_axes)
        # From which channel on they are counted.
        self.lane0: Index = 0
        # Of a row of unknown length: pixels of its tiles, and columns of the tile being written that may lie outside of the image.
        self.width: Value | None = None
        self.outside: dict[int, tuple[Position, Value]] = {}

    def build(self, schedule: ChannelwiseSchedule) -> KernelPlan:
        plan, read = self.plan, memory_read(self.plan)
        weights = self.panels()
        slots: list[Slot] = [*(self.parts.memory_of(x) for x in read), *weights]
        slots += [*(operand(a.index) for a in plan.epilogue.args), *(result(i) for i in range(len(plan.epilogue.values)))]
        name = plan.request.name("depthwise" if weights else "pool")
        final = schedule.final_addresses or None
        func = Func.empty(name, [self.parts.buffer_type(x) for x in slots], loc=plan.op.location, final_addresses=final)
        code = Code(Builder.at_end(func.block, func.location), merged=True)
        args = list(func.args)
        self.begin(code)
        self.inputs = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in zip(read, args, strict=False)}
        self.weights = args[len(read)] if weights else None
        after = args[len(read) + len(weights) :]
        self.buffers: dict[Value, Value] = dict(zip(plan.epilogue.args, after, strict=False))
        self.outs = after[len(plan.epilogue.args) :]
        self._nest(schedule)
        code.b.insert(Return([]))
        clean_up_kernel(func)
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("channelwise")

    def panels(self) -> list[Slot]:
        """The panels of weights; none for a pooling."""
        op = self.plan.op
        if isinstance(op, tensor.Reduce):
            return []
        spec = tensor.ContractSpec(op.spec)
        sizes = spec.sizes(shape_of(op.a), shape_of(op.b))
        panels = Panels((), (*spec.free_b, *spec.contracted), spec.batch, self.lanes.count, sizes)
        return [self.parts.packed(op.b, spec.b, trace(op.b, spec.b), panels)]

    def _nest(self, schedule: ChannelwiseSchedule) -> None:
        """Images, blocks of channels and pieces of images on threads."""
        plan, code, block = self.plan, self.code, schedule.channels
        first = plan.window_axes[0].number

        def body(places: list[Position]) -> None:
            lo: Index = 0
            hi: Index = plan.channels
            if plan.channels > block:
                lo = code.mul(places.pop(first).scalar(code), block)
                hi = code.add(lo, block) if plan.channels % block == 0 else code.min(code.add(lo, block), plan.channels)
            self._piece(places, schedule.rows, lo, hi)

        write_nest(code, iterations_of(plan, block, schedule.rows), schedule.nest, body)

    def begin(self, code: Code) -> None:
        """What all tasks share, before them."""
        self.code = code
        if not self.plan.window_axes[-1].known:
            self.width = self._open_width()

    def _piece(self, places: list[Position], tall: int, first: Index, end: Index) -> None:
        """Some rows of the result: `places` of its outer axes, of which the last one counts pieces of `tall` rows; channels from `first` to
        `end`.
        """
        code = self.code
        rows: tuple[Index, Index] | None = None
        if tall > 1:
            count = self.plan.window_axes[-2].places
            start = code.mul(places[-1].scalar(code), tall)
            whole = isinstance(count, int) and count % tall == 0
            rows = start, code.add(start, tall) if whole else code.min(code.add(start, tall), count)
        self.columns(places, rows, first, end)

    def columns(self, places: list[Position], rows: tuple[Index, Index] | None, first: Index, end: Index) -> None:
        """All tiles of a row, each of all of the `rows` or of the one at `places`; channels from `first` to `end`."""
        if self.width is not None:
            self._open_columns(self.width, places, rows, first, end)
            return
        for tile in tiles_of(self.plan.window_axes[-1], self.pixels):
            if tile.count == 1:
                self._column(places, rows, tile, tile.start, first, end)
            else:
                with self.code.loop(tile.start, tile.start + tile.count * tile.width, step=tile.width, name="x") as loop:
                    self._column(places, rows, tile, loop.iv, first, end)

    @property
    def _open_widths(self) -> list[int]:
        """Pixels that tiles of a row of unknown length may have."""
        return [width for width in OPEN_WIDTHS if width <= self.pixels]

    def _open_width(self) -> Value:
        """How many pixels the tiles of such a row have, so that they cover it with the least work."""
        code, places = self.code, self.plan.window_axes[-1].places
        chosen, least = code.value(1), code.value(code.mul(places, 1 + TILE_PIXELS))
        for width in self._open_widths[1:]:
            work = code.value(code.mul(code.ceildiv(places, width), width + TILE_PIXELS))
            better = code.apply("and", code.apply("lt", work, least), code.apply("ge", code.value(places), code.value(width)))
            chosen, least = (code.apply("select", better, a, b) for a, b in ((code.value(width), chosen), (work, least)))
        return chosen

    def _open_columns(self, chosen: Value, places: list[Position], rows: tuple[Index, Index] | None, first: Index, end: Index) -> None:
        """All tiles of a row of unknown length, of the width that was chosen."""
        code, count = self.code, self.plan.window_axes[-1].places
        for width in self._open_widths:
            with code.when(code.apply("eq", chosen, code.value(width))), code.loop(0, count, step=width, name="x") as loop:
                start = code.min(loop.iv, code.sub(count, width))
                self.outside = self._columns_outside(start, width)
                self._column(places, rows, PixelTiles(0, width), start, first, end)

    def _columns_outside(self, start: Index, width: int) -> dict[int, tuple[Position, Value]]:
        """The columns under a tile that may lie outside of the image: for each the nearest one inside, and whether that is the same."""
        code, row = self.code, self.plan.window_axes[-1]
        first = code.sub(code.mul(start, row.stride), row.low)
        count = (width - 1) * row.stride + row.reach + 1
        found = {}
        for i in range(count):
            if i < row.low or i >= count - row.high:
                at = code.value(code.add(first, i))
                inside = code.min(code.apply("max", at, code.value(0)), code.sub(row.size, 1))
                found[i] = position(inside), code.apply("eq", at, code.value(inside))
        return found

    def _column(
        self, places: list[Position], rows: tuple[Index, Index] | None, tile: PixelTiles, start: Index, first: Index, end: Index
    ) -> None:
        """One tile of each of the `rows`, or of the row at `places`."""

        def row(y: Position, values: list[Value]) -> list[Value]:
            here = places if rows is None else [*places[:-1], y]
            ranges = [self._range(axis, here[axis.number]) for axis in self.plan.window_axes[:-1]]

            def vector(c: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                self._tile(here, ranges, tile, position(start), c.plus(self.code, position(self.lane0)), lanes, mask)
                return carried

            # Blocks of channels are of whole vectors.
            return vector_loop(self.code, first, end, self.lanes, values, vector, has_tail=self.plan.channels % self.lanes.count != 0)

        if rows is None:
            row(Position(), [])
        else:
            run(self.code, *rows, 1, [], row, name="y")

    def _range(self, axis: WindowAxis, place: Position) -> tuple[Index, Index]:
        """The taps of a window at `place` that lie in the image: from the first to before the second."""
        if not axis.clipped:
            return 0, axis.taps
        code = self.code
        start = code.mul(place.scalar(code), axis.stride)
        zero = code.value(0)
        before = code.apply("max", code.value(code.sub(axis.low, start)), zero)
        left = code.apply("max", code.value(code.sub(axis.size + axis.low, start)), zero)
        return code.ceildiv(before, axis.dilation), code.min(axis.taps, code.ceildiv(left, axis.dilation))

    def _tile(
        self,
        places: list[Position],
        ranges: list[tuple[Index, Index]],
        tile: PixelTiles,
        start: Position,
        c: Position,
        lanes: int,
        mask: Value | None,
    ) -> None:
        """The results of one tile for one vector of channels."""
        plan, code = self.plan, self.code
        copies = plan.copies or 1
        panel = self._panel(c, lanes)

        def nest(k: int, taps: list[Position], sums: list[Value]) -> list[Value]:
            if k < len(ranges):
                lo, hi = ranges[k]
                return run(code, lo, hi, 1, sums, lambda tap, inner: nest(k + 1, [*taps, tap], inner), name="m")
            return self._steps(places, taps, tile, start, c, lanes, mask, panel, sums)

        sums = nest(0, [], [self._identity(lanes)] * (tile.width * copies))
        emitter = plan.epilogue.emitter(code, self.buffers, lambda _places, _lanes, _mask: current[0])
        for x in range(tile.width):
            for copy in range(copies):
                current = [sums[x * copies + copy]]
                at = [*places, start.plus(code, Position(x)), c]
                if plan.copies is not None:
                    at.append(Position(copy))
                self.write(emitter, at, lanes, mask)

    def write(self, emitter: ElementEmitter, places: list[Position], lanes: int, mask: Value | None) -> None:
        """Store the results' elements at `places`."""
        self.plan.epilogue.write(emitter, self.outs, places, lanes, mask)

    def within(self, places: list[Position]) -> list[Position]:
        """Where the row of the image at `places` lies in the memory that is read."""
        return places

    def _steps(
        self,
        places: list[Position],
        taps: list[Position],
        tile: PixelTiles,
        start: Position,
        c: Position,
        lanes: int,
        mask: Value | None,
        panel: Index,
        sums: list[Value],
    ) -> list[Value]:
        """One row of the window: every tap of it for every pixel of the tile."""
        plan, code, row = self.plan, self.code, self.plan.window_axes[-1]
        copies = plan.copies or 1
        around = list(places)
        for axis, tap in zip(plan.window_axes[:-1], taps, strict=True):
            around[axis.number] = (
                places[axis.number].times(code, axis.stride).plus(code, tap.times(code, axis.dilation)).plus(code, Position(-axis.low))
            )
        around = self.within(around)
        first = start.times(code, row.stride).plus(code, Position(-row.low))
        pixels = ElementEmitter(code, self.inputs)
        strides = [prod(x.taps for x in plan.window_axes[i + 1 :]) for i in range(len(plan.window_axes))]
        along = code.add(*(code.mul(tap.scalar(code), k) for tap, k in zip(taps, strides, strict=False)), 0)

        read: dict[int, Value] = {}

        def pixel(column: int) -> Value:
            """What the image has in a column under the tile."""
            if column not in read:
                inside, same = self.outside.get(column, (first.plus(code, Position(column)), None))
                value = pixels.at(plan.image, [*around, inside, c], lanes, mask)
                read[column] = value if same is None else code.apply("select", code.broadcast(same, lanes), value, self._identity(lanes))
            return read[column]

        sums = list(sums)
        for n in range(row.taps):
            weights = self._tap(panel, along, n, lanes)
            for x in range(tile.width):
                if tile.count == 1 and row.known and not row.inside(tile.start + x, n):
                    continue
                value = pixel(x * row.stride + n * row.dilation)
                for copy in range(copies):
                    i = x * copies + copy
                    if isinstance(plan.op, tensor.Reduce):
                        sums[i] = code.apply(plan.op.fn, sums[i], value)
                    else:
                        sums[i] = code.fma(value, weights[copy], sums[i])
        return sums

    def _identity(self, lanes: int) -> Value:
        """What changes nothing where it is taken in: sums begin with it, and padding is read as it."""
        fn = self.plan.op.fn if isinstance(self.plan.op, tensor.Reduce) else "add"
        return self.code.broadcast(self.code.constant(identity_of(fn, self.plan.dtype), self.plan.dtype), lanes)

    def _panel(self, c: Position, lanes: int) -> Index:
        """Where the weights of channel `c` begin; for a single lane of a panel, its lane."""
        code, at = self.code, c.scalar(self.code)
        depth = self.taps * (self.plan.copies or 1)
        if lanes == self.lanes.count:
            return code.mul(at, depth)
        lane = code.mod(at, self.lanes.count)
        return code.add(code.mul(code.sub(at, lane), depth), lane)

    def _tap(self, panel: Index, along: Index, n: int, lanes: int) -> list[Value]:
        """The weights of a tap, one vector per copy."""
        if self.weights is None:
            return []
        code, width = self.code, self.lanes.count
        at = code.add(panel, code.mul(along, width), n * width)
        align = width * self.plan.dtype.bytes if lanes == width else None
        copies = range(self.plan.copies or 1)
        return [code.load(self.weights, code.add(at, copy * self.taps * width), lanes, None, align) for copy in copies]
