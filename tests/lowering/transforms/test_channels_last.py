"""Channels last: networks compute the same in the other order of axes, and few transposes are left of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import TensorType, f64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.transforms.channels_last import ChannelsLast
from polyreme.lowering.transforms.cleanup import Canonicalize, Dce


class Net:
    """A module of `nn` ops in float64, written step by step; weights are constants."""

    def __init__(self, *shape: Any):
        self.main = Func.empty("main", [TensorType(shape, f64)], arg_names=["x"], arg_roles=("input",))
        self.b = Builder.at_end(self.main.block)
        self.rng = np.random.default_rng(3)
        self.x: Value = self.main.args[0]

    def constant(self, *shape: int) -> Value:
        return self.b(nn.Constant, value=self.rng.standard_normal(shape))  # type: ignore[no-any-return]

    def conv(self, x: Value, out: int, taps: int = 3, stride: int = 1, groups: int = 1, pad: int | None = None) -> Value:
        channels, spatial = x.type.shape[1], x.type.rank - 2  # type: ignore[union-attr]
        weight, bias = self.constant(out, channels // groups, *(taps,) * spatial), self.constant(out)
        padding = (taps // 2 if pad is None else pad,) * (2 * spatial)
        return self.b(nn.Conv, x, weight, bias, strides=(stride,) * spatial, padding=padding, groups=groups)  # type: ignore[no-any-return]

    def module(self, *results: Value) -> Module:
        self.b.insert(Return(list(results)))
        module = Module.empty()
        module.block.append(self.main.finish())
        verify(module)
        return PassManager([Stage("tensor", nn_to_tensor, Canonicalize(), Dce())]).run(module)


def turned(module: Module, channels: int = 1) -> Module:
    """The module after the pass."""
    copy: Module = module.clone()
    made = PassManager([Stage("tensor", ChannelsLast(channels), Dce())]).run(copy)
    verify(made)
    return made


def count(module: Module, kind: Any) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


def check_same(module: Module, x: Any, channels: int = 1) -> Module:
    """The module after the pass, which computes the same."""
    made = turned(module, channels)
    for expected, got in zip(evaluate(module.function("main"), [x]), evaluate(made.function("main"), [x]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max(initial=1))
    return made


def specs(module: Module) -> list[str]:
    return [op.spec for op in module.walk() if isinstance(op, tensor.Contract)]


def test_a_chain_of_convolutions_reads_the_image_as_it_stands_and_gives_channels_last() -> None:
    net = Net(2, 3, 9, 8)
    y = net.b(nn.Relu, net.conv(net.x, 4, stride=2))
    y = net.b(nn.Relu, net.conv(y, 5))
    made = check_same(net.module(net.b(nn.Mean, y, axis=(2, 3))), np.random.default_rng(0).standard_normal((2, 3, 9, 8)))
    assert specs(made) == ["NCabmn,OCmn->NabO", "NabCmn,OCmn->NabO"]
    assert count(made, tensor.Transpose) == 0


@pytest.mark.parametrize(("groups", "few", "spatial"), [(8, 2, 2), (4, 6, 2), (2, 8, 1), (16, 3, 3), (2, 3, 2), (2, 16, 2)])
def test_a_norm_of_groups_has_its_lanes_along_all_channels(groups: int, few: int, spatial: int) -> None:
    sizes = (4, 5, 3)[:spatial]
    net = Net(2, 3, *sizes)
    y = net.conv(net.x, groups * few)
    split = net.b(nn.Reshape, y, shape=(2, groups, few, *sizes))
    axes = tuple(range(2, 3 + spatial))
    normed = net.b(nn.Standardize, split, net.constant(groups, few), net.constant(groups, few), axes=axes, affine=(1, 2), epsilon=1e-5)[0]
    y = net.conv(net.b(nn.Silu, net.b(nn.Reshape, normed, shape=(2, groups * few, *sizes))), 4)
    made = check_same(
        net.module(net.b(nn.Sum, y, axis=tuple(range(2, spatial + 2)))), np.random.default_rng(0).standard_normal((2, 3, *sizes))
    )
    narrow = [
        op
        for op in made.walk()
        if isinstance(op, tensor.Map)
        and {x.type.shape[-1:] for x in op.xs} > {(1,)}  # type: ignore[union-attr]
        and few in op.result.type.shape[-1:]  # type: ignore[union-attr]
    ]
    assert (not narrow) == (few < 16 <= groups * few)


def rows_of_products(module: Module) -> list[tuple[Any, ...]]:
    """Pixels in a row and channels that each convolution gives."""
    return [op.result.type.shape[-2:] for op in module.walk() if isinstance(op, tensor.Contract)]  # type: ignore[union-attr]


@pytest.mark.parametrize(("out", "width", "blocks"), [(3, 13, (3, 15)), (1, 32, (2, 16)), (4, 3, (1, 12)), (2, 8, (1, 16))])
def test_few_channels_are_computed_for_several_pixels_at_once(out: int, width: int, blocks: tuple[int, int]) -> None:
    net = Net(2, 3, 6, width)
    made = check_same(net.module(net.conv(net.conv(net.x, 8), out, taps=5)), np.random.default_rng(0).standard_normal((2, 3, 6, width)))
    assert rows_of_products(made)[-1] == blocks


@settings(max_examples=20, deadline=None)
@given(
    groups=st.integers(2, 8),
    inside=st.integers(1, 9),
    out=st.integers(1, 9),
    taps=st.integers(1, 3),
    stride=st.integers(1, 2),
    batch=st.integers(1, 2),
)
def test_groups_of_few_channels_are_put_together_to_fill_a_vector(
    groups: int, inside: int, out: int, taps: int, stride: int, batch: int
) -> None:
    net = Net(batch, 7, 6, groups * inside)
    x = net.b(nn.Transpose, net.x, perm=(0, 3, 1, 2))
    y = net.b(nn.Transpose, net.conv(x, groups * out, taps, stride, groups), perm=(0, 2, 3, 1))
    made = check_same(net.module(y), net.rng.standard_normal((batch, 7, 6, groups * inside)))
    together = 8 // max(inside, out)
    fits = together > 1 and min(inside, out) > 1 and groups % together == 0
    (product,) = [op for op in made.walk() if isinstance(op, tensor.Contract)]
    assert np.prod(product.b.type.shape) == groups * inside * out * taps**2 * (together if fits else 1)


def test_without_blocks_a_nan_stays_within_the_windows_that_see_it() -> None:
    net = Net(1, 3, 5, 16)
    module = net.module(net.conv(net.conv(net.x, 8, taps=1), 3, taps=3))
    x = np.ones((1, 3, 5, 16))
    x[0, 0, 2, 8] = np.nan
    alone = PassManager([Stage("tensor", ChannelsLast(1, blocks=False), Dce())]).run(module.clone())
    seen = [np.isnan(evaluate(made.function("main"), [x])[0]).sum() for made in (module, alone, turned(module))]
    assert seen[0] == seen[1] == 3 * 9 < seen[2]


def test_weights_that_are_arguments_are_stacked_too() -> None:
    main = Func.empty(
        "main", [TensorType((1, 4, 5, 9), f64), TensorType((2, 4, 3, 3), f64)], arg_names=["x", "w"], arg_roles=("input", "param")
    )
    b = Builder.at_end(main.block)
    y = b(nn.Conv, main.args[0], main.args[1], padding=(1, 1, 1, 1))
    b.insert(Return([b(nn.Transpose, y, perm=(0, 2, 3, 1))]))
    module = Module.empty()
    module.block.append(main.finish())
    module = PassManager([Stage("tensor", nn_to_tensor, Canonicalize(), Dce())]).run(module)
    made = turned(module)
    assert rows_of_products(made) == [(2, 16)]
    inputs = [np.random.default_rng(0).standard_normal(shape) for shape in ((1, 4, 5, 9), (2, 4, 3, 3))]
    np.testing.assert_allclose(
        evaluate(made.function("main"), inputs)[0], evaluate(module.function("main"), inputs)[0], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("numbers", [{"out": 9}, {"out": 3, "stride": 2}, {"out": 3, "taps": 1}, {"out": 8, "groups": 8}])
def test_a_pixel_that_fills_its_lanes_or_shares_no_taps_is_computed_alone(numbers: dict[str, int]) -> None:
    net = Net(1, 3, 6, 8)
    y = net.b(nn.Mean, net.conv(net.conv(net.x, 8), **numbers), axis=(2, 3))
    made = check_same(net.module(y), np.random.default_rng(0).standard_normal((1, 3, 6, 8)))
    assert rows_of_products(made)[-1][-1] in (1, numbers["out"])


def test_a_convolution_of_single_pixels_is_a_product_with_a_row_for_each() -> None:
    n = symbol("N")
    net = Net(n, 3, 6, 6)
    y = net.conv(net.conv(net.x, 4), 5, taps=1)
    made = turned(net.module(net.b(nn.Mean, y, axis=(2, 3))))
    product = [op for op in made.walk() if isinstance(op, tensor.Contract)][-1]
    assert product.result.type.shape == (36 * n, 5)
    assert count(made, tensor.Window) == 1 and count(made, tensor.Transpose) == 0


def test_a_residual_net_with_pools_and_squeezes_has_no_transpose_left() -> None:
    net = Net(1, 3, 16, 16)
    x = net.b(nn.MaxPool, net.b(nn.Relu, net.conv(net.x, 8)), kernel=(3, 3), strides=(2, 2), padding=(1,) * 4)
    y = net.conv(net.b(nn.Relu, net.conv(x, 8)), 8)
    gate = net.b(nn.Sigmoid, net.conv(net.b(nn.Mean, y, axis=(2, 3), keepdims=True), 8, taps=1))
    y = net.b(nn.Relu, net.b(nn.Add, net.b(nn.Mul, y, gate), net.conv(x, 8, taps=1)))
    y = net.b(nn.Concat, [y, net.b(nn.AvgPool, y, kernel=(3, 3), strides=(1, 1), padding=(1,) * 4)], axis=1)
    flat = net.b(nn.Reshape, net.b(nn.Mean, y, axis=(2, 3), keepdims=True), shape=(1, 16))
    made = check_same(net.module(flat), np.random.default_rng(0).standard_normal((1, 3, 16, 16)))
    assert count(made, tensor.Transpose) == 0


def test_a_depthwise_convolution_is_elementwise_along_channels() -> None:
    net = Net(1, 3, 8, 8)
    y = net.conv(net.conv(net.conv(net.x, 6), 6, groups=6), 4, taps=1)
    made = check_same(net.module(net.b(nn.Mean, y, axis=(2, 3))), np.random.default_rng(0).standard_normal((1, 3, 8, 8)))
    assert specs(made) == ["NCabmn,OCmn->NabO", "NabGmn,Gmn->NabG", "rC,OC->rO"]
    assert count(made, tensor.Transpose) == 0


def test_shuffled_channels_are_brought_into_order_where_they_are_joined() -> None:
    net = Net(2, 3, 4, 5)
    y = net.conv(net.x, 6)
    split = net.b(nn.Reshape, y, shape=(2, 2, 3, 4, 5))
    joined = net.b(nn.Reshape, net.b(nn.Transpose, split, perm=(0, 2, 1, 3, 4)), shape=(2, 6, 4, 5))
    made = check_same(net.module(net.b(nn.Mean, net.conv(joined, 4), axis=(2, 3))), np.random.default_rng(0).standard_normal((2, 3, 4, 5)))
    (shuffle,) = [op for op in made.walk() if isinstance(op, tensor.Transpose)]
    assert shuffle.perm == (0, 1, 2, 4, 3)


def test_patches_become_rows_of_a_matrix() -> None:
    net = Net(2, 3, 8, 8)
    y = net.b(nn.Reshape, net.conv(net.x, 6, taps=4, stride=4, pad=0), shape=(2, 6, 4))
    y = net.b(nn.Softmax, net.b(nn.Transpose, y, perm=(0, 2, 1)), axis=-1)
    made = check_same(net.module(net.b(nn.Mean, y, axis=(1,))), np.random.default_rng(0).standard_normal((2, 3, 8, 8)))
    assert count(made, tensor.Transpose) == 0


@pytest.mark.parametrize("taps", [1, 3])
def test_few_channels_stay_as_they_are(taps: int) -> None:
    net = Net(1, 1, 28, 28)
    y = net.conv(net.conv(net.x, 6), 16, taps=taps)
    module = net.module(net.b(nn.Mean, y, axis=(2, 3)))
    assert str(turned(module, 32)) == str(module)


@pytest.mark.parametrize("stride, width, turns", [(2, symbol("W"), True), (1, symbol("W"), False), (2, 28, False)])
def test_few_channels_of_strided_windows_are_turned_where_rows_are_of_unknown_length(stride: int, width: Any, turns: bool) -> None:
    net = Net(1, 3, 28, width)
    module = net.module(net.b(nn.Relu, net.conv(net.x, 16, stride=stride)))
    made = check_same(module, np.random.default_rng(0).standard_normal((1, 3, 28, 28)), 32)
    assert any(spec.endswith("->NabO") for spec in specs(made)) == turns


@pytest.mark.parametrize("groups, width, turns", [(1, symbol("W"), True), (32, symbol("W"), True), (8, symbol("W"), False), (1, 28, False)])
def test_long_sums_and_single_channels_are_turned_where_rows_are_of_unknown_length(groups: int, width: Any, turns: bool) -> None:
    net = Net(1, 32, 28, width)
    module = net.module(net.b(nn.Relu, net.conv(net.x, 32, groups=groups)))
    made = check_same(module, np.random.default_rng(0).standard_normal((1, 32, 28, 28)), 32)
    assert (count(made, tensor.Transpose) > 0) == turns


def test_a_convolution_whose_channels_are_last_outside_has_no_transpose_left() -> None:
    net = Net(2, 9, 9, 8)
    x = net.b(nn.Transpose, net.x, perm=(0, 3, 1, 2))
    y = net.b(nn.Relu, net.conv(x, 12))
    made = check_same(net.module(net.b(nn.Transpose, y, perm=(0, 2, 3, 1))), np.random.default_rng(0).standard_normal((2, 9, 9, 8)))
    assert count(made, tensor.Transpose) == 0
    assert specs(made) == ["NabCmn,OCmn->NabO"]


def test_a_residual_whose_channels_are_last_outside_is_read_as_it_stands() -> None:
    net = Net(2, 5, 4, 6)
    x = net.b(nn.Transpose, net.x, perm=(0, 3, 1, 2))
    y = net.b(nn.Add, net.conv(net.conv(x, 9), 6, taps=1), x)
    module = net.module(net.b(nn.Transpose, net.b(nn.Relu, y), perm=(0, 2, 3, 1)))
    assert count(check_same(module, np.random.default_rng(0).standard_normal((2, 5, 4, 6))), tensor.Transpose) == 0


def test_a_function_that_gives_back_all_it_computes_stays_as_it_is() -> None:
    net = Net(1, 3, 8, 8)
    module = net.module(net.conv(net.x, 64))
    assert str(turned(module)) == str(module)


STEPS = (
    "conv",
    "strided",
    "grouped",
    "depthwise",
    "pointwise",
    "transposed",
    "relu",
    "scale",
    "residual",
    "pool",
    "mean",
    "concat",
    "slice",
    "pad",
    "flip",
    "shuffle",
    "outside",
)


def step(net: Net, kind: str, x: Value) -> Value:
    """One more layer on `x`, [2, 4, *sizes]."""
    b, shape = net.b, x.type.shape  # type: ignore[union-attr]
    spatial = len(shape) - 2
    if kind == "conv":
        return net.conv(x, 4)
    if kind == "strided":
        return net.conv(x, 4, stride=2)
    if kind == "grouped":
        return net.conv(x, 4, groups=2)
    if kind == "depthwise":
        return net.conv(x, 4, groups=4)
    if kind == "pointwise":
        return net.conv(x, 4, taps=1)
    if kind == "transposed":
        weight = net.constant(4, 4, *(3,) * spatial)
        return b(nn.ConvTranspose, x, weight, strides=(2,) * spatial, padding=(1,) * (2 * spatial))  # type: ignore[no-any-return]
    if kind == "relu":
        return b(nn.Relu, x)  # type: ignore[no-any-return]
    if kind == "scale":
        return b(nn.Mul, x, net.constant(4, *(1,) * spatial))  # type: ignore[no-any-return]
    if kind == "residual":
        return b(nn.Add, x, net.conv(x, 4))  # type: ignore[no-any-return]
    if kind == "pool":
        return b(nn.MaxPool, x, kernel=(3,) * spatial, strides=(1,) * spatial, padding=(1,) * (2 * spatial))  # type: ignore[no-any-return]
    if kind == "mean":
        return b(nn.Add, x, b(nn.Mean, x, axis=tuple(range(2, len(shape))), keepdims=True))  # type: ignore[no-any-return]
    if kind == "concat":
        return net.conv(b(nn.Concat, [x, b(nn.Relu, x)], axis=1), 4, taps=1)
    if kind == "slice":
        return b(nn.Slice, x, starts=(0,) * len(shape), stops=shape, strides=(1, 1, *(2,) * spatial))  # type: ignore[no-any-return]
    if kind == "pad":
        return b(nn.Pad, x, padding=(0, 0, 0, 0, *(1, 0) * spatial))  # type: ignore[no-any-return]
    if kind == "flip":
        return b(nn.Flip, x, axes=(1, 2))  # type: ignore[no-any-return]
    if kind == "shuffle":
        split = b(nn.Reshape, x, shape=(2, 2, 2, *shape[2:]))
        return b(nn.Reshape, b(nn.Transpose, split, perm=(0, 2, 1, *range(3, len(shape) + 1))), shape=shape)  # type: ignore[no-any-return]
    return b(nn.Add, x, net.constant(2, *shape[1:]))  # type: ignore[no-any-return]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7), st.integers(1, 3))
def test_any_net_computes_the_same(kinds: list[str], spatial: int) -> None:
    shape = (2, 3, *(6, 5, 4)[:spatial])
    net = Net(*shape)
    y = net.conv(net.x, 4)
    for kind in kinds:
        y = step(net, kind, y)
    module = net.module(net.b(nn.Sum, y, axis=tuple(range(2, spatial + 2))))
    check_same(module, np.random.default_rng(1).standard_normal(shape))


@pytest.mark.parametrize(("spec", "sizes"), [("ab,bc->ac", "234"), ("ab,cd->abcd", "2345"), (",a->a", "3")])
def test_a_product_of_windows_along_no_axis_is_no_convolution(spec, sizes):
    """They are their operand: nothing slides."""
    shapes = [tuple(int(sizes["abcd".index(c)]) for c in letters) for letters in spec.split("->")[0].split(",")]
    main = Func.empty("main", [TensorType(shape, f64) for shape in shapes], arg_names=["x", "w"], arg_roles=("input",) * 2)
    b = Builder.at_end(main.block)
    windows = b(tensor.Window, main.args[0], axes=(), sizes=(), strides=(), dilations=())
    b.insert(Return([b(tensor.Contract, windows, main.args[1], spec=spec)]))
    module = Module.empty()
    module.block.append(main.finish())
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape) for shape in shapes]
    after = turned(module)
    np.testing.assert_allclose(evaluate(after, inputs)[0], np.einsum(spec, *inputs))
    assert count(after, tensor.Transpose) == 0


@pytest.mark.parametrize(("taps", "size", "groups", "turns"), [(3, 8, 1, True), (1, 8, 1, False), (3, 4, 1, False), (3, 8, 4, False)])
def test_a_step_of_training_is_turned_where_winograds_algorithm_does_most_of_it(taps: int, size: int, groups: int, turns: bool) -> None:
    pixels, weights = TensorType((2, 8, size, size), f64), TensorType((8, 8 // groups, taps, taps), f64)
    main = Func.empty("main", [pixels, weights], arg_names=["x", "w"], arg_roles=("input", "state"))
    b = Builder.at_end(main.block)
    x, w = main.args
    numbers = {"strides": (1, 1), "padding": (taps // 2,) * 4, "groups": groups}
    y = b(nn.Relu, b(nn.Conv, x, w, **numbers))
    dx = b(nn.ConvTranspose, y, w, sizes=(size, size), dilations=(1, 1), **numbers)
    again = b(nn.Conv, dx, w, **numbers)
    dw = b(nn.ConvFilter, x, again, kernel=(taps, taps), dilations=(1, 1), **numbers)
    b.insert(Return([b(nn.Sub, w, dw), b(nn.Sum, again, axis=(0, 2, 3))]))
    module = Module.empty()
    module.block.append(main.finish())
    module = PassManager([Stage("tensor", nn_to_tensor, Canonicalize(), Dce())]).run(module)
    made = turned(module, 8)
    assert (specs(made) != specs(module)) == turns
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(t.shape) for t in (pixels, weights)]  # type: ignore[arg-type]
    for expected, got in zip(evaluate(module.function("main"), inputs), evaluate(made.function("main"), inputs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_what_a_product_or_a_fold_gives_pixel_by_pixel_stays_so_up_to_the_next_convolution() -> None:
    """As convolutions are that are products of patches, and their adjoints."""
    shapes: tuple[tuple[int, ...], ...] = ((128, 20), (20, 12), (2, 8, 7, 12, 2, 2), (24, 12, 3, 3))
    main = Func.empty("main", [TensorType(s, f64) for s in shapes], arg_names=["p", "w", "q", "v"], arg_roles=("input", "state") * 2)
    b = Builder.at_end(main.block)
    p, w, q, v = main.args
    product = b(tensor.Reshape, b(tensor.Contract, p, w, spec="rk,ko->ro"), shape=(2, 8, 8, 12))
    folded = b(tensor.Fold, q, axes=(1, 2), sizes=(9, 8), strides=(1, 1), dilations=(1, 1))
    part = b(tensor.Slice, folded, starts=(0, 1, 0, 0), stops=(2, 9, 8, 12), strides=(1, 1, 1, 1))
    planes = [b(tensor.Transpose, x, perm=(0, 3, 1, 2)) for x in (product, part)]
    y = b(tensor.Map, b(tensor.Map, *planes, fn="mul"), fn="neg")
    windows = b(tensor.Window, y, axes=(2, 3), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
    result = b(tensor.Contract, windows, v, spec="NCabmn,OCmn->NOab")
    b.insert(Return([b(tensor.Reduce, result, fn="add", axes=(2, 3))]))
    module = Module.empty()
    module.block.append(main.finish())
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape) for shape in shapes]
    after = turned(module)
    np.testing.assert_allclose(evaluate(after, inputs)[0], evaluate(module, inputs)[0])
    assert count(after, tensor.Transpose) == 0
