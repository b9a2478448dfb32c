"""What Winograd's inner product costs on the cores that it is for: those of Zen 4, where multiply-adds leave units idle."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class InnerProductCosts:
    """Cycles, fitted to times on Zen 4.

    - `copy`: of a vector of A's rows; `gather` more where it is gathered.
    - `row`: of a row's own sums; `result` of a vector of results, `step` of six steps for one.
    - `direct_result`: of a vector of results by the plain product; `transpose` of one of B there.
    - `pack`: of a vector of B that is packed at each call; `memory_pack` if the panels exceed L3, too.
    - `end`: threads wait for the last tasks of several products.
    - `share`: an estimate has to be at most this part of the plain product's; `share_of_windows` for convolutions, whose rows have to be
      gathered.
    - `rows_together`: so many rows are one tile, since the multiply-adds of a row wait for each other, and fewer rows would not fill that
      time.
    - `copies_share`: using a row's copy takes at least so many times as long as copying it, for each thread that shares the panels.
    - `l2_share_of_rows`, `l2_share_of_weights`: parts of L2, 1 / this, for a task's rows of A, and for all of B if it is small;
      `l3_share_of_copies` of L3 for copies of rows that are read from there for each panel.
    - `few_pieces`: if the rows are more pieces, of which each fits into L2, a kernel in front makes the panels, unless they exceed L3.
    - `prefetching_rows`: tiles of fewer leave prefetching to the hardware.
    - `most_together`: panels that are filled together, at most, which are `together_bytes`; `ways_of_lines`: ways of L2 for the next
      panel's lines.
    """

    copy: float = 4
    gather: float = 2
    row: float = 30
    result: float = 9
    step: float = 4.3
    direct_result: float = 5
    transpose: float = 12
    pack: float = 12
    memory_pack: float = 40
    end: float = 3000
    share: float = 0.93
    share_of_windows: float = 0.87
    rows_together: int = 10
    copies_share: int = 40
    l2_share_of_rows: int = 2
    l2_share_of_weights: int = 4
    l3_share_of_copies: int = 2
    few_pieces: int = 3
    prefetching_rows: int = 4
    most_together: int = 4
    together_bytes: int = 1 << 17
    ways_of_lines: int = 4


INNER_PRODUCT_COSTS = InnerProductCosts()
