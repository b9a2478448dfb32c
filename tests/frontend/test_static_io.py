"""Saving and loading programs' values, and programs for inference."""

from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from tests.frontend.static_mode import static_mode

F = paddle.nn.functional


@pytest.fixture
def programs():
    with static_mode() as both:
        yield both


def rows(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("float32")


def trained(startup):
    x = static.data("x", [None, 4])
    scores = F.softmax(F.dropout(static.nn.fc(F.relu(static.nn.fc(x, 6)), 3), 0.5))
    label = static.data("label", [None, 1], "int64")
    paddle.optimizer.Adam(0.1).minimize(F.cross_entropy(scores, label))
    executor = static.Executor()
    executor.run(startup)
    executor.run(feed={"x": rows(5, 4), "label": np.array([[0], [1], [2], [1], [0]])})
    return executor, x, scores


def values(program):
    return {name: tensor.numpy() for name, tensor in program.state_dict().items()}


def test_saved_values_come_back(programs, tmp_path):
    main, startup = programs
    executor, _, _ = trained(startup)
    saved = values(main)
    assert {"fc_0.w_0", "fc_1.b_0_moment1_0", "learning_rate_0"} <= set(saved)
    static.save(main, str(tmp_path / "model"))
    executor.run(startup)
    assert not np.array_equal(values(main)["fc_0.w_0"], saved["fc_0.w_0"])
    static.load(main, str(tmp_path / "model"), executor)
    for name, array in values(main).items():
        np.testing.assert_array_equal(array, saved[name])
    state = static.load_program_state(str(tmp_path / "model"))
    assert state.keys() == saved.keys()
    state["fc_0.w_0"] = np.zeros_like(state["fc_0.w_0"])
    static.set_program_state(main, state)
    assert not values(main)["fc_0.w_0"].any()
    with pytest.warns(UserWarning, match="'fc_0.w' is not in the program"):
        static.set_program_state(main, {"fc_0.w": 1})


def test_loading_into_another_program_names_what_is_missing_or_does_not_fit(programs, tmp_path):
    main, startup = programs
    trained(startup)
    static.save(main, str(tmp_path / "model"))
    with static_mode() as (other, _):
        static.nn.fc(static.data("x", [None, 4]), 6, name="head")
        with pytest.raises(ValueError, match="expected 'head.w_0' in .*model.pdparams"):
            static.load(other, str(tmp_path / "model"))
    with static_mode() as (other, _):
        static.nn.fc(static.data("x", [None, 4]), 7)
        with pytest.raises(ValueError, match=r"float32\[4, 7\] for 'fc_0.w_0' but got float32\[4, 6\]"):
            static.load(other, str(tmp_path / "model"))
    with pytest.raises(AssertionError, match="folder/name"):
        static.save(main, str(tmp_path) + "/")


def test_a_saved_inference_model_runs_as_a_program_and_as_a_layer(programs, tmp_path):
    main, startup = programs
    executor, x, scores = trained(startup)
    prefix = str(tmp_path / "net")
    (expected,) = executor.run(main.clone(for_test=True), feed={"x": rows(3, 4), "label": np.zeros((3, 1), "int64")}, fetch_list=[scores])
    static.save_inference_model(prefix, [x], [scores], executor)
    with static_mode():
        program, feeds, fetches = static.load_inference_model(prefix, executor)
        assert feeds == ["x"] and len(fetches) == 1 and len(program.all_parameters()) == 4
        (found,) = executor.run(program, feed={"x": rows(3, 4)}, fetch_list=fetches)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    paddle.disable_static()
    layer = paddle.jit.load(prefix)
    np.testing.assert_allclose(layer(paddle.to_tensor(rows(3, 4))).numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("form", ["pir", "legacy"])
def test_a_model_that_paddle_saved_is_loaded_as_a_program(form):
    models = Path(__file__).parents[1] / "fixtures" / "models"
    arrays = np.load(models / "mlp.npz")
    with static_mode():
        executor = static.Executor()
        program, (feed,), fetches = static.load_inference_model(str(models / form / "mlp"), executor)
        (found,) = executor.run(program, feed={feed: arrays["x0"]}, fetch_list=fetches)
    np.testing.assert_allclose(found, arrays["y0"], rtol=1e-5, atol=1e-6)


def test_a_loaded_program_can_be_trained_on(programs, tmp_path):
    _, startup = programs
    executor, x, scores = trained(startup)
    static.save_inference_model(str(tmp_path / "net"), [x], [scores], executor)
    with static_mode() as (_, second_startup):
        program, _, fetches = static.load_inference_model(str(tmp_path / "net"), executor)
        with static.program_guard(program, second_startup):
            loss = paddle.mean(fetches[0][:, 0])
            paddle.optimizer.SGD(1.0).minimize(loss)
        executor.run(second_startup)
        losses = [float(executor.run(program, feed={"x": rows(3, 4)}, fetch_list=[loss])[0]) for _ in range(4)]
    assert losses[-1] < losses[0]


def test_what_cannot_be_saved_for_inference_is_refused(programs, tmp_path):
    main, startup = programs
    executor, x, scores = trained(startup)
    z = static.data("z", [None, 4])
    with pytest.raises(ValueError, match="do not on 'z'"):
        static.save_inference_model(str(tmp_path / "net"), [x, z], [scores], executor)
    with pytest.raises(TypeError, match="variables in feed_vars"):
        static.save_inference_model(str(tmp_path / "net"), ["x"], [scores], executor)
    out = main.global_block().create_var(name="out", shape=[-1, 3], dtype="float32")
    static.py_func(lambda v: v, scores, out)
    with pytest.raises(RuntimeError, match="without host operators"):
        static.save_inference_model(str(tmp_path / "net"), [x], [out], executor)
    with static.scope_guard(static.Scope()), pytest.raises(RuntimeError, match="run the startup program first"):
        static.save_inference_model(str(tmp_path / "net"), [x], [scores], executor)
    assert not list(tmp_path.iterdir())
