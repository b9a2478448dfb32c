"""`paddle.fluid`: names, feeding, scopes, sequences, readers, files; what Paddle 1.8.5 computes is in `test_fluid_against_paddle.py`."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid
from polyreme.static.lod.tensor import LoDTensor

PLACE = fluid.CPUPlace()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Programs, names and a scope of each test's own."""
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield


def _run(fetch: Any, feed: Any = None, **options: Any) -> Any:
    return fluid.Executor(PLACE).run(feed=feed, fetch_list=fetch, **options)


def _start() -> None:
    fluid.Executor(PLACE).run(fluid.default_startup_program())


# --- names


def test_every_name_of_the_package_is_there() -> None:
    for name in fluid.__all__:
        assert getattr(fluid, name) is not None
    assert fluid.Tensor is fluid.LoDTensor and paddle.fluid is fluid
    for module in ("core", "io", "layers", "optimizer", "dygraph.rnn", "clip", "metrics", "nets"):
        found = importlib.import_module(f"polyreme.fluid.{module}")
        assert all(hasattr(found, name) for name in found.__all__)


def test_importing_it_leaves_the_mode_as_it_is() -> None:
    assert paddle.in_dynamic_mode() and not fluid.in_dygraph_mode()
    assert fluid.layers.data("x", [2]).block.program is fluid.default_main_program()
    with fluid.dygraph.guard():
        assert fluid.in_dygraph_mode()
        relu = fluid.layers.relu(fluid.dygraph.to_variable(np.array([-1.0, 2.0], "float32")))
        assert relu.numpy().tolist() == [0.0, 2.0]


def test_arithmetic_on_variables_appends_outside_of_static_mode() -> None:
    x = fluid.layers.data("x", [2])
    y = (2.0 * x - x[:, :1]).astype("float64")
    (found,) = _run([y], {"x": np.array([[1, 3]], "float32")})
    assert found.tolist() == [[1.0, 5.0]] and found.dtype == np.float64


def test_versions_and_flags() -> None:
    fluid.require_version("1.7")
    with pytest.raises(RuntimeError, match="1.9"):
        fluid.require_version("1.9")
    fluid.set_flags({"FLAGS_check_nan_inf": True})
    assert fluid.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": True}
    with pytest.raises(ValueError, match="FLAGS_none"):
        fluid.set_flags({"FLAGS_none": 1})


def test_names_get_the_prefix_of_their_guard() -> None:
    with fluid.unique_name.guard("part_"):
        fluid.layers.fc(fluid.layers.data("x", [2]), size=1)
    assert [p.name for p in fluid.default_main_program().global_block().all_parameters()] == ["part_part_fc_0.w_0", "part_part_fc_0.b_0"]


# --- inputs, and what is fetched


@pytest.mark.parametrize("shape, expected", [([4], [-1, 4]), ([-1, 4], [-1, 4]), ([None, 4], [-1, 4]), ([3, -1], [3, -1])])
def test_data_puts_the_batch_in_front_of_known_sizes(shape: Any, expected: list[int]) -> None:
    assert list(fluid.layers.data("x", shape).shape) == expected
    assert list(fluid.layers.data("y", [4], append_batch_size=False).shape) == [4] and list(fluid.data("z", [4]).shape) == [4]


def test_wrong_feeds_name_the_variable_and_both_shapes() -> None:
    y = fluid.layers.mean(fluid.data("x", [None, 4]))
    with pytest.raises(ValueError, match=r"'x': expected \[-1, 4\] but got \[2, 3\]"):
        _run([y], {"x": np.zeros((2, 3), "float32")})
    with pytest.raises(ValueError, match="'x': expected float32 but got float64"):
        _run([y], {"x": np.zeros((2, 4))})
    with pytest.raises(RuntimeError, match="expected a feed for 'x'"):
        _run([y])
    with pytest.raises(TypeError, match="feed requires dict"):
        _run([y], "x")


def test_one_element_is_an_array_and_a_number() -> None:
    (found,) = _run([fluid.layers.mean(fluid.layers.data("x", [4]))], {"x": np.ones((2, 4), "float32")})
    assert isinstance(found, np.ndarray) and found.shape == (1,) and found[0] == float(found) == 1.0 and f"{found[0]:.1f}" == "1.0"


def test_all_operators_run_and_persistable_variables_stay() -> None:
    counter = fluid.layers.create_global_var([1], 0, "int64", persistable=True, name="counter")
    fluid.layers.increment(counter)
    other = fluid.layers.fill_constant([1], "int64", 7)
    _start()
    for _ in range(3):
        _run([other])
    assert fluid.fetch_var("counter").tolist() == [3]
    assert isinstance(fluid.fetch_var("counter", return_numpy=False), LoDTensor)
    with pytest.raises(ValueError, match="Cannot find nothing in scope"):
        fluid.fetch_var("nothing")


