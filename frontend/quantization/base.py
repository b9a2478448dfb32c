"""What observes or quantises a tensor, and how a configuration names one before there is a layer to make it for."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from polyreme.nn.layer import Layer
from polyreme.tensor import Tensor

__all__ = ["BaseObserver", "BaseQuanter", "ObserverFactory", "QuanterFactory", "quanter"]

C = TypeVar("C", bound="type[BaseQuanter]")


class BaseQuanter(Layer, metaclass=abc.ABCMeta):
    """A layer that knows the scale of the tensors that pass it; a quanter also gives them back as they are after quantisation.

    Scales are thresholds, as Paddle has them: the magnitude that the greatest integer, 2**(bit_length - 1) - 1, stands for.
    """

    @abc.abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Look at `input`, and give it back, observed or quantised."""

    @abc.abstractmethod
    def scales(self) -> Tensor | None:
        """One threshold for the whole tensor, or one per place along `quant_axis`; None before anything was seen."""

    @abc.abstractmethod
    def zero_points(self) -> Tensor | None:
        """The integers that stand for 0, of the scales' shape; None stands for zeros."""

    @abc.abstractmethod
    def quant_axis(self) -> int | Iterable[int]:
        """The axis along which there is one scale per place; -1 for one scale for all."""

    @abc.abstractmethod
    def bit_length(self) -> int | Iterable[int]:
        """How many bits an integer has."""


class BaseObserver(BaseQuanter):
    """A quanter that changes nothing: it gathers what `cal_thresholds` makes scales of."""

    @abc.abstractmethod
    def cal_thresholds(self) -> None:
        """Make the scales of what was seen."""


class QuanterFactory:
    """A class of quanters and the arguments for it: what a configuration holds. Each layer gets a quanter of its own, made with the layer
    first.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self.args = args
        self.kwargs = kwargs

    def _get_class(self) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to say with _get_class which quanters it makes")

    def _instance(self, layer: Layer | None) -> BaseQuanter:
        """The quanter of a layer; None where it is for a value of a program, which no layer has."""
        return self._get_class()(layer, *self.args, **self.kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({','.join([*map(str, self.args), *(f'{k}={v}' for k, v in self.kwargs.items())])})"


ObserverFactory = QuanterFactory


def quanter(class_name: str) -> Callable[[C], C]:
    """Declare the factory `class_name` for the decorated class of quanters, in the class's own module.

        @quanter("CustomizedQuanter")
        class CustomizedQuanterLayer(BaseQuanter):
            def __init__(self, layer, bits=8): ...

        QuantConfig(activation=CustomizedQuanter(bits=4), weight=None)
    """

    def declare(target: C) -> C:
        factory = type(
            class_name, (QuanterFactory,), {"_get_class": lambda self: target, "__module__": target.__module__, "__doc__": target.__doc__}
        )
        module = sys.modules[target.__module__]
        setattr(module, class_name, factory)
        exported = getattr(module, "__all__", None)
        if isinstance(exported, list) and class_name not in exported:
            exported.append(class_name)
        return target

    return declare
