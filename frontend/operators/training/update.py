"""The updates of optimizers: each an operator on one parameter, its gradient, the rate and the state, by the formula of `optimizer.rules`.

A result replaces what its input slot holds: `ParamOut` is `Param` after the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import math
from polyreme.math.common import cast_to
from polyreme.math.scattering import rows_that_were_read
from polyreme.operators.definition import operator, spelled
from polyreme.optimizer import rules
from polyreme.tensor import Tensor

_STEP = {"Param": "p", "Grad": "g", "LearningRate": "lr"}
# Of updates that Paddle has for the rows of a table, too: the positions that were read, where the gradient is that of these rows.
_OF_ROWS = {**_STEP, "Grad@ROWS": "rows"}


def _number(value: Tensor, p: Tensor) -> Tensor:
    """A tensor of one element as a number beside the elements of a parameter."""
    return math.reshape(cast_to(value, p.type.dtype), [1] if p.ndim else [])


def _stepped(
    rule: rules.Rule, p: Tensor, g: Tensor, lr: Tensor, state: dict[str, Tensor], rows: list[Tensor] | None = None, **options: Any
) -> list[Tensor]:
    """The parameter after a step, and its state in the order it was given. `rows` are the positions that were read, where the gradient is
    that of these rows of a table.
    """
    kind = p.type.dtype
    tensors = {name: _number(value, p) for name, value in options.items() if isinstance(value, Tensor)}
    numbers = rule.rounded({name: value for name, value in options.items() if name not in tensors}, kind.np.type)
    rounded = tensors | {k: float(v) if isinstance(v, np.floating) else v for k, v in numbers.items()}
    rate = _number(lr, p)
    update = rule.update
    if rows and rule.of_rows is not None:
        update, rounded["read"] = rule.of_rows, rows_that_were_read(rows, p)
    made, changed = update(p, cast_to(g, kind), rate, state, rounded, math)
    if made.type.shape != p.type.shape:
        made = math.reshape(made, list(p.type.shape))
    return [made, *(changed.get(name, old) for name, old in state.items())]


@operator(legacy=spelled("sgd", _OF_ROWS, "ParamOut"))
def sgd(p: Tensor, g: Tensor, lr: Tensor, rows: list[Tensor] | None = None) -> Tensor:
    return _stepped(rules.SGD, p, g, lr, {}, rows)[0]


@operator(legacy=spelled("momentum", {**_OF_ROWS, "Velocity": "velocity"}, "ParamOut VelocityOut"))
def momentum(
    p: Tensor,
    g: Tensor,
    lr: Tensor,
    velocity: Tensor,
    rows: list[Tensor] | None = None,
    *,
    mu: float,
    use_nesterov: bool = False,
    regularization_method: str = "",
    regularization_coeff: float = 0.0,
    rescale_grad: float = 1.0,
) -> tuple[Tensor, ...]:
    if regularization_method == "l2_decay":
        g = math.add(g, math.scale(p, regularization_coeff))
    options = {"momentum": mu, "use_nesterov": use_nesterov, "rescale_grad": rescale_grad}
    return tuple(_stepped(rules.MOMENTUM, p, g, lr, {"velocity": velocity}, rows, **options))


@operator(
    legacy=spelled(
        "lars_momentum",
        {**_STEP, "Velocity": "velocity"},
        "ParamOut VelocityOut",
        attributes={"lars_weight_decay": "decay"},
    )
)
def lars_momentum(
    p: Tensor, g: Tensor, lr: Tensor, velocity: Tensor, *, mu: float, lars_coeff: float = 0.001, decay: float = 0.0005, epsilon: float = 0.0
) -> tuple[Tensor, ...]:
    options = {"momentum": mu, "lars_coeff": lars_coeff, "decay": decay, "epsilon": epsilon, "rescale_grad": 1.0}
    return tuple(_stepped(rules.LARS, p, g, lr, {"velocity": velocity}, None, **options))


_MOMENTS = {"Moment1": "moment1", "Moment2": "moment2", "Beta1Pow": "beta1_pow_acc", "Beta2Pow": "beta2_pow_acc"}
_ADAM_OUT = "ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut"


@operator(
    legacy=spelled(
        "adam",
        {**_OF_ROWS, **_MOMENTS, "Beta1Tensor": "beta1_tensor", "Beta2Tensor": "beta2_tensor"},
        _ADAM_OUT,
        ignored="min_row_size_to_use_multithread",
    )
)
def adam(
    p: Tensor,
    g: Tensor,
    lr: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow_acc: Tensor,
    beta2_pow_acc: Tensor,
    beta1_tensor: Tensor | None = None,
    beta2_tensor: Tensor | None = None,
    rows: list[Tensor] | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    multi_precision: Any = None,
) -> tuple[Tensor, ...]:
    """Programs of Paddle 1, in which nothing says `multi_precision`, add `epsilon` as it is; later ones correct it for the start, too.

    `rows` are positions, where the gradient is that of the rows of a table that were read: only these move with `lazy_mode`.
    """
    state = {"moment1": moment1, "moment2": moment2, "beta1_pow_acc": beta1_pow_acc, "beta2_pow_acc": beta2_pow_acc}
    first, second = beta1 if beta1_tensor is None else beta1_tensor, beta2 if beta2_tensor is None else beta2_tensor
    options = {"beta1": first, "beta2": second, "epsilon": epsilon, "lazy_mode": lazy_mode, "plain_epsilon": multi_precision is None}
    return tuple(_stepped(rules.ADAM, p, g, lr, state, rows, **options))


@operator(legacy=spelled("adamw", {**_STEP, **_MOMENTS}, _ADAM_OUT, ignored="lazy_mode min_row_size_to_use_multithread"))
def adamw(
    p: Tensor,
    g: Tensor,
    lr: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow_acc: Tensor,
    beta2_pow_acc: Tensor,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    coeff: float = 0.01,
    with_decay: bool = False,
    lr_ratio: float = 1.0,
) -> tuple[Tensor, ...]:
    state = {"moment1": moment1, "moment2": moment2, "beta1_pow_acc": beta1_pow_acc, "beta2_pow_acc": beta2_pow_acc}
    rate = lr if lr_ratio == 1.0 else math.scale(lr, lr_ratio)
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "decay": coeff if with_decay else 0.0}
    return tuple(_stepped(rules.ADAMW, p, g, rate, state, None, **options))


@operator(legacy=spelled("lamb", {**_OF_ROWS, **_MOMENTS}, _ADAM_OUT, attributes={"weight_decay": "decay"}))
def lamb(
    p: Tensor,
    g: Tensor,
    lr: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow_acc: Tensor,
    beta2_pow_acc: Tensor,
    rows: list[Tensor] | None = None,
    *,
    decay: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    always_adapt: bool = False,
    multi_precision: Any = None,
) -> tuple[Tensor, ...]:
    """Programs of Paddle 1, in which nothing says `multi_precision`, do not correct the moments for their start, nor change the powers."""
    if multi_precision is None:
        return _lamb_of_old(p, g, lr, moment1, moment2, decay, beta1, beta2, epsilon)
    state = {"moment1": moment1, "moment2": moment2, "beta1_pow_acc": beta1_pow_acc, "beta2_pow_acc": beta2_pow_acc}
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "decay": decay, "always_adapt": always_adapt}
    return tuple(_stepped(rules.LAMB, p, g, lr, state, rows, **options))


def _lamb_of_old(
    p: Tensor, g: Tensor, lr: Tensor, moment1: Tensor, moment2: Tensor, decay: float, beta1: float, beta2: float, epsilon: float
) -> tuple[Tensor, ...]:
    """By moments as they are, in the order of the results."""
    powers = {name: math.zeros([1], p.type.dtype) for name in ("beta1_pow_acc", "beta2_pow_acc")}
    state = {"moment1": moment1, "moment2": moment2, **powers}
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "decay": decay, "always_adapt": True}
    return tuple(_stepped(rules.LAMB, p, g, lr, state, None, **options)[:3])


@operator(legacy=spelled("adagrad", {**_OF_ROWS, "Moment": "moment"}, "ParamOut MomentOut"))
def adagrad(
    p: Tensor, g: Tensor, lr: Tensor, moment: Tensor, rows: list[Tensor] | None = None, *, epsilon: float = 1e-6
) -> tuple[Tensor, ...]:
    return tuple(_stepped(rules.ADAGRAD, p, g, lr, {"moment": moment}, rows, epsilon=epsilon))


@operator(legacy=spelled("decayed_adagrad", {**_STEP, "Moment": "moment"}, "ParamOut MomentOut"))
def decayed_adagrad(
    p: Tensor, g: Tensor, lr: Tensor, moment: Tensor, *, decay: float = 0.95, epsilon: float = 1e-6
) -> tuple[Tensor, ...]:
    return tuple(_stepped(rules.DECAYED_ADAGRAD, p, g, lr, {"moment": moment}, decay=decay, epsilon=epsilon))


@operator(
    legacy=spelled(
        "adamax",
        {**_STEP, "Moment": "moment", "InfNorm": "inf_norm", "Beta1Pow": "beta1_pow_acc"},
        "ParamOut MomentOut InfNormOut",
    )
)
def adamax(
    p: Tensor,
    g: Tensor,
    lr: Tensor,
    moment: Tensor,
    inf_norm: Tensor,
    beta1_pow_acc: Tensor,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Tensor, ...]:
    """The power of `beta1` is multiplied on by an operator of its own."""
    state = {"moment": moment, "inf_norm": inf_norm, "beta1_pow_acc": beta1_pow_acc}
    return tuple(_stepped(rules.ADAMAX, p, g, lr, state, beta1=beta1, beta2=beta2, epsilon=epsilon)[:3])


@operator(
    legacy=spelled(
        "adadelta",
        {**_STEP, "AvgSquaredGrad": "gradients", "AvgSquaredUpdate": "updates"},
        "ParamOut AvgSquaredGradOut AvgSquaredUpdateOut",
    )
)
def adadelta(
    p: Tensor, g: Tensor, gradients: Tensor, updates: Tensor, lr: Tensor | None = None, *, rho: float = 0.95, epsilon: float = 1e-6
) -> tuple[Tensor, ...]:
    """Without a rate, as in Paddle 1, whose kernel takes the step that the updates after it allow, not those before."""
    state = {"_avg_squared_grad": gradients, "_avg_squared_update": updates}
    if lr is not None:
        return tuple(_stepped(rules.ADADELTA, p, g, lr, state, rho=rho, epsilon=epsilon))
    _, squares, after = _stepped(rules.ADADELTA, p, g, math.ones([1], p.type.dtype), state, rho=rho, epsilon=epsilon)
    ratio = math.divide(math.scale(after, 1.0, epsilon), math.scale(squares, 1.0, epsilon))
    return math.subtract(p, math.multiply(math.sqrt(ratio), cast_to(g, p.type.dtype))), squares, after


@operator(
    legacy=spelled(
        "rmsprop",
        {**_OF_ROWS, "Moment": "moment", "MeanSquare": "mean_square", "MeanGrad": "mean_grad"},
        "ParamOut MomentOut MeanSquareOut MeanGradOut",
        attributes={"decay": "rho"},
    )
)
def rmsprop(
    p: Tensor,
    g: Tensor,
    lr: Tensor,
    moment: Tensor,
    mean_square: Tensor,
    mean_grad: Tensor | None = None,
    rows: list[Tensor] | None = None,
    *,
    rho: float = 0.9,
    epsilon: float = 1e-10,
    momentum: float = 0.0,
    centered: bool = False,
) -> tuple[Tensor | None, ...]:
    state = {"momentum": moment, "mean_square": mean_square, "mean_grad": mean_square if mean_grad is None else mean_grad}
    options = {"rho": rho, "epsilon": epsilon, "momentum": momentum, "centered": centered}
    made, step, square, mean = _stepped(rules.RMSPROP, p, g, lr, state, rows, **options)
    return made, step, square, None if mean_grad is None else mean


@operator(
    legacy=spelled(
        "ftrl",
        {**_STEP, "SquaredAccumulator": "squared", "LinearAccumulator": "linear"},
        "ParamOut SquaredAccumOut LinearAccumOut",
    )
)
def ftrl(
    p: Tensor, g: Tensor, lr: Tensor, squared: Tensor, linear: Tensor, *, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5
) -> tuple[Tensor, ...]:
    return tuple(_stepped(rules.FTRL, p, g, lr, {"squared": squared, "linear": linear}, l1=l1, l2=l2, lr_power=lr_power))


@operator(
    legacy=spelled(
        "average_accumulates",
        {
            "param": "p", "in_sum_1": "sum_1", "in_sum_2": "sum_2", "in_sum_3": "sum_3", "in_num_accumulates": "count",
            "in_old_num_accumulates": "old_count", "in_num_updates": "updates",
        },
        "out_sum_1 out_sum_2 out_sum_3 out_num_accumulates out_old_num_accumulates out_num_updates",
    )
)  # fmt: skip
def average_accumulates(
    p: Tensor,
    sum_1: Tensor,
    sum_2: Tensor,
    sum_3: Tensor,
    count: Tensor,
    old_count: Tensor,
    updates: Tensor,
    *,
    average_window: float = 0.0,
    max_average_window: int,
    min_average_window: int = 10000,
) -> tuple[Tensor, ...]:
    """Sums of a parameter's values over a window of steps: `sum_1` is moved on to `sum_2` every 16384 steps, for precision, and both to
    `sum_3` where the window ends.
    """
    updates, count = math.scale(updates, 1, 1), math.scale(count, 1, 1)
    sum_1 = math.add(sum_1, p)
    full = math.equal(math.remainder(updates, math.full_like(updates, 16384)), math.zeros_like(updates))
    sum_2 = math.where(full, math.add(sum_2, sum_1), sum_2)
    sum_1 = math.where(full, math.zeros_like(sum_1), sum_1)
    window = cast_to(math.scale(cast_to(updates, p.type.dtype), average_window), updates.type.dtype)
    limit = math.minimum(math.full_like(updates, max_average_window), window)
    over = math.logical_and(math.greater_equal(count, math.full_like(count, min_average_window)), math.greater_equal(count, limit))
    sum_3 = math.where(over, math.add(sum_1, sum_2), sum_3)
    zero = math.zeros_like(sum_1)
    return (
        math.where(over, zero, sum_1),
        math.where(over, zero, sum_2),
        sum_3,
        math.where(over, math.zeros_like(count), count),
        math.where(over, count, old_count),
        updates,
    )