def test_scopes_see_their_parents_and_forget_their_kids() -> None:
    scope = fluid.Scope()
    child = scope.new_scope()
    scope.var("a").get_tensor().set(np.arange(3), PLACE)
    assert child.find_var("a").get_tensor().shape() == [3] and scope.find_var("b") is None  # type: ignore[union-attr]
    scope.drop_kids()
    before = fluid._switch_scope(scope)
    assert fluid.global_scope() is scope and fluid._switch_scope(before) is scope


def test_parameters_may_live_in_another_scope() -> None:
    y = fluid.layers.fc(fluid.layers.data("x", [2]), size=1)
    exe, other = fluid.Executor(PLACE), fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=other)
    assert exe.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=[y], scope=other)[0].shape == (1, 1)
    with pytest.raises(RuntimeError, match="run the startup program first"):
        exe.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=[y])


# --- sequences


def test_levels_are_lengths_and_offsets() -> None:
    t = fluid.create_lod_tensor(np.arange(6).reshape(6, 1), [[2, 1], [1, 2, 3]], PLACE)
    assert t.lod() == [[0, 2, 3], [0, 1, 3, 6]] and t.has_valid_recursive_sequence_lengths()
    t.set_recursive_sequence_lengths([[2, 4], [1, 2, 3]])
    assert not t.has_valid_recursive_sequence_lengths()
    for wrong in ([[0, 2, 5]], [[1, 6]], [[0, 4, 3, 6]], [[0, 3], [0, 1, 6]]):
        with pytest.raises(ValueError, match="expected offsets"):
            t.set_lod(wrong)
    with pytest.raises(ValueError, match="lod info is invalid"):
        fluid.create_lod_tensor(np.zeros((5, 1)), [[2, 4]], PLACE)
    with pytest.raises(ValueError, match="do not match"):
        fluid.create_lod_tensor([[1, 2], [3]], [[1, 2]], PLACE)
    assert np.array(fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], PLACE)).tolist() == [[1], [2], [3]]


def test_levels_travel_from_feed_to_fetch() -> None:
    x = fluid.layers.data("x", [2], lod_level=1)
    hidden = fluid.layers.fc(x, size=3)
    pooled = fluid.layers.sequence_pool(hidden, "sum")
    assert hidden.lod_level == 1 and pooled.lod_level == 0
    _start()
    feed = {"x": fluid.create_lod_tensor(np.ones((5, 2), "float32"), [[2, 3]], PLACE)}
    first, second = _run([hidden, pooled], feed, return_numpy=False)
    assert first.lod() == [[0, 2, 5]] and second.lod() == [] and second.shape() == [2, 3]
    with pytest.raises(RuntimeError, match="hold LoD information"):
        _run([hidden], feed)


def test_a_sequence_without_rows_gets_the_pad_value() -> None:
    x = fluid.layers.data("x", [1], lod_level=1)
    pools = [fluid.layers.sequence_pool(x, kind, pad_value=-1.0) for kind in ("sum", "average", "max", "first", "last")]
    feed = {"x": fluid.create_lod_tensor(np.array([[1], [3]], "float32"), [[0, 2, 0]], PLACE)}
    found = [a.reshape(-1).tolist() for a in _run(pools, feed)]
    assert found == [[-1.0, 4.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, 3.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, 3.0, -1.0]]


def test_sequences_where_none_are_fed_are_an_error() -> None:
    pooled = fluid.layers.sequence_pool(fluid.layers.data("x", [1], lod_level=1), "sum")
    with pytest.raises(ValueError, match="expected sequences in 'X'"):
        _run([pooled], {"x": np.zeros((2, 1), "float32")})
    with pytest.raises(ValueError, match="expected 1 but got 2"):
        _run([pooled], {"x": fluid.create_lod_tensor(np.zeros((2, 1), "float32"), [[1], [2]], PLACE)})


# --- feeding


def test_a_feeder_casts_stacks_and_joins() -> None:
    image = fluid.layers.data("image", [1, 2, 2])
    fluid.layers.data("words", [1], dtype="int64", lod_level=1)
    found = fluid.DataFeeder([image, "words"], PLACE).feed([([0, 1, 2, 3], [5, 6]), ([4] * 4, [7])])
    assert found["image"].shape() == [2, 1, 2, 2] and np.array(found["image"]).dtype == np.float32
    assert np.array(found["words"]).tolist() == [[5], [6], [7]] and found["words"].recursive_sequence_lengths() == [[2, 1]]
    with pytest.raises(ValueError, match="does not match"):
        fluid.DataFeeder([image], PLACE).feed([([0] * 4, [1])])
    with pytest.raises(ValueError, match="Reshape error"):
        fluid.DataFeeder([image], PLACE).feed([([0] * 5,)])


