"""Products by Strassen's algorithm: exact formulas, results within the declared bound of float64 on every target, and when they are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyreme.compiled.kept import compiler_version
from polyreme.dialects import kernel, tensor
from polyreme.ir.accuracy import STRASSEN_PRODUCT, Array
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.dims import Dim, mod, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, f64
from polyreme.lowering.kernels.gemm import strassen, strassen_plan
from polyreme.lowering.kernels.gemm.strassen import StrassenBuilder, build_strassen
from polyreme.lowering.kernels.gemm.strassen_plan import (
    CUT_SCHEMES,
    Cut,
    Matrices,
    best_cut,
    choose_cut,
    cuts,
    find_matrices,
    for_any_rows,
)
from polyreme.lowering.kernels.gemm.strassen_schemes import BY_THIRDS, STRASSEN, Scheme, Terms, places
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering import bounds
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.products import root_of

# --- the formulas


SCHEMES = pytest.mark.parametrize(
    "scheme",
    [STRASSEN, BY_THIRDS, BY_THIRDS.transposed, STRASSEN.few, BY_THIRDS.few],
    ids=["halves", "thirds", "thirds of rows", "few by halves", "few by thirds"],
)


@SCHEMES
def test_a_scheme_gives_the_product_exactly(scheme: Scheme) -> None:
    """The sum over products of their signs is 1 where a part of A meets one of B in a part of the result, and 0 elsewhere."""
    signs = lambda table: [dict(terms) for terms in table]
    left, right, made = signs(scheme.left), signs(scheme.right), signs(scheme.result)
    for a, b, c in product(range(scheme.rows * scheme.steps), range(scheme.steps * scheme.lanes), range(scheme.rows * scheme.lanes)):
        total = sum(made[c].get(p, 0) * left[p].get(a, 0) * right[p].get(b, 0) for p in range(scheme.products))
        meet = a % scheme.steps == b // scheme.lanes and (a // scheme.steps, b % scheme.lanes) == (c // scheme.lanes, c % scheme.lanes)
        assert total == meet


@pytest.mark.parametrize("scheme", [STRASSEN, BY_THIRDS], ids=["halves", "thirds"])
def test_few_rows_take_as_many_products_as_the_plain_way_and_combinations_of_b_that_are_there(scheme: Scheme) -> None:
    assert scheme.few is not None
    assert scheme.few.products == scheme.steps * scheme.lanes
    assert scheme.few.right == scheme.right[scheme.first : scheme.first + scheme.few.products]


@SCHEMES
def test_sums_of_a_scheme_begin_with_a_plus(scheme: Scheme) -> None:
    assert all(terms[0][1] == 1 for table in (scheme.left, scheme.right, scheme.result) for terms in table)


@SCHEMES
def test_targets_are_the_parts_that_a_product_belongs_to_those_that_it_completes_in_front(scheme: Scheme) -> None:
    """Adding every product to its targets, one after the other, gives the result: the first one of a part finds nothing there, the last one
    leaves nothing to add.
    """
    added: list[list[tuple[int, int]]] = [[] for _ in scheme.result]
    for number, targets in enumerate(scheme.targets):
        assert sorted(targets, key=lambda target: not target.last) == targets
        for target in targets:
            assert target.first == (not added[target.part])
            added[target.part].append((number, target.sign))
            assert target.last == (len(added[target.part]) == len(scheme.result[target.part]))
    assert added == [sorted(terms) for terms in scheme.result]


def test_parts_are_numbered_from_the_outermost_level() -> None:
    assert places([(2, 3)]) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [places([(2, 2), (2, 2)])[part] for part in (0, 1, 2, 4, 8, 15)] == [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (3, 3)]


# --- the products


@dataclass(frozen=True)
class Case:
    """x [rows, steps] by known weights [steps, lanes] ([lanes, steps] when `transposed`), and what follows; with `split` the rows are two
    letters.
    """

    m: int
    k: int
    n: int
    transposed: bool = False
    bias: bool = False
    residual: bool = False
    split: int = 1

    def arrays(self, spread: float = 0.0) -> tuple[list[Array], list[Array]]:
        """Inputs and constants; rows differ in size by up to 10**spread, and so do steps."""
        rng = np.random.default_rng(7)
        x = (
            rng.standard_normal((self.m, self.k))
            * 10.0 ** rng.uniform(-spread, spread, (self.m, 1))
            * 10.0 ** rng.uniform(-spread, spread, self.k)
        )
        w, bias, residual = (
            rng.standard_normal((self.k, self.n)),
            rng.standard_normal((1,) * (self.split > 1) + (1, self.n)),
            rng.standard_normal((self.m, self.n)),
        )
        rows = (self.split, self.m // self.split) if self.split > 1 else (self.m,)
        inputs = [x.reshape(*rows, self.k), *([residual.reshape(*rows, self.n)] if self.residual else [])]
        constants = [w.T if self.transposed else w, *([bias] if self.bias else [])]
        return [a.astype(np.float32) for a in inputs], [np.ascontiguousarray(a, np.float32) for a in constants]

    def module(self, inputs: Sequence[Array], constants: Sequence[Array], free: bool = False) -> Module:
        """The case as one group at tensor level, for any number of rows if they are `free`."""
        rows = "bm" if self.split > 1 else "m"
        sizes = [symbol(letter.upper()) for letter in rows]

        def make(b: Builder, x: Any, *rest: Any) -> Any:
            known = rest[len(rest) - len(constants) :]
            y = b(tensor.Contract, x, known[0], spec=f"{rows}k,{'nk' if self.transposed else 'kn'}->{rows}n")
            for other in [*known[1:], *rest[: len(rest) - len(constants)]]:
                y = b(tensor.Map, y, other, fn="add")
            return y

        return root_of([TensorType((*sizes, a.shape[-1]) if free else a.shape, f32) for a in inputs], make, constants)

    def expected(self, inputs: Sequence[Array], constants: Sequence[Array]) -> Array:
        w = constants[0].T if self.transposed else constants[0]
        y = inputs[0].astype(np.float64) @ w.astype(np.float64)
        for other in (*constants[1:], *inputs[1:]):
            y = y + other
        return np.asarray(y)

    def bound(self, inputs: Sequence[Array], constants: Sequence[Array], cut: Cut) -> Array:
        """`STRASSEN_PRODUCT` with the magnitude that the module declares for it."""
        x, w = (
            np.abs(a).astype(np.float64) for a in (inputs[0].reshape(self.m, self.k), constants[0].T if self.transposed else constants[0])
        )
        magnitude = np.concatenate([magnitude_of(part, w, sized) for part, sized in chunks_of(x, cut)])
        exact = inputs[0].reshape(self.m, self.k).astype(np.float64) @ (constants[0].T if self.transposed else constants[0]).astype(
            np.float64
        )
        bound = STRASSEN_PRODUCT.bound(exact, f32, magnitude, self.k)
        # Each of the sums after it rounds once more.
        expected = self.expected(inputs, constants)
        later = np.finfo(np.float32).eps * (self.bias + self.residual) * (np.abs(expected) + 8)
        return np.asarray(bound.reshape(expected.shape) + later)


def chunks_of(x: Array, cut: Cut) -> list[tuple[Array, Cut]]:
    """The rows that are cut at a time, and how."""
    m = len(x)
    if isinstance(cut.matrices.m, int):
        return [(x[i : i + cut.matrices.m], cut) for i in range(0, m, cut.matrices.m)]
    tile, chunks = cut.down * cut.rows, max(-(-m // cut.most), 1)
    tiles = -(-m // tile)
    each = -(-tiles // chunks) * tile
    parts = [x[i : i + each] for i in range(0, m, each)]
    return [(part, replace(cut if len(part) >= cut.least else cut.of_few, matrices=replace(cut.matrices, m=len(part)))) for part in parts]


def magnitude_of(x: Array, w: Array, cut: Cut) -> Array:
    """The algorithm on magnitudes, with plus for every minus, cut as `cut` says."""
    (m, k), n = x.shape, w.shape[1]
    assert isinstance(cut.height, int)
    x = np.pad(x, [(0, cut.down * cut.height - m), (0, cut.along * cut.steps - k)])
    w = np.pad(w, [(0, cut.along * cut.steps - k), (0, cut.groups * cut.across * cut.width - n)])
    x = x.reshape(cut.down, cut.height, cut.along, cut.steps)
    w = w.reshape(cut.along, cut.steps, cut.groups, cut.across, cut.width)
    a = [x[i, :, j] for i, j in cut.left_parts]
    b = [w[i, :, :, j].reshape(cut.steps, -1) for i, j in cut.right_parts]
    made = np.zeros((cut.down, cut.height, cut.groups, cut.across, cut.width))
    for (i, j), value in zip(cut.result_parts, _products(a, b, cut.schemes), strict=True):
        made[i, :, :, j] = value.reshape(cut.height, cut.groups, cut.width)
    return made.reshape(cut.down * cut.height, -1)[:m, :n]


def _products(a: list[Array], b: list[Array], schemes: tuple[Scheme, ...]) -> list[Array]:
    """The parts of the result from those of the operands."""
    if not schemes:
        return [a[0] @ b[0]]
    scheme, *inner = schemes
    added: Callable[[Terms, list[list[Array]]], list[Any]] = lambda terms, of: [
        sum(column) for column in zip(*(of[p] for p, _ in terms), strict=True)
    ]
    left, right = _split(a, scheme.rows * scheme.steps), _split(b, scheme.steps * scheme.lanes)
    sums = [_products(added(x, left), added(y, right), tuple(inner)) for x, y in zip(scheme.left, scheme.right, strict=True)]
    return [value for terms in scheme.result for value in added(terms, sums)]


def _split(values: list[Array], count: int) -> list[list[Array]]:
    """`values` in so many parts."""
    size = len(values) // count
    return [values[i : i + size] for i in range(0, len(values), size)]


def with_cut(
    pick: Callable[[list[Cut]], Cut], choices: Sequence[str] = tuple(CUT_SCHEMES), used: list[Cut] | None = None
) -> Callable[[Request], KernelPlan | None]:
    """A builder that makes any product it can by Strassen's algorithm, cut as `pick` says."""

    def build(request: Request) -> KernelPlan | None:
        found = find_matrices(request)
        assert found is not None
        cut = pick(list(cuts(found, [CUT_SCHEMES[choice] for choice in choices])))
        if used is not None:
            used.append(cut)
        return StrassenBuilder(cut).build()

    return build


