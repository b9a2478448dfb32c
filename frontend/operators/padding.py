"""Padding: numbers, mirrored or repeated edges around a tensor."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn
from polyreme.math.fed import places as fed_places
from polyreme.math.fed import sizes as fed_sizes
from polyreme.nn import functional
from polyreme.operators.arguments import FedSizes, Number, Sizes, UnsupportedError, channel_axis, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.operators.indexing import MOST_INDICES
from polyreme.tensor import Tensor


@operator("pad", legacy=spelled("pad"))
def pad(x: Tensor, pad_value: Number = 0.0, *, paddings: Sizes) -> Tensor:
    """Numbers before and after each axis, the first axis first."""
    value = pad_value if x.type.dtype.is_float else int(pad_value)
    return dispatch.call(nn.Pad, x, padding=tuple(paddings), value=value)


@operator("pad3d", legacy=spelled("pad3d", {"X": "x", "Paddings": "paddings"}, attributes={"value": "pad_value"}))
def pad3d(x: Tensor, paddings: FedSizes, *, mode: str = "constant", pad_value: Number = 0.0, data_format: str = "NCDHW") -> Tensor:
    """Around the spatial axes, the last axis first. Paddle gives five axes to signals and images; the widths of others are 0."""
    widths = list(paddings)[: 2 * (x.ndim - 2)]
    if any(not isinstance(width, Tensor) and width != 0 for width in paddings[len(widths) :]):
        raise UnsupportedError(f"expected paddings for {x.ndim - 2} spatial axes but got {paddings}")
    if fed_sizes.are_fed(widths):
        return _padded(x, widths, mode, float(pad_value), channel_axis(data_format, x.ndim))
    _check_widths(x, widths)
    layout = "NCDHW"[:2] + "DHW"[5 - x.ndim :] if channel_axis(data_format, x.ndim) == 1 else "N" + "DHW"[5 - x.ndim :] + "C"
    return functional.pad(x, widths, mode, float(pad_value), layout)


@operator(legacy=spelled("pad2d", {"X": "x", "Paddings": "paddings"}))
def pad2d(x: Tensor, *, paddings: Sizes, mode: str = "constant", pad_value: Number = 0.0, data_format: str = "NCHW") -> Tensor:
    """As `pad3d` for images, but top and bottom first; the old name of a repeated edge is "edge"."""
    top, bottom, left, right = paddings
    _check_widths(x, paddings)
    return functional.pad(x, [left, right, top, bottom], "replicate" if mode == "edge" else mode, float(pad_value), data_format)


def _padded(x: Tensor, widths: FedSizes, mode: str, value: float, channels: int) -> Tensor:
    """By widths that are known when the program runs, the last spatial axis first."""
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UnsupportedError(f"expected the mode constant, reflect, replicate or circular but got '{mode}'")
    axes = [axis for axis in reversed(range(1, x.ndim)) if axis != channels]
    for axis, low, high in zip(axes, widths[::2], widths[1::2], strict=True):
        if fed_sizes.are_fed([low, high]) or low != 0 or high != 0:
            x = fed_places.padded(x, axis, low, high, mode, value if x.type.dtype.is_float else int(value))
    return x


def _check_widths(x: Tensor, widths: Any) -> None:
    # Mirrored and repeated edges are looked up by a list of positions.
    for count in (*widths, *x.type.shape[1:]):
        check_count(count, MOST_INDICES, "elements along an axis that is padded")
