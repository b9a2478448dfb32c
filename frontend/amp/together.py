"""Gradients of scaled losses on a GPU: divided by the scale, and looked at, by a few launches for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.compiled.for_each import for_each, reduced_each
from polyreme.device import current_place
from polyreme.dispatch import assign
from polyreme.math.elementwise import cast, isfinite
from polyreme.math.reduction import all as all_
from polyreme.tensor import Tensor

__all__ = ["unscaled_together"]


def unscaled_together(gradients: Sequence[Tensor], factor: Tensor) -> bool:
    """Multiply all gradients by a factor, a single number. Returns whether they were finite: one byte comes from the device."""
    gradients = [g for g in gradients if g.type.elements]
    if not gradients:
        return True
    place, arrays = current_place(), [g._value for g in gradients]
    finite = reduced_each(place, "finite", lambda row: all_(isfinite(row)), all_, arrays)
    ((whole,),) = for_each(place, "all_finite", None, lambda row: [all_(row)], [[finite]], 1)
    made = for_each(place, "unscale", None, lambda g, f: [_unscaled(g, f)], [[array, factor._value] for array in arrays], 1)
    for gradient, (result,) in zip(gradients, made, strict=True):
        assign(gradient, Tensor._wrap(result.reshaped(gradient.type.shape)))
    return bool(whole)


def _unscaled(gradient: Tensor, factor: Tensor) -> Tensor:
    wide = cast(gradient, "float32") if gradient.dtype.name in ("float16", "bfloat16") else gradient
    return cast(wide * cast(factor, wide.dtype), gradient.dtype)
