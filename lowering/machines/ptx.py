"""What each GPU intrinsic needs: the least compute capability and PTX version, checked before code is generated.

LLVM ends the whole process on an intrinsic that a target cannot have, which nothing can catch; so everything that is emitted stands here.
The figures are those of the PTX ISA's pages on the instructions.
"""

from __future__ import annotations

import re

from polyreme.ir.diagnostics import UNKNOWN, Location, PolyremeError
from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.targets import GpuTarget


@dataclass(frozen=True, slots=True)
class Need:
    """The least compute capability (80 for sm_80) and PTX version (70 for 7.0). With `only`, devices of another capability have it not, be
    they newer, and a target must be for that very one (sm_90a).
    """

    sm: int
    ptx: int
    only: bool = False

    def __str__(self) -> str:
        return f"sm_{self.sm}{'a' * self.only} and PTX {self.ptx // 10}.{self.ptx % 10}"


_ALWAYS = Need(30, 60)
_SHUFFLE = Need(30, 60)
_ASYNC = Need(80, 70)

# By the name after `llvm.nvvm.`
INTRINSICS: dict[str, Need] = {
    **{f"read.ptx.sreg.{kind}.{axis}": _ALWAYS for kind in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    "barrier.cta.sync.aligned.all": _ALWAYS,
    **{f"shfl.sync.{mode}.i32": _SHUFFLE for mode in ("bfly", "down", "up", "idx")},
    "mma.m16n8k16.row.col.bf16": Need(80, 70),
    "mma.m16n8k16.row.col.f32.f32": Need(80, 70),
    "mma.m16n8k8.row.col.tf32": Need(80, 70),
    "f2tf32.rna": Need(80, 70),
    "ff2bf16x2.rn": Need(80, 70),
    "ex2.approx.ftz.f": _ALWAYS,
    **{f"ldmatrix.sync.aligned.m8n8.x{n}{t}.b16.p3": Need(75, 65) for n in (1, 2, 4) for t in ("", ".trans")},
    **{
        f"cp.async.{cache}.shared.global.{size}{zero}": _ASYNC
        for cache, sizes in (("ca", (4, 8)), ("cg", (16,)))
        for size in sizes
        for zero in ("", ".s")
    },
    "cp.async.commit.group": _ASYNC,
    "cp.async.wait.group": _ASYNC,
}

# What LLVM has no intrinsic for: instructions of PTX by how their names begin.
_BULK = Need(90, 80)
_WARPGROUPS = Need(90, 80, only=True)
INSTRUCTIONS: dict[str, Need] = {
    "mbarrier.init": Need(80, 70),
    "mbarrier.arrive": _BULK,
    "mbarrier.try_wait": _BULK,
    "fence.mbarrier_init": _BULK,
    "cp.async.bulk.tensor": _BULK,
    "wgmma": _WARPGROUPS,
    "setmaxnreg": _WARPGROUPS,
}

# Of an operand's descriptor: bytes between groups of eight lines of a tile, and the bits that say that lines of 128 bytes are permuted.
EIGHT_LINES, SWIZZLE_128 = 1024, 1 << 62

_CALL = re.compile(r"@llvm\.nvvm\.([A-Za-z0-9_.]+)\(")


def has(intrinsic: str, target: GpuTarget) -> bool:
    """Whether devices like the target have an intrinsic."""
    return target.sm >= INTRINSICS[intrinsic].sm


def require(intrinsic: str, target: GpuTarget, what: str, location: Location = UNKNOWN) -> str:
    """The full name of an intrinsic that `target` has; `PolyremeError` naming `what` (an op) when it does not."""
    need = INTRINSICS.get(intrinsic)
    if need is None:
        raise PolyremeError(f"{what} uses 'llvm.nvvm.{intrinsic}', of which nothing is known", location, code="E0408")
    _check(need, target, what, location)
    return f"llvm.nvvm.{intrinsic}"


def require_instruction(name: str, target: GpuTarget, what: str, location: Location = UNKNOWN) -> None:
    """`PolyremeError` naming `what` (an op) when `target` does not have an instruction of PTX, or nothing is known of it."""
    need = next((need for begin, need in INSTRUCTIONS.items() if name.startswith(begin)), None)
    if need is None:
        raise PolyremeError(f"{what} uses the instruction '{name}', of which nothing is known", location, code="E0408")
    _check(need, target, what, location)


def _check(need: Need, target: GpuTarget, what: str, location: Location) -> None:
    is_missing = target.sm < need.sm or target.ptx < need.ptx
    if is_missing or (need.only and not (target.only and target.sm == need.sm)):
        has, least = Need(target.sm, target.ptx, target.only), "" if need.only else " at least"
        raise PolyremeError(f"{what} expected {need}{least} but the target '{target.name}' has {has}", location, code="E0008")


def check_text(text: str, target: GpuTarget) -> None:
    """`PolyremeError` when LLVM text calls an intrinsic that the target does not have."""
    for name in sorted(set(_CALL.findall(text))):
        require(name, target, "the module")
