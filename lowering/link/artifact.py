"""Linking: a kernel-level module, its constants and the runtime's native parts become one artifact, in memory or in a library.

`build_artifact` makes the artifact, `load` runs it in this process, `write_library` makes `NAME.so` and `NAME.h`, or for
WebAssembly `NAME.wasm` and `NAME.mjs`, and `NAME.weights` for constants that are too many for the library itself.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from string import Template
from typing import Any, TypeVar

import numpy as np

from polyreme.ir import config
from polyreme.ir.attributes import Dense
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.python.records import dataclass
from polyreme.ir.timing import timed
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.codegen import assemble
from polyreme.lowering.link.c_interface import Digests, Weights, c_header, c_interface, c_name_of, check_c_name, digests_text
from polyreme.lowering.link.c_parts import interfaces_in_parts
from polyreme.lowering.link.cpp_header import cpp_header
from polyreme.lowering.link.gpu import build_gpu_artifact
from polyreme.lowering.link.manifest import make_manifest
from polyreme.lowering.link.objects import EarlyObjects, kept_object, make_objects
from polyreme.lowering.link.relocatable import archive, link_object, own_names
from polyreme.lowering.link.runtime import (
    ALIGNMENT,
    CONSTANTS_AT,
    GPU_PLAN,
    MODEL_FUNCTIONS,
    PARALLEL_FUNCTIONS,
    POOL_FUNCTIONS,
    WEIGHTS_HEADER,
    Artifact,
    Draft,
    Executable,
    GpuExecutable,
    GuardSpec,
    LaterPiece,
    LookSpec,
    Manifest,
    ModelFunctions,
    Pieces,
    Pool,
    PoolFunctions,
    RangeSpec,
    address_of,
    check_runs_here,
    constants_of,
    gpu_driver,
    is_device,
    is_shared,
    library_bytes,
    load_shared,
    native_text,
    process_pool,
    weights_header,
    weights_sum,
    with_shared_code,
    write_atomically,
)
from polyreme.lowering.link.shared_library import link_shared
from polyreme.lowering.link.wasm import exported, link_module, loader_text, memory_text
from polyreme.lowering.link.wasm_math import math_text
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS
from polyreme.lowering.machines.linux import FUTEX
from polyreme.lowering.machines.targets import TARGETS, GpuTarget, Target, find_target, host
from polyreme.lowering.schedule.arena import plan_memory

Array = np.ndarray[Any, Any]

# What a library can be written as, and the suffix that says so.
FORMS = {"shared": ".so", "static": ".a", "object": ".o", "wasm": ".wasm"}

MODEL = "polyreme_model"

# Up to so many bytes of constants go into the library itself; more go to a file, which is mapped on demand.
MAX_INSIDE_BYTES = 8 << 20

Spec = TypeVar("Spec", GuardSpec, RangeSpec, LookSpec)

# Gives a file for at least so many bytes, or None.
Room = Callable[[int], Draft | None]


def build_artifact(
    module: Module | Program,
    target: Target,
    name: str = "model",
    constants: Mapping[str, Array | Dense] | None = None,
    extra: Mapping[str, str] | None = None,
    room: Room | None = None,
    early: EarlyObjects | None = None,
    part: str = "",
    library: LibraryCode | None = None,
) -> Artifact:
    """Machine code, constants and manifest of a module at kernel level.

    `constants` gives the data of `main`'s arguments by name: of every argument of role "constant", and of those of other roles that are to
    be fixed. The rest are inputs of the model, in order. Buffers of `main` without an offset in the arena get one. `extra` goes into the
    manifest. `room` gives a file for constants, which are made and written there by all processes that make the code; without one they are
    made when somebody asks for them. `early` was told of the kernels as they were planned. `part` tells the names of its functions from
    those of others in one library. The code of the `library` that the artifact is for is made beside the kernels.
    """
    if isinstance(target, GpuTarget):
        return build_gpu_artifact(module, target, name, constants or {})
    main = module.function("main")
    with timed("plan-memory"):
        plan_memory(main)
    manifest, data = make_manifest(main, target, name, constants or {})
    draft = room(CONSTANTS_AT + len(data)) if room is not None and len(data) >= COMPILE_COSTS.work_bytes else None
    works: list[tuple[float, Callable[[], bool | bytes]]] = [*_writing(data, draft)]
    sources = library.interface_sources(manifest, len(data)) if library is not None else []
    works += [(len(text) / COMPILE_COSTS.letters_of_op, partial(native_object, text, machine)) for text, machine in sources]
    objects, outcomes = make_objects(module, target, f"polyreme_{part}" if part else MODEL, works, early, part)
    keep_natives(dict(zip(sources, [made for made in outcomes if isinstance(made, bytes)], strict=True)))
    if early is not None:
        keep_natives(early.natives_made)
    manifest = replace(manifest, extra={**manifest.extra, **(extra or {})}, objects=tuple(map(len, objects)))
    artifact = Artifact(manifest, b"".join(objects), data)
    if draft is None or not all(outcomes):
        return artifact
    return replace(artifact, pieces=draft.mapped()[CONSTANTS_AT:], draft=draft)


def _writing(data: Pieces, draft: Draft | None) -> list[tuple[float, Callable[[], bool]]]:
    """What writes the constants to their places in a file, each with as how many ops it counts; whether they were taken is the outcome.
    Small ones are written together.
    """
    if draft is None:
        return []
    works: list[tuple[float, Callable[[], bool]]] = []
    group: list[tuple[int, LaterPiece]] = []
    at, count = CONSTANTS_AT, 0
    for part in data.parts:
        # The rest are zeros, as is whatever nobody writes.
        if isinstance(part, LaterPiece):
            group.append((at, part))
            count += len(part)
        at += len(part)
        if count >= COMPILE_COSTS.work_bytes or (group and part is data.parts[-1]):
            works.append((count / COMPILE_COSTS.bytes_of_op, partial(_written, draft, tuple(group))))
            group, count = [], 0
    return works


def _written(draft: Draft, parts: Sequence[tuple[int, LaterPiece]]) -> bool:
    try:
        for at, part in parts:
            for made in part.make():
                draft.write(at, made)
                at += len(made)
    except OSError:
        # A full disk, say. Whoever keeps the artifact will see it, too, and say so.
        return False
    return True


# --- in this process


def load(artifact: Artifact, driver: Any = None) -> Executable | GpuExecutable:
    """The artifact as code in this process, on the process's thread pool; one for a GPU on `driver`, by default this machine's GPU."""
    if GPU_PLAN in artifact.manifest.extra:
        return GpuExecutable(artifact, driver or gpu_driver())
    if is_shared(artifact):
        return load_shared(artifact, config.threads())
    what = f"the artifact '{artifact.name}'"
    check_runs_here(artifact.manifest.target, what)
    pool = _process_pool()
    pool_code = _native_pool()
    library = _load_objects(
        artifact.objects, MODEL_FUNCTIONS, {name: pool_code[name] for name in (*PARALLEL_FUNCTIONS, "polyreme_pool_threads")}
    )
    constants = constants_of(artifact)
    functions = ModelFunctions(*(library[f] for f in MODEL_FUNCTIONS))
    return Executable(artifact.manifest, functions, address_of(constants), pool, (library, constants))


def linked(artifact: Artifact) -> Artifact:
    """The artifact with its code as a shared object, which loads faster and without LLVM; as it was where the machine has no linker."""
    target = _target_of(artifact.manifest)
    objects = {f"model{i}.o": code for i, code in enumerate(artifact.objects)} | {
        "pool.o": kept_object(_native_text(pool_text(target), target), target)
    }
    try:
        with timed("link"):
            code = link_shared(objects, [*MODEL_FUNCTIONS, *POOL_FUNCTIONS], "model.so", target, patient=False)
    except PolyremeError:
        return artifact
    return with_shared_code(artifact, code)


def _process_pool() -> Pool:
    def functions() -> tuple[PoolFunctions, object]:
        library = _native_pool()
        return PoolFunctions(*(library[f] for f in POOL_FUNCTIONS)), library

    return process_pool(functions, config.threads())


@functools.cache
def _native_pool() -> Any:
    """The pool's code in this process."""
    return _load_objects([native_object(pool_text(host()), host())], (*PARALLEL_FUNCTIONS, *POOL_FUNCTIONS), {})


