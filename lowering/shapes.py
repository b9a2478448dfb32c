"""Symbolic sizes of whole functions: replaced by numbers where those are known, and checked to follow from the arguments.

Shapes are polynomials over names (`ir/dims.py`), and every op's inference computes with them, so there is no system of equations left to solve
after tracing; what is left is to make sure that a run can tell each name's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Block, Op
from polyreme.ir.diagnostics import Diagnostic, PassError
from polyreme.ir.dims import SYMBOL, Dim, Expr, substitute, symbols
from polyreme.ir.facts import Guard
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.types import FunctionType, Type, substitute_type, type_symbols

_TYPES = Type.__args__  # type: ignore[attr-defined]


def specialize(root: Op, sizes: Mapping[str, Dim]) -> None:
    """Replace names of sizes by `sizes` (numbers or other sizes) in every type, attribute and guard inside `root`."""
    values = dict(sizes)
    for op in root.walk():
        for key, value in op.attributes.items():
            op.attributes[key] = _specialized(value, values)
        if isinstance(op, Func) and op.guards:
            op.attributes["guards"] = tuple(str(g.substituted(values)) for g in map(Guard.parse, op.guards))
        for result in op.results:
            result.type = substitute_type(result.type, values)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    arg.type = substitute_type(arg.type, values)


def specialize_block(block: Block, sizes: Mapping[str, Dim]) -> None:
    """As `specialize`, for a block that is in no function yet."""
    for arg in block.args:
        arg.type = substitute_type(arg.type, dict(sizes))
    for op in block:
        specialize(op, sizes)


def with_sizes(value: Any, sizes: Mapping[str, Dim]) -> Any:
    """An attribute's value with names of sizes replaced by `sizes`."""
    return _specialized(value, dict(sizes))


def _specialized(value: Any, values: dict[str, Dim]) -> Any:
    if isinstance(value, tuple):
        return tuple(_specialized(v, values) for v in value)
    if isinstance(value, Expr):
        return substitute(value, values)
    return substitute_type(value, values) if isinstance(value, _TYPES) else value


def bound_sizes(func: Func) -> frozenset[str]:
    """Names of the sizes that a run of `func` learns from its arguments: those that stand alone in an argument's shape."""
    return frozenset(str(d) for a in func.args for d in getattr(a.type, "shape", ()) if isinstance(d, Expr) and SYMBOL.match(str(d)))


def used_sizes(op: Op) -> frozenset[str]:
    """Names of the sizes in the attributes and result types of one op."""
    found = frozenset().union(*(type_symbols(r.type) for r in op.results))
    return found.union(*(_attribute_sizes(v) for v in op.attributes.values()))


def _attribute_sizes(value: Any) -> frozenset[str]:
    if isinstance(value, tuple):
        return frozenset().union(*map(_attribute_sizes, value))
    if isinstance(value, Expr):
        return symbols(value)
    return type_symbols(value) if isinstance(value, _TYPES) and not isinstance(value, FunctionType) else frozenset()


@register_pass
@dataclass(frozen=True)
class SolveDims(Pass):
    """Give sizes their values, as far as `sizes` ("N=1 T=128") says them, and check that a run can tell the others.

    Before: any module.  After: no name in `sizes` is left; each other name stands alone in the shape of an argument of `main`. Runs first, because
    everything after compares shapes.
    """

    name: ClassVar[str] = "solve-dims"
    sizes: str = ""

    def run(self, module: Module) -> None:
        values = self._values()
        if values:
            specialize(module, values)
        for func in module.functions:
            if func.sym_name == "main":
                self._check(func)

    def _values(self) -> dict[str, Dim]:
        values: dict[str, Dim] = {}
        for part in self.sizes.replace(";", " ").split():
            name, _, number = part.partition("=")
            if not SYMBOL.match(name) or not number.isdigit():
                raise PassError(f"expected 'name=number' for the pass '{self.name}' but got {part!r}", code="E0402")
            values[name] = int(number)
        return values

    def _check(self, func: Func) -> None:
        bound = bound_sizes(func)
        faults: dict[str, Diagnostic] = {}
        for arg in func.args:
            for name in type_symbols(arg.type) - bound:
                faults.setdefault(name, Diagnostic(f"expected the size '{name}' to stand alone in an argument's shape but got {arg.type}", func.location))
        for op in func.block:
            for name in used_sizes(op) - bound:
                faults.setdefault(name, Diagnostic(f"expected the size '{name}' in the shape of an argument of '@main', which nothing else tells", op.location))
        if faults:
            raise PassError(faults.values(), code="E0409")
