"""Symbolic sizes of whole functions: replaced by known numbers, checked to follow from the arguments, and guarded.

Shapes are polynomials over names (`ir/dims.py`). Each op's inference computes with them, and equations are solved as soon as an op needs
them (`ir/sizes/facts.py`), so no system of equations is left after tracing. This pass makes sure that a run can tell each name's value, and
adds the guards that no equation implies: that no size becomes negative on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from polyreme.dialects import nn, tensor
from polyreme.dialects.nn.conv import conv_numbers
from polyreme.dialects.nn.pool import pool_numbers
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Block, Op
from polyreme.ir.diagnostics import Diagnostic, PassError
from polyreme.ir.dims import SYMBOL, Dim, Expr, known_nonnegative, line_of, minimum, mod, product, substitute, symbols, told
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.sizes.facts import Guard, at_least_zero, without_implied
from polyreme.ir.types import BufferType, FunctionType, Type, substitute_type, type_symbols

_TYPES = Type.__args__


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
    """Names of the sizes that a run of `func` learns from its arguments: those of axes that are lines in one name, such as `N` or `8*N+3`.
    """
    return frozenset(found[0] for a in func.args for d in getattr(a.type, "shape", ()) if (found := line_of(d)) is not None)


def used_sizes(op: Op) -> frozenset[str]:
    """Names of the sizes in the attributes and result types of one op."""
    found = frozenset().union(*(type_symbols(r.type) for r in op.results))
    return found.union(*(attribute_sizes(v) for v in op.attributes.values()))


def attribute_sizes(value: Any) -> frozenset[str]:
    """Names of the sizes in an attribute's value."""
    if isinstance(value, tuple):
        return frozenset().union(*map(attribute_sizes, value))
    if isinstance(value, Expr):
        return symbols(value)
    return type_symbols(value) if isinstance(value, _TYPES) and not isinstance(value, FunctionType) else frozenset()


def bounds_of(func: Func) -> list[Guard]:
    """What the ops of `func` need of sizes that its arguments tell, so that none becomes negative on the way, as far as it does not hold
    anyway.

    Ops inside of others are left out: they may not run.
    """
    known = bound_sizes(func)
    needed: dict[Expr, Guard] = {}
    for op in func.block:
        for size in _not_negative(op):
            if isinstance(size, Expr) and size not in needed and symbols(size) <= known and not known_nonnegative(size):
                needed[size] = at_least_zero(size, op.name, op.location)
    return without_implied(needed.values())


def _not_negative(op: Op) -> Iterator[Dim]:
    for result in op.results:
        yield from getattr(result.type, "shape", ())
    if isinstance(op, (nn.Slice, tensor.Slice)):
        for size, start, stop in zip(op.x.type.shape, op.starts, op.stops, strict=True):
            yield from (start, stop - start, size - stop)
    if isinstance(op, nn.Pad):
        yield from op.padding
    if isinstance(op, tensor.Pad):
        yield from (*op.low, *op.high)
    if isinstance(op, (nn.Gather, nn.Scatter, tensor.Gather, tensor.Scatter)):
        # Where there are positions, there is an element for them: the nearest end of nothing is outside. There are none of nothing where
        # they are so many for each.
        size, count = op.x.type.shape[op.axis], product(op.index.type.shape)
        if size != 0 and mod(count, size) != 0:
            yield size - minimum(count, 1)


def windows_of(func: Func) -> list[Dim]:
    """What is not negative where every window of a convolution or pooling in `func` fits the image that it is for, as its inference has it
    for sizes that are known.
    """
    found: dict[Dim, None] = {}
    for op in func.block:
        if isinstance(op, nn.Conv):
            strides, pairs, gaps = conv_numbers(op.x.type.rank - 2, op.strides, op.padding, op.dilations)
            windows = [(kernel - 1) * gap + 1 for kernel, gap in zip(op.weight.type.shape[2:], gaps, strict=True)]
        elif isinstance(op, (nn.MaxPool, nn.AvgPool)):
            windows, (_, pairs) = list(op.kernel), pool_numbers(op.x.type.rank - 2, op.kernel, op.strides, op.padding)
        else:
            continue
        found.update(
            (size + low + high - window, None) for size, (low, high), window in zip(op.x.type.shape[2:], pairs, windows, strict=True)
        )
    return [room for room in found if not known_nonnegative(room)]


@register_pass
@dataclass(frozen=True)
class SolveDims(Pass):
    """Replace sizes by the values in `sizes` ("N=1 T=128"), check that a run can tell the others, and guard what ops need of them.

    Before: any module.  After: no name in `sizes` is left. Each other name is told by the shape of an argument of `main`. If the guards
    hold, no size of a result in `main` is negative, and no guard follows from another. Runs first, because everything after compares
    shapes.
    """

    name: ClassVar[str] = "solve-dims"
    sizes: str = ""

    def run(self, module: Module) -> None:
        values = self._values()
        for func in module.functions:
            specialize(func, values | self._solved(func, values))
            if func.sym_name == "main":
                self._check(func)
            self._guard(func)

    def _values(self) -> dict[str, Dim]:
        values: dict[str, Dim] = {}
        for part in self.sizes.replace(";", " ").split():
            name, _, number = part.partition("=")
            if not SYMBOL.match(name) or not number.isdigit():
                raise PassError(f"expected 'name=number' for the pass '{self.name}' but got {part!r}", code="E0402")
            values[name] = int(number)
        return values

    def _solved(self, func: Func, values: Mapping[str, Dim]) -> dict[str, Dim]:
        """What `values` say of names that guards gave others in place of: with `N % 8 == 0`, `N=16` says that `N_8` is 2."""
        found: dict[str, Dim] = {}
        for guard in map(Guard.parse, func.guards):
            given = next((size for name, size in values.items() if guard.need.startswith((f"{name} == ", f"{name} % "))), None)
            if given is None or (known := told(guard.size, given)) is None:
                continue
            if found.setdefault(*known) != known[1] or substitute(guard.size, dict([known])) != given:
                raise PassError(Diagnostic(f"expected {guard.words} ({guard.origin}) but got {given}", func.location), code="E0411")
        return found

    def _guard(self, func: Func) -> None:
        guards = []
        for guard in map(Guard.parse, func.guards):
            if isinstance(guard.size, Expr) or guard.kind == "fixed":
                guards.append(guard)
            elif guard.size < 0 if guard.is_bound else guard.kind == "checked" and guard.size != 0:
                raise PassError(
                    Diagnostic(f"expected {guard.words} ({guard.origin}) but got {guard.measured[0]}", func.location), code="E0411"
                )
        if func.sym_name == "main" and not any(isinstance(a.type, BufferType) for a in func.args):
            guards = without_implied([*guards, *bounds_of(func)])
        if guards or func.guards:
            func.attributes["guards"] = tuple(map(str, guards))

    def _check(self, func: Func) -> None:
        bound = bound_sizes(func)
        faults: dict[str, Diagnostic] = {}
        for arg in func.args:
            for name in type_symbols(arg.type) - bound:
                faults.setdefault(
                    name, Diagnostic(f"expected the size '{name}' to stand alone in an argument's shape but got {arg.type}", func.location)
                )
        for op in func.block:
            for name in used_sizes(op) - bound:
                faults.setdefault(
                    name,
                    Diagnostic(f"expected the size '{name}' in the shape of an argument of '@main', which nothing else tells", op.location),
                )
        if faults:
            raise PassError(faults.values(), code="E0409")
