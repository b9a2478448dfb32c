"""Recurrent weights in 28 bits: what is kept of them, that kernels read what was packed, and when it is left alone."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, f32, u8
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.sequence.weights_28bit import SHORT, powers, short_panels, short_rows
from polyreme.lowering.link.artifact import _load_objects, build_artifact, load, native_object
from polyreme.lowering.machines.targets import Target, find_target, host
from polyreme.lowering.pipeline import lower
from tests.lowering.kernel_modules import compiled, finish, one_function
from tests.lowering.kernels.sequence.test_scan import assert_near, layer, numbers, run_on_threads

WIDE = find_target("x86-64-avx512")
RUNS = host().has("avx512bw") and host().vector_bytes == 64


def aligned(bytes: np.ndarray) -> np.ndarray:
    """A copy that starts where lines of 64 bytes do, as packed weights do."""
    room = np.empty(bytes.size + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + bytes.size] = bytes
    return room[start : start + bytes.size]


def reading(blocks: int, factor: float = 1.0) -> Module:
    """A module that writes the vectors of so many blocks one after the other, multiplied by a factor."""
    module, (short, plain), b = one_function([BufferType((blocks * SHORT.block_bytes,), u8)], [BufferType((blocks * SHORT.block,), f32)])
    code = Code(b)
    with code.loop(0, blocks, name="block") as loop:
        (vectors,) = short_rows(code, short, code.mul(loop.iv, SHORT.block_words), 1, SHORT.block // SHORT.lanes)
        for i, x in enumerate(vectors):
            product = x if factor == 1.0 else code.apply("mul", x, code.broadcast(code.constant(factor, f32), SHORT.lanes))
            code.store(product, plain, code.add(code.mul(loop.iv, SHORT.block), i * SHORT.lanes))
    finish(b)
    return module


def weights(seed: int, panels: int, rows: int, columns: int, spread: int) -> np.ndarray:
    """Numbers of magnitudes that `spread` powers of two lie between, here and there zeros, and columns of other sizes."""
    rng = np.random.default_rng(seed)
    w = rng.uniform(-2, 2, (panels, rows, columns)) * 2.0 ** rng.integers(-spread, 1, (panels, rows, columns))
    w *= rng.integers(0, 8, w.shape) > 0
    return (w * 2.0 ** rng.integers(-40, 40, (panels, 1, columns))).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.sampled_from([(1, 128), (4, 32), (8, 48), (3, 256)]), st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_what_is_read_is_the_weight_up_to_a_part_in_2_to_the_38_of_its_columns_power(seed, panels, shape, spread):
    w = weights(seed, panels, *shape, spread)
    short, power = short_panels(w), powers(w)[:, np.newaxis]
    assert short.dtype == np.uint8 and short.size * 8 == w.size * 28
    (read,) = evaluate(reading(w.size // SHORT.block), [short])
    if RUNS:
        np.testing.assert_array_equal(compiled(reading(w.size // SHORT.block), [aligned(short)])[0].view(np.uint32), read.view(np.uint32))
    wide = power.astype(np.float64)
    found = read.astype(np.float64).reshape(w.shape) * 2.0**SHORT.shift * wide
    assert (np.abs(found - w) <= 2.0**-38 * wide).all()
    exact = np.abs(w) >= 2.0**-14 * wide
    np.testing.assert_array_equal(found[exact], w[exact])
    largest = np.abs(w).max(axis=1, keepdims=True)
    assert ((wide <= largest) & (largest < 2 * wide) | (largest < 2.0**-126)).all()


@contextmanager
def denormals_read_as_zero() -> Iterator[None]:
    """What some libraries ask of the processor for the thread that they run in."""
    text = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @exchange(i32 %new) {
  %old = alloca i32
  %next = alloca i32
  store i32 %new, ptr %next
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  call void @llvm.x86.sse.ldmxcsr(ptr %next)
  %was = load i32, ptr %old
  ret i32 %was
}
"""
    library = _load_objects([native_object(text, host())], ["exchange"], {})
    exchange = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(library["exchange"])
    usual = exchange(0x1F80 | 1 << 6)
    try:
        yield
    finally:
        exchange(usual)


