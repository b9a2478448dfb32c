"""`polyreme bisect` and `polyreme reduce`: bugs planted in passes are found, named, and shown by files that fail until the bug is gone."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command as run
from polyreme.dialects import nn, tensor
from polyreme.ir.define import ConstantLike, Terminator
from polyreme.ir.rewrite import pattern
from polyreme.ir.text import parse_module
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.emit.llvm import vector_math
from polyreme.lowering.transforms import cleanup, fuse

MODEL = '''
import polyreme as paddle
import polyreme.nn.functional as F


class Net(paddle.nn.Layer):
    input_spec = [paddle.static.InputSpec([3, 6], "float32", "x")]

    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(6, 5)

    def forward(self, x):
        hidden = F.gelu(self.linear(x))
        steps = (hidden * 4).astype("int32").astype("float32")
        centred = steps - hidden.mean(-1, keepdim=True)
        return F.softmax(centred.tanh() + hidden)
'''


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def polyreme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in a folder that holds `net.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    paddle.seed(3)

    def call(*args: str) -> Ran:
        capsys.readouterr()
        code = run(list(args))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(MODEL.splitlines(), 1) if text in line)


# --- bugs as people write them


def there_and_back(patch: pytest.MonkeyPatch) -> None:
    """A canonical form that is none: what was cut off does not come back."""

    @pattern(nn.Cast)
    def drop_two_casts(op: Any, b: Any) -> Any:
        """cast(cast(x)) -> x"""
        inner = op.x.producer(nn.Cast)
        return inner.x if inner is not None and inner.x.type == op.result.type else None

    patch.setattr(cleanup, "CANONICAL", [*cleanup.CANONICAL, drop_two_casts])


def gelu_by_tanh(patch: pytest.MonkeyPatch) -> None:
    """A lowering that takes the approximate formula, which is off by some 1e-4, where the exact one is asked for."""
    exact = nn_to_tensor.rules[nn.Gelu]

    def approximate(op: Any, b: Any, x: Any) -> Any:
        op.attributes["approximate"] = True
        return exact[0](op, b, x)

    patch.setitem(nn_to_tensor.rules, nn.Gelu, [approximate])


def operands_by_name(patch: pytest.MonkeyPatch) -> None:
    """A fusion that mixes up the operands of differences."""
    outline = fuse.outline

    def wrong(*args: Any) -> Any:
        made = outline(*args)
        for op in made.block:
            if isinstance(op, tensor.Map) and op.fn == "sub":
                op.set_operands(op.operands[::-1], op.segments)
        return made

    patch.setattr(fuse, "outline", wrong)


def inexact_tanh(patch: pytest.MonkeyPatch) -> None:
    """Machine code for a function that is off by a ten-thousandth."""
    tanh = vector_math.FLOAT32["tanh"]
    patch.setitem(vector_math.FLOAT32, "tanh", lambda x: tanh(x) * x.like(1.0001))


BUGS = [
    (there_and_back, "canonicalize", "nn.cast", 'astype("int32")'),
    (gelu_by_tanh, "nn-to-tensor", "nn.gelu", "F.gelu"),
    (operands_by_name, "fuse", "tensor.map", "steps - hidden"),
    (inexact_tanh, "machine-code", "kernel.apply", "centred.tanh()"),
]


@pytest.mark.parametrize(("plant", "step", "op", "line"), BUGS, ids=[b[0].__name__ for b in BUGS])
def test_a_planted_bug_is_named_and_its_reproducer_fails_until_it_is_gone(polyreme: Any, plant: Any, step: str, op: str, line: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        found = polyreme("bisect", "net.py:Net", "-o", "found")
        assert found.code == 3, found.err
        assert f"'{step}' is the first to change what the model computes: result 0" in found.out
        assert re.search(
            rf"net.py:{line_of(line)}(:\d+)?: note: '{step}' is wrong about '{op}': result 0.* expected \S+ but got \S+", found.out
        ), found.out
        assert line in found.out, "the user's own line is shown"
        repeat = shlex.split(found.out.rstrip().splitlines()[-1])
        assert repeat[:2] == ["polyreme", "bisect"]
        again = polyreme(*repeat[1:])
        assert again.code == 3
        assert f"'{step}' is wrong about '{op}'" in again.out
        assert "the module is as small as it gets" in again.out
    fixed = polyreme(*repeat[1:])
    assert fixed.code == 0, fixed.out
    assert "all results are within their bounds" in fixed.out


def test_a_bug_in_the_code_for_a_gpu_is_found_on_the_emulated_one(polyreme: Any) -> None:
    Path("t.tir").write_text("""func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> {
      %y = nn.sigmoid %x : tensor<Nx4xf32>
      %z = nn.tanh %y : tensor<Nx4xf32>
      return %z
    }""")
    with pytest.MonkeyPatch.context() as patch:
        inexact_tanh(patch)
        found = polyreme("bisect", "t.tir", "--target", "cuda:sm_80", "--device", "gpu-emulated")
        assert found.code == 3
        assert re.search(r"t.tir:3(:\d+)?: note: 'machine-code' is wrong about 'kernel.apply'", found.out), found.out
    repeat = shlex.split(found.out.rstrip().splitlines()[-1])
    assert repeat[-2:] == ["--target", "cuda:sm_80"]
    assert polyreme(*repeat[1:], "--device", "gpu-emulated").code == 0


@pytest.mark.parametrize("plant", [there_and_back, gelu_by_tanh], ids=lambda plant: plant.__name__)
def test_a_reproducer_has_no_more_ops_and_elements_than_it_needs(polyreme: Any, plant: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        polyreme("bisect", "net.py:Net")
    (text,) = Path().glob("*.tir")
    module = parse_module(text.read_text())
    assert (
        sum(not op.has(Terminator) and not op.has(ConstantLike) and op.dialect == "nn" for op in module.walk())
        == {there_and_back: 2, gelu_by_tanh: 1}[plant]
    )
    with np.load(text.with_suffix(".npz")) as inputs:
        assert [inputs[name].size for name in inputs.files] == [1]


def test_a_model_without_bugs_is_within_its_bounds_down_to_machine_code(polyreme: Any) -> None:
    result = polyreme("bisect", "net.py:Net", "--seed", "7", "--input", "x=f32[N,6]", "--size", "4")
    assert result.code == 0
    assert "ok  fuse" in result.out
    assert "ok  tensor-to-kernel, then machine-code" in result.out
    assert result.out.endswith("all results are within their bounds\n")
    assert not list(Path().glob("*.tir"))


def test_a_model_without_bugs_is_within_its_bounds_on_a_gpu(polyreme: Any) -> None:
    result = polyreme("bisect", "net.py:Net", "--target", "cuda:sm_80", "--device", "gpu-emulated")
    assert result.code == 0, result.out
    assert "ok  tensor-to-kernel, then machine-code" in result.out


def test_inputs_are_taken_from_files(polyreme: Any) -> None:
    """A fault that only some inputs show is found with these."""
    np.save("whole.npy", np.zeros((2, 6), np.float32))
    np.savez("all.npz", x=np.full((2, 6), 0.3, np.float32))
    Path("twice.tir").write_text("""func @main(%x: tensor<Nx6xf32>) -> tensor<Nx6xf32> {
      %i = nn.cast %x {dtype = i32} : tensor<Nx6xi32>
      %y = nn.cast %i {dtype = f32} : tensor<Nx6xf32>
      return %y
    }""")
    with pytest.MonkeyPatch.context() as patch:
        there_and_back(patch)
        assert polyreme("bisect", "twice.tir", "--input", "x=whole.npy").code == 0
        assert polyreme("bisect", "twice.tir", "--inputs", "all.npz").code == 3
        np.save("one.npy", np.ones(3, "float32"))
        refused = polyreme("bisect", "twice.tir", "--inputs", "one.npy")
        assert refused.code == 1 and "a single array is given as --input NAME=one.npy" in refused.err
    Path("sum.tir").write_text(
        "func @main(%x: tensor<Nx6xf32>, %y: tensor<Nx6xf32>) -> tensor<Nx6xf32> { %z = nn.add %x, %y : tensor<Nx6xf32>  return %z }"
    )
    assert polyreme("bisect", "sum.tir", "--input", "y=whole.npy").code == 0, "the other is drawn with as many rows"
    assert polyreme("bisect", "sum.tir", "--input", "whole.npy").code == 2
    assert "did you mean 'x'?" in polyreme("bisect", "twice.tir", "--input", "xs=whole.npy").err


def test_a_pass_that_fails_is_found_with_the_smallest_module_on_which_it_fails(polyreme: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(nn_to_tensor.rules, nn.Gelu)
        result = polyreme("bisect", "net.py:Net")
        assert result.code == 3
        assert "'nn-to-tensor' fails" in result.out
        assert re.search(rf"net.py:{line_of('F.gelu')}(:\d+)?: note: 'nn-to-tensor' fails on 'nn.gelu'", result.out)
        (text,) = Path().glob("*.tir")
        assert [op.name for op in parse_module(text.read_text()).walk() if op.dialect == "nn"] == ["nn.gelu"]


# --- reduce


def test_reduce_keeps_that_passes_change_what_is_computed(polyreme: Any) -> None:
    assert polyreme("inspect", "net.py:Net", "-o", "net.tir").code == 0
    with pytest.MonkeyPatch.context() as patch:
        there_and_back(patch)
        result = polyreme("reduce", "net.tir", "--passes", "canonicalize")
    assert result.code == 0, result.err
    assert re.search(r"\d+ ops reduced to 2", result.err)
    assert [op.name for op in parse_module(result.out).walk() if op.dialect == "nn"] == ["nn.cast", "nn.cast"]


def test_reduce_keeps_the_exit_code_of_a_command(polyreme: Any) -> None:
    assert polyreme("inspect", "net.py:Net", "-o", "net.tir").code == 0
    result = polyreme("reduce", "net.tir", "--check", "grep -q nn.tanh {} && exit 3", "-o", "small.tir")
    assert result.code == 0, result.err
    assert [op.name for op in parse_module(Path("small.tir").read_text()).walk() if op.dialect == "nn"] == ["nn.tanh"]
    result = polyreme("reduce", "net.tir", "--check", "grep -q nn.tanh {}")
    assert result.code == 1
    assert "expected a command that fails but 'grep -q nn.tanh {}' exits with 0" in result.err
    assert "expected {} in --check" in polyreme("reduce", "net.tir", "--check", "false").err


def test_reduce_says_when_nothing_is_wrong(polyreme: Any) -> None:
    assert polyreme("inspect", "net.py:Net", "-o", "net.tir").code == 0
    result = polyreme("reduce", "net.tir", "--passes", "canonicalize")
    assert result.code == 1
    assert "expected steps that fail or change what is computed but canonicalize do neither" in result.err
    assert polyreme("reduce", "net.tir").code == 2
