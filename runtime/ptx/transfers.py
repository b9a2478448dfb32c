"""The instructions that move data between registers and memories: loads, stores, atomics, and copies that go on while threads work.

Addresses of shared and local memory are the same numbers in each block or thread; `_located` turns an access into checked positions in the
bytes of one memory (`memory.py` does the checks). Only there do accesses to shared memory leave the notes by which races are found.

An asynchronous copy is seen as late as it may be: its bytes arrive in shared memory when its threads wait for it, so who reads too early
sees what was there before. It counts as a write twice, when it starts and when it arrives, so that another thread's touch of its target in
between is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from polyreme.runtime.ptx.arithmetic import TYPES
from polyreme.runtime.ptx.operands import Place, items
from polyreme.runtime.ptx.parser import Address, Number, Operand, Register, Symbol
from polyreme.runtime.ptx.state import Array, Step, Threads
from polyreme.runtime.ptx.warpgroups import make_copy_box


def _space(place: Place, parts: list[str]) -> str:
    for space in ("global", "shared", "local", "param"):
        if space in parts:
            return space
    raise place.fail("expected global, shared, local or param memory")


def _located(t: Threads, some: Any, space: str, addresses: Array, size: int, what: str, note: str = "") -> tuple[Array, Array]:
    """(the bytes of a memory, checked positions in it); `note` is "read" or "write" where another thread's access would race."""
    if space == "global":
        return t.device.bytes, t.device.places(addresses, size, what)
    chosen = t.chosen(some)
    if space == "local":
        return t.local.bytes, t.local.places(addresses, chosen, size, what)
    places = t.shared.places(addresses, t.block_of[chosen], size, what)
    if t.bulk is not None:
        t.bulk.touch(chosen, addresses, size, what, writes=note != "read")
    if note == "read":
        t.shared.note_read(places, size, t.number_of[chosen], what)
    elif note == "write":
        t.shared.note_write(places, size, t.number_of[chosen], what)
    return t.shared.bytes, places


def _make_ld(place: Place, parts: list[str], result: Operand, source: Operand) -> Step:
    dtype, space, targets = place.dtype(), _space(place, parts), items(result)
    place.check_parts(parts[1:-1], ("global", "shared", "local", "param", "nc", "v2", "v4", "v8", "L1", "relaxed"))
    if space == "param":
        return _load_parameter(place, result, source, dtype)
    puts, where, size = place.writes(targets), place.addresses(source), dtype.itemsize * len(targets)

    def load(t: Threads, some: Any) -> None:
        memory, places = _located(t, some, space, where(t, some), size, "a load", note="read")
        elements, at = memory.view(dtype), places // dtype.itemsize
        for k, put in puts:
            put(t, some, elements[at + k] if k else elements[at])

    return load


def _load_parameter(place: Place, result: Operand, source: Operand, dtype: np.dtype[Any]) -> Step:
    assert isinstance(source, Address)
    params = place.layout.kernel.params
    if not isinstance(source.base, Symbol) or source.offset + dtype.itemsize > params.get(source.base.name, 0):
        raise place.fail("expected a parameter of the kernel")
    # Half of a wide parameter may be all that is used of it.
    name, put, part = source.base.name, place.write(result), slice(source.offset, source.offset + dtype.itemsize)
    return lambda t, some: put(t, some, t.arguments[name][part].view(f"u{dtype.itemsize}")[0])


def _make_st(place: Place, parts: list[str], target: Operand, source: Operand) -> Step:
    dtype, space, sources = place.dtype(), _space(place, parts), items(source)
    place.check_parts(parts[1:-1], ("global", "shared", "local", "v2", "v4", "v8"))
    reads, where, size = place.reads(sources, dtype), place.addresses(target), dtype.itemsize * len(sources)

    def store(t: Threads, some: Any) -> None:
        memory, places = _located(t, some, space, where(t, some), size, "a store", note="write")
        elements, at = memory.view(dtype), places // dtype.itemsize
        for k, get in enumerate(reads):
            elements[at + k] = get(t, some)

    return store


