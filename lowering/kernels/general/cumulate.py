"""Running sums, products and extremes along an axis: the kernel of `tensor.cumulate`.

Along the last axis a vector is cumulated within itself, by its lanes moved up by 1, 2, 4, … (Hillis and Steele, 1986), and takes what came
before as one number for all lanes. Only that number waits for the vector before. Along another axis lanes are columns, and each row is
combined with the one just written.
"""

from __future__ import annotations

from collections.abc import Callable

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import BufferType, ScalarType, element_type
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import convert, linear, wide
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, NestSchedule, choose_nest, is_like, run, vector_loop, write_nest
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.memory import L1_WAY_BYTES


@dataclass(frozen=True)
class CumulateSchedule(Schedule, kind="cumulate"):
    """Vectors of so many `lanes`, with `masked` ends or scalar ones; so many `columns` of each row are done together (None: rows are
    cumulated within). `nest` says how threads share rows, or runs of columns.
    """

    lanes: int
    masked: bool = False
    columns: int | None = None
    nest: NestSchedule | None = None


@dataclass(frozen=True)
class Cumulated:
    """A root that is one `tensor.cumulate`."""

    request: Request
    op: tensor.Cumulate

    @property
    def shape(self) -> tuple[Dim, ...]:
        return shape_of(self.op.x)

    @property
    def columns(self) -> Dim:
        """Elements behind the axis, which together are columns."""
        return product(self.shape[self.op.axis + 1 :])

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.op.x.type)

    @property
    def inner(self) -> ScalarType:
        """The type in which is added up."""
        return wide(self.dtype) if self.op.fn in ("add", "mul") else self.dtype

    def runs(self, taken: int) -> Dim:
        """Runs of so many columns."""
        return -(-self.columns // taken) if isinstance(self.columns, Expr) or self.columns > taken else 1

    def sizes(self, taken: int | None) -> list[Dim]:
        """What is iterated over: rows, or with columns so many `taken` together what is around and their runs."""
        around = list(self.shape[: self.op.axis])
        return around if taken is None else [*around, self.runs(taken)]


def find_cumulated(request: Request) -> Cumulated | None:
    """The single `tensor.cumulate` that a root is; None for any other root, and for complex numbers."""
    op = request.single(tensor.Cumulate)
    return None if op is None or element_type(op.x.type).kind == "c" else Cumulated(request, op)


def choose_cumulate(found: Cumulated) -> CumulateSchedule:
    """Within rows where the axis is the last one with several elements, down columns elsewhere."""
    target, length = found.request.target, found.shape[found.op.axis]
    lanes, columns, size = target.lanes(found.inner), found.columns, estimate(length)
    taken: int | None = None
    cycles = 12 * size / lanes
    if columns != 1:
        # Columns that are done together: what was written last is still in L1.
        taken = L1_WAY_BYTES // found.inner.bytes
        taken = min(columns, taken) if isinstance(columns, int) else taken
        cycles = size * taken / lanes
    free = any(isinstance(n, Expr) for n in found.shape)
    return CumulateSchedule(lanes, target.masked, taken, choose_nest(target, found.sizes(taken), cycles, free))


def fit_cumulate(found: Cumulated, schedule: CumulateSchedule) -> None:
    """`ScheduleError` unless it is the schedule of this root, with any grain."""
    own = choose_cumulate(found)
    if not is_like(schedule, own):
        raise ScheduleError(f"expected a schedule like {own} for this sum and machine but got {schedule}")


def write_cumulate(found: Cumulated, schedule: CumulateSchedule) -> KernelPlan:
    """The plan of a root as its schedule says."""
    op = found.op
    func = Func.empty(found.request.name("cumulate"), [BufferType(found.shape, found.dtype)] * 2, arg_names=("x", "y"), loc=op.location)
    code = Code(Builder.at_end(func.block, op.location))
    (_along_rows if schedule.columns is None else _down_columns)(code, found, schedule, *func.args)
    code.b(Return, ())
    # The sum of each element may take its place: what is read later stands further on.
    return KernelPlan((Step(clean_up_kernel(func), (operand(0), result(0))),), in_place=((0, 0),))


build_cumulate = Way("cumulate", CumulateSchedule, find_cumulated, choose_cumulate, write_cumulate, fit_cumulate)


def _along_rows(code: Code, found: Cumulated, schedule: CumulateSchedule, x: Value, y: Value) -> None:
    """Rows are of the axes up to `op.axis`; those behind have one element."""
    op, dtype, inner = found.op, found.dtype, found.inner
    *outer, length = found.shape[: op.axis + 1]
    lanes = Lanes(schedule.lanes, schedule.masked)
    identity = code.constant(identity_of(op.fn, inner), inner)

    def row(places: list[Position]) -> None:
        start = linear(code, [*places, Position()], [*outer, length]).scalar(code)

        def some(at: Position, count: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            (before,) = carried
            here = code.add(start, Position(at.const, at.terms).scalar(code))
            element = convert(code, code.load(x, here, count, mask), inner)
            if mask is not None:
                # What stands behind the row's end changes nothing.
                element = code.apply("select", mask, element, code.broadcast(identity, count))
            within = _within(code, op.fn, element, count)
            code.store(convert(code, code.apply(op.fn, within, code.broadcast(before, count)), dtype), y, here, mask)
            return [code.apply(op.fn, before, code.extract(within, count - 1) if count > 1 else within)]

        vector_loop(code, 0, length, lanes, [identity], some)

    write_nest(code, outer, schedule.nest, row)


def _within(code: Code, fn: str, x: Value, count: int) -> Value:
    """Each lane combined with all lanes below it."""
    by = 1
    while by < count:
        # The lanes go round, and those that came from the end are left out: to shift others in takes longer.
        moved = code.shuffle(x, x, [(i - by) % count for i in range(count)])
        first = code.lane_mask(by, count)
        assert first is not None
        x = code.apply("select", first, x, code.apply(fn, x, moved))
        by *= 2
    return x


def _down_columns(code: Code, found: Cumulated, schedule: CumulateSchedule, x: Value, y: Value) -> None:
    """The axes behind `op.axis` together are columns, of which tasks take runs."""
    op, dtype, inner, columns, taken = found.op, found.dtype, found.inner, found.columns, schedule.columns
    assert taken is not None
    outer, length = found.shape[: op.axis], found.shape[op.axis]
    lanes = Lanes(schedule.lanes, schedule.masked)
    runs = found.runs(taken)

    def piece(places: list[Position]) -> None:
        first: Index = 0
        last: Index = columns
        if runs != 1:
            first = code.mul(places[-1].scalar(code), taken)
            last = code.min(code.add(first, taken), columns)
        # 16-bit sums are kept in float32 from row to row, on the stack; others are read where they were written.
        kept = None if inner == dtype else code.scratch(taken + lanes.count, inner)

        def line(begins: bool) -> Callable[[Position, list[Value]], list[Value]]:
            def write(number: Position, carried: list[Value]) -> list[Value]:
                start = linear(code, [*places[: len(outer)], number, Position()], [*outer, length, columns]).scalar(code)

                def some(at: Position, count: int, mask: Value | None, part: int, nothing: list[Value]) -> list[Value]:
                    column = Position(at.const, at.terms).scalar(code)
                    here = code.add(start, column)
                    element = convert(code, code.load(x, here, count, mask), inner)
                    if not begins:
                        before = (
                            code.load(y, code.sub(here, columns), count, mask)
                            if kept is None
                            else code.load(kept, code.sub(column, first), count)
                        )
                        element = code.apply(op.fn, before, element)
                    if kept is not None:
                        code.store(element, kept, code.sub(column, first))
                    code.store(convert(code, element, dtype), y, here, mask)
                    return nothing

                vector_loop(code, first, last, lanes, [], some)
                return carried

            return write

        run(code, 0, code.min(length, 1), 1, [], line(begins=True))
        run(code, 1, length, 1, [], line(begins=False))

    write_nest(code, found.sizes(taken), schedule.nest, piece)
