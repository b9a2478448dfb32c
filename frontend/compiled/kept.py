"""Compiled code, kept in memory and on disk: found by a key, or compiled and kept.

Keys are digests of what is compiled, of the machine, and of what the compiler itself is: its version, LLVM's, and its source files as they
stand (whoever works on the compiler never sees code of an older one). A damaged entry is compiled again; a folder that cannot be written is
done without. What is found loads neither the compiler nor LLVM, nor is anything imported here that would.
"""

from __future__ import annotations

import functools
import importlib.util
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from polyreme import __version__
from polyreme.ir import config
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.cache import Cache, cache_in, digest_of
from polyreme.runtime.cpu import processor_text
from polyreme.runtime.draft import Draft
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.manifest import GPU_PLAN
from polyreme.runtime.shared_code import is_shared, load_shared, with_shared_code

if TYPE_CHECKING:
    from polyreme.ir.builtin import Module

__all__ = [
    "compiled_apart", "compiler_version", "done_apart", "keep_artifact", "kept_artifact", "kept_or_given", "load_kept", "load_known",
    "machine_text",
    "package_version", "room",
]  # fmt: skip

MOST_LOADED = 512
# Modules of so many ops are networks; of fewer they are compiled sooner than a process could get ready for it.
NETWORK_OPS = 20

T = TypeVar("T")

_loaded: OrderedDict[str, Any] = OrderedDict()


def load_known(key: str, module: Callable[[], Module], ops: int, name: str, check: Callable[[], None]) -> Any:
    """The executable of a module for this machine's CPU, which is made only where it has to be compiled, and in the process that compiles
    it: what it is follows from `key`. It has so many ops. `check` raises an error if what it was made of is another thing by then; it is
    called before the code is kept.
    """

    def make(keep: bool) -> tuple[Artifact]:
        from polyreme.lowering.machines import targets
        from polyreme.lowering.pipeline import compile_module

        artifact = compile_module(module(), targets.host(), name=name, room=room(keep)).artifact.settled()
        check()
        return (artifact,)

    return load_kept(key, lambda keep: compiled_apart(ops, [key], make, keep)[0])


def load_kept(key: str, make: Callable[[bool], Artifact | None], driver: Any = None) -> Any:
    """The executable under `key`: loaded already, on disk, or of the artifact that `make` compiles; told to keep it under `key`, it gives
    None where it could. `driver` is that of a GPU it is for.
    """
    if config.is_watched():
        from polyreme.lowering.link.artifact import load

        return load(_given(make(False)), driver)
    found = _found(key, driver)
    if found is None:
        artifact = make(True)
        # What was kept may be gone meanwhile, if another process has cleared the folder.
        found = _found(key, driver) if artifact is None else _remembered(key, artifact, driver)
    return found or _remembered(key, _given(make(False)), driver)


def _given(artifact: Artifact | None) -> Artifact:
    assert artifact is not None, "what is not kept is given"
    return artifact


def _found(key: str, driver: Any = None) -> Any:
    """The executable under `key` if it is loaded already, or on disk; else None."""
    found = _loaded.get(key)
    if found is not None:
        _loaded.move_to_end(key)
        return found
    artifact = kept_artifact(key)
    if artifact is None:
        return None
    return _remembered(key, artifact if GPU_PLAN in artifact.manifest.extra else _linked(key, artifact), driver)


def _remembered(key: str, artifact: Artifact, driver: Any) -> Any:
    if is_shared(artifact):
        _loaded[key] = load_shared(artifact, config.threads())
    else:
        from polyreme.lowering.link.artifact import load

        _loaded[key] = load(artifact, driver)
    if len(_loaded) > MOST_LOADED:
        _loaded.popitem(last=False)
    return _loaded[key]


def _cache() -> Cache:
    return cache_in(config.cache_folder(), config.cache_limit())


def kept_artifact(key: str) -> Artifact | None:
    """The artifact that is kept under `key`, as it was compiled, its constants where they are on disk; None if there is none that is whole.
    """
    data = None if config.is_watched() else _cache().mapped(key)
    if data is None:
        return None
    try:
        return Artifact.from_bytes(data)
    except ArtifactError:
        # Damaged, or written by another version: as good as none.
        _cache().remove(key)
        return None


def keep_artifact(key: str, artifact: Artifact) -> bool:
    """Keep an artifact, as it was compiled; whether the folder has taken it."""
    if config.is_watched():
        return False
    return _cache().keep(key, *artifact.parts()) if artifact.draft is None else _cache().keep_draft(key, artifact.draft, artifact.finish)


def room(keep: bool) -> Callable[[int], Draft | None] | None:
    """What gives files of the cache for constants of an artifact that is to be kept."""
    return _cache().draft if keep and not config.is_watched() else None


def _linked(key: str, artifact: Artifact) -> Artifact:
    """The artifact that is kept under `key` with its code linked for this machine: as that is kept, or linked now."""
    code = _cache().get(_linked_key(key))
    return with_shared_code(artifact, code) if code is not None else _link(key, artifact, keep=True)


