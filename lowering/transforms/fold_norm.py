"""Folding batch norm into the product before it: a product by constants, scaled and shifted per channel, is a product by other constants.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polyreme.dialects.nn import Add, BatchNorm, Cast, Constant, Conv, Full, Linear, Mul, Transpose
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, Value
from polyreme.ir.mapped import let_go
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, f32, scalar_type

Array = np.ndarray[Any, Any]


@register_pass
@dataclass(frozen=True)
class FoldBatchNorm(FuncPass):
    """batch_norm(conv(x, W, c), m, v, w, b)  ->  conv(x, W s, (c - m) s + b) with s = w / sqrt(v + epsilon); the same for linear, and
    through a transpose

    Before and after: `nn` ops.  Where weights and statistics are constants, as in a model that is compiled for inference, and nothing else
    uses the product. s is computed in float64, and the folded weights are rounded once. 16-bit weights stay, since rounding them again
    loses more than the norm costs; their norm becomes x s + t in float32, with constant s and t. Runs after canonicalization, which gives
    reshaped and sliced constants their final form.
    """

    name: ClassVar[str] = "fold-batch-norm"
    takes: ClassVar[tuple[str, ...]] = ("nn",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, BatchNorm):
                fold_batch_norm(op)


class _FoundNorm(NamedTuple):
    """A product, the transpose behind it if there is one, its weight as it is, and all other numbers in float64."""

    product: Conv | Linear
    transpose: Transpose | None
    weight: Array
    bias: Array | float
    mean: Array
    variance: Array
    scale: Array | float
    shift: Array | float


def fold_batch_norm(op: BatchNorm) -> None:
    """Fold `op` if it can be; its leftover constants are for dead code elimination."""
    found = _match(op)
    if found is None:
        _scale_and_shift(op)
        return
    product = found.product
    dtype = op.result.type.dtype.np
    with np.errstate(all="ignore"):
        s = found.scale / np.sqrt(found.variance + op.epsilon)
        # Channels of the result are the first axis of a filter and the last one of a matrix.
        factors = s.reshape(-1, *(1,) * (found.weight.ndim - 1)) if isinstance(product, Conv) else s
        bias = (found.bias - found.mean) * s + found.shift
    if not (_largest(found.weight) * _largest(s) < float(np.finfo(dtype).max) and np.isfinite(bias).all()):
        # What is no number in the norm alone would be one in every product.
        return
    let_go(found.weight)
    b = Builder.before_op(product)
    # Made where it is packed, in whatever process that is.
    weight = Dense.later(TensorType(found.weight.shape, scalar_type(np.dtype(dtype))), partial(_scaled, found.weight, factors, dtype))
    operands = [b(Constant, value=value) for value in (weight, Dense.taking(np.ascontiguousarray(np.broadcast_to(bias, s.shape), dtype)))]
    operands[0].name, operands[1].name = product.weight.name, product.bias.name if product.bias is not None else ""
    made = b(type(product), product.x, *operands, **product.attributes)
    if found.transpose is not None:
        made = b(Transpose, made, perm=found.transpose.perm)
    made.name = op.result.name
    op.replace_with(made)
    for old in (found.transpose, product):
        if old is not None:
            old.erase()


def _largest(x: Array) -> float:
    """The largest magnitude; no number where one of the elements is none."""
    return max(float(np.max(x, initial=0.0)), -float(np.min(x, initial=0.0)))


def _scaled(weight: Array, factors: Array, dtype: Any) -> Array:
    """Rounded once. Some elements at a time, so that there never is a whole weight in float64."""
    made: Array = np.multiply(weight, factors, out=np.empty(weight.shape, dtype), dtype=np.float64, casting="same_kind")
    let_go(weight)
    return made


def _scale_and_shift(op: BatchNorm) -> None:
    """batch_norm(x, m, v, w, b)  ->  x s + (b - m s) in float32, of 16-bit floats with constants"""
    kind: Any = op.result.type
    values = [
        otherwise if x is None else _numbers(x) for x, otherwise in ((op.mean, None), (op.variance, None), (op.weight, 1.0), (op.bias, 0.0))
    ]
    mean, variance, weight, bias = values
    if kind.dtype.bits != 16 or mean is None or variance is None or weight is None or bias is None:
        return
    with np.errstate(all="ignore"):
        s = weight / np.sqrt(variance + op.epsilon)
        t = bias - mean * s
    shape = tuple(s.size if i == op.axis % kind.rank else 1 for i in range(kind.rank))
    b = Builder.before_op(op)
    scale, shift = (b(Constant, value=Dense.taking(np.ascontiguousarray(x.reshape(shape), np.float32))) for x in (s, t))
    made = b(Cast, b(Add, b(Mul, b(Cast, op.x, dtype=f32), scale), shift), dtype=kind.dtype)
    made.name = op.result.name
    op.replace_with(made)


def _match(op: BatchNorm) -> _FoundNorm | None:
    """What the norm is of, if that is a product by constants that nothing else uses."""
    kind: Any = op.result.type
    if kind.dtype.bits == 16:
        return None
    axis, value = op.axis % kind.rank, op.x
    transpose = _only_use(value, Transpose)
    if transpose is not None:
        axis, value = transpose.perm[axis], transpose.x
    product = _only_use(value, Conv) or _only_use(value, Linear)
    if product is None or axis != (1 if isinstance(product, Conv) else kind.rank - 1):
        return None
    values: list[Any] = []
    for operand, otherwise in (
        (product.weight, None),
        (product.bias, 0.0),
        (op.mean, None),
        (op.variance, None),
        (op.weight, 1.0),
        (op.bias, 0.0),
    ):
        array = otherwise if operand is None else _numbers(operand, np.float64 if values else None)
        if array is None:
            return None
        values.append(array)
    return _FoundNorm(product, transpose, *values)


def _only_use(value: Value, kind: type[Op]) -> Any:
    """The producer, if it is of this kind and nothing else uses what it makes."""
    producer = value.producer(kind)
    return producer if producer is not None and len(value.uses) == 1 else None


def _numbers(value: Value, dtype: Any = np.float64) -> Array | None:
    """The elements of a constant in `dtype`, or as they are."""
    op = value.producer()
    if isinstance(op, Constant):
        array: Array = op.value.array
        return array if dtype is None else array.astype(dtype)
    if isinstance(op, Full) and all(isinstance(d, int) for d in op.shape) and isinstance(op.value, (int, float)):
        return np.full(op.shape, op.value, dtype or value.type.dtype.np)
    return None
