"""Attention as one group: which ops form it, and that its kernels compute what the ops do: odd sizes, masks, rows that see nothing, large
scores, free sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim, substitute, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import ScalarType, TensorType, f32, f64, i64
from polyreme.ir.verify import verify
from polyreme.lowering.analysis.attention import find_attention
from polyreme.lowering.kernels.sequence.flash_attention import build_attention
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.runtime.threads import get_num_threads, set_num_threads

M, N, B = symbol("M"), symbol("N"), symbol("B")


@dataclass(frozen=True)
class Case:
    """Attention of [batch, queries, heads * depth] to keys [batch, keys, heads * depth] and values [batch, keys, heads * width].

    `mask` is the shape of what is added to the scores; `causal` hides keys after a query with -inf, by a sum or by a choice. Sizes called
    B, M and N are `named` at run time.
    """

    batch: Dim
    heads: int
    queries: Dim
    keys: Dim
    depth: int
    width: int
    mask: tuple[Dim, ...] | None = None
    causal: str = ""
    offset: Dim = 0
    dtype: ScalarType = f32
    named: tuple[int, int, int] = (2, 3, 5)

    def module(self, weights: bool = False) -> Module:
        heads, dtype = self.heads, self.dtype
        sizes = ((self.queries, self.depth), (self.keys, self.depth), (self.keys, self.width))
        types = [TensorType((self.batch, n, heads * d), dtype) for n, d in sizes]
        types += [TensorType(self.mask, dtype)] if self.mask else []
        main = Func.empty("main", types, arg_names=("q", "k", "v", "mask")[: len(types)], arg_roles=("input",) * len(types))
        b = Builder.at_end(main.block)
        q, k, v = (
            b(nn.Transpose, b(nn.Reshape, x, shape=(self.batch, n, heads, d)), perm=(0, 2, 1, 3))
            for x, (n, d) in zip(main.args, sizes, strict=False)
        )
        scores = b(nn.MatMul, b(nn.Mul, q, b(nn.Full, value=self.depth**-0.5, dtype=dtype)), k, transpose_y=True)
        if self.mask:
            scores = b(nn.Add, scores, main.args[3])
        if self.causal:
            row, column = b(nn.Iota, shape=(self.queries, 1), axis=0, dtype=i64), b(nn.Iota, shape=(1, self.keys), axis=1, dtype=i64)
            row = b(nn.Add, row, b(nn.DimValue, size=self.offset, dtype=i64))
            low, zero = b(nn.Full, value=-np.inf, dtype=dtype), b(nn.Full, value=0.0, dtype=dtype)
            if self.causal == "add":
                scores = b(nn.Add, scores, b(nn.Where, b(nn.Greater, column, row), low, zero))
            else:
                scores = b(nn.Where, b(nn.GreaterEqual, row, column), scores, low)
        shares = b(nn.Softmax, scores)
        out = b(nn.Transpose, b(nn.MatMul, shares, v), perm=(0, 2, 1, 3))
        out = b(nn.Reshape, out, shape=(self.batch, self.queries, heads * self.width))
        b.insert(Return([out, shares] if weights else [out]))
        main.finish()
        module = Module.empty()
        module.block.append(main)
        verify(module)
        return module

    def inputs(self, module: Module, seed: int = 0, scale: float = 1.0, hidden: float = 0.0) -> list[Any]:
        """Random arrays; so many of the mask's elements are -inf."""
        rng = np.random.default_rng(seed)
        known = dict(zip("BMN", self.named, strict=True))
        arrays = []
        for arg in module.function("main").args:
            shape = [substitute(d, known) for d in arg.type.shape]
            x = rng.standard_normal(shape)
            if arg.name == "mask":
                x[rng.random(shape) < hidden] = -np.inf
            elif arg.name != "v":
                x *= scale
            arrays.append(x.astype(self.dtype.np))
        return arrays


def assert_same(got: Any, expected: Any, dtype: ScalarType = f32) -> None:
    assert got.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 if dtype == f32 else 1e-12)


