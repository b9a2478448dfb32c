"""The plan of a recurrent layer: which scans qualify, and how the work is cut. `recurrent.py` writes the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from polyreme.dialects import tensor
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, element_type, f32, f64, i1
from polyreme.lowering.analysis.access import Access, trace
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.microkernel import Registers, step_cycles
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.machines.cost import busy_cycles, work_of_function
from polyreme.lowering.machines.functions import ENOUGH_SUMS
from polyreme.lowering.machines.instructions import MANY_REGISTERS, SPARE_REGISTERS
from polyreme.lowering.machines.memory import PREFETCHED_LOADS


@dataclass(frozen=True)
class Recurrence:
    """A scan with one product, `state` by `weight` as [batch, depth] by [depth, blocks * units], elementwise in its units around it."""

    request: Request
    scan: tensor.Scan
    contract: tensor.Contract
    state: Value
    weight: Access
    weight_value: Value
    weight_letters: str
    batch: Dim
    units: int

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.contract.result.type)

    @property
    def blocks(self) -> int:
        columns = shape_of(self.contract.result)[1]
        assert isinstance(columns, int)
        return columns // self.units

    @property
    def depth(self) -> int:
        depth = shape_of(self.state)[1]
        assert isinstance(depth, int)
        return depth

    @cached_property
    def gate_cycles(self) -> float:
        """Cycles of a vector of units, beside the product."""
        work = [work_of_function(op.fn) for op in self.scan.block if isinstance(op, tensor.Map)]
        return sum(busy_cycles(w, self.request.target) for w in work)

    @cached_property
    def carried(self) -> list[Value]:
        first = len(self.scan.xs)
        return list(self.scan.block.args[first : first + len(self.scan.inits)])

    @property
    def handed(self) -> Sequence[Value]:
        """What a step hands on, one value for each of `carried`."""
        return self.scan.block.terminator.operands[: len(self.carried)]

    @property
    def given(self) -> Sequence[Value]:
        return self.scan.block.terminator.operands[len(self.carried) :]

    @cached_property
    def after(self) -> frozenset[Value]:
        """The values that depend on the product."""
        found: set[Value] = {self.contract.result}
        for op in self.scan.block:
            if any(v in found for v in op.operands):
                found.update(op.results)
        return frozenset(found)


    @cached_property
    def running(self) -> BlockArgument | None:
        """What says of each row whether it counts in a step, [batch, 1], where the others need no product: what they hand on and give does
        not depend on it, or it is of zeros.
        """
        for arg in self.scan.block.args[: len(self.scan.xs)]:
            if element_type(arg.type) == i1 and shape_of(arg) == (self.batch, 1):
                outputs = [*self.handed, *self.given, *([] if isinstance(self.state, BlockArgument) else [self.state])]
                if _is_zero_without(self.state, arg) or not any(_reads_without(v, arg, self.contract.result, set()) for v in outputs):
                    return arg
        return None


def _chosen_without(op: Op | None, runs: Value) -> Value | None:
    """What a choice by `runs` gives where that is off."""
    if not isinstance(op, tensor.Map) or op.fn != "select":
        return None
    chooses = op.xs[0]
    while isinstance(repeated := chooses.producer(), (tensor.Broadcast, tensor.Reshape)):
        chooses = repeated.x
    other: Value = op.xs[2]
    return other if chooses is runs else None


def _is_zero_without(value: Value, runs: Value) -> bool:
    """Whether a value is zero in rows where `runs` is off."""
    op = value.producer()
    if isinstance(op, tensor.Full):
        return bool(op.value == 0)
    if isinstance(op, (tensor.Broadcast, tensor.Slice)):
        return _is_zero_without(op.x, runs)
    if isinstance(op, tensor.Concat):
        return all(_is_zero_without(x, runs) for x in op.xs)
    other = _chosen_without(op, runs)
    return other is not None and _is_zero_without(other, runs)


def _reads_without(value: Value, runs: Value, product: Value, seen: set[Value]) -> bool:
    """Whether a value depends on the product in rows where `runs` is off."""
    if value is product or value in seen:
        return value is product
    seen.add(value)
    op = value.producer()
    if op is None:
        return False
    other = _chosen_without(op, runs)
    return any(_reads_without(v, runs, product, seen) for v in (op.operands if other is None else [other]))


def find_recurrence(request: Request) -> Recurrence | None:
    """The scan of a request, if it is of the kind that `recurrent.py` describes."""
    scan = request.single(tensor.Scan)
    if scan is None:
        return None
    contracts = [op for op in scan.block if isinstance(op, tensor.Contract)]
    if len(contracts) != 1 or element_type(contracts[0].result.type) not in (f32, f64):
        return None
    shapes = {shape_of(x) for x in scan.inits}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        return None
    batch, units = next(iter(shapes))
    if not isinstance(units, int) or units < 1 or batch == 0:
        return None
    found = _operands_of(scan, contracts[0])
    if found is None:
        return None
    state, weight, access, letters = found
    made = Recurrence(request, scan, contracts[0], state, access, weight, letters, batch, units)
    return made if _fits(made) else None


def _operands_of(scan: tensor.Scan, contract: tensor.Contract) -> tuple[Value, Value, Access, str] | None:
    """The product's operands, the one made of units first; the other one is `shared`, seen through views."""
    spec = tensor.ContractSpec(contract.spec)
    if (len(spec.a), len(spec.b), len(spec.contracted), len(spec.batch)) != (2, 2, 1, 0):
        return None
    shared = scan.block.args[len(scan.block.args) - len(scan.shared) :]
    for state, letters, weight, weight_letters in ((contract.a, spec.a, contract.b, spec.b), (contract.b, spec.b, contract.a, spec.a)):
        access = trace(weight, weight_letters, narrow=True)
        if access.source in shared and letters[1] == spec.contracted and spec.out[0] == letters[0]:
            return state, weight, access, weight_letters
    return None


