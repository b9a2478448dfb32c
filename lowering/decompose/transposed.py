"""Transposed convolutions by phases.

With strides s, the result's places q s + r of one remainder r see only the taps r, r + s, r + 2 s, …. Each remainder, a *phase*, is a
convolution with stride 1 and a part of the kernel, and all phases read the same windows. So they are one convolution with the phases as
further channels, whose results are then interleaved. Spreading the operand apart by zeros, as the definition has it, would multiply by
those zeros: three products of four, with strides of 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from polyreme.dialects import tensor as tt
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.dims import Dim, ceildiv, known_nonnegative

Value = Any


def phase_taps(kernel: Sequence[Dim], strides: Sequence[Dim], dilations: Sequence[Dim]) -> tuple[int, ...] | None:
    """Taps of a phase along each axis; None where phases save nothing, or where sizes are not known."""
    known = [(k, s) for k, s in zip(kernel, strides, strict=True) if isinstance(k, int) and isinstance(s, int)]
    if len(known) < len(kernel) or any(d != 1 for d in dilations):
        return None
    taps = tuple(-(-k // s) for k, s in known)
    return taps if prod(taps) < prod(k for k, _ in known) else None


def phase_padding(places: Sequence[Dim], sizes: Sequence[Dim], cut: Sequence[Dim], strides: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """How many zeros the phases need behind the operand for `sizes` results after the first `cut`; None if that could be negative."""
    needed = tuple(ceildiv(start + size, int(s)) - place for place, size, start, s in zip(places, sizes, cut, strides, strict=True))
    return needed if all(map(known_nonnegative, needed)) else None


def phase_weights(b: Builder, weight: Value, groups: int, strides: Sequence[Any], taps: Sequence[int]) -> Value:
    """[channels, out / groups, *kernel] as [groups · phases · out / groups, channels / groups, *taps], the taps reversed."""
    channels, out, *kernel = weight.type.shape
    spatial = len(kernel)
    more = tuple(t * s - k for t, s, k in zip(taps, strides, kernel, strict=True))
    if any(more):
        weight = view_of_weight(b, tt.Pad, weight, low=(0,) * (spatial + 2), high=(0, 0, *more), interior=(0,) * (spatial + 2))
    parts = [n for pair in zip(taps, strides, strict=True) for n in pair]
    weight = view_of_weight(b, tt.Reshape, weight, shape=(groups, channels // groups, out, *parts))
    steps, phases = range(3, 3 + 2 * spatial, 2), range(4, 4 + 2 * spatial, 2)
    weight = view_of_weight(b, tt.Reverse, weight, axes=tuple(steps))
    weight = view_of_weight(b, tt.Transpose, weight, perm=(0, *phases, 2, 1, *steps))
    return view_of_weight(b, tt.Reshape, weight, shape=(groups * prod(strides) * out, channels // groups, *taps))


def in_turns(b: Builder, y: Value, groups: int, strides: Sequence[Any], cut: Sequence[Dim], sizes: Sequence[Dim]) -> Value:
    """[batch, groups · phases · out / groups, *places] as [batch, out, *sizes]: of places · strides results those from `cut` on."""
    batch, channels, *places = y.type.shape
    spatial, out = len(places), channels // (groups * prod(strides))
    y = b(tt.Reshape, y, shape=(batch, groups, *strides, out, *places))
    interleaved = [axis for i in range(spatial) for axis in (3 + spatial + i, 2 + i)]
    y = b(tt.Transpose, y, perm=(0, 1, 2 + spatial, *interleaved))
    y = b(tt.Reshape, y, shape=(batch, groups * out, *(n * s for n, s in zip(places, strides, strict=True))))
    stops = tuple(start + size for start, size in zip(cut, sizes, strict=True))
    if all(start == 0 for start in cut) and y.type.shape[2:] == tuple(stops):
        return y
    return b(tt.Slice, y, starts=(0, 0, *cut), stops=(*y.type.shape[:2], *stops), strides=(1,) * (spatial + 2))


def view_of_weight(b: Builder, kind: Any, x: Value, **attributes: Any) -> Value:
    """A view or pad of weights: known now if they are."""
    constant = x.producer(tt.Constant)
    if constant is None:
        return b(kind, x, **attributes)
    values = {"value": 0.0, **attributes} if kind is tt.Pad else attributes
    return b(tt.Constant, value=Dense(np.ascontiguousarray(kind.reference(constant.value.array, **values))))
