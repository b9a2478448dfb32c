"""Functions of `paddle.static` for which no Paddle tells what is right: formulas, refusals, and what holds between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.ir.diagnostics import PolyremeError
from tests.frontend.static_mode import static_mode


@pytest.fixture(autouse=True)
def programs() -> Iterator[Any]:
    with static_mode() as both:
        yield both


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype("float32")


def started() -> static.Executor:
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor


@pytest.mark.parametrize(("sampler", "given"), [("uniform", None), ("log_uniform", None), ("custom_dist", [0.1, 0.2, 0.3, 0.4])])
def test_nce_is_its_formula(sampler: str, given: Any) -> None:
    x, label = static.data("x", [None, 3], "float32"), static.data("label", [None, 1], "int64")
    assign = paddle.nn.initializer.Assign
    w, b = numbers(4, 3), numbers(4, 1)
    # With all of the noise on one class, what is drawn is known.
    distribution = None if given is None else [0.0, 0.0, 1.0, 0.0]
    loss = static.nn.nce(
        x, label, 4, param_attr=assign(w), bias_attr=assign(b), num_neg_samples=5, sampler=sampler, custom_dist=distribution, seed=3
    )
    feed = {"x": numbers(6, 3), "label": np.array([[0], [1], [2], [3], [0], [1]])}
    (found,) = started().run(feed=feed, fetch_list=[loss])
    assert found.shape == (6, 1) and np.isfinite(found).all() and (found > 0).all()
    if distribution is not None:
        chance = 1 / (1 + np.exp(-(feed["x"] @ w.T + b[:, 0])))
        true = np.take_along_axis(chance, feed["label"], 1)[:, 0]
        noise = np.array(distribution)[feed["label"][:, 0]] * 5
        expected = -np.log(true / (true + noise)) - 5 * np.log(5 / (chance[:, 2] + 5))
        np.testing.assert_allclose(found[:, 0], expected / 6, rtol=1e-4)  # over the number of draws and one, as in Paddle


def test_nce_learns_which_classes_come() -> None:
    x, label = static.data("x", [None, 3], "float32"), static.data("label", [None, 1], "int64")
    loss = static.nn.nce(x, label, 8, num_neg_samples=4, sample_weight=None).mean()
    paddle.optimizer.Adam(0.1).minimize(loss)
    paddle.seed(1)
    executor = started()
    feed = {"x": numbers(32, 3), "label": (numbers(32, 1, seed=2) > 0).astype("int64")}
    losses = [executor.run(feed=feed, fetch_list=[loss])[0] for _ in range(40)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_wrong_samplers_are_refused() -> None:
    x, label = static.data("x", [None, 3], "float32"), static.data("label", [None, 1], "int64")
    with pytest.raises(ValueError, match="sampler"):
        static.nn.nce(x, label, 4, sampler="other")
    with pytest.raises(ValueError, match="4 probabilities"):
        static.nn.nce(x, label, 4, sampler="custom_dist", custom_dist=[1.0])


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_the_weight_of_a_norm_has_the_gradients_of_its_parts(dim: int | None) -> None:
    v = numbers(3, 4)
    attr = static.WeightNormParamAttr(dim, name="w", initializer=paddle.nn.initializer.Assign(v))
    x = static.data("x", [None, 3], "float32")
    y = static.nn.fc(x, 4, weight_attr=attr, bias_attr=False)
    pairs = dict(static.append_backward((y * y).sum()))
    assert sorted(p.name for p in pairs) == ["w_g", "w_v"]
    fetched = [y, *(pairs[static.default_main_program().global_block().var(name)] for name in ("w_g", "w_v"))]
    made, dg, dv = started().run(feed={"x": numbers(2, 3)}, fetch_list=fetched)
    np.testing.assert_allclose(made, numbers(2, 3) @ v, rtol=1e-5)
    axes = tuple(i for i in range(2) if i != dim)
    norm = np.sqrt((v * v).sum(axes, keepdims=True))
    dw = numbers(2, 3).T @ (2 * numbers(2, 3) @ v)
    np.testing.assert_allclose(dg, (dw * v / norm).sum(axes, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dv, dw - v * (dw * v).sum(axes, keepdims=True) / norm**2, rtol=1e-4, atol=1e-5)


def test_averages_start_with_a_smaller_decay_when_steps_are_counted() -> None:
    x = static.data("x", [None, 2], "float32")
    y = static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(1.0)), bias_attr=False)
    steps = static.create_global_var([1], 2.0, "float32", persistable=True)
    paddle.optimizer.SGD(0.5).minimize(y.mean())
    average = static.ExponentialMovingAverage(0.999, thres_steps=steps)
    average.update()
    executor = started()
    weights = []
    for _ in range(3):
        executor.run(feed={"x": np.ones([1, 2], "float32")})
        weights.append(np.asarray(static.global_scope().find_var("w").get_tensor()).copy())
    decay = 3 / 12
    expected = sum((1 - decay) * decay ** (2 - i) * w for i, w in enumerate(weights)) / (1 - decay**3)
    with average.apply(executor):
        np.testing.assert_allclose(static.global_scope().find_var("w").get_tensor(), expected, rtol=1e-5)
    np.testing.assert_allclose(static.global_scope().find_var("w").get_tensor(), weights[-1])


def test_print_says_what_is_asked(capfd: Any) -> None:
    x = static.data("x", [None, 2], "float32")
    x.stop_gradient = False
    y = static.Print(x * 2, message="hidden", summarize=3, print_tensor_lod=False, print_tensor_layout=False)
    z = static.Print(y + 1, first_n=1, print_phase="forward", print_tensor_name=False)
    (slope,) = static.gradients([z.sum()], [x])
    executor = static.Executor()
    for _ in range(2):
        executor.run(feed={"x": np.array([[1, 2], [3, 4]], "float32")}, fetch_list=[slope])
    said = capfd.readouterr().out
    assert said.count("  - message: hidden\n") == 4 and said.count("@GRAD") == 2
    assert said.count("  - data: [2.000000 4.000000 6.000000]\n") == 2
    assert said.count("  - data: [3.000000 5.000000 7.000000 9.000000]\n") == 1
    assert "  - shape: [2, 2]\n  - dtype: float32\n" in said
    with pytest.raises(ValueError, match="print_phase"):
        static.Print(x, print_phase="sideways")


def test_arrays_in_branches_and_nested_loops() -> None:
    x, n = static.data("x", [2], "float32"), static.data("n", [1], "int64")
    items = paddle.tensor.create_array("float32")
    zero = paddle.zeros([1], "int64")

    def inner(j: Any) -> Any:
        paddle.tensor.array_write(x + j.astype("float32"), paddle.tensor.array_length(items), items)
        return [j + 1]

    def outer(i: Any) -> Any:
        static.nn.while_loop(lambda j: j < i, inner, [zero])
        static.nn.cond(i == 2, lambda: paddle.tensor.array_write(x * 0, zero, items) * 0, lambda: paddle.zeros([1, 2]))
        return [i + 1]

    static.nn.while_loop(lambda i: i < n, outer, [zero])
    count = paddle.tensor.array_length(items)
    both = [count, paddle.tensor.array_read(items, zero), paddle.tensor.array_read(items, count - 1)]
    executor = static.Executor()
    found = [[v.tolist() for v in executor.run(feed={"x": np.ones(2, "float32"), "n": np.array([k])}, fetch_list=both)] for k in (2, 4)]
    assert found == [[[1], [1.0, 1.0], [1.0, 1.0]], [[6], [0.0, 0.0], [3.0, 3.0]]]


@pytest.mark.parametrize("reads", [False, True])
def test_gradients_of_arrays_that_grow_in_a_loop(reads: bool) -> None:
    x, n = static.data("x", [None, 2], "float32"), static.data("n", [1], "int64")
    x.stop_gradient = False
    zero = paddle.zeros([1], "int64")
    items = paddle.tensor.array_write(x, zero) if reads else paddle.tensor.create_array("float32")

    def body(i: Any, y: Any) -> Any:
        now = paddle.tensor.array_read(items, i - 1) if reads else y
        paddle.tensor.array_write(now * 2, i, items)
        return [i + 1, y + x]

    static.nn.while_loop(lambda i, y: i < n, body, [zero + 1 if reads else zero, x])
    count = paddle.tensor.array_length(items)
    last = paddle.tensor.array_read(items, count - 1)
    (slope,) = static.gradients([(last * last).sum()], [x])
    executor = static.Executor()
    for rounds in (3, 2):
        feed = {"x": numbers(2, 2), "n": np.array([rounds])}
        length, found, dx = executor.run(feed=feed, fetch_list=[count, last, slope])
        factor = 2 ** (rounds - 1) if reads else 2 * rounds
        assert length.tolist() == [rounds]
        np.testing.assert_allclose(found, feed["x"] * factor, rtol=1e-6)
        np.testing.assert_allclose(dx, 2 * factor**2 * feed["x"], rtol=1e-5)


def test_arrays_are_lists_in_dygraph_mode() -> None:
    paddle.disable_static()
    items = paddle.tensor.create_array("float32")
    one = paddle.to_tensor([1.0, 2.0])
    paddle.tensor.array_write(one, paddle.to_tensor([0]), items)
    paddle.tensor.array_write(one * 2, paddle.to_tensor([1]), items)
    assert paddle.tensor.array_length(items) == 2 and paddle.tensor.array_read(items, paddle.to_tensor([1])).tolist() == [2.0, 4.0]
    with pytest.raises(AssertionError, match="not be greater"):
        paddle.tensor.array_write(one, paddle.to_tensor([5]), items)
    with pytest.raises(IndexError, match="one of 2"):
        paddle.tensor.array_read(items, paddle.to_tensor([2]))


def test_elements_of_another_shape_are_refused() -> None:
    x, y = static.data("x", [2], "float32"), static.data("y", [3], "float32")
    zero = paddle.zeros([1], "int64")
    items = paddle.tensor.array_write(x, zero)
    with pytest.raises(PolyremeError, match="one dtype and shape"):
        paddle.tensor.array_write(y, zero, items)
    with pytest.raises(PolyremeError, match="nothing was written"):
        paddle.tensor.array_read(paddle.tensor.create_array("float32"), zero)
    with pytest.raises(PolyremeError, match="expected elements of float32"):
        paddle.tensor.array_write(x.astype("float64"), zero, items)


def test_refusals_name_the_way_out() -> None:
    x = static.data("x", [None, 2], "float32")
    with pytest.raises(ValueError, match="CPUPlace"):
        static.set_ipu_shard(lambda x: x)
    with pytest.raises(ValueError, match="expected 'ROC'"):
        static.auc(x, x, curve="PR")
    with pytest.raises(NotImplementedError, match="leave it out"):
        static.nn.sparse_embedding(x, [2, 2], entry=object())
    with pytest.raises(AttributeError, match="has no attribute"):
        paddle.tensor.no_such_function  # noqa: B018
    assert paddle.tensor.matmul is paddle.matmul


def test_a_bilinear_product_has_a_bias_unless_it_is_switched_off() -> None:
    x = static.data("x", [None, 3])
    with_bias = static.nn.bilinear_tensor_product(x, x, 2, param_attr=paddle.nn.initializer.Constant(0.0), bias_attr=None)
    static.nn.bilinear_tensor_product(x, x, 2, bias_attr=False)
    shapes = [list(p.shape) for p in static.default_main_program().all_parameters()]
    assert shapes == [[2, 3, 3], [1, 2], [2, 3, 3]]
    bias = static.default_main_program().all_parameters()[1]
    executor = started()
    bias.set_value(np.array([[1.0, 2.0]], "float32"))
    assert executor.run(feed={"x": numbers(1, 3)}, fetch_list=[with_bias])[0].tolist() == [[1, 2]]


def test_layers_make_no_parameters_of_integers() -> None:
    words = static.data("words", [None, 3], "int64")
    for layer in (static.nn.fc, paddle.fluid.layers.fc):
        with pytest.raises(TypeError, match=r"an input of floats .* but got int64; cast it to float32 first"):
            layer(words, 2)
    with pytest.raises(TypeError, match="expected an input of floats"):
        static.nn.conv2d(static.data("image", [None, 1, 4, 4], "int32"), 2, 3)
    assert not static.default_main_program().all_parameters()
