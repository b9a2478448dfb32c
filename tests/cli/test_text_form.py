"""`inspect` and `opt` print IR in the form that is asked for, and leave constants out only where a person reads them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme.cli import run_command as run
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.structure import first_difference
from polyreme.ir.text import parse_module, print_module


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """A module with a constant of 100 elements, also in `net.tir`."""
    from polyreme.dialects import nn

    func = Func.empty("main", [], (), result_names=("y",))
    b = Builder.at_end(func.block)
    constant = b(nn.Constant, value=Dense(np.arange(100, dtype=np.float32)))
    b(Return, [b(nn.Exp, constant)])
    made = Module.empty()
    made.block.append(func.finish())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tir").write_text(print_module(made))
    return made


@pytest.fixture
def polyreme(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*args: str) -> tuple[int, str, str]:
        code = run(args)
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("command", ["inspect", "opt"])
@pytest.mark.parametrize("form", [[], ["--generic"], ["--locations"], ["--generic", "--locations"], ["--full"]], ids=" ".join)
def test_what_is_piped_reads_back_in_every_form(polyreme: Any, module: Module, command: str, form: list[str]) -> None:
    code, out, err = polyreme(command, "net.tir", *form)
    assert code == 0, err
    assert ("loc(" in out) == ("--locations" in form)
    assert ('"func.func"' in out) == ("--generic" in form)
    assert first_difference(parse_module(out), module) == ""


@pytest.mark.parametrize("command", ["inspect", "opt"])
def test_constants_are_left_out_on_request(polyreme: Any, module: Module, command: str) -> None:
    _, out, _ = polyreme(command, "net.tir", "--elide", "99")
    assert "value = dense<...>" in out
    _, out, _ = polyreme(command, "net.tir", "--elide", "100")
    assert "dense_resource<" in out
    code, _, err = polyreme(command, "net.tir", "--elide", "100", "--full")
    assert code == 2 and "expected one of --elide and --full but got both" in err


def test_inspect_leaves_long_constants_out_on_a_terminal_only(polyreme: Any, module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "dense<...>" in polyreme("inspect", "net.tir")[1]
    assert "dense<...>" not in polyreme("inspect", "net.tir", "--full")[1]
    assert "dense<...>" not in polyreme("opt", "net.tir")[1]
    polyreme("inspect", "net.tir", "-o", "out.tir")
    assert first_difference(parse_module(Path("out.tir").read_text()), module) == ""


def test_text_with_constants_left_out_is_refused_with_the_way_to_print_it_in_full(polyreme: Any, module: Module) -> None:
    for form in ([], ["--generic"]):
        polyreme("opt", "net.tir", "--elide", "10", "-o", "elided.tir", *form)
        code, _, err = polyreme("opt", "elided.tir")
        assert code == 1
        assert "elided.tir:" in err and "they were elided when it was printed; print it again in full: `--full` on the command line" in err


@pytest.mark.parametrize("level, sign", [("nn", '"polyreme.nn.'), ("tensor", '"polyreme.tensor.'), ("kernel", '"polyreme.kernel.')])
def test_inspect_prints_every_level_in_the_generic_form(polyreme: Any, module: Module, level: str, sign: str) -> None:
    _, readable, _ = polyreme("inspect", "net.tir", "--level", level)
    _, generic, _ = polyreme("inspect", "net.tir", "--level", level, "--generic")
    assert sign in generic
    assert first_difference(parse_module(generic), parse_module(readable)) == ""


def test_the_module_after_a_pass_has_the_same_forms(polyreme: Any, module: Module) -> None:
    _, generic, _ = polyreme("inspect", "net.tir", "--after", "nn-to-tensor", "--generic", "--locations")
    assert '"polyreme.tensor.' in generic and 'net.tir":4:' in generic