CASES = st.builds(Case, st.integers(1, 14), st.integers(2, 40), st.integers(2, 70), st.booleans(), st.booleans(), st.booleans())


@settings(max_examples=15, deadline=None)
@example(Case(7, 37, 70, bias=True), "x86-64-avx512", "quarters", 5, 3.0, 1)
@example(Case(6, 19, 33, residual=True, split=2), "aarch64", "thirds", 9, 0.0, 2)
@example(Case(9, 33, 50, transposed=True, bias=True), "x86-64-avx2", "halves", 7, 0.0, 3)
@given(
    CASES,
    st.sampled_from(["x86-64-avx512", "x86-64-avx2", "aarch64"]),
    st.sampled_from(list(CUT_SCHEMES)),
    st.integers(0, 1000),
    st.sampled_from([0.0, 3.0]),
    st.integers(1, 3),
)
def test_kernels_are_within_the_bound_and_touch_no_memory_outside_of_their_buffers(
    case: Case, target: str, choice: str, which: int, spread: float, pieces: int
) -> None:
    """However the work is cut, for any target, and for rows and steps of very different sizes."""
    inputs, constants = case.arrays(spread)
    used: list[Cut] = []

    def pick(all: list[Cut]) -> Cut:
        cut = all[which % len(all)]
        assert isinstance(cut.height, int)
        return replace(cut, piece=-(-cut.height // pieces), blocks=min(pieces, 2))

    lowered = to_kernels(case.module(inputs, constants), TARGETS[target], with_cut(pick, (choice,), used))
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), case.bound(inputs, constants, used[0]))


