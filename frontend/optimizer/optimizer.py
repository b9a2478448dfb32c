"""The base of all optimizers: parameter groups, learning rates, clipping, decay, state dicts."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.casting.operators import apart
from polyreme.device import current_place
from polyreme.dialects import nn as ops
from polyreme.dispatch import active_trace, assign, call
from polyreme.dtypes import as_dtype
from polyreme.ir.types import scalar_type
from polyreme.nn.clip import ClipGradBase
from polyreme.optimizer.lr import LRScheduler
from polyreme.optimizer.protocol import UpdateProtocol
from polyreme.recorder import Recorder
from polyreme.regularizer import L2Decay, WeightDecayRegularizer
from polyreme.static.mode import in_dynamic_mode
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown, is_same, parameters_of

__all__ = ["Optimizer"]

_LOW_PRECISION = ("float16", "bfloat16")
_PLAIN = frozenset({bool, int, float, str, type(None)})


class _Option:
    """An option as Paddle keeps it, in an attribute of its name behind `_`: what is set there counts from the next step on. In subclasses
    of one's own, which know nothing of `_options`, a plain attribute.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.option = name, name[1:]

    def __get__(self, held: Any, owner: type) -> Any:
        if held is None:
            return self
        for table, name in ((vars(held).get("_options", {}), self.option), (vars(held), self.name)):
            if name in table:
                return table[name]
        raise AttributeError(f"'{type(held).__name__}' object has no attribute '{self.name}'", name=self.name, obj=held)

    def __set__(self, held: Any, value: Any) -> None:
        options = vars(held).get("_options", {})
        if self.option in options:
            options[self.option] = value
        else:
            vars(held)[self.name] = value


