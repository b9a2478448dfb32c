"""Convolutions by Winograd's inner product: windows of all kinds within the declared bound of float64, and when it is chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.accuracy import INNER_PRODUCT, Array
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.conv.winograd import build_winograd
from polyreme.lowering.kernels.gemm import winograd_inner_product_plan
from polyreme.lowering.kernels.gemm.winograd_inner_product import build_winograd_inner_product
from polyreme.lowering.kernels.gemm.winograd_inner_product_plan import GROUP, find_winograd_inner_product
from polyreme.lowering.kernels.gemm.winograd_inner_product_rows import find_rows
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.targets import host
from tests.lowering import bounds
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.kernels.gemm.test_winograd_inner_product import WORTH
from tests.lowering.products import root_of


@dataclass(frozen=True)
class Case:
    """A convolution of `x` [batch, *sizes, channels] to `outputs` channels: `taps`, strides, dilations, and zeros before and behind the
    image for each axis; with `residual` it and a bias are added.
    """

    x: tuple[int, ...]
    outputs: int
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...] = (1, 1)
    residual: bool = False

    @property
    def places(self) -> tuple[int, ...]:
        sizes = zip(self.x[1:-1], self.taps, self.strides, self.pads, self.dilations, strict=False)
        return tuple((size + sum(pad) - (taps - 1) * dilation - 1) // stride + 1 for size, taps, stride, pad, dilation in sizes)

    def arrays(self) -> tuple[list[Array], list[Array]]:
        """Inputs (the image, the residual) and constants (weights [outputs, channels, *taps], the bias); pixels differ in size."""
        rng = np.random.default_rng(7)
        x = rng.standard_normal(self.x) * 10.0 ** rng.uniform(-2, 2, (*self.x[:-1], 1))
        w = rng.standard_normal((self.outputs, self.x[-1], *self.taps))
        residual, bias = (
            rng.standard_normal((self.x[0], *self.places, self.outputs)),
            rng.standard_normal((1,) * (len(self.x) - 1) + (self.outputs,)),
        )
        as_f32 = lambda arrays: [a.astype(np.float32) for a in arrays]
        return as_f32([x] + [residual] * self.residual), as_f32([w] + [bias] * self.residual)

    def module(self, inputs: list[Array], constants: list[Array]) -> Module:
        """The case as one group at tensor level."""
        rank, count = len(self.x), len(self.taps)

        def make(b: Builder, x: Any, *rest: Any) -> Any:
            if any(map(any, self.pads)):
                low, high = ((0, *(pad[i] for pad in self.pads), 0) for i in range(2))
                x = b(tensor.Pad, x, low=low, high=high, interior=(0,) * rank)
            w = rest[self.residual]
            x = b(
                tensor.Window, x, axes=tuple(range(1, 1 + count)), sizes=self.taps, strides=self.strides, dilations=self.dilations[:count]
            )
            y = b(tensor.Contract, x, w, spec="NaCm,OCm->NaO" if count == 1 else "NabCmn,OCmn->NabO")
            for other in (rest[0], rest[2]) if self.residual else ():
                y = b(tensor.Map, y, other, fn="add")
            return y

        return root_of([TensorType(a.shape, f32) for a in inputs], make, constants)

    def windows(self, x: Array) -> Array:
        """[batch, *places, steps] in float64, a row for each pixel."""
        padded = np.pad(x.astype(np.float64), [(0, 0), *self.pads, (0, 0)])
        taken = []
        for tap in product(*map(range, self.taps)):
            where = [
                slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(tap, self.dilations, self.places, self.strides, strict=False)
            ]
            taken.append(padded[(slice(None), *where)])
        return np.concatenate(taken, axis=-1)

    def columns(self, w: Array) -> Array:
        """[steps, outputs] in float64, in the order of `windows`."""
        return np.asarray(np.moveaxis(w.astype(np.float64), (0, 1), (-1, -2)).reshape(-1, self.outputs))

    def expected(self, inputs: list[Array], constants: list[Array]) -> Array:
        y = self.windows(inputs[0]) @ self.columns(constants[0])
        return np.asarray(y + inputs[1] + constants[1] if self.residual else y)

    def bound(self, inputs: list[Array], constants: list[Array]) -> Array:
        """`INNER_PRODUCT` with the magnitude and terms that `paired` declares for it."""
        rows, columns = self.windows(inputs[0]), self.columns(constants[0])
        magnitude = np.linalg.norm(rows, axis=-1)[..., None] * np.linalg.norm(columns, axis=0)
        later = np.finfo(np.float32).eps * 2 * self.residual * (np.abs(self.expected(inputs, constants)) + 8)
        return np.asarray(INNER_PRODUCT.bound(rows @ columns, f32, magnitude, -(-len(columns) // GROUP) * GROUP) + later)


def always(request: Request) -> KernelPlan | None:
    """The builder, for every convolution that it can make."""
    plan = build_winograd_inner_product(request)
    assert plan is not None
    return plan


CASES = [
    Case((2, 7, 8, 20), 19, (3, 3), (2, 2), ((1, 1), (1, 1)), residual=True),
    Case((1, 5, 6, 33), 16, (1, 1), (2, 2), ((0, 0), (0, 0))),
    Case((1, 6, 9, 16), 33, (3, 2), (1, 3), ((2, 0), (0, 1)), (2, 1)),
    Case((1, 6, 5, 17), 20, (3, 5), (1, 2), ((1, 1), (4, 3)), (3, 2), residual=True),
    Case((2, 2, 2, 18), 17, (3, 3), (1, 1), ((4, 1), (1, 1))),
    Case((2, 9, 16), 18, (9,), (1,), ((4, 4),)),
    Case((1, 9, 1, 16), 20, (2, 1), (4, 1), ((0, 0), (1, 1))),
    Case((1, 3, 3, 16), 20, (3, 3), (1, 1), ((1, 0), (0, 1)), residual=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that reach out of the image on either side, or lie outside of it; channels that fill no vector; taps with gaps; and several
    tasks.
    """
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    inputs, constants = case.arrays()
    target = replace(WORTH, caches=(WORTH.caches[0], 40_000, WORTH.caches[2]))
    lowered = to_kernels(case.module(inputs, constants), target, always)
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), case.bound(inputs, constants))


