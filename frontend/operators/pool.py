"""Pooling."""

from __future__ import annotations

from polyreme.nn import functional
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.operators.arguments import Sizes, UnsupportedError, channel_axis, check_count
from polyreme.operators.conv import layout_of, padding_of
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator("pool2d", "pool3d", legacy=spelled("pool2d pool3d", attributes={"ksize": "kernel_size"}))
def pool(
    x: Tensor,
    kernel_size: Sizes,
    *,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    data_format: str = "NCHW",
    pooling_type: str = "max",
    global_pooling: bool = False,
    adaptive: bool = False,
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """The largest element or the mean of each window; `adaptive` reads the kernel's sizes as the result's."""
    if pooling_type not in ("max", "avg"):
        raise UnsupportedError(f"expected the pooling type max or avg but got '{pooling_type}'")
    rank, largest = x.ndim - 2, pooling_type == "max"
    layout = layout_of(data_format, rank)
    if global_pooling:
        kernel_size, adaptive = [1] * rank, True
    sizes = [int(k) for k in kernel_size]
    if adaptive:
        for count in sizes:
            check_count(count, 1024, "places per axis of adaptive pooling")
        names = {
            (2, True): "adaptive_max_pool2d",
            (2, False): "adaptive_avg_pool2d",
            (3, True): "adaptive_max_pool3d",
            (3, False): "adaptive_avg_pool3d",
        }
        function = getattr(functional, names[rank, largest])
        if channel_axis(data_format, x.ndim) == 1:
            return function(x, sizes)
        return to_channel_last(function(to_channel_first(x), sizes))
    padding = padding_of(paddings, padding_algorithm)
    if largest:
        function = functional.max_pool2d if rank == 2 else functional.max_pool3d
        return function(x, sizes, list(strides), padding, False, ceil_mode, layout)
    function = functional.avg_pool2d if rank == 2 else functional.avg_pool3d
    return function(x, sizes, list(strides), padding, ceil_mode, exclusive, None, layout)


@operator("max_pool2d_with_index", legacy=spelled("max_pool2d_with_index", outputs="Out Mask", attributes={"ksize": "kernel_size"}))
def max_pool2d_with_index(
    x: Tensor,
    *,
    kernel_size: Sizes,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    global_pooling: bool = False,
    adaptive: bool = False,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The largest elements, and where they stood in their images; adaptive and global ones without."""
    if adaptive or global_pooling:
        return pool(
            x, kernel_size, strides=strides, paddings=paddings, global_pooling=global_pooling, adaptive=adaptive, ceil_mode=ceil_mode
        ), None
    return functional.max_pool2d(x, list(kernel_size), list(strides), list(paddings), True, ceil_mode)
