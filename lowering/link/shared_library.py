"""Linking object files into a shared library, with whichever linker the machine has.

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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from polyreme.ir.diagnostics import Diagnostic, PolyremeError
from polyreme.lowering.machines.targets import Target

TIMEOUT_SECONDS = 120
_LIBRARIES = ["--as-needed", "-l:libm.so.6", "-l:libc.so.6", "--no-as-needed"]


def link_shared(objects: Mapping[str, bytes], exports: Sequence[str], soname: str, target: Target) -> bytes:
    """The shared library made of `objects` (by name), in which only symbols that match `exports` are visible.

    `PolyremeError` names every linker that was tried and what it said.
    """
    with tempfile.TemporaryDirectory(prefix="polyreme-link-") as name:
        folder = Path(name)
        for file, data in objects.items():
            (folder / file).write_bytes(data)
        (folder / "exports").write_text("{ global: " + " ".join(f"{e};" for e in exports) + " local: *; };\n")
        tried = []
        for linker, command in _commands(list(objects), soname, target):
            result = folder / "library.so"
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
    message = f"no linker could make a library for {target.triple}: install {install}, or the package 'ziglang'"
    raise PolyremeError(Diagnostic(message, notes=tuple(tried)), code="E0806")


def _commands(objects: list[str], soname: str, target: Target) -> Iterator[tuple[str, list[str] | None]]:
    """Linkers by name with the command to run, or None for one that is not installed."""
    options = ["--version-script=exports", f"--soname={soname}", "--build-id=none", "--hash-style=gnu", "-z", "noexecstack", "-z", "relro"]
    through_cc = ["-Wl," + ",".join(options)]
    own = ["-shared", "-o", "library.so", *objects]
    for linker in (f"{target.arch}-linux-gnu-ld", "ld", "ld.lld"):
        path = shutil.which(linker)
        if path is None:
            if linker in ("ld", "ld.lld"):
                yield linker, None
            continue
        yield linker, [path, *own, *options, *_LIBRARIES]
        yield f"{linker} without libc", [path, *own, *options]
    for compiler in (f"{target.arch}-linux-gnu-gcc", "cc"):
        path = shutil.which(compiler)
        if path is not None:
            yield compiler, [path, *own, *through_cc, "-nostartfiles", "-Wl,--as-needed", "-lm"]
        elif compiler == "cc":
            yield compiler, None
    zig = importlib.util.find_spec("ziglang")
    yield (
        "ziglang",
        [sys.executable, "-m", "ziglang", "cc", "-target", f"{target.arch}-linux-gnu", *own, *through_cc, "-lm"] if zig else None,
    )


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
