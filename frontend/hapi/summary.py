"""`paddle.summary`: a table of a network's layers, and how many parameters it has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from polyreme.jit import enable_to_static, static_function
from polyreme.math import cast, rand
from polyreme.nn.container import LayerList, Sequential
from polyreme.nn.layer import Layer
from polyreme.nn.layers.rnn import RNNBase
from polyreme.static.input_spec import InputSpec
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

__all__ = ["summary"]

BYTES = 4.0
MEGABYTE = 1024.0**2


@dataclass
class _Row:
    """A layer that ran: shapes of what went in and came out, and numbers of its own parameters."""

    inputs: Any
    outputs: Any
    parameters: int
    trainable: int


@contextmanager
def evaluating(network: Layer) -> Iterator[None]:
    """Evaluation mode for all of `network`, op by op so that hooks run also where `to_static` compiles; afterwards everything as it was."""
    modes = [(layer, layer.training) for layer in network.sublayers(include_self=True)]
    compiles = static_function._enabled
    network.eval()
    enable_to_static(False)
    try:
        yield
    finally:
        enable_to_static(compiles)
        for layer, mode in modes:
            layer.training = mode


def summary(net: Layer, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict[str, int]:
    """Print a table of the layers that run for one input, and return `{"total_params": …, "trainable_params": …}`.

    `input_size` is the shape of the input (a tuple or an `InputSpec`), or a list of them for several inputs; the first size may be None or
    -1 and counts as 1. Inputs are random numbers of `dtypes`, one for all or a list, float32 by default. `input` (a tensor, or a list or
    dict of them, passed on as one argument) is used instead of such. The network runs once, in evaluation mode. Sizes in the table take 4
    bytes for every number.
    """
    if input is not None:
        shapes = _checked(_sizes_of(input) if input_size is None else input_size)
        arguments: Sequence[Any] = [input]
    elif input_size is not None:
        shapes = _checked(input_size)
        arguments = _random(shapes, dtypes)
    else:
        raise ValueError("input_size and input cannot be None at the same time")
    with evaluating(net), no_grad():
        rows = _run(net, arguments)
    totals = {"total_params": sum(r.parameters for r in rows.values()), "trainable_params": sum(r.trainable for r in rows.values())}
    print(_table(rows, totals, _numbers(shapes)))
    return totals


# --- inputs


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not any(isinstance(v, (list, tuple, InputSpec)) for v in value)


def _sizes_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tuple(v.shape) for v in value]
    raise ValueError(f"expected input to be a tensor, or a list, tuple or dict of tensors, but got {value!r}: say input_size instead")


def _checked(size: Any) -> Any:
    """A shape as a tuple with the batch's size told, or a list of such."""
    if isinstance(size, InputSpec):
        size = tuple(size.shape)
    if isinstance(size, int):
        size = (size,)
    if isinstance(size, list):
        parts = [(s,) if isinstance(s, int) else s for s in size]
        wrong = [s for s in parts if not isinstance(s, (tuple, InputSpec))]
        if wrong:
            raise AssertionError(f"expected the list input_size to have a tuple or an InputSpec for each input but got {wrong[0]!r}")
        return [_checked(s) for s in parts]
    if not _is_shape(size):
        return [_checked(s) for s in size]
    if sum(n is None or n == -1 for n in size) > 1:
        raise ValueError(f"expected at most the batch's size to be None or -1 in input_size but got {size}")
    found = tuple(1 if n is None or n == -1 else n for n in size)
    if any(n <= 0 for n in found):
        raise ValueError(f"expected sizes greater than zero in input_size but got {size}")
    return found


def _random(shapes: Any, dtypes: Any) -> list[Any]:
    """Random tensors, one for each shape."""
    parts = [shapes] if _is_shape(shapes) else shapes
    kinds = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes or "float32"] * len(parts)
    if len(kinds) < len(parts):
        raise ValueError(f"expected dtypes for {len(parts)} inputs but got {len(kinds)}")
    return [cast(rand(list(s)), d) if _is_shape(s) else _random(s, d) for s, d in zip(parts, kinds, strict=False)]


