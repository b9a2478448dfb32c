"""Kernel level to LLVM IR text: a table from op class to the code that writes it.

A module NAME exports three functions, and everything else is internal:

    void  NAME_run(ptr pool, ptr buffers, ptr sizes, ptr arena)   main; `buffers` points to main's arguments in order
    int64 NAME_arena_bytes(ptr sizes)                             how large the arena must be
    void  NAME_output_shapes(ptr sizes, ptr out)                  the sizes of all outputs, one after the other

`sizes` are int64 values of the names that `size_names` lists. Structured loops and branches become blocks with phis; loops test at their end, behind a guard
unless the bounds are known. The body of `kernel.parallel` becomes a function on a range of iterations, and a second one that unpacks its
context for `polyreme_parallel`, so that buffers keep their `noalias` inside.

Positions are kept as a base plus a known offset until they are used, and a base address is computed once per block that it holds for: so the
loads of an unrolled loop share one register and differ in the displacement of the instruction.

Comments give the source line of what follows. The same module gives the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr, product, symbols
from polyreme.ir.types import BufferType, ScalarType, Type, VectorType, f32, f64, i1, index, type_symbols
from polyreme.lowering.llvm_text import Code, Lane, constant_text, symbol_text, type_text
from polyreme.lowering.scalar_code import apply_code, element, memory_element, number_bits, power_definition
from polyreme.lowering.targets import Target
from polyreme.lowering.vector_math import libm_declarations

ARENA_ALIGN = 64


def emit_llvm(module: Module, target: Target, name: str = "model") -> str:
    """The LLVM IR of a kernel-level module whose memory is planned, as text for `codegen.assemble`."""
    return _ModuleEmitter(module, target, symbol_text(name)).text()


def size_names(main: Func) -> tuple[str, ...]:
    """The names of the sizes that `main`'s arguments mention, in the order in which their values are passed: by name."""
    return tuple(sorted(frozenset().union(*(type_symbols(arg.type) for arg in main.args))))


# --- what the emitter knows about functions before it writes them


@dataclass
class _Facts:
    """What a function needs beside its own arguments, and what its arguments promise."""

    pool: bool
    sizes: bool
    written: frozenset[int]
    shared: frozenset[int]  # arguments that may overlap another one


def _root(value: Value) -> Value:
    """The memory that a buffer is a view of."""
    while (view := value.producer(kernel.View)) is not None:
        value = view.buffer
    return value


def _overlap(a: Value, b: Value) -> bool:
    """Whether two buffers may share memory: the same one, or allocations whose places in the arena meet."""
    a, b = _root(a), _root(b)
    first, second = a.producer(kernel.Alloc), b.producer(kernel.Alloc)
    if a is b or first is None or second is None or "local" in (first.space, second.space):
        return a is b
    low_a, low_b = first.offset, second.offset
    high_a, high_b = (low + _bytes_of(op.result.type) if low is not None else None for low, op in ((low_a, first), (low_b, second)))
    if all(isinstance(d, int) for d in (low_a, low_b, high_a, high_b)):
        return bool(low_a < high_b and low_b < high_a)
    return bool(low_a == low_b)


def _bytes_of(buffer: Type) -> Dim:
    assert isinstance(buffer, BufferType)
    return product(buffer.shape) * buffer.dtype.bytes


def _gather_facts(module: Module) -> dict[str, _Facts]:
    """Facts of every function; callees come before callers, because kernels do not recurse."""
    functions = {f.sym_name: f for f in module.functions}
    facts: dict[str, _Facts] = {}
    shared: dict[str, set[int]] = {name: set() for name in functions}

    def visit(func: Func, path: tuple[str, ...]) -> _Facts:
        name = func.sym_name
        if name in path:
            raise PolyremeError(f"expected kernels without recursion but '@{name}' calls itself", func.location)
        if name in facts:
            return facts[name]
        pool = sizes = False
        written: set[int] = set()
        position = {arg: i for i, arg in enumerate(func.args)}
        for op in func.walk():
            if isinstance(op, kernel.Call):
                if op.callee.name not in functions:
                    raise PolyremeError(f"'kernel.call' expected a function of the module but got {op.callee}", op.location)
                inner = visit(functions[op.callee.name], (*path, name))
                pool, sizes = pool or inner.pool, sizes or inner.sizes
                targets = [op.operands[i] for i in inner.written]
                buffers = [(i, v) for i, v in enumerate(op.operands) if isinstance(v.type, BufferType)]
                for i, value in buffers:
                    if any(i != j and _overlap(value, other) for j, other in buffers):
                        shared[op.callee.name].add(i)
            else:
                pool = pool or isinstance(op, kernel.Parallel)
                sizes = sizes or (isinstance(op, kernel.Size) and bool(symbols(op.value)))
                targets = [op.buffer] if isinstance(op, (kernel.Store, kernel.Scatter)) else []
            written.update(position[_root(v)] for v in targets if _root(v) in position)
        facts[name] = _Facts(pool, sizes, frozenset(written), frozenset())
        return facts[name]

    for func in functions.values():
        visit(func, ())
    for name, found in facts.items():
        found.shared = frozenset(shared[name])
    return facts


# --- the module


