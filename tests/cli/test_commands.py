"""The commands: what they print and write, and what they say about wrong input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import COMMANDS
from polyreme.cli import run_command as run
from polyreme.runtime.threads import get_num_threads, set_num_threads
from polyreme.static import InputSpec

ROOT = Path(__file__).resolve().parents[2]

MODEL = '''
import polyreme as paddle


class Net(paddle.nn.Layer):
    input_spec = [paddle.static.InputSpec([None, 4], "float32", "x")]

    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(4, 3)

    def forward(self, x):
        return paddle.nn.functional.softmax(self.linear(x))


class Sized(paddle.nn.Layer):
    def __init__(self, size):
        super().__init__()


def double(x):
    return x * 2


def positive(x):
    return x[x[:, 0] > 0], paddle.nonzero(x)


def noisy(x):
    return x + paddle.randn([4])


def choosy(x):
    return x * max(x[0], x[1])


net = Net()
optimizer = paddle.optimizer.AdamW(0.1, parameters=net.parameters())


@paddle.jit.to_static
def step(x, labels):
    loss = paddle.nn.functional.nll_loss(net(x), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return loss


number = 3
'''


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own that holds `net.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    paddle.seed(3)


class Result:
    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def polyreme(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in this process."""

    def call(*args: str) -> Result:
        code = run(args)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


def weights() -> Any:
    return np.random.default_rng(0).standard_normal((5, 4)).astype("float32")


# --- inspect and opt


def test_inspect_looks_into_a_step_of_training(polyreme: Any) -> None:
    given = ("--input", "x=f32[64,4]", "--input", "labels=i64[64]")
    report = polyreme("inspect", "net.py:step", "--memory", *given)
    assert report.code == 0 and "arena: " in report.out and "buffer<64x3xf32>" in report.out
    module = polyreme("inspect", "net.py:step", *given).out
    assert "w_0_moment1_0: tensor<4x3xf32>" in module and "sqrt" in module
    assert polyreme("inspect", "net.py:step", "--memory", "--input", "x=f32[N,4]", "--input", "labels=i64[N]").code == 0
    result = polyreme("inspect", "net.py:step", "--memory")
    assert result.code == 1 and "--input 'x=f32[N,10]'" in result.err
    # What compile writes has no state.
    result = polyreme("compile", "net.py:step", "-o", "step.so", *given)
    assert result.code == 1 and "net.py" in result.err and "backward()" in result.err


@pytest.mark.parametrize(
    "level, sign", [("nn", "nn.linear"), ("tensor", "tensor."), ("kernel", "kernel."), ("llvm", "define "), ("asm", ".text")]
)
def test_inspect_prints_every_level(polyreme: Any, level: str, sign: str) -> None:
    result = polyreme("inspect", "net.py:Net", "--level", level)
    assert result.code == 0, result.err
    assert sign in result.out


@pytest.mark.parametrize("level", ["nn", "tensor", "kernel"])
def test_opt_reads_back_what_inspect_prints(polyreme: Any, level: str) -> None:
    text = polyreme("inspect", "net.py:Net", "--level", level).out
    Path("x.tir").write_text(text)
    assert polyreme("opt", "x.tir").out == text
    generic = polyreme("opt", "x.tir", "--generic").out
    assert '"polyreme.' in generic
    Path("generic.tir").write_text(generic)
    assert polyreme("opt", "generic.tir").out == text


def test_inspect_after_a_pass_and_the_list_of_passes(polyreme: Any) -> None:
    listed = polyreme("inspect", "net.py:Net", "--passes")
    assert "nn-to-tensor" in listed.out
    after = polyreme("inspect", "net.py:Net", "--after", "nn-to-tensor")
    assert "tensor." in after.out and " nn." not in after.out
    wrong = polyreme("inspect", "net.py:Net", "--after", "nn-to-tenso")
    assert wrong.code == 1 and "did you mean 'nn-to-tensor'" in wrong.err


def test_inspect_says_who_computes_each_root_and_what_was_chosen(polyreme: Any) -> None:
    seen = polyreme("inspect", "net.py:Net", "--schedules", "--target", "x86-64-avx2", "--input", "x=f32[64,4]")
    assert seen.code == 0, seen.err
    (first, chosen, call, *_) = seen.out.splitlines()
    assert first.startswith("// schedule of 'contract") and "net.py" in first and first.endswith("by contract for x86-64-avx2")
    assert chosen.startswith("//   gemm<sizes = 64x4x") and call.startswith("//   @contract_")
    doubled = polyreme("inspect", "net.py:double", "--schedules", "--target", "x86-64-avx2", "--input", "x=f32[B,9]").out
    assert "by loops for x86-64-avx2\n//   rows<space = " in doubled


