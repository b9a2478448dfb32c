"""A report of the memory plan: which buffers there are, when they are live, where in the arena they lie, and what shares bytes.

    report = memory_report(module, target)      # at kernel level
    print(report)
"""

from __future__ import annotations

from collections.abc import Mapping

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module
from polyreme.ir.config import bytes_text
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, evaluate, symbols
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.facts import bytes_of
from polyreme.lowering.schedule.arena import lifetime_of, plan_memory
from polyreme.lowering.schedule.bufferize import outline_constants

__all__ = ["ArenaBuffer", "MemoryReport", "memory_report"]


@dataclass(frozen=True)
class ArenaBuffer:
    """A buffer of the arena: live from step `first` to step `last` of `main`, at `offset`. `writer` is what first works on it; sizes and
    offsets may be symbolic.
    """

    name: str
    type: str
    bytes: Dim
    offset: Dim
    first: int
    last: int
    writer: str


@dataclass(frozen=True)
class MemoryReport:
    """The arena of one function, and the bytes of the arguments that it works on, by role. `steps` is how many ops of `main` the lifetimes
    count.
    """

    buffers: tuple[ArenaBuffer, ...]
    arguments: Mapping[str, tuple[int, Dim]]
    steps: int

    @property
    def symbols(self) -> tuple[str, ...]:
        """The free sizes that the plan depends on."""
        return tuple(
            sorted(
                frozenset().union(
                    *(symbols(d) for b in self.buffers for d in (b.bytes, b.offset)), *(symbols(n) for _, n in self.arguments.values())
                )
            )
        )

    def at(self, sizes: Mapping[str, int]) -> MemoryReport:
        """The same with numbers in the place of free sizes."""
        number = lambda d: evaluate(d, dict(sizes))
        buffers = tuple(ArenaBuffer(b.name, b.type, number(b.bytes), number(b.offset), b.first, b.last, b.writer) for b in self.buffers)
        return MemoryReport(buffers, {role: (count, number(n)) for role, (count, n) in self.arguments.items()}, self.steps)

    # --- of a plan in numbers

    @property
    def arena_bytes(self) -> int:
        """What a run allocates."""
        return max((_end(b) for b in self.buffers), default=0)

    @property
    def live(self) -> tuple[int, ...]:
        """Bytes that are live at each step: no plan can do with less than the most of them."""
        live = [0] * max(self.steps, 1)
        for b in self.buffers:
            for step in range(b.first, b.last + 1):
                live[step] += int(b.bytes)
        return tuple(live)

    def sharing(self, buffer: ArenaBuffer) -> list[ArenaBuffer]:
        """The others that lie in some of the same bytes."""
        low, high = int(buffer.offset), _end(buffer)
        return [b for b in self.buffers if b is not buffer and int(b.offset) < high and low < _end(b)]

    def __str__(self) -> str:
        names = self.symbols
        shown = self.at(dict.fromkeys(names, 1)) if names else self
        return "\n".join([*([f"for {', '.join(f'{n} = 1' for n in names)}"] if names else []), *shown._lines()]) + "\n"

    def _lines(self) -> list[str]:
        whole, apart = self.arena_bytes, sum(int(b.bytes) for b in self.buffers)
        live = self.live
        peak = live.index(max(live))
        lines = [
            f"arena: {whole} bytes ({bytes_text(whole)}) for {len(self.buffers)} buffers; {apart} ({bytes_text(apart)}) if none shared "
            f"bytes"
        ]
        if self.buffers:
            at_peak = ", ".join(b.name for b in self.buffers if b.first <= peak <= b.last)
            lines.append(f"most live: {max(live)} bytes at step {peak} of {self.steps}: {at_peak}")
        for role, (count, size) in self.arguments.items():
            lines.append(f"{role}: {count} of {size} bytes ({bytes_text(float(int(size)))})")
        if not self.buffers:
            return lines
        rows = [("buffer", "bytes", "offset", "steps", "type", "first used by", "shares bytes with")]
        for b in self.buffers:
            shared = [("=" if (s.offset, s.bytes) == (b.offset, b.bytes) else "") + s.name for s in self.sharing(b)]
            rows.append((b.name, str(b.bytes), str(b.offset), f"{b.first}-{b.last}", b.type, b.writer, " ".join(shared)))
        widths = [max(len(row[i]) for row in rows) for i in range(7)]
        for row in rows:
            cells = [cell.rjust(w) if i in (1, 2, 3) else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
            lines.append("  ".join(cells).rstrip())
        return lines


def memory_report(module: Module) -> MemoryReport:
    """The plan of `main` of a module at kernel level, which is left as it is."""
    program = Program.of(module)
    main = program.function()
    outline_constants(program)
    plan_memory(main)
    steps = {op: i for i, op in enumerate(main.block)}
    found: list[ArenaBuffer] = []
    names: set[str] = set()
    for alloc in main.walk():
        if isinstance(alloc, kernel.Alloc) and alloc.space == "arena":
            first, last = lifetime_of(alloc, main, steps)
            writer = main.block.ops[first]
            found.append(
                ArenaBuffer(
                    _name(alloc.result, writer, names),
                    str(alloc.result.type),
                    bytes_of(alloc.result.type),
                    alloc.offset,
                    first,
                    last,
                    _what(writer),
                )
            )
    return MemoryReport(tuple(found), _arguments(main), len(steps))


def _arguments(main: Func) -> dict[str, tuple[int, Dim]]:
    """How many arguments there are of each role, and their bytes."""
    found: dict[str, tuple[int, Dim]] = {}
    for arg, role in zip(main.args, main.arg_roles or ("input",) * len(main.args), strict=True):
        count, size = found.get(role, (0, 0))
        found[role] = count + 1, size + bytes_of(arg.type)
    return found


def _name(value: Value, writer: Op, names: set[str]) -> str:
    base = value.name or _what(writer).rpartition("_")[0] or "buffer"
    name, k = base, 1
    while name in names:
        name, k = f"{base}.{k}", k + 1
    names.add(name)
    return name


def _what(op: Op) -> str:
    return op.callee.name if isinstance(op, (kernel.Call, kernel.Launch)) else op.name


def _end(buffer: ArenaBuffer) -> int:
    return int(buffer.offset) + int(buffer.bytes)