class _ModuleEmitter:
    def __init__(self, module: Module, target: Target, name: str):
        self.module = module
        self.target = target
        self.name = name
        self.main = module.function("main")
        self.facts = _gather_facts(module)
        self.sizes = {size: i for i, size in enumerate(size_names(self.main))}
        self.symbols: dict[str, str] = {}
        self.functions: list[str] = []

    def text(self) -> str:
        for func in self.module.functions:
            if func is not self.main:
                self.kernel(func)
        self.entry()
        self.arena_bytes()
        self.output_shapes()
        body = "\n\n".join(self.functions)
        used = [line for line in libm_declarations() if f" {line.split()[2].split('(')[0]}(" in body]
        powers = [power_definition(kind) for kind in ("i8", "i16", "i32", "i64") if f"@power.{kind}(" in body]
        target = self.target
        head = [
            f"; {self.name} for {target.name}",
            f'source_filename = "{self.name}"',
            f'target datalayout = "{target.layout}"',
            f'target triple = "{target.triple}"',
            "",
            "declare void @polyreme_parallel(ptr, ptr, ptr, i64, i64)",
            *used,
        ]
        attributes = (
            f'attributes #0 = {{ nounwind "frame-pointer"="none" "no-trapping-math"="true" "prefer-vector-width"="{target.vector_bytes * 8}"'
            f' "target-cpu"="{target.cpu}" "target-features"="{target.features}" }}'
        )
        return "\n".join([*head, "", *powers, body, "", attributes, ""])

    def symbol(self, func: Func) -> str:
        """The LLVM name of a kernel, unique even after odd characters are replaced."""
        name = func.sym_name
        if name not in self.symbols:
            plain = symbol_text(name)
            taken = {*self.symbols.values(), f"{self.name}_run", f"{self.name}_arena_bytes", f"{self.name}_output_shapes", "polyreme_parallel"}
            fresh, count = plain, 0
            while fresh in taken:
                count += 1
                fresh = f"{plain}.{count}"
            self.symbols[name] = fresh
        return self.symbols[name]

    def kernel(self, func: Func) -> None:
        facts = self.facts[func.sym_name]
        emitter = _FunctionEmitter(self, self.symbol(func))
        params = []
        for i, arg in enumerate(func.args):
            name = emitter.code.name(symbol_text(arg.name or "arg"))
            if isinstance(arg.type, BufferType):
                promise = "" if i in facts.shared else " noalias"
                promise += "" if i in facts.written else " readonly"
                params.append(f"ptr{promise} {name}")
                emitter.bind(arg, Lane(emitter.code, "ptr", 1, name))
            else:
                lane = _typed_lane(emitter.code, arg.type, name)
                params.append(lane.typed)
                emitter.bind(arg, lane)
        if facts.pool:
            emitter.pool = Lane(emitter.code, "ptr", 1, "%pool")
            params.append("ptr %pool")
        if facts.sizes:
            emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
            params.append("ptr readonly %sizes")
        emitter.run_block(func.block)
        self.finish(emitter, f"define internal void @{self.symbol(func)}({', '.join(params)})", func)

    def entry(self) -> None:
        emitter = _FunctionEmitter(self, f"{self.name}_run")
        code = emitter.code
        emitter.pool, emitter.size_array = Lane(code, "ptr", 1, "%pool"), Lane(code, "ptr", 1, "%sizes")
        emitter.arena = Lane(code, "ptr", 1, "%arena")
        for i, arg in enumerate(self.main.args):
            if not isinstance(arg.type, BufferType):
                raise PolyremeError(f"expected buffers as the arguments of '@main' but got {arg.type}", self.main.location)
            place = code.value("ptr", 1, f"getelementptr inbounds ptr, ptr %buffers, i64 {i}", "at")
            emitter.bind(arg, code.value("ptr", 1, f"load ptr, ptr {place.ref}", symbol_text(arg.name or "arg")))
        emitter.run_block(self.main.block)
        self.finish(emitter, f"define void @{self.name}_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena)", self.main)

    def arena_bytes(self) -> None:
        emitter = _FunctionEmitter(self, f"{self.name}_arena_bytes")
        emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
        ends: dict[Dim, None] = {}
        for op in self.main.walk():
            if isinstance(op, kernel.Alloc) and op.space == "arena" and op.offset is not None:
                ends[op.offset + _bytes_of(op.result.type)] = None
        known = max((d for d in ends if isinstance(d, int)), default=0)
        most = Lane(emitter.code, "i64", 1, str(known), known)
        for end in ends:
            if isinstance(end, Expr):
                most = emitter.lane(emitter.dim(end)).call("smax", most)
        emitter.code.line(f"ret i64 {most.ref}")
        self.finish(emitter, f"define i64 @{self.name}_arena_bytes(ptr %sizes)")

    def output_shapes(self) -> None:
        emitter = _FunctionEmitter(self, f"{self.name}_output_shapes")
        emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
        outputs = [a for a, role in zip(self.main.args, self.main.arg_roles, strict=False) if role == "output"]
        for i, dim in enumerate(d for a in outputs for d in a.type.shape):
            place = emitter.code.value("ptr", 1, f"getelementptr inbounds i64, ptr %out, i64 {i}", "at")
            emitter.code.line(f"store i64 {emitter.lane(emitter.dim(dim)).ref}, ptr {place.ref}")
        emitter.code.line("ret void")
        self.finish(emitter, f"define void @{self.name}_output_shapes(ptr %sizes, ptr %out)")

    def finish(self, emitter: _FunctionEmitter, head: str, func: Func | None = None) -> None:
        comment = [f"; @{func.sym_name}" + (f", {func.location}" if func.location else "")] if func is not None else []
        code = emitter.code
        self.functions.append("\n".join([*comment, f"{head} #0 {{", "entry:", *code.entry, *code.lines, "}"]))


