"""Quantising whole programs: what is rewritten and what is left, the report, accuracy of a trained network, files, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.cli import run_command
from polyreme.data import digits
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.quantization import agreement, quantize_model
from polyreme.quantization.observers import AbsmaxObserver, HistObserver, KLObserver, MSEChannelWiseWeightObserver, MSEObserver
from polyreme.quantization.reports import measure_agreement

random = np.random.default_rng(5)
START = random.bit_generator.state


@pytest.fixture(autouse=True)
def _numbers_start_anew() -> None:
    """Whichever tests run, and in which order: a number near a half may be rounded either way."""
    random.bit_generator.state = START
    paddle.seed(1)


class Net(nn.Layer):
    """A convolution with a norm, a depthwise one, a functional product, a transposed convolution and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2D(2, 6, 3, padding=1, bias_attr=False), nn.BatchNorm2D(6)
        self.depthwise = nn.Conv2D(6, 6, 3, groups=6)
        self.up = nn.Conv2DTranspose(6, 2, 2)
        self.table = self.create_parameter([98, 5])
        self.head = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.norm(self.conv(x)))
        x = nn.functional.gelu(self.up(self.depthwise(x)))
        return self.head(paddle.matmul(x.flatten(1), self.table))


def net() -> Any:
    paddle.seed(3)
    made = Net()
    made.norm._mean.set_value(random.standard_normal(6).astype("float32") * 0.1)
    made.norm._variance.set_value(random.uniform(0.5, 2, 6).astype("float32"))
    made.eval()
    return made


def batches(count: int = 3, size: int = 4) -> list[Any]:
    return [random.standard_normal((size, 2, 8, 8)).astype("float32") for _ in range(count)]


def test_products_by_constants_take_integers_and_the_rest_is_named_with_its_reason() -> None:
    model, data = net(), batches()
    made = quantize_model(model, data)
    report = made.report
    assert [(row.name, row.kind, row.weight) for row in report.layers] == [
        ("conv", "conv", (6, 2, 3, 3)),
        ("table", "matmul", (98, 5)),
        ("head", "linear", (5, 3)),
    ]
    assert {row.name: row.reason.split(":")[0] for row in report.left_out} == {
        "depthwise": "depthwise",
        "up": "transposed convolutions are not computed in integers",
    }
    text = made.program()
    assert "nn.batch_norm" not in text, "norms are folded before weights are rounded"
    assert text.count("nn.quantize_linear") == 3 and text.count("nn.dequantize_linear") == 6
    weights = {t.name: t.type.dtype.name for t in made.traced.captured}
    assert weights["conv.weight_int8"] == weights["table.weight_int8"] == "i8"
    near = made(paddle.to_tensor(data[0])).numpy() - model(paddle.to_tensor(data[0])).numpy()
    assert 0 < np.abs(near).max() < 0.03 * np.abs(model(paddle.to_tensor(data[0])).numpy()).max()
    assert report.agreement.samples == 12 and report.agreement.db > 30


def test_ranges_lie_where_numbers_do_unless_they_are_to_be_symmetric() -> None:
    model, data = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), [random.uniform(-1, 3, (64, 8)).astype("float32")]
    model.eval()
    first, second = quantize_model(model, data).report.layers
    low, high = first.range
    assert first.scale == pytest.approx((high - low) / 255) and (-128 - first.zero_point) * first.scale == pytest.approx(
        low, abs=first.scale
    )
    assert second.zero_point == -128 and second.range[0] == 0, "what a ReLU gives has all its steps above 0"
    halved = quantize_model(model, data, symmetric=True).report.layers[1]
    assert halved.zero_point == 0 and halved.scale == pytest.approx(second.range[1] / 127)
    assert second.activation_db > halved.activation_db + 4, "a bit more is 6 dB"


def test_a_value_that_several_products_take_is_brought_into_bytes_once() -> None:
    attention = nn.MultiHeadAttention(8, 2)
    attention.eval()
    made = quantize_model(attention, [random.standard_normal((2, 5, 8)).astype("float32")])
    assert len(made.report.layers) == 4 and made.program().count("nn.quantize_linear") == 2


