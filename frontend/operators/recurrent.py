"""Recurrent layers, all of a network as one operator."""

from __future__ import annotations

from typing import Any

from polyreme.math.manipulation import unstack
from polyreme.nn.recurrence import MODES, Weights, joined, run_layers
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator(
    "rnn",
    legacy=spelled(
        "rnn",
        {"Input": "x", "PreState": "pre_state", "WeightList": "weight_list", "SequenceLength": "sequence_length"},
        "Out DropoutState State Reserve",
    ),
)
def rnn(
    x: Tensor,
    pre_state: list[Tensor],
    weight_list: list[Tensor],
    sequence_length: Tensor | None = None,
    dropout_state_in: Tensor | None = None,
    *,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    input_size: int = 10,
    hidden_size: int = 100,
    num_layers: int = 1,
    mode: str = "RNN_TANH",
    seed: int = 0,
    is_test: bool = False,
) -> Any:
    """`x` is [steps, batch, size]; first come the two weights of each layer and direction, then their biases. States of layers and
    directions are one tensor.
    """
    if mode not in MODES:
        raise UnsupportedError(f"expected a mode of {', '.join(MODES)} but got '{mode}'")
    directions = 2 if is_bidirec else 1
    count = num_layers * directions
    if len(weight_list) != 4 * count:
        raise UnsupportedError(
            f"expected {4 * count} weights of {num_layers} layers and {directions} directions but got {len(weight_list)}"
        )
    if len(pre_state) != MODES[mode] or any(s.ndim != 3 or s.shape[0] != count for s in pre_state):
        raise UnsupportedError(
            f"expected {MODES[mode]} states of shape [{count}, batch, hidden] but got {[list(s.shape) for s in pre_state]}"
        )
    if x.shape[-1] != input_size or any(s.shape[2] != hidden_size for s in pre_state):
        raise UnsupportedError(
            f"expected inputs of size {input_size} and states of size {hidden_size} but got {[list(v.shape) for v in (x, *pre_state)]}"
        )
    weights = [Weights(*weight_list[2 * i : 2 * i + 2], *weight_list[2 * (count + i) : 2 * (count + i) + 2]) for i in range(count)]
    first = list(zip(*(unstack(state) for state in pre_state), strict=True))
    out, last = run_layers(mode, x, first, weights, sequence_length, directions, 0.0 if is_test else dropout_prob)
    return out, None, list(joined(last)), None