def test_batches_for_several_devices() -> None:
    feeder = fluid.DataFeeder([fluid.layers.data("x", [1])], PLACE)
    batch = [([1.0],), ([2.0],)]
    assert [f["x"].shape() for f in feeder.feed_parallel([batch, batch[:1]], 2)] == [[2, 1], [1, 1]]
    with pytest.raises(ValueError, match="one for each of 3 devices"):
        list(feeder.feed_parallel([batch], 3))
    assert [len(item) for item in feeder.decorate_reader(lambda: iter([batch] * 5), True, 2)()] == [2, 2]
    with pytest.raises(ValueError, match="1 batches are left"):
        list(feeder.decorate_reader(lambda: iter([batch] * 5), True, 2, drop_last=False)())
    assert len(list(feeder.decorate_reader(lambda: iter([batch] * 5))())) == 5


def test_readers_of_readers() -> None:
    numbers = lambda: iter(range(5))
    reader = paddle.reader
    assert list(reader.firstn(reader.chain(numbers, numbers), 7)()) == [0, 1, 2, 3, 4, 0, 1]
    assert list(reader.map_readers(lambda a, b: a + b, numbers, numbers)()) == [0, 2, 4, 6, 8]
    assert list(reader.compose(numbers, numbers)())[1] == (1, 1)
    with pytest.raises(reader.ComposeNotAligned):
        list(reader.compose(numbers, lambda: iter([1]))())
    assert sorted(reader.shuffle(numbers, 3)()) == list(range(5)) == list(reader.buffered(numbers, 2)())
    assert list(reader.xmap_readers(lambda v: v * 2, numbers, 2, 3, order=True)()) == [0, 2, 4, 6, 8]
    assert sorted(reader.multiprocess_reader([numbers, numbers])()) == sorted([*range(5), *range(5)])


def test_an_error_of_a_reader_reaches_who_reads() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    read = iter(paddle.reader.buffered(broken, 2)())
    assert next(read) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(read)


def test_a_program_pulls_its_batches_until_they_end() -> None:
    reader = fluid.layers.py_reader(4, [[-1, 2], [-1, 1]], ["float32", "int64"])
    x, label = fluid.layers.read_file(fluid.layers.double_buffer(reader))
    total = fluid.layers.reduce_sum(x)
    reader.decorate_paddle_reader(paddle.batch(lambda: (([i, i], [0]) for i in range(5)), 2))
    threads = threading.active_count()
    for _ in range(2):
        reader.start()
        sums = []
        with pytest.raises(fluid.core.EOFException):
            while True:
                sums.append(float(_run([total, label])[0]))
        reader.reset()
        assert sums == [2.0, 10.0, 8.0]
    with pytest.raises(RuntimeError, match="call start"):
        _run([total])

    def endless() -> Iterator[Any]:
        while True:
            yield np.ones((1, 2), "float32"), np.zeros((1, 1), "int64")

    reader.decorate_tensor_provider(endless)
    reader.start()
    assert float(_run([total])[0]) == 2.0
    reader.reset()
    assert threading.active_count() == threads


# --- parameters


def test_an_attribute_from_what_may_stand_for_one() -> None:
    to_attr = fluid.ParamAttr.to_attr
    assert to_attr(None).name is None and to_attr(False) is False and to_attr("w").name == "w" and to_attr(0.5).learning_rate == 0.5
    clip, decay, start = fluid.clip.GradientClipByNorm(1.0), fluid.L2Decay(0.1), fluid.initializer.Constant(2.0)
    assert to_attr(clip).gradient_clip is clip and to_attr(decay).regularizer is decay and to_attr(start).initializer is start
    assert [a.name for a in to_attr(["a", "b"])] == ["a", "b"]
    with pytest.raises(TypeError, match="cast to ParamAttr"):
        to_attr(object())
    assert to_attr("w").to_kwargs()["optimize_attr"] == {"learning_rate": 1.0}


@pytest.mark.parametrize(
    "initializer, low, high",
    [
        (fluid.initializer.Uniform(-2, 3), -2, 3),
        (fluid.initializer.Xavier(), -0.2, 0.2),
        (fluid.initializer.MSRA(), -0.25, 0.25),
        (fluid.initializer.TruncatedNormal(0.0, 0.1), -0.2, 0.2),
        (fluid.initializer.Constant(1.5), 1.5, 1.5),
    ],
)
def test_initializers_fill_within_their_bounds(initializer: Any, low: float, high: float) -> None:
    w = fluid.layers.create_parameter([100, 50], "float32", attr=fluid.ParamAttr(initializer=initializer))
    _start()
    values = fluid.fetch_var(w.name)
    assert values.min() >= low and values.max() <= high and (low == high or values.std() > 0.2 * (high - low))


