"""Tensor maps of a CUDA device: the driver makes the 128 bytes, through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from typing import Any

from polyreme.runtime.errors import RuntimeFault
from polyreme.runtime.gpu.graphs import load_library
from polyreme.runtime.ptx.tensor_map import MAP_BYTES, BadMap, TensorMap

__all__ = ["MapError", "TensorMapFunctions"]

# What the functions take; they return 0, or the number of an error.
SIGNATURES: dict[str, list[Any]] = {
    "cuTensorMapEncodeTiled": [
        c_void_p, c_int, c_uint32, c_void_p, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint32), POINTER(c_uint32),
        c_int, c_int, c_int, c_int,
    ],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
}  # fmt: skip
# The driver's numbers: of element types, and for pieces of 16 bytes in their order, permuted within 128 bytes, fetched into L2 by 256
# bytes, and with zeros for what lies outside.
DTYPES = {"f16": 6, "bf16": 9}
MODES = NO_INTERLEAVE, SWIZZLE_128, L2_256, ZEROS = 0, 3, 3, 0
ALIGN = 64
MOST_KEPT = 4096


class MapError(RuntimeFault, RuntimeError):
    """The driver has no tensor maps, or refused one."""

    code = "E0804"


class TensorMapFunctions:
    """The functions of the CUDA driver for tensor maps."""

    def __init__(self) -> None:
        try:
            library = load_library()
            self._functions = {name: getattr(library, name) for name in SIGNATURES}
        except (OSError, AttributeError) as error:
            raise MapError(f"expected a CUDA driver with tensor maps (12.0 or newer): {error}") from None
        for name, function in self._functions.items():
            function.argtypes, function.restype = SIGNATURES[name], c_int
        # What a map says is its bytes, so equal ones are made once.
        self.encode = lru_cache(MOST_KEPT)(self._encode)

    def _encode(self, map: TensorMap, address: int) -> bytes:
        """The bytes of the map of an array at an address."""
        try:
            map.check(address)
        except BadMap as error:
            raise MapError(str(error)) from None
        axes = len(map.sizes)
        room = ctypes.create_string_buffer(MAP_BYTES + ALIGN)
        start = -(-ctypes.addressof(room) // ALIGN) * ALIGN
        failed = self._functions["cuTensorMapEncodeTiled"](
            start,
            DTYPES[map.dtype],
            axes,
            address,
            (c_uint64 * axes)(*map.sizes),
            (c_uint64 * (axes - 1))(*(2 * n for n in map.strides)),
            (c_uint32 * axes)(*map.box),
            (c_uint32 * axes)(*[1] * axes),
            *MODES,
        )
        if failed:
            said = c_char_p()
            self._functions["cuGetErrorName"](failed, ctypes.byref(said))
            name = said.value.decode() if said.value else failed
            raise MapError(f"'cuTensorMapEncodeTiled' failed for {map} at address {address:#x}: {name}")
        return ctypes.string_at(start, MAP_BYTES)
