"""What a failing pass leaves behind: its input in a file, and the command that repeats the failure with nothing else.

    error: the pass 'sink-things' failed with KeyError: 'lost'
    note: the pass 'sink-things{deep=true}' failed; its input is kept, repeat with:
      polyreme opt sink-things-x3k.tir --passes 'sink-things{deep=true}'

The command is the first line of the file too. It checks as much as the run did that failed: arrays that the module was run on are kept
beside it, and files of the user's that define the pass, or the pattern or rule in which it failed, are loaded first. Files stand in the
folder of dumps if there is one, else in the system's for temporary files.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.ir import config, text
from polyreme.ir.builtin import RESULT_ROLES, Func, Module
from polyreme.ir.diagnostics import Diagnostic, PassError, PolyremeError, is_users_frame
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type

__all__ = ["Repeat", "failure", "read_inputs"]


@dataclass(frozen=True)
class Repeat:
    """How a pass was run: as text, its class, whether the module was verified, and the arrays that it was evaluated on, if it was."""

    spec: str
    kind: type
    verify_each: bool = False
    inputs: Sequence[Any] | None = None

    def command(self, file: str, arrays: str, loaded: Sequence[str]) -> str:
        """The command that runs the pass on the module in `file`; `arrays` is the file of the inputs, `loaded` are Python files to run
        before.
        """
        words = ["polyreme", "opt", file]
        for source in loaded:
            words += ["--load", source]
        words += ["--passes", self.spec]
        words += ["--verify-each"] if self.verify_each else []
        words += ["--inputs", arrays] if self.inputs is not None else ["--no-run"] if self.verify_each else []
        return shlex.join(words)


def failure(error: Exception, name: str, repeat: Repeat, module: Module) -> PassError:
    """The error of the pass called `name` on `module`, with a note that says how to repeat it."""
    note = Diagnostic(f"the pass '{repeat.spec}' failed; {_leave(module, name, repeat, _users_files(repeat.kind, error))}")
    if not isinstance(error, PolyremeError):
        return PassError(Diagnostic(f"the pass '{name}' failed with {type(error).__name__}: {error}", notes=(note,)))
    last = error.diagnostics[-1]
    return PassError([*error.diagnostics[:-1], replace(last, notes=(*last.notes, note))])


def _leave(module: Module, name: str, repeat: Repeat, loaded: Sequence[str]) -> str:
    """Write the files; a sentence on where they are."""
    folder = config.dump_folder()
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(suffix=".tir", prefix=f"polyreme-{name}-", dir=folder)
        arrays = str(Path(path).with_suffix(".npz"))
        command = repeat.command(path, arrays, loaded)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"// {command}\n{text.print_module(module, locations=True)}")
        if repeat.inputs is not None:
            with open(arrays, "wb") as stream:
                np.savez(stream, *(np.asarray(x) for x in repeat.inputs), allow_pickle=False)
    except OSError as error:
        return f"its input could not be saved: {error}"
    return f"its input is kept, repeat with: {command}"


def read_inputs(path: str | os.PathLike[str], func: Func) -> list[Any]:
    """The arrays for `func` in a file as `failure` leaves it, in their order; `PolyremeError` when it is none."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
    except (OSError, ValueError, KeyError, EOFError, AttributeError) as error:
        raise PolyremeError(f"expected arrays in {path}, as numpy.savez writes them by position, but got: {error}", code="E0003") from None
    given = [a for i, a in enumerate(func.args) if i >= len(func.arg_roles) or func.arg_roles[i] not in RESULT_ROLES]
    # numpy does not write down the name of a dtype that is not its own, such as bfloat16.
    return [x.view(element_type(arg.type).np) if x.dtype.kind == "V" else x for x, arg in zip(found, given, strict=False)]


def _users_files(kind: type, error: Exception) -> list[str]:
    """The files that are not polyreme's own, of the pass and of what it called when it failed."""
    found: list[str] = []
    if kind.__module__.partition(".")[0] != "polyreme":
        with suppress(OSError, TypeError):  # a class that was typed in stands in no file
            found.append(inspect.getfile(kind))
    step = error.__traceback__
    while step is not None:
        if is_users_frame(step.tb_frame):
            found.append(step.tb_frame.f_code.co_filename)
        step = step.tb_next
    return [str(path) for path in dict.fromkeys(Path(f).resolve() for f in found) if path.suffix == ".py" and not _is_installed(path)]


def _is_installed(path: Path) -> bool:
    """Whether the file is a library's, which is there without being loaded."""
    places = {Path(p).resolve() for p in sysconfig.get_paths().values()}
    return any(path.is_relative_to(place) for place in places)
