"""The part of Paddle's `fleet` that there is: averaging gradients by hand, in `utils.hybrid_parallel_util`."""

from polyreme.distributed.fleet import utils

__all__ = ["utils"]
