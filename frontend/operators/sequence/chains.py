"""Conditional random fields over chains: what a way through the labels costs, and the best way.

A transition [labels + 2, labels] has the weights of the first label in its first row, those of the last label in its second, and below
them those of each label (row) before each other one (column). Emissions [rows, labels] are sequences, or [batch, steps, labels] with the
lengths beside them.
"""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.control_flow import gathered_steps
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.math.common import cast_to, check_within
from polyreme.math.fed import sizes as fed_sizes
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths
from polyreme.operators.sequence.steps import laid_out, rows_by_steps, sequences_of_steps
from polyreme.tensor import Tensor


def _numbers(size: object, shape: list[int]) -> Tensor:
    """0, 1, … up to `size`, along the axis of `shape` that is -1."""
    return math.reshape(dispatch.call(nn.Iota, shape=(size,), axis=0, dtype=i64), shape)


def _labels_of(transition: Tensor, emission: Tensor, what: str) -> int:
    """How many labels there are, by a transition that fits the emissions."""
    count = emission.type.shape[-1]
    if not isinstance(count, int) or transition.type.shape != (count + 2, count):
        raise UnsupportedError(
            f"expected a transition [{count} + 2, {count}] for emissions of the shape {list(emission.shape)} of '{what}' but got "
            f"{list(transition.shape)}"
        )
    return count


