"""Programs whose free sizes must be certain numbers, which only a run tells: Paddle leaves -1 open while a program is built."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme.fluid as fluid
from polyreme import static
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.errors import CallError
from polyreme.static.executor import FeedError

layers = fluid.layers
_rng = np.random.RandomState(0)


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
    assert len(fluid.default_main_program().plans) == 1


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


def test_data_of_layers_may_be_fed_in_other_sizes_than_were_declared():
    """Lengths of the longest sentence in each batch, where the longest of all was declared."""
    words = layers.data("words", [-1, 16, 1], append_batch_size=False, dtype="int64")
    bias = layers.data("bias", [-1, 16, 16], append_batch_size=False)
    seen = layers.embedding(words, [5, 4], param_attr=_constant(0.5))
    scores = layers.elementwise_add(layers.matmul(seen, seen, transpose_y=True), bias)
    for batch, length in ((2, 3), (3, 16), (1, 3)):
        added = _floats(batch, length, length)
        (found,) = _run({"words": np.zeros((batch, length, 1), "int64"), "bias": added}, scores)
        np.testing.assert_allclose(found, 1.0 + added, rtol=1e-6)
    assert len(fluid.default_main_program().plans) == 2
    with pytest.raises(FeedError, match=r"'words': expected \[-1, 16, 1\] but got \[2, 3, 1\]"):
        _run({"words": np.zeros((2, 3, 1), "int64"), "bias": _floats(2, 4, 4)}, scores)


def test_labels_may_be_fed_without_their_axis_of_one():
    x, y = layers.data("x", [3]), layers.data("y", [1], dtype="int64")
    cost = layers.mean(layers.cross_entropy(layers.softmax(x), y))
    rows, classes = _floats(4, 3), np.array([0, 2, 1, 1])
    found = [_run({"x": rows, "y": labels}, cost) for labels in (classes, classes[:, None])]
    np.testing.assert_array_equal(*found)


def test_data_of_fluid_must_be_fed_as_it_was_declared():
    x = fluid.data("x", [None, 3])
    with pytest.raises(FeedError, match=r"expected \[-1, 3\] but got \[2, 4\]"):
        _run({"x": _floats(2, 4)}, layers.scale(x, 2.0))


@pytest.mark.parametrize(
    ("build", "classes"),
    [
        (lambda y: layers.embedding(y, [4, 3]), 4),
        (lambda y: layers.embedding(layers.reshape(y, [-1, 1]), [4, 3]), 4),
        (lambda y: layers.one_hot(y, 6), 6),
        (lambda y: layers.cross_entropy(layers.softmax(layers.data("x", [3])), y), 3),
        (lambda y: layers.softmax_with_cross_entropy(layers.data("x", [3]), y), 3),
        (lambda y: layers.bpr_loss(layers.softmax(layers.data("x", [3])), y), 3),
    ],
)
def test_classes_and_words_that_are_not_there_are_refused(build, classes):
    found = build(layers.data("y", [1], dtype="int64"))
    names = fluid.default_main_program().global_block().vars
    rest = {"x": _floats(2, 3)} if "x" in names else {}
    _run({"y": np.array([[0], [classes - 1]]), **rest}, found)
    for wrong in (classes, -1, 2**40):
        with pytest.raises(FeedError, match=f"the values of the fed variable 'y': expected 0 to {classes - 1} but got {wrong}"):
            _run({"y": np.array([[0], [wrong]]), **rest}, found)


def test_a_label_to_ignore_is_no_class():
    x, y = layers.data("x", [3]), layers.data("y", [1], dtype="int64")
    costs = [layers.cross_entropy(layers.softmax(x), y), layers.softmax_with_cross_entropy(x, y)]
    for found in _run({"x": _floats(2, 3), "y": np.array([[-100], [1]])}, *costs):
        assert found[0, 0] == 0.0 and found[1, 0] > 0.0


def test_lists_in_a_list_of_fetches():
    x = layers.data("x", [2])
    found = _run({"x": _floats(1, 2)}, [layers.scale(x, 2.0), x], x)
    assert len(found) == 3
    np.testing.assert_array_equal(found[0], 2 * found[2])


def test_a_feed_is_by_name():
    x = layers.data("x", [2])
    with pytest.raises(TypeError, match="give the variable's name"):
        _run({x: _floats(1, 2)}, layers.scale(x, 2.0))


def test_a_free_size_compares_as_minus_one():
    batch = layers.data("x", [4]).shape[0]
    assert batch == -1 and batch < 0 and batch <= -1 and not batch > 0 and not batch >= 0 and max(1, batch) == 1
    assert [-1 if size < 0 else size for size in layers.data("y", [4, 2]).shape] == [-1, 4, 2]


def test_gradients_of_sequences_are_arrays():
    x = layers.data("x", [3], lod_level=1)
    x.stop_gradient = False
    fluid.gradients(layers.mean(layers.sequence_pool(x, "sum")), x)
    rows = fluid.create_lod_tensor(_floats(3, 3), [[2, 1]], fluid.CPUPlace())
    (found,) = _run({"x": rows}, "x@GRAD")
    np.testing.assert_allclose(found, np.full((3, 3), 1 / 6), rtol=1e-6)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_probability_is_at_most_one(seed):
    with pytest.raises(ValueError, match="expected a probability from 0 to 1 as 'dropout_prob' but got 1.5"):
        layers.dropout(layers.data("x", [2]), 1.5, seed=seed)


def test_gradients_of_a_loop_by_functions_whose_batch_a_constant_knows():
    x, last = layers.data("x", [4]), layers.fill_constant([1], "int64", 3)
    weight = layers.create_parameter([4, 4], "float32", default_initializer=fluid.initializer.Constant(0.3))

    def body(i, h):
        return layers.increment(i, 1), layers.tanh(layers.elementwise_add(layers.mul(h, weight), x))

    looped = layers.fill_constant([3, 4], "float32", 1.0)
    looped.stop_gradient = False
    written = looped
    _, looped = layers.while_loop(lambda i, h: layers.less_than(i, last), body, [layers.fill_constant([1], "int64", 0), looped])
    for _ in range(3):
        written = layers.tanh(layers.elementwise_add(layers.mul(written, weight), x))
    wanted = [g for h in (looped, written) for g in fluid.gradients(layers.mean(layers.square(h)), [weight])]
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    found = _run({"x": _floats(3, 4)}, looped, written, *wanted)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[3], rtol=1e-5)
    assert np.abs(found[2]).min() > 1e-4


def _by_while_loop(x, first, step):
    i, n = (layers.fill_constant([1], "int64", v) for v in (0, 3))
    return layers.while_loop(lambda i, state: i < n, lambda i, state: [i + 1, step(state, x)], [i, first])[1]


def _by_while(x, first, step):
    i, n = (layers.fill_constant([1], "int64", v) for v in (0, 3))
    again = layers.less_than(i, n)
    first.stop_gradient = False  # a constant stops gradients, and stays the variable that it is
    with layers.While(again).block():
        layers.assign(step(first, x), first)
        layers.increment(i, 1)
        layers.less_than(i, n, cond=again)
    return first


def _unrolled(x, first, step):
    for _ in range(3):
        first = step(first, x)
    return first


def _trained(loop):
    x, first = fluid.data("x", [None, 4]), layers.fill_constant([1, 4], "float32", 0.5)

    def step(state, x):
        weight = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.1))
        return layers.fc(state, 4, act="tanh", param_attr=weight, bias_attr=False) + x * 0.1

    states = loop(x, first, step)
    loss = layers.reduce_mean(layers.square(states))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    runs = [exe.run(feed={"x": np.arange(4 * rows).reshape(rows, 4).astype("float32")}, fetch_list=[states, loss]) for rows in (2, 3, 1)]
    return [array for run in runs for array in run]


@pytest.mark.parametrize("loop", [_by_while_loop, _by_while])
def test_a_state_of_one_row_becomes_one_of_the_batch(loop):
    found = _trained(loop)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        wanted = _trained(_unrolled)
    for made, other in zip(found, wanted, strict=True):
        assert made.shape == other.shape
        np.testing.assert_allclose(made, other, rtol=1e-5)


def test_a_state_of_one_row_of_a_loop_that_may_not_run_is_refused():
    x, n = fluid.data("x", [None, 4]), layers.data("n", [1], dtype="int64", append_batch_size=False)
    i, first = layers.fill_constant([1], "int64", 0), layers.fill_constant([1, 4], "float32", 0.5)
    states = layers.while_loop(lambda i, state: i < n, lambda i, state: [i + 1, state + x], [i, first])[1]
    with pytest.raises(PolyremeError, match="expected the loop to start with"):
        _run({"x": _floats(2, 4), "n": np.zeros(1, "int64")}, states)


@pytest.mark.parametrize("rows", [2, 3])
def test_operators_align_a_batch_with_the_first_axis_as_in_paddle_1(rows):
    """`elementwise_mul(x, y, axis=0)` there; Paddle 2 aligns the last axes, which fits by chance with as many rows as columns."""
    x, y = fluid.layers.data("x", [3, 3]), fluid.layers.data("y", [3])
    mean = fluid.layers.reduce_mean(y, dim=1)
    results = [x * y, x + mean, x - y, x / (y + 20.0), x < y, x * fluid.layers.elementwise_mul(y, y), mean - x]
    a, b = np.arange(9.0 * rows, dtype="float32").reshape(rows, 3, 3), np.arange(3.0 * rows, dtype="float32").reshape(rows, 3)
    wide = b[:, :, None]
    expected = [a * wide, a + b.mean(1)[:, None, None], a - wide, a / (wide + 20), a < wide, a * wide * wide, b.mean(1)[:, None, None] - a]
    for got, numbers in zip(_run({"x": a, "y": b}, *results), expected, strict=True):
        np.testing.assert_allclose(got, numbers, rtol=1e-6)


def test_operators_of_static_programs_align_last_axes():
    x, y = static.data("x", [None, 3, 3]), static.data("y", [None, 3])
    a, b = np.arange(27.0, dtype="float32").reshape(3, 3, 3), np.arange(9.0, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(_run({"x": a, "y": b}, x * y)[0], a * b)


def test_rows_that_were_chosen_apart_are_added_in_a_loop():
    x, first, second = layers.data("x", [2]), layers.data("first", [1]), layers.data("second", [1])
    i, total = layers.zeros([1], "int64"), layers.fill_constant([1], "float32", 0.0)
    limit = layers.fill_constant([1], "int64", 3)
    going = layers.less_than(i, limit)
    loop = layers.While(going)
    with loop.block():
        chosen = [layers.gather(x, layers.slice(layers.where(flags > 0.0), [1], [0], [1])) for flags in (first, second)]
        layers.assign(total + layers.reduce_sum(layers.square(layers.sums(chosen))), total)
        layers.increment(i)
        layers.less_than(i, limit, cond=going)
    rows, flags = _floats(4, 2), np.array([[1], [0], [1], [0]], "float32")
    feed = {"x": rows, "first": flags, "second": 1 - flags}
    (found,) = _run(feed, total)
    np.testing.assert_allclose(found, [3 * ((rows[::2] + rows[1::2]) ** 2).sum()], rtol=1e-5)
    with pytest.raises(CallError, match=r"expected K_\w+ = \d on axis 0 but got \d"):
        _run({**feed, "second": np.ones((4, 1), "float32")}, total)
