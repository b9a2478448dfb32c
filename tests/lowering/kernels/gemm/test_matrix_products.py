"""Matrix products: every way of reading B, every kind of spec, odd sizes, empty ones and sizes that are known at run time only."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.text import print_module
from polyreme.ir.types import ScalarType, TensorType, f32, f64, i32
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import split_llvm
from polyreme.lowering.kernels.gemm.contract import build_contract, find_with_halves
from polyreme.lowering.kernels.gemm.contract_schedule import rank_schedules
from polyreme.lowering.kernels.gemm.product_schedule import ContractSchedule, TileTasks
from polyreme.lowering.kernels.microkernel import Axis, Registers, choose_tile, join_axes, streams_of_row, vectors_of_row
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from tests.lowering import products
from tests.lowering.products import assert_close, check_evaluated, check_native, root_of, run_native, to_kernels

N = symbol("N")


@dataclass(frozen=True)
class Case:
    """A contract of operands of these shapes; sizes called N are `n` at run time."""

    spec: str
    a: tuple[Dim, ...]
    b: tuple[Dim, ...]
    constant: bool = False
    dtype: ScalarType = f32
    n: int = 5
    tail: bool = False

    def __str__(self) -> str:
        flags = f"{' constant' * self.constant}{' tail' * self.tail}"
        return f"{self.spec} {list(self.a)} {list(self.b)} {self.dtype} N={self.n}{flags}"

    def build(self) -> tuple[Any, list[Any], Any]:
        """The module, its inputs, and the expected result in float64."""
        rng = np.random.default_rng(7)

        def array(shape: tuple[Dim, ...]) -> Any:
            known = [d if isinstance(d, int) else self.n for d in shape]
            values = rng.integers(-9, 9, known) if self.dtype.is_integer else rng.standard_normal(known)
            return values.astype(self.dtype.np)

        a, b = array(self.a), array(self.b)
        wide = np.float64 if self.dtype.is_float else np.int64
        expected = np.einsum(self.spec, a.astype(wide), b.astype(wide))
        types = [TensorType(self.a, self.dtype)]
        inputs, constants = [a], []
        (constants if self.constant else inputs).append(b)
        if not self.constant:
            types.append(TensorType(self.b, self.dtype))
        out = self.spec.split("->")[1]
        sizes = tensor.ContractSpec(self.spec).sizes(self.a, self.b)
        if self.tail:
            bias = array((1,) * (len(out) - 1) + (sizes[out[-1]],))
            whole = array(tuple(sizes[c] for c in out))
            expected = np.maximum(expected + bias, 0) * whole
            types += [
                TensorType((1,) * (len(out) - 1) + (sizes[out[-1]],), self.dtype),
                TensorType(tuple(sizes[c] for c in out), self.dtype),
            ]
            inputs += [bias, whole]

        def make(b: Any, *args: Any) -> Any:
            args = (args[0], args[-1], *args[1:-1]) if self.constant else args
            y = b(tensor.Contract, args[0], args[1], spec=self.spec)
            if self.tail:
                y = b(tensor.Map, y, args[2], fn="add")
                y = b(tensor.Map, y, b(tensor.Full, value=0.0, shape=(), dtype=self.dtype), fn="max")
                y = b(tensor.Map, y, args[3], fn="mul")
            return y

        return root_of(types, make, constants), inputs, expected


ORDINARY = [
    *(
        Case("mk,kn->mn", (m, k), (k, n), constant)
        for m, k, n in [(1, 1, 1), (1, 7, 33), (17, 23, 50), (9, 64, 48), (25, 5, 16), (3, 130, 7)]
        for constant in (False, True)
    ),
    *(Case("mk,nk->mn", (m, k), (n, k)) for m, k, n in [(1, 40, 19), (3, 17, 8), (8, 16, 5), (30, 37, 21), (5, 3, 9)]),
    *(Case("km,kn->mn", (k, m), (k, n)) for m, k, n in [(19, 21, 18), (5, 1, 33), (2, 100, 3)]),
    Case("km,nk->mn", (20, 18), (35, 20)),
    Case("mk,kn->nm", (7, 20), (20, 19), True),
    Case("mk,k->m", (21, 40), (40,)),
    Case("k,kn->n", (21,), (21, 40)),
    Case("k,kn->n", (21,), (21, 40), True),
    Case("m,n->mn", (5,), (20,)),
    Case("k,k->", (33,), (33,)),
    Case("bmk,bkn->bmn", (3, 5, 7), (3, 7, 18)),
    Case("bmk,bnk->bmn", (3, 20, 17), (3, 18, 17)),
    Case("bmk,kn->bmn", (3, 5, 7), (7, 18), True),
    Case("mbk,kbn->bmn", (4, 3, 9), (9, 3, 20)),
    Case("abmk,bkn->abmn", (2, 3, 4, 5), (3, 5, 17), True),
    Case("mkl,lkn->mn", (6, 4, 5), (5, 4, 20), True),
    Case("mkl,kln->mn", (18, 4, 40), (4, 40, 20)),
    Case("abk,kcd->acbd", (3, 4, 5), (5, 2, 20)),
    Case("bk,bk->b", (6, 40), (6, 40)),
    Case("bn,b->bn", (6, 40), (6,)),
]
SYMBOLIC = [
    *(Case("mk,kn->mn", (N, 23), (23, 50), True, n=n) for n in (0, 1, 2, 3, 8, 13, 70)),
    *(Case("mk,kn->mn", (N, 23), (23, 50), n=n) for n in (0, 1, 47, 48, 60)),
    *(Case("mk,nk->mn", (N, 23), (20, 23), n=n) for n in (0, 1, 31, 32, 40)),
    *(Case("km,kn->mn", (N, 23), (N, 50), n=n) for n in (0, 1, 6, 13)),
    *(Case("mk,kn->mn", (17, 23), (23, N), n=n) for n in (0, 1, 48, 100)),
    *(Case("mk,nk->mn", (3, 23), (N, 23), n=n) for n in (0, 1, 3, 30)),
    Case("bmk,bkn->bmn", (N, 5, 7), (N, 7, 18), n=4),
    Case("mk,kn->mn", (N, N), (N, N), n=19),
]
EMPTY = [
    Case("mk,kn->mn", (0, 3), (3, 4)),
    Case("mk,kn->mn", (3, 0), (0, 4)),
    Case("mk,kn->mn", (3, 2), (2, 0)),
    Case("bk,bk->b", (0, 4), (0, 4)),
]
TAILS = [
    Case(c.spec, c.a, c.b, c.constant, c.dtype, c.n, tail=True)
    for c in (*ORDINARY[2:6:2], ORDINARY[12], ORDINARY[14], ORDINARY[21], ORDINARY[27], *SYMBOLIC[:4])
]
HALVES = [
    *(
        Case("mk,kn->mn", (m, k), (k, n), True, tail=tail)
        for m, k, n, tail in [(13, 7, 24, True), (30, 33, 40, False), (66, 50, 120, True), (16, 144, 24, True)]
    ),
    Case("mk,nk->mn", (20, 9), (12, 9), True, f64, tail=True),
]
OTHER_TYPES = [
    Case(c.spec, c.a, c.b, c.constant, t, c.n) for c in (ORDINARY[4], ORDINARY[12], ORDINARY[21], SYMBOLIC[5]) for t in (f64, i32)
]


@pytest.mark.parametrize("case", [*ORDINARY, *SYMBOLIC, *EMPTY, *TAILS, *HALVES, *OTHER_TYPES], ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    module, inputs, expected = case.build()
    check_native(module, inputs, expected, f64 if case.dtype == i32 else case.dtype)


@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64-avx2", "aarch64"])
@pytest.mark.parametrize(
    "case", [*ORDINARY[2:8], *ORDINARY[12:16], ORDINARY[21], *SYMBOLIC[3:6], *EMPTY[:2], *TAILS[:3], *HALVES[:2], HALVES[4]], ids=str
)
def test_kernels_of_each_target_agree_on_numpy(case: Case, target: str) -> None:
    module, inputs, expected = case.build()
    check_evaluated(module, inputs, expected, case.dtype, TARGETS[target])


@pytest.mark.parametrize("half_width_vectors", [False, True])
@pytest.mark.parametrize("case", HALVES, ids=str)
def test_rows_that_end_with_half_a_vector_agree_with_float64_on_machines_of_both_kinds(case: Case, half_width_vectors: bool) -> None:
    module, inputs, expected = case.build()
    check_native(module, inputs, expected, case.dtype, replace(host(), half_width_vectors=half_width_vectors))


@pytest.mark.parametrize(("m", "n", "lanes"), [(36, 24, 8), (36, 120, 8), (36, 28, 16), (36, 16, 16), (36, 264, 16), (1, 24, 16)])
def test_vectors_are_halves_where_these_take_half_as_long_and_whole_ones_would_end_half_empty(m: int, n: int, lanes: int) -> None:
    module, _, _ = Case("mk,kn->mn", (m, 50), (50, n), True).build()
    kernels, _ = to_kernels(module, replace(TARGETS["x86-64-avx512"], half_width_vectors=True))
    assert {op.result.type.lanes for op in kernels.walk() if isinstance(op, kernel.Fma)} == {lanes}


@pytest.mark.parametrize(("half_width_vectors", "sums"), [(False, 3), (True, 2)])
def test_the_first_step_of_a_short_sum_is_a_product_where_adding_it_to_zero_would_take_longer(half_width_vectors: bool, sums: int) -> None:
    module, _, _ = Case("mk,kn->mn", (4, 3), (3, 16), True).build()
    kernels, _ = to_kernels(module, replace(TARGETS["x86-64-avx512"], half_width_vectors=half_width_vectors))
    assert sum(isinstance(op, kernel.Fma) for op in kernels.walk()) == 4 * sums


@pytest.mark.parametrize("n", [24, 40, 56])
@pytest.mark.parametrize("half_width_vectors", [False, True])
def test_half_vectors_that_two_rows_share_give_the_bits_of_whole_ones(n: int, half_width_vectors: bool) -> None:
    target = replace(host(), half_width_vectors=half_width_vectors)
    case = Case("mk,kn->mn", (36, 31), (31, n + 8), True)
    module, inputs, _ = case.build()
    half, _, _ = Case("mk,kn->mn", (36, 31), (31, n), True).build()
    columns = module.function().block.ops[0].value.array[:, :n]
    constant = half.function().block.ops[0]
    constant.replace_with(Builder.before_op(constant)(tensor.Constant, value=np.ascontiguousarray(columns)))
    np.testing.assert_array_equal(run_native(half, inputs, target)[0][0], run_native(module, inputs, target)[0][0][:, :n])


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        *((64, 64, 64), (128, 784, 512), (130, 300, 121), (1, 784, 512)),
        *((1, 2049, 10), (257, 33, 1000), (150, 4099, 100), (33, 5000, 40)),
    ],
    ids=str,
)
def test_large_products_are_equal_on_one_and_two_threads(m: int, k: int, n: int) -> None:
    for constant in (False, True):
        module, inputs, expected = Case("mk,kn->mn", (m, k), (k, n), constant).build()
        check_native(module, inputs, expected, f32)


@pytest.mark.parametrize(
    ("spec", "a", "b"),
    [
        ("mk,kn->mn", (3079, 20), (20, 150)),
        ("mk,kn->mn", (3072, 5), (5, 50)),
        ("mk,kn->mn", (3100, 4200), (4200, 17)),
        ("bmk,bkn->bmn", (2, 3073, 9), (2, 9, 70)),
    ],
    ids=str,
)
def test_many_rows_are_made_piece_by_piece_with_all_their_lanes(spec: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for tail in (False, True):
        module, inputs, expected = Case(spec, a, b, True, tail=tail).build()
        check_native(module, inputs, expected, f32)


def _kind(schedule: ContractSchedule) -> tuple[object, ...]:
    """How B is read, whether steps are in blocks, and what tasks share."""
    tasks = schedule.packed or schedule.in_place
    return type(tasks), *(getattr(tasks, name, None) for name in ("panels", "order")), getattr(tasks, "steps", None) is None


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize(
    "case",
    [
        Case("mk,kn->mn", (203, 10), (10, 150), True, tail=True), Case("mk,kn->mn", (203, 70), (70, 150), tail=True),
        Case("mk,nk->mn", (49, 70), (150, 70)), Case("bmk,bkn->bmn", (3, 9, 150), (3, 150, 31)), Case("km,kn->mn", (100, 60), (100, 70)),
    ],
    ids=str,
)  # fmt: skip
def test_every_candidate_agrees_with_float64(case: Case, dtype: ScalarType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kind the one that is thought to be the fastest, on a machine with caches that these products exceed."""
    number, count, target = 0, 1, replace(host(), caches=(8 << 10, 64 << 10, 1 << 20))

    def build(request: Request) -> KernelPlan | None:
        nonlocal count
        found = find_with_halves(request)
        assert found is not None
        kinds: dict[object, ContractSchedule] = {}
        for schedule in rank_schedules(found):
            kinds.setdefault(_kind(schedule), schedule)
        every = list(kinds.values())
        count = len(every)
        return build_contract.plan(found, every[number])

    monkeypatch.setattr(products, "build_nchw_conv", build)
    while number < count:
        check_native(*replace(case, dtype=dtype).build(), dtype, target)
        number += 1
    assert count > 2


