"""Settings from the environment. Nothing else in polyreme reads environment variables.

| variable | means |
|---|---|
| `POLYREME_DEBUG` | 1 timings and cliffs, 2 costs of kernels, 3 schedules, 4 emitted code, 5 IR by stage, 6 by pass, 7 by rewrite |
| `POLYREME_DUMP` | folder for the module after each pass that changed it, as `07-fuse.tir`; later pipelines in `run-2`, … |
| `POLYREME_OVERRIDE` | folder whose files of those names take the place of what the pass made |
| `POLYREME_CACHE` | folder of compiled artifacts, or `off`; otherwise `polyreme` in the user's cache folder |
| `POLYREME_CACHE_LIMIT` | bytes that the folder may hold, such as `500MB`; otherwise what `polyreme cache limit` said, or 4 GiB |
| `POLYREME_CLIFFS` | `error` refuses kernels that are slow beyond reason (`lowering/schedule/cliffs.py`), as the tests do |
| `POLYREME_WINOGRAD` | 0 forbids Winograd's algorithm for convolutions, whose rounding errors are larger |
| `POLYREME_STRASSEN` | 0 forbids Strassen's algorithm for matrix products, and products by pairs of steps, likewise |
| `POLYREME_BF16_TERMS` | 0 forbids float32 products by tile registers of bf16 (AMX), which give nan for an infinity |
| `POLYREME_SHORT_WEIGHTS` | 0 keeps the weights of recurrent layers in 32 bits where 28 would do |
| `POLYREME_THREADS` | threads that compiled code uses; otherwise the processors that this process may run on |
| `POLYREME_PROGRESS` | 0 for no line about compilations that take long, which the command line draws on terminals |
| `POLYREME_TUNE` | 1 to time some schedules for each root on this machine when it is first compiled, and to keep the fastest |
| `POLYREME_PATIENCE` | seconds that a rank waits for the others in a collective call; otherwise half an hour |
| `POLYREME_MEETING` | the folder in which ranks say that they have come to `init_parallel_env`; the launcher sets it |
| `POLYREME_COMPILE_SECONDS` | seconds that a process that compiles may take before its work is done here; otherwise 600 |
| `POLYREME_JOBS` | processes that generate machine code; otherwise as many as threads |
| `POLYREME_PTXAS` | the assembler of the CUDA toolkit for libraries for a GPU, or `off`; otherwise the first one found |
| `CUDA_HOME`, `CUDA_PATH` | folders of CUDA toolkits in which it is looked for first |
| `CPU_NUM` | Paddle's number of CPU devices for data parallel programs; otherwise 1 |
| `FLAGS_amp_on_cpu` | 1 lets `paddle.amp` take effect on a CPU (`docs/amp.md`); read once, `paddle.set_flags` changes it |

`mpiexec` tells each process that it starts its place among the others by variables of its own, which `launched` reads.

Values are read when they are asked for, so a test or a program may change them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from polyreme.ir.diagnostics import PolyremeError


def _number(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise PolyremeError(f"expected {name} to be a whole number from {least} on but got {text!r}", code="E0004")
    return int(text)


def _folder(name: str) -> Path | None:
    text = os.environ.get(name, "").strip()
    return Path(text).expanduser() if text else None


def debug_level() -> int:
    """The rung of the debug ladder, 0 when it is off."""
    return _number("POLYREME_DEBUG", 0, 0)


def refuses_cliffs() -> bool:
    """Whether a kernel that is slow beyond reason is an error."""
    return os.environ.get("POLYREME_CLIFFS", "").strip().lower() == "error"


def say(level: int, text: Callable[[], str]) -> None:
    """Print on standard error what belongs to a rung of the debug ladder; `text` is only made when it is wanted."""
    if debug_level() >= level:
        print(text(), file=sys.stderr)


def is_watched() -> bool:
    """Whether somebody looks at how code is made, or takes a hand in it: then it has to be made, not found in a cache."""
    return _uncached.get() or debug_level() > 0 or dump_folder() is not None or override_folder() is not None


_uncached: ContextVar[bool] = ContextVar("uncached", default=False)


@contextmanager
def uncached() -> Iterator[None]:
    """While this is open all code is made, and none is kept: `is_watched` holds."""
    token = _uncached.set(True)
    try:
        yield
    finally:
        _uncached.reset(token)


def dump_folder() -> Path | None:
    """Where modules are written after each pass, None for nowhere."""
    return _folder("POLYREME_DUMP")


def override_folder() -> Path | None:
    """Where modules are read from after each pass, None for nowhere."""
    return _folder("POLYREME_OVERRIDE")


def cache_folder() -> Path | None:
    """Where compiled artifacts are kept, None when they are not. The folder may not exist yet."""
    if os.environ.get("POLYREME_CACHE", "").strip().lower() in ("off", "0", "none"):
        return None
    base = _folder("XDG_CACHE_HOME")
    return _folder("POLYREME_CACHE") or (base or Path("~/.cache").expanduser()) / "polyreme"


def cache_limit() -> int | None:
    """How many bytes the folder may hold, None when nothing is said."""
    text = os.environ.get("POLYREME_CACHE_LIMIT", "").strip()
    return parse_bytes(text, "POLYREME_CACHE_LIMIT") if text else None


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def parse_bytes(text: str, what: str) -> int:
    """A number of bytes as people write it: `500MB`, `1.5 GiB`, `4096`. `what` is for the message when it is none."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?) ?([a-zA-Z]*)", text.strip())
    if found is None or found[2].upper() not in _UNITS:
        raise PolyremeError(f"expected {what} to be a number of bytes, such as 500MB or 2GiB, but got {text!r}", code="E0004")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def bytes_text(count: float) -> str:
    """A number of bytes for people: `512 B`, `1.3 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def ptxas() -> str | None:
    """The assembler of the CUDA toolkit that the user names: empty for none at all, None where nothing is said."""
    text = os.environ.get("POLYREME_PTXAS", "").strip()
    return "" if text.lower() in ("off", "0", "none") else text or None


def cuda_folders() -> list[Path]:
    """The folders of CUDA toolkits that the environment names."""
    return [folder for name in ("CUDA_HOME", "CUDA_PATH") if (folder := _folder(name)) is not None]


def winograd() -> bool:
    """Whether convolutions may be computed by Winograd's algorithm, or by blocks of pixels."""
    return _number("POLYREME_WINOGRAD", 1, 0) != 0


