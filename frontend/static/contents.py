"""What is known of a variable's contents while its program is built: sizes that operators compute from the shapes of other variables, such
as `paddle.shape(x)[0] * 2`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.ir.diagnostics import PolyremeError
from polyreme.provided import provided, provides
from polyreme.static.emitter import Emitter, ProgramSource, source_tensor
from polyreme.static.kinds import Nn, TableOperator
from polyreme.static.operator import Operator
from polyreme.static.variable import Variable
from polyreme.tensor import Tensor

__all__ = ["made_again", "variable_contents"]

# Longer vectors are data, not shapes.
MAX_ELEMENTS = 64


@provides
def variable_contents(variable: Variable) -> np.ndarray[Any, Any] | None:
    """The elements where the next operator is appended, as Python numbers and symbolic sizes; None when only a run knows them.

    In a block of a loop nothing is known of what the blocks around made: the loop may write it again, later in the block.
    """
    if variable.block is not variable.block.program.current_block():
        return None
    trace = dispatch.active_trace()
    emitter = Emitter(lambda source: emitter.block.add_arg(source.type, source.name))
    try:
        with dispatch.trace_into(emitter), tape.recording(False):
            made = made_again(variable)
            known: np.ndarray[Any, Any] | None = None if made is None else provided.known_contents(made)
    finally:
        emitter.restore()
    taken = getattr(trace, "sizes_taken", None)
    if known is not None and taken is not None:
        taken.add(variable.name)
    return known


def made_again(variable: Variable) -> Tensor | None:
    """The variable by the operators that make it, applied to tensors without values; None when it is not made of shapes."""
    block = variable.block
    makers = _makers(variable) if _is_shape_like(variable) else None
    if not makers:
        return None
    made: dict[str, Tensor] = {}

    def read(name: str) -> Tensor:
        if name not in made:
            made[name] = source_tensor(ProgramSource("variable", name, block.var_recursive(name).type))
        return made[name]

    try:
        for op in makers:
            results = op.kind.apply(op, {slot: [read(name) for name in names] for slot, names in op.inputs.items()}, {})
            for slot, names in op.outputs.items():
                made.update(zip(names, results.get(slot, ()), strict=False))
        return made[variable.name]
    except (PolyremeError, ValueError, TypeError, KeyError):
        return None  # what is wrong is reported where the operator is appended or run


def _makers(variable: Variable) -> list[Operator] | None:
    """The operators whose results the variable's contents may depend on, in their order; None where these cannot be told from shapes."""
    needed, later, found = {variable.name}, set[str](), list[Operator]()
    for op in reversed(variable.block.ops):
        writes = {name for names in op.kind.writes(op).values() for name in names}
        if needed & writes:
            if not isinstance(op.kind, (Nn, TableOperator)) or op.data is not None:
                return None
            found.append(op)
            needed -= writes
            for name in op.input_arg_names:
                if _is_shape_like(variable.block.var_recursive(name)):
                    needed.add(name)
                elif name in later or name in writes:
                    return None  # its type is that of the last write
            if not needed:
                break
        later |= writes
    return None if needed & later else found[::-1]


def _is_shape_like(variable: Variable) -> bool:
    """Whether it can be sizes: a number or a short vector that no run keeps."""
    if variable.persistable or not variable.has_shape:
        return False
    kind = variable.type
    return kind.rank <= 1 and kind.is_static and kind.elements <= MAX_ELEMENTS
