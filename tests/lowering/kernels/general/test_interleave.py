"""Channel shuffles and transposes of a few rows: found, and written by shuffles of whole vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, f64, i32
from polyreme.ir.verify import verify
from polyreme.lowering.kernels.general.interleave import build_interleave
from polyreme.lowering.machines.targets import TARGETS
from polyreme.lowering.transforms.stack_rows import StackRows
from tests.lowering import products
from tests.lowering.products import root_of

N = symbol("N")
DTYPES = st.sampled_from([f32, f64, i32])


@pytest.fixture(autouse=True)
def _only_interleave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "build_nchw_conv", build_interleave)


def _transposed(rows: int, length: int, dtype: Any, outer: int = 3, free: bool = False) -> tuple[Module, Any, Any]:
    shape = (outer, rows, length)
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype.np)
    made = root_of([TensorType((N if free else outer, rows, length), dtype)], lambda b, x: b(tensor.Transpose, x, perm=(0, 2, 1)))
    return made, x, x.transpose(0, 2, 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.integers(2, 70), DTYPES, st.sampled_from(["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"]), st.booleans())
def test_a_transpose_of_a_few_rows_writes_each_element_once_and_nothing_else(
    rows: int, length: int, dtype: Any, target: str, free: bool
) -> None:
    module, x, expected = _transposed(rows, length, dtype, free=free)
    lowered, _ = products.to_kernels(module, TARGETS[target])
    np.testing.assert_array_equal(evaluate(lowered, [x])[0], expected)


@pytest.mark.parametrize("rows, length", [(2, 58), (3, 40), (8, 33), (2, 512), (5, 3)])
def test_machine_code_gives_the_same_on_one_and_two_threads(rows: int, length: int) -> None:
    module, x, expected = _transposed(rows, length, f32, outer=40)
    assert products.to_kernels(module, TARGETS["x86-64-avx512"])[1] == ["interleave"]
    (one,), (two,) = products.run_native(module, [x])
    np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(two, expected)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([(0, 1, 4, 2, 5, 3), (0, 5, 2), (1, 3, 0), (4, 0, 1, 5, 2), (2, 3, 1), (0, 1, 3, 2)]),
    st.tuples(*[st.integers(2, 5)] * 5, st.sampled_from([2, 3, 7, 14, 16, 17, 40])),
    st.sampled_from(["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"]),
    st.booleans(),
)
def test_rows_of_any_axis_are_laid_side_by_side(chosen: tuple[int, ...], sizes: tuple[int, ...], target: str, free: bool) -> None:
    """The axes that are chosen, of which the last but one comes from the end: as in a pixel shuffle."""
    order = sorted(chosen)
    shape, perm = tuple(sizes[axis] for axis in order), tuple(order.index(axis) for axis in chosen)
    shape = (*shape[:-1], sizes[-1])
    symbolic: list[Any] = [symbol(f"S{i}") if free and i != perm[-1] else n for i, n in enumerate(shape)]
    assert perm[-2] == len(perm) - 1
    module = root_of([TensorType(tuple(symbolic), f32)], lambda b, x: b(tensor.Transpose, x, perm=perm))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    lowered, builders = products.to_kernels(module, TARGETS[target])
    np.testing.assert_array_equal(evaluate(lowered, [x])[0], x.transpose(perm))
    assert builders == ["interleave"] or TARGETS[target].masked is False or shape[-1] == 1


def test_machine_code_shuffles_pixels() -> None:
    sizes = (2, 3, 2, 3, 5, 37)
    module = root_of([TensorType(sizes, f32)], lambda b, x: b(tensor.Transpose, x, perm=(0, 1, 4, 2, 5, 3)))
    assert products.to_kernels(module, TARGETS["x86-64-avx512"])[1] == ["interleave"]
    x = np.random.default_rng(0).random(sizes).astype(np.float32)
    for (made,) in products.run_native(module, [x]):
        np.testing.assert_array_equal(made, x.transpose(0, 1, 4, 2, 5, 3))


@pytest.mark.parametrize("shape, perm", [((3, 9, 4), (0, 2, 1)), ((3, 4, 1), (0, 2, 1)), ((4, 3, 5), (1, 0, 2))])
def test_other_transposes_are_left_to_the_loops(shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    module = root_of([TensorType(shape, f32)], lambda b, x: b(tensor.Transpose, x, perm=perm))
    assert products.to_kernels(module, TARGETS["x86-64-avx512"])[1] == ["loops"]


def shuffled(parts: int, part: int, groups: int, sliced: bool) -> Module:
    """`main` concatenates `parts` inputs [2, 3, part], of which the first is sliced from a longer one, and shuffles the result in `groups`.
    """
    types = [TensorType((2, 3, part + 5 if sliced and i == 0 else part), f32) for i in range(parts)]
    main = Func.empty("main", types, arg_names=[f"x{i}" for i in range(parts)], arg_roles=("input",) * parts)
    b = Builder.at_end(main.block)
    xs = list(main.args)
    if sliced:
        xs[0] = b(tensor.Slice, xs[0], starts=(0, 0, 5), stops=(2, 3, part + 5), strides=(1, 1, 1))
    y = b(tensor.Concat, xs, axis=2)
    y = b(tensor.Reshape, y, shape=(2, 3, groups, parts * part // groups))
    y = b(tensor.Transpose, y, perm=(0, 1, 3, 2))
    b.insert(Return([b(tensor.Reshape, y, shape=(2, 3, parts * part))]))
    module = Module.empty()
    module.block.append(main.finish())
    verify(module)
    return module


@pytest.mark.parametrize(
    "parts, part, groups, sliced", [(2, 6, 2, False), (2, 6, 2, True), (3, 4, 3, True), (2, 6, 3, False), (2, 6, 4, True)]
)
def test_a_shuffle_of_what_was_concatenated_takes_turns_at_once(parts: int, part: int, groups: int, sliced: bool) -> None:
    module = shuffled(parts, part, groups, sliced)
    inputs = [np.random.default_rng(i).random(a.type.shape).astype(np.float32) for i, a in enumerate(module.function().args)]
    before = evaluate(module, inputs)[0]
    StackRows().run(module)
    verify(module)
    np.testing.assert_array_equal(evaluate(module, inputs)[0], before)
    assert any(op.name == "tensor.transpose" for op in module.walk()) == (parts != groups)


def repeated(index: Any, shape: tuple[int, ...] = (3, 4, 9), axis: int = 2) -> Module:
    """`main` gathers a constant `index` along an axis."""
    main = Func.empty("main", [TensorType(shape, f32)], arg_names=["x"], arg_roles=("input",))
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Gather, main.args[0], b(tensor.Constant, value=Dense(np.asarray(index))), axis=axis)]))
    module: Module = Module.empty()
    module.block.append(main.finish())
    return module


@pytest.mark.parametrize("times", [2, 3, 8])
def test_each_element_of_the_last_axis_so_many_times_is_interleaved(times: int) -> None:
    module = repeated(np.arange(9 * times) // times)
    x = np.random.default_rng(0).standard_normal((3, 4, 9)).astype("f4")
    StackRows().run(module)
    verify(module)
    assert not [op for op in module.walk() if isinstance(op, tensor.Gather)]
    np.testing.assert_array_equal(evaluate(module, [x])[0], x.repeat(times, -1))


@pytest.mark.parametrize(
    "module",
    [
        repeated([0, 0, 1, 1, 2, 2]),
        repeated(np.arange(9)),
        repeated(np.arange(81) // 9),
        repeated(np.arange(8) // 2, axis=1),
        repeated(np.arange(18) // 2 % 8),
    ],
)
def test_other_gathers_stay(module: Module) -> None:
    StackRows().run(module)
    assert [op for op in module.walk() if isinstance(op, tensor.Gather)]
