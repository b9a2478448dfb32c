"""Tensor arrays that bodies of branches and loops write to: their contents are carried by the op, and written behind it.

A body cannot change the sizes of what is outside, and an array that grows does. So each body is run once on trial, which tells the arrays
it writes to. The op takes and gives the contents of these besides what the user hands on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from polyreme import control_flow, dispatch, tape
from polyreme.ir.diagnostics import caller_location
from polyreme.jit.capture.bodies import CapturedBody
from polyreme.jit.traced import TraceError
from polyreme.static.variable import Variable, named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["branch", "contents", "loop", "put"]


class _Body:
    """What arrays hold in a body that is being recorded; `written` are those that it wrote to."""

    def __init__(self, variables: Sequence[Variable] = (), values: Sequence[Tensor] = ()):
        self.values = {v.name: value for v, value in zip(variables, values, strict=True)}
        self.written: dict[str, Variable] = {}


_bodies: list[_Body] = []


def contents(array: Tensor) -> Tensor:
    """What an array holds where the program is being built now."""
    variable = named_variable(array)
    if variable is not None:
        for body in reversed(_bodies):
            if variable.name in body.values:
                return body.values[variable.name]
    return array


def put(variable: Variable, value: Tensor) -> None:
    """Let an array hold something else from here on."""
    if not _bodies:
        with tape.no_grad():  # what it held does not count as a leaf
            dispatch.assign(variable, value)
        variable.stop_gradient = value.stop_gradient
        return
    _bodies[-1].values[variable.name] = value
    for body in _bodies:
        body.written[variable.name] = variable


def branch(pred: Any, then_fn: Callable[[], Any] | None, else_fn: Callable[[], Any] | None) -> Any:
    """`control_flow.branch`, whose functions may write to arrays."""
    functions = [fn for fn in (then_fn, else_fn) if fn is not None]
    arrays = _written(functions) if control_flow.is_traced(pred) else []
    if not arrays:
        return control_flow.branch(pred, then_fn, else_fn)
    now = [contents(v) for v in arrays]

    def held(fn: Callable[[], Any] | None) -> Callable[[], Any]:
        def run() -> Any:
            with _inside(arrays, now) as body:
                result = None if fn is None else fn()
                return result, [body.values[v.name] for v in arrays]

        return run

    result, after = control_flow.branch(pred, held(then_fn), held(else_fn))
    for variable, value in zip(arrays, after, strict=True):
        put(variable, value)
    return result


def loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Sequence[Any]) -> list[Any]:
    """`control_flow.loop`, whose functions may write to arrays. An array among `carried` is the same one in every round."""
    own = {i: v for i, v in enumerate(map(named_variable, carried)) if v is not None and v.is_tensor_array}
    arrays = _written([lambda: body_fn(*carried)])
    if not own and not arrays:
        return control_flow.loop(cond_fn, body_fn, carried)
    others = [i for i in range(len(carried)) if i not in own]

    def all_of(values: Sequence[Any]) -> list[Any]:
        given = iter(values)
        return [own[i] if i in own else next(given) for i in range(len(carried))]

    def again(*values: Any) -> Any:
        with _inside(arrays, values[len(others) :]):
            return cond_fn(*all_of(values[: len(others)]))

    def step(*values: Any) -> list[Any]:
        with _inside(arrays, values[len(others) :]) as body:
            made = body_fn(*all_of(values[: len(others)]))
            for i, variable in own.items():
                if made[i] is not variable:
                    raise TraceError(
                        f"expected the body of the loop to return the array '{variable.name}' as it is given it but got another value in "
                        f"its place",
                        caller_location(),
                    )
            return [*(made[i] for i in others), *(body.values[v.name] for v in arrays)]

    made = control_flow.loop(again, step, [*(carried[i] for i in others), *(contents(v) for v in arrays)])
    for variable, value in zip(arrays, made[len(others) :], strict=True):
        put(variable, value)
    return all_of(made[: len(others)])


@contextmanager
def _inside(arrays: Sequence[Variable], values: Sequence[Tensor]) -> Iterator[_Body]:
    _bodies.append(_Body(arrays, values))
    try:
        yield _bodies[-1]
    finally:
        _bodies.pop()


def _written(functions: Sequence[Callable[[], Any]]) -> list[Variable]:
    """The arrays that functions write to when they are run in a body; none is run where the program has no array."""
    recorder: Any = dispatch.active_trace()
    program = getattr(getattr(recorder, "outer", recorder), "program", None)
    if program is None or not any(v.is_tensor_array for v in program().list_vars()):
        return []
    found: dict[str, Variable] = {}
    bodies = recorder if hasattr(recorder, "inside") else recorder.bodies()
    for function in functions:
        # Names that the trial run takes are free again, so that the real one makes the same parameters.
        counters = unique_name.switch()
        unique_name.switch(counters)
        with unique_name.guard(counters.copy()), _inside((), ()) as body, bodies.inside(CapturedBody()):
            function()
        found |= body.written
    return list(found.values())
