"""Two models on the same data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from polyreme.jit.structure import flatten, is_tensor
from polyreme.nn.layer import Layer
from polyreme.quantization.batches import Batch, batches_of
from polyreme.quantization.report import Agreement, measure_agreement
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

__all__ = ["agreement"]


def agreement(model: Any, quantized: Any, data: Iterable[Any]) -> Agreement:
    """How near the answers of `quantized` are to those of `model` on `data`, whose batches are as `quantize_model` takes them; dicts are given as keywords.

    Both are called as they are, Layers in evaluation mode; so they may be Layers that `PTQ` converted, loaded models or functions.
    """
    batches = batches_of(data)
    return measure_agreement(_answers(model, batches), _answers(quantized, batches))


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
