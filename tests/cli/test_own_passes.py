"""`--load` and `--add-pass`: passes of the user's own, in every command that runs passes, and what is said of files that have none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.cli.own_passes import load_passes
from polyreme.dialects import nn
from polyreme.ir import config, passes
from polyreme.ir.debug.additions import added, extended, parse_addition
from polyreme.ir.diagnostics import PassError
from polyreme.ir.passes import Pass, PassManager, Stage, make_pass
from polyreme.ir.syntax.parser import parse_module
from polyreme.lowering.machines.targets import find_target, host
from polyreme.lowering.pipeline import compile_module, pipeline

ROOT = Path(__file__).resolve().parents[2]

TEXT = """
func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> attributes {arg_names = ["x"], result_names = ["y"]} {
  %y = nn.relu %x : tensor<Nx4xf32>
  return %y
}
"""

PASSES = '''
from dataclasses import dataclass
from typing import ClassVar

from polyreme.ir.passes import FuncPass, register_pass


@register_pass
@dataclass(frozen=True)
class DropRelu(FuncPass):
    """Before: any module.  After: the same without `nn.relu`, which is wrong."""

    name: ClassVar[str] = "drop-relu"
    takes: ClassVar[tuple[str, ...]] = ("nn",)
    keep: bool = False

    def run_on(self, func):
        for op in func.block:
            if op.name == "nn.relu" and not self.keep:
                op.replace_with(op.x)
'''


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs in a folder of its own that holds `net.tir` and `mine.py`; what it registers is its own."""
    for name in ("POLYREME_DEBUG", "POLYREME_DUMP", "POLYREME_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    load_passes()
    monkeypatch.setattr(passes, "PASSES", dict(passes.PASSES))
    monkeypatch.chdir(tmp_path)
    Path("net.tir").write_text(TEXT)
    Path("mine.py").write_text(PASSES)
    np.save("x.npy", np.array([[-1, 2, -3, 4]], "float32"))
    yield


@pytest.fixture
def polyreme(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in this process: (exit code, output, errors)."""

    def call(line: str) -> tuple[int, str, str]:
        code = run_command(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# --- in every command

OWN = "--load mine.py --add-pass drop-relu@before:nn"


def test_compile_takes_a_pass_into_the_library(polyreme: Any) -> None:
    x = np.load("x.npy")
    assert polyreme("compile net.tir -o net.so")[0] == 0
    np.testing.assert_array_equal(paddle.load_compiled("net.so")(x), np.maximum(x, 0))
    # Not what was compiled, and kept, without the pass; nor is the library with it kept.
    assert polyreme(f"compile net.tir -o other.so {OWN}")[0] == 0
    np.testing.assert_array_equal(paddle.load_compiled("other.so")(x), x)
    assert polyreme("compile net.tir -o third.so")[0] == 0
    np.testing.assert_array_equal(paddle.load_compiled("third.so")(x), np.maximum(x, 0))


@pytest.mark.parametrize("level", ["tensor", "kernel"])
def test_compile_takes_a_pass_into_the_text_of_a_level(level: str, polyreme: Any) -> None:
    assert polyreme(f"compile net.tir --to {level} -o plain")[0] == 0
    assert polyreme(f"compile net.tir --to {level} -o other {OWN}")[0] == 0
    assert '"max"' in Path("plain").read_text() and '"max"' not in Path("other").read_text()


def test_run_and_bench_take_a_pass_in(polyreme: Any) -> None:
    assert "[[0. 2. 0. 4.]]" in polyreme("run net.tir --input x.npy")[1]
    assert "[[-1.  2. -3.  4.]]" in polyreme(f"run net.tir --input x.npy {OWN}")[1]
    code, out, _ = polyreme(f"bench net.tir --seconds 0.01 {OWN}")
    assert code == 0 and "compiled" in out
    shown = polyreme(f"bench net.tir --seconds 0.01 --profile {OWN}")
    assert shown[0] == 0 and "max" not in shown[1]


def test_inspect_takes_a_pass_in_and_lists_it(polyreme: Any) -> None:
    listed = polyreme(f"inspect net.tir --passes {OWN}")[1].splitlines()
    assert listed[:2] == ["nn: drop-relu", "nn: solve-dims (unchanged)"]
    assert "nn.relu" not in polyreme(f"inspect net.tir --after drop-relu {OWN}")[1]
    assert "max" not in polyreme(f"inspect net.tir --level tensor {OWN}")[1]


def test_opt_takes_a_pass_by_name_or_into_the_stages(polyreme: Any) -> None:
    assert "nn.relu" not in polyreme("opt net.tir --load mine.py --passes drop-relu")[1]
    assert "max" not in polyreme(f"opt net.tir --to tensor {OWN}")[1]
    code, _, shown = polyreme(f"opt net.tir --passes cse {OWN}")
    assert code == 2 and "--passes takes any pass by its name" in shown
    assert "\ndrop-relu  (nn; when asked for)" in polyreme("opt --load mine.py --list-passes")[1]


def test_bisect_finds_a_pass_that_was_added_and_its_command_repeats_it(polyreme: Any) -> None:
    code, _, shown = polyreme("bisect net.tir --load mine.py --add-pass drop-relu --passes cse")
    assert code == 2 and "expected either --passes or --add-pass" in shown
    code, out, _ = polyreme("bisect net.tir --load mine.py --add-pass drop-relu")
    assert code == 3 and "'drop-relu' is the first to change what the model computes" in out
    Path("wide.tir").write_text(TEXT.replace("return %y", "%z = nn.exp %y : tensor<Nx4xf32>\n  return %z"))
    out = polyreme("bisect wide.tir --load mine.py --add-pass drop-relu")[1]
    command = re.search(r"repeat with\n  polyreme (.*)", out)
    assert command is not None and "--load mine.py --passes drop-relu" in command[1]
    assert polyreme(command[1])[0] == 3


def test_reduce_takes_a_pass_by_name(polyreme: Any) -> None:
    Path("wide.tir").write_text(TEXT.replace("return %y", "%z = nn.exp %y : tensor<Nx4xf32>\n  return %z"))
    code, out, err = polyreme("reduce wide.tir --load mine.py --passes drop-relu")
    assert code == 0 and "nn.relu" in out and "nn.exp" not in out


def test_a_module_is_loaded_by_its_name(polyreme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("passes_of_mine").mkdir()
    Path("passes_of_mine/drop.py").write_text(PASSES)
    Path("passes_of_mine/__init__.py").write_text("")
    assert "nn.relu" not in polyreme("opt net.tir --load passes_of_mine.drop --passes drop-relu")[1]


def test_the_example_of_a_pass_counts_ops(polyreme: Any) -> None:
    line = "inspect net.tir --level kernel --add-pass count-ops{most=2} --load"
    code, _, shown = polyreme(f"{line} '{ROOT}/examples/count_ops.py'")
    assert code == 0 and shown.startswith("@main: 1 ") and "nn.relu" in shown


# --- places


@pytest.mark.parametrize(
    ("place", "neighbours"),
    [
        ("", ("dce", "patch-products")),
        ("@after:nn", ("dce", "patch-products")),
        ("@before:nn", (None, "solve-dims")),
        ("@before:tensor", ("dce", "patch-products")),
        ("@before:canonicalize", ("look-at-positions", "canonicalize")),
        ("@after:solve-dims", ("solve-dims", "look-at-positions")),
        ("@after:nn/cse", ("cse", "dce")),
    ],
)
def test_a_pass_goes_where_its_place_says(place: str, neighbours: tuple[str | None, str], polyreme: Any) -> None:
    assert polyreme("opt --load mine.py --list-passes")[0] == 0
    with added([parse_addition(f"drop-relu{{keep=true}}{place}")], have_to_run=False):
        names = [made.name for stage in pipeline(host()) for made in stage.passes]
    at = names.index("drop-relu")
    assert (names[at - 1] if at else None, names[at + 1]) == neighbours


def test_passes_at_one_place_run_in_the_order_in_which_they_were_given() -> None:
    given = [parse_addition(text) for text in ("cse@after:nn", "dce@after:nn", "canonicalize@after:nn")]
    with added(given, have_to_run=False):
        (stage,) = extended([Stage("nn", make_pass("solve-dims"))])
    assert [made.name for made in stage.passes] == ["solve-dims", "cse", "dce", "canonicalize"]


def test_a_pass_of_tensor_ops_goes_after_fusion_when_no_place_is_given() -> None:
    with added([parse_addition("sink-reshapes")], have_to_run=False):
        stages = pipeline(find_target("aarch64"))
    assert stages[1].passes[-1].name == "sink-reshapes"


def test_the_pipeline_is_as_it_was_when_nothing_is_added() -> None:
    before = [stage.passes for stage in pipeline(find_target("aarch64"))]
    with added([parse_addition("cse@after:nn")], have_to_run=False):
        assert config.is_watched()
    assert not config.is_watched()
    after = [stage.passes for stage in pipeline(find_target("aarch64"))]
    assert [[p.name for p in stage] for stage in after] == [[p.name for p in stage] for stage in before]


def test_what_a_pass_leaves_is_verified() -> None:
    class Spoil(Pass):
        name = "spoil"

        def run(self, module: Any) -> None:
            (relu,) = [op for op in module.walk() if isinstance(op, nn.Relu)]
            relu.results[0].type = relu.results[0].type.with_shape((7,))

    module = parse_module(TEXT)
    addition = parse_addition("cse@before:nn")
    object.__setattr__(addition, "made", Spoil())
    with pytest.raises(PassError, match=r"expected 'nn.relu' to result in tensor<Nx4xf32> but got tensor<7xf32>"), added([addition]):
        _ = compile_module(module).lowered


def test_additions_that_do_not_run_are_an_error() -> None:
    with pytest.raises(PassError, match=r"the pass 'cse@after:nn' did not run"), added([parse_addition("cse@after:nn")]):
        pass
    with added([parse_addition("cse@after:nn")]):
        PassManager(pipeline(host())[:1]).run(parse_module(TEXT))


# --- what users do wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--load none.py", "there is no file 'none.py'"),
        ("--load .", "expected a Python file that registers passes but '.' is a folder"),
        ("--load nothing_of_mine", "expected a Python file (FILE.py) or the name of a module but there is no module 'nothing_of_mine'"),
        ("--load ..x", "expected a Python file (FILE.py) or the name of a module but got '..x'"),
        ("--load empty.py", "expected 'empty.py' to register passes, ops, patterns or rules but it registers none"),
        ("--load broken.py", "broken.py:2:9: error: SyntaxError: "),
        ("--load failing.py", "failing.py:3:1: error: ZeroDivisionError: division by zero"),
        ("--load importing.py", "importing.py:1:1: error: ModuleNotFoundError: No module named 'nothing_of_mine'"),
        ("--load leaving.py", "leaving.py:2:1: error: SystemExit: 0"),
        ("--load mine.py --load twice.py", "the pass 'drop-relu' is registered twice: by "),
        ("--load taken.py", "the pass 'cse' is registered twice: by "),
        ("--load nul.py", "expected a Python file but got 'nul.py': source code string cannot contain null bytes"),
        ("--load latin.py", "latin.py"),
        ("--load mine.py --add-pass drop-rleu", "expected the name of a pass but got 'drop-rleu'; did you mean 'drop-relu'?"),
        ("--load mine.py --add-pass drop-relu{kep=true}", "the pass 'drop-relu' has no option 'kep'; did you mean 'keep'?"),
        ("--load mine.py --add-pass drop-relu@fuse", "expected a place for 'drop-relu' (after:STAGE, "),
        ("--load mine.py --add-pass drop-relu@after:fsue", "as the place of 'drop-relu' but got 'fsue'; did you mean 'fuse'?"),
        ("--load mine.py --add-pass drop-relu@after:tensor/solve-dims", "as the place of 'drop-relu' but got 'tensor/solve-dims'"),
        ("--load mine.py --add-pass drop-relu@after:fuse", "expected a place where modules are at the level nn, which 'drop-relu' takes"),
        ("--load mine.py --add-pass drop-relu,cse", "expected one pass, as NAME@PLACE, but got 'drop-relu,cse'"),
        ("--load mine.py --add-pass ''", "expected one pass, as NAME@PLACE, but got ''"),
        ("--load mine.py --add-pass drop-relu --level nn", "the pass 'drop-relu' did not run"),
    ],
)
def test_what_is_wrong_with_a_pass_of_ones_own_is_said_in_a_line(options: str, message: str, polyreme: Any) -> None:
    Path("empty.py").write_text("import numpy\n")
    Path("broken.py").write_text("if True:\n    x = = 3\n")
    Path("failing.py").write_text("x = 1\n\nx / 0\n")
    Path("importing.py").write_text("import nothing_of_mine\n")
    Path("leaving.py").write_text("import sys\nsys.exit(0)\n")
    Path("twice.py").write_text(PASSES)
    Path("taken.py").write_text(PASSES.replace("DropRelu", "Cse").replace("drop-relu", "cse"))
    Path("nul.py").write_bytes(b"x = 1\0\n")
    Path("latin.py").write_bytes(b"x = '\xe9'\n")
    level = "" if "--level" in options else "--level tensor"
    code, out, shown = polyreme(f"inspect net.tir {level} {options}")
    assert code == 1 and message in shown and out == "", shown
    assert "Traceback" not in shown and len(shown.splitlines()) <= 6, shown


def test_a_pass_for_what_has_no_passes_left_is_refused(polyreme: Any) -> None:
    assert polyreme("compile net.tir -o net.so")[0] == 0
    assert polyreme("opt net.tir --to kernel -o kernels.tir")[0] == 0
    for line in ("run net.so --input x.npy", "bench net.so", "compile kernels.tir -o other.so"):
        code, _, shown = polyreme(f"{line} {OWN}")
        assert code == 1 and "the pass 'drop-relu@before:nn' did not run" in shown, shown
    code, _, shown = polyreme(f"bisect kernels.tir {OWN}")
    assert code == 1 and "'kernels' consists of kernels" in shown


def test_a_file_may_be_loaded_twice_and_be_the_models_own(polyreme: Any) -> None:
    Path("net.py").write_text(
        PASSES + "\n\ndef double(x):\n    return x * 2\n\n\nimport polyreme as paddle\ndouble.input_spec = "
        '[paddle.static.InputSpec([2, 4], "float32", "x")]\n'
    )
    code, _, shown = polyreme("inspect net.py:double --level tensor --load net.py --load net.py --add-pass drop-relu --input x=f32[2,4]")
    assert code == 0, shown
