"""Pixels of planar images as one axis of a product: where they are, what comes out, and which kernels take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.builtin import Module
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.text import print_module
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.join_pixels import join_pixels
from polyreme.lowering.kernels.plan import Request, request_of
from polyreme.lowering.machines.targets import TARGETS, host
from tests.lowering.products import check_evaluated, check_native, root_of, to_kernels

N, H, W = symbol("N"), symbol("H"), symbol("W")
CHANNELS, FILTERS = 12, 21


def convolution(
    batch: Dim, height: Dim, width: Dim, bias: tuple[Dim, ...] = (1, FILTERS, 1, 1), stride: int = 1, weights_first: bool = False
) -> Module:
    """relu(conv1x1(x, w) + bias) * y, whose arguments are x, w, bias and y."""

    def out(n: Dim) -> Dim:
        return n if stride == 1 else -(-n // stride) if isinstance(n, int) else (n + stride - 1) // stride

    shape = (batch, FILTERS, out(height), out(width))
    types = [TensorType(s, f32) for s in ((batch, CHANNELS, height, width), (FILTERS, CHANNELS, 1, 1), bias, shape)]

    def make(build: Any, x: Any, w: Any, b: Any, y: Any) -> Any:
        seen = build(tensor.Window, x, axes=(2, 3), sizes=(1, 1), strides=(stride, stride), dilations=(1, 1))
        spec = "OCmn,NCabmn->NOab" if weights_first else "NCabmn,OCmn->NOab"
        sums = build(tensor.Contract, *((w, seen) if weights_first else (seen, w)), spec=spec)
        zero = build(tensor.Full, value=0.0, shape=(), dtype=f32)
        positive = build(tensor.Map, build(tensor.Map, sums, b, fn="add"), zero, fn="max")
        return build(tensor.Map, positive, y, fn="mul")

    return root_of(types, make)


def root(module: Module) -> Request:
    (op,) = [op for op in module.function().block if isinstance(op, tensor.Fused)]
    return request_of(op, host())


def arrays(batch: int, height: int, width: int, bias: tuple[int, ...] = (1, FILTERS, 1, 1)) -> tuple[list[Any], Any]:
    draw = np.random.default_rng(5)
    shapes = ((batch, CHANNELS, height, width), (FILTERS, CHANNELS, 1, 1), bias, (batch, FILTERS, height, width))
    x, w, b, y = (draw.standard_normal(s).astype(np.float32) for s in shapes)
    return [x, w, b, y], np.maximum(np.einsum("ncab,oc->noab", x.astype(np.float64), w[:, :, 0, 0]) + b, 0) * y


@pytest.mark.parametrize("weights_first", [False, True])
@pytest.mark.parametrize(("batch", "height", "width"), [(1, 14, 14), (2, 3, 5), (1, 1, 1), (3, 1, 70), (1, 0, 4), (0, 3, 3)])
def test_free_images_of_single_pixels_are_products_over_all_pixels(batch: int, height: int, width: int, weights_first: bool) -> None:
    module = convolution(N, H, W, weights_first=weights_first)
    inputs, expected = arrays(batch, height, width)
    check_native(module, inputs, expected, f32)
    check_evaluated(module, inputs, expected, f32, TARGETS["aarch64"])
    lowered, _ = to_kernels(module, host())
    assert "H*W" in print_module(lowered)


def test_pixels_are_joined_where_nothing_tells_rows_apart() -> None:
    def results(module: Module) -> tuple[Dim, ...]:
        found: tuple[Dim, ...] = join_pixels(root(module)).result_types[0].shape
        return found

    assert results(convolution(N, H, W)) == (N, FILTERS, H * W)
    assert results(convolution(N, 7, 9)) == (N, FILTERS, 63)
    assert results(convolution(N, H, W, bias=())) == (N, FILTERS, H * W)
    assert results(convolution(N, H, W, bias=(N, FILTERS, H, W))) == (N, FILTERS, H * W)
    assert results(convolution(N, H, W, bias=(1, 1, 1, W))) == (N, FILTERS, H, W), "a bias along rows"
    assert results(convolution(N, 8, 8, stride=2)) == (N, FILTERS, 4, 4)


@pytest.mark.parametrize(("height", "width", "builder"), [(16, 16, "contract"), (3, 3, "nchw"), (40, 40, "contract")])
def test_known_images_whose_pixels_fill_vectors_are_products(height: int, width: int, builder: str) -> None:
    module = convolution(1, height, width)
    inputs, expected = arrays(1, height, width)
    check_native(module, inputs, expected, f32, TARGETS["x86-64-avx2"])
    _, builders = to_kernels(module, TARGETS["x86-64-avx2"])
    assert builders == [builder]


def test_one_channel_of_known_images_is_no_product() -> None:
    types = [TensorType((1, CHANNELS, 16, 16), f32), TensorType((1, CHANNELS, 1, 1), f32)]

    def make(build: Any, x: Any, w: Any) -> Any:
        seen = build(tensor.Window, x, axes=(2, 3), sizes=(1, 1), strides=(1, 1), dilations=(1, 1))
        return build(tensor.Contract, seen, w, spec="NCabmn,OCmn->NOab")

    assert to_kernels(root_of(types, make), TARGETS["x86-64-avx2"])[1] == ["nchw"]


def test_what_has_one_axis_has_no_pixels() -> None:
    """The gradient of a vector behind a linear layer: `build_nchw_conv` asks for its channels."""
    module = root_of(
        [TensorType((1, 2), f32), TensorType((4, 2), f32)],
        lambda build, x, w: build(tensor.Reshape, build(tensor.Contract, x, w, spec="MK,NK->MN"), shape=(4,)),
    )
    x, w = np.array([[2.0, -3.0]], np.float32), np.arange(8, dtype=np.float32).reshape(4, 2)
    check_native(module, [x, w], (x @ w.T).reshape(4), f32)
