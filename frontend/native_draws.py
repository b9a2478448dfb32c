"""Random draws by compiled code, for programs that draw many: the kernel of `nn.uniform`, a batch at a time. Bit for bit what `dialects/mt19937.py` draws."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from polyreme.dialects import mt19937, nn

__all__ = ["units_for"]

Array = np.ndarray[Any, Any]

# Draws of a program until it compiles them: as many as numpy makes in the time that compiling takes.
WORTH_COMPILING = 4_000_000

_drawn = 0


def units_for(count: int) -> mt19937.Units:
    """What draws the next `count` numbers (or about so many) from [0, 1)."""
    global _drawn
    _drawn += count
    return native_units if _drawn >= WORTH_COMPILING else mt19937.units


def native_units(state: Array, count: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """As `mt19937.units`: whole batches are compiled code's, what is left is numpy's."""
    if count != mt19937.BATCH:
        return mt19937.units(state, count, dtype)
    values, following = _batch(dtype).run([state])
    return values, following


@functools.cache
def _batch(dtype: np.dtype[Any]) -> Any:
    """The executable that draws a batch from a state."""
    from polyreme.device import CPU
    from polyreme.executables import load_module
    from polyreme.heavy_kernels import one_op_module
    from polyreme.ir.types import TensorType, scalar_type, u64

    attributes = {"shape": (mt19937.BATCH,), "dtype": scalar_type(dtype)}
    return load_module(one_op_module(nn.Uniform, [TensorType((mt19937.STATE_WORDS,), u64)], attributes), "draws", CPU)
