"""`python -m tests.frontend.window_cases`, by a Python with Paddle 3.3.1: writes anew what windows give there that go back to images."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "fixtures" / "windows.json"


def _unpooled(rank: int, *options: Any) -> Callable[[Any, Any], Any]:
    def function(paddle: Any, x: Any) -> Any:
        functions = paddle.nn.functional
        pooled, places = getattr(functions, f"max_pool{rank}d")(x, *options, return_mask=True)
        return getattr(functions, f"max_unpool{rank}d")(pooled, places, *options)

    return function


CASES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "fold": (lambda paddle, x: paddle.nn.functional.fold(x, [4, 5], [2, 2]), (2, 12, 12)),
    "fold_by_steps": (lambda paddle, x: paddle.nn.functional.fold(x, [5, 6], [3, 2], strides=[2, 1], paddings=1), (1, 6, 21)),
    "fold_dilated": (lambda paddle, x: paddle.nn.functional.fold(x, 6, 3, 1, [1, 0], dilations=2), (1, 9, 8)),
    "unpool_rows": (_unpooled(1, 3, 2, 1), (2, 2, 9)),
    "unpool": (_unpooled(2, 2, None, 0), (1, 2, 6, 6)),
    "unpool_overlapping": (_unpooled(2, 3, 2, 1), (1, 1, 5, 7)),
    "unpool_volumes": (_unpooled(3, 2, None, 0), (1, 1, 4, 4, 4)),
}


def given(name: str) -> Any:
    return np.random.RandomState(0).randn(*CASES[name][1]).astype("float32")


def result(paddle: Any, name: str, compiled: Callable[[Any], Any]) -> list[Any]:
    """What a case gives, and its gradient, as plain data."""
    case = CASES[name][0]
    function = compiled(lambda x: case(paddle, x))
    for _ in range(2):
        x = paddle.to_tensor(given(name))
        x.stop_gradient = False
        made = function(x)
        weights = np.linspace(0.5, 1.5, made.size, dtype="float32").reshape(made.shape)
        (made * paddle.to_tensor(weights)).sum().backward()
    return [made.numpy().tolist(), x.grad.numpy().tolist()]


def main() -> None:
    import paddle

    assert paddle.__version__ == "3.3.1", paddle.__version__
    found = {name: result(paddle, name, lambda function: function) for name in CASES}
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
