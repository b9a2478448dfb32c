"""Elements replaced: under masks, at positions, on diagonals, by random numbers; and a few more functions of Paddle's that are known by
their in-place forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import default_dtype
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import f64, i1, i64
from polyreme.math.common import axis_of, cast_to, common_shape, floating, number_dtype, number_like, number_of, promote, tensor_arg
from polyreme.math.creation import full_like, uniform
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import (
    acosh,
    add,
    asinh,
    atanh,
    clip,
    divide,
    in_place,
    multiply,
    neg,
    pow,
    scale,
    sin,
    sqrt,
    square,
    subtract,
    where,
)
from polyreme.math.logic import bitwise_not, less_than
from polyreme.math.manipulation import broadcast_shape, check_positions, expand, flat_positions, gather_nd, reshape, stack
from polyreme.math.scattering import scatter_nd_add
from polyreme.math.search import cumsum, nonzero
from polyreme.random import default_generator
from polyreme.tensor import Tensor

__all__ = [
    "baddbmm", "bitwise_invert", "clamp", "copysign", "div", "hypot", "index_fill", "index_put", "ldexp", "less", "masked_fill",
    "masked_scatter", "mul", "nan_to_num", "sinc",
    "sub",
]  # fmt: skip
METHODS = list(__all__)

# Paddle's shorter names.
bitwise_invert, clamp, div, less, mul, sub = bitwise_not, clip, divide, less_than, multiply, subtract


def baddbmm(input: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """beta * input + alpha * (x @ y) for batches of matrices."""
    if tensor_arg(x, "baddbmm").ndim != 3 or tensor_arg(y, "baddbmm", "y").ndim != 3:
        raise ValueError(f"baddbmm expected batches of matrices but got shapes {list(x.shape)} and {list(y.shape)}")
    return add(scale(input, beta), scale(dispatch.call(ops.MatMul, x, y), alpha))


def copysign(x: Tensor, y: Any, name: str | None = None) -> Tensor:
    """|x| with the sign of `y`, that of a zero included. A number `y` takes the dtype of `x`."""
    tensor_arg(x, "copysign")
    if not isinstance(y, Tensor):
        y = cast_to(dispatch.full((), y, number_dtype(y)), x.type.dtype)
    x, y = promote(x, y)
    if x.type.dtype.kind in "ub":
        return dispatch.call(ops.BroadcastTo, x, shape=tuple(common_shape(lambda: [x.type.shape, y.type.shape])))
    zero, told = number_like(y, 0), y
    if x.type.dtype.is_float:
        # 1 / -0 is below 0.
        told = dispatch.call(ops.Where, dispatch.call(ops.Equal, y, zero), dispatch.call(ops.Div, number_like(y, 1), y), y)
    size = abs_(x)
    return dispatch.call(ops.Where, dispatch.call(ops.Less, told, zero), neg(size), size)


def hypot(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """sqrt(x² + y²)."""
    return sqrt(add(square(tensor_arg(x, "hypot")), square(tensor_arg(y, "hypot", "y"))))


def ldexp(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x times 2 to the power y, in float64 where either is of it, else in the default float; complex numbers stay what they are."""
    dtypes = {tensor_arg(x, "ldexp").type.dtype, tensor_arg(y, "ldexp", "y").type.dtype}
    dtype = f64 if f64 in dtypes else default_dtype().scalar
    x, y = (v if v.type.dtype.kind == "c" else cast_to(v, dtype) for v in (x, y))
    return multiply(x, pow(number_like(y, 2), y))


def sinc(x: Tensor, name: str | None = None) -> Tensor:
    """sin(πx) / (πx), and 1 at 0."""
    x = floating(tensor_arg(x, "sinc"))
    at_zero = dispatch.call(ops.Equal, x, dispatch.full((), 0, x.type.dtype))
    one = dispatch.full((), 1, x.type.dtype)
    turned = scale(dispatch.call(ops.Where, at_zero, one, x), math.pi)
    return dispatch.call(ops.Where, at_zero, one, divide(sin(turned), turned))


