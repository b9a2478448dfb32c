"""A whole step of training inside of a `to_static` function: the numbers of eager mode, in the parameters that there are."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import tape
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.spares import LEAST_BYTES, Spares
from polyreme.runtime.executable import Executable


def a_training(optimizer: str, clips: bool, schedules: bool) -> tuple[Any, Any, Any]:
    paddle.seed(1)
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 3))
    rate = paddle.optimizer.lr.StepDecay(0.05, 2, 0.5) if schedules else 0.05
    clip = paddle.nn.ClipGradByGlobalNorm(0.5) if clips else None
    made = getattr(paddle.optimizer, optimizer)(learning_rate=rate, parameters=net.parameters(), grad_clip=clip)

    def step(x: Any, labels: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        made.step()
        made.clear_grad()
        return loss

    return net, step, rate


@pytest.mark.parametrize(
    ("optimizer", "clips", "schedules"),
    [
        ("Momentum", True, True),
        *[
            pytest.param(optimizer, clips, schedules, marks=pytest.mark.slow)
            for optimizer in ("SGD", "Momentum", "Adam", "AdamW")
            for clips in (False, True)
            for schedules in (False, True)
        ],
    ],
)
def test_steps_of_a_function_are_those_of_eager_mode(optimizer: str, clips: bool, schedules: bool) -> None:
    draw = np.random.default_rng(0)
    batches = [(draw.normal(size=(6, 4)).astype("float32"), draw.integers(0, 3, 6)) for _ in range(5)]
    found, programs = [], []
    for compiled in (False, True):
        net, step, rate = a_training(optimizer, clips, schedules)
        function: Any = paddle.jit.to_static(step) if compiled else step
        parameters = list(net.parameters())
        losses = []
        for x, labels in batches:
            losses.append(float(function(paddle.to_tensor(x), paddle.to_tensor(labels))))
            if schedules:
                rate.step()
            if compiled:
                programs.append(len(function.programs()))
        assert all(a is b for a, b in zip(parameters, net.parameters(), strict=True))
        assert all(p.grad is None or not p.grad.numpy().any() for p in parameters)
        found.append((losses, [p.numpy() for p in parameters]))
    (exact, weights), (losses, made) = found
    assert losses == pytest.approx(exact, rel=1e-5)
    for a, b in zip(weights, made, strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-6)
    assert programs[-1] == programs[-2] == programs[-3]  # later steps run the code of earlier ones


@pytest.mark.parametrize("full", [False, True])
def test_counters_and_rates_that_a_step_reads_are_arguments_of_one_program(full: bool) -> None:
    here = {"steps": 0, "mean": 0.0}
    found = []
    for compiled in (False, True):
        here.update(steps=0, mean=0.0)
        net = paddle.nn.Linear(4, 1)
        net.weight.set_value(np.linspace(-1, 1, 4, dtype="float32").reshape(4, 1))
        optimizer = paddle.optimizer.Adam(paddle.optimizer.lr.ExponentialDecay(0.1, 0.9), parameters=net.parameters())

        def step(x: Any, factor: float, net: Any = net, optimizer: Any = optimizer) -> Any:
            here["steps"] += 1
            here["mean"] = here["mean"] * 0.9 + here["steps"]
            loss = net(x).square().mean() * (factor / here["steps"])
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss, optimizer.get_lr(), here["steps"] * 2, loss.detach() * optimizer.get_lr()

        function: Any = paddle.jit.to_static(step, full_graph=full) if compiled else step
        seen = []
        for i in range(6):
            loss, rate, steps, product = function(paddle.full([2, 4], 0.5), 1.0 / (1 + i))
            assert type(rate) is float and type(steps) is int
            seen += [float(loss), rate, steps, float(product), here["steps"], here["mean"]]
            optimizer._learning_rate.step()
        found.append([*seen, *net.weight.numpy().ravel()])
        if compiled:
            # One for the first factor, and one for any.
            assert len(function.programs()) == 2 and function._gathered_calls == 0
    assert found[1] == pytest.approx(found[0], rel=1e-5)


RATE = 0.05
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda o, **k: o.SGD(RATE, **k),
    "SGD with a decay": lambda o, **k: o.SGD(RATE, weight_decay=0.1, **k),
    "Momentum": lambda o, **k: o.Momentum(RATE, **k),
    "Momentum that looks ahead": lambda o, **k: o.Momentum(RATE, use_nesterov=True, **k),
    "Momentum with L1": lambda o, **k: o.Momentum(RATE, weight_decay=paddle.regularizer.L1Decay(0.01), **k),
    "Adam": lambda o, **k: o.Adam(RATE, **k),
    "Adam, amsgrad": lambda o, **k: o.Adam(RATE, amsgrad=True, **k),
    "AdamW": lambda o, **k: o.AdamW(RATE, apply_decay_param_fun=lambda name: ".w_" in name, lr_ratio=lambda p: 0.5, **k),
    "Adamax": lambda o, **k: o.Adamax(RATE, **k),
    "Adagrad": lambda o, **k: o.Adagrad(RATE, **k),
    "Adadelta": lambda o, **k: o.Adadelta(RATE, **k),
    "ASGD": lambda o, **k: o.ASGD(RATE, batch_num=3, **k),
    "Lamb": lambda o, **k: o.Lamb(RATE, exclude_from_weight_decay_fn=lambda p: ".b_" in p.name, **k),
    "NAdam": lambda o, **k: o.NAdam(RATE, **k),
    "RAdam": lambda o, **k: o.RAdam(RATE, **k),
    "RMSProp": lambda o, **k: o.RMSProp(RATE, **k),
    "RMSProp, centered": lambda o, **k: o.RMSProp(RATE, momentum=0.9, centered=True, **k),
    "Rprop": lambda o, **k: o.Rprop(RATE, **k),
    "Lars": lambda o, parameters, **k: paddle.incubate.optimizer.LarsMomentumOptimizer(RATE, 0.9, parameter_list=parameters, **k),
}


@pytest.mark.parametrize(
    "name", [name if name in ("Adam", "Momentum with L1") else pytest.param(name, marks=pytest.mark.slow) for name in OPTIMIZERS]
)
def test_a_step_of_each_optimizer_is_one_program(name: str) -> None:
    draw = np.random.default_rng(0)
    batches = [(draw.normal(size=(6, 4)).astype("float32"), draw.integers(0, 3, 6)) for _ in range(6)]
    for clip in (None, paddle.nn.ClipGradByGlobalNorm(0.5)):
        found = []
        for compiled in (False, True):
            paddle.seed(1)
            net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 3))
            made = OPTIMIZERS[name](paddle.optimizer, parameters=net.parameters(), grad_clip=clip)

            def step(x: Any, labels: Any, net: Any = net, made: Any = made) -> Any:
                loss = paddle.nn.functional.cross_entropy(net(x), labels)
                loss.backward()
                made.step()
                made.clear_grad()
                return loss

            function: Any = paddle.jit.to_static(step, full_graph=True) if compiled else step
            losses = [float(function(paddle.to_tensor(x), paddle.to_tensor(labels))) for x, labels in batches]
            state = [t.numpy() for t in made.state_dict().values()]
            found.append((losses, [p.numpy() for p in net.parameters()], state))
            assert not compiled or len(function.programs()) == 1
        (exact, weights, state), (losses, made_weights, made_state) = found
        assert losses == pytest.approx(exact, rel=1e-5)
        assert len(state) == len(made_state)
        for a, b in zip([*weights, *state], [*made_weights, *made_state], strict=True):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-6)


class _Listening:
    """A watcher, as data parallel is one: which gradients were complete."""

    def __init__(self) -> None:
        self.ready_ones: list[Any] = []

    def begin(self, edges: Any) -> None: ...

    def ready(self, leaf: Any) -> None:
        self.ready_ones.append(leaf.grad.numpy())

    def finish(self) -> None: ...


@pytest.mark.parametrize("compiled_before", [False, True])
def test_gradients_that_are_watched_are_told_of_and_others_do_not_matter(compiled_before: bool) -> None:
    net, other = paddle.nn.Linear(2, 1), paddle.nn.Linear(2, 1)
    elsewhere, listening = _Listening(), _Listening()
    tape.watch(other.weight, elsewhere)

    @paddle.jit.to_static
    def step(x: Any) -> Any:
        loss = net(x).sum()
        loss.backward()
        net.clear_gradients()
        return loss

    x = paddle.ones([3, 2])
    if compiled_before:
        step(x)
        step(x)
        assert len(step.programs()) == 1
    tape.watch(net.weight, listening)
    step(x)
    assert [g.tolist() for g in listening.ready_ones] == [[[3.0], [3.0]]]
    assert not elsewhere.ready_ones


def of_two_optimizers(names: tuple[str, str], compiled: bool) -> Any:
    weight = paddle.create_parameter([3], "float32", default_initializer=paddle.nn.initializer.Constant(2.0))
    first, second = (getattr(paddle.optimizer, name)(0.1, parameters=[weight]) for name in names)

    def step(x: Any) -> None:
        (weight * x).square().sum().backward()
        first.step()
        second.step()
        first.clear_grad()

    run: Any = paddle.jit.to_static(step, full_graph=True) if compiled else step
    for factor in (1.0, 2.0, -1.0):
        run(paddle.full([3], factor))
    return weight.numpy()


@pytest.mark.parametrize("names", [("Adam", "Adam"), ("Momentum", "RMSProp")])
def test_two_optimizers_step_one_parameter_in_one_program(names: tuple[str, str]) -> None:
    np.testing.assert_allclose(of_two_optimizers(names, True), of_two_optimizers(names, False), rtol=1e-5)


def test_a_step_with_a_label_that_is_no_class_changes_nothing() -> None:
    net = paddle.nn.Linear(4, 3)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @paddle.jit.to_static(full_graph=True)
    def step(x: Any, labels: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    x = paddle.ones([2, 4])
    step(x, paddle.to_tensor([0, -100]))
    before = net.weight.numpy()
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=rf"label value\({wrong}\)"):
            step(x, paddle.to_tensor([0, wrong]))
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert len(step.programs()) == 1


def test_a_step_writes_parameters_where_they_stand_unless_somebody_holds_them():
    paddle.seed(2)
    net = paddle.nn.Linear(96, 96)
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())

    @paddle.jit.to_static(full_graph=True)
    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    def place() -> int:
        return int(net.weight._value.ctypes.data)

    x = paddle.ones([4, 96])
    places = []
    for _ in range(6):
        step(x)
        places.append(place())
    assert len(set(places[-4:])) == 1
    seen = []
    for look in (
        lambda: net.weight.numpy(), lambda: net.weight._value, lambda: net.weight._value[3:], lambda: memoryview(net.weight._value),
        lambda: net.weight.clone()._value, lambda: net.weight._value.T,
    ):  # fmt: skip
        held = look()
        seen.append((held, np.array(held)))
        step(x)
    for _ in range(3):
        step(x)
    for held, copied in seen:
        np.testing.assert_array_equal(held, copied)


def an_adam(width: int = 96) -> tuple[Any, Any, Any]:
    """A net, its optimizer and a step of them with labels, which is taken twice."""
    paddle.seed(3)
    net = paddle.nn.Sequential(paddle.nn.Linear(width, width), paddle.nn.ReLU(), paddle.nn.Linear(width, 3))
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())

    @paddle.jit.to_static(full_graph=True)
    def step(x: Any, labels: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for _ in range(2):
        step(paddle.ones([4, width]), paddle.to_tensor([0, 1, 2, 0]))
    return net, optimizer, step


def contents(net: Any, optimizer: Any) -> list[Any]:
    """Copies of all that a step writes."""
    state = {name: value for name, value in optimizer.state_dict().items() if isinstance(value, paddle.Tensor)}
    return [np.array(t._value) for t in (*net.parameters(), *state.values())]


def test_a_step_that_is_not_taken_leaves_what_it_writes_in_place_as_it_was() -> None:
    net, optimizer, step = an_adam()
    before, place = contents(net, optimizer), net[0].weight._value.ctypes.data
    with pytest.raises(IndexError, match=r"label value\(3\)"):
        step(paddle.ones([4, 96]), paddle.to_tensor([0, 1, 3, 0]))
    for found, expected in zip(contents(net, optimizer), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    step(paddle.ones([4, 96]), paddle.to_tensor([0, 1, 2, 0]))
    assert net[0].weight._value.ctypes.data == place and not np.array_equal(net[0].weight._value, before[0])


def test_a_position_that_is_none_inside_of_a_branch_leaves_what_a_step_writes_as_it_was() -> None:
    paddle.seed(3)
    net, table = paddle.nn.Linear(8, 8), paddle.ones([5, 8])
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())

    @paddle.jit.to_static(full_graph=True)
    def step(x: Any, ids: Any) -> Any:
        made = net(x)
        if paddle.sum(x) > 0:
            made = made + paddle.gather(table, ids)
        loss = (made**2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    x = paddle.ones([3, 8])
    for _ in range(2):
        step(x, paddle.to_tensor([0, 4, 1]))
    before, place = contents(net, optimizer), net.weight._value.ctypes.data
    with pytest.raises(IndexError, match="values from 0 to 5"):
        step(x, paddle.to_tensor([0, 5, 1]))
    for found, expected in zip(contents(net, optimizer), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    step(x, paddle.to_tensor([0, 4, 1]))
    assert net.weight._value.ctypes.data == place and not np.array_equal(net.weight._value, before[0])


@pytest.mark.parametrize("ran", [False, True])
def test_a_step_that_is_interrupted_is_taken_as_a_whole_or_not_at_all(ran: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    net, optimizer, step = an_adam()
    other, other_optimizer, other_step = an_adam()
    given = paddle.ones([4, 96]), paddle.to_tensor([0, 1, 2, 0])
    run = Executable.run

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if ran:
            run(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Executable, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(*given)
    if ran:
        other_step(*given)
    for _ in range(2):
        for found, expected in zip(contents(net, optimizer), contents(other, other_optimizer), strict=True):
            np.testing.assert_array_equal(found, expected)
        step(*given)
        other_step(*given)


def test_memory_that_others_know_of_weakly_is_not_taken():
    spares = Spares()
    arrays = [np.zeros(LEAST_BYTES, np.uint8) for _ in range(4)]
    known = weakref.ref(arrays[1])
    arrays[2].flags.writeable = False
    for i in range(3):
        spares.keep(i, arrays[i])
    spares.keep(3, arrays[3][1:])
    held = arrays.pop()
    assert spares.take() == {} and held is not None
    for i in range(3):
        spares.keep(i, arrays[i])
    arrays.clear()
    assert list(spares.take()) == [0] and known() is None


def test_a_step_of_convolutions_is_that_of_eager_mode() -> None:
    """Its convolutions are Winograd's, of weights that each step changes; the pooling's windows overlap."""

    def trained(compiled: bool) -> tuple[list[float], Any]:
        paddle.seed(3)
        nn = paddle.nn
        net = nn.Sequential(
            nn.Conv2D(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2D(3, 2, 1), nn.Conv2D(32, 32, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(32), nn.ReLU(), nn.Conv2D(32, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten(),
            nn.Linear(48, 5)
        )  # fmt: skip
        optimizer = paddle.optimizer.Momentum(0.05, parameters=net.parameters())
        rng = np.random.default_rng(4)
        x = paddle.to_tensor(rng.standard_normal((4, 3, 32, 31)).astype("float32"))
        labels = paddle.to_tensor(rng.integers(0, 5, 4))

        def step(x: Any, labels: Any) -> Any:
            loss = paddle.nn.functional.cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        run = paddle.jit.to_static(step, full_graph=True) if compiled else step
        return [float(run(x, labels)) for _ in range(6)], net

    (eager, plain), (compiled, net) = trained(False), trained(True)
    np.testing.assert_allclose(compiled, eager, rtol=2e-4)
    for mine, other in zip(net.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-3, atol=2e-4)


class Falling(paddle.optimizer.lr.LRScheduler):
    """A schedule of a user's own."""

    def get_lr(self) -> float:
        return float(self.base_lr / (1 + self.last_epoch))


