"""Convolutions of rank 1 to 3, forward and backward, with the epilogues that follow them, against products in float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.kernels.conv.nchw_choice import build_nchw_conv
from polyreme.lowering.kernels.conv.nchw_strategy import ChannelTile, ColumnTile, NchwSchedule, PixelTile
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.transforms.fuse import Fuse
from tests.lowering.products import (
    candidates_of,
    check_candidates,
    check_evaluated,
    check_native,
    check_refused,
    root_of,
    to_kernels,
)

N = symbol("N")


@dataclass(frozen=True)
class Case:
    """A convolution of `x` [batch, channels, *sizes] with `w` [out, channels / groups, *taps]; the batch is symbolic when `free`."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    groups: int = 1
    constant: bool = True
    free: bool = False
    dtype: ScalarType = f32
    tail: str = ""

    def __str__(self) -> str:
        words = [str(list(self.x)), str(list(self.w)), f"s{self.stride}p{self.pad}d{self.dilation}g{self.groups}", str(self.dtype)]
        return " ".join([*words, *(["constant"] if self.constant else []), *(["free"] if self.free else []), self.tail]).strip()

    @property
    def spatial(self) -> int:
        return len(self.x) - 2

    def arrays(self) -> list[Any]:
        rng = np.random.default_rng(11)
        shapes = [self.x, self.w, (1, self.w[0], *(1,) * self.spatial)]
        return [rng.standard_normal(s).astype(self.dtype.np) for s in shapes]


def convolved(x: Any, w: Any, case: Case) -> Any:
    """The convolution in float64, tap by tap."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(case.pad, case.pad)] * case.spatial])
    places = [(n - (k - 1) * case.dilation - 1) // case.stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    out, per_group = w.shape[0] // case.groups, w.shape[1]
    y = np.zeros((x.shape[0], w.shape[0], *places))
    for taps in itertools.product(*map(range, w.shape[2:])):
        at = tuple(
            slice(t * case.dilation, t * case.dilation + (n - 1) * case.stride + 1, case.stride) for t, n in zip(taps, places, strict=True)
        )
        for g in range(case.groups):
            part = x[(slice(None), slice(g * per_group, (g + 1) * per_group), *at)]
            weights = w[(slice(g * out, (g + 1) * out), slice(None), *taps)].astype(np.float64)
            y[:, g * out : (g + 1) * out] += np.einsum("nc...,oc->no...", part, weights)
    return y


def pooled(y: Any, size: int, stride: int, fn: Any) -> Any:
    """Windows of `size` along all but two axes."""
    spatial = y.ndim - 2
    windows = np.lib.stride_tricks.sliding_window_view(y, (size,) * spatial, axis=tuple(range(2, y.ndim)))
    windows = windows[(slice(None), slice(None), *[slice(None, None, stride)] * spatial)]
    return fn(windows, axis=tuple(range(y.ndim, y.ndim + spatial)))


POOLS = {"relu, max 2/2": (2, 2, "max"), "relu, max 3/2": (3, 2, "max"), "relu, sum 2/1": (2, 1, "add")}


def finished(case: Case, y: Any, bias: Any) -> Any:
    """What the case's tail makes of the convolution."""
    if not case.tail:
        return y
    y = np.maximum(y + bias, 0)
    if case.tail in POOLS:
        size, stride, fn = POOLS[case.tail]
        y = pooled(y, size, stride, np.max if fn == "max" else np.sum) * 2
    return y


