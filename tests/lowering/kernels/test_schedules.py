"""Schedules are values: they print, are read back, and kernels are written as they say."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import f32
from polyreme.lowering.kernels.gemm.contract import build_contract, find_with_halves
from polyreme.lowering.kernels.gemm.contract_schedule import schedule_product
from polyreme.lowering.kernels.gemm.product_schedule import BufferedTasks, ContractSchedule, DotTasks, TileTasks
from polyreme.lowering.kernels.plan import KernelPlan, Request, structure
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError, parse_schedule
from polyreme.lowering.machines.targets import TARGETS, Target
from polyreme.lowering.schedule.bufferize import TensorToKernel
from tests.lowering import products
from tests.lowering.kernels.gemm.test_contract_schedule import CASES
from tests.lowering.kernels.gemm.test_matrix_products import Case
from tests.lowering.products import check_evaluated

KINDS = (ContractSchedule,)
PLAIN = "mk,kn->mn"


@dataclass(frozen=True)
class Leaf(Schedule, kind="leaf"):
    size: int
    ratio: float = 0.5


@dataclass(frozen=True)
class Branch(Schedule, kind="branch"):
    name: str
    tile: tuple[int, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    leaf: Leaf | None = None
    is_far: bool = False


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Leaf(3), "leaf<size = 3>"),
        (Leaf(-3, 0.25), "leaf<size = -3, ratio = 0.25>"),
        (Branch("two words"), "branch<name = two words>"),
        (Branch("a", (8,), is_far=True), "branch<name = a, tile = 8, is_far>"),
        (Branch("f(N, 2)", (8, 3), (Leaf(1), Leaf(2)), Leaf(3)),
         "branch<name = f(N, 2), tile = 8x3, leaves = [leaf<size = 1>, leaf<size = 2>], leaf = leaf<size = 3>>"),
    ],
)  # fmt: skip
def test_a_schedule_prints_and_is_read_back(schedule: Schedule, text: str) -> None:
    assert str(schedule) == text
    assert parse_schedule(text, [Leaf, Branch]) == schedule
    assert parse_schedule(f"  {text.replace(' = ', '=  ')} ", [Leaf, Branch]) == schedule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leaf<size = 3", "expected a schedule such as"),
        ("leaf<size = 3>>", "expected a schedule such as"),
        ("lead<size = 3>", r"expected a schedule of a kind known here \(leaf, branch\) but got 'lead'; did you mean 'leaf'\?"),
        ("leaf<siz = 3>", r"expected a field of 'leaf' \(size, ratio\) but got 'siz'; did you mean 'size'\?"),
        ("leaf<size = 3, size = 3>", "expected each field of 'leaf' once but got 'size' twice"),
        ("leaf", "expected 'leaf' to say size"),
        ("leaf<size>", "expected a value for 'size' of 'leaf'"),
        ("leaf<size = many>", "expected 'size' of 'leaf' to be a whole number but got 'many'"),
        ("branch<name = a, is_far = True>", "expected 'is_far' of 'branch' to stand alone"),
        ("branch<name = a, tile = 8*3>", "expected 'tile' of 'branch' to be numbers such as 8x3 but got '8\\*3'"),
        ("branch<name = a, leaf = 3>", "expected a schedule of a kind|expected a schedule such as"),
        ("branch<name = a, leaves = leaf<size = 1>>", "expected 'leaves' of 'branch' to be schedules in brackets"),
    ],
)
def test_text_that_is_no_schedule_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        parse_schedule(text, [Leaf, Branch])


def kernels(case: Case, target: Target, change: str | None = None) -> tuple[Module, list[Schedule]]:
    """A product at kernel level, by its own schedule after a trip through text, or by this one."""
    seen: list[Schedule] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_with_halves(request)
        assert found is not None
        own = schedule_product(found)
        seen.append(parse_schedule(change or str(own), KINDS))
        build_contract.fits(found, seen[-1])
        return build_contract.plan(found, seen[-1])

    made = case.build()[0]
    PassManager([Stage("kernel", TensorToKernel(target, (build,)))]).run(made)
    return made, seen


@pytest.mark.parametrize(("case", "target", "text"), CASES.values(), ids=CASES)
def test_a_schedule_read_from_text_gives_the_same_kernel(case: Case, target: str, text: str) -> None:
    again, (schedule,) = kernels(case, TARGETS[target])
    assert str(schedule) == text
    direct = case.build()[0]
    PassManager([Stage("kernel", TensorToKernel(TARGETS[target], (build_contract,)))]).run(direct)
    assert structure(again.block) == structure(direct.block)


WIDE = TARGETS["x86-64-avx512"]
FAST = replace(WIDE, caches=(32 << 10, 64 << 10, 1 << 20))


@pytest.mark.parametrize("tile", [(1, 1), (4, 2), (6, 1), (3, 3)])
@pytest.mark.parametrize("constant", [False, True])
def test_another_tile_gives_the_same_result(tile: tuple[int, int], constant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a B that is packed while it is multiplied, too: its panels are as wide as the tile."""
    chosen: list[ContractSchedule] = []

    def build(request: Request) -> KernelPlan | None:
        product = find_with_halves(request)
        assert product is not None
        chosen.append(schedule_product(product, tile))
        build_contract.fits(product, chosen[-1])
        return build_contract.plan(product, chosen[-1])

    monkeypatch.setattr(products, "build_nchw_conv", build)
    case = Case(PLAIN, (131, 66), (66, 70), constant=constant)
    check_evaluated(*case.build(), f32, FAST)
    (schedule,) = chosen
    assert schedule.tile == tile and isinstance(schedule.packed, TileTasks if constant else BufferedTasks)


CONSTANT = Case(PLAIN, (64, 256), (256, 512), constant=True)
OWN = "gemm<sizes = 64x256x512, tile = 8x3, lanes = 16, packed = tiles<panels = packed, rows = 32>>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("64x256x512", "64x256x500"), "expected a schedule for sizes = 64x256x512 but got sizes = 64x256x500"),
        (("8x3", "99x3"), "expected a tile that 32 vector registers hold but got tile = 99x3"),
        (("8x3", "0x3"), "expected a tile that 32 vector registers hold but got tile = 0x3"),
        (("lanes = 16", "lanes = 8"), "expected a schedule like gemm<.*lanes = 16.*> for this product and machine but got"),
        (("lanes = 16", "lanes = 16, amx"), "expected a schedule like gemm<.*> for this product"),
        (("panels = packed, ", "panels = packed by each task, "), "expected a schedule like gemm<.*panels = packed, .*> for this product"),
        (("rows = 32", "rows = 0"), "expected a schedule like gemm<.*rows = 32.*> for this product"),
        (("rows = 32", "order = rows"), "expected a schedule like gemm<.*rows = 32.*> for this product"),
    ],
)
def test_a_schedule_that_does_not_fit_its_product_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(PolyremeError, match=message):
        kernels(CONSTANT, WIDE, OWN.replace(*change))


def test_how_rows_are_cut_may_be_said() -> None:
    own, (chosen,) = kernels(CONSTANT, WIDE)
    assert str(chosen) == OWN
    other, (chosen,) = kernels(CONSTANT, WIDE, OWN.replace("rows = 32", "rows = 16, order = rows, grain = 2"))
    assert isinstance(chosen, ContractSchedule) and chosen.packed == TileTasks("packed", rows=16, order="rows", grain=2)
    assert structure(own.block) != structure(other.block)


def test_dot_products_say_no_tile() -> None:
    _, (chosen,) = kernels(Case("mk,nk->mn", (8, 256), (512, 256)), WIDE)
    assert isinstance(chosen, ContractSchedule) and chosen.tile is None and isinstance(chosen.in_place, DotTasks)
    with pytest.raises(PolyremeError, match="expected a schedule like"):
        kernels(Case("mk,nk->mn", (8, 256), (512, 256)), WIDE, str(replace(chosen, tile=(2, 2))))
