"""Data that comes with the package: handwritten digits, so that examples and tests need no network.

`digits.npz` is described and attributed in `digits.txt` beside it.
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyreme.names import listed

__all__ = ["Digits", "digits"]

# In the published order writers wrote the ten digits in turn, so that every fifth ten leaves both parts alike.
TEN = 10
HELD_OUT_EVERY = 5


class Digits(NamedTuple):
    """`images` float32 [n, 1, 28, 28] in [-1, 1]; `labels` int64 [n]."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Digits(images={self.images.dtype}{list(self.images.shape)}, labels={self.labels.dtype}{list(self.labels.shape)})"


def digits(part: str = "all") -> Digits:
    """The UCI handwritten digits; `part` is "train" (1,440 images), "test" (the 357 others) or "all" in the published order.

    The 8x8 originals are enlarged to the 28x28 that LeNet takes: 24x24 by linear interpolation, inside an empty border of two. Every pixel
    of an original is the centre of a block of 3x3.
    """
    if part not in ("train", "test", "all"):
        raise ValueError(f"expected part to be 'train', 'test' or 'all' but got {part!r}")
    with files(__name__).joinpath("digits.npz").open("rb") as stream, np.load(stream) as stored:
        images, labels = stored["images"], stored["labels"]
    if part != "all":
        held_out = np.arange(len(labels)) // TEN % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        chosen = held_out if part == "test" else ~held_out
        images, labels = images[chosen], labels[chosen]
    weights = _interpolation(images.shape[1], 3)
    enlarged = np.pad(weights @ images.astype(np.float32) @ weights.T, ((0, 0), (2, 2), (2, 2)))
    return Digits((enlarged[:, None] / 8 - 1).astype(np.float32), labels.astype(np.int64))


def _interpolation(size: int, factor: int) -> NDArray[np.float32]:
    """The matrix that enlarges `size` values by an odd `factor`; beyond the ends the values stay what they are there."""
    centres = np.clip((np.arange(size * factor) - factor // 2) / factor, 0, size - 1)
    weights: NDArray[np.float32] = np.maximum(0, 1 - np.abs(centres[:, None] - np.arange(size))).astype(np.float32)
    return weights


__dir__ = listed(__name__)
