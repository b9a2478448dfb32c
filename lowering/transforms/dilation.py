"""Dilated convolutions as convolutions without gaps.

Windows whose taps are `gap` pixels apart see only pixels of one remainder by it. The pixels of each remainder, down and across, are an
image of their own, whose windows have no gaps; so Winograd's way is open to them, for which pixels are put together by remainders before
and put back behind.
"""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.core import Value
from polyreme.ir.dims import ceildiv
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.transforms.pixel_blocks import longer

# Fewer channels are not worth it, nor images of fewer places on a side.
LEAST_CHANNELS, LEAST_PLACES = 16, 2


def without_gaps(b: Builder, windows: tensor.Window, weight: Value, spec: str) -> Value | None:
    """The contract of windows over an image [batch, rows, columns, channels] by a weight, giving [batch, rows, columns, outputs], as `spec`
    has it; None where it would not go by Winograd's way without gaps either.
    """
    batch, *sizes, channels = shape_of(windows.x)
    outputs = shape_of(weight)[spec.split(",")[1].index(spec[-1])]
    gap = windows.dilations[0]
    if (
        windows.axes != (1, 2)
        or windows.sizes != (3, 3)
        or windows.strides != (1, 1)
        or windows.dilations[1] != gap
        or element_type(weight.type) != f32
    ):
        return None
    if not all(isinstance(n, int) for n in (gap, *sizes, channels, outputs)) or min(channels, outputs) < LEAST_CHANNELS:
        return None
    places = [size - 2 * gap for size in sizes]
    if gap < 2 or min(places) < LEAST_PLACES * gap:
        return None
    rows, columns = (ceildiv(n, gap) + 2 for n in places)
    more = (gap * rows - sizes[0], gap * columns - sizes[1])
    x = longer(b, longer(b, windows.x, 1, more[0]), 2, more[1])
    x = b(tensor.Transpose, b(tensor.Reshape, x, shape=(batch, rows, gap, columns, gap, channels)), perm=(0, 2, 4, 1, 3, 5))
    x = b(tensor.Reshape, x, shape=(batch * gap * gap, rows, columns, channels))
    y = b(tensor.Contract, b(tensor.Window, x, axes=(1, 2), sizes=(3, 3), strides=(1, 1), dilations=(1, 1)), weight, spec=spec)
    y = b(tensor.Transpose, b(tensor.Reshape, y, shape=(batch, gap, gap, rows - 2, columns - 2, outputs)), perm=(0, 3, 1, 4, 2, 5))
    y = b(tensor.Reshape, y, shape=(batch, (rows - 2) * gap, (columns - 2) * gap, outputs))
    if any(more):
        y = b(tensor.Slice, y, starts=(0,) * 4, stops=(batch, *places, outputs), strides=(1,) * 4)
    return y
