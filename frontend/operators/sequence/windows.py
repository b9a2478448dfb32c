"""Windows of rows within sequences."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, sequence_of_rows
from polyreme.tensor import Tensor


@operator(
    legacy=spelled(
        "sequence_conv",
        {"X": "x", "Filter": "filter", "X@LOD": "levels"},
        attributes={"contextStart": "start", "contextLength": "length", "contextStride": "stride"},
        ignored="paddingTrainable",
    )
)
def sequence_conv(
    x: Tensor, filter: Tensor, levels: list[Tensor] | None = None, *, start: int = 0, length: int = 1, stride: int = 1
) -> Tensor:
    """The `length` rows of its sequence from each row + `start` on, one behind the other, times `filter` [length * columns, filters]; rows
    outside of the sequence are zeros.
    """
    offsets = last_level(levels or [], "X")
    belongs = sequence_of_rows(offsets, x)
    first, end = (math.gather(part, belongs, 0) for part in (offsets[:-1], offsets[1:]))
    rows = x.type.shape[0]
    here = dispatch.call(nn.Iota, shape=(rows,), axis=0, dtype=i64)
    last = math.scale(dispatch.call(nn.DimValue, size=rows, dtype=i64), 1, -1)
    parts = []
    for step in range(length):
        place = math.scale(here, 1, start + step)
        inside = math.logical_and(math.greater_equal(place, first), math.less_than(place, end))
        held = math.maximum(math.minimum(place, last), math.zeros_like(place))
        part = math.gather(x, held, 0)
        parts.append(math.where(math.unsqueeze(inside, -1), part, math.zeros_like(part)))
    return math.matmul(math.concat(parts, 1), filter)
