"""Names for parameters and layers: `linear_0`, `linear_1`, … per kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from polyreme.names import listed

__all__ = ["generate", "guard", "switch"]


class UniqueNameGenerator(Counter[str]):
    """Counts per kind, and a prefix that all names get."""

    prefix = ""


_counters: Counter[str] = UniqueNameGenerator()


def generate(key: str) -> str:
    """`key_N` with the next number of `key`."""
    number = _counters[key]
    _counters[key] += 1
    return f"{getattr(_counters, 'prefix', '')}{key}_{number}"


def switch(new_generator: Counter[str] | None = None, new_para_name_checker: Any = None) -> tuple[Counter[str], Any]:
    """Start to count anew (or on from `new_generator`); returns the counters used so far, and the checker of parameter names that Paddle
    keeps beside them, of which there is none here.
    """
    global _counters
    old, _counters = _counters, UniqueNameGenerator() if new_generator is None else new_generator
    return old, new_para_name_checker


def mark() -> dict[str, int]:
    """How far names are counted, for `back_to`."""
    return dict(_counters)


def back_to(mark: Mapping[str, int]) -> None:
    """Count on from a mark: what was named since then is gone."""
    _counters.clear()
    _counters.update(mark)


@contextmanager
def guard(new_generator: Counter[str] | str | bytes | None = None) -> Iterator[None]:
    """Count anew inside the `with`, and go on as before after it. A text is put in front of all names made inside."""
    counters: Counter[str] | None
    if isinstance(new_generator, (str, bytes)):
        counters = UniqueNameGenerator()
        counters.prefix = new_generator if isinstance(new_generator, str) else new_generator.decode()
    else:
        counters = new_generator
    old, _ = switch(counters)
    try:
        yield
    finally:
        switch(old)


__dir__ = listed(__name__)
