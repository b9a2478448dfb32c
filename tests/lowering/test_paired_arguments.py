"""Products of two arguments by pairs of steps: B's panels are made at each call, by a kernel in front or by each task for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32
from polyreme.lowering import paired, paired_weights
from polyreme.lowering.paired import find_paired
from polyreme.lowering.schedule import Request
from polyreme.lowering.targets import host
from tests.lowering import bounds
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.products import root_of
from tests.lowering.test_paired import WORTH, always, bound
from tests.lowering.test_strassen import Array, Case

# Who makes the panels: a kernel in front, or each task before its tiles, with rows of A in the second-level cache if they have room there, or far in any case.
WAYS = ["front", "near", "far"]


def choose(way: str, patch: pytest.MonkeyPatch) -> None:
    """Let all products go this way."""
    patch.setattr(paired, "ADVANTAGE", 1e9)
    patch.setattr(paired, "FEW_PIECES", 99)
    if way != "near":
        patch.setattr(paired.Paired, "are_far", way == "far")
        patch.setattr(paired.Paired, "packs_beside", way == "far")


def module(case: Case, arguments: Sequence[Array], free: bool = False) -> Module:
    """x by w, and a bias if the case has one: all of them arguments."""
    types = [TensorType(a.shape, f32) for a in arguments]
    if free:
        types[0] = TensorType((symbol("M"), case.k), f32)

    def make(b: Builder, x: Any, w: Any, *bias: Any) -> Any:
        y = b(tensor.Contract, x, w, spec=f"mk,{'nk' if case.turned else 'kn'}->mn")
        return b(tensor.Map, y, *bias, fn="add") if bias else y

    return root_of(types, make)


@settings(max_examples=10, deadline=None)
@example(Case(16, 48, 16), "near", 1.0)
@example(Case(7, 37, 70, bias=True), "near", 3.0)
@example(Case(5, 18, 150), "far", 1.0)
@example(Case(33, 50, 20, turned=True, bias=True), "front", 3.0)
@given(st.builds(Case, st.integers(2, 40), st.integers(2, 120), st.integers(2, 150), st.booleans(), st.booleans()), st.sampled_from(WAYS), st.sampled_from([0.0, 3.0]))
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(case: Case, way: str, spread: float) -> None:
    inputs, others = case.arrays(spread)
    arguments = [*inputs, *others]
    with pytest.MonkeyPatch.context() as patch:
        choose(way, patch)
        lowered = to_kernels(module(case, arguments), replace(WORTH, caches=(WORTH.caches[0], 80_000, WORTH.caches[2])), always)
        assert_within(evaluate(lowered, arguments)[0], case.expected(inputs, others), bound(case, inputs, others))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", [Case(49, 160, 96, bias=True), Case(50, 101, 200), Case(196, 576, 24, turned=True), Case(2, 96, 33), Case(300, 97, 1000), Case(70, 640, 130, turned=True)], ids=str)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if host().vector_bytes != 64:
        pytest.skip("vectors of 64 bytes")
    choose(way, monkeypatch)
    inputs, others = case.arrays(2.0)
    lowered = to_kernels(module(case, [*inputs, *others]), replace(host(), multiply_adds=1, spare_adders=True), always)
    bounds.check_machine_code(lowered, [*inputs, *others], case.expected(inputs, others), bound(case, inputs, others))


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 77])
def test_any_number_of_rows_goes_by_panels_that_are_made_in_front(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "ADVANTAGE", 1e9)
    case = Case(rows, 50, 40)
    (x,), (w,) = case.arrays()
    lowered = to_kernels(module(case, [x, w], free=True), WORTH, always)
    assert_within(evaluate(lowered, [x, w])[0], case.expected([x], [w]), bound(case, [x], [w]))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("exponent", [-37, -30, -12, 12, 30, 36])
def test_columns_whose_squares_leave_the_range_of_floats_are_as_exact_as_others(exponent: int, turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "ADVANTAGE", 1e9)
    case = Case(6, 60, 40, turned=turned)
    (x,), (w,) = case.arrays()
    columns = np.ones(40)
    columns[[3, 17]] = 10.0**exponent
    w = (w * (columns[:, None] if turned else columns)).astype(np.float32)
    if exponent == 36:
        x = x * np.float32(1e-3)
    got = evaluate(to_kernels(module(case, [x, w]), WORTH, always), [x, w])[0]
    exact = (w.T if turned else w).astype(np.float64)
    error = np.abs(got - x @ exact) / (np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(exact, axis=0))
    assert error.max() <= 1e-6


def test_zeros_give_zeros_and_an_infinity_or_nan_spoils_its_own_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "ADVANTAGE", 1e9)
    case = Case(6, 60, 40)
    (x,), (w,) = case.arrays()
    w[:, 9], w[5, 20], w[7, 30] = 0, np.inf, np.nan
    got = evaluate(to_kernels(module(case, [x, w]), WORTH, always), [x, w])[0]
    assert np.abs(got[:, 9]).max() <= 1e-30
    assert not np.isfinite(got[:, [20, 30]]).any() and np.isfinite(np.delete(got, [20, 30], axis=1)).all()


def test_panels_that_lie_beside_each_other_are_filled_together_as_long_as_they_are_small() -> None:
    def together(case: Case) -> int:
        found: list[int] = []

        def look(request: Request) -> None:
            plan = paired.Paired(rows := paired.find_rows(request), rows.m, rows.m, case.k, case.n, 16)
            found.append(paired._Builder(plan).packing.together)

        to_kernels(module(case, [*case.arrays()[0], *case.arrays()[1]]), WORTH, look)
        return found[0]

    assert together(Case(64, 500, 512)) == paired_weights.MOST_TOGETHER
    assert together(Case(64, 768, 512)) == 2
    assert together(Case(64, 3072, 512)) == 1
    assert together(Case(64, 500, 20)) == 2, "as many as there are"
    assert together(Case(64, 500, 512, turned=True)) == 1


@pytest.mark.parametrize(
    ("case", "is_taken"),
    [
        (Case(128, 768, 2304), True),
        (Case(512, 512, 512), True),
        (Case(1024, 1024, 1024), True),
        (Case(384, 3072, 768), True),
        (Case(128, 3072, 768, turned=True), True),
        (Case(128, 3072, 768), True),
        (Case(16, 768, 768), False),
        (Case(49, 512, 2048), False),
    ],
    ids=str,
)  # fmt: skip
def test_they_are_chosen_where_enough_rows_share_the_panels(case: Case, is_taken: bool) -> None:
    seen: list[bool] = []

    def look(request: Request) -> None:
        seen.append(find_paired(request) is not None)

    shape = (case.n, case.k) if case.turned else (case.k, case.n)
    to_kernels(module(case, [np.zeros((case.m, case.k), np.float32), np.zeros(shape, np.float32)]), WORTH, look)
    assert seen == [is_taken]
