"""A kernel made ready to run: its instructions as steps.

Every instruction is made into a Python function once, by the maker that the tables of `instructions.py`, `transfers.py` and `warps.py` have
for its opcode; what the runner cannot do is refused here, before anything runs. Branches, ends and barriers have no step: they decide which
threads go on where, which is for `runner.py`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from polyreme.runtime.ptx import instructions, transfers, warpgroups, warps
from polyreme.runtime.ptx.arithmetic import TYPES
from polyreme.runtime.ptx.operands import Place
from polyreme.runtime.ptx.parser import Kernel
from polyreme.runtime.ptx.state import Layout, Read, Step, Threads

# Shared memory that a launch may say without the kernel's being told of it before.
ALWAYS_SHARED = 48 << 10
CONTROL = ("bra", "ret", "exit", "bar", "barrier")
_MAKERS = {**instructions.MAKERS, **transfers.MAKERS, **warps.MAKERS, **warpgroups.MAKERS}


class Program:
    """A kernel, a step and a guard (or None) for each of its instructions, and the `leaders`: where branches can lead to.

    `steps` ends with one None more than there are instructions: the place behind the last.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        # Bytes of shared memory that a launch may say, beside the kernel's own.
        self.most_shared = ALWAYS_SHARED
        self.layout = Layout(kernel)
        self.leaders = frozenset(kernel.labels.values())
        with _without_collections():
            places = [Place(self.layout, instruction) for instruction in kernel.code]
            self.guards = [_guard(place) for place in places]
            # Those who wait for a phase of a barrier: by place, who of the chosen threads may go on.
            self.waits = {
                i: warpgroups.make_try_wait(place, place.instruction.parts, *place.instruction.operands)
                for i, place in enumerate(places)
                if _waits(place) and place.instruction.guard is None
            }
            self.steps = [*(_step(place, guard) for place, guard in zip(places, self.guards, strict=True)), None]


@contextmanager
def _without_collections() -> Iterator[None]:
    """No search for garbage: there is none among thousands of functions that all stay, and looking takes much of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _guard(place: Place) -> Read | None:
    """Which of the chosen threads an instruction is for, as booleans; None when it is for all."""
    instruction = place.instruction
    if instruction.guard is None:
        return None
    get = place.read(instruction.guard, TYPES["pred"])
    return (lambda t, some: ~get(t, some)) if instruction.negated else get


def _waits(place: Place) -> bool:
    return place.instruction.parts[:2] == ["mbarrier", "try_wait"]


def _step(place: Place, guard: Read | None) -> Step | None:
    parts = place.instruction.parts
    if parts[0] in CONTROL:
        return None
    if _waits(place):
        if guard is not None:
            raise place.fail("expected to wait without a condition")
        return None
    make = _MAKERS.get(parts[0])
    if make is None:
        raise place.fail("expected an instruction that the runner knows")
    step = make(place, parts, *place.instruction.operands)
    if guard is None:
        return step

    def guarded(t: Threads, some: object) -> None:
        on = np.flatnonzero(guard(t, some))
        if len(on):
            step(t, t.chosen(some)[on])

    return guarded
