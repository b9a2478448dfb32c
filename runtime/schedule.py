"""A schedule: compiled regions, and between them what the host does, in one fixed order.

Values live in numbered slots. A step takes some and gives others; a slot is emptied after the last step that takes it, so that memory is not held longer
than needed. A step of the host may be a Python function, or give something that is on its way, such as the result of a collective call; a later step waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyreme.runtime.errors import CallError

__all__ = ["Schedule", "ScheduledStep"]


@dataclass(frozen=True)
class ScheduledStep:
    """`run` is called with the list of what is in the slots `takes`; what it returns goes into the slots `gives`."""

    name: str
    run: Callable[[list[Any]], Sequence[Any]]
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.gives))} = {self.name} {', '.join(map(str, self.takes))}"


class Schedule:
    """Runs steps in order; called like an executable. The first `inputs` slots are its arguments, the slots `results` what it returns."""

    def __init__(self, name: str, inputs: int, steps: Sequence[ScheduledStep], results: Sequence[int]):
        self.name = name
        self.inputs = inputs
        self.steps = tuple(steps)
        self.results = tuple(results)
        self._slots = 1 + max((*range(inputs), *self.results, *(s for step in steps for s in step.gives)), default=-1)
        last = {slot: i for i, step in enumerate(self.steps) for slot in (*step.gives, *step.takes)}
        kept = set(self.results)
        self._emptied = [tuple(s for s, at in last.items() if at == i and s not in kept) for i in range(len(self.steps))]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for these arguments."""
        if len(inputs) != self.inputs:
            raise CallError(f"expected {self.inputs} arguments for '{self.name}' but got {len(inputs)}")
        slots: list[Any] = [None] * self._slots
        slots[: self.inputs] = inputs
        for step, emptied in zip(self.steps, self._emptied, strict=True):
            given = step.run([slots[i] for i in step.takes])
            if len(given) != len(step.gives):
                raise CallError(f"expected {len(step.gives)} values from '{step.name}' but got {len(given)}")
            for slot, value in zip(step.gives, given, strict=True):
                slots[slot] = value
            for slot in emptied:
                slots[slot] = None
        return [slots[i] for i in self.results]

    def __repr__(self) -> str:
        return f"<schedule {self.name}: {len(self.steps)} steps>"
