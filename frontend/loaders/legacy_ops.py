"""The operators of the legacy format (`.pdmodel`, static Programs) by their own names, slots and attributes, led to the shared table of
meanings.

A row says which meaning an operator has, which of its input slots feed which parameter, which output slots take the results in order, and
what its attributes are called. Attributes that a row does not rename go under their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyreme import math
from polyreme.ir.diagnostics import did_you_mean
from polyreme.loaders.errors import OperatorError
from polyreme.loaders.meaning import find_meaning
from polyreme.tensor import Tensor

__all__ = ["LEGACY_OPS", "LegacyOp", "emit_legacy_op"]


@dataclass(frozen=True)
class LegacyOp:
    """How one legacy operator reads. Slots further back in `inputs` win over earlier ones and over attributes, as tensors do over numbers.
    """

    meaning: str
    inputs: Mapping[str, str]
    outputs: tuple[str, ...] = ("Out",)
    attributes: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()  # attributes that the meaning has no use for
    prepare: Callable[[dict[str, Any]], None] | None = None  # changes the arguments in place before they are applied


LEGACY_OPS: dict[str, LegacyOp] = {}


def emit_legacy_op(type: str, inputs: Mapping[str, Sequence[Tensor]], attrs: Mapping[str, Any]) -> dict[str, list[Tensor]]:
    """Apply the operator through dispatch, so into whatever is recording; its results by output slot. Slots of results that nobody computes
    are left out.

    `inputs` are tensors by slot; a slot without any may be missing. Attributes are plain values; dtypes may be Paddle's numbers. Errors are
    `OperatorError`s.
    """
    row = LEGACY_OPS.get(type)
    if row is None:
        raise OperatorError(f"the operator '{type}' is not supported{did_you_mean(type, LEGACY_OPS)}", code="E0702")
    arguments: dict[str, Any] = {row.attributes.get(k, k): v for k, v in attrs.items() if k not in row.dropped}
    for slot in inputs:
        if slot not in row.inputs and inputs[slot]:
            raise OperatorError(
                f"expected the input slots {', '.join(row.inputs)} of '{type}' but got '{slot}'{did_you_mean(slot, row.inputs)}",
                code="E0703",
            )
    for slot, parameter in row.inputs.items():
        given = list(inputs.get(slot, ()))
        if given:
            arguments[parameter] = given
    if row.prepare is not None:
        row.prepare(arguments)
    results = find_meaning(row.meaning).apply(arguments)
    made: dict[str, list[Tensor]] = {}
    for slot, result in zip(row.outputs, results, strict=False):
        if result is not None:
            made[slot] = list(result) if isinstance(result, (list, tuple)) else [result]
    return made


# --- what legacy operators do to their arguments first


def _align(arguments: dict[str, Any]) -> None:
    """`axis` says where y's axes stand among x's; -1, at the end, is how everything else broadcasts."""
    axis = arguments.pop("axis", -1)
    x, y = arguments["x"][0], arguments["y"][0]
    if axis != -1 and y.ndim < x.ndim and axis + y.ndim != x.ndim:
        if not 0 <= axis <= x.ndim - y.ndim:
            raise OperatorError(f"expected an axis in [-1, {x.ndim - y.ndim}] but got {axis}", code="E0703")
        arguments["y"] = [math.reshape(y, [*y.type.shape, *[1] * (x.ndim - y.ndim - axis)])]


def _multiply_by_alpha(arguments: dict[str, Any]) -> None:
    alpha = arguments.pop("alpha", 1.0)
    if alpha != 1.0:
        arguments["x"] = [math.scale(arguments["x"][0], alpha)]


def _drop_empty_axes(arguments: dict[str, Any]) -> None:
    if arguments.get("reduce_all"):
        arguments["axis"] = []


def _numbers_of_slots(*names: str) -> Callable[[dict[str, Any]], None]:
    """`assign_value` keeps its numbers in an attribute per type; the one that holds something counts."""

    def prepare(arguments: dict[str, Any]) -> None:
        found = [arguments.pop(name, None) for name in names]
        arguments["values"] = next((v for v in (arguments.get("values"), *found) if v), [])

    return prepare


def _fill_value(arguments: dict[str, Any]) -> None:
    text = arguments.pop("str_value", "")
    plain = arguments.pop("plain_value", 0.0)
    if "value" not in arguments:
        try:
            arguments["value"] = float(text) if text else plain
        except ValueError:
            raise OperatorError(f"expected a number as 'str_value' but got {text!r}", code="E0703") from None
    if isinstance(arguments["value"], float) and arguments["value"].is_integer() and abs(arguments["value"]) < 2**53:
        arguments["value"] = int(arguments["value"])


def _dtype_of_start(arguments: dict[str, Any]) -> None:
    """The numbers have the element type of the first one, which no attribute says."""
    start = arguments.get("start")
    if isinstance(start, (list, tuple)) and len(start) == 1:
        (start,) = start
    if isinstance(start, Tensor):
        arguments.setdefault("dtype", start.type.dtype)


# --- the table


def _add(
    names: str, meaning: str | None = None, inputs: Mapping[str, str] | None = None, outputs: Sequence[str] = ("Out",), *,
    attributes: Mapping[str, str] | None = None, dropped: Sequence[str] = (), prepare: Callable[[dict[str, Any]], None] | None = None,
) -> None:  # fmt: skip
    """One row for each of the names; without `meaning` it is the one of its own name."""
    for name in names.split():
        slots = {"X": "x"} if inputs is None else inputs
        LEGACY_OPS[name] = LegacyOp(meaning or name, slots, tuple(outputs), attributes or {}, frozenset(dropped), prepare)


_XY = {"X": "x", "Y": "y"}

_add(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p log2 logical_not reciprocal relu rsqrt "
    "sigmoid sign silu sin sinh softsign sqrt square stanh tan tanh tanh_shrink logsigmoid bitwise_not"
)
_add("isfinite_v2", "isfinite")
_add("isinf_v2", "isinf")
_add("isnan_v2", "isnan")
_add("trunc", inputs={"X": "input"})
_add("round")
_add("relu6")
_add("leaky_relu", attributes={"alpha": "negative_slope"})
_add("rrelu")
_add("prelu", inputs={"X": "x", "Alpha": "alpha"})
_add("elu celu selu gelu thresholded_relu maxout swish mish softplus")
_add("hard_shrink", "hardshrink")
_add("softshrink", attributes={"lambda": "threshold"})
_add("brelu", "hardtanh", attributes={"t_min": "min", "t_max": "max"})
_add("hard_sigmoid", "hardsigmoid")
_add("hard_swish", "hardswish")
_add("softmax log_softmax", dropped=["data_format"])
_add("fused_softmax_mask", inputs={"X": "x", "Mask": "mask"})
_add("swiglu", inputs=_XY)

for _legacy, _meaning in {
    "elementwise_add": "add", "elementwise_sub": "subtract", "elementwise_mul": "multiply", "elementwise_div": "divide",
    "elementwise_max": "maximum",
    "elementwise_min": "minimum", "elementwise_pow": "elementwise_pow", "elementwise_mod": "remainder",
    "elementwise_floordiv": "floor_divide",
    "elementwise_fmax": "fmax", "elementwise_fmin": "fmin", "equal": "equal", "not_equal": "not_equal", "less_than": "less_than",
    "less_equal": "less_equal",
    "greater_than": "greater_than", "greater_equal": "greater_equal",
}.items():  # fmt: skip
    _add(_legacy, _meaning, _XY, prepare=_align)
_add("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bmm dot kron", inputs=_XY)
_add("mv", inputs={"X": "x", "Vec": "y"})
_add("matmul_v2", "matmul", _XY, attributes={"trans_x": "transpose_x", "trans_y": "transpose_y"})
_add("matmul", "matmul", _XY, attributes={"transpose_X": "transpose_x", "transpose_Y": "transpose_y"}, prepare=_multiply_by_alpha)
_add("mul", "matmul_with_flatten", _XY)
_add("addmm", inputs={"Input": "input", "X": "x", "Y": "y"}, attributes={"Alpha": "alpha", "Beta": "beta"})
_add("einsum", inputs={"Operands": "x"})
_add("sum", "add_n", {"X": "inputs"})
_add("scale", inputs={"X": "x", "ScaleTensor": "scale"})
_add("pow", attributes={"factor": "y"}, inputs={"X": "x", "FactorTensor": "y"})
_add("clip", inputs={"X": "x", "Min": "min", "Max": "max"})
_add("increment", attributes={"step": "value"})
_add("lerp", inputs={**_XY, "Weight": "weight"})
_add("where", inputs={"Condition": "condition", "X": "x", "Y": "y"})
_add("cast", attributes={"out_dtype": "dtype"})

_REDUCTIONS = {
    "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_any": "any", "reduce_all": "all", "reduce_amax": "amax",
    "reduce_amin": "amin", "reduce_mean": "mean",
}  # fmt: skip
for _legacy, _meaning in _REDUCTIONS.items():
    _add(_legacy, _meaning, {"X": "x", "AxisTensor": "axis", "AxisTensorList": "axis"}, attributes={"dim": "axis", "keep_dim": "keepdim"},
         dropped=["in_dtype", "out_dtype"], prepare=_drop_empty_axes)  # fmt: skip
_add("reduce_sum", "sum", {"X": "x", "AxisTensor": "axis", "AxisTensorList": "axis"},
     attributes={"dim": "axis", "keep_dim": "keepdim", "out_dtype": "dtype"}, prepare=_drop_empty_axes)  # fmt: skip
_add("mean", "mean_all")
_add("logsumexp")
_add("frobenius_norm", attributes={"dim": "axis", "keep_dim": "keepdim"}, prepare=_drop_empty_axes)
_add("squared_l2_norm")
_add("p_norm")
_add("norm", outputs=("Out", "Norm"))
_add("arg_max", "argmax", {"X": "x", "AxisTensor": "axis"})
_add("arg_min", "argmin", {"X": "x", "AxisTensor": "axis"})
_add("top_k_v2", "topk", {"X": "x", "K": "k"}, outputs=("Out", "Indices"))
_add("top_k", "topk", {"X": "x", "K": "k"}, outputs=("Out", "Indices"))
_add("cumsum", inputs={"X": "x", "AxisTensor": "axis"})

_add("conv2d depthwise_conv2d", inputs={"Input": "input", "Filter": "filter", "Bias": "bias"}, outputs=("Output",))
_add("conv3d", inputs={"Input": "input", "Filter": "filter"}, outputs=("Output",))
_add("conv2d_transpose depthwise_conv2d_transpose",
     inputs={"Input": "x", "Filter": "filter", "Bias": "bias", "OutputSizeTensor": "output_size"}, outputs=("Output",))  # fmt: skip
_add("pool2d pool3d", attributes={"ksize": "kernel_size"})
_add("max_pool2d_with_index", outputs=("Out", "Mask"), attributes={"ksize": "kernel_size"})
_add("quantize_linear dequantize_linear",
     inputs={"X": "x", "Scale": "scale", "ZeroPoint": "zero_point", "InAccum": "in_accum", "InState": "in_state"},
     outputs=("Y", "OutScale", "OutAccum", "OutState"))  # fmt: skip
_add("batch_norm sync_batch_norm",
     inputs={"X": "x", "Mean": "mean", "Variance": "variance", "Scale": "scale", "Bias": "bias", "MomentumTensor": "momentum"},
     outputs=("Y", "MeanOut", "VarianceOut", "SavedMean", "SavedVariance"), attributes={"data_layout": "data_format"})  # fmt: skip
_add("layer_norm", inputs={"X": "x", "Scale": "scale", "Bias": "bias"}, outputs=("Y", "Mean", "Variance"))
_add("instance_norm", inputs={"X": "x", "Scale": "scale", "Bias": "bias"}, outputs=("Y", "SavedMean", "SavedVariance"))
_add("group_norm", inputs={"X": "x", "Scale": "scale", "Bias": "bias"}, outputs=("Y", "Mean", "Variance"),
     attributes={"data_layout": "data_format"})  # fmt: skip
_add("rnn", inputs={"Input": "x", "PreState": "pre_state", "WeightList": "weight_list", "SequenceLength": "sequence_length"},
     outputs=("Out", "DropoutState", "State", "Reserve"))  # fmt: skip
_add("affine_channel", inputs={"X": "x", "Scale": "scale", "Bias": "bias"})
_add("dropout", inputs={"X": "x", "Seed": "seed_tensor"}, outputs=("Out", "Mask"),
     attributes={"dropout_prob": "p", "dropout_implementation": "mode"})  # fmt: skip
_add("fc", inputs={"Input": "input", "W": "w", "Bias": "bias"})
_add("lookup_table_v2", "embedding", {"Ids": "x", "W": "weight"})
_add("lookup_table", "embedding_of_column", {"Ids": "x", "W": "weight"})

_add("reshape2 reshape", "reshape", {"X": "x", "Shape": "shape", "ShapeTensor": "shape"})
_add("flatten_contiguous_range", "flatten")
_add("flatten2 flatten", "flatten_to_matrix")
_add("squeeze2 squeeze", "squeeze", {"X": "x", "AxesTensor": "axis", "AxesTensorList": "axis"}, attributes={"axes": "axis"})
_add("unsqueeze2 unsqueeze", "unsqueeze", {"X": "x", "AxesTensor": "axis", "AxesTensorList": "axis"}, attributes={"axes": "axis"})
_add("transpose2 transpose", "transpose", attributes={"axis": "perm"}, dropped=["data_format"])
_add("expand_v2", "expand", {"X": "x", "Shape": "shape", "expand_shapes_tensor": "shape"})
_add("expand_as_v2", "expand_as", {"X": "x", "Y": "y"})
_add("broadcast_tensors", inputs={"X": "input"})
_add("tile", inputs={"X": "x", "RepeatTimes": "repeat_times", "repeat_times_tensor": "repeat_times"})
_add("repeat_interleave", attributes={"Repeats": "repeats", "dim": "axis"})
_add("concat", inputs={"X": "x", "AxisTensor": "axis"})
_add("stack", outputs=("Y",))
_add("split", inputs={"X": "x", "AxisTensor": "axis", "SectionsTensorList": "sections"})
_add("unbind", inputs={"X": "input"})
_add("unstack", outputs=("Y",))
_STARTS = {"StartsTensor": "starts", "StartsTensorList": "starts", "EndsTensor": "ends", "EndsTensorList": "ends"}
_add("slice", inputs={"Input": "input", **_STARTS})
_add("strided_slice", inputs={"Input": "x", **_STARTS, "StridesTensor": "strides", "StridesTensorList": "strides"})
_add("crop_tensor", "crop", {"X": "x", "Shape": "shape", "ShapeTensor": "shape", "Offsets": "offsets", "OffsetsTensor": "offsets"})
_VALUES = ("bool_values", "fp32_values", "int32_values", "int64_values", "fp64_values")
_add("set_value", "set_value",
     {"Input": "x", "ValueTensor": "tensor", "StartsTensorList": "starts", "EndsTensorList": "ends", "StepsTensorList": "steps"},
     prepare=_numbers_of_slots(*_VALUES))  # fmt: skip
_add("flip", attributes={"dims": "axis"})
_add("reverse", "flip")
_add("roll", inputs={"X": "x", "ShiftsTensor": "shifts"})
_add("gather", inputs={"X": "x", "Index": "index", "Axis": "axis"})
_add("index_select", inputs={"X": "x", "Index": "index"}, attributes={"dim": "axis"})
_add("gather_nd index_sample", inputs={"X": "x", "Index": "index"})
_add("take_along_axis", inputs={"Input": "arr", "Index": "indices"}, outputs=("Result",), attributes={"Axis": "axis"})
_add("scatter", inputs={"X": "x", "Ids": "index", "Updates": "updates"})
_add("scatter_nd_add", inputs={"X": "x", "Index": "index", "Updates": "updates"})
_add("put_along_axis", inputs={"Input": "arr", "Index": "indices", "Value": "values"}, outputs=("Result",),
     attributes={"Axis": "axis", "Reduce": "reduce", "Include_self": "include_self"})  # fmt: skip
_add("index_put", inputs={"x": "x", "indices": "indices", "value": "value"}, outputs=("out",))
_add("index_add", inputs={"X": "x", "Index": "index", "AddValue": "add_value"})
_add("where_index", "nonzero", {"Condition": "condition"})
_add("masked_select", inputs={"X": "x", "Mask": "mask"}, outputs=("Y",))
_add("diag_v2", "diag")
_add("grid_sampler", "grid_sample", {"X": "x", "Grid": "grid"}, outputs=("Output",))
_add("affine_grid", inputs={"Theta": "input", "OutputShape": "output_shape"}, outputs=("Output",))
_add("argsort", outputs=("Out", "Indices"))
_add("pad")
_add("pad2d", inputs={"X": "x", "Paddings": "paddings"})
_add("pad3d", inputs={"X": "x", "Paddings": "paddings"}, attributes={"value": "pad_value"})
_add("pixel_shuffle pixel_unshuffle temporal_shift")
_add("shuffle_channel", "channel_shuffle", attributes={"group": "groups"})
_add("channel_shuffle")
_add("unfold", outputs=("Y",))

_add("fill_constant", "full_with_tensor", {"ShapeTensor": "shape", "ShapeTensorList": "shape", "ValueTensor": "value"},
     attributes={"value": "plain_value"}, prepare=_fill_value)  # fmt: skip
_add("fill_any_like", "full_like")
_add("fill_zeros_like", "full_like")
_add("fill_constant_batch_size_like", "full_batch_size_like", {"Input": "input"}, dropped=["str_value"])
_add("assign_value", inputs={}, prepare=_numbers_of_slots(*_VALUES))
_add("range", "arange", {"Start": "start", "End": "end", "Step": "step"}, prepare=_dtype_of_start)
_add("linspace", inputs={"Start": "start", "Stop": "stop", "Num": "number"})
_add("eye", inputs={})
_add("tril_triu")
_add("shape", inputs={"Input": "input"})
_add("size", "numel", {"Input": "x"})
_add("is_empty")
_add("uniform_random", "uniform", {"ShapeTensor": "shape", "ShapeTensorList": "shape"}, dropped=["diag_num", "diag_step", "diag_val"])
_add("gaussian_random", "gaussian", {"ShapeTensor": "shape", "ShapeTensorList": "shape"})
_add("randint", inputs={"ShapeTensor": "shape", "ShapeTensorList": "shape"})
_add("randperm", inputs={})
_add("one_hot_v2", "one_hot", {"X": "x", "depth_tensor": "num_classes"}, attributes={"depth": "num_classes"})
_add("meshgrid", inputs={"X": "inputs"})
_add("assign share_data memcpy memcpy_d2h memcpy_h2d c_identity", "assign")
_add("softmax_with_cross_entropy", "cross_entropy_with_softmax", {"Logits": "input", "Label": "label"}, outputs=("Softmax", "Loss"))
_add("bce_loss", inputs={"X": "input", "Label": "label"})
_add("sigmoid_cross_entropy_with_logits", inputs={"X": "x", "Label": "label", "pos_weight": "pos_weight"})
_add("kldiv_loss", inputs={"X": "x", "Target": "target"}, outputs=("Loss",))
_add("huber_loss", inputs={"X": "input", "Y": "label"}, outputs=("Out", "Residual"))

_RESIZE = {"X": "x", "OutSize": "out_size", "SizeTensor": "size_tensor", "Scale": "scale_tensor"}
_add("nearest_interp_v2 bilinear_interp_v2 linear_interp_v2 trilinear_interp_v2 bicubic_interp_v2", "bilinear_interp", _RESIZE,
     attributes={"data_layout": "data_format"})  # fmt: skip
_add(
    "nearest_interp bilinear_interp linear_interp trilinear_interp bicubic_interp",
    "bilinear_interp",
    _RESIZE,
    attributes={"data_layout": "data_format"},
)
