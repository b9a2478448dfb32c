"""Programs of the functions of the API, for the tests that write them as Paddle's bytes: each maps `x`, float32 [2, 6], to a variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import polyreme as paddle
import polyreme.nn.functional as F
from polyreme import static

__all__ = ["CASES", "NOT_IN_185", "WITHOUT_GRADIENTS", "X"]

_DRAWS = np.random.RandomState(0)
X = _DRAWS.randn(2, 6).astype("float32")


def _numbers(*shape: int) -> Any:
    values = np.random.RandomState(sum(shape)).randn(*shape) * 0.4
    return static.create_parameter(
        list(shape), "float32", default_initializer=paddle.nn.initializer.Assign(values.astype("float32"))
    )


def _dense(x: Any, activation: str | None = None) -> Any:
    values = np.random.RandomState(5).randn(6, 4).astype("float32")
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(values))
    return static.nn.fc(x, 4, activation=activation, weight_attr=attr)


def _of_one(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(paddle, name)(F.sigmoid(x) * 0.9)


def _activation(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(F, name)(x)


def _image(x: Any) -> Any:
    return paddle.reshape(x, [1, 1, 2, 6])


_FUNCTIONS = (
    "abs acos asin atan ceil cos cosh exp floor log log1p log2 log10 "
    "reciprocal rsqrt sign sin sinh sqrt square tan tanh erf expm1 trunc round"
)
_ACTIVATIONS = "sigmoid relu gelu leaky_relu silu softplus softmax log_softmax elu selu hardswish mish swish relu6 hardsigmoid softsign"

CASES: dict[str, Callable[[Any], Any]] = {
    **{name: _of_one(name) for name in _FUNCTIONS.split()},
    **{name: _activation(name) for name in _ACTIVATIONS.split()},
    "dense": _dense,
    "dense with relu": lambda x: _dense(x, "relu"),
    "linear of rank 3": lambda x: F.linear(paddle.reshape(x, [2, 2, 3]), _numbers(3, 5), _numbers(5)),
    "matmul": lambda x: paddle.matmul(x, _numbers(6, 3)),
    "matmul transposed": lambda x: paddle.matmul(x, _numbers(3, 6), transpose_y=True),
    "matmul of stacks": lambda x: paddle.matmul(paddle.reshape(x, [2, 2, 3]), paddle.reshape(x, [2, 3, 2])),
    "matmul with a vector": lambda x: paddle.matmul(x, _numbers(6)),
    "layer norm": lambda x: F.layer_norm(x, [6], _numbers(6), _numbers(6)),
    "layer norm without weights": lambda x: F.layer_norm(x, [6]),
    "group norm": lambda x: F.group_norm(paddle.reshape(x, [1, 2, 2, 3]), 2, weight=_numbers(2), bias=_numbers(2)),
    "instance norm": lambda x: F.instance_norm(paddle.reshape(x, [1, 2, 2, 3])),
    "cross entropy": lambda x: F.cross_entropy(x, paddle.zeros([2], "int64")),
    "squared error": lambda x: F.mse_loss(x, x * 2),
    "slice": lambda x: x[:, 1:3],
    "slice from the end": lambda x: x[:, -2:],
    "slice with steps": lambda x: x[:, ::2],
    "row": lambda x: x[0],
    "stack": lambda x: paddle.stack([x, x * 2]),
    "split": lambda x: paddle.split(x, 2, axis=1)[1],
    "concat": lambda x: paddle.concat([x, x + 1], 1),
    "pad": lambda x: F.pad(_image(x), [1, 1, 1, 0], value=2.0),
    "embedding": lambda x: F.embedding(paddle.full([3], 1, "int64"), _numbers(4, 3)),
    "gather": lambda x: paddle.gather(x, paddle.full([3], 1, "int64")),
    "gather columns": lambda x: paddle.gather(x, paddle.full([3], 1, "int64"), axis=1),
    "largest two": lambda x: paddle.topk(x, 2)[0],
    "place of the largest": lambda x: paddle.argmax(x, 1),
    "one hot": lambda x: F.one_hot(paddle.zeros([2], "int64"), 3) * 1.0,
    "clip": lambda x: paddle.clip(x, -1, 1),
    "scale": lambda x: x * 2 + 1,
    "negative": lambda x: -x,
    "power": lambda x: paddle.pow(F.sigmoid(x), 2.5),
    "quotient": lambda x: x / (x * x + 1),
    "greater of two": lambda x: paddle.maximum(x, -x),
    "choice": lambda x: paddle.where(x > 0, x, x * 0.1),
    "comparison": lambda x: (x > 0).astype("float32"),
    "logic": lambda x: paddle.logical_and(x > 0, x < 1).astype("float32"),
    "cast": lambda x: (x * 10).astype("int32"),
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: paddle.sum(x, 0),
    "sum that keeps axes": lambda x: paddle.sum(x, 1, keepdim=True),
    "largest": lambda x: paddle.max(x, 1),
    "product": lambda x: paddle.prod(x, 1),
    "mean": lambda x: paddle.mean(x),
    "deviation": lambda x: paddle.std(x),
    "log sum exp": lambda x: paddle.logsumexp(x, 1),
    "running sum": lambda x: paddle.cumsum(x, 1),
    "flip": lambda x: paddle.flip(x, [1]),
    "transpose": lambda x: paddle.transpose(x, [1, 0]),
    "new axis": lambda x: paddle.unsqueeze(x, 1),
    "tile": lambda x: paddle.tile(x, [2, 1]),
    "expand": lambda x: paddle.expand(x, [3, 2, 6]),
    "constant": lambda x: x + paddle.full([6], 3.0),
    "counting": lambda x: x * paddle.arange(6).astype("float32"),
    "zeros": lambda x: x + paddle.zeros_like(x),
    "dropout that is off": lambda x: F.dropout(x, 0.3, training=False),
    "convolution": lambda x: F.conv2d(_image(x), _numbers(2, 1, 2, 2), _numbers(2)),
    "convolution of rows": lambda x: F.conv1d(paddle.reshape(x, [1, 2, 6]), _numbers(3, 2, 2), _numbers(3), padding=1),
    "uneven padding": lambda x: F.conv2d(_image(x), _numbers(2, 1, 2, 2), padding=[[0, 0], [0, 0], [1, 0], [0, 2]], stride=[1, 2]),
    "transposed convolution": lambda x: F.conv2d_transpose(_image(x), _numbers(1, 2, 2, 2), stride=2),
    "largest of windows": lambda x: F.max_pool2d(_image(x), 2),
    "mean of windows": lambda x: F.avg_pool2d(_image(x), 2),
    "mean of windows of rows": lambda x: F.avg_pool1d(paddle.reshape(x, [1, 2, 6]), 2),
}


def _control(x: Any) -> Any:
    """Branches in a branch and in a loop, whose carried values change places."""
    y = static.nn.cond(x.sum() > 0, lambda: x * 2 + 1, lambda: static.nn.cond(x.mean() > -5, lambda: x - 1, lambda: x * x))

    def body(i: Any, y: Any, z: Any) -> list[Any]:
        return [i + 1, z, y * 0.5 + static.nn.cond(i > 1, lambda: x, lambda: x * 3)]

    end = paddle.full([1], 3, "int64")
    return static.nn.while_loop(lambda i, y, z: i < end, body, [paddle.zeros([1], "int64"), y, x])[2]


WITHOUT_GRADIENTS = {"branches and loops": _control}
# What 1.8.5 reads but cannot run: it lacks the operator, has no tensors of rank 0, or broadcasts otherwise.
NOT_IN_185 = {
    "clip", "cosh", "elu", "expand", "expm1", "hardsigmoid", "hardswish", "log10", "log2", "log_softmax", "matmul with a vector", "relu6",
    "selu", "silu", "sinh", "tan", "tile", "trunc", "one hot", "choice", "deviation", "group norm", "counting", "swish", "largest two",
}  # fmt: skip
