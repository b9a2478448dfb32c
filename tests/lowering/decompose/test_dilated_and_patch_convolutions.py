"""Convolutions whose pixels are reordered first: dilated windows, and windows that do not overlap (patches)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.pipeline import compile_module
from polyreme.lowering.transforms.channels_last import ChannelsLast
from polyreme.lowering.transforms.cleanup import Canonicalize, Dce


def convolution(shape: tuple[Any, ...], weight: Any, dtype: ScalarType = f32, **numbers: Any) -> Module:
    """Of images of this shape, planar, that come and go with channels last, with a bias, and relu behind it."""
    rng = np.random.default_rng(1)
    main = Func.empty("main", [TensorType((shape[0], *shape[2:], shape[1]), dtype)], arg_names=["x"])
    b = Builder.at_end(main.block)
    known = [b(nn.Constant, value=value.astype(dtype.np)) for value in (weight, rng.standard_normal(len(weight)))]
    spatial = len(shape) - 2
    x = b(nn.Transpose, main.args[0], perm=(0, 1 + spatial, *range(1, 1 + spatial)))
    b.insert(Return([b(nn.Transpose, b(nn.Relu, b(nn.Conv, x, *known, **numbers)), perm=(0, *range(2, 2 + spatial), 1))]))
    module = Module.empty()
    module.block.append(main.finish())
    verify(module)
    return module


# What turns images.
LAST = (Canonicalize(), Dce(), ChannelsLast(1), Dce())


def last(x: Any) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def check(module: Module, x: Any, *passes: Any) -> Module:
    """The module at tensor level, and after these passes, which computes the same for a planar x."""
    x = last(x)
    made = PassManager([Stage("tensor", nn_to_tensor, *passes)]).run(module.clone())
    verify(made)
    (expected,), (got,) = evaluate(module, [x]), evaluate(made, [x])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(initial=1))
    return made


def window_of(module: Module) -> tensor.Window:
    (window,) = [op for op in module.walk() if isinstance(op, tensor.Window)]
    return window


sizes, pads = st.integers(6, 13), st.integers(0, 4)


@settings(max_examples=40, deadline=None)
@given(high=sizes, wide=sizes, top=pads, bottom=pads, left=pads, right=pads, gap=st.integers(2, 3), batch=st.integers(1, 2))
def test_windows_with_gaps_are_windows_of_every_so_many_th_pixel(
    high: int, wide: int, top: int, bottom: int, left: int, right: int, gap: int, batch: int
) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((batch, 16, high, wide), np.float32), rng.standard_normal((17, 16, 3, 3), np.float32)
    places = min(high + top + bottom, wide + left + right) - 2 * gap
    if places < 1:
        return
    made = check(convolution(x.shape, weight, padding=(top, bottom, left, right), dilations=(gap, gap)), x, *LAST)
    assert window_of(made).dilations == ((1, 1) if places >= 2 * gap else (gap, gap))


@pytest.mark.parametrize(
    ("shape", "kernel", "numbers"),
    [
        ((1, 16, 12, 12), (3, 3), {"dilations": (2, 3)}),
        ((1, 16, 12, 12), (3, 3), {"dilations": (2, 2), "strides": (2, 2)}),
        ((1, 16, 12, 12), (5, 5), {"dilations": (2, 2)}),
        ((1, 32, 12, 12), (3, 3), {"dilations": (2, 2), "groups": 2}),
        ((1, 8, 12, 12), (3, 3), {"dilations": (2, 2)}),
        ((1, 16, 40), (3,), {"dilations": (2,)}),
    ],
)
def test_other_gaps_are_left_where_they_are(shape: tuple[int, ...], kernel: tuple[int, ...], numbers: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(shape, np.float32), rng.standard_normal((16, shape[1] // numbers.get("groups", 1), *kernel), np.float32)
    assert window_of(check(convolution(shape, weight, **numbers), x, *LAST)).dilations == numbers["dilations"]


def test_dilation_is_left_where_the_type_or_sizes_keep_winograds_algorithm_out() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((1, 16, 12, 12)), rng.standard_normal((16, 16, 3, 3))
    assert window_of(check(convolution(x.shape, weight, f64, dilations=(2, 2)), x, *LAST)).dilations == (2, 2)
    free = convolution((1, 16, symbol("H"), 12), weight, dilations=(2, 2))
    assert window_of(check(free, x.astype(np.float32), *LAST)).dilations == (2, 2)
    few = convolution(x.shape, weight[:8], dilations=(2, 2))
    assert window_of(check(few, x.astype(np.float32), *LAST)).dilations == (2, 2)


@settings(max_examples=25, deadline=None)
@given(
    places=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    taps=st.lists(st.integers(4, 9), min_size=3, max_size=3),
    channels=st.integers(1, 4),
    batch=st.integers(1, 2),
)
def test_windows_side_by_side_become_channels(places: list[int], taps: list[int], channels: int, batch: int) -> None:
    rng = np.random.default_rng(0)
    kernel = tuple(taps[: len(places)])
    x = rng.standard_normal((batch, channels, *(n * k for n, k in zip(places, kernel, strict=True))), np.float32)
    weight = rng.standard_normal((5, channels, *kernel), np.float32)
    made = check(convolution(x.shape, weight, strides=kernel), x)
    large = channels * int(np.prod(kernel)) >= 256
    assert window_of(made).sizes == ((1,) * len(kernel) if large else kernel)


def test_windows_that_overlap_or_leave_pixels_over_are_read_in_place() -> None:
    rng = np.random.default_rng(0)
    for size, taps, numbers in (
        (32, 16, {"strides": (8, 8)}),
        (33, 16, {"strides": (16, 16)}),
        (32, 16, {"strides": (16, 16), "padding": (8,) * 4}),
    ):
        x, weight = rng.standard_normal((1, 3, size, size), np.float32), rng.standard_normal((2, 3, taps, taps), np.float32)
        assert window_of(check(convolution(x.shape, weight, **numbers), x)).sizes == (taps, taps)


@pytest.mark.parametrize(
    ("shape", "kernel", "numbers"),
    [((2, 32, 14, 11), (3, 3), {"dilations": (2, 2), "padding": (2,) * 4}), ((1, 3, 64, 48), (16, 16), {"strides": (16, 16)})],
)
def test_compiled_they_give_what_the_evaluator_does(shape: tuple[int, ...], kernel: tuple[int, ...], numbers: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(shape, np.float32), rng.standard_normal((64, shape[1], *kernel), np.float32)
    module = convolution(shape, weight, **numbers)
    x = last(x)
    (expected,) = evaluate(module, [x])
    (got,) = compile_module(module.clone(), name="case").load().run([x])
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def test_the_batch_may_be_free() -> None:
    rng = np.random.default_rng(0)
    gaps = convolution((symbol("N"), 16, 9, 8), rng.standard_normal((16, 16, 3, 3)), padding=(2,) * 4, dilations=(2, 2))
    patches = convolution((symbol("N"), 3, 20, 10), rng.standard_normal((4, 3, 10, 10)), strides=(10, 10))
    for batch in (1, 3):
        assert window_of(check(gaps, rng.standard_normal((batch, 16, 9, 8), np.float32), *LAST)).dilations == (1, 1)
        assert window_of(check(patches, rng.standard_normal((batch, 3, 20, 10), np.float32))).sizes == (1, 1)
