"""LLVM text to object code, through llvmlite's binding (LLVM 22).

Text is parsed and verified before LLVM generates code from it, because the code generator ends the process on IR that it cannot take. No IR passes
run: kernels come vectorised, unrolled and with their loops in final form, and passes cost more time than code generation itself without making
them faster. llvmlite is imported when the first module is compiled, never before.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.targets import Target, usable_cores


class CodegenError(PolyremeError):
    """LLVM text that is not valid, or that no code can be made for."""

    code = "E0807"


def assemble(text: str, target: Target) -> bytes:
    """The object file (ELF, or wasm) of LLVM text; position independent."""
    machine, module = _prepare(text, target)
    return bytes(machine.emit_object(module))


def assembly(text: str, target: Target) -> str:
    """The same as assembly text."""
    machine, module = _prepare(text, target)
    return str(machine.emit_assembly(module))


def ptx_assembly(text: str, target: Target) -> str:
    """PTX of LLVM text, with functions marked `alwaysinline` written into their callers. The text must pass `intrinsics.check_text` first."""
    machine, module = _prepare(text, target)
    llvm = _library(target.arch)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0)))
    return str(machine.emit_assembly(module))


def assemble_all(texts: Sequence[str], target: Target, workers: int | None = None) -> list[bytes]:
    """The objects of several texts, compiled side by side in forked processes: never more of them than cores.

    llvmlite holds one lock for all of LLVM, so threads would not help. Where fork is missing, or there is nothing to share, it is done here.
    """
    workers = min(workers or usable_cores(), usable_cores(), len(texts))
    if workers < 2 or not hasattr(os, "fork"):
        return [assemble(text, target) for text in texts]
    _library(target.arch)  # loaded once, before the forks
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    shares = [order[w::workers] for w in range(workers)]
    jobs = [_fork(partial(_assemble_share, texts, share, target)) for share in shares[1:]]
    done: dict[int, bytes] = {}
    try:
        done.update(zip(shares[0], _assemble_share(texts, shares[0], target), strict=True))
    finally:
        outcomes = [_join(*job) for job in jobs]
    for share, outcome in zip(shares[1:], outcomes, strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        done.update(zip(share, outcome, strict=True))
    return [done[i] for i in range(len(texts))]


def _assemble_share(texts: Sequence[str], share: Sequence[int], target: Target) -> list[bytes]:
    return [assemble(texts[i], target) for i in share]


def _fork(work: Callable[[], Any]) -> tuple[int, int]:
    """Run `work` in a child; its pickled outcome comes through the pipe that is returned with the process id."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    # The child must not return into the caller's code, run its exit handlers or flush its files.
    status = 1
    try:
        os.close(read)
        try:
            outcome: Any = work()
        except Exception as error:
            outcome = CodegenError(error.message if isinstance(error, CodegenError) else str(error))
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(outcome if not isinstance(outcome, CodegenError) else ("failed", outcome.message), pipe)
        status = 0
    finally:
        os._exit(status)


def _join(child: int, read: int) -> Any:
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not data:
        return CodegenError(f"expected a compiled module but the compiling process ended with status {status}")
    outcome = pickle.loads(data)
    return CodegenError(outcome[1]) if isinstance(outcome, tuple) else outcome


@cache
def _library(arch: str) -> Any:
    """llvmlite's binding with the code generator of an architecture initialised."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@cache
def _machine(triple: str, cpu: str, features: str, arch: str) -> Any:
    llvm = _library(arch)
    try:
        machine = llvm.Target.from_triple(triple)
        return machine.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default")
    except RuntimeError as error:
        raise CodegenError(f"expected a machine that LLVM knows but got '{triple}': {error}", code="E0008") from None


def _prepare(text: str, target: Target) -> tuple[Any, Any]:
    llvm = _library(target.arch)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"expected valid LLVM IR but got: {str(error).strip()}") from None
    return _machine(target.triple, target.cpu, target.features, target.arch), module
