"""Sequences of different lengths, and sequences as paths through a tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.control_flow import gathered_steps
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.math.common import cast_to, check_within, number_of, same_sizes, tensor_arg
from polyreme.math.fed import sizes as fed_sizes
from polyreme.math.manipulation import take_along_axis
from polyreme.tensor import Tensor

__all__ = ["gather_tree", "sequence_mask"]


def sequence_mask(x: Tensor, maxlen: Any = None, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """A new last axis of `maxlen` elements, by default the longest length, with 1 at the first `x` of them and 0 at the others. It needs no
    gradient.
    """
    tensor_arg(x, "sequence_mask")
    if maxlen is None:
        if isinstance(x._held(), np.ndarray) or dispatch.active_trace() is None:
            lengths = x._array("sequence_mask() without maxlen")
            maxlen = int(lengths.max()) if lengths.size else 0
        else:
            maxlen = fed_sizes.extent(dispatch.call(ops.Max, x, axis=tuple(range(x.ndim)), keepdims=False), "x")
    places = dispatch.call(ops.Iota, shape=(number_of(maxlen),), axis=0, dtype=x.type.dtype)
    mask = dispatch.call(ops.Less, places, dispatch.call(ops.Reshape, x, shape=(*x.type.shape, 1)))
    return cast_to(mask, as_dtype(dtype).scalar)


def gather_tree(ids: Tensor, parents: Tensor) -> Tensor:
    """The sequences that end in each beam after a beam search, from the last step back.

    `ids` and `parents` are [steps, batch, beams] of int32 or int64: what was chosen in each step, and which beam of the step before it goes
    on from.
    """
    for value, name in ((ids, "ids"), (parents, "parents")):
        tensor_arg(value, "gather_tree", name)
    if ids.ndim != 3:
        raise ValueError("The input ids must be a 3D tensor with shape [length, batch_size, beam_size]")
    if not same_sizes(ids.type.shape, parents.type.shape):
        raise ValueError(f"gather_tree expected ids and parents of one shape but got {list(ids.shape)} and {list(parents.shape)}")
    if ids.dtype.name not in ("int32", "int64"):
        raise RuntimeError(f"gather_tree expected ids of int32 or int64 but got {ids.dtype.name}")
    if parents.type.dtype != ids.type.dtype:
        raise ValueError(f"gather_tree expected parents of {ids.dtype.name}, as the ids, but got {parents.dtype.name}")
    if 0 in ids.shape:
        return ids
    batch, beams = ids.type.shape[1:]
    start = dispatch.call(ops.BroadcastTo, dispatch.call(ops.Iota, shape=(1, beams), axis=1, dtype=ids.type.dtype), shape=(batch, beams))

    def step(words: Tensor, origins: Tensor, beam: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        beam = check_within(beam, beams, _beyond, wraps=False)
        return [take_along_axis(origins, beam, 1)], [take_along_axis(words, beam, 1)]

    return gathered_steps(step, [start], [ids, parents], reverse=True)[1][0]


def _beyond(low: int, high: int, beams: int) -> ValueError:
    return ValueError(f"gather_tree expected parents in [0, {beams}) but got values from {low} to {high}")
