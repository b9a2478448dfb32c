"""Facts about sizes: what makes two sizes equal is found exactly, and guards say it."""

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.ir.diagnostics import Location
from polyreme.ir.dims import Expr, evaluate, floordiv, substitute, symbol, symbols
from polyreme.ir.sizes.equations import gaps, solve
from polyreme.ir.sizes.facts import Guard, agree, assuming, at_least_zero, checked, fixed_axis, reasons, without_implied
from polyreme.ir.sizes.residues import zeros

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


quotients = st.tuples(st.integers(-3, 3), st.integers(1, 3), st.integers(-4, 9), st.sampled_from([1, 2, 3, 4, 6, 8])).map(
    lambda c: c[0] * floordiv(c[1] * N + c[2], c[3])
)
sums = st.lists(quotients, min_size=1, max_size=3).map(sum)


@given(sums, st.one_of(sums, st.integers(-3, 12)))
def test_sums_of_quotients_are_solved_for_all_values_that_make_them_equal(a, b):
    """By brute force: what is solved is right for every number, and so is what is said of those that fit."""
    numbers = range(60)
    fits = {n for n in numbers if evaluate(a, {"N": n}) == evaluate(b, {"N": n})}
    described = zeros(a - b)
    if described is not None:
        period, residues = described.period, described.residues
        assert fits == {n for n in numbers if (n % period if period else n) in residues}
    found = solve(a, b, NAMES)
    if found is None:
        # A number that alone fits, or all that leave one rest, would have been found, if types can say it.
        assert len(fits) != 1 or described is None or described.period or len(described.residues) != 1
    elif found.values:
        assert substitute(a - b, found.values) == 0
        form = found.values["N"]
        assert fits == (
            {form} if isinstance(form, int) else {v for k in numbers if (v := evaluate(form, dict.fromkeys(symbols(form), k))) in numbers}
        )
    else:
        assert fits == set(numbers)


@given(sums, sums, st.sampled_from([M, 2 * M, M + 1, 3 * M - 2]))
def test_equations_of_two_sizes_are_solved_for_all_pairs(a, b, other):
    """As the one above; a guard that is kept in place of a solution holds for the same pairs."""
    left, right = a + other, b
    fits = {(n, m) for n in NUMBERS for m in NUMBERS if evaluate(left, {"N": n, "M": m}) == evaluate(right, {"N": n, "M": m})}
    found = solve(left, right, NAMES)
    if found is not None and found.values:
        assert substitute(left - right, found.values) == 0
        known = [substitute(s, found.values) for s in (N, M)]
        names = sorted(set().union(*map(symbols, known)))
        ways = [dict(zip(names, way, strict=True)) for way in product(range(40), repeat=len(names))]
        pairs = {tuple(evaluate(s, way) for s in known) for way in ways}
        assert {pair for pair in pairs if min(pair) >= 0 and max(pair) in NUMBERS} == fits
    elif isinstance(left - right, Expr):
        size, low, high = checked(left, right, "nn.add").measured
        assert (low, high) == (0, 0)
        assert {(n, m) for n in NUMBERS for m in NUMBERS if evaluate(size, {"N": n, "M": m}) == 0} == fits


factors = st.tuples(st.sampled_from([N, M]), st.integers(1, 4), st.integers(0, 4), st.sampled_from([1, 2, 3, 4, 6]))
several_factors = st.lists(factors, min_size=2, max_size=3)


@given(several_factors, st.lists(st.integers(1, 4), min_size=3, max_size=3), st.integers(-1, 1))
def test_products_of_sizes_are_solved_factor_by_factor(made_of, cut, more):
    """By brute force, of all numbers that make neither product 0."""
    whole = [floordiv(scale * name + offset, divisor) for name, scale, offset, divisor in made_of]
    left, right = prod(whole), prod([floordiv(a, c) * c for a, c in zip(whole, cut, strict=False)])
    right = right + more * left
    found = solve(left, right, NAMES)
    if found is None or not found.values:
        return
    assert substitute(left - right, found.values) == 0
    known = [substitute(s, found.values) for s in (N, M)]
    names = sorted(set().union(*map(symbols, known)))
    ways = [dict(zip(names, way, strict=True)) for way in product(NUMBERS, repeat=len(names))]
    reached = {tuple(evaluate(s, way) for s in known) for way in ways}
    for numbers in product(NUMBERS, repeat=2):
        sizes = dict(zip(("N", "M"), numbers, strict=True))
        value = evaluate(left, sizes)
        if value:
            assert (value == evaluate(right, sizes)) == (numbers in reached), numbers


