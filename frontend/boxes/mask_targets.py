"""What networks that cut out objects learn (He and others, "Mask R-CNN", 2017): polygons as small masks of regions.

A polygon becomes a mask as in COCO's tools (Lin and others, "Microsoft COCO", 2014): its corners stand on a grid that is five times as fine
as the mask, its edges go from point to point of that, and going down the columns the mask turns wherever an edge crosses the middle of one.
"""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.boxes.lists import numbers, take
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f64, i32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.tensor import Tensor

__all__ = ["Polygons", "masks"]

# How much finer the grid of corners is than the mask, and where a column's middle lies: between these points and the next ones.
_FINE, _MIDDLE = 5, 2


@dataclass(frozen=True)
class Polygons:
    """Points [points, 2] (x, y); the offsets of polygons among them, and those of objects among the polygons."""

    points: Tensor
    of_polygons: Tensor
    of_objects: Tensor


def masks(polygons: Polygons, boxes: Tensor, objects: Tensor, there: Tensor, size: int) -> Tensor:
    """For each box [n, 4] the mask of its object, int32 [n, size * size] row by row: 1 in any of the object's polygons. Boxes for which
    `there` does not hold have zeros.
    """
    count = boxes.type.shape[0]
    of_polygons = polygons.of_polygons
    first, behind = take(polygons.of_objects, objects), take(polygons.of_objects, objects + 1)
    polygon = _within(first, behind, there, of_polygons.type.shape[0] - 1)
    point = _within(take(of_polygons, first), take(of_polygons, behind), there, polygons.points.type.shape[0])
    pairs, edges = math.nonzero(polygon), math.nonzero(point)
    many: Dim = pairs.type.shape[0]
    owner, start = edges[:, 0], edges[:, 1]
    # The pair of box and polygon that each edge is of.
    number = _polygon_of(polygons, start)
    amount = math.sum(cast_to(polygon, i64), [1])
    before = math.cumsum(amount, 0) - amount
    pair = take(before, owner) + number - take(first, owner)
    last = math.equal(start + 1, take(of_polygons, number + 1))
    end = select(last, take(of_polygons, number), start + 1)
    here, there_to = (_on_grid(take(polygons.points, place), take(boxes, owner), size) for place in (start, end))
    place, crosses = _crossings(here, there_to, size)
    pixels = size * size + 1
    at = math.unsqueeze(pair, 1) * dispatch.full((), pixels, i64) + place
    spare = dispatch.full((), many * pixels, i64)
    turns = dispatch.call(
        nn.ScatterAdd, math.reshape(cast_to(crosses, i32), [-1]), math.reshape(select(crosses, at, spare), [-1]), axis=0,
        size=many * pixels + 1,
    )  # fmt: skip
    turned = math.cumsum(math.reshape(turns[:-1], [many, pixels])[:, : size * size], 1)
    inside = math.mod(cast_to(turned, i64), dispatch.full((), 2, i64))
    found: Tensor = dispatch.call(nn.ScatterAdd, inside, pairs[:, 0], axis=0, size=count)
    columns = math.reshape(cast_to(math.greater_than(found, number_like(found, 0)), i32), [count, size, size])
    return math.reshape(math.transpose(columns, [0, 2, 1]), [count, size * size])


def _within(first: Tensor, behind: Tensor, there: Tensor, count: Dim) -> Tensor:
    """For each box which of so many numbers lie from its first one up to, but without, the one behind its last, [n, count]."""
    number = math.unsqueeze(numbers(count), 0)
    inside = math.logical_and(math.greater_equal(number, math.unsqueeze(first, 1)), math.less_than(number, math.unsqueeze(behind, 1)))
    return math.logical_and(inside, math.unsqueeze(there, 1))


def _polygon_of(polygons: Polygons, points: Tensor) -> Tensor:
    """The number of the polygon of each point."""
    ends = math.unsqueeze(polygons.of_polygons[1:], 0)
    return math.sum(cast_to(math.greater_equal(math.unsqueeze(points, 1), ends), i64), [1])


def _on_grid(points: Tensor, boxes: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Points [n, 2] as those of the fine grid of a mask of their boxes, int64."""
    extent = math.maximum(boxes[:, 2:] - boxes[:, :2], number_like(boxes, 1.0))
    placed = (points - boxes[:, :2]) * dispatch.full((), size, boxes.type.dtype) / extent
    fine = cast_to(placed, f64) * float(_FINE) + 0.5
    grid = cast_to(math.trunc(fine), i64)
    return grid[:, 0], grid[:, 1]


def _crossings(start: tuple[Tensor, Tensor], end: tuple[Tensor, Tensor], size: int) -> tuple[Tensor, Tensor]:
    """The pixel, counted down the columns, at which each edge turns the mask in each column, [edges, size]; and whether it does."""
    (x0, y0), (x1, y1) = start, end
    wide, high = math.abs(x1 - x0), math.abs(y1 - y0)
    flat = math.greater_equal(wide, high)
    back = math.logical_or(
        math.logical_and(flat, math.greater_than(x0, x1)), math.logical_and(math.logical_not(flat), math.greater_than(y0, y1))
    )
    x0, x1, y0, y1 = (
        math.unsqueeze(v, 1) for v in (select(back, x1, x0), select(back, x0, x1), select(back, y1, y0), select(back, y0, y1))
    )
    flat, steps = math.unsqueeze(flat, 1), math.unsqueeze(math.maximum(wide, high), 1)
    some = math.maximum(steps, number_like(steps, 1))
    slope = cast_to(select(flat, y1 - y0, x1 - x0), f64) / cast_to(some, f64)

    def other(t: Tensor) -> Tensor:
        """Where the edge is across its longer side after `t` steps along that."""
        exact = cast_to(select(flat, y0, x0), f64) + slope * cast_to(t, f64) + 0.5
        return cast_to(math.trunc(exact), i64)

    below = math.unsqueeze(numbers(size), 0) * _FINE + _MIDDLE
    # Along a flat edge the step is known; along a steep one it is that at which the rounded place moves on, or a neighbour.
    level = math.equal(slope, number_like(slope, 0.0))
    exact = (cast_to(below, f64) + 0.5 - cast_to(x0, f64)) / select(level, number_like(slope, 1.0), slope)
    limit = cast_to(some, f64)
    exact = math.minimum(math.maximum(exact, number_like(exact, 0.0)), limit)
    near = cast_to(math.ceil(exact), i64)
    step, crosses = below + 1 - x0, math.logical_and(flat, math.less_equal(below + 1, x1))
    crosses = math.logical_and(crosses, math.greater_equal(below, x0))
    for apart in (-1, 0, 1):
        t = near + apart
        before, after = other(t - 1), other(t)
        moves = math.logical_and(math.not_equal(before, after), math.equal(math.minimum(before, after), below))
        within = math.logical_and(math.greater_equal(t, number_like(t, 1)), math.less_equal(t, steps))
        here = math.logical_and(math.logical_and(moves, within), math.logical_not(flat))
        step, crosses = select(here, t, step), math.logical_or(crosses, here)
    upper = select(flat, math.minimum(other(step - 1), other(step)), y0 + step - 1)
    row = math.ceil((cast_to(upper, f64) + 0.5) / float(_FINE) - 0.5)
    row = math.minimum(math.maximum(row, number_like(row, 0.0)), number_like(row, float(size)))
    return math.unsqueeze(numbers(size), 0) * size + cast_to(row, i64), crosses
