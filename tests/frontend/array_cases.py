"""`python -m tests.frontend.array_cases`, by a Python with Paddle 3.3.1: writes anew what `to_static` functions give there of arrays."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "fixtures" / "array_arguments.json"


def statistics(paddle: Any, a: Any, x: Any) -> Any:
    return a.std(), a.var(0), a.mean(), a.max(1), x * float(a.std()), x + a.astype("float32").mean(), a.sum(), a.argmax(0)


def operators(paddle: Any, a: Any, x: Any) -> Any:
    return a / 2, a // 2, a % 2, a**2, -a, abs(a), a + a, a > 0, a @ a.T, divmod(a, 2)[1]


def shapes(paddle: Any, a: Any, x: Any) -> Any:
    return a.T, a[0], a[:, 1], a[0, 1], a[..., None], a.reshape(-1), a.transpose(1, 0), a.shape, len(a), a.ndim, paddle.zeros(a.shape)


def kinds(paddle: Any, a: Any, x: Any) -> Any:
    return isinstance(a, np.ndarray), isinstance(a, paddle.Tensor), hasattr(a, "unsqueeze"), a is None, a.dtype == np.float32, a


def of_numpy(paddle: Any, a: Any, x: Any) -> Any:
    return np.exp(a * 0.1), np.concatenate([a, a]), np.where(a > 0, a, 0), np.linalg.norm(a), np.stack([a, a]).mean(0), np.sqrt(abs(a))


def with_tensors(paddle: Any, a: Any, x: Any) -> Any:
    b = a.astype("float32")
    return x + b, b - x, x * b, b / x, x > b, b @ x.T, x @ b.T, x * a[0, 1], x + a.std(), paddle.to_tensor(a), paddle.to_tensor(a, "int32")


def decisions(paddle: Any, a: Any, x: Any) -> Any:
    for row in a:
        if row.sum() > 0:
            x = x * 2
        x = x + float(row[0])
    return x, [float(v) for v in a[0]], 1 if a.max() > 1 else 0


def keys(paddle: Any, a: Any, x: Any) -> Any:
    return x[np.arange(len(a)) * 0], x[a > 0], x[:, abs(a[0]).astype("int64") % 3], x[: len(a)]


CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    f.__name__: f for f in (statistics, operators, shapes, kinds, of_numpy, with_tensors, decisions, keys)
}


def results(paddle: Any, name: str, compiled: Callable[[Any], Any]) -> list[Any]:
    """What the calls of a case give, told as plain data."""
    case = CASES[name]

    def function(a: Any, x: Any) -> Any:
        return case(paddle, a, x)

    made = compiled(function)
    told = []
    for dtype in ("float32", "int64", "float64"):
        for number, rows in enumerate((2, 2, 3)):
            drawn = np.random.default_rng(number).standard_normal((rows, 3)) * 2
            x = paddle.to_tensor(np.random.default_rng(7).uniform(1, 2, (rows, 3)).astype("float32"))
            told.append(tell(paddle, made(np.round(drawn).astype(dtype) if dtype == "int64" else drawn.astype(dtype), x)))
    return told


def tell(paddle: Any, value: Any) -> Any:
    """A result as plain data: its kind, dtype, shape and elements."""
    if isinstance(value, (list, tuple)):
        return [tell(paddle, part) for part in value]
    if isinstance(value, paddle.Tensor):
        return ["tensor", str(value.dtype).rpartition(".")[2], *_elements(value.numpy())]
    if isinstance(value, (np.ndarray, np.generic)):
        return [type(value).__name__, str(value.dtype), *_elements(value)]
    return [type(value).__name__, value]


def _elements(value: Any) -> list[Any]:
    return [list(value.shape), [float(f"{v:.6g}") for v in np.asarray(value, "float64").reshape(-1)]]


def main() -> None:
    import paddle

    assert paddle.__version__ == "3.3.1", paddle.__version__
    found = {name: results(paddle, name, paddle.jit.to_static) for name in CASES}
    assert found == {name: results(paddle, name, lambda function: function) for name in CASES}
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
