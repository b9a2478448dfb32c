"""Places and devices. This build computes on the CPU; places of other devices exist as names and say so when used."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "XPUPlace", "get_cudnn_version", "get_device", "is_compiled_with_cuda", "is_compiled_with_rocm",
    "is_compiled_with_xpu", "set_device",
]  # fmt: skip


class Place:
    """Where a tensor's memory is; printed `Place(cpu)`."""

    kind = "cpu"

    def is_cpu_place(self) -> bool:
        return self.kind == "cpu"

    def is_gpu_place(self) -> bool:
        return self.kind == "gpu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.kind == self.kind

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return f"Place({self.kind})"


class CPUPlace(Place):
    """Main memory."""


class _AbsentPlace(Place):
    """A place this build cannot reach: making one is an error that says so."""

    device = ""

    def __init__(self, *_: Any):
        raise ValueError(f"expected CPUPlace() but got {type(self).__name__}: this build has no {self.device} support")


class CUDAPlace(_AbsentPlace):
    """GPU number `id`."""

    kind, device = "gpu", "CUDA"


class CUDAPinnedPlace(_AbsentPlace):
    """Page-locked main memory."""

    kind, device = "gpu_pinned", "CUDA"


class XPUPlace(_AbsentPlace):
    """XPU number `id`."""

    kind, device = "xpu", "XPU"


CPU = CPUPlace()


def as_place(device: Any) -> Place:
    """The place meant by None (the current one), a name such as `"cpu"`, or a place; `ValueError` for devices this build lacks."""
    if device is None or isinstance(device, CPUPlace):
        return CPU
    if isinstance(device, str):
        kind = device.lower().split(":")[0]
        if kind == "cpu":
            return CPU
        if kind in ("gpu", "xpu", "npu", "custom_cpu", "gpu_pinned"):
            raise ValueError(f"expected the device 'cpu' but got {device!r}: this build has no support for it")
    raise ValueError(f"expected a device such as 'cpu' or a place but got {device!r}")


def set_device(device: Any) -> Place:
    """Make `device` the current one and return its place; only `"cpu"` is there."""
    return as_place(device)


def get_device() -> str:
    """The name of the current device: `"cpu"`."""
    return "cpu"


def is_compiled_with_cuda() -> bool:
    return False


def is_compiled_with_rocm() -> bool:
    return False


def is_compiled_with_xpu() -> bool:
    return False


def get_cudnn_version() -> int | None:
    """None: there is no cuDNN in this build."""
    return None
