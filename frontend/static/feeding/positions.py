"""Classes and rows that are fed: an operator that looks them up in a table of known size is asked before the run whether they are there.

A run tells of positions outside of a table once it has ended (`static/emitter.py`). What is fed is small enough to be looked at before, by
name, and it is where words outside of the vocabulary and labels that start at 1 come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.ir.python.records import dataclass

if TYPE_CHECKING:
    from polyreme.static.operator import Operator
    from polyreme.static.program import Block, Program

__all__ = ["UNBOUNDED", "FedPositions", "fed_positions", "misplaced"]

Array = np.ndarray[Any, Any]

# Operators whose result holds the numbers of this input slot and no others.
_CARRIERS = {
    "assign": "X", "cast": "X", "flatten": "X", "flatten2": "X", "flatten_contiguous_range": "X", "lod_reset": "X", "reshape": "X",
    "reshape2": "X", "share_data": "X", "squeeze": "X", "squeeze2": "X", "transpose": "X", "transpose2": "X", "unsqueeze": "X",
    "unsqueeze2": "X",
}  # fmt: skip


# As many positions as there may be, for what only must not be below 0.
UNBOUNDED = 2**63


@dataclass(frozen=True)
class FedPositions:
    """A fed variable whose numbers `op` looks up among `count`, from the front or, if `backward`, from the back too. `skipped` stands for
    no position.
    """

    name: str
    op: Operator
    count: int
    skipped: int | None = None
    backward: bool = False

    @property
    def expected(self) -> str:
        """What the numbers should be."""
        if self.count == UNBOUNDED:
            return "numbers of at least 0"
        return f"{-self.count if self.backward else 0} to {self.count - 1}"


def fed_positions(program: Program) -> list[FedPositions]:
    """All of block 0: operators that look up what is fed, directly or in another shape."""
    block = program.global_block()
    fed = {name: name for name, variable in block.vars.items() if variable.is_data and variable.type.dtype.kind in "iu"}
    found: dict[tuple[str, int, int | None, bool], FedPositions] = {}
    for op in block.ops:
        lookup = _LOOKUPS.get(op.type)
        if lookup is not None:
            for name, count, skipped, backward in lookup(op, block):
                if name in fed and isinstance(count, int) and count > 0:
                    found.setdefault((fed[name], count, skipped, backward), FedPositions(fed[name], op, count, skipped, backward))
        carried = [fed.get(name) for name in op.inputs.get(_CARRIERS.get(op.type, ""), ())]
        for name in op.output_arg_names:
            fed.pop(name, None)
        if len(carried) == 1 and carried[0] is not None:
            fed.update(dict.fromkeys(op.outputs.get("Out", ()), carried[0]))
    return list(found.values())


def misplaced(positions: list[FedPositions], arrays: Mapping[str, Array]) -> tuple[FedPositions, int] | None:
    """The first fed number that is no position; None when all are."""
    for place in positions:
        array = arrays.get(place.name)
        if array is None or not array.size or _all_inside(array, place):
            continue
        wrong = array[(array < (-place.count if place.backward else 0)) | (array >= place.count)]
        if place.skipped is not None:
            wrong = wrong[wrong != place.skipped]
        if wrong.size:
            return place, int(wrong[0])
    return None


def _all_inside(array: Array, place: FedPositions) -> bool:
    if place.backward:
        return bool(array.max() < place.count and array.min() >= -place.count)
    # A number below 0 is a large one without a sign, so that one look is enough.
    return bool(array.view(f"u{array.dtype.itemsize}").max() < place.count)


# --- the operators


Lookup = Iterator[tuple[str, Any, "int | None", bool]]


def _size(op: Operator, block: Block, slot: str, axis: int) -> Any:
    (name,) = op.inputs[slot]
    shape = block.var_recursive(name).type.shape
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _rows(op: Operator, block: Block) -> Lookup:
    for name in op.inputs.get("Ids", ()):
        yield name, _size(op, block, "W", 0), None, False


def _gathered(op: Operator, block: Block) -> Lookup:
    axis = op.attrs.get("axis", 0)
    if not op.inputs.get("Axis") and isinstance(axis, int):
        for name in op.inputs.get("Index", ()):
            yield name, _size(op, block, "X", axis), None, True


def _one_hot(op: Operator, block: Block) -> Lookup:
    if not op.inputs.get("depth_tensor") and not op.attrs.get("allow_out_of_range", False):
        for name in op.inputs.get("X", ()):
            yield name, op.attrs.get("depth"), None, False


def _classes(slot: str) -> Callable[[Operator, Block], Lookup]:
    def labels(op: Operator, block: Block) -> Lookup:
        if not op.attrs.get("soft_label", False):
            for name in op.inputs.get("Label", ()):
                yield name, _size(op, block, slot, op.attrs.get("axis", -1)), op.attrs.get("ignore_index"), False

    return labels


def _labels_of_a_measure(op: Operator, block: Block) -> Lookup:
    for name in op.inputs.get("Label", ()):
        yield name, UNBOUNDED, None, False


_LOOKUPS: dict[str, Callable[[Operator, Block], Lookup]] = {
    "accuracy": _labels_of_a_measure, "bpr_loss": _classes("X"), "cross_entropy": _classes("X"), "cross_entropy2": _classes("X"),
    "gather": _gathered, "lookup_table": _rows, "lookup_table_v2": _rows, "one_hot": _one_hot, "one_hot_v2": _one_hot,
    "softmax_with_cross_entropy": _classes("Logits"),
}  # fmt: skip
