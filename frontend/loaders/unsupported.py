"""What a program's operators ask for that is not here: all of it is told at once, before any of them is applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from polyreme.ir.diagnostics import Diagnostic
from polyreme.loaders.errors import LoaderError

__all__ = ["MOST_PLACES", "Faults", "Use", "gathered", "refuse_unsupported"]

# Of one fault so many places are told.
MOST_PLACES = 4


class Use(NamedTuple):
    """An operator of a program, as its file calls it; where it stands (`place` is its Layer, or else as `where`); what is wrong with it,
    empty if it can be read.
    """

    name: str
    where: str
    place: str
    fault: str = ""


class Faults:
    """What is wrong with the operators of one program, by their names: a file may have many that nobody knows, and the nearest name is
    looked for a few times only.
    """

    def __init__(self, fault_of: Callable[[str, bool], str]):
        self._fault_of = fault_of
        self._found: dict[str, str] = {}
        self._offered = 0

    def __call__(self, name: str) -> str:
        if name not in self._found:
            fault = self._found[name] = self._fault_of(name, self._offered < MOST_OFFERS)
            self._offered += bool(fault)
        return self._found[name]


MOST_OFFERS = 50


def gathered(uses: Iterable[Use]) -> dict[str, list[Use]]:
    """The uses with a fault, by what it is, those that are met most often first."""
    found: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        if use.fault:
            found[use.fault].append(use)
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def refuse_unsupported(file: str, uses: Iterable[Use]) -> None:
    """A `LoaderError` with a diagnostic for each fault: how often it is met, and in which Layers."""
    found = gathered(uses)
    if not found:
        return
    faults = []
    for fault, users in found.items():
        if len(users) == 1:
            text = f"{file}: {users[0].where}: {fault}" + (f" (in {users[0].place})" if users[0].place != users[0].where else "")
        else:
            places = list(dict.fromkeys(use.place for use in users))
            more = f" and {len(places) - MOST_PLACES} more places" if len(places) > MOST_PLACES else ""
            text = f"{file}: {fault} ({len(users)} times: {', '.join(places[:MOST_PLACES])}{more})"
        faults.append(Diagnostic(text, code="E0702"))
    raise LoaderError(faults)
