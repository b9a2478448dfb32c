"""Data parallel for static Programs: the averages stand between backward and update, in the buckets that DataParallel has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.distributed import fleet
from polyreme.distributed.group import rank_of_thread
from polyreme.executables import scheduled
from polyreme.ir.text import print_module
from polyreme.ir.verify import verify
from polyreme.runtime.collectives import LocalGroup
from polyreme.static.plan import make_plan


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
        modules: list[Any] = []
        make_plan(main, {"x": main.global_block().var("x").type}, [loss.name], lambda module, name: modules.append(module))
    (module,) = modules
    text = print_module(scheduled(module))
    verify(scheduled(module))
    body = text[: text.index("return")]
    assert body.index("func.call") < body.index("dist.all_reduce_start") < body.index("dist.wait") < body.rindex("func.call")


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
