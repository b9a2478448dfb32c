"""The step of an optimizer on a GPU: the updates of all parameters by a few launches.

Parameters whose updates are one formula, with the same options, types and decay, are updated together (`compiled/for_each.py`); their rates
may differ. Weights and state are written where they stand, if nobody else has them: so a step takes no memory, and its tables are the same
in each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.compiled.for_each import for_each
from polyreme.device import copies_on, current_place
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import scalar_type
from polyreme.math.common import cast_to
from polyreme.optimizer.by_ops import updated
from polyreme.optimizer.rules import Update
from polyreme.regularizer import L1Decay, L2Decay
from polyreme.runtime.gpu.arrays import DeviceArray, Memory, is_only_holder
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows

__all__ = ["step_together"]

Pair = tuple[Any, Any]
_PLAIN = (bool, int, float, str, type(None), np.generic)
# Norms of weights are sums of one block, for weights of at most so many elements.
MOST_OF_A_BLOCK = 1 << 16
# Options of groups that are no part of a formula.
_APART = ("learning_rate", "weight_decay", "grad_clip")


def step_together(optimizer: Any, found: Sequence[Pair], group: dict[str, Any]) -> list[Pair]:
    """Update what can be updated together; the pairs that are left."""
    if any(slot.rows or slot.dtype for slot in optimizer._slots()):
        return list(found)
    alike: dict[_Formula, list[Pair]] = {}
    left: list[Pair] = []
    for parameter, gradient in found:
        formula = _formula_of(optimizer, parameter, gradient, group)
        if formula is None:
            left.append((parameter, gradient))
        else:
            alike.setdefault(formula, []).append((parameter, gradient))
    for formula, pairs in alike.items():
        if formula not in _formulas and len(_formulas) >= MOST_FORMULAS:
            left += pairs
        else:
            _formulas.add(formula)
            _update(optimizer, formula, pairs, group)
    return left


@dataclass(frozen=True)
class _Formula:
    """An update of a (master) weight that is computed in `kind`; `options` and `decay`, the kind of it and its coefficient, are parts of
    the compiled code. State is `large`, of as many elements as the weight, or `single` numbers.
    """

    update: Update
    has_master: bool
    kind: np.dtype[Any]
    decay: tuple[Any, ...]
    options: tuple[tuple[str, str, Any], ...]
    large: tuple[str, ...]
    single: tuple[str, ...]

    def __call__(self, p: Tensor, *others: Tensor) -> list[Tensor]:
        """The new parameter, master weight and state."""
        own = [p, *others[: self.has_master]]
        g, *state, rate = others[self.has_master :]
        names = (*self.large, *self.single)
        decay = self.decay[0](self.decay[1]) if self.decay else None
        read = cast_to(own[-1], scalar_type(self.kind))
        made, changed = updated(self.update, read, g, rate, dict(zip(names, state, strict=True)), self.given_options(), decay)
        held = [changed.get(name, old) for name, old in zip(names, state, strict=True)]
        return [cast_to(new, old.type.dtype) for new, old in zip([made] * len(own) + held, (*own, *state), strict=True)]

    def given_options(self) -> dict[str, Any]:
        return {name: value for name, _, value in self.options}


# Those that have programs. Options that change from step to step are better numbers of ops than programs of their own.
_formulas: set[_Formula] = set()
MOST_FORMULAS = 256


def _formula_of(optimizer: Any, parameter: Any, gradient: Any, group: dict[str, Any]) -> _Formula | None:
    """The formula of a parameter's update; None where it is not that of whole arrays alone."""
    decay = optimizer._regularizer(parameter, group)
    if isinstance(gradient, SelectedRows) or type(decay) not in (type(None), L1Decay, L2Decay):
        return None
    if not optimizer.rule.elementwise and parameter.type.elements > MOST_OF_A_BLOCK:
        return None
    if not parameter.type.elements or gradient.type.shape != parameter.type.shape:
        return None
    stored = optimizer._master_weights.get(parameter.name, parameter)
    kind = optimizer.rule.kind_of_state(np.dtype(stored.type.dtype.np))
    options = optimizer.rule.rounded(optimizer._options_of(parameter, group), kind.type)
    kept = [(n, type(v).__name__, v) for n, v in sorted(options.items()) if n not in _APART and isinstance(v, _PLAIN)]
    slots = optimizer._slots()
    large, single = (tuple(slot.name for slot in slots if slot.single == what) for what in (False, True))
    said = (type(decay), decay.coeff) if decay is not None else ()
    return _Formula(optimizer.rule.update, stored is not parameter, kind, said, tuple(kept), large, single)


def _update(optimizer: Any, formula: _Formula, pairs: Sequence[Pair], group: dict[str, Any]) -> None:
    """One step of parameters with the same formula."""
    rates: dict[float, Any] = {}
    sets: list[list[Any]] = []
    into: list[list[DeviceArray | None]] = []
    written: list[list[Tensor]] = []
    for parameter, gradient in pairs:
        factor = optimizer._rate_factor(parameter, group)
        if factor not in rates:
            rates[factor] = np.asarray(optimizer._rate(formula.kind, factor))
        own = [parameter, *([optimizer._master_weights[parameter.name]] if formula.has_master else [])]
        large, single = ([optimizer._accumulators[name][parameter.name] for name in names] for names in (formula.large, formula.single))
        written.append([*own, *large, *single])
        into.append([_own_place(t) if optimizer.rule.elementwise else None for t in (*own, *large, *single)])
        sets.append([t._value for t in (*own, gradient, *large, *single)] + [rates[factor]])
    wholes = 2 + formula.has_master + len(formula.large)
    name = f"{formula.update.__name__.strip('_')}_step"
    for tensors, results in zip(written, for_each(current_place(), name, formula, formula, sets, wholes, into), strict=True):
        for tensor, result in zip(tensors, results, strict=True):
            tensor._put(result.reshaped(tensor.type.shape))


def _own_place(tensor: Tensor) -> DeviceArray | None:
    """Where the contents of a tensor are on the current device, if nobody but the tensor has them."""
    if type(tensor._value) is not DeviceArray or type(tensor._value.memory) is not Memory:
        return None
    if not is_only_holder(tensor, "_value") or not is_only_holder(tensor._value, "memory"):
        return None
    array = tensor._value
    return DeviceArray(array.memory, (array.size,), array.dtype) if array.memory.owner is copies_on(current_place()) else None
