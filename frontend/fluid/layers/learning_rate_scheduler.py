"""Learning rates that change from run to run: variables that the program itself computes from how often it has run.

The count is the persistable variable `@LR_DECAY_COUNTER@`, one for all decays of a program. In dygraph mode they are the objects of
`fluid.decays`, which an optimizer asks at each step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme.fluid import decays
from polyreme.fluid.framework import default_main_program, in_dygraph_mode
from polyreme.fluid.layers.control_flow import Switch, autoincreased_step_counter
from polyreme.fluid.layers.elementwise import elementwise_div, elementwise_min, elementwise_pow, equal, less_than
from polyreme.fluid.layers.nn import scale
from polyreme.fluid.layers.ops import ceil, cos, exp, floor
from polyreme.fluid.layers.tensor import assign, cast, create_global_var, fill_constant
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = [
    "cosine_decay", "exponential_decay", "inverse_time_decay", "linear_lr_warmup", "natural_exp_decay", "noam_decay",
    "piecewise_decay", "polynomial_decay",
]  # fmt: skip


def _decay_step_counter(begin: int = 0) -> Any:
    """How often the program has run before, as a float32 [1]; with `begin` 1, this run is counted."""
    return cast(autoincreased_step_counter("@LR_DECAY_COUNTER@", begin), "float32")


def _guard() -> Any:
    return default_main_program()._lr_schedule_guard()


def _constant(value: float) -> Any:
    return fill_constant([1], "float32", value)


def noam_decay(d_model: float, warmup_steps: float, learning_rate: float = 1.0) -> Any:
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)."""
    if in_dygraph_mode():
        return decays.NoamDecay(d_model, warmup_steps, learning_rate=learning_rate)
    with _guard():
        steps = _decay_step_counter(1)
        falling = elementwise_pow(steps, _constant(-0.5))
        rising = scale(steps, warmup_steps**-1.5)
        return scale(elementwise_min(falling, rising), learning_rate * d_model**-0.5)


def _periods(steps: Any, decay_steps: float, staircase: bool) -> Any:
    """How many times `decay_steps` have passed; with `staircase` only whole ones count."""
    periods = scale(steps, 1.0 / decay_steps)
    return floor(periods) if staircase else periods


def exponential_decay(learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Any:
    """learning_rate * decay_rate^(step / decay_steps)."""
    if in_dygraph_mode():
        return decays.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase)
    with _guard():
        periods = _periods(_decay_step_counter(), decay_steps, staircase)
        return scale(elementwise_pow(_constant(decay_rate), periods), learning_rate)


def natural_exp_decay(learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Any:
    """learning_rate * exp(-decay_rate * step / decay_steps)."""
    if in_dygraph_mode():
        return decays.NaturalExpDecay(learning_rate, decay_steps, decay_rate, staircase)
    with _guard():
        return scale(exp(scale(_periods(_decay_step_counter(), decay_steps, staircase), -decay_rate)), learning_rate)


def inverse_time_decay(learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Any:
    """learning_rate / (1 + decay_rate * step / decay_steps)."""
    if in_dygraph_mode():
        return decays.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase)
    with _guard():
        grown = scale(scale(_periods(_decay_step_counter(), decay_steps, staircase), decay_rate), 1.0, 1.0)
        return elementwise_div(_constant(learning_rate), grown)


def polynomial_decay(
    learning_rate: float, decay_steps: float, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False
) -> Any:
    """(learning_rate - end_learning_rate) * (1 - step / decay_steps)^power + end_learning_rate, which stays the end from `decay_steps` on;
    with `cycle` it starts again, for twice as long, three times, and so on.
    """
    if in_dygraph_mode():
        return decays.PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle)
    with _guard():
        steps = _decay_step_counter()
        if cycle:
            rounds = ceil(scale(steps, 1.0 / decay_steps))
            zero, one = _constant(0.0), _constant(1.0)
            with Switch() as switch, switch.case(equal(steps, zero)):
                assign(one, output=rounds)
            share = elementwise_div(steps, scale(rounds, float(decay_steps)))
        else:
            share = scale(elementwise_min(steps, _constant(float(decay_steps))), 1.0 / decay_steps)
        left = elementwise_pow(scale(share, -1.0, 1.0), _constant(power))
        return scale(scale(left, learning_rate - end_learning_rate), 1.0, end_learning_rate)


def piecewise_decay(boundaries: Sequence[float], values: Sequence[float]) -> Any:
    """values[i] as long as the step is below boundaries[i], and the last value from then on."""
    if len(values) - len(boundaries) != 1:
        raise ValueError("len(values) - len(boundaries) should be 1")
    if in_dygraph_mode():
        return decays.PiecewiseDecay(boundaries, values, 0)
    with _guard():
        steps = _decay_step_counter()
        rate = create_global_var([1], 0.0, "float32", True, name="learning_rate")
        with Switch() as switch:
            for boundary, value in zip(boundaries, values, strict=False):
                limit, chosen = _constant(float(boundary)), _constant(float(value))
                with switch.case(less_than(steps, limit)):
                    assign(chosen, output=rate)
            last = _constant(float(values[-1]))
            with switch.default():
                assign(last, output=rate)
        return rate


def cosine_decay(learning_rate: float, step_each_epoch: float, epochs: float) -> Any:
    """learning_rate * 0.5 * (cos(epoch * pi / epochs) + 1)."""
    if in_dygraph_mode():
        return decays.CosineDecay(learning_rate, step_each_epoch, epochs)
    with _guard():
        epoch = floor(scale(_decay_step_counter(), 1.0 / step_each_epoch))
        wave = cos(scale(scale(epoch, math.pi), 1.0 / epochs))
        return scale(scale(wave, 1.0, 1.0), 0.5 * learning_rate)


def linear_lr_warmup(learning_rate: Any, warmup_steps: float, start_lr: float, end_lr: float) -> Any:
    """From `start_lr` to `end_lr` in `warmup_steps` steps, and `learning_rate`, a number or a variable, from then on."""
    if not end_lr > start_lr:
        raise ValueError(f"end_lr {end_lr} must be greater than start_lr {start_lr}")
    if in_dygraph_mode():
        return decays.LinearLrWarmup(learning_rate, warmup_steps, start_lr, end_lr)
    with _guard():
        rate = create_global_var([1], 0.0, "float32", True, name="learning_rate_warmup")
        steps = _decay_step_counter()
        with Switch() as switch:
            with switch.case(less_than(steps, _constant(float(warmup_steps)))):
                share = scale(steps, 1.0 / warmup_steps)
                assign(scale(scale(share, end_lr - start_lr), 1.0, start_lr), output=rate)
            with switch.default():
                assign(learning_rate if isinstance(learning_rate, Tensor) else _constant(float(learning_rate)), output=rate)
        return rate


__dir__ = listed(__name__)
