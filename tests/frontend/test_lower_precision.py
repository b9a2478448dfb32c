"""Models with weights in fewer bits: what is rounded, what stays, what the report says, and what a library of them takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.cli import run_command
from polyreme.cli.models import find_model
from polyreme.cli.quantize import _drawn, _traced
from polyreme.compiled.compilation import load_compiled
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.types import bf16
from polyreme.quantization import lower_precision
from polyreme.quantization.reports import agreement_text, measure_agreement


class Words(nn.Layer):
    """A table, products, and a product of two activations."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 64)
        self.up = nn.Linear(64, 96)
        self.down = nn.Linear(96, 500)

    def forward(self, ids: Any) -> Any:
        x = nn.functional.relu(self.up(self.table(ids)))
        return self.down(paddle.matmul(paddle.matmul(x, x, transpose_y=True), x) / 96)


def images() -> Any:
    return nn.Sequential(
        nn.Conv2D(3, 32, 3, padding=1), nn.BatchNorm2D(32), nn.ReLU(), nn.Conv2D(32, 32, 3, padding=1, groups=32), nn.Conv2D(32, 64, 1),
        nn.ReLU(), nn.Conv2DTranspose(64, 16, 2, 2), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def rounded(layer: Any, names: tuple[str, ...]) -> None:
    """Round these parameters to bfloat16, in place."""
    for name, parameter in layer.named_parameters():
        if name in names:
            parameter.set_value(parameter.numpy().astype(bf16.np).astype("float32"))


@pytest.mark.parametrize("length", [None, pytest.param(9, marks=pytest.mark.slow)])
def test_weights_and_tables_of_16_bits_are_those_of_the_model_rounded(length: int | None, tmp_path: Path) -> None:
    paddle.seed(3)
    net = Words()
    net.eval()
    spec = [paddle.static.InputSpec([None, length], "int64", "ids")]
    ids = np.random.default_rng(0).integers(0, 500, (2, 9))
    made, report = lower_precision(net, "bf16-weights", [[ids]], input_spec=spec)
    kept = {row.name: row.precision for row in report.layers}
    assert kept == {"table": "bf16", "up": "bf16", "matmul": "float32", "matmul#2": "float32", "down": "bf16"}
    assert [row.reason for row in report.layers if row.precision == "float32"] == ["both of its operands are computed"] * 2
    assert all(1e-5 < row.error < 0.01 for row in report.layers if row.error is not None)
    before = paddle.compile(net, tmp_path / "wide.so", input_spec=spec)
    library = paddle.compile(made, tmp_path / "narrow.so")
    rounded(net, ("table.weight", "up.weight", "down.weight"))
    expected = net(paddle.to_tensor(ids)).numpy()
    for found in (library(ids), made(paddle.to_tensor(ids)).numpy()):
        np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())
    assert np.abs(before(ids) - expected).max() > 1e-4 * np.abs(expected).max()
    saved = (tmp_path / "wide.so").stat().st_size - (tmp_path / "narrow.so").stat().st_size
    assert saved > 0.9 * (report.bytes_before - report.bytes_after)


@pytest.mark.parametrize("size", [20, pytest.param(None, marks=pytest.mark.slow)])
def test_images_go_through_convolutions_of_16_bit_weights(size: int | None, tmp_path: Path) -> None:
    paddle.seed(5)
    net = images()
    net.eval()
    spec = [paddle.static.InputSpec([None, 3, size, size], "float32", "image")]
    x = np.random.default_rng(0).standard_normal((2, 3, 20, 20)).astype("float32")
    made, report = lower_precision(net, "bf16-weights", [x], input_spec=spec)
    assert [row.precision for row in report.layers] == ["bf16", "float32", "bf16", "float32", "bf16"]
    assert "depthwise" in report.layers[1].reason and "transposed" in report.layers[3].reason
    expected = net(paddle.to_tensor(x)).numpy()
    found = paddle.compile(made, tmp_path / "net.so")(x)
    error = np.sqrt(np.square(found - expected).mean() / np.square(expected).mean())
    assert error == pytest.approx(report.layers[-1].error, rel=0.05) and error < 0.01


