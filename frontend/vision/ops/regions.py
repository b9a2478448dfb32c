"""Regions of images in few pixels, as functions and layers."""

from __future__ import annotations

from typing import Any

from polyreme.ir.dims import Dim
from polyreme.ir.types import TensorType, i64
from polyreme.math.common import tensor_arg
from polyreme.math.programs import recorded
from polyreme.nn import Layer
from polyreme.regions import pool
from polyreme.regions.align import roi_align as align
from polyreme.regions.places import check_regions
from polyreme.tensor import Tensor

__all__ = ["PSRoIPool", "RoIAlign", "RoIPool", "psroi_pool", "roi_align", "roi_pool"]


def _pair(output_size: Any, function: str, kinds: tuple[type, ...] = (int, tuple)) -> tuple[int, int]:
    """Height and width of a region, from one number for both or two."""
    if not isinstance(output_size, kinds) or isinstance(output_size, bool):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"The type of 'output_size' in {function} must be {names}, but received {type(output_size).__name__}.")
    height, width = [output_size] * 2 if isinstance(output_size, int) else list(output_size)  # type: ignore[call-overload]
    return int(height), int(width)


def _check(x: Any, boxes: Any, boxes_num: Any, height: int, width: int, function: str) -> None:
    tensor_arg(x, function)
    tensor_arg(boxes, function, "boxes")
    assert boxes_num is not None, "boxes_num should not be None in dygraph mode."
    tensor_arg(boxes_num, function, "boxes_num")
    check_regions(x, boxes, height, width, function)


def _operator(
    function: str, x: Tensor, boxes: Tensor, boxes_num: Tensor, channels: Dim, height: int, width: int, scale: float, **attributes: Any
) -> Tensor | None:
    """The result in a static Program, which has Paddle's operator."""
    kind = TensorType((boxes.type.shape[0], channels, height, width), x.type.dtype)
    outputs = {"Out": kind, **({"Argmax": kind.with_dtype(i64)} if function == "roi_pool" else {})}
    sizes = {"pooled_height": height, "pooled_width": width, "spatial_scale": float(scale)}
    made = recorded(function, {"X": x, "ROIs": boxes, "RoisNum": boxes_num}, outputs, {**sizes, **attributes})
    return None if made is None else made[0]


def roi_align(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    name: str | None = None,
) -> Tensor:
    """[boxes, C, h, w] of images [N, C, H, W] and boxes [boxes, 4] (x1, y1, x2, y2), `boxes_num` [N] of each image in order.

    Each element is the mean of `sampling_ratio`**2 places in its part of the box, or of as many as it has pixels where that is not
    positive.

    With `aligned` pixels have their middles half a pixel behind their number. Floats; a gradient reaches the images.
    """
    height, width = _pair(output_size, "roi_align")
    _check(x, boxes, boxes_num, height, width, "roi_align")
    ratio, aligned = int(sampling_ratio), bool(aligned)
    made = _operator(
        "roi_align", x, boxes, boxes_num, x.type.shape[1], height, width, spatial_scale, sampling_ratio=ratio, aligned=aligned
    )
    return align(x, boxes, boxes_num, height, width, float(spatial_scale), ratio, aligned) if made is None else made


def roi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0, name: str | None = None
) -> Tensor:
    """[boxes, C, h, w] of images and boxes as `roi_align` takes them: the greatest element of each part of whole pixels, 0 for none."""
    height, width = _pair(output_size, "roi_pool")
    _check(x, boxes, boxes_num, height, width, "roi_pool")
    made = _operator("roi_pool", x, boxes, boxes_num, x.type.shape[1], height, width, spatial_scale)
    return pool.roi_pool(x, boxes, boxes_num, height, width, float(spatial_scale))[0] if made is None else made


def psroi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0, name: str | None = None
) -> Tensor:
    """[boxes, C, h, w] of images [N, C * h * w, H, W] and boxes as `roi_align` takes them: the mean of each part of a box, in a channel
    that belongs to the part.
    """
    height, width = _pair(output_size, "psroi_pool", (int, tuple, list))
    if height * width == 0:
        raise ValueError("output_size should not contain 0.")
    _check(x, boxes, boxes_num, height, width, "psroi_pool")
    channels = int(x.shape[1]) // (height * width)
    made = _operator("psroi_pool", x, boxes, boxes_num, channels, height, width, spatial_scale, output_channels=channels)
    return pool.psroi_pool(x, boxes, boxes_num, height, width, channels, float(spatial_scale)) if made is None else made


class RoIAlign(Layer):
    """`roi_align` with the pixels' middles half a pixel behind their number."""

    def __init__(self, output_size: Any, spatial_scale: float = 1.0):
        super().__init__()
        self._output_size, self._spatial_scale = output_size, spatial_scale

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor, aligned: bool = True) -> Tensor:
        return roi_align(x, boxes, boxes_num, self._output_size, self._spatial_scale, aligned=aligned)


class RoIPool(Layer):
    """`roi_pool` with parts of so many pixels."""

    def __init__(self, output_size: Any, spatial_scale: float = 1.0):
        super().__init__()
        self._output_size, self._spatial_scale = output_size, spatial_scale

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Tensor:
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, spatial_scale={self._spatial_scale}"


class PSRoIPool(Layer):
    """`psroi_pool` with so many parts."""

    def __init__(self, output_size: Any, spatial_scale: float = 1.0):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Tensor:
        return psroi_pool(x, boxes, boxes_num, self.output_size, self.spatial_scale)
