"""Random functions of vectors with branches, loops and steps whose values change their sizes: eager mode, `to_static`, the evaluator and a
library give the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import control_flow
from polyreme.ir.evaluate import evaluate
from polyreme.static import InputSpec

SIMPLE = ["concat", "keep", "shift", "mod"]
NESTING = ["if", "while", "steps", "rows"]
# Whose libraries have branches and loops between their parts.
SEEDS = [3, 9]
SIZES = [(3, 4), (0, 2), (1, 1), (0, 0)]
SPECS = [InputSpec([None], "float32", name) for name in "xy"]


def number(value: float) -> Any:
    return paddle.full([], value)


def program(rng: np.random.Generator, count: int, kinds: list[str], depth: int = 0) -> list[Any]:
    """Steps, each of which names two vectors that are there by their numbers, and has steps of its own. Kinds that nest stand first."""
    made = []
    for i in range(count):
        kind = kinds[i] if depth == 0 and i < len(kinds) else str(rng.choice(SIMPLE + NESTING * (depth < 2)))
        bodies = [program(rng, int(rng.integers(1, 3)), [], depth + 1) for _ in range((kind in NESTING) + (kind == "if"))]
        made.append((kind, int(rng.integers(0, 8)), int(rng.integers(0, 8)), bodies))
    return made


def mod(x: Any, by: float) -> Any:
    return paddle.mod(x, number(by))


def run(steps: list[Any], pool: list[Any]) -> list[Any]:
    """The vectors that there are after the steps; elements are small whole numbers, so that nothing is rounded."""
    pool = list(pool)
    for kind, a, b, bodies in steps:
        x, y = pool[-1 - a % len(pool)], pool[-1 - b % len(pool)]
        total = mod(x.sum(), 7.0)
        if kind == "concat":
            pool.append(paddle.concat([x, y]))
        elif kind == "keep":
            pool.append(x[mod(x, 3.0) < 2 - b % 2])
        elif kind == "shift":
            pool.append(mod(x + mod(y.sum(), 7.0), 7.0))
        elif kind == "mod":
            pool.append(mod(x * 3 + 1, 7.0))
        elif kind == "if":
            pool.append(branched(total > float(b % 5), bodies, pool))
        elif kind == "while":
            pool += looped(mod(total, 3.0).astype("int64"), bodies[0], pool, x, y)
        elif kind == "steps":
            pool.append(y + stepped(b % 3, bodies[0], pool, total))
        else:
            pool += of_rows(paddle.concat([x, paddle.ones([1])]), bodies[0], pool, total, bool(b % 2))
    return pool


def branched(flag: Any, bodies: list[Any], pool: list[Any]) -> Any:
    return paddle.static.nn.cond(flag, lambda: run(bodies[0], pool)[-1] * 1, lambda: run(bodies[1], pool)[-1] + 1)


def looped(rounds: Any, body: list[Any], pool: list[Any], x: Any, y: Any) -> list[Any]:
    step = lambda i, u, v: (i + 1, run(body, [*pool, v, u])[-1], u)
    return paddle.static.nn.while_loop(lambda i, u, v: i < rounds, step, [paddle.zeros([], "int64"), x, y])[1:]


def stepped(count: int, body: list[Any], pool: list[Any], start: Any) -> Any:
    return control_flow.steps(lambda s: [mod(s + run(body, pool)[-1].sum() + 1, 7.0)], [start], count=count)[0]


def of_rows(rows: Any, body: list[Any], pool: list[Any], start: Any, reverse: bool) -> list[Any]:
    def step(row: Any, s: Any) -> Any:
        total = mod(run(body, [*pool, row])[-1].sum() + s, 7.0)
        return [total], [total * 2]

    last, made = control_flow.gathered_steps(step, [start], [rows.reshape([-1, 1])], reverse=reverse)
    return [made[0], rows + last[0]]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_functions_run_alike(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    steps = program(rng, 3, list(rng.permutation(NESTING))[:2])

    def function(x: Any, y: Any) -> Any:
        return tuple(run(steps, [x, y])[-2:])

    static = paddle.jit.to_static(function, input_spec=SPECS)
    library = paddle.compile(function, tmp_path / "random.so", input_spec=SPECS)
    assert library.manifest.steps
    module = paddle.inspect(function, input_spec=SPECS).module
    for sizes in SIZES:
        inputs = [rng.integers(-3, 4, size).astype(np.float32) for size in sizes]
        wanted = [value.numpy() for value in function(*map(paddle.to_tensor, inputs))]
        traced = [value.numpy() for value in static(*map(paddle.to_tensor, inputs))]
        for found in (traced, library(*inputs), evaluate(module, inputs)):
            for one, other in zip(found, wanted, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)