def test_eight_bits_are_those_of_quantize_model_with_the_errors_of_outputs() -> None:
    paddle.seed(5)
    net = images()
    net.eval()
    x = np.random.default_rng(0).standard_normal((4, 3, 20, 20)).astype("float32")
    made, report = lower_precision(net, "int8", [x], skip=["9"])
    assert [(row.name, row.precision) for row in report.layers] == [
        ("0", "int8"), ("3", "float32"), ("4", "int8"), ("6", "float32"), ("9", "float32"),
    ]  # fmt: skip
    assert report.layers[-1].reason == "it was asked for in skip"
    assert report.bytes_after < 0.4 * report.bytes_before
    expected = net(paddle.to_tensor(x)).numpy()
    error = np.sqrt(np.square(made(paddle.to_tensor(x)).numpy() - expected).mean() / np.square(expected).mean())
    assert error == pytest.approx(report.layers[-1].error, rel=0.1)
    assert report.to_dict()["layers"][0]["precision"] == "int8"


def test_another_precision_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a precision \(bf16-weights, int8\) but got 'fp4'"):
        lower_precision(nn.Linear(2, 2), "fp4", [np.ones((1, 2), "float32")])


SAVED = """
import polyreme as paddle

paddle.seed(1)
net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(288, 4))
net.input_spec = [paddle.static.InputSpec([None, 3, 8, 8], "float32", "image")]
"""


@pytest.mark.parametrize("precision, least", [("int8", 0.002), ("bf16-weights", 0.0002)])
def test_one_command_calibrates_reports_and_compiles(
    precision: str, least: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(SAVED)
    Path("samples").mkdir()
    draw = np.random.default_rng(0)
    for i in range(2):
        np.savez(f"samples/{i}.npz", image=draw.standard_normal((5, 3, 8, 8)).astype("float32"))
    assert run_command(["compile", "model.py:net", "--precision", precision, "--calibrate", "samples", "-o", "net.so"]) == 0
    printed = capsys.readouterr()
    assert "on 10 samples" in printed.out and "warning" not in printed.err
    exact = paddle.compile(_model(), "exact.so")
    x = draw.standard_normal((3, 3, 8, 8)).astype("float32")
    wanted, found = exact(x), load_compiled("net.so")(x)
    error = np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())
    assert least < error < 0.03


def _model() -> Any:
    scope: dict[str, Any] = {}
    exec(SAVED, scope)
    return scope["net"]


def test_without_samples_numbers_are_drawn_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(SAVED)
    assert run_command(["compile", "model.py:net", "--precision", "int8", "-o", "net.so"]) == 0
    printed = capsys.readouterr()
    assert "warning: no --calibrate: scales are chosen and errors are told on numbers drawn at random" in printed.err
    assert "on 8 samples" in printed.out


def test_samples_without_a_precision_and_empty_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(SAVED)
    Path("samples").mkdir()
    assert run_command(["compile", "model.py:net", "--calibrate", "samples", "-o", "net.so"]) != 0
    assert "expected a --precision that samples are for" in capsys.readouterr().err
    assert run_command(["compile", "model.py:net", "--precision", "int8", "--calibrate", "samples", "-o", "net.so"]) != 0
    assert "expected files of arrays (.npz, .npy) in the folder 'samples'" in capsys.readouterr().err


