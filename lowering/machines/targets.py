"""Targets: the facts about a machine, as data. Schedules, emission and code generation read them here and nowhere else.

`host()` is the machine the process runs on; `find_target` knows names (`x86-64-avx512`, `aarch64`, …), the levels of x86-64 (`x86-64-v3`)
and triples. LLVM is only loaded to ask what the host is.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType
from polyreme.lowering.machines.cores import core_named
from polyreme.lowering.machines.gpu import GPU_DEVICES, GpuDevice, device_of

# LLVM's data layouts by architecture; a test compares them with LLVM's own.
_LAYOUTS = {
    "x86_64": "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
    "aarch64": "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32",
    "riscv64": "e-m:e-p:64:64-i64:64-i128:128-n32:64-S128",
    "wasm32": "e-m:e-p:32:32-p10:8:8-p20:8:8-i64:64-i128:128-n32:64-S128-ni:1:10:20",
    "nvptx64": "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64",
}

# The least that a store takes past the caches, and to multiples of which it does.
STREAMED_BYTES = 16


@dataclass(frozen=True)
class Target:
    """A machine that code is made for. Schedules read these facts; none of them changes a result, but for `fma`."""

    code: ClassVar[str] = "llvm"

    name: str
    triple: str
    cpu: str = ""
    features: str = ""
    vector_bytes: int = 16
    vector_registers: int = 16
    # Masked loads and stores are instructions. Elsewhere each lane becomes a branch, and scalar tails are better.
    masked: bool = False
    # A fused multiply-add is an instruction. Elsewhere `kernel.fma` rounds the product too.
    fma: bool = False
    # Conversions between f16 and f32 are instructions.
    half: bool = False
    # Bytes of L1 (data), L2 and L3, as one core sees them.
    caches: tuple[int, int, int] = (32 << 10, 512 << 10, 8 << 20)
    line_bytes: int = 64
    # Bytes that a core reads in a cycle from L3, and from memory.
    l3_bytes_per_cycle: float = 20
    memory_bytes_per_cycle: float = 10
    # Vector additions and maxima run on other ports than multiply-adds, and so cost nothing beside them.
    spare_adders: bool = True
    # The hardware prefetcher keeps up with one sequential stream: software prefetches of it only take line fill buffers.
    hardware_prefetch: bool = False
    # Streams, pages apart and read in step, with which memory is read the fastest.
    memory_streams: int = 1
    # Multiply-adds of whole vectors that begin in a cycle.
    multiply_adds: float = 2
    # Cycles that a load takes from the multiply-adds. It only decides between tiles that are otherwise nearly equal.
    load_cycles: float = 0.0
    # The machine computes a vector as two halves: one with half as many lanes takes half as long.
    half_width_vectors: bool = False
    # Cores may share no L3. A line that another core wrote then costs as much as one from memory.
    separate_l3: bool = False
    # Loops of fewer cycles stay on the calling thread, since waking others costs as much. Products have a bound of their own.
    serial_cycles: int = 60_000
    # Cycles of a loop that a thread takes at a time, at least.
    grain_cycles: int = 20_000
    # What the user allows: Winograd's convolutions; Strassen's algorithm and Winograd's inner product; float32 products as bf16x3 splits on
    # AMX; recurrent weights in 28 bits.
    winograd: bool = True
    strassen: bool = True
    bf16_terms: bool = True
    short_weights: bool = True

    @property
    def arch(self) -> str:
        """The first part of the triple."""
        return self.triple.split("-")[0]

    @property
    def layout(self) -> str:
        """LLVM's data layout."""
        return _LAYOUTS[self.arch]

    @property
    def pointer_bytes(self) -> int:
        return 4 if self.arch == "wasm32" else 8

    def has(self, feature: str) -> bool:
        """Whether `features` turns on the LLVM feature of that name."""
        return f"+{feature}" in self.features.split(",")

    def lanes(self, dtype: ScalarType) -> int:
        """Elements of `dtype` in one vector register."""
        return max(1, self.vector_bytes // dtype.bytes)


@dataclass(frozen=True)
class GpuTarget(Target):
    """A GPU: kernels run on a grid of blocks of threads, and `code` is PTX.

    `sm` is the compute capability (80 for 8.0), `ptx` the version of the PTX language. A block has at most `shared_bytes` of shared memory;
    above `STATIC_SHARED_BYTES` its launch asks for it. With `only` (sm_90a) the code runs on devices of this very capability, and uses what
    newer ones have no more.
    """

    code: ClassVar[str] = "ptx"

    sm: int = 75
    ptx: int = 64
    only: bool = False
    warp: int = 32

    @property
    def device(self) -> GpuDevice:
        """The device that schedules are made for."""
        return GPU_DEVICES[self.sm]

    @property
    def shared_bytes(self) -> int:
        return self.device.shared_block


def _cuda(sm: int, ptx: int, only: bool = False) -> GpuTarget:
    cpu = f"sm_{sm}{'a' * only}"
    rest = GpuTarget(f"cuda:{cpu}", "nvptx64-nvidia-cuda", cpu, f"+ptx{ptx}", 16, 255, fma=True, half=True, line_bytes=128)
    return replace(rest, sm=sm, ptx=ptx, only=only)


_AVX2 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3"
_AVX512 = _AVX2 + ",+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"

TARGETS = {
    t.name: t
    for t in (
        Target("x86-64", "x86_64-unknown-linux-gnu", "x86-64", ""),
        Target("x86-64-v2", "x86_64-unknown-linux-gnu", "x86-64-v2", "+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3"),
        Target("x86-64-avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", _AVX2, 32, 16, masked=True, fma=True, half=True),
        Target(
            "x86-64-avx512",
            "x86_64-unknown-linux-gnu",
            "x86-64-v4",
            _AVX512,
            64,
            32,
            masked=True,
            fma=True,
            half=True,
            caches=(32 << 10, 1 << 20, 16 << 20),
        ),
        Target(
            "aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, fma=True, half=True, caches=(64 << 10, 512 << 10, 8 << 20)
        ),
        Target("riscv64", "riscv64-unknown-linux-gnu", "generic-rv64", "+a,+c,+d,+f,+m", 16, 32, fma=True),
        Target("riscv64-v", "riscv64-unknown-linux-gnu", "generic-rv64", "+a,+c,+d,+f,+m,+v", 16, 32, fma=True),
        Target("wasm32", "wasm32-unknown-unknown", "generic", "+simd128", 16, 16),
    )
}

# The same machines by the levels of the x86-64 psABI.
_ALIASES = {"x86-64-v1": "x86-64", "x86-64-v3": "x86-64-avx2", "x86-64-v4": "x86-64-avx512"}

# Each with the first PTX version that knows it, so that every driver for the device takes the code.
# Other devices run the code of the newest target that is not newer than they are; those before them run none.
_OTHER_DEVICES = re.compile(r"sm_(5[0-3]|6[0-2]|7[02]|8[679]|90|10[013]|12[01])[af]?\Z")
GPU_TARGETS = {t.name: t for t in (_cuda(75, 63), _cuda(80, 70), _cuda(86, 71), _cuda(90, 78), _cuda(90, 80, only=True))}


def find_target(name: str = "native", cpu: str | None = None, features: str | None = None) -> Target:
    """The target called `name`: `native`, a name from `TARGETS` or `GPU_TARGETS` (`cuda` is the least of those), a level of x86-64, or a
    triple of a known architecture.

    `cpu` and `features` replace the target's own, in LLVM's words; they change what LLVM may emit, not the vector width that schedules
    choose.
    """
    name = _ALIASES.get(name, name)
    if name == "native":
        target = host()
    elif name in TARGETS:
        target = TARGETS[name]
    elif name == "cuda" or name.startswith(("cuda:", "nvptx64")):
        return _find_gpu(name, cpu)
    else:
        arch = {"arm64": "aarch64", "amd64": "x86_64"}.get(name.split("-")[0], name.split("-")[0])
        known = {t.arch: t for t in reversed(TARGETS.values())}
        if "-" not in name or arch not in known:
            names = ("native", *TARGETS, *_ALIASES, "cuda", *GPU_TARGETS)
            raise PolyremeError(
                f"expected a target ({', '.join(names)}) or a triple but got '{name}'{did_you_mean(name, names)}", code="E0008"
            )
        if not name.startswith("wasm") and "linux" not in name:
            raise PolyremeError(f"expected a linux or wasm triple but got '{name}'", code="E0008")
        triple = "-".join([arch, *name.split("-")[1:]])
        target = replace(known[arch], name=name, triple=triple)
    if cpu is not None:
        names = cpu_names(target.triple)
        if names and cpu not in names:
            raise PolyremeError(
                f"expected a processor of {target.arch} that LLVM knows but got '{cpu}'{did_you_mean(cpu, names)}", code="E0008"
            )
        target = replace(target, cpu=cpu)
    if features is not None:
        target = replace(target, features=features)
    return target


@cache
def cpu_names(triple: str) -> tuple[str, ...]:
    """The processors that LLVM knows for a triple; empty where that cannot be told. LLVM prints them, so that a process of its own has to
    ask.
    """
    ask = (
        "import llvmlite.binding as llvm; llvm.initialize_all_targets(); "
        f"llvm.Target.from_triple({triple!r}).create_target_machine(cpu='help')"
    )
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False).stderr
    return tuple(re.findall(r"^ +(\S+) +- Select the ", told, re.MULTILINE))


