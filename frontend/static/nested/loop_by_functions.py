"""Branches and loops by functions as operators with blocks: where bodies cannot be recorded as ops before a run tells their sizes, or
append to the program what no body of ops holds, such as steps of optimizers.

In a block each operator guesses numbers for sizes that are free, as it does elsewhere in a program. Levels of detail go through it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme import dispatch, dtypes, math
from polyreme.control_flow import UNDEFINED
from polyreme.static.current import default_main_program
from polyreme.static.nested.uses import names_from_outside
from polyreme.static.recorder import RECORDER, variable_of
from polyreme.static.variable import Variable, named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name
from polyreme.utils.structures import flatten, map_structure

__all__ = ["branch_in_blocks", "loop_in_a_block", "undone_on_error"]


def undone_on_error(build: Callable[[], Any]) -> Any:
    """What `build()` gives; where it raises, the program is as it was, and names are free again."""
    program = default_main_program()
    index, counts = program.current_block_idx, [len(block.ops) for block in program.blocks]
    names, _ = unique_name.switch()
    unique_name.switch(names.copy())
    try:
        return build()
    except BaseException:
        unique_name.switch(names)
        program.current_block_idx = index
        del program.blocks[len(counts) :]
        for block, count in zip(program.blocks, counts, strict=True):
            del block.ops[count:]
        program.touch()
        raise


def loop_in_a_block(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any]) -> list[Any]:
    """`loop_vars` after `while cond(*loop_vars): loop_vars = body(*loop_vars)`, as variables that the block writes."""
    program = default_main_program()
    states = map_structure(_state, list(loop_vars))
    again = _state(cond(*states))
    inside = program.create_block()
    try:
        made = body(*states)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        held = {state.name for state in flatten(states) if isinstance(state, Variable)}
        # One that is handed on in another's place is that of before the round.
        ends = map_structure(lambda end, state: end if end is state else _copy(end) if _is_one_of(end, held) else end, made, states)
        map_structure(_hand_on, ends, states)
        dispatch.assign(again, cond(*states))
    finally:
        program.rollback()
    reads, writes = names_from_outside(inside)
    parent = program.current_block()
    scopes = parent.create_var(unique_name.generate("_generated_var"))
    parent.append_op(
        "while",
        {"X": [name for name in dict.fromkeys([*reads, *writes]) if name != again.name], "Condition": [again]},
        {"Out": writes, "StepScopes": [scopes]},
        {"sub_block": inside, "is_test": False},
    )
    return list(states)


def branch_in_blocks(pred: Any, then_fn: Callable[[], Any] | None, else_fn: Callable[[], Any] | None) -> Any:
    """What the function gives that runs, as variables that both blocks write; what is no tensor is that of the first function."""
    program = default_main_program()
    parent = program.current_block()
    condition = variable_of(pred, parent)
    with dispatch.trace_into(RECORDER):
        opposite = variable_of(math.logical_not(pred), parent)
    outs: Any = UNDEFINED
    for chosen, fn in ((condition, then_fn), (opposite, else_fn)):
        inside = program.create_block()
        try:
            made = None if fn is None else fn()
            if outs is UNDEFINED:
                outs = map_structure(lambda value: _like(value, parent) if isinstance(value, Tensor) else value, made)
            map_structure(lambda value, out: _hand_on(value, out) if isinstance(out, Variable) else None, made, outs)
        finally:
            program.rollback()
        reads, writes = names_from_outside(inside)
        scopes = parent.create_var(unique_name.generate("_generated_var"))
        parent.append_op(
            "conditional_block",
            {"Cond": [chosen], "Input": [name for name in reads if name != chosen.name]},
            {"Out": writes, "Scope": [scopes]},
            {"sub_block": inside, "is_scalar_condition": True},
        )
    return outs


def _like(value: Any, block: Any) -> Variable:
    made: Variable = block.create_var(unique_name.generate("cond.tmp"), value.type.shape, value.dtype)
    made.stop_gradient = not value.type.dtype.is_float
    return made


def _state(value: Any) -> Variable:
    """A variable of its own with a value, a number or tensor; an array is itself."""
    variable = named_variable(value)
    if variable is not None and variable.is_tensor_array:
        return variable
    tensor = value
    if not isinstance(value, Tensor):
        kind = dtypes.bool if isinstance(value, bool) else dtypes.int64 if isinstance(value, int) else dtypes.get_default_dtype()
        tensor = dispatch.full((1,), value, dtypes.as_dtype(kind).scalar)
    block = default_main_program().current_block()
    return _copy(variable_of(tensor, block))


def _copy(source: Any) -> Variable:
    block = default_main_program().current_block()
    made = block.create_var(unique_name.generate("while_loop.tmp"), source.type.shape, source.dtype)
    made.lod_level, made.stop_gradient = source.lod_level, not source.type.dtype.is_float
    with dispatch.trace_into(RECORDER):
        dispatch.assign(made, source)
    return made


def _is_one_of(value: Any, names: set[str]) -> bool:
    variable = named_variable(value)
    return variable is not None and variable.name in names


def _hand_on(end: Any, state: Variable) -> None:
    if end is state or state.is_tensor_array:
        return
    dispatch.assign(state, end if isinstance(end, Tensor) else dispatch.full(state.type.shape, end, state.type.dtype))
