"""`paddle.jit`: Python functions as programs, compiled and saved. Names load on first use: to load a model takes little."""

import importlib
from typing import TYPE_CHECKING, Any

from polyreme.names import absent_from

__all__ = [
    "StaticFunction", "TraceError", "TranslatedLayer", "enable_to_static", "explain", "ignore_module", "load", "not_to_static", "save",
    "to_static",
]  # fmt: skip

if TYPE_CHECKING:
    from polyreme.jit.explanation import explain
    from polyreme.jit.loading import TranslatedLayer, load
    from polyreme.jit.saving import save
    from polyreme.jit.static_function import StaticFunction, enable_to_static, ignore_module, not_to_static, to_static
    from polyreme.jit.traced import TraceError
else:
    # Not for type checkers, which would take any name for one that there is.
    _PLACES = {
        "explanation": ("explain",),
        "loading": ("TranslatedLayer", "load"),
        "saving": ("save",),
        "static_function": ("StaticFunction", "enable_to_static", "ignore_module", "not_to_static", "to_static"),
        "traced": ("TraceError",),
    }
    _absent = absent_from(__name__)

    def __getattr__(name: str) -> Any:
        place = next((place for place, names in _PLACES.items() if name in names), None)
        if place is None:
            return _absent(name)
        value = globals()[name] = getattr(importlib.import_module(f"polyreme.jit.{place}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
