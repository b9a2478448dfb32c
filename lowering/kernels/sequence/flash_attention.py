"""Flash attention: softmax(Q K) V block by block of keys, without the scores in memory.

With a running maximum and sum (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention", 2022), for each block of keys

    top = max(peak, scores);  c = exp(peak - top);  p = exp(scores - top);  total = c total + sum(p);  out = c out + p values

and at the end out / total. A task is a block of queries at one place of the batch letters.

*Many queries*: lanes are queries. Both products are register tiles, whose rows are keys, or elements of a value, read as scalars in place.
Only queries are copied; maxima and sums need no step across lanes; every view of keys and values is free. Queries, the output, and masks
that are contiguous along the keys are transposed in square blocks of registers.

*Few queries*, as in decoding: lanes are elements of one query, then of one value. Sums for as many keys as there are lanes are reduced
together.

Keys and values may come in several pieces, a cache and what is new; each is read where it is. Keys that a mask hides from all queries of
the block (`Attention.last_key`) are skipped. The order of additions depends on shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, known_nonnegative, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, element_type
from polyreme.lowering.analysis.access import Access
from polyreme.lowering.analysis.attention import Attention, AttentionPart, find_in
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, VectorLeaf, buffer_leaf
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.gemm.product_tile import Prefetching
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, run, vector_loop
from polyreme.lowering.kernels.microkernel import (
    MOST_UNROLLED,
    STEPS_TOGETHER,
    UNROLL,
    Axis,
    Overlapped,
    Registers,
    accumulate,
    sum_lanes,
    tile_rows,
    transpose_lanes,
    zeros,
)
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.memory import FAST_L3_BYTES
from polyreme.lowering.machines.tasks import ATTENTION_GRAIN_CYCLES

# Keys of a block at most: their exponentials for a block of queries stay in the nearest caches.
BLOCK = 256


@dataclass(frozen=True)
class AttentionSchedule(Schedule, kind="attention"):
    """How an attention is computed, with vectors of so many `lanes`: in blocks of so many `keys`, by tiles of `tile` rows and vectors of
    queries. With `few_queries` lanes are elements of one query, and there are no tiles. With `prefetch` keys, values and lines of results
    are prefetched. As many tasks as `grain` are worth a thread. With `final_addresses` LLVM looks for no cheaper addresses.
    """

    lanes: int
    keys: int
    tile: tuple[int, int] | None = None
    few_queries: bool = False
    prefetch: bool = False
    grain: int = 1
    final_addresses: bool = False


@dataclass(frozen=True)
class AttentionRoot:
    """An attention, and the root that it is."""

    request: Request
    attention: Attention

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements of each key, and of each value, are neighbours."""
        found = self.attention
        return all(part.keys.stride(found.depth) in (0, 1) and part.values.stride(found.width) in (0, 1) for part in found.parts)


def find_attention(request: Request) -> AttentionRoot | None:
    """The attention that a group is; None for any other group."""
    found = find_in(request.ops(), request.results)
    return None if found is None else AttentionRoot(request, found)


