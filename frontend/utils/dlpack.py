"""`paddle.utils.dlpack`: tensors handed to other libraries, and taken from them, where they lie, on a CPU or a CUDA device.

What others write is seen in the tensor, as in Paddle; what is written to the tensor goes to memory of its own, as always here, so others do
not see it. Other tensors never change by it: those that shared the memory with the one that is handed over keep their own, and copies are
copies.
"""

from __future__ import annotations

from enum import IntEnum
from math import prod
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.device import CPU as CPU_PLACE
from polyreme.device import CUDAPlace, Place, as_place, copies_on
from polyreme.ir.types import scalar_type
from polyreme.names import listed
from polyreme.provided import provides
from polyreme.runtime import dlpack
from polyreme.runtime.dlpack import DlpackError, Lent, is_lent
from polyreme.runtime.gpu.arrays import DeviceArray, LentMemory, Memory, is_only_holder
from polyreme.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


class DLDeviceType(IntEnum):
    """Kinds of devices, by the numbers that DLPack gives them."""

    kDLCPU = dlpack.CPU
    kDLCUDA = dlpack.CUDA
    kDLCUDAHost = dlpack.CUDA_HOST


# --- giving


def to_dlpack(x: Tensor) -> Any:
    """A capsule with the contents of a tensor, for one consumer."""
    if not isinstance(x, Tensor):
        raise TypeError(f"The type of 'x' in to_dlpack must be paddle.Tensor, but received {type(x)}.")
    return dlpack_capsule(x.detach())


@provides
def dlpack_device(x: Tensor) -> tuple[DLDeviceType, int]:
    """Where others find the contents: on a CUDA device what is placed there; the emulated one is main memory."""
    return (DLDeviceType.kDLCUDA, 0) if x.place.kind == CUDAPlace.kind else (DLDeviceType.kDLCPU, 0)


