"""Unions of spans of bytes, moved by loops, beside sets of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.lowering.analysis.footprints import MOST_SPANS, bytes_of, moved, union

SPANS = st.lists(st.tuples(st.integers(-300, 300), st.integers(1, 90)), min_size=1, max_size=8)


def spans(pairs: list[tuple[int, int]]) -> np.ndarray:
    return np.array([[first, first + count] for first, count in pairs])


def touched(rows: np.ndarray) -> set[int]:
    return {byte for first, end in rows for byte in range(first, end)}


@given(SPANS)
def test_a_union_has_each_byte_once(pairs: list[tuple[int, int]]) -> None:
    found = union(spans(pairs))
    assert touched(found) == touched(spans(pairs)) and bytes_of(found) == len(touched(found))
    assert (found[1:, 0] > found[:-1, 1]).all()


@given(SPANS, st.integers(-70, 70), st.integers(1, 9))
def test_rounds_touch_the_union_of_what_each_does(pairs: list[tuple[int, int]], step: int, rounds: int) -> None:
    found, count = moved(union(spans(pairs)), step, rounds)
    assert touched(found) == set().union(*(touched(spans(pairs) + step * i) for i in range(rounds)))
    assert count == bytes_of(found)


@pytest.mark.parametrize("step", [4, -4, 64])
def test_many_rounds_of_one_span_are_one_span(step: int) -> None:
    rounds = 5 * MOST_SPANS
    found, count = moved(spans([(0, 64)]), step, rounds)
    assert len(found) == 1 and count == bytes_of(found) == 64 + abs(step) * (rounds - 1)


def test_many_rounds_that_are_apart_are_counted() -> None:
    found, count = moved(spans([(0, 64), (128, 64)]), 256, 4 * MOST_SPANS)
    assert found is None and count == 4 * MOST_SPANS * 128


def test_parts_of_rounds_count_as_such() -> None:
    assert moved(spans([(0, 64)]), 64, 9.5)[1] == pytest.approx(9.5 * 64)
