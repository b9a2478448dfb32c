"""Optimizers around another one: slow weights (Lookahead), and a backward that keeps only checkpoints (Recompute)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.fluid import layers
from polyreme.fluid.framework import Program, Variable, default_startup_program, in_dygraph_mode
from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["LookaheadOptimizer", "RecomputeOptimizer"]

Pairs = Sequence[tuple[Any, Any]]


class LookaheadOptimizer(Shown):
    """Every `k` steps of `inner_optimizer` both the parameters and their slow copies, `NAME@SLOW`, become alpha * parameter + (1 - alpha) *
    slow copy (Zhang et al., "Lookahead optimizer: k steps forward, 1 step back").
    """

    type = "lookahead"

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5):
        if in_dygraph_mode():
            raise Exception("In dygraph, don't support LookaheadOptimizer.")
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert 0.0 <= alpha <= 1.0, "alpha should be larger or equal to 0.0, and less or equal than 1.0"
        assert isinstance(k, int) and k > 0, "k should be a positive integer"
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, alpha, k

    def minimize(self, loss: Any, startup_program: Program | None = None) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """As the inner optimizer's, with the slow copies behind it."""
        made: tuple[list[Any], list[tuple[Any, Any]]] = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        main, startup = loss.block, (startup_program or default_startup_program()).global_block()
        pairs = []
        for fast in main.all_parameters():
            name = f"{fast.name}@SLOW"
            slow = main.create_var(name=name, shape=fast.shape, dtype=fast.dtype, persistable=True)
            first = startup.create_var(name=name, shape=fast.shape, dtype=fast.dtype, persistable=True)
            startup.append_op(type="assign", inputs={"X": startup.var(fast.name)}, outputs={"Out": first})
            pairs.append((fast, slow))
        period = layers.create_global_var([1], self.k, "int32", True, name="lookahead_k")
        alpha = layers.create_global_var([1], float(self.alpha), "float32", True, name="lookahead_alpha")
        step = layers.create_global_var([1], 0, "int32", True, name="lookahead_step")
        layers.increment(step, 1.0, in_place=True)
        zero, one = layers.fill_constant([1], "int32", 0), layers.fill_constant([1], "float32", 1.0)
        with layers.Switch() as switch, switch.case(layers.equal(layers.elementwise_mod(step, period), zero)):
            for fast, slow in pairs:
                kept = layers.elementwise_mul(slow, layers.elementwise_sub(one, alpha))
                both = layers.elementwise_add(layers.elementwise_mul(fast, alpha), kept)
                layers.assign(both, output=slow)
                layers.assign(both, output=fast)
        return made


class RecomputeOptimizer(Shown):
    """An optimizer whose backward computes again what lies between checkpoints. Which values are kept is the compiler's choice here, so the
    results are those of `optimizer`, whatever the checkpoints are.
    """

    def __init__(self, optimizer: Any):
        if in_dygraph_mode():
            raise Exception("In dygraph, don't support RecomputeOptimizer.")
        self._optimizer = optimizer
        self._checkpoints: Any = None

    def _set_checkpoints(self, checkpoints: Sequence[Any]) -> None:
        """Variables between which the backward may compute again."""
        self._checkpoints = checkpoints

    def load(self, stat_dict: Any) -> None:
        """Not there, as in Paddle 1.8."""
        raise NotImplementedError("load function is not supported by Recompute Optimizer for now")

    def backward(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None, callbacks: Any = None
    ) -> list[tuple[Any, Any]]:
        """The pairs of parameter and gradient."""
        found: list[tuple[Any, Any]] = self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)
        return found

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """The updates: clips, penalties, steps."""
        found: list[Any] = self._optimizer.apply_gradients(params_grads)
        return found

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """As `apply_gradients`, into the program of `loss`."""
        found: list[Any] = self._optimizer.apply_optimize(loss, startup_program, params_grads)
        return found

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """The updates, and the pairs of parameter and gradient. Checkpoints are to be set before."""
        assert isinstance(loss, Variable), "The loss should be an Variable."
        assert self._checkpoints is not None, "You should call _set_checkpoints first"
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def current_step_lr(self) -> float:
        """The rate as it is now."""
        rate: float = self._optimizer.current_step_lr()
        return rate

    def get_opti_var_name_list(self) -> list[str]:
        """The names of the variables that the optimizer within keeps."""
        names: list[str] = self._optimizer.get_opti_var_name_list()
        return names

    def clear_gradients(self) -> None:
        """Clear the gradients of the parameters, in dygraph mode."""
        self._optimizer.clear_gradients()

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer within, in dygraph mode."""
        state: dict[str, Any] = self._optimizer.state_dict()
        return state

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Give the optimizer within its state, in dygraph mode."""
        self._optimizer.set_dict(state_dict)


__dir__ = listed(__name__)