def nan_to_num(x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, name: str | None = None) -> Tensor:
    """`x` with numbers in place of nan and of both infinities: the largest and the least one of the dtype unless given."""
    dtype = tensor_arg(x, "nan_to_num").type.dtype
    if not dtype.is_float:
        return dispatch.call(ops.Reshape, x, shape=x.type.shape)
    largest = float(np.finfo(dtype.np).max) if dtype.np.kind == "f" else float(np.finfo(np.float32).max)
    number = lambda value: dispatch.full((), value, dtype)
    made = dispatch.call(ops.Where, dispatch.call(ops.IsNan, x), number(nan), x)
    made = dispatch.call(ops.Where, dispatch.call(ops.Equal, x, number(math.inf)), number(largest if posinf is None else posinf), made)
    return dispatch.call(ops.Where, dispatch.call(ops.Equal, x, number(-math.inf)), number(-largest if neginf is None else neginf), made)


# --- replaced elements


def masked_fill(x: Tensor, mask: Tensor, value: Any, name: str | None = None) -> Tensor:
    """`x` with `value` where the mask, which broadcasts with it, holds."""
    if tensor_arg(mask, "masked_fill", "mask").type.dtype != i1:
        raise TypeError(f"masked_fill expected a bool mask but got {mask.dtype.name}")
    filler = cast_to(value, x.type.dtype) if isinstance(value, Tensor) else dispatch.full((), value, x.type.dtype)
    return dispatch.call(ops.Where, mask, filler, tensor_arg(x, "masked_fill"))


def masked_scatter(x: Tensor, mask: Tensor, value: Tensor, name: str | None = None) -> Tensor:
    """`x` with the elements of `value`, one after the other, where the mask holds."""
    if tensor_arg(mask, "masked_scatter", "mask").type.dtype != i1:
        raise TypeError(f"masked_scatter expected a bool mask but got {mask.dtype.name}")
    if not isinstance(mask._held(), np.ndarray):
        whole = expand(mask, common_shape(lambda: [x.type.shape, mask.type.shape]))
        before = cumsum(cast_to(reshape(whole, [-1]), i64)) - 1
        return where(whole, dispatch.call(ops.Gather, reshape(value, [-1]), reshape(before, whole.type.shape), axis=0), x)
    whole = expand(mask, broadcast_shape(x.shape, mask.shape))
    held = whole._array("masked_scatter()")
    count = int(held.sum())
    if count > value.size:
        raise AssertionError(f"mask true nums must be <= value size, but got mask true nums is {count}, value size is {value.size}")
    if not count:
        return dispatch.call(ops.Reshape, x, shape=x.type.shape)
    which = np.maximum(np.cumsum(held.ravel()) - 1, 0).reshape(held.shape)
    return where(whole, dispatch.call(ops.Gather, reshape(value, [-1]), dispatch.constant(which), axis=0), x)


def index_fill(x: Tensor, index: Tensor, axis: int, value: Any, name: str | None = None) -> Tensor:
    """`x` with `value` in the slices at the positions of a 1-D `index` along `axis`."""
    place = axis_of(axis, tensor_arg(x, "index_fill").ndim, "index_fill")
    if tensor_arg(index, "index_fill", "index").ndim != 1:
        raise ValueError(f"index_fill expected a 1-D index but got shape {list(index.shape)}")
    shape = (*x.type.shape[:place], *index.type.shape, *x.type.shape[place + 1 :])
    filler = cast_to(value, x.type.dtype) if isinstance(value, Tensor) else dispatch.full((), number_of(value), x.type.dtype)
    if index.type.elements == 0:
        return dispatch.call(ops.Reshape, x, shape=x.type.shape)
    index = check_positions(index, x.type.shape[place], "index_fill", by_op=True)
    return dispatch.call(ops.Scatter, x, expand(filler, list(shape)), index, axis=place)


