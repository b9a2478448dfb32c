"""Variables that live in the scope, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.device import CPUPlace, CUDAPlace, XPUPlace, is_compiled_with_cuda, is_compiled_with_xpu
from polyreme.ir import config
from polyreme.nn.attributes import create_parameter
from polyreme.static.current import default_main_program, default_startup_program
from polyreme.static.startup import startup_constant
from polyreme.static.variable import Variable
from polyreme.utils import unique_name

__all__ = ["cpu_places", "create_global_var", "create_parameter", "cuda_places", "xpu_places"]


def create_global_var(
    shape: Sequence[int], value: float, dtype: Any, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Variable:
    """A variable that the startup program fills with `value`."""
    main, startup = default_main_program().global_block(), default_startup_program().global_block()
    made = startup_constant(main, startup, name or unique_name.generate("global_var"), list(shape), dtype, value)
    made.stop_gradient = True
    return made


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """That many CPU places; by default as many as the variable CPU_NUM says, else 1."""
    return [CPUPlace()] * (config.cpu_number() if device_count is None else device_count)


def cuda_places(device_ids: Sequence[int] | None = None) -> list[CUDAPlace]:
    """GPUs by number; by default all that a process uses here, which is one. An `AssertionError` where there is none."""
    assert is_compiled_with_cuda(), "Not compiled with CUDA: no GPU can be used; use paddle.static.cpu_places()"
    return [CUDAPlace(number) for number in ([0] if device_ids is None else _numbers(device_ids))]


def xpu_places(device_ids: Sequence[int] | None = None) -> list[XPUPlace]:
    """XPUs by number: always an `AssertionError`, since no code is made for them."""
    assert is_compiled_with_xpu(), "Not compiled with XPU: no code is made for XPUs; use paddle.static.cpu_places()"
    return [XPUPlace(number) for number in ([0] if device_ids is None else _numbers(device_ids))]


def _numbers(device_ids: Sequence[int] | int) -> list[int]:
    return [device_ids] if isinstance(device_ids, int) else list(device_ids)
