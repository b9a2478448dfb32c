"""The update of each optimizer as one formula.

A rule is given a parameter `p`, its gradient `g`, the rate `lr` and its state by name, and returns the new parameter and the new state. It
uses operators and the functions of `xp` alone, so that it runs on numpy arrays (eager, CPU), on tensors (eager, GPU) and on recorded ones
(programs) alike. Formulas and the order of their operations are those of Paddle's kernels, which decide the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme.ir.python.records import dataclass

State = dict[str, Any]
Update = Callable[..., tuple[Any, State]]


@dataclass(frozen=True)
class Slot:
    """One piece of state per parameter: as large as the parameter, a single number, or as many as the option `rows` names says, one after
    another.

    `start` gives its first value from the options; it is of the (master) weight's dtype, or of `dtype`.
    """

    name: str
    start: Callable[[Mapping[str, Any]], float] = lambda options: 0.0
    single: bool = False
    rows: str = ""
    dtype: str = ""

    def shape(self, parameter: Sequence[int], options: Mapping[str, Any]) -> list[int]:
        """How large it is for a parameter of this shape."""
        return [1] if self.single else [options[self.rows], *parameter] if self.rows else list(parameter)


@dataclass(frozen=True)
class Rule:
    """An optimizer's state and formula. `precise` names the options that Paddle's kernel takes in float64; the others it takes in float32.

    What is `wide` has its state, and computes, in float32 where a parameter of half precision has no master weight: powers of 0.999 are
    nothing that bfloat16 can hold.

    An `elementwise` formula computes each element from those at its place and single numbers.

    `of_rows` is the formula where the gradient is that of the rows of a table that were read, which the option `read` tells (bool [rows, 1,
    ...]). A rule without has no meaning there, as in Paddle.
    """

    slots: tuple[Slot, ...]
    update: Update
    precise: tuple[str, ...] = ()
    wide: bool = False
    elementwise: bool = True
    of_rows: Update | None = None

    def kind_of_state(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype that a (master) weight of this one is updated in."""
        return np.dtype(np.float32) if self.wide and kind.itemsize == 2 else kind

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
    new, spread = _moments(g, s, o, xp)
    correction = xp.sqrt(1 - s["beta2_pow_acc"])
    rate = lr * correction / (1 - s["beta1_pow_acc"])
    # Paddle 1 adds epsilon as it is.
    epsilon = o["epsilon"] if o.get("plain_epsilon") else o["epsilon"] * correction
    return p - rate * (new["moment1"] / (xp.sqrt(spread) + epsilon)), new


