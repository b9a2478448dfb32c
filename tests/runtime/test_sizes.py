"""Sizes as text: the runtime reads what the compiler prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.ir import dims
from polyreme.ir.dims import Dim
from polyreme.runtime.manifest.sizes import parse_size

VALUES = {"N": 5, "T": 3, "batch_1": 0}


def grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    pairs = st.tuples(inner, inner)
    divisors = st.integers(1, 9)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: dims.maximum(*p)),
        pairs.map(lambda p: dims.minimum(*p)),
        st.tuples(inner, divisors).map(lambda p: dims.floordiv(*p)),
        st.tuples(inner, divisors).map(lambda p: dims.mod(*p)),
    )


sizes = st.recursive(st.one_of(st.integers(0, 99), st.sampled_from(list(VALUES)).map(dims.symbol)), grow, max_leaves=6)


@given(sizes)
def test_the_runtime_computes_what_the_compiler_does(size: Dim) -> None:
    assert parse_size(str(size), VALUES)(VALUES) == dims.evaluate(size, VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "", "M", "N+", "N N", "2**N", "N.__class__", "floordiv(N)", "floordiv(N, 2", "pow(N, 2)", "(" * 40 + "N" + ")" * 40, "1" * 30,
        "N;N", "N" * 3000, "__import__",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_size(text, VALUES)


def test_division_by_zero_is_an_error_of_its_own() -> None:
    with pytest.raises(ValueError, match="divided by 0"):
        parse_size("floordiv(N, batch_1)", VALUES)(VALUES)
