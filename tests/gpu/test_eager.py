"""Ops in dygraph mode on a GPU: a kernel each, the numbers of the CPU, and copies on the device that are never stale."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch
from polyreme.compiled import device_kernels
from polyreme.device import copies_on, current_place, driver_of
from polyreme.dialects import dist
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.types import scalar_type
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.tensor import Tensor
from tests.gpu.running import DEVICES
from tests.nn_cases import CASES, OF_COMPLEX, UNIFORM, Case, numbers_close

F = paddle.nn.functional
OPS = [cls for cls in vars(ops).values() if isinstance(cls, type) and issubclass(cls, Op)]
DTYPES = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]


@pytest.fixture(autouse=True)
def _on_the_cpu_afterwards() -> Iterator[None]:
    yield
    paddle.set_device("cpu")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The grids of all kernels that the emulated GPU is given from now on."""
    seen: list[Any] = []
    launch = EmulatedDriver.launch

    def count(self: EmulatedDriver, function: Any, grid: Any, *rest: Any) -> None:
        seen.append(grid)
        launch(self, function, grid, *rest)

    monkeypatch.setattr(EmulatedDriver, "launch", count)
    return seen


def random(*shape: int, dtype: str = "float32", seed: int = 0) -> Tensor:
    return paddle.to_tensor(np.random.default_rng(seed).uniform(0.5, 2, shape).astype(dtype))


# --- the ops


def run(case: Case) -> list[np.ndarray[Any, Any]]:
    operands = [
        [Tensor._wrap(a) for a in o] if isinstance(o, list) else None if o is None else Tensor._wrap(np.asarray(o)) for o in case.operands
    ]
    found = dispatch.call(case.cls, *operands, **case.attributes)
    return [t._value for t in (found if isinstance(found, tuple) else (found,))]


def one_of_each(dtype: np.dtype[Any]) -> list[Case]:
    """A case per op and kinds of operands, in a type; some are odd, broadcast, numbers or empty."""
    chosen: dict[Any, Case] = {}
    for case in [*CASES, UNIFORM]:
        typed = case.typed(dtype)
        chosen[case.cls, tuple(a.dtype for a in typed.arrays), tuple(a.size == 0 for a in typed.arrays)] = typed
    return list(chosen.values())


# What has no code on a GPU and runs on the host, by the type of the operands, and what the compiler says of it.
NO_DOUBLE = "on a GPU but got float64, for which there is no code yet"
ON_HOST = {
    "float32": {},
    "float64": dict.fromkeys(("nn.atan2", "nn.cos", "nn.sin", "nn.tan"), NO_DOUBLE),
    "float16": {"nn.uniform": "no rule gives single elements of 'tensor.random'"},
    "bfloat16": {"nn.uniform": "no rule gives single elements of 'tensor.random'"},
}  # fmt: skip


# Every op in float32 and in one of the 16-bit types, which are computed in float32; of float64 a part.
SLOW = ("float64", "float16")
PART = {*ON_HOST["float64"], "nn.exp", "nn.matmul", "nn.softmax", "nn.sum", "nn.conv", "nn.add", "nn.cast", "nn.where"}


