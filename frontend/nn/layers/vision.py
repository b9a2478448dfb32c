"""Layers that change the size of images."""

from __future__ import annotations

from typing import Any

from polyreme.nn import functional as F
from polyreme.nn.functional.resize import FORMATS
from polyreme.nn.layer import Layer
from polyreme.tensor import Tensor

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle", "Upsample", "UpsamplingBilinear2D", "UpsamplingNearest2D"]


class _Shuffle(Layer):
    """A function of images with one whole number, which is shown as `shown`."""

    shown = ""
    function = ""

    def __init__(self, factor: int, data_format: str, name: str | None, what: str):
        super().__init__()
        if not isinstance(factor, int):
            raise TypeError(f"{what} must be int type")
        if factor <= 0:
            raise ValueError(f"{what} must be positive")
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"Data format should be 'NCHW' or 'NHWC'.But receive data format: {data_format}")
        self._data_format, self._name = data_format, name
        setattr(self, f"_{self.shown}", factor)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = getattr(F, self.function)(x, getattr(self, f"_{self.shown}"), self._data_format)
        return made

    def extra_repr(self) -> str:
        text = f"{self.shown}={getattr(self, f'_{self.shown}')}"
        if self._data_format != "NCHW":
            text += f", data_format={self._data_format}"
        return text if self._name is None else f"{text}, name={self._name}"


class PixelShuffle(_Shuffle):
    """[N, C * r * r, H, W] to [N, C, H * r, W * r]."""

    shown, function = "upscale_factor", "pixel_shuffle"

    def __init__(self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__(upscale_factor, data_format, name, "upscale factor")


class PixelUnshuffle(_Shuffle):
    """[N, C, H, W] to [N, C * r * r, H / r, W / r]."""

    shown, function = "downscale_factor", "pixel_unshuffle"

    def __init__(self, downscale_factor: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__(downscale_factor, data_format, name, "Downscale factor")


class ChannelShuffle(_Shuffle):
    """Channels in groups, dealt out in turn."""

    shown, function = "groups", "channel_shuffle"

    def __init__(self, groups: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__(groups, data_format, name, "groups")


class Upsample(Layer):
    """Signals, images or volumes in another size, as `functional.interpolate` makes them."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str | None = None,
        recompute_scale_factor: bool | None = None,
        name: str | None = None,
    ):
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode.lower()
        self.align_corners, self.align_mode, self.data_format = align_corners, align_mode, data_format
        self.recompute_scale_factor, self.name = recompute_scale_factor, name

    def forward(self, x: Tensor) -> Tensor:
        if self.data_format is None:
            # As in Paddle, the first input decides; from then on it is shown.
            if x.ndim not in FORMATS:
                raise ValueError(
                    f"The dimension of the input tensor should only be 3-D, 4-D or 5-D, but the received dimension is {x.ndim}."
                )
            self.data_format = FORMATS[x.ndim][0]
        return F.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.align_mode, self.data_format, self.recompute_scale_factor
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        named = f", name={self.name}" if self.name else ""
        aligned = f"align_corners={self.align_corners}, align_mode={self.align_mode}"
        return f"{text}, mode={self.mode}, {aligned}, data_format={self.data_format}{named}"


class _Upsampling2D(Layer):
    """Images in another size, by one mode."""

    mode, align_corners = "nearest", False

    def __init__(self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self.size = [size, size] if isinstance(size, int) else size
        self.scale_factor, self.data_format, self.name = scale_factor, data_format, name

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners, 0, self.data_format)

    def extra_repr(self) -> str:
        text = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        return f"{text}, data_format={self.data_format}{f', name={self.name}' if self.name else ''}"


class UpsamplingNearest2D(_Upsampling2D):
    """Images in another size, each pixel the nearest one."""


class UpsamplingBilinear2D(_Upsampling2D):
    """Images in another size, between neighbours, the corners on each other."""

    mode, align_corners = "bilinear", True
