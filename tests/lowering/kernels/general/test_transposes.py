"""Transposes that move the last axis: square blocks in registers, then the rows and columns that are left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import ScalarType, TensorType, bf16, f16, f32, f64, i8, i16, i32, i64
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module

Array = np.ndarray[Any, Any]
SIZES = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 48, 65]))
TYPES = st.sampled_from([f32, f64, i8, i16, i32, i64, f16, bf16])
CHAINS = ("nothing", "map before", "map after", "two of them", "reversed")


def turned(shape: tuple[int, ...], perm: tuple[int, ...], dtype: ScalarType, chain: str, seed: int) -> tuple[Module, list[Array]]:
    """`transpose(x)` with something around it."""
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-50, 50, shape).astype(dtype.np) for _ in range(2))
    z = rng.integers(-50, 50, [shape[p] for p in perm]).astype(dtype.np)
    main = Func.empty("main", [TensorType(a.shape, dtype) for a in (x, y, z)], arg_names=("x", "y", "z"))
    b = Builder.at_end(main.block)
    a, other, behind = main.args
    if chain == "map before":
        a = b(tensor.Map, a, other, fn="max")
    made = b(tensor.Transpose, a, perm=perm)
    if chain == "map after":
        made = b(tensor.Map, made, behind, fn="min")
    elif chain == "two of them":
        made = b(tensor.Map, made, b(tensor.Transpose, other, perm=perm), fn="min")
    elif chain == "reversed":
        made = b(tensor.Reverse, made, axes=(len(perm) - 1,))
    b.insert(Return([made]))
    module = Module.empty()
    module.block.append(main.finish())
    return module, [x, y, z]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SIZES, min_size=2, max_size=3), st.randoms(use_true_random=False), TYPES, st.sampled_from(CHAINS), st.integers(0, 99))
@example([40, 70], None, f32, "nothing", 0)
@example([32, 48], None, f64, "map after", 0)
def test_any_transpose_is_what_it_means(sizes: list[int], random: Any, dtype: ScalarType, chain: str, seed: int) -> None:
    perm = list(range(len(sizes)))[::-1]
    if random is not None:
        random.shuffle(perm)
    module, inputs = turned(tuple(sizes), tuple(perm), dtype, chain, seed)
    (found,) = compile_module(module).load().run(inputs)
    np.testing.assert_array_equal(found, evaluate(module, inputs)[0])


def test_blocks_are_shuffled_and_nothing_is_gathered() -> None:
    module, _ = turned((64, 64), (1, 0), f32, "map after", 0)
    text = compile_module(module, find_target("x86-64-avx512")).stages["kernel"]
    assert "kernel.shuffle" in text
    assert "kernel.gather" not in text


def test_a_transpose_of_free_sizes_takes_blocks_and_what_is_left() -> None:
    main = Func.empty("main", [TensorType((symbol("N"), symbol("M")), f32)], arg_names=("x",))
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Transpose, main.args[0], perm=(1, 0))]))
    module = Module.empty()
    module.block.append(main.finish())
    run = compile_module(module).load().run
    for shape in ((1, 1), (16, 16), (7, 40), (40, 7), (33, 50), (64, 32)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(run([x])[0], x.T)


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (0, 3, 1, 2)])
@pytest.mark.parametrize("height, width", [(14, 14), (symbol("H"), symbol("W"))])
def test_axes_that_stay_neighbours_are_one(perm: tuple[int, ...], height: Dim, width: Dim) -> None:
    to_last = perm[1] == 2
    shape = (2, 32, height, width) if to_last else (2, height, width, 32)
    main = Func.empty("main", [TensorType(shape, f32)], arg_names=("x",))
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Map, b(tensor.Transpose, main.args[0], perm=perm), fn="neg")]))
    module = Module.empty()
    module.block.append(main.finish())
    assert [v.type.shape for v in collapse_axes(main).args] == [(2, 32, height * width) if to_last else (2, height * width, 32)]
    run = compile_module(module).load().run
    for pixels in [(14, 14)] if height == 14 else [(14, 14), (3, 5), (1, 1), (16, 17)]:
        x = np.random.default_rng(1).standard_normal((2, 32, *pixels) if to_last else (2, *pixels, 32)).astype(np.float32)
        np.testing.assert_array_equal(run([x])[0], -x.transpose(perm))


def test_neighbours_that_a_transpose_parts_stay_two() -> None:
    main = Func.empty("main", [TensorType((4, 5, 6, 7), f32)], arg_names=("x",))
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Transpose, main.args[0], perm=(1, 0, 3, 2))]))
    assert collapse_axes(main.finish()) is main
