"""`paddle.nn.quant`: the layers that quantised models are made of, and products with weights in eight bits."""

from polyreme.names import listed
from polyreme.nn.quant.stub import Stub
from polyreme.nn.quant.weights import llm_int8_linear, weight_dequantize, weight_only_linear, weight_quantize

__all__ = ["Stub", "llm_int8_linear", "weight_dequantize", "weight_only_linear", "weight_quantize"]

__dir__ = listed(__name__)
