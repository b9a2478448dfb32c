"""The processor of this machine: whether an artifact's code can run on it, and the addresses of arrays."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import platform
import sys
from typing import Any

import numpy as np

from polyreme.runtime.artifact import ALIGNMENT, TargetSpec
from polyreme.runtime.errors import ArtifactError

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "x64": "x86_64"}

# Memory from so many bytes on lies on pages of the larger size: what is read again and again then fills the second-level cache evenly, not
# as chance has put small pages.
LARGE_PAGES_FROM, LARGE_PAGE = 256 << 10, 2 << 20
# Constants up to this size are copied to large pages, which takes a millisecond or two.
NEAR_BYTES = 8 << 20

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


@functools.cache
def _processor_flags() -> frozenset[str]:
    """What Linux says about an x86 processor; empty where it says nothing."""
    return frozenset(dict(_processor_fields()).get("flags", "").split())


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where the first element of a contiguous array stands."""
    try:
        # Quicker than `array.ctypes`, but refused for read-only and for empty arrays, and for bfloat16.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # numpy says so from Python 3.12 on only
    except (TypeError, ValueError, BufferError):
        return int(array.ctypes.data)


def aligned_empty(count: int, alignment: int = 64) -> np.ndarray[Any, Any]:
    """`count` bytes at a multiple of `alignment` (a power of two up to 2 MiB); on large pages from `LARGE_PAGES_FROM` bytes on, where the
    system has them.
    """
    if count >= LARGE_PAGES_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        # numpy asks for large pages itself, but from 4 MiB on only, and for memory that begins in the middle of one.
        with contextlib.suppress(OSError):  # a kernel without them, or no memory, which is then told of in the usual way
            # Whole ones: where the last one ends outside of what is mapped, the system makes small ones.
            mapped = mmap.mmap(-1, (-(-count // LARGE_PAGE) + 1) * LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            mapped.madvise(mmap.MADV_HUGEPAGE)
            return _from_multiple(np.frombuffer(mapped, np.uint8), LARGE_PAGE, count)
    return _from_multiple(np.empty(count + alignment, np.uint8), alignment, count)


def near_constants(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes of constants at a whole cache line: where they are, if that is one, else copied. Those that caches can hold are copied anyway,
    to large pages: a file's small ones are where chance has put them, and an LSTM of 2.7 MB took 1.4 times as long from some.
    """
    near = LARGE_PAGES_FROM <= len(given) <= NEAR_BYTES
    if len(given) and given.ctypes.data % ALIGNMENT == 0 and not near:
        return given
    constants = aligned_empty(max(1, len(given)), ALIGNMENT)
    constants[: len(given)] = given
    return constants


def _from_multiple(memory: np.ndarray[Any, Any], alignment: int, count: int) -> np.ndarray[Any, Any]:
    start = -memory.ctypes.data % alignment
    return memory[start : start + count]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype that a manifest names; bfloat16 is `ml_dtypes`'."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
