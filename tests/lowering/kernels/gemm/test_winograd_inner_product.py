"""Winograd's inner product: results within the declared bound of float64, rows and columns of any magnitude, and when it is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyreme.ir.accuracy import INNER_PRODUCT, Array
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import f32
from polyreme.lowering.kernels.gemm import winograd_inner_product_plan
from polyreme.lowering.kernels.gemm.winograd_inner_product import build_winograd_inner_product
from polyreme.lowering.kernels.gemm.winograd_inner_product_plan import GROUP, find_winograd_inner_product
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Request
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering import bounds
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.kernels.gemm.test_strassen import Case

# A machine for which such products are worth it.
WORTH = replace(TARGETS["x86-64-avx512"], multiply_adds=1)


def bound(case: Case, inputs: list[Array], constants: list[Array]) -> Array:
    """`INNER_PRODUCT` with the magnitude and terms that the module declares for it."""
    x, w = inputs[0].reshape(case.m, case.k).astype(np.float64), (constants[0].T if case.transposed else constants[0]).astype(np.float64)
    magnitude = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=0)
    expected = case.expected(inputs, constants)
    later = np.finfo(np.float32).eps * (case.bias + case.residual) * (np.abs(expected) + 8)
    return np.asarray(INNER_PRODUCT.bound(x @ w, f32, magnitude, -(-case.k // GROUP) * GROUP).reshape(expected.shape) + later)


def always(request: Request) -> KernelPlan | None:
    """The builder, for every product that it can make."""
    plan = build_winograd_inner_product(request)
    assert plan is not None
    return plan


@settings(max_examples=10, deadline=None)
@example(Case(16, 48, 16), 1, 1.0)
@example(Case(7, 37, 70, bias=True), 1, 3.0)
@example(Case(6, 97, 33, residual=True, split=2), 1000, 0.0)
@example(Case(33, 50, 20, transposed=True, bias=True), 3, 3.0)
@given(
    st.builds(Case, st.integers(2, 40), st.integers(2, 120), st.integers(2, 40), st.booleans(), st.booleans(), st.booleans()),
    st.integers(1, 4),
    st.sampled_from([0.0, 3.0]),
)
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(case: Case, room: int, spread: float) -> None:
    """However many tiles of rows are copied at a time, and for rows and steps of very different sizes."""
    inputs, constants = case.arrays(spread)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
        target = replace(WORTH, caches=(WORTH.caches[0], room * 40_000, WORTH.caches[2]))
        lowered = to_kernels(case.module(inputs, constants), target, always)
        assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), bound(case, inputs, constants))


@pytest.mark.parametrize(
    "case",
    [
        Case(49, 160, 96, bias=True),
        Case(50, 101, 200, residual=True),
        Case(196, 576, 24, transposed=True),
        Case(2, 96, 33),
        Case(64, 66, 77, split=4),
        Case(700, 97, 40, bias=True),
    ],
    ids=str,
)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if host().vector_bytes != 64:
        pytest.skip("vectors of 64 bytes")
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    inputs, constants = case.arrays(2.0)
    lowered = to_kernels(case.module(inputs, constants), replace(host(), multiply_adds=1, spare_adders=True), always)
    bounds.check_machine_code(lowered, inputs, case.expected(inputs, constants), bound(case, inputs, constants))


def test_rows_and_columns_of_any_magnitude_are_as_exact_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scales, a row of 1e6 beside weights of 1e-3 would lose nine digits; a row of zeros gives (nearly) zeros."""
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    case = Case(8, 96, 40)
    inputs, constants = case.arrays()
    inputs[0] *= np.float32(10.0) ** np.linspace(-12, 12, 8, dtype=np.float32)[:, None]
    inputs[0][3] = 0
    constants[0] *= np.float32(10.0) ** np.linspace(-6, 6, 40, dtype=np.float32)
    lowered = to_kernels(case.module(inputs, constants), WORTH, always)
    got, expected = evaluate(lowered, inputs)[0], case.expected(inputs, constants)
    magnitude = np.abs(inputs[0]).astype(np.float64) @ np.abs(constants[0]).astype(np.float64)
    assert (np.abs(got - expected) / np.maximum(magnitude, 1e-20)).max() <= 2e-6


