"""A step of a beam search over sequences of two levels: the beams of each source, and what each of them goes on with."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.control_flow import gathered_steps
from polyreme.dialects import nn
from polyreme.ir.types import i32, i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, sequence_of_rows
from polyreme.operators.sequence.ragged import elements_of, is_ragged, numbers_below, spread
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


@operator(
    legacy=spelled(
        "beam_search_decode",
        {"Ids": "ids", "Scores": "scores", "Ids@LOD": "levels"},
        "SentenceIds SentenceScores SentenceIds@LOD SentenceScores@LOD",
    )
)
def beam_search_decode(
    ids: Tensor, scores: Tensor, levels: list[Tensor] | None = None, *, beam_size: int, end_id: int
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """The sentences that the beams of a search end in, from arrays of what `beam_search` chose in each step: words [total] and their
    scores, as `beam_size` sentences of each source. Of each source the one with the best last score comes first; one that the search did
    not find has no words, and comes last. An `end_id` that comes more than once at the end of a sentence is there once.
    """
    if levels is not None and not is_ragged(levels) and len(levels) == 2:
        ids, spread_levels = spread(ids, levels)
        scores, levels = spread(scores, levels)[0], spread_levels
    if levels is None or not is_ragged(levels) or len(levels) != 3:
        raise UnsupportedError(
            "expected an array of words in 'beam_search_decode', as sequences of two levels that 'beam_search' gives, but got one whose "
            f"elements have {len(levels or [])} levels"
        )
    words, gained = math.reshape(cast_to(ids, i64), [-1]), math.reshape(scores, [-1])
    top, by_source, by_row = elements_of(levels), levels[1], levels[2]
    # The rows of a step follow those of the step before, so that rows and what they follow are numbered alike; but for the first step.
    parents = math.subtract(sequence_of_rows(by_row, words), math.gather(by_source, top[1:2], 0))
    # Of what is not there: word 0, no row that it follows.
    words = math.concat([words, _number(0)], 0)
    gained = math.concat([gained, dispatch.full((1,), 0, gained.type.dtype)], 0)
    parents = math.concat([parents, _number(-1)], 0)
    nowhere = dispatch.call(nn.DimValue, size=ids.type.shape[0], dtype=i64)
    source = math.reshape(numbers_below(math.reshape(top[1:2], [])), [-1, 1])
    slot = dispatch.call(nn.Iota, shape=(1, beam_size), axis=1, dtype=i64)
    beams = math.scale(math.add(source, slot), 0, -1)
    shape = list(beams.type.shape)

    def step(start: Tensor, row: Tensor, some: Tensor, last: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """A step back: of a source that is met for the first time all rows end a beam; of others the rows that those behind follow."""
        own = math.reshape(math.add(source, start), [-1])
        bounds = [math.gather(by_row, math.gather(by_source, place, 0), 0) for place in (own, math.add(own, _number(1)))]
        begin, end = (math.unsqueeze(bound, -1) for bound in bounds)
        ends = math.add(begin, slot)
        ends = math.where(math.less_than(ends, end), ends, _number(-1))
        row = math.where(math.any(math.greater_equal(row, _number(0)), 1, keepdim=True), row, ends)
        there = math.greater_equal(row, _number(0))
        place = math.reshape(math.where(there, row, nowhere), [-1])
        word, score, before = (math.reshape(math.gather(part, place, 0), shape) for part in (words, gained, parents))
        counts = math.logical_and(there, math.logical_or(math.not_equal(word, _number(end_id)), math.logical_not(some)))
        last = math.where(math.logical_and(counts, math.logical_not(some)), score, last)
        return [before, math.logical_or(some, counts), last], [word, score, counts]

    worst = math.add(cast_to(math.scale(beams, 0), gained.type.dtype), dispatch.full((), float("-inf"), gained.type.dtype))
    ends, found = gathered_steps(step, [beams, math.less_than(beams, beams), worst], [top[:-1]], reverse=True)
    best = math.argsort(math.scale(ends[2], -1), 1, stable=True)
    order = math.reshape(math.add(math.scale(source, beam_size), best), [-1])
    count, steps = shape[0] * beam_size, top.type.shape[0] - 1
    laid = [math.gather(math.reshape(math.transpose(part, [1, 2, 0]), [count, steps]), order, 0) for part in found]
    places = math.reshape(math.nonzero(math.reshape(laid[2], [-1])), [-1])
    sentences = [math.gather(math.reshape(part, [-1]), places, 0) for part in laid[:2]]
    result = [
        math.scale(dispatch.call(nn.Iota, shape=(shape[0] + 1,), axis=0, dtype=i64), beam_size),
        offsets_of(math.sum(cast_to(laid[2], i64), 1)),
    ]
    return cast_to(sentences[0], ids.type.dtype), sentences[1], result, result


def _number(number: int) -> Tensor:
    return dispatch.full((1,), number, i64)
