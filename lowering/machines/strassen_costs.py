"""What a Strassen product costs beside its multiplications, by kind of machine."""

from __future__ import annotations

from dataclasses import replace

from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.targets import Target


@dataclass(frozen=True)
class StrassenCosts:
    """What a Strassen product costs besides its multiplications, in cycles per element unless it says otherwise.

    - `combine`: of A's combinations, made by a kernel in front; `combine_l3` times the square of the part of L3 that all matrices take,
      more.
    - `overlapped_combine`, `overlapped_combine_l3`: the same while the tiles multiply; `added` for each product that is added up meanwhile.
    - `loading`: the part of loading weights that is not hidden; `loading_l3` of those of two levels, which stay in L3; `loading_again` of
      what is read from there again.
    - `panels`: of panels made while the tiles multiply; `combinations_l3`: of A's combinations for each group, if they leave L2 meanwhile.
    - `loads`: the slowdown of a tile for each load beyond the best tile's, per multiply-add; `vector`: cycles of a vector of a panel from
      L2.
    - `levels`: cut so many levels at most.
    - `share`: an estimate has to be at most this part of the direct product's; `share_of_one_kernel` if one kernel makes the combinations
      for all threads, which then read them from another core's cache.
    - `rows_hide_loading`, `rows_hide_panels`: rows of a part that hide more of the time for loading weights, and that are enough to make
      panels while they are multiplied.
    - `l3_share_of_weights`, `l3_share_of_combinations`: parts of L3, 1 / this, for the packed weights of two levels, three times as many as
      without, which stay there between runs, and for the combinations of A. With `many_rows` of a part loading more weights pays, up to
      `l3_share_of_weights_for_many_rows`.
    - `rows_of_chunk`: rows of a chunk at least, each of which reads all weights; `least_rows`: of an unknown number fewer are not cut.
    - `results_bytes`: of a thread's unfinished results, where making combinations again for other groups costs as much as what leaves L2
      meanwhile.
    - `l2_share`: neither a panel of B for one product nor the sums of a task take more than 1 / this of L2.
    - `apart`: vectors between A's combinations, so that they do not conflict in the caches.
    - `most_uneven`: tasks of the busier one of two threads at most, in halves of all tasks.
    - `steps_of_pieces`: with fewer steps of a part the rows are not cut into pieces, whose results go through memory; nor with a residual.
    """

    combine: float
    combine_l3: float
    overlapped_combine: float
    overlapped_combine_l3: float
    added: float
    loading: float
    loading_l3: float
    loading_again: float
    panels: float = 0.12
    combinations_l3: float = 0
    loads: float = 0
    vector: float = 0
    levels: int = 2
    share: float = 0.965
    share_of_one_kernel: float = 0.92
    rows_hide_loading: int = 16
    rows_hide_panels: int = 24
    l3_share_of_weights: int = 6
    l3_share_of_combinations: int = 3
    l3_share_of_weights_for_many_rows: int = 2
    many_rows: int = 128
    rows_of_chunk: int = 96
    least_rows: int = 48
    results_bytes: int = 400 << 10
    l2_share: int = 3
    apart: int = 5
    most_uneven: float = 1.15
    steps_of_pieces: int = 128


WITH_SPARE_ADDERS = StrassenCosts(
    combine=0.07,
    combine_l3=1.85,
    overlapped_combine=0.07,
    overlapped_combine_l3=0.35,
    added=0,
    loading=0.2,
    loading_l3=0.08,
    loading_again=0.07,
)
"""Fitted to measured times on Zen 5."""

WITHOUT = StrassenCosts(
    combine=0.7,
    combine_l3=1,
    overlapped_combine=0.1,
    overlapped_combine_l3=0.35,
    added=0.45,
    loading=0.7,
    loading_l3=0.7,
    loading_again=0.3,
)
"""Fitted to those on Sapphire Rapids, in caches and in memory: additions take the units of multiply-adds, and loads wait for L3."""


WITH_SPARE_UNITS = replace(
    WITH_SPARE_ADDERS, combine=0.5, panels=0.06, combinations_l3=0.1, loads=0.15, vector=2.7, results_bytes=2000 << 10
)
"""The same where multiply-adds leave more of the machine idle, fitted on Zen 4, of two cores that may or may not share L3.
"""


WITH_FEW_REGISTERS = replace(WITH_SPARE_ADDERS, combine=0.6, loading=0.08, loading_again=0.03, levels=1)
"""Fitted to those of 23 on Zen 3: sums of parts take registers that tiles need where there are 16, so that two levels took 1.02 to 1.8
times as long as the direct way.
"""


def strassen_costs(target: Target) -> StrassenCosts:
    """The costs of the kind of machine that a target is."""
    if target.spare_adders and target.vector_registers < MANY_REGISTERS:
        return WITH_FEW_REGISTERS
    if target.spare_adders:
        return WITH_SPARE_UNITS if target.multiply_adds < 2 else WITH_SPARE_ADDERS
    return WITHOUT
