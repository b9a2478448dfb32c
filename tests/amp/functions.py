"""Functions of the API whose results' dtypes under `auto_cast` are recorded from Paddle 3.3.1 (`recorded.json`, by `record.py`).

Each takes the package and inputs of one dtype: `x` and `y` of shape [4, 4], positive; `v` of [4]; `image` of [2, 4, 8, 8]; `labels`,
int64 of [4]. A test runs them here, with the flag that lets casts take effect on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

LEVELS: dict[str, dict[str, Any]] = {
    "O1": {"level": "O1"},
    "O2": {"level": "O2"},
    "O2 without promotion": {"level": "O2", "use_promote": False},
    "OD": {"level": "OD"},
}
DTYPES = ("float16", "bfloat16")
SHAPES = {
    "x": [4, 4], "y": [4, 4], "v": [4], "image": [2, 4, 8, 8], "kernel": [4, 4, 3, 3], "kernel1": [4, 4, 3], "kernel3": [4, 4, 3, 3, 3],
    "sequence": [2, 4, 8], "volume": [2, 4, 4, 4, 4], "table": [4, 4], "heads": [2, 4, 2, 8],
}  # fmt: skip

_UNARY = (
    "exp expm1 log log2 log10 log1p sqrt rsqrt reciprocal square abs sin cos tan asin acos atan sinh cosh asinh acosh atanh erf floor ceil "
    "round sign neg tanh sigmoid cumsum sum mean max min prod std var logsumexp norm t trace diag tril triu flatten argmax argsort sort "
    "median amax amin nonzero isnan isfinite ones_like zeros_like clone logit trunc frac any_of all_of numel "
    "nan_to_num"
).split()
_BINARY = (
    "add subtract multiply divide maximum minimum matmul pow_of mod floor_divide atan2 equal less_than dot_of mm outer inner dist cross "
    "kron hypot bmm_of addmm_of"
).split()
_ACTIVATIONS = (
    "relu relu6 gelu silu swish mish elu celu selu leaky_relu softmax log_softmax softplus softsign sigmoid log_sigmoid tanhshrink "
    "hardswish hardsigmoid hardtanh hardshrink softshrink thresholded_relu glu normalize"
).split()
_LOSSES = (
    "mse_loss l1_loss smooth_l1_loss square_error_cost binary_cross_entropy_with_logits kl_div soft_margin_loss poisson_nll_loss"
).split()


def _unary(name: str) -> Callable[..., Any]:
    if name in ("any_of", "all_of"):
        return lambda paddle, i: getattr(paddle, name[:3])(i.x > 1)
    return lambda paddle, i: getattr(paddle, name)(i.x)


def _binary(name: str) -> Callable[..., Any]:
    special: dict[str, Callable[..., Any]] = {
        "pow_of": lambda paddle, i: paddle.pow(i.x, i.y),
        "dot_of": lambda paddle, i: paddle.dot(i.v, i.v),
        "bmm_of": lambda paddle, i: paddle.bmm(i.sequence, i.sequence.transpose([0, 2, 1])),
        "addmm_of": lambda paddle, i: paddle.addmm(i.x, i.x, i.y),
        "cross": lambda paddle, i: paddle.cross(i.x[:3], i.y[:3], axis=0),
    }
    return special.get(name, lambda paddle, i: getattr(paddle, name)(i.x, i.y))


def _functional(name: str, *arguments: str) -> Callable[..., Any]:
    return lambda paddle, i: getattr(paddle.nn.functional, name)(*[getattr(i, a) for a in arguments])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _unary(name) for name in _UNARY},
    **{name: _binary(name) for name in _BINARY},
    **{f"F.{name}": _functional(name, "x") for name in _ACTIVATIONS},
    **{f"F.{name}": _functional(name, "x", "y") for name in _LOSSES},
    "x ** 2": lambda paddle, i: i.x**2,
    "2 ** x": lambda paddle, i: 2**i.x,
    "x ** 0.5": lambda paddle, i: i.x**0.5,
    "1 / x": lambda paddle, i: 1 / i.x,
    "x + 1": lambda paddle, i: i.x + 1,
    "x * 2.5": lambda paddle, i: i.x * 2.5,
    "x @ y": lambda paddle, i: i.x @ i.y,
    "x.T": lambda paddle, i: i.x.T,
    "x[1]": lambda paddle, i: i.x[1],
    "reshape": lambda paddle, i: i.x.reshape([2, 8]),
    "transpose": lambda paddle, i: i.x.transpose([1, 0]),
    "concat": lambda paddle, i: paddle.concat([i.x, i.y]),
    "stack": lambda paddle, i: paddle.stack([i.x, i.y]),
    "split": lambda paddle, i: paddle.split(i.x, 2),
    "where": lambda paddle, i: paddle.where(i.x > 1, i.x, i.y),
    "clip": lambda paddle, i: paddle.clip(i.x, 0.0, 1.0),
    "scale": lambda paddle, i: paddle.scale(i.x, 2.0, 1.0),
    "lerp": lambda paddle, i: paddle.lerp(i.x, i.y, 0.5),
    "gather": lambda paddle, i: paddle.gather(i.x, i.labels),
    "index_select": lambda paddle, i: paddle.index_select(i.x, i.labels),
    "scatter": lambda paddle, i: paddle.scatter(i.x, i.labels, i.y),
    "take_along_axis": lambda paddle, i: paddle.take_along_axis(i.x, i.labels.reshape([4, 1]), 1),
    "topk": lambda paddle, i: paddle.topk(i.x, 2)[0],
    "mean along an axis": lambda paddle, i: paddle.mean(i.x, axis=0),
    "sum along an axis": lambda paddle, i: paddle.sum(i.x, axis=0, keepdim=True),
    "norm of order 1": lambda paddle, i: paddle.norm(i.x, p=1, axis=0),
    "norm of order 2 along an axis": lambda paddle, i: paddle.norm(i.x, p=2, axis=0),
    "pow by a number": lambda paddle, i: paddle.pow(i.x, 3.0),
    "einsum": lambda paddle, i: paddle.einsum("ij,jk->ik", i.x, i.y),
    "multiplex of a sum": lambda paddle, i: paddle.add_n([i.x, i.y]),
    "F.linear": lambda paddle, i: paddle.nn.functional.linear(i.x, i.y),
    "F.linear with a bias": lambda paddle, i: paddle.nn.functional.linear(i.x, i.y, i.v),
    "F.bilinear": lambda paddle, i: paddle.nn.functional.bilinear(i.x, i.y, i.sequence[:, :, :4]),
    "F.conv1d": lambda paddle, i: paddle.nn.functional.conv1d(i.sequence, i.kernel1),
    "F.conv2d": lambda paddle, i: paddle.nn.functional.conv2d(i.image, i.kernel),
    "F.conv2d with a bias": lambda paddle, i: paddle.nn.functional.conv2d(i.image, i.kernel, i.v),
    "F.conv2d depthwise": lambda paddle, i: paddle.nn.functional.conv2d(i.image, i.kernel[:, :1], groups=4),
    "F.conv3d": lambda paddle, i: paddle.nn.functional.conv3d(i.volume, i.kernel3),
    "F.conv2d_transpose": lambda paddle, i: paddle.nn.functional.conv2d_transpose(i.image, i.kernel),
    "F.conv1d_transpose": lambda paddle, i: paddle.nn.functional.conv1d_transpose(i.sequence, i.kernel1),
    "F.max_pool2d": lambda paddle, i: paddle.nn.functional.max_pool2d(i.image, 2),
    "F.max_pool2d with positions": lambda paddle, i: paddle.nn.functional.max_pool2d(i.image, 2, return_mask=True),
    "F.avg_pool2d": lambda paddle, i: paddle.nn.functional.avg_pool2d(i.image, 2),
    "F.adaptive_avg_pool2d": lambda paddle, i: paddle.nn.functional.adaptive_avg_pool2d(i.image, 1),
    "F.adaptive_max_pool2d": lambda paddle, i: paddle.nn.functional.adaptive_max_pool2d(i.image, 2),
    "F.batch_norm": lambda paddle, i: paddle.nn.functional.batch_norm(i.image, i.stat, i.stat2, i.scale, i.scale),
    "F.batch_norm in training": lambda paddle, i: paddle.nn.functional.batch_norm(
        i.image, i.stat, i.stat2, i.scale, i.scale, training=True
    ),
    "F.layer_norm": lambda paddle, i: paddle.nn.functional.layer_norm(i.x, 4, i.v, i.v),
    "F.layer_norm without weights": lambda paddle, i: paddle.nn.functional.layer_norm(i.x, 4),
    "F.layer_norm of float32 weights": lambda paddle, i: paddle.nn.functional.layer_norm(i.x, 4, i.scale, i.scale),
    "F.group_norm": lambda paddle, i: paddle.nn.functional.group_norm(i.image, 2, weight=i.v, bias=i.v),
    "F.instance_norm": lambda paddle, i: paddle.nn.functional.instance_norm(i.image),
    "F.local_response_norm": lambda paddle, i: paddle.nn.functional.local_response_norm(i.image, 3),
    "F.dropout": lambda paddle, i: paddle.nn.functional.dropout(i.x, 0.5),
    "F.embedding": lambda paddle, i: paddle.nn.functional.embedding(i.labels, i.x),
    "F.prelu": lambda paddle, i: paddle.nn.functional.prelu(i.x, i.v),
    "F.pad": lambda paddle, i: paddle.nn.functional.pad(i.x, [1, 1, 1, 1]),
    "F.unfold": lambda paddle, i: paddle.nn.functional.unfold(i.image, 2),
    "F.pixel_shuffle": lambda paddle, i: paddle.nn.functional.pixel_shuffle(i.image, 2),
    "F.interpolate nearest": lambda paddle, i: paddle.nn.functional.interpolate(i.image, [4, 4], mode="nearest"),
    "F.interpolate bilinear": lambda paddle, i: paddle.nn.functional.interpolate(i.image, [4, 4], mode="bilinear"),
    "F.interpolate bicubic": lambda paddle, i: paddle.nn.functional.interpolate(i.image, [4, 4], mode="bicubic"),
    "F.cosine_similarity": lambda paddle, i: paddle.nn.functional.cosine_similarity(i.x, i.y),
    "F.cross_entropy": lambda paddle, i: paddle.nn.functional.cross_entropy(i.x, i.labels),
    "F.cross_entropy of each": lambda paddle, i: paddle.nn.functional.cross_entropy(i.x, i.labels, reduction="none"),
    "F.softmax_with_cross_entropy": lambda paddle, i: paddle.nn.functional.softmax_with_cross_entropy(i.x, i.labels.reshape([4, 1])),
    "F.nll_loss": lambda paddle, i: paddle.nn.functional.nll_loss(i.x, i.labels),
    "F.binary_cross_entropy": lambda paddle, i: paddle.nn.functional.binary_cross_entropy(i.x * 0.1, i.y * 0.1),
    "F.log_loss": lambda paddle, i: paddle.nn.functional.log_loss(i.x[:, :1] * 0.1, i.y[:, :1] * 0.1),
    "F.margin_ranking_loss": lambda paddle, i: paddle.nn.functional.margin_ranking_loss(i.x, i.y, i.y),
    "F.triplet_margin_loss": lambda paddle, i: paddle.nn.functional.triplet_margin_loss(i.x, i.y, i.x),
    "F.cosine_embedding_loss": lambda paddle, i: paddle.nn.functional.cosine_embedding_loss(i.x, i.y, i.labels),
    "F.scaled_dot_product_attention": lambda paddle, i: paddle.nn.functional.scaled_dot_product_attention(i.heads, i.heads, i.heads),
    "matmul of float32 and half": lambda paddle, i: paddle.matmul(i.x, i.wide),
    "add of float32 and half": lambda paddle, i: i.x + i.wide,
    "concat of float32 and half": lambda paddle, i: paddle.concat([i.x, i.wide]),
    "where of float32 and half": lambda paddle, i: paddle.where(i.x > 1, i.x, i.wide),
    "maximum of float32 and half": lambda paddle, i: paddle.maximum(i.x, i.wide),
    "cast to float32": lambda paddle, i: i.x.astype("float32"),
    "add of float64": lambda paddle, i: i.double + i.double,
    "matmul of float64": lambda paddle, i: paddle.matmul(i.double, i.double),
    "exp of float64": lambda paddle, i: paddle.exp(i.double),
    "a sum of integers": lambda paddle, i: i.labels.sum(),
}


def inputs(make: Callable[[str, list[int], str], Any], dtype: str) -> Any:
    """What the functions take, by `make(name, shape, dtype)`."""
    found = {name: make(name, shape, dtype) for name, shape in SHAPES.items()}
    found |= {name: make(name, [4], "float32") for name in ("stat", "stat2", "scale")}
    found |= {"labels": make("labels", [4], "int64"), "wide": make("wide", [4, 4], "float32"), "double": make("double", [4, 4], "float64")}
    return SimpleNamespace(**found)


def dtypes_of(made: Any) -> Any:
    """The names of the dtypes of a result, or of several."""
    if isinstance(made, (list, tuple)):
        return [dtypes_of(m) for m in made]
    return str(made.dtype).split(".")[-1]
