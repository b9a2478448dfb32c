"""The kernel of a matrix product: the register tiles of one task, one after another.

B comes from panels packed before, from panels that the task packs itself, or from where it stands. While a task computes with one panel it
prefetches the next one. Panels too deep for L2 are taken in blocks of steps, and partial sums wait in scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import VectorType, element_type
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import VectorLeaf
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.microkernel import (
    MOST_UNROLLED,
    STEPS_TOGETHER,
    UNROLL,
    Accumulators,
    Axis,
    Overlapped,
    OverlappedRounds,
    accumulate,
    join_axes,
    tile_rows,
    tile_rows_evenly,
    zeros,
)
from polyreme.lowering.kernels.packing import PanelFill, Panels
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.prefetch import ONE
from polyreme.lowering.kernels.problem import Product, typical
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.machines.memory import LINES_OF_ROUND, PREFETCH_BYTES

# Vectors of as many lanes are worth putting together from halves.
MIN_LANES_FOR_HALVES = 8


@dataclass(frozen=True)
class TileForm(Schedule, kind="tile"):
    """What is chosen of all tiles of a product.

    With `multiplies_first` the first step of a sum is a product, and not added to zero. One row prefetches its panel where B has more bytes
    for each thread than `prefetch_over` (None: nowhere). With `even_prefetch` tiles of an unknown number of rows prefetch at an even pace.
    """

    multiplies_first: bool = False
    prefetch_over: int | None = None
    even_prefetch: bool = False


PLAIN_FORM = TileForm()


@dataclass
class ProductKernel:
    """A kernel being written, with its arguments.

    If A is a copy of some rows, these stand `left_at` elements further on than in the whole A. If results go to memory of the kernel,
    `kept` says where, and how far rows of a panel are apart there.
    """

    func: Func
    code: Code
    left: Value
    right: Value
    buffers: dict[Value, Value]
    outputs: list[Value]
    left_at: Index = 0
    kept: tuple[Index, int] | None = None


@dataclass(frozen=True)
class Blocks:
    """The contracted axis in blocks of `depth` steps; the partial sums of up to `rows` rows of `width` lanes wait in scratch memory."""

    depth: int
    rows: int
    width: int


@dataclass(frozen=True)
class Prefetching:
    """Lines to prefetch: `inner` lines `step` elements apart, and again every `stride` elements, `lines` in all.

    This tile reads them if `in_tile`, else a later one. `wanted` tells at run time whether the prefetch pays.
    """

    buffer: Value
    at: Index
    lines: int
    inner: int
    step: Dim
    stride: Dim
    in_tile: bool = False
    wanted: Value | None = None

    def prefetch(self, code: Code, line: Index) -> None:
        """Ask for a line."""
        outer = code.div(line, self.inner)
        inner = code.sub(line, code.mul(outer, self.inner))
        code.prefetch(self.buffer, code.add(self.at, code.mul(inner, self.step), code.mul(outer, self.stride)))

    def share(self, code: Code, first: Index, each: int) -> Overlapped:
        """Asks for lines from the one of number `first` on, `each` in a round of steps."""

        def prefetch(round_number: Value) -> None:
            line = code.add(first, code.mul(round_number, each))
            with nullcontext() if self.wanted is None else code.when(self.wanted):
                for i in range(each):
                    self.prefetch(code, code.add(line, i))

        return prefetch

    def pace(self, code: Code, first: Index, pace: Index, most: int) -> Overlapped:
        """Prefetches lines from number `first` on, `pace` of them in `ONE` rounds, of which none needs more than `most`.

        Every round asks for `most` lines, some of them again: a loop of exactly as many would be mispredicted in each round.
        """

        def prefetch(round_number: Value) -> None:
            begin = code.add(first, code.div(code.mul(pace, round_number), ONE))
            for i in range(most):
                self.prefetch(code, code.add(begin, i))

        return prefetch


@dataclass(frozen=True)
class Steps:
    """Steps over contracted `axes`, from `left` elements further on in A and from position `at` of the buffer `right`, which holds B."""

    right: Value
    left: Index
    at: Index
    axes: list[Axis]
    prefetching: Prefetching | None = None

    @property
    def rounds(self) -> int:
        """Rounds of `UNROLL` steps that other work can overlap; 0 if there are none, or their number is unknown."""
        depth = self.axes[0].size if len(self.axes) == 1 else 0
        return depth // UNROLL if isinstance(depth, int) and depth > MOST_UNROLLED else 0


class Tile:
    """Writes the tiles of one task: a block of lanes at one place of the outer letters."""


    def __init__(
        self,
        product: Product,
        kernel: ProductKernel,
        around: dict[str, Index],
        block: Index,
        panels: Panels | None,
        vectors: int,
        form: TileForm = PLAIN_FORM,
        local: bool = False,
    ):
        self.form = form
        self.product, self.p, self.kernel, self.code = product, product.problem, kernel, kernel.code
        self.around, self.panels = around, panels
        self.blocks: Blocks | None = None
        self.local: Value | None = None
        # Whether the task after this one is the one before it.
        self.backward: Value | None = None
        # How many threads share the work, where that is known.
        self.threads: Value | None = None
        # Whether tiles of an unknown number of rows are of about as many each.
        self.evenly = False
        # How many rows the highest tiles have.
        self.highest = 0
        # Whether each tile prefetches the next one's rows of A.
        self.rows_need_prefetch: Value | bool = False
        code, p = self.code, product.problem
        self.lane0 = code.mul(block, vectors * product.lanes)
        self.left0 = code.add(p.left.base, kernel.left_at, *(code.mul(i, p.left.stride(c)) for c, i in around.items()))
        if panels is None or local:
            moved = code.add(p.right.base, *(code.mul(i, p.right.stride(c)) for c, i in around.items()))
            self.right0 = code.add(moved, code.mul(self.lane0, p.right.stride(product.lane)))
            self.moves = {c: p.right.stride(c) for c in p.contracted}
        else:
            strides = panels.strides
            outer = code.add(0, *(code.mul(i, strides[c]) for c, i in around.items() if c in strides))
            self.right0 = code.add(outer, code.mul(code.mul(block, vectors * product.lanes // panels.width), panels.panel_size))
            self.moves = {c: strides[c] for c in p.contracted}
        self.out0 = code.add(0, *(code.mul(i, product.strides[c]) for c, i in around.items()))
        last = product.rows[-1] if product.rows else None
        self.row_left: Dim = p.left.stride(last) if last else 0
        self.row_out: Dim = product.strides[last] if last else 0

    def write_rows(self, first: Index, count: Index, sizes: list[int], vectors: int, valid: Index | None) -> None:
        """The rows from `first` on, by tiles of `sizes` rows; `valid` lanes exist (None: all)."""
        code, blocks = self.code, self.blocks
        self.highest = sizes[0]
        if blocks is None:
            steps = self.steps(vectors, valid)
            self._each(
                count,
                sizes,
                lambda at, rows: self.compute(
                    code.add(first, at), rows, vectors, valid, steps, self.overlapped(at, rows, sizes, count, steps)
                ),
            )
            return
        assert self.panels is not None and isinstance(self.panels.depth, int)
        sums = code.scratch(blocks.rows * blocks.width, self.p.dtype)
        lanes = self.product.lanes
        zero = code.zero(self.p.dtype, lanes)
        with code.loop(0, blocks.rows * blocks.width, step=lanes, name="clear") as clear:
            code.store(zero, sums, clear.iv, None, lanes * self.p.dtype.bytes)
        whole = -(-self.panels.depth // blocks.depth) - 1
        with code.loop(0, whole, name="block") as loop:
            steps = self.steps(vectors, valid, code.mul(loop.iv, blocks.depth), blocks.depth)

            def partial(at: Index, rows: int) -> None:
                acc = self.sums(
                    code.add(first, at),
                    rows,
                    vectors,
                    valid,
                    self.saved(sums, at, rows, vectors),
                    steps,
                    self.overlapped(at, rows, sizes, count, steps),
                )
                for r, line in enumerate(acc):
                    for v, value in enumerate(line):
                        code.store(value, sums, self._saved_at(at, r, v), None, lanes * self.p.dtype.bytes)

            self._each(count, sizes, partial)
        done = whole * blocks.depth
        rest = self.steps(vectors, valid, done, self.panels.depth - done)

        def last(at: Index, rows: int) -> None:
            row = code.add(first, at)
            acc = self.sums(
                row, rows, vectors, valid, self.saved(sums, at, rows, vectors), rest, self.overlapped(at, rows, sizes, count, rest)
            )
            self.close(row, acc, valid)

        self._each(count, sizes, last)

    def _each(self, count: Index, sizes: list[int], body: Callable[[Index, int], None]) -> None:
        """`body(start, size)` for the tiles that cover so many rows."""
        if self.evenly and not isinstance(count, int):
            tile_rows_evenly(self.code, self.code.value(count), sizes[0], body)
        else:
            tile_rows(self.code, count, sizes, body)

    def steps(self, vectors: int, valid: Index | None, start: Index = 0, depth: int | None = None) -> Steps:
        """All steps, or the `depth` ones from `start` on; what they read of B is packed first where this is the task's to do."""
        code, p = self.code, self.p
        if self.local is None:
            axes, at = p.axes(self.moves), self.right0
            if depth is None:
                return Steps(self.kernel.right, 0, at, axes, self.prefetching(at))
            (axis,) = axes
            at = code.add(at, code.mul(start, axis.b))
            return Steps(self.kernel.right, code.mul(start, axis.a), at, [Axis(depth, axis.a, axis.b)], self.prefetching(at, depth))
        assert self.panels is not None
        at, sizes = self.right0, dict(self.panels.sizes)
        left: Index = 0
        if depth is not None:
            (letter,) = p.step_letters
            at, left = code.add(at, code.mul(start, p.right.stride(letter))), code.mul(start, p.left.stride(letter))
            sizes[letter] = depth
        width = vectors * self.product.lanes
        panel = Panels((), tuple(p.contracted), self.product.lane, width, sizes)
        PanelFill(code, p.right, panel, self.kernel.right, self.local, self.product.lanes).fill(at, 0, width if valid is None else valid)
        moves = panel.strides
        axes = join_axes([Axis(sizes[c], p.left.stride(c), moves[c]) for c in p.contracted])
        return Steps(self.local, left, 0, axes, self.prefetching_in_place(at, depth, start))

    def _line(self, buffer: Value) -> int:
        """Elements of a buffer in a line of memory."""
        return self.p.request.target.line_bytes // element_type(buffer.type).bytes

    def prefetching(self, at: Index, depth: int | None = None) -> Prefetching | None:
        """What to prefetch behind a panel, or a block of `depth` steps, at position `at` of packed panels: the next one.

        One row waits for all of a panel, and prefetches further on in the same one: every other line, since lines come in pairs. Nothing is
        prefetched that stays in L2, or that the hardware prefetcher follows.
        """
        panels = self.panels
        if panels is None or not isinstance(panels.depth, int):
            return None
        size = (depth or panels.depth) * panels.width
        right, line = self.kernel.right, self._line(self.kernel.right)
        if self.product.m == 1:
            each, over = element_type(right.type).bytes, self.form.prefetch_over
            if over is None:
                return None
            wanted = None
            if self.threads is not None:
                enough = self.code.value(self.code.mul(self.threads, over))
                wanted = self.code.apply("lt", enough, self.code.value(typical(panels.elements) * each))
            return Prefetching(
                right, self.code.add(at, PREFETCH_BYTES // each), -(-size // (2 * line)), 1, 0, 2 * line, in_tile=True, wanted=wanted
            )
        following: Index = size
        if depth is None and self.backward is not None:
            following = self.code.apply("select", self.backward, self.code.value(-size), self.code.value(size))
        return Prefetching(right, self.code.add(at, following), -(-size // line), 1, 0, line)

    def prefetching_in_place(self, at: Index, depth: int | None, start: Index) -> Prefetching | None:
        """The same for a panel that is packed from position `at` on: the next block of this panel, or the first one of the next panel."""
        code, p, panels = self.code, self.p, self.panels
        letters = p.step_letters
        assert panels is not None and isinstance(panels.depth, int)
        if len(letters) != 1:
            return None
        along, across = p.right.stride(letters[0]), p.right.stride(self.product.lane)
        size = depth or panels.depth
        if isinstance(start, Value):
            at = code.add(at, code.mul(size, along))
        else:
            # The last block is followed by the first one of the next panel.
            at = code.add(at, code.mul(across, panels.width), code.mul(-start, along))
        line = self._line(self.kernel.right)
        if across == 1:
            in_a_step = -(-panels.width // line)
            # The last element of each line's length: a row that begins within a line had its first line prefetched with the panel before.
            at = code.add(at, line - 1)
            return Prefetching(self.kernel.right, at, size * in_a_step, in_a_step, line, along)
        if along == 1:
            return Prefetching(self.kernel.right, at, -(-size // line) * panels.width, panels.width, across, line)
        return None

    def _saved_at(self, row: Index, r: int, v: int) -> Index:
        assert self.blocks is not None
        return self.code.add(self.code.mul(row, self.blocks.width), r * self.blocks.width + v * self.product.lanes)

    def saved(self, sums: Value, row: Index, rows: int, vectors: int) -> Accumulators:
        """The partial sums of a tile."""
        lanes, align = self.product.lanes, self.product.lanes * self.p.dtype.bytes
        return [[self.code.load(sums, self._saved_at(row, r, v), lanes, None, align) for v in range(vectors)] for r in range(rows)]

    def compute(self, row: Index, rows: int, vectors: int, valid: Index | None, steps: Steps, overlapped: OverlappedRounds) -> None:
        """One tile, from beginning to end."""
        overlapped = self.with_result_prefetch(row, rows, vectors, steps, overlapped)
        if self._has_halves(rows, vectors, valid):
            self._compute_pairs(row, rows, vectors, steps, overlapped)
            return
        fresh = zeros(self.code, rows, vectors, self.p.dtype, self.product.lanes)
        # A product of its own reads the scalar where it stands; adding it to zero, which other rows need too, would take an instruction
        # more.
        self.close(row, self.sums(row, rows, vectors, valid, fresh, steps, overlapped, self.form.multiplies_first), valid)

    def _has_halves(self, rows: int, vectors: int, valid: Index | None) -> bool:
        """Whether the last vector of each row is half full, so that two rows can share one."""
        lanes = self.product.lanes
        fits = vectors > 1 and valid == vectors * lanes - lanes // 2 and rows % 2 == 0
        return fits and lanes >= MIN_LANES_FOR_HALVES and self.panels is not None and self.p.word_letter is None

    def _compute_pairs(self, row: Index, rows: int, vectors: int, steps: Steps, overlapped: OverlappedRounds) -> None:
        """A tile whose rows go in pairs: the whole vectors of both, then one with the last half vector of the first and that of the second.
        """
        code, lanes, whole = self.code, self.product.lanes, vectors - 1
        half = lanes // 2
        low, high = range(half), range(half, lanes)
        align = half * element_type(steps.right.type).bytes

        def read_left(pair: int, at: Index) -> list[Value]:
            a, b = (self._left(2 * pair + i, at) for i in range(2))
            return [*[a] * whole, *[b] * whole, code.shuffle(a, b, (*low, *(lanes + i for i in high)))]

        def read_right(v: int, at: Index) -> Value:
            if v < 2 * whole:
                return self._wide(code.load(steps.right, code.add(at, v % whole * lanes), lanes, None, align))
            x = self._wide(code.load(steps.right, code.add(at, whole * lanes), half, None, align))
            return code.shuffle(x, x, (*low, *low))

        fresh = zeros(code, rows // 2, 2 * whole + 1, self.p.dtype, lanes)
        left = code.add(self.left0, code.mul(row, self.row_left), steps.left)
        acc = accumulate(code, steps.axes, read_left, read_right, fresh, left, steps.at, overlapped, together=self._together(rows))
        lines: list[list[tuple[Value, int, Value | None]]] = []
        for *vectors_of_both, last in acc:
            for i, picked in enumerate((low, high)):
                line = [*vectors_of_both[i * whole : (i + 1) * whole], code.shuffle(last, last, tuple(picked))]
                lines.append([(x, v * lanes, None) for v, x in enumerate(line)])
        self.finish(row, lines, self.lane0)

    def with_result_prefetch(self, row: Index, rows: int, vectors: int, steps: Steps, overlapped: OverlappedRounds) -> OverlappedRounds:
        """`overlapped`, and prefetches of what the epilogue reads at the tile's results, some lines in each round.

        All at once would take the line fill buffers from the loads of the steps. Without rounds they are prefetched at once. Results that
        are only written are not prefetched.
        """
        per_round = list(overlapped) if isinstance(overlapped, Sequence) else [] if overlapped is None else [overlapped]
        code, rounds = self.code, steps.rounds // max(len(per_round), 1)
        at = code.add(self.out0, code.mul(row, self.row_out), self.lane0)
        shares = [*per_round[:1], *self._next_rows(row, rows, steps, rounds)]
        for arg in self.p.epilogue.residuals:
            buffer = self.kernel.buffers[arg]
            line = self._line(buffer)
            in_a_row = -(-vectors * self.product.lanes // line)
            lines = Prefetching(buffer, at, rows * in_a_row, in_a_row, line, self.row_out, in_tile=True)
            if rounds:
                shares.append(lines.share(code, 0, -(-lines.lines // rounds)))
                continue
            for i in range(lines.lines):
                lines.prefetch(code, i)

        def prefetch(round_number: Value) -> None:
            for share in shares:
                share(round_number)

        return [prefetch, *per_round[1:]] if shares else None

    def _next_rows(self, row: Index, rows: int, steps: Steps, rounds: int) -> list[Overlapped]:
        """Asks for the rows of A of the next tile, where they come late and stand in lines."""
        if self.rows_need_prefetch is False or not rounds or steps.axes[0].a != 1:
            return []
        code, left, depth = self.code, self.kernel.left, typical(steps.axes[0].size)
        line = self._line(left)
        at, in_a_row = code.add(self.left0, code.mul(code.add(row, rows), self.row_left), steps.left), -(-depth // line)
        wanted = self.rows_need_prefetch if isinstance(self.rows_need_prefetch, Value) else None
        lines = Prefetching(left, at, rows * in_a_row, in_a_row, line, self.row_left, in_tile=True, wanted=wanted)
        return [lines.share(code, 0, -(-lines.lines // rounds))]

    def overlapped(self, at: Index, rows: int, sizes: Sequence[int], count: Index, steps: Steps) -> Overlapped | None:
        """What the tile of `rows` rows at `at` of `count` rows, covered by tiles of `sizes`, prefetches in each of its rounds.

        All tiles of the first size together prefetch what follows. If the number of rows is unknown, and B exceeds L2 or tiles are even,
        each tile's share is that of its rows.
        """
        code, prefetching, rounds, whole = self.code, steps.prefetching, steps.rounds, sizes[0]
        if prefetching is None or not rounds:
            return None
        if not isinstance(self.product.m, int) and not isinstance(count, int) and (self.evenly or self.form.even_prefetch):
            pace = code.add(code.div(rows * prefetching.lines * ONE // rounds, count), 1)
            return prefetching.pace(
                code, code.div(code.mul(at, prefetching.lines), count), pace, min(-(-prefetching.lines // rounds), 2 * LINES_OF_ROUND)
            )
        if rows != whole:
            return None
        tiles = typical(self.product.m if isinstance(count, Value) else count) // whole
        each = -(-prefetching.lines // (tiles * rounds))
        if not prefetching.in_tile:
            each = min(each, LINES_OF_ROUND)
        return prefetching.share(code, code.mul(code.div(at, whole), rounds * each), each)

    def sums(
        self,
        row: Index,
        rows: int,
        vectors: int,
        valid: Index | None,
        acc: Accumulators,
        steps: Steps,
        overlapped: OverlappedRounds = None,
        fresh: bool = False,
    ) -> Accumulators:
        """The accumulators after `steps`; `fresh`: they begin as zeros."""
        code, lanes = self.code, self.product.lanes
        masks = self._masks(vectors, valid)
        align = lanes * element_type(steps.right.type).bytes if self.panels is not None else None

        def read_right(v: int, at: Index) -> Value:
            mask = masks[v] if self.panels is None else None
            return self._wide(code.load(steps.right, code.add(at, self._of_vector(v)), lanes, mask, align))

        left = code.add(self.left0, code.mul(row, self.row_left), steps.left)
        return accumulate(code, steps.axes, self._left, read_right, acc, left, steps.at, overlapped, fresh, self._together(rows))

    def _together(self, rows: int) -> int | None:
        """How many steps of a tile of so many rows are written out one after another, where tiles have many heights: more of the highest,
        which most rows are in.
        """
        if isinstance(self.product.m, int):
            return None
        return 2 * STEPS_TOGETHER if rows == self.highest else STEPS_TOGETHER

    def _of_vector(self, v: int) -> Dim:
        """How far behind the first vector of a step vector `v` is: in the same row of B, or in a panel of its own."""
        lane = v * self.product.lanes
        if self.panels is None or lane < self.panels.width:
            return lane
        panel, rest = divmod(lane, self.panels.width)
        return panel * self.panels.panel_size + rest

    def _left(self, r: int, at: Index) -> Value:
        """The scalar of a row in all lanes."""
        return self.code.broadcast(self._wide(self.code.load(self.kernel.left, self.code.add(at, r * self.row_left))), self.product.lanes)

    def _wide(self, x: Value) -> Value:
        """What was read of an operand, in the type that is computed with."""
        return x if element_type(x.type) == self.p.dtype else self.code.apply("cast", x, dtype=self.p.dtype)

    def _masks(self, vectors: int, valid: Index | None) -> list[Value | None]:
        code, lanes = self.code, self.product.lanes
        return [None if valid is None else code.lane_mask(code.sub(valid, v * lanes), lanes) for v in range(vectors)]

    def close(self, row: Index, acc: Accumulators, valid: Index | None) -> None:
        """The results of a tile from its sums."""
        lanes = self.product.lanes
        masks = self._masks(len(acc[0]), valid)
        self.finish(row, [[(x, v * lanes, masks[v]) for v, x in enumerate(line)] for line in acc], self.lane0)

    def dot(self, row: Index, rows: int, first: Index, columns: int, axes: list[Axis], dot: str) -> None:
        """A tile of `rows` x `columns` sums, each of whose lanes adds up every so-many-th product."""
        code, p, lanes, k = self.code, self.p, self.product.lanes, self.p.size(dot)
        step = p.right.stride(self.product.lane)
        left = code.add(self.left0, code.mul(row, self.row_left))
        right = code.add(self.right0, code.mul(first, step))

        def readers(mask: Value | None) -> tuple[object, object]:
            return (
                lambda r, at: self._wide(code.load(self.kernel.left, code.add(at, r * self.row_left), lanes, mask)),
                lambda v, at: self._wide(code.load(self.kernel.right, code.add(at, code.mul(v, step)), lanes, mask)),
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
        self.finish(row, [[(code.reduce(x), c, None) for c, x in enumerate(line)] for line in acc], first)

    def finish(self, row: Index, acc: list[list[tuple[Value, int, Value | None]]], lane0: Index) -> None:
        """Make the results of a tile from its sums, each vector (or number) given with its first lane and mask, and store them."""
        product, code, p = self.product, self.code, self.p
        current: list[Value] = []
        emitter = p.epilogue.emitter(code, self.kernel.buffers, VectorLeaf(lambda _: current[0]))
        start, step = self.kernel.kept or (code.add(self.out0, lane0), self.row_out)
        out = code.add(start, code.mul(row, step))
        sizes = [p.size(c) for c in product.rows]
        for r, line in enumerate(acc):
            if len(sizes) > 1:
                at = dict(zip(product.rows, (position_at(x) for x in code.split(code.add(row, r), sizes)), strict=True))
            else:
                at = {c: position_at(row, r) for c in product.rows}
            at.update({c: position_at(i) for c, i in self.around.items()})
            for sums, lane, mask in line:
                current[:] = [sums]
                lanes = sums.type.lanes if isinstance(sums.type, VectorType) else 1
                at[product.lane] = position_at(lane0, lane, int(lanes > 1))
                places = [at.get(c, Position()) for c in p.out]
                # All before one is stored, as `Epilogue.write` has it.
                made = [emitter.at(value, places, lanes, mask) for value in p.epilogue.values]
                for element, buffer in zip(made, self.kernel.outputs, strict=True):
                    code.store(element, buffer, code.add(out, r * step + lane), mask)

