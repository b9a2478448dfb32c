"""`ExponentialMovingAverage`: parameters as they were on average, for evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyreme import dispatch
from polyreme import math as functions
from polyreme.static.current import default_main_program, default_startup_program, program_guard
from polyreme.static.mode import in_dynamic_mode
from polyreme.static.operator import OpRole
from polyreme.static.program import Program
from polyreme.static.startup import startup_constant
from polyreme.static.variable import Variable
from polyreme.tape import no_grad
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown

__all__ = ["ExponentialMovingAverage"]

STEPS = "@EMA_STEP_COUNTER@"
RATE = "scheduled_ema_decay_rate"


class ExponentialMovingAverage(Shown):
    """Averages of the parameters of the default main program: average = decay * average + (1 - decay) * parameter at every `update`.

    With `thres_steps`, a variable that counts steps t, the decay is at most (1 + t) / (10 + t). Averages start as zeros, and `apply`
    divides by 1 - decay ** steps for it. Parameters with `do_model_average=False` are left out.
    """

    def __init__(self, decay: float = 0.999, thres_steps: Any = None, name: str | None = None):
        if in_dynamic_mode():
            raise RuntimeError("In dygraph, don't support ExponentialMovingAverage.")
        self._decay, self._thres_steps, self._name = decay, thres_steps, name or ""
        main = default_main_program()
        with main._lr_schedule_guard(), no_grad():
            self._rate = self._persistent(RATE, [1], "float32", decay)
            if thres_steps is not None:
                limit = (thres_steps.astype("float32") + 1.0) / (thres_steps.astype("float32") + 10.0)
                chosen = functions.minimum(functions.reshape(limit, [1]), functions.full([1], decay, "float32"))
                dispatch.assign(self._rate, chosen)
        self._steps = self._persistent(STEPS, [1], "int64", 0)
        averaged = [p for p in main.global_block().all_parameters() if p.do_model_average is not False]
        self._averages = {
            p.name: self._persistent(unique_name.generate(f"{self._name}{p.name}_ema"), list(p.shape), p.dtype, 0.0) for p in averaged
        }
        self._kept = {p.name: unique_name.generate(f"{self._name}{p.name}.ema_tmp") for p in averaged}
        self._parameters = averaged
        self.apply_program, self.restore_program = Program(), Program()
        self._build_apply()
        self._build_restore()

    @staticmethod
    def _persistent(name: str, shape: list[int], dtype: Any, value: float) -> Variable:
        return startup_constant(default_main_program().global_block(), default_startup_program().global_block(), name, shape, dtype, value)

    def _build_apply(self) -> None:
        block = self.apply_program.global_block()
        with program_guard(self.apply_program, Program()), no_grad():
            steps, rate = (block.clone_variable(v) for v in (self._steps, self._rate))
            missing = 1.0 - functions.pow(rate, steps.astype("float32"))
            for parameter in self._parameters:
                own = block.clone_variable(parameter)
                average = block.clone_variable(self._averages[parameter.name])
                kept = block.create_var(self._kept[parameter.name], list(parameter.shape), parameter.dtype, persistable=True)
                dispatch.assign(kept, functions.assign(own))
                share = functions.where(steps > 0, missing, functions.ones_like(missing)).astype(parameter.dtype)
                dispatch.assign(own, average / share)

    def _build_restore(self) -> None:
        block = self.restore_program.global_block()
        with program_guard(self.restore_program, Program()), no_grad():
            for parameter in self._parameters:
                kept = block.create_var(self._kept[parameter.name], list(parameter.shape), parameter.dtype, persistable=True)
                dispatch.assign(block.clone_variable(parameter), functions.assign(kept))

    def update(self) -> None:
        """Append the update of the averages to the training program, behind the optimizer's operators."""
        main = default_main_program()
        with no_grad():
            with main.role(OpRole.Optimize):
                dispatch.assign(self._steps, self._steps + 1)
            for parameter in self._parameters:
                average = self._averages[parameter.name]
                with main.role(OpRole.Optimize, [parameter, average]):
                    rate = self._rate.astype(parameter.dtype)
                    dispatch.assign(average, average * rate + parameter * (1.0 - rate))

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """The averages as parameters inside the `with`; they are put back behind it unless `need_restore` is False."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Put the parameters back as they were before `apply`."""
        executor.run(self.restore_program)
