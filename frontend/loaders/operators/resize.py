"""Interpolation: images, signals and volumes in another size."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.loaders.errors import OperatorError, check_count
from polyreme.loaders.meaning import Numbers, Sizes, meaning
from polyreme.loaders.operators.activation import channel_axis
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
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
        return [_times(d, f) for d, f in zip(sizes, factors, strict=True)], [float(f) for f in factors]
    if any(isinstance(d, int) and d <= 0 for d in wanted) or len(wanted) != rank:
        raise OperatorError(f"expected {rank} new sizes above 0 but got {wanted}")
    return wanted, [0.0] * rank


def _times(size: Dim, factor: float) -> Dim:
    if isinstance(size, int):
        return int(size * factor)
    if float(factor).is_integer():
        return size * int(factor)
    raise OperatorError(f"expected a whole scale for the symbolic size '{size}' but got {factor}")


def _ratio(old: int, new: int, factor: float, align_corners: bool) -> np.float32:
    """How far a step in the result is in the operand, rounded as Paddle's kernels do."""
    if align_corners:
        return np.float32((old - 1) / (new - 1)) if new > 1 else np.float32(0)
    return np.float32(1 / factor) if factor > 0 else np.float32(old / new)


def _nearest_axis(x: Tensor, axis: int, new: Dim, factor: float, align_corners: bool) -> Tensor:
    old = x.type.shape[axis]
    if old == new:
        return x
    if not isinstance(old, int) or not isinstance(new, int):
        times = int(factor)
        if align_corners or new != old * times:
            raise OperatorError(f"expected a whole scale to enlarge the symbolic size '{old}' but got the new size '{new}'")
        shape = x.type.shape
        wide = math.expand(math.unsqueeze(x, axis + 1), [*shape[: axis + 1], times, *shape[axis + 1 :]])
        return math.reshape(wide, [*shape[:axis], new, *shape[axis + 1 :]])
    ratio = _ratio(old, new, factor, align_corners)
    steps = ratio * np.arange(new, dtype=np.float32)
    index = np.minimum((steps + np.float32(0.5) if align_corners else steps).astype(np.int64), old - 1)
    return dispatch.call(ops.Gather, x, dispatch.constant(index), axis=axis)  # type: ignore[no-any-return]


def _linear_axis(x: Tensor, axis: int, new: Dim, factor: float, align_corners: bool, align_mode: int) -> Tensor:
    """Between its two neighbours, each element by its distance from the other."""
    old = x.type.shape[axis]
    if not isinstance(old, int) or not isinstance(new, int):
        raise OperatorError(f"expected known sizes for linear interpolation but got '{old}' and '{new}'")
    if old == new:
        return x
    ratio = _ratio(old, new, factor, align_corners)
    steps = np.arange(new, dtype=np.float32)
    half = np.float32(0.5)
    places = ratio * (steps + half) - half if align_mode == 0 and not align_corners else ratio * steps
    places = np.maximum(places, np.float32(0))
    low = np.minimum(places.astype(np.int64), old - 1)
    high = np.minimum(low + 1, old - 1)
    share = (places - low.astype(np.float32)).astype(x.type.dtype.np).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    a, b = (dispatch.call(ops.Gather, x, dispatch.constant(index), axis=axis) for index in (low, high))
    one = x.type.dtype.np.type(1)
    return math.add(math.multiply(a, dispatch.constant(one - share)), math.multiply(b, dispatch.constant(share)))


@meaning("nearest_interp", "bilinear_interp", "linear_interp", "trilinear_interp")
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
    if interp_method not in ("nearest", "bilinear", "linear", "trilinear"):
        raise OperatorError(f"expected nearest or linear interpolation but got '{interp_method}'")
    given = [out_d, out_h, out_w][5 - x.ndim :]
    sizes, factors = _targets(x, given, out_size, size_tensor, scale_tensor or scale)
    for size in sizes:
        check_count(size, 1 << 20, "elements per axis")
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        if interp_method == "nearest":
            x = _nearest_axis(x, axis, size, factor, align_corners)
        else:
            x = _linear_axis(x, axis, size, factor, align_corners, align_mode)
    return to_channel_last(x) if last else x
