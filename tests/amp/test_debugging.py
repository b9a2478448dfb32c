"""Checks of numbers and counts of operators."""

from __future__ import annotations

import csv
from typing import Any

import pytest

import polyreme as paddle
from polyreme.amp import debugging

F = paddle.nn.functional


def test_a_tensor_is_counted_and_measured() -> None:
    x = paddle.to_tensor([1.0, 0.0, float("nan"), float("inf"), -float("inf"), 0.0])
    counts, values = debugging.check_numerics(x, "custom", "x", debugging.DebugMode.CHECK_NAN_INF)
    assert counts.dtype == paddle.int64 and counts.tolist() == [1, 2, 2] and values.dtype == paddle.float32
    counts, values = debugging.check_numerics(paddle.to_tensor([1.0, -2.0, 4.0]), "custom", "x")
    assert counts.tolist() == [0, 0, 0] and values.tolist() == [4.0, -2.0, 1.0]
    with pytest.raises(RuntimeError, match="'custom' gave 1 nan and 2 infinities.*tensor=x"):
        debugging.check_numerics(x, "custom", "x")
    with pytest.raises(TypeError, match="floating dtype"):
        debugging.check_numerics(paddle.to_tensor([1]), "custom", "x")


def test_operators_are_checked_while_it_is_enabled(capsys: Any) -> None:
    zero = paddle.to_tensor([0.0, 1.0])
    config = debugging.TensorCheckerConfig(True, debugging.DebugMode.CHECK_NAN_INF_AND_ABORT)
    debugging.enable_tensor_checker(config)
    try:
        assert (zero + zero).tolist() == [0.0, 2.0]
        with pytest.raises(RuntimeError, match="'log' gave 0 nan and 1 infinities"):
            paddle.log(zero)
    finally:
        debugging.disable_tensor_checker()
    assert paddle.log(zero)[0].item() == -float("inf")
    for options, said in (
        ({"checked_op_list": ["log"]}, ["op=log"]),
        ({"skipped_op_list": ["log"]}, ["op=elementwise_div"]),
    ):
        capsys.readouterr()
        debugging.enable_tensor_checker(debugging.TensorCheckerConfig(True, debugging.DebugMode.CHECK_NAN_INF, **options))
        paddle.log(zero), 1.0 / zero
        debugging.disable_tensor_checker()
        lines = [line for line in capsys.readouterr().out.splitlines() if "PRECISION" in line]
        assert len(lines) == 1 and all(text in lines[0] for text in said)


def test_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debugging.TensorCheckerConfig, "current_step_id", 0)
    config = debugging.TensorCheckerConfig(True, debug_step=[0, 2])
    zero, failed = paddle.to_tensor([0.0]), []
    for _ in range(4):
        debugging.enable_tensor_checker(config)
        try:
            paddle.log(zero)
            failed.append(False)
        except RuntimeError:
            failed.append(True)
        debugging.disable_tensor_checker()
    assert failed == [True, True, False, False]


def test_the_forward_of_a_layer_is_checked() -> None:
    class Net(paddle.nn.Layer):
        @debugging.check_layer_numerics
        def forward(self, x: Any) -> Any:
            return paddle.log(x)

    assert Net()(paddle.ones([2])).tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="'log'"):
        Net()(paddle.zeros([2]))
    with pytest.raises(RuntimeError, match="'Net'"):
        Net()(paddle.to_tensor([float("nan")]))
    with pytest.raises(RuntimeError, match="must be tensor"):
        Net()(1.0)
    assert paddle.log(paddle.zeros([1])).item() == -float("inf")


@pytest.mark.usefixtures("on_cpu")
def test_calls_are_counted_by_dtype(capsys: Any) -> None:
    x = paddle.rand([2, 2])
    with debugging.collect_operator_stats(), paddle.amp.auto_cast(dtype="bfloat16"):
        y = F.softmax(F.linear(x @ x, x, x[0]))
        F.layer_norm(y, 2)
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|  " in line]
    rows = {name.strip(): [int(n) for n in counts] for name, *counts in lines}
    assert rows["matmul_v2"] == [0, 1, 0, 0] and rows["linear_v2"] == [0, 1, 0, 0]
    assert rows["softmax"] == [0, 0, 1, 0] and rows["layer_norm"] == [0, 0, 1, 0] and "nn.standardize" not in rows
    paddle.amp.debugging.disable_operator_stats_collection()
    assert capsys.readouterr().out == ""


def test_two_runs_are_compared(tmp_path: Any) -> None:
    for run, factor in (("first", 1.0), ("second", 2.0)):
        config = debugging.TensorCheckerConfig(True, debugging.DebugMode.CHECK_ALL, output_dir=str(tmp_path / run))
        debugging.enable_tensor_checker(config)
        paddle.exp(paddle.zeros([2])) * factor
        debugging.disable_tensor_checker()
    debugging.compare_accuracy(str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "both.csv"), loss_scale=2.0)
    with (tmp_path / "both.csv").open() as file:
        rows = {row["op"]: row for row in csv.DictReader(file)}
    assert float(rows["elementwise_mul"]["first max"]) == float(rows["elementwise_mul"]["second max"]) == 1.0
    assert float(rows["exp"]["second max"]) == 0.5 and rows["exp"]["finite in both"] == "True"
    with pytest.raises(ValueError, match="CSV"):
        debugging.compare_accuracy(str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "both.xlsx"))


def test_mistakes_of_a_configuration_are_errors() -> None:
    with pytest.raises(ValueError, match="debug_mode"):
        mode: Any = 1
        debugging.TensorCheckerConfig(False, mode)
    with pytest.raises(ValueError, match="checked_op_list must be list"):
        debugging.TensorCheckerConfig(False, checked_op_list="exp")
    with pytest.raises(AssertionError, match="debug_step"):
        debugging.TensorCheckerConfig(False, debug_step=[3, 1])
