"""Which options of a name the cases give: parameters that have a default, with another value than it."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.api.table import resolve


@contextmanager
def watched(paddle: Any, names: Mapping[str, str]) -> Iterator[dict[str, set[str]]]:
    """Notes, by name, the options that calls give inside of the `with`; `names` are those to watch: what resolves, and the name to note it
    under.

    What stands in the module is replaced by a function that notes its arguments and goes on; of classes `__init__` is.
    """
    given: dict[str, set[str]] = defaultdict(set)
    undo: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, attribute: str, noting: Callable[..., Any]) -> None:
        undo.append((owner, attribute, vars(owner).get(attribute)))
        setattr(owner, attribute, noting)

    for path, name in names.items():
        try:
            owner, value = resolve(paddle, path.rpartition(".")[0]), resolve(paddle, path)
            signature = inspect.signature(value)
        except (AttributeError, TypeError, ValueError):
            continue
        if inspect.isclass(value):
            replace(value, "__init__", _noting_class(value, signature, given[name]))
        elif inspect.isfunction(value):
            replace(owner, path.rpartition(".")[2], _noting_function(value, signature, given[name]))
    try:
        yield given
    finally:
        for owner, attribute, value in reversed(undo):
            setattr(owner, attribute, value) if value is not None else delattr(owner, attribute)


def _noting_function(function: Callable[..., Any], signature: inspect.Signature, given: set[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        _note(signature, given, args, kwargs)
        return function(*args, **kwargs)

    return noting


def _noting_class(watched: type, signature: inspect.Signature, given: set[str]) -> Callable[..., Any]:
    initialize = watched.__init__  # type: ignore[misc]

    @functools.wraps(initialize)
    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is watched:  # and not one of its subclasses, which has options of its own
            _note(signature, given, args, kwargs)
        initialize(self, *args, **kwargs)

    return noting


def _note(signature: inspect.Signature, given: set[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:  # a case of wrong arguments
        return
    for key, value in bound.items():
        kind, default = signature.parameters[key].kind, signature.parameters[key].default
        if kind is inspect.Parameter.VAR_KEYWORD:
            given.update(value)
        elif default is not inspect.Parameter.empty and not _same(value, default):
            given.add(key)


def _same(value: Any, default: Any) -> bool:
    return value is default or type(value) is type(default) and isinstance(value, (bool, int, float, str)) and value == default
