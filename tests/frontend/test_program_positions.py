"""Positions that a static Program computes: a run tells of those outside of an axis, and nothing has changed then."""

from __future__ import annotations

from collections.abc import Callable
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
}


def program(function: Callable[..., Any], rows: int | None) -> tuple[Any, Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [rows, 3], "float32")
        return main, function(x, paddle.static.data("i", [2], "int64"))


@pytest.mark.parametrize("rows", [4, None], ids=["known", "free"])
@pytest.mark.parametrize("name", READS)
def test_a_run_tells_of_positions_that_it_computes(name: str, rows: int | None) -> None:
    expected = READS[name](paddle.to_tensor(X), paddle.to_tensor([0, 2])).numpy()
    with static_mode():
        main, result = program(READS[name], rows)
        run = lambda at: paddle.static.Executor().run(main, feed={"x": X, "i": np.array(at)}, fetch_list=[result])[0]
        np.testing.assert_array_equal(run([0, 2]), expected)
        with pytest.raises(CallError, match=r"expected positions \(rows at .*test_program_positions.py:.*\) from -?\d+ to \d+ but comp"):
            run([0, 3])


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
        with pytest.raises(CallError, match="from -4 to 3 but computed 1 to 4"):
            executor.run(main, feed={"i": np.array([0, 3])}, fetch_list=[loss])
        assert np.array_equal(now(), kept)
        executor.run(main, feed={"i": np.array([0, 1])}, fetch_list=[loss])
        assert not np.array_equal(now(), kept)
