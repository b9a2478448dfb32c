"""A model and what it was quantised to, on the same data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from polyreme.jit.structure import flatten, is_tensor
from polyreme.lowering.transforms.insert_quantization import LeftOut
from polyreme.nn import Conv1D, Conv1DTranspose, Conv2D, Conv2DTranspose, Conv3D, Conv3DTranspose, Layer, Linear
from polyreme.nn.quant.format import ConvertibleQuantedLayer, LinearQuanter, LinearQuanterDequanter
from polyreme.quantization.batches import Batch, batches_of
from polyreme.quantization.program import QuantizedModel
from polyreme.quantization.reports import Agreement, Report, Signal, measure_agreement
from polyreme.quantization.reports import LayerReport as Row
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

__all__ = ["agreement", "report"]

_PRODUCTS = (Linear, Conv1D, Conv2D, Conv3D, Conv1DTranspose, Conv2DTranspose, Conv3DTranspose)


def agreement(model: Any, quantized: Any, data: Iterable[Any]) -> Agreement:
    """How near the answers of `quantized` are to those of `model` on `data`, whose batches are as `quantize_model` takes them; dicts are
    given as keywords.

    Both are called as they are, Layers in evaluation mode; so they may be Layers that `PTQ` converted, loaded models or functions.
    """
    batches = batches_of(data)
    return measure_agreement(_answers(model, batches), _answers(quantized, batches))


def report(model: Any, quantized: Any, data: Iterable[Any]) -> Report:
    """What eight bits did, on `data`: to the answers, and layer by layer. `quantized` is what `quantize_model` gave, whose layers are
    reported as they were in calibration, or a Layer that `PTQ` or `QAT` converted from `model`, whose layers are looked at while it runs on
    `data`.
    """
    batches = batches_of(data)
    if isinstance(quantized, QuantizedModel):
        return Report(
            quantized.report.layers, quantized.report.left_out, measure_agreement(_answers(model, batches), _answers(quantized, batches))
        )
    if not isinstance(quantized, Layer):
        raise TypeError(f"expected a model that was quantised, by quantize_model or by layers, but got {type(quantized).__name__}")
    watched = {
        name: _WatchedLayer(name, layer, _weight_of(model, name))
        for name, layer in quantized.named_sublayers()
        if isinstance(layer, ConvertibleQuantedLayer) and layer.converted
    }
    hooks = [watch.layer.activation_quanter.register_forward_pre_hook(watch.see) for watch in watched.values() if watch.quanter is not None]
    try:
        found = measure_agreement(_answers(model, batches), _answers(quantized, batches))
    finally:
        for hook in hooks:
            hook.remove()
    left = [
        LeftOut(name, _kind(layer), "it was not configured, or its observers saw nothing")
        for name, layer in quantized.named_sublayers()
        if type(layer) in _PRODUCTS
    ]
    return Report([watch.row() for watch in watched.values()], left, found)


class _WatchedLayer:
    """A converted layer with a `weight` and, where its activations are quantised, an `activation_quanter`."""

    def __init__(self, name: str, layer: Any, exact: Any):
        self.name, self.layer, self.exact = name, layer, exact
        pair = getattr(layer, "activation_quanter", None)
        self.quanter: LinearQuanter | None = pair._quanter if isinstance(pair, LinearQuanterDequanter) else None
        self.signal = Signal()
        self.least, self.greatest = np.inf, -np.inf

    def see(self, pair: Any, inputs: tuple[Any, ...]) -> None:
        assert self.quanter is not None
        x = inputs[0].numpy()
        step = float(self.quanter.step(inputs[0]).numpy())
        self.signal.add(x, pair._dequanter(self.quanter(inputs[0])).numpy(), (-128 * step, 127 * step))
        if x.size:
            self.least, self.greatest = min(self.least, float(x.min())), max(self.greatest, float(x.max()))

    def row(self) -> Row:
        weight, scales = self.layer.weight.numpy(), Signal()
        pair = getattr(self.layer, "weight_quanter", None)
        if self.exact is not None and self.exact.shape == weight.shape:
            scales.add(self.exact, weight if pair is None else pair(self.layer.weight).numpy())
        step = 0.0 if self.quanter is None else float(self.quanter.step(self.layer.weight).numpy())
        seen = (self.least, self.greatest) if self.signal.count else (0.0, 0.0)
        return Row(
            self.name, _kind(self.layer), tuple(weight.shape), step, 0, seen, self.signal.clipped_share, self.signal.decibels,
            scales.decibels, weight.size * 4,
            weight.nbytes + (pair._dequanter._scales.numpy().nbytes if pair is not None else 0),
        )  # fmt: skip


def _weight_of(model: Any, name: str) -> Any:
    """The weight of the layer of this name in floats."""
    layer = dict(model.named_sublayers()).get(name) if isinstance(model, Layer) else None
    weight = getattr(layer, "weight", None)
    return weight.numpy() if isinstance(weight, Tensor) else None


def _kind(layer: Any) -> str:
    return type(layer).__name__.removeprefix("Quanted").lower()


def _answers(model: Any, batches: list[Batch]) -> list[list[Any]]:
    parts = [(part, part.training) for part in model.sublayers(include_self=True)] if isinstance(model, Layer) else []
    found = []
    try:
        for part, _ in parts:
            part.training = False
        with no_grad():
            for batch in batches:
                tensors = [Tensor(array) for array in batch.arrays]
                made = model(*tensors) if batch.names is None else model(**dict(zip(batch.names, tensors, strict=True)))
                leaves: list[Any] = []
                flatten(made, leaves, is_tensor)
                found.append([leaf.numpy() for leaf in leaves if isinstance(leaf, Tensor)])
    finally:
        for part, mode in parts:
            part.training = mode
    return found