def test_a_bilinear_filter_interpolates() -> None:
    w = fluid.layers.create_parameter([1, 1, 4, 4], "float32", attr=fluid.initializer.Bilinear())
    _start()
    assert np.allclose(fluid.fetch_var(w.name)[0, 0, 1], np.array([0.25, 0.75, 0.75, 0.25]) * 0.75)


# --- files


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
    _start()
    _run([loss], {"x": np.ones((2, 3), "float32"), "y": np.ones((2, 1), "float32")})
    before = _persistable()
    fluid.io.save_persistables(None, str(tmp_path), filename=filename)
    _start()
    fluid.io.load_persistables(None, str(tmp_path), filename=filename)
    assert all((value == before[name]).all() for name, value in _persistable().items())
    assert sorted(path.name for path in tmp_path.iterdir()) == (sorted(before) if filename is None else [filename])


def test_files_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    _small_net()
    _start()
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
    _start()
    for step in range(4):
        _run([loss], {"x": np.ones((2, 3), "float32"), "y": np.ones((2, 1), "float32")})
        assert fluid.io.save_checkpoint(None, str(tmp_path), 2, trainer_args={"step": step}) == step
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_2", "checkpoint_3"]
    last = _persistable()
    (tmp_path / "checkpoint_9").mkdir()  # one that was interrupted
    _start()
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
    _start()
    feed = {"x": np.random.default_rng(0).random((5, 4), np.float32)}
    _run([loss], {**feed, "label": np.zeros((5, 1), "int64")})
    assert fluid.io.save_inference_model(str(tmp_path), ["x"], [scores], None, None, *names) == [scores.name]
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == (["model", "weights"] if names[0] else sorted(["__model__", *files[1:]])) and not any("moment" in f for f in files)
    expected = _run([scores], feed, program=fluid.default_main_program().clone(for_test=True)._prune_with_input(["x"], [scores]))[0]
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), None, *names)
        assert feeds == ["x"] and "adam" not in [op.type for op in program.global_block().ops]
        np.testing.assert_allclose(_run(targets, feed, program=program)[0], expected, rtol=1e-6)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fluid.io.load_inference_model(str(tmp_path / "none"), None)


# --- memory


def test_memory_optimize_tells_what_sharing_saves(capsys: pytest.CaptureFixture[str]) -> None:
    hidden = fluid.layers.data("x", [16])
    for _ in range(4):
        hidden = fluid.layers.softmax(fluid.layers.fc(hidden, 16, act="relu"))
    main = fluid.default_main_program()
    found = fluid.memory_optimize(main, {hidden}, print_log=True)
    assert found is not None and 0 < found.shared < found.apart and str(found) in capsys.readouterr().out
    _start()
    feed = {"x": np.ones((2, 16), "float32")}
    (before,) = _run([hidden], feed)
    fluid.release_memory(main, [hidden])
    assert sum(op.type == "delete_var" for op in main.global_block().ops) > 3
    assert (_run([hidden], feed)[0] == before).all()


# --- dygraph


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("cudnn", [True, False])
def test_a_gru_cell_is_its_equations(cudnn: bool) -> None:
    rng = np.random.default_rng(0)
    with fluid.dygraph.guard(PLACE):
        cell = fluid.dygraph.rnn.GRUCell(4, 3, use_cudnn_impl=cudnn)
        values = [rng.uniform(-1, 1, p.shape) for p in cell.parameters()]
        for parameter, value in zip(cell.parameters(), values, strict=True):
            parameter.set_value(value)
        x, h = rng.uniform(-1, 1, (2, 3)), rng.uniform(-1, 1, (2, 4))
        made = cell(fluid.dygraph.to_variable(x), fluid.dygraph.to_variable(h)).numpy()
    if cudnn:
        w_x, w_h, b_x, b_h = values
        (r, u, c), (r_h, u_h, c_h) = np.split(x @ w_x.T + b_x, 3, 1), np.split(h @ w_h.T + b_h, 3, 1)
        reset, update = _sigmoid(r + r_h), _sigmoid(u + u_h)
        candidate = np.tanh(c + reset * c_h)
    else:
        w_g, w_c, b_g, b_c = values
        reset, update = np.split(_sigmoid(np.hstack([x, h]) @ w_g + b_g), 2, 1)
        candidate = np.tanh(np.hstack([x, reset * h]) @ w_c + b_c)
    np.testing.assert_allclose(made, update * h + (1 - update) * candidate, rtol=1e-12)


