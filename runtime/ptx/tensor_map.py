"""Tensor maps: what a copy of boxes must know of an array, as the 128 bytes that a kernel takes.

A device has bytes of its own, which only its driver can make (`runtime/gpu/tensor_maps.py`). Here they are the numbers, one after another.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from polyreme.runtime.ptx.memory import DeviceMemory

Array = np.ndarray[Any, Any]

MAP_BYTES = 128
MOST_AXES = 5
MOST_BOX = 256
LINE_BYTES = 128
_MAGIC = 0x7E50
_FORMAT = "<HHIQ5Q4Q5H"


class BadMap(ValueError):
    """A tensor map that a device would not take, or a use of one that it would not."""


@dataclass(frozen=True)
class TensorMap:
    """An array of elements of 16 bits in device memory, of up to five axes, the first one fastest: `sizes`, elements between neighbours
    along each axis but the first one, and how many elements a copy takes. Lines of 128 bytes, permuted as products of warpgroups read them.
    """

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    def check(self, address: int) -> None:
        """`BadMap` for what a device refuses."""
        axes = len(self.sizes)
        if self.dtype not in ("bf16", "f16") or not 2 <= axes <= MOST_AXES or len(self.strides) != axes - 1 or len(self.box) != axes:
            raise BadMap(f"expected an array of bf16 or f16 with 2 to {MOST_AXES} axes but got {self}")
        if address % 16:
            raise BadMap(f"expected an array at a multiple of 16 bytes but got address {address:#x}")
        if not all(1 <= n < 1 << 31 for n in self.sizes):
            raise BadMap(f"expected axes of 1 to 2^31 - 1 elements but got {self.sizes}")
        if not all(0 <= n < 1 << 39 and n % 8 == 0 for n in self.strides):
            raise BadMap(f"expected strides of whole 16 bytes below 2^40 but got {self.strides} elements")
        if self.box[0] * 2 != LINE_BYTES or not all(1 <= n <= MOST_BOX for n in self.box):
            raise BadMap(f"expected boxes of {LINE_BYTES // 2} elements, at most {MOST_BOX} along further axes, but got {self.box}")

    def bytes_at(self, address: int) -> bytes:
        """The map of an array at an address, as the runner reads it."""
        self.check(address)
        axes = len(self.sizes)
        sizes, strides, box = ((*x, *[0] * (n - len(x))) for x, n in ((self.sizes, 5), (self.strides, 4), (self.box, 5)))
        made = struct.pack(_FORMAT, _MAGIC, ("bf16", "f16").index(self.dtype), axes, address, *sizes, *strides, *box)
        return made.ljust(MAP_BYTES, b"\0")


@dataclass(frozen=True)
class PlacedMap:
    """A map and where its array begins."""

    map: TensorMap
    address: int

    def taken(self, memory: DeviceMemory, start: Sequence[int]) -> Array:
        """The bytes of the box that begins at these coordinates; zeros for what lies outside of the array."""
        map = self.map
        if len(start) != len(map.sizes):
            raise BadMap(f"expected {len(map.sizes)} coordinates but got {len(start)}")
        places, inside = np.zeros((), np.int64), np.ones((), bool)
        for first, size, stride, count in zip(start, map.sizes, (1, *map.strides), map.box, strict=True):
            along = first + np.arange(count)
            places = (along * stride).reshape(-1, *[1] * places.ndim) + places
            inside = ((along >= 0) & (along < size)).reshape(-1, *[1] * inside.ndim) & inside
        wanted = self.address + 2 * places[inside]
        data = np.zeros(places.shape, np.uint16)
        if wanted.size:
            data[inside] = memory.bytes.view("u2")[memory.places(wanted, 2, "a copy of a box") // 2]
        return data.reshape(-1).view(np.uint8)


def read_map(data: bytes) -> PlacedMap:
    """The map in the bytes of a parameter."""
    magic, dtype, axes, address, *rest = struct.unpack_from(_FORMAT, data)
    if magic != _MAGIC or dtype > 1 or not 2 <= axes <= MOST_AXES:
        raise BadMap("expected a tensor map but got other bytes")
    map = TensorMap(("bf16", "f16")[dtype], tuple(rest[:axes]), tuple(rest[5 : 5 + axes - 1]), tuple(rest[9 : 9 + axes]))
    map.check(address)
    return PlacedMap(map, address)
