"""What goes along an axis in order: running sums, products and extremes, and the positions that sort."""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array, cumulate_array, order_array
from polyreme.dialects.shape_rules import check_order, normal_axis
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand
from polyreme.ir.diagnostics import check_type
from polyreme.ir.types import TensorType


def _infer_running(x: TensorType, *, axis: int) -> TensorType:
    check_type(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
    normal_axis(axis, x.rank)
    return x


def _infer_extreme(x: TensorType, *, axis: int) -> TensorType:
    check_type(x.dtype.kind in "fiu", f"expected real numbers but got {x.dtype}")
    normal_axis(axis, x.rank)
    return x


@op("nn.cumsum", Pure, accuracy=SUM)
class Cumsum(Op):
    """The sum of all elements up to each one along `axis`, its own included.

        %y = nn.cumsum %x {axis = 1} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>

    Integers wrap around; 16-bit floats add up in float32. `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    infer = staticmethod(_infer_running)

    @staticmethod
    def reference(x: Array, *, axis: int) -> Array:
        return cumulate_array(x, "add", axis)


@op("nn.cumprod", Pure, accuracy=SUM)
class Cumprod(Op):
    """The product of all elements up to each one along `axis`, its own included.

        %y = nn.cumprod %x {axis = 1} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>

    Integers wrap around; 16-bit floats are multiplied in float32. `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    infer = staticmethod(_infer_running)

    @staticmethod
    def reference(x: Array, *, axis: int) -> Array:
        return cumulate_array(x, "mul", axis)


@op("nn.cummax", Pure)
class Cummax(Op):
    """The largest of all elements up to each one along `axis`, its own included; nan from the first nan on.

        %y = nn.cummax %x {axis = 1} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>

    `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    infer = staticmethod(_infer_extreme)

    @staticmethod
    def reference(x: Array, *, axis: int) -> Array:
        return cumulate_array(x, "max", axis)


@op("nn.cummin", Pure)
class Cummin(Op):
    """The least of all elements up to each one along `axis`, its own included; nan from the first nan on.

        %y = nn.cummin %x {axis = 1} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>

    `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    infer = staticmethod(_infer_extreme)

    @staticmethod
    def reference(x: Array, *, axis: int) -> Array:
        return cumulate_array(x, "min", axis)


@op("nn.argsort", Pure)
class Argsort(Op):
    """The positions of the elements along `axis` in ascending order, or with `descending` in descending order.

        %i = nn.argsort %x {axis = -1, descending = true, count = 2} : tensor<Nx2xi64>      // %x: tensor<Nx4xf32>

    Of equal elements the first stays first; nan counts as larger than all numbers. With `count`, only the first so many positions are
    given. `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    descending = attr(bool, default=False)
    count = attr(int, default=None)

    @staticmethod
    def infer(x: TensorType, *, axis: int, descending: bool, count: int | None) -> TensorType:
        return check_order(x, normal_axis(axis, x.rank), count)

    @staticmethod
    def reference(x: Array, *, axis: int, descending: bool, count: int | None) -> Array:
        size = x.shape[axis]
        return np.take(order_array(x, axis, descending), range(size if count is None else min(count, size)), axis)
