"""Other runtimes beside ours: what is written for them means the same, and figures come of turns as they should."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.compiled.inspection import model_module
from polyreme.exporters.idioms import program
from polyreme.exporters.torch import TorchExportError, export_torch
from polyreme.ir.evaluate import evaluate
from polyreme.jit import save
from polyreme.peers.compare import Comparison, LibraryError, Race, Worker, compare
from polyreme.peers.files import write_files
from polyreme.peers.runner import timings

ROOT = Path(__file__).parents[2]
F = paddle.nn.functional


def module_of(function: Any, *shape: int) -> Any:
    spec = [paddle.static.InputSpec(list(shape), "float32", "x")]
    return model_module(function, spec, True)


class States(paddle.nn.Layer):
    def __init__(self, kind: str, direction: str = "forward") -> None:
        super().__init__()
        self.cell = getattr(paddle.nn, kind)(3, 5, direction=direction)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.cell(x)[0]


IDIOMS: dict[str, tuple[Callable[[], Any], str]] = {
    "relu6": (lambda: F.relu6, "clip"),
    "hard sigmoid": (lambda: F.hardsigmoid, "hard_sigmoid"),
    "hard swish": (lambda: F.hardswish, "hard_swish"),
    "lstm": (lambda: States("LSTM"), "lstm"),
    "twice as large": (lambda: lambda x: F.interpolate(x.unsqueeze(0), scale_factor=2).squeeze(0), "enlarge"),
    "mirrored": (lambda: lambda x: F.pad(x.unsqueeze(0), [1, 2, 0, 3], mode="reflect").squeeze(0), "reflect"),
    "gru": (lambda: States("GRU"), "gru"),
}


@pytest.mark.parametrize("name", IDIOMS)
def test_what_the_nn_level_says_in_several_ops_is_seen_as_one(name: str) -> None:
    make, kind = IDIOMS[name]
    ops = program(module_of(make(), 2, 4, 3).function())
    assert [found.kind for _, found in ops if found is not None] == [kind]
    assert len(ops) <= 4, "what the idiom stands for is not written as well"


def test_what_only_looks_like_an_idiom_is_left_alone() -> None:
    for function in (
        lambda x: paddle.where(x <= 0.0, x * 2, paddle.where(x >= 6.0, x, x)),
        lambda x: x * paddle.clip(x + 2.0, 0.0, 6.0) / 6.0,
    ):
        kinds = [found.kind for _, found in program(module_of(function, 2, 3).function()) if found is not None]
        assert set(kinds) <= {"clip"}


def functions() -> dict[str, tuple[Any, tuple[int, ...]]]:
    pool = lambda x: F.max_pool2d(x, 2, 1, 1) + F.avg_pool2d(x, 2, 1, 1, exclusive=False)
    return {
        "idioms": (lambda x: F.relu6(x * 4) + F.hardswish(x) + F.hardsigmoid(x) + F.gelu(x) + F.gelu(x, approximate=True), (2, 3)),
        "layer norms": (lambda x: F.layer_norm(x, [3, 4]) + F.layer_norm(x, 4) + F.instance_norm(x), (2, 3, 4)),
        "lookups": (lambda x: paddle.gather(x, paddle.to_tensor([2, 0]), axis=1), (2, 3)),
        "lstm": (States("LSTM"), (2, 4, 3)),
        "gru": (States("GRU"), (2, 4, 3)),
        "both ways": (States("LSTM", direction="bidirect"), (2, 4, 3)),
        "repeated and mirrored": (lambda x: F.pad(F.interpolate(x, scale_factor=2), [1, 2, 0, 3], mode="reflect"), (1, 2, 3, 4)),
        "padded": (lambda x: F.pad(x, [1, 2, 0, 1], value=2.0), (1, 2, 3, 4)),
        "instance and group norms": (
            lambda x: F.instance_norm(x, weight=paddle.ones([6]) * 2) + F.group_norm(x, 3, weight=paddle.arange(6, dtype="float32")),
            (2, 6, 3, 4),
        ),
        "transposed convolution": (paddle.nn.Conv2DTranspose(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (1, 4, 5, 6)),
        "adding by position": (lambda x: paddle.scatter_nd_add(x, paddle.to_tensor([[1], [0], [1]]), x * 2), (3, 4)),
        "places": (lambda x: (paddle.argmax(x, 1) + paddle.arange(2) % 2).astype("float32") + paddle.flip(x.cumsum(1), [1])[:, 0], (2, 3)),
        "products": (lambda x: paddle.matmul(x, x, transpose_y=True) - paddle.matmul(x, x, transpose_x=True), (2, 3, 3)),
        "pools": (pool, (1, 2, 5, 5)),
        "convolution": (
            paddle.nn.Sequential(paddle.nn.Conv2D(2, 4, 3, padding=[1, 0, 2, 1], groups=2), paddle.nn.BatchNorm2D(4)),
            (1, 2, 6, 6),
        ),
        "linear": (paddle.nn.Sequential(paddle.nn.Linear(3, 5), paddle.nn.Softmax()), (2, 4, 3)),
        "views": (
            lambda x: paddle.concat([x.transpose([0, 2, 1]).reshape([2, 12]), x[:, 1:3, ::2].flatten(1)], 1).mean(0, keepdim=True),
            (2, 3, 4),
        ),
    }


@pytest.mark.peer
@pytest.mark.parametrize("name", list(functions()))
def test_onnx_files_mean_what_the_program_means(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from polyreme.exporters.onnx import export_onnx

    module = module_of(*functions()[name][:1], *functions()[name][1])
    x = np.random.default_rng(0).standard_normal(functions()[name][1]).astype("float32")
    (got,) = onnxruntime.InferenceSession(export_onnx(module), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(got, evaluate(module, [x])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.peer
@pytest.mark.parametrize("name", list(functions()))
def test_source_for_torch_means_what_the_program_means(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    function, shape = functions()[name]
    module = module_of(function, *shape)
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    write_files(module, [x], tmp_path, ["torch"])
    spec = importlib.util.spec_from_file_location("written", tmp_path / "model_torch.py")
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    (got,) = written.load(tmp_path / "model_torch.npz")(torch.from_numpy(x))
    np.testing.assert_allclose(got.numpy(), evaluate(module, [x])[0], rtol=1e-4, atol=1e-5)


def test_source_for_torch_is_python_that_reads_all_of_its_constants() -> None:
    for function, shape in functions().values():
        source, arrays = export_torch(module_of(function, *shape))
        compile(source, "model_torch.py", "exec")
        assert all(f"self.{name}" in source or f"{name}_t" in arrays for name in arrays)


def test_source_for_torch_names_the_op_that_it_has_no_words_for() -> None:
    with pytest.raises(TorchExportError, match="no rule for 'nn.argsort'"):
        export_torch(module_of(lambda x: paddle.argsort(x, 0), 4))
    with pytest.raises(TorchExportError, match=r"expected a known size but got '2\*N'"):
        export_torch(model_module(lambda x: x.reshape([-1, 2]), [paddle.static.InputSpec(["N", 4], "float32", "x")], True))


# --- comparing


def small(folder: Path) -> Any:
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU())
    x = np.ones((2, 4), "float32")
    save(net, str(folder / "model"), input_spec=[paddle.static.InputSpec([2, 4], "float32", "x")])
    write_files(module_of(net, 2, 4), [x], folder, [])
    return np.asarray(net(paddle.to_tensor(x)).numpy())


def test_our_own_process_is_timed_and_its_results_are_checked(tmp_path: Path) -> None:
    expected = small(tmp_path)
    made = compare(tmp_path, {"polyreme": sys.executable}, 1, tmp_path / "cache", seconds=0.01, rounds=2, reference=[expected])
    ours = made.latencies["polyreme"]
    assert 0 < ours.best <= ours.p10 and 0 < ours.best <= ours.median and ours.calls >= 4 and not made.ratios
    assert ours.difference < 1e-5 and ours.compile_s > 0 and ours.peak_mib > 10
    with pytest.raises(LibraryError, match="expected results of 'polyreme' within 0.0001 but they differ by"):
        compare(tmp_path, {"polyreme": sys.executable}, 1, tmp_path / "cache", seconds=0.01, rounds=2, reference=[expected + 1])


def test_a_library_that_cannot_run_the_model_says_so_and_is_left_out(tmp_path: Path) -> None:
    small(tmp_path)
    made = compare(tmp_path, {"polyreme": sys.executable, "onnxruntime": sys.executable}, 1, tmp_path / "cache", seconds=0.01, rounds=2)
    assert list(made.latencies) == ["polyreme"] and "'onnxruntime' does not run the model" in made.faults["onnxruntime"]


def test_turns_change_their_order_and_those_of_a_round_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path)
    asked: list[str] = []
    took = {"polyreme": iter([1.0, 3.0, 2.0, 5.0]), "polyreme_float32": iter([9.0] * 4), "onnxruntime": iter([4.0, 2.0, 3.0, 3.0])}

    def ask(worker: Worker, **request: Any) -> dict[str, Any]:
        if request["do"] == "prepare":
            np.savez(tmp_path / f"outputs_{worker.library}.npz", np.ones(1))
            return {"compile_s": 1.0, "first_s": 1.0, "peak_mib": 1.0}
        asked.append(worker.library)
        return {"seconds": [next(took[worker.library])] * 2}

    monkeypatch.setattr(Worker, "ask", ask)
    with Race(tmp_path, dict.fromkeys(took, sys.executable), 1, tmp_path / "cache") as race:
        made = race.run(0.01, rounds=2, laps=2)
    assert asked == [*took, *reversed(took)] * 2
    # A round's tenth percentile is that of the faster turn's calls: ours 1 and 2, the peer's 2 and 3.
    assert made.ratios == pytest.approx([2.0, 1.5]) and made.latencies["polyreme"].calls == 8
    assert made.latencies["polyreme"].p10 == pytest.approx(1.5) and made.latencies["polyreme"].best == 1.0


def test_a_process_that_takes_too_long_is_ended() -> None:
    worker = Worker("polyreme", 1)
    worker.process.stdin.write("")
    with pytest.raises(LibraryError, match="the process of 'polyreme' ended"):
        worker.ask(0.0, do="prepare", folder="nowhere", cache="nowhere")


def test_a_ratio_is_that_of_the_median_round() -> None:
    made = Comparison({}, [1.0, 1.2, 1.1])
    assert made.ratio == 1.1 and made.spread == pytest.approx(0.2 / 1.1)


def test_timings_leave_the_first_calls_out_and_keep_at_least_some() -> None:
    calls: list[int] = []
    assert len(timings(lambda: calls.append(1) or [], 0.0, fewest=3)) == 3
    assert len(calls) == 4


def test_the_runner_needs_nothing_of_ours() -> None:
    source = (ROOT / "frontend/peers/runner.py").read_text()
    head = source.split("\ndef ")[0]
    assert "polyreme" not in head.split('"""')[2] and "numpy" not in head.split('"""')[2]


@pytest.mark.peer
def test_bench_compares_with_other_runtimes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    command = ["bench", str(ROOT / "examples/mlp.py:MLP"), "--against", "onnxruntime", "--size", "N=2", "--seconds", "0.1"]
    assert run_command(command) == 0
    shown = capsys.readouterr().out
    assert "onnxruntime" in shown and "best peer / ours" in shown
    assert run_command([*command, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data["libraries"]) == {"polyreme", "onnxruntime"} and len(data["ratios"]) == 5


def test_bench_refuses_what_it_cannot_compare(capsys: pytest.CaptureFixture[str]) -> None:
    net = str(ROOT / "examples/mlp.py:MLP")
    assert run_command(["bench", net, "--against", "onnxrt", "--seconds", "0.05"]) == 1
    assert "did you mean 'onnxruntime'?" in capsys.readouterr().err
    assert run_command(["bench", net, "--against", "paddle", "--seconds", "0.05"]) == 1
    assert "expected a model in Paddle's own files" in capsys.readouterr().err
    assert run_command(["bench", net, "--against", "torch", "--eager"]) == 2
