"""Timing candidates for a matrix product, and keeping the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.link import tune
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.pipeline import builders, compile_module

SHAPE = (100, 90, 80)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only products that are computed step by step have tiles to choose from."""
    monkeypatch.setenv("POLYREME_STRASSEN", "0")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[int, ...]]:
    """The tiles of each product that was timed; answers are kept in a folder of the test's own."""
    found: list[tuple[int, ...]] = []
    real = tune.time_tiles

    def time_tiles(request: Request, tiles: tuple[Any, ...]) -> dict[Any, float]:
        found.append(tiles)
        return real(request, tiles)

    monkeypatch.setattr(tune, "time_tiles", time_tiles)
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
    assert 2 <= len(asked[0]) <= tune.CANDIDATES
    run(product(*SHAPE, scale=2.0))
    assert len(asked) == 1
    run(product(*SHAPE[:2], 70))
    assert len(asked) == 2


def test_tuning_does_not_change_a_result(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = run(product(*SHAPE))
    monkeypatch.setenv("POLYREME_TUNE", "0")
    np.testing.assert_array_equal(run(product(*SHAPE)), tuned)
    assert len(asked) == 1


def test_the_fastest_tile_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = []
    real = tune.build_with_tile
    monkeypatch.setenv("POLYREME_TUNE", "1")
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path))
    monkeypatch.setattr(tune, "time_tiles", lambda request, tiles: {tile: float(tile != tiles[2]) for tile in tiles})
    monkeypatch.setattr(tune, "build_with_tile", lambda request, tile: built.append(tile) or real(request, tile))
    monkeypatch.setattr(tune, "tiles_of", lambda request: ((4, 2), (2, 2), (5, 1), (6, 1)))
    run(product(*SHAPE))
    assert built == [(5, 1)]


def test_small_products_and_other_machines_are_not_timed(asked: list[Any]) -> None:
    run(product(*SHAPE[:2], 3))
    compile_module(product(*SHAPE), TARGETS["x86-64-avx2"]).lowered  # noqa: B018
    assert asked == []


def test_nothing_is_timed_unless_it_is_asked_for(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYREME_TUNE")
    assert tune.build_tuned_contract not in builders(host())
    run(product(*SHAPE))
    assert asked == []
