"""The optimizers: options of each and their checks. The formulas stand in `rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyreme.optimizer import rules
from polyreme.optimizer.optimizer import Optimizer, check_fraction, check_not_negative

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "RMSProp"]


class SGD(Optimizer):
    """`p -= lr * g`."""

    rule = rules.SGD

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=multi_precision)


class Momentum(Optimizer):
    """`v = momentum * v + g; p -= lr * v`, or with Nesterov's look ahead `p -= lr * (g + momentum * v)`."""

    rule = rules.MOMENTUM

    def __init__(
        self,
        learning_rate: Any = 0.001,
        momentum: float = 0.9,
        parameters: Any = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ):
        if momentum is None:
            raise ValueError("momentum is not set")
        options = {"momentum": momentum, "use_nesterov": use_nesterov, "rescale_grad": rescale_grad, "multi_precision": multi_precision}
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)


class Adam(Optimizer):
    """Adaptive moments; with `amsgrad` the second moment never falls."""

    rule = rules.ADAM

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-08,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ):
        options = {
            "beta1": check_fraction("beta1", beta1),
            "beta2": check_fraction("beta2", beta2),
            "epsilon": check_not_negative("epsilon", epsilon),
        }
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=multi_precision, amsgrad=amsgrad, **options
        )

    def _slots(self) -> Sequence[Any]:
        return (*self.rule.slots, rules.AMSGRAD_SLOT) if self._options["amsgrad"] else self.rule.slots


class AdamW(Adam):
    """Adam with a decay of the weights that is no part of the gradient: `p *= 1 - lr * weight_decay` first.

    `apply_decay_param_fun(name)` says which parameters decay; `lr_ratio(parameter)` is a factor of the rate.
    """

    rule = rules.ADAMW
    _decays_gradients = False

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-08,
        parameters: Any = None,
        weight_decay: Any = 0.01,
        use_lowprecision_moment: bool = False,
        lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ):
        if not isinstance(weight_decay, (int, float)):
            raise TypeError("weight_decay should be float or int.")
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, multi_precision=multi_precision, amsgrad=amsgrad, name=name
        )
        self._decay = float(weight_decay)
        self._decays = apply_decay_param_fun
        self._lr_ratio = lr_ratio

    def _parameter_options(self, parameter: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        decays = self._decays is None or self._decays(parameter.name)
        return {"decay": float(options.get("weight_decay", self._decay)) if decays else 0.0}

    def _regularizer(self, parameter: Any, group: Mapping[str, Any]) -> Any:
        return getattr(parameter, "regularizer", None)

    def _rate_factor(self, parameter: Any, group: Mapping[str, Any]) -> float:
        factor = super()._rate_factor(parameter, group)
        return factor if self._lr_ratio is None else factor * float(self._lr_ratio(parameter))


class Lamb(Optimizer):
    """Adam whose step is scaled, parameter by parameter, to the norm of the weights: `p -= lr * |p| / |r| * r` with `r = m̂ / (√v̂ + ε) + decay * p`.

    `exclude_from_weight_decay_fn(parameter)` says which parameters do not decay; with `always_adapt` those are scaled, too.
    """

    rule = rules.LAMB
    _decays_gradients = False

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ):
        options = {
            "beta1": check_fraction("beta1", beta1),
            "beta2": check_fraction("beta2", beta2),
            "epsilon": check_not_negative("epsilon", epsilon),
            "always_adapt": always_adapt,
        }
        super().__init__(learning_rate, parameters, None, grad_clip, name, multi_precision=multi_precision, **options)
        self._decay = float(lamb_weight_decay)
        self._excluded = exclude_from_weight_decay_fn

    def _parameter_options(self, parameter: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        excluded = self._excluded is not None and self._excluded(parameter)
        return {"decay": 0.0 if excluded else float(options.get("lamb_weight_decay", self._decay))}


class Adagrad(Optimizer):
    """Each weight's rate falls with the sum of its squared gradients."""

    rule = rules.ADAGRAD

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-06,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ):
        options = {"epsilon": epsilon, "initial_accumulator_value": initial_accumulator_value}
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)


class RMSProp(Optimizer):
    """Divides by a moving root mean square of the gradients; `centered` by their moving deviation."""

    rule = rules.RMSPROP

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        options = {
            "rho": check_not_negative("rho", rho),
            "epsilon": check_not_negative("epsilon", epsilon),
            "momentum": check_not_negative("momentum", momentum),
            "centered": centered,
        }
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)


class Adamax(Optimizer):
    """Adam with the infinity norm in place of the second moment."""

    rule = rules.ADAMAX

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-08,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        options = {
            "beta1": check_fraction("beta1", beta1),
            "beta2": check_fraction("beta2", beta2),
            "epsilon": check_not_negative("epsilon", epsilon),
        }
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)


class Adadelta(Optimizer):
    """Rates from the ratio of past updates to past gradients."""

    rule = rules.ADADELTA

    def __init__(
        self,
        learning_rate: Any = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        options = {"epsilon": check_not_negative("epsilon", epsilon), "rho": check_not_negative("rho", rho)}
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)
