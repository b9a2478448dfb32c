"""The values of programs in files: `static.save` and `load`, and the state that lies between the two as arrays by name.

Paddle 2.6.2 reads these files and writes them too; it also reads, as is done here, what the functions of `fluid.io` write: a file for each
variable in a folder, or one file for all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.dtypes import as_dtype
from polyreme.ir.diagnostics import PolyremeError, caller_location, did_you_mean
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.pdiparams import read_one, read_parameters
from polyreme.serialization import destination, write_sealed
from polyreme.serialization import load as load_file
from polyreme.serialization import save as save_file
from polyreme.static.api.bytes import check_fits, persistable_variables, stored_value
from polyreme.static.executor import Executor
from polyreme.static.program import Program
from polyreme.static.scope import global_scope
from polyreme.static.variable import DENSE, Parameter, Variable, VariableError
from polyreme.tensor import Tensor

__all__ = ["StateError", "load", "load_program_state", "save", "set_program_state"]

_PARAMETERS, _OTHERS, _MODEL = ".pdparams", ".pdopt", ".pdmodel"
_BFLOAT16 = as_dtype("bfloat16").scalar


class StateError(VariableError, AssertionError):
    """Saved values that are not those of a program: one is missing, or does not fit."""

    code = "E0604"


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Write what the program's persistable variables are in the global scope: parameters to `MODEL_PATH.pdparams`, all others to
    `MODEL_PATH.pdopt`; and the program to `MODEL_PATH.pdmodel`.

    `protocol` is that of the pickles, 2 to 4. A variable without a value is a `RunError`, and nothing is written then. A program that
    Paddle's operators cannot say is left out, with a warning.
    """
    if not isinstance(program, Program):
        raise TypeError(f"expected a Program to save but got {type(program).__name__}")
    if not os.path.basename(model_path):
        raise AssertionError(f"expected a path of the form folder/name but got {model_path!r}")
    if "pickle_protocol" in configs:
        protocol = configs["pickle_protocol"]
        warnings.warn("'pickle_protocol' is a deprecated argument. Please use 'protocol' instead.", stacklevel=2)
    if not isinstance(protocol, int):
        raise ValueError(f"The 'protocol' MUST be `int`, but received {type(protocol)}")
    if not 1 < protocol < 5:
        raise ValueError(f"Expected 1<'protocol'<5, but received protocol={protocol}")
    files = {suffix: _pickled(variables, protocol) for suffix, variables in _by_file(program).items()}
    model = None
    try:
        model = program.serialize_to_string()
    except PolyremeError as error:
        warnings.warn(f"{model_path}{_MODEL} is not written, the values are: {error}", stacklevel=2)
    for suffix, content in files.items():
        write_sealed(model_path + suffix, content)
    if model is not None:
        with destination(model_path + _MODEL) as stream:
            stream.write(model)


def _by_file(program: Program) -> dict[str, list[Variable]]:
    """The variables whose values are saved, by the suffix of their file. Tensors from outside of the program keep their own."""
    found = {v.name: v for v in persistable_variables(program) if v.kind == DENSE and v.name not in program.captured}
    return {
        _PARAMETERS: [v for v in found.values() if isinstance(v, Parameter)],
        _OTHERS: [v for v in found.values() if not isinstance(v, Parameter)],
    }


def _pickled(variables: Iterable[Variable], protocol: int) -> bytes:
    arrays = {v.name: Tensor._wrap(stored_value(v)).numpy() for v in variables}
    stream = BytesIO()
    save_file(arrays, stream, protocol=protocol, name_table=False)
    content = stream.getvalue()
    # The name that arrays have for all versions of numpy: the first one in the file, since pickle names a global once.
    return content.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n", 1) if protocol == 2 else content


