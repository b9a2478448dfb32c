"""Learning-rate schedulers (`paddle.optimizer.lr`): a rate as a function of the number of `step()` calls.

`last_epoch` counts the steps from 0; making a scheduler takes the first one. Most rates are given in closed form; those that
build on the rate before are so in Paddle too, and agree with it to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from polyreme.ir.diagnostics import PolyremeError
from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = [
    "CosineAnnealingDecay",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LRScheduler",
    "LambdaDecay",
    "LinearLR",
    "LinearWarmup",
    "MultiStepDecay",
    "MultiplicativeDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "OneCycleLR",
    "PiecewiseDecay",
    "PolynomialDecay",
    "ReduceOnPlateau",
    "StepDecay",
]


class ScheduleError(PolyremeError, ValueError):
    """Options that make no schedule."""

    code = "E1003"


class LRScheduler(Shown):
    """The base: a subclass defines `get_lr`, which may use `base_lr`, `last_lr` and `last_epoch`.

    Args:
        learning_rate: the rate that the schedule starts from.
        last_epoch: the step to go on from; -1 starts anew.
        verbose: print every new rate.
    """

    # What `state_dict` keeps.
    keys: Sequence[str] = ("last_epoch", "last_lr")

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"The type of learning rate must be float, but received {type(learning_rate)}")
        if learning_rate < 0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    _kept_as: ClassVar[Mapping[str, str]] = {"learning_rate": "base_lr"}

    def _shown(self) -> dict[str, Any]:
        return super()._shown() | {"last_epoch": self.last_epoch, "last_lr": self.last_lr}

    def __call__(self) -> float:
        """The rate in force."""
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step, or to step `epoch`."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def get_lr(self) -> float:
        """The rate of step `last_epoch`."""
        raise NotImplementedError(f"'get_lr' is not implemented in class {type(self).__name__}")

    def state_keys(self) -> None:
        """A subclass may set `self.keys` here to keep more (or less) in its state."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on from here."""
        self.state_keys()
        return {key: getattr(self, key) for key in self.keys if hasattr(self, key)}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(f"Please check whether state_dict is correct for optimizer. Can't find [ {key} ] in state_dict")
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


def _positive(name: str, value: Any) -> Any:
    if not isinstance(value, int) or value <= 0:
        raise ScheduleError(f"expected '{name}' to be a positive integer but got {value!r}")
    return value


class NoamDecay(LRScheduler):
    """`lr * d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)` (Vaswani et al., "Attention is all you need")."""

    def __init__(self, d_model: int, warmup_steps: int, learning_rate: float = 1.0, last_epoch: int = -1, verbose: bool = False):
        self.d_model = _positive("d_model", d_model)
        self.warmup_steps = warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rise = self.warmup_steps**-1.5 * self.last_epoch
        fall = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        return self.base_lr * self.d_model**-0.5 * min(fall, rise)


class PiecewiseDecay(LRScheduler):
    """`values[i]` up to `boundaries[i]`, and the last value after the last boundary."""

    def __init__(self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False):
        if len(boundaries) == 0:
            raise ScheduleError("The boundaries cannot be empty.")
        if len(values) <= len(boundaries):
            raise ScheduleError(
                f"The values have one element more than boundaries, but received len(values) [{len(values)}] <= len(boundaries) "
                f"[{len(boundaries)}]."
            )
        self.boundaries = boundaries
        self.values = values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        passed = sum(1 for b in self.boundaries if self.last_epoch >= b)
        return self.values[passed] if passed < len(self.boundaries) else self.values[len(self.values) - 1]


class NaturalExpDecay(LRScheduler):
    """`lr * e^(-gamma * n)`."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        if not gamma > 0.0:
            raise ScheduleError(f"expected 'gamma' to be above 0, so that the rate falls, but got {gamma}")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-1 * self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """`lr / (1 + gamma * n)`."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From `lr` to `end_lr` in `decay_steps` steps along a power; with `cycle` the goal moves on each time it is reached."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        self.decay_steps = _positive("decay_steps", decay_steps)
        if not power > 0.0:
            raise ScheduleError(f"expected 'power' to be above 0 but got {power}")
        self.end_lr = end_lr
        self.power = power
        self.cycle = cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        step, goal = self.last_epoch, self.decay_steps
        if self.cycle:
            goal *= max(1, math.ceil(float(step) / float(goal)))
        else:
            step = min(step, goal)
        return (self.base_lr - self.end_lr) * ((1 - float(step) / float(goal)) ** self.power) + self.end_lr


class LinearWarmup(LRScheduler):
    """From `start_lr` to `end_lr` in `warmup_steps` steps, then `learning_rate` (a number or a scheduler)."""

    _kept_as: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(f"the type of learning_rate should be [int, float or LRScheduler], the current type is {learning_rate}")
        self.warmup_steps = _positive("warmup_steps", warmup_steps)
        if not start_lr <= end_lr:
            raise ScheduleError(f"expected 'start_lr' to be at most 'end_lr' but got {start_lr} and {end_lr}")
        self.learning_rate = learning_rate
        self.start_lr = start_lr
        self.end_lr = end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * float(self.last_epoch) / float(self.warmup_steps) + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return self.learning_rate


