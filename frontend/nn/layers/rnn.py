"""Recurrent layers: cells that make one step, RNN and BiRNN that run a cell over sequences, and SimpleRNN, LSTM and GRU of several layers.

RNN and BiRNN run any cell, step by step. SimpleRNN, LSTM and GRU run each layer and direction as one op over all steps
(`dialects/nn/recurrent.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import DTYPES, default_dtype
from polyreme.ir.dims import UnknownSize
from polyreme.math.common import same_sizes, tensor_arg
from polyreme.math.creation import full
from polyreme.math.elementwise import add, tanh, where
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import concat, split, stack, unstack
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.container import LayerList
from polyreme.nn.layer import Layer
from polyreme.nn.recurrence import Weights, joined, run_layers
from polyreme.tensor import Tensor
from polyreme.utils.structures import flatten, map_structure

__all__ = ["GRU", "LSTM", "RNN", "BiRNN", "GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNN", "SimpleRNNCell"]


# --- cells


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(d, int) for d in value)


def _map_shapes(function: Any, shapes: Any) -> Any:
    """`function` of each shape in a structure of them."""
    if _is_shape(shapes):
        return function(shapes)
    if isinstance(shapes, dict):
        return {key: _map_shapes(function, value) for key, value in shapes.items()}
    return type(shapes)(_map_shapes(function, value) for value in shapes)


class RNNCellBase(Layer):
    """What makes one step: `forward(inputs, states)` gives outputs and new states. A subclass says the shapes of its states in
    `state_shape`.
    """

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States filled with `init_value`, nested as `shape` (by default `state_shape`), each with the batch size of `batch_ref` in front.

        `batch_ref` is a tensor (or a structure that starts with one) whose axis `batch_dim_idx` is the batch. A shape may start with -1 for
        the batch. `dtype` is one for all states or a structure like `shape`; by default `state_dtype`, or else the default dtype.
        """
        batch = flatten(batch_ref)[0].shape[batch_dim_idx]
        if dtype is None:
            try:
                dtype = self.state_dtype
            except NotImplementedError:
                dtype = default_dtype().name
        shapes = _map_shapes(lambda s: _Shape((batch, *(s[1:] if s[0] == -1 else s))), self.state_shape if shape is None else shape)
        kinds = flatten(dtype)
        if len(kinds) == 1:
            return map_structure(lambda s: full(list(s.dims), init_value, kinds[0]), shapes)
        return map_structure(lambda s, kind: full(list(s.dims), init_value, kind), shapes, dtype)

    @property
    def state_shape(self) -> Any:
        """The shapes of the states, nested as they are, without the batch."""
        raise NotImplementedError("Please add implementation for `state_shape` in the used cell.")

    @property
    def state_dtype(self) -> Any:
        """The dtypes of the states, nested as they are."""
        raise NotImplementedError("Please add implementation for `state_dtype` in the used cell.")


class _Shape:
    """A shape, which is no structure."""

    def __init__(self, dims: tuple[Any, ...]):
        self.dims = dims