class Optimizer(Shown, UpdateProtocol):
    """Updates parameters from their gradients. A subclass of one's own overrides `_append_optimize_op`: see `protocol.py`.

    Args:
        learning_rate: a number, or a scheduler of `paddle.optimizer.lr`.
        parameters: the parameters, or dicts of parameters with options of their own (`params`, `learning_rate` as a factor, `weight_decay`,
        …).
        weight_decay: the coefficient of an L2 penalty, or a regularizer; a parameter's own regularizer wins (a group's over both).
        grad_clip: a `paddle.nn.ClipGradBy…`, applied before the decay.
    """

    rule: Any = None  # a `Rule`; None where a subclass has an update of its own
    _decays_gradients = True  # weight decay is a part of the gradient, not of the update

    _beta1, _beta2, _epsilon, _momentum, _rho = _Option(), _Option(), _Option(), _Option(), _Option()
    _use_nesterov, _centered, _lazy_mode, _amsgrad, _momentum_decay = _Option(), _Option(), _Option(), _Option(), _Option()

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        **options: Any,
    ):
        if not isinstance(learning_rate, (int, float, LRScheduler, Tensor)) or isinstance(learning_rate, bool):
            raise TypeError(f"learning rate should be float or LRScheduler, got {type(learning_rate)} here")
        if parameters is None:
            if in_dynamic_mode():
                raise AttributeError("parameters argument given to the Optimizer should not be None in dygraph mode.")
            parameters = []  # those of the program that `minimize` gets
        if isinstance(parameters, (Tensor, Mapping)) or not isinstance(parameters, Iterable):
            raise TypeError(
                "`parameters` argument given to the optimizer should be an iterable of paddle Tensors, "
                f"but got argument type is `{type(parameters)}`."
            )
        if grad_clip is not None and not isinstance(grad_clip, ClipGradBase):
            raise TypeError(f"expected grad_clip to be a paddle.nn.ClipGradBy… but got {type(grad_clip).__name__}")
        self._name = name
        self._learning_rate: Any = learning_rate
        self._grad_clip = grad_clip
        self._options = options
        self._weight_decay = weight_decay
        self._multi_precision = bool(options.get("multi_precision"))
        self._accumulators: dict[str, dict[str, Tensor]] = OrderedDict()
        self._master_weights: dict[str, Tensor] = {}
        self._loaded: dict[str, Any] = {}
        self._used: set[str] = set()  # what of it was taken
        self._rate_variables: dict[int, Any] = {}  # of static programs
        self._groups: list[dict[str, Any]] = []
        given = list(parameters)
        self._in_groups = bool(given) and isinstance(given[0], Mapping)
        if self._in_groups:
            for group in given:
                self._add_param_group(dict(group))
        else:
            self._append_group({"params": given})

    def _shown(self) -> dict[str, Any]:
        options = {name: value for name, value in self._options.items() if name in parameters_of(type(self))}
        kept = {name: value for name, value in options.items() if not is_same(value, parameters_of(type(self))[name])}
        return {"learning_rate": self._learning_rate, "parameters": len(self._parameter_list)} | super()._shown() | kept

    @property
    def _parameter_list(self) -> list[Any]:
        """All parameters. Without groups it is the list itself, as in Paddle: one that is appended to it takes part."""
        if not self._in_groups and self._groups:
            only: list[Any] = self._groups[0]["params"]
            return only
        return [p for group in self._groups for p in group["params"]]

    @property
    def _param_groups(self) -> list[Any]:
        """The groups as dicts, or the parameters where no groups were given."""
        return self._groups if self._in_groups else self._parameter_list

    def _add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group: its parameters take rates and decays from it, as those of the groups that the optimizer was made with. What it
        does not say itself are the options of now, which it holds from then on, as in Paddle.
        """
        for name, value in {"weight_decay": self._weight_decay, "grad_clip": self._grad_clip, **self._options}.items():
            param_group.setdefault(name, value)
        self._append_group(param_group)
        self._set_by_group(param_group)

    def _append_group(self, group: dict[str, Any]) -> None:
        params = group["params"]
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        known = {id(p) for p in self._parameter_list}
        if any(id(p) in known for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self._groups.append(group)

    def _set_by_group(self, group: Mapping[str, Any]) -> None:
        """What a group says (or leaves at its default) takes the place of what the attributes of its parameters said, as in Paddle."""
        decay = group.get("weight_decay", self._weight_decay)
        for parameter in group["params"]:
            if self._decays_gradients:
                parameter.regularizer = L2Decay(decay) if isinstance(decay, (int, float)) else decay
            parameter.optimize_attr = {**parameter.optimize_attr, "learning_rate": float(group.get("learning_rate", 1.0))}

    # --- learning rates

    def get_lr(self) -> float:
        """The rate of the next step, before the factors of parameters."""
        rate = self._learning_rate
        return float(rate()) if isinstance(rate, LRScheduler) else float(rate)

    def set_lr(self, value: float) -> None:
        """Set a fixed rate; an error when a scheduler decides it."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"The type of 'value' in optimizer.set_lr must be float, but received {type(value)}.")
        if isinstance(self._learning_rate, LRScheduler):
            raise RuntimeError("optimizer's learning rate can't be LRScheduler when invoke this API, because this will lead to conflict.")
        self._learning_rate = float(value)
        if self._rate_variables:
            from polyreme.static.training import set_learning_rate

            set_learning_rate(self)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Let `scheduler` decide the rate from now on."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(f"The type of 'scheduler' in optimizer.set_lr_scheduler must be LRScheduler, but received {type(scheduler)}.")
        self._learning_rate = scheduler

    # --- a step

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Clear the gradients of all parameters."""
        for parameter in self._parameter_list:
            parameter.clear_gradient(set_to_zero)

    clear_gradients = clear_grad

    @tape.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for group in self._groups:
            self._step_group(self._with_gradients(group["params"]), group)

    @apart
    def _step_group(self, found: list[tuple[Any, Any]], group: dict[str, Any]) -> None:
        if self._is_of_ones_own():
            self._step_of_ones_own(found, group)
            return
        clip = group.get("grad_clip", self._grad_clip)
        if clip is not None:
            found = clip(found)
        self._make_state([p for p, _ in found], group)
        if current_place().is_gpu_place() and active_trace() is None and self.rule is not None:
            from polyreme.optimizer.together import step_together

            found = step_together(self, found, group)
        for parameter, gradient in found:
            self._update(parameter, gradient, group)

    def minimize(
        self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, list[tuple[Any, Any]]]:
        """Apply the gradients that `loss.backward()` has left: a step, of `parameters` alone when given. Returns (None, the pairs of
        parameter and gradient).

        In static mode the gradients of `loss` and the updates are appended to its program, and what initialises their state to
        `startup_program`; in place of None the list of update operators is returned.
        """
        if not isinstance(loss, Tensor):
            raise TypeError(f"expected the loss to be a Tensor but got {type(loss)}")
        if not in_dynamic_mode():
            from polyreme.static.training import minimize

            return minimize(self, loss, startup_program, parameters, no_grad_set)  # type: ignore[arg-type]
        pairs = self._with_gradients(parameters or self._parameter_list)
        with tape.no_grad():
            for group in self._groups:
                own = {id(p) for p in group["params"]}
                self._step_group([pair for pair in pairs if id(pair[0]) in own], group)
        return None, pairs

    @staticmethod
    def _with_gradients(parameters: Any) -> list[tuple[Any, Any]]:
        return [(p, p.grad) for p in parameters if not p.stop_gradient and p.grad is not None]

    def backward(
        self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None, callbacks: Any = None
    ) -> list[tuple[Any, Any]]:
        """The first half of `minimize`: the pairs of parameter and gradient."""
        if not in_dynamic_mode():
            from polyreme.static.current import default_startup_program, program_guard
            from polyreme.static.training import append_gradients

            with program_guard(loss.block.program, startup_program or default_startup_program()):
                return append_gradients(self, loss, parameters, no_grad_set)  # type: ignore[arg-type]
        loss.backward()
        return self._with_gradients(parameters or self._parameter_list)

    def apply_gradients(self, params_grads: Sequence[tuple[Any, Any]]) -> Any:
        """The second half of `minimize` in static mode: the update operators for these pairs. In dygraph mode a step with the pairs'
        gradients.
        """
        if not in_dynamic_mode():
            from polyreme.static.training import append_updates

            return append_updates(self, params_grads)
        for parameter, gradient in params_grads:
            parameter.grad = gradient
        self.step()
        return None

    def _rate_factor(self, parameter: Any, group: Mapping[str, Any]) -> float:
        """What the rate is multiplied by for a parameter; for a plain tensor, nothing."""
        own = getattr(parameter, "optimize_attr", None)
        return float(own.get("learning_rate", 1.0)) if own else 1.0

    def _update(self, parameter: Any, gradient: Tensor, group: dict[str, Any]) -> None:
        options = self._options_of(parameter, group)
        stored = self._master_weights.get(parameter.name, parameter)
        kind = self.rule.kind_of_state(np.dtype(stored.type.dtype.np))
        state = {slot.name: self._accumulators[slot.name][parameter.name] for slot in self._slots()}
        options = self.rule.rounded(options, kind.type)
        decay = self._regularizer(parameter, group)
        update = self.rule.update
        if isinstance(gradient, SelectedRows):
            if decay is None:  # else all rows have a gradient
                update, options = self._update_of_rows(parameter), {**options, "read": gradient.read()}
            gradient = gradient.whole()
        if (recorder := active_trace()) is not None:
            self._record_update(recorder, update, parameter, gradient, self._rate_factor(parameter, group), kind, state, options, decay)
            return
        rate = self._rate(kind, self._rate_factor(parameter, group))
        new = self._step_on_gpu if current_place().is_gpu_place() else self._step_on_cpu
        read = stored if kind == stored._value.dtype else Tensor._wrap(_of_dtype(stored._value, kind))
        p, changed = new(update, read, gradient, rate, state, options, decay)
        for name, value in changed.items():
            _overwrite(state[name], value)
        _overwrite(stored, p)
        if stored is not parameter:
            _overwrite(parameter, p)

    def _update_of_rows(self, parameter: Any) -> Any:
        """The formula for a table that was read by rows."""
        if self.rule.of_rows is None:
            raise NotImplementedError(
                f"expected a whole gradient for '{parameter.name}', which was read with sparse=True: {type(self).__name__} has no step for "
                f"rows, in Paddle neither; read it with sparse=False, or take Adam, SGD, Momentum, Adagrad, RMSProp, Lamb or Rprop"
            )
        return self.rule.of_rows

    def _rate(self, kind: Any, factor: float) -> Any:
        """The rate of a parameter whose factor this is, as a number of the dtype that it is updated in."""
        return kind.type(self.get_lr() * factor)

    def _options_of(self, parameter: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        options = {**self._options, **{k: v for k, v in group.items() if k != "params"}}
        return options | self._parameter_options(parameter, options)

    def _record_update(
        self,
        recorder: Recorder,
        update: Any,
        parameter: Any,
        gradient: Tensor,
        factor: float,
        kind: Any,
        state: Mapping[str, Tensor],
        options: Mapping[str, Any],
        decay: WeightDecayRegularizer | None,
    ) -> None:
        """A step of one parameter in a function that is captured: its state and the parameter are written to, the rate is an argument."""
        from polyreme.math.common import cast_to
        from polyreme.optimizer.by_ops import updated

        rate = recorder.each_time(
            (id(self), str(kind), factor), lambda: Tensor._wrap(np.asarray(self._rate(kind, factor))), f"the rate of {type(self).__name__}"
        )
        stored = self._master_weights.get(parameter.name, parameter)
        with tape.recording(False):
            read = cast_to(stored, as_dtype(kind).scalar)
            p, changed = updated(update, read, gradient, rate, state, options, decay)
            for name, value in changed.items():
                assign(state[name], cast_to(value, state[name].type.dtype))
            assign(stored, cast_to(p, stored.type.dtype))
            if stored is not parameter:
                assign(parameter, cast_to(p, parameter.type.dtype))

    def kept_names(self) -> list[tuple[Any, list[str]]]:
        """The tables of state, and for which parameters they have some, for `forget_since`."""
        tables: list[dict[str, Any]] = [self._accumulators, *self._accumulators.values(), self._master_weights]
        return [(table, list(table)) for table in tables]

    def forget_since(self, names: list[tuple[Any, list[str]]]) -> None:
        """Forget state that was made since then."""
        for table, known in names:
            for name in [name for name in table if name not in known]:
                del table[name]

    def signature(self) -> tuple[Any, ...]:
        """What a step depends on, but for the rate and the contents of tensors: equal as long as a compiled step is right."""
        found: list[Any] = [value for name, value in vars(self).items() if type(value) in _PLAIN and name != "_learning_rate"]
        found += [*self._options.values(), id(self._grad_clip), *_fields(self._grad_clip), len(self._groups)]
        found += [id(t) for kept in self._accumulators.values() for t in kept.values()]
        found += map(id, self._master_weights.values())
        for group in self._groups:
            found += [value if type(value) in _PLAIN else id(value) for name, value in group.items() if name != "params"]
            found += _fields(group.get("grad_clip"))
            for parameter in group["params"]:
                decay = self._regularizer(parameter, group)
                found += [id(parameter), parameter.stop_gradient, getattr(parameter, "need_clip", True), *_fields(decay)]
                found += [self._rate_factor(parameter, group), *self._parameter_options(parameter, self._options | group).values()]
        return tuple(found)

    def _step_on_cpu(
        self,
        update: Any,
        stored: Tensor,
        gradient: Tensor,
        rate: Any,
        state: Mapping[str, Tensor],
        options: Mapping[str, Any],
        decay: WeightDecayRegularizer | None,
    ) -> tuple[Any, dict[str, Any]]:
        """The arrays of the parameter and its state after a step, by numpy."""
        p = stored._value
        # In the precision of the (master) weight: Python's own numbers adopt it, arrays would not.
        g = gradient._value.astype(p.dtype, copy=False)
        if decay is not None:
            g = g + decay.gradient(p, np)
        made: tuple[Any, dict[str, Any]] = update(p, g, rate, {name: t._value for name, t in state.items()}, options, np)
        return made

    def _step_on_gpu(
        self,
        update: Any,
        stored: Tensor,
        gradient: Tensor,
        rate: Any,
        state: Mapping[str, Tensor],
        options: Mapping[str, Any],
        decay: WeightDecayRegularizer | None,
    ) -> tuple[Any, dict[str, Any]]:
        """As `_step_on_cpu`, by ops."""
        from polyreme.optimizer.by_ops import updated

        # A Python number, since what numpy's own numbers do when they stand before a tensor depends on their type.
        if "read" in options:
            options = {**options, "read": Tensor._wrap(options["read"])}
        p, changed = updated(update, stored, gradient, float(rate), state, options, decay)
        return p._value, {name: t._value for name, t in changed.items()}

    def _parameter_options(self, parameter: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options that differ between parameters."""
        return {}

    def _regularizer(self, parameter: Any, group: Mapping[str, Any]) -> WeightDecayRegularizer | None:
        own = getattr(parameter, "regularizer", None)
        decay = own if own is not None else group.get("weight_decay", self._weight_decay)
        if decay is None or isinstance(decay, WeightDecayRegularizer):
            return decay
        return L2Decay(decay)

    # --- state

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """An optimizer of copies of the parameters, with copies of their state: it goes on as this one."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        vars(twin).update(copy.deepcopy(vars(self), memo))
        names = {old.name: new.name for old, new in zip(self._parameter_list, twin._parameter_list, strict=True)}
        tables = [*twin._accumulators.items(), ("fp32_master", twin._master_weights)]
        for kind, kept in tables:
            for old, new in names.items():
                if old in kept:
                    kept[new] = kept.pop(old)
                    kept[new].name = unique_name.generate(f"{new}_{kind}")
        masters = {names.get(name, name): value for name, value in self._loaded.get("master_weights", {}).items()}
        twin._loaded = {_renamed(key, names): value for key, value in self._loaded.items()}
        if masters:
            twin._loaded["master_weights"] = masters
        twin._used = {_renamed(key, names) for key in self._used}
        return twin

    def _slots(self) -> Sequence[Any]:
        return self.rule.slots if self.rule is not None else ()

    def _make_state(self, parameters: Sequence[Any], group: Mapping[str, Any]) -> None:
        options = {**self._options, **group}
        for parameter in parameters:
            if self._lacks_master_weight(parameter):
                at_once = active_trace() is None
                wide = _of_dtype(parameter._value, np.dtype(np.float32)) if at_once else parameter._value.astype(np.float32)
                master = Tensor._wrap(wide)
                master.name = unique_name.generate(parameter.name + "_fp32_master")
                self._master_weights[parameter.name] = self._filled(master, self._loaded.get("master_weights", {}).get(parameter.name))
        for slot in self._slots():
            kept = self._accumulators.setdefault(slot.name, OrderedDict())
            for parameter in parameters:
                if parameter.name in kept:
                    continue
                like = self._master_weights.get(parameter.name, parameter).type
                kind = slot.dtype or self.rule.kind_of_state(np.dtype(like.dtype.np))
                tensor = Tensor._wrap(np.full(slot.shape(like.shape, options), slot.start(options), kind))
                tensor.name = unique_name.generate(f"{parameter.name}_{slot.name}")
                tensor.persistable = True
                kept[parameter.name] = self._filled(tensor, self._loaded_for(tensor.name, f"{parameter.name}_{slot.name}"))

    def _lacks_master_weight(self, parameter: Any) -> bool:
        """Whether the first step of a parameter of half precision makes a float32 copy of it."""
        half = self._multi_precision and str(parameter.dtype).split(".")[-1] in _LOW_PRECISION
        return half and parameter.name not in self._master_weights

    def _loaded_for(self, name: str, kind: str) -> Any:
        """What was loaded for a state of this name. Another optimizer of the same parameters counted its name on: its state of this kind is
        taken, where there is one. `AssertionError` where something was loaded, but nothing for it.
        """
        if name not in self._loaded:
            alike = [key for key in self._loaded if key.startswith(f"{kind}_") and key[len(kind) + 1 :].isdigit()]
            if len(alike) != 1:
                if self._loaded.keys() - self._used - {"master_weights"}:
                    raise AssertionError(f"Optimizer set error, {name} should in state dict")
                return None
            name = alike[0]
        self._used.add(name)
        return self._loaded[name]

    @staticmethod
    def _filled(tensor: Tensor, loaded: Any) -> Tensor:
        if loaded is not None:
            array = loaded.numpy() if isinstance(loaded, Tensor) else np.asarray(loaded)
            if not isinstance(tensor._value, np.ndarray):  # a variable of a static program, whose value is in the scope
                tensor.set_value(array.reshape(tensor.shape))
                return tensor
            if array.size != tensor._value.size:
                raise ValueError(f"expected a state of shape {list(tensor.shape)} for '{tensor.name}' but got {list(array.shape)}")
            _overwrite(tensor, array.reshape(tensor._value.shape))
        return tensor

    def state_dict(self) -> dict[str, Any]:
        """Accumulators by name, master weights when there are any, and the scheduler's state under "LR_Scheduler"."""
        state: dict[str, Any] = {t.name: t for kept in self._accumulators.values() for t in kept.values()}
        if self._master_weights:
            state["master_weights"] = dict(self._master_weights)
        if isinstance(self._learning_rate, LRScheduler):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; accumulators that do not exist yet are filled when the first step makes them."""
        if isinstance(self._learning_rate, LRScheduler) and "LR_Scheduler" in state_dict:
            self._learning_rate.set_state_dict(state_dict["LR_Scheduler"])
        self._loaded, self._used = {k: v for k, v in state_dict.items() if k != "LR_Scheduler"}, set()
        for kept in self._accumulators.values():
            for tensor in kept.values():
                if tensor.name not in self._loaded:
                    raise KeyError(f"expected the optimizer's state '{tensor.name}' in the state dict but it is not there")
                self._filled(tensor, self._loaded[tensor.name])
                self._used.add(tensor.name)
        for name, master in self._master_weights.items():
            self._filled(master, self._loaded.get("master_weights", {}).get(name))

    set_dict = set_state_dict


def _renamed(key: str, names: Mapping[str, str]) -> str:
    """The name of a state when parameters are called otherwise."""
    owner = max((name for name in names if key.startswith(f"{name}_")), key=len, default="")
    return names[owner] + key[len(owner) :] if owner else key


def _fields(held: Any) -> list[Any]:
    """What kind of clip or decay it is, and its numbers."""
    return [] if held is None or type(held) in _PLAIN else [type(held), *vars(held).values()]


def _overwrite(tensor: Any, array: Any) -> None:
    """New contents of the same shape and dtype; the tape sees the change by the version. State of one element makes a row of a parameter
    that is a number: a number again.
    """
    made = _of_dtype(array if isinstance(array, np.ndarray) else np.asarray(array), tensor._value.dtype)
    tensor._put(made if made.shape == tensor._value.shape else made.reshape(tensor._value.shape))


def _of_dtype(array: Any, dtype: np.dtype[Any]) -> Any:
    """The array, or its elements rounded to `dtype`: on the device where it lies on one that computes now."""
    if array.dtype == dtype:
        return array
    if current_place().is_gpu_place():
        return call(ops.Cast, Tensor._wrap(array), dtype=scalar_type(dtype))._value
    return array.astype(dtype)


def check_fraction(name: str, value: Any) -> Any:
    """A number in [0, 1), or `ValueError`."""
    if isinstance(value, Tensor):
        value = float(value)
    if value is None or not 0 <= value < 1:
        raise ValueError(f"Invalid value of {name}, expect {name} in [0,1).")
    return value


def check_not_negative(name: str, value: Any) -> Any:
    """A number of at least 0, or `ValueError`."""
    if isinstance(value, Tensor):
        value = float(value)
    if value is None or not value >= 0:
        raise ValueError(f"Invalid value of {name}, expect {name} >= 0.")
    return value
