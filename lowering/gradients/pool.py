"""Gradients of pooling: by way of the windows themselves, so that they fuse with what surrounds them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from polyreme.dialects.nn import (
    Add,
    ArgMax,
    AvgPool,
    BroadcastTo,
    Concat,
    Div,
    Equal,
    Fold,
    Full,
    Iota,
    MaxPool,
    Pad,
    Reshape,
    Slice,
    Where,
    Window,
)
from polyreme.dialects.nn.pool import pool_numbers
from polyreme.ir.dims import Dim, product
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import i64
from polyreme.lowering.decompose.pooling import covered_elements, pool_padding
from polyreme.lowering.gradients.table import Emitter, Value, gradient, number
from polyreme.lowering.machines.code_size import WRITTEN_OUT


@gradient(MaxPool)
def max_pool(op: Any, b: Emitter, dy: Value) -> Any:
    """dy to the first largest element of each window, windows added where they overlap"""
    kind = op.x.type
    spatial = kind.rank - 2
    low, high = pool_padding(op)
    strides, _ = pool_numbers(spatial, op.kernel, op.strides, op.padding)
    axes = tuple(range(2, kind.rank))
    windowing = {"axes": axes, "strides": strides, "dilations": (1,) * spatial}
    padded = op.x
    if any(d != 0 for d in low + high):
        pairs = tuple(d for pair in zip(low, high, strict=True) for d in pair)
        padded = b(Pad, op.x, padding=(0, 0, 0, 0, *pairs), value=identity_of("max", kind.dtype))
    windows = b(Window, padded, sizes=op.kernel, **windowing)
    places, taps = dy.type.shape, product(op.kernel)
    # As one axis of taps, because the largest is one of all of them.
    position = b(ArgMax, b(Reshape, windows, shape=(*places, taps)), axis=-1, keepdims=True)
    numbers = [_numbers(shape) for shape in (padded.type.shape[2:], places[2:], op.kernel, strides)]
    if all(numbers) and taps <= WRITTEN_OUT.cases and all(k > s for k, s in zip(numbers[2], numbers[3], strict=True)):
        dx = _gathered(b, b(Reshape, position, shape=places), dy, numbers[0], numbers[2], numbers[3])
        return (_without_padding(b, dx, kind.shape, low),)
    hit = b(Equal, position, b(Iota, shape=(*(1,) * len(places), taps), axis=-1, dtype=i64))
    spread = b(Where, hit, b(Reshape, dy, shape=(*places, 1)), number(b, 0, dy))
    spread = b(Reshape, spread, shape=(*places, *op.kernel))
    dx = b(Fold, spread, sizes=padded.type.shape[2:], **windowing)
    return (_without_padding(b, dx, kind.shape, low),)


def _numbers(sizes: Sequence[Dim]) -> list[int]:
    """The sizes where all are known, else none."""
    known = [n for n in sizes if isinstance(n, int)]
    return known if len(known) == len(sizes) else []


def _gathered(b: Emitter, position: Value, dy: Value, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> Value:
    """What each element of an image of `sizes` gets of all windows that it is in: of those whose largest element, by `position`, it is.

    Elements whose places leave the same rest by the strides are in windows by the same taps. Each such part is computed by itself, as a sum
    over these taps, so that nothing is ever made for each tap of each window.
    """
    spatial = len(sizes)
    lead = dy.type.shape[:2]
    # Windows before the first one and behind the last one, so that there is one for each tap of each part.
    before = [(k - 1) // s for k, s in zip(kernel, strides, strict=True)]
    counts = [-(-size // s) for size, s in zip(sizes, strides, strict=True)]
    behind = [count - places for count, places in zip(counts, dy.type.shape[2:], strict=True)]
    around = (0, 0, 0, 0, *(n for pair in zip(before, behind, strict=True) for n in pair))
    position, dy = b(Pad, position, padding=around, value=-1), b(Pad, dy, padding=around, value=0)
    parts = {}
    for rest in itertools.product(*map(range, strides)):
        total = None
        for tap in itertools.product(*(range(r, k, s) for r, k, s in zip(rest, kernel, strides, strict=True))):
            number_of_tap = 0
            for t, k in zip(tap, kernel, strict=True):
                number_of_tap = number_of_tap * k + t
            starts = (0, 0, *(n - t // s for n, t, s in zip(before, tap, strides, strict=True)))
            stops = (*lead, *(start + count for start, count in zip(starts[2:], counts, strict=True)))
            where, what = (b(Slice, x, starts=starts, stops=stops, strides=(1,) * len(starts)) for x in (position, dy))
            hit = b(Equal, where, b(Full, value=number_of_tap, shape=(), dtype=i64))
            share = b(Where, hit, what, number(b, 0, what))
            total = share if total is None else b(Add, total, share)
        assert total is not None, "a window is longer than its stride"
        parts[rest] = b(Reshape, total, shape=(*lead, *(n for count in counts for n in (count, 1))))
    for axis in reversed(range(spatial)):
        rests = dict.fromkeys(rest[:axis] for rest in parts)
        parts = {rest: b(Concat, [parts[*rest, r] for r in range(strides[axis])], axis=3 + 2 * axis) for rest in rests}
    whole = b(Reshape, parts[()], shape=(*lead, *(count * s for count, s in zip(counts, strides, strict=True))))
    if tuple(whole.type.shape[2:]) == tuple(sizes):
        return whole
    cut: Value = b(Slice, whole, starts=(0,) * (2 + spatial), stops=(*lead, *sizes), strides=(1,) * (2 + spatial))
    return cut


@gradient(AvgPool)
def avg_pool(op: Any, b: Emitter, dy: Value) -> Any:
    """dy over the number of elements, to each element of the window, windows added where they overlap"""
    kind = op.x.type
    spatial = kind.rank - 2
    low, high = pool_padding(op)
    strides, _ = pool_numbers(spatial, op.kernel, op.strides, op.padding)
    share = b(Div, dy, covered_elements(op, b))
    share = b(Reshape, share, shape=(*dy.type.shape, *(1,) * spatial))
    spread = b(BroadcastTo, share, shape=(*dy.type.shape, *op.kernel))
    sizes = tuple(before + size + after for before, size, after in zip(low, kind.shape[2:], high, strict=True))
    dx = b(Fold, spread, axes=tuple(range(2, kind.rank)), sizes=sizes, strides=strides, dilations=(1,) * spatial)
    return (_without_padding(b, dx, kind.shape, low),)


def _without_padding(b: Emitter, dx: Value, shape: tuple[Any, ...], low: tuple[Any, ...]) -> Value:
    if dx.type.shape == shape:
        return dx
    starts = (0, 0, *low)
    stops = tuple(start + size for start, size in zip(starts, shape, strict=True))
    return b(Slice, dx, starts=starts, stops=stops, strides=(1,) * len(shape))
