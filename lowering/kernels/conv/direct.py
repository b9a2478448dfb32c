"""Direct convolutions whose result ends with channels (NHWC): for each pixel a product of its window by the weights.

Lanes run along the output channels. The rows of a register tile are the pixels of a small rectangle. So a tile is one of the matrix product
of all windows by the weights, which lie in panels `[C / width][taps][width]`. Sums leave the registers through the epilogue (bias,
activation, residual) straight into the result. A task is a piece of one image: panel by panel it goes through the tiles of its pixels,
while its part of the image stays in L2.

The image may have any order of axes, NCHW or channels-last. A pad is not made in memory. If it is narrow and of zeros, tiles leave out
the taps outside of the image. Otherwise a task copies the pixels under its windows into scratch memory, padded, unless all are known to lie
inside.

If the length of rows is unknown, and they are short, a tile is a run of the image's pixels, counted through rows, each with the place of
its window. Rows of taps that lie over zeros for all of them are left out.

Pooled results are made from a scratch tile that holds the sums of one panel. Results that have their channels first (`Epilogue.turned`)
wait in a scratch row of pixels, which is transposed in square blocks. `direct_plan.py` decides how the work is cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.access import row_major
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.direct_amx import DirectBlock
from polyreme.lowering.kernels.conv.direct_plan import (
    Direct,
    DirectSchedule,
    ScheduledDirect,
    choose_direct,
    find_direct,
    fit_direct,
    other_direct,
)
from polyreme.lowering.kernels.elements import ElementEmitter, VectorLeaf, load
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.microkernel import (
    STEPS_TOGETHER,
    UNROLL,
    Accumulators,
    Axis,
    Read,
    accumulate,
    join_axes,
    overlapping_sizes,
    paired_sizes,
    repeat,
    tile_heights,
    tile_rows,
    tile_rows_evenly,
    tile_rows_in_pairs,
    tile_rows_overlapping,
    transpose_lanes,
    zeros,
)
from polyreme.lowering.kernels.padded_copy import PaddedCopy, strides_of_copy
from polyreme.lowering.kernels.plan import KernelPlan, Step, operand, result
from polyreme.lowering.kernels.positions import Position, total
from polyreme.lowering.kernels.problem import typical
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.tasks import GRAIN_CYCLES


@dataclass(frozen=True)
class DirectPixels:
    """The pixels of a tile: their places by spatial letter, the first one's window from the task's first, each window from that, and where
    their sums wait, if they do.
    """

    places: list[list[Position]]
    first: Index
    moved: list[Index]
    kept: list[Index]


def write_direct(found: Direct, schedule: DirectSchedule) -> KernelPlan:
    """The plan of a convolution as its schedule says."""
    direct = ScheduledDirect(found, schedule)
    p, parts = direct.p, direct.parts
    slots = [
        direct.image_slot(),
        direct.packed(parts),
        *(operand(a.index) for a in p.epilogue.args),
        *(result(i) for i in range(len(p.epilogue.values))),
    ]
    final = schedule.final_addresses or None
    func = Func.empty(p.request.name("conv"), [parts.buffer_type(s) for s in slots], loc=p.contract.location, final_addresses=final)
    code = Code(Builder.at_end(func.block, func.location), p.pairs)
    size = direct.pieces()
    counts = [ceildiv(n, s) for n, s in zip(direct.extent, size, strict=True)]
    pieces = direct.count_pieces(size)
    sizes = [p.size(c) for c in direct.outer]
    chunk = direct.chunk(pieces)
    chunks = -(-direct.count // chunk)
    per_task = direct.cycles() / pieces / chunks
    tasks = code.value(product([*sizes, *counts, chunks]))
    shared = code.apply("gt", code.b(kernel.Threads), code.value(1))
    with code.parallel(tasks, grain=max(1, int(GRAIN_CYCLES / max(per_task, 1))), name="task") as flat:
        # One of two threads takes its tasks from the end on.
        backward = code.apply("and", shared, code.apply("ge", code.value(code.mul(flat, 2)), tasks)) if chunk == 1 else None
        *around, part = code.split(flat, [*sizes, product([*counts, chunks])])
        *corner, first = code.split(part, [*counts, chunks])
        here = dict(zip(direct.outer, around, strict=True))
        starts = [code.mul(i, s) for i, s in zip(corner, size, strict=True)]

        def run(axis: int, chosen: list[Index], most: list[int]) -> None:
            """The last piece along an axis may be smaller than the others."""
            if axis == len(size):
                DirectTask(direct, code, func.args, here, starts, chosen, most, backward).run(code.mul(first, chunk), chunk, direct.count)
                return
            extent, piece = direct.extent[axis], size[axis]
            if not isinstance(extent, int):
                run(axis + 1, [*chosen, code.min(piece, code.sub(extent, starts[axis]))], [*most, piece])
                return
            rest = extent % piece
            last = code.condition("eq", corner[axis], extent // piece) if rest else False
            if isinstance(last, bool):
                count = rest if last else piece
                run(axis + 1, [*chosen, count], [*most, count])
                return
            with code.when(last):
                run(axis + 1, [*chosen, rest], [*most, rest])
            with code.when(last, then=False):
                run(axis + 1, [*chosen, piece], [*most, piece])

        run(0, [], [])
    code.b.insert(Return([]))
    parts.steps.append(Step(func, tuple(slots)))
    return parts.plan("direct", updates=p.epilogue.updates)


build_direct_conv = Way(
    "direct", DirectSchedule, find_direct, choose_direct, write_direct, fit_direct, "build_direct_conv", others=other_direct
)


def _larger(code: Code, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return code.apply("max", code.value(a), code.value(b))


class DirectTask:
    """A rectangle of `outputs` pixels of one image, `most` at most, and some of its panels; `backward` where the task after this one is the
    one before it.
    """

    def __init__(
        self,
        direct: Direct,
        code: Code,
        args: Sequence[Value],
        around: dict[str, Index],
        starts: Sequence[Index],
        outputs: Sequence[Index],
        most: Sequence[int],
        backward: Value | None = None,
    ):
        self.backward = backward
        self.direct, self.p, self.code = direct, direct.p, code
        count = len(self.p.epilogue.args)
        # Words of the weights, and of the image unless it is copied first.
        self.image = args[0] if direct.pad is not None or self.p.word_letter is None else code.words(args[0])
        self.weights = args[1] if self.p.word_letter is None else code.words(args[1])
        self.buffers: dict[Value, Value] = dict(zip(self.p.epilogue.args, args[2 : 2 + count], strict=True))
        self.results = list(args[2 + count :])
        self.around, self.starts, self.outputs = around, list(starts), list(outputs)
        if direct.numbered:
            self.counts, self.most, self.pixels0 = list(outputs), list(most), list(starts)
            return
        # Pixels of the contract, by letter.
        self.counts = [code.add(code.mul(code.sub(n, 1), s), r) for n, s, r in zip(outputs, direct.steps, direct.reaches, strict=True)]
        self.most = direct.needed(most)
        self.pixels0 = [code.mul(i, s) for i, s in zip(starts, direct.steps, strict=True)]

    def run(self, first: Index, chunk: int, panels: int) -> None:
        """All panels from `first` on, `chunk` of them at most."""
        direct, p, code = self.direct, self.p, self.code
        left = dict(p.left.strides)
        if direct.pad is not None:
            left = self._copy(direct.pad)
            self.at: Index = 0
        else:
            base: Index = p.left.base
            if direct.border is not None:
                pad = direct.border.pad
                left = direct.moves(row_major(shape_of(pad.x)))
                letters = p.left_letters[len(shape_of(pad.x)) :]
                base = code.sub(0, code.add(0, *(pad.low[axis] * left[c] for axis, c in zip(direct.window.axes, letters, strict=True))))
            moved = self.around if direct.numbered else {**self.around, **dict(zip(direct.spatial, self.pixels0, strict=True))}
            self.at = code.add(base, *(code.mul(i, left.get(c, 0)) for c, i in moved.items()))
        self.moves = [left.get(c, 0) for c in direct.spatial]
        strides = direct.panels.strides
        axes = [Axis(p.size(c), left.get(c, 0), strides[c]) for c in direct.panels.contracted]
        kept = 2 if direct.border is not None else 1 if direct.apart is not None or direct.above is not None else 0
        self.axes = [*axes[:kept], *join_axes(axes[kept:])]
        if direct.whole_rows:
            self.columns, self.channels = axes[1], join_axes(axes[2:])
        self.weights0 = code.add(0, *(code.mul(i, strides[c] if c in strides else 0) for c, i in self.around.items() if c in strides))
        if direct.in_blocks:
            self.block_sums = code.scratch(direct.tile[0] * direct.tile[1] * direct.width, p.dtype)
        if direct.keeps:
            self.sums = code.scratch(prod(self.most) * direct.width, p.dtype)
        if p.epilogue.turned:
            # So many pixels of as many rows as a tile has, or as the task has, and what the last block reads beyond.
            self.pitch = -(-self.most[-1] // direct.lanes) * direct.lanes
            self.row = code.scratch((1 if direct.numbered else direct.tile[0]) * self.pitch * direct.width, p.dtype)
        end: Index = code.add(first, chunk) if panels % chunk == 0 else code.min(code.add(first, chunk), panels)
        full, rest = divmod(direct.n, direct.width)
        vectors = direct.tile[2]
        if not rest:
            self._panels(first, end, vectors, None)
            return
        if full:
            self._panels(first, code.min(end, full), vectors, None)
        with code.loop(code.apply("max", code.value(first), code.value(full)), end, name="panel") as loop:
            self._panel(loop.iv, -(-rest // direct.lanes), rest)

    def _panels(self, first: Index, end: Index, vectors: int, valid: int | None) -> None:
        with self.code.loop(first, end, name="panel") as loop:
            self._panel(loop.iv, vectors, valid)

    # --- the image of a task, with its padding

    def _copy(self, pad: tensor.Pad) -> dict[str, Dim]:
        """Copy the image under the task's windows; the strides of the letters in the copy."""
        direct, p, code, window = self.direct, self.p, self.code, self.direct.window
        region = direct.region(self.most)
        letters = p.left_letters
        rank = len(region)
        starts: list[Index] = []
        origin = dict(zip(direct.spatial, self.pixels0, strict=True))
        for axis in range(rank):
            letter = letters[axis]
            if axis in window.axes:
                i = window.axes.index(axis)
                here = origin.get(letter, self.around.get(letter, 0))
                starts.append(code.sub(code.mul(here, window.strides[i]), pad.low[axis]))
            else:
                starts.append(self.around.get(letter, 0))
        counts = dict(zip(direct.spatial, self.counts, strict=True))
        needed: list[Index] = list(region)
        for i, axis in enumerate(window.axes):
            taps, stride, dilation = (typical(v[i]) for v in (window.sizes, window.strides, window.dilations))
            if letters[axis] in counts:
                needed[axis] = code.add(code.mul(code.sub(counts[letters[axis]], 1), stride), (taps - 1) * dilation + 1)
        # A region of unknown size may reach further than the image and its padding.
        edges = tuple((pad.low[i] != 0, pad.high[i] != 0 or isinstance(counts.get(letters[i], 0), Value)) for i in range(rank))
        strides = strides_of_copy(region, direct.window.axes if p.word_letter is None else ())
        copy = PaddedCopy(code, p.request.target, self.image, pad, region, tuple(starts), edges, direct.window.axes, tuple(needed), strides)
        made = copy.make()
        self.image = made if p.word_letter is None else code.words(made)
        return direct.moves(strides)

    # --- tiles

    def _panel(self, panel: Index, vectors: int, valid: int | None) -> None:
        """All pixels by the lanes of one panel, of which `valid` exist (None: all)."""
        direct, code = self.direct, self.code
        high, wide, most = direct.tile
        weights = code.add(self.weights0, code.mul(panel, direct.panels.panel_size))
        lane0 = code.mul(panel, direct.width)
        *above, width = self.counts
        across = -(-self.most[-1] // wide)
        count = across * (-(-self.most[0] // high) if above else 1)
        if direct.numbered:
            # As many tiles as an image of a usual size has, so that these prefetch all of the next panel.
            count = min(count, -(-estimate_pixels(direct.extent[0]) // wide))

        def tiles(axes: Sequence[Axis], at: Index, weights: Index, tap: Index, add: bool) -> None:
            size = product(a.size for a in axes) * direct.width
            further: Index = size
            if self.backward is not None and direct.blocks == 1 and (direct.prefetch or direct.in_blocks):
                further = code.apply("select", self.backward, code.value(code.sub(0, size)), code.value(size))

            def row(y: Index, rows: int) -> None:
                def tile(x: Index, columns: int, is_row: bool = False) -> None:
                    corner = [y, x][-len(self.counts) :]
                    number = code.add(code.mul(code.div(y, high), across), code.div(x, columns if direct.numbered else wide))
                    if direct.in_blocks:
                        DirectBlock(self, corner, (rows, columns), lane0, vectors, valid).make(
                            axes, at, weights, code.add(weights, further), number
                        )
                        return
                    prefetched = None
                    if direct.prefetch:
                        prefetched = self._prefetch_weights(weights, size, further, number, count, most)
                    pixels = self._run_of(x, columns) if direct.numbered else self.rectangle(corner, (rows, columns))
                    self._tile(corner, pixels, axes, at, weights, tap, lane0, vectors, valid, add, prefetched, is_row)

                if direct.numbered and direct.blocks == 1:
                    tile_rows_overlapping(code, self._whole_rows(width, tile), overlapping_sizes(wide), tile, "x")
                elif direct.numbered:
                    # Sums that wait are added to once.
                    tile_rows_evenly(code, self._whole_rows(width, tile), wide, tile, "x")
                elif isinstance(width, Value) and not direct.keeps:
                    tile_rows_in_pairs(code, width, paired_sizes(wide), vectors, tile, "x")
                else:
                    tile_rows(code, width, tile_heights(wide, width), tile, "x")
                if self.p.epilogue.turned:
                    self._turn(y, rows, lane0, vectors, valid)

            if above:
                tile_rows(code, above[0], tile_heights(high, above[0]), row, "y")
            else:
                row(0, 1)

        if direct.blocks == 1:
            tiles(self.axes, self.at, weights, 0, False)
        else:
            self._clear()
            outermost, *inner = self.axes
            depth = -(-typical(outermost.size) // direct.blocks)
            depth = depth if inner else -(-depth // UNROLL) * UNROLL
            whole, rest = divmod(typical(outermost.size), depth)
            with code.loop(0, whole, name="block") as loop:
                start = code.mul(loop.iv, depth)
                here, there = code.add(self.at, code.mul(start, outermost.a)), code.add(weights, code.mul(start, outermost.b))
                tiles([replace(outermost, size=depth), *inner], here, there, start, True)
            if rest:
                done = whole * depth
                tiles(
                    [replace(outermost, size=rest), *inner],
                    code.add(self.at, done * outermost.a),
                    code.add(weights, done * outermost.b),
                    done,
                    True,
                )
        if direct.keeps:
            self._kept(lane0, vectors, valid)

    def _tile(
        self,
        corner: Sequence[Index],
        pixels: DirectPixels,
        axes: Sequence[Axis],
        at: Index,
        weights: Index,
        tap: Index,
        lane0: Index,
        vectors: int,
        valid: int | None,
        add: bool,
        prefetched: Callable[[Index], list[Index]] | None,
        is_row: bool = False,
    ) -> None:
        """One tile, from beginning to end, or with `add` some of its steps, from the column `tap` of taps on; each round of them asks for
        the weights at the places that `prefetched` tells of its own. `is_row` is whether it is a whole row of numbered pixels.
        """
        code, lanes, dtype = self.code, self.direct.lanes, self.p.dtype
        align = lanes * dtype.bytes
        written = itertools.count()

        def image(r: int, position: Index) -> Value:
            return code.broadcast(code.load(self.image, code.add(position, pixels.moved[r])), lanes)

        def weight(v: int, position: Index) -> Value:
            for there in prefetched(position) if prefetched is not None and v == 0 and next(written) % UNROLL == 0 else ():
                code.prefetch(self.weights, there)
            read = code.load(self.weights, code.add(position, v * lanes), lanes, None, lanes * element_type(self.weights.type).bytes)
            return read if element_type(read.type) == self.p.dtype else code.apply("cast", read, dtype=self.p.dtype)

        at = code.add(at, pixels.first)
        if not self.direct.keeps and self.p.epilogue.residuals:
            self.prefetch(pixels, lane0, vectors)
        if add:
            acc = [[code.load(self.sums, code.add(to, v * lanes), lanes, None, align) for v in range(vectors)] for to in pixels.kept]
        else:
            acc = zeros(code, len(pixels.places), vectors, dtype, lanes)
        if self.direct.border is not None:
            acc = self._inside(corner, axes, tap, at, weights, acc, image, weight)
        elif self.direct.above is not None:
            acc = self._rows_inside(self.direct.above, pixels, axes, tap, at, weights, acc, image, weight, is_row)
        elif self.direct.apart is not None:
            outer, *inner = axes
            steps = lambda acc, x, y: accumulate(code, inner, image, weight, acc, x, y)
            acc = repeat(code, outer.size, outer.a, outer.b, steps, acc, at, weights)
        else:
            acc = accumulate(code, axes, image, weight, acc, at, weights)
        if not self.direct.keeps:
            self.finish(pixels, acc, lane0, valid)
            return
        for to, line in zip(pixels.kept, acc, strict=True):
            for v, sums in enumerate(line):
                code.store(sums, self.sums, code.add(to, v * lanes), None, align)

    def _prefetch_weights(
        self, weights: Index, size: Dim, further: Index, number: Index, count: int, vectors: int
    ) -> Callable[[Index], list[Index]]:
        """Of the next panel, or the next part of this one, which begins `further` from here and has so many elements: the lines that tile
        `number` of `count` asks for beside the round of steps at a position. Together the tiles ask for all. Streams are a
        part for each tile, which the machine follows by itself; else a tile asks for some lines of each round.
        """
        code, lanes = self.code, self.direct.lanes
        lines = -(-vectors * UNROLL // count)
        if self.direct.prefetch == "lines":
            first = code.mul(code.mod(number, -(-vectors * UNROLL // lines)), lines * lanes)
            moved = [code.add(further, first, i * lanes) for i in range(lines)]
            return lambda position: [code.add(position, m) for m in moved]
        begin = code.add(weights, further, code.mul(code.mod(number, count), -(-typical(size) // (count * lanes)) * lanes))

        def prefetch(position: Index) -> list[Index]:
            done = code.mul(code.div(code.sub(position, weights), count * lanes), lanes)
            return [code.add(begin, done, i * lanes) for i in range(lines)]

        return prefetch

    def _whole_rows(self, count: Index, tile: Callable[[Index, int, bool], None]) -> Value:
        """Tiles of whole rows of numbered pixels, where a task has all of an image, and its rows are of few pixels; how many pixels are
        left then, all or none.
        """
        code, direct, left = self.code, self.direct, self.code.value(count)
        if not direct.whole_rows:
            return left
        all_here = code.apply("le", code.value(direct.extent[0]), code.value(direct.pieces()[0]))
        for size in direct.whole_rows:
            meant = code.apply("and", all_here, code.apply("eq", code.value(direct.whole[-1]), code.value(size)))
            with code.loop(0, code.apply("select", meant, code.value(count), code.value(0)), step=size, name="x") as loop:
                tile(loop.iv, size, True)
            left = code.apply("select", meant, code.value(0), left)
        return left

    def rectangle(self, corner: Sequence[Index], size: tuple[int, int]) -> DirectPixels:
        """Pixels of neighbouring rows, from `corner` on."""
        code = self.code
        offsets = [(y, x)[-len(corner) :] for y in range(size[0]) for x in range(size[1])]
        start = [position_at(code.add(o, c)) for o, c in zip(self.pixels0, corner, strict=True)]
        places = [[s.plus(code, Position(o)) for s, o in zip(start, offset, strict=True)] for offset in offsets]
        first = code.add(0, *(code.mul(c, m) for c, m in zip(corner, self.moves, strict=True)))
        moved: list[Index] = [sum(o * m for o, m in zip(offset, self.moves, strict=True)) for offset in offsets]
        kept = self._kept_at(corner, offsets) if self.direct.keeps else self._in_row(corner, offsets) if self.p.epilogue.turned else []
        return DirectPixels(places, first, moved, kept)

    def _run_of(self, at: Index, count: int) -> DirectPixels:
        """Pixels that follow each other, from number `at` of the task's on."""
        code, width = self.code, self.direct.whole[-1]
        y, x = code.split(code.add(self.pixels0[0], at), self.direct.whole)
        places, moved = [], []
        for _ in range(count):
            places.append([position_at(y), position_at(x)])
            moved.append(code.add(code.mul(y, self.moves[0]), code.mul(x, self.moves[1])))
            following = code.value(code.add(x, 1))
            fits = code.apply("lt", following, code.value(width))
            x = code.apply("select", fits, following, code.value(0))
            y = code.apply("select", fits, code.value(y), code.value(code.add(y, 1)))
        kept: list[Index] = [code.mul(code.add(at, i), self.direct.width) for i in range(count)]
        return DirectPixels(places, 0, moved, kept)


    def _inside(
        self,
        corner: Sequence[Index],
        axes: Sequence[Axis],
        tap: Index,
        at: Index,
        weights: Index,
        acc: Accumulators,
        image: Read,
        weight: Read,
    ) -> Accumulators:
        """The accumulators after all taps of the columns from `tap` on that lie in the image."""
        code, border, window = self.code, self.direct.border, self.direct.window
        assert border is not None
        columns, rows, *inner = axes
        # Positions of the first pixel's first tap.
        places = zip(self.pixels0, corner, window.strides, border.low, strict=True)
        y, x = (code.sub(code.mul(code.add(first, i), stride), low) for first, i, stride, low in places)
        high, wide = border.sizes
        top, end = _larger(code, code.sub(0, y), 0), code.min(rows.size, code.sub(high, y))
        down = code.mul(top, rows.a), code.mul(top, rows.b)
        after = code.add(tap, columns.size)
        reached = code.add(x, (len(acc) - 1) * window.strides[1])
        begin, stop = (code.min(_larger(code, t, tap), after) for t in (code.sub(0, x), code.sub(wide, reached)))
        # Without the first pixel, all, without the last one.
        for first, last, left, right in ((tap, begin, 1, 0), (begin, stop, 0, 0), (stop, after, 0, 1)):
            count, some = code.sub(last, first), acc[left : len(acc) - right]
            if not some or (isinstance(count, int) and count <= 0):
                continue
            read = lambda r, position, left=left: image(r + left, position)
            together = self._together(len(acc) * len(acc[0]))
            steps = lambda acc, x, y, read=read, together=together: accumulate(code, inner, read, weight, acc, x, y, together=together)
            column = lambda acc, x, y, steps=steps: repeat(
                code, code.sub(end, top), rows.a, rows.b, steps, acc, code.add(x, down[0]), code.add(y, down[1])
            )
            skipped = code.sub(first, tap)
            here, there = code.add(at, code.mul(skipped, columns.a)), code.add(weights, code.mul(skipped, columns.b))
            acc = [*acc[:left], *repeat(code, count, columns.a, columns.b, column, some, here, there), *acc[len(acc) - right :]]
        return acc


    def _rows_inside(
        self,
        pad: tensor.Pad,
        pixels: DirectPixels,
        axes: Sequence[Axis],
        tap: Index,
        at: Index,
        weights: Index,
        acc: Accumulators,
        image: Read,
        weight: Read,
        is_row: bool,
    ) -> Accumulators:
        """The accumulators after all rows of taps from `tap` on but those under which all of the tile's pixels have nothing but zeros. The
        first and the last pixel of a whole row have no taps beside it.
        """
        code, axis, stride = self.code, self.direct.window.axes[0], self.direct.window.strides[0]
        rows, *inner = axes
        y, last = (code.mul(pixels.places[i][0].scalar(code), stride) for i in (0, -1))
        top = _larger(code, tap, code.sub(pad.low[axis], last))
        end = code.min(code.add(tap, rows.size), code.sub(shape_of(pad.x)[axis] + pad.low[axis], y))
        skipped = code.sub(top, tap)
        def steps(acc: Accumulators, x: Index, y: Index) -> Accumulators:
            if not is_row:
                return accumulate(code, inner, image, weight, acc, x, y)
            for column in range(self.columns.size):
                first, end = int(column == 0), len(acc) - int(column == self.columns.size - 1)
                read = lambda r, position, first=first: image(r + first, position)
                there = code.add(x, column * self.columns.a), code.add(y, column * self.columns.b)
                together = self._together(len(acc[first:end]) * len(acc[0]))
                some = accumulate(code, self.channels, read, weight, acc[first:end], *there, together=together)
                acc = [*acc[:first], *some, *acc[end:]]
            return acc

        here, there = code.add(at, code.mul(skipped, rows.a)), code.add(weights, code.mul(skipped, rows.b))
        return repeat(code, code.sub(end, top), rows.a, rows.b, steps, acc, here, there)

    def _together(self, sums: int) -> int | None:
        """How many steps of so many sums are written out one after another: tiles of many sizes, for rows of unknown length, would be
        long.
        """
        if isinstance(self.direct.whole[-1], int):
            return None
        return STEPS_TOGETHER if sums < STEPS_TOGETHER else UNROLL

    def _masks(self, vectors: int, valid: int | None) -> list[Value | None]:
        lanes = self.direct.lanes
        return [None if valid is None else self.code.lane_mask(valid - v * lanes, lanes) for v in range(vectors)]

    def _places(self, pixel: Sequence[Position], lane: Position) -> list[Position]:
        at = {c: position_at(i) for c, i in self.around.items()}
        at.update(zip(self.direct.spatial, pixel, strict=True))
        at[self.direct.lane] = lane
        return [at.get(c, Position()) for c in self.p.out]

    def prefetch(self, pixels: DirectPixels, lane0: Index, vectors: int) -> None:
        """Ask for what is read at the places of a tile's results."""
        code, p = self.code, self.p
        for pixel in pixels.places:
            for lane in range(0, vectors * self.direct.lanes, p.request.target.line_bytes // p.dtype.bytes):
                p.epilogue.prefetch(code, self.buffers, self._places(pixel, position_at(lane0, lane)))

    def finish(self, pixels: DirectPixels, acc: list[list[Value]], lane0: Index, valid: int | None) -> None:
        """The results of a tile from its sums."""
        code, p, lanes = self.code, self.p, self.direct.lanes
        masks = self._masks(len(acc[0]), valid)
        current: list[Value] = []
        emitter = p.epilogue.emitter(code, self.buffers, VectorLeaf(lambda _: current[0]))
        for i, (pixel, line) in enumerate(zip(pixels.places, acc, strict=True)):
            for v, sums in enumerate(line):
                current[:] = [sums]
                if p.epilogue.turned:
                    (value,) = p.epilogue.values
                    made = emitter.at(value, self._places(pixel, position_at(lane0, v * lanes, 1)), lanes, masks[v])
                    code.store(made, self.row, code.add(pixels.kept[i], v * lanes), None, lanes * p.dtype.bytes)
                    continue
                self.write(emitter, self._places(pixel, position_at(lane0, v * lanes, int(lanes > 1))), lanes, masks[v])

    def write(self, emitter: ElementEmitter, places: list[Position], lanes: int, mask: Value | None) -> None:
        """Store the results' elements at `places`."""
        self.p.epilogue.write(emitter, self.results, places, lanes, mask)

    # --- results with their channels first

    def _in_row(self, corner: Sequence[Index], offsets: Sequence[tuple[int, ...]]) -> list[Index]:
        """Where the pixels of a tile wait in the scratch row: those of its rows one row after the other."""
        code, width = self.code, self.direct.width
        at = code.mul(corner[-1], width)
        return [code.add(at, ((offset[0] if len(offset) > 1 else 0) * self.pitch + offset[-1]) * width) for offset in offsets]

    def _turn(self, y: Index, rows: int, lane0: Index, vectors: int, valid: int | None) -> None:
        """Write the results that wait in the scratch row, those of `rows` rows from `y` on, or of numbered pixels: a line of pixels for
        each channel.
        """
        code, p, direct, lanes = self.code, self.p, self.direct, self.direct.lanes
        letters = (p.out[0], direct.lane, *p.out[1:-1])
        moves = dict(zip(letters, row_major(tuple(p.size(c) for c in letters)), strict=True))
        corner = dict(zip(direct.spatial[-1:] if direct.numbered else direct.spatial, self.pixels0, strict=True))
        start = code.add(0, *(code.mul(i, moves[c]) for c, i in {**self.around, **corner}.items() if c in moves))
        line = moves[direct.lane]
        count, first = self.counts[-1], code.add(start, code.mul(lane0, line))
        for row in range(rows):
            to = first
            if len(self.counts) > 1:
                to = code.add(first, code.mul(code.add(y, row), moves[direct.spatial[0]]))
            with code.loop(0, count, step=lanes, name="x") as loop:
                mask = code.lane_mask(code.sub(count, loop.iv), lanes)
                assert mask is not None
                at = code.add(code.mul(loop.iv, direct.width), row * self.pitch * direct.width)
                there = code.add(to, loop.iv)
                whole, rest = (vectors, 0) if valid is None else divmod(valid, lanes)
                with code.loop(0, whole, name="v") as v:
                    self._turn_block(code.add(at, code.mul(v.iv, lanes)), code.add(there, code.mul(v.iv, lanes * line)), lanes, mask)
                if rest:
                    self._turn_block(code.add(at, whole * lanes), code.add(there, whole * lanes * line), rest, mask)

    def _turn_block(self, at: Index, to: Index, channels: int, mask: Value) -> None:
        """The pixels of a square block of the scratch row, `channels` lines of them."""
        code, direct, lanes = self.code, self.direct, self.direct.lanes
        move = product(self.p.size(c) for c in self.p.out[1:-1])
        align = lanes * self.p.dtype.bytes
        block = [code.load(self.row, code.add(at, i * direct.width), lanes, None, align) for i in range(lanes)]
        for i, line in enumerate(transpose_lanes(code, block)[:channels]):
            code.store(line, self.results[0], code.add(to, code.mul(i, move)), mask)

    # --- sums that wait: to be pooled, or for more of the taps

    def _kept_at(self, corner: Sequence[Index], offsets: Sequence[tuple[int, ...]]) -> list[Index]:
        code, strides = self.code, self._kept_strides()
        at = code.add(0, *(code.mul(c, s) for c, s in zip(corner, strides, strict=True)))
        return [code.add(at, sum(o * s for o, s in zip(offset, strides, strict=True))) for offset in offsets]

    def _kept_strides(self) -> list[int]:
        return [int(s) * self.direct.width for s in row_major(tuple(self.most))]

    def _clear(self) -> None:
        code, lanes = self.code, self.direct.lanes
        zero = code.zero(self.p.dtype, lanes)
        with code.loop(0, prod(self.most) * self.direct.width, step=lanes, name="clear") as loop:
            code.store(zero, self.sums, loop.iv, None, lanes * self.p.dtype.bytes)

    def _kept(self, lane0: Index, vectors: int, valid: int | None) -> None:
        """The task's results for one panel, from the scratch tile with its sums."""
        code, p, direct, lanes = self.code, self.p, self.direct, self.direct.lanes
        masks = self._masks(vectors, valid)
        strides = self._kept_strides()

        def write(pixel: list[Position], waiting: Callable[[dict[str, Position]], list[Position]]) -> None:
            """The results of a pixel; `waiting` tells where sums are, by letter, in the scratch tile."""

            def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
                at = dict(zip(p.out, places, strict=True))
                parts = [*waiting(at), at[direct.lane].plus(code, position_at(lane0).times(code, -1))]
                return load(code, self.sums, total(code, parts), lanes, mask)

            emitter = p.epilogue.emitter(code, self.buffers, leaf)
            for v in range(vectors):
                p.epilogue.write(emitter, self.results, self._places(pixel, position_at(lane0, v * lanes, int(lanes > 1))), lanes, masks[v])

        def pixels(axis: int, pixel: list[Position]) -> None:
            if axis < len(self.outputs):
                with code.loop(0, self.outputs[axis], name="yx"[axis]) as loop:
                    pixels(axis + 1, [*pixel, position_at(self.starts[axis]).plus(code, position_at(loop.iv))])
                return
            write(
                pixel,
                lambda at: [
                    at[c].plus(code, position_at(o).times(code, -1)).times(code, s)
                    for c, o, s in zip(direct.spatial, self.pixels0, strides, strict=True)
                ],
            )

        if direct.numbered:
            with code.loop(0, self.outputs[0], name="x") as loop:
                (pixel,) = self._run_of(loop.iv, 1).places
                write(pixel, lambda at: [position_at(loop.iv).times(code, direct.width)])
            return
        pixels(0, [])

