"""Cells that make one step of a recurrent net, and `rnn`, which lets one go over the steps of a batch."""

from __future__ import annotations

import copy
from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.control_flow import StaticRNN
from polyreme.fluid.layers.elementwise import elementwise_add, elementwise_mul, elementwise_sub, less_equal
from polyreme.fluid.layers.nn import matmul, slice, split, squeeze, transpose
from polyreme.fluid.layers.ops import cumsum, sigmoid, tanh
from polyreme.fluid.layers.tensor import cast, concat, fill_constant_batch_size_like, ones_like, reverse
from polyreme.fluid.param_attr import ParamAttr
from polyreme.names import listed
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown
from polyreme.utils.structures import flatten, map_structure

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "rnn"]


class RNNCell(Shown):
    """What `rnn` and decoders ask of a cell: `call`, and the shape of its states."""

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        """The outputs of a step and the states behind it."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define call()")

    def __call__(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        return self.call(inputs, states, **kwargs)

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = "float32", init_value: float = 0, batch_dim_idx: int = 0
    ) -> Any:
        """States of `init_value` for a batch as large as axis `batch_dim_idx` of `batch_ref`; shapes have no axis for the batch, or -1."""
        like = flatten(batch_ref)[0]

        def made(sizes: Any) -> Any:
            if isinstance(sizes, dict):
                return {key: made(part) for key, part in sizes.items()}
            if any(isinstance(part, (list, tuple, dict)) for part in sizes):
                return type(sizes)(made(part) for part in sizes)
            whole = list(sizes) if sizes and sizes[0] == -1 else [-1, *sizes]
            kind = self.state_dtype if dtype is None else dtype
            return fill_constant_batch_size_like(like, whole, kind, float(init_value), input_dim_idx=batch_dim_idx)

        return made(self.state_shape if shape is None else shape)

    @property
    def state_shape(self) -> Any:
        """The sizes of the states without that of the batch, nested as they are."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define state_shape, or a shape given to get_initial_states")

    @property
    def state_dtype(self) -> Any:
        """The element type of the states."""
        return "float32"


class _BasicUnit(RNNCell):
    """A cell whose parameters are made at its first call."""

    def __init__(self, hidden_size: int, unit: str, attrs: tuple[Any, Any], gates: Any, activation: Any, dtype: Any, name: str):
        if not isinstance(hidden_size, int):
            raise TypeError(f"The type of 'hidden_size' in {type(self).__name__} must be int, but received {type(hidden_size)}.")
        self.hidden_size = hidden_size
        self._layer = unique_name.generate(f"{name}/{unit}")
        self._attrs, self._dtype = attrs, dtype
        self._gates, self._activation = gates or sigmoid, activation or tanh
        self._parameters: list[Any] = []

    def _made(self, shapes: list[tuple[list[int], bool, str]]) -> list[Any]:
        """Parameters of these shapes; biases are told, and what the name of an attribute gets behind it."""
        if not self._parameters:
            helper = LayerHelper(self._layer, name=self._layer)
            for shape, bias, end in shapes:
                attr = ParamAttr.to_attr(self._attrs[bias])
                if attr is not False and attr.name is not None and end:
                    attr = copy.copy(attr)
                    attr.name += end
                self._parameters.append(helper.create_parameter(attr, shape, self._dtype, is_bias=bias))
        return self._parameters


class GRUCell(_BasicUnit):
    """A gated recurrent unit: `cell(inputs [N, size], states [N, hidden_size])` gives the new state twice.

        r, u = sigmoid([x, h] W + b)      c = tanh([x, r * h] W' + b')      h' = u * h + (1 - u) * c
    """

    def __init__(
        self, hidden_size: int, param_attr: Any = None, bias_attr: Any = None, gate_activation: Any = None, activation: Any = None,
        dtype: Any = "float32", name: str = "GRUCell",
    ):  # fmt: skip
        super().__init__(hidden_size, "BasicGRUUnit", (param_attr, bias_attr), gate_activation, activation, dtype, name)

    def call(self, inputs: Any, states: Any) -> tuple[Any, Any]:  # type: ignore[override]
        size, rows = self.hidden_size, inputs.shape[-1] + self.hidden_size
        weight, candidate, bias, of_candidate = self._made(
            [([rows, 2 * size], False, "_gate"), ([rows, size], False, "_candidate"), ([2 * size], True, "_gate"),
             ([size], True, "_candidate")]
        )  # fmt: skip
        gates = self._gates(elementwise_add(matmul(concat([inputs, states], 1), weight), bias))
        reset, update = split(gates, 2, dim=1)
        new = matmul(concat([inputs, elementwise_mul(reset, states)], 1), candidate)
        new = self._activation(elementwise_add(new, of_candidate))
        after = elementwise_add(elementwise_mul(update, states), elementwise_mul(1 - update, new))
        return after, after

    @property
    def state_shape(self) -> Any:
        return [self.hidden_size]


