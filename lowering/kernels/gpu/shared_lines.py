"""Where elements of a tile lie in shared memory, so that no two lanes that read or write together meet in a bank.

Shared memory has 32 banks of 4 bytes, one after the other. `ldmatrix` reads eight rows of 16 bytes at a time, of eight neighbouring lines:
if these lie below each other, all are in the same four banks. So the pieces of 16 bytes of a line change places: piece p of line l lies at
place p xor l. Lines shorter than 128 bytes, the width of all banks, change as many together as fill that.

    line 0:  0 1 2 3 4 5 6 7
    line 1:  1 0 3 2 5 4 7 6
    line 2:  2 3 0 1 6 7 4 5      piece 0 of eight lines stands in eight places
"""

from __future__ import annotations

from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.machines.gpu import BANKS_BYTES, VECTOR_BYTES

# Pieces of 16 bytes in as many bytes as all banks have.
PIECES = BANKS_BYTES // VECTOR_BYTES


@dataclass(frozen=True)
class SharedLines:
    """Lines of `length` elements of `size` bytes each, whose pieces change places among `swizzle` of them."""

    length: int
    size: int
    swizzle: int = PIECES

    @property
    def piece(self) -> int:
        """Elements of 16 bytes."""
        return VECTOR_BYTES // self.size

    def turn(self, code: Code, line: Index) -> Index:
        """What the pieces of a line are moved by; that of its number modulo 8 is the same."""
        pieces = self.length // self.piece
        among = min(pieces & -pieces, self.swizzle, PIECES)
        return code.mod(code.div(line, max(1, PIECES // pieces)), among) if among > 1 else 0

    def at(self, code: Code, line: Index, element: Index, turn: Index) -> Index:
        """Where an element lies. A sum with what is known last."""
        piece, within = code.div(element, self.piece), code.mod(element, self.piece)
        return code.add(code.mul(exclusive_or(code, piece, turn), self.piece), within, code.mul(line, self.length))


def exclusive_or(code: Code, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if 0 in [x for x in (a, b) if isinstance(x, int)]:
        return a if isinstance(b, int) else b
    return code.apply("xor", code.value(a), code.value(b))
