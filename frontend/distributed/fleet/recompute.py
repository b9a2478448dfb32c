"""Recomputation: a segment of a model that keeps only what it takes, and runs again when its gradients are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyreme import dispatch, tape
from polyreme.casting.state import current, within
from polyreme.function_steps import record_function
from polyreme.jit.structure import flatten, unflatten
from polyreme.nn.container import Sequential
from polyreme.random import default_generator
from polyreme.static.mode import in_dynamic_mode
from polyreme.tensor import Tensor

__all__ = ["recompute", "recompute_sequential"]


def recompute(function: Callable[..., Any], *args: Any, preserve_rng_state: bool = True, use_reentrant: bool = True, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, of which nothing is kept for gradients but its arguments: it runs once more for these.

    Arguments and results may have tensors in lists, tuples and dicts; tensors that it reads from elsewhere get their gradients, too. With
    `preserve_rng_state` the second run draws the numbers of the first one. `use_reentrant` chooses between Paddle's ways to do this and
    changes nothing here. What the function writes, such as the running mean of a batch norm, it writes twice, as in Paddle. In a compiled
    function the backward half has the second run in it.
    """
    if not tape.is_grad_enabled() or not in_dynamic_mode():
        return function(*args, **kwargs)
    # What the function reads from elsewhere is found on the tape: its steps are there at once.
    with dispatch.at_once():
        return _recomputed(function, args, kwargs, preserve_rng_state)


def _recomputed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], preserve_rng_state: bool) -> Any:
    given: list[Tensor] = []
    template = flatten((args, kwargs), given, lambda v: isinstance(v, Tensor))
    segment = _RecomputedSegment(function, template, given, preserve_rng_state)
    drawn_from = default_generator().state._value
    result, outputs = segment.run([_apart(t) for t in given])
    if default_generator().state._value is drawn_from:
        segment.state = None  # it draws nothing
    outer = tape.inputs_since(outputs, segment.started)
    inputs = [*given, *outer]
    segment.outer, segment.versions = outer, [t._version for t in inputs]
    needing = [not o.stop_gradient for o in outputs]
    if not any(needing):
        return result
    results = [Tensor._wrap(o._value, o._type) for o in outputs]
    recorder = dispatch.active_trace()
    if recorder is not None:
        results = list(
            recorder.custom_gradient(
                results, inputs, segment.gradients, None, f"the second run of '{getattr(function, '__name__', type(function).__name__)}'"
            )
        )
        for r in results:
            r.stop_gradient = True
    record_function(inputs, results, segment.gradients, "recompute", needing)
    return unflatten(flatten(result, [], lambda v: isinstance(v, Tensor)), iter(results))


class _RecomputedSegment:
    """A call of a function that can run again."""

    def __init__(self, function: Callable[..., Any], template: Any, given: Sequence[Tensor], draws_again: bool):
        self.function, self.template, self.given = function, template, given
        self.versions: list[int] = []
        self.outer: list[Tensor] = []
        self.started = tape.now()
        self.casting = current()
        state = default_generator().state
        self.state: Tensor | None = None
        if draws_again:
            self.state = dispatch.alias(state)

    def run(self, tensors: Sequence[Tensor]) -> tuple[Any, list[Tensor]]:
        """What the function returns, and the tensors in it."""
        args, kwargs = unflatten(self.template, iter(tensors))
        result = self.function(*args, **kwargs)
        outputs: list[Tensor] = []
        flatten(result, outputs, lambda v: isinstance(v, Tensor))
        return result, outputs

    def gradients(self, *grads: Tensor | None) -> list[Tensor | None]:
        """The gradients of what was given, and of the tensors from outside, by a second run."""
        for tensor, version in zip((*self.given, *self.outer), self.versions, strict=True):
            if tensor._version != version:
                raise RuntimeError(tape.changed_in_place(f"{tensor.name}, which a recomputed function reads,", tensor._version, version))
        again = tape.is_grad_enabled()
        # Gradients that have gradients themselves have to lead to the arguments, others only to their places.
        tensors = list(self.given) if again else [_apart(t) for t in self.given]
        generator, state = default_generator(), self.state
        now = Tensor._wrap(generator.state._value, generator.state._type)
        started = tape.now()
        try:
            with tape.recording(True), within(self.casting):
                if state is not None:
                    _set(generator.state, state)
                _, outputs = self.run(tensors)
        finally:
            if state is not None:
                _set(generator.state, now)
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None and not o.stop_gradient]
        # What is given twice has one gradient.
        wanted: dict[Any, Tensor] = {}
        places = [tape.place_of(t) if not t.stop_gradient else None for t in (*tensors, *self.outer)]
        for place, tensor in zip(places, (*tensors, *self.outer), strict=True):
            if place is not None:
                wanted.setdefault(place, tensor)
        found = dict(
            zip(
                wanted,
                tape.gradients_since(started, [o for o, _ in pairs], [g for _, g in pairs], list(wanted.values()), again),
                strict=True,
            )
        )
        return [found.pop(place, None) if place is not None else None for place in places]


def _apart(tensor: Tensor) -> Tensor:
    """A leaf with the same contents."""
    leaf = tensor.detach()
    leaf.stop_gradient = tensor.stop_gradient
    return leaf


def _set(state: Tensor, value: Tensor) -> None:
    with tape.recording(False):
        dispatch.assign(state, value)


def recompute_sequential(ctx: Mapping[str, Any], functions: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the functions one after the other, in `ctx["segments"]` segments (1 by default), all but the last one of which are recomputed.

    `functions` are a `Sequential` or a list; the first one takes `args` and each later one what the one before it returns.
    """
    chain = list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    segments = ctx.get("segments", 1)
    if not 1 <= segments <= max(len(chain), 1):
        raise ValueError(f"expected from 1 to {len(chain)} segments, as there are functions, but got {segments}")
    size = len(chain) // segments
    value: Any = args
    for number in range(segments - 1):
        value = (
            recompute(
                _in_turn(chain[number * size : (number + 1) * size]),
                *value,
                preserve_rng_state=ctx.get("preserve_rng_state", True),
                **kwargs,
            ),
        )
    return _in_turn(chain[(segments - 1) * size :])(*value)


def _in_turn(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        value: Any = args
        for function in functions:
            value = (function(*value),)
        return value[0]

    return run
