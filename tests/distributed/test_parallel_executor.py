"""Replicas of a program in one process: what PaddlePaddle 1.8.5 computes with them, and what must hold besides."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.static.parallel.replicas import FeedKindError
from tests.frontend.static_mode import static_mode

# By number of devices and strategy: the losses of four steps on 7 rows, those of a step on a list of feeds, and the last weight.
PADDLE: dict[tuple[int, str], tuple[list[list[float]], list[float]]] = {
    (2, "CoeffNumDevice"): (
        [[2.344205, 2.171863], [0.864895, 1.019531], [0.523988, 0.632173], [1.195779, 0.30869], [1.644271, 1.644271]],
        [0.362281, 0.479507, -0.549266, -0.098105, 0.309626],
    ),
    (2, "One"): (
        [[2.344205, 2.171863], [0.876747, 1.777067], [0.258338, 0.825896], [1.145037, 0.451393], [1.312941, 1.312941]],
        [0.268216, 0.435586, -0.304542, -0.015998, 0.368614],
    ),
    (4, "CoeffNumDevice"): (
        [
            [2.596253, 2.092156, 3.117316, 0.280955], [0.007584, 1.75849, 1.087471, 0.726283], [0.869628, 0.290004, 0.214116, 1.398639],
            [1.369959, 1.088723, 0.350597, 0.433731], [1.613993] * 4,
        ],
        [0.371199, 0.468677, -0.555193, -0.110908, 0.307852],
    ),
}  # fmt: skip


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype("float32")


def rows(count: int, seed: int = 0) -> dict[str, Any]:
    return {"x": numbers(count, 4, seed=seed), "y": numbers(count, 1, seed=seed)}


@pytest.fixture(autouse=True)
def programs() -> Iterator[Any]:
    with static_mode() as both:
        yield both


def shared(devices: int, seed: int) -> list[dict[str, Any]]:
    """7 rows shared out as Paddle 1.8.5 does it, the first devices getting one more; here the last one does, as the pages say."""
    whole = rows(7, seed)
    parts = {name: np.array_split(array, devices) for name, array in whole.items()}
    return [{name: arrays[i] for name, arrays in parts.items()} for i in range(devices)]


def built(optimizer: Any = None, normalized: bool = False, dropout: bool = False) -> Any:
    """A net of two layers in the default programs; returns its loss."""

    def weight(*shape: int) -> Any:
        return paddle.ParamAttr(name=f"w{shape[0]}", initializer=paddle.nn.initializer.Assign(numbers(*shape) * np.float32(0.3)))

    x, y = static.data("x", [None, 4], "float32"), static.data("y", [None, 1], "float32")
    hidden = static.nn.fc(x, 5, weight_attr=weight(4, 5), activation="tanh")
    if normalized:
        hidden = static.nn.batch_norm(hidden, moving_mean_name="mean")
    if dropout:
        hidden = paddle.nn.functional.dropout(hidden, 0.5)
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 1, weight_attr=weight(5, 1)) - y))
    (optimizer or paddle.optimizer.SGD(0.1)).minimize(loss)
    return loss


def started(devices: int, monkeypatch: Any, loss: Any, **options: Any) -> Any:
    monkeypatch.setenv("CPU_NUM", str(devices))
    static.Executor().run(static.default_startup_program())
    return static.ParallelExecutor(False, loss_name=loss.name, **options)


def value(name: str) -> Any:
    return np.asarray(static.global_scope().find_var(name).get_tensor())


@pytest.mark.parametrize(("devices", "scale"), PADDLE)
def test_replicas_train_as_in_paddle(devices: int, scale: str, monkeypatch: Any) -> None:
    loss = built()
    strategy = static.BuildStrategy()
    strategy.gradient_scale_strategy = getattr(static.BuildStrategy.GradientScaleStrategy, scale)
    executor = started(devices, monkeypatch, loss, build_strategy=strategy)
    assert executor.device_count == devices
    losses, weight = PADDLE[devices, scale]
    found = [executor.run([loss], feed=shared(devices, i))[0] for i in range(4)]
    found.append(executor.run([loss.name], feed=[rows(3)] * devices)[0])
    np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("w5").reshape(-1), weight, rtol=1e-5, atol=1e-5)


def test_replicas_hold_the_same_parameters_bit_for_bit(monkeypatch: Any) -> None:
    loss = built(paddle.optimizer.Adam(0.05))
    trained = {}
    for devices in (1, 2, 4, 2):
        with static.scope_guard(static.Scope()):
            executor = started(devices, monkeypatch, loss)
            for i in range(20):
                executor.run([loss], feed=rows(8, i))
            names = [v.name for v in static.default_main_program().list_vars() if v.persistable]
            for scope in executor._replicas.scopes:
                for name in names:
                    assert np.array_equal(scope.find_var(name).array, value(name)), name
            bits = [value(name) for name in names]
            if devices in trained:
                assert all(np.array_equal(a, b) for a, b in zip(bits, trained[devices], strict=True))
            trained[devices] = bits
    for a, b, c in zip(trained[1], trained[2], trained[4], strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(c, a, rtol=2e-4, atol=2e-5)


def test_what_is_fetched_is_joined_and_a_remainder_goes_to_the_last(monkeypatch: Any) -> None:
    x = static.data("x", [None, 1], "float32")
    twice, count = x * 2, paddle.shape(x)[0]
    monkeypatch.setenv("CPU_NUM", "3")
    executor = static.ParallelExecutor(False)
    feed = np.arange(8, dtype="float32").reshape(8, 1)
    joined, counts = executor.run([twice, count], feed={"x": feed})
    assert np.array_equal(joined, feed * 2) and counts.tolist() == [2, 2, 4]
    joined, counts = executor.run([twice, count], feed=[{"x": feed[:1]}, {"x": feed[:5]}, {"x": feed[:2]}])
    assert joined.shape == (8, 1) and counts.tolist() == [1, 5, 2]
    with pytest.warns(DeprecationWarning, match="use feed"):
        assert executor.run([count], feed_dict={"x": feed})[0].tolist() == [2, 2, 4]
    assert isinstance(executor.run([twice], feed={"x": feed}, return_numpy=False)[0], paddle.Tensor)
    assert executor.drop_local_exe_scopes() is None


def test_wrong_feeds_are_refused(monkeypatch: Any) -> None:
    executor = started(2, monkeypatch, loss := built())
    with pytest.raises(ValueError, match="same size as places: 1 and 2"):
        executor.run([loss], feed=[rows(2)])
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match="should be a dict"):
            executor.run([loss], feed=[rows(2), rows(2)["x"]])
    with pytest.raises(ValueError, match="a dict or a list"):
        executor.run([loss], feed=rows(2)["x"])
    with pytest.raises(ValueError, match="at least 2 samples of 'x'"):
        executor.run([loss], feed=rows(1))
    assert issubclass(FeedKindError, TypeError)


def test_wrong_options_are_refused(monkeypatch: Any) -> None:
    loss = built()
    with pytest.raises(ValueError, match="loss_name"):
        static.ParallelExecutor(False)
    with pytest.raises(ValueError, match="'los'"):
        static.ParallelExecutor(False, loss_name="los")
    with pytest.raises(TypeError, match="should be ParallelExecutor"):
        static.ParallelExecutor(False, loss_name=loss.name, share_vars_from=static.Executor())  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="num_trainers"):
        static.ParallelExecutor(False, loss_name=loss.name, num_trainers=2)
    strategy = static.BuildStrategy()
    strategy.gradient_scale_strategy = static.BuildStrategy.GradientScaleStrategy.Customized
    monkeypatch.setenv("CPU_NUM", "2")
    with pytest.raises(NotImplementedError, match="Customized"):
        static.ParallelExecutor(False, loss_name=loss.name, build_strategy=strategy)
    with pytest.raises(AttributeError, match="did you mean 'fuse_all_reduce_ops'"):
        strategy.fuse_all_reduce_op = True
    with pytest.warns(UserWarning, match="num_threads has no effect"):
        static.ExecutionStrategy().num_threads = 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strategy.memory_optimize, static.ExecutionStrategy().num_iteration_per_drop_scope = True, 10


def test_a_test_shares_the_parameters_of_training(monkeypatch: Any) -> None:
    x, y = static.data("x", [None, 4], "float32"), static.data("y", [None, 1], "float32")
    loss = paddle.mean(paddle.square(static.nn.fc(x, 1, bias_attr=False, weight_attr=paddle.nn.initializer.Constant(0.5)) - y))
    test = static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(0.1).minimize(loss)
    training = started(2, monkeypatch, loss)
    sharing = static.ParallelExecutor(False, main_program=test, share_vars_from=training)
    before = sharing.run([loss.name], feed=rows(6))[0]
    training.run([loss], feed=rows(6))
    after = sharing.run([loss.name], feed=rows(6))[0]
    assert after.mean() < before.mean()
    alone = static.Executor().run(test, feed=rows(6), fetch_list=[loss.name])[0]
    np.testing.assert_allclose(after.mean(), alone, rtol=1e-5)


def test_values_set_between_runs_reach_all_replicas(monkeypatch: Any) -> None:
    loss = built()
    executor = started(2, monkeypatch, loss)
    first = executor.run([loss], feed=rows(6))[0]
    executor.run([loss], feed=rows(6, 1))
    static.Executor().run(static.default_startup_program())
    assert np.array_equal(executor.run([loss], feed=rows(6))[0], first)
    executor.bcast_params()
    for name in ("w4", "w5"):
        assert len({scope.find_var(name).array.tobytes() for scope in executor._replicas.scopes}) == 1


def test_batches_are_normalized_together_when_asked(monkeypatch: Any) -> None:
    loss = built(normalized=True)
    strategy = static.BuildStrategy()
    strategy.sync_batch_norm = True
    executor = started(2, monkeypatch, loss, build_strategy=strategy)
    losses = executor.run([loss], feed=rows(6))[0]
    weights = [value(name) for name in ("w4", "w5", "mean")]
    with static.scope_guard(static.Scope()):
        alone = static.Executor()
        alone.run(static.default_startup_program())
        whole = alone.run(feed=rows(6), fetch_list=[loss])[0]
        np.testing.assert_allclose(losses.mean(), whole, rtol=1e-5)
        for found, name in zip(weights, ("w4", "w5", "mean"), strict=True):
            np.testing.assert_allclose(found, value(name), rtol=1e-4, atol=1e-6)


def test_replicas_draw_numbers_of_their_own_and_the_same_ones_again(monkeypatch: Any) -> None:
    loss = built(dropout=True)
    seen = []
    for _ in range(2):
        paddle.seed(11)
        executor = started(2, monkeypatch, loss)
        seen.append([executor.run([loss], feed=[rows(6), rows(6)])[0] for _ in range(2)])
    assert np.array_equal(seen[0], seen[1]) and seen[0][0][0] != seen[0][0][1]


def test_a_run_may_be_of_several_iterations(monkeypatch: Any) -> None:
    loss = built()
    strategy = static.ExecutionStrategy()
    strategy.num_iteration_per_run = 3
    last = started(2, monkeypatch, loss, exec_strategy=strategy).run([loss], feed=rows(6))[0]
    single = started(2, monkeypatch, loss)
    assert np.array_equal([single.run([loss], feed=rows(6))[0] for _ in range(3)][-1], last)


def test_a_compiled_program_runs_on_several_places(monkeypatch: Any) -> None:
    loss = built()
    executor = static.Executor()
    executor.run(static.default_startup_program())
    compiled = static.CompiledProgram(static.default_main_program())
    assert compiled.with_data_parallel(loss.name, places=static.cpu_places(2)) is compiled
    found = [executor.run(compiled, feed=shared(2, i), fetch_list=[loss])[0] for i in range(4)]
    np.testing.assert_allclose(found, PADDLE[2, "CoeffNumDevice"][0][:4], rtol=1e-5, atol=1e-5)
    with pytest.raises(AssertionError, match="Already compiled"):
        compiled.with_data_parallel(loss.name)
    with pytest.raises(TypeError, match="should be CompiledProgram"):
        static.CompiledProgram(static.default_main_program()).with_data_parallel(loss.name, share_vars_from=executor)  # type: ignore[arg-type]
    plain = static.CompiledProgram(static.default_main_program(), static.BuildStrategy())
    assert executor.run(plain, feed=rows(7), fetch_list=[loss])[0].shape == ()


def test_gradients_are_reduced_in_buckets_or_one_by_one(monkeypatch: Any) -> None:
    loss = built()
    counts = []
    for fused in (True, False):
        strategy = static.BuildStrategy()
        strategy.fuse_all_reduce_ops = fused
        program = started(2, monkeypatch, loss, build_strategy=strategy)._replicas.program
        types = [op.type for op in program.global_block().ops]
        assert types.index("c_allreduce_avg") < types.index("sgd")
        counts.append(types.count("c_allreduce_avg"))
    assert counts == [1, 4]
    assert all(not op.type.startswith("c_") for op in static.default_main_program().global_block().ops)
