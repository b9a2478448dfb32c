"""The error of everything that reads Paddle's files."""

from polyreme.ir.diagnostics import PolyremeError


class LoaderError(PolyremeError, ValueError):
    """A file that is damaged or holds what cannot be expressed; says which file, and where in it."""

    code = "E0701"
