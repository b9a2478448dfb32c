"""The profile by kernel: its pass changes no result, its times add up, and what the steps say of themselves is true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.compiled.profiling import profile, profile_module
from polyreme.dialects import kernel
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import parse_passes
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.debug.profile import OUTPUT, profiled_artifact, steps_of
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.targets import TARGETS, find_target, host
from polyreme.lowering.pipeline import compile_module, llvm_text, lower

TWO = """
func @main(%x: tensor<Nx8xf32>, %v: tensor<8x4xf32>) -> tensor<Nxf32> {
  %h = nn.matmul %x, %v : tensor<Nx4xf32>
  %y = nn.max %h {axis = [1]} : tensor<Nxf32>
  return %y
}
"""

TRAINING = """
import polyreme as paddle
net = paddle.nn.Linear(5, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
def step(x):
    loss = net(x).sum()
    loss.backward()
    optimizer.step()
    return loss
"""


def two(n: str = "3") -> tuple[Module, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return parse_module(TWO.replace("N", n)), [rng.standard_normal(s).astype("float32") for s in ((3, 8), (8, 4))]


def profiled(module: Module, target: str) -> Module:
    module = lower(module, find_target(target))
    (made,) = parse_passes("profile-kernels")
    made.run(module)
    verify(module)
    return module


def test_the_pass_adds_times_that_never_go_back_and_leaves_the_results_alone() -> None:
    module, arrays = two()
    made = profiled(module, "x86-64")
    main = made.function()
    calls = sum(isinstance(op, kernel.Call) for op in main.block)
    assert calls == 2 and main.arg_names[-1] == OUTPUT and main.arg_roles[-1] == "output"
    assert print_module(parse_module(print_module(made))) == print_module(made)
    y, times = evaluate(made, arrays)
    np.testing.assert_allclose(y, evaluate(module, arrays)[0], rtol=1e-5, atol=1e-5)
    assert times.shape == (calls + 2,) and times[0] > 0 and (np.diff(times) >= 0).all() and times[-1] > times[0]


def test_compiled_code_notes_times_and_computes_the_same_to_the_bit() -> None:
    module, arrays = two()
    artifact = profiled_artifact(module, host())
    before = compile_module(module).load().run(arrays)
    y, times = load(artifact).run(arrays)
    assert np.array_equal(y, before[0])
    steps = steps_of(artifact.manifest)
    assert times.shape == (len(steps) + 2,) and (np.diff(times) >= 0).all() and times[-1] > times[1]


def test_steps_know_what_they_compute_and_what_it_costs() -> None:
    steps = steps_of(profiled_artifact(two("N")[0], host()).manifest)
    first = next(step for step in steps if "contract" in step.ops)
    last = steps[-1]
    assert (first.shape, last.shape) == ("f32[N, 4]", "f32[N]") and "max" in last.ops
    assert first.counts({"N": 7}) == (2 * 7 * 8 * 4, 4 * (7 * 8 + 8 * 4 + 7 * 4))
    assert last.counts({"N": 7}) == (7 * 4, 4 * (7 * 4 + 7))
    told = [step for step in steps if step.operations]
    assert len({step.root for step in told}) == len(told) == len({step.root for step in steps})


@pytest.mark.parametrize("target", ["aarch64", "riscv64", "x86-64-avx2"])
def test_other_targets_look_at_the_same_clock(target: str) -> None:
    text = llvm_text(profiled(two()[0], target), TARGETS[target])
    assert "declare i32 @clock_gettime(i32, ptr)" in text and text.count("call i32 @clock_gettime") >= 4
    assert "clock_gettime" not in llvm_text(lower(two()[0], TARGETS[target]), TARGETS[target])


def test_a_target_without_the_clock_is_an_error() -> None:
    with pytest.raises(PolyremeError, match="expected a 64-bit Linux target but got wasm32"):
        llvm_text(profiled(two()[0], "wasm32"), TARGETS["wasm32"])


class Twice(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = (paddle.nn.Linear(*sizes) for sizes in ((64, 64), (64, 64), (64, 8)))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.last(self.second(paddle.tanh(self.first(x)).reshape([-1, 64]) * 2.0 + x).sum(0))


def test_a_profile_names_layers_and_adds_up() -> None:
    made = profile(Twice(), [np.ones((16, 64), "float32")], seconds=0.05, threads=1)
    assert made.inputs == "x: float32[16, 64]" and made.runs >= 5 and made.threads == 1
    layers = [entry.layer for entry in made.entries if entry.layer]
    assert list(dict.fromkeys(layers)) == ["first", "second", "last"]
    for entry in made.entries:
        assert 0 <= entry.best <= entry.seconds and entry.calls == entry.threads == 1 and entry.moved > 0
    merged = made.by_kernel()
    assert sum(e.calls for e in merged) == len(made.entries)
    assert sum(e.seconds for e in merged) == pytest.approx(sum(e.seconds for e in made.entries))
    assert [e.seconds for e in merged] == sorted((e.seconds for e in merged), reverse=True)
    assert sum(e.operations for e in merged) >= 2 * 64 * (16 * 64 + 16 * 64 + 8)


def test_modules_at_kernel_level_and_with_free_sizes_have_a_profile_too() -> None:
    entries = profile_module(lower(two()[0]), "two", seconds=0.02).entries
    assert entries and all(e.kernels and not e.operations for e in entries)
    one, four = (sum(e.operations for e in profile_module(two("N")[0], "two", sizes={"N": n}, seconds=0.02).entries) for n in (1, 4))
    assert four == 4 * one > 0


def test_the_command_prints_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.tir").write_text(TWO)
    assert run_command(["bench", str(tmp_path / "two.tir"), "--profile", "order", "--size", "N=5", "--seconds", "0.02"]) == 0
    shown = capsys.readouterr().out
    assert "x: float32[5, 8]" in shown and "GFLOP/s" in shown and shown.index("f32[N, 4]") < shown.index("f32[N] ")
    assert run_command(["bench", str(tmp_path / "two.tir"), "--profile", "--json", "--seconds", "0.02"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["seconds"] > 0 and {"kernels", "seconds", "gflops", "layer", "threads"} <= set(data["kernels"][0])


def test_a_number_among_the_inputs_is_drawn_as_one() -> None:
    module = parse_module(TWO.replace("N", "3").replace("%v:", "%s: tensor<f32>, %v:"))
    assert profile_module(module, "two", seconds=0.01).entries


def test_a_step_of_training_has_a_profile_and_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = paddle.nn.Linear(8, 4)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @paddle.jit.to_static
    def step(x: paddle.Tensor) -> paddle.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    before = net.weight.numpy()
    x = np.ones((3, 8), "float32")
    made = paddle.profile(step, [x], seconds=0.01)
    assert made.inputs.startswith("x: float32[3, 8]") and "linear" not in made.inputs
    assert any("sqrt" in entry.ops and "contract" in entry.ops for entry in made.entries)
    np.testing.assert_array_equal(net.weight.numpy(), before)
    step(paddle.to_tensor(x))
    assert len(paddle.profile(step.programs()[0], seconds=0.01).entries) == len(made.entries)

    (tmp_path / "train.py").write_text(TRAINING)
    run_command(["bench", f"{tmp_path}/train.py:step", "--input", "x=f32[2, 5]", "--profile", "--seconds", "0.01"])
    assert "x: float32[2, 5]" in capsys.readouterr().out
