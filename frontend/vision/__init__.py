"""`paddle.vision`: models, data and transforms for images."""

from typing import TYPE_CHECKING

from polyreme.names import absent_from, listed
from polyreme.vision import datasets, models, ops, transforms

__all__ = ["datasets", "models", "ops", "transforms"]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