def check(case: Case, seed: int = 0, scale: float = 1.0, hidden: float = 0.0, sizes: tuple[tuple[int, int, int], ...] = ()) -> None:
    """One kernel takes the attention, and agrees with the ops one by one, on one thread and on two, for each of `sizes` in place of
    `named`.
    """
    module = case.module()
    compiled = compile_module(module)
    assert sum(func.sym_name.startswith("attention") for func in compiled.lowered.functions) == (case.keys != 1)
    executable = compiled.load()
    before = get_num_threads()
    for named in sizes or (case.named,):
        inputs = replace(case, named=named).inputs(module, seed, scale, hidden)
        try:
            results = []
            for threads in (1, 2):
                set_num_threads(threads)
                results.append(np.array(executable.run(inputs)[0]))
        finally:
            set_num_threads(before)
        assert_same(results[0], evaluate(module, inputs)[0], case.dtype)
        np.testing.assert_array_equal(*results)


ONCE = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def cases(draw: Any, most: int = 600) -> Case:
    batch, heads = draw(st.sampled_from([1, 1, 2])), draw(st.integers(1, 3))
    queries = draw(st.one_of(st.integers(1, 40), st.sampled_from([1, 16, 32, 33, 64, 80])))
    keys = draw(st.one_of(st.integers(1, 60), st.sampled_from([1, 12, 128, 255, 256, 257, most])))
    depth, width = draw(st.integers(1, 40)), draw(st.one_of(st.integers(1, 40), st.just(64)))
    mask = None
    if draw(st.booleans()):
        mask = tuple(draw(st.sampled_from([1, n])) for n in (batch, heads, queries, keys))[draw(st.integers(0, 2)) :]
    causal = draw(st.sampled_from(["", "", "add", "select"]))
    return Case(
        batch,
        heads,
        queries,
        keys,
        depth,
        width,
        mask,
        causal,
        draw(st.sampled_from([0, 0, 3, -2])),
        draw(st.sampled_from([f32, f32, f32, f64])),
    )


@ONCE
@given(cases(), st.integers(0, 9), st.sampled_from([0.0, 0.3, 0.97]))
def test_machine_code_agrees_with_the_ops_one_by_one(case: Case, seed: int, hidden: float) -> None:
    check(case, seed, hidden=hidden)


@pytest.mark.slow
@MANY
@given(cases(), st.integers(0, 9), st.sampled_from([0.0, 0.3, 0.97]))
def test_machine_code_agrees_with_the_ops_one_by_one_on_many_shapes(case: Case, seed: int, hidden: float) -> None:
    check(case, seed, hidden=hidden)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(most=70), st.integers(0, 9))
def test_kernels_of_each_target_agree_on_numpy(target: str, case: Case, seed: int) -> None:
    rows = [min(n, 19) for n in (case.queries, case.keys)]  # type: ignore[type-var]
    small = Case(1, 1, *rows, min(case.depth, 9), min(case.width, 9), None, case.causal, case.offset, case.dtype)  # type: ignore[arg-type]
    module = small.module()
    inputs = small.inputs(module, seed)
    assert_same(evaluate(lower(module, TARGETS[target]), inputs)[0], evaluate(module, inputs)[0], case.dtype)


@pytest.mark.parametrize("case", [Case(1, 2, 33, 600, 16, 16), Case(1, 2, 1, 600, 16, 16), Case(1, 1, 40, 40, 8, 8, causal="add")], ids=str)
def test_scores_may_be_larger_than_exponentials_can_be(case: Case) -> None:
    check(case, scale=40.0)


@pytest.mark.parametrize("queries", [40, 1])
def test_weights_below_the_normal_numbers_are_zero(queries: int) -> None:
    case = Case(1, 2, queries, 300, 8, 8, (queries, 300))
    module = case.module()
    q, k, v, mask = case.inputs(module)
    q[:], mask[:] = 0, 0
    mask[:, 1::2], v[:, 1::2] = -95, 3e38  # exp(-95) is 5.5e-42, and times 3e38 nothing that one would overlook
    expected = np.broadcast_to(v[:, ::2].mean(1, keepdims=True), (1, queries, 16))
    assert_same(compile_module(module).load().run([q, k, v, mask])[0], expected)


