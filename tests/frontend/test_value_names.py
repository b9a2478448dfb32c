"""Values of a traced function are called after the user's variables, those of a loaded model and of a static Program after its own."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
import polyreme.nn.functional as F
from polyreme import nn
from polyreme.compiled.inspection import inspect
from polyreme.ir.text import parse_module, print_module
from polyreme.jit.saving import trace_model
from polyreme.static import InputSpec

MODELS = Path(__file__).parents[1] / "fixtures" / "models"


def names_of(function: Any, *shapes: list[int]) -> list[str]:
    """What the results of the ops of a traced function are called, one after the other; "" for values without a name."""
    traced = trace_model(function, [InputSpec(shape, "float32", f"in{i}") for i, shape in enumerate(shapes)])
    return [r.name for op in traced.func.block for r in op.results]


def test_a_value_is_called_after_the_variable_it_is_assigned_to() -> None:
    def f(x: Any) -> Any:
        hidden = F.relu(x)
        return hidden.exp()

    assert names_of(f, [2, 3]) == ["hidden", ""]


def test_a_value_inside_a_larger_expression_has_no_name() -> None:
    def f(x: Any) -> Any:
        y = F.relu(x.exp()).sin()
        return y

    assert names_of(f, [2]) == ["", "", "y"]


def test_the_last_variable_before_the_return_counts_as_well() -> None:
    def f(x: Any) -> Any:
        result = x.exp()
        return result

    assert names_of(f, [2]) == ["result"]


def test_each_part_of_a_tuple_is_called_after_its_own_target() -> None:
    def f(x: Any) -> Any:
        first, second = paddle.split(x, 2, axis=1)
        return first + second

    assert names_of(f, [2, 4]) == ["first", "second", ""]


def test_an_augmented_assignment_and_a_walrus_name_their_results() -> None:
    def f(x: Any) -> Any:
        total = x.exp()
        total += (extra := x.sin())
        return total * extra

    assert names_of(f, [2]) == ["total", "extra", "total", ""]


def test_results_of_a_loop_are_told_apart_by_numbers_in_the_text() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = x.exp()
        return x

    text = inspect(f, [InputSpec([2], "float32", "x")]).nn
    assert re.findall(r"(%\w+) = nn.exp", text) == ["%x_1", "%x_2", "%x_3"]


def test_the_result_of_a_call_is_named_though_it_is_not_the_last_op_of_the_call() -> None:
    def first_of_two(x: Any) -> Any:
        return [x.exp(), x.sin()][0]

    def f(x: Any) -> Any:
        y = first_of_two(x)
        return y.cos()

    assert names_of(f, [2]) == ["y", "", ""]


def test_variables_of_inner_functions_come_before_those_of_their_callers() -> None:
    class Inner(nn.Layer):
        def forward(self, x: Any) -> Any:
            inside = x.exp()
            return inside

    inner = Inner()

    def f(x: Any) -> Any:
        outside = inner(x)
        other = (lambda v: v.sin())(x)
        return outside + other

    assert names_of(f, [2]) == ["inside", "other", ""]


def test_comprehensions_and_arguments_name_what_they_hold() -> None:
    def square(side: Any) -> Any:
        return side * side

    def f(x: Any) -> Any:
        return sum(square(x.exp()) for _ in range(1))

    assert names_of(f, [2])[0] == "side"


def test_parameters_are_called_after_their_path_in_the_layer() -> None:
    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.LayerList([nn.Linear(3, 3)])
            self.fc1 = nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.fc1(self.blocks[0](x))

    func = trace_model(Net(), [InputSpec([4, 3], "float32", "x")]).func
    assert [a.name for a in func.args] == ["x", "blocks.0.weight", "blocks.0.bias", "fc1.weight", "fc1.bias"]


def test_names_that_mlir_does_not_take_are_spelt_otherwise() -> None:
    def f(x: Any) -> Any:
        größe = x.exp()
        größe2 = größe.sin()
        return größe2

    module = trace_model(f, [InputSpec([2], "float32", "x")]).module()
    for generic in (False, True):
        text = print_module(module, generic)
        assert re.findall(r"(%\S+) = ", text) == ["%gr__e", "%gr__e2"]
        assert print_module(parse_module(text), generic) == text


@pytest.mark.usefixtures("only_new_garbage")
def test_names_do_not_keep_the_users_variables_alive() -> None:
    kept = []

    class Held:
        pass

    def f(x: Any) -> Any:
        held = Held()
        kept.append(weakref.ref(held))
        return x.exp()

    trace_model(f, [InputSpec([2], "float32", "x")])
    gc.collect()
    assert kept[0]() is None


def test_eager_ops_look_at_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyreme.jit.capture.names import VariableNames

    def refuse(self: Any) -> None:
        raise AssertionError("an eager op looked for variables")

    monkeypatch.setattr(VariableNames, "step", refuse)
    x = paddle.to_tensor(np.ones(3, "float32"))
    y = F.relu(x) + 1.0
    assert y.numpy().tolist() == [2.0, 2.0, 2.0]


def test_values_of_a_loaded_model_are_called_after_its_variables() -> None:
    model = paddle.jit.load(str(MODELS / "legacy" / "mlp"))
    text = inspect(model).nn
    assert re.findall(r"(%[\w.]+) = nn\.\w+", text)[:3] == ["%flatten_0.tmp_0", "%linear_0.tmp_0", "%linear_0.tmp_1"]


def test_values_of_a_static_program_are_called_after_its_variables() -> None:
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            x = paddle.static.data("x", [None, 4])
            y = F.relu(x)
            z = paddle.sum(y)
        text = print_module(program.module([z]))
    finally:
        paddle.disable_static()
    assert re.findall(r"(%[\w.]+) = nn\.\w+", text) == [f"%{y.name}", f"%{z.name}"]
