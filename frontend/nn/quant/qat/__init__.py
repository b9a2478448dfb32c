"""Layers with fake-quantised operands."""

from polyreme.nn.quant.qat.conv import QuantedConv1D, QuantedConv2D, QuantedConv3D
from polyreme.nn.quant.qat.linear import QuantedLinear

__all__ = ["QuantedConv1D", "QuantedConv2D", "QuantedConv3D", "QuantedLinear"]