class _GatedCell(RNNCellBase):
    """What the three kinds of cells share: weights [gates * hidden, …] and biases [gates * hidden], uniform in ±1 / sqrt(hidden).

    A weight whose attribute is False is ones, a bias zeros, and neither is trained.
    """

    gates = 1


    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any,
        weight_hh_attr: Any,
        bias_ih_attr: Any,
        bias_hh_attr: Any,
        state_size: int,
    ):
        super().__init__()
        if hidden_size <= 0:
            raise ValueError(f"hidden_size of {type(self).__name__} must be greater than 0, but now equals to {hidden_size}")
        rows = self.gates * hidden_size
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = self._parameter((rows, input_size), weight_ih_attr, False)
        self.weight_hh = self._parameter((rows, state_size), weight_hh_attr, False)
        self.bias_ih = self._parameter((rows,), bias_ih_attr, True)
        self.bias_hh = self._parameter((rows,), bias_hh_attr, True)

    def _parameter(self, shape: tuple[int, ...], attr: Any, is_bias: bool) -> Any:
        kind = default_dtype().name
        if attr is False:
            fixed = self.create_parameter(shape, None, kind, is_bias, init.Constant(0.0 if is_bias else 1.0))
            fixed.stop_gradient = True
            return fixed
        bound = 1.0 / math.sqrt(self.hidden_size)
        return self.create_parameter(shape, attr, kind, is_bias, init.Uniform(-bound, bound))

    def _from_inputs(self, inputs: Tensor) -> Tensor:
        """What the inputs give to the gates, [..., gates * hidden]."""
        return add(matmul(inputs, self.weight_ih, transpose_y=True), self.bias_ih)

    def _from_state(self, state: Tensor) -> Tensor:
        return add(matmul(state, self.weight_hh, transpose_y=True), self.bias_hh)

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_GatedCell):
    """h = activation(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh), with tanh or relu. `forward(inputs [batch, in], states [batch, hidden])` gives (h,
    h).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, hidden_size)
        if activation not in ("tanh", "relu"):
            raise ValueError(f"activation for SimpleRNNCell should be tanh or relu, but get {activation}")
        self.activation = activation

    def forward(self, inputs: Tensor, states: Tensor | None = None) -> tuple[Tensor, Tensor]:
        state = self.get_initial_states(inputs) if states is None else states
        mixed = add(self._from_inputs(inputs), self._from_state(state))
        h = tanh(mixed) if self.activation == "tanh" else F.relu(mixed)
        return h, h

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", activation={self.activation}" if self.activation != "tanh" else "")


class LSTMCell(_GatedCell):
    """A long short-term memory: gates i, f, g, o of x W_ihᵀ + b_ih + h W_hhᵀ + b_hh; c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o)
    tanh(c).

    `forward(inputs [batch, in], states (h, c))` gives (h, (h, c)). With `proj_size`, h is multiplied by `weight_ho` [hidden, proj_size] and
    is [batch, proj_size].
    """

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
        name: str | None = None,
    ):
        if proj_size < 0:
            raise ValueError(f"proj_size of {type(self).__name__} must be 0 or more but is {proj_size}")
        if 0 < hidden_size <= proj_size:
            raise ValueError("proj_size must be smaller than hidden_size")
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, proj_size or hidden_size)
        self.proj_size = proj_size
        if proj_size > 0:
            self.weight_ho = self._parameter((hidden_size, proj_size), weight_hh_attr, False)

    def forward(self, inputs: Tensor, states: Sequence[Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        i, f, g, o = split(add(self._from_inputs(inputs), self._from_state(hidden)), 4, axis=-1)
        cell = add(F.sigmoid(f) * cell, F.sigmoid(i) * tanh(g))
        hidden = F.sigmoid(o) * tanh(cell)
        if self.proj_size > 0:
            hidden = matmul(hidden, self.weight_ho)
        return hidden, (hidden, cell)

    @property
    def state_shape(self) -> Any:
        return (self.proj_size or self.hidden_size,), (self.hidden_size,)


class GRUCell(_GatedCell):
    """A gated recurrent unit: with the blocks r, z, c of x W_ihᵀ + b_ih and of u = h W_hhᵀ + b_hh, r = sigmoid(x_r + u_r), z = sigmoid(x_z
    + u_z), c = tanh(x_c + r u_c), and the new h = z h + (1 - z) c. `forward(inputs [batch, in], states [batch, hidden])` gives (h, h).
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, hidden_size)

    def forward(self, inputs: Tensor, states: Tensor | None = None) -> tuple[Tensor, Tensor]:
        state = self.get_initial_states(inputs) if states is None else states
        x_r, x_z, x_c = split(self._from_inputs(inputs), 3, axis=1)
        u_r, u_z, u_c = split(self._from_state(state), 3, axis=1)
        z = F.sigmoid(add(x_z, u_z))
        c = tanh(add(x_c, F.sigmoid(add(x_r, u_r)) * u_c))
        h = add((state - c) * z, c)
        return h, h




