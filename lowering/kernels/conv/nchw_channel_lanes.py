"""NCHW convolutions with lanes along channels: packed weights are the vectors, the pixels of a small rectangle a register tile's rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import prod

from polyreme.ir.core import Value
from polyreme.ir.dims import product
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.nchw_strategy import ChannelTile, ColumnTile, NchwImage, Strategy, Task, dense_strides
from polyreme.lowering.kernels.microkernel import (
    Axis,
    accumulate,
    choose_tile,
    step_cycles,
    tile_heights,
    tile_rows,
    transpose_lanes,
    zeros,
)
from polyreme.lowering.kernels.packing import Panels
from polyreme.lowering.kernels.plan import Slot
from polyreme.lowering.kernels.problem import typical
from polyreme.lowering.machines.code_size import WRITTEN_OUT
from polyreme.lowering.machines.tasks import PIECES

# The least steps between two times that sums wait in memory.
LEAST_STEPS = 24


def channel_tile(image: NchwImage, tile: tuple[int, int] | None = None) -> ChannelTile:
    """The tile with the fewest estimated cycles, or one of so many pixels and vectors: part of a row of pixels, or some whole rows."""
    p, extents = image.problem, image.sizes()
    rows, vectors = tile or choose_tile(prod(extents), typical(image.channels), estimate(product(map(p.size, p.contracted))), p.registers)
    width, high = extents[-1], 1
    wide = -(-width // -(-width // rows))
    if wide == width and len(extents) > 1:
        most = max(1, rows // width)
        high = -(-extents[-2] // -(-extents[-2] // most))
    return ChannelTile(high, wide, vectors)


class ChannelLanes(Strategy):
    """Lanes along channels: rows of the tile are pixels of a rectangle."""

    def __init__(self, image: NchwImage, tile: ChannelTile | ColumnTile):
        super().__init__(image)
        self.tile, self.wide, self.vectors = tile, tile.wide, tile.vectors
        self.high = getattr(tile, "high", 1)

    @classmethod
    def of(cls, image: NchwImage, tile: ChannelTile | None = None) -> ChannelLanes | None:
        """What is chosen for an image, with this tile if it is given; None where it is not possible."""
        made = cls(image, channel_tile(image) if tile is None else replace(tile, around=0, pooled=False))
        if not made.is_possible():
            return None
        return cls(image, replace(made.tile, around=made.axes_around(), pooled=made.is_pooled_first()))

    def is_possible(self) -> bool:
        return self.image.channel is not None and self.lanes > 1 and super().is_possible()

    def channels_at_once(self) -> int:
        return self.vectors * self.lanes

    def is_pooled_first(self) -> bool:
        """Whether the few results of a pooling are transposed, in place of the many sums that they are made of.

        It pays on machines with half-width vectors, where shuffles cost the most, and if a row of results is shorter than a vector.
        """
        epilogue, channels = self.p.epilogue, self.image.channels
        if (
            not self.p.request.target.half_width_vectors
            or not epilogue.pools
            or self.outputs[-1] >= self.lanes
            or len(epilogue.values) != 1
            or not isinstance(channels, int)
        ):
            return False
        spatial = [self.p.out.index(c) for c in self.image.spatial]
        alike = all(arg.type.shape[axis] == 1 for arg in epilogue.args for axis in spatial)
        few = prod(self.outputs) <= WRITTEN_OUT.turned
        return alike and few and channels % self.channels_at_once() == 0 and element_type(epilogue.values[0].type) == self.p.dtype

    def cycles(self) -> float:
        rows, pixels = self.wide * self.high, prod(self.extents)
        blocks = -(-typical(self.image.channels) // self.channels_at_once())
        constant = getattr(self.p.right.source, "index", None) in self.p.request.constant
        packing = 0 if constant else typical(self.image.channels) * self.k * 0.5 / PIECES
        return pixels / rows * blocks * self.k * step_cycles(rows, self.vectors) + pixels * blocks * self.vectors * 4 + packing

    def _pitch(self, rows: int) -> int:
        pixels = rows * prod(self.extents[1:])
        return -(-pixels // self.lanes) * self.lanes

    def scratch_bytes(self, rows: int) -> int:
        return 2 * self._pitch(rows) * self.channels_at_once() * self.p.dtype.bytes

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        return (self._pitch(rows), *dense_strides((rows, *self.extents[1:])))

    @cached_property
    def panels(self) -> Panels:
        """How the weights lie."""
        p, image = self.p, self.image
        assert image.channel is not None
        outer = tuple(c for c in image.outer if p.right.stride(c) != 0)
        return Panels(outer, tuple(p.contracted), image.channel, self.channels_at_once(), p.sizes)

    @property
    def axes(self) -> list[Axis]:
        """The contracted axes."""
        return self.p.axes({c: self.panels.strides[c] for c in self.p.contracted})

    def operands(self) -> tuple[Slot, Slot]:
        p = self.p
        memory = self.parts.memory_of(p.left.source)
        value = p.contract.b if p.right_is_b else p.contract.a
        return memory, self.parts.packed(value, p.right_letters, p.right, self.panels)

    def fill(self, task: Task) -> Value:
        sums = self.sums(task)
        return sums if self.pools_before_transpose else self._transposed(task.code, sums, self._pitch(task.rows), self.channels_at_once())

    def axes_around(self) -> int:
        """How many of the contracted axes, the first ones, are loops around all tiles of a task, whose sums wait in memory meanwhile.

        Such are gradients of weights, which contract all pixels of all images: each tile would read all of both operands, which no cache
        holds. A known operand, or one that is packed ahead, is read as a whole by each tile: it is weights, and small.
        """
        request, source = self.p.request, getattr(self.p.right.source, "index", None)
        if source in request.constant | request.kept:
            return 0
        sizes = [typical(axis.size) for axis in self.axes]
        steps = prod(sizes)
        # A step reads a line of the image, and a vector for each of the tile's.
        bytes_of_step = request.target.line_bytes + self.channels_at_once() * self.p.dtype.bytes
        if steps * bytes_of_step <= request.target.caches[0]:
            return 0
        return max((n for n in range(len(sizes)) if prod(sizes[n:]) >= LEAST_STEPS), default=0)

    def sums(self, task: Task) -> Value:
        """The sums of a task in a scratch tile, pixel by pixel, [row][column][channel]."""
        code, p, lanes, dtype = task.code, self.p, self.lanes, self.p.dtype
        pitch, width = self._pitch(task.rows), self.channels_at_once()
        sums = code.scratch(pitch * width, dtype)
        extents = [task.rows, *self.extents[1:]]
        moves = [p.left.stride(c) for c in self.image.spatial]
        places = dense_strides(extents)
        strides = self.panels.strides
        weights_at = code.add(0, *(code.mul(i, strides[c]) for c, i in task.around.items() if c in strides))
        weights_at = code.add(weights_at, code.mul(code.div(task.channel0, width), self.panels.panel_size))
        axes = self.axes
        image_at = task.image_at()
        align = lanes * dtype.bytes

        around = self.tile.around

        def tile(at: Index, pixel: Index, high: int, wide: int) -> None:
            offsets = [(y, x) for y in range(high) for x in range(wide)]

            def read_image(r: int, position: Index) -> Value:
                y, x = offsets[r]
                moved = x * moves[-1] + (y * moves[-2] if high > 1 else 0)
                return code.broadcast(code.load(task.image_buffer, code.add(position, moved)), lanes)

            def read_weights(v: int, position: Index) -> Value:
                return code.load(task.weights, code.add(position, v * lanes), lanes, None, align)

            kept = [code.mul(code.add(pixel, x + (y * places[-2] if high > 1 else 0)), width) for y, x in offsets]
            if around:
                acc = [[code.load(sums, code.add(to, v * lanes), lanes, None, align) for v in range(self.vectors)] for to in kept]
            else:
                acc = zeros(code, len(offsets), self.vectors, dtype, lanes)
            for to, line in zip(kept, accumulate(code, axes[around:], read_image, read_weights, acc, at, weights_at), strict=True):
                for v, value in enumerate(line):
                    code.store(value, sums, code.add(to, v * lanes), None, align)

        def nest(axis: int, at: Index, pixel: Index) -> None:
            def inner(start: Index, size: int) -> None:
                here, there = code.add(at, code.mul(start, moves[axis])), code.add(pixel, code.mul(start, places[axis]))
                if axis + 2 < len(extents):
                    nest(axis + 1, here, there)
                elif axis + 1 < len(extents):
                    row(here, there, size)
                else:
                    tile(here, there, 1, size)

            size = self.wide if axis + 1 == len(extents) else self.high if axis + 2 == len(extents) else 1
            tile_rows(code, extents[axis], tile_heights(size, extents[axis]), inner, self.image.spatial[axis])

        def row(at: Index, pixel: Index, high: int) -> None:
            def inner(start: Index, wide: int) -> None:
                tile(code.add(at, code.mul(start, moves[-1])), code.add(pixel, start), high, wide)

            tile_rows(code, extents[-1], tile_heights(self.wide, extents[-1]), inner, self.image.spatial[-1])

        def blocks(number: int, image: Index, weights: Index) -> None:
            nonlocal weights_at
            if number == around:
                weights_at = weights
                nest(0, image, 0)
                return
            axis = axes[number]
            with code.loop(0, axis.size, name="block") as loop:
                blocks(number + 1, code.add(image, code.mul(loop.iv, axis.a)), code.add(weights, code.mul(loop.iv, axis.b)))

        if around:
            zero = code.zero(dtype, lanes)
            with code.loop(0, pitch * width, step=lanes, name="clear") as clear:
                code.store(zero, sums, clear.iv, None, align)
        blocks(0, image_at, weights_at)
        return sums

    def _transposed(self, code: Code, sums: Value, pitch: int, width: int) -> Value:
        """The sums channel by channel."""
        lanes, align = self.lanes, self.lanes * self.p.dtype.bytes
        tile = code.scratch(pitch * width, self.p.dtype)
        with code.loop(0, pitch, step=lanes, name="pixel") as loop:
            for v in range(0, width, lanes):
                block = [code.load(sums, code.add(code.mul(loop.iv, width), i * width + v), lanes, None, align) for i in range(lanes)]
                for i, vector in enumerate(transpose_lanes(code, block)):
                    code.store(vector, tile, code.add(loop.iv, (v + i) * pitch), None, align)
        return tile
