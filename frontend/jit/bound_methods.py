"""Compiled methods: a `StaticFunction` in a class is bound to each instance separately, and kept among the instance's attributes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyreme.jit.static_function import StaticFunction

_ATTRIBUTE = "_to_static_bound"


def compiled_methods(instance: Any) -> dict[StaticFunction, StaticFunction] | None:
    """The compiled methods of an instance, by the functions in its class; None for an instance without `__dict__`.

    They are kept with the instance, which they refer to, so that both can go.
    """
    attributes = getattr(instance, "__dict__", None)
    if type(attributes) is not dict:
        return None
    kept = attributes.get(_ATTRIBUTE)
    if kept is None or kept.owner() is not instance:
        kept = attributes[_ATTRIBUTE] = _BoundMethods(instance)
    return kept.functions


class _BoundMethods:
    """The attribute. A copy of the instance begins with no methods, and so does one that was pickled."""

    def __init__(self, owner: Any = None):
        try:
            self.owner: Callable[[], Any] = weakref.ref(owner)
        except TypeError:
            self.owner = lambda: owner
        self.functions: dict[StaticFunction, StaticFunction] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _BoundMethods, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _BoundMethods:
        return _BoundMethods()
