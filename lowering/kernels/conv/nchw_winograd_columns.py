"""NCHW convolutions by Winograd's algorithm down the columns of the image, with lanes along channels.

It takes windows of several rows with a stride of one. A *piece* is `size` rows of the result, which read `reach` = size + taps - 1 rows of
the image. With the matrices of `winograd_transforms.py`, for every pixel across,

    Y = A (sum over channels and taps across of (G g) * (B d))

So a piece takes `reach` rows of products, each a convolution with windows of one row, in place of size * taps. Both what is multiplied and
what comes out are sums of whole rows. Nothing moves between lanes, unlike in `winograd.py`, which transforms both axes of channels-last
images. It serves images of few channels, whose transformed rows stay in L1.

The last piece may compute rows of the one before it once more. A result is within `ACCURACY[size]` of the exact one. The magnitude is the
sum over steps of the largest |d| of a piece's column times the sum of |g| down the window. An infinity or nan spoils the pixels of a piece
above and below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.ir import config
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.types import BufferType, f32
from polyreme.lowering.analysis.access import row_major
from polyreme.lowering.analysis.accuracy import ALGORITHMS
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.nchw_channel_lanes import ChannelLanes, channel_tile
from polyreme.lowering.kernels.conv.nchw_strategy import ColumnTile, NchwImage, Task
from polyreme.lowering.kernels.conv.winograd_transforms import FixedMatrixProducts, Transforms, transforms
from polyreme.lowering.kernels.microkernel import Axis, accumulate, join_axes, step_cycles, tile_heights, tile_rows, zeros
from polyreme.lowering.kernels.packing import copied_views
from polyreme.lowering.kernels.plan import Pack, Slot, pack
from polyreme.lowering.kernels.problem import typical
from polyreme.lowering.machines.instructions import FEW_CHANNELS
from polyreme.lowering.machines.rooms import ROOMS
from polyreme.lowering.machines.winograd_costs import SPARE_ADDERS

ACCURACY = {size: bound for (_, size), bound in ALGORITHMS["winograd_columns"].items()}
"""By the size of a piece; see above for the magnitude."""
# Heights of windows. Those of three rows save less than half, and are mostly of images with many channels.
TAPS = {taps for taps, _ in ALGORITHMS["winograd_columns"]}


class WinogradColumns(ChannelLanes):
    """Lanes along channels, and products of transformed rows."""

    tile: ColumnTile

    def __init__(self, image: NchwImage, tile: ColumnTile):
        super().__init__(image, tile)
        p = self.p
        across = image.spatial[-1]
        self.size, self.tap = tile.size, _tap_of(image)
        inside = [c for c in p.contracted if c != self.tap and p.left.stride(c) == p.left.stride(across)]
        self.inside = inside[0] if inside else None
        self.around = [c for c in p.contracted if c not in (self.tap, self.inside) and p.size(c) != 1]

    @classmethod
    def of(cls, image: NchwImage, size: int | None = None) -> WinogradColumns | None:  # type: ignore[override]
        """What is chosen for an image, for pieces of this size if that is given; None where it is not possible."""
        tap, tile = _tap_of(image), channel_tile(image)
        if tap is None:
            return None
        rows, taps = cls(image, ColumnTile(max(ACCURACY), tile.wide, tile.vectors)).rows, typical(image.problem.size(tap))
        sizes = [n for n in ACCURACY if n <= rows and size in (None, n)]
        if not sizes:
            return None
        # As few rows of products as can be.
        made = cls(image, ColumnTile(min(sizes, key=lambda n: -(-rows // n) * (n + taps - 1)), tile.wide, tile.vectors))
        return cls(image, replace(made.tile, pooled=made.is_pooled_first())) if made.is_possible() else None

    def is_possible(self) -> bool:
        p, target, source = self.p, self.p.request.target, self.p.right.source
        if self.tap is None or len(self.image.spatial) != 2 or p.dtype != f32 or not target.winograd or not config.winograd():
            return False
        # Elsewhere it has not been timed.
        if not target.spare_adders or target.multiply_adds >= 2:
            return False
        if p.left.stride(self.image.spatial[-1]) != 1 or not all(isinstance(p.size(c), int) for c in p.contracted):
            return False
        if not isinstance(source, BlockArgument) or source.index not in p.request.constant | p.request.kept:
            return False
        if (
            # With few channels, or other steps that rows of the image differ by, transforms cost more than they save, and their errors have
            # few others to cancel with.
            prod(self.images) < FEW_CHANNELS
            or any(p.right.stride(c) != 0 for c in self.image.outer)
            or not super().is_possible()
        ):
            return False
        return self.scratch_bytes(self.rows_for(self.piece())) <= ROOMS.tiles and self._scratch_of_piece <= ROOMS.tiles

    def piece(self) -> int:
        """As for all strategies, or more, if a last task would have fewer rows than a piece of products."""
        piece, in_all = super().piece(), self.outputs[0]
        return next(n for n in range(piece, in_all + 1) if n == in_all or self._has_whole_pieces(n))

    def _has_whole_pieces(self, rows: int) -> bool:
        """Whether each task of so many rows has enough for a piece of products."""
        return self.rows_for(self.outputs[0] % rows or rows) >= self.size

    def allows(self, rows: int) -> bool:
        return super().allows(rows) and self._has_whole_pieces(rows)

    # --- how the work is cut

    @property
    def rows(self) -> int:
        """Rows of the convolution that are needed."""
        return self.rows_for(self.outputs[0])

    @property
    def taps(self) -> int:
        assert self.tap is not None
        return typical(self.p.size(self.tap))

    @cached_property
    def transforms(self) -> Transforms:
        return transforms(self.size, taps=self.taps)

    @property
    def products(self) -> int:
        return self.transforms.reach

    @cached_property
    def across(self) -> int:
        """Pixels of the image under a row of windows."""
        return self.extents[-1] + (typical(self.p.size(self.inside)) - 1 if self.inside is not None else 0)

    @property
    def pitch(self) -> int:
        """Elements between transformed rows."""
        return -(-self.across // self.lanes) * self.lanes

    @cached_property
    def images(self) -> list[int]:
        """Sizes of the letters of which the image has rows of its own, its channels as a rule."""
        return [typical(self.p.size(c)) for c in self.around]

    @property
    def steps_of_product(self) -> int:
        return prod(self.images) * (typical(self.p.size(self.inside)) if self.inside is not None else 1)

    @property
    def data_plane(self) -> int:
        """Elements between transformed rows for one product and the next one."""
        return prod(self.images) * self.pitch

    @property
    def sums_plane(self) -> int:
        return self.extents[-1] * self.channels_at_once()

    @property
    def panel_count(self) -> int:
        """Panels of channels."""
        return typical(self.blocks)

    @property
    def _scratch_of_piece(self) -> int:
        """Bytes of the scratch memory of a piece."""
        return self.products * (self.data_plane + self.sums_plane) * self.p.dtype.bytes

    def cycles(self) -> float:
        pieces, width = -(-self.rows // self.size), self.extents[-1]
        tiles = -(-width // self.wide)
        multiplied = self.products * tiles * self.steps_of_product * step_cycles(self.wide, self.vectors)
        transformed = SPARE_ADDERS.usual_transform * self.products * (self.data_plane // self.lanes + width * self.vectors)
        return pieces * self.panel_count * (multiplied + transformed) + self.rows * width * self.panel_count * self.vectors * 4

    # --- weights

    def operands(self) -> tuple[Slot, Slot]:
        p = self.p
        source = p.right.source
        assert isinstance(source, BlockArgument)
        made = self._weights_kernel(source) if source.index in p.request.kept else None
        self.parts.packs.append(Pack(source.index, self._weights(), made))
        return self.parts.memory_of(p.left.source), pack(len(self.parts.packs) - 1)

    @property
    def _letters(self) -> list[str]:
        """Letters of a product's steps, outermost first."""
        return self.around if self.inside is None else [*self.around, self.inside]

    @property
    def weight_elements(self) -> int:
        return self.panel_count * self.products * self.steps_of_product * self.channels_at_once()

    def _weights(self) -> Func:
        """G g, [panel][product][step][lane], as a function at tensor level."""
        p, channel, tap = self.p, self.image.channel, self.tap
        assert channel is not None and tap is not None
        letters, width, channels = p.right_letters, self.channels_at_once(), typical(self.image.channels)
        func, b, w = copied_views(p.contract.b if p.right_is_b else p.contract.a)
        order = [channel, *self._letters, tap]
        perm = [letters.index(c) for c in letters if c not in order] + [letters.index(c) for c in order]
        w = b(tensor.Transpose, w, perm=tuple(perm))
        w = b(tensor.Reshape, w, shape=(channels, self.steps_of_product, self.taps))
        w = b(tensor.Pad, w, low=(0, 0, 0), high=(self.panel_count * width - channels, 0, 0), interior=(0, 0, 0))
        w = b(tensor.Reshape, w, shape=(self.panel_count, width, self.steps_of_product, self.taps))
        matrix = np.array([[float(x) for x in row] for row in self.transforms.weights], p.dtype.np)
        w = b(tensor.Contract, b(tensor.Constant, value=Dense(matrix)), w, spec="tm,plkm->ptkl")
        w = b(tensor.Reshape, w, shape=(self.weight_elements,))
        b.insert(Return([w]))
        return func.finish()

    def _weights_kernel(self, source: Value) -> Func:
        """What that does as a kernel, for weights that may change."""
        p, lanes, width, access = self.p, self.lanes, self.channels_at_once(), self.p.right
        assert self.image.channel is not None and self.tap is not None
        func = Func.empty(
            p.request.name("weights"),
            [BufferType(source.type.shape, p.dtype), BufferType((self.weight_elements,), p.dtype)],
            arg_names=("from", "panels"),
        )
        code = Code(Builder.at_end(func.block, p.contract.location))
        read, write = func.args
        of_channel, of_tap = access.stride(self.image.channel), access.stride(self.tap)
        linear = FixedMatrixProducts(code, p.dtype, lanes)
        sizes = [typical(p.size(c)) for c in self._letters]
        with code.parallel(self.panel_count * self.steps_of_product, name="step") as flat:
            panel, step = code.split(flat, [self.panel_count, self.steps_of_product])
            places = code.split(step, sizes)
            start = code.add(access.base, *(code.mul(i, access.stride(c)) for i, c in zip(places, self._letters, strict=True)))
            to = code.add(code.mul(panel, self.products * self.steps_of_product * width), code.mul(step, width))
            for v in range(0, width, lanes):
                first = code.add(code.mul(panel, width), v)
                mask = code.lane_mask(code.sub(self.image.channels, first), lanes)
                away = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(of_channel), lanes))
                taps: list[Value] = []
                for m in range(self.taps):
                    here = code.value(code.add(start, code.mul(first, of_channel), m * of_tap))
                    taps.append(code.b(kernel.Gather, read, code.apply("add", away, code.broadcast(here, lanes)), mask))
                for k, value in enumerate(linear.apply(self.transforms.weights, taps)):
                    code.store(value, write, code.add(to, k * self.steps_of_product * width + v), None, lanes * p.dtype.bytes)
        code.b.insert(Return([]))
        return func.finish()

    # --- a task

    def sums(self, task: Task) -> Value:
        code, dtype = task.code, self.p.dtype
        sums = code.scratch(self._pitch(task.rows) * self.channels_at_once(), dtype)
        data = code.scratch(self.products * self.data_plane, dtype)
        made = code.scratch(self.products * self.sums_plane, dtype)
        image_at = task.image_at()
        pieces = -(-task.rows // self.size)
        with code.loop(0, pieces, name="piece") as loop:
            row: Index = code.mul(loop.iv, self.size)
            if task.rows % self.size:
                row = code.min(row, task.rows - self.size)
            self._transform_rows(task, code.add(image_at, code.mul(row, self.p.left.stride(self.image.spatial[0]))), data)
            self._multiply(task, data, made)
            self._transform_sums(code, made, sums, code.mul(row, self.sums_plane))
        return sums

    def _transform_rows(self, task: Task, at: Index, data: Value) -> None:
        """B d of the rows from `at` on, [product][channel][pixel]."""
        code, p, lanes = task.code, self.p, self.lanes
        linear, move = FixedMatrixProducts(code, p.dtype, lanes), p.left.stride(self.image.spatial[0])

        moves = [int(s) * self.pitch for s in row_major(tuple(self.images))]

        def transform(places: list[Index]) -> None:
            read = code.add(at, *(code.mul(i, p.left.stride(c)) for i, c in zip(places, self.around, strict=True)))
            write = code.add(0, *(code.mul(i, s) for i, s in zip(places, moves, strict=True)))
            for x in range(0, self.across, lanes):
                mask = code.lane_mask(self.across - x, lanes)
                rows = [code.load(task.image_buffer, code.add(read, x, code.mul(i, move)), lanes, mask) for i in range(self.products)]
                for k, value in enumerate(linear.apply(self.transforms.data, rows)):
                    code.store(value, data, code.add(write, k * self.data_plane + x), None, lanes * p.dtype.bytes)

        _nest(code, self.images, transform)

    def _multiply(self, task: Task, data: Value, made: Value) -> None:
        """The products of a panel, [product][pixel][lane]."""
        code, p, lanes, width = task.code, self.p, self.lanes, self.channels_at_once()
        align = lanes * p.dtype.bytes
        per_product = self.steps_of_product * width
        weights = code.mul(code.div(task.channel0, width), self.products * per_product)
        moves = [int(s) * self.pitch for s in row_major(tuple(self.images))]
        sizes = self.images
        if self.inside is not None:
            moves, sizes = [*moves, 1], [*sizes, typical(p.size(self.inside))]
        axes = join_axes([Axis(n, a, int(b) * width) for n, a, b in zip(sizes, moves, row_major(tuple(sizes)), strict=True)])
        with code.loop(0, self.products, name="product") as product:
            data0, sums0 = code.mul(product.iv, self.data_plane), code.mul(product.iv, self.sums_plane)

            def tile(x: Index, columns: int) -> None:
                def read_data(r: int, position: Index) -> Value:
                    return code.broadcast(code.load(data, code.add(position, r)), lanes)

                def read_weights(v: int, position: Index) -> Value:
                    return code.load(task.weights, code.add(position, v * lanes), lanes, None, align)

                acc = zeros(code, columns, self.vectors, p.dtype, lanes)
                acc = accumulate(
                    code, axes, read_data, read_weights, acc, code.add(data0, x), code.add(weights, code.mul(product.iv, per_product))
                )
                for r, line in enumerate(acc):
                    for v, value in enumerate(line):
                        code.store(value, made, code.add(sums0, code.mul(x, width), r * width + v * lanes), None, align)

            tile_rows(code, self.extents[-1], tile_heights(self.wide, self.extents[-1]), tile, "x")

    def _transform_sums(self, code: Code, made: Value, sums: Value, to: Index) -> None:
        """A (…) of all pixels of a piece, to position `to` of the task's sums."""
        lanes, align = self.lanes, self.lanes * self.p.dtype.bytes
        linear = FixedMatrixProducts(code, self.p.dtype, lanes)
        with code.loop(0, self.sums_plane, step=lanes, name="x") as loop:
            values = [code.load(made, code.add(loop.iv, k * self.sums_plane), lanes, None, align) for k in range(self.products)]
            for i, value in enumerate(linear.apply(self.transforms.results, values)):
                code.store(value, sums, code.add(to, loop.iv, i * self.sums_plane), None, align)


def _tap_of(image: NchwImage) -> str | None:
    """The letter of the taps down the columns."""
    p = image.problem
    return next((c for c in p.contracted if p.size(c) in TAPS and p.left.stride(c) == p.left.stride(image.spatial[0])), None)


def _nest(code: Code, sizes: Sequence[int], body: Callable[[list[Index]], None], places: Sequence[Index] = ()) -> None:
    """`body` for all places of loops of these sizes."""
    if len(places) == len(sizes):
        body(list(places))
        return
    with code.loop(0, sizes[len(places)], name="channel") as loop:
        _nest(code, sizes, body, [*places, loop.iv])
