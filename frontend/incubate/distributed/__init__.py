"""`paddle.incubate.distributed`."""

from polyreme.incubate.distributed import fleet

__all__ = ["fleet"]