def module_of(case: Case) -> tuple[Module, list[Any]]:
    """The group of the case at tensor level, and its inputs."""
    x, w, bias = case.arrays()
    batch: Dim = N if case.free else case.x[0]
    spatial, first = case.spatial, 2 if case.groups == 1 else 3
    places, taps, group = "hwd"[:spatial], "klm"[:spatial], "g" if case.groups > 1 else ""

    def make(b: Builder, *args: Any) -> Any:
        image, bias, weights = args if case.constant else (args[0], args[2], args[1])
        if case.pad:
            around = (0, 0, *(case.pad,) * spatial)
            image = b(tensor.Pad, image, low=around, high=around, interior=(0,) * (spatial + 2))
        if case.groups > 1:
            image = b(tensor.Reshape, image, shape=(batch, case.groups, case.w[1], *image.type.shape[2:]))
            weights = b(tensor.Reshape, weights, shape=(case.groups, case.w[0] // case.groups, *case.w[1:]))
        axes = tuple(range(first, first + spatial))
        windows = b(
            tensor.Window, image, axes=axes, sizes=case.w[2:], strides=(case.stride,) * spatial, dilations=(case.dilation,) * spatial
        )
        y = b(tensor.Contract, windows, weights, spec=f"n{group}c{places}{taps},{group}oc{taps}->n{group}o{places}")
        y = b(tensor.Reshape, y, shape=(batch, case.w[0], *y.type.shape[first:])) if case.groups > 1 else y
        if case.tail:
            y = b(tensor.Map, y, bias, fn="add")
            y = b(tensor.Map, y, b(tensor.Full, value=0.0, shape=(), dtype=case.dtype), fn="max")
        if case.tail in POOLS:
            size, stride, fn = POOLS[case.tail]
            axes = tuple(range(2, 2 + spatial))
            windows = b(tensor.Window, y, axes=axes, sizes=(size,) * spatial, strides=(stride,) * spatial, dilations=(1,) * spatial)
            y = b(tensor.Reduce, windows, fn=fn, axes=tuple(range(2 + spatial, 2 + 2 * spatial)))
            y = b(tensor.Map, y, b(tensor.Full, value=2.0, shape=(), dtype=case.dtype), fn="mul")
        return y

    image_type, weights_type = TensorType((batch, *case.x[1:]), case.dtype), TensorType(case.w, case.dtype)
    bias_type = TensorType(bias.shape, case.dtype)
    if case.constant:
        return root_of([image_type, bias_type], make, [w]), [x, bias]
    return root_of([image_type, weights_type, bias_type], make), [x, w, bias]


PLAIN = [
    Case((2, 1, 12, 12), (6, 1, 3, 3), pad=1),
    Case((2, 6, 10, 10), (16, 6, 5, 5)),
    Case((2, 3, 9, 11), (20, 3, 3, 3), stride=2, pad=1),
    Case((2, 3, 9, 11), (4, 3, 3, 3), stride=2, pad=1),
    Case((1, 2, 13, 9), (17, 2, 3, 2), dilation=2, pad=2),
    Case((2, 3, 20), (5, 3, 3), pad=1),
    Case((2, 3, 20), (20, 3, 3), stride=3, dilation=2, pad=1),
    Case((1, 2, 5, 6, 7), (5, 2, 2, 3, 3), pad=1),
    Case((1, 2, 5, 6, 7), (17, 2, 2, 3, 3), stride=2, pad=1),
    Case((1, 16, 9, 9), (50, 16, 1, 1)),
    Case((2, 1, 1, 1), (3, 1, 1, 1)),
    Case((1, 3, 4, 4), (5, 3, 4, 4)),
    Case((1, 4, 8, 8), (1, 4, 3, 3), pad=1),
    Case((2, 1, 3, 40), (2, 1, 1, 5)),
]
GROUPED = [
    Case((2, 4, 9, 9), (8, 2, 3, 3), pad=1, groups=2),
    Case((2, 4, 9, 9), (40, 2, 3, 3), pad=1, groups=2),
    Case((2, 4, 9, 9), (4, 1, 3, 3), pad=1, groups=4),
    Case((2, 4, 9, 9), (4, 1, 3, 3), stride=2, pad=1, groups=4),
    Case((2, 6, 15), (12, 1, 3), groups=6),
]
TAILS = [
    replace(c, tail=t) for c in (PLAIN[0], PLAIN[1], PLAIN[2], PLAIN[5], GROUPED[0]) for t in ("relu", *POOLS) if c.x[-1] > 9 or t == "relu"
]
PARAMETERS = [replace(c, constant=False) for c in (PLAIN[0], PLAIN[1], PLAIN[3], PLAIN[8], GROUPED[1], TAILS[1])]
FREE = [replace(c, free=True) for c in (PLAIN[0], PLAIN[1], PLAIN[3], PLAIN[8], GROUPED[0], TAILS[1], PARAMETERS[1])]
DOUBLE = [replace(c, dtype=f64) for c in (PLAIN[0], PLAIN[1], TAILS[1])]


@pytest.mark.parametrize("case", [*PLAIN, *GROUPED, *TAILS, *PARAMETERS, *FREE, *DOUBLE], ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    check_native(module, inputs, finished(case, convolved(x, w, case), bias), case.dtype)


@pytest.mark.parametrize("batch", [0, 1, 5])
@pytest.mark.parametrize("case", FREE[:2], ids=str)
def test_the_batch_may_be_known_at_run_time_only(case: Case, batch: int) -> None:
    case = replace(case, x=(batch, *case.x[1:]))
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    check_native(module, inputs, finished(case, convolved(x, w, case), bias), case.dtype)


@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64-avx2", "aarch64"])
@pytest.mark.parametrize(
    "case",
    [
        Case((2, 1, 7, 18), (3, 1, 3, 3), pad=1, tail="relu, max 2/2"),
        Case((1, 2, 6, 6), (17, 2, 3, 3), tail="relu, max 2/2"),
        Case((1, 2, 7, 6), (17, 2, 3, 3), stride=2, pad=1),
        Case((1, 2, 11), (4, 1, 3), groups=2, constant=False),
        Case((1, 1, 3, 4, 5), (2, 1, 2, 2, 2)),
    ],
    ids=str,
)
def test_kernels_of_each_target_touch_no_memory_outside_of_their_buffers(case: Case, target: str) -> None:
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    check_evaluated(module, inputs, finished(case, convolved(x, w, case), bias), case.dtype, TARGETS[target])


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 64, 30, 30), (48, 64, 3, 3), pad=1, tail="relu"),
        Case((1, 8, 70, 70), (40, 8, 3, 3), pad=1, tail="relu, max 3/2"),
        Case((3, 3, 61, 61), (24, 3, 7, 7), stride=2, pad=3, tail="relu"),
        Case((1, 2, 90, 90), (4, 2, 3, 3), pad=1, tail="relu, max 2/2"),
        Case((1, 3, 2000), (5, 3, 9), pad=4),
    ],
    ids=str,
)
def test_an_image_cut_into_pieces_is_equal_on_one_and_two_threads(case: Case) -> None:
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    check_native(module, inputs, finished(case, convolved(x, w, case), bias), case.dtype)


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 6, 14, 14), (16, 6, 5, 5), tail="relu, max 2/2"),
        Case((1, 3, 11, 13), (32, 3, 3, 2), tail="relu, max 3/2"),
        Case((2, 2, 20), (16, 2, 3), tail="relu, max 2/2"),
        Case((1, 2, 5, 7, 8), (16, 2, 2, 3, 3), tail="relu, max 2/2"),
        Case((1, 6, 14, 14), (16, 6, 5, 5), constant=False, tail="relu, max 2/2"),
        Case((1, 6, 14, 14), (16, 6, 5, 5), dtype=f64, tail="relu, max 2/2"),
    ],
    ids=str,
)
@pytest.mark.parametrize("half_width_vectors", [False, True])
def test_results_of_poolings_are_transposed_in_place_of_sums_where_vectors_are_halves(case: Case, half_width_vectors: bool) -> None:
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    expected = finished(case, convolved(x, w, case), bias)
    check_native(module, inputs, expected, case.dtype, replace(host(), half_width_vectors=half_width_vectors))
    avx512 = replace(TARGETS["x86-64-avx512"], half_width_vectors=half_width_vectors)
    check_evaluated(module, inputs, expected, case.dtype, avx512)


