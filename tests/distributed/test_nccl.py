"""Ranks with a GPU each, which talk by NCCL: results, order, and errors that name the rank and the call, on a stand-in for the library."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme.device import copies_on, current_place
from polyreme.distributed.group import Group, rank_of_thread
from polyreme.runtime import nccl
from polyreme.runtime.collectives import LocalGroup, MismatchError, Step
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.runtime.gpu.copies import DeviceCopies
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.runtime.nccl import NcclCommunicator, NcclError
from tests.distributed.nccl_stand_in import NcclStandIn
from tests.distributed.test_data_parallel import Net, loss_of, share, weights

STEP = Step("the call", "of a test", "test.py:1")


class Ranks:
    """Devices, and a function run by a rank for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int):
        self.copies = [DeviceCopies(EmulatedDriver()) for _ in range(size)]
        self.nccl = NcclStandIn(monkeypatch, [c.driver for c in self.copies])

    def run(self, function: Callable[[NcclCommunicator], Any], patience: float = 10.0) -> list[Any]:
        def rank_main(meeting: Any) -> Any:
            communicator = NcclCommunicator(meeting, self.copies[meeting.rank], patience)
            ended = "an error"
            try:
                result = function(communicator)
                ended = ""
                return result
            finally:
                communicator.close(ended)

        return LocalGroup(len(self.copies), patience).run(rank_main)


@pytest.fixture(params=[2, 3])
def ranks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(monkeypatch, request.param)


def there(c: NcclCommunicator, array: Any) -> Any:
    return c.copies.sent(np.asarray(array))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_arrays_are_combined_from_device_to_device(ranks: Ranks, dtype: str, reduce: str) -> None:
    if reduce == "mean" and dtype in ("int64", "uint8"):
        pytest.skip("means are of floats")
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))

    def run(c: NcclCommunicator) -> Any:
        arrays = [there(c, (np.arange(6).reshape(2, 3) % 4 + c.rank + 1).astype(kind)), there(c, np.full(1, c.rank, kind))]
        made = c.all_reduce(arrays, reduce, STEP).wait()
        assert all(type(a) is DeviceArray for a in made)
        assert c.copies.stats()["downloads"] == 0
        return [np.asarray(a) for a in made]

    size = len(ranks.copies)
    whole = np.stack([np.arange(6).reshape(2, 3) % 4 + r + 1.0 for r in range(size)])
    combined = {"sum": whole.sum(0), "mean": whole.mean(0), "max": whole.max(0), "min": whole.min(0), "prod": whole.prod(0)}[reduce]
    for first, second in ranks.run(run):
        np.testing.assert_allclose(first.astype("float64"), combined, rtol=1e-2 if kind.itemsize == 2 else 1e-6)
        assert first.dtype == kind and second.shape == (1,)
    assert ranks.nccl.calls["ncclGroupStart"] == size, "one group for both arrays"


def test_the_other_calls(ranks: Ranks) -> None:
    size = len(ranks.copies)

    def run(c: NcclCommunicator) -> Any:
        x = there(c, np.arange(size * 2, dtype="float32").reshape(size, 2) * (c.rank + 1))
        c.barrier(STEP)
        parts = [there(c, np.array([10 * c.rank + other], "int32")) for other in range(size)]
        return [
            np.asarray(c.broadcast(x, size - 1, STEP).wait()),
            np.asarray(c.all_gather(x, STEP).wait()),
            np.asarray(c.reduce_scatter(x, "sum", STEP).wait()),
            [int(np.asarray(p)[0]) for p in c.send_parts(parts, STEP).wait()],
            np.asarray(c.all_reduce([np.float32([c.rank])], "sum", STEP).wait()[0]),  # of main memory
        ]

    base = np.arange(size * 2, dtype="float32").reshape(size, 2)
    for rank, (sent, gathered, scattered, parts, total) in enumerate(ranks.run(run)):
        np.testing.assert_array_equal(sent, base * size)
        np.testing.assert_array_equal(gathered, [base * (r + 1) for r in range(size)])
        np.testing.assert_array_equal(scattered, base[rank : rank + 1] * sum(range(1, size + 1)))
        assert parts == [10 * r + rank for r in range(size)] and total == sum(range(size))


