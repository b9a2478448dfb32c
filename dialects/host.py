"""The `host` dialect: what a program asks of the Python process that runs it.

Some of it are ops of their own, whose results have sizes that only their operands' elements tell, or that draw until a draw fits, or go on
until what they look for is near enough: no kernel
computes these.
Anything else is a call, which has a number. Which function that is says a table, which belongs to whoever runs the program: `load_schedule`
takes one, and for the evaluator
`with_functions` sets one. So text never names code to run, and a module that is read back runs only with the functions that its reader
gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import numpy as np

from polyreme.dialects import mt19937
from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import Shape, check_sizes, shape_text
from polyreme.ir import dims
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import BindsSizes, Pure, attr, op, operand, variadic
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import EvaluateError, resolve, resolve_all
from polyreme.ir.types import ScalarType, TensorType, Type, c64, c128, f64, i1, i32, i64, u64

__all__ = [
    "NO_FUNCTIONS",
    "Call",
    "Eigen",
    "First",
    "FullSingularVectors",
    "Functions",
    "Integers",
    "Lu",
    "NonZero",
    "Normal",
    "Permutation",
    "Qr",
    "Range",
    "SingularValues",
    "SingularVectors",
    "Size",
    "SymmetricEigen",
    "function_of",
    "with_functions",
]

# The largest size that there may be.
MOST_ROWS = 1 << 48

Functions = Mapping[int, Callable[[list[Array]], Sequence[Array]]]

NO_FUNCTIONS: Functions = MappingProxyType({})
_functions: ContextVar[Functions] = ContextVar("functions", default=NO_FUNCTIONS)


@contextmanager
def with_functions(functions: Functions) -> Iterator[None]:
    """Evaluate calls with this table inside the `with`, in this thread."""
    token = _functions.set(functions)
    try:
        yield
    finally:
        _functions.reset(token)


@op("host.call", BindsSizes)
class Call(Op):
    """Calls the host's function number `id` with a list of arrays; it gives an array per result. `function` is what the user calls it.

    It may have effects, so that every call stays, in its order. Sizes of its results that no argument of the function has are known once it
    has run.

        %kept = host.call %x {id = 0, function = "drop_empty_rows"} : tensor<Kx3xf32>      // %x: tensor<Nx3xf32>
    """

    xs = variadic()
    id = attr(int)
    function = attr(str)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return function_of(self, _functions.get())(list(args))


def function_of(call: Call, functions: Functions) -> Callable[[list[Array]], Sequence[Array]]:
    """What `call` calls, by the table of whoever runs it."""
    if call.id not in functions:
        raise EvaluateError(
            f"expected a function number {call.id} ('{call.function}') for 'host.call' but got {_numbers(functions)}", call.location
        )
    return functions[call.id]


def _numbers(functions: Functions) -> str:
    return f"only the numbers {', '.join(map(str, sorted(functions)))}" if functions else "no functions"


# --- ops with a meaning of their own


@op("host.nonzero", BindsSizes)
class NonZero(Op):
    """The places of the elements of `x` that are not zero, in row-major order: a row of coordinates each.

        func @main(%x: tensor<4x3xi1>) -> tensor<Kx2xi64> {
          %places = host.nonzero %x {count = K} : tensor<Kx2xi64>
          return %places
        }

    Of a number of rank 0 these are rows of no coordinates. `count` says what the number of rows is called from here on.
    """

    x = operand()
    count = attr(Dim)

    @staticmethod
    def infer(x: TensorType, *, count: Dim) -> TensorType:
        return TensorType((count, x.rank), i64)

    @staticmethod
    def reference(x: Array, *, count: Dim) -> Array:
        return np.stack(np.nonzero(x), 1) if x.ndim else np.zeros((int(bool(x)), 0), np.int64)


@op("host.first", BindsSizes)
class First(Op):
    """The first rows of `x`, as many as a number says that the program has computed: so that becomes a size.

        func @main(%x: tensor<12x2xi64>, %n: tensor<i64>) -> tensor<Kx2xi64> {
          %kept = host.first %x, %n {count = K} : tensor<Kx2xi64>
          return %kept
        }

    `count` says what the number is called from here on. `n` is one integer, of rank 0, from 0 to the number of rows. An op whose result has
    a size that only its operands' elements tell is a result of the largest size, a count, and this op: it copies nothing.
    """

    x = operand()
    n = operand()
    count = attr(Dim)

    @staticmethod
    def infer(x: TensorType, n: TensorType, *, count: Dim) -> TensorType:
        check(x.rank > 0, "expected rows but got a number of rank 0")
        check(n.rank == 0, f"expected a number of rank 0 but got shape {shape_text(n.shape)}")
        check_type(n.dtype.is_integer, f"expected an integer but got {n.dtype}")
        return x.with_shape((count, *x.shape[1:]))

    @staticmethod
    def reference(x: Array, n: Array, *, count: Dim) -> Array:
        if not 0 <= int(n) <= len(x):
            raise EvaluateError(f"expected 'host.first' to keep from 0 to {len(x)} rows but got {int(n)}")
        return x[: int(n)]


@op("host.size", BindsSizes)
class Size(Op):
    """A number that the program has computed becomes a size: the result has so many rows, and no elements.

        func @main(%n: tensor<i32>, %fits: tensor<i1>) -> tensor<Kx0xi64> {
          %rows = host.size %n, %fits {count = K, need = "'k' to be from 1 to the size of the axis"} : tensor<Kx0xi64>
          return %rows
        }

    `n` is one integer, of rank 0, and `fits` one bool: whether the number is one that is needed. A run in which it is not, or the number is
    negative, is refused; `need` says in words what is expected. `count` says what the number is called from here on.
    """

    n = operand()
    fits = operand()
    count = attr(Dim)
    need = attr(str)

    @staticmethod
    def infer(n: TensorType, fits: TensorType, *, count: Dim, need: str) -> TensorType:
        for type in (n, fits):
            check(type.rank == 0, f"expected a number of rank 0 but got shape {shape_text(type.shape)}")
        check_type(n.dtype.is_integer, f"expected an integer but got {n.dtype}")
        check_type(fits.dtype == i1, f"expected a bool but got {fits.dtype}")
        return TensorType((count, 0), i64)

    @staticmethod
    def reference(n: Array, fits: Array, *, count: Dim, need: str) -> Array:
        if not fits or not 0 <= int(n) <= MOST_ROWS:
            raise EvaluateError(f"expected {need} but got {int(n)}")
        return np.zeros((int(n), 0), np.int64)


@op("host.range", BindsSizes)
class Range(Op):
    """The numbers 0, 1, … below a number that the program has computed: so that becomes a size.

        func @main(%n: tensor<i64>) -> tensor<Kxi64> {
          %steps = host.range %n {count = K} : tensor<Kxi64>
          return %steps
        }

    `count` says what the number is called from here on. The operand is one integer, of rank 0, and not negative.
    """

    x = operand()
    count = attr(Dim)

    @staticmethod
    def infer(x: TensorType, *, count: Dim) -> TensorType:
        check(x.rank == 0, f"expected a number of rank 0 but got shape {shape_text(x.shape)}")
        check_type(x.dtype.is_integer, f"expected an integer but got {x.dtype}")
        return TensorType((count,), i64)

    @staticmethod
    def reference(x: Array, *, count: Dim) -> Array:
        return np.arange(max(int(x), 0), dtype=np.int64)


_STATE = TensorType((mt19937.STATE_WORDS,), u64)


def _check_state(state: TensorType) -> None:
    check_type(state == _STATE, f"expected a generator state, {_STATE}, but got {state}")


@op("host.normal")
class Normal(Op):
    """Normal numbers by the polar method, and the generator's state after drawing them.

        %v, %next = host.normal %s {shape = [4], mean = 0.0, std = 1.0, dtype = f32} : tensor<4xf32>, tensor<313xui64>
        // %s: tensor<313xui64>

    State and numbers are as `nn.uniform` has them, those of Paddle's CPU generator to the bit. The result has the sizes `shape` and the
    float type `dtype`; `mean` is what its numbers lie about, `std` their standard deviation.
    """

    state = operand()
    shape = attr(tuple[Dim, ...])
    mean = attr(float, default=0.0)
    std = attr(float, default=1.0)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(state: TensorType, *, shape: Shape, mean: float, std: float, dtype: ScalarType) -> tuple[Type, ...]:
        _check_state(state)
        check_sizes(shape)
        check_type(dtype.is_float, f"expected a float type but got {dtype}")
        return TensorType(shape, dtype), state

    @staticmethod
    def reference(state: Array, *, shape: Shape, mean: float, std: float, dtype: ScalarType) -> tuple[Array, Array]:
        return mt19937.normal(state, resolve_all(shape), mean, std, dtype.np)


@op("host.integers")
class Integers(Op):
    """Whole numbers in [low, high), and the generator's state after drawing them.

        %v, %next = host.integers %s {shape = [4], low = 0, high = 10, dtype = i64} : tensor<4xi64>, tensor<313xui64>
        // %s: tensor<313xui64>

    State and numbers are as `nn.uniform` has them, those of Paddle's CPU generator to the bit. The result has the sizes `shape` and any
    number type `dtype`; `low` is the least number that is drawn, `high` one more than the largest, and above `low`.
    """

    state = operand()
    shape = attr(tuple[Dim, ...])
    low = attr(int)
    high = attr(int)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(state: TensorType, *, shape: Shape, low: int, high: int, dtype: ScalarType) -> tuple[Type, ...]:
        _check_state(state)
        check_sizes(shape)
        check_attr(low < high, f"expected low below high but got {low} and {high}")
        return TensorType(shape, dtype), state

    @staticmethod
    def reference(state: Array, *, shape: Shape, low: int, high: int, dtype: ScalarType) -> tuple[Array, Array]:
        values, state = mt19937.integers(state, resolve_all(shape), low, high)
        return values.astype(dtype.np), state


@op("host.permutation")
class Permutation(Op):
    """The numbers below `count` in random order, and the generator's state after shuffling them.

        %v, %next = host.permutation %s {count = 5} : tensor<5xi64>, tensor<313xui64>      // %s: tensor<313xui64>

    State and order are those of Paddle's CPU generator.
    """

    state = operand()
    count = attr(Dim)

    @staticmethod
    def infer(state: TensorType, *, count: Dim) -> tuple[Type, ...]:
        _check_state(state)
        check_sizes((count,))
        return TensorType((count,), i64), state

    @staticmethod
    def reference(state: Array, *, count: Dim) -> tuple[Array, Array]:
        return mt19937.permutation(state, resolve(count))


def _check_matrices(x: TensorType) -> Dim:
    """How many singular values each has."""
    check(x.rank >= 2, f"expected matrices but got shape {shape_text(x.shape)}")
    check_type(x.dtype.is_float, f"expected floats but got {x.dtype}")
    return dims.minimum(x.shape[-2], x.shape[-1])


def _of_finite(x: Array, compute: Callable[[Array], Sequence[Array]]) -> list[Array]:
    """By LAPACK, which refuses matrices with an infinity or nan: what comes of them is nan. 16-bit floats are computed in float32."""
    wide = x.astype(np.float32) if x.dtype.kind == "V" or x.dtype == np.float16 else x
    finite = np.isfinite(wide).all((-1, -2), keepdims=True)
    made = compute(np.where(finite, wide, 0))
    return [np.where(finite.reshape(*x.shape[:-2], *(1,) * (part.ndim - x.ndim + 2)), part, np.nan).astype(x.dtype) for part in made]


@op("host.singular_values", Pure, accuracy=SUM)
class SingularValues(Op):
    """The singular values of each matrix of the last two axes, the largest ones first.

        %s = host.singular_values %x : tensor<Nx3xf32>      // %x: tensor<Nx3x4xf32>

    Of a matrix with an infinity or nan they are nan.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        count = _check_matrices(x)
        return TensorType((*x.shape[:-2], count), x.dtype)

    @staticmethod
    def reference(x: Array) -> Array:
        (values,) = _of_finite(x, lambda matrices: [np.linalg.svd(matrices, compute_uv=False)])
        return values


