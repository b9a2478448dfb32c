"""Features of images, pairs and steps: rearranged, put together, normed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme.fluid.initializer import Constant, Normal
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import made, takes
from polyreme.fluid.layers.images import _many
from polyreme.fluid.param_attr import ParamAttr
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = [
    "adaptive_pool3d", "affine_grid", "bilinear_tensor_product", "fsp_matrix",
    "inplace_abn", "similarity_focus", "space_to_depth", "spectral_norm", "temporal_shift", "unfold",
]  # fmt: skip


# --- rearranged


@takes("x")
def space_to_depth(x: Any, blocksize: int, name: str | None = None) -> Any:
    """[N, C, H, W] as [N, C * size * size, H / size, W / size], in the order of Darknet's, as in Paddle."""
    if not isinstance(blocksize, int):
        raise ValueError("blocksize must be a python Int")
    return made("space_to_depth", {"X": x}, {"blocksize": blocksize}, x.dtype, name=name)


@takes("x")
def temporal_shift(x: Any, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Any:
    """[N * seg_num, C, H, W], of which a share of the channels is moved one step on, another one step back."""
    if not isinstance(seg_num, int):
        raise TypeError("seg_num must be int type.")
    return made("temporal_shift", {"X": x}, {"seg_num": seg_num, "shift_ratio": shift_ratio}, x.dtype, name=name)


@takes("x")
def unfold(
    x: Any, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None
) -> Any:
    """The windows of images [N, C, H, W] as columns [N, C * elements, windows]."""
    around = paddings if isinstance(paddings, int) else list(paddings)
    if isinstance(around, list) and len(around) not in (2, 4):
        raise ValueError("paddings should either be an integer or a list of 2 or 4 integers")
    attrs = {
        "kernel_sizes": _many(kernel_sizes, 2, "kernel_sizes"), "strides": _many(strides, 2, "strides"),
        "paddings": [around] * 4 if isinstance(around, int) else around * (4 // len(around)),
        "dilations": _many(dilations, 2, "dilations"),
    }  # fmt: skip
    return made("unfold", {"X": x}, attrs, x.dtype, "Y", name=name)


@takes("theta")
def affine_grid(theta: Any, out_shape: Any, name: str | None = None) -> Any:
    """Where the pixels of images of `out_shape` [N, C, H, W] are read, by matrices [N, 2, 3], [N, H, W, 2] from -1 to 1."""
    if not isinstance(out_shape, (list, tuple, Tensor)):
        raise ValueError("The out_shape should be a list, tuple or Variable.")
    by_variable = isinstance(out_shape, Tensor)
    slots = {"Theta": theta, "OutputShape": out_shape if by_variable else None}
    return made("affine_grid", slots, {} if by_variable else {"output_shape": list(out_shape)}, theta.dtype, "Output", name=name)


# --- put together


@takes("x", "y")
def fsp_matrix(x: Any, y: Any) -> Any:
    """The means over the pixels of the products of each channel of `x` and each of `y`, [N, channels, channels]."""
    return made("fsp", {"X": x, "Y": y}, {}, x.dtype)


@takes("input")
def similarity_focus(input: Any, axis: int, indexes: Sequence[int], name: str | None = None) -> Any:
    """A mask of `input` [N, A, B, C]: ones where a slice along `axis`, at one of `indexes`, has its greatest element, and then the greatest
    one of the rows and columns that are left.
    """
    if axis not in (1, 2, 3):
        raise ValueError("axis must be 1, 2 or 3.")
    if len(indexes) == 0:
        raise ValueError("indexes can not be empty.")
    return made("similarity_focus", {"X": input}, {"axis": axis, "indexes": list(indexes)}, input.dtype, name=name, fixed=True)


@takes("x", "y")
def bilinear_tensor_product(
    x: Any, y: Any, size: int, act: str | None = None, name: str | None = None, param_attr: Any = None, bias_attr: Any = None
) -> Any:
    """x W_i y of each row, for `size` matrices W_i, plus a bias [1, size], [N, size]."""
    helper = LayerHelper("bilinear_tensor_product", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    weight = helper.create_parameter(helper.param_attr, [size, x.shape[1], y.shape[1]], x.dtype)
    slots = {"X": x, "Y": y, "Weight": weight, "Bias": helper.create_parameter(helper.bias_attr, [1, size], x.dtype, is_bias=True)}
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("bilinear_tensor_product", slots, {"Out": out})
    return helper.append_activation(out)


# --- convolutions, pools and norms


@takes("input")
def adaptive_pool3d(
    input: Any, pool_size: Any, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """The greatest element or the mean of as many windows of a volume as `pool_size` says."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"Unknown pool_type: '{pool_type}'. It can only be 'max' or 'avg'.")
    if pool_type == "avg" and require_index:
        raise ValueError("invalid setting 'require_index' true when 'pool_type' is 'avg'.")
    if require_index:
        raise NotImplementedError("expected require_index=False of adaptive_pool3d: where the greatest elements stand is not computed here")
    attrs = {"ksize": _many(pool_size, 3, "pool_size"), "adaptive": True}
    if pool_type == "avg":
        return made("pool3d", {"X": input}, {**attrs, "pooling_type": "avg"}, input.dtype, name=name)
    return made("max_pool3d_with_index", {"X": input}, attrs, input.dtype, name=name)


@takes("weight")
def spectral_norm(weight: Any, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Any:
    """`weight` divided by its greatest singular value, as power iterations find it from two vectors that the startup program draws."""
    helper = LayerHelper("spectral_norm", name=name)
    rows = weight.shape[dim]
    sizes = rows, math.prod(weight.shape) // rows
    u, v = (
        helper.create_parameter(ParamAttr(), [n], weight.dtype, default_initializer=Normal(0.0, 1.0), stop_gradient=True) for n in sizes
    )
    out = helper.create_variable_for_type_inference(weight.dtype)
    attrs = {"dim": dim, "power_iters": power_iters, "eps": eps}
    helper.append_op("spectral_norm", {"Weight": weight, "U": u, "V": v}, {"Out": out}, attrs)
    return out


@takes("input")
def inplace_abn(
    input: Any, act: str | None = None, is_test: bool = False, momentum: Any = 0.9, epsilon: float = 1e-05, param_attr: Any = None,
    bias_attr: Any = None, data_layout: str = "NCHW", name: str | None = None, moving_mean_name: str | None = None,
    moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True, use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Any:  # fmt: skip
    """`batch_norm` with an activation (none, `identity`, `leaky_relu` or `elu` of `act_alpha`). `input` stays as it is."""
    if act not in (None, "identity", "leaky_relu", "elu"):
        raise ValueError(f"inplace_abn only support act as None, 'identity', 'leaky_relu', 'elu' currently but got {act!r}")
    if bias_attr is False:
        raise ValueError("bias_attr should not be False in inplace_abn.")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError("unsupported data layout:" + data_layout)
    helper = LayerHelper("inplace_abn", param_attr=param_attr, bias_attr=bias_attr, name=name)
    channels = [input.shape[1 if data_layout == "NCHW" else -1]]
    scale = helper.create_parameter(helper.param_attr, channels, input.dtype, default_initializer=Constant(1.0))
    bias = helper.create_parameter(helper.bias_attr, channels, input.dtype, is_bias=True)
    mean, variance = (
        helper.create_parameter(
            ParamAttr(
                name=called, initializer=Constant(value), trainable=False, do_model_average=do_model_average_for_mean_and_var
            ),
            channels, input.dtype, stop_gradient=True,
        )
        for called, value in ((moving_mean_name, 0.0), (moving_variance_name, 1.0))
    )  # fmt: skip
    slots = {"X": input, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance}
    attrs: dict[str, Any] = {
        "epsilon": epsilon, "is_test": is_test, "data_layout": data_layout, "use_mkldnn": False, "fuse_with_relu": False,
        "use_global_stats": use_global_stats,
    }  # fmt: skip
    if isinstance(momentum, Tensor):
        slots["MomentumTensor"] = momentum
    else:
        attrs["momentum"] = momentum
    saved = [helper.create_variable_for_type_inference(input.dtype, stop_gradient=True) for _ in range(2)]
    out = helper.create_variable_for_type_inference(input.dtype)
    outputs = {"Y": out, "MeanOut": mean, "VarianceOut": variance, "SavedMean": saved[0], "SavedVariance": saved[1]}
    helper.append_op("batch_norm", slots, outputs, attrs)
    if act in ("leaky_relu", "elu"):
        return made(act, {"X": out}, {"alpha": act_alpha}, input.dtype)
    return out


__dir__ = listed(__name__)
