"""The errors of everything that reads Paddle's files: of the file, of the machine, of ours."""

from __future__ import annotations

import dis
from pathlib import Path

import polyreme.ir.diagnostics as diagnostics
from polyreme.ir.diagnostics import PolyremeError

__all__ = ["LoaderError", "LoaderFault", "LoaderMemoryError", "is_refusal"]

# The folder of all rooms.
_HERE = Path(diagnostics.__file__).parents[1]


class LoaderError(PolyremeError, ValueError):
    """A file that is damaged or holds what cannot be expressed; says which file, and where in it."""

    code = "E0701"


class LoaderFault(LoaderError):
    """What reads an operator failed where it refuses nothing: a fault of its own, or a file that is wrong in a way that it does not look
    for.
    """

    code = "E0708"


class LoaderMemoryError(LoaderError, MemoryError):
    """There was not enough memory to read a file that may be whole."""

    code = "E0709"


def is_refusal(error: BaseException) -> bool:
    """Whether a `raise` of ours raised it, rather than an operation that failed or an `assert`."""
    if isinstance(error, AssertionError) or error.__traceback__ is None:
        return False
    at = error.__traceback__
    while at.tb_next is not None:
        at = at.tb_next
    code = at.tb_frame.f_code
    return _HERE in Path(code.co_filename).parents and dis.opname[code.co_code[at.tb_lasti]] == "RAISE_VARARGS"
