"""Winograd convolutions: exact matrices, results within the declared bound of float64 on every target, and when they are chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from polyreme.compiled.kept import compiler_version
from polyreme.dialects import kernel, tensor
from polyreme.ir.accuracy import Array
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.core import Op
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, f64
from polyreme.lowering.analysis.estimates import ASSUMED
from polyreme.lowering.kernels.conv import direct_plan, winograd_plan
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.conv.winograd import build_winograd, write_winograd
from polyreme.lowering.kernels.conv.winograd_plan import (
    ACCURACY,
    Blocking,
    WinogradImage,
    blockings,
    choose_blockings,
    find_image,
    schedule_blockings,
)
from polyreme.lowering.kernels.conv.winograd_transforms import POINTS, STRIDED_POINTS, transforms, transforms_at
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.direct_costs import DIRECT_COSTS
from polyreme.lowering.machines.targets import TARGETS, Target, host
from tests.lowering import bounds
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.products import root_of

N = symbol("N")


# --- the matrices


EVERY = [*((size, 1, taps) for size, taps in POINTS), *((size, 2, 3) for size in STRIDED_POINTS)]
SIZES = sorted({size for _, size in ACCURACY})


@pytest.mark.parametrize(("size", "stride", "taps"), EVERY)
def test_the_matrices_give_the_convolution_exactly(size: int, stride: int, taps: int) -> None:
    """A ((G g) * (B d)) in fractions, for data and weights that are 1 in one place: both sides are linear in each."""
    t = transforms(size, stride, taps)
    assert t.reach == (size - 1) * stride + taps == len(t.data)
    for i in range(t.reach):
        for k in range(taps):
            products = [t.data[p][i] * t.weights[p][k] for p in range(t.reach)]
            made = [sum(a * x for a, x in zip(row, products, strict=True)) for row in t.results]
            assert made == [Fraction(i - k == y * stride) for y in range(size)]


@pytest.mark.parametrize(("size", "stride", "taps"), EVERY)
def test_what_is_applied_when_the_model_runs_is_exact_in_float32(size: int, stride: int, taps: int) -> None:
    t = transforms(size, stride, taps)
    for row in (*t.data, *t.results):
        assert all(Fraction(float(np.float32(float(x)))) == x for x in row)


def test_points_that_do_not_suffice_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 5 different points for 4 results but got"):
        transforms_at(4, [Fraction(p) for p in (0, 1, -1, 2, 2)])


# --- the convolutions


@dataclass(frozen=True)
class Case:
    """A convolution of `x` [batch, height, width, channels] with zeros around it (top, bottom, left, right) to `outputs` channels, with
    windows `stride` pixels apart, and what follows it. `free` leaves the batch open, `open` the sizes of the image.
    """

    x: tuple[int, int, int, int]
    outputs: int
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    bias: bool = False
    residual: bool = False
    pool: int = 1
    free: bool = False
    open: bool = False
    stride: int = 1
    taps: int = 3

    @property
    def high(self) -> int:
        return self._windows(self.x[1] + self.pads[0] + self.pads[1])

    @property
    def wide(self) -> int:
        return self._windows(self.x[2] + self.pads[2] + self.pads[3])

    def _windows(self, pixels: Any) -> Any:
        return (pixels - self.taps) // self.stride + 1

    def arrays(self, spread: float = 0.0) -> tuple[list[Array], list[Array]]:
        """Inputs (the image, the residual) and constants (the weights, the bias); pixels differ in size by up to 10**spread."""
        rng = np.random.default_rng(7)
        x = rng.standard_normal(self.x) * 10.0 ** rng.uniform(-spread, spread, (*self.x[:3], 1))
        w = rng.standard_normal((self.outputs, self.x[3], self.taps, self.taps))
        residual = rng.standard_normal((self.x[0], self.high, self.wide, self.outputs))
        bias = rng.standard_normal((1, 1, 1, self.outputs))
        as_f32 = lambda arrays: [a.astype(np.float32) for a in arrays]
        return as_f32([x] + [residual] * self.residual), as_f32([w] + [bias] * self.bias)

    def module(self, constants: list[Array]) -> Module:
        """The case as one group at tensor level."""
        batch = N if self.free else self.x[0]
        top, bottom, left, right = self.pads

        def make(b: Builder, x: Any, *rest: Any) -> Any:
            if any(self.pads):
                x = b(tensor.Pad, x, low=(0, top, left, 0), high=(0, bottom, right, 0), interior=(0,) * 4)
            w = rest[len(rest) - len(constants)]
            windows = b(tensor.Window, x, axes=(1, 2), sizes=(self.taps,) * 2, strides=(self.stride,) * 2, dilations=(1, 1))
            y = b(tensor.Contract, windows, w, spec="NabCmn,OCmn->NabO")
            for other in [*([rest[-1]] if self.bias else []), *([rest[0]] if self.residual else [])]:
                y = b(tensor.Map, y, other, fn="add")
            if self.pool > 1:
                windows = b(tensor.Window, y, axes=(1, 2), sizes=(self.pool,) * 2, strides=(self.pool,) * 2, dilations=(1, 1))
                y = b(tensor.Reduce, windows, fn="max", axes=(4, 5))
            return y

        height, width = (symbol("H"), symbol("W")) if self.open else self.x[1:3]
        types = [TensorType((batch, height, width, self.x[3]), f32)]
        if self.residual:
            types.append(TensorType((batch, self._windows(height + top + bottom), self._windows(width + left + right), self.outputs), f32))
        return root_of(types, make, constants)

    def convolved(self, x: Array, w: Array) -> Array:
        """The convolution alone, in float64."""
        top, bottom, left, right = self.pads
        x = np.pad(x.astype(np.float64), [(0, 0), (top, bottom), (left, right), (0, 0)])
        step = self.stride
        rows, columns = (self.high - 1) * step + 1, (self.wide - 1) * step + 1
        taps = [
            (x[:, i : i + rows : step, j : j + columns : step], w[:, :, i, j].astype(np.float64))
            for i in range(self.taps)
            for j in range(self.taps)
        ]
        return sum(part @ tap.T for part, tap in taps)  # type: ignore[return-value]

    def expected(self, inputs: list[Array], constants: list[Array]) -> Array:
        y = self.convolved(inputs[0], constants[0])
        for other in [*(constants[1:]), *(inputs[1:])]:
            y = y + other
        return _pooled(y, self.pool) if self.pool > 1 else y

    def bound(self, inputs: list[Array], constants: list[Array], size: int) -> Array:
        """`ACCURACY[taps, size]` with the magnitude that the module declares for it, after the pooling."""
        magnitude = self.convolved(np.abs(inputs[0]), np.abs(constants[0]))
        of_pieces = np.empty_like(magnitude)
        for i in range(0, self.high, size):
            for j in range(0, self.wide, size):
                piece = (slice(None), slice(i, i + size), slice(j, j + size))
                of_pieces[piece] = magnitude[piece].max((1, 2), keepdims=True)
        bound = ACCURACY[self.taps, size].bound(self.convolved(inputs[0], constants[0]), f32, of_pieces, self.taps**2 * self.x[3])
        # Each of the sums after it rounds once more.
        bound = bound + np.finfo(np.float32).eps * (self.bias + self.residual) * (np.abs(self.expected_before_pool(inputs, constants)) + 8)
        return _pooled(bound, self.pool) if self.pool > 1 else bound

    def expected_before_pool(self, inputs: list[Array], constants: list[Array]) -> Array:
        return replace(self, pool=1).expected(inputs, constants)


def _pooled(y: Array, size: int) -> Array:
    n, high, wide, channels = y.shape
    y = y[:, : high // size * size, : wide // size * size]
    return np.asarray(y.reshape(n, high // size, size, wide // size, size, channels).max((2, 4)))


def by_cuts(image: WinogradImage, cuts: list[Blocking]) -> KernelPlan:
    """The plan by these cuts."""
    return write_winograd(image, schedule_blockings(image, cuts))


def with_blocking(pick: Callable[[list[Blocking]], Blocking]) -> Callable[[Request], KernelPlan | None]:
    """A builder that makes any Winograd convolution, cut as `pick` says."""

    def build(request: Request) -> KernelPlan | None:
        image = find_image(request)
        assert image is not None
        return by_cuts(image, [pick(list(blockings(image, sizes_of(image.span, image.stride))))])

    return build


def has_pieces(case: Case, size: int) -> bool:
    """Whether the result can be cut into pieces of this size."""
    return size in sizes_of(case.taps, case.stride) and size % case.pool == 0


def sizes_of(span: int, stride: int) -> list[int]:
    """Sizes of pieces that windows of `span` x `span` may be cut into."""
    return [size for size, step, taps in EVERY if (taps, size) in ACCURACY and (taps, step) == (span, stride)]


@st.composite
def cases_on_targets(draw: Any) -> tuple[Case, str]:
    """Small ones: on numpy, narrow vectors take long."""
    target = draw(st.sampled_from(["x86-64-avx512", "x86-64-avx2", "x86-64", "aarch64"]))
    channels = st.sampled_from([16, 20, 33, 40] if target == "x86-64-avx512" else [16, 17, 20])
    batch, high, wide = draw(st.integers(1, 2)), draw(st.integers(3, 6)), draw(st.integers(3, 6))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    sizes = (batch, high, wide, draw(channels))
    case = Case(sizes, draw(channels), pads, draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from([1, 1, 2])))
    stride, taps = draw(st.sampled_from([(1, 3), (2, 3), (1, 5)]))
    sizes = (batch, high + taps - 3, wide + taps - 3, case.x[3])
    case = replace(case, x=sizes, free=draw(st.booleans()), open=draw(st.booleans()), stride=stride, taps=taps)
    return (case if min(case.high, case.wide) >= case.pool else replace(case, pool=1)), target


@settings(max_examples=2, deadline=None)
@example((Case((1, 6, 7, 20), 40, pool=2, bias=True), "x86-64-avx512"), 4, 11, 3.0)
@example((Case((1, 6, 5, 17), 17), "aarch64"), 4, 3, 0.0)
@example((Case((2, 7, 9, 17), 16, pads=(1, 0, 2, 1), residual=True, open=True), "x86-64-avx512"), 4, 3, 0.0)
@example((Case((1, 3, 3, 17), 17, pads=(0, 0, 0, 0)), "x86-64-avx2"), 2, 5, 0.0)
@example((Case((1, 7, 6, 17), 18, bias=True, stride=2), "x86-64-avx512"), 4, 3, 3.0)
@example((Case((2, 7, 6, 17), 40, residual=True), "x86-64-avx512"), 2, -1, 0.0)
@example((Case((1, 7, 5, 20), 40, bias=True, open=True), "x86-64-avx512"), 3, 2, 3.0)
@example((Case((1, 9, 8, 17), 16, pads=(0, 1, 0, 1), stride=2, pool=2), "aarch64"), 2, 3, 0.0)
@example((Case((1, 9, 8, 17), 20, pads=(2, 2, 2, 2), bias=True, taps=5), "x86-64-avx512"), 2, 3, 3.0)
@example((Case((2, 7, 8, 16), 17, pads=(2, 1, 0, 2), pool=2, taps=5, open=True), "aarch64"), 2, 5, 0.0)
@given(cases_on_targets(), st.sampled_from(SIZES), st.integers(0, 1000), st.sampled_from([0.0, 3.0]))
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(
    drawn: tuple[Case, str], size: int, which: int, spread: float
) -> None:
    """However the work is cut, for any target, and for pixels of very different sizes."""
    case, target = drawn
    inputs, constants = case.arrays(spread)
    assume(has_pieces(case, size))
    cut = with_blocking(lambda all: (some := [b for b in all if b.size == size])[which % len(some)])
    lowered = to_kernels(case.module(constants), TARGETS[target], cut)
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), case.bound(inputs, constants, size))


CASES = [
    Case((1, 14, 14, 64), 80, bias=True, residual=True),
    Case((1, 20, 16, 32), 64, bias=True, pool=2),
    Case((3, 7, 9, 48), 33, pads=(2, 0, 1, 1), free=True),
    Case((2, 30, 25, 32), 48, bias=True, residual=True, open=True),
    Case((2, 17, 26, 16), 32, pads=(0, 2, 1, 1), pool=2, free=True, open=True),
    Case((1, 30, 30, 16), 16, pads=(0, 0, 0, 0)),
    Case((1, 28, 28, 64), 80, bias=True, stride=2),
    Case((2, 19, 22, 33), 48, residual=True, stride=2, free=True),
    Case((2, 30, 25, 32), 48, pads=(0, 1, 0, 1), bias=True, open=True, stride=2),
    Case((1, 27, 27, 64), 96, pads=(2, 2, 2, 2), bias=True, taps=5),
    Case((2, 17, 14, 33), 40, pads=(1, 2, 2, 2), residual=True, free=True, open=True, taps=5),
]


@pytest.mark.parametrize(("case", "size"), [(case, size) for case in CASES for size in SIZES if has_pieces(case, size)], ids=str)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, size: int) -> None:
    check_machine_code(case, size, lambda b: not b.transforms_first)


CASES_AHEAD = [
    Case((3, 9, 9, 36), 70, bias=True, residual=True),
    Case((1, 17, 17, 32), 70, stride=2, pool=2),
    Case((1, 14, 14, 32), 70, pads=(2, 2, 2, 2), taps=5),
]


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(("case", "size"), [(case, size) for case in CASES_AHEAD for size in SIZES if has_pieces(case, size)], ids=str)
def test_an_image_that_is_transformed_before_gives_the_same(case: Case, size: int, copies: bool) -> None:
    """Once for all threads, or by each of two for itself."""
    target = replace(host(), separate_l3=copies)
    check_machine_code(case, size, lambda b: b.transforms_first, target=target)
    check_machine_code(case, size, lambda b: b.transforms_first and b.blocks > 1 and b.all_pieces % b.pieces > 0, target=target)


def test_each_of_two_threads_has_memory_of_its_own_for_the_transformed_image() -> None:
    """Where stores wait for copies that others have, and the image's size is known."""
    sizes = {}
    for copies in (False, True):
        for open in (False, True):
            case = replace(CASES_AHEAD[0], open=open)
            plans: list[KernelPlan] = []

            def watch(request: Request, plans: list[KernelPlan] = plans) -> KernelPlan | None:
                plan = with_blocking(lambda all: next(b for b in all if b.transforms_first))(request)
                assert plan is not None
                plans.append(plan)
                return plan

            to_kernels(case.module(case.arrays()[1]), replace(TARGETS["x86-64-avx512"], separate_l3=copies), watch)
            sizes[copies, open] = [(s.elements, dict(plans[0].of_thread).get(i, 0)) for i, s in enumerate(plans[0].scratch)]
    ((alone, _),) = sizes[False, False]
    assert sizes[True, False] == [(2 * alone, alone)]
    assert sizes[True, True] == sizes[False, True] and sizes[True, True][0][1] == 0


