"""Layers that hold layers or parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from polyreme.nn.layer import Layer
from polyreme.parameter import Parameter

__all__ = ["LayerDict", "LayerList", "ParameterDict", "ParameterList", "Sequential"]


class Sequential(Layer):
    """Layers run one after the other. Takes layers, (name, layer) pairs, or an ordered dict."""

    def __init__(self, *layers: Any):
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], (OrderedDict, dict)):
            layers = tuple(layers[0].items())
        elif len(layers) == 1 and isinstance(layers[0], list):
            layers = tuple(layers[0])
        for i, layer in enumerate(layers):
            name, held = layer if isinstance(layer, (tuple, list)) else (str(i), layer)
            self.add_sublayer(name, held)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(*list(self._sub_layers.values())[index])
        if isinstance(index, str):
            return self._sub_layers[index]
        names = list(self._sub_layers)
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range")
        return self._sub_layers[names[index]]

    def __setitem__(self, name: Any, layer: Layer) -> None:
        self.add_sublayer(list(self._sub_layers)[name] if isinstance(name, int) else str(name), layer)

    def __delitem__(self, name: Any) -> None:
        del self._sub_layers[list(self._sub_layers)[name] if isinstance(name, int) else str(name)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, layer: Layer) -> Sequential:
        self.add_sublayer(str(len(self)), layer)
        return self

    def forward(self, input: Any) -> Any:
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """A list of layers, for `forward` of the layer that holds it."""

    def __init__(self, sublayers: Iterable[Layer] | None = None):
        super().__init__()
        for layer in sublayers or ():
            self.append(layer)

    def _number(self, index: int, bound: int) -> int:
        if not isinstance(index, int) or not -bound <= index < max(bound, 1):
            raise IndexError(f"index {index} is out of range for a LayerList of {len(self)}")
        return index % bound if index < 0 else index

    def _set(self, layers: Iterable[Layer]) -> None:
        self._sub_layers.clear()
        for i, layer in enumerate(layers):
            self.add_sublayer(str(i), layer)

    def __getitem__(self, index: Any) -> Any:
        layers = list(self._sub_layers.values())
        return type(self)(layers[index]) if isinstance(index, slice) else layers[self._number(index, len(layers))]

    def __setitem__(self, index: int, layer: Layer) -> None:
        self.add_sublayer(str(self._number(index, len(self))), layer)

    def __delitem__(self, index: Any) -> None:
        layers = list(self._sub_layers.values())
        del layers[index]
        self._set(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer) -> LayerList:
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        for layer in sublayers:
            self.append(layer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        layers = list(self._sub_layers.values())
        layers.insert(self._number(index, len(layers) + 1), sublayer)
        self._set(layers)


class LayerDict(Layer):
    """Layers by name, for `forward` of the layer that holds it."""

    def __init__(self, sublayers: Any = None):
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key: str) -> Any:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        self._sub_layers.clear()

    def pop(self, key: str) -> Any:
        return self._sub_layers.pop(key)

    def keys(self) -> Iterable[str]:
        return self._sub_layers.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._sub_layers.items()

    def values(self) -> Iterable[Any]:
        return self._sub_layers.values()

    def update(self, sublayers: Any) -> None:
        """Add the layers of a dict or of (name, layer) pairs."""
        pairs = sublayers.items() if isinstance(sublayers, (Mapping, LayerDict)) else sublayers
        for name, layer in pairs:
            self.add_sublayer(name, layer)


class ParameterDict(Layer):
    """Parameters by name, for `forward` of the layer that holds them."""

    def __init__(self, parameters: Any = None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, param: Parameter) -> None:
        self.add_parameter(key, param)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def update(self, parameters: Any) -> None:
        """Add the parameters of a dict or of (name, parameter) pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(f"expected a dict, or (name, parameter) pairs, but got {type(parameters).__name__}")
        if isinstance(parameters, ParameterDict):
            parameters = dict(parameters._parameters)
        for pair in parameters.items() if isinstance(parameters, Mapping) else parameters:
            if len(pair) != 2:
                raise ValueError(f"expected pairs of a name and a parameter but got {len(pair)} parts")
            self.add_parameter(*pair)


class ParameterList(Layer):
    """A list of parameters, for `forward` of the layer that holds it."""

    def __init__(self, parameters: Iterable[Parameter] | None = None):
        super().__init__()
        for parameter in parameters or ():
            self.append(parameter)

    def __getitem__(self, index: int) -> Any:
        return self._parameters[str(index % len(self) if index < 0 else index)]

    def __setitem__(self, index: int, parameter: Parameter) -> None:
        self._parameters[str(index)] = parameter

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def append(self, parameter: Parameter) -> ParameterList:
        self.add_parameter(str(len(self)), parameter)
        return self
