"""Constants that stand in memory piece by piece, as they were made: written without being copied, laid out as a whole for those who need
them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from polyreme.runtime.memory import aligned_empty


class LaterPiece:
    """So many bytes that `make` gives, one part after the other, each time that it is called: until then they take no memory."""

    def __init__(self, count: int, make: Callable[[], Iterator[memoryview]]):
        self.count = count
        self.make = make

    def __len__(self) -> int:
        return self.count


Piece = bytes | memoryview | LaterPiece


class Pieces:
    """The bytes of all `parts`, one after the other. Nobody writes to them."""

    def __init__(self, parts: Sequence[Piece]):
        self.parts = parts
        self._count = sum(map(len, parts))

    def __len__(self) -> int:
        return self._count

    @cached_property
    def whole(self) -> memoryview:
        """The same in one piece, which starts at a whole cache line."""
        data = aligned_empty(self._count)
        end = 0
        for part in bytes_of(self):
            data[end : end + len(part)] = np.frombuffer(part, np.uint8)
            end += len(part)
        data.flags.writeable = False
        return data.data


def bytes_of(constants: bytes | memoryview | Pieces) -> Iterator[bytes | memoryview]:
    """The pieces that there are of constants, each made when its turn comes."""
    parts = constants.parts if isinstance(constants, Pieces) else [constants]
    for part in parts:
        yield from part.make() if isinstance(part, LaterPiece) else (part,)
