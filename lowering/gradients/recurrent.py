"""Gradients of recurrent layers: backward through time by an op of its own, gradients of weights by one matrix product over all steps.

The ops of backward have gradients, too, by way of the steps they are made of: slow, but rarely asked for.
"""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import GRU, LSTM, GRUGradient, LSTMGradient, MatMul, Reshape, SimpleRNN, SimpleRNNGradient, Sum
from polyreme.ir.dims import product
from polyreme.lowering.decompose import recurrence
from polyreme.lowering.decompose.recurrence import states_before
from polyreme.lowering.gradients.composite import gradients_through
from polyreme.lowering.gradients.table import Emitter, Value, gradient, zeros_like


def _rows(b: Emitter, x: Value) -> Value:
    """[steps, batch, n] as [steps * batch, n]."""
    steps, batch, size = x.type.shape
    return b(Reshape, x, shape=(product((steps, batch)), size))


def _weight(b: Emitter, du: Value, first: Value, states: Value, reverse: bool) -> Value:
    """The sum over all steps of du[t]ᵀ by the states before the step"""
    return b(MatMul, _rows(b, du), _rows(b, states_before(b, first, states, reverse)), transpose_x=True)


@gradient(SimpleRNN)
def simple_rnn(op: Any, b: Emitter, dstates: Value) -> Any:
    """dx and dfirst by `nn.simple_rnn_gradient`, dweight = the sum of dx[t]ᵀ by the states before"""
    dx, dfirst = b(SimpleRNNGradient, op.weight, op.result, dstates, op.lengths, activation=op.activation, reverse=op.reverse)
    return dx, _weight(b, dx, op.first, op.result, op.reverse), dfirst, None


@gradient(LSTM)
def lstm(op: Any, b: Emitter, dstates: Value | None, dcells: Value | None) -> Any:
    """dx, dfirst and dfirst_cell by `nn.lstm_gradient`, dweight = the sum of dx[t]ᵀ by the hidden states before"""
    states, cells = op.results
    seed = zeros_like(b, states) if dstates is None else dstates
    dx, dfirst, dcell = b(
        LSTMGradient, op.x, op.weight, op.first, op.first_cell, states, cells, seed, dcells, op.lengths, reverse=op.reverse
    )
    return dx, _weight(b, dx, op.first, states, op.reverse), dfirst, dcell, None


@gradient(GRU)
def gru(op: Any, b: Emitter, dstates: Value) -> Any:
    """dx, du and dfirst by `nn.gru_gradient`, dweight = the sum of du[t]ᵀ by the states before, dbias = the sum of du"""
    dx, du, dfirst = b(GRUGradient, op.x, op.weight, op.first, op.result, dstates, op.bias, op.lengths, reverse=op.reverse)
    dbias = None if op.bias is None else b(Sum, du, axis=(0, 1))
    return dx, _weight(b, du, op.first, op.result, op.reverse), dfirst, dbias, None


@gradient(SimpleRNNGradient)
def second_of_simple_rnn(op: Any, b: Emitter, *grads: Value | None) -> Any:
    """by the steps it is made of"""
    operands = (op.weight, op.states, op.dstates, op.lengths)
    return gradients_through(b, lambda emit: recurrence.simple_rnn_gradient(op, emit, *operands, loop=recurrence.unrolled), operands, grads)


@gradient(LSTMGradient)
def second_of_lstm(op: Any, b: Emitter, *grads: Value | None) -> Any:
    """by the steps it is made of"""
    operands = (op.x, op.weight, op.first, op.first_cell, op.states, op.cells, op.dstates, op.dcells, op.lengths)
    return gradients_through(b, lambda emit: recurrence.lstm_gradient(op, emit, *operands, loop=recurrence.unrolled), operands, grads)


@gradient(GRUGradient)
def second_of_gru(op: Any, b: Emitter, *grads: Value | None) -> Any:
    """by the steps it is made of"""
    operands = (op.x, op.weight, op.first, op.states, op.dstates, op.bias, op.lengths)
    return gradients_through(b, lambda emit: recurrence.gru_gradient(op, emit, *operands, loop=recurrence.unrolled), operands, grads)
