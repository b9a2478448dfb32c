"""Reductions: sums, means, extremes, norms, running sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.core import Op
from polyreme.ir.types import ScalarType, i32, i64
from polyreme.math.fed import axes as fed_axes
from polyreme.math.fed import sizes as fed_sizes
from polyreme.operators.arguments import FedSizes, Number, Scalar, Sizes, axis_in
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_AXES = {"X": "x", "AxisTensor": "axis", "AxisTensorList": "axis"}
_ATTRIBUTES = {"dim": "axis", "keep_dim": "keepdim"}
_FIRST = {"dim": [0]}  # where a program leaves the axes out, it is the first one that older operators reduce


def _axes(x: Tensor, axis: FedSizes, reduce_all: bool) -> list[Any] | None:
    """The axes that are reduced, or None for all of them."""
    if reduce_all or not axis:
        return None
    everything = x.ndim > 0 and len({axis_in(a, x) for a in axis}) == len(axis) == x.ndim
    return None if everything else list(axis)


def _reduced(apply: Callable[..., Tensor], x: Tensor, axis: FedSizes, keepdim: bool, reduce_all: bool) -> Tensor:
    if not reduce_all and fed_sizes.are_fed(axis):
        return fed_axes.reduced(x, axis, keepdim, lambda middle: apply(middle, 1, keepdim=True))
    return apply(x, _axes(x, axis, reduce_all), keepdim=keepdim)


def _reduction(name: str, apply: Callable[..., Tensor], legacy: str, op: type[Op] | None = None, dim: str = "INTS") -> None:
    spelling = spelled(legacy, _AXES, attributes=_ATTRIBUTES, defaults=_FIRST, types={"dim": dim}, ignored="in_dtype out_dtype")

    # Of numbers that are no bools, files have it that whether all hold is such a number.
    @operator(name, legacy=spelling, nn=op, misdeclared=op in (nn.Any, nn.All))
    def function(x: Tensor, axis: FedSizes = (), *, keepdim: bool = False, reduce_all: bool = False) -> Tensor:
        return _reduced(apply, x, axis, keepdim, reduce_all)


_reduction("max", math.max, "reduce_max", nn.Max)
_reduction("min", math.min, "reduce_min", nn.Min)
_reduction("amax", math.max, "reduce_amax", dim="LONGS")
_reduction("amin", math.min, "reduce_amin", dim="LONGS")
_reduction("prod", math.prod, "reduce_prod", nn.Prod)
_reduction("any", math.any, "reduce_any", nn.Any, "LONGS")
_reduction("all", math.all, "reduce_all", nn.All, "LONGS")
_reduction("mean", math.mean, "reduce_mean", nn.Mean)


@operator("sum", legacy=spelled("reduce_sum", _AXES, attributes={**_ATTRIBUTES, "out_dtype": "dtype"}, defaults=_FIRST), nn=nn.Sum)
def sum(
    x: Tensor,
    axis: FedSizes = (),
    *,
    dtype: ScalarType | None = None,
    keepdim: bool = False,
    reduce_all: bool = False,
    in_dtype: ScalarType | None = None,
) -> Tensor:
    return _reduced(partial(math.sum, dtype=dtype), x, axis, keepdim, reduce_all)


@operator("mean_all", legacy=spelled("mean"))
def mean_all(x: Tensor) -> Tensor:
    return math.mean(x)


@operator("logsumexp", legacy=spelled("logsumexp"))
def logsumexp(x: Tensor, axis: Sizes = (), *, keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    return math.logsumexp(x, _axes(x, axis, reduce_all), keepdim=keepdim)


@operator(
    "frobenius_norm",
    legacy=spelled("frobenius_norm", attributes=_ATTRIBUTES, defaults=_FIRST, ignored="in_dtype out_dtype"),
    renamed={"keep_dim": "keepdim"},
)
def frobenius_norm(x: Tensor, axis: Sizes = (), *, keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    return math.sqrt(math.sum(math.square(x), _axes(x, axis, reduce_all), keepdim=keepdim))


@operator("squared_l2_norm", legacy=spelled("squared_l2_norm"))
def squared_l2_norm(x: Tensor) -> Tensor:
    return math.reshape(math.sum(math.square(x)), [1])


@operator("p_norm", legacy=spelled("p_norm"))
def p_norm(
    x: Tensor, *, porder: Number = 2.0, axis: int = -1, epsilon: float = 1e-12, keepdim: bool = False, asvector: bool = False
) -> Tensor:
    if not asvector:
        return math.norm(x, float(porder), axis, keepdim)
    length = math.norm(math.reshape(x, [-1]), float(porder), 0)
    return math.reshape(length, [1] * x.ndim) if keepdim else length


@operator("norm", legacy=spelled("norm", outputs="Out Norm"))
def norm(x: Tensor, *, axis: int, epsilon: float = 1e-10) -> tuple[Tensor, Tensor]:
    """x divided by its length along `axis`, and the length."""
    length = math.sqrt(math.scale(math.sum(math.square(x), axis, keepdim=True), 1.0, epsilon))
    return math.divide(x, length), length


@operator("cumsum", legacy=spelled("cumsum", {"X": "x", "AxisTensor": "axis"}, types={"axis": "INT"}))
def cumsum(x: Tensor, axis: Scalar = -1, *, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums; `exclusive` ones leave out the element itself, `reverse` ones come from the end."""
    if flatten:
        return cumsum(math.reshape(x, [-1]), 0, exclusive=exclusive, reverse=reverse)
    if isinstance(axis, Tensor):
        # Along one axis after the other, and of these sums those that are asked for.
        chosen, made = fed_sizes.axis_number(axis, x.ndim), x
        for number in range(x.ndim):
            is_chosen = math.equal(chosen, dispatch.full((), number, i64))
            made = math.where(is_chosen, cumsum(x, number, exclusive=exclusive, reverse=reverse), made)
        return made
    place = axis_in(axis, x)
    if x.ndim == 0:
        return x
    if reverse:
        x = math.flip(x, [place])
    if exclusive and x.type.shape[place] != 0:
        before = math.slice(x, [place], [0], [x.type.shape[place] - 1])
        x = dispatch.call(nn.Pad, before, padding=tuple(int(k == 2 * place) for k in range(2 * x.ndim)))
    summed = dispatch.call(nn.Cumsum, x, axis=place)
    return math.flip(summed, [place]) if reverse else summed


