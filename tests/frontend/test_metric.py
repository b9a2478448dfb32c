"""Metrics against figures worked out by hand."""

import numpy as np
import pytest

import polyreme as paddle
from polyreme import metric
from polyreme.tensor import Tensor

SCORES = Tensor(np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.4, 0.4, 0.2]], "float32"))
LABELS = Tensor(np.array([[1], [1], [2], [0]]))


def test_accuracy_over_batches():
    accuracy = metric.Accuracy()
    assert accuracy.update(accuracy.compute(SCORES, LABELS)) == 0.75
    assert accuracy.update(accuracy.compute(SCORES[:2], LABELS[:2])) == 0.5
    assert accuracy.accumulate() == pytest.approx(4 / 6) and accuracy.name() == ["acc"]
    accuracy.reset()
    assert accuracy.accumulate() == 0.0


def test_accuracy_of_several_ranks_and_of_one_hot_labels():
    accuracy = metric.Accuracy(topk=(1, 2))
    one_hot = Tensor(np.eye(3, dtype="float32")[LABELS.numpy().reshape(-1)])
    assert accuracy.update(accuracy.compute(SCORES, one_hot)) == [0.75, 1.0]
    assert accuracy.name() == ["acc_top1", "acc_top2"]


def test_the_function_accuracy():
    assert float(metric.accuracy(SCORES, LABELS)) == 0.75 and float(metric.accuracy(SCORES, LABELS, k=2)) == 1.0


def test_precision_and_recall():
    predictions, labels = np.array([0.9, 0.6, 0.4, 0.8, 0.1]), np.array([1, 0, 1, 1, 0])
    precision, recall = metric.Precision(), metric.Recall()
    assert precision.accumulate() == 0.0 and recall.accumulate() == 0.0
    precision.update(predictions, labels)
    recall.update(predictions, labels)
    assert precision.accumulate() == pytest.approx(2 / 3) and recall.accumulate() == pytest.approx(2 / 3)


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    scores = np.clip(labels * 0.3 + rng.random(200) * 0.7, 0, 1)
    auc = metric.Auc()
    auc.update(np.stack([1 - scores, scores], axis=1), labels[:, None])
    pairs = scores[labels == 1][:, None] - scores[labels == 0][None, :]
    assert auc.accumulate() == pytest.approx(float(np.mean((pairs > 0) + 0.5 * (pairs == 0))), abs=2e-3)
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\]"):
        auc.update(np.array([[0.0, 1.5]]), np.array([[1]]))


def test_accuracy_is_that_of_the_largest_as_topk_has_them() -> None:
    # Under Paddle 3.3.1: nan counts as the largest.
    scores = paddle.to_tensor(np.array([[0.1, 0.9, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [np.nan, 0.1, 0.2]], "float32"))
    for labels, expected in (([1, 0, 1, 0], (0.75, 1.0, 1.0)), ([2, 1, 2, 1], (0.25, 0.5, 1.0)), ([1, 1, 1, 2], (0.25, 1.0, 1.0))):
        held = paddle.to_tensor(labels).unsqueeze(1)
        assert tuple(float(metric.accuracy(scores, held, k=k)) for k in (1, 2, 3)) == expected
    correct, total = paddle.zeros([1], "int32"), paddle.zeros([1], "int32")
    assert float(metric.accuracy(scores, held, correct=correct, total=total)) == 0.25
    assert (int(correct), int(total), correct.shape) == (1, 4, [])
    assert float(metric.accuracy(paddle.zeros([0, 3]), paddle.zeros([0, 1], "int64"))) == 0.0


def test_accuracy_in_a_compiled_step_and_a_program() -> None:
    step = paddle.jit.to_static(lambda x, y: metric.accuracy(x, y, k=2), full_graph=True)
    rng = np.random.default_rng(3)
    batches = [(rng.standard_normal((rows, 5)).astype("float32"), rng.integers(0, 5, (rows, 1))) for rows in (4, 4, 7)]
    expected = [float(metric.accuracy(paddle.to_tensor(x), paddle.to_tensor(y), k=2)) for x, y in batches]
    assert [float(step(paddle.to_tensor(x), paddle.to_tensor(y))) for x, y in batches] == expected
    paddle.enable_static()
    try:
        with paddle.static.program_guard(main := paddle.static.Program(), paddle.static.Program()):
            x = paddle.static.data("x", [None, 5], "float32")
            y = paddle.static.data("y", [None, 1], "int64")
            share = metric.accuracy(x, y, k=2)
        run = paddle.static.Executor().run
        assert [float(run(main, feed={"x": a, "y": b}, fetch_list=[share])[0]) for a, b in batches] == expected
    finally:
        paddle.disable_static()
