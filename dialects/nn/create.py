"""Values from nothing: constants, sizes, counting, and random numbers; and dropout, which uses those."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects import mt19937
from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import Shape, broadcast_shapes, check_number, check_sizes, normal_axis, shape_text
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.attributes import Dense, Number
from polyreme.ir.core import Op
from polyreme.ir.define import ConstantLike, Elementwise, Pure, attr, op, operand
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve, resolve_all
from polyreme.ir.types import ScalarType, TensorType, Type, u64


@op("nn.constant", Pure, ConstantLike)
class Constant(Op):
    """An array known ahead of time, kept in the module.

        %c = nn.constant {value = dense<[1.0, 2.0]>} : tensor<2xf32>

    The result has the array's shape and element type. Large arrays print as text in full, or are left out where a printer is asked to.
    `value` is the array.
    """

    value = attr(Dense)

    @staticmethod
    def infer(*, value: Dense) -> TensorType:
        return value.type

    @staticmethod
    def reference(*, value: Dense) -> Array:
        return value.array


@op("nn.full", Pure, ConstantLike)
class Full(Op):
    """One number everywhere, in a tensor of `shape` and `dtype`.

        %c = nn.full {value = 0.5, shape = [N, 4], dtype = f32} : tensor<Nx4xf32>      // %x: tensor<Nxf32>

    `value` must fit `dtype`: a whole number in range for an integer type. Sizes may be symbolic and must not be negative. An empty `shape`
    is a number of rank 0.
    """

    value = attr(Number)
    shape = attr(tuple[Dim, ...], default=())
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, value: Any, shape: Shape, dtype: ScalarType) -> TensorType:
        check_sizes(shape)
        check_number(value, dtype)
        return TensorType(shape, dtype)

    @staticmethod
    def reference(*, value: Any, shape: Shape, dtype: ScalarType) -> Array:
        return np.full(resolve_all(shape), value, dtype.np)


@op("nn.dim_value", Pure, ConstantLike)
class DimValue(Op):
    """A size as a number of rank 0, known when the program runs.

        %n = nn.dim_value {size = 3*N, dtype = i64} : tensor<i64>      // %x: tensor<Nxf32>

    What a mean over a symbolic size divides by. `size` may be an expression over names, `dtype` is any element type.
    """

    size = attr(Dim)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, size: Dim, dtype: ScalarType) -> TensorType:
        return TensorType((), dtype)

    @staticmethod
    def reference(*, size: Dim, dtype: ScalarType) -> Array:
        return np.asarray(resolve(size), dtype.np)


@op("nn.iota", Pure, ConstantLike)
class Iota(Op):
    """0, 1, 2, … along `axis`, the same along all other axes.

        %i = nn.iota {shape = [2, 5], axis = -1, dtype = i64} : tensor<2x5xi64>

    `dtype` is an integer or float type; numbers that it cannot hold are rounded or wrap around as `nn.cast` has it. `axis` counts from the
    end if negative. `shape` is the result's.
    """

    shape = attr(tuple[Dim, ...])
    axis = attr(int)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, shape: Shape, axis: int, dtype: ScalarType) -> TensorType:
        check_sizes(shape)
        normal_axis(axis, len(shape))
        check_type(dtype.kind in "fiux", f"expected an integer or float type but got {dtype}")
        return TensorType(shape, dtype)

    @staticmethod
    def reference(*, shape: Shape, axis: int, dtype: ScalarType) -> Array:
        sizes = resolve_all(shape)
        column = np.arange(sizes[axis], dtype=np.int64).astype(dtype.np)
        return np.broadcast_to(column.reshape([-1 if i == axis % len(sizes) else 1 for i in range(len(sizes))]), sizes)


@op("nn.uniform", Pure)
class Uniform(Op):
    """Random numbers, uniform in [low, high), and the generator's state after drawing them.

        %v, %next = nn.uniform %s {shape = [4], low = -1.0, high = 1.0, dtype = f32} : tensor<4xf32>, tensor<313xui64>
        // %s: tensor<313xui64>

    The state is that of a Mersenne twister (MT19937), 312 words and a position, as in `dialects/mt19937.py`; the numbers are bit for bit
    those that Paddle's CPU generator draws from it. `dtype` is a float type. Equal states give equal numbers: pass the second result on.
    `shape` is that of the numbers, which are at least `low` and below `high`.
    """

    state = operand()
    shape = attr(tuple[Dim, ...])
    low = attr(float, default=0.0)
    high = attr(float, default=1.0)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(state: TensorType, *, shape: Shape, low: float, high: float, dtype: ScalarType) -> tuple[Type, ...]:
        check_sizes(shape)
        check_type(
            state == TensorType((mt19937.STATE_WORDS,), u64),
            f"expected a generator state, tensor<{mt19937.STATE_WORDS}xui64>, but got {state}",
        )
        check_type(dtype.is_float, f"expected a float type but got {dtype}")
        return TensorType(shape, dtype), state

    @staticmethod
    def reference(state: Array, *, shape: Shape, low: float, high: float, dtype: ScalarType) -> tuple[Array, Array]:
        return mt19937.uniform(state, resolve_all(shape), low, high, dtype.np)


@op("nn.dropout", Pure, Elementwise, accuracy=Accuracy(ulp=2))
class Dropout(Op):
    """Training's dropout: x where its draw from [0, 1) is at least `p`, else 0.

        %y = nn.dropout %x, %d {p = 0.3} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %d: tensor<Nx1xf32>

    `draws` broadcast to `x`, so that whole channels can be dropped. With "upscale_in_train" the kept elements are divided by 1 - p; in
    "downscale_in_infer" they stay as they are (and inference, which is a plain product, multiplies by 1 - p). `p` lies in [0, 1]; with 1
    everything is 0. Which of the two it is says `mode`.
    """

    x = operand()
    draws = operand()
    p = attr(float)
    mode = attr(str, default="upscale_in_train", choices=("upscale_in_train", "downscale_in_infer"))

    @staticmethod
    def infer(x: TensorType, draws: TensorType, *, p: float, mode: str) -> TensorType:
        check_attr(0 <= p <= 1, f"expected p in [0, 1] but got {p}")
        check_type(x.dtype.is_float and draws.dtype.is_float, f"expected floats but got {x.dtype} and {draws.dtype}")
        fits = broadcast_shapes([x.shape, draws.shape]) == x.shape
        check(fits, f"expected draws that broadcast to {shape_text(x.shape)} but got {shape_text(draws.shape)}")
        return x

    @staticmethod
    def reference(x: Array, draws: Array, *, p: float, mode: str) -> Array:
        with np.errstate(all="ignore"):
            kept = x / kept_share(p, x.dtype) if mode == "upscale_in_train" and p < 1 else x
        return np.where(draws >= draws.dtype.type(p), kept, x.dtype.type(0)) if p < 1 else np.zeros_like(x)


def kept_share(p: float, dtype: np.dtype[Any]) -> Any:
    """1 - p, rounded at each step as Paddle's kernels do, which bit-equal results need."""
    wide = np.float64 if dtype == np.float64 else np.float32
    return dtype.type(wide(1) - wide(p))
