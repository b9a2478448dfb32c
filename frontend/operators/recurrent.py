"""Recurrent layers, all of a network as one operator."""

from __future__ import annotations

import math
from typing import Any

from polyreme.math.manipulation import reshape, unstack
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


@operator(
    legacy=spelled(
        "cudnn_lstm", {"Input": "x", "InitH": "hidden", "InitC": "cell", "W": "weight"}, "Out last_h last_c", ignored="max_len input_size",
    )
)  # fmt: skip
def cudnn_lstm(
    x: Tensor,
    hidden: Tensor,
    cell: Tensor,
    weight: Tensor,
    *,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    hidden_size: int = 100,
    num_layers: int = 1,
    is_test: bool = False,
    seed: int = 0,
) -> tuple[Tensor, ...]:
    """An LSTM of several layers whose weights are one row of numbers, as cuDNN keeps them: of each layer and direction the input's, then
    the state's, gates in the order i, f, g, o; and behind those of all layers the two biases of each.
    """
    directions = 2 if is_bidirec else 1
    count, gates = num_layers * directions, 4 * hidden_size
    if x.ndim != 3 or not isinstance(x.type.shape[2], int) or any(s.ndim != 3 or s.shape[0] != count for s in (hidden, cell)):
        raise UnsupportedError(
            f"expected inputs [steps, batch, size] of a known size and states [{count}, batch, hidden] for 'cudnn_lstm' but got "
            f"{[list(v.shape) for v in (x, hidden, cell)]}"
        )
    wide = [x.shape[2] if i < directions else hidden_size * directions for i in range(count)]
    sizes = [[gates, size] for given in wide for size in (given, hidden_size)] + [[gates]] * (2 * count)
    total = sum(math.prod(size) for size in sizes)
    if list(weight.shape) != [total]:
        raise UnsupportedError(f"expected {total} numbers as the weights of 'cudnn_lstm' but got the shape {list(weight.shape)}")
    parts, start = [], 0
    for size in sizes:
        parts.append(reshape(weight[start : start + math.prod(size)], size))
        start += math.prod(size)
    weights = [Weights(*parts[2 * i : 2 * i + 2], *parts[2 * (count + i) : 2 * (count + i) + 2]) for i in range(count)]
    first = list(zip(unstack(hidden), unstack(cell), strict=True))
    out, last = run_layers("LSTM", x, first, weights, None, directions, 0.0 if is_test else dropout_prob)
    return out, *joined(last)
