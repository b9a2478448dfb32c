"""An executable whose kernels run on a GPU, through any driver of `gpu.py`: a real device, or the runner that executes PTX on numpy.

It owns its memory on the device: the constants and the code from the beginning, inputs, outputs and the arena (laid out by the same plan as on the CPU) for
the shapes of the latest call. A call copies the inputs, launches the kernels in order, and copies the results back. Weights that are
arguments are copied at every call, since the arrays are the caller's and may have changed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme.runtime.artifact import Artifact
from polyreme.runtime.calling import Array, CallableModel, Shapes
from polyreme.runtime.errors import CallError
from polyreme.runtime.gpu_plan import GpuPlan, LaunchSpec
from polyreme.runtime.sizes import parse_size


@dataclass
class _Memory:
    """What a call with inputs of some shapes needs: addresses of all arguments and of the arena, and the launches with numbers in place."""

    shapes: Shapes
    output_shapes: Shapes
    buffers: list[int]
    owned: list[int]
    launches: list[tuple[Any, tuple[int, ...], tuple[int, ...], list[int]]] = field(default_factory=list)


class GpuExecutable(CallableModel):
    """A model on a device; called as `Executable` is. Calls from several threads wait for each other."""

    def __init__(self, artifact: Artifact, driver: Any):
        """`driver` is a `runtime.gpu` driver, which must be able to load the artifact's code (PTX)."""
        super().__init__(artifact.manifest)
        self.driver = driver
        self.plan = GpuPlan.of(artifact.manifest)
        self._lock = threading.Lock()
        self._memory: _Memory | None = None
        texts = {s for launch in self.plan.launches for s in (*launch.grid, *(a.value for a in launch.arguments)) if isinstance(s, str)}
        texts |= {s for s in self.plan.arena if isinstance(s, str)}
        self._numbers = {text: parse_size(text, self.manifest.size_names) for text in texts}
        module = driver.load_module(artifact.code)
        self._functions = {name: module.function(name) for name in dict.fromkeys(launch.kernel for launch in self.plan.launches)}
        self._constants: dict[int, int] = {}
        for i, c in enumerate(self.manifest.constants):
            data = np.frombuffer(artifact.constants, np.uint8, c.bytes, c.offset)
            self._constants[self._slots["constant", i]] = self._allocate(c.bytes)
            self._upload(self._constants[self._slots["constant", i]], data)

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for `inputs`, in fresh arrays, or in those of `out` that are not None; errors as those of `Executable.run`."""
        arrays = self._checked(inputs)
        with self._lock:
            memory = self._remember(tuple(a.shape for a in arrays))
            results = self._targets(memory, out)
            for array, (slot, _, _) in zip(arrays, self._inputs, strict=True):
                self._upload(memory.buffers[slot], array)
            for function, grid, block, arguments in memory.launches:
                self.driver.launch(function, grid, block, arguments)
            self.driver.synchronize()
            for result, (slot, _, _) in zip(results, self._outputs, strict=True):
                whole = result if result.flags.c_contiguous else np.empty(result.shape, result.dtype)
                self._download(memory.buffers[slot], whole)
                if whole is not result:
                    result[...] = whole
        return results

    def release_memory(self) -> None:
        """Give back what the latest call took on the device, except constants; the next call takes it again."""
        with self._lock:
            self._release()

    # --- arrays

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        if len(inputs) != len(self._inputs):
            raise self._count_error(len(inputs))
        arrays = []
        for given, (_, dtype, spec) in zip(inputs, self._inputs, strict=True):
            array = self._as_array(given, spec)
            if array.dtype != dtype:
                raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
            arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        return arrays

    def _targets(self, memory: _Memory, out: Sequence[Array | None] | None) -> list[Array]:
        if out is not None and len(out) != len(self._outputs):
            raise CallError(f"'{self.name}' expected {len(self._outputs)} arrays in 'out' but got {len(out)}")
        results = []
        for i, ((_, dtype, spec), shape) in enumerate(zip(self._outputs, memory.output_shapes, strict=True)):
            given = out[i] if out is not None else None
            if given is not None:
                self._check_out(given, spec, dtype, shape)
            results.append(np.empty(shape, dtype) if given is None else given)
        return results

    # --- memory on the device

    def _remember(self, shapes: Shapes) -> _Memory:
        if self._memory is not None and self._memory.shapes == shapes:
            return self._memory
        values, output_shapes = self._measure(shapes)
        needed = max((self._number(x, values) for x in self.plan.arena), default=0)
        self._check_arena(needed, values)
        self._release()
        memory = _Memory(shapes, output_shapes, [0] * len(self.manifest.arguments), [])
        # Remembered before it is whole, so that an allocation that fails leaves nothing behind.
        self._memory = memory
        try:
            for slot, address in self._constants.items():
                memory.buffers[slot] = address
            specs = [*zip(self._inputs, shapes, strict=True), *zip(self._outputs, output_shapes, strict=True)]
            for (slot, dtype, _), shape in specs:
                memory.buffers[slot] = self._own(memory, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
            arena = self._own(memory, needed) if needed else 0
            memory.launches = [found for x in self.plan.launches if (found := self._launch(x, memory.buffers, arena, values)) is not None]
        except BaseException:
            self._release()
            raise
        return memory

    def _launch(self, spec: LaunchSpec, buffers: list[int], arena: int, values: dict[str, int]) -> Any:
        """The launch with its numbers in place; None when there are no blocks."""
        grid = tuple(self._number(x, values) for x in spec.grid)
        if 0 in grid:
            return None
        arguments = []
        for a in spec.arguments:
            number = self._number(a.value, values)
            arguments.append(buffers[number] if a.kind == "buffer" else arena + number if a.kind == "arena" else number)
        return self._functions[spec.kernel], grid, spec.block, arguments

    def _number(self, x: int | str, values: dict[str, int]) -> int:
        return x if isinstance(x, int) else self._numbers[x](values)

    def _own(self, memory: _Memory, count: int) -> int:
        memory.owned.append(self._allocate(count))
        return memory.owned[-1]

    def _allocate(self, count: int) -> int:
        # Memory of no bytes has an address too.
        return int(self.driver.allocate(max(count, 1)))

    def _release(self) -> None:
        if self._memory is not None:
            for address in self._memory.owned:
                self.driver.free(address)
            self._memory = None

    def _upload(self, address: int, array: Array) -> None:
        if array.size:
            self.driver.upload(address, array.reshape(-1).view(np.uint8))

    def _download(self, address: int, array: Array) -> None:
        if array.size:
            self.driver.download(address, array.reshape(-1).view(np.uint8))
