"""Rows of free length that are moved or read by positions: short ones have code of their own, by half a vector, one and two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, i64
from polyreme.lowering.machines.targets import TARGETS, host
from tests.lowering.products import root_of, run_native, to_kernels

N, ROWS = symbol("N"), symbol("R")
LENGTHS = [0, 1, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 65]


def read_along(b: Any, x: Any, places: Any) -> Any:
    """A row of each row of a table, by places along it."""
    return b(tensor.Map, b(tensor.Gather, x, places, axis=1), fn="abs")


def rows_read(b: Any, x: Any, places: Any) -> Any:
    """Rows of a table."""
    return b(tensor.Gather, x, places, axis=0)


def framed(b: Any, x: Any, places: Any) -> Any:
    """The same, with the first element in front and behind."""
    rows = b(tensor.Gather, x, places, axis=0)
    first = b(tensor.Slice, rows, starts=(0, 0), stops=(ROWS, 1), strides=(1, 1))
    return b(tensor.Concat, [first, rows, first], axis=1)


def repeated(b: Any, x: Any, places: Any) -> Any:
    """Each row three times."""
    return b(tensor.Broadcast, b(tensor.Reshape, x, shape=(7, 1, N)), shape=(7, 3, N))


KINDS = {
    read_along: ((7, 9), (N,)),
    rows_read: ((7, N), (ROWS,)),
    framed: ((7, N), (ROWS,)),
    repeated: ((7, N), (ROWS,)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_any_length_are_moved_whole_and_nothing_else_is_touched(kind: Any) -> None:
    table, places = KINDS[kind]
    module = root_of([TensorType(table, f32), TensorType(places, i64)], kind)
    kernels = [to_kernels(module, TARGETS[target])[0] for target in ("x86-64-avx512", "x86-64-avx2", "aarch64")]
    draw = np.random.default_rng(1)
    for length in LENGTHS:
        if kind is framed and not length:
            continue
        shape = tuple(length if n == N else n for n in table)
        x = draw.standard_normal(shape).astype(np.float32)
        i = draw.integers(0, min(n for n in table if isinstance(n, int)), length if places == (N,) else 5)
        expected = evaluate(module, [x, i])[0]
        for lowered in kernels:
            np.testing.assert_array_equal(evaluate(lowered, [x, i])[0], expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [3, 16, 29, 100])
def test_machine_code_moves_short_rows_on_one_and_two_threads(kind: Any, length: int) -> None:
    table, places = KINDS[kind]
    module = root_of([TensorType(table, f32), TensorType(places, i64)], kind)
    x = np.random.default_rng(2).standard_normal(tuple(length if n == N else n for n in table)).astype(np.float32)
    i = np.arange(length if places == (N,) else 400) % 7
    for found in run_native(module, [x, i], host()):
        np.testing.assert_array_equal(found[0], evaluate(module, [x, i])[0])
