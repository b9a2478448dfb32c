"""The models that are timed: each is built by the same code from Paddle or from Polyreme, with weights drawn by numpy.

Both libraries have the same API, so `build(paddle)` takes either module. ONNX files are written from the weights directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Model:
    """`build(paddle)` gives a Layer; `shape` is that of one input without the batch."""

    name: str
    shape: tuple[int, ...]
    build: Callable[[Any], Any]
    onnx_nodes: Callable[[Any], list[Any]]


def lenet(paddle: Any) -> Any:
    """LeNet as in `paddle.vision.models`, for images of 1x28x28."""
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, stride=1, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2),
        nn.Conv2D(6, 16, 5, stride=1, padding=0), nn.ReLU(), nn.MaxPool2D(2, 2),
        nn.Flatten(), nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10),
    )  # fmt: skip


def mlp(paddle: Any) -> Any:
    """784-512-512-10 with ReLU between."""
    nn = paddle.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def _linear(helper: Any, x: str, y: str, layer: str) -> list[Any]:
    return [helper.make_node("Gemm", [x, f"{layer}.weight", f"{layer}.bias"], [y])]


def _lenet_nodes(helper: Any) -> list[Any]:
    node = helper.make_node
    return [
        node("Conv", ["x", "0.weight", "0.bias"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["c", "3.weight", "3.bias"], ["d"], kernel_shape=[5, 5]),
        node("Relu", ["d"], ["e"]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["f"], ["g"]),
        *_linear(helper, "g", "h", "7"),
        *_linear(helper, "h", "i", "8"),
        *_linear(helper, "i", "y", "9"),
    ]


def _mlp_nodes(helper: Any) -> list[Any]:
    node = helper.make_node
    return [
        *_linear(helper, "x", "a", "0"),
        node("Relu", ["a"], ["b"]),
        *_linear(helper, "b", "c", "2"),
        node("Relu", ["c"], ["d"]),
        *_linear(helper, "d", "y", "4"),
    ]


MODELS = {
    m.name: m
    for m in (
        Model("LeNet", (1, 28, 28), lenet, _lenet_nodes),
        Model("MLP 784-512-512-10", (784,), mlp, _mlp_nodes),
    )
}


def weights(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Any]:
    """Weights by name, scaled so that activations keep their size."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for name, shape in shapes.items():
        fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:])) if len(shape) > 1 else 100
        drawn[name] = (rng.standard_normal(shape) * fan_in**-0.5).astype("float32")
    return drawn


def inputs(model: Model, batch: int) -> Any:
    """One batch of random input."""
    return np.random.default_rng(1).standard_normal((batch, *model.shape)).astype("float32")


def with_weights(model: Model, paddle: Any) -> Any:
    """The Layer in evaluation mode, holding `weights`."""
    layer = model.build(paddle)
    drawn = weights({name: tuple(p.shape) for name, p in layer.state_dict().items()})
    layer.set_state_dict({name: paddle.to_tensor(value) for name, value in drawn.items()})
    layer.eval()
    return layer


def write_onnx(model: Model, shapes: dict[str, tuple[int, ...]], path: Path) -> None:
    """The model with the same weights as an ONNX file with a free batch size."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    initializers = [numpy_helper.from_array(value, name) for name, value in weights(shapes).items()]
    graph = helper.make_graph(
        model.onnx_nodes(helper),
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *model.shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
        initializers,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
