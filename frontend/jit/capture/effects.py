"""What a captured function does to objects outside: noted with enough to take it back, and to do it again at every call of the program.

While a function is captured its writes really happen, so that it reads what it wrote; the `Journal` puts everything back afterwards. What a
call of the program does instead is a list of `Effect`s, whose values are described by recipes: results of the program, objects that are
there, constants, containers of these.
"""

from __future__ import annotations

import collections
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from polyreme import dispatch, views
from polyreme.autograd.cleared import zeros_of
from polyreme.dialects import nn as ops
from polyreme.ir.diagnostics import Location
from polyreme.ir.dims import Expr, evaluate
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, i1, i64
from polyreme.math.common import is_within
from polyreme.nn.tables import note_change
from polyreme.tensor import Tensor

__all__ = ["Build", "KnownValue", "Effect", "Existing", "Journal", "Link", "Output", "Sized", "ValueRecipe", "condition"]

_TABLES = ("_parameters", "_buffers", "_sub_layers")


class Journal:
    """What objects were before a capture touched them."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Any, Any]] = {}

    def before(self, held: Any) -> None:
        """Remember the object as it is, unless that was done."""
        if id(held) not in self.kept:
            self.kept[id(held)] = held, _snapshot(held)

    def original(self, held: Any) -> Any:
        """A list, dict, set or deque as it was before the capture."""
        entry = self.kept.get(id(held))
        return held if entry is None else entry[1]

    def undo(self) -> None:
        """Put everything back."""
        for held, was in self.kept.values():
            _restore(held, was)
        self.kept.clear()


def _snapshot(held: Any) -> Any:
    if isinstance(held, (list, dict, set, collections.deque)):
        return held.copy() if not isinstance(held, dict) else dict(held)
    state = vars(held)
    tables = {name: list(state[name].items()) for name in _TABLES if name in state}
    return dict(state), tables, set(state.get("_non_persistable_buffer_names_set", ()))


def _restore(held: Any, was: Any) -> None:
    if isinstance(held, list):
        held[:] = was
    elif isinstance(held, collections.deque):
        held.clear()
        held.extend(was)
    elif isinstance(held, (dict, set)):
        held.clear()
        held.update(was)
    else:
        state, tables, names = was
        own = vars(held)
        for name in [n for n in own if n not in state]:
            del own[name]
        own.update(state)
        for name, entries in tables.items():
            now = list(own[name].items())
            if len(now) != len(entries) or any(a != b or x is not y for (a, x), (b, y) in zip(now, entries, strict=True)):
                own[name].clear()
                own[name].update(entries)
        if "_non_persistable_buffer_names_set" in own:
            own["_non_persistable_buffer_names_set"].clear()
            own["_non_persistable_buffer_names_set"].update(names)
            note_change()


# --- recipes


class ValueRecipe(ABC):
    """How a value is made at a call."""

    __slots__ = ()

    @abstractmethod
    def make(self, call: Call) -> Any:
        """The value, in this call."""


@dataclass(slots=True)
class Call:
    """What recipes are made of at one call: the program's results, objects that are there, and what was made already."""

    results: list[Tensor]
    existing: tuple[Any, ...]
    sizes: Callable[[], Mapping[str, int]] = dict  # what the free sizes of the program are
    made: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Output(ValueRecipe):
    """A result of the program."""

    number: int

    def make(self, call: Call) -> Any:
        return call.results[self.number]


@dataclass(frozen=True, slots=True)
class Existing(ValueRecipe):
    """An object that is there already, by its number among those that are fetched."""

    number: int

    def make(self, call: Call) -> Any:
        return call.existing[self.number]


@dataclass(frozen=True, slots=True)
class KnownValue(ValueRecipe):
    """The same value at every call."""

    value: Any

    def make(self, call: Call) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Build(ValueRecipe):
    """A new container, or object, of parts; one and the same at each place of a call that has this `key`."""

    key: int
    maker: Callable[[list[Any]], Any]
    parts: tuple[ValueRecipe, ...]

    def make(self, call: Call) -> Any:
        if self.key not in call.made:
            call.made[self.key] = self.maker([part.make(call) for part in self.parts])
        return call.made[self.key]


@dataclass(frozen=True, slots=True)
class Sized(ValueRecipe):
    """Numbers, some of which are the free sizes of a call."""

    value: Any

    def make(self, call: Call) -> Any:
        return _sized(self.value, call.sizes())


# --- effects