def _typed_lane(code: Code, type: Type, ref: str) -> Lane:
    if isinstance(type, BufferType):
        return Lane(code, "ptr", 1, ref)
    if isinstance(type, VectorType):
        return Lane(code, element(type.dtype), type.lanes, ref)
    if isinstance(type, ScalarType):
        return Lane(code, element(type), 1, ref)
    raise PolyremeError(f"expected a buffer, a scalar or a vector but got {type}")


def _scalar(value: Value) -> ScalarType:
    type = value.type
    assert isinstance(type, (ScalarType, VectorType, BufferType))
    return type if isinstance(type, ScalarType) else type.dtype


# --- functions


@dataclass(frozen=True, slots=True)
class Position:
    """An index: `base` (None for 0) plus a known number."""

    base: Lane | None
    offset: int


class _FunctionEmitter:
    """One LLVM function: what values are called, and what was computed already where the code now stands."""

    def __init__(self, module: _ModuleEmitter, name: str):
        target = module.target
        self.module = module
        self.target = target
        self.name = name
        self.code = Code(target.fma, target.has("avx512f") and target.vector_bytes == 64)
        self.values: dict[Value, Any] = {}
        self.pool = self.size_array = self.arena = None  # type: Lane | None
        self.bodies = 0
        self._known: dict[Any, Lane] = {}
        self._scopes: list[list[Any]] = []
        self._place = ""

    # --- values

    def bind(self, value: Value, lane: Any) -> None:
        """Let `value` stand for a `Lane` (a scalar index becomes a `Position`)."""
        if value.type == index and isinstance(lane, Lane):
            lane = Position(None, int(lane.known)) if lane.known is not None else Position(lane, 0)
        self.values[value] = lane

    def get(self, value: Value) -> Lane:
        """The value in a register."""
        found = self.values[value]
        return self.lane(found) if isinstance(found, Position) else found

    def lane(self, position: Position) -> Lane:
        """A position as one number."""
        base, offset = position.base, position.offset
        if base is None:
            return Lane(self.code, "i64", 1, str(offset), offset)
        if offset == 0:
            return base
        return self.once(("+", base.ref, offset), lambda: base + offset)

    def once(self, key: Any, compute: Callable[[], Lane]) -> Lane:
        """What `compute` gives, computed at most once per block that sees it."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = compute()
            if self._scopes:
                self._scopes[-1].append(key)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is forgotten at the end: it does not dominate what follows."""
        self._scopes.append([])
        yield
        for key in self._scopes.pop():
            del self._known[key]

    # --- positions and addresses

    def add(self, a: Position, b: Position) -> Position:
        if a.base is None or b.base is None:
            return Position(a.base or b.base, a.offset + b.offset)
        x, y = sorted((a.base, b.base), key=lambda lane: lane.ref)
        return Position(self.once(("add", x.ref, y.ref), lambda: x.emit("add nsw", y, hint="i")), a.offset + b.offset)

    def subtract(self, a: Position, b: Position) -> Position:
        if b.base is None:
            return Position(a.base, a.offset - b.offset)
        x, y = a.base, b.base
        if x is not None and x.ref == y.ref:
            return Position(None, a.offset - b.offset)
        minuend = x if x is not None else Lane(self.code, "i64", 1, "0", 0)
        return Position(self.once(("sub", minuend.ref, y.ref), lambda: minuend.emit("sub nsw", y, hint="i")), a.offset - b.offset)

    def multiply(self, a: Position, b: Position) -> Position:
        if a.base is None:
            a, b = b, a
        if b.base is None:
            factor, base = b.offset, a.base
            if base is None or factor == 0:
                return Position(None, a.offset * factor)
            if factor == 1:
                return a
            return Position(self.once(("mul", base.ref, factor), lambda: base.emit("mul nsw", factor, hint="i")), a.offset * factor)
        x, y = sorted((self.lane(a), self.lane(b)), key=lambda lane: lane.ref)
        return Position(self.once(("mul", x.ref, y.ref), lambda: x.emit("mul nsw", y, hint="i")), 0)

    def address(self, buffer: Value, position: Value, inbounds: bool = True) -> Lane:
        """A pointer to an element. The part that is not known ahead is added first, and shared."""
        elem = memory_element(_scalar(buffer))
        pointer, at = self.get(buffer), self.values[position]
        if at.base is not None:
            base, from_start = at.base, pointer
            # Not inbounds: the base alone may lie outside when the offset brings it back.
            pointer = self.once(
                ("gep", from_start.ref, elem, base.ref),
                lambda: self.code.value("ptr", 1, f"getelementptr {elem}, ptr {from_start.ref}, i64 {base.ref}", "at"),
            )
        if at.offset == 0:
            return pointer
        word = "getelementptr inbounds" if inbounds and at.base is None else "getelementptr"
        start = pointer
        return self.once(
            ("gep", start.ref, elem, at.offset), lambda: self.code.value("ptr", 1, f"{word} {elem}, ptr {start.ref}, i64 {at.offset}", "at")
        )

    def dim(self, dim: Dim) -> Position:
        """A size from the model's sizes; names are read once."""
        if isinstance(dim, int):
            return Position(None, dim)
        total = Position(None, 0)
        for monomial, coefficient in dim.terms:
            term = Position(None, coefficient)
            for atom in monomial:
                term = self.multiply(term, self.atom(atom))
            total = self.add(total, term)
        return total

    def atom(self, atom: Any) -> Position:
        if not atom.fn:
            return Position(self.once(("size", atom.args[0]), lambda: self.read_size(atom.args[0])), 0)
        a, b = (self.lane(self.dim(arg)) for arg in atom.args)
        fn = {"floordiv": "floor_divide"}.get(atom.fn, atom.fn)
        return Position(self.once((fn, a.ref, b.ref), lambda: apply_code(fn, [a, b], index, index, self.target)), 0)

    def read_size(self, name: str) -> Lane:
        if name not in self.module.sizes:
            known = ", ".join(self.module.sizes) or "none"
            raise PolyremeError(f"expected a size that an argument of '@main' has ({known}) but got '{name}'")
        assert self.size_array is not None
        place = self.code.value("ptr", 1, f"getelementptr inbounds i64, ptr {self.size_array.ref}, i64 {self.module.sizes[name]}", "at")
        return self.code.value("i64", 1, f"load i64, ptr {place.ref}", symbol_text(name))

    # --- ops

    def run_block(self, block: Block) -> list[Any]:
        """Write the ops of a block; what its terminator passes on."""
        for op in block:
            emit = EMIT.get(type(op))
            if emit is None:
                raise PolyremeError(f"'{op.name}' has no machine code: expected an op of the kernel level", op.location)
            if op.location and (place := str(op.location)) != self._place:
                self._place = place
                self.code.lines.append(f"  ; {place}")
            named = op.results[0].name if op.results else ""
            self.code.hint = symbol_text(named) if named else op.attributes.get("fn") or op.name.rpartition(".")[2]
            results = emit(self, op)
            if results is not None:
                if len(op.results) == 1 and not isinstance(results, list):
                    results = [results]
                for result, lane in zip(op.results, results, strict=True):
                    self.bind(result, lane)
        return [self.values[v] for v in block.terminator.operands]

    def run_region(self, region: Region) -> list[Any]:
        with self.scope():
            return self.run_block(region.block)

    def hint(self, value: Value, otherwise: str) -> str:
        return symbol_text(value.name) if value.name else otherwise


