"""Sums, means and extremes of parts of rows and columns, against numpy in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyreme as paddle
from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.lowering.kernels.conv.adaptive_pooling import MOST_PARTS, build_adaptive_pooling
from polyreme.lowering.kernels.plan import request_of
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.schedule.group_adaptive_pooling import GroupAdaptivePooling
from polyreme.static import InputSpec
from tests.lowering import products
from tests.lowering.products import root_of

FUNCTIONS = {"mean": "add", "sum": "add", "max": "max", "min": "min"}


@dataclass(frozen=True)
class Case:
    """`fn` over `parts` of the last two axes of `x`: as Paddle cuts them or, with `windows`, all of one size, side by side. `open` leaves
    the sizes but the channels' free.
    """

    x: tuple[int, int, int, int]
    parts: tuple[int, int]
    fn: str = "mean"
    dtype: ScalarType = f32
    open: bool = False
    windows: bool = False

    def array(self) -> Any:
        return np.random.default_rng(5).standard_normal(self.x).astype(self.dtype.np)

    def expected(self, x: Any) -> Any:
        """The result in float64, part by part."""
        reduced = {"mean": np.mean, "sum": np.sum, "max": np.max, "min": np.min}[self.fn]
        made = x.astype(np.float64)
        for axis, count in zip((2, 3), self.parts, strict=True):
            size = x.shape[axis]
            bounds = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
            made = np.stack([reduced(made.take(range(*at), axis), axis) for at in bounds], axis)
        return made


def _axis(b: Builder, case: Case, x: Any, axis: int) -> Any:
    """Parts of one axis side by side."""
    count, size, made = case.parts[axis - 2], x.type.shape[axis], []
    for i in range(count):
        start, stop = i * size // count, -((-(i + 1) * size) // count)
        starts, stops = [0] * 4, list(x.type.shape)
        starts[axis], stops[axis] = start, stop
        piece = b(tensor.Slice, x, starts=tuple(starts), stops=tuple(stops), strides=(1,) * 4)
        total = b(tensor.Reduce, piece, fn=FUNCTIONS[case.fn], axes=(axis,))
        if case.fn == "mean":
            total = b(tensor.Map, total, _number(b, stop - start, case.dtype), fn="div")
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.type.shape))
        made.append(b(tensor.Reshape, total, shape=shape))
    return b(tensor.Concat, made, axis=axis)


def _number(b: Builder, n: Dim, dtype: ScalarType) -> Any:
    return b(tensor.Full, value=float(n), shape=(), dtype=dtype) if isinstance(n, int) else b(tensor.DimValue, size=n, dtype=dtype)


def pooled(b: Builder, case: Case, x: Any) -> Any:
    if not case.windows:
        return _axis(b, case, _axis(b, case, x, 2), 3)
    sizes = tuple(n // count for n, count in zip(case.x[2:], case.parts, strict=True))
    windows = b(tensor.Window, x, axes=(2, 3), sizes=sizes, strides=sizes, dilations=(1, 1))
    total = b(tensor.Reduce, windows, fn=FUNCTIONS[case.fn], axes=(4, 5))
    return b(tensor.Map, total, _number(b, sizes[0] * sizes[1], case.dtype), fn="div") if case.fn == "mean" else total


def type_of(case: Case) -> TensorType:
    shape: tuple[Dim, ...] = case.x if not case.open else (symbol("N"), case.x[1], symbol("H"), symbol("W"))
    return TensorType(shape, case.dtype)


def module_of(case: Case) -> Module:
    """The group of the case."""
    return root_of([type_of(case)], lambda b, x: pooled(b, case, x))


def takes(module: Module, target: Target = TARGETS["x86-64-avx512"]) -> bool:
    """Whether the builder takes the module's one group."""
    (group,) = [op for op in module.function().block if isinstance(op, tensor.Fused)]
    return build_adaptive_pooling(request_of(group, target)) is not None


@pytest.fixture(autouse=True)
def _only_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "build_nchw_conv", build_adaptive_pooling)


@st.composite
def cases(draw: Any) -> Case:
    """Any small case; sizes of 1, rows of a vector or less, and longer ones."""
    parts = draw(st.tuples(st.integers(2, 9), st.integers(2, 9)))
    size = st.integers(1, 16) | st.integers(1, 80)
    x = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 20])), draw(st.integers(1, 20)), draw(size))
    fn, dtype = draw(st.sampled_from(list(FUNCTIONS))), draw(st.sampled_from([f32, f64]))
    windows = draw(st.booleans())
    if windows:
        x = (*x[:2], parts[0] * draw(st.integers(1, 5)), parts[1] * draw(st.integers(3, 12)))
    return Case(x, parts, fn, dtype, open=not windows and draw(st.booleans()), windows=windows)


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from(["x86-64-avx2", "x86-64-avx512"]))
def test_kernels_agree_with_numpy_and_touch_no_memory_outside(case: Case, target: str) -> None:
    module = module_of(case)
    assert takes(module, TARGETS[target])
    products.check_evaluated(module, [case.array()], case.expected(case.array()), case.dtype, TARGETS[target])


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 64, 14, 14), (7, 7), open=True),
        Case((2, 33, 57, 57), (7, 7), open=True),
        Case((1, 5, 31, 200), (6, 16), fn="max", open=True),
        Case((1, 17, 20, 13), (3, 5), fn="min", dtype=f64, open=True),
        Case((1, 20, 112, 112), (7, 7), windows=True),
        Case((1, 20, 21, 21), (7, 7), fn="max", windows=True),
    ],
    ids=str,
)
def test_machine_code_agrees_with_float64_on_one_and_two_threads(case: Case) -> None:
    products.check_native(module_of(case), [case.array()], case.expected(case.array()), case.dtype)


