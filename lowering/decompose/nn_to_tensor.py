"""From what a model means to what is computed: every `nn` op as a few `tensor` ops.

Rules keep values whole and repeat nothing by hand: a map repeats sizes of 1 by itself, so after a reduction with `keepdims` everything is a
map again, and whole chains fuse. Sums, maxima and windows are the only things that end a chain.

A rule may make `nn` ops, which are taken apart in turn; so composites are written in the terms in which they are understood.
"""

from __future__ import annotations

import math
from typing import Any

from polyreme.dialects import nn
from polyreme.dialects import tensor as tt
from polyreme.dialects.nn.create import kept_share
from polyreme.dialects.nn.elementwise import ScalarOp
from polyreme.dialects.nn.logic import LogicalOp
from polyreme.dialects.nn.reduce import Reduction, reduction_axes
from polyreme.dialects.shape_rules import number_fits
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.convert import Conversion
from polyreme.ir.core import Op, Region
from polyreme.ir.define import OPS
from polyreme.ir.dims import Dim, Expr, known_nonnegative, product
from polyreme.ir.passes import register_pass
from polyreme.ir.types import ScalarType, TensorType, f32, i1
from polyreme.lowering.decompose import attention, matrices, normalization, quantize, recurrence, windows
from polyreme.lowering.transforms.cleanup import known_number

Value = Any  # at these levels each is a tensor, so its type has a shape, a rank and an element type

nn_to_tensor = register_pass(Conversion("nn-to-tensor", source="nn", target={"tensor"}))


def _ops_of(base: type) -> list[Any]:
    return [cls for cls in OPS.values() if issubclass(cls, base)]


# --- shared steps


def _reshape(b: Builder, x: Value, shape: tuple[Dim, ...]) -> Value:
    return x if x.type.shape == shape else b(tt.Reshape, x, shape=shape)


def _lift(b: Builder, x: Value, rank: int) -> Value:
    """`x` with sizes of 1 in front, so that its axes line up with those of a value of `rank`; numbers stay as they are."""
    shape = x.type.shape
    return x if not shape else _reshape(b, x, (*(1,) * (rank - len(shape)), *shape))


def _map(b: Builder, fn: str, *xs: Value, dtype: ScalarType | None = None) -> Value:
    """A map by numpy's broadcasting."""
    rank = max(x.type.rank for x in xs)
    return b(tt.Map, *(_lift(b, x, rank) for x in xs), fn=fn, dtype=dtype)


def _number(b: Builder, value: float, dtype: ScalarType) -> Value:
    return b(tt.Full, value=value, dtype=dtype)


def _reduce(b: Builder, x: Value, fn: str, axes: tuple[int, ...], keepdims: bool = True) -> Value:
    return b(tt.Reduce, x, fn=fn, axes=axes, keepdims=keepdims)


def _cast(b: Builder, x: Value, dtype: ScalarType) -> Value:
    return x if x.type.dtype == dtype else _map(b, "cast", x, dtype=dtype)


def _wide(b: Builder, x: Value) -> Value:
    """16-bit floats as float32, in which composites are computed before they are rounded once."""
    return _cast(b, x, f32) if x.type.dtype.is_float and x.type.dtype.bits == 16 else x


# --- complex numbers


def _part(b: Builder, x: Value, k: int) -> Value:
    """Part `k` of complex numbers, with an axis of size 1."""
    shape = x.type.shape
    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    return b(tt.Slice, b(tt.Pairs, x), starts=(*zeros, k), stops=(*shape, k + 1), strides=(*ones, 1))


def _of_parts(b: Builder, re: Value, im: Value) -> Value:
    """Complex numbers of parts with an axis of size 1."""
    return b(tt.Pairs, b(tt.Concat, [re, im], axis=re.type.rank - 1))


@nn_to_tensor.lower(nn.Real)
def real(op: Any, b: Builder, x: Value) -> Value:
    return _reshape(b, _part(b, x, 0), x.type.shape)


