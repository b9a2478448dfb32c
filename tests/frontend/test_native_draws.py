"""Draws by compiled code are those of numpy, bit for bit, wherever batches begin and end."""

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled import native_draws
from polyreme.dialects import mt19937


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("draw", [mt19937.uniform, mt19937.normal])
@pytest.mark.parametrize("count", [0, 1, 7, mt19937.BATCH, 3 * mt19937.BATCH + 11])
def test_compiled_draws_and_the_state_after_them_are_those_of_numpy(draw, count, dtype):
    # A state in the middle of its words, so that batches begin anywhere.
    _, state = mt19937.draw(mt19937.seed_state(5), 100)
    expected, after = draw(state, (count,), -1.5, 2.5, dtype)
    found, same = draw(state, (count,), -1.5, 2.5, dtype, native_draws.native_units)
    assert found.tobytes() == expected.tobytes() and found.dtype == expected.dtype
    np.testing.assert_array_equal(same, after)


@pytest.mark.parametrize("draw", [mt19937.uniform, mt19937.normal])
def test_batches_do_not_show(draw, monkeypatch):
    state = mt19937.seed_state(9)
    expected, after = draw(state, (1001,))
    monkeypatch.setattr(mt19937, "BATCH", 64)
    found, same = draw(state, (1001,))
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(same, after)


def test_programs_that_draw_many_numbers_compile_and_see_the_same(monkeypatch):
    def drawn():
        paddle.seed(3)
        return [paddle.normal(shape=[300, 301]).numpy(), paddle.uniform([70_001]).numpy(), paddle.rand([5]).numpy()]

    monkeypatch.setattr(native_draws, "_drawn", 0)
    assert native_draws.units_for(10) is mt19937.units
    plain = drawn()
    monkeypatch.setattr(native_draws, "_drawn", native_draws.WORTH_COMPILING)
    assert native_draws.units_for(10) is native_draws.native_units
    for a, b in zip(plain, drawn(), strict=True):
        assert a.tobytes() == b.tobytes()
