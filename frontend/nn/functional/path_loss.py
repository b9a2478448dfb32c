"""Losses over paths: alignments of a sequence with its labels, and ways through a tree to a class."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.control_flow import gathered_steps
from polyreme.dialects import nn as ops
from polyreme.ir.dims import UnknownSize
from polyreme.ir.sizes.facts import agree_all
from polyreme.ir.types import i64
from polyreme.math.common import cast_to, check_within, number_like, same_sizes, select, tensor_arg
from polyreme.math.elementwise import add, clip, divide, maximum, multiply, neg, subtract
from polyreme.math.manipulation import check_positions, concat, reshape, squeeze, stack, unsqueeze
from polyreme.math.reduction import logsumexp, mean, sum
from polyreme.nn.functional.activation import log_softmax, softplus
from polyreme.tensor import Tensor

__all__ = ["ctc_loss", "hsigmoid_loss"]

# Logarithms of what is impossible: finite, so that no gradient is nan, and far from any other sum.
_NEVER, _POSSIBLE = -1e30, -1e29


def _classes(label: Tensor, count: int, function: str) -> Tensor:
    """The labels, which must be classes."""
    made: Tensor = check_within(
        label,
        count,
        lambda low, high, size: IndexError(f"{function} expected labels in [0, {size}) but got values from {low} to {high}"),
        wraps=False,
    )
    return made


def ctc_loss(
    log_probs: Tensor,
    labels: Tensor,
    input_lengths: Tensor,
    label_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
    zero_infinity: bool = False,
) -> Tensor:
    """-log of how probable `labels` are, summed over all their alignments with the steps (Graves et al., "Connectionist temporal
    classification", 2006).

    `log_probs` is [steps, batch, classes]: any scores, of which the softmax over classes is taken; `labels` [batch, most labels], whole
    numbers, what is past a label's length ignored; lengths are [batch]. An alignment repeats labels and puts `blank` between them. A
    sequence too short for its labels costs 0, as in Paddle, so that `zero_infinity` finds nothing to do. "mean" divides by the number of
    labels first. `norm_by_times` divides gradients by the number of steps.
    """
    for argument, tensor, rank in (
        ("log_probs", log_probs, 3),
        ("labels", labels, 2),
        ("input_lengths", input_lengths, 1),
        ("label_lengths", label_lengths, 1),
    ):
        tensor_arg(tensor, "ctc_loss", argument)
        if tensor.ndim != rank:
            raise ValueError(f"ctc_loss expected '{argument}' of {rank} axes but got shape {list(tensor.shape)}")
    if reduction not in ("mean", "sum", "none"):
        raise AssertionError(f"ctc_loss expected 'mean', 'sum' or 'none' for the reduction but got {reduction!r}")
    steps, batch, classes = log_probs.type.shape
    if not isinstance(classes, int):
        raise UnknownSize(
            f"ctc_loss expected log_probs [steps, batch, classes] with a known number of classes but got {list(log_probs.shape)}", classes
        )
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss expected a blank in [0, {classes}) but got {blank}")
    if 0 in (steps, batch, classes):
        raise ValueError(f"ctc_loss expected log_probs with elements but got shape {list(log_probs.shape)}")
    if not agree_all(labels.type.shape[:1], (batch,)):
        raise ValueError(f"ctc_loss expected labels of {batch} sequences but got shape {list(labels.shape)}")
    lengths, counts = (reshape(cast_to(t, i64), [-1, 1]) for t in (input_lengths, label_lengths))
    states, allowed = _alignment_states(cast_to(labels, i64), counts, blank, log_probs.type.dtype)
    states = _classes(states, classes, "ctc_loss")
    width = states.type.shape[1]
    places = dispatch.call(ops.Iota, shape=(1, width), axis=1, dtype=i64)
    # Every step's scores as one row, in which a sequence's begin at its number times the classes.
    starts = multiply(dispatch.call(ops.Iota, shape=(batch, 1), axis=0, dtype=i64), dispatch.full((), classes, i64))
    chosen = dispatch.call(ops.Gather, reshape(log_softmax(log_probs, -1), [steps, batch * classes]), add(states, starts), axis=1)

    # Before the first step everything is in the first state: a blank, from which the first label can be reached.
    begins = dispatch.call(ops.BroadcastTo, dispatch.call(ops.Equal, places, dispatch.full((), 0, i64)), shape=(batch, width))
    reached = select(begins, number_like(log_probs, 0.0), number_like(log_probs, _NEVER))
    edge = dispatch.full((batch, 2), _NEVER, log_probs.type.dtype)
    numbers = dispatch.call(ops.Iota, shape=(steps, 1, 1), axis=0, dtype=i64)

    def step(scores: Tensor, number: Tensor, reached: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        wide = concat([edge, reached], 1)
        ways = stack([reached, wide[:, 1:-1], add(wide[:, :-2], allowed)])
        made = add(logsumexp(ways, 0), scores)
        return [select(dispatch.call(ops.Greater, lengths, number), made, reached)], []

    reached = gathered_steps(step, [reached], [chosen, numbers])[0][0]

    # An alignment ends in the last label or in the blank after it.
    last = multiply(counts, dispatch.full((), 2, i64))
    ends = dispatch.call(
        ops.LogicalOr, dispatch.call(ops.Equal, places, last), dispatch.call(ops.Equal, places, subtract(last, dispatch.full((), 1, i64)))
    )
    total = logsumexp(select(ends, reached, number_like(reached, _NEVER)), 1)
    possible = dispatch.call(ops.Greater, total, number_like(total, _POSSIBLE))
    loss = select(possible, neg(total), number_like(total, 0.0))
    if norm_by_times:
        some = maximum(lengths, dispatch.full((), 1, i64))  # without steps there is no gradient to divide
        part = divide(loss, cast_to(squeeze(some, 1), loss.type.dtype))
        loss = add(part, subtract(loss, part).detach())
    if reduction == "none":
        return loss
    return sum(loss) if reduction == "sum" else mean(divide(loss, cast_to(squeeze(counts, 1), loss.type.dtype)))


def _alignment_states(labels: Tensor, counts: Tensor, blank: int, dtype: Any) -> tuple[Tensor, Tensor]:
    """blank, label, blank, label, …, blank, [batch, 2 labels + 1]; and what it costs to come from two states before, 0 or never: that is
    for a label that differs from the one before it.
    """
    batch, most = labels.type.shape
    places = dispatch.call(ops.Iota, shape=(1, most), axis=1, dtype=i64)
    blanks = dispatch.full((batch, most + 1), blank, i64)
    known = select(dispatch.call(ops.Less, places, counts), labels, dispatch.full((), blank, i64))
    states = concat([reshape(stack([blanks[:, :-1], known], 2), [0, 2 * most]), blanks[:, -1:]], 1)
    before = concat([blanks[:, :1], blanks[:, :1], states], 1)[:, :-2]
    may_skip = dispatch.call(
        ops.LogicalAnd, dispatch.call(ops.NotEqual, states, dispatch.full((), blank, i64)), dispatch.call(ops.NotEqual, states, before)
    )
    return states, select(may_skip, dispatch.full((), 0.0, dtype), dispatch.full((), _NEVER, dtype))


def hsigmoid_loss(
    input: Tensor,
    label: Tensor,
    num_classes: int,
    weight: Tensor,
    bias: Tensor | None = None,
    path_table: Tensor | None = None,
    path_code: Tensor | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """-log of how probable the decisions are that lead to each label: [batch, 1] (Morin and Bengio, "Hierarchical probabilistic neural
    network language model", 2005).

    `input` is [batch, features], `label` [batch] or [batch, 1], `weight` [decisions, features] and `bias` [decisions, 1]. Decision d says
    yes with the sigmoid of input weight[d] + bias[d], held within ±40. The default tree is complete and binary; another one is given per
    row by `path_table`, the decisions on its way, and `path_code`, 1 for yes, [batch, longest], ended by negative numbers. As in Paddle
    every place that a way leaves empty adds log 2, which no gradient sees.
    """
    tensor_arg(input, "hsigmoid_loss", "input")
    tensor_arg(label, "hsigmoid_loss", "label")
    if num_classes < 2:
        raise ValueError(f"Expected num_classes >= 2 (got {num_classes})")
    if input.ndim != 2 or weight.ndim != 2 or not same_sizes(input.type.shape[1:], weight.type.shape[1:]):
        raise ValueError(
            f"hsigmoid_loss expected an input [batch, {weight.shape[-1]}] for a weight of shape {list(weight.shape)} but got "
            f"{list(input.shape)}"
        )
    if not same_sizes(input.type.shape[:1], label.type.shape[:1]):
        raise ValueError(f"hsigmoid_loss expected a label per row but got {label.shape[0]} for {input.shape[0]} rows")
    if (path_table is None) != (path_code is None):
        raise ValueError("hsigmoid_loss expected both path_table and path_code, or neither")
    if path_table is None or path_code is None:
        rows = _classes(reshape(label, [-1]), num_classes, "hsigmoid_loss")
        decisions, answers = (dispatch.call(ops.Gather, dispatch.constant(t), rows, axis=0) for t in _complete_tree(num_classes))
    else:
        decisions, answers = path_table, path_code
        decisions = check_positions(decisions, weight.shape[0], "hsigmoid_loss")
    dtype = input.type.dtype
    there = dispatch.call(ops.GreaterEqual, decisions, number_like(decisions, 0))
    safe = maximum(decisions, number_like(decisions, 0))
    scores = sum(multiply(dispatch.call(ops.Gather, weight, safe, axis=0), unsqueeze(input, 1)), -1)
    if bias is not None:
        scores = add(scores, dispatch.call(ops.Gather, reshape(bias, [-1]), safe, axis=0))
    scores = select(there, scores, number_like(scores, 0.0))
    # Held in bounds, with the gradient of what is not.
    scores = add(scores, subtract(clip(scores, -40.0, 40.0), scores).detach())
    said = cast_to(select(there, answers, number_like(answers, 0)), dtype)
    return sum(subtract(softplus(scores, 1.0, 40.0), multiply(said, scores)), 1, keepdim=True)


def _complete_tree(classes: int) -> tuple[Any, Any]:
    """Decisions and answers for each class, [classes, longest way], -1 past the end: leaf `classes + c` of a heap whose root is 1, from the
    leaf upwards.
    """
    longest = (classes - 1).bit_length()
    codes = np.arange(classes, 2 * classes, dtype=np.int64)[:, None]
    level = np.arange(longest, dtype=np.int64)[None, :]
    parents = codes >> (level + 1)
    there = parents > 0
    return np.where(there, parents - 1, -1), np.where(there, (codes >> level) & 1, -1)
