"""What is estimated of a product before its kernel is written, beside what is counted of the kernel: the same, within some per cent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyreme.ir.passes import PassManager, Stage
from polyreme.lowering.kernels.gemm.contract import build_contract, find_with_halves
from polyreme.lowering.kernels.gemm.contract_schedule import rank_schedules
from polyreme.lowering.kernels.gemm.product_estimate import ProductEstimate, missed_of
from polyreme.lowering.kernels.gemm.product_schedule import BufferedTasks, ContractSchedule
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import Product
from polyreme.lowering.kernels.way import cycles_of
from polyreme.lowering.machines.targets import TARGETS, Target, core_of
from polyreme.lowering.schedule.bufferize import TensorToKernel
from tests.lowering.kernels.gemm.test_matrix_products import Case

WIDE = replace(TARGETS["x86-64-avx512"], caches=(32 << 10, 1 << 20, 32 << 20))
MACHINES = [core_of(replace(WIDE, cpu="znver4")), replace(TARGETS["x86-64-avx2"], caches=WIDE.caches), TARGETS["aarch64"]]
PLAIN, TURNED = "mk,kn->mn", "mk,nk->mn"


def found_in(case: Case, target: Target) -> tuple[Request, Product]:
    seen: list[Request] = []

    def build(request: Request) -> KernelPlan | None:
        seen.append(request)
        return build_contract(request)

    PassManager([Stage("kernel", TensorToKernel(target, (build,)))]).run(case.build()[0])
    found = find_with_halves(seen[0])
    assert found is not None
    return seen[0], found


def packs_at_each_call(schedule: ContractSchedule, constant: bool) -> bool:
    """What is waited for while B is packed is known of the machine, and not counted of ops."""
    packed = schedule.packed
    return packed is not None and (isinstance(packed, BufferedTasks) or packed.local or not constant)


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize(
    ("case", "constant"),
    [
        (Case(PLAIN, (64, 256), (256, 512), constant=True), True),
        (Case(PLAIN, (784, 512), (512, 128), constant=True, tail=True), True),
        (Case(PLAIN, (49, 1024), (1024, 256), constant=True), True),
        (Case(PLAIN, (3136, 64), (64, 256), constant=True), True),
        (Case(PLAIN, (128, 30), (30, 100), constant=True), True),
        (Case(PLAIN, (8, 300), (300, 512)), False),
        (Case(PLAIN, (128, 192), (192, 256), tail=True), False),
        (Case(TURNED, (8, 256), (512, 256)), False),
    ],
    ids=str,
)
def test_estimates_agree_with_what_is_counted_of_the_kernels(case: Case, constant: bool, target: Target) -> None:
    request, found = found_in(case, target)
    estimate = ProductEstimate(found)
    counted = {s: cycles_of(build_contract.plan(found, s), request) for s in rank_schedules(found) if not packs_at_each_call(s, constant)}
    assert counted
    for schedule, cycles in list(counted.items())[:3]:
        assert estimate.cycles(schedule) == pytest.approx(cycles, rel=0.12), schedule


def test_what_stays_in_a_cache_comes_to_it_once() -> None:
    loops = [(10, "A"), (4, "B")]
    assert missed_of({"A": 100.0, "B": 50.0}, loops, (120, 10_000)) == {"A": (4000, 0), "B": (2000, 0)}
    assert missed_of({"A": 100.0, "B": 50.0}, loops, (150,)) == {"A": (4000,), "B": (200,)}
    assert missed_of({"A": 100.0, "B": 50.0}, loops, (1060,)) == {"A": (1000,), "B": (200,)}


def test_b_that_meets_more_rows_is_the_sooner_worth_packing() -> None:
    """Rows far apart drive each other out of L2, and come from L3 again for each tile of rows."""
    target = core_of(replace(WIDE, cpu="znver4"))
    chosen = []
    for rows in (8, 512):
        _, found = found_in(Case(PLAIN, (rows, 1024), (1024, 1024)), target)
        chosen.append(rank_schedules(found)[0].packed is not None)
    assert chosen == [False, True]