@pytest.mark.parametrize("chunk", [10, 8], ids=["even", "rest"])
@pytest.mark.parametrize("choice", ["halves", "thirds"])
@pytest.mark.parametrize("case", [Case(20, 37, 70, bias=True, residual=True), Case(20, 33, 50, transposed=True, split=4)], ids=str)
def test_chunks_of_rows_are_within_the_bound_of_their_own_parts_and_touch_no_memory_outside_of_their_buffers(
    case: Case, choice: str, chunk: int
) -> None:
    used: list[Cut] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_matrices(request)
        assert found is not None
        used.append(min(cuts(replace(found, m=chunk), [CUT_SCHEMES[choice]]), key=lambda cut: cut.cycles))
        return StrassenBuilder(used[0]).build()

    inputs, constants = case.arrays()
    lowered = to_kernels(case.module(inputs, constants), host(), build)
    expected, bound = case.expected(inputs, constants), case.bound(inputs, constants, used[0])
    assert_within(evaluate(lowered, inputs)[0], expected, bound)
    bounds.check_machine_code(lowered, inputs, expected, bound)


@pytest.mark.parametrize("choice", list(CUT_SCHEMES))
@pytest.mark.parametrize(
    "case",
    [Case(67, 260, 200, bias=True), Case(128, 1500, 96, residual=True), Case(50, 129, 259, transposed=True), Case(64, 64, 77, split=4)],
    ids=str,
)
def test_machine_code_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, choice: str) -> None:
    inputs, constants = case.arrays()
    used: list[Cut] = []
    cheapest = with_cut(lambda all: min(all, key=lambda cut: cut.cycles), (choice,), used)
    lowered = to_kernels(case.module(inputs, constants), host(), cheapest)
    bounds.check_machine_code(lowered, inputs, case.expected(inputs, constants), case.bound(inputs, constants, used[0]))


