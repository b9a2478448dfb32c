"""The `kernel` level: how a thing is computed. Loops over buffers, scalars and vectors in registers, independent iterations.

A module has a `main` and kernels, all of them `func.func` without results. Arguments are buffers (row-major memory) and, for kernels, also
`index` values; `main` takes inputs, parameters and constants first and the outputs last, allocates what lies between, and calls the kernels
in order.

Conventions of the whole dialect:

- A memory position is one `index`: the linear element offset into the buffer, whatever the buffer's shape.
- `lanes` = 1 means a scalar, more means a `vector<lanes x …>`; there is no vector of one lane. So code written for `lanes` lanes holds for
  one too.
- A mask is an `i1` per lane. Lanes that are off touch no memory (their positions may lie anywhere), and are loaded as 0.
- Kernels for a grid of threads (`grid.py`) are the same functions, run once per thread by `kernel.launch`.
- The meaning on numpy is strict: a position outside the buffer is an error, and memory from `alloc` starts as nan (or a large number), so
  that a read before the first write shows.
"""

from polyreme.dialects.kernel.bf16x3 import DotTerms
from polyreme.dialects.kernel.checks import check_kernels
from polyreme.dialects.kernel.common import MAX_LANES, REDUCTIONS, lanes_of, of_lanes
from polyreme.dialects.kernel.control import Alternate, Call, For, If, Parallel, ReturnUnless, Threads, While, Yield
from polyreme.dialects.kernel.grid import (
    Atomic,
    Barrier,
    BlockCount,
    BlockId,
    CopyAsync,
    CopyCommit,
    CopyWait,
    Exp2,
    Launch,
    LoadMatrix,
    Mma,
    RoundTf32,
    ThreadCount,
    ThreadId,
    WarpShuffle,
)
from polyreme.dialects.kernel.int8_block import DotBlock
from polyreme.dialects.kernel.memory import Alloc, Data, FetchAdd, Gather, Load, Prefetch, Scatter, Store, UntilAligned, View
from polyreme.dialects.kernel.values import (
    Apply,
    Broadcast,
    Clock,
    Constant,
    Dot2,
    Dot4,
    Extract,
    Fma,
    Insert,
    Iota,
    LaneMask,
    Permute,
    Reduce,
    Reinterpret,
    Shuffle,
    Size,
)
from polyreme.dialects.kernel.warpgroups import (
    CopyBox,
    CountedArrive,
    CountedExpect,
    CountedInit,
    CountedWait,
    SetRegisters,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)

__all__ = [
    "Alloc",
    "Alternate",
    "Apply",
    "Atomic",
    "Barrier",
    "BlockCount",
    "BlockId",
    "Broadcast",
    "Call",
    "Clock",
    "Constant",
    "CopyAsync",
    "CopyBox",
    "CopyCommit",
    "CopyWait",
    "CountedArrive",
    "CountedExpect",
    "CountedInit",
    "CountedWait",
    "Data",
    "Dot2",
    "Dot4",
    "DotBlock",
    "DotTerms",
    "Exp2",
    "Extract",
    "FetchAdd",
    "Fma",
    "For",
    "Gather",
    "If",
    "Insert",
    "Iota",
    "LaneMask",
    "Launch",
    "Load",
    "LoadMatrix",
    "MAX_LANES",
    "Mma",
    "Parallel",
    "Permute",
    "Prefetch",
    "REDUCTIONS",
    "Reduce",
    "Reinterpret",
    "ReturnUnless",
    "RoundTf32",
    "Scatter",
    "SetRegisters",
    "Shuffle",
    "Size",
    "Store",
    "ThreadCount",
    "ThreadId",
    "Threads",
    "UntilAligned",
    "View",
    "WarpShuffle",
    "Wgmma",
    "WgmmaCommit",
    "WgmmaFence",
    "WgmmaWait",
    "While",
    "Yield",
    "check_kernels",
    "lanes_of",
    "of_lanes",
]
