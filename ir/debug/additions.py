"""Passes of the user's own among those of the pipeline: where each goes, and that it runs.

    with added([parse_addition("log-ops@after:fuse")]):
        compile_module(module)

While the `with` is open, `lowering/pipeline.py` puts the passes into the stages it gives. Whatever is compiled meanwhile is made anew,
since no cache can know what they do; the module is verified after each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from polyreme.ir import config
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PassError, did_you_mean
from polyreme.ir.passes import PassLike, Stage, parse_passes, pass_text
from polyreme.ir.python.records import dataclass
from polyreme.ir.verify import verify

__all__ = ["Addition", "added", "extended", "parse_addition"]

PLACES = "after:STAGE, before:STAGE, after:PASS or before:PASS"
_PLACE = re.compile(r"(before|after):(?:([\w.-]+)/)?([\w.-]+)\Z")


@dataclass(frozen=True, eq=False)
class Addition:
    """A pass that goes `side` ("before" or "after") of the stage or pass called `anchor`; of a pass in the stage called `stage`, if it is
    not empty. Without an anchor it goes after the first stage whose level it takes.
    """

    made: PassLike
    side: str = "after"
    stage: str = ""
    anchor: str = ""

    def __str__(self) -> str:
        place = f"@{self.side}:{self.stage}{'/' if self.stage else ''}{self.anchor}" if self.anchor else ""
        return f"{pass_text(self.made)}{place}"


def parse_addition(text: str) -> Addition:
    """`NAME{options}@PLACE` as an addition; the place, `after:fuse` or `before:tensor/dce`, may be left out. `PassError` says what is
    wrong.
    """
    spec, at, place = text.rpartition("@") if re.search(r"@[^{}\"]*\Z", text) else (text, "", "")
    passes = parse_passes(spec)
    if len(passes) != 1:
        raise PassError(f"expected one pass, as NAME@PLACE, but got {text!r}", code="E0402")
    if not at:
        return Addition(passes[0])
    found = _PLACE.match(place)
    if found is None:
        raise PassError(f"expected a place for '{passes[0].name}' ({PLACES}) but got {place!r}", code="E0005")
    return Addition(passes[0], found[1], found[2] or "", found[3])


class _Added:
    """The additions that are in force, and those among them that have run."""

    def __init__(self, additions: Sequence[Addition]):
        self.additions = tuple(additions)
        self.ran: set[Addition] = set()


_added: ContextVar[_Added | None] = ContextVar("added", default=None)


@contextmanager
def added(additions: Sequence[Addition], have_to_run: bool = True) -> Iterator[None]:
    """Put passes into every pipeline that is made while this is open; with `have_to_run`, `PassError` at the end if one of them never ran.
    """
    if not additions:
        yield
        return
    held = _Added(additions)
    token = _added.set(held)
    try:
        with config.uncached():
            yield
    finally:
        _added.reset(token)
    for addition in additions:
        if have_to_run and addition not in held.ran:
            raise PassError(
                f"the pass '{addition}' did not run: what was asked for needs no part of the pipeline that it stands in; ask for a later "
                "level, or give text of an earlier one",
                code="E0005",
            )


class ExtendedStage(Stage):
    """A stage with additions: modules are verified after these."""

    def __init__(self, name: str, passes: Sequence[PassLike], held: _Added):
        super().__init__(name, *passes)
        self._held = held

    def after_pass(self, made: PassLike, module: Module) -> None:
        for addition in self._held.additions:
            if addition.made is made:
                self._held.ran.add(addition)
                verify(module)


def extended(stages: Sequence[Stage]) -> list[Stage]:
    """The stages with the additions in their places; `PassError` for a place that there is not, or at which no level of the pass's is."""
    held = _added.get()
    if held is None:
        return list(stages)
    places = [_place(addition, stages) for addition in held.additions]
    found: list[Stage] = []
    for number, stage in enumerate(stages):
        passes: list[PassLike] = []
        for gap in range(len(stage.passes) + 1):
            passes += [a.made for a, place in zip(held.additions, places, strict=True) if place == (number, gap)]
            passes += stage.passes[gap : gap + 1]
        found.append(ExtendedStage(stage.name, passes, held))
    return found


def _place(addition: Addition, stages: Sequence[Stage]) -> tuple[int, int]:
    """The stage, and in front of which of its passes: its number, or how many there are for the end."""
    levels = _levels(stages)
    takes = addition.made.takes
    if not addition.anchor:
        for number, stage in enumerate(stages):
            if not takes or levels[number][-1] in takes:
                return number, len(stage.passes)
        raise PassError(f"expected a place for the pass '{addition.made.name}', as NAME@PLACE ({PLACES})", code="E0005")
    number, gap = _found(addition, stages)
    level = levels[number][gap]
    if takes and level not in takes:
        raise PassError(
            f"expected a place where modules are at the level {' or '.join(takes)}, which '{addition.made.name}' takes, but got "
            f"'{addition}': "
            f"there they are at the level {level}",
            code="E0005",
        )
    return number, gap


def _found(addition: Addition, stages: Sequence[Stage]) -> tuple[int, int]:
    """As `_place`, by the names: the last run of a pass for "after", the first one for "before"."""
    after = addition.side == "after"
    for number, stage in enumerate(stages):
        if not addition.stage and stage.name == addition.anchor:
            return number, len(stage.passes) if after else 0
    runs = [
        (number, gap)
        for number, stage in enumerate(stages)
        for gap, made in enumerate(stage.passes)
        if made.name == addition.anchor and addition.stage in ("", stage.name)
    ]
    if not runs:
        known = [stage.name for stage in stages] + list(dict.fromkeys(made.name for stage in stages for made in stage.passes))
        wanted = f"{addition.stage}/{addition.anchor}" if addition.stage else addition.anchor
        raise PassError(
            f"expected a stage or a pass of the pipeline ({', '.join(known)}) as the place of '{addition.made.name}' but got '{wanted}'"
            f"{did_you_mean(addition.anchor, known)}",
            code="E0005",
        )
    return (runs[-1][0], runs[-1][1] + 1) if after else runs[0]


def _levels(stages: Sequence[Stage]) -> list[list[str]]:
    """The level of modules in front of each pass, and at the end of each stage."""
    level = stages[0].name if stages else ""
    found = []
    for stage in stages:
        here = [level]
        for made in stage.passes:
            level = made.leaves or level
            here.append(level)
        found.append(here)
    return found