@pytest.mark.usefixtures("cliffs_are_allowed")
def test_a_pooling_behind_groups_of_free_images_is_computed_by_loops() -> None:
    case = Case((3, 4, 9, 9), (32, 2, 3, 3), pad=1, groups=2, free=True, tail="relu, max 2/2")
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    expected = finished(case, convolved(x, w, case), bias)
    check_native(module, inputs, expected, case.dtype, host())
    assert "loops" in to_kernels(module, host())[1]


def test_a_pooling_with_small_results_is_made_with_lanes_along_channels_where_vectors_are_halves() -> None:
    module, _ = module_of(Case((1, 6, 14, 14), (16, 6, 5, 5), tail="relu, max 2/2"))
    shuffles = []
    for half_width_vectors in (False, True):
        lowered, _ = to_kernels(module, replace(TARGETS["x86-64-avx512"], half_width_vectors=half_width_vectors))
        shuffles.append(sum(isinstance(op, kernel.Shuffle) for op in lowered.walk()))
    # Sums are turned in a loop, and every other one of a row picked four times; of results there are two blocks of 16 pixels.
    assert shuffles == [64 + 4, 2 * 64]


def test_lenets_convolutions_take_their_pooling_along() -> None:
    for case in (
        Case((4, 1, 28, 28), (6, 1, 3, 3), pad=1, tail="relu, max 2/2"),
        Case((4, 6, 14, 14), (16, 6, 5, 5), tail="relu, max 2/2"),
    ):
        lowered, builders = to_kernels(module_of(case)[0], host())
        assert builders == ["nchw"]
        kernels = [f.sym_name.split("_")[0] for f in lowered.functions if f.sym_name != "main"]
        assert kernels == (["pad", "conv"] if case.pad else ["conv"])


