"""Bits of integers, element by element; of i1 they are the logical functions."""

from __future__ import annotations

from polyreme.dialects.nn.elementwise import ScalarOp, binary, unary


@binary("nn.bitwise_and", "and")
class BitwiseAnd(ScalarOp):
    """The bits that both elements have.

        %z = nn.bitwise_and %x, %y : tensor<Nx4xi32>      // %x: tensor<Nx4xi32>, %y: tensor<4xi32>

    Negative integers are in two's complement.
    """


@binary("nn.shift_left", "shl")
class ShiftLeft(ScalarOp):
    """The bits of `x` moved up by `y` places, zeros behind them.

        %z = nn.shift_left %x, %y : tensor<Nx4xi32>      // %x: tensor<Nx4xi32>, %y: tensor<4xi32>

    What leaves at the top is lost. `y` is 0 or more, and less than the number of bits.
    """


@binary("nn.shift_right", "shr")
class ShiftRight(ScalarOp):
    """The bits of `x` moved down by `y` places, which for signed integers keeps the sign: `x` over a power of 2, rounded down.

        %z = nn.shift_right %x, %y : tensor<Nx4xi32>      // %x: tensor<Nx4xi32>, %y: tensor<4xi32>

    `y` is 0 or more, and less than the number of bits.
    """


@binary("nn.bitwise_or", "or")
class BitwiseOr(ScalarOp):
    """The bits that either element has.

        %z = nn.bitwise_or %x, %y : tensor<Nx4xi32>      // %x: tensor<Nx4xi32>, %y: tensor<4xi32>

    Negative integers are in two's complement.
    """


@binary("nn.bitwise_xor", "xor")
class BitwiseXor(ScalarOp):
    """The bits that exactly one of both elements has.

        %z = nn.bitwise_xor %x, %y : tensor<Nx4xi32>      // %x: tensor<Nx4xi32>, %y: tensor<4xi32>

    Negative integers are in two's complement.
    """


@unary("nn.bitwise_not", "not")
class BitwiseNot(ScalarOp):
    """Each element with all its bits turned: -x - 1 for signed integers.

        %y = nn.bitwise_not %x : tensor<Nx4xi32>
    """
