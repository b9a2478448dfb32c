"""Saved models whose results have sizes that their inputs' elements tell, against what Paddle gives: in this process, and as libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.errors import CallError

MODELS = Path(__file__).parent.parent / "fixtures" / "models" / "sizes"
FILES = ("fed.json", "fed.pdmodel")
PLACES = ("places.json", "places.pdmodel")  # of Paddle 3.3.1 and 2.6.2


def cases(model: str = "fed") -> list[tuple[list[Any], list[Any]]]:
    kept = np.load(MODELS / f"{model}.npz")
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for key in sorted(kept.files):
        number, side, _ = key.split("/")
        found.setdefault(number, ([], []))[side == "out"].append(kept[key])
    return list(found.values())


def assert_equal(given: Sequence[Any], expected: Sequence[Any], count: int = 14) -> None:
    assert len(given) == len(expected) == count
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


@pytest.fixture(scope="module", params=[PLACES[0], pytest.param(PLACES[1], marks=pytest.mark.slow)])
def places(request: pytest.FixtureRequest) -> Any:
    return paddle.jit.load(str(MODELS / request.param))


def test_widths_sections_shifts_steps_and_scales_are_fed(places: Any) -> None:
    for inputs, expected in cases("places"):
        assert_equal(places(*map(paddle.to_tensor, inputs)), expected, 32)


@pytest.mark.slow
def test_a_library_is_fed_widths_sections_shifts_steps_and_scales(tmp_path: Path) -> None:
    library = paddle.compile(paddle.jit.load(str(MODELS / PLACES[0])), tmp_path / "places.so")
    for inputs, expected in cases("places"):
        assert_equal(library(*inputs), expected, 32)


@pytest.mark.parametrize(
    "numbers, message",
    [
        ([1, 2, 3, 6, 0, 7], "widths below the size of axis 3 to pad by reflection"),
        ([5, 2, 3, 2, 0, 7], "section 0 of sections that add up to the size of the axis but got 5"),
        ([1, 0, 3, 2, 0, 7], "a slice by a step other than 0"),
        ([1, 4, 3, 2, 0, 7], "'axis' to be one of 2 axes but got 3"),
        ([1, 2, 3, 2, -1, 7], "numbers of 0 or more to count"),
    ],
)
def test_numbers_that_tell_no_places_are_refused(places: Any, numbers: list[int], message: str) -> None:
    inputs = cases("places")[0][0]
    inputs[2] = np.array(numbers, "int32")
    with pytest.raises(PolyremeError, match=message):
        places(*map(paddle.to_tensor, inputs))


AXES = ("axes.json", "axes.pdmodel")  # of Paddle 3.3.1 and 2.6.2, whose older gather takes the first axis where one is fed


@pytest.mark.parametrize("file", [AXES[0], pytest.param(AXES[1], marks=pytest.mark.slow)])
def test_axes_are_fed_and_found_in_buffers(file: str) -> None:
    loaded = paddle.jit.load(str(MODELS / file))
    for inputs, expected in cases("axes"):
        count = 18 if file == AXES[0] else 16
        assert_equal(loaded(*map(paddle.to_tensor, inputs)), expected[:count], count)
    x = cases("axes")[0][0][0]
    assert np.array_equal(loaded(x, np.array([-3]))[8].numpy(), x[:, None])
    for axis in (3, -4):
        with pytest.raises(PolyremeError, match=f"'axis' to be one of 3 axes but got {axis if axis > 0 else -1}"):
            loaded(x, np.array([axis]))


@pytest.mark.slow
def test_a_library_is_fed_axes(tmp_path: Path) -> None:
    library = paddle.compile(paddle.jit.load(str(MODELS / AXES[0])), tmp_path / "axes.so")
    for inputs, expected in cases("axes"):
        assert_equal(library(*inputs), expected, 18)


def test_a_loop_of_an_older_file_grows_what_it_carries() -> None:
    loaded = paddle.jit.load(str(MODELS / "grown.pdmodel"))
    for inputs, expected in cases("grown"):
        made = loaded(*map(paddle.to_tensor, inputs))
        assert_equal([made] if isinstance(made, paddle.Tensor) else made, expected, 1)


def test_axes_of_buffers_are_known_when_a_model_is_read() -> None:
    loaded = paddle.jit.load(str(MODELS / AXES[0]))
    concat, unsqueezed, gathered = loaded.traced.func.block.ops[-1].operands[13:16]
    assert gathered.type.shape[1:] == (3, 6)
    assert concat.type.shape[1:] == (8, 6)
    assert unsqueezed.type.shape[1:] == (1, 4, 6)


@paddle.jit.to_static
def between(x: paddle.Tensor, bounds: paddle.Tensor, step: int) -> paddle.Tensor:
    return x[bounds[0] : bounds[1] : step]


def test_fed_bounds_of_slices_count_as_python_does() -> None:
    x = np.arange(12, dtype="float32").reshape(6, 2)
    for step in (2, -1, -2):
        for start in (-8, -3, 0, 4, 9):
            for stop in (-9, -2, 1, 5, 8):
                made = between(paddle.to_tensor(x), paddle.to_tensor([start, stop]), step)
                assert np.array_equal(made.numpy(), x[start:stop:step]), (start, stop, step)


def test_slices_go_backwards_along_axes_of_free_sizes() -> None:
    slices = (slice(None, None, -1), slice(2, None, -1), slice(None, 3, -2), slice(-2, -5, -1), slice(1, 3, -1), slice(None, None, -3))

    def parts(x: paddle.Tensor) -> list[paddle.Tensor]:
        return [x[part] for part in slices]

    traced = paddle.jit.to_static(parts, input_spec=[paddle.static.InputSpec([None, 2], "float32")])
    for rows in (6, 4, 2, 1):
        x = np.arange(2 * rows, dtype="float32").reshape(rows, 2)
        for made, part in zip(traced(paddle.to_tensor(x)), slices, strict=True):
            assert np.array_equal(made.numpy(), x[part]), (rows, part)
    assert len(traced.concrete_programs()) == 1


def test_a_model_that_draws_draws_when_it_runs() -> None:
    state = np.array(paddle.get_rng_state()[0])
    loaded = paddle.jit.load(str(MODELS / "drawn.json"))
    assert np.array_equal(paddle.get_rng_state()[0], state)
    assert not np.array_equal(loaded(paddle.ones([1])).numpy(), loaded(paddle.ones([1])).numpy())
