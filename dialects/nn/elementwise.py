"""Elementwise ops: arithmetic, elementary functions and conversion, with numpy's broadcasting.

Comparison, logic and choice are in `logic.py`. Operands of one op have equal element types; promotion is the front end's. Most ops are one
scalar function (a row of `ir/scalar.py`): their reference runs it on arrays, and their lowering maps it.
"""

from __future__ import annotations

import inspect
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
from polyreme.ir.types import ScalarType, TensorType


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
    cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{_shape_rule(fn, len(operands))}"
    cls.scalar_fn = fn  # type: ignore[attr-defined]
    cls.infer = staticmethod(infer)  # type: ignore[attr-defined]
    cls.reference = staticmethod(reference)  # type: ignore[attr-defined]
    traits = (Pure, Elementwise, Commutative) if scalar_function(fn).commutative else (Pure, Elementwise)
    return op(name, *traits, accuracy=scalar_function(fn).accuracy)(cls)


def _shape_rule(fn: str, operands: int) -> str:
    """What all ops of so many operands say of shapes and types, at the end of their docstrings."""
    shape = "the operand's shape" if operands == 1 else "the shape that both broadcast to"
    dtype = "elements of type i1" if scalar_function(fn).result == "bool" else f"{'its' if operands == 1 else 'their'} element type"
    rule = f"The result has {shape} and {dtype}."
    return (
        rule
        if operands == 1
        else f"The operands have equal element types and broadcast as numpy's do: aligned at their last axes, sizes of 1 repeated. {rule}"
    )


# --- one operand


@unary("nn.neg", "neg")
class Neg(ScalarOp):
    """Each element with its sign turned.

        %y = nn.neg %x : tensor<Nx4xf32>

    For integers the least number stays itself; -0 becomes 0 and 0 becomes -0.
    """


@unary("nn.abs", "abs")
class Abs(ScalarOp):
    """The absolute value of each element.

        %y = nn.abs %x : tensor<Nx4xf32>

    For signed integers the least number, which has no positive counterpart, stays itself. -0 becomes 0.
    """


@unary("nn.exp", "exp")
class Exp(ScalarOp):
    """e to the power of each element.

        %y = nn.exp %x : tensor<Nx4xf32>

    Past about 88.7 (float32) the result is inf; of -inf it is 0.
    """


@unary("nn.expm1", "expm1")
class Expm1(ScalarOp):
    """exp(x) - 1 at each element, exact near 0, where the difference would cancel.

        %y = nn.expm1 %x : tensor<Nx4xf32>

    -1 of -inf.
    """


@unary("nn.log", "log")
class Log(ScalarOp):
    """The natural logarithm of each element.

        %y = nn.log %x : tensor<Nx4xf32>

    -inf of 0, nan of negative numbers.
    """


@unary("nn.log1p", "log1p")
class Log1p(ScalarOp):
    """log(1 + x) at each element, exact near 0, where the sum would lose digits.

        %y = nn.log1p %x : tensor<Nx4xf32>

    -inf of -1, nan below it.
    """


@unary("nn.log2", "log2")
class Log2(ScalarOp):
    """The logarithm to base 2 of each element.

        %y = nn.log2 %x : tensor<Nx4xf32>

    -inf of 0, nan of negative numbers.
    """


@unary("nn.log10", "log10")
class Log10(ScalarOp):
    """The logarithm to base 10 of each element.

        %y = nn.log10 %x : tensor<Nx4xf32>

    -inf of 0, nan of negative numbers.
    """


@unary("nn.sqrt", "sqrt")
class Sqrt(ScalarOp):
    """The square root of each element.

        %y = nn.sqrt %x : tensor<Nx4xf32>

    nan of negative numbers; -0 of -0.
    """


@unary("nn.rsqrt", "rsqrt")
class Rsqrt(ScalarOp):
    """1 / sqrt(x) at each element.

        %y = nn.rsqrt %x : tensor<Nx4xf32>

    inf of 0, nan of negative numbers, 0 of inf.
    """


@unary("nn.sin", "sin")
class Sin(ScalarOp):
    """The sine of each element, an angle in radians.

        %y = nn.sin %x : tensor<Nx4xf32>

    nan of the infinities.
    """


@unary("nn.cos", "cos")
class Cos(ScalarOp):
    """The cosine of each element, an angle in radians.

        %y = nn.cos %x : tensor<Nx4xf32>

    nan of the infinities.
    """


@unary("nn.tan", "tan")
class Tan(ScalarOp):
    """The tangent of each element, an angle in radians.

        %y = nn.tan %x : tensor<Nx4xf32>

    nan of the infinities.
    """


@unary("nn.asin", "asin")
class Asin(ScalarOp):
    """The arc sine of each element, in [-pi/2, pi/2].

        %y = nn.asin %x : tensor<Nx4xf32>

    nan outside [-1, 1].
    """


@unary("nn.acos", "acos")
class Acos(ScalarOp):
    """The arc cosine of each element, in [0, pi].

        %y = nn.acos %x : tensor<Nx4xf32>

    nan outside [-1, 1].
    """


@unary("nn.atan", "atan")
class Atan(ScalarOp):
    """The arc tangent of each element, in [-pi/2, pi/2].

        %y = nn.atan %x : tensor<Nx4xf32>

    ±pi/2 of the infinities.
    """


@unary("nn.sinh", "sinh")
class Sinh(ScalarOp):
    """The hyperbolic sine of each element, (exp(x) - exp(-x)) / 2.

        %y = nn.sinh %x : tensor<Nx4xf32>

    Exact near 0; overflows to ±inf past about 89.4 (float32).
    """