def of_a_schedule(rate: Any, loss_is_told: bool, compiled: bool) -> Any:
    weight = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(1.0))
    optimizer = paddle.optimizer.SGD(rate, parameters=[weight])

    def step(x: Any) -> Any:
        loss = (weight * x).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate.step(loss) if loss_is_told else rate.step()
        return loss

    run: Any = paddle.jit.to_static(step, full_graph=True) if compiled else step
    losses = [float(run(paddle.full([2], factor))) for factor in (1.0, 3.0, 2.0, 4.0)]
    assert not compiled or len(run.programs()) == 1
    return losses, weight.tolist(), rate.last_lr, rate.last_epoch


def test_schedules_take_their_step_in_the_program_of_a_step() -> None:
    assert of_a_schedule(Falling(0.5), False, True) == of_a_schedule(Falling(0.5), False, False)
    plateau = lambda: paddle.optimizer.lr.ReduceOnPlateau(0.5, patience=0, factor=0.5)
    assert of_a_schedule(plateau(), True, True) == of_a_schedule(plateau(), True, False)


def test_a_rate_that_is_read_behind_its_schedules_step_is_the_new_one() -> None:
    weight = paddle.create_parameter([2], "float32")
    rate = paddle.optimizer.lr.ExponentialDecay(1.0, 0.5)
    optimizer = paddle.optimizer.SGD(rate, parameters=[weight])

    @paddle.jit.to_static
    def step(read: Any) -> Any:
        weight.sum().backward()
        optimizer.step()
        rate.step()
        return read()

    seen = [step(optimizer.get_lr), step(lambda: rate.last_lr), step(optimizer.get_lr)]
    assert seen == [0.5, 0.25, 0.125]


