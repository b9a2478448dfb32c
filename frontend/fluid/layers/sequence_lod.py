"""Functions of sequences: rows that the levels of detail of a tensor put together."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.names import listed

__all__ = ["sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool", "sequence_softmax"]


def sequence_pool(input: Any, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Any:
    """A row for each sequence: the `average`, `sum`, `sqrt` (the sum over the root of the length), `max`, `first` or `last` of its rows."""
    helper = LayerHelper("sequence_pool")
    out = helper.create_variable_for_type_inference(input.dtype)
    index = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    attrs = {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value}
    helper.append_op("sequence_pool", {"X": input}, {"Out": out, "MaxIndex": index}, attrs)
    return out


def sequence_first_step(input: Any) -> Any:
    """The first row of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Any) -> Any:
    """The last row of each sequence."""
    return sequence_pool(input, "last")


def sequence_softmax(input: Any, use_cudnn: bool = False, name: str | None = None) -> Any:
    """The softmax of the numbers of each sequence, [rows, 1]."""
    helper = LayerHelper("sequence_softmax", name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("sequence_softmax", {"X": input}, {"Out": out}, {"use_cudnn": use_cudnn})
    return out


def sequence_expand(x: Any, y: Any, ref_level: int = -1, name: str | None = None) -> Any:
    """Each row of `x` as often as the sequence of `y` with its number has rows."""
    helper = LayerHelper("sequence_expand", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("sequence_expand", {"X": x, "Y": y}, {"Out": out}, {"ref_level": ref_level})
    return out


__dir__ = listed(__name__)
