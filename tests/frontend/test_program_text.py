"""Programs and their parts as text: the readable form and protobuf's, against Paddle 2.6.2's; and the lines that made an operator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from tests.frontend.static_mode import static_mode

FIXTURES = Path(__file__).parents[1] / "fixtures"
TEXTS = json.loads((FIXTURES / "program_text.json").read_text())
_OPERATOR = re.compile(r"    (?P<head>.*\(inputs=\{[^}]*\}), (?P<attributes>.*)\)")


@pytest.fixture(autouse=True)
def programs() -> Iterator[Any]:
    with static_mode() as both:
        yield both


def _parts(line: str) -> tuple[str, set[str]]:
    found = _OPERATOR.fullmatch(line)
    assert found is not None, line
    return found["head"], set(re.split(r", (?=\w+ = )", found["attributes"]))


@pytest.mark.parametrize("name", list(TEXTS))
def test_a_program_prints_as_in_paddle(name: str) -> None:
    """But for attributes that only old passes of Paddle read, which it leaves out, and a bracket too many of its own."""
    data = np.load(FIXTURES / "programs" / "p262" / f"{name}.npz")["main"].tobytes()
    found, expected = str(static.Program.parse_from_string(data)).split("\n"), TEXTS[name]
    assert len(found) == len(expected) > 40
    for ours, theirs in zip(found, expected, strict=True):
        if "(inputs=" in theirs:
            (head, attributes), (wanted, least) = _parts(ours), _parts(theirs)
            assert head == wanted and attributes >= least
            assert not any(a.startswith("op_callstack") for a in attributes)
        else:
            assert ours == theirs.replace("STEP_SCOPES)", "STEP_SCOPES")


def test_parts_of_a_program_print_in_both_forms() -> None:
    x = static.data("x", [None, 4])
    hidden = static.nn.fc(x, 3, activation="relu")
    chosen = static.nn.cond(paddle.mean(hidden) > 0, lambda: hidden * 2, lambda: hidden)
    main = static.default_main_program()
    block = main.global_block()
    relu = next(op for op in block.ops if op.type == "relu")
    assert repr(relu).startswith(f"{{Out=['{hidden.name}']}} = relu(inputs={{X=[") and str(relu) == repr(relu)
    assert relu.to_string(True).startswith('inputs {\n  parameter: "X"\n') and '\ntype: "relu"\n' in relu.to_string(True)
    linear = next(op for op in block.ops if op.type == "linear")
    assert re.findall(r'^type: "(\w+)"', linear.to_string(True), re.M) == ["mul", "elementwise_add"]
    assert repr(x) == "var x : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(True)"
    assert x.to_string(True).startswith('name: "x"\ntype {\n  type: LOD_TENSOR\n') and "dims: -1" in x.to_string(True)
    assert "error_clip: None" in x.to_string(True, True)
    weight = main.all_parameters()[0]
    assert repr(weight) == "persist trainable param fc_0.w_0 : LOD_TENSOR.shape(4, 3).dtype(float32).stop_gradient(False)"
    assert "optimize_attr: {'learning_rate': 1.0}" in weight.to_string(True, True)
    kinds = re.findall(r'^type: "(\w+)"', next(op for op in block.ops if op.type == "if").to_string(True), re.M)
    assert kinds.count("conditional_block") == 2 and "elementwise_mul" in kinds
    # The bodies are blocks of the description, and none of the program here.
    text = main.to_string(True, True)
    assert text.count("blocks {") == 3 and "trainable: True" in text and chosen.name in text
    assert str(main) == str(block) + "\n" and str(block).startswith("{ // block_idx:0  parent_idx:-1  forward_idx:-1  backward_idx:-1\n")


def made_by_a_helper(x: Any) -> Any:
    return paddle.tanh(x)


def test_an_operator_knows_the_lines_that_made_it() -> None:
    y = made_by_a_helper(static.create_parameter([2], "float32"))
    op = y.op
    assert op is not None and op.has_attr("op_callstack") and "op_callstack" in op.attr_names and "op_callstack" in op.all_attrs()
    *before, place, text = op.attr("op_callstack")
    assert re.fullmatch(r'  File ".*test_program_text.py", line \d+, in made_by_a_helper', place) and text == "    return paddle.tanh(x)"
    assert before[-1] == '    y = made_by_a_helper(static.create_parameter([2], "float32"))' and "in test_an_operator_knows" in before[-2]
    static.append_backward(paddle.sum(y))
    slope = next(o for o in op.block.ops if o.type == "tanh_grad")
    assert slope.attr("op_callstack") == op.attr("op_callstack")
    assert not any("/polyreme/" in line for line in op.attr("op_callstack"))
    main = static.default_main_program()
    again = static.Program.parse_from_string(main.clone().serialize_to_string())
    copied = next(o for o in again.global_block().ops if o.type == "tanh")
    assert copied.attr("op_callstack") == op.attr("op_callstack")
    assert str(copied.location).endswith(f"test_program_text.py:{op.location.line}")


def test_errors_of_a_program_from_bytes_show_the_users_line_not_paddles() -> None:
    x = static.data("x", [2, 3])
    y = paddle.tanh(x)
    y.op.attrs["op_callstack"] = [  # type: ignore[union-attr]
        '  File "train.py", line 7, in <module>', "    y = paddle.tanh(x)",
        '  File "/usr/lib/python3/site-packages/paddle/tensor/ops.py", line 1140, in tanh', "    helper.append_op(",
    ]  # fmt: skip
    again = static.Program.parse_from_string(static.default_main_program().serialize_to_string())
    assert str(again.global_block().ops[-1].location) == "train.py:7"
