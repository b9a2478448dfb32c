"""A step of an optimizer on a GPU: a few launches for all parameters, no copies, and the numbers of the updates one by one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled import for_each as for_each_module
from polyreme.device import current_place, driver_of
from polyreme.optimizer import together
from polyreme.optimizer.algorithms import LarsMomentumOptimizer
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.tensor import Tensor

Array = np.ndarray[Any, Any]
optim, nn = paddle.optimizer, paddle.nn

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optim.SGD(0.1, p, weight_decay=0.1),
    "Momentum": lambda p: optim.Momentum(0.1, 0.9, p, use_nesterov=True, weight_decay=paddle.regularizer.L1Decay(0.01)),
    "Adam": lambda p: optim.Adam(0.01, parameters=p, weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(0.01, parameters=p, apply_decay_param_fun=[q.name for q in p[::8] + p[1::8]].__contains__),
    "amsgrad": lambda p: optim.Adam(0.01, parameters=p, amsgrad=True),
    "RMSProp": lambda p: optim.RMSProp(0.01, parameters=p, centered=True, momentum=0.9),
    "Adadelta": lambda p: optim.Adadelta(0.1, parameters=p),
    "Lamb": lambda p: optim.Lamb(0.01, parameters=p),
    "Lars": lambda p: LarsMomentumOptimizer(0.1, 0.9, parameter_list=p),
}
# Kernels of one formula: Adam's and Lamb's powers have one each, and Adadelta's step is read by two.
KERNELS = {"Adam": 3, "AdamW": 3, "amsgrad": 3, "Adadelta": 2, "Lamb": 3}


@pytest.fixture(autouse=True)
def _on_the_cpu_afterwards() -> Iterator[None]:
    yield
    paddle.set_device("cpu")


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the emulated device is asked to launch."""
    found: list[Any] = []
    launch = EmulatedDriver.launch

    def counted(self: EmulatedDriver, function: Any, *args: Any, **options: Any) -> None:
        found.append(function)
        launch(self, function, *args, **options)

    monkeypatch.setattr(EmulatedDriver, "launch", counted)
    return found


