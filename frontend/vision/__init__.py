"""`paddle.vision`: models and data for images."""

from polyreme.vision import datasets, models

__all__ = ["datasets", "models"]
