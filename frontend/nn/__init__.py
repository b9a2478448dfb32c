"""`paddle.nn`: layers, and what they are made of."""

import importlib
from typing import TYPE_CHECKING

from polyreme.names import absent_from
from polyreme.nn import clip, container, decode, functional, initializer, layer, utils
from polyreme.nn.clip import *
from polyreme.nn.container import *
from polyreme.nn.decode import *
from polyreme.nn.layer import *
from polyreme.nn.layers import activation, common, conv, loss, norm, pooling, rnn, transformer, vision
from polyreme.nn.layers.activation import *
from polyreme.nn.layers.common import *
from polyreme.nn.layers.conv import *
from polyreme.nn.layers.loss import *
from polyreme.nn.layers.norm import *
from polyreme.nn.layers.pooling import *
from polyreme.nn.layers.rnn import *
from polyreme.nn.layers.transformer import *
from polyreme.nn.layers.vision import *

__all__ = ["functional", "initializer", "quant", "utils"]
__all__ += clip.__all__
__all__ += container.__all__
__all__ += decode.__all__
__all__ += layer.__all__
__all__ += activation.__all__
__all__ += common.__all__
__all__ += conv.__all__
__all__ += loss.__all__
__all__ += norm.__all__
__all__ += pooling.__all__
__all__ += rnn.__all__
__all__ += transformer.__all__
__all__ += vision.__all__

if TYPE_CHECKING:
    from polyreme.nn import quant
else:
    # Not for type checkers, which would take any name for one that there is.
    _absent = absent_from(__name__)

    def __getattr__(name):
        # Few models are quantised: what does it loads when it is asked for.
        return importlib.import_module("polyreme.nn.quant") if name == "quant" else _absent(name)
