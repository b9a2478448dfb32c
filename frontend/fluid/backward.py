"""`fluid.backward`: gradients of programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from polyreme.names import listed
from polyreme.static import backward

__all__ = ["append_backward", "calc_gradient", "gradients"]


def append_backward(
    loss: Any, parameter_list: Sequence[Any] | None = None, no_grad_set: Iterable[Any] | None = None, callbacks: Any = None,
    checkpoints: Any = None,
) -> list[tuple[Any, Any]]:  # fmt: skip
    """Append the gradient operators of `loss` [1]; the pairs of each trainable parameter and the variable of its gradient, `NAME@GRAD`.

    `parameter_list` limits the parameters, by variables or names; no gradient flows through variables in `no_grad_set`. A variable with an
    error clip (`var.set_error_clip`) has its gradient bounded before that goes further back. `callbacks` are called behind each gradient
    operator, with `block` and a `context`: the names of variables by those of their gradients.
    """
    return backward.append_backward(loss, parameter_list, no_grad_set, callbacks, checkpoints)


def gradients(targets: Any, inputs: Any, target_gradients: Any = None, no_grad_set: Iterable[Any] | None = None) -> list[Any]:
    """The gradients of the sum of `targets` with respect to `inputs`; None for an input that they do not depend on."""
    return backward.gradients(targets, inputs, target_gradients, no_grad_set)


def calc_gradient(targets: Any, inputs: Any, target_gradients: Any = None, no_grad_set: Iterable[Any] | None = None) -> Any:
    """The same, and for one input its gradient alone."""
    found = gradients(targets, inputs, target_gradients, no_grad_set)
    return found[0] if len(found) == 1 else found


__dir__ = listed(__name__)