@nn_to_tensor.lower(nn.Imag)
def imag(op: Any, b: Builder, x: Value) -> Value:
    return _reshape(b, _part(b, x, 1), x.type.shape)


@nn_to_tensor.lower(nn.Conj)
def conj(op: Any, b: Builder, x: Value) -> Value:
    return _of_parts(b, _part(b, x, 0), _map(b, "neg", _part(b, x, 1)))


@nn_to_tensor.lower(nn.Complex)
def complex_(op: Any, b: Builder, re: Value, im: Value) -> Value:
    shape = op.result.type.shape
    parts = (b(tt.Broadcast, _lift(b, x, len(shape)) if x.type.rank else _reshape(b, x, (1,) * len(shape)), shape=shape) for x in (re, im))
    re, im = (_reshape(b, x, (*shape, 1)) for x in parts)
    return _of_parts(b, re, im)


# --- values from nothing, and random numbers


@nn_to_tensor.lower(nn.Constant)
def constant(op: Any, b: Builder) -> Value:
    return b(tt.Constant, value=op.value)


@nn_to_tensor.lower(nn.Full)
def full(op: Any, b: Builder) -> Value:
    return b(tt.Full, value=op.value, shape=op.shape, dtype=op.dtype)


@nn_to_tensor.lower(nn.DimValue)
def dim_value(op: Any, b: Builder) -> Value:
    return b(tt.DimValue, size=op.size, dtype=op.dtype)


@nn_to_tensor.lower(nn.Iota)
def iota(op: Any, b: Builder) -> Value:
    return b(tt.Iota, shape=op.shape, axis=op.axis % len(op.shape), dtype=op.dtype)


@nn_to_tensor.lower(nn.Uniform)
def uniform(op: Any, b: Builder, state: Value) -> Any:
    return b(tt.Random, state, shape=op.shape, low=op.low, high=op.high, dtype=op.dtype)


@nn_to_tensor.lower(nn.Dropout)
def dropout(op: Any, b: Builder, x: Value, draws: Value) -> Value:
    """select(draws >= p, x / (1 - p), 0)"""
    dtype = x.type.dtype
    if op.p == 1:
        return b(tt.Full, value=0, shape=x.type.shape, dtype=dtype)
    kept = x
    if op.mode == "upscale_in_train" and op.p > 0:
        kept = _map(b, "div", x, _number(b, float(kept_share(op.p, dtype.np)), dtype))
    stays = _map(b, "ge", draws, _number(b, op.p, draws.type.dtype))
    return _map(b, "select", stays, kept, _number(b, 0, dtype))


# --- elementwise


@nn_to_tensor.lower(*_ops_of(ScalarOp))
def scalar(op: Any, b: Builder, *xs: Value) -> Value:
    """One scalar function at each place."""
    return (_updated(op, b, *xs) if isinstance(op, nn.Add) else None) or _map(b, op.scalar_fn, *xs)


def _updated(op: Any, b: Builder, *xs: Value) -> Value | None:
    """x + scatter_add(u)  ->  scatter(x, u): the updates are added to x, one after the other, and not to zeros first"""
    for x, added in (xs, xs[::-1]):
        made = added.producer(tt.Scatter)
        zeros = made.x.producer(tt.Full) if made is not None and made.fn == "add" and len(added.uses) == 1 else None
        if made is not None and zeros is not None and zeros.value == 0 and x.type == added.type == op.result.type:
            return b(tt.Scatter, x, made.index, made.updates, axis=made.axis, fn="add")
    return None


@nn_to_tensor.lower(*_ops_of(LogicalOp))
def logical(op: Any, b: Builder, x: Value, y: Value) -> Value:
    return _map(b, op.scalar_fn, _cast(b, x, i1), _cast(b, y, i1))


@nn_to_tensor.lower(nn.LogicalNot)
def logical_not(op: Any, b: Builder, x: Value) -> Value:
    return _map(b, "not", _cast(b, x, i1))