def test_skipped_layers_stay_in_floats_and_shared_weights_have_names_of_their_own() -> None:
    class Twice(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.last(self.one(nn.functional.relu(self.one(x))))

    model = Twice()
    model.eval()
    made = quantize_model(model, [random.standard_normal((8, 4)).astype("float32")], skip=["la*"])
    assert [row.name for row in made.report.layers] == ["one", "one#2"]
    assert [(row.name, row.reason) for row in made.report.left_out] == [("last", "it was asked for in skip")]


@pytest.mark.parametrize("observer", [HistObserver(percent=0.999), MSEObserver(), KLObserver()], ids=repr)
def test_outliers_are_clipped_where_an_observer_says_so(observer: Any) -> None:
    model = nn.Linear(16, 4)
    model.eval()
    data = random.standard_normal((256, 16)).astype("float32")
    data[0, 0] = 60.0
    whole, clipped = (quantize_model(model, [data], activation=by).report.layers[0] for by in (AbsmaxObserver(), observer))
    assert whole.clipped == 0 < clipped.clipped < 0.01 and clipped.scale < whole.scale


def test_inputs_of_several_kinds_come_in_order_or_by_name(tmp_path: Path) -> None:
    class Two(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(10, 4), nn.Linear(4, 3)

        def forward(self, words: Any, scale: Any) -> Any:
            return self.head(self.words(words) * scale)

    model = Two()
    model.eval()
    words, scale = random.integers(0, 10, (6, 5)), random.standard_normal((6, 1, 1)).astype("float32")
    spec = [paddle.static.InputSpec([None, 5], "int64", "words"), paddle.static.InputSpec([None, 1, 1], "float32", "scale")]
    in_order, by_name = (
        quantize_model(model, [(words, scale)], input_spec=spec),
        quantize_model(model, [{"scale": scale, "words": words}], input_spec=spec),
    )
    tensors = paddle.to_tensor(words), paddle.to_tensor(scale)
    np.testing.assert_array_equal(in_order(*tensors).numpy(), by_name(*tensors).numpy())
    paddle.jit.save(in_order, str(tmp_path / "two"))
    again = quantize_model(paddle.jit.load(str(FOLDER / "models" / "pir" / "lenet")), [np.zeros((2, 1, 28, 28), "float32")])
    assert [row.kind for row in again.report.layers] == ["conv", "conv", "matmul", "matmul", "matmul"]
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "two"))(*tensors).numpy(), in_order(*tensors).numpy(), atol=1e-6)
    with pytest.raises(
        PolyremeError,
        match=r"E1101.*expected arrays for words, scale in batch 0 of the calibration data but got word, scale; did you mean 'words'",
    ):
        quantize_model(model, [{"word": words, "scale": scale}], input_spec=spec)
    with pytest.raises(PolyremeError, match=r"E1101.*expected 2 arrays \(words, scale\) in batch 0"):
        quantize_model(model, [words], input_spec=spec)


FOLDER = Path(__file__).parents[1] / "fixtures"


def test_data_that_is_none_is_refused() -> None:
    model = nn.Linear(4, 2)
    for data, message in (
        ([], "expected at least one batch of calibration data but got none"),
        (np.ones((8, 4)), r"write \[data\] for a single batch"),
        ([[1.0, 2.0]], "expected arrays or tensors in batch 0 of the calibration data but got list"),
        ([np.zeros((0, 4), np.float32)], r"expected samples in batch 0 of the calibration data but got an array of shape \[0, 4\]"),
        (
            [np.ones((1, 4), np.float32), np.full((1, 4), np.inf, np.float32)],
            "expected finite numbers in batch 1 of the calibration data, .* but got inf",
        ),
    ):
        with pytest.raises(PolyremeError, match=f"E1101.*{message}"):
            quantize_model(model, data)
    spec = [paddle.static.InputSpec([None, 4], "float32", "x")]
    with pytest.raises(Exception, match=r"expected the input 'x' to be float32\[N, 4\] but got float32\[8, 5\]"):
        quantize_model(model, [np.ones((8, 5), "float32")], input_spec=spec)
    with pytest.raises(PolyremeError, match=r"E1102.*it has no convolution or product by a weight"):
        quantize_model(nn.ReLU(), [np.ones((8, 5), "float32")])
    small = quantize_model(model, [np.ones((8, 4), "float32")])
    with pytest.raises(PolyremeError, match=r"E1102.*it takes integers already"):
        quantize_model(small, [np.ones((8, 4), "float32")])


