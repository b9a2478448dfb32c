"""How much code a kernel has in place of loops, as instruction caches and compiling bear it; for every machine."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class WrittenOut:
    """What is written out at most:

    - multiply-adds of a tile of windows over channels (`tile`): a row of the window for each of its pixels; taps of a window over planes
      (`window`).
    - tiles of a row, because some of their taps lie outside of the image (`edges`).
    - elements of a reduction (`reduction`), and pixels that are turned (`turned`).
    - taps of windows that overlap, each of which is a case of its own in a gradient (`cases`).
    """

    tile: int = 448
    window: int = 49
    edges: int = 6
    reduction: int = 16
    turned: int = 64
    cases: int = 27


WRITTEN_OUT = WrittenOut()
