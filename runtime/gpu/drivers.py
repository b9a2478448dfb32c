"""Devices that run kernels: one protocol, and two drivers that keep it.

`open_driver("gpu")` is a CUDA device through pycuda, which is imported then and never before; `open_driver("gpu-emulated")` runs the same
PTX on numpy, with its memory accesses checked (`ptx/runner.py`). Addresses are plain integers on both.
"""

from __future__ import annotations

import atexit
import functools
import os
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from polyreme.runtime.errors import RuntimeFault
from polyreme.runtime.gpu.graphs import Graph, GraphError, GraphFunctions
from polyreme.runtime.gpu.streams import SideStream
from polyreme.runtime.gpu.tensor_maps import MapError, TensorMapFunctions
from polyreme.runtime.gpu.versions import CUDA_OF_PTX, cuda_for, cuda_text, ptx_of, version_of
from polyreme.runtime.ptx.memory import DeviceMemory
from polyreme.runtime.ptx.parser import parse_ptx
from polyreme.runtime.ptx.program import ALWAYS_SHARED, Program
from polyreme.runtime.ptx.runner import launch
from polyreme.runtime.ptx.tensor_map import BadMap, TensorMap

Array = np.ndarray[Any, Any]
# A kernel, its blocks, the threads of each, its arguments, and bytes of shared memory.
Launch = tuple[Any, Sequence[int], Sequence[int], Sequence[int | bytes], int]


class GpuError(RuntimeFault, RuntimeError):
    """No device, no way to reach it, or a device that failed."""

    code = "E0804"


class OutOfMemoryError(GpuError, MemoryError):
    """A device that has less memory left than was asked for."""


class Module(Protocol):
    """Loaded kernels."""

    def function(self, name: str, shared_bytes: int = 0) -> Any:
        """The kernel whose entry is called `name`, for launches with up to so many bytes of shared memory; `GpuError` when there is none.
        """


class Driver(Protocol):
    """A device. `sm` is its compute capability (80 for 8.0), `ptx` the newest version of PTX that its driver takes (80 for 8.0), `model`
    what its maker calls it, `total_memory` its bytes, `shared_bytes` the most shared memory of a block.
    """

    name: str
    sm: int
    ptx: int
    model: str
    total_memory: int
    shared_bytes: int
    multiprocessors: int
    has_graphs: bool

    def allocate(self, size: int) -> int:
        """The address of `size` bytes, aligned to 256."""

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""

    def free_bytes(self) -> int | None:
        """The bytes that nobody has, of this process or another one; None where that is not known."""

    def upload(self, address: int, array: Array) -> None:
        """Copy a contiguous array to the device."""

    def download(self, address: int, array: Array) -> None:
        """Copy from the device into a contiguous array, when all launches before are done."""

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes of the device to another place of it, after the launches before."""

    def tensor_map(self, map: TensorMap, address: int) -> bytes:
        """The map of an array at an address, as a kernel takes it; `GpuError` where the device has none."""

    def load_module(self, ptx: str | bytes) -> Module:
        """Load kernels."""

    def launch(
        self, function: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[int | bytes], shared_bytes: int = 0
    ) -> None:
        """Run a kernel after those launched before; arguments: tensor maps, addresses and 64-bit integers; `shared_bytes`: the memory of a
        block beside what the kernel says itself. May return before it is done.
        """

    def graph(self, launches: Sequence[Launch]) -> Any:
        """What starts these launches by its `launch()`, in their order and with these very arguments; None, and `has_graphs` is False from
        then on, where the device cannot.
        """

    def synchronize(self) -> None:
        """Wait until all launches are done."""

    def event(self) -> Any:
        """A mark behind the launches so far, for `elapsed_ms`."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events."""

    def is_done(self, event: Any) -> bool:
        """Whether all in front of an event is done."""

    def wait_for(self, event: Any) -> None:
        """Wait until all in front of an event is done."""

    def side_stream(self) -> Any:
        """A new stream beside that of the kernels, as `streams.SideStream`; None where there is none."""

    def enter(self) -> None:
        """Let this thread ask things of the device, too; once."""


