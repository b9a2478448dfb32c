"""Symbolic sizes: every canonical form means what the plain arithmetic means."""

import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.ir import dims
from polyreme.ir.dims import ceildiv, evaluate, floordiv, maximum, minimum, mod, parse_dim, substitute, symbol

N, T = symbol("N"), symbol("T")
VALUES = st.fixed_dictionaries({"N": st.integers(0, 50), "T": st.integers(0, 50)})


def expressions():
    """Pairs of a Dim and a function from values to the number that it must mean."""
    leaves = st.one_of(
        st.integers(-9, 9).map(lambda c: (c, lambda v: c)),
        st.sampled_from(["N", "T"]).map(lambda s: (symbol(s), lambda v: v[s])),
    )

    def combine(children):
        pairs = st.tuples(children, children)
        divisors = st.tuples(children, st.integers(1, 7))
        return st.one_of(
            pairs.map(lambda p: (p[0][0] + p[1][0], lambda v: p[0][1](v) + p[1][1](v))),
            pairs.map(lambda p: (p[0][0] - p[1][0], lambda v: p[0][1](v) - p[1][1](v))),
            pairs.map(lambda p: (p[0][0] * p[1][0], lambda v: p[0][1](v) * p[1][1](v))),
            divisors.map(lambda p: (floordiv(p[0][0], p[1]), lambda v: p[0][1](v) // p[1])),
            divisors.map(lambda p: (mod(p[0][0], p[1]), lambda v: p[0][1](v) % p[1])),
            divisors.map(lambda p: (ceildiv(p[0][0], p[1]), lambda v: -(-p[0][1](v) // p[1]))),
            pairs.map(lambda p: (maximum(p[0][0], p[1][0]), lambda v: max(p[0][1](v), p[1][1](v)))),
            pairs.map(lambda p: (minimum(p[0][0], p[1][0]), lambda v: min(p[0][1](v), p[1][1](v)))),
        )

    return st.recursive(leaves, combine, max_leaves=8)


@given(expressions(), VALUES)
def test_a_canonical_form_means_the_same_number(expression, values):
    dim, meaning = expression
    assert evaluate(dim, values) == meaning(values)


@given(expressions())
def test_printing_then_parsing_is_identity(expression):
    assert parse_dim(str(expression[0])) == expression[0]


@given(expressions(), VALUES)
def test_an_order_that_is_called_known_holds(expression, values):
    dim, _ = expression
    if dims.known_nonnegative(dim):
        assert evaluate(dim, values) >= 0


@given(expressions())
def test_an_expression_without_symbols_is_an_int(expression):
    dim, _ = expression
    assert isinstance(dim, int) == (not dims.symbols(dim))


@given(expressions())
def test_writing_a_canonical_form_anew_changes_nothing(expression):
    dim, _ = expression
    once = substitute(dim, {"N": N, "T": T})
    assert once == dim and str(once) == str(dim)


@given(expressions(), st.integers(1, 12))
def test_quotient_and_remainder_make_up_the_whole(expression, divisor):
    dim, _ = expression
    assert floordiv(dim, divisor) * divisor + mod(dim, divisor) == dim


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(1, 12), st.integers(1, 12))
def test_one_quotient_has_one_form_however_it_is_rounded_scaled_or_nested(scale, offset, divisor, factor):
    p = scale * N + offset
    assert ceildiv(p, divisor) == floordiv(p + divisor - 1, divisor)
    assert floordiv(p * factor, divisor * factor) == floordiv(p, divisor)
    assert floordiv(p * factor + factor - 1, divisor * factor) == floordiv(p, divisor)
    assert floordiv(floordiv(p, divisor), factor) == floordiv(p, divisor * factor)


@given(st.integers(-8, 8), st.integers(-9, 9), st.integers(1, 9), st.integers(-8, 8), st.integers(-9, 9), st.integers(1, 9))
def test_rounded_lines_are_the_same_form_exactly_if_they_are_the_same_numbers(a, b, m, c, d, n):
    one, other = floordiv(a * N + b, m), floordiv(c * N + d, n)
    equal = all(evaluate(one, {"N": v}) == evaluate(other, {"N": v}) for v in range(2 * m * n + 1))
    assert (one == other) == equal


def test_equal_polynomials_have_one_form():
    assert (N * T + T) // T == N + 1
    assert N // 2 + (N + 1) // 2 == N
    assert maximum(N + 1, T + 1) == maximum(N, T) + 1
    assert (N + T) * (N - T) == N * N - T * T
    assert (2 * N + 3) // 2 == N + 1
    assert (N - 1) // 2 + 1 == (N + 1) // 2
    assert N * T * 6 // (3 * T) == 2 * N
    assert N * 8 % 4 == 0
    assert maximum(N, -1) == N and maximum(N, N + T) == N + T


def test_bounds_of_quotients_and_of_choices_settle_an_order():
    assert dims.known_nonnegative(N - minimum(N, 4))
    assert dims.known_nonnegative(N - N // 2)
    assert dims.known_nonnegative(mod(N, 8)) and dims.known_nonnegative(7 - mod(N, 8))
    assert dims.known_nonnegative(maximum(N - 3, 0)) and dims.known_nonnegative(minimum(N, 5) - minimum(N, 2) + 3)
    assert not dims.known_nonnegative(N - 1) and not dims.known_nonnegative(N - T) and not dims.known_nonnegative(N // 2 - 1)
    assert maximum(maximum(N, T), N) == maximum(N, T) and minimum(N // 2, N) == N // 2


def test_nothing_is_made_anew_that_a_sum_or_product_leaves_as_it_is():
    size = symbol("N") * 3 + 1
    assert size + 0 is size and 0 + size is size and size - 0 is size and size * 1 is size
    assert size * 0 == 0 and str(size * -2) == "-6*N-2" and str(size * True) == "3*N+1"


def test_a_line_in_one_size_is_told_apart():
    assert dims.line_of(N) == ("N", 1, 0) and dims.line_of(8 * N + 3) == ("N", 8, 3) and dims.line_of(N - 1) == ("N", 1, -1)
    assert all(dims.line_of(d) is None for d in (4, N + T, N * N, N * T, N // 2, 1 - N))


def test_substitution_may_leave_other_symbols():
    assert substitute(2 * N + T, {"N": T}) == 3 * T


def test_the_truth_and_the_order_of_a_symbolic_size_are_not_guessed():
    with pytest.raises(TypeError, match="symbolic"):
        bool(N)
    with pytest.raises(TypeError, match="order is not known"):
        N < 3  # noqa: B015
    for result in (lambda: N / 2, lambda: 2 / N, lambda: N**-0.5, lambda: N * 0.5, lambda: 0.5 + N, lambda: N - 0.5):
        with pytest.raises(TypeError, match="whole quotients"):
            result()


@pytest.mark.parametrize("text", ["", "N+", "floordiv(N,0)", "f(N,2)", "N N", "(" * 60 + "N" + ")" * 60, "3..4"])
def test_text_that_is_no_size_is_refused_with_its_column(text):
    with pytest.raises(ValueError, match="column"):
        parse_dim(text)


def test_a_size_without_a_value_is_named():
    with pytest.raises(KeyError, match="'T'"):
        evaluate(N + T, {"N": 1})


def test_a_factor_of_both_sides_of_a_quotient_goes():
    n, m, k = map(symbol, "NMK")
    assert str((k * m) // (2 * k)) == "floordiv(M, 2)" and (4 * k * n) // (6 * k * m) == (2 * n) // (3 * m)
    assert (k * m + 1) // (2 * k) != (m + 1) // 2
    for a in (2 * n * k + 3 * k * m, n * k - 2 * k, k * k * m + 5 * k):
        for b in (2 * k, 6 * k, 3 * k * n):
            for values in ({"N": 1, "M": 4, "K": 3}, {"N": 7, "M": 0, "K": 1}, {"N": 2, "M": 9, "K": 8}):
                assert evaluate(floordiv(a, b), values) == evaluate(a, values) // evaluate(b, values)


def test_sizes_of_another_process_are_the_same_sizes():
    size = "parse_dim('2*N+floordiv(M, 3)')"
    write = f"import pickle, sys; from polyreme.ir.dims import parse_dim; sys.stdout.buffer.write(pickle.dumps({size}))"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        made = pickle.loads(subprocess.run([sys.executable, "-c", write], capture_output=True, check=True, env=environment).stdout)
        own = parse_dim("2*N+floordiv(M, 3)")
        assert made == own and hash(made) == hash(own) and made - own == 0 and made in {own: 1}
