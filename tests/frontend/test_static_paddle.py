"""Static programs give what Paddle 3.3.1 gives: the cases of `fixtures/make_static.py`, run here."""

import numpy as np
import pytest

import polyreme as paddle
from polyreme.utils import unique_name
from tests.fixtures.make_static import CASES, FILE

EXPECTED = np.load(FILE)


@pytest.fixture(autouse=True)
def _static_mode():
    paddle.enable_static()
    try:
        with unique_name.guard(), paddle.static.scope_guard(paddle.static.Scope()):
            yield
    finally:
        paddle.disable_static()


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_paddle_gives(name):
    found = CASES[name](paddle)
    assert len(found) == sum(key.startswith(f"{name}/") for key in EXPECTED)
    for i, array in enumerate(found):
        expected = EXPECTED[f"{name}/{i}"]
        assert array.shape == expected.shape and array.dtype == expected.dtype
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6, err_msg=f"result {i}")