@pytest.mark.parametrize("case", [*CASES[:3], Case((2, 28, 28, 72), 70, (3, 3), (2, 2), ((0, 1), (0, 1)), residual=True)], ids=str)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if host().vector_bytes != 64:
        pytest.skip("vectors of 64 bytes")
    monkeypatch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
    inputs, constants = case.arrays()
    lowered = to_kernels(case.module(inputs, constants), replace(host(), multiply_adds=1, spare_adders=True), always)
    bounds.check_machine_code(lowered, inputs, case.expected(inputs, constants), case.bound(inputs, constants))


@pytest.mark.parametrize(
    ("case", "pairs", "winograd"),
    [
        (Case((1, 14, 14, 256), 512, (1, 1), (2, 2), ((0, 0), (0, 0))), True, False),
        (Case((1, 56, 56, 64), 128, (1, 1), (2, 2), ((0, 0), (0, 0))), False, False),
        (Case((16, 14, 14, 512), 512, (3, 3), (2, 2), ((1, 1), (1, 1))), True, False),
        (Case((1, 28, 28, 128), 128, (3, 3), (1, 1), ((1, 1), (1, 1))), True, True),
        (Case((1, 56, 56, 256), 16, (3, 3), (1, 1), ((1, 1), (1, 1))), False, True),
        (Case((1, 56, 56, 8), 256, (3, 3), (1, 1), ((1, 1), (1, 1))), False, False),
    ],
    ids=str,
)
def test_they_are_chosen_where_copies_of_rows_cost_little_and_winograds_convolution_is_no_better(
    case: Case, pairs: bool, winograd: bool
) -> None:
    seen: list[tuple[bool, bool]] = []

    def look(request: Request) -> None:
        seen.append((find_winograd_inner_product(request) is not None, build_winograd(request) is not None))

    inputs, constants = [np.zeros(case.x, np.float32)], case.arrays()[1]
    to_kernels(case.module(inputs, constants), replace(WORTH, caches=(32 << 10, 1 << 20, 32 << 20)), look)
    assert seen == [(pairs, winograd)]


def test_zero_padding_is_counted() -> None:
    """Of nine taps of a single pixel with zeros around it one lies in the image, of those of a row of two, two of three for each."""
    parts: list[float] = []

    def look(request: Request) -> None:
        found = find_rows(request)
        assert found is not None
        parts.append(found.part_inside)

    for case in (Case((2, 1, 1, 16), 16, (3, 3), (1, 1), ((1, 1), (1, 1))), Case((1, 1, 2, 16), 16, (1, 3), (1, 1), ((0, 0), (1, 1)))):
        inputs, constants = case.arrays()
        to_kernels(case.module(inputs, constants), WORTH, look)
    assert parts == [pytest.approx(1 / 9), pytest.approx(4 / 6)]
