"""Kernel level to LLVM IR text: a table from op class to the code that writes it.

A module NAME exports three functions, and everything else is internal:

    void  NAME_run(ptr pool, ptr buffers, ptr sizes, ptr arena)   main; `buffers` points to main's arguments in order
    int64 NAME_arena_bytes(ptr sizes)                             how large the arena must be
    void  NAME_output_shapes(ptr sizes, ptr out)                  the sizes of all outputs, one after the other

`sizes` are int64 values of the names that `size_names` lists. Kernels get what they read of them, in an array of their own, so that kernels
which differ in nothing but their sizes are one (`same_code.py`). The rows of the table stand in `ops.py` (values, memory, vectors) and
`control.py` (loops, branches, calls, threads); `function.py` has what they share.

Comments give the source line of what follows. The same module gives the same text. `split_llvm` gives the same functions as several texts,
to be compiled side by side; a kernel's text depends on nothing but what it does, so that its object can be kept and used again by other
models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.control import CONTROL
from polyreme.lowering.emit.llvm.facts import bytes_of
from polyreme.lowering.emit.llvm.function import Emission, EmitOp, FunctionEmitter, size_names, typed_lane
from polyreme.lowering.emit.llvm.libm import libm_declarations
from polyreme.lowering.emit.llvm.ops import OPS
from polyreme.lowering.emit.llvm.same_code import SameCode
from polyreme.lowering.emit.llvm.scalar_functions import power_definition
from polyreme.lowering.emit.llvm.size_code import OVERFLOW_DECLARATIONS, CheckedSizeCode
from polyreme.lowering.emit.llvm.text import Lane, symbol_text
from polyreme.lowering.emit.llvm.tile_registers import emit_dot_block, emit_dot_terms
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS
from polyreme.lowering.machines.targets import Target

__all__ = ["EMIT", "Part", "emit_llvm", "size_names", "split_llvm"]

BLOCKS: dict[type[Op], EmitOp] = {kernel.DotBlock: emit_dot_block, kernel.DotTerms: emit_dot_terms}
EMIT = {**OPS, **CONTROL, **BLOCKS}

_CALLED = re.compile(r" @(\w+)\(")


def emit_llvm(module: Module | Program, target: Target, name: str = "model") -> str:
    """The LLVM IR of a kernel-level module whose memory is planned, as text for `codegen.assemble`."""
    emission = Emission(module, target, symbol_text(name), EMIT, same=SameCode())
    return _text(emission, emission.emitted, emission.name)


@dataclass(frozen=True)
class Part:
    """Functions that become one object; `ops` says how much work that is. With `quick` they are not worth LLVM's full effort."""

    emission: Emission
    functions: tuple[Func, ...]
    ops: int
    quick: bool = False

    def text(self) -> str:
        """The LLVM IR, written anew each time."""
        return _text(self.emission, self.functions, "part")

    @property
    def reduce(self) -> bool:
        """Whether LLVM is to look for cheaper addresses in loops. Where there are none that takes most of its time, but some
        convolutions by windows need it.
        """
        return not all(func.final_addresses for func in self.functions)

    @property
    def premises(self) -> tuple[Any, ...]:
        """What the text follows from beside the functions themselves: what they and those that they call are called and promise, and where
        sizes stand.
        """
        emission = self.emission
        called = {func: sorted(emission.facts[func.sym_name].calls) for func in self.functions}
        reached = [f for func, names in called.items() for f in (func, *(emission.code_of(emission.by_name[name]) for name in names))]
        names = dict.fromkeys(func.sym_name for func in reached)
        return tuple((emission.symbols[name], emission.facts[name]) for name in names)


def split_llvm(
    module: Module | Program, target: Target, name: str = "model", worth: int = 0, kernels: str = "", same: SameCode | None = None
) -> list[Part]:
    """The LLVM IR of a kernel-level module with planned memory, in parts. `main` is the first, and all that is small the second.

    A module of fewer than `worth` ops is a single part. `kernels` begins the names of kernels, "kernel" where it is empty. `same` is what
    is known already of which kernels are one code.
    """
    emission = Emission(module, target, symbol_text(name), EMIT, split=True, kernels=kernels, same=same or SameCode())
    ops = {func: emission.facts[func.sym_name].ops for func in emission.emitted}
    if sum(ops.values()) < worth:
        return [Part(emission, emission.emitted, sum(ops.values()))]
    main = emission.main
    kernels_alone = [func for func in emission.emitted if func is not main and ops[func] >= COMPILE_COSTS.object]
    small = tuple(func for func in emission.emitted if func is not main and ops[func] < COMPILE_COSTS.object)
    parts = [Part(emission, (main,), ops[main], quick=True)]
    if small:
        parts.append(Part(emission, small, sum(ops[func] for func in small)))
    return parts + [Part(emission, (func,), ops[func]) for func in kernels_alone]


