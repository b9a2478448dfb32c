"""Programs and their values as bytes, Paddle's own: what its `.pdmodel` and `.pdiparams` files hold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.ir.dims import Expr
from polyreme.loaders.pdiparams import parameter_bytes, read_parameters_of
from polyreme.static.current import default_main_program
from polyreme.static.desc.inference import inference_bytes
from polyreme.static.io import normalize_program, variables_in
from polyreme.static.operator import RunError
from polyreme.static.parallel.compiled_program import CompiledProgram
from polyreme.static.program import Program
from polyreme.static.scope import global_scope
from polyreme.static.variable import Variable, VariableError

__all__ = [
    "check_fits", "deserialize_persistables", "deserialize_program", "persistable_variables", "serialize_persistables",
    "serialize_program", "stored_value", "values_as_bytes",
]  # fmt: skip


def serialize_program(feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> bytes:
    """The program from `feed_vars` to `fetch_vars`, made ready for inference, as a `ProgramDesc` with `feed` and `fetch` operators: the
    contents of a `.pdmodel`. `program` (a keyword) is the default main program unless given.
    """
    feeds, fetches = _variables(feed_vars, "feed_vars"), _variables(fetch_vars, "fetch_vars")
    return inference_bytes(normalize_program(_program(kwargs), feeds, fetches), [v.name for v in feeds], [v.name for v in fetches])


def serialize_persistables(feed_vars: Any, fetch_vars: Any, executor: Any, **kwargs: Any) -> bytes | None:
    """The values that the persistable variables of that program have in the global scope, in the order of their names: the contents of a
    `.pdiparams`. None when there are none.
    """
    feeds, fetches = _variables(feed_vars, "feed_vars"), _variables(fetch_vars, "fetch_vars")
    return values_as_bytes(normalize_program(_program(kwargs), feeds, fetches))


def values_as_bytes(program: Program) -> bytes | None:
    """The same for a program that is ready for inference."""
    variables = persistable_variables(program)
    return parameter_bytes({v.name: stored_value(v) for v in variables}) if variables else None


def deserialize_program(data: bytes) -> Program:
    """The program in bytes that `serialize_program`, or Paddle, made. Damaged bytes are a `LoaderError`."""
    return Program.parse_from_string(data)


def deserialize_persistables(program: Program, data: bytes | None, executor: Any) -> None:
    """Give the program's persistable variables, in the global scope, the values in bytes that `serialize_persistables`, or Paddle, made.

    Values of another shape or dtype are a `RuntimeError`, damaged bytes a `LoaderError`. `data` may be None for a program without such
    variables.
    """
    if not isinstance(program, Program):
        raise TypeError(f"program type must be `Program`, but received {type(program).__name__}")
    variables = {v.name: v for v in persistable_variables(program)}
    if not variables:
        return
    if data is None:
        raise AssertionError(f"expected the values of {len(variables)} persistable variables as data but got None")
    found = read_parameters_of(memoryview(bytes(data)), sorted(variables), "the persistable variables")
    for name, array in found.items():
        try:
            check_fits(variables[name], array)
        except VariableError as error:
            raise RunError(error.diagnostics[0], code="E0601") from None
    for name, array in found.items():
        global_scope().var(name).array = np.array(array)


def _variables(given: Any, what: str) -> list[Variable]:
    try:
        return variables_in(given, what)
    except TypeError as error:
        raise ValueError(str(error)) from None  # Paddle's kind, here and nowhere else


def _program(kwargs: dict[str, Any]) -> Program:
    """The program that a keyword names, the default main program unless given."""
    program = kwargs.get("program")
    if isinstance(program, CompiledProgram):
        warnings.warn("expected a Program but got a CompiledProgram: what it was made of is taken", stacklevel=3)
        program = program.program
    if program is not None and not isinstance(program, Program):
        raise TypeError(f"expected a Program as program but got {type(program).__name__}")
    return program or default_main_program()


def persistable_variables(program: Program) -> Sequence[Variable]:
    """Those that files of values hold."""
    return [v for v in program.list_vars() if v.persistable and v.name not in ("feed", "fetch")]


def stored_value(variable: Variable) -> Any:
    """The array that a variable has in the global scope."""
    found = global_scope().find_var(variable.name)
    if found is None or found.array is None:
        raise RunError(
            f"expected a value of '{variable.name}' in the scope but it has none; run the startup program first", variable.location,
            code="E0604",
        )  # fmt: skip
    return found.array


def check_fits(variable: Variable, array: np.ndarray[Any, Any]) -> None:
    """That an array read from a file has the dtype and shape of its variable; else a `VariableError`."""
    kind = variable.type
    fits = len(kind.shape) == array.ndim and all(isinstance(d, Expr) or d == n for d, n in zip(kind.shape, array.shape, strict=True))
    if array.dtype != kind.dtype.np or not fits:
        raise VariableError(
            f"expected {variable.dtype.name}{list(variable.shape)} for '{variable.name}' but got {array.dtype}{list(array.shape)}",
            variable.location,
        )
