"""Recurrent layers over sequences, and single steps of them."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.framework import in_dygraph_mode
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.nn import fc
from polyreme.fluid.layers.tensor import concat
from polyreme.fluid.param_attr import ParamAttr
from polyreme.names import listed

__all__ = ["dynamic_gru", "dynamic_lstm", "dynamic_lstmp", "gru_unit", "lstm", "lstm_unit"]

_NUMBERS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def _check_first(name: str, value: Any, size: int) -> None:
    """Refuse a first state that is not [sequences, size]."""
    if value is not None and (len(value.shape) != 2 or value.shape[1] != size):
        raise ValueError(f"The shape of {name} should be (batch_size, {size}) but got {tuple(value.shape)}")


def _not_at_once(function: str, instead: str) -> None:
    if in_dygraph_mode():
        raise RuntimeError(f"{function} takes sequences with levels of detail, which dygraph mode has not: use {instead}")


def _variables(helper: LayerHelper, dtype: Any, count: int) -> list[Any]:
    return [helper.create_variable_for_type_inference(dtype) for _ in range(count)]


@takes("input")
def dynamic_lstm(
    input: Any, size: int, h_0: Any = None, c_0: Any = None, param_attr: Any = None, bias_attr: Any = None, use_peepholes: bool = True,
    is_reverse: bool = False, gate_activation: str = "sigmoid", cell_activation: str = "tanh", candidate_activation: str = "tanh",
    dtype: Any = "float32", name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """An LSTM over sequences of gates [rows, size], which an `fc` has made: outputs and cells [rows, size / 4], as sequences."""
    _not_at_once("dynamic_lstm", "paddle.nn.LSTM")
    if bias_attr is False:
        raise ValueError("bias_attr should not be False in dynamic_lstm.")
    helper = LayerHelper("lstm", param_attr=param_attr, bias_attr=bias_attr, name=name)
    hidden_size = size // 4
    _check_first("h0", h_0, hidden_size)
    _check_first("c0", c_0, hidden_size)
    weight = helper.create_parameter(helper.param_attr, [hidden_size, 4 * hidden_size], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, (7 if use_peepholes else 4) * hidden_size], dtype, is_bias=True)
    hidden, cell, gates, before = _variables(helper, dtype, 4)
    slots = {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0, "C0": c_0}
    attrs = {
        "use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation, "cell_activation": cell_activation,
        "candidate_activation": candidate_activation,
    }  # fmt: skip
    helper.append_op("lstm", slots, {"Hidden": hidden, "Cell": cell, "BatchGate": gates, "BatchCellPreAct": before}, attrs)
    return hidden, cell


@takes("input")
def dynamic_lstmp(
    input: Any, size: int, proj_size: int, param_attr: Any = None, bias_attr: Any = None, use_peepholes: bool = True,
    is_reverse: bool = False, gate_activation: str = "sigmoid", cell_activation: str = "tanh", candidate_activation: str = "tanh",
    proj_activation: str = "tanh", dtype: Any = "float32", name: str | None = None, h_0: Any = None, c_0: Any = None,
    cell_clip: float | None = None, proj_clip: float | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """As `dynamic_lstm`, with outputs projected to [rows, proj_size], which the next step sees; `cell_clip` and `proj_clip` bound both."""
    _not_at_once("dynamic_lstmp", "paddle.nn.LSTM")
    if bias_attr is False:
        raise ValueError("bias_attr should not be False in dynamic_lstmp.")
    helper = LayerHelper("lstmp", param_attr=param_attr, bias_attr=bias_attr, name=name)
    hidden_size = size // 4
    _check_first("h0", h_0, proj_size)
    _check_first("c0", c_0, hidden_size)
    weight = helper.create_parameter(helper.param_attr, [proj_size, 4 * hidden_size], dtype)
    projection = helper.create_parameter(helper.param_attr, [hidden_size, proj_size], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, (7 if use_peepholes else 4) * hidden_size], dtype, is_bias=True)
    out, cell, hidden, gates, before = _variables(helper, dtype, 5)
    slots = {"Input": input, "Weight": weight, "ProjWeight": projection, "Bias": bias, "H0": h_0, "C0": c_0}
    outputs = {"Projection": out, "Cell": cell, "BatchHidden": hidden, "BatchGate": gates, "BatchCellPreAct": before}
    attrs = {
        "use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation, "cell_activation": cell_activation,
        "candidate_activation": candidate_activation, "proj_activation": proj_activation, "cell_clip": cell_clip, "proj_clip": proj_clip,
    }  # fmt: skip
    helper.append_op("lstmp", slots, outputs, attrs)
    return out, cell


@takes("input")
def dynamic_gru(
    input: Any, size: int, param_attr: Any = None, bias_attr: Any = None, is_reverse: bool = False, gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh", h_0: Any = None, origin_mode: bool = False,
) -> Any:  # fmt: skip
    """A GRU over sequences of gates [rows, 3 * size], which an `fc` has made: states [rows, size], as sequences."""
    _not_at_once("dynamic_gru", "paddle.nn.GRU")
    helper = LayerHelper("gru", param_attr=param_attr, bias_attr=bias_attr)
    dtype = input.dtype
    _check_first("h0", h_0, size)
    weight = helper.create_parameter(helper.param_attr, [size, 3 * size], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, 3 * size], dtype, is_bias=True)
    hidden, gates, kept, before = _variables(helper, dtype, 4)
    outputs = {"Hidden": hidden, "BatchGate": gates, "BatchResetHiddenPrev": kept, "BatchHidden": before}
    attrs = {
        "is_reverse": is_reverse, "gate_activation": gate_activation, "activation": candidate_activation, "origin_mode": origin_mode,
    }  # fmt: skip
    helper.append_op("gru", {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0}, outputs, attrs)
    return hidden


@takes("input", "hidden")
def gru_unit(
    input: Any, hidden: Any, size: int, param_attr: Any = None, bias_attr: Any = None, activation: str = "tanh",
    gate_activation: str = "sigmoid", origin_mode: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """One step of a GRU whose gates are `input` [N, size], from `hidden` [N, size / 3]: the state behind it, what the reset gate lets
    through of the one before, and the gates.
    """
    helper = LayerHelper("gru_unit", param_attr=param_attr, bias_attr=bias_attr)
    dtype = input.dtype
    hidden_size = size // 3
    weight = helper.create_parameter(helper.param_attr, [hidden_size, 3 * hidden_size], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, 3 * hidden_size], dtype, is_bias=True)
    gates, kept, after = _variables(helper, dtype, 3)
    attrs = {"activation": _NUMBERS[activation], "gate_activation": _NUMBERS[gate_activation], "origin_mode": origin_mode}
    slots = {"Input": input, "HiddenPrev": hidden, "Weight": weight, "Bias": bias}
    helper.append_op("gru_unit", slots, {"Gate": gates, "ResetHiddenPrev": kept, "Hidden": after}, attrs)
    return after, kept, gates


@takes("x_t", "hidden_t_prev", "cell_t_prev")
def lstm_unit(
    x_t: Any, hidden_t_prev: Any, cell_t_prev: Any, forget_bias: float = 0.0, param_attr: Any = None, bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """One step of an LSTM without peepholes: the output and the cell behind it, [N, size]."""
    for what, given in (("x_t", x_t), ("hidden_t_prev", hidden_t_prev), ("cell_t_prev", cell_t_prev)):
        if len(given.shape) != 2:
            raise ValueError(f"Rank of {what} must be 2.")
    if not x_t.shape[0] == hidden_t_prev.shape[0] == cell_t_prev.shape[0]:
        raise ValueError("The 1st dimensions of x_t, hidden_t_prev and cell_t_prev must be the same.")
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError("The 2nd dimensions of hidden_t_prev and cell_t_prev must be the same.")
    helper = LayerHelper("lstm_unit", name=name)
    both = concat([x_t, hidden_t_prev], axis=1)
    gates = fc(both, 4 * cell_t_prev.shape[1], param_attr=param_attr, bias_attr=ParamAttr() if bias_attr is None else bias_attr)
    cell, hidden = _variables(helper, x_t.dtype, 2)
    helper.append_op("lstm_unit", {"X": gates, "C_prev": cell_t_prev}, {"C": cell, "H": hidden}, {"forget_bias": forget_bias})
    return hidden, cell


@takes("input", "init_h", "init_c")
def lstm(
    input: Any, init_h: Any, init_c: Any, max_len: int, hidden_size: int, num_layers: int, dropout_prob: float = 0.0,
    is_bidirec: bool = False, is_test: bool = False, name: str | None = None, default_initializer: Any = None, seed: int = -1,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """An LSTM of several layers over steps [steps, batch, size]: outputs [steps, batch, directions * hidden_size], and the last states and
    cells [num_layers * directions, batch, hidden_size], which is also the shape of `init_h` and `init_c`. Between layers numbers become 0
    with the probability `dropout_prob`.

    Paddle 1.8.5 has it for GPUs only, by cuDNN; here it runs everywhere. Its weights are one parameter as cuDNN keeps them: of each layer
    and direction those of the input and of the state, gates in the order i, f, g, o, and behind all of them two biases each. As in cuDNN no
    result depends on `max_len`. A `seed` does not count: dropout draws from the program's generator.
    """
    for what, value in (("max_len", max_len), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if not isinstance(value, int):
            raise TypeError(f"The type of '{what}' in lstm must be int, but received {type(value)} ({value!r}).")
    helper = LayerHelper("cudnn_lstm", name=name)
    directions = 2 if is_bidirec else 1
    total = 0
    for layer in range(num_layers):
        given = hidden_size * directions if layer else int(input.shape[-1])
        total += directions * 4 * hidden_size * (given + hidden_size + 2)
    weight = helper.create_parameter(None, [total], input.dtype, default_initializer=default_initializer)
    out, last_h, last_c = _variables(helper, input.dtype, 3)
    attrs = {
        "max_len": max_len, "is_bidirec": is_bidirec, "input_size": int(input.shape[-1]), "hidden_size": hidden_size,
        "num_layers": num_layers, "is_test": is_test, "dropout_prob": dropout_prob, "seed": seed,
    }  # fmt: skip
    slots = {"Input": input, "InitH": init_h, "InitC": init_c, "W": weight}
    helper.append_op("cudnn_lstm", slots, {"Out": out, "last_h": last_h, "last_c": last_c}, attrs)
    return out, last_h, last_c


__dir__ = listed(__name__)
