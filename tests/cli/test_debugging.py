"""Looking into a compilation and taking a hand in it: the debug ladder, dumps, overrides, entering and leaving at any level, and commands
that repeat a failure.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.cli.own_passes import load_passes
from polyreme.ir import passes
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import pipeline

TEXT = """
func @main(%x: tensor<Nx4xf32>, %w: tensor<4xf32>) -> tensor<Nx4xf32> attributes {arg_names = ["x", "w"], result_names = ["y"]} {
  %y = nn.add %x, %w : tensor<Nx4xf32>
  %z = nn.relu %y : tensor<Nx4xf32>
  return %z
}
"""

PASSES = '''
from dataclasses import dataclass
from typing import ClassVar

from polyreme.ir.passes import FuncPass, register_pass


@register_pass
@dataclass(frozen=True)
class Spoil(FuncPass):
    """Breaks what it is given, in one of three ways."""

    name: ClassVar[str] = "spoil"
    how: str = "crash"
    words: tuple[str, ...] = ()

    def run_on(self, func):
        if self.how == "crash":
            {}[f"lost in @{func.sym_name}"]
        for op in func.block:
            if op.name == "nn.relu" and self.how == "value":
                op.replace_with(op.x)
            elif op.name == "nn.relu":
                op.results[0].type = op.results[0].type.with_shape((7,))
'''


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own that holds `x.tir` and `spoil.py`."""
    for name in ("POLYREME_DEBUG", "POLYREME_DUMP", "POLYREME_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    # What the tests register is theirs alone.
    load_passes()
    monkeypatch.setattr(passes, "PASSES", dict(passes.PASSES))
    monkeypatch.chdir(tmp_path)
    Path("x.tir").write_text(TEXT)
    Path("spoil.py").write_text(PASSES)


@pytest.fixture
def polyreme(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in this process: (exit code, output, errors)."""

    def call(line: str) -> tuple[int, str, str]:
        code = run_command(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def shell(line: str) -> tuple[int, str, str]:
    """Runs a command line as a user would, with the `polyreme` of this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path}, check=False)
    return done.returncode, done.stdout, done.stderr


# --- the ladder, on a compilation

ORDER = [made.name for stage in pipeline(host()) for made in stage.passes]


def step(name: str) -> str:
    """What a pass of the pipeline is called in dumps: its number, then its name."""
    return f"{ORDER.index(name) + 1:02}-{name}"


RUNGS = {
    1: (
        r"^ +[\d.]+ ms 100\.0%  compile x$",
        r"^ +[\d.]+ ms +[\d.]+%      tensor$",
        r"^ +[\d.]+ ms +[\d.]+%          build_loops$",
        r"%    (  )?emit-llvm$",  # a level deeper where another process writes it
    ),
    2: (r"^// cost of 'add full max' at x\.tir:4:8: 8\*N operations, 16\*N\+16 bytes read, 16\*N written$",),
    3: (
        r"^// schedule of 'add full max' at x\.tir:4:8 .*for native\n//   rows<space = Nx4; .*>\n"
        r"//   @\w+\(operand 0, operand 1, result 0\)$",
    ),
    4: (r"^define void @polyreme_model_run\(",),
    5: (r"^// after the stage tensor$",),
    6: (rf"^// after {step('fuse')}$", r"^// after 05-cse \(unchanged\)$"),
    7: (r"^rewrite multiply_by_exact_reciprocal ",),
}


