"""Programs and their values as bytes, Paddle's own: what its `.pdmodel` and `.pdiparams` files hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.ir.dims import Expr
from polyreme.loaders.pdiparams import parameter_bytes, read_parameters_of
from polyreme.static.current import default_main_program
from polyreme.static.desc.read import PASSED
from polyreme.static.io import normalize_program
from polyreme.static.operator import RunError
from polyreme.static.program import Program
from polyreme.static.scope import global_scope
from polyreme.static.variable import Variable, VariableError

__all__ = ["deserialize_persistables", "deserialize_program", "serialize_persistables", "serialize_program"]

# Kinds of variables in a ProgramDesc.
_FEED_LIST, _FETCH_LIST = 9, 10


def serialize_program(feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> bytes:
    """The program from `feed_vars` to `fetch_vars`, made ready for inference, as a `ProgramDesc` with `feed` and `fetch` operators: the
    contents of a `.pdmodel`. `program` (a keyword) is the default main program unless given.
    """
    feeds, fetches = (list(v) if isinstance(v, (list, tuple)) else [v] for v in (feed_vars, fetch_vars))
    normal = _normal(feeds, fetches, kwargs)
    block = normal.global_block()
    doors = [block.create_var(name, persistable=True) for name in ("feed", "fetch")]
    for door, kind in zip(doors, (_FEED_LIST, _FETCH_LIST), strict=True):
        door.kind = kind
    for column, variable in enumerate(feeds):
        names = {"X": ["feed"]}, {"Out": [variable.name]}
        block.add_operator("feed", PASSED, *names, {"col": column}, index=column)
    for column, variable in enumerate(fetches):
        block.add_operator("fetch", PASSED, {"X": [variable.name]}, {"Out": ["fetch"]}, {"col": column})
    return normal.serialize_to_string()


def serialize_persistables(feed_vars: Any, fetch_vars: Any, executor: Any, **kwargs: Any) -> bytes | None:
    """The values that the persistable variables of that program have in the global scope, in the order of their names: the contents of a
    `.pdiparams`. None when there are none.
    """
    variables = _persistable(_normal(feed_vars, fetch_vars, kwargs))
    if not variables:
        return None
    return parameter_bytes({v.name: _stored(v) for v in variables})


def deserialize_program(data: bytes) -> Program:
    """The program in bytes that `serialize_program`, or Paddle, made. Damaged bytes are a `LoaderError`."""
    return Program.parse_from_string(data)


def deserialize_persistables(program: Program, data: bytes, executor: Any) -> None:
    """Give the program's persistable variables, in the global scope, the values in bytes that `serialize_persistables`, or Paddle, made.

    Values of another shape or dtype are a `VariableError`, damaged bytes a `LoaderError`.
    """
    if not isinstance(program, Program):
        raise TypeError(f"program type must be `Program`, but received {type(program).__name__}")
    variables = {v.name: v for v in _persistable(program)}
    if not variables:
        return
    found = read_parameters_of(memoryview(bytes(data)), sorted(variables), "the persistable variables")
    for name, array in found.items():
        _check(variables[name], array)
    for name, array in found.items():
        global_scope().var(name).array = np.array(array)


def _normal(feed_vars: Any, fetch_vars: Any, kwargs: dict[str, Any]) -> Program:
    program = kwargs.get("program") or default_main_program()
    return normalize_program(program, feed_vars, fetch_vars)


def _persistable(program: Program) -> Sequence[Variable]:
    return [v for v in program.list_vars() if v.persistable and v.name not in ("feed", "fetch")]


def _stored(variable: Variable) -> Any:
    found = global_scope().find_var(variable.name)
    if found is None or found.array is None:
        raise RunError(
            f"expected a value of '{variable.name}' in the scope but it has none; run the startup program first", variable.location,
            code="E0604",
        )  # fmt: skip
    return found.array


def _check(variable: Variable, array: np.ndarray[Any, Any]) -> None:
    kind = variable.type
    fits = len(kind.shape) == array.ndim and all(isinstance(d, Expr) or d == n for d, n in zip(kind.shape, array.shape, strict=True))
    if array.dtype != kind.dtype.np or not fits:
        raise VariableError(
            f"expected {variable.dtype.name}{list(variable.shape)} for '{variable.name}' but got {array.dtype}{list(array.shape)}",
            variable.location,
        )
