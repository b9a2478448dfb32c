"""A CUDA driver without a device: what of pycuda and of libcuda the runtime calls, recorded, and executed by the runner of PTX."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polyreme.runtime.gpu import graphs, streams, tensor_maps
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.runtime.ptx.tensor_map import MAP_BYTES, TensorMap


def format_of(args: Any) -> str:
    """What pycuda must be told of arguments: tensor maps, then numbers."""
    return "".join(f"{len(a)}s" if isinstance(a, bytes) else "q" for a in args)


def _done() -> None:
    """What was done is not kept."""


class CudaStandIn:
    """`calls` counts what was called. `failing` are functions of libcuda that fail, with the number of their error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.device = EmulatedDriver()
        self.calls: Counter[str] = Counter()
        self.failing: dict[str, int] = {}
        self.recorded: dict[int, list[Any]] = {}  # by stream
        self.kept: dict[int, list[Any]] = {}  # graphs, recorded and ready to run
        package, driver = ModuleType("pycuda"), self._pycuda()
        package.driver = driver  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pycuda", package)
        monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
        # What each stream was asked, and how much of it is done; 0 is the default one. Lazy streams do nothing before they must.
        self.asked: dict[int, list[Callable[[], None]]] = {0: []}
        self.done: Counter[int] = Counter()
        self.lazy: set[int] = set()
        self.marks: dict[int, tuple[int, int]] = {}  # events: a stream, and how much it was asked in front of it
        self.pinned: dict[int, Any] = {}
        signatures = graphs.SIGNATURES | streams.SIGNATURES
        self._functions = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._called(name)) for name, types in signatures.items()}
        maps = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._called(name)) for name, types in tensor_maps.SIGNATURES.items()}
        monkeypatch.setattr(graphs, "load_library", lambda: SimpleNamespace(**self._functions))
        monkeypatch.setattr(tensor_maps, "load_library", lambda: SimpleNamespace(**maps))

    # --- streams

    def ask(self, stream: int, action: Callable[[], None]) -> None:
        """Let a stream do something behind all that it was asked."""
        self.asked[stream].append(action)
        if stream not in self.lazy:
            self.finish(stream)

    def finish(self, stream: int, count: int | None = None) -> None:
        """Have a stream do the first `count` things that it was asked, or all of them."""
        while self.done[stream] < (len(self.asked[stream]) if count is None else count):
            at = self.done[stream]
            self.done[stream] += 1
            action, self.asked[stream][at] = self.asked[stream][at], _done
            action()

    def finish_all(self) -> None:
        for stream in list(self.asked):
            self.finish(stream)

    def at_once(self, action: Callable[..., Any]) -> Callable[..., None]:
        """A call that returns when the default stream has done it."""

        def call(*args: Any) -> None:
            self.ask(0, lambda: action(*args))
            self.finish(0)

        return call

    def _new_handle(self, place: Any, known: Any) -> int:
        place[0] = handle = 5000 + len(known)
        return handle

    def _cuStreamCreate(self, place: Any, flags: int) -> None:
        assert flags == streams.NON_BLOCKING
        self.asked[self._new_handle(place, self.asked)] = []

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        self.finish(stream)

    def _cuEventCreate(self, place: Any, flags: int) -> None:
        self.marks[self._new_handle(place, self.marks)] = (0, 0)

    def _cuEventDestroy_v2(self, event: int) -> None:
        """Its number is not used again."""

    def _cuEventRecord(self, event: int, stream: int | None) -> None:
        self.marks[event] = stream or 0, len(self.asked[stream or 0])

    def _cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        other, count = self.marks[event]
        self.ask(stream or 0, lambda: self.finish(other, count))

    def _cuEventQuery(self, event: int) -> int:
        stream, count = self.marks[event]
        return 0 if self.done[stream] >= count else streams.NOT_READY

    def _cuEventSynchronize(self, event: int) -> None:
        self.finish(*self.marks[event])

    def _cuMemHostAlloc(self, place: Any, size: int, flags: int) -> None:
        memory = np.full(size, 0xEE, np.uint8)
        place[0] = memory.ctypes.data
        self.pinned[memory.ctypes.data] = memory

    def _cuMemFreeHost(self, address: int) -> None:
        del self.pinned[address]

    def _cuMemcpyHtoDAsync_v2(self, address: int, source: int, size: int, stream: int) -> None:
        read = (ctypes.c_uint8 * size).from_address(source)
        assert any(start <= source and source + size <= start + memory.size for start, memory in self.pinned.items()), "not pinned"
        self.ask(stream, lambda: self.device.upload(address, np.frombuffer(read, np.uint8)))

    # --- pycuda

    def _pycuda(self) -> ModuleType:
        stand_in, device = self, self.device
        driver: Any = ModuleType("pycuda.driver")

        class Error(Exception):
            pass

        class Memory:
            def __init__(self, size: int):
                self.address = device.allocate(size)

            def __int__(self) -> int:
                return self.address

            def free(self) -> None:
                stand_in.finish_all()
                device.free(self.address)

        class Stream:
            def __init__(self, flags: int = 0):
                self.flags, self.handle = flags, 1000 + len(stand_in.recorded)

        class Function:
            arg_format = ""

            def __init__(self, kernel: Any):
                self.kernel = kernel

            def prepare(self, types: str) -> None:
                self.arg_format = "".join(types)

            def prepared_call(self, grid: Any, block: Any, *args: int, shared_size: int = 0) -> None:
                stand_in.calls["launch"] += 1
                assert self.arg_format == format_of(args) and not stand_in.recorded
                stand_in.ask(0, lambda: device.launch(self.kernel, grid, block, args, shared_size))

            def set_attribute(self, attribute: str, value: int) -> None:
                assert attribute == "dynamic shared bytes"
                self.kernel.most_shared = value

            def prepared_async_call(self, grid: Any, block: Any, stream: Stream, *args: int, shared_size: int = 0) -> None:
                stand_in.calls["recorded launch"] += 1
                assert self.arg_format == format_of(args) and stream.flags == 1, "a stream that does not wait for the default one"
                stand_in.recorded[stream.handle].append((self.kernel, grid, block, args, shared_size))

        class Module:
            def __init__(self, text: bytes):
                self.kernels = device.load_module(text.rstrip(b"\0"))

            def get_function(self, name: str) -> Function:
                return Function(self.kernels.function(name))

        context = SimpleNamespace(push=lambda: None, pop=lambda: None, synchronize=self.finish_all)
        found = SimpleNamespace(
            retain_primary_context=lambda: context,
            compute_capability=lambda: divmod(device.sm, 10),
            name=lambda: "stand-in",
            total_memory=lambda: 1 << 30,
            get_attribute={"multiprocessors": 1, "shared bytes": device.shared_bytes}.__getitem__,
        )
        driver.MemoryError, driver.get_driver_version = Error, lambda: 13000
        driver.Error, driver.init, driver.mem_alloc, driver.Stream, driver.module_from_buffer = Error, lambda: None, Memory, Stream, Module
        driver.Device = type("Device", (), {"__new__": lambda cls, number: found, "count": staticmethod(lambda: 1)})
        driver.device_attribute = SimpleNamespace(MULTIPROCESSOR_COUNT="multiprocessors", MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="shared bytes")
        driver.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic shared bytes")
        driver.memcpy_htod = self.at_once(device.upload)
        driver.memcpy_dtoh = self.at_once(lambda array, address: device.download(address, array))
        driver.memcpy_dtod = lambda *args: self.ask(0, lambda: device.copy(*args))
        driver.Event = self._event
        return driver

    def _event(self) -> Any:
        mark: list[int] = [0]
        return SimpleNamespace(
            record=lambda: mark.__setitem__(0, len(self.asked[0])),
            query=lambda: self.done[0] >= mark[0],
            synchronize=lambda: self.finish(0, mark[0]),
            time_till=lambda other: 1.0,
        )

    # --- libcuda

    def _called(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls[name] += 1
            if name in self.failing:
                if name == "cuStreamEndCapture":
                    self.recorded.clear()  # a recording that fails is over
                return self.failing[name]
            return getattr(self, f"_{name}")(*args) or 0

        return call

    def _cuTensorMapEncodeTiled(
        self, place: int, dtype: int, axes: int, address: int, sizes: Any, strides: Any, box: Any, steps: Any, *modes: int
    ) -> None:
        assert place % 64 == 0 and list(steps[:axes]) == [1] * axes and all(n % 2 == 0 for n in strides[: axes - 1])
        # No interleaving, a permutation of 128 bytes, L2 lines of 256 bytes, zeros outside.
        assert modes == (0, 3, 3, 0)
        elements = [n // 2 for n in strides[: axes - 1]]
        made = TensorMap({6: "f16", 9: "bf16"}[dtype], tuple(sizes[:axes]), tuple(elements), tuple(box[:axes]))
        ctypes.memmove(place, made.bytes_at(address), MAP_BYTES)

    def _new(self, place: Any, launches: list[Any]) -> None:
        place[0] = handle = 1 + max(self.kept, default=0)
        self.kept[handle] = launches

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        assert mode == graphs.THREAD_LOCAL and stream not in self.recorded
        self.recorded[stream] = []

    def _cuStreamEndCapture(self, stream: int, graph: Any) -> None:
        self._new(graph, self.recorded.pop(stream))

    def _cuGraphInstantiateWithFlags(self, executable: Any, graph: int, flags: int) -> None:
        assert flags == 0
        self._new(executable, list(self.kept[graph]))

    def _cuGraphLaunch(self, executable: int, stream: int | None) -> None:
        assert stream is None
        launches = self.kept[executable]
        self.ask(0, lambda: [self.device.launch(*launch) for launch in launches] and None)

    def _cuGraphDestroy(self, graph: int) -> None:
        del self.kept[graph]

    _cuGraphExecDestroy = _cuGraphDestroy

    def _cuGetErrorName(self, error: int, name: Any) -> None:
        name[0] = b"CUDA_ERROR_OF_THE_TEST"
