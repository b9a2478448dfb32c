"""Operators of tensors take a short way once a call is planned: it gives what the long way does, and only where that would go."""

from __future__ import annotations

import operator
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch
from polyreme.dialects import nn
from polyreme.ir import scalar

ARRAYS = {
    "float32": np.array([1.5, -2.0, 0.0], "float32"),
    "float64": np.array([[0.5], [2.0]]),
    "int64": np.array([3, -1, 2]),
    "bool": np.array([True, False, True]),
    "0-d": np.array(2.0, "float32"),
    "empty": np.zeros((0, 3), "float32"),
    "strided": np.arange(6, dtype="float32").reshape(3, 2).T,
}
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.le, operator.gt, operator.ge]


def outcome(function: Any, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    try:
        made = function(paddle.to_tensor(a), paddle.to_tensor(b))
    except Exception as error:  # the same error either way is what is asked for
        return type(error), str(error)
    return made.numpy(), made.type


@pytest.mark.parametrize("function", OPERATORS)
def test_the_short_way_gives_what_the_long_way_gives(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for a in ARRAYS.values():
        for b in ARRAYS.values():
            first = outcome(function, a, b)
            again = outcome(function, a, b)
            with monkeypatch.context() as patch:
                patch.setattr(dispatch, "planned_pair", lambda *_: None)
                long = outcome(function, a, b)
            for made in (first, again):
                assert made[1] == long[1]
                if isinstance(long[0], np.ndarray):
                    assert made[0].dtype == long[0].dtype
                np.testing.assert_array_equal(made[0], long[0])


def test_the_short_way_is_taken_and_recorded_on_the_tape() -> None:
    x, y = paddle.to_tensor([1.0, 2.0], stop_gradient=False), paddle.to_tensor([3.0, 4.0])
    x * y
    made = dispatch.planned_pair(nn.Mul, x, y)
    assert made is not None
    made.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    with paddle.no_grad():
        assert (x * y).stop_gradient


def test_a_recorder_gets_what_is_planned_for_eager_mode() -> None:
    x = paddle.to_tensor([1.0, 2.0])
    x + x
    traced = paddle.jit.to_static(lambda v: v + v)
    assert traced(x).tolist() == [2.0, 4.0]


def test_overflow_is_silent_here_and_numpy_warns_elsewhere_as_before() -> None:
    big = paddle.to_tensor(np.array([3e38], "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert np.isinf((big + big).numpy()).all()
        with pytest.raises(RuntimeWarning):
            np.add(np.array([3e38], "float32"), np.array([3e38], "float32"))


def test_scalar_functions_may_run_inside_of_one_another_and_in_threads() -> None:
    add = scalar.scalar_function("add").numpy
    nested = scalar._quiet(lambda a, b: add(a, b) * 2)
    found: list[Any] = []
    run = threading.Thread(target=lambda: found.append(nested(np.array([3e38], "float32"), np.array([3e38], "float32"))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.start()
        run.join()
    assert np.isinf(found[0]).all() and nested(1.0, 2.0) == 6.0
