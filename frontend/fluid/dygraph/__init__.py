"""`fluid.dygraph`: functions that run at once, Layers, and cells of recurrent nets."""

from polyreme.fluid.dygraph import base, rnn
from polyreme.fluid.dygraph.base import disable_dygraph, enable_dygraph, enabled, grad, guard, no_grad, to_variable
from polyreme.fluid.dygraph.checkpoint import load_dygraph, save_dygraph
from polyreme.fluid.dygraph.rnn import GRUCell, LSTMCell
from polyreme.names import listed
from polyreme.nn import Layer, LayerList, ParameterList, Sequential

__all__ = [
    "GRUCell", "LSTMCell", "Layer", "LayerList", "ParameterList", "Sequential", "base", "disable_dygraph", "disable_imperative",
    "enable_dygraph", "enable_imperative", "enabled", "grad", "guard", "load_dygraph", "no_grad", "rnn", "save_dygraph", "to_variable",
]  # fmt: skip

enable_imperative, disable_imperative = enable_dygraph, disable_dygraph

__dir__ = listed(__name__)
