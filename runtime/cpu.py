"""The processor of this machine: whether an artifact's code can run on it."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.specs import TargetSpec

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "x64": "x86_64"}

# Features that kernels are written for, as LLVM and as Linux call them. Others only change the choice of scalar instructions.
_FEATURES = {
    "sse4.1": "sse4_1", "sse4.2": "sse4_2", "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "avx512f": "avx512f",
    "avx512bw": "avx512bw", "avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512cd": "avx512cd", "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16", "avx512vpopcntdq": "avx512_vpopcntdq", "avx512bitalg": "avx512_bitalg",
    "avx512vbmi2": "avx512_vbmi2", "avx512ifma": "avx512ifma", "bmi": "bmi1", "bmi2": "bmi2", "lzcnt": "abm", "movbe": "movbe",
    "popcnt": "popcnt",
    "gfni": "gfni", "vaes": "vaes", "vpclmulqdq": "vpclmulqdq", "avx512fp16": "avx512_fp16", "avx512vbmi": "avx512vbmi",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile", "amx-int8": "amx_int8", "amx-bf16": "amx_bf16",
}  # fmt: skip


def check_runs_here(target: TargetSpec, what: str) -> None:
    """`ArtifactError`, naming `what`, unless this machine can run code for `target`."""
    parts = target.triple.lower().split("-")
    wanted = _ARCHITECTURES.get(parts[0], parts[0])
    machine = platform.machine().lower()
    here = _ARCHITECTURES.get(machine, machine)
    if wanted.startswith("wasm"):
        raise ArtifactError(
            f"{what}: expected code for {here} but got WebAssembly, which runs in a browser or in Node", code="E0802"
        )
    if wanted != here:
        raise ArtifactError(f"{what}: expected code for {here} but got code for {wanted} ({target.triple})", code="E0802")
    if sys.platform not in parts[1:] and not any(part.startswith(sys.platform) for part in parts[1:]):
        raise ArtifactError(f"{what}: expected code for {sys.platform} but got code for {target.triple}", code="E0802")
    known = _processor_flags()
    features = [f[1:] for f in target.features.split(",") if f.startswith("+")]
    missing = [f for f in features if known and f in _FEATURES and _FEATURES[f] not in known]
    if missing:
        raise ArtifactError(
            f"{what}: the code is for {target.cpu or 'a processor'} with {', '.join(missing)}, which this processor lacks: compile it "
            f"again",
            code="E0802",
        )
    if "amx-tile" in features and not tiles_allowed():
        raise ArtifactError(
            f"{what}: the code is for a processor with amx-tile, which this one has, but the system does not let programs use its tiles: "
            f"compile it again",
            code="E0802",
        )


# What Linux on x86-64 is asked: the number of arch_prctl, ARCH_REQ_XCOMP_PERM, and the part of a thread's state that tiles are.
ASK_FOR_TILES = (158, 0x1023, 18)


@functools.cache
def tiles_allowed() -> bool:
    """Ask the system for tile registers, for all threads of this process: whether it gives them."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not sys.platform.startswith("linux"):
        return False
    return "amx_tile" in _processor_flags() and ctypes.CDLL(None).syscall(*ASK_FOR_TILES) == 0


@functools.cache
def processor_text() -> str:
    """What tells this machine's processor from others: its model and what it can do, in Linux's words; empty where it says nothing."""
    told = []
    for field, value in _processor_fields():
        if field in (
            "vendor_id",
            "cpu family",
            "model",
            "stepping",
            "flags",
            "CPU implementer",
            "CPU part",
            "CPU variant",
            "Features",
            "isa",
            "uarch",
        ):
            told.append(f"{field}={value}")
    return " ".join([platform.machine(), *told]) if told else ""


def processor_name() -> str:
    """What the maker calls this machine's processor; empty where the system does not say."""
    return dict(_processor_fields()).get("model name", "")


def _processor_fields() -> list[tuple[str, str]]:
    """The lines about the first processor."""
    fields = []
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if not line.strip():
                    break
                field, _, value = line.partition(":")
                fields.append((field.strip(), value.strip()))
    except OSError:
        return []
    return fields


def has_flag(name: str) -> bool:
    """Whether Linux says that the processor has this, such as "avx512_bf16"."""
    return name in _processor_flags()


@functools.cache
def _processor_flags() -> frozenset[str]:
    """What Linux says about an x86 processor; empty where it says nothing."""
    return frozenset(dict(_processor_fields()).get("flags", "").split())
