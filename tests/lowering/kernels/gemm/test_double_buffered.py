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
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.gemm.contract_schedule import BufferedTasks, schedule_product
from polyreme.lowering.kernels.gemm.double_buffered import BufferBlocks, BufferShare, DoubleBufferPlan, _even_depth
from polyreme.lowering.kernels.microkernel import MOST_UNROLLED
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import find_product
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import TensorToKernel
from tests.lowering.kernels.gemm.test_matrix_products import Case
from tests.lowering.products import check_evaluated, check_native, to_kernels

FAST = replace(TARGETS["x86-64-avx512"], caches=(32 << 10, 64 << 10, 1 << 20), l3_bytes_per_cycle=20)
SLOW = replace(FAST, l3_bytes_per_cycle=9.5)
LIKE_HOST = {"caches": FAST.caches, "vector_registers": 32, "vector_bytes": 64}


def ring_of(case: Case, target: Target) -> DoubleBufferPlan | None:
    """How the builder of products plans the case."""
    plans: list[DoubleBufferPlan | None] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_product(request)
        assert found is not None
        chosen = schedule_product(found)
        packed = chosen.packed
        plans.append(DoubleBufferPlan(chosen.tile, packed.steps) if isinstance(packed, BufferedTasks) else None)
        return build_contract(request)

    PassManager([Stage("kernel", TensorToKernel(target, (build,)))]).run(case.build()[0])
    (plan,) = plans
    return plan


@pytest.mark.parametrize(
    ("m", "k", "n", "target", "depth", "width"),
    [
        (131, 66, 96, FAST, 66, 48),
        (131, 66, 150, FAST, 66, 64),  # a panel of 22 lanes is left over
        (100, 67, 16, SLOW, 67, 16),  # one panel, which is copied first
        (33, 250, 128, SLOW, 84, 64),  # three blocks, the last one of 82 steps
        (34, 203, 70, SLOW, 104, 48),  # two blocks, and lanes left over
        (300, 70, 192, SLOW, 70, 48),  # pieces of rows that stay near
    ],
)
def test_tasks_pack_the_next_block_while_they_multiply(m: int, k: int, n: int, target: Target, depth: int, width: int) -> None:
    case = Case("mk,kn->mn", (m, k), (k, n), tail=True)
    plan = ring_of(case, target)
    assert plan is not None and (plan.depth, plan.tile[1] * 16) == (depth, width)
    module, inputs, expected = case.build()
    check_evaluated(module, inputs, expected, f32, target)
    check_native(module, inputs, expected, f32, replace(host(), l3_bytes_per_cycle=target.l3_bytes_per_cycle, **LIKE_HOST))


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
def test_results_agree_with_float64_on_one_and_two_threads(spec: str, a: tuple[int, ...], b: tuple[int, ...], dtype: ScalarType) -> None:
    for third in (9.5, 20):
        module, inputs, expected = Case(spec, a, b, dtype=dtype).build()
        check_native(module, inputs, expected, dtype, replace(host(), l3_bytes_per_cycle=third, **LIKE_HOST))


@pytest.mark.parametrize(
    ("products", "k", "n", "second", "asks"),
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
    products: int, k: int, n: int, second: int, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, asked, target = 132, set[int](), replace(FAST, caches=(32 << 10, second, 1 << 20))

    def prefetch(buffer: Any, index: Any, **_: Any) -> tuple[()]:
        if buffer.size == products * m * k:
            asked.add(int(index) // 16)
        return ()

    monkeypatch.setattr(kernel.Prefetch, "reference", staticmethod(prefetch))
    case = Case("bmk,bkn->bmn", (products, m, k), (products, k, n))
    plan = ring_of(case, target)
    assert plan is not None
    module, inputs, expected = case.build()
    check_evaluated(module, inputs, expected, f32, target)
    # The very first tile is waited for.
    assert asked >= set(range(plan.tile[0] * k // 16, products * m * k // 16)) if asks else not asked


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (Case("mk,kn->mn", (31, 100), (100, 96)), SLOW),  # few rows
        (Case("mk,kn->mn", (131, 64), (64, 96)), SLOW),  # few steps
        (Case("mk,nk->mn", (131, 100), (96, 100)), SLOW),  # steps are neighbours, not lanes
        (Case("mk,kn->mn", (131, 100), (100, 96), constant=True), SLOW),
        (Case("mk,kn->mn", (131, 100), (100, 96)), replace(SLOW, vector_registers=16, vector_bytes=32)),
        (Case("mkl,lkn->mn", (131, 7, 20), (20, 7, 96)), SLOW),  # two letters of steps
        (Case("mk,kn->mn", (131, 900), (900, 96)), FAST),  # deeper than a block, which only is cut where far caches are slow
    ],
    ids=str,
)
def test_other_products_are_packed_otherwise(case: Case, target: Target) -> None:
    assert ring_of(case, target) is None


@pytest.mark.parametrize(("m", "together"), [(512, False), (513, True)])
def test_a_kernel_of_its_own_packs_what_many_rows_meet_where_l3_is_slow(m: int, together: bool) -> None:
    module, _, _ = Case("mk,kn->mn", (m, 100), (100, 96)).build()

    def kernels(target: Target) -> int:
        return sum(isinstance(op, kernel.Parallel) for op in to_kernels(module, target)[0].walk())

    assert (kernels(SLOW), kernels(FAST)) == (1 + together, 1)


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
