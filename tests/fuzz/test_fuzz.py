"""A few hundred mutated texts, and whether the fuzzer would notice: faults are planted, and it has to find them.

The long runs are `python -m tests.fuzz`; random modules are checked in `tests/ir/test_random_modules.py` by default.
"""

import os
import time

import pytest

from polyreme.ir.diagnostics import Diagnostic, Location, ParseError
from polyreme.ir.syntax import parser
from polyreme.ir.text import parse_module
from tests.fuzz import cases, pool
from tests.fuzz.__main__ import main
from tests.fuzz.checks import Fault, check_text
from tests.fuzz.reduce import smallest
from tests.fuzz.texts import MUTATIONS, corpus, mutated

VALID = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = nn.exp %x : tensor<4xf32>\n  return %y\n}\n"


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_mutated_texts_are_refused_with_a_position_or_survive_printing(first):
    for number in range(first, first + 100):
        assert check_text(mutated(7, number), seconds=5) in ("refused", "invalid", "valid")


def test_a_seed_and_a_number_say_the_text():
    assert [mutated(3, n) for n in range(20)] == [mutated(3, n) for n in range(20)]
    assert [mutated(3, n) for n in range(20)] != [mutated(4, n) for n in range(20)]


def test_texts_of_every_outcome_are_made():
    assert {check_text(mutated(5, number), seconds=5) for number in range(150)} == {"refused", "invalid", "valid"}


@pytest.mark.parametrize("mutation", sorted(set(MUTATIONS), key=lambda m: m.__name__), ids=lambda m: m.__name__)
def test_every_mutation_changes_texts_and_takes_the_empty_one(mutation):
    import random

    rng = random.Random(1)
    assert any(mutation(rng, corpus()[0]) != corpus()[0] for _ in range(20))
    for _ in range(20):
        mutation(rng, "")


# --- planted faults


def _planted(monkeypatch, instead):
    real = parser.parse_symbol
    monkeypatch.setattr(parser, "parse_symbol", lambda text: instead() if text == "@f" else real(text))


