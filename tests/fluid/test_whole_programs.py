"""Programs as they were written for fluid 1.8, detectors among them: what they find, their losses, and some steps of training beside
Paddle 1.8.5.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme import fluid
from tests.fluid.whole.running import DETECTORS, PROGRAMS, run

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "fixtures" / "fluid_whole.npz"
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
# What a whole detector says once it is trained: weights that were moved by 1e-7 at first give the half of it in 1.8.5, too, and a box that
# is as like the truth as the threshold has a loss or none.
CLOSE_TRAINED = {"rtol": 1e-3, "atol": 1e-3}
# Less than any detector's threshold, whose boxes are rounded.
HIDES = 0.4
# By default those that compile within seconds.
QUICK = {
    "words_by_their_context", "epochs_of_a_py_reader", "a_model_is_kept_and_served", "a_language_model_in_pieces", "a_transformer_learns",
}  # fmt: skip


def read(file: Path, name: str) -> list[Any]:
    with np.load(file) as stored:
        return [stored[f"{name}/{i}"] for i in range(sum(key.startswith(name + "/") for key in stored))]


def assert_same(found: list[Any], expected: list[Any], trained: dict[str, float] = CLOSE) -> None:
    """The values of a program; those behind its first loss, which is one number, as close as `trained` says."""
    assert len(found) == len(expected) > 0
    first = next((i for i, wanted in enumerate(expected) if wanted.shape == (1,)), len(expected))
    for i, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype, i
        if got.ndim == 2 and got.shape[1] == 6:
            assert_same_boxes(got, wanted, i)
        else:
            np.testing.assert_allclose(got, wanted, **(trained if i > first else CLOSE), err_msg=f"value {i}")


def assert_same_boxes(got: Any, wanted: Any, number: int) -> None:
    """Rows of a class, a score and four places, in any order where scores are equal but for rounding. Of two such boxes that hide one
    another either may be the one that is kept, so that a row which only one side has overlaps one of the other's.
    """
    same = np.isclose(got[:, None], wanted[None], rtol=CLOSE["rtol"], atol=1e-3).all(axis=2)
    more, less = got[~same.any(axis=1)], wanted[~same.any(axis=0)]
    assert len(more) + len(less) <= len(wanted) // 50, number
    for rows, others in ((more, wanted), (less, got)):
        for row in rows:
            equals = others[(others[:, 0] == row[0]) & np.isclose(others[:, 1], row[1], **CLOSE)]
            assert any(overlap(row[2:], other[2:]) > HIDES for other in equals), (number, row)


def overlap(box: Any, other: Any) -> float:
    """What two boxes share, of what both cover; boxes by their corners."""
    both = np.maximum(np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2]), 0).prod()
    return float(both / ((box[2:] - box[:2]).prod() + (other[2:] - other[:2]).prod() - both))


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PROGRAMS])
def test_programs_do_what_they_do_in_paddle(name: str) -> None:
    assert_same(run(fluid, name, "small"), read(RECORDED, name))


@pytest.mark.peer
@pytest.mark.parametrize("name", DETECTORS)
def test_whole_detectors_do_what_they_do_in_paddle(name: str, tmp_path: Path) -> None:
    """`POLYREME_PADDLE_185_PYTHON` names a Python that has it."""
    python = os.environ.get("POLYREME_PADDLE_185_PYTHON")
    if not python:
        pytest.skip("no Python with Paddle 1.8.5 is named")
    file = tmp_path / "theirs.npz"
    command = [python, "-W", "ignore", "-m", "tests.fluid.whole.running", "paddle", str(file), "whole", name]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT)
    assert_same(run(fluid, name, "whole"), read(file, name), CLOSE_TRAINED)


def test_a_counter_of_steps_does_not_count_a_run_that_had_no_data() -> None:
    """Paddle 1.8.5 counts it, since its counter is in front of the operator that reads."""
    layers = fluid.layers
    reader = layers.py_reader(capacity=2, shapes=[(-1, 2)], dtypes=["float32"], use_double_buffer=False)
    x = layers.read_file(reader)
    rate = layers.natural_exp_decay(1.0, 1, 1.0)
    total = layers.reduce_sum(x)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    reader.decorate_paddle_reader(lambda: iter([[(np.ones(2, "float32"),)]] * 2))
    rates = []
    for _ in range(2):
        reader.start()
        with pytest.raises(fluid.core.EOFException):
            while True:
                rates.append(float(exe.run(fetch_list=[rate, total])[0]))
        reader.reset()
    np.testing.assert_allclose(rates, np.exp(-np.arange(4.0)), rtol=1e-5)


@pytest.mark.slow
def test_an_image_without_boxes_costs_nothing_in_an_ssd() -> None:
    """Paddle 1.8.5 refuses it ("the start row index must be lesser than the end row index")."""
    layers = fluid.layers
    said, scores = layers.data("said", [6, 4], dtype="float32"), layers.data("scores", [6, 3], dtype="float32")
    box, label = (layers.data(name, [n], dtype=kind, lod_level=1) for name, n, kind in (("box", 4, "float32"), ("label", 1, "int32")))
    priors = layers.data("priors", [6, 4], dtype="float32", append_batch_size=False)
    for given in (said, scores):
        given.stop_gradient = False
    spread = layers.fill_constant([6, 4], "float32", 0.1)
    loss = layers.ssd_loss(said, scores, box, label, priors, spread)
    (slope,) = fluid.gradients(layers.reduce_sum(loss), [scores])
    draws, exe = np.random.default_rng(3), fluid.Executor(fluid.CPUPlace())
    low = draws.uniform(0, 0.5, (6, 2))
    arrays = {"said": draws.uniform(-1, 1, (3, 6, 4)), "scores": draws.uniform(-1, 1, (3, 6, 3))}
    places = np.concatenate([low, low + 0.4], 1).astype("f")

    def run_on(images: list[int]) -> Any:
        lengths = [0 if image == 1 else 2 for image in images]
        feed: dict[str, Any] = {name: array[images].astype("f") for name, array in arrays.items()}
        feed["box"] = fluid.create_lod_tensor(places[: sum(lengths)], [lengths], fluid.CPUPlace())
        feed["label"] = fluid.create_lod_tensor(np.ones((sum(lengths), 1), "int32"), [lengths], fluid.CPUPlace())
        return exe.run(feed={**feed, "priors": places}, fetch_list=[loss, slope])

    (cost, slopes), (wanted, wanted_slopes) = run_on([0, 1, 2]), run_on([0, 2])
    np.testing.assert_allclose(cost.reshape(3, -1)[[0, 2]], wanted.reshape(2, -1), rtol=1e-5)
    np.testing.assert_allclose(slopes[[0, 2]], wanted_slopes, rtol=1e-4, atol=1e-6)
    assert not cost.reshape(3, -1)[1].any() and not slopes[1].any() and wanted.any()
