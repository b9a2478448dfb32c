"""Tensors of a CUDA device handed to other libraries and taken from them, on the stand-in for the driver: addresses, streams, lifetimes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.device import copies_on, current_place, driver_of
from polyreme.runtime import dlpack
from polyreme.runtime.gpu.arrays import LentMemory
from tests.gpu.cuda_stand_in import CudaStandIn
from tests.gpu.running import forget_devices

from_dlpack, to_dlpack = paddle.utils.dlpack.from_dlpack, paddle.utils.dlpack.to_dlpack


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaStandIn]:
    stand_in = CudaStandIn(monkeypatch)
    forget_devices(monkeypatch)
    paddle.set_device("gpu")
    yield stand_in
    paddle.set_device("cpu")
    gc.collect()


class Theirs:
    """An array of another library on the device."""

    def __init__(self, cuda: CudaStandIn, values: Any, stream: int | None = None, offset: int = 0, strides: Any = None):
        self.cuda, self.array, self.strides, self.asked = cuda, np.asarray(values), strides, []
        self.memory = cuda.device.allocate(self.array.nbytes + offset)
        self.address, self.stream = self.memory + offset, stream
        self.write(self.array)
        self.ended: list[Any] = []

    def write(self, values: Any) -> None:
        self.cuda.device.upload(self.address, np.ascontiguousarray(values, self.array.dtype))

    def read(self) -> Any:
        made = np.empty_like(self.array)
        self.cuda.device.download(self.address, made)
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        said = {"shape": self.array.shape, "typestr": self.array.dtype.str, "data": (self.address, False), "version": 3}
        return said | {"strides": self.strides, "stream": self.stream}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.asked.append(stream)
        a = self.array
        strides = self.strides or [s // a.itemsize for s in a.strides]
        return dlpack.capsule_of(self.address, a.shape, strides, a.dtype, (2, 0), Keeper(self.ended), False, max_version is not None)


class Keeper:
    def __init__(self, ended: list[Any]):
        self.ended = ended

    def __del__(self) -> None:
        self.ended.append(True)


def test_what_was_computed_tells_where_it_lies(cuda: CudaStandIn) -> None:
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]) * 2
    downloads = paddle.device.cuda.memory_stats()["downloads"]
    said = x.__cuda_array_interface__
    assert said | {"data": None} == {"shape": (2, 2), "typestr": "<f4", "data": None, "strides": None, "stream": 1, "version": 3}
    found = np.empty((2, 2), "float32")
    cuda.device.download(said["data"][0], found)
    assert found.tolist() == [[2, 4], [6, 8]] and paddle.device.cuda.memory_stats()["downloads"] == downloads
    assert x.__dlpack_device__() == (2, 0)
    received = dlpack.receive(x.__dlpack__())
    assert (received.address, received.shape, received.device) == (said["data"][0], (2, 2), (2, 0))
    assert x.__cuda_array_interface__["data"][0] == said["data"][0], "once is enough"


def test_what_others_write_is_seen_in_the_tensor_and_in_no_copy(cuda: CudaStandIn) -> None:
    x = paddle.to_tensor([1.0, 2.0]) * 2
    same, before = x.clone(), x.numpy()
    address = x.__cuda_array_interface__["data"][0]
    later = x.clone()
    cuda.device.upload(address, np.array([7, 8], "float32"))
    assert x.tolist() == [7, 8] and (x + 0.0).tolist() == [7, 8]
    assert same.tolist() == later.tolist() == before.tolist() == [2, 4]


def test_memory_of_others_is_read_where_it_is(cuda: CudaStandIn) -> None:
    theirs = Theirs(cuda, np.arange(6, dtype="float32").reshape(2, 3))
    before = paddle.device.cuda.memory_stats()
    x = from_dlpack(theirs)
    y = x * 2
    assert theirs.asked == [1], "on the default stream"
    assert x.place == paddle.CUDAPlace(0) and x._value.memory.address == theirs.address and type(x._value.memory) is LentMemory
    after = paddle.device.cuda.memory_stats()
    assert after["uploads"] - before["uploads"] <= 1 and after["downloads"] == before["downloads"]  # the number 2
    np.testing.assert_array_equal(y.numpy(), 2 * theirs.array)
    theirs.write(np.ones((2, 3)))
    assert x.numpy().sum() == 6


def test_it_is_given_back_when_all_kernels_that_read_it_are_done(cuda: CudaStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, order = Theirs(cuda, np.arange(4, dtype="float32")), []
    driver = driver_of(current_place())
    monkeypatch.setattr(driver, "synchronize", lambda: order.append(("waited", list(theirs.ended))))
    x = from_dlpack(theirs)
    y = x + 1.0
    del x
    gc.collect()
    assert not theirs.ended, "kernels may read it still"
    copies_on(current_place()).stats()
    gc.collect()
    assert theirs.ended == [True] and order == [("waited", [])]
    assert y.tolist() == [1, 2, 3, 4]


def test_an_optimizer_writes_to_no_memory_of_others(cuda: CudaStandIn) -> None:
    theirs = Theirs(cuda, np.ones(8, "float32"))
    p = from_dlpack(theirs)
    p.stop_gradient = False
    optimizer = paddle.optimizer.SGD(0.5, [p])
    for _ in range(2):
        p.clear_gradient()
        (p * p).sum().backward()
        optimizer.step()
    assert theirs.read().tolist() == [1] * 8 and p.tolist() == [0] * 8


def test_elements_between_others_are_copied_to_a_place_of_their_own(cuda: CudaStandIn) -> None:
    theirs = Theirs(cuda, np.arange(8, dtype="float32"), offset=4)
    x = from_dlpack(theirs)
    assert x._value.memory.address % 256 == 0 and (x * 2).tolist() == (2 * theirs.array).tolist()


@pytest.mark.parametrize("stream", [None, 1, 77])
def test_to_tensor_copies_what_has_the_interface(cuda: CudaStandIn, stream: int | None) -> None:
    theirs = Theirs(cuda, np.arange(3, dtype="int64"), stream)
    x = paddle.to_tensor(theirs)
    assert x.dtype == paddle.int64 and x.place == paddle.CUDAPlace(0)
    theirs.write(np.zeros(3))
    assert x.tolist() == [0, 1, 2] and paddle.to_tensor(theirs, "float32").dtype == paddle.float32


def test_what_cannot_be_taken(cuda: CudaStandIn) -> None:
    strided = Theirs(cuda, np.arange(6, dtype="float32").reshape(2, 3), strides=(1, 2))
    with pytest.raises(BufferError, match=r"elements row by row, with strides \[3, 1\], but got \[1, 2\]: make it contiguous"):
        from_dlpack(strided)
    strided.strides = (4, 8)
    with pytest.raises(TypeError, match=r"elements row by row, and no mask, but got strides \(4, 8\)"):
        paddle.to_tensor(strided)
    x = paddle.ones([2]).astype("bfloat16") + 1
    with pytest.raises(TypeError, match="that numpy has for __cuda_array_interface__ but got bfloat16: use DLPack"):
        _ = x.__cuda_array_interface__
    assert from_dlpack(to_dlpack(x)).astype("float32").tolist() == [2, 2]
    x.stop_gradient = False
    with pytest.raises(RuntimeError, match="Can't get __cuda_array_interface__ on Tensor that requires grad"):
        _ = x.__cuda_array_interface__
    with pytest.raises(ValueError, match="stream=0 is ambiguityous"):
        paddle.ones([2]).__dlpack__(stream=0)


def test_in_main_memory_when_that_is_asked_for(cuda: CudaStandIn) -> None:
    x = paddle.to_tensor([1.0, 2.0]) * 2
    assert np.from_dlpack(x, device="cpu").tolist() == [2, 4]
    with pytest.raises(BufferError, match="expected no copy, but the tensor lies on a device"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    assert from_dlpack(x, device="cpu").place == paddle.CPUPlace()


def test_the_emulated_device_is_main_memory_to_others() -> None:
    paddle.set_device("gpu-emulated")
    try:
        x = paddle.to_tensor([1.0, 2.0]) * 2
        assert x.__dlpack_device__() == (1, 0) and np.from_dlpack(x).tolist() == [2, 4] and not hasattr(x, "__cuda_array_interface__")
    finally:
        paddle.set_device("cpu")
