"""Tensors within lists, tuples, named tuples and dicts: `flatten` and `map_structure`, as layers for nested states use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["flatten", "map_structure"]


def flatten(nest: Any) -> list[Any]:
    """What stands inside lists, tuples and dicts (in the order of their sorted keys), however deep; anything else is a list of itself."""
    return list(_leaves(nest))


def _leaves(nest: Any) -> Iterator[Any]:
    if isinstance(nest, dict):
        for key in sorted(nest):
            yield from _leaves(nest[key])
    elif isinstance(nest, (list, tuple)):
        for part in nest:
            yield from _leaves(part)
    else:
        yield nest


def map_structure(func: Callable[..., Any], *structures: Any) -> Any:
    """`func` of what stands at the same place of each of the structures, nested as the first one; they must be nested alike."""
    first = structures[0]
    if isinstance(first, dict):
        _check_alike(structures, all(isinstance(s, dict) and s.keys() == first.keys() for s in structures))
        return type(first)((key, map_structure(func, *(s[key] for s in structures))) for key in first)
    if isinstance(first, (list, tuple)):
        _check_alike(structures, all(isinstance(s, (list, tuple)) and len(s) == len(first) for s in structures))
        parts = [map_structure(func, *together) for together in zip(*structures, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    _check_alike(structures, not any(isinstance(s, (list, tuple, dict)) for s in structures))
    return func(*structures)


def _check_alike(structures: tuple[Any, ...], alike: bool) -> None:
    if not alike:
        raise ValueError(f"expected structures that are nested alike but got {', '.join(map(_outline, structures))}")


def _outline(nest: Any) -> str:
    if isinstance(nest, dict):
        return "{" + ", ".join(f"{k!r}: {_outline(v)}" for k, v in nest.items()) + "}"
    if isinstance(nest, (list, tuple)):
        return "(" + ", ".join(map(_outline, nest)) + ")"
    return type(nest).__name__
