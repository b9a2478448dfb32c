"""What is chosen about matrix products, as it prints; the table of docs/kernels/matrix_products.md, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyreme.ir.dims import symbol
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import f32
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.gemm.contract_schedule import schedule_product
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import find_product
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import TensorToKernel
from tests.lowering.kernels.gemm.test_matrix_products import Case
from tests.lowering.products import check_native

N = symbol("N")
PLAIN, TURNED = "mk,kn->mn", "mk,nk->mn"


def schedule_of(case: Case, target: str | Target) -> str:
    texts: list[str] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_product(request, halves=True)
        assert found is not None
        texts.append(str(schedule_product(found)))
        return build_contract(request)

    PassManager([Stage("kernel", TensorToKernel(TARGETS[target] if isinstance(target, str) else target, (build,)))]).run(case.build()[0])
    (text,) = texts
    return text


CASES = {
    "constant": (
        Case(PLAIN, (64, 256), (256, 512), constant=True), "x86-64-avx512",
        "gemm<sizes = 64x256x512, tile = 8x3, lanes = 16, packed = tiles<panels = packed, rows = 32>>",
    ),
    "constant, one row": (
        Case(PLAIN, (1, 256), (256, 500), constant=True), "x86-64-avx512",
        "gemm<sizes = 1x256x500, tile = 1x4, lanes = 16, packed = tiles<panels = packed, grain = 4>>",
    ),
    "constant, many rows": (
        Case(PLAIN, (4096, 256), (256, 512), constant=True), "x86-64-avx512",
        "gemm<sizes = 4096x256x512, tile = 8x3, lanes = 16, packed = tiles<panels = packed, rows = 1024, order = pieces>>",
    ),
    "few rows": (
        Case(PLAIN, (8, 256), (256, 512)), "x86-64-avx512",
        "gemm<sizes = 8x256x512, tile = 8x3, lanes = 16, in_place = tiles>",
    ),
    "few rows, steps contiguous": (
        Case(TURNED, (8, 256), (512, 256)), "x86-64-avx512",
        "gemm<sizes = 8x256x512, lanes = 16, in_place = dots<along = k, rows = 1, columns = 8, grain = 9>>",
    ),
    "known sizes, 32 registers": (
        Case(PLAIN, (200, 256), (256, 512)), "x86-64-avx512",
        "gemm<sizes = 200x256x512, tile = 8x3, lanes = 16, "
        "packed = double_buffered<steps = 256, rest = tiles<panels = packed by each task>>>",
    ),
    "known sizes, 16 registers": (
        Case(PLAIN, (200, 256), (256, 512)), "x86-64-avx2",
        "gemm<sizes = 200x256x512, tile = 5x2, lanes = 8, in_place = tiles>",
    ),
    "long steps": (
        Case(PLAIN, (200, 4096), (4096, 512)), "x86-64-avx2",
        "gemm<sizes = 200x4096x512, tile = 2x4, lanes = 8, packed = tiles<panels = packed by each task, steps = 128>>",
    ),
    "an unknown number of rows": (
        Case(PLAIN, (N, 256), (256, 512)), "x86-64-avx2",
        "gemm<sizes = Nx256x512, tile = 6x2, lanes = 8, in_place = tiles<rows = 66>>",
    ),
    "an unknown number of rows, steps contiguous": (
        Case(TURNED, (N, 256), (512, 256)), "x86-64-avx2",
        "gemm<sizes = Nx256x512, tile = 6x2, lanes = 8, packed = tiles<panels = packed, rows = 66>, "
        "in_place = dots<along = k, rows = 1, columns = 7>, packed_from_rows = 58>",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "target", "text"), CASES.values(), ids=CASES)
def test_a_schedule_says_what_is_chosen(case: Case, target: str, text: str) -> None:
    assert schedule_of(case, target) == text


# A machine that prefetches streams, with an L2 that small results exceed.
STREAMS = replace(TARGETS["x86-64-avx512"], caches=(32 << 10, 64 << 10, 128 << 10), hardware_prefetch=True)
BY_ROWS = "lanes = 16, packed = tiles<panels = packed, rows = 3, order = rows>"


@pytest.mark.parametrize(
    ("case", "by_rows"),
    [
        (Case("km,kn->mn", (16, 131), (16, 290), tail=True), True),
        (Case("km,kn->mn", (16, 131), (16, 290)), False),
        (Case("km,kn->mn", (16, 31), (16, 290), tail=True), False),
        (Case("km,kn->mn", (256, 1803), (256, 20), tail=True), False),
        (Case("km,kn->mn", (16, 131), (16, 290), constant=True, tail=True), True),
        (Case("km,kn->nm", (16, 131), (16, 290), tail=True), False),
    ],
    ids=[
        "what is read beyond L2 at the results", "nothing to read", "few rows", "long sums", "constant panels too",
        "results whose lines go down the rows",
    ],
)  # fmt: skip
def test_results_whose_memory_is_read_go_row_by_row_through_all_panels(case: Case, by_rows: bool) -> None:
    assert (BY_ROWS in schedule_of(case, STREAMS)) == by_rows
    assert BY_ROWS not in schedule_of(case, replace(STREAMS, hardware_prefetch=False))


def test_of_panels_that_exceed_l2_a_task_has_some() -> None:
    assert "order = rows, across = 4>" in schedule_of(Case("km,kn->mn", (16, 203), (16, 700), tail=True), STREAMS)


@pytest.mark.parametrize(("m", "n"), [(131, 290), (203, 700), (165, 333), (259, 512)])
def test_such_products_agree_with_float64_on_one_and_two_threads(m: int, n: int) -> None:
    case = Case("km,kn->mn", (16, m), (16, n), tail=True)
    assert "order = rows" in schedule_of(case, STREAMS)
    module, inputs, expected = case.build()
    check_native(module, inputs, expected, f32, replace(host(), caches=STREAMS.caches, hardware_prefetch=True))