def test_a_library_of_a_quantised_model_is_about_a_quarter_as_large(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    model.eval()
    x = random.standard_normal((4, 512)).astype("float32")
    spec = [paddle.static.InputSpec([4, 512], "float32", "x")]
    sizes = {}
    for name, net in (("whole", model), ("small", quantize_model(model, [x], input_spec=spec))):
        (tmp_path / name).mkdir()
        found = paddle.compile(net, tmp_path / name / "net.so", input_spec=spec if name == "whole" else None)(x)
        sizes[name] = sum(file.stat().st_size for file in (tmp_path / name).iterdir())
        np.testing.assert_allclose(found, model(paddle.to_tensor(x)).numpy(), atol=0.05)
    assert sizes["small"] < 0.35 * sizes["whole"]


def test_agreement_counts_classes_and_measures_distances() -> None:
    exact = np.eye(8, dtype="float32")[[0, 1, 2, 3]]
    other = exact.copy()
    other[0], other[1] = np.eye(8)[5] * 1.5 + exact[0], np.arange(8)[::-1]  # the first class second, the second one second as well
    found = measure_agreement([[exact]], [[other]])
    assert (found.samples, found.top1, found.top5) == (4, 0.5, 1.0)
    assert found.largest == 7.0
    assert measure_agreement([[exact.reshape(4, 2, 4)]], [[other.reshape(4, 2, 4)]]).top1 is None
    same = measure_agreement([[exact]], [[exact]])
    assert same.cosine == pytest.approx(1) and same.db == np.inf


def trained_lenet() -> tuple[Any, Any, Any]:
    """A LeNet after some steps on handwritten digits, images and labels that it has not seen, and some that it has."""
    # The middle of each pixel of the originals.
    (images, labels), (held, wanted) = (
        (np.ascontiguousarray(d.images[:, :, 3:27:3, 3:27:3]), d.labels) for d in (digits("train"), digits("test"))
    )
    paddle.seed(1)
    model = nn.Sequential(
        nn.Conv2D(1, 12, 3, padding=1), nn.BatchNorm2D(12), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(12, 24, 3, padding=1),
        nn.BatchNorm2D(24), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    optimizer = paddle.optimizer.Adam(0.003, parameters=model.parameters())
    order = np.random.default_rng(0).permutation(len(images))
    for _ in range(4):
        for start in range(0, len(images), 80):
            chosen = order[start : start + 80]
            loss = nn.functional.cross_entropy(model(paddle.to_tensor(images[chosen])), paddle.to_tensor(labels[chosen]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
    model.eval()
    return model, (held, wanted), images


@pytest.fixture(scope="module")
def lenet() -> tuple[Any, Any, Any]:
    return trained_lenet()


def accuracy(model: Any, images: Any, labels: Any) -> float:
    return float((model(paddle.to_tensor(images)).numpy().argmax(1) == labels).mean())


@pytest.mark.parametrize(
    "by",
    [
        pytest.param({}, id="maxima"),
        pytest.param({"activation": HistObserver()}, id="shares", marks=pytest.mark.slow),
        pytest.param({"activation": MSEObserver(), "weight": MSEChannelWiseWeightObserver()}, id="errors"),
        pytest.param({"symmetric": True}, id="symmetric", marks=pytest.mark.slow),
    ],
)
def test_a_trained_network_recognises_digits_as_well_in_eight_bits(lenet: Any, by: Any) -> None:
    model, (images, labels), seen = lenet
    made = quantize_model(model, [seen[:64], seen[64:128]], **by)
    before, after = accuracy(model, images, labels), accuracy(made, images, labels)
    assert before > 0.9 and after >= before - 0.01
    found = agreement(model, made, [images])
    assert found.top1 is not None and found.top1 >= 0.98 and found.cosine > 0.998
    assert sum(row.bytes_after for row in made.report.layers) < 0.3 * sum(row.bytes_before for row in made.report.layers)


def test_four_bits_are_worse_than_eight(lenet: Any) -> None:
    model, (images, _), seen = lenet
    eight, four = (
        agreement(
            model, quantize_model(model, [seen[:64]], activation=AbsmaxObserver(bits), weight=MSEChannelWiseWeightObserver(bits)), [images]
        ).db
        for bits in (8, 4)
    )
    assert eight > four + 15


@pytest.mark.peer
def test_onnx_has_the_same_integers(lenet: Any) -> None:
    onnx = pytest.importorskip("onnx")
    from polyreme.exporters.onnx import export_onnx

    model, (images, _), seen = lenet
    made = quantize_model(model, [seen[:64]])
    exported = onnx.load_from_string(export_onnx(made.traced.frozen()))
    kinds = [node.op_type for node in exported.graph.node]
    assert kinds.count("QuantizeLinear") == 3 and kinds.count("DequantizeLinear") == 6
    onnxruntime = pytest.importorskip("onnxruntime")
    # As it stands: where there are no dot products of bytes, its fused kernels add pairs of products in 16 bits, which overflow.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: images[:32]})
    # A sum at the middle between two integers may be rounded to either by another order of addition.
    assert np.abs(found - made(paddle.to_tensor(images[:32])).numpy()).max() < 0.02 * np.abs(found).max()


# --- the command


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    paddle.jit.save(net(), str(tmp_path / "net"), [paddle.static.InputSpec([None, 2, 8, 8], "float32", "x")])
    np.savez(tmp_path / "data.npz", x=np.concatenate(batches()))
    np.save(tmp_path / "data.npy", np.concatenate(batches()))
    return tmp_path


def test_the_command_writes_a_model_and_prints_a_line_per_layer(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["quantize", str(saved / "net"), "--data", str(saved / "data.npz"), "--batch", "5", "-o", str(saved / "small")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["conv", "table", "head", "depthwise", "up"]
    assert lines[6].startswith("3 layers in eight bits, 2 in floats; their weights take ") and lines[7].startswith(
        "on 12 samples: same top-1 "
    )
    x = paddle.to_tensor(np.load(saved / "data.npz")["x"])
    exact, small = (paddle.jit.load(str(saved / name))(x).numpy() for name in ("net", "small"))
    assert 0 < np.abs(exact - small).max() < 0.05 * np.abs(exact).max()


def test_the_command_compiles_a_library_and_reports_as_json(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--data",
        str(saved / "data.npy"),
        "--check",
        str(saved / "data.npz"),
        "--activation",
        "hist",
        "--weights",
        "mse",
        "--skip",
        "head",
        "--symmetric",
        "--json",
    ]
    assert run_command(["quantize", str(saved / "net"), *arguments, "-o", str(saved / "small.so")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in report["layers"]] == ["conv", "table"] and report["agreement"]["samples"] == 12
    assert all(row["zero_point"] == 0 for row in report["layers"])
    assert paddle.load_compiled(saved / "small.so")(np.load(saved / "data.npy")).shape == (12, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["net", "--data", "none.npz"], "there is no file"),
        (["net", "--data", "text.npz"], "error[E0003]: expected arrays written by numpy.save or numpy.savez but cannot read"),
        (
            ["net", "--data", "data.npz", "--skip", "hea"],
            r"error[E1102]: expected the names of layers in skip (conv, table, head) but got "
        "'hea'; did you mean 'head'?",
        ),
        (["fixed", "--data", "data.npz"], "error[E1101]: expected at least 64 samples, a batch of the model, in"),
        (["two", "--data", "data.npy"], "error[E1101]: expected an archive (.npz) with arrays for x, y but"),
        (["two", "--data", "data.npz"], "error[E1101]: expected arrays for x, y in"),
        (["two", "--data", "uneven.npz"], "error[E1101]: expected as many samples for each input in"),
        (["net", "--data", "wrong.npz"], "expected the input 'x' to be float32[N, 2, 8, 8] but got"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_on_the_command_line_are_told(
    saved: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    if arguments[0] == "fixed":
        paddle.jit.save(net(), "fixed", [paddle.static.InputSpec([64, 2, 8, 8], "float32", "x")])
    elif arguments[0] == "two":

        class Sum(nn.Layer):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Linear(8, 2)

            def forward(self, x: Any, y: Any) -> Any:
                return self.inner(x) + self.inner(y)

        paddle.jit.save(Sum(), "two", [paddle.static.InputSpec([None, 8], "float32", name) for name in "xy"])
    np.savez("uneven.npz", x=np.ones((3, 8), "float32"), y=np.ones((4, 8), "float32"))
    Path("text.npz").write_text("no arrays")
    np.savez("wrong.npz", x=np.ones((3, 2, 8, 9), "float32"))
    assert run_command(["quantize", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_quantised_model_is_called_in_integers_whatever_its_weights_become(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyreme.lowering.link import workers
    from polyreme.lowering.transforms import integer_products

    # Where it can be counted.
    monkeypatch.setattr(workers, "_may_fork", lambda: False)
    rewritten: list[Any] = []
    rewrite = integer_products._rewrite
    monkeypatch.setattr(integer_products, "_rewrite", lambda op, *rest: rewritten.append(op) or rewrite(op, *rest))
    monkeypatch.setenv("POLYREME_CACHE", "off")
    made = quantize_model(net(), batches())
    x = paddle.to_tensor(random.standard_normal((4, 2, 8, 8)).astype("float32"))
    rewritten.clear()
    # The very code that was run for the report.
    first = made(x).numpy()
    assert not rewritten
    state = made.state_dict()
    state["table.weight_int8"] = paddle.to_tensor(-state["table.weight_int8"].numpy())
    made.set_state_dict(state)
    second = made(x).numpy()
    assert len(rewritten) == 3, "the products are compiled in integers again"
    wanted = evaluate(made.traced.frozen(), [x.numpy()])[0]
    most = 0.03 * np.abs(wanted).max()
    np.testing.assert_allclose(second, wanted, atol=most)
    assert np.abs(second - first).max() > 10 * most
    with paddle.no_grad():
        np.testing.assert_array_equal(made(x).numpy(), second)
    # With weights as arguments they are the same numbers, but for what is rounded the other way.
    made.train()
    np.testing.assert_allclose(made(x).numpy(), wanted, atol=most)
    assert len(rewritten) == 3
    made.eval()
    np.testing.assert_array_equal(made(x).numpy(), second)
