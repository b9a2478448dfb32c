"""Large matrix products by Strassen's algorithm and its like: fewer products of parts than the plain way takes, at the price of larger rounding errors.

Rows, steps and lanes are cut into two or three parts each, as a scheme of `schemes.py` says, or by two schemes one inside of the other: "halves" makes 7 products of parts in place of 8,
"thirds" and "thirds of rows" 15 in place of 18, "quarters" 49 in place of 64. The parts of the lanes are neighbouring panels. So a task makes its part of all
products from beginning to end, and needs no memory but its own:

1. A kernel of its own writes the combinations of A, once for all tasks; or threads make them beside the products (`strassen_beside.py`).
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim
from polyreme.ir.types import BufferType, ScalarType, TensorType, f32
from polyreme.lowering.code import Code, Index
from polyreme.lowering.elements import VectorLeaf
from polyreme.lowering.epilogue import place
from polyreme.lowering.microkernel import UNROLL, Accumulators, Axis, Beside, accumulate, cover, cover_any, step_cycles, zeros
from polyreme.lowering.packing import PlanParts, copied_views
from polyreme.lowering.positions import Position
from polyreme.lowering.problem import GRAIN_CYCLES
from polyreme.lowering.schedule import KernelPlan, Pack, Request, Slot, Step, operand, pack, result
from polyreme.lowering.schemes import combine
from polyreme.lowering.strassen_beside import Making
from polyreme.lowering.strassen_plan import COMBINE_NEAR, Cut, choose_cut

# Rows of a part in whose time all of the next panel has been asked for, where their number is not known.
FEWEST_ROWS = 16


def build_strassen(request: Request) -> KernelPlan | None:
    """The plan of a group that `choose_cut` has a cut for."""
    cut = choose_cut(request)
    return None if cut is None else StrassenBuilder(cut).build()


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
        source = self.parts.memory_of(p.left.source)
        if cut.beside:
            before = [source, self.parts.new_scratch(cut.most_makers * cut.products * cut.matrix_of_task, f32)]
        else:
            before = [self._combine_rows(source)]
        slots = [*before, self._weights(), *(operand(a.index) for a in epilogue.args), *map(result, range(len(epilogue.values)))]
        func = Func.empty(p.request.name("strassen"), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location, final_addresses=True)
        code = Code(Builder.at_end(func.block, func.location))
        rows = Rows.of(code, cut)
        if cut.beside:
            self._tasks_beside(code, rows, func.args)
        else:
            self._tasks(code, rows, func.args)
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("strassen")

    def _tasks(self, code: Code, rows: Rows, args: Sequence[Value]) -> None:
        """A group of panels for a piece of the rows each."""
        cut = self.cut
        cycles_of_task = cut.blocks * cut.products * cut.depth * cut.piece / cut.rows * step_cycles(cut.rows, cut.vectors)
        with code.parallel(code.mul(rows.pieces, cut.groups), grain=max(1, int(GRAIN_CYCLES / cycles_of_task)), name="task") as task:
            group, piece = code.split(task, [cut.groups, rows.pieces])
            _Task(self, code, rows, args[0], args[1:], group, piece).run()

    def _tasks_beside(self, code: Code, rows: Rows, args: Sequence[Value]) -> None:
        """Neighbouring groups for each thread, which makes A's combinations beside the first one, and where another piece of the rows begins."""
        cut, p = self.cut, self.p
        count = cut.groups * cut.pieces
        threads = code.apply("min", code.b(kernel.Threads), code.value(cut.most_makers))
        letters = self.matrices.product.rows
        stride = p.left.stride(letters[-1]) if letters else 0
        with code.parallel(threads, name="task") as task:
            lo, hi = (code.div(code.mul(code.add(task, i), count), threads) for i in range(2))
            start = code.mul(task, cut.products * cut.matrix_of_task)
            with code.loop(lo, hi, name="group") as loop:
                piece, group = code.split(loop.iv, [cut.pieces, cut.groups])
                begun = code.mul(piece, cut.groups)
                first = code.apply("max", code.value(lo), code.value(begun))
                run = _Task(self, code, rows, args[1], args[2:], group, piece)
                making = Making(code, cut, p.left, stride, args[0], args[1], start, run.first, run.count)
                run.run_beside(making, code.value(code.sub(loop.iv, first)))

    def _combine_rows(self, source: Slot) -> Slot:
        """A step that writes the combinations of A, [product][row of a part][step of a part]."""
        cut, p, lanes = self.cut, self.p, self.cut.lanes
        m, k = self.matrices.m, self.matrices.k
        slot = self.parts.new_scratch(cut.combined, f32)
        func = Func.empty(p.request.name("combine"), [self.parts.buffer_type(s) for s in (source, slot)], loc=p.contract.location, final_addresses=True)
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


def _both(one: Beside, other: Beside) -> Beside:
    """What two do beside the same rounds."""

    def write(turn: Value) -> None:
        one(turn)
        other(turn)

    return write


