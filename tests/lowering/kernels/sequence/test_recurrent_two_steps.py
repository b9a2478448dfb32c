"""Recurrent layers of one row, whose weights are read for two steps at a time: what is read, in which order sums are made, and when it is
done.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn
from polyreme.ir.builtin import Module
from polyreme.ir.core import Value
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, f32, f64, i1, i64
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import split_llvm
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import Accumulators, Registers
from polyreme.lowering.kernels.sequence.recurrent_plan import choose_tile
from polyreme.lowering.kernels.sequence.recurrent_two_steps import Column
from polyreme.lowering.machines.targets import Target, find_target, host
from polyreme.lowering.pipeline import lower
from polyreme.lowering.schedule.arena import plan_memory
from tests.lowering.kernel_modules import finish, one_function
from tests.lowering.kernels.sequence.test_scan import assert_near, layer, numbers, run_on_threads

PANELS, STEPS = 5, 6
MOST = 4 * PANELS  # tiles in a step of a panel, at most


def small_caches(target: Target) -> Target:
    """A machine for which small layers are large ones, and which keeps their weights plain."""
    return replace(target, caches=(1024, 1 << 20, 8 << 20))


def is_twice(module: Module) -> bool:
    return any(isinstance(op, kernel.For) and op.block.args[0].name == "tile" for func in module.functions for op in func.walk())


def visits(first: int, end: int, blank: bool | None = None) -> np.ndarray:
    """What a thread that has the panels from `first` up to `end` multiplies, in its order: [steps][panels][…] of 1 + the number of the
    state's panel, times 100 where it is for two steps; 0 behind the last.
    """
    module, (found,), b = one_function([], [BufferType((STEPS * PANELS * MOST,), i64)])
    code = Code(b)
    count = code.scratch(1, i64)
    with code.loop(0, STEPS * PANELS * MOST) as loop:
        code.store(code.constant(0, i64), found, loop.iv)
    known = None if blank is None else code.constant(blank, i1)
    with code.loop(0, STEPS, name="t") as loop:
        parity = code.mod(loop.iv, 2)
        with code.loop(first, end, name="panel") as visit:
            panel = code.add(visit.iv, code.mul(parity, code.sub(first + end - 1, code.mul(visit.iv, 2))))
            code.store(code.constant(0, i64), count, 0)

            def multiply(acc: Accumulators, of: Index, t: Value = loop.iv, panel: Index = panel) -> Accumulators:
                at = code.fetch_add(1, count, 0)
                what = code.apply("cast", code.value(code.mul(code.add(of, 1), 100 if len(acc) == 2 else 1)), dtype=i64)
                code.store(what, found, code.add(code.mul(code.add(code.mul(t, PANELS), panel), MOST), at))
                return acc

            Column(code, loop.iv, parity, panel, PANELS, first, end, known).sums([code.zero(f32, 4)], multiply)
    finish(b)
    (result,) = evaluate(module, [])
    return result.reshape(STEPS, PANELS, MOST)


def orders(threads: list[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
    """By step and panel, the panels of the state in the order in which they are added to its sum."""
    found: dict[tuple[int, int], list[int]] = {(t, panel): [] for t in range(STEPS + 1) for panel in range(PANELS)}
    for first, end in threads:
        tiles = visits(first, end)
        for t in range(STEPS):
            for panel in range(first, end):
                for x in tiles[t, panel]:
                    if x >= 100:
                        found[t + 1, panel].append(int(x) // 100 - 1)
                        x //= 100
                    if x:
                        found[t, panel].append(int(x) - 1)
    return found


def test_sums_have_every_panel_of_the_state_in_one_order_whatever_the_threads():
    alone = orders([(0, PANELS)])
    for t in range(STEPS):
        for panel in range(PANELS):
            below, above = list(range(panel - 1, -1, -1)), list(range(panel + 1, PANELS))
            assert alone[t, panel] == ([*below, panel, *above] if t % 2 else [*above, panel, *below])
    for threads in ([(0, 2), (2, 5)], [(0, 1), (1, 3), (3, 5)], [(i, i + 1) for i in range(PANELS)]):
        shared = orders(threads)
        assert all(shared[t, panel] == alone[t, panel] for t in range(STEPS) for panel in range(PANELS))


def test_one_thread_reads_half_of_the_tiles_and_the_diagonal_in_a_step():
    tiles = visits(0, PANELS)
    read = Counter({t: int((tiles[t] > 0).sum()) for t in range(STEPS)})
    half = PANELS * (PANELS - 1) // 2
    assert read[0] == PANELS**2 and all(read[t] == half + PANELS for t in range(1, STEPS))
    shared = visits(2, PANELS)
    assert all((shared[t] > 0).sum() == 3 + 3 + 3 * 2 for t in range(1, STEPS)), "what another thread makes is read for one step"


def test_a_first_state_of_zeros_is_multiplied_only_for_the_next_step():
    for first, end in ((0, PANELS), (2, PANELS)):
        plain, blank = visits(first, end), visits(first, end, True)
        assert np.array_equal(blank[1:], plain[1:])
        for panel in range(first, end):
            assert sorted(x for x in blank[0, panel] if x) == sorted(x for x in plain[0, panel] if x >= 100)


@pytest.mark.parametrize("changed", [None, 0, 17, 63])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_layers_begin_with_zeros_or_with_nearly_nothing_but_zeros(kind, changed):
    module = layer(kind, 3, 1, 64, f32, False, False, False)
    inputs = numbers(module, {}, 3)
    for i, arg in enumerate(module.function().args):
        if arg.type.shape == (1, 64):
            inputs[i] = np.zeros((1, 64), np.float32)
            if changed is not None:
                inputs[i][0, changed] = -0.5
    assert_near(run_on_threads(module, inputs, small_caches(host())), evaluate(module, inputs), f32)


def lowered(kind: Any, batch: Any = 1, units: int = 64, target: Target | None = None, backward: bool = False) -> Module:
    return lower(
        layer(kind, 3, batch, units, f32, False, backward, False), small_caches(find_target("x86-64-avx512")) if target is None else target
    )


def test_weights_serve_two_steps_where_one_row_reads_them_out_of_a_farther_cache():
    assert all(is_twice(lowered(kind)) for kind in (nn.LSTM, nn.GRU))
    assert is_twice(lowered(nn.LSTM, units=256, target=find_target("x86-64-avx512")))
    assert not is_twice(lowered(nn.LSTM, units=32, target=find_target("x86-64-avx512"))), "they are in the first-level cache"
    assert not is_twice(lowered(nn.LSTM, batch=2))
    assert not is_twice(lowered(nn.LSTM, units=60)), "the last panel has fewer units"
    assert not is_twice(lowered(nn.LSTM, backward=True))
    assert is_twice(lowered(nn.LSTM, batch=symbol("N"))), "it may be one row"
    assert not is_twice(lowered(nn.LSTM, batch=symbol("N"), units=60))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_an_unknown_number_of_rows_may_be_one(kind):
    module, target = layer(kind, 5, symbol("N"), 64, f32, False, False, False), small_caches(host())
    for rows in (1, 2, 7, 1):
        inputs = numbers(module, {"N": rows}, rows)
        assert_near(run_on_threads(module, inputs, target), evaluate(module, inputs), f32)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
def test_both_forms_of_an_unknown_number_of_rows_touch_no_memory_but_their_own(target):
    module = layer(nn.LSTM, 4, symbol("N"), 32, f32, True, False, True)
    made = lower(module, small_caches(find_target(target)), verify=True)
    assert is_twice(made)
    for rows in (1, 3):
        inputs = numbers(module, {"T": 4, "N": rows}, rows)
        assert_near(evaluate(made, inputs), evaluate(module, inputs), f32)


@pytest.mark.parametrize("load_cycles", [0.0, 0.01])
def test_sums_of_two_steps_stay_in_registers(load_cycles):
    for blocks in (1, 3, 4):
        tile = choose_tile(256, blocks, 1, Registers(32, 16, load_cycles), 2)
        assert tile is not None and 2 * blocks * tile.vectors <= 24
    assert choose_tile(256, 20, 1, Registers(32, 16), 2) is not None, "so many that there are registers for one step alone"


def test_a_tile_leaves_registers_beside_its_sums_and_weights():
    for blocks, batch in ((3, 4), (3, 8), (4, 6), (3, symbol("N")), (4, symbol("N")), (1, symbol("N"))):
        tile = choose_tile(128, blocks, batch, Registers(32, 16))
        assert tile is not None and blocks * tile.vectors * (tile.rows + 1) <= 29
    few = choose_tile(128, 3, 8, Registers(16, 8))
    assert few is not None and few.rows * few.vectors == 4, "of 16 registers all are needed"


@pytest.mark.parametrize(
    ("target", "register"),
    [(find_target("x86-64-avx2"), "ymm"), (replace(find_target("x86-64-avx512"), load_cycles=0.01), "zmm")],
    ids=["few registers", "wide tiles"],
)
@pytest.mark.parametrize("batch", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_nothing_of_a_product_waits_on_the_stack(kind, batch, target, register):
    """Loops of multiply-adds, but for those of the gates, which divide: where there is no room for the sums and a row of weights, each sum
    would else go through memory in every round.
    """
    made = lowered(kind, batch, 256, target)
    plan_memory(made.function("main"))
    texts = [assembly(part.text(), target) for part in split_llvm(made, target)]
    loops = [loop[0] for text in texts if "recurrence" in text for loop in re.finditer(r"\n(\.LBB\w+):\n(?:\t.*\n)*?\tj\w+\t\1\n", text)]
    loops = [loop for loop in loops if loop.count("vfmadd") >= 8 and "vdiv" not in loop]
    assert loops and not [loop for loop in loops if re.search(rf"\(%rsp\).*%{register}|%{register}\d+, -?\d*\(%rsp\)", loop)]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
@given(st.sampled_from([16, 32, 64, 96]), st.integers(0, 5), st.booleans(), st.booleans(), st.sampled_from([f32, f64]), st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_layers_of_one_row_give_what_their_ops_mean_on_any_number_of_threads(kind, units, steps, lengths, reverse, dtype, seed):
    module = layer(kind, steps, 1, units, dtype, lengths, False, reverse)
    inputs = numbers(module, {"T": steps}, seed)
    expected = evaluate(module, inputs)
    assert_near(run_on_threads(module, inputs, small_caches(host())), expected, dtype)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_kernels_that_read_weights_for_two_steps_touch_no_memory_but_their_own(target, kind):
    module = layer(kind, 4, 1, 32, f32, True, False, True)
    inputs = numbers(module, {"T": 4}, 1)
    made = lower(module, small_caches(find_target(target)), verify=True)
    assert is_twice(made) or kind is nn.SimpleRNN
    assert_near(evaluate(made, inputs), evaluate(module, inputs), f32)
