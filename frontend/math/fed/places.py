"""Parts of tensors at places that numbers tell which a program is fed: padded, moved on, sliced, split, repeated.

Numbers are given as in `fed_sizes`: sizes where they are known, else integer tensors of one element.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import i64
from polyreme.math.fed.sizes import Fed, as_number, as_size, as_vector, call, compare, element, extent, over_all, steps_within
from polyreme.tensor import Tensor

__all__ = ["box", "padded", "parts", "repeated", "rolled", "stepped"]


def padded(x: Tensor, axis: int, low: Fed, high: Fed, mode: str, value: float) -> Tensor:
    """`low` and `high` more elements in front of and behind an axis, fewer where these are negative.

    Modes are those of `pad`: "constant" (`value`), "reflect", "replicate", "circular".
    """
    size = x.type.shape[axis]
    before, whole = as_number(low), as_number(size)
    count = call(ops.Add, call(ops.Add, before, as_number(high)), whole)
    fits, need = compare(ops.GreaterEqual, count, 0), "widths to pad by that leave 0 elements or more"
    if mode == "reflect":
        largest = call(ops.Maximum, before, as_number(high))
        fits = call(ops.LogicalAnd, fits, call(ops.Less, largest, call(ops.Maximum, whole, as_number(1))))
        need = f"widths below the size of axis {axis} to pad by reflection, and elements that are left,"
    if mode != "constant":
        # There is nothing to repeat.
        fits = call(ops.LogicalAnd, fits, call(ops.LogicalOr, compare(ops.Equal, count, 0), compare(ops.NotEqual, whole, 0)))
    places = call(ops.Sub, _counted(as_size(count, fits, need)), before)
    last = as_number(size - 1)
    if mode == "constant":
        # One more element, which is read wherever there is none.
        x = call(ops.Pad, x, padding=tuple(int(k == 2 * axis + 1) for k in range(2 * x.ndim)), value=value)
        within = call(ops.LogicalAnd, compare(ops.GreaterEqual, places, 0), call(ops.Less, places, whole))
        places = call(ops.Where, within, places, whole)
    elif mode == "circular":
        places = call(ops.Mod, places, whole)
    elif mode == "reflect":
        places = call(ops.Abs, places)
        places = call(ops.Sub, last, call(ops.Abs, call(ops.Sub, last, places)))
    else:
        places = call(ops.Minimum, call(ops.Maximum, places, as_number(0)), last)
    return call(ops.Gather, x, places, axis=axis)


def rolled(x: Tensor, axis: int, shift: Fed) -> Tensor:
    """Moved on by `shift`; what leaves at the end comes in at the start."""
    size = x.type.shape[axis]
    return call(ops.Gather, x, call(ops.Mod, call(ops.Sub, _counted(size), as_number(shift)), as_number(size)), axis=axis)


def stepped(x: Tensor, axis: int, start: Fed, stop: Fed, step: Fed) -> Tensor:
    """`start:stop:step` along an axis, as Python counts: each bound may count from the end, and steps may go backwards."""
    size, by = as_number(x.type.shape[axis]), as_number(step)
    backwards = compare(ops.Less, by, 0)
    ends = (call(ops.Where, backwards, as_number(back), forth) for back, forth in ((-1, as_number(0)), (x.type.shape[axis] - 1, size)))
    least, most = ends
    first, last = (_placed(as_number(bound), size, least, most) for bound in (start, stop))
    count = steps_within(call(ops.Sub, last, first), by)
    kept = as_size(count, compare(ops.NotEqual, by, 0), "a slice by a step other than 0")
    return call(ops.Gather, x, call(ops.Add, call(ops.Mul, _counted(kept), by), first), axis=axis)


def _placed(bound: Tensor, size: Tensor, least: Tensor, most: Tensor) -> Tensor:
    from_end = call(ops.Maximum, call(ops.Add, bound, size), least)
    return call(ops.Where, compare(ops.Less, bound, 0), from_end, call(ops.Minimum, bound, most))


def parts(x: Tensor, axis: int, sections: Sequence[Fed]) -> list[Tensor]:
    """One after the other along an axis; a section of -1 is what is left."""
    size = as_number(x.type.shape[axis])
    asked = as_vector(sections)
    is_open = compare(ops.Equal, asked, -1)
    rest = call(ops.Sub, size, over_all(ops.Sum, call(ops.Where, is_open, as_number(0), asked)))
    found = call(ops.Where, is_open, rest, asked)
    fits = call(ops.LogicalAnd, over_all(ops.All, compare(ops.GreaterEqual, found, 0)), call(ops.Equal, over_all(ops.Sum, found), size))
    need = "section {} of sections that add up to the size of the axis"
    sizes = [
        part if not isinstance(part, Tensor) and part != -1 else as_size(element(found, place), fits, need.format(place))
        for place, part in enumerate(sections)
    ]
    made: list[Tensor] = []
    start: Dim = 0
    for part in sizes:
        made.append(_span(x, axis, start, start + part))
        start = start + part
    return made


def box(x: Tensor, shape: Sequence[Fed], offsets: Sequence[Fed]) -> Tensor:
    """A box of `shape` (-1: as far as it goes) that starts at `offsets`."""
    for axis, (count, offset) in enumerate(zip(shape, offsets, strict=True)):
        size = x.type.shape[axis]
        start = extent(offset, "offsets")
        if isinstance(count, Tensor):
            number = as_number(count)
            number = call(ops.Where, compare(ops.Equal, number, -1), as_number(size - start), number)
            count = extent(number, "shape")
        x = _span(x, axis, start, size if count == -1 else start + count)
    return x


def repeated(x: Tensor, axis: int, counts: Tensor) -> Tensor:
    """Each element along an axis as often as `counts` [n] says, or all as often as its one number."""
    size = x.type.shape[axis]
    times = call(ops.BroadcastTo, call(ops.Cast, call(ops.Reshape, counts, shape=(product(counts.type.shape),)), dtype=i64), shape=(size,))
    fits = over_all(ops.All, compare(ops.GreaterEqual, times, 0))
    kept = as_size(over_all(ops.Sum, times), fits, "numbers of repeats of 0 or more")
    ends = call(ops.Cumsum, times, axis=0)
    # Where the elements after the first one begin; what stands behind as many of these places is a copy of that element.
    begins = call(ops.Slice, ends, starts=(0,), stops=(size - 1,), strides=(1,))
    marks = call(ops.ScatterAdd, call(ops.BroadcastTo, as_number(1), shape=(size - 1,)), begins, axis=0, size=kept + 1)
    places = call(ops.Slice, call(ops.Cumsum, marks, axis=0), starts=(0,), stops=(kept,), strides=(1,))
    return call(ops.Gather, x, places, axis=axis)


def _span(x: Tensor, axis: int, start: Dim, stop: Dim) -> Tensor:
    whole = x.type.shape
    starts, stops = ((*rest[:axis], at, *rest[axis + 1 :]) for at, rest in ((start, (0,) * x.ndim), (stop, whole)))
    return call(ops.Slice, x, starts=starts, stops=stops, strides=(1,) * x.ndim)


def _counted(size: Dim) -> Tensor:
    """0, 1, … below a size, int64."""
    return call(ops.Iota, shape=(size,), axis=0, dtype=i64)
