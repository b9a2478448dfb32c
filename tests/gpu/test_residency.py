"""Tensors live where they were computed: what is copied between main memory and a GPU, and that code that knows nothing of it sees the
right numbers.
"""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.device import copies_on, current_place
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.tensor import Tensor

F = paddle.nn.functional
cuda = paddle.device.cuda
Batch = tuple[Tensor, Tensor]


@pytest.fixture(autouse=True)
def _on_the_gpu() -> Iterator[None]:
    paddle.set_device("gpu-emulated")
    yield
    paddle.set_device("cpu")


def batches(count: int) -> Iterator[Batch]:
    """Batches that are gone when they were trained on, as those of a loader: their memory on the device is for the next ones."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield paddle.to_tensor(rng.normal(size=(8, 12)).astype("float32")), paddle.to_tensor(rng.integers(0, 4, 8))


def moved(action: Callable[[], Any]) -> dict[str, int]:
    """What `action` copied."""
    before = cuda.memory_stats()
    action()
    return {name: value - before[name] for name, value in cuda.memory_stats().items() if "loads" in name or "loaded" in name}


class Training:
    def __init__(self, compiled: str) -> None:
        paddle.seed(0)
        with paddle.utils.unique_name.guard():
            self.net = paddle.nn.Sequential(paddle.nn.Linear(12, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
        self.optimizer = paddle.optimizer.Adam(0.01, parameters=self.net.parameters())
        self.loss = paddle.jit.to_static(self.plain_loss) if compiled == "the loss" else self.plain_loss
        self.step = paddle.jit.to_static(self.plain_step) if compiled == "the step" else self.plain_step

    def plain_loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.net(x), y)

    def plain_step(self, x: Tensor, y: Tensor) -> Tensor:
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss


# Copies besides the loss, and their bytes: the least and the greatest label, which Python checks, or whether they are labels.
CHECKED = {"nothing": (0, 0), "the loss": (2, 16), "the step": (1, 1)}


@pytest.mark.parametrize("compiled", CHECKED)
def test_a_step_of_training_moves_its_inputs_and_its_loss(compiled: str) -> None:
    training, losses, before = Training(compiled), [], {}
    for i, (x, y) in enumerate(batches(11)):
        if i == 4:  # weights are there, state is made, and arrays lie where others lay before
            before = cuda.memory_stats()
        losses.append(float(training.step(x, y)))
    found = {name: value - before[name] for name, value in cuda.memory_stats().items()}
    copies, count = CHECKED[compiled]
    assert found["downloads"] == 7 * (1 + copies) and found["downloaded_bytes"] == 7 * (4 + count)
    # The batch, and of a compiled step the rate's powers at most.
    assert found["uploaded_bytes"] <= 7 * (8 * 12 * 4 + 8 * 8 + 16)
    paddle.set_device("cpu")
    reference = Training("nothing")
    np.testing.assert_allclose(losses, [float(reference.step(x, y)) for x, y in batches(11)], rtol=1e-5)


def test_a_chain_of_ops_moves_nothing_until_someone_looks() -> None:
    x = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
    made: list[Tensor] = []
    assert moved(lambda: made.append(F.relu(x * 2 - 3).reshape([3, 2]).sum(axis=0)))["downloads"] == 0
    assert moved(lambda: np.testing.assert_array_equal(made[0].numpy(), [6, 10]))["downloads"] == 1
    assert moved(lambda: made[0].tolist())["downloads"] == 0  # it is there now


def test_a_whole_array_is_reshaped_on_the_device() -> None:
    x = paddle.to_tensor(np.arange(6, dtype="float32"))
    assert moved(lambda: [x.reshape([2, 3]) + 1.0, x.reshape([3, 2]) + 1.0])["uploads"] <= 2  # and the number


# --- who takes an array for numpy's

LOOKS: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "ascontiguousarray": np.ascontiguousarray,
    "a function": np.cumsum,
    "a ufunc": lambda a: np.add(a, a),
    "an operator": lambda a: 2 * a + a,
    "a comparison": lambda a: a > 2,
    "a method": lambda a: a.astype("float64"),
    "a part": lambda a: a[1],
    "a reduction": lambda a: np.add.reduce(a),
    "a list": list,
    "its length": len,
    "concatenate": lambda a: np.concatenate([a, a]),
    "a copy": copy.copy,
    "a deep copy": copy.deepcopy,
    "pickle": lambda a: pickle.loads(pickle.dumps(a)),
    "its memory": lambda a: np.ctypeslib.as_array(a.ctypes.data_as(np.ctypeslib.ctypes.POINTER(np.ctypeslib.ctypes.c_float)), (4,)),
    "its text": repr,
    "whether it has an element": lambda a: 3.0 in a,
    "arrays inside of arrays": lambda a: np.array([a, a]),
    "a matrix product": lambda a: a @ a,
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_numpy_does_with_an_array_of_the_device(look: str) -> None:
    value = (paddle.to_tensor(np.arange(4, dtype="float32")) + 0.5)._value
    assert type(value) is DeviceArray and isinstance(value, np.ndarray)
    np.testing.assert_array_equal(LOOKS[look](value), LOOKS[look](np.arange(4, dtype="float32") + 0.5))


def test_bfloat16_is_no_bytes_for_numpy() -> None:
    value = (paddle.to_tensor([1.0, 2.0]).astype("bfloat16") + 0.5)._value
    assert type(value) is DeviceArray
    assert [look(value).dtype for look in (np.asarray, np.array, np.ascontiguousarray)] == [value.dtype] * 3
    np.testing.assert_array_equal(np.concatenate([value, value]).astype("float32"), [1.5, 2.5, 1.5, 2.5])


def test_one_number_of_the_device_is_a_number_of_pythons() -> None:
    number = paddle.to_tensor([2, 3]).sum()._value
    assert type(number) is DeviceArray
    assert (int(number), float(number), complex(number), bool(number), range(9)[number]) == (5, 5.0, 5 + 0j, True, 5)
    assert f"{paddle.to_tensor([1.5]).sum()}".startswith("1.5")


def test_nobody_writes_to_an_array_of_the_device() -> None:
    value = (paddle.ones([3]) + 1.0)._value
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        np.add(1, 1, out=value)
    with pytest.raises(ValueError, match="read-only"):
        value += 1
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(value)[0] = 5
    mask = (paddle.to_tensor([1.0, 0.0, 1.0]) > 0.0)._value
    np.testing.assert_array_equal(np.add(value, 1, where=mask, out=np.zeros(3, "float32")), [3, 0, 3])


# --- other devices, and other ways


def test_what_was_computed_on_the_gpu_goes_on_on_the_cpu() -> None:
    paddle.seed(0)
    net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(8 * 36, 4))
    optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
    x = paddle.to_tensor(np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")) * 1.0
    for _ in range(2):  # weights, gradients and state of the device
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    pending = net(x).square().mean()  # its graph was made there
    expected = net(x).numpy()
    paddle.set_device("cpu")
    np.testing.assert_allclose(net(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(paddle.jit.to_static(net.forward)(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(copy.deepcopy(net)(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    pending.backward()
    optimizer.step()
    assert not np.allclose(net(x).numpy(), expected, rtol=1e-3)


@pytest.mark.parametrize("change", ["a part", "a view", "set_value"])
def test_changes_of_what_was_computed_there(change: str) -> None:
    x = paddle.to_tensor(np.arange(6, dtype="float32")).reshape([2, 3]) + 1.0
    seen = x[0]
    if change == "a part":
        x[0, 1] = 9.0
    elif change == "a view":
        seen[1] = 9.0
    else:
        x.set_value(np.array([[1, 9, 3], [4, 5, 6]], "float32"))
    np.testing.assert_array_equal(x.numpy(), [[1, 9, 3], [4, 5, 6]])
    np.testing.assert_array_equal((seen * 2.0).numpy(), [2, 18, 6])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_parts_take_elements_that_were_computed_there(dtype: str) -> None:
    x = paddle.to_tensor([[0.0, 1.0], [2.0, 0.0]]).astype(dtype).transpose([1, 0]).reshape([2, 2])
    x[1, 1] = x[0, 1].reshape([]) == 0 if dtype == "bool" else x[0, 1] + x[1, 0]  # of one element
    x[0] = x[1].clone()
    last = 0.0 if dtype == "bool" else 3.0
    np.testing.assert_array_equal(x.astype("float32").numpy(), [[1, last], [1, last]])


def test_weights_that_were_trained_there_are_saved_and_loaded(tmp_path: Path) -> None:
    training = Training("nothing")
    for x, y in batches(2):
        training.step(x, y)
    paddle.save(training.net.state_dict(), str(tmp_path / "net.pdparams"))
    paddle.save(training.optimizer.state_dict(), str(tmp_path / "net.pdopt"))
    again = Training("nothing")
    again.net.set_state_dict(paddle.load(str(tmp_path / "net.pdparams")))
    again.optimizer.set_state_dict(paddle.load(str(tmp_path / "net.pdopt")))
    x, y = next(batches(1))
    training.step(x, y), again.step(x, y)
    for p, q in zip(training.net.parameters(), again.net.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_master_weights_stay_there() -> None:
    layer = paddle.nn.Linear(4, 4)
    optimizer = paddle.optimizer.AdamW(0.1, parameters=layer.parameters(), multi_precision=True)
    layer, optimizer = paddle.amp.decorate(layer, optimizer, "O2", "bfloat16")
    x = paddle.ones([2, 4], "bfloat16")

    def step() -> None:
        layer(x).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    step()
    before = layer.weight.astype("float32").numpy()
    assert layer.weight.dtype == paddle.bfloat16 and moved(step)["downloads"] == 0
    assert not np.array_equal(layer.weight.astype("float32").numpy(), before)


@pytest.mark.parametrize("bad", [False, True])
def test_a_scaled_step_asks_once_whether_all_gradients_are_finite(bad: bool) -> None:
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 2))
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0, decr_every_n_nan_or_inf=1)
    before = [p.numpy() for p in net.parameters()]

    def step(x: Tensor) -> None:
        with paddle.amp.auto_cast(dtype="float16"):
            loss = net(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()

    x = paddle.full([2, 4], float("inf") if bad else 0.5)
    found = moved(lambda: step(x))
    assert (found["downloads"], found["downloaded_bytes"]) == (1, 1)
    assert all(np.array_equal(p.numpy(), old) for p, old in zip(net.parameters(), before, strict=True)) == bad
    assert float(scaler._scale) == (512.0 if bad else 1024.0)


# --- memory


def test_memory_is_counted_and_given_back() -> None:
    given = paddle.to_tensor(np.zeros((256, 256), "float32"))
    given + 1.0  # the number is kept
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_allocated()
    assert cuda.memory_reserved() == before
    x = given + 1.0
    assert cuda.memory_allocated() == before + x.nbytes
    cuda.reset_peak_memory_stats()
    x = x * x
    assert cuda.memory_allocated() == before + x.nbytes and cuda.max_memory_allocated() == before + 2 * x.nbytes
    del x
    assert cuda.memory_allocated() == before and cuda.memory_reserved() == before + 2 * given.nbytes
    cuda.empty_cache()
    assert cuda.memory_reserved() == before


def test_more_small_arrays_than_are_kept_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyreme.runtime.gpu.copies.MOST_SMALL", len(copies_on(current_place())._small) + 2)
    x = paddle.ones([3])
    for _ in range(2):
        for number in (3.25, 4.25, 5.25, 6.25):
            np.testing.assert_array_equal((x * number).numpy(), [number] * 3)
            np.testing.assert_array_equal((number - x).numpy(), [number - 1] * 3)


def test_what_a_gpu_is() -> None:
    assert cuda.get_device_capability() == (9, 0) and cuda.get_device_properties("gpu-emulated").multi_processor_count == 1
    cuda.synchronize()
    with pytest.raises(ValueError, match="expected a GPU"):
        cuda.memory_allocated("cpu")
    paddle.set_device("cpu")
    assert cuda.device_count() == int(paddle.is_compiled_with_cuda())
