"""Depthwise convolutions and poolings over channels-last images, against numpy in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import ScalarType, TensorType, f32, f64, i8, u8
from polyreme.lowering.kernels.conv.depthwise import build_depthwise_or_pooling
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.pipeline import compile_module
from tests.lowering import products
from tests.lowering.products import root_of

N = symbol("N")


@dataclass(frozen=True)
class Case:
    """Windows of `taps` over `x` [batch, *sizes, channels], padded by `pad` (before and after) along each spatial axis; `fn` is "conv" or
    the pooling's. `free` leaves the batch open, `open` the sizes of the image.
    """

    x: tuple[int, ...]
    taps: tuple[int, ...]
    stride: int = 1
    pad: tuple[int, int] = (0, 0)
    dilation: int = 1
    fn: str = "conv"
    copies: int = 0
    constant: bool = True
    free: bool = False
    dtype: ScalarType = f32
    tail: bool = False
    open: bool = False

    @property
    def weights(self) -> tuple[int, ...]:
        return (self.x[-1], *((self.copies,) if self.copies else ()), *self.taps)

    def arrays(self) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(5)
        shapes = [self.x, self.weights, (self.x[-1], *((self.copies,) if self.copies else ()))]
        x, w, bias = (rng.standard_normal(s).astype(self.dtype.np) for s in shapes)
        return x, w, bias


def expected_of(case: Case) -> Any:
    """The result in float64, tap by tap."""
    x, w, bias = (a.astype(np.float64) for a in case.arrays())
    outside = {"conv": 0.0, "add": 0.0, "max": -np.inf, "min": np.inf}[case.fn]
    x = np.pad(x, [(0, 0), *[case.pad] * len(case.taps), (0, 0)], constant_values=outside)
    places = [(n - (k - 1) * case.dilation - 1) // case.stride + 1 for n, k in zip(x.shape[1:-1], case.taps, strict=True)]
    y: Any = None
    for tap in product(*map(range, case.taps)):
        at = tuple(
            slice(t * case.dilation, t * case.dilation + (n - 1) * case.stride + 1, case.stride) for t, n in zip(tap, places, strict=True)
        )
        part = x[(slice(None), *at)]
        if case.fn == "conv":
            weights = w[(Ellipsis, *tap)]
            part = part[..., None] * weights if case.copies else part * weights
        y = part if y is None else {"conv": np.add, "add": np.add, "max": np.maximum, "min": np.minimum}[case.fn](y, part)
    return np.maximum(y + bias, 0) if case.tail else y


def module_of(case: Case) -> tuple[Module, list[Any]]:
    """The group of the case, and its inputs."""
    x, w, bias = case.arrays()
    spatial = len(case.taps)
    batch: Dim = N if case.free else case.x[0]
    places, taps, copies = "hwd"[:spatial], "klm"[:spatial], "j" if case.copies else ""

    def make(b: Builder, *args: Any) -> Any:
        image, bias, weights = (*args[:2], args[-1])
        if any(case.pad):
            outside = {"conv": 0.0, "add": 0.0, "max": -np.inf, "min": np.inf}[case.fn]
            low, high = ((0, *(n,) * spatial, 0) for n in case.pad)
            image = b(tensor.Pad, image, low=low, high=high, interior=(0,) * (spatial + 2), value=outside)
        axes = tuple(range(1, 1 + spatial))
        y = b(tensor.Window, image, axes=axes, sizes=case.taps, strides=(case.stride,) * spatial, dilations=(case.dilation,) * spatial)
        if case.fn == "conv":
            y = b(tensor.Contract, y, weights, spec=f"n{places}g{taps},g{copies}{taps}->n{places}g{copies}")
        else:
            y = b(tensor.Reduce, y, fn=case.fn, axes=tuple(range(spatial + 2, 2 * spatial + 2)))
        if case.tail:
            bias = b(tensor.Reshape, bias, shape=(*(1,) * (spatial + 1), *bias.type.shape))
            y = b(tensor.Map, y, bias, fn="add")
            y = b(tensor.Map, y, b(tensor.Full, value=0.0, shape=(), dtype=case.dtype), fn="max")
        return y

    sizes = [symbol(name) for name in "HWD"[:spatial]] if case.open else case.x[1:-1]
    types = [TensorType((batch, *sizes, case.x[-1]), case.dtype), TensorType(bias.shape, case.dtype)]
    if case.constant:
        return root_of(types, make, [w]), [x, bias]
    return root_of([*types, TensorType(w.shape, case.dtype)], make), [x, bias, w]


@pytest.fixture(autouse=True)
def _only_channelwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "build_nchw_conv", build_depthwise_or_pooling)


# The most places of a window along each axis, less one: there are few where there are three axes, since on numpy each vector of each place
# takes some microseconds.
ROOM = {1: (20,), 2: (6, 20), 3: (2, 2, 8)}


@st.composite
def cases(draw: Any) -> Case:
    """Any small case that has a result."""
    spatial = draw(st.integers(1, 3))
    taps = tuple(draw(st.integers(1, 4 if spatial < 3 else 2)) for _ in range(spatial))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    pad = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    sizes = tuple(max(1, (k - 1) * dilation + 1 - sum(pad) + draw(st.integers(0, most))) for k, most in zip(taps, ROOM[spatial]))
    fn = draw(st.sampled_from(["conv", "conv", "max", "add", "min"]))
    copies = draw(st.sampled_from([0, 0, 1, 3])) if fn == "conv" else 0
    flags = {name: draw(st.booleans()) for name in ("constant", "free", "tail", "open")}
    x = (draw(st.integers(1, 2)), *sizes, draw(st.sampled_from([1, 3, 8, 17, 33])))
    return Case(x, taps, stride, pad, dilation, fn, copies, dtype=draw(st.sampled_from([f32, f32, f64])), **flags)


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from(["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"]))
def test_kernels_of_each_target_agree_with_numpy_and_touch_no_memory_outside(case: Case, target: str) -> None:
    module, inputs = module_of(case)
    products.check_evaluated(module, inputs, expected_of(case), case.dtype, TARGETS[target])


NATIVE = [
    Case((2, 9, 11, 20), (3, 3), pad=(1, 1), tail=True),
    Case((1, 15, 40, 33), (3, 3), 2, (0, 1), tail=True),
    Case((1, 7, 7, 48), (5, 5), pad=(2, 2), free=True),
    Case((1, 40, 40, 64), (7, 7), pad=(3, 3)),
    Case((1, 30, 31, 5), (3, 2), 2, (0, 1), 2, "add"),
    Case((2, 19, 19, 64), (3, 3), 2, (1, 1), fn="max", tail=True),
    Case((1, 500, 48), (121,), pad=(60, 60)),
    Case((1, 17, 23, 48), (31, 31), pad=(15, 15)),
    Case((1, 3, 4, 20, 9), (3, 3, 3), pad=(1, 1), constant=False),
    Case((2, 8, 8, 19), (3, 3), pad=(1, 1), copies=2, tail=True),
    Case((1, 64, 70, 40), (3, 3), pad=(1, 1), dtype=f64),
    Case((2, 83, 66, 64), (3, 3), pad=(1, 1), tail=True),
    Case((1, 20, 20, 200), (3, 3), 2, (1, 1), tail=True),
    Case((2, 31, 44, 40), (3, 3), pad=(1, 1), tail=True, open=True),
    Case((1, 30, 31, 33), (5, 5), 2, (2, 1), free=True, open=True),
    Case((2, 19, 18, 64), (3, 3), 2, (0, 1), fn="max", tail=True, open=True),
]


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    module, inputs = module_of(case)
    products.check_native(module, inputs, expected_of(case), case.dtype)


@pytest.mark.parametrize(
    "case",
    [Case((1, 1, 1, 20), (3, 3), pad=(1, 1), constant=False, open=True), Case((1, 4, 4, 17), (3, 5), 2, (2, 1), constant=False, open=True)],
    ids=str,
)
def test_one_kernel_serves_images_of_any_width(case: Case) -> None:
    made = compile_module(module_of(case)[0], host()).load()
    for width in range(case.x[2], 30):
        sized = replace(case, x=(*case.x[:2], width, case.x[3]))
        products.assert_close(made.run(module_of(sized)[1])[0], expected_of(sized), case.dtype)


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_a_pad_is_made_in_memory_only_where_taps_are_many(case: Case) -> None:
    lowered, builders = products.to_kernels(module_of(case)[0], TARGETS["x86-64-avx512"])
    assert builders == ["channelwise"]
    pads = [f.sym_name for f in lowered.functions if f.sym_name.startswith("pad")]
    assert bool(pads) == (case.taps[-1] > 31 and not case.open)


@pytest.mark.parametrize(("fn", "dtype", "outside"), [("max", u8, 0), ("max", i8, -128), ("min", u8, 255), ("max", u8, 7)], ids=str)
def test_maxima_and_minima_of_bytes_are_poolings_too(fn: str, dtype: ScalarType, outside: int) -> None:
    image = np.random.default_rng(2).integers(0, 256, (2, 19, 18, 70)).astype(np.uint8).view(dtype.np)

    def make(b: Builder, x: Any) -> Any:
        x = b(tensor.Pad, x, low=(0, 1, 1, 0), high=(0, 1, 1, 0), interior=(0,) * 4, value=outside)
        return b(tensor.Reduce, b(tensor.Window, x, axes=(1, 2), sizes=(3, 3), strides=(2, 2), dilations=(1, 1)), fn=fn, axes=(4, 5))

    module, inputs = root_of([TensorType(image.shape, dtype)], make), [image]
    _, builders = products.to_kernels(module, TARGETS["x86-64-avx512"])
    assert builders == ["channelwise"]
    padded = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=outside)
    parts = [padded[:, i : i + 17 + 2 : 2, j : j + 16 + 2 : 2] for i, j in product(range(3), range(3))]
    wanted = {"max": np.maximum, "min": np.minimum}[fn].reduce(parts)
    np.testing.assert_array_equal(compile_module(module).load().run(inputs)[0], wanted)


def test_windows_along_the_last_axis_are_left_to_other_builders() -> None:
    def make(b: Builder, x: Any) -> Any:
        windows = b(tensor.Window, x, axes=(2, 3), sizes=(3, 3), strides=(2, 2), dilations=(1, 1))
        return b(tensor.Reduce, windows, fn="max", axes=(4, 5))

    module = root_of([TensorType((1, 4, 9, 9), f32)], make)
    assert products.to_kernels(module, TARGETS["x86-64-avx512"])[1] == ["loops"]


@pytest.mark.parametrize(
    "name, fn, final",
    [("x86-64-avx2", "max", None), ("x86-64-avx512", "max", True), ("x86-64-avx512", "add", True), ("x86-64-avx512", "conv", None)],
)
def test_with_32_registers_llvm_looks_for_no_cheaper_addresses_of_poolings(name: str, fn: str, final: bool | None) -> None:
    """It takes most of the time that such a kernel takes to compile, and gains nothing."""
    kernels, _ = products.to_kernels(module_of(Case((1, 20, 20, 64), (3, 3), 2, (0, 1), fn=fn))[0], TARGETS[name])
    assert [func.final_addresses for func in kernels.functions if func.sym_name.startswith(("pool", "depthwise"))] == [final]


@pytest.mark.parametrize("channels", [240, 232])
def test_blocks_of_whole_vectors_of_channels_have_no_rest(channels: int) -> None:
    case = Case((1, 14, 14, channels), (5, 5), pad=(2, 2))
    lowered, builders = products.to_kernels(module_of(case)[0], TARGETS["x86-64-avx512"])
    assert builders == ["channelwise"]
    assert any(isinstance(op, kernel.LaneMask) for op in lowered.walk()) == (channels % 16 != 0)


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 5, 21, 24), (3, 3), pad=(1, 1), tail=True),
        Case((1, 12, 9, 40), (3, 3), 2, (0, 1), fn="max"),
        Case((1, 6, 13, 20), (2, 3), pad=(1, 1), copies=2),
        Case((1, 5, 7, 20), (3, 3), pad=(1, 1), open=True, free=True),
        Case((1, 60, 20), (9,), pad=(4, 4)),
    ],
    ids=str,
)
def test_every_candidate_gives_the_same_numbers(case: Case) -> None:
    module, inputs = module_of(case)
    for machine in (TARGETS["x86-64-avx512"], replace(TARGETS["aarch64"], caches=(1 << 10, 2 << 10, 1 << 20))):
        products.check_candidates(module, inputs, expected_of(case), case.dtype, build_depthwise_or_pooling, machine)


def test_a_schedule_says_what_was_chosen() -> None:
    module, _ = module_of(Case((1, 56, 56, 144), (3, 3), pad=(1, 1), tail=True))
    own, *others = products.candidates_of(module, build_depthwise_or_pooling, TARGETS["x86-64-avx512"])
    assert str(own) == "channelwise<lanes = 16, pixels = 14, channels = 144, rows = 8, masked, nest = nest<axes = 2>>"
    assert {"padded" in str(other) for other in others} == {False, True}


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    wide = TARGETS["x86-64-avx512"]
    module, _ = module_of(Case((1, 20, 20, 64), (3, 3), pad=(1, 1)))
    changes = [
        ("lanes = 16", "lanes = 8"),
        ("pixels = 10", "pixels = 15"),
        ("pixels = 10", "pixels = 0"),
        ("channels = 64", "channels = 40"),
        ("channels = 64", "channels = 80"),
        ("channels = 64", "channels = 64, rows = 21"),
        ("channels = 64", "channels = 64, rows = 0"),
        (", masked", ""),
        ("masked", "masked, final_addresses"),
    ]
    products.check_refused(module, build_depthwise_or_pooling, wide, changes)
    without, _ = module_of(Case((1, 20, 20, 64), (3, 3)))
    products.check_refused(without, build_depthwise_or_pooling, wide, [("masked", "masked, padded")])
    wide_tile, _ = module_of(Case((1, 9, 9, 33), (3, 3), 2, pad=(1, 1), open=True))
    products.check_refused(wide_tile, build_depthwise_or_pooling, wide, [("pixels = 8", "pixels = 2")])


def test_a_pad_that_may_hide_the_whole_image_is_made_first_whatever_is_said() -> None:
    """Of an unknown width: what lies outside is read from the nearest pixel, which is none."""
    case = Case((1, 9, 9, 16), (3, 3), pad=(2, 2), open=True)
    module, _ = module_of(case)
    (own, *_) = products.candidates_of(module, build_depthwise_or_pooling, TARGETS["x86-64-avx512"])
    assert "padded" in str(own)
    products.check_refused(module, build_depthwise_or_pooling, TARGETS["x86-64-avx512"], [(", padded", "")])
