"""The assembler of the CUDA toolkit, where there is one: code of a device from PTX, which a driver need not make then."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from polyreme.ir import config
from polyreme.ir.timing import timed
from polyreme.lowering.link.runtime import cache_in, digest_of
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS

__all__ = ["assembled", "find_ptxas"]


def find_ptxas() -> str | None:
    """The assembler that the user named, or of a toolkit, or of the package nvidia-cuda-nvcc; None where there is none."""
    named = config.ptxas()
    return _search(tuple(config.cuda_folders())) if named is None else named or None


@cache
def _search(folders: tuple[Path, ...]) -> str | None:
    candidates = [folder / "bin" / "ptxas" for folder in folders]
    candidates += [Path(found)] if (found := shutil.which("ptxas")) else []
    candidates += sorted(Path("/usr/local").glob("cuda*/bin/ptxas"))
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        candidates += sorted(Path(folder).glob("**/bin/ptxas"))
    return next((str(p) for p in candidates if p.is_file()), None)


def assembled(ptx: bytes, device: str) -> bytes:
    """The code of PTX for a device such as "sm_90", kept on disk; empty where there is no assembler, or it is one that cannot."""
    tool = find_ptxas()
    if tool is None:
        return b""
    kept = cache_in(config.cache_folder(), config.cache_limit())
    key = digest_of("cubin", _version(tool), device, ptx.decode())
    code = kept.get(key) if kept is not None else None
    if code is None:
        with timed("ptxas"):
            code = _run(tool, ptx, device)
        if code and kept is not None:
            kept.put(key, code)
    return bytes(code)


@cache
def _version(tool: str) -> str:
    try:
        return _called([tool, "--version"]).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _run(tool: str, ptx: bytes, device: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="polyreme-ptxas-") as name:
        source, result = Path(name) / "model.ptx", Path(name) / "model.cubin"
        source.write_bytes(ptx)
        command = [tool, f"-arch={device}", str(source), "-o", str(result)]
        try:
            done = _called(command)
        except (OSError, subprocess.TimeoutExpired) as error:
            fault = str(error)
        else:
            if done.returncode == 0 and result.exists():
                return result.read_bytes()
            fault = done.stderr or done.stdout
    config.say(1, lambda: f"ptxas: {fault}")
    return b""


def _called(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_COSTS.assembler_seconds, check=False)
