"""Gradients of depthwise weights: windows of an image times a gradient, summed over all images and pixels, against numpy in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.lowering.kernels.conv.nchw_choice import build_nchw_conv, choose_nchw, find_image
from polyreme.lowering.kernels.conv.nchw_strategy import SummedTile
from polyreme.lowering.kernels.plan import request_of
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.pipeline import compile_module
from tests.lowering import products
from tests.lowering.products import root_of

LETTERS = "hwd"
TAPS = "klm"


@dataclass(frozen=True)
class Case:
    """Gradients of `taps` for each of the channels of an image: `places` of windows, `stride` and `dilation` along each axis. With `tail` a
    step of training is made of them. `open` leaves the number of images free, and the number of places along the last axis.
    """

    images: int
    channels: int
    places: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    dtype: ScalarType = f32
    tail: bool = False
    open: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the image, which the windows reach to its end."""
        numbers = zip(self.places, self.taps, self.stride, self.dilation, strict=True)
        return tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in numbers)

    def arrays(self) -> list[Any]:
        """The gradient, the image and the weights."""
        rng = np.random.default_rng(5)
        shapes = (self.images, self.channels, *self.places), (self.images, self.channels, *self.sizes), (self.channels, *self.taps)
        return [rng.standard_normal(s).astype(self.dtype.np) for s in shapes]


def expected_of(case: Case) -> Any:
    """The result in float64, tap by tap."""
    gradient, image, weights = (a.astype(np.float64) for a in case.arrays())
    made = np.zeros(weights.shape)
    for tap in product(*map(range, case.taps)):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, s, d in zip(tap, case.places, case.stride, case.dilation, strict=True)
        )
        made[(slice(None), *tap)] = (gradient * image[(slice(None), slice(None), *at)]).sum((0, *range(2, gradient.ndim)))
    return weights - 0.1 * made if case.tail else made


def module_of(case: Case) -> Module:
    """The group of the case."""
    rank = len(case.taps)
    spatial, taps = LETTERS[:rank], TAPS[:rank]
    images: Dim = case.images
    places: tuple[Dim, ...] = case.places
    sizes: tuple[Dim, ...] = case.sizes
    if case.open:
        images, last = symbol("N"), symbol("W")
        places = *places[:-1], last
        sizes = *sizes[:-1], last * case.stride[-1] + (case.sizes[-1] - case.places[-1] * case.stride[-1])
    shapes = (images, case.channels, *places), (images, case.channels, *sizes), (case.channels, *case.taps)

    def made(b: Builder, gradient: Any, image: Any, weights: Any) -> Any:
        windows = b(
            tensor.Window, image, axes=tuple(range(2, 2 + rank)), sizes=case.taps, strides=case.stride, dilations=case.dilation
        )  # fmt: skip
        y = b(tensor.Contract, gradient, windows, spec=f"nc{spatial},nc{spatial}{taps}->c{taps}")
        if case.tail:
            rate = b(tensor.Full, value=0.1, shape=(), dtype=case.dtype)
            y = b(tensor.Map, weights, b(tensor.Map, y, rate, fn="mul"), fn="sub")
        return y

    return root_of([TensorType(s, case.dtype) for s in shapes], made)


def takes(module: Module, target: Target = TARGETS["x86-64-avx512"]) -> bool:
    """Whether the module's one group is computed so."""
    (group,) = [op for op in module.function().block if isinstance(op, tensor.Fused)]
    image = find_image(request_of(group, target))
    chosen = None if image is None else choose_nchw(image)
    return chosen is not None and isinstance(chosen.tile, SummedTile)


@st.composite
def cases(draw: Any) -> Case:
    """Any small case of two axes or three."""
    rank = draw(st.integers(2, 3))
    several = lambda most: tuple(draw(st.integers(1, most)) for _ in range(rank))
    places = (*several(3)[1:], draw(st.integers(2, 40)))
    taps, stride, dilation = (*several(3)[1:], draw(st.integers(2, 5))), (*several(3)[1:], draw(st.integers(1, 2))), several(2)
    dtype, flags = draw(st.sampled_from([f32, f64])), {name: draw(st.booleans()) for name in ("tail", "open")}
    return Case(draw(st.integers(1, 2)), draw(st.sampled_from([1, 3])), places, taps, stride, dilation, dtype, **flags)


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from(["x86-64-avx2", "x86-64-avx512"]))
def test_kernels_agree_with_numpy_and_touch_no_memory_outside(case: Case, target: str) -> None:
    products.check_evaluated(module_of(case), case.arrays(), expected_of(case), case.dtype, TARGETS[target])


