"""Numbers to plan with in place of unknown sizes."""

from __future__ import annotations

from polyreme.ir.dims import Dim, substitute, symbols

# What a size is taken for in estimates while it has no value.
ASSUMED_SIZE = 64
# The same for the side of a picture that a network takes.
ASSUMED_PIXELS = 224


def estimate(dim: Dim, assumed: int = ASSUMED_SIZE) -> int:
    """A number to plan with: symbolic sizes are taken for `assumed`."""
    value = substitute(dim, dict.fromkeys(symbols(dim), assumed))
    assert isinstance(value, int)
    return max(value, 0)


def estimate_pixels(dim: Dim) -> int:
    """As `estimate`, for sizes that depend on those of an image."""
    return estimate(dim, ASSUMED_PIXELS)
