"""Which boxes of the truth are matched with which priors, and what each prior is to learn (SSD).

Boxes of all images stand one behind the other, image by image; `offsets`, int64 [images + 1], say where those of an image begin and end.
"""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.boxes.lists import ends_of, flat, kept_places, numbers, order_of, put_back, single, take
from polyreme.boxes.suppression import longest
from polyreme.control_flow import loop
from polyreme.dialects import nn
from polyreme.ir.dims import product
from polyreme.ir.types import f32, i32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.tensor import Tensor

__all__ = ["bipartite_match", "image_of", "mine_hard_examples", "overlaps", "target_assign", "written"]

# What a distance has to be to count as one, of an image with fewer boxes than so many; of others it has to be above 0.
_LEAST, _MANY = 1e-6, 130


def overlaps(x: Tensor, y: Tensor, normalized: bool) -> Tensor:
    """What each box of `x` [n, 4] covers with each of `y` [m, 4] over what they cover together, [n, m].

    Of boxes that are not `normalized` the edges are pixels that belong to them.
    """
    more = number_like(x, 0.0 if normalized else 1.0)
    (a, b, c, d), (e, f, g, h) = ([part[:, i : i + 1] for i in range(4)] for part in (x, y))
    e, f, g, h = (math.transpose(part, [1, 0]) for part in (e, f, g, h))
    none = number_like(x, 0.0)
    wide = math.maximum(math.minimum(c, g) - math.maximum(a, e) + more, none)
    high = math.maximum(math.minimum(d, h) - math.maximum(b, f) + more, none)
    both = wide * high
    return both / ((d - b + more) * (c - a + more) + (h - f + more) * (g - e + more) - both)


def image_of(offsets: Tensor, rows: Tensor) -> Tensor:
    """For each row the number of the image that it is of, int64."""
    ends = math.reshape(offsets[1:], [1, -1])
    row = math.unsqueeze(numbers(rows.type.shape[0]), 1)
    return math.sum(cast_to(math.greater_equal(row, ends), i64), [1])