@op("host.singular_vectors", Pure)
class SingularVectors(Op):
    """Singular vectors of each matrix of the last two axes, in the order of `host.singular_values`: the left ones as columns, the right
    ones as rows.

        %u, %v = host.singular_vectors %x : tensor<Nx3x3xf32>, tensor<Nx3x4xf32>      // %x: tensor<Nx3x4xf32>

    Each pair is given up to its sign, and those of equal values up to a rotation.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> tuple[Type, ...]:
        count = _check_matrices(x)
        return TensorType((*x.shape[:-1], count), x.dtype), TensorType((*x.shape[:-2], count, x.shape[-1]), x.dtype)

    @staticmethod
    def reference(x: Array) -> tuple[Array, Array]:
        left, right = _of_finite(x, lambda matrices: np.linalg.svd(matrices, full_matrices=False)[::2])
        return left, right


@op("host.full_singular_vectors", Pure)
class FullSingularVectors(Op):
    """As `host.singular_vectors`, but as many vectors as make two whole bases.

        %u, %v = host.full_singular_vectors %x : tensor<Nx3x3xf32>, tensor<Nx4x4xf32>      // %x: tensor<Nx3x4xf32>

    Those beyond the singular values are any that are orthogonal to the others.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> tuple[Type, ...]:
        _check_matrices(x)
        rows, columns = x.shape[-2:]
        return x.with_shape((*x.shape[:-2], rows, rows)), x.with_shape((*x.shape[:-2], columns, columns))

    @staticmethod
    def reference(x: Array) -> tuple[Array, Array]:
        left, right = _of_finite(x, lambda matrices: np.linalg.svd(matrices)[::2])
        return left, right