def _emit_return(e: _FunctionEmitter, op: Any) -> None:
    e.code.line("ret void")


def _emit_yield(e: _FunctionEmitter, op: Any) -> None:
    """Its operands are read by the op around it."""


def _emit_constant(e: _FunctionEmitter, op: Any) -> Lane:
    elem = element(op.dtype)
    return e.code.constant(elem, 1, number_bits(op.value, op.dtype))


def _emit_size(e: _FunctionEmitter, op: Any) -> Position:
    return e.dim(op.value)


_INDEX_RULES: dict[str, Callable[[_FunctionEmitter, Position, Position], Position]] = {
    "add": _FunctionEmitter.add,
    "sub": _FunctionEmitter.subtract,
    "mul": _FunctionEmitter.multiply,
}


def _emit_apply(e: _FunctionEmitter, op: Any) -> Any:
    operands = op.operands
    dtype = _scalar(operands[-1])
    if op.result.type == index and dtype == index:
        a = e.values[operands[0]]
        if op.fn in _INDEX_RULES:
            return _INDEX_RULES[op.fn](e, a, e.values[operands[1]])
        if len(operands) == 2:
            b = e.values[operands[1]]
            if a.base is None and b.base is None:
                return Position(None, int(kernel.Apply.reference((a.offset, b.offset), fn=op.fn, dtype=None)))
    lanes = [e.get(v) for v in operands]
    return apply_code(op.fn, lanes, dtype, _scalar(op.result), e.target)


def _emit_fma(e: _FunctionEmitter, op: Any) -> Lane:
    return apply_code("fma", [e.get(v) for v in op.operands], _scalar(op.a), _scalar(op.result), e.target)


# --- memory


def _emit_alloc(e: _FunctionEmitter, op: Any) -> Lane:
    elem, code = memory_element(op.dtype), e.code
    if op.space == "local":
        name = code.name(e.hint(op.result, "local"))
        code.entry.append(f"  {name} = alloca [{product(op.shape)} x {elem}], align {ARENA_ALIGN}")
        return Lane(code, "ptr", 1, name)
    if e.arena is None:
        raise PolyremeError("'kernel.alloc' expected to stand in '@main', or to be local", op.location)
    if op.offset is None:
        raise PolyremeError("'kernel.alloc' expected an offset: memory is planned before code is emitted", op.location)
    offset = e.lane(e.dim(op.offset))
    return code.value("ptr", 1, f"getelementptr inbounds i8, ptr {e.arena.ref}, i64 {offset.ref}", e.hint(op.result, "buffer"))


def _emit_view(e: _FunctionEmitter, op: Any) -> Lane:
    return e.get(op.buffer) if op.offset is None else e.address(op.buffer, op.offset)


def _alignment(op: Any, dtype: ScalarType) -> int:
    return max(op.align or 0, dtype.bytes)


def _mask(e: _FunctionEmitter, op: Any) -> Lane | None:
    """The mask of a load or store, None when all lanes are known to be on."""
    mask = e.get(op.mask) if op.mask is not None else None
    return None if mask is None or mask.known else mask


