"""Pooling."""

from __future__ import annotations

from typing import Any

from polyreme.math.fed import sizes as fed_sizes
from polyreme.nn import functional
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.operators.arguments import FedSizes, Sizes, UnsupportedError, channel_axis, check_count, number
from polyreme.operators.conv import layout_of, padding_of
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator("pool2d", legacy=spelled("pool2d", attributes={"ksize": "kernel_size"}))
def pool2d(
    x: Tensor,
    kernel_size: FedSizes,
    *,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    data_format: str = "NCHW",
    pooling_type: str,
    global_pooling: bool = False,
    adaptive: bool = False,
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """The largest element or the mean of each window; `adaptive` reads the kernel's sizes as the result's."""
    if adaptive or global_pooling:
        return _adaptive(2, x, [1, 1] if global_pooling else kernel_size, data_format, pooling_type)
    return _pool(2, x, kernel_size, strides, padding_of(paddings, padding_algorithm), ceil_mode, exclusive, data_format, pooling_type)


@operator("pool3d", legacy=spelled("pool3d", attributes={"ksize": "kernel_size"}))
def pool3d(
    x: Tensor,
    kernel_size: FedSizes,
    *,
    strides: Sizes = (1, 1, 1),
    paddings: Sizes = (0, 0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    data_format: str = "NCDHW",
    pooling_type: str,
    global_pooling: bool = False,
    adaptive: bool = False,
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """As `pool2d`, of volumes."""
    if adaptive or global_pooling:
        return _adaptive(3, x, [1, 1, 1] if global_pooling else kernel_size, data_format, pooling_type)
    return _pool(3, x, kernel_size, strides, padding_of(paddings, padding_algorithm), ceil_mode, exclusive, data_format, pooling_type)


def _is_largest(pooling_type: str) -> bool:
    if pooling_type not in ("max", "avg"):
        raise UnsupportedError(f"expected the pooling type max or avg but got '{pooling_type}'")
    return pooling_type == "max"


def _pool(
    rank: int,
    x: Tensor,
    kernel_size: FedSizes,
    strides: Sizes,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
) -> Tensor:
    sizes, layout = [int(number(k, "kernel_size")) for k in kernel_size], layout_of(data_format, rank)
    if _is_largest(pooling_type):
        largest = functional.max_pool2d if rank == 2 else functional.max_pool3d
        made: Tensor = largest(x, sizes, list(strides), padding, False, ceil_mode, layout)
        return made
    mean = functional.avg_pool2d if rank == 2 else functional.avg_pool3d
    return mean(x, sizes, list(strides), padding, ceil_mode, exclusive, None, layout)


def _adaptive(rank: int, x: Tensor, kernel_size: FedSizes, data_format: str, pooling_type: str) -> Tensor:
    sizes = [fed_sizes.extent(k, "kernel_size", 1) for k in kernel_size]
    for count in sizes:
        check_count(count, 1024, "places per axis of adaptive pooling")
    names = {
        (2, True): "adaptive_max_pool2d",
        (2, False): "adaptive_avg_pool2d",
        (3, True): "adaptive_max_pool3d",
        (3, False): "adaptive_avg_pool3d",
    }
    function = getattr(functional, names[rank, _is_largest(pooling_type)])
    if channel_axis(data_format, x.ndim) == 1:
        made: Tensor = function(x, sizes)
        return made
    return to_channel_last(function(to_channel_first(x), sizes))


@operator("max_pool2d_with_index", legacy=spelled("max_pool2d_with_index", outputs="Out Mask", attributes={"ksize": "kernel_size"}))
def max_pool2d_with_index(
    x: Tensor,
    *,
    kernel_size: FedSizes,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    global_pooling: bool = False,
    adaptive: bool = False,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The largest elements, and where they stood in their images; adaptive and global ones without."""
    if adaptive or global_pooling:
        return _adaptive(2, x, [1, 1] if global_pooling else kernel_size, "NCHW", "max"), None
    return functional.max_pool2d(x, list(kernel_size), list(strides), list(paddings), True, ceil_mode)
