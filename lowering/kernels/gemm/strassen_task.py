"""One task of a Strassen product: all products of a group of panels for a piece of the rows, and their sums. See `strassen.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import VectorLeaf
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.gemm.strassen_plan import Cut
from polyreme.lowering.kernels.gemm.strassen_schemes import combine
from polyreme.lowering.kernels.microkernel import Accumulators, Axis, Overlapped, accumulate, tile_rows, tile_unknown_rows, zeros
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.prefetch import prefetch_panel
from polyreme.lowering.machines.memory import ROWS_OF_L3, ROWS_OF_MEMORY


@dataclass(frozen=True)
class TaskRows:
    """What depends in a kernel on `m`, the number of rows of a chunk.

    `enough`: whether they are cut into parts (None: always). `products`: how many products that makes; `first`: the first one's number.
    `height`: rows of a part, in `pieces` pieces of `piece` rows. `matrix` and `plane`: distances between A's combinations, and between the
    sums of two products. `before`: rows of the chunks before.
    """

    code: Code
    cut: Cut
    m: Index
    enough: Value | None
    products: Index
    first: Index
    height: Index
    pieces: Index
    piece: Index
    matrix: Index
    plane: Index
    before: Index = 0

    @classmethod
    def of(cls, code: Code, cut: Cut, m: Index, before: Index = 0) -> TaskRows:
        """Those of a chunk of `m` rows: no more than the cut is for, and as many unless it is the last one, or any number where `cut` is
        for any.
        """
        if isinstance(cut.matrices.m, int):
            return cls(code, cut, m, None, cut.products, 0, cut.height, cut.pieces, cut.piece, cut.matrix, cut.plane, before)
        few = cut.of_few
        enough = code.apply("ge", code.value(m), code.value(cut.least))

        def choose(all: Index, few: Index) -> Value:
            return code.apply("select", enough, code.value(all), code.value(few))

        part, (scheme,) = code.ceildiv(m, cut.down), cut.schemes
        height, most_rows = choose(part, m), choose(cut.piece, few.piece)
        pieces = code.div(code.add(height, most_rows, -1), most_rows)
        piece = code.div(code.add(height, pieces, -1), pieces)
        # Rows are computed up to a whole number of tiles.
        plane = code.add(code.mul(code.ceildiv(piece, cut.rows), cut.rows * cut.width), cut.lanes)
        line, apart = cut.line, cut.matrix_of(cut.rows)
        matrix = choose(code.add(code.mul(part, line), apart), code.add(code.mul(m, line), apart))
        return cls(
            code, cut, m, enough, choose(cut.products, few.products), choose(0, scheme.first), height, pieces, piece, matrix, plane, before
        )

    def either(self, write: Callable[[Cut], None]) -> None:
        """What is written for all products, or for those of few rows, or both under a condition."""
        if self.enough is None:
            write(self.cut)
            return
        with self.code.when(self.enough):
            write(self.cut)
        with self.code.when(self.enough, then=False):
            write(self.cut.of_few)


@dataclass(frozen=True)
class StrassenMemory:
    """What tasks read and write, as values of the kernel: A's combinations, the packed weights, what follows the product reads, and the
    results.
    """

    left: Value
    right: Value
    others: Mapping[Value, Value]
    outs: Sequence[Value]


class StrassenTask:
    """Writes the work on a group of panels for a piece of the rows."""

    def __init__(self, code: Code, rows: TaskRows, memory: StrassenMemory, group: Index, piece: Index):
        self.code, self.rows, self.cut, self.memory = code, rows, rows.cut, memory
        self.matrices, self.align = self.cut.matrices, self.cut.lanes * f32.bytes
        self.group, self.first = group, code.mul(rows.piece, piece)
        even = isinstance(rows.height, int) and rows.height % self.cut.piece == 0
        self.count: Index = rows.piece if even else code.min(rows.piece, code.sub(rows.height, self.first))

    def run(self) -> None:
        code, cut = self.code, self.cut
        sums = code.scratch(cut.products * cut.plane, f32)
        if cut.blocks == 1:
            self._multiply(sums, self.group, 0, fresh=True)
        else:
            zero = code.zero(f32, cut.lanes)
            with code.loop(0, code.mul(self.rows.plane, self.rows.products), step=cut.lanes, name="clear") as clear:
                code.store(zero, sums, clear.iv, None, self.align)
            with code.loop(0, cut.blocks, name="block") as block:
                self._multiply(sums, code.add(code.mul(self.group, cut.blocks), block.iv), code.mul(block.iv, cut.depth), fresh=False)
        self._finish(sums)

    def _multiply(self, sums: Value, block: Index, step0: Index, fresh: bool) -> None:
        """All products of a block of steps, `block` as they are counted through all groups, added to the sums unless those are `fresh`."""
        code, cut, rows = self.code, self.cut, self.rows
        with code.loop(0, rows.products, name="item") as item:
            product, following = self._order(block, item.iv)
            left0 = code.add(code.mul(rows.matrix, product), code.mul(self.first, cut.line), step0)
            panel = code.add(code.mul(block, cut.products), product, rows.first)
            self.multiply(left0, panel, code.add(panel, following), sums, code.mul(rows.plane, product), fresh)


    def multiply(
        self,
        left0: Index,
        panel: Index,
        following: Index | None,
        sums: Value,
        sums0: Index,
        fresh: bool = True,
        overlapped: Callable[[Index], Overlapped] | None = None,
        right: Value | None = None,
    ) -> None:
        """The product of A's rows from position `left0` on by the panel of this number, into `sums` from `sums0` on, or added there unless
        `fresh`.

        The panel `following` is prefetched, if there is one. With `right` the panel is at position `panel` of that memory. `overlapped`
        gives the work that overlaps the tile of rows from some place on.
        """
        code, cut, lanes = self.code, self.cut, self.cut.lanes
        panels = self.memory.right if right is None else right
        right0 = code.mul(panel, cut.panel) if right is None else panel
        in_all = cut.piece if self.rows.enough is None else code.value(self.count)
        # Weights are packed twice only if they stay in L3.
        fewest = ROWS_OF_MEMORY if cut.chunk is None else ROWS_OF_L3

        def tile(at: Index, rows: int) -> None:
            def read_left(r: int, position: Index) -> Value:
                return code.broadcast(code.load(self.memory.left, code.add(position, r * cut.line)), lanes)

            def read_right(v: int, position: Index) -> Value:
                return code.load(panels, code.add(position, v * lanes), lanes, None, self.align)

            to = code.add(sums0, code.mul(at, cut.width))
            places = [[code.add(to, r * cut.width + v * lanes) for v in range(cut.vectors)] for r in range(rows)]
            acc: Accumulators = zeros(code, rows, cut.vectors, f32, lanes)
            if not fresh:
                acc = [[code.load(sums, x, lanes, None, self.align) for x in line] for line in places]
            more = [] if overlapped is None else [overlapped(at)]
            if following is not None:
                more.append(
                    prefetch_panel(code, panels, code.mul(following, cut.panel), cut.depth, cut.vectors, lanes, at, rows, in_all, fewest)
                )

            def each_round(item: Value) -> None:
                for write in more:
                    write(item)

            acc = accumulate(
                code,
                [Axis(cut.depth, 1, cut.width)],
                read_left,
                read_right,
                acc,
                code.add(left0, code.mul(at, cut.line)),
                right0,
                each_round,
            )
            for line, values in zip(places, acc, strict=True):
                for x, value in zip(line, values, strict=True):
                    code.store(value, sums, x, None, self.align)

        if self.rows.enough is None:
            tile_rows(code, cut.piece, [cut.rows, cut.piece % cut.rows] if cut.piece % cut.rows else [cut.rows], tile, "rows")
        else:
            tile_unknown_rows(code, code.value(self.count), cut.rows, tile, "rows")

    def _order(self, block: Index, item: Value) -> tuple[Index, Index]:
        """The product that comes as this item, and how many panels further on the next one is.

        If A's combinations of two levels exceed L2, every other block runs backwards, and first finds what the block before read last.
        """
        code, cut = self.code, self.cut
        if len(cut.schemes) == 1:
            if self.rows.enough is None:
                return item, 1
            # Few rows leave out panels between their last one of a block and the first one of the next.
            last = code.apply("eq", item, code.value(code.sub(self.rows.products, 1)))
            return item, code.apply("select", last, code.value(code.sub(cut.products + 1, self.rows.products)), code.value(1))
        back = code.apply("eq", code.value(code.mod(block, 2)), code.value(1))
        product = code.apply("select", back, code.value(code.sub(cut.products - 1, item)), item)
        following = code.apply("select", back, code.value(-1), code.value(1))
        # The last one is followed by the same one of the next block.
        last = code.apply("eq", item, code.value(cut.products - 1))
        return product, code.apply("select", last, code.value(cut.products), following)

    def _finish(self, sums: Value) -> None:
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
                    values = [code.load(sums, code.add(at, code.mul(rows.plane, i)), lanes, None, self.align) for i in range(cut.products)]
                    for (down, across), value in zip(cut.result_parts, combine(code, values, [s.result for s in cut.schemes]), strict=True):
                        code.store(value, line, code.add(lane.iv, (down * cut.across + across) * cut.width), None, self.align)

                rows.either(add_up)
            parts: Index = cut.down
            if rows.enough is not None or cut.down * cut.height != rows.m:
                # With few rows there is one part, which has them all.
                parts = code.min(parts, code.div(code.sub(code.add(rows.m, rows.height, -1), here), rows.height))
            exist = (
                code.min(cut.across * cut.width, code.sub(a.n, lane0))
                if cut.groups * cut.across * cut.width != a.n
                else cut.across * cut.width
            )
            with code.loop(0, parts, name="part") as below, code.loop(0, exist, step=lanes, name="lane") as lane:
                at = code.add(code.mul(below.iv, cut.across * cut.width), lane.iv)
                value = code.load(line, at, lanes, None, self.align)
                mask = code.lane_mask(code.sub(exist, lane.iv), lanes) if a.n % lanes else None
                below_here, there = code.add(here, code.mul(rows.height, below.iv)), code.add(lane0, lane.iv)
                # Lines of the next row's results, which left the caches, are prefetched before they are written.
                a.product.problem.epilogue.prefetch(
                    code, self.memory.others, self._places(code.add(below_here, 1), there), self.memory.outs
                )
                self.write(value, below_here, there, mask)

    def write(self, value: Value, row: Index, lane: Index, mask: Value | None) -> None:
        """What the group gives for a vector of the product at this place, stored."""
        epilogue = self.matrices.product.problem.epilogue
        emitter = epilogue.emitter(self.code, self.memory.others, VectorLeaf(lambda _: value))
        epilogue.write(emitter, self.memory.outs, self._places(row, lane), self.cut.lanes, mask)

    def _places(self, row: Index, lane: Index) -> list[Position]:
        """Where the results of neighbouring lanes of a row are."""
        code, product, p = self.code, self.matrices.product, self.matrices.product.problem
        at = dict(
            zip(product.rows, map(position_at, code.split(code.add(self.rows.before, row), [p.size(c) for c in product.rows])), strict=True)
        )
        at[product.lane] = position_at(lane, 0, 1)
        return [at.get(c, Position()) for c in p.out]
