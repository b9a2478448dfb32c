"""Generic loops: the kernel of any root that no other builder takes.

- An elementwise group becomes one loop nest, vectorised along the last axis.
- A group with row reductions (`rows.py`), such as a softmax, becomes a nest over the rows, with one loop per stage in each row. If the last
  axis is reduced, lanes run along it and meet in a horizontal reduction. If not, each lane is a row. Costly values that several stages
  need are kept in a scratch row.
- Anything else is computed one result after the other. Reductions inside are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, gcd
from typing import NamedTuple

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, Expr, ceildiv, product
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import BufferType, ScalarType, TensorType, f32
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import Rows, rows_of, shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, Positions, VectorLeaf, buffer_leaf, convert, linear, load, store, wide
from polyreme.lowering.kernels.general.scatter import write_updates
from polyreme.lowering.kernels.general.take import take_elements, taken_elements
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Body, Lanes, each, iterations_together, run, vector_loop, vector_loop_rest
from polyreme.lowering.kernels.microkernel import transpose_lanes
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position, position

# What is done at places of the reduced axes: with so many lanes, the mask of those there are, the part of several registers, and what is
# carried on.
RowBody = Callable[[dict[int, Position], int, Value | None, int, list[Value]], list[Value]]

# Functions that cost as much as this many simple ones; the others cost one.
EXPENSIVE = {
    "exp": 8, "expm1": 10, "log": 8, "log1p": 10, "log2": 8, "log10": 8, "sin": 10, "cos": 10, "tan": 14, "asin": 10, "acos": 10,
    "atan": 10, "atan2": 14,
    "sinh": 12, "cosh": 12, "tanh": 12, "sigmoid": 10, "erf": 12, "gelu": 8, "pow": 20, "mod": 6, "floor_divide": 10, "div": 4, "sqrt": 4,
    "rsqrt": 5,
}  # fmt: skip
# Functions whose operations mostly wait for each other: several vectors at once keep the machine busy, so many by the bytes of one. More
# are better in the caches only.
WAITING = ("exp", "expm1", "log", "tanh", "sigmoid", "gelu")
AT_ONCE = {
    64: dict.fromkeys(WAITING, 2),
    32: {
        **dict.fromkeys(("log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"), 2),
        **dict.fromkeys((*WAITING, "erf"), 4),
    },
}
# A value at least this dear is kept rather than computed in another stage again.
KEPT_COST = 4
# Bytes of scratch rows in one kernel: half L1.
SCRATCH_BYTES = 16 << 10
# How far ahead loops ask for lines of memory: 1 KiB or 4 KiB are about as good.
PREFETCH_BYTES = 2048
# Rows that share positions by which they are read.
ROWS_BY_POSITION = 4
# Shorter rows do not pay for a beginning of their own, up to a whole line of the result.
LEAST_ROW_BYTES = 2048


def build_loops(request: Request) -> KernelPlan | None:
    """The plan of any root: one kernel on its operands and results.

    None for a group of several contractions, as for one of other ops that do not go element by element: each element of the second would
    compute all that it reads of the first again.
    """
    if not _goes_by_elements(request):
        return None
    func = collapse_axes(request.func)
    types = [BufferType(v.type.shape, v.type.dtype) for v in (*request.func.args, *request.results)]
    names = [a.name for a in request.func.args] + [v.name for v in request.results]
    made = Func.empty(request.name(describe(func)), types, arg_names=names, loc=request.func.location)
    code = Code(Builder.at_end(made.block, made.location))
    inputs, outputs = made.args[: len(func.args)], made.args[len(func.args) :]
    results = func.block.terminator.operands
    _emit(code, request, func, dict(zip(func.args, inputs, strict=True)), list(zip(results, outputs, strict=True)))
    code.b(Return, ())
    clean_up_kernel(made)
    slots = [operand(i) for i in range(len(inputs))] + [result(i) for i in range(len(outputs))]
    return KernelPlan((Step(made, tuple(slots)),), builder="loops", in_place=_in_place(request))


def _goes_by_elements(request: Request) -> bool:
    """Whether a root is one op, or a group of ops of single elements and rows, with at most one contraction, or a scatter as its result."""
    ops = request.ops()
    if len(ops) == 1 and request.single(type(ops[0])) is not None:
        return True
    scatters = request.ops(tensor.Scatter)
    return (
        not any(isinstance(op, (tensor.Argsort, tensor.Cumulate, tensor.Random, tensor.Scan)) for op in ops)
        and len(request.ops(tensor.Contract)) <= 1
        and (not scatters or [*scatters[0].results] == [*request.results] and len(scatters) == 1)
    )


def _in_place(request: Request) -> tuple[tuple[int, int], ...]:
    """Operands that go element by element into results of their type: one nest then reads and writes each place once.

    Results are written in their order, each as soon as it is there, so that no later one may need the operand.
    """
    ops, results = request.ops(), request.results
    if (
        not all(isinstance(op, tensor.Map) or not op.operands or isinstance(op, tensor.Broadcast) for op in ops)
        or len({shape_of(v) for v in results}) != 1
    ):
        return ()
    read = [{v, *(x for op in needed_ops(ops, [v]) for x in op.operands)} for v in request.func.block.terminator.operands]
    pairs = []
    for i, arg in enumerate(request.func.args):
        if all(isinstance(user, tensor.Map) and shape_of(user.result) == shape_of(arg) for user in arg.users):
            last = max((r for r, values in enumerate(read) if arg in values), default=0)
            pairs += [(i, r) for r, v in enumerate(results) if v.type == arg.type and r >= last]
    return tuple(pairs)


def describe(func: Func) -> str:
    """A word or two for the kernel's name: the dearest ops of the group."""
    words = []
    for op in func.block:
        word = op.attributes["fn"] if isinstance(op, tensor.Map) else op.name.split(".")[1]
        if not isinstance(op, Return) and word not in words and word not in ("full", "broadcast", "reshape", "cast"):
            words.append(word)
    return "_".join(words[-3:]) or "copy"


