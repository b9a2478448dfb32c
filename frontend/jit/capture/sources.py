"""Where a value came from that a function read, and the check that it would still read the same.

A `Source` is a path from a root (the call's arguments, a module's globals, a closure cell, a Layer) to a value. Guards say what a value
must still be; a set of them is compiled to one Python function. What is read of Layers is apart: Layers count their changes, so that most
calls only compare a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from polyreme.ir.python.records import dataclass
from polyreme.nn.tables import structure_version

__all__ = ["FunctionOf", "Argument", "Attribute", "ClosureVariable", "Computed", "Fixed", "Global", "Guards", "Item", "Source"]


class Source(ABC):
    """A path to a value: how Python text reads it, and how people say it."""

    __slots__ = ()

    def before(self) -> Source | None:
        """The source that the path goes on from; None for a root."""
        return getattr(self, "parent", None)

    @abstractmethod
    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        """Python text that reads the value, given that of its parent; `constant` gives a name to any object."""

    @abstractmethod
    def said(self) -> str:
        """How people say it."""


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Source):
    """The call's arguments: (args, kwargs), bound and with defaults."""

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return "given"

    def said(self) -> str:
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class Fixed(Source):
    """An object that belongs to the compiled function itself: the Layer whose method it is, a class."""

    value: Any
    name: str

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return constant(self.value)

    def said(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Source):
    """What a function of the framework's gives at each call."""

    make: Callable[[], Any]
    name: str

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return f"{constant(self.make)}()"

    def said(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class FunctionOf(Source):
    """What a function that looks at nothing else gives of values at other sources, and of constants."""

    function: Callable[..., Any]
    parts: tuple[Any, ...]

    def before(self) -> None:
        return None

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        """`parent` is the text of all parts."""
        return f"{constant(self.function)}({parent})"

    def said(self) -> str:
        return " and ".join(dict.fromkeys(part.said() for part in self.parts if isinstance(part, Source)))


@dataclass(frozen=True, slots=True, eq=False)
class Global(Source):
    """A module's global variable."""

    table: dict[str, Any]
    name: str

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return f"{constant(self.table)}.get({_literal(self.name, constant)}, missing)"

    def said(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class ClosureVariable(Source):
    """A variable of the function around."""

    cell: Any
    name: str

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return f"{constant(self.cell)}.cell_contents"

    def said(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Attribute(Source):
    """An attribute of an object; `table` is the one of a Layer's in which it stands, "" for its own attributes."""

    parent: Source
    name: str
    table: str = ""
    of_layer: bool = False

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        if self.table:
            return f"{parent}.{self.table}.get({_literal(self.name, constant)}, missing)"
        return f"getattr({parent}, {_literal(self.name, constant)}, missing)"

    def said(self) -> str:
        before = self.parent.said()
        return f"{before}.{self.name}" if before else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Item(Source):
    """An element of a list, tuple or dict, whose guard says that it is there."""

    parent: Source
    key: Any

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return f"{parent}[{_literal(self.key, constant)}]"

    def said(self) -> str:
        before = self.parent.said()
        # The outermost two are those of (args, kwargs), named by whoever makes them.
        return f"{before}[{self.key!r}]" if before else ""


def _literal(key: Any, constant: Callable[[Any], str]) -> str:
    """Python text of a key or name. What it would be of any other object is that object's own to say, and is no text to run."""
    return repr(key) if type(key) in (str, int) else constant(key)


@dataclass(frozen=True, slots=True, eq=False)
class Renamed(Source):
    """A source under another name: an argument by its own."""

    parent: Source
    key: Any
    name: str

    def text(self, parent: str, constant: Callable[[Any], str]) -> str:
        return f"{parent}[{_literal(self.key, constant)}]"

    def said(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold of the value at `source`: `test` is Python text about `{0}`, with constants `{1}` and so on, or values at other
    sources.
    """

    source: Source
    test: str
    constants: tuple[Any, ...]
    message: str
    # Whether a change of the value is counted by Layers.
    counted: bool = False

    def __str__(self) -> str:
        return f"{self.source.said()} {self.message}".strip()


_MISSING = object()


class Guards:
    """Guards of one program, compiled to a check."""

    def __init__(self, guards: list[Guard], fetched: list[Source]):
        """`fetched` are sources of tensors whose values the check gives back."""
        self.guards = guards
        self.fetched = fetched
        self._version = -1
        self._always = _compile([g for g in guards if not g.counted], fetched)
        counted = [g for g in guards if g.counted]
        self._counted = _compile(counted, []) if counted else None

    def check(self, given: Any) -> Any:
        """The fetched values if all guards hold; None if one does not."""
        if self._counted is not None and self._version != (version := structure_version()):
            if self._counted(given) is None:
                return None
            self._version = version
        return self._always(given)

    def failing(self, given: Any) -> Guard | None:
        """The first guard that does not hold."""
        for guard in sorted(self.guards, key=lambda g: not g.counted):
            if _compile([guard], [])(given) is None:
                return guard
        return None

    def all_failing(self, given: Any) -> list[Guard]:
        """All guards that do not hold."""
        return [guard for guard in self.guards if _compile([guard], [])(given) is None]

    def __iter__(self) -> Iterator[Guard]:
        return iter(self.guards)


def _compile(guards: list[Guard], fetched: list[Source]) -> Callable[[Any], Any]:
    constants: dict[str, Any] = {"missing": _MISSING}
    by_id: dict[int, str] = {}
    variables: dict[int, str] = {}
    lines: list[str] = []

    def constant(value: Any) -> str:
        name = by_id.get(id(value))
        if name is None:
            name = by_id[id(value)] = f"k{len(by_id)}"
            constants[name] = value
        return name

    def variable(source: Source) -> str:
        name = variables.get(id(source))
        if name is None:
            before = source.before()
            parent = variable(before) if before is not None else ""
            if isinstance(source, FunctionOf):
                parent = ", ".join(variable(part) if isinstance(part, Source) else constant(part) for part in source.parts)
            text = source.text(parent, constant)
            if text in ("given",) or text in constants:
                name = text
            else:
                name = f"v{len(variables)}"
                lines.append(f"    {name} = {text}")
            variables[id(source)] = name
        return name

    for guard in guards:
        name = variable(guard.source)
        others = [variable(value) if isinstance(value, Source) else constant(value) for value in guard.constants]
        lines.append(f"    if not ({guard.test.format(name, *others)}): return None")
    names = [variable(source) for source in fetched]
    # A path that has gone (an attribute of what is no object of that kind any more, an emptied cell) is a guard that does not hold, and so
    # is what Python cannot compute of numbers.
    body = "\n".join(f"    {line}" for line in lines)
    text = (
        "def check(given):\n"
        f"    try:\n{body or '        pass'}\n        return ({''.join(n + ', ' for n in names)})\n"
        "    except (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError):\n        return None\n"
    )
    exec(compile(text, "<guards>", "exec"), constants)  # noqa: S102
    check: Callable[[Any], Any] = constants["check"]
    return check
