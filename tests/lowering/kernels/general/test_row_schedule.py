"""What is chosen about loops, as it prints."""

from dataclasses import replace

import pytest

from polyreme.dialects import tensor
from polyreme.ir.builtin import Return
from polyreme.ir.dims import symbol
from polyreme.ir.types import f32, i64
from polyreme.lowering.analysis.rows import needed_ops, rows_of
from polyreme.lowering.kernels.general.row_schedule import choose_schedule
from polyreme.lowering.machines.targets import TARGETS
from tests.lowering.schedule.test_tensor_to_kernel import module_of, softmax

N = symbol("N")


def schedule_of(types, build, target, **given):
    module = module_of(types, build)
    (func,) = module.block
    ops = [op for op in func.block if not isinstance(op, Return)]
    results = list(func.block.terminator.operands)
    rows = rows_of(ops, results)
    assert rows is not None
    return str(choose_schedule(target, needed_ops(ops, results), results, rows, **given))


def total(b, x):
    return b(tensor.Reduce, x, fn="add", axes=(1,), keepdims=True)


def turned(b, x):
    return b(tensor.Map, b(tensor.Transpose, x, perm=(0, 2, 1)), fn="abs")


def taken(b, x, places):
    return b(tensor.Gather, x, places, axis=1)


CASES = {
    "a softmax of rows keeps its exponentials in a scratch row": (
        [((64, 1000), f32)], lambda b, x: softmax(b, x, 1),
        "rows<space = 64x1000; lanes = 16x4 masked along 1; reduced = 1; stages = 2; kept = exp of stage 1; nests = 64 of 1000 cycles>",
    ),
    "of free length in the row of the result": (
        [((64, N), f32)], lambda b, x: softmax(b, x, 1),
        "rows<space = 64xN; lanes = 16x4 masked along 1; reduced = 1; stages = 2; kept = exp of stage 1 in result 0; "
        "nests = 64 of 64 cycles>",
    ),
    "rows side by side": (
        [((1000, 64), f32)], lambda b, x: softmax(b, x, 0),
        "rows<space = 1000x64; lanes = 16 masked along 1; reduced = 0; stages = 2; nests = 1 of 64000 cycles>",
    ),
    "rows of free length that are added up may be short": (
        [((4096, N), f32)], total,
        "rows<space = 4096xN; lanes = 16x4 masked along 1; reduced = 1; stages = 1; short_rows_together = 8; nests = 512 of 32 cycles>",
    ),
    "a transpose is put together from square pieces": (
        [((8, 100, 70), f32)], turned,
        "rows<space = 8x70x100; lanes = 16 masked along 2; columns = 1 in square pieces; nests = 8x4 of 300 cycles, 8 of 300 cycles>",
    ),
    "rows that are read by the same places": (
        [((64, 1000), f32), ((500,), i64)], taken,
        "rows<space = 64x500; lanes = 16 masked along 1; rows_at_once = 4; nests = 16 of 250 cycles>",
    ),
    "of free length that are read by the same places": (
        [((64, 1000), f32), ((N,), i64)], taken,
        "rows<space = 64xN; lanes = 16 masked along 1; rows_at_once = 4; forms = up to 8 lanes, up to 16 lanes, up to 32 lanes; "
        "nests = 16 of 32 cycles>",
    ),
    "of free length that are repeated": (
        [((64, 1, N), f32)], lambda b, x: b(tensor.Broadcast, x, shape=(64, 3, N)),
        "rows<space = 64x3xN; lanes = 16 masked along 2; forms = up to 8 lanes, up to 16 lanes, up to 32 lanes; nests = 64x3 of 8 cycles>",
    ),
    "few long rows are cut": (
        [((2, 1 << 20), f32)], lambda b, x: b(tensor.Map, x, fn="exp"),
        "rows<space = 2x1048576; lanes = 32 masked along 1; chunk = 17792; nests = 2x59 of 5004 cycles>",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("types", "build", "text"), CASES.values(), ids=CASES)
def test_a_schedule_says_what_is_chosen(types, build, text):
    assert schedule_of(types, build, TARGETS["x86-64-avx512"]) == text


def test_results_that_no_cache_holds_go_past_them_in_whole_lines():
    target = replace(TARGETS["x86-64-avx512"], caches=(4 << 10, 8 << 10, 16 << 10), memory_streams=8)
    text = schedule_of([((1 << 16,), f32)], lambda b, x: b(tensor.Map, x, fn="abs"), target)
    assert text.endswith("whole_lines = result 0 by 64 bytes; past_caches = result 0>")


def test_what_is_stored_into_a_part_of_a_larger_tensor_begins_anywhere():
    target = replace(TARGETS["x86-64-avx512"], caches=(4 << 10, 8 << 10, 16 << 10), memory_streams=8)
    text = schedule_of([((256,), f32)], lambda b, x: b(tensor.Map, x, fn="abs"), target, stored=(1 << 16,))
    assert text.endswith("past_caches = result 0>") and "whole_lines" not in text