def written(x: Tensor, mask: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """`x` with `values` at those of the places in its flat order for which the mask holds."""
    count = product(x.type.shape)
    behind = dispatch.full((), count, i64)
    room = math.concat([flat(x), dispatch.full((1,), 0, x.type.dtype)], 0)
    made = dispatch.call(nn.Scatter, room, flat(cast_to(values, x.type.dtype)), flat(select(mask, places, behind)), axis=0)
    return math.reshape(made[:-1], list(x.type.shape))


def bipartite_match(distances: Tensor, offsets: Tensor, per_prediction: bool, threshold: float) -> tuple[Tensor, Tensor]:
    """The row, counted in its image, that each column is matched with in each image, int32 [images, columns], -1 for none; and how near
    they are. `distances` [rows, columns] are greater for what is nearer.

    The greatest distance of an image matches first, and then the greatest of the rows and columns that are left. With `per_prediction`
    columns that are left get their nearest row, where that is as near as the threshold.
    """
    distances = distances.detach()
    images, columns, dtype = offsets.type.shape[0] - 1, distances.type.shape[1], distances.type.dtype
    image, sizes = image_of(offsets, distances), offsets[1:] - offsets[:-1]
    start = take(offsets[:-1], image)
    row = numbers(distances.type.shape[0])
    many = math.unsqueeze(math.greater_equal(take(sizes, image), number_like(start, _MANY)), 1)
    counts = math.logical_or(
        math.greater_equal(distances, number_like(distances, single(_LEAST))),
        math.logical_and(many, math.greater_than(distances, number_like(distances, 0.0))),
    )
    none = number_like(distances, -1.0)
    distances_that_count = select(counts, distances, none)
    alike = math.equal(math.unsqueeze(image, 0), math.unsqueeze(image, 1))

    def match(i: Tensor, left: Tensor, matched: Tensor, near: Tensor) -> list[Tensor]:
        best, place = math.max(left, 1), math.argmax(left, 1)
        # Of equal distances the one in the first column counts, and there that of the first row.
        first = math.logical_or(
            math.less_than(math.unsqueeze(place, 0), math.unsqueeze(place, 1)),
            math.logical_and(
                math.equal(math.unsqueeze(place, 0), math.unsqueeze(place, 1)),
                math.less_than(math.unsqueeze(row, 0), math.unsqueeze(row, 1)),
            ),
        )
        this, other = math.unsqueeze(best, 1), math.unsqueeze(best, 0)
        beaten = math.logical_or(math.greater_than(other, this), math.logical_and(math.equal(other, this), first))
        wins = math.logical_not(math.any(math.logical_and(beaten, alike), 1))
        wins = math.logical_and(wins, math.greater_than(best, number_like(best, 0.0)))
        at = image * dispatch.full((), columns, i64) + place
        matched, near = written(matched, wins, at, row - start), written(near, wins, at, best)
        taken = math.greater_equal(take(matched, image), number_like(matched, 0))
        gone = math.logical_or(taken, math.unsqueeze(wins, 1))
        return [i + 1, select(gone, none, left), matched, near]

    state = [
        dispatch.full((), 0, i64), distances_that_count, dispatch.full((images, columns), -1, i64),
        dispatch.full((images, columns), 0, dtype),
    ]  # fmt: skip
    rounds = longest(sizes)
    *_, matched, near = loop(lambda i, *now: math.less_than(i, rounds), match, state)
    if per_prediction:
        matched, near = _nearest(distances, offsets, threshold, matched, near)
    return cast_to(matched, i32), near


def _nearest(distances: Tensor, offsets: Tensor, threshold: float, matched: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Columns that have no row yet get the nearest one of their image, the first of equals, where that is near enough."""
    starts, sizes = offsets[:-1], offsets[1:] - offsets[:-1]
    least = number_like(near, max(single(threshold), single(_LEAST)))
    free, last = math.less_than(matched, number_like(matched, 0)), dispatch.full((), distances.type.shape[0], i64) - 1

    def look(i: Tensor, matched: Tensor, near: Tensor) -> list[Tensor]:
        here = take(distances, math.minimum(starts + i, last))
        there = math.unsqueeze(math.less_than(i, sizes), 1)
        better = math.logical_and(math.greater_than(here, near), math.greater_equal(here, least))
        better = math.logical_and(math.logical_and(better, there), free)
        return [i + 1, select(better, i, matched), select(better, here, near)]

    rounds = longest(sizes)
    _, matched, near = loop(lambda i, *now: math.less_than(i, rounds), look, [dispatch.full((), 0, i64), matched, near])
    return matched, near


def target_assign(
    x: Tensor, matched: Tensor, offsets: Tensor, negative: Tensor | None, negative_offsets: Tensor | None, otherwise: float
) -> tuple[Tensor, Tensor]:
    """What each column of each image is to be, [images, columns, K], and its weight, [images, columns, 1] float32.

    That of a column which is matched is the row of `x` [rows, columns or 1, K] that it is matched with, with the weight 1; of others it is
    `otherwise`, with the weight 0, but for the columns that are listed as `negative` [n, 1], whose weight is 1.
    """
    images, columns = matched.type.shape
    width, size = x.type.shape[1], x.type.shape[2]
    found = math.greater_equal(matched, number_like(matched, 0))
    place = math.unsqueeze(offsets[:-1], 1) + cast_to(math.maximum(matched, number_like(matched, 0)), i64)
    if width != 1:
        place = place * dispatch.full((), width, i64) + math.unsqueeze(numbers(columns), 0)
    found = math.logical_and(found, math.less_than(place, dispatch.full((), x.type.shape[0] * width, i64)))
    # One more row, which is read where nobody is matched.
    rows = math.concat([math.reshape(x, [-1, size]), dispatch.full((1, size), otherwise, x.type.dtype)], 0)
    last = dispatch.full((), x.type.shape[0] * width, i64)
    made = take(rows, select(found, place, last))
    weight = cast_to(found, f32)
    if negative is not None and negative_offsets is not None:
        at = image_of(negative_offsets, negative) * dispatch.full((), columns, i64) + cast_to(flat(negative), i64)
        there = dispatch.call(nn.BroadcastTo, number_like(weight, 0.0), shape=(product((images, columns)),))
        ones = dispatch.call(nn.BroadcastTo, number_like(weight, 1.0), shape=at.type.shape)
        struck = math.reshape(dispatch.call(nn.Scatter, there, ones, at, axis=0), [images, columns])
        struck_here = math.greater_than(struck, number_like(struck, 0.0))
        weight = math.maximum(weight, struck)
        made = select(math.unsqueeze(struck_here, 2), dispatch.full((), otherwise, x.type.dtype), made)
    return made, math.unsqueeze(weight, 2)


def mine_hard_examples(loss: Tensor, matched: Tensor, near: Tensor, ratio: float, threshold: float) -> tuple[Tensor, Tensor]:
    """The columns without a row in each image that have the greatest losses, int32 [n, 1] in order, and their offsets, int64.

    There are `ratio` times as many as columns with a row at most, and all are further than the threshold from each row.
    """
    free = math.less_than(matched, number_like(matched, 0))
    wanted = math.logical_and(free, math.less_than(near, number_like(near, single(threshold))))
    few = math.sum(cast_to(math.logical_not(free), loss.type.dtype), [1], keepdim=True) * number_like(loss, single(ratio))
    order = order_of(select(wanted, loss, number_like(loss, float("-inf"))), descending=True)
    rank = math.broadcast_to(math.unsqueeze(numbers(loss.type.shape[1]), 0), list(loss.type.shape))
    kept = math.logical_and(wanted, math.less_than(put_back(rank, order), cast_to(few, i64)))
    column = math.broadcast_to(math.unsqueeze(numbers(loss.type.shape[1], i32), 0), list(loss.type.shape))
    chosen = take(flat(column), kept_places(flat(kept)))
    return math.unsqueeze(chosen, 1), ends_of(math.sum(cast_to(kept, i64), [1]))
