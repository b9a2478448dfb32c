"""Compiled libraries: opens what `lowering/link/artifact.py` wrote, with ctypes and numpy alone.

Behind the linked code stands a trailer: the manifest and a digest of everything before it. It is checked before the loader touches the
file, because a damaged library would end the process. Weights that are too large for the library stand in a file beside it and are mapped.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polyreme.runtime.calling import CallableModel
from polyreme.runtime.cpu import check_runs_here
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.executable import Executable, ModelFunctions
from polyreme.runtime.files import in_parts
from polyreme.runtime.manifest.manifest import GPU_HOST, GPU_PLAN, Manifest
from polyreme.runtime.manifest.specs import MAX_MANIFEST_BYTES, TargetSpec
from polyreme.runtime.memory import address_of, near_constants
from polyreme.runtime.schedule import Schedule, schedule_of_parts
from polyreme.runtime.shared_code import load_code
from polyreme.runtime.threads import PoolFunctions, library_pool
from polyreme.runtime.wasm.module import NodeModule, is_module

FORMAT = 1
MAGIC = b"polyreme-library"
# Magic, format, zero, bytes of the manifest, identity, digest of all bytes before the digest. Stands at the very end.
TRAILER = struct.Struct("<16sIIQ32s32s")

WASM_MAGIC = b"\0asm"

WEIGHTS_MAGIC = b"polyreme-weights"
# Magic, digest of the weights, their bytes, zero.
WEIGHTS_HEADER = struct.Struct("<16s32sQ8s")


# The table of a library, and that of one in parts: the three functions of each. Those of a level of several have its name in front.
TABLE, PARTS = "polyreme_library", "polyreme_parts"


class _Table(ctypes.Structure):
    """`polyreme_library`, as `lowering/link/c_interface.py` lays it out."""

    _fields_ = [("format", ctypes.c_int64)] + [
        (name, ctypes.c_void_p)
        for name in (
            "identity",
            "run",
            "arena_bytes",
            "output_shapes",
            "constants",
            "pool_create",
            "pool_destroy",
            "pool_threads",
            "pool_set_threads",
        )
    ]


class LibraryFile(NamedTuple):
    """What the trailer of a library says; `table` is the name of what a loader needs of it."""

    manifest: Manifest
    identity: bytes
    table: str = TABLE


# Where `extra` of a manifest has what differs by the level of the processor, if the library has several.
LEVELS_KEY = "levels"


def weights_header(weights: bytes | memoryview) -> bytes:
    """The 64 bytes in front of the weights in a file of their own."""
    digest = hashlib.blake2b(digest_size=32)
    for part in in_parts(weights):
        digest.update(part)
    return WEIGHTS_HEADER.pack(WEIGHTS_MAGIC, digest.digest(), len(weights), bytes(8))


def library_bytes(linked: bytes, manifest: Manifest, identity: bytes) -> bytes:
    """A linked library, or module of WebAssembly, with its trailer: in a module, a section of its own that engines pass over."""
    text = manifest.to_bytes()
    section = _section_head(len(text) + TRAILER.size) if linked.startswith(WASM_MAGIC) else b""
    head = linked + section + text + TRAILER.pack(MAGIC, FORMAT, 0, len(text), identity, bytes(32))[:-32]
    return head + hashlib.blake2b(head, digest_size=32).digest()


def _section_head(count: int) -> bytes:
    """What stands before so many bytes in a custom section of WebAssembly."""
    name = b"polyreme"
    size, number = count + 1 + len(name), bytearray()
    while size >= 128:
        number.append(size & 127 | 128)
        size >>= 7
    return bytes([0, *number, size, len(name)]) + name


def read_library(path: str | os.PathLike[str]) -> LibraryFile:
    """Check a library's file and read its manifest; nothing of it is run. `ArtifactError` when it is not whole or not ours."""
    name = os.fspath(path)
    data = Path(path).read_bytes()
    if len(data) < TRAILER.size or data[-TRAILER.size :][:16] != MAGIC:
        raise ArtifactError(
            f"{name}: expected a library written by polyreme, but its last bytes are missing or damaged (`strip` removes them: leave "
            "libraries as they were written)"
        )
    _, version, zero, manifest_bytes, identity, digest = TRAILER.unpack(data[-TRAILER.size :])
    if version != FORMAT or zero:
        raise ArtifactError(
            f"{name}: expected a library of format {FORMAT} but got format {version}: compile the model again", code="E0802"
        )
    if manifest_bytes > min(MAX_MANIFEST_BYTES, len(data) - TRAILER.size):
        raise ArtifactError(
            f"{name}: expected a manifest of at most {len(data) - TRAILER.size} bytes but got {manifest_bytes}: the file is damaged"
        )
    if hashlib.blake2b(memoryview(data)[:-32], digest_size=32).digest() != digest:
        raise ArtifactError(f"{name}: expected content that matches its checksum: the file is damaged")
    start = len(data) - TRAILER.size - manifest_bytes
    try:
        return LibraryFile(Manifest.from_bytes(data[start : start + manifest_bytes]), identity)
    except ArtifactError as error:
        raise ArtifactError(f"{name}: {error.message}", error.code) from error