@pytest.mark.parametrize(("pixels", "kernels"), [(4, 1), (7, 2)])
def test_a_sum_over_many_pixels_is_a_kernel_of_its_own_behind_their_convolution(pixels: int, kernels: int) -> None:
    main = Func.empty("main", [TensorType((1, pixels, pixels, 16), f32), TensorType((16, 16, 3, 3), f32)])
    b = Builder.at_end(main.block)
    x, w = main.args
    x = b(tensor.Pad, x, low=(0, 1, 1, 0), high=(0, 1, 1, 0), interior=(0,) * 4)
    y = b(tensor.Contract, b(tensor.Window, x, axes=(1, 2), sizes=(3, 3), strides=(1, 1), dilations=(1, 1)), w, spec="NabCmn,OCmn->NabO")
    windows = b(tensor.Window, y, axes=(1, 2), sizes=(pixels,) * 2, strides=(pixels,) * 2, dilations=(1, 1))
    b.insert(Return([b(tensor.Reduce, windows, fn="add", axes=(4, 5))]))
    module = Module.empty()
    module.block.append(main.finish())
    PassManager([Stage("tensor", Fuse())]).run(module)
    assert len([op for op in module.function("main").block if not isinstance(op, Return)]) == kernels


# --- gradients, in the form that the nn level gives them


def gradient_modules(case: Case) -> tuple[Module, Module]:
    """Modules of the gradients by x and by w: both take (x, w, dy) and are fused."""
    x, w, _ = case.arrays()
    places = convolved(x, w, case).shape[2:]
    batch: Dim = N if case.free else case.x[0]
    types = [
        TensorType((batch, *case.x[1:]), case.dtype),
        TensorType(case.w, case.dtype),
        TensorType((batch, case.w[0], *places), case.dtype),
    ]
    spatial = case.spatial
    numbers = {
        "strides": (case.stride,) * spatial, "padding": (case.pad,) * 2 * spatial, "dilations": (case.dilation,) * spatial,
        "groups": case.groups,
    }  # fmt: skip
    modules = []
    for by in ("x", "w"):
        main = Func.empty("main", types, arg_names=("x", "w", "dy"), arg_roles=("input",) * 3)
        b = Builder.at_end(main.block)
        if by == "x":
            grad = b(nn.ConvTranspose, main.args[2], main.args[1], sizes=case.x[2:], **numbers)
        else:
            grad = b(nn.ConvFilter, main.args[0], main.args[2], kernel=case.w[2:], **numbers)
        b.insert(Return([grad]))
        module = Module.empty()
        module.block.append(main.finish())
        PassManager([Stage("tensor", nn_to_tensor, Fuse())]).run(module)
        verify(module)
        modules.append(module)
    return modules[0], modules[1]