def whole(function: Any) -> Any:
    return paddle.jit.to_static(function, full_graph=True)


def trained_in_turns(compiled: Any) -> tuple[list[Any], Any]:
    """Losses, modes and rates of calls that train and calls that do not, which say so to the net."""
    paddle.seed(3)
    # A bias in front of a norm has a gradient of rounding alone, of which Adam would make whole steps.
    layers = paddle.nn.Linear(4, 8, bias_attr=False), paddle.nn.BatchNorm1D(8), paddle.nn.Dropout(0.5), paddle.nn.Linear(8, 1)
    net = paddle.nn.Sequential(*layers)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @compiled
    def run(x: Any, trains: bool) -> Any:
        net.train() if trains else net.eval()
        loss = net(x).square().mean()
        if trains:
            optimizer.set_lr(0.02)
            loss.backward()
            optimizer.step()
            optimizer.set_lr(optimizer.get_lr() / 4)
            optimizer.clear_grad()
        return loss

    found: list[Any] = []
    rng = np.random.default_rng(0)
    for number in range(6):
        if number == 3:
            net.eval()
            layers[2].train()
            optimizer.set_lr(0.7)
        loss = run(paddle.to_tensor(rng.normal(size=(6, 4)).astype("float32")), number % 3 != 2)
        found += [float(loss), net.training, layers[2].training, optimizer.get_lr()]
    return found, run


