"""Convolutions whose results end with channels: products of a row of taps for each pixel, over windows that are read where they stand.

Lanes run along the channels of the result, and the rows of a register tile are the pixels of a small rectangle, so a tile is one of the matrix product between
all windows and the weights, which lie in panels `[C / width][taps][width]`. Sums leave the registers with bias, activation and residual applied, straight
into the result. A task is a piece of one image: panel by panel, it goes through the tiles of its pixels, whose image stays in the second-level cache.

The image may be in any order of axes, planar as it came from outside or channels-last. A pad around it is not made in memory: a task copies
the pixels under its windows into a scratch buffer of its own, with the padding around them, unless all of them are known to lie inside.

Pooled results are made from a scratch tile that holds the sums of one panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.types import element_type
from polyreme.lowering.access import row_major
from polyreme.lowering.code import Code, Index
from polyreme.lowering.conv import tile_sizes
from polyreme.lowering.elements import load
from polyreme.lowering.epilogue import place
from polyreme.lowering.microkernel import MOST_UNROLLED, UNROLL, Axis, accumulate, cover, join_axes, split_extent, step_cycles, zeros
from polyreme.lowering.packing import Panels, PlanParts
from polyreme.lowering.padded_copy import PaddedCopy
from polyreme.lowering.positions import Position, total
from polyreme.lowering.problem import GRAIN_CYCLES, PIECE_CYCLES, PIECES, TYPICAL, Problem, find_problem, in_words, typical
from polyreme.lowering.rows import shape_of
from polyreme.lowering.schedule import KernelPlan, Request, Slot, Step, operand, result
from polyreme.lowering.sweep import estimate

# Parts of the second-level cache, 1 / so many each: the image of a task, sums that wait, and what is read of a panel before the next tile reads it again.
IMAGE_SHARE, SUMS_SHARE, PANEL_SHARE = 4, 8, 2
# A second-level cache counts as no larger: what a task keeps lies on the stack of its thread.
MOST_ROOM = 1 << 20
# Weights of more than this part of the third-level cache are taken for far.
FAR_SHARE = 8
# Pixels of a row, or rows, that an image of unknown size is planned for at least.
LEAST_PIXELS = 16
# Tiles of a task, before it is cut for the threads' sake.
ENOUGH_TILES = 8


def build_direct(request: Request) -> KernelPlan | None:
    """The plan of a group around a convolution that gives its channels last; None for any other group."""
    problem = find_problem(request, words=True)
    if problem is None:
        return None
    lane = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if lane is None or lane in problem.batch:
        return None
    if lane in problem.rows:
        problem = problem.flipped()
    problem = in_words(problem)
    window = None if problem is None else _windows(problem)
    if problem is None or window is None or not all(isinstance(problem.size(c), int) for c in (lane, *problem.contracted)):
        return None
    slid = [problem.left_letters[axis] for axis in window.axes]
    # Only the innermost two letters are tiled; others become loops outside.
    spatial = [c for c in problem.rows if c in slid and problem.size(c) != 1][-2:]
    direct = Direct(problem, lane, tuple(spatial), window)
    return direct.build() if spatial and direct.possible() else None


def _windows(p: Problem) -> tensor.Window | None:
    """What slides over the image, when the left operand is its windows as they are."""
    value = p.contract.a if p.right_is_b else p.contract.b
    window: tensor.Window | None = value.producer(tensor.Window)
    return window


class Direct:
    """Makes the plan: the memory of image and weights, tile, pieces, then the kernel."""

    def __init__(self, problem: Problem, lane: str, spatial: tuple[str, ...], window: tensor.Window):
        self.p, self.lane, self.spatial, self.window = problem, lane, spatial, window
        self.parts = PlanParts(problem.request)
        self.lanes = problem.registers.lanes
        self.outer = [c for c in problem.out if c != lane and c not in spatial and problem.size(c) != 1]
        self.n = typical(problem.size(lane))
        self.k = typical(product(problem.size(c) for c in problem.contracted))
        self.extents = [_assumed(problem.size(c)) for c in spatial]
        at = [problem.out.index(c) for c in spatial]
        self.steps = [typical(problem.epilogue.steps[i]) for i in at]
        self.reaches = [typical(problem.epilogue.reaches[i]) for i in at]
        # How many pixels the result has, by letter, and as many to reckon with.
        self.whole = [problem.epilogue.shape[i] for i in at]
        self.outputs = [_assumed(n) for n in self.whole]

    def possible(self) -> bool:
        """Whether pooling is along the pixels only, by known sizes."""
        epilogue = self.p.epilogue
        others = [i for i, c in enumerate(self.p.out) if c not in self.spatial]
        known = all(isinstance(n, int) for n in (*epilogue.steps, *epilogue.reaches))
        return known and all(n > 0 for n in self.outputs) and all(epilogue.steps[i] == 1 and epilogue.reaches[i] == 1 for i in others)

    # --- the image

    @cached_property
    def pad(self) -> tensor.Pad | None:
        """The pad under the windows, if tasks see to it: one around an image in memory, that leaves its batch and channels alone."""
        pad: tensor.Pad | None = self.window.x.producer(tensor.Pad)
        if pad is None or any(n != 0 for n in pad.interior):
            return None
        if prod(self.region(self.needed(self.pieces()))) * self.image_bytes > MOST_ROOM:
            return None
        amounts = list(enumerate(zip(pad.low, pad.high, strict=True)))
        known = all(isinstance(n, int) for _, pair in amounts for n in pair)
        return pad if known and not any(any(pair) for i, pair in amounts if i not in self.window.axes) else None

    @property
    def image_bytes(self) -> int:
        """Bytes of an element of the image."""
        return element_type(self.window.x.type).bytes

    def region(self, counts: Sequence[int]) -> tuple[int, ...]:
        """The extents of the image under the windows of a rectangle of `counts` pixels, by axis."""
        letters = self.p.left_letters
        counted = dict(zip(self.spatial, counts, strict=True))
        sizes = []
        for axis, size in enumerate(shape_of(self.window.x)):
            if axis in self.window.axes:
                i = self.window.axes.index(axis)
                taps, stride, dilation = (typical(v[i]) for v in (self.window.sizes, self.window.strides, self.window.dilations))
                sizes.append((counted.get(letters[axis], 1) - 1) * stride + (taps - 1) * dilation + 1)
            else:
                sizes.append(1 if letters[axis] in self.outer or letters[axis] in self.p.out else typical(size))
        return tuple(sizes)

    # --- sizes of tiles and tasks

    @cached_property
    def tile(self) -> tuple[int, int, int]:
        """(high, wide, vectors) with the fewest estimated cycles: part of a row of pixels, or some whole rows."""
        across = -(-self.n // self.lanes)
        *above, width = self.extents
        height = above[0] if above else 1
        if not isinstance(self.whole[-1], int):
            width, height = TYPICAL, 1
        most = self.p.registers.accumulators
        best: tuple[float, int, int, int] | None = None
        for vectors in range(1, min(across, 6) + 1):
            pixels = max(1, most // vectors)
            wide = -(-width // -(-width // min(pixels, width)))
            high = max(1, min(height, pixels // wide)) if wide == width else 1
            high = -(-height // -(-height // high))
            cost = sum(
                times_v * times_y * times_x * (self.k * step_cycles(y * x, v) + 20 + 1.5 * y * x * v)
                for v, times_v in split_extent(across, vectors)
                for y, times_y in split_extent(height, high)
                for x, times_x in split_extent(width, wide)
            )
            if best is None or (cost, -vectors) < best[:2]:
                best = cost, -vectors, high, wide
        assert best is not None
        return best[2], best[3], -best[1]

    @property
    def width(self) -> int:
        """Lanes of a panel."""
        return self.tile[2] * self.lanes

    @cached_property
    def blocks(self) -> int:
        """Into how many blocks the taps are cut, so that a panel's part stays in the second-level cache from tile to tile."""
        room = self.p.request.target.caches[1] // PANEL_SHARE
        return -(-self.k * self.width * self.p.dtype.bytes // room)

    @property
    def is_far(self) -> bool:
        """Whether the weights come from memory each time: so many that a network of such convolutions leaves none in the third-level cache."""
        return self.k * -(-self.n // self.width) * self.width * self.p.dtype.bytes > self.p.request.target.caches[2] // FAR_SHARE

    @property
    def keeps(self) -> bool:
        """Whether the sums of a panel wait in a scratch tile."""
        return self.p.epilogue.pools or self.blocks > 1

    def cycles(self) -> float:
        """An estimate for one place of the outer letters."""
        high, wide, vectors = self.tile
        across = -(-self.n // self.lanes)
        return prod(self.extents) * across / (high * wide * vectors) * self.k * step_cycles(high * wide, vectors)

    def needed(self, outputs: Sequence[int]) -> list[int]:
        """The pixels of the contract that so many of the result need, by letter."""
        return [(n - 1) * s + r for n, s, r in zip(outputs, self.steps, self.reaches, strict=True)]

    def _fits(self, outputs: Sequence[int]) -> bool:
        room = min(self.p.request.target.caches[1], MOST_ROOM)
        needed = self.needed(outputs)
        # Windows with gaps between them leave out some of the region.
        image = min(prod(self.region(needed)) * self.image_bytes, prod(needed) * self.k * self.p.dtype.bytes)
        sums = prod(needed) * self.width * self.p.dtype.bytes if self.keeps else 0
        return image <= room // IMAGE_SHARE and sums <= room // SUMS_SHARE

    def pieces(self) -> list[int]:
        """Pixels of the result in a task, by letter: what fits the cache, and no more than leaves work for the threads."""
        size = list(self.outputs)
        high, wide, _ = self.tile
        least = [-(-t // s) for t, s in zip(([high, wide] if len(size) > 1 else [wide]), self.steps, strict=True)]
        size[-1] = self._piece(-1, least[-1], lambda n: self._fits([1] * (len(size) - 1) + [n]))
        if len(size) > 1:
            size[0] = self._piece(0, least[0], lambda n: self._fits([n, size[1]]))
            # Threads share panels rather than pixels: a task takes each panel from far away once.
            panels = -(-self.n // self.width)
            around = max(estimate(product(self.p.size(c) for c in self.outer)), 1) * panels * -(-self.outputs[-1] // size[-1])
            enough = self.outputs[0] * -(-self.outputs[-1] // self.tile[1]) // (ENOUGH_TILES * self.tile[0])
            wanted = min(-(-PIECES // around), int(self.cycles() / PIECE_CYCLES), self.outputs[0] // least[0], max(1, enough))
            if wanted > -(-self.outputs[0] // size[0]):
                size[0] = _even(self.outputs[0], wanted, least[0])
        if not isinstance(self.whole[-1], int):
            size[-1] = -(-size[-1] // least[-1]) * least[-1]
        return size

    def _piece(self, axis: int, least: int, fits: Callable[[int], bool]) -> int:
        """The largest of about equal pieces along a letter that fits; `least` if none does."""
        whole = self.outputs[axis]
        sizes = (_even(whole, pieces, least) for pieces in range(2, whole // least + 1))
        return whole if fits(whole) else next((n for n in sizes if fits(n)), min(least, whole))

    # --- the kernel

    def build(self) -> KernelPlan:
        p, parts = self.p, self.parts
        image = self._image_slot()
        outer = tuple(c for c in self.outer if p.right.stride(c) != 0)
        self.panels = Panels(outer, tuple(self._order()), self.lane, self.width, p.sizes)
        weights = parts.packed(p.contract.b if p.right_is_b else p.contract.a, p.right_letters, p.right, self.panels, near=p.near)
        slots = [image, weights, *(operand(a.index) for a in p.epilogue.args), *(result(i) for i in range(len(p.epilogue.values)))]
        func = Func.empty(p.request.name("conv"), [parts.buffer_type(s) for s in slots], loc=p.contract.location)
        code = Code(Builder.at_end(func.block, func.location))
        size = self.pieces()
        counts = [ceildiv(n, s) for n, s in zip(self.whole, size, strict=True)]
        pieces = max(estimate(product(counts)), 1)
        sizes = [p.size(c) for c in self.outer]
        tasks = max(estimate(product(sizes)), 1) * pieces
        panels = -(-self.n // self.width)
        chunk = -(-panels // max(1, min(panels, PIECES // tasks, int(self.cycles() / PIECE_CYCLES / pieces))))
        chunks = -(-panels // chunk)
        per_task = self.cycles() / pieces / chunks
        with code.parallel(code.value(product([*sizes, *counts, chunks])), grain=max(1, int(GRAIN_CYCLES / max(per_task, 1))), name="task") as flat:
            *around, part = code.split(flat, [*sizes, product([*counts, chunks])])
            *corner, first = code.split(part, [*counts, chunks])
            here = dict(zip(self.outer, around, strict=True))
            starts = [code.mul(i, s) for i, s in zip(corner, size, strict=True)]

            def run(axis: int, chosen: list[Index], most: list[int]) -> None:
                """The last piece along an axis may be smaller than the others."""
                if axis == len(size):
                    _Task(self, code, func.args, here, starts, chosen, most).run(code.mul(first, chunk), chunk, panels)
                    return
                extent, piece = self.whole[axis], size[axis]
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
        return parts.plan("direct")

    @cached_property
    def apart(self) -> str | None:
        """The taps along a row of pixels, if steps over them would be written out side by side: neighbouring pixels share what they read there, and would keep it
        in more registers than there are. They become the outermost loop instead."""
        p = self.p
        taps = p.left_letters[len(shape_of(self.window.x)) :]
        along = taps[self.window.axes.index(p.left_letters.index(self.spatial[-1]))]
        inner = 1
        for letter in reversed(self._by_distance()):
            inner *= typical(p.size(letter))
            if letter == along:
                return along if 1 < typical(p.size(along)) and inner <= MOST_UNROLLED else None
        return None

    def _by_distance(self) -> list[str]:
        """The contracted letters, far ones first."""
        return sorted(self.p.contracted, key=lambda c: -estimate(self.p.left.stride(c)))

    def _order(self) -> list[str]:
        """The contracted letters, the outermost first."""
        return sorted(self._by_distance(), key=lambda c: c != self.apart)

    def _image_slot(self) -> Slot:
        if self.pad is None:
            return self.parts.memory_of(self.p.left.source)
        return self.parts.memory_of(_behind_reshapes(self.pad.x))


def _behind_reshapes(value: Value) -> Value:
    reshape = value.producer(tensor.Reshape)
    while reshape is not None:
        value = reshape.x
        reshape = value.producer(tensor.Reshape)
    return value


def _assumed(size: Dim) -> int:
    """A number of pixels to reckon with: one that is not known is taken for large enough to be worth a large tile."""
    return size if isinstance(size, int) else max(estimate(size), LEAST_PIXELS)


def _even(whole: int, pieces: int, multiple: int) -> int:
    """The size of about so many equal pieces of `whole`, each but the last a multiple of `multiple`: one that leaves no rest, if some is near."""
    size = max(multiple, -(-whole // max(pieces, 1) // multiple) * multiple)
    return next((s for s in range(size, max(multiple, size * 3 // 4) - 1, -multiple) if whole % s == 0), size)


def _tile_sizes(extent: Index, size: int) -> list[int]:
    """Tiles that cover an extent: whole ones, then the one rest of a known one, or powers of two."""
    if isinstance(extent, int):
        return tile_sizes(extent, size)
    return [size, *(1 << i for i in range((size - 1).bit_length() - 1, -1, -1))] if size > 1 else [1]


class _Task:
    """A rectangle of `outputs` pixels of one image, `most` at most, and some of its panels."""

    def __init__(
        self,
        direct: Direct,
        code: Code,
        args: Sequence[Value],
        around: dict[str, Index],
        starts: Sequence[Index],
        outputs: Sequence[Index],
        most: Sequence[int],
    ):
        self.direct, self.p, self.code = direct, direct.p, code
        count = len(self.p.epilogue.args)
        # Words of the weights, and of the image unless it is copied first.
        self.image = args[0] if direct.pad is not None or self.p.near is None else code.words(args[0])
        self.weights = args[1] if self.p.near is None else code.words(args[1])
        self.buffers: dict[Value, Value] = dict(zip(self.p.epilogue.args, args[2 : 2 + count], strict=True))
        self.results = list(args[2 + count :])
        self.around, self.starts, self.outputs = around, list(starts), list(outputs)
        # Pixels of the contract, by letter.
        self.counts = [code.add(code.mul(code.sub(n, 1), s), r) for n, s, r in zip(outputs, direct.steps, direct.reaches, strict=True)]
        self.most = direct.needed(most)
        self.pixels0 = [code.mul(i, s) for i, s in zip(starts, direct.steps, strict=True)]

    def run(self, first: Index, chunk: int, panels: int) -> None:
        """All panels from `first` on, `chunk` of them at most."""
        direct, p, code = self.direct, self.p, self.code
        left = dict(p.left.strides)
        if direct.pad is None:
            self.at = code.add(p.left.base, *(code.mul(i, p.left.stride(c)) for c, i in self.around.items()))
            self.at = code.add(self.at, *(code.mul(i, p.left.stride(c)) for c, i in zip(direct.spatial, self.pixels0, strict=True)))
        else:
            left = self._copy(direct.pad)
            self.at = 0
        self.moves = [left.get(c, 0) for c in direct.spatial]
        strides = direct.panels.strides
        axes = [Axis(p.size(c), left.get(c, 0), strides[c]) for c in direct.panels.contracted]
        self.axes = join_axes(axes) if direct.apart is None else [axes[0], *join_axes(axes[1:])]
        self.weights0 = code.add(0, *(code.mul(i, strides[c] if c in strides else 0) for c, i in self.around.items() if c in strides))
        if direct.keeps:
            self.sums = code.scratch(prod(self.most) * direct.width, p.dtype)
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
        inside = tuple(int(s) for s in row_major(region))
        letters = p.left_letters
        rank = len(region)
        moves: dict[str, Dim] = {}
        starts: list[Index] = []
        origin = dict(zip(direct.spatial, self.pixels0, strict=True))
        for axis in range(rank):
            letter = letters[axis]
            if axis in window.axes:
                i = window.axes.index(axis)
                moves[letter], moves[letters[rank + i]] = window.strides[i] * inside[axis], window.dilations[i] * inside[axis]
                here = origin.get(letter, self.around.get(letter, 0))
                starts.append(code.sub(code.mul(here, window.strides[i]), pad.low[axis]))
            else:
                moves[letter] = inside[axis]
                starts.append(self.around.get(letter, 0))
        counts = dict(zip(direct.spatial, self.counts, strict=True))
        # A region of unknown size may reach further than the image and its padding.
        edges = tuple((pad.low[i] != 0, pad.high[i] != 0 or isinstance(counts.get(letters[i], 0), Value)) for i in range(rank))
        copy = PaddedCopy(code, p.request.target, self.image, pad, region, tuple(starts), edges, direct.window.axes).make()
        self.image = copy if p.near is None else code.words(copy)
        return p.in_words(moves)

    # --- tiles

    def _panel(self, panel: Index, vectors: int, valid: int | None) -> None:
        """All pixels by the lanes of one panel, of which `valid` exist (None: all)."""
        direct, code = self.direct, self.code
        high, wide, most = direct.tile
        weights = code.add(self.weights0, code.mul(panel, direct.panels.panel_size))
        lane0 = code.mul(panel, direct.width)
        *above, width = self.counts
        across = -(-self.most[-1] // wide)
        # Lines of a step of the next panel, or the next part of this one, that each tile asks for ahead of time: together they ask for all.
        lines = -(-most // (across * (-(-self.most[0] // high) if above else 1)))

        def tiles(axes: Sequence[Axis], at: Index, weights: Index, add: bool) -> None:
            further = product(a.size for a in axes) * direct.width

            def row(y: Index, rows: int) -> None:
                def tile(x: Index, columns: int) -> None:
                    corner = [y, x][-len(self.counts) :]
                    number = code.add(code.mul(code.div(y, high), across), code.div(x, wide))
                    first = code.mul(code.mod(number, -(-most // lines)), lines * direct.lanes)
                    ahead = [code.add(further, first, i * direct.lanes) for i in range(lines)] if direct.is_far else []
                    self._tile(corner, (rows, columns), axes, at, weights, lane0, vectors, valid, add, ahead)

                cover(code, width, _tile_sizes(width, wide), tile, "x")

            if above:
                cover(code, above[0], _tile_sizes(above[0], high), row, "y")
            else:
                row(0, 1)

        if direct.blocks == 1:
            tiles(self.axes, self.at, weights, False)
        else:
            self._clear()
            outermost, *inner = self.axes
            depth = -(-typical(outermost.size) // direct.blocks)
            depth = depth if inner else -(-depth // UNROLL) * UNROLL
            whole, rest = divmod(typical(outermost.size), depth)
            with code.loop(0, whole, name="block") as loop:
                start = code.mul(loop.iv, depth)
                here, there = code.add(self.at, code.mul(start, outermost.a)), code.add(weights, code.mul(start, outermost.b))
                tiles([replace(outermost, size=depth), *inner], here, there, True)
            if rest:
                done = whole * depth
                tiles([replace(outermost, size=rest), *inner], code.add(self.at, done * outermost.a), code.add(weights, done * outermost.b), True)
        if direct.keeps:
            self._kept(lane0, vectors, valid)

    def _tile(
        self,
        corner: Sequence[Index],
        size: tuple[int, int],
        axes: Sequence[Axis],
        at: Index,
        weights: Index,
        lane0: Index,
        vectors: int,
        valid: int | None,
        add: bool,
        ahead: Sequence[Index],
    ) -> None:
        """One tile, from beginning to end, or with `add` some of its steps; each asks for the weights that lie `ahead` of it by so many elements."""
        code, lanes, dtype = self.code, self.direct.lanes, self.p.dtype
        offsets = [(y, x)[-len(corner) :] for y in range(size[0]) for x in range(size[1])]
        moved = [sum(o * m for o, m in zip(offset, self.moves, strict=True)) for offset in offsets]
        align = lanes * dtype.bytes

        def image(r: int, position: Index) -> Value:
            return code.broadcast(code.load(self.image, code.add(position, moved[r])), lanes)

        def weight(v: int, position: Index) -> Value:
            for further in ahead if v == 0 else ():
                code.prefetch(self.weights, code.add(position, further), locality=2)
            return code.load(self.weights, code.add(position, v * lanes), lanes, None, align)

        at = code.add(at, *(code.mul(c, m) for c, m in zip(corner, self.moves, strict=True)))
        if not self.direct.keeps and self.p.epilogue.beside:
            self._prefetch(corner, offsets, lane0, vectors)
        start = self._kept_at(corner, offsets) if self.direct.keeps else []
        if add:
            acc = [[code.load(self.sums, code.add(to, v * lanes), lanes, None, align) for v in range(vectors)] for to in start]
        else:
            acc = zeros(code, len(offsets), vectors, dtype, lanes)
        if self.direct.apart is None:
            acc = accumulate(code, axes, image, weight, acc, at, weights)
        else:
            outer, *inner = axes
            with code.loop(0, outer.size, [x for line in acc for x in line], name="tap") as loop:
                here, there = code.add(at, code.mul(loop.iv, outer.a)), code.add(weights, code.mul(loop.iv, outer.b))
                carried = [loop.carried[i : i + vectors] for i in range(0, len(loop.carried), vectors)]
                loop.next = [x for line in accumulate(code, inner, image, weight, carried, here, there) for x in line]
            acc = [loop.results[i : i + vectors] for i in range(0, len(loop.results), vectors)]
        if not self.direct.keeps:
            self._finish(corner, offsets, acc, lane0, valid)
            return
        for to, line in zip(start, acc, strict=True):
            for v, sums in enumerate(line):
                code.store(sums, self.sums, code.add(to, v * lanes), None, align)

    def _masks(self, vectors: int, valid: int | None) -> list[Value | None]:
        lanes = self.direct.lanes
        return [None if valid is None else self.code.lane_mask(valid - v * lanes, lanes) for v in range(vectors)]

    def _places(self, pixel: Sequence[Position], lane: Position) -> list[Position]:
        at = {c: place(i) for c, i in self.around.items()}
        at.update(zip(self.direct.spatial, pixel, strict=True))
        at[self.direct.lane] = lane
        return [at.get(c, Position()) for c in self.p.out]

    def _prefetch(self, corner: Sequence[Index], offsets: Sequence[tuple[int, ...]], lane0: Index, vectors: int) -> None:
        """Ask for what is read at the places of a tile's results."""
        code, p = self.code, self.p
        start = [place(code.add(o, c)) for o, c in zip(self.pixels0, corner, strict=True)]
        for offset in offsets:
            pixel = [s.plus(code, Position(o)) for s, o in zip(start, offset, strict=True)]
            for lane in range(0, vectors * self.direct.lanes, p.request.target.line_bytes // p.dtype.bytes):
                p.epilogue.prefetch(code, self.buffers, self._places(pixel, place(lane0, lane)))

    def _finish(self, corner: Sequence[Index], offsets: Sequence[tuple[int, ...]], acc: list[list[Value]], lane0: Index, valid: int | None) -> None:
        """The results of a tile from its sums."""
        code, p, lanes = self.code, self.p, self.direct.lanes
        masks = self._masks(len(acc[0]), valid)
        current: list[Value] = []

        def leaf(places: tuple[Position, ...], _lanes: int, _mask: Value | None) -> Value:
            return current[0]

        leaf.varies = lanes > 1  # type: ignore[attr-defined]
        emitter = p.epilogue.emitter(code, self.buffers, leaf)
        start = [place(code.add(o, c)) for o, c in zip(self.pixels0, corner, strict=True)]
        for offset, line in zip(offsets, acc, strict=True):
            pixel = [s.plus(code, Position(o)) for s, o in zip(start, offset, strict=True)]
            for v, sums in enumerate(line):
                current[:] = [sums]
                p.epilogue.write(emitter, self.results, self._places(pixel, place(lane0, v * lanes, int(lanes > 1))), lanes, masks[v])

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

        def pixels(axis: int, pixel: list[Position]) -> None:
            if axis < len(self.outputs):
                with code.loop(0, self.outputs[axis], name="yx"[axis]) as loop:
                    pixels(axis + 1, [*pixel, place(self.starts[axis]).plus(code, place(loop.iv))])
                return

            def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
                at = dict(zip(p.out, places, strict=True))
                parts = [at[c].plus(code, place(o).times(code, -1)).times(code, s) for c, o, s in zip(direct.spatial, self.pixels0, strides, strict=True)]
                return load(code, self.sums, total(code, [*parts, at[direct.lane].plus(code, place(lane0).times(code, -1))]), lanes, mask)

            emitter = p.epilogue.emitter(code, self.buffers, leaf)
            for v in range(vectors):
                p.epilogue.write(emitter, self.results, self._places(pixel, place(lane0, v * lanes, int(lanes > 1))), lanes, masks[v])

        pixels(0, [])

