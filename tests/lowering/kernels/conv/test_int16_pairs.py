"""Products of bytes that are kept as 16-bit numbers, two to a word: `kernel.dot2`, which machines want it, and convolutions with fewer
multiplications, which are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, TensorType, f32, i16, i32, index
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import emit_llvm
from polyreme.lowering.kernels.conv.winograd import build_winograd, write_winograd
from polyreme.lowering.kernels.conv.winograd_plan import EXACT, blockings, find_image, schedule_blockings
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.instructions import multiplies_pairs
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import outline_constants
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.bounds import to_kernels
from tests.lowering.emit.test_int8_dot_products import WITH_VNNI, dots, variants
from tests.lowering.kernel_modules import KernelBuilder
from tests.lowering.products import root_of

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_machine_code_adds_the_same_products_as_numpy_with_and_without_each_instruction(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    a, b = (rng.integers(-(2**15), 2**15, 2 * lanes).astype(np.int16) for _ in range(2))
    a[:2] = b[:2] = -(2**15)
    c = rng.integers(-(2**31), 2**31, lanes, np.int64).astype(np.int32)
    wanted = (c + (a.astype(np.int64) * b).reshape(-1, 2).sum(1)).astype(np.int32)
    module, arrays = dots(lanes, kernel.Dot2), [a.view(np.int32), b.view(np.int32), c]
    np.testing.assert_array_equal(evaluate(module, arrays)[0], wanted)
    for target in variants():
        np.testing.assert_array_equal(load(build_artifact(module.clone(), target, "dots")).run(arrays)[0], wanted)


@pytest.mark.parametrize(
    ("name", "lanes", "instruction"),
    [
        ("x86-64-avx512", 16, "vpmaddwd"),
        ("x86-64-avx2", 8, "vpmaddwd"),
        ("x86-64", 4, "pmaddwd"),
        ("aarch64", 4, "mla"),
        ("wasm32", 4, "i32x4"),
    ],
)
def test_each_machine_uses_its_own_instruction(name: str, lanes: int, instruction: str) -> None:
    text = assembly(emit_llvm(dots(lanes, kernel.Dot2), TARGETS[name], "dots"), TARGETS[name])
    assert instruction in text and "vpmovsx" not in text


def test_bytes_stay_bytes_where_they_are_multiplied_as_such() -> None:
    assert {name: multiplies_pairs(TARGETS[name]) for name in ("x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64")} == {
        "x86-64": True,
        "x86-64-avx2": True,
        "x86-64-avx512": True,
        "aarch64": False,
    }
    assert not multiplies_pairs(WITH_VNNI)
    assert not multiplies_pairs(replace(TARGETS["x86-64-avx2"], features=TARGETS["x86-64-avx2"].features + ",+avxvnni"))


def test_sums_of_a_tile_are_added_up_in_order() -> None:
    """LLVM would shorten chains of sums of integers, which takes registers that tiles of 12 sums do not leave."""
    lanes, steps, rows = 8, 4, 12
    func = Func.empty(
        "main",
        [BufferType((rows * steps,), i32), BufferType((steps * lanes,), i32), BufferType((rows * lanes,), i32)],
        arg_names=("a", "b", "out"),
        arg_roles=("input", "input", "output"),
    )
    b = KernelBuilder.at_end(func.block)
    at = lambda i: b(kernel.Constant, value=i, dtype=index)
    sums = [b(kernel.Load, func.args[2], at(r * lanes), lanes=lanes) for r in range(rows)]
    for step in range(steps):
        column = b(kernel.Load, func.args[1], at(step * lanes), lanes=lanes)
        sums = [
            b(kernel.Dot2, b(kernel.Broadcast, b(kernel.Load, func.args[0], at(r * steps + step)), lanes=lanes), column, total)
            for r, total in enumerate(sums)
        ]
    for r, total in enumerate(sums):
        b(kernel.Store, total, func.args[2], at(r * lanes))
    b.insert(Return([]))
    module = Module.empty()
    module.block.append(func.finish())
    text = assembly(emit_llvm(module, TARGETS["x86-64-avx2"], "tile"), TARGETS["x86-64-avx2"])
    assert text.count("vpmaddwd") == rows * steps
    assert not [line for line in text.splitlines() if "ymm" in line and "(%rsp)" in line]


def test_numbers_that_are_no_bytes_are_refused() -> None:
    x = root_of(
        [TensorType((2, 4), i16)], lambda b, x, w: b(tensor.Contract, x, w, spec="mk,kn->mn", dtype=i32), [np.ones((4, 3), np.int16)]
    )
    np.testing.assert_array_equal(evaluate(x, [np.full((2, 4), 255, np.int16)])[0], np.full((2, 3), 1020))
    with pytest.raises(PolyremeError, match="expected numbers from -255 to 255 in 16 bits"):
        evaluate(x, [np.full((2, 4), 256, np.int16)])


# --- convolutions with fewer multiplications


@dataclass(frozen=True)
class Case:
    """A convolution of 3 x 3 of an image [batch, height, width, channels] with zeros around it (top, bottom, left, right)."""

    x: tuple[int, int, int, int]
    out: int
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    free: bool = False  # whether the batch is open
    tail: bool = False

    def module(self, w: Array) -> Module:
        top, bottom, left, right = self.pads

        def make(b: Builder, x: Value, w: Value) -> Value:
            x = b(tensor.Pad, x, low=(0, top, left, 0), high=(0, bottom, right, 0), interior=(0,) * 4, value=0)
            windows = b(tensor.Window, x, axes=(1, 2), sizes=(3, 3), strides=(1, 1), dilations=(1, 1))
            sums = b(tensor.Contract, windows, w, spec="NabCmn,OCmn->NabO", dtype=i32)
            if not self.tail:
                return sums
            scaled = b(tensor.Map, b(tensor.Map, sums, fn="cast", dtype=f32), b(tensor.Full, value=1 / 4096, dtype=f32), fn="mul")
            made: Value = b(tensor.Map, b(tensor.Map, scaled, fn="round"), fn="cast", dtype=i16)
            return made

        shape = (symbol("N"), *self.x[1:]) if self.free else self.x
        return root_of([TensorType(shape, i16)], make, [w])

    def arrays(self, seed: int = 0) -> tuple[Array, Array]:
        """Random numbers of the whole range, with runs of the extremes among them."""
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 256, self.x).astype(np.int16)
        w = rng.integers(-128, 128, (self.out, self.x[3], 3, 3)).astype(np.int16)
        x.reshape(-1)[: x.size // 3], w.reshape(-1)[: w.size // 3] = 255, -128 if seed % 2 else 127
        return x, w

    def expected(self, x: Array, w: Array) -> Array:
        top, bottom, left, right = self.pads
        padded = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        sums = np.einsum("nabcij,ocij->nabo", windows, w.astype(np.int64))
        return np.round(sums.astype(np.float32) / np.float32(4096)).astype(np.int16) if self.tail else sums


def kernels(case: Case, w: Array, target: Target, choice: int) -> Module:
    """The module's kernels, cut in one of the ways there are."""

    def build(request: Request) -> KernelPlan:
        image = find_image(request)
        assert image is not None and image.pairs and image.channels == case.x[3] // 2
        ways = list(blockings(image))
        assert {way.size for way in ways} == {EXACT.size}
        return write_winograd(image, schedule_blockings(image, [ways[choice % len(ways)]]))

    return to_kernels(case.module(w), target, build)


