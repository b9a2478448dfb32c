"""Pooling."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import i32, i64
from polyreme.math.common import cast_to, check_within
from polyreme.math.fed import sizes as fed_sizes
from polyreme.nn import functional
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.operators.arguments import Extents, FedSizes, Sizes, UnsupportedError, channel_axis, check_count, number
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
    """The largest elements, and where they stood in their images."""
    if adaptive or global_pooling:
        largest = _adaptive(2, x, [1, 1] if global_pooling else kernel_size, "NCHW", "max")
        return largest, _adaptive_places(x, largest)
    return functional.max_pool2d(x, list(kernel_size), list(strides), list(paddings), True, ceil_mode)


def _adaptive_places(x: Tensor, largest: Tensor) -> Tensor:
    """The first place of each image, int32, that has the largest element of its window. What is not used of it is not computed."""
    sizes, counts = x.type.shape[2:], largest.type.shape[2:]
    within: Any = None
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        # Window i is from floor(i size / count) to ceil((i + 1) size / count).
        window, place = (dispatch.call(nn.Iota, shape=(n,), axis=0, dtype=i64) for n in (count, size))
        before, length = (fed_sizes.as_number(n) for n in (count, size))
        start = math.floor_divide(math.multiply(window, length), before)
        one = fed_sizes.as_number(1)
        ends = math.add(math.multiply(math.add(window, one), length), math.subtract(before, one))
        stop = math.floor_divide(ends, before)
        row = math.unsqueeze(place, 0)
        inside = math.logical_and(math.greater_equal(row, math.unsqueeze(start, 1)), math.less_than(row, math.unsqueeze(stop, 1)))
        shape: list[Dim] = [1] * 4
        shape[axis], shape[2 + axis] = count, size
        inside = math.reshape(inside, shape)
        within = inside if within is None else math.logical_and(within, inside)
    here = math.reshape(x, [*x.type.shape[:2], 1, 1, *sizes])
    hit = math.logical_and(within, math.equal(here, math.reshape(largest, [*largest.type.shape, 1, 1])))
    rows, columns = (dispatch.call(nn.Iota, shape=sizes, axis=axis, dtype=i64) for axis in (0, 1))
    numbers = math.add(math.multiply(rows, fed_sizes.as_number(sizes[1])), columns)
    beyond = fed_sizes.as_number(sizes[0] * sizes[1])
    return cast_to(math.min(math.where(hit, numbers, beyond), [4, 5]), i32)


@operator(
    "lp_pool2d",
    legacy=spelled(
        "lp_pool2d",
        {"x": "x"},
        "out",
        types={"kernel_size": "LONGS"},
    ),
)
def lp_pool2d(
    x: Tensor,
    *,
    kernel_size: Sizes,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    data_format: str = "NCHW",
    pooling_type: str = "",
    global_pooling: bool = False,
    adaptive: bool = False,
    padding_algorithm: str = "EXPLICIT",
    norm_type: float = 0.0,
) -> Tensor:
    """The root of the sum of each window's powers."""
    if adaptive or global_pooling:
        raise UnsupportedError("expected windows of known sizes")
    padding = padding_of(paddings, padding_algorithm)
    powers, layout = math.pow(x, norm_type), layout_of(data_format, 2)
    sums = functional.avg_pool2d(powers, [int(k) for k in kernel_size], list(strides), padding, ceil_mode, False, 1, layout)
    return math.pow(sums, 1.0 / norm_type)


@operator(
    "unpool",
    legacy=spelled(
        "unpool",
        {"X": "x", "Indices": "indices"},
        attributes={"paddings": "padding"},
        ignored="unpooling_type",
        defaults={"strides": (1, 1), "paddings": (0, 0), "output_size": (0, 0)},
    ),
)
def unpool(
    x: Tensor, indices: Tensor, output_size: Extents, *, ksize: Sizes, strides: Sizes, padding: Sizes, data_format: str = "NCHW"
) -> Tensor:
    """Zeros of [N, C, *output_size] with each element where it stood in its image."""
    return _back_in_place(x, indices, output_size)


@operator(
    "unpool3d",
    legacy=spelled("unpool3d", {"X": "x", "Indices": "indices"}, ignored="unpooling_type"),
)
def unpool3d(
    x: Tensor,
    indices: Tensor,
    *,
    ksize: Sizes,
    strides: Sizes = (1, 1, 1),
    paddings: Sizes = (0, 0, 0),
    output_size: Sizes = (0, 0, 0),
    data_format: str = "NCDHW",
) -> Tensor:
    """As `unpool`, of volumes."""
    return _back_in_place(x, indices, output_size)


def _back_in_place(x: Tensor, indices: Tensor, output_size: Sizes) -> Tensor:
    planes, count = product(x.type.shape[:2]), product(output_size)
    places = math.reshape(cast_to(indices, i64), [planes, product(x.type.shape[2:])])
    places = check_within(
        places,
        count,
        lambda low, high, size: IndexError(f"expected places in images of {size} elements but got values from {low} to {high}"),
        wraps=False,
        by_op=True,
    )
    first = math.multiply(dispatch.call(nn.Iota, shape=(planes, 1), axis=0, dtype=i64), fed_sizes.as_number(count))
    flat = math.reshape(math.add(places, first), [-1])
    made = dispatch.call(nn.Scatter, dispatch.full((planes * count,), 0, x.type.dtype), math.reshape(x, [-1]), flat, axis=0)
    return math.reshape(made, [*x.type.shape[:2], *output_size])
