"""Interpolation: images, signals and volumes in another size."""

from __future__ import annotations

import numpy as np

from polyreme.ir.dims import Dim
from polyreme.loaders.errors import OperatorError, check_count
from polyreme.loaders.meaning import Numbers, Sizes, meaning
from polyreme.loaders.operators.activation import channel_axis
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.nn.functional.resize import cubic_axis, linear_axis, nearest_axis, scaled_size
from polyreme.tensor import Tensor


def _targets(x: Tensor, given: list[int], out_size: Sizes | None, size_tensor: Sizes, scales: Numbers) -> tuple[list[Dim], list[float]]:
    """The new spatial sizes, and the scale of each axis where one is given (0 where the sizes say it)."""
    sizes = x.type.shape[2:]
    rank = len(sizes)
    factors = [f for f in scales if f != 0]
    if any(not f > 0 for f in factors):
        raise OperatorError(f"expected scales above 0 but got {factors}")
    factors = factors * rank if len(factors) == 1 else factors
    wanted: list[Dim] = list(size_tensor) or list(out_size or ()) or list(given)
    if size_tensor or out_size:
        factors = []
    if len(factors) == rank:
        return [scaled_size(d, np.float32(f)) for d, f in zip(sizes, factors, strict=True)], [float(f) for f in factors]
    if any(isinstance(d, int) and d <= 0 for d in wanted) or len(wanted) != rank:
        raise OperatorError(f"expected {rank} new sizes above 0 but got {wanted}")
    return wanted, [0.0] * rank


@meaning("nearest_interp", "bilinear_interp", "linear_interp", "trilinear_interp", "bicubic_interp")
def interpolate(
    x: Tensor,
    out_size: Sizes | None = None,
    size_tensor: Sizes = (),
    scale_tensor: Numbers | None = None,
    *,
    data_format: str = "NCHW",
    out_d: int = 0,
    out_h: int = 0,
    out_w: int = 0,
    scale: Numbers = (),
    interp_method: str = "nearest",
    align_corners: bool = True,
    align_mode: int = 1,
) -> Tensor:
    last = channel_axis(data_format, x.ndim) != 1
    if last:
        x = to_channel_first(x)
    if interp_method not in ("nearest", "bilinear", "linear", "trilinear", "bicubic"):
        raise OperatorError(f"expected nearest, linear or cubic interpolation but got '{interp_method}'")
    given = [out_d, out_h, out_w][5 - x.ndim :]
    sizes, factors = _targets(x, given, out_size, size_tensor, scale_tensor or scale)
    for size in sizes:
        check_count(size, 1 << 20, "elements per axis")
    try:
        for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), 2):
            if interp_method == "nearest":
                x = nearest_axis(x, axis, size, factor, align_corners)
            elif interp_method == "bicubic":
                x = cubic_axis(x, axis, size, factor, align_corners)
            else:
                x = linear_axis(x, axis, size, factor, align_corners, align_mode, interp_method == "bilinear")
    except ValueError as error:
        raise OperatorError(str(error)) from None
    return to_channel_last(x) if last else x
