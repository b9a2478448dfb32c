"""`nce`: noise-contrastive estimation, a loss over few of many classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme import math as functions
from polyreme.ir.types import TensorType, f32
from polyreme.nn import functional as F
from polyreme.nn.functional.common import embedding_by_rows
from polyreme.sizes import plain_size
from polyreme.static.mode import in_dynamic_mode
from polyreme.static.nn.dense import read_by_rows
from polyreme.static.nn.parameters import known_size, layer_name, parameter
from polyreme.tensor import Tensor

__all__ = ["nce"]


def nce(
    input: Tensor,
    label: Tensor,
    num_total_classes: int,
    sample_weight: Tensor | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Tensor:
    """The loss of each row of `input` [N, C] that tells its classes `label` [N, T] from `num_neg_samples` classes drawn for it, over the
    number of these and one: [N, 1].

    `sampler` says how these are drawn: "uniform", "log_uniform" (class c with probability log((c + 2) / (c + 1)) / log(classes + 1)) or
    "custom_dist", with the probabilities in that list. Draws are those of the program's generator, or of `seed` if that is not 0. With
    `is_sparse` the gradient of the weight is that of the rows of these classes.
    """
    layer = layer_name("nce", name)
    weight = parameter(layer, "w", [num_total_classes, known_size(input, 1, "nce", "number of columns")], param_attr, input.dtype)
    bias = parameter(layer, "b", [num_total_classes, 1], bias_attr, input.dtype)
    count = 10 if num_neg_samples is None else int(num_neg_samples)
    return noise_contrastive(input, label, weight, bias, sample_weight, num_total_classes, count, sampler, custom_dist, seed, is_sparse)


def noise_contrastive(
    input: Tensor, label: Tensor, weight: Tensor, bias: Tensor | None, sample_weight: Tensor | None, num_total_classes: int, count: int,
    sampler: str, custom_dist: Sequence[float] | None, seed: int, is_sparse: bool,
) -> Tensor:  # fmt: skip
    """As `nce`, of a `weight` [classes, C], perhaps a `bias` [classes, 1], and `count` draws for each row."""
    if sampler not in ("uniform", "log_uniform", "custom_dist"):
        raise ValueError(f"The sampler of nce should be uniform, log_uniform or custom_dist but got {sampler!r}")
    if sampler == "custom_dist":
        assert custom_dist is not None, "custom_dist should not be None when sampler is custom_dist"
        if len(custom_dist) != num_total_classes:
            raise ValueError(f"nce expected {num_total_classes} probabilities in custom_dist but got {len(custom_dist)}")
    true = known_size(label, 1, "nce", "number of labels")
    probabilities = _probabilities(sampler, num_total_classes, custom_dist)
    drawn = _draws(probabilities, label.shape[0], count, seed).astype(label.dtype)
    classes = functions.concat([label, drawn], 1).detach()
    if is_sparse:
        rows = embedding_by_rows(classes, weight, None) if in_dynamic_mode() else read_by_rows(classes, weight)
    else:
        rows = F.embedding(classes, weight)
    scores = functions.sum(rows * functions.unsqueeze(input, 1), -1)
    if bias is not None:
        scores = scores + functions.squeeze(F.embedding(classes, bias), -1)
    share = functions.to_tensor(probabilities.astype(np.float32) * np.float32(count))
    noise = functions.gather(share, functions.reshape(classes, [-1])).reshape([-1, true + count]).astype(input.dtype)
    chance = F.sigmoid(scores)
    true_part, noise_part = chance[:, :true], noise[:, true:]
    found = functions.sum(-functions.log(true_part / (true_part + noise[:, :true])), 1, keepdim=True)
    missed = functions.sum(-functions.log(noise_part / (chance[:, true:] + noise_part)), 1, keepdim=True)
    cost = found + missed
    cost = cost if sample_weight is None else cost * functions.reshape(sample_weight, [-1, 1])
    return cost / (count + 1.0)


def _probabilities(sampler: str, classes: int, given: Sequence[float] | None) -> np.ndarray[Any, Any]:
    """How likely each class is drawn."""
    if sampler == "uniform":
        return np.full(classes, 1.0 / classes)
    if sampler == "log_uniform":
        at = np.arange(classes)
        return np.log((at + 2.0) / (at + 1.0)) / math.log(classes + 1.0)
    return np.asarray(given, np.float64)


def _draws(probabilities: np.ndarray[Any, Any], rows: Any, count: int, seed: int) -> Tensor:
    """Classes for each row, by inverting the cumulative distribution at uniform numbers: int64 [rows, count]."""
    levels = functions.to_tensor(np.cumsum(probabilities)[:-1].astype(np.float32))
    points = _uniform(rows, count, seed)
    return functions.sum((functions.unsqueeze(points, -1) >= levels).astype("int64"), -1)


def _uniform(rows: Any, count: int, seed: int) -> Tensor:
    """Numbers in [0, 1), float32 [rows, count]; with a seed the same ones in every run."""
    recorder = dispatch.active_trace()
    if seed and recorder is not None:
        shape = (plain_size(rows), count)
        attributes = {"shape": shape, "min": 0.0, "max": 1.0, "dtype": "float32", "seed": seed}
        made = recorder.operator("uniform_random", {}, {"Out": TensorType(shape, f32)}, attributes)
        if made is not None:
            drawn: Tensor = made["Out"]
            return drawn
    return functions.uniform([rows, count], "float32", 0.0, 1.0, seed)
