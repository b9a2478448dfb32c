"""Which arguments have gradients, where a branch or a loop decides: compared with what Python's own branches and loops leave on the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.control_flow import branch, loop, steps
from polyreme.jit.capture.trace import trace
from polyreme.lowering.gradients.reach import undecided

CASES: dict[str, tuple[Callable[..., Any], bool]] = {
    # Functions of two tensors, and whether it is the same tensors whatever is decided.
    "both ways read one": (lambda x, w: branch(x.sum() > 0, lambda: x * 2, lambda: x - 1), True),
    "both ways read both": (lambda x, w: branch(x.sum() > 0, lambda: x * w, lambda: x - w), True),
    "one way reads more": (lambda x, w: branch(x.sum() > 0, lambda: x * w, lambda: x), False),
    "one way reads nothing": (lambda x, w: branch(x.sum() > 0, lambda: paddle.zeros_like(x), lambda: x), False),
    "what is detached is not read": (lambda x, w: branch(x.sum() > 0, lambda: x * w.detach(), lambda: x), True),
    "by other values of the same": (lambda x, w: branch(x.sum() > 0, lambda: x * 2, lambda: paddle.tanh(x) * 3) + w * 1, True),
    "a loop that changes one": (lambda x, w: loop(lambda y: y.sum() < 9, lambda y: y * y + 1, [x])[0] + w, True),
    "a loop that reads another": (lambda x, w: loop(lambda y: y.sum() < 9, lambda y: y + w * w + 1, [x])[0], False),
    "a loop that begins with nothing": (
        lambda x, w: loop(lambda y: (y + x).sum() < 9, lambda y: y + x * x + 1, [paddle.zeros([3])])[0],
        False,
    ),
    "a loop that exchanges two": (lambda x, w: loop(lambda a, b: (a + b).sum() < 9, lambda a, b: (b + 1, a + 1), [x, w])[0], False),
    "a branch in a loop": (
        lambda x, w: loop(lambda y: y.sum() < 9, lambda y: branch(y[0] > 0, lambda: y * y + 1, lambda: y + 2), [x])[0],
        True,
    ),
    "an uneven branch in a loop": (
        lambda x, w: loop(lambda y: y.sum() < 9, lambda y: branch(y[0] > 0, lambda: y + w * w + 1, lambda: y + 2), [x * w])[0],
        True,
    ),
    "steps whose number is known": (lambda x, w: steps(lambda row, y: [y + row * w], [paddle.zeros([1])], [x])[0], True),
    "an even number of exchanges": (lambda x, w: steps(lambda a, b: [b, a], [x, w], count=4)[0] * 1, True),
}
WAYS = [np.float32([1, 2, 3]), np.float32([-1, -2, -3]), np.float32([5, 5, 5]), np.float32([-1, 0.5, 0.25])]


def tensors(way: Any) -> list[Any]:
    return [paddle.to_tensor(way, stop_gradient=False), paddle.to_tensor(np.abs(way[:1]), stop_gradient=False) * 1]


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_found_whether_gradients_depend_on_what_is_decided(name: str) -> None:
    function, decided = CASES[name]
    leaves = [paddle.ones([3]), paddle.ones([1] if "exchange" not in name else [3])]
    inputs = [(leaf.type, n, False) for leaf, n in zip(leaves, "xw", strict=True)]
    traced = trace(function, lambda stand_ins: (tuple(stand_ins), {}), inputs, {})
    assert (undecided(traced.func.block, traced.func.args) is None) == decided


@pytest.mark.parametrize("name", [n for n in CASES if "exchange" not in n])
def test_where_they_do_not_python_has_the_same_gradients_for_every_branch(name: str) -> None:
    """And where they do, some two ways differ."""
    function, decided = CASES[name]
    met = set()
    for way in WAYS:
        x, w = paddle.to_tensor(way, stop_gradient=False), paddle.to_tensor(np.abs(way[:1]), stop_gradient=False)
        y = function(x, w)
        if not y.stop_gradient:
            y.sum().backward()
        met.add((y.stop_gradient, x.grad is None, w.grad is None))
    assert (len(met) == 1) == decided


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_a_known_number_of_exchanges_tells_whose_gradients_there_are(count: int) -> None:
    x, w = paddle.ones([3]), paddle.ones([3])
    # Both ways of the branch must reach what the exchanges leave in the first place.
    for other, decided in ((0, count % 2 == 0), (1, count % 2 == 1)):
        function = lambda x, w, other=other: branch(
            x.sum() > 0, lambda: steps(lambda a, b: [b, a], [x, w], count=count)[0] * 1, lambda: [x, w][other] * 2
        )
        traced = trace(function, lambda stand_ins: (tuple(stand_ins), {}), [(x.type, "x", False), (w.type, "w", False)], {})
        assert (undecided(traced.func.block, traced.func.args) is None) == decided
