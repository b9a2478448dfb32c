"""The update of each optimizer as one formula.

A rule is given a parameter `p`, its gradient `g`, the rate `lr` and its state by name, and returns the new parameter and the new state. It uses
operators and the functions of `xp` alone, so that it runs on numpy arrays (eager, CPU), on tensors (eager, GPU) and on recorded ones (programs) alike. Formulas
and the order of their operations are those of Paddle's kernels, which decide the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

State = dict[str, Any]
Update = Callable[..., tuple[Any, State]]


@dataclass(frozen=True)
class Slot:
    """One piece of state per parameter: as large as the parameter, or a single number; `start` gives its first value from the options."""

    name: str
    start: Callable[[Mapping[str, Any]], float] = lambda options: 0.0
    single: bool = False


@dataclass(frozen=True)
class Rule:
    """An optimizer's state and formula. `precise` names the options that Paddle's kernel takes in float64; the others it takes in float32."""

    slots: tuple[Slot, ...]
    update: Update
    precise: tuple[str, ...] = ()

    def rounded(self, options: Mapping[str, Any], kind: type[np.generic]) -> dict[str, Any]:
        """The options as the kernel has them for a (master) weight of this type: 1 - beta2 depends on it."""
        return {name: self._rounded(name, value, kind) if isinstance(value, float) else value for name, value in options.items()}

    def _rounded(self, name: str, value: float, kind: type[np.generic]) -> Any:
        return kind(value if name in self.precise else np.float32(value))


def _sgd(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    return p - lr * g, {}


def _momentum(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    g = g * o["rescale_grad"] if o["rescale_grad"] != 1 else g
    v = s["velocity"] * o["momentum"] + g
    step = (g + v * o["momentum"]) * lr if o["use_nesterov"] else v * lr
    return p - step, {"velocity": v}


def _adam(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Kingma and Ba, "Adam", algorithm 1 in the order of section 2's end: the corrections are folded into the rate."""
    beta1, beta2 = o["beta1"], o["beta2"]
    m = s["moment1"] * beta1 + g * (1 - beta1)
    v = s["moment2"] * beta2 + g * g * (1 - beta2)
    power1, power2 = s["beta1_pow_acc"], s["beta2_pow_acc"]
    new = {"moment1": m, "moment2": v, "beta1_pow_acc": power1 * beta1, "beta2_pow_acc": power2 * beta2}
    spread = v
    if o.get("amsgrad"):
        # Reddi, Kale and Kumar, "On the convergence of Adam and beyond": the largest spread so far.
        spread = new["moment2_max"] = xp.maximum(v, s["moment2_max"])
    correction = xp.sqrt(1 - power2)
    rate = lr * correction / (1 - power1)
    return p - rate * (m / (xp.sqrt(spread) + o["epsilon"] * correction)), new


def _adamw(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Loshchilov and Hutter, "Decoupled weight decay regularization": the decay is no part of the gradient."""
    if o["decay"]:
        p = p * (1 - lr * o["decay"])
    return _adam(p, g, lr, s, o, xp)


def _lamb(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm 2 with the norm itself as φ."""
    beta1, beta2 = o["beta1"], o["beta2"]
    m = s["moment1"] * beta1 + g * (1 - beta1)
    v = s["moment2"] * beta2 + g * g * (1 - beta2)
    power1, power2 = s["beta1_pow_acc"], s["beta2_pow_acc"]
    new = {"moment1": m, "moment2": v, "beta1_pow_acc": power1 * beta1, "beta2_pow_acc": power2 * beta2}
    step = m / (1 - power1) / (xp.sqrt(v / (1 - power2)) + o["epsilon"]) + p * o["decay"]
    if not o["decay"] and not o["always_adapt"]:
        return p - step * lr, new
    weights, length = xp.sqrt(xp.sum(p * p)), xp.sqrt(xp.sum(step * step))
    both = (weights > 0) & (length > 0)
    trust = xp.where(both, weights / xp.where(both, length, xp.ones_like(length)), xp.ones_like(length))
    return p - step * (trust * lr), new


def _adagrad(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    moment = s["moment"] + g * g
    return p - lr * g / (xp.sqrt(moment) + o["epsilon"]), {"moment": moment}


def _rmsprop(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    rho = o["rho"]
    square = s["mean_square"] * rho + g * g * (1 - rho)
    mean = s["mean_grad"]
    spread = square
    if o["centered"]:
        mean = mean * rho + g * (1 - rho)
        spread = square - mean * mean
    step = s["momentum"] * o["momentum"] + g * lr / xp.sqrt(spread + o["epsilon"])
    return p - step, {"momentum": step, "mean_square": square, "mean_grad": mean}


def _adamax(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    beta1 = float(np.float32(o["beta1"]))  # as the kernel has it; Paddle's Python multiplies the power by the precise one
    m = s["moment"] * beta1 + g * (1 - beta1)
    norm = xp.maximum(xp.abs(g), s["inf_norm"] * o["beta2"] + o["epsilon"])
    power = s["beta1_pow_acc"]
    return p - lr / (1 - power) * (m / norm), {"moment": m, "inf_norm": norm, "beta1_pow_acc": power * o["beta1"]}


def _adadelta(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    rho, epsilon = o["rho"], o["epsilon"]
    gradients = s["_avg_squared_grad"] * rho + g * g * (1 - rho)
    step = xp.sqrt((s["_avg_squared_update"] + epsilon) / (gradients + epsilon)) * g
    updates = s["_avg_squared_update"] * rho + step * step * (1 - rho)
    return p - lr * step, {"_avg_squared_grad": gradients, "_avg_squared_update": updates}


_ADAM_SLOTS = (
    Slot("moment1"),
    Slot("moment2"),
    Slot("beta1_pow_acc", lambda o: o["beta1"], single=True),
    Slot("beta2_pow_acc", lambda o: o["beta2"], single=True),
)
AMSGRAD_SLOT = Slot("moment2_max")

SGD = Rule((), _sgd)
MOMENTUM = Rule((Slot("velocity"),), _momentum)
ADAM = Rule(_ADAM_SLOTS, _adam, precise=("beta1", "beta2", "epsilon"))
ADAMW = Rule(_ADAM_SLOTS, _adamw, precise=("beta1", "beta2", "epsilon"))
LAMB = Rule(_ADAM_SLOTS, _lamb)
ADAGRAD = Rule((Slot("moment", lambda o: o["initial_accumulator_value"]),), _adagrad)
RMSPROP = Rule((Slot("momentum"), Slot("mean_square"), Slot("mean_grad")), _rmsprop)
ADAMAX = Rule((Slot("moment"), Slot("inf_norm"), Slot("beta1_pow_acc", lambda o: o["beta1"], single=True)), _adamax, precise=("beta1",))
ADADELTA = Rule((Slot("_avg_squared_grad"), Slot("_avg_squared_update")), _adadelta)
