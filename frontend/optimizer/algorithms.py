"""The optimizers: options of each and their checks. The formulas stand in `rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from polyreme.optimizer import rules
from polyreme.optimizer.optimizer import Optimizer, check_fraction, check_not_negative

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "LarsMomentumOptimizer",
    "Momentum",
    "NAdam",
    "RAdam",
    "RMSProp",
    "Rprop",
]


def _of_moments(beta1: Any, beta2: Any, epsilon: Any) -> dict[str, Any]:
    """The options of optimizers with moving means of gradients and of their squares."""
    return {
        "beta1": check_fraction("beta1", beta1),
        "beta2": check_fraction("beta2", beta2),
        "epsilon": check_not_negative("epsilon", epsilon),
    }


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
    """Adaptive moments; with `amsgrad` the second moment never falls.

    With `lazy_mode` only those rows of a table move that were read with `sparse=True`. Such tables have no `weight_decay`: `step()` is a
    `RuntimeError` then.
    """

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
        options = {**_of_moments(beta1, beta2, epsilon), "lazy_mode": lazy_mode, "amsgrad": amsgrad}
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=multi_precision, **options)

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        if self._decays_gradients and self._weight_decay is not None and not self._in_groups:
            for parameter, gradient in self._with_gradients(self._parameter_list):
                if gradient.is_selected_rows():
                    raise RuntimeError(
                        f"Adam don't support weight_decay with sparse parameters, please set it to None. (The parameter '{parameter.name}' "
                        f"was read with sparse=True.)"
                    )
        super().step()

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
            learning_rate, beta1, beta2, epsilon, parameters, float(weight_decay), grad_clip, lazy_mode, multi_precision, amsgrad=amsgrad,
            name=name,
        )  # fmt: skip
        self._apply_decay_param_fun = apply_decay_param_fun
        self._lr_ratio = lr_ratio

    def _parameter_options(self, parameter: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        decays = self._apply_decay_param_fun is None or self._apply_decay_param_fun(parameter.name)
        return {"decay": float(options.get("weight_decay", self._weight_decay)) if decays else 0.0}

    def _regularizer(self, parameter: Any, group: Mapping[str, Any]) -> Any:
        return getattr(parameter, "regularizer", None)

    def _rate_factor(self, parameter: Any, group: Mapping[str, Any]) -> float:
        factor = super()._rate_factor(parameter, group)
        return factor if self._lr_ratio is None else factor * float(self._lr_ratio(parameter))


class Lamb(Optimizer):
    """Adam whose step is scaled, parameter by parameter, to the norm of the weights: `p -= lr * |p| / |r| * r` with `r = m̂ / (√v̂ + ε) +
    decay * p`.

    `exclude_from_weight_decay_fn(parameter)` says which parameters do not decay; with `always_adapt` those are scaled, too.
    """

    rule = rules.LAMB

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
        options = {**_of_moments(beta1, beta2, epsilon), "always_adapt": always_adapt}
        super().__init__(learning_rate, parameters, None, grad_clip, name, multi_precision=multi_precision, **options)
        self._lamb_weight_decay = float(lamb_weight_decay)
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn

    def _parameter_options(self, parameter: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        excluded = self._exclude_from_weight_decay_fn is not None and self._exclude_from_weight_decay_fn(parameter)
        return {"decay": 0.0 if excluded else float(options.get("lamb_weight_decay", self._lamb_weight_decay))}


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
        options = _of_moments(beta1, beta2, epsilon)
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


class NAdam(Optimizer):
    """Adam with Nesterov's look ahead, by a momentum that approaches `beta1`; `momentum_decay` says how fast."""

    rule = rules.NADAM

    def __init__(
        self,
        learning_rate: Any = 0.002,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        momentum_decay: float = 0.004,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        options = {**_of_moments(beta1, beta2, epsilon), "momentum_decay": check_not_negative("momentum_decay", momentum_decay)}
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)


class RAdam(Optimizer):
    """Adam that takes plain steps along the momentum until the second moment has been seen often enough."""

    rule = rules.RADAM

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        options = _of_moments(beta1, beta2, epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **options)


class Rprop(Optimizer):
    """Steps by signs: each weight's rate grows by `etas[1]` while its gradient keeps its sign and shrinks by `etas[0]` when that changes,
    within a range.
    """

    rule = rules.RPROP

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_range: tuple[float, float] = (1e-5, 50),
        parameters: Any = None,
        etas: tuple[float, float] = (0.5, 1.2),
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        least, most = learning_rate_range
        slower, faster = etas
        if not 0.0 < least <= learning_rate <= most:
            raise ValueError("'0.0 < learning_rate_range[0] <= learning_rate <= learning_rate_range[1]' must be true")
        if not 0.0 < slower < 1.0 < faster:
            raise ValueError("'0.0 < etas[0] < 1.0 < etas[1]' must be true")
        options = {"least": float(least), "most": float(most), "slower": slower, "faster": faster, "start": float(learning_rate)}
        super().__init__(learning_rate, parameters, None, grad_clip, name, multi_precision=multi_precision, **options)


class ASGD(Optimizer):
    """The mean of the last gradients of `batch_num` batches, each replaced when its batch comes again."""

    rule = rules.ASGD

    def __init__(
        self,
        learning_rate: Any = 0.001,
        batch_num: int = 1,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ):
        if batch_num is None or not batch_num > 0:
            raise ValueError(f"batch_num should be greater than 0, but got {batch_num}")
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, batch_num=int(batch_num), multi_precision=multi_precision
        )


class LarsMomentumOptimizer(Optimizer):
    """Momentum whose rate is scaled, parameter by parameter: `v = momentum * v + lr * lars_coeff * |p| / (|g| + decay * |p|) * (g + decay *
    p); p -= v`.

    Parameters whose names hold one of `exclude_from_weight_decay` do not decay, and keep the plain rate. In Paddle it is found under
    `paddle.incubate.optimizer`, with names of arguments of its own.
    """

    rule = rules.LARS

    _kept_as: ClassVar[Mapping[str, str]] = {"lars_weight_decay": "_decay"}

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        exclude_from_weight_decay: Sequence[str] | None = None,
        epsilon: float = 0,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
    ):
        options = {"momentum": momentum, "lars_coeff": float(lars_coeff), "epsilon": float(epsilon), "rescale_grad": float(rescale_grad)}
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name, multi_precision=multi_precision, **options)
        self._decay = float(lars_weight_decay)
        self._excluded = tuple(exclude_from_weight_decay or ())

    def _parameter_options(self, parameter: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"decay": 0.0 if any(part in parameter.name for part in self._excluded) else self._decay}
