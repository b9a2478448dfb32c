"""Libraries for a GPU: called through their own C interface, which finds the driver by itself and needs no pycuda; or taken apart, for a
device that is none, into the artifact that they were made of.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.runtime.artifact import Artifact
from polyreme.runtime.calling import Array, CallableModel
from polyreme.runtime.errors import ArtifactError, CallError, ContentError
from polyreme.runtime.gpu.drivers import GpuError, OutOfMemoryError
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.memory import address_of

__all__ = ["GpuLibrary", "artifact_in"]

# What a run returns, as the header has it, but for those that an argument is at fault for.
_NO_MEMORY, _BAD_DATA, _BAD_DEVICE = 3, 5, 7


class GpuLibrary(CallableModel):
    """A library for a GPU, called as `Executable` is, from any thread; weights and code lie on the device as long as it lives."""

    def __init__(self, library: ctypes.CDLL, manifest: Manifest, weights: Path | None, device: int = 0):
        """`device` is the number of the GPU. `GpuError` where there is none, `OutOfMemoryError` where the weights have no room."""
        super().__init__(manifest)
        create, destroy, self._run, self._text = (
            getattr(library, f"{manifest.name}_{function}") for function in ("create_on", "destroy", "run", "error")
        )
        create.restype, create.argtypes = c_void_p, [c_int32, c_char_p, POINTER(c_char_p)]
        destroy.restype, destroy.argtypes = None, [c_void_p]
        self._run.restype, self._run.argtypes = c_int32, [c_void_p] * 4
        self._text.restype, self._text.argtypes = c_char_p, []
        error = c_char_p()
        self._model = create(device, os.fsencode(weights) if weights is not None else None, ctypes.byref(error))
        if self._model is None:
            text = (error.value or b"").decode(errors="replace")
            raise (OutOfMemoryError if text.startswith("no memory") else GpuError)(f"'{manifest.name}': {text}")
        # Before the driver's own clean-up at the end of the process.
        self._end = weakref.finalize(self, destroy, self._model)

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for `inputs`, in fresh arrays, or in those of `out` that are not None; errors as those of `Executable.run`."""
        arrays = self._checked(inputs)
        _, shapes = self._measure(tuple(a.shape for a in arrays))
        results = self._targets(shapes, out)
        whole = [r if r.flags.c_contiguous else np.empty(r.shape, r.dtype) for r in results]
        sizes = [(c_int64 * max(1, a.ndim))(*a.shape) for a in arrays]
        code = self._run(
            self._model,
            (c_void_p * max(1, len(arrays)))(*map(address_of, arrays)),
            (c_void_p * max(1, len(arrays)))(*map(ctypes.addressof, sizes)),
            (c_void_p * max(1, len(whole)))(*map(address_of, whole)),
        )
        if code:
            raise self._error(code)
        for result, made in zip(results, whole, strict=True):
            if made is not result:
                result[...] = made
        return results

    def close(self) -> None:
        """Give back what the model has on the device; it cannot be called any more."""
        self._end()
        self._model = None

    def _error(self, code: int) -> Exception:
        text = f"'{self.name}': {(self._text() or b'').decode(errors='replace')}"
        if code == _NO_MEMORY:
            return OutOfMemoryError(text)
        return (GpuError if code == _BAD_DEVICE else ContentError if code == _BAD_DATA else CallError)(text)


class _Code(ctypes.Structure):
    """`polyreme_gpu`, as `lowering/link/gpu_interface.py` lays it out."""

    _fields_ = [("text", c_void_p), ("count", c_int64)]


def artifact_in(library: ctypes.CDLL, manifest: Manifest, constants: Array) -> Artifact:
    """The artifact that a library for a GPU was made of, with the constants that it has, or that stand beside it."""
    try:
        code = _Code.in_dll(library, "polyreme_gpu")
    except ValueError as error:
        raise ArtifactError(f"expected a library for a GPU but '{manifest.name}' has no kernels: {error}") from error
    return Artifact(manifest, ctypes.string_at(code.text, code.count), constants.tobytes())
