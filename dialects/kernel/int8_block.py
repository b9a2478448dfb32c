"""`kernel.dot_block`: a block of an int8 matrix product on AMX."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import Array, check_buffer, check_index, read, write
from polyreme.ir.core import Op
from polyreme.ir.define import attr, op, operand, optional
from polyreme.ir.diagnostics import check_attr, check_type
from polyreme.ir.types import Type, i32

# Words of four bytes that a step takes of each row, columns of a tile of results, and the most rows of one: what a tile register holds.
STEP = COLUMNS = MOST_ROWS = 16
MOST_RUNS = 2


@op("kernel.dot_block")
class DotBlock(Op):
    """Sums of products of bytes, four to a word, for one or two runs of rows of A by some columns of B.

        // %a: buffer<256xi32>, %i: index, %b: buffer<1024xi32>, %j: index, %sums: buffer<64xi32>, %next: index
        kernel.dot_block %a, %i, %b, %j, %sums, %next {rows = 4, row = 48, starts = [0], places = [0], columns = 16, width = 16,
            counts = [3], moves_a = [16], moves_b = [256], lines = 1}

    Run k has the `rows` rows of A that begin entry k of `starts` behind `at_a`, `row` words apart. Its sums become the rows of `sums` from
    entry k of `places` on, which are `columns` long (16 or 32). A step takes 16 words of each row, unsigned bytes, by as many rows of B,
    `width` words apart, of signed bytes. There is a step for every place on axes of `counts` places each, along which A moves by `moves_a`
    and B by `moves_b`. Sums wrap around in 32 bits. Runs may overlap: what is written twice is the same.

    With `ahead`, a position of B, each step prefetches `lines` lines from there on to L2, one after the other.

    For processors with tile registers (`amx-int8`). On numpy it is exact everywhere.
    """

    a = operand()
    at_a = operand()
    b = operand()
    at_b = operand()
    sums = operand()
    ahead = optional()
    rows = attr(int)
    row = attr(int)
    starts = attr(tuple[int, ...])
    places = attr(tuple[int, ...])
    columns = attr(int)
    width = attr(int)
    counts = attr(tuple[int, ...])
    moves_a = attr(tuple[int, ...])
    moves_b = attr(tuple[int, ...])
    lines = attr(int, default=0)

    @staticmethod
    def infer(
        a: Type, at_a: Type, b: Type, at_b: Type, sums: Type, ahead: Type | None, *, rows: int, row: int, starts: tuple[int, ...],
        places: tuple[int, ...], columns: int, width: int,
        counts: tuple[int, ...], moves_a: tuple[int, ...], moves_b: tuple[int, ...], lines: int,
    ) -> None:  # fmt: skip
        check_index(at_a)
        check_index(at_b)
        if ahead is not None:
            check_index(ahead)
        check_attr(
            lines > 0 if ahead is not None else lines == 0,
            f"expected lines where something is asked for ahead, and none elsewhere, but got {lines}",
        )
        found = [check_buffer(x).dtype for x in (a, b, sums)]
        check_type(all(dtype == i32 for dtype in found), f"expected buffers of i32 but got {', '.join(map(str, found))}")
        check_attr(1 <= rows <= MOST_ROWS, f"expected from 1 to {MOST_ROWS} rows but got {rows}")
        check_attr(
            1 <= len(starts) <= MOST_RUNS and len(places) == len(starts),
            f"expected one or two runs, each with a start and a place, but got {list(starts)} and {list(places)}",
        )
        check_attr(
            columns in (COLUMNS, 2 * COLUMNS) and width >= columns,
            f"expected {COLUMNS} or {2 * COLUMNS} columns of rows that are as wide at least but got {columns} of {width}",
        )
        check_attr(
            len(counts) == len(moves_a) == len(moves_b) and all(n > 0 for n in counts),
            f"expected axes with places and a move of each operand but got {list(counts)}, {list(moves_a)} and {list(moves_b)}",
        )

    @staticmethod
    def reference(
        a: Array, at_a: Any, b: Array, at_b: Any, sums: Array, ahead: Any, *, rows: int, row: int, starts: tuple[int, ...],
        places: tuple[int, ...], columns: int, width: int,
        counts: tuple[int, ...], moves_a: tuple[int, ...], moves_b: tuple[int, ...], lines: int,
    ) -> tuple[()]:  # fmt: skip
        moved_a, moved_b = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for count, by_a, by_b in zip(counts, moves_a, moves_b, strict=True):
            moved_a, moved_b = ((moved[:, None] + by * np.arange(count)).reshape(-1) for moved, by in ((moved_a, by_a), (moved_b, by_b)))
        within = np.arange(STEP)
        lines = at_a + np.add.outer(starts, row * np.arange(rows)).reshape(-1)
        left = read("kernel.dot_block", a, np.add.outer(lines, np.add.outer(moved_a, within).reshape(-1)), None)
        right = read(
            "kernel.dot_block", b, at_b + np.add.outer(np.add.outer(moved_b, width * within).reshape(-1), np.arange(columns)), None
        )
        # Bytes of a word are neighbours in A's rows, and below each other in B's columns. Products and sums of float64 are exact here.
        factors = np.ascontiguousarray(right).view(np.int8).reshape(-1, columns, 4).transpose(0, 2, 1).reshape(-1, columns)
        made = np.ascontiguousarray(left).view(np.uint8).astype(np.float64) @ factors.astype(np.float64)
        at = np.add.outer(np.add.outer(places, np.arange(rows)).reshape(-1) * columns, np.arange(columns))
        write("kernel.dot_block", made.astype(np.int64).astype(np.int32), sums, at, None)
        return ()
