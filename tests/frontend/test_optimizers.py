"""Optimizers: Paddle's trajectories, state dicts, groups, clipping, refusals."""

from pathlib import Path

import numpy as np
import pytest

from polyreme import jit, nn, ones
from polyreme import optimizer as optim
from polyreme.parameter import Parameter
from polyreme.tensor import Tensor
from polyreme.utils import unique_name
from tests.fixtures.make_optimizers import CASES, STEPS

EXPECTED = np.load(Path(__file__).parents[1] / "fixtures" / "optimizers.npz")


@pytest.fixture(autouse=True)
def _names_start_anew():
    with unique_name.guard():
        yield


def parameter(values, name="linear_0.w_0", **options):
    return Parameter(np.asarray(values, "float32"), name=name, **options)


def give_gradient(p, values):
    p.grad = Tensor(np.asarray(values, "float32"))


@pytest.mark.parametrize("name", CASES)
def test_the_trajectory_is_that_of_paddle(name):
    kind, options = CASES[name]
    rng = np.random.default_rng(7)
    p = parameter(rng.standard_normal((3, 2)))
    optimizer = getattr(optim, kind)(parameters=[p], **options)
    for step in range(STEPS):
        give_gradient(p, rng.standard_normal((3, 2)))
        optimizer.step()
        optimizer.clear_grad()
        np.testing.assert_allclose(p.numpy(), EXPECTED[name][step], rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_goes_on_to_the_bit(name):
    kind, options = CASES[name]
    gradients = np.random.default_rng(3).standard_normal((6, 2, 2)).astype("float32")

    def run(p, optimizer, part):
        for gradient in part:
            give_gradient(p, gradient)
            optimizer.step()

    straight = parameter(np.ones((2, 2)))
    run(straight, getattr(optim, kind)(parameters=[straight], **options), gradients)
    with unique_name.guard():
        broken = parameter(np.ones((2, 2)))
        first = getattr(optim, kind)(parameters=[broken], **options)
        run(broken, first, gradients[:3])
        state = {k: v.numpy() for k, v in first.state_dict().items()}
    with unique_name.guard():
        second = getattr(optim, kind)(parameters=[broken], **options)
        second.set_state_dict(state)
        run(broken, second, gradients[3:])
    np.testing.assert_array_equal(straight.numpy(), broken.numpy())


def test_the_names_of_the_state_are_those_of_paddle():
    w, b = parameter(np.ones((2, 1))), parameter(np.ones(1), "linear_0.b_0")
    adam = optim.Adam(parameters=[w, b], learning_rate=optim.lr.StepDecay(0.1, 2))
    give_gradient(w, np.ones((2, 1)))
    give_gradient(b, np.ones(1))
    adam.step()
    state = adam.state_dict()
    slots = ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")
    assert list(state) == [f"{p}_{slot}_0" for slot in slots for p in ("linear_0.w_0", "linear_0.b_0")] + ["LR_Scheduler"]
    assert state["linear_0.w_0_beta1_pow_acc_0"].shape == [1]
    assert state["LR_Scheduler"] == {"last_epoch": 0, "last_lr": 0.1}


def test_groups_have_options_of_their_own():
    a, b = parameter([1.0], "a"), parameter([1.0], "b", learning_rate=0.5)
    sgd = optim.SGD(0.1, parameters=[{"params": [a], "weight_decay": 1.0}, {"params": [b], "learning_rate": 0.1}])
    give_gradient(a, [1.0])
    give_gradient(b, [1.0])
    sgd.step()
    assert a.numpy() == pytest.approx(1 - 0.1 * (1 + 1)) and b.numpy() == pytest.approx(1 - 0.1 * 0.1)  # a group's rate wins


def test_decay_of_adamw_may_leave_parameters_out():
    w, b = parameter([1.0], "w"), parameter([1.0], "b")
    adamw = optim.AdamW(0.1, parameters=[w, b], weight_decay=0.5, apply_decay_param_fun=lambda name: name == "w")
    give_gradient(w, [0.0])
    give_gradient(b, [0.0])
    adamw.step()
    assert w.numpy() == pytest.approx(0.95) and b.numpy() == 1


def test_a_parameter_without_gradient_or_frozen_stays():
    p, frozen = parameter([1.0], "p"), parameter([1.0], "q", trainable=False)
    sgd = optim.SGD(0.1, parameters=[p, frozen])
    sgd.step()
    assert p.numpy() == 1 and frozen.numpy() == 1


def test_low_precision_parameters_keep_a_master_weight():
    p = Parameter(np.ones(1, "float16"), name="half")
    sgd = optim.SGD(1e-4, parameters=[p], multi_precision=True)
    for _ in range(20):
        p.grad = Tensor(np.ones(1, "float16"))
        sgd.step()
    # Single steps vanish in float16; their sum does not.
    assert float(p.numpy()[0]) == pytest.approx(1 - 20e-4, abs=5e-4) and p.numpy().dtype == np.float16
    assert list(sgd.state_dict()["master_weights"]) == ["half"]


def test_the_rate_may_be_set_unless_a_schedule_decides_it():
    p = parameter([1.0])
    fixed = optim.SGD(0.1, parameters=[p])
    fixed.set_lr(0.5)
    assert fixed.get_lr() == 0.5
    with pytest.raises(RuntimeError, match="can't be LRScheduler"):
        optim.SGD(optim.lr.StepDecay(0.1, 2), parameters=[p]).set_lr(0.5)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"learning_rate": "fast"}, TypeError, "learning rate should be float or LRScheduler"),
        ({"learning_rate": 0.1, "parameters": None}, AttributeError, "should not be None"),
        ({"learning_rate": 0.1, "parameters": parameter([1.0])}, TypeError, "iterable of paddle Tensors"),
        ({"learning_rate": 0.1, "beta1": 2.0}, ValueError, "beta1"),
        ({"learning_rate": 0.1, "epsilon": -1.0}, ValueError, "epsilon"),
    ],
)
def test_wrong_options_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        optim.Adam(**{"parameters": [parameter([1.0])], **options})


