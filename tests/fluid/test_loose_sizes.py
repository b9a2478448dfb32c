"""Programs whose free sizes must be certain numbers, which only a run tells: Paddle leaves -1 open while a program is built."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme.fluid as fluid
from polyreme.ir.diagnostics import PolyremeError
from polyreme.static.executor import FeedError

layers = fluid.layers
_rng = np.random.RandomState(0)


@pytest.fixture(autouse=True)
def _new_programs():
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield


def _run(feed, *fetched):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(fetched))


def _floats(*shape):
    return _rng.rand(*shape).astype("float32")


def _constant(value):
    return fluid.ParamAttr(initializer=fluid.initializer.Constant(value))


def test_a_batch_may_be_written_as_a_number_in_reshape():
    x = fluid.data("x", [None, 6])
    parted = layers.reshape(x, [4, 3, 2])
    assert tuple(parted.shape) == (4, 3, 2)
    means = layers.reduce_mean(parted, dim=[1])
    rows = _floats(4, 6)
    (found,) = _run({"x": rows}, means)
    np.testing.assert_allclose(found, rows.reshape(4, 3, 2).mean(1), rtol=1e-6)


def test_a_state_of_known_rows_is_added_to_a_batch():
    x = layers.data("x", [3])
    state = layers.fill_constant([4, 3], "float32", 0.5)
    together = layers.concat([layers.elementwise_add(x, state), x + state, x], axis=1)
    rows = _floats(4, 3)
    (found,) = _run({"x": rows}, together)
    np.testing.assert_allclose(found, np.concatenate([rows + 0.5, rows + 0.5, rows], 1), rtol=1e-6)
    with pytest.raises(PolyremeError, match="N and 4 differ|4 and N differ"):
        _run({"x": _floats(3, 3)}, together)


@pytest.mark.parametrize("loss", ["cross_entropy", "softmax_with_cross_entropy"])
def test_labels_of_flattened_rows_are_a_feed_of_their_own(loss):
    words, labels = layers.data("words", [5, 2]), layers.data("labels", [1], dtype="int64")
    scores = layers.reshape(words, [-1, 2])
    if loss == "cross_entropy":
        scores = layers.softmax(scores)
    cost = getattr(layers, loss)(scores, labels)
    mean = layers.mean(cost)
    fluid.gradients(mean, words)
    for batch in (3, 2, 3):
        rows, wanted = _floats(batch, 5, 2), _rng.randint(0, 2, (batch * 5, 1))
        found, total = _run({"words": rows, "labels": wanted}, cost, mean)
        surprise = np.log(np.exp(rows).sum(-1, keepdims=True)) - rows
        expected = np.take_along_axis(surprise.reshape(-1, 2), wanted, 1)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        np.testing.assert_allclose(total, [expected.mean()], rtol=1e-5)
    # One compilation is for all batches.
    assert sum(hasattr(plan, "module") for plan in fluid.default_main_program().plans.values()) == 1


def test_what_no_size_makes_fit_is_refused_where_it_is_written():
    x, y = layers.data("x", [4]), layers.data("y", [3])
    for build in (lambda: layers.elementwise_add(x, y), lambda: x + y, lambda: layers.reshape(x, [3, 3]), lambda: layers.concat([x, y])):
        with pytest.raises(PolyremeError, match="expected"):
            build()


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: layers.cross_entropy(x, y, soft_label=True),
        lambda x, y: layers.huber_loss(x, y, 1.0),
        layers.log_loss,
        layers.smooth_l1,
        lambda x, y: layers.margin_rank_loss(y, x, x),
        lambda x, y: layers.rank_loss(y, x, x),
        lambda x, y: layers.accuracy(x, layers.cast(y, "int64")),
    ],
)
def test_a_batch_of_labels_is_not_spread_over_the_rows(loss):
    """Paddle 1.8.5 refuses each of them, too: one label does not stand for two rows."""
    x, y = layers.data("x", [1]), layers.data("y", [1])
    cost = loss(x, y)
    (found,) = _run({"x": _floats(2, 1), "y": _floats(2, 1)}, cost)
    assert len(found) == 2 or cost.shape == [1]
    with pytest.raises(FeedError, match="expected 2 on axis 0, as axis 0 of 'x' has it, but got 1"):
        _run({"x": _floats(2, 1), "y": _floats(1, 1)}, cost)


def test_one_class_does_not_stand_for_two_rows():
    x, y = layers.data("x", [3]), layers.data("y", [1], dtype="int64")
    cost = layers.cross_entropy(layers.softmax(x), y)
    with pytest.raises(FeedError, match="expected 2 on axis 0"):
        _run({"x": _floats(2, 3), "y": np.array([[1]])}, cost)
