"""Convolutions of few pixels, and their adjoints, as products of patches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import ScalarType, TensorType, bf16, f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.patch_products import PatchProducts
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module

# Sizes of images, of kernels, and the numbers of a convolution.
CONVOLUTIONS = {
    "3x3": ((4, 4), (3, 3), {"padding": (1, 1, 1, 1)}),
    "3x3 by two": ((5, 4), (3, 3), {"padding": (1, 1, 1, 0), "strides": (2, 2)}),
    "1x1 by two": ((4, 5), (1, 1), {"strides": (2, 2)}),
    "no padding": ((3, 4), (2, 3), {}),
    "dilated": ((6, 5), (3, 2), {"padding": (2, 1, 0, 1), "dilations": (2, 1)}),
    "rows that no window reaches": ((6, 5), (2, 2), {"strides": (3, 2)}),
    "along one axis": ((7,), (3,), {"padding": (1, 1), "strides": (2,)}),
    "volumes": ((2, 3, 3), (2, 3, 1), {"padding": (1, 1, 1, 1, 0, 0), "strides": (1, 2, 1)}),
}


def step(
    sizes: Any,
    kernel: Any,
    numbers: dict[str, Any],
    batch: Any = 2,
    channels: int = 3,
    out: int = 64,
    kind: ScalarType = f64,
    role: str = "state",
) -> Module:
    """A function of an image, a weight and a gradient that gives a convolution, with and without a bias, and both of its adjoints."""
    weight = TensorType((out, channels, *kernel), kind)
    x = TensorType((batch, channels, *sizes), kind)
    y = nn.Conv.infer(x, weight, None, **{"strides": (), "padding": (), "dilations": (), "groups": 1} | numbers)
    roles = ("input", role, "input", "input")
    main = Func.empty("main", [x, weight, y, TensorType((out,), kind)], arg_names=("x", "w", "dy", "c"), arg_roles=roles)
    b = Builder.at_end(main.block)
    a, w, dy, c = main.args
    results = [
        b(nn.Conv, a, w, None, **numbers),
        b(nn.Conv, a, w, c, **numbers),
        b(nn.ConvTranspose, dy, w, sizes=sizes, **numbers),
        b(nn.ConvFilter, a, dy, kernel=kernel, **numbers),
    ]
    b.insert(Return(results))
    module = Module.empty()
    module.block.append(main.finish())
    verify(module)
    return module


def inputs_of(module: Module) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(arg.type.shape).astype(arg.type.dtype.np) for arg in module.function().args]


def left(module: Module) -> list[str]:
    """The convolutions of a module, and their adjoints."""
    return [op.name for op in module.function().block if isinstance(op, (nn.Conv, nn.ConvTranspose, nn.ConvFilter))]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_products_of_patches_are_the_convolution_and_its_adjoints(name: str) -> None:
    module = step(*CONVOLUTIONS[name], out=256)
    inputs = inputs_of(module)
    before = evaluate(module, inputs)
    PatchProducts(room=1 << 30).run(module)
    verify(module)
    assert "nn.conv" not in left(module) and "nn.conv_filter" not in left(module)
    for made, wanted in zip(evaluate(module, inputs), before, strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["3x3", "3x3 by two", "1x1 by two", "along one axis"])
def test_they_are_so_when_they_are_compiled(name: str) -> None:
    module = step(*CONVOLUTIONS[name], channels=5, out=256, kind=f32)
    inputs = inputs_of(module)
    exact = evaluate(step(*CONVOLUTIONS[name], channels=5, out=256), [x.astype(np.float64) for x in inputs])
    compiled = compile_module(module, find_target("native"))
    for made, wanted in zip(compiled.load().run(inputs), exact, strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-4)


ELSEWHERE = {
    "weights that do not change": {"role": "param"},
    "sizes that are not known": {"batch": symbol("N")},
    "more pixels than channels": {"batch": 64, "out": 8},
    "sums of another type": {"kind": bf16},
}


@pytest.mark.parametrize("why", ELSEWHERE)
def test_other_convolutions_stay(why: str) -> None:
    module = step((8, 8), (3, 3), {"padding": (1, 1, 1, 1)}, **ELSEWHERE[why])
    PatchProducts().run(module)
    assert left(module) == ["nn.conv", "nn.conv", "nn.conv_transpose", "nn.conv_filter"]


def test_weights_that_a_step_leaves_as_they_are_are_packed_before_it() -> None:
    """Of a net that is not trained while another one is; its gradients still are of images a stride apart."""
    for numbers, kept in (
        ({"padding": (1, 1, 1, 1)}, ["nn.conv", "nn.conv", "nn.conv_transpose"]),
        ({"strides": (2, 2)}, ["nn.conv", "nn.conv"]),
    ):
        module = step((4, 4), (3, 3), numbers, out=256, role="param")
        main = module.function()
        main.attributes = {**main.attributes, "arg_roles": ("input", "param", "input", "state")}
        PatchProducts().run(module)
        assert left(module) == kept


def test_groups_and_single_pixels_without_a_stride_stay() -> None:
    module = step((4, 4), (1, 1), {})
    PatchProducts().run(module)
    assert len(left(module)) == 4
    main = Func.empty(
        "main", [TensorType((1, 4, 2, 2), f32), TensorType((64, 2, 2, 2), f32)], arg_names=("x", "w"), arg_roles=("input", "state")
    )
    b = Builder.at_end(main.block)
    b.insert(Return([b(nn.Conv, *main.args, None, groups=2)]))
    module = Module.empty()
    module.block.append(main.finish())
    PatchProducts().run(module)
    assert left(module) == ["nn.conv"]


def test_winograd_s_algorithm_keeps_what_it_does_faster() -> None:
    """The last layers of ResNet-18 for images of 224 by 224 and of 64 by 64."""
    for size, kept in ((7, ["nn.conv", "nn.conv", "nn.conv_transpose"]), (2, [])):
        module = step((size, size), (3, 3), {"padding": (1, 1, 1, 1)}, batch=8, channels=512, out=512, kind=f32)
        PatchProducts().run(module)
        assert left(module) == kept
    module = step((7, 7), (3, 3), {"padding": (1, 1, 1, 1)}, batch=8, channels=512, out=512, kind=f32)
    PatchProducts(winograd=False).run(module)
    assert left(module) == []


def test_patches_that_come_from_memory_are_not_made() -> None:
    module = step((4, 4), (3, 3), {"padding": (1, 1, 1, 1)}, out=256)
    PatchProducts(room=1000).run(module)
    assert len(left(module)) == 4