def test_a_call_waits_for_kernels_before_it_and_later_ones_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, 2)

    def run(c: NcclCommunicator) -> list[str]:
        order: list[str] = []
        stream = c.stream
        for name in ("mark_kernels", "wait", "mark", "let_kernels_wait"):
            plain = getattr(stream, name)
            monkeypatch.setattr(stream, name, lambda *args, name=name, plain=plain: (order.append(name), plain(*args))[1])
        calls = [c.all_reduce([there(c, np.float32([i]))], "sum", STEP) for i in range(2)]
        assert "let_kernels_wait" not in order, "nothing waits before it is asked to"
        for call in calls:
            call.wait()
            call.wait()
        return order

    for order in ranks.run(run):
        assert sorted(order) == sorted(["mark_kernels", "wait", "mark", "let_kernels_wait"] * 2)
        assert order.index("mark_kernels") < order.index("wait") < order.index("mark") < order.index("let_kernels_wait")


def test_memory_of_calls_under_way_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, 2)

    def run(c: NcclCommunicator) -> None:
        done = [False]
        monkeypatch.setattr(c.stream, "mark", lambda: SimpleNamespace(is_done=lambda: done[0]))
        array = there(c, np.ones(1000, "float32"))
        held = c.copies.stats()["allocated_bytes"]
        c.all_reduce([array], "sum", STEP)  # nobody waits for it
        del array
        c.barrier(STEP)
        gc.collect()
        assert c.copies.stats()["allocated_bytes"] == 2 * held
        done[0] = True
        for _ in range(500):
            gc.collect()
            if c.copies.stats()["allocated_bytes"] == 0:
                return
            time.sleep(0.01)
        raise AssertionError("the memory was not given back")

    ranks.run(run)


def test_ranks_that_make_different_calls_learn_it_before_nccl_is_asked(ranks: Ranks) -> None:
    def run(c: NcclCommunicator) -> None:
        step = Step("all_reduce" if c.rank else "broadcast", "x", f"train.py:{40 + c.rank}")
        c.all_reduce([there(c, np.ones(2, "float32"))], "sum", step).wait()

    with pytest.raises(MismatchError, match=r"rank 0 is at broadcast \(x\) at train.py:40; rank 1 is at all_reduce \(x\) at train.py:41"):
        ranks.run(run)
    assert not ranks.nccl.calls["ncclAllReduce"]


@pytest.mark.parametrize("name", ["ncclCommInitRank", "ncclAllReduce", "ncclGroupEnd"])
def test_a_call_that_fails_names_rank_and_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, 2)
    ranks.nccl.failing[name] = 2
    with pytest.raises(NcclError, match=rf"NCCL failed in rank \d, in the call \(of a test\) at test.py:1: {name} says the system failed"):
        ranks.run(lambda c: c.all_reduce([there(c, np.ones(2, "float32"))], "sum", STEP).wait())


@pytest.mark.parametrize(("error", "message"), [(6, "another rank failed"), (0, "has waited 0.3 s for other ranks to move their data")])
def test_what_goes_wrong_on_the_device_is_an_error_at_the_next_look(error: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, 2)

    def run(c: NcclCommunicator) -> None:
        monkeypatch.setattr(c.stream, "mark", lambda: SimpleNamespace(is_done=lambda: False))
        (made,) = c.all_reduce([there(c, np.ones(2, "float32"))], "sum", STEP).wait()
        ranks.nccl.async_errors[c.rank] = error
        for _ in range(500):
            if c.failure is not None:
                break
            time.sleep(0.01)
        with pytest.raises(NcclError, match=message):
            np.asarray(made)
        with pytest.raises(NcclError, match=rf"rank {c.rank}.* in the call \(of a test\)"):
            c.all_reduce([there(c, np.ones(2, "float32"))], "sum", STEP)

    with pytest.raises(NcclError, match=message):
        try:
            ranks.run(lambda c: (run(c), c.raise_failure()), patience=0.3)
        except NcclError:
            raise
    assert sorted(set(ranks.nccl.aborted)) == [0, 1]