@pytest.mark.parametrize(
    ("a", "b", "values"),
    [
        (N * M, 4 * (N // 2) * (M // 2), {"N": 2 * symbol("N_2"), "M": 2 * symbol("M_2")}),
        (6 * T * N * M, 24 * T * (N // 2) * (M // 2), {"N": 2 * symbol("N_2"), "M": 2 * symbol("M_2")}),
        (N * N * M, 12 * N * (N // 4) * (M // 3), {"N": 4 * symbol("N_4"), "M": 3 * symbol("M_3")}),
        (N * (M // 2), 3 * (N // 3) * (M // 2), {"N": 3 * symbol("N_3")}),
        # `N // 4` may leave 0 to 3, which no line says; of large sizes one is 5/4 of the other; one factor is more, the other less.
        (M * (N // 4), 21 * (M // 3) * (N // 28), None),
        (N * M, 5 * (N // 2) * (M // 2), None),
        (N * (M // 2), (N // 2) * M, None),
    ],
)
def test_what_fills_blocks_of_several_sizes_is_a_multiple_in_each(a, b, values):
    found = solve(a, b, NAMES)
    assert (found and found.values) == values


@given(several_factors, st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_gaps_between_products_are_0_where_they_are_equal(made_of, cut):
    whole = [floordiv(scale * name + offset, divisor) for name, scale, offset, divisor in made_of]
    left, right = prod(whole), prod([floordiv(a, c) * c for a, c in zip(whole, cut, strict=False)])
    found = gaps(left, right)
    for numbers in product(NUMBERS, repeat=2) if found is not None else ():
        sizes = dict(zip(("N", "M"), numbers, strict=True))
        if evaluate(left, sizes):
            assert (evaluate(left, sizes) == evaluate(right, sizes)) == (not any(evaluate(gap, sizes) for gap in found))


@given(sums, st.integers(1, 40))
def test_a_bound_that_an_equation_implies_is_left_out_only_if_it_holds_where_that_does(size, limit):
    equal = checked(N + size, M, "nn.add")
    bounds = [at_least_zero(s, "nn.conv") for s in (M - N - size, N + size - M + limit, M - limit) if isinstance(s, Expr)]
    kept = without_implied([equal, *bounds])
    assert equal in kept
    for dropped in (b for b in bounds if b not in kept):
        for n in NUMBERS:
            m = evaluate(N + size, {"N": n})
            assert m < 0 or evaluate(dropped.size, {"N": n, "M": m}) >= 0


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


def test_an_equation_that_nothing_solves_is_a_guard_that_says_which_sizes_fit():
    halves = checked(2 * floordiv(N, 4), floordiv(N, 2), "nn.add", Location("net.py", 3, 2))
    assert str(halves) == "2*floordiv(N, 4) equals floordiv(N, 2) [-floordiv(N, 2)+2*floordiv(N, 4)] nn.add net.py:3:2"
    assert halves.words == "no difference between 2*floordiv(N, 4) and floordiv(N, 2) (there is none where N % 4 is 0 or 1)"
    assert halves.kind == "checked" and halves.measured == (2 * floordiv(N, 4) - floordiv(N, 2), 0, 0)
    shared = checked(N * T, N * T // 12 * 12, "nn.reshape")
    assert (shared.need, shared.words) == ("N*T % 12 equals 0", "N*T to be divisible by 12")
    assert without_implied([halves, checked(floordiv(N, 2), 2 * floordiv(N, 4), "nn.concat")]) == [halves]


def test_an_axis_that_is_a_number_is_named():
    fixed = fixed_axis("x", 1, Guard("N == 2", 2, "nn.linear", "net.py:4"), 4)
    assert str(fixed) == "axis 1 of x == 4 [4] nn.linear net.py:4" and fixed.words == "axis 1 of 'x' to be 4"
    assert reasons([fixed], 4, "equal", "x", 1) == "axis 1 of 'x' to be 4 (nn.linear at net.py:4)"
    assert reasons([fixed], 4, "equal", "x", 0) == reasons([fixed], 4, "equal", "y", 1) == ""


GUARDS = [
    Guard("N % 8 == 0", 8 * symbol("N_8"), "nn.reshape", "net.py:12:9"),
    Guard("N % 8 == 7", 8 * symbol("N_8") + 7, "nn.reshape"),
    Guard("M == N", N, "nn.add", "a folder/net.py:3"),
    at_least_zero(N - 3, "nn.conv", Location("net.py", 4, 2)),
    at_least_zero(5 - N, "nn.pad"),
    checked(2 * floordiv(N, 4), floordiv(N, 2), "nn.add", Location("net.py", 3, 2)),
    fixed_axis("x", 1, Guard("N == 2", 2, "nn.linear", "net.py:4"), 4),
]


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_a_guard_reads_back_from_its_text(guard):
    assert Guard.parse(str(guard)) == guard


def test_guards_say_what_they_need():
    assert [g.words for g in GUARDS[:5]] == [
        "N to be divisible by 8", "N to leave 7 when divided by 8", "M to be equal to N", "N to be at least 3", "N to be at most 5",
    ]  # fmt: skip
    assert [g.measured[1:] for g in GUARDS[:5]] == [(None, None), (None, None), (None, None), (3, None), (None, 5)]
    assert [g.measured[0] for g in GUARDS[3:5]] == [N, N]
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
    "size",
    [
        N - N // 2 - 1,
        (N - 3) // 2 + 1,
        N // 4 - 3,
        2 * N - N // 3 - 9,
        (3 * N + 2) // 8 - N // 16 - 4,
        N // 7 - 2,
        N // 2 - N // 3 - 1,
        3 - N // 2,
    ],
)
def test_a_bound_of_quotients_is_one_of_the_name_where_it_says_the_same(size):
    guard = at_least_zero(size, "nn.conv")
    assert [evaluate(guard.size, {"N": n}) >= 0 for n in range(1000)] == [evaluate(size, {"N": n}) >= 0 for n in range(1000)]
    assert guard.need.startswith("N >= ") == (size in (N - N // 2 - 1, N // 4 - 3, 2 * N - N // 3 - 9, (3 * N + 2) // 8 - N // 16 - 4))
