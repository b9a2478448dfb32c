"""`GRUCell` and `LSTMCell` of `fluid.dygraph`, one step each, in two variants: as cuDNN has them, and as the basic units do.

The order of the gates and the layout of the weights are those of Paddle 1.8; the hidden size comes first, and the dtype is float64 by
default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme import math
from polyreme.fluid.dygraph.layers import Layer
from polyreme.names import listed
from polyreme.nn import functional
from polyreme.tensor import Tensor

__all__ = ["GRUCell", "LSTMCell"]

Function = Callable[[Tensor], Tensor]


class _Cell(Layer):
    """What both cells share: sizes, activations, and how parameters are made."""

    def __init__(self, hidden_size: int, input_size: int, attrs: tuple[Any, Any], gates: Any, activation: Any, cudnn: bool, dtype: Any):
        super().__init__(dtype=dtype)
        for attr, what in zip(attrs, ("param_attr", "bias_attr"), strict=True):
            if attr is False:
                raise ValueError(f"{type(self).__name__} expected None or a ParamAttr as {what} but got False")
        self._hidden_size, self._input_size = hidden_size, input_size
        self._param_attr, self._bias_attr = attrs
        self._gate: Function = gates or functional.sigmoid
        self._act: Function = activation or math.tanh
        self._use_cudnn_impl = cudnn
        self._kind = dtype

    def _weight(self, shape: list[int]) -> Any:
        return self.create_parameter(attr=self._param_attr, shape=shape, dtype=self._kind)

    def _bias(self, size: int) -> Any:
        return self.create_parameter(attr=self._bias_attr, shape=[size], dtype=self._kind, is_bias=True)

    def _parts(self, x: Tensor, weight: Tensor, bias: Tensor, count: int) -> list[Tensor]:
        """x @ weight^T + bias, cut into the gates."""
        return math.split(math.add(math.matmul(x, weight, False, True), bias), count, 1)

    def _check(self, input: Tensor, hidden: Tensor) -> None:
        for tensor, size, what in ((input, self._input_size, "input"), (hidden, self._hidden_size, "pre_hidden")):
            if tensor.ndim != 2 or tensor.shape[1] != size:
                raise ValueError(f"{type(self).__name__} expected {what} of shape [batch, {size}] but got {list(tensor.shape)}")


class GRUCell(_Cell):
    """A gated recurrent unit: `cell(input [N, input_size], pre_hidden [N, hidden_size])` gives the new hidden state.

        u = sigmoid(W_u x + U_u h + b_u)      r = sigmoid(W_r x + U_r h + b_r)      h' = u * h + (1 - u) * c

    With `use_cudnn_impl` input and hidden state have biases of their own, and the reset gate is applied behind the product:
    c = tanh(W_c x + b_c + r * (U_c h + b'_c)). Otherwise in front of it: c = tanh(W_c x + U_c (r * h) + b_c).
    """

    def __init__(
        self, hidden_size: int, input_size: int, param_attr: Any = None, bias_attr: Any = None, gate_activation: Any = None,
        activation: Any = None, use_cudnn_impl: bool = True, dtype: Any = "float64",
    ):  # fmt: skip
        super().__init__(hidden_size, input_size, (param_attr, bias_attr), gate_activation, activation, use_cudnn_impl, dtype)
        h, i = hidden_size, input_size
        if use_cudnn_impl:
            # The gates one below the other: reset, update, candidate.
            self._weight_ih, self._weight_hh = self._weight([3 * h, i]), self._weight([3 * h, h])
            self._bias_ih, self._bias_hh = self._bias(3 * h), self._bias(3 * h)
        else:
            self._gate_weight, self._candidate_weight = self._weight([i + h, 2 * h]), self._weight([i + h, h])
            self._gate_bias, self._candidate_bias = self._bias(2 * h), self._bias(h)

    def forward(self, input: Tensor, pre_hidden: Tensor) -> Tensor:
        """The hidden state after a step, [N, hidden_size]."""
        self._check(input, pre_hidden)
        if self._use_cudnn_impl:
            r_x, u_x, c_x = self._parts(input, self._weight_ih, self._bias_ih, 3)
            r_h, u_h, c_h = self._parts(pre_hidden, self._weight_hh, self._bias_hh, 3)
            reset, update = self._gate(math.add(r_x, r_h)), self._gate(math.add(u_x, u_h))
            candidate = self._act(math.add(c_x, math.multiply(reset, c_h)))
        else:
            both = math.concat([input, pre_hidden], 1)
            gates = self._gate(math.add(math.matmul(both, self._gate_weight), self._gate_bias))
            reset, update = math.split(gates, 2, 1)
            both = math.concat([input, math.multiply(reset, pre_hidden)], 1)
            candidate = self._act(math.add(math.matmul(both, self._candidate_weight), self._candidate_bias))
        return math.add(math.multiply(update, pre_hidden), math.multiply(math.scale(update, -1.0, 1.0), candidate))


class LSTMCell(_Cell):
    """Long short-term memory: `cell(input, pre_hidden, pre_cell)` gives the new hidden state and the new cell, [N, hidden_size] each.

        c' = sigmoid(f) * c + sigmoid(i) * tanh(j)      h' = sigmoid(o) * tanh(c')

    With `use_cudnn_impl` input and hidden state have biases of their own. Otherwise there is one bias per gate, and `forget_bias` is added
    to the forget gate.
    """

    def __init__(
        self, hidden_size: int, input_size: int, param_attr: Any = None, bias_attr: Any = None, gate_activation: Any = None,
        activation: Any = None, forget_bias: float = 1.0, use_cudnn_impl: bool = True, dtype: Any = "float64",
    ):  # fmt: skip
        super().__init__(hidden_size, input_size, (param_attr, bias_attr), gate_activation, activation, use_cudnn_impl, dtype)
        h, i = hidden_size, input_size
        self._forget_bias = float(forget_bias)
        if use_cudnn_impl:
            # The gates one below the other: input, forget, cell, output.
            self._weight_ih, self._weight_hh = self._weight([4 * h, i]), self._weight([4 * h, h])
            self._bias_ih, self._bias_hh = self._bias(4 * h), self._bias(4 * h)
        else:
            self._gate_weight, self._gate_bias = self._weight([i + h, 4 * h]), self._bias(4 * h)

    def forward(self, input: Tensor, pre_hidden: Tensor, pre_cell: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden state and the cell after a step."""
        self._check(input, pre_hidden)
        if self._use_cudnn_impl:
            from_input = self._parts(input, self._weight_ih, self._bias_ih, 4)
            from_hidden = self._parts(pre_hidden, self._weight_hh, self._bias_hh, 4)
            i, f, j, o = (math.add(x, h) for x, h in zip(from_input, from_hidden, strict=True))
        else:
            both = math.concat([input, pre_hidden], 1)
            i, j, f, o = math.split(math.add(math.matmul(both, self._gate_weight), self._gate_bias), 4, 1)
            f = math.scale(f, 1.0, self._forget_bias)
        cell = math.add(math.multiply(self._gate(f), pre_cell), math.multiply(self._gate(i), self._act(j)))
        return math.multiply(self._gate(o), self._act(cell)), cell


__dir__ = listed(__name__)
