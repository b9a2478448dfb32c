"""Windows of rows within sequences, and sequences of windows of images."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.math.common import cast_to
from polyreme.nn import functional
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, sequence_of_rows
from polyreme.operators.sequence.repeating import offsets_of
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


@operator(legacy=spelled("row_conv", {"X": "x", "Filter": "filter", "X@LOD": "levels"}))
def row_conv(x: Tensor, filter: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """Each row plus those after it in its sequence, column by column times the rows of `filter` [rows, columns]; of sequences, or
    [batch, rows, columns].
    """
    future = filter.type.shape[0]
    if not isinstance(future, int):
        raise UnsupportedError(f"expected a filter with a known number of rows for 'row_conv' but got the shape {list(filter.shape)}")
    axis = x.ndim - 2
    rows = x.type.shape[axis]
    here = dispatch.call(nn.Iota, shape=(rows,), axis=0, dtype=i64)
    count = dispatch.call(nn.DimValue, size=rows, dtype=i64)
    if axis == 0:
        offsets = last_level(levels or [], "X")
        end = math.gather(offsets[1:], sequence_of_rows(offsets, x), 0)
    elif axis == 1:
        end = count
    else:
        raise UnsupportedError(f"expected sequences of rows, or [batch, rows, columns], for 'row_conv' but got the shape {list(x.shape)}")
    made = None
    for step in range(future):
        place = math.scale(here, 1, step)
        part = math.gather(x, math.minimum(place, math.scale(count, 1, -1)), axis)
        part = math.where(math.unsqueeze(math.less_than(place, end), -1), part, math.zeros_like(part))
        part = math.multiply(part, filter[step])
        made = part if made is None else math.add(made, part)
    assert made is not None
    return made


@operator(legacy=spelled("im2sequence", {"X": "x", "Y": "sizes"}, "Out Out@LOD", types={"out_stride": "INTS"}, constant="Y"))
def im2sequence(
    x: Tensor, sizes: Tensor | None = None, *, kernels: Sizes, strides: Sizes = (1, 1), paddings: Sizes = (0, 0, 0, 0),
    out_stride: Sizes = (1, 1),
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """The windows of images [batch, channels, height, width] as rows [windows, channels * high * wide], a sequence for each image; where
    `sizes` [batch, 2] tells of larger images, of which `out_stride` pixels are one here, those of a part of that size.
    """
    height, width = x.type.shape[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        raise UnsupportedError(f"expected images of a known size for 'im2sequence' but got the shape {list(x.shape)}")
    (high, wide), (down, right) = (tuple(map(int, pair)) for pair in (kernels, strides))
    top, left, bottom, behind = map(int, paddings)
    counts = [(size + pads - k) // s + 1 for size, pads, k, s in (
        (height, top + bottom, high, down), (width, left + behind, wide, right))]  # fmt: skip
    windows = functional.unfold(functional.pad(x, [left, behind, top, bottom]), [high, wide], [down, right])
    columns = windows.type.shape[1]
    batch = x.type.shape[0]
    rows = math.reshape(math.transpose(windows, [0, 2, 1]), [-1, columns])
    if sizes is None:
        return rows, [offsets_of(dispatch.full((batch,), counts[0] * counts[1], i64))]
    number = dispatch.call(nn.Iota, shape=(counts[0] * counts[1],), axis=0, dtype=i64)
    parts = []
    for axis, (pads, k, s, own) in enumerate(((top + bottom, high, down, counts[0]), (left + behind, wide, right, counts[1]))):
        told = cast_to(sizes[:, axis], i64)
        there = math.floor_divide(math.scale(told, 1, int(out_stride[axis]) - 1), math.full([1], int(out_stride[axis]), i64))
        there = math.scale(math.floor_divide(math.scale(there, 1, pads - k), math.full([1], s, i64)), 1, 1)
        last = math.full([1], counts[1], i64)
        place = math.floor_divide(number, last) if axis == 0 else math.mod(number, last)
        fits = math.less_than(math.unsqueeze(place, 0), math.unsqueeze(there, -1))
        held = math.minimum(there, math.full([1], own, i64))
        parts.append((fits, held))
    inside, total = math.logical_and(parts[0][0], parts[1][0]), math.multiply(parts[0][1], parts[1][1])
    taken = math.reshape(math.nonzero(math.reshape(inside, [-1])), [-1])
    return math.gather(rows, taken, 0), [offsets_of(total)]