BACKWARD = [
    *PLAIN[:12],
    *GROUPED,
    *(replace(c, free=True) for c in (PLAIN[0], PLAIN[1], PLAIN[2])),
    replace(PLAIN[1], dtype=f64),
    Case((8, 1, 28, 28), (6, 1, 3, 3), pad=1),
    Case((8, 6, 14, 14), (16, 6, 5, 5)),
]


@pytest.mark.parametrize("case", BACKWARD, ids=str)
def test_gradients_are_the_adjoints_of_the_convolution(case: Case) -> None:
    """The convolution is linear in x and in w: <dy, conv(x, w)> has the gradients as its coefficients, found by its linear parts."""
    x, w, _ = case.arrays()
    y = convolved(x, w, case)
    dy = np.random.default_rng(5).standard_normal(y.shape).astype(case.dtype.np)
    by_x, by_w = gradient_modules(case)
    check_native(by_x, [x, w, dy], adjoint_by_x(dy, w, case), case.dtype)
    check_native(by_w, [x, w, dy], adjoint_by_w(x, dy, case), case.dtype)


def adjoint_by_x(dy: Any, w: Any, case: Case) -> Any:
    """Each tap carries dy back to where it read."""
    wide = np.zeros((case.x[0], case.x[1], *(n + 2 * case.pad for n in case.x[2:])))
    for at, channels, outs, taps in _taps(dy.shape[2:], case):
        wide[(slice(None), channels, *at)] += np.einsum(
            "no...,oc->nc...", dy[:, outs].astype(np.float64), w[(outs, slice(None), *taps)].astype(np.float64)
        )
    return wide[(slice(None), slice(None), *(slice(case.pad, case.pad + n) for n in case.x[2:]))]