def _ordered(x: Tensor, axis: int, flatten: bool, exclusive: bool, reverse: bool, nothing: float, apply: Callable[..., Tensor]) -> Tensor:
    """What `apply` gives along an axis; `exclusive` without the element itself, beginning with `nothing`, `reverse` from the end."""
    if flatten:
        x, axis = math.reshape(x, [-1]), 0
    if x.ndim == 0:
        return apply(math.reshape(x, [1]), 0)[0]
    place = axis_in(axis, x)
    if reverse:
        x = math.flip(x, [place])
    made = apply(x, place)
    if exclusive and x.type.shape[place] != 0:
        before = math.slice(made, [place], [0], [x.type.shape[place] - 1])
        made = dispatch.call(nn.Pad, before, padding=tuple(int(k == 2 * place) for k in range(2 * x.ndim)), value=nothing)
    return math.flip(made, [place]) if reverse else made


@operator("cumprod", legacy=spelled("cumprod"))
def cumprod(x: Tensor, *, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    return _ordered(x, dim, False, exclusive, reverse, 1.0, math.cumprod)


@operator("logcumsumexp", legacy=spelled("logcumsumexp"))
def logcumsumexp(x: Tensor, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    return _ordered(x, axis, flatten, exclusive, reverse, float("-inf"), math.logcumsumexp)


@operator("cummax", legacy=spelled("cummax", {"x": "x"}, "out indices"))
def cummax(x: Tensor, *, axis: int = -1, dtype: ScalarType | None = i64) -> tuple[Tensor, Tensor]:
    return math.cummax(x, axis, "int32" if dtype == i32 else "int64")


@operator("cummin", legacy=spelled("cummin", {"x": "x"}, "out indices"))
def cummin(x: Tensor, *, axis: int = -1, dtype: ScalarType | None = i64) -> tuple[Tensor, Tensor]:
    return math.cummin(x, axis, "int32" if dtype == i32 else "int64")


@operator("reduce_as", legacy=spelled("reduce_as", {"x": "x", "target": "target"}, "out"))
def reduce_as(x: Tensor, target: Tensor) -> Tensor:
    """Summed along the axes that broadcast `target` to `x`."""
    shape, wanted = x.type.shape, target.type.shape
    front = len(shape) - len(wanted)
    axes = [*range(front), *(i + front for i, (a, b) in enumerate(zip(shape[front:], wanted, strict=True)) if b == 1 and a != 1)]
    return math.reshape(math.sum(x, axes), list(wanted)) if axes else math.assign(x)


@operator("renorm", legacy=spelled("renorm"))
def renorm(x: Tensor, *, p: float, axis: int, max_norm: float) -> Tensor:
    return math.renorm(x, p, axis, max_norm)
