"""Dataclasses whose methods are written when they are first called.

`dataclasses.dataclass` writes up to six methods for each class as text and compiles them, which takes a quarter of the time in which a
compiler of hundreds of classes is imported; most of them are never called. Here a class has its fields at once, and `__init__`, `__eq__`
and `__hash__` write themselves at their first call. What is made is the same: `fields`, `replace`, `asdict` and `is_dataclass` take it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from dataclasses import dataclass as with_fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "fields_of"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True):
        """As `dataclasses.dataclass`, for classes that are compared and printed by their fields and are not ordered."""
        return _made(cls, frozen, slots, eq) if cls is not None else lambda cls: _made(cls, frozen, slots, eq)


def fields_of(made: Any) -> tuple[Field[Any], ...]:
    """The fields of a dataclass, or of an instance of one; none of anything else."""
    return fields(made) if is_dataclass(made) else ()


def _made(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
    own = vars(cls)
    # Python itself sets it to None beside an `__eq__`.
    hashed = own.get("__hash__") is not None
    frozen_bases = [params for base in cls.__mro__[1:] if (params := vars(base).get("__dataclass_params__")) is not None and params.frozen]
    if frozen_bases and not frozen:
        raise TypeError(f"expected {cls.__name__} to be frozen as what it is derived from is")
    # Python's `dataclass` would write two methods more for a frozen class, and takes no other that is derived from such.
    for params in frozen_bases:
        params.frozen = False
    try:
        made: Any = with_fields(init=False, repr=False, eq=False, slots=slots)(cls)
    finally:
        for params in frozen_bases:
            params.frozen = True
    made.__dataclass_params__.frozen = frozen
    if "__init__" not in own:
        _write_later(made, "__init__", _init)
    if "__repr__" not in own:
        made.__repr__ = _repr
    if eq:
        if "__eq__" not in own:
            _write_later(made, "__eq__", _eq)
        if not hashed and frozen:
            _write_later(made, "__hash__", _hash)
        elif not hashed:
            made.__hash__ = None
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return made


def _write_later(cls: Any, name: str, text: Callable[[tuple[Field[Any], ...], dict[str, Any]], str]) -> None:
    """Give the class a method that replaces itself by what `text` says, and is called."""

    def first(self: Any, *args: Any, **kwargs: Any) -> Any:
        names: dict[str, Any] = {"set_field": object.__setattr__, "MISSING": MISSING}
        exec(text(fields(cls), names), names)
        method = names[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *args, **kwargs)

    setattr(cls, name, first)


def _init(of: tuple[Field[Any], ...], names: dict[str, Any]) -> str:
    params, lines = ["self"], []
    for f in of:
        value = f.name
        if f.default_factory is not MISSING:
            names[f"make_{f.name}"] = f.default_factory
            made = f"make_{f.name}()"
            value = f"{made} if {f.name} is MISSING else {f.name}" if f.init else made
            default = "MISSING"
        elif f.default is not MISSING:
            names[f"default_{f.name}"] = f.default
            default = f"default_{f.name}"
            value = f.name if f.init else default
        else:
            default = ""
        if f.init:
            params.append(f"{f.name}={default}" if default else f.name)
        if f.init or default:
            lines.append(f"    set_field(self, {f.name!r}, {value})")
    body = lines or ["    pass"]
    return "\n".join([f"def __init__({', '.join(params)}):", *body, "    if hasattr(self, '__post_init__'): self.__post_init__()"])


def _eq(of: tuple[Field[Any], ...], names: dict[str, Any]) -> str:
    compared = [f.name for f in of if f.compare]
    mine, theirs = (f"({''.join(f'{who}.{name}, ' for name in compared)})" for who in ("self", "other"))
    return f"def __eq__(self, other):\n    return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented"


def _hash(of: tuple[Field[Any], ...], names: dict[str, Any]) -> str:
    hashed = [f.name for f in of if (f.compare if f.hash is None else f.hash)]
    return f"def __hash__(self):\n    return hash(({''.join(f'self.{name}, ' for name in hashed)}))"


@recursive_repr()
def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields(self) if f.repr)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
