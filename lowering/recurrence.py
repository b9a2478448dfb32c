"""Recurrent layers taken apart, step by step, in `nn` ops.

The steps stand one after the other, so their number must be known; what all of them share (the gates' inputs in backward, lengths) is made at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from polyreme.dialects.nn import (
    Add,
    Concat,
    Full,
    Greater,
    Iota,
    Less,
    MatMul,
    Mul,
    Relu,
    Reshape,
    Sigmoid,
    Slice,
    Square,
    Sub,
    Tanh,
    Where,
)
from polyreme.ir.diagnostics import UNKNOWN, PassError
from polyreme.lowering.normalization import cast, wide

Value = Any  # an IR value, or an eager tensor: anything with `.type`
Emitter = Any  # emits an op, by its class


def _part(b: Emitter, x: Value, axis: int, start: Any, stop: Any) -> Value:
    """The elements [start, stop) along `axis`."""
    shape = x.type.shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(shape))
    return b(Slice, x, starts=starts, stops=stops, strides=(1,) * len(shape))


def states_before(b: Emitter, first: Value, states: Value, reverse: bool) -> Value:
    """The states before every step, from `first`, the one before all, and those after every step."""
    steps = states.type.shape[0]
    if steps == 0:
        return states
    lead = b(Reshape, first, shape=(1, *first.type.shape))
    if steps == 1:
        return lead
    return b(Concat, [_part(b, states, 0, 1, steps), lead] if reverse else [lead, _part(b, states, 0, 0, steps - 1)], axis=0)


class _Steps:
    """The steps of a recurrent op one by one: slices of what comes in, and what comes out put together."""

    def __init__(self, op: Any, b: Emitter, x: Value, lengths: Value | None, hidden: Any):
        self.b, self.hidden = b, hidden
        self.count, self.batch, _ = x.type.shape
        if not isinstance(self.count, int):
            raise PassError(
                f"expected a known number of steps for a recurrent layer, which is compiled step by step, but got {self.count}; "
                "give its size, as in InputSpec([None, 20, 8])", getattr(op, "location", UNKNOWN), code="E0406",
            )  # fmt: skip
        self.kind = x.type.dtype
        self.running = None
        if lengths is not None:
            numbers = b(Iota, shape=(self.count, 1, 1), axis=0, dtype=lengths.type.dtype)
            self.running = b(Less, numbers, b(Reshape, lengths, shape=(1, self.batch, 1)))

    def order(self, reverse: bool) -> range:
        return range(self.count - 1, -1, -1) if reverse else range(self.count)

    def at(self, x: Value, t: int) -> Value:
        """Step `t` of [steps, batch, n]."""
        return self.b(Reshape, _part(self.b, x, 0, t, t + 1), shape=x.type.shape[1:])

    def kept(self, t: int, made: Value, state: Value) -> Value:
        """What is made in step `t`, or `state` in sequences that are over."""
        return made if self.running is None else self.b(Where, self.at(self.running, t), made, state)

    def nothing(self, t: int, made: Value) -> Value:
        """What is made in step `t`, or 0 in sequences that are over."""
        return made if self.running is None else self.kept(t, made, self.b(Full, value=0, dtype=made.type.dtype))

    def whole(self, parts: dict[int, Value], size: Any) -> Value:
        """[steps, batch, size] of what the steps made, in the element type of the op's operands."""
        b = self.b
        if not self.count:
            return b(Full, value=0, shape=(0, self.batch, size), dtype=self.kind)
        rows = [b(Reshape, parts[t], shape=(1, self.batch, size)) for t in range(self.count)]
        return cast(b, b(Concat, rows, axis=0), self.kind)

    def blocks(self, x: Value, count: int) -> list[Value]:
        """The `count` blocks of `hidden` elements along the last axis."""
        last = len(x.type.shape) - 1
        return [_part(self.b, x, last, k * self.hidden, (k + 1) * self.hidden) for k in range(count)]


def _product(b: Emitter, factors: Sequence[Value]) -> Value:
    made = factors[0]
    for factor in factors[1:]:
        made = b(Mul, made, factor)
    return made


def _rest(b: Emitter, x: Value) -> Value:
    """1 - x"""
    return b(Sub, b(Full, value=1, dtype=x.type.dtype), x)