@pytest.mark.parametrize("transforms_first", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        Case((5, 9, 9, 36), 70, bias=True, free=True),
        Case((1, 33, 26, 32), 70, residual=True, open=True),
        Case((2, 17, 29, 32), 70, stride=2, pool=2, free=True, open=True),
    ],
    ids=str,
)
def test_pieces_of_unknown_number_are_shared_out_among_blocks(case: Case, transforms_first: bool) -> None:
    """With room for those of one register tile, so that there are several blocks."""
    check_machine_code(case, 4, lambda b: b.transforms_first == transforms_first, lambda b: replace(b, pieces=b.rows))


@pytest.mark.parametrize("transforms_first", [False, True])
@pytest.mark.parametrize(
    "case", [Case((1, 10, 13, 17), 20), Case((1, 10, 13, 17), 20, open=True), Case((3, 5, 9, 20), 20, free=True)], ids=str
)
def test_pieces_that_are_multiplied_for_nothing_are_zeros(case: Case, transforms_first: bool) -> None:
    """What memory holds by chance may be numbers that multiply-adds are a hundred times as slow with; on numpy it holds nan."""
    inputs, constants = case.arrays()
    factors: list[bool] = []

    def watch(op: Op, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        if isinstance(op, kernel.Fma):
            factors.append(all(np.isfinite(x).all() for x in operands))
        return results

    def uneven(all: list[Blocking]) -> Blocking:
        """Of 12 pieces, the last block has fewer than the others."""
        chosen = next(b for b in all if b.size == 4 and b.transforms_first == transforms_first)
        return replace(chosen, pieces=chosen.rows if case.open or case.free else 5)

    evaluate(to_kernels(case.module(constants), TARGETS["x86-64-avx512"], with_blocking(uneven)), inputs, watch=watch)
    assert factors and all(factors)


@pytest.mark.parametrize("pixels", [(9, 7), (9, 8), (30, 25)])
def test_few_pixels_and_many_may_have_blockings_of_their_own(pixels: tuple[int, int]) -> None:
    case = Case((1, *pixels, 32), 48, bias=True, residual=True, open=True)
    inputs, constants = case.arrays()

    def two(request: Request) -> KernelPlan | None:
        image = find_image(request)
        assert image is not None
        small, large = (next(b for b in blockings(image) if b.size == size and b.transforms_first) for size in (2, 4))
        return by_cuts(image, [replace(small, below=72), replace(large, least=72)])

    lowered = to_kernels(case.module(constants), host(), two)
    bounds.check_machine_code(
        lowered, inputs, case.expected(inputs, constants), case.bound(inputs, constants, 2 if pixels == (9, 7) else 4)
    )


LIMIT = 20
# Its weights are those of the open one, whatever the size of the image.
SMALL = Case((1, 6, 6, 20), 20, bias=True, residual=True, free=True, open=True)


@cache
def ways(stride: int, target: str) -> list[Module]:
    """An open convolution in two ways, the direct one for fewer than `LIMIT` pixels; in the direct way alone; in Winograd's alone."""
    case = replace(SMALL, stride=stride)

    def made(least: int) -> Callable[[Request], KernelPlan | None]:
        return with_blocking(lambda all: replace(next(b for b in all if b.size == 2 and b.transforms_first), least=least))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct_plan, "COSTS", replace(DIRECT_COSTS, short_row=1 << 20))
        return [to_kernels(case.module(SMALL.arrays()[1]), TARGETS[target], build) for build in (made(LIMIT), build_direct_conv, made(0))]


