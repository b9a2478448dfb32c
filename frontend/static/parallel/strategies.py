"""`BuildStrategy` and `ExecutionStrategy`: options of runs on several replicas.

An option does what Paddle says it does, or is of no effect because the compiler here always does it (fusion, reuse of memory). Setting any
other one warns, and what could change results is an error when it is used.
"""

from __future__ import annotations

import warnings
from enum import Enum, IntEnum
from typing import Any, ClassVar

from polyreme.ir.diagnostics import did_you_mean
from polyreme.utils.shown import Shown

__all__ = ["BuildStrategy", "ExecutionStrategy"]


class _Options(Shown):
    """Named options with defaults; `_unheard` says of some why another value than the default has no effect."""

    _defaults: ClassVar[dict[str, Any]] = {}
    _unheard: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        for name, value in cls._defaults.items():
            setattr(cls, name, value)

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, set(value) if isinstance(value, set) else list(value) if isinstance(value, list) else value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(
                f"expected an option of {type(self).__name__} but got '{name}'{did_you_mean(name, self._defaults)}", name=name, obj=self
            )
        value = _fitting(f"{type(self).__name__}.{name}", value, self._defaults[name])
        if name in self._unheard and value != self._defaults[name]:
            warnings.warn(f"{type(self).__name__}.{name} has no effect: {self._unheard[name]}", UserWarning, stacklevel=2)
        object.__setattr__(self, name, value)

    def _shown(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value != self._defaults[name]}


def _fitting(name: str, value: Any, default: Any) -> Any:
    """An option's value as one of its kind, which its default tells; a number is also True or False, and one text a list of texts."""
    wanted: tuple[Any, ...]
    if default is None or (isinstance(default, bool) and value is None):
        wanted, made = (bool, int, type(None)), value
        if value not in (None, False, True):
            raise ValueError(f"{name} must be set to None, False or True, but got {value!r}")
    elif isinstance(default, bool):
        wanted, made = (bool, int), bool(value)
    elif isinstance(default, IntEnum):
        wanted, made = (type(default),), value
    elif isinstance(default, list):
        wanted, made = (list, tuple, str), [value] if isinstance(value, str) else value
    else:
        wanted, made = (type(default),), value
    if not isinstance(value, wanted):
        raise TypeError(f"expected {type(default).__name__} as {name} but got {value!r}")
    return made


class _Choice(IntEnum):
    """Prints by its name, as Paddle's do."""

    __str__ = Enum.__str__


class BuildStrategy(_Options):
    """How a program is made ready for several replicas.

    `gradient_scale_strategy` says whether gradients are averaged (CoeffNumDevice) or summed (One), `fuse_all_reduce_ops` whether they go in
    buckets, `sync_batch_norm` whether batches are normalized by the statistics of all replicas together. `reduce_strategy` makes no
    difference: reduced gradients are the same in all replicas, bit for bit, so that each can update by itself.
    """

    class ReduceStrategy(_Choice):
        AllReduce = 0
        Reduce = 1

    class GradientScaleStrategy(_Choice):
        CoeffNumDevice = 0
        One = 1
        Customized = 2

    reduce_strategy: Any
    gradient_scale_strategy: Any
    fuse_all_reduce_ops: bool
    sync_batch_norm: bool
    num_trainers: int
    trainer_id: int

    _defaults: ClassVar[dict[str, Any]] = {
        "reduce_strategy": ReduceStrategy.AllReduce, "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "fuse_all_reduce_ops": True, "sync_batch_norm": False, "num_trainers": 1, "trainer_id": 0, "trainers_endpoints": [],
        # What the compiler does anyway, or need not be told.
        "memory_optimize": None, "enable_inplace": True, "enable_addto": False, "enable_auto_fusion": False, "build_cinn_pass": False,
        "cache_runtime_context": False, "enable_backward_optimizer_op_deps": True, "enable_sequential_execution": False,
        "sequential_run": False, "fuse_adamw": False, "fuse_all_optimizer_ops": False, "fuse_bn_act_ops": False,
        "fuse_bn_add_act_ops": True, "fuse_broadcast_ops": True, "fuse_dot_product_attention": False, "fuse_elewise_add_act_ops": False,
        "fuse_gemm_epilogue": False, "fuse_relu_depthwise_conv": False, "fuse_resunit": False, "fused_attention": False,
        "fused_feedforward": False, "remove_unnecessary_lock": True, "is_distribution": False,
        "async_mode": False, "debug_graphviz_path": "", "allow_cuda_graph_capture": False, "nccl_comm_num": 1, "bkcl_comm_num": 1,
        "use_hierarchical_allreduce": False, "hierarchical_allreduce_inter_nranks": 0, "mkldnn_enabled_op_types": set(),
        "onednn_enabled_op_types": set(),
    }  # fmt: skip
    _unheard: ClassVar[dict[str, str]] = {
        "async_mode": "replicas wait for each other at every step",
        "debug_graphviz_path": "print paddle.inspect(program.module(fetch_list)).nn to see what a program becomes",
        "allow_cuda_graph_capture": "no CUDA graphs are captured",
        "nccl_comm_num": "replicas are in one process and need no NCCL",
        "bkcl_comm_num": "replicas are in one process and need no BKCL",
        "use_hierarchical_allreduce": "replicas are in one process",
        "hierarchical_allreduce_inter_nranks": "replicas are in one process",
        "mkldnn_enabled_op_types": "no kernels of oneDNN are used",
        "onednn_enabled_op_types": "no kernels of oneDNN are used",
    }


class ExecutionStrategy(_Options):
    """How replicas run: `num_iteration_per_run` says how often the program runs in one call of `run`, which gives what the last one
    fetched. `num_iteration_per_drop_scope` makes no difference: nothing temporary outlives a run.
    """

    num_iteration_per_run: int
    num_iteration_per_drop_scope: int
    num_threads: int

    _defaults: ClassVar[dict[str, Any]] = {
        "num_threads": 0, "num_iteration_per_drop_scope": 100, "num_iteration_per_run": 1, "use_thread_barrier": False,
        "allow_op_delay": False, "use_experimental_executor": True, "use_cuda": True, "dry_run": False,
    }  # fmt: skip
    _unheard: ClassVar[dict[str, str]] = {
        "num_threads": "compiled code has a pool of its own, whose size POLYREME_THREADS says",
        "use_thread_barrier": "replicas meet where gradients are reduced",
        "allow_op_delay": "operators run in program order",
        "use_experimental_executor": "there is one way to run a program",
        "dry_run": "a program that is run runs",
    }
