"""The state of the emulated device while a kernel runs: where its registers and variables are, and what each thread holds.

`Layout` is made once for a kernel: a place in the list of registers for every name, an offset for every variable of shared or local memory.
It also words the errors, because it is what knows the kernel's name. `Threads` is made for each set of blocks that runs: for every register
an array over all threads of the set (none before the first write), the shared memory of each block, the local memory of each thread, and
who each thread is.

A selection (`some`) says which threads an instruction is for: an array of their numbers in the set, in rising order, or `None` for all of
them, which saves the copies that picking costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polyreme.runtime.ptx.arithmetic import TYPES
from polyreme.runtime.ptx.bulk import Bulk
from polyreme.runtime.ptx.memory import BlockMemory, DeviceMemory
from polyreme.runtime.ptx.parser import Address, Group, Instruction, Kernel, Operand, PtxError, Register, Variable

Array = np.ndarray[Any, Any]
Read = Callable[["Threads", Any], Any]
Write = Callable[["Threads", Any, Any], None]
Step = Callable[["Threads", Any], None]

WARP = 32
# Where parameters lie, for whoever takes the address of one.
PARAMETERS = 0x5000_0000_0000
_STORAGE = {1: np.dtype("?"), 8: np.dtype("u1"), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}


class Layout:
    """Where a kernel's registers and variables are. Registers get their places as instructions name them, so steps are made before threads.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.registers: dict[str, int] = {}
        self.offsets = {**BlockMemory(shared_variables(kernel), 0).offsets, **BlockMemory(kernel.local, 0).offsets}
        at = PARAMETERS
        for name, width in kernel.params.items():
            self.offsets[name] = at
            at += -(-width // 64) * 64
        # Registers that hold sums of products (`warpgroups.py`).
        self.sums = frozenset(r.name for i in kernel.code if i.op.startswith("wgmma.mma_async") for r in _registers(i.operands[:1]))
        self.granule = _granule(kernel)
        self._mentions: Counter[Register] = Counter()

    def error(self, instruction: Instruction, message: str, threads: Threads | None = None, thread: int | None = None) -> PtxError:
        """An error at a line of the kernel and, where one is to blame, at a thread of a block."""
        where = f"kernel '{self.kernel.name}', line {instruction.line} ({instruction.op})"
        if threads is not None and thread is not None:
            where += f", block {int(threads.block_numbers[thread])}, thread {int(threads.thread_of[thread])}"
        return PtxError(f"{where}: {message}")

    def register(self, register: Register, instruction: Instruction) -> tuple[int, np.dtype[Any]]:
        """A register's place and its type in storage."""
        prefix = register.name[1:].rstrip("0123456789")
        bits = self.kernel.registers.get(register.name[1:], self.kernel.registers.get(prefix))
        if bits is None:
            raise self.error(instruction, f"register '{register.name}' is not declared")
        return self.registers.setdefault(register.name, len(self.registers)), _STORAGE[bits]

    def mentions(self, register: Register) -> int:
        """How often the kernel's code names a register."""
        if not self._mentions:
            for instruction in self.kernel.code:
                self._mentions.update(_registers(instruction.operands))
                self._mentions.update([instruction.guard] if instruction.guard is not None else [])
        return self._mentions[register]


def shared_variables(kernel: Kernel, given: int = 0) -> list[Variable]:
    """The shared memory of a block: the kernel's own, and last what a launch gives."""
    return kernel.shared + ([replace(kernel.dynamic, bytes=given)] if kernel.dynamic is not None else [])


def _granule(kernel: Kernel) -> int:
    """Bytes of the smallest element of shared memory."""
    sizes = [
        TYPES[i.parts[-1]].itemsize for i in kernel.code if i.parts[0] in ("ld", "st") and "shared" in i.parts and i.parts[-1] in TYPES
    ]
    return min([4, *sizes])


def _registers(operands: Sequence[Operand]) -> Iterator[Register]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand
        elif isinstance(operand, Address) and isinstance(operand.base, Register):
            yield operand.base
        elif isinstance(operand, Group):
            yield from _registers(operand.items)


class Sums:
    """One register of sums of products: of each thread the group of products that it is under way in (-1: none), and whether it was written
    since the last fence.
    """

    def __init__(self, count: int):
        self.group = np.full(count, -1, np.int64)
        self.changed = np.ones(count, bool)


class Threads:
    """The threads of `blocks` blocks from number `first` on: registers, memories, and who they are."""

    def __init__(
        self, layout: Layout, memory: DeviceMemory, grid: tuple[int, ...], block: tuple[int, ...], first: int, blocks: int, shared: int = 0
    ):
        kernel = layout.kernel
        self.device = memory
        self.block_size = int(np.prod(block))
        self.count = blocks * self.block_size
        self.registers: list[Any] = [None] * len(layout.registers)
        self.arguments: dict[str, Array] = {}  # the bytes of each parameter
        self.shared = BlockMemory(shared_variables(kernel, shared), blocks, layout.granule)
        self.local = BlockMemory(kernel.local, self.count if kernel.local else 1)
        self.everyone = np.arange(self.count)
        self.block_of, self.thread_of = self.everyone // self.block_size, self.everyone % self.block_size
        self.number_of = (self.thread_of + 1).astype(np.int32)
        self.block_numbers = first + self.block_of
        self.special: dict[str, Array] = {}
        for name, sizes, place in (("tid", block, self.thread_of), ("ctaid", grid, self.block_numbers)):
            rest = place
            for axis, size in zip("xyz", sizes, strict=True):
                self.special[f"%{name}.{axis}"] = (rest % size).astype("u4")
                self.special[f"%n{name}.{axis}"] = np.full(self.count, size, "u4")
                rest = rest // size
        # Asynchronous copies: the group that each thread has open, and what is under way as (threads, their groups, places in shared
        # memory, bytes).
        self.groups = np.zeros(self.count, np.int64)
        self.copies: list[tuple[Array, Array, Array, Array]] = []
        # What only blocks of sm_90a have: made when the first of it is used; and of each register of sums what is under way in it.
        self.bulk: Bulk | None = None
        self.layout = layout
        self.sums = {layout.registers[name]: Sums(self.count) for name in layout.sums}

    @property
    def bulk_state(self) -> Bulk:
        """Barriers, copies and products."""
        if self.bulk is None:
            self.bulk = Bulk(self)
        return self.bulk

    def parameter(self, address: int, size: int) -> bytes:
        """The bytes of a parameter whose address was taken."""
        for name, data in self.arguments.items():
            if self.layout.offsets[name] == address and len(data) >= size:
                return data[:size].tobytes()
        raise PtxError(f"expected a parameter of {size} bytes but got address {address:#x}")

    def chosen(self, some: Any) -> Array:
        """The numbers of the threads of a selection."""
        return self.everyone if some is None else some
