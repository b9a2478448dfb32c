"""Functions, gradients, draws and first values against Paddle's own."""

from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from tests.fixtures.make_functions import CASES, INITIAL, initial, run

EXPECTED = np.load(Path(__file__).parents[1] / "fixtures" / "functions.npz")


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_what_paddle_gives(name):
    result, gradients = run(paddle, name)
    expected = EXPECTED[name]
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)
    for n, gradient in gradients.items():
        if f"{name}@{n}" in EXPECTED:
            assert gradient is not None, n
            np.testing.assert_allclose(gradient, EXPECTED[f"{name}@{n}"], rtol=5e-5, atol=5e-6, err_msg=n)


@pytest.mark.parametrize("name", INITIAL)
def test_parameters_start_with_paddles_values(name):
    for i, value in enumerate(initial(paddle, name)):
        np.testing.assert_allclose(value, EXPECTED[f"initial/{name}/{i}"], rtol=1e-6, atol=1e-7)


DRAWN = ["rand", "uniform64", "randn", "randn64", "normal", "randint", "randint_wide", "randperm", "randperm_even", "bernoulli"]


@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_paddles_bit_for_bit(name):
    np.testing.assert_array_equal(run(paddle, name)[0], EXPECTED[name])


def test_positions_of_maxima_are_inside_of_the_image_where_padding_is_as_large_as_what_is_there():
    image = np.full((1, 1, 4, 4), -np.inf, np.float32)
    image[0, 0, 3, 3] = 1
    _, positions = paddle.nn.functional.max_pool2d(paddle.to_tensor(image), 3, 2, 1, return_mask=True)
    assert positions.numpy().tolist() == [[[[0, 1], [4, 15]]]]
