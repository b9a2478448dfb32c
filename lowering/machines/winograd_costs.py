"""What Winograd's convolutions, and the direct ones beside them, cost besides their multiply-adds, by kind of machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.instructions import WIDEST_LANES
from polyreme.lowering.machines.targets import Target

# With fewer channels, or output channels, transforms cost more than they save.
WINOGRAD_CHANNELS = WIDEST_LANES


@dataclass(frozen=True)
class WinogradCosts:
    """Cycles, unless it says otherwise.

    - `sizes`: of pieces that may pay, by the side of a window and its stride. Where additions cost, 3 has fewer products than 2 and fewer
      weights than 4.
    - `transform`: of an element of a transform, by size of a piece and stride; `usual_transform` of any other.
    - `transform_first`: of a byte of data that a kernel in front transforms; `step` of that kernel before it does anything. `beyond_l2` of
      a byte of data from there, if it exceeds so many times L2 (`l2_multiple`).
    - `ranges`: of a byte of sums that are read again for each range of channels.
    - `gather`: to gather a vector of weights of one tap.
    - `direct`: the direct way's time over its multiply-adds, with taps outside of the image or without, as `direct_skips` says.
    - `loading_shows`: the part of the shorter one of two overlapped times that still shows, such as loading weights and arithmetic;
      `stream_shows` where direct tiles prefetch weights in streams.
    - `share`: an estimate has to be at most this part of the direct way's, which take `unknown_rows` times as long if rows have an unknown
      number of pixels, which direct tiles do not fit.
    - `inner_product`: so many times as long as Winograd's inner product is estimated to take, it is as fast as that.
    """

    sizes: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=lambda: {(3, 1): (2, 4), (3, 2): (2, 4), (5, 1): (2,)})
    usual_transform: float = 3.0
    transform: Mapping[tuple[int, int], float] = field(default_factory=dict)
    transform_first: float = 0
    step: float = 5000
    beyond_l2: float = 0.55
    l2_multiple: float = 2
    ranges: float = 0
    gather: float = 48
    direct: float = 1.1
    direct_skips: bool = False
    loading_shows: float = 0.35
    stream_shows: float = 0.35
    share: float = 0.9
    unknown_rows: float = 1.5
    inner_product: float = 1.25


SPARE_ADDERS = WinogradCosts()
"""Where additions run beside multiply-adds; not fitted to any machine."""

SHARED_ADDERS = WinogradCosts(
    sizes={(3, 1): (2, 3, 4), (3, 2): (2, 4)},
    transform={(2, 1): 9.2, (3, 1): 12.0, (4, 1): 14.8, (2, 2): 9.6, (4, 2): 23.1},
    transform_first=0.32,
    ranges=0.04,
    direct=1.3,
    direct_skips=True,
    stream_shows=0.25,
    share=1.0,
)
"""Fitted to times on Sapphire Rapids, where additions take the units of multiply-adds."""


def winograd_costs(target: Target) -> WinogradCosts:
    """The costs of the kind of machine that a target is."""
    return SPARE_ADDERS if target.spare_adders else SHARED_ADDERS
