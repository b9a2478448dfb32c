"""Axes of two shapes that a reshape splits and joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyreme.ir.dims import Dim


def matching_groups(old: Sequence[Dim], new: Sequence[Dim]) -> Iterator[tuple[list[int], list[int]]]:
    """The shortest runs of axes of two shapes that hold equally many elements, in order."""
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [], []
        a: Dim = 1
        b: Dim = 1
        if i < len(old):
            left, a, i = [i], old[i], i + 1
        if j < len(new):
            right, b, j = [j], new[j], j + 1
        while a != b:
            # Take from the side that cannot be the larger one; sizes whose order is unknown are taken together to the end.
            smaller_old = _divides(a, b)
            if (smaller_old and i < len(old)) or j == len(new):
                if i == len(old):
                    break
                left.append(i)
                a, i = a * old[i], i + 1
            else:
                right.append(j)
                b, j = b * new[j], j + 1
        yield left, right


def _divides(a: Dim, b: Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int)
    return max(len(m) for m, _ in a.terms) <= max(len(m) for m, _ in b.terms)
