"""Learning rates of `fluid.dygraph`: objects that an optimizer asks at each step (`rate()`), or that the user moves on by `epoch()`.

Formulas are those of Paddle 1.8, in elements of `dtype`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.names import listed
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = [
    "CosineDecay", "ExponentialDecay", "InverseTimeDecay", "LambdaDecay", "LinearLrWarmup", "MultiStepDecay", "NaturalExpDecay",
    "NoamDecay", "PiecewiseDecay", "PolynomialDecay", "ReduceLROnPlateau", "StepDecay",
]  # fmt: skip


class LearningRateDecay(Shown):
    """The base of all: `step()` gives the rate at `step_num`, which a call moves on by `step`. Own ones define `step`."""

    def __init__(self, begin: int = 0, step: int = 1, dtype: Any = "float32"):
        self.step_num, self.step_size, self.dtype = begin, step, dtype
        self._state_keys()

    def __call__(self) -> Any:
        rate = self.step()
        self.step_num += self.step_size
        return self.create_lr_var(rate) if isinstance(rate, float) else rate

    def step(self) -> Any:
        """The rate now, a number or a tensor of shape [1]."""
        raise NotImplementedError(f"expected {type(self).__name__} to define step()")

    def create_lr_var(self, lr: Any) -> Tensor:
        """A number as a tensor of shape [1]."""
        return Tensor(np.asarray(lr, dtype=self.dtype).reshape(1))

    def _number(self, value: float) -> Any:
        return np.full(1, value, self.dtype)

    # --- state

    def _state_keys(self) -> None:
        self.keys: list[str] = ["step_num"]

    def state_dict(self) -> dict[str, Any]:
        """What a continued run needs, as plain numbers."""
        self._state_keys()
        found = {key: getattr(self, key) for key in self.keys if hasattr(self, key)}
        return {key: value.numpy().reshape(-1)[0] if isinstance(value, Tensor) else value for key, value in found.items()}

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self._state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(
                    f"Please check whether state_dict is correct for optimizer. Can't find [ {key} ] in state_dict"
                )
            setattr(self, key, state_dict[key])
        if len(state_dict) > len(self.keys):
            warnings.warn(
                "There are some unused values in state_dict. Maybe the optimizer have different 'LearningRateDecay' when invoking "
                "state_dict and set_dict", stacklevel=2,
            )  # fmt: skip

    set_state_dict = load_state_dict = set_dict


# --- moved on by every step


class PiecewiseDecay(LearningRateDecay):
    """`values[i]` until `boundaries[i]` steps have been done."""

    def __init__(self, boundaries: Sequence[float], values: Sequence[float], begin: int, step: int = 1, dtype: Any = "float32"):
        super().__init__(begin, step, dtype)
        if len(values) != len(boundaries) + 1:
            raise ValueError(f"expected one value more than boundaries but got {len(values)} for {len(boundaries)} boundaries")
        self.boundaries, self.values = boundaries, values

    def step(self) -> Any:
        passed = next((i for i, end in enumerate(self.boundaries) if self.step_num < end), None)
        return self.create_lr_var(self.values[-1]) if passed is None else self.values[passed]


class _Periodic(LearningRateDecay):
    """A rate that falls with how many times `decay_steps` have passed; with `staircase` only whole ones count."""

    def __init__(
        self, learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False, begin: int = 0, step: int = 1,
        dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(begin, step, dtype)
        self.learning_rate, self.decay_steps, self.decay_rate, self.staircase = learning_rate, decay_steps, decay_rate, staircase

    def _periods(self) -> Any:
        periods = self._number(self.step_num / self.decay_steps)
        return np.floor(periods) if self.staircase else periods

    def step(self) -> Tensor:
        return self.create_lr_var(self._rate(self._periods()))

    def _rate(self, periods: Any) -> Any:
        raise NotImplementedError


class NaturalExpDecay(_Periodic):
    """learning_rate * exp(-decay_rate * periods)"""

    def _rate(self, periods: Any) -> Any:
        return self.learning_rate * np.exp(-1 * self.decay_rate * periods)


class ExponentialDecay(_Periodic):
    """learning_rate * decay_rate^periods"""

    def _rate(self, periods: Any) -> Any:
        return self.learning_rate * self.decay_rate**periods


class InverseTimeDecay(_Periodic):
    """learning_rate / (1 + decay_rate * periods)"""

    def _rate(self, periods: Any) -> Any:
        return self.learning_rate / (1 + self.decay_rate * periods)


class PolynomialDecay(LearningRateDecay):
    """From `learning_rate` to `end_learning_rate` within `decay_steps`, by a power of what is left; with `cycle` in ever longer rounds."""

    def __init__(
        self, learning_rate: float, decay_steps: float, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False,
        begin: int = 0, step: int = 1, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(begin, step, dtype)
        self.learning_rate, self.decay_steps, self.end_learning_rate = learning_rate, decay_steps, end_learning_rate
        self.power, self.cycle = power, cycle

    def step(self) -> Tensor:
        if self.cycle:
            rounds = np.ceil(self._number(self.step_num / float(self.decay_steps))) if self.step_num else self._number(1.0)
            passed = self.step_num / (self.decay_steps * rounds)
        else:
            passed = self._number(min(self.step_num, self.decay_steps)) / self.decay_steps
        return self.create_lr_var((self.learning_rate - self.end_learning_rate) * (1 - passed) ** self.power + self.end_learning_rate)


class CosineDecay(LearningRateDecay):
    """learning_rate / 2 * (cos(epoch * pi / epochs) + 1), where an epoch has `step_each_epoch` steps."""

    def __init__(
        self, learning_rate: float, step_each_epoch: float, epochs: float, begin: int = 0, step: int = 1, dtype: Any = "float32"
    ):
        super().__init__(begin, step, dtype)
        self.learning_rate, self.step_each_epoch, self.epochs = learning_rate, step_each_epoch, epochs

    def step(self) -> Tensor:
        epoch = np.floor(self._number(self.step_num / self.step_each_epoch))
        return self.create_lr_var(self.learning_rate * 0.5 * (np.cos(epoch * math.pi / self.epochs) + 1))


class NoamDecay(LearningRateDecay):
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (Vaswani et al., "Attention is all you need", 5.3)."""

    def __init__(
        self, d_model: float, warmup_steps: float, begin: int = 1, step: int = 1, dtype: Any = "float32", learning_rate: float = 1.0
    ):
        super().__init__(begin, step, dtype)
        self.learning_rate, self.d_model, self.warmup_steps = learning_rate, d_model, warmup_steps

    def step(self) -> Tensor:
        falling = self._number(self.step_num**-0.5 if self.step_num else math.inf)
        rising = self._number(self.warmup_steps**-1.5 * self.step_num)
        return self.create_lr_var(self.learning_rate * self.d_model**-0.5 * np.minimum(falling, rising))