@op("host.qr", Pure)
class Qr(Op):
    """Each matrix of the last two axes as the product of one with orthogonal columns of length 1, and an upper triangular one.

        %q, %r = host.qr %x : tensor<Nx4x3xf32>, tensor<Nx3x3xf32>      // %x: tensor<Nx4x3xf32>

    With `complete` the columns are a whole basis, and `%r` is as large as `%x`. By LAPACK: numbers of the diagonal may be less than 0.
    """

    x = operand()
    complete = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, complete: bool) -> tuple[Type, ...]:
        rows, columns = _check_matrices(x), x.shape[-1]
        rows = x.shape[-2] if complete else rows
        return x.with_shape((*x.shape[:-1], rows)), x.with_shape((*x.shape[:-2], rows, columns))

    @staticmethod
    def reference(x: Array, *, complete: bool) -> tuple[Array, Array]:
        q, r = _of_finite(x, lambda matrices: np.linalg.qr(matrices, "complete" if complete else "reduced"))
        return q, r


def _check_square(x: TensorType) -> None:
    _check_matrices(x)
    check(x.shape[-2] == x.shape[-1], f"expected square matrices but got shape {shape_text(x.shape)}")


@op("host.symmetric_eigen", Pure)
class SymmetricEigen(Op):
    """The eigenvalues of each symmetric matrix of the last two axes, the least ones first, and its eigenvectors as columns.

        %s, %v = host.symmetric_eigen %x : tensor<Nx3xf32>, tensor<Nx3x3xf32>      // %x: tensor<Nx3x3xf32>

    Only the lower triangle is read; the upper one with `upper`. Each vector is given up to its sign, and those of equal values up to a
    rotation.
    """

    x = operand()
    upper = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, upper: bool) -> tuple[Type, ...]:
        _check_square(x)
        return x.with_shape(x.shape[:-1]), x

    @staticmethod
    def reference(x: Array, *, upper: bool) -> tuple[Array, Array]:
        values, vectors = _of_finite(x, lambda matrices: np.linalg.eigh(matrices, "U" if upper else "L"))
        return values, vectors