@pytest.mark.parametrize("cudnn", [True, False])
def test_an_lstm_cell_is_its_equations(cudnn: bool) -> None:
    rng = np.random.default_rng(0)
    with fluid.dygraph.guard(PLACE):
        cell = fluid.dygraph.rnn.LSTMCell(4, 3, use_cudnn_impl=cudnn, forget_bias=0.5)
        values = [rng.uniform(-1, 1, p.shape) for p in cell.parameters()]
        for parameter, value in zip(cell.parameters(), values, strict=True):
            parameter.set_value(value)
        x, h, c = (rng.uniform(-1, 1, (2, n)) for n in (3, 4, 4))
        hidden, after = (t.numpy() for t in cell(*map(fluid.dygraph.to_variable, (x, h, c))))
        with pytest.raises(ValueError, match=r"input of shape \[batch, 3\]"):
            cell(*map(fluid.dygraph.to_variable, (h, h, c)))
    if cudnn:
        w_x, w_h, b_x, b_h = values
        i, f, j, o = np.split(x @ w_x.T + b_x + h @ w_h.T + b_h, 4, 1)
    else:
        i, j, f, o = np.split(np.hstack([x, h]) @ values[0] + values[1], 4, 1)
        f = f + 0.5
    expected = _sigmoid(f) * c + _sigmoid(i) * np.tanh(j)
    np.testing.assert_allclose(after, expected, rtol=1e-12)
    np.testing.assert_allclose(hidden, _sigmoid(o) * np.tanh(expected), rtol=1e-12)


@pytest.mark.parametrize("make", [lambda p: fluid.optimizer.Adam(0.1, parameter_list=p), lambda p: fluid.optimizer.Momentum(0.1, 0.9, p)])
def test_optimizers_step_in_dygraph_mode(make: Any) -> None:
    with fluid.dygraph.guard():
        paddle.seed(0)
        layer = paddle.nn.Linear(3, 1)
        optimizer = make(layer.parameters())
        x, losses = fluid.dygraph.to_variable(np.ones((2, 3), "float32")), []
        for _ in range(5):
            loss = fluid.layers.mean(fluid.layers.square(layer(x) - 1.0))
            loss.backward()
            optimizer.minimize(loss)
            layer.clear_gradients()
            losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_what_fluid_saves_in_three_files_is_loaded_again(tmp_path: Any) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [3])
        loss = fluid.layers.mean(fluid.layers.fc(x, 2))
        fluid.optimizer.Adam(0.1).minimize(loss)
        executor = fluid.Executor()
        executor.run(startup)
        feed = {"x": np.ones((2, 3), "float32")}
        executor.run(main, feed=feed)
        fluid.save(main, str(tmp_path / "model"))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pdmodel", "model.pdopt", "model.pdparams"]
        # Arrays under the name that the numpy of that time knows them by.
        assert all(b"numpy._core" not in p.read_bytes() for p in tmp_path.iterdir())
        expected = [executor.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(2)]
        fluid.load(main, str(tmp_path / "model"), executor)
        assert [executor.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(2)] == expected
        state = fluid.load_program_state(str(tmp_path / "model"))
        assert set(state) == {v.name for v in main.list_vars() if v.persistable}


def test_sequences_do_not_go_two_ways_by_their_rows() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        words = fluid.layers.data("words", [3], lod_level=1)
        mask = fluid.layers.data("mask", [1], dtype="bool")
        ways = fluid.layers.IfElse(mask)
        for x in (words, fluid.layers.relu(words)):
            with pytest.raises(ValueError, match=f"'{x.name}' holds sequences .lod_level 1."), ways.true_block():
                ways.input(x)


# --- recurrent nets over sequences


def test_what_a_dynamic_rnn_refuses() -> None:
    layers = fluid.layers
    x, flat = layers.data("x", [3], lod_level=1), layers.data("flat", [3])
    deep = layers.data("deep", [3], lod_level=2)
    rnn = layers.DynamicRNN()
    with pytest.raises(ValueError, match="can only be invoked inside rnn block"):
        rnn.step_input(x)
    with pytest.raises(ValueError, match="can only be visited outside"):
        rnn()
    with rnn.block():
        with pytest.raises(ValueError, match="after step_input"):
            rnn.memory(shape=[3])
        for wrong in (flat, deep):
            with pytest.raises(ValueError, match=f"'{wrong.name}' has lod_level {wrong.lod_level}"):
                rnn.step_input(wrong)
        row = rnn.step_input(x)
        with pytest.raises(ValueError, match="'deep' has lod_level 2"):
            rnn.static_input(deep)
        rnn.output(row)
    with pytest.raises(ValueError, match="only be invoke once"), rnn.block():
        pass


