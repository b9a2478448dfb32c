"""Depthwise convolutions and poolings over images with channels before pixels, against numpy in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyreme as paddle
from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.lowering.kernels.conv.nchw_windows import build_nchw_windows, find_nchw_windows
from polyreme.lowering.kernels.plan import request_of
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.pipeline import compile_module
from polyreme.lowering.schedule.group_padded_windows import GroupPaddedWindows
from polyreme.lowering.transforms.channels_last import ChannelsLast
from polyreme.lowering.transforms.fuse import Fuse
from polyreme.static import InputSpec
from tests.lowering import products
from tests.lowering.products import root_of

OUTSIDE = {"conv": 0.0, "sum": 0.0, "group": 0.0, "add": 0.0, "max": -np.inf, "min": np.inf}
FUNCTIONS = {"conv": np.add, "sum": np.add, "group": np.add, "add": np.add, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Case:
    """Windows of `taps` over `x` [batch, channels, height, width], padded by `pad` (before and after) down and along the rows; `fn` is
    "conv", "sum" for a convolution that sums the channels to one, "group" for one of three results for each two channels, or the pooling's.
    `open` leaves the sizes but the channels' free.
    """

    x: tuple[int, int, int, int]
    taps: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    fn: str = "conv"
    dtype: ScalarType = f32
    tail: bool = False
    open: bool = False

    def arrays(self) -> list[Any]:
        """The image, a bias for each channel, and the weights."""
        rng = np.random.default_rng(5)
        out = 1 if self.fn == "sum" else self.x[1] // 2 * 3 if self.fn == "group" else self.x[1]
        weights = (self.x[1] // 2, 3, 2, *self.taps) if self.fn == "group" else (self.x[1], *self.taps)
        return [rng.standard_normal(s).astype(self.dtype.np) for s in (self.x, (1, out, 1, 1), weights)]


def expected_of(case: Case) -> Any:
    """The result in float64, tap by tap."""
    x, bias, w = (a.astype(np.float64) for a in case.arrays())
    x = np.pad(x, [(0, 0), (0, 0), *case.pad], constant_values=OUTSIDE[case.fn])
    numbers = list(zip(x.shape[2:], case.taps, case.stride, case.dilation, strict=True))
    places = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in numbers]
    y: Any = None
    for tap in product(*map(range, case.taps)):
        at = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, (_, _, s, d) in zip(tap, places, numbers, strict=True))
        part = x[(slice(None), slice(None), *at)]
        if case.fn == "group":
            split = part.reshape(part.shape[0], -1, 2, *part.shape[2:])
            part = np.einsum("ngchw,goc->ngohw", split, w[..., tap[0], tap[1]]).reshape(part.shape[0], -1, *part.shape[2:])
        elif case.fn in ("conv", "sum"):
            part = part * w[:, tap[0], tap[1]][:, None, None]
        y = part if y is None else FUNCTIONS[case.fn](y, part)
    y = y.sum(1, keepdims=True) if case.fn == "sum" else y
    return np.maximum(y + bias, 0) if case.tail else y


def _windows(b: Builder, case: Case, image: Any, bias: Any, weights: Any) -> Any:
    n, channels, height, width = image.type.shape
    if case.fn == "group":
        image = b(tensor.Reshape, image, shape=(n, channels // 2, 2, height, width))
        bias = b(tensor.Reshape, bias, shape=(1, channels // 2, 3, 1, 1))
    rank = len(image.type.shape)
    if np.any(case.pad):
        low, high = ((*(0,) * (rank - 2), *(n[i] for n in case.pad)) for i in (0, 1))
        image = b(tensor.Pad, image, low=low, high=high, interior=(0,) * rank, value=OUTSIDE[case.fn])
    y = b(tensor.Window, image, axes=(rank - 2, rank - 1), sizes=case.taps, strides=case.stride, dilations=case.dilation)
    if case.fn == "conv":
        y = b(tensor.Contract, y, weights, spec="nghwkl,gkl->nghw")
    elif case.fn == "sum":
        y = b(tensor.Contract, y, b(tensor.Reshape, weights, shape=(1, *weights.type.shape)), spec="nchwkl,ockl->nohw")
    elif case.fn == "group":
        y = b(tensor.Contract, y, weights, spec="ngchwkl,gockl->ngohw")
    else:
        y = b(tensor.Reduce, y, fn=case.fn, axes=(4, 5))
    if case.tail:
        y = b(tensor.Map, b(tensor.Map, y, bias, fn="add"), b(tensor.Full, value=0.0, shape=(), dtype=case.dtype), fn="max")
    if case.fn == "group":
        n, groups, results, *pixels = y.type.shape
        y = b(tensor.Reshape, y, shape=(n, groups * results, *pixels))
    return y


def _types(case: Case) -> list[TensorType]:
    shape: tuple[Dim, ...] = case.x if not case.open else (symbol("N"), case.x[1], symbol("H"), symbol("W"))
    return [TensorType(shape, case.dtype), *(TensorType(a.shape, case.dtype) for a in case.arrays()[1:])]


def module_of(case: Case) -> Module:
    """The group of the case."""
    return root_of(_types(case), lambda b, *args: _windows(b, case, *args))


@pytest.fixture(autouse=True)
def _only_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "build_nchw_conv", build_nchw_windows)


def takes(module: Module, target: Target = TARGETS["x86-64-avx512"]) -> bool:
    """Whether the builder takes the module's one group."""
    (group,) = [op for op in module.function().block if isinstance(op, tensor.Fused)]
    return find_nchw_windows(request_of(group, target)) is not None


