"""Linking object files into a shared library, with whichever linker the machine has.

Tried in order: `ld` (binutils), `ld.lld`, `cc`, the package `ziglang`, the lld of Rust; for another architecture first the linker and
compiler of its own name (`aarch64-linux-gnu-ld`). Libraries need nothing but libc, libm and the system's loader. Where the linker has no
libc of the target to link against, they leave its symbols to the program that loads them, which has one.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from polyreme.lowering.link.linkers import RESULT, Linker, absent, installed, linked, lld_of_packages, versions_of
from polyreme.lowering.machines.targets import Target

__all__ = ["link_shared"]

_LIBRARIES = ["--as-needed", "-l:libm.so.6", "-l:libc.so.6", "--no-as-needed"]
_INSTEAD = "; an archive (.a) and an object file (.o) need none"
_ANNOUNCED = (
    "polyreme: linking with the C compiler of the package 'ziglang', which makes files of its own the first time: up to a minute or two"
)


def link_shared(objects: Mapping[str, bytes], exports: Sequence[str], soname: str, target: Target, patient: bool = True) -> bytes:
    """The shared library made of `objects` (by name), in which only symbols that match `exports` are visible. Only with `patient` a linker
    is asked that may take a minute.

    `PolyremeError` names every linker that was tried and what it said.
    """
    own = target.arch == platform.machine()
    install = (
        "binutils, lld or a C compiler"
        if own
        else f"binutils or a C compiler for {target.arch} ({target.arch}-linux-gnu-ld, {target.arch}-linux-gnu-gcc), or lld"
    )
    script = ("{ global: " + " ".join(f"{e};" for e in exports) + " local: *; };\n").encode()
    linkers = (linker for linker in _linkers(list(objects), soname, target) if patient or not linker.announced)
    return linked({**objects, "exports": script}, linkers, "a library", target, install, _INSTEAD)


def _linkers(objects: Sequence[str], soname: str, target: Target) -> Iterator[Linker]:
    options = ["--version-script=exports", f"--soname={soname}", "--build-id=none", "--hash-style=gnu", "-z", "noexecstack", "-z", "relro"]
    made = ["-shared", "-o", RESULT, *objects]
    through_cc = [*made, "-Wl," + ",".join(options)]
    # lld looks for libraries nowhere by itself.
    folders = [f"-L{folder}" for folder in _library_folders(target)]
    for name in (f"{target.arch}-linux-gnu-ld", "ld"):
        yield from _with_and_without_libc(name, [*made, *options], [])
    for name in versions_of("ld.lld"):
        yield from _with_and_without_libc(name, [*made, *options], folders)
    for compiler in (f"{target.arch}-linux-gnu-gcc", "cc"):
        yield installed(compiler, *through_cc, "-nostartfiles", "-Wl,--as-needed", "-lm") or absent(compiler)
    yield from lld_of_packages("gnu", [*made, *options, *folders, *_LIBRARIES], [*made, *options])
    if importlib.util.find_spec("ziglang"):
        zig = (sys.executable, "-m", "ziglang", "cc", "-target", f"{target.arch}-linux-gnu", *through_cc, "-lm")
        yield Linker("ziglang cc", zig, _ANNOUNCED)


def _with_and_without_libc(name: str, arguments: Sequence[str], folders: Sequence[str]) -> Iterator[Linker]:
    first = installed(name, *arguments, *folders, *_LIBRARIES)
    if first is not None:
        yield first
        yield installed(name, *arguments, called=f"{name} without libc") or first
    elif name in ("ld", "ld.lld"):
        yield absent(name)


def _library_folders(target: Target) -> list[str]:
    """Where a system has the libraries of a target."""
    own = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"] if target.arch == platform.machine() else []
    folders = [f"/lib/{target.arch}-linux-gnu", f"/usr/{target.arch}-linux-gnu/lib", *own]
    return [folder for folder in folders if (Path(folder) / "libc.so.6").exists()]
