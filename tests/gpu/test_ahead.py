"""Batches that go to the device while kernels run: in whatever order streams do their work, numbers are right, and no copy writes to what a
kernel still reads. On the stand-in for the driver, whose streams do what they were asked as late as they may.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.device import copies_on, current_place
from polyreme.runtime.gpu import ahead as ahead_module
from polyreme.runtime.gpu.ahead import AheadMemory, CopiesAhead
from polyreme.runtime.gpu.arrays import DeviceArray
from tests.gpu.cuda_stand_in import CudaStandIn
from tests.gpu.running import forget_devices

COPIES = 5001  # the second stream
LAZY = {"at once": set(), "kernels late": {0}, "copies late": {COPIES}, "both late": {0, COPIES}}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaStandIn]:
    stand_in = CudaStandIn(monkeypatch)
    forget_devices(monkeypatch)
    paddle.set_device("gpu")
    yield stand_in
    paddle.set_device("cpu")
    gc.collect()
    stand_in.lazy.clear()


class Rows(paddle.io.Dataset):
    def __init__(self, count: int, size: int = 2000):
        self.data = np.random.default_rng(0).normal(size=(count, size)).astype("float32")

    def __getitem__(self, i: int) -> Any:
        return self.data[i], np.int64(i)

    def __len__(self) -> int:
        return len(self.data)


@pytest.mark.parametrize("lazy", LAZY)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_of_training_reads_its_batches_and_no_others(cuda: CudaStandIn, lazy: str, workers: int) -> None:
    data = Rows(24)
    results = []
    for i, (x, y) in enumerate(paddle.io.DataLoader(data, batch_size=2, num_workers=workers)):
        cuda.lazy = LAZY[lazy]
        assert type(x._value) is DeviceArray and type(x._value.memory) is AheadMemory and x.place == paddle.CUDAPlace(0)
        results.append(((x * 2.0 + 1.0).sum(axis=1), y + 1))
        if i % 5 == 4:
            assert float(results[-1][0][0]) == pytest.approx(float((data.data[2 * i] * 2 + 1).sum()), rel=1e-4)
    for i, (total, after) in enumerate(results):
        np.testing.assert_allclose(total.numpy(), (data.data[2 * i : 2 * i + 2] * 2 + 1).sum(1), rtol=1e-4)
        assert after.tolist() == [2 * i + 1, 2 * i + 2]
    assert cuda.calls["cuMemcpyHtoDAsync_v2"] == 24
    copies = copies_on(current_place()).ahead()
    # Memory of few batches serves all of them.
    assert sum(map(len, copies._pinned.values())) <= 2 * ahead_module.MOST_IDLE


def test_a_copy_waits_for_the_kernels_that_read_its_memory_before(cuda: CudaStandIn) -> None:
    """Without the wait this fails: see `test_the_stand_in_finds_a_copy_that_does_not_wait`."""
    assert overwritten(cuda) == [1.0, 1.0]


def test_the_stand_in_finds_a_copy_that_does_not_wait(cuda: CudaStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyreme.runtime.gpu.streams import SideStream

    monkeypatch.setattr(SideStream, "wait", lambda self, event: None)
    assert overwritten(cuda) == [2.0, 2.0]


def test_the_stand_in_finds_kernels_that_do_not_wait(cuda: CudaStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyreme.runtime.gpu.streams import SideStream

    ahead = copies_on(current_place()).ahead()
    cuda.lazy = {COPIES}
    right = paddle.Tensor._wrap(ahead.send(np.ones(2, "float32")).arrived()) + 0.0
    assert right.tolist() == [1, 1]
    monkeypatch.setattr(SideStream, "let_kernels_wait", lambda self, event: None)
    wrong = paddle.Tensor._wrap(ahead.send(np.full(2, 5, "float32")).arrived()) + 0.0
    assert wrong.tolist() != [5, 5]


def overwritten(cuda: CudaStandIn) -> list[float]:
    """What a kernel under way reads of an array that is gone, when another one came to its memory."""
    ahead = copies_on(current_place()).ahead()
    x = paddle.Tensor._wrap(ahead.send(np.ones(2, "float32")).arrived())
    paddle.Tensor._wrap(ahead.send(np.zeros(2, "float32")).arrived()) + 0.0  # the kernel is compiled, and its number there
    cuda.lazy = {0}
    y = x + 0.0
    address = x._value.memory.address
    del x
    gc.collect()
    later = [ahead.send(np.full(2, 2, "float32")).arrived() for _ in range(2)]
    assert address in [array.memory.address for array in later]
    return y.tolist()


@pytest.mark.parametrize("lazy", LAZY)
def test_batches_that_nobody_takes_leave_their_memory_in_order(cuda: CudaStandIn, lazy: str) -> None:
    ahead = copies_on(current_place()).ahead()
    paddle.ones([2]) + 0.0
    cuda.lazy = LAZY[lazy]
    for i in range(20):
        ahead.send(np.full(2, float(i), "float32"))  # gone at once
        kept = ahead.send(np.full(2, float(-i), "float32"))
        assert (paddle.Tensor._wrap(kept.arrived()) + 0.0).tolist() == [-i, -i]


def test_pinned_memory_is_written_to_when_the_copy_out_of_it_is_done(cuda: CudaStandIn) -> None:
    ahead = copies_on(current_place()).ahead()
    paddle.ones([2]) + 0.0
    cuda.lazy = {COPIES}
    sent = [ahead.send(np.full(2, float(i), "float32")) for i in range(30)]
    assert [(paddle.Tensor._wrap(s.arrived()) + 0.0).tolist() for s in sent] == [[i, i] for i in range(30)]
    assert len(cuda.pinned) <= ahead_module.MOST_IDLE + 1


def test_a_pass_that_ends_early_and_values_that_python_looks_at(cuda: CudaStandIn) -> None:
    data = Rows(8)
    x, y = next(iter(paddle.io.DataLoader(data, batch_size=2, num_workers=1)))
    downloads = paddle.device.cuda.memory_stats()["downloads"]
    np.testing.assert_array_equal(x.numpy(), data.data[:2])
    assert y.tolist() == [0, 1] and paddle.device.cuda.memory_stats()["downloads"] == downloads, "it came from main memory"


def test_without_a_buffer_reader_and_on_other_places_batches_are_as_before(cuda: CudaStandIn) -> None:
    data = Rows(4)
    for options in ({"use_buffer_reader": False}, {"places": paddle.CPUPlace()}, {"places": [paddle.CPUPlace()]}):
        (x, _), *_ = paddle.io.DataLoader(data, batch_size=2, **options)
        assert type(x._value) is np.ndarray
    (x, _), *_ = paddle.io.DataLoader(data, batch_size=2, places=[paddle.CUDAPlace(0)])
    assert type(x._value) is DeviceArray
    cuda.failing["cuStreamCreate"] = 2
    copies = copies_on(current_place())
    copies._asked_ahead, copies._ahead = False, None
    assert copies.ahead() is None
    (x, _), *_ = paddle.io.DataLoader(data, batch_size=2)
    assert type(x._value) is np.ndarray


def test_batches_of_other_kinds(cuda: CudaStandIn) -> None:
    class Kinds(paddle.io.Dataset):
        def __getitem__(self, i: int) -> Any:
            return {"x": np.full(3, i, "float32"), "name": f"n{i}", "parts": (np.int64(i), [np.zeros((0, 2), "float32")])}

        def __len__(self) -> int:
            return 4

    seen = list(paddle.io.DataLoader(Kinds(), batch_size=2))
    assert [(b["x"] * 2).sum().item() for b in seen] == [6, 30] and seen[1]["name"] == ["n2", "n3"]
    assert seen[1]["parts"][0].tolist() == [2, 3] and seen[0]["parts"][1][0].shape == [2, 0, 2]


def test_the_emulated_device_takes_them_too() -> None:
    paddle.set_device("gpu-emulated")
    try:
        data = Rows(6, 10)
        for i, (x, _) in enumerate(paddle.io.DataLoader(data, batch_size=2)):
            assert isinstance(copies_on(current_place()).ahead(), CopiesAhead) and type(x._value) is DeviceArray
            np.testing.assert_allclose((x * 2).numpy(), data.data[2 * i : 2 * i + 2] * 2)
    finally:
        paddle.set_device("cpu")


# --- paddle.device


def test_streams_and_events(cuda: CudaStandIn) -> None:
    for module in (paddle.device, paddle.device.cuda):
        stream, start = module.Stream(), module.Event(enable_timing=True)
        assert start.query()
        start.record()
        cuda.lazy = {0}
        with module.stream_guard(stream):
            y = paddle.ones([2]) * 3
            end = stream.record_event()
        assert not end.query() and not stream.query()
        end.synchronize()
        assert end.query() and start.elapsed_time(end) == 1.0 and y.tolist() == [3, 3]
        assert module.current_stream() == stream and stream.place == paddle.CUDAPlace(0) and stream.cuda_stream == 0
        other = module.Stream(priority=1)
        other.wait_event(end), other.wait_stream(stream), other.synchronize()
        assert other.query()
        cuda.lazy = set()
    assert paddle.device.set_stream(stream) == stream
    with pytest.raises(TypeError, match="expected a Stream but got int"):
        paddle.device.set_stream(5)
    with pytest.raises(RuntimeError, match="two events that were recorded"):
        paddle.device.Event().elapsed_time(end)


def test_pinned_tensors(cuda: CudaStandIn) -> None:
    x = paddle.to_tensor(np.arange(4, dtype="float32")).pin_memory()
    assert x.place == paddle.CUDAPinnedPlace() and x.place.is_cuda_pinned_place() and not x.place.is_gpu_place()
    assert x._value.ctypes.data in cuda.pinned and x.pin_memory() is x
    assert (x * 2).tolist() == [0, 2, 4, 6] and paddle.ones([0]).pin_memory().shape == [0]
    del x
    gc.collect()
    assert not cuda.pinned


def test_memory_is_told_and_given_back(cuda: CudaStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    x = paddle.ones([5000]) + 1
    del x
    paddle.device.cuda.memory_summary()
    assert "allocated_bytes" in capsys.readouterr().out
    assert paddle.device.cuda.vmm_compact() >= 20000 and paddle.device.cuda.vmm_compact() == 0
    assert paddle.device.memory_allocated() == paddle.device.cuda.memory_allocated() and paddle.device.device_count() == 1


def test_without_a_device() -> None:
    """As Paddle without CUDA, but for what crashes there."""
    device, cuda = paddle.device, paddle.device.cuda
    if cuda.device_count():
        pytest.skip("there is one")
    assert device.device_count() == 0 and not device.is_available() and cuda.empty_cache() is None
    for call in (cuda.Stream, cuda.Event, cuda.current_stream, cuda.synchronize, device.Stream, device.synchronize):
        with pytest.raises(RuntimeError, match="GPU"):
            call()
    for call in (cuda.memory_allocated, cuda.max_memory_reserved, cuda.get_device_properties, cuda.get_device_name, cuda.memory_stats):
        with pytest.raises(ValueError, match="GPU"):
            call()
    with pytest.raises(ValueError, match="no CUDA support"):
        paddle.CUDAPinnedPlace()
    x = paddle.ones([2])
    assert x.pin_memory() is x