def _for_this_processor(found: LibraryFile, name: str) -> LibraryFile:
    """Of a library for several levels of processors, the best that runs here."""
    told = found.manifest.extra.get(LEVELS_KEY)
    if told is None:
        check_runs_here(found.manifest.target, name)
        return found
    try:
        levels = [LibraryFile(Manifest.from_json(v["manifest"]), bytes.fromhex(v["identity"]), str(v["table"])) for v in json.loads(told)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{name}: expected the levels of processors of a library but its trailer is damaged: {error}") from error
    for level in reversed(levels):
        try:
            check_runs_here(level.manifest.target, name)
        except ArtifactError:
            if level is levels[0]:
                raise
        else:
            return level
    raise ArtifactError(f"{name}: expected levels of processors but the library has none")


def load_compiled(
    path: str | os.PathLike[str], threads: int | None = None, device: int = 0, gpu: Any = None
) -> Executable | Schedule | NodeModule | CallableModel:
    """Open a compiled library, ready to be called with arrays; one in parts, since sizes of its results are known after the run, as a
    schedule of these; a module of WebAssembly as one that runs in Node; one for a GPU on the GPU of number `device`, or on the driver `gpu`
    if one is given.

    `threads` works as in `set_num_threads`; None follows that function. A missing file is a `FileNotFoundError`; a damaged one, one without
    its weights, or one for another machine is an `ArtifactError`.
    """
    path = Path(path)
    found = read_library(path)
    if is_module(found.manifest):
        return NodeModule(path, found.manifest)
    if GPU_PLAN in found.manifest.extra:
        return _load_for_gpu(path, found, device, gpu)
    found = _for_this_processor(found, os.fspath(path))
    library, table = _open(path.absolute(), found)
    keep: list[Any] = [library]
    constants = near_constants(_constants(path, found.manifest, table))
    keep.append(constants)
    functions = PoolFunctions(table.pool_create, table.pool_destroy, table.pool_threads, table.pool_set_threads)
    pool = library_pool(functions, threads, library)
    if not found.manifest.steps:
        functions_of_model = ModelFunctions(table.run, table.arena_bytes, table.output_shapes)
        return Executable(found.manifest, functions_of_model, address_of(constants), pool, keep)
    addresses = (ctypes.c_void_p * (3 * len(found.manifest.parts))).in_dll(library, found.table.removesuffix(TABLE) + PARTS)
    parts = []
    for i, part in enumerate(found.manifest.parts):
        run, arena_bytes, output_shapes = (at or 0 for at in addresses[3 * i : 3 * i + 3])
        model = replace(part, name=found.manifest.name)
        parts.append(Executable(model, ModelFunctions(run, arena_bytes, output_shapes), address_of(constants), pool, keep))
    return schedule_of_parts(found.manifest, parts)


def _constants(path: Path, manifest: Manifest, table: _Table) -> np.ndarray[Any, Any]:
    """The constants: of the file beside the library, or in it."""
    weights_file = manifest.extra.get("weights")
    if weights_file:
        return map_weights(path.parent / weights_file, manifest)
    constants_at, count = table.constants or 0, manifest.constant_bytes
    if manifest.all_constants and not constants_at:
        raise ArtifactError(f"{path}: expected constants in the library but got none")
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(constants_at)) if count else np.empty(0, np.uint8)


