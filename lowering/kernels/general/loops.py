"""Generic loops: the kernel of any root that no other builder takes.

- An elementwise group becomes one loop nest, vectorised along the last axis.
- A group with row reductions (`rows.py`), such as a softmax, becomes a nest over the rows, with one loop per stage in each row. If the last
  axis is reduced, lanes run along it and meet in a horizontal reduction. If not, each lane is a row. Costly values that several stages
  need are kept in a scratch row.
- Anything else is computed one result after the other. Reductions inside are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type
from polyreme.lowering.analysis.rows import Rows, needed_ops, rows_of, shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, Positions, VectorLeaf, buffer_leaf, convert, linear, load, store, wide
from polyreme.lowering.kernels.general.row_schedule import Nest, RowSchedule, block_of, choose_schedule
from polyreme.lowering.kernels.general.scatter import (
    Scattered,
    ScatterSchedule,
    choose_scatter,
    fit_scatter,
    other_scatters,
    write_updates,
)
from polyreme.lowering.kernels.general.take import (
    Taken,
    TakeSchedule,
    choose_take,
    fit_take,
    other_takes,
    take_elements,
    taken_elements,
)
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Body, Lanes, each, run, vector_loop, vector_loop_rest
from polyreme.lowering.kernels.microkernel import transpose_lanes
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.memory import LOOP_PREFETCH_BYTES

# What is done at places of the reduced axes: with so many lanes, the mask of those there are, the part of several registers, and what is
# carried on.
RowBody = Callable[[dict[int, Position], int, Value | None, int, list[Value]], list[Value]]
# A nest, and what is done in one iteration of it.
Work = tuple[Nest, Callable[[list[Position]], None]]


def build_loops(request: Request) -> KernelPlan | None:
    """The plan of any root: one kernel on its operands and results.

    None for a group of several contractions, as for one of other ops that do not go element by element: each element of the second would
    compute all that it reads of the first again.
    """
    for way in (build_scatter, build_take):
        if (plan := way(request)) is not None:
            return plan
    if not _goes_by_elements(request):
        return None
    func = collapse_axes(request.func)
    kernel = _LoopsKernel(request, func)
    schedules = _emit(kernel.code, request, func, kernel.inputs, kernel.results)
    in_place = _in_place(request) if len(schedules) == 1 else ()
    return kernel.plan("loops", in_place, "\n".join(map(str, schedules)))


class _LoopsKernel:
    """A kernel that is being written, on the operands and results of a root: `inputs` and `results` are values of `func` with their
    buffers.
    """

    def __init__(self, request: Request, func: Func):
        types = [BufferType(v.type.shape, v.type.dtype) for v in (*request.func.args, *request.results)]
        names = [a.name for a in request.func.args] + [v.name for v in request.results]
        self.func = Func.empty(request.name(describe(func)), types, arg_names=names, loc=request.func.location)
        self.code = Code(Builder.at_end(self.func.block, self.func.location), merged=True)
        inputs, outputs = self.func.args[: len(func.args)], self.func.args[len(func.args) :]
        self.inputs: dict[Value, Value] = dict(zip(func.args, inputs, strict=True))
        self.results: list[tuple[Value, Value]] = list(zip(func.block.terminator.operands, outputs, strict=True))
        self.leaves = {a: buffer_leaf(self.code, buffer, shape_of(a)) for a, buffer in self.inputs.items()}

    def plan(self, builder: str = "", in_place: tuple[tuple[int, int], ...] = (), schedule: str = "") -> KernelPlan:
        """The plan, once all is written."""
        self.code.b(Return, ())
        clean_up_kernel(self.func)
        slots = [operand(i) for i in range(len(self.inputs))] + [result(i) for i in range(len(self.results))]
        return KernelPlan((Step(self.func, tuple(slots)),), builder=builder, in_place=in_place, schedule=schedule)


def find_scattered(request: Request) -> Scattered | None:
    """A group whose result is a scatter; None for any other group."""
    if not request.ops(tensor.Scatter) or not _goes_by_elements(request):
        return None
    func = collapse_axes(request.func)
    op = func.block.terminator.operands[0].producer(tensor.Scatter)
    return None if op is None else Scattered(request, func, op)


def write_scatter(found: Scattered, schedule: ScatterSchedule) -> KernelPlan:
    """The plan of a scatter as its schedule says; what is updated is copied first."""
    kernel, op = _LoopsKernel(found.request, found.func), found.op
    ops = [inner for inner in found.func.block if not isinstance(inner, Return)]
    alone = Rows(shape_of(op.x), (), (), {}, {op.x: tuple(range(len(shape_of(op.x))))})
    ((_, buffer),) = kernel.results
    _RowLoops(kernel.code, found.request, ops, kernel.leaves, [(op.x, buffer)], alone).emit()
    write_updates(kernel.code, schedule, ElementEmitter(kernel.code, kernel.leaves), found, buffer)
    return kernel.plan()


build_scatter = Way("scatter", ScatterSchedule, find_scattered, choose_scatter, write_scatter, fit_scatter, others=other_scatters)


def find_taken(request: Request) -> Taken | None:
    """A group whose only result is a gather of single elements in rows of some length; None for any other group."""
    if not request.ops(tensor.Gather) or not _goes_by_elements(request):
        return None
    func = collapse_axes(request.func)
    op = taken_elements(func.block.terminator.operands)
    return None if op is None else Taken(request, func, op)


def write_take(found: Taken, schedule: TakeSchedule) -> KernelPlan:
    """The plan of a gather as its schedule says."""
    kernel = _LoopsKernel(found.request, found.func)
    ((_, buffer),) = kernel.results
    take_elements(kernel.code, schedule, kernel.leaves, found, buffer)
    return kernel.plan()


build_take = Way("take", TakeSchedule, find_taken, choose_take, write_take, fit_take, others=other_takes)


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
    """Operands that go element by element into results of their type: one nest then reads and writes each place once, all results of a
    place when they are computed.
    """
    ops, results = request.ops(), request.results
    if (
        not all(isinstance(op, tensor.Map) or not op.operands or isinstance(op, tensor.Broadcast) for op in ops)
        or len({shape_of(v) for v in results}) != 1
    ):
        return ()
    pairs = []
    for i, arg in enumerate(request.func.args):
        if all(isinstance(user, tensor.Map) and shape_of(user.result) == shape_of(arg) for user in arg.users):
            pairs += [(i, r) for r, v in enumerate(results) if v.type == arg.type]
    return tuple(pairs)


def describe(func: Func) -> str:
    """A word or two for the kernel's name: the dearest ops of the group."""
    words = []
    for op in func.block:
        word = op.attributes["fn"] if isinstance(op, tensor.Map) else op.name.split(".")[1]
        if not isinstance(op, Return) and word not in words and word not in ("full", "broadcast", "reshape", "cast"):
            words.append(word)
    return "_".join(words[-3:]) or "copy"