def parameters(count: int, dtype: str = "float32") -> list[Any]:
    """Some whose elements make up whole vectors, and some whose do not."""
    rng = np.random.default_rng(1)
    shapes = [(4, 8), (3, 5), (8,), (7,)] * (count // 4)
    with paddle.utils.unique_name.guard():
        made = [paddle.create_parameter(list(s), "float32", default_initializer=nn.initializer.Assign(rng.normal(size=s))) for s in shapes]
    if dtype == "float32":
        return made
    halves = [paddle.to_tensor(p.numpy()).astype(dtype) for p in made]
    for half in halves:
        half.stop_gradient = False
    return halves


def give_gradients(given: list[Any], step: int) -> None:
    rng = np.random.default_rng(step)
    for p in given:
        p.clear_gradient()
        scaled = p.astype("float32") * paddle.to_tensor(rng.normal(size=p.shape).astype("float32"))
        scaled.sum().backward()


def stepped(
    make: Callable[[Any], Any], device: str, count: int = 8, steps: int = 4, told: Callable[[Any], None] | None = None
) -> list[Array]:
    """All weights and state after some steps."""
    paddle.set_device(device)
    given = parameters(count)
    optimizer = make(given)
    for i in range(steps):
        give_gradients(given, i)
        if told is not None:
            told(optimizer.step)
        else:
            optimizer.step()
    state = [t.numpy() for table in optimizer._accumulators.values() for t in table.values()]
    return [p.numpy() for p in given] + state


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_a_few_launches_for_all_parameters(name: str, launches: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[tuple[int, int, int]] = []

    def counted(step: Callable[[], None]) -> None:
        stats, before = paddle.device.cuda.memory_stats(), len(launches)
        step()
        after = paddle.device.cuda.memory_stats()
        counts.append((len(launches) - before, after["uploads"] - stats["uploads"], after["downloads"] - stats["downloads"]))

    expected = stepped(OPTIMIZERS[name], "cpu")
    got = stepped(OPTIMIZERS[name], "gpu-emulated", told=counted)
    # Two lengths of vectors, and of AdamW those that decay and those that do not.
    assert counts[-1][0] == 2 * KERNELS.get(name, 1) * (1 + (name == "AdamW"))
    assert counts[-1][2] == 0
    few = counts[-1][0]
    stepped(OPTIMIZERS[name], "gpu-emulated", count=16, told=counted)
    assert counts[-1][0] == few, "as many for twice as many parameters"
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=1e-6)
    monkeypatch.setattr(together, "step_together", lambda optimizer, found, group: list(found))
    one_by_one = stepped(OPTIMIZERS[name], "gpu-emulated", told=counted)
    assert counts[-1][0] > 3 * few
    if name not in ("Lamb", "Lars", "AdamW"):  # whose sums have another order, and whose rate is a number of float64 there
        assert [a.tobytes() for a in got] == [b.tobytes() for b in one_by_one]
    for a, b in zip(got, one_by_one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_tables_of_addresses_come_again_and_weights_stay_where_they_are() -> None:
    paddle.set_device("gpu-emulated")
    given = parameters(4)
    optimizer, places = optim.Adam(0.01, parameters=given), []
    gc.collect()
    for i in range(16):
        give_gradients(given, i)
        before = paddle.device.cuda.memory_stats()["uploads"]
        optimizer.step()
        places.append((paddle.device.cuda.memory_stats()["uploads"] - before, [p._value.memory.address for p in given]))
    assert [uploads for uploads, _ in places[4:]].count(0) >= 10
    assert len({tuple(p) for _, p in places[1:]}) == 1


CLIPS: dict[str, Any] = {
    "value": nn.ClipGradByValue(0.5),
    "norm": nn.ClipGradByNorm(0.7),
    "global norm": nn.ClipGradByGlobalNorm(0.9),
    "nothing to clip": nn.ClipGradByGlobalNorm(1e6),
}


@pytest.mark.parametrize("part", [1 << 16, 10])
@pytest.mark.parametrize("name", CLIPS)
def test_clips_are_a_few_launches(name: str, part: int, launches: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_each_module, "PART", part)  # a gradient is the work of one block, or of several
    make = lambda given: optim.SGD(0.1, given, grad_clip=CLIPS[name])
    counts: list[int] = []

    def counted(step: Callable[[], None]) -> None:
        stats, before = paddle.device.cuda.memory_stats(), len(launches)
        step()
        counts.append(len(launches) - before)
        assert paddle.device.cuda.memory_stats()["downloads"] == stats["downloads"]

    for a, b in zip(stepped(make, "gpu-emulated", told=counted), stepped(make, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert counts[-1] <= 9
    if name == "nothing to clip":
        plain = stepped(lambda given: optim.SGD(0.1, given), "gpu-emulated")
        assert [a.tobytes() for a in plain] == [b.tobytes() for b in stepped(make, "gpu-emulated")]


def test_what_is_clipped_stands_in_grad_and_what_needs_no_clip_does_not() -> None:
    results = []
    for device in ("cpu", "gpu-emulated"):
        paddle.set_device(device)
        given = parameters(4)
        given[1].need_clip = False
        give_gradients(given, 0)
        optim.SGD(0.1, given, grad_clip=nn.ClipGradByGlobalNorm(0.5)).step()
        results.append([p.grad.numpy() for p in given])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_rates_of_groups_and_schedules() -> None:
    def make(given: Any) -> Any:
        schedule = optim.lr.ExponentialDecay(0.1, 0.5)
        groups = [{"params": given[:3]}, {"params": given[3:], "learning_rate": 0.1, "weight_decay": 0.2}]
        made = optim.Adam(schedule, parameters=groups)
        step = made.step
        made.step = lambda: (step(), schedule.step())  # type: ignore[method-assign]
        return made

    for a, b in zip(stepped(make, "gpu-emulated"), stepped(make, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=1e-6)


def held(how: str, p: Any) -> Callable[[], Array]:
    """Somebody else who has the contents of a parameter, and what they see."""
    if how == "an array":
        array = p._value
        return lambda: np.asarray(array)
    seen: Tensor = p.detach().clone() if how == "a clone" else paddle.assign(p) if how == "assign" else (p + 0.0)
    if how == "a copy of numpy's":
        mine = p.numpy()
        return lambda: mine
    return seen.numpy


@pytest.mark.parametrize("how", ["an array", "a clone", "assign", "a sum", "a copy of numpy's"])
def test_who_has_the_weights_of_before_keeps_them(how: str) -> None:
    paddle.set_device("gpu-emulated")
    given = parameters(4)
    optimizer = optim.Momentum(0.5, parameters=given)
    give_gradients(given, 0)
    optimizer.step()  # now they were made on the device
    assert all(type(p._value) is DeviceArray for p in given)
    before, look = [p.numpy() for p in given], [held(how, p) for p in given]
    give_gradients(given, 1)
    optimizer.step()
    for p, old, see in zip(given, before, look, strict=True):
        np.testing.assert_array_equal(see(), old)
        assert not np.array_equal(p.numpy(), old)


def test_views_see_the_new_weights() -> None:
    paddle.set_device("gpu-emulated")
    (p, *_) = given = parameters(4)
    optimizer = optim.SGD(0.5, given)
    give_gradients(given, 0)
    optimizer.step()
    seen, row = p.detach(), p.detach()[1]
    give_gradients(given, 1)
    optimizer.step()
    np.testing.assert_array_equal(seen.numpy(), p.numpy())
    np.testing.assert_array_equal(row.numpy(), p.numpy()[1])


def test_rows_of_tables_and_decays_of_ones_own_are_updated_one_by_one() -> None:
    class Cubic(paddle.regularizer.L2Decay):
        def gradient(self, p: Any, xp: Any) -> Any:
            return p * p * p * self.coeff

    results = []
    for device in ("cpu", "gpu-emulated"):
        paddle.set_device(device)
        paddle.seed(0)
        table = nn.Embedding(6, 4, sparse=True)
        layer = nn.Linear(4, 3, weight_attr=paddle.ParamAttr(regularizer=Cubic(0.1)))
        optimizer = optim.Adam(0.1, parameters=[*table.parameters(), *layer.parameters()], lazy_mode=True)
        for ids in ([0, 2], [2, 5], [1, 1]):
            layer(table(paddle.to_tensor(ids))).square().mean().backward()
            optimizer.step()
            optimizer.clear_grad()
        results.append([p.numpy() for p in (*table.parameters(), *layer.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_formulas_beyond_a_number_are_applied_by_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that is another one in each step would be a program of its own in each."""
    monkeypatch.setattr(together, "MOST_FORMULAS", 2)
    monkeypatch.setattr(together, "_formulas", set())

    def changing(step: Callable[[], None]) -> None:
        optimizer = step.__self__  # type: ignore[attr-defined]
        optimizer._momentum *= 0.9
        step()

    make = lambda given: optim.Momentum(0.1, 0.9, given)
    on_gpu = stepped(make, "gpu-emulated", told=changing)
    assert len(together._formulas) == 2 and current_place().is_gpu_place() and driver_of(current_place()) is not None
    for a, b in zip(on_gpu, stepped(make, "cpu", told=changing), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("master", [True, False])
def test_weights_of_half_precision(dtype: str, master: bool, launches: list[Any]) -> None:
    results = []
    for device in ("cpu", "gpu-emulated"):
        paddle.set_device(device)
        given = parameters(8, dtype)
        optimizer = optim.Adam(0.01, parameters=given, multi_precision=master, weight_decay=0.1)
        for i in range(3):
            give_gradients(given, i)
            before = len(launches)
            optimizer.step()
        assert len(launches) - before == (6 if device != "cpu" else 0)
        results.append([p.astype("float32").numpy() for p in given] + [m.numpy() for m in optimizer._master_weights.values()])
    assert len(results[0]) == (16 if master else 8)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5 if master and len(a) else 1e-2, atol=1e-2 if not master else 5e-3)
