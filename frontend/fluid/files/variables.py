"""Values of a program's variables in Paddle's own files, one file each or all in one; and checkpoints.

A file of its own has the variable's name; `filename` puts all into one, in the order of their names. Paddle 1.8 reads what is written here,
and what it wrote is read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.fluid.executor import global_scope
from polyreme.fluid.framework import Parameter, Program, Variable, default_main_program
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.numpy_files import read_npy
from polyreme.loaders.pdiparams import read_one, read_parameters, write_one, write_parameters
from polyreme.names import listed
from polyreme.static.api import state
from polyreme.static.operator import RunError
from polyreme.static.parallel.compiled_program import CompiledProgram

__all__ = [
    "clean_checkpoint", "get_latest_checkpoint_serial", "get_parameter_value", "get_parameter_value_by_name", "get_program_parameter",
    "get_program_persistable_vars", "is_parameter",
    "is_persistable", "load", "load_checkpoint", "load_params", "load_persistables", "load_vars", "save", "save_checkpoint", "save_params",
    "save_persistables", "save_vars",
]  # fmt: skip


# --- which variables


def is_parameter(var: Any) -> bool:
    return isinstance(var, Parameter)


def is_persistable(var: Any) -> bool:
    return bool(var.persistable)


def get_program_parameter(program: Program) -> list[Any]:
    """The parameters of a program."""
    return [v for v in program.list_vars() if is_parameter(v)]


def get_program_persistable_vars(program: Program) -> list[Any]:
    """The persistable variables of a program: parameters, and the state of optimizers, say."""
    return [v for v in program.list_vars() if is_persistable(v)]


def _program(program: Any) -> Program:
    if isinstance(program, CompiledProgram):
        return program.program
    if program is not None and not isinstance(program, Program):
        raise TypeError(f"The type of input main_program is invalid, expected type is fluid.Program, but received {type(program)}")
    return program or default_main_program()


def _chosen(program: Any, vars: Sequence[Any] | None, predicate: Callable[[Any], bool] | None) -> list[Variable]:
    if vars is None:
        return [v for v in _program(program).list_vars() if predicate is None or predicate(v)]
    return [_program(program).global_block().var(v) if isinstance(v, str) else v for v in vars]


# --- values


def save_vars(
    executor: Any, dirname: str, main_program: Any = None, vars: Sequence[Any] | None = None,
    predicate: Callable[[Any], bool] | None = None, filename: str | None = None,
) -> None:  # fmt: skip
    """Write the values that variables have in the global scope: those in `vars`, by themselves or their names, or those of `main_program`
    for which `predicate` holds. Into the folder `dirname`, a file each, or all into `filename`. One without a value is a `RunError`.
    """
    found = {v.name: v for v in _chosen(main_program, vars, predicate)}
    values = {name: _stored(variable) for name, variable in found.items()}
    if filename is not None:
        write_parameters(Path(dirname) / filename, {name: array for name, (array, _) in values.items()})
        return
    os.makedirs(dirname, exist_ok=True)
    for name, (array, lod) in values.items():
        write_one(Path(dirname) / _file_name(name), name, array, lod)


def _stored(variable: Variable) -> tuple[Any, list[list[int]]]:
    held = variable.block.program.captured.get(variable.name)
    if held is not None:
        # A tensor from outside of the program, such as a parameter of a traced Layer.
        return held.numpy(), []
    stored = global_scope().find_var(variable.name)
    if stored is None or stored.array is None:
        raise RunError(
            f"expected a value of '{variable.name}' in the scope to save but it has none; run the startup program first",
            variable.location,
            code="E0604",
        )
    return stored.array, stored.lod


def _file_name(name: str) -> str:
    # A name must not lead out of the folder.
    if name in ("", ".", "..") or os.path.isabs(name) or ".." in Path(name).parts:
        raise ValueError(f"expected a variable whose name is that of a file but got {name!r}")
    return name


def load_vars(
    executor: Any, dirname: str, main_program: Any = None, vars: Sequence[Any] | None = None,
    predicate: Callable[[Any], bool] | None = None, filename: str | None = None,
) -> None:  # fmt: skip
    """Give variables, chosen as in `save_vars`, the values in files of Paddle's. A file that is missing is a `FileNotFoundError`, a shape
    that differs a `LoaderError`.
    """
    found = {v.name: v for v in _chosen(main_program, vars, predicate)}
    if filename is not None:
        arrays = read_parameters(Path(dirname) / filename, list(found))
        read: dict[str, tuple[Any, list[list[int]]]] = {name: (array, []) for name, array in arrays.items()}
    else:
        read = {name: read_one(Path(dirname) / _file_name(name), name) for name in found}
    for name, (array, _) in read.items():
        variable = found[name]
        if variable.has_shape and not _fits(variable, array):
            raise LoaderError(
                f"{dirname}: expected {variable.dtype.name}{list(variable.shape)} for '{name}' but the file has {array.dtype}"
                f"{list(array.shape)}"
            )
    for name, (array, lod) in read.items():
        held = found[name].block.program.captured.get(name)
        if held is not None:
            held.set_value(array)
            continue
        stored = global_scope().var(name)
        stored.array, stored.lod = array, lod


def _fits(variable: Variable, array: np.ndarray[Any, Any]) -> bool:
    expected = variable.type
    return (
        array.dtype == expected.dtype.np
        and len(expected.shape) == array.ndim
        and all(not isinstance(d, int) or d == n for d, n in zip(expected.shape, array.shape, strict=True))
    )


def save_params(executor: Any, dirname: str, main_program: Any = None, filename: str | None = None) -> None:
    """Write the values of all parameters."""
    save_vars(executor, dirname, main_program, None, is_parameter, filename)


def load_params(executor: Any, dirname: str, main_program: Any = None, filename: str | None = None) -> None:
    """Give all parameters the values that `save_params` wrote."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def save_persistables(executor: Any, dirname: str, main_program: Any = None, filename: str | None = None) -> None:
    """Write the values of all persistable variables: parameters, running means, the state of optimizers."""
    save_vars(executor, dirname, main_program, None, is_persistable, filename)