def run(module: Module, x: Array) -> Array:
    """What machine code gives, the same on one thread and on two."""
    executable = load(build_artifact(module, host(), "pairs", outline_constants(module)))
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            found.append(np.array(executable.run([x])[0]))
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(*found)
    return found[0]


CASES = st.builds(
    Case, st.tuples(st.integers(1, 2), st.integers(3, 11), st.integers(3, 11), st.integers(8, 40).map(lambda n: 2 * n)),
    st.integers(16, 70),
    st.tuples(*[st.integers(0, 2)] * 4), st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(case=CASES, choice=st.integers(0, 10_000), seed=st.integers(0, 3))
@example(case=Case((1, 7, 7, 128), 64), choice=0, seed=1)
@example(case=Case((2, 6, 6, 66), 17, free=True), choice=3, seed=0)
def test_convolutions_are_exact_however_they_are_cut(case: Case, choice: int, seed: int) -> None:
    x, w = case.arrays(seed)
    np.testing.assert_array_equal(run(kernels(case, w, host(), choice), x), case.expected(x, w))


@pytest.mark.parametrize("name", ["x86-64", "x86-64-avx2", "x86-64-avx512"])
def test_kernels_of_each_machine_give_the_same_on_numpy(name: str) -> None:
    case = Case((1, 4, 5, 34), 19)
    x, w = case.arrays(1)
    np.testing.assert_array_equal(evaluate(kernels(case, w, TARGETS[name], 5), [x])[0], case.expected(x, w))


def test_the_longest_sums_fit_in_32_bits_and_longer_ones_are_made_directly() -> None:
    case = Case((1, 3, 3, EXACT.channels), 16)
    x, w = np.full(case.x, 255, np.int16), np.full((16, EXACT.channels, 3, 3), -255, np.int16)
    np.testing.assert_array_equal(run(kernels(case, w, host(), 1), x), case.expected(x, w))
    taken = []

    def build(request: Request) -> KernelPlan | None:
        taken.append(find_image(request))
        return None

    more = Case((1, 3, 3, EXACT.channels + 2), 16)
    to_kernels(more.module(more.arrays()[1]), host(), build)
    assert taken == [None]


@pytest.mark.parametrize(("case", "is_taken"), [(Case((1, 14, 14, 256), 256), True), (Case((1, 4, 4, 16), 16), False)], ids=["many", "few"])
def test_it_is_taken_where_it_pays(case: Case, is_taken: bool) -> None:
    plans = []
    to_kernels(case.module(case.arrays()[1]), TARGETS["x86-64-avx2"], lambda request: plans.append(build_winograd(request)))
    assert [plan is not None for plan in plans] == [is_taken]


@pytest.mark.parametrize("n", [16, 24, 48, 96])
def test_tiles_leave_registers_for_what_is_multiplied(n: int) -> None:
    """A tile of 4 rows by 3 vectors would have 12 sums, and room for three vectors and one number, but not for their product."""
    target = TARGETS["x86-64-avx2"]
    module = root_of(
        [TensorType((96, 128), i16)], lambda b, x, w: b(tensor.Contract, x, w, spec="mk,kn->mn", dtype=i32), [np.ones((128, n), np.int16)]
    )
    made = to_kernels(module, target, build_contract)
    outline_constants(made)
    text = assembly(emit_llvm(made, target, "product"), target)
    assert text.count("vpmaddwd") > 30
    assert not [line for line in text.splitlines() if "vmov" in line and "ymm" in line and "(%rsp)" in line]
