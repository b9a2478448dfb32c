"""Dygraph mode in `fluid`: inside `guard()` functions run at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.device import as_place, on_device
from polyreme.fluid.framework import dygraph_mode, in_dygraph_mode, switch_dygraph
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = ["disable_dygraph", "enable_dygraph", "enabled", "grad", "guard", "no_grad", "to_variable"]

no_grad = tape.no_grad


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool = False, no_grad_vars: Any = None, backward_strategy: Any = None,
) -> list[Tensor | None]:  # fmt: skip
    """As `paddle.grad`. `backward_strategy` says in Paddle in which order gradients are summed, which is always that of their arrival."""
    return tape.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, only_inputs, allow_unused, no_grad_vars)


@contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Functions of `fluid` run at once inside the `with`, on `place` (the current device by default)."""
    with dygraph_mode(True), dispatch.trace_into(None), on_device(None if place is None else as_place(place)):
        yield


def enabled() -> bool:
    """Whether functions of `fluid` run at once here."""
    return in_dygraph_mode()


def enable_dygraph(place: Any = None) -> None:
    """Let functions of `fluid` run at once from now on."""
    as_place(place)
    switch_dygraph(True)


def disable_dygraph() -> None:
    """Let functions of `fluid` append to the default main program again."""
    switch_dygraph(False)


def to_variable(value: Any, name: str | None = None, zero_copy: bool | None = None, dtype: Any = None) -> Tensor:
    """A tensor with the contents of an array, or the tensor itself. No gradient reaches it unless `stop_gradient` is set to False."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, (np.ndarray, np.generic, int, float, bool, list, tuple)):
        raise TypeError(f"The type of 'value' in fluid.dygraph.to_variable must be numpy.ndarray, but received {type(value)}.")
    with dispatch.trace_into(None):
        array = np.array(value) if dtype is None else np.array(value, np.dtype(dtype))
        made = Tensor._wrap(array)
    if name is not None:
        made.name = name
    return made


__dir__ = listed(__name__)
