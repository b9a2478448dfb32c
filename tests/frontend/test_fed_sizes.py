"""Saved models whose results have sizes that their inputs' elements tell, against what Paddle gives: in this process, and as libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.operators.slicing import strided_slice
from polyreme.runtime.errors import CallError

MODELS = Path(__file__).parent.parent / "fixtures" / "models" / "sizes"
FILES = ("fed.json", "fed.pdmodel")


def cases() -> list[tuple[list[Any], list[Any]]]:
    kept = np.load(MODELS / "fed.npz")
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for key in sorted(kept.files):
        number, side, _ = key.split("/")
        found.setdefault(number, ([], []))[side == "out"].append(kept[key])
    return list(found.values())


def assert_equal(given: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(given) == len(expected) == 14
    for one, other in zip(given, expected, strict=True):
        array = np.asarray(one.numpy() if isinstance(one, paddle.Tensor) else one)
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(array, other, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module", params=FILES)
def loaded(request: pytest.FixtureRequest) -> Any:
    return paddle.jit.load(str(MODELS / request.param))


def test_a_loaded_model_gives_what_paddle_gives(loaded: Any) -> None:
    for inputs, expected in cases():
        assert_equal(loaded(*map(paddle.to_tensor, inputs)), expected)


def test_a_library_gives_what_paddle_gives(tmp_path: Path) -> None:
    library = paddle.compile(paddle.jit.load(str(MODELS / FILES[0])), tmp_path / "fed.so")
    for inputs, expected in cases():
        assert_equal(library(*inputs), expected)
    for wrong, message in WRONG:
        with pytest.raises(CallError, match=message):
            library(*with_wrong(wrong))


# Numbers that do not fit the first case, by input.
WRONG: list[tuple[dict[int, list[int]], str]] = [
    ({1: [2, 3, 5]}, "size 0 of a shape that the tensor's elements fill but got 2"),
    ({1: [-2, -3, 4]}, "a shape that the tensor's elements fill"),
    ({1: [65536, 65536, 2**31 - 1]}, "a shape that the tensor's elements fill"),
    ({2: [0]}, "'k' to be from 1 to the size of the axis"),
    ({2: [7]}, "'k' to be from 1 to the size of the axis but got 7"),
]


def with_wrong(wrong: dict[int, list[int]]) -> list[Any]:
    return [np.array(wrong[at], "int32") if at in wrong else array for at, array in enumerate(cases()[0][0])]


@pytest.mark.parametrize("wrong, message", WRONG)
def test_numbers_that_do_not_fit_are_refused(loaded: Any, wrong: dict[int, list[int]], message: str) -> None:
    inputs = with_wrong(wrong)
    with pytest.raises(PolyremeError, match=message):
        loaded(*map(paddle.to_tensor, inputs))


def test_bounds_of_a_slice_backwards_are_not_fed() -> None:
    with pytest.raises(PolyremeError, match="expected the bounds of a slice that goes backwards to follow from shapes and constants"):
        strided_slice(paddle.ones([6, 3]), [paddle.to_tensor([5])], [0], [-1], axes=[0])
