"""The work of kernels: counts, rounds, conditions, and which cache data comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.types import BufferType, TensorType, f32
from polyreme.lowering.analysis.kernel_work import KernelWork, work_of
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.machines.cost import rates_of
from polyreme.lowering.machines.functions import OPERATIONS
from polyreme.lowering.machines.targets import TARGETS

TARGET = TARGETS["x86-64-avx512"]
L1, L2, _ = TARGET.caches
LANES = 16
CALL = rates_of(TARGET).call_cycles


def kernel_of(size: int, write: Callable[[Code, Func], None]) -> KernelWork:
    """The work of a kernel on a buffer of so many elements and one that it writes."""
    func = Func.empty("kernel", [BufferType((size,), f32)] * 2, arg_names=("x", "y"))
    code = Code(Builder.at_end(func.block))
    write(code, func)
    code.b.insert(Return([]))
    return work_of(func.finish(), TARGET)


@pytest.mark.parametrize(("rows", "lanes"), [(64, 64), (50, 100)])
def test_a_product_has_as_many_multiply_adds_as_it_is_large(rows: int, lanes: int) -> None:
    func = Func.empty("root", [TensorType((rows, 96), f32), TensorType((96, lanes), f32)])
    b = Builder.at_end(func.block)
    b(Return, [b(tensor.Contract, *func.args, spec="mk,kn->mn")])
    plan = build_contract(Request(func.finish(), TARGET, constant=frozenset([1])))
    assert plan is not None
    (step,) = plan.steps
    assert work_of(step.func, TARGET).work.multiply_adds == pytest.approx(rows * 96 * -(-lanes // LANES), rel=0.02)


@pytest.mark.parametrize("few", [0, 1, 25, 50, 99, 100])
def test_conditions_count_in_as_many_rounds_as_they_are_true(few: int) -> None:
    def write(code: Code, func: Func) -> None:
        x, y = func.args
        with code.loop(0, 100) as loop:
            with code.when(code.apply("lt", loop.iv, code.value(few))):
                code.store(code.load(x, loop.iv, 1), y, loop.iv)

    assert kernel_of(100, write).work.stores == pytest.approx(few, abs=1.6)


def test_bounds_that_depend_on_the_round_count_as_their_mean() -> None:
    def write(code: Code, func: Func) -> None:
        x, y = func.args
        with code.loop(0, 64) as outer, code.loop(0, outer.iv) as inner:
            code.store(code.load(x, inner.iv, 1), y, outer.iv)

    assert kernel_of(64, write).work.loads == pytest.approx(64 * 31.5, rel=0.05)


def passes(code: Code, func: Func, times: int) -> None:
    """Read all of x so many times."""
    x, y = func.args
    zero = code.zero(f32, LANES)
    with code.loop(0, times, [zero]) as outer:
        with code.loop(0, x.type.shape[0], [outer.carried[0]], step=LANES) as loop:
            loop.next = [code.apply("add", loop.carried[0], code.load(x, loop.iv, LANES))]
        outer.next = [loop.results[0]]
    code.store(outer.results[0], y, 0)


def test_what_fits_into_a_cache_stays_there() -> None:
    small = kernel_of(L1 // 16, lambda code, func: passes(code, func, 5))
    assert (small.traffic.l2, small.traffic.l3, small.traffic.memory) == (0, 0, 0)


def test_what_does_not_fit_comes_again_each_time() -> None:
    larger = kernel_of(L1, lambda code, func: passes(code, func, 5))
    assert larger.traffic.l2 == pytest.approx(5 * 4 * L1, rel=0.01) and larger.traffic.l3 == 0
    largest = kernel_of(L2, lambda code, func: passes(code, func, 3))
    assert largest.traffic.l3 == pytest.approx(3 * 4 * L2, rel=0.01)


def test_windows_share_what_they_have_in_common() -> None:
    def taps(code: Code, func: Func) -> None:
        x, y = func.args
        with code.loop(0, 2 * L1 // 64 - 2) as row, code.loop(0, 64, step=LANES) as loop:
            at = code.add(code.mul(row.iv, 64), loop.iv)
            read = [code.load(x, code.add(at, 64 * down + right), LANES) for down in range(3) for right in range(3)]
            code.store(code.apply("add", read[0], read[-1]), y, at)

    # Each of both buffers once, not nine times.
    assert kernel_of(2 * L1, taps).traffic.l2 == pytest.approx(2 * 4 * 2 * L1, rel=0.05)


def test_single_elements_come_by_lines() -> None:
    def column(code: Code, func: Func) -> None:
        x, y = func.args
        with code.loop(0, 64) as outer, code.loop(0, L1 // 64) as loop:
            code.store(code.load(x, code.add(code.mul(loop.iv, 64), outer.iv), 1), y, 0)

    assert kernel_of(L1, column).traffic.l2 == pytest.approx(64 * L1 // 64 * TARGET.line_bytes, rel=0.05)


def test_rows_and_columns_of_a_number_are_where_the_number_is() -> None:
    def tasks(code: Code, func: Func) -> None:
        x, y = func.args
        with code.parallel(code.value(L1 // 8)) as flat:
            row, column = code.split(flat, [L1 // 64, 8])
            at = code.add(code.mul(row, 64), code.mul(column, 8))
            code.store(code.load(x, at, LANES), y, at)

    # Vectors overlap by half.
    assert kernel_of(L1, tasks).traffic.l2 == pytest.approx(2 * 4 * L1, rel=0.01)


def test_bounds_that_matter_at_an_edge_hide_no_overlap() -> None:
    rows = L1 // 64

    def clipped(code: Code, func: Func) -> None:
        x, y = func.args
        with code.loop(0, rows) as row:
            low = code.apply("max", code.sub(1, row.iv), code.value(0))
            with code.loop(low, 3) as tap, code.loop(0, 64, step=LANES) as loop:
                at = code.add(code.mul(code.add(row.iv, tap.iv), 64), loop.iv)
                code.store(code.load(x, at, LANES), y, 0)

    assert kernel_of(L1 + 128, clipped).traffic.l2 == pytest.approx(4 * L1, rel=0.02)


@pytest.mark.parametrize(("halves", "count"), [(False, 1000), (True, 500)])
def test_half_a_vector_is_half_the_work_where_vectors_are_computed_as_halves(halves: bool, count: int) -> None:
    def adds(code: Code, func: Func) -> None:
        x = code.load(func.args[0], 0, LANES // 2)
        with code.loop(0, 1000) as loop:
            code.store(x, func.args[1], code.mul(loop.iv, 0))

    func = Func.empty("kernel", [BufferType((LANES,), f32)] * 2)
    code = Code(Builder.at_end(func.block))
    adds(code, func)
    code.b.insert(Return([]))
    assert work_of(func.finish(), replace(TARGET, half_width_vectors=halves)).work.stores == count


def test_functions_are_the_multiply_adds_of_their_polynomials() -> None:
    def functions(code: Code, func: Func) -> None:
        x, y = func.args
        code.store(code.apply("exp", code.load(x, 0, LANES)), y, 0)
        code.store(code.apply("div", code.load(x, 0, LANES), code.load(x, 0, LANES)), y, 0)

    work = kernel_of(LANES, functions).work
    assert (work.multiply_adds, work.arithmetic) == (OPERATIONS["exp"], OPERATIONS["div"])


def test_what_waits_for_the_round_before_takes_its_latency() -> None:
    def chain(code: Code, func: Func) -> None:
        x = code.load(func.args[0], 0, 1)
        with code.loop(0, 1000, [x]) as loop:
            loop.next = [code.fma(x, x, loop.carried[0])]
        code.store(loop.results[0], func.args[1], 0)

    assert kernel_of(1, chain).cycles - CALL == pytest.approx(4000, rel=0.01)


@pytest.mark.parametrize(("rounds", "least", "most"), [(10, 0.0, 0.3), (100, 0.3, 0.6), (10_000, 0.95, 1.0)])
def test_short_chains_overlap_with_those_that_come_after_and_do_not_wait_for_them(rounds: int, least: float, most: float) -> None:
    def chains(code: Code, func: Func) -> None:
        x = code.load(func.args[0], 0, 1)
        with code.loop(0, 100) as outer:
            with code.loop(0, rounds, [x]) as loop:
                loop.next = [code.fma(x, x, loop.carried[0])]
            code.store(loop.results[0], func.args[1], outer.iv)

    assert least < (kernel_of(100, chains).cycles - CALL) / (100 * rounds * 4) < most


def test_a_chain_that_goes_on_through_an_outer_loop_waits_all_the_way() -> None:
    def chain(code: Code, func: Func) -> None:
        x = code.load(func.args[0], 0, 1)
        with code.loop(0, 100, [x]) as outer:
            with code.loop(0, 10, outer.carried) as loop:
                loop.next = [code.fma(x, x, loop.carried[0])]
            outer.next = loop.results
        code.store(outer.results[0], func.args[1], 0)

    assert kernel_of(1, chain).cycles - CALL == pytest.approx(4000, rel=0.01)


@pytest.mark.parametrize(("apart", "crowded"), [(1024, True), (1024 + 16, False)])
def test_lines_a_power_of_two_apart_drive_each_other_out_of_l1(apart: int, crowded: bool) -> None:
    def sums(code: Code, func: Func) -> None:
        zero = code.zero(f32, LANES)
        with code.loop(0, apart, step=LANES) as column:
            with code.loop(0, 64, [zero]) as row:
                row.next = [code.apply("add", row.carried[0], code.load(func.args[0], code.add(code.mul(row.iv, apart), column.iv), LANES))]
            code.store(row.results[0], func.args[1], column.iv)

    work = kernel_of(64 * apart, sums)
    assert work.traffic.crowded == pytest.approx(64 * apart * 4 if crowded else 0, rel=0.1)


def test_independent_multiply_adds_do_not_wait() -> None:
    def chains(code: Code, func: Func) -> None:
        x = code.load(func.args[0], 0, LANES)
        with code.loop(0, 1000, [x] * 12) as loop:
            loop.next = [code.fma(x, x, acc) for acc in loop.carried]
        for acc in loop.results:
            code.store(acc, func.args[1], 0)

    assert kernel_of(LANES, chains).cycles - CALL == pytest.approx(12 * 1000 / TARGET.multiply_adds, rel=0.01)


def test_work_prints_what_there_is_of_it() -> None:
    told = str(kernel_of(L1, lambda code, func: passes(code, func, 2)))
    assert told.startswith("work<arithmetic = ") and "loads = " in told and "traffic<l2 = " in told and told.endswith(" cycles")
    assert "l3" not in told and "shuffles" not in told
