"""`Layer` and its containers as in Paddle 1.8: those of `paddle.nn`, with that time's `build_once`, arguments and loading of states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polyreme import nn
from polyreme.fluid.initializer import Xavier
from polyreme.grad_mode import MANNER
from polyreme.names import listed
from polyreme.nn.initializer import global_initializer
from polyreme.tensor import Tensor

__all__ = ["Layer", "LayerList", "ParameterList", "Sequential"]


class Layer(nn.Layer):
    """A part of a model. A `_build_once` that a subclass defines is called with the inputs before its first `forward`, for parameters whose
    shape follows from them.
    """

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32"):
        super().__init__(name_scope, dtype)
        if type(self)._build_once is not Layer._build_once:
            once = self.register_forward_pre_hook(lambda layer, inputs, keywords: build(inputs, keywords), with_kwargs=True)

            def build(inputs: Any, keywords: Any) -> None:
                once.remove()
                self._build_once(*inputs, **keywords)

    def _build_once(self, *args: Any, **kwargs: Any) -> None:
        """Make what needs the first inputs; nothing here."""

    def train(self, mode: bool = True) -> Layer:
        """As `paddle.nn.Layer.train`; functions of `fluid` train from now on, too, such as `fluid.layers.dropout` (or not, for False)."""
        MANNER.trains = mode
        super().train(mode)
        return self

    def create_parameter(
        self, shape: Any, attr: Any = None, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None, device: Any = None
    ) -> Any:
        """As `paddle.nn.Layer.create_parameter`; by default filled by Paddle 1's Xavier initializer, with the draws of its seeds."""
        if not is_bias:
            default_initializer = default_initializer or global_initializer(is_bias) or Xavier()
        return super().create_parameter(shape, attr, dtype, is_bias, default_initializer, device)

    def create_variable(self, name: str | None = None, persistable: bool | None = None, dtype: Any = None, type: Any = None) -> Any:
        """An empty tensor to keep an intermediate in; `type` can only be that of tensors."""
        return super().create_variable(name, persistable, dtype)


# Functions of Paddle 1.8 that have other arguments than those of `paddle.nn.Layer`.


def _sublayers(self: Layer, include_sublayers: bool = True, include_self: bool = False) -> list[nn.Layer]:
    """All layers below, depth first; as in Paddle 1.8 none of them without `include_sublayers`."""
    return [layer for _, layer in _named_sublayers(self, "", include_sublayers, include_self)]


def _named_sublayers(
    self: Layer, prefix: str = "", include_sublayers: bool = True, include_self: bool = False, layers_set: set[nn.Layer] | None = None,
    remove_duplicate: bool = True,
) -> Iterator[tuple[str, nn.Layer]]:  # fmt: skip
    """All layers below with their dotted names, each once; `layers_set` records what was seen."""
    if include_sublayers:
        yield from nn.Layer.named_sublayers(self, prefix, include_self, layers_set, remove_duplicate)
    elif include_self:
        yield prefix, self


def _set_dict(self: Layer, stat_dict: dict[str, Any], include_sublayers: bool = True, use_structured_name: bool = True) -> None:
    """Take over values by dotted name, or by the parameters' own names. One that is not there is a RuntimeError, another shape or dtype an
    AssertionError; then nothing has changed.
    """
    found = []
    for path, tensor in self.state_dict().items():
        name = path if use_structured_name else tensor.name
        if name not in stat_dict:
            raise RuntimeError(f"Parameter not found, Can't not find [ {name} ] in stat_dict; use_structured_name is {use_structured_name}")
        value = stat_dict[name]
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        for what, own, given in (("Shape", list(tensor.shape), list(array.shape)), ("dtype", tensor.numpy().dtype, array.dtype)):
            assert own == given, f"Variable {what} not match, Variable [ {name} ] need tensor with {own} but load set tensor with {given}"
        found.append((tensor, array))
    for tensor, array in found:
        tensor.set_value(array)


for _name, _function in {
    "sublayers": _sublayers, "named_sublayers": _named_sublayers, "set_dict": _set_dict, "load_dict": _set_dict
}.items():  # fmt: skip
    _function.__name__ = _name if _name != "load_dict" else "set_dict"
    setattr(Layer, _name, _function)


class Sequential(Layer, nn.Sequential):
    """Layers run one after the other. Takes layers or (name, layer) pairs."""

    def __init__(self, *layers: Any):
        nn.Sequential.__init__(self, *layers)


class LayerList(Layer, nn.LayerList):
    """A list of layers, for `forward` of the layer that holds it."""

    def __init__(self, sublayers: Any = None):
        nn.LayerList.__init__(self, sublayers)


class ParameterList(Layer, nn.ParameterList):
    """A list of parameters, for `forward` of the layer that holds it."""

    def __init__(self, parameters: Any = None):
        nn.ParameterList.__init__(self, parameters)


__dir__ = listed(__name__)