def _emit(code: Code, request: Request, func: Func, inputs: dict[Value, Value], results: list[tuple[Value, Value]]) -> None:
    leaves = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in inputs.items()}
    ops = [op for op in func.block if not isinstance(op, Return)]
    scatter = results[0][0].producer(tensor.Scatter)
    if scatter is not None:
        alone = Rows(shape_of(scatter.x), (), (), {}, {scatter.x: tuple(range(len(shape_of(scatter.x))))})
        _RowLoops(code, request, ops, leaves, [(scatter.x, results[0][1])], alone).emit()
        write_updates(code, request.target, ElementEmitter(code, leaves), scatter, results[0][1])
        return
    take = taken_elements([v for v, _ in results])
    if take is not None:
        take_elements(code, request.target, leaves, take, results[0][1])
        return
    rows = rows_of(ops, [v for v, _ in results])
    concat = results[0][0].producer(tensor.Concat) if len(results) == 1 else None
    if concat is not None and rows is not None and not rows.staged:
        _emit_concat(code, request, ops, leaves, concat, results[0][1])
    elif rows is not None:
        _RowLoops(code, request, ops, leaves, results, rows, inputs=inputs).emit()
    else:
        for value, buffer in results:
            alone = Rows(shape_of(value), (), (), {}, {value: tuple(range(len(shape_of(value))))})
            _RowLoops(code, request, ops, leaves, [(value, buffer)], alone).emit()


class _InLines(NamedTuple):
    """A result that goes past the caches in whole lines: all its vectors, but under a mask, begin at multiples of `align` bytes."""

    value: Value
    buffer: Value
    align: int


class _Nest(NamedTuple):
    """Iterations over `sizes`, of which each costs about so many cycles, and what is done in one."""

    sizes: list[Dim]
    cycles: float
    body: Callable[[list[Position]], None]


def _emit_concat(code: Code, request: Request, ops: Sequence[Op], leaves: dict[Value, Leaf], concat: tensor.Concat, buffer: Value) -> None:
    """Each operand is written where it belongs, so no element asks which operand it is from; row by row, where all have the same rows, to
    which single columns count as well.
    """
    start: Dim = 0
    in_rows = all(n == 1 for n in shape_of(concat.result)[concat.axis + 1 :]) and any(shape_of(x)[concat.axis] != 1 for x in concat.xs)
    parts: list[list[_Nest]] = []
    for x in concat.xs:
        shape = shape_of(x)
        alone = Rows(shape, (), (), {}, {x: tuple(range(len(shape)))})
        loops = _RowLoops(code, request, ops, leaves, [(x, buffer)], alone, concat.axis if in_rows else None)
        loops.place_in(shape_of(concat.result), {concat.axis: start})
        parts.append(loops.nests())
        start = start + shape[concat.axis]
    nests = [nest for part in parts for nest in part]
    if len(nests) == len(parts) and all(nest.sizes == nests[0].sizes for nest in nests):

        def row(places: list[Position]) -> None:
            for nest in nests:
                nest.body(places)

        each(code, request.target, nests[0].sizes, sum(nest.cycles for nest in nests), row)
    else:
        for nest in nests:
            each(code, request.target, *nest)


