"""Diagnostics: codes, places in Python sources, what crosses between processes; and all faults of a text."""

from __future__ import annotations

import linecache
import pickle
from typing import Any

import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import Diagnostic, InferError, Location, ParseError, PassError, PolyremeError, caller_location, raised_location
from polyreme.ir.syntax.parser import MAX_FAULTS, parse_module
from polyreme.runtime.errors import ArtifactError
from polyreme.static.operator import OperatorError


def in_file(text: str, tmp_path: Any, **names: Any) -> dict[str, Any]:
    """The names that a script leaves behind, run as a file of the user's."""
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    names |= {"__name__": "__main__", "caller_location": caller_location}
    exec(compile(text, str(path), "exec"), names)
    return names


# --- codes


def test_an_error_takes_its_code_from_where_it_is_raised_then_from_its_class() -> None:
    assert PassError("failed").diagnostics[0].code == "E0403"
    assert PassError("unknown", code="E0401").diagnostics[0].code == "E0401"
    kept = PassError([Diagnostic("a", code="E0209"), Diagnostic("b")])
    assert [d.code for d in kept.diagnostics] == ["E0209", "E0403"]


def test_the_code_stands_behind_the_severity() -> None:
    assert Diagnostic("wrong", Location("m.py", 3, 5), code="E0301").render() == "m.py:3:5: error[E0301]: wrong"
    assert str(PolyremeError("wrong", code="E0301")) == "error[E0301]: wrong"
    assert str(PolyremeError("wrong")) == "wrong"
    assert Diagnostic("wrong", code="E0301").render("note") == "note[E0301]: wrong"


