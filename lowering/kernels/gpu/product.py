"""Matrix products and convolutions on a GPU: tiles of the result, operands in shared memory, sums in registers.

The letters of a contract are batch, rows (of one operand), columns (of the other one, which has the result's last letter) and depth
(contracted). Each group is one long axis, whose positions are split into letters where an element is read. So a convolution, whose operand
is a window of a pad, is a product like any other: filling a tile looks through the window and the pad, which are never stored. The same
holds for gradients, which are contracts too.

A product with few tiles and great depth, such as a gradient of weights, is cut along its depth (split-K). Partial sums wait in scratch
memory for a second kernel, which adds them in order. That kernel also runs an epilogue that is more than elementwise, such as a pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type, f32, f64
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.elements import Leaf, Positions, convert, linear, store
from polyreme.lowering.kernels.epilogue import Epilogue, find_epilogue
from polyreme.lowering.kernels.gpu.elementwise import build_elements
from polyreme.lowering.kernels.gpu.grid import GridKernel, aligned_leaf
from polyreme.lowering.kernels.gpu.reductions import build_rows
from polyreme.lowering.kernels.plan import KernelPlan, Request, Slot, Step, operand, result, scratch
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.machines.gpu import FLOATS, MULTIPROCESSORS, NARROW, SHALLOW, STEPS_OF_PART, GpuTile, Multiplier, TileRate


class GpuBlockTile(Protocol):
    """What a block of `threads` threads has of the result, `depth` steps at a time."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def depth(self) -> int: ...

    @property
    def threads(self) -> int: ...


@dataclass(frozen=True)
class GpuProduct:
    """A contract in groups of letters. `left` gives the rows and `right` the columns."""

    request: Request
    contract: tensor.Contract
    left: Value
    right: Value
    left_letters: str
    right_letters: str
    out: str
    sizes: dict[str, Dim]
    # Letters that come last in their groups: those whose neighbours lie side by side in memory.
    last: str = ""

    def _in_order(self, letters: Iterable[str]) -> list[str]:
        return sorted(letters, key=lambda c: c in self.last)

    @property
    def batch(self) -> list[str]:
        return [c for c in self.out if c in self.left_letters and c in self.right_letters]

    @property
    def row_letters(self) -> list[str]:
        return self._in_order(c for c in self.out if c not in self.right_letters)

    @property
    def column_letters(self) -> list[str]:
        return self._in_order(c for c in self.out if c not in self.left_letters)

    @property
    def contracted(self) -> list[str]:
        return self._in_order(c for c in self.left_letters if c in self.right_letters and c not in self.out)

    def count(self, letters: Sequence[str]) -> Dim:
        return product(self.sizes[c] for c in letters)

    def shape(self, letters: Sequence[str]) -> list[Dim]:
        return [self.sizes[c] for c in letters]

    @property
    def out_shape(self) -> tuple[Dim, ...]:
        return tuple(self.sizes[c] for c in self.out)


def find_product(request: Request, dtypes: tuple[ScalarType, ...]) -> GpuProduct | None:
    """The only contract of a group, when its elements are of one of the dtypes."""
    contracts = request.ops(tensor.Contract)
    if len(contracts) != 1:
        return None
    contract = contracts[0]
    if element_type(contract.result.type) not in dtypes:
        return None
    if any(d == 0 for v in (contract.a, contract.b, contract.result) for d in shape_of(v)):
        return None
    return see_product(request, contract)


def see_product(request: Request, contract: tensor.Contract, last: str = "") -> GpuProduct | None:
    """A contract of a request in groups of letters; None where it is no product, or hardly one."""
    spec = tensor.ContractSpec(contract.spec)
    sizes = spec.sizes(shape_of(contract.a), shape_of(contract.b))
    if not spec.contracted:
        return None
    rows, columns, depth = (estimate(product(sizes[c] for c in letters)) for letters in (spec.free_a, spec.free_b, spec.contracted))
    if min(rows, columns) <= NARROW and depth <= SHALLOW:
        return None
    if next((c for c in reversed(spec.out) if sizes[c] != 1), "") in spec.free_a:
        return GpuProduct(request, contract, contract.b, contract.a, spec.b, spec.a, spec.out, sizes, last)
    return GpuProduct(request, contract, contract.a, contract.b, spec.a, spec.b, spec.out, sizes, last)


def choose_tile(p: GpuProduct, by: Multiplier = FLOATS) -> GpuTile:
    """The tile with which the busiest multiprocessor has the least to do."""
    depth = estimate(p.count(p.contracted))

    def cost(rate: TileRate) -> float:
        tile, parts = rate.tile, parts_of(p, rate.tile)
        blocks = ceildiv(blocks_of(p, tile) * parts, MULTIPROCESSORS)
        return (blocks + rate.lost) * tile.rows * tile.columns * depth / (parts * rate.share) + (by.second_kernel if parts > 1 else 0)

    return min(by.tiles, key=cost).tile


