"""Random Programs of nested blocks, in-place writes, `while` and `conditional_block`: run one operator after the other, and compiled.

The reference keeps float64 arrays by name and looks at every block as Paddle's executor does. Gradients are those of finite differences
along a direction.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, seed, settings

import polyreme as paddle
from polyreme import static
from tests.frontend.static_mode import static_mode

NAMES = ("a", "b", "c", "d")
SHAPE = (2, 2)
MAX_DEPTH = 3

# One operator on the variables: its kind, where it reads and where it writes; a while and a branch have operators of their own.
_NAME = st.sampled_from(NAMES)
_STEP = st.one_of(
    st.tuples(st.sampled_from(["tanh", "square", "scale", "sin", "assign"]), _NAME, _NAME),
    st.tuples(st.sampled_from(["elementwise_add", "elementwise_mul", "elementwise_sub", "sum"]), _NAME, _NAME, _NAME),
)


def _nested(steps: Any) -> Any:
    inner = st.lists(steps, min_size=1, max_size=3)
    return st.one_of(
        steps,
        st.tuples(st.just("while"), st.integers(0, 3), inner),
        st.tuples(st.just("if"), st.tuples(_NAME, _NAME), inner),
        st.tuples(st.just("if odd"), inner),
        st.tuples(st.just("local"), _NAME, _NAME),
    )


PROGRAMS = st.lists(st.recursive(_STEP, _nested, max_leaves=10), min_size=1, max_size=6)


# --- as a Program


class Builder:
    """Appends the operators of a description."""

    def __init__(self, main: Any):
        self.main = main
        self.made = 0

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}_{self.made}"

    def variable(self, what: str, dtype: str, shape: Any, stops: bool = True) -> Any:
        return self.main.current_block().create_var(name=self.name(what), dtype=dtype, shape=shape, stop_gradient=stops)

    def append(self, type: str, inputs: Any, outputs: Any, **attrs: Any) -> None:
        self.main.current_block().append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)

    def number(self, value: float) -> Any:
        made = self.variable("number", "int64", [1])
        self.append("fill_constant", {}, {"Out": made}, shape=[1], value=float(value), dtype="int64")
        return made

    def steps(self, steps: Any, counter: Any) -> None:
        for step in steps:
            self.step(step, counter)

    def step(self, step: Any, counter: Any) -> None:
        kind = step[0]
        if kind == "while":
            self.loop(step[1], step[2])
        elif kind == "if":
            (first, second), inner = step[1:]
            sums = [self.variable("sum", "float32", [1]) for _ in range(2)]
            for name, total in zip((first, second), sums, strict=True):
                self.append("reduce_sum", {"X": name}, {"Out": total}, dim=[0], reduce_all=True, keep_dim=False)
            holds = self.variable("holds", "bool", [1])
            self.append("less_than", {"X": sums[0], "Y": sums[1]}, {"Out": holds})
            self.branch(holds, inner, counter)
        elif kind == "if odd":
            rest, holds = self.variable("rest", "int64", [1]), self.variable("odd", "bool", [1])
            self.append("elementwise_mod", {"X": counter, "Y": self.number(2)}, {"Out": rest})
            self.append("equal", {"X": rest, "Y": self.number(1)}, {"Out": holds})
            self.branch(holds, step[1], counter)
        elif kind == "local":
            # A variable of the block itself: another one in each run.
            own = self.variable("own", "float32", SHAPE, stops=False)
            self.append("tanh", {"X": step[1]}, {"Out": own})
            self.append("elementwise_add", {"X": own, "Y": step[2]}, {"Out": step[2]}, axis=-1)
        elif kind == "sum":
            self.append("sum", {"X": [step[1], step[2]]}, {"Out": step[3]})
        elif len(step) == 4:
            self.append(kind, {"X": step[1], "Y": step[2]}, {"Out": step[3]}, axis=-1)
        elif kind == "scale":
            self.append(kind, {"X": step[1]}, {"Out": step[2]}, scale=0.5, bias=0.1, bias_after_scale=True)
        else:
            self.append(kind, {"X": step[1]}, {"Out": step[2]})

    def loop(self, rounds: int, inner: Any) -> None:
        i, n, again = self.number(0), self.number(rounds), self.variable("again", "bool", [1])
        self.append("less_than", {"X": i, "Y": n}, {"Out": again})
        block = self.main.create_block()
        self.steps(inner, i)
        self.append("increment", {"X": i}, {"Out": i}, step=1.0)
        self.append("less_than", {"X": i, "Y": n}, {"Out": again})
        self.main.rollback()
        self.append("while", {"X": [], "Condition": again}, {"Out": []}, sub_block=block)

    def branch(self, holds: Any, inner: Any, counter: Any) -> None:
        block = self.main.create_block()
        self.steps(inner, counter)
        self.main.rollback()
        self.append("conditional_block", {"Cond": holds, "Input": []}, {"Out": []}, sub_block=block, is_scalar_condition=True)


# --- one operator after the other


def reference(block: Any, values: dict[str, Any], margins: list[float]) -> None:
    """Run the operators of a block on float64 arrays by name. `margins` gets how far comparisons were from another outcome."""
    own: dict[str, Any] = {}

    def read(name: str) -> Any:
        return own[name] if name in block.vars and name in own else values[name]

    def write(name: str, value: Any) -> None:
        (own if name in block.vars and block.idx else values)[name] = value

    for op in block.ops:
        if op.type == "while":
            (condition,) = op.input("Condition")
            while read(condition)[0]:
                reference(op.block.program.block(op.block_attr("sub_block")), _Both(own, values), margins)
            continue
        if op.type == "conditional_block":
            if read(op.input("Cond")[0])[0]:
                reference(op.block.program.block(op.block_attr("sub_block")), _Both(own, values), margins)
            continue
        x = [read(name) for slot in ("X", "Y") for name in op.inputs.get(slot, ())]
        if op.type == "less_than" and x[0].dtype.kind == "f":
            margins.append(float(abs(x[0][0] - x[1][0])))
        write(op.output("Out")[0], MEANINGS[op.type](op, *x))


class _Both(dict):  # type: ignore[type-arg]
    """The variables of a block before those around it."""

    def __init__(self, own: dict[str, Any], around: dict[str, Any]):
        super().__init__()
        self.own, self.around = own, around

    def __getitem__(self, name: str) -> Any:
        return self.own[name] if name in self.own else self.around[name]

    def __setitem__(self, name: str, value: Any) -> None:
        (self.own if name in self.own else self.around)[name] = value


MEANINGS: dict[str, Any] = {
    "fill_constant": lambda op: np.full(op.attr("shape"), op.attr("value"), op.attr("dtype")),
    "less_than": lambda op, x, y: x < y,
    "equal": lambda op, x, y: x == y,
    "elementwise_mod": lambda op, x, y: x % y,
    "increment": lambda op, x: x + int(op.attr("step")),
    "reduce_sum": lambda op, x: x.sum().reshape(1),
    "tanh": lambda op, x: np.tanh(x),
    "sin": lambda op, x: np.sin(x),
    "square": lambda op, x: x * x,
    "assign": lambda op, x: x,
    "scale": lambda op, x: x * 0.5 + 0.1,
    "elementwise_add": lambda op, x, y: x + y,
    "elementwise_sub": lambda op, x, y: x - y,
    "elementwise_mul": lambda op, x, y: x * y,
    "sum": lambda op, *x: sum(x),
}


def _check(steps: Any) -> None:
    draws = np.random.RandomState(0)
    start = {name: draws.uniform(-0.9, 0.9, SHAPE) for name in NAMES}
    direction = {name: draws.uniform(-1, 1, SHAPE) for name in NAMES}
    with static_mode() as (main, _):
        inputs = {name: static.data(f"in_{name}", SHAPE, "float32") for name in NAMES}
        builder = Builder(main)
        for name, variable in inputs.items():
            variable.stop_gradient = False
            main.global_block().create_var(name=name, shape=SHAPE, dtype="float32")
            builder.append("assign", {"X": variable}, {"Out": name})
        builder.steps(steps, builder.number(1))
        block = main.global_block()
        forward = main.clone()
        loss = paddle.add_n([paddle.mean(block.var(name)) for name in NAMES])
        slopes = static.gradients(loss, list(inputs.values()))

        def run(scale: float, margins: list[float]) -> dict[str, Any]:
            values = {f"in_{name}": start[name] + scale * direction[name] for name in NAMES}
            with np.errstate(all="ignore"):
                reference(forward.global_block(), values, margins)
            return values

        margins: list[float] = []
        expected = run(0.0, margins)
        if min(margins, default=1.0) < 1e-3 or not all(np.abs(expected[name]).max() < 50 for name in NAMES):
            return  # a comparison that rounding decides, or numbers that grew
        feed = {f"in_{name}": start[name].astype("float32") for name in NAMES}
        executor = static.Executor()
        fetches = [*NAMES, *(s.name for s in slopes if s is not None)]
        found = executor.run(main, feed, fetches)
        for name, got in zip(NAMES, found, strict=False):
            np.testing.assert_allclose(got, expected[name], rtol=2e-4, atol=2e-5)
        gradients = iter(found[len(NAMES) :])
        slope = sum(
            float((next(gradients) * direction[name]).sum()) for name, s in zip(NAMES, slopes, strict=True) if s is not None
        )
        step = 1e-6
        ends = [run(sign * step, []) for sign in (1, -1)]
        wanted = sum(float(ends[0][name].mean() - ends[1][name].mean()) for name in NAMES) / (2 * step)
        np.testing.assert_allclose(slope, wanted, rtol=2e-3, atol=2e-4)
        again = static.Program.parse_from_string(forward.serialize_to_string())
        for got, name in zip(executor.run(again, feed, list(NAMES)), NAMES, strict=True):
            np.testing.assert_allclose(got, expected[name], rtol=2e-4, atol=2e-5)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(PROGRAMS)
def test_a_program_runs_compiled_as_one_operator_after_the_other(steps: Any) -> None:
    _check(steps)


@pytest.mark.slow
@seed(42)
@settings(max_examples=500, deadline=None)
@given(PROGRAMS)
def test_many_programs_run_compiled_as_one_operator_after_the_other(steps: Any) -> None:
    _check(steps)
