"""Interleaving: a few long rows become one whose elements come from each row in turn, as in ShuffleNet's channel shuffle.

`build_interleave` writes shuffles of concatenated values, which `transforms/stack_rows.py` finds, and any transpose that lays a few rows
side by side, as that of a pixel shuffle or of the phases of a transposed convolution. It reads whole vectors of each row, and combines one
of each row by shuffles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, element_type
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.elements import ElementEmitter, buffer_leaf, linear
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, NestSchedule, choose_nest, is_like, vector_loop, write_nest
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.transforms.stack_rows import MOST_ROWS


@dataclass(frozen=True)
class InterleaveSchedule(Schedule, kind="interleave"):
    """Vectors of so many `lanes`, with `masked` ends of rows or scalar ones; `nest` says how threads share the rows."""

    lanes: int
    masked: bool = False
    nest: NestSchedule | None = None


@dataclass(frozen=True)
class Interleaved:
    """A group with one result, `value`, whose `rows` of `length` elements are laid out side by side."""

    request: Request
    value: Value
    rows: tuple[_Row, ...]
    length: Dim

    @property
    def has_free_sizes(self) -> bool:
        """Whether the kernel has operands of free sizes."""
        return any(isinstance(n, Expr) for v in (*self.request.func.args, self.value) for n in shape_of(v))


def find_interleaved(request: Request) -> Interleaved | None:
    """A group whose result is the transpose of a few long rows, or rows of one column each laid side by side; None for any other group, and
    for vectors that are longer than a row where there are no masks.
    """
    if len(request.results) != 1:
        return None
    (value,) = request.results
    rows = _rows(value.producer())
    shape = shape_of(value)
    dtype = element_type(value.type)
    length: Dim = shape[-2] if len(shape) > 1 else 0
    lanes = request.target.lanes(dtype)
    if rows is None or lanes < 2 or dtype.kind not in "fiu" or length in (0, 1) or any(n == 0 for n in shape):
        return None
    found = Interleaved(request, value, tuple(rows), length)
    return None if isinstance(length, int) and _lanes(found) > length and not request.target.masked else found


def _lanes(found: Interleaved) -> int:
    """Lanes of a vector no longer than a row; two at least."""
    lanes = found.request.target.lanes(element_type(found.value.type))
    while isinstance(found.length, int) and lanes > 2 and lanes // 2 >= found.length:
        lanes //= 2
    return lanes


def choose_interleave(found: Interleaved) -> InterleaveSchedule:
    """Vectors no longer than a row; machines without masks do what is left over element by element."""
    target, lanes = found.request.target, _lanes(found)
    cycles = 4 * len(found.rows) * -(-estimate(found.length) // lanes)
    return InterleaveSchedule(lanes, target.masked, choose_nest(target, shape_of(found.value)[:-2], cycles, found.has_free_sizes))


def fit_interleave(found: Interleaved, schedule: InterleaveSchedule) -> None:
    """`ScheduleError` unless it is the schedule of this group, with any grain."""
    own = choose_interleave(found)
    if not is_like(schedule, own):
        raise ScheduleError(f"expected a schedule like {own} for these rows and this machine but got {schedule}")


def write_interleave(found: Interleaved, schedule: InterleaveSchedule) -> KernelPlan:
    """The plan of a group as its schedule says."""
    request, value, rows, length, lanes = found.request, found.value, found.rows, found.length, schedule.lanes
    func, shape = request.func, shape_of(value)
    types = [BufferType(shape_of(v), element_type(v.type)) for v in (*func.args, value)]
    made = Func.empty(request.name("interleave"), types, arg_names=[*(a.name for a in func.args), value.name], loc=func.location)
    code = Code(Builder.at_end(made.block, made.location), merged=True)
    *inputs, out = made.args
    leaves = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in zip(func.args, inputs, strict=True)}

    def run(short: bool, places: list[Position]) -> None:
        def some(column: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
            emitter = ElementEmitter(code, leaves)
            vectors = [row(emitter, places, column, lanes, mask) for row in rows]
            first = linear(code, [*places, Position(column.const, column.terms), Position()], shape).scalar(code)
            left = None if mask is None else code.mul(code.sub(length, Position(column.const, column.terms).scalar(code)), len(rows))
            for v, vector in enumerate(_turns(code, vectors, lanes)):
                kept = None if left is None else code.lane_mask(code.sub(left, v * lanes), lanes)
                code.store(vector, out, code.add(first, v * lanes), kept)
            return carried

        if short:
            some(Position(step=1), lanes, code.lane_mask(length, lanes), 0, [])
        else:
            vector_loop(code, 0, length, Lanes(lanes, schedule.masked), [], some)

    is_short = code.condition("le", length, lanes)
    if schedule.masked and isinstance(is_short, Value):
        # Rows of a vector or less have no loop, and masks that are the same for all of them.
        for short in (True, False):
            with code.when(is_short, then=short):
                write_nest(code, shape[:-2], schedule.nest, partial(run, short))
    else:
        write_nest(code, shape[:-2], schedule.nest, partial(run, False))
    code.b.insert(Return([]))
    clean_up_kernel(made)
    slots = (*(operand(i) for i in range(len(inputs))), result(0))
    return KernelPlan((Step(made, slots),))


build_interleave = Way("interleave", InterleaveSchedule, find_interleaved, choose_interleave, write_interleave, fit_interleave)


_Row = Callable[[ElementEmitter, list[Position], Position, int, Value | None], Value]


def _rows(op: Op | None) -> list[_Row] | None:
    """What gives elements of each row; None when `op` lays out nothing that way."""
    if isinstance(op, tensor.Concat):
        shape = shape_of(op.result)
        if op.axis != len(shape) - 1 or not 2 <= len(op.xs) <= MOST_ROWS or any(shape_of(x)[-1] != 1 for x in op.xs):
            return None
        return [partial(_element, x, None) for x in op.xs]
    if isinstance(op, tensor.Transpose) and len(op.perm) > 1 and op.perm[-2] == len(op.perm) - 1:
        # Rows of an operand, of any of its axes.
        count: Dim = shape_of(op.result)[-1]
        if not isinstance(count, int) or not 2 <= count <= MOST_ROWS or shape_of(op.x)[-1] == 1:
            return None
        return [partial(_element, op.x, (op.perm, row)) for row in range(count)]
    return None


def _element(
    x: Value,
    turned: tuple[tuple[int, ...], int] | None,
    emitter: ElementEmitter,
    places: list[Position],
    column: Position,
    lanes: int,
    mask: Value | None,
) -> Value:
    """Elements of a row from `column` on: of `x` as a row of its own, or of one of the rows that a permutation of `x` lays side by side."""
    if turned is None:
        return emitter.at(x, [*places, column, Position()], lanes, mask)
    perm, row = turned
    here = [*places, column, Position(row)]
    return emitter.at(x, [here[perm.index(axis)] for axis in range(len(perm))], lanes, mask)


def _turns(code: Code, vectors: list[Value], lanes: int) -> list[Value]:
    """Vectors of which element `i` is element `i // n` of vector `i % n`, laid end to end."""
    if lanes == 1:
        return vectors
    n = len(vectors)
    made = []
    for v in range(n):
        wanted = [(i % n, i // n) for i in range(v * lanes, (v + 1) * lanes)]
        taken = vectors[0]
        # Lanes that no row has filled yet may hold anything.
        for row in range(1, n):
            own = [i if row > 1 else at for i, (_, at) in enumerate(wanted)]
            taken = code.shuffle(taken, vectors[row], [lanes + at if k == row else own[i] for i, (k, at) in enumerate(wanted)])
        made.append(taken)
    return made
