"""How a case of `paddle.static` is written: a function that builds a program, runs it and returns what came.

    @check("paddle.static.nn.fc")
    def fc_sums_several_inputs(paddle, np):
        x = paddle.static.data("x", [None, 3], "float32")
        y = paddle.static.nn.fc(x, 2, weight_attr=filled(paddle, 3, 2))
        return run(paddle, {"x": numbers(4, 3)}, [y])

It runs under both modules in static mode, with programs, names and a scope of its own. The result is any tree that `tests.api` can compare.
`paddle="2.6.2"` says which Paddle tells what is right, one of `VERSIONS`; 3.3.1 does by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.api.table import Case, fingerprint_of

# The programs of 3.3.1 are PIR, in which many functions of `static.nn` refuse to work; 2.6.2 has ProgramDesc.
VERSIONS = ("3.3.1", "2.6.2")
REGISTRY: dict[str, Case] = {}


def check(*names: str, paddle: str = "3.3.1", rtol: float | None = None, atol: float | None = None) -> Callable[[Any], Any]:
    """The decorated `function(paddle, np)` is a case of these names; the version is the case's subject."""
    assert paddle in VERSIONS

    def add(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        case = Case(
            f"{names[0]}: {function.__name__}", names, paddle, lambda module, _: in_static_mode(module, function), fingerprint_of(function),
            rtol=rtol, atol=atol, single=False,
        )  # fmt: skip
        assert case.id not in REGISTRY, f"two cases of the name {case.id}"
        REGISTRY[case.id] = case
        return function

    return add


def load() -> dict[str, Case]:
    """All cases by id."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        import_module(f"tests.static_api.{path.stem}")
    return REGISTRY


def in_static_mode(paddle: Any, function: Callable[[Any, Any], Any]) -> Any:
    """`function(paddle, numpy)` with programs and a scope of its own."""
    static = paddle.static
    paddle.enable_static()
    try:
        scope = static.Scope() if hasattr(static, "Scope") else paddle.base.core.Scope()
        with static.scope_guard(scope), static.program_guard(static.Program(), static.Program()):
            return function(paddle, np)
    finally:
        paddle.disable_static()


# --- what cases share


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Normal numbers; for integer dtypes from 0 to 9."""
    rng = np.random.default_rng(seed + sum(shape))
    return rng.integers(0, 10, shape).astype(dtype) if "int" in dtype else rng.normal(size=shape).astype(dtype)


def filled(paddle: Any, *shape: int, seed: int = 1, name: str | None = None) -> Any:
    """A ParamAttr of these normal numbers."""
    return paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(numbers(*shape, seed=seed)))


def run(paddle: Any, feed: Any, fetch: Sequence[Any], times: int = 1, main: Any = None) -> Any:
    """The startup program, and then the main one so many times: what it fetched, of several runs a list."""
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    chosen = main if main is not None else paddle.static.default_main_program()
    found = [executor.run(chosen, feed=feed, fetch_list=list(fetch)) for _ in range(times)]
    return found[0] if times == 1 else found


def with_gradients(paddle: Any, feed: Any, y: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    """`y`, and the gradients of the sum of its squares for `inputs`."""
    slopes = paddle.static.gradients([(y * y).sum()], list(inputs))
    made = run(paddle, feed, [y, *slopes])
    return {"y": made[0], "grad": made[1:]}


def variable(paddle: Any, name: str, *shape: int, dtype: str = "float32") -> Any:
    """An input that gradients reach, with a free first size."""
    made = paddle.static.data(name, [None, *shape[1:]] if shape else [], dtype)
    made.stop_gradient = False
    return made
