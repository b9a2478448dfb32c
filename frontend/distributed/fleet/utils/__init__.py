"""`paddle.distributed.fleet.utils`."""

from polyreme.distributed.fleet.recompute import recompute
from polyreme.distributed.fleet.utils import hybrid_parallel_util

__all__ = ["hybrid_parallel_util", "recompute"]
