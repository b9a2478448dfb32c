"""Tensor arrays that bodies of branches and loops write to: their contents are carried by the op, and written behind it.

A body cannot change the sizes of what is outside, and an array that grows does. So each body is run once on trial, which tells the arrays
it writes to. The op takes and gives the contents of these besides what the user hands on.

A loop whose carried values change their sizes has no gradients, so that an array of floats has room for all elements before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from polyreme import control_flow, dispatch, math, tape
from polyreme.ir.diagnostics import caller_location
from polyreme.jit.capture.bodies import CapturedBody
from polyreme.jit.traced import TraceError
from polyreme.operators.control.arrays import ArrayContents, Count, Elements, ElementsNeededError, with_room
from polyreme.static.variable import Variable, named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["branch", "length", "loop", "read", "write"]


class _Body:
    """What arrays hold in a body that is being recorded; `written` are those that it wrote to."""

    def __init__(self, variables: Sequence[Variable] = (), values: Sequence[ArrayContents] = ()):
        self.values = {v.name: value for v, value in zip(variables, values, strict=True)}
        self.written: dict[str, Variable] = {}


_bodies: list[_Body] = []


def read(array: Tensor, i: Tensor) -> Tensor:
    """Element `i` of an array where the program is being built now."""
    return _contents(array).read(i)


def length(array: Tensor) -> Tensor:
    """How many elements it has there: int64 [1]."""
    return _contents(array).length()


def write(variable: Variable, x: Tensor, i: Tensor) -> None:
    """Put `x` into an array as element `i`, from here on."""
    _put(variable, _contents(variable).write(x, i))


def _contents(array: Tensor) -> ArrayContents:
    variable = named_variable(array)
    if variable is not None:
        for body in reversed(_bodies):
            if variable.name in body.values:
                return body.values[variable.name]
    return Elements(array)


def _put(variable: Variable, value: ArrayContents) -> None:
    if not _bodies:
        tensor = value.parts[0]
        with tape.no_grad():  # what it held does not count as a leaf
            dispatch.assign(variable, tensor)
        variable.stop_gradient = tensor.stop_gradient
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
    now = [_contents(v) for v in arrays]

    def held(fn: Callable[[], Any] | None) -> Callable[[], Any]:
        def run() -> Any:
            with _inside(arrays, now) as body:
                result = None if fn is None else fn()
                return result, [body.values[v.name].parts for v in arrays]

        return run

    result, after = control_flow.branch(pred, held(then_fn), held(else_fn))
    for variable, value, parts in zip(arrays, now, after, strict=True):
        _put(variable, value.of(parts))
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

    def run(start: Sequence[ArrayContents]) -> tuple[list[Any], list[ArrayContents]]:
        """The loop with these contents: what it gives, and the contents then."""
        count = len(others)

        def again(*values: Any) -> Any:
            with _inside(arrays, _like(start, values[count:])):
                return cond_fn(*all_of(values[:count]))

        def step(*values: Any) -> list[Any]:
            with _inside(arrays, _like(start, values[count:])) as body:
                made = body_fn(*all_of(values[:count]))
                for i, variable in own.items():
                    if made[i] is not variable:
                        raise TraceError(
                            f"expected the body of the loop to return the array '{variable.name}' as it is given it but got another value "
                            f"in its place",
                            caller_location(),
                        )
                return [*(made[i] for i in others), *(part for v in arrays for part in body.values[v.name].parts)]

        made = control_flow.loop(again, step, [*(carried[i] for i in others), *(part for value in start for part in value.parts)])
        return all_of(made[:count]), _like(start, made[count:])

    start = [_contents(v) for v in arrays]
    if tape.is_grad_enabled() and any(isinstance(value, Elements) and value.tensor.type.dtype.is_float for value in start):
        lengths = _lengths_after(run, start)
        start = [with_room(value, n) if isinstance(value, Elements) else value for value, n in zip(start, lengths, strict=True)]
    made, after = run(start)
    for variable, value in zip(arrays, after, strict=True):
        _put(variable, value)
    return made


def _like(contents: Sequence[ArrayContents], parts: Sequence[Tensor]) -> list[ArrayContents]:
    """ArrayContents of the same kinds, of these parts one after the other."""
    found, at = [], 0
    for value in contents:
        count = len(value.parts)
        found.append(value.of(parts[at : at + count]))
        at += count
    return found


def _lengths_after(run: Callable[[Sequence[ArrayContents]], Any], start: Sequence[ArrayContents]) -> list[Tensor]:
    """How many elements each array has after the loop: int64 [1]."""
    counts = [Count(math.reshape(value.length(), [])) if isinstance(value, Elements) else value for value in start]
    with tape.no_grad():
        try:
            with _names_free():
                after = run(counts)[1]
        except ElementsNeededError:
            with _names_free():
                after = run(start)[1]
        return [value.length() for value in after]


@contextmanager
def _inside(arrays: Sequence[Variable], values: Sequence[ArrayContents]) -> Iterator[_Body]:
    _bodies.append(_Body(arrays, values))
    try:
        yield _bodies[-1]
    finally:
        _bodies.pop()


@contextmanager
def _names_free() -> Iterator[None]:
    """Names that are taken inside are free again, so that the loop proper makes the same parameters."""
    counters, _ = unique_name.switch()
    unique_name.switch(counters)
    with unique_name.guard(counters.copy()):
        yield


def _written(functions: Sequence[Callable[[], Any]]) -> list[Variable]:
    """The arrays that functions write to when they are run in a body; none is run where the program has no array."""
    recorder: Any = dispatch.active_trace()
    program = getattr(getattr(recorder, "outer", recorder), "program", None)
    if program is None or not any(v.is_tensor_array for v in program().list_vars()):
        return []
    found: dict[str, Variable] = {}
    bodies = recorder if hasattr(recorder, "inside") else recorder.bodies()
    for function in functions:
        with _names_free(), _inside((), ()) as body, bodies.inside(CapturedBody()):
            function()
        found |= body.written
    return list(found.values())
