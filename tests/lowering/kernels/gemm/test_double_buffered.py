"""Products that pack B while they multiply: one block and several, partial panels, pieces of rows, and which products they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.dialects import kernel
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import ScalarType, f32, f64
from polyreme.lowering.kernels.gemm.contract import build_contract, find_with_halves
from polyreme.lowering.kernels.gemm.contract_schedule import rank_schedules
from polyreme.lowering.kernels.gemm.double_buffered import BufferBlocks, BufferShare, _even_depth
from polyreme.lowering.kernels.gemm.product_schedule import BufferedTasks, ContractSchedule
from polyreme.lowering.kernels.microkernel import MOST_UNROLLED
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import Product
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import TensorToKernel
from tests.lowering import products
from tests.lowering.kernels.gemm.test_matrix_products import Case
from tests.lowering.products import check_evaluated, check_native

FAST = replace(TARGETS["x86-64-avx512"], caches=(32 << 10, 64 << 10, 1 << 20), l3_bytes_per_cycle=20)
SLOW = replace(FAST, l3_bytes_per_cycle=9.5)
LIKE_HOST = {"caches": FAST.caches, "vector_registers": 32, "vector_bytes": 64}


def candidates_of(found: Product) -> list[ContractSchedule]:
    """The candidates of a product that pack while they multiply, the one that is thought to be the fastest first."""
    return [schedule for schedule in rank_schedules(found) if isinstance(schedule.packed, BufferedTasks)]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[ContractSchedule]:
    """Products pack while they multiply, whatever else is estimated to be faster; the schedules by which they do."""
    taken: list[ContractSchedule] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_with_halves(request)
        assert found is not None
        taken.append(candidates_of(found)[0])
        return build_contract.plan(found, taken[-1])

    monkeypatch.setattr(products, "build_nchw_conv", build)
    return taken


@pytest.mark.parametrize(
    ("m", "k", "n", "target"),
    [
        (131, 66, 96, FAST),
        (131, 66, 150, FAST),  # some lanes are left over
        (100, 67, 16, SLOW),  # one panel, which is copied first
        (33, 250, 128, SLOW),  # blocks, the last one of which has fewer steps
        (34, 203, 70, SLOW),
        (300, 70, 192, SLOW),  # pieces of rows
    ],
)
def test_tasks_pack_the_next_block_while_they_multiply(m: int, k: int, n: int, target: Target, chosen: list[ContractSchedule]) -> None:
    case = Case("mk,kn->mn", (m, k), (k, n), tail=True)
    module, inputs, expected = case.build()
    check_evaluated(module, inputs, expected, f32, target)
    check_native(module, inputs, expected, f32, replace(host(), l3_bytes_per_cycle=target.l3_bytes_per_cycle, **LIKE_HOST))
    assert all(isinstance(schedule.packed, BufferedTasks) for schedule in chosen)


@pytest.mark.parametrize(("m", "k", "n"), [(131, 66, 150), (33, 250, 128), (34, 203, 70), (257, 700, 200)])
def test_every_such_candidate_agrees_with_float64(m: int, k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case, target, number, count = Case("mk,kn->mn", (m, k), (k, n)), replace(host(), **LIKE_HOST), 0, 1

    def build(request: Request) -> KernelPlan | None:
        nonlocal count
        found = find_with_halves(request)
        assert found is not None
        every = candidates_of(found)
        count = len(every)
        return build_contract.plan(found, every[number])

    monkeypatch.setattr(products, "build_nchw_conv", build)
    while number < count:
        check_native(*case.build(), f32, target)
        number += 1
    assert count > 1


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize(
    ("spec", "a", "b"),
    [
        ("mk,kn->mn", (257, 700), (700, 200)),
        ("mk,kn->mn", (520, 129), (129, 144)),
        ("km,kn->mn", (300, 95), (300, 97)),
        ("bmk,bkn->bmn", (3, 47, 203), (3, 203, 80)),
        ("bmk,kn->bmn", (2, 61, 511), (511, 150)),
    ],
    ids=str,
)
def test_results_agree_with_float64_on_one_and_two_threads(
    spec: str, a: tuple[int, ...], b: tuple[int, ...], dtype: ScalarType, chosen: list[ContractSchedule]
) -> None:
    for third in (9.5, 20):
        module, inputs, expected = Case(spec, a, b, dtype=dtype).build()
        check_native(module, inputs, expected, dtype, replace(host(), l3_bytes_per_cycle=third, **LIKE_HOST))
    assert chosen


@pytest.mark.parametrize(
    ("count", "k", "n", "second", "asks"),
    [
        (3, 96, 64, 64 << 10, True),
        (1, 96, 64, 64 << 10, False),  # rows of one product stay in the second-level cache, and may have come from it
        (3, 96, 128, 64 << 10, False),  # two panels: the second one would ask again
        (3, 96, 70, 64 << 10, False),
        (3, 96, 64, 1 << 20, True),  # from the second level
        (3, 192, 64, 1 << 20, False),  # where they would take too much of the first one
        (3, 100, 64, 1 << 20, False),  # or are not whole lines
    ],
)
def test_tiles_of_a_single_panel_ask_for_the_next_rows_where_these_come_late(
    count: int, k: int, n: int, second: int, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, asked, target = 132, set[int](), replace(FAST, caches=(32 << 10, second, 1 << 20))

    def prefetch(buffer: Any, index: Any, **_: Any) -> tuple[()]:
        if buffer.size == count * m * k:
            asked.add(int(index) // 16)
        return ()

    monkeypatch.setattr(kernel.Prefetch, "reference", staticmethod(prefetch))
    case, rows = Case("bmk,bkn->bmn", (count, m, k), (count, k, n)), set[int]()

    def build(request: Request) -> KernelPlan | None:
        """By panels of four vectors."""
        found = find_with_halves(request)
        assert found is not None
        schedule = next(s for s in candidates_of(found) if s.tile is not None and s.tile[1] == 4)
        rows.add(schedule.tile[0])
        return build_contract.plan(found, schedule)

    monkeypatch.setattr(products, "build_nchw_conv", build)
    module, inputs, expected = case.build()
    check_evaluated(module, inputs, expected, f32, target)
    # The very first tile is waited for.
    assert asked >= set(range(max(rows) * k // 16, count * m * k // 16)) if asks else not asked


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (Case("mk,kn->mn", (131, 64), (64, 96)), SLOW),  # few steps
        (Case("mk,nk->mn", (131, 100), (96, 100)), SLOW),  # steps are neighbours, not lanes
        (Case("mk,kn->mn", (131, 100), (100, 96), constant=True), SLOW),
        (Case("mk,kn->mn", (131, 100), (100, 96)), replace(SLOW, vector_registers=16, vector_bytes=32)),
        (Case("mkl,lkn->mn", (131, 7, 20), (20, 7, 96)), SLOW),  # two letters of steps
    ],
    ids=str,
)
def test_other_products_are_packed_otherwise(case: Case, target: Target) -> None:
    seen: list[int] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_with_halves(request)
        assert found is not None
        seen.append(len(candidates_of(found)))
        return build_contract(request)

    PassManager([Stage("kernel", TensorToKernel(target, (build,)))]).run(case.build()[0])
    assert seen == [0]


@given(st.integers(65, 5000), st.integers(1, 4), st.integers(16, 400), st.integers(1, 60))
def test_the_tiles_of_a_block_copy_all_of_the_next_one(steps: int, vectors: int, rounds: int, tiles: int) -> None:
    share = BufferShare.of(BufferBlocks(steps, steps, vectors, 16, f32, tiles), rounds)
    assert 1 <= share.tiles <= tiles
    assert (share.tiles - 1) * share.steps < steps <= share.tiles * share.steps
    assert share.steps == rounds // share.rounds * share.each and vectors % share.rounds == 0


@given(st.integers(1, 60_000), st.integers(1, 400))
def test_the_last_block_is_no_remnant(steps: int, blocks: int) -> None:
    depth = _even_depth(steps, blocks)
    if depth is None:
        assert steps // blocks < 3 * MOST_UNROLLED
        return
    cut = BufferBlocks(steps, depth, 3, 16, f32, 1)
    assert depth // 2 <= cut.last <= depth and depth // 2 > MOST_UNROLLED
    assert (cut.count - 1) * depth + cut.last == steps and cut.count <= blocks
