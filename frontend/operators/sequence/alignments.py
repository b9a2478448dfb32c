"""Sequences beside others: losses over alignments, and how far two sequences are apart; and tokens taken out of sequences."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.control_flow import gathered_steps
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import f32, i64
from polyreme.math.common import cast_to, check_within
from polyreme.nn import functional
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths, sequence_of_rows
from polyreme.operators.sequence.steps import laid_out, rows_by_steps
from polyreme.tensor import Tensor


def _number(value: int) -> Tensor:
    return dispatch.full((), value, i64)


def _numbers(x: Tensor, axis: int, *shape: int) -> Tensor:
    """0, 1, … up to the size of an axis of `x`."""
    return math.reshape(dispatch.call(nn.Iota, shape=(x.type.shape[axis],), axis=0, dtype=i64), list(shape))


def _lengths_of(length: Tensor, steps: Dim, what: str) -> Tensor:
    """The lengths of sequences of at most so many steps, int64 [sequences]."""
    made: Tensor = check_within(
        math.reshape(cast_to(length, i64), [-1]),
        steps + 1,
        lambda low, high, most: ValueError(f"expected lengths of '{what}' in [0, {most - 1}] but got some from {low} to {high}"),
        wraps=False,
    )
    return made


def _padded(x: Tensor, levels: list[Tensor] | None, length: Tensor | None, what: str) -> tuple[Tensor, Tensor]:
    """Numbers as rows [sequences, steps], and how many of each count; of sequences, or of what are such rows already."""
    if length is not None:
        return math.reshape(x, [x.type.shape[0], x.type.shape[1]]), _lengths_of(length, x.type.shape[1], what)
    offsets = last_level(levels or [], what)
    return math.transpose(rows_by_steps(math.reshape(x, [-1]), laid_out(x, offsets)[1]), [1, 0]), lengths(offsets)


@operator(
    legacy=spelled(
        "warpctc",
        {
            "Logits": "logits", "Label": "label", "LogitsLength": "logits_length", "LabelLength": "labels_length",
            "Logits@LOD": "levels", "Label@LOD": "own",
        },
        "WarpCTCGrad Loss Loss@LOD",
        constant="Label LogitsLength LabelLength",
    )
)  # fmt: skip
def warpctc(
    logits: Tensor, label: Tensor, logits_length: Tensor | None = None, labels_length: Tensor | None = None,
    levels: list[Tensor] | None = None, own: list[Tensor] | None = None, *, blank: int = 0, norm_by_times: bool = False,
) -> tuple[None, Tensor, list[Tensor]]:  # fmt: skip
    """`ctc_loss` of each sequence, [sequences, 1]; of sequences of scores [rows, classes], or of [steps, batch, classes] with lengths."""
    labels, count = _padded(label, own, labels_length, "Label")
    if logits_length is None:
        offsets = last_level(levels or [], "Logits")
        scores, size = rows_by_steps(logits, laid_out(logits, offsets)[1]), lengths(offsets)
    else:
        scores, size = logits, _lengths_of(logits_length, logits.type.shape[0], "Logits")
    loss = functional.ctc_loss(scores, labels, size, count, blank, "none", norm_by_times)
    return None, math.unsqueeze(loss, -1), []


@operator(
    legacy=spelled("ctc_align", {"Input": "x", "InputLength": "length", "Input@LOD": "levels"}, "Output OutputLength Output@LOD")
)
def ctc_align(
    x: Tensor, length: Tensor | None = None, levels: list[Tensor] | None = None, *, blank: int = 0, merge_repeated: bool = True,
    padding_value: int = 0,
) -> tuple[Tensor, Tensor | None, list[Tensor]]:  # fmt: skip
    """The labels [rows, 1] of sequences, repeated ones once, without blanks; or rows [batch, steps] with their lengths, filled up behind
    the labels. Where sequences have no label at all, one row of -1 is left.
    """
    if length is None:
        offsets = last_level(levels or [], "Input")
        flat, place = math.reshape(x, [-1]), _numbers(x, 0, -1)
        before = math.gather(flat, math.maximum(math.scale(place, 1, -1), _number(0)), 0)
        first = math.equal(place, math.gather(offsets, sequence_of_rows(offsets, x), 0))
        kept = _kept(flat, before, first, blank, merge_repeated)
        nothing = math.equal(math.sum(cast_to(kept, i64), keepdim=True), _number(0))
        rows = math.reshape(math.nonzero(math.concat([kept, nothing], 0)), [-1])
        found = math.gather(math.concat([flat, dispatch.full((1,), -1, x.type.dtype)], 0), rows, 0)
        return math.unsqueeze(found, -1), None, [_offsets_of_kept(kept, offsets)]
    size = math.unsqueeze(_lengths_of(length, x.type.shape[1], "Input"), -1)
    place = _numbers(x, 1, 1, -1)
    before = math.gather(x, math.reshape(math.maximum(math.scale(place, 1, -1), _number(0)), [-1]), 1)
    kept = math.logical_and(_kept(x, before, math.equal(place, _number(0)), blank, merge_repeated), math.less_than(place, size))
    order = math.argsort(math.where(kept, place, math.add(place, dispatch.call(nn.DimValue, size=x.type.shape[1], dtype=i64))), 1)
    count = math.sum(cast_to(kept, i64), 1, keepdim=True)
    taken = math.take_along_axis(x, order, 1)
    return math.where(math.less_than(place, count), taken, dispatch.full((), padding_value, x.type.dtype)), count, []


def _kept(x: Tensor, before: Tensor, first: Tensor, blank: int, merge_repeated: bool) -> Tensor:
    kept = math.not_equal(x, dispatch.full((), blank, x.type.dtype))
    return math.logical_and(kept, math.logical_or(first, math.not_equal(x, before))) if merge_repeated else kept


def _offsets_of_kept(kept: Tensor, offsets: Tensor) -> Tensor:
    """The offsets of sequences of which those rows are left."""
    until = math.concat([math.zeros([1], i64), dispatch.call(nn.Cumsum, cast_to(kept, i64), axis=0)], 0)
    return math.gather(until, offsets, 0)


@operator(legacy=spelled("sequence_erase", {"X": "x", "X@LOD": "levels"}, "Out Out@LOD"))
def sequence_erase(x: Tensor, levels: list[Tensor] | None = None, *, tokens: Sizes) -> tuple[Tensor, list[Tensor]]:
    """The numbers of sequences [rows, 1] that are none of these tokens."""
    kept = math.greater_equal(_numbers(x, 0, -1), _number(0))
    for token in tokens:
        kept = math.logical_and(kept, math.not_equal(math.reshape(x, [-1]), dispatch.full((), int(token), x.type.dtype)))
    rows = math.reshape(math.nonzero(kept), [-1])
    return math.gather(x, rows, 0), [_offsets_of_kept(kept, last_level(levels or [], "X"))]


@operator(
    legacy=spelled(
        "edit_distance",
        {
            "Hyps": "hyps", "Refs": "refs", "HypsLength": "hypslength", "RefsLength": "refslength", "Hyps@LOD": "levels",
            "Refs@LOD": "own",
        },
        "SequenceNum Out Out@LOD",
        defaults={"normalized": False},
    )
)  # fmt: skip
def edit_distance(
    hyps: Tensor, refs: Tensor, hypslength: Tensor | None = None, refslength: Tensor | None = None, levels: list[Tensor] | None = None,
    own: list[Tensor] | None = None, *, normalized: bool = False,
) -> tuple[Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """How many sequences there are, int64 [1]; and how many tokens have to be put in, left out or replaced to make each of `hyps` that of
    `refs`, float32 [sequences, 1], where it is `normalized` as a share of the tokens of `refs`, which must be some.

    It goes over the diagonals of the table of distances of beginnings: what an element of one depends on is in the two before it.
    """
    if len(levels or []) > 1 or len(own or []) > 1:
        raise UnsupportedError("expected one level of detail in 'Hyps' and 'Refs' of 'edit_distance'")
    (a, size), (b, count) = _padded(hyps, levels, hypslength, "Hyps"), _padded(refs, own, refslength, "Refs")
    # A column more, so that there is one to read where all sequences are empty.
    a = math.concat([cast_to(a, i64), math.zeros([a.type.shape[0], 1], i64)], 1)
    b = math.concat([math.zeros([b.type.shape[0], 1], i64), cast_to(b, i64)], 1)
    column = _numbers(b, 1, 1, -1)
    width, last = (dispatch.call(nn.DimValue, size=x.type.shape[1], dtype=i64) for x in (a, b))
    start = math.multiply(_numbers(a, 0, -1, 1), width)
    flat = math.reshape(a, [-1])
    ends = math.add(size, count)
    left = math.maximum(math.scale(column, 1, -1), _number(0))
    never = math.add(width, last)

    def diagonal(number: Tensor, before: Tensor, now: Tensor, found: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Element `j` is the distance of the first `number - j` tokens of `hyps` and the first `j` of `refs`."""
        row = math.subtract(number, column)
        place = math.minimum(math.maximum(math.scale(row, 1, -1), _number(0)), math.scale(width, 1, -1))
        differs = cast_to(math.not_equal(math.gather(flat, math.reshape(math.add(start, place), [-1]), 0).reshape(b.type.shape), b), i64)
        shorter = math.gather(before, math.reshape(left, [-1]), 1)
        replaced = math.add(shorter, differs)
        put_in = math.scale(math.gather(now, math.reshape(left, [-1]), 1), 1, 1)
        after = math.minimum(math.minimum(replaced, put_in), math.scale(now, 1, 1))
        after = math.where(math.equal(column, _number(0)), number, math.where(math.equal(row, _number(0)), column, after))
        after = math.where(math.less_than(row, _number(0)), never, after)
        taken = math.reshape(math.take_along_axis(after, math.unsqueeze(count, -1), 1), [-1])
        return [now, after, math.where(math.equal(ends, number), taken, found)], []

    steps = dispatch.call(nn.Iota, shape=(a.type.shape[1] + b.type.shape[1] - 1, 1), axis=0, dtype=i64)
    empty = math.add(math.zeros_like(b), never)
    found = gathered_steps(diagonal, [empty, empty, math.zeros_like(ends)], [steps])[0][2]
    made = cast_to(found, f32)
    if normalized:
        none = check_within(
            cast_to(math.equal(count, _number(0)), i64),
            1,
            lambda low, high, size: ValueError("edit_distance expected labels with tokens, whose number divides, but one is empty"),
            wraps=False,
        )
        made = math.divide(made, cast_to(math.add(count, none), f32))
    number = dispatch.call(nn.DimValue, size=count.type.shape[0], dtype=i64)
    return math.reshape(number, [1]), math.unsqueeze(made, -1), []