@pytest.mark.parametrize("level", range(8))
def test_every_rung_of_the_debug_ladder_shows_what_it_says_and_what_is_below_it(
    level: int, polyreme: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYREME_DEBUG", str(level))
    halved = "  %h = nn.full {value = 2.0, dtype = f32} : tensor<f32>\n  %z2 = nn.div %z, %h : tensor<Nx4xf32>\n  return %z2"
    # Only the last rung has a rewrite to show: elsewhere it would change the group that the others expect.
    Path("x.tir").write_text(TEXT.replace("  return %z", halved) if level == 7 else TEXT)
    code, _, shown = polyreme("compile x.tir -o x.so")
    assert code == 0, shown
    for rung, signs in RUNGS.items():
        if (level == 7 and rung in (2, 3)) or (level > 5 and rung == 5):
            continue
        for sign in signs:
            assert bool(re.search(sign, shown, re.MULTILINE)) == (rung <= level), f"{sign} at level {level} in\n{shown[:4000]}"


# --- dumps and overrides


def test_what_a_compilation_dumps_can_be_edited_and_takes_the_place_of_what_the_pass_made(
    polyreme: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYREME_DUMP", "steps")
    assert polyreme("compile x.tir -o plain.so")[0] == 0
    assert sorted(p.name for p in Path("steps").iterdir()) == [
        "00-input.tir",
        *(f"{step(name)}.tir" for name in ("nn-to-tensor", "fuse", "tensor-to-kernel")),
    ]
    monkeypatch.delenv("POLYREME_DUMP")
    Path("mine").mkdir()
    made = Path(f"steps/{step('fuse')}.tir").read_text()
    assert made.count('fn = "max"') == 1
    Path(f"mine/{step('fuse')}.tir").write_text(made.replace('fn = "max"', 'fn = "min"'))
    monkeypatch.setenv("POLYREME_OVERRIDE", "mine")
    assert polyreme("compile x.tir -o mine.so")[0] == 0
    x, w = np.random.default_rng(0).standard_normal((2, 4)).astype("float32"), np.ones(4, "float32")
    plain, mine = (paddle.load_compiled(f"{name}.so")(x, w) for name in ("plain", "mine"))
    np.testing.assert_allclose(plain, np.maximum(x + w, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mine, np.minimum(x + w, 0), rtol=1e-5, atol=1e-6)


def test_what_is_watched_is_not_taken_from_the_cache_of_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    double = paddle.jit.to_static(lambda x: x * 2)
    x = paddle.ones([3])
    np.testing.assert_array_equal(double(x).numpy(), 2)
    Path("mine").mkdir()
    monkeypatch.setenv("POLYREME_DUMP", "steps")
    again = paddle.jit.to_static(lambda x: x * 2)
    np.testing.assert_array_equal(again(x).numpy(), 2)
    Path(f"mine/{step('fuse')}.tir").write_text(Path(f"steps/{step('fuse')}.tir").read_text().replace('fn = "mul"', 'fn = "sub"'))
    monkeypatch.setenv("POLYREME_OVERRIDE", "mine")
    np.testing.assert_array_equal(paddle.jit.to_static(lambda x: x * 2)(x).numpy(), -1)


# --- entering and leaving


def test_a_module_enters_and_leaves_the_pipeline_at_any_level(polyreme: Any) -> None:
    assert polyreme("opt x.tir --to nn -o nn.tir")[0] == 0
    assert polyreme("opt nn.tir --from tensor --to tensor -o tensor.tir")[0] == 0
    assert polyreme("opt tensor.tir --from kernel -o kernel.tir --verify-each")[0] == 0
    levels = ["nn.add", "tensor.fused", "kernel.call"]
    for file, sign in zip(("nn", "tensor", "kernel"), levels, strict=True):
        text = Path(f"{file}.tir").read_text()
        assert [s for s in levels if s in text] == [sign]
    # In steps or in one go, it is the same, but for the numbers behind names that are taken.
    plain = lambda text: re.sub(r"(%?\b[a-z]+)_\d+\b", r"\1", text)
    assert plain(polyreme("opt x.tir --to kernel")[1]) == plain(Path("kernel.tir").read_text())
    x, w = np.random.default_rng(0).standard_normal((2, 4)).astype("float32"), np.ones(4, "float32")
    for file in ("nn", "tensor", "kernel"):
        assert polyreme(f"compile {file}.tir -o {file}.so")[0] == 0
        np.testing.assert_allclose(paddle.load_compiled(f"{file}.so")(x, w), np.maximum(x + w, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--from kernel --to nn", 1, "expected a level to stop at that 'kernel' leads to (kernel) but got 'nn'"),
        ("--from tensor --passes cse", 2, "expected either --passes or --from and --to but got both"),
        ("--passes cse --no-run", 2, "expected --no-run together with --verify-each"),
        ("--to kernel --target vax", 1, "expected a target"),
        ("--load nothing.py", 1, "there is no file 'nothing.py'"),
    ],
)
def test_what_cannot_be_entered_or_left_is_said(options: str, code: int, message: str, polyreme: Any) -> None:
    got, _, shown = polyreme(f"opt x.tir {options}")
    assert got == code and message in shown


def test_times_are_shown_as_a_tree(polyreme: Any) -> None:
    shown = polyreme("opt x.tir --to tensor --timing")[2]
    names = [line[20:].rstrip() for line in shown.splitlines()]
    assert names[:5] == ["  passes", "    nn", "      solve-dims", "      look-at-positions", "      canonicalize"]
    assert any(name.startswith("        fold_constant") for name in names) and "        @main" in names


# --- failures and the commands that repeat them


def command_in(shown: str) -> str:
    return re.search(r"repeat with: (.*)", shown).group(1)  # type: ignore[union-attr]


def fault_in(shown: str) -> str:
    """The error without the note on how to repeat it, and without the places, which are those of another file then."""
    return re.sub(r"^\S+: (error|note)", r"\1", shown.partition("note: the pass")[0], flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--passes 'canonicalize,spoil{words=[\"a b\", c]}'", "the pass 'spoil' failed with KeyError: 'lost in @main'"),
        ("--passes 'canonicalize,spoil{how=type}' --verify-each", "expected 'nn.relu' to result in tensor<Nx4xf32> but got tensor<7xf32>"),
        ("--passes 'spoil{how=value},cse' --verify-each", "the pass changed what is computed: result 0 at ["),
    ],
    ids=["an exception", "a module that is not valid", "another result"],
)
def test_the_command_that_a_failing_pass_leaves_repeats_the_failure(
    options: str, message: str, polyreme: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYREME_DUMP", "left here")
    code, _, shown = polyreme(f"opt x.tir --load spoil.py {options}")
    assert code == 1 and message in shown
    monkeypatch.delenv("POLYREME_DUMP")
    again = shell(command_in(shown))
    assert again[0] == 1
    assert fault_in(again[2]) == fault_in(shown)


MODEL = '''
import polyreme as paddle
from polyreme.dialects import nn
from polyreme.ir.rewrite import pattern
from polyreme.lowering.transforms import cleanup


class Net(paddle.nn.Layer):
    input_spec = [paddle.static.InputSpec([None, 4], "float32", "x")]

    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(4, 3)

    def forward(self, x):
        return paddle.nn.functional.softmax(self.linear(x))


@pattern(nn.Softmax)
def sharpen(op, b):
    """softmax(x) -> softmax(2 x)"""
    return b(nn.Softmax, op.x * 2, axis=op.axis)


cleanup.CANONICAL.append(sharpen)
'''


def test_a_compilation_of_a_model_that_fails_leaves_a_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("net.py").write_text(MODEL)
    monkeypatch.setenv("POLYREME_DUMP", "left")
    code, _, shown = shell("polyreme compile net.py:Net -o net.so")
    wanted = "the pass 'canonicalize' failed with TypeError: unsupported operand type(s) for *: 'OpResult' and 'int'"
    assert code == 1 and wanted in shown
    command = command_in(shown)
    assert "net.py --passes canonicalize" in command
    text = Path(shlex.split(command)[2]).read_text()
    assert "nn.softmax" in text and text.startswith(f"// {command}\n")
    monkeypatch.delenv("POLYREME_DUMP")
    again = shell(command)
    assert again[0] == 1 and fault_in(again[2]) == fault_in(shown)


def test_the_page_about_passes_shows_what_is_printed(polyreme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "add_a_pass.md").read_text().partition("## When something goes wrong")[2]
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    Path("spoil.py").write_text(blocks["python"])
    Path("net.tir").write_text(blocks["mlir"])
    line, *printed = blocks["text"].strip().splitlines()
    setting, _, command = line.removeprefix("$ ").partition(" polyreme ")
    monkeypatch.setenv(*setting.split("="))
    got = polyreme(command)[2].replace(f"{Path.cwd()}/", "")
    plain = lambda text: re.sub(r"drop-relu-\w{8}", "drop-relu-xxxxxxxx", text)
    assert plain(got).splitlines()[: len(printed)] == plain("\n".join(printed)).splitlines()
