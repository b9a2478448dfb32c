"""What flash kernels have in common: blocks, tiles of shared memory and how they are filled, the loop over columns, and softmax numbers.

Tiles of the columns' operands go through `stages` of shared memory by asynchronous copies, where all of them are just copied. Columns are
gone over in segments: those that a causal mask hides in part, those that need no look at any mask of places, and the rest behind the last
whole tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.core import Value
from polyreme.ir.dims import ceildiv, mod, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, element_type, f32
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, Positions, VectorLeaf, buffer_leaf, convert, linear
from polyreme.lowering.kernels.gpu.flash_problem import Flash, InFloat32, Side
from polyreme.lowering.kernels.gpu.grid import GridKernel, both, exchange, truth
from polyreme.lowering.kernels.plan import Step, operand, result
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.machines.gpu import LOG2_E, VECTOR_BYTES
from polyreme.lowering.machines.ptx import has
from polyreme.lowering.machines.targets import GpuTarget

# Numbers of scores by the thread's row and column.
Weights = dict[tuple[int, int], Value]


@dataclass(frozen=True)
class FlashSchedule(Schedule, kind="flash"):
    """How attention, or a gradient of it, is computed: `rows` of it by a block of so many `warps`, `keys` columns at a time, so many
    `stages` of which are in shared memory; with `tensor_cores` products are theirs.
    """

    rows: int
    keys: int
    stages: int = 1
    warps: int = 4
    tensor_cores: bool = False


class FastExponentials(Code):
    """Code whose exponentials of float32 are one instruction of the device."""

    def apply(self, fn: str, *xs: Value, dtype: ScalarType | None = None) -> Value:
        if fn == "exp" and xs[0].type == f32:
            return power_of_two(self, super().apply("mul", xs[0], self.constant(LOG2_E, f32)))
        return super().apply(fn, *xs, dtype=dtype)


def power_of_two(code: Code, x: Value) -> Value:
    value: Value = code.b(kernel.Exp2, x)
    return value


@dataclass(frozen=True)
class Segment:
    """Columns from `lo` up to `hi` in tiles: whether a causal mask is looked at, and whether columns may lie behind the last one."""

    lo: Index
    hi: Index
    masked: bool
    tail: bool


class Lines:
    """A tile of an operand in shared memory: `count` lines of `width` elements, some of them zeros behind the operand's own `size`."""

    def __init__(self, made: FlashKernel, side: Side, count: int, stages: int):
        self.made, self.side, self.count = made, side, count
        self.size = made.p.room(side.inner)
        self.width = -(-self.size // made.unit) * made.unit
        self.line = self.width + made.padding
        self.elements = count * self.line
        self.lanes = self._lanes()
        self.stages = stages
        self.offset: Index = 0

    @property
    def bytes(self) -> int:
        return self.stages * self.elements * self.made.stored.bytes

    def take_memory(self) -> None:
        self.board = self.made.kernel.shared(self.stages * self.elements, self.made.stored)

    def _lanes(self) -> int:
        """Elements that are copied at once, 0 where they are loaded one by one."""
        access, made = self.side.access, self.made
        target = made.p.request.target
        assert isinstance(target, GpuTarget)
        if not has("cp.async.commit.group", target) or access is None or element_type(access.source.type) != made.stored:
            return 0
        lanes = VECTOR_BYTES // made.stored.bytes
        far = [access.base, *(s for c, s in access.strides.items() if c != self.side.inner and made.p.sizes[c] != 1)]
        is_whole = access.stride(self.side.inner) == 1 and all(mod(x, lanes) == 0 for x in far) and self.size % lanes == 0
        return lanes if is_whole else 0

    def fill(self, start: Index, stage: Index) -> None:
        """Bring in the lines from `start` on; lines behind the last one are zeros."""
        made, code = self.made, self.made.code
        into = code.mul(stage, self.elements)
        end = made.p.sizes[self.side.along]
        each = self.width // max(self.lanes, 1)
        total = self.count * each
        if self.lanes:
            for i in range(-(-total // made.threads)):
                at = code.add(made.thread, i * made.threads)
                if (i + 1) * made.threads <= total:
                    self._copy(at, each, start, end, into)
                else:
                    with code.when(truth(code, code.condition("lt", at, total))):
                        self._copy(at, each, start, end, into)
            return
        with code.loop(made.thread, total, step=made.threads, name="e") as loop:
            self._element(loop.iv, each, start, end, into)

    def _copy(self, at: Index, each: int, start: Index, end: Index, into: Index) -> None:
        made, code, access = self.made, self.made.code, self.side.access
        assert access is not None
        line, first = code.div(at, each), code.mul(code.mod(at, each), self.lanes)
        where = code.add(start, line)
        inside = both(code, code.condition("lt", where, end), self.size == self.width or code.condition("lt", first, self.size))
        source = code.add(made.base(access), code.mul(where, access.stride(self.side.along)), first)
        target = code.add(into, code.mul(line, self.line), first)
        guard = None if inside is True else truth(code, inside)
        code.b(kernel.CopyAsync, made.buffers[access.source], code.value(source), self.board, code.value(target), guard, lanes=self.lanes)

    def _element(self, at: Value, each: int, start: Index, end: Index, into: Index) -> None:
        made, code = self.made, self.made.code
        line, inner = code.div(at, each), code.mod(at, each)
        where = code.add(start, line)
        inside = both(code, code.condition("lt", where, end), self.size == self.width or code.condition("lt", inner, self.size))
        guard = None if inside is True else truth(code, inside)
        if self.side.access is not None:
            access = self.side.access
            source = code.add(
                made.base(access), code.mul(where, access.stride(self.side.along)), code.mul(inner, access.stride(self.side.inner))
            )
            value = code.load(made.buffers[access.source], source, mask=guard)
        else:
            assert self.side.value is not None
            places = {**made.around, self.side.along: position(where), self.side.inner: position(inner)}
            emitter = ElementEmitter(code, made.old_leaves())
            value = emitter.at(self.side.value, [places.get(c, Position()) for c in self.side.letters], 1, None, (guard,) if guard else ())
        value = convert(code, value, made.stored)
        if guard is not None:
            value = code.apply("select", guard, value, code.zero(made.stored))
        code.store(value, self.board, code.add(into, code.mul(line, self.line), inner))

    def at(self, line: Index, inner: Index) -> Index:
        """Where an element of the tile that `offset` stands at lies in `board`."""
        code = self.made.code
        return code.add(self.offset, code.mul(line, self.line), inner)


class FlashKernel:
    """Writes one kernel. Subclasses say how the threads of a block share rows and columns, and how they multiply.

    What a thread has of the scores is a list of places, (row, column) each; `scored` gives its numbers in that order.
    """

    what = ""
    # Lines of tiles have a multiple of `unit` elements, and lie `padding` elements more apart than they are long.
    unit = 1
    padding = 0
    # The lanes with which a lane shares its rows differ from it by these bits.
    neighbours: tuple[int, ...] = ()

    def __init__(self, p: Flash, schedule: FlashSchedule):
        self.p, self.schedule = p, schedule
        self.threads = schedule.warps * 32
        self.rows, self.columns = p.sizes[p.row], p.sizes[p.column]
        self.blocks = ceildiv(self.rows, schedule.rows)
        self.resident = {side: Lines(self, side, schedule.rows, 1) for side in p.resident}
        self.streamed = {side: Lines(self, side, schedule.keys, schedule.stages) for side in p.streamed}

    @property
    def stored(self) -> ScalarType:
        """The element type of tiles."""
        return self.p.dtype

    @property
    def shared_bytes(self) -> int:
        return sum(tile.bytes for tile in (*self.resident.values(), *self.streamed.values()))

    @property
    def is_copied(self) -> bool:
        return all(tile.lanes for tile in self.streamed.values())

    # --- where things are

    def base(self, access: Any) -> Index:
        code = self.code
        return code.add(access.base, *(code.mul(p.scalar(code), access.stride(c)) for c, p in self.around.items()))

    def old_leaves(self) -> dict[Value, Leaf]:
        return {a: buffer_leaf(self.code, b, shape_of(a)) for a, b in self.buffers.items()}

    def _begin(self) -> None:
        """The kernel's frame."""
        p, request = self.p, self.p.request
        slots = [*(operand(i) for i in range(len(request.func.args))), *(result(i) for i in range(len(request.results)))]
        types = [BufferType(shape_of(v), element_type(v.type)) for v in (*request.func.args, *request.results)]
        count = product([p.sizes[c] for c in p.batch]) * self.blocks
        self.kernel = GridKernel(request.name(self.what), slots, types, (count,), (self.threads,), request.func.location)
        self.code: Code = self.kernel.code
        self.buffers: dict[Value, Value] = dict(zip(request.func.args, self.kernel.buffers, strict=False))
        self.outputs = dict(zip(request.results, self.kernel.buffers[len(request.func.args) :], strict=True))
        self.float32 = InFloat32(request.func)

    def build(self) -> Step:
        self._begin()
        code, p = self.code, self.p
        for tile in (*self.resident.values(), *self.streamed.values()):
            tile.take_memory()
        self.thread = self.kernel.thread()
        *around, block = code.split(self.kernel.block_id(), [*(p.sizes[c] for c in p.batch), self.blocks])
        if p.limit is not None and p.row == p.query:
            # Those with the most to do first.
            block = code.sub(code.sub(self.blocks, 1), block)
        self.around: dict[str, Position] = {c: position(i) for c, i in zip(p.batch, around, strict=True)}
        self.row0 = code.mul(block, self.schedule.rows)
        self.open()
        carried = self.start()
        segments = self.segments()
        if self.schedule.stages > 1:
            carried = self._with_stages(segments, carried)
        else:
            carried = self._one_by_one(segments, carried)
        self.finish(carried)
        return self.kernel.finish()

    # --- which columns

    def segments(self) -> list[Segment]:
        """The columns that the block's rows look at."""
        code, p, keys = self.code, self.p, self.schedule.keys
        whole, tail = code.mul(code.div(self.columns, keys), keys), mod(self.columns, keys) != 0
        if p.limit is None:
            return [Segment(0, whole, False, False), *([Segment(whole, self.columns, False, True)] if tail else [])]
        last = code.min(code.add(self.row0, self.schedule.rows - 1), code.sub(self.rows, 1))
        if p.row == p.query:
            end = code.min(self.columns, code.add(last, p.limit, 1))
            free = code.min(whole, code.mul(code.div(code.add(self.row0, p.limit, 1), keys), keys))
            return [Segment(0, free, False, False), Segment(free, end, True, tail)]
        # Queries from key - n on see a key; all keys of the block are seen from the last one's on.
        first = code.mul(code.div(self._nonnegative(code.sub(self.row0, p.limit)), keys), keys)
        free = code.mul(code.ceildiv(code.value(self._nonnegative(code.sub(last, p.limit))), keys), keys)
        free = code.min(free, code.mul(code.ceildiv(code.value(self.columns), keys), keys))
        return [Segment(first, free, True, tail), Segment(free, self.columns, False, tail)]

    def _nonnegative(self, x: Index) -> Index:
        code = self.code
        return code.apply("max", code.value(x), code.value(0))

    def _fill(self, first: Index, stage: Index) -> None:
        for tile in self.streamed.values():
            tile.fill(first, stage)
        self.code.b(kernel.CopyCommit)

    def _fill_resident(self) -> None:
        for tile in self.resident.values():
            tile.fill(self.row0, 0)

    def _with_stages(self, segments: Sequence[Segment], carried: list[Value]) -> list[Value]:
        """Copies of the next tiles are under way while one is worked on; the barrier also says that the tile they go to was done with."""
        code, keys, stages = self.code, self.schedule.keys, self.schedule.stages
        start = segments[0].lo
        self._fill_resident()
        for i in range(stages - 1):
            self._fill(code.add(start, i * keys), i)
        if self.prepares:
            code.b(kernel.CopyWait, pending=stages - 2)
            self.kernel.barrier()
            self.prepare()
        for segment in segments:
            with code.loop(segment.lo, segment.hi, carried, step=keys, name="key") as loop:
                code.b(kernel.CopyWait, pending=stages - 2)
                self.kernel.barrier()
                number = code.div(code.sub(loop.iv, start), keys)
                self._fill(code.value(code.add(loop.iv, (stages - 1) * keys)), code.mod(code.add(number, stages - 1), stages))
                loop.next = self._step(loop.iv, code.mod(number, stages), loop.carried, segment)
            carried = loop.results
        code.b(kernel.CopyWait, pending=0)
        return carried

    def _one_by_one(self, segments: Sequence[Segment], carried: list[Value]) -> list[Value]:
        code, has_copies = self.code, any(t.lanes for t in (*self.resident.values(), *self.streamed.values()))
        self._fill_resident()
        if has_copies:
            code.b(kernel.CopyCommit)
            code.b(kernel.CopyWait, pending=0)
        if self.prepares:
            self.kernel.barrier()
            self.prepare()
        for segment in segments:
            with code.loop(segment.lo, segment.hi, carried, step=self.schedule.keys, name="key") as loop:
                self.kernel.barrier()
                for tile in self.streamed.values():
                    tile.fill(loop.iv, 0)
                if has_copies:
                    code.b(kernel.CopyCommit)
                    code.b(kernel.CopyWait, pending=0)
                self.kernel.barrier()
                loop.next = self._step(loop.iv, 0, loop.carried, segment)
            carried = loop.results
        return carried

    def _step(self, first: Value, stage: Index, carried: list[Value], segment: Segment) -> list[Value]:
        for tile in self.streamed.values():
            tile.offset = self.code.mul(stage, tile.elements)
        return self.step(first, carried, segment)

    # --- what a thread has of the scores

    def places(self) -> tuple[list[Index], list[Index]]:
        """The thread's rows, counted from the first one of all, and its columns, counted from the first one of the tile."""
        raise NotImplementedError

    def weigh(self, first: Value, scored: Sequence[dict[tuple[int, int], Value]], wanted: Sequence[Value], segment: Segment) -> list[Any]:
        """For each of the wanted values of the group its numbers at the thread's places; `scored` are those of the products."""
        code, p = self.code, self.p
        rows, columns = self.places()
        held_rows = [position(code.value(self._held(code.value(r), self.rows, self.schedule.rows))) for r in rows]
        shifted = [code.value(code.add(first, c)) for c in columns]
        held_columns = [position(code.value(code.min(c, code.sub(self.columns, 1)))) if segment.tail else position(c) for c in shifted]
        at = {(r, c): (i, j) for i, r in enumerate(held_rows) for j, c in enumerate(held_columns)}
        leaves: dict[Value, Leaf] = {self.float32.args[a]: buffer_leaf(code, b, shape_of(a)) for a, b in self.buffers.items()}
        for product_, numbers in zip(p.scores, scored, strict=True):
            leaves[self.float32.of[product_.result]] = self._leaf(product_.result, at, numbers)
        inner = self.fast() if self.uses_fast else code
        emitter = ElementEmitter(inner, leaves)
        if p.hides is not None and not segment.masked:
            hidden = self.float32.of[p.hides.result]
            seen = next(x for x in (hidden.owner.xs[1], hidden.owner.xs[2]) if not _is_low(x))  # type: ignore[union-attr]
            emitter.leaves[hidden] = _passing(emitter, hidden, seen)
        found: list[Any] = []
        for value in wanted:
            numbers = {}
            for (r, c), (i, j) in at.items():
                letters = {**self.around, p.row: r, p.column: c}
                place = [letters.get(a, Position()) if a else Position() for a in p.axes]
                numbers[i, j] = convert(code, emitter.at(self.float32.of[value], place), f32)
            found.append(numbers)
        return found

    def inside(self, first: Value) -> list[Value]:
        """For each of the thread's columns whether it is one."""
        code = self.code
        return [truth(code, code.condition("lt", code.value(code.add(first, c)), self.columns)) for c in self.places()[1]]

    def _held(self, row: Value, end: Any, step: int) -> Index:
        return row if mod(end, step) == 0 else self.code.min(row, self.code.sub(end, 1))

    def _leaf(self, result_: Value, at: dict[tuple[Position, Position], tuple[int, int]], numbers: dict[tuple[int, int], Value]) -> Leaf:
        spec = tensor.ContractSpec(result_.owner.spec)  # type: ignore[union-attr]
        r, c = spec.out.index(self.p.row), spec.out.index(self.p.column)
        one_row, one_column = self.p.sizes[self.p.row] == 1, self.p.sizes[self.p.column] == 1

        def read(places: Positions) -> Value:
            for (row, column), key in at.items():
                if (one_row or places[r] == row) and (one_column or places[c] == column):
                    return numbers[key]
            raise AssertionError("scores are asked for at a place that the thread does not have")

        table = {key: numbers[k] for key, k in at.items()}
        return VectorLeaf(lambda places: table[places[r], places[c]] if (places[r], places[c]) in table else read(places))

    uses_fast = False

    def fast(self) -> Code:
        return FastExponentials(Builder(self.code.b.block, self.code.b.before, self.code.b.loc))

    # --- softmax, row by row

    def low(self) -> Value:
        return self.code.constant(-math.inf, f32)

    def exponential(self, x: Value, shift: Value) -> Value:
        """exp(x - shift)"""
        code = self.code
        difference = code.apply("sub", x, shift)
        if self.uses_fast:
            return power_of_two(code, code.apply("mul", difference, code.constant(LOG2_E, f32)))
        least = code.constant(-87.33654475, f32)
        # Below the normal numbers it is nothing beside the largest, which is 1.
        return code.apply("exp", code.apply("select", code.apply("lt", difference, least), self.low(), difference))

    def soften(
        self, rows: int, columns: int, numbers: dict[tuple[int, int], Value], peaks: list[Value], totals: list[Value], lanes: Sequence[int]
    ) -> tuple[dict[tuple[int, int], Value], list[Value], list[Value], list[Value]]:
        """Weights exp(x - top), and the new largest ones, sums (of this thread's columns) and factors for all that came before."""
        code = self.code
        weights, tops, sums, factors = {}, [], [], []
        for i in range(rows):
            top = peaks[i]
            for j in range(columns):
                top = code.apply("max", top, numbers[i, j])
            for by in lanes:
                top = code.apply("max", top, exchange(code, top, by))
            # 0 while all are -inf, whose difference would be nan.
            shift = code.apply("select", code.apply("eq", top, self.low()), code.constant(0.0, f32), top)
            factor = self.exponential(peaks[i], shift)
            total = code.apply("mul", totals[i], factor)
            for j in range(columns):
                weights[i, j] = self.exponential(numbers[i, j], shift)
                total = code.apply("add", total, weights[i, j])
            tops.append(top)
            sums.append(total)
            factors.append(factor)
        return weights, tops, sums, factors

    def close(self, peak: Value, total: Value, lanes: Sequence[int]) -> tuple[Value, Value]:
        """1 / total over all threads of a row (nan-making infinity for queries that see no key), and what is kept of the row."""
        code = self.code
        for by in lanes:
            total = code.apply("add", total, exchange(code, total, by))
        inverse = code.apply("div", code.constant(1.0, f32), total)
        if not isinstance(self.columns, int):
            some = truth(code, code.condition("gt", self.columns, 0))
            inverse = code.apply("select", some, inverse, code.constant(0.0, f32))
        if self.p.kept is None:
            return inverse, inverse
        kept = code.apply("add", peak, code.apply("log", total))
        return inverse, code.apply("select", code.apply("eq", peak, self.low()), code.constant(math.nan, f32), kept)

    # --- results

    def store_kept(self, row: Value, value: Value, is_mine: bool | Value) -> None:
        code, kept, p = self.code, self.p.kept, self.p
        assert kept is not None
        inside = both(code, is_mine, code.condition("lt", row, self.rows))
        letters = {**self.around, p.row: position(row)}
        places = [letters.get(a, Position()) if a and n != 1 else Position() for a, n in zip(p.axes, shape_of(kept), strict=True)]
        mask = None if inside is True else truth(code, inside)
        value = convert(code, value, element_type(kept.type))
        code.store(value, self.outputs[kept], linear(code, places, shape_of(kept)).scalar(code), mask)

    def store_sum(self, y: int, row: Value, column: Index, values: Sequence[Value]) -> None:
        """Neighbouring elements of a row of a result."""
        code, made, p = self.code, self.p.sums[y], self.p
        width = made.columns.inner
        size, lanes = p.room(width), len(values)
        dtype = element_type(made.result.type)
        base = code.add(0, *(code.mul(at.scalar(code), made.strides.get(c, 0)) for c, at in self.around.items()))
        start = code.add(base, code.mul(row, made.strides.get(p.row, 0)), column)
        far = [s for c, s in made.strides.items() if c != width and p.sizes[c] != 1]
        buffer = self.outputs[made.result]
        inside = code.condition("lt", row, self.rows)
        if size % lanes == 0 and all(mod(s, lanes) == 0 for s in far):
            vector = code.zero(f32, lanes)
            for i, x in enumerate(values):
                vector = code.insert(vector, x, i)
            fits = both(code, inside, code.condition("lt", column, size))
            align = min(16, lanes * dtype.bytes)
            vector = convert(code, vector, dtype)
            if fits is True:
                code.store(vector, buffer, start, align=align)
            else:
                with code.when(truth(code, fits)):
                    code.store(vector, buffer, start, align=align)
            return
        for i, x in enumerate(values):
            fits = both(code, inside, code.condition("lt", code.add(column, i), size))
            code.store(convert(code, x, dtype), buffer, code.add(start, i), None if fits is True else truth(code, fits))

    # --- for subclasses

    prepares = False

    def open(self) -> None:
        """What a thread is, in front of all else."""

    def prepare(self) -> None:
        """What is taken of the resident tiles before the loop, where `prepares` says so."""

    def start(self) -> list[Value]:
        raise NotImplementedError

    def step(self, first: Value, carried: list[Value], segment: Segment) -> list[Value]:
        raise NotImplementedError

    def finish(self, carried: list[Value]) -> None:
        raise NotImplementedError


def _is_low(value: Value) -> bool:
    op = value.producer(tensor.Full)
    return op is not None and op.value == -math.inf


def _passing(emitter: ElementEmitter, hidden: Value, seen: Value) -> Leaf:
    """What a select gives where it hides nothing."""
    shape = shape_of(hidden)

    def leaf(places: Positions, lanes: int, mask: Value | None) -> Value:
        at = [Position() if n == 1 and m != 1 else p for p, n, m in zip(places, shape_of(seen), shape, strict=False)]
        return emitter.at(seen, at, lanes, mask)

    return leaf
