"""Batch norms made part of the layers before them, so that weights are rounded to eight bits as they will be used."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import nn
from polyreme.dialects import nn as ops
from polyreme.jit.saving import trace_model
from polyreme.nn.layer import Layer
from polyreme.parameter import Parameter
from polyreme.tensor import Tensor

__all__ = ["fuse_conv_bn"]

_PRODUCTS = (nn.Conv1D, nn.Conv2D, nn.Conv3D, nn.Linear)
_NORMS = (nn.BatchNorm, nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D, nn.SyncBatchNorm)


def fuse_conv_bn(model: Layer, input_spec: Sequence[Any] | None = None, inplace: bool = False) -> Layer:
    """A copy of `model`, or with `inplace` itself, whose batch norms behind a convolution or Linear are part of it; an Identity stands in
    their place.

    Which norm is behind which layer is found by tracing the model for `input_spec`: what a `forward` does counts, not in which order layers
    are held. A layer whose result is used twice, or that runs twice, keeps its norm. The model must be in evaluation mode, and gives the
    same results up to rounding.
    """
    if model.training:
        raise AssertionError("Batch norms of a model in training cannot be fused. Please set evaluation mode by model.eval().")
    made = model if inplace else copy.deepcopy(model)
    traced = trace_model(made, input_spec)
    layers = dict(made.named_sublayers())
    owners = {id(tensor): name for name, layer in layers.items() for tensor in layer._parameters.values() if tensor is not None}
    argument = {
        arg: owners.get(id(source)) for arg, source in zip(traced.func.args, traced.sources, strict=True) if isinstance(source, Tensor)
    }
    for op in traced.func.block:
        if not isinstance(op, ops.BatchNorm):
            continue
        product = op.x.producer(ops.Conv) or op.x.producer(ops.Linear)
        if product is None or len(op.x.uses) != 1 or len(product.weight.uses) != 1 or len(op.mean.uses) != 1:
            continue
        before, norm = argument.get(product.weight), argument.get(op.mean)
        if before is None or norm is None or type(layers[before]) not in _PRODUCTS or type(layers[norm]) not in _NORMS:
            continue
        _fold(layers[before], layers[norm])
        _replace(made, norm, nn.Identity())
    return made


def _fold(layer: Any, norm: Any) -> None:
    """layer(x; W, c) then norm(m, v, w, b)  ->  layer(x; W s, (c - m) s + b) with s = w / sqrt(v + epsilon), in float64"""
    numbers = [
        None if t is None else t.numpy().astype(np.float64)
        for t in (layer.weight, layer.bias, norm._mean, norm._variance, norm.weight, norm.bias)
    ]
    weight, bias, mean, variance, scale, shift = numbers
    assert weight is not None and mean is not None and variance is not None
    s = (1.0 if scale is None else scale) / np.sqrt(variance + norm._epsilon)
    along = s if isinstance(layer, nn.Linear) else s.reshape(-1, *(1,) * (weight.ndim - 1))
    dtype = layer.weight._value.dtype
    layer.weight.set_value((weight * along).astype(dtype))
    folded = (((0.0 if bias is None else bias) - mean) * s + (0.0 if shift is None else shift)).astype(dtype)
    if layer.bias is None:
        layer.bias = Parameter(Tensor(folded), name=f"{layer.full_name()}.b_0")
    else:
        layer.bias.set_value(folded)


def _replace(model: Layer, path: str, made: Layer) -> None:
    parent, _, name = path.rpartition(".")
    holder = model
    for part in parent.split(".") if parent else []:
        holder = holder._sub_layers[part]
    holder._sub_layers[name] = made
