"""Operands of PTX instructions made ready once: functions that read them for a selection of threads, or write to them.

What can be decided from the text (a constant's bits, a register's place and width, that an operand fits its instruction) is decided when
the function is made, so that a step of the running kernel is little more than numpy's own work.

Registers are kept as unsigned integers of their width, predicates as booleans; reading gives a view in the instruction's type, never a
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyreme.runtime.ptx.arithmetic import TYPES
from polyreme.runtime.ptx.parser import Address, Group, Instruction, Number, Operand, PtxError, Register, Symbol
from polyreme.runtime.ptx.state import Array, Layout, Read, Step, Threads, Write

_SPECIAL = ("tid", "ntid", "ctaid", "nctaid")
# How LLVM spells a result that nobody reads.
_UNREAD = (Symbol("_"), Register("_"), Register("%_"))


def items(operand: Operand) -> tuple[Operand, ...]:
    """The operands of a group; of anything else, itself."""
    return operand.items if isinstance(operand, Group) else (operand,)


def applied(put: Write, compute: Callable[..., Any], *reads: Read) -> Step:
    """The step that writes `compute` of what is read."""
    if len(reads) == 1:
        (only,) = reads
        return lambda t, some: put(t, some, compute(only(t, some)))
    if len(reads) == 2:
        first, second = reads
        return lambda t, some: put(t, some, compute(first(t, some), second(t, some)))
    first, second, third = reads
    return lambda t, some: put(t, some, compute(first(t, some), second(t, some), third(t, some)))


@dataclass(frozen=True)
class Place:
    """One instruction of a kernel: what its maker asks to read its operands, to write its results and to refuse it."""

    layout: Layout
    instruction: Instruction

    def fail(self, message: str, threads: Threads | None = None, thread: int | None = None) -> PtxError:
        """An error at this instruction, and at a thread when one is given."""
        return self.layout.error(self.instruction, message, threads, thread)

    def dtype(self) -> np.dtype[Any]:
        """The type that the opcode ends with."""
        dtype = TYPES.get(self.instruction.parts[-1])
        if dtype is None:
            raise self.fail("expected an instruction with a known type")
        return dtype

    def check_parts(self, parts: Sequence[str], allowed: Sequence[str]) -> None:
        """Nothing that changes what an instruction does may go unseen."""
        unknown = [p for p in parts if p not in allowed]
        if unknown:
            raise self.fail(f"expected an instruction that the runner knows but got '.{unknown[0]}'")

    def read(self, operand: Operand, dtype: np.dtype[Any]) -> Read:
        """How to get an operand as `dtype`: an array over the chosen threads, or a scalar."""
        if isinstance(operand, Number):
            return _constant(self._number(operand, dtype))
        if isinstance(operand, Symbol):
            offset = self.layout.offsets.get(operand.name)
            if offset is None:
                raise self.fail(f"expected a variable but got '{operand.name}'")
            return _constant(dtype.type(offset))
        if not isinstance(operand, Register):
            raise self.fail("expected a register or a number")
        if operand.name.split(".")[0].removeprefix("%") in _SPECIAL:
            name = operand.name
            return lambda t, some: t.special[name] if some is None else t.special[name][some]
        index, storage = self.layout.register(operand, self.instruction)
        if storage.itemsize < dtype.itemsize or (storage.kind == "b") != (dtype.kind == "b"):
            raise self.fail(f"expected a register of {8 * dtype.itemsize} bits but got '{operand.name}'")
        if operand.name in self.layout.sums:
            return self._read_sums(operand, index, dtype)
        lower_part = f"u{dtype.itemsize}" if storage.itemsize > dtype.itemsize else None

        def get(t: Threads, some: Any) -> Any:
            values = t.registers[index]
            if values is None:
                raise self.fail(f"register '{operand.name}' is read before it is written")
            values = values if some is None else values[some]
            if lower_part is not None:
                values = values.astype(lower_part)
            return values.view(dtype)

        return get

    def raw(self, operand: Operand) -> int:
        """The place of a register that an instruction reads and writes by itself."""
        if not isinstance(operand, Register):
            raise self.fail("expected a register")
        return self.layout.register(operand, self.instruction)[0]

    def _read_sums(self, operand: Register, index: int, dtype: np.dtype[Any]) -> Read:
        """How to get a register in which a product may be under way."""

        def get(t: Threads, some: Any) -> Any:
            values = t.registers[index]
            if values is None:
                raise self.fail(f"register '{operand.name}' is read before it is written")
            self._check_sums(operand, t, some, index)
            return (values if some is None else values[some]).view(dtype)

        return get

    def _check_sums(self, operand: Register, t: Threads, some: Any, index: int) -> None:
        chosen = t.chosen(some)
        late = np.flatnonzero(t.sums[index].group[chosen] >= 0)
        if len(late):
            message = f"register '{operand.name}' is that of a product under way: expected a wgmma.wait_group"
            raise self.fail(message, t, int(chosen[late[0]]))

    def _number(self, number: Number, dtype: np.dtype[Any]) -> Any:
        if number.bits:
            bits = np.array(number.value, f"u{number.bits // 8}")
            if number.bits // 8 != dtype.itemsize:
                raise self.fail(f"expected a constant of {8 * dtype.itemsize} bits but got one of {number.bits}")
            return bits.view(dtype)[()]
        if dtype.kind == "b":
            return np.bool_(number.value != 0)
        mask = (1 << (8 * dtype.itemsize)) - 1
        return np.array(number.value & mask, f"u{dtype.itemsize}").view(dtype)[()]

    def reads(self, operands: Sequence[Operand], dtype: np.dtype[Any]) -> list[Read]:
        """`read` of each."""
        return [self.read(operand, dtype) for operand in operands]

    def write(self, operand: Operand) -> Write:
        """How to store a result for the chosen threads; narrower results fill the register by their sign or with zeros."""
        if operand in _UNREAD:
            return lambda t, some, value: None
        if not isinstance(operand, Register):
            raise self.fail("expected a register as the result")
        index, storage = self.layout.register(operand, self.instruction)

        def put(t: Threads, some: Any, value: Any) -> None:
            value = np.asarray(value)
            if index in t.sums:
                self._check_sums(operand, t, some, index)
                t.sums[index].changed[t.chosen(some)] = True
            if value.dtype != storage:
                if value.dtype.itemsize < storage.itemsize:
                    value = value.astype(f"{'i' if value.dtype.kind == 'i' else 'u'}{storage.itemsize}")
                value = value.view(storage)
            if some is None:
                t.registers[index] = value if value.shape else np.full(t.count, value)
                return
            held = t.registers[index]
            if held is None:
                held = t.registers[index] = np.zeros(t.count, storage)
            held[some] = value

        return put

    def writes(self, operands: Sequence[Operand]) -> list[tuple[int, Write]]:
        """How to store several results: the number and the writer of each that somebody reads."""
        return [(k, self.write(operand)) for k, operand in enumerate(operands) if operand not in _UNREAD]

    def addresses(self, operand: Operand) -> Read:
        """How to get an address: 64-bit integers over the chosen threads, always an array."""
        if not isinstance(operand, Address):
            raise self.fail("expected an address")
        offset = np.uint64(operand.offset & 0xFFFFFFFFFFFFFFFF)
        if operand.base is None:
            return lambda t, some: np.full(len(t.chosen(some)), offset)
        base = operand.base
        wide = isinstance(base, Symbol) or self.layout.register(base, self.instruction)[1].itemsize == 8
        get = self.read(base, TYPES["u64"] if wide else TYPES["u32"])

        def addresses(t: Threads, some: Any) -> Array:
            value = np.asarray(get(t, some)).astype(np.uint64) + offset
            return value if value.shape else np.full(len(t.chosen(some)), value)

        return addresses


def _constant(value: Any) -> Read:
    return lambda t, some: value
