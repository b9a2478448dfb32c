"""Normalisation in every mode: what running statistics become, element types, second derivatives, errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme.dialects.nn import Standardize
from polyreme.ir.diagnostics import InferError

nn, F = paddle.nn, paddle.nn.functional
BATCHES = [(np.random.default_rng(i).normal(size=(4 + i, 4, 3, 3)) * 2 + 1).astype(np.float32) for i in range(3)]


class Net(nn.Layer):
    """Every kind of norm, after a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(4, 6, 3, padding=1)
        self.batch = nn.BatchNorm2D(6, momentum=0.7)
        self.instance = nn.InstanceNorm2D(6)
        self.group = nn.GroupNorm(3, 6)
        self.layer = nn.LayerNorm([3, 3])
        self.local = nn.LocalResponseNorm(3, alpha=0.1)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.batch(self.conv(x)))
        return self.local(self.layer(self.group(x) + self.instance(x)))


def net() -> Net:
    paddle.seed(3)
    return Net()


def state(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value.numpy() for name, value in model.state_dict().items()}


def trained(model: Any, run: Any) -> list[float]:
    """The losses of three steps with batches of different sizes."""
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    losses = []
    for batch in BATCHES:
        loss = (run(paddle.to_tensor(batch)) ** 3).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def eager() -> tuple[list[float], dict[str, Any], Any]:
    model = net()
    losses = trained(model, model)
    model.eval()
    return losses, state(model), model(paddle.to_tensor(BATCHES[0])).numpy()


