"""Which layers are quantised, and by what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyreme import nn
from polyreme.nn.layer import Layer
from polyreme.nn.quant import Stub, qat
from polyreme.nn.quant.stub import QuanterStub
from polyreme.quantization.base import QuanterFactory
from polyreme.quantization.wrapper import ObserveWrapper

__all__ = ["QuantConfig", "SingleLayerConfig"]

# Paddle has the first three; convolutions of one and three axes are ours.
DEFAULT_MAPPINGS: dict[type[Layer], type[Layer]] = {
    Stub: QuanterStub,
    nn.Linear: qat.QuantedLinear,
    nn.Conv2D: qat.QuantedConv2D,
    nn.Conv1D: qat.QuantedConv1D,
    nn.Conv3D: qat.QuantedConv3D,
}
DEFAULT_LEAVES = (nn.ReLU, nn.AvgPool2D)


@dataclass(frozen=True, eq=False)
class SingleLayerConfig:
    """What quantises the activations and the weights of a layer; None leaves them as they are."""

    activation: QuanterFactory | None
    weight: QuanterFactory | None

    def __str__(self) -> str:
        return f"activation: {self.activation}\nweight: {self.weight}"


class QuantConfig:
    """How a model is quantised: by `activation` and `weight`, factories of observers or quanters, but for layers that are told otherwise.

    Of several that speak of a layer, the later in this list has the say: the whole, what holds the layer, the layer's type, its full name,
    the layer itself. With both None here, only layers that are named are quantised.
    """

    def __init__(self, activation: QuanterFactory | None, weight: QuanterFactory | None):
        self._global = None if activation is None and weight is None else SingleLayerConfig(activation, weight)
        self._by_layer: dict[Layer, SingleLayerConfig] = {}
        self._by_name: dict[str, SingleLayerConfig] = {}
        self._by_type: dict[type[Layer], SingleLayerConfig] = {}
        self._mapping = dict(DEFAULT_MAPPINGS)
        self._leaves: list[type[Layer]] = []
        self._model: Layer | None = None

    # --- saying it


    def add_layer_config(
        self, layer: Layer | list[Layer], activation: QuanterFactory | None = None, weight: QuanterFactory | None = None
    ) -> None:
        """For a layer, or several, and what they hold. Both None leave them in floats."""
        for each in layer if isinstance(layer, list) else [layer]:
            if not isinstance(each, Layer):
                raise TypeError(f"expected a Layer but got {type(each).__name__}")
            # By name, since a model may be copied before it is quantised.
            self.add_name_config(each.full_name(), activation, weight)


    def add_name_config(
        self, layer_name: str | list[str], activation: QuanterFactory | None = None, weight: QuanterFactory | None = None
    ) -> None:
        """For the layer, or several, with this `full_name()`."""
        for each in layer_name if isinstance(layer_name, list) else [layer_name]:
            if not isinstance(each, str):
                raise TypeError(f"expected a layer's full name but got {type(each).__name__}")
            self._by_name[each] = SingleLayerConfig(activation, weight)


    def add_type_config(
        self, layer_type: type[Layer] | list[type[Layer]], activation: QuanterFactory | None = None, weight: QuanterFactory | None = None
    ) -> None:
        """For all layers of exactly this type, or these."""
        for each in layer_type if isinstance(layer_type, list) else [layer_type]:
            if not (isinstance(each, type) and issubclass(each, Layer)):
                raise TypeError(f"expected a subclass of Layer but got {each!r}")
            self._by_type[each] = SingleLayerConfig(activation, weight)

    def add_qat_layer_mapping(self, source: type[Layer], target: type[Layer]) -> None:
        """Layers of the type `source` become `target(layer, config)`, whose `config` has `activation` and `weight`."""
        for each, what in ((source, "source"), (target, "target")):
            if not (isinstance(each, type) and issubclass(each, Layer)):
                raise AssertionError(f"The {what} layer should be a subclass of paddle.nn.Layer, but got {each!r}")
        self._mapping[source] = target

    def add_customized_leaf(self, layer_type: type[Layer]) -> None:
        """Layers of this type are taken as a whole: what goes in is observed, and what they hold stays as it is."""
        self._leaves.append(layer_type)

    # --- what was said

    @property
    def global_config(self) -> SingleLayerConfig | None:
        return self._global

    @property
    def customized_leaves(self) -> list[type[Layer]]:
        return self._leaves

    @property
    def qat_layer_mappings(self) -> dict[type[Layer], type[Layer]]:
        return self._mapping

    @property
    def default_qat_layer_mapping(self) -> dict[type[Layer], type[Layer]]:
        return DEFAULT_MAPPINGS

    # --- for a model

    def specify(self, model: Layer) -> None:
        """Find the configuration of every layer in `model`."""
        self._model = model
        unknown = sorted(set(self._by_name) - {layer.full_name() for layer in model.sublayers(include_self=True)})
        if unknown:
            raise ValueError(
                f"expected names of layers in the model but it has no '{unknown[0]}'; give the layer's full_name(), such as "
                f"'{_first_name(model)}'"
            )
        self._specify_children(model, self._by_name.get(model.full_name(), self._global))

    def _specify_children(self, layer: Layer, inherited: SingleLayerConfig | None) -> None:
        for child in layer.children():
            config = self._by_name.get(child.full_name(), self._by_type.get(type(child), inherited))
            if config is not None:
                self._by_layer[child] = config
            self._specify_children(child, config)

    def target(self, layer: Layer) -> Layer | None:
        """The quantised layer in place of `layer`; None where it stays."""
        config = self._by_layer.get(layer)
        made: Any = self._mapping.get(type(layer))
        if config is None or made is None or (config.activation is None and config.weight is None and made is not QuanterStub):
            return None
        quantized: Layer = made(layer, config)
        return quantized

    def is_target(self, layer: Layer) -> bool:
        """Whether the layer is one that was made by `target`."""
        return type(layer) in self._mapping.values()

    def observed(self, layer: Layer) -> Layer | None:
        """`layer` behind an observer, where it is a leaf whose activations are quantised."""
        config = self._by_layer.get(layer)
        leaf = type(layer) in DEFAULT_LEAVES or type(layer) in self._leaves or not layer._sub_layers
        return (
            None if config is None or config.activation is None or not leaf else ObserveWrapper(config.activation._instance(layer), layer)
        )

    def details(self) -> str:
        """As text: of the model that was quantised last, layer by layer; before one was, what was said."""
        return str(self) if self._model is None else self._details_of(self._model)

    def _details_of(self, layer: Layer) -> str:
        lines = [
            f"  ({name}): {self._details_of(child).replace(chr(10), chr(10) + '  ')}, {self._by_layer[child]}"
            for name, child in layer.named_children()
            if child in self._by_layer
        ]
        return f"{type(layer).__name__}(" + ("\n" + "\n".join(lines) + "\n" if lines else "") + ")"

    def __repr__(self) -> str:
        return f"QuantConfig({len(self._by_layer)} layers, {len(self._by_name)} names, {len(self._by_type)} types)"

    def __str__(self) -> str:
        text = f"Global config:\n{self._global}\n"
        if self._by_type:
            text += f"Layer type config:\n{_table({t.__name__: c for t, c in self._by_type.items()})}\n"
        if self._by_name:
            text += f"Layer prefix config: \n{_table(self._by_name)}\n"
        return text


def _table(configs: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {str(config).replace(chr(10), ', ')}" for name, config in configs.items())


def _first_name(model: Layer) -> str:
    return next((layer.full_name() for layer in model.sublayers()), model.full_name())
