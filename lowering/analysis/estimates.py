"""Numbers to plan with in place of unknown sizes: the one home of what is assumed of them."""

from __future__ import annotations

from polyreme.ir.dims import Dim, substitute, symbols
from polyreme.ir.python.records import dataclass


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a `size` is taken for in estimates while it has no value; the side of a picture that a network takes, in `pixels`, and the
    `sides` that one plan has to suit; pixels of a `row` of some layer's image, at least; a batch, in `images`; `rows` of a product whose
    schedule has to suit few and many; `rounds` of a loop whose bounds are not known; `calls` of a program before weights change that it
    keeps packed.
    """

    size: int
    pixels: int
    sides: tuple[int, ...]
    row: int
    images: int
    rows: int
    rounds: int
    calls: int


ASSUMED = Assumed(size=64, pixels=224, sides=(160, 224, 320), row=16, images=16, rows=128, rounds=8, calls=8)

# Constants of up to so many elements are computed by passes; larger ones by a kernel, or a pack.
FOLDED_ELEMENTS = 1 << 16


def estimate(dim: Dim, assumed: int = ASSUMED.size) -> int:
    """A number to plan with: symbolic sizes are taken for `assumed`."""
    value = substitute(dim, dict.fromkeys(symbols(dim), assumed))
    assert isinstance(value, int)
    return max(value, 0)


def estimate_pixels(dim: Dim) -> int:
    """As `estimate`, for sizes that depend on those of an image."""
    return estimate(dim, ASSUMED.pixels)