class Picture(nn.Layer):
    """An image of bytes, classes that rows of a table stand for, and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(300, 16)
        self.down = nn.Linear(16, 5)

    def forward(self, image: Any, ids: Any, factor: Any) -> Any:
        return self.down((image.astype("float32") + self.table(ids)) * factor)


PICTURE = [
    paddle.static.InputSpec(shape, dtype, name)
    for shape, dtype, name in (([None, 16], "uint8", "image"), ([None], "int64", "ids"), ([], "float32", "factor"))
]


def test_inputs_that_are_drawn_are_those_that_the_model_takes(tmp_path: Path) -> None:
    paddle.jit.save(Picture(), str(tmp_path / "net"), input_spec=PICTURE)
    batches = _drawn(_traced(find_model(str(tmp_path / "net"), [])), 3)
    pixels, ids = (np.concatenate([b[name].ravel() for b in batches]) for name in ("image", "ids"))
    assert pixels.dtype == np.uint8 and pixels.min() < 32 and pixels.max() > 223
    assert ids.dtype == np.int64 and ids.min() >= 0 and 100 < ids.max() < 300
    assert all(b["factor"].shape == () for b in batches)


@pytest.mark.parametrize("precision", ["int8", "bf16-weights"])
def test_an_input_may_be_one_number(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paddle.seed(1)
    net = Picture()
    net.eval()
    paddle.jit.save(net, "net", input_spec=PICTURE)
    rng = np.random.default_rng(0)
    arrays = {"image": rng.integers(0, 256, (20, 16), "uint8"), "ids": rng.integers(0, 300, 20), "factor": np.float32(0.5)}
    np.savez("samples.npz", **arrays)
    assert run_command(["compile", "net", "--precision", precision, "--calibrate", "samples.npz", "-o", "net.so", "-q"]) == 0
    expected = net(*map(paddle.to_tensor, arrays.values())).numpy()
    found = paddle.load_compiled("net.so")(*arrays.values())
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize("precision", ["int8", "bf16-weights"])
def test_what_cannot_be_narrowed_says_why(precision: str, tmp_path: Path) -> None:
    layer = nn.Linear(4, 3)
    x = np.ones((2, 4), "float32")
    spec = [paddle.static.InputSpec([None, 4], "float32", "x")]

    def branches(x: Any) -> Any:
        return paddle.static.nn.cond(x.sum() > 0, lambda: layer(x), lambda: layer(x) * 2)

    with pytest.raises(PolyremeError, match="in its loops and branches stay in floats") as refused:
        lower_precision(paddle.jit.to_static(branches), precision, [[x]], input_spec=spec)
    assert refused.value.diagnostics[0].code == "E1102"


class _InParts(nn.Layer):
    """What its first layer gives decides how many rows its second one takes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        kept = paddle.gather(y, paddle.nonzero(y.sum(1) > 0).flatten())
        return self.second(kept), y


@pytest.mark.parametrize("precision", ["int8", "bf16-weights"])
def test_a_model_that_runs_in_parts_is_narrowed(precision: str, tmp_path: Path) -> None:
    paddle.seed(3)
    net = _InParts()
    net.eval()
    x = np.random.default_rng(1).standard_normal((64, 8)).astype("float32")
    spec = [paddle.static.InputSpec([None, 8], "float32", "x")]
    made, report = lower_precision(net, precision, [[x[:32]], [x[32:]]], input_spec=spec)
    assert [row.precision for row in report.layers] == [precision.removesuffix("-weights")] * 2
    library = paddle.compile(made, tmp_path / "net.so")
    rows, y = library(x)
    exact = net.first(paddle.to_tensor(x)).numpy()
    assert np.abs(y - exact).max() < 0.05 * np.abs(exact).max()
    kept = y[y.sum(1) > 0]
    assert rows.shape == (len(kept), 3)
    wanted = net.second(paddle.to_tensor(kept)).numpy()
    assert np.abs(rows - wanted).max() < 0.05 * np.abs(wanted).max()


def test_outputs_whose_sizes_change_are_counted() -> None:
    before, after = [[np.ones(3, "float32"), np.ones(2, "float32")]], [[np.ones(2, "float32"), np.ones(2, "float32")]]
    found = measure_agreement(before, after)
    assert (found.resized, found.cosine) == (1, pytest.approx(1.0))
    assert agreement_text(found).endswith("1 outputs of other sizes")