@settings(max_examples=2, deadline=None)
@example((1, "x86-64-avx512"), 1, 4, 4)
@example((1, "x86-64-avx512"), 1, 4, 5)
@example((2, "aarch64"), 2, 5, 5)
@given(st.sampled_from([(1, "x86-64-avx512"), (2, "aarch64")]), st.integers(1, 2), st.integers(1, 6), st.integers(1, 6))
def test_few_pixels_are_convolved_directly_and_many_by_winograds_algorithm(made: tuple[int, str], batch: int, high: int, wide: int) -> None:
    """Across the number of pixels that decides, results are those of the one way or the other, to the last bit, and within the bound."""
    stride, target = made
    case = replace(SMALL, x=(batch, high, wide, 20), stride=stride)
    inputs, constants = case.arrays()[0], SMALL.arrays()[1]
    lowered, direct, fast = ways(stride, target)
    (both,), (one,) = evaluate(lowered, inputs), evaluate(direct if batch * case.high * case.wide < LIMIT else fast, inputs)
    np.testing.assert_array_equal(both, one)
    assert_within(both, case.expected(inputs, constants), case.bound(inputs, constants, 2))


@pytest.mark.parametrize("pixels", [(4, 4), (4, 5)])
def test_machine_code_convolves_few_pixels_directly_too(pixels: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_plan, "COSTS", replace(DIRECT_COSTS, short_row=1 << 20))
    case = Case((1, *pixels, 40), 72, bias=True, residual=True, open=True)
    inputs, constants = case.arrays()
    both = with_blocking(lambda all: replace(next(b for b in all if b.size == 4 and b.transforms_first), least=LIMIT))
    bounds.check_machine_code(
        to_kernels(case.module(constants), host(), both), inputs, case.expected(inputs, constants), case.bound(inputs, constants, 4)
    )


