"""Fused inverted residuals, against float64 and against the groups one by one: first product or convolution, windows, last product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.dims import product as size_of
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.lowering.kernels.conv import inverted_residual_plan
from polyreme.lowering.kernels.conv.inverted_residual import build_inverted_residual
from polyreme.lowering.kernels.conv.inverted_residual_plan import InvertedResidualSchedule, ProductTile, find_inverted_residual
from polyreme.lowering.kernels.plan import request_of
from polyreme.lowering.machines.instructions import HIDDEN_ROWS
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering import products
from tests.lowering.products import root_of


@dataclass(frozen=True)
class Case:
    """`images` of `size` pixels with `channels`, of which `wide` are made, and `out` of these in turn (0: there is no last product). With
    `planar` the wide ones are made by a convolution of 3 x 3 pixels with a stride of 2, of planar images of twice the size. `is_open`: rows
    and pixels are not known; with `planar`, those of the planar images.
    """

    size: tuple[int, int]
    channels: int
    wide: int
    out: int
    taps: tuple[int, int] = (3, 3)
    stride: int = 1
    pad: tuple[int, int] = (1, 1)
    dilation: int = 1
    images: int = 1
    residual: bool = False
    constant: bool = True
    planar: bool = False
    is_open: bool = False
    dtype: ScalarType = f32

    @property
    def places(self) -> tuple[int, int]:
        high, wide = (
            (n + sum(self.pad) - (k - 1) * self.dilation - 1) // self.stride + 1 for n, k in zip(self.size, self.taps, strict=True)
        )
        return high, wide

    def arrays(self) -> tuple[list[Any], list[Any]]:
        """The image (and a residual), then weights and biases."""
        rng = np.random.default_rng(5)
        draw = lambda *shape: rng.standard_normal(shape).astype(self.dtype.np)
        if self.planar:
            images = [draw(self.images, self.channels, *(2 * n for n in self.size))]
            weights = [draw(self.wide, self.channels, 3, 3), draw(1, 1, 1, self.wide)]
        else:
            images = [draw(self.images, *self.size, self.channels)]
            weights = [draw(self.wide, self.channels), draw(1, self.wide)]
        weights += [draw(self.wide, *self.taps), draw(1, 1, 1, self.wide)]
        if self.out:
            images += [draw(self.images, *self.places, self.out)] * self.residual
            weights += [draw(self.out, self.wide), draw(1, self.out)]
        return images, weights

    def small(self, target: Target) -> Target:
        """The same machine with a cache that the wide image does not fit."""
        pixels = 224 * 224 // (4 if self.planar else 1) if self.is_open else self.size[0] * self.size[1]
        return replace(target, caches=(1 << 10, pixels * self.wide * self.dtype.bytes - 1, 8 << 20))

    def shapes(self) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """Images, rows and pixels that go in and that come out, as the compiler knows them."""
        size: tuple[Dim, ...] = self.size
        if self.is_open:
            size = tuple((n - 1) // 2 + 1 if self.planar else n for n in (symbol("H"), symbol("W")))
        places = [(n + sum(self.pad) - (k - 1) * self.dilation - 1) // self.stride + 1 for n, k in zip(size, self.taps, strict=True)]
        return (self.images, *size), (self.images, *places)


def expected_of(case: Case) -> Any:
    """The result in float64, tap by tap."""
    images, weights = ([a.astype(np.float64) for a in arrays] for arrays in case.arrays())
    if case.planar:
        padded = np.pad(images[0], [(0, 0), (0, 0), (1, 1), (1, 1)])
        wide = sum(
            np.einsum("ncyx,oc->nyxo", padded[:, :, y : y + 2 * case.size[0] : 2, x : x + 2 * case.size[1] : 2], weights[0][:, :, y, x])
            for y, x in product(range(3), range(3))
        )
    else:
        wide = images[0].reshape(-1, case.channels) @ weights[0].T
    wide = np.clip(wide + weights[1], 0, 6).reshape(case.images, *case.size, case.wide)
    wide = np.pad(wide, [(0, 0), case.pad, case.pad, (0, 0)])
    narrow: Any = np.zeros((case.images, *case.places, case.wide))
    for y, x in product(*map(range, case.taps)):
        at = (
            slice(t * case.dilation, t * case.dilation + (n - 1) * case.stride + 1, case.stride)
            for t, n in zip((y, x), case.places, strict=True)
        )
        narrow += wide[(slice(None), *at)] * weights[2][:, y, x]
    narrow = np.maximum(narrow + weights[3], 0)
    if not case.out:
        return narrow
    out = narrow.reshape(-1, case.wide) @ weights[4].T + weights[5]
    return out + images[1].reshape(-1, case.out) if case.residual else out


def module_of(case: Case) -> tuple[Module, list[Any]]:
    """The group of the case, and its inputs."""
    images, weights = case.arrays()
    size, places = case.shapes()

    def make(b: Builder, *args: Any) -> Any:
        given = iter(args[len(images) :])
        zero, six = (b(tensor.Full, value=x, shape=(), dtype=case.dtype) for x in (0.0, 6.0))
        if case.planar:
            y = b(tensor.Pad, args[0], low=(0, 0, 1, 1), high=(0, 0, 1, 1), interior=(0,) * 4, value=0.0)
            y = b(tensor.Window, y, axes=(2, 3), sizes=(3, 3), strides=(2, 2), dilations=(1, 1))
            y = b(tensor.Contract, y, next(given), spec="nchwkl,ockl->nhwo")
        else:
            y = b(tensor.Contract, b(tensor.Reshape, args[0], shape=(size_of(size), case.channels)), next(given), spec="rc,oc->ro")
        y = b(tensor.Map, b(tensor.Map, b(tensor.Map, y, next(given), fn="add"), six, fn="min"), zero, fn="max")
        if not case.planar:
            y = b(tensor.Reshape, y, shape=(*size, case.wide))
        if any(case.pad):
            low, high = ((0, n, n, 0) for n in case.pad)
            y = b(tensor.Pad, y, low=low, high=high, interior=(0,) * 4, value=0.0)
        y = b(tensor.Window, y, axes=(1, 2), sizes=case.taps, strides=(case.stride,) * 2, dilations=(case.dilation,) * 2)
        y = b(tensor.Contract, y, next(given), spec="nhwgkl,gkl->nhwg")
        y = b(tensor.Map, b(tensor.Map, y, next(given), fn="add"), zero, fn="max")
        if not case.out:
            return y
        y = b(tensor.Reshape, y, shape=(size_of(places), case.wide))
        y = b(tensor.Map, b(tensor.Contract, y, next(given), spec="rc,oc->ro"), next(given), fn="add")
        return b(tensor.Map, y, b(tensor.Reshape, args[1], shape=(size_of(places), case.out)), fn="add") if case.residual else y

    shapes = [a.shape for a in (images if case.constant else [*images, *weights])]
    if case.is_open:
        image = (case.images, case.channels, symbol("H"), symbol("W")) if case.planar else (*size, case.channels)
        shapes[: len(images)] = [image, *[(*places, case.out)] * (len(images) - 1)]
    return root_of(
        [TensorType(shape, case.dtype) for shape in shapes], make, weights if case.constant else ()
    ), images if case.constant else [*images, *weights]


@pytest.fixture(autouse=True)
def _only_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "build_nchw_conv", build_inverted_residual)


@st.composite
def cases(draw: Any) -> Case:
    """Small cases, most of which have a result and are chains."""
    taps = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    pad = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    size = draw(st.integers(9, 13)), draw(st.integers(8, 18))
    wide, out = draw(st.sampled_from([1, 5, 16, 20, 33])), draw(st.sampled_from([0, 1, 7, 17]))
    flags = {name: draw(st.booleans()) for name in ("residual", "constant", "planar", "is_open")}
    return Case(
        size,
        draw(st.sampled_from([1, 3, 8])),
        wide,
        out,
        taps,
        stride,
        pad,
        dilation,
        draw(st.integers(1, 2)),
        dtype=draw(st.sampled_from([f32, f32, f64])),
        **flags,
    )


@settings(max_examples=4, deadline=None)
@given(cases(), st.sampled_from(["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"]))
def test_kernels_of_each_target_agree_with_numpy_and_touch_no_memory_outside(case: Case, name: str) -> None:
    assume(min(case.places) > 0)
    module, inputs = module_of(case)
    target = case.small(TARGETS[name])
    assume(products.to_kernels(module, target)[1][0] == "inverted_residual")
    products.check_evaluated(module, inputs, expected_of(case), case.dtype, target)


NATIVE = [
    Case((24, 24), 8, 40, 24, residual=True),
    Case((25, 31), 5, 48, 17, stride=2),
    Case((20, 18), 3, 33, 0, images=3),
    Case((23, 40), 8, 64, 24, (5, 5), 2, (2, 2), images=2),
    Case((22, 19), 8, 20, 70, (2, 3), 3, (0, 1), constant=False),
    Case((30, 16), 6, 40, 8, pad=(2, 1), dilation=2, dtype=f64),
    Case((60, 20), 4, 20, 7, (1, 3), 2, (0, 0)),
    Case((24, 26), 3, 32, 16, planar=True),
    Case((25, 21), 3, 20, 0, stride=2, images=2, planar=True),
    Case((30, 14), 4, 100, 9, (5, 3), pad=(2, 1), constant=False, planar=True),
    Case((24, 24), 8, 40, 24, residual=True, is_open=True),
    Case((25, 31), 5, 48, 17, stride=2, is_open=True),
    Case((20, 1), 3, 33, 0, images=3, is_open=True),
    Case((1, 3), 4, 16, 7, is_open=True),
    Case((131, 18), 8, 64, 24, (5, 5), 2, (2, 2), images=2, constant=False, is_open=True),
    Case((30, 16), 6, 40, 8, pad=(2, 1), dilation=2, dtype=f64, is_open=True),
    Case((24, 26), 3, 32, 16, planar=True, is_open=True),
    Case((1, 2), 3, 20, 0, stride=2, images=2, planar=True, is_open=True),
    Case((30, 54), 4, 100, 9, (5, 5), pad=(2, 2), constant=False, planar=True, is_open=True),
]


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    target = case.small(host())
    monkeypatch.setattr(products, "host", lambda: target)
    module, inputs = module_of(case)
    assert products.to_kernels(module, target)[1][0] == "inverted_residual"
    products.check_native(module, inputs, expected_of(case), case.dtype)


@pytest.mark.parametrize("case", NATIVE[:6], ids=str)
@pytest.mark.parametrize("half_width_vectors", [False, True])
def test_machine_code_agrees_with_float64_on_machines_with_whole_and_with_half_vectors(case: Case, half_width_vectors: bool) -> None:
    target = replace(case.small(host()), half_width_vectors=half_width_vectors)
    module, inputs = module_of(case)
    products.check_native(module, inputs, expected_of(case), case.dtype, target)


def test_tiles_of_one_vector_are_low_enough_to_be_finished_during_the_next_where_vectors_are_halves() -> None:
    avx512 = TARGETS["x86-64-avx512"]
    module, _ = module_of(Case((112, 112), 16, 96, 24, stride=2))
    (whole, *_), (half, *_) = (
        products.candidates_of(module, build_inverted_residual, replace(avx512, half_width_vectors=half)) for half in (False, True)
    )
    assert isinstance(whole, InvertedResidualSchedule) and isinstance(half, InvertedResidualSchedule)
    assert isinstance(whole.first, ProductTile) and isinstance(half.first, ProductTile) and half.last is not None
    assert (whole.first.vectors, half.first.vectors, half.last.vectors) == (1, 1, 3)
    assert whole.first.rows > HIDDEN_ROWS == half.first.rows


@pytest.mark.parametrize(
    "case",
    [
        Case((12, 6), 3, 20, 7, residual=True),
        Case((12, 7), 3, 33, 0),
        Case((16, 14), 3, 32, 8, planar=True),
        Case((10, 5), 3, 20, 7, is_open=True, constant=False),
    ],
    ids=str,
)
def test_every_candidate_gives_the_same_numbers(case: Case) -> None:
    module, inputs = module_of(case)
    target = case.small(TARGETS["x86-64-avx512"])
    products.check_candidates(module, inputs, expected_of(case), case.dtype, build_inverted_residual, target)


def test_schedules_say_what_was_chosen_and_others_are_refused() -> None:
    target = TARGETS["x86-64-avx512"]
    module, _ = module_of(Case((56, 56), 24, 144, 24, residual=True))
    own = (
        "inverted_residual<rows = 7, first = product<rows = 12, vectors = 2>, lanes = 16, pixels = 14, "
        "last = product<rows = 8, vectors = 2>, masked, final_addresses>"
    )
    assert str(products.candidates_of(module, build_inverted_residual, replace(target, caches=(32 << 10, 1 << 20, 8 << 20)))[0]) == own
    changes = [
        ("<rows = 7", "<rows = 13"),
        ("<rows = 7", "<rows = 56"),
        ("rows = 12", "rows = 17"),
        ("lanes = 16", "lanes = 8"),
        ("pixels = 14", "pixels = 15"),
        (", last = product<rows = 8, vectors = 2>", ""),
        ("rows = 8, vectors = 2", "rows = 8, vectors = 3"),
        ("masked, ", ""),
    ]
    products.check_refused(module, build_inverted_residual, replace(target, caches=(32 << 10, 1 << 20, 8 << 20)), changes)


def test_residuals_of_free_sizes_keep_to_the_memory_of_their_tasks_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted_residual_plan, "TASKS_WITH_MEMORY", 2)
    case = Case((131, 18), 8, 40, 24, residual=True, is_open=True)
    module, inputs = module_of(case)
    assert products.to_kernels(module, case.small(host()))[1][0] == "inverted_residual"
    made = compile_module(module, case.small(host())).load()
    before = get_num_threads()
    try:
        for threads in (1, 2, 5):
            set_num_threads(threads)
            products.assert_close(np.asarray(made.run(inputs)[0]), expected_of(case), case.dtype)
    finally:
        set_num_threads(before)


def test_an_image_that_fits_the_cache_is_made() -> None:
    case = NATIVE[0]
    target = replace(host(), caches=(32 << 10, 1 << 20, 8 << 20), l3_bytes_per_cycle=20, separate_l3=False)
    assert products.to_kernels(module_of(case)[0], target)[1] != ["inverted_residual"]


def test_where_the_third_level_cache_is_slow_only_small_images_are_made() -> None:
    slow = replace(host(), caches=(32 << 10, 2 << 20, 8 << 20), l3_bytes_per_cycle=9.5)
    assert products.to_kernels(module_of(NATIVE[0])[0], slow)[1][0] == "inverted_residual"
    assert products.to_kernels(module_of(Case((12, 12), 8, 40, 24))[0], slow)[1] != ["inverted_residual"]


def test_where_cores_may_share_no_l3_images_of_some_size_are_not_made() -> None:
    far = replace(host(), caches=(32 << 10, 256 << 10, 8 << 20), l3_bytes_per_cycle=20, separate_l3=True)
    assert products.to_kernels(module_of(NATIVE[0])[0], far)[1] == ["inverted_residual"]
    assert products.to_kernels(module_of(NATIVE[0])[0], replace(far, separate_l3=False))[1] != ["inverted_residual"]
    assert products.to_kernels(module_of(Case((12, 12), 8, 40, 24))[0], far)[1] != ["inverted_residual"]


# --- in networks

TARGET = replace(host(), caches=(2 << 10, 48 << 10, 8 << 20), l3_bytes_per_cycle=20, separate_l3=False)


class Net:
    """A network of `nn` ops on `images` of 32 x 20 x 20, whose convolutions have constant weights. It gives the means of its results."""

    def __init__(self, images: int = 1):
        self.main = Func.empty("main", [TensorType((images, 32, 20, 20), f32)], arg_names=["x"], arg_roles=("input",))
        self.b = Builder.at_end(self.main.block)
        self.rng = np.random.default_rng(3)
        self.x: Value = self.main.args[0]

    def constant(self, *shape: int) -> Value:
        return self.b(nn.Constant, value=self.rng.standard_normal(shape, np.float32))  # type: ignore[no-any-return]

    def conv(self, x: Value, out: int, taps: int = 1, stride: int = 1, groups: int = 1) -> Value:
        weight = self.constant(out, x.type.shape[1] // groups, taps, taps)  # type: ignore[union-attr]
        made = self.b(nn.Conv, x, weight, self.constant(out), strides=(stride, stride), padding=(taps // 2,) * 4, groups=groups)
        return self.b(nn.Relu, made)  # type: ignore[no-any-return]

    def module(self, *results: Value) -> Module:
        self.b.insert(Return([self.b(nn.Mean, x, axis=(2, 3), keepdims=False) for x in results]))
        module = Module.empty()
        module.block.append(self.main.finish())
        return module


def chains(module: Module, target: Target = TARGET) -> list[int]:
    """How many products and convolutions the chains of a network have."""
    fused = [op for op in lower(module, target, "tensor").walk() if isinstance(op, tensor.Fused)]
    counts = [sum(isinstance(inner, tensor.Contract) for inner in op.regions[0].block) for op in fused]
    return [n for n in counts if n > 1]


def check(module: Module) -> None:
    inputs = [np.random.default_rng(1).standard_normal(a.type.shape, np.float32) for a in module.function().args]
    made = compile_module(module, TARGET).load().run(inputs)
    for got, expected in zip(made, evaluate(module, inputs), strict=True):
        products.assert_close(np.asarray(got), expected.astype(np.float64), f32)


def inverted_residuals(images: int) -> Module:
    net = Net(images)
    x = net.b(nn.Add, net.x, net.conv(net.conv(net.conv(net.x, 40), 40, 3, groups=40), 32))
    return net.module(net.conv(net.conv(net.conv(net.conv(x, 36), 36, 3, 2, groups=36), 32), 48))


def test_inverted_residuals_become_groups_of_three() -> None:
    module = inverted_residuals(1)
    assert chains(module) == [3, 3]
    check(module)


def test_the_passes_know_of_a_slow_third_level_cache() -> None:
    module = inverted_residuals(1)
    slow = replace(TARGET, caches=(2 << 10, 1 << 20, 8 << 20), l3_bytes_per_cycle=9.5)
    assert chains(module, replace(slow, l3_bytes_per_cycle=20)) == []
    assert chains(module, slow) == [3, 3]


def test_the_passes_know_of_cores_that_may_share_no_l3() -> None:
    module = inverted_residuals(1)
    threshold = replace(TARGET, caches=(2 << 10, 192 << 10, 8 << 20))
    assert chains(module, threshold) == []
    assert chains(module, replace(threshold, separate_l3=True)) == [3, 3]


def test_inverted_residuals_become_groups_in_each_image_of_a_batch() -> None:
    module = inverted_residuals(2)
    lowered = lower(module, TARGET)
    scanned = [
        op for loop in lowered.function().walk() if isinstance(loop, kernel.Parallel) for op in loop.walk() if isinstance(op, kernel.Call)
    ]
    assert sum(op.callee.name.startswith("inverted_residual") for op in scanned) == 2
    check(module)


def test_a_product_that_makes_the_next_wide_image_begins_the_next_group() -> None:
    net = Net()
    x = net.conv(net.conv(net.x, 32), 32, 3, groups=32)
    x = net.conv(net.conv(x, 40), 40, 3, groups=40)
    module = net.module(net.conv(x, 32))
    assert chains(module) == [2, 3]
    check(module)


def test_what_others_read_as_well_is_made() -> None:
    net = Net()
    wide = net.conv(net.x, 40)
    narrow = net.conv(wide, 40, 3, groups=40)
    module = net.module(wide, net.conv(narrow, 32))
    assert chains(module) == []
    check(module)
    net = Net()
    narrow = net.conv(net.conv(net.x, 40), 40, 3, groups=40)
    module = net.module(narrow, net.conv(narrow, 32))
    assert chains(module) == [2]
    check(module)


@pytest.mark.parametrize("name, final", [("x86-64-avx2", None), ("x86-64-avx512", True)])
def test_with_32_registers_llvm_looks_for_no_cheaper_addresses(name: str, final: bool | None) -> None:
    """It takes half of the time that a network of these takes to compile, and gains nothing."""
    case = Case((14, 14), 16, 96, 16, residual=True)
    kernels, _ = products.to_kernels(module_of(case)[0], case.small(TARGETS[name]))
    made = {func.sym_name.split("_")[0]: func.final_addresses for func in kernels.functions if func.sym_name != "main"}
    assert made == {"inverted": final}


def test_why_a_group_is_no_such_kernel_is_told() -> None:
    module, _ = module_of(Case((12, 12), 8, 40, 24))
    (group,) = [op for op in module.function().block if isinstance(op, tensor.Fused)]
    said = []
    for l2 in (1 << 20, 16 << 10):
        target = replace(TARGETS["x86-64-avx512"], caches=(1 << 10, l2, 8 << 20), l3_bytes_per_cycle=20)
        found = find_inverted_residual(request_of(group, target))
        assert found is not None and not build_inverted_residual.takes(request_of(group, target))
        said.append(build_inverted_residual.refusal(found))
    assert said == [
        f"the wide image has {12 * 12 * 40 * 4} bytes; more than {1 << 20} are asked",
        f"the weights have {(8 + 24) * 40 * 4} bytes; at most {4 << 10} are asked",
    ]
