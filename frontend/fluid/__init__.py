"""`paddle.fluid`: the API of Paddle 1, on the programs, operators and compiler of `paddle.static`.

    import polyreme.fluid as fluid

Functions of `fluid.layers` append operators to the default main program, without any switch; inside `fluid.dygraph.guard()` they run at
once. Names load on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

from polyreme.names import absent_from

_MODULES = (
    "average", "backward", "clip", "compiler", "concurrency", "core", "data_feeder", "dygraph", "executor", "framework",
    "initializer", "io", "layer_helper", "layers", "lod_tensor", "metrics", "nets", "optimizer", "parallel_executor", "param_attr",
    "profiler", "reader", "regularizer", "trainer", "transpiler", "unique_name",
)  # fmt: skip

_HOMES = {
    "backward": ("append_backward", "gradients"),
    "compiler": ("BuildStrategy", "CompiledProgram", "ExecutionStrategy"),
    "concurrency": ("Go", "Select", "channel_close", "channel_recv", "channel_send", "make_channel"),
    "core": ("CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "LoDTensor", "LoDTensorArray", "Scope"),
    "files.data_feed_desc": ("DataFeedDesc",),
    "data_feeder": ("DataFeeder",),
    "dygraph": ("disable_dygraph", "disable_imperative", "enable_dygraph", "enable_imperative", "load_dygraph", "save_dygraph"),
    "dygraph.layers": ("Layer",),
    "dygraph.losses": ("BCELoss", "L1Loss", "MSELoss", "NLLLoss"),
    "dygraph.nn": (
        "BatchNorm", "BilinearTensorProduct", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dropout", "Embedding",
        "GRUUnit", "GroupNorm", "InstanceNorm", "LayerNorm", "Linear", "NCE", "PRelu", "Pool2D", "SpectralNorm",
    ),
    "executor": ("Executor", "_switch_scope", "as_numpy", "fetch_var", "global_scope", "scope_guard"),
    "framework": (
        "Block", "Operator", "Parameter", "Program", "Variable", "cpu_places", "cuda_pinned_places", "cuda_places",
        "default_main_program", "default_startup_program", "device_guard", "get_flags", "get_var", "in_dygraph_mode",
        "is_compiled_with_cuda", "load_op_library", "name_scope", "program_guard", "require_version", "set_flags",
    ),
    "input": ("data", "embedding", "one_hot"),
    "io": ("load", "load_program_state", "save", "set_program_state"),
    "lod_tensor": ("create_lod_tensor", "create_random_int_lodtensor"),
    "parallel_executor": ("ParallelExecutor",),
    "param_attr": ("ParamAttr", "WeightNormParamAttr"),
    "regularizer": ("L1Decay", "L2Decay"),
    "trainer": ("BeginEpochEvent", "BeginStepEvent", "CheckpointConfig", "EndEpochEvent", "EndStepEvent", "Inferencer", "Trainer"),
    "transpiler": ("HashName", "RoundRobin", "memory_optimize", "release_memory"),
}  # fmt: skip
_NAMES = {name: home for home, names in _HOMES.items() for name in names} | {"Tensor": "core"}

__all__ = sorted({*_MODULES, *_NAMES})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"polyreme.fluid.{name}")
    if name in _NAMES:
        module = importlib.import_module(f"polyreme.fluid.{_NAMES[name]}")
        value = globals()[name] = getattr(module, "LoDTensor" if name == "Tensor" else name)
        return value
    return absent_from(__name__)(name)


def __dir__() -> list[str]:
    return list(__all__)