def load(program: Program, model_path: str, executor: Any = None, var_list: Sequence[Variable] | None = None) -> None:
    """Give the program's persistable variables (or those in `var_list`) the values that `save` wrote, or `fluid.io` into a folder or file
    of this name. A file needs `var_list`; in a folder are those variables that have a file there.

    A value that is missing is a `StateError` (an `AssertionError`), one that does not fit a `VariableError`, and then none is set.
    """
    if not isinstance(program, Program):
        raise TypeError(f"expected a Program to load into but got {type(program).__name__}")
    if executor is not None and not isinstance(executor, Executor):
        raise AssertionError(f"expected an Executor to load with but got {type(executor).__name__}")
    prefix = _prefix(model_path)
    wanted = [v for vs in _by_file(program).values() for v in vs] if var_list is None else list(var_list)
    state = load_program_state(model_path, var_list)
    if os.path.isfile(prefix + _PARAMETERS):
        for variable in wanted:
            if variable.name not in state:
                suffix = _PARAMETERS if isinstance(variable, Parameter) else _OTHERS
                raise StateError(f"expected '{variable.name}' in {prefix}{suffix} but it is not there", variable.location)
    else:
        wanted = [v for v in wanted if v.name in state]
    arrays = {v.name: _fitting(v, state[v.name]) for v in wanted}
    for name, array in arrays.items():
        global_scope().var(name).array = array


def _fitting(variable: Variable, value: Any) -> np.ndarray[Any, Any]:
    """A value as the array that its variable holds, of its own. Files have the bits of bfloat16 as whole numbers."""
    array = np.array(value._array("set_program_state()") if isinstance(value, Tensor) else value)
    if variable.has_shape:
        if variable.type.dtype == _BFLOAT16 and array.dtype == np.uint16:
            array = array.view(_BFLOAT16.np)
        check_fits(variable, array)
    return array


def load_program_state(model_path: str, var_list: Sequence[Variable] | None = None) -> dict[str, Any]:
    """The arrays that `save` wrote, by name; or those in a folder or file of this name that `fluid.io` wrote. A file needs `var_list`.

    A path where nothing is, is a `FileNotFoundError`.
    """
    prefix = _prefix(model_path)
    names = None if var_list is None else [_variable(v).name for v in var_list]
    if not os.path.isfile(prefix + _PARAMETERS):
        return _written_apart(Path(model_path), names)
    state: dict[str, Any] = dict(load_file(prefix + _PARAMETERS, return_numpy=True))
    if os.path.isfile(prefix + _OTHERS):
        state |= load_file(prefix + _OTHERS, return_numpy=True)
    return state if names is None else {name: state[name] for name in names if name in state}


def _variable(given: Any) -> Variable:
    if not isinstance(given, Variable):
        raise TypeError(f"expected variables in var_list but got {type(given).__name__}")
    return given


def _prefix(path: str) -> str:
    for suffix in (_PARAMETERS, _OTHERS, _MODEL):
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return path


def _written_apart(path: Path, names: Sequence[str] | None) -> dict[str, Any]:
    """What is in a folder with a file for each variable, or in one file with all of them."""
    if path.is_file():
        if names is None:
            raise ValueError(f"expected var_list, the variables whose values {path} holds, since it does not name them")
        return dict(read_parameters(path, names))
    if not path.is_dir():
        raise FileNotFoundError(f"expected saved values but there is neither {path}{_PARAMETERS} nor a folder or file {path}")
    if names is not None:
        return {name: read_one(_inside(path, name), name)[0] for name in names}
    state = {}
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if file.is_file():
            try:
                state[name] = read_one(file, name)[0]
            except LoaderError as error:
                warnings.warn(f"{file} is passed over, it holds no variable: {error}", RuntimeWarning, stacklevel=3)
    return state


def _inside(folder: Path, name: str) -> Path:
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise ValueError(f"expected a variable whose name is that of a file but got {name!r}")
    return folder / name


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Give the program's persistable variables the arrays in `state_dict`; of names that it does not have a warning tells.

    A value that does not fit, or a variable without a value, since the startup program was not run, is a `StateError` (an
    `AssertionError`), and then none is set.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"expected a dict of arrays by name but got {type(state_dict).__name__}")
    known = {v.name: v for vs in _by_file(program).values() for v in vs}
    arrays: dict[str, Any] = {}
    for name, variable in known.items():
        found = global_scope().find_var(name)
        if found is None:
            raise StateError(f"expected a value of '{name}' in the scope but it has none; run the startup program first", variable.location)
        if name in state_dict:
            try:
                arrays[name] = _fitting(variable, state_dict[name])
            except VariableError as error:
                raise StateError(error.diagnostics[0].message, variable.location or caller_location(), code="E0601") from None
    for name, array in arrays.items():
        global_scope().var(name).array = array
    strange = [f"'{name}' is not in the program{did_you_mean(name, known)}" for name in state_dict if name not in known]
    if strange:
        warnings.warn(f"These values are not set: {'; '.join(strange)}", stacklevel=2)