@unary("nn.cosh", "cosh")
class Cosh(ScalarOp):
    """The hyperbolic cosine of each element, (exp(x) + exp(-x)) / 2.

        %y = nn.cosh %x : tensor<Nx4xf32>

    At least 1; overflows to inf past about 89.4 (float32).
    """


@unary("nn.tanh", "tanh")
class Tanh(ScalarOp):
    """The hyperbolic tangent of each element, in [-1, 1].

        %y = nn.tanh %x : tensor<Nx4xf32>

    ±1 of the infinities; never overflows.
    """


@unary("nn.sigmoid", "sigmoid")
class Sigmoid(ScalarOp):
    """The logistic function 1 / (1 + exp(-x)) of each element, in [0, 1].

        %y = nn.sigmoid %x : tensor<Nx4xf32>

    Computed from exp(-|x|), so that it never overflows: 0 of -inf and 1 of inf.
    """


@unary("nn.erf", "erf")
class Erf(ScalarOp):
    """The error function of each element, 2/√π times the integral of exp(-t²) from 0 to x.

        %y = nn.erf %x : tensor<Nx4xf32>

    ±1 of the infinities.
    """


@unary("nn.floor", "floor")
class Floor(ScalarOp):
    """The largest whole number not above each element, as a float.

        %y = nn.floor %x : tensor<Nx4xf32>
    """


@unary("nn.ceil", "ceil")
class Ceil(ScalarOp):
    """The smallest whole number not below each element, as a float.

        %y = nn.ceil %x : tensor<Nx4xf32>

    -0 for numbers in (-1, 0).
    """


@unary("nn.round", "round")
class Round(ScalarOp):
    """The whole number nearest to each element, halves to the even one, as a float.

        %y = nn.round %x : tensor<Nx4xf32>

    0.5 and -0.5 give 0 and -0, 1.5 and 2.5 both give 2.
    """


@unary("nn.trunc", "trunc")
class Trunc(ScalarOp):
    """Each element without its fraction, rounded towards 0, as a float.

        %y = nn.trunc %x : tensor<Nx4xf32>
    """


@unary("nn.sign", "sign")
class Sign(ScalarOp):
    """-1, 0 or 1 for each element, as it is negative, zero or positive.

        %y = nn.sign %x : tensor<Nx4xf32>

    nan for nan. Unsigned integers give 0 or 1.
    """


@op("nn.square", Pure, Elementwise, accuracy=ROUNDED)
class Square(Op):
    """Each element times itself.

        %y = nn.square %x : tensor<Nx4xf32>

    Integers wrap around.
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
    """1 divided by each element.

        %y = nn.reciprocal %x : tensor<Nx4xf32>

    Infinite, with the sign of the zero, at 0 and -0. Integers are refused: cast first.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        check_type(x.dtype.kind in "fc", f"expected floats but got {x.dtype}")
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return apply_scalar("div", (np.ones((), x.dtype), x))


@op("nn.cast", Pure, Elementwise, accuracy=ROUNDED)
class Cast(Op):
    """Each element converted to the element type `dtype`.

        %y = nn.cast %x {dtype = i64} : tensor<Nx4xi64>      // %x: tensor<Nx4xf32>

    Floats lose their fraction on the way to integers; a float that does not fit the integer type gives an unspecified number. To i1
    anything but 0 becomes true, nan too; i1 becomes 0 or 1. Between floats the value is rounded to nearest, and becomes inf past the range.
    Wider integers keep their low bits in narrower ones.
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
    """The sum x + y, element by element.

        %z = nn.add %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Integers wrap around.
    """


@binary("nn.sub", "sub")
class Sub(ScalarOp):
    """The difference x - y, element by element.

        %z = nn.sub %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Integers wrap around, unsigned ones too.
    """


@binary("nn.mul", "mul")
class Mul(ScalarOp):
    """The product x * y, element by element.

        %z = nn.mul %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Integers wrap around; 0 times inf is nan.
    """


@binary("nn.div", "div")
class Div(ScalarOp):
    """The quotient x / y, element by element; integers round towards zero.

        %z = nn.div %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Floats divide by zero to ±inf, and 0 / 0 is nan. An integer divided by zero gives 0.
    """


@binary("nn.floor_divide", "floor_divide")
class FloorDivide(ScalarOp):
    """The quotient x / y rounded down, element by element.

        %z = nn.floor_divide %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Floats stay floats: the exact quotient is rounded down, as the remainder of `nn.mod` needs it (7 // 0.1 is 69), an infinite x gives nan,
    and y = 0 what `nn.div` gives. An integer divided by zero gives 0.
    """


@binary("nn.mod", "mod")
class Mod(ScalarOp):
    """The remainder x - floor(x / y) * y, element by element, which has the sign of y.

        %z = nn.mod %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Floats: nan where y is 0. Integers: 0 where y is 0.
    """


@binary("nn.pow", "pow")
class Pow(ScalarOp):
    """x to the power y, element by element.

        %z = nn.pow %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    Anything to the power 0 is 1, and 1 to any power is 1, nan included. Floats: nan of a negative x and a y that is not whole. Integers to
    a negative power are what is left of the true value without its fraction: 0, but for 1 and -1.
    """


@binary("nn.atan2", "atan2")
class Atan2(ScalarOp):
    """The angle of the point (y, x) from the first axis, in [-pi, pi], element by element.

        %z = nn.atan2 %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>

    The sign of a zero counts: ±0 for x = ±0 and a y that is positive or +0, ±pi where y is negative or -0.
    """


@binary("nn.maximum", "max")
class Maximum(ScalarOp):
    """The larger of x and y, element by element; nan when either is nan.

        %z = nn.maximum %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.minimum", "min")
class Minimum(ScalarOp):
    """The smaller of x and y, element by element; nan when either is nan.

        %z = nn.minimum %x, %y : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """
