"""Layers of sequences, images and volumes differ in the defaults of what they take: they have one `__init__`, of images."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

__all__ = ["defaults"]

Class = TypeVar("Class", bound=type)


def defaults(**changed: Any) -> Callable[[Class], Class]:
    """Let the `__init__` that a class inherits have other defaults: `@defaults(data_format="NCL")`."""

    def change(cls: Class) -> Class:
        cls.__init__ = _with_defaults(cls.__init__, changed, f"{cls.__qualname__}.__init__")  # type: ignore[misc]
        return cls

    return change


def _with_defaults(function: Any, changed: dict[str, Any], qualname: str) -> FunctionType:
    """A function of the same code, so that signatures, calls and tracebacks are as of one written by hand."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        raise TypeError(f"expected a plain function for '{qualname}' but got {function!r}")
    code, values, keywords = function.__code__, function.__defaults__ or (), dict(function.__kwdefaults__ or {})
    positional = dict(zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True))
    for name, value in changed.items():
        table = positional if name in positional else keywords
        if name not in table:
            raise TypeError(f"expected the name of a parameter with a default for '{qualname}' but got '{name}'")
        table[name] = value
    made = FunctionType(code, function.__globals__, function.__name__, tuple(positional.values()), function.__closure__)
    made.__kwdefaults__, made.__annotations__ = keywords or None, function.__annotations__
    made.__doc__, made.__module__, made.__qualname__ = function.__doc__, function.__module__, qualname
    return made
