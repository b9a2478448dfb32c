"""Convolutions that give their channels last, with what follows them, against products in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PassError
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.kernels.conv import direct_plan
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.conv.direct_plan import Direct, find_direct
from polyreme.lowering.kernels.epilogue import channels_first
from polyreme.lowering.kernels.plan import KernelPlan, Request, request_of
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.direct_costs import DIRECT_COSTS
from polyreme.lowering.machines.rooms import ROOMS
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.products import assert_close, root_of

N = symbol("N")
SIZES = tuple(map(symbol, "HWD"))


@dataclass(frozen=True)
class Case:
    """A convolution of an image [batch, *sizes, channels] (or planar) with `w` [out, channels / groups, *taps]; symbolic are the batch when
    `free`, and the sizes of the image when `open`. The result has its channels first when `turned`.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    pad: tuple[int, int] = (0, 0)
    dilation: int = 1
    groups: int = 1
    planar: bool = False
    constant: bool = True
    free: bool = False
    open: bool = False
    dtype: ScalarType = f32
    tail: str = ""
    turned: bool = False

    def __str__(self) -> str:
        words = [
            f"x{list(self.x)} w{list(self.w)} s{self.stride}p{self.pad[0]},{self.pad[1]}d{self.dilation}g{self.groups} {self.dtype}",
            self.tail,
        ]
        return " ".join([*words, *(name for name in ("planar", "constant", "free", "open", "turned") if getattr(self, name))])

    @property
    def spatial(self) -> int:
        return len(self.x) - 2

    @property
    def first(self) -> int:
        """The first of the image's axes that windows slide along."""
        return 2 if self.planar else 1

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.x[self.first : self.first + self.spatial]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(
            (n + sum(self.pad) - (k - 1) * self.dilation - 1) // self.stride + 1 for n, k in zip(self.sizes, self.w[2:], strict=True)
        )

    def arrays(self) -> list[Any]:
        rng = np.random.default_rng(11)
        shapes = [self.x, self.w, (*(1,) * (self.spatial + 1), self.w[0]), (self.x[0], *self.places, self.w[0])]
        return [rng.standard_normal(s).astype(self.dtype.np) for s in shapes]


def expected(case: Case) -> Any:
    """What the case computes, in float64, channels last unless it is turned."""
    x, w, bias, other = case.arrays()
    x = np.moveaxis(x, 1, -1) if case.planar else x
    x = np.pad(x.astype(np.float64), [(0, 0), *[case.pad] * case.spatial, (0, 0)])
    reach = [(k - 1) * case.dilation + 1 for k in case.w[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(1, case.spatial + 1)))
    windows = windows[
        (slice(None), *[slice(None, None, case.stride)] * case.spatial, slice(None), *[slice(None, None, case.dilation)] * case.spatial)
    ]
    out, per_group, letters, taps = case.w[0] // case.groups, case.w[1], "hwd"[: case.spatial], "klm"[: case.spatial]
    parts = []
    for g in range(case.groups):
        part = windows[(slice(None), *[slice(None)] * case.spatial, slice(g * per_group, (g + 1) * per_group))]
        parts.append(np.einsum(f"n{letters}c{taps},oc{taps}->n{letters}o", part, w[g * out : (g + 1) * out].astype(np.float64)))
    y = np.concatenate(parts, axis=-1)
    if case.tail:
        y = y + bias + (other if "residual" in case.tail else 0)
        y = np.maximum(y, 0)
    if "pool" in case.tail:
        windows = np.lib.stride_tricks.sliding_window_view(y, (2,) * case.spatial, axis=tuple(range(1, case.spatial + 1)))
        y = windows[(slice(None), *[slice(None, None, 2)] * case.spatial)].max(axis=tuple(range(-case.spatial, 0)))
    return np.moveaxis(y, -1, 1) if case.turned else y


