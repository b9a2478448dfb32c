"""`paddle.vision`: models and data for images."""

from typing import TYPE_CHECKING

from polyreme.names import absent_from
from polyreme.vision import datasets, models

__all__ = ["datasets", "models"]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__ = absent_from(__name__)
