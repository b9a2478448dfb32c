"""Random draws by compiled code, for programs that draw many: the kernel of `nn.uniform`, a batch at a time. Bit for bit what
`dialects/mt19937.py` draws.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from polyreme.dialects import mt19937, nn

__all__ = ["units_for"]

Array = np.ndarray[Any, Any]

# Draws of a program until it compiles them: as many as numpy makes in the time that compiling takes.
WORTH_COMPILING = 1_500_000
# How many numbers a piece of compiled code draws. Whole batches are the rule; the state within a batch is found by the smaller ones.
SIZES = (mt19937.BATCH, 1 << 11)

_drawn = 0


def units_for(count: int) -> mt19937.Units:
    """What draws the next `count` numbers (or about so many) from [0, 1)."""
    global _drawn
    _drawn += count
    return native_units if _drawn >= WORTH_COMPILING else mt19937.units


def native_units(state: Array, count: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """As `mt19937.units`: compiled code draws as many as fit its sizes, numpy the rest."""
    pieces = []
    for size in SIZES:
        while count >= size:
            values, state = _batch(size, dtype).run([state])
            pieces.append(values)
            count -= size
    if count or not pieces:
        values, state = mt19937.units(state, count, dtype)
        pieces.append(values)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces), state


@functools.cache
def _batch(size: int, dtype: np.dtype[Any]) -> Any:
    """The executable that draws so many numbers from a state."""
    from polyreme.compiled.executables import load_module
    from polyreme.compiled.heavy_kernels import one_op_module
    from polyreme.device import CPU
    from polyreme.ir.types import TensorType, scalar_type, u64

    attributes = {"shape": (size,), "dtype": scalar_type(dtype)}
    return load_module(one_op_module(nn.Uniform, [TensorType((mt19937.STATE_WORDS,), u64)], attributes), "draws", CPU)