def test_modes_and_rates_that_a_step_sets_are_those_of_eager_mode() -> None:
    wanted, _ = trained_in_turns(lambda function: function)
    found, run = trained_in_turns(whole)
    np.testing.assert_allclose(np.array(found, float), np.array(wanted, float), rtol=1e-5)
    assert run.breaks() == []


def test_what_a_step_returns_beside_its_loss_has_no_gradients_that_are_not_kept() -> None:
    net = paddle.nn.Linear(4, 2)
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        length = net.weight.norm()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, length

    x = paddle.ones([3, 4])
    before = float(net.weight.norm())
    loss, length = whole(step)(x)
    assert float(length) == pytest.approx(before)
    asked = [length.backward, (length * 2).backward, lambda: paddle.grad(length, net.weight, allow_unused=True)]
    for ask in asked:
        with pytest.raises(RuntimeError, match="expected no gradients of what 'step' returns beside its loss"):
            ask()
    with pytest.raises(RuntimeError, match="expected the first backward"):
        paddle.grad(loss, net.weight, allow_unused=True)
    _, length = paddle.jit.to_static(step)(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        length.backward()


@pytest.mark.parametrize("wrapped", ["weight_norm", "spectral_norm"])
def test_weights_that_hooks_compute_are_those_of_eager_mode(wrapped: str) -> None:
    def trained(compiled: Any) -> list[Any]:
        paddle.seed(5)
        net = paddle.nn.Sequential(getattr(paddle.nn.utils, wrapped)(paddle.nn.Linear(4, 3)), paddle.nn.Linear(3, 1))
        optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters())

        @compiled
        def step(x: Any) -> Any:
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        losses = [step(paddle.ones([2, 4]) * number) for number in (1, 2, 3)]
        return [*losses, *net.state_dict().values(), net[0].weight]

    for found, wanted in zip(trained(whole), trained(lambda function: function), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-6)


