"""Gradients and optimizers in static mode, against dygraph mode."""

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.runtime.executable import Executable
from polyreme.utils import unique_name
from polyreme.vision.models import LeNet
from tests.frontend.static_mode import static_mode

F = paddle.nn.functional


@pytest.fixture
def programs():
    with static_mode() as both:
        yield both


def rows(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


# --- gradients


def test_gradients_are_those_of_the_tape():
    def model(layer, x):
        h = F.gelu(layer(x))
        h = h - paddle.mean(h, axis=-1, keepdim=True)
        return paddle.mean(F.softmax(h) * paddle.concat([h, h * 2.0], axis=0)[: h.shape[0]])

    x = rows(4, 3)
    paddle.seed(3)
    with unique_name.guard():
        layer = paddle.nn.Linear(3, 5)
    given = paddle.to_tensor(x, stop_gradient=False)
    loss = model(layer, given)
    loss.backward()
    expected = [loss.numpy(), layer.weight.grad.numpy(), layer.bias.grad.numpy(), given.grad.numpy()]
    with static_mode() as (_, startup):
        paddle.seed(3)
        layer = paddle.nn.Linear(3, 5)
        data = static.data("x", [4, 3])
        data.stop_gradient = False
        loss = model(layer, data)
        pairs = static.append_backward(loss)
        assert [(p.name, g.name) for p, g in pairs] == [(p.name, p.name + "@GRAD") for p in layer.parameters()]
        executor = static.Executor()
        executor.run(startup)
        found = executor.run(feed={"x": x}, fetch_list=[loss, *(g for _, g in pairs), "x@GRAD"])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_backward_operators_mirror_the_forward_ones(programs):
    main, _ = programs
    x = static.data("x", [None, 2])
    hidden = static.nn.fc(x, 2)
    loss = paddle.mean(hidden * hidden)
    static.append_backward(loss)
    assert [op.type for op in main.global_block().ops] == [
        "linear", "elementwise_mul", "reduce_mean", "fill_constant", "reduce_mean_grad", "elementwise_mul_grad", "sum", "linear_grad",
    ]  # fmt: skip
    grad = main.global_block().ops[5]
    assert grad.output("X@GRAD") == [f"{hidden.name}@GRAD@RENAME@block0@0"] and grad.input("Out@GRAD")[0].endswith("@GRAD")


def test_gradients_of_values_that_are_written_over_use_the_old_ones(programs):
    main, _ = programs
    block = main.global_block()
    x = static.data("x", [3])
    x.stop_gradient = False
    a = block.create_var(name="a", shape=[3], dtype="float32")
    block.append_op(type="assign", inputs={"X": x}, outputs={"Out": a})
    squared = a * a
    block.append_op(type="exp", inputs={"X": a}, outputs={"Out": a})
    block.append_op(type="sin", inputs={"X": a}, outputs={"Out": a})
    (gradient,) = static.gradients(paddle.sum(a * squared), x)
    values = np.array([-0.5, 0.3, 1.0])
    (found,) = static.Executor().run(feed={"x": values.astype("float32")}, fetch_list=[gradient])
    e = np.exp(values)
    np.testing.assert_allclose(found, np.cos(e) * e * values**2 + np.sin(e) * 2 * values, rtol=1e-5)


def test_gradients_stop_where_they_should(programs):
    main, startup = programs
    x = static.data("x", [None, 2])
    first, second = (paddle.nn.Linear(2, 2) for _ in range(2))
    second.bias.trainable = False
    hidden = first(x)
    loss = paddle.mean(second(hidden) + hidden.detach() * 0.5)
    with paddle.no_grad():
        loss = loss + paddle.mean(first(x)).detach()
    names = [p.name for p, _ in static.append_backward(paddle.mean(second(hidden)), no_grad_set={hidden.name})]
    assert names == [second.weight.name]
    names = [p.name for p, _ in static.append_backward(paddle.mean(second(hidden)), parameter_list=[first.weight, second.weight.name])]
    assert names == [first.weight.name, second.weight.name]
    assert static.gradients(paddle.mean(second(x)), first.weight) == [None]


def test_weights_of_targets_and_several_inputs(programs):
    x, y = static.data("x", [2]), static.data("y", [2])
    w = static.data("w", [2])
    target = x * y
    dx, dy = static.gradients([target, x + y], [x, y], [w, None])
    feed = {"x": np.array([1, 2], "float32"), "y": np.array([3, 4], "float32"), "w": np.array([10, 100], "float32")}
    found = static.Executor().run(feed=feed, fetch_list=[dx, dy])
    assert found[0].tolist() == [31, 401] and found[1].tolist() == [11, 201]
    with pytest.raises(ValueError, match="one of 'target_gradients' per target"):
        static.gradients([target], [x], [w, w])
    with pytest.raises(ValueError, match="gradient of shape"):
        static.gradients([target], [x], [static.data("v", [3])])


def test_a_legacy_operator_has_the_gradient_of_its_meaning(programs):
    main, _ = programs
    block = main.global_block()
    x = static.data("x", [None, 4])
    x.stop_gradient = False
    y = block.create_var(name="y")
    block.append_op(type="hard_swish", inputs={"X": x}, outputs={"Out": y})
    (gradient,) = static.gradients(y, x)
    values = np.array([[-4, -1, 0.5, 5]], "float32")
    found = static.Executor().run(feed={"x": values}, fetch_list=[y, gradient])
    inside = (values > -3) & (values < 3)
    np.testing.assert_allclose(found[0], values * np.clip(values + 3, 0, 6) / 6, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[1], np.where(inside, (2 * values + 3) / 6, values > 0), rtol=1e-6, atol=1e-7)


class Sandwich(paddle.autograd.PyLayer):
    """Twice x plus y, with gradients of its own making."""

    @staticmethod
    def forward(ctx, x, scale, y):
        ctx.save_for_backward(x, y)
        return x * scale + y, paddle.exp(y)

    @staticmethod
    def backward(ctx, da, db):
        x, y = ctx.saved_tensor()
        return da * 100.0 + x, db * y


@pytest.mark.parametrize(
    "call", [lambda x, y: Sandwich.apply(x, 2.0, y), lambda x, y: Sandwich.apply(x, y=y, scale=2.0)], ids=["by place", "by name"]
)
def test_a_py_layer_keeps_its_own_gradient(programs, call):
    main, _ = programs
    x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
    a, b = call(x, y)
    dx, dy = static.gradients([a, b], [x, y])
    feed = {"x": rows(3, 2), "y": rows(3, 2, seed=1)}
    found = static.Executor().run(feed=feed, fetch_list=[a, b, dx, dy])
    for got, expected in zip(found, (2 * feed["x"] + feed["y"], np.exp(feed["y"]), 100 + feed["x"], feed["y"]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert [op.type for op in main.global_block().ops][0] == "py_layer"


def test_what_cannot_be_differentiated_is_refused(programs):
    x = static.data("x", [None, 2])
    with pytest.raises(ValueError, match=r"loss of one element but .* has shape \[-1, 2\]"):
        static.append_backward(x * 2.0)
    with pytest.raises(TypeError, match="'loss' must be Variable"):
        static.append_backward(3.0)
    with pytest.raises(TypeError, match="'x' is none"):
        static.append_backward(paddle.mean(x), parameter_list=[x])


# --- training


def batches(steps):
    images, labels = paddle.data.digits("train")
    return [(images[i * 32 : i * 32 + 32], labels[i * 32 : i * 32 + 32, None]) for i in range(steps)]


def dygraph_losses(make, data):
    paddle.seed(2026)
    net = LeNet()
    optimizer = make(net.parameters())
    losses = []
    for images, labels in data:
        loss = F.cross_entropy(net(paddle.to_tensor(images)), paddle.to_tensor(labels))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_lenet_on_digits_has_the_losses_of_dygraph_mode(kind):
    data = batches(6)
    rate = 0.05 if kind == "SGD" else 0.002
    expected = dygraph_losses(lambda parameters: getattr(paddle.optimizer, kind)(rate, parameters=parameters), data)
    with static_mode() as (main, startup):
        paddle.seed(2026)
        image, label = static.data("image", [None, 1, 28, 28]), static.data("label", [None, 1], "int64")
        loss = F.cross_entropy(LeNet()(image), label)
        test = main.clone(for_test=True)
        operators, pairs = getattr(paddle.optimizer, kind)(rate).minimize(loss)
        assert [op.type for op in operators] == [kind.lower()] * 10 and len(pairs) == 10
        executor = static.Executor()
        executor.run(startup)
        found = [float(executor.run(main, feed={"image": x, "label": y}, fetch_list=[loss])[0]) for x, y in data]
        # A step is one compiled region: forward, backward and update together.
        (plan,) = main.plans.values()
        assert isinstance(plan.executable, Executable) and set(plan.updates) >= {p.name for p in main.all_parameters()}
        before, after = (
            float(executor.run(p, feed={"image": data[0][0], "label": data[0][1]}, fetch_list=[loss])[0]) for p in (test, main)
        )
        assert before == pytest.approx(after, rel=1e-5)
    np.testing.assert_allclose(found, expected, rtol=2e-4)


def small_loss():
    x, label = static.data("x", [None, 4]), static.data("label", [None, 1], "int64")
    return F.cross_entropy(static.nn.fc(x, 3), label)


def small_feed(seed=0):
    return {"x": rows(5, 4, seed=seed), "label": np.array([[0], [1], [2], [1], [0]])}


OPTIMIZERS = {
    "Adagrad": lambda p: paddle.optimizer.Adagrad(0.1, parameters=p),
    "Adamax": lambda p: paddle.optimizer.Adamax(0.1, parameters=p),
    "Adadelta": lambda p: paddle.optimizer.Adadelta(1.0, parameters=p),
    "ASGD": lambda p: paddle.optimizer.ASGD(0.1, batch_num=2, parameters=p),
    "NAdam": lambda p: paddle.optimizer.NAdam(0.1, parameters=p),
    "RAdam": lambda p: paddle.optimizer.RAdam(0.1, beta2=0.7, parameters=p),
    "Rprop": lambda p: paddle.optimizer.Rprop(0.01, parameters=p),
    "Lars": lambda p: paddle.incubate.optimizer.LarsMomentumOptimizer(0.1, 0.9, parameter_list=p),
    "nesterov": lambda p: paddle.optimizer.Momentum(0.1, use_nesterov=True, parameters=p, weight_decay=paddle.regularizer.L1Decay(0.01)),
    "amsgrad": lambda p: paddle.optimizer.Adam(0.1, amsgrad=True, parameters=p, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.2)),
    "AdamW": lambda p: paddle.optimizer.AdamW(0.1, parameters=p, apply_decay_param_fun=lambda n: n.endswith("w_0"), lr_ratio=lambda p: 0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_takes_the_steps_of_dygraph_mode(name):
    paddle.seed(9)
    with unique_name.guard():
        layer = paddle.nn.Linear(4, 3)
    optimizer = OPTIMIZERS[name](layer.parameters())
    expected = []
    for step in range(3):
        feed = small_feed(step)
        F.cross_entropy(layer(paddle.to_tensor(feed["x"])), paddle.to_tensor(feed["label"])).backward()
        optimizer.step()
        optimizer.clear_grad()
        expected.append(layer.weight.numpy())
    with static_mode() as (main, startup):
        paddle.seed(9)
        optimizer = OPTIMIZERS[name](None)
        optimizer.minimize(small_loss())
        executor = static.Executor()
        executor.run(startup)
        for step, weight in enumerate(expected):
            executor.run(feed=small_feed(step))
            np.testing.assert_allclose(main.all_parameters()[0].get_value().numpy(), weight, rtol=2e-5, atol=1e-6)


def test_a_rate_that_is_set_counts_from_the_next_run(programs):
    main, startup = programs
    optimizer = paddle.optimizer.SGD(0.0)
    optimizer.minimize(small_loss())
    executor = static.Executor()
    executor.run(startup)
    weight = main.all_parameters()[0]
    start = weight.get_value().numpy()
    executor.run(feed=small_feed())
    np.testing.assert_array_equal(weight.get_value().numpy(), start)
    optimizer.set_lr(0.5)
    executor.run(feed=small_feed())
    assert np.abs(weight.get_value().numpy() - start).max() > 1e-3


def test_an_optimizer_takes_over_state_in_static_mode(programs):
    main, startup = programs
    optimizer = paddle.optimizer.Adam(0.1)
    optimizer.minimize(small_loss())
    executor = static.Executor()
    executor.run(startup)
    executor.run(feed=small_feed())
    saved = {name: tensor.numpy() for name, tensor in main.state_dict("opt").items() if name != "learning_rate_0"}
    assert saved.keys() == optimizer.state_dict().keys()
    executor.run(feed=small_feed())
    optimizer.set_state_dict(saved)
    for name, tensor in main.state_dict("opt").items():
        if name in saved:
            np.testing.assert_array_equal(tensor.numpy(), saved[name])


def test_a_schedule_is_asked_before_each_run(programs):
    main, startup = programs
    schedule = paddle.optimizer.lr.PiecewiseDecay([1], [0.5, 0.25])
    paddle.optimizer.SGD(schedule).minimize(small_loss())
    executor = static.Executor()
    executor.run(startup)
    seen = []
    for _ in range(2):
        seen.append(float(executor.run(feed=small_feed(), fetch_list=["learning_rate_0"])[0]))
        schedule.step()
    assert seen == [0.5, 0.25]


def test_gradients_can_be_changed_between_the_halves_of_minimize(programs):
    main, startup = programs
    loss = small_loss()
    optimizer = paddle.optimizer.SGD(1.0)
    pairs = optimizer.backward(loss)
    optimizer.apply_gradients([(p, g * 0.0) for p, g in pairs])
    executor = static.Executor()
    executor.run(startup)
    weight = main.all_parameters()[0]
    start = weight.get_value().numpy()
    executor.run(feed=small_feed())
    np.testing.assert_array_equal(weight.get_value().numpy(), start)


def test_a_low_precision_parameter_can_be_updated_in_float32(programs):
    main, startup = programs
    # A gradient that changes its sign within the three steps would move its element less.
    paddle.seed(0)
    x = static.data("x", [None, 4], "bfloat16")
    weight = static.create_parameter([4, 3], "bfloat16")
    loss = paddle.mean(paddle.matmul(x, weight).astype("float32") ** 2)
    paddle.optimizer.Adam(0.001, multi_precision=True).minimize(loss)
    executor = static.Executor()
    executor.run(startup)
    master = main.global_block().var(f"{weight.name}_fp32_master_0")
    assert master.dtype is paddle.float32
    start = master.get_value().numpy()
    for _ in range(3):
        executor.run(feed={"x": rows(2, 4).astype(weight.type.dtype.np)})
    moved = master.get_value().numpy()
    np.testing.assert_allclose(np.abs(moved - start), 0.003, rtol=0.2)
    assert (moved.astype(weight.type.dtype.np) == weight.get_value()._value).all()


def test_parameters_are_required_in_dygraph_mode_only():
    with pytest.raises(AttributeError, match="should not be None in dygraph mode"):
        paddle.optimizer.SGD(0.1)


def test_a_training_step_is_one_function_of_state_that_can_be_inspected(programs):
    main, _ = programs
    loss = small_loss()
    paddle.optimizer.Adam(0.1).minimize(loss)
    module = main.module([loss])
    roles = dict(zip(module.function().arg_names, module.function().arg_roles, strict=True))
    assert roles["x"] == roles["label"] == "input" and roles["learning_rate_0"] == "param"
    assert {name for name, role in roles.items() if role == "state"} == {
        p.name + s for p in main.all_parameters() for s in ("", "_moment1_0", "_moment2_0", "_beta1_pow_acc_0", "_beta2_pow_acc_0")
    }
    text = paddle.inspect(module).nn
    assert "nn.linear" in text and "nn.sqrt" in text and "tensor<Nx4xf32>" in text
    out = main.global_block().create_var(name="out", shape=[], dtype="float32")
    static.py_func(lambda v: v, loss, out)
    seen = paddle.inspect(main.module([out]))
    assert 'function = "<lambda>"' in seen.nn and seen.nn.count("func @") == 1
    assert seen.schedule.count("host.call") == 1 and "@region_0" in seen.schedule
    with pytest.raises(RuntimeError, match="expected a program that computes something"):
        static.Program().module()


@pytest.mark.parametrize("name", ["Adam", "Lamb", "Adamax", "Momentum"])
def test_parameters_of_half_precision_step_as_in_dygraph_mode(name):
    rows = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
    start = paddle.nn.initializer.Constant(0.3)

    def loss_of(x, weight):
        return paddle.mean(paddle.matmul(x, weight.astype("float32")) ** 2)

    with static_mode() as (_, startup):
        x, weight = static.data("x", [2, 4]), paddle.create_parameter([4, 3], "bfloat16", default_initializer=start)
        loss, optimizer = loss_of(x, weight), getattr(paddle.optimizer, name)(0.1)
        optimizer.minimize(loss)
        executor = static.Executor()
        executor.run(startup)
        found = [float(executor.run(feed={"x": rows}, fetch_list=[loss])[0]) for _ in range(4)]
        kinds = {slot: {v.dtype for v in held.values()} for slot, held in optimizer._accumulators.items()}
    weight = paddle.create_parameter([4, 3], "bfloat16", default_initializer=start)
    stepped, expected = getattr(paddle.optimizer, name)(0.1, parameters=[weight]), []
    for _ in range(4):
        loss = loss_of(paddle.to_tensor(rows), weight)
        expected.append(float(loss))
        loss.backward()
        stepped.step()
        stepped.clear_grad()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert kinds == {slot: {v.dtype for v in held.values()} for slot, held in stepped._accumulators.items()}
