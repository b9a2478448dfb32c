"""Running modules on the emulated GPU and, with `-m gpu`, on a real one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from polyreme import device as device_module
from polyreme import dispatch
from polyreme.compiled import device_kernels, for_each, kept
from polyreme.ir.builtin import Module
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.targets import GpuTarget, gpu_target
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.gpu.drivers import open_driver

Array = np.ndarray[Any, Any]

DEVICES = pytest.mark.parametrize("device", ["gpu-emulated", pytest.param("gpu", marks=pytest.mark.gpu)])


@cache
def driver(device: str) -> Any:
    return open_driver(device)


def forget_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test open devices of its own: what was made for others is not found."""
    for owner, name, empty in (
        (device_module, "_drivers", {}),
        (device_module, "_copies", {}),
        (device_kernels, "_programs", {}),
        (for_each, "_programs", {}),
        (kept, "_loaded", OrderedDict()),
        (dispatch, "_plans_of", {device_module.CPU: dispatch._plans_of[device_module.CPU]}),
    ):
        monkeypatch.setattr(owner, name, empty)


def loaded(module: Module | str, device: str, target: GpuTarget | None = None) -> Any:
    """A module's executable on the device, of code for `target` or the device's own."""
    if isinstance(module, str):
        module = parse_module(module)
    found = driver(device)
    compiled = compile_module(module, target or gpu_target(found.sm))
    verify(compiled.lowered)
    return load(compiled.artifact, found)


def check(
    module: Module | str, inputs: Sequence[Array], device: str, rtol: float = 2e-5, atol: float = 2e-5, target: GpuTarget | None = None
) -> None:
    """The device gives what the module means, within `rtol` and `atol` for floats, and the same bits when it is asked again."""
    if isinstance(module, str):
        module = parse_module(module)
    executable = loaded(module, device, target)
    for got, again, expected in zip(executable.run(inputs), executable.run(inputs), evaluate(module, list(inputs)), strict=True):
        assert got.shape == expected.shape and got.dtype == expected.dtype
        assert got.tobytes() == again.tobytes()
        if expected.dtype.kind == "f" or expected.dtype.name == "bfloat16":
            np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(got, expected)


def check_bounds(module: Module, inputs: Sequence[Array], device: str) -> None:
    """The device gives what the module means, within the bounds that its ops declare, and the same bits when it is asked again."""
    executable = loaded(module, device)
    got, again = (executable.run(inputs) for _ in range(2))
    assert [a.tobytes() for a in got] == [a.tobytes() for a in again]
    assert not expect(module, list(inputs)).misfits(got)