@pytest.mark.parametrize("target", ["x86-64-avx2", "x86-64-avx512"])
def test_blocks_that_stay_in_l1_are_cut_along_one_letter_of_b_only(target: str) -> None:
    module, inputs, expected = Case("mkl,lkn->mn", (49, 7, 10), (10, 7, 150)).build()
    slow = replace(TARGETS[target], caches=(8 << 10, 64 << 10, 16 << 20), l3_bytes_per_cycle=9.5)
    check_evaluated(module, inputs, expected, f32, slow)


@pytest.mark.parametrize(("m", "k", "n"), [(100, 4099, 70), (61, 3000, 31), (48, 2600, 32)], ids=str)
def test_long_sums_whose_steps_are_neighbours_in_both_operands_are_transposed_block_by_block(m: int, k: int, n: int) -> None:
    module, inputs, expected = Case("mk,nk->mn", (m, k), (n, k), tail=True).build()
    check_native(module, inputs, expected, f32)


@pytest.mark.parametrize(("m", "n"), [(64, 128), (130, 512)], ids=str)
def test_an_operand_whose_steps_are_neighbours_is_transposed_into_panels(m: int, n: int) -> None:
    module, inputs, expected = Case("mk,nk->mn", (m, 130), (n, 130), tail=True).build()
    check_native(module, inputs, expected, f32)


@pytest.mark.parametrize(("k", "n", "asks"), [(1030, 777, True), (200, 777, False)])
def test_one_row_prefetches_weights_that_exceed_l2(k: int, n: int, asks: bool) -> None:
    module, inputs, expected = Case("mk,kn->mn", (1, k), (k, n), True).build()
    check_native(module, inputs, expected, f32)
    lowered, _ = to_kernels(module, TARGETS["x86-64-avx512"])
    assert any(isinstance(op, kernel.Prefetch) for op in lowered.walk()) == asks


def test_one_row_does_not_prefetch_where_the_hardware_does() -> None:
    module, _, _ = Case("mk,kn->mn", (1, 1030), (1030, 777), True).build()
    lowered, _ = to_kernels(module, replace(TARGETS["x86-64-avx512"], hardware_prefetch=True))
    assert not any(isinstance(op, kernel.Prefetch) for op in lowered.walk())


@pytest.mark.parametrize(
    "case",
    [
        Case("mk,kn->mn", (1, 130), (130, 512), True), Case("mk,kn->mn", (1, 131), (131, 777), True),
        Case("mk,kn->mn", (1, 130), (130, 40), True),
        Case("mk,nk->mn", (1, 130), (130, 130), True), Case("bmk,bkn->bmn", (3, 1, 70), (3, 70, 145), True),
        Case("mk,kn->mn", (1, 130), (130, 300), True, f64),
        Case("mk,kn->mn", (1, 131), (131, 777), True, tail=True),
    ],
    ids=str,
)  # fmt: skip
def test_one_row_reads_weights_beyond_l2_in_streams(case: Case) -> None:
    """Each vector of a tile has a panel of its own, and the same results to the bit."""
    module, inputs, expected = case.build()
    one = replace(host(), caches=(1 << 10, 16 << 10, 1 << 20), memory_streams=1)
    streams = replace(one, memory_streams=8)
    check_native(module, inputs, expected, case.dtype, streams)
    np.testing.assert_array_equal(run_native(module, inputs, one)[0][0], run_native(module, inputs, streams)[0][0])


@pytest.mark.parametrize(
    ("m", "n", "kilobytes", "alternates"),
    [
        (1, 777, 256, True),
        (N, 777, 256, True),
        (32, 777, 96, True),
        (33, 777, 256, False),
        (1, 777, 2048, False),
        (1, 777, 72, True),
        (1, 300, 256, False),
    ],
)
def test_calls_go_through_weights_to_and_fro_where_the_second_level_cache_holds_a_part_of_them(
    m: Dim, n: int, kilobytes: int, alternates: bool
) -> None:
    """Forwards and backwards they give the same bits, on one thread and two."""
    module, inputs, expected = Case("mk,kn->mn", (m, 131), (131, n), True, n=3).build()
    target = replace(host(), caches=(1 << 10, kilobytes << 10, 1 << 20))
    lowered, _ = to_kernels(module, target)
    assert any(isinstance(op, kernel.Alternate) for op in lowered.walk()) == alternates
    check_evaluated(module, inputs, expected, f32, target)
    (first,), *others = run_native(module, inputs, target, threads=(1, 1, 2, 1, 2))
    assert_close(first, expected, f32)
    for (other,) in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize(("k", "n", "streams"), [(130, 512, True), (63, 1024, False), (130, 100, False)])
def test_streams_are_of_weights_beyond_l2_and_pages_apart(k: int, n: int, streams: bool) -> None:
    """Not where the second-level cache holds them all, and not where two streams would share a page."""
    module, _, _ = Case("mk,kn->mn", (1, k), (k, n), True).build()
    target = replace(TARGETS["x86-64-avx512"], caches=(1 << 10, 64 << 10, 1 << 20), hardware_prefetch=True)
    several, single = (
        re.sub(r"contract_\w+", "", print_module(to_kernels(module, replace(target, memory_streams=count))[0])) for count in (8, 1)
    )
    assert (several != single) == streams


