"""`fluid.optimizer`: each appends the gradients of a loss, and per parameter an update operator with its accumulators.

Variables are called as in Paddle 1.8: `learning_rate_0`, `fc_0.w_0_moment1_0`. A learning rate is a number or a variable (a decay of
`fluid.layers`, say), and times the rate of a `ParamAttr` where that is not 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from polyreme import dispatch, tape
from polyreme.fluid import layers
from polyreme.fluid.backward import append_backward
from polyreme.fluid.clip import BaseGradientClipAttr, append_gradient_clip_ops
from polyreme.fluid.decays import LearningRateDecay, ReduceLROnPlateau
from polyreme.fluid.executor import global_scope
from polyreme.fluid.framework import (
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    in_dygraph_mode,
    program_guard,
)
from polyreme.fluid.initializer import Constant
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.optimizer_wrappers import LookaheadOptimizer, RecomputeOptimizer
from polyreme.fluid.regularizer import append_regularization_ops
from polyreme.names import listed
from polyreme.operators.table import apply_legacy, find_legacy
from polyreme.static.bodies import check_takes_operators
from polyreme.static.variable import named_variable
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows, whole
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown

__all__ = [
    "SGD", "Adadelta", "AdadeltaOptimizer", "Adagrad", "AdagradOptimizer", "Adam", "AdamOptimizer", "Adamax", "AdamaxOptimizer",
    "DecayedAdagrad", "DecayedAdagradOptimizer", "ExponentialMovingAverage", "Ftrl", "FtrlOptimizer", "Lamb", "LambOptimizer",
    "LarsMomentum", "LarsMomentumOptimizer", "LookaheadOptimizer", "ModelAverage", "Momentum", "MomentumOptimizer", "Optimizer",
    "RMSProp", "RMSPropOptimizer", "RecomputeOptimizer", "SGDOptimizer",
]  # fmt: skip

Pairs = Sequence[tuple[Any, Any]]


class Optimizer(Shown):
    """The base of all. A subclass says its operator, its accumulators (name, slot, first value, whether it is one number) and attributes.

    Args:
        learning_rate: a number, or a variable of one element.
        parameter_list: in dygraph mode, the parameters.
        regularization: a penalty for parameters that have none of their own.
        grad_clip: a `fluid.clip.GradientClipBy…`, applied before the penalties.
    """

    type = ""
    accumulators: ClassVar[tuple[tuple[str, str, float | str, bool], ...]] = ()
    has_rate = True

    def __init__(
        self, learning_rate: Any, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None, name: str | None = None
    ):
        if not isinstance(learning_rate, (int, float, Tensor)) and not callable(learning_rate):
            raise TypeError("learning rate should be float or Variable")
        if grad_clip is not None and not isinstance(grad_clip, BaseGradientClipAttr):
            raise TypeError("'grad_clip' should be an instance of GradientClipBase's derived class")
        if in_dygraph_mode() and parameter_list is None:
            raise AttributeError("parameter_list argument given to the Optimizer should not be None in dygraph mode.")
        self._learning_rate = learning_rate
        self._rate_now: Any = None
        self._parameter_list = None if parameter_list is None else list(parameter_list)
        self.regularization = regularization
        self._grad_clip = grad_clip
        self._name = name
        self._rates: dict[int, Any] = {}
        self._accumulators: dict[str, dict[str, Any]] = {}
        self._attrs: dict[str, Any] = {}
        self._more_inputs: dict[str, Any] = {}  # by slot, the same for all parameters

    # --- rates

    def _global_learning_rate(self, program: Program | None = None) -> Any:
        """The variable of the rate in a program, None before the first `minimize`; in dygraph mode that of the last step."""
        if in_dygraph_mode():
            return self._rate_now
        return self._rates.get(id(program or default_main_program()))

    def _create_global_learning_rate(self) -> Any:
        program = default_main_program()
        known = self._rates.get(id(program))
        if known is None:
            if isinstance(self._learning_rate, Tensor):
                known = self._learning_rate
            else:
                name = unique_name.generate("learning_rate")
                known = layers.create_global_var([1], float(self._learning_rate), "float32", True, name=name)
            self._rates[id(program)] = known
        return known

    def _rate_of(self, parameter: Any) -> Any:
        """The variable of the rate of a parameter."""
        own = parameter.optimize_attr.get("learning_rate", 1.0)
        rate = self._create_global_learning_rate()
        if isinstance(own, Tensor):
            return own
        if own == 1.0:
            return rate
        with default_main_program()._lr_schedule_guard(is_with_opt=True):
            return layers.scale(rate, float(own))

    def current_step_lr(self) -> float:
        """The rate as it is now: in dygraph mode, or a number that the startup program has filled in."""
        if callable(self._learning_rate):
            # That of the last step; before the first one the decay is asked, and stays where it is.
            now = self._rate_now
            if now is None:
                given = self._learning_rate
                now = given() if isinstance(given, ReduceLROnPlateau) or not hasattr(given, "step") else given.step()
            return float(now.numpy().reshape(-1)[0] if isinstance(now, Tensor) else now)
        rate = None if in_dygraph_mode() else self._global_learning_rate()
        if rate is None:
            return float(self._learning_rate)
        found = global_scope().find_var(rate.name)
        return float(self._learning_rate if found is None or found.array is None else found.array.reshape(-1)[0])

    def set_lr(self, value: float) -> None:
        """Another rate, in the global scope, for programs that have a number as theirs."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"expected a number as the learning rate but got {type(value).__name__}")
        if isinstance(self._learning_rate, Tensor):
            raise RuntimeError("expected an optimizer with a number as its learning rate but a variable of the program says it")
        self._learning_rate = float(value)
        for rate in self._rates.values():
            if global_scope().find_var(rate.name) is not None:
                rate.set_value(rate.type.dtype.np.type(value) * _ones(rate))

    # --- state

    def _add_accumulator(
        self, name: str, param: Any, dtype: Any = None, fill_value: float = 0.0, shape: Any = None, type: Any = None
    ) -> Any:
        """A variable that lives as long as `param`, which the startup program fills with `fill_value`."""
        kept = self._accumulators.setdefault(name, {})
        if param.name in kept:
            raise ValueError(f"Accumulator {name} already exists for parameter {param.name}")
        prefix = f"{self._name}_" if self._name is not None else ""
        helper = LayerHelper(self.__class__.__name__)
        made = helper.create_global_variable(
            persistable=True, name=unique_name.generate(f"{param.name}_{prefix}{name}"), dtype=dtype or param.dtype,
            shape=list(param.shape) if shape is None else list(shape),
        )  # fmt: skip
        helper.set_variable_initializer(made, Constant(fill_value))
        kept[param.name] = made
        return made

    def get_opti_var_name_list(self) -> list[str]:
        """The names of the accumulators that were made."""
        return [variable.name for kept in self._accumulators.values() for variable in kept.values()]

    def _get_accumulator(self, name: str, param: Any) -> Any:
        if param.name not in self._accumulators.get(name, {}):
            raise ValueError(f"Accumulator {name} does not exist for parameter {param.name}")
        return self._accumulators[name][param.name]

    def _first(self, value: float | str) -> float:
        """A first value, or the attribute that says it."""
        return float(getattr(self, value)) if isinstance(value, str) else value

    def _create_accumulators(self, block: Any, parameters: Sequence[Any]) -> None:
        for parameter in parameters:
            for name, _, first, single in self.accumulators:
                if parameter.name not in self._accumulators.get(name, {}):
                    self._add_accumulator(name, parameter, fill_value=self._first(first), shape=[1] if single else None)

    # --- operators

    def _attributes(self, parameter: Any) -> dict[str, Any]:
        """The attributes of a parameter's update."""
        return self._attrs

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        """The update operator of a parameter."""
        parameter, gradient = param_and_grad
        inputs: dict[str, Any] = {"Param": parameter, "Grad": gradient, **self._more_inputs}
        outputs: dict[str, Any] = {"ParamOut": parameter}
        if self.has_rate:
            inputs["LearningRate"] = self._rate_of(parameter)
        for name, slot, _, _ in self.accumulators:
            state = self._get_accumulator(name, parameter)
            inputs[slot] = state
            if slot not in self._only_read:
                outputs[self._out_slots.get(slot, f"{slot}Out")] = state
        return block.append_op(self.type, inputs, outputs, self._attributes(parameter))

    _only_read: ClassVar[frozenset[str]] = frozenset()
    _out_slots: ClassVar[dict[str, str]] = {}

    def _finish_update(self, block: Any, parameters_and_grads: Pairs) -> None:
        """Append what comes behind all updates."""

    def _create_optimization_pass(self, parameters_and_grads: Pairs) -> list[Any]:
        program = default_main_program()
        block = program.current_block()
        start = len(block.ops)
        self._create_global_learning_rate()
        updated = [(p, g) for p, g in parameters_and_grads if g is not None]
        self._create_accumulators(block, [p for p, _ in updated])
        for pair in updated:
            if pair[0].trainable:
                with program.optimized_guard(list(pair)):
                    self._append_optimize_op(block, pair)
        self._finish_update(block, updated)
        return block.ops[start:]

    def backward(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None, callbacks: Any = None
    ) -> list[tuple[Any, Any]]:
        """The first half of `minimize`: the pairs of parameter and gradient."""
        if in_dygraph_mode():
            trained = [p for p in parameter_list or self._parameter_list or () if not getattr(p, "frozen", False)]
            return [(p, p.grad) for p in trained if p.grad is not None]
        check_takes_operators("minimize()")
        variable = _loss_variable(loss)
        with program_guard(variable.block.program, startup_program or default_startup_program()):
            return append_backward(variable, parameter_list or self._parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """The second half of `minimize`: clips, penalties, updates."""
        pairs = sorted(params_grads, key=lambda pair: str(pair[0].name))
        pairs = self._grad_clip(pairs) if self._grad_clip is not None else append_gradient_clip_ops(pairs)
        pairs = append_regularization_ops(pairs, self.regularization)
        return self._create_optimization_pass(pairs)

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """As `apply_gradients`, into the program of `loss`."""
        if in_dygraph_mode():
            return self._step(params_grads)
        variable = _loss_variable(loss)
        with program_guard(variable.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(params_grads)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None, grad_clip: Any = None
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Append all that makes a run of the loss's program a training step; the update operators, and the pairs of parameter and gradient.

        In dygraph mode, after `loss.backward()`, a step.
        """
        if grad_clip is not None:
            if not isinstance(grad_clip, BaseGradientClipAttr):
                raise TypeError("'grad_clip' should be an instance of GradientClipBase's derived class")
            self._grad_clip = grad_clip
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    # --- dygraph mode

    def clear_gradients(self) -> None:
        """Clear the gradients of the parameters, in dygraph mode."""
        _needs_dygraph("clear_gradients")
        for parameter in self._parameter_list or ():
            parameter.clear_gradient()

    def _step(self, pairs: Pairs) -> list[Any]:
        """A step at once, by the same operators."""
        with dispatch.trace_into(None), tape.recording(False):
            # A decay is asked once for all parameters, which moves it on.
            rate = self._learning_rate() if callable(self._learning_rate) else self._learning_rate
            self._rate_now = rate if isinstance(rate, Tensor) else Tensor([float(rate)])
            pairs = self._grad_clip(pairs) if self._grad_clip is not None else list(pairs)
            for parameter, gradient in pairs:
                own = getattr(parameter, "regularizer", None) or self.regularization
                if own is not None:
                    gradient = whole(gradient) + own.gradient(parameter, _functions())
                self._step_of(parameter, gradient)
        return []

    def _step_of(self, parameter: Any, gradient: Any) -> None:
        rate = self._rate_now
        own = parameter.optimize_attr.get("learning_rate", 1.0) if hasattr(parameter, "optimize_attr") else 1.0
        inputs = {"Param": [parameter], "Grad": [gradient], **{slot: [value] for slot, value in self._more_inputs.items()}}
        if self.has_rate:
            inputs["LearningRate"] = [rate if own == 1.0 else rate * own]
        if isinstance(gradient, SelectedRows):
            inputs["Grad"] = [gradient.whole()]
            if "Grad@ROWS" in find_legacy(self.type)[1].inputs:
                inputs["Grad@ROWS"] = [Tensor(gradient.merged().rows(), dtype="int64")]
        states = {}
        for name, slot, first, single in self.accumulators:
            kept = self._accumulators.setdefault(name, {})
            if parameter.name not in kept:
                shape = [1] if single else list(parameter.shape)
                kept[parameter.name] = Tensor(_filled(shape, self._first(first), parameter))
            inputs[slot] = [kept[parameter.name]]
            states[self._out_slots.get(slot, f"{slot}Out")] = kept[parameter.name]
        made = apply_legacy(self.type, inputs, self._attributes(parameter))
        for slot, target in {"ParamOut": parameter, **states}.items():
            if slot in made:
                target._put(made[slot][0]._array("a step"))
        self._finish_step(parameter)

    def _finish_step(self, parameter: Any) -> None:
        """What comes behind a parameter's update in dygraph mode."""

    def state_dict(self) -> dict[str, Any]:
        """The accumulators by `PARAMETER_NAME_0`, and the state of a decay, in dygraph mode."""
        _needs_dygraph("state_dict")
        found = {f"{parameter}_{name}_0": value for name, kept in self._accumulators.items() for parameter, value in kept.items()}
        if isinstance(self._learning_rate, LearningRateDecay):
            found["LR_Scheduler"] = self._learning_rate.state_dict()
            found["global_step"] = Tensor([getattr(self._learning_rate, "step_num", 0)], dtype="int32")
        return found

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Take accumulators as `state_dict` gives them, in dygraph mode."""
        _needs_dygraph("set_dict")
        if isinstance(self._learning_rate, LearningRateDecay):
            if "LR_Scheduler" not in state_dict:
                raise KeyError("expected the state of the learning rate, 'LR_Scheduler', but the state has none")
            self._learning_rate.set_dict(state_dict["LR_Scheduler"])
            if "step_num" in self._learning_rate.keys:
                step = state_dict["global_step"]
                self._learning_rate.step_num = int((step.numpy() if isinstance(step, Tensor) else step).reshape(-1)[0])
        for parameter in self._parameter_list or ():
            for name, *_ in self.accumulators:
                value = state_dict.get(f"{parameter.name}_{name}_0")
                if value is not None:
                    self._accumulators.setdefault(name, {})[parameter.name] = value if isinstance(value, Tensor) else Tensor(value)


def _needs_dygraph(what: str) -> None:
    if not in_dygraph_mode():
        raise RuntimeError(
            f"expected {what} inside fluid.dygraph.guard(), as the state of an optimizer of a program is in persistable variables: "
            f"fluid.save and fluid.load keep them"
        )


def _functions() -> Any:
    from polyreme import math

    return math


def _filled(shape: Any, value: float, like: Any) -> Any:
    import numpy as np

    return np.full(shape, value, like._array("an accumulator").dtype)


def _ones(variable: Any) -> Any:
    import numpy as np

    return np.ones(variable.type.shape, variable.type.dtype.np)


def _loss_variable(loss: Any) -> Variable:
    variable = named_variable(loss)
    if variable is None:
        raise TypeError(f"The type of 'loss' in minimize must be Variable, but received {type(loss)}.")
    return variable


class SGDOptimizer(Optimizer):
    """`p -= lr * g`."""

    type = "sgd"

    def __init__(
        self, learning_rate: Any, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None, name: str | None = None
    ):
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)


class MomentumOptimizer(Optimizer):
    """`v = momentum * v + g; p -= lr * v`, or with Nesterov's look ahead `p -= lr * (g + momentum * v)`."""

    type = "momentum"
    accumulators = (("velocity", "Velocity", 0.0, False),)

    def __init__(
        self, learning_rate: Any, momentum: float, parameter_list: Any = None, use_nesterov: bool = False, regularization: Any = None,
        grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._attrs = {"mu": float(momentum), "use_nesterov": bool(use_nesterov)}


class LarsMomentumOptimizer(Optimizer):
    """Momentum whose rate is scaled by `lars_coeff * |p| / (|g| + lars_weight_decay * |p|)`, parameter by parameter."""

    type = "lars_momentum"
    accumulators = (("velocity", "Velocity", 0.0, False),)

    def __init__(
        self, learning_rate: Any, momentum: float, lars_coeff: float = 0.001, lars_weight_decay: float = 0.0005,
        parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._attrs = {"mu": float(momentum), "lars_coeff": float(lars_coeff), "lars_weight_decay": float(lars_weight_decay)}


_MOMENTS = (
    ("moment1", "Moment1", 0.0, False), ("moment2", "Moment2", 0.0, False), ("beta1_pow_acc", "Beta1Pow", "_beta1", True),
    ("beta2_pow_acc", "Beta2Pow", "_beta2", True),
)  # fmt: skip


class AdamOptimizer(Optimizer):
    """Adaptive moments. `beta1` and `beta2` are numbers, or variables of one element: their powers then begin with 0.9 and 0.999."""

    type = "adam"
    accumulators = _MOMENTS

    def __init__(
        self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: float = 1e-08, parameter_list: Any = None,
        regularization: Any = None, grad_clip: Any = None, name: str | None = None, lazy_mode: bool = False,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        given = {"Beta1Tensor": beta1, "Beta2Tensor": beta2}
        self._more_inputs = {slot: value for slot, value in given.items() if isinstance(value, Tensor)}
        self._beta1 = 0.9 if isinstance(beta1, Tensor) else float(beta1)
        self._beta2 = 0.999 if isinstance(beta2, Tensor) else float(beta2)
        numbers = {"beta1": self._beta1} if "Beta1Tensor" not in self._more_inputs else {}
        numbers |= {"beta2": self._beta2} if "Beta2Tensor" not in self._more_inputs else {}
        self._attrs = {**numbers, "epsilon": float(epsilon), "lazy_mode": bool(lazy_mode), "min_row_size_to_use_multithread": 1000}


class AdamaxOptimizer(Optimizer):
    """Adam with the infinity norm in place of the second moment."""

    type = "adamax"
    accumulators = (
        ("moment", "Moment", 0.0, False), ("inf_norm", "InfNorm", 0.0, False), ("beta1_pow_acc", "Beta1Pow", "_beta1", True),
    )  # fmt: skip
    _only_read = frozenset({"Beta1Pow"})

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, parameter_list: Any = None,
        regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._beta1 = float(beta1)
        self._attrs = {"beta1": self._beta1, "beta2": float(beta2), "epsilon": float(epsilon)}

    def _finish_update(self, block: Any, parameters_and_grads: Pairs) -> None:
        """The power of beta1, which the update only reads."""
        for parameter, gradient in parameters_and_grads:
            with default_main_program().optimized_guard([parameter, gradient]):
                power = self._get_accumulator("beta1_pow_acc", parameter)
                block.append_op("scale", {"X": power}, {"Out": power}, {"scale": self._beta1})

    def _finish_step(self, parameter: Any) -> None:
        power = self._accumulators["beta1_pow_acc"][parameter.name]
        power._put(power._array("a step") * power._array("a step").dtype.type(self._beta1))


class AdagradOptimizer(Optimizer):
    """Each weight's rate falls with the sum of its squared gradients."""

    type = "adagrad"
    accumulators = (("moment", "Moment", "_start", False),)

    def __init__(
        self, learning_rate: Any, epsilon: float = 1e-06, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None,
        name: str | None = None, initial_accumulator_value: float = 0.0,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._start = float(initial_accumulator_value)
        self._attrs = {"epsilon": float(epsilon)}


class DecayedAdagradOptimizer(Optimizer):
    """Adagrad whose sum of squares is a moving mean."""

    type = "decayed_adagrad"
    accumulators = (("moment", "Moment", 0.0, False),)

    def __init__(
        self, learning_rate: Any, decay: float = 0.95, epsilon: float = 1e-06, parameter_list: Any = None, regularization: Any = None,
        grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._attrs = {"decay": float(decay), "epsilon": float(epsilon)}


class AdadeltaOptimizer(Optimizer):
    """Steps from the ratio of past updates to past gradients; the learning rate has no part in them, as in Paddle 1.8."""

    type = "adadelta"
    accumulators = (
        ("_avg_squared_grad", "AvgSquaredGrad", 0.0, False), ("_avg_squared_update", "AvgSquaredUpdate", 0.0, False),
    )  # fmt: skip
    has_rate = False

    def __init__(
        self, learning_rate: Any, epsilon: float = 1e-06, rho: float = 0.95, parameter_list: Any = None, regularization: Any = None,
        grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._attrs = {"epsilon": float(epsilon), "rho": float(rho)}


class RMSPropOptimizer(Optimizer):
    """Divides by a moving root mean square of the gradients; `centered` by their moving deviation."""

    type = "rmsprop"
    accumulators = (
        ("momentum", "Moment", 0.0, False), ("mean_square", "MeanSquare", 0.0, False), ("mean_grad", "MeanGrad", 0.0, False),
    )  # fmt: skip

    def __init__(
        self, learning_rate: Any, rho: float = 0.95, epsilon: float = 1e-06, momentum: float = 0.0, centered: bool = False,
        parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        for value, what in ((learning_rate, "learning_rate"), (rho, "rho"), (epsilon, "epsilon"), (momentum, "momentum")):
            if value is None:
                raise ValueError(f"{what} is not set.")
        self._attrs = {"epsilon": float(epsilon), "decay": float(rho), "momentum": float(momentum), "centered": bool(centered)}


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader: weights stay 0 until their gradients outweigh `l1`."""

    type = "ftrl"
    accumulators = (("squared", "SquaredAccumulator", 0.0, False), ("linear", "LinearAccumulator", 0.0, False))
    _out_slots: ClassVar[dict[str, str]] = {"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"}

    def __init__(
        self, learning_rate: Any, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, parameter_list: Any = None,
        regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._attrs = {"l1": float(l1), "l2": float(l2), "lr_power": float(lr_power)}


class LambOptimizer(Optimizer):
    """Adam whose step is scaled to the norm of the weights. `exclude_from_weight_decay_fn(parameter)` says which do not decay."""

    type = "lamb"
    accumulators = _MOMENTS
    _only_read = frozenset({"Beta1Pow", "Beta2Pow"})

    def __init__(
        self, learning_rate: Any = 0.001, lamb_weight_decay: float = 0.01, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-06, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None,
        exclude_from_weight_decay_fn: Any = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._beta1, self._beta2 = float(beta1), float(beta2)
        self._decay, self._excluded = float(lamb_weight_decay), exclude_from_weight_decay_fn
        self._attrs = {"beta1": self._beta1, "beta2": self._beta2, "epsilon": float(epsilon)}

    def _attributes(self, parameter: Any) -> dict[str, Any]:
        excluded = self._excluded is not None and self._excluded(parameter)
        return {**self._attrs, "weight_decay": 0.0 if excluded else self._decay}


SGD, Momentum, LarsMomentum, Adam, Adamax = SGDOptimizer, MomentumOptimizer, LarsMomentumOptimizer, AdamOptimizer, AdamaxOptimizer
Adagrad, DecayedAdagrad, Adadelta, RMSProp = AdagradOptimizer, DecayedAdagradOptimizer, AdadeltaOptimizer, RMSPropOptimizer
Ftrl, Lamb = FtrlOptimizer, LambOptimizer


class _Swap(Shown):
    """Programs that give parameters other values for a while, and theirs again."""

    def __init__(self) -> None:
        self.apply_program, self.restore_program = Program(), Program()

    def _backup(self, parameter: Any) -> Any:
        return self._mirror(parameter).block.create_var(
            unique_name.generate(f"{parameter.name}.backup"), parameter.shape, parameter.dtype, persistable=True, stop_gradient=True
        )

    @staticmethod
    def _mirror(variable: Any) -> Any:
        """The persistable variable in the program that is current now."""
        block = default_main_program().global_block()
        known = block._find_var_recursive(variable.name)
        return block.clone_variable(variable) if known is None else known

    def _swap_in(self, parameter: Any, make: Any) -> None:
        """Append to the programs: keep the value, put in what `make()` gives; and the other way."""
        with program_guard(self.apply_program, Program()):
            backup = self._backup(parameter)
            layers.assign(self._mirror(parameter), backup)
            layers.assign(make(), self._mirror(parameter))
        with program_guard(self.restore_program, Program()):
            layers.assign(self._mirror(backup), self._mirror(parameter))

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """Let parameters have the other values inside the `with`; with `need_restore=False` also after it, until `restore`."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Give parameters their own values again."""
        executor.run(self.restore_program)


class ModelAverage(Optimizer, _Swap):
    """The mean of each parameter's values over a window of steps: between `min_average_window` and `max_average_window` of them, and about
    `average_window_rate` of all.

    Made behind `minimize`; `with model_average.apply(exe):` has the means in the place of the parameters.
    """

    type = "average_accumulates"

    def __init__(
        self, average_window_rate: float, min_average_window: int = 10000, max_average_window: int = 10000, regularization: Any = None,
        name: str | None = None,
    ):  # fmt: skip
        if in_dygraph_mode():
            raise Exception("In dygraph, don't support ModelAverage.")
        Optimizer.__init__(self, 0.0, regularization=regularization, name=name)
        _Swap.__init__(self)
        self.average_window, self.min_average_window, self.max_average_window = average_window_rate, min_average_window, max_average_window
        parameters = [
            p for p in default_main_program().global_block().all_parameters()
            if p.do_model_average is not False and p.trainable and not p.stop_gradient
        ]  # fmt: skip
        self.params_grads = [(parameter, None) for parameter in parameters]
        for parameter in parameters:
            with default_main_program().optimized_guard([parameter]):
                self._accumulate(parameter)
            self._swap_in(parameter, lambda parameter=parameter: self._mean_of(parameter))

    def _accumulate(self, parameter: Any) -> None:
        """Append the sums of a parameter."""
        sums = {f"sum_{i}": self._add_accumulator(f"sum_{i}", parameter) for i in (1, 2, 3)}
        names = ("num_accumulates", "old_num_accumulates", "num_updates")
        counts = {name: self._add_accumulator(name, parameter, "int64", shape=[1]) for name in names}
        state = sums | counts
        default_main_program().global_block().append_op(
            "average_accumulates",
            {"param": parameter, **{f"in_{name}": variable for name, variable in state.items()}},
            {f"out_{name}": variable for name, variable in state.items()},
            {
                "average_window": self.average_window, "min_average_window": self.min_average_window,
                "max_average_window": self.max_average_window,
            },
        )  # fmt: skip

    def _mean_of(self, parameter: Any) -> Any:
        state = {name: self._mirror(kept[parameter.name]) for name, kept in self._accumulators.items()}
        count = layers.sums([state["num_accumulates"], state["old_num_accumulates"]])
        total = layers.sums([state["sum_1"], state["sum_2"], state["sum_3"]])
        return layers.elementwise_div(total, layers.cast(count, parameter.dtype))


class ExponentialMovingAverage(_Swap):
    """The moving mean of each parameter's values, `decay * mean + (1 - decay) * value`, corrected for its start at 0.

    `update()`, behind `minimize`, appends the step of the means; `with ema.apply(exe):` has them in the place of the parameters. With
    `thres_steps`, a variable that counts steps, the decay is at most (1 + thres_steps) / (10 + thres_steps).
    """

    def __init__(self, decay: float = 0.999, thres_steps: Any = None, name: str | None = None):
        if in_dygraph_mode():
            raise Exception("In dygraph, don't support ExponentialMovingAverage.")
        super().__init__()
        self._decay, self._thres_steps, self._name = decay, thres_steps, name or ""
        self._step_counter_name = "@EMA_STEP_COUNTER@"
        self._means: dict[str, Any] = {}
        program = default_main_program()
        self._params = [p for p in program.global_block().all_parameters() if p.do_model_average is not False]
        with program._lr_schedule_guard():
            self._decay_var = self._decay_variable()
        for parameter in self._params:
            with program.optimized_guard([parameter]):
                name = unique_name.generate(f"{self._name}{parameter.name}_ema")
                self._means[parameter.name] = layers.create_global_var(list(parameter.shape), 0.0, parameter.dtype, True, name=name)
        self._counter = layers.create_global_var([1], 0, "int64", True, name=self._step_counter_name)
        for parameter in self._params:
            self._swap_in(parameter, lambda parameter=parameter: self._corrected(parameter))

    def _decay_variable(self) -> Any:
        rate = layers.create_global_var([1], self._decay, "float32", True, name="scheduled_ema_decay_rate")
        if self._thres_steps is not None:
            steps = layers.cast(self._thres_steps, "float32")
            limit = layers.elementwise_div(layers.scale(steps, 1.0, 1.0), layers.scale(steps, 1.0, 10.0))
            layers.assign(layers.elementwise_min(limit, layers.fill_constant([1], "float32", self._decay)), rate)
        return rate

    def update(self) -> None:
        """Append the step of the means."""
        program = default_main_program()
        block = program.global_block()
        with program.role(_OPTIMIZE):
            block.append_op("increment", {"X": self._counter}, {"Out": self._counter}, {"step": 1.0})
        for parameter in self._params:
            with program.optimized_guard([parameter]):
                mean = self._means[parameter.name]
                kept = layers.elementwise_mul(mean, self._decay_var)
                fresh = layers.elementwise_mul(parameter, layers.scale(self._decay_var, -1.0, 1.0))
                layers.assign(layers.elementwise_add(kept, fresh), mean)

    def _corrected(self, parameter: Any) -> Any:
        """The mean over 1 - decay^steps, and 0 before the first step."""
        steps = layers.cast(self._mirror(self._counter), "float32")
        decay = self._mirror(self._decay_var)
        left = layers.scale(layers.elementwise_pow(decay, steps), -1.0, 1.0)
        none = layers.cast(layers.equal(steps, layers.fill_constant([1], "float32", 0.0)), "float32")
        return layers.elementwise_div(self._mirror(self._means[parameter.name]), layers.elementwise_add(left, none))


_OPTIMIZE = 2

__dir__ = listed(__name__)
