"""What layer functions share: `takes`, what they refuse in the words of Paddle 1.8, and `made`, the results of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from polyreme.fluid.layer_helper import LayerHelper
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


def made_all(
    type: str, slots: Mapping[str, Any], attrs: Mapping[str, Any], outputs: Mapping[str, Any], *, name: str | None = None,
    fixed: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The results of an operator in the order of `outputs`, which has an element type for each slot. No gradient flows through them where
    they are `fixed`.
    """
    helper = LayerHelper(type, name=name)
    results = {slot: helper.create_variable_for_type_inference(dtype, stop_gradient=fixed) for slot, dtype in outputs.items()}
    helper.append_op(type, slots, results, attrs, stop_gradient=fixed)
    return tuple(results.values())


def made(
    type: str, slots: Mapping[str, Any], attrs: Mapping[str, Any], dtype: Any, slot: str = "Out", *, name: str | None = None,
    fixed: bool = False,
) -> Any:  # fmt: skip
    """The result of an operator in one slot."""
    return made_all(type, slots, attrs, {slot: dtype}, name=name, fixed=fixed)[0]
