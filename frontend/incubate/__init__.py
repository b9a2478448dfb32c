"""`paddle.incubate`: what Paddle keeps apart from its settled interface."""

from polyreme.incubate import optimizer
from polyreme.names import listed

__all__ = ["optimizer"]

__dir__ = listed(__name__)
