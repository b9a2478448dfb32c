"""Quantising a model layer by layer, as Paddle does: `PTQ` after training, `QAT` with training, and `convert` for both."""

from __future__ import annotations

import abc
import copy
import warnings

from polyreme.nn.layer import Layer
from polyreme.nn.quant.format import ConvertibleQuantedLayer, LinearQuanterDequanter
from polyreme.quantization.base import BaseQuanter
from polyreme.quantization.config import QuantConfig

__all__ = ["PTQ", "QAT", "Quantization"]


class Quantization(metaclass=abc.ABCMeta):
    """What puts observers or quanters into models, by a configuration, and converts these models."""

    def __init__(self, config: QuantConfig):
        if not isinstance(config, QuantConfig):
            raise TypeError(f"expected a QuantConfig but got {type(config).__name__}")
        self._config = copy.deepcopy(config)

    @abc.abstractmethod
    def quantize(self, model: Layer, inplace: bool = False) -> Layer:
        """A model that observes or quantises."""

    def convert(self, model: Layer, inplace: bool = False, remain_weight: bool = False) -> Layer:
        """The model for inference: observers and quanters become `quantize_linear` and `dequantize_linear` with the scales they found, and
        weights become int8, unless `remain_weight` asks for floats. It runs, is traced, saved and compiled like any other.

        A layer with observers that have seen nothing stays in floats, and a warning names it.
        """
        made = model if inplace else copy.deepcopy(model)
        unseen: list[str] = []
        self._convert_children(made, remain_weight, "", unseen)
        if unseen:
            warnings.warn(
                f"{len(unseen)} layers stay in floats, since their observers have seen nothing: "
                f"{', '.join(unseen[:6])}{', …' if len(unseen) > 6 else ''}; "
                "run the quantised model on calibration data before convert()",
                stacklevel=2,
            )
        return made

    def _convert_children(self, model: Layer, remain_weight: bool, path: str, unseen: list[str]) -> None:
        for name, child in model.named_children():
            if isinstance(child, ConvertibleQuantedLayer):
                if child.converted:
                    continue
                if child._without_scales():
                    unseen.append(path + name)
                    for quanter in child._without_scales():
                        setattr(child, quanter, None)
                child._convert(remain_weight=remain_weight)
            elif isinstance(child, BaseQuanter):
                if child.scales() is None:
                    unseen.append(path + name)
                    model._sub_layers[name] = LinearQuanterDequanter(None, None)
                else:
                    model._sub_layers[name] = LinearQuanterDequanter.from_quanter(child)
            else:
                self._convert_children(child, remain_weight, f"{path}{name}.", unseen)

    def _prepare(self, model: Layer) -> None:
        self._config.specify(model)
        self._replace(model)
        self._observe(model)

    def _replace(self, model: Layer) -> None:
        """Put quantised layers in the place of those that the configuration maps."""
        for name, child in list(model.named_children()):
            made = self._config.target(child)
            if made is None:
                self._replace(child)
            else:
                made.training = child.training
                for part in made.sublayers():
                    part.training = child.training
                model._sub_layers[name] = made

    def _observe(self, model: Layer) -> None:
        """Put observers before leaves."""
        for name, child in list(model.named_children()):
            made = self._config.observed(child)
            if made is not None:
                for part in made.sublayers(include_self=True):
                    part.training = child.training
                model._sub_layers[name] = made
            elif not self._config.is_target(child):
                self._observe(child)

    def __repr__(self) -> str:
        return self._config.details()


class PTQ(Quantization):
    """Quantisation after training: `quantize`, run the result on calibration data, `convert`.

        config = QuantConfig(activation=None, weight=None)
        config.add_type_config([nn.Conv2D, nn.Linear], activation=AbsmaxObserver(), weight=AbsMaxChannelWiseWeightObserver())
        ptq = PTQ(config)
        observed = ptq.quantize(model)
        for images in calibration: observed(images)
        converted = ptq.convert(observed)
    """

    def quantize(self, model: Layer, inplace: bool = False) -> Layer:
        """A copy of `model`, or with `inplace` itself, with observers in it. The model must be in evaluation mode."""
        if model.training:
            raise AssertionError(
                "Post-Training Quantization should not work on training models. Please set evaluation mode by model.eval()."
            )
        made = model if inplace else copy.deepcopy(model)
        self._prepare(made)
        return made


class QAT(Quantization):
    """Training with quantisation in view: `quantize`, train the result, `convert`."""

    def quantize(self, model: Layer, inplace: bool = False) -> Layer:
        """A copy of `model`, or with `inplace` itself, with fake quanters in it. The model must be in training mode."""
        if not model.training:
            raise AssertionError("Quantization-Aware Training should work on training models. Please set training mode by model.train().")
        made = model if inplace else copy.deepcopy(model)
        self._prepare(made)
        return made