def _emit(
    code: Code, request: Request, func: Func, inputs: dict[Value, Value], results: list[tuple[Value, Value]]
) -> list[RowSchedule]:
    """Writes the loops; their schedules."""
    leaves = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in inputs.items()}
    ops = [op for op in func.block if not isinstance(op, Return)]
    rows = rows_of(ops, [v for v, _ in results])
    concat = results[0][0].producer(tensor.Concat) if len(results) == 1 else None
    if concat is not None and rows is not None and not rows.staged:
        return _emit_concat(code, request, ops, leaves, concat, results[0][1])
    if rows is not None:
        return [_RowLoops(code, request, ops, leaves, results, rows, inputs=inputs).emit()]
    schedules = []
    for value, buffer in results:
        alone = Rows(shape_of(value), (), (), {}, {value: tuple(range(len(shape_of(value))))})
        schedules.append(_RowLoops(code, request, ops, leaves, [(value, buffer)], alone).emit())
    return schedules


def _emit_concat(
    code: Code, request: Request, ops: Sequence[Op], leaves: dict[Value, Leaf], concat: tensor.Concat, buffer: Value
) -> list[RowSchedule]:
    """Each operand is written where it belongs, so no element asks which operand it is from; row by row, where all have the same rows, to
    which single columns count as well.
    """
    start: Dim = 0
    in_rows = all(n == 1 for n in shape_of(concat.result)[concat.axis + 1 :]) and any(shape_of(x)[concat.axis] != 1 for x in concat.xs)
    parts: list[list[Work]] = []
    loops_of_parts: list[_RowLoops] = []
    for x in concat.xs:
        shape = shape_of(x)
        alone = Rows(shape, (), (), {}, {x: tuple(range(len(shape)))})
        axis, whole, shift = concat.axis if in_rows else None, shape_of(concat.result), {concat.axis: start}
        loops = _RowLoops(code, request, ops, leaves, [(x, buffer)], alone, axis, stored=whole, shift=shift)
        parts.append(loops.works())
        loops_of_parts.append(loops)
        start = start + shape[concat.axis]
    works = [work for part in parts for work in part]
    sizes = works[0][0].sizes
    if len(works) == len(parts) and all(nest.sizes == sizes for nest, _ in works):

        def row(places: list[Position]) -> None:
            for _, body in works:
                body(places)

        long = next((loops for loops in loops_of_parts if loops.schedule.forms and loops.schedule.rows_at_once == 1), loops_of_parts[0])

        def short_row(lanes: int, places: list[Position]) -> None:
            for loops, (_, body) in zip(loops_of_parts, works, strict=True):
                if loops is long:
                    loops.short_row_of_lanes(lanes, places)
                else:
                    body(places)

        forms = long.schedule.forms if long.schedule.rows_at_once == 1 else ()
        long.by_length(forms, Nest(sizes, sum(nest.cycles for nest, _ in works)), row, short_row)
    else:
        for nest, body in works:
            each(code, request.target, nest.sizes, nest.cycles, body)
    return [loops.schedule for loops in loops_of_parts]


