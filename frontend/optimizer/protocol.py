"""What an optimizer of one's own overrides and calls, by the names that Paddle's `Optimizer` has.

A subclass that has `_append_optimize_op` is stepped by it: gradients are clipped, decay is added to them, then `_create_accumulators`,
`_append_optimize_op` for each parameter, and `_finish_update` are called. Optimizers with a `rule` of this package take the short way of
`Optimizer._update`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.dispatch import active_trace
from polyreme.dtypes import as_dtype
from polyreme.nn.clip import ClipGradBase
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import whole
from polyreme.utils import unique_name

__all__ = ["UpdateProtocol"]


class UpdateProtocol:
    """The part of `Optimizer` that subclasses outside of this package see."""

    _name: str | None
    _accumulators: dict[str, dict[str, Tensor]]
    _master_weights: dict[str, Tensor]
    _loaded: dict[str, Any]
    _groups: list[dict[str, Any]]
    _grad_clip: ClipGradBase | None

    if TYPE_CHECKING:  # what `Optimizer` brings

        def get_lr(self) -> float: ...
        def _rate_factor(self, parameter: Any, group: Mapping[str, Any]) -> float: ...
        def _make_state(self, parameters: Sequence[Any], group: Mapping[str, Any]) -> None: ...
        def _update(self, parameter: Any, gradient: Tensor, group: dict[str, Any]) -> None: ...
        def _loaded_for(self, name: str, kind: str) -> Any: ...
        @staticmethod
        def _filled(tensor: Tensor, loaded: Any) -> Tensor: ...
        def _regularizer(self, parameter: Any, group: Mapping[str, Any]) -> Any: ...

    # --- to be overridden

    def _create_accumulators(self, block: Any, parameters: Any) -> None:
        """Make what the update remembers of these parameters, by `_add_accumulator`. Called before every step."""

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
        """Update one parameter: a pair of it and its gradient, or where parameters are in groups the group's dict with the pair as
        `params`.
        """
        pair = param_and_grad["params"] if isinstance(param_and_grad, Mapping) else param_and_grad
        if getattr(self, "rule", None) is None:
            raise NotImplementedError('Class "Optimizer" cannot be used directly as an optimizer, please use its subclasses such as "Adam"')
        group: dict[str, Any] = next((g for g in self._groups if any(p is pair[0] for p in g["params"])), {"params": []})
        self._make_state([pair[0]], group)
        parameter, gradient = pair
        self._update(parameter, gradient, group)

    def _finish_update(self, block: Any, parameters_and_grads: Any) -> None:
        """Called when all parameters of a step (of a group, where there are several) are updated."""

    def _update_param_group(self, parameters: Any) -> Any:
        """The parameters, or the pair, in the dict of a group; a subclass may read the group's other options here."""
        return parameters["params"]

    # --- to be called

    def _add_accumulator(
        self, name: str, param: Any, dtype: Any = None, fill_value: Any = 0.0, shape: Any = None, type: Any = None, device: Any = None
    ) -> Tensor:
        """A tensor that goes with a parameter and is a part of the state dict, by default of its shape and dtype; the one that is there
        already at a later call.
        """
        kept = self._accumulators.setdefault(self._prefixed(name), OrderedDict())
        if param.name not in kept:
            kind = as_dtype(dtype if dtype is not None else param.dtype)
            made = Tensor._wrap(np.full(tuple(param.shape if shape is None else shape), fill_value, kind.np))
            made.name = unique_name.generate(f"{param.name}_{self._prefixed(name)}")
            made.persistable = True
            kept[param.name] = self._filled(made, self._loaded_for(made.name, f"{param.name}_{self._prefixed(name)}"))
        return kept[param.name]

    def _get_accumulator(self, name: str, param: Any) -> Tensor:
        """What `_add_accumulator` made."""
        try:
            return self._accumulators[self._prefixed(name)][param.name]
        except KeyError:
            raise Exception(f"Accumulator {self._prefixed(name)} does not exist for parameter {param.name}") from None

    def _get_accumulator_master(self, name: str, param: Any) -> Tensor:
        """As `_get_accumulator`: of a parameter with a master weight it is that of the master weight."""
        return self._get_accumulator(name, self._master_weights.get(param.name, param))

    def _prefixed(self, name: str) -> str:
        return name if self._name is None else f"{self._name}_{name}"

    def _global_learning_rate(self, program: Any = None) -> Tensor:
        """The rate of this step as a 0-D float32 tensor."""
        return self._rate_tensor(1.0)

    def _create_param_lr(self, param_and_grad: Any) -> Tensor:
        """The rate of this step for one parameter, as a 0-D float32 tensor."""
        pair = param_and_grad["params"] if isinstance(param_and_grad, Mapping) else param_and_grad
        return self._rate_tensor(self._rate_factor(pair[0], {}))

    def _rate_tensor(self, factor: float) -> Tensor:
        make = lambda: Tensor._wrap(np.asarray(self.get_lr() * factor, np.float32))
        trace = active_trace()
        return make() if trace is None else trace.each_time((id(self), "float32", factor), make, f"the rate of {type(self).__name__}")

    @staticmethod
    def _is_dtype_fp16_or_bf16(dtype: Any) -> bool:
        return as_dtype(dtype).name in ("float16", "bfloat16")

    # --- the way a step goes

    def _is_of_ones_own(self) -> bool:
        """Whether the update is an overridden `_append_optimize_op`."""
        return type(self)._append_optimize_op is not UpdateProtocol._append_optimize_op or getattr(self, "rule", None) is None

    def _step_of_ones_own(self, found: Sequence[tuple[Any, Any]], group: dict[str, Any], call: Callable[..., Any] | None = None) -> None:
        """A step of the parameters of one group, which is handed on as a dict if the user gave dicts. What is overridden is called by
        `call`, which is told the function and its arguments, if given.
        """
        from polyreme.static.current import default_main_program

        block = default_main_program().global_block()
        clip: ClipGradBase | None = group.get("grad_clip", self._grad_clip)
        pairs = list(found if clip is None else clip(found))
        if getattr(self, "rule", None) is None:  # whose update adds the decay itself
            pairs = [(p, self._decayed(p, g, group)) for p, g in pairs]
        in_groups = group.keys() > {"params"}
        handed = lambda params: {**group, "params": params} if in_groups else params
        call = call or (lambda function, *args: function(*args))
        call(self._create_accumulators, block, handed([p for p, _ in pairs]))
        for pair in pairs:
            call(self._append_optimize_op, block, handed(pair))
        call(self._finish_update, block, handed(pairs))

    def _decayed(self, parameter: Any, gradient: Tensor, group: Mapping[str, Any]) -> Tensor:
        from polyreme import math as xp

        decay = self._regularizer(parameter, group)
        return gradient if decay is None else whole(gradient) + decay.gradient(parameter, xp)