def _find_gpu(name: str, cpu: str | None) -> GpuTarget:
    """`cuda`, `cuda:sm_80`, or the triple with `cpu` for the capability."""
    wanted = cpu or (name.split(":")[1] if ":" in name else next(iter(GPU_TARGETS)).split(":")[1])
    found = GPU_TARGETS.get(f"cuda:{wanted}")
    if found is None and (known := _OTHER_DEVICES.match(wanted)):
        return gpu_target(int(known[1]))
    if found is None:
        raise PolyremeError(
            f"expected a GPU target ({', '.join(GPU_TARGETS)}) but got 'cuda:{wanted}'{did_you_mean(f'cuda:{wanted}', GPU_TARGETS)}",
            code="E0008",
        )
    return found


def gpu_target(sm: int, ptx: int | None = None) -> GpuTarget:
    """The newest of `GPU_TARGETS` whose code runs on a device of this compute capability, in the shared memory that its blocks have, and
    that is written in a PTX of version `ptx`, if that is given, or an older one.
    """
    device = device_of(sm)
    if device is None:
        raise PolyremeError(f"expected a GPU of compute capability 7.5 or newer but got {sm // 10}.{sm % 10}", code="E0008")
    only = GPU_TARGETS.get(f"cuda:sm_{sm}a")
    return only if only is not None and (ptx is None or only.ptx <= ptx) else GPU_TARGETS[f"cuda:sm_{device.sm}"]


