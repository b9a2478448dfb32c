"""An executable whose kernels run on a GPU, through any driver of `drivers.py`: a real device, or the runner that executes PTX on numpy.

It owns its memory on the device: the constants and the code from the beginning, the arena (laid out by the same plan as on the CPU) and,
for `run`, inputs and outputs for the shapes of the latest call. `run` copies the inputs, launches the kernels in order, and copies the
results back: the arrays are the caller's and may have changed since the last call. `run_kept` is for arrays that do not change: they are
copied once, and results stay on the device until someone looks at them.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme.runtime.artifact import Artifact
from polyreme.runtime.calling import Array, CallableModel, Shapes
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.runtime.gpu.copies import DeviceCopies
from polyreme.runtime.gpu.plan import GpuPlan, LaunchSpec
from polyreme.runtime.manifest.sizes import parse_size
from polyreme.runtime.ptx.tensor_map import TensorMap

# Calls between two waits of `timings`.
_QUEUED = 8
# Functions of at least so many launches are started as graphs, of which each keeps so many, by the addresses of what they read and write.
FEWEST_LAUNCHES = 3
MOST_GRAPHS = 16
# Between the arenas of sets of arguments.
ALIGNMENT = 256
# So many collections of sets of arguments a function for many of them has its tables for.
MOST_TABLES = 16
_CAPABILITY = re.compile(r"sm_(\d+)(a?)")


@dataclass
class _Launch:
    """A launch with numbers in place. `places` are (place, argument) pairs for the addresses that are still to be put among `arguments`;
    the first of these are the addresses of which `maps` are made, with how many bytes behind them the arrays start.
    """

    function: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: list[int]
    shared: int
    places: list[tuple[int, int]]
    maps: list[tuple[TensorMap, int]]


@dataclass
class _Memory:
    """What a call with inputs of some shapes needs: addresses of the constants and, once `run` needs them, of inputs and outputs, and the
    launches.
    """

    shapes: Shapes
    output_shapes: Shapes
    buffers: list[int]
    owned: list[int]
    launches: list[_Launch] = field(default_factory=list)
    has_buffers: bool = False
    # Where a launch for many sets of arguments finds the only one, for each launch.
    tables: list[int] = field(default_factory=list)
    # By all addresses; None for those that were used once. The latest stand last.
    graphs: dict[tuple[int, ...], Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _ManyLaunch:
    """A launch for many sets of arguments: a row for each set that has blocks, with all in place but addresses, which go where `columns`
    says: (column, argument of the model). `sets` says which sets the rows are for. What stands in the columns `arena` are offsets.
    """

    function: Any
    block: tuple[int, ...]
    shared: int
    blocks: int
    rows: Array
    sets: Array
    columns: tuple[tuple[int, int], ...]
    arena: tuple[int, ...]


class GpuExecutable(CallableModel):
    """A model on a device; called as `Executable` is. Calls from several threads wait for each other."""

    def __init__(self, artifact: Artifact, driver: Any):
        """`driver` is a `runtime.gpu` driver, which must be able to load the artifact's code (PTX)."""
        super().__init__(artifact.manifest)
        self.driver = driver
        self.plan = GpuPlan.of(artifact.manifest)
        wanted = _CAPABILITY.match(artifact.manifest.target.cpu)
        if wanted and (int(wanted[1]) > driver.sm or (wanted[2] and int(wanted[1]) != driver.sm)):
            which = "and no other" if wanted[2] else "or newer"
            raise ArtifactError(
                f"expected a GPU of compute capability {int(wanted[1]) / 10} {which} for '{artifact.manifest.name}' but '{driver.model}' "
                f"has {driver.sm / 10}: compile it for that (--target cuda:sm_{driver.sm})"
            )
        self._lock = threading.Lock()
        self._memory: _Memory | None = None
        texts = {s for launch in self.plan.launches for s in launch.texts} | {s for s in self.plan.arena if isinstance(s, str)}
        self._numbers = {text: parse_size(text, self.manifest.size_names) for text in texts}
        shared: dict[str, int] = {}
        for launch in self.plan.launches:
            shared[launch.kernel] = max(launch.shared, shared.get(launch.kernel, 0))
        needed = max(shared.values(), default=0)
        if needed > driver.shared_bytes:
            raise ArtifactError(
                f"expected a GPU whose blocks have {needed} bytes of shared memory for '{artifact.manifest.name}' but those of "
                f"'{driver.model}' have {driver.shared_bytes}: compile it for that (--target cuda:sm_{driver.sm})"
            )
        module = driver.load_module(artifact.code)
        self._last: dict[Any, int] | None = None
        self._tables: dict[Any, tuple[tuple[_ManyLaunch, ...], list[Shapes], Array]] = {}
        self._functions = {name: module.function(name, size) for name, size in shared.items()}
        self._constants: dict[int, int] = {}
        for i, c in enumerate(self.manifest.constants):
            data = np.frombuffer(artifact.constants, np.uint8, c.bytes, c.offset)
            self._constants[self._slots["constant", i]] = self._allocate(c.bytes)
            self._upload(self._constants[self._slots["constant", i]], data)
        self._look_slot = self._slots.get(("looks", 0))
        if self._look_slot is not None:
            self._constants[self._look_slot] = self._allocate(24 * len(self.manifest.looks))

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for `inputs`, in fresh arrays, or in those of `out` that are not None; errors as those of `Executable.run`."""
        arrays = self._checked(inputs)
        with self._lock:
            memory = self._remember(tuple(a.shape for a in arrays))
            results = self._targets(memory.output_shapes, out)
            self._take_buffers(memory)
            for array, (slot, _, _) in zip(arrays, self._inputs, strict=True):
                self._upload(memory.buffers[slot], array)
            self._start(memory, memory.buffers)
            self.driver.synchronize()
            self._look()
            for result, (slot, _, _) in zip(results, self._outputs, strict=True):
                whole = result if result.flags.c_contiguous else np.empty(result.shape, result.dtype)
                self._download(memory.buffers[slot], whole)
                if whole is not result:
                    result[...] = whole
        return results


    def run_kept(
        self, arrays: Sequence[Array], copies: DeviceCopies, shapes: Shapes | None = None, result_shapes: Shapes | None = None
    ) -> list[DeviceArray]:
        """The outputs for arrays that nobody writes to any more, of the dtypes of the inputs. What lies on the device already is not copied
        there, and the outputs stay there: the kernels may still be under way when this returns. `shapes` and `result_shapes` are for arrays
        whose elements are taken in other shapes than the arrays have: those of the inputs, and of the arrays returned.
        """
        shapes = tuple(a.shape for a in arrays) if shapes is None else shapes
        self._check_ranges(arrays)
        borrowed: list[tuple[int, int]] = []
        made: list[DeviceArray] = []
        with self._lock, copies.lock:
            memory = copies.with_room(lambda: self._remember(shapes), f"the working memory of '{self.name}'")
            buffers = memory.buffers.copy()
            try:
                for array, (slot, dtype, spec) in zip(arrays, self._inputs, strict=True):
                    if array.dtype != dtype:
                        raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
                    buffers[slot] = copies.address_of(array, borrowed)
                for (slot, dtype, _), shape in zip(self._outputs, result_shapes or memory.output_shapes, strict=True):
                    result = copies.new_array(shape, dtype)
                    buffers[slot] = result.memory.address
                    made.append(result)
                self._start(memory, buffers)
                self._look()
            finally:
                for address, size in borrowed:
                    copies.give_back(address, size)
        return made

    def run_many(
        self,
        sets: Sequence[Sequence[Any]],
        shapes: Sequence[Shapes],
        copies: DeviceCopies,
        into: Sequence[Sequence[DeviceArray | None]] | None = None,
    ) -> list[list[DeviceArray]]:
        """As `run_kept`, of a model for many sets of arguments: the outputs for each of `sets`, whose arrays are taken in these shapes, by
        as many launches as one set needs. Outputs are written where `into` has an array. That may be one of the inputs of that set, for
        kernels in which no thread reads another element of it than it writes; where a later launch reads the input, the output is written
        elsewhere.
        """
        for arrays in sets:
            self._check_ranges(arrays)
        borrowed: list[tuple[int, int]] = []
        made: list[list[DeviceArray]] = []
        with self._lock, copies.lock:
            tables, output_shapes, arenas = self._tables_for(tuple(shapes))
            addresses = np.zeros((len(sets), len(self.manifest.arguments)), np.int64)
            for slot, address in self._constants.items():
                addresses[:, slot] = address
            try:
                if arenas[-1]:
                    arenas = arenas + copies.take(int(arenas[-1]))
                    borrowed.append((int(arenas[0]), int(arenas[-1] - arenas[0])))
                for i, arrays in enumerate(sets):
                    for array, (slot, dtype, spec) in zip(arrays, self._inputs, strict=True):
                        if array.dtype != dtype:
                            raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
                        addresses[i, slot] = copies.address_of(array, borrowed)
                    given = into[i] if into is not None else [None] * len(self._outputs)
                    results = []
                    inputs = {addresses[i, slot]: slot for slot, _, _ in self._inputs}
                    for target, (slot, dtype, _), shape in zip(given, self._outputs, output_shapes[i], strict=True):
                        if target is not None and self._last_launch(inputs.get(target.memory.address)) > self._last_launch(slot):
                            target = None
                        results.append(copies.new_array(shape, dtype) if target is None else target)
                        addresses[i, slot] = results[-1].memory.address
                    made.append(results)
                for table in tables:
                    rows = table.rows.copy()
                    for column, slot in table.columns:
                        rows[:, column] = addresses[table.sets, slot]
                    for column in table.arena:
                        rows[:, column] += arenas[table.sets]
                    self.driver.launch(table.function, (table.blocks,), table.block, (copies.known(rows), len(rows)), table.shared)
            finally:
                for address, size in borrowed:
                    copies.give_back(address, size)
        return made

    def _last_launch(self, slot: int | None) -> int:
        """The last launch that has this argument of the model; -1 where none has it."""
        if self._last is None:
            numbered = enumerate(self.plan.launches)
            self._last = {a.value: i for i, launch in numbered for a in launch.arguments if a.kind == "buffer"}
        return self._last.get(slot, -1)

    def _tables_for(self, shapes: tuple[Shapes, ...]) -> tuple[tuple[_ManyLaunch, ...], list[Shapes], Array]:
        """The launches for sets of arguments of these shapes, the shapes of their outputs, and where the arena of each begins, and the last
        one ends.
        """
        found = self._tables.get(shapes)
        if found is None:
            measured = {each: self._measure(each) for each in dict.fromkeys(shapes)}
            values = [measured[each][0] for each in shapes]
            tables = tuple(table for launch in self.plan.launches if (table := self._table(launch, values)) is not None)
            arenas = np.zeros(len(shapes) + 1, np.int64)
            for i, each in enumerate(values):
                needed = max((self._number(x, each) for x in self.plan.arena), default=0)
                self._check_arena(needed, each)
                arenas[i + 1] = arenas[i] + -(-needed // ALIGNMENT) * ALIGNMENT
            found = tables, [measured[each][1] for each in shapes], arenas
            if len(self._tables) >= MOST_TABLES:
                self._tables.pop(next(iter(self._tables)))
            self._tables[shapes] = found
        return found

    def _table(self, spec: LaunchSpec, values: Sequence[dict[str, int]]) -> _ManyLaunch | None:
        """A launch for sets whose sizes have these values; None where none of them has a block."""
        found = [(i, launch) for i, each in enumerate(values) if (launch := self._launch(spec, 0, each)) is not None]
        if not found:
            return None
        sets, launches = zip(*found, strict=True)
        blocks = [launch.grid[0] for launch in launches]
        rows = np.array([[0, *launch.arguments] for launch in launches], np.int64)
        rows[1:, 0] = np.cumsum(blocks)[:-1]
        first = launches[0]
        columns = tuple((1 + place, number) for place, number in first.places)
        arena = tuple(1 + i for i, a in enumerate(spec.arguments) if a.kind == "arena")
        return _ManyLaunch(first.function, first.block, first.shared, sum(blocks), rows, np.array(sets), columns, arena)

    def timings(self, inputs: Sequence[Any], seconds: float = 0.2, fewest: int = 3) -> list[float]:
        """Milliseconds that calls take on the device, between events before and behind the kernels of each: inputs lie there already and
        results stay there. Calls are made for `seconds`, at least `fewest`, and queued so that the device waits for the host only where
        launching takes longer than the kernels.
        """
        arrays = self._checked(inputs)
        times: list[float] = []
        with self._lock:
            memory = self._remember(tuple(a.shape for a in arrays))
            self._take_buffers(memory)
            for array, (slot, _, _) in zip(arrays, self._inputs, strict=True):
                self._upload(memory.buffers[slot], array)
            end = time.perf_counter() + seconds
            while len(times) < fewest or time.perf_counter() < end:
                marks = [self.driver.event()]
                for _ in range(_QUEUED):
                    self._start(memory, memory.buffers)
                    marks.append(self.driver.event())
                times += [self.driver.elapsed_ms(a, b) for a, b in zip(marks, marks[1:], strict=False)]
        return times

    def _look(self) -> None:
        """Whether the positions that the run computed are those of their axes."""
        if self._look_slot is not None:
            told = np.empty(3 * len(self.manifest.looks), np.int64)
            self._download(self._constants[self._look_slot], told)
            self._check_looks(told)

    def _start(self, memory: _Memory, buffers: Sequence[int]) -> None:
        if self.plan.many:
            self._start_one_set(memory, buffers)
            return
        graph = self._graph(memory, buffers)
        if graph is not None:
            graph.launch()
            return
        for launch in _bound(self.driver, memory, buffers):
            self.driver.launch(*launch)

    def _start_one_set(self, memory: _Memory, buffers: Sequence[int]) -> None:
        launches = list(_bound(self.driver, memory, buffers))
        while len(memory.tables) < len(launches):
            memory.tables.append(self._own(memory, 8 * (1 + len(launches[len(memory.tables)][3]))))
        for (function, grid, block, arguments, shared), table in zip(launches, memory.tables, strict=True):
            self._upload(table, np.array([0, *arguments], np.int64))
            self.driver.launch(function, grid, block, (table, 1), shared)

    def _graph(self, memory: _Memory, buffers: Sequence[int]) -> Any:
        """All launches with these addresses as one; None where the addresses come for the first time, since most never come again."""
        if len(memory.launches) < FEWEST_LAUNCHES or not self.driver.has_graphs:
            return None
        key, graphs = tuple(buffers), memory.graphs
        found = None
        if key in graphs:
            found = graphs.pop(key) or self.driver.graph(list(_bound(self.driver, memory, buffers)))
        elif len(graphs) >= MOST_GRAPHS:
            graphs.pop(next(iter(graphs)))
        graphs[key] = found
        return found

    def release_memory(self) -> None:
        """Give back what the latest call took on the device, except constants; the next call takes it again."""
        with self._lock:
            self._release()

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
            arena = self._own(memory, needed) if needed else 0
            memory.launches = [found for x in self.plan.launches if (found := self._launch(x, arena, values)) is not None]
        except BaseException:
            self._release()
            raise
        return memory

    def _take_buffers(self, memory: _Memory) -> None:
        """Memory for inputs and outputs."""
        if memory.has_buffers:
            return
        specs = [*zip(self._inputs, memory.shapes, strict=True), *zip(self._outputs, memory.output_shapes, strict=True)]
        try:
            for (slot, dtype, _), shape in specs:
                memory.buffers[slot] = self._own(memory, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        except BaseException:
            self._release()
            raise
        memory.has_buffers = True

    def _launch(self, spec: LaunchSpec, arena: int, values: dict[str, int]) -> _Launch | None:
        """The launch with its numbers in place, and where which buffers go; None when there are no blocks."""
        grid = tuple(self._number(x, values) for x in spec.grid)
        if 0 in grid:
            return None
        arguments, places = [], []
        starts = [2 * self._number(m.start, values) for m in spec.maps]
        for i, a in enumerate((*(m.argument for m in spec.maps), *spec.arguments)):
            number = self._number(a.value, values)
            arguments.append(arena + number if a.kind == "arena" else number)
            if a.kind == "buffer":
                places.append((i, number))
        # Of an axis without elements nothing is ever copied, and a map has none.
        maps = tuple(
            TensorMap(
                m.dtype,
                tuple(max(1, self._number(x, values)) for x in m.sizes),
                tuple(self._number(x, values) for x in m.strides),
                m.box,
            )
            for m in spec.maps
        )
        return _Launch(self._functions[spec.kernel], grid, spec.block, arguments, spec.shared, places, list(zip(maps, starts, strict=True)))

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


def _bound(
    driver: Any, memory: _Memory, buffers: Sequence[int]
) -> Iterator[tuple[Any, tuple[int, ...], tuple[int, ...], list[int | bytes], int]]:
    """The launches with addresses in place."""
    for launch in memory.launches:
        bound: list[Any] = launch.arguments.copy()
        for place, number in launch.places:
            bound[place] = buffers[number]
        for i, (map, start) in enumerate(launch.maps):
            bound[i] = driver.tensor_map(map, bound[i] + start)
        yield launch.function, launch.grid, launch.block, bound, launch.shared