def load_persistables(executor: Any, dirname: str, main_program: Any = None, filename: str | None = None) -> None:
    """Give all persistable variables the values that `save_persistables` wrote."""
    load_vars(executor, dirname, main_program, None, is_persistable, filename)


def get_parameter_value(para: Any, executor: Any) -> Any:
    """The value of a parameter, as an array."""
    if not is_parameter(para):
        raise ValueError(f"expected a parameter but got {type(para).__name__}")
    return _stored(para)[0].copy()


def get_parameter_value_by_name(name: str, executor: Any, program: Any = None) -> Any:
    """The value of the parameter of this name, as an array."""
    return get_parameter_value(_program(program).global_block().var(name), executor)


def save(program: Any, model_path: str) -> None:
    """Write the values of parameters to `MODEL_PATH.pdparams`, those of other persistable variables to `MODEL_PATH.pdopt`, and the program
    to `MODEL_PATH.pdmodel`.
    """
    if not os.path.basename(model_path):
        raise ValueError("model_path MUST be format of dirname/filename [dirname\\filename in window], Now filename is empty str")
    state.save(_program(program), model_path, protocol=2)


def load(program: Any, model_path: str, executor: Any = None, var_list: Any = None) -> None:
    """Give persistable variables the values that `save` wrote; `FileNotFoundError` where there is no such file."""
    if not any(os.path.exists(model_path + suffix) for suffix in ("", ".pdparams")):
        raise FileNotFoundError(f"expected a file that fluid.save wrote but there is no {model_path}.pdparams")
    state.load(_program(program), model_path, executor, var_list)


# --- checkpoints

_PREFIX, _DONE, _MODEL, _TRAINER = "checkpoint", "_SUCCESS", "__model__", "__trainer__"


