"""Which driver takes which text of PTX, and which device: what the text itself says of both."""

from __future__ import annotations

import re

__all__ = ["CUDA_OF_PTX", "cuda_for", "cuda_text", "device_of", "ptx_of", "version_of"]

# The first CUDA, as its drivers tell it, that knows a version of PTX; of the versions that are written here and some around them.
CUDA_OF_PTX = (((6, 3), 10000), ((6, 4), 10010), ((7, 0), 11000), ((7, 1), 11010), ((7, 8), 11080), ((8, 0), 12000), ((8, 6), 12070))
_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)", re.M)
_DEVICE = re.compile(rb"^\.target sm_(\d+)([af]?)", re.M)


def version_of(text: bytes) -> tuple[int, int] | None:
    """The version of PTX that a text is written in."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2])) if found is not None else None


def cuda_for(text: bytes) -> int:
    """The first CUDA that takes a text of PTX, as its drivers tell it; 0 where any does."""
    version = version_of(text)
    return next((cuda for ptx, cuda in reversed(CUDA_OF_PTX) if version is not None and ptx <= version), 0)


def ptx_of(cuda: int) -> int:
    """The newest version of PTX (80 for 8.0), of those that are known here, that a driver for this CUDA takes."""
    return max((10 * major + minor for (major, minor), first in CUDA_OF_PTX if first <= cuda), default=0)


def device_of(text: bytes) -> tuple[int, bool]:
    """The compute capability (90 for 9.0) that a text of PTX asks for, and whether others do not do."""
    found = _DEVICE.search(text)
    return (int(found[1]), bool(found[2])) if found is not None else (0, False)


def cuda_text(version: int) -> str:
    """A version as CUDA tells it: 11080 is 11.8."""
    return f"{version // 1000}.{version % 1000 // 10}"