@pytest.mark.parametrize(("n", "asks"), [(400, [True, False, False]), (777, [True, True, False])])
def test_one_row_asks_for_no_weights_that_the_caches_of_its_threads_nearly_hold(n: int, asks: list[bool]) -> None:
    """With 1, 2 and 4 threads, by the condition that the kernel asks under."""
    module, _, _ = Case("mk,kn->mn", (1, 1030), (1030, n), True).build()
    lowered, _ = to_kernels(module, TARGETS["x86-64-avx512"])
    guards = [op for op in lowered.walk() if isinstance(op, kernel.If) and any(isinstance(x, kernel.Prefetch) for x in op.then_body.block)]
    assert guards
    for guard in guards:
        test = guard.condition.producer(kernel.Apply)
        assert test is not None and test.fn == "lt"
        needed, there = (v.producer(kernel.Apply) or v.producer(kernel.Constant) for v in test.operands)
        assert needed.operands[0].producer(kernel.Threads) is not None
        per_thread = needed.operands[1].producer(kernel.Constant).value
        assert [threads * per_thread < there.value for threads in (1, 2, 4)] == asks


@pytest.mark.parametrize("m", [3100, 3333])
@pytest.mark.parametrize(("k", "spec"), [(64, "mk,kn->mn"), (75, "mk,kn->mn"), (64, "km,kn->mn")])
def test_tiles_prefetch_the_next_rows_where_these_come_from_l3(m: int, k: int, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first panel is multiplied: the others find them in the second-level cache, which holds all rows where it is larger. Only
    lines of steps are asked for.
    """
    module, inputs, expected = Case(spec, (m, k) if spec[0] == "m" else (k, m), (k, 130), True, tail=True).build()
    near, far = (replace(host(), caches=(1 << 10, size, 1 << 30), bf16_terms=False) for size in (8 << 20, 64 << 10))

    def build(request: Request) -> KernelPlan | None:
        """By tasks that have all panels, if there are such."""
        found = find_with_halves(request)
        assert found is not None
        ranked = rank_schedules(found)
        by_rows = (s for s in ranked if isinstance(s.packed, TileTasks) and s.packed.order == "rows" and s.packed.steps is None)
        return build_contract.plan(found, next(by_rows, ranked[0]))

    monkeypatch.setattr(products, "build_nchw_conv", build)
    for target in (near, far):
        check_native(module, inputs, expected, f32, target)
    np.testing.assert_array_equal(run_native(module, inputs, near)[0][0], run_native(module, inputs, far)[0][0])
    asked = []
    for target in (near, far):
        lowered, _ = to_kernels(module, replace(TARGETS["x86-64-avx512"], caches=target.caches))
        lefts = [op for op in lowered.walk() if isinstance(op, kernel.Prefetch) and op.buffer.type.shape in ((m, k), (k, m))]
        asked.append(bool(lefts))
        guards = [
            op.condition.producer(kernel.Apply)
            for op in lowered.walk()
            if isinstance(op, kernel.If) and any(x in lefts for x in op.then_body.block)
        ]
        assert bool(guards) == bool(lefts) and all(test.fn == "eq" for test in guards)
    assert asked == [False, spec[0] == "m"]


@pytest.mark.parametrize("n", [0, 1, 50, 200])
def test_long_sums_in_blocks_take_a_free_number_of_rows(n: int) -> None:
    module, inputs, expected = Case("mk,kn->mn", (N, 4100), (4100, 60), True, n=n).build()
    check_native(module, inputs, expected, f32)


@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn"])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 33, 48, 63, 100])
def test_a_free_number_of_lanes_is_right_whatever_rest_it_leaves(spec: str, n: int) -> None:
    module, inputs, expected = Case(spec, (9, 23), (23, N) if spec.endswith("kn->mn") else (N, 23), tail=True, n=n).build()
    check_native(module, inputs, expected, f32)


@pytest.mark.parametrize("n", [0, 1, 5, 6, 7, 11, 12, 13, 31])
def test_few_rows_and_columns_of_unknown_number_are_dot_products_that_touch_nothing_else(n: int) -> None:
    module, inputs, expected = Case("mk,nk->mn", (N, 23), (N, 23), tail=True, n=n).build()
    check_evaluated(module, inputs, expected, f32, TARGETS["x86-64-avx512"])
    if n in (7, 13):
        check_native(module, inputs, expected, f32)
        lowered, _ = to_kernels(module, TARGETS["x86-64-avx512"])
        assert "kernel.reduce" in print_module(lowered)


def test_a_constant_is_packed_ahead_of_time_and_a_transposed_one_too() -> None:
    for spec, shape in (("mk,kn->mn", (23, 50)), ("mk,nk->mn", (50, 23))):
        module, _, _ = Case(spec, (17, 23), shape, constant=True).build()
        lowered, builders = to_kernels(module, host())
        assert builders == ["contract"]
        names = [f.sym_name for f in lowered.functions]
        assert not any(name.startswith("pack") for name in names), names


def test_few_rows_are_not_worth_a_packing() -> None:
    for spec, shape, builder in (("mk,kn->mn", (64, 50), "contract"), ("mk,nk->mn", (50, 64), "dot")):
        lowered, _ = to_kernels(Case(spec, (2, 64), shape).build()[0], host())
        names = [f.sym_name.split("_")[0] for f in lowered.functions if f.sym_name != "main"]
        assert names == [builder]


def test_views_of_operands_are_read_in_place() -> None:
    """A transposed, cut and reversed operand needs no copy."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((30, 40)).astype(np.float32), rng.standard_normal((4, 10, 25)).astype(np.float32)

    def make(build: Any, x: Any, y: Any) -> Any:
        x = build(tensor.Slice, x, starts=(2, 0), stops=(22, 40), strides=(2, 1))
        x = build(tensor.Reverse, x, axes=(1,))
        y = build(tensor.Reshape, y, shape=(40, 25))
        return build(tensor.Contract, x, y, spec="mk,kn->mn")

    module = root_of([TensorType(a.shape, f32), TensorType(b.shape, f32)], make)
    expected = a[2:22:2, ::-1].astype(np.float64) @ b.reshape(40, 25)
    check_native(module, [a, b], expected, f32)
    lowered, _ = to_kernels(module, host())
    assert len(list(lowered.functions)) == 2


@pytest.mark.parametrize(("sentences", "words"), [(1, 30), (30, 1), (5, 5), (3, 70), (0, 4), (4, 0)])
@pytest.mark.parametrize("constant", [True, False])
def test_words_of_free_sentences_are_rows_of_tiles_along_the_longer_letter(sentences: int, words: int, constant: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((sentences, words, 24)).astype(np.float32), rng.standard_normal((24, 40)).astype(np.float32)

    def make(build: Any, x: Any, y: Any) -> Any:
        return build(tensor.Contract, build(tensor.Transpose, x, perm=(1, 0, 2)), y, spec="amk,kn->amn")

    free = TensorType((N, symbol("S"), 24), f32)
    module = root_of([free] if constant else [free, TensorType(b.shape, f32)], make, [b] if constant else [])
    expected = a.transpose(1, 0, 2).astype(np.float64) @ b
    check_native(module, [a] if constant else [a, b], expected, f32)
    check_evaluated(module, [a] if constant else [a, b], expected, f32, TARGETS["x86-64-avx2"])


def test_rows_along_two_free_letters_are_chosen_by_their_number() -> None:
    x = TensorType((N, symbol("S"), 24), f32)
    y = np.ones((24, 40), np.float32)

    def schedule(*ops: Any) -> str:
        def make(build: Any, x: Any, y: Any) -> Any:
            for op, attributes in ops:
                x = build(op, x, **attributes)
            return build(tensor.Contract, x, y, spec="amk,kn->amn")

        recorder: list[str] = []
        module = root_of([x], make, [y])

        def note(request: Request) -> Any:
            plan = build_contract(request)
            assert plan is not None
            recorder.append(plan.schedule)
            return plan

        PassManager([Stage("kernel", TensorToKernel(host(), (note,)))]).run(module.clone())
        return recorder[0]

    assert "rows_by_size" in schedule((tensor.Transpose, {"perm": (1, 0, 2)}))
    assert "rows_by_size" not in schedule(), "the rows of all sentences are one"


def test_nan_and_infinity_pass_through() -> None:
    module, (a,), _ = Case("mk,kn->mn", (9, 20), (20, 33), constant=True).build()
    a[4, 3], a[7, 0] = np.nan, np.inf
    (got,), _ = run_native(module, [a])
    assert np.isnan(got[4]).all()
    assert not np.isfinite(got[7]).any()
    assert np.isfinite(got[[0, 1, 2, 3, 5, 6, 8]]).all()


def test_integers_and_two_contracts_are_left_to_the_loops() -> None:
    module, inputs, expected = Case("mk,kn->mn", (5, 6), (6, 7), dtype=i32).build()
    assert to_kernels(module, host())[1] == ["loops"]

    def make(b: Any, x: Any, y: Any) -> Any:
        return b(tensor.Contract, b(tensor.Contract, x, y, spec="mk,kn->mn"), y, spec="mn,kn->mk")

    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Return

    func = Func.empty("root", [TensorType((5, 6), f32), TensorType((6, 7), f32)])
    b = Builder.at_end(func.block)
    b.insert(Return([make(b, *func.args)]))
    assert build_contract(Request(func.finish(), host())) is None


@pytest.mark.parametrize(("m", "k", "n"), [(196, 256, 1024), (3136, 64, 256), (49, 512, 2048)])
def test_tiles_that_prefetch_two_lines_in_a_round_stay_in_registers(m: int, k: int, n: int) -> None:
    """Products with a residual, and weights that come from far, ask for both beside their steps; the sums have 24 of 32 registers."""
    target = replace(TARGETS["x86-64-avx512"], spare_adders=False, caches=(48 << 10, 2 << 20, 260 << 20))

    def make(b: Any, x: Any, residual: Any, w: Any) -> Any:
        return b(tensor.Map, b(tensor.Contract, x, w, spec="mk,kn->mn"), residual, fn="add")

    module = root_of([TensorType((m, k), f32), TensorType((m, n), f32)], make, [np.ones((k, n), np.float32)])
    made, _ = to_kernels(module, target)
    assert print_module(made).count("kernel.prefetch") >= 2
    outline_constants(made)
    (text,) = (
        assembly(part.text(), target, part.reduce)
        for part in split_llvm(made, target)
        if any(f.sym_name.startswith("contract") for f in part.functions)
    )
    assert text.count("vfmadd") >= 24
    # What came before a part of a long sum waits on the stack, but no loop of steps reads from there.
    blocks = re.split(r"^\.?\w+:|^\tj\w+", text, flags=re.MULTILINE)
    assert not [line for block in blocks if "vfmadd" in block for line in block.splitlines() if "zmm" in line and "(%rsp)" in line]


def test_axes_join_only_when_both_operands_move_alike() -> None:
    assert join_axes([Axis(3, 20, 40), Axis(4, 5, 10), Axis(1, 7, 7)]) == [Axis(12, 5, 10)]
    assert join_axes([Axis(3, 20, 50), Axis(4, 5, 10)]) == [Axis(3, 20, 50), Axis(4, 5, 10)]


@pytest.mark.parametrize(("vectors", "wide"), [(1, 1), (3, 3), (32, 4), (48, 6), (192, 6), (256, 4)])
def test_two_threads_share_the_panels_of_one_row_evenly(vectors: int, wide: int) -> None:
    assert vectors_of_row(vectors) == wide
    assert wide == vectors or vectors % (2 * wide) == 0


@pytest.mark.parametrize(("vectors", "wide"), [(5, 5), (6, 6), (32, 8), (48, 8), (28, 7), (3142, 8)])
def test_one_row_is_read_in_about_eight_streams(vectors: int, wide: int) -> None:
    assert streams_of_row(vectors, 8) == wide


@pytest.mark.parametrize("registers", [Registers(32, 16), Registers(16, 8), Registers(32, 4), Registers(16, 4), Registers(32, 1)])
def test_a_tile_fits_the_registers(registers: Registers) -> None:
    for m in (1, 2, 7, 100, 1000):
        for n in (1, 10, 48, 512):
            rows, vectors = choose_tile(m, n, 64, registers)
            assert 1 <= rows <= m
            assert rows * vectors + vectors + 1 <= registers.count


def test_loads_decide_between_tiles_that_are_otherwise_as_good() -> None:
    dear = replace(TARGETS["x86-64-avx512"], load_cycles=0.01)
    free, counted = (Registers.of(target, f32) for target in (replace(dear, load_cycles=0.0), dear))
    assert [choose_tile(m, n, k, free) for m, n, k in ((784, 512, 128), (196, 256, 1024), (384, 768, 768))] == [(8, 2), (7, 2), (8, 3)]
    assert [choose_tile(m, n, k, counted) for m, n, k in ((784, 512, 128), (196, 256, 1024), (384, 768, 768))] == [(8, 3), (6, 4), (8, 3)]


def test_results_close_to_zero_are_still_compared() -> None:
    with pytest.raises(AssertionError):
        assert_close(np.ones(3, np.float32), np.zeros(3), f32)
