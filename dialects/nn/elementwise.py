"""Elementwise ops: arithmetic, comparison, logic, choice and conversion, with numpy's broadcasting.

Operands of one op have equal element types; promotion is the front end's. Most ops are one scalar function (a row of `ir/scalar.py`): their
reference runs it on arrays, and their lowering maps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import broadcast_shapes
from polyreme.ir.accuracy import ROUNDED
from polyreme.ir.core import Op
from polyreme.ir.define import Commutative, Elementwise, OpClass, Pure, attr, op, operand
from polyreme.ir.diagnostics import check_type
from polyreme.ir.scalar import apply_scalar, cast, scalar_function
from polyreme.ir.types import ScalarType, TensorType, i1


class ScalarOp(Op):
    """An op that is one scalar function, `scalar_fn`, at each place."""

    scalar_fn: ClassVar[str] = ""


def unary(name: str, fn: str) -> Callable[[OpClass], OpClass]:
    """Declare the class as the op `name` on one operand `x` with the scalar function `fn`."""

    def declare(cls: OpClass) -> OpClass:
        def infer(x: TensorType) -> TensorType:
            return x.with_dtype(scalar_function(fn).result_type((x.dtype,)))

        def reference(x: Array) -> Array:
            return apply_scalar(fn, (x,))

        return _declare_scalar(cls, name, fn, ("x",), infer, reference)

    return declare


def binary(name: str, fn: str) -> Callable[[OpClass], OpClass]:
    """Declare the class as the op `name` on operands `x` and `y` with the scalar function `fn`."""

    def declare(cls: OpClass) -> OpClass:
        def infer(x: TensorType, y: TensorType) -> TensorType:
            dtype = scalar_function(fn).result_type((x.dtype, y.dtype))
            return TensorType(broadcast_shapes([x.shape, y.shape]), dtype)

        def reference(x: Array, y: Array) -> Array:
            return apply_scalar(fn, (x, y))

        return _declare_scalar(cls, name, fn, ("x", "y"), infer, reference)

    return declare


def _declare_scalar(cls: OpClass, name: str, fn: str, operands: tuple[str, ...], infer: Any, reference: Any) -> OpClass:
    for operand_name in operands:
        setattr(cls, operand_name, operand())
    cls.scalar_fn = fn  # type: ignore[attr-defined]
    cls.infer = staticmethod(infer)  # type: ignore[attr-defined]
    cls.reference = staticmethod(reference)  # type: ignore[attr-defined]
    traits = (Pure, Elementwise, Commutative) if scalar_function(fn).commutative else (Pure, Elementwise)
    return op(name, *traits, accuracy=scalar_function(fn).accuracy)(cls)


# --- one operand


@unary("nn.neg", "neg")
class Neg(ScalarOp):
    """The value with its sign turned.

        %y = nn.neg %x : tensor<Nx4xf32>
    """


@unary("nn.abs", "abs")
class Abs(ScalarOp):
    """The absolute value.

        %y = nn.abs %x : tensor<Nx4xf32>
    """


@unary("nn.exp", "exp")
class Exp(ScalarOp):
    """e to the power of x.

        %y = nn.exp %x : tensor<Nx4xf32>
    """


@unary("nn.expm1", "expm1")
class Expm1(ScalarOp):
    """exp(x) - 1, exact near 0.

        %y = nn.expm1 %x : tensor<Nx4xf32>
    """


@unary("nn.log", "log")
class Log(ScalarOp):
    """The natural logarithm.

        %y = nn.log %x : tensor<Nx4xf32>
    """


@unary("nn.log1p", "log1p")
class Log1p(ScalarOp):
    """log(1 + x), exact near 0.

        %y = nn.log1p %x : tensor<Nx4xf32>
    """


@unary("nn.log2", "log2")
class Log2(ScalarOp):
    """The logarithm to base 2.

        %y = nn.log2 %x : tensor<Nx4xf32>
    """


@unary("nn.log10", "log10")
class Log10(ScalarOp):
    """The logarithm to base 10.

        %y = nn.log10 %x : tensor<Nx4xf32>
    """


@unary("nn.sqrt", "sqrt")
class Sqrt(ScalarOp):
    """The square root.

        %y = nn.sqrt %x : tensor<Nx4xf32>
    """


@unary("nn.rsqrt", "rsqrt")
class Rsqrt(ScalarOp):
    """1 / sqrt(x).

        %y = nn.rsqrt %x : tensor<Nx4xf32>
    """


@unary("nn.sin", "sin")
class Sin(ScalarOp):
    """The sine.

        %y = nn.sin %x : tensor<Nx4xf32>
    """


@unary("nn.cos", "cos")
class Cos(ScalarOp):
    """The cosine.

        %y = nn.cos %x : tensor<Nx4xf32>
    """


@unary("nn.tan", "tan")
class Tan(ScalarOp):
    """The tangent.

        %y = nn.tan %x : tensor<Nx4xf32>
    """


@unary("nn.asin", "asin")
class Asin(ScalarOp):
    """The arc sine.

        %y = nn.asin %x : tensor<Nx4xf32>
    """


@unary("nn.acos", "acos")
class Acos(ScalarOp):
    """The arc cosine.

        %y = nn.acos %x : tensor<Nx4xf32>
    """


@unary("nn.atan", "atan")
class Atan(ScalarOp):
    """The arc tangent.

        %y = nn.atan %x : tensor<Nx4xf32>
    """


@unary("nn.sinh", "sinh")
class Sinh(ScalarOp):
    """The hyperbolic sine.

        %y = nn.sinh %x : tensor<Nx4xf32>
    """


@unary("nn.cosh", "cosh")
class Cosh(ScalarOp):
    """The hyperbolic cosine.

        %y = nn.cosh %x : tensor<Nx4xf32>
    """


@unary("nn.tanh", "tanh")
class Tanh(ScalarOp):
    """The hyperbolic tangent.

        %y = nn.tanh %x : tensor<Nx4xf32>
    """


@unary("nn.sigmoid", "sigmoid")
class Sigmoid(ScalarOp):
    """1 / (1 + exp(-x)).

        %y = nn.sigmoid %x : tensor<Nx4xf32>
    """


@unary("nn.erf", "erf")
class Erf(ScalarOp):
    """The error function.

        %y = nn.erf %x : tensor<Nx4xf32>
    """


@unary("nn.floor", "floor")
class Floor(ScalarOp):
    """The largest whole number not above x.

        %y = nn.floor %x : tensor<Nx4xf32>
    """


@unary("nn.ceil", "ceil")
class Ceil(ScalarOp):
    """The smallest whole number not below x.

        %y = nn.ceil %x : tensor<Nx4xf32>
    """


@unary("nn.round", "round")
class Round(ScalarOp):
    """The nearest whole number, halves to even.

        %y = nn.round %x : tensor<Nx4xf32>
    """


@unary("nn.trunc", "trunc")
class Trunc(ScalarOp):
    """The value without its fraction.

        %y = nn.trunc %x : tensor<Nx4xf32>
    """


@unary("nn.sign", "sign")
class Sign(ScalarOp):
    """-1, 0 or 1; nan for nan.

        %y = nn.sign %x : tensor<Nx4xf32>
    """


@unary("nn.is_nan", "isnan")
class IsNan(ScalarOp):
    """Whether x is nan.

        %y = nn.is_nan %x : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>
    """


@unary("nn.is_inf", "isinf")
class IsInf(ScalarOp):
    """Whether x is an infinity.

        %y = nn.is_inf %x : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>
    """


@unary("nn.is_finite", "isfinite")
class IsFinite(ScalarOp):
    """Whether x is neither infinite nor nan.

        %y = nn.is_finite %x : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>
    """


@op("nn.square", Pure, Elementwise, accuracy=ROUNDED)
class Square(Op):
    """The value times itself.

        %y = nn.square %x : tensor<Nx4xf32>
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        check_type(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return apply_scalar("mul", (x, x))


@op("nn.reciprocal", Pure, Elementwise, accuracy=ROUNDED)
class Reciprocal(Op):
    """1 / x.

        %y = nn.reciprocal %x : tensor<Nx4xf32>
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        check_type(x.dtype.kind in "fc", f"expected floats but got {x.dtype}")
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return apply_scalar("div", (np.ones((), x.dtype), x))


@op("nn.logical_not", Pure, Elementwise)
class LogicalNot(Op):
    """Whether x is false, or zero.

        %y = nn.logical_not %x : tensor<4xi1>
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x.with_dtype(i1)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.asarray(x == 0)


@op("nn.cast", Pure, Elementwise, accuracy=ROUNDED)
class Cast(Op):
    """Conversion to another element type: floats lose their fraction on the way to integers, and anything but 0 becomes true.

        %y = nn.cast %x {dtype = i64} : tensor<Nx4xi64>      // %x: tensor<Nx4xf32>
    """

    x = operand()
    dtype = attr(ScalarType)

    @staticmethod
    def infer(x: TensorType, *, dtype: ScalarType) -> TensorType:
        return x.with_dtype(scalar_function("cast").result_type((x.dtype,), dtype))

    @staticmethod
    def reference(x: Array, *, dtype: ScalarType) -> Array:
        return cast(x, dtype)


# --- two operands


@binary("nn.add", "add")
class Add(ScalarOp):
    """x + y.

        %z = nn.add %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.sub", "sub")
class Sub(ScalarOp):
    """x - y.

        %z = nn.sub %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.mul", "mul")
class Mul(ScalarOp):
    """x * y.

        %z = nn.mul %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.div", "div")
class Div(ScalarOp):
    """x / y; integers round towards zero, and division by zero gives 0.

        %z = nn.div %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.floor_divide", "floor_divide")
class FloorDivide(ScalarOp):
    """floor(x / y).

        %z = nn.floor_divide %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.mod", "mod")
class Mod(ScalarOp):
    """x - floor(x / y) * y, which has the sign of y.

        %z = nn.mod %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.pow", "pow")
class Pow(ScalarOp):
    """x to the power y.

        %z = nn.pow %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.maximum", "max")
class Maximum(ScalarOp):
    """The larger one; nan when either is nan.

        %z = nn.maximum %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.minimum", "min")
class Minimum(ScalarOp):
    """The smaller one; nan when either is nan.

        %z = nn.minimum %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.equal", "eq")
class Equal(ScalarOp):
    """Whether x == y.

        %z = nn.equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.not_equal", "ne")
class NotEqual(ScalarOp):
    """Whether x != y.

        %z = nn.not_equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.less", "lt")
class Less(ScalarOp):
    """Whether x < y.

        %z = nn.less %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.less_equal", "le")
class LessEqual(ScalarOp):
    """Whether x <= y.

        %z = nn.less_equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.greater", "gt")
class Greater(ScalarOp):
    """Whether x > y.

        %z = nn.greater %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.greater_equal", "ge")
class GreaterEqual(ScalarOp):
    """Whether x >= y.

        %z = nn.greater_equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


# --- logic and choice


class LogicalOp(Op):
    """A logical function, `scalar_fn`, of the truths of two operands; numbers are true unless zero."""

    scalar_fn: ClassVar[str] = ""

    @classmethod
    def infer(cls, x: TensorType, y: TensorType) -> TensorType:
        return TensorType(broadcast_shapes([x.shape, y.shape]), i1)

    @classmethod
    def reference(cls, x: Array, y: Array) -> Array:
        return apply_scalar(cls.scalar_fn, (cast(x, i1), cast(y, i1)))


@op("nn.logical_and", Pure, Elementwise, Commutative)
class LogicalAnd(LogicalOp):
    """Whether both are true.

        %z = nn.logical_and %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xi1>, %y: tensor<4xi1>
    """

    x = operand()
    y = operand()
    scalar_fn = "and"


@op("nn.logical_or", Pure, Elementwise, Commutative)
class LogicalOr(LogicalOp):
    """Whether at least one is true.

        %z = nn.logical_or %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xi1>, %y: tensor<4xi1>
    """

    x = operand()
    y = operand()
    scalar_fn = "or"


@op("nn.logical_xor", Pure, Elementwise, Commutative)
class LogicalXor(LogicalOp):
    """Whether exactly one is true.

        %z = nn.logical_xor %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xi1>, %y: tensor<4xi1>
    """

    x = operand()
    y = operand()
    scalar_fn = "xor"


@op("nn.where", Pure, Elementwise)
class Where(Op):
    """x where the condition holds, else y.

        %z = nn.where %c, %x, %y : tensor<Nx4xf32>      // %c: tensor<Nx1xi1>, %x: tensor<4xf32>, %y: tensor<Nx4xf32>
    """

    condition = operand()
    x = operand()
    y = operand()

    @staticmethod
    def infer(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
        dtype = scalar_function("select").result_type((condition.dtype, x.dtype, y.dtype))
        return TensorType(broadcast_shapes([condition.shape, x.shape, y.shape]), dtype)

    @staticmethod
    def reference(condition: Array, x: Array, y: Array) -> Array:
        return apply_scalar("select", (condition, x, y))
