"""`CompiledProgram`: a program with options for its compilation, for one device or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.ir import config
from polyreme.static.operator import OpRole
from polyreme.static.parallel.replicas import Replicas, reducing_program
from polyreme.static.parallel.strategies import BuildStrategy, ExecutionStrategy
from polyreme.static.program import Program
from polyreme.static.scope import Scope
from polyreme.utils.shown import Shown

__all__ = ["CompiledProgram", "check_loss"]


class CompiledProgram(Shown):
    """A program that is marked for compilation. All programs are compiled here, so that it adds options only.

    After `with_data_parallel`, `Executor.run` runs a replica per device.
    """

    def __init__(self, program_or_graph: Any, build_strategy: BuildStrategy | None = None):
        if not isinstance(program_or_graph, Program):
            raise TypeError(f"The type of program to be optimized must be Program, but received {type(program_or_graph)}")
        if build_strategy is not None and not isinstance(build_strategy, BuildStrategy):
            raise TypeError(f"expected a BuildStrategy as build_strategy but got {type(build_strategy).__name__}")
        self.program = program_or_graph
        self._build_strategy = build_strategy
        self._execution = ExecutionStrategy()
        self._count: int | None = None
        self._shared: CompiledProgram | None = None
        self._replicas: Replicas | None = None
        self._made_of: Any = None

    def _shown(self) -> dict[str, Any]:
        return {"ops": sum(len(block.ops) for block in self.program.blocks)}

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Any = None,
    ) -> CompiledProgram:
        """Let runs be those of a replica per device, with gradients reduced over all of them; returns the program itself.

        `places` are the devices, or their number; by default CPU_NUM of them. `loss_name` has to be given for training, and
        `share_vars_from` lets the program use the parameters of another one with replicas.
        """
        assert self._count is None, "Already compiled with parallel, cannot be recompiled."
        if share_vars_from is not None and not isinstance(share_vars_from, CompiledProgram):
            raise TypeError(f"The share_vars_from should be CompiledProgram but got {type(share_vars_from).__name__}")
        if share_vars_from is not None and share_vars_from._count is None:
            raise ValueError("The shared Program is not data parallel, cannot share variables from it.")
        check_loss(self.program, loss_name)
        self._build_strategy = build_strategy or self._build_strategy
        self._execution = exec_strategy or self._execution
        self._count = _count(places)
        self._shared = share_vars_from
        return self

    def run_replicas(
        self, executor: Any, feed: Any, fetch_list: Sequence[Any], scope: Scope, return_merged: bool = True
    ) -> list[Any] | None:
        """What `Executor.run` gives, or None when there is one device only: the results joined, or unless `return_merged` a list per
        variable of one per device.
        """
        if self._count is None:
            return None
        replicas = self.replicas(scope)
        found = replicas.run(executor, replicas.parts(feed), fetch_list, self._execution.num_iteration_per_run)
        return replicas.joined(found) if return_merged else [list(arrays) for arrays in zip(*found, strict=True)]

    def replicas(self, scope: Scope) -> Replicas:
        """The replicas, made when there are none or the program or the scope is another one."""
        assert self._count is not None
        shared = self._shared.replicas(scope) if self._shared is not None else None
        now = (id(scope), tuple(op.uid for block in self.program.blocks for op in block.ops), id(shared))
        if self._replicas is None or self._made_of != now:
            ready = reducing_program(self.program, self._count, self._build_strategy or BuildStrategy())
            self._replicas, self._made_of = Replicas(ready, self._count, scope, shared), now
        return self._replicas


def check_loss(program: Program, loss_name: str | None) -> None:
    """Refuse a training program without the name of its loss, or with one that it does not have."""
    if loss_name is not None:
        program.global_block().var(loss_name)
    elif any(op.attrs.get("op_role", 0) & OpRole.Optimize for op in program.global_block().ops):
        raise ValueError("expected loss_name for a program that trains but got None: give the name of its loss (loss.name)")


def _count(places: Any) -> int:
    if places is None:
        return config.cpu_number()
    if isinstance(places, int):
        return places
    devices = list(places) if isinstance(places, (list, tuple)) else [places]
    if len(devices) > 1 and any(getattr(place, "is_gpu_place", bool)() for place in devices):
        raise ValueError(f"expected CPU places, or one GPU, but got {len(devices)} GPUs: use a process for each (polyreme launch)")
    return max(len(devices), 1)
