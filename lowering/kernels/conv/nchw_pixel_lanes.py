"""NCHW convolutions with lanes along the rows of the image, which is read in place: for few channels."""

from __future__ import annotations

from math import prod

from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.conv.nchw_strategy import NchwImage, PixelTile, Strategy, Task, dense_strides
from polyreme.lowering.kernels.microkernel import Axis, accumulate, join_axes, step_cycles, tile_heights, tile_rows, zeros
from polyreme.lowering.kernels.plan import Slot
from polyreme.lowering.kernels.problem import typical

# Vectors of a row of pixels in a tile.
MOST_ACROSS = 4


def pixel_tile(image: NchwImage) -> PixelTile:
    """As many vectors of a row as registers hold, up to four, by as many channels, and rows if whole rows are short."""
    p, extents = image.problem, image.sizes()
    most, channels = p.registers.accumulators, typical(image.channels)
    in_all = -(-extents[-1] // p.registers.lanes)
    across = min(in_all, MOST_ACROSS)
    tall = min(channels, max(1, most // across))
    tall = -(-channels // -(-channels // tall))
    high = max(1, most // (tall * across)) if across == in_all else 1
    high = -(-extents[-2] // -(-extents[-2] // min(extents[-2], high))) if len(extents) > 1 else 1
    return PixelTile(tall, high, across)


class PixelLanes(Strategy):
    """Lanes along the last spatial letter: rows of the tile are channels, columns are vectors of one or more rows of pixels."""

    def __init__(self, image: NchwImage, tile: PixelTile):
        super().__init__(image)
        self.tile, self.tall, self.high, self.across = tile, tile.channels, tile.high, tile.across

    @classmethod
    def of(cls, image: NchwImage) -> PixelLanes | None:
        """What is chosen for an image; None where it is not possible."""
        made = cls(image, pixel_tile(image))
        return made if made.is_possible() else None

    def is_possible(self) -> bool:
        is_unit = self.p.left.stride(self.image.spatial[-1]) == 1
        return is_unit and isinstance(self.image.channels, int) and super().is_possible()

    def channels_at_once(self) -> int:
        return self.tall

    def cycles(self) -> float:
        rows = prod(self.extents[:-1])
        across = -(-self.extents[-1] // self.lanes)
        tiles = rows / self.high * across / self.across * -(-typical(self.image.channels) // self.tall)
        return tiles * self.k * step_cycles(self.tall, self.across * self.high)

    def _pitch(self) -> int:
        return -(-self.extents[-1] // self.lanes) * self.lanes

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        if len(self.extents) == 1:
            return -(-rows // self.lanes) * self.lanes, 1
        return dense_strides((self.tall, rows, *self.extents[1:-1], self._pitch()))

    def scratch_bytes(self, rows: int) -> int:
        return self.tall * self.tile_strides(rows)[0] * self.p.dtype.bytes

    def operands(self) -> tuple[Slot, Slot]:
        return self.parts.memory_of(self.p.left.source), self.parts.memory_of(self.p.right.source)

    def fill(self, task: Task) -> Value:
        code, p, lanes, dtype = task.code, self.p, self.lanes, self.p.dtype
        strides = self.tile_strides(task.rows)
        tile = code.scratch(self.tall * strides[0], dtype)
        extents = [task.rows, *self.extents[1:]]
        moves = [p.left.stride(c) for c in self.image.spatial]
        places = strides[1:]
        channel = self.image.channel
        per_channel: Dim = 0 if channel is None else p.right.stride(channel)
        weights_at = code.add(
            p.right.base, *(code.mul(i, p.right.stride(c)) for c, i in task.around.items()), code.mul(task.channel0, per_channel)
        )
        # Here the weights are the scalars, so they are A, and the image B.
        axes = join_axes([Axis(p.size(c), p.right.stride(c), p.left.stride(c)) for c in p.contracted])
        whole = self.image.channels
        assert isinstance(whole, int)

        def sums(tall: int, at: Index, to: Index, high: int, lanes_left: int, across: int) -> None:
            columns = [(y, v) for y in range(high) for v in range(across)]
            masks = [code.lane_mask(lanes_left - v * lanes, lanes) for v in range(across)]

            def read_weights(r: int, position: Index) -> Value:
                return code.broadcast(code.load(task.weights, code.add(position, r * per_channel)), lanes)

            def read_image(c: int, position: Index) -> Value:
                y, v = columns[c]
                moved = v * lanes + (y * moves[-2] if high > 1 else 0)
                return code.load(task.image_buffer, code.add(position, moved), lanes, masks[v])

            acc = accumulate(code, axes, read_weights, read_image, zeros(code, tall, len(columns), dtype, lanes), weights_at, at)
            for r, line in enumerate(acc):
                for (y, v), value in zip(columns, line, strict=True):
                    code.store(
                        value,
                        tile,
                        code.add(to, r * strides[0] + v * lanes + (y * places[-2] if high > 1 else 0)),
                        None,
                        lanes * dtype.bytes,
                    )

        def row(tall: int, at: Index, to: Index, high: int) -> None:
            step = self.across * lanes
            full, rest = divmod(extents[-1], step)
            if full:
                tile_rows(
                    code,
                    full,
                    [1],
                    lambda i, _: sums(tall, code.add(at, code.mul(i, step)), code.add(to, code.mul(i, step)), high, step, self.across),
                )
            if rest:
                sums(tall, code.add(at, full * step), code.add(to, full * step), high, rest, -(-rest // lanes))

        def nest(tall: int, axis: int, at: Index, to: Index) -> None:
            if axis + 1 == len(extents):
                row(tall, at, to, 1)
                return

            def inner(start: Index, size: int) -> None:
                here, there = code.add(at, code.mul(start, moves[axis])), code.add(to, code.mul(start, places[axis]))
                if axis + 2 == len(extents):
                    row(tall, here, there, size)
                else:
                    nest(tall, axis + 1, here, there)

            size = self.high if axis + 2 == len(extents) else 1
            tile_rows(code, extents[axis], tile_heights(size, extents[axis]), inner, self.image.spatial[axis])

        image_at = task.image_at()
        if whole % self.tall == 0:
            nest(self.tall, 0, image_at, 0)
        else:
            inside = code.condition("le", code.add(task.channel0, self.tall), whole)
            assert isinstance(inside, Value)
            with code.when(inside):
                nest(self.tall, 0, image_at, 0)
            with code.when(inside, then=False):
                nest(whole % self.tall, 0, image_at, 0)
        return tile