@nn_to_tensor.lower(nn.Where)
def where(op: Any, b: Builder, condition: Value, x: Value, y: Value) -> Value:
    return _held(op, b, condition, x, y) or _map(b, "select", condition, x, y)


def _held(op: Any, b: Builder, condition: Value, x: Value, y: Value) -> Value | None:
    """select(v <= c, c, v) -> max(v, c),  select(v >= c, c, v) -> min(v, c),  select(v <= c, c, min(v, d)) -> max(min(v, d), c) for c <= d

    For a known number c: one instruction for two. Equal but for the sign of zero where c is 0, which max and min leave open.
    """
    test = condition.producer(tt.Map)
    if test is None or test.fn not in ("le", "lt", "ge", "gt") or y.type != op.result.type:
        return None
    value, bound = test.operands
    number = known_number(bound)
    if number is None or number != number or known_number(x) != number or value.type != y.type:
        return None
    inner = y.producer(tt.Map)
    below = test.fn in ("le", "lt")
    if y is not value:
        if not below or inner is None or inner.fn != "min" or inner.operands[0] is not value:
            return None
        above = known_number(inner.operands[1])
        if above is None or not above >= number:
            return None
    return _map(b, "max" if below else "min", y, _number(b, number, y.type.dtype))


@nn_to_tensor.lower(nn.Cast)
def cast(op: Any, b: Builder, x: Value) -> Value:
    return _cast(b, x, op.dtype)


@nn_to_tensor.lower(nn.Square)
def square(op: Any, b: Builder, x: Value) -> Value:
    return _map(b, "mul", x, x)


@nn_to_tensor.lower(nn.Reciprocal)
def reciprocal(op: Any, b: Builder, x: Value) -> Value:
    return _map(b, "div", _number(b, 1, x.type.dtype), x)


@nn_to_tensor.lower(nn.Relu)
def relu(op: Any, b: Builder, x: Value) -> Value:
    return _map(b, "max", x, _number(b, 0, x.type.dtype))


@nn_to_tensor.lower(nn.LeakyRelu)
def leaky_relu(op: Any, b: Builder, x: Value) -> Value:
    dtype = x.type.dtype
    return _map(b, "select", _map(b, "lt", x, _number(b, 0, dtype)), _map(b, "mul", x, _number(b, op.alpha, dtype)), x)


@nn_to_tensor.lower(nn.Gelu)
def gelu(op: Any, b: Builder, x: Value) -> Value:
    """x / 2 · (1 + erf(x / √2)), or x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))"""
    v = _wide(b, x)
    dtype = v.type.dtype
    if op.approximate:
        cube = _map(b, "mul", _map(b, "mul", _map(b, "mul", _number(b, 0.044715, dtype), v), v), v)
        inner = _map(b, "mul", _number(b, math.sqrt(2 / math.pi), dtype), _map(b, "add", v, cube))
        result = _map(b, "mul", _map(b, "mul", _number(b, 0.5, dtype), v), _map(b, "add", _map(b, "tanh", inner), _number(b, 1, dtype)))
    else:
        result = _map(b, "gelu", v)
    return _cast(b, result, x.type.dtype)


@nn_to_tensor.lower(nn.Silu)
def silu(op: Any, b: Builder, x: Value) -> Value:
    v = _wide(b, x)
    return _cast(b, _map(b, "mul", v, _map(b, "sigmoid", v)), x.type.dtype)


@nn_to_tensor.lower(nn.Softplus)
def softplus(op: Any, b: Builder, x: Value) -> Value:
    """log1p(exp(beta x)) / beta up to the threshold, x above it: there exp may overflow, but is not chosen"""
    v = _wide(b, x)
    dtype = v.type.dtype
    beta = _number(b, op.beta, dtype)
    scaled = _map(b, "mul", v, beta)
    curve = _map(b, "div", _map(b, "log1p", _map(b, "exp", scaled)), beta)
    straight = _map(b, "gt", scaled, _number(b, op.threshold, dtype))
    return _cast(b, _map(b, "select", straight, v, curve), x.type.dtype)


