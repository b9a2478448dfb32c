"""`paddle.flops`: how many multiplications and additions a network takes for one input, by Paddle's way of counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyreme import nn
from polyreme.hapi.summary import evaluating
from polyreme.math import randn
from polyreme.nn.layer import Layer
from polyreme.tape import no_grad

__all__ = ["flops"]

Count = Callable[[Any, Any, Any], None]


def _convolution(layer: Any, inputs: Any, output: Any) -> None:
    per_number = inputs[0].shape[1] / layer._groups * math.prod(layer.weight.shape[2:]) + (layer.bias is not None)
    layer.total_ops += int(math.prod(output.shape) * per_number)


def _linear(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += layer.weight.shape[0] * math.prod(output.shape)


def _normalisation(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += 2 * math.prod(inputs[0].shape)


def _one_per_input(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += math.prod(inputs[0].shape)


def _one_per_output(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += math.prod(output.shape)


def _adaptive_average(layer: Any, inputs: Any, output: Any) -> None:
    window = math.prod(n // m for n, m in zip(inputs[0].shape[2:], output.shape[2:], strict=True))
    layer.total_ops += (window + 1) * math.prod(output.shape)


def _nothing(layer: Any, inputs: Any, output: Any) -> None:
    """Counted as free."""


COUNTS: dict[type[Layer], Count] = {
    **dict.fromkeys((nn.Conv1D, nn.Conv2D, nn.Conv3D, nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose), _convolution),
    **dict.fromkeys((nn.BatchNorm2D, nn.BatchNorm), _normalisation),
    **dict.fromkeys((nn.ReLU, nn.ReLU6, nn.Dropout), _nothing),
    nn.LeakyReLU: _one_per_input,
    nn.Linear: _linear,
    **dict.fromkeys((nn.AvgPool1D, nn.AvgPool2D, nn.AvgPool3D), _one_per_output),
    **dict.fromkeys((nn.AdaptiveAvgPool1D, nn.AdaptiveAvgPool2D, nn.AdaptiveAvgPool3D), _adaptive_average),
}


def flops(net: Layer, input_size: Sequence[int], custom_ops: Mapping[type[Layer], Count] | None = None, print_detail: bool = False) -> int:
    """The number of operations of `net` for an input of shape `input_size`; prints it, and with `print_detail` a table of the layers.

    Counted are the layers within `net` that have no layers within them. `custom_ops` says how others count, by class: a `count(layer,
    inputs, output)` that adds to `layer.total_ops`. Kinds that nobody counts are named and taken for free. The network runs once, in
    evaluation mode.
    """
    if not isinstance(net, Layer):
        raise TypeError(
            f"expected a Layer but got {type(net).__name__}: operators of programs are not counted, pass the Layer that they come from"
        )
    layers = [layer for layer in net.sublayers(include_self=True) if not list(layer.children())]
    shapes: dict[int, tuple[list[int], list[int]]] = {}

    def note(layer: Layer, inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (list, tuple)) else output
        shapes[id(layer)] = (list(inputs[0].shape), list(first.shape))

    counts = _chosen(layers, custom_ops or {})
    hooks = [layer.register_forward_post_hook(hook) for layer in layers for hook in (counts[type(layer)], note)]
    for layer in layers:
        layer.total_ops = 0
    try:
        with evaluating(net), no_grad():
            net(randn(list(input_size)))
        rows = [
            (layer.full_name(), *shapes[id(layer)], sum(math.prod(p.shape) for p in layer.parameters()), int(layer.total_ops))
            for layer in layers
            if layer is not net and id(layer) in shapes
        ]
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            del layer.total_ops
    total = sum(row[-1] for row in rows)
    if print_detail:
        print(_table([("Layer Name", "Input Shape", "Output Shape", "Params", "Flops"), *rows]))
    print(f"Total Flops: {total}     Total Params: {sum(row[-2] for row in rows)}")
    return total


def _chosen(layers: Sequence[Layer], custom: Mapping[type[Layer], Count]) -> dict[type[Layer], Count]:
    """How each class of layers counts; says so, as Paddle does."""
    chosen: dict[type[Layer], Count] = {}
    for kind in dict.fromkeys(map(type, layers)):
        if kind in custom:
            print(f"Customize Function has been applied to {kind}")
        elif kind in COUNTS:
            print(f"{kind}'s flops has been counted")
        else:
            print(f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs.")
        chosen[kind] = custom.get(kind) or COUNTS.get(kind, _nothing)
    return chosen


def _table(rows: Sequence[Sequence[Any]]) -> str:
    """Rows between lines, the first one as the head."""
    widths = [max(len(str(row[i])) for row in rows) + 2 for i in range(len(rows[0]))]
    rule = "+" + "+".join("-" * w for w in widths) + "+"
    head, *body = ["|" + "|".join(str(cell).center(w) for cell, w in zip(row, widths, strict=True)) + "|" for row in rows]
    return "\n".join([rule, head, rule, *body, rule])
