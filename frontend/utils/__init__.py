"""Paddle's `paddle.utils`: unique names."""

from polyreme.utils import unique_name

__all__ = ["unique_name"]