def _through(b: Emitter, state: Value, weight: Value) -> Value:
    """state weightᵀ"""
    return b(MatMul, state, weight, transpose_y=True)


def _zeros(b: Emitter, like: Value) -> Value:
    return b(Full, value=0, shape=like.type.shape, dtype=like.type.dtype)


def _wide_all(b: Emitter, *xs: Value | None) -> Iterable[Value]:
    return (None if x is None else wide(b, x) for x in xs)


def simple_rnn(op: Any, b: Emitter, x: Value, weight: Value, first: Value, lengths: Value | None) -> Value:
    """state = activation(x[t] + state weightᵀ), for each t"""
    steps = _Steps(op, b, x, lengths, first.type.shape[1])
    v, w, state = _wide_all(b, x, weight, first)
    states = {}
    for t in steps.order(op.reverse):
        made = b(Tanh if op.activation == "tanh" else Relu, b(Add, steps.at(v, t), _through(b, state, w)))
        states[t] = state = steps.kept(t, made, state)
    return steps.whole(states, steps.hidden)


def simple_rnn_gradient(op: Any, b: Emitter, weight: Value, states: Value, dstates: Value, lengths: Value | None) -> tuple[Value, ...]:
    """dx[t] = (dstates[t] + dstate) activation', dstate = dx[t] weight, for each t backward"""
    steps = _Steps(op, b, states, lengths, states.type.shape[2])
    w, h, seeds = _wide_all(b, weight, states, dstates)
    zero = b(Full, value=0, dtype=h.type.dtype)
    slope = _rest(b, b(Square, h)) if op.activation == "tanh" else cast(b, b(Greater, h, zero), h.type.dtype)
    dstate = b(Full, value=0, shape=h.type.shape[1:], dtype=h.type.dtype)
    dx = {}
    for t in steps.order(not op.reverse):
        dstate = b(Add, dstate, steps.at(seeds, t))
        dx[t] = steps.nothing(t, b(Mul, dstate, steps.at(slope, t)))
        dstate = steps.kept(t, b(MatMul, dx[t], w), dstate)
    return steps.whole(dx, steps.hidden), cast(b, dstate, steps.kind)


def lstm(op: Any, b: Emitter, x: Value, weight: Value, first: Value, first_cell: Value, lengths: Value | None) -> tuple[Value, ...]:
    """cell = sigmoid(f) cell + sigmoid(i) tanh(g), state = sigmoid(o) tanh(cell), for each t"""
    steps = _Steps(op, b, x, lengths, first.type.shape[1])
    v, w, state, cell = _wide_all(b, x, weight, first, first_cell)
    states, cells = {}, {}
    for t in steps.order(op.reverse):
        i, f, g, o = steps.blocks(b(Add, steps.at(v, t), _through(b, state, w)), 4)
        made = b(Add, b(Mul, b(Sigmoid, f), cell), b(Mul, b(Sigmoid, i), b(Tanh, g)))
        cells[t] = cell = steps.kept(t, made, cell)
        states[t] = state = steps.kept(t, b(Mul, b(Sigmoid, o), b(Tanh, made)), state)
    return steps.whole(states, steps.hidden), steps.whole(cells, steps.hidden)


