"""What a bf16x3 product costs beside its multiplications, as fitted to times of two threads on Sapphire Rapids, the first core with AMX."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class Bf16x3Costs:
    """Cycles of two threads, each of which splits all of A.

    - `cut`: to split a number of A; `cut_of_several` times as much for several products, which threads split separately.
    - `result`: of a vector of results; `memory_result` more for each vector that is read or written with it beyond L2.
    - `start`: of starting; of several products each starts separately.
    - `pack`, `transpose`: for a number of B that is packed first, with lanes or with steps contiguous; `conflict` for one that is read in
      place with rows that conflict in L2.
    """

    cut: float = 0.45
    cut_of_several: float = 0.75
    result: float = 14
    memory_result: float = 8
    start: float = 25_000
    pack: float = 0.6
    transpose: float = 1.3
    conflict: float = 0.9


BF16X3_COSTS = Bf16x3Costs()
