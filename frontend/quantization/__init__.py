"""`paddle.quantization`: models in eight bits.

Paddle's own way goes by layers: a `QuantConfig` says what observes or quantises which layers, `PTQ` (after training) and `QAT` (with
training) put observers or quanters into a model, and `convert` makes integers of the weights. `quantize_model` does all of it in one call
on the program of a model, whatever it is made of, and reports what it cost.
"""

from polyreme.names import listed
from polyreme.quantization import observers, quanters
from polyreme.quantization.base import BaseObserver, BaseQuanter, quanter
from polyreme.quantization.compare import agreement, report
from polyreme.quantization.config import QuantConfig
from polyreme.quantization.fusion import fuse_conv_bn
from polyreme.quantization.layers import PTQ, QAT
from polyreme.quantization.precision import lower_precision
from polyreme.quantization.program import QuantizedModel, quantize_model

__all__ = [
    "PTQ",
    "QAT",
    "BaseObserver",
    "BaseQuanter",
    "QuantConfig",
    "QuantizedModel",
    "agreement",
    "fuse_conv_bn",
    "lower_precision",
    "observers",
    "quanter",
    "quanters",
    "quantize_model",
    "report",
]

__dir__ = listed(__name__)