class LSTMCell(_BasicUnit):
    """A long short-term memory: `cell(inputs [N, size], [hidden, cell])`, [N, hidden_size] each, gives the new hidden state, and both.

        i, j, f, o = [x, h] W + b      c' = c * sigmoid(f + forget_bias) + sigmoid(i) * tanh(j)      h' = tanh(c') * sigmoid(o)

    As in Paddle, `gate_activation` and `activation` change nothing.
    """

    def __init__(
        self, hidden_size: int, param_attr: Any = None, bias_attr: Any = None, gate_activation: Any = None, activation: Any = None,
        forget_bias: float = 1.0, dtype: Any = "float32", name: str = "LSTMCell",
    ):  # fmt: skip
        super().__init__(hidden_size, "BasicLSTMUnit", (param_attr, bias_attr), gate_activation, activation, dtype, name)
        self._forget_bias = forget_bias

    def call(self, inputs: Any, states: Any) -> tuple[Any, Any]:  # type: ignore[override]
        if not isinstance(states, list):
            raise TypeError(f"The type of 'states' in LSTMCell must be list, but received {type(states)}.")
        hidden, cell = states
        size = self.hidden_size
        weight, bias = self._made([([inputs.shape[-1] + size, 4 * size], False, ""), ([4 * size], True, "")])
        enter, new, forget, leave = split(elementwise_add(matmul(concat([inputs, hidden], 1), weight), bias), 4, dim=-1)
        kept = elementwise_mul(cell, sigmoid(forget + float(self._forget_bias)))
        after = elementwise_add(kept, elementwise_mul(sigmoid(enter), tanh(new)))
        out = elementwise_mul(tanh(after), sigmoid(leave))
        return out, [out, after]

    @property
    def state_shape(self) -> Any:
        return [[self.hidden_size], [self.hidden_size]]


def by_steps(x: Any) -> Any:
    """[batch, steps, …] as [steps, batch, …], or the other way round."""
    return transpose(x, [1, 0, *range(2, len(x.shape))])


def kept_where_over(before: Any, after: Any, over: Any) -> Any:
    """The rows of `before` where `over` [batch] is 1, and those of `after` where it is 0."""
    kind = before.dtype
    if kind.name == "bool":
        before, after = cast(before, "float32"), cast(after, "float32")
    over = cast(over, before.dtype)
    over.stop_gradient = True
    made = elementwise_sub(elementwise_mul(before, over, axis=0), elementwise_mul(after, over - 1, axis=0))
    return cast(made, kind) if kind.name == "bool" else made


def rnn(
    cell: Any, inputs: Any, initial_states: Any = None, sequence_length: Any = None, time_major: bool = False, is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Let a cell go over the steps of `inputs` [batch, steps, …], or [steps, batch, …] with `time_major`: the outputs of all steps, laid
    out alike, and the states behind the last one.

    With `sequence_length` [batch] a sequence that is over keeps its states. `kwargs` go to the cell.
    """
    if initial_states is None:
        initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=1 if time_major else 0)

    def with_gradient(x: Any) -> Any:
        x.stop_gradient = False
        return x

    initial_states = map_structure(with_gradient, initial_states)
    laid = inputs if time_major else map_structure(by_steps, inputs)
    over = None
    if sequence_length is not None:
        like = flatten(laid)[0]
        rest = list(range(2, len(like.shape)))
        like = squeeze(slice(like, rest, [0] * len(rest), [1] * len(rest)), rest) if rest else like
        number = cumsum(ones_like(cast(like, "float32")), axis=0)
        # A step is over where its number, from 1 on, is not below or at the length.
        over = 1 - cast(less_equal(number, cast(sequence_length, "float32")), flatten(initial_states)[0].dtype)
        over.stop_gradient = True
    if is_reverse:
        laid = map_structure(lambda x: reverse(x, axis=[0]), laid)
        over = None if over is None else reverse(over, axis=[0])
    steps = StaticRNN()
    with steps.step():
        rows = map_structure(steps.step_input, laid)
        states = map_structure(lambda x: steps.memory(init=x), initial_states)
        outputs, after = cell.call(rows, map_structure(lambda x: x, states), **kwargs)
        if over is not None:
            ended = steps.step_input(over)
            after = map_structure(lambda old, new: kept_where_over(old, new, ended), states, after)
        map_structure(steps.update_memory, states, after)
        flat = flatten(outputs)
        map_structure(steps.step_output, outputs)
        map_structure(steps.step_output, after)
    found = steps()
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    made, last = iter(found[: len(flat)]), iter(found[len(flat) :])
    results = map_structure(lambda _: next(made), outputs)
    finals = map_structure(lambda _: next(last)[-1], after)
    if is_reverse:
        results = map_structure(lambda x: reverse(x, axis=[0]), results)
    return (results if time_major else map_structure(by_steps, results)), finals


__dir__ = listed(__name__)
