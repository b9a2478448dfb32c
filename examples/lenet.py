"""LeNet-5, as in `paddle.vision.models.LeNet`, for images of 1x28x28.

    polyreme inspect examples/lenet.py:LeNet --level nn
    polyreme compile examples/lenet.py:LeNet -o lenet.so
"""

import polyreme as paddle


class LeNet(paddle.nn.Layer):
    """Two convolutions with pooling, then three linear layers; returns one score per class."""

    input_spec = [paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")]

    def __init__(self, num_classes=10):
        super().__init__()
        self.features = paddle.nn.Sequential(
            paddle.nn.Conv2D(1, 6, 3, stride=1, padding=1),
            paddle.nn.ReLU(),
            paddle.nn.MaxPool2D(2, 2),
            paddle.nn.Conv2D(6, 16, 5, stride=1, padding=0),
            paddle.nn.ReLU(),
            paddle.nn.MaxPool2D(2, 2),
        )
        self.fc = paddle.nn.Sequential(
            paddle.nn.Linear(400, 120),
            paddle.nn.Linear(120, 84),
            paddle.nn.Linear(84, num_classes),
        )

    def forward(self, image):
        x = self.features(image)
        x = paddle.flatten(x, 1)
        return self.fc(x)
