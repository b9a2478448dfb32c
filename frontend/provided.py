"""What the core's lower files call in higher ones: tensors and the tape stand below dispatch and mathematics, yet a tensor can clone itself
and the tape adds gradients up.

The file that defines such a function provides it when it is loaded; a request for one that is not there yet loads the core. So imports run
one way, and a program that only runs a saved model loads none of the ops.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

CORE = "polyreme.math"
# Loaded one after the other until the function is there.
PROVIDERS = (CORE, "polyreme.nn.functional", "polyreme.signal", "polyreme.autograd.cleared", "polyreme.utils.dlpack")


class Provided:
    """The functions by name."""

    def __getattr__(self, name: str) -> Any:
        for module in PROVIDERS:
            import_module(module)
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"expected a function that the core provides but got '{name}'", name=name)

    def has(self, name: str) -> bool:
        """Whether the file that provides it is loaded."""
        return name in self.__dict__


provided = Provided()


def provides(function: Function) -> Function:
    """Let lower files call the decorated function, by its name."""
    if provided.has(function.__name__):
        raise ValueError(f"expected one function of the name '{function.__name__}' but got two")
    setattr(provided, function.__name__, function)
    return function