def _fits(r: Recurrence) -> bool:
    columns = [shape_of(v)[1] for v in (r.state, r.contract.result)]
    if any(not isinstance(n, int) or n == 0 or n % r.units for n in columns) or shape_of(r.state)[0] != r.batch:
        return False
    if isinstance(r.state, BlockArgument) and r.state not in r.carried:
        return False
    outputs = [*r.handed, *r.given]
    whole = all(len(shape_of(v)) == 2 and shape_of(v)[0] == r.batch and blocks_of(r, v) for v in outputs)
    return whole and _is_by_units(r, [*outputs, r.state])


def blocks_of(r: Recurrence, value: Value) -> int:
    """How many blocks of units a value has; 0 where it has none."""
    columns = shape_of(value)[-1]
    return columns // r.units if isinstance(columns, int) and columns % r.units == 0 else 0


def _is_by_units(r: Recurrence, values: Sequence[Value]) -> bool:
    """Whether each unit of `values` is made of the same unit of what a step is given, and of the product."""
    todo, seen = list(values), set()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        shape = shape_of(value)
        if shape and not (len(shape) == 2 and shape[0] in (1, r.batch) and (shape[1] == 1 or blocks_of(r, value))):
            return False
        op = value.producer()
        if op is None or op is r.contract:
            continue
        if not _is_local(r, op):
            return False
        todo += op.operands
    return True


def _is_local(r: Recurrence, op: Op) -> bool:
    if isinstance(op, tensor.Slice):
        rows, columns = shape_of(op.x)
        return (
            op.strides == (1, 1)
            and op.starts[0] == 0
            and op.stops[0] == rows
            and isinstance(op.starts[1], int)
            and op.starts[1] % r.units == 0
            and columns != 1
        )
    if isinstance(op, tensor.Concat):
        return op.axis == 1 and all(blocks_of(r, x) for x in op.xs)
    if isinstance(op, tensor.Map):
        wide = shape_of(op.result)
        return all(not shape_of(x) or shape_of(x)[1] in (1, wide[1]) for x in op.xs)
    return isinstance(op, (tensor.Full, tensor.Broadcast)) or (isinstance(op, tensor.Constant) and op.value.size == 1)


# --- the tile


@dataclass(frozen=True, slots=True)
class RecurrentTile:
    """A panel has `vectors` vectors of `lanes` units; of its product, `rows` rows are made at once."""

    lanes: int
    vectors: int
    rows: int
    panels: int

    @property
    def width(self) -> int:
        """Units of a panel."""
        return self.lanes * self.vectors


def choose_tile(units: int, blocks: int, batch: Dim, registers: Registers, steps: int = 1) -> RecurrentTile | None:
    """The tile that makes a step in the fewest cycles; None if not even one vector of each block fits into the registers.

    A step of the product takes a cycle for each vector of weights, which come from L2; further rows reuse what was read. Panels come in
    pairs, so that two threads have equally many, of about eight vectors. If loads count (`Target.load_cycles`), those of one row are as
    wide as possible, since one element of the state serves all of a panel. There are registers for the sums of `steps` steps at a time.
    """
    lanes = min(registers.lanes, 1 << (units - 1).bit_length())
    total = -(-units // lanes)
    most = registers.accumulators // (blocks * steps) or registers.accumulators // blocks
    if not most:
        return None

    def most_rows(vectors: int) -> int:
        """Of a tile so many vectors of each block wide. Of many registers some are left, since LLVM else keeps sums on the stack; of few
        there are none for a row of weights either, of which one vector is read after the other.
        """
        if registers.count < MANY_REGISTERS:
            return most // vectors
        return max(min(most // vectors, (registers.count - SPARE_REGISTERS) // (blocks * vectors) - 1), 1)

    if not isinstance(batch, int):
        vectors = min(max(4 // blocks, 1), total, most)
        return RecurrentTile(lanes, vectors, most_rows(vectors), -(-total // vectors))
    wide = batch == 1 and registers.load_cycles > 0
    best: tuple[float, int, int, int, RecurrentTile] | None = None
    for vectors in range(1, min(total, most) + 1):
        if batch == 1 and blocks * vectors > PREFETCHED_LOADS and vectors > 1:
            continue
        panels = -(-total // vectors)
        pairs = panels + panels % 2 if total > 1 else panels
        for rows in range(1, min(most_rows(vectors), batch) + 1):
            # Whole tiles, then one of the rows that are left.
            tiles = [rows] * (batch // rows) + [batch % rows] * (batch % rows > 0)
            cycles = pairs * sum(max(blocks * vectors, step_cycles(r, blocks * vectors)) for r in tiles)
            # More sums than hide their latency read the weights no faster.
            wanted = PREFETCHED_LOADS if wide else ENOUGH_SUMS
            key = (cycles, -rows, panels * vectors if wide else 0, abs(blocks * vectors - wanted))
            if best is None or key < best[:4]:
                best = (*key, RecurrentTile(lanes, vectors, rows, panels))
    assert best is not None
    return best[4]
