"""`paddle.distributed.fleet`: data parallel under its other name, and for static Programs."""

from __future__ import annotations

from typing import Any

from polyreme.distributed.fleet import utils
from polyreme.distributed.fleet.optimizer import DistributedOptimizer
from polyreme.distributed.group import get_rank, get_world_size, init_parallel_env
from polyreme.distributed.parallel import DataParallel
from polyreme.names import listed

__all__ = [
    "DistributedOptimizer", "barrier_worker", "distributed_model", "distributed_optimizer", "init", "is_first_worker", "utils",
    "worker_index", "worker_num",
]  # fmt: skip


def init(role_maker: Any = None, is_collective: bool = True, strategy: Any = None, log_level: Any = None) -> None:
    """Join the other processes, as `init_parallel_env` does. There are no parameter servers."""
    if not is_collective:
        raise ValueError("expected is_collective=True: there are no parameter servers")
    init_parallel_env()


def distributed_model(model: Any) -> DataParallel:
    """The model as a `DataParallel`."""
    return DataParallel(model)


def distributed_optimizer(optimizer: Any, strategy: Any = None) -> DistributedOptimizer:
    """An optimizer whose `minimize` averages gradients over all ranks when it is applied to a static Program."""
    return DistributedOptimizer(optimizer)


def worker_index() -> int:
    """The number of this rank."""
    return get_rank()


def worker_num() -> int:
    """How many ranks there are."""
    return get_world_size()


def is_first_worker() -> bool:
    """Whether this is rank 0."""
    return get_rank() == 0


def barrier_worker() -> None:
    """Wait until all ranks have come here."""
    from polyreme.distributed.communication import barrier

    barrier()


__dir__ = listed(__name__)