def strassen() -> bool:
    """Whether matrix products may be computed by Strassen's algorithm, or by pairs of steps."""
    return _number("POLYREME_STRASSEN", 1, 0) != 0


def bf16_terms() -> bool:
    """Whether matrix products of float32 may be computed by tile registers of bf16."""
    return _number("POLYREME_BF16_TERMS", 1, 0) != 0


def short_weights() -> bool:
    """Whether recurrent weights may be kept in 28 bits."""
    return _number("POLYREME_SHORT_WEIGHTS", 1, 0) != 0


def code_settings() -> str:
    """The settings that code depends on, for keys of what is compiled."""
    return " ".join(
        f"{name}={os.environ.get(name, '').strip()}"
        for name in ("POLYREME_BF16_TERMS", "POLYREME_SHORT_WEIGHTS", "POLYREME_STRASSEN", "POLYREME_TUNE", "POLYREME_WINOGRAD")
    )


def processors() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads compiled code uses."""
    return _number("POLYREME_THREADS", processors(), 1)


def jobs() -> int:
    """How many processes generate machine code."""
    return _number("POLYREME_JOBS", processors(), 1)


def tunes() -> bool:
    """Whether candidates for the kernels of this machine are timed."""
    return _number("POLYREME_TUNE", 0, 0) > 0


def shows_progress() -> bool:
    """Whether the command line may draw how far it is."""
    return _number("POLYREME_PROGRESS", 1, 0) > 0


def completion_wanted() -> str:
    """What a shell asks for that completes a command line, in words of `click`; empty when none does."""
    return os.environ.get(COMPLETION, "")


COMPLETION = "_POLYREME_COMPLETE"
"""The variable with which shells ask."""


def meeting() -> Path | None:
    """The folder in which ranks say that they have come, None where their launcher made none."""
    return _folder("POLYREME_MEETING")


def patience() -> int:
    """How many seconds a rank waits for the others to come to a collective call."""
    return _number("POLYREME_PATIENCE", 1800, 1)


def compile_seconds() -> int:
    """How many seconds a process that compiles is waited for."""
    return _number("POLYREME_COMPILE_SECONDS", 600, 1)


class Launched(NamedTuple):
    """The place of this process among those started with it; `local_rank` counts on this machine only."""

    rank: int
    size: int
    local_rank: int


_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),  # OpenMPI
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # MPICH and its kin
)


def launched() -> Launched:
    """What mpiexec said of this process; alone when nothing was said."""
    for rank, size, local in _LAUNCHERS:
        if rank in os.environ and size in os.environ:
            return Launched(_number(rank, 0, 0), _number(size, 1, 1), _number(local, 0, 0))
    return Launched(0, 1, 0)


def amp_on_cpu() -> bool:
    """Whether mixed precision takes effect on a CPU from the start."""
    return os.environ.get("FLAGS_amp_on_cpu", "").strip().lower() in ("1", "true")


def cpu_number() -> int:
    """CPU_NUM, Paddle's number of CPU devices, 1 by default."""
    return _number("CPU_NUM", 1, 1)
