"""Inputs of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.fluid.framework import default_main_program
from polyreme.names import listed
from polyreme.static.lod.travel import ROWS

__all__ = ["data"]


def data(
    name: str, shape: Sequence[Any], append_batch_size: bool = True, dtype: Any = "float32", lod_level: int = 0, type: Any = None,
    stop_gradient: bool = True,
) -> Any:  # fmt: skip
    """What a run must feed under this name. An axis for the batch is put in front of `shape`, unless that has a free size (-1, None)."""
    sizes = [-1 if size is None else size for size in shape]
    if append_batch_size and not any(isinstance(size, int) and size < 0 for size in sizes):
        sizes = [-1, *sizes]
    return declare(name, sizes, dtype, lod_level, stop_gradient, need_check_feed=False)


def declare(name: str, shape: Sequence[Any], dtype: Any, lod_level: int, stop_gradient: bool, need_check_feed: bool) -> Any:
    """The variable of an input. The rows of sequences are another free size than the batch."""
    if not isinstance(name, str):
        raise TypeError(f"The type of 'name' in data must be str, but received {type(name)}.")
    sizes: list[Any] = list(shape)
    if lod_level and sizes and sizes[0] == -1:
        sizes[0] = ROWS
    made = default_main_program().global_block().create_var(
        name, sizes, dtype, stop_gradient=stop_gradient, is_data=True, need_check_feed=need_check_feed, lod_level=lod_level
    )
    made.stop_gradient = stop_gradient
    return made


__dir__ = listed(__name__)
