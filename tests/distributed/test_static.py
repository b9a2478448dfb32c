"""Data parallel for static Programs: the averages stand between backward and update, in the buckets that DataParallel has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled.executables import scheduled
from polyreme.distributed import fleet
from polyreme.distributed.group import rank_of_thread
from polyreme.ir.text import print_module
from polyreme.ir.verify import verify
from polyreme.runtime.collectives import LocalGroup
from tests.distributed.ranks import run_ranks


@pytest.fixture
def static() -> Iterator[None]:
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()), paddle.utils.unique_name.guard():
        yield
    paddle.disable_static()


def build() -> Any:
    x = paddle.static.data("x", [None, 8], "float32")
    loss = paddle.mean(paddle.static.nn.fc(paddle.tanh(paddle.static.nn.fc(x, 6)), 3) ** 2)
    fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1)).minimize(loss)
    return loss


def test_a_step_averages_gradients_before_it_updates(static: None) -> None:
    with rank_of_thread(LocalGroup(2).communicators[0]):
        loss = build()
        main = paddle.static.default_main_program()
        types = [op.type for op in main.global_block().ops]
        assert types.count("c_allreduce_avg") == 1
        assert types.index("c_allreduce_avg") < types.index("sgd")
        assert [op.type for op in paddle.static.default_startup_program().global_block().ops].count("c_broadcast") == 4
        module = scheduled(main.module([loss]))
    verify(module)
    text = print_module(module)
    body = text[: text.index("return")]
    assert body.index("func.call") < body.index("dist.all_reduce_start") < body.index("dist.wait") < body.rindex("func.call")


def build_with_host(seen: list[Any]) -> Any:
    """A step whose activation is a Python function, with a Python gradient; another one looks at a weight once it is updated."""
    block = paddle.static.default_main_program().global_block()
    x = paddle.static.data("x", [None, 8], "float32")
    hidden = paddle.static.nn.fc(x, 6, weight_attr=paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(0.1)))
    bent = block.create_var("bent", [-1, 6], "float32", stop_gradient=False)
    paddle.static.py_func(lambda h: np.sin(h.numpy()), hidden, bent, lambda h, y, dy: np.cos(h.numpy()) * dy.numpy())
    loss = paddle.mean(paddle.static.nn.fc(bent, 3, weight_attr=paddle.nn.initializer.Constant(0.5)) ** 2)
    fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1)).minimize(loss)
    paddle.static.py_func(lambda w: seen.append((paddle.distributed.get_rank(), w.numpy().copy())), block.var("w"), None)
    return loss


def test_python_functions_and_collectives_share_one_schedule(static: None) -> None:
    rows = np.random.default_rng(5).normal(size=(8, 8)).astype(np.float32)
    executor = paddle.static.Executor()
    whole: list[Any] = []
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()), paddle.utils.unique_name.guard():
        scope, loss = paddle.static.Scope(), build_with_host(whole)
        executor.run(paddle.static.default_startup_program(), scope=scope)
        wanted = [executor.run(feed={"x": rows}, fetch_list=[loss], scope=scope)[0] for _ in range(3)]
    seen: list[Any] = []
    with rank_of_thread(LocalGroup(2).communicators[0]):
        loss = build_with_host(seen)
        main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
        executor.plan(startup, {}, [])
        plan = executor.plan(main, {"x": main.global_block().var("x").type}, [loss.name])
        names = [op.name for op in scheduled(main.module([loss])).function().block]
    assert names.count("host.call") == 3 and names.count("dist.all_reduce_start") == names.count("dist.wait") == 1
    assert (
        names.index("host.call")
        < names.index("dist.all_reduce_start")
        < names.index("dist.wait")
        < len(names) - 1 - names[::-1].index("host.call")
    )
    assert [step.name.split()[0] for step in plan.executable.steps] == [
        name.split(".")[0] if name == "host.call" else name.replace("func.", "") for name in names[:-1]
    ]

    def rank(group: Any) -> list[Any]:
        scope = paddle.static.Scope()
        executor.run(startup, scope=scope)
        share = rows[group.rank * 4 : group.rank * 4 + 4]
        return [executor.run(main, feed={"x": share}, fetch_list=[loss], scope=scope)[0] for _ in range(3)]

    found = run_ranks(2, rank)
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, rtol=1e-5)
    for number in (0, 1):
        for (_, w), (_, expected) in zip((s for s in seen if s[0] == number), whole, strict=True):
            np.testing.assert_allclose(w, expected, rtol=1e-5)


def test_one_rank_has_a_plain_program(static: None) -> None:
    loss = build()
    assert all(not op.type.startswith("c_") for op in paddle.static.default_main_program().global_block().ops)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    (value,) = executor.run(feed={"x": np.ones((2, 8), np.float32)}, fetch_list=[loss])
    assert np.isfinite(value)


def test_fleet_names_the_ranks() -> None:
    fleet.init(is_collective=True)
    assert (fleet.worker_index(), fleet.worker_num(), fleet.is_first_worker()) == (0, 1, True)
    fleet.barrier_worker()
    assert isinstance(fleet.distributed_model(paddle.nn.Linear(2, 2)), paddle.DataParallel)
    adam = fleet.distributed_optimizer(paddle.optimizer.Adam(parameters=paddle.nn.Linear(2, 2).parameters()))
    assert adam.get_lr() == 0.001
    with pytest.raises(ValueError, match="there are no parameter servers"):
        fleet.init(is_collective=False)
    paddle.distributed.destroy_process_group()
