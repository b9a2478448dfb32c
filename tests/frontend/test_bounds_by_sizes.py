"""Bounds of slices, places and shifts that are sizes of other tensors, negative ones among them."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.runtime.errors import CallError
from polyreme.static import InputSpec

SIZES = (3, 0, 5, 7, 12, 1)


def _last(x, y):
    return y[-x.shape[0] :]


def _without_last(x, y):
    return y[: -paddle.shape(x)[0] : 2]


def _behind(x, y):
    return y[x.shape[0] - 5 :]


def _at_end(x, y):
    return y[-x.shape[0]]


def _backwards(x, y):
    return y[-x.shape[0] :: -1]


def _backwards_to(x, y):
    return y[: x.shape[0] - 5 : -1]


def _by_operator(x, y):
    return paddle.slice(y, [0], [-x.shape[0]], [10000])


def _at_most(x, y):
    return paddle.concat([y[:40], y[-40:]])


def _assigned(x, y):
    y = y * 1
    y[-x.shape[0] :] = 5.0
    return y


def _rolled(x, y):
    return paddle.concat([paddle.roll(y, x.shape[0]), paddle.roll(y, -x.shape[0])])


def _limits(x, y):
    y = paddle.concat([y, y + 20, y + 40, y + 60])[: x.shape[0] * 8]
    return paddle.concat([y[31:33], y[33:32], y[33:], y[3:40], y[40:3], y[-40:-35], y[-35:-40], y[4:-40], y[-35:33], y[33:-33], y[36:-1]])


FUNCTIONS = (
    _last, _without_last, _behind, _at_end, _backwards, _backwards_to, _by_operator, _at_most, _limits, _assigned, _rolled,
)  # fmt: skip


@pytest.mark.parametrize("length", [None, 10], ids=["free", "known"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__.strip("_"))
def test_a_compiled_function_takes_what_eager_mode_does(function, length):
    fast = paddle.jit.to_static(function, input_spec=[InputSpec([None], "float32", "x"), InputSpec([length], "float32", "y")])
    y = paddle.arange(10, dtype="float32")
    for size in SIZES:
        x = paddle.zeros([size])
        try:
            wanted = function(x, y).tolist()
        except IndexError:
            with pytest.raises(ValueError):
                fast(x, y)
        else:
            assert fast(x, y).tolist() == wanted, size


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__.strip("_"))
def test_a_library_takes_the_same_or_says_what_it_expects(function, tmp_path):
    library = paddle.compile(
        function, tmp_path / "net.so", input_spec=[InputSpec([None], "float32", "x"), InputSpec([None], "float32", "y")]
    )
    right = 0
    for size in SIZES:
        x, y = np.zeros(size, np.float32), np.arange(10, dtype=np.float32)
        try:
            found = library(x, y)
        except CallError as error:
            assert "expected" in str(error)
        else:
            right += 1
            assert found.tolist() == function(paddle.to_tensor(x), paddle.to_tensor(y)).tolist(), size
    assert right >= 3


def test_limits_beyond_an_axis_take_what_is_there(tmp_path):
    def part(y):
        return paddle.concat([y[31:33], y[33:32], y[3:40], y[-40:-35], y[4:-40], y[-35:33], y[36:-1]])

    library = paddle.compile(part, tmp_path / "net.so", input_spec=[InputSpec([None], "float32", "y")])
    for size in (0, 1, 2, 5, 31, 32, 36, 39, 41, 80):
        y = np.arange(size, dtype=np.float32)
        assert library(y).tolist() == part(paddle.to_tensor(y)).tolist(), size


def test_a_limit_that_has_to_be_reached_is_checked(tmp_path):
    layer = paddle.nn.Linear(64, 3)

    def first(x):
        return layer(x[:, :64])

    library = paddle.compile(first, tmp_path / "net.so", input_spec=[InputSpec([None, None], "float32", "x")])
    for columns in (64, 70):
        x = np.random.default_rng(0).standard_normal((2, columns)).astype("float32")
        np.testing.assert_allclose(library(x), first(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(CallError, match="64"):
        library(np.zeros((2, 63), np.float32))


def test_a_size_that_counts_from_the_end_is_checked_by_the_library(tmp_path):
    library = paddle.compile(_last, tmp_path / "net.so", input_spec=[InputSpec([None], "float32"), InputSpec([None], "float32")])
    with pytest.raises(CallError, match="N to be at least 1"):
        library(np.zeros(0, np.float32), np.zeros(3, np.float32))


def test_topk_of_a_free_axis_has_as_many_elements_as_asked(tmp_path):
    def nearest(x):
        index = paddle.topk(x, 4)[1]
        return paddle.stack([paddle.arange(x.shape[0]).unsqueeze(1).expand([x.shape[0], 4]), index], -1)

    library = paddle.compile(nearest, tmp_path / "net.so", input_spec=[InputSpec([None, None], "float32", "x")])
    for shape in ((3, 9), (1, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        np.testing.assert_array_equal(library(x), nearest(paddle.to_tensor(x)).numpy())
    with pytest.raises(CallError, match="at least 4"):
        library(np.zeros((3, 3), np.float32))
