"""Complex numbers: their parts, and numbers made of parts."""

from __future__ import annotations

import math

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.math.common import floating, promote, tensor_arg
from polyreme.math.elementwise import atan2, isnan, sign, where
from polyreme.math.logic import less_than
from polyreme.tensor import Tensor

__all__ = ["angle", "as_complex", "as_real", "complex", "conj", "imag", "is_complex", "real", "sgn"]
METHODS = ["angle", "as_complex", "as_real", "conj", "imag", "real", "sgn"]


def _complex_arg(x: Tensor, function: str) -> Tensor:
    if tensor_arg(x, function).type.dtype.kind != "c":
        raise RuntimeError(f"{function} expected complex64 or complex128 but got {x.dtype.name}")
    return x


def is_complex(x: Tensor) -> bool:
    """Whether the elements are complex."""
    return tensor_arg(x, "is_complex").is_complex()


def real(x: Tensor, name: str | None = None) -> Tensor:
    """The real parts of complex numbers."""
    return dispatch.call(ops.Real, _complex_arg(x, "real"))


def imag(x: Tensor, name: str | None = None) -> Tensor:
    """The imaginary parts of complex numbers."""
    return dispatch.call(ops.Imag, _complex_arg(x, "imag"))


def angle(x: Tensor, name: str | None = None) -> Tensor:
    """The angle of complex numbers, in [-pi, pi]; for real ones pi where they are negative and 0 elsewhere."""
    if tensor_arg(x, "angle").type.dtype.kind == "c":
        return atan2(imag(x), real(x))
    x = floating(x)
    zero, half_turn = (dispatch.full((), value, x.type.dtype) for value in (0, math.pi))
    return where(isnan(x), x, where(less_than(x, zero), half_turn, zero))


def conj(x: Tensor, name: str | None = None) -> Tensor:
    """Conjugate numbers: real ones stay as they are."""
    tensor_arg(x, "conj")
    return dispatch.call(ops.Conj, x) if x.type.dtype.kind == "c" else dispatch.call(ops.Reshape, x, shape=x.type.shape)


def complex(real: Tensor, imag: Tensor, name: str | None = None) -> Tensor:
    """real + i imag, broadcast together."""
    real, imag = promote(tensor_arg(real, "complex", "real"), tensor_arg(imag, "complex", "imag"))
    if real.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"complex expected parts of float32 or float64 but got {real.dtype.name}")
    return dispatch.call(ops.Complex, real, imag)


def as_real(x: Tensor, name: str | None = None) -> Tensor:
    """[…] complex numbers as […, 2] real ones."""
    parts = [dispatch.call(ops.Reshape, part, shape=(*x.type.shape, 1)) for part in (real(x), imag(x))]
    return dispatch.call(ops.Concat, parts, axis=x.ndim)


def as_complex(x: Tensor, name: str | None = None) -> Tensor:
    """[…, 2] real numbers as […] complex ones."""
    if tensor_arg(x, "as_complex").ndim == 0 or x.type.shape[-1] != 2:
        raise ValueError(f"as_complex expected a last axis of size 2 but got shape {list(x.shape)}")
    return complex(x[..., 0], x[..., 1])


def sgn(x: Tensor, name: str | None = None) -> Tensor:
    """x / |x|, and 0 for 0: for real numbers their sign."""
    return sign(x)