def test_input_replaces_the_models_own_spec(polyreme: Any) -> None:
    assert "tensor<7x4xf32>" in polyreme("inspect", "net.py:Net", "--input", "x=f32[7,4]").out
    assert "tensor<Bx9xf64>" in polyreme("inspect", "net.py:double", "--input", "x=float64[B,9]").out


def test_input_says_which_sizes_of_a_saved_model_are_known(polyreme: Any) -> None:
    paddle.jit.save(paddle.nn.Linear(4, 3), "saved", input_spec=[InputSpec([None, 4], "float32", "x")])
    assert "tensor<7x4xf32>" in polyreme("inspect", "saved", "--input", "x=f32[7,4]").out
    assert polyreme("compile", "saved", "--input", "x=f32[2,4]", "--precision", "bf16-weights", "-o", "saved.so").code == 0
    assert paddle.load_compiled("saved.so")(np.ones((2, 4), "float32")).shape == (2, 3)
    refused = polyreme("compile", "saved", "--input", "x=f32[2,5]", "-o", "saved.so")
    assert refused.code == 1 and "expected" in refused.err and "Traceback" not in refused.err


def test_opt_runs_passes(polyreme: Any) -> None:
    Path("x.tir").write_text(
        "func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %a = nn.exp %x : tensor<4xf32>\n  %b = nn.tanh %x : tensor<4xf32>\n  return "
        "%b\n}\n"
    )
    result = polyreme("opt", "x.tir", "--passes", "dce", "--verify-each", "--timing", "-o", "y.tir")
    assert result.code == 0, result.err
    assert "nn.exp" not in Path("y.tir").read_text() and "nn.tanh" in Path("y.tir").read_text()
    assert "dce" in result.err and " ms" in result.err


# --- compile and run


def test_compile_writes_a_library_and_a_header_that_run_gives_the_models_results_with(polyreme: Any) -> None:
    np.save("x.npy", weights())
    result = polyreme("compile", "net.py:Net", "-o", "net.so")
    assert result.code == 0, result.err
    assert "net_run" in Path("net.h").read_text()
    assert polyreme("run", "net.so", "--input", "x=x.npy", "-o", "out.npz").code == 0
    (scores,) = np.load("out.npz").values()
    assert scores.shape == (5, 3)
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    assert polyreme("run", "net.so", "--input", "x.npy", "-o", "out.npy", "--threads", "1").code == 0
    np.testing.assert_array_equal(np.load("out.npy"), scores)
    shown = polyreme("run", "net.so", "--input", "x=x.npy").out
    assert "float32[5, 3]" in shown
    for name in ("no/y.npy", "no/y.npz"):
        result = polyreme("run", "net.so", "--input", "x=x.npy", "-o", name)
        assert result.code == 1 and f"error[E0009]: cannot write '{name}': No such file or directory" in result.err


def test_saved_models_and_ir_run_like_the_model_they_came_from(polyreme: Any) -> None:
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.Tanh())
    expected = net(paddle.to_tensor(weights())).numpy()
    np.save("x.npy", weights())
    spec = [InputSpec([None, 4], "float32", "x")]
    paddle.jit.save(net, "saved", input_spec=spec)
    for model in ("saved", "saved.polyreme"):
        assert polyreme("run", model, "--input", "x=x.npy", "-o", "out.npy").code == 0
        np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-5, atol=1e-6)
    for level in ("tensor", "kernel"):
        assert polyreme("compile", "saved", "--to", level, "-o", f"{level}.tir").code == 0
        result = polyreme("compile", f"{level}.tir", "-o", f"{level}.so")
        assert result.code == 0, result.err
        assert polyreme("run", f"{level}.so", "--input", "x=x.npy", "-o", "out.npy").code == 0
        np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-5, atol=1e-6)


