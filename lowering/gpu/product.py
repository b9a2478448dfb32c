"""Matrix products and convolutions: tiles of the result, the operands in shared memory, the sums in registers.

The letters of a contract fall into batch, rows (of one operand only), columns (of the other one, which has the result's last letter) and depth (contracted).
Each group is one long axis; its positions are split into letters where an element is asked for. So a convolution, whose operand is a
window of a pad, is a product like any other: the window and the pad are looked through when a tile is filled, and never stored. The same holds
for the gradients, which are contracts too.

A product with few tiles and great depth, as gradients of weights are, is cut along its depth: partial sums wait in scratch memory for a second
kernel, which adds them in order. The same second kernel takes what follows the product when that is more than elementwise ops, a pooling say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, ceildiv, mod, product
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type, f32, f64
from polyreme.lowering.access import trace
from polyreme.lowering.code import Code, Index
from polyreme.lowering.elements import ElementEmitter, Leaf, Positions, buffer_leaf, convert, linear, store
from polyreme.lowering.epilogue import Epilogue, follow
from polyreme.lowering.gpu.elementwise import build_elements
from polyreme.lowering.gpu.grid import GridKernel, both, places_of, truth
from polyreme.lowering.gpu.reductions import build_rows
from polyreme.lowering.positions import Position
from polyreme.lowering.rows import shape_of
from polyreme.lowering.schedule import KernelPlan, Request, Slot, Step, operand, result, scratch
from polyreme.lowering.sweep import estimate

# Lanes of the vectors in which sums are kept and shared memory is read.
LANES = 4
# Tiles of shared memory are this much wider than their rows, so that threads that write down a column use different banks.
PADDING = 4
# A depth is cut into parts of at least so many steps, until there are enough blocks for a device.
PART, ENOUGH_BLOCKS = 256, 128


@dataclass(frozen=True)
class Tile:
    """`rows` x `columns` of the result per block, `depth` steps at a time; each thread has `tall` x `wide` of them."""

    rows: int
    columns: int
    depth: int
    tall: int
    wide: int

    @property
    def threads(self) -> int:
        return (self.rows // self.tall) * (self.columns // self.wide)


LARGE = Tile(128, 128, 8, 8, 8)
MIDDLE = Tile(64, 64, 16, 4, 4)
SMALL = Tile(32, 32, 16, 4, 4)


@dataclass(frozen=True)
class Product:
    """A contract in groups of letters. `left` gives the rows and `right` the columns."""

    request: Request
    contract: tensor.Contract
    left: Value
    right: Value
    left_letters: str
    right_letters: str
    out: str
    sizes: dict[str, Dim]

    @property
    def batch(self) -> list[str]:
        return [c for c in self.out if c in self.left_letters and c in self.right_letters]

    @property
    def row_letters(self) -> list[str]:
        return [c for c in self.out if c not in self.right_letters]

    @property
    def column_letters(self) -> list[str]:
        return [c for c in self.out if c not in self.left_letters]

    @property
    def contracted(self) -> list[str]:
        return [c for c in self.left_letters if c in self.right_letters and c not in self.out]

    def count(self, letters: Sequence[str]) -> Dim:
        return product(self.sizes[c] for c in letters)

    def shape(self, letters: Sequence[str]) -> list[Dim]:
        return [self.sizes[c] for c in letters]

    @property
    def out_shape(self) -> tuple[Dim, ...]:
        return tuple(self.sizes[c] for c in self.out)


def find_product(request: Request, dtypes: tuple[ScalarType, ...]) -> Product | None:
    """The only contract of a group, when its elements are of one of the dtypes."""
    contracts = request.ops(tensor.Contract)
    if len(contracts) != 1:
        return None
    contract = contracts[0]
    if element_type(contract.result.type) not in dtypes:
        return None
    if any(d == 0 for v in (contract.a, contract.b, contract.result) for d in shape_of(v)):
        return None
    spec = tensor.ContractSpec(contract.spec)
    sizes = spec.sizes(shape_of(contract.a), shape_of(contract.b))
    if not spec.contracted:
        return None
    last = next((c for c in reversed(spec.out) if sizes[c] != 1), "")
    if last in spec.free_a:
        return Product(request, contract, contract.b, contract.a, spec.b, spec.a, spec.out, sizes)
    return Product(request, contract, contract.a, contract.b, spec.a, spec.b, spec.out, sizes)


def build_product(request: Request) -> KernelPlan | None:
    """The plan of a group around a contract of floats; None for any other."""
    found = find_product(request, (f32, f64))
    return None if found is None else plan_product(found, lambda p, writes, slots, parts, types: TiledProduct(p, choose_tile(p), writes, slots, parts, types).build())


def choose_tile(p: Product) -> Tile:
    m, n, around = (estimate(p.count(c)) for c in (p.row_letters, p.column_letters, p.batch))
    blocks = -(-m // LARGE.rows) * -(-n // LARGE.columns) * around
    if min(m, n) >= LARGE.rows and blocks >= ENOUGH_BLOCKS // 2:
        return LARGE
    return MIDDLE if min(m, n) > SMALL.rows else SMALL


# Stores what a thread holds of the result: its places by letter, a leaf for its elements, how many lie side by side.
Sink = Callable[[GridKernel, dict[str, Position], Leaf, int], None]
MakeKernel = Callable[[Product, Sink, list[Slot], int, list[TensorType | BufferType]], Step]


def plan_product(p: Product, make: MakeKernel) -> KernelPlan:
    """One kernel with the epilogue in it, or the product into scratch memory and a second kernel for the rest."""
    request = p.request
    epilogue = follow(request, p.contract)
    parts = _parts(p)
    operands: list[Slot] = [operand(i) for i in range(len(request.func.args))]
    types: list[TensorType | BufferType] = list(request.operand_types)
    if epilogue is not None and not epilogue.pools and parts == 1:
        outputs = [result(i) for i in range(len(epilogue.values))]
        step = make(p, _epilogue_sink(p, epilogue), [*operands, *outputs], 1, [*types, *(v.type for v in request.results)])
        return KernelPlan((step,), builder="product")
    kept = sum_type(p)
    board = BufferType((parts, *p.out_shape), kept)
    step = make(p, _board_sink(p), [*operands, scratch(0)], parts, [*types, board])
    rest = _rest(p, TensorType(board.shape, kept))
    plan = build_rows(rest) or build_elements(rest)
    moved = {operand(len(operands)): scratch(0), **{scratch(i): scratch(i + 1) for i in range(len(plan.scratch))}}
    steps = [Step(s.func, tuple(moved.get(slot, slot) for slot in s.slots), s.grid, s.block) for s in plan.steps]
    return KernelPlan((step, *steps), scratch=(board, *plan.scratch), builder="product")


def sum_type(p: Product) -> ScalarType:
    """What sums are kept in."""
    dtype = element_type(p.contract.result.type)
    return f64 if dtype == f64 else f32


def _parts(p: Product) -> int:
    """How many parts the depth is cut into."""
    tile = choose_tile(p)
    m, n, around, depth = (estimate(p.count(c)) for c in (p.row_letters, p.column_letters, p.batch, p.contracted))
    blocks = -(-m // tile.rows) * -(-n // tile.columns) * around
    return max(1, min(ENOUGH_BLOCKS // max(blocks, 1), depth // PART))


def _epilogue_sink(p: Product, epilogue: Epilogue) -> Sink:
    def write(made: GridKernel, places: dict[str, Position], leaf: Leaf, lanes: int) -> None:
        code, args = made.code, len(p.request.func.args)
        dtype = element_type(p.contract.result.type)

        def rounded(at: Positions, lanes: int, mask: Value | None) -> Value:
            return convert(code, leaf(at, lanes, mask), dtype)

        buffers = dict(zip(p.request.func.args, made.buffers[:args], strict=True))
        emitter = epilogue.emitter(code, buffers, rounded)
        epilogue.write(emitter, made.buffers[args:], [places[c] for c in p.out], lanes, None)

    return write


def _board_sink(p: Product) -> Sink:
    """Into `[part, …]` of scratch memory, the part being the block's number along the second axis of the grid."""

    def write(made: GridKernel, places: dict[str, Position], leaf: Leaf, lanes: int) -> None:
        code, at = made.code, [places[c] for c in p.out]
        start = code.mul(places[""].scalar(code), product(p.out_shape))
        where = linear(code, at, p.out_shape).plus(code, Position(terms=((start, 1),)) if isinstance(start, Value) else Position(start))
        store(code, leaf(tuple(at), lanes, None), made.buffers[-1], where)

    return write


