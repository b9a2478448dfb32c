"""The table of Paddle's operators: looked up by name, and applied as PIR files and as ProgramDesc files or `append_op` write them.

A PIR `pd_op.slice` gets its meaning by `apply_pir("slice", …)`: the entry `slice` of `slicing.py`, called with the file's operands and
attributes. An older `slice`, with slots, gets the same one by `apply_legacy("slice", …)`. Branches and loops have blocks, and are for the
loaders themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polyreme.ir.core import Op
from polyreme.ir.diagnostics import did_you_mean
from polyreme.operators import (
    activation,
    array,
    conv,
    create,
    elementwise,
    fake_quantize,
    graphs,
    indexing,
    loss,
    norm,
    padding,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    search,
    shape,
    slicing,
    spectrum,
)
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.boxes import chosen, found, matched, proposals, region_targets
from polyreme.operators.control import selection
from polyreme.operators.definition import LEGACY, NN_NAMES, PIR, Legacy, PaddleOperator
from polyreme.operators.images import anchors, grids, read_between, vision, yolo
from polyreme.operators.matrices import factorizations, linalg
from polyreme.operators.older import clicks, draws, features, hashes, many_classes
from polyreme.operators.older import places as older_places
from polyreme.operators.sequence import (
    alignments,
    beams,
    chains,
    chunks,
    filling,
    gates,
    placing,
    pooling,
    ranks,
    repeating,
    steps,
    ways,
    windows,
)
from polyreme.operators.training import metric, update
from polyreme.tensor import Tensor

__all__ = [
    "FAMILIES",
    "LEGACY",
    "PIR",
    "apply_legacy",
    "apply_pir",
    "find_legacy",
    "find_operator",
    "is_misdeclared",
    "name_of_nn_op",
]

# Importing the families is what fills the table.
FAMILIES = (
    activation,
    alignments,
    anchors,
    array,
    beams,
    chains,
    chosen,
    chunks,
    clicks,
    conv,
    create,
    draws,
    elementwise,
    factorizations,
    fake_quantize,
    features,
    filling,
    found,
    gates,
    graphs,
    grids,
    hashes,
    indexing,
    linalg,
    loss,
    many_classes,
    matched,
    metric,
    norm,
    older_places,
    padding,
    placing,
    pool,
    pooling,
    proposals,
    quantize,
    random,
    recurrent,
    reduce,
    read_between,
    region_targets,
    repeating,
    search,
    selection,
    shape,
    ranks,
    slicing,
    spectrum,
    steps,
    update,
    vision,
    ways,
    windows,
    yolo,
)


def find_operator(name: str) -> PaddleOperator:
    """The operator that PIR calls `pd_op.name`; an `UnsupportedError` offers the nearest name."""
    found = PIR.get(name) or PIR.get(name.removesuffix("_"))
    if found is None:
        raise UnsupportedError(fault_of_pir(name), code="E0702")
    return found


def fault_of_pir(name: str, offers: bool = True) -> str:
    """Why `pd_op.name` cannot be applied; empty if it can be. With `offers` the nearest name is said, which takes a while to find."""
    return "" if name in PIR or name.removesuffix("_") in PIR else _unsupported(name, PIR if offers else ())


def fault_of_legacy(type: str, offers: bool = True) -> str:
    """As `fault_of_pir`, of an operator of an older name."""
    return "" if type in LEGACY else _unsupported(type, LEGACY if offers else ())


def _unsupported(name: str, known: Iterable[str]) -> str:
    return f"the operator '{name[:LONGEST_NAME]}' is not supported{did_you_mean(name[:LONGEST_NAME], known)}"


# Of a name that a file says so much is told: genuine ones have a third of it.
LONGEST_NAME = 100


def is_misdeclared(name: str) -> bool:
    """Whether PIR files declare a wrong type for what `pd_op.name` gives."""
    return name in PIR and PIR[name].misdeclared


def find_legacy(type: str) -> tuple[PaddleOperator, Legacy]:
    """The operator of an older name, and how it reads there; an `UnsupportedError` offers the nearest name."""
    found = LEGACY.get(type)
    if found is None:
        raise UnsupportedError(fault_of_legacy(type), code="E0702")
    return found


def name_of_nn_op(cls: type[Op]) -> str:
    """What static mode calls the operator that an op of `nn` becomes: Paddle's older name, or the op's own where it has none."""
    return NN_NAMES.get(cls, cls.name.removeprefix("nn."))


def apply_pir(name: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Apply `pd_op.name` through dispatch; its results, a tensor, a list of tensors or None each.

    Operands are tensors, lists of them, or None, in PIR's order; attributes are plain values. Errors are `UnsupportedError`s.
    """
    found = find_operator(name)
    if len(operands) > len(found.operands):
        raise UnsupportedError(f"expected at most {len(found.operands)} operands but got {len(operands)}")
    arguments = {parameter.name: operand for parameter, operand in zip(found.operands, operands, strict=False)}
    for key, value in attributes.items():
        key = found.renamed.get(key, key)
        if arguments.get(key) is None:
            arguments[key] = value
    return found.apply(arguments)


def apply_legacy(type: str, inputs: Mapping[str, Sequence[Tensor]], attrs: Mapping[str, Any]) -> dict[str, list[Tensor]]:
    """Apply an operator under an older name through dispatch; its results by output slot, without those that nobody computes here.

    `inputs` are tensors by slot; a slot without any may be missing. Attributes are plain values; dtypes may be Paddle's numbers. Errors are
    `UnsupportedError`s.
    """
    found, spelling = find_legacy(type)
    arguments: dict[str, Any] = {spelling.attributes.get(name, name): value for name, value in spelling.defaults.items()}
    for name, value in attrs.items():
        if name not in spelling.ignored and not (name in spelling.off and spelling.off[name] == value):
            arguments[spelling.attributes.get(name, name)] = value
    for slot in inputs:
        if slot not in spelling.inputs and inputs[slot]:
            raise UnsupportedError(
                f"expected the input slots {', '.join(spelling.inputs)} of '{type}' but got '{slot}'{did_you_mean(slot, spelling.inputs)}",
                code="E0703",
            )
    for slot, parameter in spelling.inputs.items():
        given = list(inputs.get(slot, ()))
        if given:
            arguments[parameter] = given
    made: dict[str, list[Tensor]] = {}
    for slot, result in zip(spelling.outputs, found.apply(arguments), strict=False):
        if result is not None:
            made[slot] = list(result) if isinstance(result, (list, tuple)) else [result]
    return made
