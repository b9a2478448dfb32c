"""Loss scaling: gradients of half precision are kept in range by multiplying the loss, and steps whose gradients overflow are skipped."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any

import numpy as np

from polyreme.casting.state import last_dtype, suspended, takes_effect
from polyreme.device import current_place
from polyreme.dispatch import active_trace, assign
from polyreme.math.creation import to_tensor
from polyreme.math.elementwise import cast, isfinite, multiply
from polyreme.math.manipulation import reshape, stack
from polyreme.math.reduction import all as all_
from polyreme.static.mode import in_dynamic_mode
from polyreme.tape import no_grad
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import held_values
from polyreme.utils.shown import Shown

__all__ = ["AmpScaler", "GradScaler", "OptimizerState"]


class OptimizerState(Enum):
    """What was done with an optimizer's gradients since the last update of the scale."""

    INIT = 0
    UNSCALED = 1
    STEPPED = 2


class AmpScaler(Shown):
    """Multiplies a loss by a scale, divides gradients by it, and moves the scale: down when gradients are not finite, up when they were
    finite for many steps. On a CPU this warns and is off, unless the flag `FLAGS_amp_on_cpu` is set.

    Args:
        enable: False makes it transparent.
        init_loss_scaling: the first scale.
        incr_ratio: the scale is multiplied by this, which is above 1, after `incr_every_n_steps` finite steps in a row.
        decr_ratio: it is multiplied by this, which is below 1, at the `decr_every_n_nan_or_inf`th step in a row that is not finite.
        use_dynamic_loss_scaling: whether the scale moves.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ):
        if not in_dynamic_mode():
            raise RuntimeError("expected a scaler to be made in dygraph mode; paddle.disable_static() goes back to it")
        if enable and not takes_effect():
            warnings.warn(
                f"AmpScaler can only be enabled on CUDAPlace, XPUPlace and CustomPlace, current place is {current_place()}, so it makes no "
                "effect; paddle.set_flags({'FLAGS_amp_on_cpu': True}) lets it take effect on a CPU",
                stacklevel=2,
            )
            enable = False
        self._scale: Tensor
        self._enable = bool(enable)
        self._use_dynamic_loss_scaling = False
        self._init_loss_scaling: float = 1.0
        if not self._enable:
            return
        _expect_above(incr_ratio)
        _expect_below(decr_ratio)
        self._incr_ratio, self._decr_ratio = incr_ratio, decr_ratio
        self._incr_every_n_steps, self._decr_every_n_nan_or_inf = incr_every_n_steps, decr_every_n_nan_or_inf
        self._incr_count = self._decr_count = 0
        self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
        # Since the last update, by the identity of the optimizer: what was done with its gradients, and whether all of them were finite.
        self._states: dict[int, OptimizerState] = {}
        self._finite: dict[int, bool] = {}
        self.set_init_loss_scaling(init_loss_scaling)

    # --- a step

    def scale(self, var: Tensor) -> Tensor:
        """`var` times the scale; `var` itself when this is off. A dynamic scale turns itself off after a region of bfloat16, whose range
        needs none, and where there was no region of float16.
        """
        if not isinstance(var, Tensor):
            raise TypeError(f"expected a Tensor for scale() but got {type(var).__name__}")
        if self._enable and self._use_dynamic_loss_scaling and last_dtype() != "float16":
            self._enable, self._use_dynamic_loss_scaling, self._init_loss_scaling = False, False, 1.0
            self._warn_of(last_dtype())
        return multiply(var, self._scale) if self._enable else var

    def _warn_of(self, dtype: str) -> None:
        warnings.warn(
            f"It is not recommended to use dynamic loss scaling for {dtype}, so GradScaler is disable by default.", stacklevel=3
        )

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.minimize(...)` of gradients that are divided by the scale first, unless they are not finite; then the scale moves."""
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        if self._states.get(id(optimizer), OptimizerState.INIT) is OptimizerState.INIT:
            self._unscale(optimizer)
        made = optimizer.minimize(*args, **kwargs) if self._finite[id(optimizer)] else (None, None)
        if self._use_dynamic_loss_scaling:
            self._update()
        self._forget()
        return made

    def _unscale(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, and note whether all of them are finite."""
        if not self._enable:
            return
        state = self._states.get(id(optimizer), OptimizerState.INIT)
        if state is OptimizerState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state is OptimizerState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._finite[id(optimizer)] = self._divide(optimizer)
        self._states[id(optimizer)] = OptimizerState.UNSCALED

    @no_grad()
    def _divide(self, optimizer: Any) -> bool:
        """Divide gradients by the scale. Returns whether all of them are finite; a program of a step is for those that are."""
        found = [held_values(parameter.grad) for parameter in optimizer._parameter_list if parameter.grad is not None]
        with suspended():
            factor = reshape(1.0 / self._scale, [])
            if current_place().is_gpu_place() and active_trace() is None:
                from polyreme.amp.together import unscaled_together

                return unscaled_together(found, factor)
            finite = [all_(isfinite(gradient)) for gradient in found]
            for gradient in found:
                wide = cast(gradient, "float32") if gradient.dtype.name in ("float16", "bfloat16") else gradient
                assign(gradient, cast(wide * cast(factor, wide.dtype), gradient.dtype))
            recorder = active_trace()
            if recorder is None or not finite:
                return all(map(bool, finite))
            return recorder.expect(all_(stack(finite)))

    def _forget(self) -> None:
        """All optimizers may unscale and step anew."""
        self._states.clear()
        self._finite.clear()

    def _update(self) -> None:
        """Move the scale, by what was found since the last update: of several optimizers one whose gradients are not finite is enough."""
        if not all(self._finite.values()):
            self._incr_count, self._decr_count = 0, self._decr_count + 1
            if self._decr_count == self._decr_every_n_nan_or_inf:
                scale = self._scale.item()
                print(f"Found inf or nan, current scale is: {scale}, decrease to: {scale}*{float(self._decr_ratio)}")
                self._scale, self._decr_count = self._scale * self._decr_ratio, 0
            return
        self._incr_count, self._decr_count = self._incr_count + 1, 0
        if self._incr_count == self._incr_every_n_steps:
            self._scale, self._incr_count = self._scale * self._incr_ratio, 0

    # --- what it is set to

    def is_enable(self) -> bool:
        """Whether it scales."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the scale moves."""
        return self._use_dynamic_loss_scaling

    def get_init_loss_scaling(self) -> float:
        """The first scale."""
        return self._init_loss_scaling

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Begin anew with this scale."""
        self._init_loss_scaling = new_init_loss_scaling
        self._scale = to_tensor(np.array([new_init_loss_scaling], np.float32))

    def get_incr_ratio(self) -> float:
        """By what the scale grows."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Set by what the scale grows, above 1."""
        _expect_above(new_incr_ratio, "new_")
        self._incr_ratio = new_incr_ratio

    def get_decr_ratio(self) -> float:
        """By what the scale shrinks."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Set by what the scale shrinks, below 1."""
        _expect_below(new_decr_ratio, "new_")
        self._decr_ratio = new_decr_ratio

    def get_incr_every_n_steps(self) -> int:
        """After how many finite steps in a row the scale grows."""
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Set after how many finite steps in a row the scale grows."""
        self._incr_every_n_steps = new_incr_every_n_steps

    def get_decr_every_n_nan_or_inf(self) -> int:
        """At which step in a row that is not finite the scale shrinks."""
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Set at which step in a row that is not finite the scale shrinks."""
        self._decr_every_n_nan_or_inf = new_decr_every_n_nan_or_inf

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """The scale as an array of shape [1], the settings and the counts; nothing when this is off."""
        if not self._enable:
            return {}
        return {
            "scale": self._scale.numpy(),
            "incr_ratio": self._incr_ratio,
            "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every_n_steps,
            "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
            "incr_count": self._incr_count,
            "decr_count": self._decr_count,
            "use_dynamic_loss_scaling": self._use_dynamic_loss_scaling,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken; `RuntimeError` for an empty one, of a scaler that was off."""
        if not self._enable:
            return
        if not state_dict:
            raise RuntimeError("The input state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self.set_init_loss_scaling(float(np.asarray(state_dict["scale"]).reshape(-1)[0]))
        for name in (
            "incr_ratio", "decr_ratio", "incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_count", "decr_count",
            "use_dynamic_loss_scaling",
        ):  # fmt: skip
            setattr(self, f"_{name}", state_dict[name])


class GradScaler(AmpScaler):
    """As `AmpScaler`, with `step` and `update` apart, so that gradients can be looked at, or clipped, after `unscale_`.

    The arguments are those of `AmpScaler`, with a first scale of 65536 that grows after 2000 finite steps.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**16,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ):
        super().__init__(
            enable, init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf, use_dynamic_loss_scaling
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, once between two updates."""
        if self._enable:
            self._unscale(optimizer)

    def step(self, optimizer: Any) -> None:
        """`optimizer.step()` of gradients that are divided by the scale, unless they are not finite."""
        if not self._enable:
            optimizer.step()
            return
        state = self._states.get(id(optimizer), OptimizerState.INIT)
        if state is OptimizerState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state is OptimizerState.INIT:
            self._unscale(optimizer)
        if self._finite[id(optimizer)]:
            optimizer.step()
        self._states[id(optimizer)] = OptimizerState.STEPPED
        if not self._use_dynamic_loss_scaling:
            self._states.pop(id(optimizer))

    def update(self) -> None:
        """Move the scale by what was found since the last call."""
        if self._enable and self._use_dynamic_loss_scaling:
            self._update()
            self._forget()


def _expect_above(ratio: float, new: str = "") -> None:
    if not ratio > 1.0:
        raise AssertionError(f"The {new}incr_ratio must be > 1.0, but got {ratio}.")


def _expect_below(ratio: float, new: str = "") -> None:
    if not ratio < 1.0:
        raise AssertionError(f"The {new}decr_ratio must be < 1.0, but got {ratio}.")
