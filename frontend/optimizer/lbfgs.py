"""L-BFGS: steps along an approximation of Newton's direction, from the last differences of weights and gradients.

Nocedal and Wright, "Numerical optimization", second edition: algorithm 7.4 (the two loops), 3.5 and 3.6 (the search along the direction),
formula 3.59 (the cubic).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.optimizer.optimizer import Optimizer, _overwrite
from polyreme.optimizer.rules import Rule
from polyreme.tensor import Tensor

__all__ = ["LBFGS"]

Array = np.ndarray[Any, Any]

SUFFICIENT, FLAT = 1e-4, 0.9  # the constants of the strong Wolfe conditions: how far the loss must fall, and how much flatter it must be
MOST_TRIALS = 25
LEAST_CURVATURE = 1e-10  # differences below it say nothing of the curvature, and are not remembered


@dataclass(frozen=True)
class _Point:
    """A place along the direction: how far, and there the loss, the gradient, and the slope along the direction."""

    step: float
    loss: float
    gradient: Array
    slope: float


@dataclass
class _Memory:
    """What a step leaves for the next one."""

    steps: int = 0
    evaluations: int = 0
    direction: Array | None = None
    length: float = 0.0
    gradient: Array | None = None
    moves: list[Array] = field(default_factory=list)  # differences of weights
    changes: list[Array] = field(default_factory=list)  # differences of gradients
    scale: float = 1.0


class LBFGS(Optimizer):
    """Limited-memory BFGS. `step(closure)` runs up to `max_iter` of its steps; `closure()` clears the gradients, computes the loss, goes
    backward and returns the loss.

    Without a `line_search_fn` each step has length `learning_rate` (the first at most 1 over the sum of the gradient's magnitudes, times
    that); "strong_wolfe" searches for one that satisfies the strong Wolfe conditions. `max_eval` evaluations at most (1.25 times `max_iter`
    for None). Ends early when no gradient is over `tolerance_grad`, or steps and loss change by less than `tolerance_change`. Weight decay
    and clipping are for the closure to do.
    """

    rule = Rule((), lambda *_: (None, {}))

    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        history_size: int = 100,
        line_search_fn: str | None = None,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"expected line_search_fn None or 'strong_wolfe' but got {line_search_fn!r}")
        if len(self._groups) != 1:
            raise ValueError("LBFGS expected one list of parameters but got groups of them")
        self._max_iter, self._history_size, self._searches = max_iter, history_size, line_search_fn is not None
        self._max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self._tolerance_grad, self._tolerance_change = tolerance_grad, tolerance_change
        self._memory = _Memory()

    @tape.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:
        """Run the steps; returns the loss at their start."""
        if closure is None:
            raise TypeError("LBFGS.step() expected a closure that computes the loss and its gradients")
        memory = self._memory

        def evaluate() -> Tensor:
            memory.evaluations += 1
            with tape.enable_grad():
                return closure()

        before = memory.evaluations
        first = evaluate()
        loss, gradient = float(first), self._flat_gradient()
        if np.abs(gradient).max(initial=0.0) <= self._tolerance_grad:
            return first
        for number in range(1, self._max_iter + 1):
            direction = self._direction(gradient)
            length = self.get_lr() * (min(1.0, 1.0 / float(np.abs(gradient).sum())) if memory.steps == 1 else 1.0)
            slope = float(gradient @ direction)
            memory.direction, memory.gradient, memory.length = direction, gradient, length
            if slope > -self._tolerance_change:
                break
            last = loss
            start = self._flat_weights()
            if self._searches:
                here = _Point(0.0, loss, gradient, slope)

                def trial(step: float, start: Array = start, direction: Array = direction) -> _Point:
                    self._set_weights(start + step * direction)
                    value = float(evaluate())
                    found = self._flat_gradient()
                    return _Point(step, value, found, float(found @ direction))

                end = _search(trial, here, length, float(np.abs(direction).max()), self._tolerance_change)
                memory.length, loss, gradient = end.step, end.loss, end.gradient
                self._set_weights(start + end.step * direction)
            else:
                self._set_weights(start + length * direction)
                if number == self._max_iter:
                    break
                loss, gradient = float(evaluate()), self._flat_gradient()
            settled = np.abs(gradient).max() <= self._tolerance_grad or np.abs(memory.length * direction).max() <= self._tolerance_change
            if settled or abs(loss - last) < self._tolerance_change or memory.evaluations - before >= self._max_eval:
                break
        return first

    def _direction(self, gradient: Array) -> Array:
        """Minus the approximate inverse Hessian times the gradient, after what the last step told is remembered."""
        memory = self._memory
        memory.steps += 1
        if memory.direction is None or memory.gradient is None:
            return -gradient
        change, move = gradient - memory.gradient, memory.direction * gradient.dtype.type(memory.length)
        curvature = float(change @ move)
        if curvature > LEAST_CURVATURE:
            if len(memory.moves) == self._history_size:
                del memory.moves[0], memory.changes[0]
            memory.moves.append(move)
            memory.changes.append(change)
            memory.scale = curvature / float(change @ change)
        result = -gradient
        weights = []
        for move, change in zip(reversed(memory.moves), reversed(memory.changes)):
            weights.append(float(move @ result) / float(change @ move))
            result = result - gradient.dtype.type(weights[-1]) * change
        result = result * gradient.dtype.type(memory.scale)
        for move, change, weight in zip(memory.moves, memory.changes, reversed(weights)):
            result = result + gradient.dtype.type(weight - float(change @ result) / float(change @ move)) * move
        return result

    # --- all parameters as one vector

    def _trained(self) -> list[Any]:
        return [p for p in self._parameter_list if not p.stop_gradient]

    def _flat_gradient(self) -> Array:
        return np.concatenate([np.zeros(p.size, p._value.dtype) if p.grad is None else p.grad._value.ravel() for p in self._trained()])

    def _flat_weights(self) -> Array:
        return np.concatenate([p._value.ravel() for p in self._trained()])

    def _set_weights(self, values: Array) -> None:
        for parameter in self._trained():
            part, values = values[: parameter.size], values[parameter.size :]
            _overwrite(parameter, part.reshape(parameter._value.shape))

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """The memory of the last steps under "state"."""
        return {"state": {k: list(v) if isinstance(v, list) else v for k, v in vars(self._memory).items()}}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on with what `state_dict` gave."""
        self._memory = _Memory(**state_dict["state"])

    def minimize(self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None) -> Any:
        """Not for this optimizer, which evaluates the loss more than once: see `step`."""
        raise NotImplementedError("expected LBFGS.step(closure): minimize(loss) cannot evaluate the loss again")


