"""`paddle.nn`: layers, and what they are made of.

Names load on first use: a program that runs a saved model needs the base of layers only.
"""

import importlib
from typing import TYPE_CHECKING, Any

from polyreme.names import absent_from

# Parts that go by their own names, and where they are.
_PARTS = {
    **{
        name: f"polyreme.nn.{name}"
        for name in ("clip", "container", "decode", "functional", "initializer", "layer", "layers", "quant", "utils")
    },
    **{
        name: f"polyreme.nn.layers.{name}"
        for name in ("activation", "common", "conv", "loss", "norm", "pooling", "rnn", "transformer", "vision")
    },
}
# Whose names are those of the package, too.
_EXPORTERS = (
    "layer", "container", "activation", "common", "conv", "norm", "pooling", "loss", "rnn", "transformer", "vision", "clip", "decode",
)  # fmt: skip

if TYPE_CHECKING:
    from polyreme.nn import clip, container, decode, functional, initializer, layer, layers, quant, utils  # noqa: F401
    from polyreme.nn.clip import *
    from polyreme.nn.container import *
    from polyreme.nn.decode import *
    from polyreme.nn.layer import *
    from polyreme.nn.layers import activation, common, conv, loss, norm, pooling, rnn, transformer, vision  # noqa: F401
    from polyreme.nn.layers.activation import *
    from polyreme.nn.layers.common import *
    from polyreme.nn.layers.conv import *
    from polyreme.nn.layers.loss import *
    from polyreme.nn.layers.norm import *
    from polyreme.nn.layers.pooling import *
    from polyreme.nn.layers.rnn import *
    from polyreme.nn.layers.transformer import *
    from polyreme.nn.layers.vision import *
else:
    # Not for type checkers, which would take any name for one that there is.
    _absent = absent_from(__name__)

    def __getattr__(name: str) -> Any:
        if name in _PARTS:
            value = importlib.import_module(_PARTS[name])
        elif name == "__all__":
            value = ["functional", "initializer", "quant", "utils", *(n for part in _EXPORTERS for n in _exporter(part).__all__)]
        else:
            exporter = None if name.startswith("_") else next((e for e in map(_exporter, _EXPORTERS) if name in e.__all__), None)
            value = _absent(name) if exporter is None else getattr(exporter, name)
        # From now on an ordinary global.
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(__getattr__("__all__"))

    def _exporter(part: str) -> Any:
        return importlib.import_module(_PARTS[part])
