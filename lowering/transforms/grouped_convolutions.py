"""Grouped convolutions with few channels per group, as convolutions with larger groups.

Lanes run along a group's channels, and groups of four leave twelve of sixteen lanes idle. So as many neighbouring groups as fill the lanes
become one, whose weights are zero between channels of different groups: more multiplications, in fewer instructions.

Zeros times an infinity or nan are nan, and reach all results of the larger group, as they reach a whole piece of Winograd's algorithm. Who
forbids the one forbids the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.core import Value
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.instructions import WIDEST_BYTES


class LargerGroups(NamedTuple):
    """A convolution in larger groups: its windows, and its weight [groups, outputs, channels, *taps]."""

    windows: Value
    weight: Value


def larger_groups(b: Builder, windows: tensor.Window, weight: Value, order: tuple[int, ...]) -> LargerGroups | None:
    """The same for windows over an image whose last axes are groups and their channels, and for a weight whose axes in this order are
    [groups, outputs, channels, *taps]; None where groups fill the lanes or have one channel each, and where the weight is not known.
    """
    source, shape = weight, shape_of(weight)
    while (reshape := source.producer(tensor.Reshape)) is not None:
        source = reshape.x
    constant = source.producer(tensor.Constant)
    if constant is None or element_type(weight.type).kind != "f":
        return None
    array = constant.value.array.reshape(shape).transpose(order)
    groups, outputs, channels, *taps = array.shape
    # A group fills the widest vectors; 16-bit floats are computed in float32.
    count = WIDEST_BYTES // (max(element_type(weight.type).bytes, f32.bytes) * max(outputs, channels))
    if count < 2 or min(outputs, channels) < 2 or groups % count:
        return None
    blocks = np.zeros((groups // count, count, outputs, count, channels, *taps), array.dtype)
    for i in range(count):
        blocks[:, i, :, i] = array[i::count]
    joined = b(tensor.Constant, value=Dense(blocks.reshape(groups // count, count * outputs, count * channels, *taps)))
    pad = windows.x.producer(tensor.Pad)
    image = windows.x if pad is None else pad.x
    image = b(tensor.Reshape, image, shape=(*shape_of(image)[:-2], groups // count, count * channels))
    if pad is not None:
        image = b(tensor.Pad, image, **pad.attributes)
    made = b(tensor.Window, image, axes=windows.axes, sizes=windows.sizes, strides=windows.strides, dilations=windows.dilations)
    return LargerGroups(made, joined)