@pytest.mark.parametrize(
    "error", [InferError("a", Location("m.py", 1)), PassError([Diagnostic("a"), Diagnostic("b")]), OperatorError("x", code="E0606")]
)
def test_errors_cross_between_processes_whole(error: PolyremeError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.diagnostics == error.diagnostics and str(again) == str(error)


def test_errors_of_the_runtime_cross_whole_too() -> None:
    again = pickle.loads(pickle.dumps(ArtifactError("damaged", code="E0802")))
    assert str(again) == "error[E0802]: damaged" and again.message == "damaged" and again.code == "E0802"


# --- places


def test_the_place_of_a_caller_is_the_span_of_its_expression(tmp_path: Any) -> None:
    place = in_file("a = 1\nplace = [0, caller_location('x')][1]\n", tmp_path)["place"]
    assert (place.line, place.column, place.end_column, place.name) == (2, 13, 33, "x")


def test_columns_count_characters_and_an_expression_of_several_lines_ends_with_its_first(tmp_path: Any) -> None:
    place = in_file("é = 'ü'; place = caller_location(\n    'x',\n)\n", tmp_path)["place"]
    assert (place.line, place.column, place.end_column) == (1, 18, 34)


def test_the_place_of_an_error_is_the_users_innermost_line(tmp_path: Any) -> None:
    text = "def inner(paddle, x):\n    return x + paddle.matmul(x, x)\n\n\ndef outer(paddle, x):\n    return inner(paddle, x)\n"
    outer = in_file(text, tmp_path)["outer"]
    with pytest.raises(InferError) as caught:
        outer(paddle, paddle.ones([2, 3]))
    [fault] = caught.value.diagnostics
    assert fault.code == "E0301" and (fault.location.line, fault.location.column, fault.location.end_column) == (2, 16, 35)
    assert fault.render().splitlines()[1:3] == ["        return x + paddle.matmul(x, x)", "                   " + "^" * 19]
    assert [n.message for n in fault.notes] == ["'x' is tensor<2x3xf32>", "'y' is tensor<2x3xf32>"]


def test_an_error_of_pythons_own_is_placed_as_well(tmp_path: Any) -> None:
    divide = in_file("def divide(x):\n    return 1 + 1 / x\n", tmp_path)["divide"]
    with pytest.raises(ZeroDivisionError) as caught:
        divide(0)
    place = raised_location(caught.value)
    assert (place.line, place.column, place.end_column) == (2, 16, 21)


def test_the_standard_library_is_not_the_user(tmp_path: Any) -> None:
    text = "import functools\n\nproduct = functools.singledispatch(paddle.matmul)\n\n\ndef f(x):\n    return product(x, x)\n"
    f = in_file(text, tmp_path, paddle=paddle)["f"]
    with pytest.raises(InferError) as caught:
        f(paddle.ones([2, 3]))
    place = caught.value.diagnostics[0].location
    assert place.file.endswith("script.py") and (place.line, place.column) == (7, 12)


def test_a_traced_function_says_where_its_operands_were_made(tmp_path: Any) -> None:
    text = "def f(x):\n    wide = paddle.concat([x, x], axis=1)\n    return paddle.matmul(wide, x)\n"
    f = in_file(text, tmp_path, paddle=paddle)["f"]
    with pytest.raises(InferError) as caught:
        paddle.jit.to_static(f, full_graph=True)(paddle.ones([2, 3]))
    shown = str(caught.value)
    assert "script.py:3:12: error[E0301]: 'nn.matmul' expected inner dimensions to agree but got 6 and 2" in shown
    assert "script.py:2:12: note: %wide is tensor<2x6xf32>, defined here" in shown


# --- all faults of a text


def faults(text: str) -> list[tuple[str, int]]:
    with pytest.raises(ParseError) as caught:
        parse_module(text, "net.tir")
    return [(d.code, d.location.line) for d in caught.value.diagnostics]


def test_an_op_that_uses_a_faulty_value_is_no_fault_of_its_own() -> None:
    text = "func @f(%x: tensor<4xf32>) {\n%a = nn.expp %x\n%b = nn.tanh %a\n%c, %d = nn.tanh %b\n%e = nn.tanh %c {axis = 1}\nreturn %e\n}"
    assert faults(text) == [("E0105", 2), ("E0304", 5)]


def test_faults_inside_of_a_region_are_told_but_not_what_the_region_then_lacks() -> None:
    text = """func @f(%x: tensor<4xf32>) {
      %y = tensor.fused %x : tensor<4xf32> { (%a: tensor<4xf32>)
        %b = tensor.map %a {fn = "expp"}
        tensor.yield %b
      }
      %z = nn.add %y, %w
      return %z
    }"""
    assert faults(text) == [("E0303", 3), ("E0103", 6)]


def test_all_undefined_operands_and_all_wrong_attributes_of_an_op_are_told() -> None:
    assert faults("func @f(%x: tensor<4xf32>) {\n%a = nn.add %p, %q\nreturn\n}") == [("E0103", 2), ("E0103", 2)]
    assert faults('func @f(%x: tensor<4xf32>) {\n%a = nn.sum %x {axes = 1, keepdims = "yes"}\nreturn\n}') == [("E0304", 2), ("E0303", 2)]


def test_a_faulty_op_may_claim_any_number_of_results() -> None:
    for count in ("3", "1" + "0" * 30):
        text = f"func @f(%x: tensor<4xf32>) {{\n%0:{count} = nn.exp %x\n%1 = nn.exp %0#2\n%2 = nn.exp %0\n%3 = nn.exp %4#2\nreturn\n}}"
        assert faults(text) == [("E0106", 2), ("E0103", 5)]
        with pytest.raises(ParseError, match=f"expected 1 results of 'nn.exp' to be named but got {count} names"):
            parse_module(text)


def test_a_text_is_given_up_after_many_faults() -> None:
    lines = "\n".join(f"%v{i} = nn.exp %u{i}" for i in range(100))
    assert len(faults(f"func @f(%x: tensor<4xf32>) {{\n{lines}\nreturn\n}}")) == MAX_FAULTS


# --- the nearest name


@pytest.mark.parametrize(
    "module, name, near",
    [
        ("nn", "Linea", "Linear"), ("nn.functional", "sofmax", "softmax"), ("static", "InputSpc", "InputSpec"),
        ("optimizer", "Adan", "Adam"),
        ("io", "DataLoadr", "DataLoader"), ("jit", "to_statc", "to_static"), ("metric", "Acuracy", "Accuracy"),
        ("distributed", "all_reduc", "all_reduce"),
    ],
)  # fmt: skip
def test_a_package_names_the_nearest_of_its_names(module: str, name: str, near: str) -> None:
    package: Any = paddle
    for part in module.split("."):
        package = getattr(package, part)
    with pytest.raises(AttributeError, match=rf"^module 'polyreme.{module}' has no attribute '{name}'; did you mean '{near}'\?$"):
        getattr(package, name)
    assert not hasattr(package, "_hidden")