def _by_steps(
    emission: Tensor, levels: list[Tensor] | None, length: Tensor | None, what: str
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The emissions [steps, sequences, labels], the lengths [sequences], which sequences run in each step, and where rows of sequences were
    taken from.
    """
    if length is None:
        if emission.ndim != 2:
            raise UnsupportedError(f"expected rows of sequences [rows, labels] as 'Emission' of '{what}' but got {list(emission.shape)}")
        offsets = last_level(levels or [], "Emission")
        _, places, running = laid_out(emission, offsets)
        return rows_by_steps(emission, places), lengths(offsets), running, places
    if emission.ndim != 3:
        raise UnsupportedError(
            f"expected emissions [batch, steps, labels] beside the lengths of '{what}' but got the shape {list(emission.shape)}"
        )
    size = check_within(
        math.reshape(cast_to(length, i64), [-1]),
        emission.type.shape[1] + 1,
        lambda low, high, most: ValueError(f"{what} expected lengths in [0, {most - 1}] but got some from {low} to {high}"),
        wraps=False,
    )
    steps = _numbers(emission.type.shape[1], [-1, 1])
    return math.transpose(emission, [1, 0, 2]), size, math.less_than(steps, math.unsqueeze(size, 0)), None


def _labels_by_steps(label: Tensor, running: Tensor, places: Tensor | None, count: int, what: str) -> Tensor:
    """Labels [steps, sequences], 0 where a sequence has ended."""
    if places is None:
        laid = math.transpose(math.reshape(label, [running.type.shape[1], running.type.shape[0]]), [1, 0])
    else:
        laid = rows_by_steps(math.reshape(label, [-1]), places)
    laid = math.where(running, cast_to(laid, i64), dispatch.full((), 0, i64))
    made: Tensor = check_within(
        laid,
        count,
        lambda low, high, size: IndexError(f"{what} expected labels in [0, {size}) but got values from {low} to {high}"),
        wraps=False,
    )
    return made


def _chosen(table: Tensor, place: Tensor) -> Tensor:
    """The elements of a table, by their number among all."""
    return math.reshape(math.gather(math.reshape(table, [-1]), math.reshape(place, [-1]), 0), list(place.type.shape))


@operator(
    legacy=spelled(
        "linear_chain_crf",
        {"Emission": "emission", "Transition": "transition", "Label": "label", "Length": "length", "Emission@LOD": "levels"},
        "Alpha EmissionExps TransitionExps LogLikelihood LogLikelihood@LOD",
        constant="Label Length",
    )
)
def linear_chain_crf(
    emission: Tensor, transition: Tensor, label: Tensor, length: Tensor | None = None, levels: list[Tensor] | None = None
) -> tuple[None, None, None, Tensor, list[Tensor]]:
    """-log of how probable the labels of each sequence are among all, [sequences, 1]; 0 for a sequence without rows."""
    count = _labels_of(transition, emission, "linear_chain_crf")
    x, size, running, places = _by_steps(emission, levels, length, "linear_chain_crf")
    taken = _labels_by_steps(label, running, places, count, "linear_chain_crf")
    start, stop, weights = transition[0:1], transition[1:2], transition[2:]
    steps, sequences = running.type.shape
    number = _numbers(steps, [-1, 1])
    first = math.equal(number, dispatch.full((), 0, i64))
    nothing = dispatch.full((), 0, emission.type.dtype)

    # What the labels weigh.
    row = math.add(math.multiply(number, dispatch.call(nn.DimValue, size=sequences, dtype=i64)), _numbers(sequences, [1, -1]))
    before = math.gather(taken, math.reshape(math.maximum(math.scale(number, 1, -1), dispatch.full((), 0, i64)), [-1]), 0)
    weight = math.where(first, _chosen(start, taken), _chosen(weights, math.add(math.scale(before, count), taken)))
    last = math.equal(number, math.unsqueeze(math.scale(size, 1, -1), 0))
    weight = math.add(weight, math.where(last, _chosen(stop, taken), nothing))
    weight = math.add(weight, _chosen(x, math.add(math.scale(row, count), taken)))
    own = math.sum(math.where(running, weight, nothing), 0)

    # What all of them weigh, by the label at the end.
    def step(rows: Tensor, runs: Tensor, begins: Tensor, ways: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        arrived = math.logsumexp(math.add(math.unsqueeze(ways, 2), math.unsqueeze(weights, 0)), 1)
        after = math.add(rows, math.where(begins, start, arrived))
        return [math.where(runs, after, ways)], []

    given = [x, math.unsqueeze(running, -1), math.unsqueeze(first, -1)]
    ways = gathered_steps(step, [dispatch.full((sequences, count), 0, emission.type.dtype)], given)[0][0]
    cost = math.subtract(math.logsumexp(math.add(ways, stop), 1), own)
    some = math.greater_than(size, dispatch.full((), 0, i64))
    return None, None, None, math.unsqueeze(math.where(some, cost, nothing), -1), []


@operator(
    legacy=spelled(
        "crf_decoding",
        {"Emission": "emission", "Transition": "transition", "Label": "label", "Length": "length", "Emission@LOD": "levels"},
        "ViterbiPath ViterbiPath@LOD",
    )
)
def crf_decoding(
    emission: Tensor, transition: Tensor, label: Tensor | None = None, length: Tensor | None = None, levels: list[Tensor] | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The labels of the best way through each sequence, int64 [rows, 1], or [batch, steps] with 0 behind the end; where labels are given,
    1 for each that it agrees with and 0 for the others.
    """
    count = _labels_of(transition, emission, "crf_decoding")
    x, size, running, places = _by_steps(emission, levels, length, "crf_decoding")
    start, stop, weights = transition[0:1], transition[1:2], transition[2:]
    steps, sequences = running.type.shape
    first = math.equal(_numbers(steps, [-1, 1, 1]), dispatch.full((), 0, i64))
    same = math.add(_numbers(count, [1, -1]), math.zeros([sequences, 1], i64))

    def forth(rows: Tensor, runs: Tensor, begins: Tensor, best: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        ways = math.add(math.unsqueeze(best, 2), math.unsqueeze(weights, 0))
        after = math.add(rows, math.where(begins, start, math.max(ways, 1)))
        origin = math.where(math.logical_or(begins, math.logical_not(runs)), same, math.argmax(ways, 1))
        return [math.where(runs, after, best)], [origin]

    nothing = dispatch.full((sequences, count), 0, emission.type.dtype)
    (best,), (origins,) = gathered_steps(forth, [nothing], [x, math.unsqueeze(running, -1), first])

    def back(origin: Tensor, now: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        place = math.add(math.scale(_numbers(sequences, [-1]), count), now)
        return [_chosen(origin, place)], [now]

    _, (found,) = gathered_steps(back, [math.argmax(math.add(best, stop), 1)], [origins], reverse=True)
    given = list(levels or [])
    if places is None:
        path = math.transpose(math.where(running, found, dispatch.full((), 0, i64)), [1, 0])
    else:
        path = sequences_of_steps(math.unsqueeze(found, -1), emission, given)[0]
    if label is not None:
        right = cast_to(math.equal(path, cast_to(math.reshape(label, list(path.type.shape)), i64)), i64)
        path = right if places is not None else math.where(math.transpose(running, [1, 0]), right, dispatch.full((), 0, i64))
    return path, [] if places is None else given


@operator(
    "viterbi_decode",
    legacy=spelled("viterbi_decode", {"Input": "potentials", "Transition": "transition_params", "Length": "lengths"}, "Scores Path"),
    misdeclared=True,
)
def viterbi_decode(
    potentials: Tensor, transition_params: Tensor, lengths: Tensor, *, include_bos_eos_tag: bool = True
) -> tuple[Tensor, Tensor]:
    """The greatest sum of potentials [batch, steps, tags] and transitions of each sequence, and the tags that have it.

    The path has as many steps as the longest sequence, zeros behind the others. With `include_bos_eos_tag` sequences begin behind the last
    tag and end in front of the last but one.
    """
    steps, tags = potentials.type.shape[1:]
    rows = math.transpose(potentials, [1, 0, 2])
    length = math.reshape(cast_to(lengths, i64), [-1, 1])
    zero, one = (dispatch.full((), n, i64) for n in (0, 1))
    numbers = dispatch.call(nn.Iota, shape=(steps,), axis=0, dtype=i64)
    start = dispatch.full((potentials.type.shape[0], tags), 0, potentials.type.dtype)
    if include_bos_eos_tag:
        is_last = math.equal(dispatch.call(nn.Iota, shape=(tags,), axis=0, dtype=i64), fed_sizes.as_number(tags - 1))
        start = math.where(is_last, start, dispatch.full((), -1e4, potentials.type.dtype))
        stop = transition_params[-2]

    def forth(row: Tensor, number: Tensor, best: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        sums = math.add(math.unsqueeze(best, 2), transition_params)
        came_from, after = math.argmax(sums, 1), math.add(math.max(sums, 1), row)
        if not include_bos_eos_tag:
            after = math.where(math.equal(number, zero), row, after)
        left = math.subtract(length, number)
        best = math.where(math.greater_than(left, zero), after, best)
        if include_bos_eos_tag:
            best = math.where(math.equal(left, one), math.add(best, stop), best)
        return [best], [came_from]

    (best,), (origins,) = gathered_steps(forth, [start], [rows, numbers])
    scores, last = math.max(best, 1), math.argmax(best, 1)
    ends = math.reshape(length, [-1])

    def back(origin: Tensor, number: Tensor, last: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        left = math.subtract(ends, number)
        before = math.reshape(math.take_along_axis(origin, math.unsqueeze(last, 1), 1, broadcast=False), [-1])
        made = math.where(math.greater_than(left, zero), before, math.where(math.equal(left, zero), last, zero))
        return [math.where(math.less_than(left, zero), last, made)], [made]

    _, (path,) = gathered_steps(back, [last], [origins[1:], numbers[1:]], reverse=True)
    final = math.where(math.greater_equal(ends, fed_sizes.as_number(steps)), last, zero)
    whole = math.transpose(math.concat([path, math.unsqueeze(final, 0)], 0), [1, 0])
    longest = fed_sizes.axis_count(math.max(ends), steps, "the longest of 'lengths'")
    return scores, math.manipulation.span(whole, 1, 0, longest)
