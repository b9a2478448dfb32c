"""Convolutions and poolings at the `tensor` level: contracts, and reductions, of the windows of a padded operand."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from polyreme.dialects import nn
from polyreme.dialects import tensor as tt
from polyreme.dialects.nn.conv import conv_numbers, transposed_sizes
from polyreme.dialects.nn.pool import pool_numbers
from polyreme.dialects.shape_rules import padded_size, window_positions
from polyreme.ir.builder import Builder
from polyreme.ir.dims import Dim, known_nonnegative
from polyreme.ir.scalar import identity_of
from polyreme.lowering.decompose.normalization import reshaped, wide
from polyreme.lowering.decompose.pooling import covered_elements, pool_padding
from polyreme.lowering.decompose.transposed import in_turns, phase_padding, phase_taps, phase_weights, view_of_weight
from polyreme.lowering.machines.winograd_costs import WINOGRAD_CHANNELS

Value = Any  # at these levels each is a tensor, so its type has a shape, a rank and an element type


# --- convolutions


def conv(op: Any, b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """A contract of the windows of the padded operand with the weight"""
    spatial = x.type.rank - 2
    strides, pairs, dilations = conv_numbers(spatial, op.strides, op.padding, op.dilations)
    if op.groups == 1 and _goes_by_planes(x, weight, strides, dilations):
        y = _by_planes(b, x, weight, strides, pairs, dilations)
    elif op.groups == 1 and _is_cut_to_patches(x, weight, strides, pairs, dilations):
        y = _of_patches(b, x, weight)
    else:
        padded = _pad(b, x, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))
        y = _conv_product(b, padded, weight, strides, dilations, op.groups)
    if bias is not None:
        y = b(tt.Map, y, b(tt.Reshape, bias, shape=(1, *bias.type.shape, *(1,) * spatial)), fn="add")
    return y


def _pad(b: Builder, x: Value, low: tuple[Dim, ...], high: tuple[Dim, ...], interior: tuple[Dim, ...] = (), value: float = 0) -> Value:
    """`x` [batch, channels, *sizes] padded along its spatial axes."""
    interior = interior or (0,) * len(low)
    if all(d == 0 for d in (*low, *high, *interior)):
        return x
    return b(tt.Pad, x, low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, *interior), value=value)


def _conv_product(b: Builder, padded: Value, weight: Value, strides: tuple[Dim, ...], dilations: tuple[Dim, ...], groups: int) -> Value:
    """[batch, out, *places] from a padded operand and a weight [out, channels / groups, *kernel]."""
    shape, spatial = padded.type.shape, padded.type.rank - 2
    out, per_group, *kernel = weight.type.shape
    first = 2 if groups == 1 else 3
    if groups > 1:
        pad = padded.producer(tt.Pad) if per_group != 1 else None
        if pad is None:
            padded = _split_channels(b, padded, groups)
        else:
            # In front of the pad, so that this is what windows slide over.
            low, high, interior = ((0, *amounts) for amounts in (pad.low, pad.high, pad.interior))
            padded = b(tt.Pad, _split_channels(b, pad.x, groups), low=low, high=high, interior=interior, value=pad.value)
        weight = b(tt.Reshape, weight, shape=(groups, out // groups, per_group, *kernel))
    axes = tuple(range(first, first + spatial))
    windows = b(tt.Window, padded, axes=axes, sizes=tuple(kernel), strides=strides, dilations=dilations)
    places, taps = _spatial_letters(spatial)
    group = "" if groups == 1 else "G"
    y = b(tt.Contract, windows, weight, spec=f"N{group}C{places}{taps},{group}OC{taps}->N{group}O{places}")
    return reshaped(b, y, (shape[0], out, *y.type.shape[first:]))


# Numbers of a patch that are worth a product.
_LARGE_PATCH = 256


def _goes_by_planes(x: Value, weight: Value, strides: tuple[Dim, ...], dilations: tuple[Dim, ...]) -> bool:
    """Whether a convolution of volumes has what Winograd's way wants of one of images: kernels of 3 by 3 that move by 1 or 2."""
    if x.type.rank != 5 or not isinstance(weight.type.shape[2], int):
        return False
    flat = weight.type.shape[3:] == (3, 3) and strides[1:] in ((1, 1), (2, 2)) and dilations[1:] == (1, 1)
    return flat and known_nonnegative(x.type.shape[1] - WINOGRAD_CHANNELS) and not _counts_steps(x)


