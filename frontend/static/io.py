"""What a program is when it is ready for inference."""

from __future__ import annotations

from typing import Any

from polyreme.static.program import Program
from polyreme.static.variable import Variable, named_variable

__all__ = ["normalize_program", "variables_in"]


def normalize_program(program: Program, feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> Program:
    """A copy for inference: dropout and the like switched off, and only what the fetched variables need of the fed ones."""
    if not isinstance(program, Program):
        raise TypeError(f"expected a Program to normalize but got {type(program).__name__}")
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