def test_one_parameter_in_two_groups_is_refused():
    p = parameter([1.0])
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD(0.1, parameters=[{"params": [p]}, {"params": [p]}])


def test_a_state_of_another_shape_is_refused():
    p = parameter([1.0, 2.0])
    momentum = optim.Momentum(parameters=[p])
    give_gradient(p, [1.0, 1.0])
    momentum.step()
    with pytest.raises(ValueError, match=r"expected a state of shape \[2\]"):
        momentum.set_state_dict({"linear_0.w_0_velocity_0": np.zeros(3, "float32")})
    with pytest.raises(KeyError, match="velocity"):
        momentum.set_state_dict({})


def test_a_parameter_that_is_appended_to_the_list_is_trained():
    net, more = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = optim.SGD(0.1, parameters=net.parameters())

    def step(x):
        loss = (net(x) * more(x) + net.bias + more.bias).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    compiled = jit.to_static(step, full_graph=True)
    start = more.bias.item()
    compiled(ones([1, 2]))
    assert more.bias.item() == start
    more.clear_gradients()
    optimizer._parameter_list.extend(more.parameters())
    seen = [start]
    for run in (compiled, step):
        run(ones([1, 2]))
        seen.append(more.bias.item())
        assert not more.bias.grad.numpy().any()
    assert len(set(seen)) == 3


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "AdamW", "Adamax", "Lamb", "NAdam", "RMSProp"])
def test_a_parameter_that_is_a_number_stays_one(name):
    p = Tensor(np.float32(2.0), stop_gradient=False)
    optimizer = getattr(optim, name)(learning_rate=0.1, parameters=[p])
    for _ in range(2):
        (p * p).backward()
        optimizer.step()
        optimizer.clear_grad()
        assert p.shape == [] and p.numpy().shape == () and 0 < float(p) < 2