@pytest.mark.parametrize("kind", ["one large element", "mostly zeros", "no zeros"])
def test_uneven_rows_are_as_exact_as_even_ones(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors keep to the norms: with scales by the greatest magnitudes, the first kind's were 4 times as large, since products of B's
    elements exceeded all others.
    """
    rng, case = np.random.default_rng(5), Case(4, 600, 32)
    x, w = rng.standard_normal((4, 600)), rng.standard_normal((600, 32)).astype(np.float32)
    if kind == "one large element":
        x[:, 77] = 1000
    if kind == "mostly zeros":
        x[rng.random(x.shape) > 0.05] = 0
    x = x.astype(np.float32)
    error = results(case, x, w, monkeypatch) - x.astype(np.float64) @ w
    norms = np.linalg.norm(x.astype(np.float64), axis=1)[:, None] * np.linalg.norm(w.astype(np.float64), axis=0)
    assert np.sqrt(np.mean((error / norms) ** 2)) <= 0.3 * np.finfo(np.float32).eps


@pytest.mark.parametrize(
    "case", [Case(1, 50, 20, bias=True), Case(17, 100, 40, residual=True), Case(34, 48, 16, transposed=True, split=2)], ids=str
)
def test_kernels_for_any_number_of_rows_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    inputs, constants = case.arrays(2.0)
    lowered = to_kernels(
        case.module(inputs, constants, free=True), replace(WORTH, caches=(WORTH.caches[0], 30_000, WORTH.caches[2])), always
    )
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), bound(case, inputs, constants))


def test_any_number_of_rows_gives_the_bits_that_a_known_one_gives_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of all heights, one and several of them; none for no rows."""
    if host().vector_bytes != 64:
        pytest.skip("vectors of 64 bytes")
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    target, before = replace(host(), multiply_adds=1, spare_adders=True), get_num_threads()
    case = Case(500, 70, 40, bias=True)
    (x,), constants = case.arrays()
    expected = bounds.machine_code(to_kernels(case.module([x], constants), target, always)).run([x])[0]
    free = bounds.machine_code(to_kernels(case.module([x], constants, free=True), target, always))
    try:
        for rows in (*range(35), 45, 61, 500):
            for threads in (1, 2, 3):
                set_num_threads(threads)
                np.testing.assert_array_equal(free.run([x[:rows]])[0], expected[:rows])
    finally:
        set_num_threads(before)


def results(case: Case, x: Array, w: Array, monkeypatch: pytest.MonkeyPatch) -> Array:
    """x by w, by pairs."""
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    return evaluate(to_kernels(case.module([x], [w]), WORTH, always), [x])[0]


@pytest.mark.parametrize(("rows", "columns"), [(1e30, 1e-30), (1e-30, 1e30), (1e37, 1e-37), (1e-37, 1e36), (1e-35, 1e3)])
def test_large_rows_by_small_columns_and_small_by_large_are_as_exact_as_others(
    rows: float, columns: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums neither leave the range of floats nor come near its end before both scales are in them."""
    case = Case(5, 96, 20)
    (x,), (w,) = case.arrays()
    x, w = x * np.float32(rows), w * np.float32(columns)
    got = results(case, x, w, monkeypatch)
    magnitude = np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64)
    assert (np.abs(got - x.astype(np.float64) @ w.astype(np.float64)) / magnitude).max() <= 1e-6


def test_scales_round_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small integers, times any power of two in each row and column, give what they give exactly: with scales that are no powers of two all
    results would be off.
    """
    case, rng = Case(12, 48, 40), np.random.default_rng(3)
    x, w = rng.integers(-7, 8, (12, 48)), rng.integers(-7, 8, (48, 40))
    down, across = 2.0 ** rng.integers(-60, 60, (12, 1)), 2.0 ** rng.integers(-60, 60, 40)
    got = results(case, (x * down).astype(np.float32), (w * across).astype(np.float32), monkeypatch)
    np.testing.assert_array_equal(got, (x @ w) * down * across)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_an_infinity_or_nan_spoils_its_own_row_or_column_alone(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(6, 50, 20)
    (x,), (w,) = case.arrays()
    expected = results(case, x, w, monkeypatch)
    x, w = x.copy(), w.copy()
    x[2, 7], w[20, 5] = value, value
    got = results(case, x, w, monkeypatch)
    spoilt = np.zeros(got.shape, bool)
    spoilt[2], spoilt[:, 5] = True, True
    np.testing.assert_array_equal(~np.isfinite(got), spoilt)
    np.testing.assert_array_equal(got[~spoilt], expected[~spoilt])


@pytest.mark.parametrize("case", [Case(20, 36, 48), Case(20, 37, 70), Case(20, 50, 20, transposed=True)], ids=str)
def test_the_kernel_that_packs_weights_that_may_change_does_what_the_pack_says(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    inputs, constants = case.arrays(2.0)
    packs: list[Pack] = []

    def watch(request: Request) -> None:
        plan = build_winograd_inner_product(replace(request, kept=request.constant))
        assert plan is not None
        packs.extend(plan.packs)

    to_kernels(case.module(inputs, constants), WORTH, watch)
    (pack,) = packs
    assert pack.kernel is not None
    (expected,) = evaluate(pack.func, [constants[0]])
    made = np.full(expected.shape, np.nan, np.float32)
    evaluate(pack.kernel, [constants[0], made])
    # Sums of squares, and of pairs, may be added up in another order.
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("case", "changes", "is_taken"),
    [
        (Case(49, 160, 960), {}, True),
        (Case(49, 160, 960), {"multiply_adds": 2}, False),
        (Case(49, 160, 960), {"spare_adders": False}, False),
        (Case(49, 160, 960), {"strassen": False}, False),
        (Case(49, 160, 960), {"vector_bytes": 32}, False),
        (Case(3136, 64, 256), {}, True),
        (Case(12544, 160, 96), {}, True),
        (Case(1, 160, 960), {}, False),
        (Case(64, 17000, 32), {"caches": (32 << 10, 1 << 20, 32 << 20)}, True),
        (Case(64, 30000, 32), {"caches": (32 << 10, 1 << 20, 32 << 20)}, False),  # rows that do not stay near, and would be on the stack
        (Case(49, 12, 960), {}, False),
        (Case(49, 160, 16), {}, False),
    ],
)  # fmt: skip
def test_they_are_chosen_where_additions_are_free_beside_one_multiply_add_a_cycle(
    case: Case, changes: dict[str, object], is_taken: bool
) -> None:
    seen: list[bool] = []

    def look(request: Request) -> None:
        seen.append(find_winograd_inner_product(request) is not None)

    inputs, constants = case.arrays()
    to_kernels(case.module(inputs, constants), replace(WORTH, **changes), look)  # type: ignore[arg-type]
    assert seen == [is_taken]


@pytest.mark.parametrize(("case", "is_taken"), [(Case(9, 160, 960), True), (Case(34, 160, 960, split=2), True), (Case(9, 12, 960), False)])
def test_an_unknown_number_of_rows_is_taken_for_a_usual_one(case: Case, is_taken: bool) -> None:
    seen: list[bool] = []

    def look(request: Request) -> None:
        seen.append(find_winograd_inner_product(request) is not None)

    inputs, constants = case.arrays()
    to_kernels(case.module(inputs, constants, free=True), WORTH, look)
    assert seen == [is_taken]
