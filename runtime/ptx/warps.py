"""The instructions that the 32 threads of a warp carry out together: shuffles, products of tensor cores, and loads of tiles for them.

Their steps see the chosen threads as [warps, 32]. A warp some of whose threads are elsewhere is an error: on a device, what it computes is
undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polyreme.runtime.ptx import arithmetic as arithmetic
from polyreme.runtime.ptx.arithmetic import TYPES
from polyreme.runtime.ptx.operands import Place, items
from polyreme.runtime.ptx.parser import Group, Number, Operand
from polyreme.runtime.ptx.state import WARP, Array, Step, Threads


def _whole_warps(place: Place, t: Threads, some: Any) -> Array:
    """The chosen threads as [warps, 32]; an error when one is missing."""
    chosen = t.chosen(some)
    lanes = t.thread_of[chosen] % WARP
    if len(chosen) % WARP or not (lanes.reshape(-1, WARP) == np.arange(WARP)).all():
        odd = np.flatnonzero(lanes != np.arange(len(lanes)) % WARP)
        thread = int(chosen[odd[0] if len(odd) else -1])
        raise place.fail("expected whole warps but some of their threads are elsewhere", t, thread)
    return chosen.reshape(-1, WARP)


def _make_shfl(place: Place, parts: list[str], result: Operand, source: Operand, by: Operand, clamp: Operand, mask: Operand) -> Step:
    if parts[1] != "sync" or parts[3] != "b32" or mask != Number(-1):
        raise place.fail("expected a shuffle of whole warps")
    if not isinstance(by, Number) or not isinstance(clamp, Number) or clamp.value != (0 if parts[2] == "up" else 31):
        raise place.fail("expected a shuffle by a known distance over the whole warp")
    get, put = place.read(source, TYPES["b32"]), place.write(result)
    lane = np.arange(WARP)
    other = {"bfly": lane ^ by.value, "down": lane + by.value, "up": lane - by.value, "idx": np.full(WARP, by.value)}[parts[2]]
    other = np.where((other >= 0) & (other < WARP), other, lane)

    def shuffle(t: Threads, some: Any) -> None:
        warps = _whole_warps(place, t, some)
        value = np.broadcast_to(get(t, some), warps.size).reshape(-1, WARP)
        put(t, some, value[:, other].reshape(-1))

    return shuffle


_PRODUCTS = (
    "m16n8k16.row.col.f32.bf16.bf16.f32",
    "m16n8k16.row.col.f32.f16.f16.f32",
    "m16n8k8.row.col.f32.tf32.tf32.f32",
)


def _make_mma(place: Place, parts: list[str], result: Operand, a: Operand, b: Operand, c: Operand) -> Step:
    shape = ".".join(parts[3:])
    if shape not in _PRODUCTS:
        raise place.fail("expected a matrix product that the runner knows")
    depth, is_half = 16 if "k16" in shape else 8, "f16.f16" in shape and "bf16" not in shape
    if not all(isinstance(group, Group) for group in (result, a, b, c)):
        raise place.fail("expected groups of registers")
    puts = place.writes(items(result))
    reads = [place.reads(items(group), TYPES[kind]) for group, kind in ((a, "b32"), (b, "b32"), (c, "f32"))]

    def floats(words: Array) -> Array:
        """[warps, 32, registers] as float32 elements: two of 16 bits of a register, or the bits that tf32 has."""
        if is_half:
            return np.ascontiguousarray(words).view(np.float16).reshape(*words.shape[:2], -1).astype(np.float32)
        if depth == 8:
            return (words & np.uint32(0xFFFFE000)).view(np.float32)
        halves = np.stack([words << np.uint32(16), words & np.uint32(0xFFFF0000)], -1)
        return halves.reshape(*words.shape[:2], -1).view(np.float32)

    def multiply(t: Threads, some: Any) -> None:
        warps = _whole_warps(place, t, some)
        left, right, added = (
            np.stack([np.broadcast_to(r(t, some), warps.size) for r in group], -1).reshape(len(warps), WARP, len(group)) for group in reads
        )
        product = arithmetic.multiply_tiles(floats(left), floats(right), added, depth)
        for k, put in puts:
            put(t, some, np.ascontiguousarray(product[:, :, k]).reshape(-1))

    return multiply


def _make_ldmatrix(place: Place, parts: list[str], result: Operand, source: Operand) -> Step:
    """Tiles of 8 x 8 16-bit elements from shared memory: of each the threads of one quarter of the warp give the addresses of its rows."""
    place.check_parts(parts[1:], ("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "b16"))
    targets = items(result)
    puts, where, transpose, count = place.writes(targets), place.addresses(source), "trans" in parts, len(targets)

    def load(t: Threads, some: Any) -> None:
        warps = _whole_warps(place, t, some)
        asked = warps[:, : 8 * count].reshape(-1)
        rows = where(t, some).reshape(-1, WARP)[:, : 8 * count].reshape(-1)
        places = t.shared.places(rows, t.block_of[asked], 16, "a load")
        if t.bulk is not None:
            t.bulk.touch(asked, rows, 16, "a load", writes=False)
        t.shared.note_read(places, 16, t.number_of[asked], "a load")
        tiles = t.shared.bytes.view("u2")[(places // 2)[:, None] + np.arange(8)].reshape(len(warps), count, 8, 8)
        tiles = np.ascontiguousarray(tiles.swapaxes(2, 3) if transpose else tiles)
        words = tiles.view("u4").reshape(len(warps), count, WARP)
        for k, put in puts:
            put(t, some, np.ascontiguousarray(words[:, k]).reshape(-1))

    return load


MAKERS: Mapping[str, Callable[..., Step]] = {"shfl": _make_shfl, "mma": _make_mma, "ldmatrix": _make_ldmatrix}
