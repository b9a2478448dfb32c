"""What is known about the functions of a kernel-level module before code is written: what they need, and what their arguments promise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from polyreme.dialects import kernel
from polyreme.dialects.kernel.effects import root_of, written_by
from polyreme.ir.builtin import Func
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, Type

# Most ops of a kernel are of these: they only make values.
SILENT: frozenset[type[Op]] = frozenset(
    {
        kernel.Apply,
        kernel.Fma,
        kernel.Dot2,
        kernel.Dot4,
        kernel.Load,
        kernel.Constant,
        kernel.Shuffle,
        kernel.Reinterpret,
        kernel.Broadcast,
        kernel.For,
        kernel.Yield,
        kernel.LaneMask,
    }
)


@dataclass
class Facts:
    """What a function needs beside its own arguments, and what its arguments promise. `sizes` are what it reads of sizes, itself or by what
    it calls, in the order in which a kernel finds them in its array.
    """

    pool: bool
    sizes: tuple[Expr, ...]
    written: frozenset[int]
    shared: frozenset[int]  # arguments that may overlap another one
    ops: int  # how many there are in the function
    calls: frozenset[str]


def overlap(a: Value, b: Value) -> bool:
    """Whether two buffers may share memory: parts of the same one that meet, allocations whose places in the arena meet, an argument and
    the result that takes its place.
    """
    (part_a, low_a), (part_b, low_b) = _part_of(a), _part_of(b)
    if part_a is part_b:
        size_a, size_b = (product(x.type.shape) for x in (a, b))
        known = isinstance(size_a, int) and isinstance(size_b, int)
        return not known or bool(low_a < low_b + size_b and low_b < low_a + size_a)
    a, b = root_of(a), root_of(b)
    first, second = a.producer(kernel.Alloc), b.producer(kernel.Alloc)
    if a is b or first is None or second is None or not first.space == second.space == "arena":
        return a is b or _takes_place(a, b)
    from_a, from_b = first.offset, second.offset
    if isinstance(from_a, int) and isinstance(from_b, int):
        to_a, to_b = from_a + bytes_of(first.result.type), from_b + bytes_of(second.result.type)
        if isinstance(to_a, int) and isinstance(to_b, int):
            return bool(from_a < to_b and from_b < to_a)
    # Allocations that have no places yet will not share any with those that are used beside them.
    return from_a is not None and bool(from_a == from_b)


def _takes_place(a: Value, b: Value) -> bool:
    """Whether one of two buffers is a result that takes the place of the other one, an argument."""
    if not (isinstance(a, BlockArgument) and isinstance(b, BlockArgument)):
        return False
    func = a.block.parent_op
    return isinstance(func, Func) and not {f"{a.name} -> {b.name}", f"{b.name} -> {a.name}"}.isdisjoint(func.updates)


def _part_of(value: Value) -> tuple[Value, int]:
    """The buffer that a buffer is a part of from a known element on, and that element."""
    start = 0
    while (view := value.producer(kernel.View)) is not None and view.dtype is None:
        if view.offset is not None:
            constant = view.offset.producer(kernel.Constant)
            if constant is None:
                break
            start += constant.value
        value = view.buffer
    return value, start


def bytes_of(buffer: Type) -> Dim:
    assert isinstance(buffer, BufferType)
    return product(buffer.shape) * buffer.dtype.bytes


def gather_facts(among: Iterable[Func], known: dict[Func, Facts] | None = None) -> dict[str, Facts]:
    """Facts of every function; callees are among them, and come before callers, because kernels do not recurse. Those of kernels that call
    nobody are looked up in `known`, and kept there: kernels do not change once they are planned.
    """
    functions = {f.sym_name: f for f in among}
    facts: dict[str, Facts] = {}
    shared: dict[str, set[int]] = {name: set() for name in functions}

    def visit(func: Func, path: tuple[str, ...]) -> Facts:
        name = func.sym_name
        if name in path:
            raise PolyremeError(f"expected kernels without recursion but '@{name}' calls itself", func.location, code="E0408")
        if name in facts:
            return facts[name]
        if known is not None and func in known:
            facts[name] = replace(known[func])
            return facts[name]
        pool = False
        sizes: dict[Expr, None] = {}
        written: set[int] = set()
        position = {arg: i for i, arg in enumerate(func.args)}
        count = 0
        calls: set[str] = set()
        for op in func.walk():
            count += 1
            if op.__class__ in SILENT:
                continue
            if isinstance(op, (kernel.Call, kernel.Launch)):
                if op.callee.name not in functions:
                    raise PolyremeError(f"'{op.name}' expected a function of the module but got {op.callee}", op.location, code="E0212")
                calls.add(op.callee.name)
                inner = visit(functions[op.callee.name], (*path, name))
                pool = pool or inner.pool
                sizes |= dict.fromkeys(inner.sizes)
                targets = [op.operands[i] for i in inner.written]
                buffers = [(i, v) for i, v in enumerate(op.operands) if isinstance(v.type, BufferType)]
                for i, value in buffers:
                    if any(i != j and overlap(value, other) for j, other in buffers):
                        shared[op.callee.name].add(i)
            else:
                pool = pool or isinstance(op, (kernel.Parallel, kernel.Threads))
                if isinstance(op, kernel.Size) and isinstance(op.value, Expr):
                    sizes[op.value] = None
                targets = list(written_by(op))
            written.update(position[root_of(v)] for v in targets if root_of(v) in position)
        facts[name] = Facts(pool, tuple(sizes), frozenset(written), frozenset(), count, frozenset(calls))
        if known is not None and not calls and name != "main":
            known[func] = replace(facts[name])
        return facts[name]

    for func in functions.values():
        visit(func, ())
    for name, found in facts.items():
        found.shared = frozenset(shared[name])
    return facts
