"""Tiles over a number of rows that is not known when the kernel is written."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.ir.builtin import Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, i64
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import overlapping_sizes, tile_rows_overlapping
from tests.lowering.kernel_modules import one_function


def test_sizes_fall_by_an_eighth_down_to_one() -> None:
    assert overlapping_sizes(22) == [22, 19, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1]
    assert overlapping_sizes(3) == [3, 2, 1]
    assert overlapping_sizes(1) == [1]


@pytest.mark.parametrize("most", [1, 6, 13])
def test_overlapping_tiles_cover_all_rows_and_no_others(most: int) -> None:
    room = 3 * most
    module, (count, times, tiles), b = one_function([BufferType((1,), i64)], [BufferType((room,), i64), BufferType((1,), i64)])
    code = Code(b)
    zero, one = code.constant(0, i64), code.constant(1, i64)
    code.store(zero, tiles, 0)
    with code.loop(0, room) as loop:
        code.store(zero, times, loop.iv)

    def tile(start: Index, size: int) -> None:
        code.store(code.apply("add", code.load(tiles, 0), one), tiles, 0)
        with code.loop(start, code.add(start, size)) as row:
            code.store(code.apply("add", code.load(times, row.iv), one), times, row.iv)

    rows = code.apply("cast", code.load(count, 0), dtype=code.value(0).type)
    tile_rows_overlapping(code, rows, overlapping_sizes(most), tile)
    b.insert(Return([]))
    for n in range(room + 1):
        covered, number = evaluate(module, [np.array([n])])
        assert (covered[:n] >= 1).all() and not covered[n:].any(), n
        # As few as can be; rows that fill no tile of their number take one more.
        assert number[0] == -(-n // most) or (n < most and number[0] == 2)