def blocks_of(p: GpuProduct, tile: GpuBlockTile) -> int:
    """How many tiles the result has; of sizes that are not known, about."""
    m, n, around = (estimate(p.count(c)) for c in (p.row_letters, p.column_letters, p.batch))
    return -(-m // tile.rows) * -(-n // tile.columns) * around


def parts_of(p: GpuProduct, tile: GpuBlockTile, multiprocessors: int = MULTIPROCESSORS) -> int:
    """How many parts the depth is cut into, so that there is a block for each multiprocessor."""
    return max(1, min(multiprocessors // max(blocks_of(p, tile), 1), estimate(p.count(p.contracted)) // STEPS_OF_PART))


# Stores what a thread holds of the result: its places by letter, a leaf for its elements, how many lie side by side.
Sink = Callable[[GridKernel, dict[str, Position], Leaf, int], None]


class ProductKernelClass(Protocol):
    """A class of kernels, made of a product, a tile, where results go, the launch's slots, the number of parts and the slots' types."""

    __name__: str

    def __call__(
        self, p: GpuProduct, tile: Any, sink: Sink, slots: list[Slot], parts: int, types: list[TensorType | BufferType], /
    ) -> Any: ...


def plan_product(p: GpuProduct, tile: GpuBlockTile, parts: int, make: ProductKernelClass) -> KernelPlan:
    """One kernel with the epilogue in it, or the product into scratch memory and a second kernel for the rest."""
    request = p.request
    epilogue = find_epilogue(request, p.contract)
    operands: list[Slot] = [operand(i) for i in range(len(request.func.args))]
    types: list[TensorType | BufferType] = list(request.operand_types)
    if epilogue is not None and not epilogue.pools and parts == 1:
        outputs = [result(i) for i in range(len(epilogue.values))]
        step = make(p, tile, _epilogue_sink(p, epilogue), [*operands, *outputs], 1, [*types, *(v.type for v in request.results)]).build()
        return KernelPlan((step,))
    kept = sum_type(p)
    board = BufferType((parts, *p.out_shape), kept)
    step = make(p, tile, _board_sink(p), [*operands, scratch(0)], parts, [*types, board]).build()
    rest = _rest(p, TensorType(board.shape, kept))
    plan = build_rows(rest) or build_elements(rest)
    assert plan is not None, "there is no product left"
    moved = {operand(len(operands)): scratch(0), **{scratch(i): scratch(i + 1) for i in range(len(plan.scratch))}}
    steps = [Step(s.func, tuple(moved.get(slot, slot) for slot in s.slots), s.grid, s.block) for s in plan.steps]
    return KernelPlan((step, *steps), scratch=(board, *plan.scratch))


def sum_type(p: GpuProduct) -> ScalarType:
    """What sums are kept in."""
    dtype = element_type(p.contract.result.type)
    return f64 if dtype == f64 else f32


def _epilogue_sink(p: GpuProduct, epilogue: Epilogue) -> Sink:
    def write(made: GridKernel, places: dict[str, Position], leaf: Leaf, lanes: int) -> None:
        code, args = made.code, len(p.request.func.args)
        dtype = element_type(p.contract.result.type)

        def rounded(at: Positions, lanes: int, mask: Value | None) -> Value:
            return convert(code, leaf(at, lanes, mask), dtype)

        buffers = dict(zip(p.request.func.args, made.buffers[:args], strict=True))
        emitter = epilogue.emitter(code, buffers, rounded)
        # Neighbours begin at multiples of their number, and so do they in operands as large as the result.
        for arg in epilogue.residuals if lanes > 1 else ():
            if all(isinstance(user, tensor.Map) for user in arg.users):
                emitter.leaves[arg] = aligned_leaf(code, buffers[arg], epilogue.shape)
        epilogue.write(emitter, made.buffers[args:], [places[c] for c in p.out], lanes, None, aligned=lanes > 1)

    return write


def _board_sink(p: GpuProduct) -> Sink:
    """Into `[part, …]` of scratch memory, the part being the block's number along the second axis of the grid."""

    def write(made: GridKernel, places: dict[str, Position], leaf: Leaf, lanes: int) -> None:
        code, at = made.code, [places[c] for c in p.out]
        start = code.mul(places[""].scalar(code), product(p.out_shape))
        where = linear(code, at, p.out_shape).plus(code, Position(terms=((start, 1),)) if isinstance(start, Value) else Position(start))
        store(code, leaf(tuple(at), lanes, None), made.buffers[-1], where, align=lanes * sum_type(p).bytes if lanes > 1 else None)

    return write


def _rest(p: GpuProduct, board: TensorType) -> Request:
    """What is left of the group once the parts of its product lie in memory, as its last operand."""
    old = p.request.func
    func = Func.empty("root", [*(a.type for a in old.args), board], loc=old.location)
    b = Builder.at_end(func.block, old.location)
    mapping: dict[Value, Value] = dict(zip(old.args, func.args, strict=False))
    summed: Value = b(tensor.Reduce, func.args[-1], fn="add", axes=(0,), keepdims=False)
    dtype = element_type(p.contract.result.type)
    mapping[p.contract.result] = summed if dtype == board.dtype else b(tensor.Map, summed, fn="cast", dtype=dtype)
    wanted = _after(p)
    for op in p.request.ops():
        if op in wanted:
            b.insert(op.clone(mapping))
    b.insert(Return([mapping[v] for v in p.request.results]))
    return Request(func.finish(), p.request.target)


def _after(p: GpuProduct) -> set[Op]:
    """The ops that the results need besides the product and what comes before it."""
    found: set[Op] = set()
    todo = list(p.request.results)
    while todo:
        op = todo.pop().producer()
        if op is not None and op is not p.contract and op not in found:
            found.add(op)
            todo += op.operands
    return found
