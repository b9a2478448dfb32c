"""Readers and writers of Paddle's files. Files are data: nothing in them runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyreme.jit.traced import Traced
    from polyreme.loaders.unsupported import Use

__all__ = ["PROGRAM_SUFFIXES", "files_of", "find_program", "read_model", "uses_of"]

PROGRAM_SUFFIXES = (".json", ".pdmodel")


def find_program(path: str | os.PathLike[str]) -> Path | None:
    """The file of Paddle's program that is meant by its own name, by the prefix it was saved under, or by a folder with `__model__`; None
    if there is none.

    Of both formats under one prefix, PIR is taken, as Paddle does.
    """
    given = Path(path)
    if given.suffix in PROGRAM_SUFFIXES:
        return given if given.is_file() else None
    if (given / "__model__").is_file():
        return given
    return next((file for suffix in PROGRAM_SUFFIXES if (file := Path(f"{given}{suffix}")).is_file()), None)


def files_of(program: Path, parameters: str | os.PathLike[str] | None = None) -> list[Path]:
    """The program's file and that of its parameters, if it has one; none for a folder with a file per parameter."""
    if program.suffix not in PROGRAM_SUFFIXES:
        return []
    beside = Path(parameters) if parameters is not None else program.with_suffix(".pdiparams")
    return [program, beside] if beside.is_file() else [program]


def read_model(
    path: str | os.PathLike[str], parameters: str | os.PathLike[str] | None = None, specs: Sequence[Any] = (), mapped: bool = False
) -> Traced:
    """The program of a model that Paddle saved: a `.json` or `.pdmodel` file, the prefix of one, or a folder with `__model__`.

    Parameters come from the file `parameters`, by default the `.pdiparams` beside the program. `specs` (`InputSpec`s) may name or fix sizes
    of the inputs that the file leaves open. A missing file is a `FileNotFoundError`, a damaged or unsupported one a `LoaderError`. With
    `mapped` parameters are not copied: they are those of the file for as long as nobody writes to it.
    """
    file = find_program(path)
    if file is None:
        raise FileNotFoundError(f"expected a model saved by Paddle but there is no file {path}, {path}.json or {path}.pdmodel")
    if file.suffix == ".json":
        from polyreme.loaders.pir import read_pir

        return read_pir(file, parameters, specs, mapped)
    from polyreme.loaders.pdmodel import read_pdmodel

    return read_pdmodel(file, parameters, specs, mapped)


def uses_of(path: str | os.PathLike[str]) -> list[Use]:
    """The operators of a program, those of inner blocks too, with what is wrong with each; parameters are not read. Errors are those of
    `read_model`.
    """
    file = find_program(path)
    if file is None:
        raise FileNotFoundError(f"expected a model saved by Paddle but there is no file {path}, {path}.json or {path}.pdmodel")
    if file.suffix == ".json":
        from polyreme.loaders.pir import pir_uses

        return pir_uses(file)
    from polyreme.loaders.pdmodel import legacy_uses

    return legacy_uses(file)