def _search(trial: Callable[[float], _Point], start: _Point, step: float, reach: float, tolerance: float) -> _Point:
    """A point that satisfies the strong Wolfe conditions, or the best one met. `reach` is the largest element of the direction."""

    def falls_short(point: _Point) -> bool:
        return point.loss > start.loss + SUFFICIENT * point.step * start.slope

    def is_flat(point: _Point) -> bool:
        return abs(point.slope) <= -FLAT * start.slope

    before, now = start, trial(step)
    for tries in range(MOST_TRIALS):
        if falls_short(now) or tries > 1 and now.loss >= before.loss or now.slope >= 0 and not is_flat(now):
            break
        if is_flat(now):
            return now
        further = (now.step + 0.01 * (now.step - before.step), now.step * 10)
        before, now = now, trial(_cubic_minimum(before, now, further))
    else:
        return start if start.loss <= now.loss else now
    low, high = sorted((before, now), key=lambda p: p.loss)
    return _zoom(trial, low, high, falls_short, is_flat, reach, tolerance, MOST_TRIALS - tries)


def _zoom(
    trial: Callable[[float], _Point],
    low: _Point,
    high: _Point,
    falls_short: Callable[[_Point], bool],
    is_flat: Callable[[_Point], bool],
    reach: float,
    tolerance: float,
    tries: int,
) -> _Point:
    """Narrow the interval between `low` (the lower loss) and `high`, which holds a point that will do."""
    stuck = False
    for _ in range(tries):
        if abs(high.step - low.step) * reach < tolerance:
            break
        least, most = sorted((low.step, high.step))
        step = _cubic_minimum(low, high, (least, most))
        margin = 0.1 * (most - least)
        # Near an end twice in a row, or at it: move inside, or the interval would hardly shrink.
        if min(most - step, step - least) < margin:
            inside = not (stuck or step >= most or step <= least)
            if not inside:
                step = most - margin if abs(step - most) < abs(step - least) else least + margin
            stuck = inside
        else:
            stuck = False
        new = trial(step)
        if falls_short(new) or new.loss >= low.loss:
            low, high = sorted((low, new), key=lambda p: p.loss)
            continue
        if is_flat(new):
            return new
        if new.slope * (high.step - low.step) >= 0:
            high = low
        low = new
    return low


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[float, float]) -> float:
    """Where the cubic through two points, with their slopes, is least, within the bounds; their middle where it has no minimum."""
    if a.step > b.step:
        a, b = b, a
    tilt = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    inner = tilt**2 - a.slope * b.slope
    if inner < 0:
        return (bounds[0] + bounds[1]) / 2
    root = math.sqrt(inner)
    divisor = b.slope - a.slope + 2 * root
    place = b.step - (b.step - a.step) * ((b.slope + root - tilt) / divisor) if divisor else math.inf
    return min(max(place, bounds[0]), bounds[1])