def snapshot(held: Tensor) -> Tensor:
    """A tensor for the value that `held` has now, with its place in the graph."""
    alias = Tensor._wrap(held._value, held._type)
    alias.stop_gradient, alias._node, alias._index = held.stop_gradient, held._node, held._index
    return alias


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that is done to an object after the program has run. `kind` is one of `KINDS`; `name` an attribute, a key or a method."""

    kind: str
    target: ValueRecipe
    name: Any
    values: tuple[ValueRecipe, ...]

    def apply(self, call: Call) -> None:
        KINDS[self.kind](self.target.make(call), self.name, *[value.make(call) for value in self.values])


@dataclass(frozen=True, slots=True)
class Link:
    """A result that is a view of something: of an object that is there, or of another result."""

    base: ValueRecipe
    view: ValueRecipe
    steps: tuple[views.Step, ...]
    attached: bool  # to the graph, too

    def apply(self, call: Call) -> None:
        steps = self.steps
        if any(is_free(value) for _, _, attributes in steps for value in attributes.values()):
            sizes = call.sizes()
            steps = tuple(
                (cls, operands, {name: _sized(value, sizes) for name, value in attributes.items()}) for cls, operands, attributes in steps
            )
        views.link(self.base.make(call), self.view.make(call), steps, self.attached)


def is_free(value: Any) -> bool:
    """Whether there is a free size in an attribute."""
    return isinstance(value, Expr) or isinstance(value, tuple) and any(map(is_free, value))


def _sized(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, (tuple, list)):
        return (list if isinstance(value, list) else tuple)(_sized(v, sizes) for v in value)
    return evaluate(value, sizes) if isinstance(value, Expr) else value


def _set_item(target: Any, key: Any, value: Any) -> None:
    target[key] = value


def _delete_item(target: Any, key: Any) -> None:
    del target[key]


def _call_method(target: Any, name: str, *values: Any) -> None:
    getattr(target, name)(*values)


def _turn(target: Tensor, make: Callable[..., Tensor], args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> None:
    dispatch.seen_as(target, make, *args, **dict(kwargs))


def _assign(target: Any, _: Any, value: Tensor) -> None:
    if isinstance(target, np.ndarray):
        target[...] = value.numpy()  # an argument, of which the program was given a tensor
    else:
        dispatch.assign(target, value)


def _change_gradients(_: None, changes: Sequence[tuple[str, bool, TensorType]], *parts: Tensor) -> None:
    """Do `changes`, as `LeafGradients` has them, each with whether the gradient needs none itself and its type: `parts` are the leaves,
    each with the tensor that is set there, if one is.
    """
    given = iter(parts)
    for what, stops, kind in changes:
        leaf = next(given)
        if what in ("clear", "drop"):
            leaf.clear_gradient(what == "clear")
        elif what == "zero":
            leaf._grad = made = Tensor._wrap(zeros_of(kind))
            made.stop_gradient = stops
        else:
            leaf._grad = made = next(given)
            if what == "set":
                made._name, made.stop_gradient = f"{leaf._name or leaf.name}@GRAD", stops


def _show(_: None, options: tuple[tuple[str, Any], ...], *values: Any) -> None:
    print(*values, **dict(options))


def _check(_: None, said: tuple[Any, Location], test: Tensor) -> None:
    message, location = said
    if not test:
        error = AssertionError() if message is None else AssertionError(message)
        error.add_note(f"by the assert at {location}, in a compiled function")
        raise error


def _within(_: None, said: tuple[Callable[[int, int, int], Exception], Any, bool], *ends: Tensor) -> None:
    low, high, size = _ends(said, *ends)
    if not is_within(low, high, size, said[2]):
        raise said[0](low, high, size)


def _ends(said: tuple[Any, Any, bool], lowest: Tensor, highest: Tensor, *bound: Tensor) -> tuple[int, int, int]:
    return int(lowest), int(highest), int(bound[0]) if bound else said[1]


def condition(kind: str, said: Any, values: Sequence[Tensor]) -> Tensor:
    """Whether one of the `CHECKS` raises no error, as a value of the program that computes what it looks at."""
    if kind == "check":
        (test,) = values
        test = test if test.type.dtype == i1 else dispatch.call(ops.Cast, test, dtype=i1)
        return dispatch.call(ops.Reshape, test, shape=())
    lowest, highest, *bound = (x if x.type.dtype == i64 else dispatch.call(ops.Cast, x, dtype=i64) for x in values)
    size = bound[0] if bound else dispatch.full((), said[1], i64)
    first = dispatch.call(ops.Neg, size) if said[2] else dispatch.full((), 0, i64)
    inside = dispatch.call(ops.GreaterEqual, lowest, first), dispatch.call(ops.Less, highest, size)
    return dispatch.call(ops.LogicalAnd, *inside)


KINDS: dict[str, Callable[..., None]] = {
    "set_attribute": setattr,
    "delete_attribute": delattr,
    "set_item": _set_item,
    "delete_item": _delete_item,
    "method": _call_method,
    "show": _show,
    "check": _check,
    "within": _within,
    "gradients": _change_gradients,
    "turn": _turn,
    "assign": _assign,
}
# Those that change nothing: they look at results, and may raise an error.
CHECKS = frozenset({"check", "within"})