@pytest.mark.skipif(not RUNS, reason="short weights are for AVX-512")
def test_a_thread_that_reads_denormal_numbers_as_zero_loses_weights_below_a_part_in_2_to_the_14_of_their_columns_power_and_no_others():
    w = weights(5, 1, 8, 48, 30)
    power = powers(w)[:, np.newaxis].astype(np.float64)
    run = load(build_artifact(reading(w.size // SHORT.block, SHORT.factor), host())).run
    short = aligned(short_panels(w))
    small = np.abs(w) < 2.0**-14 * power
    assert small[w != 0].any() and not small.all()
    found = run([short])[0].astype(np.float64).reshape(w.shape) * SHORT.rest * power
    assert (np.abs(found - w) <= 2.0**-38 * power).all()
    with denormals_read_as_zero():
        read = run([short])[0]
    found = read.astype(np.float64).reshape(w.shape) * SHORT.rest * power
    np.testing.assert_array_equal(found, np.where(small, 0, w))


def with_known_weight(module: Module, weight: np.ndarray) -> Module:
    """The layer with its recurrent weight as a constant."""
    func = module.function()
    arg = next(a for a in func.args if a.type.shape == weight.shape)
    constant = Builder.before_op(func.block.ops[0])(tensor.Constant, value=Dense(weight))
    arg.replace_all_uses_with(constant)
    return module


def small_caches(target: Target, **changed: Any) -> Target:
    """A machine for which the weights of small layers are large ones."""
    return replace(target, caches=(1024, 1024, 1 << 20), **changed)


def is_short(module: Module) -> bool:
    return any(isinstance(op, kernel.Reinterpret) for func in module.functions for op in func.walk())


def lowered(kind: Any, batch: int = 1, units: int = 32, target: Target | None = None, known: bool = True) -> Module:
    module = layer(kind, 3, batch, units, f32, False, False, False)
    if known:
        module = with_known_weight(module, numbers(module, {}, 0)[1])
    return lower(module, small_caches(WIDE) if target is None else target)


def test_weights_are_short_where_one_row_reads_them_and_they_are_known_and_leave_no_room_in_the_cache(monkeypatch):
    assert all(is_short(lowered(kind)) for kind in (nn.LSTM, nn.GRU, nn.SimpleRNN))
    assert not is_short(lowered(nn.LSTM, batch=2))
    assert not is_short(lowered(nn.LSTM, known=False))
    assert not is_short(lowered(nn.LSTM, target=WIDE))
    assert not is_short(lowered(nn.LSTM, target=small_caches(find_target("x86-64-avx2"))))
    assert not is_short(lowered(nn.LSTM, target=small_caches(WIDE, short_weights=False)))
    monkeypatch.setenv("POLYREME_SHORT_WEIGHTS", "0")
    assert not is_short(lowered(nn.LSTM))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
@given(st.sampled_from([24, 40, 64, 100]), st.integers(0, 4), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_layers_of_short_weights_give_what_their_ops_mean_on_any_number_of_threads(kind, units, steps, backward, reverse, seed):
    module = layer(kind, steps, 1, units, f32, False, backward, reverse)
    inputs = numbers(module, {}, seed)
    weight = inputs[0 if kind is nn.SimpleRNN and backward else 1]
    weight *= 2.0 ** np.random.default_rng(seed).integers(-30, 1, weight.shape).astype(np.float32)
    expected = evaluate(module, inputs)
    known = with_known_weight(module, weight)
    made = lower(known, small_caches(WIDE), verify=True)
    assert is_short(made)
    assert_near(evaluate(made, inputs), expected, f32)
    if RUNS:
        assert_near(run_on_threads(known, inputs, small_caches(host())), expected, f32)


def test_weights_of_any_finite_size_are_summed_and_others_spoil_their_column_alone():
    module = layer(nn.SimpleRNN, 1, 1, 32, f32, False, False, False)
    inputs = numbers(module, {}, 1)
    weight = inputs[1]
    weight[3] = 2.0**127
    weight[4] = 2.0**-140
    weight[5, 7], weight[6, 9] = np.inf, np.nan
    inputs[2][:] = 2.0**-50
    (got,) = evaluate(lower(with_known_weight(module, weight), small_caches(WIDE)), inputs)[:1]
    (wanted,) = evaluate(module, inputs)[:1]
    assert np.isnan(got[0, 0, 5:7]).all() and not np.isnan(np.delete(got, [5, 6], axis=2)).any()
    np.testing.assert_allclose(np.delete(got, [5, 6], axis=2), np.delete(wanted, [5, 6], axis=2), rtol=1e-5)
