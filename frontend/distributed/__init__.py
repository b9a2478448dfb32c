"""`paddle.distributed`: several ranks that train one model."""

from typing import TYPE_CHECKING

from polyreme.distributed import fleet
from polyreme.distributed.communication import ReduceOp, all_gather, all_reduce, barrier, broadcast, reduce, reduce_scatter, scatter, wait
from polyreme.distributed.group import (
    ParallelEnv,
    destroy_process_group,
    get_backend,
    get_group,
    get_rank,
    get_world_size,
    init_parallel_env,
    is_available,
    is_initialized,
)
from polyreme.distributed.parallel import DataParallel
from polyreme.distributed.processes import spawn
from polyreme.names import absent_from, listed

__all__ = [
    "DataParallel", "ParallelEnv", "ReduceOp", "all_gather", "all_reduce", "barrier", "broadcast", "destroy_process_group", "fleet",
    "get_backend", "get_group",
    "get_rank", "get_world_size", "init_parallel_env", "is_available", "is_initialized", "reduce", "reduce_scatter", "scatter", "spawn",
    "wait",
]  # fmt: skip

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
