"""A step of a beam search over sequences of two levels: the beams of each source, and what each of them goes on with."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i32, i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, sequence_of_rows
from polyreme.operators.sequence.repeating import counted, offsets_of
from polyreme.tensor import Tensor


@operator(
    legacy=spelled(
        "beam_search",
        {"pre_ids": "before", "pre_scores": "scores_before", "ids": "ids", "scores": "scores", "scores@LOD": "levels"},
        "selected_ids selected_scores parent_idx selected_ids@LOD selected_scores@LOD",
    )
)
def beam_search(
    before: Tensor, scores_before: Tensor, scores: Tensor, ids: Tensor | None = None, levels: list[Tensor] | None = None, *, level: int,
    beam_size: int, end_id: int, is_accumulated: bool = True,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
    """Of the words that may follow the beams [rows, words] of each source the `beam_size` best ones: words [chosen, 1], scores, and the
    rows that they follow, int32 [chosen]; as sequences by row and, above, by source.

    `before` and `scores_before` [rows, 1] are the words and scores that the rows end with. One that has ended goes on with `end_id` alone,
    at its score; a source all of whose beams had ended has none any more.
    """
    given = levels or []
    last_level(given, "scores")
    if not 0 <= level < len(given):
        raise UnsupportedError(f"expected a level below {len(given)} for 'beam_search' but got {level}")
    sources = given[level]
    for below in given[level + 1 :]:
        sources = math.gather(below, sources, 0)
    if scores.ndim != 2 or not isinstance(scores.type.shape[1], int):
        raise UnsupportedError(f"expected scores [rows, words] with a known number of words but got the shape {list(scores.shape)}")
    width = scores.type.shape[1]
    number = dispatch.call(nn.Iota, shape=(1, width), axis=1, dtype=i64)
    ended = math.equal(math.reshape(cast_to(before, i64), [-1, 1]), dispatch.full((), end_id, i64))
    own = math.reshape(scores_before, [-1, 1])
    total = math.where(ended, own, scores if is_accumulated else math.add(own, math.log(scores)))
    words = number if ids is None else cast_to(ids, i64)
    words = math.where(ended, dispatch.full((), end_id, i64), math.add(words, math.zeros_like(cast_to(scores, i64))))
    counts = math.logical_or(math.logical_not(ended), math.equal(number, dispatch.full((), 0, i64)))
    # By source, and there the best one first: what does not count stands last.
    flat = math.reshape(total, [-1])
    there = math.reshape(counts, [-1])
    best = math.argsort(math.where(there, math.scale(flat, -1), dispatch.full((), float("inf"), flat.type.dtype)), stable=True)
    row = math.floor_divide(counted(flat), math.full([1], width, i64))
    source = math.gather(sequence_of_rows(sources, before), row, 0)
    order = math.gather(best, math.argsort(math.gather(source, best, 0), stable=True), 0)
    rank = math.subtract(counted(flat), math.scale(math.gather(sources, math.gather(source, order, 0), 0), width))
    chosen = math.gather(math.less_than(rank, dispatch.full((), beam_size, i64)), math.argsort(order), 0)
    chosen = math.logical_and(chosen, there)
    # A source goes on if one of its chosen words is not the end, or follows a row that had not ended.
    goes_on = math.logical_or(
        math.not_equal(math.reshape(words, [-1]), dispatch.full((), end_id, i64)), math.gather(math.logical_not(ended)[:, 0], row, 0)
    )
    alive = math.index_add(
        dispatch.full((sources.type.shape[0] - 1,), 0, i64), source, 0, cast_to(math.logical_and(chosen, goes_on), i64)
    )
    chosen = math.logical_and(chosen, math.greater_than(math.gather(alive, source, 0), dispatch.full((), 0, i64)))
    places = math.reshape(math.nonzero(chosen), [-1])
    each = offsets_of(math.sum(math.reshape(cast_to(chosen, i64), list(scores.type.shape)), 1))
    found = [math.unsqueeze(math.gather(math.reshape(part, [-1]), places, 0), -1) for part in (words, total)]
    result = [sources, each]
    return found[0], found[1], cast_to(math.gather(row, places, 0), i32), result, result
