"""Timing the candidates of a root, and keeping the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.conv.depthwise import ChannelwiseSchedule
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.kernels.way import CANDIDATES, Way
from polyreme.lowering.link import tune
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.pipeline import BUILDERS, builders, choose_schedules, compile_module, lower

SHAPE = (100, 90, 80)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only products that are computed step by step have tiles to choose from."""
    monkeypatch.setenv("POLYREME_STRASSEN", "0")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Sequence[Schedule]]:
    """The schedules of each root that was timed; answers are kept in a folder of the test's own."""
    found: list[Sequence[Schedule]] = []
    real = tune.time_schedules

    def time_schedules(request: Request, way: Way, candidates: Sequence[Schedule]) -> dict[Schedule, float]:
        found.append(candidates)
        return real(request, way, candidates)

    monkeypatch.setattr(tune, "time_schedules", time_schedules)
    monkeypatch.setenv("POLYREME_TUNE", "1")
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path))
    return found


def product(m: int, k: int, n: int, scale: float = 1.0) -> Module:
    """x [m, k] times known weights, and relu."""
    main = Func.empty("main", [TensorType((m, k), f32)], arg_names=("x",), arg_roles=("input",))
    b = Builder.at_end(main.block)
    w = np.random.default_rng(0).standard_normal((k, n)).astype(np.float32) * np.float32(scale)
    b.insert(Return([b(nn.Relu, b(nn.MatMul, main.args[0], b(nn.Constant, value=w)))]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


def run(module: Module) -> Any:
    x = np.random.default_rng(1).standard_normal(SHAPE[:2]).astype(np.float32)
    return np.array(compile_module(module).load().run([x])[0])


def test_a_shape_is_timed_once_and_the_answer_is_found_again(asked: list[Any]) -> None:
    run(product(*SHAPE))
    assert len(asked) == 1
    assert 2 <= len(asked[0]) <= CANDIDATES
    run(product(*SHAPE, scale=2.0))
    assert len(asked) == 1
    run(product(*SHAPE[:2], 70))
    assert len(asked) == 2


def test_tuning_does_not_change_a_result(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = run(product(*SHAPE))
    monkeypatch.setenv("POLYREME_TUNE", "0")
    np.testing.assert_array_equal(run(product(*SHAPE)), tuned)
    assert len(asked) == 1


def test_the_fastest_schedule_is_taken_and_read_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed: list[Sequence[Schedule]] = []

    def third_is_best(request: Request, way: Way, candidates: Sequence[Schedule]) -> dict[Schedule, float]:
        timed.append(candidates)
        return {one: float(one != candidates[2]) for one in candidates}

    monkeypatch.setenv("POLYREME_TUNE", "1")
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path))
    monkeypatch.setattr(tune, "time_schedules", third_is_best)
    for _ in range(2):
        module = lower(product(*SHAPE), host(), "tensor")
        choose_schedules(module, host())
        (text,) = [op.schedule for op in module.function("main").block if getattr(op, "schedule", "")]
        assert text == str(timed[0][2])
    assert len(timed) == 1


def test_every_way_with_several_schedules_is_tuned(asked: list[Any]) -> None:
    x = np.random.default_rng(1).standard_normal((1, 40, 40, 96)).astype(np.float32)
    main = Func.empty("main", [TensorType(x.shape, f32)], arg_names=("x",), arg_roles=("input",))
    b = Builder.at_end(main.block)
    windows = b(tensor.Window, main.args[0], axes=(1, 2), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
    b.insert(Return([b(tensor.Reduce, windows, fn="max", axes=(4, 5))]))
    module = Module.empty()
    module.block.append(main.finish())
    found = compile_module(module).load().run([x])[0]
    ((first, *others),) = asked
    assert isinstance(first, ChannelwiseSchedule) and others
    np.testing.assert_array_equal(found, np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)).max((-1, -2)))


def test_small_products_and_other_machines_are_not_timed(asked: list[Any]) -> None:
    run(product(*SHAPE[:2], 3))
    compile_module(product(*SHAPE), TARGETS["x86-64-avx2"]).lowered  # noqa: B018
    assert asked == []


def test_nothing_is_timed_unless_it_is_asked_for(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYREME_TUNE")
    assert builders(host()) == BUILDERS
    run(product(*SHAPE))
    assert asked == []
