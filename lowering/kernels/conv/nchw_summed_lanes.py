"""NCHW convolutions with lanes along what is summed: for gradients of the weights of a depthwise convolution.

Their result is a window of a few numbers for each channel, and each of these sums up a whole image. So a vector is a piece of a row that is
summed, and each element of the window has an accumulator, whose lanes are added up at the end:

    acc[m][n] += image[y * stride + m][x * stride + n] * gradient[y][x]        for all m and n, x being the lanes

What of the image lies under neighbouring lanes is two pixels apart where the windows are. It is loaded as it lies, and parted into even and
odd pixels, which two accumulators share.
"""

from __future__ import annotations

from math import prod

from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.conv.nchw_strategy import NchwImage, Strategy, SummedTile, Task, dense_strides
from polyreme.lowering.kernels.microkernel import Accumulators, Axis, join_axes, nest_steps, step_cycles, tile_heights, tile_rows, zeros
from polyreme.lowering.kernels.plan import Slot
from polyreme.lowering.machines.functions import LATENCY_OF_SIMPLE

# The largest distance of pixels under neighbouring lanes.
MOST_APART = 2


def summed_tile(image: NchwImage) -> SummedTile:
    """As many rows of the window as have their accumulators in registers, all tiles of about as many."""
    extents = image.sizes()
    most = max(1, image.problem.registers.accumulators // extents[-1])
    high = extents[-2] if len(extents) > 1 else 1
    return SummedTile(-(-high // -(-high // most)))


class SummedLanes(Strategy):
    """Lanes along the last contracted letter: a tile is some rows of the window, of one channel."""

    def __init__(self, image: NchwImage, tile: SummedTile):
        super().__init__(image)
        self.tile, self.high, p = tile, tile.high, self.p
        self.letter = next((c for c in reversed(p.contracted) if p.right.stride(c) == 1 and p.size(c) != 1), None)
        self.apart = 0 if self.letter is None else p.left.stride(self.letter)
        self.summed: Dim = 1 if self.letter is None else p.size(self.letter)
        if isinstance(self.summed, int):
            self.lanes = min(self.lanes, 1 << (self.summed - 1).bit_length())
        # Elements of a row and vectors of it, or numbers to reckon with.
        self.row = max(1, estimate(self.summed))
        self.vectors = -(-self.row // self.lanes)

    @classmethod
    def of(cls, image: NchwImage, tile: SummedTile | None = None) -> SummedLanes | None:
        """What is chosen for an image, with this tile if it is given; None where it is not possible."""
        made = cls(image, tile or summed_tile(image))
        return made if made.is_possible() else None

    def is_possible(self) -> bool:
        return (
            self.image.channel is None
            and self.letter is not None
            and isinstance(self.apart, int)
            and 1 <= self.apart <= MOST_APART
            and self.p.request.target.masked
            and self.lanes > 1
            and self.high * self.extents[-1] <= self.p.registers.accumulators
            and self.p.left.stride(self.image.spatial[-1]) == 1
            and super().is_possible()
        )

    def channels_at_once(self) -> int:
        return 1

    def cycles(self) -> float:
        sums = prod(self.extents)
        # The lanes of each accumulator are added up, half of them at a time.
        sums_cycles = sums * LATENCY_OF_SIMPLE * (self.lanes - 1).bit_length()
        # A load and, where pixels are apart, a shuffle for each accumulator.
        return self.k / self.row * self.vectors * sums / (self.high * self.extents[-1]) * self._step_cycles() + sums_cycles

    def _step_cycles(self) -> float:
        return step_cycles(1, self.high * self.extents[-1]) * (1 if self.apart == 1 else MOST_APART)

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        sizes = (rows, *self.extents[1:])
        return prod(sizes), *dense_strides(sizes)

    def scratch_bytes(self, rows: int) -> int:
        return self.tile_strides(rows)[0] * self.p.dtype.bytes

    def operands(self) -> tuple[Slot, Slot]:
        return self.parts.memory_of(self.p.left.source), self.parts.memory_of(self.p.right.source)

    def fill(self, task: Task) -> Value:
        code, p, dtype = task.code, self.p, self.p.dtype
        strides = self.tile_strides(task.rows)
        tile = code.scratch(strides[0], dtype)
        extents, places = [task.rows, *self.extents[1:]], strides[1:]
        moves = [p.left.stride(c) for c in self.image.spatial]
        weights_at = code.add(p.right.base, *(code.mul(i, p.right.stride(c)) for c, i in task.around.items()))
        axes = join_axes([Axis(p.size(c), p.right.stride(c), p.left.stride(c)) for c in p.contracted if c != self.letter])

        def window(at: Index, to: Index, high: int) -> None:
            """The sums of some rows of the window."""
            acc = zeros(code, high, extents[-1], dtype, self.lanes)
            row_move = moves[-2] if len(moves) > 1 else 0
            acc = nest_steps(code, axes, lambda acc, a, b: self._row(task, acc, a, b, row_move), acc, weights_at, at, self.vectors)
            for y, line in enumerate(acc):
                for x, lanes in enumerate(line):
                    code.store(code.reduce(lanes), tile, code.add(to, x + (y * places[-2] if high > 1 else 0)))

        def nest(axis: int, at: Index, to: Index) -> None:
            if axis + 1 == len(extents):
                window(at, to, 1)
                return

            def inner(start: Index, size: int) -> None:
                here, there = code.add(at, code.mul(start, moves[axis])), code.add(to, code.mul(start, places[axis]))
                if axis + 2 == len(extents):
                    window(here, there, size)
                else:
                    nest(axis + 1, here, there)

            size = self.high if axis + 2 == len(extents) else 1
            tile_rows(code, extents[axis], tile_heights(size, extents[axis]), inner, self.image.spatial[axis])

        nest(0, task.image_at(), 0)
        return tile

    def _row(self, task: Task, acc: Accumulators, at_a: Index, at_b: Index, row_move: Dim) -> Accumulators:
        """The accumulators with the products of a row that is summed."""
        code, lanes, width = task.code, self.lanes, len(acc[0])
        whole = code.mul(code.div(self.summed, lanes), lanes)
        rest = code.sub(self.summed, whole)
        if isinstance(whole, int) and whole <= lanes:
            acc = self._step(task, acc, at_a, at_b, row_move, lanes) if whole else acc
        else:
            with code.loop(0, whole, [x for line in acc for x in line], step=lanes, name="x") as loop:
                carried = [loop.carried[i : i + width] for i in range(0, len(loop.carried), width)]
                here = code.add(at_a, loop.iv), code.add(at_b, code.mul(loop.iv, self.apart))
                loop.next = [x for line in self._step(task, carried, *here, row_move, lanes) for x in line]
            acc = [loop.results[i : i + width] for i in range(0, len(loop.results), width)]
        if rest == 0:
            return acc
        return self._step(task, acc, code.add(at_a, whole), code.add(at_b, code.mul(whole, self.apart)), row_move, rest)

    def _step(self, task: Task, acc: Accumulators, at_a: Index, at_b: Index, row_move: Dim, count: Index) -> Accumulators:
        """The accumulators with the products of `count` pixels, at most a vector."""
        code, lanes = task.code, self.lanes
        factor = code.load(task.weights, at_a, lanes, code.lane_mask(count, lanes))
        masks: dict[Index, Value | None] = {}

        def pixels(at: Index, valid: Index) -> Value:
            """A vector of the image, of whose elements the first `valid` are read."""
            if valid not in masks:
                masks[valid] = code.lane_mask(valid, lanes)
            return code.load(task.image_buffer, at, lanes, masks[valid])

        made: Accumulators = []
        for y, line in enumerate(acc):
            row = code.add(at_b, code.mul(y, row_move))
            if self.apart == 1:
                images = [pixels(code.add(row, x), count) for x in range(len(line))]
            else:
                images = []
                for x in range(0, len(line), 2):
                    # The last pixel that is read is odd if an odd one is wanted.
                    wanted = line[x : x + 2]
                    valid = code.add(code.mul(count, 2), len(wanted) - 2)
                    pair = pixels(code.add(row, x), valid), pixels(code.add(row, x + lanes), code.sub(valid, lanes))
                    images += [code.shuffle(*pair, [2 * lane + odd for lane in range(lanes)]) for odd in range(len(wanted))]
            made.append([code.multiply_add(factor, image, sums) for image, sums in zip(images, line, strict=True)])
        return made
