"""Convolutions by Winograd's algorithm, channels last: 3x3 with stride one or two, and 5x5 with stride one.

The result is cut into square *pieces* of `size` x `size` pixels. With the matrices of `winograd_transforms.py`, a piece is

    Y = A (sum over channels of (G g G') * (B d B')) A'

where d is the square of the image that it reads, `reach` pixels a side: size + 2, size + 4 for 5x5, 2 size + 1 with stride two. The sums of
all pieces together are reach² matrix products, pieces by channels by output channels, by register tiles. Everything else has channels in
the lanes:

1. For a *block* of pieces, small enough for L2, B d B' is written to scratch memory, a range of channels at a time. If many tasks share a
   block, a kernel in front transforms the whole image once.
2. Panels of packed weights, each read once per block, multiply it. The sums wait in scratch memory.
3. A (…) A' is computed. The epilogue (bias, activation, residual, a pooling that does not overlap) runs on registers, and stores.

Pieces at the border read a small copy with zeros around. Results outside of the image are left out.

An image of unknown size may have so few pixels that the transformed weights cost more than all else. Below a number of pixels it is
convolved directly, by steps of the same plan; a test at run time decides which steps have work.

`winograd_plan.py` decides whether, and how the work is cut.

A result is within `ACCURACY[span, size]` of the exact one. The magnitude is the largest among all pixels of a piece, since neighbours that
cancel leave their rounding errors. For the same reason one infinity or nan spoils its whole piece.

Images of bytes that are 16-bit numbers in memory (`WinogradImage.pairs`) are convolved exactly: 3x3 with stride one, pieces of 2x2. Vectors
of words are transformed as vectors of their halves. Weights are `EXACT.scale` times G g G', whole numbers, and sums are shifted back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import product

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, f32, i16, i32
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.conv.direct_plan import find_direct
from polyreme.lowering.kernels.conv.winograd_plan import (
    EXACT,
    Blocking,
    WinogradImage,
    WinogradSchedule,
    choose_winograd,
    find_image,
    fit_winograd,
    other_winograd,
    why_not_winograd,
)
from polyreme.lowering.kernels.conv.winograd_transforms import FixedMatrixProducts
from polyreme.lowering.kernels.elements import VectorLeaf
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.microkernel import (
    Accumulators,
    Axis,
    accumulate,
    rows_computed,
    tile_heights,
    tile_rows,
    tile_unknown_rows,
    zeros,
)
from polyreme.lowering.kernels.packing import PlanParts, copied_views
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Slot, Step, operand, pack, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.prefetch import prefetch_panel
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.tasks import GRAIN_CYCLES


def write_winograd(image: WinogradImage, schedule: WinogradSchedule) -> KernelPlan:
    """The plan of a convolution by one or several blockings, each for a range of sizes. Sizes below all of them are convolved directly."""
    parts = PlanParts(image.request)
    least = min(cut.from_pixels for cut in schedule.cuts)
    if schedule.direct is not None:
        plan = build_direct_conv.plan(find_direct(image.request), schedule.direct)
        parts.include(plan, lambda code, tasks: if_so_many(code, image, 0, least, tasks))
    for cut in schedule.cuts:
        _WinogradBuilder(image, cut.of(image), parts).build()
    return parts.plan("winograd")


build_winograd = Way(
    "winograd",
    WinogradSchedule,
    find_image,
    choose_winograd,
    write_winograd,
    fit_winograd,
    refusal=why_not_winograd,
    others=other_winograd,
)


def if_so_many(code: Code, image: WinogradImage, least: int, below: int | None, tasks: Index) -> Value:
    """So many tasks, or none where the images have fewer than `least` pixels or not fewer than `below`."""
    pixels = image.batch * image.high * image.wide
    if below is None and not least:
        return code.value(tasks)
    meant = code.condition("ge", pixels, least) if below is None else code.condition("lt", pixels, below)
    assert isinstance(meant, Value)
    return code.apply("select", meant, code.value(tasks), code.value(0))


@dataclass(frozen=True)
class WinogradBlocks:
    """What depends on how many pieces there are, in a kernel: blocks, pieces of a block, and the distances from one product's data, and
    sums, to the next one's.
    """

    count: Index
    pieces: Index
    data_plane: Index
    sums_plane: Index

    @classmethod
    def of(cls, code: Code, cut: Blocking) -> WinogradBlocks:
        if cut.known:
            return cls(cut.blocks, cut.pieces, cut.data_plane, cut.sums_plane)
        blocks = code.value(cut.blocks)
        if not cut.transforms_first:
            # As many for each thread, where there are tiles for them.
            threads = code.b(kernel.Threads)
            even = code.mul(code.div(code.add(blocks, threads, -1), threads), threads)
            blocks = code.apply("max", blocks, code.value(code.min(even, code.ceildiv(cut.all_pieces, cut.rows))))
        pieces = code.div(code.add(cut.all_pieces, blocks, -1), blocks)
        # Products are made of whole tiles.
        tiles = code.mul(code.ceildiv(pieces, cut.rows), cut.rows)
        return cls(
            blocks, pieces, code.add(code.mul(tiles, cut.row), cut.image.lanes), code.add(code.mul(tiles, cut.width), cut.image.lanes)
        )


class _WinogradBuilder:
    """Makes the steps of one convolution, or those for some sizes of it."""

    def __init__(self, image: WinogradImage, blocking: Blocking, parts: PlanParts):
        self.image, self.blocking, self.parts = image, blocking, parts

    def build(self) -> None:
        image, cut, epilogue = self.image, self.blocking, self.image.problem.epilogue
        slots = [
            self._data() if cut.transforms_first else self.parts.memory_of(image.x),
            self._weights(),
            *(operand(a.index) for a in epilogue.args),
            *map(result, range(len(epilogue.values))),
        ]
        func = Func.empty(
            self._name("winograd"), [self.parts.buffer_type(s) for s in slots], loc=image.problem.contract.location, final_addresses=True
        )
        code = Code(Builder.at_end(func.block, func.location), image.pairs)
        blocks = WinogradBlocks.of(code, cut)
        with code.parallel(self._if_meant(code, code.mul(blocks.count, cut.parts)), grain=cut.grain, name="task") as flat:
            part, block = code.split(flat, [cut.parts, blocks.count])
            # Those of the first tasks, which the first thread begins with, read the first copy.
            copy = code.div(code.mul(flat, self._copies(code)), code.mul(blocks.count, cut.parts)) if self._may_copy else 0
            _WinogradTask(self, code, blocks, block, copy).compute([*map(code.words, func.args[:2]), *func.args[2:]], part)
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))

    def _name(self, what: str) -> str:
        return self.image.request.name(what if self.blocking.below is None else f"{what}_few")

    def _if_meant(self, code: Code, tasks: Index) -> Value:
        """So many tasks, or none where the steps are not meant for images of this size."""
        return if_so_many(code, self.image, self.blocking.least, self.blocking.below, tasks)

    @property
    def _may_copy(self) -> bool:
        """Whether two threads make the transformed image each for itself."""
        return self.blocking.copies

    def _copies(self, code: Code) -> Index:
        """How often the transformed image is there."""
        if not self._may_copy:
            return 1
        return code.apply("select", code.apply("eq", code.b(kernel.Threads), code.value(2)), code.value(2), code.value(1))

    def _data(self) -> Slot:
        """The transformed image, [copy][block][product][piece][channel], made by a step of its own."""
        image, cut = self.image, self.blocking
        size = cut.transformed_elements
        if self._may_copy:
            assert isinstance(size, int)
            data = self.parts.new_scratch(2 * size, image.dtype, size)
        else:
            data = self.parts.new_scratch(size, image.dtype)
        slots = (self.parts.memory_of(image.x), data)
        func = Func.empty(
            self._name("winograd_image"),
            [self.parts.buffer_type(s) for s in slots],
            loc=image.problem.contract.location,
            final_addresses=True,
        )
        code = Code(Builder.at_end(func.block, func.location))
        x, into = map(code.words, func.args)
        blocks = WinogradBlocks.of(code, cut)
        cycles = -(-image.channels // image.lanes) * cut.products * image.costs.usual_transform
        pieces = code.mul(cut.all_pieces, self._copies(code))
        with code.parallel(self._if_meant(code, pieces), grain=max(1, int(GRAIN_CYCLES / cycles)), name="piece") as flat:
            copy, of_copy = (code.div(flat, cut.all_pieces), code.mod(flat, cut.all_pieces)) if self._may_copy else (0, flat)
            block, piece = code.split(of_copy, [blocks.count, blocks.pieces])
            _WinogradTask(self, code, blocks, block, copy).transform(x, into, piece)
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, slots))
        return slots[1]

    def _weights(self) -> Slot:
        """The transformed weights, [part][range of channels][panel][product][channel][lane], as a pack."""
        image, cut = self.image, self.blocking
        source = image.problem.right.source
        assert isinstance(source, BlockArgument)
        func, b, w = copied_views(image.weights)
        order = image.output + image.letters[3] + image.taps
        w = b(tensor.Transpose, w, perm=tuple(image.weight_letters.index(c) for c in order))
        word = 1 + image.pairs
        w = b(tensor.Reshape, w, shape=(image.outputs, image.channels * word, image.span**2))
        missing = cut.parts * cut.panels * cut.width - image.outputs
        w = b(tensor.Pad, w, low=(0, 0, 0), high=(missing, 0, 0), interior=(0, 0, 0))
        w = b(tensor.Reshape, w, shape=(cut.parts, cut.panels, cut.width, cut.ranges, cut.depth, word, image.span**2))
        w = b(tensor.Transpose, w, perm=(0, 3, 1, 6, 4, 2, 5))
        matrix = np.array([[float(x) for x in row] for row in cut.transforms.weights])
        both = np.kron(matrix, matrix) * (EXACT.scale if image.pairs else 1)
        if image.pairs:
            # Whole numbers of some thousands, which float32 has all of.
            w = b(tensor.Map, w, fn="cast", dtype=f32)
        w = b(tensor.Contract, b(tensor.Constant, value=Dense(both.astype(np.float32))), w, spec="tk,prnkclw->prntclw")
        if image.pairs:
            w = b(tensor.Map, w, fn="cast", dtype=i16)
        w = b(tensor.Reshape, w, shape=(cut.weight_elements * word,))
        b.insert(Return([w]))
        made = self._weights_kernel(source) if source.index in image.request.kept or image.transforms_weights else None
        self.parts.packs.append(Pack(source.index, func.finish(), made))
        return pack(len(self.parts.packs) - 1)

    def _weights_kernel(self, source: Value) -> Func:
        """What the pack does as a kernel, for weights that may change: G g G' with output channels in the lanes."""
        image, cut, access = self.image, self.blocking, self.image.problem.right
        lanes, dtype, matrix = image.lanes, image.dtype, self.blocking.transforms.weights
        func = Func.empty(self._name("weights"), [BufferType(source.type.shape, dtype), BufferType((cut.weight_elements,), dtype)])
        code = Code(Builder.at_end(func.block, image.problem.contract.location))
        read, write = func.args
        moves = [access.stride(c) for c in (image.output, image.letters[3], *image.taps)]
        linear = FixedMatrixProducts(code, dtype, lanes)
        with code.parallel(cut.parts * cut.ranges * cut.panels, name="panel") as flat:
            part, of_channels, panel = code.split(flat, [cut.parts, cut.ranges, cut.panels])
            output0 = code.mul(code.add(code.mul(part, cut.panels), panel), cut.width)
            with code.loop(0, cut.depth, name="channel") as channel, code.loop(0, cut.width, step=lanes, name="output") as output:
                first = code.add(output0, output.iv)
                mask = code.lane_mask(code.sub(image.outputs, first), lanes)
                at = code.add(
                    access.base, code.mul(first, moves[0]), code.mul(code.add(code.mul(of_channels, cut.depth), channel.iv), moves[1])
                )
                away = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(moves[0]), lanes))

                def tap(i: int, j: int) -> Value:
                    start = code.value(code.add(at, i * moves[2] + j * moves[3]))
                    value: Value = code.b(kernel.Gather, read, code.apply("add", away, code.broadcast(start, lanes)), mask)
                    return value

                taps = [[tap(i, j) for j in range(image.span)] for i in range(image.span)]
                to = code.add(code.mul(code.add(code.mul(flat, cut.products * cut.depth), channel.iv), cut.width), output.iv)
                for k, value in enumerate(v for line in linear.square(matrix, taps) for v in line):
                    code.store(value, write, code.add(to, k * cut.depth * cut.width), None, lanes * dtype.bytes)
        code.b.insert(Return([]))
        return func.finish()


