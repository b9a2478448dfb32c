"""What a bf16x3 product costs beside its multiplications, as fitted to times of two threads on Sapphire Rapids, the first core with AMX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class Bf16x3Costs:
    """Cycles of two threads, each of which splits all of A.

    - `cut`: to split a number of A; `cut_of_several` times as much for several products, which threads split separately.
    - `result`: of a vector of results; `memory_result` more for each vector that is read or written with it beyond L2.
    - `start`: of starting; of several products each starts separately.
    - `pack`, `transpose`: for a number of B that is packed first, with lanes or with steps contiguous; `conflict` for one that is read in
      place with rows that conflict in L2.
    - `share`: an estimate has to be at most this part of the direct product's; `share_of_several` of several products. Fewer than
      `least_rows` or `least_steps` do not pay.
    - `steps_of_block`: blocks by their number of steps of a tile, and the time of a step in each over the shortest: the terms of two
      blocks share L1 with rows and sums.
    - `most_tiles`: of rows in a chunk; if the steps are cut into runs, the terms of its rows take 1 / `l2_share_of_chunk` of L2, else up
      to five eighths. From `tiles_of_two` on they are two chunks if there are no more than `few_panels`: each of two threads then splits
      its own rows, and not both of them all.
    - `most_makers`, `least_makers`, `makers_bytes`: bounds of the number of threads that split A each for itself, and of the memory for
      all of them, since lines of another core come slowly.
    - `few_rows`: of a tile where rows are few: more would read panels less often, but there is code for each number of them.
    - `least_tiles`: of rows, that share splitting the next block; `unknown_tiles` of an unknown number of rows, which get a kernel if
      `unknown_rows` would pay.
    - `l2_multiple`: matrices of more than so many times L2 are prefetched. With more than `most_rows_in_place` B is packed first.
    """

    cut: float = 0.45
    cut_of_several: float = 0.75
    result: float = 14
    memory_result: float = 8
    start: float = 25_000
    pack: float = 0.6
    transpose: float = 1.3
    conflict: float = 0.9
    share: float = 0.97
    share_of_several: float = 0.85
    least_rows: int = 40
    least_steps: int = 64
    steps_of_block: Mapping[int, float] = field(default_factory=lambda: {1: 1.1, 2: 1.015, 3: 1.0, 4: 1.04})
    most_tiles: int = 13
    l2_share_of_chunk: int = 2
    tiles_of_two: int = 12
    few_panels: int = 8
    most_makers: int = 64
    least_makers: int = 8
    makers_bytes: int = 32 << 20
    few_rows: int = 12
    least_tiles: int = 3
    unknown_tiles: int = 6
    unknown_rows: int = 1024
    l2_multiple: int = 4
    most_rows_in_place: int = 512


BF16X3_COSTS = Bf16x3Costs()