@pytest.mark.parametrize(
    ("case", "target", "pieces", "which", "groups"),
    [(Case(8, 144, 200, bias=True), "x86-64-avx512", 2, 1, 8), (Case(12, 144, 100, True, residual=True, split=2), "x86-64-avx2", 1, 2, 2)],
)
def test_threads_make_combinations_and_add_up_while_they_multiply(
    case: Case, target: str, pieces: int, which: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for itself, and anew where its groups go on with another piece of the rows, and where there is memory for no more groups at a
    time.
    """
    inputs, constants = case.arrays()
    used: list[Cut] = []

    def pick(all: list[Cut]) -> Cut:
        narrow = [replace(cut, piece=-(-case.m // (4 * pieces)), blocks=1) for cut in all if cut.vectors == 1]
        possible = [cut for cut in narrow if cut.is_pipelined]
        cut = possible[which % len(possible)]
        monkeypatch.setattr(strassen_plan, "results_room", lambda idle_units: groups * cut.results_of_group * f32.bytes)
        return cut

    lowered = to_kernels(case.module(inputs, constants), TARGETS[target], with_cut(pick, ("quarters",), used))
    assert used[0].groups_of_thread <= groups
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), case.bound(inputs, constants, used[0]))


@pytest.mark.parametrize(
    ("case", "room"),
    [
        (Case(128, 784, 300, bias=True), strassen_plan.results_room(False)),
        (Case(100, 144, 512, residual=True), 1),
        (Case(4, 144, 1100), strassen_plan.results_room(False)),
    ],
)
def test_machine_code_that_makes_combinations_while_it_multiplies_is_within_the_bound_and_equal_on_one_and_two_threads(
    case: Case, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is `room` for the results of one group at a time, and where groups are more than vectors of combinations."""
    monkeypatch.setattr(strassen_plan, "results_room", lambda idle_units: room)
    inputs, constants = case.arrays()
    used: list[Cut] = []
    cheapest = with_cut(lambda all: min((cut for cut in all if cut.is_pipelined), key=lambda cut: cut.cycles), ("quarters",), used)
    lowered = to_kernels(case.module(inputs, constants), host(), cheapest)
    bounds.check_machine_code(lowered, inputs, case.expected(inputs, constants), case.bound(inputs, constants, used[0]))


@pytest.mark.parametrize(
    ("case", "pieces", "which", "groups"),
    [(Case(8, 144, 200, bias=True), 1, 1, 8), (Case(14, 176, 130, True, residual=True, split=2), 2, 2, 2), (Case(5, 144, 260), 1, 0, 1)],
)
def test_panels_are_made_while_rows_are_multiplied_in_parts_that_may_lack_some(
    case: Case, pieces: int, which: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, constants = case.arrays()
    used: list[Cut] = []

    def pick(all: list[Cut]) -> Cut:
        narrow = [
            replace(cut, piece=-(-cut.height // pieces), blocks=1, half_packed=True)
            for cut in all
            if cut.vectors == 1 and isinstance(cut.height, int)
        ]
        possible = [cut for cut in narrow if cut.is_pipelined]
        cut = possible[which % len(possible)]
        monkeypatch.setattr(strassen_plan, "results_room", lambda idle_units: groups * cut.results_of_group * f32.bytes)
        return cut

    lowered = to_kernels(
        case.module(inputs, constants), replace(TARGETS["x86-64-avx512"], multiply_adds=1), with_cut(pick, ("quarters",), used)
    )
    assert used[0].groups_of_thread <= groups
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), case.bound(inputs, constants, used[0]))


@pytest.mark.parametrize(
    "case", [Case(128, 784, 300, bias=True), Case(197, 256, 512, residual=True), Case(37, 1040, 300), Case(300, 144, 1100)]
)
def test_machine_code_that_makes_panels_while_it_multiplies_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case) -> None:
    inputs, constants = case.arrays()
    used: list[Cut] = []
    cheapest = with_cut(
        lambda all: min((replace(cut, half_packed=True) for cut in all if cut.is_pipelined), key=lambda cut: cut.cycles),
        ("quarters",),
        used,
    )
    lowered = to_kernels(case.module(inputs, constants), replace(host(), multiply_adds=1, spare_adders=True), cheapest)
    bounds.check_machine_code(lowered, inputs, case.expected(inputs, constants), case.bound(inputs, constants, used[0]))


@pytest.mark.parametrize("half_packed", [False, True])
def test_results_are_the_same_bits_whoever_takes_which_item(half_packed: bool) -> None:
    """Threads that outnumber the processors are stopped anywhere, so that others take their turns."""
    case = Case(128, 784, 512, bias=True)
    inputs, constants = case.arrays()
    cheapest = with_cut(
        lambda all: min((replace(cut, half_packed=half_packed) for cut in all if cut.is_pipelined), key=lambda cut: cut.cycles),
        ("quarters",),
        [],
    )
    executable = bounds.machine_code(to_kernels(case.module(inputs, constants), host(), cheapest))
    before = get_num_threads()
    try:
        set_num_threads(1)
        alone = np.array(executable.run(inputs)[0])
        for threads in (2, 3, 4, 7):
            set_num_threads(threads)
            for _ in range(50):
                np.testing.assert_array_equal(executable.run(inputs)[0], alone)
    finally:
        set_num_threads(before)


def with_any_rows(
    choice: str, which: int, used: list[Cut], tiles: int = 0, least: int = 0, most: int = 0
) -> Callable[[Request], KernelPlan | None]:
    """A builder for an unknown number of rows, with one of the ways to cut; `tiles` of a task, and the `least` and `most` rows of a chunk,
    if they are given.
    """

    def build(request: Request) -> KernelPlan | None:
        found = find_matrices(request)
        assert found is not None
        usual = [cut for cut in cuts(replace(found, m=64), [CUT_SCHEMES[choice]]) if cut.rows % 2 == 0]
        cut = for_any_rows(usual[which % len(usual)], found.m)
        used.append(replace(cut, piece=tiles * cut.rows, blocks=tiles, least=least, most=max(most, least)) if tiles else cut)
        return StrassenBuilder(used[0]).build()

    return build


@settings(max_examples=3, deadline=None)
@example(Case(1, 25, 70, bias=True), "x86-64-avx512", "thirds", 5, 3, 11, 2, [2, 11, 12])
@example(Case(6, 19, 33, residual=True, split=2), "aarch64", "halves", 9, 4, 100, 1, [1, 7])
@example(Case(2, 17, 50, transposed=True, bias=True), "x86-64-avx2", "thirds", 7, 1, 5, 1, [5, 16])
@given(
    CASES, st.sampled_from(["x86-64-avx512", "x86-64-avx2", "aarch64"]), st.sampled_from(["halves", "thirds"]), st.integers(0, 1000),
    st.integers(1, 9), st.integers(1, 20), st.integers(1, 2), st.lists(st.integers(1, 20), min_size=2, max_size=2),
)  # fmt: skip
def test_one_kernel_serves_any_number_of_rows(
    case: Case, target: str, choice: str, which: int, least: int, most: int, tiles: int, sizes: list[int]
) -> None:
    """By all products of a scheme, in chunks of rows where there are many, or by those for few rows, whichever their number asks for."""
    used: list[Cut] = []
    inputs, constants = case.arrays()
    lowered = to_kernels(case.module(inputs, constants, free=True), TARGETS[target], with_any_rows(choice, which, used, tiles, least, most))
    for m in sizes:
        sized = replace(case, m=m * case.split)
        inputs, _ = sized.arrays()
        assert_within(evaluate(lowered, inputs)[0], sized.expected(inputs, constants), sized.bound(inputs, constants, used[0]))


@pytest.mark.parametrize("choice", ["halves", "thirds"])
@pytest.mark.parametrize(
    "case", [Case(4, 260, 200, bias=True), Case(4, 1500, 96, residual=True), Case(4, 129, 259, transposed=True, split=2)], ids=str
)
def test_machine_code_for_any_number_of_rows_is_within_the_bound_and_equal_on_one_and_two_threads(case: Case, choice: str) -> None:
    used: list[Cut] = []
    inputs, constants = case.arrays()
    lowered = to_kernels(case.module(inputs, constants, free=True), host(), with_any_rows(choice, -4, used))
    executable = bounds.machine_code(lowered)
    for m in (2, 6, 18, 66, 500, used[0].most // 2 * 2 + 2):
        sized = replace(case, m=m)
        inputs, _ = sized.arrays()
        bounds.check_executable(executable, inputs, sized.expected(inputs, constants), sized.bound(inputs, constants, used[0]))


def test_no_rows_at_all_give_none() -> None:
    inputs, constants = Case(4, 129, 200).arrays()
    executable = bounds.machine_code(
        to_kernels(Case(4, 129, 200).module(inputs, constants, free=True), host(), with_any_rows("halves", -4, []))
    )
    assert executable.run([inputs[0][:0]])[0].shape == (0, 200)


@pytest.mark.parametrize("case", [Case(4, 144, 300, bias=True), Case(4, 288, 250, transposed=True, residual=True)], ids=str)
def test_whole_chunks_of_rows_go_by_two_levels_and_the_rest_by_one(case: Case) -> None:
    used: list[Cut] = []

    def build(request: Request) -> KernelPlan | None:
        found = find_matrices(request)
        assert found is not None
        chunk = min((cut for cut in cuts(replace(found, m=32), [CUT_SCHEMES["quarters"]]) if cut.is_pipelined), key=lambda cut: cut.cycles)
        halves = min((cut for cut in cuts(replace(found, m=32), [CUT_SCHEMES["halves"]]) if cut.rows % 2 == 0), key=lambda cut: cut.cycles)
        rest = replace(for_any_rows(halves, found.m), least=10, most=30, matrices=replace(found, m=mod(found.m, 32)), chunk=chunk)
        used.extend([chunk, rest])
        return StrassenBuilder(rest).build()

    inputs, constants = case.arrays()
    executable = bounds.machine_code(to_kernels(case.module(inputs, constants, free=True), host(), build))
    for m in (8, 32, 38, 64, 110):
        sized = replace(case, m=m)
        inputs, _ = sized.arrays()
        parts = [(first, min(32, m - first)) for first in range(0, m, 32)]
        allowed = [
            replace(case, m=count).bound([a[first : first + count] for a in inputs], constants, used[count < 32]) for first, count in parts
        ]
        bounds.check_executable(executable, inputs, sized.expected(inputs, constants), np.concatenate(allowed))


@pytest.mark.parametrize("blocks", [1, 2])
def test_few_rows_prefetch_none_of_the_panels_that_they_leave_out(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(7, 160, 200)
    inputs, constants = case.arrays()
    used: list[Cut] = []
    lowered = to_kernels(
        case.module(inputs, constants, free=True), TARGETS["x86-64-avx512"], with_any_rows("halves", -4, used, blocks, 16, 100)
    )
    (cut,) = used
    read: set[int] = set()
    asked: set[int] = set()
    made = kernel.Load.reference

    def load(buffer: Array, index: Any, *rest: Any, **options: Any) -> Any:
        if buffer.size == cut.weight_elements:
            read.add(index // cut.panel)
        return made(buffer, index, *rest, **options)

    def prefetch(buffer: Array, index: Any, **_: Any) -> tuple[()]:
        if buffer.size == cut.weight_elements:
            asked.add(index // cut.panel)
        return ()

    monkeypatch.setattr(kernel.Load, "reference", staticmethod(load))
    monkeypatch.setattr(kernel.Prefetch, "reference", staticmethod(prefetch))
    evaluate(lowered, inputs)
    panels = cut.groups * blocks * cut.products
    assert len(read) == cut.groups * blocks * cut.of_few.products
    # The last of all is followed by none.
    assert {panel for panel in asked if panel < panels} == read - {cut.schemes[0].first}


@pytest.mark.parametrize("transposed", [False, True])
def test_the_kernel_that_packs_weights_does_what_the_pack_says(transposed: bool) -> None:
    """For weights that are arguments, as in `to_static`; the function is what constants go through."""
    case = Case(20, 37, 70, transposed)
    inputs, constants = case.arrays()
    packs = []

    def watch(request: Request) -> None:
        found = find_matrices(replace(request, kept=request.constant))
        assert found is not None
        for cut in list(cuts(found))[::7]:
            cut = replace(cut, half_packed=len(cut.schemes) == 2)
            packs.extend(StrassenBuilder(replace(cut, blocks=2)).build().packs)

    to_kernels(case.module(inputs, constants), TARGETS["x86-64-avx512"], watch)
    assert len(packs) > 1
    for pack in (*packs[:4], packs[-1]):
        (expected,) = evaluate(pack.func, [constants[0]])
        made = np.full(expected.shape, np.nan, np.float32)
        evaluate(pack.kernel, [constants[0], made])
        np.testing.assert_array_equal(made, expected)


# --- when they are chosen


def chosen(
    a: tuple[Dim, ...], b: tuple[Dim, ...], spec: str = "mk,kn->mn", target: str = "x86-64-avx512", constant: bool = True, dtype: Any = f32
) -> bool:
    """Whether the builder takes a product of these shapes."""
    found: list[KernelPlan | None] = []

    def watch(request: Request) -> KernelPlan | None:
        found.append(build_strassen(request))
        return None

    make = lambda builder, x, w: builder(tensor.Contract, x, w, spec=spec)
    types, constants = [TensorType(a, dtype)], [np.ones(b, dtype.np)]
    module = root_of(types, make, constants) if constant else root_of([*types, TensorType(b, dtype)], make)
    to_kernels(module, TARGETS[target], watch)
    return any(plan is not None for plan in found)


@pytest.mark.parametrize(("k", "n", "choice"), [(768, 768, "thirds"), (3072, 768, "thirds of rows")])
def test_rows_are_cut_into_thirds_where_combinations_of_a_by_thirds_of_the_lanes_would_not_stay_in_the_cache(
    k: int, n: int, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Cut] = []
    monkeypatch.setitem(TARGETS, "x86-64-avx512", replace(TARGETS["x86-64-avx512"], caches=(48 << 10, 1 << 20, 32 << 20)))

    def watched(cut: Cut) -> StrassenBuilder:
        used.append(cut)
        return StrassenBuilder(cut)

    monkeypatch.setattr(strassen, "StrassenBuilder", watched)
    assert chosen((384, k), (k, n))
    assert used[0].schemes == CUT_SCHEMES[choice]


@pytest.mark.parametrize(
    ("steps", "lanes", "residual", "by_pieces"),
    [(1024, 256, False, True), (1024, 256, True, False), (256, 256, False, False), (512, 128, False, False)],
)
def test_many_rows_go_by_quarters_piece_by_piece_where_that_hides_what_goes_through_memory(
    steps: int, lanes: int, residual: bool, by_pieces: bool
) -> None:
    case = Case(12544, steps, lanes, residual=residual)
    used: list[Cut | None] = []

    def build(request: Request) -> KernelPlan | None:
        used.append(choose_cut(request))
        return None

    target = replace(TARGETS["x86-64-avx512"], caches=(48 << 10, 1 << 20, 32 << 20))
    to_kernels(case.module(*case.arrays()), target, build)
    assert (used[0] is not None and used[0].is_pipelined and used[0].pieces > 1) == by_pieces


@pytest.mark.parametrize(("rows", "steps", "lanes"), [(128, 768, 768), (384, 768, 3072), (128, 512, 512), (196, 1024, 256)])
def test_products_that_do_not_pay_for_additions_are_made_directly_where_these_take_the_units_of_multiply_adds(
    rows: int, steps: int, lanes: int
) -> None:
    case = Case(rows, steps, lanes)
    used: list[bool] = []

    def build(request: Request) -> KernelPlan | None:
        used.append(choose_cut(request) is not None)
        return None

    spare = replace(TARGETS["x86-64-avx512"], caches=(48 << 10, 2 << 20, 16 << 20))
    for target in (spare, replace(spare, spare_adders=False, l3_bytes_per_cycle=9.5, memory_bytes_per_cycle=4.5)):
        to_kernels(case.module(*case.arrays()), target, build)
    assert used == [True, False]


@pytest.mark.parametrize(
    ("sizes", "before", "now"),
    [
        ((128, 768, 3072), "thirds", "half packed"),
        ((197, 768, 768), "thirds", "half packed"),
        ((384, 3072, 768), "thirds of rows", "half packed"),
        ((512, 512, 512), "quarters", "quarters"),
        ((49, 512, 2048), "direct", "direct"),
    ],
)
def test_large_products_go_by_two_levels_where_vectors_are_multiplied_at_half_the_pace(
    sizes: tuple[int, int, int], before: str, now: str
) -> None:
    """For panels can be made beside that, of weights that are hardly more than one level packs."""
    case = Case(*sizes)
    names = {schemes: name for name, schemes in CUT_SCHEMES.items()}
    used: list[str] = []

    def build(request: Request) -> KernelPlan | None:
        cut = choose_cut(request)
        used.append("direct" if cut is None else "half packed" if cut.half_packed else names[cut.schemes])
        return None

    target = replace(TARGETS["x86-64-avx512"], caches=(32 << 10, 1 << 20, 32 << 20))
    for pace in (2, 1):
        to_kernels(case.module(*case.arrays()), replace(target, multiply_adds=pace), build)
    assert used == [before, now]


@pytest.mark.parametrize(
    ("sizes", "levels"), [((128, 768, 3072), 1), ((384, 768, 768), 1), ((512, 512, 512), 0), ((784, 512, 128), 0), ((196, 1024, 256), 0)],
    ids=str
)
def test_products_go_by_one_level_at_most_where_sums_of_parts_take_registers_that_tiles_need(
    sizes: tuple[int, int, int], levels: int
) -> None:
    case, used = Case(*sizes), list[Cut | None]()
    target = replace(TARGETS["x86-64-avx2"], caches=(32 << 10, 512 << 10, 8 << 20), memory_bytes_per_cycle=4)
    to_kernels(case.module(*case.arrays()), target, lambda request: used.append(choose_cut(request)))
    assert (0 if used[0] is None else len(used[0].schemes)) == levels
    to_kernels(case.module(*case.arrays(), free=True), target, lambda request: used.append(choose_cut(request)))
    assert used[1] is None or (len(used[1].schemes) == 1 and used[1].chunk is None)


@pytest.mark.parametrize(("sizes", "in_chunks"), [((384, 3072, 768), True), ((1024, 1024, 1024), True), ((128, 768, 3072), False)], ids=str)
def test_many_rows_go_in_chunks_whose_combinations_stay_in_the_caches(sizes: tuple[int, int, int], in_chunks: bool) -> None:
    case, used = Case(*sizes), list[Cut | None]()
    target = replace(TARGETS["x86-64-avx2"], caches=(32 << 10, 512 << 10, 16 << 20), memory_bytes_per_cycle=4)
    to_kernels(case.module(*case.arrays()), target, lambda request: used.append(choose_cut(request)))
    (cut,) = used
    assert cut is not None and isinstance(cut.matrices.m, int) and isinstance(cut.combined, int)
    assert (cut.matrices.m < case.m) == in_chunks
    assert cut.combined * f32.bytes <= target.caches[2] // 3


@pytest.mark.parametrize("spare", [True, False])
def test_cuts_that_are_not_looked_at_closely_are_none_that_would_be_chosen(spare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[Matrices] = []
    target = replace(TARGETS["x86-64-avx512"], spare_adders=spare, memory_bytes_per_cycle=10 if spare else 4.5)
    case = Case(128, 64, 64)
    to_kernels(case.module(*case.arrays()), target, lambda request: products.append(found) if (found := find_matrices(request)) else None)
    shapes = [
        (128, 768, 768),
        (384, 768, 3072),
        (1, 2048, 1000),
        (49, 512, 2048),
        (196, 1024, 512),
        (784, 512, 256),
        (3136, 256, 128),
        (1000, 1000, 1000),
        (37, 90, 41),
        (12544, 1024, 256),
    ]
    sized = [replace(products[0], m=m, k=k, n=n) for m, k, n in shapes]
    for a in sized:
        assert all(cut.cycles >= a.least_cycles(cut.schemes, cut.rows, cut.vectors) for cut in cuts(a))
    closely = sum(len(list(cuts(a, enough=a.direct_cycles))) for a in sized)
    chosen = list(map(best_cut, sized))
    monkeypatch.setattr(Matrices, "least_cycles", lambda *_: 0)
    assert chosen == list(map(best_cut, sized))
    # Where additions take the units of multiply-adds, none of these pays.
    assert any(chosen) == spare
    assert closely < sum(len(list(cuts(a))) for a in sized) / 2


def test_large_products_with_known_weights_are_taken() -> None:
    assert chosen((128, 768), (768, 768))
    assert chosen((1, 128, 768), (768, 768), "bmk,kn->bmn")
    assert chosen((128, 512), (512, 512), "mk,nk->mn")


@pytest.mark.parametrize(
    ("steps", "lanes", "fits_in_l3", "pace"), [(784, 512, True, 2), (768, 3072, False, 2), (512, 512, True, 1), (1024, 256, True, 1)]
)
def test_unknown_rows_go_in_chunks_by_two_levels_where_weights_for_both_stay_in_l3(
    steps: int, lanes: int, fits_in_l3: bool, pace: float
) -> None:
    case = Case(128, steps, lanes)
    chunks: list[Cut | None] = []

    def build(request: Request) -> KernelPlan | None:
        cut = choose_cut(request)
        assert cut is not None
        chunks.append(cut.chunk)
        return StrassenBuilder(cut).build()

    target = replace(TARGETS["x86-64-avx512"], caches=(48 << 10, 1 << 20, 32 << 20), multiply_adds=pace)
    to_kernels(case.module(*case.arrays(), free=True), target, build)
    assert (chunks[0] is not None) == fits_in_l3


def test_large_products_of_an_unknown_number_of_rows_are_taken() -> None:
    assert chosen((symbol("N"), 768), (768, 768))
    assert chosen((symbol("N"), symbol("T"), 768), (768, 768), "bmk,kn->bmn")
    assert not chosen((symbol("N"), 512), (512, 10))


def test_small_ones_are_left_to_others() -> None:
    assert not chosen((1, 768), (768, 768))
    assert not chosen((3136, 64), (64, 256))
    assert not chosen((128, 512), (512, 10))


def test_weights_that_are_not_known_at_compile_time_are_left_to_others() -> None:
    assert not chosen((128, 768), (768, 768), constant=False)


def test_other_layouts_and_types_are_left_to_others() -> None:
    assert not chosen((768, 128), (768, 768), "km,kn->mn")
    assert not chosen((2, 128, 768), (2, 768, 768), "bmk,bkn->bmn")
    assert not chosen((128, 768), (768, 768), dtype=f64)


def test_the_target_or_the_environment_may_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = (128, 768), (768, 768)
    monkeypatch.setitem(TARGETS, "without", replace(TARGETS["x86-64-avx512"], strassen=False))
    assert chosen(*shapes) and not chosen(*shapes, target="without")
    monkeypatch.setenv("POLYREME_STRASSEN", "0")
    assert not chosen(*shapes)


def test_code_compiled_without_it_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = compiler_version()
    monkeypatch.setenv("POLYREME_STRASSEN", "0")
    assert compiler_version() != with_it
