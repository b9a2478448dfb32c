"""Random functions of two inputs whose sizes are all free: at every size they give what eager mode gives, or both refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit import program
from polyreme.static import InputSpec
from tests.frontend.test_sized_programs import Interpreted

F = paddle.nn.functional
REFUSALS = (PolyremeError, ValueError, TypeError, IndexError, AssertionError, RuntimeError)

# Each makes of the two tensors other two.
STEPS = {
    "halved": lambda a, b: (F.max_pool1d(a, 2, 2), b),
    "halved upwards": lambda a, b: (F.max_pool1d(a, 2, 2, ceil_mode=True), b),
    "doubled": lambda a, b: (F.interpolate(a.unsqueeze(2), scale_factor=[1, 2]).squeeze(2), b),
    "half as long again": lambda a, b: (F.interpolate(a.unsqueeze(2), scale_factor=[1, 1.5]).squeeze(2), b),
    "as long as the other": lambda a, b: (F.interpolate(a.unsqueeze(2), size=[1, b.shape[2]]).squeeze(2), b),
    "exchanged": lambda a, b: (b, a),
    "added": lambda a, b: (a + b, b),
    "beside": lambda a, b: (paddle.concat([a, b], 2), b),
    "below": lambda a, b: (paddle.concat([a, b], 1), b),
    "without ends": lambda a, b: (a[:, :, 1:-1], b),
    "every second": lambda a, b: (a[:, :, ::2], b),
    "cut to the other": lambda a, b: (a[:, :, : b.shape[2]], b),
    "columns of three": lambda a, b: (a.reshape([a.shape[0], -1, 3]).transpose([0, 2, 1]), b),
    "by two and two": lambda a, b: (a.reshape([-1, 2, 2]), b),
    "longer": lambda a, b: (F.pad(a, [0, 1], data_format="NCL"), b),
    "counted": lambda a, b: (a + paddle.arange(a.shape[2], dtype="float32"), b),
    "if long": lambda a, b: (a * 2 if a.shape[2] > 4 else a - 1, b),
    "if four": lambda a, b: (a * 2 if a.shape[2] == 4 else a - 1, b),
    "if even": lambda a, b: (a * 3 if a.shape[2] % 2 == 0 else a - 2, b),
    "if alike": lambda a, b: (a + b if a.shape == b.shape else a, b),
    "the only one": lambda a, b: (a.squeeze(0).unsqueeze(0) if a.shape[0] == 1 else a, b),
    "centred": lambda a, b: (a - a.sum() / a.shape[2], b),
}


@pytest.fixture(scope="module", autouse=True)
def interpreted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "compile_function", Interpreted)
        yield


sizes = st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 4, 5, 6, 7, 8]), st.booleans(), st.booleans())


def outcome(function, *arrays):
    try:
        return function(*map(paddle.to_tensor, arrays)).numpy()
    except REFUSALS:
        return None


@settings(max_examples=40, deadline=None)
# the second call takes a branch in which nothing fits
@example(["if alike", "below"], [(1, 6, False, True), (1, 4, False, False), (1, 6, False, True)])
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.lists(sizes, min_size=2, max_size=4))
def test_random_functions_of_free_sizes_are_as_in_eager_mode(names, calls):
    def function(a, b):
        for name in names:
            a, b = STEPS[name](a, b)
        return a

    compiled = paddle.jit.to_static(function, input_spec=[InputSpec([None, None, None], name=name) for name in "ab"])
    rng = np.random.default_rng(0)
    for batch, length, one, alike in calls:
        a = rng.standard_normal((batch, 2, 6)).astype("float32")
        b = rng.standard_normal((1 if one else batch, 2, 6 if alike else length)).astype("float32")
        wanted, got = outcome(function, a, b), outcome(compiled, a, b)
        assert (got is None) == (wanted is None)
        if wanted is not None:
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
