"""Export to ONNX: what onnxruntime computes from it is what the program means."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli.models import find_model
from polyreme.ir.evaluate import evaluate

ROOT = Path(__file__).parents[2]


def run(data: bytes, arrays: list[Any]) -> list[Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), arrays, strict=True)))


def check(module: Any, *arrays: Any) -> None:
    pytest.importorskip("onnx")
    from polyreme.exporters.onnx import export_onnx

    for got, expected in zip(run(export_onnx(module), list(arrays)), evaluate(module, list(arrays)), strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.peer
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("examples/lenet.py:LeNet", (3, 1, 28, 28)),
        ("examples/mlp.py:MLP", (3, 1, 28, 28)),
        ("tests/fixtures/models/pir/mobilenet.json", (2, 3, 24, 24)),
        ("tests/fixtures/models/legacy/lenet.pdmodel", None),
    ],
)
def test_whole_models(model: str, shape: tuple[int, ...] | None) -> None:
    path = str(ROOT / model)
    module = find_model(path).module(freeze=True)
    if shape is None:
        shape = tuple(d if isinstance(d, int) else 2 for d in module.function().args[0].type.shape)
    check(module, np.random.default_rng(0).standard_normal(shape).astype("float32"))


@pytest.mark.peer
def test_single_functions() -> None:
    F = paddle.nn.functional
    cases = {
        "activations": lambda x: F.silu(x) + F.leaky_relu(x) * paddle.exp(-x * x) - paddle.rsqrt(x * x + 1),
        "reductions": lambda x: x.sum(1, keepdim=True) + x.mean() + x.max(2, keepdim=True) - x.min(),
        "views": lambda x: paddle.concat([x.transpose([0, 2, 1]).reshape([2, 12]), x[:, 1:3, ::2].flatten(1)], 1),
        "softmax": lambda x: F.softmax(x, 1) + F.log_softmax(x, -1),
        "products": lambda x: paddle.matmul(x, x, transpose_y=True),
        "normalisation": lambda x: (
            F.layer_norm(x, 4) + F.instance_norm(x) + F.group_norm(x, 3) + F.batch_norm(x, *[paddle.ones([3]) * 2] * 3)
        ),
        "channels at the end": lambda x: F.batch_norm(x, *[paddle.ones([4]) * 2] * 2, data_format="NLC"),
        "average pooling": lambda x: F.avg_pool2d(x.unsqueeze(1), 2, 1, 1, exclusive=False) + F.avg_pool2d(x.unsqueeze(1), 2, 1, 1),
        "grouped convolution": lambda x: F.conv1d(x, paddle.ones([3, 1, 2]), stride=1, padding=[1, 0], groups=3),
        "choices": lambda x: paddle.where(x > 0.5, x, paddle.zeros_like(x)),
    }
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
    from polyreme.compiled.inspection import model_module

    for function in cases.values():
        spec = [paddle.static.InputSpec([2, 3, 4], "float32", "x")]
        check(model_module(paddle.jit.to_static(function, input_spec=spec), spec, True), x)


@pytest.mark.peer
def test_an_op_without_a_rule_is_named() -> None:
    pytest.importorskip("onnx")
    from polyreme.compiled.inspection import model_module
    from polyreme.exporters.onnx import ExportError, export_onnx

    spec = [paddle.static.InputSpec([4], "float32", "x")]
    module = model_module(paddle.jit.to_static(lambda x: paddle.argsort(x, 0), input_spec=spec), spec, True)
    with pytest.raises(ExportError, match="no rule for 'nn.argsort'"):
        export_onnx(module)
