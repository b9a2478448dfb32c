"""`paddle.static`: programs, what builds them, and what runs them.

Names load on first use, because the API's own modules (`optimizer`, `jit`) need parts of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from polyreme.names import absent_from
from polyreme.static.input_spec import InputSpec

if TYPE_CHECKING:
    from polyreme.nn.attributes import ParamAttr
    from polyreme.static import nn
    from polyreme.static.api.averaging import ExponentialMovingAverage
    from polyreme.static.api.bytes import (
        deserialize_persistables,
        deserialize_program,
        serialize_persistables,
        serialize_program,
    )
    from polyreme.static.api.files import load_from_file, save_to_file
    from polyreme.static.api.inference_model import load_inference_model, save_inference_model
    from polyreme.static.api.ipu import IpuCompiledProgram, IpuStrategy, ipu_shard_guard, set_ipu_shard
    from polyreme.static.api.metric import accuracy, auc, ctr_metric_bundle
    from polyreme.static.api.print import Print
    from polyreme.static.api.setting import setitem
    from polyreme.static.api.state import load, load_program_state, save, set_program_state
    from polyreme.static.backward import append_backward, gradients
    from polyreme.static.creation import cpu_places, create_global_var, create_parameter, cuda_places, xpu_places
    from polyreme.static.current import (
        data,
        default_main_program,
        default_startup_program,
        device_guard,
        name_scope,
        program_guard,
    )
    from polyreme.static.executor import Executor
    from polyreme.static.host_function import py_func
    from polyreme.static.io import normalize_program
    from polyreme.static.nn.weight_norm import WeightNormParamAttr
    from polyreme.static.operator import Operator, OpRole
    from polyreme.static.parallel.compiled_program import CompiledProgram
    from polyreme.static.parallel.parallel_executor import ParallelExecutor
    from polyreme.static.parallel.strategies import BuildStrategy, ExecutionStrategy
    from polyreme.static.program import Block, Program
    from polyreme.static.scope import Scope, global_scope, scope_guard
    from polyreme.static.variable import Parameter, Variable

_HOMES = {
    "polyreme.static.backward": ("append_backward", "gradients"),
    "polyreme.static.api.averaging": ("ExponentialMovingAverage",),
    "polyreme.static.api.bytes": (
        "deserialize_persistables", "deserialize_program", "serialize_persistables", "serialize_program",
    ),
    "polyreme.static.api.files": ("load_from_file", "save_to_file"),
    "polyreme.static.api.inference_model": ("load_inference_model", "save_inference_model"),
    "polyreme.static.api.ipu": ("IpuCompiledProgram", "IpuStrategy", "ipu_shard_guard", "set_ipu_shard"),
    "polyreme.static.api.metric": ("accuracy", "auc", "ctr_metric_bundle"),
    "polyreme.static.api.print": ("Print",),
    "polyreme.static.api.setting": ("setitem",),
    "polyreme.static.creation": ("cpu_places", "create_global_var", "create_parameter", "cuda_places", "xpu_places"),
    "polyreme.static.executor": ("Executor",),
    "polyreme.static.api.state": ("load", "load_program_state", "save", "set_program_state"),
    "polyreme.static.io": ("normalize_program",),
    "polyreme.static.operator": ("OpRole", "Operator"),
    "polyreme.static.parallel.compiled_program": ("CompiledProgram",),
    "polyreme.static.parallel.parallel_executor": ("ParallelExecutor",),
    "polyreme.static.parallel.strategies": ("BuildStrategy", "ExecutionStrategy"),
    "polyreme.static.current": ("data", "default_main_program", "default_startup_program", "device_guard", "name_scope", "program_guard"),
    "polyreme.static.program": ("Block", "Program"),
    "polyreme.static.host_function": ("py_func",),
    "polyreme.static.scope": ("Scope", "global_scope", "scope_guard"),
    "polyreme.static.variable": ("Parameter", "Variable"),
    "polyreme.static.nn.weight_norm": ("WeightNormParamAttr",),
    "polyreme.nn.attributes": ("ParamAttr",),
}  # fmt: skip
_MODULES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Block", "BuildStrategy", "CompiledProgram", "ExecutionStrategy", "Executor", "ExponentialMovingAverage", "InputSpec",
    "IpuCompiledProgram", "IpuStrategy", "OpRole", "Operator", "ParallelExecutor", "ParamAttr", "Parameter", "Print", "Program",
    "Scope", "Variable", "WeightNormParamAttr", "accuracy", "append_backward", "auc", "cpu_places", "create_global_var",
    "create_parameter", "ctr_metric_bundle", "cuda_places", "data", "default_main_program", "default_startup_program",
    "deserialize_persistables", "deserialize_program", "device_guard", "global_scope", "gradients", "ipu_shard_guard", "load",
    "load_from_file", "load_inference_model", "load_program_state", "name_scope", "nn", "normalize_program", "program_guard", "py_func",
    "save", "save_inference_model", "save_to_file", "scope_guard", "serialize_persistables", "serialize_program", "set_ipu_shard",
    "set_program_state", "setitem", "xpu_places",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module("polyreme.static.nn")
    if name in _MODULES:
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value
    return absent_from(__name__)(name)


def __dir__() -> list[str]:
    return list(__all__)
