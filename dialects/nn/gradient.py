"""Marks that matter to differentiation only."""

from __future__ import annotations

from polyreme.dialects.arrays import Array
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, View, op, operand
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
