"""`takes`: what layer functions refuse, in the words of Paddle 1.8."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from polyreme.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def takes(*names: str, many: bool = False) -> Callable[[F], F]:
    """Make a function refuse anything but a variable or tensor as these arguments, with a `TypeError`; with `many` a list of them is fine,
    too.
    """

    def checking(function: F) -> F:
        places = {name: i for i, name in enumerate(signature(function).parameters) if name in names}

        @wraps(function)
        def apply(*args: Any, **kwargs: Any) -> Any:
            for name, place in places.items():
                if place < len(args):
                    _check(apply.__name__, name, args[place], many)
                elif name in kwargs:
                    _check(apply.__name__, name, kwargs[name], many)
            return function(*args, **kwargs)

        return apply  # type: ignore[return-value]

    return checking


def _check(function: str, name: str, value: Any, many: bool) -> None:
    if many and isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _check(function, f"{name}[{i}]", item, False)
    elif not isinstance(value, Tensor):
        wanted = "a Variable, or a list of them" if many else "a Variable"
        raise TypeError(f"The type of '{name}' in {function} must be {wanted}, but received {type(value)} ({value!r}).")