@st.composite
def cases(draw: Any) -> Case:
    """Any small case that has a result."""
    pair = lambda least, most: st.tuples(st.integers(least, most), st.integers(least, most))
    taps, dilation = draw(pair(1, 4)), draw(pair(1, 2))
    stride, pad = (draw(st.integers(1, 3)), draw(st.integers(1, 2))), (draw(pair(0, 3)), draw(pair(0, 3)))
    more = st.integers(0, 16), st.integers(2, 40)  # at least two pixels in a row
    sizes = [max(1 + i, (k - 1) * d + 1 - sum(p) + draw(more[i])) for i, (k, d, p) in enumerate(zip(taps, dilation, pad))]
    if taps == (1, 1):
        taps = (2, 1)
        sizes[0] += dilation[0]
    x = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 20])), sizes[0], sizes[1])
    flags = {name: draw(st.booleans()) for name in ("tail", "open")}
    fn, dtype = draw(st.sampled_from(["conv", "sum", "group", "max", "add", "min"])), draw(st.sampled_from([f32, f64]))
    if fn == "group":
        x = (x[0], 2 * x[1], *x[2:])
    return Case(x, taps, stride, pad, dilation, fn, dtype, **flags)


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from(["x86-64-avx2", "x86-64-avx512"]))
def test_kernels_agree_with_numpy_and_touch_no_memory_outside(case: Case, target: str) -> None:
    module = module_of(case)
    assert takes(module, TARGETS[target])
    products.check_evaluated(module, case.arrays(), expected_of(case), case.dtype, TARGETS[target])


SAME3, SAME5 = ((1, 1), (1, 1)), ((2, 2), (2, 2))
NATIVE = [
    Case((1, 5, 30, 33), (3, 3), pad=SAME3, tail=True),
    Case((2, 20, 15, 15), (3, 3), (2, 2), SAME3, tail=True, open=True),
    Case((1, 17, 16, 64), (5, 5), pad=SAME5, open=True),
    Case((1, 17, 16, 64), (5, 5), (2, 2), SAME5, open=True),
    Case((1, 3, 90, 50), (7, 7), (1, 2), ((3, 3), (3, 2)), open=True),
    Case((2, 4, 19, 18), (3, 3), (2, 2), ((0, 1), (0, 1)), fn="max", tail=True, open=True),
    Case((1, 4, 20, 41), (3, 2), pad=((0, 0), (1, 0)), dilation=(2, 3), fn="add"),
    Case((1, 64, 14, 14), (2, 2), (2, 2), fn="add", open=True),
    Case((1, 2, 20, 20), (3, 3), pad=SAME3, fn="min", dtype=f64, open=True),
    Case((1, 64, 14, 57), (3, 3), pad=SAME3, fn="sum", tail=True, open=True),
    Case((2, 33, 15, 20), (5, 5), (2, 2), SAME5, fn="sum"),
    Case((2, 40, 14, 20), (3, 3), pad=SAME3, fn="group", tail=True),
    Case((1, 24, 30, 57), (3, 3), (2, 2), SAME3, fn="group", open=True),
]


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    products.check_native(module_of(case), case.arrays(), expected_of(case), case.dtype)


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 3, 1, 1), (3, 3), pad=SAME3, open=True),
        Case((1, 2, 4, 4), (3, 5), (2, 2), ((2, 1), (1, 2)), fn="max", open=True),
        Case((1, 3, 2, 2), (2, 2), (2, 2), fn="add", open=True),
        Case((1, 3, 1, 1), (3, 3), (1, 2), SAME3, fn="sum", open=True),
        Case((1, 4, 1, 1), (3, 3), (1, 1), SAME3, fn="group", tail=True, open=True),
    ],
    ids=str,
)
def test_one_kernel_serves_images_of_any_size(case: Case) -> None:
    made = compile_module(module_of(case), host()).load()
    for height, width in [*((case.x[2], w) for w in range(case.x[3], 36)), *((h, case.x[3]) for h in range(case.x[2], 17)), (64, 50)]:
        sized = replace(case, x=(2, case.x[1], height, width))
        products.assert_close(made.run(sized.arrays())[0], expected_of(sized), case.dtype)