def _counts_steps(x: Value) -> bool:
    """Whether a value is bytes times a scale, perhaps less a zero: products of those are made of the bytes where they stand, not by
    Winograd's way.
    """
    while (op := x.producer(tt.Map)) is not None and op.fn in ("mul", "sub", "cast"):
        x = op.xs[0]
        if x.type.dtype.bits == 8:
            return True
    return False


def _sees(size: Dim, places: Dim, first: Dim, stride: Dim) -> bool:
    """Whether one of the places from `first` on, `stride` apart, lies within `size`, as far as that is known."""
    if not (isinstance(size, int) and isinstance(places, int) and isinstance(first, int) and isinstance(stride, int)):
        return True
    return places < 1 or any(0 <= first + place * stride < size for place in range(places))


def _by_planes(
    b: Builder, x: Value, weight: Value, strides: tuple[Dim, ...], pairs: Sequence[tuple[Dim, Dim]], dilations: tuple[Dim, ...]
) -> Value:
    """A convolution of volumes as one of images: the planes that one plane of the result needs lie beside each other as channels

    x: [batch, channels, depth, rows, columns] -> [batch · places, taps · channels, rows, columns], and the weight likewise. Taps that see
    padding alone are left out.
    """
    inside = x.type.shape[2]
    x = _pad(b, x, (pairs[0][0], 0, 0), (pairs[0][1], 0, 0))
    batch, channels, depth, *sizes = x.type.shape
    out, _, taps, *kernel = weight.type.shape
    places = window_positions(depth, taps, strides[0], dilations[0])
    seen = [tap for tap in range(taps) if _sees(inside, places, tap * dilations[0] - pairs[0][0], strides[0])]
    used = range(seen[0], seen[-1] + 1) if seen else range(taps)
    if len(used) < taps:
        starts, stops = (0, 0, used[0], 0, 0), (out, channels, used[-1] + 1, *kernel)
        weight = view_of_weight(b, tt.Slice, weight, starts=starts, stops=stops, strides=(1,) * 5)
    planes = []
    for tap in used:
        first = tap * dilations[0]
        stops = (batch, channels, first + (places - 1) * strides[0] + 1, *sizes)
        plane = b(tt.Slice, x, starts=(0, 0, first, 0, 0), stops=stops, strides=(1, 1, strides[0], 1, 1))
        planes.append(b(tt.Transpose, plane, perm=(0, 2, 1, 3, 4)))
    stacked = b(tt.Concat, planes, axis=2) if len(planes) > 1 else planes[0]
    images = b(tt.Reshape, stacked, shape=(batch * places, len(used) * channels, *sizes))
    images = _pad(b, images, tuple(low for low, _ in pairs[1:]), tuple(high for _, high in pairs[1:]))
    transposed = view_of_weight(b, tt.Transpose, weight, perm=(0, 2, 1, 3, 4))
    flat = view_of_weight(b, tt.Reshape, transposed, shape=(out, len(used) * channels, *kernel))
    y = _conv_product(b, images, flat, strides[1:], dilations[1:], 1)
    y = b(tt.Reshape, y, shape=(batch, places, out, *y.type.shape[2:]))
    return b(tt.Transpose, y, perm=(0, 2, 1, 3, 4))