def _emit_load(e: _FunctionEmitter, op: Any) -> Lane:
    dtype, lanes = op.buffer.type.dtype, op.lanes
    elem, align, hint = memory_element(dtype), _alignment(op, op.buffer.type.dtype), e.hint(op.result, "x")
    kind, mask = type_text(elem, lanes), _mask(e, op)
    if mask is None:
        place = e.address(op.buffer, op.index)
        value = e.code.value(elem, lanes, f"load {kind}, ptr {place.ref}, align {align}", hint)
    else:
        place = e.address(op.buffer, op.index, inbounds=False)
        if lanes == 1:
            value = _guarded_load(e, elem, place, mask, align)
        else:
            call = f"call {kind} @llvm.masked.load.{_suffix(elem, lanes)}.p0(ptr align {align} {place.ref}, {mask.typed}, {kind} zeroinitializer)"
            value = e.code.value(elem, lanes, call, hint)
    return value.compare("ne", 0) if dtype == i1 else value


def _guarded_load(e: _FunctionEmitter, elem: str, place: Lane, mask: Lane, align: int) -> Lane:
    """One element where the mask is on, else 0, without touching memory."""
    code = e.code
    before, on, after = code.block, code.label("on"), code.label("after")
    code.branch(mask.ref, on, after)
    code.start(on)
    loaded = code.value(elem, 1, f"load {elem}, ptr {place.ref}, align {align}", "x")
    code.jump(after)
    code.start(after)
    return code.value(elem, 1, f"phi {elem} [ {loaded.ref}, %{on} ], [ {constant_text(elem, 1, 0)}, %{before} ]", "x")


def _emit_store(e: _FunctionEmitter, op: Any) -> None:
    dtype = op.buffer.type.dtype
    value = _in_memory(e.get(op.value), dtype)
    align, mask = _alignment(op, dtype), _mask(e, op)
    if mask is None:
        place = e.address(op.buffer, op.index)
        e.code.line(f"store {value.typed}, ptr {place.ref}, align {align}")
        return
    place = e.address(op.buffer, op.index, inbounds=False)
    if value.lanes == 1:
        _guarded_store(e, value, place, mask, align)
    else:
        e.code.line(f"call void @llvm.masked.store.{_suffix(value.elem, value.lanes)}.p0({value.typed}, ptr align {align} {place.ref}, {mask.typed})")


def _guarded_store(e: _FunctionEmitter, value: Lane, place: Lane, mask: Lane, align: int) -> None:
    code = e.code
    on, after = code.label("on"), code.label("after")
    code.branch(mask.ref, on, after)
    code.start(on)
    code.line(f"store {value.typed}, ptr {place.ref}, align {align}")
    code.jump(after)
    code.start(after)


def _in_memory(value: Lane, dtype: ScalarType) -> Lane:
    return value.convert("zext", "i8") if dtype == i1 else value


def _suffix(elem: str, lanes: int) -> str:
    """How intrinsics spell a vector type in their names."""
    return f"v{lanes}{ {'float': 'f32', 'double': 'f64'}.get(elem, elem) }"


def _lane_addresses(e: _FunctionEmitter, op: Any, elem: str) -> Lane:
    indices = e.get(op.indices)
    return e.code.value("ptr", indices.lanes, f"getelementptr {elem}, ptr {e.get(op.buffer).ref}, {indices.typed}", "at")


def _emit_gather(e: _FunctionEmitter, op: Any) -> Lane:
    dtype = op.buffer.type.dtype
    elem, lanes = memory_element(dtype), kernel.lanes_of(op.indices.type)
    places = _lane_addresses(e, op, elem)
    kind = type_text(elem, lanes)
    mask = _mask(e, op)
    if lanes == 1:
        if mask is None:
            value = e.code.value(elem, 1, f"load {elem}, ptr {places.ref}, align {dtype.bytes}", "x")
        else:
            value = _guarded_load(e, elem, places, mask, dtype.bytes)
    else:
        mask = mask or e.code.constant("i1", lanes, True)
        name = f"llvm.masked.gather.{_suffix(elem, lanes)}.v{lanes}p0"
        call = f"call {kind} @{name}({type_text('ptr', lanes)} align {dtype.bytes} {places.ref}, {mask.typed}, {kind} zeroinitializer)"
        value = e.code.value(elem, lanes, call, "x")
    return value.compare("ne", 0) if dtype == i1 else value


def _emit_scatter(e: _FunctionEmitter, op: Any) -> None:
    dtype = op.buffer.type.dtype
    value = _in_memory(e.get(op.value), dtype)
    places = _lane_addresses(e, op, value.elem)
    lanes, mask = value.lanes, _mask(e, op)
    if lanes == 1:
        if mask is None:
            e.code.line(f"store {value.typed}, ptr {places.ref}, align {dtype.bytes}")
        else:
            _guarded_store(e, value, places, mask, dtype.bytes)
        return
    mask = mask or e.code.constant("i1", lanes, True)
    name = f"llvm.masked.scatter.{_suffix(value.elem, lanes)}.v{lanes}p0"
    e.code.line(f"call void @{name}({value.typed}, {type_text('ptr', lanes)} align {dtype.bytes} {places.ref}, {mask.typed})")


def _emit_prefetch(e: _FunctionEmitter, op: Any) -> None:
    place = e.address(op.buffer, op.index, inbounds=False)
    e.code.line(f"call void @llvm.prefetch.p0(ptr {place.ref}, i32 {int(op.write)}, i32 {op.locality}, i32 1)")


