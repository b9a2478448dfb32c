"""`paddle.distributed.fleet.utils`."""

from polyreme.distributed.fleet.recompute import recompute
from polyreme.distributed.fleet.utils import hybrid_parallel_util
from polyreme.names import listed

__all__ = ["hybrid_parallel_util", "recompute"]

__dir__ = listed(__name__)