def test_what_the_host_runs_parts_of_is_run_and_measured_but_not_taken_for_one_piece(polyreme: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    np.save("x.npy", x)
    given = "--input=x=f32[N,4]"
    program = paddle.jit.to_static(lambda x: (x[x[:, 0] > 0], paddle.nonzero(x)), input_spec=[InputSpec([None, 4], "float32", "x")])
    paddle.jit.save(program, "positive")
    polyreme("run", "positive", "--input", "x.npy", "-o", "y.npz")
    with np.load("y.npz") as found:
        np.testing.assert_array_equal(found["output_0"], x[x[:, 0] > 0])
        np.testing.assert_array_equal(found["output_1"], np.argwhere(x))
    assert "x: float32[3, 4]" in polyreme("bench", "positive", "--size", "N=3", "--seconds", "0.01").out
    np.save("y.npy", x[:, :3])
    assert "expected 4 on axis 1 but got 3" in polyreme("run", "positive", "--input", "y.npy").err
    for command in (
        ["bench", "positive", "--profile"],
        ["bisect", "positive"],
        ["inspect", "positive", "--level", "tensor"],
    ):
        refused = polyreme(*command)
        assert refused.code == 1 and "but 'host.nonzero' makes a size of what is computed" in refused.err
    assert polyreme("compile", "net.py:positive", given, "-o", "p.so").code == 0
    np.testing.assert_array_equal(paddle.load_compiled("p.so").run([x])[0], x[x[:, 0] > 0])
    assert "call eval() on the Layer first, and hand in what it draws" in polyreme("compile", "net.py:noisy", given, "-o", "noisy.so").err


@pytest.fixture
def _threads() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


@pytest.mark.parametrize("args", [("run", "--input", "x=x.npy"), ("bench", "--seconds", "0.01")], ids=lambda args: args[0])
@pytest.mark.usefixtures("_threads")
def test_a_number_of_threads_holds_where_the_pool_is_there_already(polyreme: Any, args: tuple[str, ...]) -> None:
    """As it is where the weights of a Python model were drawn by compiled code."""
    np.save("x.npy", weights())
    set_num_threads(2)
    assert paddle.jit.to_static(paddle.nn.Linear(2, 2))(paddle.ones([1, 2])).shape == [1, 2]
    assert get_num_threads() == 2
    assert polyreme(args[0], "net.py:Net", *args[1:], "--threads", "1").code == 0
    assert get_num_threads() == 1


def test_inspect_shows_what_runs_with_the_weights_in_it(polyreme: Any) -> None:
    assert "nn.constant" not in polyreme("inspect", "net.py:Net").out
    assert "nn.constant" in polyreme("inspect", "net.py:Net", "--frozen").out
    assert polyreme("compile", "net.py:Net", "--to", "asm", "-o", "net.s").code == 0
    assert polyreme("inspect", "net.py:Net", "--frozen", "--level", "asm").out.strip() == Path("net.s").read_text().strip()


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="no C compiler is installed")
def test_assembly_of_several_kernels_assembles_as_one_file(polyreme: Any) -> None:
    polyreme("inspect", "net.py:Net", "--input", "x=f32[64,4]", "--level", "asm", "-o", "net.s")
    assert Path("net.s").read_text().count(".text") > 1
    subprocess.run(["cc", "-c", "net.s", "-o", "net.o"], check=True)
    names = subprocess.run(["nm", "net.o"], check=True, capture_output=True, text=True).stdout
    assert "T polyreme_model_run" in names


def test_compile_for_another_machine_writes_its_assembly(polyreme: Any) -> None:
    assert polyreme("compile", "net.py:Net", "--target", "aarch64", "--to", "asm", "-o", "net.s").code == 0
    assert "fmla" in Path("net.s").read_text() or "fmadd" in Path("net.s").read_text()


# --- bench


def test_bench_measures_a_library_and_a_model(polyreme: Any) -> None:
    polyreme("compile", "net.py:Net", "-o", "net.so")
    result = polyreme("bench", "net.so", "--size", "N=3", "--seconds", "0.05")
    assert result.code == 0, result.err
    assert "p99" in result.out and "float32[3, 4]" in result.out
    data = json.loads(polyreme("bench", "net.py:Net", "--seconds", "0.05", "--eager", "--json").out)
    assert set(data["seconds"]) == {"compiled", "eager"}
    for row in data["seconds"].values():
        assert 0 < row["best"] <= row["p50"] <= row["p99"] and row["calls"] > 0
    assert polyreme("bench", "net.so", "--size", "M=3").code == 2


# --- faults


