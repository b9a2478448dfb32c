"""Quadrilaterals of images as rectangles, by the projective map that takes the corners of one to those of the other (Heckbert,
"Fundamentals of texture mapping and image warping", 1989).
"""

from __future__ import annotations

from itertools import product as cartesian

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import i32, i64
from polyreme.math import abs as magnitude
from polyreme.math import add, divide, multiply, reshape, sqrt, stack, subtract, transpose
from polyreme.math.common import same_sizes
from polyreme.regions.places import between, both, either, images_of_boxes, number, pixel_rows, read, rounded_away, single
from polyreme.tensor import Tensor

__all__ = ["roi_perspective_transform"]

# What is nearer than this to an edge is on it.
_NEAR = 1e-4


def roi_perspective_transform(
    x: Tensor, corners: Tensor, boxes_num: Tensor | None, height: int, width: int, spatial_scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """[boxes, C, height, width] of images [N, C, H, W] and corners [boxes, 8] (x, y of the left upper one, and on clockwise); where a place
    comes from the box and the image, int32 [boxes, 1, height, width]; and the matrices [boxes, 9] that say from where.

    A rectangle is as wide as the box in proportion, at least 2 and at most `width`; what lies to its right, or comes from no place in the
    box and the image, is 0.
    """
    if x.ndim != 4 or corners.ndim != 2 or not same_sizes(corners.type.shape[1:], [8]) or x.type.dtype != corners.type.dtype:
        raise ValueError(
            f"roi_perspective_transform expected images [N, C, H, W] and corners [boxes, 8] of one dtype but got {x.type} and "
            f"{corners.type}"
        )
    if height <= 0 or width <= 0:
        raise ValueError(f"roi_perspective_transform expected a region of at least one pixel but got {height} x {width}")
    images, _, image_height, image_width = x.type.shape
    count: Dim = corners.type.shape[0]
    placed = multiply(corners.detach(), number(single(spatial_scale), corners))
    xs, ys = ([reshape(placed[:, 2 * i + k], [count]) for i in range(4)] for k in range(2))
    matrix = _matrix(xs, ys, height, width)
    a = [reshape(value, [count, 1, 1]) for value in matrix]
    like = x.type.dtype
    row = dispatch.call(ops.Iota, shape=(1, height, 1), axis=1, dtype=like)
    column = dispatch.call(ops.Iota, shape=(1, 1, width), axis=2, dtype=like)

    def mapped(i: int) -> Tensor:
        return add(add(multiply(a[i], column), multiply(a[i + 1], row)), a[i + 2])

    depth = mapped(6)
    px, py = divide(mapped(0), depth), divide(mapped(3), depth)
    inside = _within(px, py, [[reshape(v, [count, 1, 1]) for v in side] for side in (xs, ys)])
    for place, size in ((px, image_width), (py, image_height)):
        half = number(0.5, like)
        inside = both(inside, dispatch.call(ops.GreaterEqual, place, number(-0.5, like)))
        inside = both(inside, dispatch.call(ops.LessEqual, place, subtract(number(size, like), half)))
    first = multiply(images_of_boxes(boxes_num, count, images), number(image_height * image_width, i64))
    first, rows = reshape(first, [count, 1, 1]), pixel_rows(x)
    held = [dispatch.call(ops.Where, inside, place, number(0, like)) for place in (py, px)]
    down, across = (between(place, size) for place, size in zip(held, (image_height, image_width), strict=True))
    total: Tensor | None = None
    for i, j in cartesian((0, 1), repeat=2):
        at = add(add(first, multiply(down[i], number(image_width, i64))), across[j])
        found = read(rows, at, multiply(down[2 + i], across[2 + j]), inside)
        total = found if total is None else add(total, found)
    assert total is not None
    mask = reshape(dispatch.call(ops.Cast, inside, dtype=i32), [count, 1, height, width])
    return transpose(total, [0, 3, 1, 2]), mask, stack(matrix, 1)


def _matrix(xs: list[Tensor], ys: list[Tensor], height: int, width: int) -> list[Tensor]:
    """The nine numbers of the map from places in the rectangle to places in the image."""
    like = xs[0].type.dtype
    one = number(1, like)
    lengths = []
    for i in range(4):
        dx, dy = subtract(xs[i], xs[(i + 1) % 4]), subtract(ys[i], ys[(i + 1) % 4])
        lengths.append(sqrt(add(multiply(dx, dx), multiply(dy, dy))))
    wide, tall = (multiply(add(lengths[i], lengths[i + 2]), number(0.5, like)) for i in range(2))
    rows = max(2, height)
    flat = dispatch.call(ops.LessEqual, tall, number(0, like))
    shape = divide(multiply(wide, number(rows - 1, like)), dispatch.call(ops.Where, flat, one, tall))
    columns = dispatch.call(ops.Minimum, add(rounded_away(shape), one), number(width, like))
    columns = dispatch.call(ops.Maximum, dispatch.call(ops.Where, flat, number(2, like), columns), number(2, like))
    across, down = subtract(columns, one), number(rows - 1, like)

    def differences(v: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        return subtract(v[1], v[2]), subtract(v[3], v[2]), add(subtract(v[0], v[1]), subtract(v[2], v[3]))

    (dx1, dx2, dx3), (dy1, dy2, dy3) = differences(xs), differences(ys)
    # A determinant of 0, of corners on a line, is kept from being one.
    under = add(subtract(multiply(dx1, dy2), multiply(dx2, dy1)), number(1e-5, like))
    g = divide(divide(subtract(multiply(dx3, dy2), multiply(dx2, dy3)), under), across)
    h = divide(divide(subtract(multiply(dx1, dy3), multiply(dx3, dy1)), under), down)

    def row(v: list[Tensor]) -> list[Tensor]:
        along = divide(add(subtract(v[1], v[0]), multiply(multiply(g, across), v[1])), across)
        below = divide(add(subtract(v[3], v[0]), multiply(multiply(h, down), v[3])), down)
        return [along, below, v[0]]

    return [*row(xs), *row(ys), g, h, dispatch.full(tuple(g.type.shape), 1, like)]


def _within(px: Tensor, py: Tensor, corners: list[list[Tensor]]) -> Tensor:
    """Which places lie in a quadrilateral or on its edge: a ray to the right crosses its edges an odd number of times."""
    near = number(_NEAR, px)

    def least(a: Tensor, b: Tensor) -> Tensor:
        return dispatch.call(ops.Minimum, a, b)

    def most(a: Tensor, b: Tensor) -> Tensor:
        return dispatch.call(ops.Maximum, a, b)

    def between_of(place: Tensor, a: Tensor, b: Tensor) -> Tensor:
        low, high = subtract(least(a, b), near), add(most(a, b), near)
        return both(dispatch.call(ops.GreaterEqual, place, low), dispatch.call(ops.LessEqual, place, high))

    on_edge: Tensor | None = None
    odd: Tensor | None = None
    for i in range(4):
        (x0, y0), (x1, y1) = ([side[k % 4] for side in corners] for k in (i, i + 1))
        level = dispatch.call(ops.Less, magnitude(subtract(y0, y1)), near)
        slope = dispatch.call(ops.Where, level, number(1, px), subtract(y1, y0))
        cross = add(divide(multiply(subtract(py, y0), subtract(x1, x0)), slope), x0)
        touches = both(dispatch.call(ops.Less, magnitude(subtract(cross, px)), near), between_of(py, y0, y1))
        along = both(dispatch.call(ops.Less, magnitude(subtract(py, y0)), near), between_of(px, x0, x1))
        here = dispatch.call(ops.Where, level, along, touches)
        on_edge = here if on_edge is None else either(on_edge, here)
        above = dispatch.call(ops.Greater, subtract(py, least(y0, y1)), near)
        below = dispatch.call(ops.LessEqual, subtract(py, most(y0, y1)), near)
        passes = both(both(above, below), dispatch.call(ops.Greater, cross, px))
        passes = both(passes, dispatch.call(ops.LogicalNot, level))
        odd = passes if odd is None else dispatch.call(ops.LogicalXor, odd, passes)
    assert on_edge is not None and odd is not None
    return either(on_edge, odd)