@provides
def dlpack_capsule(
    x: Tensor,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """As `Tensor.__dlpack__`."""
    if not x.stop_gradient:
        raise BufferError(
            "Can't get __dlpack__ from Tensor that requires gradients. If gradients aren't required, use tensor.detach() to get a tensor "
            "without gradient."
        )
    if stream is not None and not isinstance(stream, int):
        raise TypeError("stream must be an integer or None.")
    kind, number = dlpack_device(x)
    wanted = (kind, number) if dl_device is None else (int(dl_device[0]), int(dl_device[1] or 0))
    if wanted not in ((kind, number), (DLDeviceType.kDLCPU, 0)):
        raise DlpackError(f"expected the device of the tensor, {(int(kind), number)}, or main memory, (1, 0), but got {wanted}")
    if wanted[0] != kind and copy is False:
        raise DlpackError("expected no copy, but the tensor lies on a device and is asked for in main memory")
    versioned = max_version is not None and max_version[0] >= 1
    if wanted[0] == DLDeviceType.kDLCUDA:
        array = _own(x, CUDAPlace(0), bool(copy))
        _let_wait(stream)
        steps = [prod(array.shape[i + 1 :]) for i in range(array.ndim)]
        return dlpack.capsule_of(array.memory.address, array.shape, steps, array.dtype, (dlpack.CUDA, 0), array, False, versioned)
    if kind == DLDeviceType.kDLCPU and stream is not None:
        raise AssertionError("CPU tensor stream must be None.")
    host = _own_in_main_memory(x, bool(copy) or wanted[0] != kind)
    steps = [step // host.itemsize for step in host.strides]
    return dlpack.capsule_of(host.ctypes.data, host.shape, steps, host.dtype, (dlpack.CPU, 0), host, False, versioned)


def _own_in_main_memory(x: Tensor, copy: bool) -> Any:
    """The contents as an array that is this tensor's alone, from now on known as one that others may write to."""
    tape.settle(x)
    is_own = is_only_holder(x, "_value")
    array = x._value
    if copy or type(array) is DeviceArray:
        return np.array(array)
    if not is_lent(array):
        if array.base is not None or not is_own or not array.flags.writeable:
            array = array.copy()
        x._value = Lent(array.ctypes.data, array.shape, [s // array.itemsize for s in array.strides], array.dtype, array).array()
    return x._value


def _own(x: Tensor, place: Place, copy: bool) -> DeviceArray:
    """The same on a CUDA device."""
    tape.settle(x)
    is_own = is_only_holder(x, "_value")
    array, owner = x._value, copies_on(place)
    if type(array) is DeviceArray and type(array.memory) is LentMemory and not copy:
        return array
    with owner.lock:
        if type(array) is not DeviceArray or array.memory.owner is not owner:
            mine = owner.sent(np.asarray(array))
        elif copy or type(array.memory) is not Memory or not is_own or not is_only_holder(array, "memory"):
            mine = owner.copied(array)
        else:
            mine = array
    made = DeviceArray(LentMemory(mine.memory.owner, mine.memory.address, mine.nbytes, mine.memory), mine.shape, mine.dtype)
    if not copy:
        x._value = made
    return made


def _let_wait(stream: int | None) -> None:
    """Let a stream of the consumer's wait for what was launched: our stream is the default one, which 1 and None are, too."""
    if stream == 0:
        raise ValueError("For CUDA, stream=0 is ambiguityous, please use None for default stream.")
    if stream not in (None, 1, -1):
        copies_on(CUDAPlace(0)).driver.synchronize()


@provides
def cuda_interface(x: Tensor) -> dict[str, Any]:
    """As `Tensor.__cuda_array_interface__`."""
    if x.place.kind != CUDAPlace.kind:
        raise AttributeError(
            "Can't get __cuda_array_interface__ on non-CUDA tensor. If CUDA data is required use tensor.cuda() to copy tensor to device "
            "memory."
        )
    if not x.stop_gradient:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Tensor that requires grad. If gradients aren't required, use var.detach() to get Tensor "
            "that doesn't require grad."
        )
    array = _own(x, CUDAPlace(0), False)
    if array.dtype.name == "bfloat16":
        raise TypeError("expected a dtype that numpy has for __cuda_array_interface__ but got bfloat16: use DLPack, or astype('float32')")
    address = array.memory.address if array.size else 0
    # 1 is the default stream, on which all was launched.
    return {"shape": array.shape, "typestr": array.dtype.str, "data": (address, False), "strides": None, "stream": 1, "version": 3}


# --- taking


def from_dlpack(dlpack: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of what a capsule holds, or an object that makes one (`__dlpack__`), where it lies."""
    capsule = dlpack
    if hasattr(dlpack, "__dlpack__"):
        asked: dict[str, Any] = {"max_version": (1, 0)}
        if copy is not None:
            asked["copy"] = copy
        if hasattr(dlpack, "__dlpack_device__") and int(dlpack.__dlpack_device__()[0]) == DLDeviceType.kDLCUDA:
            asked["stream"] = 1
        try:
            capsule = dlpack.__dlpack__(**asked)
        except TypeError:  # of one that knows no versions
            asked.pop("max_version")
            asked.pop("copy", None)
            capsule = dlpack.__dlpack__(**asked)
    made = _taken(capsule)
    if copy:
        made = made.clone()
    return made if device is None or as_place(device) == made.place else made._moved(as_place(device))


def _taken(capsule: Any) -> Tensor:
    received = dlpack.receive(capsule)
    scalar_type(received.dtype)
    if received.device[0] in (dlpack.CPU, dlpack.CUDA_HOST):
        array = Lent(received.address, received.shape, received.strides, received.dtype, received).array()
        made = Tensor._wrap(array if array.flags.aligned else array.copy())
        made._place = CPU_PLACE
        return made
    if received.device != (dlpack.CUDA, 0):
        raise DlpackError(f"expected memory of a CPU or of GPU 0 but got DLPack's device {received.device}")
    if not received.is_row_by_row:
        raise DlpackError(
            f"expected elements row by row, with strides {[prod(received.shape[i + 1 :]) for i in range(len(received.shape))]}, but got "
            f"{list(received.strides)}: make it contiguous first"
        )
    place = CUDAPlace(0)
    return _on_device(place, received.address, received.shape, received.dtype, received)


@provides
def of_cuda_interface(data: Any) -> Tensor:
    """A copy of what `__cuda_array_interface__` tells of, on GPU 0."""
    said = data.__cuda_array_interface__
    shape, dtype = tuple(said["shape"]), np.dtype(said["typestr"])
    scalar_type(dtype)
    whole = tuple(prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape)))
    if said.get("mask") is not None or said.get("strides") not in (None, whole):
        raise TypeError(f"expected elements row by row, and no mask, but got strides {said.get('strides')}: make it contiguous first")
    place = CUDAPlace(0)
    owner = copies_on(place)
    if said.get("stream") not in (None, 1):
        owner.driver.synchronize()  # what its own stream has under way
    with owner.lock:
        mine = owner.copied(_device_array(owner, said["data"][0], shape, dtype, data))
        owner.driver.synchronize()  # whoever has the memory may write to it again
    made = Tensor._wrap(mine)
    made._place = place
    return made


def _on_device(place: Place, address: int, shape: tuple[int, ...], dtype: Any, received: Any) -> Tensor:
    owner = copies_on(place)
    # Kernels may still read it when the last tensor of it is gone.
    received.end = owner.end_later
    array = _device_array(owner, address, shape, dtype, received)
    if address % ALIGNMENT:
        with owner.lock:
            array = owner.copied(array)
    made = Tensor._wrap(array)
    made._place = place
    return made


# As much as kernels count on.
ALIGNMENT = 16


def _device_array(owner: Any, address: int, shape: tuple[int, ...], dtype: Any, keeps: Any) -> DeviceArray:
    return DeviceArray(LentMemory(owner, address, prod(shape) * dtype.itemsize, keeps), shape, dtype)


__dir__ = listed(__name__)
