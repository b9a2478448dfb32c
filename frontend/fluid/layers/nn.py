"""Layers with parameters, and functions of whole tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from polyreme import dtypes
from polyreme.fluid.framework import in_dygraph_mode, trains_at_once
from polyreme.fluid.initializer import Constant, Normal
from polyreme.fluid.layer_helper import LayerHelper, sizes_given
from polyreme.fluid.layers.given import takes
from polyreme.fluid.param_attr import ParamAttr
from polyreme.ir.dims import product
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = [
    "batch_norm", "conv2d", "dropout", "embedding", "expand", "expand_as", "fc", "flatten", "gather", "gaussian_random", "l2_normalize",
    "layer_norm", "matmul", "mean", "mul", "one_hot", "pool2d", "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "reshape", "scale", "scatter", "shape", "slice", "softmax", "split", "squeeze", "stack", "sum", "topk",
    "transpose", "uniform_random", "unsqueeze", "unstack",
]  # fmt: skip


def _result(helper: LayerHelper, type: str, inputs: dict[str, Any], attrs: dict[str, Any], dtype: Any, shape: Any = None) -> Any:
    """The variable `Out` of an operator."""
    out = helper.create_variable_for_type_inference(dtype, shape=shape)
    helper.append_op(type, inputs, {"Out": out}, attrs)
    return out


# --- layers


@takes("input", many=True)
def fc(
    input: Any, size: int, num_flatten_dims: int = 1, param_attr: Any = None, bias_attr: Any = None, act: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Fully connected: input @ weight + bias, of `input` as a matrix whose columns are the axes from `num_flatten_dims` on. Several inputs
    get a weight each and are summed.
    """
    helper = LayerHelper("fc", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    given = helper.multiple_input()
    dtype = helper.input_dtype()
    parts = []
    for tensor, attr in zip(given, helper.multiple_param_attr(len(given)), strict=True):
        axis = len(tensor.shape) - 1 if num_flatten_dims == -1 else num_flatten_dims
        if not 0 < axis < len(tensor.shape):
            raise ValueError(f"fc expected num_flatten_dims in [1, {len(tensor.shape)}) but got {num_flatten_dims}")
        columns = product(tensor.type.shape[axis:])
        if not isinstance(columns, int):
            raise ValueError(f"fc expected known sizes from axis {axis} on but the input has shape {list(tensor.shape)}")
        weight = helper.create_parameter(attr, [columns, size], dtype)
        parts.append(_result(helper, "mul", {"X": tensor, "Y": weight}, {"x_num_col_dims": axis, "y_num_col_dims": 1}, dtype))
    before_bias = parts[0] if len(parts) == 1 else _result(helper, "sum", {"X": parts}, {"use_mkldnn": False}, dtype)
    rank = len(given[0].shape)
    return helper.append_activation(helper.append_bias_op(before_bias, rank - 1 if num_flatten_dims == -1 else num_flatten_dims))


@takes("input")
def embedding(
    input: Any, size: Sequence[int], is_sparse: bool = False, is_distributed: bool = False, padding_idx: int | None = None,
    param_attr: Any = None, dtype: Any = "float32",
) -> Any:  # fmt: skip
    """Rows of a new table of shape `size`, at the positions in `input` [..., 1], int64."""
    helper = LayerHelper("embedding", param_attr=param_attr)
    table = helper.create_parameter(helper.param_attr, size, dtype)
    row = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    attrs = {"is_sparse": is_sparse, "is_distributed": is_distributed, "remote_prefetch": False, "padding_idx": row}
    return _result(helper, "lookup_table", {"Ids": input, "W": table}, attrs, dtype)


def _pair(value: Any, what: str) -> list[int]:
    found = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)] * 2
    if len(found) != 2:
        raise ValueError(f"expected one or two numbers as {what} but got {list(value)}")
    return found


