"""Losses of classes that are many: by decisions in a tree, by samples, by the centers of classes."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.control_flow import loop
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import f32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.nn import functional
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.random import Generator, default_generator
from polyreme.tensor import Tensor

_TREE = {"X": "x", "W": "weight", "Label": "label", "PathTable": "path_table", "PathCode": "path_code", "Bias": "bias"}


@operator(legacy=spelled("hierarchical_sigmoid", _TREE, "Out PreOut W_Out", constant="Label PathTable PathCode"))
def hierarchical_sigmoid(
    x: Tensor,
    weight: Tensor,
    label: Tensor,
    path_table: Tensor | None = None,
    path_code: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    num_classes: int = 2,
) -> Tensor:
    """The loss [N, 1] of the decisions that lead to each label."""
    return functional.hsigmoid_loss(x, label, num_classes, weight, bias, path_table, path_code)


_CENTERS = {"X": "x", "Label": "label", "Centers": "centers", "CenterUpdateRate": "rate"}


@operator(legacy=spelled("center_loss", _CENTERS, "SampleCenterDiff Loss CentersOut", constant="Label Centers CenterUpdateRate"))
def center_loss(
    x: Tensor, label: Tensor, centers: Tensor, rate: Tensor, *, cluster_num: int = 0, need_update: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The differences of rows from the centers of their classes; half their squares, [N, 1]; and the centers, with `need_update` moved
    towards the mean of their rows, counted as one more than there are, by `rate`.
    """
    centers, places = centers.detach(), math.reshape(label, [-1])
    apart = math.subtract(x, math.gather(centers, places, 0))
    loss = math.scale(math.sum(math.square(apart), [1], keepdim=True), 0.5)
    if not need_update:
        return apart, loss, centers
    fixed, size = apart.detach(), centers.type.shape[0]
    ones = dispatch.full((x.type.shape[0], 1), 1, x.type.dtype)
    moves, counts = (dispatch.call(nn.ScatterAdd, part, places, axis=0, size=size) for part in (fixed, ones))
    return apart, loss, math.add(centers, math.reshape(rate, [1, 1]) * moves / (counts + 1.0))


@operator(legacy=spelled("teacher_student_sigmoid_loss", {"X": "x", "Label": "label"}, "Y", constant="Label"))
def teacher_student_sigmoid_loss(
    x: Tensor, label: Tensor, *, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0
) -> Tensor:
    """The sigmoid loss of a click, which a label of -2 (none), -1 (one), [0, 1) (none) or [1, 2) (one) tells, plus that of what a teacher
    says, the label's part above -1 or its fraction. No gradient flows where `x` is outside of the bounds.
    """
    dtype = x.type.dtype
    none, label = dispatch.full((), 0, dtype), cast_to(label, dtype)
    inside = math.logical_and(
        math.less_than(x, number_like(x, soft_max_up_bound)), math.greater_than(x, number_like(x, soft_max_lower_bound))
    )
    x = math.where(inside, x, x.detach())
    miss = functional.softplus(x)
    hit = miss - x
    clicked = math.logical_or(
        math.logical_and(math.greater_equal(label, number_like(label, -1)), math.less_than(label, none)),
        math.greater_equal(label, number_like(label, 1)),
    )
    taught = math.greater_equal(label, none)
    teacher = miss - x * math.where(clicked, label - 1.0, label)
    return math.where(clicked, hit, miss) + math.where(taught, teacher, none)


_SAMPLED = {
    "Logits": "logits", "Labels": "labels", "CustomizedSamples": "given_samples", "CustomizedProbabilities": "given_probabilities",
}  # fmt: skip


@operator(
    legacy=spelled(
        "sample_logits", _SAMPLED, "Samples Probabilities LogitsDim LabelsDim SampledLogits SampledLabels",
        constant="Labels CustomizedSamples CustomizedProbabilities",
    )
)  # fmt: skip
def sample_logits(
    logits: Tensor,
    labels: Tensor,
    given_samples: Tensor | None = None,
    given_probabilities: Tensor | None = None,
    *,
    use_customized_samples: bool = False,
    uniq: bool = True,
    remove_accidental_hits: bool = True,
    num_samples: int,
    seed: int = 0,
) -> tuple[Tensor, Tensor, None, None, Tensor, Tensor]:
    """The right classes [N, true] and samples behind them, [N, true + num_samples]; how probable each was; the logits of these minus the
    logarithms of that, where a sample that is right by chance has no share; and where the right ones stand, [N, true].
    """
    rows, true = labels.type.shape
    if not uniq:
        raise UnsupportedError("expected samples that differ from each other (uniq=True) for 'sample_logits' but got uniq=False")
    if use_customized_samples:
        if given_samples is None or given_probabilities is None:
            raise UnsupportedError("expected CustomizedSamples and CustomizedProbabilities for 'sample_logits' but got none")
        samples, shares = cast_to(given_samples, i64), given_probabilities.detach()
    else:
        samples, shares = _samples(labels, int(logits.type.shape[1]), num_samples, seed)
        shares = cast_to(shares, logits.type.dtype)
    chosen = math.take_along_axis(logits, samples, 1, broadcast=False)
    if remove_accidental_hits:
        hits = math.any(math.equal(math.unsqueeze(samples, 2), math.unsqueeze(cast_to(labels, i64), 1)), 2)
        behind = dispatch.call(nn.Iota, shape=(1, samples.type.shape[1]), axis=1, dtype=i64)
        hits = math.logical_and(hits, math.greater_equal(behind, dispatch.full((), true, i64)))
        chosen = math.where(hits, chosen - 1e20, chosen)
    places = math.broadcast_to(dispatch.call(nn.Iota, shape=(1, true), axis=1, dtype=i64), [rows, true])
    return samples, shares, None, None, chosen - math.log(shares), places


def _samples(labels: Tensor, classes: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The labels and as many different classes behind them, the same for all rows, of which the first ones are more probable (log-uniform,
    as words by how often they occur); and how often each is expected among all that were drawn.
    """
    if count > classes:
        raise UnsupportedError(f"expected at most {classes} samples, the number of classes, but got {count}")
    generator = Generator.plain(seed) if seed else default_generator()
    whole = math.log(dispatch.full((), classes + 1, f32))
    slot = dispatch.call(nn.Iota, shape=(count,), axis=0, dtype=i64)

    def draw(tries: Tensor, found: Tensor, samples: Tensor) -> list[Tensor]:
        number = math.exp(generator.uniform((1,), 0.0, 1.0, f32) * whole) - 1.0
        drawn = math.minimum(cast_to(math.floor(number), i64), dispatch.full((), classes - 1, i64))
        new = math.logical_not(math.any(math.equal(samples, drawn), 0, keepdim=True))
        here = math.logical_and(math.equal(slot, found), new)
        return [tries + 1, found + cast_to(new, i64), select(here, drawn, samples)]

    state = [dispatch.full((1,), 0, i64), dispatch.full((1,), 0, i64), dispatch.full((count,), -1, i64)]
    wanted = dispatch.full((1,), count, i64)
    tries, _, samples = loop(lambda tries, found, samples: math.less_than(found, wanted), draw, state)
    rows: Dim = labels.type.shape[0]
    together = math.concat([cast_to(labels, i64), math.broadcast_to(math.unsqueeze(samples, 0), [rows, count])], 1)
    number = cast_to(together, f32)
    share = math.log((number + 2.0) / (number + 1.0)) / whole
    return together, -math.expm1(cast_to(tries, f32) * math.log1p(-share))
