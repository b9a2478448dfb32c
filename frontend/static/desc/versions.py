"""The versions of Paddle that programs say they are of."""

from __future__ import annotations

__all__ = ["WRITTEN", "has_scalars"]

# What we write ourselves: the form has not changed since then but for tensors of rank 0.
WRITTEN = 2_005_000
_SCALARS = 2_005_000


def has_scalars(version: int) -> bool:
    """Whether programs of a version may have tensors of rank 0."""
    return version >= _SCALARS
