"""The quick lane's own tests: a look into every room. What else `pytest -m quick` runs is listed in `quick_lane.py`.

Each of these is shown at length elsewhere; here is the least that a change which breaks something common does not pass.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.ir.builtin import Func
from polyreme.ir.context import all_ops
from polyreme.ir.debug.examples import example_module
from polyreme.ir.evaluate import evaluate, random_inputs
from polyreme.lowering.pipeline import compile_module
from tests.quick_lane import FILES
from tests.sources import ROOT, sources

OPS = {name: cls for name, cls in all_ops().items() if name.split(".")[0] in ("nn", "tensor")}
MODELS = ROOT / "tests" / "fixtures" / "models"


def test_the_lane_has_files_of_every_room() -> None:
    assert not [path for path in FILES if not (ROOT / "tests" / path).is_file()]
    assert {"ir", "dialects", "lowering", "runtime", "frontend", "cli"} <= {path.split("/")[0] for path in FILES}


@pytest.mark.parametrize("room", ["ir", "dialects", "lowering", "runtime", "frontend"])
def test_every_file_can_be_imported(room: str) -> None:
    for source in sources(room):
        parts = source.name.removesuffix(".py").removesuffix("/__init__").split("/")
        if parts[-1] != "__main__":
            importlib.import_module(".".join(["polyreme", *(parts[1:] if room == "frontend" else parts)]))


def inputs_for(name: str, func: Func) -> list[Any]:
    inputs = random_inputs(func)
    if name == "nn.cholesky":
        return [x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1], dtype=x.dtype) for x in inputs]
    return inputs


@pytest.mark.parametrize("name", OPS)
def test_an_op_compiled_gives_what_its_reference_gives(name: str) -> None:
    module = example_module(OPS[name])
    func = next(iter(module.functions))
    func.attributes = {**func.attributes, "sym_name": "main"}
    inputs = inputs_for(name, func)
    for expected, got in zip(evaluate(module, inputs), compile_module(module).load().run(inputs), strict=True):
        np.testing.assert_allclose(np.asarray(got, expected.dtype), expected, rtol=1e-4, atol=1e-5)


class Net(nn.Layer):
    """A convolution, a norm, a pooling and a product: what a network of images is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2D(1, 8, 3, bias_attr=False), nn.BatchNorm2D(8), nn.Linear(8 * 9, 5)

    def forward(self, x: Any) -> Any:
        x = nn.functional.max_pool2d(nn.functional.relu(self.norm(self.conv(x))), 2)
        return self.head(x.flatten(1))


def trained(compiled: bool) -> tuple[list[float], list[Any]]:
    """Losses of three steps, and the parameters behind them."""
    paddle.seed(3)
    net = Net()
    step = paddle.jit.to_static(net) if compiled else net
    optimizer = paddle.optimizer.Adam(1e-2, parameters=net.parameters())
    x, labels = paddle.rand([4, 1, 8, 8]), paddle.to_tensor([0, 4, 2, 1])
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(step(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses, [p.numpy() for p in net.parameters()]


def test_training_compiled_is_training_eager_and_lowers_the_loss() -> None:
    (eager, expected), (compiled, got) = trained(False), trained(True)
    assert eager[-1] < eager[0]
    np.testing.assert_allclose(compiled, eager, rtol=1e-4)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("format_", ["pir", "legacy"])
def test_a_model_that_paddle_saved_gives_what_paddle_gave(format_: str) -> None:
    values = np.load(MODELS / "lenet.npz")
    (result,) = values[format_]
    y = paddle.jit.load(MODELS / format_ / "lenet")(paddle.to_tensor(values["x0"]))
    np.testing.assert_allclose(y.numpy(), values[f"y{result}"], rtol=0, atol=1e-5 * np.abs(values[f"y{result}"]).max())


def test_the_command_line_inspects_and_optimizes(tmp_path: Path) -> None:
    """In a process of its own, as a user starts it."""

    def run(*args: str) -> str:
        command = [sys.executable, "-m", "polyreme", *args]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "net.py").write_text("import polyreme as paddle\nNet = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.ReLU())\n")
    run("inspect", "net.py:Net", "--input", "x=f32[N,4]", "--level", "nn", "-o", "net.tir")
    assert "nn.linear" in (tmp_path / "net.tir").read_text()
    assert "tensor.contract" in run("opt", "net.tir", "--passes", "nn-to-tensor")