class _RowLoops:
    """Writes the loops of one row form as its schedule says. `results` are values with the buffers that they are stored into, which have
    the shape `stored`, `shift` further along some axes, where these are given. `inputs` are the operands' buffers.
    """

    def __init__(
        self, code: Code, request: Request, ops: Sequence[Op], leaves: dict[Value, Leaf], results: list[tuple[Value, Value]], rows: Rows,
        vector: int | None = None,
        inputs: dict[Value, Value] | None = None,
        stored: tuple[Dim, ...] | None = None,
        shift: Mapping[int, Dim] | None = None,
    ):  # fmt: skip
        self.code, self.target, self.rows, self.results = code, request.target, rows, results
        self.leaves, self.inputs = leaves, inputs or {}
        self.stored, self.shift = stored, shift or {}
        values = [v for v, _ in results]
        self.schedule = choose_schedule(request.target, needed_ops(ops, values), values, rows, vector, stored)

    # --- the nest

    def emit(self) -> RowSchedule:
        for nest, body in self.works():
            self.by_length(self.schedule.forms, nest, body, self.short_row_of_lanes)
        return self.schedule

    def by_length(
        self, forms: Sequence[int], nest: Nest, body: Callable[[list[Position]], None], short: Callable[[int, list[Position]], None]
    ) -> None:
        """The nest, `short` for rows of up to so many lanes as `forms` say, and `body` for others."""
        if not forms:
            each(self.code, self.target, nest.sizes, nest.cycles, body)
            return
        code, (lanes, *longer) = self.code, forms
        is_short = code.condition("le", self.rows.space[self._axis], lanes)
        assert isinstance(is_short, Value)
        sizes = [self.rows.space[a] for a in self.schedule.around]
        with code.when(is_short):
            each(code, self.target, sizes, nest.cycles / self.schedule.rows_at_once, partial(short, lanes))
        with code.when(is_short, then=False):
            self.by_length(longer, nest, body, short)

    def short_row_of_lanes(self, lanes: int, places: list[Position]) -> None:
        """A row of up to so many lanes, in whole vectors but the last one, which has at least one lane, or is the only one."""
        code, at, size = self.code, self._around(places), self.rows.space[self._axis]
        width = min(lanes, self.schedule.lanes.count)
        for first in range(0, lanes, width):
            mask = code.lane_mask(code.sub(size, first), width) if first + width == lanes else None
            self._row({**at, self._axis: Position(first, step=1)}, width, mask)

    def works(self) -> list[Work]:
        """What computes the results, mostly one nest."""
        schedule = self.schedule
        if schedule.axis is None or schedule.along_row:
            body = self._short_rows if schedule.short else self._whole_row
        elif schedule.transposed:
            return list(zip(schedule.nests, (self._blocks, self._columns_left), strict=False))
        else:
            body = self._rows_of_lanes
        return [(schedule.nests[0], body)]

    def _whole_row(self, places: list[Position]) -> None:
        self._row(self._around(places), 1, None)

    def _around(self, places: Sequence[Position]) -> dict[int, Position]:
        return dict(zip(self.schedule.around, places, strict=False))

    @property
    def _axis(self) -> int:
        """The axis along which lanes run, where there is one."""
        assert self.schedule.axis is not None
        return self.schedule.axis

    def _short_rows(self, places: list[Position]) -> None:
        """Several rows, written for short ones and for others."""
        code, together, count = self.code, self.schedule.together, self.rows.space[self.schedule.around[-1]]
        first = code.mul(places[-1].scalar(code), together)
        end = code.min(code.add(first, together), count) if together > 1 else code.add(first, 1)
        is_short = code.condition("le", self.rows.space[self._axis], self.schedule.lanes.count)
        assert isinstance(is_short, Value)
        for short in (True, False):

            def body(at: Position, carried: list[Value], short: bool = short) -> list[Value]:
                self._row(self._around([*places[:-1], at]), 1, None, short)
                return carried

            with code.when(is_short, then=short):
                run(code, first, end, 1, [], body)

    def _rows_of_lanes(self, places: list[Position]) -> None:
        """Vectors of rows that stand side by side, or of elements that are computed one by one."""
        at, chunk, columns = self._around(places), self.schedule.chunk, self.schedule.columns
        lo: Index = 0
        hi: Index = self.rows.space[self._axis]
        if chunk is not None:
            lo = self.code.mul(places[-1].scalar(self.code), chunk)
            hi = self.code.min(self.code.add(lo, chunk), hi)

        def body(place: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            row = {**at, self._axis: place}
            if columns is None:
                self._prefetch(row, lanes, mask)
                self._row(row, lanes, mask)
                return carried

            def column(step: Position, values: list[Value]) -> list[Value]:
                self._row({**row, columns: step}, lanes, mask)
                return values

            return run(self.code, 0, self.rows.space[columns], 1, carried, column)

        if self.schedule.rows_at_once == 1:
            vector_loop(self.code, self._to_whole_lines(at, lo, hi, body), hi, self.schedule.lanes, [], body)
        else:
            self._several_rows(at, lo, hi)

    def _to_whole_lines(self, at: dict[int, Position], lo: Index, hi: Index, body: Body) -> Index:
        """Computes what comes before the first whole line; where that begins."""
        lines = self.schedule.whole_lines
        if lines is None:
            return lo
        code, (value, buffer) = self.code, self.results[lines.result]
        first = linear(code, self._places({**at, self._axis: position(lo)}), shape_of(value)).scalar(code)
        begin = code.min(code.add(lo, code.until_aligned(buffer, first, lines.align)), hi)
        vector_loop_rest(code, lo, begin, self.schedule.lanes, [], body)
        return begin

    def _prefetch(self, at: dict[int, Position], lanes: int, mask: Value | None) -> None:
        """Asks for operands' lines ahead of a whole vector. The machine alone stops where a page ends, and does not look far while a core
        computes.
        """
        if self.schedule.whole_lines is None or mask is not None:
            return
        for x, buffer in self.inputs.items():
            if shape_of(x) == self.rows.space:
                place, bytes = linear(self.code, self._places(at), shape_of(x)).scalar(self.code), element_type(x.type).bytes
                for distance in range(LOOP_PREFETCH_BYTES, LOOP_PREFETCH_BYTES + lanes * bytes, self.target.line_bytes):
                    self.code.prefetch(buffer, self.code.add(place, distance // bytes))

    # --- transposes

    def _blocks(self, places: list[Position]) -> None:
        """Square pieces down all rows: the result is written along its rows, and each line of the operand is read once."""
        width = block_of(self.schedule.lanes, self.target)
        at, column = self._around(places), places[-1].times(self.code, width)

        def body(place: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            if lanes == width and mask is None:
                self._block(at, place.plus(self.code, Position(step=-1)), column, width)
                return carried
            return self._columns(at, place, lanes, mask, column, width, carried)

        vector_loop(self.code, 0, self.rows.space[self._axis], Lanes(width, self.target.masked), [], body)

    def _columns_left(self, places: list[Position]) -> None:
        """The columns that make no square piece."""
        width = block_of(self.schedule.lanes, self.target)
        assert self.schedule.columns is not None
        at, columns = self._around(places), self.rows.space[self.schedule.columns]

        def body(place: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            return self._columns(at, place, lanes, mask, Position(columns // width * width), columns % width, carried)

        vector_loop(self.code, 0, self.rows.space[self._axis], Lanes(width, self.target.masked), [], body)

    def _columns(
        self, at: dict[int, Position], place: Position, lanes: int, mask: Value | None, first: Position, count: Index, carried: list[Value]
    ) -> list[Value]:
        """So many columns from the first on, one after the other."""
        assert self.schedule.columns is not None
        columns = self.schedule.columns

        def column(step: Position, carried: list[Value]) -> list[Value]:
            self._row({**at, self._axis: place, columns: first.plus(self.code, step)}, lanes, mask)
            return carried

        return run(self.code, 0, count, 1, carried, column)

    def _block(self, at: dict[int, Position], row: Position, column: Position, width: int) -> None:
        """One square piece."""
        code, axis, columns = self.code, self._axis, self.schedule.columns
        assert columns is not None
        blocks = []
        for op in self.schedule.transposed:
            emitter = ElementEmitter(code, self.leaves)
            rows = []
            for i in range(width):
                places = {**at, axis: row.plus(code, Position(i)), columns: column.plus(code, Position(step=1))}
                rows.append(emitter.at(op.x, [places[op.perm.index(k)] for k in range(len(op.perm))], width))
            blocks.append(transpose_lanes(code, rows))
        for i in range(width):
            leaves: dict[Value, Leaf] = {
                op.result: _register_leaf(block[i]) for op, block in zip(self.schedule.transposed, blocks, strict=True)
            }
            places = {**at, axis: row.plus(code, Position(step=1)), columns: column.plus(code, Position(i))}
            self._last_stage({**self.leaves, **leaves}, places, width, None)

    # --- one row (or `lanes` of them)

    def _row(self, at: dict[int, Position], lanes: int, mask: Value | None, short: bool = False) -> None:
        """One row; with `short`, of a vector or less."""
        leaves, schedule = dict(self.leaves), self.schedule
        scratch: dict[Value, Value] = {}
        for value in schedule.kept.keys() - schedule.hosted.keys():
            size = product(self.rows.space[a] for a in self.rows.reduced) * (1 if schedule.along_row else lanes)
            assert isinstance(size, int)
            scratch[value] = self.code.scratch(max(size, 1), element_type(value.type))
        for stage in range(schedule.stages):
            reduces = [s for s in self.rows.staged if self.rows.level[s.result] == stage + 1]
            sums = self._reduce_stage(stage, reduces, leaves, scratch, at, lanes, mask, short)
            for s, total in zip(reduces, sums, strict=True):
                leaves[s.result] = register_leaf(self.code, total)
            for value, first in schedule.kept.items():
                if first == stage:
                    leaves[value] = self._kept_leaf(value, scratch, lanes)
        self._last_stage(leaves, at, lanes, mask)

    def _several_rows(self, at: dict[int, Position], lo: Index, hi: Index) -> None:
        """`rows_at_once` rows, of which `at` has the number; one by one where there are fewer left."""
        code, together = self.code, self.schedule.rows_at_once
        axis = self._axis - 1
        first, size = code.mul(at[axis].scalar(code), together), self.rows.space[axis]

        def vectors(rows: int, y: Position, carried: list[Value]) -> list[Value]:
            def body(place: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                emitter = ElementEmitter(code, self.leaves)
                for row in range(rows):
                    places = self._places({**at, axis: y.plus(code, Position(row)), axis + 1: place})
                    self._store(emitter, range(len(self.results)), places, lanes, mask)
                return carried

            return vector_loop(code, lo, hi, self.schedule.lanes, carried, body)

        whole = code.condition("le", code.add(first, together), size)
        if not isinstance(whole, Value):
            vectors(together, position(first), [])
            return
        with code.when(whole):
            vectors(together, position(first), [])
        with code.when(whole, then=False):
            run(code, first, size, 1, [], partial(vectors, 1), name="row")

    def _reduce_stage(
        self, stage: int, reduces: list[tensor.Reduce], leaves: dict[Value, Leaf], scratch: dict[Value, Value], at: dict[int, Position],
        lanes: int, mask: Value | None, short: bool,
    ) -> list[Value]:  # fmt: skip
        """One loop over the row for all reductions of a stage: their results, scalars or one per lane."""
        code, schedule, along_row = self.code, self.schedule, self.schedule.along_row
        kinds = [accumulator_of(s) for s in reduces]
        width = schedule.lanes.count if along_row else lanes
        parts = schedule.lanes.unroll if along_row and not short else 1
        scalar_tail = along_row and width > 1 and not schedule.lanes.masked
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
            for value, kept_at in schedule.kept.items():
                if kept_at == stage:
                    self._keep(emitter, value, scratch, full, lanes, mask)
            for i, (s, kind) in enumerate(zip(reduces, kinds, strict=True)):
                element = convert(code, emitter.at(s.x, full, lanes, mask), kind)
                before = values[first + i]
                after = code.apply(s.fn, before, element)
                # Lanes that are rows may hold anything once they are masked off; lanes of one row must not.
                values[first + i] = code.apply("select", mask, after, before) if mask is not None and along_row else after
            return values

        values = self._over_row(carried, body, lanes, mask, short)
        totals = []
        for i, s in enumerate(reduces):
            found = [values[part * len(reduces) + i] for part in range(parts)]
            while len(found) > 1:
                found = [code.apply(s.fn, found[k], found[k + 1]) for k in range(0, len(found), 2)]
            total = found[0]
            if along_row and width > 1:
                total = code.reduce(total, s.fn)
            if scalar_tail:
                total = code.apply(s.fn, total, values[parts * len(reduces) + i])
            totals.append(convert(code, total, element_type(s.result.type)))
        return totals

    def _over_row(self, carried: list[Value], body: RowBody, lanes: int, mask: Value | None, short: bool = False) -> list[Value]:
        """`body(places, lanes, mask, part, carried)` over the reduced axes, in row-major order."""
        code, reduced, along, cut = self.code, self.rows.reduced, self.schedule.axis, self.schedule.lanes

        def nest(k: int, places: dict[int, Position], values: list[Value]) -> list[Value]:
            if k == len(reduced):
                return body(places, lanes, mask, 0, values)
            axis = reduced[k]
            if axis == along and short:
                few = code.lane_mask(self.rows.space[axis], cut.count)
                return nest_rest(k + 1, {**places, axis: Position(step=1)}, cut.count, few, 0, values)
            if axis == along:
                return vector_loop(
                    code, 0, self.rows.space[axis], cut, values,
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
        full = [i for i, (v, _) in enumerate(self.results) if self.rows.reduced and self.rows.is_full(v)]
        self._store(emitter, [i for i in range(len(self.results)) if i not in full], self._places(at), lanes, mask)
        if not full:
            return

        def body(places: dict[int, Position], lanes: int, mask: Value | None, part: int, values: list[Value]) -> list[Value]:
            inner = ElementEmitter(self.code, leaves)
            self._store(inner, full, self._places({**at, **places}), lanes, mask)
            return values

        self._over_row([], body, lanes, mask)

    # --- places

    def _places(self, at: dict[int, Position]) -> list[Position]:
        return [at.get(a, Position()) for a in range(len(self.rows.space))]

    def _store(self, emitter: ElementEmitter, numbers: Sequence[int], places: Sequence[Position], lanes: int, mask: Value | None) -> None:
        """Store what these results have at the places, once all of it is computed: a result may be where another one's operand is."""
        values = [self.results[number][0] for number in numbers]
        made = [emitter.at(value, self._of_axes(value, places), lanes, mask) for value in values]
        lines = self.schedule.whole_lines
        for number, element in zip(numbers, made, strict=True):
            value, buffer = self.results[number]
            align = lines.align if lines is not None and number == lines.result and mask is None and lanes > 1 else None
            store(self.code, element, buffer, self._stored_at(value, places), mask, align, number in self.schedule.streamed)

    def _of_axes(self, value: Value, places: Sequence[Position]) -> list[Position]:
        """The places on a value's own axes."""
        return [places[a] if n != 1 else Position() for a, n in zip(self.rows.axes[value], shape_of(value), strict=True)]

    def _stored_at(self, value: Value, places: Sequence[Position]) -> Position:
        """Where an element of a result stands in its buffer."""
        moved = [p.plus(self.code, Position(self.shift.get(i, 0))) for i, p in enumerate(self._of_axes(value, places))]
        return linear(self.code, moved, self.stored or shape_of(value))

    def _row_offset(self, places: Sequence[Position], lanes: int) -> Position:
        """Where an element of the current row stands in a scratch row."""
        sizes = [self.rows.space[a] for a in self.rows.reduced]
        offset = linear(self.code, [places[a] for a in self.rows.reduced], sizes)
        if self.schedule.along_row:
            return offset
        return offset.times(self.code, lanes).plus(self.code, Position(step=1 if lanes > 1 else 0))

    def _keep(
        self, emitter: ElementEmitter, value: Value, scratch: dict[Value, Value], places: Sequence[Position], lanes: int, mask: Value | None
    ) -> None:
        element = emitter.at(value, places, lanes, mask)
        if value in self.schedule.hosted:
            host, buffer = self.results[self.schedule.hosted[value]]
            store(self.code, element, buffer, self._stored_at(host, places), mask)
            return
        store(self.code, element, scratch[value], self._row_offset(places, lanes), mask if self.schedule.along_row else None)

    def _kept_leaf(self, value: Value, scratch: dict[Value, Value], row_lanes: int) -> Leaf:
        if value in self.schedule.hosted:
            host, buffer = self.results[self.schedule.hosted[value]]
            return lambda places, lanes, mask: load(self.code, buffer, self._stored_at(host, places), lanes, mask)
        row = scratch[value]

        def leaf(places: Positions, lanes: int, mask: Value | None) -> Value:
            offset = self._row_offset(places, row_lanes)
            if offset.uniform:
                return self.code.broadcast(self.code.load(row, offset.scalar(self.code)), lanes)
            return self.code.load(row, offset.scalar(self.code), lanes, mask if self.schedule.along_row else None)

        return leaf


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

