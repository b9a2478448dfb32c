"""Dilated 3x3 convolutions as convolutions without dilation (space to batch).

A window with dilation d reads pixels whose coordinates are equal modulo d. The pixels of each remainder form an image of their own, on
which the window has dilation 1. So the pixels are sorted by remainder into the batch, convolved by Winograd's algorithm, and sorted back.
"""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.core import Value
from polyreme.ir.dims import ceildiv
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.winograd_costs import WINOGRAD_CHANNELS
from polyreme.lowering.transforms.pixel_blocks import longer

# Fewer results per side do not pay.
MIN_PLACES = 2


def without_dilation(b: Builder, windows: tensor.Window, weight: Value, spec: str) -> Value | None:
    """The contract of dilated windows over an image [batch, rows, columns, channels] by a weight: [batch, rows, columns, outputs].

    `spec` names the letters. None where Winograd's algorithm would not take it without dilation either.
    """
    batch, *sizes, channels = shape_of(windows.x)
    outputs = shape_of(weight)[spec.split(",")[1].index(spec[-1])]
    dilation = windows.dilations[0]
    if (
        windows.axes != (1, 2)
        or windows.sizes != (3, 3)
        or windows.strides != (1, 1)
        or windows.dilations[1] != dilation
        or element_type(weight.type) != f32
    ):
        return None
    if not all(isinstance(n, int) for n in (dilation, *sizes, channels, outputs)) or min(channels, outputs) < WINOGRAD_CHANNELS:
        return None
    places = [size - 2 * dilation for size in sizes]
    if dilation < 2 or min(places) < MIN_PLACES * dilation:
        return None
    rows, columns = (ceildiv(n, dilation) + 2 for n in places)
    more = (dilation * rows - sizes[0], dilation * columns - sizes[1])
    x = longer(b, longer(b, windows.x, 1, more[0]), 2, more[1])
    x = b(tensor.Transpose, b(tensor.Reshape, x, shape=(batch, rows, dilation, columns, dilation, channels)), perm=(0, 2, 4, 1, 3, 5))
    x = b(tensor.Reshape, x, shape=(batch * dilation * dilation, rows, columns, channels))
    y = b(tensor.Contract, b(tensor.Window, x, axes=(1, 2), sizes=(3, 3), strides=(1, 1), dilations=(1, 1)), weight, spec=spec)
    y = b(tensor.Reshape, y, shape=(batch, dilation, dilation, rows - 2, columns - 2, outputs))
    y = b(tensor.Transpose, y, perm=(0, 3, 1, 4, 2, 5))
    y = b(tensor.Reshape, y, shape=(batch, (rows - 2) * dilation, (columns - 2) * dilation, outputs))
    if any(more):
        y = b(tensor.Slice, y, starts=(0,) * 4, stops=(batch, *places, outputs), strides=(1,) * 4)
    return y
