"""bf16x3 products on AMX: any sizes, chunks of rows, runs of blocks, any number of threads, and which products they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel
from polyreme.dialects.kernel.bf16x3 import LANES, PAIRS, STEPS, VECTOR
from polyreme.ir.builtin import Module
from polyreme.ir.core import Op
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import f64
from polyreme.lowering.kernels.gemm import bf16x3_plan
from polyreme.lowering.kernels.gemm.bf16x3 import Bf16x3Builder
from polyreme.lowering.kernels.gemm.bf16x3_plan import (
    Bf16x3Plan,
    find_bf16x3,
    find_strided_rows,
    find_unknown_b,
)
from polyreme.lowering.kernels.gemm.strassen_plan import find_matrices
from polyreme.lowering.kernels.general.loops import build_loops
from polyreme.lowering.kernels.plan import KernelPlan, Request, structure
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.bf16x3_costs import BF16X3_COSTS as COSTS
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.pipeline import BUILDERS
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from tests.lowering.emit.test_bf16x3_dot_products import TERMS_TARGET, needs_bf16_tiles
from tests.lowering.kernel_modules import on_threads
from tests.lowering.kernels.conv.test_direct import Case as Convolution
from tests.lowering.kernels.conv.test_direct import expected as convolved
from tests.lowering.kernels.conv.test_direct import module_of as convolution
from tests.lowering.kernels.gemm.test_matrix_products import Case as Product
from tests.lowering.kernels.gemm.test_strassen import Case

Array = np.ndarray[Any, Any]
# Terms of some blocks of a chunk's rows have no room for more.
SMALL = replace(TERMS_TARGET, caches=(32 << 10, 100 << 10, 1 << 20))


def by_terms(request: Request) -> KernelPlan | None:
    """The plan, whether it is worth it or not."""
    found = find_matrices(request)
    return None if found is None else Bf16x3Builder(Bf16x3Plan(found, request.target)).build()


def plan_of(case: Case, target: Target, free: bool = False) -> Bf16x3Plan | None:
    """What is planned for the case, where it is worth it."""
    plans: list[Bf16x3Plan | None] = []

    def build(request: Request) -> KernelPlan | None:
        plans.append(find_bf16x3(request))
        return None

    PassManager([Stage("kernel", TensorToKernel(target, (build, build_loops)))]).run(case.module(*case.arrays(), free=free))
    return plans[0]


def lowered(case: Case, target: Target, free: bool = False) -> Module:
    module = case.module(*case.arrays(), free=free)
    PassManager([Stage("kernel", TensorToKernel(target, (by_terms, *((b for b in BUILDERS) if free else (build_loops,)))))]).run(module)
    assert any(isinstance(op, kernel.DotTerms) for func in module.functions for op in func.walk())
    return module


def bound(case: Case) -> Array:
    """What sums one after the other are within, and what is added to them."""
    inputs, constants = case.arrays()
    x, w = inputs[0].reshape(-1, case.k).astype(np.float64), (constants[0].T if case.transposed else constants[0]).astype(np.float64)
    expected = case.expected(inputs, constants)
    eps = np.finfo(np.float32).eps
    return np.asarray(eps * np.sqrt(case.k) * (np.abs(x) @ np.abs(w)).reshape(expected.shape) + eps * (np.abs(expected) + 8))


def check(case: Case, found: Array) -> None:
    np.testing.assert_array_less(np.abs(found - case.expected(*case.arrays())), bound(case))


def check_rows(case: Case, m: int, found: Array) -> None:
    """The same for the first rows of the case alone."""
    np.testing.assert_array_less(np.abs(found - case.expected(*case.arrays())[:m]), bound(case)[:m])


CASES = [
    Case(40, 64, 32),
    Case(47, 100, 40, bias=True),  # no size fits
    Case(3 * 16 * COSTS.most_tiles - 100, 33, 33, residual=True),  # chunks of which the last one is smaller
    Case((COSTS.most_tiles * 16) * 13 + 5, 32, 32),  # one whose last chunk has a single tile
    Case(196, 100, 70, residual=True),  # two chunks of few panels
    Case(50, 700, 96, transposed=True, bias=True),
    Case(96, 64, 64, split=2, bias=True, residual=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("target", [TERMS_TARGET, SMALL], ids=["one run", "runs"])
def test_kernels_give_the_product_and_touch_no_memory_outside_of_their_buffers(case: Case, target: Target) -> None:
    check(case, evaluate(lowered(case, target), case.arrays()[0])[0])


def test_steps_are_taken_in_runs_whose_terms_fit_in_l2() -> None:
    def runs(target: Target) -> int:
        found: list[Bf16x3Plan] = []

        def build(request: Request) -> None:
            matrices = find_matrices(request)
            assert matrices is not None
            found.append(Bf16x3Plan(matrices, target))

        case = Case(50, 700, 96)
        PassManager([Stage("kernel", TensorToKernel(target, (build, build_loops)))]).run(case.module(*case.arrays()))
        plan = found[0]
        assert isinstance(plan.chunk, int)
        assert plan.run * plan.block * STEPS * plan.chunk * plan.height * 6 <= target.caches[1]
        return plan.runs

    assert (runs(TERMS_TARGET), runs(SMALL)) == (1, 6)


@needs_bf16_tiles
@pytest.mark.parametrize("case", [*CASES, Case(130, 768, 256, bias=True), Case(200, 3072, 64), Case(430, 96, 128, residual=True)], ids=str)
def test_machine_code_gives_the_product_and_the_same_bits_on_all_threads(case: Case) -> None:
    first, *others = on_threads(lowered(case, host()), host(), case.arrays()[0], range(1, 5))
    check(case, first)
    for other in others:
        np.testing.assert_array_equal(other, first)


@needs_bf16_tiles
@pytest.mark.parametrize("case", [CASES[1], CASES[3], Case(200, 3072, 64)], ids=str)
def test_many_threads_split_a_once_for_all_of_them(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16x3_plan, "COSTS", replace(COSTS, least_makers=2, makers_bytes=0))
    by_each, _, by_all, also_by_all = on_threads(lowered(case, host()), host(), case.arrays()[0], range(1, 5))
    check(case, by_each)
    np.testing.assert_array_equal(by_all, by_each)
    np.testing.assert_array_equal(also_by_all, by_each)


@needs_bf16_tiles
def test_several_products_have_as_many_threads_as_have_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16x3_plan, "COSTS", replace(COSTS, least_makers=2, makers_bytes=0))
    module, inputs, expected = arguments_by_terms(ARGUMENTS["several"][0], host())
    for found in on_threads(module, host(), inputs, range(1, 5)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@needs_bf16_tiles
def test_one_kernel_serves_any_number_of_rows() -> None:
    case = Case(16 * COSTS.most_tiles * 13 + 1, 96, 64, bias=True)
    module = lowered(case, host(), free=True)
    executable = load(build_artifact(module, host(), "bf16x3", outline_constants(module)))
    for m in (0, 1, COSTS.least_rows - 1, COSTS.least_rows, 16 * COSTS.most_tiles, 16 * COSTS.most_tiles + 1, 1000, case.m):
        check_rows(case, m, executable.run([case.arrays()[0][0][:m]])[0])


def test_few_of_an_unknown_number_of_rows_are_multiplied_directly() -> None:
    case = Case(16 * COSTS.most_tiles + 17, 96, 64, bias=True)
    module = lowered(case, TERMS_TARGET, free=True)
    for m in (0, 1, COSTS.least_rows - 1, COSTS.least_rows, COSTS.least_rows + 9, case.m):
        check_rows(case, m, evaluate(module, [case.arrays()[0][0][:m]])[0])


OPEN_STRIDED = Convolution((2, 31, 38, 64), (80, 64, 1, 1), stride=2, tail="relu", free=True, open=True)


@pytest.mark.parametrize("m", [1, 7, 9, 13, 25, 33, 39])
def test_few_rows_ask_for_all_of_the_next_panel_while_they_are_multiplied_by_one(m: int) -> None:
    case = Case(40, 192, 160)
    prefetched: set[int] = set()

    def watch(op: Op, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        if isinstance(op, kernel.Prefetch) and op.buffer.type.shape == (case.k * case.n,):
            prefetched.add(int(operands[1]) // VECTOR)
        return results

    made = evaluate(lowered(case, SMALL, free=True), [case.arrays()[0][0][:m]], watch=watch)[0]
    check_rows(case, m, made)
    # Of five panels the first three ask for the next one; on numpy there are two threads, one of which goes backwards.
    panel = case.k * LANES // VECTOR
    assert prefetched >= set(range(panel, 4 * panel))


def test_both_ways_of_an_unknown_number_of_rows_read_the_same_panels() -> None:
    plans: list[KernelPlan] = []

    def build(request: Request) -> None:
        plan = by_terms(request)
        assert plan is not None
        plans.append(plan)

    def build_strided(request: Request) -> None:
        found = find_strided_rows(request)
        assert found is not None
        plans.append(Bf16x3Builder(Bf16x3Plan(found, TERMS_TARGET)).build())

    case = Case(100, 96, 64)
    for module, builder in ((case.module(*case.arrays(), free=True), build), (convolution(OPEN_STRIDED)[0], build_strided)):
        PassManager([Stage("kernel", TensorToKernel(TERMS_TARGET, (builder, *BUILDERS)))]).run(module)
    for plan in plans:
        one, other = plan.packs
        assert structure(one.func.block) == structure(other.func.block)


ARGUMENTS = {
    "lanes that are neighbours": (Product("mk,kn->mn", (50, 192), (192, 64), tail=True), True),
    "several runs": (Product("mk,kn->mn", (45, 1152), (1152, 64)), True),
    "lanes that leave some over": (Product("mk,kn->mn", (47, 96), (96, 50), tail=True), False),
    "many rows": (Product("mk,kn->mn", (COSTS.most_rows_in_place + 1, 64), (64, 32)), False),
    "steps that are neighbours": (Product("mk,nk->mn", (48, 64), (96, 64)), False),
    "rows that are neighbours": (Product("km,kn->mn", (64, 75), (64, 64)), True),
    "rows and steps": (Product("km,nk->mn", (128, 48), (70, 128), tail=True), False),
    "the last one's letters": (Product("mk,kn->nm", (64, 96), (96, 80)), False),
    "several": (Product("bmk,bkn->bmn", (3, 48, 64), (3, 64, 64), tail=True), True),
    "several that are turned": (Product("bhmk,bhnk->bhmn", (2, 2, 50, 32), (2, 2, 40, 32)), False),
    "one for several": (Product("bkm,kn->bmn", (3, 64, 50), (64, 64)), True),
    "rows of two letters": (Product("abk,kn->abn", (3, 20, 64), (64, 64)), True),
}


def plan_of_arguments(request: Request) -> Bf16x3Plan | None:
    found = find_unknown_b(request)
    return None if found is None else Bf16x3Plan(found, request.target)


def arguments_by_terms(case: Product, target: Target, in_place: bool | None = None) -> tuple[Module, list[Any], Array]:
    """A product of two arguments by terms, whether it is worth it or not, its inputs and results; read in place or not as is said."""
    module, inputs, expected = case.build()

    def build(request: Request) -> KernelPlan | None:
        plan = plan_of_arguments(request)
        assert plan is not None and in_place in (None, plan.in_place)
        return Bf16x3Builder(plan).build()

    PassManager([Stage("kernel", TensorToKernel(target, (build,)))]).run(module)
    return module, inputs, expected


@pytest.mark.parametrize("name", ARGUMENTS)
def test_products_of_two_arguments_touch_no_memory_outside_of_their_buffers(name: str) -> None:
    case, in_place = ARGUMENTS[name]
    module, inputs, expected = arguments_by_terms(case, SMALL, in_place)
    np.testing.assert_allclose(evaluate(module, inputs)[0], expected, rtol=1e-4, atol=1e-4)


@needs_bf16_tiles
@pytest.mark.parametrize("name", ARGUMENTS)
def test_machine_code_of_two_arguments_gives_the_same_bits_on_all_threads(name: str) -> None:
    module, inputs, expected = arguments_by_terms(ARGUMENTS[name][0], replace(host(), caches=SMALL.caches))
    first, *others = on_threads(module, host(), inputs, range(1, 5))
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-4)
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize(
    ("case", "taken"),
    [
        (Product("mk,kn->mn", (128, 768), (768, 768)), True),
        (Product("mk,nk->mn", (256, 768), (768, 768)), True),
        (Product("mk,mn->kn", (128, 768), (128, 3072)), True),  # a gradient of weights
        (Product("mk,kn->mn", (128, 770), (770, 768)), False),  # steps that are not whole
        (Product("bmk,bkn->bmn", (4, 256, 256), (4, 256, 256)), True),
        (Product("bmk,bkn->bmn", (12, 384, 384), (12, 384, 64)), False),  # few lanes
        (Product("bmk,bkn->bmn", (12, 64, 64), (12, 64, 64)), False),
        (Product("mk,kn->mn", (128, 768), (768, 768), dtype=f64), False),
    ],
    ids=str,
)
def test_products_of_two_arguments_are_made_so_where_they_gain(case: Product, taken: bool) -> None:
    found: list[Bf16x3Plan | None] = []

    def build(request: Request) -> None:
        found.append(find_bf16x3(request))

    PassManager([Stage("kernel", TensorToKernel(TERMS_TARGET, (build, *BUILDERS)))]).run(case.build()[0])
    assert (found[0] is not None) == taken


STRIDED = [
    Convolution((2, 15, 16, 64), (48, 64, 1, 1), stride=2, tail="residual"),
    Convolution((1, 21, 19, 100), (70, 100, 1, 1), stride=2, tail="relu"),  # no size fits
    Convolution((3, 50, 64), (32, 64, 1), stride=3),
    Convolution((2, 7, 8, 9, 64), (40, 64, 1, 1, 1), stride=2),
]


def strided_by_terms(case: Convolution, target: Target) -> tuple[Module, list[Any]]:
    """A convolution of single pixels by terms, whether it is worth it or not, and its inputs."""
    module, inputs = convolution(case)

    def build(request: Request) -> KernelPlan | None:
        found = find_strided_rows(request)
        assert found is not None and found.m == np.prod([case.x[0], *case.places]) and find_matrices(request) is None
        return Bf16x3Builder(Bf16x3Plan(found, target)).build()

    PassManager([Stage("kernel", TensorToKernel(target, (build,)))]).run(module)
    return module, inputs


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("case", STRIDED, ids=str)
def test_pixels_that_are_strides_apart_touch_no_memory_outside_of_their_buffers(
    case: Convolution, far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bf16x3_plan, "COSTS", replace(COSTS, l2_multiple=0 if far else 4))
    module, inputs = strided_by_terms(case, SMALL)
    prefetched = {op.buffer.type.shape for op in module.walk() if isinstance(op, kernel.Prefetch)}
    assert (case.x in prefetched) == far
    np.testing.assert_allclose(evaluate(module, inputs)[0], convolved(case), rtol=1e-4, atol=1e-4)


@needs_bf16_tiles
@pytest.mark.parametrize("case", STRIDED, ids=str)
def test_machine_code_of_pixels_that_are_strides_apart_gives_the_same_bits_on_all_threads(
    case: Convolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, inputs = strided_by_terms(case, host())
    first, *others = on_threads(module, host(), inputs, range(1, 5))
    np.testing.assert_allclose(first.reshape(convolved(case).shape), convolved(case), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(bf16x3_plan, "COSTS", replace(COSTS, l2_multiple=0))
    for other in (*others, *on_threads(strided_by_terms(case, host())[0], host(), inputs, range(1, 3))):
        np.testing.assert_array_equal(other, first)


def open_by_terms(target: Target) -> Module:
    """The same for any number of images and pixels."""
    module, _ = convolution(OPEN_STRIDED)

    def build(request: Request) -> KernelPlan | None:
        found = find_strided_rows(request)
        assert found is not None and not isinstance(found.m, int)
        return Bf16x3Builder(Bf16x3Plan(found, target)).build()

    PassManager([Stage("kernel", TensorToKernel(target, (build, *BUILDERS)))]).run(module)
    return module


@pytest.mark.parametrize("sizes", [(1, 1), (5, 13), (5, 14), (9, 38), (31, 38)], ids=str)  # 2, 42, 42, 190 and 608 pixels
@pytest.mark.parametrize("by", ["numpy", pytest.param("machine", marks=needs_bf16_tiles)])
def test_one_kernel_serves_any_number_of_pixels_that_are_strides_apart(sizes: tuple[int, int], by: str) -> None:
    high, wide = sizes
    x, *others = convolution(OPEN_STRIDED)[1]
    inputs = [np.ascontiguousarray(x[:, :high, :wide]), *others]
    if by == "numpy":
        made = evaluate(open_by_terms(SMALL), inputs)[0]
    else:
        module = open_by_terms(host())
        made = load(build_artifact(module, host(), "bf16x3", outline_constants(module))).run(inputs)[0]
    np.testing.assert_allclose(np.asarray(made), convolved(OPEN_STRIDED)[:, : (high + 1) // 2, : (wide + 1) // 2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("k", "n", "gains"),
    [
        (768, 768, {40: True, 49: True}),
        (256, 1024, {48: True, 49: False, 64: True, 1000: True}),  # a tile of 16 rows for one of them
        (128, 512, {64: False, 196: False, 784: True}),
        (256, 128, {512: False, 784: True}),
        (64, 256, None),
    ],
)
def test_an_unknown_number_of_rows_goes_so_where_it_gains(k: int, n: int, gains: dict[int, bool] | None) -> None:
    plan = plan_of(Case(100, k, n), TERMS_TARGET, free=True)
    assert (None if plan is None else {m: plan.gains(m) for m in gains or {}}) == gains


@pytest.mark.parametrize(
    ("case", "taken"),
    [
        (Convolution((1, 56, 56, 256), (512, 256, 1, 1), stride=2), True),
        (Convolution((16, 14, 14, 1024), (2048, 1024, 1, 1), stride=2), True),
        (Convolution((1, 56, 56, 256), (512, 256, 1, 1), stride=2, free=True), True),  # an unknown number of images
        (Convolution((1, 56, 56, 256), (512, 256, 1, 1), stride=2, open=True), True),  # and of pixels
        (Convolution((1, 56, 56, 64), (512, 64, 3, 3), stride=2), False),
        (Convolution((1, 56, 56, 256), (512, 256, 1, 1), stride=2, constant=False), False),
    ],
    ids=str,
)
def test_strided_convolutions_of_single_pixels_are_made_so_before_they_are_convolutions(case: Convolution, taken: bool) -> None:
    module, _ = convolution(case)
    PassManager([Stage("kernel", TensorToKernel(TERMS_TARGET, BUILDERS))]).run(module)
    assert any(isinstance(op, kernel.DotTerms) for op in module.walk()) == taken


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 3000), st.integers(1, 5000), st.integers(1, 400))
def test_tiles_of_every_chunk_cut_all_pairs_of_a_block_and_steps_cover_all(m: int, k: int, n: int) -> None:
    plan = Bf16x3Plan(replace_sizes(m, k, n), TERMS_TARGET)
    assert isinstance(plan.tiles, int) and isinstance(plan.chunk, int) and isinstance(plan.chunks, int)
    assert plan.tiles * plan.height >= m > (plan.tiles - 1) * plan.height
    assert plan.chunks * plan.chunk >= plan.tiles > (plan.chunks - 1) * plan.chunk and plan.chunk <= COSTS.most_tiles
    assert plan.steps * STEPS >= k and plan.panels * LANES >= n
    assert plan.runs * plan.run >= plan.blocks > (plan.runs - 1) * plan.run
    last, whole = (max(tiles, COSTS.least_tiles) for tiles in (plan.tiles - (plan.chunks - 1) * plan.chunk, plan.chunk))
    few, many = plan.cuts
    assert last * few >= PAIRS and whole * many >= PAIRS and few >= many


@pytest.mark.parametrize(
    ("m", "k", "n", "chunks"),
    [(196, 1024, 256, 2), (196, 256, 257, 1), (177, 64, 32, 2), (176, 64, 32, 1), (209, 64, 32, 2), (784, 512, 128, 4)],
)
def test_threads_have_rows_of_their_own_where_few_panels_follow(m: int, k: int, n: int, chunks: int) -> None:
    assert Bf16x3Plan(replace_sizes(m, k, n), TERMS_TARGET).chunks == chunks


def replace_sizes(m: int, k: int, n: int) -> Any:
    """Matrices of these sizes; a plan asks for no more of them."""
    found: list[Any] = []

    def build(request: Request) -> None:
        found.append(find_matrices(request))

    case = Case(2, 64, 32)
    PassManager([Stage("kernel", TensorToKernel(TERMS_TARGET, (build, build_loops)))]).run(case.module(*case.arrays()))
    return replace(found[0], m=m, k=k, n=n)


@pytest.mark.parametrize(
    ("case", "free", "taken"),
    [
        (Case(128, 768, 768), False, True),
        (Case(128, 768, 768), True, True),
        (Case(49, 512, 2048), False, True),
        (Case(128, 784, 512), False, True),
        (Case(32, 768, 768), False, False),  # few rows
        (Case(3136, 256, 64), False, False),  # few lanes, for which the terms of all rows would be made
        (Case(128, 128, 128), False, False),  # little to do
        (Case(128, 40, 768), False, False),  # few steps
        (Case(12544, 128, 512, residual=True), False, False),  # results and residuals from memory, for few steps
        (Case(12544, 256, 1024, residual=True), False, True),
    ],
    ids=str,
)
def test_products_are_made_so_where_they_gain(case: Case, free: bool, taken: bool) -> None:
    assert (plan_of(case, TERMS_TARGET, free) is not None) == taken


def test_who_forbids_it_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(128, 768, 768)
    assert plan_of(case, replace(TERMS_TARGET, bf16_terms=False)) is None
    assert plan_of(case, replace(TERMS_TARGET, features=TERMS_TARGET.features.replace("+amx-bf16", "-amx-bf16"))) is None
    monkeypatch.setenv("POLYREME_BF16_TERMS", "0")
    assert plan_of(case, TERMS_TARGET) is None


@needs_bf16_tiles
def test_an_infinity_makes_its_row_nan_and_no_other() -> None:
    case = Case(64, 96, 64)
    inputs, constants = case.arrays()
    inputs[0][5, 7] = np.inf
    module = case.module(inputs, constants)
    PassManager([Stage("kernel", TensorToKernel(host(), (by_terms, build_loops)))]).run(module)
    found = load(build_artifact(module, host(), "bf16x3", outline_constants(module))).run(inputs)[0]
    assert np.isnan(found[5]).all() and np.isfinite(np.delete(found, 5, 0)).all()
