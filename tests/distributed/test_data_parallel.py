"""`DataParallel` with ranks as threads: values, bits, and that the plan which prints is the one that runs."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.distributed import DataParallel
from polyreme.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients
from polyreme.distributed.group import Group
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.collectives import MismatchError
from tests.distributed.ranks import run_ranks

BATCH = np.random.default_rng(7).normal(size=(12, 10)).astype(np.float32)
LABELS = np.random.default_rng(8).integers(0, 4, size=(12,))
MB = 1 << 20


class Net(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Linear(10, 16)
        self.second = paddle.nn.Linear(16, 8)
        self.third = paddle.nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.third(paddle.nn.functional.relu(self.second(paddle.tanh(self.first(x)))))


def weights(net: Any) -> Any:
    """The model with weights that do not depend on what ran before."""
    rng = np.random.default_rng(3)
    for p in net.parameters():
        p.set_value(rng.normal(size=p.shape).astype(np.float32))
    return net


def model(compiled: bool = False) -> Any:
    net = weights(Net())
    return paddle.jit.to_static(net) if compiled else net


def loss_of(net: Any, rows: slice | Any) -> Any:
    return paddle.nn.functional.cross_entropy(net(paddle.to_tensor(BATCH[rows])), paddle.to_tensor(LABELS[rows]))


def share(group: Group) -> Any:
    return slice(group.rank * len(BATCH) // group.size, (group.rank + 1) * len(BATCH) // group.size)


def gradients(net: Any) -> dict[str, np.ndarray]:
    return {name.removeprefix("_layers."): p.grad.numpy() for name, p in net.named_parameters() if p.grad is not None}


def parallel_gradients(size: int, compiled: bool = False, **options: Any) -> list[Any]:
    def rank(group: Group) -> Any:
        net = DataParallel(model(compiled), **options)
        loss_of(net, share(group)).backward()
        return gradients(net), list(group.communicator.history)

    return run_ranks(size, rank)


def alone() -> dict[str, np.ndarray]:
    net = model()
    loss_of(net, slice(None)).backward()
    return gradients(net)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_ranks_together_have_the_gradients_of_the_joined_batch(size: int, compiled: bool) -> None:
    wanted = alone()
    for found, _ in parallel_gradients(size, compiled):
        assert found.keys() == wanted.keys()
        for name, grad in found.items():
            np.testing.assert_allclose(grad, wanted[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_no_bucket_size_changes_a_bit(compiled: bool) -> None:
    kept = None
    for buffer, last in [(25, 1), (100 / MB, 100 / MB), (600 / MB, 0), (0, 0)]:
        results = [found for found, _ in parallel_gradients(3, compiled, comm_buffer_size=buffer, last_comm_buffer_size=last)]
        bits = [{name: grad.tobytes() for name, grad in found.items()} for found in results]
        assert all(b == bits[0] for b in bits)
        kept = kept or bits[0]
        assert bits[0] == kept


@pytest.mark.parametrize("threads", [1, 3])
def test_no_number_of_threads_changes_a_bit(threads: int) -> None:
    before = paddle.get_num_threads() if hasattr(paddle, "get_num_threads") else None
    from polyreme.runtime import threads as pool

    pool.set_num_threads(threads)
    try:
        found = parallel_gradients(2, True)[0][0]
    finally:
        pool.set_num_threads(before or 0)
    wanted = parallel_gradients(2, True)[0][0]
    assert {n: g.tobytes() for n, g in found.items()} == {n: g.tobytes() for n, g in wanted.items()}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_plan_that_prints_is_the_one_that_runs(compiled: bool) -> None:
    options = {"comm_buffer_size": 600 / MB, "last_comm_buffer_size": 100 / MB}
    printed = DataParallel(model(), **options).schedule
    starts = [line.strip() for line in printed.splitlines() if "all_reduce_start" in line]
    assert len(starts) == 3
    for _, history in parallel_gradients(2, compiled, **options):
        ran = [step for step in history if step.kind == "all_reduce"]
        assert len(ran) == len(starts)
        for number, (line, step) in enumerate(zip(starts, ran, strict=True)):
            assert f"bucket = {number}" in line
            assert f"mean of bucket {number}, {line.count('%grad_')} x f32" in step.detail
            shapes = step.detail.partition("[")[2].rstrip("]").split()
            assert all(f"<{shape}xf32>" in line for shape in shapes)
            assert "test_data_parallel.py" in step.place


def test_buckets_leave_while_backward_runs() -> None:
    events: list[str] = []

    def rank(group: Group) -> None:
        net = DataParallel(model(), comm_buffer_size=0, last_comm_buffer_size=0)
        hooked = net._layers.first.weight
        if group.rank == 0:
            hooked.register_hook(lambda g: events.append(f"{sum(s.kind == 'all_reduce' for s in group.communicator.history)} sent"))
        loss_of(net, share(group)).backward()

    run_ranks(2, rank)
    assert events == ["4 sent"]


def test_gradients_inside_no_sync_stay_local_until_the_next_synchronized_backward() -> None:
    def rank(group: Group) -> Any:
        net = DataParallel(model())
        rows = share(group)
        with net.no_sync():
            loss_of(net, rows).backward()
        local = gradients(net)
        calls = sum(s.kind == "all_reduce" for s in group.communicator.history)
        loss_of(net, rows).backward()
        return local, calls, gradients(net)

    (local0, calls, both), (local1, _, _) = run_ranks(2, rank)
    assert calls == 0
    for name, grad in alone().items():
        assert not np.allclose(local0[name], local1[name])
        np.testing.assert_allclose(both[name], 2 * grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_add_up_over_several_backwards(compiled: bool) -> None:
    def rank(group: Group) -> Any:
        net = DataParallel(model(compiled))
        with net.no_sync():
            loss_of(net, share(group)).backward()
        for _ in range(3):
            loss_of(net, share(group)).backward()
        return gradients(net)

    for found in run_ranks(2, rank):
        for name, grad in alone().items():
            np.testing.assert_allclose(found[name], 4 * grad, rtol=1e-5, atol=1e-5)


def test_training_keeps_the_ranks_equal_and_follows_one_process() -> None:
    def train(net: Any, rows: Any) -> list[np.ndarray]:
        optimizer = paddle.optimizer.Adam(learning_rate=0.05, parameters=net.parameters())
        for _ in range(5):
            loss_of(net, rows).backward()
            optimizer.step()
            optimizer.clear_grad()
        return [p.numpy() for p in net.parameters()]

    wanted = train(model(), slice(None))
    for compiled in (False, True):
        first, second = run_ranks(2, lambda group, c=compiled: train(DataParallel(model(c)), share(group)))
        for a, b, one in zip(first, second, wanted, strict=True):
            assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a, one, rtol=1e-3, atol=1e-4)


def test_ranks_start_with_the_parameters_and_buffers_of_rank_0() -> None:
    def rank(group: Group) -> Any:
        net = paddle.nn.Sequential(paddle.nn.Linear(3, 3))
        net.register_buffer("seen", paddle.full([2], float(group.rank)))
        return {k: v.numpy().tobytes() for k, v in DataParallel(net).state_dict().items()}

    first, second = run_ranks(2, rank)
    assert first == second and first["seen"] == np.zeros(2, np.float32).tobytes()


def test_to_static_around_data_parallel_has_the_buckets_in_its_backward() -> None:
    def rank(group: Group) -> Any:
        net = paddle.jit.to_static(DataParallel(model()))
        loss_of(net, share(group)).backward()
        return gradients(net), sum(s.kind == "all_reduce" for s in group.communicator.history)

    for found, calls in run_ranks(2, rank):
        assert calls == 1
        for name, grad in alone().items():
            np.testing.assert_allclose(found[name], grad, rtol=1e-5, atol=1e-6)


def test_a_model_that_is_compiled_in_part_is_averaged_by_the_tape() -> None:
    def rank(group: Group) -> Any:
        inner = model()
        inner.second = paddle.jit.to_static(inner.second)
        net = DataParallel(inner)
        loss_of(net, share(group)).backward()
        return gradients(net)

    for found in run_ranks(2, rank):
        for name, grad in alone().items():
            np.testing.assert_allclose(found[name], grad, rtol=1e-5, atol=1e-6)


def test_compiled_gradients_and_others_of_the_same_parameter_are_averaged_together() -> None:
    def total(net: Any, rows: Any) -> Any:
        return loss_of(net, rows) + 0.1 * sum((p * p).sum() for p in net.parameters())

    def rank(group: Group) -> Any:
        net = DataParallel(model(True))
        total(net, share(group)).backward()
        return gradients(net)

    one = model()
    total(one, slice(None)).backward()
    for found in run_ranks(2, rank):
        for name, grad in gradients(one).items():
            np.testing.assert_allclose(found[name], grad, rtol=1e-5, atol=1e-5)


def test_a_copy_of_the_model_is_averaged_too() -> None:
    def rank(group: Group) -> Any:
        net = copy.deepcopy(DataParallel(model()))
        loss_of(net, share(group)).backward()
        return gradients(net)

    for found in run_ranks(2, rank):
        for name, grad in alone().items():
            np.testing.assert_allclose(found[name], grad, rtol=1e-5, atol=1e-6)


class Branches(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.even = paddle.nn.Linear(10, 4)
        self.odd = paddle.nn.Linear(10, 4)
        self.never = paddle.nn.Linear(10, 4)

    def forward(self, x: Any, which: int) -> Any:
        return (self.odd if which else self.even)(x)


def test_unused_parameters_are_an_error_that_names_them() -> None:
    def rank(group: Group) -> None:
        net = DataParallel(Branches())
        net(paddle.to_tensor(BATCH), 0).sum().backward()

    with pytest.raises(
        PolyremeError,
        match="but 'odd.weight', 'odd.bias', 'never.weight', 'never.bias' took no part in the loss; pass find_unused_parameters=True",
    ):
        run_ranks(2, rank)


def test_ranks_may_use_different_parameters_when_they_say_so() -> None:
    def rank(group: Group) -> Any:
        net = DataParallel(Branches(), find_unused_parameters=True)
        net(paddle.to_tensor(BATCH), group.rank).sum().backward()
        return gradients(net)

    for found in run_ranks(2, rank):
        assert sorted(found) == ["even.bias", "even.weight", "odd.bias", "odd.weight"]
        np.testing.assert_allclose(found["even.bias"], np.full(4, len(BATCH) / 2))
        np.testing.assert_allclose(found["odd.weight"], np.repeat(BATCH.sum(0)[:, None] / 2, 4, 1), rtol=1e-5)


def test_models_that_differ_between_ranks_are_an_error_at_the_start() -> None:
    with pytest.raises(
        MismatchError,
        match="rank 0 is at the plan of DataParallel .* schedule .* rank 1 is at the plan of DataParallel .*test_data_parallel.py",
    ):
        run_ranks(2, lambda group: DataParallel(paddle.nn.Linear(3, 4 + group.rank)))


def test_gradients_are_averaged_by_hand_after_no_sync() -> None:
    def rank(group: Group) -> Any:
        net = DataParallel(model())
        with net.no_sync():
            loss_of(net, share(group)).backward()
        fused_allreduce_gradients(list(net.parameters()), None)
        return gradients(net)

    for found in run_ranks(2, rank):
        for name, grad in alone().items():
            np.testing.assert_allclose(found[name], grad, rtol=1e-5, atol=1e-6)


def test_inspect_shows_the_schedule_that_runs() -> None:
    """The same starts and waits, around the same regions, as the compiled backward takes."""
    options = {"comm_buffer_size": 600 / MB, "last_comm_buffer_size": 100 / MB}
    text = paddle.inspect(DataParallel(model(), **options), [paddle.static.InputSpec([None, 10], "float32", "x")]).schedule
    printed = [line.partition(" = ")[2] or line.strip() for line in text.partition("return")[0].splitlines()[1:] if "=" in line]
    ran: list[str] = []

    def rank(group: Group) -> Any:
        net = DataParallel(model(True), **options)
        loss_of(net, share(group)).backward()
        if group.rank == 0:
            (program,) = net._layers.forward.programs()
            (training,) = program._training.values()
            (schedule,) = training._compiled.values()
            ran.extend(step.name for step in schedule.steps)

    run_ranks(2, rank)
    names = [
        f"call {re.search(r'@(region_[0-9]+)', line).group(1)}" if "func.call" in line else line.split()[0]
        for line in printed
        if "." in line.split()[0]
    ]
    assert ran == names
    assert names.count("dist.all_reduce_start") == 3 and names.count("dist.wait") == 3
    # A start, and the regions of the next bucket before anything is waited for.
    assert names.index("dist.all_reduce_start") < max(i for i, n in enumerate(names) if n.startswith("call")) < names.index("dist.wait")
    with pytest.raises(PolyremeError, match="expected a DataParallel model, or a program with host operators, to show the schedule of"):
        paddle.inspect(model(), [paddle.static.InputSpec([None, 10], "float32", "x")]).schedule  # noqa: B018


class LeNet(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.features = paddle.nn.Sequential(
            paddle.nn.Conv2D(1, 4, 3, padding=1), paddle.nn.ReLU(), paddle.nn.MaxPool2D(2), paddle.nn.Conv2D(4, 6, 3), paddle.nn.ReLU()
        )
        self.head = paddle.nn.Sequential(paddle.nn.Linear(6 * 16, 20), paddle.nn.ReLU(), paddle.nn.Linear(20, 4))

    def forward(self, x: Any) -> Any:
        return self.head(paddle.flatten(self.features(paddle.reshape(x, [-1, 1, 12, 12])), 1))


@pytest.mark.slow
def test_no_bucket_size_changes_a_bit_of_a_compiled_convolutional_model() -> None:
    images = np.random.default_rng(5).normal(size=(8, 144)).astype(np.float32)

    def rank(group: Group, buffer: float) -> Any:
        paddle.seed(5)
        net = DataParallel(paddle.jit.to_static(weights(LeNet())), comm_buffer_size=buffer, last_comm_buffer_size=buffer)
        rows = slice(group.rank * 4, group.rank * 4 + 4)
        paddle.nn.functional.cross_entropy(net(paddle.to_tensor(images[rows])), paddle.to_tensor(LABELS[:8][rows])).backward()
        return {name: grad.tobytes() for name, grad in gradients(net).items()}

    found = [run_ranks(2, lambda group, b=buffer: rank(group, b)) for buffer in (0, 500 / MB, 25)]
    for a, b in found:
        assert a == b == found[0][0]


def test_a_data_parallel_layer_is_a_layer_with_the_models_own_names() -> None:
    net = DataParallel(model())
    assert set(net.state_dict()) == set(net.to_static_state_dict()) == set(model().state_dict())
    state = {k: v + 1 for k, v in net.state_dict().items()}
    for load in (net.set_state_dict, net.set_dict, net.load_dict):
        load(state)
    np.testing.assert_array_equal(net._layers.first.weight.numpy(), model().first.weight.numpy() + 1)
    loss = paddle.to_tensor(1.0)
    assert net.scale_loss(loss) is loss and net.apply_collective_grads() is None
    net.eval()
    assert not net._layers.third.training
    assert len(copy.deepcopy(net).parameters()) == 6
    assert paddle.distributed.parallel.ParallelStrategy().nranks == 1
    with pytest.raises(TypeError, match="expected a Layer for DataParallel but got int"):
        DataParallel(3)
