"""Layers of a recurrent network over all steps, by the ops of `dialects/nn/recurrent.py`: what SimpleRNN, LSTM and GRU share with programs
that Paddle saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import DTYPES
from polyreme.math.elementwise import add, where
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import concat
from polyreme.nn.functional.sequence import sequence_mask
from polyreme.random import default_generator
from polyreme.tensor import Tensor

__all__ = ["MODES", "Weights", "joined", "run_layers"]

MODES = {"LSTM": 2, "GRU": 1, "RNN_TANH": 1, "RNN_RELU": 1}
"""What Paddle calls the kinds of layers, and how many states each has."""


class Weights(NamedTuple):
    """Of one layer in one direction: [gates * hidden, size], [gates * hidden, hidden], and two biases [gates * hidden]."""

    input: Tensor
    state: Tensor
    input_bias: Tensor
    state_bias: Tensor


def _sweep(mode: str, x: Tensor, weights: Weights, first: Sequence[Tensor], lengths: Tensor | None, reverse: bool) -> tuple[Tensor, ...]:
    """The states after every step of `x` [steps, batch, size], as one op; of several states, the first is the output."""
    gates = matmul(x, weights.input, transpose_y=True)
    if mode == "GRU":
        gates = add(gates, weights.input_bias)
        return (dispatch.call(ops.GRU, gates, weights.state, first[0], weights.state_bias, lengths, reverse=reverse),)
    gates = add(gates, add(weights.input_bias, weights.state_bias))
    if mode == "LSTM":
        made: tuple[Tensor, ...] = dispatch.call(ops.LSTM, gates, weights.state, *first, lengths, reverse=reverse)
        return made
    return (dispatch.call(ops.SimpleRNN, gates, weights.state, first[0], lengths, activation=mode[4:].lower(), reverse=reverse),)


def _alone(state: Tensor) -> Tensor:
    """[batch, hidden] as [1, batch, hidden]."""
    made: Tensor = dispatch.call(ops.Reshape, state, shape=(1, *state.type.shape))
    return made


def _step(states: Tensor, first: bool) -> Tensor:
    """The first or the last of states [steps, batch, hidden], as [1, batch, hidden]."""
    steps, *shape = states.type.shape
    start = 0 if first else steps - 1
    made: Tensor = dispatch.call(ops.Slice, states, starts=(start, 0, 0), stops=(start + 1, *shape), strides=(1, 1, 1))
    return made


def joined(states: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """States of each layer and direction, [1, batch, hidden] each, as one tensor per component."""
    return tuple(component[0] if len(component) == 1 else concat(list(component)) for component in zip(*states, strict=True))


def run_layers(
    mode: str,
    x: Tensor,
    first: Sequence[Sequence[Tensor]],
    weights: Sequence[Weights],
    lengths: Tensor | None = None,
    directions: int = 1,
    dropout: float = 0.0,
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """The outputs of the last layer, [steps, batch, directions * hidden], and the last states of each layer and direction, each [1, batch,
    hidden].

    `x` is [steps, batch, size]; `first` and `weights` have an entry for each layer and direction, directions within layers. Outputs are 0
    where a sequence is over by `lengths` [batch]. Between layers, elements become 0 with probability `dropout`.
    """
    steps = x.shape[0]
    running = None
    if lengths is not None:
        mask = sequence_mask(lengths, steps, "bool").transpose([1, 0])
        running = mask.unsqueeze(-1)
    draws = None
    last: list[tuple[Tensor, ...]] = []
    for layer in range(len(weights) // directions):
        if layer and dropout:
            if draws is None:
                # One draw serves all layers: Paddle's kernel draws a mask once per call, in float32 for all dtypes.
                draws = default_generator().uniform(x.type.shape, 0.0, 1.0, DTYPES["float32"].scalar)
            x = dispatch.call(ops.Dropout, x, draws, p=float(dropout))
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            made = _sweep(mode, x, weights[at], first[at], lengths, direction == 1)
            last.append(tuple(map(_alone, first[at])) if steps == 0 else tuple(_step(s, direction == 1) for s in made))
            outputs.append(made[0] if running is None else where(running, made[0], dispatch.full((), 0, x.type.dtype)))
        x = outputs[0] if len(outputs) == 1 else concat(outputs, -1)
    return x, last
