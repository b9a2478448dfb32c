"""The pass manager: text of passes, timing, dumps, overrides, checks after each pass, and what a failure leaves behind."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir import passes
from polyreme.ir.convert import Conversion
from polyreme.ir.diagnostics import PassError, PolyremeError
from polyreme.ir.passes import FuncPass, Pass, PassManager, Stage, parse_passes, pass_text, register_pass
from polyreme.ir.text import parse_module, print_module

TEXT = """
func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = tensor.map %x {fn = "exp"} : tensor<2x3xf32>
  return %y
}
"""


@dataclass(frozen=True)
class SwapFunction(FuncPass):
    """Every `from_fn` becomes `to_fn`."""

    name: ClassVar[str] = "swap-function"
    from_fn: str = "exp"
    to_fn: str = "tanh"
    times: int = 1
    loudly: bool = False

    def run_on(self, func):
        for op in func.walk():
            if isinstance(op, tensor.Map) and op.fn == self.from_fn:
                op.attributes = {**op.attributes, "fn": self.to_fn}


@dataclass(frozen=True)
class Break(Pass):
    """Leaves a module that is not valid, or raises."""

    name: ClassVar[str] = "break"
    how: str = "type"

    def run(self, module):
        if self.how == "crash":
            raise KeyError("lost")
        if self.how == "user":
            raise PolyremeError("expected something else")
        op = module.function().block.first
        op.results[0].type = op.results[0].type.with_shape((7,))


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(passes, "PASSES", {})
    for variable in ("POLYREME_DEBUG", "POLYREME_DUMP", "POLYREME_OVERRIDE"):
        monkeypatch.delenv(variable, raising=False)
    register_pass(SwapFunction)
    register_pass(Break)


def test_passes_are_read_from_text_and_written_back():
    spec = "swap-function,swap-function{to-fn=sin times=3 loudly=true},break{how=crash}"
    read = parse_passes(spec)
    assert read == [SwapFunction(), SwapFunction(to_fn="sin", times=3, loudly=True), Break("crash")]
    assert ",".join(map(pass_text, read)) == spec
    assert parse_passes(" ") == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("swap-functions", "expected the name of a pass but got 'swap-functions'; did you mean 'swap-function'?"),
        ("swap-function{time=1}", "the pass 'swap-function' has no option 'time'; did you mean 'times'?"),
        ("break{x=1}", "the pass 'break' has no option 'x' (it has how)"),
        ("swap-function{times=many}", "expected the option 'times' of the pass 'swap-function' to be int but got 'many'"),
        ("swap-function{loudly=yes}", "expected the option 'loudly' of the pass 'swap-function' to be bool but got 'yes'"),
        ("break{", "expected 'name' or 'name{option=value}' but got 'break{'"),
    ],
)
def test_misspelt_passes_are_errors(spec, message):
    with pytest.raises(PassError, match=re.escape(message)):
        parse_passes(spec)


def test_a_conversion_is_registered_and_run_as_a_pass():
    conversion = register_pass(Conversion("nothing", source="nn", target="tensor"))
    assert parse_passes("nothing") == [conversion]
    assert pass_text(conversion) == "nothing"
    manager = PassManager(parse_passes("nothing,swap-function"))
    assert 'fn = "tanh"' in print_module(manager.run(parse_module(TEXT)))
    assert [t.name for t in manager.timings] == ["nothing", "swap-function"]


def test_two_passes_of_one_name_are_an_error():
    @dataclass(frozen=True)
    class Other(Pass):
        name: ClassVar[str] = "break"

    with pytest.raises(ValueError, match="the pass 'break' is registered twice"):
        register_pass(Other)


def test_stages_are_timed_and_announced():
    seen = []
    manager = PassManager([Stage("first", SwapFunction()), Stage("second", SwapFunction("tanh", "sin"))], after_stage=lambda s, m: seen.append((s.name, 'fn = "sin"' in print_module(m))))
    manager.run(parse_module(TEXT))
    assert seen == [("first", False), ("second", True)]
    assert [(t.stage, t.name) for t in manager.timings] == [("first", "swap-function"), ("second", "swap-function")]
    assert re.fullmatch(r"( +\d+\.\d\d ms  swap-function  (first|second)\n?){2}", manager.timing_table())


def test_dumps_are_written_for_passes_that_changed_something(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYREME_DUMP", str(tmp_path / "dump"))
    PassManager(parse_passes("swap-function,swap-function,swap-function{from-fn=tanh to-fn=sin}")).run(parse_module(TEXT))
    assert sorted(p.name for p in (tmp_path / "dump").iterdir()) == ["00-input.tir", "01-swap-function.tir", "03-swap-function.tir"]
    assert 'fn = "sin"' in (tmp_path / "dump" / "03-swap-function.tir").read_text()


def test_a_file_takes_the_place_of_what_a_pass_made(tmp_path, monkeypatch):
    (tmp_path / "01-swap-function.tir").write_text(TEXT.replace("exp", "cos"))
    monkeypatch.setenv("POLYREME_OVERRIDE", str(tmp_path))
    module = PassManager([SwapFunction()], verify_each=True).run(parse_module(TEXT))
    assert 'fn = "cos"' in print_module(module)


def test_the_debug_ladder_prints_timings_and_modules(monkeypatch, capsys):
    monkeypatch.setenv("POLYREME_DEBUG", "6")
    PassManager(parse_passes("swap-function,swap-function")).run(parse_module(TEXT))
    shown = capsys.readouterr().err
    assert "// after 01-swap-function\nmodule {" in shown
    assert "// after 02-swap-function (unchanged)" in shown
    assert "ms  swap-function" in shown


def reproducer(error):
    """The file that the last note of an error names, after trying its command's passes again."""
    path, spec = re.search(r"repeat with: polyreme opt (\S+) --passes '([^']*)'", str(error)).groups()
    text = Path(path).read_text()
    assert text.startswith(f"// polyreme opt {path} --passes '{spec}'\n")
    with pytest.raises(PassError):
        PassManager(parse_passes(spec), verify_each=True).run(parse_module(text))
    return text


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("type", "expected 'tensor.map' to result in tensor<2x3xf32> but got tensor<7xf32>"),
        ("crash", "the pass 'break' failed with KeyError: 'lost'"),
        ("user", "expected something else"),
    ],
)
def test_a_pass_that_fails_leaves_its_input_and_the_command_that_repeats_it(how, message, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYREME_DUMP", str(tmp_path))
    with pytest.raises(PassError) as caught:
        PassManager([SwapFunction(), Break(how)], verify_each=True).run(parse_module(TEXT))
    assert message in str(caught.value)
    # The input is the module as the pass before left it.
    assert 'fn = "tanh"' in reproducer(caught.value)


def test_an_input_that_cannot_be_saved_is_said_and_hides_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(PassError, match="expected something else"):
        monkeypatch.setattr(passes.config, "dump_folder", lambda: None)
        monkeypatch.setattr(passes.tempfile, "mkstemp", lambda **_: (_ for _ in ()).throw(OSError("disk full")))
        PassManager([Break("user")]).run(parse_module(TEXT))


def test_a_pass_that_changes_what_is_computed_is_found_by_running_it():
    inputs = [np.ones((2, 3), np.float32)]
    PassManager([SwapFunction("cos", "sin")], inputs=inputs).run(parse_module(TEXT))
    with pytest.raises(PassError, match=r"the pass changed what is computed: result 0 at \[\d, \d\]: expected (.|\n)* elements are wrong(.|\n)*the pass 'swap-function' failed"):
        PassManager([SwapFunction()], inputs=inputs).run(parse_module(TEXT))


def test_a_dump_folder_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POLYREME_DUMP", str(tmp_path / "file"))
    with pytest.raises(PolyremeError, match="cannot dump the module to"):
        PassManager([SwapFunction()]).run(parse_module(TEXT))


def test_a_debug_level_that_is_no_number_is_an_error(monkeypatch):
    monkeypatch.setenv("POLYREME_DEBUG", "loud")
    with pytest.raises(PolyremeError, match="expected POLYREME_DEBUG to be a whole number from 0 on but got 'loud'"):
        PassManager([SwapFunction()]).run(parse_module(TEXT))
