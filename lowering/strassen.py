"""Large matrix products by Strassen's algorithm and its like: fewer products of parts than the plain way takes, at the price of larger rounding errors.

Rows, steps and lanes are cut into two or three parts each, as a scheme of `schemes.py` says, or by two schemes one inside of the other: "halves" makes 7 products of parts in place of 8,
"thirds" and "thirds of rows" 15 in place of 18, "quarters" 49 in place of 64. The parts of the lanes are neighbouring panels. So a task makes its part of all
products from beginning to end, and needs no memory but its own:

1. A kernel of its own writes the combinations of A, once for all tasks.
2. A task takes the combinations of a few panels of B, which were packed ahead, one after another: the register tile multiplies them by its rows of A's, and the
   sums wait in the second-level cache. Long sums are cut into blocks of steps.
3. It adds them up, a row of each part at a time, computes what follows and stores it.

How many rows there are need not be known. Then it shows at run time whether there are enough of them for all of that. Few rows are not cut into parts: those products of a scheme that
are enough for one part of rows (`Scheme.few`) are as much work as the direct way makes of them, and read as many of the same packed weights.

Sizes that do not fit are filled up with zeros. A result is within `ACCURACY` of the exact one, where the magnitude is what the scheme (of few rows, where they are) gives for magnitudes,
with plus for every minus. That is more than the product of the magnitudes: a row that is small beside its partner half of the rows away loses digits, as does a column, or a step whose
partner in another part of the steps is large; and one infinity, or nan, spoils the partners too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from polyreme.dialects import kernel, tensor
from polyreme.ir import config, dims
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type, f32
from polyreme.lowering.code import Code, Index
from polyreme.lowering.epilogue import place
from polyreme.lowering.microkernel import (
    UNROLL,
    Accumulators,
    Axis,
    Beside,
    accumulate,
    choose_tile,
    cover,
    cover_any,
    split_extent,
    step_cycles,
    zeros,
)
from polyreme.lowering.packing import PlanParts, copied_views
from polyreme.lowering.positions import Position
from polyreme.lowering.problem import GRAIN_CYCLES, Product, find_product
from polyreme.lowering.schedule import KernelPlan, Pack, Request, Slot, Step, operand, pack, result
from polyreme.lowering.schemes import BY_THIRDS, STRASSEN, Scheme, combine, places
from polyreme.lowering.sweep import estimate

ACCURACY = Accuracy(ulp=0.5, summed=1.0)
"""See the module for the magnitude."""

WAYS: dict[str, tuple[Scheme, ...]] = {"halves": (STRASSEN,), "thirds": (BY_THIRDS,), "thirds of rows": (BY_THIRDS.turned,), "quarters": (STRASSEN, STRASSEN)}
"""By name, the schemes that parts are multiplied by, the outermost first."""

# What is estimated, with a little too much caution, must be this much faster than the direct way.
ADVANTAGE = 0.965
# Cycles per element: of combinations of A, the least, and what is added to it the more of the third-level cache they and the weights take; of sums of the products. Bytes per cycle from memory,
# and how much of the time that loading takes is not hidden behind arithmetic: of weights the first time, and of what comes from the third-level cache, which are weights for further
# pieces of the rows and A's combinations for each group of panels.
COMBINE_NEAR, COMBINE_FAR, FINISH = 0.12, 0.7, 0.1
MEMORY_BYTES, LOADING_SHOWS, LOADING_AGAIN_SHOWS = 10, 0.2, 0.05
# Bytes of a panel of B for one product, and of the sums of a task, which are on its stack; and the part of the second-level cache, 1 / so much, that either takes at most.
PANEL_BYTES, SUMS_BYTES, CACHE_SHARE = 160 << 10, 320 << 10, 3
# Parts of the third-level cache, 1 / so many each: packed weights of two levels, of which there are three times as many as before, stay in one between runs; the
# combinations of A, which are read for each group of panels, fit into the other.
KEPT_NEAR, COMBINED_NEAR = 6, 3
# Vectors between A's combinations, to keep them from each other's sets of the cache.
APART = 5
# What an unknown number of rows is planned for, at most; and rows of a part in whose time all of the next panel has been asked for.
USUAL_ROWS, FEWEST_ROWS = 128, 16


def build_strassen(request: Request) -> KernelPlan | None:
    """The plan of a group around a large product of float32 matrices, B known ahead; None for any other, where the direct way is estimated to be as fast, and
    where the target or `POLYREME_STRASSEN` forbids it."""
    if not request.target.strassen or not config.strassen():
        return None
    found = find_matrices(request)
    if found is None:
        return None
    if isinstance(found.m, int):
        known, possible = found, cuts(found)
    else:
        known = replace(found, m=min(estimate(found.m, USUAL_ROWS), USUAL_ROWS))
        possible = (cut for cut in cuts(known) if all(s.few is not None for s in cut.schemes) and len(cut.schemes) == 1 and cut.rows % 2 == 0)
    fitting = [cut for cut in possible if cut.is_near]
    if any(cut.schemes == WAYS["thirds"] for cut in fitting):
        # Thirds of rows have half as many weights more: they are for where the combinations of A would be too many otherwise.
        fitting = [cut for cut in fitting if cut.schemes != WAYS["thirds of rows"]]
    best = min(fitting, key=lambda cut: (known is not found and not cut.halves, cut.cycles), default=None)
    if best is None or best.cycles > ADVANTAGE * known.direct_cycles:
        return None
    return StrassenBuilder(best if known is found else for_any_rows(best, found.m)).build()


@dataclass(frozen=True)
class Matrices:
    """A product of a matrix of m rows and k steps, the steps being neighbours in memory, and one of n lanes that is packed ahead. Estimates are for a known m."""

    product: Product
    m: Dim
    k: int
    n: int
    step: str

    @property
    def direct_cycles(self) -> float:
        """An estimate for the product as it stands."""
        assert isinstance(self.m, int)
        lanes, n = self.product.lanes, -(-self.n // self.product.lanes)
        rows, vectors = choose_tile(self.m, self.n, self.k, self.product.problem.registers)
        tiles = sum(
            across * down * (self.k * step_cycles(r, v) + 20 + 1.5 * r * v) for v, across in split_extent(n, vectors) for r, down in split_extent(self.m, rows)
        )
        return tiles + LOADING_SHOWS * self.k * n * lanes * f32.bytes / MEMORY_BYTES


def find_matrices(request: Request) -> Matrices | None:
    """The product of a group, if it is one that this file knows how to make."""
    found = find_product(request)
    if found is None or found.problem.dtype != f32 or found.lanes == 1 or found.outer:
        return None
    p, source = found.problem, found.problem.right.source
    if not isinstance(source, BlockArgument) or source.index not in request.constant or any(element_type(x.type) != f32 for x in (source, p.left.source)):
        return None
    steps = [c for c in p.contracted if p.size(c) != 1]
    if len(steps) != 1 or p.left.stride(steps[0]) != 1:
        return None
    if not isinstance(found.k, int) or not isinstance(found.n, int):
        return None
    return Matrices(found, found.m, found.k, found.n, steps[0])


@dataclass(frozen=True)
class Cut:
    """How the work is cut: into parts by `schemes`, register tiles of `rows` x `vectors`, `piece` rows of each part to a task, `blocks` blocks of steps. An unknown number
    of rows is cut so where it is within `enough`, both ends included; else by `of_few`."""

    matrices: Matrices
    schemes: tuple[Scheme, ...]
    rows: int
    vectors: int
    piece: int
    blocks: int
    enough: tuple[int, int] = (0, 0)

    @property
    def of_few(self) -> Cut:
        """The same for rows that stay in one part, as many to a task as the memory for sums holds."""
        few = tuple(s.few for s in self.schemes if s.few is not None)
        return replace(self, schemes=few, piece=self.piece * self.products // prod(s.products for s in few) // self.rows * self.rows)

    @property
    def products(self) -> int:
        return prod(s.products for s in self.schemes)

    @property
    def down(self) -> int:
        """Parts of the rows."""
        return prod(s.rows for s in self.schemes)

    @property
    def along(self) -> int:
        """Parts of the steps."""
        return prod(s.steps for s in self.schemes)

    @property
    def across(self) -> int:
        """Parts of the lanes."""
        return prod(s.lanes for s in self.schemes)

    @property
    def left_parts(self) -> list[tuple[int, int]]:
        return places([(s.rows, s.steps) for s in self.schemes])

    @property
    def right_parts(self) -> list[tuple[int, int]]:
        return places([(s.steps, s.lanes) for s in self.schemes])

    @property
    def result_parts(self) -> list[tuple[int, int]]:
        return places([(s.rows, s.lanes) for s in self.schemes])

    @property
    def lanes(self) -> int:
        return self.matrices.product.lanes

    @property
    def width(self) -> int:
        """Lanes of a panel."""
        return self.vectors * self.lanes

    @property
    def height(self) -> Dim:
        """Rows of a part."""
        return dims.ceildiv(self.matrices.m, self.down)

    @property
    def depth(self) -> int:
        """Steps of a block."""
        return -(-self.matrices.k // (self.along * self.blocks * UNROLL)) * UNROLL

    @property
    def steps(self) -> int:
        """Steps of a part."""
        return self.depth * self.blocks

    @property
    def line(self) -> int:
        """Elements of a row of A's combinations: a vector more than needed, so that rows do not meet in the same set of the cache."""
        return (-(-self.steps // self.lanes) + 1) * self.lanes

    @property
    def matrix(self) -> Dim:
        """Elements from one of A's combinations to the next, of which the last piece may compute some more rows than there are."""
        rows = self.pieces * self.piece if isinstance(self.matrices.m, int) else self.height + self.rows
        return rows * self.line + APART * self.lanes

    @property
    def combined(self) -> Dim:
        """Elements of A's combinations."""
        whole = self.products * self.matrix
        return whole if isinstance(self.matrices.m, int) else dims.maximum(whole, self.of_few.products * self.of_few.matrix)

    @property
    def plane(self) -> int:
        """Elements from the sums of one product to the next one's."""
        return self.piece * self.width + self.lanes

    @property
    def groups(self) -> int:
        """Groups of neighbouring panels, one for each part."""
        return -(-self.matrices.n // (self.across * self.width))

    @property
    def pieces(self) -> int:
        assert isinstance(self.height, int)
        return -(-self.height // self.piece)

    @property
    def panel(self) -> int:
        """Elements of a block of a panel for one product."""
        return self.depth * self.width

    @property
    def weight_elements(self) -> int:
        return self.groups * self.blocks * self.products * self.panel

    @property
    def halves(self) -> bool:
        """Whether two tiles of half as many rows take no longer than one."""
        return 2 * step_cycles(self.rows // 2, self.vectors) <= step_cycles(self.rows, self.vectors)

    @property
    def most_rows(self) -> int:
        """Rows of a part whose sums fit into the second-level cache."""
        room = min(SUMS_BYTES, self.matrices.product.problem.request.target.caches[1] // CACHE_SHARE)
        return max(1, room // (self.products * self.width * f32.bytes))

    @property
    def is_near(self) -> bool:
        """Whether the combinations of A stay in the third-level cache, and those of B where they are many."""
        third, combined = self.matrices.product.problem.request.target.caches[2], self.combined
        assert isinstance(combined, int)
        return (len(self.schemes) == 1 or self.weight_elements * f32.bytes <= third // KEPT_NEAR) and combined * f32.bytes <= third // COMBINED_NEAR

    @cached_property
    def cycles(self) -> float:
        """An estimate on one thread."""
        combined = self.combined
        assert isinstance(self.height, int) and isinstance(combined, int)
        target = self.matrices.product.problem.request.target
        tiles = sum(n * (self.depth * step_cycles(r, self.vectors) + 20 + 3 * r * self.vectors) for r, n in split_extent(self.piece, self.rows))
        products = self.groups * self.pieces * self.blocks * self.products * tiles
        combining = combined * (COMBINE_NEAR + COMBINE_FAR * min((combined + self.weight_elements) * f32.bytes / target.caches[2], 1))
        adding = self.products * self.height * self.groups * self.width * FINISH
        again = self.weight_elements * (self.pieces - 1) + combined * self.groups
        loading = (LOADING_SHOWS * self.weight_elements + LOADING_AGAIN_SHOWS * again) * f32.bytes / MEMORY_BYTES
        return products + combining + adding + loading


def cuts(matrices: Matrices, ways: Iterable[tuple[Scheme, ...]] = tuple(WAYS.values())) -> Iterator[Cut]:
    """Ways to cut the work whose panels and sums fit into the second-level cache."""
    target, registers = matrices.product.problem.request.target, matrices.product.problem.registers
    room = target.caches[1] // CACHE_SHARE
    for schemes in ways:
        for vectors in range(1, 5):
            for rows in range(1, registers.accumulators // vectors + 1):
                if rows * vectors + vectors + 1 > registers.count:
                    continue
                one = Cut(matrices, schemes, rows, vectors, 1, 1)
                blocks = -(-one.steps * one.width * f32.bytes // min(PANEL_BYTES, room))
                assert isinstance(one.height, int)
                pieces = -(-one.height // one.most_rows)
                yield Cut(matrices, schemes, rows, vectors, -(-one.height // pieces), blocks)


def for_any_rows(cut: Cut, m: Dim) -> Cut:
    """The same for an unknown number of rows, of which `cut` has a usual one."""
    known = cut.matrices
    assert isinstance(known.m, int)

    def gains(rows: int) -> bool:
        sized = replace(cut, matrices=replace(known, m=rows), piece=min(cut.most_rows, -(-rows // cut.down)))
        return sized.cycles < sized.matrices.direct_cycles

    least = next((rows for rows in range(8, known.m, 8) if gains(rows)), known.m)
    most = known.product.problem.request.target.caches[2] // (COMBINED_NEAR * f32.bytes * cut.products * cut.line) * cut.down
    return replace(cut, matrices=replace(known, m=m), piece=max(1, cut.most_rows // cut.rows) * cut.rows, enough=(least, most))


@dataclass(frozen=True)
class Rows:
    """What depends on the number of rows, in a kernel: whether it is `enough` (None: there is nothing to ask), how many products that makes and the first one's number, rows of a
    part, pieces that these are cut into and rows of one, and the distances from one of A's combinations to the next and from the sums of one product to the next one's."""

    code: Code
    cut: Cut
    enough: Value | None
    products: Index
    first: Index
    height: Index
    pieces: Index
    piece: Index
    matrix: Index
    plane: Index

    @classmethod
    def of(cls, code: Code, cut: Cut) -> Rows:
        m = cut.matrices.m
        if isinstance(m, int):
            return cls(code, cut, None, cut.products, 0, cut.height, cut.pieces, cut.piece, cut.matrix, cut.plane)
        few, (least, most) = cut.of_few, cut.enough
        enough = code.apply("and", code.apply("ge", code.value(m), code.value(least)), code.apply("le", code.value(m), code.value(most)))

        def choose(all: Dim, few: Dim) -> Value:
            return code.apply("select", enough, code.value(all), code.value(few))

        height, most_rows = choose(cut.height, few.height), choose(cut.piece, few.piece)
        pieces = code.div(code.add(height, most_rows, -1), most_rows)
        piece = code.div(code.add(height, pieces, -1), pieces)
        # Rows are computed up to a whole number of tiles.
        plane = code.add(code.mul(code.ceildiv(piece, cut.rows), cut.rows * cut.width), cut.lanes)
        (scheme,) = cut.schemes
        return cls(code, cut, enough, choose(cut.products, few.products), choose(0, scheme.first), height, pieces, piece, choose(cut.matrix, few.matrix), plane)

    def either(self, write: Callable[[Cut], None]) -> None:
        """What is written for all products, or for those of few rows, or both under a condition."""
        if self.enough is None:
            write(self.cut)
            return
        with self.code.when(self.enough):
            write(self.cut)
        with self.code.when(self.enough, then=False):
            write(self.cut.of_few)


class StrassenBuilder:
    """Makes the plan of one product."""

    def __init__(self, cut: Cut):
        self.cut, self.matrices, self.p = cut, cut.matrices, cut.matrices.product.problem
        self.parts = PlanParts(self.p.request)
        self.align = cut.lanes * f32.bytes

    def build(self) -> KernelPlan:
        cut, p, epilogue = self.cut, self.p, self.p.epilogue
        combined = self._combine_rows(self.parts.memory_of(p.left.source))
        slots = [combined, self._weights(), *(operand(a.index) for a in epilogue.args), *map(result, range(len(epilogue.values)))]
        func = Func.empty(p.request.name("strassen"), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location)
        code = Code(Builder.at_end(func.block, func.location))
        rows = Rows.of(code, cut)
        cycles_of_task = cut.blocks * cut.products * cut.depth * cut.piece / cut.rows * step_cycles(cut.rows, cut.vectors)
        with code.parallel(code.mul(rows.pieces, cut.groups), grain=max(1, int(GRAIN_CYCLES / cycles_of_task)), name="task") as task:
            group, piece = code.split(task, [cut.groups, rows.pieces])
            _Task(self, code, rows, func.args, group, piece).run()
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("strassen")

    def _combine_rows(self, source: Slot) -> Slot:
        """A step that writes the combinations of A, [product][row of a part][step of a part]."""
        cut, p, lanes = self.cut, self.p, self.cut.lanes
        m, k = self.matrices.m, self.matrices.k
        slot = self.parts.new_scratch(cut.combined, f32)
        func = Func.empty(p.request.name("combine"), [self.parts.buffer_type(s) for s in (source, slot)], loc=p.contract.location)
        code = Code(Builder.at_end(func.block, func.location))
        read, write = func.args
        letters, rows = self.matrices.product.rows, Rows.of(code, cut)
        stride = p.left.stride(letters[-1]) if letters else 0
        grain = max(1, int(GRAIN_CYCLES / (cut.products * cut.steps * COMBINE_NEAR)))
        with code.parallel(rows.height, grain=grain, name="row") as row, code.loop(0, cut.steps, step=lanes, name="step") as step:
            to = code.add(code.mul(row, cut.line), step.iv)

            def load(down: int, across: int) -> Value:
                here = code.add(row, code.mul(rows.height, down))
                at = code.add(p.left.base, code.mul(here, stride), step.iv, across * cut.steps)
                exist: Index = lanes
                if (across + 1) * cut.steps + lanes > k:
                    exist = code.sub(k - across * cut.steps, step.iv)
                if down if rows.enough is not None else (down + 1) * cut.height > m:
                    # None of a row that does not exist.
                    exist = code.min(exist, code.mul(code.sub(m, here), lanes))
                return code.load(read, at, lanes, code.lane_mask(exist, lanes))

            def combinations(cut: Cut) -> None:
                for i, value in enumerate(combine(code, [load(*part) for part in cut.left_parts], [s.left for s in cut.schemes])):
                    code.store(value, write, code.add(to, code.mul(rows.matrix, i)), None, self.align)

            rows.either(combinations)
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, (source, slot)))
        return slot

    def _weights(self) -> Slot:
        """The combinations of B, [group of panels][block of steps][product][step][lane], as a pack."""
        cut, p, a = self.cut, self.p, self.matrices
        source, lane = p.right.source, a.product.lane
        assert isinstance(source, BlockArgument)
        func, b, w = copied_views(p.contract.b if p.right_is_b else p.contract.a)
        letters = p.right_letters
        w = b(tensor.Transpose, w, perm=tuple([i for i, c in enumerate(letters) if c not in (a.step, lane)] + [letters.index(a.step), letters.index(lane)]))
        w = b(tensor.Reshape, w, shape=(a.k, a.n))
        w = b(tensor.Pad, w, low=(0, 0), high=(cut.along * cut.steps - a.k, cut.groups * cut.across * cut.width - a.n), interior=(0, 0))
        w = b(tensor.Reshape, w, shape=(cut.along, cut.blocks, cut.depth, cut.groups, cut.across, cut.width))
        w = b(tensor.Transpose, w, perm=(3, 1, 0, 4, 2, 5))

        def part(down: int, across: int) -> Value:
            shape = (cut.groups, cut.blocks, 1, 1, cut.depth, cut.width)
            piece = b(tensor.Slice, w, starts=(0, 0, down, across, 0, 0), stops=(*shape[:2], down + 1, across + 1, *shape[4:]), strides=(1,) * 6)
            value: Value = b(tensor.Reshape, piece, shape=(cut.groups, cut.blocks, 1, cut.panel))
            return value

        combined = combine(_Maps(b), [part(*x) for x in cut.right_parts], [s.right for s in cut.schemes])
        w = b(tensor.Reshape, b(tensor.Concat, combined, axis=2), shape=(cut.weight_elements,))
        b.insert(Return([w]))
        made = self._weights_kernel() if source.index in p.request.kept else None
        self.parts.packs.append(Pack(source.index, func.finish(), made))
        return pack(len(self.parts.packs) - 1)

    def _weights_kernel(self) -> Func:
        """What the pack does as a kernel, for weights that may change."""
        cut, p, a, lanes = self.cut, self.p, self.matrices, self.cut.lanes
        access = p.right
        source = access.source.type
        assert isinstance(source, TensorType)
        along, across = access.stride(a.step), access.stride(a.product.lane)
        func = Func.empty(p.request.name("weights"), [BufferType(source.shape, f32), BufferType((cut.weight_elements,), f32)])
        code = Code(Builder.at_end(func.block, p.contract.location))
        read, write = func.args
        with code.parallel(cut.groups * cut.blocks, name="block") as flat:
            group, block = code.split(flat, [cut.groups, cut.blocks])
            with code.loop(0, cut.depth, name="step") as step, code.loop(0, cut.width, step=lanes, name="lane") as lane:

                def load(down: int, right: int) -> Value:
                    here = code.add(code.mul(block, cut.depth), step.iv, down * cut.steps)
                    first = code.add(code.mul(group, cut.across * cut.width), lane.iv, right * cut.width)
                    at = code.add(access.base, code.mul(here, along), code.mul(first, across))
                    exist = code.sub(a.n, first)
                    if (down + 1) * cut.steps > a.k:
                        exist = code.min(exist, code.mul(code.sub(a.k, here), lanes))
                    mask = code.lane_mask(exist, lanes)
                    if across == 1:
                        return code.load(read, at, lanes, mask)
                    away = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(across), lanes))
                    value: Value = code.b(kernel.Gather, read, code.apply("add", away, code.broadcast(code.value(at), lanes)), mask)
                    return value

                to = code.add(code.mul(flat, cut.products * cut.panel), code.mul(step.iv, cut.width), lane.iv)
                for i, value in enumerate(combine(code, [load(*part) for part in cut.right_parts], [s.right for s in cut.schemes])):
                    code.store(value, write, code.add(to, i * cut.panel), None, self.align)
        code.b.insert(Return([]))
        return func.finish()


class _Maps(Code):
    """Sums as ops on tensors."""

    def apply(self, fn: str, *xs: Value, dtype: ScalarType | None = None) -> Value:
        value: Value = self.b(tensor.Map, *xs, fn=fn)
        return value


class _Task:
    """Writes the work on a group of panels for a piece of the rows."""

    def __init__(self, builder: StrassenBuilder, code: Code, rows: Rows, args: Sequence[Value], group: Index, piece: Index):
        self.matrices, self.p, self.cut, self.code, self.align = builder.matrices, builder.p, builder.cut, code, builder.align
        self.left, self.right = args[0], args[1]
        count = len(self.p.epilogue.args)
        self.buffers: dict[Value, Value] = dict(zip(self.p.epilogue.args, args[2 : 2 + count], strict=True))
        self.outs = list(args[2 + count :])
        self.rows, self.group, self.first = rows, group, code.mul(rows.piece, piece)
        even = isinstance(rows.height, int) and rows.height % self.cut.piece == 0
        self.count: Index = rows.piece if even else code.min(rows.piece, code.sub(rows.height, self.first))

    def run(self) -> None:
        code, cut = self.code, self.cut
        self.sums = code.scratch(cut.products * cut.plane, f32)
        weights = code.mul(self.group, cut.blocks * cut.products * cut.panel)
        if cut.blocks == 1:
            self._multiply(weights, 0, fresh=True)
        else:
            zero = code.zero(f32, cut.lanes)
            with code.loop(0, code.mul(self.rows.plane, self.rows.products), step=cut.lanes, name="clear") as clear:
                code.store(zero, self.sums, clear.iv, None, self.align)
            with code.loop(0, cut.blocks, name="block") as block:
                self._multiply(code.add(weights, code.mul(block.iv, cut.products * cut.panel)), code.mul(block.iv, cut.depth), fresh=False)
        self._finish()

    def _multiply(self, weights: Index, step0: Index, fresh: bool) -> None:
        """All products of a block of steps, added to the sums unless those are `fresh`."""
        code, cut, lanes = self.code, self.cut, self.cut.lanes
        with code.loop(0, self.rows.products, name="product") as product:
            left0 = code.add(code.mul(self.rows.matrix, product.iv), code.mul(self.first, cut.line), step0)
            right0 = code.add(weights, code.mul(code.add(product.iv, self.rows.first), cut.panel))
            sums0 = code.mul(self.rows.plane, product.iv)

            def tile(at: Index, rows: int) -> None:
                def read_left(r: int, position: Index) -> Value:
                    return code.broadcast(code.load(self.left, code.add(position, r * cut.line)), lanes)

                def read_right(v: int, position: Index) -> Value:
                    return code.load(self.right, code.add(position, v * lanes), lanes, None, self.align)

                to = code.add(sums0, code.mul(at, cut.width))
                places = [[code.add(to, r * cut.width + v * lanes) for v in range(cut.vectors)] for r in range(rows)]
                acc: Accumulators = zeros(code, rows, cut.vectors, f32, lanes)
                if not fresh:
                    acc = [[code.load(self.sums, x, lanes, None, self.align) for x in line] for line in places]
                ahead = self._ahead(code.add(right0, cut.panel), at, rows)
                acc = accumulate(code, [Axis(cut.depth, 1, cut.width)], read_left, read_right, acc, code.add(left0, code.mul(at, cut.line)), right0, ahead)
                for line, values in zip(places, acc, strict=True):
                    for x, value in zip(line, values, strict=True):
                        code.store(value, self.sums, x, None, self.align)

            if self.rows.enough is None:
                cover(code, cut.piece, [cut.rows, cut.piece % cut.rows] if cut.piece % cut.rows else [cut.rows], tile, "rows")
            else:
                cover_any(code, code.value(self.count), cut.rows, tile, "rows")

    def _ahead(self, following: Index, at: Index, rows: int) -> Beside:
        """What the register tile of `rows` rows from `at` on does beside each round of its steps: it asks for its share of the next panel."""
        code, cut, known = self.code, self.cut, self.rows.enough is None
        lines, rounds = cut.depth * cut.vectors, cut.depth // UNROLL
        in_all = cut.piece if known else min(cut.piece, FEWEST_ROWS)
        each = -(-lines * rows // (in_all * rounds))
        first = code.div(code.mul(at, lines), in_all)

        def prefetch(turn: Value) -> None:
            line = code.add(first, code.mul(turn, each))
            if not known:
                line = code.min(line, lines)
            for i in range(each):
                code.prefetch(self.right, code.add(following, code.mul(code.add(line, i), cut.lanes)), locality=2)

        return prefetch

    def _finish(self) -> None:
        """The results, and what follows."""
        code, cut, lanes, a = self.code, self.cut, self.cut.lanes, self.matrices
        line = code.scratch(cut.down * cut.across * cut.width, f32)
        rows = self.rows
        lane0 = code.mul(self.group, cut.across * cut.width)
        with code.loop(0, self.count, name="row") as row:
            here = code.add(self.first, row.iv)
            with code.loop(0, cut.width, step=lanes, name="lane") as lane:
                at = code.add(code.mul(row.iv, cut.width), lane.iv)

                def add_up(cut: Cut) -> None:
                    sums = [code.load(self.sums, code.add(at, code.mul(rows.plane, i)), lanes, None, self.align) for i in range(cut.products)]
                    for (down, across), value in zip(cut.result_parts, combine(code, sums, [s.result for s in cut.schemes]), strict=True):
                        code.store(value, line, code.add(lane.iv, (down * cut.across + across) * cut.width), None, self.align)

                rows.either(add_up)
            parts: Index = cut.down
            if rows.enough is not None or cut.down * cut.height != a.m:
                # With few rows there is one part, which has them all.
                parts = code.min(parts, code.div(code.sub(code.add(a.m, rows.height, -1), here), rows.height))
            exist = code.min(cut.across * cut.width, code.sub(a.n, lane0)) if cut.groups * cut.across * cut.width != a.n else cut.across * cut.width
            with code.loop(0, parts, name="part") as below, code.loop(0, exist, step=lanes, name="lane") as lane:
                at = code.add(code.mul(below.iv, cut.across * cut.width), lane.iv)
                value = code.load(line, at, lanes, None, self.align)
                mask = code.lane_mask(code.sub(exist, lane.iv), lanes) if a.n % lanes else None
                self._write(value, code.add(here, code.mul(rows.height, below.iv)), code.add(lane0, lane.iv), mask)

    def _write(self, value: Value, row: Index, lane: Index, mask: Value | None) -> None:
        """What the group gives for a vector of the product at this place, stored."""
        code, product, p = self.code, self.matrices.product, self.p

        def leaf(places: tuple[Position, ...], _lanes: int, _mask: Value | None) -> Value:
            return value

        leaf.varies = True  # type: ignore[attr-defined]
        at = dict(zip(product.rows, map(place, code.split(row, [p.size(c) for c in product.rows])), strict=True))
        at[product.lane] = place(lane, 0, 1)
        p.epilogue.write(p.epilogue.emitter(code, self.buffers, leaf), self.outs, [at.get(c, Position()) for c in p.out], self.cut.lanes, mask)
