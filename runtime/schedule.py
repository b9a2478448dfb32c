"""A schedule: compiled regions, and between them what the host does, in one fixed order.

Values live in numbered slots. A step takes some and gives others; a slot is emptied after the last step that takes it, so that memory is
not held longer than needed. A step of the host may be a Python function, or give something that is on its way, such as the result of a
collective call; a later step waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from polyreme.runtime.calling import Array, CallableModel, Shapes
from polyreme.runtime.errors import CallError, ContentError
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.manifest.specs import MAX_SIZE, BodySpec, StepSpec, TensorSpec

__all__ = ["Schedule", "ScheduledStep", "schedule_of_parts"]

# Shapes that were found to fit are not looked at again: those of so many calls.
MOST_SHAPES = 256


@dataclass(frozen=True)
class ScheduledStep:
    """`run` is called with the list of what is in the slots `takes`; what it returns goes into the slots `gives`."""

    name: str
    run: Callable[[list[Any]], Sequence[Any]]
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.gives))} = {self.name} {', '.join(map(str, self.takes))}"


class Schedule(CallableModel):
    """Runs steps in order; called like an executable. The first slots are its arguments, as the manifest has them, and the slots `results`
    what it returns.

    What sizes the results have may be known only when they are there: the manifest says nothing of them.
    """

    def __init__(self, manifest: Manifest, steps: Sequence[ScheduledStep], results: Sequence[int], result_names: Sequence[str]):
        super().__init__(manifest)
        self.steps = tuple(steps)
        self.results = tuple(results)
        self._result_names = tuple(result_names)
        count = len(manifest.inputs)
        self._slots_used = 1 + max((*range(count), *self.results, *(s for step in steps for s in step.gives)), default=-1)
        last = {slot: i for i, step in enumerate(self.steps) for slot in (*step.gives, *step.takes)}
        kept = set(self.results)
        self._emptied = [tuple(s for s, at in last.items() if at == i and s not in kept) for i in range(len(self.steps))]
        self._fitting: set[Shapes] = set()

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the results are called, in order."""
        return self._result_names

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Any]:
        """The results for these arguments. They are arrays of their own: there is no `out`."""
        if out is not None:
            raise CallError(f"'{self.name}' expected no 'out': sizes of what it gives are known once it is there")
        slots: list[Any] = [None] * self._slots_used
        arrays = slots[: len(inputs)] = self._checked(inputs)
        for step, emptied in zip(self.steps, self._emptied, strict=True):
            given = step.run([slots[i] for i in step.takes])
            if len(given) != len(step.gives):
                raise CallError(f"expected {len(step.gives)} values from '{step.name}' but got {len(given)}")
            for slot, value in zip(step.gives, given, strict=True):
                slots[slot] = value
            for slot in emptied:
                slots[slot] = None
        results = [slots[i] for i in self.results]
        return _unshared(results, arrays) if self.manifest.steps else results

    def release_memory(self) -> None:
        """Give back the working memory of compiled regions that are not running."""
        for step in self.steps:
            region: Any = getattr(step.run, "__self__", None)
            if hasattr(region, "release_memory"):
                region.release_memory()

    def _as_array(self, value: Any, spec: TensorSpec) -> Array:
        """As for any model; what lies on a device stays there until a step looks at it."""
        return value if type(value) is DeviceArray else super()._as_array(value, spec)  # type: ignore[return-value]

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        """The arguments as arrays, of the types and sizes that the manifest says: the host's steps would take any."""
        if len(inputs) != len(self._inputs):
            raise self._count_error(len(inputs))
        arrays = [self._as_array(value, spec) for value, (_, _, spec) in zip(inputs, self._inputs, strict=True)]
        for array, (_, dtype, spec) in zip(arrays, self._inputs, strict=True):
            if array.dtype != dtype:
                raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._fitting:
            self._measure(shapes)
            if len(self._fitting) >= MOST_SHAPES:
                self._fitting.clear()
            self._fitting.add(shapes)
        if self.manifest.ranges:
            self._check_ranges(arrays)
        return arrays

    def __repr__(self) -> str:
        return super().__repr__() if self.manifest.steps else f"<schedule {self.name}: {len(self.steps)} steps>"


def _unshared(results: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
    """Results that share memory neither with inputs nor with one another: branches and loops may hand on what they were given."""
    own: list[Array] = []
    for result in results:
        shared = any(np.may_share_memory(result, other) for other in (*inputs, *own))
        own.append(result.copy() if shared else result)
    return own


def schedule_of_parts(manifest: Manifest, parts: Sequence[CallableModel]) -> Schedule:
    """What runs a model in parts, each of which can be called, by the steps of its manifest."""
    steps = []
    for step in manifest.steps:
        takes = tuple(step.reads())
        run = partial(_in_slots, manifest.name, parts, step, takes)
        steps.append(ScheduledStep(f"part {step.part}" if step.kind == "part" else step.kind, run, takes, step.gives))
    return Schedule(manifest, steps, manifest.results, [spec.name for spec in manifest.outputs])


def _in_slots(name: str, parts: Sequence[CallableModel], step: StepSpec, takes: Sequence[int], given: list[Any]) -> Sequence[Any]:
    return _step(name, parts, step, dict(zip(takes, given, strict=True)))


def _step(name: str, parts: Sequence[CallableModel], step: StepSpec, slots: Mapping[int, Any]) -> Sequence[Any]:
    """What a step gives, of what is in the slots."""
    given = [slots[slot] for slot in step.takes]
    if step.kind == "part":
        return parts[step.part].run(given)
    if step.kind == "first":
        return _first(given)
    if step.kind == "range":
        return _range(given)
    if step.kind == "size":
        return _size(name, step.need, given)

    def run(body: BodySpec, own: dict[int, Any]) -> list[Any]:
        for inner in body.steps:
            own.update(zip(inner.gives, _step(name, parts, inner, own), strict=True))
        return [own[slot] for slot in body.yields]

    first, second = step.bodies
    if step.kind == "if":
        return run(first if given[0].item() else second, dict(slots))
    rounds = 0
    while run(first, {**slots, **dict(zip(step.gives, given))})[0].item():
        given = run(second, {**slots, **dict(zip(step.gives, given))})
        rounds += 1
    return [*given, np.asarray(rounds, np.int64)]


def _first(given: list[Any]) -> Sequence[Any]:
    """The first rows of an array, as many as a number says."""
    rows, number = given
    if not 0 <= (count := int(number)) <= len(rows):
        raise ContentError(f"expected a number from 0 to {len(rows)}, as many rows as there are at most, but got {count}")
    return [rows[:count]]


def _size(name: str, need: str, given: list[Any]) -> Sequence[Any]:
    """As many rows as a number says, without elements."""
    number, fits = given
    if not fits or not 0 <= (count := int(number)) <= MAX_SIZE:
        raise ContentError(f"'{name}' expected {need} but got {int(number)}")
    return [np.empty((count, 0), np.int64)]


def _range(given: list[Any]) -> Sequence[Any]:
    """The numbers below one."""
    return [np.arange(max(int(given[0]), 0), dtype=np.int64)]
