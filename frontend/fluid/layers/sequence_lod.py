"""Functions of sequences: rows that the levels of detail of a variable put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from polyreme import dtypes
from polyreme.fluid.framework import appending
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.names import listed
from polyreme.static.nn import sequence
from polyreme.tensor import Tensor

__all__ = [
    "add_position_encoding", "im2sequence", "lod_append", "lod_reset", "row_conv", "sequence_concat", "sequence_conv",
    "sequence_enumerate", "sequence_expand", "sequence_expand_as", "sequence_first_step", "sequence_last_step", "sequence_mask",
    "sequence_pad", "sequence_pool", "sequence_reshape", "sequence_reverse", "sequence_scatter", "sequence_slice", "sequence_softmax",
    "sequence_unpad",
]  # fmt: skip

sequence_expand = appending(sequence.sequence_expand)
sequence_softmax = appending(sequence.sequence_softmax)
sequence_pool = appending(sequence.sequence_pool)
sequence_first_step = appending(sequence.sequence_first_step)
sequence_last_step = appending(sequence.sequence_last_step)


def _made(
    type: str, slots: dict[str, Any], dtype: Any, attrs: dict[str, Any] | None = None, name: str | None = None, slot: str = "Out",
    stop_gradient: bool = False,
) -> Any:  # fmt: skip
    """The result of an operator."""
    helper = LayerHelper(type, name=name)
    out = helper.create_variable_for_type_inference(dtype, stop_gradient=stop_gradient)
    helper.append_op(type, slots, {slot: out}, attrs)
    return out


@takes("input")
def sequence_conv(
    input: Any, num_filters: int, filter_size: int = 3, filter_stride: int = 1, padding: bool = True, padding_start: int | None = None,
    bias_attr: Any = None, param_attr: Any = None, act: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """For each row the `filter_size` rows of its sequence from `padding_start` on, by default with it in the middle, times a weight
    [filter_size * columns, num_filters]. Rows outside of the sequence count as zeros.
    """
    if filter_stride != 1:
        raise ValueError(f"sequence_conv expected filter_stride=1 but got {filter_stride}")
    helper = LayerHelper("sequence_conv", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    weight = helper.create_parameter(helper.param_attr, [filter_size * input.shape[1], num_filters], input.dtype)
    start = -int(filter_size // 2) if padding_start is None else padding_start
    attrs = {"contextStride": filter_stride, "contextStart": start, "contextLength": filter_size}
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("sequence_conv", {"X": input, "Filter": weight}, {"Out": out}, attrs)
    return helper.append_activation(helper.append_bias_op(out))


@takes("x", "y")
def sequence_expand_as(x: Any, y: Any, name: str | None = None) -> Any:
    """Each row of `x` as often as the sequence of `y` with its number has rows, as sequences like those of `y`."""
    return _made("sequence_expand_as", {"X": x, "Y": y}, x.dtype, name=name)


@takes("input", many=True)
def sequence_concat(input: Any, name: str | None = None) -> Any:
    """The first sequences of all inputs one behind the other, then the second ones, and so on."""
    given = list(input)
    return _made("sequence_concat", {"X": given}, given[0].dtype, name=name)


@takes("x")
def sequence_reverse(x: Any, name: str | None = None) -> Any:
    """The rows of each sequence from the last to the first."""
    return _made("sequence_reverse", {"X": x}, x.dtype, name=name, slot="Y")


@takes("input")
def sequence_reshape(input: Any, new_dim: int) -> Any:
    """The elements of each sequence as rows of `new_dim`; lengths change accordingly."""
    return _made("sequence_reshape", {"X": input}, input.dtype, {"new_dim": new_dim})


@takes("input", "offset", "length")
def sequence_slice(input: Any, offset: Any, length: Any, name: str | None = None) -> Any:
    """Of each sequence the rows from its `offset` on, `length` of them; both int64 [sequences, 1]."""
    return _made("sequence_slice", {"X": input, "Offset": offset, "Length": length}, input.dtype, name=name)


@takes("x", "pad_value")
def sequence_pad(x: Any, pad_value: Any, maxlen: int | None = None, name: str | None = None) -> tuple[Any, Any]:
    """The sequences [sequences, maxlen, ...], filled up with `pad_value`, and their lengths, int64; `maxlen` is by default the greatest."""
    helper = LayerHelper("sequence_pad", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    length = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    attrs = {"padded_length": -1 if maxlen is None else maxlen}
    helper.append_op("sequence_pad", {"X": x, "PadValue": pad_value}, {"Out": out, "Length": length}, attrs)
    return out, length


@takes("x", "length")
def sequence_unpad(x: Any, length: Any, name: str | None = None) -> Any:
    """Of the rows `x` [sequences, padded, ...] the first ones of each, as many as `length`, int64, says, as sequences."""
    return _made("sequence_unpad", {"X": x, "Length": length}, x.dtype, name=name)


@takes("x")
def sequence_mask(x: Any, maxlen: Any = None, dtype: Any = "int64", name: str | None = None) -> Any:
    """1 in the first `x` of `maxlen` places of a new last axis, else 0."""
    by_variable = isinstance(maxlen, Tensor)
    slots = {"X": x, "MaxLenTensor": maxlen} if by_variable else {"X": x}
    attrs = {"out_dtype": dtypes.as_dtype(dtype), "maxlen": None if by_variable else -1 if maxlen is None else maxlen}
    return _made("sequence_mask", slots, dtype, attrs, name, "Y", True)


@takes("input")
def sequence_enumerate(input: Any, win_size: int, pad_value: int = 0, name: str | None = None) -> Any:
    """For each of the numbers [rows, 1] the `win_size` from it on, and `pad_value` behind the end of its sequence."""
    return _made("sequence_enumerate", {"X": input}, input.dtype, {"win_size": win_size, "pad_value": pad_value}, name, "Out", True)


@takes("x")
def lod_reset(x: Any, y: Any = None, target_lod: Any = None) -> Any:
    """`x` with the levels of `y`; where it has none, with one whose offsets are the values of `y`, or `target_lod`."""
    if y is None and target_lod is None:
        raise ValueError("y and target_lod should not be both none.")
    if y is not None:
        return _made("lod_reset", {"X": x, "Y": y}, x.dtype)
    return _made("lod_reset", {"X": x}, x.dtype, {"target_lod": list(target_lod)})


@takes("x")
def lod_append(x: Any, level: Any) -> Any:
    """`x` with a level below those that it has: offsets, or a variable of them. A variable with levels of its own gives those alone."""
    if isinstance(level, Tensor):
        return _made("lod_reset", {"X": x, "Y": level}, x.dtype, {"append": True})
    if not isinstance(level, Iterable):
        raise ValueError("Input(level) must be list, tuple or Variable.")
    return _made("lod_reset", {"X": x}, x.dtype, {"append": True, "target_lod": list(level)})


@takes("input", "index", "updates")
def sequence_scatter(input: Any, index: Any, updates: Any, name: str | None = None) -> Any:
    """`input` [sequences, columns] with the numbers of each sequence of `updates` [rows, 1] added in its row, in the columns that the
    sequences `index` [rows, 1], int64 or int32, say.
    """
    return _made("sequence_scatter", {"X": input, "Ids": index, "Updates": updates}, input.dtype, name=name)


@takes("input")
def row_conv(input: Any, future_context_size: int, param_attr: Any = None, act: str | None = None) -> Any:
    """Each row plus the `future_context_size` ones after it in its sequence, column by column times a weight [future_context_size + 1,
    columns]; of sequences, or [batch, rows, columns].
    """
    helper = LayerHelper("row_conv", param_attr=param_attr, act=act)
    weight = helper.create_parameter(helper.param_attr, [future_context_size + 1, input.shape[-1]], input.dtype)
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("row_conv", {"X": input, "Filter": weight}, {"Out": out})
    return helper.append_activation(out)


@takes("input")
def im2sequence(
    input: Any, filter_size: Any = 1, stride: Any = 1, padding: Any = 0, input_image_size: Any = None, out_stride: Any = 1,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The windows of images [batch, channels, height, width] as rows [windows, channels * high * wide], a sequence for each image.

    `padding` is one number, two (up and left, which are those down and right, too) or four (up, left, down, right). With
    `input_image_size` [batch, 2], the sizes of images of which `out_stride` pixels are one here, a sequence has the windows of that part
    only.
    """

    def pair(value: Any) -> list[int]:
        return [value, value] if isinstance(value, int) else list(value)

    pads = pair(padding)
    attrs = {"kernels": pair(filter_size), "strides": pair(stride), "paddings": [*pads, *pads] if len(pads) == 2 else pads}
    slots = {"X": input}
    if input_image_size is not None:
        slots["Y"], attrs["out_stride"] = input_image_size, pair(out_stride)
    return _made("im2sequence", slots, input.dtype, attrs, name)


@takes("input")
def add_position_encoding(input: Any, alpha: float, beta: float, name: str | None = None) -> Any:
    """`alpha` * input + `beta` * waves of the place in the sequence, sines in the first half of the columns and cosines in the second; of
    [batch, rows, columns], or of sequences.
    """
    return _made("add_position_encoding", {"X": input}, input.dtype, {"alpha": float(alpha), "beta": float(beta)}, name)


__dir__ = listed(__name__)
