"""Deformable convolution: taps that are read between the pixels, where offsets put them."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import math as functions
from polyreme.ir.dims import Dim
from polyreme.tensor import Tensor

__all__ = ["sampled"]


def sampled(
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deformable_groups: int,
) -> Tensor:
    """The convolution of [N, C, H, W] with filters [F, C / groups, kh, kw] whose taps `offset` and `mask` move and weight."""
    batch, channels, height, width = x.type.shape
    filters, own, kh, kw = (int(n) for n in weight.shape)
    taps = kh * kw
    rows, columns = offset.type.shape[2:]
    if not isinstance(channels, int) or channels % deformable_groups:
        raise ValueError(f"deform_conv2d expected channels that {deformable_groups} deformable groups divide but got {list(x.shape)}")
    if offset.type.shape[1] != 2 * deformable_groups * taps:
        raise ValueError(
            f"deform_conv2d expected an offset with {2 * deformable_groups * taps} channels, two for each tap, but got {list(offset.shape)}"
        )
    moved = functions.reshape(offset, [batch, deformable_groups, taps, 2, rows, columns])
    y = moved[:, :, :, 0] + _places(rows, stride[0], padding[0], kh, dilation[0], kw, True)
    at = moved[:, :, :, 1] + _places(columns, stride[1], padding[1], kw, dilation[1], kh, False)
    flat = functions.reshape(x, [batch, deformable_groups, channels // deformable_groups, height * width])
    values = _between(flat, y, at, height, width)
    if mask is not None:
        values = values * functions.reshape(mask, [batch, deformable_groups, 1, taps * rows * columns])
    # [N, groups, C / groups * taps, Ho * Wo]
    gathered = functions.reshape(values, [batch, groups, own * taps, rows * columns])
    made = functions.matmul(functions.reshape(weight, [1, groups, filters // groups, own * taps]), gathered)
    made = functions.reshape(made, [batch, filters, rows, columns])
    return made if bias is None else made + functions.reshape(bias, [1, filters, 1, 1])


def _places(count: Dim, stride: int, padding: int, kernel: int, dilation: int, others: int, is_row: bool) -> Tensor:
    """Where the taps of each output are along one axis without offsets: [taps, Ho, 1] for rows, [taps, 1, Wo] for columns."""
    first = functions.arange(0, count, 1, "float32") * float(stride) - float(padding)
    steps = functions.arange(0, kernel, 1, "float32") * float(dilation)
    if is_row:
        return functions.reshape(
            functions.reshape(steps, [kernel, 1, 1, 1]).expand([kernel, others, 1, 1]) + functions.reshape(first, [1, 1, count, 1]),
            [kernel * others, count, 1],
        )
    return functions.reshape(
        functions.reshape(steps, [1, kernel, 1, 1]).expand([others, kernel, 1, 1]) + functions.reshape(first, [1, 1, 1, count]),
        [kernel * others, 1, count],
    )


def _between(flat: Tensor, y: Tensor, x: Tensor, height: Dim, width: Dim) -> Tensor:
    """Bilinear values of [N, G, C, H * W] at the points, [N, G, taps, Ho, Wo]: [N, G, C, points]; zero outside."""
    top, left = functions.floor(y), functions.floor(x)
    below, right = y - top, x - left
    found = None
    for row, share_y in ((top, 1.0 - below), (top + 1.0, below)):
        for column, share_x in ((left, 1.0 - right), (left + 1.0, right)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            share = functions.where(inside, share_y * share_x, functions.zeros_like(share_y))
            index = functions.where(inside, row * width + column, functions.zeros_like(row)).detach().astype("int64")
            batch, groups = flat.type.shape[:2]
            points = [batch, groups, 1, -1]
            part = functions.take_along_axis(flat, functions.reshape(index, points), 3) * functions.reshape(share, points)
            found = part if found is None else found + part
    assert found is not None
    return found
