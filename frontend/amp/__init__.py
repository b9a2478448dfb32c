"""Mixed precision: regions that cast, models in half precision, loss scaling, and checks of numbers. See `docs/amp.md`."""

from typing import TYPE_CHECKING

from polyreme.amp import debugging
from polyreme.amp.decoration import amp_decorate, decorate
from polyreme.amp.grad_scaler import AmpScaler, GradScaler, OptimizerState
from polyreme.amp.regions import (
    amp_guard,
    auto_cast,
    autocast,
    black_list,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_enabled,
    is_bfloat16_supported,
    is_float16_supported,
    white_list,
)
from polyreme.names import absent_from, listed

__all__ = [
    "AmpScaler", "GradScaler", "OptimizerState", "amp_decorate", "amp_guard", "auto_cast", "autocast", "black_list", "debugging",
    "decorate", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_enabled", "is_bfloat16_supported",
    "is_float16_supported", "white_list",
]  # fmt: skip

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
