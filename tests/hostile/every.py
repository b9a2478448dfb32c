"""All hostile files, by kind of file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.models import ModelFiles
from tests.hostile import archives, legacy, pir, weights


@dataclass(frozen=True)
class Case:
    """Files, and what must become of them: part of the error's text, or None if they are read. Large files are made when asked for."""

    name: str
    contents: dict[str, bytes | Callable[[], bytes]]
    expected: str | None

    @property
    def subject(self) -> str:
        return self.name.partition(":")[0]

    @property
    def large(self) -> bool:
        return any(callable(data) for data in self.contents.values())

    @property
    def files(self) -> ModelFiles:
        made = {suffix: data() if callable(data) else data for suffix, data in self.contents.items()}
        return ModelFiles(self.name, next(iter(made)), made)


@functools.cache
def every() -> tuple[Case, ...]:
    return tuple(Case(*case) for kind in (pir, legacy, weights, archives) for case in kind.hostile())
