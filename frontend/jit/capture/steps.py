"""Steps of training in a function that is captured: `backward`, gradients that are read, set and cleared, optimizers and schedules.

What they do becomes a part of the program: an optimizer's update is made of ops, its state and the parameters are tensors that the program
writes to, and its rate, which Python knows, is an argument. A guard says that the optimizer is what it was but for the contents of its
state and its rate (`Optimizer.signature`).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from polyreme import dispatch, tape
from polyreme.amp.grad_scaler import AmpScaler
from polyreme.ir.core import Value
from polyreme.jit.capture.branches import Branches
from polyreme.jit.capture.effects import snapshot
from polyreme.jit.capture.kinds import CONSTANTS, is_ours, lookup, module_name
from polyreme.jit.capture.leaf_gradients import LeafGradients
from polyreme.jit.capture.sources import Computed
from polyreme.jit.capture.trace import Trace
from polyreme.jit.capture.watched import ChangingNumber, NotWhole
from polyreme.optimizer.lr import LRScheduler
from polyreme.optimizer.optimizer import Optimizer
from polyreme.tensor import Tensor

__all__ = ["GRADIENT_FUNCTIONS", "GRADIENT_METHODS", "SCALER_METHODS", "Steps"]

GRADIENT_METHODS = frozenset({"backward", "clear_grad", "clear_gradient", "zero_grad"})
SCALER_METHODS = frozenset({"_divide", "_update", "_warn_of"})
# Functions of the framework that are watched as the user's own: they look at gradients.
GRADIENT_FUNCTIONS = frozenset({"clip_grad_norm_", "clip_grad_value_", "_gradients"})
# Methods of optimizers for subclasses of one's own, which look at nothing but the optimizer.
_FOR_SUBCLASSES = frozenset({
    "_add_accumulator", "_append_optimize_op", "_create_accumulators", "_create_param_lr", "_finish_update", "_get_accumulator",
    "_get_accumulator_master", "_global_learning_rate", "_is_dtype_fp16_or_bf16", "_prefixed", "_update_param_group",
})  # fmt: skip
_TO_BE_OVERRIDDEN = _FOR_SUBCLASSES | {"clear_grad", "clear_gradients", "minimize", "rule", "step", "state_dict", "set_state_dict"}
# Whose steps are made of ops where they are recorded.
_RECORDED = frozenset({f"polyreme.optimizer.{name}" for name in ("algorithms", "optimizer", "protocol")})


class Steps(Branches):
    """What the twin of one function does to gradients, and by optimizers."""

    __slots__ = ()

    def _gradients(self, what: str) -> LeafGradients:
        """The gradients of leaves in this capture, which `what` is about to read or change."""
        trace = dispatch.active_trace()
        if not isinstance(trace, Trace) or trace.gradients is None:
            raise NotWhole(f"{what} is used")
        if self.state.born:
            raise NotWhole(f"{what} is used in a branch, a loop or a rule of gradients of the program")
        return trace.gradients

    def gradient_of(self, held: Tensor) -> Tensor | None:
        """`held.grad`."""
        gradients = self._gradients("'Tensor.grad'")
        if gradients.is_outside(held):
            gradients.look(held)
        return held._grad

    def make_leaf(self, held: Tensor) -> None:
        """`held.stop_gradient = False`, of a tensor that the function has made: that is for gradients which the function takes itself."""
        what = "a tensor that was made inside the function is to get gradients"
        trace = dispatch.active_trace()
        if not isinstance(trace, Trace) or trace.gradients is None or self.state.born or held._node is not None or held._view is not None:
            raise NotWhole(what)
        trace.gradients.made[id(held)] = held

    def set_gradient(self, held: Tensor, value: Any) -> None:
        """`held.grad = value`."""
        gradients = self._gradients("'Tensor.grad'")
        gradients.look(held)
        held.grad = value

    def of_gradients(self, held: Tensor, plain: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One of the `GRADIENT_METHODS`."""
        gradients = self._gradients(f"'Tensor.{plain.__name__}'")
        if plain.__name__ == "backward":
            self.send_back([held], lambda: plain(held, *args, **kwargs))
        elif gradients.is_outside(held):
            gradients.clear(held, *args, **kwargs) if args or kwargs else gradients.clear(held, True)
        else:
            plain(held, *args, **kwargs)

    def send_back(self, outputs: list[Tensor], run: Any) -> None:
        """`run`, which sends gradients back from `outputs`."""
        gradients = self._gradients("'backward'")
        gradients.check_graph(outputs)
        gradients.trains = True
        run()

    def check_behind(self, outputs: Any, inputs: Any) -> None:
        """Before gradients of `outputs` with respect to `inputs` are taken: all steps on the way belong to the capture."""
        trace = dispatch.active_trace()
        if isinstance(trace, Trace) and tape.goes_behind(trace.start, outputs, inputs):
            raise NotWhole("gradients go on to what was computed before the call")

    # --- optimizers

    def of_optimizer(self, optimizer: Optimizer, plain: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method that optimizers have from the framework."""
        name = plain.__name__
        if module_name(plain) not in _RECORDED:
            raise NotWhole(f"'{type(optimizer).__name__}.{name}' is called")
        if name in _FOR_SUBCLASSES:
            self._check_known(optimizer)
            return plain(optimizer, *args, **kwargs)
        gradients = self._gradients(f"'{type(optimizer).__name__}.{name}'")
        if name == "set_lr":
            self._set_rate(optimizer, gradients, plain, args, kwargs)
            return None
        if name == "get_lr" and id(optimizer) in gradients.set_rates:
            return gradients.set_rates[id(optimizer)]
        if name == "get_lr":
            if isinstance(optimizer._learning_rate, LRScheduler):
                self.check_schedule(optimizer._learning_rate)
            scheduled = isinstance(optimizer._learning_rate, LRScheduler)
            return self._rate(optimizer, optimizer.get_lr, f"the rate of {type(optimizer).__name__}", scheduled)
        if name in ("clear_grad", "clear_gradients"):
            self._check_known(optimizer)
            set_to_zero = kwargs.get("set_to_zero", args[0] if args else True)
            for parameter in optimizer._parameter_list:
                gradients.clear(parameter, bool(set_to_zero))
            return None
        if name == "step" and not args and not kwargs:
            return self._step(optimizer, plain, gradients)
        if name == "minimize" and not optimizer._is_of_ones_own():
            return self._by_ops(optimizer, gradients, lambda: plain(optimizer, *args, **kwargs))
        if name == "minimize" and len(args) == 1 and not kwargs:
            self._step(optimizer, plain, gradients)
            return None, optimizer._with_gradients(optimizer._parameter_list)
        raise NotWhole(f"'{type(optimizer).__name__}.{name}' is called")

    def _set_rate(
        self, optimizer: Optimizer, gradients: LeafGradients, plain: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """`set_lr`, by a number that Python knows before the call: so is the rate of the steps that follow."""
        self._check_known(optimizer)
        numbers = [*args, *kwargs.values()]
        if len(numbers) != 1 or type(numbers[0]) not in (int, float, ChangingNumber) or isinstance(optimizer._learning_rate, LRScheduler):
            raise NotWhole(f"'{type(optimizer).__name__}.set_lr' is called with something else than a number, or beside a schedule")
        self.state.journal.before(optimizer)
        rate = self.state.computed(float, numbers[0]) if type(numbers[0]) is ChangingNumber else float(numbers[0])
        plain(optimizer, rate.value if type(rate) is ChangingNumber else rate)
        gradients.set_rates[id(optimizer)] = rate
        self.state.effect("method", optimizer, "set_lr", rate)

    def _rate(self, owner: Any, make: Callable[[], float], name: str, changes: bool) -> Any:
        """A rate that is read as a number, which changes where a schedule decides it."""
        key = "rate", id(owner), name
        if key not in self.state.read:
            self.state.read[key] = self.state.take(make(), Computed(make, name), changes)
        return self.state.read[key]

    def _check_known(self, optimizer: Optimizer) -> None:
        """The optimizer is one from outside, and the same at each call."""
        state = self.state
        source = state.sources.get(id(optimizer))
        kind = type(optimizer)
        if source is None:
            raise NotWhole(f"a {kind.__name__} is made inside the function")
        if any(held == id(optimizer) for held, _ in state.written):
            raise NotWhole(f"an attribute of a {kind.__name__} is set")
        if ("optimizer", id(optimizer)) in state.read:
            return
        state.read["optimizer", id(optimizer)] = optimizer
        state.guard(source, "{0} is {1}", optimizer, message=f"is the same {kind.__name__}")
        for parameter in optimizer._parameter_list:
            place = state.sources.get(id(parameter))
            if place is not None:
                state.guard(place, "{0} is {1}", parameter, message=f"is the parameter '{parameter.name}'")
        state.note_optimizer(optimizer)

    def _step(self, optimizer: Optimizer, plain: types.FunctionType, gradients: LeafGradients) -> None:
        if not optimizer._is_of_ones_own():
            self._by_ops(optimizer, gradients, lambda: plain(optimizer))
            return

        def run() -> None:
            with tape.recording(False):
                for group in optimizer._groups:
                    optimizer._step_of_ones_own(optimizer._with_gradients(group["params"]), group, self.call)

        self._by_ops(optimizer, gradients, run)

    def _by_ops(self, optimizer: Optimizer, gradients: LeafGradients, run: Any) -> Any:
        """A step: `run` has the framework's own code record it."""
        self._check_known(optimizer)
        said = type(optimizer).__name__
        changed = [name for base in type(optimizer).__mro__ if not is_ours(base) for name in vars(base) if hasattr(Optimizer, name)]
        if any(name not in _TO_BE_OVERRIDDEN and not name.startswith("__") for name in changed):
            raise NotWhole(f"'{said}.step' is called, of which a part is overridden")
        own = [optimizer._grad_clip, optimizer._weight_decay]
        own += [group.get(name) for group in optimizer._groups for name in ("grad_clip", "weight_decay")]
        own += [getattr(parameter, "regularizer", None) for parameter in optimizer._parameter_list]
        if any(part is not None and type(part) not in CONSTANTS and not is_ours(type(part)) for part in own):
            raise NotWhole(f"'{said}.step' is called, with a clip or a decay of one's own")
        if gradients.scheduled:
            raise NotWhole(f"'{said}.step' is called when a schedule has taken a step")
        for parameter in optimizer._parameter_list:
            if not parameter.stop_gradient:
                gradients.look(parameter)
            if isinstance(parameter._value, Value) and parameter._grad is not None and optimizer._lacks_master_weight(parameter):
                raise NotWhole(f"'{said}.step' makes the master weight of '{parameter.name}', which the function has written to before")
        gradients.trains = True
        if optimizer._is_of_ones_own():
            return run()
        with gradients.trace.at_one_place():
            return run()

    # --- scaled losses

    def of_scaler(self, scaler: AmpScaler, plain: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """One of the `SCALER_METHODS`. Gradients of the program are finite, and the scale moves when it has run."""
        gradients = self._gradients(f"'{type(scaler).__name__}' on")
        if plain.__name__ != "_divide":
            if plain.__name__ == "_update":
                gradients.scaled.append(scaler)
            self.state.effect("method", scaler, plain.__name__, *args)
            return None
        (optimizer,) = args
        self._check_known(optimizer)
        for parameter in optimizer._parameter_list:
            gradients.look(parameter)
        self.attribute(scaler, "_scale")  # it is found there at each call
        gradients.trains = True
        return plain(scaler, optimizer)

    def check_scale(self, scaler: AmpScaler) -> None:
        """Before one of its other methods is called, which are watched as the user's own."""
        trace = dispatch.active_trace()
        if isinstance(trace, Trace) and trace.gradients is not None and any(moved is scaler for moved in trace.gradients.scaled):
            raise NotWhole(f"a {type(scaler).__name__} is used when its scale has moved")

    def of_schedule(self, schedule: LRScheduler, plain: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of a schedule: its step is taken when the program has run."""
        gradients = self._gradients(f"'{type(schedule).__name__}.{plain.__name__}'")
        if plain.__name__ in ("__call__", "get_lr") and self.state.is_outside(schedule) and not args and not kwargs:
            self.check_schedule(schedule)
            self.class_guard(type(schedule), plain.__name__)
            return self._rate(schedule, getattr(schedule, plain.__name__), f"the rate of {type(schedule).__name__}", True)
        known = is_ours(lookup(type(schedule), "step")[0]) and self.state.is_outside(schedule)
        if plain.__name__ != "step" or not known or any(type(value) not in CONSTANTS and not isinstance(value, Tensor) for value in args):
            raise NotWhole(f"'{type(schedule).__name__}.{plain.__name__}' is called")
        if kwargs:
            raise NotWhole(f"'{type(schedule).__name__}.step' is called with keywords")
        gradients.scheduled = True
        self.state.effect("method", schedule, "step", *[snapshot(value) if isinstance(value, Tensor) else value for value in args])
        return None

    def check_schedule(self, schedule: LRScheduler) -> None:
        """Before something of a schedule is read: it has not taken a step, since that is done when the program has run."""
        trace = dispatch.active_trace()
        if isinstance(trace, Trace) and trace.gradients is not None and trace.gradients.scheduled:
            raise NotWhole(f"a {type(schedule).__name__} is looked at when a schedule has taken a step")
