"""Facts about sizes: what makes two sizes equal is found exactly, and guards say it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.ir.diagnostics import Location
from polyreme.ir.dims import evaluate, floordiv, substitute, symbol, symbols
from polyreme.ir.equations import solve
from polyreme.ir.facts import Guard, agree, assuming, at_least_zero, without_implied

N, M, T = symbol("N"), symbol("M"), symbol("T")
NAMES = ("N", "M", "T")
NUMBERS = range(13)


def solutions(a, b):
    return {(n, m) for n in NUMBERS for m in NUMBERS if evaluate(a, {"N": n, "M": m}) == evaluate(b, {"N": n, "M": m})}


def values_of(found):
    """All that `found` lets N and M be, within `NUMBERS`."""
    forms = [substitute(s, found.values) for s in (N, M)]
    free = sorted(set().union(*map(symbols, forms)))
    ways = [{}]
    for name in free:
        ways = [{**w, name: v} for w in ways for v in NUMBERS]
    return {pair for w in ways if max(pair := tuple(evaluate(f, w) for f in forms)) in NUMBERS and min(pair) >= 0}


lines = st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.integers(-6, 6)).map(lambda c: c[0] * N + c[1] * M + c[2])


@given(lines, lines)
def test_what_solves_an_equation_is_all_that_solves_it(a, b):
    found = solve(a, b, NAMES)
    if found is not None and found.values:
        assert substitute(a - b, found.values) == 0
        assert values_of(found) == solutions(a, b)


@given(st.integers(1, 6), st.integers(-6, 6), st.integers(2, 8))
def test_a_reshape_by_parts_is_solved_as_a_divisor(scale, offset, divisor):
    size = scale * N + offset
    found = solve(size, floordiv(size, divisor) * divisor, NAMES)
    fits = {n for n in range(100) if (scale * n + offset) % divisor == 0}
    if found is None or not found.values:
        assert found is not None or not fits
        return
    assert substitute(size - floordiv(size, divisor) * divisor, found.values) == 0
    (form,) = found.values.values()
    (name,) = symbols(form)
    assert {v for k in range(100) if (v := evaluate(form, {name: k})) < 100} == fits


def test_of_two_equal_sizes_the_younger_one_goes():
    assert solve(N, M, ("N", "M")).values == {"M": N}
    assert solve(N, M, ("M", "N")).values == {"N": M}
    assert solve(N + M, T, NAMES).values == {"T": N + M}
    assert solve(T * N, T * M, NAMES).values == {"M": N}
    assert {str(v) for v in solve(2 * N, 3 * M, NAMES).values.values()} == {"3*M_2", "2*M_2"}


def test_a_size_is_fixed_to_a_number_that_alone_does_it_and_never_guessed():
    assert solve(N, 4, NAMES).values == {"N": 4}
    assert solve(2 * N + 1, 9, NAMES).values == {"N": 4}
    assert solve(N, -4, NAMES) is None and solve(2 * N, 9, NAMES) is None
    assert solve(N // 4, 2, NAMES) is None
    assert solve(N, -M - 1, NAMES) is None
    assert solve(N * T, floordiv(N * T, 8) * 8, NAMES) is None
    assert solve(N * N, M * T, NAMES) is None


def test_new_names_differ_from_those_in_use():
    assert str(solve(N, N // 8 * 8, ("N", "N_8")).values["N"]) == "8*N_8_1"


def test_sizes_agree_on_trust_only_while_facts_are_looked_for():
    assert agree(N, N) and not agree(N, M)
    with assuming() as equations:
        assert agree(N, M) and not agree(N, N + 1) and not agree(3, 4)
    assert equations == [(N, M)] and not agree(N, M)


GUARDS = [
    Guard("N % 8 == 0", 8 * symbol("N_8"), "nn.reshape", "net.py:12:9"),
    Guard("N % 8 == 7", 8 * symbol("N_8") + 7, "nn.reshape"),
    Guard("M == N", N, "nn.add", "a folder/net.py:3"),
    at_least_zero(N - 3, "nn.conv", Location("net.py", 4, 2)),
    at_least_zero(5 - N, "nn.pad"),
]


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_a_guard_reads_back_from_its_text(guard):
    assert Guard.parse(str(guard)) == guard


def test_guards_say_what_they_need():
    assert [g.words for g in GUARDS] == [
        "N to be divisible by 8", "N to leave 7 when divided by 8", "M to be equal to N", "N to be at least 3", "N to be at most 5",
    ]  # fmt: skip
    assert [g.measured[1:] for g in GUARDS] == [(None, None), (None, None), (None, None), (3, None), (None, 5)]
    assert [g.measured[0] for g in GUARDS[3:]] == [N, N]
    assert GUARDS[0].origin == "nn.reshape at net.py:12:9"


@pytest.mark.parametrize("text", ["", "N >= 3", "N >= M [N] nn.add", "N [N] nn.add", "N >= 3 [N*] nn.add"])
def test_other_text_is_no_guard(text):
    with pytest.raises(ValueError, match=r"expected|size"):
        Guard.parse(text)


def test_bounds_that_follow_from_others_are_left_out():
    three, five, other = (at_least_zero(d, "nn.conv") for d in (N - 3, N - 5, M - 3))
    assert without_implied([three, five, other, three]) == [five, other]
    assert without_implied([five, three]) == [five]


@pytest.mark.parametrize(
    "size", [N - N // 2 - 1, (N - 3) // 2 + 1, N // 4 - 3, 2 * N - N // 3 - 9, (3 * N + 2) // 8 - N // 16 - 4, N // 7 - 2, N // 2 - N // 3 - 1, 3 - N // 2]
)
def test_a_bound_of_quotients_is_one_of_the_name_where_it_says_the_same(size):
    guard = at_least_zero(size, "nn.conv")
    assert [evaluate(guard.size, {"N": n}) >= 0 for n in range(1000)] == [evaluate(size, {"N": n}) >= 0 for n in range(1000)]
    assert guard.need.startswith("N >= ") == (size in (N - N // 2 - 1, N // 4 - 3, 2 * N - N // 3 - 9, (3 * N + 2) // 8 - N // 16 - 4))
