"""`static_pylayer`: a step of a program whose gradient the user gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.autograd.py_layer import PyLayer
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

__all__ = ["static_pylayer"]


def static_pylayer(
    forward_fn: Callable[..., Any], inputs: Sequence[Tensor], backward_fn: Callable[..., Any] | None = None, name: str | None = None
) -> Any:
    """What `forward_fn(*inputs)` returns, a tensor or several, with the gradients of `inputs` that `backward_fn` makes of those of the
    results. Without it no gradient flows.

    Both functions are traced into the program. They compute with what they are given alone: other variables have to be among `inputs`.
    """
    if not callable(forward_fn):
        raise ValueError("`forward_fn` should be callable")
    if backward_fn is not None and not callable(backward_fn):
        raise ValueError("`backward_fn` should be callable")
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if any(not isinstance(x, Tensor) for x in given):
        raise TypeError("static_pylayer expected tensors as inputs but got " + ", ".join(type(x).__name__ for x in given))

    def forward(ctx: Any, *xs: Tensor) -> Any:
        return forward_fn(*xs)

    def backward(ctx: Any, *gradients: Any) -> Any:
        assert backward_fn is not None
        made = backward_fn(*gradients)
        count = len(made) if isinstance(made, (list, tuple)) else 1
        if count != len(given):
            raise ValueError(f"The number of input grads should be equal to the number of inputs, but got {count} and {len(given)}.")
        return made

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    layer: Any = type(getattr(forward_fn, "__name__", "step").strip("<>"), (PyLayer,), methods)
    if backward_fn is not None:
        return layer.apply(*given)
    with no_grad():
        return layer.apply(*given)
