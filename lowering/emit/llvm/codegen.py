"""LLVM text to object code, through llvmlite's binding (LLVM 22).

Text is parsed and verified before LLVM generates code from it, because the code generator ends the process on IR that it cannot take. No IR
passes run: kernels come vectorised, unrolled and with their loops in final form, and passes cost more time than code generation itself
without making them faster. llvmlite is imported when the first module is compiled, never before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.machines.compile_costs import LLVM_LEVELS
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.targets import Target

# Its reduction of strength, which looks for cheaper addresses in loops; x86 adds a register, a multiple of another and a number in one
# access.
WITHOUT_REDUCTION, WITH_REDUCTION = "-disable-lsr=1", "-disable-lsr=0"
# LLVM's scheduler reorders a block by live registers, and a second one by latencies once registers are chosen. They are left out with 32
# vector registers, since kernels are written in an order that fits: the first one hoists all loads of a tile's round and spills, and the
# second one gains nothing and takes a tenth of code generation.
WITHOUT_SCHEDULER, WITH_SCHEDULER = ("-enable-misched=false", "-disable-post-ra=true"), ("-enable-misched=true", "-disable-post-ra=false")
# Where LLVM does without it by itself, and does not once the switch was on.
UNSCHEDULED = ("wasm32", "nvptx64")
# These switches are ones of the whole library: threads that make code wait for each other.
_switch = threading.Lock()
# x86's sums of integers are left in the order in which they are written: LLVM shortens their chains, for which tiles of products of bytes,
# whose sums take 12 of 16 registers, have no room.
IN_ORDER = "-x86-machine-combiner=false"


class CodegenError(PolyremeError):
    """LLVM text that is not valid, or that no code can be made for."""

    code = "E0807"


def assemble(text: str, target: Target, reduce: bool = True, quick: bool = False) -> bytes:
    """The object file of LLVM text: wasm, or ELF that is position independent. `reduce` lets LLVM look for cheaper addresses in loops;
    `quick` takes less time for code that is slower.
    """
    machine, module = _prepare(text, target, quick)
    with _switched(target, reduce):
        return bytes(machine.emit_object(module))


def assembly(text: str, target: Target, reduce: bool = True, quick: bool = False) -> str:
    """The same as assembly text."""
    machine, module = _prepare(text, target, quick)
    with _switched(target, reduce):
        return str(machine.emit_assembly(module))


@contextmanager
def _switched(target: Target, reduce: bool = True) -> Iterator[None]:
    """LLVM as it should be for a target, as long as code is made."""
    llvm = _library(target.arch)
    as_written = target.arch in UNSCHEDULED or (target.arch == "x86_64" and target.vector_registers >= MANY_REGISTERS)
    with _switch:
        llvm.set_option("polyreme", WITH_REDUCTION if reduce or target.arch != "x86_64" else WITHOUT_REDUCTION)
        for switch in WITHOUT_SCHEDULER if as_written else WITH_SCHEDULER:
            llvm.set_option("polyreme", switch)
        yield


def ptx_assembly(text: str, target: Target) -> str:
    """PTX of LLVM text, with functions marked `alwaysinline` written into their callers. The text must pass `intrinsics.check_text` first.
    """
    machine, module = _prepare(text, target)
    llvm = _library(target.arch)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0)))
    with _switched(target):
        return str(machine.emit_assembly(module))


def load_llvm(target: Target) -> None:
    """Have LLVM ready for a target, so that processes forked from this one need not load it each."""
    _machine(target.triple, target.cpu, target.features, target.arch, LLVM_LEVELS.full)


@cache
def version() -> str:
    """What object code depends on beside its text and target: LLVM's version, and how it is asked."""
    import llvmlite

    levels = f"opt {LLVM_LEVELS.full}, quick {LLVM_LEVELS.quick}"
    return f"llvmlite {llvmlite.__version__}, {levels}, pic but for wasm, {IN_ORDER}, {' '.join(WITHOUT_SCHEDULER)}"


@cache
def _library(arch: str) -> Any:
    """llvmlite's binding with the code generator of an architecture initialised."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@cache
def _machine(triple: str, cpu: str, features: str, arch: str, level: int) -> Any:
    llvm = _library(arch)
    try:
        machine = llvm.Target.from_triple(triple)
        if arch == "x86_64":
            # A switch of this target's, which is there by now.
            with _switch:
                llvm.set_option("polyreme", IN_ORDER)
        # A module of WebAssembly is loaded once, at addresses that its linker knows.
        reloc = "static" if arch == "wasm32" else "pic"
        return machine.create_target_machine(cpu=cpu, features=features, opt=level, reloc=reloc, codemodel="default")
    except RuntimeError as error:
        raise CodegenError(f"expected a machine that LLVM knows but got '{triple}': {error}", code="E0008") from None


def _prepare(text: str, target: Target, quick: bool = False) -> tuple[Any, Any]:
    llvm = _library(target.arch)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"expected valid LLVM IR but got: {str(error).strip()}") from None
    level = LLVM_LEVELS.quick.get(target.arch, LLVM_LEVELS.full) if quick else LLVM_LEVELS.full
    return _machine(target.triple, target.cpu, target.features, target.arch, level), module