@pytest.mark.parametrize("fn", ["mean", "max"])
def test_one_kernel_serves_images_of_any_size(fn: str) -> None:
    case = Case((1, 3, 1, 1), (7, 7), fn, open=True)
    made = compile_module(module_of(case), host()).load()
    for height, width in [*((5, w) for w in range(1, 40)), *((h, 9) for h in range(1, 17)), (97, 211), (1, 301)]:
        sized = replace(case, x=(2, 3, height, width))
        products.assert_close(made.run([sized.array()])[0], sized.expected(sized.array()), case.dtype)


@pytest.mark.parametrize("width", [14, 57])
def test_a_nan_or_infinity_shows_in_the_parts_that_see_it_alone(width: int) -> None:
    for fn in ("max", "min", "mean"):
        case = Case((1, 1, 14, width), (7, 7), fn, open=True)
        made = compile_module(module_of(case), host()).load()
        for value in (np.nan, np.inf):
            x = case.array()
            x[0, 0, 5, width - 1] = value
            found, expected = made.run([x])[0][0, 0], case.expected(x)[0, 0]
            # Columns of two parts are read by both.
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


class _Pool(paddle.nn.Layer):
    def __init__(self, made: Any):
        super().__init__()
        self.made = made

    def forward(self, x: Any) -> Any:
        return self.made(x)


@pytest.mark.parametrize("kind", ["AdaptiveAvgPool2D", "AdaptiveMaxPool2D"])
@pytest.mark.parametrize("shape", [[None, 4, None, None], [1, 4, 30, 31], [1, 4, 21, 9]], ids=str)
def test_layers_of_the_api_become_one_kernel(kind: str, shape: list[int | None]) -> None:
    seen = paddle.inspect(_Pool(getattr(paddle.nn, kind)((7, 3))), [InputSpec(shape, "float32", "x")], target="x86-64-avx512")
    assert seen.kernel.count("func @") == 2 and "@adaptive_pool_" in seen.kernel


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 4, 40, 40), (2, MOST_PARTS + 1)),
        Case((1, 4, 14, 14), (7, 7), windows=True),
        Case((1, 4, 40, 7), (7, 1), windows=True),
    ],
    ids=str,
)
def test_other_poolings_are_left_to_other_builders(case: Case) -> None:
    assert not takes(module_of(case))


def test_machines_without_masks_have_other_kernels() -> None:
    case = Case((1, 4, 20, 20), (7, 7))
    assert takes(module_of(case)) and not takes(module_of(case), TARGETS["aarch64"])


@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64"])
def test_what_lies_between_is_grouped_only_if_nobody_else_reads_it(target: str) -> None:
    for shown in (False, True):
        case = Case((1, 4, 20, 20), (7, 7), "max", open=True)
        main = Func.empty("main", [type_of(case)], arg_names=["x"], arg_roles=("input",))
        b = Builder.at_end(main.block)
        y = pooled(b, case, main.args[0])
        between = y.producer().xs[0].producer().x
        b.insert(Return([y, between] if shown else [y]))
        main.finish()
        GroupAdaptivePooling(TARGETS[target]).run_on(main)
        grouped = [op for op in main.block if isinstance(op, tensor.Fused)]
        assert len(grouped) == (not shown and target == "x86-64-avx512")


def test_a_mean_by_another_number_than_the_length_is_none() -> None:
    case = Case((1, 4, 20, 20), (2, 2))
    module = module_of(case)
    for op in list(module.walk()):
        if isinstance(op, tensor.Full):
            op.attributes["value"] = 11.0
    assert not takes(module)


def test_kernels_of_free_sizes_are_verified_at_every_level() -> None:
    case = Case((1, 4, 9, 35), (3, 4), open=True)
    lower(module_of(case), TARGETS["x86-64-avx512"], verify=True, inputs=[case.array()])


@pytest.mark.parametrize(
    "case", [Case((1, 40, 9, 41), (3, 7)), Case((2, 5, 20, 12), (2, 5), "max", f64), Case((1, 3, 9, 50), (2, 3), open=True)], ids=str
)
def test_every_candidate_gives_the_same_numbers(case: Case) -> None:
    x = case.array()
    products.check_candidates(module_of(case), [x], case.expected(x), case.dtype, build_adaptive_pooling, TARGETS["x86-64-avx512"])


def test_schedules_say_what_was_chosen_and_others_are_refused() -> None:
    wide, module = TARGETS["x86-64-avx512"], module_of(Case((1, 64, 30, 41), (3, 7)))
    own = "adaptive_pooling<lanes = 16, together = 8, channels = 16>"
    assert str(products.candidates_of(module, build_adaptive_pooling, wide)[0]) == own
    changes = [("lanes = 16", "lanes = 8"), *(("together = 8", f"together = {n}") for n in (1, 3, 16)), ("channels = 16", "channels = 0")]
    products.check_refused(module, build_adaptive_pooling, wide, changes)
