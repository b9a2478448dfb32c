"""Copies of views in traces of free sizes: where an axis has one element, eager mode sees the same contents, so that writes reach them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.dispatch import active_trace
from polyreme.runtime.errors import CallError
from polyreme.static import InputSpec
from polyreme.views import copied_from

Function = Callable[[Any], Any]


def written_copy(x: Any) -> Any:
    y = x * 1
    flat = y.transpose([1, 0]).flatten()
    flat[0] = 100.0
    return paddle.concat([y.flatten(), flat])


def written_origin(x: Any) -> Any:
    y = x * 1
    flat = y.transpose([1, 0]).reshape([-1])
    y[0] = 100.0
    return paddle.concat([y.flatten(), flat])


def written_view_of_copy(x: Any) -> Any:
    y = x * 1
    part = y.transpose([1, 0]).reshape([-1])[1:2]
    part.scale_(10.0)
    return y + 1


def written_argument(x: Any) -> Any:
    x.transpose([1, 0]).flatten()[0:1] = 100.0
    return x * 2


def written_contiguous(x: Any) -> Any:
    y = x * 1
    turned = y.T.contiguous()
    turned[0] = 100.0
    return paddle.concat([y.flatten(), turned.flatten()])


def written_in_two_steps(x: Any) -> Any:
    y = x * 1
    flat = y.transpose([1, 0]).flatten()
    again = flat.reshape([3, -1]).transpose([1, 0]).flatten()
    again[0] = 100.0
    return paddle.concat([y.flatten(), flat, again])


WRITERS = [written_copy, written_origin, written_view_of_copy, written_argument, written_contiguous, written_in_two_steps]


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)


@pytest.mark.parametrize("function", WRITERS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_write_reaches_what_shares_the_contents_for_every_size(function: Function, whole: bool) -> None:
    traced = paddle.jit.to_static(function, input_spec=[InputSpec([None, 3], "float32", "x")], full_graph=whole)
    for count in (2, 1, 3, 1):
        x, y = paddle.to_tensor(rows(count)), paddle.to_tensor(rows(count))
        np.testing.assert_array_equal(traced(x).numpy(), function(y).numpy())
        np.testing.assert_array_equal(x.numpy(), y.numpy())


@pytest.mark.parametrize("function", [f for f in WRITERS if f is not written_argument])
def test_a_library_says_which_sizes_it_is_for(function: Function, tmp_path: Any) -> None:
    library = paddle.compile(function, str(tmp_path / "net.so"), input_spec=[InputSpec([None, 3], "float32", "x")])
    np.testing.assert_array_equal(library(rows(2)), function(paddle.to_tensor(rows(2))).numpy())
    with pytest.raises(CallError, match="to be at least 2"):
        library(rows(1))


def unread(x: Any) -> Any:
    y = x * 1
    flat = y.transpose([1, 0]).flatten()
    flat[0] = 100.0
    return flat


def unwritten(x: Any) -> Any:
    y = x * 1
    return paddle.concat([y.flatten(), y.transpose([1, 0]).flatten()])


def written_before(x: Any) -> Any:
    y = x * 1
    y[0] = 100.0
    return paddle.concat([y.flatten(), y.transpose([1, 0]).flatten()])


@pytest.mark.parametrize("function", [unread, unwritten, written_before])
def test_sizes_are_free_where_nobody_can_tell(function: Function, tmp_path: Any) -> None:
    library = paddle.compile(function, str(tmp_path / "net.so"), input_spec=[InputSpec([None, 3], "float32", "x")])
    for count in (1, 2):
        np.testing.assert_array_equal(library(rows(count)), function(paddle.to_tensor(rows(count))).numpy())


def test_the_sizes_of_which_views_are_copied_are_found() -> None:
    found: list[Any] = []

    def function(x: Any, y: Any) -> Any:
        assert active_trace() is not None
        turned = x.transpose([1, 0, 2])
        n, s = turned.shape[1], turned.shape[0]
        found.append((copied_from(turned, (s * n * 4,)), copied_from(turned, None), copied_from(x, (n, s, 4)), n, s))
        both = y.transpose([0, 3, 1, 2])
        h, w = both.shape[2], both.shape[3]
        found.append((copied_from(both, (both.shape[0] * 5 * h * w,)), h, w))
        return turned.sum() + both.sum()

    specs = [InputSpec([None, None, 4], "float32", "x"), InputSpec([2, None, None, 5], "float32", "y")]
    assert "nn.transpose" in paddle.inspect(function, specs).nn
    (flat, row_by_row, owner, n, s), (pixels, h, w) = found[0], found[1]
    assert flat == row_by_row == [s, n] and owner == []
    assert pixels == [h * w]
