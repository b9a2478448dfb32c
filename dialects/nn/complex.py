"""Complex numbers: their parts, and numbers made of parts."""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import broadcast_shapes, check_same_dtype
from polyreme.ir.core import Op
from polyreme.ir.define import Elementwise, Pure, op, operand
from polyreme.ir.diagnostics import check_type
from polyreme.ir.types import PARTS, WHOLE, ScalarType, TensorType


def _part_type(x: TensorType) -> ScalarType:
    check_type(x.dtype in PARTS, f"expected complex numbers but got {x.dtype}")
    return PARTS[x.dtype]


@op("nn.real", Pure, Elementwise)
class Real(Op):
    """The real part of each element.

        %y = nn.real %x : tensor<Nxf32>      // %x: tensor<Nxcomplex<f32>>

    Complex elements only; the result's are floats half as wide.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x.with_dtype(_part_type(x))

    @staticmethod
    def reference(x: Array) -> Array:
        return x.real.copy()


@op("nn.imag", Pure, Elementwise)
class Imag(Op):
    """The imaginary part of each element.

        %y = nn.imag %x : tensor<Nxf32>      // %x: tensor<Nxcomplex<f32>>

    Complex elements only; the result's are floats half as wide.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x.with_dtype(_part_type(x))

    @staticmethod
    def reference(x: Array) -> Array:
        return x.imag.copy()


@op("nn.conj", Pure, Elementwise)
class Conj(Op):
    """Each element with its imaginary part negated.

        %y = nn.conj %x : tensor<Nxcomplex<f32>>

    Complex elements only: real ones are their own conjugates.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        _part_type(x)
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return np.conj(x)


@op("nn.complex", Pure, Elementwise)
class Complex(Op):
    """Complex numbers of real and imaginary parts.

        %z = nn.complex %x, %y : tensor<Nxcomplex<f32>>      // %x: tensor<Nxf32>, %y: tensor<Nxf32>

    The parts are both f32 or both f64 and broadcast as numpy's operands do.
    """

    real = operand()
    imag = operand()

    @staticmethod
    def infer(real: TensorType, imag: TensorType) -> TensorType:
        check_same_dtype([real, imag])
        check_type(real.dtype in WHOLE, f"expected parts of type f32 or f64 but got {real.dtype}")
        return TensorType(broadcast_shapes([real.shape, imag.shape]), WHOLE[real.dtype])

    @staticmethod
    def reference(real: Array, imag: Array) -> Array:
        made = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
        made.real, made.imag = real, imag
        return made
