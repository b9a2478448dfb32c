"""Branches and loops in static Programs: values and gradients are those of PaddlePaddle 3.3.1 in dygraph mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.jit.traced import TraceError
from tests.frontend.static_mode import static_mode

# For seeds 0 to 3: scale, rounds, rows; the first four numbers of the loss, y, and the gradients of x, w and v, as Paddle gives them.
PADDLE: list[tuple[int, int, int, list[list[float]]]] = [
    (
        1, 0, 3,
        [[0.7989], [-0.1366, 0.4018, 0.9402, 1.4786], [-0.2012, -0.0222, 0.1567, 0.3356], [-0.3617, -0.1541, 0.0535, 0.2611],
         [0.0, 0.0, 0.0, 0.0]],
    ),
    (
        1, 3, 2,
        [[0.1381], [-0.6417, -0.2448, -0.2173, -0.1108], [0.0198, 0.0104, 0.0078, 0.0033], [-0.1848, -0.0252, -0.1288, -0.021],
         [0.4311, 0.0504, 0.2146, 0.028]],
    ),
    (
        -2, 5, 1,
        [[0.0485], [-0.3303, -0.1365, 0.0573, 0.2511], [0.092, 0.0603, 0.0287, -0.003], [-0.1376, -0.0569, 0.0239, 0.1047],
         [-0.8256, -0.3412, 0.1433, 0.6278]],
    ),
    (
        1, 4, 3,
        [[0.2292], [0.0733, 0.347, 0.437, 0.7032], [-0.0019, -0.0097, -0.0106, -0.0139], [0.0417, 0.0519, 0.034, 0.0141],
         [0.2109, 0.3421, 0.459, 0.5266]],
    ),
]  # fmt: skip


@pytest.fixture
def programs() -> Any:
    with static_mode() as both:
        yield both


def test_values_and_gradients_are_those_of_paddle(programs: Any) -> None:
    x, n = static.data("x", [None, 4], "float32"), static.data("n", [1], "int64")
    x.stop_gradient = False
    assign = paddle.nn.initializer.Assign(np.arange(16).reshape(4, 4).astype("float32") * 0.1 - 0.7)
    w = static.create_parameter([4, 4], "float32", name="w", default_initializer=assign)
    v = static.create_parameter([4], "float32", name="v", default_initializer=paddle.nn.initializer.Constant(0.3))
    y = static.nn.cond(x.mean() > 0, lambda: paddle.matmul(x, w), lambda: x * v)

    def body(i: Any, y: Any) -> Any:
        return [i + 1, static.nn.cond(y.sum() > 3, lambda: paddle.tanh(y * w[0]), lambda: y + v)]

    i, y = static.nn.while_loop(lambda i, y: i < n, body, [paddle.zeros([1], "int64"), y])
    loss = (y * y).mean()
    gradients = static.gradients(loss, [x, w, v])
    executor = static.Executor()
    executor.run(programs[1])
    for seed, (scale, rounds, rows, wanted) in enumerate(PADDLE):
        feed = {"x": (np.random.RandomState(seed).randn(rows, 4) * scale).astype("float32"), "n": np.array([rounds])}
        found = executor.run(programs[0], feed, [loss, y, *gradients, i])
        assert found.pop().tolist() == [rounds]
        for array, numbers in zip(found, wanted, strict=True):
            np.testing.assert_allclose(array.ravel()[:4], numbers, atol=1e-4)


def test_bodies_make_parameters_and_write_variables(programs: Any) -> None:
    x = static.data("x", [None, 3], "float32")
    count = static.create_global_var([1], 0.0, "float32", persistable=True, name="count")

    def first() -> Any:
        paddle.assign(count + 1, count)
        return static.nn.fc(x, 2, bias_attr=False)

    y = static.nn.cond(x.sum() > 0, first, lambda: x[:, :2] * 2)
    loss = y.mean()
    paddle.optimizer.SGD(0.5).minimize(loss)
    executor = static.Executor()
    executor.run(programs[1])
    (name,) = [p.name for p in programs[0].all_parameters()]
    weight = static.global_scope().find_var(name).get_tensor().__array__().copy()
    for sign, runs in ((1, 1.0), (-1, 1.0), (1, 2.0)):
        data = np.full((2, 3), sign, np.float32)
        found, counted = executor.run(programs[0], {"x": data}, [y, count])
        np.testing.assert_allclose(found, data @ weight if sign > 0 else data[:, :2] * 2, rtol=1e-5)
        assert counted.tolist() == [runs]
        weight = static.global_scope().find_var(name).get_tensor().__array__().copy()


def test_sizes_differ_and_grow_in_a_program(programs: Any) -> None:
    x, n = static.data("x", [None, 2], "float32"), static.data("n", [], "int64")
    y = static.nn.cond(x.sum() > 0, lambda: x[:1], lambda: paddle.concat([x, x]))
    _, z = static.nn.while_loop(lambda i, z: i < n, lambda i, z: [i + 1, paddle.concat([z, z[:1] + 1])], [paddle.zeros([], "int64"), y])
    executor = static.Executor()
    for sign, rounds in ((1, 0), (-1, 2)):
        data = np.full((3, 2), sign, np.float32)
        (found,) = executor.run(programs[0], {"x": data, "n": np.array(rounds)}, [z])
        start = data[:1] if sign > 0 else np.concatenate([data, data])
        assert found.tolist() == [*start.tolist(), *[(start[0] + 1).tolist()] * rounds]


def test_copies_of_a_program_and_saved_ones_have_their_branches(programs: Any, tmp_path: Any) -> None:
    x = static.data("x", [None, 2], "float32")
    y = static.nn.switch_case(x.sum().astype("int64"), {0: lambda: x + 1, 2: lambda: x * 3}, default=lambda: -x)
    executor = static.Executor()
    static.save_inference_model(str(tmp_path / "net"), [x], [y], executor, program=programs[0])
    loaded, _, fetches = static.load_inference_model(str(tmp_path / "net"), executor)
    for value, wanted in ((0, 1), (1, 3), (2, -2)):
        feed = {"x": np.full((1, 2), value, np.float32)}
        for program, fetch in ((programs[0], y), (programs[0].clone(for_test=True), y.name), (loaded, fetches[0])):
            assert executor.run(program, feed, [fetch])[0].tolist() == [[wanted] * 2]


def test_random_numbers_in_a_body_are_refused(programs: Any) -> None:
    x = static.data("x", [2], "float32")
    with pytest.raises(TraceError, match="random numbers in the bodies of branches and loops of static Programs are not supported yet"):
        static.nn.cond(x.sum() > 0, lambda: paddle.rand([2]), lambda: x)


def test_bodies_of_a_program_are_in_static_mode_too():
    found = []

    def body(*given):
        found.append(paddle.in_dynamic_mode())
        return given[0] + 1 if given else paddle.ones([1])

    with static_mode():
        x = static.data("x", [1])
        static.nn.cond(x > 0.0, body, body)
        static.nn.while_loop(lambda i: i < 3, body, [paddle.full([1], 0, "int64")])
    assert found and not any(found)
