"""`kernel.dot_terms`: products of float32 numbers by tile registers of bf16, as precise as float32, on numpy and as machine code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.dialects.kernel.bf16x3 import LANES, PAIRS, TERMS, cut
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, f32, i32
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import emit_llvm
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.instructions import has_bf16_tiles
from polyreme.lowering.machines.targets import TARGETS, host
from tests.lowering.kernel_modules import finish, one_function

Array = np.ndarray[Any, Any]
WIDE = TARGETS["x86-64-avx512"]
TERMS_TARGET = replace(WIDE, features=WIDE.features + ",+amx-tile,+amx-int8,+amx-bf16")
needs_bf16_tiles = pytest.mark.skipif(
    not has_bf16_tiles(host()), reason="this machine has no tile registers of bf16, or its system does not lend them"
)


def numbers(*shape: int, seed: int = 0) -> Array:
    """Of magnitudes from 2^-20 to 2^20, with all their bits."""
    rng = np.random.default_rng(seed)
    return np.ldexp(rng.uniform(-1, 1, shape), rng.integers(-20, 20, shape)).astype(np.float32)


def words_of_rows(x: Array) -> Array:
    """Rows of A as `kernel.dot_terms` takes them."""
    rows, steps = x.shape[0], x.shape[1] // (2 * PAIRS)
    terms = [w.reshape(rows, steps, PAIRS) for w in cut(x[:, ::2].reshape(-1), x[:, 1::2].reshape(-1))]
    return np.stack(terms).transpose(2, 0, 1, 3).reshape(-1)


def words_of_lanes(x: Array) -> Array:
    """B as it takes it."""
    return np.stack(cut(x[::2].reshape(-1), x[1::2].reshape(-1))).reshape(-1)


def test_terms_add_up_to_the_number():
    x = np.concatenate([numbers(1000), np.float32([0, -0.0, 1, 3.3e38, -3.3e38, 1e-30, 1 + 2**-8, 1 - 2**-9, 2**-16 - 1])])
    terms = np.stack([(w.view(np.uint32) << 16).view(np.float32) for w in cut(x, x)])
    np.testing.assert_array_equal(terms.astype(np.float64).sum(0), x.astype(np.float64))
    assert np.all(np.abs(terms[1:]) <= 2.0**-8 * np.abs(terms[:-1]))


def block(rows: int, steps: int, cuts: int, apart: int = LANES, begun: int | None = 0) -> Module:
    """The first half of the sums = half number `begun` of `before`, or zeros, + a @ b, and `terms` get those of `more` behind its first
    half, which is b.
    """
    size, count = TERMS * PAIRS * steps * LANES, rows * LANES
    types = [
        BufferType((n,), t)
        for n, t in ((steps * TERMS * rows * PAIRS, i32), (size, i32), (2 * count, f32), (2 * steps * max(cuts, 1) * apart, f32))
    ]
    module, args, builder = one_function(types, [BufferType((2 * size,), i32), BufferType((2 * count,), f32)])
    a, b, before, more, terms, sums = args
    zero = builder.number(0)
    for source, target, words, lanes in ((b, terms, size, LANES), (before, sums, 2 * count, LANES)):
        with builder.loop(zero, builder.number(words), step=lanes) as (i, _, _passed):
            builder(kernel.Store, builder(kernel.Load, source, i, None, lanes=lanes, align=None), target, i, None, align=None)
    at = (more, zero, builder.number(size), builder.number(1 << 20)) if cuts else (None,) * 4
    at_begun = None if begun is None else builder.number(begun * count)
    builder(kernel.DotTerms, a, zero, terms, zero, sums, zero, at_begun, *at, rows=rows, steps=steps, cuts=cuts, apart=apart)
    finish(builder)
    return module


@pytest.mark.parametrize(
    ("rows", "steps", "cuts", "apart", "begun"),
    [(16, 4, 2, 32, 0), (16, 1, 16, 32, None), (1, 3, 0, 32, 1), (13, 5, 3, 40, None), (7, 2, 1, 1000, 1)],
)
def test_a_block_is_the_product_of_its_rows_and_lanes_also_by_tiles(rows, steps, cuts, apart, begun):
    x, w, before, more = (
        numbers(rows, 32 * steps),
        numbers(32 * steps, LANES, seed=1),
        numbers(2, rows, LANES, seed=2),
        numbers(2 * steps * max(cuts, 1), apart, seed=3),
    )
    module = block(rows, steps, cuts, apart, begun)
    inputs = [words_of_rows(x), words_of_lanes(w), before.reshape(-1), more.reshape(-1)]
    first = np.zeros((rows, LANES)) if begun is None else before[begun].astype(np.float64)
    exact = first + x.astype(np.float64) @ w
    magnitude = np.abs(first) + np.abs(x.astype(np.float64)) @ np.abs(w)
    runs = [evaluate(module, inputs)]
    if has_bf16_tiles(host()):
        runs.append(load(build_artifact(module.clone(), host(), "bf16x3")).run(inputs))
    for terms, sums in runs:
        found, beside = sums.reshape(before.shape)
        assert np.all(np.abs(found - exact) <= 2**-23 * np.sqrt(32 * steps) * magnitude)
        np.testing.assert_array_equal(beside, before[1])
        size = TERMS * PAIRS * steps * LANES
        np.testing.assert_array_equal(terms[:size], inputs[1])
        made, wanted = terms[size:].reshape(TERMS, -1), words_of_lanes(more[:, :LANES]).reshape(TERMS, -1)
        if cuts:
            np.testing.assert_array_equal(made[:, : wanted.shape[1]], wanted)
    text = assembly(emit_llvm(module, TERMS_TARGET, "bf16x3"), TERMS_TARGET)
    assert text.count("tdpbf16ps") == 12
    if steps > 1:
        assert len(set(re.findall(r"%tmm\d", text))) == 4, "two tiles of sums and one of each operand"


def test_terms_need_a_target_with_tiles():
    with pytest.raises(PolyremeError, match="expected a target with tiles of bf16"):
        emit_llvm(block(16, 1, 0), WIDE, "bf16x3")
