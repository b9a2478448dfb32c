"""`fluid.io.save_inference_model` and `load_inference_model`: a program with its inputs and results in `__model__`, beside its parameters,
as Paddle 1.8 writes and reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyreme.fluid.files.variables import load_vars, save_vars
from polyreme.fluid.framework import Program, default_main_program, variables_of
from polyreme.names import listed
from polyreme.serialization import destination
from polyreme.static.desc.inference import inference_bytes, inference_program
from polyreme.static.io import normalize_program

__all__ = ["load_inference_model", "save_inference_model"]

_MODEL = "__model__"


def save_inference_model(
    dirname: str, feeded_var_names: Sequence[str], target_vars: Sequence[Any], executor: Any, main_program: Any = None,
    model_filename: str | None = None, params_filename: str | None = None, export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:  # fmt: skip
    """Write what `target_vars` need of the inputs named in `feeded_var_names`, without what only training does, into the folder `dirname`:
    the program as `__model__` (or `model_filename`), its persistable variables a file each (or all in `params_filename`), unless
    `program_only`. The names of the results.
    """
    names = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    program = default_main_program() if main_program is None else main_program
    if not isinstance(program, Program):
        raise TypeError(f"The type of input main_program is invalid, expected type is fluid.Program, but received {type(program)}")
    block = program.global_block()
    targets = variables_of(target_vars)
    chosen = normalize_program(program, [block.var(name) for name in names], targets)
    data = inference_bytes(chosen, names, [v.name for v in targets])
    os.makedirs(dirname, exist_ok=True)
    with destination(Path(dirname) / (model_filename or _MODEL)) as stream:
        stream.write(data)
    if not program_only:
        save_vars(executor, dirname, chosen, None, lambda v: bool(v.persistable), params_filename)
    return [v.name for v in targets]


def load_inference_model(
    dirname: str, executor: Any, model_filename: str | None = None, params_filename: str | None = None, pserver_endpoints: Any = None
) -> list[Any]:
    """What `save_inference_model` wrote, here or in Paddle 1: the program, the names to feed, and the variables to fetch. Values of
    persistable variables go to the global scope. A missing file is a `FileNotFoundError`, a damaged one a `LoaderError`.
    """
    file = Path(dirname) / (model_filename or _MODEL)
    if not file.is_file():
        raise FileNotFoundError(f"expected a model but there is no file {file}")
    program, names, targets = inference_program(file.read_bytes(), str(file))
    load_vars(executor, dirname, program, None, lambda v: bool(v.persistable), params_filename)
    return [program, names, targets]


__dir__ = listed(__name__)
