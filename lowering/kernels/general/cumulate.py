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
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import BufferType, ScalarType, element_type
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import convert, linear, wide
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, each, run, vector_loop
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position

# Of each row, columns that are done together: what was written last is still in L1.
COLUMN_BYTES = 4096


def build_cumulate(request: Request) -> KernelPlan | None:
    """The plan of a single `tensor.cumulate`; None for any other root, and for complex numbers."""
    op = request.single(tensor.Cumulate)
    if op is None or element_type(op.x.type).kind == "c":
        return None
    shape, dtype = shape_of(op.x), element_type(op.x.type)
    func = Func.empty(request.name("cumulate"), [BufferType(shape, dtype)] * 2, arg_names=("x", "y"), loc=op.location)
    code = Code(Builder.at_end(func.block, op.location))
    if product(shape[op.axis + 1 :]) == 1:
        _along_rows(code, request, op, *func.args)
    else:
        _down_columns(code, request, op, *func.args)
    code.b(Return, ())
    # The sum of each element may take its place: what is read later stands further on.
    return KernelPlan((Step(clean_up_kernel(func), (operand(0), result(0))),), builder="cumulate", in_place=((0, 0),))


def _inner(op: tensor.Cumulate) -> ScalarType:
    """The type in which is added up."""
    dtype = element_type(op.x.type)
    return wide(dtype) if op.fn in ("add", "mul") else dtype


def _along_rows(code: Code, request: Request, op: tensor.Cumulate, x: Value, y: Value) -> None:
    """Rows are of the axes up to `op.axis`; those behind have one element."""
    dtype, inner = element_type(op.x.type), _inner(op)
    *outer, length = shape_of(op.x)[: op.axis + 1]
    lanes = Lanes(request.target.lanes(inner), request.target.masked)
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

    each(code, request.target, outer, 12 * estimate(length) / lanes.count, row)


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


def _down_columns(code: Code, request: Request, op: tensor.Cumulate, x: Value, y: Value) -> None:
    """The axes behind `op.axis` together are columns, of which tasks take runs."""
    dtype, inner = element_type(op.x.type), _inner(op)
    shape = shape_of(op.x)
    outer, length = shape[: op.axis], shape[op.axis]
    columns: Dim = product(shape[op.axis + 1 :])
    lanes = Lanes(request.target.lanes(inner), request.target.masked)
    # 16-bit sums are kept in float32 from row to row, on the stack; others are read where they were written.
    taken = min(columns, COLUMN_BYTES // inner.bytes) if isinstance(columns, int) else COLUMN_BYTES // inner.bytes
    runs: Dim = -(-columns // taken) if isinstance(columns, Expr) or columns > taken else 1

    def piece(places: list[Position]) -> None:
        first: Index = 0
        last: Index = columns
        if runs != 1:
            first = code.mul(places[-1].scalar(code), taken)
            last = code.min(code.add(first, taken), columns)
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

    each(code, request.target, [*outer, runs], estimate(length) * taken / lanes.count, piece)
