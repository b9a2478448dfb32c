"""Arithmetic, comparisons, logic, reductions, products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import product
from polyreme.ir.types import ScalarType, i32, i64
from polyreme.loaders.errors import OperatorError
from polyreme.loaders.meaning import Number, Scalar, Sizes, meaning
from polyreme.math.common import cast_to
from polyreme.tensor import Tensor


def _declare_unary(name: str, apply: Callable[[Tensor], Tensor]) -> None:
    @meaning(name)
    def function(x: Tensor) -> Tensor:
        return apply(x)


def _declare_binary(name: str, apply: Callable[[Tensor, Tensor], Tensor]) -> None:
    @meaning(name)
    def function(x: Tensor, y: Tensor) -> Tensor:
        return apply(x, y)


for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "isfinite", "isinf",
    "isnan", "log",
    "log10", "log1p", "log2", "logical_not", "reciprocal", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "bitwise_not",
):  # fmt: skip
    _declare_unary(_name, getattr(math, _name))
for _name in (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum", "equal", "not_equal", "less_than",
    "less_equal",
    "greater_than", "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bmm", "mv",
    "dot", "kron",
):  # fmt: skip
    _declare_binary(_name, getattr(math, _name))
_declare_binary("elementwise_pow", math.pow)
_declare_binary("fmax", lambda x, y: math.where(math.isnan(x), y, math.where(math.isnan(y), x, math.maximum(x, y))))
_declare_binary("fmin", lambda x, y: math.where(math.isnan(x), y, math.where(math.isnan(y), x, math.minimum(x, y))))


@meaning()
def trunc(input: Tensor) -> Tensor:
    return math.trunc(input)


@meaning()
def round(x: Tensor, *, decimals: int = 0) -> Tensor:
    return math.round(x, decimals)


@meaning()
def add_n(inputs: list[Tensor]) -> Tensor:
    return math.add_n(inputs)


@meaning()
def scale(x: Tensor, scale: Scalar = 1.0, *, bias: Number = 0.0, bias_after_scale: bool = True) -> Tensor:
    """scale * x + bias, or scale * (x + bias)."""
    if isinstance(scale, Tensor):
        scale = math.reshape(cast_to(scale, x.type.dtype), [])
    elif x.type.dtype.is_integer:
        whole = isinstance(scale, float) and not scale.is_integer() or isinstance(bias, float) and not bias.is_integer()
        if whole:
            raise OperatorError(f"expected a whole scale and bias for {x.type.dtype} but got {scale} and {bias}")
        scale, bias = int(scale), int(bias)
    return math.scale(x, scale, bias, bias_after_scale)


@meaning()
def pow(x: Tensor, y: Scalar = 1.0) -> Tensor:
    if isinstance(y, Tensor):
        return math.pow(x, math.reshape(y, []))
    return math.pow(x, y)


@meaning()
def clip(x: Tensor, min: Scalar, max: Scalar) -> Tensor:
    for bound, limit in ((min, math.maximum), (max, math.minimum)):
        if isinstance(bound, Tensor):
            x = limit(x, math.reshape(cast_to(bound, x.type.dtype), []))
        else:
            x = math.clip(x, bound, None) if limit is math.maximum else math.clip(x, None, bound)
    return x


@meaning()
def increment(x: Tensor, *, value: Number = 1.0) -> Tensor:
    return math.scale(x, 1, int(value) if x.type.dtype.is_integer else value)


@meaning()
def lerp(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return math.lerp(x, y, cast_to(weight, x.type.dtype))


@meaning()
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return math.where(condition, x, y)


@meaning()
def masked_fill(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return math.where(mask, math.reshape(cast_to(value, x.type.dtype), []) if value.size == 1 else value, x)


@meaning()
def cast(x: Tensor, *, dtype: ScalarType | None, in_dtype: ScalarType | None = None) -> Tensor:
    return x if dtype is None else cast_to(x, dtype)


# --- reductions


def _axes(x: Tensor, axis: Sizes, reduce_all: bool) -> list[Any] | None:
    return (
        None
        if reduce_all or not axis or len(axis) == x.ndim and x.ndim > 0 and len({int(a) % x.ndim for a in axis}) == x.ndim
        else list(axis)
    )


def _declare_reduction(name: str, apply: Callable[..., Tensor]) -> None:
    @meaning(name)
    def function(x: Tensor, axis: Sizes = (), *, keepdim: bool = False, reduce_all: bool = False) -> Tensor:
        return apply(x, _axes(x, axis, reduce_all), keepdim=keepdim)


for _name in ("max", "min", "prod", "any", "all", "logsumexp"):
    _declare_reduction(_name, getattr(math, _name))
_declare_reduction("amax", math.max)
_declare_reduction("amin", math.min)


@meaning()
def sum(
    x: Tensor,
    axis: Sizes = (),
    *,
    dtype: ScalarType | None = None,
    keepdim: bool = False,
    reduce_all: bool = False,
    in_dtype: ScalarType | None = None,
) -> Tensor:
    return math.sum(x, _axes(x, axis, reduce_all), dtype=dtype, keepdim=keepdim)


@meaning()
def mean(x: Tensor, axis: Sizes = (), *, keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    return math.mean(x, _axes(x, axis, reduce_all), keepdim=keepdim)


@meaning()
def mean_all(x: Tensor) -> Tensor:
    return math.mean(x)


@meaning("frobenius_norm")
def frobenius_norm(x: Tensor, axis: Sizes = (), *, keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    return math.sqrt(math.sum(math.square(x), _axes(x, axis, reduce_all), keepdim=keepdim))


@meaning()
def squared_l2_norm(x: Tensor) -> Tensor:
    return math.reshape(math.sum(math.square(x)), [1])


@meaning()
def p_norm(
    x: Tensor, *, porder: Number = 2.0, axis: int = -1, epsilon: float = 1e-12, keepdim: bool = False, asvector: bool = False
) -> Tensor:
    return math.norm(math.reshape(x, [-1]), float(porder), 0, keepdim) if asvector else math.norm(x, float(porder), axis, keepdim)


@meaning()
def norm(x: Tensor, *, axis: int = -1, epsilon: float = 1e-10) -> tuple[Tensor, Tensor]:
    """x divided by its length along `axis`, and the length."""
    length = math.sqrt(math.scale(math.sum(math.square(x), axis, keepdim=True), 1.0, epsilon))
    return math.divide(x, length), length


def _declare_extreme(name: str, apply: Callable[..., Tensor]) -> None:
    @meaning(name)
    def function(x: Tensor, axis: Number = -1, *, keepdims: bool = False, flatten: bool = False, dtype: ScalarType | None = i64) -> Tensor:
        return apply(x, None if flatten else int(axis), keepdims, dtype or i64)


_declare_extreme("argmax", lambda x, axis, keepdims, dtype: math.argmax(x, axis, keepdims, _name_of(dtype)))
_declare_extreme("argmin", lambda x, axis, keepdims, dtype: math.argmin(x, axis, keepdims, _name_of(dtype)))


def _name_of(dtype: ScalarType) -> str:
    return "int32" if dtype == i32 else "int64"


@meaning()
def topk(x: Tensor, k: Number = 1, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis` and where they stand, the first of equals first."""
    return math.topk(x, k, axis, largest)


