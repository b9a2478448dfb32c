"""Files that `paddle.fluid` writes, and what it reads again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme import fluid
from tests.fluid.running import run, start


def _small_net() -> Any:
    x, y = fluid.layers.data("x", [3]), fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, size=1), y))
    fluid.optimizer.Adam(0.1).minimize(loss)
    return loss


def _persistable() -> dict[str, Any]:
    return {v.name: fluid.fetch_var(v.name) for v in fluid.default_main_program().list_vars() if v.persistable}


@pytest.mark.parametrize("filename", [None, "all"])
def test_persistable_variables_go_to_files_and_back(tmp_path: Path, filename: str | None) -> None:
    loss = _small_net()
    start()
    run([loss], {"x": np.ones((2, 3), "float32"), "y": np.ones((2, 1), "float32")})
    before = _persistable()
    fluid.io.save_persistables(None, str(tmp_path), filename=filename)
    start()
    fluid.io.load_persistables(None, str(tmp_path), filename=filename)
    assert all((value == before[name]).all() for name, value in _persistable().items())
    assert sorted(path.name for path in tmp_path.iterdir()) == (sorted(before) if filename is None else [filename])


def test_files_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    _small_net()
    start()
    fluid.io.save_params(None, str(tmp_path))
    (tmp_path / "fc_0.b_0").unlink()
    with pytest.raises(FileNotFoundError, match=r"fc_0\.b_0"):
        fluid.io.load_params(None, str(tmp_path))
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        other = fluid.layers.create_parameter([7, 1], "float32", name="fc_0.w_0")
        with pytest.raises(ValueError, match=r"expected float32\[7, 1\] for 'fc_0.w_0'"):
            fluid.io.load_vars(None, str(tmp_path), vars=[other])


def test_checkpoints_count_once_they_are_whole(tmp_path: Path) -> None:
    loss = _small_net()
    start()
    for step in range(4):
        run([loss], {"x": np.ones((2, 3), "float32"), "y": np.ones((2, 1), "float32")})
        assert fluid.io.save_checkpoint(None, str(tmp_path), 2, trainer_args={"step": step}) == step
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_2", "checkpoint_3"]
    last = _persistable()
    (tmp_path / "checkpoint_9").mkdir()  # one that was interrupted
    start()
    assert fluid.io.load_checkpoint(None, str(tmp_path), trainer_args=["step"]) == {"step": 3}
    assert all((value == last[name]).all() for name, value in _persistable().items())
    with pytest.raises(FileNotFoundError, match="expected a checkpoint"):
        fluid.io.load_checkpoint(None, str(tmp_path / "none"))


@pytest.mark.parametrize("names", [(None, None), ("model", "weights")])
def test_a_model_for_inference_leaves_training_behind(tmp_path: Path, names: tuple[str | None, str | None]) -> None:
    x, label = fluid.layers.data("x", [4]), fluid.layers.data("label", [1], dtype="int64")
    scores = fluid.layers.fc(fluid.layers.dropout(fluid.layers.batch_norm(fluid.layers.fc(x, 6, act="relu")), 0.5), 3, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(scores, label))
    fluid.optimizer.Adam(0.1).minimize(loss)
    start()
    feed = {"x": np.random.default_rng(0).random((5, 4), np.float32)}
    run([loss], {**feed, "label": np.zeros((5, 1), "int64")})
    assert fluid.io.save_inference_model(str(tmp_path), ["x"], [scores], None, None, *names) == [scores.name]
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == (["model", "weights"] if names[0] else sorted(["__model__", *files[1:]])) and not any("moment" in f for f in files)
    expected = run([scores], feed, program=fluid.default_main_program().clone(for_test=True)._prune_with_input(["x"], [scores]))[0]
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), None, *names)
        assert feeds == ["x"] and "adam" not in [op.type for op in program.global_block().ops]
        np.testing.assert_allclose(run(targets, feed, program=program)[0], expected, rtol=1e-6)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fluid.io.load_inference_model(str(tmp_path / "none"), None)


def test_a_variable_is_loaded_whenever_the_program_runs(tmp_path: Path) -> None:
    kept = fluid.layers.create_global_var([2, 3], 1.5, "float32", persistable=True, name="kept")
    start()
    fluid.io.save_vars(None, str(tmp_path), vars=[kept])
    file = str(tmp_path / "kept")
    whole, half = fluid.layers.create_tensor("float32"), fluid.layers.create_tensor("float16")
    fluid.layers.load(whole, file)
    fluid.layers.load(half, file, load_as_fp16=True)
    twice = fluid.layers.scale(whole, 2.0)
    first = run([whole, twice, half], {})
    assert list(whole.shape) == [2, 3] and (first[0] == 1.5).all() and (first[1] == 3).all() and first[2].dtype == np.float16
    fluid.global_scope().find_var("kept").get_tensor().set(np.full((2, 3), 4, "float32"), fluid.CPUPlace())
    fluid.io.save_vars(None, str(tmp_path), vars=[kept])
    assert (run([twice], {})[0] == 8).all()


def test_a_file_to_load_must_be_there_or_its_shape_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file"):
        fluid.layers.load(fluid.layers.create_tensor("float32"), str(tmp_path / "none"))
    known = fluid.default_main_program().global_block().create_var("known", [2], "float32")
    fluid.layers.load(known, str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        run([known], {})
