"""First values: operators of the startup program that fill persistable variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.nn import initializer as init
from polyreme.static.kinds import HOST, Arrays
from polyreme.static.operator import Operator
from polyreme.static.variable import Parameter, Variable

if TYPE_CHECKING:
    from polyreme.static.program import Block

__all__ = ["initialize", "startup_constant", "startup_parameter"]

# Derived initializers stand in front of what they derive from.
_TYPES: tuple[tuple[type, str], ...] = (
    (init.XavierNormal, "gaussian_random"), (init.KaimingNormal, "gaussian_random"), (init.Normal, "gaussian_random"),
    (init.TruncatedNormal, "truncated_gaussian_random"), (init.XavierUniform, "uniform_random"), (init.KaimingUniform, "uniform_random"),
    (init.Uniform, "uniform_random"), (init.Constant, "fill_constant"), (init.Assign, "assign_value"), (init.Orthogonal, "orthogonal"),
    (init.Dirac, "dirac"),
)  # fmt: skip


def initialize(variable: Variable, initializer: Any, block: Block) -> Operator:
    """Append an operator that fills `variable` as the initializer would in dygraph mode, with the same draws."""
    name = next((text for kind, text in _TYPES if isinstance(initializer, kind)), "initialize")
    shape = list(variable.type.shape)
    attrs: dict[str, Any] = {"shape": shape, "dtype": variable.dtype.name, "seed": block.program.random_seed}
    described = getattr(initializer, "operator", None)
    if described is not None:
        name, own = described(shape)
        attrs |= {**own, "seed": getattr(initializer, "seed", 0) or block.program.random_seed}
    elif hasattr(initializer, "__dict__"):
        attrs |= {key: value for key, value in vars(initializer).items() if isinstance(value, (bool, int, float, str))}
    return block.add_operator(name, HOST, {}, {"Out": [variable.name]}, attrs, _Fill(initializer))


class _Fill:
    """The host function of an operator that runs an initializer."""

    def __init__(self, initializer: Any):
        self.initializer = initializer

    def __call__(self, op: Operator, inputs: Arrays) -> Arrays:
        return {"Out": [np.asarray(init.initial(self.initializer, op.attrs["shape"], op.attrs["dtype"], op.attrs["seed"])._value)]}


def startup_parameter(main: Block, startup: Block, name: str, shape: tuple[int, ...], dtype: Any, initializer: Any) -> Parameter:
    """A parameter in both programs; one of that name that is there already is shared."""
    known = main.vars.get(name)
    if isinstance(known, Parameter):
        main._same(known, shape, dtype)
        return known
    parameter = main.create_parameter(name, shape, dtype)
    if not startup.has_var(name):
        initialize(startup.create_parameter(name, shape, dtype), initializer, startup)
    return parameter


def startup_constant(main: Block, startup: Block, name: str, shape: Any, dtype: Any, value: float, stop_gradient: bool = True) -> Variable:
    """A persistable variable in both programs that starts as `value` everywhere."""
    made = main.create_var(name, shape, dtype, persistable=True, stop_gradient=stop_gradient)
    if not startup.has_var(name):
        initialize(startup.create_var(name, shape, dtype, persistable=True, stop_gradient=stop_gradient), init.Constant(value), startup)
    return made