def module_of(case: Case) -> tuple[Module, list[Any]]:
    """The group of the case at tensor level, and its inputs."""
    x, w, bias, other = case.arrays()
    batch: Dim = N if case.free else case.x[0]
    spatial, first = case.spatial, case.first
    places, taps = "hwd"[:spatial], "klm"[:spatial]
    axes = tuple(range(first, first + spatial))
    sizes: tuple[Dim, ...] = SIZES[:spatial] if case.open else case.sizes

    def make(b: Builder, image: Any, bias: Any, other: Any, weights: Any) -> Any:
        letters = f"nc{places}" if case.planar else f"n{places}c"
        around = axes
        if case.groups > 1:
            image = b(tensor.Reshape, image, shape=(batch, *sizes, case.groups, case.w[1]))
            weights = b(tensor.Reshape, weights, shape=(case.groups, case.w[0] // case.groups, *case.w[1:]))
            letters = f"n{places}gc"
        if any(case.pad):
            low, high = ([p if i in around else 0 for i in range(len(letters))] for p in case.pad)
            image = b(tensor.Pad, image, low=tuple(low), high=tuple(high), interior=(0,) * len(letters))
        windows = b(
            tensor.Window, image, axes=axes, sizes=case.w[2:], strides=(case.stride,) * spatial, dilations=(case.dilation,) * spatial
        )
        group = "g" if case.groups > 1 else ""
        y = b(tensor.Contract, windows, weights, spec=f"{letters}{taps},{group}oc{taps}->n{places}{group}o")
        if case.tail:
            shape = (1, *(1,) * spatial, case.groups, case.w[0] // case.groups) if group else bias.type.shape
            y = b(tensor.Map, y, b(tensor.Reshape, bias, shape=shape) if group else bias, fn="add")
        if "residual" in case.tail:
            y = b(tensor.Map, y, b(tensor.Reshape, other, shape=y.type.shape) if group else other, fn="add")
        if case.tail:
            y = b(tensor.Map, y, b(tensor.Full, value=0.0, shape=(), dtype=case.dtype), fn="max")
        if "pool" in case.tail:
            pooled = tuple(range(1, 1 + spatial))
            windows = b(tensor.Window, y, axes=pooled, sizes=(2,) * spatial, strides=(2,) * spatial, dilations=(1,) * spatial)
            rank = y.type.rank
            y = b(tensor.Reduce, windows, fn="max", axes=tuple(range(rank, rank + spatial)))
        return b(tensor.Transpose, y, perm=channels_first(y.type.rank)) if case.turned else y

    image_shape = (batch, case.x[1], *sizes) if case.planar else (batch, *sizes, case.x[-1])
    # A residual of an image whose size is open has that size.
    beside = (*sizes, other.shape[-1]) if case.open and other.shape[1:-1] == case.sizes else other.shape[1:]
    types = [TensorType(image_shape, case.dtype), TensorType(bias.shape, case.dtype), TensorType((batch, *beside), case.dtype)]
    if case.constant:
        return root_of(types, make, [w]), [x, bias, other]
    return root_of([*types, TensorType(case.w, case.dtype)], make), [x, bias, other, w]


def to_kernels(module: Module, target: Target) -> Module:
    """The module at kernel level, made by the builder of direct convolutions and by no other."""

    def only(request: Request) -> KernelPlan:
        plan = build_direct_conv(request)
        assert plan is not None
        return plan

    lowered: Module = module.clone()
    PassManager([Stage("kernel", TensorToKernel(target, (only,)))]).run(lowered)
    verify(lowered)
    return lowered


def check_native(case: Case) -> None:
    """Machine code gives the expected numbers, bit for bit the same on one thread and on two."""
    module, inputs = module_of(case)
    lowered = to_kernels(module, host())
    executable = load(build_artifact(lowered, host(), "direct", outline_constants(lowered)))
    before = get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            results.append(np.array(executable.run(list(inputs))[0]))
    finally:
        set_num_threads(before)
    assert_close(results[0].reshape(expected(case).shape), expected(case), case.dtype)
    np.testing.assert_array_equal(*results)


def check_evaluated(case: Case, target: Target) -> None:
    """The kernels for `target` give the expected numbers on numpy, where every access is checked."""
    module, inputs = module_of(case)
    made = evaluate(to_kernels(module, target), inputs)[0]
    assert_close(made.reshape(expected(case).shape), expected(case), case.dtype)


PLAIN = [
    Case((2, 9, 11, 5), (20, 5, 3, 3), pad=(1, 1)),
    Case((1, 3, 19, 21), (40, 3, 7, 7), stride=2, pad=(3, 2), planar=True),
    Case((1, 14, 14, 24), (50, 24, 3, 3), pad=(1, 1), tail="residual"),
    Case((1, 12, 13, 8), (33, 8, 5, 3), pad=(0, 2), dilation=2),
    Case((2, 15, 16, 8), (24, 8, 1, 1), stride=2, tail="residual"),
    Case((3, 30, 6), (17, 6, 3), stride=2, pad=(2, 0)),
    Case((1, 5, 6, 7, 4), (18, 4, 3, 2, 3), pad=(1, 1), tail="relu"),
    Case((2, 10, 9, 8), (40, 4, 3, 3), pad=(1, 1), groups=2, tail="residual"),
    Case((1, 9, 8, 12), (36, 4, 3, 3), stride=2, groups=3),
    Case((1, 3, 18, 18), (20, 3, 3, 3), pad=(1, 1), planar=True, tail="pool"),
    Case((1, 18, 17, 8), (48, 8, 3, 3), pad=(1, 1), tail="pool"),
    Case((1, 9, 20, 64), (20, 64, 3, 3), dtype=f64, pad=(1, 1), tail="relu"),
    Case((1, 14, 14, 40), (50, 40, 3, 3), stride=2, pad=(1, 1), tail="residual"),
    Case((2, 15, 1, 34), (20, 34, 3, 3), pad=(1, 1)),
    Case((1, 6, 30, 9), (40, 9, 5, 3), stride=2, pad=(2, 1), tail="relu"),
]
FREE = [replace(PLAIN[i], free=True) for i in (0, 1, 7, 9)]
OPEN = [replace(PLAIN[i], open=True) for i in (0, 1, 3, 5, 6, 8, 9, 10)]
PARAMETERS = [replace(PLAIN[i], constant=False) for i in (2, 7)]
# Panels too deep for the second-level cache, images too large for a task, and several pieces along both axes.
LARGE = [
    Case((1, 8, 8, 1024), (40, 1024, 3, 3), pad=(1, 1), tail="residual"),
    Case((1, 40, 300, 64), (16, 64, 3, 3), pad=(1, 1), tail="relu"),
    Case((1, 4, 500, 130), (20, 130, 3, 3), pad=(1, 1), tail="pool"),
    Case((1, 7, 7, 2050), (64, 2050, 1, 1), stride=2),
    Case((1, 37, 75, 9), (40, 9, 3, 3), pad=(1, 1), tail="relu", open=True),
    Case((1, 6, 9, 1024), (20, 1024, 3, 3), pad=(1, 1), open=True),
]


OFTEN = [*PLAIN, FREE[0], OPEN[5], PARAMETERS[1], *LARGE[:3]]
SELDOM = [case for case in (*FREE, *OPEN, *PARAMETERS, *LARGE) if case not in OFTEN]


@pytest.mark.parametrize("case", [*OFTEN, *(pytest.param(case, marks=pytest.mark.slow) for case in SELDOM)], ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    check_native(case)


@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64-avx2", "x86-64", "aarch64"])
@pytest.mark.parametrize(
    "case",
    [
        Case((1, 3, 8, 7), (18, 3, 3, 3), stride=2, pad=(1, 1), planar=True, tail="relu"),
        Case((2, 4, 6, 3), (5, 3, 3, 3), pad=(1, 1), tail="pool"),
        Case((1, 5, 6, 4), (20, 2, 2, 3), pad=(1, 0), groups=2, tail="residual"),
        Case((1, 12, 3), (17, 3, 3), dilation=2, pad=(2, 2)),
        Case((1, 7, 5, 3), (17, 3, 3, 3), pad=(1, 1), open=True, tail="pool"),
        Case((1, 3, 5, 8), (5, 3, 3, 3), stride=2, pad=(0, 1), planar=True, open=True),
    ],
    ids=str,
)
def test_kernels_of_each_target_touch_no_memory_outside_of_their_buffers(case: Case, target: str) -> None:
    check_evaluated(case, TARGETS[target])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    spatial = draw(st.integers(1, 2))
    taps = tuple(draw(st.integers(1, 3)) for _ in range(spatial))
    groups = draw(st.sampled_from([1, 1, 2]))
    pad, dilation = (draw(st.integers(0, 2)), draw(st.integers(0, 2))), draw(st.integers(1, 2))
    sizes = tuple(draw(st.integers(max((k - 1) * dilation + 1 - sum(pad), 1), 12)) for k in taps)
    channels = draw(st.integers(1, 5))
    planar = groups == 1 and draw(st.booleans())
    x = (draw(st.integers(1, 2)), channels, *sizes) if planar else (1, *sizes, channels * groups)
    tail = draw(st.sampled_from(["", "relu", "residual", "pool"]))
    return Case(x, (draw(st.integers(2, 20)) * groups, channels, *taps), draw(st.integers(1, 3)), pad, dilation, groups, planar, tail=tail)


@settings(max_examples=8, deadline=None)
@given(cases(), st.sampled_from(["x86-64-avx512", "x86-64-avx2"]))
def test_any_convolution_agrees_with_float64(case: Case, target: str) -> None:
    assume(max(case.places) > 1 and ("pool" not in case.tail or min(case.places) > 1))
    check_evaluated(case, TARGETS[target])


# --- sizes that are not known, and rows of pixels that are taken for long


BORDERED = [
    Case((2, 31, 40, 9), (40, 9, 3, 3), pad=(1, 1), tail="residual"),
    Case((1, 3, 40, 47), (20, 3, 3, 3), stride=2, pad=(1, 1), planar=True, tail="relu"),
    Case((2, 3, 21, 1), (20, 3, 3, 3), stride=2, pad=(1, 1), planar=True),
    Case((1, 9, 2, 16), (33, 16, 5, 4), stride=2, pad=(2, 1)),
]


@pytest.mark.parametrize("case", BORDERED, ids=str)
def test_zeros_around_an_image_of_unknown_size_are_left_out_as_well(case: Case) -> None:
    assert directs(replace(case, open=True), host()).border is not None
    check_native(replace(case, open=True))


@settings(max_examples=8, deadline=None)
@given(cases(), st.sampled_from(["x86-64-avx512", "x86-64-avx2", "aarch64"]))
@example(replace(BORDERED[2], x=(1, 3, 2, 1)), "x86-64-avx512")
def test_any_convolution_of_unknown_size_agrees_with_float64(case: Case, target: str) -> None:
    assume(max(case.places) > 1 and ("pool" not in case.tail or min(case.places) > 1))
    check_evaluated(replace(case, open=True, tail=case.tail.replace("residual", "relu")), TARGETS[target])


def test_tasks_copy_of_an_image_of_unknown_size_what_they_read() -> None:
    case, target = Case((1, 16, 14, 14), (32, 16, 5, 5), pad=(2, 2), planar=True, open=True), TARGETS["x86-64-avx512"]
    assert directs(case, target).pad is not None
    lowered = to_kernels(module_of(case)[0], target)
    rows = [op for op in lowered.walk() if isinstance(op, kernel.For) and (op.block.args[0].name or "").startswith("y")]
    copied = [op for op in rows if any(isinstance(inner, kernel.If) for inner in op.block)]
    assert copied and not any(op.hi.producer(kernel.Constant) for op in copied)


# --- and for short


@pytest.fixture
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_plan, "COSTS", replace(DIRECT_COSTS, short_row=1 << 20))


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize(
    "case",
    [
        *(replace(PLAIN[i], open=True) for i in (2, 3, 8, 14)),
        Case((1, 5, 5, 1024), (80, 1024, 3, 3), pad=(1, 1), tail="relu", open=True),
        Case((2, 31, 20, 9), (40, 9, 3, 3), free=True, open=True),
    ],
    ids=str,
)
def test_pixels_are_numbered_through_where_rows_are_short(case: Case) -> None:
    check_native(case)


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize(
    "case",
    [
        Case((2, 4, 3, 64), (72, 64, 3, 3), pad=(1, 1), tail="residual", open=True),
        Case((1, 1, 5, 32), (64, 32, 3, 3), pad=(1, 1), free=True, open=True),
        Case((1, 40, 6, 16), (64, 16, 3, 3), pad=(1, 1), open=True),
        Case((1, 7, 7, 32), (40, 32, 3, 3), pad=(1, 1), open=True),
        Case((1, 8, 8, 16), (17, 16, 3, 3), pad=(1, 1), free=True, open=True),
        Case((1, 9, 4, 16), (64, 16, 3, 3), stride=2, pad=(1, 1), open=True),
    ],
    ids=str,
)
def test_rows_of_few_numbered_pixels_are_tiles(case: Case) -> None:
    """But not where a task begins within a row, nor where windows are two pixels apart."""
    check_native(case)


# --- results with their channels first


def is_found(case: Case, target: str) -> bool:
    """Whether a case is one for a direct convolution."""
    (root,) = (op for op in module_of(case)[0].function("main").block if isinstance(op, tensor.Fused))
    return find_direct(request_of(root, TARGETS[target])) is not None


TURNED = [
    *(replace(PLAIN[i], open=True, turned=True, tail="relu") for i in (0, 1, 2, 3, 4, 5, 11, 12, 13)),
    Case((2, 64, 14, 14), (64, 64, 3, 3), pad=(1, 1), planar=True, open=True, free=True, tail="residual", turned=True),
    Case((1, 16, 1, 1), (17, 16, 3, 3), pad=(1, 1), planar=True, open=True, turned=True),
    Case((1, 16, 2, 1), (80, 16, 1, 1), planar=True, open=True, turned=True),
    Case((1, 3, 70, 150), (32, 3, 3, 3), stride=2, pad=(1, 1), planar=True, open=True, turned=True),
    Case((1, 20, 1, 31), (150, 20, 5, 5), pad=(4, 4), dilation=2, planar=True, open=True, turned=True),
]


@pytest.mark.parametrize("case", TURNED, ids=str)
def test_channels_of_results_may_come_first(case: Case) -> None:
    check_native(case)


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("case", TURNED, ids=str)
def test_channels_of_results_of_numbered_pixels_may_come_first(case: Case) -> None:
    check_native(case)


@settings(max_examples=6, deadline=None)
@given(cases(), st.sampled_from([0, 1 << 20]), st.sampled_from(["x86-64-avx512", "x86-64-avx2"]))
def test_any_convolution_with_its_channels_first_agrees_with_float64(case: Case, short: int, target: str) -> None:
    assume(case.groups == 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct_plan, "COSTS", replace(DIRECT_COSTS, short_row=short))
        turned = replace(case, open=True, turned=True, tail=case.tail and "relu")
        assume(is_found(turned, target))
        check_evaluated(turned, TARGETS[target])


def test_channels_come_last_where_nothing_turns_them() -> None:
    """Known rows have other kernels; without masks a row of pixels has no last block; pooled sums and groups of channels lie elsewhere."""
    open_case = Case((1, 16, 14, 14), (32, 16, 3, 3), pad=(1, 1), planar=True, open=True, turned=True)

    assert is_found(open_case, "x86-64-avx512") and is_found(open_case, "x86-64-avx2")
    assert not is_found(replace(open_case, open=False), "x86-64-avx512")
    assert not is_found(open_case, "aarch64")
    assert not is_found(replace(PLAIN[8], open=True, turned=True), "x86-64-avx512")
    assert not is_found(replace(open_case, tail="pool"), "x86-64-avx512")


@pytest.mark.usefixtures("short_rows")
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases(), st.sampled_from(["x86-64-avx512", "x86-64-avx2", "aarch64"]))
def test_any_convolution_of_numbered_pixels_agrees_with_float64(case: Case, target: str) -> None:
    assume(max(case.places) > 1)
    check_evaluated(replace(case, open=True, tail="relu"), TARGETS[target])


def test_an_image_too_deep_for_the_stack_of_a_thread_is_padded_in_memory() -> None:
    def kernels(channels: int) -> list[str]:
        module, _ = module_of(Case((1, 4, 4, channels), (2, channels, 3, 3), pad=(1, 1)))
        return [f.sym_name.split("_")[0] for f in to_kernels(module, host()).functions if f.sym_name != "main"]

    assert kernels(64) == ["conv"] and kernels(40000) == ["pad", "conv"]


def test_zeros_around_an_image_are_left_out_and_other_numbers_are_copied_with_it() -> None:
    def scratch(value: float, stride: int) -> bool:
        def make(b: Builder, x: Any, w: Any) -> Any:
            padded = b(tensor.Pad, x, low=(0, 1, 1, 0), high=(0, 1, 1, 0), interior=(0,) * 4, value=value)
            windows = b(tensor.Window, padded, axes=(1, 2), sizes=(3, 3), strides=(stride,) * 2, dilations=(1, 1))
            return b(tensor.Contract, windows, w, spec="nabcmk,ocmk->nabo")

        module = root_of([TensorType((1, 9, 9, 16), f32), TensorType((48, 16, 3, 3), f32)], make)
        x, w = (
            np.random.default_rng(i).standard_normal(t.shape).astype(np.float32)
            for i, t in enumerate(a.type for a in module.function("main").args)
        )
        kernels = to_kernels(module, host())
        np.testing.assert_allclose(evaluate(kernels, [x, w])[0], evaluate(module, [x, w])[0], rtol=1e-4, atol=1e-4)
        return any(
            isinstance(op, kernel.Alloc) and op.space == "local"
            for f in kernels.functions
            for op in f.walk()
            if f.sym_name.startswith("conv")
        )

    assert [scratch(0.0, stride) for stride in (1, 2)] == [False, False]
    assert [scratch(1.0, stride) for stride in (1, 2)] == [True, True]


@pytest.mark.parametrize("follows", [False, True])
def test_tiles_ask_for_all_of_the_next_panel_each_for_one_stream_where_the_machine_follows_it(
    follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, asked = Case((1, 9, 9, 16), (64, 16, 3, 3)), list[int]()

    def prefetch(buffer: Any, index: Any, **_: Any) -> tuple[()]:
        asked.append(int(index))
        return ()

    monkeypatch.setattr(direct_plan, "ROOMS", replace(ROOMS, weights_of_l3=0.0))
    monkeypatch.setattr(direct_plan.Direct, "tile", (1, 7, 2))
    monkeypatch.setattr(kernel.Prefetch, "reference", staticmethod(prefetch))
    module, inputs = module_of(case)
    evaluate(to_kernels(module, replace(TARGETS["x86-64-avx512"], hardware_prefetch=follows)), inputs)
    lines = [index // 16 for index in asked]
    panel = 9 * 16 * 2
    first = lines[: len(lines) // 2]
    assert set(first) >= set(range(panel, 2 * panel))
    # Seven tiles, a row each.
    tiles = [first[i * len(first) // 7 : (i + 1) * len(first) // 7] for i in range(7)]
    assert all((tile[-1] - tile[0] < panel // 6) == follows for tile in tiles)


def directs(case: Case, target: Target) -> Direct:
    """How the case is cut for a target."""
    found: list[Direct] = []

    def note(request: Request) -> KernelPlan | None:
        direct = find_direct(request)
        assert direct is not None
        found.append(direct)
        return build_direct_conv(request)

    PassManager([Stage("kernel", TensorToKernel(target, (note,)))]).run(module_of(case)[0].clone())
    (direct,) = found
    return direct


@pytest.mark.parametrize("target", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
@pytest.mark.parametrize(
    "case",
    [
        Case((1, 56, 56, 16), (512, 16, 1, 1), stride=2),
        Case((1, 15, 15, 16), (400, 16, 3, 3), pad=(1, 1)),
        Case((1, 9, 2, 8), (96, 8, 3, 3), pad=(1, 1)),
    ],
    ids=str,
)
def test_sums_of_a_tile_leave_registers_for_a_step_of_the_weights(case: Case, target: str) -> None:
    """Two pixels by six vectors would have twelve sums, and room for nine vectors besides where there are sixteen registers."""
    high, wide, vectors = directs(case, TARGETS[target]).tile
    assert high * wide * vectors + vectors + 1 <= TARGETS[target].vector_registers


@pytest.mark.parametrize("target, final", [("x86-64-avx2", True), ("aarch64", None), ("x86-64-avx512", None)])
def test_with_few_registers_llvm_looks_for_no_cheaper_addresses(target: str, final: bool | None) -> None:
    """It takes most of the time that a start takes there, and gains nothing."""
    kernels = to_kernels(module_of(Case((1, 14, 14, 64), (32, 64, 3, 3), stride=2, pad=(1, 1)))[0], TARGETS[target])
    assert {func.sym_name.split("_")[0]: func.final_addresses for func in kernels.functions if func.sym_name != "main"} == {"conv": final}


def test_tiles_with_few_sums_have_few_vectors_of_weights_that_come_from_memory() -> None:
    """Five pixels by two vectors, not two by five, which have as many sums and more lines to wait for."""
    deep, shallow = Case((1, 14, 14, 512), (512, 512, 3, 3), pad=(1, 1)), Case((1, 14, 14, 4), (40, 4, 3, 3), pad=(1, 1))
    target = TARGETS["x86-64-avx2"]
    assert [directs(case, target).tile for case in (deep, shallow)] == [(1, 5, 2), (1, 2, 5)]


def test_blocks_of_taps_leave_more_of_a_small_cache_to_the_image() -> None:
    case, target = Case((1, 7, 7, 512), (64, 512, 3, 3), pad=(1, 1)), TARGETS["x86-64-avx2"]
    parts = []
    for cache in (512 << 10, 1 << 20):
        direct = directs(case, replace(target, caches=(32 << 10, cache, 8 << 20)))
        parts.append(-(-direct.k // direct.blocks) * direct.width * 4 / cache)
    assert parts[0] <= 1 / 4 < parts[1] <= 1 / 2


def test_what_gives_pixels_last_or_slides_over_nothing_is_left_to_others() -> None:
    def make(b: Builder, x: Any, w: Any) -> Any:
        windows = b(tensor.Window, x, axes=(2, 3), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
        return b(tensor.Contract, windows, w, spec="ncabmk,ocmk->noab")

    image, weights = TensorType((1, 4, 8, 8), f32), TensorType((16, 4, 3, 3), f32)
    with pytest.raises(PassError):
        to_kernels(root_of([image, weights], make), host())
    with pytest.raises(PassError):
        to_kernels(
            root_of([TensorType((9, 4), f32), TensorType((4, 8), f32)], lambda b, x, w: b(tensor.Contract, x, w, spec="rc,co->ro")), host()
        )


def test_rows_of_unknown_length_have_few_steps_of_high_tiles_in_the_text() -> None:
    """There are tiles of many heights, and of each its steps would be written out."""
    few, many = (
        sum(isinstance(op, kernel.Fma) for op in to_kernels(module_of(case)[0], TARGETS["x86-64-avx512"]).walk())
        for case in (Case((1, 40, 40, n), (8, n, 3, 3), pad=(1, 1), open=True) for n in (4, 32))
    )
    assert few < many < 1.5 * few
