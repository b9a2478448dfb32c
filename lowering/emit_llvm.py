"""Kernel level to LLVM IR text: a table from op class to the code that writes it.

A module NAME exports three functions, and everything else is internal:

    void  NAME_run(ptr pool, ptr buffers, ptr sizes, ptr arena)   main; `buffers` points to main's arguments in order
    int64 NAME_arena_bytes(ptr sizes)                             how large the arena must be
    void  NAME_output_shapes(ptr sizes, ptr out)                  the sizes of all outputs, one after the other

`sizes` are int64 values of the names that `size_names` lists. The rows of the table stand in `emit_ops.py` (values, memory, vectors) and `emit_control.py`
(loops, branches, calls, threads); `emit_function.py` has what they share.

Comments give the source line of what follows. The same module gives the same text.
"""

from __future__ import annotations

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import BufferType
from polyreme.lowering.emit_control import CONTROL
from polyreme.lowering.emit_facts import bytes_of
from polyreme.lowering.emit_function import Emission, FunctionEmitter, size_names, typed_lane
from polyreme.lowering.emit_ops import OPS
from polyreme.lowering.llvm_text import Lane, symbol_text
from polyreme.lowering.scalar_code import power_definition
from polyreme.lowering.targets import Target
from polyreme.lowering.vector_math import libm_declarations

__all__ = ["EMIT", "emit_llvm", "size_names"]

EMIT = {**OPS, **CONTROL}


def emit_llvm(module: Module, target: Target, name: str = "model") -> str:
    """The LLVM IR of a kernel-level module whose memory is planned, as text for `codegen.assemble`."""
    return _text(Emission(module, target, symbol_text(name), EMIT))


def _text(emission: Emission) -> str:
    for func in emission.module.functions:
        if func is not emission.main:
            _emit_kernel(emission, func)
    _emit_entry(emission)
    _emit_arena_bytes(emission)
    _emit_output_shapes(emission)
    body = "\n\n".join(emission.functions)
    used = [line for line in libm_declarations() if f" {line.split()[2].split('(')[0]}(" in body]
    powers = [power_definition(kind) for kind in ("i8", "i16", "i32", "i64") if f"@power.{kind}(" in body]
    target = emission.target
    head = [
        f"; {emission.name} for {target.name}",
        f'source_filename = "{emission.name}"',
        f'target datalayout = "{target.layout}"',
        f'target triple = "{target.triple}"',
        "",
        "declare void @polyreme_parallel(ptr, ptr, ptr, i64, i64)",
        *(["declare i32 @clock_gettime(i32, ptr)"] if "@clock_gettime(" in body else []),
        *used,
    ]
    attributes = (
        f'attributes #0 = {{ nounwind "frame-pointer"="none" "no-trapping-math"="true" "prefer-vector-width"="{target.vector_bytes * 8}"'
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
        params.append("ptr readonly %sizes")
    emitter.run_block(func.block)
    emission.finish(emitter, f"define internal void @{emission.symbol(func)}({', '.join(params)})", func)


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
    emitter = FunctionEmitter(emission, f"{emission.name}_arena_bytes")
    emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
    ends: dict[Dim, None] = {}
    for op in emission.main.walk():
        if isinstance(op, kernel.Alloc) and op.space == "arena" and op.offset is not None:
            ends[op.offset + bytes_of(op.result.type)] = None
    known = max((d for d in ends if isinstance(d, int)), default=0)
    most = Lane(emitter.code, "i64", 1, str(known), known)
    for end in ends:
        if isinstance(end, Expr):
            most = emitter.lane(emitter.dim(end)).call("smax", most)
    emitter.code.line(f"ret i64 {most.ref}")
    emission.finish(emitter, f"define i64 @{emission.name}_arena_bytes(ptr %sizes)")


def _emit_output_shapes(emission: Emission) -> None:
    emitter = FunctionEmitter(emission, f"{emission.name}_output_shapes")
    emitter.size_array = Lane(emitter.code, "ptr", 1, "%sizes")
    outputs = [a for a, role in zip(emission.main.args, emission.main.arg_roles, strict=False) if role == "output"]
    for i, dim in enumerate(d for a in outputs for d in a.type.shape):
        place = emitter.code.value("ptr", 1, f"getelementptr inbounds i64, ptr %out, i64 {i}", "at")
        emitter.code.line(f"store i64 {emitter.lane(emitter.dim(dim)).ref}, ptr {place.ref}")
    emitter.code.line("ret void")
    emission.finish(emitter, f"define void @{emission.name}_output_shapes(ptr %sizes, ptr %out)")