def _text(emission: Emission, functions: Sequence[Func], source: str) -> str:
    emission.functions, emission.called = [], {}
    for func in functions:
        if func is not emission.main:
            _emit_kernel(emission, func)
    if emission.main in functions:
        _emit_entry(emission)
        _emit_arena_bytes(emission)
        _emit_output_shapes(emission)
    body = "\n\n".join(emission.functions)
    names = set(_CALLED.findall(body))
    used = [line for line in libm_declarations() if line.split()[2].split("(")[0][1:] in names]
    powers = [power_definition(kind) for kind in ("i8", "i16", "i32", "i64") if f"@power.{kind}(" in body]
    elsewhere = [_declaration(emission, func) for func in emission.called.values() if func not in functions]
    target = emission.target
    head = [
        *([] if emission.split else [f"; {source} for {target.name}"]),
        f'source_filename = "{source}"',
        f'target datalayout = "{target.layout}"',
        f'target triple = "{target.triple}"',
        "",
        "declare void @polyreme_parallel(ptr, ptr, ptr, i64, i64)",
        *(["declare void @polyreme_parallel_rounds(ptr, ptr, ptr, i64, i64)"] if "polyreme_parallel_rounds" in names else []),
        *(["declare i32 @polyreme_pool_threads(ptr)"] if "polyreme_pool_threads" in names else []),
        *(["declare i32 @clock_gettime(i32, ptr)"] if "clock_gettime" in names else []),
        *used,
        *(OVERFLOW_DECLARATIONS if "with.overflow.i64" in body else ()),
        *elsewhere,
    ]
    # LLVM aligns what it keeps on the stack only where it may take a register as the frame's; vectors there would straddle lines of the
    # cache, and by the chance of where a thread's stack begins, pages.
    frames = "all" if target.arch == "x86_64" and target.vector_bytes > 16 else "none"
    attributes = (
        f'attributes #0 = {{ nounwind "frame-pointer"="{frames}" "no-trapping-math"="true" '
        f'"prefer-vector-width"="{target.vector_bytes * 8}"'
        f' "target-cpu"="{target.cpu}" "target-features"="{target.features}" }}'
    )
    return "\n".join([*head, "", *powers, body, "", attributes, ""])


def _emit_kernel(emission: Emission, func: Func) -> None:
    facts = emission.facts[func.sym_name]
    emitter = FunctionEmitter(emission, emission.symbol(func))
    params = []
    for i, arg in enumerate(func.args):
        name = emitter.code.name(symbol_text(arg.name or "arg"))
        if isinstance(arg.type, BufferType):
            promise = "" if i in facts.shared else " noalias"
            promise += "" if i in facts.written else " readonly"
            params.append(f"ptr{promise} {name}")
            emitter.bind(arg, Lane(emitter.code, "ptr", 1, name))
        else:
            lane = typed_lane(emitter.code, arg.type, name)
            params.append(lane.typed)
            emitter.bind(arg, lane)
    if facts.pool:
        emitter.pool = Lane(emitter.code, "ptr", 1, "%pool")
        params.append("ptr %pool")
    if facts.sizes:
        emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
        emitter.own_sizes = {size: i for i, size in enumerate(facts.sizes)}
        params.append("ptr readonly %sizes")
    emitter.run_block(func.block)
    # A kernel that other objects call stays unknown outside of the library.
    seen = "hidden" if emission.split else "internal"
    emission.finish(emitter, f"define {seen} void @{emission.symbol(func)}({', '.join(params)})", func)


def _declaration(emission: Emission, func: Func) -> str:
    """A kernel of another text, for those who call it."""
    facts = emission.facts[func.sym_name]
    code = FunctionEmitter(emission, "declared").code
    types = [typed_lane(code, arg.type, "").type for arg in func.args] + ["ptr"] * (facts.pool + bool(facts.sizes))
    return f"declare hidden void @{emission.symbol(func)}({', '.join(types)})"


def _emit_entry(emission: Emission) -> None:
    emitter = FunctionEmitter(emission, f"{emission.name}_run")
    code = emitter.code
    emitter.pool, emitter.size_array = Lane(code, "ptr", 1, "%pool"), Lane(code, "ptr", 1, "%sizes")
    emitter.arena = Lane(code, "ptr", 1, "%arena")
    for i, arg in enumerate(emission.main.args):
        if not isinstance(arg.type, BufferType):
            raise PolyremeError(f"expected buffers as the arguments of '@main' but got {arg.type}", emission.main.location, code="E0410")
        place = code.value("ptr", 1, f"getelementptr inbounds ptr, ptr %buffers, i64 {i}", "at")
        emitter.bind(arg, code.value("ptr", 1, f"load ptr, ptr {place.ref}", symbol_text(arg.name or "arg")))
    emitter.run_block(emission.main.block)
    emission.finish(emitter, f"define void @{emission.name}_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena)", emission.main)


def _emit_arena_bytes(emission: Emission) -> None:
    """-1 where a number on the way has more than 63 bits."""
    ends: dict[Dim, None] = {}
    for op in emission.main.walk():
        if isinstance(op, kernel.Alloc) and op.space == "arena" and op.offset is not None:
            ends[op.offset + bytes_of(op.result.type)] = None
    most = str(max((d for d in ends if isinstance(d, int)), default=0))
    code = CheckedSizeCode(list(emission.sizes))
    for end in ends:
        if isinstance(end, Expr):
            value = code.emit(end)
            larger = code.step(f"icmp sgt i64 {value}, {most}")
            most = code.step(f"select i1 {larger}, i64 {value}, i64 {most}")
    if code.lost:
        most = code.step(f"select i1 {code.lost}, i64 -1, i64 {most}")
    head = f"define i64 @{emission.name}_arena_bytes(ptr %sizes) #0 {{"
    emission.functions.append("\n".join([head, "entry:", *code.lines, f"  ret i64 {most}", "}"]))


def _emit_output_shapes(emission: Emission) -> None:
    emitter = FunctionEmitter(emission, f"{emission.name}_output_shapes")
    emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
    outputs = [a for a, role in zip(emission.main.args, emission.main.arg_roles, strict=False) if role == "output"]
    for i, dim in enumerate(d for a in outputs for d in a.type.shape):
        place = emitter.code.value("ptr", 1, f"getelementptr inbounds i64, ptr %out, i64 {i}", "at")
        emitter.code.line(f"store i64 {emitter.lane(emitter.dim(dim)).ref}, ptr {place.ref}")
    emitter.code.line("ret void")
    emission.finish(emitter, f"define void @{emission.name}_output_shapes(ptr %sizes, ptr %out)")
