"""Products of one operand by several constants as one: where they are joined, where not, and that the values stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import verify
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.transforms.join_products import JoinProducts
from polyreme.runtime.threads import get_num_threads, set_num_threads

RNG = np.random.default_rng(4)


def constant(b: Builder, *shape: int) -> Value:
    value: Value = b(tensor.Constant, value=RNG.standard_normal(shape).astype(np.float32))
    return value


def module_of(shape: tuple[int, ...], body: Callable[[Builder, Value], Sequence[Value]]) -> tuple[Module, list[Any]]:
    """`main` of one argument, and numbers for it."""
    main = Func.empty("main", [TensorType(shape, f32)], arg_names=("x",), arg_roles=("input",))
    b = Builder.at_end(main.block)
    b.insert(Return(list(body(b, main.args[0]))))
    module = Module.empty()
    module.block.append(main.finish())
    verify(module)
    return module, [RNG.standard_normal(shape).astype(np.float32)]


def joined(module: Module, inputs: list[Any]) -> list[tensor.Contract]:
    """The contracts that the pass leaves of `main`, whose values stay as they are up to the order of sums in numpy."""
    before = evaluate(module, inputs)
    JoinProducts().run(module)
    verify(module)
    for after, expected in zip(evaluate(module, inputs), before, strict=True):
        np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-5)
    return [op for op in module.function().block if isinstance(op, tensor.Contract)]


def heads(b: Builder, x: Value, width: int, spec: str = "mk,kn->mn", depth: int = 4) -> Value:
    """x W + c, of `width`, as heads of `depth`: [width / depth, rows, depth]."""
    rows, steps = x.type.shape  # type: ignore[union-attr]
    y = b(tensor.Contract, x, constant(b, steps, width) if spec == "mk,kn->mn" else constant(b, width, steps), spec=spec)
    y = b(tensor.Map, y, constant(b, 1, width), fn="add")
    made: Value = b(tensor.Transpose, b(tensor.Reshape, y, shape=(rows, width // depth, depth)), perm=(1, 0, 2))
    return made


@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn"])
@pytest.mark.parametrize("widths", [(8, 8, 8), (12, 4, 4), (8, 16)], ids=str)
def test_products_that_are_read_as_heads_are_one(widths: tuple[int, ...], spec: str) -> None:
    module, inputs = module_of((5, 6), lambda b, x: [heads(b, x, n, spec) for n in widths])
    (left,) = joined(module, inputs)
    assert left.result.type.shape == (5, sum(widths))
    assert not [op for op in module.function().block if isinstance(op, tensor.Concat)]


def test_what_reads_a_product_as_it_is_reads_a_slice() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        p, q = (b(tensor.Contract, x, constant(b, 6, n), spec="mk,kn->mn") for n in (3, 7))
        return [b(tensor.Contract, p, q, spec="ma,mb->ab")]

    assert len(joined(*module_of((5, 6), body))) == 2


def _plain(b: Builder, x: Value) -> Value:
    value: Value = b(tensor.Contract, x, constant(b, 6, 8), spec="mk,kn->mn")
    return value


def _gated(b: Builder, x: Value) -> list[Value]:
    gate, up = _plain(b, x), _plain(b, x)
    return [b(tensor.Map, b(tensor.Map, gate, fn="sigmoid"), up, fn="mul")]


def _transposed(b: Builder, x: Value) -> Value:
    value: Value = b(tensor.Transpose, _plain(b, x), perm=(1, 0))
    return value


def _computed(b: Builder, x: Value) -> list[Value]:
    products = [b(tensor.Contract, x, b(tensor.Map, constant(b, 6, 8), fn="exp"), spec="mk,kn->mn") for _ in range(2)]
    return [b(tensor.Transpose, y, perm=(1, 0)) for y in products]


APART: dict[str, Callable[[Builder, Value], list[Value]]] = {
    "results of the function": lambda b, x: [_plain(b, x), _plain(b, x)],
    "elementwise ops of two products": _gated,
    "elementwise ops behind a reshape": lambda b, x: [
        b(tensor.Map, b(tensor.Reshape, _plain(b, x), shape=(1, 5, 8)), fn="exp") for _ in range(2)
    ],
    "rows that a reshape joins with columns": lambda b, x: [
        b(tensor.Transpose, b(tensor.Reshape, _plain(b, x), shape=(4, 10)), perm=(1, 0)) for _ in range(2)
    ],
    "one with a bias and one without": lambda b, x: [heads(b, x, 8), _transposed(b, x)],
    "products of two values": lambda b, x: [_transposed(b, x), _transposed(b, b(tensor.Map, x, fn="neg"))],
    "weights that are computed": _computed,
    "heads that do not divide where the second one begins": lambda b, x: [heads(b, x, 6, depth=3), heads(b, x, 8)],
}  # fmt: skip


@pytest.mark.parametrize("what", APART)
def test_products_stay_apart_for(what: str) -> None:
    module, inputs = module_of((5, 6), APART[what])
    count = len([op for op in module.function().block if isinstance(op, tensor.Contract)])
    assert len(joined(module, inputs)) == count


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 4, 8])), min_size=2, max_size=4),
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
)
def test_any_heads_have_the_same_values(shapes: list[tuple[int, int]], rows: int, steps: int, more: bool) -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        extra = [_transposed(b, x)] if more and steps == 6 else []
        return [heads(b, x, n * depth, depth=depth) for n, depth in shapes] + extra

    joined(*module_of((rows, steps), body))


def self_attention(words: int, count: int, depth: int) -> Module:
    """Of [1, words, count * depth], with weights and biases that are known, in `nn` ops."""
    width = count * depth
    main = Func.empty("main", [TensorType((1, words, width), f32)], arg_names=("x",), arg_roles=("input",))
    b = Builder.at_end(main.block)

    def known(*shape: int) -> Value:
        value: Value = b(nn.Constant, value=(RNG.standard_normal(shape) / np.sqrt(width)).astype(np.float32))
        return value

    x = main.args[0]
    made = [b(nn.Reshape, b(nn.Linear, x, known(width, width), known(width)), shape=(1, words, count, depth)) for _ in range(3)]
    q, k, v = (b(nn.Transpose, y, perm=(0, 2, 1, 3)) for y in made)
    shares = b(nn.Softmax, b(nn.MatMul, b(nn.Mul, q, b(nn.Full, value=depth**-0.5, dtype=f32)), k, transpose_y=True))
    out = b(nn.Reshape, b(nn.Transpose, b(nn.MatMul, shares, v), perm=(0, 2, 1, 3)), shape=(1, words, width))
    b.insert(Return([b(nn.Linear, out, known(width, width), None)]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


@pytest.mark.parametrize("words", [2, 13, 70])
def test_the_queries_keys_and_values_of_an_attention_are_one_product(words: int) -> None:
    module = self_attention(words, 3, 32)
    x = RNG.standard_normal((1, words, 96)).astype(np.float32)
    (expected,) = evaluate(module, [x])
    roots = [op for op in lower(module, to="tensor").function().block if not isinstance(op, (tensor.Constant, tensor.Reshape, Return))]
    assert len(roots) == 3, "the joined product, the attention and the product behind it"
    before = get_num_threads()
    made = []
    try:
        executable = compile_module(module).load()
        for threads in (1, 2, 3):
            set_num_threads(threads)
            made.append(executable.run([x])[0])
    finally:
        set_num_threads(before)
    np.testing.assert_allclose(made[0], expected, rtol=1e-4, atol=1e-5)
    for other in made[1:]:
        np.testing.assert_array_equal(made[0], other)


def test_products_whose_results_are_numbers_stay_apart() -> None:
    module, inputs = module_of((5,), lambda b, x: [b(tensor.Contract, x, constant(b, 5), spec="k,k->") for _ in range(2)])
    assert len(joined(module, inputs)) == 2
