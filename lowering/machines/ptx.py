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
    """The least compute capability (80 for sm_80) and PTX version (70 for 7.0)."""

    sm: int
    ptx: int

    def __str__(self) -> str:
        return f"sm_{self.sm} and PTX {self.ptx // 10}.{self.ptx % 10}"


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

_CALL = re.compile(r"@llvm\.nvvm\.([A-Za-z0-9_.]+)\(")


def require(intrinsic: str, target: GpuTarget, what: str, location: Location = UNKNOWN) -> str:
    """The full name of an intrinsic that `target` has; `PolyremeError` naming `what` (an op) when it does not."""
    need = INTRINSICS.get(intrinsic)
    if need is None:
        raise PolyremeError(f"{what} uses 'llvm.nvvm.{intrinsic}', of which nothing is known", location, code="E0408")
    if target.sm < need.sm or target.ptx < need.ptx:
        has = Need(target.sm, target.ptx)
        raise PolyremeError(f"{what} expected {need} at least but the target '{target.name}' has {has}", location, code="E0008")
    return f"llvm.nvvm.{intrinsic}"


def check_text(text: str, target: GpuTarget) -> None:
    """`PolyremeError` when LLVM text calls an intrinsic that the target does not have."""
    for name in sorted(set(_CALL.findall(text))):
        require(name, target, "the module")
