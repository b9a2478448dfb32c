"""`paddle.incubate`: what Paddle keeps apart from its settled interface."""

from polyreme.incubate import optimizer

__all__ = ["optimizer"]
