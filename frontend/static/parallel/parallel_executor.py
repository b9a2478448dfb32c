"""`ParallelExecutor`: an executor that runs a replica of a program on every device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from polyreme.device import CPUPlace, CUDAPlace
from polyreme.ir import config
from polyreme.static.current import default_main_program
from polyreme.static.executor import Executor
from polyreme.static.parallel.compiled_program import check_loss
from polyreme.static.parallel.replicas import Replicas, reducing_program
from polyreme.static.parallel.strategies import BuildStrategy, ExecutionStrategy
from polyreme.static.program import Program
from polyreme.static.scope import Scope, global_scope
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["ParallelExecutor"]


class ParallelExecutor(Shown):
    """Runs a copy of a program on every device: CPU_NUM replicas in this process, or with `use_cuda` the GPU of this process.

    Each replica has parameters of its own, equal at first; gradients are reduced over all, and each updates its own. `loss_name` has to be
    given for training. `share_vars_from`, another one, lets this one use its parameters, for a test beside training.
    """

    executor: type[Executor] = Executor

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ):
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError(f"The share_vars_from should be ParallelExecutor but got {type(share_vars_from).__name__}")
        strategy = build_strategy or BuildStrategy()
        if num_trainers > 1 or strategy.num_trainers > 1:
            raise NotImplementedError(
                f"expected num_trainers=1 but got {max(num_trainers, strategy.num_trainers)}: for several processes use `polyreme launch` "
                f"and paddle.distributed.fleet"
            )
        program = default_main_program() if main_program is None else main_program
        check_loss(program, loss_name)
        self.device_count = 1 if use_cuda else config.cpu_number()
        self._executor = self.executor(CUDAPlace(0) if use_cuda else CPUPlace())
        self._execution = exec_strategy or ExecutionStrategy()
        self._program = program
        ready = reducing_program(program, self.device_count, strategy)
        shared = share_vars_from._replicas if share_vars_from is not None else None
        self._replicas: Replicas = Replicas(ready, self.device_count, global_scope() if scope is None else scope, shared)
        if shared is None:
            self._replicas.broadcast()

    def _shown(self) -> dict[str, Any]:
        return {"device_count": self.device_count}

    def run(self, fetch_list: Sequence[Any], feed: Any = None, feed_dict: Any = None, return_numpy: bool = True) -> list[Any]:
        """Run all operators on every device; the values of `fetch_list`, those of several devices joined along axis 0.

        A dict as `feed` is shared out along axis 0, the last device getting what remains; a list gives each device a dict of its own.
        `feed_dict` is the older name of `feed`.
        """
        joined = self._replicas.joined(self._found(fetch_list, feed, feed_dict))
        return joined if return_numpy else [Tensor._wrap(array) for array in joined]

    def _found(self, fetch_list: Sequence[Any], feed: Any, feed_dict: Any) -> list[list[Any]]:
        """What each device fetches."""
        if feed_dict is not None:
            warnings.warn("feed_dict of ParallelExecutor.run is deprecated: use feed", DeprecationWarning, stacklevel=3)
            feed = feed_dict if feed is None else feed
        parts = self._replicas.parts(feed)
        return self._replicas.run(self._executor, parts, fetch_list, self._execution.num_iteration_per_run)

    def bcast_params(self) -> None:
        """Give all devices the parameters of the first one."""
        self._replicas.broadcast()

    def drop_local_exe_scopes(self) -> None:
        """Nothing is left to drop: what is temporary ends with a run."""
