"""Flash kernels by multiply and add: float32 as exact as elsewhere, and 16-bit operands on devices whose tensor cores do not take them.

A warp has rows of its own, four threads deep, and all columns of a tile, eight threads wide. The products of scores read both tiles along
the depth, four elements at once. Weights go through shared memory to the threads that have other columns of their rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.ir.core import Value
from polyreme.ir.types import ScalarType, f32
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gpu.flash_kernel import FlashKernel, FlashSchedule, Segment, Weights
from polyreme.lowering.kernels.gpu.flash_problem import Flash, Side
from polyreme.lowering.kernels.gpu.tiles import LANES
from polyreme.lowering.machines.gpu import FLASH_AT_ONCE, FLASH_DEEP, FLASH_WIDE, WARP


def registers(p: Flash, rows: int, warps: int, keys: int) -> int:
    """About how many registers a thread needs."""
    tall, wide = rows // (warps * FLASH_DEEP), keys // FLASH_WIDE
    sums = sum(-(-p.room(s.columns.inner) // (FLASH_WIDE * LANES)) * LANES for s in p.sums)
    return tall * sums + len(p.scores) * tall * wide + 8 * (tall + wide) + 48


def weight_bytes(p: Flash, rows: int, keys: int) -> int:
    """Shared memory for weights."""
    return len(p.sums) * rows * (keys + LANES) * f32.bytes


class ThreadFlash(FlashKernel):
    what = "flash_fma"
    unit = FLASH_WIDE * LANES
    padding = LANES
    neighbours = (1, 2, 4)

    def __init__(self, p: Flash, schedule: FlashSchedule):
        super().__init__(p, schedule)
        self.tall = schedule.rows // (schedule.warps * FLASH_DEEP)
        self.wide = schedule.keys // FLASH_WIDE

    @property
    def stored(self) -> ScalarType:
        return f32

    @property
    def shared_bytes(self) -> int:
        return super().shared_bytes + weight_bytes(self.p, self.schedule.rows, self.schedule.keys)

    def open(self) -> None:
        code = self.code
        lane = code.mod(self.thread, WARP)
        self.down = code.add(code.mul(code.div(self.thread, WARP), self.tall * FLASH_DEEP), code.div(lane, FLASH_WIDE))
        self.across = code.mod(lane, FLASH_WIDE)
        self.line = self.schedule.keys + LANES
        self.boards = [self.kernel.shared(self.schedule.rows * self.line, f32) for _ in self.p.sums]

    def _rows(self) -> list[Index]:
        """Within the block."""
        return [self.code.add(self.down, FLASH_DEEP * i) for i in range(self.tall)]

    def places(self) -> tuple[list[Index], list[Index]]:
        code = self.code
        return [code.add(self.row0, r) for r in self._rows()], [code.add(self.across, FLASH_WIDE * j) for j in range(self.wide)]

    def start(self) -> list[Value]:
        code = self.code
        count = sum(self.tall * self.streamed[s.columns].width // (FLASH_WIDE * LANES) for s in self.p.sums)
        sums = [code.zero(f32, LANES) for _ in range(count)]
        if not self.p.online:
            return sums
        return [*[self.low()] * self.tall, *[code.constant(0.0, f32)] * self.tall, *sums]

    def _scores(self, rows: Side, columns: Side) -> Weights:
        code, left, right = self.code, self.resident[rows], self.streamed[columns]
        sums = [code.constant(0.0, f32)] * (self.tall * self.wide)
        # No more than there is: what is behind the operand's own elements is zeros.
        depth = -(-left.size // LANES) * LANES
        step = next(n for n in (FLASH_AT_ONCE, 8, LANES) if depth % n == 0)
        with code.loop(0, depth, sums, step=step, name="d") as loop:
            sums = list(loop.carried)
            for d in range(0, step, LANES):
                at = code.add(loop.iv, d)
                a = [code.load(left.board, left.at(r, at), LANES, align=16) for r in self._rows()]
                b = [code.load(right.board, right.at(code.add(self.across, FLASH_WIDE * j), at), LANES, align=16) for j in range(self.wide)]
                for e in range(LANES):
                    xs, ys = [code.extract(x, e) for x in a], [code.extract(y, e) for y in b]
                    for i, x in enumerate(xs):
                        for j, y in enumerate(ys):
                            sums[i * self.wide + j] = code.fma(x, y, sums[i * self.wide + j])
            loop.next = sums
        return {(i, j): loop.results[i * self.wide + j] for i in range(self.tall) for j in range(self.wide)}

    def _lay_down(self, weights: Weights, y: int) -> None:
        code = self.code
        for i, r in enumerate(self._rows()):
            for j in range(self.wide):
                code.store(weights[i, j], self.boards[y], code.add(code.mul(r, self.line), self.across, FLASH_WIDE * j))

    def _add_up(self, y: int, columns: Side, sums: Sequence[Value]) -> list[Value]:
        code, tile = self.code, self.streamed[columns]
        vectors = tile.width // (FLASH_WIDE * LANES)
        mine = code.mul(self.across, LANES)
        with code.loop(0, self.schedule.keys, list(sums), step=LANES, name="c") as loop:
            made = list(loop.carried)
            weights = [code.load(self.boards[y], code.add(code.mul(r, self.line), loop.iv), LANES, align=16) for r in self._rows()]
            for e in range(LANES):
                at = code.add(loop.iv, e)
                right = [
                    code.load(tile.board, tile.at(at, code.add(mine, FLASH_WIDE * LANES * n)), LANES, align=16) for n in range(vectors)
                ]
                for i, weight in enumerate(weights):
                    each = code.broadcast(code.extract(weight, e), LANES)
                    for n in range(vectors):
                        made[i * vectors + n] = code.fma(each, right[n], made[i * vectors + n])
            loop.next = made
        return loop.results

    def step(self, first: Value, carried: list[Value], segment: Segment) -> list[Value]:
        code, p, tall = self.code, self.p, self.tall
        scored = [self._scores(s.rows, s.columns) for s in p.scores]
        head: list[Value] = []
        if p.online:
            peaks, totals, sums = carried[:tall], carried[tall : 2 * tall], carried[2 * tall :]
            (numbers,) = self.weigh(first, scored, [p.masked], segment)
            if segment.tail:
                inside = self.inside(first)
                numbers = {(i, j): code.apply("select", inside[j], x, self.low()) for (i, j), x in numbers.items()}
            weights, peaks, totals, factors = self.soften(tall, self.wide, numbers, peaks, totals, self.neighbours)
            vectors = len(sums) // tall
            sums = [code.apply("mul", x, code.broadcast(factors[i // vectors], LANES)) for i, x in enumerate(sums)]
            each, head = [weights], [*peaks, *totals]
        else:
            sums = carried
            each = self.weigh(first, scored, [s.weights for s in p.sums if s.weights is not None], segment)
            if segment.tail:
                inside, zero = self.inside(first), code.constant(0.0, f32)
                each = [{(i, j): code.apply("select", inside[j], x, zero) for (i, j), x in numbers.items()} for numbers in each]
        for y, numbers in enumerate(each):
            self._lay_down(numbers, y)
        self.kernel.barrier()
        made: list[Value] = []
        for y, s in enumerate(p.sums):
            count = tall * self.streamed[s.columns].width // (FLASH_WIDE * LANES)
            made += self._add_up(y, s.columns, sums[len(made) : len(made) + count])
        return [*head, *made]

    def finish(self, carried: list[Value]) -> None:
        code, p, tall = self.code, self.p, self.tall
        rows = [code.value(r) for r in self.places()[0]]
        inverses: list[Value] = []
        if p.online:
            for i in range(tall):
                inverse, kept = self.close(carried[i], carried[tall + i], self.neighbours)
                inverses.append(inverse)
                if p.kept is not None:
                    self.store_kept(rows[i], kept, code.condition("eq", self.across, 0))
            carried = carried[2 * tall :]
        for y, s in enumerate(p.sums):
            vectors = self.streamed[s.columns].width // (FLASH_WIDE * LANES)
            for i in range(tall):
                for n in range(vectors):
                    values = [code.extract(carried[i * vectors + n], e) for e in range(LANES)]
                    if inverses:
                        values = [code.apply("mul", x, inverses[i]) for x in values]
                    self.store_sum(y, rows[i], code.add(code.mul(self.across, LANES), FLASH_WIDE * LANES * n), values)
            carried = carried[tall * vectors :]