@functools.cache
def _jit() -> Any:
    """The loader of object code: LLVM's, with nothing left to compile."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(host().triple).create_target_machine(reloc="pic", codemodel="default", jit=True)
    # JITLink lays the pieces of an object side by side; the older linker asks for memory piece by piece, and where a process has gigabytes
    # mapped they come to lie further apart than instructions reach.
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


_loaded = 0


def _load_objects(objects: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]) -> Any:
    """Object files in memory: a mapping from the names in `exports` to addresses. Their code lives as long as the result."""
    import llvmlite.binding as llvm

    global _loaded
    _loaded += 1
    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    builder.add_current_process()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    return builder.link(_jit(), f"polyreme-{_loaded}")


# --- as a library


@dataclass(frozen=True)
class LibraryCode:
    """What a library has beside its kernels, as far as it is known before they are made: the functions called `name_…` for a model of a
    `form`, whose constants are where `weights` says.
    """

    path: Path
    target: Target
    name: str
    weights: str
    form: str
    folders: bool

    @staticmethod
    def of(
        path: Path, target: Target, name: str | None = None, weights: str = "auto", form: str | None = None, folders: bool = False
    ) -> LibraryCode:
        """Of what `write_library` is given."""
        name = check_c_name(name) if name is not None else c_name_of(path.name.split(".")[0])
        if weights not in ("auto", "inside", "beside"):
            raise PolyremeError(f"expected 'auto', 'inside' or 'beside' as the place of the weights but got '{weights}'", code="E0004")
        return LibraryCode(path, target, name, weights, check_form(path, target, form), folders)

    @cached_property
    def system(self) -> dict[str, str]:
        """What stands between the code and the system, by the name of its object file: on Linux the pool, in WebAssembly all that there
        is.
        """
        if self.target.arch == "wasm32":
            return {"system.o": native_text("wasm/system.ll"), "math.o": math_text(), "memory.o": memory_text(self.name)}
        return {"pool.o": pool_text(self.target)}

    def weights_of(self, count: int) -> Weights:
        """Where so many bytes of constants are."""
        if not count or self.weights == "inside" or (self.weights == "auto" and count <= MAX_INSIDE_BYTES):
            return Weights(bytes=count)
        return Weights(self.path.with_suffix(".weights").name, WEIGHTS_HEADER.size + count, count)

    def interface_sources(self, manifest: Manifest, count: int) -> list[tuple[str, Target]]:
        """The text of the C interface, and for which machine code is made of it, for so many bytes of constants."""
        named = replace(without_folders(manifest, self.folders), name=self.name)
        return [(text, base_of(self.target)) for text in interfaces(named, self.name, self.weights_of(count)).values()]

    def system_works(self) -> dict[tuple[str, Target], Callable[[], bytes]]:
        """The same for what stands between the code and the system, each with what makes its object."""
        return {(text, self.target): partial(native_object, text, self.target) for text in self.system.values()}


def write_library(
    artifact: Artifact,
    path: str | os.PathLike[str],
    name: str | None = None,
    weights: str = "auto",
    target: Target | None = None,
    form: str | None = None,
    folders: bool = False,
    cpp: bool = False,
) -> list[Path]:
    """Write the library to `path`, its header beside it (suffix `.h`; of a module of WebAssembly the loader, `.mjs`), and return the paths
    of all files written.

    `name` starts the names of the C functions; it is made from the file's name when not given. `weights`: "inside" keeps the constants in
    the library, "beside" puts them into a file of suffix `.weights`, "auto" does the latter from 8 MiB on. `form` is one of `FORMS`, by
    default the one of the file's suffix. Places in the model's source are told by file name alone, unless `folders` are wanted. `cpp`
    adds a header for C++ (`.hpp`).
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise PolyremeError(f"expected a folder '{path.parent}' to write '{path.name}' to, but there is none", code="E0009")
    target = target or _target_of(artifact.manifest)
    library = LibraryCode.of(path, target, name, weights, form, folders)
    name, form = library.name, library.form
    place = library.weights_of(len(artifact.pieces))
    digests = Digests(b"", sum=weights_sum(artifact.constants))
    extra = dict(artifact.manifest.extra)
    if place.file:
        digests = replace(digests, header=weights_header(artifact.constants))
        extra |= {"weights": place.file, "weights_digest": digests.header[16:48].hex()}
    manifest = replace(without_folders(artifact.manifest, folders), name=name, extra=extra)
    digests = replace(digests, identity=identity_of(manifest, artifact))
    texts = interfaces(manifest, name, place)
    objects = {
        **{f"model{i}.o": code for i, code in enumerate(artifact.objects)},
        # It looks at the processor before anything else runs, and so takes no more than all of them have.
        **{file: native_object(text, base_of(target)) for file, text in texts.items()},
        "digests.o": native_object(digests_text(name, digests), base_of(target)),
        **{file: native_object(text, target) for file, text in library.system.items()},
    }
    if manifest.all_constants and not place.file:
        # Constants without elements have an address all the same.
        objects["constants.o"] = native_object(constants_text(artifact.constants or bytes(1)), target)
    if form == "shared":
        exports = [f"{name}_*", "polyreme_library", *(["polyreme_parts"] if manifest.steps else [])]
        code = library_bytes(link_shared(objects, exports, path.name, target), manifest, digests.identity)
    elif form == "wasm":
        functions = exported(name, [*texts.values(), *library.system.values()])
        code = library_bytes(link_module(objects, functions, target), manifest, digests.identity)
    else:
        code = archive(own_names(objects, name)) if form == "static" else link_object(own_names(objects, name))
    written: dict[Path, Sequence[bytes | memoryview]] = {}
    if place.file:
        written[path.with_name(place.file)] = [digests.header, artifact.constants]
    written[path] = [code]
    if form == "wasm":
        written[path.with_suffix(".mjs")] = [loader_text(name, path.name, place.file).encode()]
    else:
        written |= headers(path, manifest, name, place, form, cpp)
    return write_files(path, written)