def test_a_crash_is_a_fault(monkeypatch):
    _planted(monkeypatch, lambda: 1 // 0)
    with pytest.raises(Fault, match="ZeroDivisionError while parsing"):
        check_text(VALID)


def test_a_loop_without_end_is_a_fault(monkeypatch):
    def forever():
        while True:
            pass

    _planted(monkeypatch, forever)
    start = time.process_time()
    with pytest.raises(Fault, match="hang: more than 0.2 s"):
        check_text(VALID, seconds=0.2)
    assert time.process_time() - start < 5


def test_a_rejection_without_a_position_is_a_fault(monkeypatch):
    def nowhere():
        raise ParseError(Diagnostic("something is wrong", Location("text.tir")))

    _planted(monkeypatch, nowhere)
    with pytest.raises(Fault, match="no position: something is wrong"):
        check_text(VALID)


def test_a_name_that_is_lost_in_printing_is_a_fault(monkeypatch):
    from polyreme.ir import text

    monkeypatch.setattr(text, "symbol_text", lambda *_: "@g")
    with pytest.raises(Fault, match="another module when read back in the readable form"):
        check_text(VALID)


def test_a_process_that_dies_costs_one_case_only(monkeypatch):
    monkeypatch.setitem(
        pool.CASES, "texts", lambda seed, number, known: os._exit(3) if number == 5 else cases.Outcome(cases.Counter(["valid"]))
    )
    met = {number: outcome.fault for number, outcome, _ in pool.run_cases("texts", 1, 90, 2, time.monotonic() + 60)}
    assert met.pop(5) == "the process ended with code 3"
    assert met == dict.fromkeys((n for n in range(90) if n != 5), "")


def test_a_process_that_says_nothing_is_ended(monkeypatch):
    monkeypatch.setattr(pool, "WATCHDOG", 0.5)
    monkeypatch.setitem(pool.CASES, "texts", lambda seed, number, known: time.sleep(60) if number == 1 else cases.Outcome())
    met = {number: outcome.fault for number, outcome, _ in pool.run_cases("texts", 1, 4, 1, time.monotonic() + 60)}
    assert met == {0: "", 1: "hang: no sign of life for 0 s", 2: "", 3: ""}


def test_what_shows_a_fault_is_made_small():
    assert smallest("one\ntwo three four\nfive\n", lambda t: "three" in t) == "three"


def test_the_runner_keeps_what_it_finds_and_says_so(monkeypatch, tmp_path, capsys):
    _planted(monkeypatch, lambda: 1 // 0)
    monkeypatch.setattr(cases, "mutated", lambda seed, number: VALID if number == 3 else "")
    monkeypatch.setattr(
        "sys.argv", ["fuzz", "--texts", "8", "--modules", "0", "--functions", "0", "--workers", "1", "--out", str(tmp_path)]
    )
    assert main() == 1
    printed = capsys.readouterr().out
    assert "seed 1" in printed and "texts: 8 of 8" in printed and "1 x ZeroDivisionError while parsing" in printed
    [kept] = tmp_path.glob("*.tir")
    text = kept.read_text()
    assert "@f" in text and len(text) < len(VALID)


def test_the_runner_stops_when_its_minutes_are_over(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fuzz", "--minutes", "0.05", "--workers", "1", "--modules", "0", "--functions", "0"])
    start = time.monotonic()
    assert main() == 0
    assert time.monotonic() - start < 30
    assert "no faults" in capsys.readouterr().out


# --- what runs of it have found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func @f() {\n  %c = nn.constant {value = dense<0> : tensor<100000x100000x100000xi64>} : tensor<4xi64>\n  return\n}",
            "a constant of at most 2147483648 bytes",
        ),
        (
            "func @f() {\n  %c = nn.constant {value = dense<> : tensor<0x100000x100000xi64>} : tensor<4xi64>\n  return\n}",
            "a constant of at most 2147483648 bytes",
        ),
        ('"builtin.module"() ({\n  %v = "polyreme.nn.relu"() {operandSegmentSizes = array} : () -> tensor<f32>\n}) : () -> '
        '()', "'operandSegmentSizes' to be a list of int"),
        ("func @f() {\n  %c = nn.full {value = [], shape = [4], dtype = f32} : tensor<4xf32>\n  return\n}", "'value' to be a number"),
        (
            "func @f(%x: tensor<4xf32>) {\n  %y = nn.softplus %x {beta = " + "9" * 400 + "}\n  return\n}",
            "'beta' to be a number that a float can be",
        ),
        (
            '"builtin.module"() (' + '{\n"polyreme.tensor.fused"() (' * 70 + "{}" + ") : () -> ()\n}" * 70 + ") : () -> ()",
            "regions to nest at most 64 deep",
        ),
    ],
    ids=[
        "a constant too large",
        "an empty constant too large",
        "segments that are no list",
        "an empty list for a number",
        "a number too large for a float",
        "empty regions nested too deeply",
    ],
)
def test_texts_that_once_crashed_or_had_no_position_are_refused_at_one(text, message):
    with pytest.raises(ParseError) as caught:
        parse_module(text, "text.tir")
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert first.location.line and first.location.column
    assert check_text(text) == "refused"


def test_a_size_too_large_for_the_text_is_invalid():
    assert check_text("func @f() {\n  %y = nn.full {value = 1.0, shape = [9223372036854775808], dtype = f32}\n  return\n}") == "invalid"


def test_a_zero_with_a_sign_is_printed_where_the_default_has_none():
    assert (
        check_text(
            "func @f(%x: tensor<4xf32>) {\n  %y = tensor.pad %x {low = [0], high = [1], interior = [0], value = -0.0} : tensor<5xf32>\n  "
            "return\n}"
        )
        == "valid"
    )


def test_a_module_that_takes_arguments_is_invalid():
    assert check_text("module {\n^bb0(%x: tensor<4xf32>):\n}") == "invalid"