@op("host.eigen", Pure)
class Eigen(Op):
    """The eigenvalues of each matrix of the last two axes, complex and in LAPACK's order, and its eigenvectors of length 1 as columns.

        %s, %v = host.eigen %x : tensor<Nx3xcomplex<f32>>, tensor<Nx3x3xcomplex<f32>>      // %x: tensor<Nx3x3xf32>

    Those of a matrix with an infinity or nan are nan.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> tuple[Type, ...]:
        _check_square(x)
        dtype = c128 if x.dtype == f64 else c64
        return TensorType(x.shape[:-1], dtype), TensorType(x.shape, dtype)

    @staticmethod
    def reference(x: Array) -> tuple[Array, Array]:
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        finite: Array = np.asarray(np.isfinite(wide).all((-1, -2), keepdims=True))
        values, vectors = np.linalg.eig(np.where(finite, wide, 0))
        kind = np.complex128 if x.dtype == np.float64 else np.complex64
        return np.where(finite[..., 0], values, np.nan).astype(kind), np.where(finite, vectors, np.nan).astype(kind)


@op("host.lu", Pure)
class Lu(Op):
    """Each matrix of the last two axes, its rows exchanged, as the product of two triangular ones, both in one matrix.

        %lu, %rows, %zero = host.lu %x : tensor<Nx4x3xf32>, tensor<Nx3xi32>, tensor<Nxi32>      // %x: tensor<Nx4x3xf32>

    The lower one has ones on its diagonal, which are not there. `%rows` are the rows, counted from 1, that each row was exchanged with in
    turn: that of the largest element that is left of the column, the first of equal ones. `%zero` is the first place of the diagonal,
    counted from 1, where the upper matrix is 0; 0 where it has none.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> tuple[Type, ...]:
        count = _check_matrices(x)
        return x, TensorType((*x.shape[:-2], count), i32), TensorType(x.shape[:-2], i32)

    @staticmethod
    def reference(x: Array) -> tuple[Array, Array, Array]:
        rows, columns = x.shape[-2:]
        kind: Any = np.float64 if x.dtype == np.float64 else np.float32
        left = x.reshape(math.prod(x.shape[:-2]), rows, columns).astype(kind)
        every, count = np.arange(len(left)), min(rows, columns)
        exchanged = np.zeros((len(left), count), np.int32)
        for i in range(count):
            pivot = i + np.abs(left[:, i:, i]).argmax(1)
            exchanged[:, i] = pivot + 1
            left[every, i], left[every, pivot] = left[every, pivot], left[every, i]
            by = left[:, i, i, None]
            left[:, i + 1 :, i] = np.divide(left[:, i + 1 :, i], by, out=left[:, i + 1 :, i].copy(), where=by != 0)
            left[:, i + 1 :, i + 1 :] -= left[:, i + 1 :, i, None] * left[:, i, None, i + 1 :]
        zeros = left[:, np.arange(count), np.arange(count)] == 0
        first = np.where(zeros.any(1), zeros.argmax(1) + 1 if count else 0, 0)
        return left.reshape(x.shape).astype(x.dtype), exchanged.reshape(*x.shape[:-2], count), first.reshape(x.shape[:-2]).astype(np.int32)
