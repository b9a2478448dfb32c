"""Matrix products: `tensor.contract` of any spec through register tiles.

The letters of a spec fall into batch, free and contracted ones. One operand gives the lanes (B, `right`): the one that has the result's last letter, so that
results are stored as they stand. The other one (A, `left`) gives scalars and is read where it stands, whatever its strides. All other letters become loops
around the tile, or further contracted axes inside of it.

B is read in one of these ways:

- *packed* into panels `[N/NR][K][NR]`: ahead of time when it is constant, by each task for itself in memory that stays in the second-level cache, or by a kernel of
  its own where sizes are only known at run time;
- *direct*, when lanes are neighbours in memory and there are too few rows to pay for packing;
- *dot*, when contracted elements are neighbours in both operands and rows are few: lanes then run over the contracted axis, and are added up at the end.

While a task computes with one panel it asks for the memory of the next one.

The work is split over panels and pieces of rows. Panels too deep for the second-level cache are taken in blocks, and the partial sums of a piece wait in
scratch memory. The order of additions depends on shapes alone, so results do not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.types import ScalarType, element_type, f32, f64
from polyreme.lowering.access import Access, row_major, trace
from polyreme.lowering.code import Code, Index
from polyreme.lowering.epilogue import Epilogue, follow, place
from polyreme.lowering.microkernel import (
    UNROLL,
    Accumulators,
    Axis,
    Beside,
    Registers,
    accumulate,
    choose_tile,
    cover,
    join_axes,
    rank_tiles,
    step_cycles,
    zeros,
)
from polyreme.lowering.packing import PanelFill, Panels, PlanParts
from polyreme.lowering.positions import Position
from polyreme.lowering.schedule import KernelPlan, Request, Slot, Step, operand, result

# A size that is only known at run time counts as this many when costs are compared.
TYPICAL = 64
# Fewer rows than this do not pay for a packing of B at run time: where lanes are neighbours, where they are and a panel stays in the second-level cache
# as it stands, and where lanes run over the contracted axis. A packing that is kept between runs pays sooner.
ROWS_WORTH_PACKING, ROWS_WORTH_PACKING_NEAR, ROWS_WORTH_PACKING_DOTS, ROWS_WORTH_KEEPING = 48, 130, 32, 16
# Lines that the second-level cache has for addresses which it takes for neighbours.
WAYS = 16
# Threads of other programs that call a library may have small stacks.
MOST_PANEL_BYTES = 256 << 10
# With fewer rows the contracted axis is not cut into blocks.
ROWS_WORTH_BLOCKS = 32
# A task packs the panels that it needs for itself when it has so many rows for each.
ROWS_WORTH_PACKING_TWICE = 48
# The most lines of memory that a round of steps asks for ahead.
MOST_PREFETCHED = 4
# The tile where lanes run over the contracted axis.
ROWS_OF_DOT, COLUMNS_OF_DOT = 4, 8
# Cycles of work below which another thread is not worth its waking.
GRAIN_CYCLES = 5000
# Rows of a piece when the contracted axis is cut into blocks, whose partial sums wait in scratch memory.
ROWS_OF_BLOCKS = 128
# A result is cut into about so many pieces for the threads, if each has this many cycles.
PIECES, PIECE_CYCLES = 16, 8000


@dataclass(frozen=True)
class Problem:
    """A contract to be computed: `left` gives scalars, `right` lanes; `lane` is the result's last letter."""

    request: Request
    contract: tensor.Contract
    epilogue: Epilogue
    sizes: dict[str, Dim]
    left: Access
    right: Access
    left_letters: str
    right_letters: str
    out: str
    right_is_b: bool = True

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.contract.result.type)

    @property
    def registers(self) -> Registers:
        return Registers.of(self.request.target, self.dtype)

    @cached_property
    def contracted(self) -> list[str]:
        return [c for c in self.left_letters if c in self.right_letters and c not in self.out]

    @cached_property
    def rows(self) -> list[str]:
        """Letters of the result that only the left operand has, in the result's order."""
        return [c for c in self.out if c in self.left_letters and c not in self.right_letters]

    @property
    def batch(self) -> list[str]:
        return [c for c in self.out if c in self.right_letters and c in self.left_letters]

    def flipped(self) -> Problem:
        """The same with the operands' parts exchanged."""
        return replace(
            self, left=self.right, right=self.left, left_letters=self.right_letters, right_letters=self.left_letters, right_is_b=not self.right_is_b
        )

    def size(self, letter: str) -> Dim:
        return self.sizes[letter]

    def axes(self, b_strides: dict[str, Dim]) -> list[Axis]:
        """The contracted axes, B moving by `b_strides`."""
        return join_axes([Axis(self.size(c), self.left.stride(c), b_strides[c]) for c in self.contracted])


