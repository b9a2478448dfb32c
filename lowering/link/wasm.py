"""Modules of WebAssembly: the C interface without a system, linked by lld, and the JavaScript that loads it.

A module exports the functions that a library has, two that give and take memory for a caller's arrays, and its memory. It imports nothing:
memory, the text of messages and what a C library would do are its own (`runtime/wasm/system.ll`, `wasm_math.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from polyreme.lowering.link.linkers import RESULT, Linker, absent, installed, linked, lld_of_packages, versions_of
from polyreme.lowering.link.runtime import native_text
from polyreme.lowering.machines.memory import STACK_BYTES
from polyreme.lowering.machines.targets import Target

__all__ = ["exported", "link_module", "loader_text", "memory_text"]

_DEFINED = re.compile(r"^define (?:ptr|i32|void) @(\w+)\(", re.MULTILINE)


def exported(name: str, texts: Sequence[str]) -> list[str]:
    """The functions `NAME_…` that LLVM IR texts define."""
    return [found for text in texts for found in _DEFINED.findall(text) if found.startswith(f"{name}_")]


def memory_text(name: str) -> str:
    """LLVM IR of `NAME_allocate(bytes)`, null where there is no memory, and `NAME_free(pointer)`."""
    return f"""declare hidden ptr @aligned_alloc(i64, i64)
declare hidden void @free(ptr)

define ptr @{name}_allocate(i32 %bytes) nounwind {{
  %wide = zext i32 %bytes to i64
  %data = call ptr @aligned_alloc(i64 64, i64 %wide)
  ret ptr %data
}}

define void @{name}_free(ptr %data) nounwind {{
  call void @free(ptr %data)
  ret void
}}
"""


def link_module(objects: Mapping[str, bytes], exports: Sequence[str], target: Target) -> bytes:
    """The module made of `objects` (by name), with these functions and its memory.

    `PolyremeError` names every linker that was tried and what it said.
    """
    return linked(objects, _linkers(list(objects), exports), "a module of WebAssembly", target, "lld (wasm-ld)")


def _linkers(objects: Sequence[str], exports: Sequence[str]) -> Iterator[Linker]:
    # The stack stands below everything else: what is too deep traps, and never writes into data.
    arguments = [
        "--no-entry", "--stack-first", "-z", f"stack-size={STACK_BYTES}", "--strip-all", *(f"--export={name}" for name in exports),
        "-o", RESULT, *objects,
    ]  # fmt: skip
    found = [linker for name in versions_of("wasm-ld") if (linker := installed(name, *arguments)) is not None]
    yield from found or [absent("wasm-ld")]
    yield from lld_of_packages("wasm", arguments)


def loader_text(name: str, file: str, weights: str) -> str:
    """The JavaScript that loads the module `file` with its weights in the file `weights`, if they are not in the module."""
    model = json.dumps({"name": name, "file": file, "weights": weights}).replace("</", "<\\/")
    head = f"// Loads {json.dumps(file)}, a model compiled by polyreme, in a browser or in Node."
    return f"{head}\n\nconst MODEL = {model};\n{native_text('wasm/loader.mjs')}"