# --- vectors


def _emit_broadcast(e: _FunctionEmitter, op: Any) -> Any:
    x, lanes = e.get(op.x), op.lanes
    if lanes == 1:
        return e.values[op.x]
    return e.once(("splat", x.ref, x.elem, lanes), lambda: _splat(e.code, x, lanes))


def _splat(code: Code, x: Lane, lanes: int) -> Lane:
    if x.known is not None:
        return code.constant(x.elem, lanes, x.known)
    kind = type_text(x.elem, lanes)
    one = code.value(x.elem, lanes, f"insertelement {kind} poison, {x.typed}, i32 0", "one")
    return code.value(x.elem, lanes, f"shufflevector {one.typed}, {kind} poison, <{lanes} x i32> zeroinitializer", "all")


def _emit_reduce(e: _FunctionEmitter, op: Any) -> Lane:
    x, dtype = e.get(op.x), _scalar(op.x)
    if dtype == i1 and x.lanes > 1 and op.fn in ("and", "or", "max", "min"):
        packed = e.code.value(f"i{x.lanes}", 1, f"bitcast {x.typed} to i{x.lanes}")
        return packed.compare("ne", 0) if op.fn in ("or", "max") else packed.compare("eq", -1)
    if dtype in (f32, f64) and x.lanes > 1 and op.fn in ("max", "min") and e.target.arch == "x86_64":
        # No instruction keeps nan there: it is looked for once, and not at every step.
        packed = e.code.value(f"i{x.lanes}", 1, f"bitcast {x.is_nan().typed} to i{x.lanes}")
        predicate = "ogt" if op.fn == "max" else "olt"
        best = _in_halves(e.code, x, lambda low, high: low.compare(predicate, high).where(low, high))
        return packed.compare("ne", 0).where(best.like(math.nan), best)
    return _in_halves(e.code, x, lambda low, high: apply_code(op.fn, [low, high], dtype, dtype, e.target))


def _in_halves(code: Code, x: Lane, combine: Callable[[Lane, Lane], Lane]) -> Lane:
    """The lower half combined with the upper half, until one lane is left."""
    while x.lanes > 1:
        half = x.lanes // 2
        x = combine(_pick(code, x, x, range(half)), _pick(code, x, x, range(half, x.lanes)))
    return x


def _pick(code: Code, a: Lane, b: Lane, lanes: Sequence[int]) -> Lane:
    """The lanes of two vectors laid end to end; one lane is a scalar."""
    if len(lanes) == 1:
        source, lane = (a, lanes[0]) if lanes[0] < a.lanes else (b, lanes[0] - a.lanes)
        return code.value(source.elem, 1, f"extractelement {source.typed}, i32 {lane}")
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return code.value(a.elem, len(lanes), f"shufflevector {a.typed}, {b.typed}, <{len(lanes)} x i32> <{order}>")


def _emit_iota(e: _FunctionEmitter, op: Any) -> Lane:
    if op.lanes == 1:
        return e.code.constant("i64", 1, 0)
    return Lane(e.code, "i64", op.lanes, "<" + ", ".join(f"i64 {i}" for i in range(op.lanes)) + ">")


