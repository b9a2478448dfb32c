"""Recurrent weights in 28 bits, where reading them takes all the time: a sign, 4 bits of exponent and all 23 bits of the fraction.

Weights are divided by the power of two below their column's largest magnitude, and multiplied by 2^-112: their exponents then fit in 4
bits. Those below 2^-14 of that power become denormal. So a weight is exact, or rounded by at most 2^-38 of its column's power. A sum of
products is rounded by at most that, times the sum of the other factors' magnitudes. A column with an infinity or nan becomes nan.

Eight vectors of 16 weights are seven lines of 64 bytes:

    line 0      bits 24 to 31 of two weights in a byte: `s...eee` of the first half's, and `.eees...` of the second half's in between
    lines 1, 2  bits 16 to 23
    lines 3-6   bits 0 to 15

Their order lets bytes, and then pairs of bytes, be interleaved within 16 bytes: one and a half instructions for each vector.

The other factor is multiplied by `SHORT.factor`, so that products are normal numbers. (Those of factors below 2^-54 are rounded by at most
2^-78 of the column's power.) Sums are multiplied by `SHORT.rest` and the column's power. All of these are powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polyreme.ir import config
from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32, i16, u8
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.machines.targets import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ShortFormat:
    """A block has `vectors` vectors of `lanes` weights of `bits` each. Weights are divided by their column's power and 2^`shift`, the other
    factor is multiplied by 2^`up`, which so may be up to 2^88, and what is left of these is the sums'. Of a byte of line 0 the bits of
    `high` are those of a weight of the first half.
    """

    lanes: int
    vectors: int
    bits: int
    shift: int
    up: int
    high: int

    @property
    def block(self) -> int:
        """Weights of a block."""
        return self.lanes * self.vectors

    @property
    def block_bytes(self) -> int:
        return self.block * self.bits // 8

    @property
    def block_words(self) -> int:
        """Words of 16 bits."""
        return self.block_bytes // 2

    @property
    def factor(self) -> float:
        """By what the other factor is multiplied."""
        return 2.0**self.up

    @property
    def rest(self) -> float:
        """By what sums are multiplied, beside the column's power."""
        return 2.0 ** (self.shift - self.up)


SHORT = ShortFormat(lanes=16, vectors=8, bits=28, shift=112, up=40, high=0x87)


def may_be_short(target: Target) -> bool:
    """Whether the machine joins bytes in vectors of 16 weights, and nobody forbids it."""
    return target.short_weights and config.short_weights() and target.vector_bytes == SHORT.lanes * 4 and target.has("avx512bw")


def rows_of_blocks(vectors: int) -> int:
    """The fewest rows of so many vectors that are whole blocks."""
    return next(rows for rows in range(1, SHORT.vectors + 1) if rows * vectors % SHORT.vectors == 0)


# --- packing, on numpy


def powers(w: Array) -> Array:
    """The powers of two of columns, `[panels][columns]`, of weights `[panels][rows][columns]`; nan where an element is not finite."""
    largest = np.abs(w).max(axis=1, initial=0)
    power = np.maximum((largest.view(np.uint32) & 0x7F800000).view(np.float32), np.float32(2.0**-126))
    return np.where(np.isfinite(largest), power, np.float32(np.nan)).astype(np.float32)


def short_panels(w: Array) -> Array:
    """Weights `[panels][rows][columns]`, whole blocks in each panel, as flat bytes."""
    with np.errstate(all="ignore"):
        short = w / powers(w)[:, np.newaxis] * np.float32(2.0**-SHORT.shift)
    # Of a weight: which half of the block and which quarter of it, which vector of a pair, which 16 bytes of that, which word of these,
    # which byte.
    x = np.ascontiguousarray(short).view(np.uint8).reshape(-1, 2, 2, 2, 4, 4, 4)
    # A line of high bytes interleaves into two of pairs, of which each interleaves into two vectors.
    top, middle = (x[..., byte].transpose(0, 1, 4, 2, 3, 5).reshape(len(x), 2, -1) for byte in (3, 2))
    line = top[:, 0] | top[:, 1] << 4 | top[:, 1] >> 4
    low = x[..., :2].transpose(0, 1, 2, 4, 3, 5, 6)
    return np.concatenate([part.reshape(len(x), -1) for part in (line, middle, low)], axis=1).reshape(-1)


# --- reading, at kernel level


def short_rows(code: Code, weights: Value, at: Index, rows: int, vectors: int) -> Iterator[list[Value]]:
    """The vectors of each of `rows` rows, whole blocks together, from the block on whose 16-bit words start at `at`."""
    ready: list[Value] = []
    for _ in range(rows):
        while len(ready) < vectors:
            ready += _block(code, weights, at)
            at = code.add(at, SHORT.block_words)
        yield ready[:vectors]
        ready = ready[vectors:]


def _block(code: Code, weights: Value, at: Index) -> list[Value]:
    """The eight vectors of a block."""
    words, first = code.seen_as(weights, i16), code.mul(at, 2)
    lines = [code.load(weights, code.add(first, 64 * i), 64, None, 64) for i in range(3)]
    four, mask = (code.broadcast(code.constant(x, u8), 64) for x in (4, SHORT.high))
    turned = code.apply("or", code.apply("shl", lines[0], four), code.apply("shr", lines[0], four))
    found: list[Value] = []
    for top, line in zip((lines[0], turned), lines[1:], strict=True):
        for high in _interleaved(code, line, code.apply("and", top, mask)):
            low = code.load(words, code.add(at, 32 * (3 + len(found) // 2)), 32, None, 64)
            found += [code.reinterpret(x, f32) for x in _interleaved(code, low, code.reinterpret(high, i16))]
    return found


def _interleaved(code: Code, low: Value, high: Value) -> list[Value]:
    """Two vectors interleaved element by element: the first halves of their 16 bytes, and the second ones."""
    count = low.type.lanes
    each = count // 4
    halves = [[part * each + half * each // 2 + i for part in range(4) for i in range(each // 2)] for half in range(2)]
    return [code.shuffle(low, high, [x for i in half for x in (i, count + i)]) for half in halves]