def test_free_rows_are_found_from_row_to_row_and_not_by_a_size_for_each() -> None:
    lowered, _ = products.to_kernels(module_of(Case((1, 4, 20, 20), (5, 5), (2, 2), SAME5, open=True)), TARGETS["x86-64-avx512"])
    sizes = {op.value for op in lowered.walk() if isinstance(op, kernel.Size)}
    assert len(sizes) < 30


@pytest.mark.parametrize("stride", [1, 2])
def test_free_rows_of_half_a_vector_have_code_of_their_own(stride: int) -> None:
    case = Case((1, 4, 20, 20), (3, 3), (stride, stride), SAME3, open=True)
    lowered, _ = products.to_kernels(module_of(case), TARGETS["x86-64-avx512"])
    assert {kernel.lanes_of(op.result.type) for op in lowered.walk() if isinstance(op, kernel.Fma)} == {8, 16}


def test_images_without_elements_have_results_without_any() -> None:
    case = Case((0, 3, 5, 6), (3, 3), pad=SAME3, open=True)
    made = compile_module(module_of(case), host()).load()
    for shape, result in (((0, 3, 5, 6), (0, 3, 5, 6)), ((1, 3, 0, 6), (1, 3, 0, 6)), ((1, 3, 5, 0), (1, 3, 5, 0))):
        assert made.run([np.zeros(shape, np.float32), *case.arrays()[1:]])[0].shape == result


def test_a_nan_shows_in_the_windows_that_see_it_alone() -> None:
    for fn in ("max", "min", "add"):
        case = Case((1, 1, 20, 40), (3, 3), (2, 2), SAME3, fn=fn, open=True)
        inputs = case.arrays()
        inputs[0][0, 0, 7, 21] = np.nan
        found = compile_module(module_of(case), host()).load().run(inputs)[0]
        assert [tuple(map(int, at)) for at in np.argwhere(np.isnan(found[0, 0]))] == [(3, 10), (3, 11), (4, 10), (4, 11)]


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 4, 20, 20), (3, 3), (1, 3)),
        Case((1, 4, 20, 20), (8, 8)),
        Case((1, 4, 20, 20), (1, 1)),
        Case((2, 4, 7, 7), (7, 7), fn="add"),
        Case((2, 4, 9, 3), (3, 3)),
    ],
    ids=str,
)
def test_other_windows_are_left_to_other_builders(case: Case) -> None:
    assert not takes(module_of(case))


