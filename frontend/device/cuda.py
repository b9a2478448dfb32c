"""`paddle.device.cuda`: the GPU that tensors lie on, its memory, and what was copied to it and from it.

All of a GPU's work is done in order, on one stream, the default one: a `Stream` that is made is another name of it, so what is launched
under `stream_guard`, and what waits for what, is in the order of the program. Copies of a `DataLoader` go on beside it by themselves.

Functions that take a device take None (the current one, or GPU 0 where that is the CPU), a number, a name or a place; `DeviceError` says
what is missing where it cannot be used. In place of GPU 0 they tell of the emulated GPU (`"gpu-emulated"`) where that is the current
device, or named.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from polyreme.device import (
    CUDAPlace,
    DeviceError,
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
    "Event", "Stream", "current_stream", "device_count", "empty_cache", "get_cudnn_version", "get_device", "get_device_capability",
    "get_device_name", "get_device_properties", "is_available", "is_compiled_with_cuda", "is_compiled_with_rocm", "is_compiled_with_xpu",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_reserved", "reset_peak_memory_stats", "set_device", "stream_guard", "synchronize",
    "vmm_compact",
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
    """Wait until all that was launched is done. `RuntimeError` where there is no GPU."""
    driver_of(_gpu_or("synchronize() needs", device)).synchronize()


# --- streams and events


def _gpu_or(what: str, device: Any) -> Place:
    """The GPU that is meant; `RuntimeError` where there is none."""
    try:
        return _gpu(device)
    except DeviceError as error:
        raise RuntimeError(f"{what} a GPU: {error}") from None


class Event:
    """A mark behind what was launched when it was recorded. `blocking` and `interprocess` are taken for compatibility.

    Args:
        enable_timing: whether `elapsed_time` is asked for.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device: Any = None):
        self._place = _gpu_or("an Event needs", device)
        self._mark: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind what was launched so far."""
        self._mark = driver_of(self._place).event()

    def query(self) -> bool:
        """Whether all in front of the mark is done; True where it was not recorded."""
        return self._mark is None or bool(driver_of(self._place).is_done(self._mark))

    def synchronize(self) -> None:
        """Wait until all in front of the mark is done."""
        if self._mark is not None:
            driver_of(self._place).wait_for(self._mark)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another one."""
        if self._mark is None or end_event._mark is None:
            raise RuntimeError("expected two events that were recorded, to tell the time between them")
        return float(driver_of(self._place).elapsed_ms(self._mark, end_event._mark))


class Stream:
    """The order of a GPU's work: every stream stands for the default one. `priority` is taken for compatibility."""

    def __init__(self, device: Any = None, priority: int = 2, stream_base: Any = None):
        self._place = _gpu_or("a Stream needs", device)

    @property
    def place(self) -> Place:
        return self._place

    device = place

    @property
    def cuda_stream(self) -> int:
        """The number that CUDA has for it: that of the default stream."""
        return 0

    def record_event(self, event: Event | None = None) -> Event:
        """A mark behind what was launched so far."""
        event = Event(device=self._place) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let what is launched from now on wait for an event: it does."""

    def wait_stream(self, stream: Stream) -> None:
        """Let what is launched from now on wait for what another stream was asked: it does."""

    def query(self) -> bool:
        """Whether all that was launched is done."""
        return self.record_event().query()

    def synchronize(self) -> None:
        """Wait until all that was launched is done."""
        driver_of(self._place).synchronize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __repr__(self) -> str:
        return f"Stream(device={self._place!r}, cuda_stream={self.cuda_stream})"


def current_stream(device: Any = None) -> Stream:
    """The stream that ops run on."""
    return Stream(device)


@contextmanager
def stream_guard(stream: Stream | None = None) -> Iterator[None]:
    """Run ops on a stream; all stand for one."""
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(f"expected a Stream but got {type(stream).__name__}")
    yield


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


def memory_summary(device: Any = None) -> None:
    """Print what `memory_stats` tells."""
    for name, value in memory_stats(device).items():
        print(f"{name:>20} {value:>16,}")


def vmm_compact(device: Any = None) -> int:
    """Give back what is kept for new tensors, as `empty_cache`; how many bytes that was."""
    before = memory_reserved(device)
    copies_on(_gpu(device)).free_idle()
    return before - memory_reserved(device)


__dir__ = listed(__name__)