class LinearLrWarmup(LearningRateDecay):
    """From 0 by equal steps of (end_lr - start_lr) / warmup_steps; then `learning_rate`, a number or another decay."""

    def __init__(
        self, learning_rate: Any, warmup_steps: float, start_lr: float, end_lr: float, begin: int = 1, step: int = 1, dtype: Any = "float32"
    ):
        super().__init__(begin, step, dtype)
        if not isinstance(learning_rate, (float, int, LearningRateDecay)):
            raise TypeError(f"the type of learning_rate should be [int, float or LearningRateDecay], the current type is {learning_rate}")
        assert end_lr > start_lr, f"end_lr {end_lr} must be greater than start_lr {start_lr}"
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.lr_ratio_before_warmup = (float(end_lr) - float(start_lr)) / float(warmup_steps)

    def step(self) -> Any:
        base = self.learning_rate() if isinstance(self.learning_rate, LearningRateDecay) else self.learning_rate
        return self.lr_ratio_before_warmup * self.step_num if self.step_num < self.warmup_steps else base


# --- moved on by the user


class ReduceLROnPlateau(LearningRateDecay):
    """A rate times `decay_rate` whenever a loss, told by `step(loss)`, has not become better for more than `patience` epochs."""

    def __init__(
        self, learning_rate: Any, mode: str = "min", decay_rate: float = 0.1, patience: int = 10, verbose: bool = False,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: float = 0, eps: float = 1e-8,
        dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(dtype=dtype)
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        if self.mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if decay_rate >= 1.0:
            raise ValueError("new_lr = origin_lr * decay_rate and decay_rate should be < 1.0.")
        if self.threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        if not isinstance(learning_rate, (float, int, Tensor)):
            raise TypeError(
                f"The type of 'learning_rate' in 'ReduceLROnPlateau' must be 'float, int, Variable', but received {type(learning_rate)}."
            )
        self.learning_rate, self.decay_rate, self.min_lr = learning_rate, decay_rate, min_lr
        self.verbose, self.patience, self.threshold, self.cooldown, self.eps = verbose, patience, threshold, cooldown, eps
        self.cooldown_counter = self.num_bad_epochs = self.epoch_num = 0
        self.best_loss: Any = None

    def _state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best_loss", "num_bad_epochs", "epoch_num", "learning_rate"]

    def __call__(self) -> Tensor:
        if not isinstance(self.learning_rate, Tensor):
            self.learning_rate = self.create_lr_var(self.learning_rate)
        rate: Tensor = self.learning_rate
        return rate

    def step(self, loss: Any = None) -> None:
        """Tell a loss of shape [1]."""
        if not isinstance(loss, Tensor):
            raise TypeError(f"The type of 'loss' in ReduceLROnPlateau.step must be Variable, but received {type(loss)}.")
        assert list(loss.shape) == [1], (
            f"the loss.shape should be (1L,), but the current loss.shape is {loss.shape}. Maybe that you should call fluid.layers.mean to "
            f"process it first."
        )
        now = loss.numpy()
        self.epoch_num += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        best = self.best_loss.numpy() if isinstance(self.best_loss, Tensor) else self.best_loss
        if best is None or self._is_better(now, best):
            self.best_loss, self.num_bad_epochs = loss, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            old = self().numpy()
            new = np.maximum(old * np.asarray(self.decay_rate, old.dtype), np.asarray(self.min_lr, old.dtype))
            if old - new > self.eps:
                if self.verbose:
                    print(f"Epoch {self.epoch_num}: reducing learning rate from {old[0]} to {new[0]}.")
                self.learning_rate = self.create_lr_var(new)

    def _is_better(self, current: Any, best: Any) -> bool:
        margin = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return bool(current < best - margin if self.mode == "min" else current > best + margin)


class _ByEpoch(LearningRateDecay):
    """A rate that stays until `epoch()` is called. Own ones define `get_lr`, the rate at `epoch_num`."""

    def __init__(self, learning_rate: float, dtype: Any = None):
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"The type of 'learning_rate' must be 'float, int', but received {type(learning_rate)}.")
        if learning_rate < 0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        super().__init__(dtype=dtype or "float32")
        self.base_lr, self.epoch_num = float(learning_rate), -1
        self.learning_rate: Any = None
        self.epoch()

    def _state_keys(self) -> None:
        self.keys = ["epoch_num", "learning_rate"]

    def __call__(self) -> Tensor:
        if not isinstance(self.learning_rate, Tensor):
            self.learning_rate = self.create_lr_var(self.learning_rate)
        rate: Tensor = self.learning_rate
        return rate

    def step(self) -> Tensor:
        return self()

    def epoch(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to the one given."""
        self.epoch_num = self.epoch_num + 1 if epoch is None else epoch
        self.learning_rate = self.get_lr()

    def get_lr(self) -> Any:
        """The rate at `epoch_num`, a number or a tensor."""
        raise NotImplementedError(f"expected {type(self).__name__} to define get_lr()")

    def _power(self, rate: float, count: int) -> Tensor:
        return self.create_lr_var(self.base_lr * self._number(rate) ** count)


class StepDecay(_ByEpoch):
    """learning_rate * decay_rate^(epoch // step_size)"""

    def __init__(self, learning_rate: float, step_size: int, decay_rate: float = 0.1):
        if not isinstance(step_size, int):
            raise TypeError(f"The type of 'step_size' must be 'int', but received {type(step_size)}.")
        if decay_rate >= 1.0:
            raise ValueError("decay_rate should be < 1.0.")
        self.epochs_of_a_step, self.decay_rate = step_size, decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> Tensor:
        return self._power(self.decay_rate, self.epoch_num // self.epochs_of_a_step)


class MultiStepDecay(_ByEpoch):
    """learning_rate * decay_rate^(how many of `milestones` the epoch has reached)"""

    def __init__(self, learning_rate: float, milestones: Sequence[int], decay_rate: float = 0.1):
        if not isinstance(milestones, (tuple, list)):
            raise TypeError(f"The type of 'milestones' in 'MultiStepDecay' must be 'tuple, list', but received {type(milestones)}.")
        if any(a >= b for a, b in zip(milestones, milestones[1:], strict=False)):
            raise ValueError("The elements of milestones must be incremented")
        if decay_rate >= 1.0:
            raise ValueError("decay_rate should be < 1.0.")
        self.milestones, self.decay_rate = milestones, decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> Tensor:
        return self._power(self.decay_rate, sum(self.epoch_num >= end for end in self.milestones))


class LambdaDecay(_ByEpoch):
    """learning_rate * lr_lambda(epoch)"""

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float]):
        if not callable(lr_lambda):
            raise TypeError(f"The type of 'lr_lambda' in 'LambdaDecay' must be 'function', but received {type(lr_lambda)}.")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.epoch_num)


__dir__ = listed(__name__)
