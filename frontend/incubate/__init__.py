"""`paddle.incubate`: what Paddle keeps apart from its settled interface."""

from polyreme.incubate import checkpoint, optimizer
from polyreme.names import listed

__all__ = ["checkpoint", "optimizer"]

__dir__ = listed(__name__)
