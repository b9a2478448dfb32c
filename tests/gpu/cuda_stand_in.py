"""A CUDA driver without a device: what of pycuda and of libcuda the runtime calls, recorded, and executed by the runner of PTX."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from polyreme.runtime.gpu import graphs, tensor_maps
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.runtime.ptx.tensor_map import MAP_BYTES, TensorMap


def format_of(args: Any) -> str:
    """What pycuda must be told of arguments: tensor maps, then numbers."""
    return "".join(f"{len(a)}s" if isinstance(a, bytes) else "q" for a in args)


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
        self._functions = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._called(name)) for name, types in graphs.SIGNATURES.items()}
        maps = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._called(name)) for name, types in tensor_maps.SIGNATURES.items()}
        monkeypatch.setattr(graphs, "load_library", lambda: SimpleNamespace(**self._functions))
        monkeypatch.setattr(tensor_maps, "load_library", lambda: SimpleNamespace(**maps))

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
                device.launch(self.kernel, grid, block, args, shared_size)

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

        context = SimpleNamespace(push=lambda: None, pop=lambda: None, synchronize=lambda: None)
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
        driver.memcpy_htod, driver.memcpy_dtoh = device.upload, lambda array, address: device.download(address, array)
        driver.memcpy_dtod = device.copy
        driver.Event = lambda: SimpleNamespace(record=lambda: None, synchronize=lambda: None, time_till=lambda other: 1.0)
        return driver

    # --- libcuda

    def _called(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls[name] += 1
            if name in self.failing:
                if name == "cuStreamEndCapture":
                    self.recorded.clear()  # a recording that fails is over
                return self.failing[name]
            getattr(self, f"_{name}")(*args)
            return 0

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
        for launch in self.kept[executable]:
            self.device.launch(*launch)

    def _cuGraphDestroy(self, graph: int) -> None:
        del self.kept[graph]

    _cuGraphExecDestroy = _cuGraphDestroy

    def _cuGetErrorName(self, error: int, name: Any) -> None:
        name[0] = b"CUDA_ERROR_OF_THE_TEST"
