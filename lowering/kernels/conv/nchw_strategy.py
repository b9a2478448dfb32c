"""What the strategies for NCHW convolutions share: schedules, tasks that are pieces of the image, a scratch tile of sums, and the epilogue
on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import Leaf, linear, load
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.microkernel import transpose_lanes
from polyreme.lowering.kernels.packing import PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Slot, Step, operand, result
from polyreme.lowering.kernels.positions import Position, total
from polyreme.lowering.kernels.problem import Problem, typical
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.machines.rooms import ROOMS
from polyreme.lowering.machines.tasks import GRAIN_CYCLES, PIECE_CYCLES, PIECES


@dataclass(frozen=True)
class NchwImage:
    """A problem whose left operand is the image: `spatial` letters of the result, the last ones, and the `channel` (None: there is one
    only).
    """

    problem: Problem
    spatial: tuple[str, ...]
    channel: str | None

    @property
    def channels(self) -> Dim:
        return 1 if self.channel is None else self.problem.size(self.channel)

    @property
    def outer(self) -> list[str]:
        return [c for c in self.problem.out if c not in self.spatial and c != self.channel and self.problem.size(c) != 1]

    def sizes(self) -> list[int]:
        """Sizes of the spatial letters."""
        return [n for c in self.spatial if isinstance(n := self.problem.size(c), int)]


@dataclass(frozen=True)
class ChannelTile(Schedule, kind="channels"):
    """Lanes are channels: tiles of `wide` pixels of as many rows as they are `high`, and of so many `vectors`. The first `around` of the
    contracted axes are loops around all tiles of a task, whose sums wait in memory. Pooled results are transposed if `pooled`, else sums.
    """

    high: int
    wide: int
    vectors: int
    around: int = 0
    pooled: bool = False


@dataclass(frozen=True)
class ColumnTile(Schedule, kind="columns"):
    """Lanes are channels, by Winograd's algorithm: pieces of `size` rows, tiles of `wide` pixels of a product and so many `vectors`.
    `pooled` is as of `ChannelTile`.
    """

    size: int
    wide: int
    vectors: int
    pooled: bool = False


@dataclass(frozen=True)
class PixelTile(Schedule, kind="pixels"):
    """Lanes are pixels of a row: tiles of so many `channels`, and so many vectors `across` of as many rows as they are `high`."""

    channels: int
    high: int
    across: int


@dataclass(frozen=True)
class SummedTile(Schedule, kind="summed"):
    """Lanes are pixels of a row that is summed: tiles of as many whole rows of the window as they are `high`."""

    high: int


@dataclass(frozen=True)
class NchwSchedule(Schedule, kind="nchw"):
    """Vectors of so many `lanes`, tiles as `tile` says, so many `rows` of the result in a piece; threads take `grain` pieces at a time."""

    lanes: int
    tile: ChannelTile | ColumnTile | PixelTile | SummedTile
    rows: int
    grain: int = 1


class Strategy:
    """What all strategies share: pieces of the image, the scratch tile, the epilogue.

    `is_possible`, `cycles` and what `schedule` calls ask the machine; whatever `build` calls does as the schedule says.
    """

    tile: Any

    def __init__(self, image: NchwImage):
        self.image, self.p = image, image.problem
        self.parts = PlanParts(self.p.request)
        self.lanes = self.p.registers.lanes
        self.extents = image.sizes()
        self.k = estimate(product(self.p.size(c) for c in self.p.contracted))
        self.steps = [self._of(self.p.epilogue.steps, c) for c in image.spatial]
        self.reaches = [self._of(self.p.epilogue.reaches, c) for c in image.spatial]
        self.outputs = [typical(self.p.epilogue.shape[self.p.out.index(c)]) for c in image.spatial]

    def _of(self, values: Sequence[Dim], letter: str) -> int:
        value = values[self.p.out.index(letter)]
        return value if isinstance(value, int) else 0

    def is_possible(self) -> bool:
        """Whether this strategy can compute the problem."""
        p = self.p
        others = [c for c in p.out if c not in self.image.spatial]
        plain = all(p.epilogue.steps[p.out.index(c)] == 1 and p.epilogue.reaches[p.out.index(c)] == 1 for c in others)
        return (
            plain
            and all(self.steps)
            and all(self.reaches)
            and all(n > 0 for n in self.outputs)
            and self.scratch_bytes(self.rows_for(1)) <= ROOMS.tiles
        )

    def cycles(self) -> float:
        """An estimate for one place of the outer letters."""
        raise NotImplementedError

    def scratch_bytes(self, rows: int) -> int:
        """Bytes of scratch for `rows` of the first spatial letter."""
        raise NotImplementedError

    def channels_at_once(self) -> int:
        """Channels of a task."""
        raise NotImplementedError

    @property
    def pools_before_transpose(self) -> bool:
        """Whether `fill` gives sums pixel by pixel, from which pooled results are made before they are transposed."""
        return getattr(self.tile, "pooled", False)

    def operands(self) -> tuple[Slot, Slot]:
        """Memory of the image and of the weights."""
        raise NotImplementedError

    def fill(self, task: Task) -> Value:
        """Compute the sums of a task, and give the scratch tile that holds them."""
        raise NotImplementedError

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        """Strides of the channel and the spatial letters in the scratch tile for `rows` of the first spatial letter."""
        raise NotImplementedError

    def rows_for(self, outputs: int) -> int:
        """Rows of the contract that so many rows of the result need."""
        return (outputs - 1) * self.steps[0] + self.reaches[0]

    @property
    def blocks(self) -> Dim:
        """Of channels, for tasks."""
        return ceildiv(self.image.channels, self.channels_at_once())

    def piece(self) -> int:
        """Rows of the result in a piece: as many as the scratch allows, fewer when that leaves threads idle."""
        blocks = typical(product(self.p.size(c) for c in self.image.outer)) * typical(self.blocks)
        piece = self.outputs[0]
        while piece > 1 and self.scratch_bytes(self.rows_for(piece)) > ROOMS.tiles:
            piece = -(-piece // 2)
        wanted = min(-(-PIECES // blocks), int(self.cycles() / PIECE_CYCLES))
        # Even pieces: a last one with few rows would leave the tile half empty.
        count = max(-(-self.outputs[0] // piece), min(wanted, self.outputs[0]), 1)
        return -(-self.outputs[0] // count)

    def allows(self, rows: int) -> bool:
        """Whether a piece may have so many rows of the result."""
        return 0 < rows <= self.outputs[0] and self.scratch_bytes(self.rows_for(rows)) <= ROOMS.tiles

    def schedule(self, rows: int | None = None) -> NchwSchedule:
        """What is chosen with this tile, for pieces of so many rows if that is given."""
        piece = self.piece() if rows is None else rows
        per_task = self.cycles() / typical(self.blocks) / -(-self.outputs[0] // piece)
        return NchwSchedule(self.lanes, self.tile, piece, max(1, int(GRAIN_CYCLES / max(per_task, 1))))

    def build(self, schedule: NchwSchedule) -> KernelPlan:
        """The plan as the schedule says, whose tile this strategy has."""
        p, image = self.p, self.image
        slots = [*self.operands(), *(operand(a.index) for a in p.epilogue.args), *(result(i) for i in range(len(p.epilogue.values)))]
        func = Func.empty(p.request.name("conv"), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location)
        code = Code(Builder.at_end(func.block, func.location))
        at_once = self.channels_at_once()
        blocks = self.blocks
        sizes = [p.size(c) for c in image.outer]
        piece = schedule.rows
        pieces = -(-self.outputs[0] // piece)
        with code.parallel(code.value(product(sizes) * blocks * pieces), grain=schedule.grain, name="task") as flat:
            *around, block, part = code.split(flat, [*sizes, blocks, pieces])
            here = dict(zip(image.outer, around, strict=True)), code.mul(block, at_once), code.mul(part, piece)
            rest = self.outputs[0] % piece
            if not rest:
                Task(self, code, func.args, *here, piece).run()
            else:
                whole = code.condition("lt", part, pieces - 1)
                assert isinstance(whole, Value)
                with code.when(whole):
                    Task(self, code, func.args, *here, piece).run()
                with code.when(whole, then=False):
                    Task(self, code, func.args, *here, rest).run()
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("nchw", updates=p.epilogue.updates)


class Task:
    """One piece of one image, for one block of channels."""


    def __init__(
        self, strategy: Strategy, code: Code, args: Sequence[Value], around: dict[str, Index], channel0: Index, output0: Index, outputs: int
    ):
        self.strategy, self.code, self.p = strategy, code, strategy.p
        self.image_buffer, self.weights = args[0], args[1]
        count = len(self.p.epilogue.args)
        self.buffers: dict[Value, Value] = dict(zip(self.p.epilogue.args, args[2 : 2 + count], strict=True))
        self.outs = list(args[2 + count :])
        self.around, self.channel0, self.output0 = around, channel0, output0
        self.outputs = outputs
        self.rows = strategy.rows_for(outputs)
        self.row0 = code.mul(self.output0, strategy.steps[0])

    def image_at(self) -> Index:
        """Where the image's part for this task begins."""
        code, left = self.code, self.p.left
        here = code.add(left.base, *(code.mul(i, left.stride(c)) for c, i in self.around.items()))
        return code.add(here, code.mul(self.row0, left.stride(self.strategy.image.spatial[0])))

    def run(self) -> None:
        """Sums into scratch, then results from it."""
        code, strategy = self.code, self.strategy
        tile = strategy.fill(self)
        if strategy.pools_before_transpose:
            self._pooled(tile)
            return
        channel = strategy.image.channel
        leaf = self._leaf(tile, strategy.tile_strides(self.rows))
        at = {c: position_at(i) for c, i in self.around.items()}
        at_once = strategy.channels_at_once()
        channels: Index = at_once
        whole = strategy.image.channels
        if not isinstance(whole, int) or whole % at_once:
            channels = code.min(at_once, code.sub(whole, self.channel0))
        if channel is None:
            self._outputs(at, 0, leaf)
        else:
            with code.loop(0, channels, name="channel") as loop:
                at[channel] = position_at(self.channel0).plus(code, position_at(loop.iv))
                self._outputs(at, 0, leaf)

    def _leaf(self, tile: Value, strides: tuple[int, ...]) -> Leaf:
        """The sums in a scratch tile, whose channel and spatial letters have these strides."""
        code, strategy, p = self.code, self.strategy, self.p
        spatial, channel = strategy.image.spatial, strategy.image.channel
        letters = [channel, *spatial]
        origin = [position_at(self.channel0), position_at(self.output0).times(code, strategy.steps[0])]

        def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
            at = dict(zip(p.out, places, strict=True))
            parts = [at[c].times(code, s) for c, s in zip(letters, strides, strict=True) if c is not None]
            corner = [o.times(code, -s) for o, s in zip(origin, strides, strict=False)]
            if channel is None:
                corner = corner[1:]
            return load(code, tile, total(code, [*parts, *corner]), lanes, mask)

        return leaf

    def _pooled(self, sums: Value) -> None:
        """Pooled results of sums that lie pixel by pixel: made with lanes along the channels, and then transposed."""
        code, strategy, p = self.code, self.strategy, self.p
        lanes, width = strategy.lanes, strategy.channels_at_once()
        channel, spatial = strategy.image.channel, strategy.image.spatial
        assert channel is not None
        emitter = p.epilogue.emitter(
            code, self.buffers, self._leaf(sums, (1, *(width * s for s in dense_strides((self.rows, *strategy.extents[1:])))))
        )
        sizes = [self.outputs, *strategy.outputs[1:]]
        pixels, align = prod(sizes), lanes * p.dtype.bytes
        made = code.scratch(-(-pixels // lanes) * lanes * width, p.dtype)
        around = {c: position_at(i) for c, i in self.around.items()}

        def places(first: Index, lane_step: int, *at: Position) -> list[Position]:
            lanes_at = position_at(self.channel0).plus(code, position_at(first, 0, lane_step))
            where = {**around, channel: lanes_at, **dict(zip(spatial, at, strict=True))}
            where[spatial[0]] = position_at(self.output0).plus(code, where[spatial[0]])
            return [where.get(c, Position()) for c in p.out]

        with code.loop(0, pixels, name="pixel") as loop:
            at = [position_at(i) for i in code.split(loop.iv, sizes)]
            for v in range(0, width, lanes):
                value = emitter.at(p.epilogue.values[0], places(v, 1, *at), lanes, None)
                code.store(value, made, code.add(code.mul(loop.iv, width), v), None, align)
        origin = [Position()] * len(spatial)
        for first in range(0, pixels, lanes):
            mask = code.lane_mask(min(lanes, pixels - first), lanes)
            for v in range(0, width, lanes):
                block = [code.load(made, (first + i) * width + v, lanes, None, align) for i in range(lanes)]
                for i, vector in enumerate(transpose_lanes(code, block)):
                    to = linear(code, places(v + i, 0, *origin), p.epilogue.shape)
                    code.store(vector, self.outs[0], code.add(to.scalar(code), first), mask)

    def _outputs(self, at: dict[str, Position], axis: int, leaf: Leaf) -> None:
        """Loops over the piece's result positions from spatial letter `axis` on; lanes along the last one, or along all that are left where
        rows of results follow one another everywhere.
        """
        code, strategy, p = self.code, self.strategy, self.p
        letter, *inner = strategy.image.spatial[axis:]
        start = position_at(self.output0) if axis == 0 else Position()
        size = self.outputs if axis == 0 else strategy.outputs[axis]
        if inner and not self._is_flat(axis):
            with code.loop(0, size, name=letter) as loop:
                self._outputs({**at, letter: start.plus(code, position_at(loop.iv))}, axis + 1, leaf)
            return
        at, size = {**at, letter: start}, size * prod(strategy.outputs[axis + 1 :])
        # Positions run along the last letter that any has: those of one element have no strides.
        letter = next((c for c, n in zip(reversed(inner), reversed(strategy.outputs), strict=False) if n != 1), letter)
        lanes = strategy.lanes
        emitter = p.epilogue.emitter(code, self.buffers, leaf)

        def vector(x: Index, valid: int) -> None:
            step = Position(step=int(lanes > 1))
            inside = {**at, letter: at.get(letter, Position()).plus(code, position_at(x)).plus(code, step)}
            places = [inside.get(c, Position()) for c in p.out]
            p.epilogue.write(emitter, self.outs, places, lanes, code.lane_mask(valid, lanes))

        whole = size // lanes
        if whole > 1:
            with code.loop(0, whole * lanes, step=lanes, name=letter) as loop:
                vector(loop.iv, lanes)
        elif whole:
            vector(0, lanes)
        if size % lanes:
            vector(whole * lanes, size % lanes)


    def _is_flat(self, axis: int) -> bool:
        """Whether results and sums of the spatial letters from `axis` on stand row after row."""
        strategy, p = self.strategy, self.p
        spatial = strategy.image.spatial[axis:]
        strides = strategy.tile_strides(self.rows)[-len(spatial) :]
        dense = strides[1:] == dense_strides(strategy.extents[axis + 1 :]) and strides[0] == prod(strategy.extents[axis + 1 :])
        return dense and tuple(p.out[-len(spatial) :]) == spatial and p.epilogue.is_flat(len(p.out) - len(spatial))


def dense_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Those of a row-major array."""
    return tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