@pytest.mark.parametrize(
    "args, message",
    [
        (["inspect", "net.py:Ne"], "did you mean 'Net'"),
        (["inspect", "net.py"], "net.py:Net"),
        (["inspect", "net.py:number"], "is 3"),
        (["inspect", "net.py:Sized"], "made without arguments"),
        (["inspect", "net.py:double"], "to `polyreme inspect`, `compile`, `bench` and `bisect` --input 'x=f32[N,10]'"),
        (["inspect", "net.py:choosy", "--input", "x=f32[3]"], "paddle.where"),
        (["inspect", "nothing.py:Net"], "there is no file 'nothing.py'"),
        (["inspect", "nothing"], "neither a file 'nothing' nor a saved model 'nothing.polyreme'"),
        (["inspect", "net.py:Net", "--input", "x=f32[2,5]"], "4"),
        (["inspect", "net.py:Net", "--target", "avx"], "expected a target"),
        (["compile", "net.py:Net", "-o", "net.so", "--target", "aarch64", "--cpu", "znver4"], "expected a processor of aarch64"),
        (["inspect", "net.py:Net", "-o", "no/net.tir"], "error[E0009]: cannot write 'no/net.tir': No such file or directory"),
        (["compile", "net.py:Net", "--to", "asm", "-o", "no/net.s"], "error[E0009]: cannot write 'no/net.s': No such file or directory"),
        (["opt", "nothing.tir"], "there is no file 'nothing.tir'"),
        (["run", "net.py:Net", "--input", "x=nothing.npy"], "there is no file 'nothing.npy'"),
        (["run", "net.py:Net", "--input", "x=net.py"], "written by numpy.save"),
        (["compile", "net.py:Net", "-o", "no/folder/net.so"], "no/folder"),
    ],
)
def test_faults_of_the_model_or_input_are_one_line_and_end_with_1(polyreme: Any, args: list[str], message: str) -> None:
    result = polyreme(*args)
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err and result.out == ""


@pytest.mark.parametrize(
    "args, message",
    [
        ([], "Usage"),
        (["inspekt"], "did you mean 'inspect'"),
        (["inspect"], "MODEL"),
        (["inspect", "net.py:Net", "--level", "n"], "--level"),
        (["inspect", "net.py:Net", "--colour"], "--colour"),
        (["inspect", "net.py:Net", "--input", "x:f32"], "name=dtype[sizes]"),
        (["inspect", "net.py:Net", "--input", "x=f31[2]"], "did you mean"),
        (["compile", "net.py:Net"], "--output"),
        (["compile", "net.py:Net", "-o", "net.s", "--to", "asm", "--small"], "--small: expected a library but got a text"),
        (["compile", "net.py:Net", "-o", "net.s", "--to", "asm", "--no-small"], "--no-small: expected a library but got a text"),
        (["compile", "net.py:Net", "-o", "net.s", "--to", "asm", "--folders"], "--folders: expected a library but got a text"),
        (["compile", "net.py:Net", "-o", "net.s", "--to", "asm", "--c++"], "--c++: expected a library but got a text"),
        (["run", "net.py:Net"], "missing --input x=x.npy"),
        (["run", "net.py:Net", "--input", "y=x.npy"], "expected an input (x) but got 'y'"),
        (["run", "net.py:Net", "--input", "x=x.npy", "-o", "y.txt"], "ends with .npz or .npy but got 'y.txt'"),
    ],
)
def test_wrong_usage_ends_with_2(polyreme: Any, args: list[str], message: str) -> None:
    result = polyreme(*args)
    assert result.code == 2
    assert message in result.err + result.out
    assert "Traceback" not in result.err


def test_faults_of_ir_text_are_shown_at_their_line(polyreme: Any) -> None:
    Path("bad.tir").write_text("func @main(%x: tensor<4xf32>) {\n  %y = nn.softmax %x {axis = 3} : tensor<4xf32>\n  return\n}\n")
    result = polyreme("opt", "bad.tir")
    assert result.code == 1
    assert result.err.startswith("bad.tir:2:") and "expected axis" in result.err
    assert "nn.softmax %x {axis = 3}" in result.err and "^" in result.err


def test_unknown_passes_get_the_nearest_name(polyreme: Any) -> None:
    Path("x.tir").write_text("func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x\n}\n")
    result = polyreme("opt", "x.tir", "--passes", "cannonicalize")
    assert result.code == 1 and "did you mean 'canonicalize'" in result.err


def test_wrong_arrays_are_named(polyreme: Any) -> None:
    polyreme("compile", "net.py:Net", "-o", "net.so")
    for array, message in ((np.zeros((2, 5), "float32"), "4"), (np.zeros((2, 4)), "float64"), (np.zeros(4, "float32"), "x")):
        np.save("x.npy", array)
        result = polyreme("run", "net.so", "--input", "x=x.npy")
        assert result.code == 1 and message in result.err and "x" in result.err and "Traceback" not in result.err


