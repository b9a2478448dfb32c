"""What depends on the place of a row in its sequence."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, sequence_of_rows
from polyreme.operators.sequence.repeating import counted
from polyreme.tensor import Tensor


@operator(legacy=spelled("sequence_scatter", {"X": "x", "Ids": "ids", "Updates": "updates", "Ids@LOD": "levels"}, constant="Ids"))
def sequence_scatter(x: Tensor, ids: Tensor, updates: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """`x` [sequences, columns] with the numbers of each sequence of `updates` added in its row, in the columns that `ids` says."""
    offsets = last_level(levels or [], "Ids")
    columns = x.type.shape[1]
    if x.ndim != 2 or not isinstance(columns, int):
        raise UnsupportedError(f"expected 'X' [sequences, columns] of 'sequence_scatter' but got the shape {list(x.shape)}")
    row = sequence_of_rows(offsets, ids)
    place = math.stack([row, cast_to(math.reshape(ids, [-1]), i64)], 1)
    return math.scatter_nd_add(x, place, math.reshape(updates, [-1]))


@operator(legacy=spelled("add_position_encoding", {"X": "x", "X@LOD": "levels"}))
def add_position_encoding(x: Tensor, levels: list[Tensor] | None = None, *, alpha: float, beta: float) -> Tensor:
    """`alpha` * x + `beta` * waves of the place in the sequence: sines in the first half of the columns, cosines in the second, each slower
    than the one before; of [batch, rows, columns], or of sequences.
    """
    columns = x.type.shape[-1]
    if not isinstance(columns, int) or columns % 2:
        raise UnsupportedError(f"expected an even number of columns for 'add_position_encoding' but got the shape {list(x.shape)}")
    if x.ndim == 3:
        place = dispatch.call(nn.Iota, shape=(x.type.shape[1],), axis=0, dtype=i64)
    elif x.ndim == 2 and levels and len(levels) == 1:
        offsets = last_level(levels, "X")
        place = math.subtract(counted(x), math.gather(offsets, sequence_of_rows(offsets, x), 0))
    else:
        raise UnsupportedError(
            f"expected [batch, rows, columns], or one level of detail, as 'X' of 'add_position_encoding' but got the shape {list(x.shape)}"
        )
    half = columns // 2
    slower = 10000.0 ** (np.arange(half) / (half - 1)) if half > 1 else np.array([10000.0])
    angle = math.divide(math.unsqueeze(cast_to(place, x.type.dtype), -1), cast_to(dispatch.constant(slower[None, :]), x.type.dtype))
    waves = math.concat([math.sin(angle), math.cos(angle)], -1)
    return math.add(math.scale(x, alpha), math.scale(waves, beta))
