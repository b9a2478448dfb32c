"""The instructions of sm_90a: counted barriers, copies of boxes by tensor maps, and products of warpgroups. What is under way, and who may
touch it, is `bulk.py`'s.

Sums of products are registers that nobody else may read or write until the warpgroup has waited for the product (`state.Sums`), and between
what changes them and the next product must be a `wgmma.fence`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polyreme.runtime.ptx.arithmetic import TYPES
from polyreme.runtime.ptx.memory import Fault
from polyreme.runtime.ptx.operands import Place, items
from polyreme.runtime.ptx.parser import Group, Number, Operand
from polyreme.runtime.ptx.state import WARP, Array, Read, Step, Threads
from polyreme.runtime.ptx.tensor_map import MAP_BYTES, BadMap, read_map

WARPGROUP = 128
_SWIZZLE_LINES, _SWIZZLE_BYTES = 7, 4
_ROWS, _DEPTH = 64, 16
# Of an operand's descriptor: bits that must be zero, and the permutation of 128 bytes.
_UNUSED = 0x3FFE_C000_C000_C000
_SWIZZLED = 1


def _permuted(addresses: Array) -> Array:
    """Where bytes lie in shared memory by the permutation of 128 bytes: of each line of 128 the pieces of 16 change places."""
    return addresses ^ (((addresses >> _SWIZZLE_LINES) & 7) << _SWIZZLE_BYTES)


def _whole_groups(place: Place, t: Threads, some: Any, size: int) -> Array:
    """The chosen threads as [groups, size]; an error when one is missing."""
    chosen = t.chosen(some)
    numbers = t.thread_of[chosen] % size
    if len(chosen) % size or not (numbers.reshape(-1, size) == np.arange(size)).all():
        what = "warps" if size == WARP else "warpgroups"
        raise place.fail(f"expected whole {what} but some of their threads are elsewhere", t, int(chosen[0]))
    return chosen.reshape(-1, size)


def _same(place: Place, t: Threads, groups: Array, values: Any, what: str) -> Array:
    """The one value of each group."""
    values = np.broadcast_to(values, groups.size).reshape(groups.shape)
    if (values != values[:, :1]).any():
        raise place.fail(f"expected one {what} for all threads of a warpgroup", t, int(groups[0, 0]))
    return values[:, 0]


# --- counted barriers


def _shared_addresses(place: Place, t: Threads, some: Any, where: Read, size: int, what: str) -> Array:
    """Addresses of accesses to shared memory, checked."""
    addresses = where(t, some)
    t.shared.places(addresses, t.block_of[t.chosen(some)], size, what)
    return addresses.astype(np.int64)


def _make_mbarrier(place: Place, parts: list[str], *operands: Operand) -> Step:
    place.check_parts(parts[1:], ("init", "arrive", "expect_tx", "shared::cta", "b64"))
    kind = ".".join(p for p in parts[1:] if p not in ("shared::cta", "b64"))
    at = {"init": 0, "arrive": 1, "arrive.expect_tx": 1}.get(kind)
    if at is None or len(operands) != at + 1 + (kind != "arrive"):
        raise place.fail("expected an instruction of barriers that the runner knows")
    where = place.addresses(operands[at])
    number = place.read(operands[at + 1], TYPES["u32"]) if kind != "arrive" else None

    def act(t: Threads, some: Any) -> None:
        chosen, bulk = t.chosen(some), t.bulk_state
        addresses = _shared_addresses(place, t, some, where, 8, "a barrier")
        numbers = np.broadcast_to(number(t, some) if number is not None else 0, len(chosen))
        for position, (thread, address, n) in enumerate(zip(chosen.tolist(), addresses.tolist(), numbers.tolist(), strict=True)):
            if kind == "init":
                bulk.make(thread, position, address, n)
            else:
                bulk.arrive(thread, position, address, n)

    return act


def make_try_wait(place: Place, parts: list[str], result: Operand, target: Operand, parity: Operand) -> Callable[[Threads, Any], Array]:
    """mbarrier.try_wait.parity: whose phase is over, of the chosen threads; the predicate of those is set."""
    place.check_parts(parts[1:], ("try_wait", "parity", "shared::cta", "b64"))
    if "parity" not in parts:
        raise place.fail("expected to wait for a parity")
    put, where, which = place.write(result), place.addresses(target), place.read(parity, TYPES["u32"])

    def over(t: Threads, some: Any) -> Array:
        chosen, bulk = t.chosen(some), t.bulk_state
        addresses = _shared_addresses(place, t, some, where, 8, "a barrier").tolist()
        parities = np.broadcast_to(which(t, some), len(chosen)).tolist()
        found = [bulk.is_over(thread, i, addresses[i], parities[i]) for i, thread in enumerate(chosen.tolist())]
        is_over = np.array(found, bool)
        put(t, None if some is None and is_over.all() else chosen[is_over], np.ones(int(is_over.sum()), bool))
        return is_over

    return over


def _make_fence(place: Place, parts: list[str], *operands: Operand) -> Step:
    if parts[1:] != ["mbarrier_init", "release", "cluster"] or operands:
        raise place.fail("expected a fence that the runner knows")
    return lambda t, some: None


# --- copies


def make_copy_box(place: Place, parts: list[str], target: Operand, source: Operand, barrier: Operand) -> Step:
    """cp.async.bulk.tensor: what a tensor map says of an array, and where a box of it begins."""
    axes = int(parts[4].removesuffix("d"))
    if parts[4:] != [f"{axes}d", "shared::cluster", "global", "tile", "mbarrier::complete_tx::bytes"]:
        raise place.fail("expected a copy of a box to shared memory that the runner knows")
    if not isinstance(source, Group) or len(source.items) != 2 or not isinstance(source.items[1], Group):
        raise place.fail("expected a tensor map and coordinates")
    if len(source.items[1].items) != axes:
        raise place.fail(f"expected {axes} coordinates")
    map_at, coordinates = place.addresses(source.items[0]), place.reads(source.items[1].items, TYPES["s32"])
    to, of = place.addresses(target), place.addresses(barrier)

    def copy(t: Threads, some: Any) -> None:
        chosen = t.chosen(some)
        maps, starts, barriers = map_at(t, some).tolist(), to(t, some).astype(np.int64).tolist(), of(t, some).astype(np.int64).tolist()
        firsts = [np.broadcast_to(c(t, some), len(chosen)).tolist() for c in coordinates]
        for i, thread in enumerate(chosen.tolist()):
            try:
                box = read_map(t.parameter(int(maps[i]), MAP_BYTES))
                data = box.taken(t.device, [first[i] for first in firsts])
            except BadMap as error:
                raise Fault(str(error), i) from None
            if starts[i] % 1024:
                raise Fault(f"expected a tile at a multiple of 1024 bytes but got address {starts[i]:#x}", i)
            block = t.block_of[chosen[i : i + 1]]
            # Of each piece of 16 bytes, the first one in the order of the box.
            pieces = starts[i] + 16 * np.arange(data.size // 16)
            found = t.shared.places(_permuted(pieces), np.broadcast_to(block, pieces.shape), 16, "a copy of a box")
            places = (found[:, None] + np.arange(16)).reshape(-1)
            t.bulk_state.begin(thread, i, barriers[i], places, data, starts[i])

    return copy


# --- products


def _make_wgmma(place: Place, parts: list[str], *operands: Operand) -> Step:
    kind = parts[1]
    if kind == "mma_async":
        return _make_product(place, parts, *operands)
    if kind not in ("fence", "commit_group", "wait_group") or parts[2:] != ["sync", "aligned"]:
        raise place.fail("expected an instruction of warpgroups that the runner knows")
    pending = 0
    if kind == "wait_group":
        if len(operands) != 1 or not isinstance(operands[0], Number):
            raise place.fail("expected a known number of groups")
        pending = operands[0].value

    def act(t: Threads, some: Any) -> None:
        groups, bulk = _whole_groups(place, t, some, WARPGROUP), t.bulk_state
        if kind == "fence":
            for sums in t.sums.values():
                sums.changed[groups.reshape(-1)] = False
            return
        for group in groups:
            for thread in group[::WARP].tolist():
                block, warp = bulk.place_of(thread)
                if kind == "commit_group":
                    bulk.commit(block, warp)
                    continue
                first, threads = bulk.wait(block, warp, pending), slice(thread, thread + WARP)
                for sums in t.sums.values():
                    sums.group[threads][sums.group[threads] < first] = -1

    return act


def _operand_addresses(place: Place, t: Threads, groups: Array, descriptors: Array, lines: int, is_across: bool) -> Array:
    """[groups, lines, depth]: where the elements of an operand lie, by its descriptor."""
    for group, descriptor in zip(groups, descriptors.tolist(), strict=True):
        start = (descriptor & 0x3FFF) << 4
        if descriptor & _UNUSED or descriptor >> 62 != _SWIZZLED:
            raise place.fail(f"expected the descriptor of an operand in lines of 128 bytes but got {descriptor:#x}", t, int(group[0]))
        if start >> 7 & 7 or (is_across and start % 128):
            raise place.fail(f"expected an operand that begins in a tile's first line but got address {start:#x}", t, int(group[0]))
    d = descriptors.astype(np.int64)[:, None, None]
    start, lead, step = (d & 0x3FFF) << 4, (d >> 16 & 0x3FFF) << 4, (d >> 32 & 0x3FFF) << 4
    line, k = np.arange(lines)[None, :, None], np.arange(_DEPTH)[None, None, :]
    if is_across:
        linear = start + line // 64 * lead + k // 8 * step + k % 8 * 128 + line % 64 * 2
    else:
        linear = start + line // 8 * step + line % 8 * 128 + k * 2
    return _permuted(linear)


def _make_product(place: Place, parts: list[str], sums: Operand, a: Operand, b: Operand, *flags: Operand) -> Step:
    shape, kinds = parts[4], parts[5:]
    columns = int(shape[4:-3]) if shape.startswith("m64n") and shape.endswith("k16") and shape[4:-3].isdigit() else 0
    is_known = parts[2:4] == ["sync", "aligned"] and kinds in (["f32", "bf16", "bf16"], ["f32", "f16", "f16"])
    if not is_known or not 8 <= columns <= 256 or columns % 8:
        raise place.fail("expected a product of a warpgroup that the runner knows")
    if len(flags) != 5 or flags[:3] != (Number(1),) * 3 or any(f not in (Number(0), Number(1)) for f in flags[3:]):
        raise place.fail("expected a product that adds to its sums, of operands as they are or transposed")
    registers = items(sums)
    if len(registers) != columns // 2:
        raise place.fail(f"expected {columns // 2} registers of sums but got {len(registers)}")
    across_a, across_b = flags[3] == Number(1), flags[4] == Number(1)
    raw = [place.raw(register) for register in registers]
    left, right = place.read(a, TYPES["u64"]), place.read(b, TYPES["u64"])

    def floats(t: Threads, addresses: Array, blocks: Array) -> Array:
        places = t.shared.places(addresses.reshape(-1), np.repeat(blocks, addresses[0].size), 2, "a product")
        words = t.shared.bytes.view("u2")[places // 2].reshape(addresses.shape)
        if kinds[1] == "f16":
            return words.view(np.float16).astype(np.float64)
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)

    thread, i = np.arange(WARPGROUP)[:, None], np.arange(columns // 2)[None, :]
    rows = 16 * (thread // WARP) + thread % WARP // 4 + 8 * (i % 4 // 2)
    across = 8 * (i // 4) + 2 * (thread % 4) + i % 2

    def multiply(t: Threads, some: Any) -> None:
        groups, bulk = _whole_groups(place, t, some, WARPGROUP), t.bulk_state
        flat, blocks = groups.reshape(-1), t.block_of[groups[:, 0]]
        at_a = _operand_addresses(place, t, groups, _same(place, t, groups, left(t, some), "operand"), _ROWS, across_a)
        at_b = _operand_addresses(place, t, groups, _same(place, t, groups, right(t, some), "operand"), columns, across_b)
        x, y = floats(t, at_a, blocks), floats(t, at_b, blocks)
        for g, group in enumerate(groups):
            warps = t.thread_of[group[::WARP]] // WARP
            lines = np.unique(np.concatenate([at_a[g].reshape(-1), at_b[g].reshape(-1)]) // 128)
            bulk.multiply(int(blocks[g]), warps, lines, g * WARPGROUP)
        product = (x @ y.swapaxes(1, 2))[:, rows, across].reshape(flat.size, -1)
        open_groups = np.repeat(bulk.groups[blocks, t.thread_of[groups[:, 0]] // WARP], WARPGROUP)
        for k, index in enumerate(raw):
            held, state = t.registers[index], t.sums[index]
            if held is None:
                raise place.fail(f"register '{registers[k].name}' is read before it is written", t, int(flat[0]))  # type: ignore[union-attr]
            if state.changed[flat].any():
                changed = int(flat[np.flatnonzero(state.changed[flat])[0]])
                raise place.fail("expected a wgmma.fence between what changed the sums and this product", t, changed)
            if some is None or not held.flags.writeable:
                held = t.registers[index] = held.copy()
            held[flat] = (held[flat].view(np.float32) + product[:, k]).astype(np.float32).view(held.dtype)
            state.group[flat] = open_groups

    return multiply


def _make_setmaxnreg(place: Place, parts: list[str], count: Operand) -> Step:
    if parts[1] not in ("inc", "dec") or parts[2:] != ["sync", "aligned", "u32"] or not isinstance(count, Number):
        raise place.fail("expected an instruction that the runner knows")
    if not 24 <= count.value <= 256 or count.value % 8:
        raise place.fail(f"expected registers in steps of 8 from 24 to 256 but got {count.value}")

    def check(t: Threads, some: Any) -> None:
        _whole_groups(place, t, some, WARPGROUP)

    return check


MAKERS: Mapping[str, Callable[..., Step]] = {
    "mbarrier": _make_mbarrier,
    "fence": _make_fence,
    "wgmma": _make_wgmma,
    "setmaxnreg": _make_setmaxnreg,
}
