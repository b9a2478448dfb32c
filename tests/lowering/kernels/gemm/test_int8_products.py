"""Products and convolutions of bytes, four to a word, or two as 16-bit numbers: the same integers as numpy's, whatever the machine, the
sizes and the threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.core import Value
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import TensorType, f32, i8, i16, i32, u8
from polyreme.ir.verify import verify
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.general.loops import build_loops
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.products import root_of

Array = np.ndarray[Any, Any]
FILLING = 125


def lowered(module: Module, target: Target) -> tuple[Module, str]:
    """The module's kernels, and who made them."""
    plans: list[KernelPlan] = []

    def record(request: Request) -> KernelPlan:
        plan = build_direct_conv(request) or build_contract(request) or build_loops(request)
        plans.append(plan)
        return plan

    made: Module = module.clone()
    PassManager([Stage("kernel", TensorToKernel(target, (record,)))]).run(made)
    verify(made)
    return made, plans[0].builder


def run(module: Module, inputs: list[Array]) -> tuple[list[Array], str]:
    """What machine code gives, the same bits on one thread and on two."""
    made, builder = lowered(module, host())
    executable = load(build_artifact(made, host(), "words", outline_constants(made)))
    before = get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            found.append([np.array(x) for x in executable.run(inputs)])
    finally:
        set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    return found[0], builder


def bytes_of(shape: tuple[int, ...], kind: Any, seed: int = 0) -> Array:
    """Random bytes, with the extremes among them."""
    limits = np.iinfo(kind)
    found = np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(kind)
    found.reshape(-1)[: found.size // 3] = limits.max if seed % 2 else limits.min
    return found


def product_of(x: Array, w: Array, free: bool = False) -> Module:
    kind = TensorType((symbol("M") if free else x.shape[0], x.shape[1]), i16 if x.dtype == np.int16 else u8)
    return root_of([kind], lambda b, x, w: b(tensor.Contract, x, w, spec="mk,kn->mn", dtype=i32), [w])


@settings(max_examples=15, deadline=None)
@given(
    m=st.integers(1, 70), words=st.integers(1, 90), n=st.integers(2, 150), free=st.booleans(), seed=st.integers(0, 9), pairs=st.booleans()
)
def test_products_of_any_size_are_exact(m: int, words: int, n: int, free: bool, seed: int, pairs: bool):
    x, w = bytes_of((m, (4 - 2 * pairs) * words), np.uint8, seed), bytes_of(((4 - 2 * pairs) * words, n), np.int8, seed + 1)
    if pairs:
        x, w = x.astype(np.int16), w.astype(np.int16)
    (got,), builder = run(product_of(x, w, free), [x])
    np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32))
    assert builder == "contract"


def test_sums_of_long_products_wait_in_32_bits():
    x, w = bytes_of((160, 6000), np.uint8, 1), bytes_of((6000, 70), np.int8, 1)
    (got,), _ = run(product_of(x, w), [x])
    np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32))


def test_a_depth_that_is_no_whole_number_of_words_is_left_to_the_loops():
    x, w = bytes_of((3, 6), np.uint8), bytes_of((6, 5), np.int8)
    (got,), builder = run(product_of(x, w), [x])
    np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32))
    assert builder == "loops"