def _padding(value: Any) -> tuple[list[int], str]:
    """Paddings of height and width, and how they are found."""
    if isinstance(value, str):
        if value.upper() not in ("SAME", "VALID"):
            raise ValueError(f"Unknown padding: '{value}'. It can only be 'SAME' or 'VALID'.")
        return [0, 0], value.upper()
    if isinstance(value, (list, tuple)) and len(value) == 4 and any(isinstance(v, (list, tuple)) for v in value):
        value = [n for pair in value[2:] for n in pair]
    return (list(map(int, value)) if isinstance(value, (list, tuple)) else [int(value)] * 2), "EXPLICIT"


@takes("input")
def conv2d(
    input: Any, num_filters: int, filter_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int | None = None,
    param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None, name: str | None = None,
    data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """2-D convolution with filters [num_filters, channels / groups, *filter_size], normal with deviation sqrt(2 / (channels * filter
    elements)) by default, and a bias per filter.
    """
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"Attr(data_format) should be 'NCHW' or 'NHWC'. Received Attr(data_format): {data_format}.")
    channel_last = data_format == "NHWC"
    channels = input.shape[3 if channel_last else 1]
    if not isinstance(channels, int) or channels < 0:
        raise ValueError(f"The channel dimmention of the input({list(input.shape)}) should be defined. Received: {channels}.")
    split = 1 if groups is None else groups
    if channels % split or num_filters % split:
        raise ValueError(f"conv2d expected channels and filters that {split} groups divide but got {channels} and {num_filters}")
    type = "depthwise_conv2d" if channels == groups and num_filters % channels == 0 and not use_cudnn else "conv2d"
    helper = LayerHelper(type, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    window = _pair(filter_size, "filter_size")
    deviation = math.sqrt(2.0 / (window[0] * window[1] * channels))
    weight = helper.create_parameter(
        helper.param_attr, [num_filters, channels // split, *window], input.dtype, default_initializer=Normal(0.0, deviation)
    )
    paddings, algorithm = _padding(padding)
    attrs = {
        "strides": _pair(stride, "stride"), "paddings": paddings, "dilations": _pair(dilation, "dilation"), "groups": split,
        "use_cudnn": use_cudnn, "use_mkldnn": False, "fuse_relu_before_depthwise_conv": False, "padding_algorithm": algorithm,
        "data_format": data_format,
    }  # fmt: skip
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(type, {"Input": input, "Filter": weight}, {"Output": out}, attrs)
    return helper.append_activation(helper.append_bias_op(out, *((3, 4) if channel_last else (1, 2))))


@takes("input")
def pool2d(
    input: Any, pool_size: Any = -1, pool_type: str = "max", pool_stride: Any = 1, pool_padding: Any = 0, global_pooling: bool = False,
    use_cudnn: bool = True, ceil_mode: bool = False, name: str | None = None, exclusive: bool = True, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """The largest element (`max`) or the mean (`avg`) of each window."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"Unknown Attr(pool_type): '{pool_type}'. It can only be 'max' or 'avg'.")
    if not global_pooling and pool_size == -1:
        raise ValueError(f"When Attr(global_pooling) is False, Attr(pool_size) must be passed and be a valid value. Received: {pool_size}.")
    paddings, algorithm = _padding(pool_padding)
    attrs = {
        "pooling_type": pool_type, "ksize": _pair(pool_size, "pool_size"), "global_pooling": global_pooling,
        "strides": _pair(pool_stride, "pool_stride"), "paddings": paddings, "padding_algorithm": algorithm, "use_cudnn": use_cudnn,
        "ceil_mode": ceil_mode, "use_mkldnn": False, "exclusive": exclusive, "data_format": data_format,
    }  # fmt: skip
    return _result(LayerHelper("pool2d", name=name), "pool2d", {"X": input}, attrs, input.dtype)


@takes("input")
def batch_norm(
    input: Any, act: str | None = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-05, param_attr: Any = None,
    bias_attr: Any = None, data_layout: str = "NCHW", in_place: bool = False, name: str | None = None,
    moving_mean_name: str | None = None, moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Any:  # fmt: skip
    """(input - mean) / sqrt(variance + epsilon) * scale + bias per channel: by the batch in training, by running means in inference."""
    helper = LayerHelper("batch_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    channels = [input.shape[1 if data_layout == "NCHW" else -1]]
    dtype = input.dtype
    scale = helper.create_parameter(helper.param_attr, channels, dtype, default_initializer=Constant(1.0))
    bias = helper.create_parameter(helper.bias_attr, channels, dtype, is_bias=True)
    running = []
    for its_name, start in ((moving_mean_name, 0.0), (moving_variance_name, 1.0)):
        attr = ParamAttr(its_name, Constant(start), trainable=False, do_model_average=do_model_average_for_mean_and_var)
        running.append(helper.create_parameter(attr, channels, dtype, stop_gradient=True))
    mean, variance = running
    saved = [helper.create_variable_for_type_inference(dtype, stop_gradient=True) for _ in range(2)]
    out = helper.create_variable_for_type_inference(dtype)
    inputs = {"X": input, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance}
    outputs = {"Y": out, "MeanOut": mean, "VarianceOut": variance, "SavedMean": saved[0], "SavedVariance": saved[1]}
    attrs = {
        "epsilon": epsilon, "is_test": is_test, "data_layout": data_layout, "use_mkldnn": False, "fuse_with_relu": False,
        "use_global_stats": use_global_stats, "momentum": momentum,
    }  # fmt: skip
    helper.append_op("batch_norm", inputs, outputs, attrs)
    return helper.append_activation(out)


@takes("input")
def layer_norm(
    input: Any, scale: bool = True, shift: bool = True, begin_norm_axis: int = 1, epsilon: float = 1e-05, param_attr: Any = None,
    bias_attr: Any = None, act: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """(input - mean) / sqrt(variance + epsilon) * scale + shift, mean and variance of the axes from `begin_norm_axis` on."""
    helper = LayerHelper("layer_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    size = [product(input.type.shape[begin_norm_axis:])]
    inputs = {"X": input}
    if scale:
        inputs["Scale"] = helper.create_parameter(helper.param_attr, size, input.dtype, default_initializer=Constant(1.0))
    if shift:
        inputs["Bias"] = helper.create_parameter(helper.bias_attr, size, input.dtype, is_bias=True)
    out, mean, variance = (helper.create_variable_for_type_inference(input.dtype, stop_gradient=i > 0) for i in range(3))
    outputs = {"Y": out, "Mean": mean, "Variance": variance}
    helper.append_op("layer_norm", inputs, outputs, {"epsilon": epsilon, "begin_norm_axis": begin_norm_axis})
    return helper.append_activation(out)


@takes("x")
def dropout(
    x: Any, dropout_prob: float, is_test: bool = False, seed: int | None = None, name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Any:  # fmt: skip
    """In training elements are 0 with this probability; in inference all are scaled by what is left, or in training with
    `upscale_in_train`. In dygraph mode it is inference since the last `eval()` of a Layer, and under `no_grad`, too.
    """
    is_test = is_test or in_dygraph_mode() and not trains_at_once()
    helper = LayerHelper("dropout", name=name)
    if not seed and helper.main_program.random_seed:
        seed = helper.main_program.random_seed
    attrs = {
        "dropout_prob": float(dropout_prob), "is_test": is_test, "fix_seed": seed is not None, "seed": seed or 0,
        "dropout_implementation": dropout_implementation,
    }  # fmt: skip
    out = helper.create_variable_for_type_inference(x.dtype)
    mask = helper.create_variable_for_type_inference("uint8", stop_gradient=True)
    helper.append_op("dropout", {"X": x}, {"Out": out, "Mask": mask}, attrs)
    return out


# --- products


@takes("x", "y")
def mul(x: Any, y: Any, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Any:
    """The product of the operands as matrices, whose rows are their first axes."""
    attrs = {"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims}
    return _result(LayerHelper("mul", name=name), "mul", {"X": x, "Y": y}, attrs, x.dtype)


@takes("x", "y")
def matmul(
    x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None
) -> Any:
    """alpha * x @ y, of the last two axes."""
    attrs = {"transpose_X": transpose_x, "transpose_Y": transpose_y, "alpha": float(alpha)}
    both_vectors = len(x.shape) == len(y.shape) == 1
    return _result(LayerHelper("matmul", name=name), "matmul", {"X": x, "Y": y}, attrs, x.dtype, [1] if both_vectors else None)


# --- reductions


@takes("x")
def mean(x: Any, name: str | None = None) -> Any:
    """The mean of all elements, [1]."""
    return _result(LayerHelper("mean", name=name), "mean", {"X": x}, {}, x.dtype, [1])


def _reduction(type: str, what: str) -> Callable[..., Any]:
    @takes("input")
    def function(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
        axes = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
        every = not axes or len(axes) == len(input.shape)
        attrs = {"dim": axes or [0], "keep_dim": keep_dim, "reduce_all": every}
        return _result(LayerHelper(type, name=name), type, {"X": input}, attrs, input.dtype, [1] if every and not keep_dim else None)

    function.__name__ = function.__qualname__ = type
    function.__doc__ = f"{what} along the axes `dim`, one or several; of all elements, [1], by default."
    return function


reduce_sum, reduce_mean = _reduction("reduce_sum", "The sum"), _reduction("reduce_mean", "The mean")
reduce_max, reduce_min = _reduction("reduce_max", "The greatest element"), _reduction("reduce_min", "The least element")
reduce_prod, reduce_all = _reduction("reduce_prod", "The product"), _reduction("reduce_all", "Whether all hold,")
reduce_any = _reduction("reduce_any", "Whether one holds,")


@takes("x", many=True)
def sum(x: Any) -> Any:
    """The sum of several tensors."""
    given = list(x) if isinstance(x, (list, tuple)) else [x]
    return _result(LayerHelper("sum"), "sum", {"X": given}, {"use_mkldnn": False}, given[0].dtype)


@takes("input")
def topk(input: Any, k: Any, name: str | None = None) -> tuple[Any, Any]:
    """The `k` greatest elements along the last axis, and where they stand, int64. No gradient flows through either."""
    helper = LayerHelper("top_k", name=name)
    values = helper.create_variable_for_type_inference(input.dtype, stop_gradient=True)
    indices = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    slots = {"X": input, "K": k} if isinstance(k, Tensor) else {"X": input}
    outputs = {"Out": values, "Indices": indices}
    helper.append_op("top_k", slots, outputs, {} if isinstance(k, Tensor) else {"k": k}, stop_gradient=True)
    return values, indices


# --- element by element


@takes("input")
def softmax(input: Any, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Any:
    """exp(input) / sum(exp(input)) along `axis`."""
    return _result(LayerHelper("softmax", name=name), "softmax", {"X": input}, {"axis": axis, "use_cudnn": use_cudnn}, input.dtype)


@takes("x")
def scale(
    x: Any, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None, name: str | None = None
) -> Any:
    """scale * x + bias, or scale * (x + bias)."""
    helper = LayerHelper("scale", act=act, name=name)
    slots = {"X": x, "ScaleTensor": scale} if isinstance(scale, Tensor) else {"X": x}
    attrs = {"bias": float(bias), "bias_after_scale": bias_after_scale, "scale": None if isinstance(scale, Tensor) else float(scale)}
    return helper.append_activation(_result(helper, "scale", slots, attrs, x.dtype))


@takes("x")
def l2_normalize(x: Any, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Any:
    """x divided by its length along `axis`."""
    helper = LayerHelper("l2_normalize", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    length = helper.create_variable_for_type_inference(x.dtype)
    place = 0 if len(x.shape) == 1 else 1 if axis is None else axis
    helper.append_op("norm", {"X": x}, {"Out": out, "Norm": length}, {"axis": place, "epsilon": epsilon})
    return out


@takes("input")
def one_hot(input: Any, depth: Any, allow_out_of_range: bool = False) -> Any:
    """1 at the position that `input` [..., 1] names and 0 elsewhere, [..., depth]."""
    helper = LayerHelper("one_hot")
    slots = {"X": input, "depth_tensor": depth} if isinstance(depth, Tensor) else {"X": input}
    attrs = {"allow_out_of_range": allow_out_of_range, "depth": None if isinstance(depth, Tensor) else depth, "dtype": dtypes.float32}
    return _result(helper, "one_hot", slots, attrs, "float32")


# --- shapes and places


def _reshaped(helper: LayerHelper, type: str, inputs: dict[str, Any], attrs: dict[str, Any], dtype: Any) -> Any:
    """The variable `Out` of an operator that also tells the shape from before."""
    out = helper.create_variable_for_type_inference(dtype)
    before = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op(type, inputs, {"Out": out, "XShape": before}, attrs)
    return out


@takes("x")
def reshape(
    x: Any, shape: Any, actual_shape: Any = None, act: str | None = None, inplace: bool = False, name: str | None = None
) -> Any:
    """The same elements in another shape: -1 is what follows from the others, 0 the size that `x` has there."""
    helper = LayerHelper("reshape2", act=act, name=name)
    slots: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if actual_shape is not None:
        slots["Shape"] = actual_shape
    if isinstance(shape, Tensor):
        slots["Shape"] = shape
    elif any(isinstance(size, Tensor) for size in shape):
        slots["ShapeTensor"] = [s if isinstance(s, Tensor) else helper.constant([1], "int32", s) for s in shape]
    else:
        attrs["shape"] = [int(s) for s in shape]
    return helper.append_activation(_reshaped(helper, "reshape2", slots, attrs, x.dtype))


@takes("x")
def transpose(x: Any, perm: Sequence[int], name: str | None = None) -> Any:
    """The axes in the order `perm`."""
    return _reshaped(LayerHelper("transpose", name=name), "transpose2", {"X": x}, {"axis": list(perm)}, x.dtype)


@takes("input")
def squeeze(input: Any, axes: Sequence[int], name: str | None = None) -> Any:
    """Without these axes of size 1; without any such axis if none is named."""
    return _reshaped(LayerHelper("squeeze", name=name), "squeeze2", {"X": input}, {"axes": list(axes)}, input.dtype)


@takes("input")
def unsqueeze(input: Any, axes: Any, name: str | None = None) -> Any:
    """With axes of size 1 at these places."""
    chosen = [axes] if isinstance(axes, int) else sizes_given(axes)
    return _reshaped(LayerHelper("unsqueeze2", name=name), "unsqueeze2", {"X": input}, {"axes": chosen}, input.dtype)


@takes("x")
def flatten(x: Any, axis: int = 1, name: str | None = None) -> Any:
    """A matrix: the axes before `axis` joined, and the others joined."""
    return _reshaped(LayerHelper("flatten", name=name), "flatten2", {"X": x}, {"axis": axis}, x.dtype)


@takes("input")
def split(input: Any, num_or_sections: Any, dim: int = -1, name: str | None = None) -> list[Any]:
    """Equal parts along `dim`, or parts of these sizes."""
    helper = LayerHelper("split", name=name)
    counted = isinstance(num_or_sections, int)
    count = num_or_sections if counted else len(num_or_sections)
    outs = [helper.create_variable_for_type_inference(input.dtype) for _ in range(count)]
    attrs = {"axis": dim, "num": count if counted else 0, "sections": [] if counted else list(num_or_sections)}
    helper.append_op("split", {"X": input}, {"Out": outs}, attrs)
    return outs


@takes("x", many=True)
def stack(x: Any, axis: int = 0, name: str | None = None) -> Any:
    """Tensors of one shape as one, along a new axis."""
    given = list(x) if isinstance(x, (list, tuple)) else [x]
    helper = LayerHelper("stack", name=name)
    out = helper.create_variable_for_type_inference(given[0].dtype)
    helper.append_op("stack", {"X": given}, {"Y": out}, {"axis": axis})
    return out


@takes("x")
def unstack(x: Any, axis: int = 0, num: int | None = None) -> list[Any]:
    """The slices along an axis, which they do not have."""
    helper = LayerHelper("unstack")
    count = x.shape[axis] if num is None else num
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in range(count)]
    helper.append_op("unstack", {"X": x}, {"Y": outs}, {"axis": axis, "num": count})
    return outs


@takes("x")
def expand(x: Any, expand_times: Sequence[int], name: str | None = None) -> Any:
    """Repeated so many times along each axis."""
    return _result(LayerHelper("expand", name=name), "expand", {"X": x}, {"expand_times": sizes_given(expand_times)}, x.dtype)


@takes("x", "target_tensor")
def expand_as(x: Any, target_tensor: Any, name: str | None = None) -> Any:
    """Repeated along each axis to the shape of another tensor."""
    return _result(LayerHelper("expand_as", name=name), "expand_as", {"X": x, "target_tensor": target_tensor}, {}, x.dtype)


@takes("input")
def slice(input: Any, axes: Sequence[int], starts: Any, ends: Any) -> Any:
    """From `starts` up to but without `ends`, along these axes."""
    attrs = {"axes": list(axes), "starts": sizes_given(starts), "ends": sizes_given(ends), "infer_flags": [1] * len(axes)}
    return _result(LayerHelper("slice"), "slice", {"Input": input}, attrs, input.dtype)


@takes("input")
def shape(input: Any) -> Any:
    """The sizes of a tensor, int32."""
    helper = LayerHelper("shape")
    out = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    helper.append_op("shape", {"Input": input}, {"Out": out}, stop_gradient=True)
    return out


@takes("input")
def gather(input: Any, index: Any, overwrite: bool = True) -> Any:
    """Rows at these positions."""
    return _result(LayerHelper("gather"), "gather", {"X": input, "Index": index}, {"overwrite": overwrite}, input.dtype)


@takes("input", "updates")
def scatter(input: Any, index: Any, updates: Any, name: str | None = None, overwrite: bool = True) -> Any:
    """`input` with the rows at these positions replaced, or added to."""
    slots = {"X": input, "Ids": index, "Updates": updates}
    return _result(LayerHelper("scatter", name=name), "scatter", slots, {"overwrite": overwrite}, input.dtype)


# --- draws


def _drawn(type: str, shape: Any, dtype: Any, attrs: dict[str, Any], seed: int, name: str | None) -> Any:
    helper = LayerHelper(type, name=name)
    slots: dict[str, Any] = {}
    if isinstance(shape, Tensor):
        slots["ShapeTensor"] = shape
    elif any(isinstance(size, Tensor) for size in shape):
        slots["ShapeTensorList"] = [s if isinstance(s, Tensor) else helper.constant([1], "int64", s) for s in shape]
    else:
        attrs["shape"] = [int(s) for s in shape]
    seed = seed or helper.main_program.random_seed
    return _result(helper, type, slots, {**attrs, "seed": seed, "dtype": dtypes.as_dtype(dtype)}, dtype)


def uniform_random(
    shape: Any, dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Any:
    """Uniform numbers in [min, max). With a `seed` other than 0 they are the same at every run."""
    return _drawn("uniform_random", shape, dtype, {"min": float(min), "max": float(max)}, seed, name)


def gaussian_random(
    shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32", name: str | None = None
) -> Any:
    """Normal numbers. With a `seed` other than 0 they are the same at every run."""
    return _drawn("gaussian_random", shape, dtype, {"mean": float(mean), "std": float(std)}, seed, name)


__dir__ = listed(__name__)
