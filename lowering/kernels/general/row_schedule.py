"""How the loops of a row form go: all that is chosen about them, before any of them is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd

from polyreme.dialects import tensor
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, Expr, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import Rows, shape_of
from polyreme.lowering.kernels.elements import fold_tries
from polyreme.lowering.kernels.loop_nest import Lanes, iterations_together
from polyreme.lowering.machines.cost import Work, busy_cycles
from polyreme.lowering.machines.functions import AT_ONCE, EXPENSIVE
from polyreme.lowering.machines.memory import LOOP_PREFETCH_BYTES
from polyreme.lowering.machines.targets import STREAMED_BYTES, Target

# Rows that share positions by which they are read.
ROWS_BY_POSITION = 4


@dataclass(frozen=True, slots=True)
class WholeLines:
    """The result of this number goes past the caches in whole lines: its vectors, but those under a mask, begin at multiples of `align`
    bytes.
    """

    result: int
    align: int


@dataclass(frozen=True, slots=True)
class Nest:
    """Iterations over `sizes`, which threads share; each costs about so many cycles."""

    sizes: tuple[Dim, ...]
    cycles: float


@dataclass(frozen=True)
class RowSchedule:
    """How the loops go.

    Lanes run along `axis`, None if all sizes are 1: along a row (`along_row`), or over rows that stand side by side. `kept` values are
    computed in the stage told and read in later ones, from a scratch row, or from the row of a result (`hosted`, by its number). So many
    `rows_at_once` share what is computed of places along them. Rows that may be `short` have code for those of a vector or less, and are
    done so many `together`. Rows of up to so many lanes as `forms` say, that are moved or read by positions, have code of their own,
    in which nothing of the positions is done again for the next row. Results `streamed`, by their numbers, go past the caches.

    Iterations go over the axes `around`, and over pieces of `chunk` places of `axis` where that is told. Inside of a vector the loops step
    along `columns`; with `transposed`, square pieces of these are put together in registers, and what columns are left has a nest of its
    own.
    """

    rows: Rows
    axis: int | None
    along_row: bool
    lanes: Lanes
    stages: int
    kept: Mapping[Value, int]
    hosted: Mapping[Value, int]
    rows_at_once: int
    short: bool
    together: int
    columns: int | None
    transposed: tuple[tensor.Transpose, ...]
    around: tuple[int, ...]
    chunk: int | None
    nests: tuple[Nest, ...]
    whole_lines: WholeLines | None
    streamed: frozenset[int]
    forms: tuple[int, ...] = ()

    def __str__(self) -> str:
        lanes = f"{self.lanes.count}{f'x{self.lanes.unroll}' if self.lanes.unroll > 1 else ''}{' masked' if self.lanes.masked else ''}"
        told = {
            "space": "x".join(map(str, self.rows.space)),
            "lanes": lanes if self.axis is None else f"{lanes} along {self.axis}",
            "reduced": ", ".join(map(str, self.rows.reduced)),
            "stages": self.stages or "",
            "kept": ", ".join(
                f"{_name(v)} of stage {stage}{f' in result {self.hosted[v]}' if v in self.hosted else ''}" for v, stage in self.kept.items()
            ),
            "rows_at_once": self.rows_at_once if self.rows_at_once > 1 else "",
            "short_rows_together": self.together if self.short else "",
            "forms": ", ".join(f"up to {n} lanes" for n in self.forms),
            "columns": "" if self.columns is None else f"{self.columns}{' in square pieces' if self.transposed else ''}",
            "chunk": self.chunk or "",
            "nests": ", ".join(f"{'x'.join(map(str, n.sizes)) or 1} of {n.cycles:.0f} cycles" for n in self.nests),
            "whole_lines": "" if self.whole_lines is None else f"result {self.whole_lines.result} by {self.whole_lines.align} bytes",
            "past_caches": ", ".join(f"result {i}" for i in sorted(self.streamed)),
        }
        return f"rows<{'; '.join(f'{name} = {value}' for name, value in told.items() if value != '')}>"


def _name(value: Value) -> str:
    op = value.producer()
    return "operand" if op is None else str(op.attributes.get("fn", op.name))


def choose_schedule(
    target: Target,
    ops: Sequence[Op],
    results: Sequence[Value],
    rows: Rows,
    axis: int | None = None,
    stored: tuple[Dim, ...] | None = None,
) -> RowSchedule:
    """How `results` are computed by `ops`, all of which they need: along `axis`, by default the last one with several places. `stored` is
    the shape of what they are stored into, where it is not their own.
    """
    return _RowChoices(target, ops, results, rows, axis, stored).schedule()


class _RowChoices:
    """The choices, in the order in which they need each other."""

    def __init__(
        self, target: Target, ops: Sequence[Op], results: Sequence[Value], rows: Rows, axis: int | None, stored: tuple[Dim, ...] | None
    ):
        self.target, self.ops, self.results, self.rows, self.stored = target, ops, results, rows, stored
        sized = [i for i, n in enumerate(rows.space) if n != 1]
        self.axis = axis if axis is not None else sized[-1] if sized else None
        self.along_row = self.axis in rows.reduced
        self.stages = max((rows.level[s.result] for s in rows.staged), default=0)
        self.lanes = self._lanes()
        self.kept, self.hosted = self._kept()
        self.whole_lines = self._whole_lines()
        self.rows_at_once = self._rows_at_once()

    def schedule(self) -> RowSchedule:
        short, together = False, 1
        columns: int | None = None
        transposed: tuple[tensor.Transpose, ...] = ()
        around, chunk = list(self.rows.outer), None
        if self.axis is None or self.along_row:
            sizes: list[Dim] = [self.rows.space[a] for a in around]
            cycles = self._row_cycles()
            short = self._may_be_short() and bool(sizes)
            if short:
                together = iterations_together(product(sizes))
                sizes[-1], cycles = ceildiv(sizes[-1], together), cycles * together
            nests: tuple[Nest, ...] = (Nest(tuple(sizes), cycles),)
        else:
            # Lanes are rows.
            around.remove(self.axis)
            columns = self._axis_of_columns()
            if columns is not None:
                around.remove(columns)
                transposed = self._transposed(self.axis)
            if columns is not None and transposed:
                nests = self._nests_of_blocks(around, self.axis, columns)
            else:
                nests, chunk = self._nest_of_lanes(around, self.axis, columns)
        return RowSchedule(
            self.rows, self.axis, self.along_row, self.lanes, self.stages, self.kept, self.hosted, self.rows_at_once, short, together,
            columns, transposed, tuple(around), chunk, nests, self.whole_lines, self._streamed(),
            self._forms() if columns is None and chunk is None else (),
        )  # fmt: skip

    # --- vectors

    def _lanes(self) -> Lanes:
        if self.axis is None:
            return Lanes(1, False)
        types = {v.type.dtype for op in self.ops for v in op.results} | {element_type(v.type) for v in self.results}
        floats = [t for t in types if t.is_float and t.bits >= 32]
        widest = max((t.bytes for t in floats or types), default=4)
        count = max(1, self.target.vector_bytes // max(widest, 2 if not floats else 4))
        n = self.rows.space[self.axis]
        if isinstance(n, int) and n < count:
            count = 1 << ((n - 1).bit_length() if self.target.masked else n.bit_length() - 1) if n > 0 else 1
        elif self.rows.staged and not self.along_row and not self._has_expensive():
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

    def _has_expensive(self) -> bool:
        return any(isinstance(op, tensor.Map) and op.fn in EXPENSIVE for op in self.ops)

    # --- rows

    def _rows_at_once(self) -> int:
        """How many rows are computed together: several where their elements are read by positions along the row that all rows share."""
        if self.rows.staged or self.axis is None or self.axis < 1 or self.lanes.count == 1:
            return 1
        rows, n = self.rows.space[self.axis - 1], self.rows.space[self.axis]
        if isinstance(n, int) and n < 2 * self.lanes.count:
            # So few vectors are no loop, out of which the positions are hoisted anyway.
            return 1
        for op in self.ops:
            if isinstance(op, tensor.Gather) and op.axis == self.axis and len(shape_of(op.index)) == 1:
                if shape_of(op.result) == self.rows.space and (isinstance(rows, Expr) or rows >= ROWS_BY_POSITION):
                    return ROWS_BY_POSITION
        return 1

    def _forms(self) -> tuple[int, ...]:
        """Lanes up to which rows of unknown length that are moved, or read by positions, have code of their own: half a vector, one and
        two.
        """
        one = self.lanes.count
        if (
            self.axis is None
            or self.axis < 1
            or self.rows.staged
            or not self.lanes.masked
            or one != self.target.lanes(f32)
            or not isinstance(self.rows.space[self.axis], Expr)
            or not any(self._moves_rows(op) for op in self.ops)
        ):
            return ()
        return (one // 2, one, 2 * one)

    def _moves_rows(self, op: Op) -> bool:
        """Whether an op makes the rows of others, each several times or in any order."""
        if shape_of(op.results[0]) != self.rows.space:
            return False
        repeats = isinstance(op, tensor.Broadcast) and shape_of(op.x)[-1:] == self.rows.space[-1:]
        return repeats or isinstance(op, tensor.Gather)

    def _may_be_short(self) -> bool:
        """Whether rows are of unknown length, and are summed up only: those of a vector or less then have code of their own."""
        return (
            self.axis is not None
            and self.along_row
            and self.lanes.masked
            and self.lanes.count > 1
            and self.stages == 1
            and self.rows.reduced == (self.axis,)
            and isinstance(self.rows.space[self.axis], Expr)
            and not any(self.rows.is_full(v) for v in self.results)
        )

    def _kept(self) -> tuple[dict[Value, int], dict[Value, int]]:
        """Dear values that several stages ask for, with the first stage that does; they fit in the scratch, or in place of the last result
        if rows are of unknown length.

        The scratch has the present row only: not of those are kept whose elements are asked for in other places, through a slice, say.
        """
        if not self.rows.staged:
            return {}, {}
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
        for value in self.results:
            if self.rows.is_full(value):
                want(value, self.stages)
        row = product(self.rows.space[a] for a in self.rows.reduced) * (1 if self.along_row else self.lanes.count)
        kept: dict[Value, int] = {}
        hosted: dict[Value, int] = {}
        # What is kept takes half of L1, and is not cheaper to compute again than to store and load.
        room = self.target.caches[0] // 2
        kept_cycles = busy_cycles(Work(loads=1.0, stores=1.0), self.target)
        for op in reversed(self.ops):
            value = op.results[0]
            dear = isinstance(op, tensor.Map) and busy_cycles(Work(arithmetic=EXPENSIVE.get(op.fn, 1)), self.target) > kept_cycles
            dear = dear or (isinstance(op, tensor.Reduce) and op not in self.rows.staged)
            bytes = row * element_type(value.type).bytes
            if not dear or value in elsewhere or len(wanted.get(value, ())) < 2 or shape_of(value) != self.rows.space:
                continue
            if not isinstance(bytes, int):
                last = max((i for i, v in enumerate(self.results) if self.rows.is_full(v)), default=None)
                if last is None or not self.along_row or hosted or self.results[last].type != value.type:
                    continue
                hosted[value] = last
            elif bytes <= room:
                room -= bytes
            else:
                continue
            kept[value] = min(wanted[value])
        return kept, hosted

    # --- stores

    def _whole_lines(self) -> WholeLines | None:
        """The first such result of elementwise loops, on machines that keep memory busy neither with one stream nor with lines put together
        from parts.
        """
        if self.target.memory_streams == 1 or self.axis is None or self.stored is not None or not self._elementwise():
            return None
        for i, value in enumerate(self.results):
            size = element_type(value.type).bytes
            row, vector = self.rows.space[self.axis] * size, self.lanes.count * size
            if (
                shape_of(value) == self.rows.space
                and self._is_large(value)
                and isinstance(row, int)
                # Shorter rows do not pay for a beginning of their own, up to a whole line of the result.
                and row >= LOOP_PREFETCH_BYTES
                and vector >= self.target.vector_bytes
            ):
                return WholeLines(i, gcd(self.target.line_bytes, vector))
        return None

    def _streamed(self) -> frozenset[int]:
        """The results that go past the caches: one that is larger than the last of them has left it when its reader comes, and waits for
        memory alone.

        Where arithmetic takes as long, reading the lines first costs nothing, and is faster than to wait until they are written, unless
        they come whole. Where rows begin between two of the pieces that stores can take past the caches, some would go past them and some
        through: a line with the end of one row and the beginning of the next goes to memory twice then.
        """
        if self._has_expensive() and self.whole_lines is None:
            return frozenset()
        return frozenset(i for i, value in enumerate(self.results) if self._is_large(value) and not self._begins_between(value))

    def _begins_between(self, value: Value) -> bool:
        """Whether rows of what a result is stored into begin between two pieces."""
        shape = self.stored or shape_of(value)
        row = shape[-1] * element_type(value.type).bytes if len(shape) > 1 else 0
        return self.whole_lines is None and isinstance(row, int) and row % STREAMED_BYTES != 0

    def _is_large(self, value: Value) -> bool:
        """Whether the last cache does not hold what a result is stored into."""
        size = product(self.stored or shape_of(value)) * element_type(value.type).bytes
        return isinstance(size, int) and size > self.target.caches[2]

    # --- nests

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
        total += sum(estimate(product(shape_of(v))) for v in self.results)
        rows = estimate(product(self.rows.space[a] for a in self.rows.outer))
        return total / max(rows, 1) / (self.lanes.count if self.along_row else 1)

    def _nest_of_lanes(self, around: Sequence[int], axis: int, columns: int | None) -> tuple[tuple[Nest, ...], int | None]:
        """The axis of lanes is cut into chunks if the axes around it do not make enough iterations: the nest, and the size of a chunk."""
        space, lanes, target = self.rows.space, self.lanes.count, self.target
        cycles, n = self._row_cycles(), space[axis]
        if self.rows.staged:
            # Rows side by side are several vectors wide.
            cycles *= max(1, lanes // target.lanes(f32))
        if columns is not None:
            cycles *= estimate(space[columns])
        sizes = [space[a] for a in around]
        if self.rows_at_once > 1:
            sizes[around.index(axis - 1)] = ceildiv(space[axis - 1], self.rows_at_once)
            cycles *= self.rows_at_once
        count = 1
        for size in sizes:
            count *= max(estimate(size, 1), 1)
        chunk = max(lanes, _round_up(ceil(target.grain_cycles / 4 / max(cycles / lanes, 0.01)), 4 * lanes))
        split = (
            count < 16
            and (isinstance(n, Expr) or n > chunk)
            and estimate(product(space)) * cycles / lanes >= target.serial_cycles
        )
        extent = min(chunk, n) if isinstance(n, int) else chunk if split else estimate(n)
        nest = Nest((*sizes, *([-(-n // chunk)] if split else [])), cycles * extent / lanes)
        return (nest,), chunk if split else None

    def _axis_of_columns(self) -> int | None:
        """The axis to step along inside of the vectors, when a transpose makes lanes stand far apart in memory: that along which they move
        together through the cache lines that they have just read."""
        if self.rows.staged:
            return None
        for op in self.ops:
            if isinstance(op, tensor.Transpose) and shape_of(op.result) == self.rows.space and op.perm[-1] != len(op.perm) - 1:
                axis = op.perm.index(len(op.perm) - 1)
                return axis if axis != self.axis and self.rows.space[axis] != 1 else None
        return None

    def _transposed(self, axis: int) -> tuple[tensor.Transpose, ...]:
        """The transposes whose results are put together from square pieces in registers: all of the group, where they turn it the same way
        and elementwise ops follow.
        """
        wide = self.target.lanes(f32)
        transposed = [op for op in self.ops if isinstance(op, tensor.Transpose)]
        behind = {op.result for op in transposed}
        for op in self.ops:
            if any(x in behind for x in op.operands):
                if not isinstance(op, tensor.Map):
                    return ()
                behind.add(op.result)
        sizes = [self.rows.space[op.perm.index(len(op.perm) - 1)] for op in transposed if shape_of(op.result) == self.rows.space]
        like = len(sizes) == len(transposed) and all(op.perm == transposed[0].perm for op in transposed)
        like = like and all(v in behind for v in self.results)
        kinds = [element_type(op.result.type) for op in transposed]
        plain = all(t.kind in "fiu" and t.bits >= 16 for t in kinds)
        many = all(not isinstance(n, int) or n >= wide for n in (*sizes, self.rows.space[axis]))
        return tuple(transposed) if like and plain and many and wide > 1 else ()

    def _nests_of_blocks(self, around: Sequence[int], axis: int, columns: int) -> tuple[Nest, ...]:
        sizes = tuple(self.rows.space[a] for a in around)
        cycles, n = self._row_cycles() * estimate(self.rows.space[axis]), self.rows.space[columns]
        width = block_of(self.lanes, self.target)
        blocks = Nest((*sizes, n // width), cycles)
        return (blocks, Nest(sizes, cycles)) if n % width != 0 else (blocks,)


def block_of(lanes: Lanes, target: Target) -> int:
    """Rows and columns of the square pieces that transposes are put together from."""
    return min(lanes.count, target.lanes(f32))


def _repeats(op: Op) -> int:
    """How many operand elements one result element of an inner loop takes."""
    if isinstance(op, tensor.Contract):
        spec = tensor.ContractSpec(op.spec)
        sizes = spec.sizes(shape_of(op.a), shape_of(op.b))
        return max(1, estimate(product(sizes[c] for c in spec.contracted)))
    if isinstance(op, tensor.Fold):
        return max(1, estimate(product(fold_tries(op)))) * 4
    if isinstance(op, tensor.ArgReduce):
        return max(1, estimate(shape_of(op.x)[op.axis]))
    return 1


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