@pytest.mark.parametrize("kind", [np.int8, np.int16])
@pytest.mark.parametrize("name", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
def test_the_kernels_of_other_machines_give_the_same_on_numpy(name: str, kind: Any):
    x, w = bytes_of((5, 12), np.uint8), bytes_of((12, 19), np.int8, 1).astype(kind)
    x = x.astype(np.int16) if kind is np.int16 else x
    made, builder = lowered(product_of(x, w), TARGETS[name])
    np.testing.assert_array_equal(evaluate(made, [x])[0], x.astype(np.int32) @ w.astype(np.int32))
    assert builder == "contract"


@dataclass(frozen=True)
class Case:
    """A convolution of an image [batch, height, width, channels], or [batch, channels, height, width] when `planar`."""

    x: tuple[int, int, int, int]
    out: int
    taps: tuple[int, int]
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    planar: bool = False
    pairs: bool = False

    def module(self, w: Array) -> Module:
        n, h, width, c = self.x

        def make(b: Builder, x: Value, w: Value) -> Value:
            if self.planar:
                x = b(tensor.Transpose, x, perm=(0, 2, 3, 1))
            if self.pad:
                around = (0, self.pad, self.pad, 0)
                x = b(tensor.Pad, x, low=around, high=around, interior=(0,) * 4, value=FILLING)
            windows = b(tensor.Window, x, axes=(1, 2), sizes=self.taps, strides=(self.stride,) * 2, dilations=(self.dilation,) * 2)
            made: Value = b(tensor.Contract, windows, w, spec="NabCmn,OCmn->NabO", dtype=i32)
            return made

        return root_of([TensorType((n, c, h, width) if self.planar else self.x, i16 if self.pairs else u8)], make, [w])

    def expected(self, x: Array, w: Array) -> Array:
        around = ((0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0))
        padded = np.pad(x.astype(np.int32), around, constant_values=FILLING)
        reach = [(k - 1) * self.dilation + 1 for k in self.taps]
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
        windows = windows[:, :: self.stride, :: self.stride, :, :: self.dilation, :: self.dilation]
        return np.einsum("nabcij,ocij->nabo", windows, w.astype(np.int32))

    def check(self, target: Target | None = None) -> str:
        x, w = bytes_of(self.x, np.uint8, 1), bytes_of((self.out, self.x[3], *self.taps), np.int8, 2)
        if self.pairs:
            x, w = x.astype(np.int16), w.astype(np.int16)
        given_ = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if self.planar else x
        if target is None:
            (got,), builder = run(self.module(w), [given_])
        else:
            made, builder = lowered(self.module(w), target)
            (got,) = evaluate(made, [given_])
        np.testing.assert_array_equal(got, self.expected(x, w))
        return builder


@st.composite
def cases(draw: st.DrawFn) -> Case:
    taps = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.integers(1, 2))
    least = max((k - 1) * dilation + 2 for k in taps)
    sizes = draw(st.tuples(st.integers(least, least + 14), st.integers(least, least + 14)))
    pairs = draw(st.booleans())
    x = (draw(st.integers(1, 2)), *sizes, (4 - 2 * pairs) * draw(st.integers(1, 12)))
    return Case(x, draw(st.integers(2, 70)), taps, draw(st.integers(1, 2)), draw(st.integers(0, 2)), dilation, draw(st.booleans()), pairs)


@settings(max_examples=15, deadline=None)
@given(case=cases())
def test_convolutions_of_any_size_are_exact(case: Case):
    case.check()


def test_convolutions_are_made_of_words_in_place_and_pixels_apart_are_transposed_first():
    assert Case((1, 9, 11, 8), 20, (3, 3), pad=1).check() == "direct"
    assert Case((1, 9, 11, 8), 20, (3, 3), pad=1, planar=True).check() == "direct"
    assert Case((1, 9, 11, 6), 20, (3, 3), pad=1, pairs=True).check() == "direct"
    assert Case((1, 9, 11, 6), 20, (3, 3), pad=1, planar=True, pairs=True).check() == "direct"


@pytest.mark.usefixtures("cliffs_are_allowed")
def test_pixels_of_no_whole_word_of_bytes_are_left_to_loops():
    assert Case((1, 9, 11, 3), 20, (3, 3), pad=1).check() == "loops"


@pytest.mark.parametrize("name", ["x86-64-avx2", "aarch64"])
def test_convolutions_for_other_machines_give_the_same_on_numpy(name: str):
    assert Case((1, 4, 5, 4), 9, (2, 3), stride=2, pad=1).check(TARGETS[name]) == "direct"


def test_what_follows_a_product_of_bytes_is_made_of_its_registers():
    x, w = bytes_of((33, 64), np.uint8, 1), bytes_of((64, 40), np.int8, 2)
    factor = np.linspace(1e-4, 1e-3, 40, dtype=np.float32).reshape(1, 40)

    def make(b: Builder, x: Value, w: Value, factor: Value) -> Value:
        sums = b(tensor.Contract, x, w, spec="mk,kn->mn", dtype=i32)
        y = b(tensor.Map, b(tensor.Map, sums, fn="cast", dtype=f32), factor, fn="mul")
        y = b(tensor.Map, b(tensor.Map, y, fn="round"), fn="cast", dtype=i32)
        made: Value = b(tensor.Map, b(tensor.Map, y, b(tensor.Full, value=255, dtype=i32), fn="and"), fn="cast", dtype=i8)
        return made

    (got,), builder = run(root_of([TensorType(x.shape, u8)], make, [w, factor]), [x])
    sums = x.astype(np.int32) @ w.astype(np.int32)
    np.testing.assert_array_equal(got, (np.round(sums.astype(np.float32) * factor).astype(np.int32) & 255).astype(np.uint8).view(np.int8))
    assert builder == "contract"