def adjoint_by_w(x: Any, dy: Any, case: Case) -> Any:
    """Each tap's weight collects what it multiplied."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(case.pad, case.pad)] * case.spatial])
    grad = np.zeros(case.w)
    for at, channels, outs, taps in _taps(dy.shape[2:], case):
        axes = [0, *range(2, dy.ndim)]
        grad[(outs, slice(None), *taps)] = np.tensordot(dy[:, outs].astype(np.float64), padded[(slice(None), channels, *at)], (axes, axes))
    return grad


def _taps(places: tuple[int, ...], case: Case) -> Any:
    out = case.w[0] // case.groups
    for taps in itertools.product(*map(range, case.w[2:])):
        at = tuple(
            slice(t * case.dilation, t * case.dilation + (n - 1) * case.stride + 1, case.stride) for t, n in zip(taps, places, strict=True)
        )
        for g in range(case.groups):
            yield at, slice(g * case.w[1], (g + 1) * case.w[1]), slice(g * out, (g + 1) * out), taps


def test_gradients_of_lenets_layers_go_through_tiles() -> None:
    for case in BACKWARD[-2:]:
        for module in gradient_modules(case):
            _, builders = to_kernels(module, host())
            assert "nchw" in builders and "loops" not in builders, builders


@pytest.mark.parametrize(
    "case",
    [
        Case((4, 5, 30, 34), (7, 5, 3, 3), pad=1, constant=False),
        Case((2, 20, 26, 26), (33, 20, 3, 3), stride=2, constant=False),
        Case((3, 3, 57, 40), (20, 3, 7, 7), stride=2, pad=3, constant=False),
        Case((3, 5, 30, 34), (7, 5, 3, 3), pad=1, constant=False, free=True),
    ],
    ids=str,
)
def test_sums_of_weights_gradients_wait_while_rows_of_pixels_come(case: Case) -> None:
    x, w, _ = case.arrays()
    dy = np.random.default_rng(12).standard_normal(convolved(x, w, case).shape).astype(case.dtype.np)
    _, by_w = gradient_modules(case)
    check_native(by_w, [x, w, dy], adjoint_by_w(x, dy, case), case.dtype)
    lowered, _ = to_kernels(by_w, TARGETS["x86-64-avx512"])
    assert any(isinstance(op, kernel.For) and op.body.block.args[0].name == "block" for op in lowered.walk())


@pytest.mark.parametrize(
    "case",
    [
        Case((4, 20, 12, 12), (33, 20, 1, 1), constant=False),
        Case((3, 20, 12, 14), (33, 20, 1, 1), constant=False, free=True),
        Case((2, 32, 15, 15), (48, 32, 1, 1), stride=2, constant=False),
    ],
    ids=str,
)
def test_gradients_of_weights_of_single_pixels_are_matrix_products(case: Case) -> None:
    x, w, _ = case.arrays()
    dy = np.random.default_rng(13).standard_normal(convolved(x, w, case).shape).astype(case.dtype.np)
    _, by_w = gradient_modules(case)
    check_native(by_w, [x, w, dy], adjoint_by_w(x, dy, case), case.dtype)
    _, builders = to_kernels(by_w, TARGETS["x86-64-avx512"])
    assert "contract" in builders and "nchw" not in builders, builders


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        (Case((2, 3, 11, 21), (8, 3, 3, 3), pad=1, tail="relu"), {ChannelTile, PixelTile}),
        (Case((1, 6, 14, 14), (20, 6, 5, 5), tail="relu, max 2/2"), {ChannelTile, PixelTile, ColumnTile}),
        (Case((1, 4, 9, 9), (33, 4, 3, 3)), {ChannelTile, PixelTile}),
    ],
)
def test_every_candidate_gives_the_same_numbers(case: Case, kinds: set[type]) -> None:
    module, inputs = module_of(case)
    x, w, bias = case.arrays()
    like_zen4 = replace(TARGETS["x86-64-avx512"], multiply_adds=1, half_width_vectors=True, spare_adders=True)
    schedules = check_candidates(module, inputs, finished(case, convolved(x, w, case), bias), case.dtype, build_nchw_conv, like_zen4, 3)
    assert {type(schedule.tile) for schedule in schedules if isinstance(schedule, NchwSchedule)} == kinds


def test_schedules_say_what_was_chosen_and_others_are_refused() -> None:
    wide = TARGETS["x86-64-avx512"]
    by_channels, _ = module_of(Case((1, 16, 30, 14), (64, 16, 3, 3), tail="relu"))
    assert str(candidates_of(by_channels, build_nchw_conv, wide)[0]) == (
        "nchw<lanes = 16, tile = channels<high = 1, wide = 6, vectors = 4>, rows = 3>"
    )
    changes = [
        ("lanes = 16", "lanes = 8"),
        ("high = 1", "high = 2"),
        ("wide = 6", "wide = 13"),
        ("vectors = 4", "vectors = 5"),
        ("vectors = 4", "vectors = 0"),
        ("vectors = 4", "vectors = 4, around = 1"),
        ("vectors = 4", "vectors = 4, pooled"),
        ("rows = 3", "rows = 29"),
        ("rows = 3", "rows = 0"),
    ]
    check_refused(by_channels, build_nchw_conv, wide, changes)
    by_pixels, _ = module_of(Case((1, 1, 28, 28), (6, 1, 3, 3), pad=1))
    own = "pixels<channels = 6, high = 2, across = 2>"
    changes = [("high = 2", "high = 29"), ("across = 2", "across = 1"), ("channels = 6", "channels = 7")]
    others = [own.replace(*change) for change in changes]
    check_refused(by_pixels, build_nchw_conv, wide, [(own, other) for other in (*others, "columns<size = 2, wide = 3, vectors = 1>")])
