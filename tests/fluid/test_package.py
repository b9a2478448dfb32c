"""`paddle.fluid`: its names, what goes into a program and what is fetched, parameters, memory."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid
from polyreme.static.lod.tensor import LoDTensor
from tests.fluid.running import PLACE, run, start

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
    (found,) = run([y], {"x": np.array([[1, 3]], "float32")})
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


def test_a_profile_by_the_library_of_a_gpu_is_refused_with_another_way():
    with pytest.raises(NotImplementedError, match=r"expected paddle\.profile, or nsys around the program"):
        fluid.profiler.cuda_profiler("out.txt")


# --- inputs, and what is fetched


@pytest.mark.parametrize("shape, expected", [([4], [-1, 4]), ([-1, 4], [-1, 4]), ([None, 4], [-1, 4]), ([3, -1], [3, -1])])
def test_data_puts_the_batch_in_front_of_known_sizes(shape: Any, expected: list[int]) -> None:
    assert list(fluid.layers.data("x", shape).shape) == expected
    assert list(fluid.layers.data("y", [4], append_batch_size=False).shape) == [4] and list(fluid.data("z", [4]).shape) == [4]


def test_wrong_feeds_name_the_variable_and_both_shapes() -> None:
    y = fluid.layers.mean(fluid.data("x", [None, 4]))
    with pytest.raises(ValueError, match=r"'x': expected \[-1, 4\] but got \[2, 3\]"):
        run([y], {"x": np.zeros((2, 3), "float32")})
    with pytest.raises(ValueError, match="'x': expected float32 but got float64"):
        run([y], {"x": np.zeros((2, 4))})
    with pytest.raises(RuntimeError, match="expected a feed for 'x'"):
        run([y])
    with pytest.raises(TypeError, match="feed requires dict"):
        run([y], "x")


def test_one_element_is_an_array_and_a_number() -> None:
    (found,) = run([fluid.layers.mean(fluid.layers.data("x", [4]))], {"x": np.ones((2, 4), "float32")})
    assert isinstance(found, np.ndarray) and found.shape == (1,) and found[0] == float(found) == 1.0 and f"{found[0]:.1f}" == "1.0"


def test_all_operators_run_and_persistable_variables_stay() -> None:
    counter = fluid.layers.create_global_var([1], 0, "int64", persistable=True, name="counter")
    fluid.layers.increment(counter)
    other = fluid.layers.fill_constant([1], "int64", 7)
    start()
    for _ in range(3):
        run([other])
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
    start()
    values = fluid.fetch_var(w.name)
    assert values.min() >= low and values.max() <= high and (low == high or values.std() > 0.2 * (high - low))


def test_a_bilinear_filter_interpolates() -> None:
    w = fluid.layers.create_parameter([1, 1, 4, 4], "float32", attr=fluid.initializer.Bilinear())
    start()
    assert np.allclose(fluid.fetch_var(w.name)[0, 0, 1], np.array([0.25, 0.75, 0.75, 0.25]) * 0.75)


# --- memory


def test_memory_optimize_tells_what_sharing_saves(capsys: pytest.CaptureFixture[str]) -> None:
    hidden = fluid.layers.data("x", [16])
    for _ in range(4):
        hidden = fluid.layers.softmax(fluid.layers.fc(hidden, 16, act="relu"))
    main = fluid.default_main_program()
    found = fluid.memory_optimize(main, {hidden}, print_log=True)
    assert found is not None and 0 < found.shared < found.apart and str(found) in capsys.readouterr().out
    start()
    feed = {"x": np.ones((2, 16), "float32")}
    (before,) = run([hidden], feed)
    fluid.release_memory(main, [hidden])
    assert sum(op.type == "delete_var" for op in main.global_block().ops) > 3
    assert (run([hidden], feed)[0] == before).all()
