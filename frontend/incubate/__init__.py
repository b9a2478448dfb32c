"""`paddle.incubate`: what Paddle keeps apart from its settled interface."""

from polyreme.incubate import checkpoint, optimizer
from polyreme.names import listed
from polyreme.optimizer.lookahead import LookAhead

__all__ = ["LookAhead", "checkpoint", "optimizer"]

__dir__ = listed(__name__)
