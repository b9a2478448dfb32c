"""The kernel of `tensor.argsort`: a radix sort of each row, or a selection if only the first few positions are wanted.

Both compare keys: unsigned integers in the order of the elements, with every nan the largest and both zeros equal. Descending order
complements the keys, so equal elements keep their order either way.

The radix sort goes by bytes from the lowest to the highest (LSD; Knuth, The Art of Computer Programming, volume 3, 5.2.5). One pass counts
all bytes of all keys. Then each byte moves keys and positions from one half of scratch memory to the other. A byte that all keys of a row
share moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, log

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, Expr, maximum, minimum, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, element_type, i32, i64, index, u8, u16, u32, u64
from polyreme.lowering.analysis.estimates import ASSUMED, estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, NestSchedule, choose_nest, is_like, vector_loop, write_nest
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result, scratch
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.cost import Work, busy_cycles
from polyreme.lowering.machines.functions import LATENCY
from polyreme.lowering.machines.memory import STACK_BYTES
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import ENOUGH_ITERATIONS

# Values of a byte, by which a radix sort counts.
BYTE = 256

_WORDS = {8: u8, 16: u16, 32: u32, 64: u64}


@dataclass(frozen=True)
class SortSchedule(Schedule, kind="sort"):
    """A walk that keeps the first few (`walk`), or a radix sort with memory for so many `tasks`. `nest` says how threads share rows, or
    tasks.
    """

    walk: bool = False
    tasks: int = 0
    nest: NestSchedule | None = None


@dataclass(frozen=True)
class Sorted:
    """A root that is one `tensor.argsort`."""

    request: Request
    op: tensor.Argsort

    @property
    def outer(self) -> list[Dim]:
        """Axes of which each place has a row."""
        return list(shape_of(self.op.x)[:-1])

    @property
    def length(self) -> Dim:
        return shape_of(self.op.x)[-1]

    @property
    def taken(self) -> Dim:
        """Positions of a row that are wanted."""
        return shape_of(self.op.result)[-1]

    @property
    def keys(self) -> Keys:
        return Keys(element_type(self.op.x.type), self.op.descending)

    @property
    def usual_length(self) -> int:
        """The length of a row to plan with: of one that is not known most elements are left out."""
        return self.length if isinstance(self.length, int) else ASSUMED.size * max(self.op.count or 1, 1)

    @property
    def may_walk(self) -> bool:
        """Whether only some positions are wanted, and the stack has room for them and for their keys."""
        count = self.op.count
        return count is not None and count * (self.keys.word.bytes + i64.bytes) <= STACK_BYTES

    def tasks(self, most: int) -> Dim:
        """Tasks of a radix sort, of which each has memory of its own."""
        return maximum(minimum(product(self.outer), most), 1)

    def memory(self, schedule: SortSchedule) -> tuple[BufferType, ...]:
        """Scratch memory of a radix sort, for keys and places."""
        count = 2 * self.tasks(schedule.tasks) * self.length
        return () if schedule.walk else (BufferType((count,), self.keys.word), BufferType((count,), i32))

    def types(self, schedule: SortSchedule) -> list[BufferType]:
        """Of operand, result and scratch memory."""
        read = BufferType((product((*self.outer, self.length)),), element_type(self.op.x.type))
        return [read, BufferType((product((*self.outer, self.taken)),), i64), *self.memory(schedule)]


def find_sorted(request: Request) -> Sorted | None:
    """The single `tensor.argsort` that a root is; None for any other root."""
    op = request.single(tensor.Argsort)
    return None if op is None else Sorted(request, op)


def choose_sort(found: Sorted) -> SortSchedule:
    """A walk where it is estimated to take less than a sort, which is for the first few of long rows."""
    return _schedule(found, found.may_walk and walk_cycles(found) < radix_cycles(found))


def walk_cycles(found: Sorted) -> float:
    """Cycles of a walk along a row whose elements come in any order.

    The first ones are inserted among those before; a later one at place i is among the `count` best of those so far with a chance of
    count / i. To insert one, all that are kept are read and written, with their positions.
    """
    target, count, length, lanes = found.request.target, found.op.count, found.usual_length, found.request.target.lanes(found.keys.word)
    assert count is not None
    insert = busy_cycles(Work(loads=2.0, stores=2.0), target)
    later = count * max(0.0, log(length / count)) if count else 0.0
    # A vector with one that is better is looked at element by element.
    looks = min(later, length / lanes) * lanes * busy_cycles(Work(loads=2.0, stores=1.0), target)
    vectors = busy_cycles(Work(loads=1.0, arithmetic=found.keys.operations), target)
    return length / lanes * vectors + insert * count * (count / 2 + later) + looks


def radix_cycles(found: Sorted) -> float:
    """Cycles of a radix sort of a row: each element is counted and moved for each of its bytes, by a number in memory that the element
    before may have changed; these numbers are added up in between.
    """
    target, passes = found.request.target, found.keys.word.bytes
    added = busy_cycles(Work(loads=1.0, stores=2.0), target)
    moved = busy_cycles(Work(places=3.0, stores=3.0, waits=LATENCY), target)
    return moved * (passes + 1) * found.usual_length + added * passes * BYTE


def _schedule(found: Sorted, walk: bool, tasks: int = 0) -> SortSchedule:
    target = found.request.target
    made = SortSchedule(walk, 0 if walk else tasks or ENOUGH_ITERATIONS)
    free = any(isinstance(n, Expr) for type in found.types(made) for n in type.shape)
    if walk:
        return replace(made, nest=choose_nest(target, found.outer, walk_cycles(found), free))
    shared = found.tasks(made.tasks)
    rows = ceil(estimate(product(found.outer)) / estimate(shared))
    return replace(made, nest=choose_nest(target, [shared], radix_cycles(found) * rows, free))


def other_sorts(found: Sorted) -> Iterator[SortSchedule]:
    """The other way, if only some positions are wanted."""
    own = choose_sort(found)
    if own.walk or found.may_walk:
        yield _schedule(found, not own.walk)


def fit_sort(found: Sorted, schedule: SortSchedule) -> None:
    """`ScheduleError` unless it is a schedule of this root, with any tasks and grain; a walk only where so many positions are wanted."""
    own = choose_sort(found)
    fits = found.may_walk and not schedule.tasks if schedule.walk else schedule.tasks > 0
    like = _schedule(found, schedule.walk, schedule.tasks) if fits else own
    if not is_like(schedule, like):
        raise ScheduleError(f"expected a schedule like {own} for these rows and this machine but got {schedule}")


def write_sort(found: Sorted, schedule: SortSchedule) -> KernelPlan:
    """The plan of a root as its schedule says."""
    op, types = found.op, found.types(schedule)
    func = Func.empty(found.request.name("argsort"), types, arg_names=("x", "y", "keys", "places")[: len(types)], loc=op.location)
    code = Code(Builder.at_end(func.block, op.location))
    x, y, *halves = func.args
    target = found.request.target
    if schedule.walk:
        assert op.count is not None
        _Best(code, target, found.keys, found.length, found.taken, op.count).write(x, y, found.outer, schedule.nest)
    else:
        kept, places = halves
        radix = _Radix(code, target, found.keys, found.length, found.taken)
        radix.write(x, y, kept, places, product(found.outer), found.tasks(schedule.tasks), schedule.nest)
    code.b(Return, ())
    memory = found.memory(schedule)
    slots = (operand(0), result(0), *(scratch(i) for i in range(len(memory))))
    return KernelPlan((Step(clean_up_kernel(func), slots),), scratch=memory)


build_sort = Way("sort", SortSchedule, find_sorted, choose_sort, write_sort, fit_sort, others=other_sorts)


@dataclass(frozen=True)
class Keys:
    """The keys of elements of a type."""

    dtype: ScalarType
    descending: bool

    @property
    def word(self) -> ScalarType:
        return _WORDS[self.dtype.bytes * 8]

    @property
    def operations(self) -> int:
        """Simple operations that make a key and compare it."""
        return 1 + (8 if self.dtype.is_float else 1) + self.descending

    def load(self, code: Code, x: Value, at: Index, lanes: int = 1, mask: Value | None = None) -> Value:
        """The keys of consecutive elements; of lanes that are off, the largest key."""
        word, bits = self.word, self.word.bits

        def number(value: int) -> Value:
            return code.broadcast(code.constant(value, word), lanes)

        if self.dtype.bits < 8:
            key = code.apply("cast", code.load(x, at, lanes, mask), dtype=word)
        else:
            key = code.load(code.seen_as(x, word), at, lanes, mask)
        top, ones = 1 << (bits - 1), (1 << bits) - 1
        if self.dtype.kind == "i":
            key = code.apply("xor", key, number(top))
        elif self.dtype.is_float:
            magnitude = code.apply("and", key, number(top - 1))
            negative = code.apply("ne", code.apply("and", key, number(top)), number(0))
            turned = code.apply("xor", key, code.apply("select", negative, number(ones), number(top)))
            zero = code.apply("eq", magnitude, number(0))
            key = code.apply("select", zero, number(top), turned)
            nan = code.apply("gt", magnitude, number(self._infinity))
            key = code.apply("select", nan, number(ones), key)
        if self.descending:
            key = code.apply("xor", key, number(ones))
        return key if mask is None else code.apply("select", mask, key, number(ones))

    @property
    def _infinity(self) -> int:
        """The bits of infinity: all of the exponent, none of the fraction."""
        fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[self.dtype.name]
        return (1 << (self.dtype.bits - 1)) - (1 << fraction)


@dataclass
class _Radix:
    """Writes the sort of whole rows."""

    code: Code
    target: Target
    keys: Keys
    length: Dim
    taken: Dim

    def write(self, x: Value, y: Value, keys: Value, places: Value, rows: Dim, tasks: Dim, nest: NestSchedule | None) -> None:
        code, length = self.code, self.length
        share = code.div(code.add(rows, code.sub(tasks, 1)), tasks)
        passes = self.keys.word.bytes

        def task(at: list[Position]) -> None:
            number = at[0].scalar(code)
            mine = code.mul(number, code.mul(2, length))
            counts = code.scratch(passes * BYTE, index)
            first = code.mul(number, share)
            with code.loop(first, code.min(code.add(first, share), rows), name="row") as loop:
                self._count(x, code.mul(loop.iv, length), keys, places, mine, counts)
                last = self._move(keys, places, mine, counts)
                self._give(places, last, y, code.mul(loop.iv, self.taken))

        write_nest(code, [tasks], nest, task)

    def _count(self, x: Value, start: Index, keys: Value, places: Value, mine: Index, counts: Value) -> None:
        """Make the keys of a row, number them, and count how often each byte has each value."""
        code = self.code
        zero, one = code.constant(0, index), code.constant(1, index)
        with code.loop(0, self.keys.word.bytes * BYTE, name="value") as loop:
            code.store(zero, counts, loop.iv)
        word = self.keys.word

        def some(at: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            here = Position(at.const, at.terms).scalar(code)
            code.store(self.keys.load(code, x, code.add(start, here), lanes, mask), keys, code.add(mine, here), mask)
            return carried

        vector_loop(code, 0, self.length, Lanes(self.target.lanes(word), self.target.masked), [], some)
        with code.loop(0, self.length, name="i") as loop:
            key = code.load(keys, code.add(mine, loop.iv))
            code.store(code.apply("cast", loop.iv, dtype=i32), places, code.add(mine, loop.iv))
            for byte in range(word.bytes):
                at = code.add(byte * BYTE, self._digit(key, code.constant(8 * byte, word)))
                code.store(code.apply("add", code.load(counts, at), one), counts, at)

    def _digit(self, key: Value, shift: Value) -> Value:
        """One byte of a key, as a position."""
        code, word = self.code, self.keys.word
        return code.apply("cast", code.apply("and", code.apply("shr", key, shift), code.constant(BYTE - 1, word)), dtype=index)

    def _move(self, keys: Value, places: Value, mine: Index, counts: Value) -> Value:
        """A pass per byte; the result is where the row stands in the end."""
        code, word, length = self.code, self.keys.word, self.length
        here = code.value(mine)
        there = code.value(code.add(mine, length))
        with code.loop(0, word.bytes, [here, there], name="byte") as loop:
            now, other = loop.carried
            shift = code.apply("cast", code.value(code.mul(loop.iv, 8)), dtype=word)
            counted = code.mul(loop.iv, BYTE)
            # A row without elements has no first one to look at, and nothing to move.
            shared = code.load(
                counts,
                code.add(counted, self._digit(code.load(keys, now, mask=code.apply("gt", code.value(length), code.value(0))), shift)),
            )
            moves = code.apply("ne", shared, code.value(length))
            with code.when(moves):
                with code.loop(0, BYTE, [other], name="value") as value:
                    at = code.add(counted, value.iv)
                    count = code.load(counts, at)
                    code.store(value.carried[0], counts, at)
                    value.next = [code.apply("add", value.carried[0], count)]
                with code.loop(0, length, name="i") as item:
                    key = code.load(keys, code.add(now, item.iv))
                    at = code.add(counted, self._digit(key, shift))
                    to = code.load(counts, at)
                    code.store(code.apply("add", to, code.constant(1, index)), counts, at)
                    code.store(key, keys, to)
                    code.store(code.load(places, code.add(now, item.iv)), places, to)
            loop.next = [code.apply("select", moves, other, now), code.apply("select", moves, now, other)]
        return loop.results[0]

    def _give(self, places: Value, last: Value, y: Value, start: Index) -> None:
        """The first positions, as the result has them."""
        code = self.code

        def some(at: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            here = Position(at.const, at.terms).scalar(code)
            given = code.apply("cast", code.load(places, code.add(last, here), lanes, mask), dtype=i64)
            code.store(given, y, code.add(start, here), mask)
            return carried

        vector_loop(code, 0, self.taken, Lanes(self.target.lanes(i64), self.target.masked), [], some)


@dataclass
class _Best:
    """Writes the walk that keeps the `count` best elements of a row in order, by insertion. Most vectors have none that is better than the
    last of them.
    """

    code: Code
    target: Target
    keys: Keys
    length: Dim
    taken: Dim
    count: int

    def write(self, x: Value, y: Value, outer: list[Dim], nest: NestSchedule | None) -> None:
        code = self.code
        word = self.keys.word
        lanes = Lanes(self.target.lanes(word), self.target.masked)

        def row(places: list[Position]) -> None:
            number: Index = 0
            for at, size in zip(places, outer, strict=True):
                number = code.add(code.mul(number, size), at.scalar(code))
            start = code.mul(number, self.length)
            self.best, self.at = code.scratch(self.count, word), code.scratch(self.count, i64)
            tried = code.scratch(lanes.count, word)
            # The first ones are kept whatever they are.
            with code.loop(0, self.taken, name="first") as loop:
                key, place = self._insert(
                    self.keys.load(code, x, code.add(start, loop.iv)), code.apply("cast", loop.iv, dtype=i64), loop.iv
                )
                code.store(key, self.best, loop.iv)
                code.store(place, self.at, loop.iv)

            def some(at: Position, width: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                here = Position(at.const, at.terms).scalar(code)
                found = self.keys.load(code, x, code.add(start, here), width, mask)
                better = code.apply("lt", found, code.broadcast(self._worst(), width))
                with code.when(code.reduce(better, "or") if width > 1 else better):
                    code.store(found, tried, 0)
                    with code.loop(0, width, name="lane") as loop:
                        key = code.load(tried, loop.iv)
                        with code.when(code.apply("lt", key, self._worst())):
                            place = code.apply("cast", code.value(code.add(here, loop.iv)), dtype=i64)
                            self._insert(key, place, code.value(self.count))
                return carried

            vector_loop(code, self.taken, self.length, lanes, [], some)
            with code.loop(0, self.taken, name="i") as loop:
                code.store(code.load(self.at, loop.iv), y, code.add(code.mul(number, self.taken), loop.iv))

        write_nest(code, outer, nest, row)

    def _worst(self) -> Value:
        """The key of the last that is kept."""
        return self.code.load(self.best, self.count - 1)

    def _insert(self, key: Value, place: Value, kept: Value) -> tuple[Value, Value]:
        """Put an element among the `kept` ones, behind its equals; what falls out at the end."""
        code = self.code
        with code.loop(0, kept, [key, place], name="k") as loop:
            carried, number = loop.carried
            old, stood = code.load(self.best, loop.iv), code.load(self.at, loop.iv)
            # From the first element behind it on, all move up by one.
            before = code.apply("lt", key, old)
            code.store(code.apply("select", before, carried, old), self.best, loop.iv)
            code.store(code.apply("select", before, number, stood), self.at, loop.iv)
            loop.next = [code.apply("select", before, old, carried), code.apply("select", before, stood, number)]
        return loop.results[0], loop.results[1]
