"""Linking object files into a shared library or a single object, with whichever linker the machine has.

Tried in order: `ld` (binutils), `ld.lld`, `cc`, then the `ziglang` package; for another architecture first the linker and compiler of its
own name (`aarch64-linux-gnu-ld`). Libraries need nothing but libc, libm and the system's loader. Where the linker has no libc of the target
to link against, they leave its symbols to the program that loads them, which has one.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from polyreme.ir.diagnostics import Diagnostic, PolyremeError
from polyreme.lowering.machines.targets import Target

TIMEOUT_SECONDS = 120
_RESULT = "library"
_LIBRARIES = ["--as-needed", "-l:libm.so.6", "-l:libc.so.6", "--no-as-needed"]


def link_shared(objects: Mapping[str, bytes], exports: Sequence[str], soname: str, target: Target) -> bytes:
    """The shared library made of `objects` (by name), in which only symbols that match `exports` are visible.

    `PolyremeError` names every linker that was tried and what it said.
    """
    options = ["--version-script=exports", f"--soname={soname}", "--build-id=none", "--hash-style=gnu", "-z", "noexecstack", "-z", "relro"]
    own = ["-shared", "-o", _RESULT, *objects]
    through_cc = ["-Wl," + ",".join(options)]
    return _linked(
        {**objects, "exports": ("{ global: " + " ".join(f"{e};" for e in exports) + " local: *; };\n").encode()},
        _commands([[*own, *options, *_LIBRARIES], [*own, *options]], [*own, *through_cc, "-nostartfiles", "-Wl,--as-needed", "-lm"],
                  [*own, *through_cc, "-lm"], target),
        "a library", target,
    )  # fmt: skip


def link_relocatable(objects: Mapping[str, bytes], target: Target) -> bytes:
    """One object file made of `objects` (by name), which another linker takes."""
    own = ["-r", "-o", _RESULT, *objects]
    return _linked(objects, _commands([own], [*own, "-nostdlib"], [*own, "-nostdlib"], target), "an object file", target)


def _linked(files: Mapping[str, bytes], commands: Iterable[tuple[str, list[str] | None]], what: str, target: Target) -> bytes:
    """What the first of the commands that can makes of the files."""
    with tempfile.TemporaryDirectory(prefix="polyreme-link-") as name:
        folder = Path(name)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        tried = []
        for linker, command in commands:
            result = folder / _RESULT
            fault = _run(command, folder)
            if not fault and result.exists():
                return result.read_bytes()
            result.unlink(missing_ok=True)
            tried.append(Diagnostic(f"{linker}: {fault or 'made no file'}"))
    own = target.arch == platform.machine()
    install = (
        "binutils, lld or a C compiler"
        if own
        else f"binutils or a C compiler for {target.arch} ({target.arch}-linux-gnu-ld, {target.arch}-linux-gnu-gcc), or lld"
    )
    message = f"no linker could make {what} for {target.triple}: install {install}, or the package 'ziglang'"
    raise PolyremeError(Diagnostic(message, notes=tuple(tried)), code="E0806")


def _commands(
    for_ld: Sequence[list[str]], for_cc: list[str], for_zig: list[str], target: Target
) -> Iterator[tuple[str, list[str] | None]]:
    """Linkers by name with the command to run, or None for one that is not installed. Those for `ld` are tried in turn, the last one
    without a libc.
    """
    for linker in (f"{target.arch}-linux-gnu-ld", "ld", "ld.lld"):
        path = shutil.which(linker)
        if path is None:
            if linker in ("ld", "ld.lld"):
                yield linker, None
            continue
        for i, options in enumerate(for_ld):
            yield f"{linker}{' without libc' if i else ''}", [path, *options]
    for compiler in (f"{target.arch}-linux-gnu-gcc", "cc"):
        path = shutil.which(compiler)
        if path is not None:
            yield compiler, [path, *for_cc]
        elif compiler == "cc":
            yield compiler, None
    zig = importlib.util.find_spec("ziglang")
    yield "ziglang", [sys.executable, "-m", "ziglang", "cc", "-target", f"{target.arch}-linux-gnu", *for_zig] if zig else None


def _run(command: list[str] | None, folder: Path) -> str:
    """What went wrong, empty for nothing."""
    if command is None:
        return "not installed"
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode == 0:
        return ""
    lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    return lines[0] if lines else f"ended with code {result.returncode}"
