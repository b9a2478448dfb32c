"""A step of `Model`'s training, as Python runs it, and compiled as a whole where the network is under `to_static`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.amp.regions import auto_cast
from polyreme.hapi.mixed_precision import MixedPrecision
from polyreme.jit.static_function import StaticFunction, to_static
from polyreme.math import add_n
from polyreme.nn.layer import Layer
from polyreme.optimizer import Optimizer
from polyreme.tensor import Tensor

__all__ = ["TrainingStep"]


class TrainingStep:
    """Called with lists of inputs and labels, and whether parameters move: lists of losses and outputs, which need no gradients.

    `compiled` is the function under `to_static`, once the network was.
    """

    def __init__(self, network: Layer, optimizer: Optimizer, loss: Callable[..., Any], mixed: MixedPrecision | None):
        self.network, self.optimizer, self.loss, self.mixed = network, optimizer, loss, mixed
        self._function: Callable[..., Any] | None = None
        self.compiled: StaticFunction | None = None

    def is_for(self, network: Layer, optimizer: Optimizer, loss: Callable[..., Any], mixed: MixedPrecision | None) -> bool:
        """Whether it is a step of these."""
        return self.network is network and self.optimizer is optimizer and self.loss is loss and self.mixed is mixed

    def __call__(self, inputs: list[Tensor], labels: list[Tensor], update: bool) -> tuple[list[Tensor], list[Any]]:
        if self._function is None:
            plain = _plain(self.network, self.optimizer, self.loss)
            self._function = plain if self.mixed is None else _mixed(self.network, self.optimizer, self.loss, self.mixed)
        function = self._function
        if isinstance(self.network.forward, StaticFunction):
            if self.compiled is None:
                self.compiled = to_static(function)
            function = self.compiled
        losses, outputs = function(inputs, labels, update)
        if update:
            moved = {id(parameter) for parameter in self.optimizer._parameter_list}
            for parameter in self.network.parameters():
                if id(parameter) not in moved:
                    parameter.clear_gradient()
        return losses, outputs


# These are watched as a user's functions when they are captured.


def _plain(network: Layer, optimizer: Optimizer, loss: Callable[..., Any]) -> Callable[..., Any]:
    def training_step(inputs: list[Tensor], labels: list[Tensor], update: bool) -> Any:
        outputs = network(*inputs)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        losses = loss(*outputs, *labels)
        losses = list(losses) if isinstance(losses, (list, tuple)) else [losses]
        total = add_n(losses)
        total.backward()
        if update:
            optimizer.minimize(total)
            optimizer.clear_grad()
        return _without_gradients(losses), _without_gradients(outputs)

    return training_step


def _mixed(network: Layer, optimizer: Optimizer, loss: Callable[..., Any], mixed: MixedPrecision) -> Callable[..., Any]:
    level, lists, scaler = mixed.level, mixed.lists, mixed.scaler

    def training_step(inputs: list[Tensor], labels: list[Tensor], update: bool) -> Any:
        with auto_cast(level=level, **lists):
            outputs = network(*inputs)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        losses = loss(*outputs, *labels)
        losses = list(losses) if isinstance(losses, (list, tuple)) else [losses]
        scaled = scaler.scale(add_n(losses))
        scaled.backward()
        if update:
            scaler.minimize(optimizer, scaled)
            optimizer.clear_grad()
        return _without_gradients(losses), _without_gradients(outputs)

    return training_step


def _without_gradients(values: list[Any]) -> list[Any]:
    return [value.detach() if isinstance(value, Tensor) else value for value in values]