@meaning()
def argsort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    """Sorted along `axis`, and where the elements stood."""
    index = math.argsort(x, axis, descending)
    return (x if x.ndim == 0 else math.take_along_axis(x, index, axis, broadcast=False)), index


@meaning()
def cumsum(x: Tensor, axis: Number = -1, *, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums; `exclusive` ones leave out the element itself, `reverse` ones come from the end."""
    if flatten:
        x, axis = math.reshape(x, [-1]), 0
    place = int(axis) % x.ndim
    if reverse:
        x = math.flip(x, [place])
    if exclusive and x.type.shape[place] != 0:
        before = math.slice(x, [place], [0], [x.type.shape[place] - 1])
        x = dispatch.call(ops.Pad, before, padding=tuple(int(k == 2 * place) for k in range(2 * x.ndim)))
    summed = dispatch.call(ops.Cumsum, x, axis=place)
    return math.flip(summed, [place]) if reverse else summed


# --- products


@meaning()
def matmul(x: Tensor, y: Tensor, *, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    return math.matmul(x, y, transpose_x, transpose_y)


@meaning()
def addmm(input: Tensor, x: Tensor, y: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    return math.addmm(input, x, y, beta, alpha)


@meaning()
def matmul_with_flatten(x: Tensor, y: Tensor, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Tensor:
    """A product of matrices, which the operands become by joining their first and their last axes; the result has their other axes again.
    """
    rows, columns = x.type.shape[:x_num_col_dims], y.type.shape[y_num_col_dims:]
    a = math.reshape(x, [product(rows), product(x.type.shape[x_num_col_dims:])])
    b = math.reshape(y, [product(y.type.shape[:y_num_col_dims]), product(columns)])
    return math.reshape(math.matmul(a, b), [*rows, *columns])


@meaning()
def einsum(x: list[Tensor], *, equation: str) -> Tensor:
    """Products of one or two tensors by their letters."""
    terms, arrow, out = equation.replace(" ", "").partition("->")
    inputs = terms.split(",")
    if (
        "." in equation
        or len(inputs) != len(x)
        or len(x) not in (1, 2)
        or any(len(set(t)) != len(t) or len(t) != v.ndim for t, v in zip(inputs, x, strict=True))
    ):
        raise OperatorError(f"expected an equation of one or two tensors, each letter once in each, but got '{equation}'")
    if not arrow:
        letters = "".join(inputs)
        out = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(set(out)) != len(out) or not set(out) <= set("".join(inputs)):
        raise OperatorError(f"expected the result's letters among those of the operands but got '{equation}'")
    tensors = []
    for i, (term, v) in enumerate(zip(inputs, x, strict=True)):
        others = set(out).union(*(set(t) for j, t in enumerate(inputs) if j != i))
        gone = [axis for axis, c in enumerate(term) if c not in others]
        tensors.append(math.sum(v, gone) if gone else v)
        inputs[i] = "".join(c for c in term if c in others)
    if len(tensors) == 1:
        return math.transpose(tensors[0], [inputs[0].index(c) for c in out]) if out else tensors[0]
    a, b = inputs
    batch = [c for c in out if c in a and c in b]
    inner = [c for c in a if c in b and c not in out]
    free_a, free_b = ([c for c in out if c in term and c not in batch] for term in (a, b))
    size = {c: d for term, v in zip(inputs, tensors, strict=True) for c, d in zip(term, v.type.shape, strict=True)}

    def matrix(term: str, v: Tensor, first: list[str], second: list[str]) -> Tensor:
        order = [*batch, *first, *second]
        moved = math.transpose(v, [term.index(c) for c in order]) if len(order) > 1 else v
        return math.reshape(moved, [*(size[c] for c in batch), product(size[c] for c in first), product(size[c] for c in second)])

    made = math.matmul(matrix(a, tensors[0], free_a, inner), matrix(b, tensors[1], inner, free_b))
    letters = "".join([*batch, *free_a, *free_b])
    apart = math.reshape(made, [size[c] for c in letters])
    return math.transpose(apart, [letters.index(c) for c in out]) if len(out) > 1 else apart
