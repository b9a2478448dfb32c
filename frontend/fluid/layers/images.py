"""Images and volumes: convolutions, pools, other sizes, borders, norms of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme.fluid.initializer import Constant, Normal
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.param_attr import ParamAttr
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = [
    "adaptive_pool2d", "affine_channel", "conv2d_transpose", "conv3d", "conv3d_transpose", "grid_sampler", "group_norm", "image_resize",
    "image_resize_short", "instance_norm", "lrn", "pad", "pad2d", "pixel_shuffle", "pool3d", "prelu", "resize_bilinear", "resize_nearest",
    "resize_trilinear", "shuffle_channel",
]  # fmt: skip


def _made(type: str, slots: dict[str, Any], attrs: dict[str, Any], dtype: Any, slot: str = "Out", name: str | None = None) -> Any:
    """The result of one operator."""
    helper = LayerHelper(type, name=name)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type, slots, {slot: out}, attrs)
    return out


def _many(value: Any, count: int, what: str) -> list[int]:
    found = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)] * count
    if len(found) != count:
        raise ValueError(f"expected one number or {count} as {what} but got {list(value)}")
    return found


def _padding(value: Any, count: int) -> tuple[list[int], str]:
    """Paddings of the `count` last axes, and how they are found."""
    if isinstance(value, str):
        if value.upper() not in ("SAME", "VALID"):
            raise ValueError(f"Unknown padding: '{value}'. It can only be 'SAME' or 'VALID'.")
        return [0] * count, value.upper()
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, (list, tuple)) for v in value):
            return [int(n) for pair in value[2:] for n in pair], "EXPLICIT"
        return [int(v) for v in value], "EXPLICIT"
    return [int(value)] * count, "EXPLICIT"


# --- convolutions and pools


@takes("input")
def conv3d(
    input: Any, num_filters: int, filter_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int | None = None,
    param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None, name: str | None = None,
    data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """3-D convolution with filters [num_filters, channels / groups, *filter_size] and a bias per filter."""
    if data_format not in ("NCDHW", "NDHWC"):
        raise ValueError(f"Attr(data_format) should be 'NCDHW' or 'NDHWC'. Received Attr(data_format): {data_format}.")
    channel_last = data_format == "NDHWC"
    channels, split = input.shape[4 if channel_last else 1], groups or 1
    if channels % split or num_filters % split:
        raise ValueError(f"conv3d expected channels and filters that {split} groups divide but got {channels} and {num_filters}")
    helper = LayerHelper("conv3d", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    window = _many(filter_size, 3, "filter_size")
    start = Normal(0.0, math.sqrt(2.0 / (window[0] * window[1] * window[2] * channels)))
    weight = helper.create_parameter(
        helper.param_attr, [num_filters, channels // split, *window], input.dtype, default_initializer=start
    )
    paddings, algorithm = _padding(padding, 3)
    attrs = {
        "strides": _many(stride, 3, "stride"), "paddings": paddings, "dilations": _many(dilation, 3, "dilation"), "groups": split,
        "use_cudnn": use_cudnn, "use_mkldnn": False, "padding_algorithm": algorithm, "data_format": data_format,
    }  # fmt: skip
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("conv3d", {"Input": input, "Filter": weight}, {"Output": out}, attrs)
    return helper.append_activation(helper.append_bias_op(out, *((4, 5) if channel_last else (1, 2))))


@takes("input")
def conv2d_transpose(
    input: Any, num_filters: int, output_size: Any = None, filter_size: Any = None, padding: Any = 0, stride: Any = 1, dilation: Any = 1,
    groups: int | None = None, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None,
    name: str | None = None, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """The transpose of a 2-D convolution, with filters [channels, num_filters / groups, *filter_size] and a bias per filter. The filters
    are as large as the output needs where only `output_size` is told.
    """
    depthwise = input.shape[3 if data_format == "NHWC" else 1] == groups == num_filters and not use_cudnn
    return _transposed(
        "depthwise_conv2d_transpose" if depthwise else "conv2d_transpose", 2, input, num_filters, output_size, filter_size, padding, stride,
        dilation, groups, param_attr, bias_attr, use_cudnn, act, name, data_format,
    )  # fmt: skip


@takes("input")
def conv3d_transpose(
    input: Any, num_filters: int, output_size: Any = None, filter_size: Any = None, padding: Any = 0, stride: Any = 1, dilation: Any = 1,
    groups: int | None = None, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None,
    name: str | None = None, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """The transpose of a 3-D convolution, as `conv2d_transpose`."""
    return _transposed(
        "conv3d_transpose", 3, input, num_filters, output_size, filter_size, padding, stride, dilation, groups, param_attr, bias_attr,
        use_cudnn, act, name, data_format,
    )  # fmt: skip


def _transposed(
    type: str, rank: int, input: Any, num_filters: int, output_size: Any, filter_size: Any, padding: Any, stride: Any, dilation: Any,
    groups: int | None, param_attr: Any, bias_attr: Any, use_cudnn: bool, act: str | None, name: str | None, data_format: str,
) -> Any:  # fmt: skip
    """The transpose of a convolution over the `rank` axes of pixels."""
    first, last = ("NCHW", "NHWC") if rank == 2 else ("NCDHW", "NDHWC")
    if data_format not in (first, last):
        raise ValueError(f"Attr(data_format) of {type} should be '{first}' or '{last}' but got {data_format}.")
    channel_last = data_format == last
    channels, split = input.shape[-1 if channel_last else 1], 1 if groups is None else groups
    if split <= 0:
        raise ValueError(f"Attr(groups) should be greater than 0 but got {groups}.")
    helper = LayerHelper(type, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    paddings, algorithm = _padding(padding, rank)
    strides, dilations = _many(stride, rank, "stride"), _many(dilation, rank, "dilation")
    sizes = [] if output_size is None else _many(output_size, rank, "output_size")
    if filter_size is None:
        if not sizes:
            raise ValueError("output_size must be set when filter_size is None")
        around = paddings if len(paddings) == 2 * rank else [p for p in paddings for _ in range(2)]
        before = input.shape[1:-1] if channel_last else input.shape[2:]
        window = [
            (sizes[i] - (before[i] - 1) * strides[i] + around[2 * i] + around[2 * i + 1] - 1) // dilations[i] + 1 for i in range(rank)
        ]
    else:
        window = _many(filter_size, rank, "filter_size")
    weight = helper.create_parameter(helper.param_attr, [channels, num_filters // split, *window], input.dtype)
    attrs = {
        "output_size": sizes, "strides": strides, "paddings": paddings, "padding_algorithm": algorithm, "dilations": dilations,
        "groups": split, "use_cudnn": use_cudnn, "data_format": "NHWC" if channel_last else "NCHW",
    }  # fmt: skip
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(type, {"Input": input, "Filter": weight}, {"Output": out}, attrs)
    return helper.append_activation(helper.append_bias_op(out, *((rank + 1, rank + 2) if channel_last else (1, 2))))


@takes("input")
def pool3d(
    input: Any, pool_size: Any = -1, pool_type: str = "max", pool_stride: Any = 1, pool_padding: Any = 0, global_pooling: bool = False,
    use_cudnn: bool = True, ceil_mode: bool = False, name: str | None = None, exclusive: bool = True, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """The largest element (`max`) or the mean (`avg`) of each window of a volume."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"Unknown Attr(pool_type): '{pool_type}'. It can only be 'max' or 'avg'.")
    if not global_pooling and pool_size == -1:
        raise ValueError(f"When Attr(global_pooling) is False, Attr(pool_size) must be passed and be a valid value. Received: {pool_size}.")
    paddings, algorithm = _padding(pool_padding, 3)
    attrs = {
        "pooling_type": pool_type, "ksize": _many(pool_size, 3, "pool_size"), "global_pooling": global_pooling,
        "strides": _many(pool_stride, 3, "pool_stride"), "paddings": paddings, "padding_algorithm": algorithm, "use_cudnn": use_cudnn,
        "ceil_mode": ceil_mode, "use_mkldnn": False, "exclusive": exclusive, "data_format": data_format,
    }  # fmt: skip
    return _made("pool3d", {"X": input}, attrs, input.dtype, name=name)