def _moments(g: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[State, Any]:
    """The state of Adam after a step, and the spread that the step is divided by."""
    beta1, beta2 = o["beta1"], o["beta2"]
    m = s["moment1"] * beta1 + g * (1 - beta1)
    v = s["moment2"] * beta2 + g * g * (1 - beta2)
    new = {"moment1": m, "moment2": v, "beta1_pow_acc": s["beta1_pow_acc"] * beta1, "beta2_pow_acc": s["beta2_pow_acc"] * beta2}
    if not o.get("amsgrad"):
        return new, v
    # Reddi, Kale and Kumar, "On the convergence of Adam and beyond": the largest spread so far.
    new["moment2_max"] = xp.maximum(v, s["moment2_max"])
    return new, new["moment2_max"]


def _adam_of_rows(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Adam of a table of which rows were read, as Paddle has it: the moments are corrected as after one step more, epsilon only for the
    rows that were read, and with `lazy_mode` only these move, with their moments.
    """
    new, spread = _moments(g, s, o, xp)
    correction = xp.sqrt(1 - new["beta2_pow_acc"])
    rate = lr * correction / (1 - new["beta1_pow_acc"])
    epsilon = o["epsilon"]
    if not o.get("plain_epsilon"):
        epsilon = xp.where(o["read"], xp.ones_like(spread) * (epsilon * correction), xp.ones_like(spread) * epsilon)
    made = p - rate * (new["moment1"] / (xp.sqrt(spread) + epsilon))
    if o.get("lazy_mode"):
        of_rows = [name for name in new if name not in ("beta1_pow_acc", "beta2_pow_acc")]
        new |= {name: xp.where(o["read"], new[name], s[name]) for name in of_rows}
        made = xp.where(o["read"], made, p)
    return made, new


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


def _nadam(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Dozat, "Incorporating Nesterov momentum into Adam", with the momentum that grows by 0.96 a step."""
    beta1, beta2, decay = o["beta1"], o["beta2"], o["momentum_decay"]
    falling, power2 = s["momentum_decay_pow"] * 0.96, s["beta2_pow"] * beta2
    ahead = 0.96**float(decay)
    mu, next_mu = beta1 * (1 - 0.5 * falling**decay), beta1 * (1 - 0.5 * falling**decay * ahead)
    product = s["mu_product"] * mu
    m = s["moment1"] * beta1 + g * (1 - beta1)
    v = s["moment2"] * beta2 + g * g * (1 - beta2)
    step = m * next_mu / (1 - product * next_mu) + g * (1 - mu) / (1 - product)
    new = {"momentum_decay_pow": falling, "beta2_pow": power2, "mu_product": product, "moment1": m, "moment2": v}
    return p - lr * step / (xp.sqrt(v / (1 - power2)) + o["epsilon"]), new


def _radam(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Liu et al., "On the variance of the adaptive learning rate and beyond", algorithm 2: adaptive only once the variance of that is
    finite.
    """
    beta1, beta2 = o["beta1"], o["beta2"]
    power1, power2 = s["beta1_pow"] * beta1, s["beta2_pow"] * beta2
    rho = (s["rho"] * (beta2 - power2) + power2) / (1 - power2)
    m = s["moment1"] * beta1 + g * (1 - beta1)
    v = s["moment2"] * beta2 + g * g * (1 - beta2)
    most = 2 / (1 - float(beta2)) - 1
    length = most - 2 * rho
    adaptive = length > 5
    safe = xp.where(adaptive, length, xp.ones_like(length) * 6)
    rectified = xp.sqrt((safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)) * xp.sqrt(1 - power2)
    step = m / (1 - power1) * xp.where(adaptive, rectified / (xp.sqrt(v) + o["epsilon"]), xp.ones_like(v))
    return p - lr * step, {"beta1_pow": power1, "beta2_pow": power2, "rho": rho, "moment1": m, "moment2": v}


def _rprop(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning", without going back when the sign changes."""
    agree = g * s["prevs"]
    slower, faster = o["slower"], o["faster"]
    one = xp.ones_like(g)
    rates = s["learning_rates"] * xp.where(agree > 0, one * faster, xp.where(agree < 0, one * slower, one))
    rates = xp.minimum(xp.maximum(rates, one * o["least"]), one * o["most"])
    g = xp.where(agree < 0, one * 0, g)
    return p - xp.sign(g) * rates, {"prevs": g, "learning_rates": rates}


def _asgd(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Schmidt, Le Roux and Bach, "Minimizing finite sums with the stochastic average gradient": along the mean of the last gradient of each
    batch.
    """
    batches, seen = o["batch_num"], s["m"]
    current = xp.reshape(xp.arange(batches) == seen % batches, [batches] + [1] * len(p.shape))
    last = xp.sum(xp.where(current, s["y"], xp.zeros_like(s["y"])), 0)
    d = s["d"] - last + g
    y = xp.where(current, xp.reshape(g, [1, *g.shape]) + xp.zeros_like(s["y"]), s["y"])
    count = xp.minimum(seen + 1, xp.full_like(seen, batches)).astype(p.dtype)
    return p - lr / count * d, {"d": d, "y": y, "m": seen + 1}


def _lars(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """You, Gitman and Ginsburg, "Large batch training of convolutional networks": a rate for each parameter, by the norms of it and of its
    gradient.
    """
    decay = o["decay"]
    g = g * o["rescale_grad"] if o["rescale_grad"] != 1 else g
    weights, length = xp.sqrt(xp.sum(p * p)), xp.sqrt(xp.sum(g * g))
    both = (weights > 0) & (length > 0)
    trust = o["lars_coeff"] * weights / xp.where(both, length + weights * decay + o["epsilon"], xp.ones_like(length))
    rate = xp.where(both, trust, xp.ones_like(trust)) * lr if decay else lr
    v = s["velocity"] * o["momentum"] + (g + p * decay) * rate
    return p - v, {"velocity": v}


def _decayed_adagrad(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """Adagrad whose sum of squares forgets."""
    moment = s["moment"] * o["decay"] + g * g * (1 - o["decay"])
    return p - lr * g / (xp.sqrt(moment) + o["epsilon"]), {"moment": moment}


def _ftrl(p: Any, g: Any, lr: Any, s: State, o: Mapping[str, Any], xp: Any) -> tuple[Any, State]:
    """McMahan et al., "Ad click prediction: a view from the trenches", algorithm 1, with the penalties raised by 1e-10 as Paddle has it."""
    l1, l2, power = o["l1"] + 1e-10, o["l2"] + 1e-10, -o["lr_power"]
    squared = s["squared"] + g * g
    root = lambda v: xp.sqrt(v) if power == 0.5 else v**power
    linear = s["linear"] + g - (root(squared) - root(s["squared"])) / lr * p
    step = (xp.sign(linear) * l1 - linear) / (root(squared) / lr + 2 * l2)
    return xp.where(xp.abs(linear) > l1, step, xp.zeros_like(step)), {"squared": squared, "linear": linear}


_ADAM_SLOTS = (
    Slot("moment1"),
    Slot("moment2"),
    Slot("beta1_pow_acc", lambda o: o["beta1"], single=True),
    Slot("beta2_pow_acc", lambda o: o["beta2"], single=True),
)
AMSGRAD_SLOT = Slot("moment2_max")

SGD = Rule((), _sgd, of_rows=_sgd)
MOMENTUM = Rule((Slot("velocity"),), _momentum, of_rows=_momentum)
ADAM = Rule(_ADAM_SLOTS, _adam, precise=("beta1", "beta2", "epsilon"), wide=True, of_rows=_adam_of_rows)
ADAMW = Rule(_ADAM_SLOTS, _adamw, precise=("beta1", "beta2", "epsilon"), wide=True)
LAMB = Rule(_ADAM_SLOTS, _lamb, wide=True, elementwise=False, of_rows=_lamb)
ADAGRAD = Rule((Slot("moment", lambda o: o["initial_accumulator_value"]),), _adagrad, of_rows=_adagrad)
RMSPROP = Rule((Slot("momentum"), Slot("mean_square"), Slot("mean_grad")), _rmsprop, of_rows=_rmsprop)
ADAMAX = Rule(
    (Slot("moment"), Slot("inf_norm"), Slot("beta1_pow_acc", lambda o: o["beta1"], single=True)), _adamax, precise=("beta1",), wide=True
)
# Powers as large as the parameter, as Paddle keeps these.
NADAM = Rule(
    (*(Slot(name, lambda o: 1.0) for name in ("momentum_decay_pow", "beta2_pow", "mu_product")), Slot("moment1"), Slot("moment2")),
    _nadam,
    wide=True,
)
RADAM = Rule(
    (*(Slot(name, lambda o: 1.0) for name in ("beta1_pow", "beta2_pow", "rho")), Slot("moment1"), Slot("moment2")), _radam, wide=True
)
RPROP = Rule(
    (Slot("prevs"), Slot("learning_rates", lambda o: o["start"])), _rprop, precise=("slower", "faster", "least", "most"), of_rows=_rprop
)
ASGD = Rule((Slot("d"), Slot("y", rows="batch_num"), Slot("m", single=True, dtype="int64")), _asgd, elementwise=False)
LARS = Rule((Slot("velocity"),), _lars, elementwise=False)
ADADELTA = Rule((Slot("_avg_squared_grad"), Slot("_avg_squared_update")), _adadelta)
DECAYED_ADAGRAD = Rule((Slot("moment"),), _decayed_adagrad)
FTRL = Rule((Slot("squared"), Slot("linear")), _ftrl)
