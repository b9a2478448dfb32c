"""Chunks that labels spell, such as names in a text: how many of them were found, and how many are right."""

from __future__ import annotations

from typing import NamedTuple

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import f32, i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, zeros_where_right
from polyreme.tensor import Tensor

# How many tags a scheme has for each type of chunks, and which of them begin one, stand inside, end one, and are one alone.
_SCHEMES = {"IOB": (2, 0, 1, -1, -1), "IOE": (2, -1, 0, 1, -1), "IOBES": (4, 0, 1, 2, 3), "plain": (1, -1, -1, -1, -1)}


class _ChunkRows(NamedTuple):
    """Of labels that follow each other, what type of chunk each is of, whether it begins one, and whether it is the last of one."""

    type: Tensor
    begins: Tensor
    ends: Tensor


def _number(value: int) -> Tensor:
    return dispatch.full((), value, i64)


def _is(x: Tensor, *values: int) -> Tensor:
    found = math.equal(x, _number(values[0]))
    for value in values[1:]:
        found = math.logical_or(found, math.equal(x, _number(value)))
    return found


def _not(x: Tensor) -> Tensor:
    return math.logical_not(x)


def _moved(x: Tensor, by: int) -> Tensor:
    """For each place what stands one before (-1) or after it (1); at the end of `x` that itself."""
    count = dispatch.call(nn.DimValue, size=x.type.shape[0], dtype=i64)
    places = math.scale(dispatch.call(nn.Iota, shape=(x.type.shape[0],), axis=0, dtype=i64), 1, by)
    return math.gather(x, math.maximum(math.minimum(places, math.scale(count, 1, -1)), _number(0)), 0)


def _rows(label: Tensor, inside: Tensor, first: Tensor, last: Tensor, scheme: str, types: int) -> _ChunkRows:
    """`inside` says which labels count, `first` and `last` where a sequence begins and ends."""
    tags, begin, within, end, single = _SCHEMES[scheme]
    kind = math.where(inside, math.floor_divide(label, _number(tags)), _number(types))
    tag = math.mod(label, _number(tags))
    tag_before = math.where(first, _number(-1), _moved(tag, -1))
    kind_before = math.where(first, _number(types), _moved(kind, -1))
    some, some_before = _not(_is(kind, types)), _not(_is(kind_before, types))
    same = math.equal(kind, kind_before)
    # A chunk is over in front of a label of none, or of another type, or one that begins another chunk; and behind one that ends it.
    opens = _is(tag, begin, single)
    over = math.logical_or(math.logical_and(_is(tag_before, begin, within), opens), _is(tag_before, end, single))
    over = math.logical_and(some_before, math.logical_or(_not(some), math.logical_or(_not(same), over)))
    begins = math.logical_or(opens, math.logical_and(_is(tag, within, end), _is(tag_before, end, single)))
    begins = math.logical_and(some, math.logical_or(_not(some_before), math.logical_or(_not(same), begins)))
    ends = math.logical_and(some, math.logical_or(last, _moved(over, 1)))
    return _ChunkRows(kind, begins, ends)


def _count(x: Tensor) -> Tensor:
    return math.reshape(math.sum(cast_to(x, i64)), [1])


@operator(
    legacy=spelled(
        "chunk_eval",
        {"Inference": "inference", "Label": "label", "SeqLength": "seq_length", "Inference@LOD": "levels", "Label@LOD": "own"},
        "Precision Recall F1-Score NumInferChunks NumLabelChunks NumCorrectChunks",
    )
)
def chunk_eval(
    inference: Tensor, label: Tensor, seq_length: Tensor | None = None, levels: list[Tensor] | None = None,
    own: list[Tensor] | None = None, *, num_chunk_types: int, chunk_scheme: str = "IOB", excluded_chunk_types: Sizes = (),
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Precision, recall and their harmonic mean, float32 [1], of the chunks that `inference` spells beside those of `label`, and how many
    were found, how many there are, and how many are right, int64 [1]. Labels are sequences, or [batch, steps] with their lengths.
    """
    if chunk_scheme not in _SCHEMES:
        raise UnsupportedError(f"expected a chunk_scheme of {', '.join(_SCHEMES)} but got '{chunk_scheme}'")
    found, told = (cast_to(math.reshape(x, [-1]), i64) for x in (inference, label))
    places = dispatch.call(nn.Iota, shape=(found.type.shape[0],), axis=0, dtype=i64)
    if seq_length is None:
        offsets = last_level(levels or [], "Inference")
        differ = math.not_equal(offsets, last_level(own or [], "Label"))
        offsets = math.add(offsets, zeros_where_right(differ, "chunk_eval expected labels as sequences of the lengths of the others"))
        marks = math.scatter_nd_add(math.zeros([found.type.shape[0] + 1], i64), math.unsqueeze(offsets, -1), math.ones_like(offsets))
        first, last = (math.greater_than(part, _number(0)) for part in (marks[:-1], marks[1:]))
        inside = math.greater_equal(places, _number(0))
    else:
        width = dispatch.call(nn.DimValue, size=inference.type.shape[1], dtype=i64)
        step = math.mod(places, width)
        size = math.gather(cast_to(math.reshape(seq_length, [-1]), i64), math.floor_divide(places, width), 0)
        first, last = math.equal(step, _number(0)), math.equal(step, math.scale(size, 1, -1))
        inside = math.less_than(step, size)
    a, b = (_rows(x, inside, first, last, chunk_scheme, num_chunk_types) for x in (found, told))
    counted = [_not(_is(x.type, *map(int, excluded_chunk_types))) if excluded_chunk_types else inside for x in (a, b)]
    begins = [math.logical_and(x.begins, c) for x, c in zip((a, b), counted, strict=True)]
    # A chunk is right where both begin one of the same type, and the next place at which one of the two ends is an end of both.
    either, both = math.logical_or(a.ends, b.ends), math.logical_and(a.ends, b.ends)
    ended = math.concat([math.reshape(math.nonzero(either), [-1]), math.zeros([1], i64)], 0)
    before = math.subtract(dispatch.call(nn.Cumsum, cast_to(either, i64), axis=0), cast_to(either, i64))
    at_end = math.gather(both, math.gather(ended, before, 0), 0)
    right = math.logical_and(math.logical_and(math.logical_and(*begins), math.equal(a.type, b.type)), at_end)
    numbers = [_count(x) for x in (*begins, right)]
    shares = [cast_to(n, f32) for n in numbers]
    one = dispatch.full((), 1, f32)
    precision, recall = (math.divide(shares[2], math.maximum(total, one)) for total in shares[:2])
    total = math.add(precision, recall)
    some = math.greater_than(shares[2], dispatch.full((), 0, f32))
    mean = math.divide(math.scale(math.multiply(precision, recall), 2.0), math.where(some, total, one))
    return precision, recall, mean, numbers[0], numbers[1], numbers[2]
