"""First values: operators of the startup program that fill persistable variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.dtypes import dtype
from polyreme.ir.diagnostics import caller_location
from polyreme.ir.types import TensorType
from polyreme.nn import initializer as init
from polyreme.static.current import default_startup_program
from polyreme.static.kinds import HOST, Arrays
from polyreme.static.operator import Operator
from polyreme.static.variable import Parameter, Variable, VariableError

if TYPE_CHECKING:
    from polyreme.static.program import Block

__all__ = ["cast_variable", "initialize", "startup_constant", "startup_parameter"]

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


def cast_variable(variable: Variable, dtype: dtype) -> None:
    """Have a persistable variable be of another dtype, in its program and in the startup program, whose operator fills it so.

    A `VariableError` for one that operators read already: these have been made for the dtype that it has.
    """
    block = variable.block
    if any(variable.name in op.input_arg_names for op in block.ops):
        raise VariableError(
            f"expected '{variable.name}' to become {dtype.name} before it is used but operators of the program read it; cast the model, or "
            "decorate it, before it is called",
            caller_location(),
        )
    first = default_startup_program().global_block()
    for there in (variable, *([first.vars[variable.name]] if first.has_var(variable.name) else [])):
        there.set_type(TensorType(there._type.shape if there._type is not None else (), dtype.scalar))
    for op in first.ops:
        if variable.name in op.output_arg_names and "dtype" in op.attrs:
            op.attrs["dtype"] = dtype.name
    block.program.touch()
    first.program.touch()


def startup_constant(main: Block, startup: Block, name: str, shape: Any, dtype: Any, value: float, stop_gradient: bool = True) -> Variable:
    """A persistable variable in both programs that starts as `value` everywhere."""
    made = main.create_var(name, shape, dtype, persistable=True, stop_gradient=stop_gradient)
    if not startup.has_var(name):
        initialize(startup.create_var(name, shape, dtype, persistable=True, stop_gradient=stop_gradient), init.Constant(value), startup)
    return made