def _emit_lane_mask(e: _FunctionEmitter, op: Any) -> Lane:
    """As bits of a number where masks are registers of their own, by comparing lane numbers elsewhere."""
    n, lanes = e.get(op.n), op.lanes
    if n.known is not None:
        return _known_mask(e.code, int(n.known), lanes)
    if lanes == 1:
        return n.compare("sgt", 0)
    n = n.call("smax", 0).call("smin", lanes)
    if e.code.avx512 and lanes < 64:
        bits = ~(n.like(-1) << n)
        packed = bits.convert("trunc", f"i{lanes}")
        return Lane(e.code, "i1", lanes, e.code.value("i1", lanes, f"bitcast {packed.typed} to <{lanes} x i1>", "mask").ref)
    numbers = Lane(e.code, "i32", lanes, "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">")
    return numbers.compare("slt", _splat(e.code, n.convert("trunc", "i32"), lanes))


def _known_mask(code: Code, n: int, lanes: int) -> Lane:
    """On for the first n lanes. `known` says when all lanes agree, so that whoever uses the mask can do without."""
    if n <= 0 or n >= lanes:
        return code.constant("i1", lanes, n > 0)
    return Lane(code, "i1", lanes, "<" + ", ".join(f"i1 {'true' if i < n else 'false'}" for i in range(lanes)) + ">")


def _emit_shuffle(e: _FunctionEmitter, op: Any) -> Lane:
    return _pick(e.code, e.get(op.a), e.get(op.b), op.lanes)


def _emit_extract(e: _FunctionEmitter, op: Any) -> Lane:
    x = e.get(op.x)
    return x if x.lanes == 1 else _pick(e.code, x, x, [op.lane])


def _emit_insert(e: _FunctionEmitter, op: Any) -> Lane:
    x, value = e.get(op.x), e.get(op.value)
    if x.lanes == 1:
        return value
    return e.code.value(x.elem, x.lanes, f"insertelement {x.typed}, {value.typed}, i32 {op.lane}")


# --- control


def _emit_for(e: _FunctionEmitter, op: Any) -> list[Any]:
    """A loop that tests at its end. Bounds that are known decide here whether it runs, and a single round is no loop."""
    lo, hi = e.values[op.lo], e.values[op.hi]
    rounds = _rounds(lo, hi, op.step)
    if rounds == 0:
        return [e.values[v] for v in op.inits]
    if rounds == 1:
        for arg, value in zip(op.block.args, (lo, *(e.values[v] for v in op.inits)), strict=True):
            e.bind(arg, value)
        return e.run_region(op.body)
    return _write_loop(e, lo, hi, op.step, [e.get(v) for v in op.inits], op.body, guard=rounds is None)


def _rounds(lo: Position, hi: Position, step: int) -> int | None:
    """How often the body runs, when that is known."""
    same = lo.base is hi.base or (lo.base is not None and hi.base is not None and lo.base.ref == hi.base.ref)
    return max(0, -((lo.offset - hi.offset) // step)) if same else None


def _write_loop(e: _FunctionEmitter, lo: Position, hi: Position, step: int, inits: list[Lane], body: Region, guard: bool) -> list[Any]:
    code, args = e.code, body.block.args
    first, last = e.lane(lo), e.lane(hi)
    loop, end = code.label("loop"), code.label("end")
    before = code.block
    if guard:
        code.branch(first.compare("slt", last).ref, loop, end)
        before = code.block
    else:
        code.jump(loop)
    code.start(loop)
    # The phis' second values are known once the body is written; their lines wait.
    names = [code.name(e.hint(args[0], "i")), *(code.name(e.hint(a, "carried")) for a in args[1:])]
    kinds = ["i64", *(x.type for x in inits)]
    at = len(code.lines)
    code.lines += [""] * len(names)
    for arg, name in zip(args, names, strict=True):
        e.bind(arg, _typed_lane(code, arg.type, name))
    with e.scope():
        yielded = [e.lane(v) if isinstance(v, Position) else v for v in e.run_block(body.block)]
        counter = Lane(code, "i64", 1, names[0])
        following = counter.emit("add nsw", step, hint="next")
        again = following.compare("slt", last)
    latch = code.block
    code.branch(again.ref, loop, end)
    for k, (name, kind, start, latest) in enumerate(zip(names, kinds, [first, *inits], [following, *yielded], strict=True)):
        code.lines[at + k] = f"  {name} = phi {kind} [ {start.ref}, %{before} ], [ {latest.ref}, %{latch} ]"
    code.start(end)
    if not guard:
        return yielded
    return [
        code.value(x.elem, x.lanes, f"phi {x.type} [ {x.ref}, %{before} ], [ {y.ref}, %{latch} ]", "last") for x, y in zip(inits, yielded, strict=True)
    ]


def _emit_if(e: _FunctionEmitter, op: Any) -> list[Lane]:
    code, condition = e.code, e.get(op.condition)
    yes, no, end = code.label("then"), code.label("else"), code.label("end")
    code.branch(condition.ref, yes, no)
    ways: list[tuple[list[Lane], str]] = []
    for label, region in ((yes, op.then_body), (no, op.else_body)):
        code.start(label)
        with e.scope():
            passed = e.run_block(region.block)
            # A position becomes a number inside the branch, where what it is made of stands.
            lanes = [e.lane(v) if isinstance(v, Position) else v for v in passed]
        ways.append((lanes, code.block))
        code.jump(end)
    code.start(end)
    (first, block_a), (second, block_b) = ways
    return [code.value(a.elem, a.lanes, f"phi {a.type} [ {a.ref}, %{block_a} ], [ {b.ref}, %{block_b} ]", "either") for a, b in zip(first, second, strict=True)]


def _emit_call(e: _FunctionEmitter, op: Any) -> None:
    facts = e.module.facts[op.callee.name]
    func = e.module.module.function(op.callee.name)
    wanted = [a.type for a in func.args]
    if len(wanted) != len(op.operands):
        raise PolyremeError(f"'kernel.call' expected {len(wanted)} arguments for '{op.callee}' but got {len(op.operands)}", op.location)
    args = [e.get(v).typed for v in op.operands]
    for needed, lane in ((facts.pool, e.pool), (facts.sizes, e.size_array)):
        if needed:
            assert lane is not None
            args.append(lane.typed)
    e.code.line(f"call void @{e.module.symbol(func)}({', '.join(args)})")


def _emit_parallel(e: _FunctionEmitter, op: Any) -> None:
    """The body as a function on a range, called through the pool with the values it uses from outside in a struct on the stack."""
    count = e.values[op.count]
    if count == Position(None, 0):
        return
    if count == Position(None, 1):
        e.bind(op.block.args[0], Position(None, 0))
        e.run_region(op.body)
        return
    code, module = e.code, e.module
    name = f"{e.name}.body" + (str(e.bodies) if e.bodies else "")
    e.bodies += 1
    inner = _FunctionEmitter(module, name)
    params, fields = _capture(e, inner, op)
    begin, end = (Lane(inner.code, "i64", 1, inner.code.name(n)) for n in ("begin", "end"))
    _write_loop(inner, Position(begin, 0), Position(end, 0), 1, [], op.body, guard=True)
    inner.code.line("ret void")
    module.finish(inner, f"define internal void @{name}({', '.join([*params, begin.typed, end.typed])})")

    struct = "{ " + ", ".join(f.type for f in fields) + " }"
    lines = []
    for i, field in enumerate(fields):
        lines += [f"  %at{i} = getelementptr inbounds {struct}, ptr %context, i32 0, i32 {i}", f"  %x{i} = load {field.type}, ptr %at{i}"]
    arguments = ", ".join([*(f"{f.type} %x{i}" for i, f in enumerate(fields)), "i64 %begin", "i64 %end"])
    thread = f"define internal void @{name}.thread(ptr %context, i64 %begin, i64 %end) #0 {{"
    module.functions.append("\n".join([thread, "entry:", *lines, f"  call void @{name}({arguments})", "  ret void", "}"]))

    context = "null"
    if fields:
        context = code.name("context")
        code.entry.append(f"  {context} = alloca {struct}")
    for i, field in enumerate(fields):
        place = code.value("ptr", 1, f"getelementptr inbounds {struct}, ptr {context}, i32 0, i32 {i}", "at")
        code.line(f"store {field.typed}, ptr {place.ref}")
    assert e.pool is not None
    code.line(f"call void @polyreme_parallel(ptr {e.pool.ref}, ptr @{name}.thread, ptr {context}, i64 {e.lane(count).ref}, i64 {op.grain})")


def _capture(e: _FunctionEmitter, inner: _FunctionEmitter, op: Any) -> tuple[list[str], list[Lane]]:
    """Bind in `inner` what the body uses from outside: its parameters there, and the same values out here."""
    inside: set[Any] = set()
    outside: dict[Value, None] = {}
    needs_pool = needs_sizes = False
    for nested in op.walk():
        inside.update(nested.results)
        for region in nested.regions:
            inside.update(region.block.args)
        if nested is not op:
            outside.update(dict.fromkeys(v for v in nested.operands if v not in inside))
        if isinstance(nested, kernel.Call):
            facts = e.module.facts[nested.callee.name]
            needs_pool, needs_sizes = needs_pool or facts.pool, needs_sizes or facts.sizes
        elif nested is not op and isinstance(nested, kernel.Parallel):
            needs_pool = True
        elif isinstance(nested, kernel.Size):
            needs_sizes = needs_sizes or bool(symbols(nested.value))
    written = {_root(v) for v in _written_buffers(e, op)}
    params: list[str] = []
    fields: list[Lane] = []
    passed: dict[str, Lane] = {}

    def pass_in(lane: Lane, hint: str, promise: str = "") -> Lane:
        if lane.ref not in passed:
            fields.append(lane)
            passed[lane.ref] = Lane(inner.code, lane.elem, lane.lanes, inner.code.name(hint))
            params.append(f"{lane.type}{promise} {passed[lane.ref].ref}")
        return passed[lane.ref]

    buffers = [v for v in outside if isinstance(v.type, BufferType)]
    for value in outside:
        bound = e.values[value]
        hint = e.hint(value, "x")
        if isinstance(bound, Position):
            inner.values[value] = Position(None if bound.base is None else pass_in(bound.base, hint), bound.offset)
        elif bound.elem == "ptr":
            alone = all(other is value or not _overlap(value, other) for other in buffers) and not _may_be_shared(e, value)
            promise = (" noalias" if alone else "") + ("" if _root(value) in written else " readonly")
            inner.values[value] = pass_in(bound, hint, promise)
        elif bound.known is not None:
            inner.values[value] = Lane(inner.code, bound.elem, bound.lanes, bound.ref, bound.known)
        elif not bound.ref.startswith("%"):
            inner.values[value] = Lane(inner.code, bound.elem, bound.lanes, bound.ref)
        else:
            inner.values[value] = pass_in(bound, hint)
    if needs_pool:
        assert e.pool is not None
        inner.pool = pass_in(e.pool, "pool")
    if needs_sizes:
        assert e.size_array is not None
        inner.size_array = pass_in(e.size_array, "sizes")
    return params, fields


def _may_be_shared(e: _FunctionEmitter, buffer: Value) -> bool:
    """Whether a buffer is, or views, an argument that some call gives together with an overlapping one."""
    root = _root(buffer)
    func = next((f for f in e.module.module.functions if root in f.args), None)
    return func is not None and func.args.index(root) in e.module.facts[func.sym_name].shared


def _written_buffers(e: _FunctionEmitter, op: Op) -> Iterator[Value]:
    for nested in op.walk():
        if isinstance(nested, (kernel.Store, kernel.Scatter)):
            yield nested.buffer
        elif isinstance(nested, kernel.Call):
            yield from (nested.operands[i] for i in e.module.facts[nested.callee.name].written)


EMIT: dict[type[Op], Callable[[_FunctionEmitter, Any], Any]] = {
    Return: _emit_return,
    kernel.Yield: _emit_yield,
    kernel.Constant: _emit_constant,
    kernel.Size: _emit_size,
    kernel.Apply: _emit_apply,
    kernel.Fma: _emit_fma,
    kernel.Alloc: _emit_alloc,
    kernel.View: _emit_view,
    kernel.Load: _emit_load,
    kernel.Store: _emit_store,
    kernel.Gather: _emit_gather,
    kernel.Scatter: _emit_scatter,
    kernel.Prefetch: _emit_prefetch,
    kernel.Broadcast: _emit_broadcast,
    kernel.Reduce: _emit_reduce,
    kernel.Iota: _emit_iota,
    kernel.LaneMask: _emit_lane_mask,
    kernel.Shuffle: _emit_shuffle,
    kernel.Extract: _emit_extract,
    kernel.Insert: _emit_insert,
    kernel.For: _emit_for,
    kernel.If: _emit_if,
    kernel.Call: _emit_call,
    kernel.Parallel: _emit_parallel,
}