def headers(path: Path, manifest: Manifest, name: str, place: Weights, form: str, cpp: bool) -> dict[Path, Sequence[bytes | memoryview]]:
    """The header of a library, and with `cpp` the one for C++, by their paths."""
    header = path.with_suffix(".h")
    found: dict[Path, Sequence[bytes | memoryview]] = {header: [c_header(manifest, name, place, form).encode()]}
    if cpp:
        found[path.with_suffix(".hpp")] = [cpp_header(manifest, name, header.name, bool(place.file)).encode()]
    return found


def write_files(path: Path, written: Mapping[Path, Sequence[bytes | memoryview]]) -> list[Path]:
    """Write the library to `path` and what belongs to it; a device takes the library alone. All paths, the library's first."""
    if is_device(path):
        written = {path: written[path]}
    for file, parts in written.items():
        try:
            write_atomically(file, *parts, mode=0o777 if file == path else 0o666)
        except OSError as error:
            raise PolyremeError(f"cannot write '{file}': {error.strerror or error}", code="E0009") from error
    return [path, *(file for file in written if file != path)]


def check_form(path: Path, target: Target, form: str | None = None) -> str:
    """The form of a library by its file's suffix, which has to be that of `form` if one is given; an error where the target has none."""
    if form is not None and form not in FORMS:
        raise PolyremeError(f"expected a form of library ({', '.join(FORMS)}) but got '{form}'{did_you_mean(form, FORMS)}", code="E0004")
    usual = "wasm" if target.arch == "wasm32" else "shared"
    found = (form or usual) if is_device(path) else {suffix: known for known, suffix in FORMS.items()}.get(path.suffix)
    if found is None or (form is not None and found != form):
        wanted = FORMS[form] if form is not None else ", ".join(f"{suffix} ({known})" for known, suffix in FORMS.items())
        hint = "; an artifact for a GPU has a target such as 'cuda:sm_80'" if path.suffix == ".cubin" else ""
        raise PolyremeError(f"expected a file of suffix {wanted} for a library but got '{path.name}'{hint}", code="E0004")
    if (found == "wasm") != (target.arch == "wasm32"):
        raise PolyremeError(
            f"expected a module of WebAssembly (.wasm) for the target wasm32, and only for it, but got '{path.name}' for {target.triple}",
            code="E0008",
        )
    return found