def choose_attention(root: AttentionRoot) -> AttentionSchedule:
    """By few queries if there are no more than a quarter of the lanes; by tiles else."""
    found, target = root.attention, root.request.target
    registers, queries, keys = Registers.of(target, found.dtype), found.sizes[found.query], found.sizes[found.key]
    lanes, depth, width = registers.lanes, found.room(found.depth), found.room(found.width)
    # LLVM's search for cheaper addresses takes a quarter of its time and gains nothing where there are 32 registers.
    final = target.vector_registers >= MANY_REGISTERS
    if root.is_contiguous and isinstance(queries, int) and queries <= max(1, lanes // 4):
        block = -(-min(keys, BLOCK) // lanes) * lanes if isinstance(keys, int) else BLOCK
        cycles = estimate(keys) * (depth + width) / lanes
        return AttentionSchedule(lanes, block, few_queries=True, grain=_grain(cycles), final_addresses=final)
    rows, vectors = registers.accumulators // 2, 1 if isinstance(queries, int) and queries <= lanes else 2
    # A multiple of the tile's rows, so that only the last block of all has a rest.
    count = -(-keys // -(-keys // BLOCK)) if isinstance(keys, int) else BLOCK - BLOCK % rows
    cycles = vectors * estimate(keys) * (depth + width + 20) / 2
    # Prefetching pays if L3 is slow.
    is_slow = target.l3_bytes_per_cycle < FAST_L3_BYTES
    return AttentionSchedule(lanes, -(-count // rows) * rows, (rows, vectors), False, is_slow, _grain(cycles), final)


def _grain(cycles: float) -> int:
    return max(1, int(ATTENTION_GRAIN_CYCLES / max(cycles, 1)))


def fit_attention(root: AttentionRoot, schedule: AttentionSchedule) -> None:
    """`ScheduleError` unless it is a schedule of this attention, with any number of whole tiles in a block, and any prefetching."""
    own = choose_attention(root)
    free = replace(own, prefetch=schedule.prefetch and not own.few_queries, grain=max(schedule.grain, 1))
    step = own.lanes if own.tile is None else own.tile[0]
    if 0 < schedule.keys <= 2 * BLOCK and schedule.keys % step == 0:
        free = replace(free, keys=schedule.keys)
    if schedule != free:
        raise ScheduleError(f"expected a schedule like {own} for this attention and machine but got {schedule}")


def write_attention(root: AttentionRoot, schedule: AttentionSchedule) -> KernelPlan:
    """The plan of an attention as its schedule says."""
    kernel = (_FewQueries if schedule.few_queries else _ManyQueries)(root.request, root.attention, schedule)
    slots = [operand(a.index) for a in root.request.func.args] + [result(0)]
    return KernelPlan((Step(kernel.emit(), tuple(slots)),))


build_attention = Way("attention", AttentionSchedule, find_attention, choose_attention, write_attention, fit_attention)


class _AttentionKernel:
    """What the kernels for many and for few queries share: arguments, sizes, and where things are at the current place of the batch
    letters.
    """

    def __init__(self, request: Request, found: Attention, schedule: AttentionSchedule):
        self.request, self.p, self.schedule = request, found, schedule
        self.lanes = schedule.lanes
        self.align = self.lanes * found.dtype.bytes
        self.queries, self.keys = found.sizes[found.query], found.sizes[found.key]
        self.depth, self.width = found.room(found.depth), found.room(found.width)
        args = request.func.args
        types = [BufferType(shape_of(v), v.type.dtype) for v in (*args, *request.results)]
        names = [a.name for a in args] + [v.name for v in request.results]
        final = schedule.final_addresses or None
        self.func = Func.empty(request.name("attention"), types, arg_names=names, loc=request.func.location, final_addresses=final)
        self.code = Code(Builder.at_end(self.func.block, self.func.location), merged=True)
        self.buffers: dict[Value, Value] = dict(zip(args, self.func.args, strict=False))
        self.out = self.func.args[-1]
        self.around: dict[str, Index] = {}

    def emit(self) -> Func:
        self._tasks()
        self.code.b(Return, ())
        return clean_up_kernel(self.func)

    def _tasks(self) -> None:
        raise NotImplementedError

    def base(self, access: Access) -> Index:
        """Where the elements of keys or values begin for this task."""
        return self.code.add(access.base, *(self.code.mul(i, access.stride(c)) for c, i in self.around.items()))

    def out_base(self) -> Index:
        return self.code.add(0, *(self.code.mul(i, self.p.strides[c]) for c, i in self.around.items()))

    def places(self, letters: Sequence[str], at: dict[str, Position]) -> list[Position]:
        """A position for each of `letters`, at this task's place and `at`."""
        known = {**{c: position_at(i) for c, i in self.around.items()}, **at}
        return [known.get(c, Position()) for c in letters]

    def leaves(self) -> dict[Value, Leaf]:
        return {a: buffer_leaf(self.code, buffer, shape_of(a)) for a, buffer in self.buffers.items()}

    def query_elements(self, query: Index, element: Position, mask: Value | None) -> Value:
        """Neighbouring elements of one query."""
        at = self.places(self.p.query_letters, {self.p.query: position_at(query), self.p.depth: element})
        return ElementEmitter(self.code, self.leaves()).at(self.p.queries, at, self.lanes, mask)

    def end(self, last_query: Index, rows: int = 1) -> Index:
        """How many keys the queries up to `last_query` look at, a multiple of `rows` unless it is all of them."""
        limit, code = self.p.last_key(), self.code
        # A query that sees no key at all has a result, nan, that says so: it needs its keys, which are all -inf.
        if limit is None or not known_nonnegative(limit) or len(self.p.parts) > 1:
            return self.keys
        wanted = code.ceildiv(code.add(last_query, limit, 1), rows)
        return code.min(self.keys, code.mul(wanted, rows))

    def quotient(self, total: Value, lanes: int) -> Value:
        """1 / total: nan-making infinity for queries that see no key, and 0 where there are no keys at all."""
        code = self.code
        inverse = code.apply("div", code.broadcast(code.constant(1.0, self.p.dtype), lanes), total)
        if isinstance(self.keys, int):
            return inverse
        some = code.condition("gt", self.keys, 0)
        assert isinstance(some, Value)
        return code.apply("select", code.broadcast(some, lanes), inverse, code.zero(self.p.dtype, lanes))

    def shift(self, top: Value, lanes: int) -> Value:
        """What is taken off the scores: the largest one; 0 while all are -inf, whose difference would be nan."""
        code, low = self.code, self.low(lanes)
        return code.apply("select", code.apply("eq", top, low), code.zero(self.p.dtype, lanes), top)

    def weight(self, score: Value, shift: Value, lanes: int) -> Value:
        """exp(score - shift), 0 where that is below the normal numbers: beside the largest, which is 1, it is nothing, and many a processor
        takes over a hundred cycles for each sum and product of such numbers. Masks of -100 make them.
        """
        code, dtype = self.code, self.p.dtype
        difference = code.apply("sub", score, shift)
        least = code.broadcast(code.constant(math.log(np.finfo(dtype.np).tiny), dtype), lanes)
        return code.apply("exp", code.apply("select", code.apply("lt", difference, least), self.low(lanes), difference))

    def low(self, lanes: int) -> Value:
        return self.code.broadcast(self.code.constant(-math.inf, self.p.dtype), lanes)

    def blocks(self, end: Index, size: int, carried: list[Value], body: Callable[[Index, Index, list[Value]], list[Value]]) -> list[Value]:
        """`body(first key, keys, carried)` for blocks of up to `size` keys."""
        code = self.code
        if isinstance(end, int) and end <= size:
            return body(0, end, carried)

        def one(at: Position, values: list[Value]) -> list[Value]:
            first = at.scalar(code)
            count = size if isinstance(end, int) and end % size == 0 else code.min(size, code.sub(end, first))
            return body(first, count, values)

        return run(code, 0, end, size, carried, one, "block")


class _ManyQueries(_AttentionKernel):
    """Lanes are queries: `vectors` registers of them at once, all of which exist where that is `exact`."""

    def __init__(self, request: Request, found: Attention, schedule: AttentionSchedule):
        super().__init__(request, found, schedule)
        assert schedule.tile is not None
        self.rows, vectors = schedule.tile
        self.block = schedule.keys
        self.transposed_masks = self._masks_to_transpose()
        self._take(vectors)

    def _take(self, vectors: int) -> None:
        self.vectors, self.span = vectors, vectors * self.lanes
        self.exact = isinstance(self.queries, int) and self.queries % self.span == 0

    def _masks_to_transpose(self) -> dict[Value, Access]:
        """The masks in memory that are contiguous along the keys, where lanes would be far apart."""
        found = {}
        for op in self.p.steps():
            for x in self.p.side_operands(op):
                access = self.p.access_of(x)
                if (
                    access is not None
                    and element_type(x.type) == self.p.dtype
                    and access.stride(self.p.key) == 1
                    and access.stride(self.p.query) not in (0, 1)
                ):
                    found[x] = access
        return found

    def _tasks(self) -> None:
        p, code = self.p, self.code
        sizes = [p.sizes[c] for c in p.batch]
        blocks = ceildiv(self.queries, self.span)
        with code.parallel(code.value(product(sizes) * blocks), grain=self.schedule.grain, name="task") as task:
            *around, block = code.split(task, [*sizes, blocks])
            self.around = dict(zip(p.batch, around, strict=True))
            first = code.mul(block, self.span)
            if self.exact or self.vectors == 1:
                self._task(first)
                return
            # The rest of the last block goes a vector at a time; all other blocks are whole.
            whole = code.condition("le", code.add(first, self.span), self.queries)
            if isinstance(whole, Value):
                self.exact = True
                with code.when(whole):
                    self._task(first)
            self._take(1)

            def rest(at: Position, carried: list[Value]) -> list[Value]:
                self._task(at.scalar(code))
                return carried

            with code.when(whole, then=False) if isinstance(whole, Value) else nullcontext():
                run(code, first, self.queries, self.lanes, [], rest, "vector")

    def _task(self, first: Index) -> None:
        code, p, dtype = self.code, self.p, self.p.dtype
        self.first = first
        self.left = code.sub(self.queries, first)
        self.transposed_queries = code.scratch(self._whole(self.depth) * self.span, dtype)
        self.exponentials = code.scratch(self.block * self.span, dtype)
        self.sums = code.scratch(self.width * self.span, dtype)
        self.peak, self.total, self.scale = (code.scratch(self.span, dtype) for _ in range(3))
        self.mask_tiles = {x: code.scratch(self._whole(self.block) * self.span, dtype) for x in self.transposed_masks}
        self._transpose_queries()
        end = self.end(code.add(first, self.span - 1), self.rows)
        single = isinstance(end, int) and end <= self.block and len(p.parts) == 1
        if not single:
            for v in range(self.vectors):
                self._put(self.low(self.lanes), self.peak, 0, v)
                self._put(code.zero(dtype, self.lanes), self.total, 0, v)
            with code.loop(0, self.width * self.span, step=self.lanes, name="clear") as clear:
                code.store(code.zero(dtype, self.lanes), self.sums, clear.iv, None, self.align)

        for part in p.parts:

            def block(start: Index, count: Index, carried: list[Value], part: AttentionPart = part) -> list[Value]:
                self._transpose_masks(code.add(part.start, start), count)
                self._scores(part, start, count, single)
                self._weigh(count, single)
                self._gather(part, start, count, single)
                return carried

            self.blocks(end if len(p.parts) == 1 else part.count, self.block, [], block)
        self._finish()

    # --- registers and scratch memory, `span` elements in a row of which `lanes` belong to each vector

    def _whole(self, rows: int) -> int:
        """Rows rounded up to square blocks."""
        return -(-rows // self.lanes) * self.lanes

    def _each_vector(self, body: Callable[[Index], None]) -> None:
        """`body` for each vector of queries, written once: for what moves elements and takes little time."""
        if self.vectors == 1:
            body(0)
        else:
            with self.code.loop(0, self.vectors, name="vector") as loop:
                body(loop.iv)

    def _at(self, row: Index, v: Index) -> Index:
        return self.code.add(self.code.mul(row, self.span), self.code.mul(v, self.lanes))

    def _get(self, buffer: Value, row: Index, v: Index) -> Value:
        return self.code.load(buffer, self._at(row, v), self.lanes, None, self.align)

    def _leaf(self, buffer: Value, row: Index, v: int) -> Leaf:
        return VectorLeaf(lambda _: self._get(buffer, row, v))

    def _put(self, x: Value, buffer: Value, row: Index, v: int) -> None:
        self.code.store(x, buffer, self._at(row, v), None, self.align)

    def _row(self, v: Index, i: int) -> Index:
        """Query `i` of vector `v`; one that does not exist is read as the last one."""
        code = self.code
        query = code.add(self.first, code.mul(v, self.lanes), i)
        return query if self.exact else code.min(query, code.sub(self.queries, 1))

    def _transpose(self, count: Index, read: object, buffer: Value) -> None:
        """Rows of `count` elements, one per query, as columns of `buffer`; `read(query, position, mask)` gives neighbouring elements."""
        code, lanes = self.code, self.lanes

        def rows_of(v: Index) -> None:
            def piece(at: Position, wide: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                rows = [read(self._row(v, i), at, mask) for i in range(lanes)]  # type: ignore[operator]
                start = Position(at.const, at.terms).scalar(code)
                for k, column in enumerate(transpose_lanes(code, rows)):
                    where = code.add(code.mul(start, self.span), code.mul(v, lanes), k * self.span)
                    code.store(column, buffer, where, None, self.align)
                return carried

            vector_loop(code, 0, count, Lanes(lanes, True), [], piece)

        self._each_vector(rows_of)

    def _transpose_queries(self) -> None:
        self._transpose(self.depth, self.query_elements, self.transposed_queries)

    def _transpose_masks(self, start: Index, count: Index) -> None:
        code = self.code
        for x, access in self.transposed_masks.items():
            base = code.add(self.base(access), start)

            def read(query: Index, at: Position, mask: Value | None, base: Index = base, access: Access = access) -> Value:
                where = code.add(base, code.mul(query, access.stride(self.p.query)), Position(at.const, at.terms).scalar(code))
                return code.load(self.buffers[access.source], where, self.lanes, mask)

            self._transpose(count, read, self.mask_tiles[x])

    # --- one block of keys

    def _row_sizes(self, extent: Dim) -> list[int]:
        """Tiles by rows that cover a block: whole ones, then the one rest that a known extent leaves, or halves for one that is not known.
        """
        if isinstance(extent, int):
            rest = extent % self.rows
            return [self.rows, rest] if rest else [self.rows]
        sizes = [self.rows]
        while sizes[-1] > 1:
            sizes.append(sizes[-1] // 2)
        return sizes

    def _scores(self, part: AttentionPart, start: Index, count: Index, single: bool) -> None:
        """The scores of a block into `exponentials`; what is to be taken off them into `peak`, and how much that makes of earlier sums into
        `scale`.
        """
        code, p, lanes = self.code, self.p, self.lanes
        step = part.keys.stride(p.key)
        base = code.add(self.base(part.keys), code.mul(start, step))
        source = self.buffers[part.keys.source]
        first = code.add(part.start, start)
        tops = code.scratch(self.span, p.dtype)
        for v in range(self.vectors):
            self._put(self.low(lanes) if single else self._get(self.peak, 0, v), tops, 0, v)

        def tile(at: Index, rows: int) -> None:
            scores = accumulate(
                code,
                [Axis(self.depth, part.keys.stride(p.depth), self.span)],
                lambda r, where: code.broadcast(code.load(source, code.add(where, code.mul(r, step))), lanes),
                lambda v, where: self.code.load(self.transposed_queries, code.add(where, v * lanes), lanes, None, self.align),
                zeros(code, rows, self.vectors, p.dtype, lanes),
                code.add(base, code.mul(at, step)),
                overlapped=self._prefetch_keys(part, code.add(start, at), rows),
                together=STEPS_TOGETHER,
            )
            for v in range(self.vectors):
                top = self._get(tops, 0, v)
                for r in range(rows):
                    score = self._masked(scores[r][v], code.add(at, r), first, v)
                    self._put(score, self.exponentials, code.add(at, r), v)
                    # Without a thought for nan, which will show in the sums.
                    top = code.apply("select", code.apply("gt", score, top), score, top)
                self._put(top, tops, 0, v)

        tile_rows(code, count, self._row_sizes(part.count), tile, "key")
        for v in range(self.vectors):
            top = self._get(tops, 0, v)
            shift = self.shift(top, lanes)
            if not single:
                old = self._get(self.peak, 0, v)
                self._put(self.weight(old, shift, lanes), self.scale, 0, v)
                self._put(top, self.peak, 0, v)
            self._put(shift, tops, 0, v)
        self.tops = tops

    def _prefetch_keys(self, part: AttentionPart, key: Index, rows: int) -> Overlapped | None:
        """What the tile of scores of `rows` keys from `key` on prefetches in its rounds: the keys of the next tile, and the values of its
        own.

        Neighbours in memory are left to the hardware prefetcher.
        """
        code, rounds = self.code, self.depth // UNROLL if self.depth > MOST_UNROLLED else 0
        if not rounds or not self.schedule.prefetch:
            return None
        shares = []
        for access, letter, first in ((part.keys, self.p.depth, code.add(key, rows)), (part.values, self.p.width, key)):
            step, size = access.stride(self.p.key), self.p.sizes[letter]
            if access.stride(letter) != 1 or step == size or not isinstance(size, int):
                continue
            buffer = self.buffers[access.source]
            line = self._line(buffer)
            inner = -(-size // line)
            lines = Prefetching(buffer, code.add(self.base(access), code.mul(first, step)), rows * inner, inner, line, step)
            shares.append(lines.share(code, 0, -(-lines.lines // rounds)))

        def prefetch(round_number: Value) -> None:
            for share in shares:
                share(round_number)

        return prefetch if shares else None

    def _line(self, buffer: Value) -> int:
        """Elements of a buffer in a line of memory."""
        return self.request.target.line_bytes // element_type(buffer.type).bytes

    def _masked(self, score: Value, key: Index, start: Index, v: int) -> Value:
        """The softmax's operand at a key for a vector of queries, from their score."""
        p, code, lanes = self.p, self.code, self.lanes
        if p.masked is p.first.result:
            return score
        leaves = self.leaves()
        leaves[p.first.result] = VectorLeaf(lambda _: score)
        for x, buffer in self.mask_tiles.items():
            leaves[x] = self._leaf(buffer, key, v)
        query = position_at(self.first, v * lanes, 1)
        at = self.places(p.axes, {p.key: position_at(code.add(start, key)), p.query: query})
        mask = None if self.exact else code.lane_mask(code.sub(self.left, v * lanes), lanes)
        return ElementEmitter(code, leaves).at(p.masked, at, lanes, mask)

    def _weigh(self, count: Index, single: bool) -> None:
        """Exponentials in place of the scores of a block, and their sums."""
        code = self.code
        shifts = [self._get(self.tops, 0, v) for v in range(self.vectors)]
        zero = code.zero(self.p.dtype, self.lanes)
        sums = [zero] * self.vectors

        def some(at: Index, rows: int, sums: list[Value]) -> list[Value]:
            sums = list(sums)
            for r in range(rows):
                self._prefetch_output(code.add(at, r))
                for v in range(self.vectors):
                    score = self._get(self.exponentials, code.add(at, r), v)
                    made = self.weight(score, shifts[v], self.lanes)
                    self._put(made, self.exponentials, code.add(at, r), v)
                    sums[v] = code.apply("add", sums[v], made)
            return sums

        unroll = 2
        whole = code.mul(code.div(count, unroll), unroll)
        sums = run(code, 0, whole, unroll, sums, lambda at, values: some(at.scalar(code), unroll, values), "key")
        sums = run(code, whole, count, 1, sums, lambda at, values: some(at.scalar(code), 1, values), "key")
        for v, made in enumerate(sums):
            if not single:
                made = code.fma(self._get(self.total, 0, v), self._get(self.scale, 0, v), made)
            self._put(made, self.total, 0, v)

    def _prefetch_output(self, round_number: Index) -> None:
        """Prefetches one line of the task's results, each in its turn, for which stores would wait. Not if rows of results are contiguous.
        """
        code, stride = self.code, self.p.strides.get(self.p.query, 0)
        if not self.schedule.prefetch or stride == self.width:
            return
        line = self._line(self.out)
        query, part = code.mod(round_number, self.span), code.mod(code.div(round_number, self.span), -(-self.width // line))
        code.prefetch(self.out, code.add(self.out_base(), code.mul(code.add(self.first, query), stride), code.mul(part, line)), write=True)

    def _gather(self, part: AttentionPart, start: Index, count: Index, single: bool) -> None:
        """The values of a block, weighted, on top of what is left of the sums before."""
        code, p, lanes = self.code, self.p, self.lanes
        source, step = self.buffers[part.values.source], part.values.stride(p.width)
        base = code.add(self.base(part.values), code.mul(start, part.values.stride(p.key)))

        def tile(at: Index, rows: int) -> None:
            sums = zeros(code, rows, self.vectors, p.dtype, lanes)
            if not single:
                scales = [self._get(self.scale, 0, v) for v in range(self.vectors)]
                sums = [
                    [code.apply("mul", self._get(self.sums, code.add(at, r), v), scales[v]) for v in range(self.vectors)]
                    for r in range(rows)
                ]
            sums = accumulate(
                code,
                [Axis(count, part.values.stride(p.key), self.span)],  # type: ignore[arg-type]
                lambda r, where: code.broadcast(code.load(source, code.add(where, code.mul(r, step))), lanes),
                lambda v, where: code.load(self.exponentials, code.add(where, v * lanes), lanes, None, self.align),
                sums,
                code.add(base, code.mul(at, step)),
            )
            for r, line in enumerate(sums):
                for v, x in enumerate(line):
                    self._put(x, self.sums, code.add(at, r), v)

        tile_rows(code, self.width, self._row_sizes(self.width), tile, "element")

    def _finish(self) -> None:
        """The outputs: columns of the sums, over the totals."""
        base = self.out_base()
        self._each_vector(lambda v: self._store_outputs(v, base))

    def _store_outputs(self, v: Index, base: Index) -> None:
        code, lanes = self.code, self.lanes
        stride = self.p.strides.get(self.p.query, 0)
        inverse = self.quotient(self._get(self.total, 0, v), lanes)
        before = code.mul(v, lanes)
        exists = [code.mul(code.sub(self.left, code.add(before, i)), self.width) for i in range(lanes)]

        def piece(at: Position, wide: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            start = Position(at.const, at.terms).scalar(code)
            rest = lanes if mask is None else code.sub(self.width, start)
            columns = []
            for k in range(lanes):
                # What is behind the last element is not stored, so any row will do for it.
                row = code.add(start, k) if mask is None else code.min(code.add(start, k), self.width - 1)
                columns.append(code.apply("mul", self._get(self.sums, row, v), inverse))
            for i, output in enumerate(transpose_lanes(code, columns)):
                kept = mask if self.exact else code.lane_mask(code.min(exists[i], rest), lanes)
                where = code.add(base, code.mul(code.add(self.first, before, i), stride), start)
                code.store(output, self.out, where, kept)
            return carried

        vector_loop(code, 0, self.width, Lanes(lanes, True), [], piece)


class _FewQueries(_AttentionKernel):
    """Lanes are elements of one query, or of its output."""

    def _tasks(self) -> None:
        p, code = self.p, self.code
        sizes = [p.sizes[c] for c in (*p.batch, p.query)]
        with code.parallel(code.value(product(sizes)), grain=self.schedule.grain, name="task") as task:
            *around, query = code.split(task, sizes)
            self.around = dict(zip(p.batch, around, strict=True))
            self._task(query)

    def _pieces(self, extent: int) -> list[tuple[int, Value | None]]:
        """Where the vectors begin that cover `extent` elements, and their masks."""
        return [(at, self.code.lane_mask(extent - at, self.lanes)) for at in range(0, extent, self.lanes)]

    def _task(self, query: Index) -> None:
        code, p, lanes = self.code, self.p, self.lanes
        self.query = query
        pieces = self._pieces(self.depth)
        query_vectors = [self.query_elements(query, Position(at, step=1), mask) for at, mask in pieces]
        block = self.schedule.keys
        weights = code.scratch(block, p.dtype)
        outputs = self._pieces(self.width)
        zero, number = code.zero(p.dtype, lanes), code.constant(0.0, p.dtype)

        def one(start: Index, count: Index, carried: list[Value], part: AttentionPart) -> list[Value]:
            peak, total, *sums = carried
            top = self._scores(part, start, count, query_vectors, pieces, weights, peak)
            shift = self.shift(top, 1)
            scale = self.weight(peak, shift, 1)
            shifts = code.broadcast(shift, lanes)

            def weigh(at: Position, values: list[Value]) -> list[Value]:
                where = at.scalar(code)
                made = self.weight(code.load(weights, where, lanes, None, self.align), shifts, lanes)
                code.store(made, weights, where, None, self.align)
                return [code.apply("add", values[0], made)]

            (made,) = run(code, 0, count, lanes, [zero], weigh, "key")
            total = code.fma(total, scale, code.reduce(made))
            scales = code.broadcast(scale, lanes)
            base = code.add(self.base(part.values), code.mul(start, part.values.stride(p.key)))
            source = self.buffers[part.values.source]
            (sums,) = accumulate(
                code,
                [Axis(count, 1, part.values.stride(p.key))],  # type: ignore[arg-type]
                lambda r, where: code.broadcast(code.load(weights, where), lanes),
                lambda v, where: code.load(source, code.add(where, outputs[v][0]), lanes, outputs[v][1]),
                [[code.apply("mul", x, scales) for x in sums]],
                0,
                base,
            )
            return [top, total, *sums]

        carried = [self.low(1), number, *[zero] * len(outputs)]
        for part in p.parts:
            end = self.end(query) if len(p.parts) == 1 else part.count
            carried = self.blocks(end, block, carried, partial(one, part=part))
        _, total, *sums = carried
        inverse = code.broadcast(self.quotient(total, 1), lanes)
        base = code.add(self.out_base(), code.mul(query, p.strides.get(p.query, 0)))
        for (at, mask), x in zip(outputs, sums, strict=True):
            code.store(code.apply("mul", x, inverse), self.out, code.add(base, at), mask)


    def _scores(
        self,
        part: AttentionPart,
        start: Index,
        count: Index,
        query_vectors: list[Value],
        pieces: list[tuple[int, Value | None]],
        weights: Value,
        peak: Value,
    ) -> Value:
        """The scores of a block into `weights`, -inf behind the last one. Gives the largest one so far."""
        code, p, lanes = self.code, self.p, self.lanes
        base, step = self.base(part.keys), part.keys.stride(p.key)
        source = self.buffers[part.keys.source]

        def group(at: Position, wide: int, mask: Value | None, copy: int, carried: list[Value]) -> list[Value]:
            first = Position(at.const, at.terms).scalar(code)
            sums = []
            for i in range(lanes):
                key = code.add(start, first, i)
                if mask is not None:
                    key = code.min(key, code.sub(part.count, 1))
                row = code.add(base, code.mul(key, step))
                total = code.zero(p.dtype, lanes)
                for (element, inside), x in zip(pieces, query_vectors, strict=True):
                    total = code.fma(code.load(source, code.add(row, element), lanes, inside), x, total)
                sums.append(total)
            scores = self._masked(sum_lanes(code, sums), at.plus(code, position_at(code.add(part.start, start))), mask)
            if mask is not None:
                scores = code.apply("select", mask, scores, self.low(lanes))
            code.store(scores, weights, first, None, self.align)
            return [code.apply("max", carried[0], scores)]

        (top,) = vector_loop(code, 0, count, Lanes(lanes, True), [self.low(lanes)], group)
        return code.apply("max", peak, code.reduce(top, "max"))

    def _masked(self, scores: Value, key: Position, mask: Value | None) -> Value:
        """The softmax's operand at neighbouring keys, from their scores."""
        p = self.p
        if p.masked is p.first.result:
            return scores
        leaves = self.leaves()
        leaves[p.first.result] = VectorLeaf(lambda _: scores)
        at = self.places(p.axes, {p.key: key, p.query: position_at(self.query)})
        return ElementEmitter(self.code, leaves).at(p.masked, at, self.lanes, mask)