def test_what_nccl_cannot_move(ranks: Ranks) -> None:
    def run(c: NcclCommunicator) -> None:
        for dtype, reduce, message in (("complex64", "sum", "take the sum of but got complex64"), ("bool", "sum", "sum of but got bool")):
            with pytest.raises(ValueError, match=message):
                c.all_reduce([np.ones(2, dtype)], reduce, STEP)
        with pytest.raises(ValueError, match="floats to take the mean of"):
            c.all_reduce([np.ones(2, "int32")], "mean", STEP)
        with pytest.raises(ValueError, match="arrays of one dtype"):
            c.all_reduce([np.ones(2, "int32"), np.ones(2, "float32")], "sum", STEP)
        with pytest.raises(ValueError, match="the number of a rank"):
            c.broadcast(np.ones(2, "float32"), 9, STEP)
        with pytest.raises(ValueError, match="a first axis that"):
            c.reduce_scatter(np.ones(7, "float32"), "sum", STEP)
        assert np.asarray(c.all_reduce([np.array([True, False])], "max", STEP).wait()[0]).tolist() == [True, False]

    ranks.run(run)


def test_no_library_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise OSError("libnccl.so.2: cannot open shared object file")

    monkeypatch.setattr(nccl, "load_library", missing)
    with pytest.raises(NcclError, match="several GPUs talk to each other by NCCL .* cannot open shared object file"):
        NcclCommunicator(LocalGroup(2).communicators[0], DeviceCopies(EmulatedDriver()))


def test_ops_of_the_ir_stay_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule with starts and waits, as a compiled backward has them, hands arrays of the device on as they are."""
    from polyreme.compiled.executables import load_module
    from polyreme.dialects import dist
    from polyreme.ir.text import parse_module

    paddle.set_device("gpu-emulated")
    try:
        place = current_place()
        copies = copies_on(place)
        shared = NcclStandIn(monkeypatch, [copies.driver])
        communicator = NcclCommunicator(LocalGroup(1).communicators[0], copies, 10.0)
        module = parse_module(
            """func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
              %a = nn.add %x, %y
              %p = dist.all_reduce_start %a {reduce = "sum", bucket = 0} : pending<4xf32>
              %b = nn.mul %x, %y
              %m = dist.wait %p : tensor<4xf32>
              %c = nn.add %m, %b
              return %c, %m
            }"""
        )
        run = load_module(module, "step", place, resident=True)
        given = [(paddle.to_tensor(np.arange(4, dtype="float32") + i) + 0.0)._value for i in range(2)]
        before = paddle.device.cuda.memory_stats()["downloads"]
        with dist.with_group(Group(communicator)):
            made = run.run(given)
        assert paddle.device.cuda.memory_stats()["downloads"] == before and shared.calls["ncclAllReduce"] == 1
        assert [np.asarray(a).tolist() for a in made] == [[1, 5, 11, 19], [1, 3, 5, 7]]
        communicator.close()
    finally:
        paddle.set_device("cpu")


def weights_after(group: Any, compiled: bool) -> list[Any]:
    """Three steps on this rank's share of each batch, from weights that are the same in all ranks."""
    net = weights(Net())
    model: Any = paddle.jit.to_static(net) if compiled else net
    model = paddle.DataParallel(model) if group is not None else model
    adam = paddle.optimizer.Adam(0.05, parameters=net.parameters())
    rows = share(group) if group is not None else slice(None)
    for _ in range(3):
        loss_of(model, rows).backward()
        adam.step()
        adam.clear_grad()
    return [p.numpy() for p in net.parameters()]


@pytest.mark.parametrize("compiled", [False, True])
def test_data_parallel_training_is_that_of_one_rank_and_gradients_stay_on_the_device(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = weights_after(None, False)
    paddle.set_device("gpu-emulated")
    try:
        copies = copies_on(current_place())
        stand_in = NcclStandIn(monkeypatch, [copies.driver] * 2)

        def rank_main(meeting: Any) -> Any:
            communicator = NcclCommunicator(meeting, copies, 60.0)
            with rank_of_thread(communicator) as group:
                assert paddle.distributed.get_backend() == "NCCL"
                found = weights_after(group, compiled)
            communicator.close()
            return found

        fetched: list[int] = []
        fetch = DeviceCopies.fetch
        monkeypatch.setattr(
            DeviceCopies, "fetch", lambda self, address, array: (fetched.append(array.nbytes), fetch(self, address, array))[1]
        )
        results = LocalGroup(2, 60.0).run(rank_main)
    finally:
        paddle.set_device("cpu")
    for found in results:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert stand_in.calls["ncclAllReduce"] >= 2 * 3 * 2
    # The weights at the beginning and at the end, and what Python checks of labels. With gradients it would be six times the weights more.
    assert sum(fetched) <= 4 * sum(a.nbytes for a in expected) + 2 * 3 * 64