# --- running


def _run(network: Layer, arguments: Sequence[Any]) -> dict[str, _Row]:
    """The rows by name, in the order in which layers end. A layer that runs again keeps its place and tells of the last time."""
    rows: dict[str, _Row] = {}

    def note(layer: Layer, inputs: Any, outputs: Any) -> None:
        number = layer.full_name().rpartition("_")[2]
        index = int(number) if number.isdecimal() else len(rows)
        parameters = [p for p in layer._parameters.values() if p is not None]
        trainable = [p for p in parameters if p.trainable and not p.stop_gradient]
        rows[f"{type(layer).__name__}-{index + 1}"] = _Row(
            _shapes(inputs, None), _shapes(outputs, []), _count(parameters), _count(trainable)
        )

    everything = network.sublayers(include_self=True)
    seen = [layer for layer in everything if _is_shown(layer, network, alone=len(everything) == 1)]
    hooks = [layer.register_forward_post_hook(note) for layer in seen]
    try:
        network(*arguments)
    finally:
        for hook in hooks:
            hook.remove()
    return rows


def _is_shown(layer: Layer, network: Layer, *, alone: bool) -> bool:
    # A recurrent layer is a list of its cells, too, but computes them all itself: it has the row that they would have.
    if isinstance(layer, RNNBase):
        return True
    return not isinstance(layer, (Sequential, LayerList)) and (layer is not network or alone)


def _shapes(value: Any, other: Any) -> Any:
    """The shapes of tensors in lists and tuples; `other` for what is no tensor."""
    if isinstance(value, (list, tuple)):
        return [_shapes(v, other) for v in value]
    return list(value.shape) if hasattr(value, "shape") else other


def _count(parameters: Sequence[Any]) -> int:
    return sum(math.prod(p.shape) for p in parameters)


def _numbers(shapes: Any) -> int:
    """How many numbers tensors of these shapes have."""
    if isinstance(shapes, (list, tuple)) and not all(isinstance(n, int) for n in shapes):
        return sum(map(_numbers, shapes))
    return 0 if shapes is None else math.prod(shapes)


# --- printing


def _table(rows: dict[str, _Row], totals: dict[str, int], inputs: int) -> str:
    cells = [(name, str(row.inputs), str(row.outputs), f"{row.parameters:,}") for name, row in rows.items()]
    plain = [(name, inputs, outputs, str(row.parameters)) for (name, inputs, outputs, _), row in zip(cells, rows.values(), strict=True)]
    widths = [max([least, *(len(r[i]) for r in plain)]) for i, least in enumerate((15, 20, 20, 15))]
    width = max(75, sum(widths) + 5)

    def line(parts: Sequence[str]) -> str:
        return " ".join(f"{part:^{w}}" for part, w in zip(parts, widths, strict=True))

    total, trainable = totals["total_params"], totals["trainable_params"]
    # Twice: once forward, once for gradients.
    sizes = [inputs, 2 * sum(_numbers(r.outputs) for r in rows.values()), total]
    megabytes = [n * BYTES / MEGABYTE for n in sizes]
    titles = ("Input size", "Forward/backward pass size", "Params size", "Estimated Total Size")
    return "\n".join([
        "-" * width, line(("Layer (type)", "Input Shape", "Output Shape", "Param #")), "=" * width, *map(line, cells), "=" * width,
        f"Total params: {total:,}", f"Trainable params: {trainable:,}", f"Non-trainable params: {total - trainable:,}", "-" * width,
        *(f"{title} (MB): {size:0.2f}" for title, size in zip(titles, [*megabytes, sum(megabytes)], strict=True)), "-" * width, "",
    ])  # fmt: skip