def _link(key: str, artifact: Artifact, keep: bool) -> Artifact:
    from polyreme.lowering.link.artifact import linked

    made = linked(artifact)
    if keep and is_shared(made):
        _cache().put(_linked_key(key), made.code)
    return made


def _linked_key(key: str) -> str:
    return digest_of("linked", key)


def compiled_apart(
    ops: int, keys: Sequence[str], make: Callable[[bool], tuple[Artifact | None, ...]], keep: bool
) -> tuple[Artifact | None, ...]:
    """The artifacts that `make` compiles of so many ops: of a network in a process of its own, which takes along what the compiler needs of
    memory. Those that were kept under their keys, as they are to be with `keep`, which `make` is told, are None: they need not travel from
    there. Others travel in memory that both processes see.
    """
    here = os.getpid()
    ways = [Way() for _ in keys]

    def work() -> tuple[Artifact | Way | None, ...]:
        made = [None if artifact is None else kept_or_given(key, artifact, keep) for key, artifact in zip(keys, make(keep), strict=True)]
        if os.getpid() == here:
            return tuple(made)
        return tuple(None if artifact is None else way.send(artifact) for way, artifact in zip(ways, made, strict=True))

    try:
        outcome = done_apart(ops, work)
        return tuple(way.receive() if isinstance(artifact, Way) else artifact for way, artifact in zip(ways, outcome, strict=True))
    finally:
        for way in ways:
            way.close()


class Way:
    """How a large artifact comes from a process that this one forks after: in memory without a name, where the system has such."""

    def __init__(self) -> None:
        self._file = os.memfd_create("polyreme-artifact") if hasattr(os, "memfd_create") else -1

    def send(self, artifact: Artifact) -> Artifact | Way:
        """What to give as outcome: this way, or the artifact where there is no such memory."""
        if self._file < 0:
            return artifact
        with os.fdopen(os.dup(self._file), "wb") as file:
            file.writelines(artifact.parts())
        return self

    def receive(self) -> Artifact:
        """What the other process has sent, where it lies."""
        return Artifact.from_bytes(memoryview(mmap.mmap(self._file, 0, prot=mmap.PROT_READ)))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def kept_or_given(key: str, artifact: Artifact, keep: bool) -> Artifact | None:
    """The artifact as it is loaded here; None if it is kept, which it is to be with `keep`."""
    is_kept = keep and keep_artifact(key, artifact)
    loadable = artifact if GPU_PLAN in artifact.manifest.extra else _link(key, artifact, keep)
    return None if is_kept else loadable


def done_apart(ops: int, work: Callable[[], T]) -> T:
    """The outcome of compiling so many ops, which is done in a process of its own if they are a network and nobody watches."""
    if ops < NETWORK_OPS or config.is_watched():
        return work()
    from polyreme.lowering.link.workers import run_in_child

    return run_in_child(work)


def machine_text(driver: Any) -> str:
    """What code depends on of the machine that it runs on, and of settings: a GPU's capability and driver, or this processor, which LLVM is
    only asked about where the system says nothing.
    """
    if driver is not None:
        return f"sm_{driver.sm} PTX {driver.ptx}"
    return f"{processor_text() or _host_text()} {config.code_settings()}"


def _host_text() -> str:
    from polyreme.lowering.machines import targets

    return repr(targets.host())


def compiler_version() -> str:
    """What compiled code depends on besides the module and the target: the compiler, and what the environment asks of it."""
    return digest_of(
        _sources(), f"winograd {config.winograd()} strassen {config.strassen()} terms {config.bf16_terms()} short {config.short_weights()}"
    )


@functools.cache
def package_version() -> str:
    """What a program that is read from a file depends on besides the file: the whole package, readers and the functions that they call
    among it.
    """
    spec = importlib.util.find_spec("polyreme")
    assert spec is not None and spec.submodule_search_locations
    return digest_of(compiler_version(), *_stamps(spec.submodule_search_locations[0]))


@functools.cache
def _sources() -> str:
    """The compiler itself."""
    import llvmlite

    stamps = [__version__, llvmlite.__version__]
    for room in ("ir", "dialects", "lowering", "runtime"):
        spec = importlib.util.find_spec(f"polyreme.{room}")
        assert spec is not None and spec.submodule_search_locations
        stamps += [f"{room}/{stamp}" for stamp in _stamps(spec.submodule_search_locations[0])]
    return digest_of(*stamps)


# The rooms lie below the package where it is installed, and are looked at once.
@functools.cache
def _stamps(folder: str) -> list[str]:
    """Name, size and time of every source file below a folder."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            if entry.is_dir():
                found += [f"{entry.name}/{stamp}" for stamp in _stamps(entry.path)]
            elif entry.name.endswith((".py", ".ll", ".lark")):
                status = entry.stat()
                found.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
    return sorted(found)
