"""Nested arguments and results: a flat list of tensors, and a template that says how they were nested.

A template is hashable and compares by value, so it is part of the key under which a traced function is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from polyreme.ir.python.records import dataclass
from polyreme.ir.types import has_scalar_type
from polyreme.tensor import Tensor

Template = Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of a tensor."""


@dataclass(frozen=True, slots=True)
class ArrayLeaf(Leaf):
    """The place of an array of NumPy's, of this dtype."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Nested:
    """A list, tuple, named tuple or dict of `parts`; `keys` are those of a dict."""

    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Template, ...]
    exact: Any = None  # what tells keys apart that Python takes for equal; None where all are texts


class Plain:
    """Any other value. Numbers and text compare by type and value, objects by identity."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any):
        self.value = value
        # 1, 1.0 and True are equal to Python, but a program traced for one is not right for another.
        self.key: Any
        if isinstance(value, np.generic):
            self.key = type(value), value.dtype.str, value.tobytes()
        else:
            plain = isinstance(value, (bool, int, float, str, bytes, complex, type(None)))
            self.key = (type(value), repr(value)) if plain else id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


class Number(Plain):
    """A number, of Python's or NumPy's, that was another one at another call: it is equal to any of its type."""

    __slots__ = ()

    def __init__(self, value: Any):
        self.value = value
        self.key = type(value), Number


LEAF = Leaf()
_ARRAYS = (np.ndarray, np.memmap)


def flatten(value: Any, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> Template:
    """Append the leaves inside `value` to `leaves`, in order, and return the template without them."""
    if is_leaf(value):
        leaves.append(value)
        return ArrayLeaf(value.dtype.str) if isinstance(value, np.ndarray) else LEAF
    if isinstance(value, (list, tuple)):
        return Nested(type(value), (), tuple(flatten(v, leaves, is_leaf) for v in value))
    if isinstance(value, dict):
        return Nested(type(value), tuple(value), tuple(flatten(v, leaves, is_leaf) for v in value.values()), exactly(value))
    return Plain(value)


def exactly(values: Iterable[Any]) -> Any:
    """What is equal for the same values in the same order only: Python takes 1, 1.0 and True, or 0.0 and -0.0, for equal, but a program for
    one is not right for another.

    None where all are texts, which are as equal as they look.
    """
    told = []
    plain = True
    for value in values:
        kind = type(value)
        plain = plain and kind is str
        told.append(
            (kind, exactly(value)) if isinstance(value, tuple) else (kind, repr(value)) if kind in (float, complex) else (kind, value)
        )
    return None if plain else tuple(told)


def unflatten(template: Template, leaves: Iterator[Any]) -> Any:
    """The value that `template` was made of, with `leaves` in the places of its own."""
    if isinstance(template, Leaf):
        return next(leaves)
    if isinstance(template, Plain):
        return template.value
    parts = [unflatten(part, leaves) for part in template.parts]
    if template.keys:
        return template.kind(zip(template.keys, parts, strict=True))
    return template.kind._make(parts) if hasattr(template.kind, "_fields") else template.kind(parts)


def is_tensor(value: Any) -> bool:
    """Whether a value is an input or result of a compiled function: a tensor, or an array of numbers, which becomes one."""
    return isinstance(value, Tensor) or type(value) in _ARRAYS and has_scalar_type(value.dtype)


def paths(template: Template, name: str) -> Iterator[str]:
    """What messages call each leaf: `name` itself, `name[0]`, `name['key']`."""
    if isinstance(template, Leaf):
        yield name
    elif isinstance(template, Nested):
        for key, part in zip(template.keys or range(len(template.parts)), template.parts, strict=True):
            yield from paths(part, f"{name}[{key!r}]")


_KINDS: dict[str, type] = {"list": list, "tuple": tuple, "dict": dict}


def template_to_json(template: Template) -> Any:
    """How a result is nested, as plain data."""
    if isinstance(template, Leaf):
        return "tensor"
    if isinstance(template, Plain):
        if not isinstance(template.value, (bool, int, float, str, type(None))):
            raise ValueError(f"expected tensors, numbers and text in what the function returns but got {template.value!r}")
        return {"value": template.value}
    kind = next(name for name, cls in _KINDS.items() if issubclass(template.kind, cls))
    return {"kind": kind, "keys": list(template.keys), "parts": [template_to_json(p) for p in template.parts]}


def template_from_json(data: Any) -> Template:
    """What `template_to_json` told; a `ValueError` for what it never tells."""
    if data == "tensor":
        return LEAF
    if not isinstance(data, dict):
        raise ValueError(f"expected how a result is nested but got {data!r:.80}")
    if "value" in data:
        if isinstance(data["value"], (list, dict)):
            raise ValueError(f"expected a number or a text in a result but got {data['value']!r:.80}")
        return Plain(data["value"])
    kind, keys, parts = data.get("kind"), data.get("keys"), data.get("parts")
    if not isinstance(kind, str) or kind not in _KINDS or not isinstance(keys, list) or not isinstance(parts, list):
        raise ValueError(f"expected a list, tuple or dict with its keys and parts but got {data!r:.80}")
    if len(keys) != (len(parts) if kind == "dict" else 0) or any(isinstance(key, (list, dict)) for key in keys):
        raise ValueError(f"expected a key for each of {len(parts)} parts of a dict, and none of a list, but got {keys!r:.80}")
    return Nested(_KINDS[kind], tuple(keys), tuple(map(template_from_json, parts)))