@pytest.mark.parametrize("queries", [128, 45])
def test_heads_apart_are_prefetched_where_l3_is_slow(queries: int) -> None:
    module = Case(1, 2, queries, 300, 64, 48).module()
    inputs = Case(1, 2, queries, 300, 64, 48).inputs(module)
    results, query = [], []
    for bytes_a_cycle in (9.5, 20):
        compiled = compile_module(module, replace(host(), l3_bytes_per_cycle=bytes_a_cycle))
        query.append(sum(isinstance(op, kernel.Prefetch) for op in compiled.lowered.walk()))
        results.append(compiled.load().run(inputs)[0])
    assert query[0] > 0 and query[1] == 0 and np.array_equal(*results)


def test_queries_that_see_no_key_are_nan_and_others_are_not() -> None:
    case = Case(1, 2, 40, 300, 8, 8, (40, 1))
    module = case.module()
    inputs = case.inputs(module)
    inputs[3][[3, 39]] = -np.inf
    got = compile_module(module).load().run(inputs)[0]
    assert_same(got, evaluate(module, inputs)[0])
    assert np.isnan(got[0, [3, 39]]).all() and not np.isnan(got[0, 4:39]).any()


@pytest.mark.parametrize(
    "case",
    [
        Case(B, 2, M, N, 8, 8),
        Case(1, 2, M, M, 8, 8, causal="add"),
        Case(B, 1, 1, N + 1, 24, 8, (B, 1, 1, N + 1)),
        Case(1, 2, N, 2 * N, 8, 8, causal="select", offset=N),
    ],
    ids=str,
)
def test_sizes_may_be_known_at_run_time_only(case: Case) -> None:
    check(case, sizes=tuple((2, max(1, n // 3), n) for n in (1, 16, 40, 300)))


def test_views_of_keys_and_values_cost_no_kernel() -> None:
    names = [func.sym_name for func in lower(Case(2, 3, 20, 30, 8, 8).module()).functions]
    assert len(names) == 2 and names[1].startswith("attention")


def cached(queries: int, past: Dim, returned: bool = False) -> Module:
    """Attention of [2, queries, 3 * 24] to the keys and values of a cache [2, 2, 3, past, 24], then to new ones; with `returned` the longer
    keys are given, too.
    """
    main = Func.empty(
        "main",
        [TensorType((2, 2, 3, past, 24), f32), *[TensorType((2, queries, 72), f32)] * 3],
        arg_names=("past", "q", "k", "v"),
        arg_roles=("input",) * 4,
    )
    b = Builder.at_end(main.block)
    q, k, v = (b(nn.Transpose, b(nn.Reshape, x, shape=(2, queries, 3, 24)), perm=(0, 2, 1, 3)) for x in main.args[1:])
    longer = []
    for i, x in enumerate((k, v)):
        old = b(nn.Slice, main.args[0], starts=(0, i, 0, 0, 0), stops=(2, i + 1, 3, past, 24), strides=(1,) * 5)
        longer.append(b(nn.Concat, (b(nn.Reshape, old, shape=(2, 3, past, 24)), x), axis=2))
    out = b(nn.MatMul, b(nn.Softmax, b(nn.MatMul, q, longer[0], transpose_y=True)), longer[1])
    b.insert(Return([out, longer[0]] if returned else [out]))
    main.finish()
    module = Module.empty()
    module.block.append(main)
    verify(module)
    return module


@pytest.mark.parametrize(("queries", "past", "n"), [(1, 127, 0), (1, N, 300), (3, 40, 0), (20, N, 290), (40, 257, 0)])
def test_a_cache_is_read_in_place_in_front_of_what_is_new(queries: int, past: Dim, n: int) -> None:
    module = cached(queries, past)
    rng = np.random.default_rng(0)
    known = past if isinstance(past, int) else n
    inputs = [rng.standard_normal((2, 2, 3, known, 24)).astype("f"), *(rng.standard_normal((2, queries, 72)).astype("f") for _ in range(3))]
    compiled = compile_module(module)
    assert [func.sym_name[:9] for func in compiled.lowered.functions] == ["main", "attention"]
    assert_same(compiled.load().run(inputs)[0], evaluate(module, inputs)[0])


def test_a_cache_that_is_returned_is_made_once() -> None:
    module = cached(1, 20, returned=True)
    inputs = [np.ones((2, 2, 3, 20, 24), "f"), *(np.full((2, 1, 72), x, "f") for x in (0.5, -0.5, 2.0))]
    for got, expected in zip(compile_module(module).load().run(inputs), evaluate(module, inputs), strict=True):
        assert_same(got, expected)


def test_weights_that_are_read_keep_the_ops_apart() -> None:
    module = Case(1, 2, 20, 30, 8, 8).module(weights=True)
    compiled = compile_module(module)
    assert not any(func.sym_name.startswith("attention") for func in compiled.lowered.functions)
    inputs = Case(1, 2, 20, 30, 8, 8).inputs(module)
    for got, expected in zip(compiled.load().run(inputs), evaluate(module, inputs), strict=True):
        assert_same(got, expected)


@pytest.mark.parametrize(("causal", "offset", "last"), [("add", 0, 0), ("select", 0, 0), ("add", 7, 7), ("select", -1, -1), ("", 0, None)])
def test_keys_after_all_queries_are_known_by_their_mask(causal: str, offset: int, last: int | None) -> None:
    from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor

    module = Case(1, 2, 20, 30, 8, 8, (20, 30) if causal == "add" else None, causal=causal, offset=offset).module()
    nn_to_tensor.run(module)
    second = [op for op in module.walk() if isinstance(op, tensor.Contract)][-1]
    found = find_attention(second, second.result)
    assert found is not None and found.last_key() == last


def test_a_causal_mask_that_is_a_constant_is_written_out() -> None:
    case = Case(1, 2, 20, 30, 8, 8, (20, 30))
    module = case.module()
    inputs = case.inputs(module)
    mask = np.triu(np.full((20, 30), -np.inf, np.float32), 4)
    main = module.function("main")
    main.args[3].replace_all_uses_with(Builder.before_op(main.block.first)(nn.Constant, value=mask))
    lowered = lower(module)
    (kernel,) = (func for func in lowered.functions if func.sym_name.startswith("attention"))
    assert len(kernel.args) == 4
    assert_same(compile_module(module).load().run(inputs)[0], evaluate(module, inputs)[0])


def test_a_mask_of_large_numbers_hides_no_key_for_certain() -> None:
    case = Case(1, 1, 20, 30, 8, 8, (20, 30))
    module = case.module()
    inputs = case.inputs(module)
    inputs[3][:] = np.where(np.arange(30) > np.arange(20)[:, None], -1e4, 0)
    inputs[1][0, 29] *= 1e7
    assert_same(compile_module(module).load().run(inputs)[0], evaluate(module, inputs)[0])


def test_groups_of_two_products_without_softmax_are_not_taken() -> None:
    from polyreme.lowering.kernels.plan import request_of
    from tests.lowering.products import root_of

    def make(b: Any, x: Any, y: Any, z: Any) -> Any:
        return b(tensor.Contract, b(tensor.Contract, x, y, spec="mk,kn->mn"), z, spec="mn,nw->mw")

    module = root_of([TensorType((4, 4), f32)] * 3, make)
    (fused,) = [op for op in module.walk() if isinstance(op, tensor.Fused)]
    assert build_attention(request_of(fused, host())) is None


@pytest.mark.parametrize("name, final", [("x86-64-avx2", None), ("x86-64-avx512", True)])
def test_with_32_registers_llvm_looks_for_no_cheaper_addresses(name: str, final: bool | None) -> None:
    """It takes a quarter of the time that such a kernel takes to compile, and gains nothing."""
    kernels = lower(Case(2, 3, 20, 30, 8, 8).module(), TARGETS[name]).functions
    assert [func.final_addresses for func in kernels if func.sym_name.startswith("attention")] == [final]


def test_of_vectors_of_queries_one_is_transposed_in_the_text_and_long_rows_are_a_loop() -> None:
    """Compiling takes its time from both: a square of 16 x 16 is 64 shuffles, and a tile of scores 24 products a step."""
    target = TARGETS["x86-64-avx512"]
    case = Case(1, 1, 32, 16, 16, 16)
    shuffles = [_count(replace(case, queries=n), target, kernel.Shuffle) for n in (16, 32)]
    assert shuffles[0] == shuffles[1] == 2 * 64
    products = [_count(replace(case, depth=n), target, kernel.Fma) for n in (16, 32)]
    assert products[0] == products[1]


def _count(case: Case, target: Target, kind: type[Op]) -> int:
    return sum(isinstance(op, kind) for op in lower(case.module(), target).walk())
