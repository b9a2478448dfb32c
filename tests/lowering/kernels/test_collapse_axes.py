"""Axes that all values of a group walk together become one, beside the evaluator; the axis that a gather reads by position stays alone."""

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, i64
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.pipeline import compile_module


def group_of(table, axis, index, factors):
    """The elements of a table at positions, times factors that are repeated along some axes."""
    main = Func.empty("main", [TensorType(table, f32), TensorType(index, i64), TensorType(factors, f32)], arg_roles=("input",) * 3)
    b = Builder.at_end(main.block)
    found = b(tensor.Gather, main.args[0], main.args[1], axis=axis)
    b.insert(Return([b(tensor.Map, found, main.args[2], fn="mul")]))
    return main.finish()


def in_module(func):
    module = Module.empty()
    module.block.append(func)
    return module


@pytest.mark.parametrize(
    ("table", "axis", "index", "factors", "found"),
    [
        ((6, 4, 5), 0, (2, 3), (1, 1, 4, 5), [(6, 20), (6,), (1, 20), (6, 20)]),
        ((6, 4, 5), 0, (2, 3), (2, 3, 1, 1), [(6, 20), (6,), (6, 1), (6, 20)]),
        ((2, 3, 7, 4, 5), 2, (3, 2), (2, 3, 3, 2, 4, 5), [(6, 7, 20), (6,), (6, 6, 20), (6, 6, 20)]),
        ((7, 5), 0, (1,), (1, 5), None),
        # What is read by position lies between axes that are neighbours of the result.
        ((3, 7, 5), 1, (), (3, 5), None),
        ((2, 3, 7, 5), 2, (), (2, 3, 5), [(6, 7, 5), (), (6, 5), (6, 5)]),
        # A factor for each row of positions keeps their axes apart.
        ((6, 4), 0, (2, 3), (2, 1, 4), None),
    ],
)
def test_a_group_with_a_gather_has_fewer_axes_and_the_same_elements(table, axis, index, factors, found):
    func = group_of(table, axis, index, factors)
    made = collapse_axes(func)
    if found is None:
        assert made is func
    else:
        assert [v.type.shape for v in (*made.args, *made.block.terminator.operands)] == found
    random = np.random.default_rng(0)
    arrays = [random.normal(size=table).astype("float32"), random.integers(-9, 9, index), random.normal(size=factors).astype("float32")]
    (wanted,) = evaluate(in_module(func.clone()), arrays)
    (given,) = evaluate(in_module(made.clone()), [a.reshape(v.type.shape) for a, v in zip(arrays, made.args, strict=True)])
    np.testing.assert_array_equal(given.reshape(wanted.shape), wanted)
    (run,) = compile_module(in_module(func.clone())).load().run(arrays)
    np.testing.assert_array_equal(run, wanted)


def test_a_table_that_is_walked_by_its_own_axes_too_stays_as_it_is():
    main = Func.empty("main", [TensorType((4, 5), f32), TensorType((4,), i64)], arg_roles=("input",) * 2)
    b = Builder.at_end(main.block)
    found = b(tensor.Gather, *main.args, axis=0)
    b.insert(Return([b(tensor.Map, found, main.args[0], fn="mul")]))
    func = main.finish()
    assert collapse_axes(func) is func


def test_free_sizes_become_their_product():
    n, h = symbol("n"), symbol("h")
    made = collapse_axes(group_of((symbol("r"), 16), 0, (n, h, 9), (n, h, 9, 1)))
    assert [str(v.type.shape[0]) for v in made.args] == ["r", "9*h*n", "9*h*n"]


def halves_of(shape, axis, at, other):
    """The halves of an array along an axis in the other order, times factors."""
    main = Func.empty("main", [TensorType(shape, f32), TensorType(other, f32)], arg_roles=("input",) * 2)
    b = Builder.at_end(main.block)
    none, whole, one = (0,) * len(shape), shape, (1,) * len(shape)
    cut = lambda values, value: tuple(value if i == axis else n for i, n in enumerate(values))
    first = b(tensor.Slice, main.args[0], starts=none, stops=cut(whole, at), strides=one)
    last = b(tensor.Slice, main.args[0], starts=cut(none, at), stops=whole, strides=one)
    b.insert(Return([b(tensor.Map, b(tensor.Concat, [last, first], axis=axis), main.args[1], fn="mul")]))
    return main.finish()


@pytest.mark.parametrize(
    ("shape", "axis", "other", "found"),
    [
        ((2, 6, 4, 5), 1, (2, 6, 4, 5), (2, 6, 20)),
        ((2, 3, 6, 5), 2, (2, 3, 6, 5), (6, 6, 5)),
        ((2, 3, 6), 2, (2, 3, 1), (6, 6)),
        ((6, 4, 5), 0, (6, 4, 1), None),
        ((4, 6), 1, (4, 6), None),
    ],
)
def test_an_axis_that_is_cut_stays_one_of_its_own(shape, axis, other, found):
    func = halves_of(shape, axis, 2, other)
    made = collapse_axes(func)
    assert made is func if found is None else made.args[0].type.shape == found
    random = np.random.default_rng(0)
    arrays = [random.normal(size=s).astype("float32") for s in (shape, other)]
    wanted = np.concatenate([np.take(arrays[0], range(2, shape[axis]), axis), np.take(arrays[0], range(2), axis)], axis) * arrays[1]
    (given,) = evaluate(in_module(made.clone()), [a.reshape(v.type.shape) for a, v in zip(arrays, made.args, strict=True)])
    np.testing.assert_array_equal(given.reshape(wanted.shape), wanted)
    (run,) = compile_module(in_module(func.clone())).load().run(arrays)
    np.testing.assert_array_equal(run, wanted)


def test_a_slice_of_free_sizes_joins_those_that_it_leaves_whole():
    n, h, w = symbol("n"), symbol("h"), symbol("w")
    main = Func.empty("main", [TensorType((n, 6, h, w), f32)])
    b = Builder.at_end(main.block)
    cut = b(tensor.Slice, main.args[0], starts=(0, 2, 0, 0), stops=(n, 6, h, w), strides=(1, 2, 1, 1))
    b.insert(Return([b(tensor.Map, cut, fn="neg")]))
    made = collapse_axes(main.finish())
    assert [str(v.type) for v in (*made.args, *made.block.terminator.operands)] == ["tensor<nx6x(h*w)xf32>", "tensor<nx2x(h*w)xf32>"]