def _make_atom(place: Place, parts: list[str], *operands: Operand) -> Step:
    """atom.add and red.add: additions in the order of the threads' numbers."""
    dtype, space = place.dtype(), _space(place, parts)
    place.check_parts(parts[1:-1], ("global", "shared", "relaxed", "gpu", "cta", "sys", "add"))
    target, source = operands[-2:]
    result = operands[0] if parts[0] == "atom" else None
    get, where = place.read(source, dtype), place.addresses(target)
    # LLVM asks for the old value also where nobody reads it.
    put = place.write(result) if isinstance(result, Register) and place.layout.mentions(result) > 1 else None

    def add(t: Threads, some: Any) -> None:
        memory, places = _located(t, some, space, where(t, some), dtype.itemsize, "an atomic")
        elements, at = memory.view(dtype), places // dtype.itemsize
        value = np.broadcast_to(get(t, some), len(at))
        old = elements[at]
        np.add.at(elements, at, value)
        if put is None:
            return
        # What a thread sees is the memory before it plus what those before it have added to the same element.
        order = np.argsort(at, kind="stable")
        for here, before in zip(order[1:], order[:-1], strict=True):
            if at[here] == at[before]:
                old[here] = old[before] + value[before]
        put(t, some, old)

    return add


# --- copies that go on while threads work


def _make_cp(place: Place, parts: list[str], *operands: Operand) -> Step:
    word = ".".join(parts[1:3])
    if parts[1:4] == ["async", "bulk", "tensor"]:
        return make_copy_box(place, parts, *operands)
    if word == "async.commit_group":
        return _commit
    if word == "async.wait_all":
        return partial(_wait, pending=-1)
    if word == "async.wait_group":
        if not isinstance(operands[0], Number):
            raise place.fail("expected a known number of groups")
        return partial(_wait, pending=operands[0].value)
    return _make_copy(place, parts, *operands)


def _make_copy(place: Place, parts: list[str], target: Operand, source: Operand, size: Operand, given: Operand | None = None) -> Step:
    """cp.async: `size` bytes for each thread, of which the first `given` are read and the others are zero."""
    place.check_parts(parts[1:], ("async", "ca", "cg", "shared", "global"))
    if not isinstance(size, Number):
        raise place.fail("expected a known size")
    to, where, width = place.addresses(target), place.addresses(source), size.value
    reading = place.read(size if given is None else given, TYPES["u32"])

    def copy(t: Threads, some: Any) -> None:
        chosen = t.chosen(some)
        whole = np.broadcast_to(reading(t, some), len(chosen))
        data = np.zeros((len(chosen), width), np.uint8)
        on = np.flatnonzero(whole)
        places = t.device.places(where(t, some)[on], width, "an asynchronous copy")
        data[on] = t.device.bytes[places[:, None] + np.arange(width)]
        data[np.arange(width) >= whole[:, None]] = 0
        _, arrivals = _located(t, some, "shared", to(t, some), width, "an asynchronous copy", note="write")
        t.copies.append((chosen, t.groups[chosen], arrivals, data))

    return copy


def _commit(t: Threads, some: Any) -> None:
    t.groups[t.chosen(some)] += 1


def _wait(t: Threads, some: Any, pending: int) -> None:
    """Let the copies of these threads arrive but for those of their latest `pending` groups; -1 takes in the open group too."""
    here = np.zeros(t.count, bool)
    here[t.chosen(some)] = True
    left = []
    for threads, group, places, data in t.copies:
        done = here[threads] & (group < t.groups[threads] - pending)
        size = data.shape[1]
        t.shared.bytes[places[done][:, None] + np.arange(size)] = data[done]
        t.shared.note_write(places[done], size, t.number_of[threads[done]], "an asynchronous copy")
        if not done.all():
            left.append((threads[~done], group[~done], places[~done], data[~done]))
    t.copies = left


MAKERS: Mapping[str, Callable[..., Step]] = {"ld": _make_ld, "st": _make_st, "atom": _make_atom, "red": _make_atom, "cp": _make_cp}