def open_driver(name: str, device: int = 0, rank: int | None = None) -> Driver:
    """The driver called `name` ("gpu" or "gpu-emulated"); `GpuError` when it cannot be had. Several processes, by their `rank`, take the
    devices in turn.
    """
    if name == "gpu":
        return CudaDriver(device, rank)
    if name == "gpu-emulated":
        return EmulatedDriver()
    raise GpuError(f"expected 'gpu' or 'gpu-emulated' but got '{name}'")


@functools.lru_cache(1024)
def _three_axes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a grid or block along all axes."""
    return (*map(int, sizes), 1, 1)[:3]


def _bytes_of(array: Array, what: str) -> Array:
    if not array.flags.c_contiguous:
        raise GpuError(f"expected a contiguous array to {what} but got a strided one")
    return array.reshape(-1).view(np.uint8)


# --- numpy


class EmulatedModule:
    """Kernels of the runner."""

    def __init__(self, ptx: str | bytes):
        text = parse_ptx(ptx.decode() if isinstance(ptx, bytes) else ptx)
        self._kernels = text.kernels
        self._programs: dict[str, Program] = {}

    def function(self, name: str, shared_bytes: int = 0) -> Program:
        if name not in self._kernels:
            raise GpuError(f"expected a kernel ({', '.join(self._kernels) or 'there is none'}) but got '{name}'")
        if shared_bytes > EmulatedDriver.shared_bytes:
            raise GpuError(f"expected at most {EmulatedDriver.shared_bytes} bytes of shared memory for '{name}' but got {shared_bytes}")
        if name not in self._programs:
            self._programs[name] = Program(self._kernels[name])
        program = self._programs[name]
        program.most_shared = max(program.most_shared, shared_bytes)
        return program


class EmulatedGraph:
    """Launches with the arguments that they had when it was made."""

    def __init__(self, driver: EmulatedDriver, launches: Sequence[Launch]):
        self._driver = driver
        self._launches = [(function, tuple(grid), tuple(block), tuple(args), shared) for function, grid, block, args, shared in launches]

    def launch(self) -> None:
        for one in self._launches:
            self._driver.launch(*one)


class EmulatedStream:
    """Copies of the device of numpy arrays: each is done when it is asked for."""

    handle = 0

    def __init__(self, driver: EmulatedDriver):
        self._driver = driver

    def pinned(self, size: int) -> Array:
        return np.empty(size, np.uint8)

    def upload(self, address: int, array: Array) -> None:
        self._driver.upload(address, array)

    def mark(self) -> EmulatedEvent:
        return EmulatedEvent()

    mark_kernels = mark

    def wait(self, event: EmulatedEvent) -> None:
        """Nothing is ever under way."""

    let_kernels_wait = wait


class EmulatedEvent:
    """A mark behind what is done."""

    def is_done(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing is ever under way."""


class EmulatedDriver:
    """A device made of numpy arrays. Every launch is done when it returns."""

    name = "gpu-emulated"
    sm = 90
    ptx = max(10 * major + minor for (major, minor), _ in CUDA_OF_PTX)
    model = "numpy"
    shared_bytes = 227 << 10
    multiprocessors = 1
    has_graphs = True

    def __init__(self) -> None:
        self.memory = DeviceMemory()
        self.total_memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all of the machine's

    def allocate(self, size: int) -> int:
        left = self.total_memory - (sum(self.memory.ends) - sum(self.memory.starts))
        if size > left:
            raise OutOfMemoryError(f"could not allocate {size} bytes: {left} are left")
        return self.memory.allocate(size)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def free_bytes(self) -> int | None:
        return None

    def upload(self, address: int, array: Array) -> None:
        source = _bytes_of(array, "upload")
        self.memory.part(address, source.size)[:] = source

    def download(self, address: int, array: Array) -> None:
        target = _bytes_of(array, "download")
        target[:] = self.memory.part(address, target.size)

    def copy(self, target: int, source: int, size: int) -> None:
        self.memory.part(target, size)[:] = self.memory.part(source, size)

    def tensor_map(self, map: TensorMap, address: int) -> bytes:
        try:
            return map.bytes_at(address)
        except BadMap as error:
            raise GpuError(str(error)) from None

    def load_module(self, ptx: str | bytes) -> EmulatedModule:
        return EmulatedModule(ptx)

    def launch(
        self, function: Program, grid: Sequence[int], block: Sequence[int], arguments: Sequence[int | bytes], shared_bytes: int = 0
    ) -> None:
        launch(function, self.memory, grid, block, arguments, shared_bytes)

    def graph(self, launches: Sequence[Launch]) -> EmulatedGraph:
        return EmulatedGraph(self, launches)

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    def event(self) -> float:
        return time.perf_counter()

    def elapsed_ms(self, start: float, end: float) -> float:
        return 1000 * (end - start)

    def is_done(self, event: float) -> bool:
        return True

    def wait_for(self, event: float) -> None:
        """Nothing is ever under way."""

    def side_stream(self) -> EmulatedStream:
        return EmulatedStream(self)

    def enter(self) -> None:
        """Every thread can."""