# --- reductions, softmax, losses


@nn_to_tensor.lower(*(cls for cls in _ops_of(Reduction) if cls is not nn.Mean))
def reduction(op: Any, b: Builder, x: Value) -> Value:
    return _reduce(b, x, op.reduce_fn, reduction_axes(op.axis, x.type.rank), op.keepdims)


@nn_to_tensor.lower(nn.Mean)
def mean(op: Any, b: Builder, x: Value) -> Value:
    """sum / count, where the count may be known at run time only"""
    axes = reduction_axes(op.axis, x.type.rank)
    v = _wide(b, x)
    count = product(x.type.shape[a] for a in axes)
    total = _reduce(b, v, "add", axes, op.keepdims)
    return _cast(b, _map(b, "div", total, _size(b, count, v.type.dtype)), x.type.dtype)


def _size(b: Builder, size: Dim, dtype: ScalarType) -> Value:
    return _number(b, size, dtype) if isinstance(size, int) else b(tt.DimValue, size=size, dtype=dtype)


@nn_to_tensor.lower(nn.Cumsum, nn.Cumprod, nn.Cummax, nn.Cummin)
def cumulate(op: Any, b: Builder, x: Value) -> Value:
    fn = {nn.Cumsum: "add", nn.Cumprod: "mul", nn.Cummax: "max", nn.Cummin: "min"}[type(op)]
    return b(tt.Cumulate, x, fn=fn, axis=op.axis % x.type.rank)


@nn_to_tensor.lower(nn.Argsort)
def argsort(op: Any, b: Builder, x: Value) -> Value:
    """With the axis last, where kernels sort."""
    axis, rank = op.axis % x.type.rank, x.type.rank
    order = [*(i for i in range(rank) if i != axis), axis]
    last = b(tt.Transpose, x, perm=tuple(order)) if axis != rank - 1 else x
    sorted_ = b(tt.Argsort, last, descending=op.descending, count=op.count)
    return b(tt.Transpose, sorted_, perm=tuple(order.index(i) for i in range(rank))) if axis != rank - 1 else sorted_


@nn_to_tensor.lower(nn.ArgMax, nn.ArgMin)
def arg_reduction(op: Any, b: Builder, x: Value) -> Value:
    return b(tt.ArgReduce, x, fn=op.reduce_fn, axis=op.axis % x.type.rank, keepdims=op.keepdims, dtype=op.dtype)


@nn_to_tensor.lower(nn.Softmax)
def softmax(op: Any, b: Builder, x: Value) -> Value:
    """exp(x - max) / sum(exp(x - max)): the form that cannot overflow"""
    v = _wide(b, x)
    axes = (op.axis % v.type.rank,)
    e = _map(b, "exp", _map(b, "sub", v, _reduce(b, v, "max", axes)))
    return _cast(b, _map(b, "div", e, _reduce(b, e, "add", axes)), x.type.dtype)


@nn_to_tensor.lower(nn.LogSoftmax)
def log_softmax(op: Any, b: Builder, x: Value) -> Value:
    """(x - max) - log(sum(exp(x - max)))"""
    v = _wide(b, x)
    shifted, log_total = _log_softmax_parts(b, v, op.axis % v.type.rank)
    return _cast(b, _map(b, "sub", shifted, log_total), x.type.dtype)


def _log_softmax_parts(b: Builder, x: Value, axis: int) -> tuple[Value, Value]:
    shifted = _map(b, "sub", x, _reduce(b, x, "max", (axis,)))
    return shifted, _map(b, "log", _reduce(b, _map(b, "exp", shifted), "add", (axis,)))


