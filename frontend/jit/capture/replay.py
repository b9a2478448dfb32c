"""A program applied op by op: so that it becomes part of one that is being traced, or of a static Program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyreme import dispatch
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.define import BindsSizes
from polyreme.ir.dims import Dim, Expr, substitute, told
from polyreme.ir.types import type_symbols
from polyreme.jit.traced import Traced
from polyreme.lowering.gradients.autodiff import op_symbols
from polyreme.lowering.transforms.solve_sizes import specialize
from polyreme.tensor import Tensor

__all__ = ["replay"]


def replay(traced: Traced, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a program, its ops applied one after the other through dispatch: so a program becomes part of one being traced."""
    block = traced.func.block
    values: dict[Value, Tensor] = {}
    sizes: dict[str, Dim] = {}
    for arg, source in zip(block.args, traced.sources, strict=True):
        values[arg] = inputs[source] if isinstance(source, int) else source
        # Sizes that the program leaves open are those of the inputs it meets here.
        given = values[arg].type.shape
        sizes |= dict(found for d, n in zip(arg.type.shape, given, strict=False) if (found := told(d, n)) is not None)
    for op in block.ops[:-1]:
        if (op.has(BindsSizes) or op.regions) and (recorder := dispatch.active_trace()) is not None:
            # What ops inside of a body learn has names of its own here, too.
            learnt = (
                frozenset().union(*(op_symbols(inner) | _symbols_of_arguments(inner) for inner in op.walk())) if op.regions else frozenset()
            )
            named = dict.fromkeys([*(name for result in op.results for name in sorted(type_symbols(result.type))), *sorted(learnt)])
            sizes |= {name: recorder.fresh_size() for name in named if name not in sizes}
        operands = op.definition.split([values[v] for v in op.operands], op.segments)
        regions = dict(zip((part.name for part in op.definition.regions), _copied(op, sizes), strict=True)) if op.regions else {}
        results = dispatch.call(type(op), *operands, **{name: _with_sizes(a, sizes) for name, a in op.attributes.items()}, **regions)
        values.update(zip(op.results, results if isinstance(results, tuple) else (results,), strict=True))
    results = [values[v] for v in block.terminator.operands]
    for tensor, value in zip(traced.written, results[traced.output_count :], strict=True):
        dispatch.assign(tensor, value)
    return results[: traced.output_count]


def _symbols_of_arguments(op: Op) -> frozenset[str]:
    """The names of sizes in the types of what bodies are given."""
    return frozenset().union(*(type_symbols(arg.type) for region in op.regions for block in region.blocks for arg in block.args))


def _copied(op: Op, sizes: Mapping[str, Dim]) -> list[Region]:
    """The bodies of a branch or loop for one of another program, whose sizes are `sizes`."""
    copy = op.clone({})
    specialize(copy, sizes)
    regions: list[Region] = copy.regions
    copy.drop_operands()
    return regions


def _with_sizes(attribute: Any, sizes: dict[str, Dim]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_with_sizes(a, sizes) for a in attribute)
    return substitute(attribute, sizes) if isinstance(attribute, Expr) else attribute
