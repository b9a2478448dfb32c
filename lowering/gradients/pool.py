"""Gradients of pooling: by way of the windows themselves, so that they fuse with what surrounds them."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import ArgMax, AvgPool, BroadcastTo, Div, Equal, Fold, Iota, MaxPool, Pad, Reshape, Slice, Where, Window
from polyreme.dialects.nn.pool import pool_numbers
from polyreme.ir.dims import product
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import i64
from polyreme.lowering.decompose.pooling import covered_elements, pool_padding
from polyreme.lowering.gradients.table import Emitter, Value, gradient, number


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
    hit = b(Equal, position, b(Iota, shape=(*(1,) * len(places), taps), axis=-1, dtype=i64))
    spread = b(Where, hit, b(Reshape, dy, shape=(*places, 1)), number(b, 0, dy))
    spread = b(Reshape, spread, shape=(*places, *op.kernel))
    dx = b(Fold, spread, sizes=padded.type.shape[2:], **windowing)
    return (_without_padding(b, dx, kind.shape, low),)


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
