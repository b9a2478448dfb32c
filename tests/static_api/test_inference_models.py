"""Programs that are saved for inference come back as they were, as Programs and as Layers, here and in Paddle 2.6.2."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from tests.frontend.static_mode import static_mode
from tests.static_api import inference_programs as programs

ROOT = Path(__file__).parents[2]
Builder = Callable[[Any], tuple[list[Any], list[Any]]]


def _check(found: list[Any], expected: list[Any]) -> None:
    for got, wanted in zip(found, expected, strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("builder", programs.BUILDERS, ids=lambda b: b.__name__)
def test_a_program_comes_back(builder: Builder, tmp_path: Path) -> None:
    name = builder.__name__
    with static_mode():
        expected = programs.write(paddle, builder, str(tmp_path / name))
        found = programs.run(paddle, name, str(tmp_path / name))
    assert {p.suffix for p in tmp_path.iterdir()} <= {".pdmodel", ".pdiparams"}
    _check(found[: len(expected)], expected)
    if builder is programs.state_that_counts:
        expected = [expected[0] + 1]
    _check(found[len(expected) :], expected)


@pytest.mark.parametrize("name", ["perceptron", "images", "two_inputs", "branch", "loop"])
def test_a_program_comes_back_as_a_layer(name: str, tmp_path: Path) -> None:
    with static_mode():
        expected = programs.write(paddle, getattr(programs, name), str(tmp_path / "net"))
        _, feeds, _ = static.load_inference_model(str(tmp_path / "net"))
    layer = paddle.jit.load(str(tmp_path / "net"))
    layer.eval()
    found = layer(*(paddle.to_tensor(programs.feed_for(name, key)) for key in feeds))
    _check([t.numpy() for t in (found if isinstance(found, (list, tuple)) else [found])], expected)


def test_what_has_a_name_keeps_it(tmp_path: Path) -> None:
    with static_mode():
        programs.write(paddle, programs.perceptron, str(tmp_path / "net"))
        program, feeds, fetches = static.load_inference_model(str(tmp_path / "net"))
        assert feeds == ["x"]
        assert [p.name for p in program.all_parameters()] == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
        assert not any(op.type in ("adam", "mean", "feed", "fetch") or op.type.endswith("_grad") for op in program.global_block().ops)
        assert fetches[0].shape == (-1, 3) or list(fetches[0].shape) == [-1, 3]


def test_other_ways_to_name_the_files(tmp_path: Path) -> None:
    with static_mode():
        (expected,) = programs.write(paddle, programs.sequence, str(tmp_path / "net"))
        feed = {"x": programs.feed_for("sequence", "x")}
        model, values = (tmp_path / f"net{suffix}" for suffix in (".pdmodel", ".pdiparams"))
        for path, names in (
            (str(model), {}),
            (str(tmp_path), {"model_filename": "net", "params_filename": "net"}),
            (str(tmp_path), {"model_filename": "net.pdmodel", "params_filename": "net.pdiparams"}),
            (None, {"model_filename": model.read_bytes(), "params_filename": values.read_bytes()}),
        ):
            with static.scope_guard(static.Scope()):
                program, _, fetches = static.load_inference_model(path, static.Executor(), **names)
                _check(static.Executor().run(program, feed=feed, fetch_list=fetches), [expected])
        with pytest.raises(ValueError, match="contents of files"):
            static.load_inference_model(None, static.Executor(), model_filename="net")
        with pytest.raises(FileNotFoundError, match="other"):
            static.load_inference_model(str(tmp_path / "other"), static.Executor())


def test_a_file_that_is_read_before_the_new_one_is_told_of(tmp_path: Path) -> None:
    with static_mode():
        programs.write(paddle, programs.perceptron, str(tmp_path / "net.polyreme"))
        with pytest.warns(UserWarning, match=r"gets the older '.*net\.polyreme'"):
            programs.write(paddle, programs.perceptron, str(tmp_path / "net"))
        old = static.load_inference_model(str(tmp_path / "net"))
        assert old[1] == ["x"] and len(old[2]) == 2


def test_files_that_are_cut_or_of_another_model_are_errors(tmp_path: Path) -> None:
    with static_mode():
        programs.write(paddle, programs.perceptron, str(tmp_path / "net"))
        programs.write(paddle, programs.sequence, str(tmp_path / "other"))
        whole = (tmp_path / "net.pdmodel").read_bytes()
        for size in range(0, len(whole), 97):
            (tmp_path / "net.pdmodel").write_bytes(whole[:size])
            with pytest.raises(ValueError):
                static.load_inference_model(str(tmp_path / "net"))
        (tmp_path / "net.pdmodel").write_bytes(whole)
        (tmp_path / "net.pdiparams").write_bytes((tmp_path / "other.pdiparams").read_bytes())
        with pytest.raises(ValueError, match=r"fc_0|persistable variables"):
            static.load_inference_model(str(tmp_path / "net"))


@pytest.mark.peer
def test_models_are_exchanged_with_paddle(tmp_path: Path) -> None:
    """`POLYREME_PADDLE_262_PYTHON` names a Python that has Paddle 2.6.2."""
    python = os.environ.get("POLYREME_PADDLE_262_PYTHON")
    if not python:
        pytest.skip("no Python with Paddle 2.6.2 is named")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    expected, found = {}, {}
    with static_mode():
        for builder in programs.BUILDERS:
            expected[builder.__name__] = programs.write(paddle, builder, str(ours / builder.__name__))
        script = ROOT / "tests" / "fixtures" / "exchange_inference_models.py"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([python, str(script), str(ours), str(theirs)], check=True, capture_output=True, env=environment)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for builder in programs.BUILDERS:
                found[builder.__name__] = programs.run(paddle, builder.__name__, str(theirs / builder.__name__))
    there, told = np.load(ours / "there.npz"), np.load(theirs / "expected.npz")
    for name, values in expected.items():
        _check([there[f"{name}/{i}"] for i in range(len(values))], values)
        _check(found[name][: len(values)], [told[f"{name}/{i}"] for i in range(len(values))])
