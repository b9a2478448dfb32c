"""Lengths, offsets and counts that are not those of the rows, which Paddle 1.8.5 refuses too: a run gives no results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme.fluid as fluid
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.errors import CallError
from tests.fluid_api.cases_detection import boxes, draw
from tests.fluid_api.cases_layers import fed, given, rows


def column(*values: int, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype).reshape(-1, 1)


THREE, TWO = [[2, 1, 3]], [[1, 2]]
WRONG: dict[str, tuple[Callable[..., Any], Any]] = {
    "pads that are too short": (
        lambda L, x: L.sequence_pad(x, L.assign(np.array([0.5], "float32")), 2)[0], lambda: [rows(np, THREE, 2)]),
    "parts that end in the next sequence": (
        lambda L, x, a, b: L.sequence_slice(x, a, b), lambda: [rows(np, THREE, 2), column(1, 0, 0), column(2, 1, 2)]),
    "parts that begin in the last sequence": (
        lambda L, x, a, b: L.sequence_slice(x, a, b), lambda: [rows(np, THREE, 2), column(0, -1, 0), column(1, 1, 2)]),
    "longer than padded": (lambda L, x, n: L.sequence_unpad(x, L.reshape(n, [-1])), lambda: [draw(np, 3, 4, 2), column(1, 5, 2)]),
    "fewer lengths than rows": (lambda L, x, n: L.sequence_unpad(x, L.reshape(n, [-1])), lambda: [draw(np, 3, 4, 2), column(1, 2)]),
    "offsets beyond the rows": (lambda L, x: L.lod_reset(x, target_lod=[0, 4, 9]), lambda: [draw(np, 6, 2)]),
    "offsets of a variable": (
        lambda L, x, y: L.lod_reset(x, L.reshape(y, [-1])), lambda: [draw(np, 6, 2), column(0, 4, 5, dtype="int32")]),
    "offsets that fall": (lambda L, x: L.sequence_pool(L.lod_reset(x, target_lod=[0, 4, 2, 6]), "sum"), lambda: [draw(np, 6, 2)]),
    "levels of fewer rows": (lambda L, x, y: L.lod_reset(x, y), lambda: [draw(np, 6, 2), rows(np, TWO, 1)]),
    "a level below": (lambda L, x: L.lod_append(x, [0, 1, 9]), lambda: [draw(np, 6, 2)]),
    "more rows than sequences": (lambda L, x, y: L.sequence_expand(x, y), lambda: [draw(np, 4, 2), rows(np, THREE, 1)]),
    "more rows than sequences to be like": (lambda L, x, y: L.sequence_expand_as(x, y), lambda: [draw(np, 4, 2), rows(np, THREE, 1)]),
    "labels of more steps": (
        lambda L, x, y, n: L.linear_chain_crf(x, y, length=n), lambda: [draw(np, 2, 3, 4), np.zeros((2, 3, 1), "int64"), column(2, 5)]),
    "chunks of other lengths": (
        lambda L, x, y: L.chunk_eval(x, y, "IOB", 3)[0], lambda: [(column(0, 1, 2), TWO), (column(0, 1, 2), [[2, 1]])]),
    "tokens of more steps": (
        lambda L, x, y, n, m: L.edit_distance(x, y, False, None, L.reshape(n, [-1]), L.reshape(m, [-1]))[0],
        lambda: [np.ones((2, 3), "int64"), np.ones((2, 3), "int64"), column(2, 9), column(1, 1)]),
    "more sequences than images": (
        lambda L, x, r: L.roi_pool(x, r, 2, 2, 0.5), lambda: [draw(np, 1, 2, 4, 4), (boxes(np, 3), TWO)]),
    "fewer sequences than images": (
        lambda L, x, r: L.roi_align(x, r, 2, 2, 0.5), lambda: [draw(np, 3, 2, 4, 4), (boxes(np, 3), TWO)]),
    "regions of channels": (
        lambda L, x, r: L.psroi_pool(x, r, 2, 0.5, 1, 1), lambda: [draw(np, 1, 2, 4, 4), (boxes(np, 3), TWO)]),
    "exact regions": (lambda L, x, r: L.prroi_pool(x, r, 0.5, 2, 2), lambda: [draw(np, 1, 2, 4, 4), (boxes(np, 3), TWO)]),
    "rows of several numbers": (lambda L, x: L.sequence_enumerate(x, 2, 0), lambda: [rows(np, TWO, 2, whole=True)]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_gives_no_results(name: str) -> None:
    function, feeds = WRONG[name]
    inputs = feeds()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        variables = [given(fluid, value, f"x{i}") for i, value in enumerate(inputs)]
        exe = fluid.Executor(fluid.CPUPlace())
        with pytest.raises((PolyremeError, CallError), match=r"expected (positions .* from 0 to \d+ but computed|numbers \[rows, 1\])"):
            made = function(fluid.layers, *variables)
            exe.run(fluid.default_startup_program())
            feed = {f"x{i}": fed(fluid, np, value) for i, value in enumerate(inputs)}
            exe.run(feed=feed, fetch_list=[made], return_numpy=False)
