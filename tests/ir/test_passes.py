"""The pass manager: text of passes, timing, dumps, overrides, checks after each pass, and what a failure leaves behind."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir import passes
from polyreme.ir.convert import Conversion
from polyreme.ir.debug import reproducer as reproducer_module
from polyreme.ir.debug.reproducer import read_inputs
from polyreme.ir.diagnostics import PassError, PolyremeError
from polyreme.ir.passes import FuncPass, Pass, PassManager, Stage, parse_passes, pass_text, register_pass
from polyreme.ir.rewrite import pattern, rewrite_greedily
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import bf16

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
    register_pass(Options)


def test_passes_are_read_from_text_and_written_back():
    spec = "swap-function,swap-function{to-fn=sin times=3 loudly=true},break{how=crash}"
    read = parse_passes(spec)
    assert read == [SwapFunction(), SwapFunction(to_fn="sin", times=3, loudly=True), Break("crash")]
    assert ",".join(map(pass_text, read)) == spec
    assert parse_passes(" ") == []


@dataclass(frozen=True)
class Options(Pass):
    """Has an option of each kind."""

    name: ClassVar[str] = "options"
    text: str = ""
    count: int = 0
    ratio: float = 1.0
    flag: bool = False
    sizes: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


@given(
    st.builds(
        Options,
        st.text(),
        st.integers(),
        st.floats(allow_nan=False),
        st.booleans(),
        st.tuples(st.integers()),
        st.lists(st.text()).map(tuple),
    )
)
def test_options_of_every_kind_are_written_so_that_they_can_be_read_back(options):
    register_pass(Options)
    assert parse_passes(f"options,{pass_text(options)}") == [Options(), options]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("swap-functions", "expected the name of a pass but got 'swap-functions'; did you mean 'swap-function'?"),
        ("swap-function{time=1}", "the pass 'swap-function' has no option 'time'; did you mean 'times'?"),
        ("break{x=1}", "the pass 'break' has no option 'x' (it has how)"),
        ("swap-function{times=many}", "expected the option 'times' of the pass 'swap-function' to be int but got 'many'"),
        ("swap-function{loudly=yes}", "expected the option 'loudly' of the pass 'swap-function' to be bool but got 'yes'"),
        ("options{sizes=[1,x]}", "expected the option 'sizes' of the pass 'options' to be a list of int, as in [1, 2], but got '[1,x]'"),
        ("options{text=[}", "expected 'option=value' for the pass 'options' but got 'text=['"),
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
    assert list(manager.timing.parts) == ["nothing", "swap-function"]


def test_two_passes_of_one_name_are_an_error():
    @dataclass(frozen=True)
    class Other(Pass):
        name: ClassVar[str] = "break"

    with pytest.raises(ValueError, match="the pass 'break' is registered twice"):
        register_pass(Other)


def test_stages_are_announced_and_passes_too():
    seen = []
    manager = PassManager(
        [Stage("first", SwapFunction()), Stage("second", SwapFunction("tanh", "sin"), SwapFunction())],
        after_stage=lambda s, m: seen.append((s.name, 'fn = "sin"' in print_module(m))),
        after_pass=lambda s, p, m: seen.append((s.name, pass_text(p))),
    )
    manager.run(parse_module(TEXT))
    second = "swap-function{from-fn=tanh to-fn=sin}"
    assert seen == [("first", "swap-function"), ("first", False), ("second", second), ("second", "swap-function"), ("second", True)]


def test_times_are_a_tree_of_stages_passes_functions_and_patterns():
    @pattern(tensor.Map)
    def exp_to_tanh(op, b):
        """exp(x)  ->  tanh(x)"""
        return b(tensor.Map, op.xs[0], fn="tanh") if op.fn == "exp" else None

    @dataclass(frozen=True)
    class Rewrite(Pass):
        name: ClassVar[str] = "rewrite"

        def run(self, module):
            rewrite_greedily(module, [exp_to_tanh])

    stages = [Stage("first", SwapFunction("cos", "sin"), Rewrite()), Stage("second", SwapFunction(), SwapFunction())]
    manager = PassManager(stages, verify_each=True, detailed=True)
    manager.run(parse_module(TEXT))
    tree = [(depth, step.name, step.count) for depth, step in manager.timing.walk()]
    assert tree == [
        (0, "passes", 1),
        (1, "first", 1),
        (2, "swap-function", 1), (3, "@main", 1), (3, "verify", 1),
        (2, "rewrite", 1), (3, "exp_to_tanh", 2), (3, "verify", 1),
        (1, "second", 1),
        (2, "swap-function", 2), (3, "@main", 2), (3, "verify", 2),
    ]  # fmt: skip
    for _, step in manager.timing.walk():
        assert step.seconds >= sum(part.seconds for part in step.parts.values()) > (0 if step.parts else -1)
    lines = manager.timing_table().splitlines()
    assert re.fullmatch(r" +\d+\.\d\d ms 100\.0%  passes", lines[0])
    assert re.fullmatch(r" +\d+\.\d\d ms +\d+\.\d%      swap-function  \(2 times\)", lines[9])
    # Without `detailed` nothing below the passes is measured but what the manager itself does.
    plain = PassManager(stages, verify_each=True)
    plain.run(parse_module(TEXT))
    assert {step.name for depth, step in plain.timing.walk() if depth == 3} == {"verify"}


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


def test_runs_of_a_process_after_the_first_dump_and_override_in_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYREME_DUMP", str(tmp_path / "dump"))
    monkeypatch.setenv("POLYREME_OVERRIDE", str(tmp_path / "new"))
    (tmp_path / "new" / "run-2").mkdir(parents=True)
    (tmp_path / "new" / "run-2" / "01-swap-function.tir").write_text(TEXT.replace("exp", "cos"))
    first, second = (print_module(PassManager([SwapFunction()]).run(parse_module(TEXT))) for _ in range(2))
    assert 'fn = "tanh"' in first and 'fn = "cos"' in second
    assert (tmp_path / "dump" / "01-swap-function.tir").read_text() == first
    assert (tmp_path / "dump" / "run-2" / "01-swap-function.tir").read_text() == second


def test_a_file_that_takes_the_place_of_a_module_has_to_be_valid(tmp_path, monkeypatch):
    (tmp_path / "01-swap-function.tir").write_text(TEXT.replace("%y = tensor.map %x", "%y = tensor.map %x, %x"))
    monkeypatch.setenv("POLYREME_OVERRIDE", str(tmp_path))
    with pytest.raises(PolyremeError, match=r"01-swap-function\.tir:3:8: error\[E\d{4}\]"):
        PassManager([SwapFunction()]).run(parse_module(TEXT))


LADDER = {
    0: [],
    1: ["ms 100.0%  passes"],
    4: ["ms 100.0%  passes"],
    5: ["ms 100.0%  passes", "// after the stage one\nmodule {"],
    6: ["ms 100.0%  passes", "// after 01-swap-function\nmodule {", "// after 02-swap-function (unchanged)"],
    7: [
        "ms 100.0%  passes",
        "// after 01-swap-function\nmodule {",
        "// after 02-swap-function (unchanged)",
        "rewrite exp_to_tanh at place.tir:3:8: <tensor.map",
    ],
}


@pytest.mark.parametrize("level", LADDER)
def test_each_rung_of_the_debug_ladder_shows_more(level, monkeypatch, capsys):
    @pattern(tensor.Map)
    def exp_to_tanh(op, b):
        """exp(x)  ->  tanh(x)"""
        return b(tensor.Map, op.xs[0], fn="tanh") if op.fn == "exp" else None

    @dataclass(frozen=True)
    class Rewrite(SwapFunction):
        def run(self, module):
            rewrite_greedily(module, [exp_to_tanh])

    monkeypatch.setenv("POLYREME_DEBUG", str(level))
    PassManager([Stage("one", Rewrite(), SwapFunction())]).run(parse_module(TEXT, "place.tir"))
    shown = capsys.readouterr().err
    for sign in {sign for signs in LADDER.values() for sign in signs}:
        assert (sign in shown) == (sign in LADDER[level]), f"{sign!r} in\n{shown}"


def reproducer(error):
    """The text that the last note of an error says is kept, after reading the command: (text, words of the command)."""
    words = shlex.split(re.search(r"repeat with: (.*)", str(error)).group(1))
    text = Path(words[2]).read_text()
    assert text.startswith(f"// {shlex.join(words)}\n")
    return text, words


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
    text, words = reproducer(caught.value)
    # The input is the module as the pass before left it.
    assert 'fn = "tanh"' in text
    spec = "break" if how == "type" else f"break{{how={how}}}"
    assert words == ["polyreme", "opt", words[2], "--load", __file__, "--passes", spec, "--verify-each", "--no-run"]
    with pytest.raises(PassError, match=re.escape(message)):
        PassManager(parse_passes(spec), verify_each=True).run(parse_module(text))


def test_the_input_of_a_failing_pass_is_what_an_override_made_of_it(tmp_path, monkeypatch):
    (tmp_path / "01-swap-function.tir").write_text(TEXT.replace("exp", "cos"))
    monkeypatch.setenv("POLYREME_OVERRIDE", str(tmp_path))
    monkeypatch.setattr(reproducer_module.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(PassError) as caught:
        PassManager([SwapFunction(), Break("crash")]).run(parse_module(TEXT))
    assert 'fn = "cos"' in reproducer(caught.value)[0]


def test_an_input_that_cannot_be_saved_is_said_and_hides_nothing(monkeypatch):
    monkeypatch.setattr(reproducer_module.tempfile, "mkstemp", lambda **_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(PassError, match=r"expected something else(.|\n)*its input could not be saved: disk full"):
        PassManager([Break("user")]).run(parse_module(TEXT))


def test_arrays_that_a_module_was_run_on_are_kept_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYREME_DUMP", str(tmp_path))
    module = parse_module(TEXT.replace("f32", "bf16"))
    inputs = [np.linspace(-1, 1, 6).reshape(2, 3).astype(bf16.np)]
    with pytest.raises(PassError, match="the pass changed what is computed") as caught:
        PassManager([SwapFunction()], inputs=inputs).run(module.clone())
    _, words = reproducer(caught.value)
    assert words[-2] == "--inputs"
    (read,) = read_inputs(words[-1], module.function())
    assert read.dtype == bf16.np and read.tobytes() == inputs[0].tobytes()
    (tmp_path / "no.npz").write_text("text")
    with pytest.raises(PolyremeError, match=r"expected arrays in .*no\.npz, as numpy\.savez writes them by position, but got"):
        read_inputs(tmp_path / "no.npz", module.function())


def test_a_pass_that_changes_what_is_computed_is_found_by_running_it():
    inputs = [np.ones((2, 3), np.float32)]
    PassManager([SwapFunction("cos", "sin")], inputs=inputs).run(parse_module(TEXT))
    with pytest.raises(
        PassError,
        match=r"the pass changed what is computed: result 0 at \[\d, \d\]: expected (.|\n)* elements are wrong(.|\n)*the pass "
        "'swap-function' failed",
    ):
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
