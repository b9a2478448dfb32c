"""Places and devices: where ops compute, one by one or compiled together.

The current device is the CPU, a GPU by way of pycuda (`"gpu"`), or the emulated GPU (`"gpu-emulated"`), which executes the same PTX on
numpy and checks every access. What a GPU computes lies there until someone looks at it, and what its kernels have read keeps a copy there
(`runtime/gpu/copies.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.names import absent_from, listed
from polyreme.runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from polyreme.runtime.gpu.copies import DeviceCopies

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "XPUPlace", "get_cudnn_version", "get_device", "is_compiled_with_cuda",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu", "set_device",
]  # fmt: skip


class Place:
    """A device; printed `Place(cpu)`."""

    kind = "cpu"

    def is_cpu_place(self) -> bool:
        return self.kind == "cpu"

    def is_gpu_place(self) -> bool:
        return self.kind in ("gpu", "gpu-emulated")

    def is_cuda_pinned_place(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"Place({self.kind})"


class CPUPlace(Place):
    """Main memory."""


class CUDAPlace(Place):
    """GPU number `id`; an error says what is missing for it."""

    kind = "gpu"

    def __init__(self, id: int = 0):
        if id != 0:
            raise ValueError(f"expected GPU 0 but got {id}: one GPU per process is used; CUDA_VISIBLE_DEVICES says which")
        self.id = id
        _driver(self.kind)

    def __repr__(self) -> str:
        return f"Place(gpu:{self.id})"


class EmulatedGpuPlace(Place):
    """The GPU that numpy plays."""

    kind = "gpu-emulated"


class _AbsentPlace(Place):
    """A place this build cannot reach: making one is an error that says so."""

    device = ""

    def __init__(self, *_: Any):
        raise ValueError(f"expected CPUPlace() but got {type(self).__name__}: this build has no {self.device} support")


class CUDAPinnedPlace(Place):
    """Main memory that a GPU reads by itself: there where there is one."""

    kind = "gpu_pinned"

    def __init__(self) -> None:
        if not _current.is_gpu_place() and not is_compiled_with_cuda():
            raise ValueError("expected CPUPlace() but got CUDAPinnedPlace: this build has no CUDA support, or there is no GPU")

    def is_cuda_pinned_place(self) -> bool:
        return True


class XPUPlace(_AbsentPlace):
    """XPU number `id`."""

    kind, device = "xpu", "XPU"


CPU = CPUPlace()
_current: Place = CPU
_followers: list[Callable[[Place], None]] = []
_drivers: dict[str, Any] = {}
_copies: dict[str, DeviceCopies] = {}


class DeviceError(PolyremeError, ValueError):
    """A device that is not there."""

    code = "E0804"


def _driver(kind: str) -> Any:
    """The driver behind a kind of GPU, opened once; `DeviceError` says why there is none."""
    if kind not in _drivers:
        from polyreme.runtime.gpu.drivers import open_driver

        try:
            launched = config.launched()
            _drivers[kind] = open_driver(kind, rank=launched.rank if launched.size > 1 else None)
        except RuntimeFault as error:
            raise DeviceError(
                f"expected a GPU for the device '{kind}' but it cannot be used: {error.message}", caller_location()
            ) from error
    return _drivers[kind]


def driver_of(place: Place) -> Any:
    """The `runtime.gpu` driver of a GPU's place; None for the CPU."""
    return _driver(place.kind) if place.is_gpu_place() else None


def copies_on(place: Place) -> DeviceCopies:
    """What of the tensors lies on a GPU."""
    if place.kind not in _copies:
        from polyreme.runtime.gpu.copies import DeviceCopies

        _copies[place.kind] = DeviceCopies(_driver(place.kind))
    return _copies[place.kind]


def current_place() -> Place:
    """Where ops and compiled functions run now."""
    return _current


def follow(told: Callable[[Place], None]) -> None:
    """Call `told` with the current place, now and whenever it changes."""
    _followers.append(told)
    told(_current)


def as_place(device: Any) -> Place:
    """The place meant by None (main memory), a name such as `"cpu"`, `"gpu"` or `"gpu-emulated"`, or a place; `ValueError` for devices that
    are not there.
    """
    if device is None:
        return CPU
    if isinstance(device, Place):
        return device
    if isinstance(device, str):
        kind, _, number = device.lower().partition(":")
        if kind == "cpu":
            return CPU
        if kind == "gpu" and (number.isdigit() or not number):
            return CUDAPlace(int(number or 0))
        if kind == "gpu-emulated":
            _driver(kind)
            return EmulatedGpuPlace()
        if kind in ("xpu", "npu", "custom_cpu", "gpu_pinned"):
            raise ValueError(f"expected the device 'cpu', 'gpu' or 'gpu-emulated' but got {device!r}: this build has no support for it")
    raise ValueError(f"expected a device such as 'cpu' or a place but got {device!r}")


def set_device(device: Any) -> Place:
    """Let ops and compiled functions run on `device` from now on, and return its place."""
    global _current
    _current = as_place(device)
    for told in _followers:
        told(_current)
    return _current


@contextmanager
def on_device(device: Any) -> Iterator[None]:
    """`set_device` for a while; None leaves the device as it is."""
    before = _current
    if device is not None:
        set_device(device)
    try:
        yield
    finally:
        set_device(before)


@overload
def get_device(input: None = None) -> str: ...
@overload
def get_device(input: Any) -> int: ...
def get_device(input: Any = None) -> str | int:
    """The name of the current device: `"cpu"`, `"gpu:0"` or `"gpu-emulated"`. For a tensor the number of its device, -1 on the CPU."""
    if input is not None:
        return getattr(input.place, "id", 0) if input.place.is_gpu_place() else -1
    return f"gpu:{_current.id}" if isinstance(_current, CUDAPlace) else _current.kind


def is_compiled_with_cuda() -> bool:
    """Whether a GPU can be used here; `set_device("gpu")` says what is missing."""
    try:
        return _driver("gpu") is not None
    except ValueError:
        return False


def is_compiled_with_rocm() -> bool:
    return False


def is_compiled_with_xpu() -> bool:
    return False


def get_cudnn_version() -> int | None:
    """None: cuDNN is not used."""
    return None


# What `paddle.device` has of `paddle.device.cuda`.
_OF_CUDA = (
    "Event", "Stream", "current_stream", "device_count", "empty_cache", "get_device_capability", "get_device_name", "get_device_properties",
    "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_max_memory_allocated",
    "reset_max_memory_reserved", "reset_peak_memory_stats", "stream_guard", "synchronize",
)  # fmt: skip


def set_stream(stream: Any) -> Any:
    """Run ops on a stream from now on; the one that they ran on before. All stand for one."""
    cuda = importlib.import_module(f"{__name__}.cuda")
    if not isinstance(stream, cuda.Stream):
        raise TypeError(f"expected a Stream but got {type(stream).__name__}")
    return cuda.current_stream(stream.place)


def __getattr__(name: str) -> Any:
    if name == "cuda" or name in _OF_CUDA:
        cuda = importlib.import_module(f"{__name__}.cuda")
        return cuda if name == "cuda" else getattr(cuda, name)
    return absent_from(__name__)(name)


__dir__ = listed(__name__)
