"""Flash kernels on tensor cores: 16-bit operands, sums in float32.

A warp has 16 rows, or twice as many, and all columns of a tile. Scores stay in the registers in which `mma` leaves them: lane 4g + t has
columns 2t and 2t + 1 of rows g and g + 8 of each 16 x 8. Two of these side by side are, rounded to 16 bits, what the next `mma` takes as
its left operand; so weights are never in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import kernel
from polyreme.ir.core import Value
from polyreme.ir.types import element_type, f32
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gpu.flash_kernel import FlashKernel, Lines, Segment, Weights
from polyreme.lowering.kernels.gpu.flash_problem import Flash, Side
from polyreme.lowering.machines.gpu import FLASH_KEPT_REGISTERS, MMA_COLUMNS, MMA_DEPTH, MMA_ROWS, MMA_SUMS, WARP


def rows_of_warp(rows: int, warps: int) -> int:
    """How many times 16 rows a warp has."""
    return rows // (warps * MMA_ROWS)


def registers(p: Flash, rows: int, warps: int, keys: int) -> int:
    """About how many registers a thread needs."""
    high = rows_of_warp(rows, warps)
    sums = sum(-(-p.room(s.columns.inner) // MMA_DEPTH) * MMA_DEPTH // 2 for s in p.sums)
    return high * (sums + len(p.scores) * keys // 2 + keys // 4) + kept_registers(p, high) + 48


def kept_registers(p: Flash, high: int) -> int:
    """Registers of left operands that stay in them through the loop; 0 where these are too many."""
    wanted = sum(high * -(-p.room(s.inner) // MMA_DEPTH) * 4 for s in p.resident)
    return wanted if wanted <= FLASH_KEPT_REGISTERS and len(p.sums) == 1 else 0


class WarpFlash(FlashKernel):
    what = "flash"
    unit = MMA_DEPTH
    # So that the 8 lines that one instruction loads fill different banks.
    padding = 8
    uses_fast = True
    neighbours = (1, 2)

    def open(self) -> None:
        code = self.code
        self.high = rows_of_warp(self.schedule.rows, self.schedule.warps)
        self.pieces = self.schedule.keys // MMA_COLUMNS
        self.lane = code.mod(self.thread, WARP)
        self.first_row = code.mul(code.div(self.thread, WARP), self.high * MMA_ROWS)
        self.group, self.pair = code.div(self.lane, 4), code.mul(code.mod(self.lane, 4), 2)
        self.kept: dict[tuple[Side, int, int], Value] = {}
        self.prepares = kept_registers(self.p, self.high) > 0

    def prepare(self) -> None:
        for side, tile in self.resident.items():
            for m in range(self.high):
                for d in range(0, tile.width, MMA_DEPTH):
                    self.kept[side, m, d] = self._left(tile, m, d)

    def places(self) -> tuple[list[Index], list[Index]]:
        code = self.code
        mine = code.add(self.row0, self.first_row, self.group)
        rows = [code.add(mine, m * MMA_ROWS + 8 * r) for m in range(self.high) for r in range(2)]
        return rows, [code.add(self.pair, j * MMA_COLUMNS + e) for j in range(self.pieces) for e in range(2)]

    # --- matrices from shared memory

    def _matrices(self, tile: Lines, line: Index, inner: Index, lines_first: bool, transpose: bool = False) -> Value:
        """Four matrices of 8 x 8 of 16 lines from `line` on and 16 elements from `inner` on; the second one follows the first along the
        lines, or along the elements.
        """
        code = self.code
        lane = code.value(self.lane)
        second, third = code.mul(code.mod(code.div(lane, 8), 2), 8), code.mul(code.div(lane, 16), 8)
        down, across = (second, third) if lines_first else (third, second)
        at = tile.at(code.add(line, down, code.mod(lane, 8)), code.add(inner, across))
        value: Value = code.b(kernel.LoadMatrix, tile.board, code.value(at), count=4, transpose=transpose)
        return code.reinterpret(value, self.stored) if element_type(value.type) != self.stored else value

    def _left(self, tile: Lines, m: int, d: int) -> Value:
        return self._matrices(tile, self.code.add(self.first_row, m * MMA_ROWS), d, True)

    def _halves(self, pair: Value) -> list[Value]:
        return [self.code.shuffle(pair, pair, picks) for picks in ((0, 1, 2, 3), (4, 5, 6, 7))]

    # --- the kernel

    def start(self) -> list[Value]:
        code = self.code
        sums = [code.zero(f32, MMA_SUMS) for s in self.p.sums for _ in range(self.high * self.streamed[s.columns].width // MMA_COLUMNS)]
        if not self.p.online:
            return sums
        count = 2 * self.high
        return [*[self.low()] * count, *[code.constant(0.0, f32)] * count, *sums]

    def _scores(self, rows: Side, columns: Side) -> Weights:
        code, resident, streamed = self.code, self.resident[rows], self.streamed[columns]
        sums = [[code.zero(f32, MMA_SUMS) for _ in range(self.pieces)] for _ in range(self.high)]
        for d in range(0, streamed.width, MMA_DEPTH):
            left = [self.kept.get((rows, m, d)) or self._left(resident, m, d) for m in range(self.high)]
            for j in range(0, self.pieces, 2):
                right = self._halves(self._matrices(streamed, j * MMA_COLUMNS, d, False))
                for m in range(self.high):
                    for e in range(2):
                        sums[m][j + e] = code.b(kernel.Mma, left[m], right[e], sums[m][j + e])
        return {
            (2 * m + r, 2 * j + e): code.extract(sums[m][j], 2 * r + e)
            for m in range(self.high)
            for j in range(self.pieces)
            for r in range(2)
            for e in range(2)
        }

    def _packed(self, weights: Weights) -> list[list[Value]]:
        """For each 16 rows and each 16 columns of the weights, the left operand of a product."""
        code, packed = self.code, []
        for m in range(self.high):
            line = []
            for j in range(0, self.pieces, 2):
                vector = code.zero(f32, 8)
                for i, (r, column) in enumerate((r, 2 * (j + h) + e) for h in range(2) for r in range(2) for e in range(2)):
                    vector = code.insert(vector, weights[2 * m + r, column], i)
                line.append(code.apply("cast", vector, dtype=self.stored))
            packed.append(line)
        return packed

    def _add_up(self, weights: Weights, columns: Side, sums: Sequence[Value]) -> list[Value]:
        code, tile = self.code, self.streamed[columns]
        across = tile.width // MMA_COLUMNS
        packed, made = self._packed(weights), list(sums)
        for k in range(self.pieces // 2):
            for n in range(0, across, 2):
                right = self._halves(self._matrices(tile, k * MMA_DEPTH, n * MMA_COLUMNS, True, transpose=True))
                for m in range(self.high):
                    for e in range(2):
                        at = m * across + n + e
                        made[at] = code.b(kernel.Mma, packed[m][k], right[e], made[at])
        return made

    def step(self, first: Value, carried: list[Value], segment: Segment) -> list[Value]:
        code, p = self.code, self.p
        scored = [self._scores(s.rows, s.columns) for s in p.scores]
        if p.online:
            count = 2 * self.high
            peaks, totals, sums = carried[:count], carried[count : 2 * count], carried[2 * count :]
            (numbers,) = self.weigh(first, scored, [p.masked], segment)
            if segment.tail:
                inside = self.inside(first)
                numbers = {(i, j): code.apply("select", inside[j], x, self.low()) for (i, j), x in numbers.items()}
            weights, peaks, totals, factors = self.soften(count, 2 * self.pieces, numbers, peaks, totals, self.neighbours)
            across = len(sums) // self.high
            scaled = []
            for i, x in enumerate(sums):
                m = i // across
                pair = code.zero(f32, MMA_SUMS)
                for e in range(MMA_SUMS):
                    pair = code.insert(pair, factors[2 * m + e // 2], e)
                scaled.append(code.apply("mul", x, pair))
            return [*peaks, *totals, *self._add_up(weights, p.sums[0].columns, scaled)]
        wanted = [s.weights for s in p.sums if s.weights is not None]
        each = self.weigh(first, scored, wanted, segment)
        made: list[Value] = []
        for s, numbers in zip(p.sums, each, strict=True):
            if segment.tail:
                inside, zero = self.inside(first), code.constant(0.0, f32)
                numbers = {(i, j): code.apply("select", inside[j], x, zero) for (i, j), x in numbers.items()}
            count = self.high * self.streamed[s.columns].width // MMA_COLUMNS
            made += self._add_up(numbers, s.columns, carried[len(made) : len(made) + count])
        return made

    def finish(self, carried: list[Value]) -> None:
        code, p = self.code, self.p
        rows = [code.value(r) for r in self.places()[0]]
        inverses: list[Value] = []
        if p.online:
            count = 2 * self.high
            for i in range(count):
                inverse, kept = self.close(carried[i], carried[count + i], self.neighbours)
                inverses.append(inverse)
                if p.kept is not None:
                    self.store_kept(rows[i], kept, truth_of_first(self))
            carried = carried[2 * count :]
        for y, s in enumerate(p.sums):
            across = self.streamed[s.columns].width // MMA_COLUMNS
            for m in range(self.high):
                for n in range(across):
                    piece = carried[m * across + n]
                    for r in range(2):
                        pair = [code.extract(piece, 2 * r + e) for e in range(2)]
                        if inverses:
                            pair = [code.apply("mul", x, inverses[2 * m + r]) for x in pair]
                        self.store_sum(y, rows[2 * m + r], code.add(self.pair, n * MMA_COLUMNS), pair)
            carried = carried[self.high * across :]


def truth_of_first(made: WarpFlash) -> bool | Value:
    """On for the one of the lanes of a row that stores what a row has once."""
    return made.code.condition("eq", made.pair, 0)
