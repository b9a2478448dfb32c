"""The rule by which cases are derived from others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme
from tests.api.derived import CHOSEN, DERIVED, derive
from tests.api.table import Call, Case, Inputs, Recipe, apart, array, ints, load, normal


def case(name: str, *args: Any, **traits: Any) -> dict[str, Case]:
    recipes = [a for a in args if isinstance(a, Recipe)]
    found = frozenset().union(*(r.traits() for r in recipes))
    return {"a case": Case("a case", (name,), "none", Call(name, args, {}).run, 1, found, **traits)}


def shapes(made: Case) -> list[tuple[int, ...]]:
    return [r.shape for r in made.body.__self__.args if isinstance(r, Recipe)]  # type: ignore[attr-defined]


def test_every_kind_that_no_case_has_is_derived() -> None:
    made = {c.id.rpartition(" ")[2]: c for c in derive(case("paddle.add", normal(2, 4), normal(2, 1)))}
    assert {kind: shapes(c) for kind, c in made.items()} == {
        "empty": [(0, 4), (0, 1)],
        "odd": [(3, 5), (3, 1)],
        "strided": [(2, 4), (2, 1)],
    }
    assert all(kind in c.traits and c.names == ("paddle.add",) for kind, c in made.items()), "and of one there is one already"


def test_only_axes_as_long_as_the_first_ones_change() -> None:
    made = {c.id.rpartition(" ")[2]: shapes(c) for c in derive(case("paddle.matmul", normal(3, 4), normal(4, 3)))}
    assert made["empty"] == [(0, 4), (4, 3)] and made["one"] == [(1, 4), (4, 3)]


def test_nothing_is_derived_from_what_raises_or_for_names_that_take_no_float() -> None:
    assert not list(derive(case("paddle.add", normal(2, 4), raises=True)))
    assert not list(derive(case("paddle.add", ints(2, 4))))


def test_what_is_chosen_is_known_and_needed() -> None:
    derived = {
        (kind, name.removeprefix("paddle."))
        for c in load(["derived"]).values()
        for name in c.names
        for kind in DERIVED
        if c.id.endswith(f" {kind}")
    }
    assert CHOSEN.keys() <= derived


@pytest.mark.parametrize("recipe", [normal(4, 3), normal(5), normal(1, 6, 1), apart(2, 1, 3)])
def test_a_strided_tensor_has_the_same_numbers_elsewhere(recipe: Recipe) -> None:
    plain, strided = (Inputs(polyreme, np.random.default_rng(3), with_grad=True)(r) for r in (recipe, recipe.strided()))
    np.testing.assert_array_equal(plain.numpy(), strided.numpy())
    assert "strided" in recipe.strided().traits() and "strided" not in normal(1, 1).strided().traits()


def test_exact_numbers_in_another_shape_are_the_first_ones_again() -> None:
    assert array([[1.0, 2.0], [3.0, 4.0]]).resized((3, 1)).make(np.random.default_rng()).tolist() == [[1.0], [3.0], [1.0]]
    assert array([[1.0, 2.0]]).resized((0, 2)).text == "float32 none of [0, 2]"
