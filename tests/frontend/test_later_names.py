"""Names that came late: values and gradients are those of Paddle 3.3.1, eagerly, compiled and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from tests.frontend.window_cases import CASES, FILE, given, result

F = nn.functional
X = np.array([[0.1, 0.9, 0.0], [0.5, 0.5, 0.2]], "float32")
# By axis, after `seed(7)`: the samples, and the gradients of their sum weighted by 0 to 5, as Paddle has them.
SAMPLES = {
    -1: (
        [[0.001249726, 0.62463135, 0.37411898], [0.017616335, 0.061424423, 0.92095923]],
        [[-0.0017157105, -0.23290582, 0.23462152], [-0.033529934, -0.055487335, 0.08901697]],
    ),
    0: (
        [[0.014345941, 0.67599303, 0.07693221], [0.98565406, 0.32400694, 0.92306787]],
        [[-0.042420406, -0.65707934, -0.21304095], [0.042420473, 0.65707934, 0.21304068]],
    ),
}
WAYS = [lambda function: function, paddle.jit.to_static, lambda function: paddle.jit.to_static(function, full_graph=True)]


@pytest.mark.parametrize("way", WAYS, ids=["eager", "compiled", "full_graph"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", SAMPLES)
def test_gumbel_softmax_draws_as_paddle_does(axis: int, dtype: str, way: Any) -> None:
    soft = way(lambda x: F.gumbel_softmax(x, 0.5, axis=axis))
    hard = way(lambda x: F.gumbel_softmax(x, 0.5, True, axis))
    values, gradients = SAMPLES[axis]
    weights = paddle.arange(6).reshape([2, 3]).astype(dtype)
    for function in (soft, hard):
        x = paddle.to_tensor(X.astype(dtype))
        x.stop_gradient = False
        paddle.seed(7)
        made = function(x)
        (made * weights).sum().backward()
        # Paddle forgets to divide by the temperature, and those of hard samples, which its documentation has as those of soft ones, are 0.
        np.testing.assert_allclose(x.grad.numpy() * 0.5, gradients, rtol=2e-5, atol=1e-6)
        if function is soft:
            np.testing.assert_allclose(made.numpy(), values, rtol=1e-5)
        else:
            assert np.array_equal(made.numpy(), np.array(values) == np.max(values, axis, keepdims=True))


class Scaled(nn.Layer):
    """Uses parameters by name."""

    def __init__(self) -> None:
        super().__init__()
        start = nn.initializer.Assign(np.arange(4, dtype="float32").reshape(2, 2))
        made = {f"w{i}": paddle.create_parameter([2, 2], "float32", default_initializer=start) for i in range(2)}
        self.params = nn.ParameterDict(made)

    def forward(self, x: Any) -> Any:
        for key in self.params:
            x = x @ self.params[key]
        return x


def test_a_parameter_dict_holds_parameters_by_name(tmp_path: Path) -> None:
    net = Scaled()
    assert list(net.state_dict()) == ["params.w0", "params.w1"] and len(net.params) == 2 and list(net.params) == ["w0", "w1"]
    x = paddle.to_tensor([[1.0, 2.0]])
    compiled = paddle.jit.to_static(Scaled())
    for _ in range(2):
        assert compiled(x).tolist() == net(x).tolist() == [[14.0, 25.0]]
    net.params.update([("w2", paddle.create_parameter([2, 2], "float32"))])
    net.params["w1"] = paddle.create_parameter([2, 2], "float32", default_initializer=nn.initializer.Constant(1.0))
    assert list(net.params) == ["w0", "w1", "w2"] and net.params["w1"].tolist() == [[1.0, 1.0]] * 2
    other = nn.ParameterDict(net.params)
    assert other["w0"] is net.params["w0"] and len(other) == 3
    with pytest.raises(ValueError, match="pairs of a name and a parameter"):
        net.params.update([("a", 1, 2)])
    net = Scaled()
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 2], "float32")])
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "net"))(x).numpy(), net(x).numpy())


def drawn(seed: int, *shape: int) -> Any:
    return np.random.RandomState(seed).randn(*shape).astype("float32")


@pytest.mark.parametrize("compiled", [False, True])
def test_look_ahead_trains_as_under_paddle(compiled: bool) -> None:
    net = nn.Linear(3, 2)
    net.weight.set_value(drawn(0, 3, 2))
    net.bias.set_value(drawn(1, 2))
    optimizer = paddle.incubate.LookAhead(paddle.optimizer.Adam(0.1, parameters=net.parameters()), alpha=0.3, k=3)

    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    run = paddle.jit.to_static(step) if compiled else step
    losses = [float(run(paddle.to_tensor(drawn(i, 4, 3)))) for i in range(8)]
    assert losses == pytest.approx([18.42737, 8.9257, 6.03473, 7.18875, 0.45876, 8.3577, 15.34469, 6.07843], rel=1e-4)
    expected = [[1.4494644, 0.29804707], [0.8252881, 1.839051], [1.471462, -0.6058679]]
    np.testing.assert_allclose(net.weight.numpy(), expected, rtol=1e-5)
    assert len(optimizer.state_dict()) == 2 and optimizer.get_lr() == 0.3


def test_look_ahead_says_what_it_takes() -> None:
    inner = paddle.optimizer.SGD(0.1, parameters=nn.Linear(2, 2).parameters())
    with pytest.raises(ValueError, match="k to be a whole number"):
        paddle.incubate.LookAhead(inner, k=0)
    with pytest.raises(ValueError, match="alpha in"):
        paddle.incubate.LookAhead(inner, alpha=1.5)
    with pytest.raises(TypeError, match="an optimizer for inner_optimizer"):
        paddle.incubate.LookAhead(None)


@pytest.mark.parametrize("way", WAYS, ids=["eager", "compiled", "full_graph"])
@pytest.mark.parametrize("name", CASES)
def test_windows_go_back_to_images_as_under_paddle(name: str, way: Any) -> None:
    for found, expected in zip(result(paddle, name, way), json.loads(FILE.read_text())[name], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["fold_by_steps", "unpool_overlapping"])
def test_windows_that_go_back_to_images_are_saved(name: str, tmp_path: Path) -> None:
    case, shape = CASES[name]

    class Net(nn.Layer):
        def forward(self, x: Any) -> Any:
            return case(paddle, x)

    paddle.jit.save(Net(), str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, *shape[1:]], "float32")])
    x = paddle.to_tensor(np.concatenate([given(name)] * 3))
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "net"))(x).numpy(), case(paddle, x).numpy(), rtol=1e-6)


def test_layers_of_windows() -> None:
    x = paddle.to_tensor(np.arange(36, dtype="float32").reshape(1, 1, 6, 6))
    columns = nn.Unfold(3, strides=2, paddings=1)(x)
    counts = nn.Fold([6, 6], 3, strides=2, paddings=1)(nn.Unfold(3, strides=2, paddings=1)(paddle.ones_like(x)))
    assert (nn.Fold([6, 6], 3, strides=2, paddings=1)(columns) / counts).tolist() == x.tolist()
    assert str(nn.Fold([6, 6], 3)) == "Fold(kernel_size=3, dilation=1, padding=0, stride=1)"
    pooled, places = nn.MaxPool2D(2, return_mask=True)(x)
    unpooled = nn.MaxUnPool2D(2)(pooled, places)
    assert unpooled.shape == [1, 1, 6, 6] and float(unpooled.sum()) == float(pooled.sum()) and unpooled[0, 0, 1, 1] == 7
    assert nn.MaxUnPool2D(2, output_size=[1, 1, 7, 7])(pooled, places).shape == [1, 1, 7, 7]
    with pytest.raises(ValueError, match="output_size between"):
        nn.MaxUnPool2D(2, output_size=[9, 9])(pooled, places)
    with pytest.raises(ValueError, match="fold expected columns"):
        F.fold(columns, [4, 4], 3)