def test_small_images_whose_weights_take_longer_than_their_pixels_have_a_blocking_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_plan, "ASSUMED", replace(ASSUMED, sides=(10, 14, 20)))
    cuts: list[list[Blocking]] = []
    for channels in (64, 256):
        case = Case((1, 14, 14, channels), channels, open=True)
        found: list[Any] = []
        to_kernels(case.module(case.arrays()[1]), TARGETS["x86-64-avx512"], lambda request, found=found: found.append(find_image(request)))
        cuts.append(choose_blockings(found[0]))
    assert [[(b.size, b.least, b.below) for b in each] for each in cuts] == [[(4, 0, None)], [(2, 0, 140), (4, 140, None)]]


@pytest.mark.parametrize("target", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
@pytest.mark.parametrize("open", [False, True])
def test_sums_of_a_tile_leave_registers_for_a_step_of_the_weights(target: str, open: bool) -> None:
    case, found, machine = Case((1, 14, 14, 64), 64, open=open), list[Any](), TARGETS[target]
    to_kernels(case.module(case.arrays()[1]), machine, lambda request: found.append(find_image(request)))
    cuts = list(blockings(found[0]))
    assert cuts and all(cut.rows * cut.vectors + cut.vectors + 1 <= machine.vector_registers for cut in cuts)


def test_smaller_images_yet_of_many_channels_are_convolved_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are where their size is known."""
    monkeypatch.setattr(winograd_plan, "ASSUMED", replace(ASSUMED, sides=(5, 7, 10)))
    monkeypatch.setattr(direct_plan, "COSTS", replace(DIRECT_COSTS, short_row=1 << 20))
    found: list[Any] = []
    plans: list[KernelPlan | None] = []

    def watch(request: Request) -> None:
        found.append(find_image(request))
        plans.append(build_winograd(request))

    case = Case((1, 7, 7, 512), 512, open=True)
    to_kernels(case.module(case.arrays()[1]), TARGETS["x86-64-avx512"], watch)
    (cut,) = choose_blockings(found[0])
    assert (cut.size, cut.least, cut.below) == (2, isqrt(25 * 49), None)
    assert plans[0] is not None
    assert [step.func.sym_name.rsplit("_", 1)[0] for step in plans[0].steps] == ["pad", "conv", "winograd_image", "winograd"]
    assert not any(choose_blockings(found[0].sized(n)) for n in (3, 4, 5))
    assert choose_blockings(found[0].sized(6))


def test_pieces_are_smaller_where_additions_take_the_time_of_multiplications() -> None:
    """Transforms are mostly additions, and weights come from memory more slowly there."""
    spare = replace(TARGETS["x86-64-avx512"], caches=(48 << 10, 2 << 20, 16 << 20))
    sizes: list[list[list[int]]] = []
    for target in (spare, replace(spare, l3_bytes_per_cycle=9.5, memory_bytes_per_cycle=4.5, spare_adders=False)):
        sizes.append([])
        for case in (
            Case((1, 56, 56, 64), 64),
            Case((1, 14, 14, 256), 256),
            Case((1, 56, 56, 128), 128, stride=2),
            Case((1, 56, 56, 64), 128, stride=2),
        ):
            found: list[Any] = []
            to_kernels(case.module(case.arrays()[1]), target, lambda request, found=found: found.append(find_image(request)))
            sizes[-1].append([b.size for b in choose_blockings(found[0])])
    assert sizes == [[[4], [4], [4], [4]], [[4], [3], [2], [2]]]


def test_few_pixels_of_many_channels_are_convolved_directly_where_memory_is_slow() -> None:
    """Transformed weights are 1.8 times as many, and of the direct way's taps a fifth are over zeros."""
    fast = replace(TARGETS["x86-64-avx512"], caches=(48 << 10, 2 << 20, 16 << 20))
    slow = replace(fast, l3_bytes_per_cycle=9.5, memory_bytes_per_cycle=4.5, spare_adders=False, hardware_prefetch=True)
    found: list[Any] = []
    for target in (fast, slow):
        case = Case((1, 7, 7, 512), 512)
        to_kernels(case.module(case.arrays()[1]), target, lambda request: found.append(find_image(request)))
    assert [bool(choose_blockings(image)) for image in found] == [True, False]


def check_machine_code(
    case: Case,
    size: int,
    suits: Callable[[Blocking], bool],
    change: Callable[[Blocking], Blocking] = lambda b: b,
    target: Target | None = None,
) -> None:
    """The cheapest way to cut the work that suits, changed, on one thread and on two."""
    inputs, constants = case.arrays()
    cheapest = with_blocking(lambda all: change(min((b for b in all if b.size == size and suits(b)), key=lambda b: b.cycles)))
    lowered = to_kernels(case.module(constants), target or host(), cheapest)
    bounds.check_machine_code(lowered, inputs, case.expected(inputs, constants), case.bound(inputs, constants, size))


# --- when they are chosen


def chosen(case: Case, target: str = "x86-64-avx512", edit: Callable[[Any], None] | None = None) -> bool:
    """Whether the builder takes the case, its weights being constant."""
    found: list[KernelPlan | None] = []

    def watch(request: Request) -> KernelPlan | None:
        found.append(build_winograd(request))
        return None

    _, constants = case.arrays()
    module = case.module(constants)
    if edit is not None:
        edit(module)
    to_kernels(module, TARGETS[target], watch)
    return any(plan is not None for plan in found)


def test_convolutions_with_many_channels_are_taken() -> None:
    assert chosen(Case((1, 28, 28, 128), 128, bias=True, residual=True))
    assert chosen(Case((1, 28, 28, 128), 128, bias=True, pool=2))
    assert chosen(Case((1, 28, 28, 128), 128, free=True))
    assert chosen(Case((1, 28, 28, 128), 128, open=True))
    assert chosen(Case((1, 56, 56, 128), 128, bias=True, stride=2))
    assert chosen(Case((1, 28, 28, 128), 128, bias=True, taps=5, pads=(2, 2, 2, 2)))


def test_convolutions_with_few_channels_are_left_to_others() -> None:
    assert not chosen(Case((1, 28, 28, 3), 64))
    assert not chosen(Case((1, 28, 28, 64), 8))
    assert not chosen(Case((1, 28, 28, 64), 64, taps=5, stride=2))
    assert not chosen(Case((1, 28, 28, 64), 64, taps=4))


def test_poolings_whose_windows_cross_pieces_are_left_to_others() -> None:
    assert not chosen(Case((1, 27, 27, 64), 64, pool=3))


@pytest.mark.parametrize("changed", [{"strides": (2, 1)}, {"strides": (3, 3)}, {"dilations": (1, 2)}, {"sizes": (3, 2)}])
def test_other_windows_are_left_to_others(changed: dict[str, Any]) -> None:
    case = Case((1, 28, 28, 64), 64)
    _, (w,) = case.arrays()
    window = {"axes": (1, 2), "sizes": (3, 3), "strides": (1, 1), "dilations": (1, 1), **changed}

    def make(b: Builder, x: Any, w: Any) -> Any:
        return b(tensor.Contract, b(tensor.Window, x, **window), w, spec="NabCmn,OCmn->NabO")

    found = []
    module = root_of([TensorType(case.x, f32)], make, [w[..., : window["sizes"][1]]])
    to_kernels(module, host(), lambda request: found.append(find_image(request)))
    assert found == [None]


def test_other_contracts_are_left_to_others() -> None:
    found = []
    for spec, shapes in (("a,a->", [(64,), (64,)]), ("ab,bc->ac", [(64, 64), (64, 64)])):
        make = lambda b, x, w: b(tensor.Contract, x, w, spec=spec)  # noqa: B023
        to_kernels(
            root_of([TensorType(shapes[0], f32)], make, [np.ones(shapes[1], np.float32)]),
            host(),
            lambda request: found.append(build_winograd(request)),
        )
    assert found == [None, None]


def test_float64_is_left_to_others() -> None:
    def make(b: Builder, x: Any, w: Any) -> Any:
        windows = b(tensor.Window, x, axes=(1, 2), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
        return b(tensor.Contract, windows, w, spec="NabCmn,OCmn->NabO")

    found = []
    to_kernels(
        root_of([TensorType((1, 8, 8, 64), f64)], make, [np.ones((64, 64, 3, 3))]),
        host(),
        lambda request: found.append(find_image(request)),
    )
    assert found == [None]


def test_the_target_or_the_environment_may_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case((1, 28, 28, 64), 64)
    monkeypatch.setitem(TARGETS, "without", replace(TARGETS["x86-64-avx512"], winograd=False))
    assert chosen(case) and not chosen(case, "without")
    monkeypatch.setenv("POLYREME_WINOGRAD", "0")
    assert not chosen(case)


def test_code_compiled_without_it_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = compiler_version()
    monkeypatch.setenv("POLYREME_WINOGRAD", "0")
    assert compiler_version() != with_it


@pytest.mark.parametrize("taps", [3, 5])
def test_the_kernel_that_packs_weights_does_what_the_pack_says(taps: int) -> None:
    """For weights that are arguments, as in `to_static`; the function is what constants go through."""
    case = Case((1, 6, 6, 32), 40, taps=taps)
    _, (w,) = case.arrays()
    packs = []

    def watch(request: Request) -> None:
        image = find_image(replace(request, kept=request.constant))
        assert image is not None
        for cut in list(blockings(image))[::9]:
            packs.extend(by_cuts(image, [cut]).packs)

    to_kernels(case.module([w]), TARGETS["x86-64-avx512"], watch)
    assert len(packs) > 1
    for pack in packs[:6]:
        (expected,) = evaluate(pack.func, [w])
        made = np.full(expected.shape, np.nan, np.float32)
        evaluate(pack.kernel, [w, made])
        np.testing.assert_allclose(made, expected, rtol=0, atol=1e-5)