def test_what_an_optimizer_computes_stands_at_the_line_that_asks_for_its_step() -> None:
    net = paddle.nn.Linear(4, 2)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        doubled = loss * 2
        return doubled

    compiled = whole(step)
    compiled(paddle.ones([3, 4]))
    (program,) = compiled.programs()
    first = step.__code__.co_firstlineno
    lines = [op.location.line - first for op in program.traced.func.block]
    names = {value.name: op.location.line - first for op in program.traced.func.block for value in op.results if value.name}
    assert lines.count(3) > 20
    assert (names["loss"], names["doubled"]) == (1, 5)


def test_a_step_is_inspected_as_it_runs_and_not_taken() -> None:
    paddle.seed(3)
    net = paddle.nn.Linear(4, 3)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    def step(x: Any, labels: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    before = net.weight.numpy().copy()
    x, labels = paddle.ones([5, 4]), paddle.to_tensor([0, 2, 1, 1, 0])
    for spec in ([x, labels], [paddle.static.InputSpec([5, 4], "float32", "x"), paddle.static.InputSpec([5], "int64", "labels")]):
        seen = paddle.inspect(step, spec)
        assert np.array_equal(net.weight.numpy(), before) and net.weight.grad is None
        assert all(not held.numpy().any() for name, held in optimizer.state_dict().items() if "moment" in name)
    compiled = paddle.jit.to_static(step, full_graph=True)
    compiled(x, labels)
    run = paddle.inspect(compiled.programs()[0])
    assert str(seen.memory) == str(run.memory)

    def looked_at(x: Any) -> float:
        loss = net(x).sum()
        loss.backward()
        return float(loss.item())

    with pytest.raises(PolyremeError, match=r"item\(\)"):
        paddle.inspect(looked_at, [x])


@pytest.mark.parametrize("mode", ["avg", "min"])
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_equal_elements_share_the_gradient_of_a_median_in_compiled_functions_too(name: str, mode: str) -> None:
    def gradient(run: Any, values: list[float]) -> list[float]:
        x = paddle.to_tensor(values, stop_gradient=False)
        run(x).backward()
        found: list[float] = x.grad.tolist()
        return found

    function = lambda x: getattr(paddle, name)(x, mode=mode)
    compiled = paddle.jit.to_static(function, full_graph=True)
    for values in ([2.0, 9.0, 2.0, 2.0], [3.0, 3.0, 1.0, 7.0], [1.0, 2.0, 3.0, 4.0], [2.0, 2.0, float("nan"), 2.0]):
        assert gradient(compiled, values) == gradient(function, values)
    assert gradient(compiled, [2.0, 9.0, 2.0, 2.0]) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_plain_tensor_may_be_optimized(compiled: bool) -> None:
    weight = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    optimizer = paddle.optimizer.SGD(0.1, parameters=[weight], weight_decay=0.5)

    def step(x: Any) -> Any:
        loss = (x @ weight).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    function: Any = paddle.jit.to_static(step, full_graph=True) if compiled else step
    assert [float(function(paddle.ones([1, 2]))) for _ in range(2)] == pytest.approx([10.0, 9.1])
