"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["table"]


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """A table with these rows."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