# --- CUDA


# The least compute capability whose code is written here.
OLDEST = 75
# A flag of a stream that does not wait for the default one, and which that does not wait for.
_NON_BLOCKING = 1


def _prepare(function: Any, arguments: Sequence[int | bytes]) -> None:
    """Tell pycuda what a kernel takes: an address and a 64-bit integer are passed alike. Tensor maps come first, each of a size that leaves
    the next one aligned.
    """
    wanted = "".join(f"{len(a)}s" if isinstance(a, bytes) else "q" for a in arguments)
    if getattr(function, "arg_format", None) != wanted:
        function.prepare(wanted)


class CudaModule:
    """Kernels that pycuda has loaded."""

    def __init__(self, module: Any, cuda: Any):
        self._module, self._cuda = module, cuda

    def function(self, name: str, shared_bytes: int = 0) -> Any:
        try:
            found = self._module.get_function(name)
        except Exception as error:  # pycuda's own classes, which exist only where it does
            raise GpuError(f"expected a kernel called '{name}': {error}") from None
        if shared_bytes > ALWAYS_SHARED:
            try:
                found.set_attribute(self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
            except Exception as error:
                raise GpuError(f"could not give '{name}' {shared_bytes} bytes of shared memory: {error}") from None
        return found


class CudaDriver:
    """A CUDA device, in its primary context, on one stream: the default one. A context belongs to a thread: use a driver in the thread that
    made it.
    """

    name = "gpu"

    def __init__(self, device: int = 0, rank: int | None = None):
        try:
            import pycuda.driver as cuda
        except ImportError as error:
            raise GpuError(f"expected pycuda for the device 'gpu' (pip install 'polyreme[cuda]'), or use 'gpu-emulated': {error}") from None
        try:
            cuda.init()
            device = device if rank is None else rank % max(cuda.Device.count(), 1)
            if device >= cuda.Device.count():
                raise GpuError(f"expected a CUDA device below {cuda.Device.count()} but got {device}")
            self._device = cuda.Device(device)
        except cuda.Error as error:
            raise GpuError(f"expected a CUDA device, or use 'gpu-emulated': {error}") from None
        self._cuda = cuda
        self._context = self._device.retain_primary_context()
        self._context.push()
        major, minor = self._device.compute_capability()
        self.sm = 10 * major + minor
        self.ptx = ptx_of(int(cuda.get_driver_version()))
        self.model = str(self._device.name())
        if self.sm < OLDEST:
            self._context.pop()
            raise GpuError(
                f"expected a GPU of compute capability {OLDEST // 10}.{OLDEST % 10} or newer but '{self.model}' has {major}.{minor}: "
                "use 'cpu'"
            )
        self.total_memory = int(self._device.total_memory())
        self.multiprocessors = int(self._device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT))
        self.shared_bytes = int(self._device.get_attribute(cuda.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN))
        self._memory: dict[int, Any] = {}
        # Graphs are recorded on a stream of their own, which does not wait for the default one.
        self._graphs: GraphFunctions | None = None
        self._maps: TensorMapFunctions | None = None
        self._recorded: Any = None
        self.has_graphs = True
        self._open = True
        # CUDA's own clean-up at the end of the process wants no context in use.
        atexit.register(self.close)

    def close(self) -> None:
        """Free what is allocated and leave the context; nothing more can be done with the driver."""
        if not self._open:
            return
        self._open = False
        atexit.unregister(self.close)
        for memory in self._memory.values():
            memory.free()
        self._memory.clear()
        self._context.pop()

    def _do(self, what: str, call: Any, *args: Any) -> Any:
        try:
            return call(*args)
        except self._cuda.Error as error:
            raise GpuError(f"could not {what}: {error}") from None

    def allocate(self, size: int) -> int:
        try:
            memory = self._cuda.mem_alloc(max(size, 1))
        except self._cuda.MemoryError as error:
            raise OutOfMemoryError(f"could not allocate {size} bytes: {error}") from None
        except self._cuda.Error as error:
            raise GpuError(f"could not allocate {size} bytes: {error}") from None
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, address: int) -> None:
        if address not in self._memory:
            raise GpuError(f"expected the address of an allocation but got {address:#x}")
        self._do("free memory", self._memory.pop(address).free)

    def upload(self, address: int, array: Array) -> None:
        source = _bytes_of(array, "upload")
        if source.size:
            self._do("copy to the device", self._cuda.memcpy_htod, address, source)

    def download(self, address: int, array: Array) -> None:
        target = _bytes_of(array, "download")
        if target.size:
            self._do("copy from the device", self._cuda.memcpy_dtoh, target, address)

    def copy(self, target: int, source: int, size: int) -> None:
        self._do("copy on the device", self._cuda.memcpy_dtod, target, source, size)

    def tensor_map(self, map: TensorMap, address: int) -> bytes:
        try:
            if self._maps is None:
                self._maps = TensorMapFunctions()
            return self._maps.encode(map, address)
        except MapError as error:
            raise GpuError(error.message) from None

    def load_module(self, ptx: str | bytes) -> CudaModule:
        text = ptx.encode() if isinstance(ptx, str) else ptx
        self._check_version(text)
        # The driver reads text up to a zero byte.
        return CudaModule(self._do("load kernels", self._cuda.module_from_buffer, text + b"\0"), self._cuda)

    def _check_version(self, text: bytes) -> None:
        """Whether the driver, which says for which CUDA it is, knows this version of PTX."""
        version, needed = version_of(text), cuda_for(text)
        own = int(self._cuda.get_driver_version())
        if version is not None and own < needed:
            raise GpuError(
                f"expected a driver for CUDA {cuda_text(needed)} or newer, since the kernels are PTX {version[0]}.{version[1]}, but this "
                f"machine's is for {cuda_text(own)}: install a newer one, or use 'cpu'"
            )

    def free_bytes(self) -> int | None:
        try:
            return int(self._cuda.mem_get_info()[0])
        except self._cuda.Error:
            return None

    def launch(
        self, function: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[int | bytes], shared_bytes: int = 0
    ) -> None:
        if 0 in grid:
            return
        _prepare(function, arguments)
        try:
            function.prepared_call(_three_axes(tuple(grid)), _three_axes(tuple(block)), *arguments, shared_size=shared_bytes)
        except self._cuda.Error as error:
            raise GpuError(f"could not launch a kernel: {error}") from None

    def graph(self, launches: Sequence[Launch]) -> Graph | None:
        if not self.has_graphs:
            return None
        try:
            if self._graphs is None:
                self._graphs, self._recorded = GraphFunctions(), self._cuda.Stream(_NON_BLOCKING)
            return self._graphs.record(self._recorded.handle, lambda: self._record(launches))
        except (GraphError, self._cuda.Error):
            self.has_graphs = False
            return None

    def _record(self, launches: Sequence[Launch]) -> None:
        for function, grid, block, arguments, shared in launches:
            if 0 not in grid:
                _prepare(function, arguments)
                sizes = _three_axes(tuple(grid)), _three_axes(tuple(block))
                function.prepared_async_call(*sizes, self._recorded, *arguments, shared_size=shared)

    def synchronize(self) -> None:
        self._do("run the kernels", self._context.synchronize)

    def event(self) -> Any:
        event = self._cuda.Event()
        event.record()
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.time_till(end))

    def is_done(self, event: Any) -> bool:
        return bool(self._do("ask for an event", event.query))

    def wait_for(self, event: Any) -> None:
        self._do("run the kernels", event.synchronize)

    def enter(self) -> None:
        self._do("enter the context of the device", self._context.push)

    def side_stream(self) -> SideStream | None:
        try:
            return SideStream()
        except GraphError:
            return None
