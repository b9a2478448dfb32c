"""SyncBatchNorm with ranks as threads: what they do together is what one process does on the joined batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.distributed.group import Group, rank_of_thread
from polyreme.runtime.collectives import LocalGroup
from tests.distributed.ranks import run_ranks

RNG = np.random.default_rng(11)
BATCH = (3 + 2 * RNG.normal(size=(7, 3, 4, 2))).astype(np.float32)
WEIGHTS = RNG.normal(size=BATCH.shape).astype(np.float32)
# The ranks' shares need not be equal.
SHARES = {1: [slice(0, 7)], 2: [slice(0, 5), slice(5, 7)], 3: [slice(0, 1), slice(1, 3), slice(3, 7)]}


def layer(kind: Any, **options: Any) -> Any:
    made = kind(3, **options)
    made.weight.set_value(np.array([0.5, -1.0, 2.0], np.float32))
    made.bias.set_value(np.array([0.1, 0.2, 0.3], np.float32))
    return made


def step(norm: Any, rows: slice, compiled: bool = False) -> list[np.ndarray]:
    """Output, gradients of the input, the weight and the bias, and the running statistics after two steps."""
    run = paddle.jit.to_static(norm) if compiled else norm
    run(paddle.to_tensor(BATCH[rows] * 2))
    x = paddle.to_tensor(BATCH[rows], stop_gradient=False)
    y = run(x)
    (y * y * paddle.to_tensor(WEIGHTS[rows])).sum().backward()
    return [v.numpy() for v in (y, x.grad, norm.weight.grad, norm.bias.grad, norm._mean, norm._variance)]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_normalise_as_one_process_does_on_the_joined_batch(size: int, compiled: bool) -> None:
    y, dx, dw, db, mean, variance = step(layer(paddle.nn.BatchNorm2D), slice(None))
    found = run_ranks(size, lambda group: step(layer(paddle.nn.SyncBatchNorm), SHARES[size][group.rank], compiled))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    close(np.concatenate([f[0] for f in found]), y)
    close(np.concatenate([f[1] for f in found]), dx)
    # Gradients of parameters are each rank's own: adding them up is for data parallel.
    close(sum(f[2] for f in found), dw)
    close(sum(f[3] for f in found), db)
    for f in found:
        close(f[4], mean)
        close(f[5], variance)
        np.testing.assert_array_equal(f[4], found[0][4])


def test_large_means_cancel_nothing() -> None:
    shifted = (BATCH + 1e3).astype(np.float32)

    def rank(group: Group) -> Any:
        return layer(paddle.nn.SyncBatchNorm)(paddle.to_tensor(shifted[SHARES[2][group.rank]])).numpy()

    exact = shifted.astype(np.float64)
    centred = exact - exact.mean((0, 2, 3), keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean((0, 2, 3), keepdims=True) + 1e-5)
    wanted = wanted * np.array([0.5, -1.0, 2.0])[:, None, None] + np.array([0.1, 0.2, 0.3])[:, None, None]
    np.testing.assert_allclose(np.concatenate(run_ranks(2, rank)), wanted, atol=2e-3)


def test_a_static_program_normalises_over_all_ranks_and_by_running_statistics_in_its_clone_for_tests() -> None:
    plain = paddle.nn.BatchNorm2D(3)
    wanted = plain(paddle.to_tensor(BATCH)).numpy()
    plain.eval()
    later = plain(paddle.to_tensor(BATCH)).numpy()
    main, startup = paddle.static.Program(), paddle.static.Program()
    paddle.enable_static()
    try:
        with rank_of_thread(LocalGroup(2).communicators[0]), paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 3, 4, 2])
            norm = paddle.nn.SyncBatchNorm(3)
            y = norm(x)
            test = main.clone(for_test=True)
            executor = paddle.static.Executor()
            # Plans are made once, and not by two threads at a time.
            executor.plan(startup, {}, [])
            for program in (main, test):
                executor.plan(program, {"x": x.type}, [y.name])
    finally:
        paddle.disable_static()

    def rank(group: Group) -> Any:
        scope = paddle.static.Scope()
        executor.run(startup, scope=scope)
        feed = {"x": BATCH[SHARES[2][group.rank]]}
        (now,) = executor.run(main, feed=feed, fetch_list=[y.name], scope=scope)
        (after,) = executor.run(test, feed=feed, fetch_list=[y.name], scope=scope)
        return now, after, scope.find_var(norm._mean.name).array

    found = run_ranks(2, rank)
    np.testing.assert_allclose(np.concatenate([f[0] for f in found]), wanted, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(np.concatenate([f[1] for f in found]), later, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found[0][2], plain._mean.numpy(), rtol=1e-6)


class Net(paddle.nn.Layer):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.first, self.norm, self.last = paddle.nn.Conv2D(3, 3, 1), layer(norm), paddle.nn.Linear(2, 2)
        for p, values in zip((self.first.weight, self.last.weight), (RNG_WEIGHTS[:9], RNG_WEIGHTS[9:]), strict=True):
            p.set_value(values.reshape(p.shape))

    def forward(self, x: Any) -> Any:
        return self.last(paddle.nn.functional.relu(self.norm(self.first(x))))


RNG_WEIGHTS = RNG.normal(size=13).astype(np.float32)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_in_data_parallel_gradients_are_those_of_the_joined_batch(compiled: bool) -> None:
    def gradients(net: Any, model: Any, rows: slice) -> dict[str, Any]:
        loss = (model(paddle.to_tensor(BATCH[rows])) ** 2).mean()
        loss.backward()
        return {name: p.grad.numpy() for name, p in net.named_parameters() if not p.stop_gradient}

    def rank(group: Group) -> dict[str, Any]:
        net = Net(paddle.nn.SyncBatchNorm)
        model = paddle.DataParallel(paddle.jit.to_static(net) if compiled else net)
        return gradients(net, model, slice(3 * group.rank, 3 * group.rank + 3))

    alone = Net(paddle.nn.BatchNorm2D)
    wanted = gradients(alone, alone, slice(0, 6))
    for found in run_ranks(2, rank):
        assert list(found) == list(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
