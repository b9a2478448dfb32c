"""The errors of the runtime. They stand apart from the compiler's, because an artifact runs where no compiler is installed."""

from __future__ import annotations


class RuntimeFault(Exception):
    """Base of every error of this room that is the user's to mend; `code` says which kind of mistake it is, as the compiler's errors do."""

    code = ""

    def __init__(self, message: str, code: str = ""):
        super().__init__(message)
        self.message = message
        if code:
            self.code = code

    def __str__(self) -> str:
        return f"error[{self.code}]: {self.message}" if self.code else self.message


class ArtifactError(RuntimeFault, ValueError):
    """A file that is no artifact or library of ours, or a damaged one, or one for another machine."""

    code = "E0801"


class CallError(RuntimeFault, ValueError):
    """Arrays that a model does not take."""

    code = "E0803"


class ContentError(CallError):
    """Arrays that a model does not take for what is in them, whatever their types and sizes."""