def test_groups_of_many_channels_are_left_to_other_builders() -> None:
    types = [TensorType((1, 4, 8, 20, 20), f32), TensorType((4, 8, 8, 3, 3), f32)]

    def made(b: Builder, image: Any, weights: Any) -> Any:
        y = b(tensor.Window, image, axes=(3, 4), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
        return b(tensor.Contract, y, weights, spec="ngchwkl,gockl->ngohw")

    assert not takes(root_of(types, made))


def test_machines_without_masks_have_other_kernels() -> None:
    case = Case((1, 4, 20, 20), (3, 3), pad=SAME3)
    assert takes(module_of(case)) and not takes(module_of(case), TARGETS["aarch64"])


@pytest.mark.parametrize("fn", ["conv", "max"])
@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64"])
def test_pads_that_fusion_left_alone_join_their_windows(fn: str, target: str) -> None:
    case = Case((1, 4, 20, 20), (3, 3), pad=SAME3, fn=fn, open=True)
    main = Func.empty("main", _types(case), arg_names=["x", "bias", "w"], arg_roles=("input",) * 3)
    b = Builder.at_end(main.block)
    image, _, weights = main.args
    padded = b(tensor.Pad, image, low=(0, 0, 1, 1), high=(0, 0, 1, 1), interior=(0,) * 4, value=OUTSIDE[fn])
    n, g, h, w = padded.type.shape
    spread = b(tensor.Reshape, padded, shape=(n, g, 1, h, w))
    y = b(tensor.Window, spread, axes=(3, 4), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
    if fn == "conv":
        y = b(tensor.Contract, y, b(tensor.Reshape, weights, shape=(4, 1, 1, 3, 3)), spec="ngchwkl,gockl->ngohw")
    else:
        y = b(tensor.Reduce, y, fn=fn, axes=(5, 6))
    b.insert(Return([b(tensor.Map, y, fn="neg")]))
    main.finish()
    Fuse().run_on(main)
    GroupPaddedWindows(TARGETS[target]).run_on(main)
    assert any(isinstance(op, tensor.Pad) for op in main.block) == (target == "x86-64")


@pytest.mark.parametrize("shape", [(1, 3, 14, 14), (2, 5, 9, 40), (1, 2, 1, 3)])
@pytest.mark.parametrize("kernel", [5, 7])
def test_maxima_of_wide_windows_are_one_kernel_for_free_images(shape: tuple[int, ...], kernel: int) -> None:
    pool = paddle.nn.MaxPool2D(kernel, 1, kernel // 2)
    spec = [InputSpec([None, shape[1], None, None], "float32", "x")]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    rows = np.pad(x, ((0, 0), (0, 0), *[(kernel // 2, kernel // 2)] * 2), constant_values=-np.inf)
    expected = np.lib.stride_tricks.sliding_window_view(rows, (kernel, kernel), (2, 3)).max((4, 5))
    np.testing.assert_array_equal(paddle.jit.to_static(pool, input_spec=spec)(paddle.to_tensor(x)).numpy(), expected)
    kernels = paddle.inspect(pool, spec, "x86-64-avx512").kernel
    assert "@pool_" in kernels and "@window_reduce" not in kernels and "@pad_" not in kernels


@pytest.mark.parametrize(("fn", "stride"), [("conv", 1), ("conv", 2), ("group", 2)])
@pytest.mark.parametrize("row_windows", [False, True])
def test_a_convolution_alone_is_not_turned_where_there_are_kernels_for_it(fn: str, stride: int, row_windows: bool) -> None:
    case = Case((1, 32, 20, 20), (3, 3), (stride, stride), SAME3, fn=fn, open=True)
    main = Func.empty("main", _types(case), arg_names=["x", "bias", "w"], arg_roles=("input",) * 3)
    b = Builder.at_end(main.block)
    b.insert(Return([_windows(b, case, *main.args)]))
    main.finish()
    ChannelsLast(row_windows=row_windows).run_on(main)
    assert any(isinstance(op, tensor.Transpose) for op in main.block) != row_windows


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 5, 17, 21), (3, 3), pad=((1, 1), (1, 1)), tail=True),
        Case((1, 40, 9, 30), (5, 3), (1, 2), ((2, 2), (0, 1))),
        Case((1, 6, 9, 30), (3, 3), (2, 2), ((0, 1), (0, 1)), fn="max"),
        Case((1, 4, 8, 19), (3, 3), pad=((1, 1), (1, 1)), fn="group"),
        Case((1, 3, 8, 19), (3, 3), fn="sum", open=True),
    ],
    ids=str,
)
def test_every_candidate_gives_the_same_numbers(case: Case) -> None:
    for target in ("x86-64-avx512", "x86-64-avx2"):
        products.check_candidates(module_of(case), case.arrays(), expected_of(case), case.dtype, build_nchw_windows, TARGETS[target])


def test_schedules_say_what_was_chosen_and_others_are_refused() -> None:
    wide = TARGETS["x86-64-avx512"]
    few = module_of(Case((1, 4, 56, 56), (3, 3), pad=((1, 1), (1, 1))))
    assert str(products.candidates_of(few, build_nchw_windows, wide)[0]) == "windows<lanes = 16, rows = 7, at_once = 7, by_tiles>"
    many = module_of(Case((1, 64, 56, 56), (5, 5), pad=((2, 2), (2, 2))))
    own = "windows<lanes = 16, rows = 7, channels = 4, nest = nest<axes = 2, grain = 2>>"
    assert str(products.candidates_of(many, build_nchw_windows, wide)[0]) == own
    changes = [
        ("lanes = 16", "lanes = 8"),
        ("rows = 7", "rows = 8"),
        ("rows = 7", "rows = 0"),
        ("channels = 4", "channels = 0"),
        ("channels = 4", "channels = 4, at_once = 2"),
        (", nest = nest<axes = 2, grain = 2>", ""),
    ]
    products.check_refused(many, build_nchw_windows, wide, changes)
    pool = module_of(Case((1, 4, 56, 56), (3, 3), fn="max"))
    products.check_refused(pool, build_nchw_windows, wide, [("rows = 7", "rows = 7, at_once = 7")])
