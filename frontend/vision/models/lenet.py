"""LeNet-5, the network of LeCun and others (1998), as Paddle has it."""

from __future__ import annotations

from polyreme.math.manipulation import flatten
from polyreme.nn import Conv2D, Layer, Linear, MaxPool2D, ReLU, Sequential
from polyreme.tensor import Tensor

__all__ = ["LeNet"]


class LeNet(Layer):
    """Scores float32 [N, num_classes] for images float32 [N, 1, 28, 28]; with `num_classes` 0 or less the features before the classifier.
    """

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.num_classes = num_classes
        self.features = Sequential(
            Conv2D(1, 6, 3, stride=1, padding=1),
            ReLU(),
            MaxPool2D(2, 2),
            Conv2D(6, 16, 5, stride=1, padding=0),
            ReLU(),
            MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = Sequential(Linear(400, 120), Linear(120, 84), Linear(84, num_classes))

    def forward(self, inputs: Tensor) -> Tensor:
        x: Tensor = self.features(inputs)
        if self.num_classes > 0:
            x = self.fc(flatten(x, 1))
        return x
