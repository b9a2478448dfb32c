"""Data classes as Python's own, made in a fifth of the time.

Python makes each method of a data class from a text of its own, which takes a millisecond of every start for a class that cannot be changed: there are two hundred in a compiler.
Here a class has one text, of what is called often; the other methods are the same for all classes. What a class says, its options and its behaviour are those of `dataclasses.dataclass`, whose
`fields`, `replace` and `asdict` take these classes too. Type checkers see that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as _python_dataclass
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

# Where Python keeps the options of a data class.
_PARAMS = "__dataclass_params__"

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, eq: bool = True, frozen: bool = False, slots: bool = False) -> Any:
        """`dataclasses.dataclass`, of whose options these are known."""

        def make(cls: type) -> type:
            return _made(cls, eq, frozen, slots)

        return make if cls is None else make(cls)


def _made(given: type, eq: bool, frozen: bool, slots: bool) -> type:
    own = frozenset(vars(given))
    # Python sees to the fields, their defaults, and slots, for which the class is made again. It takes no class that can be changed below one that cannot.
    below_frozen = any(vars(base)[_PARAMS].frozen for base in given.__mro__[1:] if _PARAMS in vars(base))
    cls: Any = _python_dataclass(init=False, repr=False, eq=False, frozen=frozen and below_frozen, slots=slots)(given)
    getattr(cls, _PARAMS).frozen = frozen
    known = fields(cls)
    methods: dict[str, Any] = {**_from_text(cls, known, eq, frozen), "__repr__": _repr([f.name for f in known if f.repr])}
    if eq:
        if not frozen:
            methods["__hash__"] = None
        if "__eq__" in own and cls.__hash__ is None:
            # Python takes the hash away from a class that says what is equal; one that cannot be changed gets it back.
            own -= {"__hash__"}
    if frozen:
        methods |= _frozen(cls, frozenset(f.name for f in known))
        if slots:
            methods |= {"__getstate__": _getstate(known), "__setstate__": _setstate(known)}
    for name, method in methods.items():
        if name not in own:
            if method is not None:
                method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__qualname__}.{name}", cls.__module__
            setattr(cls, name, method)
    return cls


def _from_text(cls: type, known: tuple[Field[Any], ...], eq: bool, frozen: bool) -> dict[str, Callable[..., Any]]:
    """The methods that are called often, as fast as if they were written for the class: what makes an object, compares it, and gives its hash."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    text = _init(cls, known, frozen, names)
    made = ["__init__"]
    if eq:
        compared = [f.name for f in known if f.compare]
        mine, others = ("".join(f"{of}.{name}, " for name in compared) for of in ("self", "other"))
        text += (
            "def __eq__(self, other):\n if other is self:\n  return True\n"
            f" return ({mine}) == ({others}) if other.__class__ is self.__class__ else NotImplemented\n"
        )
        made.append("__eq__")
        if frozen:
            text += f"def __hash__(self):\n return hash(({mine}))\n"
            made.append("__hash__")
    exec(text, names)
    return {name: names[name] for name in made}


def _init(cls: type, known: tuple[Field[Any], ...], frozen: bool, names: dict[str, Any]) -> str:
    """The text of `__init__`; what it mentions goes to `names`."""
    parameters, lines = ["self"], []
    for f in known:
        value = f.name
        if f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            made = f"_make_{f.name}()"
            value = f"{made} if {f.name} is _MISSING else {f.name}" if f.init else made
            default = "_MISSING"
        elif f.default is not MISSING:
            names[default := f"_default_{f.name}"] = f.default
            value = value if f.init else default
        else:
            default = ""
            if not f.init:
                continue
        if f.init:
            parameters.append(f"{f.name}={default}" if default else f.name)
        lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines) or "pass"
    return f"def __init__({', '.join(parameters)}):\n {body}\n"


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _frozen(cls: Any, names: frozenset[str]) -> dict[str, Callable[..., None]]:
    """Refuses changes: of fields, and of anything where the class is no other's base."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _getstate(known: tuple[Field[Any], ...]) -> Callable[[Any], list[Any]]:
    """For pickles and copies of what has slots and refuses changes."""

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, f.name) for f in known]

    return __getstate__


def _setstate(known: tuple[Field[Any], ...]) -> Callable[[Any, list[Any]], None]:
    def __setstate__(self: Any, state: list[Any]) -> None:
        for f, value in zip(known, state, strict=True):
            object.__setattr__(self, f.name, value)

    return __setstate__