class _WinogradTask:
    """Writes work on one block of pieces."""

    x: Value
    data: Value
    data0: Index = 0

    def __init__(self, builder: _WinogradBuilder, code: Code, blocks: WinogradBlocks, block: Index, copy: Index = 0):
        self.copy = copy
        self.image, self.cut, self.code = builder.image, builder.blocking, code
        image, cut = self.image, self.cut
        self.blocks, self.block = blocks, block
        self.first = code.mul(blocks.pieces, block)
        # The last block may have fewer pieces; products are made for whole tiles, or for all rows of a known number, and what is left over
        # goes nowhere.
        self.whole = cut.known and cut.all_pieces % cut.pieces == 0
        self.count: Index = cut.pieces if self.whole else code.min(blocks.pieces, code.sub(cut.all_pieces, self.first))
        self.dtype, self.lanes = image.dtype, image.lanes
        self.align = self.lanes * self.dtype.bytes
        self.linear = FixedMatrixProducts(code, self.dtype, self.lanes)
        self.patch = code.scratch(cut.products * self.lanes, self.dtype)

    def transform(self, x: Value, data: Value, piece: Index) -> None:
        """Write the transformed image `x` of one piece to its place in `data`."""
        self.x = x
        self._look_at(data)
        self._transform_piece(piece, *self._place(piece), 0)
        if not self.whole:
            with self.code.when(self.code.apply("eq", self.code.value(self.code.add(piece, 1)), self.code.value(self.count))):
                self._clear_rest()

    def _look_at(self, data: Value) -> None:
        """Take the block's part of the transformed image."""
        of_block = self.code.mul(self.code.mul(self.blocks.data_plane, self.cut.products), self.block)
        self.data, self.data0 = (
            data,
            self.code.add(of_block, self.code.mul(self.copy, self.cut.transformed_elements)) if self.copy != 0 else of_block,
        )

    def compute(self, args: Sequence[Value], part: Index) -> None:
        """The results of one part of the output channels; `args` are the image, transformed or not, the weights, what the epilogue reads,
        and the results.
        """
        code, cut, epilogue = self.code, self.cut, self.image.problem.epilogue
        self.part, self.weights = part, args[1]
        count = len(epilogue.args)
        self.buffers: dict[Value, Value] = dict(zip(epilogue.args, args[2 : 2 + count], strict=True))
        self.outs = list(args[2 + count :])
        if cut.transforms_first:
            self._look_at(args[0])
        else:
            self.x, self.data = args[0], code.scratch(cut.data_elements, self.dtype)
        self.sums = code.scratch(cut.panels_at_once * cut.products * cut.sums_plane, self.dtype)
        per_range = cut.panels * cut.products * cut.depth * cut.width
        weights = code.mul(self.part, cut.ranges * per_range)
        panel_size = cut.products * cut.depth * cut.width
        if cut.ranges == 1:
            if not cut.transforms_first:
                self._transform_data(0)
            with code.loop(0, cut.panels, name="panel") as panel:
                self._multiply(code.add(weights, code.mul(panel.iv, panel_size)), 0, fresh=True)
                self._transform_sums(panel.iv, 0)
            return
        zero = code.zero(self.dtype, self.lanes)
        with code.loop(0, cut.panels * cut.products * cut.sums_plane, step=self.lanes, name="clear") as clear:
            code.store(zero, self.sums, clear.iv, None, self.align)
        with code.loop(0, cut.ranges, name="range") as channels:
            self._transform_data(code.mul(channels.iv, cut.depth))
            with code.loop(0, cut.panels, name="panel") as panel:
                at = code.add(weights, code.mul(channels.iv, per_range), code.mul(panel.iv, panel_size))
                self._multiply(at, code.mul(panel.iv, cut.products * cut.sums_plane), fresh=False)
        with code.loop(0, cut.panels, name="panel") as panel:
            self._transform_sums(panel.iv, code.mul(panel.iv, cut.products * cut.sums_plane))

    @contextmanager
    def _pieces(self) -> Iterator[tuple[Index, Index, Index, Index]]:
        """A loop over the block's pieces: (number in the block, image, place down and across among the image's pieces)."""
        code = self.code
        with code.loop(0, self.count, name="piece") as piece:
            yield piece.iv, *self._place(piece.iv)

    def _place(self, piece: Index) -> tuple[Index, Index, Index]:
        """The image of a piece of the block, and the piece's place in it, down and across."""
        image, down, across = self.code.split(self.code.add(self.first, piece), [self.image.batch, *self.cut.grid])
        return image, down, across

    # --- the image

    def _transform_data(self, channel0: Index) -> None:
        """B d B' of the block's pieces for the channels from `channel0` on."""
        with self._pieces() as (piece, n, down, across):
            self._transform_piece(piece, n, down, across, channel0)
        if not self.whole:
            self._clear_rest()

    def _clear_rest(self) -> None:
        """Zeros for the pieces behind the last one that tiles reach: what other kernels left there may be numbers below 2^-126, each of
        which takes a multiply-add a hundred cycles.
        """
        code, cut, zero = self.code, self.cut, self.code.zero(self.dtype, self.lanes)
        end = cut.pieces if cut.known else rows_computed(code, code.value(self.count), cut.rows)
        with code.loop(0, cut.products, name="product") as product, code.loop(self.count, end, name="piece") as piece:
            at = code.add(self.data0, code.mul(self.blocks.data_plane, product.iv), code.mul(piece.iv, cut.row))
            with code.loop(0, cut.row - self.lanes, step=self.lanes, name="channel") as channel:
                code.store(zero, self.data, code.add(at, channel.iv))

    def _transform_piece(self, piece: Index, n: Index, down: Index, across: Index, channel0: Index) -> None:
        code, image, step, reach = self.code, self.image, self.cut.step, self.cut.transforms.reach
        sizes = (image.height, image.width)
        corner = [code.sub(code.mul(down, step), image.top), code.sub(code.mul(across, step), image.left)]
        at = code.add(
            code.mul(code.add(code.mul(code.add(code.mul(n, sizes[0]), corner[0]), sizes[1]), corner[1]), image.channels), channel0
        )

        def direct(i: int, j: int, channel: Index, mask: Value | None) -> Value:
            return code.load(self.x, code.add(at, channel, (i * image.width + j) * image.channels), self.lanes, mask)

        inside = self._all_inside(corner, reach, sizes)
        if inside is None:
            self._channels(piece, channel0, direct)
            return
        with code.when(inside):
            self._channels(piece, channel0, direct)
        with code.when(inside, then=False):
            self._through_patch(piece, channel0, at, corner, reach, sizes)

    def _all_inside(self, corner: Sequence[Index], reach: int, sizes: Sequence[Dim]) -> Value | None:
        """Whether a part of the image has no zeros around it; None when none has."""
        code, image, cut = self.code, self.image, self.cut
        tests: list[Value] = []
        for first, before, size, pieces in zip(corner, (image.top, image.left), sizes, cut.grid, strict=True):
            if before:
                tests.append(code.apply("ge", code.value(first), code.value(0)))
            reached = (pieces - 1) * cut.step - before + reach
            if not isinstance(reached, int) or not isinstance(size, int) or reached > size:
                tests.append(code.apply("le", code.value(first), code.value(size - reach)))
        return self._all(tests) if tests else None

    def _all(self, tests: Sequence[Value]) -> Value:
        """Whether all of the tests hold."""
        return reduce(lambda a, b: self.code.apply("and", a, b), tests)

    def _through_patch(self, piece: Index, channel0: Index, at: Index, corner: Sequence[Index], reach: int, sizes: Sequence[Dim]) -> None:
        """As `_channels`, by way of a copy whose elements outside of the image are zeros, written once for all channels."""
        code, image = self.code, self.image
        zero = code.zero(self.dtype, self.lanes)
        for k in range(reach * reach):
            code.store(zero, self.patch, k * self.lanes, None, self.align)
        bounds = []
        for first, size in zip(corner, sizes, strict=True):
            start = code.apply("max", code.value(code.sub(0, first)), code.value(0))
            bounds.append((start, code.min(reach, code.sub(size, first))))

        def copy(channel: Index, mask: Value | None) -> None:
            with code.loop(*bounds[0], name="row") as i, code.loop(*bounds[1], name="column") as j:
                moved = code.mul(code.add(code.mul(i.iv, image.width), j.iv), image.channels)
                value = code.load(self.x, code.add(at, moved, channel), self.lanes, mask)
                code.store(value, self.patch, code.mul(code.add(code.mul(i.iv, reach), j.iv), self.lanes), None, self.align)

        def copied(i: int, j: int, channel: Index, mask: Value | None) -> Value:
            return code.load(self.patch, (i * reach + j) * self.lanes, self.lanes, None, self.align)

        self._channels(piece, channel0, copied, copy)

    def _channels(
        self,
        piece: Index,
        channel0: Index,
        read: Callable[[int, int, Index, Value | None], Value],
        before: Callable[[Index, Value | None], None] | None = None,
    ) -> None:
        """The transform of one piece for all channels of a range, a vector at a time."""
        code, cut, reach = self.code, self.cut, self.cut.transforms.reach
        ragged = self.image.channels % self.lanes != 0
        with code.loop(0, cut.depth, step=self.lanes, name="channel") as loop:
            mask = code.lane_mask(code.sub(self.image.channels, code.add(channel0, loop.iv)), self.lanes) if ragged else None
            if before is not None:
                before(loop.iv, mask)
            block = [[self._halves(read(i, j, loop.iv, mask)) for j in range(reach)] for i in range(reach)]
            to = code.add(self.data0, code.mul(piece, cut.row), loop.iv)
            for i, line in enumerate(self.linear.square(cut.transforms.data, block)):
                for j, value in enumerate(line):
                    code.store(
                        code.reinterpret(value, i32) if self.image.pairs else value,
                        self.data,
                        code.add(to, code.mul(self.blocks.data_plane, i * reach + j)),
                        None,
                        self.align,
                    )

    def _halves(self, x: Value) -> Value:
        """A vector of words as one of the numbers that they are of."""
        return self.code.reinterpret(x, i16) if self.image.pairs else x

    # --- the products

    def _multiply(self, weights: Index, sums: Index, fresh: bool) -> None:
        """The matrix products of a panel, from position `weights` on, into `sums`, which they are added to unless they are `fresh`."""
        code, cut, lanes = self.code, self.cut, self.lanes
        in_all = -(-cut.pieces // cut.rows) * cut.rows if cut.known else code.value(self.count)
        with code.loop(0, cut.products, name="product") as product:
            data0 = code.add(self.data0, code.mul(self.blocks.data_plane, product.iv))
            sums0 = code.add(sums, code.mul(self.blocks.sums_plane, product.iv))
            weights0 = code.add(weights, code.mul(product.iv, cut.depth * cut.width))
            following = code.add(weights0, cut.depth * cut.width)

            def tile(at: Index, rows: int) -> None:
                def read_data(r: int, position: Index) -> Value:
                    return code.broadcast(code.load(self.data, code.add(position, r * cut.row)), lanes)

                def read_weights(v: int, position: Index) -> Value:
                    return code.load(self.weights, code.add(position, v * lanes), lanes, None, self.align)

                to = code.add(sums0, code.mul(at, cut.width))
                places = [[code.add(to, r * cut.width + v * lanes) for v in range(cut.vectors)] for r in range(rows)]
                acc: Accumulators = zeros(code, rows, cut.vectors, self.dtype, lanes)
                if not fresh:
                    acc = [[code.load(self.sums, place, lanes, None, self.align) for place in line] for line in places]
                axes = [Axis(cut.depth, 1, cut.width)]
                prefetched = prefetch_panel(code, self.weights, following, cut.depth, cut.vectors, lanes, at, rows, in_all)
                acc = accumulate(code, axes, read_data, read_weights, acc, code.add(data0, code.mul(at, cut.row)), weights0, prefetched)
                for line, values in zip(places, acc, strict=True):
                    for place, value in zip(line, values, strict=True):
                        code.store(value, self.sums, place, None, self.align)

            if cut.known:
                tile_rows(code, cut.pieces, tile_heights(cut.rows, cut.pieces), tile, "rows")
            else:
                tile_unknown_rows(code, code.value(self.count), cut.rows, tile, "rows")

    # --- the results

    def _transform_sums(self, panel: Index, sums: Index) -> None:
        """A (…) A' of a panel's sums, and what follows."""
        code, image, cut, reach = self.code, self.image, self.cut, self.cut.transforms.reach
        output0 = code.mul(code.add(code.mul(self.part, cut.panels), panel), cut.width)
        padded = cut.parts * cut.panels * cut.width
        here: Index = cut.width if padded - image.outputs < self.lanes else code.min(cut.width, code.sub(image.outputs, output0))
        ragged = image.outputs % self.lanes != 0
        with self._pieces() as (piece, n, down, across), code.loop(0, here, step=self.lanes, name="output") as loop:
            output = code.add(output0, loop.iv)
            mask = code.lane_mask(code.sub(image.outputs, output), self.lanes) if ragged else None
            at = code.add(sums, code.mul(piece, cut.width), loop.iv)
            load = lambda k: code.load(self.sums, code.add(at, code.mul(self.blocks.sums_plane, k)), self.lanes, None, self.align)
            block = [[load(i * reach + j) for j in range(reach)] for i in range(reach)]
            made = self.linear.square(cut.transforms.results, block)
            if image.pairs:
                by = code.broadcast(code.constant(EXACT.scale.bit_length() - 1, i32), self.lanes)
                made = [[code.apply("shr", x, by) for x in line] for line in made]
            around = {image.letters[0]: position_at(n), image.output: position_at(output, 0, 1)}
            # A piece gives so many results of the group, as many of which exist.
            whole = [cut.size // step for step in image.steps]
            corner = [code.mul(i, n) for i, n in zip((down, across), whole, strict=True)]
            if cut.divides:
                self._write_whole(made, around, corner, whole, mask)
                return
            ends = [code.add(first, n) for first, n in zip(corner, whole, strict=True)]
            inside = self._all([code.apply("le", code.value(end), code.value(n)) for end, n in zip(ends, self._sizes, strict=True)])
            with code.when(inside):
                self._write_whole(made, around, corner, whole, mask)
            with code.when(inside, then=False):
                self._cut_off(made, around, corner, whole, mask)

    @property
    def _sizes(self) -> list[Dim]:
        """Rows and columns of the group's results."""
        return [self.image.problem.epilogue.shape[i] for i in (1, 2)]


    def _write_whole(
        self,
        made: Sequence[Sequence[Value]],
        around: dict[str, Position],
        corner: Sequence[Index],
        whole: Sequence[int],
        mask: Value | None,
    ) -> None:
        """Write all results of a piece, whose first one is at `corner`."""

        def computed(places: Sequence[Position]) -> Value:
            # What is known of a position is its place in the piece.
            i, j = (p.const for p in places)
            assert isinstance(i, int) and isinstance(j, int)
            return made[i][j]

        write = self._writer(computed, around, mask)
        for i, j in product(*map(range, whole)):
            write(position_at(corner[0], i), position_at(corner[1], j))


    def _cut_off(
        self,
        made: Sequence[Sequence[Value]],
        around: dict[str, Position],
        corner: Sequence[Index],
        whole: Sequence[int],
        mask: Value | None,
    ) -> None:
        """Write those results of a piece that lie inside of the image, whose first one is at `corner`."""
        code, image, size = self.code, self.image, self.cut.size
        for k, value in enumerate(v for line in made for v in line):
            code.store(value, self.patch, k * self.lanes, None, self.align)
        rows, columns = (code.min(n, code.sub(most, first)) for n, most, first in zip(whole, self._sizes, corner, strict=True))
        with code.loop(0, rows, name="row") as i, code.loop(0, columns, name="column") as j:
            offsets = [position_at(k.iv) for k in (i, j)]

            def stored(places: Sequence[Position]) -> Value:
                inside = [p.plus(code, position_at(c).times(code, -step)) for p, c, step in zip(places, corner, image.steps, strict=True)]
                at = inside[0].times(code, size).plus(code, inside[1]).times(code, self.lanes)
                return code.load(self.patch, at.scalar(code), self.lanes, None, self.align)

            self._writer(stored, around, mask)(*(position_at(c).plus(code, k) for c, k in zip(corner, offsets, strict=True)))


    def _writer(
        self, read: Callable[[Sequence[Position]], Value], around: dict[str, Position], mask: Value | None
    ) -> Callable[[Position, Position], None]:
        """Stores the group's results at a row and a column; `read` gives the convolution's elements at a row and a column."""
        problem, letters = self.image.problem, self.image.letters
        emitter = problem.epilogue.emitter(self.code, self.buffers, VectorLeaf(lambda places: read(places[1:3])))

        def write(row: Position, column: Position) -> None:
            at = {**around, letters[1]: row, letters[2]: column}
            problem.epilogue.write(emitter, self.outs, [at[c] for c in problem.out], self.lanes, mask)

        return write
