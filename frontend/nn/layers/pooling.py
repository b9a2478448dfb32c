"""Pooling layers."""

from __future__ import annotations

from typing import Any

from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.nn.layers.defaults import defaults
from polyreme.nn.layers.function_layer import FunctionLayer
from polyreme.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "AdaptiveMaxPool1D", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D",
    "AvgPool1D", "AvgPool2D", "AvgPool3D",
    "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxUnPool1D", "MaxUnPool2D", "MaxUnPool3D",
]  # fmt: skip


class _Pool(FunctionLayer):
    renamed = {"divisor_override": "divisor"}

    def __init__(self, kernel_size: Any, stride: Any, padding: Any, name: str | None, **options: Any):
        super().__init__(**options)
        self.kernel_size, self.ksize = kernel_size, kernel_size
        self.stride, self.padding, self.name = stride, padding, name

    def forward(self, x: Tensor) -> Any:
        return self._apply_function(x, self.kernel_size, self.stride, self.padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1D(_Pool):
    """The largest element of each window of [N, C, L]."""

    function = "max_pool1d"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, name, return_mask=return_mask, ceil_mode=ceil_mode)


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, name, return_mask=return_mask, ceil_mode=ceil_mode, data_format=data_format)


class MaxPool2D(_MaxPool):
    """The largest element of each window of [N, C, H, W]."""

    function = "max_pool2d"


@defaults(data_format="NCDHW")
class MaxPool3D(_MaxPool):
    """The largest element of each window of [N, C, D, H, W]."""

    function = "max_pool3d"


class AvgPool1D(_Pool):
    """The mean of each window of [N, C, L]."""

    function = "avg_pool1d"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, name, exclusive=exclusive, ceil_mode=ceil_mode)


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        options = {"ceil_mode": ceil_mode, "exclusive": exclusive, "divisor_override": divisor_override, "data_format": data_format}
        super().__init__(kernel_size, stride, padding, name, **options)


class AvgPool2D(_AvgPool):
    """The mean of each window of [N, C, H, W]; `exclusive` leaves padding out of the count."""

    function = "avg_pool2d"


@defaults(data_format="NCDHW")
class AvgPool3D(_AvgPool):
    """The mean of each window of [N, C, D, H, W]; `exclusive` leaves padding out of the count."""

    function = "avg_pool3d"


class _Adaptive(FunctionLayer):
    prefix = "_"

    def __init__(self, name: str | None, **options: Any):
        super().__init__(**options)
        setattr(self, f"{self.prefix}name", name)

    def forward(self, x: Tensor) -> Any:
        return self._apply_function(x)


class _AdaptiveAvg(_Adaptive):
    def extra_repr(self) -> str:
        return f"output_size={self._chosen()['output_size']}"


class AdaptiveAvgPool1D(_AdaptiveAvg):
    """The means of as many windows of [N, C, L] as `output_size` says."""

    function, prefix = "adaptive_avg_pool1d", ""

    def __init__(self, output_size: Any, name: str | None = None):
        super().__init__(name, output_size=output_size)


class AdaptiveAvgPool2D(_AdaptiveAvg):
    """The means of as many windows of [N, C, H, W] as `output_size` says."""

    function = "adaptive_avg_pool2d"

    def __init__(self, output_size: Any, data_format: str = "NCHW", name: str | None = None):
        super().__init__(name, output_size=output_size, data_format=data_format)


class AdaptiveAvgPool3D(_AdaptiveAvg):
    """The means of as many windows of [N, C, D, H, W] as `output_size` says."""

    function = "adaptive_avg_pool3d"

    def __init__(self, output_size: Any, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(name, output_size=output_size, data_format=data_format)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None):
        super().__init__(name, output_size=output_size, return_mask=return_mask)

    def extra_repr(self) -> str:
        return ", ".join(f"{option}={value}" for option, value in self._chosen().items())


class AdaptiveMaxPool1D(_AdaptiveMax):
    """The largest elements of as many windows of [N, C, L] as `output_size` says."""

    function, prefix = "adaptive_max_pool1d", ""


class AdaptiveMaxPool2D(_AdaptiveMax):
    """The largest elements of as many windows of [N, C, H, W] as `output_size` says."""

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3D(_AdaptiveMax):
    """The largest elements of as many windows of [N, C, D, H, W] as `output_size` says."""

    function = "adaptive_max_pool3d"


class _MaxUnPool(Layer):
    """The elements that a max pool gave, at the places that it gave with them."""

    rank = 2

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCHW", output_size: Any = None,
        name: str | None = None,
    ):  # fmt: skip
        super().__init__()
        self.ksize, self.stride, self.padding = kernel_size, stride, padding
        self.data_format, self.output_size, self.name = data_format, output_size, name

    def forward(self, x: Tensor, indices: Tensor) -> Tensor:
        function = getattr(F, f"max_unpool{self.rank}d")
        made: Tensor = function(x, indices, self.ksize, self.stride, self.padding, self.data_format, self.output_size)
        return made

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@defaults(data_format="NCL")
class MaxUnPool1D(_MaxUnPool):
    """Elements of [N, C, L] where `MaxPool1D(return_mask=True)` has found them."""

    rank = 1


@defaults(data_format="NCHW")
class MaxUnPool2D(_MaxUnPool):
    """Elements of [N, C, H, W] where `MaxPool2D(return_mask=True)` has found them."""


@defaults(data_format="NCDHW")
class MaxUnPool3D(_MaxUnPool):
    """Elements of [N, C, D, H, W] where `MaxPool3D(return_mask=True)` has found them."""

    rank = 3
