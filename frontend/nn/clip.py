"""Clipping of gradients, for the `grad_clip` of optimizers: called on pairs of parameter and gradient, gives such pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from polyreme.device import current_place
from polyreme.loaders.program_desc import SELECTED_ROWS
from polyreme.math import elementwise, reduction
from polyreme.math.manipulation import reshape
from polyreme.provided import provided
from polyreme.tape import no_grad
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import on_values, values_of
from polyreme.utils.shown import Shown

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"]

Pairs = Sequence[tuple[Any, Any]]


class ClipGradBase(Shown):
    """A way to clip. Parameters with `need_clip=False`, and those without a gradient, are passed on as they are."""

    def __call__(self, params_grads: Pairs) -> list[tuple[Any, Any]]:
        with no_grad():
            return self._clip([(p, g) for p, g in params_grads if g is not None])

    def _clip(self, pairs: Pairs) -> list[tuple[Any, Any]]:
        clipped = [g for p, g in pairs if getattr(p, "need_clip", True)]
        made = iter(self.clip_all(clipped) if _go_together(clipped) else map(self.clip, clipped))
        return [(p, next(made) if getattr(p, "need_clip", True) else g) for p, g in pairs]

    def clip_all(self, gradients: Sequence[Tensor]) -> Iterable[Tensor]:
        """As `clip`, of gradients on a GPU: by few launches where a subclass knows how."""
        return map(self.clip, gradients)

    def clip(self, gradient: Tensor) -> Tensor:
        """One gradient, clipped."""
        raise NotImplementedError


class ClipGradByValue(ClipGradBase):
    """Every element is brought into [min, max]; `min` defaults to `-max`."""

    def __init__(self, max: float, min: float | None = None):
        if min is None:
            if not max > 0.0:
                raise ValueError(f"expected 'max' to be above 0 when 'min' is not given but got {max}")
            min = -max
        self.max = float(max)
        self.min = float(min)

    def __str__(self) -> str:
        return f"Clip Gradient By Value, min = {self.min:f}, max={self.max:f}"

    def clip(self, gradient: Tensor) -> Tensor:
        if _is_rows_of_a_program(gradient):
            return _changed("clip", gradient, {"min": self.min, "max": self.max})
        return on_values(lambda g: elementwise.clip(g, self.min, self.max), gradient)

    def clip_all(self, gradients: Sequence[Tensor]) -> Iterable[Tensor]:
        from polyreme.nn.clip_together import clipped_by_value

        return clipped_by_value(gradients, self.min, self.max)


class ClipGradByNorm(ClipGradBase):
    """A gradient whose 2-norm is above `clip_norm` is scaled down to it, each by itself."""

    def __init__(self, clip_norm: float):
        self.clip_norm = float(clip_norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def clip(self, gradient: Tensor) -> Tensor:
        (values,) = values_of([gradient])
        norm = elementwise.sqrt(reduction.sum(values * values))
        # Below the limit the factor is exactly 1, so that the gradient keeps its bits.
        return _times(gradient, self.clip_norm / elementwise.maximum(norm, _number(self.clip_norm, norm)))

    def clip_all(self, gradients: Sequence[Tensor]) -> Iterable[Tensor]:
        from polyreme.nn.clip_together import clipped_by_norm

        return clipped_by_norm(gradients, self.clip_norm)


class ClipGradByGlobalNorm(ClipGradBase):
    """All gradients are scaled by one factor, so that their joint 2-norm is at most `clip_norm`.

    In dynamic mode that is done in place: what is clipped stands in `.grad` of the parameters, and the next `backward` adds to it. Rows of
    tables and gradients of numbers stay as they are there.
    """

    def __init__(self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False):
        self.clip_norm = float(clip_norm)
        self.group_name = group_name
        self.auto_skip_clip = auto_skip_clip

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def _clip(self, pairs: Pairs) -> list[tuple[Any, Any]]:
        gradients = [g for p, g in pairs if getattr(p, "need_clip", True)]
        if _go_together(gradients):
            made = iter(self.clip_all(gradients))
            return [(p, _placed(p, g, next(made)) if getattr(p, "need_clip", True) else g) for p, g in pairs]
        squares = [reduction.sum(v * v) for v in values_of(gradients)]
        if not squares:
            return list(pairs)
        total = squares[0]
        for square in squares[1:]:
            total = total + square
        norm = elementwise.sqrt(total)
        factor = self.clip_norm / elementwise.maximum(norm, _number(self.clip_norm, norm))
        return [(p, _placed(p, g, _times(g, factor)) if getattr(p, "need_clip", True) else g) for p, g in pairs]

    def clip_all(self, gradients: Sequence[Tensor]) -> Iterable[Tensor]:
        from polyreme.nn.clip_together import clipped_by_global_norm

        return clipped_by_global_norm(gradients, self.clip_norm)


def _go_together(gradients: Sequence[Any]) -> bool:
    """Whether gradients are whole arrays that a GPU clips by a few launches for all of them."""
    if not current_place().is_gpu_place() or provided.active_trace() is not None or not gradients:
        return False
    return all(type(g) is Tensor and g._value is not None and g.type.dtype.is_float and g.type.elements for g in gradients)


def _placed(parameter: Any, gradient: Tensor, scaled: Tensor) -> Tensor:
    """What the gradient of a parameter was scaled to, in its place where it can be."""
    if type(gradient) is not Tensor or not gradient.shape:  # rows of a table, a variable of a program, a number
        return scaled
    if parameter.grad is not gradient or provided.has_own_gradient(parameter):
        provided.assign(gradient, scaled)
        return gradient
    parameter.grad = scaled  # one that the user has put there stays the user's
    return scaled


def _times(gradient: Tensor, factor: Tensor) -> Tensor:
    if _is_rows_of_a_program(gradient):
        return _changed("elementwise_mul", gradient, {"axis": -1}, Y=reshape(factor, [1]))
    return gradient * factor


def _is_rows_of_a_program(gradient: Any) -> bool:
    """Whether it is a variable of a program that is the rows of a table that were read."""
    return getattr(gradient, "kind", None) == SELECTED_ROWS


def _changed(type: str, rows: Tensor, attributes: dict[str, Any], **inputs: Tensor) -> Tensor:
    """What an operator of a program makes of rows: rows again."""
    found: Tensor = provided.program_operator(type, {"X": rows, **inputs}, {"Out": rows.type}, attributes)["Out"]
    return found


def _number(value: float, like: Tensor) -> Tensor:
    return Tensor(np.asarray(value, like.type.dtype.np))
