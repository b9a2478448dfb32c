"""A libcuda without a device: a shared library, found by a path, whose functions call back into the test and are executed by the runner of
PTX. It counts calls, lets any of them fail, and knows what was not given back.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.lowering.link.artifact import base_of, native_object
from polyreme.lowering.link.gpu_interface import FUNCTIONS
from polyreme.lowering.link.shared_library import link_shared
from polyreme.lowering.machines.targets import host
from polyreme.runtime.gpu.drivers import EmulatedDriver, GpuError
from polyreme.runtime.gpu.tensor_maps import DTYPES, MODES
from polyreme.runtime.ptx.tensor_map import MAP_BYTES, BadMap, TensorMap

# Errors of the driver.
INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, NO_BINARY, INVALID_HANDLE, ILLEGAL_ADDRESS = 1, 2, 100, 209, 400, 700
_NAMES = {1: b"CUDA_ERROR_INVALID_VALUE", 2: b"CUDA_ERROR_OUT_OF_MEMORY", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS"}
_TYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_uint64, "ptr": ctypes.c_void_p}
_ELF = b"\x7fELF"


class Failure(Exception):
    """What a function returns in place of doing something."""


class LibcudaStandIn:
    """`calls` counts what was called. `failing` maps functions to the number of an error, and of the call from which on they fail.
    `capability`, `version`, `devices`, `room` (bytes that can be allocated) and `shared` (those of a block) are the device's.
    `launched` are the kernels in order.
    """

    def __init__(self, folder: Path, missing: Collection[str] = ()):
        self.emulated = EmulatedDriver()
        self.calls: Counter[str] = Counter()
        self.failing: dict[str, tuple[int, int]] = {}
        self.capability, self.version, self.devices, self.room = 90, 13000, 1, 1 << 30
        self.shared = self.emulated.shared_bytes
        self.ptx = b""  # what code of a device is made of, since the runner cannot run that
        self.images: list[str] = []  # what was loaded: "code" of a device, or "text"
        self.refused: set[str] = set()  # of these
        self.launched: list[str] = []
        self.faults: list[BaseException] = []
        self.retained = 0
        self.memory: dict[int, int] = {}
        self.objects: dict[int, Any] = {}  # modules, functions, streams, events and graphs by their handles
        self.contexts: dict[int, list[int]] = defaultdict(list)  # by thread
        self.recording: dict[int, list[Any]] = {}  # by stream
        self.on_its_way = False
        self.meeting: threading.Barrier | None = None  # where runs wait for each other at their ends
        self.streams_used: set[int] = set()
        self._lock = threading.RLock()
        self._handle = 1 << 20
        self.path = folder / "libcuda_stand_in.so"
        names = [name for name in FUNCTIONS if name not in missing]
        self.path.write_bytes(_library(names))
        self.library = ctypes.CDLL(str(self.path))
        table = (ctypes.c_void_p * len(names)).in_dll(self.library, "stand_in_table")
        self._kept = [ctypes.CFUNCTYPE(ctypes.c_int32, *(_TYPES[t] for t in FUNCTIONS[name].split()))(self._called(name)) for name in names]
        for i, function in enumerate(self._kept):
            table[i] = ctypes.cast(function, ctypes.c_void_p).value

    def check(self) -> None:
        """Nothing was called as it may not be, and everything was given back."""
        if self.faults:
            raise self.faults[0]
        left = {kind for kind, _ in self.objects.values()} - {"function"}
        assert not self.memory and not left and not self.recording and not self.retained, (self.memory, left, self.retained)
        assert not any(self.contexts.values())

    def _called(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if name == "cuStreamSynchronize" and self.meeting is not None:
                self.meeting.wait()
            with self._lock:
                self.calls[name] += 1
                error, first = self.failing.get(name, (0, 0))
                try:
                    if error and self.calls[name] >= first:
                        if name == "cuStreamEndCapture":
                            del self.recording[arguments[0]]  # a recording that fails is over
                        return error
                    getattr(self, f"_{name}")(*arguments)
                except Failure as failure:
                    return int(str(failure))
                except BaseException as fault:
                    self.faults.append(fault)
                    return 999
                return 0

        return call

    def _new(self, kind: str, value: Any, place: int) -> None:
        self._handle += 64
        self.objects[self._handle] = (kind, value)
        ctypes.c_void_p.from_address(place).value = self._handle

    def _get(self, kind: str, handle: int) -> Any:
        found, value = self.objects[handle]
        assert found == kind
        return value

    def _end(self, kind: str, handle: int) -> None:
        self._get(kind, handle)
        del self.objects[handle]

    def _in_context(self) -> None:
        assert self.contexts[threading.get_ident()], "expected a current context"

    def _stream(self, stream: int | None) -> int:
        self._in_context()
        # 0 is the default stream; small numbers are those of a test.
        if stream is not None and stream >= 1 << 20:
            self._get("stream", stream)
        self.streams_used.add(stream or 0)
        return stream or 0

    # --- device and context

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuDriverGetVersion(self, place: int) -> None:
        ctypes.c_int32.from_address(place).value = self.version

    def _cuGetErrorName(self, error: int, place: int) -> None:
        if error not in _NAMES:
            raise Failure(INVALID_VALUE)
        ctypes.c_char_p.from_address(place).value = _NAMES[error]

    def _cuGetErrorString(self, error: int, place: int) -> None:
        ctypes.c_char_p.from_address(place).value = b"what the test says"

    def _cuDeviceGetCount(self, place: int) -> None:
        ctypes.c_int32.from_address(place).value = self.devices

    def _cuDeviceGet(self, place: int, number: int) -> None:
        assert 0 <= number < self.devices
        ctypes.c_int32.from_address(place).value = 7 + number

    def _cuDeviceGetName(self, place: int, room: int, device: int) -> None:
        ctypes.memmove(place, b"Stand-in %d\0" % device, 11 + len(str(device)) - 1)
        assert room == 256

    def _cuDeviceGetAttribute(self, place: int, attribute: int, device: int) -> None:
        ctypes.c_int32.from_address(place).value = {
            75: self.capability // 10,
            76: self.capability % 10,
            97: self.shared,
        }[attribute]

    def _cuDevicePrimaryCtxRetain(self, place: int, device: int) -> None:
        self.retained += 1
        ctypes.c_void_p.from_address(place).value = 0xC0 + device

    def _cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        self.retained -= 1
        assert self.retained >= 0

    def _cuCtxPushCurrent_v2(self, context: int) -> None:
        assert context >= 0xC7 and self.retained
        self.contexts[threading.get_ident()].append(context)

    def _cuCtxPopCurrent_v2(self, place: int) -> None:
        ctypes.c_void_p.from_address(place).value = self.contexts[threading.get_ident()].pop()

    # --- code

    def _cuModuleLoadDataEx(self, place: int, image: int, count: int, options: int, values: int) -> None:
        self._in_context()
        is_code = ctypes.string_at(image, 4) == _ELF
        self.images.append("code" if is_code else "text")
        text = self.ptx if is_code else ctypes.string_at(image)
        if not is_code:
            assert count == 2 and (ctypes.c_int32 * 2).from_address(options)[:] == [5, 6]
            log, size = (ctypes.c_void_p * 2).from_address(values)
            assert log and size
            ctypes.memmove(log, b"the log\0", 8)
        if self.images[-1] in self.refused:
            raise Failure(NO_BINARY)
        self._new("module", self.emulated.load_module(text), place)

    def _cuModuleUnload(self, module: int) -> None:
        self._end("module", module)

    def _cuModuleGetFunction(self, place: int, module: int, name: int) -> None:
        try:
            made = self._get("module", module).function(ctypes.string_at(name).decode())
            made.most_shared = 0  # until it is asked for
            self._new("function", made, place)
        except GpuError:
            raise Failure(INVALID_HANDLE) from None

    def _cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        assert attribute == 8 and value > 0
        if value > self.shared:
            raise Failure(INVALID_VALUE)
        self._get("function", function).most_shared = value

    # --- memory

    def _cuMemAlloc_v2(self, place: int, size: int) -> None:
        self._in_context()
        if sum(self.memory.values()) + size > self.room:
            raise Failure(OUT_OF_MEMORY)
        assert size > 0
        address = self.emulated.allocate(size)
        self.memory[address] = size
        ctypes.c_uint64.from_address(place).value = address

    def _cuMemFree_v2(self, address: int) -> None:
        self._in_context()
        del self.memory[address]
        self.emulated.free(address)

    def _cuMemGetInfo_v2(self, free: int, total: int) -> None:
        self._in_context()
        ctypes.c_uint64.from_address(free).value = self.room - sum(self.memory.values())
        ctypes.c_uint64.from_address(total).value = self.room

    def _cuMemcpyHtoD_v2(self, to: int, source: int, size: int) -> None:
        # Of memory that is not pinned it may return before the device has it: the default stream tells.
        self.on_its_way = True
        self._cuMemcpyHtoDAsync_v2(to, source, size, None)

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int | None) -> None:
        self._stream(stream)
        assert not self.recording
        self.emulated.upload(to, _bytes_at(source, size))

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int | None) -> None:
        self._stream(stream)
        assert not self.recording
        self.emulated.download(source, _bytes_at(to, size))

    # --- streams and events

    def _cuStreamCreate(self, place: int, flags: int) -> None:
        self._in_context()
        assert flags == 1
        self._new("stream", None, place)

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        self._end("stream", stream)

    def _cuStreamSynchronize(self, stream: int | None) -> None:
        assert self._stream(stream) not in self.recording
        self.on_its_way = self.on_its_way and bool(stream)

    def _cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        self._stream(stream)
        assert flags == 0 and self._get("event", event) == ["recorded"]

    def _cuEventCreate(self, place: int, flags: int) -> None:
        self._in_context()
        assert flags == 2
        self._new("event", [], place)

    def _cuEventRecord(self, event: int, stream: int | None) -> None:
        self._stream(stream)
        self._get("event", event)[:] = ["recorded"]

    def _cuEventSynchronize(self, event: int) -> None:
        assert self._get("event", event) == ["recorded"]

    def _cuEventDestroy_v2(self, event: int) -> None:
        self._end("event", event)

    # --- launches

    def _cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, given: int, extra: int | None
    ) -> None:
        assert extra is None and min(gx, gy, gz) > 0 and not self.on_its_way
        stream = self._stream(stream)
        program = self._get("function", function)
        places = (ctypes.c_void_p * len(program.kernel.params)).from_address(given)
        arguments = [
            ctypes.string_at(place or 0, width) if width > 8 else ctypes.c_int64.from_address(place or 0).value
            for place, width in zip(places, program.kernel.params.values(), strict=True)
        ]
        launch = (program, (gx, gy, gz), (bx, by, bz), arguments, shared)
        if stream in self.recording:
            self.recording[stream].append(launch)
        else:
            self._launch(launch)

    def _cuTensorMapEncodeTiled(
        self, place: int, dtype: int, axes: int, address: int, sizes: int, strides: int, box: int, ones: int, *modes: int
    ) -> None:
        """The bytes that the runner reads."""
        assert place % 64 == 0 and modes == MODES and list((ctypes.c_uint32 * axes).from_address(ones)) == [1] * axes
        names = {number: name for name, number in DTYPES.items()}
        bytes_between = (ctypes.c_uint64 * (axes - 1)).from_address(strides)
        assert not any(n % 2 for n in bytes_between)
        numbers = (tuple((ctypes.c_uint64 * axes).from_address(sizes)), tuple(n // 2 for n in bytes_between))
        made = TensorMap(names[dtype], *numbers, tuple((ctypes.c_uint32 * axes).from_address(box)))
        try:
            ctypes.memmove(place, made.bytes_at(address), MAP_BYTES)
        except BadMap:
            raise Failure(INVALID_VALUE) from None

    def _launch(self, launch: Any) -> None:
        self.launched.append(launch[0].kernel.name)
        self.emulated.launch(*launch)

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        assert mode == 1
        self.recording[self._stream(stream)] = []

    def _cuStreamEndCapture(self, stream: int, place: int) -> None:
        self._new("graph", self.recording.pop(stream), place)

    def _cuGraphInstantiateWithFlags(self, place: int, graph: int, flags: int) -> None:
        assert flags == 0
        self._new("executable", list(self._get("graph", graph)), place)

    def _cuGraphLaunch(self, executable: int, stream: int | None) -> None:
        self._stream(stream)
        for launch in self._get("executable", executable):
            self._launch(launch)

    def _cuGraphDestroy(self, graph: int) -> None:
        self._end("graph", graph)

    def _cuGraphExecDestroy(self, executable: int) -> None:
        self._end("executable", executable)


def _bytes_at(address: int, size: int) -> np.ndarray[Any, Any]:
    assert size > 0
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _library(names: list[str]) -> bytes:
    """A shared library in which each of these functions calls what stands in a table."""
    lines = [f"@stand_in_table = global [{len(names)} x ptr] zeroinitializer"]
    for i, name in enumerate(names):
        given = ", ".join(f"{type} %a{n}" for n, type in enumerate(FUNCTIONS[name].split()))
        lines += [
            f"define i32 @{name}({given}) nounwind {{",
            f"  %at = getelementptr ptr, ptr @stand_in_table, i64 {i}",
            "  %function = load ptr, ptr %at",
            f"  %code = call i32 %function({given})",
            "  ret i32 %code",
            "}",
        ]
    machine = base_of(host())
    return link_shared({"stand_in.o": native_object("\n".join(lines), machine)}, ["cu*", "stand_in_table"], "libcuda.so.1", machine)
