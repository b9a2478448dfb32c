"""Making tensors: from data, filled, counted, drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.casting.operators import apart, operator
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype, complex128, default_dtype, float64, int64
from polyreme.dtypes import bool as bool_
from polyreme.dtypes import dtype as DType
from polyreme.from_data import to_tensor
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim, Expr, UnknownSize, ceildiv, maximum
from polyreme.ir.types import PARTS, ScalarType, f32, f64, i64
from polyreme.math.common import cast_to, number_of, shape_of
from polyreme.math.elementwise import add, in_place, multiply, refuse_leaf
from polyreme.math.manipulation import expand, gather, reshape
from polyreme.math.matrices import diagonal
from polyreme.provided import provides
from polyreme.random import Generator, default_generator
from polyreme.runtime.gpu.arrays import private
from polyreme.tensor import Tensor

__all__ = [
    "arange", "assign", "bernoulli", "bernoulli_", "clone", "diag", "empty", "empty_like", "eye", "full", "full_like",
    "linspace", "logspace", "spaced",
    "meshgrid", "normal", "ones", "ones_like", "rand", "randint", "randint_like", "randn", "randperm", "standard_normal", "to_tensor",
    "tril", "tril_",
    "triu", "triu_", "uniform", "zeros", "zeros_like",
]  # fmt: skip
METHODS = ["bernoulli_", "clone", "diag", "tril", "tril_", "triu", "triu_"]


def full(shape: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Filled with `fill_value`; without a dtype, bool for a bool, complex128 for a complex number and the default dtype for others."""
    if isinstance(number_of(fill_value), complex):
        return _full_of_complex(shape, number_of(fill_value), dtype)
    if dtype is None:
        chosen = bool_ if isinstance(fill_value, bool) else default_dtype()
    else:
        chosen = as_dtype(dtype)
    value = number_of(fill_value)
    if isinstance(value, str):
        value = float(value)
    if chosen.scalar.kind in "iu" and not isinstance(value, Expr):
        value = int(np.asarray(value).astype(np.int64).astype(chosen.np))
    return dispatch.full(shape_of(shape), value, chosen.scalar)


def _full_of_complex(shape: Any, value: complex, dtype: Any) -> Tensor:
    chosen = complex128 if dtype is None else as_dtype(dtype)
    if chosen.scalar.kind != "c":
        raise TypeError(f"full expected a complex dtype for {value} but got {chosen.name}; give its real part for a real one")
    return dispatch.call(
        ops.Complex, *(dispatch.full(shape_of(shape), number, PARTS[chosen.scalar]) for number in (value.real, value.imag))
    )


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return full(shape, 1, dtype or default_dtype())


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return full(shape, 0, dtype or default_dtype())


