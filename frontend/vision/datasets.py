"""`paddle.vision.datasets`: image data as `paddle.io` datasets. Only what comes with the package: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme.data import digits
from polyreme.io import Dataset
from polyreme.names import listed

__all__ = ["Digits"]


class Digits(Dataset):
    """The UCI handwritten digits: pairs (image float32 [1, 28, 28] in [-1, 1], label int64 [1]), as Paddle's MNIST gives them.

    `mode` is "train" (1,440 images) or "test" (357); `transform` is applied to each image.
    """

    def __init__(self, mode: str = "train", transform: Callable[[Any], Any] | None = None):
        super().__init__()
        if mode not in ("train", "test"):
            raise ValueError(f"expected mode to be 'train' or 'test' but got {mode!r}")
        self.mode = mode
        self.transform = transform
        self.images, self.labels = digits(mode)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = self.images[index]
        return (image if self.transform is None else self.transform(image)), np.array([self.labels[index]])

    def __len__(self) -> int:
        return len(self.labels)


__dir__ = listed(__name__)