def base_of(target: Target) -> Target:
    """The least machine of the target's architecture."""
    base = TARGETS.get(target.arch.replace("_", "-"))
    return replace(base, triple=target.triple) if base is not None else target


def without_folders(manifest: Manifest, folders: bool = False) -> Manifest:
    """The manifest, and those of its parts, with places told by file name alone, unless `folders` are wanted."""
    if folders:
        return manifest
    guards, ranges = tuple(map(_without_folder, manifest.guards)), tuple(map(_without_folder, manifest.ranges))
    looks = tuple(map(_without_folder, manifest.looks))
    return replace(manifest, guards=guards, ranges=ranges, looks=looks, parts=tuple(map(without_folders, manifest.parts)))


def _without_folder(spec: Spec) -> Spec:
    """The guard or range with the file of its place, not the folder that the file was in."""
    # A place that has no line is no file's: a Layer path of a loaded model.
    found = re.fullmatch(r"(.* \(\S+ at ).*[/\\]([^/\\]+:\d+(?::\d+)?\).*)", spec.what)
    return spec if found is None else spec._replace(what=found[1] + found[2])


def interfaces(manifest: Manifest, name: str, weights: Weights) -> dict[str, str]:
    """The text of the C interface by the name of its object file."""
    if manifest.steps:
        return interfaces_in_parts(manifest, name, weights)
    return {"interface.o": c_interface(manifest, name, weights)}


