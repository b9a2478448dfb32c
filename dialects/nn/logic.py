"""Elementwise ops about truth: tests of numbers, comparison, logic and choice, with numpy's broadcasting."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.nn.elementwise import ScalarOp, binary, unary
from polyreme.dialects.shape_rules import broadcast_shapes
from polyreme.ir.core import Op
from polyreme.ir.define import Commutative, Elementwise, Pure, op, operand
from polyreme.ir.scalar import apply_scalar, cast, scalar_function
from polyreme.ir.types import TensorType, i1

# --- tests and comparisons


@unary("nn.is_nan", "isnan")
class IsNan(ScalarOp):
    """Whether each element is nan.

        %y = nn.is_nan %x : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>
    """


@unary("nn.is_inf", "isinf")
class IsInf(ScalarOp):
    """Whether each element is an infinity, of either sign.

        %y = nn.is_inf %x : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>
    """


@unary("nn.is_finite", "isfinite")
class IsFinite(ScalarOp):
    """Whether each element is neither infinite nor nan.

        %y = nn.is_finite %x : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>
    """


@binary("nn.equal", "eq")
class Equal(ScalarOp):
    """Whether x == y, element by element; false where either is nan.

        %z = nn.equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.not_equal", "ne")
class NotEqual(ScalarOp):
    """Whether x != y, element by element; true where either is nan.

        %z = nn.not_equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.less", "lt")
class Less(ScalarOp):
    """Whether x < y, element by element; false where either is nan.

        %z = nn.less %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.less_equal", "le")
class LessEqual(ScalarOp):
    """Whether x <= y, element by element; false where either is nan.

        %z = nn.less_equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.greater", "gt")
class Greater(ScalarOp):
    """Whether x > y, element by element; false where either is nan.

        %z = nn.greater %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


@binary("nn.greater_equal", "ge")
class GreaterEqual(ScalarOp):
    """Whether x >= y, element by element; false where either is nan.

        %z = nn.greater_equal %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xf32>, %y: tensor<4xf32>
    """


# --- logic


@op("nn.logical_not", Pure, Elementwise)
class LogicalNot(Op):
    """Whether each element is false, or zero.

        %y = nn.logical_not %x : tensor<4xi1>

    Takes any element type and gives i1; nan counts as true, so its result is false.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x.with_dtype(i1)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.asarray(x == 0)


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
    """Whether both elements are true, element by element.

        %z = nn.logical_and %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xi1>, %y: tensor<4xi1>

    Numbers of any type are true unless zero. The operands broadcast as numpy's do; their element types may differ. The result is i1.
    """

    x = operand()
    y = operand()
    scalar_fn = "and"


@op("nn.logical_or", Pure, Elementwise, Commutative)
class LogicalOr(LogicalOp):
    """Whether at least one of both elements is true, element by element.

        %z = nn.logical_or %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xi1>, %y: tensor<4xi1>

    Numbers of any type are true unless zero. The operands broadcast as numpy's do; their element types may differ. The result is i1.
    """

    x = operand()
    y = operand()
    scalar_fn = "or"


@op("nn.logical_xor", Pure, Elementwise, Commutative)
class LogicalXor(LogicalOp):
    """Whether exactly one of both elements is true, element by element.

        %z = nn.logical_xor %x, %y : tensor<Nx4xi1>      // %x: tensor<Nx4xi1>, %y: tensor<4xi1>

    Numbers of any type are true unless zero. The operands broadcast as numpy's do; their element types may differ. The result is i1.
    """

    x = operand()
    y = operand()
    scalar_fn = "xor"


# --- choice


@op("nn.where", Pure, Elementwise)
class Where(Op):
    """The element of `x` where `condition` holds, else that of `y`.

        %z = nn.where %c, %x, %y : tensor<Nx4xf32>      // %c: tensor<Nx1xi1>, %x: tensor<4xf32>, %y: tensor<Nx4xf32>

    All three broadcast as numpy's operands do. `condition` is i1; `x` and `y` have equal element types. What is not chosen has no effect,
    not even as nan.
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