def typical(dim: Dim) -> int:
    """A number to reckon with."""
    return dim if isinstance(dim, int) else TYPICAL


def find_problem(request: Request) -> Problem | None:
    """The only contract of a group of floats, whose results follow from it elementwise or by a pooling; else None."""
    contracts = request.ops(tensor.Contract)
    if len(contracts) != 1:
        return None
    contract = contracts[0]
    if element_type(contract.result.type) not in (f32, f64):
        return None
    if any(d == 0 for t in (contract.a.type, contract.b.type, contract.result.type) for d in t.shape):
        return None
    epilogue = follow(request, contract)
    if epilogue is None:
        return None
    spec = tensor.ContractSpec(contract.spec)
    sizes = spec.sizes(contract.a.type.shape, contract.b.type.shape)
    left, right = trace(contract.a, spec.a), trace(contract.b, spec.b)
    return Problem(request, contract, epilogue, sizes, left, right, spec.a, spec.b, spec.out)


def build_contract(request: Request) -> KernelPlan | None:
    """The plan of a group around a matrix product; None for any other group."""
    builder = _builder_of(request)
    return None if builder is None else builder.build()


def build_with_tile(request: Request, tile: tuple[int, int]) -> KernelPlan | None:
    """The same with a tile of so many rows and vectors, one of `tiles_of`."""
    builder = _builder_of(request)
    if builder is None:
        return None
    builder.tile = tile
    return builder.build()


def tiles_of(request: Request) -> tuple[tuple[int, int], ...]:
    """The tiles that a matrix product of known sizes may be computed with, the one that is thought to be the fastest first; none for other groups."""
    builder = _builder_of(request)
    if builder is None or not all(isinstance(d, int) for d in builder.p.sizes.values()):
        return ()
    return rank_tiles(typical(builder.m), typical(builder.n), typical(builder.k), builder.p.registers)


def _builder_of(request: Request) -> ProductBuilder | None:
    problem = find_problem(request)
    if problem is None or problem.epilogue.pools:
        return None
    last = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if last is None or last in problem.batch:
        return None
    return ProductBuilder(problem.flipped() if last in problem.rows else problem, last)


class ProductBuilder:
    """Makes the plan of one product: where B comes from, then the kernel over tiles."""

    def __init__(self, problem: Problem, lane: str):
        self.p, self.lane = problem, lane
        self.parts = PlanParts(problem.request)
        self.lanes = problem.registers.lanes
        self.strides = dict(zip(problem.out, row_major(tuple(problem.size(c) for c in problem.out)), strict=True))
        self.rows = self._joined_rows()
        self.m: Dim = product(problem.size(c) for c in self.rows)
        self.n = problem.size(lane)
        self.k = product(problem.size(c) for c in problem.contracted)
        around = [c for c in problem.out if c != lane and c not in self.rows and problem.size(c) != 1]
        # Letters that move B come first, so that neighbouring tasks share its panels.
        self.outer = sorted(around, key=lambda c: problem.right.stride(c) == 0)
        self.tile = choose_tile(typical(self.m), typical(self.n), typical(self.k), problem.registers)

    def _joined_rows(self) -> list[str]:
        """The row letters that make up one long axis, the last one of the result and those before it that join on both sides."""
        p = self.p
        rows = [c for c in p.rows if p.size(c) != 1]
        joined: list[str] = []
        for letter in reversed(rows):
            if joined:
                first = joined[0]
                if any(s[letter] != s[first] * p.size(first) for s in (p.left.strides, self.strides)):
                    break
            joined.insert(0, letter)
        return joined

    def build(self) -> KernelPlan:
        p, source = self.p, self.p.right.source
        left = self.parts.memory_of(p.left.source)
        constant = isinstance(source, BlockArgument) and source.index in p.request.constant
        dot = next((c for c in p.contracted if p.left.stride(c) == 1 and p.right.stride(c) == 1), None)
        # B may be read where it stands: along its lanes, or else along a contracted letter.
        unit = p.right.stride(self.lane) == 1
        in_place = not constant and (unit or (dot is not None and self.lanes > 1))
        along = None if unit else dot
        reuse = product([self.m, *(p.size(c) for c in self.outer if p.right.stride(c) == 0)])
        if isinstance(source, BlockArgument) and source.index in p.request.kept:
            worth = ROWS_WORTH_KEEPING
        elif not unit:
            worth = ROWS_WORTH_PACKING_DOTS
        else:
            worth = ROWS_WORTH_PACKING_NEAR if isinstance(reuse, int) and self._stays_near() else ROWS_WORTH_PACKING
        if in_place and isinstance(reuse, int) and reuse < worth:
            kernel = self._open("contract" if unit else "dot", [left, self.parts.memory_of(source)])
            self._read_in_place(kernel, along)
        else:
            self._read_panels(left, (reuse, worth) if in_place and not isinstance(reuse, int) else None, along)
        return self.parts.plan("contract")

    def _stays_near(self) -> bool:
        """Whether the lines of a panel stay in the second-level cache though they are as far apart as B's rows: far ones share few of its places."""
        p = self.p
        letters = [c for c in p.contracted if p.size(c) != 1]
        if len(letters) != 1 or not isinstance(self.k, int):
            return False
        stride = p.right.stride(letters[0])
        if not isinstance(stride, int) or self.k * self.tile[1] * self.lanes * p.dtype.bytes > self._room:
            return False
        period = p.request.target.caches[1] // WAYS
        places = period // gcd(stride * p.dtype.bytes, period)
        return self.k * 4 <= places * WAYS * 3

    def _read_panels(self, left: Slot, worth: tuple[Dim, int] | None, along: str | None) -> None:
        """From panels; in place where it shows at run time only that there are fewer rows than are `worth` a packing (how many there are, and the least)."""
        p = self.p
        _, vectors = self.tile
        outer = tuple(c for c in self.outer if p.right.stride(c) != 0)
        panels = Panels(outer, tuple(p.contracted), self.lane, vectors * self.lanes, p.sizes)
        if worth is None and self._packs_in_tasks(panels):
            self._tiles(self._open("contract", [left, self.parts.memory_of(p.right.source)]), panels, local=True)
            return
        value = p.contract.b if p.right_is_b else p.contract.a
        packed = self.parts.packed(value, p.right_letters, p.right, panels, worth)
        if worth is None:
            self._tiles(self._open("contract", [left, packed]), panels)
            return
        kernel = self._open("contract", [left, packed, self.parts.memory_of(p.right.source)])
        many = kernel.code.condition("ge", *worth)
        assert isinstance(many, Value)
        with kernel.code.when(many):
            self._tiles(kernel, panels)
        with kernel.code.when(many, then=False):
            self._read_in_place(replace(kernel, right=kernel.func.args[2]), along)

    def _packs_in_tasks(self, panels: Panels) -> bool:
        """Whether each task packs its panels into memory of its own, which stays in the second-level cache: B then is read once and never written back."""
        source, request = self.p.right.source, self.p.request
        if isinstance(source, BlockArgument) and source.index in request.constant | request.kept:
            return False
        sizes = [panels.sizes[c] for c in panels.contracted if panels.sizes[c] != 1]
        if not isinstance(panels.depth, int) or not isinstance(self.m, int):
            return False
        if panels.depth * panels.width * self.p.dtype.bytes > self._room and len(sizes) != 1:
            return False
        shared = any(self.p.right.stride(c) == 0 for c in self.outer)
        return self.m >= ROWS_WORTH_PACKING_TWICE or not shared

    @property
    def _room(self) -> int:
        """Bytes of a panel, or of a block of one, that leave room for rows of A in the second-level cache, and on the stack of a task that packs it."""
        return min(self.p.request.target.caches[1] // 4, MOST_PANEL_BYTES)

    def _read_in_place(self, kernel: _Kernel, along: str | None) -> None:
        if along is None:
            self._tiles(kernel, None)
        else:
            self._dots(kernel, along)

    # --- the kernel

    def _open(self, what: str, operands: list[Slot]) -> _Kernel:
        """A kernel on the operands (A, then B), what the epilogue reads, and the results: without ops, but for its `return`."""
        p = self.p
        slots = [*operands, *(operand(a.index) for a in p.epilogue.args), *(result(i) for i in range(len(p.epilogue.values)))]
        func = Func.empty(p.request.name(what), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location)
        self.parts.steps.append(Step(func, tuple(slots)))
        end = func.block.append(Return([]))
        code = Code(Builder(func.block, end, func.location))
        first, last = len(operands), len(operands) + len(p.epilogue.args)
        return _Kernel(func, code, func.args[0], func.args[1], dict(zip(p.epilogue.args, func.args[first:last], strict=True)), func.args[last:])

    def _depth(self, panels: Panels | None) -> int | None:
        """Steps of a block of a panel that has room in the second-level cache; None when a panel is such a block as a whole."""
        if panels is None or not isinstance(panels.depth, int) or typical(self.m) < ROWS_WORTH_BLOCKS:
            return None
        blocks = -(-panels.depth * panels.width * self.p.dtype.bytes // self._room)
        if blocks < 2 or len(self.p.axes(panels.strides)) != 1:
            return None
        return -(-panels.depth // blocks // UNROLL) * UNROLL

    def _row_pieces(self, rows: int, outer: int, most: int | None, local: bool) -> tuple[Dim, int | None]:
        """How many pieces the rows are cut into for the threads, and how many rows each has (None: all of them); `most` if that is given. `local` panels
        are packed for each piece anew."""
        cycles = typical(self.m) * -(-typical(self.n) // self.lanes) * typical(self.k) * outer / 2
        wanted = min(-(-PIECES // max(outer, 1)), int(cycles / PIECE_CYCLES / max(outer, 1)))
        if local:
            wanted = min(wanted, typical(self.m) // ROWS_OF_BLOCKS)
        if most is not None:
            wanted = max(wanted, -(-typical(self.m) // most))
        if not isinstance(self.m, int):
            piece = -(-TYPICAL // rows) * rows
            return ceildiv(self.m, piece), piece
        if wanted <= 1:
            return 1, None
        piece = -(-self.m // (wanted * rows)) * rows
        return (1, None) if piece >= self.m else (-(-self.m // piece), piece)

    def _tiles(self, kernel: _Kernel, panels: Panels | None, local: bool = False) -> None:
        """Tiles of all rows and lanes, B read from `panels` or in place; the panels are made by each task when they are `local`."""
        p, code = self.p, kernel.code
        rows, vectors = self.tile
        width = vectors * self.lanes
        blocks = ceildiv(self.n, width)
        sizes = [p.size(c) for c in self.outer]
        depth = self._depth(panels)
        pieces, piece = self._row_pieces(rows, typical(product(sizes)) * typical(blocks), None if depth is None else ROWS_OF_BLOCKS * (1 + local), local)
        per_task = typical(piece or self.m) * step_cycles(rows, vectors) / rows * typical(self.k)
        grain = max(1, int(GRAIN_CYCLES / max(per_task, 1)))
        with code.parallel(code.value(product(sizes) * blocks * pieces), grain=grain, name="task") as task:
            *around, block, part = code.split(task, [*sizes, blocks, pieces])
            tile = _Tile(self, kernel, dict(zip(self.outer, around, strict=True)), block, panels, vectors, local)
            if depth is not None:
                tile.blocks = _Blocks(depth, piece or typical(self.m), width)
            if local:
                assert panels is not None and isinstance(panels.depth, int)
                tile.local = code.scratch((depth or panels.depth) * width, p.dtype)
            first: Index = 0
            count: Index = self.m
            if piece is not None:
                first = code.mul(part, piece)
                count = piece if isinstance(self.m, int) and self.m % piece == 0 else code.min(piece, code.sub(self.m, first))
            full = self.n // width if isinstance(self.n, int) else None
            left_over = self.n % width if isinstance(self.n, int) else None
            if left_over == 0:
                tile.cover(first, count, self._row_sizes(rows), vectors, None)
            elif full == 0:
                tile.cover(first, count, self._row_sizes(rows), -(-typical(self.n) // self.lanes), self.n)
            else:
                inside = code.condition("le", code.mul(code.add(block, 1), width), self.n)
                assert isinstance(inside, Value)
                with code.when(inside):
                    tile.cover(first, count, self._row_sizes(rows), vectors, None)
                with code.when(inside, then=False):
                    if left_over is None:
                        tile.cover(first, count, self._row_sizes(rows), vectors, code.sub(self.n, code.mul(block, width)))
                    else:
                        tile.cover(first, count, self._row_sizes(rows), -(-left_over // self.lanes), left_over)

    def _row_sizes(self, rows: int) -> list[int]:
        """Tiles by rows that cover any piece: whole ones, then the one rest that a known size leaves, or powers of two for one that is not known."""
        if isinstance(self.m, int):
            return [rows, self.m % rows] if self.m % rows else [rows]
        sizes = [rows]
        while sizes[-1] > 1:
            sizes.append(1 << (sizes[-1] - 1).bit_length() - 1)
        return sizes

    # --- lanes along the contracted axis

    def _dots(self, kernel: _Kernel, dot: str) -> None:
        p, code = self.p, kernel.code
        rows = min(self.m, ROWS_OF_DOT) if isinstance(self.m, int) else ROWS_OF_DOT
        columns = min(self.n, p.registers.accumulators // rows, COLUMNS_OF_DOT) if isinstance(self.n, int) else 1
        sizes = [p.size(c) for c in self.outer]
        axes = join_axes([Axis(p.size(c), p.left.stride(c), p.right.stride(c)) for c in p.contracted if c != dot])
        per_task = typical(self.m) * columns * typical(self.k) / self.lanes / 2
        blocks = ceildiv(self.n, columns)
        with code.parallel(code.value(product(sizes) * blocks), grain=max(1, int(GRAIN_CYCLES / max(per_task, 1))), name="task") as task:
            *around, block = code.split(task, [*sizes, blocks])
            tile = _Tile(self, kernel, dict(zip(self.outer, around, strict=True)), 0, None, 1)
            first = code.mul(block, columns)

            def sums(columns: int) -> None:
                cover(code, self.m, self._row_sizes(rows), lambda row, count: tile.dot(row, count, first, columns, axes, dot))

            rest = self.n % columns if isinstance(self.n, int) else 0
            if not rest:
                sums(columns)
            else:
                whole = code.condition("lt", block, self.n // columns)
                assert isinstance(whole, Value)
                with code.when(whole):
                    sums(columns)
                with code.when(whole, then=False):
                    sums(rest)


@dataclass
class _Kernel:
    """A kernel being written, and its arguments."""

    func: Func
    code: Code
    left: Value
    right: Value
    buffers: dict[Value, Value]
    outputs: list[Value]


@dataclass(frozen=True)
class _Blocks:
    """The contracted axis in blocks of `depth` steps; the partial sums of up to `rows` rows of `width` lanes wait in scratch memory."""

    depth: int
    rows: int
    width: int


@dataclass(frozen=True)
class _Ahead:
    """Lines of memory that are needed next: `inner` neighbours `step` elements apart, then the same again `stride` elements further on, `lines` in all."""

    buffer: Value
    at: Index
    lines: int
    inner: int
    step: Dim
    stride: Dim

    def prefetch(self, code: Code, line: Index) -> None:
        """Ask for a line, for the second-level cache."""
        outer = code.div(line, self.inner)
        inner = code.sub(line, code.mul(outer, self.inner))
        code.prefetch(self.buffer, code.add(self.at, code.mul(inner, self.step), code.mul(outer, self.stride)), locality=2)


@dataclass(frozen=True)
class _Steps:
    """Steps over contracted `axes`, from `left` elements further on in A and from position `at` of the buffer `right`, which holds B."""

    right: Value
    left: Index
    at: Index
    axes: list[Axis]
    ahead: _Ahead | None = None


class _Tile:
    """Writes the tiles of one task: a block of lanes at one place of the outer letters."""

    def __init__(
        self, builder: ProductBuilder, kernel: _Kernel, around: dict[str, Index], block: Index, panels: Panels | None, vectors: int, local: bool = False
    ):
        self.builder, self.p, self.kernel, self.code = builder, builder.p, kernel, kernel.code
        self.around, self.panels = around, panels
        self.blocks: _Blocks | None = None
        self.local: Value | None = None
        code, p = self.code, builder.p
        self.lane0 = code.mul(block, vectors * builder.lanes)
        self.left0 = code.add(p.left.base, *(code.mul(i, p.left.stride(c)) for c, i in around.items()))
        if panels is None or local:
            moved = code.add(p.right.base, *(code.mul(i, p.right.stride(c)) for c, i in around.items()))
            self.right0 = code.add(moved, code.mul(self.lane0, p.right.stride(builder.lane)))
            self.moves = {c: p.right.stride(c) for c in p.contracted}
        else:
            strides = panels.strides
            outer = code.add(0, *(code.mul(i, strides[c]) for c, i in around.items() if c in strides))
            self.right0 = code.add(outer, code.mul(block, panels.panel_size))
            self.moves = {c: strides[c] for c in p.contracted}
        self.out0 = code.add(0, *(code.mul(i, builder.strides[c]) for c, i in around.items()))
        last = builder.rows[-1] if builder.rows else None
        self.row_left: Dim = p.left.stride(last) if last else 0
        self.row_out: Dim = builder.strides[last] if last else 0

    def cover(self, first: Index, count: Index, sizes: list[int], vectors: int, valid: Index | None) -> None:
        """The rows from `first` on, by tiles of `sizes` rows; `valid` lanes exist (None: all)."""
        code, blocks = self.code, self.blocks
        if blocks is None:
            steps = self.steps(vectors, valid)
            cover(code, count, sizes, lambda at, rows: self.compute(code.add(first, at), rows, vectors, valid, steps, self.beside(at, rows, sizes[0], count, steps)))
            return
        assert self.panels is not None and isinstance(self.panels.depth, int)
        sums = code.scratch(blocks.rows * blocks.width, self.p.dtype)
        lanes = self.builder.lanes
        zero = code.zero(self.p.dtype, lanes)
        with code.loop(0, blocks.rows * blocks.width, step=lanes, name="clear") as clear:
            code.store(zero, sums, clear.iv, None, lanes * self.p.dtype.bytes)
        whole = -(-self.panels.depth // blocks.depth) - 1
        with code.loop(0, whole, name="block") as loop:
            steps = self.steps(vectors, valid, code.mul(loop.iv, blocks.depth), blocks.depth)

            def partial(at: Index, rows: int) -> None:
                acc = self.sums(code.add(first, at), rows, vectors, valid, self.saved(sums, at, rows, vectors), steps, self.beside(at, rows, sizes[0], count, steps))
                for r, line in enumerate(acc):
                    for v, value in enumerate(line):
                        code.store(value, sums, self._saved_at(at, r, v), None, lanes * self.p.dtype.bytes)

            cover(code, count, sizes, partial)
        done = whole * blocks.depth
        rest = self.steps(vectors, valid, done, self.panels.depth - done)

        def last(at: Index, rows: int) -> None:
            row = code.add(first, at)
            acc = self.sums(row, rows, vectors, valid, self.saved(sums, at, rows, vectors), rest, self.beside(at, rows, sizes[0], count, rest))
            self.close(row, acc, valid)

        cover(code, count, sizes, last)

    def steps(self, vectors: int, valid: Index | None, start: Index = 0, depth: int | None = None) -> _Steps:
        """All steps, or the `depth` ones from `start` on; what they read of B is packed first where this is the task's to do."""
        code, p = self.code, self.p
        if self.local is None:
            axes, at = p.axes(self.moves), self.right0
            if depth is None:
                return _Steps(self.kernel.right, 0, at, axes, self.ahead(at))
            (axis,) = axes
            at = code.add(at, code.mul(start, axis.b))
            return _Steps(self.kernel.right, code.mul(start, axis.a), at, [Axis(depth, axis.a, axis.b)], self.ahead(at, depth))
        assert self.panels is not None
        at, sizes = self.right0, dict(self.panels.sizes)
        left: Index = 0
        if depth is not None:
            (letter,) = (c for c in p.contracted if p.size(c) != 1)
            at, left = code.add(at, code.mul(start, p.right.stride(letter))), code.mul(start, p.left.stride(letter))
            sizes[letter] = depth
        width = vectors * self.builder.lanes
        panel = Panels((), tuple(p.contracted), self.builder.lane, width, sizes)
        PanelFill(code, p.right, panel, self.kernel.right, self.local, self.builder.lanes).fill(at, 0, width if valid is None else valid)
        moves = panel.strides
        axes = join_axes([Axis(sizes[c], p.left.stride(c), moves[c]) for c in p.contracted])
        return _Steps(self.local, left, 0, axes, self.ahead_in_place(at, depth, start))

    def ahead(self, at: Index, depth: int | None = None) -> _Ahead | None:
        """What follows a panel, or a block of `depth` steps, at position `at` of packed panels: the next one."""
        panels = self.panels
        if panels is None or not isinstance(panels.depth, int):
            return None
        size = (depth or panels.depth) * panels.width
        line = self.p.request.target.line_bytes // self.p.dtype.bytes
        return _Ahead(self.kernel.right, self.code.add(at, size), -(-size // line), 1, 0, line)

    def ahead_in_place(self, at: Index, depth: int | None, start: Index) -> _Ahead | None:
        """The same for a panel that is packed from position `at` on: the next block of this panel, or the first one of the next panel."""
        code, p, panels = self.code, self.p, self.panels
        letters = [c for c in p.contracted if p.size(c) != 1]
        assert panels is not None and isinstance(panels.depth, int)
        if len(letters) != 1:
            return None
        along, across = p.right.stride(letters[0]), p.right.stride(self.builder.lane)
        size = depth or panels.depth
        if isinstance(start, Value):
            at = code.add(at, code.mul(size, along))
        else:
            # The last block is followed by the first one of the next panel.
            at = code.add(at, code.mul(across, panels.width), code.mul(-start, along))
        line = p.request.target.line_bytes // p.dtype.bytes
        if across == 1:
            in_a_step = -(-panels.width // line)
            return _Ahead(self.kernel.right, at, size * in_a_step, in_a_step, line, along)
        if along == 1:
            return _Ahead(self.kernel.right, at, -(-size // line) * panels.width, panels.width, across, line)
        return None

    def _saved_at(self, row: Index, r: int, v: int) -> Index:
        assert self.blocks is not None
        return self.code.add(self.code.mul(row, self.blocks.width), r * self.blocks.width + v * self.builder.lanes)

    def saved(self, sums: Value, row: Index, rows: int, vectors: int) -> Accumulators:
        """The partial sums of a tile."""
        lanes, align = self.builder.lanes, self.builder.lanes * self.p.dtype.bytes
        return [[self.code.load(sums, self._saved_at(row, r, v), lanes, None, align) for v in range(vectors)] for r in range(rows)]

    def compute(self, row: Index, rows: int, vectors: int, valid: Index | None, steps: _Steps, beside: Beside | None) -> None:
        """One tile, from beginning to end."""
        self.prefetch_results(row, rows, vectors)
        fresh = zeros(self.code, rows, vectors, self.p.dtype, self.builder.lanes)
        self.close(row, self.sums(row, rows, vectors, valid, fresh, steps, beside), valid)

    def prefetch_results(self, row: Index, rows: int, vectors: int) -> None:
        """Where memory is read at the places of the results, ask for it and for theirs."""
        code, p, epilogue = self.code, self.p, self.p.epilogue
        line = p.request.target.line_bytes // p.dtype.bytes
        read = [self.kernel.buffers[a] for a in epilogue.args if a.type.shape == epilogue.shape]
        if not read:
            return
        at = code.add(self.out0, code.mul(row, self.row_out), self.lane0)
        for r in range(rows):
            for lane in range(0, vectors * self.builder.lanes, line):
                here = code.add(at, r * self.row_out + lane)
                for buffer in (*read, *self.kernel.outputs):
                    code.prefetch(buffer, here, write=buffer in self.kernel.outputs)

    def beside(self, at: Index, rows: int, whole: int, count: Index, steps: _Steps) -> Beside | None:
        """What the tile that begins `at` of `count` rows prefetches in each of its rounds: its share of what is needed after all tiles of `whole` rows."""
        code, ahead = self.code, steps.ahead
        depth = steps.axes[0].size if len(steps.axes) == 1 else None
        if ahead is None or rows != whole or not isinstance(depth, int) or depth < 8 * UNROLL:
            return None
        rounds = depth // UNROLL
        tiles = (typical(self.builder.m) if isinstance(count, Value) else count) // whole
        each = min(-(-ahead.lines // (tiles * rounds)), MOST_PREFETCHED)
        first = code.mul(code.div(at, whole), rounds * each)

        def prefetch(turn: Value) -> None:
            line = code.add(first, code.mul(turn, each))
            for i in range(each):
                ahead.prefetch(code, code.add(line, i))

        return prefetch

    def sums(
        self, row: Index, rows: int, vectors: int, valid: Index | None, acc: Accumulators, steps: _Steps, beside: Beside | None = None
    ) -> Accumulators:
        """The accumulators after `steps`."""
        code, p, lanes = self.code, self.p, self.builder.lanes
        masks = self._masks(vectors, valid)
        align = lanes * p.dtype.bytes if self.panels is not None else None

        def read_left(r: int, at: Index) -> Value:
            return code.broadcast(code.load(self.kernel.left, code.add(at, r * self.row_left)), lanes)

        def read_right(v: int, at: Index) -> Value:
            mask = masks[v] if self.panels is None else None
            return code.load(steps.right, code.add(at, v * lanes), lanes, mask, align)

        left = code.add(self.left0, code.mul(row, self.row_left), steps.left)
        return accumulate(code, steps.axes, read_left, read_right, acc, left, steps.at, beside)

    def _masks(self, vectors: int, valid: Index | None) -> list[Value | None]:
        code, lanes = self.code, self.builder.lanes
        return [None if valid is None else code.lane_mask(code.sub(valid, v * lanes), lanes) for v in range(vectors)]

    def close(self, row: Index, acc: Accumulators, valid: Index | None) -> None:
        """The results of a tile from its sums."""
        lanes = self.builder.lanes
        masks = self._masks(len(acc[0]), valid)
        self.finish(row, [[(x, v * lanes, masks[v]) for v, x in enumerate(line)] for line in acc], self.lane0, lanes)

    def dot(self, row: Index, rows: int, first: Index, columns: int, axes: list[Axis], dot: str) -> None:
        """A tile of `rows` x `columns` sums, each of whose lanes adds up every so-many-th product."""
        code, p, lanes, k = self.code, self.p, self.builder.lanes, self.p.size(dot)
        step = p.right.stride(self.builder.lane)
        left = code.add(self.left0, code.mul(row, self.row_left))
        right = code.add(self.right0, code.mul(first, step))

        def readers(mask: Value | None) -> tuple[object, object]:
            return (
                lambda r, at: code.load(self.kernel.left, code.add(at, r * self.row_left), lanes, mask),
                lambda v, at: code.load(self.kernel.right, code.add(at, code.mul(v, step)), lanes, mask),
            )

        acc = zeros(code, rows, columns, p.dtype, lanes)
        whole = code.div(k, lanes)
        assert not isinstance(whole, Value)
        if whole != 0:
            acc = accumulate(code, [*axes, Axis(whole, lanes, lanes)], *readers(None), acc, left, right)  # type: ignore[arg-type]
        done = code.mul(whole, lanes)
        rest = code.sub(k, done)
        if rest != 0:
            mask = code.lane_mask(rest, lanes)
            acc = accumulate(code, axes, *readers(mask), acc, code.add(left, done), code.add(right, done))  # type: ignore[arg-type]
        self.finish(row, [[(code.reduce(x), c, None) for c, x in enumerate(line)] for line in acc], first, 1)

    def finish(self, row: Index, acc: list[list[tuple[Value, int, Value | None]]], lane0: Index, lanes: int) -> None:
        """Make the results of a tile from its sums, each given with its lane and mask, and store them."""
        builder, code, p = self.builder, self.code, self.p
        current: list[Value] = []

        def leaf(places: tuple[Position, ...], _lanes: int, _mask: Value | None) -> Value:
            return current[0]

        leaf.varies = lanes > 1  # type: ignore[attr-defined]
        emitter = p.epilogue.emitter(code, self.kernel.buffers, leaf)
        out = code.add(self.out0, code.mul(row, self.row_out), lane0)
        sizes = [p.size(c) for c in builder.rows]
        for r, line in enumerate(acc):
            if len(sizes) > 1:
                at = dict(zip(builder.rows, (place(x) for x in code.split(code.add(row, r), sizes)), strict=True))
            else:
                at = {c: place(row, r) for c in builder.rows}
            at.update({c: place(i) for c, i in self.around.items()})
            for sums, lane, mask in line:
                current[:] = [sums]
                at[builder.lane] = place(lane0, lane, int(lanes > 1))
                places = [at.get(c, Position()) for c in p.out]
                for value, buffer in zip(p.epilogue.values, self.kernel.outputs, strict=True):
                    made = emitter.at(value, places, lanes, mask)
                    code.store(made, buffer, code.add(out, r * self.row_out + lane), mask)
