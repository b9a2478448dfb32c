"""The assembler of the CUDA toolkit: every kernel goes through it, for every device, and says what it costs."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from polyreme.lowering.link.ptxas import find_ptxas

DEVICES = (75, 80, 86, 90)
# What code for each of them is assembled for.
ARCHITECTURES = {75: ("75",), 80: ("80",), 86: ("86", "89"), 90: ("90", "90a")}


@dataclass(frozen=True)
class Cost:
    """What the assembler says of a kernel: registers of a thread, bytes moved to memory for want of registers, static shared memory."""

    registers: int
    spills: int
    shared: int


needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas, of the CUDA toolkit or the package nvidia-cuda-nvcc")

_PROPERTIES = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads\s*\nptxas info\s*: Used (\d+) registers([^\n]*)",
    re.S,
)


def assemble(ptx: str, sm: int | str, folder: Path) -> dict[str, Cost]:
    """The cost of each kernel by its name; an `AssertionError` with ptxas' own words when it refuses the text, or warns that products of
    warpgroups wait for each other.
    """
    tool = find_ptxas()
    assert tool is not None
    source = folder / f"sm_{sm}.ptx"
    source.write_text(ptx)
    command = [tool, "-v", "-arch", f"sm_{sm}", str(source), "-o", str(folder / f"sm_{sm}.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    told = done.stdout + done.stderr
    assert done.returncode == 0 and "wgmma" not in told, told
    costs = {}
    for name, stores, loads, registers, rest in _PROPERTIES.findall(done.stdout + done.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        costs[name] = Cost(int(registers), int(stores) + int(loads), int(shared[1]) if shared else 0)
    return costs
