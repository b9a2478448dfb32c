"""Code that a process keeps for itself: an artifact whose object files are linked into a shared object, loaded without LLVM.

The shared object has the model's functions and a copy of the thread pool's. All models of a process wait in one pool, that of the first one
loaded: a copy is as good as another, since the pool keeps all it knows in memory of its own.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import tempfile
import weakref
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from polyreme.runtime.artifact import Artifact
from polyreme.runtime.cpu import check_runs_here
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.executable import Executable, ModelFunctions
from polyreme.runtime.memory import address_of, near_constants
from polyreme.runtime.threads import PoolFunctions, process_pool

__all__ = [
    "MODEL_FUNCTIONS", "PARALLEL_FUNCTIONS", "POOL_FUNCTIONS", "constants_of", "is_shared", "load_code", "load_shared", "with_shared_code",
]  # fmt: skip

# The native functions have the same names in every model: they are never visible outside of it.
MODEL_FUNCTIONS = ("polyreme_model_run", "polyreme_model_arena_bytes", "polyreme_model_output_shapes")
PARALLEL_FUNCTIONS = ("polyreme_parallel", "polyreme_parallel_rounds")
POOL_FUNCTIONS = ("polyreme_pool_create", "polyreme_pool_destroy", "polyreme_pool_threads", "polyreme_pool_set_threads")

# What the manifest says of such an artifact.
_KEY, _VALUE = "code", "shared object"


def with_shared_code(artifact: Artifact, code: bytes) -> Artifact:
    """The artifact with its code as a shared object, which its manifest says."""
    manifest = replace(artifact.manifest, objects=(), extra={**artifact.manifest.extra, _KEY: _VALUE})
    return replace(artifact, manifest=manifest, code=code)


def is_shared(artifact: Artifact) -> bool:
    """Whether the code is a shared object, for `load_shared`."""
    return artifact.manifest.extra.get(_KEY) == _VALUE


def load_code(code: bytes, what: str) -> ctypes.CDLL:
    """The shared object `code` in memory, in a copy of its own. `ArtifactError`, which names `what`, where the system does not take it."""
    # The system's loader takes files only, and tells them apart by name; once loaded, a file may go.
    with tempfile.NamedTemporaryFile(prefix="polyreme-", suffix=".so") as file:
        file.write(code)
        file.flush()
        try:
            return ctypes.CDLL(file.name, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            # As a rule the folder is on a disk that is mounted noexec.
            fault = error
    if hasattr(os, "memfd_create"):
        with suppress(OSError), tempfile.TemporaryDirectory(prefix="polyreme-") as folder:
            with open(os.memfd_create("polyreme"), "wb") as memory:
                memory.write(code)
                memory.flush()
                name = os.path.join(folder, "code.so")
                os.symlink(f"/proc/self/fd/{memory.fileno()}", name)
                return ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    raise ArtifactError(f"{what}: the system cannot load it: {fault} (if {tempfile.gettempdir()} is mounted noexec, set TMPDIR)") from fault


class _Loaded:
    """A shared object in memory, until nobody uses it any more."""

    def __init__(self, code: bytes, what: str):
        self.library = load_code(code, what)
        weakref.finalize(self, _ctypes.dlclose, self.library._handle).atexit = False

    def address(self, name: str) -> int:
        """Where a function of the object is."""
        try:
            return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0
        except AttributeError as error:
            raise ArtifactError(f"expected a function '{name}' in the code of a model: {error}") from error


def constants_of(artifact: Artifact) -> np.ndarray[Any, Any]:
    """The constants of an artifact, where its code may read them."""
    return near_constants(np.frombuffer(artifact.constants, np.uint8) if len(artifact.constants) else np.empty(0, np.uint8))


def load_shared(artifact: Artifact, threads: int) -> Executable:
    """The artifact in this process, on the process's pool, which begins with so many `threads`. `ArtifactError` when it is for another
    machine.
    """
    what = f"the artifact '{artifact.name}'"
    check_runs_here(artifact.manifest.target, what)
    loaded = _Loaded(artifact.code, what)
    pool = process_pool(lambda: (PoolFunctions(*map(loaded.address, POOL_FUNCTIONS)), loaded), threads)
    constants = constants_of(artifact)
    functions = ModelFunctions(*map(loaded.address, MODEL_FUNCTIONS))
    return Executable(artifact.manifest, functions, address_of(constants), pool, (loaded, constants))
