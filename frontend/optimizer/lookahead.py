"""LookAhead: slow weights that follow those of another optimizer every few steps."""

from __future__ import annotations

from typing import Any

from polyreme import tape
from polyreme.optimizer.optimizer import Optimizer
from polyreme.tensor import Tensor

__all__ = ["LookAhead"]


class LookAhead(Optimizer):
    """Steps of `inner_optimizer`; every `k` of them, weights become `alpha` * weights + (1 - `alpha`) * slow weights, and the slow weights
    the same. Those are what the weights were after the first step.
    """

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5, name: str | None = None):
        if not isinstance(inner_optimizer, Optimizer):
            raise TypeError(f"expected an optimizer for inner_optimizer but got {type(inner_optimizer).__name__}")
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"expected alpha in [0, 1] but got {alpha}")
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ValueError(f"expected k to be a whole number from 1 on but got {k}")
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k
        self._taken = 0
        super().__init__(learning_rate=alpha, parameters=inner_optimizer._parameter_list, name=name)

    def step(self) -> None:
        """A step of the inner optimizer, and of the slow weights if it is their turn."""
        moved = [p for p in self._parameter_list if not p.stop_gradient and p.grad is not None]
        self.inner_optimizer.step()
        self._follow(moved)

    def minimize(self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None) -> Any:
        """As `step`, with the gradients that `loss.backward()` has left."""
        moved = [p for p in self._parameter_list if not p.stop_gradient and p.grad is not None]
        done = self.inner_optimizer.minimize(loss, startup_program, parameters, no_grad_set)
        self._follow(moved)
        return done

    def _follow(self, moved: list[Any]) -> None:
        self._taken += 1
        kept = self._accumulators.get(self._prefixed("slow"), {})
        with tape.recording(False):
            for parameter in moved:
                is_new = self._taken == 1 or parameter.name not in kept
                slow = self._add_accumulator("slow", parameter)
                if is_new:
                    slow.set_value(parameter)
                if self._taken % self.k == 0:
                    mixed = self.alpha * parameter + (1.0 - self.alpha) * slow
                    parameter.set_value(mixed)
                    slow.set_value(mixed)
