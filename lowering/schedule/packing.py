"""Packed weights of constants, made when they are written to where they are kept: whole ones, or some elements at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builtin import Func, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.mapped import let_go
from polyreme.lowering.kernels.plan import Pack
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS

__all__ = ["packed_later"]

Array = np.ndarray[Any, Any]


def packed_later(pack: Pack, constant: Dense) -> Dense:
    """The packed form of a constant, made each time that somebody asks for it: nobody looks at it before it is written."""
    return Dense.later(pack.type, partial(_packed, pack, constant), partial(_parts, pack, constant))


def _packed(pack: Pack, constant: Dense) -> Array:
    # In a file weights may lie anywhere; numpy is slow with elements that begin where such elements usually do not.
    kept = constant.made()
    weight = np.require(kept, requirements="A")
    if weight is not kept:
        let_go(kept)
    (array,) = evaluate(pack.func, [weight.reshape(pack.func.args[0].type.shape)])
    let_go(kept)
    del kept, weight
    made: Array = array if pack.form is None else pack.form.make(array)
    return made


def _parts(pack: Pack, constant: Dense) -> Iterator[Array]:
    """What `_packed` gives, in contiguous parts: where it only moves elements, never more of them than a part has are copied."""
    kept = constant.made()
    moved = _moved(pack.func, kept) if pack.form is None and len(kept) else None
    if moved is None:
        del kept
        yield _packed(pack, constant)
        return
    while len(moved) == 1 and moved.ndim > 1:
        moved = moved[0]
    step = max(1, COMPILE_COSTS.part_bytes * len(moved) // moved.nbytes)
    for start in range(0, len(moved), step):
        yield np.ascontiguousarray(moved[start : start + step])
    let_go(kept)


def _moved(func: Func, array: Array) -> Array | None:
    """A view of an array with its elements in the order in which the function gives them; None where it computes, or numpy has no such
    view.
    """
    view = array.reshape(func.args[0].type.shape)
    value = func.args[0]
    for op in func.block:
        if isinstance(op, Return):
            return view if list(op.operands) == [value] else None
        if list(op.operands) != [value]:
            return None
        value = op.result
        if isinstance(op, tensor.Transpose):
            view = view.transpose(op.perm)
        elif isinstance(op, tensor.Reshape):
            if isinstance(op.next, Return):
                continue  # in their order elements are the same
            view = view.reshape(op.shape)
            if not np.may_share_memory(view, array):
                return None
        elif not (isinstance(op, tensor.Pad) and value.type == op.x.type):
            return None
    return None
