"""The comparison sees what it is for: planted differences are found, and what is stored comes back as it was."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme
from tests.api.compare import differences
from tests.api.outcome import Failure, Leaf, Nothing, read, run_case, save
from tests.api.peer import run_forked
from tests.api.table import Call, Case, Recipe, apart, array, bools, ints, normal, uniform


def case(**options: Any) -> Case:
    return Case("a case", ("paddle.add",), "none", lambda paddle, rng: None, 1, **options)


def leaf(values: Any, dtype: str = "float32", stop_gradient: bool | None = True) -> Leaf:
    return Leaf(dtype, np.asarray(values, dtype), stop_gradient)


@pytest.mark.parametrize(
    ("got", "expected", "told"),
    [
        (leaf([1.0, 2.0]), leaf([1.0, 2.001]), "1 of 2 numbers differ"),
        (leaf([1.0, np.nan]), leaf([1.0, 2.0]), "1 of 2 numbers differ"),
        (leaf([1], "int64"), leaf([2], "int64"), "1 of 1 numbers differ"),
        (leaf([1.0], "float64"), leaf([1.0]), "expected float32 but got float64"),
        (leaf([1.0]), leaf([[1.0]]), "expected shape"),
        (leaf([1.0], stop_gradient=False), leaf([1.0]), "expected stop_gradient True"),
        ([leaf([1.0])], (leaf([1.0]),), "expected"),
        ([1, 2], [1], "expected 1 elements"),
        ({"a": 1}, {"b": 1}, "expected keys"),
        (1, True, "expected True but got 1"),
        ("a", "b", "expected b but got a"),
        (None, leaf([1.0]), "but got None"),
        (Failure(("ValueError",), "no"), leaf([1.0]), "raised ValueError: no"),
        (Nothing(), leaf([1.0]), "no such form"),
    ],
)
def test_a_planted_difference_is_found(got: Any, expected: Any, told: str) -> None:
    (complaint,) = differences(case(), {"result": got}, {"result": expected})
    assert complaint.startswith("result") and told in complaint


def test_what_is_equal_within_the_tolerance_of_its_dtype_is_equal() -> None:
    assert not differences(case(), leaf([1.0, np.nan, np.inf]), leaf([1.000001, np.nan, np.inf]))
    assert differences(case(), leaf([1.0], "float64"), leaf([1.000001], "float64"))
    assert differences(case(exact=True), leaf([1.0]), leaf([np.nextafter(np.float32(1), 2)]))
    assert not differences(case(rtol=1e-2), leaf([1.0]), leaf([1.005]))
    assert not differences(case(), {"grad": leaf([1.0])}, {"grad": leaf([1.00005])}), "gradients have ten times as much"
    assert differences(case(), {"value": leaf([1.0])}, {"value": leaf([1.00005])})


def test_errors_are_compared_by_kind() -> None:
    raises, wrong = case(raises=True), Failure(("ValueError", "Exception"), "x")
    assert not differences(raises, Failure(("InferError", "ValueError"), "y"), wrong)
    assert "but got TypeError" in differences(raises, Failure(("TypeError",), "y"), wrong)[0]
    assert "nothing was raised" in differences(raises, leaf([1.0]), wrong)[0]
    assert "the case itself is wrong" in differences(raises, leaf([1.0]), leaf([1.0]))[0]
    assert "the case itself is wrong" in differences(case(), leaf([1.0]), wrong)[0]
    assert not differences(case(), leaf([1.0]), Failure(("RuntimeError",), "kernel `add` is not registered")), (
        "Paddle has no kernel to compare with"
    )
    assert differences(case(single=False), leaf([1.0]), Failure(("RuntimeError",), "kernel `add` is not registered")), (
        "such a case compares nothing"
    )


def test_outcomes_are_stored_as_they_are(tmp_path: Path) -> None:
    tree = {
        "leaf": leaf([[1.0, np.nan]], stop_gradient=False), "half": Leaf("bfloat16", np.ones((2, 0), np.float32), True),
        "scalar": leaf(2.5, "float64", None),
        "tuple": (1, [2.5, None, "x"], {}), "failed": Failure(("ValueError",), "no"), "nothing": Nothing(),
    }  # fmt: skip
    save(tmp_path / "kept.npz", {"a": (7, tree), "b": (8, True)})
    kept = read(tmp_path / "kept.npz")
    assert list(kept) == ["a", "b"] and kept["b"] == (8, True) and kept["a"][0] == 7
    assert not differences(case(), kept["a"][1], tree) and isinstance(kept["a"][1]["tuple"], tuple)
    assert kept["a"][1]["half"].values.shape == (2, 0)


@pytest.mark.parametrize(
    "recipe",
    [normal(3, 2), uniform(2, low=1, high=3), apart(2, 3), ints(4), bools(3), array([1.5, 2.0]), normal(2, dtype="bfloat16"), normal(0, 2)],
)
def test_a_recipe_draws_the_same_for_the_same_case(recipe: Recipe) -> None:
    call = Call("paddle.assign", (recipe,), {})
    one = replace(case(), body=call.run)
    assert not differences(replace(one, exact=True), run_case(one, polyreme), run_case(one, polyreme))
    other = run_case(replace(one, id="another case"), polyreme)
    assert bool(differences(one, other, run_case(one, polyreme))) is not (0 in recipe.shape), (
        "another case draws other numbers, or another cotangent"
    )


def test_a_wrong_gradient_is_found() -> None:
    def body(paddle: Any, rng: np.random.Generator) -> Any:
        return Call("paddle.square", (normal(3),), {}).run(paddle, rng)

    expected = run_case(replace(case(), body=body), polyreme)
    wrong = {**expected, "grad": {"first": [replace(expected["grad"]["first"][0], values=expected["grad"]["first"][0].values * 1.01)]}}
    assert not differences(case(), expected, expected)
    assert "grad.first[0]: 3 of 3 numbers differ" in differences(case(), wrong, expected)[0]


def test_a_case_that_ends_its_process_costs_the_others_nothing(tmp_path: Path) -> None:
    def named(name: str, body: Any) -> Case:
        return replace(case(), id=name, body=body)

    cases = [
        named("first", lambda paddle, rng: 1),
        named("crash", lambda paddle, rng: os._exit(3)),
        named("last", lambda paddle, rng: paddle.ones([2])),
    ]
    found = run_forked(cases, polyreme, tmp_path / "out.npz")
    assert found["first"] == (1, 1) and found["crash"] == (1, Failure(("crash",), "the process ended with 3"))
    assert not differences(case(), found["last"][1], leaf([1.0, 1.0]))
    assert not differences(case(), leaf([1.0]), found["crash"][1]), "Paddle cannot say"
