"""How levels of detail go through a program: as integers beside the tensors.

A level is a tensor of offsets, int64, fed beside its array under a name of its own (`words@LOD0`). While a program is translated, each
variable has the tensors of its levels. An operator whose entry has a slot `X@LOD` is given those of what it reads in `X`, and one that has
results in `Out@LOD` says what those of `Out` are. All others hand on the levels of their main input to results that have as many rows, but
for some that Paddle 1.8.5 gives none; gradients have the levels of what they are the gradients of, with exceptions there too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count, takewhile
from typing import Any

from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import TensorType, i64
from polyreme.operators.control.blocks import BRANCHES, OVER_SEQUENCES, RECURRENT, WHILE
from polyreme.static.input_spec import BATCH
from polyreme.static.operator import Operator, forward_type
from polyreme.static.variable import GRAD
from polyreme.tensor import Tensor

__all__ = [
    "LOD", "NOT_DECLARED", "ROWS", "is_level", "is_shared", "level_name", "level_names", "level_types", "level_to_share", "levels_to_share",
    "told_levels",
]  # fmt: skip

LOD = "@LOD"
# The rows of all inputs that are sequences, until feeds say that they differ.
ROWS = "ROWS"
_PARTS = "PARTS"
# What runs a block: what that does to levels is said there.
_OF_BLOCKS = {WHILE, RECURRENT, OVER_SEQUENCES, *BRANCHES}


def level_name(name: str, level: int) -> str:
    """What the offsets of a level are fed as."""
    return f"{name}{LOD}{level}"


def level_names(name: str, known: Container[str]) -> list[str]:
    """What the levels of a variable are called, of those names that are known."""
    return list(takewhile(known.__contains__, (level_name(name, level) for level in count())))


def is_level(name: str) -> bool:
    return LOD in name


def is_shared(size: str) -> bool:
    """Whether a size is one that inputs share only until feeds say otherwise."""
    return size in (BATCH, ROWS) or size.startswith(_PARTS)


def level_types(levels: int) -> list[TensorType]:
    """The types of the offsets of a variable of so many levels: the first level has a sequence for each member of the batch."""
    sizes: list[Dim] = [symbol(BATCH if level == 0 else f"{_PARTS}{level}") + 1 for level in range(levels)]
    return [TensorType((size,), i64) for size in sizes]


# Operators whose results have no levels, whatever they read.
_WITHOUT = {
    "arg_max", "arg_min", "crop", "crop_tensor", "expand_as", "fill_constant_batch_size_like", "gather", "gaussian_random_batch_size_like",
    "gru_unit", "isfinite", "kldiv_loss", "lstm_unit", "maxout", "multiplex", "nce", "norm", "p_norm", "py_func", "rank_loss", "reverse",
    "scatter", "sequence_pad", "shape", "shuffle_channel", "smooth_l1_loss", "transpose", "transpose2", "uniform_random_batch_size_like",
    "unstack", "where_index",
}  # fmt: skip
# Those whose gradients have none, where others have those of what they are the gradient of.
_GRADIENTS_WITHOUT = {
    "add_position_encoding", "batch_norm", "bilinear_tensor_product", "clip", "conv2d", "cos_sim", "crop", "data_norm", "expand",
    "expand_as", "group_norm", "gru", "gru_unit", "huber_loss", "im2sequence", "kldiv_loss", "layer_norm", "log_loss", "lrn", "lstm",
    "lstm_unit", "lstmp", "matmul", "maxout", "multiplex", "nce", "norm", "pad", "pool2d", "prelu", "rank_loss", "reverse", "row_conv",
    "sigmoid_cross_entropy_with_logits", "slice", "softmax", "softmax_with_cross_entropy", "stack", "strided_slice",
}  # fmt: skip
# Those whose gradients have levels when they run, and are not declared with them.
NOT_DECLARED = {"mul", "sequence_concat", "sequence_slice", "sequence_softmax"}
# The slots whose first variable has the levels that a result gets; of an operator without such a slot, all are asked.
_SHARED_SLOTS = ("X", "Input", "Logits", "Ids", "In", "Predicted")


# Slots for how many rows each image has. A program that asks for them, as those of Paddle 2 do, has no levels beside.
_COUNTS = ("RoisNum", "MultiLevelRoIsNum")


def told_levels(op: Operator, slot: str, place: int, outputs: Mapping[str, Sequence[Any]]) -> Sequence[Any] | None:
    """The levels that an operator says itself of a result: one for each result of a slot with several; None where it says nothing."""
    names = op.write_slots()
    told = outputs.get((names[slot][place] if op.has_attr("sub_block") else slot) + LOD)
    if told is None or any(names.get(counts) for counts in _COUNTS):
        return None
    return told[place : place + 1] if len(names[slot]) > 1 and not op.has_attr("sub_block") else told


def names_to_share(op: Operator, slot: str, place: int) -> list[str]:
    """The variables whose levels result `place` of an output slot may have: of those, the first one that has as many rows counts."""
    if op.type in _OF_BLOCKS:
        return []
    wrt = getattr(op.data, "wrt", None)
    if wrt is not None and slot.endswith(GRAD):
        if (forward_type(op.type) or op.type) in _GRADIENTS_WITHOUT:
            return []
        places = [i for of, i in wrt if of == slot.removesuffix(GRAD)]
        return op.inputs.get(slot.removesuffix(GRAD), [])[places[place] : places[place] + 1] if place < len(places) else []
    if op.type in _WITHOUT:
        return []
    main = next((s for s in _SHARED_SLOTS if op.inputs.get(s)), None)
    return op.input_arg_names if main is None else op.inputs[main][:1]


def level_to_share(op: Operator, slot: str, place: int, result: TensorType) -> int:
    """How many levels of detail a result of an operator has."""
    for variable in map(op.block.var_recursive, names_to_share(op, slot, place)):
        if variable.lod_level and variable.has_shape and result.shape and variable.type.shape[:1] == result.shape[:1]:
            return int(variable.lod_level)
    return 0


def levels_to_share(
    op: Operator, slot: str, place: int, inputs: Mapping[str, Sequence[Any]], levels_of: Callable[[str], list[Tensor]], result: TensorType
) -> list[Tensor]:
    """The levels of a result where the operator says nothing of them."""
    wanted = names_to_share(op, slot, place)
    if not result.shape or not wanted:
        return []
    for read, tensors in inputs.items():
        for name, tensor in zip(op.inputs.get(read, ()), tensors, strict=False):
            fits = name in wanted and tensor is not None and tensor.type.shape and tensor.type.shape[0] == result.shape[0]
            if fits and (levels := levels_of(name)):
                return levels
    return []
