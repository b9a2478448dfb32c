"""Programs of one function by the sizes that they are for.

A program of free sizes serves every call that its guards let through. Where a guard does not, or where the function wants the number behind a free size, the
call gets a program with numbers in place of the sizes that stand in the way: as many of those are kept as `MOST_SIZES` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr, evaluate, symbols, told
from polyreme.ir.facts import Guard
from polyreme.ir.types import TensorType
from polyreme.jit.program import Program
from polyreme.jit.structure import Template
from polyreme.jit.traced import Traced, UnknownSizeError

__all__ = ["Shapes", "SizedPrograms", "fits", "shapes_of"]

# Of programs with numbers in place of free sizes, per signature; and of programs that took branches by sizes.
MOST_SIZES = 64
MOST_BRANCHES = 16
_REFUSALS = (PolyremeError, ValueError, TypeError, IndexError, AssertionError, RuntimeError)

Entry = tuple[Program, Template]
Shapes = tuple[tuple[int, ...], ...]
Make = Callable[[list[TensorType], Shapes], Entry]
Axes = frozenset[tuple[int, int]]


class SizedPrograms:
    """The programs of one signature, whose inputs have the types `types`.

    `reasons` says in words why sizes that are free became numbers, or why a call got a program of its own.
    """

    def __init__(self, types: Sequence[TensorType]):
        self.types = list(types)
        self._free = frozenset((i, axis) for i, type in enumerate(types) for axis, size in enumerate(type.shape) if isinstance(size, Expr))
        self.reasons: list[str] = []
        self._known: Axes = frozenset()  # the axes that the function wants to know
        self._programs: dict[tuple[int, ...], list[Entry]] = {}
        self._found: dict[Shapes, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entries in self._programs.values() for entry in entries)

    def find(self, shapes: Shapes, make: Make) -> Entry:
        """The program for inputs of these shapes, which `make(types, shapes)` traces where there is none.

        If there can be none, it is one that refuses them when it is called.
        """
        found = self._found.get(shapes)
        if found is None or not found[0].holds():
            found = self._searched(shapes, make)
            if len(self._found) >= MOST_SIZES:
                self._found.clear()
            self._found[shapes] = found
        return found

    def _searched(self, shapes: Shapes, make: Make) -> Entry:
        refused = None
        while True:
            entries = [entry for entry in self._entries(self._known, shapes) if entry[0].holds()]
            for entry in entries:
                if fits(entry[0].traced, shapes):
                    return entry
            if entries and (len(entries) >= MOST_BRANCHES or not any(entry[0].traced.decided for entry in entries)):
                refused = entries[0]
                break
            try:
                made = self._make(self._known, shapes, make)
            except UnknownSizeError as error:
                if not (wanted := self._free.intersection(error.axes) - self._known):
                    raise
                self._known |= wanted
                self._note(error)
                continue
            except _REFUSALS as error:
                # Functions check their arguments, which may be fine as soon as all of their sizes are numbers.
                if not self._free - self._known:
                    raise
                try:
                    made = self._make(self._free, shapes, make)
                except _REFUSALS:
                    raise error from None
                self._known = self._free
                self._note(error)
                return made
            if fits(made[0].traced, shapes):
                return made
            refused = made
            break
        if not self._free - self._known:
            return refused
        try:
            numbered = [entry for entry in self._entries(self._free, shapes) if entry[0].holds()]
            made = numbered[0] if numbered else self._make(self._free, shapes, make)
            self._note(f"expected sizes that fit {'; '.join(refused[0].traced.func.guards)} but got {', '.join(str(list(s)) for s in shapes)}")
            return made
        except _REFUSALS:
            if _is_accepted(refused[0].traced, shapes):
                raise
            return refused  # which says what was expected of the sizes

    def _note(self, why: BaseException | str) -> None:
        if len(self.reasons) < MOST_SIZES and str(why) not in self.reasons:
            self.reasons.append(str(why))

    def _make(self, axes: Axes, shapes: Shapes, make: Make) -> Entry:
        types = [
            type.with_shape(tuple(shapes[i][axis] if (i, axis) in axes else size for axis, size in enumerate(type.shape)))
            for i, type in enumerate(self.types)
        ]
        entry = make(types, shapes)
        self._entries(axes, shapes).append(entry)
        return entry

    def _entries(self, axes: Axes, shapes: Shapes) -> list[Entry]:
        numbers = tuple(n for i, axis in sorted(axes) for n in (i, axis, shapes[i][axis]))
        if numbers not in self._programs and len(self._programs) >= MOST_SIZES:
            self._programs.pop(next(key for key in self._programs if key))
        return self._programs.setdefault(numbers, [])


def fits(traced: Traced, shapes: Shapes) -> bool:
    """Whether inputs of these shapes are those that a program is for, by its types and guards, and by what its ops refuse of known sizes."""
    return _is_accepted(traced, shapes) and all(evaluate(room, values) >= 0 for values in [_values(traced, shapes)] for room in _facts(traced).windows)


def _is_accepted(traced: Traced, shapes: Shapes) -> bool:
    """Whether the program takes inputs of these shapes when it is called."""
    values = _values(traced, shapes)
    try:
        return all(evaluate(size, values) == number for size, number in _axes(traced, shapes)) and all(_holds(g, values) for g in _facts(traced).guards)
    except KeyError:  # a size that no axis tells, which is an error when the program is compiled
        return True


def _axes(traced: Traced, shapes: Shapes) -> list[tuple[Dim, int]]:
    """The sizes of the inputs as the program has them, with what they are."""
    pairs = [(arg.type.shape, shapes[source]) for arg, source in zip(traced.func.args, traced.sources, strict=True) if isinstance(source, int)]
    return [pair for sizes, shape in pairs for pair in zip(sizes, shape, strict=True)]


def _values(traced: Traced, shapes: Shapes) -> dict[str, int]:
    """The values of the names in the program's types."""
    values: dict[str, int] = {}
    for size, number in _axes(traced, shapes):
        if (found := told(size, number)) is not None:
            values.setdefault(found[0], int(found[1]))
    return values


class _Facts(NamedTuple):
    """What a call of a program checks: its guards, and that no size becomes negative on the way; and what is not negative where windows fit."""

    guards: list[Guard]
    windows: list[Dim]


def _facts(traced: Traced) -> _Facts:
    """The facts of a program, which are found once."""
    found: _Facts | None = vars(traced).get("_size_facts")
    if found is None:
        from polyreme.lowering.shapes import bound_sizes, bounds_of, windows_of

        told = bound_sizes(traced.func)
        windows = [room for room in windows_of(traced.func) if symbols(room) <= told]
        found = vars(traced)["_size_facts"] = _Facts([*map(Guard.parse, traced.func.guards), *bounds_of(traced.func)], windows)
    return found


def _holds(guard: Guard, values: dict[str, int]) -> bool:
    size, low, high = guard.measured
    measured = evaluate(size, values)
    return (low is None or measured >= low) and (high is None or measured <= high)


def shapes_of(inputs: Sequence[Any]) -> Shapes:
    """The shapes of tensors with values."""
    return tuple(tuple(tensor.type.shape) for tensor in inputs)
