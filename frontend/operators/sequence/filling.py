"""Sequences as rows of one length, and back; parts of them; masks of lengths."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import ScalarType, i64
from polyreme.math.common import cast_to, check_within
from polyreme.math.fed import sizes as fed_sizes
from polyreme.nn import functional
from polyreme.operators.arguments import Scalar, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths, rows_or, sequence_of_rows, with_as_many, zeros_where_right
from polyreme.operators.sequence.repeating import counted, offsets_of, rows_between
from polyreme.tensor import Tensor


@operator(legacy=spelled("sequence_pad", {"X": "x", "PadValue": "pad_value", "X@LOD": "levels"}, "Out Length Out@LOD", constant="PadValue"))
def sequence_pad(
    x: Tensor, pad_value: Tensor, levels: list[Tensor] | None = None, *, padded_length: int = -1
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The sequences [sequences, padded_length, ...], filled up with `pad_value`, one element or one of a row's shape; and their lengths,
    int64. The padded length is by default that of the longest one, and not less than that.
    """
    offsets = last_level(levels or [], "X")
    size = lengths(offsets)
    if padded_length == -1:
        step = math.reshape(math.nonzero(math.less_than(counted(x), math.max(size))), [1, -1])
    else:
        step = dispatch.call(nn.Iota, shape=(1, padded_length), axis=1, dtype=i64)
        size = check_within(
            size,
            padded_length + 1,
            lambda low, high, most: ValueError(f"sequence_pad expected sequences of at most {most - 1} rows but got one of {high}"),
            wraps=False,
        )
    places = math.add(math.unsqueeze(offsets[:-1], -1), step)
    inside = math.less_than(step, math.unsqueeze(size, -1))
    filler = math.reshape(pad_value, [1] * (x.ndim - 1)) if pad_value.type.shape == (1,) else pad_value
    return rows_or(x, places, inside, cast_to(filler, x.type.dtype)), size, []


@operator(legacy=spelled("sequence_unpad", {"X": "x", "Length": "length"}, "Out Out@LOD", constant="Length"))
def sequence_unpad(x: Tensor, length: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Of the rows `x` [sequences, padded, ...] the first ones of each, as many as `length` [sequences] says, as sequences."""
    size = check_within(
        cast_to(math.reshape(length, [-1]), i64),
        x.type.shape[1] + 1,
        lambda low, high, most: ValueError(f"sequence_unpad expected lengths in [0, {most - 1}] but got some from {low} to {high}"),
        wraps=False,
    )
    size = with_as_many(size, x.type.shape[0], size.type.shape[0], "sequence_unpad expected a length for each sequence")
    step = dispatch.call(nn.Iota, shape=(1, x.type.shape[1]), axis=1, dtype=i64)
    places = math.reshape(math.nonzero(math.reshape(math.less_than(step, math.unsqueeze(size, -1)), [-1])), [-1])
    flat = math.reshape(x, [x.type.shape[0] * x.type.shape[1], *x.type.shape[2:]])
    return math.gather(flat, places, 0), [offsets_of(size)]


@operator(
    legacy=spelled(
        "sequence_slice", {"X": "x", "Offset": "offset", "Length": "length", "X@LOD": "levels"}, "Out Out@LOD", constant="Offset Length"
    )
)
def sequence_slice(x: Tensor, offset: Tensor, length: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """Of each sequence the rows from its `offset` on, `length` of them, which it must have."""
    offsets = last_level(levels or [], "X")
    first, size = (cast_to(math.reshape(part, [-1]), i64) for part in (offset, length))
    wrong = math.greater_than(math.add(first, size), lengths(offsets))
    for part in (first, size):
        wrong = math.logical_or(wrong, math.less_than(part, dispatch.full((), 0, i64)))
    size = math.add(size, zeros_where_right(wrong, "sequence_slice expected parts that lie within their sequences"))
    starts = math.add(offsets[:-1], first)
    return math.gather(x, rows_between(starts, math.add(starts, size), x), 0), [offsets_of(size)]


@operator(
    "sequence_mask",
    legacy=spelled(
        "sequence_mask", {"X": "x", "MaxLenTensor": "max_len"}, "Y", attributes={"maxlen": "max_len"}, types={"maxlen": "INT"}
    ),
)
def sequence_mask(x: Tensor, max_len: Scalar = -1, *, out_dtype: ScalarType | None) -> Tensor:
    """1 in the first `x` of `max_len` places of a new last axis, else 0; by default there are as many places as the greatest of `x`."""
    places = fed_sizes.extent(max_len, "max_len")
    return cast_to(functional.sequence_mask(x, None if isinstance(places, int) and places < 0 else places, "bool"), out_dtype or i64)


@operator(legacy=spelled("sequence_enumerate", {"X": "x", "X@LOD": "levels"}))
def sequence_enumerate(x: Tensor, levels: list[Tensor] | None = None, *, win_size: int, pad_value: int = 0) -> Tensor:
    """For each of the numbers `x` [rows, 1] the `win_size` from it on, [rows, win_size]; `pad_value` behind the end of its sequence."""
    offsets = last_level(levels or [], "X")
    if x.ndim != 2 or x.type.shape[1] != 1:
        raise UnsupportedError(f"expected numbers [rows, 1] in 'X' of 'sequence_enumerate' but got the shape {list(x.shape)}")
    ends = math.unsqueeze(math.gather(offsets[1:], sequence_of_rows(offsets, x), 0), -1)
    places = math.add(math.unsqueeze(counted(x), -1), dispatch.call(nn.Iota, shape=(1, win_size), axis=1, dtype=i64))
    last = math.scale(dispatch.call(nn.DimValue, size=x.type.shape[0], dtype=i64), 1, -1)
    held = math.reshape(math.minimum(places, last), [-1])
    taken = math.reshape(math.gather(math.reshape(x, [-1]), held, 0), list(places.type.shape))
    return math.where(math.less_than(places, ends), taken, dispatch.full((), pad_value, x.type.dtype))
