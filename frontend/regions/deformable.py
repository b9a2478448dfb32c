"""Convolutions whose windows have places of their own between pixels (Dai and others, "Deformable convolutional networks", 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import TensorType, i64
from polyreme.math import add, matmul, multiply, reshape, subtract, transpose
from polyreme.math.common import same_sizes
from polyreme.regions.places import both, number, pixel_rows, read, whole
from polyreme.tensor import Tensor

__all__ = ["deformable_conv", "result_type"]


def deformable_conv(
    x: Tensor,
    offset: Tensor,
    filter: Tensor,
    mask: Tensor | None,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    deformable_groups: int,
    groups: int,
) -> Tensor:
    """[N, O, h, w] of images [N, C, H, W] and filters [O, C / groups, kh, kw].

    `offset` [N, deformable_groups * kh * kw * 2, h, w] has how far down and to the right of its usual place each element of a window is
    read, `mask` [N, deformable_groups * kh * kw, h, w] a factor for it. What is outside of the image is 0.
    """
    kind = result_type(x, offset, filter, mask, strides, paddings, dilations, deformable_groups, groups)
    images, channels, height, width = x.type.shape
    made, taken = filter.type.shape[:2]
    kh, kw = (int(k) for k in filter.shape[2:])
    rows, columns = kind.shape[2:]
    elements, parts = kh * kw, deformable_groups

    # Everything of a window lies together: [N, h, w, deformable groups, elements].
    wide = (images, rows, columns, parts, elements)
    moved = transpose(reshape(offset, [images, parts, elements, 2, rows, columns]), [3, 0, 4, 5, 1, 2])
    steps = np.indices((kh, kw)).reshape(2, elements)
    places = [
        _places(reshape(moved[i], list(wide)), i + 1, strides[i], paddings[i], steps[i] * dilations[i]) for i in range(2)
    ]
    image = _counted(wide, 0)
    part = _counted(wide, 3)
    first = multiply(add(multiply(image, number(parts, i64)), part), number(height * width, i64))
    factor = None if mask is None else transpose(reshape(mask, [images, parts, elements, rows, columns]), [0, 3, 4, 1, 2])
    windows = _read(pixel_rows(x, parts), first, places, (height, width), factor)  # [N, h, w, parts, elements, C / parts]

    weight = reshape(filter, [groups, made // groups, taken, elements])
    if groups == 1:
        weight = transpose(reshape(filter, [made, parts, channels // parts, elements]), [1, 3, 2, 0])
        found = matmul(reshape(windows, [images * rows * columns, channels * elements]), reshape(weight, [channels * elements, made]))
    else:
        apart = transpose(windows, [3, 5, 0, 1, 2, 4])  # channels in front
        apart = reshape(apart, [groups, taken, images * rows * columns, elements])
        apart = reshape(transpose(apart, [0, 2, 1, 3]), [groups, images * rows * columns, taken * elements])
        found = matmul(apart, reshape(weight, [groups, made // groups, taken * elements]), transpose_y=True)
        found = reshape(transpose(found, [1, 0, 2]), [images * rows * columns, made])
    return transpose(reshape(found, [images, rows, columns, made]), [0, 3, 1, 2])


def result_type(
    x: Tensor,
    offset: Tensor,
    filter: Tensor,
    mask: Tensor | None,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    deformable_groups: int,
    groups: int,
) -> TensorType:
    """What `deformable_conv` gives; a ValueError where its operands do not fit together."""
    if any(given is not None and given.ndim != 4 for given in (x, offset, filter, mask)):
        raise ValueError(
            f"deform_conv2d expected images, offsets, filters and masks of four axes but got shapes {list(x.shape)}, {list(offset.shape)} "
            f"and {list(filter.shape)}"
        )
    images, _, height, width = x.type.shape
    kh, kw = (int(k) for k in filter.shape[2:])
    elements, parts = kh * kw, deformable_groups
    rows, columns = (
        (size + 2 * pad - (dilation * (k - 1) + 1)) // stride + 1
        for size, pad, dilation, k, stride in zip((height, width), paddings, dilations, (kh, kw), strides, strict=True)
    )
    _check_sizes(x, filter, groups, parts)
    for what, given, count in (("offset", offset, 2 * parts * elements), ("mask", mask, parts * elements)):
        if given is not None and not same_sizes(given.type.shape, (images, count, rows, columns)):
            raise ValueError(f"expected {what} of the shape {[images, count, rows, columns]} but got {list(given.type.shape)}")
    return TensorType((images, filter.type.shape[0], rows, columns), x.type.dtype)


def _check_sizes(x: Tensor, filter: Tensor, groups: int, parts: int) -> None:
    channels, (made, taken, *_) = x.type.shape[1], filter.type.shape
    if groups < 1 or parts < 1:
        raise ValueError(f"expected at least one group and deformable group but got {groups} and {parts}")
    if isinstance(channels, int) and (channels % parts or taken * groups != channels or made % groups):
        raise ValueError(
            f"expected {channels} channels that {parts} deformable groups divide, and filters [O, {channels} / {groups}, kh, kw] with an O "
            f"that {groups} divides, but got filters {list(filter.type.shape)}"
        )


def _counted(shape: tuple[Dim, ...], axis: int) -> Tensor:
    """0, 1, … along one axis, 1 along the others."""
    return dispatch.call(ops.Iota, shape=tuple(n if i == axis else 1 for i, n in enumerate(shape)), axis=axis, dtype=i64)


def _places(moved: Tensor, axis: int, stride: int, padding: int, steps: np.ndarray) -> Tensor:
    """Where elements of windows are read along an image's axis; windows are along `axis`, their elements along the last one."""
    usual = add(multiply(_counted(moved.type.shape, axis), number(stride, i64)), dispatch.constant((steps - padding).astype(np.int64)))
    return add(dispatch.call(ops.Cast, usual, dtype=moved.type.dtype), moved)


def _read(rows: Tensor, first: Tensor, places: list[Tensor], sizes: tuple[Dim, Dim], factor: Tensor | None) -> Tensor:
    low = [dispatch.call(ops.Floor, place) for place in places]
    above = [subtract(place, below) for place, below in zip(places, low, strict=True)]
    one = number(1, above[0])
    shares = [(subtract(one, share), share) for share in above]
    total: Tensor | None = None
    for corner in cartesian((0, 1), repeat=2):
        at, inside = first, None
        for below, step, size, down in zip(low, corner, sizes, (sizes[1], 1), strict=True):
            place = add(whole(below), number(step, i64))
            none, last = number(0, i64), number(size - 1, i64)
            there = both(dispatch.call(ops.GreaterEqual, place, none), dispatch.call(ops.LessEqual, place, last))
            inside = there if inside is None else both(inside, there)
            held = dispatch.call(ops.Minimum, dispatch.call(ops.Maximum, place, none), last)
            at = add(at, multiply(held, number(down, i64)))
        share = multiply(shares[0][corner[0]], shares[1][corner[1]])
        found = read(rows, at, share if factor is None else multiply(share, factor), inside)
        total = found if total is None else add(total, found)
    assert total is not None
    return total