@nn_to_tensor.lower(nn.CrossEntropy)
def cross_entropy(op: Any, b: Builder, logits: Value, label: Value) -> Value:
    """log(sum(exp(x - max))) - (x - max) at the label: picked by comparing class numbers, so that all of it is one sweep over the classes
    """
    x = _wide(b, logits)
    kind: TensorType = x.type
    axis = op.axis % kind.rank
    shifted, log_total = _log_softmax_parts(b, x, axis)
    zero = _number(b, 0, kind.dtype)
    if op.soft_label:
        weighted = _map(b, "mul", _cast(b, label, kind.dtype), _map(b, "sub", log_total, shifted))
        return _cast(b, _reduce(b, weighted, "add", (axis,)), logits.type.dtype)
    classes = b(tt.Iota, shape=tuple(d if i == axis else 1 for i, d in enumerate(kind.shape)), axis=axis, dtype=label.type.dtype)
    picked = _reduce(b, _map(b, "select", _map(b, "eq", classes, label), shifted, zero), "add", (axis,))
    loss = _map(b, "sub", log_total, picked)
    count = _size(b, kind.shape[axis], label.type.dtype)
    inside = _map(b, "and", _map(b, "ge", label, _number(b, 0, label.type.dtype)), _map(b, "lt", label, count))
    loss = _map(b, "select", inside, loss, _number(b, math.nan, kind.dtype))
    if number_fits(op.ignore_index, label.type.dtype):
        loss = _map(b, "select", _map(b, "eq", label, _number(b, op.ignore_index, label.type.dtype)), zero, loss)
    return _cast(b, loss, logits.type.dtype)


# --- products


@nn_to_tensor.lower(nn.MatMul)
def matmul(op: Any, b: Builder, x: Value, y: Value) -> Value:
    """A contract over the inner axis; leading axes of size 1 are dropped, those that are shared are batch letters, the others are free."""
    rank_x, rank_y = x.type.rank, y.type.rank
    batch = max(rank_x, rank_y, 2) - 2
    letters = _letters(batch)
    x, spec_x = _matrix_spec(b, x, letters, "KM" if op.transpose_x and rank_x > 1 else "MK" if rank_x > 1 else "K")
    y, spec_y = _matrix_spec(b, y, letters, "NK" if op.transpose_y and rank_y > 1 else "KN" if rank_y > 1 else "K")
    tail = ("M" if rank_x > 1 else "") + ("N" if rank_y > 1 else "")
    out = "".join(c for c in letters if c in spec_x or c in spec_y) + tail
    result = b(tt.Contract, x, y, spec=f"{spec_x},{spec_y}->{out}")
    return _reshape(b, result, op.result.type.shape)


