"""How direct convolutions are cut, beside what caches say; for every machine."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class DirectCosts:
    """Rows are those of pixels.

    - `piece`: rows and pixels of a piece where strides leave out pixels of lines of memory: few rows, as far as they go.
    - `short_row`: rows of unknown length up to about so many pixels have no tiles of their own: all pixels of an image are counted through,
      `numbered` to a task.
    - `most_of_rows`: rows of up to so many pixels may be tiles of their own, `vectors_of_rows` wide.
    - `most_vectors`: of a tile.
    """

    piece: tuple[int, int] = (2, 240)
    short_row: int = 32
    numbered: int = 192
    most_of_rows: int = 8
    vectors_of_rows: int = 2
    most_vectors: int = 6


DIRECT_COSTS = DirectCosts()
