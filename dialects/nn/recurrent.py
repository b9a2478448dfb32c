"""Recurrent layers: one op for all steps of one layer in one direction, and one for what backward needs of it.

What the inputs give to the gates is an operand, made for all steps at once by one matrix product; the op adds what comes from step to step.
It gives the states after every step, so that outputs and last states are views of its results. A sequence that is shorter than others keeps
its state from its end on; with `reverse` steps run from the last to the first, so that it keeps its first state up to its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import check_same_dtype, shape_text
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.sizes.facts import agree_all
from polyreme.ir.types import TensorType

# States stay near or below 1, but each is made of the one before it: the error of a step goes on into all others.
_STEPPED = Accuracy(ulp=16, absolute=64, summed=2)


def _check_sequence(
    x: TensorType, weight: TensorType, states: Sequence[tuple[str, TensorType | None]], lengths: TensorType | None, gates: int
) -> TensorType:
    """The type of the states after every step; `weight` has `gates` blocks of rows."""
    check(x.rank == 3, f"expected gates of shape [steps, batch, {gates} * hidden] but got {shape_text(x.shape)}")
    check(weight.rank == 2, f"expected a weight of shape [{gates} * hidden, hidden] but got {shape_text(weight.shape)}")
    check_same_dtype([t for t in (x, weight, *(s for _, s in states)) if t is not None])
    check_type(x.dtype.is_float, f"expected floats but got {x.dtype}")
    steps, batch, _ = x.shape
    hidden = weight.shape[1]
    check(
        agree_all(weight.shape, (gates * hidden, hidden)),
        f"expected a weight of shape [{gates} * hidden, hidden] but got {shape_text(weight.shape)}",
    )
    wanted = (steps, batch, gates * hidden)
    check(agree_all(x.shape, wanted), f"expected gates of shape {shape_text(wanted)} but got {shape_text(x.shape)}")
    for name, state in states:
        shape = (batch, hidden) if name.startswith("first") else (gates * hidden,) if name == "bias" else (steps, batch, hidden)
        if state is not None:
            check(agree_all(state.shape, shape), f"expected '{name}' of shape {shape_text(shape)} but got {shape_text(state.shape)}")
    if lengths is not None:
        check_type(lengths.dtype.is_integer, f"expected integer lengths but got {lengths.dtype}")
        check(agree_all(lengths.shape, (batch,)), f"expected lengths of shape {shape_text((batch,))} but got {shape_text(lengths.shape)}")
    return TensorType((steps, batch, hidden), x.dtype)


def _wide(x: Array | None) -> Array:
    """16-bit floats as float32, in which all steps are computed before their results are rounded."""
    assert x is not None
    return x.astype(np.float64 if x.dtype == np.float64 else np.float32, copy=False)


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _running(lengths: Array | None, steps: int) -> Array | None:
    """[steps, batch, 1]: whether a sequence has that step; None when all have."""
    return None if lengths is None else (np.arange(steps)[:, None] < lengths[None, :])[:, :, None]


def _kept(running: Array | None, step: int, made: Array, state: Array | int) -> Array:
    return made if running is None else np.where(running[step], made, state)


def _before(first: Array, after: Array, reverse: bool) -> Array:
    """The states before every step, from those after it."""
    if not after.shape[0]:
        return after
    return np.concatenate([after[1:], first[None]] if reverse else [first[None], after[:-1]])


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _seed(gradient: Array | None, like: Array) -> Array:
    return np.zeros_like(like) if gradient is None else _wide(gradient)


@op("nn.simple_rnn", Pure, accuracy=_STEPPED)
class SimpleRNN(Op):
    """The states of a plain recurrent layer after every step: `activation(x[t] + state weightᵀ)`.

        %h = nn.simple_rnn %x, %w, %s : tensor<3x2x4xf32>      // %x: tensor<3x2x4xf32>, %w: tensor<4x4xf32>, %s: tensor<2x4xf32>

    `x` is [steps, batch, hidden], what the inputs and biases give to each step; `weight` is [hidden, hidden]; `first` is the state before
    the first step. With `lengths`, whole numbers, sequence n keeps its state in steps from lengths[n] on. With `reverse` the last step runs
    first; results stand where their steps do. `activation` is "tanh" or "relu". Floats only, of one type; 16-bit ones are computed in
    float32 and rounded once.
    """

    x = operand()
    weight = operand()
    first = operand()
    lengths = optional()
    activation = attr(str, default="tanh", choices=("tanh", "relu"))
    reverse = attr(bool, default=False)

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType, first: TensorType, lengths: TensorType | None, *, activation: str, reverse: bool
    ) -> TensorType:
        return _check_sequence(x, weight, [("first", first)], lengths, 1)

    @staticmethod
    def reference(x: Array, weight: Array, first: Array, lengths: Array | None, *, activation: str, reverse: bool) -> Array:
        v, w, state = _wide(x), _wide(weight), _wide(first)
        states = np.empty((*x.shape[:2], first.shape[1]), v.dtype)
        running = _running(lengths, x.shape[0])
        with np.errstate(all="ignore"):
            for t in _order(x.shape[0], reverse):
                made = v[t] + state @ w.T
                made = np.tanh(made) if activation == "tanh" else np.maximum(made, 0)
                states[t] = state = _kept(running, t, made, state)
        return states.astype(x.dtype, copy=False)


@op("nn.simple_rnn_gradient", Pure, accuracy=Accuracy(ulp=16, absolute=64, summed=16))
class SimpleRNNGradient(Op):
    """What `dstates`, the gradient of the states that `nn.simple_rnn` gave, makes of its `x` and of `first`.

        %dx, %ds = nn.simple_rnn_gradient %w, %h, %d : tensor<3x2x4xf32>, tensor<2x4xf32>
        // %w: tensor<4x4xf32>, %h: tensor<3x2x4xf32>, %d: tensor<3x2x4xf32>

    Steps backward from the last that ran: dx[t] = (dstates[t] + what comes from the step after) activation', and dx[t] weight goes on to
    the step before; what is left at the end is the gradient of `first`. Steps that a sequence has not pass gradients on and give none.
    `weight`, `lengths`, `activation` and `reverse` are those of `nn.simple_rnn`. The gradient of the weight is a matrix product of dx and
    the states before each step.
    """

    weight = operand()
    states = operand()
    dstates = operand()
    lengths = optional()
    activation = attr(str, default="tanh", choices=("tanh", "relu"))
    reverse = attr(bool, default=False)

    @staticmethod
    def infer(
        weight: TensorType, states: TensorType, dstates: TensorType, lengths: TensorType | None, *, activation: str, reverse: bool
    ) -> tuple[TensorType, ...]:
        made = _check_sequence(states, weight, [("dstates", dstates)], lengths, 1)
        return made, made.with_shape(made.shape[1:])

    @staticmethod
    def reference(
        weight: Array, states: Array, dstates: Array, lengths: Array | None, *, activation: str, reverse: bool
    ) -> tuple[Array, ...]:
        w, h, seeds = _wide(weight), _wide(states), _wide(dstates)
        dx, dh = np.zeros_like(h), np.zeros(h.shape[1:], h.dtype)
        running = _running(lengths, h.shape[0])
        with np.errstate(all="ignore"):
            slope = 1 - np.square(h) if activation == "tanh" else (h > 0).astype(h.dtype)
            for t in _order(h.shape[0], not reverse):
                dh = dh + seeds[t]
                dx[t] = _kept(running, t, dh * slope[t], 0)
                dh = _kept(running, t, dx[t] @ w, dh)
        return dx.astype(states.dtype, copy=False), dh.astype(states.dtype, copy=False)


@op("nn.lstm", Pure, accuracy=_STEPPED)
class LSTM(Op):
    """The hidden and the cell states of a long short-term memory after every step.

        %h, %c = nn.lstm %x, %w, %s, %k : tensor<3x2x4xf32>, tensor<3x2x4xf32>
        // %x: tensor<3x2x16xf32>, %w: tensor<16x4xf32>, %s: tensor<2x4xf32>, %k: tensor<2x4xf32>

    Of x[t] + hidden weightᵀ, the four blocks i, f, g, o: cell = sigmoid(f) cell + sigmoid(i) tanh(g), and hidden = sigmoid(o) tanh(cell).
    `x` is [steps, batch, 4 * hidden], what the inputs and biases give to each step; `weight` is [4 * hidden, hidden]; `first` and
    `first_cell` are the states before the first step. With `lengths`, whole numbers, sequence n keeps its states in steps from lengths[n]
    on. With `reverse` the last step runs first; results stand where their steps do. Floats only, of one type; 16-bit ones are computed in
    float32 and rounded once.
    """

    x = operand()
    weight = operand()
    first = operand()
    first_cell = operand()
    lengths = optional()
    reverse = attr(bool, default=False)

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType, first: TensorType, first_cell: TensorType, lengths: TensorType | None, *, reverse: bool
    ) -> tuple[TensorType, ...]:
        made = _check_sequence(x, weight, [("first", first), ("first_cell", first_cell)], lengths, 4)
        return made, made

    @staticmethod
    def reference(
        x: Array, weight: Array, first: Array, first_cell: Array, lengths: Array | None, *, reverse: bool
    ) -> tuple[Array, ...]:
        v, w, hidden, cell = _wide(x), _wide(weight), _wide(first), _wide(first_cell)
        states = np.empty((*x.shape[:2], first.shape[1]), v.dtype)
        cells = np.empty_like(states)
        running = _running(lengths, x.shape[0])
        with np.errstate(all="ignore"):
            for t in _order(x.shape[0], reverse):
                i, f, g, o = np.split(v[t] + hidden @ w.T, 4, axis=-1)
                made = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
                cells[t] = cell = _kept(running, t, made, cell)
                states[t] = hidden = _kept(running, t, _sigmoid(o) * np.tanh(made), hidden)
        return states.astype(x.dtype, copy=False), cells.astype(x.dtype, copy=False)


@op("nn.lstm_gradient", Pure, accuracy=Accuracy(ulp=16, absolute=128, summed=16))
class LSTMGradient(Op):
    """What the gradients of the states that `nn.lstm` gave make of its `x`, `first` and `first_cell`.

        %dx, %ds, %dk = nn.lstm_gradient %x, %w, %s, %k, %h, %c, %d : tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>
        // %x: tensor<3x2x16xf32>, %w: tensor<16x4xf32>, %s: tensor<2x4xf32>, %k: tensor<2x4xf32>, %h: tensor<3x2x4xf32>,
        // %c: tensor<3x2x4xf32>, %d: tensor<3x2x4xf32>

    `states` and `cells` are what `nn.lstm` gave for the operands before them, `dstates` and `dcells`, the latter of which may be absent,
    their gradients. The gates are made again, all steps at once; then the steps run backward, each handing dx[t] weight and its share of
    the cell to the step before. Steps that a sequence has not pass gradients on and give none. `lengths` and `reverse` are those of
    `nn.lstm`. The gradient of the weight is a matrix product of dx and the states before each step.
    """

    x = operand()
    weight = operand()
    first = operand()
    first_cell = operand()
    states = operand()
    cells = operand()
    dstates = operand()
    dcells = optional()
    lengths = optional()
    reverse = attr(bool, default=False)

    @staticmethod
    def infer(
        x: TensorType,
        weight: TensorType,
        first: TensorType,
        first_cell: TensorType,
        states: TensorType,
        cells: TensorType,
        dstates: TensorType,
        dcells: TensorType | None,
        lengths: TensorType | None,
        *,
        reverse: bool,
    ) -> tuple[TensorType, ...]:
        given = [
            ("first", first),
            ("first_cell", first_cell),
            ("states", states),
            ("cells", cells),
            ("dstates", dstates),
            ("dcells", dcells),
        ]
        _check_sequence(x, weight, given, lengths, 4)
        return x, first, first_cell

    @staticmethod
    def reference(
        x: Array,
        weight: Array,
        first: Array,
        first_cell: Array,
        states: Array,
        cells: Array,
        dstates: Array,
        dcells: Array | None,
        lengths: Array | None,
        *,
        reverse: bool,
    ) -> tuple[Array, ...]:
        w, c, seeds = _wide(weight), _wide(cells), _wide(dstates)
        cell_seeds = _seed(dcells, c)
        c_before = _before(_wide(first_cell), c, reverse)
        dx, dh, dc = np.zeros(x.shape, w.dtype), np.zeros(c.shape[1:], w.dtype), np.zeros(c.shape[1:], w.dtype)
        running = _running(lengths, x.shape[0])
        with np.errstate(all="ignore"):
            i, f, g, o = np.split(_wide(x) + _before(_wide(first), _wide(states), reverse) @ w.T, 4, axis=-1)
            i, f, g, o, bent = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o), np.tanh(c)
            # What a gradient of the cell makes of the blocks i, f and g, and one of the hidden state of o.
            shares = np.concatenate([g * i * (1 - i), c_before * f * (1 - f), i * (1 - np.square(g)), bent * o * (1 - o)], axis=-1)
            through = o * (1 - np.square(bent))
            for t in _order(x.shape[0], not reverse):
                dh, dc = dh + seeds[t], dc + cell_seeds[t]
                inner = dc + dh * through[t]
                dx[t] = _kept(running, t, np.concatenate([inner, inner, inner, dh], axis=-1) * shares[t], 0)
                dh, dc = _kept(running, t, dx[t] @ w, dh), _kept(running, t, inner * f[t], dc)
        kind = x.dtype
        return dx.astype(kind, copy=False), dh.astype(kind, copy=False), dc.astype(kind, copy=False)


@op("nn.gru", Pure, accuracy=_STEPPED)
class GRU(Op):
    """The states of a gated recurrent unit after every step.

        %h = nn.gru %x, %w, %s, %b : tensor<3x2x4xf32>
        // %x: tensor<3x2x12xf32>, %w: tensor<12x4xf32>, %s: tensor<2x4xf32>, %b: tensor<12xf32>

    With the three blocks r, z, c of x[t] and those of u = state weightᵀ + bias: r = sigmoid(x_r + u_r), z = sigmoid(x_z + u_z), c =
    tanh(x_c + r u_c), and the state becomes z state + (1 - z) c. `x` is [steps, batch, 3 * hidden], what the inputs and their bias give to
    each step; `weight` is [3 * hidden, hidden]; `bias`, which may be absent, is [3 * hidden]; `first` is the state before the first step.
    With `lengths`, whole numbers, sequence n keeps its state in steps from lengths[n] on. With `reverse` the last step runs first; results
    stand where their steps do. Floats only, of one type; 16-bit ones are computed in float32 and rounded once.
    """

    x = operand()
    weight = operand()
    first = operand()
    bias = optional()
    lengths = optional()
    reverse = attr(bool, default=False)

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType, first: TensorType, bias: TensorType | None, lengths: TensorType | None, *, reverse: bool
    ) -> TensorType:
        return _check_sequence(x, weight, [("first", first), ("bias", bias)], lengths, 3)

    @staticmethod
    def reference(x: Array, weight: Array, first: Array, bias: Array | None, lengths: Array | None, *, reverse: bool) -> Array:
        v, w, state = _wide(x), _wide(weight), _wide(first)
        shift = np.zeros(w.shape[0], w.dtype) if bias is None else _wide(bias)
        states = np.empty((*x.shape[:2], first.shape[1]), v.dtype)
        size = first.shape[1]
        running = _running(lengths, x.shape[0])
        with np.errstate(all="ignore"):
            for t in _order(x.shape[0], reverse):
                u = state @ w.T + shift
                r, z = np.split(_sigmoid(v[t, :, : 2 * size] + u[:, : 2 * size]), 2, axis=-1)
                c = np.tanh(v[t, :, 2 * size :] + r * u[:, 2 * size :])
                states[t] = state = _kept(running, t, (state - c) * z + c, state)
        return states.astype(x.dtype, copy=False)


@op("nn.gru_gradient", Pure, accuracy=Accuracy(ulp=16, absolute=128, summed=16))
class GRUGradient(Op):
    """What `dstates`, the gradient of the states that `nn.gru` gave, makes of its `x`, of u = state weightᵀ + bias in each step, and of
    `first`.

        %dx, %du, %ds = nn.gru_gradient %x, %w, %s, %h, %d, %b : tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>
        // %x: tensor<3x2x12xf32>, %w: tensor<12x4xf32>, %s: tensor<2x4xf32>, %h: tensor<3x2x4xf32>, %d: tensor<3x2x4xf32>,
        // %b: tensor<12xf32>

    `states` is what `nn.gru` gave for the operands before it. The gates are made again, all steps at once; then the steps run backward,
    each handing du[t] weight and its share of the state to the step before. dx and du differ in the last block, du_c = r dx_c. Steps that a
    sequence has not pass gradients on and give none. The gradients of weight and bias are a matrix product of du and the states before each
    step, and a sum of du. `bias`, `lengths` and `reverse` are those of `nn.gru`.
    """

    x = operand()
    weight = operand()
    first = operand()
    states = operand()
    dstates = operand()
    bias = optional()
    lengths = optional()
    reverse = attr(bool, default=False)

    @staticmethod
    def infer(
        x: TensorType,
        weight: TensorType,
        first: TensorType,
        states: TensorType,
        dstates: TensorType,
        bias: TensorType | None,
        lengths: TensorType | None,
        *,
        reverse: bool,
    ) -> tuple[TensorType, ...]:
        _check_sequence(x, weight, [("first", first), ("states", states), ("dstates", dstates), ("bias", bias)], lengths, 3)
        return x, x, first

    @staticmethod
    def reference(
        x: Array,
        weight: Array,
        first: Array,
        states: Array,
        dstates: Array,
        bias: Array | None,
        lengths: Array | None,
        *,
        reverse: bool,
    ) -> tuple[Array, ...]:
        w, v, seeds = _wide(weight), _wide(x), _wide(dstates)
        before = _before(_wide(first), _wide(states), reverse)
        size = first.shape[1]
        dx, dh = np.zeros(x.shape, w.dtype), np.zeros(first.shape, w.dtype)
        du = np.zeros_like(dx)
        running = _running(lengths, x.shape[0])
        with np.errstate(all="ignore"):
            u = before @ w.T if bias is None else before @ w.T + _wide(bias)
            r, z = np.split(_sigmoid(v[..., : 2 * size] + u[..., : 2 * size]), 2, axis=-1)
            c = np.tanh(v[..., 2 * size :] + r * u[..., 2 * size :])
            inner = (1 - z) * (1 - np.square(c))  # of dh, what goes to the third block
            of_r, of_z = inner * u[..., 2 * size :] * r * (1 - r), (before - c) * z * (1 - z)
            shares = np.concatenate([of_r, of_z, inner], axis=-1)
            hidden_shares = np.concatenate([of_r, of_z, inner * r], axis=-1)
            for t in _order(x.shape[0], not reverse):
                dh = dh + seeds[t]
                thrice = np.concatenate([dh, dh, dh], axis=-1)
                dx[t], du[t] = _kept(running, t, thrice * shares[t], 0), _kept(running, t, thrice * hidden_shares[t], 0)
                dh = _kept(running, t, dh * z[t] + du[t] @ w, dh)
        kind = x.dtype
        return dx.astype(kind, copy=False), du.astype(kind, copy=False), dh.astype(kind, copy=False)
