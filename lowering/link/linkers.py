"""Linkers: which programs of the machine can join object files, and what each of them said where none could.

Those of the system come first. The package `ziglang` has lld, which needs nothing else; where an installation of it offers no lld, its C
compiler links, which first makes files of its own for up to a minute. The toolchain of Rust has lld, too.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from polyreme.ir import config
from polyreme.ir.diagnostics import Diagnostic, PolyremeError
from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.targets import Target

__all__ = ["RESULT", "Linker", "absent", "first_of", "installed", "linked", "lld_of_packages", "versions_of"]

# What a linker's command calls its output.
RESULT = "library"


@dataclass(frozen=True)
class Linker:
    """A program with the arguments that make `RESULT`; no command where it is not installed. `announced`: what is said before it runs,
    for as long as it takes.
    """

    name: str
    command: tuple[str, ...] = ()
    announced: str = ""


def installed(name: str, *arguments: str, called: str = "") -> Linker | None:
    """The program of that name, or None."""
    path = shutil.which(name)
    return None if path is None else Linker(called or name, (path, *arguments))


def absent(name: str) -> Linker:
    """A linker that is not here, told where no other can."""
    return Linker(name)


def versions_of(name: str) -> Iterator[str]:
    """The names under which a program of LLVM's may be installed, the newest first: Debian's packages of one version have it in their
    programs' names.
    """
    yield name
    there = [path.name for folder in os.get_exec_path() for path in Path(folder).glob(f"{name}-*")]
    versions = {int(version) for program in there if (version := program.removeprefix(f"{name}-")).isdecimal()}
    yield from (f"{name}-{version}" for version in sorted(versions, reverse=True))


def first_of(*names: str) -> str | None:
    """The first of these programs that is here, under whichever version, or else the package or toolchain that has an lld."""
    found = (tried for name in names for tried in (versions_of(name) if "ld" in name[1:] else (name,)) if shutil.which(tried))
    return next(found, None) or ("ziglang" if importlib.util.find_spec("ziglang") else _rust_lld() and "rust-lld")


def lld_of_packages(flavor: str, *choices: Sequence[str]) -> Iterator[Linker]:
    """lld by Python's package `ziglang` and by the toolchain of Rust, with each of the choices of arguments: `flavor` is "gnu" or "wasm".
    """
    name = {"gnu": "ld.lld", "wasm": "wasm-ld"}[flavor]
    if importlib.util.find_spec("ziglang"):
        for arguments in choices:
            yield Linker(f"ziglang {name}", (sys.executable, "-m", "ziglang", name, *arguments))
    else:
        yield absent("ziglang")
    rust = _rust_lld()
    if rust is not None:
        for arguments in choices:
            yield Linker("rust-lld", (rust, "-flavor", flavor, *arguments))


def _rust_lld() -> str | None:
    """Where the toolchain of Rust has lld, if there is one."""
    path = shutil.which("rust-lld")
    compiler = shutil.which("rustc")
    if path is not None or compiler is None:
        return path
    try:
        command = [compiler, "--print", "sysroot"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=config.compile_seconds(), check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((str(found) for found in Path(told.strip()).glob("lib/rustlib/*/bin/rust-lld")), None)


def linked(files: Mapping[str, bytes], linkers: Iterable[Linker], what: str, target: Target, install: str, instead: str = "") -> bytes:
    """What the first of the linkers that can makes of the files.

    `PolyremeError` names every linker that was tried and what it said, what to `install`, and what needs no linker, `instead`.
    """
    with tempfile.TemporaryDirectory(prefix="polyreme-link-") as name:
        folder = Path(name)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        tried = []
        for linker in linkers:
            result = folder / RESULT
            fault = _run(linker, folder)
            if not fault and result.exists():
                return result.read_bytes()
            result.unlink(missing_ok=True)
            tried.append(Diagnostic(f"{linker.name}: {fault or 'made no file'}"))
    message = f"no linker could make {what} for {target.triple}: install {install}, or the package 'ziglang' (pip install ziglang)"
    raise PolyremeError(Diagnostic(message + instead, notes=tuple(tried)), code="E0806")


def _run(linker: Linker, folder: Path) -> str:
    """What went wrong, empty for nothing."""
    if not linker.command:
        return "not installed"
    if linker.announced:
        print(linker.announced, file=sys.stderr, flush=True)
    timeout = None if linker.announced else config.compile_seconds()
    try:
        result = subprocess.run(linker.command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode == 0:
        return ""
    lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    return lines[0] if lines else f"ended with code {result.returncode}"