def lstm_gradient(
    op: Any,
    b: Emitter,
    x: Value,
    weight: Value,
    first: Value,
    first_cell: Value,
    states: Value,
    cells: Value,
    dstates: Value,
    dcells: Value | None,
    lengths: Value | None,
) -> tuple[Value, ...]:
    """dx[t] = what dstate and dcell make of the four gates, made again; dstate = dx[t] weight, dcell = its share through f, for each t backward"""
    steps = _Steps(op, b, x, lengths, first.type.shape[1])
    v, w, h, c, h0, c0, seeds, cell_seeds = _wide_all(b, x, weight, states, cells, first, first_cell, dstates, dcells)
    before = states_before(b, c0, c, op.reverse)
    i, f, g, o = steps.blocks(b(Add, v, _through(b, states_before(b, h0, h, op.reverse), w)), 4)
    i, f, g, o, bent = b(Sigmoid, i), b(Sigmoid, f), b(Tanh, g), b(Sigmoid, o), b(Tanh, c)
    shares = [
        _product(b, [g, i, _rest(b, i)]), _product(b, [before, f, _rest(b, f)]), b(Mul, i, _rest(b, b(Square, g))), _product(b, [bent, o, _rest(b, o)]),
    ]  # fmt: skip
    through = b(Mul, o, _rest(b, b(Square, bent)))
    dstate = dcell = _zeros(b, h0)
    dx = {}
    for t in steps.order(not op.reverse):
        dstate = b(Add, dstate, steps.at(seeds, t))
        if cell_seeds is not None:
            dcell = b(Add, dcell, steps.at(cell_seeds, t))
        inner = b(Add, dcell, b(Mul, dstate, steps.at(through, t)))
        made = [b(Mul, d, steps.at(share, t)) for d, share in zip((inner, inner, inner, dstate), shares, strict=True)]
        dx[t] = steps.nothing(t, b(Concat, made, axis=1))
        dstate = steps.kept(t, b(MatMul, dx[t], w), dstate)
        dcell = steps.kept(t, b(Mul, inner, steps.at(f, t)), dcell)
    return steps.whole(dx, x.type.shape[2]), cast(b, dstate, steps.kind), cast(b, dcell, steps.kind)


def gru(op: Any, b: Emitter, x: Value, weight: Value, first: Value, bias: Value | None, lengths: Value | None) -> Value:
    """state = z state + (1 - z) tanh(x_c + r u_c), with r, z, u of the blocks of x[t] and state weightᵀ + bias, for each t"""
    steps = _Steps(op, b, x, lengths, first.type.shape[1])
    v, w, state, shift = _wide_all(b, x, weight, first, bias)
    states = {}
    for t in steps.order(op.reverse):
        u = _through(b, state, w)
        r, z, c, _ = _gru_gates(b, steps, steps.at(v, t), u if shift is None else b(Add, u, shift))
        states[t] = state = steps.kept(t, b(Add, b(Mul, b(Sub, state, c), z), c), state)
    return steps.whole(states, steps.hidden)


def _gru_gates(b: Emitter, steps: _Steps, x: Value, u: Value) -> tuple[Value, ...]:
    """r, z, c, and the third block of u."""
    xr, xz, xc = steps.blocks(x, 3)
    ur, uz, uc = steps.blocks(u, 3)
    r, z = b(Sigmoid, b(Add, xr, ur)), b(Sigmoid, b(Add, xz, uz))
    return r, z, b(Tanh, b(Add, xc, b(Mul, r, uc))), uc


def gru_gradient(
    op: Any,
    b: Emitter,
    x: Value,
    weight: Value,
    first: Value,
    states: Value,
    dstates: Value,
    bias: Value | None,
    lengths: Value | None,
) -> tuple[Value, ...]:
    """dx[t], du[t] = what dstate makes of the gates, made again; dstate = z dstate + du[t] weight, for each t backward"""
    steps = _Steps(op, b, x, lengths, first.type.shape[1])
    v, w, h, h0, seeds, shift = _wide_all(b, x, weight, states, first, dstates, bias)
    before = states_before(b, h0, h, op.reverse)
    u = _through(b, before, w)
    r, z, c, uc = _gru_gates(b, steps, v, u if shift is None else b(Add, u, shift))
    inner = b(Mul, _rest(b, z), _rest(b, b(Square, c)))
    shares = [_product(b, [inner, uc, r, _rest(b, r)]), _product(b, [b(Sub, before, c), z, _rest(b, z)])]
    dstate = _zeros(b, h0)
    dx, du = {}, {}
    for t in steps.order(not op.reverse):
        dstate = b(Add, dstate, steps.at(seeds, t))
        made = [b(Mul, dstate, steps.at(share, t)) for share in shares]
        last = b(Mul, dstate, steps.at(inner, t))
        dx[t] = steps.nothing(t, b(Concat, [*made, last], axis=1))
        du[t] = steps.nothing(t, b(Concat, [*made, b(Mul, last, steps.at(r, t))], axis=1))
        dstate = steps.kept(t, b(Add, b(Mul, dstate, steps.at(z, t)), b(MatMul, du[t], w)), dstate)
    size = x.type.shape[2]
    return steps.whole(dx, size), steps.whole(du, size), cast(b, dstate, steps.kind)