def _load_for_gpu(path: Path, found: LibraryFile, device: int, gpu: Any) -> CallableModel:
    from polyreme.runtime.gpu.executable import GpuExecutable
    from polyreme.runtime.gpu.library import GpuLibrary, artifacts_in

    check_runs_here(host_of(found.manifest), os.fspath(path))
    library, table = _open(path.absolute(), found)
    constants = _constants(path, found.manifest, table)
    if gpu is not None:
        made = [GpuExecutable(artifact, gpu) for artifact in artifacts_in(library, found.manifest, constants)]
        return schedule_of_parts(found.manifest, made) if found.manifest.steps else made[0]
    weights_file = found.manifest.extra.get("weights")
    return GpuLibrary(library, found.manifest, path.parent / weights_file if weights_file else None, device)


def host_of(manifest: Manifest) -> TargetSpec:
    """The machine that a library's own code is for: of one for a GPU the least of an architecture."""
    return TargetSpec(manifest.extra[GPU_HOST]) if GPU_HOST in manifest.extra else manifest.target


def _open(path: Path, found: LibraryFile) -> tuple[ctypes.CDLL, _Table]:
    """The library in memory, and its table.

    The system's loader goes by name: when a library of this name is loaded already, it returns that one, even if the file has changed
    since. Its identity tells, or that it has no such table; then a copy under another name is loaded.
    """
    try:
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise ArtifactError(f"{path}: the system cannot load it: {error}") from error
    with suppress(ArtifactError):
        table = _table_of(library, path, found.table)
        if ctypes.string_at(table.identity, len(found.identity)) == found.identity:
            return library, table
    library = load_code(path.read_bytes(), os.fspath(path))
    table = _table_of(library, path, found.table)
    if ctypes.string_at(table.identity, len(found.identity)) != found.identity:
        raise ArtifactError(f"{path}: expected code that belongs to the manifest but got other code")
    return library, table


def _table_of(library: ctypes.CDLL, path: Path, name: str) -> _Table:
    try:
        table = _Table.in_dll(library, name)
    except ValueError as error:
        raise ArtifactError(f"{path}: the system cannot load it: {error}") from error
    if table.format != FORMAT:
        raise ArtifactError(
            f"{path}: expected a library of format {FORMAT} but got format {table.format}: compile the model again", code="E0802"
        )
    return table


def map_weights(path: Path, manifest: Manifest) -> np.ndarray[Any, Any]:
    """The bytes of the weights in a file of their own, mapped into memory and checked against the manifest."""
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path}: expected the weights of '{manifest.name}' here, but there is no such file") from error
    except ValueError as error:
        # The file is empty, which cannot be mapped.
        raise ArtifactError(f"{path}: expected the weights of '{manifest.name}' but got an empty file") from error
    weights = np.frombuffer(mapped, np.uint8)[WEIGHTS_HEADER.size :]
    wanted = manifest.extra.get("weights_digest", "")
    if (
        mapped[: WEIGHTS_HEADER.size] != weights_header(memoryview(mapped)[WEIGHTS_HEADER.size :])
        or mapped[16:48].hex() != wanted
        or len(weights) < manifest.constant_bytes
    ):
        raise ArtifactError(
            f"{path}: expected the weights that were written with '{manifest.name}': the file is damaged or belongs to another library"
        )
    return weights