def test_running_statistics_take_in_mean_and_plain_variance_of_a_batch_by_the_momentum() -> None:
    model = net()
    first = model.conv(paddle.to_tensor(BATCHES[0])).numpy()
    model(paddle.to_tensor(BATCHES[0]))
    np.testing.assert_allclose(model.batch._mean.numpy(), 0.3 * first.mean((0, 2, 3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.batch._variance.numpy(), 0.7 + 0.3 * first.var((0, 2, 3)), rtol=1e-5)


def test_a_compiled_step_takes_statistics_in_and_gives_them_back(eager: Any) -> None:
    model = net()
    compiled = paddle.jit.to_static(model, input_spec=[paddle.static.InputSpec([None, 4, 3, 3], "float32", "x")])
    np.testing.assert_allclose(trained(model, compiled), eager[0], rtol=1e-4)
    same(state(model), eager[1])
    model.eval()
    np.testing.assert_allclose(compiled(paddle.to_tensor(BATCHES[0])).numpy(), eager[2], rtol=1e-4, atol=1e-5)


def test_a_static_program_writes_them_in_place_and_its_clone_for_tests_reads_them(eager: Any) -> None:
    values = state(net())
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    paddle.enable_static()
    try:
        with paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
            x = paddle.static.data("x", [None, 4, 3, 3])
            model = Net()
            y = model(x)
            test = main.clone(for_test=True)
            loss = (y**3).mean()
            paddle.optimizer.SGD(0.1).minimize(loss)
            executor = paddle.static.Executor()
            executor.run(startup)
            for name, variable in model.state_dict().items():
                variable.set_value(values[name])
            losses = [float(executor.run(main, feed={"x": batch}, fetch_list=[loss])[0]) for batch in BATCHES]
            after = {name: np.array(scope.find_var(variable.name).array) for name, variable in model.state_dict().items()}
            (out,) = executor.run(test, feed={"x": BATCHES[0]}, fetch_list=[y.name])
            again = {name: np.array(scope.find_var(variable.name).array) for name, variable in model.state_dict().items()}
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(losses, eager[0], rtol=1e-4)
    same(after, eager[1])
    np.testing.assert_allclose(out, eager[2], rtol=1e-4, atol=1e-5)
    assert all((again[name] == after[name]).all() for name in after), "a program for tests moves nothing"
    (norm,) = (op for op in main.global_block().ops if op.type == "batch_norm")
    assert norm.output("MeanOut") == norm.input("Mean") and norm.output("VarianceOut") == norm.input("Variance")


def test_batches_of_one_or_none_move_nothing_when_the_batch_is_free() -> None:
    norm = nn.BatchNorm1D(3)
    compiled = paddle.jit.to_static(norm, input_spec=[paddle.static.InputSpec([None, 3], "float32", "x")])
    before = state(norm)
    for size in (1, 0):
        assert compiled(paddle.ones([size, 3])).shape == [size, 3]
        same(state(norm), before)
    compiled(paddle.full([2, 3], 5.0))
    np.testing.assert_allclose(norm._mean.numpy(), 0.5, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
        lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, training=True),
        lambda x, w, b, m, v: F.instance_norm(x, weight=w, bias=b),
        lambda x, w, b, m, v: F.group_norm(x, 2, weight=w, bias=b),
        lambda x, w, b, m, v: F.layer_norm(x.transpose([0, 2, 1]), 4, w, b).transpose([0, 2, 1]),
    ],
    ids=["by running statistics", "by the batch", "instances", "groups", "layers"],
)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_16_bit_floats_are_computed_in_float32_and_rounded_once(dtype: Any, call: Any) -> None:
    rng = np.random.default_rng(5)
    # Far from 0, where statistics of 16 bits would be useless; the sum of so many would overflow in float16.
    x = (rng.normal(size=(40, 4, 60)) + 30).astype(dtype)
    vectors = [
        paddle.to_tensor(v.astype(np.float32)) for v in (rng.normal(size=4), rng.normal(size=4), 30 + rng.normal(size=4), 1 + rng.random(4))
    ]
    half, wide = paddle.to_tensor(x, stop_gradient=False), paddle.to_tensor(x.astype(np.float32), stop_gradient=False)
    vectors[0].stop_gradient = False
    y, wanted = call(half, *vectors), call(wide, *vectors)
    assert y.dtype == half.dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(y.astype("float32").numpy(), wanted.numpy(), rtol=eps, atol=eps / 8)
    seed = rng.normal(size=x.shape).astype(np.float32)
    (dx, dw), (dx_wanted, dw_wanted) = (
        paddle.grad([out], [x, vectors[0]], [paddle.to_tensor(seed).astype(out.dtype)]) for out, x in ((y, half), (wanted, wide))
    )
    assert dx.dtype == half.dtype and dw.dtype == vectors[0].dtype
    np.testing.assert_allclose(dx.astype("float32").numpy(), dx_wanted.numpy(), rtol=4 * eps, atol=4 * eps)
    np.testing.assert_allclose(dw.numpy(), dw_wanted.numpy(), rtol=4 * eps, atol=eps * 50)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: F.layer_norm(x, 3, w[:3], w[:3]),
        lambda x, w: F.group_norm(x, 2, weight=w),
        lambda x, w: F.batch_norm(x, paddle.zeros([4], "float64"), paddle.ones([4], "float64"), w, training=True),
        lambda x, w: F.batch_norm(x, paddle.zeros([4], "float64"), paddle.to_tensor([0.5, 1.0, 1.5, 2.0], dtype="float64"), w),
        lambda x, w: F.local_response_norm(x, 3, 0.5),
    ],
    ids=["layers", "groups", "the batch", "running statistics", "channels"],
)
def test_gradients_have_gradients(call: Any) -> None:
    """Directional second derivatives against differences of first ones, of all operands together."""
    rng = np.random.default_rng(8)
    start = [rng.normal(size=(3, 4, 3)), rng.normal(size=4)]
    direction = [rng.normal(size=s.shape) for s in start]

    def first(step: float, create_graph: bool = False) -> Any:
        leaves = [paddle.to_tensor(s + step * d, stop_gradient=False) for s, d in zip(start, direction, strict=True)]
        grads = paddle.grad([(call(*leaves) ** 3).sum()], leaves, create_graph=create_graph, allow_unused=True)
        return leaves, [paddle.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True)]

    leaves, grads = first(0.0, True)
    along = sum((g * paddle.to_tensor(d)).sum() for g, d in zip(grads, direction, strict=True))
    second = paddle.grad([along], leaves, allow_unused=True)
    found = sum(float((s.numpy() * d).sum()) for s, d in zip(second, direction, strict=True) if s is not None)
    high, low = (first(step)[1] for step in (1e-5, -1e-5))
    wanted = sum(float(((a - b).numpy() * d).sum()) for a, b, d in zip(high, low, direction, strict=True)) / 2e-5
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_a_norm_is_one_op_for_its_value_and_one_for_its_gradient() -> None:
    from polyreme.compiled.inspection import model_module

    spec = [paddle.static.InputSpec([None, 8, 5], "float32", "x")]
    made = model_module(paddle.jit.to_static(lambda x: F.group_norm(x, 4), input_spec=spec), spec, True)
    assert [op.name for op in made.walk() if isinstance(op, Standardize)] == ["nn.standardize"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.batch_norm(x, paddle.zeros([3]), paddle.ones([4])), r"expected a mean of shape \[4\] but got \[3\]"),
        (
            lambda x: F.batch_norm(x, paddle.zeros([4]), paddle.ones([4]), paddle.ones([2]), training=True),
            r"expected a weight of shape \[4\] but got \[2\]",
        ),
        (lambda x: F.batch_norm(x, paddle.zeros([4], "float64"), paddle.ones([4])), "expected a mean of type f32 but got f64"),
        (lambda x: F.instance_norm(x.astype("int32")), "expected floats but got i32"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(InferError, match=message):
        call(paddle.ones([2, 4, 3]))


def test_aliases_are_taken_once() -> None:
    x = paddle.ones([2, 4])
    with pytest.raises(ValueError, match="both 'epsilon' and its alias 'eps'"):
        F.layer_norm(x, 4, eps=1e-5, epsilon=1e-5)
    with pytest.raises(TypeError, match="multiple values for argument 'weight'"):
        F.group_norm(x, 2, None, weight=None)


def test_weights_that_are_reparametrised_train_when_compiled() -> None:
    x = paddle.to_tensor(BATCHES[0].reshape(-1, 4))
    for reparametrise in (nn.utils.weight_norm, nn.utils.spectral_norm):
        found = []
        for compiled in (False, True):
            paddle.seed(1)
            layer = reparametrise(nn.Linear(4, 2))
            run = paddle.jit.to_static(layer) if compiled else layer
            for _ in range(2):
                (run(x) ** 2).sum().backward()
            found.append(
                [p.grad.numpy() for p in layer.parameters() if p.grad is not None] + [v.numpy() for v in layer.state_dict().values()]
            )
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
