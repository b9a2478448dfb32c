"""`paddle.jit`: Python functions as programs, compiled and saved."""

from polyreme.jit.saving import TranslatedLayer, load, save
from polyreme.jit.static_function import StaticFunction, enable_to_static, ignore_module, not_to_static, to_static
from polyreme.jit.trace import TraceError

__all__ = [
    "StaticFunction", "TraceError", "TranslatedLayer", "enable_to_static", "ignore_module", "load", "not_to_static", "save", "to_static",
]  # fmt: skip