def test_a_damaged_library_is_refused(polyreme: Any) -> None:
    polyreme("compile", "net.py:Net", "-o", "net.so")
    whole = Path("net.so").read_bytes()
    Path("short.so").write_bytes(whole[: len(whole) // 2])
    Path("text.so").write_text("not a library")
    np.save("x.npy", weights())
    for name in ("short.so", "text.so"):
        result = polyreme("run", name, "--input", "x=x.npy")
        assert result.code == 1 and name in result.err and "Traceback" not in result.err


def test_an_error_in_the_model_file_is_shown_at_its_line(polyreme: Any) -> None:
    Path("broken.py").write_text("x = 1\ny = x / 0\n")
    result = polyreme("inspect", "broken.py:Net")
    assert result.code == 1 and "broken.py:2" in result.err and "ZeroDivisionError" in result.err and "--debug" in result.err
    assert "Traceback" in polyreme("inspect", "broken.py:Net", "--debug").err
    assert "Traceback" in polyreme("--debug", "inspect", "broken.py:Net").err


# --- the program itself


def python_m(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "polyreme", *args], capture_output=True, text=True, timeout=120, cwd=cwd)


def test_a_model_file_that_is_no_python_is_shown_at_its_line(polyreme: Any) -> None:
    Path("broken.py").write_text("x = 1\ndef f(x:\n    pass\n")
    assert polyreme("inspect", "broken.py:f").err.startswith(
        f"{Path('broken.py').resolve()}:2:6: error: SyntaxError: '(' was never closed\n    def f(x:\n         ^"
    )


def test_numbers_that_are_too_large_for_memory_have_no_place_in_numpy(polyreme: Any) -> None:
    result = polyreme("bench", "net.py:Net", "--size", "N=99999999999999")
    assert result.code == 1 and result.err.startswith("error: MemoryError: ")


def test_no_command_at_all_asks_for_help(polyreme: Any) -> None:
    assert polyreme().err == polyreme("--help").out


def test_exit_codes_reach_the_shell() -> None:
    assert python_m("--version").returncode == 0
    assert python_m("inspect", "nothing.py:Net").returncode == 1
    assert python_m("inspect").returncode == 2


def test_a_reader_that_goes_away_is_no_error() -> None:
    text = f"{sys.executable} -m polyreme inspect net.py:Net --level asm | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""


def test_help_names_every_command() -> None:
    text = python_m("--help").stdout
    assert all(name in text for name in COMMANDS)


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).parent / "polyreme"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and paddle.__version__ in done.stdout


@pytest.mark.parametrize("level", ["nn", "tensor", "kernel", "llvm", "asm"])
def test_the_example_can_be_inspected_at_every_level(polyreme: Any, level: str) -> None:
    assert polyreme("inspect", f"{ROOT}/examples/lenet.py:LeNet", "--level", level).code == 0


# --- GPUs


def test_an_artifact_for_a_gpu_runs_on_the_emulated_one(polyreme: Any) -> None:
    np.save("x.npy", weights())
    assert polyreme("run", "net.py:Net", "--input", "x=x.npy", "-o", "cpu.npy").code == 0
    paddle.seed(3)
    result = polyreme("compile", "net.py:Net", "--target", "cuda:sm_90", "-o", "net.cubin")
    assert result.code == 0 and "for cuda:sm_90" in result.err and not Path("net.h").exists()
    result = polyreme("run", "net.cubin", "--input", "x=x.npy", "-o", "gpu.npy", "--device", "gpu-emulated")
    assert result.code == 0, result.err
    np.testing.assert_allclose(np.load("gpu.npy"), np.load("cpu.npy"), rtol=1e-5)
    assert paddle.get_device() == "cpu"
    Path("net.cubin").write_bytes(Path("net.cubin").read_bytes()[:-1])
    result = polyreme("run", "net.cubin", "--input", "x=x.npy", "--device", "gpu-emulated")
    assert result.code != 0 and "the file is damaged" in result.err


def test_ptx_is_written_and_shown(polyreme: Any) -> None:
    shown = polyreme("inspect", "net.py:Net", "--level", "ptx", "--target", "cuda:sm_80")
    assert shown.code == 0 and ".target sm_80" in shown.out
    assert polyreme("compile", "net.py:Net", "--target", "cuda:sm_80", "--to", "ptx", "-o", "net.ptx").code == 0
    assert ".visible .entry" in Path("net.ptx").read_text()
    result = polyreme("inspect", "net.py:Net", "--level", "ptx")
    assert result.code != 0 and "expected a GPU as the target of PTX" in result.err
