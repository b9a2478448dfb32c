"""Paddle's flags: settings of its runtime. One of ours has an effect here; the others can be set and read again."""

from __future__ import annotations

from typing import Any

from polyreme.casting.state import REGIONS

__all__ = ["get_flags", "set_flags"]

_FLAGS: dict[str, Any] = {
    "FLAGS_amp_on_cpu": REGIONS.on_cpu,
    "FLAGS_eager_delete_tensor_gb": 0.0,
    "FLAGS_fraction_of_gpu_memory_to_use": 0.92,
    "FLAGS_check_nan_inf": False,
    "FLAGS_cpu_deterministic": False,
    "FLAGS_use_mkldnn": False,
    "FLAGS_benchmark": False,
}


def set_flags(flags: dict[str, Any]) -> None:
    """Set flags by name, in all threads. `FLAGS_amp_on_cpu` lets `paddle.amp` take effect on a CPU from now on; the flags of Paddle's
    runtime say how it does things and not what is computed, and only can be read again. `ValueError` for a flag that is not known.
    """
    if not isinstance(flags, dict):
        raise TypeError("flags in set_flags should be a dict")
    for name, value in flags.items():
        if name not in _FLAGS:
            raise ValueError(f"Flag {name} cannot set its value through this function.")
        _FLAGS[name] = value
    REGIONS.on_cpu = bool(_FLAGS["FLAGS_amp_on_cpu"])


def get_flags(flags: Any) -> dict[str, Any]:
    """The values of flags, by name or a list of names."""
    names = [flags] if isinstance(flags, str) else list(flags) if isinstance(flags, (list, tuple)) else None
    if names is None:
        raise TypeError("Flags in get_flags should be a list, tuple or string.")
    for name in names:
        if name not in _FLAGS:
            raise ValueError(f"Flag {name} cannot get its value through this function.")
    return {name: _FLAGS[name] for name in names}
