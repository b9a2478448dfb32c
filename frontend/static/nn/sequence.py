"""Functions of sequences: rows that the levels of detail of a variable put together. Such variables are fed as LoDTensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyreme.static.current import default_main_program
from polyreme.static.nn.parameters import activated, known_size, layer_name, parameter
from polyreme.static.recorder import variable_of
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool", "sequence_softmax"]


def _appended(type: str, inputs: Mapping[str, Tensor], attributes: Mapping[str, Any], dtype: Any) -> Any:
    """An operator at the end of the program, and the variable for its result."""
    block = default_main_program().current_block()
    out = block.create_var(unique_name.generate(f"{type}.tmp"), dtype=dtype)
    block.append_op(type, {slot: variable_of(t, block) for slot, t in inputs.items()}, {"Out": out}, attributes)
    return out


def sequence_pool(input: Tensor, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Any:
    """A row for each sequence: the `average`, `sum`, `sqrt` (the sum over the root of the length), `max`, `first` or `last` of its rows.

    One without rows gives `pad_value`.
    """
    attributes = {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value}
    block = default_main_program().current_block()
    out, places = (block.create_var(unique_name.generate("sequence_pool.tmp"), dtype=kind) for kind in (input.dtype, "int32"))
    block.append_op("sequence_pool", {"X": variable_of(input, block)}, {"Out": out, "MaxIndex": places}, attributes)
    return out


def sequence_first_step(input: Tensor) -> Any:
    """The first row of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Tensor) -> Any:
    """The last row of each sequence."""
    return sequence_pool(input, "last")


def sequence_softmax(input: Tensor, use_cudnn: bool = False, name: str | None = None) -> Any:
    """The softmax of the numbers of each sequence, [rows, 1]."""
    return _appended("sequence_softmax", {"X": input}, {"use_cudnn": use_cudnn}, input.dtype)


def sequence_expand(x: Tensor, y: Tensor, ref_level: int = -1, name: str | None = None) -> Any:
    """Each row of `x` as often as the sequence of `y` with its number has rows."""
    return _appended("sequence_expand", {"X": x, "Y": y}, {"ref_level": ref_level}, x.dtype)


def sequence_conv(
    input: Tensor,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """For each row the `filter_size` rows of its sequence from `padding_start` on (relative to it, by default so that it is in the middle)
    times a weight [filter_size * columns, num_filters]. Rows outside of the sequence count as zeros.
    """
    if filter_stride != 1:
        raise ValueError(f"sequence_conv expected filter_stride=1 but got {filter_stride}")
    layer = layer_name("sequence_conv", name)
    columns = known_size(input, 1, "sequence_conv", "number of columns")
    weight = parameter(layer, "w", [filter_size * columns, num_filters], param_attr, input.dtype)
    start = -int(filter_size // 2) if padding_start is None else padding_start
    attributes = {"contextStride": filter_stride, "contextStart": start, "contextLength": filter_size}
    made = _appended("sequence_conv", {"X": input, "Filter": weight}, attributes, input.dtype)
    bias = parameter(layer, "b", [num_filters], bias_attr, input.dtype)
    return activated(made if bias is None else made + bias, act)
