"""`paddle.device.cuda`: the GPU that tensors lie on, its memory, and what was copied to it and from it.

All of a GPU's work is done in order, on one stream. Functions that take a device take None (the current one, or GPU 0 where that is the
CPU), a number, a name or a place; `DeviceError` says what is missing where it cannot be used. In place of GPU 0 they tell of the emulated
GPU (`"gpu-emulated"`) where that is the current device, or named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyreme.device import (
    CUDAPlace,
    Place,
    as_place,
    copies_on,
    current_place,
    driver_of,
    get_cudnn_version,
    get_device,
    is_compiled_with_cuda,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
    set_device,
)
from polyreme.names import listed

__all__ = [
    "device_count", "empty_cache", "get_cudnn_version", "get_device", "get_device_capability", "get_device_name", "get_device_properties",
    "is_available", "is_compiled_with_cuda", "is_compiled_with_rocm", "is_compiled_with_xpu", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_max_memory_allocated", "reset_max_memory_reserved",
    "reset_peak_memory_stats", "set_device", "synchronize",
]  # fmt: skip


@dataclass(frozen=True)
class DeviceProperties:
    """What a GPU is: its name, compute capability, bytes of memory, and multiprocessors."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def _gpu(device: Any) -> Place:
    """The GPU that is meant."""
    if device is None and current_place().is_gpu_place():
        return current_place()
    place = CUDAPlace(0) if device is None else CUDAPlace(device) if isinstance(device, int) else as_place(device)
    if not place.is_gpu_place():
        raise ValueError(f"expected a GPU, such as 'gpu' or 'gpu-emulated', but got {device!r}")
    return place


def device_count() -> int:
    """How many GPUs a process uses: 1, or 0 where there is none."""
    return int(is_compiled_with_cuda())


def is_available() -> bool:
    """Whether there is a GPU that can be used."""
    return is_compiled_with_cuda()


def synchronize(device: Any = None) -> None:
    """Wait until all that was launched is done."""
    driver_of(_gpu(device)).synchronize()


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What the GPU is."""
    driver = driver_of(_gpu(device))
    major, minor = divmod(driver.sm, 10)
    return DeviceProperties(driver.model, major, minor, driver.total_memory, driver.multiprocessors)


def get_device_name(device: Any = None) -> str:
    """What its maker calls the GPU."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Its compute capability: (9, 0) for `sm_90`."""
    found = get_device_properties(device)
    return found.major, found.minor


# --- memory


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors, and copies of those of main memory, take now."""
    return int(memory_stats(device)["allocated_bytes"])


def memory_reserved(device: Any = None) -> int:
    """The same with what is kept for new tensors."""
    return int(memory_stats(device)["reserved_bytes"])


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors have taken since the start, or since `reset_peak_memory_stats`."""
    return int(memory_stats(device)["max_allocated_bytes"])


def max_memory_reserved(device: Any = None) -> int:
    """The same with what was kept for new tensors."""
    return int(memory_stats(device)["max_reserved_bytes"])


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the most that is taken be counted from now on."""
    copies_on(_gpu(device)).reset_peaks()


def reset_max_memory_allocated(device: Any = None) -> None:
    """As `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_max_memory_reserved(device: Any = None) -> None:
    """As `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Give back to the device what is kept for new tensors."""
    if current_place().is_gpu_place():
        copies_on(current_place()).free_idle()


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes taken (`allocated_bytes`, and with what is kept for new tensors `reserved_bytes`, each with the most there were), and the
    copies: `uploads` and `uploaded_bytes` to the device, `downloads` and `downloaded_bytes` from it.
    """
    return copies_on(_gpu(device)).stats()


__dir__ = listed(__name__)