class _RowLoops:
    """Emits the loops of one row form, with lanes along `vector`: the last axis that has several places where that is None. `inputs` are
    the operands' buffers.
    """

    def __init__(
        self, code: Code, request: Request, ops: Sequence[Op], leaves: dict[Value, Leaf], results: list[tuple[Value, Value]], rows: Rows,
        vector: int | None = None,
        inputs: dict[Value, Value] | None = None,
    ):  # fmt: skip
        self.code, self.target, self.rows, self.results = code, request.target, rows, results
        self.ops = needed_ops(ops, [v for v, _ in results])
        self.leaves, self.inputs = leaves, inputs or {}
        self.shape_stored: tuple[Dim, ...] | None = None
        self.shift: dict[int, Dim] = {}
        sized = [i for i, n in enumerate(rows.space) if n != 1]
        self.vector = vector if vector is not None else sized[-1] if sized else None
        self.along_row = self.vector in rows.reduced
        self.lanes = self._choose_lanes()
        self.stages = max((rows.level[s.result] for s in rows.staged), default=0)
        # Which of the kept values waits in the row of which result, instead of a scratch row.
        self.hosted: dict[Value, tuple[Value, Value]] = {}
        self.kept = self._choose_kept()
        self.scratch: dict[Value, Value] = {}
        self.in_lines = self._choose_in_lines()
        self.rows_at_once = self._choose_rows_at_once()
        # Whether the row being written is known to be one vector or less.
        self.is_short = False

    def place_in(self, shape: tuple[Dim, ...], shift: dict[int, Dim]) -> None:
        """Store results into buffers of another shape, moved along some axes."""
        self.shape_stored, self.shift, self.in_lines = shape, shift, None

    # --- choices

    def _choose_lanes(self) -> Lanes:
        if self.vector is None:
            return Lanes(1, False)
        types = {v.type.dtype for op in self.ops for v in op.results} | {v.type.dtype for v, _ in self.results}
        floats = [t for t in types if t.is_float and t.bits >= 32]
        widest = max((t.bytes for t in floats or types), default=4)
        count = max(1, self.target.vector_bytes // max(widest, 2 if not floats else 4))
        n = self.rows.space[self.vector]
        if isinstance(n, int) and n < count:
            count = 1 << ((n - 1).bit_length() if self.target.masked else n.bit_length() - 1) if n > 0 else 1
        elif self.rows.staged and not self.along_row and not any(isinstance(op, tensor.Map) and op.fn in EXPENSIVE for op in self.ops):
            # Rows side by side: wider than a register, so that each step down the rows reads whole cache lines in a run.
            while count < 8 * self.target.lanes(f32) and (isinstance(n, Expr) or n >= 2 * count):
                count *= 2
        else:
            at_once = min(self._at_once(), 2) if isinstance(n, Expr) else self._at_once()
            # Of a row that is known there are two such groups at least.
            while isinstance(n, int) and at_once > 1 and n < 2 * at_once * count:
                at_once //= 2
            count *= at_once
        unroll = 4 if self.along_row and (isinstance(n, Expr) or n >= 4 * count) and count > 1 else 1
        return Lanes(count, self.target.masked, unroll)

    def _choose_rows_at_once(self) -> int:
        """How many rows are computed together: several where their elements are read by positions along the row that all rows share."""
        if self.rows.staged or self.vector is None or self.vector < 1 or self.lanes.count == 1:
            return 1
        rows, n = self.rows.space[self.vector - 1], self.rows.space[self.vector]
        if isinstance(n, int) and n < 2 * self.lanes.count:
            # So few vectors are no loop, out of which the positions are hoisted anyway.
            return 1
        for op in self.ops:
            if isinstance(op, tensor.Gather) and op.axis == self.vector and len(shape_of(op.index)) == 1:
                if shape_of(op.result) == self.rows.space and (isinstance(rows, Expr) or rows >= ROWS_BY_POSITION):
                    return ROWS_BY_POSITION
        return 1

    def _at_once(self) -> int:
        """How many vectors are computed at once: several where elements are computed one by one, by functions whose operations mostly wait
        for each other.
        """
        counts = AT_ONCE.get(self.target.vector_bytes, {})
        most = max((counts.get(op.fn, 1) for op in self.ops if isinstance(op, tensor.Map)), default=1)
        return most if most > 1 and self._elementwise() else 1

    def _elementwise(self) -> bool:
        """Whether each element of a result takes one of each operand."""
        return all(isinstance(op, tensor.Map) or not op.operands or isinstance(op, tensor.Broadcast) for op in self.ops)

    def _row_cycles(self) -> float:
        """About what one row (or, with lanes as rows, one vector of them) costs."""
        total = 0.0
        for op in self.ops:
            weight = EXPENSIVE.get(op.attributes["fn"], 1) if isinstance(op, tensor.Map) else 1
            weight *= _repeats(op)
            elements = (
                max(estimate(product(shape_of(v))) for v in (*op.operands, *op.results))
                if isinstance(op, tensor.Reduce)
                else estimate(product(shape_of(op.results[0])))
            )
            total += weight * elements
        total += sum(estimate(product(shape_of(v))) for v, _ in self.results)
        rows = estimate(product(self.rows.space[a] for a in self.rows.outer))
        return total / max(rows, 1) / (self.lanes.count if self.along_row else 1)

    def _choose_kept(self) -> dict[Value, int]:
        """Dear values that several stages ask for, with the first stage that does; they fit in the scratch, or in place of the last result
        if rows are of unknown length.

        The scratch has the present row only: not of those are kept whose elements are asked for in other places, through a slice, say.
        """
        if not self.rows.staged:
            return {}
        wanted: dict[Value, set[int]] = {}
        seen: set[tuple[Value, int, bool]] = set()
        elsewhere: set[Value] = set()

        def want(value: Value, stage: int, moved: bool = False) -> None:
            if (value, stage, moved) in seen:
                return
            seen.add((value, stage, moved))
            wanted.setdefault(value, set()).add(stage)
            if moved:
                elsewhere.add(value)
            op = value.producer()
            if op is not None and op not in self.rows.staged:
                for x in op.operands:
                    want(x, stage, moved or not isinstance(op, (tensor.Map, tensor.Broadcast)))

        for s in self.rows.staged:
            want(s.x, self.rows.level[s.result] - 1)
        for value, _ in self.results:
            if self.rows.is_full(value):
                want(value, self.stages)
        row = product(self.rows.space[a] for a in self.rows.reduced) * (1 if self.along_row else self.lanes.count)
        kept: dict[Value, int] = {}
        room = SCRATCH_BYTES
        for op in reversed(self.ops):
            value = op.results[0]
            dear = isinstance(op, tensor.Map) and EXPENSIVE.get(op.fn, 1) >= KEPT_COST
            dear = dear or (isinstance(op, tensor.Reduce) and op not in self.rows.staged)
            bytes = row * value.type.dtype.bytes
            if not dear or value in elsewhere or len(wanted.get(value, ())) < 2 or shape_of(value) != self.rows.space:
                continue
            if not isinstance(bytes, int):
                last = next(((v, buffer) for v, buffer in reversed(self.results) if self.rows.is_full(v)), None)
                if last is None or not self.along_row or self.hosted or last[0].type != value.type:
                    continue
                self.hosted[value] = last
            elif bytes <= room:
                room -= bytes
            else:
                continue
            kept[value] = min(wanted[value])
        return kept

    @property
    def _may_be_short(self) -> bool:
        """Whether rows are of unknown length, and are summed up only: those of a vector or less then have code of their own."""
        return (
            self.vector is not None
            and self.along_row
            and self.lanes.masked
            and self.lanes.count > 1
            and self.stages == 1
            and self.rows.reduced == (self.vector,)
            and isinstance(self.rows.space[self.vector], Expr)
            and not any(self.rows.is_full(v) for v, _ in self.results)
        )

    # --- the nest

    def emit(self) -> None:
        for nest in self.nests():
            each(self.code, self.target, *nest)

    def nests(self) -> list[_Nest]:
        """What computes the results, mostly one nest."""
        space, outer = self.rows.space, list(self.rows.outer)
        cycles = self._row_cycles()
        if self.vector is None or self.along_row:
            sizes = [space[a] for a in outer]

            def whole_row(places: list[Position]) -> None:
                self._row(dict(zip(outer, places, strict=True)), 1, None)

            if self._may_be_short and sizes:
                together = iterations_together(product(sizes))
                some = partial(self._rows, sizes[-1], together, whole_row)
                return [_Nest([*sizes[:-1], ceildiv(sizes[-1], together)], cycles * together, some)]
            return [_Nest(sizes, cycles, whole_row)]
        # Lanes are rows, so the vector axis is cut into chunks if the axes around it do not make enough iterations.
        outer.remove(self.vector)
        n = space[self.vector]
        inner = self._axis_of_columns()
        transposed = self._transposed_ops() if inner is not None else []
        if inner is not None and transposed:
            return self._blocks([a for a in outer if a != inner], inner, transposed, cycles)
        if inner is not None:
            outer.remove(inner)
            cycles *= estimate(space[inner])
        around = [space[a] for a in outer]
        if self.rows_at_once > 1:
            around[outer.index(self.vector - 1)] = ceildiv(space[self.vector - 1], self.rows_at_once)
            cycles *= self.rows_at_once
        count = 1
        for size in around:
            count *= max(estimate(size, 1), 1)
        chunk = max(
            self.lanes.count, _round_up(ceil(self.target.grain_cycles / 4 / max(cycles / self.lanes.count, 0.01)), 4 * self.lanes.count)
        )
        split = (
            count < 16
            and (isinstance(n, Expr) or n > chunk)
            and estimate(product(space)) * cycles / self.lanes.count >= self.target.serial_cycles
        )
        extent = min(chunk, n) if isinstance(n, int) else chunk if split else estimate(n)
        sizes = [*around, *([-(-n // chunk)] if split else [])]

        def rows_of_lanes(places: list[Position]) -> None:
            at = dict(zip(outer, places, strict=False))
            lo: Index = 0
            hi: Index = n
            if split:
                lo = self.code.mul(places[-1].scalar(self.code), chunk)
                hi = self.code.min(self.code.add(lo, chunk), n)

            def body(place: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                assert self.vector is not None
                row = {**at, self.vector: place}
                if inner is None:
                    self._prefetch(row, lanes, mask)
                    self._row(row, lanes, mask)
                    return carried

                def column(step: Position, values: list[Value]) -> list[Value]:
                    self._row({**row, inner: step}, lanes, mask)
                    return values

                return run(self.code, 0, space[inner], 1, carried, column)

            if self.rows_at_once == 1:
                vector_loop(self.code, self._to_whole_lines(at, lo, hi, body), hi, self.lanes, [], body)
            else:
                self._several_rows(at, lo, hi)

        return [_Nest(sizes, cycles * extent / self.lanes.count, rows_of_lanes)]

    def _choose_in_lines(self) -> _InLines | None:
        """The first such result of elementwise loops, on machines that keep memory busy neither with one stream nor with lines put together
        from parts.
        """
        if self.target.memory_streams == 1 or self.vector is None or not self._elementwise():
            return None
        for value, buffer in self.results:
            row, vector = self.rows.space[self.vector] * value.type.dtype.bytes, self.lanes.count * value.type.dtype.bytes
            if (
                shape_of(value) == self.rows.space
                and self._is_large(value, shape_of(value))
                and isinstance(row, int)
                and row >= LEAST_ROW_BYTES
                and vector >= self.target.vector_bytes
            ):
                return _InLines(value, buffer, gcd(self.target.line_bytes, vector))
        return None

    def _to_whole_lines(self, at: dict[int, Position], lo: Index, hi: Index, body: Body) -> Index:
        """Computes what comes before the first whole line; where that begins."""
        if self.in_lines is None:
            return lo
        assert self.vector is not None
        code, (value, buffer, align) = self.code, self.in_lines
        first = linear(code, self._places({**at, self.vector: position(lo)}), shape_of(value)).scalar(code)
        begin = code.min(code.add(lo, code.until_aligned(buffer, first, align)), hi)
        vector_loop_rest(code, lo, begin, self.lanes, [], body)
        return begin

    def _prefetch(self, at: dict[int, Position], lanes: int, mask: Value | None) -> None:
        """Asks for operands' lines ahead of a whole vector. The machine alone stops where a page ends, and does not look far while a core
        computes.
        """
        if self.in_lines is None or mask is not None:
            return
        for x, buffer in self.inputs.items():
            if shape_of(x) == self.rows.space:
                place, bytes = linear(self.code, self._places(at), shape_of(x)).scalar(self.code), x.type.dtype.bytes
                for distance in range(PREFETCH_BYTES, PREFETCH_BYTES + lanes * bytes, self.target.line_bytes):
                    self.code.prefetch(buffer, self.code.add(place, distance // bytes))

    def _axis_of_columns(self) -> int | None:
        """The axis to step along inside of the vectors, when a transpose makes lanes stand far apart in memory: that along which they move
        together through the cache lines that they have just read."""
        if self.rows.staged:
            return None
        for op in self.ops:
            if isinstance(op, tensor.Transpose) and shape_of(op.result) == self.rows.space and op.perm[-1] != len(op.perm) - 1:
                axis = op.perm.index(len(op.perm) - 1)
                return axis if axis != self.vector and self.rows.space[axis] != 1 else None
        return None

    def _transposed_ops(self) -> list[tensor.Transpose]:
        """The transposes whose results are put together from square blocks in registers: all of the group, where they turn it the same way
        and elementwise ops follow.
        """
        wide = self.target.lanes(f32)
        transposed = [op for op in self.ops if isinstance(op, tensor.Transpose)]
        behind = {op.result for op in transposed}
        for op in self.ops:
            if any(x in behind for x in op.operands):
                if not isinstance(op, tensor.Map):
                    return []
                behind.add(op.result)
        sizes = [self.rows.space[op.perm.index(len(op.perm) - 1)] for op in transposed if shape_of(op.result) == self.rows.space]
        like = len(sizes) == len(transposed) and all(op.perm == transposed[0].perm for op in transposed)
        like = like and all(v in behind for v, _ in self.results)
        plain = all(op.result.type.dtype.kind in "fiu" and op.result.type.dtype.bits >= 16 for op in transposed)
        assert self.vector is not None
        many = all(not isinstance(n, int) or n >= wide for n in (*sizes, self.rows.space[self.vector]))
        return transposed if like and plain and many and wide > 1 else []

    def _blocks(self, outer: list[int], inner: int, transposed: list[tensor.Transpose], cycles: float) -> list[_Nest]:
        """Blocks of as many columns as a vector has lanes, down all rows: the result is written along its rows, and each line of the
        operand is read once.
        """
        code, space = self.code, self.rows.space
        assert self.vector is not None
        vector, n, columns = self.vector, space[self.vector], space[inner]
        lanes = min(self.lanes.count, self.target.lanes(f32))

        def whole(at: dict[int, Position], row: Position, column: Position) -> None:
            blocks = []
            for op in transposed:
                emitter = ElementEmitter(code, self.leaves)
                rows = []
                for i in range(lanes):
                    places = {**at, vector: row.plus(code, Position(i)), inner: column.plus(code, Position(step=1))}
                    rows.append(emitter.at(op.x, [places[op.perm.index(k)] for k in range(len(op.perm))], lanes))
                blocks.append(transpose_lanes(code, rows))
            for i in range(lanes):
                leaves: dict[Value, Leaf] = {op.result: _register_leaf(block[i]) for op, block in zip(transposed, blocks, strict=True)}
                places = {**at, vector: row.plus(code, Position(step=1)), inner: column.plus(code, Position(i))}
                self._last_stage({**self.leaves, **leaves}, places, lanes, None)

        def down(at: dict[int, Position], column: Position) -> None:
            def body(place: Position, width: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                if width == lanes and mask is None:
                    whole(at, place.plus(code, Position(step=-1)), column)
                    return carried
                return run(code, 0, lanes, 1, carried, partial(single, at, place, width, mask, column))

            vector_loop(code, 0, n, Lanes(lanes, self.target.masked), [], body)


        def single(
            at: dict[int, Position], place: Position, width: int, mask: Value | None, column: Position, step: Position, carried: list[Value]
        ) -> list[Value]:
            self._row({**at, vector: place, inner: column.plus(code, step)}, width, mask)
            return carried

        def blocks_of(places: list[Position]) -> None:
            down(dict(zip(outer, places, strict=False)), places[-1].times(code, lanes))

        def rest_of(places: list[Position]) -> None:
            at = dict(zip(outer, places, strict=True))

            def body(place: Position, width: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                return run(
                    code, 0, columns % lanes, 1, carried, partial(single, at, place, width, mask, Position(columns // lanes * lanes))
                )

            vector_loop(code, 0, n, Lanes(lanes, self.target.masked), [], body)

        around = [space[a] for a in outer]
        blocks = _Nest([*around, columns // lanes], cycles * estimate(n), blocks_of)
        return [blocks, _Nest(around, cycles * estimate(n), rest_of)] if columns % lanes != 0 else [blocks]

    # --- one row (or `lanes` of them)

    def _rows(self, count: Dim, together: int, row: Callable[[list[Position]], None], places: list[Position]) -> None:
        """`together` of `count` rows, written for short ones and for others."""
        code = self.code
        assert self.vector is not None
        first = code.mul(places[-1].scalar(code), together)
        end = code.min(code.add(first, together), count) if together > 1 else code.add(first, 1)
        short = code.condition("le", self.rows.space[self.vector], self.lanes.count)
        assert isinstance(short, Value)

        def body(at: Position, carried: list[Value]) -> list[Value]:
            row([*places[:-1], at])
            return carried

        for self.is_short in (True, False):
            with code.when(short, then=self.is_short):
                run(code, first, end, 1, [], body)

    def _row(self, at: dict[int, Position], lanes: int, mask: Value | None) -> None:
        leaves = dict(self.leaves)
        self.scratch = {}
        for value in self.kept.keys() - self.hosted.keys():
            size = product(self.rows.space[a] for a in self.rows.reduced) * (1 if self.along_row else lanes)
            assert isinstance(size, int) and isinstance(value.type, TensorType)
            self.scratch[value] = self.code.scratch(max(size, 1), value.type.dtype)
        for stage in range(self.stages):
            reduces = [s for s in self.rows.staged if self.rows.level[s.result] == stage + 1]
            sums = self._reduce_stage(stage, reduces, leaves, at, lanes, mask)
            for s, total in zip(reduces, sums, strict=True):
                leaves[s.result] = register_leaf(self.code, total)
            for value, first in self.kept.items():
                if first == stage:
                    leaves[value] = self._scratch_leaf(value, lanes)
        self._last_stage(leaves, at, lanes, mask)


    def _several_rows(self, at: dict[int, Position], lo: Index, hi: Index) -> None:
        """`rows_at_once` rows, of which `at` has the number; one by one where there are fewer left."""
        code = self.code
        assert self.vector is not None
        axis = self.vector - 1
        first, size = code.mul(at[axis].scalar(code), self.rows_at_once), self.rows.space[axis]

        def vectors(rows: int, y: Position, carried: list[Value]) -> list[Value]:
            def body(place: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                emitter = ElementEmitter(code, self.leaves)
                for row in range(rows):
                    places = self._places({**at, axis: y.plus(code, Position(row)), axis + 1: place})
                    for value, buffer in self.results:
                        self._store(emitter, value, buffer, places, lanes, mask)
                return carried

            return vector_loop(code, lo, hi, self.lanes, carried, body)

        whole = code.condition("le", code.add(first, self.rows_at_once), size)
        if not isinstance(whole, Value):
            vectors(self.rows_at_once, position(first), [])
            return
        with code.when(whole):
            vectors(self.rows_at_once, position(first), [])
        with code.when(whole, then=False):
            run(code, first, size, 1, [], partial(vectors, 1), name="row")

    def _reduce_stage(
        self, stage: int, reduces: list[tensor.Reduce], leaves: dict[Value, Leaf], at: dict[int, Position], lanes: int, mask: Value | None
    ) -> list[Value]:
        """One loop over the row for all reductions of a stage: their results, scalars or one per lane."""
        code = self.code
        kinds = [accumulator_of(s) for s in reduces]
        width = self.lanes.count if self.along_row else lanes
        parts = self.lanes.unroll if self.along_row and not self.is_short else 1
        scalar_tail = self.along_row and width > 1 and not self.lanes.masked
        carried = [
            code.broadcast(code.constant(identity_of(s.fn, t), t), width) for _ in range(parts) for s, t in zip(reduces, kinds, strict=True)
        ]
        if scalar_tail:
            carried += [code.constant(identity_of(s.fn, t), t) for s, t in zip(reduces, kinds, strict=True)]

        def body(places: dict[int, Position], lanes: int, mask: Value | None, part: int, values: list[Value]) -> list[Value]:
            emitter = ElementEmitter(code, leaves)
            first = (part if part >= 0 else parts) * len(reduces)
            values = list(values)
            full = self._places({**at, **places})
            for value, kept_at in self.kept.items():
                if kept_at == stage:
                    self._keep(emitter, value, full, lanes, mask)
            for i, (s, kind) in enumerate(zip(reduces, kinds, strict=True)):
                element = convert(code, emitter.at(s.x, full, lanes, mask), kind)
                before = values[first + i]
                after = code.apply(s.fn, before, element)
                # Lanes that are rows may hold anything once they are masked off; lanes of one row must not.
                values[first + i] = code.apply("select", mask, after, before) if mask is not None and self.along_row else after
            return values

        values = self._over_row(carried, body, lanes, mask)
        totals = []
        for i, s in enumerate(reduces):
            found = [values[part * len(reduces) + i] for part in range(parts)]
            while len(found) > 1:
                found = [code.apply(s.fn, found[k], found[k + 1]) for k in range(0, len(found), 2)]
            total = found[0]
            if self.along_row and width > 1:
                total = code.reduce(total, s.fn)
            if scalar_tail:
                total = code.apply(s.fn, total, values[parts * len(reduces) + i])
            assert isinstance(s.result.type, TensorType)
            totals.append(convert(code, total, s.result.type.dtype))
        return totals

    def _over_row(self, carried: list[Value], body: RowBody, lanes: int, mask: Value | None) -> list[Value]:
        """`body(places, lanes, mask, part, carried)` over the reduced axes, in row-major order."""
        code, reduced = self.code, self.rows.reduced

        def nest(k: int, places: dict[int, Position], values: list[Value]) -> list[Value]:
            if k == len(reduced):
                return body(places, lanes, mask, 0, values)
            axis = reduced[k]
            if axis == self.vector and self.is_short:
                few = code.lane_mask(self.rows.space[axis], self.lanes.count)
                return nest_rest(k + 1, {**places, axis: Position(step=1)}, self.lanes.count, few, 0, values)
            if axis == self.vector:
                return vector_loop(
                    code, 0, self.rows.space[axis], self.lanes, values,
                    lambda p, n, m, part, v: nest_rest(k + 1, {**places, axis: p}, n, m, part, v),
                )  # fmt: skip
            return run(code, 0, self.rows.space[axis], 1, values, lambda p, v: nest(k + 1, {**places, axis: p}, v), name="r")

        def nest_rest(k: int, places: dict[int, Position], n: int, m: Value | None, part: int, v: list[Value]) -> list[Value]:
            # Axes behind the vector axis have size 1.
            places = {**places, **{axis: Position() for axis in reduced[k:]}}
            return body(places, n, m, part, v)

        return nest(0, {}, carried)

    def _last_stage(self, leaves: dict[Value, Leaf], at: dict[int, Position], lanes: int, mask: Value | None) -> None:
        """Store the results: those of one element per row once, the others in a loop over the row."""
        emitter = ElementEmitter(self.code, leaves)
        once = [(v, buffer) for v, buffer in self.results if not self.rows.reduced or not self.rows.is_full(v)]
        for value, buffer in once:
            self._store(emitter, value, buffer, self._places(at), lanes, mask)
        full = [(v, buffer) for v, buffer in self.results if self.rows.reduced and self.rows.is_full(v)]
        if not full:
            return

        def body(places: dict[int, Position], lanes: int, mask: Value | None, part: int, values: list[Value]) -> list[Value]:
            inner = ElementEmitter(self.code, leaves)
            for value, buffer in full:
                self._store(inner, value, buffer, self._places({**at, **places}), lanes, mask)
            return values

        self._over_row([], body, lanes, mask)

    # --- places

    def _places(self, at: dict[int, Position]) -> list[Position]:
        return [at.get(a, Position()) for a in range(len(self.rows.space))]


    def _store(
        self, emitter: ElementEmitter, value: Value, buffer: Value, places: Sequence[Position], lanes: int, mask: Value | None
    ) -> None:
        element = emitter.at(value, self._of_axes(value, places), lanes, mask)
        align = self.in_lines.align if self.in_lines is not None and buffer is self.in_lines.buffer and mask is None and lanes > 1 else None
        streams = self._streams(value, self.shape_stored or shape_of(value))
        store(self.code, element, buffer, self._stored_at(value, places), mask, align, streams)

    def _of_axes(self, value: Value, places: Sequence[Position]) -> list[Position]:
        """The places on a value's own axes."""
        return [places[a] if n != 1 else Position() for a, n in zip(self.rows.axes[value], shape_of(value), strict=True)]

    def _stored_at(self, value: Value, places: Sequence[Position]) -> Position:
        """Where an element of a result stands in its buffer."""
        moved = [p.plus(self.code, Position(self.shift.get(i, 0))) for i, p in enumerate(self._of_axes(value, places))]
        return linear(self.code, moved, self.shape_stored or shape_of(value))

    def _streams(self, value: Value, shape: Sequence[Dim]) -> bool:
        """Whether a result goes past the caches: it is larger than the last one, so it has left that when its reader comes, and waits for
        memory alone.

        Where arithmetic takes as long, reading the lines first costs nothing, and is faster than to wait until they are written, unless
        they come whole.
        """
        dear = any(isinstance(op, tensor.Map) and op.fn in EXPENSIVE for op in self.ops)
        return self._is_large(value, shape) and (not dear or self.in_lines is not None)

    def _is_large(self, value: Value, shape: Sequence[Dim]) -> bool:
        """Whether the last cache does not hold a result."""
        size = product(shape) * value.type.dtype.bytes
        return isinstance(size, int) and size > self.target.caches[2]

    def _row_offset(self, places: Sequence[Position], lanes: int) -> Position:
        """Where an element of the current row stands in a scratch row."""
        sizes = [self.rows.space[a] for a in self.rows.reduced]
        offset = linear(self.code, [places[a] for a in self.rows.reduced], sizes)
        return offset if self.along_row else offset.times(self.code, lanes).plus(self.code, Position(step=1 if lanes > 1 else 0))

    def _keep(self, emitter: ElementEmitter, value: Value, places: Sequence[Position], lanes: int, mask: Value | None) -> None:
        element = emitter.at(value, places, lanes, mask)
        if value in self.hosted:
            result, buffer = self.hosted[value]
            store(self.code, element, buffer, self._stored_at(result, places), mask)
            return
        store(self.code, element, self.scratch[value], self._row_offset(places, lanes), mask if self.along_row else None)

    def _scratch_leaf(self, value: Value, row_lanes: int) -> Leaf:
        if value in self.hosted:
            result, hosting = self.hosted[value]
            return lambda places, lanes, mask: load(self.code, hosting, self._stored_at(result, places), lanes, mask)
        buffer = self.scratch[value]

        def leaf(places: Positions, lanes: int, mask: Value | None) -> Value:
            offset = self._row_offset(places, row_lanes)
            if offset.uniform:
                return self.code.broadcast(self.code.load(buffer, offset.scalar(self.code)), lanes)
            return self.code.load(buffer, offset.scalar(self.code), lanes, mask if self.along_row else None)

        return leaf


def needed_ops(ops: Sequence[Op], values: Sequence[Value]) -> list[Op]:
    """The ops that the values are made by, in order."""
    wanted: set[Op] = set()
    pending = list(values)
    while pending:
        op = pending.pop().producer()
        if op is not None and op not in wanted:
            wanted.add(op)
            pending += op.operands
    return [op for op in ops if op in wanted]


def accumulator_of(op: tensor.Reduce) -> ScalarType:
    assert isinstance(op.x.type, TensorType)
    return wide(op.x.type.dtype) if op.fn in ("add", "mul") else op.x.type.dtype


def _register_leaf(vector: Value) -> Leaf:
    """A vector in registers, whatever position is read."""
    return VectorLeaf(lambda places: vector)


def register_leaf(code: Code, total: Value) -> Leaf:
    """A row's reduction: a scalar for every lane, or lanes that are rows themselves."""

    def leaf(places: Positions, lanes: int, mask: Value | None) -> Value:
        return total if kernel.lanes_of(total.type) == lanes else code.broadcast(total, lanes)

    return leaf


def _repeats(op: Op) -> int:
    """How many operand elements one result element of an inner loop takes."""
    if isinstance(op, tensor.Contract):
        spec = tensor.ContractSpec(op.spec)
        sizes = spec.sizes(shape_of(op.a), shape_of(op.b))
        return max(1, estimate(product(sizes[c] for c in spec.contracted)))
    if isinstance(op, tensor.Fold):
        return max(1, estimate(product(shape_of(op.w)[len(shape_of(op.result)) :]))) * 4
    if isinstance(op, tensor.ArgReduce):
        return max(1, estimate(shape_of(op.x)[op.axis]))
    return 1


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
