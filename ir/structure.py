"""Whether two ops are the same: the same ops in the same order, with the same attributes, types, uses and regions."""

from __future__ import annotations

import math
from typing import Any

from polyreme.ir.attributes import Dense
from polyreme.ir.core import Op, Value

__all__ = ["first_difference"]


def first_difference(a: Op, b: Op, locations: bool = False, names: bool = False) -> str:
    """What differs first between two ops and all that is in them, in a line; nothing when they are the same.

    Places in the source count only with `locations`, and what values are called only with `names`. Values from outside both ops have to be
    the same ones.
    """
    return _Comparison(locations, names).ops(a, b, a.name)


class _Comparison:
    def __init__(self, locations: bool, names: bool):
        self.locations = locations
        self.names = names
        self.partner: dict[Value, Value] = {}

    def ops(self, a: Op, b: Op, path: str) -> str:
        """`path` says where the ops stand, for the message."""
        if a.name != b.name:
            return f"{path}: '{a.name}' against '{b.name}'"
        if a.segments != b.segments or len(a._operands) != len(b._operands):
            return f"{path}: operands {_shape(a)} against {_shape(b)}"
        for i, (x, y) in enumerate(zip(a._operands, b._operands, strict=True)):
            if self.partner.get(x, x) is not y:
                return f"{path}: operand {i} is {x!r} against {y!r}"
        for key in {**a.attributes, **b.attributes}:
            here, there = a.attributes.get(key), b.attributes.get(key)
            if not _alike(here, there):
                return f"{path}: attribute '{key}' is {here!r} against {there!r}"
        if self.locations and a.location != b.location:
            return f"{path}: location {a.location!r} against {b.location!r}"
        return self.values(a.results, b.results, path) or self.regions(a, b, path)

    def values(self, a: Any, b: Any, path: str) -> str:
        """Results or arguments, which are the same from here on."""
        if len(a) != len(b):
            return f"{path}: {len(a)} values against {len(b)}"
        for x, y in zip(a, b, strict=True):
            if x.type != y.type or (self.names and x.name != y.name):
                return f"{path}: {x!r} against {y!r}"
            self.partner[x] = y
        return ""

    def regions(self, a: Op, b: Op, path: str) -> str:
        shapes = [[(len(block.args), len(block)) for region in op.regions for block in region.blocks] for op in (a, b)]
        if len(a.regions) != len(b.regions) or shapes[0] != shapes[1]:
            return f"{path}: regions of {shapes[0]} arguments and ops against {shapes[1]}"
        for region, other in zip(a.regions, b.regions, strict=True):
            for block, twin in zip(region.blocks, other.blocks, strict=True):
                found = self.values(block.args, twin.args, path)
                for i, (op, same) in enumerate(zip(block, twin, strict=True)):
                    found = found or self.ops(op, same, f"{path}/{i}:{op.name}")
                if found:
                    return found
        return ""


def _shape(op: Op) -> str:
    return f"{len(op._operands)} in {op.segments}" if op.segments is not None else str(len(op._operands))


def _alike(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, and 0.0 from -0.0; one nan is like another. Constants that are made later are made for it.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, Dense):
        return a == b or (a.type == b.type and Dense.taking(a.made()) == Dense.taking(b.made()))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, float):
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)
