"""Tiles over a number of rows that is not known when the kernel is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyreme.ir.builtin import Return
from polyreme.ir.core import Value
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, i64
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import overlapping_sizes, paired_sizes, tile_rows_in_pairs, tile_rows_overlapping
from tests.lowering.kernel_modules import one_function


def test_sizes_fall_by_an_eighth_down_to_one() -> None:
    assert overlapping_sizes(22) == [22, 19, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1]
    assert overlapping_sizes(3) == [3, 2, 1]
    assert overlapping_sizes(1) == [1]


def tiled(room: int, tile_rows: Callable[[Code, Value, Callable[[Index, int], None]], None]) -> Callable[[int], tuple[Any, list[int]]]:
    """What tiles make of a number of rows up to `room`: how often each row is computed, and how many tiles there are of each size."""
    module, (count, times, tiles), b = one_function([BufferType((1,), i64)], [BufferType((room,), i64), BufferType((room + 1,), i64)])
    code = Code(b)
    zero, one = code.constant(0, i64), code.constant(1, i64)
    for buffer, size in ((times, room), (tiles, room + 1)):
        with code.loop(0, size) as loop:
            code.store(zero, buffer, loop.iv)

    def tile(start: Index, size: int) -> None:
        code.store(code.apply("add", code.load(tiles, size), one), tiles, size)
        with code.loop(start, code.add(start, size)) as row:
            code.store(code.apply("add", code.load(times, row.iv), one), times, row.iv)

    tile_rows(code, code.apply("cast", code.load(count, 0), dtype=code.value(0).type), tile)
    b.insert(Return([]))

    def run(n: int) -> tuple[Any, list[int]]:
        covered, number = evaluate(module, [np.array([n])])
        assert (covered[:n] >= 1).all() and not covered[n:].any(), n
        return covered, list(number)

    return run


@pytest.mark.parametrize("most", [1, 6, 13])
def test_overlapping_tiles_cover_all_rows_and_no_others(most: int) -> None:
    run = tiled(3 * most, lambda code, rows, tile: tile_rows_overlapping(code, rows, overlapping_sizes(most), tile))
    for n in range(3 * most + 1):
        _, tiles = run(n)
        # As few as can be; rows that fill no tile of their number take one more.
        assert sum(tiles) == -(-n // most) or (n < most and sum(tiles) == 2)


@pytest.mark.parametrize(("most", "vectors"), [(1, 4), (3, 6), (6, 4), (8, 3), (11, 2), (13, 2), (26, 1)])
def test_the_last_rows_are_two_tiles_at_most_over_rows_of_each_other(most: int, vectors: int) -> None:
    run = tiled(3 * most, lambda code, rows, tile: tile_rows_in_pairs(code, rows, paired_sizes(most), vectors, tile))
    for n in range(3 * most + 1):
        covered, tiles = run(n)
        # Of the tiles of the first size all but one are needed; rows that are computed twice are fewer than a third.
        assert tiles[most] >= n // most - (n % most > 0) and sum(tiles) <= n // most + 1 + (n < most)
        assert n == 0 or covered.sum() * 3 <= 4 * n + 3, n


def test_a_pair_of_middle_tiles_takes_what_a_small_one_would_wait_for() -> None:
    """Two pixels more than whole tiles of six by four vectors: eight as two tiles of four."""
    run = tiled(18, lambda code, rows, tile: tile_rows_in_pairs(code, rows, paired_sizes(6), 4, tile))
    _, tiles = run(14)
    assert (tiles[6], tiles[4], tiles[2]) == (1, 2, 0)
    _, tiles = run(12)
    assert (tiles[6], tiles[4], tiles[2]) == (2, 0, 0)


def test_sizes_of_pairs_are_all_where_these_are_few() -> None:
    assert paired_sizes(6) == [6, 5, 4, 3, 2, 1]
    assert paired_sizes(11) == [11, 8, 7, 4, 2, 1]
    assert paired_sizes(1) == [1]
