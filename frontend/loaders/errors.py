"""The error of everything that reads Paddle's files."""

from typing import Any

from polyreme.ir.diagnostics import PolyremeError


class LoaderError(PolyremeError, ValueError):
    """A file that is damaged or holds what cannot be expressed; says which file, and where in it."""

    code = "E0701"


class OperatorError(PolyremeError, ValueError):
    """An operator of Paddle with inputs or attributes that have no meaning here; whoever applies it knows the place."""

    code = "E0703"


def check_count(count: Any, most: int, what: str) -> None:
    """An `OperatorError` when a number that the file gives would have us do or keep more than `most` of something; symbolic sizes pass."""
    if isinstance(count, int) and abs(count) > most:
        raise OperatorError(f"expected at most {most} {what} but got {count}")
