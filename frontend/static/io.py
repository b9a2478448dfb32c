"""Saving and loading the values of persistable variables, and what a program is when it is ready for inference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyreme.serialization import load as load_file
from polyreme.serialization import save as save_file
from polyreme.static.program import Program
from polyreme.static.variable import Parameter, Variable, VariableError, named_variable

__all__ = ["load", "load_program_state", "normalize_program", "save", "set_program_state", "variables_in"]


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Write the values that the program's persistable variables have in the global scope: parameters to `MODEL_PATH.pdparams`, all others
    to `MODEL_PATH.pdopt`.
    """
    if not os.path.basename(model_path):
        raise ValueError(f"expected a path of the form folder/name but got {model_path!r}")
    save_file(program.state_dict("param"), model_path + ".pdparams", protocol=protocol)
    save_file(program.state_dict("opt"), model_path + ".pdopt", protocol=protocol)


def load(program: Program, model_path: str, executor: Any = None, var_list: Sequence[Variable] | None = None) -> None:
    """Give the program's persistable variables (or those in `var_list`) the values that `save` wrote. A parameter that the file lacks is a
    `VariableError`.
    """
    state = load_program_state(model_path)
    wanted = [v for v in program.list_vars() if v.persistable] if var_list is None else list(var_list)
    for variable in wanted:
        if variable.name in state:
            variable.set_value(state[variable.name])
        elif isinstance(variable, Parameter) or var_list is not None:
            raise VariableError(
                f"expected '{variable.name}' in {_prefix(model_path)}.pdparams but it is not there", variable.location, code="E0604"
            )


def load_program_state(model_path: str, var_list: Sequence[Variable] | None = None) -> dict[str, Any]:
    """The arrays that `save` wrote, by name."""
    prefix = _prefix(model_path)
    state: dict[str, Any] = dict(load_file(prefix + ".pdparams", return_numpy=True))
    if Path(prefix + ".pdopt").is_file():
        state |= load_file(prefix + ".pdopt", return_numpy=True)
    return state if var_list is None else {v.name: state[v.name] for v in var_list if v.name in state}


def _prefix(path: str) -> str:
    for suffix in (".pdparams", ".pdopt", ".pdmodel"):
        path = path.removesuffix(suffix)
    return path


def set_program_state(program: Program, state_dict: dict[str, Any]) -> None:
    """Give the program's persistable variables the arrays in `state_dict`."""
    program.set_state_dict(state_dict)


def normalize_program(program: Program, feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> Program:
    """A copy for inference: dropout and the like switched off, and only what the fetched variables need of the fed ones."""
    feeds, fetches = variables_in(feed_vars, "feed_vars"), variables_in(fetch_vars, "fetch_vars")
    pruned = program.clone(for_test=True)._prune_with_input([v.name for v in feeds], [v.name for v in fetches])
    for variable in feeds:
        if not pruned.global_block().has_var(variable.name):
            pruned.global_block().clone_variable(variable, force_persistable=False)
    return pruned


def variables_in(given: Any, what: str) -> list[Variable]:
    """One variable or several of them, which an argument called `what` has; else a `TypeError`."""
    found = []
    for item in given if isinstance(given, (list, tuple)) else [given]:
        variable = named_variable(item)
        if variable is None:
            raise TypeError(f"expected variables in {what} but got {type(item).__name__}")
        found.append(variable)
    return found
