"""Positions that a static Program computes: a run tells of those outside of an axis, and nothing has changed then."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.runtime.errors import CallError
from polyreme.static import plan
from tests.frontend.static_mode import static_mode

F = paddle.nn.functional
X = np.arange(12, dtype="float32").reshape(4, 3)

READS: dict[str, Callable[..., Any]] = {
    "embedding": lambda x, i: F.embedding(i + 1, x),
    "gather": lambda x, i: paddle.gather(x, i + 1),
    "gather_nd": lambda x, i: paddle.gather_nd(x, (i + 1).unsqueeze(1)),
    "gather_nd of what is fed": lambda x, i: paddle.gather_nd(x, i.unsqueeze(1) + 1),
    "index_select": lambda x, i: paddle.index_select(x, i + 1),
    "take_along_axis": lambda x, i: paddle.take_along_axis(x, (i + 1).unsqueeze(1), 0, broadcast=False),
    "scatter": lambda x, i: paddle.scatter(x, i + 1, x[:2]),
    "x[i]": lambda x, i: x[i + 1],
    "x[:, i]": lambda x, i: x.T[:, i + 1],
    "x[i, i]": lambda x, i: x.T[i, i + 1],
    "x[i] = y": lambda x, i: _with_part(x, i + 1, 7.0),
    "index_sample": lambda x, i: paddle.index_sample(x.T[:2], (i + 1).unsqueeze(1)),
    "index_add": lambda x, i: paddle.index_add(x.T, i + 1, 1, x.T[:, :2]),
    "index_put": lambda x, i: paddle.index_put(x.T, (i * 0, i + 1), x[:2, 0]),
    "index_put that adds": lambda x, i: paddle.index_put(x.T, (i * 0, i + 1), x[:2, 0], accumulate=True),
    "put_along_axis": lambda x, i: paddle.put_along_axis(x, (i + 1).unsqueeze(1), 7.0, 0, broadcast=False),
    "scatter_nd_add": lambda x, i: paddle.scatter_nd_add(x.T, paddle.stack([i * 0, i + 1], 1), x[:2, 0]),
    "scatter that adds": lambda x, i: paddle.scatter(x, i + 1, x[:2], overwrite=False),
    "one_hot": lambda x, i: F.one_hot(i + 1, 4) + x[0, 0],
    "cross_entropy": lambda x, i: F.cross_entropy(x.T[:2], i + 1),
}
# What Paddle has no operator for that looks at positions, or we do not write as that.
ALONE: dict[str, Callable[..., Any]] = {
    "nll_loss": lambda x, i: F.nll_loss(x.T[:2], i + 1),
    "index_fill": lambda x, i: paddle.index_fill(x.T, i + 1, 1, 7.0),
    "multiplex": lambda x, i: paddle.multiplex([x[:2], -x[:2], x[:2] * 2, -x[:2]], (i + 1).unsqueeze(1)),
    "hsigmoid_loss": lambda x, i: F.hsigmoid_loss(x[:2], i + 1, 4, paddle.ones([3, 3])),
    "gather_tree": lambda x, i: F.gather_tree(_beams(i), _beams(i + 1)),
    "shard_index": lambda x, i: paddle.shard_index((i + 1).unsqueeze(1), 4, 2, 0),
}


def _with_part(x: Any, at: Any, value: float) -> Any:
    made = x * 1
    made[at] = value
    return made


def _beams(i: Any) -> Any:
    return i.reshape([1, 1, 2]).tile([2, 1, 2])


def program(function: Callable[..., Any], rows: int | None) -> tuple[Any, Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [rows, 3], "float32")
        return main, function(x, paddle.static.data("i", [2], "int64"))


@pytest.mark.parametrize("rows", [4, None], ids=["known", "free"])
@pytest.mark.parametrize("name", [*READS, *ALONE])
def test_a_run_tells_of_positions_that_it_computes(name: str, rows: int | None) -> None:
    function = (READS | ALONE)[name]
    expected = function(paddle.to_tensor(X), paddle.to_tensor([0, 2])).numpy()
    with static_mode():
        main, result = program(function, rows)
        run = lambda at: paddle.static.Executor().run(main, feed={"x": X, "i": np.array(at)}, fetch_list=[result])[0]
        np.testing.assert_array_equal(run([0, 2]), expected)
        with pytest.raises(CallError, match=r"expected positions \(rows at .*test_program_positions.py:.*\) from -?\d+ to \d+ but comp"):
            run([0, 3])
        with pytest.raises(CallError, match=r"from -?\d+ to \d+ but computed"):
            run([-6, 0])


@pytest.mark.parametrize("name", READS)
def test_a_program_that_was_saved_tells_of_positions(name: str, tmp_path: Path) -> None:
    expected = READS[name](paddle.to_tensor(X), paddle.to_tensor([0, 2])).numpy()
    with static_mode():
        main, result = program(lambda x, i: READS[name](x + i.sum().astype("float32") * 0, i), 4)
        feeds = [main.global_block().var(name) for name in "xi"]
        paddle.static.save_inference_model(str(tmp_path / "net"), feeds, [result], paddle.static.Executor(), program=main)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    call = lambda at: loaded(paddle.to_tensor(X), paddle.to_tensor(np.array(at))).numpy()
    np.testing.assert_allclose(call([0, 2]), expected, rtol=1e-6)
    for wrong in ([0, 3], [-6, 0]):
        with pytest.raises(CallError, match=r"from -?\d+ to \d+ but (computed|got)"):
            call(wrong)


def within(main: Any) -> int:
    """How many positions a run of a program tells of."""
    module = plan.make_plan(main, {"i": main.global_block().vars["i"].type}, []).module
    return sum(op.name == "nn.within" for op in module.walk()) if module is not None else 0


def test_a_step_that_is_refused_changes_nothing_and_each_position_is_told_of_once() -> None:
    with static_mode():
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            i = paddle.static.data("i", [2], "int64")
            table = paddle.static.create_parameter([4, 3], "float32", name="table")
            loss = F.embedding(i + 1, table).sum() + paddle.gather(table, i).sum()
            paddle.optimizer.Adam(0.1).minimize(loss)
        assert within(main) == 1, "what is fed the feed looks at, and gradients go where was read"
        executor = paddle.static.Executor()
        executor.run(startup)
        executor.run(main, feed={"i": np.array([0, 1])}, fetch_list=[loss])
        now = lambda: np.array(paddle.static.global_scope().find_var("table").get_tensor())
        kept = now()
        with pytest.raises(CallError, match="from 0 to 3 but computed 1 to 4"):
            executor.run(main, feed={"i": np.array([0, 3])}, fetch_list=[loss])
        assert np.array_equal(now(), kept)
        executor.run(main, feed={"i": np.array([0, 1])}, fetch_list=[loss])
        assert not np.array_equal(now(), kept)


def test_positions_in_large_tensors_cost_no_memory_while_the_program_is_read() -> None:
    with static_mode():
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x, i = paddle.static.data("x", [1 << 12, 1 << 13]), paddle.static.data("i", [1 << 12, 1], "int64")
            taken, sampled = paddle.take_along_axis(x, i, 1, broadcast=False), paddle.index_sample(x, i)
        feeds = {name: main.global_block().vars[name].type for name in "xi"}
        tracemalloc.start()
        plan.make_plan(main, feeds, [taken.name, sampled.name])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 1 << 24


@pytest.mark.parametrize("loops", [False, True], ids=["branch", "loop"])
@pytest.mark.parametrize("name", ["gather", "x[i]", "one_hot", "embedding", "scatter", "index_add"])
def test_a_run_tells_of_what_is_fed_and_read_at_in_a_branch_or_loop(name: str, loops: bool) -> None:
    def part(x: Any, i: Any) -> Any:
        return READS[name](x, i).sum().reshape([1])

    with static_mode():
        static = paddle.static
        x, i = static.data("x", [4, 3]), static.data("i", [2], "int64")
        if loops:
            count, total = paddle.zeros([1], "int64"), paddle.zeros([1])
            made = static.nn.while_loop(lambda n, s: (n < 2).all(), lambda n, s: [n + 1, s + part(x, i)], [count, total])[1]
        else:
            made = static.nn.cond(i.sum() < 0, lambda: paddle.zeros([1]), lambda: part(x, i))
        executor = static.Executor()
        run = lambda ids: executor.run(feed={"x": X, "i": np.array(ids)}, fetch_list=[made])[0]
        assert np.isfinite(run([0, 2])).all()
        with pytest.raises(CallError, match="expected positions"):
            run([0, 3])


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_of_a_free_number_of_positions(accumulate: bool) -> None:
    with static_mode():
        static = paddle.static
        x, i, v = static.data("x", [None, 3]), static.data("i", [None], "int64"), static.data("v", [None, 3])
        made = paddle.index_put(x, (i,), v, accumulate=accumulate)
        values = np.full((4, 3), 7, "float32")
        (got,) = static.Executor().run(feed={"x": X, "i": np.array([2, 0, 3, 1]), "v": values}, fetch_list=[made])
    np.testing.assert_array_equal(got, X + values if accumulate else values)
