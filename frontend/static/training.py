"""Optimizers in static mode: gradients, clipping, decay and one update operator per parameter are appended to the program.

The formulas are those of `optimizer.rules`; accumulators are persistable variables that the startup program fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme import dtypes, regularizer, tape
from polyreme.casting.operators import apart
from polyreme.loaders.program_desc import SELECTED_ROWS
from polyreme.nn import initializer as init
from polyreme.optimizer.lr import LRScheduler
from polyreme.static.backward import append_backward
from polyreme.static.current import default_main_program, default_startup_program, program_guard
from polyreme.static.operator import Operator, OpRole
from polyreme.static.program import Block, Program
from polyreme.static.recorder import RECORDER
from polyreme.static.startup import initialize, startup_constant
from polyreme.static.variable import Parameter, Variable
from polyreme.utils import unique_name

__all__ = ["append_updates", "minimize", "set_learning_rate"]

Pairs = Sequence[tuple[Any, Any]]


def minimize(
    optimizer: Any, loss: Variable, startup: Program | None, parameters: Any, no_grad_set: Any
) -> tuple[list[Operator], list[tuple[Any, Any]]]:
    """Append everything that makes a run of the loss's program a training step; returns the update operators and the pairs of parameter and
    gradient.
    """
    with program_guard(loss.block.program, startup or default_startup_program()):
        pairs = append_gradients(optimizer, loss, parameters, no_grad_set)
        return append_updates(optimizer, pairs), pairs


@apart
def append_gradients(optimizer: Any, loss: Variable, parameters: Any = None, no_grad_set: Any = None) -> list[tuple[Any, Any]]:
    """The pairs of parameter and gradient, in the order of the parameters' names as Paddle has them."""
    wanted = parameters or optimizer._parameter_list or None
    return sorted(append_backward(loss, wanted, no_grad_set), key=lambda pair: str(pair[0].name))


@apart
def append_updates(optimizer: Any, pairs: Pairs) -> list[Operator]:
    """Append clipping, decay and updates for these pairs to the default main program."""
    from polyreme import dispatch

    if optimizer._is_of_ones_own():
        raise NotImplementedError(
            f"expected an optimizer of paddle.optimizer in static mode but {type(optimizer).__name__} has an update of its own; use it in "
            f"dygraph mode"
        )
    main, startup = default_main_program(), default_startup_program()
    if main.current_block_idx:
        raise NotImplementedError("expected minimize() outside of branches and loops; an optimizer of paddle.fluid takes steps in branches")
    block = main.global_block()
    made = []
    pairs = [(p, g) for p, g in pairs if g is not None]
    with dispatch.trace_into(RECORDER), tape.recording(False):
        if optimizer._grad_clip is not None:
            with main.role(OpRole.Optimize):
                pairs = optimizer._grad_clip(pairs)
        rate = _rate_variable(optimizer, main, startup)
        for parameter, gradient in pairs:
            with main.role(OpRole.Optimize, [parameter, gradient]):
                made.append(_append_update(optimizer, block, startup.global_block(), parameter, gradient, rate))
    return made


def _append_update(optimizer: Any, block: Block, startup: Block, parameter: Parameter, gradient: Any, rate: Variable) -> Operator:
    from polyreme import math as xp
    from polyreme.static.kinds import kind_of_update

    group: dict[str, Any] = next((g for g in optimizer._groups if any(p is parameter for p in g["params"])), {"params": []})
    options = {**optimizer._options, **{k: v for k, v in group.items() if k != "params"}}
    options |= optimizer._parameter_options(parameter, options)
    master = _master(optimizer, block, startup, parameter)
    stored = parameter if master is None else master
    decay = optimizer._regularizer(parameter, group)
    if decay is not None:
        assert isinstance(decay, regularizer.WeightDecayRegularizer)
        gradient = xp.cast(gradient, stored.dtype) + decay.gradient(stored, xp)
    elif gradient.kind == SELECTED_ROWS:
        optimizer._update_of_rows(parameter)
    factor = optimizer._rate_factor(parameter, group)
    inputs = {"Param": [parameter.name], "Grad": [gradient.name], "LearningRate": [rate.name]}
    outputs = {"ParamOut": [parameter.name]}
    if master is not None:
        inputs["MasterParam"], outputs["MasterParamOut"] = [master.name], [master.name]
    for slot in optimizer._slots():
        state = _accumulator(optimizer, block, startup, parameter, stored, slot, options)
        inputs[slot.name], outputs[f"{slot.name}Out"] = [state.name], [state.name]
    attrs = {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str)) and name != "learning_rate"}
    return block.add_operator(
        type(optimizer).__name__.lower(), kind_of_update(optimizer.rule), inputs, outputs, {**attrs, "lr_factor": factor}
    )


def _accumulator(optimizer: Any, block: Block, startup: Block, parameter: Parameter, stored: Variable, slot: Any, options: Any) -> Variable:
    kept = optimizer._accumulators.setdefault(slot.name, {})
    if parameter.name not in kept:
        name = unique_name.generate(f"{parameter.name}_{slot.name}")
        kind = slot.dtype or str(optimizer.rule.kind_of_state(stored.type.dtype.np))
        kept[parameter.name] = startup_constant(block, startup, name, slot.shape(stored.shape, options), kind, slot.start(options))
    found: Variable = kept[parameter.name]
    return found


def _master(optimizer: Any, block: Block, startup: Block, parameter: Parameter) -> Variable | None:
    """The parameter in float32, for updates, when it is of low precision and the optimizer keeps such a one."""
    if not optimizer._multi_precision or parameter.dtype not in (dtypes.float16, dtypes.bfloat16):
        return None
    known = optimizer._master_weights.get(parameter.name)
    if known is None:
        from polyreme.dialects.nn import Cast
        from polyreme.static.kinds import kind_of_nn_op

        name = unique_name.generate(parameter.name + "_fp32_master")
        known = block.create_var(name, parameter.shape, "float32", persistable=True, stop_gradient=True)
        startup.create_var(name, parameter.shape, "float32", persistable=True, stop_gradient=True)
        startup.add_operator("cast", kind_of_nn_op(Cast), {"X": [parameter.name]}, {"Out": [name]}, {"dtype": dtypes.float32.scalar})
        optimizer._master_weights[parameter.name] = known
    made: Variable = known
    return made


def _rate_variable(optimizer: Any, main: Program, startup: Program) -> Variable:
    """The learning rate as a persistable variable: a fixed one is filled by the startup program, a scheduler is asked before each run."""
    known: Variable | None = optimizer._rate_variables.get(id(main))
    if known is None:
        name = unique_name.generate("learning_rate")
        known = main.global_block().create_var(name, [], dtypes.default_dtype(), persistable=True, stop_gradient=True)
        there = startup.global_block().create_var(name, [], dtypes.default_dtype(), persistable=True, stop_gradient=True)
        initialize(there, init.Constant(optimizer.get_lr()), startup.global_block())
        if isinstance(optimizer._learning_rate, LRScheduler):
            main.schedules[name] = optimizer.get_lr
            main.touch()
        optimizer._rate_variables[id(main)] = known
    return known


def set_learning_rate(optimizer: Any) -> None:
    """A fixed rate that was set between runs, for the programs that use it."""
    from polyreme.static.scope import global_scope

    for variable in optimizer._rate_variables.values():
        stored = global_scope().find_var(variable.name)
        if stored is not None and stored.array is not None:
            variable.set_value(variable.type.dtype.np.type(optimizer.get_lr()))
