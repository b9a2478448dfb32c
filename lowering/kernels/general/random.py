"""Random draws: the kernel of `tensor.random`, the Mersenne twister of `dialects/mt19937.py` word for word.

The state is copied to where the new one goes, and stepped there. When its words are used up they are all renewed, in vectors. Each word
gives one draw. Draws follow one another, so the kernel runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

import numpy as np

from polyreme.dialects import tensor
from polyreme.dialects.mt19937 import HALF, LOWER, MATRIX, STATE_WORDS, UPPER, WORDS
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, f32, f64, index, u64
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import convert
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, vector_loop
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.instructions import WIDEST_BYTES

# Each of the words of a half is made from words of the other half, so whole vectors of them are independent: as many lanes as the widest
# have, if halves are whole ones.
LANES = gcd(WIDEST_BYTES // u64.bytes, HALF)


@dataclass(frozen=True)
class RandomSchedule(Schedule, kind="random"):
    """Words are made so many `lanes` at a time."""

    lanes: int


@dataclass(frozen=True)
class Draw:
    """A root that is one `tensor.random`."""

    request: Request
    op: tensor.Random


def find_draw(request: Request) -> Draw | None:
    """The single `tensor.random` that a root is; None for any other root."""
    op = request.single(tensor.Random)
    return None if op is None else Draw(request, op)


def choose_random(found: Draw) -> RandomSchedule:
    """As many lanes on every machine."""
    return RandomSchedule(LANES)


def fit_random(found: Draw, schedule: RandomSchedule) -> None:
    """`ScheduleError` unless the words of a half are whole vectors."""
    if schedule.lanes < 1 or HALF % schedule.lanes:
        raise ScheduleError(f"expected lanes that divide {HALF}, such as {LANES}, but got lanes = {schedule.lanes}")


def write_random(found: Draw, schedule: RandomSchedule) -> KernelPlan:
    """The plan of draws as their schedule says."""
    request, op = found.request, found.op
    types = [BufferType(t.shape, t.dtype) for t in (request.func.args[0].type, op.results[0].type, op.results[1].type)]
    func = Func.empty(request.name("random"), types, arg_names=("state", "values", "next_state"), loc=op.location)
    code = Code(Builder.at_end(func.block, op.location))
    twister = Twister(code, *func.args)
    twister.lanes = schedule.lanes
    twister.draw(op, code.value(product(op.shape)))
    code.b(Return, ())
    return KernelPlan((Step(clean_up_kernel(func), (operand(0), result(0), result(1))),))


build_random = Way("random", RandomSchedule, find_draw, choose_random, write_random, fit_random)


class Twister:
    """Writes the draws with vectors on one thread; `_fill` is the loop, which other machines have in other forms."""

    # Words that are made together.
    lanes = 1

    def __init__(self, code: Code, state: Value, values: Value, following: Value):
        self.code, self.state, self.values, self.words = code, state, values, following

    def draw(self, op: tensor.Random, count: Value) -> None:
        """Fill `values` with `count` draws, a batch of words at a time."""
        code = self.code
        self._fill(self.words, 0, STATE_WORDS, 0, lambda at, lanes: code.load(self.state, at, lanes))
        used = code.apply("cast", code.load(self.state, WORDS), dtype=index)
        # A state from outside may hold any number here.
        used = code.apply("max", code.apply("min", used, code.constant(WORDS, index)), code.constant(0, index))
        # The words left first, then as many whole or last batches as it takes.
        left = code.min(code.sub(WORDS, used), count)
        self._take(op, used, 0, left)
        missing = code.sub(count, left)
        batches = code.div(code.add(missing, WORDS - 1), WORDS)
        with code.loop(0, batches, [], name="batch") as loop:
            self._renew()
            done = code.mul(loop.iv, WORDS)
            self._take(op, 0, code.add(left, done), code.min(code.sub(missing, done), WORDS))
        last = code.sub(missing, code.mul(code.sub(batches, 1), WORDS))
        renewed = code.apply("gt", code.value(missing), code.constant(0, index))
        now = code.apply("select", renewed, code.value(last), code.value(code.add(used, left)))
        self._once(code.apply("cast", now, dtype=u64), self.words, WORDS)

    def _fill(self, buffer: Value, lo: Index, hi: Index, to: Index, element: Callable[[Index, int], Value]) -> None:
        """buffer[to + k] = element(k) for k in [lo, hi), one after the other as far as elements read the buffer ahead of what is written.
        """
        code = self.code

        def body(at: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            k = at.scalar(code)
            code.store(element(k, lanes), buffer, code.add(to, k))
            return carried

        vector_loop(code, lo, hi, Lanes(self.lanes, False), [], body)

    def _once(self, x: Value, buffer: Value, at: Index) -> None:
        """Store a single element."""
        self.code.store(x, buffer, at)

    def _constant(self, value: int, lanes: int) -> Value:
        return self.code.broadcast(self.code.constant(value, u64), lanes)

    def _renew(self) -> None:
        """All 312 words anew: the first half from old words, the second from both, the last word from the first."""
        code = self.code
        for lo, hi, far in ((0, HALF, HALF), (HALF, WORDS - 1, -HALF)):

            def fresh(here: Index, lanes: int, far: int = far) -> Value:
                return self._mix(
                    code.load(self.words, here, lanes),
                    code.load(self.words, code.add(here, 1), lanes),
                    code.load(self.words, code.add(here, far), lanes),
                    lanes,
                )

            self._fill(self.words, lo, hi, 0, fresh)
        last = self._mix(code.load(self.words, WORDS - 1), code.load(self.words, 0), code.load(self.words, HALF - 1), 1)
        self._once(last, self.words, WORDS - 1)

    def _mix(self, current: Value, following: Value, far: Value, lanes: int) -> Value:
        code = self.code
        upper, lower = (self._constant(int(mask), lanes) for mask in (UPPER, LOWER))
        y = code.apply("or", code.apply("and", current, upper), code.apply("and", following, lower))
        odd = code.apply("ne", code.apply("and", y, self._constant(1, lanes)), self._constant(0, lanes))
        matrix = code.apply("select", odd, self._constant(int(MATRIX), lanes), self._constant(0, lanes))
        return code.apply("xor", code.apply("xor", far, code.apply("shr", y, self._constant(1, lanes))), matrix)

    def _take(self, op: tensor.Random, first: Index, to: Index, count: Index) -> None:
        """`count` words from `first` on as values from `to` on."""
        code = self.code

        def value(k: Index, lanes: int) -> Value:
            word = self._temper(code.load(self.words, code.add(first, k), lanes), lanes)
            dtype: ScalarType = op.dtype
            return convert(code, _uniform(code, word, op, lanes), dtype)

        self._fill(self.values, 0, count, to, value)

    def _temper(self, x: Value, lanes: int) -> Value:
        code = self.code
        steps = (("shr", 29, 0x5555555555555555), ("shl", 17, 0x71D67FFFEDA60000), ("shl", 37, 0xFFF7EEE000000000), ("shr", 43, None))
        for fn, bits, mask in steps:
            moved = code.apply(fn, x, self._constant(bits, lanes))
            if mask is not None:
                moved = code.apply("and", moved, self._constant(mask, lanes))
            x = code.apply("xor", x, moved)
        return x


def _uniform(code: Code, word: Value, op: tensor.Random, lanes: int) -> Value:
    """A word as a number in [low, high), rounded at each step as `mt19937.uniform` rounds."""
    working = f64 if op.dtype == f64 else f32
    kind = working.np.type

    def constant(value: float) -> Value:
        return code.broadcast(code.constant(float(value), working), lanes)

    unit = code.apply("div", code.apply("cast", word, dtype=working), constant(2.0**64))
    unit = code.apply("min", unit, constant(np.nextafter(kind(1), kind(0))))
    low, high = kind(op.low), kind(op.high)
    return code.apply("add", code.apply("mul", unit, constant(high - low)), constant(low))
