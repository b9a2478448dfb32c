"""Running one group around a contract: by the evaluator on its kernels, and as machine code on one and on two threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import ScalarType, TensorType
from polyreme.ir.verify import verify
from polyreme.lowering.kernels.conv.nchw_choice import build_nchw_conv
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.general.loops import build_loops
from polyreme.lowering.kernels.plan import KernelPlan, Request, structure
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.kernels.way import Way, plan_as_said
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from polyreme.runtime.threads import get_num_threads, set_num_threads

Array = np.ndarray[Any, Any]
Make = Callable[..., Value]


def root_of(types: Sequence[TensorType], make: Make, constants: Sequence[Array] = ()) -> Module:
    """A module whose `main` is one group: `make(builder, *arguments)` with arguments of `types`, then constants."""
    main = Func.empty("main", types, arg_names=[f"x{i}" for i in range(len(types))], arg_roles=("input",) * len(types))
    b = Builder.at_end(main.block)
    known = [b(tensor.Constant, value=c) for c in constants]
    inner = [v.type for v in (*main.args, *known)]
    group = tensor.Fused([*main.args, *known], body=_body(inner, make))
    b.insert(group)
    b.insert(Return(list(group.results)))
    main.finish()
    module = Module.empty()
    module.block.append(main)
    verify(module)
    return module


def _body(types: Sequence[Any], make: Make) -> Any:
    from polyreme.ir.core import Block, Region

    block = Block(types)
    b = Builder.at_end(block)
    b.insert(tensor.Yield([make(b, *block.args)]))
    return Region(block)


class Recorder:
    """The builders of kernels, noting which of them took the group."""

    def __init__(self) -> None:
        self.plans: list[KernelPlan] = []

    def __call__(self, request: Request) -> KernelPlan | None:
        plan = build_nchw_conv(request) or build_contract(request) or build_loops(request)
        if plan is not None:
            self.plans.append(plan)
        return plan


def to_kernels(module: Module, target: Target) -> tuple[Module, list[str]]:
    """The module at kernel level, verified, and the builders that made it."""
    record = Recorder()
    lowered: Module = module.clone()
    PassManager([Stage("kernel", TensorToKernel(target, (record,)))]).run(lowered)
    verify(lowered)
    return lowered, [plan.builder for plan in record.plans]


def run_native(module: Module, inputs: Sequence[Array], target: Target | None = None, threads: Sequence[int] = (1, 2)) -> list[list[Array]]:
    """The results of machine code on so many threads, call by call; kernels are made for `target`, which is this machine or one like it."""
    lowered, _ = to_kernels(module, target or host())
    executable = load(build_artifact(lowered, host(), "product", outline_constants(lowered)))
    before, results = get_num_threads(), []
    try:
        for count in threads:
            set_num_threads(count)
            results.append([np.array(x) for x in executable.run(list(inputs))])
    finally:
        set_num_threads(before)
    return results


def assert_close(got: Array, expected: Array, dtype: ScalarType) -> None:
    """Equal to float64's result, up to the rounding of sums in `dtype`."""
    assert got.shape == expected.shape
    if not expected.size:
        return
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=scale * (2e-5 if dtype.bits == 32 else 1e-12))


def check_native(module: Module, inputs: Sequence[Array], expected: Array, dtype: ScalarType, target: Target | None = None) -> None:
    """Machine code gives the expected numbers, bit for bit the same on one thread and on two."""
    (one,), (two,) = run_native(module, inputs, target)
    assert_close(one, expected, dtype)
    np.testing.assert_array_equal(one, two)


def check_evaluated(module: Module, inputs: Sequence[Array], expected: Array, dtype: ScalarType, target: Target) -> None:
    """The kernels for `target` give the expected numbers on numpy, where every access is checked."""
    lowered, _ = to_kernels(module, target)
    assert_close(evaluate(lowered, inputs)[0], expected, dtype)


def candidates_of(module: Module, way: Way, target: Target) -> list[Schedule]:
    """The schedules that a way has for the group: what is chosen first."""
    found: list[Schedule] = []

    def look(request: Request) -> KernelPlan | None:
        if (seen := way.find(request)) is not None:
            found.extend(way.candidates(seen))
        return way(request)

    PassManager([Stage("kernel", TensorToKernel(target, (look, build_loops)))]).run(module.clone())
    return found


def as_said(module: Module, way: Way, schedule: str, target: Target) -> Module:
    """The module at kernel level, by a schedule that is read from text."""
    lowered: Module = module.clone()
    build = lambda request: None if way.find(request) is None else plan_as_said(request, schedule, (way,))
    PassManager([Stage("kernel", TensorToKernel(target, (build, build_loops)))]).run(lowered)
    verify(lowered)
    return lowered


def check_candidates(
    module: Module, inputs: Sequence[Array], expected: Array, dtype: ScalarType, way: Way, target: Target, least: int = 2
) -> list[Schedule]:
    """Each schedule that a way has for the group, at least so many, is read back from its text and fits; kernels by it are others than
    those by any other one, and give the expected numbers on numpy.
    """
    schedules = candidates_of(module, way, target)
    assert len(schedules) >= least, schedules
    seen = set()
    for schedule in schedules:
        lowered = as_said(module, way, str(schedule), target)
        seen.add(repr(structure(lowered.block)))
        assert_close(evaluate(lowered, inputs)[0], expected, dtype)
    assert len(seen) == len(schedules)
    return schedules


def check_refused(module: Module, way: Way, target: Target, changes: Sequence[tuple[str, str]]) -> None:
    """The chosen schedule, changed in each of these ways, is refused."""
    own = str(candidates_of(module, way, target)[0])
    for old, new in changes:
        assert old in own, own
        with pytest.raises(PolyremeError, match=f"expected a schedule like {re.escape(own)} for .* but got "):
            as_said(module, way, own.replace(old, new), target)
