"""`kernel.dot_terms`: a block of a float32 matrix product on AMX, with each number split into three bf16 terms (bf16x3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import Array, check_buffer, check_index, read, write
from polyreme.ir.core import Op
from polyreme.ir.define import attr, op, operand, optional
from polyreme.ir.diagnostics import check_attr, check_type
from polyreme.ir.types import Type, f32, i32

# A step multiplies so many elements of the contracted axis, in pairs that are the words of a tile's row, by the lanes of a panel, two tiles
# wide.
STEPS, PAIRS, LANES = 32, 16, 32
MOST_ROWS = 16
# Numbers of a vector, of which two are the lanes.
VECTOR = LANES // 2
# Terms of a number, and the pairs of a term of A and one of B that are multiplied; others are below what float32 holds. Neighbours share a
# term, so that one tile is loaded for each.
TERMS = 3
PRODUCTS = ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0))

# Half of the last bit of a bf16, added to a float32 so that its upper half is the nearest one.
HALF = 0x8000
# The bits of a float32 that are a bf16.
UPPER = -1 << 16


@op("kernel.dot_terms")
class DotTerms(Op):
    """Adds products of rows of A by 32 lanes of B to sums, each number as three bf16 terms, and splits other numbers of B meanwhile.

        kernel.dot_terms %a, %i, %b, %j, %sums, %k, %k, %source, %l, %m, %n {rows = 16, steps = 2, cuts = 4, apart = 64}
        // %a: buffer<4096xi32>, %i: index, %b: buffer<8192xi32>, %j: index, %sums: buffer<1024xf32>, %k: index, %source: buffer<2048xf32>,
        // %l: index, %m: index, %n: index

    A word has two bf16 numbers, the terms of two neighbouring steps of the contracted axis, the first of them in its low half. A number's
    first term is the nearest bf16, the second one that of what is left, and the third one what is left of that. A has 16 words of each of
    `rows` rows for each term and each of `steps` steps, `[step][term][row][16]` from `at_a` on, so that a step is 32 steps of the axis. B
    has 32 lanes of each pair, `[term][pair][32]` from `at_b` on, `16 * steps` pairs of each term. Rows of sums are 32 numbers from
    `at_sums` on; they begin as those from `at_begun` on, or as zeros.

    Products of terms are added up in float32 one after the other. The three with the smallest terms are left out, because they are below
    what float32 holds. Numbers below 2^-126 count as zero.

    With `source` each step splits `cuts` pairs of rows. 32 numbers of each of two rows, `apart` from row to row, from `at_source` on become
    words of B `[term][pair][32]` from `at_into` on, again `16 * steps` pairs apart from term to term. As many rows from `at_ahead` on are
    prefetched.

    For processors with tile registers (`amx-bf16`). On numpy sums are rounded once a step.
    """

    a = operand()
    at_a = operand()
    b = operand()
    at_b = operand()
    sums = operand()
    at_sums = operand()
    at_begun = optional()
    source = optional()
    at_source = optional()
    at_into = optional()
    at_ahead = optional()
    rows = attr(int)
    steps = attr(int)
    cuts = attr(int, default=0)
    apart = attr(int, default=LANES)

    @staticmethod
    def infer(
        a: Type,
        at_a: Type,
        b: Type,
        at_b: Type,
        sums: Type,
        at_sums: Type,
        at_begun: Type | None,
        source: Type | None,
        at_source: Type | None,
        at_into: Type | None,
        at_ahead: Type | None,
        *,
        rows: int,
        steps: int,
        cuts: int,
        apart: int,
    ) -> None:
        given = [x is not None for x in (source, at_source, at_into, at_ahead)]
        check_attr(
            all(given) if cuts > 0 else cuts == 0 and not any(given),
            f"expected 'source' and three positions with cuts, and none elsewhere, but got {cuts} cuts and {sum(given)} of these",
        )
        for at in (at_a, at_b, at_sums, at_begun, at_source, at_into, at_ahead):
            if at is not None:
                check_index(at)
        found = [check_buffer(x).dtype for x in (a, b, sums)]
        check_type(found == [i32, i32, f32], f"expected buffers of i32, i32 and f32 but got {', '.join(map(str, found))}")
        check_type(source is None or check_buffer(source).dtype == f32, f"expected a buffer of f32 to cut but got {source}")
        check_attr(1 <= rows <= MOST_ROWS, f"expected from 1 to {MOST_ROWS} rows but got {rows}")
        check_attr(
            steps > 0 and apart >= LANES, f"expected a step at least, and rows that don't overlap, but got {steps}, and rows {apart} apart"
        )
        check_attr(cuts <= PAIRS, f"expected at most {PAIRS} cuts a step but got {cuts}")

    @staticmethod
    def reference(
        a: Array, at_a: Any, b: Array, at_b: Any, sums: Array, at_sums: Any, at_begun: Any, source: Array | None, at_source: Any,
        at_into: Any, at_ahead: Any,
        *, rows: int, steps: int, cuts: int, apart: int,
    ) -> tuple[()]:  # fmt: skip
        name, pairs = "kernel.dot_terms", steps * PAIRS
        left = _numbers(read(name, a, at_a + np.arange(steps * TERMS * rows * PAIRS), None)).reshape(steps, TERMS, rows, STEPS)
        # Halves of a word are below each other.
        right = (
            _numbers(read(name, b, at_b + np.arange(TERMS * pairs * LANES), None))
            .reshape(TERMS, steps, PAIRS, LANES, 2)
            .transpose(0, 1, 2, 4, 3)
            .reshape(TERMS, steps, STEPS, LANES)
        )
        places = np.arange(rows * LANES)
        made = np.zeros((rows, LANES), np.float32) if at_begun is None else read(name, sums, at_begun + places, None).reshape(rows, LANES)
        with np.errstate(all="ignore"):
            for step in range(steps):
                made = (made + sum(left[step, i] @ right[j, step] for i, j in PRODUCTS)).astype(np.float32)
        write(name, made.reshape(-1), sums, at_sums + places, None)
        if source is not None:
            count = steps * cuts
            first, second = (
                read(name, source, at_source + np.add.outer(apart * np.arange(2 * count), np.arange(LANES)), None)
                .reshape(count, 2, LANES)
                .transpose(1, 0, 2)
            )
            for term, words in enumerate(cut(first, second)):
                write(name, words.reshape(-1), b, at_into + term * pairs * LANES + np.arange(count * LANES), None)
        return ()


def cut(first: Array, second: Array) -> list[Array]:
    """The terms of pairs of float32 numbers as words, the largest ones first."""
    pair, words = [np.ascontiguousarray(x) for x in (first, second)], []
    for term in range(TERMS):
        # Nothing of the last one is left over.
        low, high = uppers = [(x.view(np.uint32) + np.uint32(HALF * (term < TERMS - 1))) & np.uint32(UPPER & 0xFFFFFFFF) for x in pair]
        words.append((high | low >> 16).view(np.int32))
        with np.errstate(all="ignore"):
            pair = [x - upper.view(np.float32) for x, upper in zip(pair, uppers, strict=True)]
    return words


def _numbers(words: Array) -> Array:
    """The two numbers of each word as float64, the low one first; denormal ones are zero."""
    halves = np.ascontiguousarray(words).view(np.uint32)
    both = np.stack([halves << 16, halves & 0xFFFF0000], -1).view(np.float32)
    found: Array = np.where(np.abs(both) < np.finfo(np.float32).tiny, 0, both).reshape(-1).astype(np.float64)
    return found
