"""`paddle.vision.models`."""

from polyreme.vision.models.lenet import LeNet

__all__ = ["LeNet"]
