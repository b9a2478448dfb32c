"""Marks that matter to differentiation only."""

from __future__ import annotations

from polyreme.dialects.arrays import Array
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, View, op, operand
from polyreme.ir.types import TensorType


@op("nn.stop_gradient", Pure, View)
class StopGradient(Op):
    """`x` itself, through which no gradient flows: what `detach()` and `no_grad()` leave in a traced function.

        %y = nn.stop_gradient %x : tensor<8x128xf32>
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return x