class _Task:
    """Writes the work on a group of panels for a piece of the rows."""

    def __init__(self, builder: StrassenBuilder, code: Code, rows: Rows, left: Value, args: Sequence[Value], group: Index, piece: Index):
        self.matrices, self.p, self.cut, self.code, self.align = builder.matrices, builder.p, builder.cut, code, builder.align
        self.left, self.right = left, args[0]
        count = len(self.p.epilogue.args)
        self.buffers: dict[Value, Value] = dict(zip(self.p.epilogue.args, args[1 : 1 + count], strict=True))
        self.outs = list(args[1 + count :])
        self.rows, self.group, self.first = rows, group, code.mul(rows.piece, piece)
        # Where A's combinations for these rows are, and from one to the next.
        self.left0, self.matrix = code.mul(self.first, self.cut.line), rows.matrix
        even = isinstance(rows.height, int) and rows.height % self.cut.piece == 0
        self.count: Index = rows.piece if even else code.min(rows.piece, code.sub(rows.height, self.first))

    def run_beside(self, making: Making, turn: Value) -> None:
        """The work on the group of this number among those of a thread, which makes A's combinations beside the first one."""
        code, cut = self.code, self.cut
        self.left0, self.matrix = making.start, cut.matrix_of_task
        self.sums = code.scratch(cut.products * cut.plane, f32)
        is_first = code.apply("eq", turn, code.value(0))
        with code.when(is_first):
            making.make_first()
        self._multiply(self.group, 0, fresh=True, making=lambda product, at: making.beside(product, is_first, at), number=turn)
        self._finish()

    def run(self) -> None:
        code, cut = self.code, self.cut
        self.sums = code.scratch(cut.products * cut.plane, f32)
        if cut.blocks == 1:
            self._multiply(self.group, 0, fresh=True)
        else:
            zero = code.zero(f32, cut.lanes)
            with code.loop(0, code.mul(self.rows.plane, self.rows.products), step=cut.lanes, name="clear") as clear:
                code.store(zero, self.sums, clear.iv, None, self.align)
            with code.loop(0, cut.blocks, name="block") as block:
                self._multiply(code.add(code.mul(self.group, cut.blocks), block.iv), code.mul(block.iv, cut.depth), fresh=False)
        self._finish()

    def _multiply(self, block: Index, step0: Index, fresh: bool, making: Callable[[Value, Index], Beside] | None = None, number: Value | None = None) -> None:
        """All products of a block of steps, `block` as they are counted through all groups, added to the sums unless those are `fresh`; `making`, of a product and rows, is done beside
        the tiles, and `number` that of the group for who makes it."""
        code, cut, lanes = self.code, self.cut, self.cut.lanes
        with code.loop(0, self.rows.products, name="turn") as turn:
            product, following = self._order(block if number is None else number, turn.iv)
            left0 = code.add(code.mul(self.matrix, product), self.left0, step0)
            panel = code.add(code.mul(block, cut.products), product, self.rows.first)
            right0 = code.mul(panel, cut.panel)
            sums0 = code.mul(self.rows.plane, product)

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
                ahead = self._ahead(code.add(right0, code.mul(following, cut.panel)), at, rows)
                if making is not None:
                    ahead = _both(ahead, making(code.value(product), at))
                acc = accumulate(code, [Axis(cut.depth, 1, cut.width)], read_left, read_right, acc, code.add(left0, code.mul(at, cut.line)), right0, ahead)
                for line, values in zip(places, acc, strict=True):
                    for x, value in zip(line, values, strict=True):
                        code.store(value, self.sums, x, None, self.align)

            if self.rows.enough is None:
                cover(code, cut.piece, [cut.rows, cut.piece % cut.rows] if cut.piece % cut.rows else [cut.rows], tile, "rows")
            else:
                cover_any(code, code.value(self.count), cut.rows, tile, "rows")

    def _order(self, block: Index, turn: Value) -> tuple[Index, Index]:
        """The product whose turn it is, and by how many panels the next one's is further on. Products of two levels, whose combinations of A are more than the second-level cache
        holds, go backwards in every other block: the first ones then find there what the last ones of the block before have read."""
        code, cut = self.code, self.cut
        if len(cut.schemes) == 1:
            if self.rows.enough is None:
                return turn, 1
            # Few rows leave out panels between their last one of a block and the first one of the next.
            last = code.apply("eq", turn, code.value(code.sub(self.rows.products, 1)))
            return turn, code.apply("select", last, code.value(code.sub(cut.products + 1, self.rows.products)), code.value(1))
        back = code.apply("eq", code.value(code.mod(block, 2)), code.value(1))
        product = code.apply("select", back, code.value(code.sub(cut.products - 1, turn)), turn)
        following = code.apply("select", back, code.value(-1), code.value(1))
        # The last one is followed by the same one of the next block.
        last = code.apply("eq", turn, code.value(cut.products - 1))
        return product, code.apply("select", last, code.value(cut.products), following)

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
                code.prefetch(self.right, code.add(following, code.mul(code.add(line, i), cut.lanes)))

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
        at = dict(zip(product.rows, map(place, code.split(row, [p.size(c) for c in product.rows])), strict=True))
        at[product.lane] = place(lane, 0, 1)
        p.epilogue.write(p.epilogue.emitter(code, self.buffers, VectorLeaf(lambda _: value)), self.outs, [at.get(c, Position()) for c in p.out], self.cut.lanes, mask)
