"""Operators under their older names with inputs and attributes, for Paddle (`fixtures/make_operator_values.py`) and for our table.

Attributes that a case leaves out are those that both sides take by default.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Draw:
    """An input that each case draws anew, so that it is the same whatever other cases there are."""

    kind: str
    shape: tuple[int, ...]

    def draw(self, rng: np.random.Generator) -> Array:
        if self.kind == "normal":
            return rng.standard_normal(self.shape).astype("float32")
        if self.kind == "positive":
            return (rng.random(self.shape) + 0.1).astype("float32")
        if self.kind == "unit":
            return (rng.random(self.shape) * 1.8 - 0.9).astype("float32")
        if self.kind == "whole":
            return rng.integers(1, 9, self.shape)
        if self.kind == "share":
            made = rng.random(self.shape) + 0.1
            return (made / made.sum(-1, keepdims=True)).astype("float32")
        assert self.kind == "bool"
        return rng.random(self.shape) > 0.5

    def __repr__(self) -> str:
        return f"{self.kind}{list(self.shape)}"


def normal(*shape: int) -> Draw:
    return Draw("normal", shape)


def positive(*shape: int) -> Draw:
    return Draw("positive", shape)


def unit(*shape: int) -> Draw:
    return Draw("unit", shape)


def whole(*shape: int) -> Draw:
    return Draw("whole", shape)


def booleans(*shape: int) -> Draw:
    return Draw("bool", shape)


def share(*shape: int) -> Draw:
    return Draw("share", shape)


@dataclass(frozen=True)
class Case:
    """One operator: inputs by slot, each a list of draws or arrays, attributes, and the output slots that are compared."""

    type: str
    inputs: dict[str, list[Any]]
    attrs: dict[str, Any]
    outputs: tuple[str, ...]

    @property
    def label(self) -> str:
        slots = ", ".join(f"{slot}={', '.join(_text(v) for v in values)}" for slot, values in self.inputs.items())
        return f"{self.type}({slots}; {', '.join(f'{k}={v}' for k, v in self.attrs.items())}) -> {' '.join(self.outputs)}"

    def arrays(self) -> dict[str, list[Array]]:
        rng = np.random.default_rng(zlib.crc32(self.label.encode()))
        return {slot: [v.draw(rng) if isinstance(v, Draw) else v for v in values] for slot, values in self.inputs.items()}


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, Draw) else f"{value.dtype}{value.tolist()}"


CASES: list[Case] = []


def case(type: str, attrs: dict[str, Any] | None = None, out: str = "Out", **inputs: Any) -> None:
    slots = {slot: value if isinstance(value, list) else [value] for slot, value in inputs.items()}
    CASES.append(Case(type, slots, dict(attrs or {}), tuple(out.split())))


X, M, IMAGE, VOLUME = normal(2, 3, 4), normal(3, 4), normal(2, 4, 6, 6), normal(1, 2, 4, 4, 4)
LAST = normal(2, 6, 6, 4)  # an image with channels last

# --- element by element

for name in (
    "abs ceil cos cosh erf exp expm1 floor relu sigmoid sign silu sin sinh softsign square stanh tan tanh tanh_shrink logsigmoid round "
    "trunc relu6 leaky_relu elu celu selu gelu thresholded_relu swish mish softplus hard_shrink softshrink brelu hard_sigmoid hard_swish "
    "softmax log_softmax atan asinh isfinite_v2 isinf_v2 isnan_v2 mean squared_l2_norm logsumexp p_norm scale pow cumsum assign share_data "
    "fill_any_like is_empty argsort tril_triu flatten2 reduce_sum reduce_max reduce_min reduce_prod reduce_mean reduce_amax reduce_amin "
    "frobenius_norm squeeze2"
).split():
    case(name, X=X)
for name in ("log", "log10", "log1p", "log2", "rsqrt", "sqrt", "reciprocal"):
    case(name, X=positive(2, 3))
for name in ("acos", "asin", "atanh"):
    case(name, X=unit(2, 3))
case("acosh", X=np.float32([1.0, 1.5, 9.0]))
case("increment", X=normal(1))
case("increment", {"step": 3.0}, X=normal(1))
for name in ("logical_not", "bitwise_not"):
    case(name, X=booleans(2, 3))
for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"):
    case(name, X=booleans(2, 3), Y=booleans(2, 3))
for name in ("add", "sub", "mul", "div", "max", "min", "mod", "floordiv"):
    case(f"elementwise_{name}", X=X, Y=X)
    case(f"elementwise_{name}", X=whole(2, 3), Y=whole(2, 3))
    case(f"elementwise_{name}", X=np.int64([[7, -7], [7, -7]]), Y=np.int64([[2, 2], [-2, -2]]))
    case(f"elementwise_{name}", {"axis": 0}, X=X, Y=normal(2))
    case(f"elementwise_{name}", {"axis": 1}, X=X, Y=normal(3))
for name in ("fmax", "fmin"):
    case(f"elementwise_{name}", X=np.float32([1, np.nan, 2, np.nan]), Y=np.float32([2, 1, np.nan, np.nan]))
case("elementwise_pow", X=positive(2, 3), Y=normal(2, 3))
case("elementwise_pow", X=whole(2, 3), Y=whole(2, 3))
for name in ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"):
    case(name, X=whole(2, 9), Y=whole(2, 9))
case("scale", {"scale": 2.0, "bias": 0.5, "bias_after_scale": False}, X=X)
case("scale", {"scale": 2.0, "bias": 1.0}, X=whole(2, 3))
case("pow", {"factor": 2.5}, X=positive(2, 3))
case("clip", {"min": -0.3, "max": 0.4}, X=X)
case("clip", {"min": 0.0, "max": 0.4}, X=X, Min=np.float32([-0.1]))
case("lerp", X=X, Y=X, Weight=normal(1))
case("where", Condition=booleans(2, 3), X=normal(2, 3), Y=normal(2, 3))
case("cast", {"in_dtype": 5, "out_dtype": 3}, X=np.float32([1.5, -1.5, 2.5]))
case("cast", {"in_dtype": 3, "out_dtype": 5}, X=whole(4))
case("cast", {"in_dtype": 5, "out_dtype": 0}, X=np.float32([0, -0.0, 2]))
case("sum", X=[X, X, X])
case("sum", X=[X])

# --- activations

case("gelu", {"approximate": True}, X=X)
case("softmax", {"axis": 1}, X=X)
case("log_softmax", {"axis": 0}, X=X)
case("softplus", {"beta": 2.0, "threshold": 1.0}, X=X)
case("brelu", {"t_min": -0.5, "t_max": 0.5}, X=X)
case("hard_sigmoid", {"slope": 0.1, "offset": 0.4}, X=X)
case("thresholded_relu", {"threshold": 0.3}, X=X)
case("stanh", {"scale_a": 0.5, "scale_b": 2.0}, X=X)
case("rrelu", {"is_test": True}, X=X)
case("prelu", X=X, Alpha=normal(1))
case("prelu", {"mode": "channel"}, X=IMAGE, Alpha=normal(4))
case("prelu", {"mode": "element"}, X=X, Alpha=normal(1, 3, 4))
case("maxout", {"groups": 2}, X=IMAGE)
case("swiglu", out="out", x=X, y=X)
case("swiglu", out="out", x=X)

# --- reductions and search

for attrs in ({"dim": [1]}, {"dim": [0, 2], "keep_dim": True}, {"reduce_all": True}, {"reduce_all": True, "keep_dim": True}, {"dim": []}):
    for name in ("sum", "max", "min", "prod", "mean"):
        case(f"reduce_{name}", attrs, X=X)
for name in ("any", "all"):
    case(f"reduce_{name}", X=booleans(2, 3))
    case(f"reduce_{name}", {"dim": [-1], "keep_dim": True}, X=booleans(2, 3))
case("reduce_sum", {"out_dtype": 6, "in_dtype": 5}, X=X)
case("reduce_sum", X=booleans(2, 3))
case("logsumexp", {"axis": [1], "keepdim": True}, X=X)
case("logsumexp", {"reduce_all": True}, X=X)
case("frobenius_norm", {"dim": [1, 2], "keep_dim": True}, X=X)
for order in (1.0, 2.0, 3.0, 0.0, np.inf, -np.inf):
    case("p_norm", {"porder": float(order), "axis": 1, "keepdim": True}, X=X)
case("p_norm", {"porder": 2.0, "asvector": True}, X=X)
case("norm", {"axis": 1}, "Out Norm", X=X)
for attrs in ({"axis": 1}, {"axis": 1, "exclusive": True}, {"axis": 2, "reverse": True}, {"axis": 0, "exclusive": True, "reverse": True}):
    case("cumsum", attrs, X=X)
case("cumsum", {"flatten": True}, X=X)
for name in ("arg_max", "arg_min"):
    for attrs in ({"axis": 1}, {"axis": 1, "keepdims": True, "dtype": 2}, {"axis": 0, "flatten": True}):
        case(name, attrs, X=X)
case("top_k_v2", {"k": 2}, "Out Indices", X=X)
case("top_k_v2", {"k": 2, "axis": 1, "largest": False}, "Out Indices", X=X)
case("top_k_v2", out="Out Indices", X=X)
case("top_k", {"k": 2}, "Out Indices", X=X)
case("argsort", {"axis": 1, "descending": True}, "Out Indices", X=X)
case("where_index", Condition=booleans(2, 3))
case("masked_select", out="Y", X=normal(2, 3), Mask=booleans(2, 3))

# --- products

case("matmul_v2", X=X, Y=normal(2, 4, 5))
case("matmul_v2", {"trans_y": True}, X=X, Y=X)
case("matmul_v2", X=normal(4), Y=normal(4))
case("matmul_v2", X=X, Y=normal(4))
case("matmul", {"transpose_Y": True, "alpha": 0.5}, X=X, Y=X)
case("mul", X=X, Y=normal(12, 5))
case("mul", {"x_num_col_dims": 2}, X=X, Y=normal(4, 5))
case("fc", Input=M, W=normal(4, 5), Bias=normal(5))
case("fc", {"in_num_col_dims": 2, "activation_type": "relu"}, Input=X, W=normal(4, 5), Bias=normal(5))
case("addmm", {"Alpha": 0.5, "Beta": 2.0}, Input=normal(3, 5), X=M, Y=normal(4, 5))
case("bmm", X=X, Y=normal(2, 4, 5))
case("mv", X=M, Vec=normal(4))
case("dot", X=M, Y=M)
case("kron", X=normal(2, 3), Y=normal(3, 2))
case("einsum", {"equation": "bij,bjk->bik"}, Operands=[X, normal(2, 4, 5)])

# --- convolutions and pooling

for attrs in (
    {}, {"strides": [2, 1], "paddings": [1, 2]}, {"paddings": [1, 0, 2, 1]}, {"padding_algorithm": "SAME", "strides": [2, 2]},
    {"padding_algorithm": "VALID", "paddings": [3, 3]}, {"dilations": [2, 2]},
):  # fmt: skip
    case("conv2d", attrs, "Output", Input=IMAGE, Filter=normal(6, 4, 3, 3))
case("conv2d", {"groups": 2}, "Output", Input=IMAGE, Filter=normal(6, 2, 3, 3))
case("conv2d", {"data_format": "NHWC", "paddings": [1, 1]}, "Output", Input=LAST, Filter=normal(6, 4, 3, 3))
case("depthwise_conv2d", {"groups": 4, "paddings": [1, 1]}, "Output", Input=IMAGE, Filter=normal(4, 1, 3, 3))
for attrs in ({}, {"paddings": [1, 1, 1]}):
    case("conv3d", attrs, "Output", Input=VOLUME, Filter=normal(3, 2, 2, 2, 2))
for attrs in (
    {}, {"strides": [2, 2], "paddings": [1, 1]}, {"strides": [2, 2], "output_padding": [1, 1]},
    {"strides": [2, 2], "output_size": [14, 14]}, {"padding_algorithm": "SAME", "strides": [2, 2]}, {"dilations": [2, 2]},
):  # fmt: skip
    case("conv2d_transpose", attrs, "Output", Input=IMAGE, Filter=normal(4, 5, 3, 3))
case("conv2d_transpose", {"groups": 2}, "Output", Input=IMAGE, Filter=normal(4, 2, 3, 3))
case("depthwise_conv2d_transpose", {"groups": 4, "strides": [2, 2]}, "Output", Input=IMAGE, Filter=normal(4, 1, 3, 3))
for kind in ("max", "avg"):
    for attrs in (
        {"ksize": [2, 2], "strides": [2, 2]}, {"ksize": [3, 3]}, {"ksize": [3, 3], "paddings": [1, 1], "strides": [2, 2]},
        {"ksize": [3, 3], "paddings": [1, 1], "strides": [2, 2], "exclusive": False}, {"ksize": [2, 2], "global_pooling": True},
        {"ksize": [3, 3], "strides": [2, 2], "ceil_mode": True}, {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"},
        {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 1, 1, 0]},
    ):  # fmt: skip
        case("pool2d", {"pooling_type": kind, **attrs}, X=IMAGE)
    case("pool2d", {"pooling_type": kind, "ksize": [2, 2], "strides": [2, 2], "data_format": "NHWC"}, X=LAST)
    for attrs in (
        {"ksize": [2, 2, 2], "strides": [2, 2, 2]}, {"ksize": [2, 2, 2]}, {"ksize": [3, 3, 3], "paddings": [1, 1, 1], "strides": [2, 2, 2]},
    ):  # fmt: skip
        case("pool3d", {"pooling_type": kind, **attrs}, X=VOLUME)
# Paddle 3.3.1 does not give the largest elements of adaptive windows by this operator, which its functions do not use any more.
case("pool2d", {"pooling_type": "avg", "ksize": [3, 4], "adaptive": True}, X=IMAGE)
case("pool3d", {"pooling_type": "avg", "ksize": [2, 3, 1], "adaptive": True}, X=VOLUME)
for attrs in ({"ksize": [2, 2], "strides": [2, 2]}, {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}, {"ksize": [3, 3]}):
    case("max_pool2d_with_index", attrs, "Out Mask", X=IMAGE)

# --- normalization and dropout

for attrs in ({"is_test": True, "epsilon": 1e-3}, {"use_global_stats": True}):
    case("batch_norm", attrs, "Y", X=IMAGE, Mean=normal(4), Variance=positive(4), Scale=normal(4), Bias=normal(4))
case(
    "batch_norm", {"is_test": True, "data_layout": "NHWC"}, "Y",
    X=LAST, Mean=normal(4), Variance=positive(4), Scale=normal(4), Bias=normal(4),
)  # fmt: skip
case("layer_norm", out="Y Mean Variance", X=X, Scale=normal(12), Bias=normal(12))
case("layer_norm", {"begin_norm_axis": 2, "epsilon": 1e-3}, "Y Mean Variance", X=X, Scale=normal(4), Bias=normal(4))
case("layer_norm", out="Y", X=X)
case("instance_norm", out="Y SavedMean SavedVariance", X=IMAGE, Scale=normal(4), Bias=normal(4))
case("group_norm", {"groups": 2}, "Y Mean Variance", X=IMAGE, Scale=normal(4), Bias=normal(4))
case("group_norm", {"groups": 2, "data_layout": "NHWC"}, "Y", X=LAST, Scale=normal(4), Bias=normal(4))
case("affine_channel", {"data_layout": "NCHW"}, X=IMAGE, Scale=normal(4), Bias=normal(4))
for attrs in ({}, {"dropout_prob": 0.3}, {"dropout_prob": 0.3, "dropout_implementation": "upscale_in_train"}):
    case("dropout", {"is_test": True, **attrs}, X=X)

# --- shapes

case("reshape2", {"shape": [4, -1]}, X=X)
case("reshape2", {"shape": [0, 12]}, X=X)
case("reshape2", {"shape": [6, 4]}, X=X, Shape=np.int32([6, 4]))
case("reshape2", {"shape": [6, 4]}, X=X, ShapeTensor=[np.int32([6]), np.int32([4])])
case("flatten_contiguous_range", {"start_axis": 1, "stop_axis": 2}, X=X)
for attrs in ({"axes": [0]}, {}, {"axes": [1]}):
    case("squeeze2", attrs, X=normal(1, 3, 1, 4))
case("unsqueeze2", {"axes": [0, -1]}, X=X)
case("transpose2", {"axis": [2, 0, 1]}, X=X)
case("expand_v2", {"shape": [2, -1, 4]}, X=normal(1, 3, 1))
case("expand_as_v2", {"target_shape": [2, 3, 4]}, X=normal(1, 3, 1))
case("tile", {"repeat_times": [2, 1]}, X=M)
case("tile", {"repeat_times": [2, 1, 2]}, X=M)
case("repeat_interleave", {"Repeats": 2, "dim": 1}, X=M)
case("concat", {"axis": 1}, X=[X, X])
case("concat", X=[X, X])
case("concat", {"axis": 0}, X=[X, X], AxisTensor=np.int32([2]))
case("stack", {"axis": -1}, "Y", X=[X, X])
case("stack", out="Y", X=[X, X])
case("split", {"num": 2, "axis": 2}, X=X)
case("split", {"sections": [1, -1], "axis": 2}, X=X)
case("unbind", {"axis": 1}, X=X)
case("unstack", {"axis": 1, "num": 3}, "Y", X=X)
case("meshgrid", X=[normal(2), normal(3)])
case("broadcast_tensors", X=[normal(2, 1), normal(1, 3)])
case("flip", {"axis": [0, 2]}, X=X)
case("reverse", {"axis": [1]}, X=X)
case("roll", {"shifts": [1, 2], "axis": [0, 2]}, X=X)
case("roll", {"shifts": [5]}, X=X)
case("shape", Input=X)
case("size", Input=X)

# --- slices and places

case("slice", {"axes": [1], "starts": [1], "ends": [3]}, Input=X)
case("slice", {"axes": [0, 2], "starts": [-1, 0], "ends": [9, -1]}, Input=X)
case("slice", {"axes": [1], "starts": [1], "ends": [2], "decrease_axis": [1]}, Input=X)
case("strided_slice", {"axes": [2], "starts": [3], "ends": [-9], "strides": [-2], "infer_flags": [1]}, Input=X)
case("strided_slice", {"axes": [1], "starts": [0], "ends": [3], "strides": [2], "infer_flags": [1]}, Input=X)
case("crop_tensor", {"shape": [1, 2, -1], "offsets": [1, 0, 1]}, X=X)
case("set_value", {"axes": [1], "starts": [0], "ends": [2], "steps": [1], "shape": [1], "values": [3.0], "dtype": 5}, Input=X)
case("set_value", {"axes": [1], "starts": [0], "ends": [3], "steps": [3], "dtype": 5}, Input=X, ValueTensor=normal(2, 1, 4))
case(
    "set_value", {"axes": [1], "starts": [1], "ends": [2], "steps": [1], "decrease_axes": [1], "dtype": 5},
    Input=X, ValueTensor=normal(2, 4),
)  # fmt: skip
PLACES, PAIRS = np.int64([2, 0, 1, 2, 0]), np.int64([[0, 1], [2, 2], [1, 0]])
case("gather", X=M, Index=PLACES)
case("gather", {"axis": 1}, X=M, Index=PLACES)
case("index_select", {"dim": 1}, X=M, Index=PLACES)
case("index_select", X=M, Index=PLACES)
case("gather_nd", X=X, Index=np.int64([[0, 1], [1, 2]]))
case("index_sample", X=M, Index=PAIRS)
case("take_along_axis", {"Axis": 0}, "Result", Input=M, Index=PAIRS)
case("lookup_table_v2", Ids=PLACES, W=M)
case("lookup_table_v2", {"padding_idx": 1}, Ids=PLACES, W=M)
case("lookup_table", {"padding_idx": 2}, Ids=PLACES[:, None], W=M)
case("diag_v2", {"offset": 1, "padding_value": 2.0}, X=normal(3))
case("diag_v2", {"offset": -1}, X=M)
case("scatter", X=M, Ids=np.int64([2, 0]), Updates=normal(2, 4))
case("scatter", {"overwrite": False}, X=M, Ids=np.int64([2, 0, 2]), Updates=normal(3, 4))
case("scatter_nd_add", X=M, Index=np.int64([[1], [1]]), Updates=normal(2, 4))
for how in ("assign", "add", "mul", "mean", "amax", "amin"):
    case("put_along_axis", {"Axis": 1, "Reduce": how}, "Result", Input=M, Index=np.int64([[0], [1], [3]]), Value=normal(3, 1))
case(
    "put_along_axis", {"Axis": 1, "Reduce": "add", "Include_self": False}, "Result",
    Input=M, Index=np.int64([[0], [1], [3]]), Value=normal(3, 1),
)  # fmt: skip
case("index_put", {"accumulate": True}, "out", x=M, indices=[np.int64([0, 2]), np.int64([1, 3])], value=normal(2))
case("index_add", {"axis": 0}, X=M, Index=np.int64([0, 2]), AddValue=normal(2, 4))

# --- values from nothing

case("fill_constant", {"shape": [2, 3], "value": 1.5})
case("fill_constant", {"shape": [2], "value": 2.0, "dtype": 3})
case("fill_constant", {"shape": [2], "value": 0.0, "str_value": "7", "dtype": 2})
case("fill_constant", {"shape": [], "value": 3.0})
case("fill_constant", {"shape": [2], "value": 1.0, "dtype": 0})
case("fill_constant", {"shape": [3], "value": 1.0}, ValueTensor=np.float32([4.0]))
case("fill_any_like", {"value": 2.5}, X=X)
case("fill_any_like", {"value": 2.0, "dtype": 3}, X=X)
case("fill_constant_batch_size_like", {"shape": [-1, 4], "value": 2.0, "dtype": 5}, Input=X)
case(
    "fill_constant_batch_size_like", {"shape": [1, -1], "value": 2.0, "dtype": 5, "input_dim_idx": 1, "output_dim_idx": 1}, Input=X
)
case("assign_value", {"shape": [2, 2], "dtype": 5, "values": [1.0, 2.0, 3.0, 4.0]})
case("assign_value", {"shape": [2], "dtype": 3, "values": [7, 8]})
case("range", Start=np.float32([0]), End=np.float32([2]), Step=np.float32([0.5]))
case("range", Start=np.int64([7]), End=np.int64([0]), Step=np.int64([-2]))
case("linspace", {"dtype": 5}, Start=np.float32([0]), Stop=np.float32([2]), Num=np.int32([5]))
case("eye", {"num_rows": 3})
case("eye", {"num_rows": 2, "num_columns": 4, "dtype": 3})
case("tril_triu", {"diagonal": 1, "lower": True}, X=X)
case("tril_triu", {"diagonal": -1}, X=X)
case("one_hot_v2", {"depth": 4}, X=PLACES)
case("one_hot_v2", {"depth": 4, "dtype": 3}, X=PLACES)

# --- images

for mode in ("bilinear", "nearest"):
    for edge in ("zeros", "border", "reflection"):
        for corners in (True, False):
            attrs = {"mode": mode, "padding_mode": edge, "align_corners": corners}
            case("grid_sampler", attrs, "Output", X=IMAGE, Grid=normal(2, 5, 7, 2))
case("affine_grid", {"output_shape": [2, 3, 4, 5]}, "Output", Theta=normal(2, 2, 3))
case("affine_grid", {"output_shape": [2, 3, 4, 5], "align_corners": False}, "Output", Theta=normal(2, 2, 3))
case("pad", {"paddings": [0, 1, 2, 0, 1, 1], "pad_value": 0.5}, X=X)
for mode in ("constant", "reflect", "replicate", "circular"):
    case("pad3d", {"paddings": [1, 2, 0, 1, 1, 0], "mode": mode, "value": 0.5}, X=VOLUME)
case("pad3d", {"paddings": [1, 2, 0, 1, 1, 0], "data_format": "NDHWC"}, X=normal(1, 4, 4, 4, 2))
case("pixel_shuffle", {"upscale_factor": 2}, X=IMAGE)
case("pixel_unshuffle", {"downscale_factor": 2}, X=IMAGE)
case("temporal_shift", {"seg_num": 2}, X=normal(4, 4, 2, 2))
case("channel_shuffle", {"groups": 2}, X=IMAGE)
case("shuffle_channel", {"group": 2}, X=IMAGE)
case("unfold", {"kernel_sizes": [2, 3], "strides": [1, 2], "paddings": [1, 0, 0, 1], "dilations": [1, 1]}, "Y", X=IMAGE)
for method in ("nearest", "bilinear", "bicubic"):
    for corners in (True, False):
        for target in ({"out_h": 9, "out_w": 4}, {"scale": [1.5, 2.5]}):
            case(f"{method}_interp_v2", {"interp_method": method, "align_corners": corners, "align_mode": 0, **target}, X=IMAGE)
case("bilinear_interp_v2", {"out_h": 3, "out_w": 5}, X=IMAGE)
case("linear_interp_v2", {"out_w": 8, "interp_method": "linear", "align_corners": False}, X=normal(2, 3, 5))
case("trilinear_interp_v2", {"out_d": 3, "out_h": 5, "out_w": 6, "interp_method": "trilinear", "align_corners": False}, X=VOLUME)
case("bilinear_interp", {"scale": 1.7}, X=IMAGE)
case("nearest_interp", {"scale": 2.0, "interp_method": "nearest", "align_corners": False}, X=IMAGE)

# --- losses

LOGITS, LABELS, SHARES = normal(4, 5), np.int64([[0], [4], [2], [2]]), share(4, 5)
case("softmax_with_cross_entropy", out="Softmax Loss", Logits=LOGITS, Label=LABELS)
case("softmax_with_cross_entropy", {"ignore_index": 2}, "Softmax Loss", Logits=LOGITS, Label=LABELS)
case("softmax_with_cross_entropy", {"soft_label": True}, "Softmax Loss", Logits=LOGITS, Label=SHARES)
case("softmax_with_cross_entropy", {"use_softmax": False}, "Loss", Logits=SHARES, Label=LABELS)
case("softmax_with_cross_entropy", {"axis": 1}, "Loss", Logits=normal(2, 4, 3), Label=np.int64([[[0, 1, 2]], [[3, 3, 0]]]))
TARGETS = np.float32([[0, 1, 1, 0, 1]] * 4)
case("bce_loss", X=SHARES, Label=TARGETS)
case("sigmoid_cross_entropy_with_logits", X=LOGITS, Label=TARGETS)
case("sigmoid_cross_entropy_with_logits", {"ignore_index": 0, "normalize": True}, X=LOGITS, Label=TARGETS)
for attrs in ({"reduction": "none"}, {}, {"reduction": "batchmean"}, {"reduction": "sum", "log_target": True}):
    case("kldiv_loss", attrs, "Loss", X=LOGITS, Target=SHARES)
case("huber_loss", {"delta": 0.5}, "Out Residual", X=LOGITS, Y=LOGITS)

# Operators of Paddle 1.8.5 that Paddle 3 does not declare any more, or declares otherwise.
OF_FLUID = {
    "accuracy", "adadelta", "adagrad", "adam", "adamax", "adamw", "array_to_lod_tensor", "auc", "average_accumulates", "bpr_loss",
    "clip_by_norm", "cos_sim", "cross_entropy", "cross_entropy2", "decayed_adagrad", "delete_var", "expand", "expand_as", "ftrl",
    "get_tensor_from_selected_rows", "gru", "gru_unit", "hinge_loss", "isfinite", "isinf", "isnan", "label_smooth", "lamb", "lars_momentum",
    "lod_array_length", "lod_rank_table", "lod_reset", "lod_tensor_to_array", "log_loss", "lrn", "lstm", "lstm_unit", "lstmp",
    "margin_rank_loss", "max_sequence_len", "merge_lod_tensor", "merge_selected_rows", "momentum", "multiclass_nms2", "one_hot",
    "rank_loss", "read_from_array", "reorder_lod_tensor_by_rank", "rmsprop", "rnn_memory_helper", "select_input", "select_output",
    "sequence_concat", "sequence_conv", "sequence_enumerate", "sequence_expand", "sequence_expand_as", "sequence_mask", "sequence_pad",
    "sequence_pool", "sequence_reshape", "sequence_reverse", "sequence_slice", "sequence_softmax", "sequence_unpad", "sgd",
    "shrink_rnn_memory", "smooth_l1_loss", "soft_relu", "split_lod_tensor", "tensor_array_to_tensor", "unique_with_counts",
    "write_to_array",
}  # fmt: skip
# What no Paddle has: of these `DynamicRNN` is made.
OF_NO_PADDLE = {"kept_where_last", "rows_by_steps", "sequences_of_steps", "steps_of_sequences"}
# Labels of sequences and what they are aligned with.
OF_FLUID |= {"chunk_eval", "crf_decoding", "ctc_align", "edit_distance", "linear_chain_crf", "sequence_erase", "warpctc"}
# Windows and places in sequences.
OF_FLUID |= {"add_position_encoding", "im2sequence", "row_conv", "sequence_scatter"}
# Decoding.
OF_FLUID |= {"beam_search", "beam_search_decode", "gather_tree"}
# Those of detectors.
OF_DETECTORS = {
    "anchor_generator", "bipartite_match", "box_clip", "box_decoder_and_assign", "deformable_psroi_pooling", "density_prior_box",
    "generate_mask_labels", "generate_proposal_labels", "iou_similarity", "locality_aware_nms", "mine_hard_examples",
    "polygon_box_transform", "prroi_pool", "retinanet_detection_output", "retinanet_target_assign", "roi_perspective_transform",
    "rpn_target_assign", "sigmoid_focal_loss", "target_assign",
}  # fmt: skip
# Those of features, of places, and of classes that are many.
OF_OLDER = {
    "allclose", "bilinear_tensor_product", "center_loss", "crop", "cross", "cudnn_lstm", "cvm", "data_norm", "diag_embed", "dist",
    "filter_by_instag", "fsp", "gaussian_random_batch_size_like", "hash", "hierarchical_sigmoid", "max_pool3d_with_index", "mean_iou",
    "multiplex",
    "pad_constant_like", "random_crop", "sample_logits", "sampling_id", "shard_index", "similarity_focus", "space_to_depth",
    "spectral_norm", "teacher_student_sigmoid_loss", "trace", "uniform_random_batch_size_like",
}  # fmt: skip
OF_FLUID |= OF_NO_PADDLE | OF_DETECTORS | OF_OLDER
