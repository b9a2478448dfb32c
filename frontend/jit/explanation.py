"""`jit.explain`: what became of a compiled function so far."""

from __future__ import annotations

from typing import Any

from polyreme.ir.python.records import dataclass
from polyreme.jit.capture.capturing import Whole
from polyreme.jit.capture.effects import CHECKS
from polyreme.jit.static_function import StaticFunction

__all__ = ["Explanation", "ProgramSummary", "explain"]


@dataclass(frozen=True)
class ProgramSummary:
    """One program of whole calls: the types of its inputs, what must hold besides, how many effects it has on objects outside."""

    inputs: tuple[str, ...]
    guards: tuple[str, ...]
    effects: int

    def __str__(self) -> str:
        lines = [f"program for ({', '.join(self.inputs)})" + (f", {self.effects} effects on objects outside" if self.effects else "")]
        return "\n".join([*lines, *(f"  if {guard}" for guard in self.guards)])


@dataclass(frozen=True)
class Explanation:
    """What became of a function's calls.

    `programs` are those of whole calls. `breaks` say where, and why, calls are no single programs, each with the user's line. `segments`
    counts the programs of what is computed between two such places, `specialized` names what the function reads that was another value at
    another call, with how often.
    """

    name: str
    programs: tuple[ProgramSummary, ...]
    breaks: tuple[str, ...]
    segments: int
    specialized: dict[str, int]

    def __str__(self) -> str:
        lines = [f"'{self.name}': {len(self.programs)} programs of whole calls, {self.segments} of parts"]
        lines += [line for program in self.programs for line in str(program).splitlines()]
        lines += [f"runs in parts: {place}" for place in self.breaks]
        lines += [f"captured anew {times} times since it was another value: {what}" for what, times in self.specialized.items()]
        return "\n".join(lines)


def explain(function: Any) -> Explanation:
    """What became of the calls of a function, or Layer, given to `to_static`: print it.

    A `TypeError` for what was not given to `to_static`.
    """
    found = getattr(function, "forward", function)
    if not isinstance(found, StaticFunction):
        raise TypeError(f"expected a function or a Layer that was given to to_static but got {function!r}")
    wholes = [whole for calls in found.known_calls() for whole in calls.wholes]
    changed: dict[str, int] = {}
    for calls in found.known_calls():
        for what, times in calls.changed.items():
            if times:
                changed[what] = changed.get(what, 0) + times
    return Explanation(
        found.name,
        tuple(map(_summary, wholes)),
        tuple(found.breaks()),
        len(found.programs()) - sum(w.program is not None for w in wholes),
        changed,
    )


def _summary(whole: Whole) -> ProgramSummary:
    inputs: tuple[str, ...] = ()
    if whole.program is not None:
        traced = whole.program.traced
        inputs = tuple(
            f"{name}: {arg.type}"
            for name, arg, source in zip(traced.func.arg_names, traced.func.args, traced.sources, strict=True)
            if isinstance(source, int)
        )
    return ProgramSummary(inputs, tuple(dict.fromkeys(map(str, whole.guards))), sum(effect.kind not in CHECKS for effect in whole.effects))