def identity_of(manifest: Manifest, artifact: Artifact) -> bytes:
    """Tells a library from others: of all that it is made of."""
    digest = hashlib.blake2b(manifest.to_bytes(), digest_size=32)
    digest.update(artifact.code)
    # The digest of weights in a file of their own is in the manifest.
    if "weights_digest" not in manifest.extra:
        digest.update(artifact.constants)
    return digest.digest()


def _target_of(manifest: Manifest) -> Target:
    found = manifest.target
    return find_target(found.triple, found.cpu, found.features)


def constants_text(data: bytes | memoryview) -> str:
    # `hex` puts the backslash between the bytes; the first byte gets its own.
    return f'@polyreme_constants = hidden constant [{len(data)} x i8] c"\\{data.hex(chr(92), 1)}", align {ALIGNMENT}\n'


# --- the runtime's native parts

# The instruction that eases a spin loop: its declaration and its use. The base set of riscv64 has none; a fence takes its time too.
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "riscv64": ("", "fence seq_cst"),
}


def pool_text(target: Target) -> str:
    """LLVM IR of the thread pool for a target."""
    if target.arch not in _PAUSES or "linux" not in target.triple:
        raise PolyremeError(f"expected a Linux target ({', '.join(_PAUSES)}) for a library but got {target.triple}", code="E0008")
    declaration, call = _PAUSES[target.arch]
    pause = f"{declaration}\ndefine internal void @pause() alwaysinline nounwind {{\n  {call}\n  ret void\n}}"
    text = "\n".join(native_text(name) for name in ("pool.ll", "rounds.ll"))
    return Template(text).substitute(futex=FUTEX[target.arch], pause=pause)


NATIVES: dict[tuple[str, Target], bytes] = {}


def native_object(text: str, target: Target) -> bytes:
    """Object code of LLVM IR text that lacks triple and layout. The last ones are kept."""
    found = NATIVES.get((text, target))
    if found is None:
        found = assemble(_native_text(text, target), target)
        keep_natives({(text, target): found})
    return found


def keep_natives(made: Mapping[tuple[str, Target], bytes]) -> None:
    """Objects that `native_object` need not make."""
    NATIVES.update(made)
    for old in list(NATIVES)[:-COMPILE_COSTS.natives]:
        del NATIVES[old]


def _native_text(text: str, target: Target) -> str:
    return f'target datalayout = "{target.layout}"\ntarget triple = "{target.triple}"\n{text}'