def _is_cut_to_patches(
    x: Value, weight: Value, strides: tuple[Dim, ...], pairs: Sequence[tuple[Dim, Dim]], dilations: tuple[Dim, ...]
) -> bool:
    """Whether windows lie side by side, of few channels and so many pixels that they are worth putting together."""
    _, channels, *sizes = x.type.shape
    kernel = weight.type.shape[2:]
    if (
        not all(isinstance(n, int) for n in (channels, *sizes, *kernel))
        or channels >= WINOGRAD_CHANNELS
        or channels * prod(kernel) < _LARGE_PATCH
        or _counts_steps(x)
    ):
        return False
    do_not_overlap = strides == tuple(kernel) and all(size % k == 0 for size, k in zip(sizes, kernel, strict=True))
    return do_not_overlap and all(pair == (0, 0) for pair in pairs) and all(d == 1 for d in dilations)


def _of_patches(b: Builder, x: Value, weight: Value) -> Value:
    """A convolution whose windows lie side by side as a product: what is under a window become the channels of one pixel."""
    batch, channels, *sizes = x.type.shape
    out, _, *kernel = weight.type.shape
    spatial, places = len(sizes), [size // k for size, k in zip(sizes, kernel, strict=True)]
    x = b(tt.Reshape, x, shape=(batch, channels, *(n for pair in zip(places, kernel, strict=True) for n in pair)))
    x = b(tt.Transpose, x, perm=(0, *range(2, 2 + 2 * spatial, 2), 1, *range(3, 3 + 2 * spatial, 2)))
    x = b(tt.Reshape, x, shape=(batch, *places, channels * prod(kernel)))
    pixels = b(tt.Transpose, x, perm=(0, 1 + spatial, *range(1, 1 + spatial)))
    flat = view_of_weight(b, tt.Reshape, weight, shape=(out, channels * prod(kernel), *(1,) * spatial))
    return _conv_product(b, pixels, flat, (1,) * spatial, (1,) * spatial, 1)


def _spatial_letters(spatial: int) -> tuple[str, str]:
    """Letters for the places and for the taps of a kernel."""
    return "abcdefghijkl"[:spatial], "mnopqrstuvwx"[:spatial]


def conv_transpose(op: Any, b: Builder, x: Value, weight: Value) -> Value:
    """A convolution with stride 1 of `x` spread apart by the strides, with the kernel reversed and its channel axes swapped; or one by
    phases

    The padding before is (kernel - 1) · dilation - low, and after it what is left of the size. Where that could be negative, the
    result of the whole is cut instead.
    """
    spatial = x.type.rank - 2
    strides, pairs, dilations = conv_numbers(spatial, op.strides, op.padding, op.dilations)
    kernel = weight.type.shape[2:]
    places = x.type.shape[2:]
    sizes = op.sizes or transposed_sizes(places, kernel, strides, pairs, dilations)
    taps, before_all = phase_taps(kernel, strides, dilations), tuple(before for before, _ in pairs)
    behind = None if taps is None else phase_padding(places, sizes, before_all, strides)
    if taps is not None and behind is not None:
        padded = _pad(b, x, tuple(t - 1 for t in taps), behind)
        y = _conv_product(b, padded, phase_weights(b, weight, op.groups, strides, taps), (1,) * spatial, (1,) * spatial, op.groups)
        return in_turns(b, y, op.groups, strides, before_all, sizes)
    low: list[Dim] = []
    high: list[Dim] = []
    cut: list[Dim] = []
    for size, place, taps, stride, (before, after), dilation in zip(sizes, places, kernel, strides, pairs, dilations, strict=True):
        reach = (taps - 1) * dilation
        spread = padded_size(place, 0, 0, stride - 1)
        # The padding that goes: all of it when no side can become negative, else none, and it is cut off at the end.
        shed = known_nonnegative(reach - before) and known_nonnegative(reach - after)
        low.append(reach - before if shed else reach)
        total = size if shed else size + before + after
        high.append(total + reach - low[-1] - spread)
        cut.append(0 if shed else before)
    flipped = _transposed_weight(b, weight, op.groups, spatial)
    padded = _pad(b, x, tuple(low), tuple(high), tuple(s - 1 for s in strides))
    y = _conv_product(b, padded, flipped, (1,) * spatial, dilations, op.groups)
    if y.type.shape[2:] == tuple(sizes):
        return y
    starts = (0, 0, *cut)
    stops = (*y.type.shape[:2], *(start + size for start, size in zip(cut, sizes, strict=True)))
    return b(tt.Slice, y, starts=starts, stops=stops, strides=(1,) * y.type.rank)


def _transposed_weight(b: Builder, weight: Value, groups: int, spatial: int) -> Value:
    """[channels, out / groups, *kernel] as [out, channels / groups, *reversed kernel]."""
    channels, out, *kernel = weight.type.shape
    if any(k != 1 for k in kernel):
        weight = b(tt.Reverse, weight, axes=tuple(range(2, 2 + spatial)))
    if groups == 1:
        return b(tt.Transpose, weight, perm=(1, 0, *range(2, 2 + spatial)))
    split = b(tt.Reshape, weight, shape=(groups, channels // groups, out, *kernel))
    swapped = b(tt.Transpose, split, perm=(0, 2, 1, *range(3, 3 + spatial)))
    return b(tt.Reshape, swapped, shape=(groups * out, channels // groups, *kernel))


def conv_filter(op: Any, b: Builder, x: Value, dy: Value) -> Value:
    """The windows of the padded operand, contracted with dy over batch and places"""
    spatial = x.type.rank - 2
    strides, pairs, dilations = conv_numbers(spatial, op.strides, op.padding, op.dilations)
    padded = _pad(b, x, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))
    first = 2
    if op.groups > 1:
        first = 3
        padded = _split_channels(b, padded, op.groups)
        dy = _split_channels(b, dy, op.groups)
    axes = tuple(range(first, first + spatial))
    windows = b(tt.Window, padded, axes=axes, sizes=op.kernel, strides=strides, dilations=dilations)
    places, taps = _spatial_letters(spatial)
    group = "" if op.groups == 1 else "G"
    dw = b(tt.Contract, dy, windows, spec=f"N{group}O{places},N{group}C{places}{taps}->{group}OC{taps}")
    return reshaped(b, dw, op.result.type.shape)


def _split_channels(b: Builder, x: Value, groups: int) -> Value:
    batch, channels, *sizes = x.type.shape
    return b(tt.Reshape, x, shape=(batch, groups, channels // groups, *sizes))


# --- poolings


def max_pool(op: Any, b: Builder, x: Value) -> Value:
    return _pool(op, b, x, "max")


def avg_pool(op: Any, b: Builder, x: Value) -> Value:
    """The sum of each window over the number of its elements"""
    total = _pool(op, b, wide(b, x), "add")
    count = covered_elements(op, b)
    return b(nn.Cast, b(nn.Div, total, b(nn.Cast, count, dtype=total.type.dtype)), dtype=x.type.dtype)


def _pool(op: Any, b: Builder, x: Value, fn: str) -> Value:
    spatial = x.type.rank - 2
    low, high = pool_padding(op)
    strides, _ = pool_numbers(spatial, op.kernel, op.strides, op.padding)
    y = _pad(b, x, low, high, value=identity_of(fn, x.type.dtype))
    alone = fn == "max" and _by_axes_pays(op.kernel, strides)
    for group in [(i,) for i in reversed(range(spatial))] if alone else [tuple(range(spatial))]:
        axes, sizes, moves = tuple(2 + i for i in group), tuple(op.kernel[i] for i in group), tuple(strides[i] for i in group)
        windows = b(tt.Window, y, axes=axes, sizes=sizes, strides=moves, dilations=(1,) * len(group))
        y = b(tt.Reduce, windows, fn=fn, axes=tuple(2 + spatial + i for i in range(len(group))))
    return y


def _by_axes_pays(kernel: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """Whether the largest of each row's window, then of those in a column, takes half the comparisons of whole windows."""
    if not all(isinstance(n, int) for n in (*kernel, *strides)):
        return False
    known, moves = [int(n) for n in kernel], [int(n) for n in strides]
    # An axis that comes first is looked at for all places of the axes in front of it, of which the strides skip some later.
    return prod(known) >= 2 * sum(n * prod(moves[:i]) for i, n in enumerate(known))
