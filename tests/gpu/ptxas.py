"""The assembler of the CUDA toolkit: every kernel goes through it, for every device, and says what it costs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

DEVICES = (75, 80, 86, 90)
# What code for each of them is assembled for.
ARCHITECTURES = {75: ("75",), 80: ("80",), 86: ("86", "89"), 90: ("90", "90a")}


@dataclass(frozen=True)
class Cost:
    """What the assembler says of a kernel: registers of a thread, bytes moved to memory for want of registers, static shared memory."""

    registers: int
    spills: int
    shared: int


@cache
def find_ptxas() -> str | None:
    """The assembler of a toolkit, or of the package nvidia-cuda-nvcc; None when there is none."""
    candidates = [Path(os.environ[v]) / "bin" / "ptxas" for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ]
    candidates += [Path(found)] if (found := shutil.which("ptxas")) else []
    candidates += sorted(Path("/usr/local").glob("cuda*/bin/ptxas"))
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        candidates += sorted(Path(folder).glob("**/bin/ptxas"))
    return next((str(p) for p in candidates if p.is_file()), None)


needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas, of the CUDA toolkit or the package nvidia-cuda-nvcc")

_PROPERTIES = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads\s*\nptxas info\s*: Used (\d+) registers([^\n]*)",
    re.S,
)


def assemble(ptx: str, sm: int | str, folder: Path) -> dict[str, Cost]:
    """The cost of each kernel by its name; an `AssertionError` with ptxas' own words when it refuses the text."""
    tool = find_ptxas()
    assert tool is not None
    source = folder / f"sm_{sm}.ptx"
    source.write_text(ptx)
    command = [tool, "-v", "-arch", f"sm_{sm}", str(source), "-o", str(folder / f"sm_{sm}.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    costs = {}
    for name, stores, loads, registers, rest in _PROPERTIES.findall(done.stdout + done.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        costs[name] = Cost(int(registers), int(stores) + int(loads), int(shared[1]) if shared else 0)
    return costs