def _tiles_are_lent() -> bool:
    """Asks Linux for tile registers, for all threads of this process. Whether it grants them."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return sys.platform.startswith("linux") and ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


@cache
def host() -> Target:
    """The machine this process runs on, with the features that its operating system allows."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    flags = dict(llvm.get_host_cpu_features())
    if flags.get("amx-tile") and not _tiles_are_lent():
        flags = {name: on and not name.startswith("amx-") for name, on in flags.items()}
    features = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items()))
    base = Target("native", triple, llvm.get_host_cpu_name(), features, caches=_host_caches())
    if base.arch == "x86_64":
        wide = all(flags.get(f) for f in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
        avx2 = bool(flags.get("avx2"))
        return replace(
            core_of(base), vector_bytes=64 if wide else 32 if avx2 else 16, vector_registers=32 if wide else 16,
            masked=avx2, fma=bool(flags.get("fma")), half=bool(flags.get("f16c")),
        )  # fmt: skip
    known = {t.arch: t for t in reversed(TARGETS.values())}
    if base.arch not in known:
        raise PolyremeError(f"expected a machine of {', '.join(_LAYOUTS)} but this one is '{triple}'", code="E0008")
    like = known[base.arch]
    return replace(base, vector_bytes=like.vector_bytes, vector_registers=like.vector_registers, fma=like.fma, half=like.half)


def core_of(target: Target) -> Target:
    """The target with what is known of its core: the row of its processor, or the generic one of its instruction set."""
    core = core_named(target.cpu, target.arch)
    return replace(target, caches=core.caches(target.caches), **core.facts)


def _host_caches() -> tuple[int, int, int]:
    """Bytes per level from the kernel's own files, and a modest guess for those it does not tell."""
    sizes = list(Target.caches)
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level = int((folder / "level").read_text())
            kind = (folder / "type").read_text().strip()
            text = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and 1 <= level <= 3 and text[-1:] in "KM" and text[:-1].isdigit():
            sizes[level - 1] = int(text[:-1]) << (10 if text.endswith("K") else 20)
    return (sizes[0], sizes[1], sizes[2])