# --- a cell over sequences


def _step_count(inputs: Any, axis: int) -> int:
    steps = flatten(inputs)[0].shape[axis]
    if not isinstance(steps, int):
        raise UnknownSize(
            f"expected a known number of steps, which are run one by one, but got the symbolic size '{steps}': use SimpleRNN, LSTM or GRU",
            steps,
        )
    if not steps:
        raise ValueError("expected at least one step but got a sequence of none")
    return steps


def _batch_first(x: Tensor) -> Tensor:
    """[steps, batch, …] as [batch, steps, …], and back."""
    made: Tensor = dispatch.call(ops.Transpose, x, perm=(1, 0, *range(2, x.ndim)))
    return made


def rnn(
    cell: RNNCellBase,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Tensor | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Run `cell` over the steps of `inputs`: the outputs of all steps, and the last states.

    `inputs` are [batch, steps, …], or [steps, batch, …] with `time_major`; outputs likewise. `sequence_length` [batch] says where sequences
    end: from there on the states stay as they are, while outputs are those that the cell gives for them. With `is_reverse` the last step
    runs first. `kwargs` go to the cell.
    """
    steps = _step_count(inputs, 0 if time_major else 1)
    states = cell.get_initial_states(inputs, batch_dim_idx=1 if time_major else 0) if initial_states is None else initial_states
    if not time_major:
        inputs = map_structure(_batch_first, inputs)
    running = None if sequence_length is None else _batch_first(F.sequence_mask(sequence_length, steps, "bool"))
    made: list[Any] = [None] * steps
    for t in range(steps - 1, -1, -1) if is_reverse else range(steps):
        made[t], after = cell(map_structure(lambda x, t=t: x[t], inputs), states, **kwargs)
        states = after if running is None else map_structure(lambda new, old, on=running[t]: _choose(on, new, old), after, states)
    return map_structure(lambda *parts: stack(parts, axis=0 if time_major else 1), *made), states


def _choose(running: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` for the sequences that go on, `old` for the others."""
    return where(running.reshape([*running.shape, *[1] * (new.ndim - 1)]), new, old)


def birnn(
    cell_fw: RNNCellBase,
    cell_bw: RNNCellBase,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Tensor | None = None,
    time_major: bool = False,
    **kwargs: Any,
) -> tuple[Any, tuple[Any, Any]]:
    """`rnn` of one cell forward and of another backward: their outputs side by side in the last axis, and the last states of both."""
    first_fw, first_bw = (None, None) if initial_states is None else initial_states
    forward, last_fw = rnn(cell_fw, inputs, first_fw, sequence_length, time_major, **kwargs)
    backward, last_bw = rnn(cell_bw, inputs, first_bw, sequence_length, time_major, is_reverse=True, **kwargs)
    return map_structure(lambda x, y: concat([x, y], -1), forward, backward), (last_fw, last_bw)


class RNN(Layer):
    """A cell over sequences: `forward(inputs, initial_states=None, sequence_length=None)` gives the outputs of all steps and the last
    states. See `rnn`.
    """

    def __init__(self, cell: RNNCellBase, is_reverse: bool = False, time_major: bool = False):
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Tensor | None = None, **kwargs: Any) -> tuple[Any, Any]:
        return rnn(self.cell, inputs, initial_states, sequence_length, self.time_major, self.is_reverse, **kwargs)