NATIVE = [
    Case(8, 5, (19, 19), (3, 3), (1, 1), (1, 1)),
    Case(3, 20, (10, 10), (3, 3), (2, 2), (1, 1), tail=True),
    Case(2, 7, (14, 33), (5, 5), (1, 1), (1, 1), open=True),
    Case(2, 7, (14, 33), (5, 5), (2, 2), (1, 1), tail=True, open=True),
    Case(8, 3, (7, 14), (7, 7), (1, 1), (1, 1), tail=True),
    Case(1, 3, (9, 40), (4, 4), (1, 2), (2, 1), f64, open=True),
    Case(2, 4, (3, 5, 18), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
]


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    assert takes(module_of(case), host())
    products.check_native(module_of(case), case.arrays(), expected_of(case), case.dtype)


@pytest.mark.parametrize("stride", [1, 2])
def test_one_kernel_serves_images_of_any_number_and_width(stride: int) -> None:
    case = Case(1, 3, (4, 8), (3, 3), (1, stride), (1, 1), open=True)
    made = compile_module(module_of(case), host()).load()
    for images, width in [*((1, w) for w in range(1, 36)), (0, 8), (40, 50)]:
        sized = replace(case, images=images, places=(4, width))
        products.assert_close(made.run(sized.arrays())[0], expected_of(sized), case.dtype)


def test_what_lies_behind_a_row_takes_no_part() -> None:
    case = Case(1, 1, (2, 9), (1, 3), (1, 2), (1, 1))
    gradient, image, weights = case.arrays()
    # Behind the last window of a row is a pixel more.
    wide = np.full((1, 1, 2, image.shape[3] + 1), np.nan, np.float32)
    wide[..., :-1] = image
    module = module_of(case)
    types = [TensorType(a.shape, f32) for a in (gradient, wide, weights)]

    def made(b: Builder, gradient: Any, image: Any, _: Any) -> Any:
        windows = b(tensor.Window, image, axes=(2, 3), sizes=(1, 3), strides=(1, 2), dilations=(1, 1))
        return b(tensor.Contract, gradient, windows, spec="nchw,nchwkl->ckl")

    module = root_of(types, made)
    assert takes(module, host())
    products.check_native(module, [gradient, wide, weights], expected_of(case), f32)


@pytest.mark.parametrize(
    "case",
    [
        Case(2, 4, (20, 20), (3, 3), (1, 3), (1, 1)),
        Case(2, 4, (20, 1), (3, 3), (1, 1), (1, 1)),
        Case(2, 4, (20, 20), (3, 3), (1, 1), (1, 1)),
    ],
    ids=str,
)
def test_others_are_left_to_other_strategies(case: Case) -> None:
    """Pixels far apart, no rows that are summed, and machines without masks."""
    without_masks = case.stride == (1, 1) and case.places[-1] > 1
    assert not takes(module_of(case), TARGETS["aarch64" if without_masks else "x86-64-avx512"])


def test_schedules_say_what_was_chosen_and_others_are_refused() -> None:
    wide, case = TARGETS["x86-64-avx512"], Case(2, 3, (14, 20), (5, 5), (1, 1), (1, 1), tail=True)
    own, *_ = products.check_candidates(module_of(case), case.arrays(), expected_of(case), f32, build_nchw_conv, wide)
    assert str(own) == "nchw<lanes = 16, tile = summed<high = 3>, rows = 5, grain = 4>"
    changes = [
        ("lanes = 16", "lanes = 8"),
        ("high = 3", "high = 6"),
        ("high = 3", "high = 5"),
        ("high = 3", "high = 0"),
        ("rows = 5", "rows = 6"),
    ]
    products.check_refused(module_of(case), build_nchw_conv, wide, changes)