def index_put(x: Tensor, indices: Sequence[Tensor], value: Tensor, accumulate: bool = False, name: str | None = None) -> Tensor:
    """`x` with `value` written (or added, with `accumulate`) at the coordinates that the tensors in `indices` name, which broadcast
    together, as may bool masks.
    """
    tensor_arg(x, "index_put")
    given: list[Tensor] = []
    for index in indices:
        given += nonzero(index, as_tuple=True) if index.type.dtype == i1 else [cast_to(index, i64)]
    depth, shape = len(given), x.type.shape
    if not 0 < depth <= x.ndim:
        raise ValueError(f"index_put expected 1 to {x.ndim} indices but got {depth}")
    common: list[int] = []
    for index in given:
        common = broadcast_shape(common, index.shape)
    if product(common) == 0:
        return dispatch.call(ops.Reshape, x, shape=shape)
    coordinates = stack([expand(index, common) for index in given], len(common))
    rest = shape[depth:]
    if accumulate and (recorder := dispatch.recorder()) is not None and recorder.keeps_reads:
        added: Tensor = scatter_nd_add(x, coordinates, expand(cast_to(value, x.type.dtype), [*common, *rest]))
        return added
    flat = reshape(_flat(coordinates, shape), [-1])
    values = reshape(expand(cast_to(value, x.type.dtype), [*common, *rest]), [product(common), *rest])
    rows = dispatch.call(ops.Reshape, x, shape=(product(shape[:depth]), *rest))
    if accumulate:
        made = add(rows, dispatch.call(ops.ScatterAdd, values, flat, axis=0, size=rows.type.shape[0]))
    else:
        made = dispatch.call(ops.Scatter, rows, values, flat, axis=0)
    return dispatch.call(ops.Reshape, made, shape=shape)


def _flat(coordinates: Tensor, shape: Sequence[Dim]) -> Tensor:
    """The places of coordinates in the joined first axes of a tensor of `shape`. In a static Program Paddle's operator looks them up, so
    that what reads a saved one finds those that are outside.
    """
    if (recorder := dispatch.recorder()) is None or not recorder.keeps_reads:
        return flat_positions(coordinates, shape, "index_put")
    sizes = tuple(shape[: coordinates.shape[-1]])
    numbers = dispatch.call(ops.Iota, shape=(product(sizes),), axis=0, dtype=i64)
    return gather_nd(dispatch.call(ops.Reshape, numbers, shape=sizes), coordinates)


def _with_diagonal(x: Tensor, value: Any, offset: int = 0, wrap: bool = False, name: str | None = None) -> Tensor:
    if x.ndim < 2 or x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(
            f"fill_diagonal_ expected a matrix, or a tensor of more axes that are all of one size, but got shape {list(x.shape)}"
        )
    mask = np.zeros(x.shape, bool)
    if x.ndim == 2:
        mask = np.eye(x.shape[0], x.shape[1], offset, dtype=bool)
        if wrap and offset == 0 and x.shape[0] > x.shape[1]:
            mask.ravel()[:: x.shape[1] + 1] = True
    else:
        mask[tuple([np.arange(x.shape[0])] * x.ndim)] = True
    return masked_fill(x, dispatch.constant(mask), value)


def _uniform(x: Tensor, min: float = 0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Tensor:
    return _in_its_place(x, uniform(x.shape, x.dtype, min, max, seed))


def _normal(x: Tensor, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Tensor:
    return _in_its_place(x, default_generator().normal(x.type.shape, float(mean), float(std), x.type.dtype))


def _filled(x: Tensor, value: Any) -> Tensor:
    return _in_its_place(x, full_like(x, value))


def _in_its_place(x: Tensor, new: Tensor) -> Tensor:
    """The new numbers, of which what `x` was computed from learns that it has a gradient of 0."""
    return new if x.stop_gradient else where(full_like(x, False, "bool"), x, new)


def _named(function: Callable[..., Tensor], name: str, doc: str) -> Callable[..., Tensor]:
    made = in_place(function)
    made.__name__ = made.__qualname__ = name
    made.__doc__ = doc
    return made


fill_diagonal_ = _named(
    _with_diagonal,
    "fill_diagonal_",
    "`value` on the diagonal `offset` above the main one, in place; with `wrap` a tall matrix starts anew below.",
)
uniform_ = _named(_uniform, "uniform_", "Uniform numbers in [min, max) in place of all elements.")
normal_ = _named(_normal, "normal_", "Normal numbers in place of all elements.")
fill_ = _named(_filled, "fill_", "One number in place of all elements.")


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Say whether the tensor needs gradients; returns it."""
    self.stop_gradient = not requires_grad
    return self


acosh_, asinh_, atanh_ = in_place(acosh), in_place(asinh), in_place(atanh)
for _name in __all__:
    globals()[_name + "_"] = in_place(globals()[_name])
_PLACED = [n + "_" for n in __all__]
__all__ += ["acosh_", "asinh_", "atanh_", "normal_", *(n for n in _PLACED if n not in ("clamp_", "mul_"))]
METHODS += ["acosh_", "asinh_", "atanh_", "fill_diagonal_", "normal_", "requires_grad_", "uniform_", *_PLACED]
