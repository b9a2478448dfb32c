"""`paddle.static.nn`: layers as functions, which make their parameters in the current programs."""

from __future__ import annotations

from polyreme.names import absent_from, listed
from polyreme.static.control_flow import case, cond, switch_case, while_loop
from polyreme.static.host_function import py_func
from polyreme.static.nn.convolution import conv2d, conv2d_transpose, conv3d, conv3d_transpose, deform_conv2d
from polyreme.static.nn.dense import bilinear_tensor_product, embedding, fc, row_conv, sparse_embedding
from polyreme.static.nn.norm import batch_norm, data_norm, group_norm, instance_norm, layer_norm, prelu, spectral_norm
from polyreme.static.nn.sampling import nce
from polyreme.static.nn.sequence import (
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
)
from polyreme.static.nn.step import static_pylayer

__all__ = [
    "batch_norm", "bilinear_tensor_product", "case", "cond", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "data_norm",
    "deform_conv2d", "embedding", "fc", "group_norm", "instance_norm", "layer_norm", "nce", "prelu", "py_func", "row_conv",
    "sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool", "sequence_softmax",
    "sparse_embedding", "spectral_norm", "static_pylayer", "switch_case", "while_loop",
]  # fmt: skip

__getattr__, __dir__ = absent_from(__name__), listed(__name__)
