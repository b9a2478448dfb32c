"""`paddle.jit`: Python functions as programs, compiled and saved."""

from typing import TYPE_CHECKING

from polyreme.jit.loading import TranslatedLayer, load
from polyreme.jit.saving import save
from polyreme.jit.static_function import StaticFunction, enable_to_static, ignore_module, not_to_static, to_static
from polyreme.jit.traced import TraceError
from polyreme.names import absent_from

__all__ = [
    "StaticFunction", "TraceError", "TranslatedLayer", "enable_to_static", "ignore_module", "load", "not_to_static", "save", "to_static",
]  # fmt: skip

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__ = absent_from(__name__)
