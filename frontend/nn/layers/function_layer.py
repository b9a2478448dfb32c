"""Layers that are one function of `nn.functional`: options of the function are attributes of the layer, by Paddle's names, and are read at
each call. What is set there later counts from then on.
"""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.nn import functional as F
from polyreme.nn.layer import Layer

__all__ = ["FunctionLayer"]


class FunctionLayer(Layer):
    """The function `function` with `options`, each kept in an attribute of its name behind `prefix`, or of another one in `renamed`."""

    function: ClassVar[str] = ""
    prefix: ClassVar[str] = ""
    renamed: ClassVar[dict[str, str]] = {}

    def __init__(self, **options: Any):
        super().__init__()
        self._option_names = tuple(options)
        for name, value in options.items():
            setattr(self, self._place(name), value)

    def _place(self, name: str) -> str:
        return self.renamed.get(name, self.prefix + name)

    def _chosen(self) -> dict[str, Any]:
        """The options as they are now."""
        return {name: getattr(self, self._place(name)) for name in self._option_names}

    def _apply_function(self, *inputs: Any) -> Any:
        return getattr(F, self.function)(*inputs, **self._chosen())