def save_checkpoint(
    executor: Any, checkpoint_dir: str | None = None, max_num_checkpoints: int = 3, save_interval_secs: int = 600,
    main_program: Any = None, trainer_id: int = 0, trainer_args: dict[str, Any] | None = None,
) -> int:  # fmt: skip
    """Write all persistable variables into a new folder `checkpoint_N` of `checkpoint_dir` (by default the current folder); its number.

    `trainer_args` are numbers or arrays of the trainer's own, an epoch and a step, say. A checkpoint counts once it is whole; of those
    that are, the last `max_num_checkpoints` are kept.
    """
    folder = Path(os.getcwd() if checkpoint_dir is None else checkpoint_dir)
    number = max(_serials(folder), default=-1) + 1
    unfinished = folder / f"{_PREFIX}_{number}.partial"
    shutil.rmtree(unfinished, ignore_errors=True)
    save_persistables(executor, str(unfinished / _MODEL), main_program)
    own = unfinished / f"{_TRAINER}_{trainer_id}" if trainer_args else None
    if own is not None:
        own.mkdir(parents=True)
        for name, value in (trainer_args or {}).items():
            if isinstance(value, np.ndarray):
                np.save(own / f"{_file_name(name)}.npy", value, allow_pickle=False)
            else:
                (own / _file_name(name)).write_text(str(value))
    (unfinished / _MODEL / _DONE).write_text("")
    os.replace(unfinished, folder / f"{_PREFIX}_{number}")
    for old in sorted(_serials(folder))[: -max(1, max_num_checkpoints)]:
        shutil.rmtree(folder / f"{_PREFIX}_{old}")
    return number


def _serials(folder: Path) -> list[int]:
    """The numbers of the checkpoints that are whole."""
    found = []
    for entry in folder.glob(f"{_PREFIX}_*"):
        number = entry.name.removeprefix(f"{_PREFIX}_")
        if number.isdigit() and (entry / _MODEL / _DONE).is_file():
            found.append(int(number))
    return found


def get_latest_checkpoint_serial(checkpoint_dir: str) -> int:
    """The number of the last checkpoint that is whole, -1 when there is none."""
    return max(_serials(Path(checkpoint_dir)), default=-1)


def load_checkpoint(
    executor: Any, checkpoint_dir: str, serial: int | None = None, main_program: Any = None, trainer_id: int = 0,
    trainer_args: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Give persistable variables the values of a checkpoint, by default the last one; the trainer's numbers of the names in `trainer_args`.

    A `FileNotFoundError` when there is no such checkpoint.
    """
    number = get_latest_checkpoint_serial(checkpoint_dir) if serial is None else serial
    folder = Path(checkpoint_dir) / f"{_PREFIX}_{number}"
    if number < 0 or not (folder / _MODEL / _DONE).is_file():
        raise FileNotFoundError(f"expected a checkpoint in {checkpoint_dir!r} but there is none" + (f" of number {number}" * (number >= 0)))
    load_persistables(executor, str(folder / _MODEL), main_program)
    return {name: _trainer_value(folder / f"{_TRAINER}_{trainer_id}" / _file_name(name)) for name in trainer_args}


def _trainer_value(path: Path) -> Any:
    stored = path.with_name(f"{path.name}.npy")
    return read_npy(stored) if stored.is_file() else int(path.read_text())


def clean_checkpoint(checkpoint_dir: str, delete_dir: bool = False) -> None:
    """Delete all checkpoints of a folder, also unfinished ones, and with `delete_dir` the folder, when nothing else is in it."""
    folder = Path(checkpoint_dir)
    for number in _serials(folder):
        shutil.rmtree(folder / f"{_PREFIX}_{number}")
    for unfinished in folder.glob(f"{_PREFIX}_*.partial"):
        shutil.rmtree(unfinished)
    if delete_dir and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


__dir__ = listed(__name__)
