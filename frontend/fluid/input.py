"""`fluid.data`, `fluid.embedding` and `fluid.one_hot`: as those of `fluid.layers`, without axes put in or taken away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme import dtypes
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.io import declare
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = ["data", "embedding", "one_hot"]


def data(name: str, shape: Sequence[Any], dtype: Any = "float32", lod_level: int = 0) -> Any:
    """What a run must feed under this name, in exactly this shape; None and -1 are free sizes."""
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"The type of 'shape' in data must be list or tuple, but received {type(shape)}.")
    return declare(name, [-1 if size is None else size for size in shape], dtype, lod_level, True, need_check_feed=True)


def one_hot(input: Any, depth: Any, allow_out_of_range: bool = False) -> Any:
    """1 at the position that `input` names and 0 elsewhere, along a new last axis."""
    helper = LayerHelper("one_hot_v2")
    out = helper.create_variable_for_type_inference("float32")
    slots = {"X": input, "depth_tensor": depth} if isinstance(depth, Tensor) else {"X": input}
    attrs = {"allow_out_of_range": allow_out_of_range, "depth": None if isinstance(depth, Tensor) else depth, "dtype": dtypes.float32}
    helper.append_op("one_hot_v2", slots, {"Out": out}, attrs)
    return out


def embedding(
    input: Any, size: Sequence[int], is_sparse: bool = False, is_distributed: bool = False, padding_idx: int | None = None,
    param_attr: Any = None, dtype: Any = "float32",
) -> Any:  # fmt: skip
    """Rows of a new table of shape `size`, at the positions in `input`, along a new last axis."""
    helper = LayerHelper("embedding", param_attr=param_attr)
    table = helper.create_parameter(helper.param_attr, size, dtype)
    row = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    out = helper.create_variable_for_type_inference(dtype)
    attrs = {"is_sparse": is_sparse, "is_distributed": is_distributed, "remote_prefetch": False, "padding_idx": row}
    helper.append_op("lookup_table_v2", {"Ids": input, "W": table}, {"Out": out}, attrs)
    return out


__dir__ = listed(__name__)