def _letters(count: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[:count]


def _matrix_spec(b: Builder, x: Value, batch: str, matrix: str) -> tuple[Value, str]:
    """`x` without leading axes of size 1, and its letters."""
    leading = x.type.rank - len(matrix)
    names = batch[len(batch) - leading :]
    kept = [i for i in range(leading) if x.type.shape[i] != 1]
    x = _reshape(b, x, (*(x.type.shape[i] for i in kept), *x.type.shape[leading:]))
    return x, "".join(names[i] for i in kept) + matrix


@nn_to_tensor.lower(nn.Linear)
def linear(op: Any, b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """All leading axes as rows of one matrix product, then the bias"""
    shape = op.result.type.shape
    flat = _reshape(b, x, (product(x.type.shape[:-1]), x.type.shape[-1]))
    y = b(tt.Contract, flat, weight, spec="mk,kn->mn")
    if bias is not None:
        y = _map(b, "add", y, bias)
    return _reshape(b, y, shape)


# --- convolutions and poolings

nn_to_tensor.lower(nn.Conv)(windows.conv)
nn_to_tensor.lower(nn.ConvTranspose)(windows.conv_transpose)
nn_to_tensor.lower(nn.ConvFilter)(windows.conv_filter)
nn_to_tensor.lower(nn.MaxPool)(windows.max_pool)
nn_to_tensor.lower(nn.AvgPool)(windows.avg_pool)


# --- normalization

nn_to_tensor.lower(nn.Standardize)(normalization.standardize)
nn_to_tensor.lower(nn.StandardizeGradient)(normalization.standardize_gradient)
nn_to_tensor.lower(nn.BatchNorm)(normalization.batch_norm)


# --- attention

nn_to_tensor.lower(nn.Attention)(attention.attention)
nn_to_tensor.lower(nn.AttentionGradient)(attention.attention_gradient)


# --- numbers in eight bits

nn_to_tensor.lower(nn.QuantizeLinear)(quantize.quantize_linear)
nn_to_tensor.lower(nn.DequantizeLinear)(quantize.dequantize_linear)
nn_to_tensor.lower(nn.FakeQuantize)(quantize.fake_quantize)


# --- recurrent layers

nn_to_tensor.lower(nn.SimpleRNN)(recurrence.simple_rnn)
nn_to_tensor.lower(nn.SimpleRNNGradient)(recurrence.simple_rnn_gradient)
nn_to_tensor.lower(nn.LSTM)(recurrence.lstm)
nn_to_tensor.lower(nn.LSTMGradient)(recurrence.lstm_gradient)
nn_to_tensor.lower(nn.GRU)(recurrence.gru)
nn_to_tensor.lower(nn.GRUGradient)(recurrence.gru_gradient)


# --- matrices

nn_to_tensor.lower(nn.Inverse)(matrices.inverse)
nn_to_tensor.lower(nn.Determinant)(matrices.determinant)
nn_to_tensor.lower(nn.Cholesky)(matrices.cholesky)


# --- views


@nn_to_tensor.lower(nn.StopGradient)
def stop_gradient(op: Any, b: Builder, x: Value) -> Value:
    """x: once gradients are taken, the mark has done its work."""
    return x


@nn_to_tensor.lower(nn.Within)
def within(op: Any, b: Builder, x: Value) -> Value:
    """x: what the pass `look-at-positions` left nobody looks at."""
    return x


@nn_to_tensor.lower(nn.CustomGradient)
def custom_gradient(
    op: Any, b: Builder, values: tuple[Value, ...], inputs: tuple[Value, ...], captured: tuple[Value, ...]
) -> tuple[Value, ...]:
    """values, for the same reason"""
    return values


@nn_to_tensor.lower(nn.Overwrite)
def overwrite(op: Any, b: Builder, x: Value, y: Value) -> Value:
    """y: once gradients are taken, the mark has done its work."""
    return y


@nn_to_tensor.lower(nn.Reshape)
def reshape(op: Any, b: Builder, x: Value) -> Value:
    return _reshape(b, x, op.shape)


@nn_to_tensor.lower(nn.Transpose)
def transpose(op: Any, b: Builder, x: Value) -> Value:
    return b(tt.Transpose, x, perm=op.perm)


@nn_to_tensor.lower(nn.BroadcastTo)
def broadcast_to(op: Any, b: Builder, x: Value) -> Value:
    lifted = _reshape(b, x, (*(1,) * (len(op.shape) - x.type.rank), *x.type.shape))
    return lifted if lifted.type.shape == op.shape else b(tt.Broadcast, lifted, shape=op.shape)


@nn_to_tensor.lower(nn.Slice)
def slice_(op: Any, b: Builder, x: Value) -> Value:
    return b(tt.Slice, x, starts=op.starts, stops=op.stops, strides=op.strides)


@nn_to_tensor.lower(nn.Flip)
def flip(op: Any, b: Builder, x: Value) -> Value:
    return b(tt.Reverse, x, axes=tuple(sorted(a % x.type.rank for a in op.axes)))


@nn_to_tensor.lower(nn.Concat)
def concat(op: Any, b: Builder, xs: tuple[Value, ...]) -> Value:
    return b(tt.Concat, xs, axis=op.axis % xs[0].type.rank)


@nn_to_tensor.lower(nn.Pad)
def pad(op: Any, b: Builder, x: Value) -> Value:
    return b(tt.Pad, x, low=op.padding[::2], high=op.padding[1::2], interior=op.interior or (0,) * x.type.rank, value=op.value)


@nn_to_tensor.lower(nn.Window)
def window(op: Any, b: Builder, x: Value) -> Value:
    return b(tt.Window, x, axes=op.axes, sizes=op.sizes, strides=op.strides, dilations=op.dilations)


@nn_to_tensor.lower(nn.Fold)
def fold(op: Any, b: Builder, w: Value) -> Value:
    return b(tt.Fold, w, axes=op.axes, sizes=op.sizes, strides=op.strides, dilations=op.dilations)


@nn_to_tensor.lower(nn.Gather)
def gather(op: Any, b: Builder, x: Value, index: Value) -> Value:
    """In branches and loops an axis may be empty that has a free size: what is needed of sizes is only checked of what always runs"""
    axis = op.axis % x.type.rank
    size = x.type.shape[axis]
    inside = op.parent is not None and not isinstance(op.parent.parent_op, Func)
    unknown = isinstance(size, Expr) and not known_nonnegative(size - 1)
    return b(tt.Gather, x, index, axis=axis, may_be_empty=inside and unknown)


@nn_to_tensor.lower(nn.Scatter)
def scatter(op: Any, b: Builder, x: Value, updates: Value, index: Value) -> Value:
    return b(tt.Scatter, x, index, updates, axis=op.axis, fn="set")


@nn_to_tensor.lower(nn.ScatterAdd)
def scatter_add(op: Any, b: Builder, updates: Value, index: Value) -> Value:
    """Into zeros; 16-bit floats add up in float32"""
    wide = _wide(b, updates)
    zeros = b(
        tt.Full, value=0, shape=(*wide.type.shape[: op.axis], op.size, *wide.type.shape[op.axis + index.type.rank :]), dtype=wide.type.dtype
    )
    return _cast(b, b(tt.Scatter, zeros, index, wide, axis=op.axis, fn="add"), updates.type.dtype)


# --- branches and loops


def _regions(op: Op) -> list[Region]:
    """The regions of an op that is replaced, for the one that takes its place: what is in them is converted there."""
    taken, op.regions = op.regions, []
    for region in taken:
        end = region.block.terminator
        region.block.append(tt.Yield.build(end.operands, {}, (), (), end.location, (len(end.operands),)))
        end.erase()
    return taken


@nn_to_tensor.lower(nn.If)
def branch(op: Any, b: Builder, cond: Value, captured: tuple[Value, ...]) -> tuple[Value, ...]:
    types = [r.type for r in op.results]
    made: Any = b.insert_op(tt.If.build((cond, *captured), {"sizes": op.sizes}, _regions(op), types, op.location, (1, len(captured))))
    return tuple(made.results)


@nn_to_tensor.lower(nn.While)
def loop(op: Any, b: Builder, inits: tuple[Value, ...], captured: tuple[Value, ...]) -> tuple[Value, ...]:
    types = [r.type for r in op.results]
    made: Any = b.insert_op(tt.While.build((*inits, *captured), {}, _regions(op), types, op.location, (len(inits), len(captured))))
    return tuple(made.results)


@nn_to_tensor.lower(nn.Scan)
def scan(op: Any, b: Builder, xs: tuple[Value, ...], inits: tuple[Value, ...], shared: tuple[Value, ...]) -> tuple[Value, ...]:
    types = [r.type for r in op.results]
    attributes = {"steps": op.steps, "reverse": op.reverse, "schedule": ""}
    made: Any = b.insert_op(
        tt.Scan.build((*xs, *inits, *shared), attributes, _regions(op), types, op.location, (len(xs), len(inits), len(shared)))
    )
    return tuple(made.results)
