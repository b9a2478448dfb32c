"""Marks that matter to differentiation only."""

from __future__ import annotations

from polyreme.dialects.arrays import Array
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, View, op, operand
from polyreme.ir.diagnostics import check
from polyreme.ir.types import TensorType


@op("nn.stop_gradient", Pure, View)
class StopGradient(Op):
    """`x` itself, through which no gradient flows.

        %y = nn.stop_gradient %x : tensor<Nx4xf32>

    What `detach()` and `no_grad()` leave in a traced function. It is dropped on the way to the `tensor` level, after gradients are taken.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return x


@op("nn.overwrite", Pure)
class Overwrite(Op):
    """The contents of `y`, with the place of `x` among the gradients: all of the result's gradient is that of `x`, and none that of `y`.

        %z = nn.overwrite %x, %y : tensor<Nx4xf32>

    What a write behind the graph's back leaves in a traced function: under `no_grad()`, or through `detach()`. Both operands are of one type. On the way to the `tensor` level, after
    gradients are taken, `y` itself is left.
    """

    x = operand()
    y = operand()

    @staticmethod
    def infer(x: TensorType, y: TensorType) -> TensorType:
        check(x == y, f"expected operands of one type but got {x} and {y}")
        return y

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return y
