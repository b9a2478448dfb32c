"""Convolutions by Winograd's algorithm down the columns of an image: results within the declared bound of float64, and when they are
chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyreme.ir.accuracy import Array
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import f32, f64
from polyreme.lowering.kernels.conv.nchw_choice import choose_nchw, find_image, write_nchw
from polyreme.lowering.kernels.conv.nchw_strategy import ColumnTile
from polyreme.lowering.kernels.conv.nchw_winograd_columns import ACCURACY, WinogradColumns
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.targets import TARGETS, Target, host
from tests.lowering import bounds
from tests.lowering.kernels.conv.test_nchw_convolutions import POOLS, Case, convolved, finished, module_of, pooled

EPS = float(np.finfo(np.float32).eps)
LENET = Case((1, 6, 14, 14), (16, 6, 5, 5), tail="relu, max 2/2")


def like_zen4(target: Target) -> Target:
    return replace(target, multiply_adds=1, half_width_vectors=True, spare_adders=True)


# --- the convolutions


def inputs_of(case: Case, spread: float = 0.0) -> tuple[Module, list[Array], Array, Array]:
    """The module, its inputs, the image and the weights; rows of the image differ in size by up to 10**spread."""
    x, w, bias = case.arrays()
    x = (x * 10.0 ** np.random.default_rng(5).uniform(-spread, spread, (*x.shape[:3], 1))).astype(np.float32)
    module, inputs = module_of(case)
    return module, [x, *inputs[1:]], x, w


def bound_of(case: Case, x: Array, w: Array, bias: Array, size: int) -> Array:
    """`ACCURACY[size]` with the magnitude that the module declares for it, whichever rows make a piece, after the pooling."""
    padded = np.abs(np.pad(x, [(0, 0), (0, 0), (case.pad, case.pad), (case.pad, case.pad)]))
    taps, down, exact = w.shape[2], np.abs(w).sum(2, keepdims=True), convolved(x, w, case)
    magnitude = np.zeros_like(exact)
    for y in range(exact.shape[2]):
        largest = padded[:, :, max(0, y - size + 1) : y + size + taps - 1].max(2, keepdims=True)
        magnitude[:, :, y : y + 1] = convolved(largest, down, replace(case, pad=0))
    bound = ACCURACY[size].bound(exact, f32, magnitude, w[0].size)
    bound = bound + EPS * (np.abs(exact) + np.abs(bias))
    if case.tail in POOLS:
        n, stride, fn = POOLS[case.tail]
        # A sum of n * n rounds as often.
        more = n * n * EPS * pooled(np.abs(exact) + np.abs(bias), n, stride, np.sum) if fn == "add" else 0
        bound = 2 * (pooled(bound, n, stride, np.max if fn == "max" else np.sum) + more)
    return np.asarray(bound)


def by_columns(size: int = max(ACCURACY), kept: bool = False) -> Callable[[Request], KernelPlan | None]:
    """A builder that makes any such convolution of pieces of this size, or of as many rows as there are, with weights that are known or may
    change.
    """

    def build(request: Request) -> KernelPlan | None:
        image = find_image(replace(request, kept=request.constant) if kept else request)
        assert image is not None
        sizes = sorted((n for n in ACCURACY if n <= size), reverse=True)
        made = next(made for n in sizes if (made := WinogradColumns.of(image, n)) is not None)
        return write_nchw(image, made.schedule())

    return build


@settings(max_examples=2, deadline=None)
@example(Case((1, 6, 11, 8), (16, 6, 5, 5), tail="relu, max 2/2"), 5, "x86-64-avx512", 0.0)
@example(Case((1, 4, 9, 21), (17, 4, 5, 3), tail="relu"), 5, "x86-64-avx512", 2.0)
@example(Case((2, 5, 8, 7), (4, 5, 5, 1)), 4, "x86-64-avx2", 2.0)
@example(Case((1, 4, 7, 8), (5, 4, 5, 5), tail="relu, max 3/2"), 3, "aarch64", 0.0)
@example(Case((1, 6, 9, 8), (16, 6, 5, 5), tail="relu, max 2/2"), 4, "x86-64-avx512", 0.0)
@example(Case((1, 4, 6, 6), (3, 4, 5, 5)), 2, "aarch64", 1.0)
@given(
    st.builds(
        lambda batch, channels, high, wide, outputs, taps, pad, tail: Case(
            (batch, channels, high, wide), (outputs, channels, 5, taps), pad=pad, tail=tail
        ),
        st.integers(1, 2), st.integers(4, 6), st.integers(9, 12), st.integers(7, 9), st.sampled_from([3, 16, 20]), st.integers(1, 5),
        st.integers(0, 1),
        st.sampled_from(["", "relu", *POOLS]),
    ),
    st.sampled_from(sorted(ACCURACY)), st.sampled_from(["x86-64-avx512", "x86-64-avx2", "aarch64"]), st.sampled_from([0.0, 2.0]),
)  # fmt: skip
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(
    case: Case, size: int, target: str, spread: float
) -> None:
    module, inputs, x, w = inputs_of(case, spread)
    bias = case.arrays()[2]
    lowered = bounds.to_kernels(module, like_zen4(TARGETS[target]), by_columns(size))
    bounds.assert_within(evaluate(lowered, inputs)[0], finished(case, convolved(x, w, case), bias), bound_of(case, x, w, bias, size))


CASES = [
    LENET,
    replace(LENET, x=(3, 6, 14, 14), free=True),
    Case((2, 6, 15, 17), (40, 6, 5, 5), pad=2, tail="relu"),
    Case((1, 8, 23, 37), (20, 8, 5, 3), tail="relu, max 3/2"),
    Case((2, 4, 10, 20), (70, 4, 5, 4), pad=1),
    Case((1, 4, 6, 9), (16, 4, 5, 1), tail="relu, sum 2/1"),
]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, kept: bool) -> None:
    """With weights that are packed when the model is compiled, and by a kernel."""
    module, inputs, x, w = inputs_of(case)
    bias, target = case.arrays()[2], like_zen4(host())
    lowered = bounds.to_kernels(module, target, by_columns(kept=kept))
    bounds.check_machine_code(lowered, inputs, finished(case, convolved(x, w, case), bias), bound_of(case, x, w, bias, max(ACCURACY)))


def test_weights_made_by_a_kernel_are_those_made_when_the_model_is_compiled() -> None:
    """But for the rounding of their sums, with lanes that are left over, and in two panels."""
    case = Case((1, 4, 9, 9), (20, 4, 5, 3))
    plans: list[KernelPlan | None] = []

    def build(request: Request) -> None:
        plans.append(by_columns(kept=True)(request))

    module, _ = module_of(case)
    bounds.to_kernels(module, like_zen4(TARGETS["x86-64-avx512"]), build)
    assert plans[0] is not None
    (pack,) = plans[0].packs
    assert pack.kernel is not None
    weights = case.arrays()[1]
    (expected,) = evaluate(pack.func, [weights])
    made = np.full(expected.size, np.nan, np.float32)
    evaluate(pack.kernel, [weights, made])
    np.testing.assert_allclose(made, expected, rtol=0, atol=8 * EPS * np.abs(expected).max())


# --- when they are chosen


def way_of(case: Case, target: Target) -> type | None:
    found: list[Any] = []
    bounds.to_kernels(module_of(case)[0], target, lambda request: found.append(find_image(request)))
    schedule = None if found[0] is None else choose_nchw(found[0])
    return None if schedule is None else type(schedule.tile)


def test_lenets_second_convolution_is_made_by_columns_where_one_multiply_add_is_begun_in_a_cycle() -> None:
    avx512 = TARGETS["x86-64-avx512"]
    assert way_of(LENET, like_zen4(avx512)) is ColumnTile
    assert way_of(LENET, avx512) is not ColumnTile


@pytest.mark.parametrize(
    "case",
    [
        replace(LENET, dtype=f64),
        replace(LENET, constant=False),
        replace(LENET, stride=2, tail=""),
        replace(LENET, w=(16, 6, 3, 3)),
        replace(LENET, x=(1, 6, 5, 14), tail=""),
        Case((1, 2, 14, 14), (16, 2, 5, 5)),
        Case((1, 12, 14, 14), (32, 6, 5, 5), groups=2),
        Case((1, 6, 14), (16, 6, 5)),
    ],
    ids=str,
)
def test_others_are_made_as_before(case: Case) -> None:
    assert way_of(case, like_zen4(TARGETS["x86-64-avx512"])) is not ColumnTile


def test_it_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    target = like_zen4(TARGETS["x86-64-avx512"])
    assert way_of(LENET, replace(target, winograd=False)) is not ColumnTile
    monkeypatch.setenv("POLYREME_WINOGRAD", "0")
    assert way_of(LENET, target) is not ColumnTile
