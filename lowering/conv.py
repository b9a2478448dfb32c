"""Convolutions, forward and backward: contracts whose result ends with positions in an image.

Such a contract has an image (the operand with the result's last letters, its *spatial* ones), and weights that give the letter before them, the
*channel*. The image is read in place, whatever its windows: padding alone is made first, by whoever makes the image. Gradients of weights have the
same form, the window's letters being the positions. A register tile has its lanes along one of two axes:

- *channels*: weights are packed into panels of channels, the pixels of a small rectangle are the tile's rows. Sums come out with channels
  together and are transposed in blocks.
- *pixels*: lanes run along a row of the image, which is read as it stands; channels are the tile's rows. For few channels, such as the first layer's.

Both leave the sums of a piece of the image in a scratch tile, channel by channel, from which the epilogue (bias, activation, pooling) makes the results
while it lies in the first-level cache. A pooling that overlaps the next piece computes the rows in common twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.define import View
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.types import element_type
from polyreme.lowering.code import Code, Index
from polyreme.lowering.elements import Leaf, linear, load
from polyreme.lowering.epilogue import place
from polyreme.lowering.microkernel import Axis, accumulate, choose_tile, cover, join_axes, step_cycles, transpose_lanes, zeros
from polyreme.lowering.packing import Panels, PlanParts
from polyreme.lowering.positions import Position, total
from polyreme.lowering.problem import GRAIN_CYCLES, PIECE_CYCLES, PIECES, Problem, find_problem, typical
from polyreme.lowering.schedule import KernelPlan, Request, Slot, Step, operand, result

# Bytes of the scratch tiles of one task: they share the first-level cache with what the tile reads, and live on the stack.
SCRATCH_BYTES = 96 << 10
# Pixels of a result that are turned by code without loops.
MOST_TURNED = 64


def build_conv(request: Request) -> KernelPlan | None:
    """The plan of a group around a convolution; None for any other group, or where generic loops or a matrix product do better."""
    problem = find_problem(request)
    if problem is None:
        return None
    last = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if last is None or last in problem.batch:
        return None
    if last not in problem.rows:
        problem = problem.flipped()
    image = _image(problem)
    if image is None:
        return None
    plans = [way for way in (_Channels(image), _Pixels(image)) if way.possible()]
    if not plans:
        return None
    return min(plans, key=lambda way: way.cycles()).build()


@dataclass(frozen=True)
class Image:
    """A problem whose left operand is the image: `spatial` letters of the result, the last ones, and the `channel` (None: there is one only)."""

    problem: Problem
    spatial: tuple[str, ...]
    channel: str | None

    @property
    def channels(self) -> Dim:
        return 1 if self.channel is None else self.problem.size(self.channel)

    @property
    def outer(self) -> list[str]:
        return [c for c in self.problem.out if c not in self.spatial and c != self.channel and self.problem.size(c) != 1]

    def sizes(self) -> list[int]:
        """Sizes of the spatial letters."""
        return [n for c in self.spatial if isinstance(n := self.problem.size(c), int)]


def _image(p: Problem) -> Image | None:
    """The problem as one of images; None when its result is a plain matrix (then the rows and columns of a matrix product do better)."""
    spatial: list[str] = []
    for letter in reversed(p.out):
        if (letter not in p.rows and p.size(letter) != 1) or not isinstance(p.size(letter), int):
            break
        if letter in p.rows:
            spatial.insert(0, letter)
    lanes = [c for c in p.out if c in p.right_letters and c not in p.left_letters and p.size(c) != 1]
    if not spatial:
        return None
    if not _is_windowed(p) and not p.epilogue.pools and len(spatial) < 2:
        return None
    channel = lanes[-1] if lanes else None
    # Only the innermost spatial letters are tiled; more than three of them become loops outside.
    return Image(p, tuple(spatial[-3:]), channel)


def _is_windowed(p: Problem) -> bool:
    """Whether a window is among the views that make an operand."""
    todo = [p.contract.a, p.contract.b]
    while todo:
        op = todo.pop().producer()
        if isinstance(op, tensor.Window):
            return True
        if op is not None and op.has(View):
            todo += op.operands
    return False


class _Way:
    """What both ways of tiling share: pieces of the image, the scratch tile, the epilogue."""

    def __init__(self, image: Image):
        self.image, self.p = image, image.problem
        self.parts = PlanParts(self.p.request)
        self.lanes = self.p.registers.lanes
        self.extents = image.sizes()
        self.k = product(self.p.size(c) for c in self.p.contracted)
        self.steps = [self._of(self.p.epilogue.steps, c) for c in image.spatial]
        self.reaches = [self._of(self.p.epilogue.reaches, c) for c in image.spatial]
        self.outputs = [typical(self.p.epilogue.shape[self.p.out.index(c)]) for c in image.spatial]

    def _of(self, values: Sequence[Dim], letter: str) -> int:
        value = values[self.p.out.index(letter)]
        return value if isinstance(value, int) else 0

    def possible(self) -> bool:
        """Whether this way can compute the problem."""
        p = self.p
        others = [c for c in p.out if c not in self.image.spatial]
        plain = all(p.epilogue.steps[p.out.index(c)] == 1 and p.epilogue.reaches[p.out.index(c)] == 1 for c in others)
        return plain and all(self.steps) and all(self.reaches) and all(n > 0 for n in self.outputs) and self.scratch_bytes(self._rows_for(1)) <= SCRATCH_BYTES

    def cycles(self) -> float:
        """An estimate for one place of the outer letters."""
        raise NotImplementedError

    def scratch_bytes(self, rows: int) -> int:
        """Bytes of scratch for `rows` of the first spatial letter."""
        raise NotImplementedError

    def channels_at_once(self) -> int:
        """Channels of a task."""
        raise NotImplementedError

    def operands(self) -> tuple[Slot, Slot]:
        """Memory of the image and of the weights."""
        raise NotImplementedError

    def fill(self, task: _Task) -> Value:
        """Compute the sums of a task, and give the scratch tile that holds them."""
        raise NotImplementedError

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        """Strides of the channel and the spatial letters in the scratch tile for `rows` of the first spatial letter."""
        raise NotImplementedError

    def _rows_for(self, outputs: int) -> int:
        """Rows of the contract that so many rows of the result need."""
        return (outputs - 1) * self.steps[0] + self.reaches[0]

    def _piece(self, blocks: int) -> int:
        """Rows of the result in a piece: as many as the scratch allows, fewer when that leaves threads idle."""
        piece = self.outputs[0]
        while piece > 1 and self.scratch_bytes(self._rows_for(piece)) > SCRATCH_BYTES:
            piece = -(-piece // 2)
        wanted = min(-(-PIECES // blocks), int(self.cycles() / PIECE_CYCLES))
        # Even pieces: a last one with few rows would leave the tile half empty.
        count = max(-(-self.outputs[0] // piece), min(wanted, self.outputs[0]), 1)
        return -(-self.outputs[0] // count)

    def build(self) -> KernelPlan:
        p, image = self.p, self.image
        slots = [*self.operands(), *(operand(a.index) for a in p.epilogue.args), *(result(i) for i in range(len(p.epilogue.values)))]
        func = Func.empty(p.request.name("conv"), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location)
        code = Code(Builder.at_end(func.block, func.location))
        at_once = self.channels_at_once()
        blocks = ceildiv(image.channels, at_once)
        sizes = [p.size(c) for c in image.outer]
        piece = self._piece(typical(product(sizes)) * typical(blocks))
        pieces = -(-self.outputs[0] // piece)
        per_task = self.cycles() / typical(blocks) / pieces
        with code.parallel(code.value(product(sizes) * blocks * pieces), grain=max(1, int(GRAIN_CYCLES / max(per_task, 1))), name="task") as flat:
            *around, block, part = code.split(flat, [*sizes, blocks, pieces])
            here = dict(zip(image.outer, around, strict=True)), code.mul(block, at_once), code.mul(part, piece)
            rest = self.outputs[0] % piece
            if not rest:
                _Task(self, code, func.args, *here, piece).run()
            else:
                whole = code.condition("lt", part, pieces - 1)
                assert isinstance(whole, Value)
                with code.when(whole):
                    _Task(self, code, func.args, *here, piece).run()
                with code.when(whole, then=False):
                    _Task(self, code, func.args, *here, rest).run()
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("conv")


class _Task:
    """One piece of one image, for one block of channels."""

    def __init__(self, way: _Way, code: Code, args: Sequence[Value], around: dict[str, Index], channel0: Index, output0: Index, outputs: int):
        self.way, self.code, self.p = way, code, way.p
        self.image_buffer, self.weights = args[0], args[1]
        count = len(self.p.epilogue.args)
        self.buffers: dict[Value, Value] = dict(zip(self.p.epilogue.args, args[2 : 2 + count], strict=True))
        self.outs = list(args[2 + count :])
        self.around, self.channel0, self.output0 = around, channel0, output0
        self.outputs = outputs
        self.rows = way._rows_for(outputs)
        self.row0 = code.mul(self.output0, way.steps[0])

    def image_at(self) -> Index:
        """Where the image's part for this task begins."""
        code, left = self.code, self.p.left
        here = code.add(left.base, *(code.mul(i, left.stride(c)) for c, i in self.around.items()))
        return code.add(here, code.mul(self.row0, left.stride(self.way.image.spatial[0])))

    def run(self) -> None:
        """Sums into scratch, then results from it."""
        code, way = self.code, self.way
        tile = way.fill(self)
        if isinstance(way, _Channels) and way.pools_before_turning:
            self._pooled(way, tile)
            return
        channel = way.image.channel
        leaf = self._leaf(tile, way.tile_strides(self.rows))
        at = {c: place(i) for c, i in self.around.items()}
        at_once = way.channels_at_once()
        channels: Index = at_once
        whole = way.image.channels
        if not isinstance(whole, int) or whole % at_once:
            channels = code.min(at_once, code.sub(whole, self.channel0))
        if channel is None:
            self._outputs(at, 0, leaf)
        else:
            with code.loop(0, channels, name="channel") as loop:
                at[channel] = place(self.channel0).plus(code, place(loop.iv))
                self._outputs(at, 0, leaf)

    def _leaf(self, tile: Value, strides: tuple[int, ...]) -> Leaf:
        """The sums in a scratch tile, whose channel and spatial letters have these strides."""
        code, way, p = self.code, self.way, self.p
        spatial, channel = way.image.spatial, way.image.channel
        letters = [channel, *spatial]
        origin = [place(self.channel0), place(self.output0).times(code, way.steps[0])]

        def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
            at = dict(zip(p.out, places, strict=True))
            parts = [at[c].times(code, s) for c, s in zip(letters, strides, strict=True) if c is not None]
            corner = [o.times(code, -s) for o, s in zip(origin, strides, strict=False)]
            if channel is None:
                corner = corner[1:]
            return load(code, tile, total(code, [*parts, *corner]), lanes, mask)

        return leaf

    def _pooled(self, way: _Channels, sums: Value) -> None:
        """The results of sums that still lie pixel by pixel: made so, with lanes along the channels, and then turned."""
        code, p, lanes, width = self.code, self.p, way.lanes, way.channels_at_once()
        channel, spatial = way.image.channel, way.image.spatial
        assert channel is not None
        emitter = p.epilogue.emitter(code, self.buffers, self._leaf(sums, (1, *(width * s for s in _strides((self.rows, *way.extents[1:]))))))
        sizes = [self.outputs, *way.outputs[1:]]
        pixels, align = prod(sizes), lanes * p.dtype.bytes
        made = code.scratch(-(-pixels // lanes) * lanes * width, p.dtype)
        around = {c: place(i) for c, i in self.around.items()}

        def places(first: Index, lane_step: int, *at: Position) -> list[Position]:
            where = {**around, channel: place(self.channel0).plus(code, place(first, 0, lane_step)), **dict(zip(spatial, at, strict=True))}
            where[spatial[0]] = place(self.output0).plus(code, where[spatial[0]])
            return [where.get(c, Position()) for c in p.out]

        with code.loop(0, pixels, name="pixel") as loop:
            at = [place(i) for i in code.split(loop.iv, sizes)]
            for v in range(0, width, lanes):
                value = emitter.at(p.epilogue.values[0], places(v, 1, *at), lanes, None)
                code.store(value, made, code.add(code.mul(loop.iv, width), v), None, align)
        origin = [Position()] * len(spatial)
        for first in range(0, pixels, lanes):
            mask = code.lane_mask(min(lanes, pixels - first), lanes)
            for v in range(0, width, lanes):
                block = [code.load(made, (first + i) * width + v, lanes, None, align) for i in range(lanes)]
                for i, vector in enumerate(transpose_lanes(code, block)):
                    to = linear(code, places(v + i, 0, *origin), p.epilogue.shape)
                    code.store(vector, self.outs[0], code.add(to.scalar(code), first), mask)

    def _outputs(self, at: dict[str, Position], axis: int, leaf: Leaf) -> None:
        """Loops over the piece's result positions from spatial letter `axis` on; lanes along the last one."""
        code, way, p = self.code, self.way, self.p
        letter = way.image.spatial[axis]
        start = place(self.output0) if axis == 0 else Position()
        size = self.outputs if axis == 0 else way.outputs[axis]
        if axis + 1 < len(way.image.spatial):
            with code.loop(0, size, name=letter) as loop:
                self._outputs({**at, letter: start.plus(code, place(loop.iv))}, axis + 1, leaf)
            return
        lanes = way.lanes
        emitter = p.epilogue.emitter(code, self.buffers, leaf)

        def vector(x: Index, valid: int) -> None:
            step = Position(step=int(lanes > 1))
            inside = {**at, letter: start.plus(code, place(x)).plus(code, step)}
            places = [inside.get(c, Position()) for c in p.out]
            p.epilogue.write(emitter, self.outs, places, lanes, code.lane_mask(valid, lanes))

        whole = size // lanes
        if whole > 1:
            with code.loop(0, whole * lanes, step=lanes, name=letter) as loop:
                vector(loop.iv, lanes)
        elif whole:
            vector(0, lanes)
        if size % lanes:
            vector(whole * lanes, size % lanes)


class _Channels(_Way):
    """Lanes along channels: rows of the tile are pixels of a rectangle."""

    def __init__(self, image: Image):
        super().__init__(image)
        rows, self.vectors = choose_tile(prod(self.extents), typical(image.channels), typical(self.k), self.p.registers)
        width = self.extents[-1]
        # A tile is part of a row of pixels, or some whole rows.
        self.wide = -(-width // -(-width // rows))
        self.high = 1
        if self.wide == width and len(self.extents) > 1:
            high, most = self.extents[-2], max(1, rows // width)
            self.high = -(-high // -(-high // most))

    def possible(self) -> bool:
        return self.image.channel is not None and self.lanes > 1 and super().possible()

    def channels_at_once(self) -> int:
        return self.vectors * self.lanes

    @property
    def pools_before_turning(self) -> bool:
        """Whether results of a pooling, of which there are few, are turned in place of the sums that they are made of. A row of results is a small part of a vector there, too, while the channels
        are a whole one. Where vectors are halves, shuffles and what follows take the more time beside the sums."""
        epilogue, channels = self.p.epilogue, self.image.channels
        if not self.p.request.target.half_vectors or not epilogue.pools or self.outputs[-1] >= self.lanes or len(epilogue.values) != 1 or not isinstance(channels, int):
            return False
        spatial = [self.p.out.index(c) for c in self.image.spatial]
        alike = all(arg.type.shape[axis] == 1 for arg in epilogue.args for axis in spatial)
        few = prod(self.outputs) <= MOST_TURNED
        return alike and few and channels % self.channels_at_once() == 0 and element_type(epilogue.values[0].type) == self.p.dtype

    def cycles(self) -> float:
        rows, pixels = self.wide * self.high, prod(self.extents)
        blocks = -(-typical(self.image.channels) // self.channels_at_once())
        constant = getattr(self.p.right.source, "index", None) in self.p.request.constant
        packing = 0 if constant else typical(self.image.channels) * typical(self.k) * 0.5 / PIECES
        return pixels / rows * blocks * typical(self.k) * step_cycles(rows, self.vectors) + pixels * blocks * self.vectors * 4 + packing

    def _pitch(self, rows: int) -> int:
        pixels = rows * prod(self.extents[1:])
        return -(-pixels // self.lanes) * self.lanes

    def scratch_bytes(self, rows: int) -> int:
        return 2 * self._pitch(rows) * self.channels_at_once() * self.p.dtype.bytes

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        return (self._pitch(rows), *_strides((rows, *self.extents[1:])))

    def operands(self) -> tuple[Slot, Slot]:
        p, image = self.p, self.image
        assert image.channel is not None
        memory = self.parts.memory_of(p.left.source)
        outer = tuple(c for c in image.outer if p.right.stride(c) != 0)
        self.panels = Panels(outer, tuple(p.contracted), image.channel, self.channels_at_once(), p.sizes)
        value = p.contract.b if p.right_is_b else p.contract.a
        return memory, self.parts.packed(value, p.right_letters, p.right, self.panels)

    def fill(self, task: _Task) -> Value:
        code, p, lanes, dtype = task.code, self.p, self.lanes, self.p.dtype
        pitch, width = self._pitch(task.rows), self.channels_at_once()
        sums = code.scratch(pitch * width, dtype)
        extents = [task.rows, *self.extents[1:]]
        moves = [p.left.stride(c) for c in self.image.spatial]
        places = _strides(extents)
        strides = self.panels.strides
        weights_at = code.add(0, *(code.mul(i, strides[c]) for c, i in task.around.items() if c in strides))
        weights_at = code.add(weights_at, code.mul(code.div(task.channel0, width), self.panels.panel_size))
        axes = p.axes({c: strides[c] for c in p.contracted})
        image_at = task.image_at()
        align = lanes * dtype.bytes

        def tile(at: Index, pixel: Index, high: int, wide: int) -> None:
            offsets = [(y, x) for y in range(high) for x in range(wide)]

            def read_image(r: int, position: Index) -> Value:
                y, x = offsets[r]
                moved = x * moves[-1] + (y * moves[-2] if high > 1 else 0)
                return code.broadcast(code.load(task.image_buffer, code.add(position, moved)), lanes)

            def read_weights(v: int, position: Index) -> Value:
                return code.load(task.weights, code.add(position, v * lanes), lanes, None, align)

            acc = zeros(code, len(offsets), self.vectors, dtype, lanes)
            for (y, x), line in zip(offsets, accumulate(code, axes, read_image, read_weights, acc, at, weights_at), strict=True):
                to = code.mul(code.add(pixel, x + (y * places[-2] if high > 1 else 0)), width)
                for v, value in enumerate(line):
                    code.store(value, sums, code.add(to, v * lanes), None, align)

        def nest(axis: int, at: Index, pixel: Index) -> None:
            def inner(start: Index, size: int) -> None:
                here, there = code.add(at, code.mul(start, moves[axis])), code.add(pixel, code.mul(start, places[axis]))
                if axis + 2 < len(extents):
                    nest(axis + 1, here, there)
                elif axis + 1 < len(extents):
                    row(here, there, size)
                else:
                    tile(here, there, 1, size)

            size = self.wide if axis + 1 == len(extents) else self.high if axis + 2 == len(extents) else 1
            cover(code, extents[axis], tile_sizes(extents[axis], size), inner, self.image.spatial[axis])

        def row(at: Index, pixel: Index, high: int) -> None:
            def inner(start: Index, wide: int) -> None:
                tile(code.add(at, code.mul(start, moves[-1])), code.add(pixel, start), high, wide)

            cover(code, extents[-1], tile_sizes(extents[-1], self.wide), inner, self.image.spatial[-1])

        nest(0, image_at, 0)
        return sums if self.pools_before_turning else self._transposed(code, sums, pitch, width)

    def _transposed(self, code: Code, sums: Value, pitch: int, width: int) -> Value:
        """The sums channel by channel."""
        lanes, align = self.lanes, self.lanes * self.p.dtype.bytes
        tile = code.scratch(pitch * width, self.p.dtype)
        with code.loop(0, pitch, step=lanes, name="pixel") as loop:
            for v in range(0, width, lanes):
                block = [code.load(sums, code.add(code.mul(loop.iv, width), i * width + v), lanes, None, align) for i in range(lanes)]
                for i, vector in enumerate(transpose_lanes(code, block)):
                    code.store(vector, tile, code.add(loop.iv, (v + i) * pitch), None, align)
        return tile


class _Pixels(_Way):
    """Lanes along the last spatial letter: rows of the tile are channels, columns are vectors of one or more rows of pixels."""

    def __init__(self, image: Image):
        super().__init__(image)
        most = self.p.registers.accumulators
        across = -(-self.extents[-1] // self.lanes)
        channels = typical(image.channels)
        self.across = min(across, 4)
        self.tall = min(channels, max(1, most // self.across))
        self.tall = -(-channels // -(-channels // self.tall))
        self.high = max(1, most // (self.tall * self.across)) if self.across == across else 1
        if len(self.extents) > 1:
            high = self.extents[-2]
            self.high = -(-high // -(-high // min(high, self.high)))
        else:
            self.high = 1

    def possible(self) -> bool:
        near = self.p.left.stride(self.image.spatial[-1]) == 1
        return near and isinstance(self.image.channels, int) and super().possible()

    def channels_at_once(self) -> int:
        return self.tall

    def cycles(self) -> float:
        rows = prod(self.extents[:-1])
        across = -(-self.extents[-1] // self.lanes)
        tiles = rows / self.high * across / self.across * -(-typical(self.image.channels) // self.tall)
        return tiles * typical(self.k) * step_cycles(self.tall, self.across * self.high)

    def _pitch(self) -> int:
        return -(-self.extents[-1] // self.lanes) * self.lanes

    def tile_strides(self, rows: int) -> tuple[int, ...]:
        if len(self.extents) == 1:
            return -(-rows // self.lanes) * self.lanes, 1
        return _strides((self.tall, rows, *self.extents[1:-1], self._pitch()))

    def scratch_bytes(self, rows: int) -> int:
        return self.tall * self.tile_strides(rows)[0] * self.p.dtype.bytes

    def operands(self) -> tuple[Slot, Slot]:
        return self.parts.memory_of(self.p.left.source), self.parts.memory_of(self.p.right.source)

    def fill(self, task: _Task) -> Value:
        code, p, lanes, dtype = task.code, self.p, self.lanes, self.p.dtype
        strides = self.tile_strides(task.rows)
        tile = code.scratch(self.tall * strides[0], dtype)
        extents = [task.rows, *self.extents[1:]]
        moves = [p.left.stride(c) for c in self.image.spatial]
        places = strides[1:]
        channel = self.image.channel
        per_channel: Dim = 0 if channel is None else p.right.stride(channel)
        weights_at = code.add(p.right.base, *(code.mul(i, p.right.stride(c)) for c, i in task.around.items()), code.mul(task.channel0, per_channel))
        # Here the weights are the scalars, so they are A, and the image B.
        axes = join_axes([Axis(p.size(c), p.right.stride(c), p.left.stride(c)) for c in p.contracted])
        whole = self.image.channels
        assert isinstance(whole, int)

        def sums(tall: int, at: Index, to: Index, high: int, lanes_left: int, across: int) -> None:
            columns = [(y, v) for y in range(high) for v in range(across)]
            masks = [code.lane_mask(lanes_left - v * lanes, lanes) for v in range(across)]

            def read_weights(r: int, position: Index) -> Value:
                return code.broadcast(code.load(task.weights, code.add(position, r * per_channel)), lanes)

            def read_image(c: int, position: Index) -> Value:
                y, v = columns[c]
                moved = v * lanes + (y * moves[-2] if high > 1 else 0)
                return code.load(task.image_buffer, code.add(position, moved), lanes, masks[v])

            acc = accumulate(code, axes, read_weights, read_image, zeros(code, tall, len(columns), dtype, lanes), weights_at, at)
            for r, line in enumerate(acc):
                for (y, v), value in zip(columns, line, strict=True):
                    code.store(value, tile, code.add(to, r * strides[0] + v * lanes + (y * places[-2] if high > 1 else 0)), None, lanes * dtype.bytes)

        def row(tall: int, at: Index, to: Index, high: int) -> None:
            step = self.across * lanes
            full, rest = divmod(extents[-1], step)
            if full:
                cover(code, full, [1], lambda i, _: sums(tall, code.add(at, code.mul(i, step)), code.add(to, code.mul(i, step)), high, step, self.across))
            if rest:
                sums(tall, code.add(at, full * step), code.add(to, full * step), high, rest, -(-rest // lanes))

        def nest(tall: int, axis: int, at: Index, to: Index) -> None:
            if axis + 1 == len(extents):
                row(tall, at, to, 1)
                return

            def inner(start: Index, size: int) -> None:
                here, there = code.add(at, code.mul(start, moves[axis])), code.add(to, code.mul(start, places[axis]))
                if axis + 2 == len(extents):
                    row(tall, here, there, size)
                else:
                    nest(tall, axis + 1, here, there)

            size = self.high if axis + 2 == len(extents) else 1
            cover(code, extents[axis], tile_sizes(extents[axis], size), inner, self.image.spatial[axis])

        image_at = task.image_at()
        if whole % self.tall == 0:
            nest(self.tall, 0, image_at, 0)
        else:
            inside = code.condition("le", code.add(task.channel0, self.tall), whole)
            assert isinstance(inside, Value)
            with code.when(inside):
                nest(self.tall, 0, image_at, 0)
            with code.when(inside, then=False):
                nest(whole % self.tall, 0, image_at, 0)
        return tile


def _strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Those of a row-major array."""
    return tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def tile_sizes(extent: int, size: int) -> list[int]:
    """The sizes that `cover` needs for a known extent."""
    return [size, extent % size] if extent % size else [size]
