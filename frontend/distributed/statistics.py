"""Batch statistics over all ranks, with gradients that flow to all of them."""

from __future__ import annotations

from polyreme import dispatch
from polyreme.dialects import dist
from polyreme.dialects import nn as ops
from polyreme.dialects.shape_rules import wide_type
from polyreme.distributed.group import current_group
from polyreme.ir.dims import product
from polyreme.math.common import cast_to
from polyreme.math.elementwise import divide, square, subtract
from polyreme.math.manipulation import reshape
from polyreme.math.reduction import sum
from polyreme.nn.functional.norm import by_batch
from polyreme.tensor import Tensor

__all__ = ["by_joined_batch"]


def by_joined_batch(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, axis: int, epsilon: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """`x` by the statistics per place along `axis` that the batches of all ranks have together, whatever share each rank has; and these.

    The ranks meet twice: for the sums and how many elements they are of, then for the sums of squared differences from the common mean. So
    nothing cancels, as it would if squares were summed in the first meeting.
    """
    if current_group().size == 1:
        return by_batch(x, weight, bias, axis, epsilon)
    others = [i for i in range(x.ndim) if i != axis]
    wide = wide_type(x.type.dtype)
    values = cast_to(x, wide)
    count = dispatch.full((), product(x.type.shape[i] for i in others), wide)
    total, count = dispatch.call(dist.AllReduce, [sum(values, others), count], reduce="sum")
    mean = divide(total, count)
    aligned = [x.type.shape[axis] if i == axis else 1 for i in range(x.ndim)]
    squares = sum(square(subtract(values, reshape(mean, aligned))), others)
    variance = divide(dispatch.call(dist.AllReduce, [squares], reduce="sum"), count)
    y = dispatch.call(ops.BatchNorm, x, mean, variance, weight, bias, axis=axis, epsilon=epsilon)
    return y, mean, variance
