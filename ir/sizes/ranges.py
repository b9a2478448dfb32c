"""Ranges: which numbers an argument of a function may hold, where they are positions along an axis of a known size.

Types do not say them. Each is an entry of the function's attribute `ranges`, and each run of what is compiled looks at the argument first:

    func @main(%ids: tensor<Nxi64>) attributes {ranges = ["ids from 0 below 5 at net.py:9:16"]} { ... }
"""

from __future__ import annotations

import re

from polyreme.ir.python.records import dataclass

__all__ = ["Range"]

_TEXT = re.compile(r"(?P<argument>\S+) from (?P<low>-?\d{1,18}) below (?P<high>\d{1,18})(?: at (?P<place>.*))?", re.DOTALL)


@dataclass(frozen=True)
class Range:
    """All elements of `argument` are at least `low` and less than `high`; `place` is the line that asks for it."""

    argument: str
    low: int
    high: int
    place: str = ""

    def __str__(self) -> str:
        return f"{self.argument} from {self.low} below {self.high}" + (f" at {self.place}" if self.place else "")

    @staticmethod
    def parse(text: str) -> Range:
        """`ValueError` for anything else."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"expected a range, such as 'ids from 0 below 5', but got {text!r}")
        return Range(found["argument"], int(found["low"]), int(found["high"]), found["place"] or "")
