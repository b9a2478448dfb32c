"""`fluid.nets`: some layers together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.fluid import layers
from polyreme.names import listed

__all__ = ["glu", "img_conv_group", "scaled_dot_product_attention", "sequence_conv_pool", "simple_img_conv_pool"]


def simple_img_conv_pool(
    input: Any, num_filters: int, filter_size: Any, pool_size: Any, pool_stride: Any, pool_padding: Any = 0, pool_type: str = "max",
    global_pooling: bool = False, conv_stride: Any = 1, conv_padding: Any = 0, conv_dilation: Any = 1, conv_groups: int = 1,
    param_attr: Any = None, bias_attr: Any = None, act: str | None = None, use_cudnn: bool = True,
) -> Any:  # fmt: skip
    """A convolution, then pooling."""
    made = layers.conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr, bias_attr, use_cudnn, act
    )
    return layers.pool2d(made, pool_size, pool_type, pool_stride, pool_padding, global_pooling, use_cudnn)


def img_conv_group(
    input: Any, conv_num_filter: Sequence[int], pool_size: Any, conv_padding: Any = 1, conv_filter_size: Any = 3,
    conv_act: str | None = None, param_attr: Any = None, conv_with_batchnorm: Any = False, conv_batchnorm_drop_rate: Any = 0.0,
    pool_stride: Any = 1, pool_type: str = "max", use_cudnn: bool = True,
) -> Any:  # fmt: skip
    """Convolutions one after the other, each with its batch normalization and dropout where asked for, then pooling."""
    count = len(conv_num_filter)

    def each(value: Any) -> list[Any]:
        return list(value) if isinstance(value, (list, tuple)) else [value] * count

    made = input
    settings = map(each, (conv_padding, conv_filter_size, param_attr, conv_with_batchnorm, conv_batchnorm_drop_rate))
    for filters, padding, size, attr, normal, drop in zip(conv_num_filter, *settings, strict=True):
        act = None if normal else conv_act
        made = layers.conv2d(made, filters, size, padding=padding, param_attr=attr, act=act, use_cudnn=use_cudnn)
        if normal:
            made = layers.batch_norm(made, act=conv_act)
            if abs(drop) > 1e-5:
                made = layers.dropout(made, drop)
    return layers.pool2d(made, pool_size, pool_type, pool_stride, use_cudnn=use_cudnn)


def sequence_conv_pool(
    input: Any, num_filters: int, filter_size: int, param_attr: Any = None, act: str | None = "sigmoid", pool_type: str = "max",
    bias_attr: Any = None,
) -> Any:  # fmt: skip
    """A convolution along the rows of each sequence, then a row for each sequence."""
    made = layers.sequence_conv(input, num_filters, filter_size, param_attr=param_attr, act=act, bias_attr=bias_attr)
    return layers.sequence_pool(made, pool_type)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half along `dim` times the sigmoid of the second."""
    first, second = layers.split(input, 2, dim)
    return layers.elementwise_mul(first, layers.sigmoid(second))


def scaled_dot_product_attention(queries: Any, keys: Any, values: Any, num_heads: int = 1, dropout_rate: float = 0.0) -> Any:
    """softmax(queries @ keys^T / sqrt(size)) @ values, [batch, length, size] each, in `num_heads` parts, which have layers of their own."""
    if not len(queries.shape) == len(keys.shape) == len(values.shape) == 3:
        raise ValueError("Inputs queries, keys and values should all be 3-D tensors.")
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError("The hidden size of queries and keys should be the same.")
    if keys.shape[-1] % num_heads or values.shape[-1] % num_heads:
        raise ValueError(f"expected hidden sizes that {num_heads} heads divide but got {keys.shape[-1]} and {values.shape[-1]}")

    def heads(x: Any) -> Any:
        if num_heads == 1:
            return x
        made = layers.fc(x, x.shape[-1], 2, bias_attr=False)
        return layers.transpose(layers.reshape(made, [0, 0, num_heads, x.shape[-1] // num_heads]), [0, 2, 1, 3])

    q, k, v = heads(queries), heads(keys), heads(values)
    weights = layers.softmax(layers.matmul(layers.scale(q, (keys.shape[-1] // num_heads) ** -0.5), k, transpose_y=True))
    if dropout_rate:
        weights = layers.dropout(weights, dropout_rate, is_test=False)
    made = layers.matmul(weights, v)
    if num_heads == 1:
        return made
    return layers.reshape(layers.transpose(made, [0, 2, 1, 3]), [0, 0, values.shape[-1]])


__dir__ = listed(__name__)