def over_steps(body, *inputs, feed):
    """What a `DynamicRNN` with this body gives: it takes the net and the rows of the inputs, and returns its outputs."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        rnn = fluid.layers.DynamicRNN()
        variables = [fluid.layers.data(name, [3], lod_level=1) for name in inputs]
        with rnn.block():
            rnn.output(body(rnn, *map(rnn.step_input, variables)))
        outs = rnn()
        return fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=[outs], return_numpy=False)[0]


def sequences_of(lengths, seed=0):
    rows = np.random.RandomState(seed).rand(sum(lengths), 3).astype("float32")
    return fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())


MIXING = {
    "softmax": lambda rnn, row: fluid.layers.softmax(row, axis=0),
    "reverse": lambda rnn, row: fluid.layers.reverse(row, axis=0),
    "matmul": lambda rnn, row: fluid.layers.matmul(fluid.layers.matmul(row, row, transpose_y=True), row),
    "mean": lambda rnn, row: fluid.layers.elementwise_add(row, fluid.layers.mean(row)),
    "reduce_max": lambda rnn, row: fluid.layers.elementwise_add(row, fluid.layers.reduce_max(row, dim=0)),
    "argmax": lambda rnn, row: fluid.layers.elementwise_add(row, fluid.layers.cast(fluid.layers.argmax(row, axis=0), "float32")),
    "concat": lambda rnn, row: fluid.layers.slice(fluid.layers.concat([row, row], axis=0), axes=[0], starts=[1], ends=[2]),
    "reshape": lambda rnn, row: fluid.layers.reshape(row, [1, -1]),
    "batch_norm": lambda rnn, row: fluid.layers.batch_norm(row),
    "shape": lambda rnn, row: fluid.layers.elementwise_add(
        row, fluid.layers.cast(fluid.layers.reduce_sum(fluid.layers.shape(row)), "float32")
    ),
    "fill_constant_batch_size_like": lambda rnn, row: fluid.layers.elementwise_add(
        row, fluid.layers.reduce_sum(fluid.layers.fill_constant_batch_size_like(row, [-1, 3], "float32", 1.0), dim=0)
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_steps_of_sequences_that_would_mix_their_rows_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="each row of a step of 'DynamicRNN' to be of its own sequence alone but") as caught:
        over_steps(MIXING[name], "x", feed={"x": sequences_of([2, 3])})
    assert "test_fluid.py" in str(caught.value)


def test_a_step_input_whose_sequences_have_other_lengths_is_told_of() -> None:
    add = lambda rnn, *rows: fluid.layers.elementwise_add(*rows)  # noqa: E731
    for lengths in ([3, 2], [2, 2], [5]):
        with pytest.raises(RuntimeError, match=rf"sequences of 'y' .* those of 'x', \[2, 3\], but theirs are {re.escape(str(lengths))}"):
            over_steps(add, "x", "y", feed={"x": sequences_of([2, 3]), "y": sequences_of(lengths)})
    made = over_steps(add, "x", "y", feed={"x": sequences_of([2, 3]), "y": sequences_of([2, 3], 1)})
    assert made.recursive_sequence_lengths() == [[2, 3]]
    np.testing.assert_allclose(np.array(made), np.array(sequences_of([2, 3])) + np.array(sequences_of([2, 3], 1)), rtol=1e-6)


def test_a_static_input_of_a_net_over_sequences_has_a_row_for_each() -> None:
    def with_mean(rnn, row):
        return fluid.layers.elementwise_add(row, fluid.layers.reduce_mean(rnn.static_input(fluid.layers.data("s", [3])), dim=[0]))

    def unsaid(rnn, row):
        return fluid.layers.elementwise_add(row, fluid.layers.data("s", [3]))

    for body, why in ((with_mean, "several sequences together"), (unsaid, "which static_input brings in")):
        with pytest.raises(ValueError, match=why):
            over_steps(body, "x", feed={"x": sequences_of([2, 3]), "s": np.ones((2, 3), "float32")})


ATTENDING = {
    "reduce_mean": lambda row, seen, other: fluid.layers.elementwise_add(row, fluid.layers.reduce_mean(seen, dim=[0])),
    "elementwise_add": lambda row, seen, other: fluid.layers.sequence_pool(fluid.layers.elementwise_add(seen, other), "sum"),
    "sequence_pool": lambda row, seen, other: fluid.layers.sequence_pool(fluid.layers.softmax(seen, axis=0), "sum"),
    "sequence_expand": lambda row, seen, other: fluid.layers.sequence_pool(fluid.layers.sequence_expand(other, seen), "sum"),
    "output": lambda row, seen, other: seen,
}


@pytest.mark.parametrize("name", ATTENDING)
def test_rows_of_sequences_that_a_block_sees_are_kept_apart_too(name: str) -> None:
    def body(rnn, row):
        seen, other = (rnn.static_input(fluid.layers.data(n, [3], lod_level=1)) for n in ("seen", "other"))
        return ATTENDING[name](row, seen, other)

    with pytest.raises(ValueError, match="DynamicRNN|rows that are no sequences"):
        over_steps(body, "x", feed={"x": sequences_of([2, 3]), "seen": sequences_of([1, 4]), "other": sequences_of([2, 3])})


def test_what_a_step_gives_may_come_from_outside() -> None:
    def body(rnn, row):
        return rnn.static_input(fluid.layers.data("s", [3]))

    still = np.arange(6, dtype="float32").reshape(2, 3)
    made = over_steps(body, "x", feed={"x": sequences_of([2, 3]), "s": still})
    np.testing.assert_array_equal(np.array(made), np.repeat(still, [2, 3], 0))


def test_sequences_that_a_block_sees_are_as_many_as_its_own() -> None:
    def body(rnn, row):
        seen = rnn.static_input(fluid.layers.data("seen", [3], lod_level=1))
        return fluid.layers.elementwise_add(row, fluid.layers.sequence_pool(seen, "sum"))

    with pytest.raises((ValueError, RuntimeError), match="seen|sequences|broadcast"):
        over_steps(body, "x", feed={"x": sequences_of([2, 3]), "seen": sequences_of([1, 4, 2])})


def test_blocks_know_the_levels_of_what_they_only_read() -> None:
    layers, main = fluid.layers, fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = layers.data("x", [3], lod_level=1)
        i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
        total = layers.scale(layers.sequence_pool(x, "sum"), 0.0)
        again = layers.less_than(i, n)
        loop = layers.While(again)
        with loop.block():
            layers.assign(layers.elementwise_add(total, layers.sequence_pool(x, "sum")), total)
            layers.increment(i)
            layers.less_than(i, n, cond=again)
        given = sequences_of([2, 3])
        (made,) = fluid.Executor(fluid.CPUPlace()).run(main, feed={"x": given}, fetch_list=[total])
    np.testing.assert_allclose(made, 3 * np.add.reduceat(np.array(given), [0, 2]), rtol=1e-5)


def test_elements_of_an_array_are_of_the_same_sequences() -> None:
    layers, main = fluid.layers, fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, y = (layers.data(name, [3], lod_level=1) for name in "xy")
        i = layers.fill_constant([1], "int64", 0)
        array = layers.array_write(x, i)
        layers.array_write(y, layers.increment(i, in_place=False), array)
        feed = {"x": sequences_of([2, 3]), "y": sequences_of([3, 2])}
        with pytest.raises(RuntimeError, match=r"elements of the same sequences in the tensor array .* those of 'y'"):
            fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=[layers.array_read(array, i)])


def test_a_sequence_that_has_ended_makes_no_gradient_of_values_that_it_never_had() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        layers = fluid.layers
        x = layers.data("x", [3], lod_level=1)
        x.stop_gradient = False
        rnn = layers.DynamicRNN()
        with rnn.block():
            row, left = rnn.step_input(x), rnn.memory(shape=[3], value=1.0)
            now = layers.elementwise_sub(left, row)  # is 0 after the last row of the first sequence
            rnn.update_memory(left, now)
            rnn.output(layers.sqrt(layers.elementwise_add(now, row)))
        fluid.backward.append_backward(layers.reduce_sum(rnn()))
        x_of = np.full((4, 3), 0.125, "float32")
        x_of[0] = 1.0
        feed = {"x": fluid.create_lod_tensor(x_of, [[1, 3]], fluid.CPUPlace())}
        (gradient,) = fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=["x@GRAD"], return_numpy=False)
        assert np.isfinite(np.array(gradient)).all()


NO_GRADIENT = {
    "a running mean": lambda x, y: fluid.layers.batch_norm(x, moving_mean_name="y"),
    "soft labels of a sigmoid": fluid.layers.sigmoid_cross_entropy_with_logits,
    "soft labels of a softmax": lambda x, y: fluid.layers.softmax_with_cross_entropy(x, y, soft_label=True),
    "soft labels": lambda x, y: fluid.layers.cross_entropy(x, y, soft_label=True),
    "the target of a divergence": fluid.layers.kldiv_loss,
    "weights of a smooth loss": lambda x, y: fluid.layers.smooth_l1(x, x * 2, inside_weight=y, outside_weight=y),
    "a shape to expand to": fluid.layers.expand_as,
}


@pytest.mark.parametrize("what", list(NO_GRADIENT))
def test_what_has_no_gradient_in_paddle_has_none(what):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [3, 4, 4])
        x.stop_gradient = False
        y = None if what == "a running mean" else fluid.layers.data("y", [3, 4, 4])
        out = NO_GRADIENT[what](x, y)
        y = fluid.default_main_program().global_block().var("y")
        y.stop_gradient = False
        assert [g if g is None else g.name for g in fluid.gradients([out], [y, x])] == [None, "x@GRAD"]


def test_a_profile_by_the_library_of_a_gpu_is_refused_with_another_way():
    with pytest.raises(NotImplementedError, match=r"expected paddle\.profile, or nsys around the program"):
        fluid.profiler.cuda_profiler("out.txt")
def test_steps_that_hand_nothing_on_have_buffers_of_free_sizes() -> None:
    def product(rnn, row):
        layers = fluid.layers
        still = rnn.static_input(layers.data("s", [3]))
        made = layers.matmul(layers.reshape(still, [-1, 3, 1]), layers.reshape(row, [-1, 1, 3]))
        pair = layers.matmul(made, layers.reshape(row, [-1, 3, 1]))
        return layers.elementwise_add(layers.elementwise_add(layers.reshape(pair, [-1, 3]), row), still)

    for lengths in ([2, 3], [1, 4, 2]):
        x, s = sequences_of(lengths), np.random.RandomState(1).rand(len(lengths), 3).astype("float32")
        made = np.array(over_steps(product, "x", feed={"x": x, "s": s}))
        rows, still = np.array(x), np.repeat(s, lengths, 0)
        np.testing.assert_allclose(made, still * (rows * rows).sum(1, keepdims=True) + rows + still, rtol=1e-5)


def test_arrays_of_rows_by_steps_are_no_tensors() -> None:
    layers, tables = fluid.layers, fluid.layers.control_flow
    uses = {
        "'reduce_sum' but 'lod_tensor_to_array": lambda array, row: layers.reduce_sum(array),
        "to fetch but 'lod_tensor_to_array": lambda array, row: array,
        "elements of the same sequences": lambda array, row: layers.array_write(row, layers.fill_constant([1], "int64", 0), array),
        "the rank table that the array .* was made with": lambda array, row: tables.array_to_lod_tensor(
            array, tables.lod_rank_table(layers.data("y", [3], lod_level=1))
        ),
    }
    feed = {"x": sequences_of([2, 3]), "y": sequences_of([4, 1]), "row": np.ones((2, 3), "float32")}
    for why, use in uses.items():
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            x = layers.data("x", [3], lod_level=1)
            made = use(tables.lod_tensor_to_array(x, tables.lod_rank_table(x)), layers.data("row", [3]))
            known = {name: value for name, value in feed.items() if main.global_block().has_var(name)}
            with pytest.raises(RuntimeError, match=why):
                fluid.Executor(fluid.CPUPlace()).run(main, feed=known, fetch_list=[made], return_numpy=False)


def test_sequences_that_do_not_make_up_whole_rows_are_an_error():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [4], lod_level=1)
        sums = fluid.layers.sequence_pool(fluid.layers.sequence_reshape(x, 8), "sum")
        rows = np.arange(24, dtype="float32").reshape(6, 4)
        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed={"x": fluid.create_lod_tensor(rows, [[2, 4]], fluid.CPUPlace())}, fetch_list=[sums])
        np.testing.assert_array_equal(found, [np.arange(8), np.arange(8, 16) + np.arange(16, 24)])
        with pytest.raises(RuntimeError, match=r"make up rows of 8 but they have \[3, 3\] rows of 4"):
            exe.run(feed={"x": fluid.create_lod_tensor(rows, [[3, 3]], fluid.CPUPlace())}, fetch_list=[sums])


def test_a_declarative_function_of_variables_becomes_part_of_their_program():
    @fluid.dygraph.declarative
    def doubled(x):
        return x * 2.0 + 1.0

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        made = doubled(fluid.layers.data("x", [3]))
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[made])
        np.testing.assert_array_equal(found, np.full((2, 3), 3.0))


def test_the_first_operator_of_a_process_has_a_gradient_beside_other_functions_of_python():
    """Operators are numbered from 0 on, and 0 is a number."""
    script = """if True:
        import numpy as np
        import polyreme.fluid as fluid
        x = fluid.layers.data("x", [4])
        x.stop_gradient = False
        y = fluid.default_main_program().current_block().create_var(name="y", dtype="float32", shape=[-1, 4])
        fluid.layers.py_func(lambda a: np.tanh(np.array(a)), x, y, backward_func=lambda a, b, g: np.array(g) * (1 - np.array(b) ** 2))
        slope = fluid.gradients(fluid.layers.mean(fluid.layers.Print(y, first_n=0)), x)
        values = np.linspace(-1, 1, 8).reshape(2, 4).astype("float32")
        (found,) = fluid.Executor().run(feed={"x": values}, fetch_list=slope)
        np.testing.assert_allclose(found, (1 - np.tanh(values) ** 2) / 8, rtol=1e-5)
    """
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