def _rest(p: Product, board: TensorType) -> Request:
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


def _after(p: Product) -> set[Op]:
    """The ops that the results need besides the product and what comes before it."""
    found: set[Op] = set()
    todo = list(p.request.results)
    while todo:
        op = todo.pop().producer()
        if op is not None and op is not p.contract and op not in found:
            found.add(op)
            todo += op.operands
    return found


class TiledProduct:
    """Writes the kernel of a product in tiles. Subclasses say how tiles lie in shared memory and how they are multiplied."""

    what = "product"

    def __init__(self, p: Product, tile: Tile, sink: Sink, slots: list[Slot], parts: int, types: list[TensorType | BufferType]):
        self.p, self.tile, self.sink, self.parts = p, tile, sink, parts
        self.m, self.n, self.k = p.count(p.row_letters), p.count(p.column_letters), p.count(p.contracted)
        self.tiles = (ceildiv(self.m, tile.rows), ceildiv(self.n, tile.columns))
        blocks = product([p.count(p.batch), *self.tiles])
        name = p.request.name(self.what if parts == 1 else f"{self.what}_parts")
        self.kernel = GridKernel(name, slots, types, (blocks, parts) if parts > 1 else (blocks,), (tile.threads,), p.contract.location)
        self.code: Code = self.kernel.code

    @property
    def stored(self) -> ScalarType:
        """The element type of the tiles in shared memory."""
        return element_type(self.p.contract.result.type)

    def build(self) -> Step:
        code, p, tile = self.code, self.p, self.tile
        self.thread = self.kernel.thread()
        *around, row, column = code.split(self.kernel.block_id(), [*p.shape(p.batch), *self.tiles])
        self.row0, self.column0 = code.mul(row, tile.rows), code.mul(column, tile.columns)
        self.part: Index = self.kernel.block_id(1) if self.parts > 1 else 0
        self.around = dict(zip(p.batch, [_position(x) for x in around], strict=True))
        lo: Index = 0
        hi: Index = self.k
        if self.parts > 1:
            steps = ceildiv(ceildiv(self.k, self.parts), tile.depth) * tile.depth
            lo = code.mul(self.part, steps)
            hi = code.min(code.add(lo, steps), self.k)
        buffers = self.kernel.buffers[: len(p.request.func.args)]
        args = p.request.func.args
        self.leaves = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in zip(args, buffers, strict=True)}
        left = self._filler(p.left, p.left_letters, p.row_letters, self.row0, self.m, tile.rows)
        right = self._filler(p.right, p.right_letters, p.column_letters, self.column0, self.n, tile.columns)
        with code.loop(lo, hi, self.zeros(), step=tile.depth, name="k") as loop:
            left.fill(loop.iv, hi)
            right.fill(loop.iv, hi)
            self.kernel.barrier()
            loop.next = self.multiply(left.board, right.board, loop.carried)
            self.kernel.barrier()
        self.write(loop.results)
        return self.kernel.finish()

    def _filler(self, value: Value, letters: str, along: list[str], start: Index, end: Dim, extent: int) -> Filler:
        return Filler(self, value, letters, along, start, end, extent)

    # --- how tiles lie in shared memory, and what is done with them

    def board_size(self, extent: int) -> int:
        return self.tile.depth * (extent + PADDING)

    def board_at(self, extent: int, along: Index, depth: Index) -> Index:
        """Where an element of a tile lies: steps of the depth one after another, each a line of rows or columns."""
        return self.code.add(self.code.mul(depth, extent + PADDING), along)

    def zeros(self) -> list[Value]:
        return [self.code.zero(sum_type(self.p), LANES) for _ in range(self.tile.tall * self.tile.wide // LANES)]

    def _mine(self) -> tuple[Index, Index]:
        """Which rows and columns of the tile are this thread's: fours from these on, as far apart as all threads' fours are wide."""
        across = self.tile.columns // self.tile.wide
        return self.code.mul(self.code.div(self.thread, across), LANES), self.code.mul(self.code.mod(self.thread, across), LANES)

    def multiply(self, left: Value, right: Value, sums: list[Value]) -> list[Value]:
        """All steps of a tile on the sums, row by row, in vectors of neighbouring columns."""
        code, tile = self.code, self.tile
        row, column = self._mine()
        align = min(16, LANES * self.stored.bytes)
        tall, wide = tile.tall // LANES, tile.wide // LANES
        sums = list(sums)
        for k in range(tile.depth):
            rows = [code.load(left, self.board_at(tile.rows, code.add(row, g * tile.rows // tall), k), LANES, align=align) for g in range(tall)]
            columns = [code.load(right, self.board_at(tile.columns, code.add(column, g * tile.columns // wide), k), LANES, align=align) for g in range(wide)]
            for i in range(tile.tall):
                one: Value = code.b(kernel.Extract, rows[i // LANES], lane=i % LANES)
                each = code.broadcast(one, LANES)
                for g in range(wide):
                    sums[i * wide + g] = code.fma(each, columns[g], sums[i * wide + g])
        return sums

    def write(self, sums: list[Value]) -> None:
        tile, code = self.tile, self.code
        row, column = self._mine()
        tall, wide = tile.tall // LANES, tile.wide // LANES
        for i in range(tile.tall):
            down = code.add(row, i // LANES * tile.rows // tall + i % LANES)
            for g in range(wide):
                self.write_vector(sums[i * wide + g], down, code.add(column, g * tile.columns // wide))

    def write_vector(self, values: Value, row: Index, column: Index) -> None:
        """Neighbouring columns of the tile: at once where the result has them side by side, else one by one."""
        code, p = self.code, self.p
        lanes = kernel.lanes_of(values.type)
        row, column = code.add(self.row0, row), code.add(self.column0, column)
        sized = [c for c in p.column_letters if p.sizes[c] != 1]
        if len(sized) == 1 and mod(self.n, lanes) == 0:
            self._write(values, row, column, lanes)
            return
        for i in range(lanes):
            one: Value = code.b(kernel.Extract, values, lane=i)
            self._write(one, row, code.add(column, i), 1)

    def _write(self, value: Value, row: Index, column: Index, lanes: int) -> None:
        code, p = self.code, self.p
        inside = both(code, code.condition("lt", row, self.m), code.condition("lt", column, self.n))
        with code.when(truth(code, inside)):
            places = dict(self.around)
            places[""] = _position(self.part)
            places.update(zip(p.row_letters, places_of(code, row, p.shape(p.row_letters)), strict=True))
            for letter, at in zip(p.column_letters, places_of(code, column, p.shape(p.column_letters)), strict=True):
                places[letter] = at.plus(code, Position(step=1)) if lanes > 1 and p.sizes[letter] != 1 else at
            self.sink(self.kernel, places, lambda at, lanes, mask: value, lanes)


class Filler:
    """Brings tiles of one operand into shared memory: `extent` of its rows (or columns) by the depth of a tile."""

    def __init__(self, made: TiledProduct, value: Value, letters: str, along: list[str], start: Index, end: Dim, extent: int):
        self.made, self.value, self.letters, self.along, self.extent = made, value, letters, along, extent
        code, tile = made.code, made.tile
        self.board = made.kernel.shared(made.board_size(extent), made.stored)
        access = trace(value, letters)
        # Neighbouring threads read neighbouring elements. A window has them along both ways; along rows each thread keeps the place of one alone.
        self.deep = all(access.stride(c) != 1 for c in along) and any(access.stride(c) == 1 for c in made.p.contracted)
        inner = tile.depth if self.deep else extent
        self.first, self.other = code.mod(made.thread, inner), code.div(made.thread, inner)
        self.apart = tile.threads // inner
        self.copies = extent * tile.depth // tile.threads
        self.places = []
        for i in range(1 if not self.deep else self.copies):
            at = code.add(start, self._along(i))
            self.places.append((places_of(code, at, made.p.shape(along)), code.condition("lt", at, end)))

    def _along(self, copy: int) -> Index:
        """Which row of the tile copy number `copy` of this thread takes."""
        return self.made.code.add(self.other, copy * self.apart) if self.deep else self.first

    def _depth(self, copy: int) -> Index:
        return self.first if self.deep else self.made.code.add(self.other, copy * self.apart)

    def fill(self, step: Value, end: Index) -> None:
        made, code, p = self.made, self.made.code, self.made.p
        emitter = ElementEmitter(code, made.leaves)
        for i in range(self.copies):
            depth = code.add(step, self._depth(i))
            at, valid = self.places[i if self.deep else 0]
            inside = both(code, valid, self._reaches(depth, end))
            places = {**made.around, **dict(zip(self.along, at, strict=True))}
            places.update(zip(p.contracted, places_of(code, depth, p.shape(p.contracted)), strict=True))
            guards = () if inside is True else (truth(code, inside),)
            element = convert(code, emitter.at(self.value, [places[c] for c in self.letters], 1, None, guards), made.stored)
            if guards:
                element = code.apply("select", guards[0], element, code.zero(made.stored))
            code.store(element, self.board, made.board_at(self.extent, self._along(i), self._depth(i)))

    def _reaches(self, depth: Index, end: Index) -> bool | Value:
        """Whether a step lies inside the depth: always, when whole tiles make it up."""
        if mod(self.made.k, self.made.tile.depth) == 0 and self.made.parts == 1:
            return True
        return self.made.code.condition("lt", depth, end)


def _position(x: Index) -> Position:
    return Position(terms=((x, 1),)) if isinstance(x, Value) else Position(x)