class BiRNN(Layer):
    """A cell forward and one backward over sequences: outputs side by side in the last axis, and the last states of both as a pair."""

    def __init__(self, cell_fw: RNNCellBase, cell_bw: RNNCellBase, time_major: bool = False):
        super().__init__()
        if cell_fw.input_size != cell_bw.input_size:
            raise ValueError(f"expected cells of one input size but got {cell_fw.input_size} forward and {cell_bw.input_size} backward")
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Tensor | None = None, **kwargs: Any
    ) -> tuple[Any, tuple[Any, Any]]:
        if isinstance(initial_states, (list, tuple)) and len(initial_states) != 2:
            raise AssertionError("length of initial_states should be 2 when it is a list/tuple")
        return birnn(self.cell_fw, self.cell_bw, inputs, initial_states, sequence_length, self.time_major, **kwargs)


# --- layers of cells


class RNNBase(LayerList):
    """Layers of cells, forward or in both directions, each over the outputs of the one below; dropout between them.

    `forward(inputs, initial_states=None, sequence_length=None)`: inputs [batch, steps, in], or [steps, batch, in] with `time_major`. States
    are [layers * directions, batch, hidden], directions within layers; an LSTM has a pair of them. Outputs are those of the last layer,
    [batch, steps, directions * hidden], and 0 where a sequence is over. Parameters are `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`,
    `bias_hh_l0`, the same with `_reverse`, and so on for each layer; they are those of the cells. Numbers of steps and of sequences may be
    free in compiled code, as in InputSpec([None, None, 8]); on a GPU, where steps are compiled one by one, steps must be known.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
    ):
        super().__init__()
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise ValueError(f"direction should be forward or bidirect (or bidirectional), received direction = {direction}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.time_major, self.dropout, self.proj_size = time_major, dropout, proj_size
        self.num_directions = 1 if direction == "forward" else 2
        self.state_components = 2 if mode == "LSTM" else 1
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)

        def cell(size: int) -> _GatedCell:
            if mode == "LSTM":
                return LSTMCell(size, hidden_size, *attrs, proj_size=proj_size)
            return GRUCell(size, hidden_size, *attrs) if mode == "GRU" else SimpleRNNCell(size, hidden_size, mode[4:].lower(), *attrs)

        for layer in range(max(num_layers, 1)):
            size = input_size if layer == 0 else self.num_directions * (proj_size or hidden_size)
            self.append(RNN(cell(size), False, time_major) if self.num_directions == 1 else BiRNN(cell(size), cell(size), time_major))
        kinds = ["weight_ih", "weight_hh", *["bias_ih"] * (bias_ih_attr is not False), *["bias_hh"] * (bias_hh_attr is not False)]
        names = [f"{kind}_l{n}{suffix}" for n in range(num_layers) for suffix in ("", "_reverse")[: self.num_directions] for kind in kinds]
        # Names and parameters are paired in their order, as in Paddle, even where one of the biases has no name or a projection comes
        # between.
        for name, parameter in zip(names, self.parameters(), strict=False):
            setattr(self, name, parameter)

    def flatten_parameters(self) -> None:
        """Nothing: parameters lie where they are. For programs that call it."""

    def forward(self, inputs: Tensor, initial_states: Any = None, sequence_length: Tensor | None = None) -> tuple[Tensor, Any]:
        tensor_arg(inputs, type(self).__name__, "inputs")
        if inputs.ndim != 3:
            raise ValueError(f"{type(self).__name__} expected inputs of shape [batch, steps, size] but got {list(inputs.shape)}")
        states = self._first_states(inputs, initial_states)
        lengths = None if sequence_length is None else self._lengths(inputs, sequence_length)
        if self.proj_size:
            return self._by_cells(inputs, states, lengths)
        x = inputs if self.time_major else _batch_first(inputs)
        y, last = self._by_ops(x, states, lengths)
        return y if self.time_major else _batch_first(y), self._as_given(joined(last))

    def _first_states(self, inputs: Tensor, given: Any) -> list[tuple[Tensor, ...]]:
        """Of each layer and direction the components, [batch, hidden] each: what is given, or zeros."""
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.state_components]
        count, batch = self.num_layers * self.num_directions, inputs.shape[1 if self.time_major else 0]
        shapes = [[count, batch, size] for size in sizes]
        if given is None:
            zeros = {size: full([batch, size], 0, inputs.dtype) for size in dict.fromkeys(sizes)}
            return [tuple(zeros[size] for size in sizes)] * count
        states = [given] if isinstance(given, Tensor) else list(given)
        if len(states) != self.state_components:
            raise ValueError(f"{type(self).__name__} expected {self.state_components} initial states but got {len(states)}")
        for state, shape in zip(states, shapes, strict=True):
            if not same_sizes(shape, state.type.shape):
                raise ValueError(f"{type(self).__name__} expected an initial state of shape {shape} but got {list(state.shape)}")
        return list(zip(*(unstack(state) if count > 1 else [state.reshape(state.shape[1:])] for state in states), strict=True))

    def _lengths(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        tensor_arg(lengths, type(self).__name__, "sequence_length")
        if lengths.dtype not in (DTYPES["int32"], DTYPES["int64"]):
            raise ValueError(f"{type(self).__name__} expected lengths of int32 or int64 but got {lengths.dtype.name}")
        batch = inputs.shape[1 if self.time_major else 0]
        if not same_sizes([batch], lengths.type.shape):
            raise ValueError(f"{type(self).__name__} expected lengths of shape {[batch]} but got {list(lengths.shape)}")
        return lengths

    def _by_ops(self, x: Tensor, first: Sequence[tuple[Tensor, ...]], lengths: Tensor | None) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """The outputs [steps, batch, …], and the last states of each layer and direction."""
        cells = [cell for layer in self for cell in layer.children()]
        weights = [Weights(cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh) for cell in cells]
        return run_layers(self.mode, x, first, weights, lengths, self.num_directions, self.dropout if self.training else 0.0)

    def _by_cells(self, inputs: Tensor, first: Sequence[tuple[Tensor, ...]], lengths: Tensor | None) -> tuple[Tensor, Any]:
        """The layers' own `forward`: for projections, which no op has."""
        last: list[tuple[Tensor, ...]] = []
        for n, layer in enumerate(self):
            if n:
                inputs = F.dropout(inputs, self.dropout, training=self.training)
            given = first[n] if self.num_directions == 1 else (first[2 * n], first[2 * n + 1])
            inputs, after = layer(inputs, given, lengths)
            last += [after] if self.num_directions == 1 else list(after)
        return inputs, self._as_given(tuple(stack(component) for component in zip(*last, strict=True)))

    def _as_given(self, states: tuple[Tensor, ...]) -> Any:
        """A pair for an LSTM, the state itself for the others."""
        return states if self.state_components > 1 else states[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("num_layers", 1), ("time_major", False), ("dropout", 0)):
            text += f", {name}={getattr(self, name)}" if getattr(self, name) != default else ""
        return text


class SimpleRNN(RNNBase):
    """Layers of SimpleRNNCell; see `RNNBase` for shapes, names and what `forward` takes."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ):
        if activation not in ("tanh", "relu"):
            raise ValueError(f"Unknown activation '{activation}'")
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(f"RNN_{activation.upper()}", input_size, hidden_size, num_layers, direction, time_major, dropout, *attrs)
        self.activation = activation


class LSTM(RNNBase):
    """Layers of LSTMCell, with a pair of states; see `RNNBase` for shapes, names and what `forward` takes.

    With `proj_size` the hidden states, and so the outputs, have that size; then outputs beyond a sequence's end are those of its last
    state.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
        name: str | None = None,
    ):
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__("LSTM", input_size, hidden_size, num_layers, direction, time_major, dropout, *attrs, proj_size)


class GRU(RNNBase):
    """Layers of GRUCell; see `RNNBase` for shapes, names and what `forward` takes."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ):
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__("GRU", input_size, hidden_size, num_layers, direction, time_major, dropout, *attrs)
