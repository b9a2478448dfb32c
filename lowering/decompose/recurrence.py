"""Recurrent layers taken apart: what one step computes in `nn` ops, and how the steps are run.

When a model is compiled they become one `tensor.scan` for any number of steps. Gradients of gradients need them one after the other
(`unrolled`), so that their number must be known then. What all steps share, the gates' inputs in backward for example, is made at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from polyreme.dialects import tensor
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
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Region
from polyreme.ir.diagnostics import UNKNOWN, PassError
from polyreme.ir.dims import floordiv
from polyreme.lowering.decompose.normalization import cast, wide

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
    lead = b(Reshape, first, shape=(1, *first.type.shape))
    # All of them, and then one less: so that it holds for no steps as well.
    if reverse:
        return _part(b, b(Concat, [states, lead], axis=0), 0, 1, steps + 1)
    return _part(b, b(Concat, [lead, states], axis=0), 0, 0, steps)


# One step: an emitter, the step's own parts, what the step before handed on, and what all steps share, to what it hands on and what it
# gives.
Step = Callable[[Emitter, Sequence[Value], Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]


def scanned(
    op: Any, b: Builder, step: Step, xs: Sequence[Value], inits: Sequence[Value], shared: Sequence[Value], reverse: bool
) -> tuple[Sequence[Value], Sequence[Value]]:
    """What the last step hands on, and what all steps give: as one `tensor.scan` over the first axis of `xs`."""
    parts = [*(x.type.with_shape(x.type.shape[1:]) for x in xs), *(x.type for x in inits), *(x.type for x in shared)]
    block = Block(parts)
    inside = Builder.at_end(block, b.loc)
    first, second = len(xs), len(xs) + len(inits)
    handed, given = step(inside, block.args[:first], block.args[first:second], block.args[second:])
    inside.insert(tensor.Yield([*handed, *given]))
    scan = b.insert_op(tensor.Scan(xs, inits, shared, steps=xs[0].type.shape[0], reverse=reverse, body=Region(block)))
    return scan.results[: len(inits)], scan.results[len(inits) :]


def unrolled(
    op: Any, b: Emitter, step: Step, xs: Sequence[Value], inits: Sequence[Value], shared: Sequence[Value], reverse: bool
) -> tuple[Sequence[Value], Sequence[Value]]:
    """The same, step by step."""
    steps = xs[0].type.shape[0]
    if not isinstance(steps, int):
        raise PassError(
            "expected a known number of steps for gradients of the gradients of a recurrent layer, which are taken step by step, "
            f"but got {steps}; give its size, as in InputSpec([None, 20, 8])", getattr(op, "location", UNKNOWN), code="E0406",
        )  # fmt: skip
    handed: Sequence[Value] = inits
    given: dict[int, Sequence[Value]] = {}
    if not steps:
        _, example = step(b, [b(Full, value=0, shape=x.type.shape[1:], dtype=x.type.dtype) for x in xs], handed, shared)
        return inits, [b(Full, value=0, shape=(0, *y.type.shape), dtype=y.type.dtype) for y in example]
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        handed, given[t] = step(b, [b(Reshape, _part(b, x, 0, t, t + 1), shape=x.type.shape[1:]) for x in xs], handed, shared)
    rows = [[b(Reshape, y, shape=(1, *y.type.shape)) for y in given[t]] for t in range(steps)]
    return handed, [b(Concat, list(column), axis=0) for column in zip(*rows, strict=True)]


def _running(b: Emitter, steps: Any, lengths: Value | None) -> list[Value]:
    """[steps, batch, 1], whether a sequence has that step, as the only element; nothing where all have all steps."""
    if lengths is None:
        return []
    numbers = b(Iota, shape=(steps, 1, 1), axis=0, dtype=lengths.type.dtype)
    return [b(Less, numbers, b(Reshape, lengths, shape=(1, lengths.type.shape[0], 1)))]


def _kept(b: Emitter, on: Sequence[Value], made: Value, state: Value) -> Value:
    """What a step makes, or `state` in sequences that are over."""
    return b(Where, on[0], made, state) if on else made


def _nothing(b: Emitter, on: Sequence[Value], made: Value) -> Value:
    """What a step makes, or 0 in sequences that are over."""
    return b(Where, on[0], made, b(Full, value=0, dtype=made.type.dtype)) if on else made


def _blocks(b: Emitter, x: Value, count: int) -> list[Value]:
    """The `count` equal blocks of the last axis."""
    last = len(x.type.shape) - 1
    size = floordiv(x.type.shape[last], count)
    return [_part(b, x, last, k * size, (k + 1) * size) for k in range(count)]


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


def simple_rnn(op: Any, b: Emitter, x: Value, weight: Value, first: Value, lengths: Value | None, loop: Any = scanned) -> Value:
    """state = activation(x[t] + state weightᵀ), for each t"""
    v, w, state = _wide_all(b, x, weight, first)

    def step(b: Emitter, xs: Sequence[Value], handed: Sequence[Value], shared: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        (gate, *on), (state,), (w,) = xs, handed, shared
        made = b(Tanh if op.activation == "tanh" else Relu, b(Add, gate, _through(b, state, w)))
        state = _kept(b, on, made, state)
        return [state], [state]

    _, (states,) = loop(op, b, step, [v, *_running(b, v.type.shape[0], lengths)], [state], [w], op.reverse)
    return cast(b, states, x.type.dtype)


def simple_rnn_gradient(
    op: Any, b: Emitter, weight: Value, states: Value, dstates: Value, lengths: Value | None, loop: Any = scanned
) -> tuple[Value, ...]:
    """dx[t] = (dstates[t] + dstate) activation', dstate = dx[t] weight, for each t backward"""
    w, h, seeds = _wide_all(b, weight, states, dstates)
    zero = b(Full, value=0, dtype=h.type.dtype)
    slope = _rest(b, b(Square, h)) if op.activation == "tanh" else cast(b, b(Greater, h, zero), h.type.dtype)

    def step(b: Emitter, xs: Sequence[Value], handed: Sequence[Value], shared: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        (seed, slope, *on), (dstate,), (w,) = xs, handed, shared
        dstate = b(Add, dstate, seed)
        dx = _nothing(b, on, b(Mul, dstate, slope))
        return [_kept(b, on, b(MatMul, dx, w), dstate)], [dx]

    first = b(Full, value=0, shape=h.type.shape[1:], dtype=h.type.dtype)
    (dfirst,), (dx,) = loop(op, b, step, [seeds, slope, *_running(b, h.type.shape[0], lengths)], [first], [w], not op.reverse)
    kind = states.type.dtype
    return cast(b, dx, kind), cast(b, dfirst, kind)


def lstm(
    op: Any, b: Emitter, x: Value, weight: Value, first: Value, first_cell: Value, lengths: Value | None, loop: Any = scanned
) -> tuple[Value, ...]:
    """cell = sigmoid(f) cell + sigmoid(i) tanh(g), state = sigmoid(o) tanh(cell), for each t"""
    v, w, state, cell = _wide_all(b, x, weight, first, first_cell)

    def step(b: Emitter, xs: Sequence[Value], handed: Sequence[Value], shared: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        (gates, *on), (state, cell), (w,) = xs, handed, shared
        i, f, g, o = _blocks(b, b(Add, gates, _through(b, state, w)), 4)
        made = b(Add, b(Mul, b(Sigmoid, f), cell), b(Mul, b(Sigmoid, i), b(Tanh, g)))
        both = [_kept(b, on, b(Mul, b(Sigmoid, o), b(Tanh, made)), state), _kept(b, on, made, cell)]
        return both, both

    _, (states, cells) = loop(op, b, step, [v, *_running(b, v.type.shape[0], lengths)], [state, cell], [w], op.reverse)
    return cast(b, states, x.type.dtype), cast(b, cells, x.type.dtype)


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
    loop: Any = scanned,
) -> tuple[Value, ...]:
    """dx[t] = what dstate and dcell make of the four gates, made again; dstate = dx[t] weight, dcell = its share through f, for each t
    backward
    """
    v, w, h, c, h0, c0, seeds, cell_seeds = _wide_all(b, x, weight, states, cells, first, first_cell, dstates, dcells)
    before = states_before(b, c0, c, op.reverse)
    i, f, g, o = _blocks(b, b(Add, v, _through(b, states_before(b, h0, h, op.reverse), w)), 4)
    i, f, g, o, bent = b(Sigmoid, i), b(Sigmoid, f), b(Tanh, g), b(Sigmoid, o), b(Tanh, c)
    shares = [
        _product(b, [g, i, _rest(b, i)]), _product(b, [before, f, _rest(b, f)]), b(Mul, i, _rest(b, b(Square, g))),
        _product(b, [bent, o, _rest(b, o)]),
    ]  # fmt: skip
    through = b(Mul, o, _rest(b, b(Square, bent)))
    seeded = [] if cell_seeds is None else [cell_seeds]

    def step(b: Emitter, xs: Sequence[Value], handed: Sequence[Value], shared: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        (seed, through, f, *rest), (dstate, dcell), (w,) = xs, handed, shared
        shares, on = rest[len(seeded) : len(seeded) + 4], rest[len(seeded) + 4 :]
        dstate = b(Add, dstate, seed)
        if seeded:
            dcell = b(Add, dcell, rest[0])
        inner = b(Add, dcell, b(Mul, dstate, through))
        parts = [_nothing(b, on, b(Mul, d, share)) for d, share in zip((inner, inner, inner, dstate), shares, strict=True)]
        dx = b(Concat, parts, axis=1)
        return [_kept(b, on, b(MatMul, dx, w), dstate), _kept(b, on, b(Mul, inner, f), dcell)], [dx]

    xs = [seeds, through, f, *seeded, *shares, *_running(b, v.type.shape[0], lengths)]
    (dfirst, dfirst_cell), (dx,) = loop(op, b, step, xs, [_zeros(b, h0), _zeros(b, h0)], [w], not op.reverse)
    kind = x.type.dtype
    return cast(b, dx, kind), cast(b, dfirst, kind), cast(b, dfirst_cell, kind)


def gru(
    op: Any, b: Emitter, x: Value, weight: Value, first: Value, bias: Value | None, lengths: Value | None, loop: Any = scanned
) -> Value:
    """state = z state + (1 - z) tanh(x_c + r u_c), with r, z, u of the blocks of x[t] and state weightᵀ + bias, for each t"""
    v, w, state, shift = _wide_all(b, x, weight, first, bias)

    def step(b: Emitter, xs: Sequence[Value], handed: Sequence[Value], shared: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        (gates, *on), (state,), (w, *shift) = xs, handed, shared
        u = _through(b, state, w)
        r, z, c, _ = _gru_gates(b, gates, b(Add, u, shift[0]) if shift else u)
        state = _kept(b, on, b(Add, b(Mul, b(Sub, state, c), z), c), state)
        return [state], [state]

    _, (states,) = loop(op, b, step, [v, *_running(b, v.type.shape[0], lengths)], [state], [w, *_row(b, shift)], op.reverse)
    return cast(b, states, x.type.dtype)


def _row(b: Emitter, x: Value | None) -> list[Value]:
    """[n] as [1, n], as the only element; nothing for None."""
    return [] if x is None else [b(Reshape, x, shape=(1, *x.type.shape))]


def _gru_gates(b: Emitter, x: Value, u: Value) -> tuple[Value, ...]:
    """r, z, c, and the third block of u."""
    xr, xz, xc = _blocks(b, x, 3)
    ur, uz, uc = _blocks(b, u, 3)
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
    loop: Any = scanned,
) -> tuple[Value, ...]:
    """dx[t], du[t] = what dstate makes of the gates, made again; dstate = z dstate + du[t] weight, for each t backward"""
    v, w, h, h0, seeds, shift = _wide_all(b, x, weight, states, first, dstates, bias)
    before = states_before(b, h0, h, op.reverse)
    u = _through(b, before, w)
    r, z, c, uc = _gru_gates(b, v, u if shift is None else b(Add, u, shift))
    inner = b(Mul, _rest(b, z), _rest(b, b(Square, c)))
    shares = [_product(b, [inner, uc, r, _rest(b, r)]), _product(b, [b(Sub, before, c), z, _rest(b, z)])]

    def step(b: Emitter, xs: Sequence[Value], handed: Sequence[Value], shared: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        (seed, of_r, of_z, inner, r, z, *on), (dstate,), (w,) = xs, handed, shared
        dstate = b(Add, dstate, seed)
        both = [_nothing(b, on, b(Mul, dstate, share)) for share in (of_r, of_z)]
        last = _nothing(b, on, b(Mul, dstate, inner))
        dx, du = b(Concat, [*both, last], axis=1), b(Concat, [*both, b(Mul, last, r)], axis=1)
        return [_kept(b, on, b(Add, b(Mul, dstate, z), b(MatMul, du, w)), dstate)], [dx, du]

    xs = [seeds, *shares, inner, r, z, *_running(b, v.type.shape[0], lengths)]
    (dfirst,), (dx, du) = loop(op, b, step, xs, [_zeros(b, h0)], [w], not op.reverse)
    kind = x.type.dtype
    return cast(b, dx, kind), cast(b, du, kind), cast(b, dfirst, kind)
