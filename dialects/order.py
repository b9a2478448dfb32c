"""Ops of the `tensor` dialect that go along an axis in order: running combinations, and the positions that sort."""

from __future__ import annotations

from polyreme.dialects.arrays import Array, cumulate_array, order_array
from polyreme.dialects.shape_rules import check_order
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand
from polyreme.ir.diagnostics import check_attr, check_type
from polyreme.ir.scalar import reduction_accuracy
from polyreme.ir.types import TensorType

__all__ = ["Argsort", "Cumulate"]


@op("tensor.cumulate", Pure, accuracy=reduction_accuracy)
class Cumulate(Op):
    """Each element combined by `fn` with all that stand before it along `axis`: running sums, products or extremes.

        %y = tensor.cumulate %x {fn = "add", axis = 1} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>

    `fn` is add, mul, max or min; sums and products of 16-bit floats are kept in float32 on the way. Kernels combine in an order that is
    fixed by the shapes. `axis` counts from the front.
    """

    x = operand()
    fn = attr(str, choices=("add", "mul", "max", "min"))
    axis = attr(int)

    @staticmethod
    def infer(x: TensorType, *, fn: str, axis: int) -> TensorType:
        check_attr(0 <= axis < x.rank, f"expected axis in [0, {x.rank}) but got {axis}")
        check_type(
            x.dtype.kind in ("fiuc" if fn in ("add", "mul") else "fiu"), f"expected numbers to combine with '{fn}' but got {x.dtype}"
        )
        return x

    @staticmethod
    def reference(x: Array, *, fn: str, axis: int) -> Array:
        return cumulate_array(x, fn, axis)


@op("tensor.argsort", Pure)
class Argsort(Op):
    """The positions of the elements along the last axis in ascending order, or with `descending` in descending order.

        %i = tensor.argsort %x {count = 2} : tensor<Nx2xi64>      // %x: tensor<Nx4xf32>

    Of equal elements the first stays first; nan counts as larger than all numbers. With `count`, only the first so many positions are
    given.
    """

    x = operand()
    descending = attr(bool, default=False)
    count = attr(int, default=None)

    @staticmethod
    def infer(x: TensorType, *, descending: bool, count: int | None) -> TensorType:
        check_attr(x.rank > 0, "expected at least one axis but got a tensor without axes")
        return check_order(x, x.rank - 1, count)

    @staticmethod
    def reference(x: Array, *, descending: bool, count: int | None) -> Array:
        return order_array(x, -1, descending)[..., :count]
