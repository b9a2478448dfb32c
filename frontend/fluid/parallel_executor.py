"""`fluid.ParallelExecutor`: that of `paddle.static`, as older programs spell it."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.executor import Executor
from polyreme.names import listed
from polyreme.static.parallel import parallel_executor

__all__ = ["ParallelExecutor"]


class ParallelExecutor(parallel_executor.ParallelExecutor):
    """Runs a copy of a program on every device; see `paddle.static.ParallelExecutor`. Further keywords but `scope` are refused."""

    executor = Executor

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Any = None,
        share_vars_from: Any = None,
        exec_strategy: Any = None,
        build_strategy: Any = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Any = None,
        **kwargs: Any,
    ):
        if kwargs:
            raise TypeError(f"expected no further arguments of ParallelExecutor but got {', '.join(kwargs)}; options are in the strategies")
        super().__init__(
            use_cuda, loss_name, main_program, share_vars_from, exec_strategy, build_strategy, num_trainers, trainer_id, scope
        )


__dir__ = listed(__name__)
