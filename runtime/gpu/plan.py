"""What a model does on a GPU: the launches in order, as data beside its PTX.

The plan stands as JSON in the manifest's `extra`, under `GPU_PLAN`. Sizes are texts over the manifest's sizes, read as all its sizes are,
and every field is checked when the plan is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.manifest import GPU_PLAN, Manifest
from polyreme.runtime.manifest.sizes import parse_size
from polyreme.runtime.ptx.tensor_map import MOST_AXES, MOST_BOX

MAX_LAUNCHES = 100_000
MAX_THREADS = 1024
MAX_MAPS = 32
MAP_TYPES = ("bf16", "f16")
# What the device with the most of it gives a block.
MAX_SHARED_BYTES = 227 << 10


@dataclass(frozen=True)
class Argument:
    """What a kernel is given: argument number `value` of the model ("buffer"), a byte offset into the arena ("arena"), or a number
    ("size").
    """

    kind: str
    value: int | str


@dataclass(frozen=True)
class MapSpec:
    """A tensor map that a kernel is given: the memory that `argument` says (a buffer, or a place in the arena), the element type, which
    element the array starts at, sizes and elements between neighbours along the axes, the first one fastest and without a stride, and the
    box that a copy takes.
    """

    argument: Argument
    dtype: str
    start: int | str
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class LaunchSpec:
    """One launch: the kernel's name in the PTX, blocks, threads per block, its arguments in order, the bytes of shared memory that a block
    gets beside what the kernel says itself, and the tensor maps that stand in front of the arguments.
    """

    kernel: str
    grid: tuple[int | str, ...]
    block: tuple[int, ...]
    arguments: tuple[Argument, ...]
    shared: int = 0
    maps: tuple[MapSpec, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """As they stand in the text; those that are 0 by default only where they are not."""
        found: dict[str, Any] = {"kernel": self.kernel, "grid": list(self.grid), "block": list(self.block)}
        found["arguments"] = [[a.kind, a.value] for a in self.arguments]
        if self.shared:
            found["shared"] = self.shared
        if self.maps:
            found["maps"] = [[m.argument.kind, m.argument.value, m.dtype, m.start, [*m.sizes], [*m.strides], [*m.box]] for m in self.maps]
        return found

    @property
    def texts(self) -> set[str]:
        """The sizes in it that are texts."""
        numbers = [*self.grid, *(a.value for a in self.arguments)]
        for m in self.maps:
            numbers += [m.argument.value, m.start, *m.sizes, *m.strides]
        return {x for x in numbers if isinstance(x, str)}


@dataclass(frozen=True)
class GpuPlan:
    """The launches, and what memory between them takes: the largest of `arena` in bytes.

    Kernels of one for `many` sets of arguments take the address of a table of such sets, and how many there are. A row is the first block
    that is for a set, and the arguments for it; grids have one axis, and each set has an arena of its own.
    """

    launches: tuple[LaunchSpec, ...]
    arena: tuple[int | str, ...]
    many: bool = False

    def to_text(self) -> str:
        data = {"launches": [x.fields for x in self.launches], "arena": list(self.arena), "many": self.many}
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def of(manifest: Manifest) -> GpuPlan:
        """The plan in a manifest; `ArtifactError` names what is missing or wrong."""
        text = manifest.extra.get(GPU_PLAN)
        if text is None:
            raise ArtifactError(f"expected a model for a GPU but '{manifest.name}' has no launches: it is for {manifest.target.triple}")
        try:
            data = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ArtifactError(f"expected the launches of '{manifest.name}' to be JSON but got: {error}") from error
        names, buffers = manifest.size_names, len(manifest.arguments)
        top = _fields(data, ("launches", "arena", "many"), "the launches")
        launches = tuple(_launch(item, i, names, buffers) for i, item in enumerate(_items(top["launches"], "the launches", MAX_LAUNCHES)))
        arena = tuple(_size(x, names, "the arena") for x in _items(top["arena"], "the arena", MAX_LAUNCHES))
        if not isinstance(top["many"], bool):
            raise ArtifactError(f"expected true or false for 'many' but got {top['many']!r:.100}")
        if top["many"] and any(len(launch.grid) > 1 for launch in launches):
            raise ArtifactError("expected launches for many sets of arguments to have grids of one axis")
        if top["many"] and any(launch.maps for launch in launches):
            raise ArtifactError("expected launches for many sets of arguments to have no tensor maps")
        return GpuPlan(launches, arena, top["many"])


def _fields(data: Any, names: tuple[str, ...], what: str, perhaps: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) - set(perhaps) != set(names):
        raise ArtifactError(f"expected {what} to have the fields {', '.join(names)} but got {data!r:.100}")
    return data


def _items(data: Any, what: str, limit: int) -> list[Any]:
    if not isinstance(data, list) or len(data) > limit:
        raise ArtifactError(f"expected {what} to be a list of at most {limit} items but got {data!r:.100}")
    return data


def _size(value: Any, names: Collection[str], what: str) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    if not isinstance(value, str):
        raise ArtifactError(f"expected a size in {what} but got {value!r:.100}")
    try:
        parse_size(value, names)
    except ValueError as error:
        raise ArtifactError(f"in {what}: {error}") from error
    return value


def _launch(data: Any, number: int, names: Collection[str], buffers: int) -> LaunchSpec:
    what = f"launch {number}"
    fields = _fields(data, ("kernel", "grid", "block", "arguments"), what, perhaps=("shared", "maps"))
    kernel = fields["kernel"]
    if not isinstance(kernel, str) or not kernel:
        raise ArtifactError(f"expected the name of a kernel in {what} but got {kernel!r:.100}")
    grid = tuple(_size(x, names, what) for x in _items(fields["grid"], what, 3))
    block = tuple(_items(fields["block"], what, 3))
    threads = 1
    for n in block:
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ArtifactError(f"expected positive numbers of threads in {what} but got {n!r:.100}")
        threads *= n
    if not grid or not block or threads > MAX_THREADS:
        raise ArtifactError(
            f"expected from 1 to 3 axes of blocks, and of at most {MAX_THREADS} threads, in {what} but got {grid} and {block}"
        )
    shared = fields.get("shared", 0)
    if not isinstance(shared, int) or isinstance(shared, bool) or not 0 <= shared <= MAX_SHARED_BYTES:
        raise ArtifactError(f"expected at most {MAX_SHARED_BYTES} bytes of shared memory in {what} but got {shared!r:.100}")
    arguments = tuple(_argument(a, names, buffers, what) for a in _items(fields["arguments"], what, MAX_LAUNCHES))
    maps = tuple(_map(m, names, buffers, what) for m in _items(fields.get("maps", []), what, MAX_MAPS))
    return LaunchSpec(kernel, grid, block, arguments, shared, maps)


def _map(data: Any, names: Collection[str], buffers: int, launch: str) -> MapSpec:
    what = f"a tensor map of {launch}"
    if not isinstance(data, list) or len(data) != 7:
        raise ArtifactError(f"expected a kind, a value, an element type, a start, sizes, strides and a box as {what} but got {data!r:.100}")
    argument = _argument(data[:2], names, buffers, what)
    if argument.kind == "size":
        raise ArtifactError(f"expected memory (buffer, arena) for {what} but got {data[:2]!r:.100}")
    if data[2] not in MAP_TYPES:
        raise ArtifactError(f"expected {' or '.join(MAP_TYPES)} as the element type of {what} but got {data[2]!r:.100}")
    sizes, strides = (tuple(_size(x, names, what) for x in _items(part, what, MOST_AXES)) for part in data[4:6])
    box = tuple(_items(data[6], what, MOST_AXES))
    if not 2 <= len(sizes) == len(strides) + 1 == len(box):
        raise ArtifactError(f"expected from 2 to {MOST_AXES} axes, each with a size, a stride (but the first) and a box, in {what}")
    for n in box:
        if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_BOX:
            raise ArtifactError(f"expected boxes of 1 to {MOST_BOX} elements along an axis in {what} but got {n!r:.100}")
    return MapSpec(argument, data[2], _size(data[3], names, what), sizes, strides, box)


def _argument(data: Any, names: Collection[str], buffers: int, what: str) -> Argument:
    if not isinstance(data, list) or len(data) != 2 or data[0] not in ("buffer", "arena", "size"):
        raise ArtifactError(f"expected a kind (buffer, arena, size) and a value as an argument of {what} but got {data!r:.100}")
    kind, value = data[0], _size(data[1], names, what)
    if kind == "buffer" and not (isinstance(value, int) and value < buffers):
        raise ArtifactError(f"expected the number of one of {buffers} buffers in {what} but got {value!r:.100}")
    return Argument(kind, value)