@DEVICES
@pytest.mark.parametrize("dtype", [pytest.param(d, marks=[pytest.mark.slow] * (d.name in SLOW), id=d.name) for d in DTYPES])
def test_every_op_gives_the_numbers_of_the_cpu_and_these_alone_run_on_the_host(
    device: str, dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = one_of_each(dtype)
    if dtype.name == "float32":
        # Python's own in eager mode
        of_control = {cls for cls in OPS if cls.name in ("nn.custom_gradient", "nn.if", "nn.overwrite", "nn.scan", "nn.while", "nn.yield")}
        assert {case.cls for case in cases} >= set(OPS) - OF_COMPLEX - of_control, "an op has no case"
    check_ops(cases, device, dtype, monkeypatch)


@DEVICES
def test_ops_of_float64_give_the_numbers_of_the_cpu(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in one_of_each(np.dtype(np.float64)) if case.cls.name in PART]
    assert {case.cls.name for case in cases} == PART
    check_ops(cases, device, np.dtype(np.float64), monkeypatch)


def check_ops(cases: list[Case], device: str, dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases give on the device what they do on the CPU, and what runs on the host is what `ON_HOST` says."""
    uniform = [case for case in cases if case.cls is UNIFORM.cls]
    cases = cases + [Case("drawn", case.cls, case.operands, {**case.attributes, "dtype": scalar_type(dtype)}) for case in uniform]
    expected = [run(case) for case in cases]
    monkeypatch.setattr(device_kernels, "_programs", {})
    monkeypatch.setattr(dispatch, "_plans_of", {**dispatch._plans_of})
    dispatch._plans_of.pop(paddle.set_device(device))
    paddle.set_device(device)
    for case, wanted in zip(cases, expected, strict=True):
        for got, right in zip(run(case), wanted, strict=True):
            assert got.dtype == right.dtype, case
            numbers_close(got, right, dtype)
    reasons = {name.partition("(")[0]: reason for name, reason in device_kernels.on_host().items()}
    assert reasons.keys() == ON_HOST[dtype.name].keys()
    for name, reason in ON_HOST[dtype.name].items():
        assert reason in reasons[name]


def test_complex_numbers_are_computed_on_the_gpu_as_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_kernels, "_programs", {})
    paddle.set_device("gpu-emulated")
    x = paddle.to_tensor(np.array([1 + 2j, 3j], "complex64"))
    np.testing.assert_array_equal((x + x * x.conj()).numpy(), [6 + 2j, 9 + 3j])
    assert not device_kernels.on_host()


SAMPLES: dict[str, Callable[..., Tensor]] = {
    "broadcast": lambda x, y: x * y[0] + y[:, :1] - 2,
    "numbers": lambda x, y: x.sum() / (1 + y.mean()),
    "product": lambda x, y: paddle.matmul(x, y, transpose_y=True),
    "views": lambda x, y: paddle.concat([x.T.reshape([-1]), y.flatten()])[1:-1],
    "softmax": lambda x, y: F.softmax(x - y, axis=0) * paddle.maximum(x, y),
    "choice": lambda x, y: paddle.where(x > y, x * x, paddle.sqrt(y)),
}
SHAPES = [(3, 5), (1, 1), (0, 4), (7, 1)]


@DEVICES
@pytest.mark.parametrize("sample", SAMPLES)
def test_values_and_gradients_are_those_of_the_cpu(device: str, sample: str) -> None:
    def results(shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
        x, y = random(*shape), random(*shape, seed=1)
        x.stop_gradient = y.stop_gradient = False
        made = SAMPLES[sample](x, y)
        (made * made).sum().backward()
        return [made.numpy(), x.grad.numpy(), y.grad.numpy()]

    shapes = [s for s in SHAPES if s[0] or sample != "broadcast"]
    expected = [results(shape) for shape in shapes]
    paddle.set_device(device)
    for shape, wanted in zip(shapes, expected, strict=True):
        for got, right in zip(results(shape), wanted, strict=True):
            numbers_close(got, right, np.float32)


def test_second_gradients_run_on_the_gpu_too(launched: list[Any]) -> None:
    paddle.set_device("gpu-emulated")
    x = random(3)
    x.stop_gradient = False
    (first,) = paddle.grad((x * x * x).sum(), [x], create_graph=True)
    before = len(launched)
    (second,) = paddle.grad(first.sum(), [x])
    assert len(launched) > before
    np.testing.assert_allclose(second.numpy(), 6 * x.numpy(), rtol=1e-6)


# --- where the work is done


def test_each_op_of_forward_and_backward_is_a_kernel(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    paddle.set_device("gpu-emulated")
    x, y = random(4, 3), random(4, 3, seed=1)
    for cls in (ops.Mul, ops.Exp):
        monkeypatch.setattr(cls, "reference", None)  # nothing but the device can compute it
    x.stop_gradient = False
    z = paddle.exp(x * y)
    assert len(launched) == 2
    z.backward(y)
    assert len(launched) == 5  # dy * z, and that times y and times x
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.numpy() * y.numpy()) * y.numpy() ** 2, rtol=1e-5)


def test_setting_the_device_moves_the_ops_that_follow(launched: list[Any]) -> None:
    x = random(5)
    counts, found = [], []
    for device in ("cpu", "gpu-emulated", "cpu", "gpu-emulated"):
        paddle.set_device(device)
        found.append(paddle.tanh(x).numpy())
        counts.append(len(launched))
    assert counts == [0, 1, 1, 2]
    for other in found:
        np.testing.assert_allclose(other, found[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "AdamW", "RMSProp", "Adagrad", "Adamax", "Adadelta"])
def test_an_optimizer_steps_on_the_gpu(name: str, launched: list[Any]) -> None:
    options: dict[str, Any] = {"grad_clip": paddle.nn.ClipGradByGlobalNorm(0.5)}
    if name not in ("AdamW",):
        options["weight_decay"] = paddle.regularizer.L1Decay(0.1)

    def trained(device: str) -> list[np.ndarray[Any, Any]]:
        paddle.set_device(device)
        p = paddle.create_parameter([2, 3], "float32", default_initializer=paddle.nn.initializer.Assign(random(2, 3).numpy()))
        optimizer = getattr(paddle.optimizer, name)(learning_rate=0.1, parameters=[p], **options)
        for seed in range(2):
            p.grad = random(2, 3, seed=seed)
            optimizer.step()
        return [p.numpy(), *(t.numpy() for t in optimizer.state_dict().values() if isinstance(t, Tensor))]

    expected = trained("cpu")
    assert not launched
    for got, wanted in zip(trained("gpu-emulated"), expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-7)
    assert launched


def test_draws_are_made_on_the_gpu_with_the_bits_of_the_cpu(launched: list[Any]) -> None:
    drawn = []
    for device in ("cpu", "gpu-emulated"):
        paddle.set_device(device)
        paddle.seed(11)
        drawn += [paddle.rand([40]).numpy().tobytes() + paddle.rand([3]).numpy().tobytes()]
    assert drawn[0] == drawn[1] and launched


def test_one_kernel_serves_all_shapes_of_an_elementwise_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_kernels, "_programs", {})
    monkeypatch.setattr(dispatch, "_plans_of", {**dispatch._plans_of})
    dispatch._plans_of.pop(paddle.set_device("gpu-emulated"))
    paddle.set_device("gpu-emulated")
    for shape in ((3,), (2, 2), (1, 5, 1), (0, 2)):
        x = random(*shape)
        np.testing.assert_array_equal((x + x).numpy(), 2 * x.numpy())
        assert (x + x).shape == list(shape)
    assert len(device_kernels._programs) == 1


# --- copies


def test_arrays_go_to_the_device_once() -> None:
    place = paddle.set_device("gpu-emulated")
    copies = copies_on(place)
    x, w = random(40, 30), random(30, 40)
    before = copies.uploads
    y = paddle.matmul(x, w)
    assert copies.uploads == before + 2
    y = paddle.matmul(x, w) + y  # nothing new
    layer = paddle.jit.to_static(lambda a: paddle.matmul(a, w))
    layer(x)
    assert copies.uploads == before + 2


CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "a part": lambda x: x.__setitem__(0, 7.0),
    "in place": lambda x: x.add_(paddle.ones(x.shape)),
    "set_value": lambda x: x.set_value(np.arange(x.size, dtype="float32")),
    "fill": lambda x: x.fill_(3.0),
}


@pytest.mark.parametrize("size", [3, 2000])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_tensor_is_seen(change: str, compiled: bool, size: int) -> None:
    paddle.set_device("gpu-emulated")
    x = random(size)
    double = paddle.jit.to_static(lambda: x * 2) if compiled else lambda: x * 2
    double()
    old = x.numpy()
    CHANGES[change](x)
    assert (x.numpy() != old).any()
    np.testing.assert_array_equal(double().numpy(), 2 * x.numpy())


def test_nobody_can_write_to_an_array_that_has_a_copy() -> None:
    paddle.set_device("gpu-emulated")
    given = np.ones(2000, "float32")
    x = paddle.to_tensor(given)
    x + x
    given[0] = 5  # the user's own array
    x.numpy()[0] = 5  # and a copy for the user
    np.testing.assert_array_equal((x + x).numpy(), [2] * 2000)
    with pytest.raises(ValueError, match="read-only"):
        x._value[0] = 5


def test_a_view_is_copied_at_every_call_since_its_base_may_change() -> None:
    place = paddle.set_device("gpu-emulated")
    base = np.ones((2, 2000), "float32")
    x = Tensor._wrap(base[0])
    (x + x).numpy()
    base[0, 1] = 4
    before = copies_on(place).uploads
    np.testing.assert_array_equal((x + x).numpy()[:3], [2, 8, 2])
    assert copies_on(place).uploads == before + 2


@pytest.mark.parametrize("of_bytes", [False, True])
def test_a_view_of_what_nobody_writes_to_is_copied_once(of_bytes: bool) -> None:
    place = paddle.set_device("gpu-emulated")
    base = np.ones((2, 2000), "float32")
    base.flags.writeable = False
    base = np.frombuffer(base.tobytes(), "float32").reshape(2, 2000) if of_bytes else base
    x = Tensor._wrap(base[0])
    (x + x).numpy()
    before = copies_on(place).uploads
    np.testing.assert_array_equal((x + x).numpy()[:3], [2, 2, 2])
    assert copies_on(place).uploads == before


def test_small_arrays_are_known_by_their_contents() -> None:
    place = paddle.set_device("gpu-emulated")
    base = np.array([[1.5, 2.5, 3.5], [0.0, -0.0, 7.25]], "float32")
    x = Tensor._wrap(base[0])
    (x + x).numpy()  # it comes twice
    before = copies_on(place).uploads
    np.testing.assert_array_equal((x + Tensor._wrap(base[0].copy())).numpy(), [3, 5, 7])
    bits = Tensor._wrap(base[0].view("int32").copy())  # the same bytes
    np.testing.assert_array_equal((bits + bits).numpy(), 2 * base[0].view("int32"))
    assert copies_on(place).uploads == before
    base[0, 1] = 4
    np.testing.assert_array_equal((x + x).numpy(), [3, 8, 7])


def test_a_fill_of_many_elements_is_made_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_kernels, "_programs", {})
    place = paddle.set_device("gpu-emulated")
    made = [paddle.full([3, 500], number) for number in (1.5, -2.0)] + [paddle.zeros([1500]), paddle.full([1500], 3, "int64")]
    before = copies_on(place).uploads
    made += [paddle.full([500, 3], 1.5), paddle.zeros([1500]), paddle.ones([2, 2])]
    assert copies_on(place).uploads <= before + 2  # the numbers, which may come for the second time
    for tensor, (shape, number) in zip(
        made, [([3, 500], 1.5), ([3, 500], -2), ([1500], 0), ([1500], 3), ([500, 3], 1.5), ([1500], 0), ([2, 2], 1)], strict=True
    ):
        np.testing.assert_array_equal(tensor.numpy(), np.full(shape, number))
    assert not device_kernels.on_host(place)


@pytest.mark.usefixtures("only_new_garbage")
def test_memory_of_arrays_that_are_gone_is_used_again() -> None:
    place = paddle.set_device("gpu-emulated")
    copies = copies_on(place)
    x = random(1000)
    held = x + x
    gc.collect()
    count, allocations = len(copies), len(driver_of(place).memory.starts)
    for _ in range(20):
        held = x + held
    gc.collect()
    assert len(copies) == count and len(driver_of(place).memory.starts) <= allocations + 2


# --- what is said


def test_a_tensor_says_where_it_was_made() -> None:
    on_cpu = random(2)
    place = paddle.set_device("gpu-emulated")
    made = random(2) + on_cpu
    assert paddle.get_device() == "gpu-emulated" and current_place() == place
    assert on_cpu.place.is_cpu_place() and made.place == place and "place=Place(gpu-emulated)" in repr(made)
    paddle.set_device("cpu")
    assert made.place == place and made.detach().place == place
    assert made.cpu().place.is_cpu_place() and made.to("gpu-emulated") is made and on_cpu.to("gpu-emulated").place == place
    assert (made + on_cpu).place.is_cpu_place()


def test_moving_passes_gradients_on() -> None:
    paddle.set_device("gpu-emulated")
    x = random(3)
    x.stop_gradient = False
    (x.cpu() * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3, 3])


@pytest.mark.gpu
def test_a_tensor_of_a_gpu_is_printed_as_paddle_does() -> None:
    paddle.set_device("gpu")
    x = paddle.to_tensor([1.0])
    assert paddle.get_device() == "gpu:0" and str(x.place) == "Place(gpu:0)" and "place=Place(gpu:0)" in repr(x + x)


def test_moving_a_layer_or_a_new_tensor_is_seen_in_its_place() -> None:
    layer = paddle.nn.Linear(2, 3)
    place = paddle.set_device("gpu-emulated")
    assert layer.weight.place.is_cpu_place() and layer.to("gpu-emulated").weight.place == place
    assert paddle.to_tensor([1.0], place=paddle.CPUPlace()).place.is_cpu_place()


def test_collective_calls_of_dygraph_mode_stay_with_the_host() -> None:
    place = paddle.set_device("gpu-emulated")
    x = random(3)
    assert device_kernels.choose(place, dist.AllReduce, [(x.type,)], {"reduce": "sum"}, (x.type,)) is None
    np.testing.assert_array_equal(dispatch.call(dist.AllReduce, [x], reduce="sum").numpy(), x.numpy())
