"""Regions of images in few pixels, as functions and layers."""

from __future__ import annotations

from typing import Any

from polyreme.math.common import tensor_arg
from polyreme.nn import Layer
from polyreme.regions import pool
from polyreme.regions.align import roi_align as align
from polyreme.tensor import Tensor

__all__ = ["PSRoIPool", "RoIAlign", "RoIPool", "psroi_pool", "roi_align", "roi_pool"]


def _pair(output_size: Any, function: str, kinds: tuple[type, ...] = (int, tuple)) -> tuple[int, int]:
    """Height and width of a region, from one number for both or two."""
    if not isinstance(output_size, kinds) or isinstance(output_size, bool):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"The type of 'output_size' in {function} must be {names}, but received {type(output_size).__name__}.")
    height, width = [output_size] * 2 if isinstance(output_size, int) else list(output_size)  # type: ignore[call-overload]
    return int(height), int(width)


def _check(x: Any, boxes: Any, boxes_num: Any, function: str) -> None:
    tensor_arg(x, function)
    tensor_arg(boxes, function, "boxes")
    assert boxes_num is not None, "boxes_num should not be None in dygraph mode."
    tensor_arg(boxes_num, function, "boxes_num")


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
    _check(x, boxes, boxes_num, "roi_align")
    return align(x, boxes, boxes_num, height, width, float(spatial_scale), int(sampling_ratio), bool(aligned))


def roi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0, name: str | None = None
) -> Tensor:
    """[boxes, C, h, w] of images and boxes as `roi_align` takes them: the greatest element of each part of whole pixels, 0 for none."""
    height, width = _pair(output_size, "roi_pool")
    _check(x, boxes, boxes_num, "roi_pool")
    return pool.roi_pool(x, boxes, boxes_num, height, width, float(spatial_scale))[0]


def psroi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0, name: str | None = None
) -> Tensor:
    """[boxes, C, h, w] of images [N, C * h * w, H, W] and boxes as `roi_align` takes them: the mean of each part of a box, in a channel
    that belongs to the part.
    """
    height, width = _pair(output_size, "psroi_pool", (int, tuple, list))
    _check(x, boxes, boxes_num, "psroi_pool")
    assert x.ndim == 4, "Input features with shape should be (N, C, H, W)"
    if height * width == 0:
        raise ValueError("output_size should not contain 0.")
    channels = int(x.shape[1]) // (height * width)
    return pool.psroi_pool(x, boxes, boxes_num, height, width, channels, float(spatial_scale))


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
