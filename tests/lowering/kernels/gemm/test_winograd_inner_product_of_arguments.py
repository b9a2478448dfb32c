"""Winograd's inner product of two arguments: B's panels are packed at each call, by a kernel in front or by each task for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.accuracy import INNER_PRODUCT
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.gemm import winograd_inner_product, winograd_inner_product_packing, winograd_inner_product_plan
from polyreme.lowering.kernels.gemm.winograd_inner_product_plan import GROUP, find_winograd_inner_product
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.machines.targets import host
from tests.lowering import bounds
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.kernels.gemm.test_strassen import Array, Case
from tests.lowering.kernels.gemm.test_winograd_inner_product import WORTH, always, bound
from tests.lowering.products import root_of

# Who makes the panels: a kernel in front, or each task before its tiles, with rows of A in the second-level cache if they have room there,
# or far in any case.
WAYS = ["front", "near", "far"]


def choose(way: str, patch: pytest.MonkeyPatch) -> None:
    """Let all products go this way."""
    patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    patch.setattr(winograd_inner_product_plan, "COSTS", replace(winograd_inner_product_plan.COSTS, few_pieces=99))
    if way != "near":
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "rows_in_l3", way == "far")
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "packs_per_task", way == "far")


def module(case: Case, arguments: Sequence[Array], free: bool = False) -> Module:
    """x by w, and a bias if the case has one: all of them arguments."""
    types = [TensorType(a.shape, f32) for a in arguments]
    if free:
        types[0] = TensorType((symbol("M"), case.k), f32)

    def make(b: Builder, x: Any, w: Any, *bias: Any) -> Any:
        y = b(tensor.Contract, x, w, spec=f"mk,{'nk' if case.transposed else 'kn'}->mn")
        return b(tensor.Map, y, *bias, fn="add") if bias else y

    return root_of(types, make)


@settings(max_examples=10, deadline=None)
@example(Case(16, 48, 16), "near", 1.0)
@example(Case(7, 37, 70, bias=True), "near", 3.0)
@example(Case(5, 18, 150), "far", 1.0)
@example(Case(33, 50, 20, transposed=True, bias=True), "front", 3.0)
@given(
    st.builds(Case, st.integers(2, 40), st.integers(2, 120), st.integers(2, 150), st.booleans(), st.booleans()),
    st.sampled_from(WAYS),
    st.sampled_from([0.0, 3.0]),
)
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(case: Case, way: str, spread: float) -> None:
    inputs, others = case.arrays(spread)
    arguments = [*inputs, *others]
    with pytest.MonkeyPatch.context() as patch:
        choose(way, patch)
        lowered = to_kernels(module(case, arguments), replace(WORTH, caches=(WORTH.caches[0], 80_000, WORTH.caches[2])), always)
        assert_within(evaluate(lowered, arguments)[0], case.expected(inputs, others), bound(case, inputs, others))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "case",
    [
        Case(49, 160, 96, bias=True),
        Case(50, 101, 200),
        Case(196, 576, 24, transposed=True),
        Case(2, 96, 33),
        Case(300, 97, 1000),
        Case(70, 640, 130, transposed=True),
    ],
    ids=str,
)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if host().vector_bytes != 64:
        pytest.skip("vectors of 64 bytes")
    choose(way, monkeypatch)
    inputs, others = case.arrays(2.0)
    lowered = to_kernels(module(case, [*inputs, *others]), replace(host(), multiply_adds=1, spare_adders=True), always)
    bounds.check_machine_code(lowered, [*inputs, *others], case.expected(inputs, others), bound(case, inputs, others))


class Several(NamedTuple):
    """x [3, 2, rows, steps] by w [3, 2, steps, lanes] with a bias; each x `split` into heads lies as [3, rows, 2, steps], and w
    `transposed` as [3, 2, lanes, steps].
    """

    m: int
    k: int
    n: int
    transposed: bool = False
    split: bool = False

    def arrays(self) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(3)
        x = rng.standard_normal((3, self.m, 2, self.k) if self.split else (3, 2, self.m, self.k))
        w = rng.standard_normal((3, 2, self.n, self.k) if self.transposed else (3, 2, self.k, self.n))
        return x.astype(np.float32), w.astype(np.float32), rng.standard_normal((3, 2, 1, self.n)).astype(np.float32)

    def module(self, arrays: Sequence[Array]) -> Module:
        spec = f"{'bmhk' if self.split else 'bhmk'},{'bhnk' if self.transposed else 'bhkn'}->bhmn"
        return root_of(
            [TensorType(a.shape, f32) for a in arrays],
            lambda b, x, w, bias: b(tensor.Map, b(tensor.Contract, x, w, spec=spec), bias, fn="add"),
        )

    def expected_and_bound(self, arrays: Sequence[Array]) -> tuple[Array, Array]:
        x, w, bias = (a.astype(np.float64) for a in arrays)
        x, w = x.swapaxes(1, 2) if self.split else x, w.swapaxes(2, 3) if self.transposed else w
        magnitude = np.linalg.norm(x, axis=3)[..., None] * np.linalg.norm(w, axis=2)[:, :, None]
        exact = x @ w
        bound = INNER_PRODUCT.bound(exact, f32, magnitude, -(-self.k // GROUP) * GROUP)
        bound = bound + np.finfo(np.float32).eps * (np.abs(exact + bias) + 8)
        return exact + bias, bound


SEVERAL = [
    Several(5, 37, 70),
    Several(33, 50, 20, transposed=True),
    Several(16, 48, 33, split=True),
    Several(31, 20, 49, transposed=True, split=True),
]


@pytest.mark.parametrize("cache", [20_000, 80_000, 1 << 20])
@pytest.mark.parametrize("case", SEVERAL, ids=str)
def test_several_products_stay_within_the_bound_whether_all_panels_stay_in_l2_or_not(
    case: Several, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose("near", monkeypatch)
    arrays = case.arrays()
    lowered = to_kernels(case.module(arrays), replace(WORTH, caches=(WORTH.caches[0], cache, WORTH.caches[2])), always)
    assert_within(evaluate(lowered, list(arrays))[0], *case.expected_and_bound(arrays))


@pytest.mark.parametrize("case", [*SEVERAL, Several(130, 100, 70), Several(60, 300, 450, transposed=True)], ids=str)
def test_machine_code_of_several_products_is_within_the_bound_and_equal_on_one_and_two_threads(
    case: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host().vector_bytes != 64:
        pytest.skip("vectors of 64 bytes")
    choose("near", monkeypatch)
    arrays = case.arrays()
    lowered = to_kernels(case.module(arrays), replace(host(), multiply_adds=1, spare_adders=True), always)
    bounds.check_machine_code(lowered, list(arrays), *case.expected_and_bound(arrays))


@pytest.mark.parametrize(
    ("case", "is_taken"),
    [
        (Several(384, 384, 64), True),
        (Several(384, 64, 384, transposed=True), True),
        (Several(128, 128, 64), False),
        (Several(128, 64, 128, transposed=True), False),
    ],
    ids=str,
)
def test_several_products_are_chosen_where_they_are_large(case: Several, is_taken: bool) -> None:
    seen: list[bool] = []
    to_kernels(case.module(case.arrays()), WORTH, lambda request: seen.append(find_winograd_inner_product(request) is not None))
    assert seen == [is_taken]


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 77])
def test_any_number_of_rows_goes_by_panels_that_are_made_in_front(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    case = Case(rows, 50, 40)
    (x,), (w,) = case.arrays()
    lowered = to_kernels(module(case, [x, w], free=True), WORTH, always)
    assert_within(evaluate(lowered, [x, w])[0], case.expected([x], [w]), bound(case, [x], [w]))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("exponent", [-37, -30, -12, 12, 30, 36])
def test_columns_whose_squares_leave_the_range_of_floats_are_as_exact_as_others(
    exponent: int, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    case = Case(6, 60, 40, transposed=transposed)
    (x,), (w,) = case.arrays()
    columns = np.ones(40)
    columns[[3, 17]] = 10.0**exponent
    w = (w * (columns[:, None] if transposed else columns)).astype(np.float32)
    if exponent == 36:
        x = x * np.float32(1e-3)
    got = evaluate(to_kernels(module(case, [x, w]), WORTH, always), [x, w])[0]
    exact = (w.T if transposed else w).astype(np.float64)
    error = np.abs(got - x @ exact) / (np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(exact, axis=0))
    assert error.max() <= 1e-6


def test_zeros_give_zeros_and_an_infinity_or_nan_spoils_its_own_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    case = Case(6, 60, 40)
    (x,), (w,) = case.arrays()
    w[:, 9], w[5, 20], w[7, 30] = 0, np.inf, np.nan
    got = evaluate(to_kernels(module(case, [x, w]), WORTH, always), [x, w])[0]
    assert np.abs(got[:, 9]).max() <= 1e-30
    assert not np.isfinite(got[:, [20, 30]]).any() and np.isfinite(np.delete(got, [20, 30], axis=1)).all()


def test_neighbouring_panels_are_filled_together_as_long_as_they_are_small() -> None:
    def together(case: Case) -> int:
        found: list[int] = []

        def look(request: Request) -> None:
            plan = winograd_inner_product_plan.WinogradInnerProduct(
                rows := winograd_inner_product_plan.find_rows(request), rows.m, rows.m, case.k, case.n, 16
            )
            found.append(winograd_inner_product._WinogradInnerProductBuilder(plan).packing.together)

        to_kernels(module(case, [*case.arrays()[0], *case.arrays()[1]]), WORTH, look)
        return found[0]

    assert together(Case(64, 500, 512)) == winograd_inner_product_packing.COSTS.most_together
    assert together(Case(64, 768, 512)) == 2
    assert together(Case(64, 3072, 512)) == 1
    assert together(Case(64, 500, 20)) == 2, "as many as there are"
    assert together(Case(64, 500, 512, transposed=True)) == 1


@pytest.mark.parametrize(
    ("case", "is_taken"),
    [
        (Case(128, 768, 2304), True),
        (Case(512, 512, 512), True),
        (Case(1024, 1024, 1024), True),
        (Case(384, 3072, 768), True),
        (Case(128, 3072, 768, transposed=True), True),
        (Case(128, 3072, 768), True),
        (Case(16, 768, 768), False),
        (Case(49, 512, 2048), False),
    ],
    ids=str,
)  # fmt: skip
def test_they_are_chosen_where_enough_rows_share_the_panels(case: Case, is_taken: bool) -> None:
    seen: list[bool] = []

    def look(request: Request) -> None:
        seen.append(find_winograd_inner_product(request) is not None)

    shape = (case.n, case.k) if case.transposed else (case.k, case.n)
    to_kernels(module(case, [np.zeros((case.m, case.k), np.float32), np.zeros(shape, np.float32)]), WORTH, look)
    assert seen == [is_taken]
