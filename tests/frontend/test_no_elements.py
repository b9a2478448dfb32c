"""What needs elements, of as many as values select: compiled functions and files tell of none as eager mode does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import polyreme as paddle
from polyreme.runtime.errors import CallError

NEEDS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(0),
    "amax_of_rows": lambda x: paddle.amax(x.unsqueeze(0), 1),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(0),
    "norm": lambda x: paddle.norm(x, p=float("inf")),
    "first": lambda x: x[0],
    "topk": lambda x: paddle.topk(x, 2)[0],
    "mode": lambda x: paddle.mode(x)[0],
    "split": lambda x: paddle.split(x, 2)[0],
}
TAKES: dict[str, Callable[[Any], Any]] = {
    "std": lambda x: x.std(),
    "var": lambda x: x.var(),
    "logsumexp": lambda x: paddle.logsumexp(x),
    "median": lambda x: x.median(),
    "diff": lambda x: paddle.diff(x),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
}
SOME, NONE, ONE = [0.6, 0.2, 0.9, 0.7, 0.8], [0.1] * 5, [0.1, 0.7, 0.1, 0.1, 0.1]


def _outcome(function: Any, values: list[float]) -> Any:
    try:
        made = function(paddle.to_tensor(values))
    except Exception as error:
        return type(error).__name__
    return made.shape, made.dtype, made.numpy()


@pytest.mark.parametrize("name", [*NEEDS, *TAKES])
def test_a_compiled_function_of_no_elements_is_as_eager_mode(name: str) -> None:
    function = {**NEEDS, **TAKES}[name]

    def selected(x: Any) -> Any:
        return function(x[x > 0.5])

    compiled = paddle.jit.to_static(selected)
    for values in (SOME, NONE, ONE, SOME, NONE):
        expected, found = _outcome(selected, values), _outcome(compiled, values)
        if isinstance(expected, str):
            assert found == expected, values
        else:
            assert found[:2] == expected[:2] and found[2] == pytest.approx(expected[2], nan_ok=True, rel=1e-5), values


@pytest.mark.parametrize("name", ["max", "argmax", "norm", "std"])
def test_a_file_tells_of_no_elements(name: str, tmp_path: Path) -> None:
    function = {**NEEDS, **TAKES}[name]

    class Net(paddle.nn.Layer):
        def forward(self, x: Any) -> Any:
            return function(x[x > 0.5]), function(x)

    paddle.jit.save(Net(), str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None], "float32")])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    x = paddle.to_tensor(SOME)
    for made, wanted in zip(loaded(x), Net()(x), strict=True):
        assert made.numpy() == pytest.approx(wanted.numpy())
    if name == "std":
        assert all(made.isnan() for made in loaded(paddle.zeros([0])))
        return
    with pytest.raises(CallError, match="at least one element"):
        loaded(paddle.to_tensor(NONE))
    with pytest.raises(CallError, match="expected N to be at least 1"):
        loaded(paddle.zeros([0]))


def test_a_zero_divisor_in_a_loop_is_told_with_its_reason() -> None:
    @paddle.jit.to_static(full_graph=True)
    def function(x: Any, d: Any) -> Any:
        n = paddle.zeros([], "int64")
        total = paddle.zeros([], "int64")
        while n < x:
            total = total + 7 // (d - n)
            n = n + 1
        return total

    assert int(function(paddle.to_tensor(2), paddle.to_tensor(5))) == 2
    with pytest.raises(CallError, match="Integer division by zero"):
        function(paddle.to_tensor(4), paddle.to_tensor(2))
