"""Convolutions with few output channels, by blocks of pixels.

Lanes run along the output channels, and three channels leave thirteen of sixteen lanes idle. So several neighbours of a row are computed at
once, as further channels: one window as wide as those of all its pixels, which moves by a block. Each pixel has its weights where its own
window lies, and zeros elsewhere. 9 taps of 5 pixels of 3 channels take 13 taps of 15 lanes, in place of five times 9 taps of 3 lanes.

Zeros times an infinity or nan are nan, and reach all pixels of a block whose common window sees them, as they reach a whole piece of
Winograd's algorithm. Who forbids the one forbids the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.core import Value
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.half_floats import is_widening
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.instructions import WIDEST_BYTES

# Lanes that a block fills: those of the widest vectors of float32.
LANES = WIDEST_BYTES // f32.bytes


class PixelBlocks(NamedTuple):
    """A convolution whose pixels are computed `pixels` at once: its windows and weights, with `pixels` times the channels, the pixel before
    the channel.
    """

    windows: Value
    weight: Value
    pixels: int


def pixel_blocks(b: Builder, windows: tensor.Window, weight: Value, channel: int, tap: int) -> PixelBlocks | None:
    """The blocks of pixels for a convolution; None if the channels fill the lanes, or if wider windows cost more than they save.

    Axis `channel` of its weight has the output channels, axis `tap` the taps along the windows' last axis.
    """
    channels, taps = shape_of(weight)[channel], windows.sizes[-1]
    axis = windows.axes[-1]
    pixels, size = shape_of(windows.result)[axis], shape_of(windows.x)[axis]
    if (
        not all(isinstance(n, int) for n in (channels, taps, pixels, size))
        or windows.strides[-1] != 1
        or windows.dilations[-1] != 1
        or element_type(weight.type).kind != "f"
        or is_widening(weight.producer())
    ):
        return None
    assert isinstance(channels, int) and isinstance(taps, int) and isinstance(pixels, int) and isinstance(size, int)
    count = min(LANES // max(channels, 1), pixels)
    if count < 2 or count * taps < 2 * (taps + count - 1):
        return None
    blocks = -(-pixels // count)
    x = longer(b, windows.x, axis, blocks * count + taps - 1 - size)
    sizes, strides = (*windows.sizes[:-1], taps + count - 1), (*windows.strides[:-1], count)
    made = b(tensor.Window, x, axes=windows.axes, sizes=sizes, strides=strides, dilations=windows.dilations)
    return PixelBlocks(made, _side_by_side(b, weight, channel, tap, count), count)


def longer(b: Builder, x: Value, axis: int, more: int) -> Value:
    """`x` with `more` zeros behind it along `axis`, in one step with zeros that it has already."""
    none = (0,) * len(shape_of(x))
    behind = tuple(more if i == axis else 0 for i in range(len(none)))
    pad = x.producer(tensor.Pad)
    if more <= 0:
        return x
    if pad is not None and pad.value == 0 and not any(pad.interior):
        joined: Value = b(
            tensor.Pad, pad.x, low=pad.low, high=tuple(a + c for a, c in zip(pad.high, behind, strict=True)), interior=none, value=pad.value
        )
        return joined
    made: Value = b(tensor.Pad, x, low=none, high=behind, interior=none, value=0)
    return made


def _side_by_side(b: Builder, weight: Value, channel: int, tap: int, count: int) -> Value:
    """The weights of `count` pixels: each one's moved by a tap."""
    rank = len(shape_of(weight))
    none = (0,) * rank
    amounts = [tuple(tuple(n if i == tap else 0 for i in range(rank)) for n in (pixel, count - 1 - pixel)) for pixel in range(count)]
    constant = weight.producer(tensor.Constant)
    if constant is not None:
        array = constant.value.array
        moved = [np.pad(array, list(zip(low, high, strict=True))) for low, high in amounts]
        folded: Value = b(tensor.Constant, value=Dense(np.concatenate(moved, axis=channel)))
        return folded
    parts = [b(tensor.Pad, weight, low=low, high=high, interior=none, value=0) for low, high in amounts]
    made: Value = b(tensor.Concat, parts, axis=channel)
    return made
