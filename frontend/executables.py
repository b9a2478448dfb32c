"""Executables of modules, kept in memory and on disk, so that equal modules are compiled once per machine.

The key is the module's text, the target, and what the compiler itself is: its version, LLVM's, and its source files as they stand (whoever works on the
compiler never sees code of an older one). A damaged entry is compiled again; a folder that cannot be written is done without.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from importlib.resources import files
from pathlib import Path
from typing import Any

from polyreme import __version__
from polyreme.ir import config
from polyreme.ir.builtin import Module
from polyreme.ir.text import print_module
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.cache import Cache, digest_of
from polyreme.runtime.errors import ArtifactError

__all__ = ["load_module"]

MOST_LOADED = 512

_loaded: OrderedDict[str, Any] = OrderedDict()


def load_module(module: Module, name: str = "model") -> Any:
    """The executable of a module for this machine; the module is left as it is. Equal modules share one."""
    from polyreme.lowering.pipeline import compile_module
    from polyreme.lowering.targets import host

    target = host()
    key = digest_of(print_module(module), name, repr(target), compiler_version())
    found = _loaded.get(key)
    if found is not None:
        _loaded.move_to_end(key)
        return found
    cache = _cache(config.cache_folder())
    artifact = _stored(cache.get(key))
    if artifact is None:
        artifact = compile_module(module, target, name=name).artifact
        cache.put(key, artifact.to_bytes())
    from polyreme.lowering.link import load

    _loaded[key] = load(artifact)
    if len(_loaded) > MOST_LOADED:
        _loaded.popitem(last=False)
    return _loaded[key]


def _stored(data: bytes | None) -> Artifact | None:
    if data is None:
        return None
    try:
        return Artifact.from_bytes(data)
    except ArtifactError:
        # Whole, but written by another version: as good as none.
        return None


@functools.cache
def _cache(folder: Path | None) -> Cache:
    return Cache(folder)


@functools.cache
def compiler_version() -> str:
    """What compiled code depends on besides the module and the target."""
    import llvmlite

    stamps = [__version__, llvmlite.__version__]
    for room in ("ir", "dialects", "lowering", "runtime"):
        folder = Path(str(files(f"polyreme.{room}")))
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".ll", ".lark"):
                stat = file.stat()
                stamps.append(f"{room}/{file.name} {stat.st_size} {stat.st_mtime_ns}")
    return digest_of(*stamps)
