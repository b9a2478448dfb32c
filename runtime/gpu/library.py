"""Libraries for a GPU: called through their own C interface, which finds the driver by itself and needs no pycuda; or taken apart, for a
device that is none, into the artifact that they were made of.
"""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.runtime.artifact import Artifact
from polyreme.runtime.calling import Array, CallableModel
from polyreme.runtime.errors import ArtifactError, CallError, ContentError
from polyreme.runtime.gpu.drivers import GpuError, OutOfMemoryError
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.memory import address_of, numpy_dtype

__all__ = ["GpuLibrary", "artifacts_in"]

# What a run returns, as the header has it, but for those that an argument is at fault for.
_NO_MEMORY, _BAD_DATA, _TOO_SMALL, _BAD_DEVICE = 3, 5, 6, 7
# As many elements are given to a result whose sizes a run tells.
FIRST_ROOM = 1 << 12


class GpuLibrary(CallableModel):
    """A library for a GPU, called as `Executable` is, from any thread; weights and code lie on the device as long as it lives."""

    def __init__(self, library: ctypes.CDLL, manifest: Manifest, weights: Path | None, device: int = 0):
        """`device` is the number of the GPU. `GpuError` where there is none, `OutOfMemoryError` where the weights have no room."""
        super().__init__(manifest)
        create, destroy, self._run, self._run_sized, self._shapes, self._text = (
            getattr(library, f"{manifest.name}_{function}")
            for function in ("create_on", "destroy", "run", "run_sized", "output_shapes", "error")
        )
        create.restype, create.argtypes = c_void_p, [c_int32, c_char_p, POINTER(c_char_p)]
        destroy.restype, destroy.argtypes = None, [c_void_p]
        self._run.restype, self._run.argtypes = c_int32, [c_void_p] * 4
        self._run_sized.restype, self._run_sized.argtypes = c_int32, [c_void_p] * 6
        self._shapes.restype, self._shapes.argtypes = c_int32, [c_void_p] * 2
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
        if self.manifest.steps:
            made = self._run_in_parts(arrays)
            results = made if out is None else self._given(made, out)
        else:
            results = self._targets(shapes, out)
            made = [r if r.flags.c_contiguous else np.empty(r.shape, r.dtype) for r in results]
            sizes = _sizes_of(arrays)
            self._check(self._run(self._model, _addresses(arrays), _pointers(sizes), _addresses(made)))
        for result, array in zip(results, made, strict=True):
            if array is not result:
                result[...] = array
        return results

    def _run_in_parts(self, arrays: Sequence[Array]) -> list[Array]:
        """A run whose results may have sizes that it tells itself: where there was too little room, it is made once more."""
        specs, sizes = self.manifest.outputs, _sizes_of(arrays)
        shapes = [(c_int64 * max(1, len(spec.shape)))() for spec in specs]
        self._check(self._shapes(_pointers(sizes), _pointers(shapes)))
        for _ in range(2):
            counts = [math.prod(shape[: len(spec.shape)]) for shape, spec in zip(shapes, specs, strict=True)]
            room = [count if min(shape, default=0) >= 0 else FIRST_ROOM for count, shape in zip(counts, shapes, strict=True)]
            memory = [np.empty(count, numpy_dtype(spec.dtype)) for count, spec in zip(room, specs, strict=True)]
            given = (self._model, _addresses(arrays), _pointers(sizes), _addresses(memory), (c_int64 * max(1, len(room)))(*room))
            code = self._run_sized(*given, _pointers(shapes))
            if code != _TOO_SMALL:
                break
        self._check(code)
        return [
            array[: math.prod(shape[: len(spec.shape)])].reshape(shape[: len(spec.shape)])
            for array, shape, spec in zip(memory, shapes, specs, strict=True)
        ]

    def _given(self, made: Sequence[Array], out: Sequence[Array | None]) -> list[Array]:
        """The arrays of `out`, or what was made, once the shapes are known."""
        if len(out) != len(made):
            raise CallError(f"'{self.name}' expected {len(made)} arrays in 'out' but got {len(out)}")
        for given, array, spec in zip(out, made, self.manifest.outputs, strict=True):
            if given is not None:
                self._check_out(given, spec, array.dtype, array.shape)
        return [array if given is None else given for given, array in zip(out, made, strict=True)]

    def close(self) -> None:
        """Give back what the model has on the device; it cannot be called any more."""
        self._end()
        self._model = None

    def _check(self, code: int) -> None:
        if code:
            raise self._error(code)

    def _error(self, code: int) -> Exception:
        text = f"'{self.name}': {(self._text() or b'').decode(errors='replace')}"
        if code == _NO_MEMORY:
            return OutOfMemoryError(text)
        return (GpuError if code == _BAD_DEVICE else ContentError if code == _BAD_DATA else CallError)(text)


def _sizes_of(arrays: Sequence[Array]) -> list[Any]:
    return [(c_int64 * max(1, a.ndim))(*a.shape) for a in arrays]


def _pointers(arrays: Sequence[Any]) -> Any:
    """An array of pointers to arrays of ctypes; it has no hold on them."""
    return (c_void_p * max(1, len(arrays)))(*map(ctypes.addressof, arrays))


def _addresses(arrays: Sequence[Array]) -> Any:
    return (c_void_p * max(1, len(arrays)))(*map(address_of, arrays))


class _Code(ctypes.Structure):
    """`polyreme_gpu`, as `lowering/link/gpu_interface.py` lays it out."""

    _fields_ = [("text", c_void_p), ("count", c_int64)]


def artifacts_in(library: ctypes.CDLL, manifest: Manifest, constants: Array) -> list[Artifact]:
    """The artifacts that a library for a GPU was made of: one, or those of its parts. Their constants are all that it has, or that stand
    beside it.
    """
    models = [replace(part, name=manifest.name) for part in manifest.parts] if manifest.steps else [manifest]
    try:
        codes = (_Code * len(models)).in_dll(library, "polyreme_gpu")
    except ValueError as error:
        raise ArtifactError(f"expected a library for a GPU but '{manifest.name}' has no kernels: {error}") from error
    data = constants.tobytes()
    return [Artifact(model, ctypes.string_at(code.text, code.count), data) for model, code in zip(models, codes, strict=True)]
