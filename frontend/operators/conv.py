"""Convolutions and their transposes."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, Expr
from polyreme.math.manipulation import span
from polyreme.nn import functional
from polyreme.nn.functional.conv import dilations_of, padding_pairs, to_channel_first, to_channel_last
from polyreme.operators.arguments import Extents, Sizes, UnsupportedError, channel_axis, per_channel
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator(
    "conv2d",
    "depthwise_conv2d",
    legacy=spelled("conv2d depthwise_conv2d", {"Input": "input", "Filter": "filter", "Bias": "bias"}, "Output"),
    nn=nn.Conv,
)
def conv2d(
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    return _convolve(2, input, filter, bias, strides, paddings, padding_algorithm, dilations, groups or 1, data_format)


@operator("conv3d", legacy=spelled("conv3d", {"Input": "input", "Filter": "filter"}, "Output"))
def conv3d(
    input: Tensor,
    filter: Tensor,
    *,
    strides: Sizes = (1, 1, 1),
    paddings: Sizes = (0, 0, 0),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1, 1),
    groups: int = 1,
    data_format: str = "NCDHW",
) -> Tensor:
    return _convolve(3, input, filter, None, strides, paddings, padding_algorithm, dilations, groups or 1, data_format)


def _convolve(
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    strides: Sizes,
    paddings: Sizes,
    algorithm: str,
    dilations: Sizes,
    groups: int,
    data_format: str,
) -> Tensor:
    function = functional.conv2d if rank == 2 else functional.conv3d
    return function(x, weight, bias, list(strides), padding_of(paddings, algorithm), list(dilations), groups, layout_of(data_format, rank))


@operator(
    "conv2d_transpose",
    "depthwise_conv2d_transpose",
    legacy=spelled(
        "conv2d_transpose depthwise_conv2d_transpose",
        {"Input": "x", "Filter": "filter", "Bias": "bias", "OutputSizeTensor": "output_size"},
        "Output",
    ),
)
def conv2d_transpose(
    x: Tensor,
    filter: Tensor,
    output_size: Extents = (),
    *,
    bias: Tensor | None = None,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    output_padding: Sizes = (),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    return _transposed(
        2, x, filter, bias, output_size, strides, paddings, output_padding, padding_algorithm, dilations, groups, data_format
    )


@operator("conv3d_transpose", legacy=spelled("conv3d_transpose", {"Input": "x", "Filter": "filter"}, "Output"))
def conv3d_transpose(
    x: Tensor,
    filter: Tensor,
    *,
    output_size: Sizes = (),
    strides: Sizes = (1, 1, 1),
    paddings: Sizes = (0, 0, 0),
    output_padding: Sizes = (),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1, 1),
    groups: int = 1,
    data_format: str = "NCDHW",
) -> Tensor:
    return _transposed(
        3, x, filter, None, output_size, strides, paddings, output_padding, padding_algorithm, dilations, groups, data_format
    )


def _transposed(
    rank: int,
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    output_size: Sizes,
    strides: Sizes,
    paddings: Sizes,
    output_padding: Sizes,
    algorithm: str,
    dilations: Sizes,
    groups: int,
    data_format: str,
) -> Tensor:
    last = channel_axis(data_format, x.ndim) != 1
    if last:
        x = to_channel_first(x)
    kernel = filter.type.shape[2:]
    padding = padding_of(paddings, algorithm)
    steps, gaps = list(strides), dilations_of(list(dilations), rank, padding)
    pairs = padding_pairs(padding, rank, x.type.shape[2:], kernel, steps, gaps, False)  # type: ignore[arg-type]
    sizes: list[Dim] = []
    for i, (places, k) in enumerate(zip(x.type.shape[2:], kernel, strict=True)):
        least = (places - 1) * steps[i] - pairs[2 * i] - pairs[2 * i + 1] + (k - 1) * gaps[i] + 1
        # Of a size that is fed the last one that fits is made first.
        spare = steps[i] - 1 if output_size and isinstance(output_size[i], Expr) else output_padding[i] if output_padding else 0
        sizes.append(output_size[i] if output_size and isinstance(output_size[i], int) else least + spare)
    made = dispatch.call(
        nn.ConvTranspose,
        x,
        filter,
        strides=tuple(steps),
        padding=tuple(pairs),
        dilations=tuple(gaps),
        groups=groups or 1,
        sizes=tuple(sizes),
    )
    for axis, size in enumerate(output_size, 2):
        if size != made.type.shape[axis]:
            made = span(made, axis, 0, size)
    if bias is not None:
        made = math.add(made, per_channel(bias, made, "NCHW"))
    return to_channel_last(made) if last else made


# --- what attributes say


def layout_of(data_format: str, rank: int) -> str:
    """A data format by the name that functions of `rank` spatial axes take."""
    letters = {1: "L", 2: "HW", 3: "DHW"}[rank]
    return f"N{letters}C" if channel_axis(data_format, rank + 2) != 1 else f"NC{letters}"


def padding_of(paddings: Sizes, algorithm: str) -> Any:
    """Pairs of numbers, or the word for a way to find them."""
    if algorithm not in ("EXPLICIT", "SAME", "VALID"):
        raise UnsupportedError(f"expected the padding algorithm EXPLICIT, SAME or VALID but got '{algorithm}'")
    return list(paddings) if algorithm == "EXPLICIT" else algorithm