def empty(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor whose contents do not matter; here zeros."""
    return zeros(shape, dtype)


def full_like(x: Tensor, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return full(x.type.shape, fill_value, dtype or x.dtype)


def ones_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    return full_like(x, 1, dtype)


def zeros_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    return full_like(x, 0, dtype)


def empty_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    return full_like(x, 0, dtype)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """From `start` up to but without `end`, `step` apart; int64 when all three are whole numbers."""
    if end is None:
        start, end = 0, start
    start, end, step = number_of(start), number_of(end), number_of(step)
    if any(isinstance(n, Expr) for n in (start, end, step)):
        whole = all(isinstance(n, (int, Expr)) for n in (start, end, step))
        return _symbolic_arange(start, end, step, as_dtype(dtype or (int64 if whole else default_dtype())).scalar)
    if step == 0:
        raise ValueError("expected a step other than 0 for arange")
    whole = all(isinstance(v, int) for v in (start, end, step))
    chosen = as_dtype(dtype) if dtype is not None else int64 if whole else default_dtype()
    count = max(0, math.ceil((end - start) / step))
    if whole:
        return dispatch.constant((start + np.arange(count, dtype=np.int64) * step).astype(chosen.np))
    working = chosen.np if chosen.is_floating else float64.np
    return dispatch.constant((working.type(start) + np.arange(count).astype(working) * working.type(step)).astype(chosen.np))


def _symbolic_arange(start: Any, end: Any, step: Any, dtype: ScalarType) -> Tensor:
    """`arange` between sizes that are not known while the program is built."""
    start, end, step = (int(n) if isinstance(n, float) and n.is_integer() else n for n in (start, end, step))
    if not all(isinstance(n, (int, Expr)) for n in (start, end)) or not isinstance(step, int):
        free = [n for n in (start, end, step) if isinstance(n, Expr)]
        raise UnknownSize(f"expected whole numbers for arange beside the symbolic size '{free[0]}' but got {start}, {end}, {step}", *free)
    if step == 0:
        raise ValueError("expected a step other than 0 for arange")
    steps = dispatch.call(ops.Iota, shape=(ceildiv(end - start, step) if step > 0 else ceildiv(start - end, -step),), axis=0, dtype=dtype)
    if step != 1:
        steps = dispatch.call(ops.Mul, steps, dispatch.full((), step, dtype))
    return steps if isinstance(start, int) and start == 0 else dispatch.call(ops.Add, steps, dispatch.full((), start, dtype))


def linspace(start: Any, stop: Any, num: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """`num` numbers from `start` to `stop`, both included."""
    chosen = as_dtype(dtype) if dtype is not None else default_dtype()
    count = number_of(num)
    first, last = number_of(start), number_of(stop)
    if isinstance(count, Expr):
        return spaced(first, last, count, chosen.scalar)
    count = int(count)
    if count < 1:
        raise ValueError(f"expected num >= 1 for linspace but got {count}")
    if count == 1:
        return dispatch.constant(np.full(1, first, chosen.np))
    # Paddle counts from both ends towards the middle, so that both ends are exact.
    working = chosen.np if chosen.name in ("float32", "float64") else float64.np
    low, high = working.type(first), working.type(last)
    step = (high - low) / working.type(count - 1)
    at = np.arange(count).astype(working)
    values = np.where(at < count // 2, low + step * at, high - step * (working.type(count - 1) - at))
    return dispatch.constant(values.astype(chosen.np))


def spaced(first: Any, last: Any, count: Dim, dtype: ScalarType) -> Tensor:
    """`linspace` whose ends, tensors of one element, or number of elements are not known while the program is built."""
    working = dtype if dtype in (f32, f64) else f64

    def number(value: Any) -> Tensor:
        return dispatch.full((), value, working)

    low, high = (
        cast_to(reshape(v, []), working) if isinstance(v, Tensor) else number(v if isinstance(v, Expr) else float(v)) for v in (first, last)
    )
    at = dispatch.call(ops.Iota, shape=(count,), axis=0, dtype=working)
    # One number is the first one.
    step = dispatch.call(ops.Div, dispatch.call(ops.Sub, high, low), number(maximum(count - 1, 1)))
    before = dispatch.call(ops.Add, low, dispatch.call(ops.Mul, step, at))
    behind = dispatch.call(ops.Sub, high, dispatch.call(ops.Mul, step, dispatch.call(ops.Sub, number(count - 1), at)))
    made = dispatch.call(ops.Where, dispatch.call(ops.Less, at, number(maximum(count // 2, 1))), before, behind)
    return cast_to(made, dtype)


def logspace(start: Any, stop: Any, num: Any, base: Any = 10.0, dtype: Any = None, name: str | None = None) -> Tensor:
    """`base` to the powers that `linspace` gives."""
    chosen = as_dtype(dtype) if dtype is not None else default_dtype()
    powers = linspace(start, stop, num, float64)._array("logspace()")
    return dispatch.constant(np.power(float(number_of(base)), powers).astype(chosen.np))


def eye(num_rows: Any, num_columns: Any = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """A matrix with ones on its diagonal and zeros elsewhere, square by default."""
    chosen = as_dtype(dtype) if dtype is not None else default_dtype()
    if isinstance(num_rows, Expr) or isinstance(num_columns, Expr):
        rows = dispatch.call(ops.Iota, shape=(num_rows, 1), axis=0, dtype=i64)
        columns = dispatch.call(ops.Iota, shape=(1, num_rows if num_columns is None else num_columns), axis=1, dtype=i64)
        return dispatch.call(ops.Cast, dispatch.call(ops.Equal, rows, columns), dtype=chosen.scalar)
    num_rows, num_columns = number_of(num_rows), number_of(num_columns)
    for what, size in (("num_rows", num_rows), ("num_columns", num_columns)):
        if size is not None and (not isinstance(size, (int, np.integer)) or size < 0):
            raise TypeError(f"{what} should be a non-negative int but got {size!r}")
    return dispatch.constant(np.eye(int(num_rows), None if num_columns is None else int(num_columns), dtype=chosen.np))


@operator("diag_v2")
def diag(x: Tensor, offset: int = 0, padding_value: float = 0, name: str | None = None) -> Tensor:
    """A matrix with `x` on a diagonal, or the diagonal of a matrix."""
    if x.ndim == 2:
        return diagonal(x, offset)
    if x.ndim != 1:
        raise ValueError(f"diag expected a tensor of 1 or 2 dimensions but got shape {list(x.shape)}")
    places = np.diag(np.arange(1, x.shape[0] + 1), offset)
    picked = gather(x, dispatch.constant(np.maximum(places - 1, 0).ravel()))
    return dispatch.call(
        ops.Where, dispatch.constant(places > 0), reshape(picked, list(places.shape)), dispatch.full((), padding_value, x.type.dtype)
    )


def tril(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """`x` with zeros above a diagonal of its last two axes."""
    _check_matrix(x, "tril")
    return _keep(x, ops.LessEqual, diagonal)


def triu(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """`x` with zeros below a diagonal of its last two axes."""
    _check_matrix(x, "triu")
    return _keep(x, ops.GreaterEqual, diagonal)


def tril_(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """As `tril`, in place of its first argument."""
    return in_place(tril)(x, diagonal)


def triu_(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """As `triu`, in place of its first argument."""
    return in_place(triu)(x, diagonal)


def _check_matrix(x: Tensor, what: str) -> None:
    if x.ndim < 2:
        raise ValueError(f"{what} expected a tensor of at least 2 axes but got shape {list(x.shape)}")


def _keep(x: Tensor, compare: type[Op], diagonal: int) -> Tensor:
    """`x` where its column, compared with that of a diagonal in its row, is to be kept, and zeros elsewhere."""
    rows, columns = x.type.shape[-2:]
    bound = dispatch.call(ops.Add, dispatch.call(ops.Iota, shape=(rows, 1), axis=0, dtype=i64), dispatch.full((), int(diagonal), i64))
    kept = dispatch.call(compare, dispatch.call(ops.Iota, shape=(1, columns), axis=1, dtype=i64), bound)
    return dispatch.call(ops.Where, kept, x, dispatch.full((), 0, x.type.dtype))


def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Grids of rank n from n vectors, indexed like a matrix; with `indexing="xy"` the first two axes change places."""
    vectors = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    shape = [v.size for v in vectors]
    if kwargs.get("indexing", "ij") == "xy" and len(vectors) > 1:
        first, second, *others = meshgrid(vectors[1], vectors[0], *vectors[2:])
        return [second, first, *others]
    return [expand(reshape(v, [1] * i + [-1] + [1] * (len(vectors) - 1 - i)), shape) for i, v in enumerate(vectors)]


def assign(x: Any, output: Tensor | None = None) -> Tensor:
    """A copy of `x`, into `output` when given."""
    # Python numbers keep all their digits here, and one alone is a vector of one.
    source = x if isinstance(x, Tensor) else to_tensor(np.array(x if isinstance(x, (list, tuple, np.ndarray)) else [x]))
    copied = clone(source)
    if output is None:
        return copied
    with tape.recording(tape.is_grad_enabled() and not copied.stop_gradient):
        return dispatch.assign(output, copied)


@provides
@apart
def clone(x: Tensor, name: str | None = None) -> Tensor:
    """A copy that gradients flow through."""
    made: Tensor = dispatch.call(ops.Reshape, x, shape=x.type.shape)
    made._value = private(made._value)
    return made


# --- drawn


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Uniform in [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0)


def uniform(shape: Any, dtype: Any = None, min: Any = 0, max: Any = 1.0, seed: int = 0, name: str | None = None) -> Tensor:
    """Uniform in [min, max). A seed other than 0 draws from a generator of its own."""
    return _generator(seed).uniform(shape_of(shape), number_of(min), number_of(max), _floating(dtype, "uniform").scalar)


def randn(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normal with mean 0 and standard deviation 1."""
    return default_generator().normal(shape_of(shape), 0.0, 1.0, _floating(dtype, "randn").scalar)


standard_normal = randn


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Tensor:
    """Normal numbers; `mean` and `std` may be tensors, whose shape is then the result's."""
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        return default_generator().normal(shape_of(shape if shape is not None else [1]), float(mean), float(std), default_dtype().scalar)
    like = mean if isinstance(mean, Tensor) else std
    drawn = default_generator().normal(shape_of(like.type.shape), 0.0, 1.0, like.type.dtype)
    scaled = multiply(drawn, std if isinstance(std, Tensor) else dispatch.full((), std, like.type.dtype))
    return add(scaled, mean if isinstance(mean, Tensor) else dispatch.full((), mean, like.type.dtype))


def randint(low: int = 0, high: int | None = None, shape: Any = (1,), dtype: Any = None, name: str | None = None) -> Tensor:
    """Whole numbers in [low, high), or in [0, low) when `high` is left out."""
    if high is None:
        low, high = 0, low
    if high <= low:
        raise ValueError(f"randint's low must less then high, but received low = {low}, high = {high}")
    return default_generator().integers(int(low), int(high), shape_of(shape), as_dtype(dtype or int64).scalar)


def randint_like(x: Tensor, low: int = 0, high: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    return randint(low, high, x.type.shape, dtype or x.dtype)


def randperm(n: Any, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """The numbers below `n` in random order."""
    return cast_to(default_generator().permutation(n if isinstance(n, Expr) else int(n)), as_dtype(dtype).scalar)


def bernoulli(x: Tensor, p: float | None = None, name: str | None = None) -> Tensor:
    """1 with the probability that each element of `x` says (or with `p`, in the shape and dtype of `x`), else 0."""
    if p is not None:
        x = full_like(x, p)
    drawn = default_generator().uniform(x.type.shape, 0.0, 1.0, x.type.dtype)
    return dispatch.call(ops.Cast, dispatch.call(ops.Less, drawn, x.detach()), dtype=x.type.dtype)


def bernoulli_(x: Tensor, p: Any = 0.5, name: str | None = None) -> Tensor:
    """Fill `x` with ones, with probability `p` each, and zeros."""
    refuse_leaf(x)
    chance = p if isinstance(p, Tensor) else full_like(x, p)
    with tape.recording(False):
        return dispatch.assign(x, bernoulli(chance.detach()))


def _generator(seed: int) -> Any:
    return Generator.plain(seed) if seed else default_generator()


def _floating(dtype: Any, what: str) -> DType:
    chosen = as_dtype(dtype) if dtype is not None else default_dtype()
    if not chosen.is_floating:
        raise TypeError(f"{what} expected a floating dtype but got {chosen.name}")
    return chosen