class ExponentialDecay(LRScheduler):
    """`lr * gamma^n`."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False):
        if not 0.0 < gamma < 1.0:
            raise ScheduleError(f"expected 'gamma' in (0, 1), so that the rate falls, but got {gamma}")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return float(self.base_lr * (self.gamma**self.last_epoch))


class MultiStepDecay(LRScheduler):
    """The rate is multiplied by `gamma` at each of the `milestones`."""

    def __init__(self, learning_rate: float, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        if not isinstance(milestones, (tuple, list)):
            raise TypeError(f"The type of 'milestones' in 'MultiStepDecay' must be 'tuple, list', but received {type(milestones)}.")
        if any(a >= b for a, b in zip(milestones, milestones[1:], strict=False)):
            raise ValueError("The elements of milestones must be incremented")
        if gamma >= 1.0:
            raise ValueError("gamma should be < 1.0.")
        self.milestones = milestones
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        passed = sum(1 for m in self.milestones if self.last_epoch >= m)
        return self.base_lr * (self.gamma**passed)


class StepDecay(LRScheduler):
    """The rate is multiplied by `gamma` every `step_size` steps."""

    def __init__(self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False):
        if not isinstance(step_size, int):
            raise TypeError(f"The type of 'step_size' must be 'int', but received {type(step_size)}.")
        if gamma >= 1.0:
            raise ValueError("gamma should be < 1.0.")
        self.step_size = _positive("step_size", step_size)
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * (self.gamma ** (self.last_epoch // self.step_size))


class LambdaDecay(LRScheduler):
    """`lr * lr_lambda(n)`."""

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False):
        if not callable(lr_lambda):
            raise TypeError(f"The type of 'lr_lambda' in 'LambdaDecay' must be 'function', but received {type(lr_lambda)}.")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LRScheduler):
    """`lr * lr_lambda(1) * … * lr_lambda(n)`."""

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False):
        if not callable(lr_lambda):
            raise TypeError(f"The type of 'lr_lambda' in 'MultiplicativeDecay' must be 'function', but received {type(lr_lambda)}.")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate = rate * self.lr_lambda(epoch)
        return rate


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from `lr` to `eta_min` in `T_max` steps (Loshchilov and Hutter, "SGDR"), built on the rate before."""

    def __init__(self, learning_rate: float, T_max: int, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False):
        if not isinstance(T_max, int):
            raise TypeError(f"The type of 'T_max' in 'CosineAnnealingDecay' must be 'int', but received {type(T_max)}.")
        if not isinstance(eta_min, (float, int)):
            raise TypeError(f"The type of 'eta_min' in 'CosineAnnealingDecay' must be 'float, int', but received {type(eta_min)}.")
        self.T_max = _positive("T_max", T_max)
        self.eta_min = float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def step(self, epoch: int | None = None) -> None:
        if epoch is None:
            super().step()
            return
        self.last_epoch = epoch
        angle = math.pi * epoch / self.T_max
        self.last_lr = self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(angle)) / 2

    def get_lr(self) -> float:
        if self.last_epoch == 0:
            return self.base_lr
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            return self.last_lr + (self.base_lr - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        now, before = (1 + math.cos(math.pi * n / self.T_max) for n in (self.last_epoch, self.last_epoch - 1))
        return now / before * (self.last_lr - self.eta_min) + self.eta_min


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from `lr` to `eta_min` in `T_0` steps, then again, each `T_mult` times as long as the one before."""

    def __init__(self, learning_rate: float, T_0: int, T_mult: int = 1, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False):
        self.T_0 = self.T_i = _positive("T_0", T_0)
        self.T_mult = _positive("T_mult", T_mult)
        self.eta_min = float(eta_min)
        self.T_cur = last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def step(self, epoch: int | None = None) -> None:
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        super().step(epoch)

    def get_lr(self) -> float:
        self.T_i, self.T_cur = self.T_0, self.last_epoch
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
            if self.T_mult == 1:
                self.T_cur %= self.T_i
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2


class LinearLR(LRScheduler):
    """`lr` times a factor that goes from `start_factor` to `end_factor` in `total_steps` steps."""

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(f"`start_factor` must be greater than 0 and less or equal to 1, but got {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"`end_factor` must be greater than 0 and less than 1, but got {end_factor}")
        self.total_steps = _positive("total_steps", total_steps)
        self.start_factor = start_factor
        self.end_factor = end_factor
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        done = min(self.total_steps, self.last_epoch) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * done)


class OneCycleLR(LRScheduler):
    """Up to `max_learning_rate` and down to `end_learning_rate` in `total_steps` steps (Smith and Topin, "Super-convergence")."""

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if not isinstance(max_learning_rate, (float, int)):
            raise TypeError(f"'max_learning_rate' must be 'float' or 'int', but received {type(max_learning_rate)}")
        if max_learning_rate < 0:
            raise ValueError("'max_learning_rate' must be a positive integer.")
        if not isinstance(total_steps, int):
            raise TypeError(f"'total_step' must be 'int', but received {type(total_steps)}")
        if total_steps <= 0:
            raise ValueError("'total_step' must be a positive integer.")
        if not 0 <= phase_pct <= 1:
            raise ValueError(f"'phase_pct' must be between 0 and 1, but received {phase_pct}")
        if three_phase and phase_pct >= 0.5:
            raise ValueError("When three_phase is True, 'phase_pct' must be less than 0.5")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"'anneal_strategy' must by one of 'cos' or 'linear', but received {anneal_strategy}")
        self.total_steps = total_steps
        start = max_learning_rate / float(divide_factor)
        rise = phase_pct * total_steps - 1
        end = total_steps - 1
        if three_phase:
            ends = [0, rise, 2 * phase_pct * total_steps - 2, end, end]
            rates = [start, max_learning_rate, start, end_learning_rate]
        else:
            ends = [0, rise, end, end]
            rates = [start, max_learning_rate, end_learning_rate]
        self._phases = list(zip(ends, ends[1:], rates, rates[1:], strict=False))
        self.anneal_strategy = anneal_strategy
        super().__init__(start, last_epoch, verbose)

    def _shown(self) -> dict[str, Any]:
        return {"max_learning_rate": max(max(phase[2:]) for phase in self._phases)} | super()._shown()

    def get_lr(self) -> float:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. However the number of total steps is {self.total_steps}")
        for i, (begin, end, low, high) in enumerate(self._phases):
            if step <= end or i == len(self._phases) - 1:
                done = (step - begin) / (end - begin)
                if self.anneal_strategy == "linear":
                    return (high - low) * done + low
                return high + (low - high) / 2.0 * (math.cos(math.pi * done) + 1)
        raise AssertionError("a schedule has at least one phase")


class CyclicLR(LRScheduler):
    """Back and forth between `base_learning_rate` and `max_learning_rate` (Smith, "Cyclical learning rates")."""

    _kept_as: ClassVar[Mapping[str, str]] = {"base_learning_rate": "base_lr", "max_learning_rate": "max_lr"}

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ):
        if not isinstance(max_learning_rate, (float, int)):
            raise TypeError(f"'max_learning_rate' must be 'float' or 'int', but received {type(max_learning_rate)}")
        if max_learning_rate < 0:
            raise ValueError(f"'max_learning_rate' must be a positive integer, but received {max_learning_rate}")
        up = _positive("step_size_up", step_size_up)
        down = up if step_size_down is None else _positive("step_size_down", step_size_down)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("'mode' is invalid and 'scale_fn' is not specified, make sure one of 'mode' or 'scale_fn' is valid")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError("'scale_mode' must be one of 'cycle' or 'iterations")
        self.cycle_size = float(up + down)
        self.step_up_pct = up / self.cycle_size
        self.max_lr = float(max_learning_rate)
        self.amplitude = self.max_lr - base_learning_rate
        own: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda x: 1.0, "cycle"),
            "triangular2": (lambda x: 1 / (2.0 ** (x - 1)), "cycle"),
            "exp_range": (lambda x: exp_gamma**x, "iterations"),
        }
        self.scale_fn, self.scale_mode = (scale_fn, scale_mode) if scale_fn is not None else own[mode]
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        iterations = self.last_epoch
        cycle = 1 + iterations // self.cycle_size
        done = 1.0 + iterations / self.cycle_size - cycle
        height = done / self.step_up_pct if done <= self.step_up_pct else (1 - done) / (1 - self.step_up_pct)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else iterations)
        return self.base_lr + self.amplitude * height * scale


class ReduceOnPlateau(LRScheduler):
    """The rate is multiplied by `factor` when the metric given to `step` has not improved for `patience` steps."""

    keys = ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ):
        if mode.lower() not in ("min", "max"):
            raise ValueError("mode: " + mode + " is unknown!")
        if factor >= 1.0:
            raise ValueError("new_lr = origin_lr * gamma and gamma should be < 1.0.")
        if threshold_mode.lower() not in ("rel", "abs"):
            raise ValueError("threshold mode: " + threshold_mode + " is unknown!")
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"The type of 'learning_rate' in 'ReduceOnPlateau' must be 'float', but received {type(learning_rate)}.")
        self.mode = mode.lower()
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode.lower()
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.epsilon = epsilon
        self.cooldown_counter = 0
        self.best: float | None = None
        self.num_bad_epochs = 0
        # The first rate needs no metric, so this schedule does not take a step to begin with.
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = 0
        self.verbose = verbose

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Report the metric of a step: a number, or a Tensor or array of one element."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if hasattr(metrics, "shape") and math.prod(metrics.shape) != 1:
            raise ValueError(f"the size of metrics must be 1, but the current metrics.shape is {list(metrics.shape)}.")
        current = float(metrics.item()) if hasattr(metrics, "item") else float(metrics)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
            rate = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - rate > self.epsilon:
                self.last_lr = rate
                if self.verbose:
                    print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def _better(self, current: float, best: float) -> bool:
        slack = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return current < best - slack if self.mode == "min" else current > best + slack


__dir__ = listed(__name__)
