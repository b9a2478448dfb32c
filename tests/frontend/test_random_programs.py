"""Random Programs of nested blocks and in-place writes: interpreted step by step on float64 arrays, and compiled.

The reference never looks at the Program: it follows the description that the Program was built from. Gradients are those of finite
differences along a direction. Every Program is run at two batch sizes, keeps state between its runs, and is run as a clone and as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, note, settings

import polyreme as paddle
from polyreme import static
from tests.frontend.static_mode import static_mode

NAMES = ("a", "b", "c", "d")


class Layout(NamedTuple):
    """What the four variables are: `[rows, width]`, or `[-1, width]` fed with both numbers of rows where `free`."""

    dtype: str
    width: int
    rows: tuple[int, int]
    free: bool


LAYOUTS = st.builds(
    Layout, st.sampled_from(["float32", "float64"]), st.integers(1, 3), st.tuples(st.integers(0, 3), st.integers(1, 5)), st.booleans()
)

# One step on the variables: its kind, where it reads and where it writes.
_NAME = st.sampled_from(NAMES)
UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "sin": np.sin,
    "square": lambda x: x * x,
    "assign": lambda x: x,
    # 0.125 and not 0.1: as bytes, attributes are float32 numbers.
    "scale": lambda x: x * 0.5 + 0.125,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "elementwise_mul": np.multiply,
    "sum": np.add,
}
_STEP = st.one_of(
    st.tuples(st.sampled_from(list(UNARY)), _NAME, _NAME),
    st.tuples(st.sampled_from(list(BINARY)), _NAME, _NAME, _NAME),
    st.tuples(st.sampled_from(["weigh", "local", "stopped"]), _NAME, _NAME),
    st.tuples(st.sampled_from(["keep", "recall"]), _NAME),
    st.tuples(st.just("cond function"), _NAME, _NAME, _NAME),
    st.tuples(st.just("while function"), st.integers(0, 3), _NAME, _NAME),
)


def _nested(steps: Any) -> Any:
    inner = st.lists(steps, min_size=1, max_size=3)
    return st.one_of(
        steps,
        st.tuples(st.just("while"), st.integers(0, 3), inner),
        st.tuples(st.just("if"), _NAME, _NAME, inner),
        st.tuples(st.just("either"), _NAME, _NAME, inner, inner),
        st.tuples(st.just("if odd"), inner),
    )


PROGRAMS = st.lists(st.recursive(_STEP, _nested, max_leaves=10), min_size=1, max_size=6)


# --- as a Program


class Builder:
    """Appends the operators of a description."""

    def __init__(self, main: Any, layout: Layout, weight: Any):
        self.main, self.layout, self.weight = main, layout, weight
        self.shape = [-1 if layout.free else layout.rows[1], layout.width]
        self.made = 0

    def variable(self, what: str, dtype: str, shape: Any, stops: bool = True) -> Any:
        self.made += 1
        return self.main.current_block().create_var(name=f"{what}_{self.made}", dtype=dtype, shape=shape, stop_gradient=stops)

    def append(self, type: str, inputs: Any, outputs: Any, **attrs: Any) -> None:
        self.main.current_block().append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)

    def number(self, value: float) -> Any:
        made = self.variable("number", "int64", [1])
        self.append("fill_constant", {}, {"Out": made}, shape=[1], value=float(value), dtype="int64")
        return made

    def total(self, name: str) -> Any:
        made = self.variable("total", self.layout.dtype, [1], stops=False)
        self.append("reduce_sum", {"X": name}, {"Out": made}, dim=[0], reduce_all=True, keep_dim=False)
        return made

    def less(self, first: str, second: str) -> Any:
        holds = self.variable("holds", "bool", [1])
        self.append("less_than", {"X": self.total(first), "Y": self.total(second)}, {"Out": holds})
        return holds

    def steps(self, steps: Any, counter: Any) -> None:
        for kind, *rest in steps:
            self.step(kind, rest, counter)

    def step(self, kind: str, rest: list[Any], counter: Any) -> None:
        var = self.main.global_block().var
        if kind == "while":
            self.loop(*rest)
        elif kind == "if":
            self.branch(self.less(*rest[:2]), rest[2], counter)
        elif kind == "either":
            holds, fails = self.less(*rest[:2]), self.variable("fails", "bool", [1])
            self.append("logical_not", {"X": holds}, {"Out": fails})
            self.branch(holds, rest[2], counter)
            self.branch(fails, rest[3], counter)
        elif kind == "if odd":
            left, holds = self.variable("left", "int64", [1]), self.variable("odd", "bool", [1])
            self.append("elementwise_mod", {"X": counter, "Y": self.number(2)}, {"Out": left})
            self.append("equal", {"X": left, "Y": self.number(1)}, {"Out": holds})
            self.branch(holds, rest[0], counter)
        elif kind in ("local", "stopped"):
            # A variable of the block itself: another one in each run.
            own = self.variable("own", self.layout.dtype, self.shape, stops=kind == "stopped")
            self.append("tanh", {"X": rest[0]}, {"Out": own})
            self.append("elementwise_add", {"X": own, "Y": rest[1]}, {"Out": rest[1]}, axis=-1)
        elif kind == "weigh":
            self.append("elementwise_mul", {"X": rest[0], "Y": self.weight}, {"Out": rest[1]}, axis=-1)
        elif kind == "keep":
            sum_ = self.variable("sum", self.layout.dtype, [1], stops=False)
            self.append("elementwise_add", {"X": self.total(rest[0]), "Y": "state"}, {"Out": sum_}, axis=-1)
            self.append("tanh", {"X": sum_}, {"Out": "state"})
        elif kind == "recall":
            self.append("elementwise_add", {"X": rest[0], "Y": "state"}, {"Out": rest[0]}, axis=-1)
        elif kind == "cond function":
            first, second, out = map(var, rest)
            made = static.nn.cond(self.less(*rest[:2]), lambda: paddle.tanh(first) * self.weight, lambda: second - first)
            paddle.assign(made, output=out)
        elif kind == "while function":
            start, out = map(var, rest[1:])
            rounds, i = self.number(rest[0]), self.number(0)
            _, made = static.nn.while_loop(
                lambda i, x: i < rounds, lambda i, x: [i + 1, paddle.sin(x * self.weight) + start], [i, start]
            )
            paddle.assign(made, output=out)
        elif kind in BINARY:
            inputs = {"X": rest[:2]} if kind == "sum" else {"X": rest[0], "Y": rest[1]}
            self.append(kind, inputs, {"Out": rest[2]}, **({} if kind == "sum" else {"axis": -1}))
        else:
            attrs = {"scale": 0.5, "bias": 0.125, "bias_after_scale": True} if kind == "scale" else {}
            self.append(kind, {"X": rest[0]}, {"Out": rest[1]}, **attrs)

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


# --- one step after the other


@dataclass
class Reference:
    """Runs a description on float64 arrays by name.

    `margins` gets how far comparisons were from another outcome. `stopped` gets the values without a gradient, or gives them in `replay`.
    """

    values: dict[str, Any]
    replay: list[Any] | None = None
    margins: list[float] = field(default_factory=list)
    stopped: list[Any] = field(default_factory=list)

    def less(self, first: str, second: str) -> bool:
        gap = float(self.values[second].sum() - self.values[first].sum())
        # The same variable twice is no close call: both sums are the same number.
        self.margins.append(1.0 if first == second else abs(gap))
        return gap > 0

    def steps(self, steps: Any, counter: int) -> None:
        for kind, *rest in steps:
            self.step(kind, rest, counter)

    def step(self, kind: str, rest: list[Any], counter: int) -> None:
        v = self.values
        if kind == "while":
            for i in range(rest[0]):
                self.steps(rest[1], i)
        elif kind == "if":
            if self.less(*rest[:2]):
                self.steps(rest[2], counter)
        elif kind == "either":
            self.steps(rest[2] if self.less(*rest[:2]) else rest[3], counter)
        elif kind == "if odd":
            if counter % 2:
                self.steps(rest[0], counter)
        elif kind == "local":
            v[rest[1]] = np.tanh(v[rest[0]]) + v[rest[1]]
        elif kind == "stopped":
            self.stopped.append(np.tanh(v[rest[0]]) if self.replay is None else self.replay[len(self.stopped)])
            v[rest[1]] = self.stopped[-1] + v[rest[1]]
        elif kind == "weigh":
            v[rest[1]] = v[rest[0]] * v["weight"]
        elif kind == "keep":
            v["state"] = np.tanh(v[rest[0]].sum() + v["state"])
        elif kind == "recall":
            v[rest[0]] = v[rest[0]] + v["state"]
        elif kind == "cond function":
            first, second, out = rest
            v[out] = np.tanh(v[first]) * v["weight"] if self.less(first, second) else v[second] - v[first]
        elif kind == "while function":
            start = x = v[rest[1]]
            for _ in range(rest[0]):
                x = np.sin(x * v["weight"]) + start
            v[rest[2]] = x
        elif kind in BINARY:
            v[rest[2]] = BINARY[kind](v[rest[0]], v[rest[1]])
        else:
            v[rest[1]] = UNARY[kind](v[rest[0]])


def check(layout: Layout, steps: Any, shown: bool = False) -> None:
    """Both readings of `steps` agree: values, state and gradients, at each number of rows."""
    draws = np.random.RandomState(0)
    learnt = (*NAMES, "weight")
    start_weight = draws.uniform(-0.9, 0.9, layout.width)
    rtol, atol = (2e-4, 2e-5) if layout.dtype == "float32" else (1e-8, 1e-9)
    with static_mode() as (main, startup):
        weight = static.create_parameter(
            [layout.width], layout.dtype, "weight", default_initializer=paddle.nn.initializer.Assign(start_weight)
        )
        static.create_global_var([1], 0.25, layout.dtype, persistable=True, name="state").stop_gradient = False
        builder = Builder(main, layout, weight)
        inputs = {name: static.data(f"in_{name}", builder.shape, layout.dtype) for name in NAMES}
        seeds = [static.data(f"seed_{name}", builder.shape, layout.dtype) for name in NAMES]
        for name, variable in inputs.items():
            variable.stop_gradient = False
            main.global_block().create_var(name=name, shape=builder.shape, dtype=layout.dtype)
            builder.append("assign", {"X": variable}, {"Out": name})
        builder.steps(steps, builder.number(1))
        forward = main.clone()
        targets = [main.global_block().var(name) for name in NAMES]
        slopes = static.gradients(targets, [*inputs.values(), weight], target_gradients=seeds)
        again = static.Program.parse_from_string(forward.serialize_to_string())
        if shown:
            print(forward)
        executor = static.Executor()
        executor.run(startup)
        state = np.array([0.25])
        for rows in layout.rows if layout.free else layout.rows[1:]:
            start = {name: draws.uniform(-0.9, 0.9, (rows, layout.width)) for name in NAMES} | {"weight": start_weight}
            direction = {name: draws.uniform(-1, 1, start[name].shape) for name in learnt}
            given_seeds = {name: draws.uniform(-1, 1, start[name].shape) for name in NAMES}
            feed = {f"in_{name}": start[name].astype(layout.dtype) for name in NAMES}
            grads = {f"seed_{name}": given_seeds[name].astype(layout.dtype) for name in NAMES}
            fetches = [*NAMES, "state"]
            # The clone is run with the first number of rows, its bytes with the last.
            for program in (main, again if rows == layout.rows[1] else forward):
                before = state
                base = Reference({**start, "state": before})
                with np.errstate(all="ignore"):
                    base.steps(steps, 1)
                largest = max((np.abs(base.values[name]).max(initial=0.0) for name in NAMES), default=0.0)
                if min(base.margins, default=1.0) < 1e-3 or not largest < 50:
                    return  # a comparison that rounding decides, or numbers that grew
                state = base.values["state"]
                extra = [s for s in slopes if s is not None] if program is main else []
                found = executor.run(program, feed | grads if program is main else feed, [*fetches, *extra])
                for name, got in zip(fetches, found, strict=False):
                    assert got.dtype == layout.dtype
                    np.testing.assert_allclose(got, base.values[name], rtol=rtol, atol=atol, err_msg=f"{name}, {rows} rows")
                if program is not main:
                    continue
                gradients = iter(found[len(fetches) :])
                slope = sum(
                    float((next(gradients) * direction[name]).sum()) for name, s in zip(learnt, slopes, strict=True) if s is not None
                )
                step, ends = 1e-6, []
                for sign in (1, -1):
                    moved = {name: start[name] + sign * step * direction[name] for name in learnt}
                    end = Reference({**moved, "state": before}, base.stopped)
                    end.steps(steps, 1)
                    ends.append(sum(float((end.values[name] * given_seeds[name]).sum()) for name in NAMES))
                wanted = (ends[0] - ends[1]) / (2 * step)
                close = (2e-3, 5e-4) if layout.dtype == "float32" else (1e-5, 1e-6)
                np.testing.assert_allclose(slope, wanted, rtol=close[0], atol=close[1], err_msg=f"slope, {rows} rows")


def script(layout: Layout, steps: Any) -> str:
    """A script that checks one Program again, and shows it."""
    return f"from tests.frontend.test_random_programs import Layout, check\n\ncheck({layout}, {steps}, shown=True)\n"


@settings(max_examples=4, deadline=None, derandomize=True)
@given(LAYOUTS, PROGRAMS)
def test_a_program_runs_compiled_as_one_step_after_the_other(layout: Layout, steps: Any) -> None:
    note(script(layout, steps))
    check(layout, steps)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(LAYOUTS, PROGRAMS)
def test_many_programs_run_compiled_as_one_step_after_the_other(layout: Layout, steps: Any) -> None:
    note(script(layout, steps))
    check(layout, steps)


def test_state_that_a_loop_carries_to_a_branch_by_functions_has_its_gradient():
    check(Layout("float64", 3, (0, 4), False), [("while", 2, [("keep", "b"), ("recall", "d"), ("cond function", "d", "a", "c")])])
