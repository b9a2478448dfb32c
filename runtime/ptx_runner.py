"""Running PTX on numpy: each register is an array over all threads of a set of blocks.

Threads that stand at different places take turns, the lowest place first; branches go forward but for loops, so threads meet again where LLVM
laid the code out for it. A thread at a barrier waits until all threads of its block are there. Blocks of a set run side by side, one set after
the other.

Memory accesses are checked by `ptx_memory.py`, and so is that whole warps take part in shuffles and matrix products and whole blocks in barriers.
Errors name the kernel, the line of the PTX, the block and the thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from polyreme.runtime import ptx_arithmetic as arithmetic
from polyreme.runtime.ptx_arithmetic import COMPARISONS, TYPES
from polyreme.runtime.ptx_memory import BlockMemory, DeviceMemory, Fault
from polyreme.runtime.ptx_parser import Address, Group, Instruction, Kernel, Number, Operand, PtxError, Register, Symbol

Array = np.ndarray[Any, Any]
Read = Callable[["Threads", Any], Any]
Write = Callable[["Threads", Any, Any], None]
Step = Callable[["Threads", Any], None]

# Threads that run side by side: enough to make numpy's calls cheap, few enough that registers stay in the cache.
SIDE_BY_SIDE = 8192
MAX_STEPS = 50_000_000
WARP = 32
_STORAGE = {1: np.dtype("?"), 8: np.dtype("u1"), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}
_SPECIAL = ("tid", "ntid", "ctaid", "nctaid")
_CONTROL = ("bra", "ret", "exit", "bar", "barrier")


class Threads:
    """The threads of a set of blocks: registers, memories, and who they are. `None` as a selection means all of them."""

    def __init__(self, program: Program, memory: DeviceMemory, grid: tuple[int, ...], block: tuple[int, ...], first: int, blocks: int):
        kernel = program.kernel
        self.device = memory
        self.block_size = int(np.prod(block))
        self.count = blocks * self.block_size
        self.registers: list[Any] = [None] * len(program.registers)
        self.arguments: dict[str, Any] = {}
        self.shared = BlockMemory(kernel.shared, blocks, program.granule)
        self.local = BlockMemory(kernel.local, self.count if kernel.local else 1)
        number = np.arange(self.count)
        self.block_of, self.thread_of = number // self.block_size, number % self.block_size
        self.number_of = (self.thread_of + 1).astype(np.int32)
        self.everyone = number
        self.block_numbers = first + self.block_of
        self.special = {}
        for name, sizes, place in (("tid", block, self.thread_of), ("ctaid", grid, self.block_numbers)):
            rest = place
            for axis, size in zip("xyz", sizes, strict=True):
                self.special[f"%{name}.{axis}"] = (rest % size).astype("u4")
                self.special[f"%n{name}.{axis}"] = np.full(self.count, size, "u4")
                rest = rest // size
        # Asynchronous copies: [group per thread], and what is still under way.
        self.groups = np.zeros(self.count, np.int64)
        self.copies: list[tuple[Array, Array, Array, Array]] = []

    def chosen(self, some: Any) -> Array:
        return self.everyone if some is None else some


@dataclass
class _Place:
    """Reading operands and writing results of one instruction."""

    program: Program
    instruction: Instruction

    def fail(self, message: str) -> PtxError:
        return self.program.error(self.instruction, message)

    def read(self, operand: Operand, dtype: np.dtype[Any]) -> Read:
        """How to get an operand as `dtype`: an array over the chosen threads, or a scalar."""
        if isinstance(operand, Number):
            return self._constant(self._number(operand, dtype))
        if isinstance(operand, Symbol):
            offset = self.program.offset(operand.name)
            if offset is None:
                raise self.fail(f"expected a variable but got '{operand.name}'")
            return self._constant(dtype.type(offset))
        if not isinstance(operand, Register):
            raise self.fail("expected a register or a number")
        if operand.name.split(".")[0].removeprefix("%") in _SPECIAL:
            name = operand.name
            return lambda t, some: t.special[name] if some is None else t.special[name][some]
        index, storage = self.program.register(operand, self.instruction)
        if storage.itemsize < dtype.itemsize or (storage.kind == "b") != (dtype.kind == "b"):
            raise self.fail(f"expected a register of {8 * dtype.itemsize} bits but got '{operand.name}'")
        line = self.instruction

        def get(t: Threads, some: Any) -> Any:
            values = t.registers[index]
            if values is None:
                raise self.program.error(line, f"register '{operand.name}' is read before it is written")
            values = values if some is None else values[some]
            if values.dtype.itemsize > dtype.itemsize:
                values = values.astype(f"u{dtype.itemsize}")
            return values.view(dtype)

        return get

    def _constant(self, value: Any) -> Read:
        return lambda t, some: value

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

    def write(self, operand: Operand) -> Write:
        """How to store a result for the chosen threads; narrower results fill the register by their sign or with zeros."""
        if not isinstance(operand, Register):
            raise self.fail("expected a register as the result")
        if operand.name == "%_" or operand == Register("_"):
            return lambda t, some, value: None
        index, storage = self.program.register(operand, self.instruction)

        def put(t: Threads, some: Any, value: Any) -> None:
            value = np.asarray(value)
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


def _registers(operands: Sequence[Operand]) -> Iterator[Register]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand
        elif isinstance(operand, Address) and isinstance(operand.base, Register):
            yield operand.base
        elif isinstance(operand, Group):
            yield from _registers(operand.items)


class Program:
    """A kernel made ready to run: a step per instruction, and where straight runs of them begin."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.registers: dict[str, int] = {}
        layout = BlockMemory(kernel.shared, 0)
        self.offsets = {**layout.offsets, **BlockMemory(kernel.local, 0).offsets}
        self.granule = self._granule()
        self._mentions: Counter[Register] = Counter()
        self.leaders = set(kernel.labels.values())
        self.steps: list[Step | None] = [None if i.parts[0] in _CONTROL else self._step(i) for i in kernel.code]
        self.guards = [self._guard(i) for i in kernel.code]

    def _granule(self) -> int:
        """Bytes of the smallest element of shared memory."""
        sizes = [TYPES[i.parts[-1]].itemsize for i in self.kernel.code if i.parts[0] in ("ld", "st") and "shared" in i.parts and i.parts[-1] in TYPES]
        return min([4, *sizes])

    def error(self, instruction: Instruction, message: str, threads: Threads | None = None, thread: int | None = None) -> PtxError:
        where = f"kernel '{self.kernel.name}', line {instruction.line} ({instruction.op})"
        if threads is not None and thread is not None:
            where += f", block {int(threads.block_numbers[thread])}, thread {int(threads.thread_of[thread])}"
        return PtxError(f"{where}: {message}")

    def offset(self, name: str) -> int | None:
        return self.offsets.get(name)

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

    def _guard(self, instruction: Instruction) -> Read | None:
        if instruction.guard is None:
            return None
        get = _Place(self, instruction).read(instruction.guard, TYPES["pred"])
        return (lambda t, some: ~get(t, some)) if instruction.negated else get

    def _step(self, instruction: Instruction) -> Step:
        make = _MAKERS.get(instruction.parts[0])
        if make is None:
            raise self.error(instruction, "expected an instruction that the runner knows")
        step = make(_Place(self, instruction), instruction.parts, *instruction.operands)
        if instruction.guard is None:
            return step
        guard = self._guard(instruction)
        assert guard is not None

        def guarded(t: Threads, some: Any) -> None:
            on = np.flatnonzero(np.broadcast_to(guard(t, some), len(t.chosen(some))))
            if len(on):
                step(t, t.chosen(some)[on])

        return guarded

    # --- running

    def launch(self, memory: DeviceMemory, grid: Sequence[int], block: Sequence[int], arguments: Sequence[int]) -> None:
        """Run the kernel on all blocks of the grid; `PtxError` when it does what it must not."""
        grid, block = (tuple([*sizes, 1, 1][:3]) for sizes in (grid, block))
        self._check(grid, block, arguments)
        blocks, size = int(np.prod(grid)), int(np.prod(block))
        at_once = max(1, SIDE_BY_SIDE // size)
        with np.errstate(all="ignore"):
            for first in range(0, blocks, at_once):
                threads = Threads(self, memory, grid, block, first, min(at_once, blocks - first))
                for (name, width), value in zip(self.kernel.params.items(), arguments, strict=True):
                    threads.arguments[name] = np.frombuffer((int(value) & ((1 << 8 * width) - 1)).to_bytes(width, "little"), np.uint8)
                self._run(threads)

    def _check(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[int]) -> None:
        name = self.kernel.name
        if len(arguments) != len(self.kernel.params):
            raise PtxError(f"expected {len(self.kernel.params)} arguments for kernel '{name}' but got {len(arguments)}")
        if min(block) < 1 or min(grid) < 0 or grid[0] >= 1 << 31 or max(grid[1:]) > 65535:
            raise PtxError(f"expected sizes that a device can launch for kernel '{name}' but got grid {list(grid)} of blocks {list(block)}")
        most = self.kernel.threads or 1024
        if int(np.prod(block)) > most:
            raise PtxError(f"expected blocks of at most {most} threads for kernel '{name}' but got {list(block)}")

    def _run(self, t: Threads) -> None:
        """Turns: those at the lowest place run until they part, meet others, wait or end."""
        code = self.kernel.code
        place = np.zeros(t.count, np.int64)
        waiting, ended = np.zeros(t.count, bool), np.zeros(t.count, bool)
        together: int | None = 0  # where all stand, when they do
        steps = 0
        while True:
            if together is not None:
                at, some = together, None
            else:
                ready = ~(waiting | ended)
                if not ready.any():
                    if ended.all():
                        return
                    self._meet(t, place, waiting, ended)
                    together = int(place[0]) if not ended.any() and (place == place[0]).all() else None
                    continue
                at = int(place[ready].min())
                chosen = ready & (place == at)
                some = None if chosen.all() else np.flatnonzero(chosen)
            start = at
            while True:
                if at >= len(code):
                    raise PtxError(f"kernel '{self.kernel.name}' runs past its end")
                steps += 1
                step = self.steps[at]
                if step is None or (some is not None and at != start and at in self.leaders):
                    break
                try:
                    step(t, some)
                except Fault as fault:
                    raise self._locate(code[at], t, some, fault) from None
                at += 1
            if steps > MAX_STEPS:
                raise PtxError(f"kernel '{self.kernel.name}' has not ended after {MAX_STEPS} steps")
            if step is not None:
                place[some] = at
                continue
            together = self._control(t, code[at], at, some, place, waiting, ended)

    def _locate(self, instruction: Instruction, t: Threads, some: Any, fault: Fault) -> PtxError:
        chosen = t.chosen(some)
        if instruction.guard is not None:
            guard = self._guard(instruction)
            assert guard is not None
            chosen = chosen[np.flatnonzero(np.broadcast_to(guard(t, some), len(chosen)))]
        return self.error(instruction, str(fault), t, int(chosen[fault.position]))

    def _control(self, t: Threads, instruction: Instruction, at: int, some: Any, place: Array, waiting: Array, ended: Array) -> int | None:
        """A branch, an end or a barrier. Where all threads stand afterwards, if that is one place."""
        chosen = t.chosen(some)
        guard = self.guards[at]
        on = np.ones(len(chosen), bool) if guard is None else np.broadcast_to(guard(t, some), len(chosen))
        word = instruction.parts[0]
        if word == "bra":
            assert isinstance(instruction.operands[0], Symbol)
            target = self.kernel.labels[instruction.operands[0].name]
            if some is None and on.all():
                return target
            if some is None and not on.any():
                return at + 1
            place[chosen] = np.where(on, target, at + 1)
            return None
        place[chosen] = at + 1
        if word in ("ret", "exit"):
            ended[chosen[on]] = True
            return None
        if guard is not None:
            raise self.error(instruction, "expected a barrier without a condition", t, int(chosen[0]))
        if some is None:
            self._pass(t, np.arange(t.count // t.block_size))
            return at + 1
        waiting[chosen] = True
        return None

    def _meet(self, t: Threads, place: Array, waiting: Array, ended: Array) -> None:
        """No thread can go on: whole blocks that wait at one barrier pass it, and others are at fault."""
        by_block = (-1, t.block_size)
        held = waiting.reshape(by_block)
        places = place.reshape(by_block)
        for block in np.flatnonzero(held.any(1)):
            first = int(np.flatnonzero(held[block])[0])
            instruction = self.kernel.code[int(places[block, first]) - 1]
            thread = int(block) * t.block_size + first
            if not held[block].all():
                other = int(np.flatnonzero(~held[block])[0])
                raise self.error(instruction, f"divergent barrier: thread {other} of the block has ended", t, thread)
            elsewhere = np.flatnonzero(places[block] != places[block, first])
            if len(elsewhere):
                line = self.kernel.code[int(places[block, elsewhere[0]]) - 1].line
                raise self.error(instruction, f"divergent barrier: thread {int(elsewhere[0])} of the block waits at line {line}", t, thread)
        self._pass(t, np.flatnonzero(held.any(1)))
        waiting[:] = False

    def _pass(self, t: Threads, blocks: Array) -> None:
        t.shared.pass_barrier(blocks)


# --- instructions: each maker turns one into a step


def _typed(place: _Place, parts: list[str]) -> np.dtype[Any]:
    """The type that an opcode ends with."""
    dtype = TYPES.get(parts[-1])
    if dtype is None:
        raise place.fail("expected an instruction with a known type")
    return dtype


def _check_parts(place: _Place, parts: Sequence[str], allowed: Sequence[str]) -> None:
    """Nothing that changes what an instruction does may go unseen."""
    unknown = [p for p in parts if p not in allowed]
    if unknown:
        raise place.fail(f"expected an instruction that the runner knows but got '.{unknown[0]}'")


_ROUNDED = ("rn",)


def _simple(compute: Callable[..., Any], arity: int, modifiers: Sequence[str] = ()) -> Callable[..., Step]:
    """An instruction whose operands and result have the type at its end; `compute` gets it as a keyword if it asks for `dtype`."""
    takes_type = "dtype" in compute.__code__.co_varnames[: compute.__code__.co_argcount] if hasattr(compute, "__code__") else False

    def make(place: _Place, parts: list[str], result: Operand, *sources: Operand) -> Step:
        dtype = _typed(place, parts)
        _check_parts(place, parts[1:-1], (*_ROUNDED, *modifiers))
        if len(sources) != arity:
            raise place.fail(f"expected {arity} operands but got {len(sources)}")
        reads, put = [place.read(s, dtype) for s in sources], place.write(result)
        run = partial(compute, dtype=dtype) if takes_type else compute
        if arity == 1:
            only = reads[0]
            return lambda t, some: put(t, some, run(only(t, some)))
        if arity == 2:
            first, second = reads
            return lambda t, some: put(t, some, run(first(t, some), second(t, some)))
        return lambda t, some: put(t, some, run(*(r(t, some) for r in reads)))

    return make


def _make_mul(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand, c: Operand | None = None) -> Step:
    """mul and mad: `.lo`, `.hi` or `.wide` of integers, and products of floats."""
    dtype = _typed(place, parts)
    mode = parts[1] if len(parts) > 2 else ""
    _check_parts(place, parts[1:-1], ("lo", "hi", "wide", "rn"))
    whole = arithmetic.widened(dtype) if mode == "wide" else dtype
    first, second, put = place.read(a, dtype), place.read(b, dtype), place.write(result)
    third = place.read(c, whole) if c is not None else None

    def product(x: Any, y: Any) -> Any:
        if mode == "hi":
            return arithmetic.multiply_high(x, y, dtype)
        return np.asarray(x, whole) * np.asarray(y, whole)

    if third is None:
        return lambda t, some: put(t, some, product(first(t, some), second(t, some)))
    return lambda t, some: put(t, some, product(first(t, some), second(t, some)) + third(t, some))


def _make_shift(compute: Callable[..., Array]) -> Callable[..., Step]:
    def make(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand) -> Step:
        dtype = _typed(place, parts)
        value, count, put = place.read(a, dtype), place.read(b, TYPES["u32"]), place.write(result)
        if isinstance(b, Number) and 0 <= b.value < 8 * dtype.itemsize:
            number = dtype.type(b.value)
            left = compute is arithmetic.shift_left
            return lambda t, some: put(t, some, value(t, some) << number if left else value(t, some) >> number)
        return lambda t, some: put(t, some, compute(value(t, some), count(t, some), dtype))

    return make


def _make_shf(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand, c: Operand) -> Step:
    _check_parts(place, parts[2:], ("wrap", "b32"))
    compute = arithmetic.funnel_left if parts[1] == "l" else arithmetic.funnel_right
    reads, put = [place.read(s, TYPES["u32"]) for s in (a, b, c)], place.write(result)
    return lambda t, some: put(t, some, compute(*(r(t, some) for r in reads)))


def _make_bfe(place: _Place, parts: list[str], result: Operand, a: Operand, start: Operand, length: Operand) -> Step:
    dtype = _typed(place, parts)
    value, put = place.read(a, dtype), place.write(result)
    at, size = place.read(start, TYPES["u32"]), place.read(length, TYPES["u32"])
    return lambda t, some: put(t, some, arithmetic.extract_bits(value(t, some), at(t, some), size(t, some), dtype))


def _make_prmt(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand, c: Operand) -> Step:
    _check_parts(place, parts[1:], ("b32",))
    reads, put = [place.read(s, TYPES["u32"]) for s in (a, b, c)], place.write(result)
    return lambda t, some: put(t, some, arithmetic.permute_bytes(*(r(t, some) for r in reads)))


def _make_mov(place: _Place, parts: list[str], result: Operand, source: Operand) -> Step:
    dtype = _typed(place, parts)
    if isinstance(source, Group):
        width = dtype.itemsize // len(source.items)
        part = np.dtype(f"u{width}")
        reads, put = [place.read(s, part) for s in source.items], place.write(result)

        def pack(t: Threads, some: Any) -> None:
            count = len(t.chosen(some))
            words = np.stack([np.broadcast_to(r(t, some), count) for r in reads], 1)
            put(t, some, np.ascontiguousarray(words).view(f"u{dtype.itemsize}").reshape(count))

        return pack
    get = place.read(source, dtype)
    if isinstance(result, Group):
        part = np.dtype(f"u{dtype.itemsize // len(result.items)}")
        puts = [place.write(r) if r != Symbol("_") else None for r in result.items]

        def unpack(t: Threads, some: Any) -> None:
            value = np.ascontiguousarray(np.broadcast_to(get(t, some), len(t.chosen(some))))
            words = value.view(part).reshape(len(value), len(puts))
            for k, put in enumerate(puts):
                if put is not None:
                    put(t, some, words[:, k].copy())

        return unpack
    put = place.write(result)
    # A copy: registers are written in place when some of the threads write.
    return lambda t, some: put(t, some, np.array(get(t, some)))


def _make_setp(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand) -> Step:
    if len(parts) != 3 or parts[1] not in COMPARISONS:
        raise place.fail("expected a comparison that the runner knows")
    dtype = _typed(place, parts)
    first, second, put = place.read(a, dtype), place.read(b, dtype), place.write(result)
    compare = COMPARISONS[parts[1]] if dtype.kind == "f" or parts[1] != "ne" else np.not_equal
    return lambda t, some: put(t, some, compare(first(t, some), second(t, some)))


def _make_selp(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand, p: Operand) -> Step:
    dtype = _typed(place, parts)
    first, second, on, put = place.read(a, dtype), place.read(b, dtype), place.read(p, TYPES["pred"]), place.write(result)
    return lambda t, some: put(t, some, np.where(on(t, some), first(t, some), second(t, some)))


def _make_cvt(place: _Place, parts: list[str], result: Operand, source: Operand) -> Step:
    target, origin = parts[-2], parts[-1]
    rounding = parts[1] if len(parts) > 3 else None
    _check_parts(place, parts[1:-2], ("rn", "rna", "rz", "rni", "rzi", "rmi", "rpi"))
    if rounding == "rz":
        raise place.fail("expected a conversion that rounds to nearest")
    get, put = place.read(source, TYPES[origin]), place.write(result)
    return lambda t, some: put(t, some, arithmetic.convert(get(t, some), target, origin, rounding))


def _make_cvta(place: _Place, parts: list[str], result: Operand, source: Operand) -> Step:
    if "shared" in parts or "local" in parts:
        # An address of its own window; whoever uses it says which window by the instruction.
        if "to" in parts:
            raise place.fail("expected no generic address of shared or local memory")
    get, put = place.read(source, TYPES["u64"]), place.write(result)
    return lambda t, some: put(t, some, np.array(get(t, some)))


def _make_testp(place: _Place, parts: list[str], result: Operand, source: Operand) -> Step:
    tests: dict[str, Callable[..., Any]] = {"infinite": np.isinf, "finite": np.isfinite, "notanumber": np.isnan, "number": lambda x: ~np.isnan(x)}
    if parts[1] not in tests:
        raise place.fail("expected a test that the runner knows")
    get, put, test = place.read(source, _typed(place, parts)), place.write(result), tests[parts[1]]
    return lambda t, some: put(t, some, test(get(t, some)))


def _make_extreme(compute: Callable[..., Array]) -> Callable[..., Step]:
    def make(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand) -> Step:
        dtype = _typed(place, parts)
        _check_parts(place, parts[1:-1], ("NaN",))
        keeps = "NaN" in parts
        first, second, put = place.read(a, dtype), place.read(b, dtype), place.write(result)
        return lambda t, some: put(t, some, compute(first(t, some), second(t, some), keeps))

    return make


# --- memory


def _addresses(place: _Place, operand: Operand) -> Read:
    if not isinstance(operand, Address):
        raise place.fail("expected an address")
    offset = np.uint64(operand.offset & 0xFFFFFFFFFFFFFFFF)
    if operand.base is None:
        return lambda t, some: np.full(len(t.chosen(some)), offset)
    base = operand.base
    wide = isinstance(base, Symbol) or place.program.register(base, place.instruction)[1].itemsize == 8
    get = place.read(base, TYPES["u64"] if wide else TYPES["u32"])

    def addresses(t: Threads, some: Any) -> Array:
        value = np.asarray(get(t, some)).astype(np.uint64) + offset
        return value if value.shape else np.full(len(t.chosen(some)), value)

    return addresses


def _space(place: _Place, parts: list[str]) -> str:
    for space in ("global", "shared", "local", "param"):
        if space in parts:
            return space
    raise place.fail("expected global, shared, local or param memory")


def _located(t: Threads, some: Any, space: str, addresses: Array, size: int, write: bool, what: str, race_free: bool = False) -> tuple[Array, Array]:
    """(the bytes of a memory, checked positions in it)."""
    if space == "global":
        return t.device.bytes, t.device.places(addresses, size, what)
    chosen = t.chosen(some)
    if space == "local":
        return t.local.bytes, t.local.places(addresses, chosen, size, what)
    places = t.shared.places(addresses, t.block_of[chosen], size, what)
    if not race_free:
        note = t.shared.note_write if write else t.shared.note_read
        note(places, size, t.number_of[chosen], what)
    return t.shared.bytes, places


def _make_ld(place: _Place, parts: list[str], result: Operand, source: Operand) -> Step:
    dtype, space = _typed(place, parts), _space(place, parts)
    _check_parts(place, parts[1:-1], ("global", "shared", "local", "param", "nc", "v2", "v4", "v8", "L1", "relaxed"))
    if space == "param":
        assert isinstance(source, Address)
        params = place.program.kernel.params
        if not isinstance(source.base, Symbol) or source.offset + dtype.itemsize > params.get(source.base.name, 0):
            raise place.fail("expected a parameter of the kernel")
        name, put, part = source.base.name, place.write(result), slice(source.offset, source.offset + dtype.itemsize)
        # Half of a wide parameter may be all that is used of it.
        return lambda t, some: put(t, some, t.arguments[name][part].view(f"u{dtype.itemsize}")[0])
    targets = result.items if isinstance(result, Group) else (result,)
    puts = [None if r in (Symbol("_"), Register("%_")) else place.write(r) for r in targets]
    where, size = _addresses(place, source), dtype.itemsize * len(targets)

    def load(t: Threads, some: Any) -> None:
        memory, places = _located(t, some, space, where(t, some), size, False, "a load")
        elements, at = memory.view(dtype), places // dtype.itemsize
        for k, put in enumerate(puts):
            if put is not None:
                put(t, some, elements[at + k] if k else elements[at])

    return load


def _make_st(place: _Place, parts: list[str], target: Operand, source: Operand) -> Step:
    dtype, space = _typed(place, parts), _space(place, parts)
    _check_parts(place, parts[1:-1], ("global", "shared", "local", "v2", "v4", "v8"))
    sources = source.items if isinstance(source, Group) else (source,)
    reads = [place.read(s, dtype) for s in sources]
    where, size = _addresses(place, target), dtype.itemsize * len(sources)

    def store(t: Threads, some: Any) -> None:
        memory, places = _located(t, some, space, where(t, some), size, True, "a store")
        elements, at = memory.view(dtype), places // dtype.itemsize
        for k, get in enumerate(reads):
            elements[at + k] = get(t, some)

    return store


def _make_atom(place: _Place, parts: list[str], *operands: Operand) -> Step:
    dtype, space = _typed(place, parts), _space(place, parts)
    _check_parts(place, parts[1:-1], ("global", "shared", "relaxed", "gpu", "cta", "sys", "add"))
    target, source = operands[-2:]
    result = operands[0] if parts[0] == "atom" else None
    get, where = place.read(source, dtype), _addresses(place, target)
    # LLVM asks for the old value also where nobody reads it.
    put = place.write(result) if isinstance(result, Register) and place.program.mentions(result) > 1 else None

    def add(t: Threads, some: Any) -> None:
        memory, places = _located(t, some, space, where(t, some), dtype.itemsize, True, "an atomic", race_free=True)
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


# --- what a warp does together


def _whole_warps(place: _Place, t: Threads, some: Any) -> Array:
    """The chosen threads as [warps, 32]; an error when one is missing."""
    chosen = t.chosen(some)
    lanes = t.thread_of[chosen] % WARP
    if len(chosen) % WARP or not (lanes.reshape(-1, WARP) == np.arange(WARP)).all():
        odd = np.flatnonzero(lanes != np.arange(len(lanes)) % WARP)
        thread = int(chosen[odd[0] if len(odd) else -1])
        raise place.program.error(place.instruction, "expected whole warps but some of their threads are elsewhere", t, thread)
    return chosen.reshape(-1, WARP)


def _make_shfl(place: _Place, parts: list[str], result: Operand, source: Operand, by: Operand, clamp: Operand, mask: Operand) -> Step:
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


def _make_mma(place: _Place, parts: list[str], result: Operand, a: Operand, b: Operand, c: Operand) -> Step:
    shape = ".".join(parts[3:])
    if shape not in ("m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k8.row.col.f32.tf32.tf32.f32"):
        raise place.fail("expected a matrix product that the runner knows")
    depth = 16 if "k16" in shape else 8
    groups = (result, a, b, c)
    if not all(isinstance(g, Group) for g in groups):
        raise place.fail("expected groups of registers")
    puts = [place.write(r) for r in result.items]  # type: ignore[union-attr]
    reads = [[place.read(s, TYPES[kind]) for s in g.items] for g, kind in ((a, "b32"), (b, "b32"), (c, "f32"))]  # type: ignore[union-attr]

    def floats(words: Array) -> Array:
        """[warps, 32, registers] as float32 elements: two bf16 of a register, or the bits that tf32 has."""
        if depth == 8:
            return (words & np.uint32(0xFFFFE000)).view(np.float32)
        halves = np.stack([words << np.uint32(16), words & np.uint32(0xFFFF0000)], -1)
        return halves.reshape(*words.shape[:2], -1).view(np.float32)

    def multiply(t: Threads, some: Any) -> None:
        warps = _whole_warps(place, t, some)
        stacked = [
            np.stack([np.broadcast_to(r(t, some), warps.size) for r in group], -1).reshape(len(warps), WARP, len(group)) for group in reads
        ]
        product = arithmetic.multiply_tiles(floats(stacked[0]), floats(stacked[1]), stacked[2], depth)
        for k, put in enumerate(puts):
            put(t, some, np.ascontiguousarray(product[:, :, k]).reshape(-1))

    return multiply


def _make_ldmatrix(place: _Place, parts: list[str], result: Operand, source: Operand) -> Step:
    _check_parts(place, parts[1:], ("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "b16"))
    targets = result.items if isinstance(result, Group) else (result,)
    puts, where, transpose, count = [place.write(r) for r in targets], _addresses(place, source), "trans" in parts, len(targets)

    def load(t: Threads, some: Any) -> None:
        warps = _whole_warps(place, t, some)
        asked = warps[:, : 8 * count].reshape(-1)
        rows = where(t, some).reshape(-1, WARP)[:, : 8 * count].reshape(-1)
        places = t.shared.places(rows, t.block_of[asked], 16, "a load")
        t.shared.note_read(places, 16, t.number_of[asked], "a load")
        tiles = t.shared.bytes.view("u2")[(places // 2)[:, None] + np.arange(8)].reshape(len(warps), count, 8, 8)
        tiles = np.ascontiguousarray(tiles.swapaxes(2, 3) if transpose else tiles)
        words = tiles.view("u4").reshape(len(warps), count, WARP)
        for k, put in enumerate(puts):
            put(t, some, np.ascontiguousarray(words[:, k]).reshape(-1))

    return load


# --- copies that go on while threads work


def _make_cp(place: _Place, parts: list[str], *operands: Operand) -> Step:
    word = ".".join(parts[1:3])
    if word == "async.commit_group":
        return _commit
    if word == "async.wait_all":
        return partial(_wait, pending=-1)
    if word == "async.wait_group":
        if not isinstance(operands[0], Number):
            raise place.fail("expected a known number of groups")
        return partial(_wait, pending=operands[0].value)
    _check_parts(place, parts[1:], ("async", "ca", "cg", "shared", "global"))
    target, source, size = operands[:3]
    if not isinstance(size, Number):
        raise place.fail("expected a known size")
    to, where, bytes_ = _addresses(place, target), _addresses(place, source), size.value
    reading = place.read(operands[3], TYPES["u32"]) if len(operands) > 3 else (lambda t, some: np.uint32(bytes_))

    def copy(t: Threads, some: Any) -> None:
        chosen = t.chosen(some)
        whole = np.broadcast_to(reading(t, some), len(chosen))
        data = np.zeros((len(chosen), bytes_), np.uint8)
        on = np.flatnonzero(whole)
        places = t.device.places(where(t, some)[on], bytes_, "an asynchronous copy")
        data[on] = t.device.bytes[places[:, None] + np.arange(bytes_)]
        data[np.arange(bytes_) >= whole[:, None]] = 0
        target_places = t.shared.places(to(t, some), t.block_of[chosen], bytes_, "an asynchronous copy")
        t.shared.note_write(target_places, bytes_, t.number_of[chosen], "an asynchronous copy")
        t.copies.append((chosen, t.groups[chosen], target_places, data))

    return copy


def _commit(t: Threads, some: Any) -> None:
    t.groups[t.chosen(some)] += 1


def _wait(t: Threads, some: Any, pending: int) -> None:
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


def _ones(x: Array) -> Array:
    return np.bitwise_count(x).astype("u4")


_MAKERS: dict[str, Callable[..., Step]] = {
    "add": _simple(lambda a, b: a + b, 2),
    "sub": _simple(lambda a, b: a - b, 2),
    "mul": _make_mul,
    "mad": _make_mul,
    "fma": _simple(arithmetic.fma, 3),
    "div": _simple(arithmetic.divide, 2),
    "rem": _simple(arithmetic.remainder, 2),
    "neg": _simple(lambda a: -a, 1),
    "abs": _simple(lambda a: np.abs(a), 1),
    "min": _make_extreme(arithmetic.smaller),
    "max": _make_extreme(arithmetic.larger),
    "and": _simple(lambda a, b: a & b, 2),
    "or": _simple(lambda a, b: a | b, 2),
    "xor": _simple(lambda a, b: a ^ b, 2),
    "not": _simple(lambda a: ~a, 1),
    "popc": _simple(_ones, 1),
    "shl": _make_shift(arithmetic.shift_left),
    "shr": _make_shift(arithmetic.shift_right),
    "shf": _make_shf,
    "bfe": _make_bfe,
    "prmt": _make_prmt,
    "mov": _make_mov,
    "setp": _make_setp,
    "selp": _make_selp,
    "cvt": _make_cvt,
    "cvta": _make_cvta,
    "testp": _make_testp,
    "copysign": _simple(lambda a, b: np.copysign(b, a), 2),
    "sqrt": _simple(lambda a: np.sqrt(a), 1),
    "rcp": _simple(lambda a: np.reciprocal(a), 1),
    "ld": _make_ld,
    "st": _make_st,
    "atom": _make_atom,
    "red": _make_atom,
    "shfl": _make_shfl,
    "mma": _make_mma,
    "ldmatrix": _make_ldmatrix,
    "cp": _make_cp,
}