@takes("input")
def adaptive_pool2d(
    input: Any, pool_size: Any, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """The largest element or the mean of as many windows as `pool_size` says."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"Unknown pool_type: '{pool_type}'. It can only be 'max' or 'avg'.")
    if pool_type == "avg" and require_index:
        raise ValueError("invalid setting 'require_index' true when 'pool_type' is 'avg'.")
    if require_index:
        raise NotImplementedError("expected require_index=False of adaptive_pool2d: where the largest elements stand is not computed here")
    type = "max_pool2d_with_index" if pool_type == "max" else "pool2d"
    helper = LayerHelper(type, name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    attrs = {"ksize": _many(pool_size, 2, "pool_size"), "adaptive": True}
    if pool_type == "avg":
        helper.append_op(type, {"X": input}, {"Out": out}, {**attrs, "pooling_type": "avg"})
        return out
    mask = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    helper.append_op(type, {"X": input}, {"Out": out, "Mask": mask}, attrs)
    return out


# --- in another size


@takes("input")
def image_resize(
    input: Any, out_shape: Any = None, scale: Any = None, name: str | None = None, resample: str = "BILINEAR", actual_shape: Any = None,
    align_corners: bool = True, align_mode: int = 1, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """An image or volume of the sizes `out_shape`, or `scale` times as large, between whose pixels those of the result are read."""
    ranks = {"BILINEAR": 4, "NEAREST": 4, "TRILINEAR": 5}
    if resample not in ranks:
        raise ValueError("The 'resample' of image_resize can only be 'BILINEAR', 'TRILINEAR' or 'NEAREST' currently.")
    if len(input.shape) != ranks[resample]:
        raise ValueError(f"'{resample}' only support {ranks[resample]}-D tensor.")
    if not isinstance(align_corners, bool):
        raise TypeError("Attr align_corners should be a bool value")
    if align_mode not in (0, 1):
        raise ValueError("align_mode can only be 0 or 1")
    if out_shape is None and scale is None:
        raise ValueError("One of out_shape and scale must not be None.")
    layouts = ("NCHW", "NHWC") if ranks[resample] == 4 else ("NCDHW", "NDHWC")
    if data_format not in layouts:
        raise ValueError(f"Got wrong value for param `data_format`: {data_format} received but only {' or '.join(layouts)} supported.")
    type = f"{resample.lower()}_interp"
    helper = LayerHelper(type, name=name)
    slots: dict[str, Any] = {"X": input, "OutSize": actual_shape}
    attrs: dict[str, Any] = {
        "out_d": -1, "out_h": -1, "out_w": -1, "interp_method": resample.lower(), "align_corners": align_corners,
        "align_mode": align_mode, "data_layout": "NHWC" if data_format.endswith("C") else "NCHW",
    }  # fmt: skip
    axes = ["out_d", "out_h", "out_w"][5 - ranks[resample] :]
    if out_shape is None:
        if isinstance(scale, Tensor):
            slots["Scale"] = scale
        elif scale <= 0:
            raise ValueError("Attr(scale) should be greater than zero.")
        else:
            attrs["scale"] = float(scale)
    elif isinstance(out_shape, Tensor):
        slots["OutSize"] = actual_shape or out_shape
    else:
        if len(out_shape) != len(axes):
            raise ValueError(f"out_shape length should be {len(axes)} for input {ranks[resample]}-D tensor.")
        if any(isinstance(size, Tensor) for size in out_shape):
            slots["SizeTensor"] = [s if isinstance(s, Tensor) else helper.constant([1], "int32", s) for s in out_shape]
        else:
            attrs.update(zip(axes, map(int, out_shape), strict=True))
    return _made(type, slots, attrs, input.dtype, name=name)


def resize_bilinear(
    input: Any, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True,
    align_mode: int = 1, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """`image_resize` by lines between the four pixels around."""
    return image_resize(input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_trilinear(
    input: Any, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True,
    align_mode: int = 1, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """`image_resize` by lines between the eight elements of a volume around."""
    return image_resize(input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_nearest(
    input: Any, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True,
    data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """`image_resize` by the nearest pixel."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, 1, data_format)


def image_resize_short(input: Any, out_short_len: int, resample: str = "BILINEAR") -> Any:
    """An image whose shorter side gets this size, and the other one in proportion."""
    if len(input.shape) != 4:
        raise ValueError("The rank of input must be 4 (num_batches, channels, in_h, in_w).")
    sides = [int(s) for s in input.shape[2:4]]
    short = sides.index(min(sides))
    sizes = [int(side * (out_short_len / sides[short]) + 0.5) for side in sides]
    sizes[short] = out_short_len
    return image_resize(input, sizes, resample=resample)


# --- borders and places


@takes("x")
def pad(x: Any, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Any:
    """With so many elements before and behind along each axis, all `pad_value`."""
    return _made("pad", {"X": x}, {"paddings": list(paddings), "pad_value": float(pad_value)}, x.dtype, name=name)


@takes("input")
def pad2d(
    input: Any, paddings: Any = [0, 0, 0, 0], mode: str = "constant", pad_value: float = 0.0, data_format: str = "NCHW",  # noqa: B006  # read only
    name: str | None = None,
) -> Any:  # fmt: skip
    """Images with `paddings` above, below, left and right: `constant`, or what `reflect` or `edge` make of the pixels there."""
    slots, attrs = {"X": input}, {"mode": mode, "pad_value": float(pad_value), "data_format": data_format}
    if isinstance(paddings, Tensor):
        slots["Paddings"] = paddings
    else:
        attrs["paddings"] = list(paddings)
    return _made("pad2d", slots, attrs, input.dtype, name=name)


@takes("x")
def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    """[N, C * r * r, H, W] as [N, C, H * r, W * r], with r the `upscale_factor`."""
    if not isinstance(upscale_factor, int):
        raise TypeError("upscale factor must be int type")
    return _made("pixel_shuffle", {"X": x}, {"upscale_factor": upscale_factor}, x.dtype)


@takes("x")
def shuffle_channel(x: Any, group: int, name: str | None = None) -> Any:
    """The first channel of each of `group` groups, then the second ones, and so on."""
    if not isinstance(group, int):
        raise TypeError("group must be int type")
    return _made("shuffle_channel", {"X": x}, {"group": group}, x.dtype, name=name)


@takes("x", "grid")
def grid_sampler(x: Any, grid: Any, name: str | None = None) -> Any:
    """Images read at the places `grid` [N, H, W, 2], from -1 to 1 from border to border."""
    return _made("grid_sampler", {"X": x, "Grid": grid}, {}, x.dtype, "Output", name)


# --- norms of channels


@takes("input")
def group_norm(
    input: Any, groups: int, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, act: str | None = None,
    data_layout: str = "NCHW", name: str | None = None,
) -> Any:  # fmt: skip
    """(input - mean) / sqrt(variance + epsilon), mean and variance of each of `groups` groups of channels; times a scale per channel where
    `param_attr` is given, plus a bias where `bias_attr` is.
    """
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"Param(data_layout) of Op(fluid.layers.group_norm) got wrong value: received {data_layout} but only NCHW or NHWC")
    helper = LayerHelper("group_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    channels = [input.shape[1 if data_layout == "NCHW" else -1]]
    slots = {"X": input}
    if param_attr:
        slots["Scale"] = helper.create_parameter(helper.param_attr, channels, input.dtype, default_initializer=Constant(1.0))
    if bias_attr:
        slots["Bias"] = helper.create_parameter(helper.bias_attr, channels, input.dtype, is_bias=True)
    out, mean, variance = (helper.create_variable_for_type_inference(input.dtype, stop_gradient=i > 0) for i in range(3))
    attrs = {"epsilon": epsilon, "groups": groups, "data_layout": data_layout}
    helper.append_op("group_norm", slots, {"Y": out, "Mean": mean, "Variance": variance}, attrs)
    return helper.append_activation(out)


@takes("input")
def instance_norm(
    input: Any, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, name: str | None = None
) -> Any:
    """(input - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance of each channel of each example."""
    if param_attr is False:
        raise ValueError("param_attr must not be False in instance_norm.")
    helper = LayerHelper("instance_norm", param_attr=param_attr, bias_attr=bias_attr, name=name)
    channels = [input.shape[1]]
    scale = helper.create_parameter(helper.param_attr, channels, input.dtype, default_initializer=Constant(1.0))
    bias = helper.create_parameter(helper.bias_attr, channels, input.dtype, is_bias=True)
    out, mean, variance = (helper.create_variable_for_type_inference(input.dtype, stop_gradient=i > 0) for i in range(3))
    outputs = {"Y": out, "SavedMean": mean, "SavedVariance": variance}
    helper.append_op("instance_norm", {"X": input, "Scale": scale, "Bias": bias}, outputs, {"epsilon": epsilon})
    return out


@takes("input")
def lrn(
    input: Any, n: int = 5, k: float = 1.0, alpha: float = 1e-4, beta: float = 0.75, name: str | None = None, data_format: str = "NCHW"
) -> Any:
    """input / (k + alpha * s) ** beta, with s the sum of the squares of `n` neighbouring channels."""
    if len(input.shape) != 4:
        raise ValueError(f"Input's dimension size of Op(lrn) must be 4, but received {len(input.shape)}.")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"Attr(data_format) of Op(lrn) got wrong value: received {data_format} but only NCHW or NHWC supported.")
    helper = LayerHelper("lrn", name=name)
    out, middle = (helper.create_variable_for_type_inference(input.dtype, stop_gradient=i > 0) for i in range(2))
    attrs = {"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format}
    helper.append_op("lrn", {"X": input}, {"Out": out, "MidOut": middle}, attrs)
    return out


@takes("x")
def affine_channel(
    x: Any, scale: Any = None, bias: Any = None, data_layout: str = "NCHW", name: str | None = None, act: str | None = None
) -> Any:
    """x * scale + bias, one of each per channel."""
    helper = LayerHelper("affine_channel", name=name, act=act)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("affine_channel", {"X": x, "Scale": scale, "Bias": bias}, {"Out": out}, {"data_layout": data_layout})
    return helper.append_activation(out)


@takes("x")
def prelu(x: Any, mode: str, param_attr: Any = None, name: str | None = None) -> Any:
    """x where it is positive, elsewhere times a parameter: one in all, one per `channel`, or one per `element`; 0.25 at first."""
    if mode not in ("all", "channel", "element"):
        raise ValueError("mode should be one of all, channel, element.")
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    shape = [1]
    if mode == "channel":
        shape = [1, x.shape[1], 1, 1]
    elif mode == "element":
        shape = [1, *x.shape[1:]]
    alpha = helper.create_parameter(
        ParamAttr.to_attr(param_attr), shape, "float32", is_bias=False, default_initializer=Constant(0.25)
    )
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("prelu", {"X": x, "Alpha": alpha}, {"Out": out}, {"mode": mode})
    return out


__dir__ = listed(__name__)
