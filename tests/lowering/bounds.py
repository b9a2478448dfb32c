"""Checks of algorithms that declare how exact they are: kernels of a given builder, whose results are within the bound on numpy and as
machine code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyreme.ir.accuracy import Array
from polyreme.ir.builtin import Module
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.verify import verify
from polyreme.lowering.kernels.plan import KernelBuilder
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.pipeline import builders
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from polyreme.runtime.executable import Executable
from polyreme.runtime.threads import get_num_threads, set_num_threads


def to_kernels(module: Module, target: Target, builder: KernelBuilder) -> Module:
    """The module at kernel level, verified: by `builder`, and by the usual builders where it takes no root."""
    lowered: Module = module.clone()
    PassManager([Stage("kernel", TensorToKernel(target, (builder, *builders(target))))]).run(lowered)
    verify(lowered)
    return lowered


def assert_within(got: Array, expected: Array, bound: Array) -> None:
    """float32 results are no further from the exact ones than `bound`."""
    assert got.shape == expected.shape and got.dtype == np.float32
    excess = np.abs(got - expected) - bound
    assert (excess <= 0).all(), f"off by {np.abs(got - expected).flat[excess.argmax()]:.3g} with {bound.flat[excess.argmax()]:.3g} allowed"


def check_machine_code(lowered: Module, inputs: Sequence[Array], expected: Array, bound: Array) -> None:
    """The machine code of kernels gives results within `bound`, bit for bit the same on one thread and on two."""
    check_executable(machine_code(lowered), inputs, expected, bound)


def machine_code(lowered: Module) -> Executable:
    """The executable of kernels, whose constants it takes out of the module."""
    return load(build_artifact(lowered, host(), "bounds", outline_constants(lowered)))


def check_executable(executable: Executable, inputs: Sequence[Array], expected: Array, bound: Array) -> None:
    """An executable gives results within `bound`, bit for bit the same on one thread and on two."""
    before = get_num_threads()
    try:
        set_num_threads(1)
        one = np.array(executable.run(list(inputs))[0])
        set_num_threads(2)
        two = np.array(executable.run(list(inputs))[0])
    finally:
        set_num_threads(before)
    assert_within(one, expected, bound)
    np.testing.assert_array_equal(one, two)
