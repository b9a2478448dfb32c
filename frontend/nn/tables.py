"""What a Layer is made of, by name, in tables that count their changes."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

__all__ = ["Table", "note_change", "structure_version"]

_versions = itertools.count(1)
_version = 0


def structure_version() -> int:
    """Another number whenever an attribute or a hook of a Layer anywhere was set, exchanged or taken away."""
    return _version


def note_change() -> None:
    global _version
    # Each number is given out once, so that a change is seen whatever threads do meanwhile.
    _version = next(_versions)


class Table(OrderedDict[Any, Any]):
    """Parameters, buffers, sublayers or hooks. Compiled functions look at a whole Layer again only after a change."""

    def __setitem__(self, name: str, value: Any) -> None:
        # Most writes are of what stands there already: `layer.weight` as it is.
        same = name in self and self[name] is value
        super().__setitem__(name, value)
        if not same:
            note_change()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        note_change()

    def pop(self, *args: Any, **kwargs: Any) -> Any:
        value = super().pop(*args, **kwargs)
        note_change()
        return value

    def popitem(self, last: bool = True) -> tuple[str, Any]:
        item = super().popitem(last)
        note_change()
        return item

    def clear(self) -> None:
        super().clear()
        note_change()

    def move_to_end(self, key: str, last: bool = True) -> None:
        super().move_to_end(key, last)
        note_change()
