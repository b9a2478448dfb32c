"""`polyreme verify`, and `polyreme info` of files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.dialects import nn
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.link.artifact import write_library
from tests.runtime.native import scale_artifact

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
Call = Callable[..., tuple[int, str, str]]
GELU = """func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> attributes {arg_names = ["x"], result_names = ["y"]} {
  %a = nn.relu %x : tensor<Nx4xf32>
  %y = nn.gelu %a : tensor<Nx4xf32>
  return %y
}
"""


@pytest.fixture
def polyreme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(list(words))
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_a_right_library_is_within_its_bounds(polyreme: Call) -> None:
    model = str(MODELS / "serving.json")
    assert polyreme("compile", model, "-o", "net.so")[0] == 0
    code, out, _ = polyreme("verify", model, "net.so", "--size", "5")
    assert code == 0 and "     ok  fetch_name_0: float32[5, 3]: at most " in out and "fetch_name_1: int64[5]: equal" in out
    assert out.endswith("all outputs are within their bounds\n")
    np.save("x.npy", np.full((2, 4), 0.25, "float32"))
    np.save("ids.npy", np.array([5, 0]))
    # The same model in the other format: names are its own.
    code, out, _ = polyreme("verify", str(MODELS / "serving_legacy.pdmodel"), "net.so", "--input", "x=x.npy", "--input", "ids=ids.npy")
    assert code == 0 and "float32[2, 3]" in out


class Ends(paddle.nn.Layer):
    """Takes 12 steps and more, in pairs, and as many marks."""

    def forward(self, x: Any, marks: Any) -> Any:
        return x[:, :-11].sum(1), paddle.reshape(x, [x.shape[0], -1, 2]), marks + x


def test_sizes_that_nobody_gives_are_those_that_the_model_takes(polyreme: Call) -> None:
    spec = [paddle.static.InputSpec([None, None], "float32", name) for name in ("x", "marks")]
    paddle.jit.save(Ends(), "net", input_spec=spec)
    assert polyreme("compile", "net.polyreme", "-o", "net.so")[0] == 0
    code, out, _ = polyreme("verify", "net.polyreme", "net.so")
    assert code == 0 and "float32[8, 8, 2]" in out
    code, out, err = polyreme("verify", "net.polyreme", "net.so", "--size", "4")
    assert code == 1 and "at least" in err
    for model in ("net.polyreme", "net.so"):
        code, out, _ = polyreme("bench", model, "--seconds", "0.01", "--size", "N=2")
        assert code == 0 and "x: float32[2, 16]" in out


def test_a_library_of_other_weights_is_told_from_a_wrong_compiler(polyreme: Call) -> None:
    spec = [paddle.static.InputSpec([None, 4], "float32", "x")]
    paddle.jit.save(paddle.nn.Linear(4, 3), "net", input_spec=spec)
    paddle.compile(paddle.nn.Linear(4, 3), "other.so", input_spec=spec)
    code, out, _ = polyreme("verify", "net", "other.so", "-q")
    assert code == 3 and "  wrong  output: float32[3, 3]: expected " in out
    assert "the library was made of another model or other weights" in out and "solve-dims" not in out


def test_the_first_op_that_differs_is_named(polyreme: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = nn_to_tensor.rules[nn.Gelu]

    def approximate(op: Any, b: Any, x: Any) -> Any:
        op.attributes["approximate"] = True
        return exact[0](op, b, x)

    monkeypatch.setenv("POLYREME_CACHE", "off")
    monkeypatch.setitem(nn_to_tensor.rules, nn.Gelu, [approximate])
    Path("net.tir").write_text(GELU)
    assert polyreme("compile", "net.tir", "-o", "net.so")[0] == 0
    code, out, _ = polyreme("verify", "net.tir", "net.so")
    assert code == 3 and "  wrong  y: float32[3, 4]: expected " in out
    assert "'nn-to-tensor' is the first to change what the model computes" in out and "is wrong about 'nn.gelu'" in out


def test_a_library_of_another_model_is_refused(polyreme: Call) -> None:
    paddle.compile(paddle.nn.ReLU(), "relu.so", input_spec=[paddle.static.InputSpec([3], "float32", "x")])
    code, _, err = polyreme("verify", str(MODELS / "serving.json"), "relu.so")
    assert code == 1 and "expected 2 inputs (x, ids) of 'relu.so' but it takes x" in err
    assert polyreme("verify", "none.json", "relu.so")[0] == 1 and polyreme("verify", "relu.so")[0] == 2


# --- info


def test_info_of_a_library(polyreme: Call) -> None:
    net = paddle.nn.Linear(4, 3)
    paddle.compile(net, "net.so", input_spec=[paddle.static.InputSpec([None, 4], "float32", "x")])
    code, out, _ = polyreme("info", "net.so")
    assert code == 0
    for line in ("input        x: float32[N, 4]", "output       output: float32[N, 3]", "here         can be loaded"):
        assert line in out.splitlines()
    found = json.loads(polyreme("info", "net.so", "--json")[1])
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["N", 4]}] and found["sizes"] == ["N"] and found["fault"] == ""
    write_library(scale_artifact(), "scale.so", weights="beside")
    assert "in scale.weights, beside it" in polyreme("info", "scale.so")[1]
    Path("scale.weights").unlink()
    code, out, _ = polyreme("info", "scale.so")
    assert code == 1 and "here         scale.weights: expected the weights of 'scale' here, but there is no such file" in out


def test_info_of_saved_models(polyreme: Call) -> None:
    code, out, _ = polyreme("info", str(MODELS / "serving.json"))
    assert code == 0 and "PIR program" in out and "weights      3 tensors of 33 elements, 132 B" in out and "pd_op.add 2" in out
    found = json.loads(polyreme("info", str(MODELS / "serving_legacy.pdmodel"), "--json")[1])
    assert found["operators"]["lookup_table_v2"] == 1 and found["inputs"][1] == {"name": "ids", "dtype": "int64", "shape": ["N"]}
    paddle.jit.save(paddle.nn.Linear(4, 3), "own", input_spec=[paddle.static.InputSpec([None, 4], "float32", "x")])
    code, out, _ = polyreme("info", "own")
    assert code == 0 and "saved model  own.polyreme" in out and "nn.linear 1" in out


def test_info_lists_what_is_not_here(polyreme: Call) -> None:
    data = (MODELS / "serving.json").read_bytes().replace(b"1.matmul", b"1.matmil").replace(b"1.add", b"1.foo")
    Path("net.json").write_bytes(data)
    shutil.copy(MODELS / "serving.pdiparams", "net.pdiparams")
    code, out, _ = polyreme("info", "net.json")
    assert code == 1 and "unsupported  the operator 'foo' is not supported" in out and ": 2 times, in /" in out and "matmil" in out
    assert "here         operators are missing" in out
    code, _, err = polyreme("compile", "net.json", "-o", "net.so")
    assert code == 1 and err.count("error[E0702]") == 2


def test_info_of_something_else_says_what_it_takes(polyreme: Call) -> None:
    Path("a.txt").write_text("a")
    assert "expected a library (.so, .wasm), or a model saved by polyreme" in polyreme("info", "a.txt")[2]
    assert "there is no file 'b.so'" in polyreme("info", "b.so")[2]


def test_bits_of_bfloat16_are_taken_as_numpys_files_have_them(polyreme: Call) -> None:
    net = paddle.jit.to_static(lambda x: x * 2, input_spec=[paddle.static.InputSpec([None, 4], "bfloat16", "x")])
    paddle.jit.save(net, "net")
    assert polyreme("compile", "net", "-o", "net.so")[0] == 0
    x = paddle.to_tensor(np.arange(8, dtype="float32").reshape(2, 4)).astype("bfloat16")
    np.save("x.npy", x.numpy())
    assert polyreme("verify", "net", "net.so", "--input", "x=x.npy")[0] == 0
    for model in ("net", "net.so"):
        assert polyreme("run", model, "--input", "x=x.npy")[0] == 0
    library = paddle.load_compiled("net.so")
    np.testing.assert_array_equal(library(x.numpy()).astype("float32"), np.arange(8).reshape(2, 4) * 2)
    # What `numpy()` gives makes the same tensor again.
    np.testing.assert_array_equal(paddle.to_tensor(x.numpy()).astype("float32").numpy(), np.arange(8).reshape(2, 4))
    assert paddle.jit.load("net")(paddle.to_tensor(x.numpy())).dtype == paddle.bfloat16
