"""How the ops of a grid kernel are written in LLVM IR for NVPTX: places of threads, shared memory, and what threads do together.

Buffers are pointers into device memory (address space 1) or shared memory (3), so that loads and stores say where they go. Everything else
is written as on a CPU; only ops that call other functions are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import product
from polyreme.ir.types import ScalarType, bf16, f16, f32
from polyreme.lowering.emit.llvm.control import CONTROL
from polyreme.lowering.emit.llvm.function import Emission, FunctionEmitter, scalar_of
from polyreme.lowering.emit.llvm.ops import OPS
from polyreme.lowering.emit.llvm.scalar_functions import memory_element
from polyreme.lowering.emit.llvm.text import Lane, join
from polyreme.lowering.emit.ptx.warpgroups import WARPGROUPS, BoxMap, map_of
from polyreme.lowering.machines.gpu import UNROLLED_ROUNDS
from polyreme.lowering.machines.memory import LINE_BYTES
from polyreme.lowering.machines.ptx import has, require
from polyreme.lowering.machines.targets import GpuTarget

GLOBAL, SHARED = "ptr addrspace(1)", "ptr addrspace(3)"
# The shared memory whose size a launch says: one name for all kernels, each of which has its own. It begins at a multiple of so many bytes.
DYNAMIC, DYNAMIC_ALIGN = "dynamic_shared", 1024
_WHOLE_WARP = "i32 -1"
# The register of the first coordinate of a block, by which its value is known where it has been read.
BLOCK_ID = "read.ptx.sreg.ctaid.x"


class GridEmitter(FunctionEmitter):
    """One kernel of a grid: its shared memory, and the sizes that it gets as arguments."""

    target: GpuTarget

    def __init__(self, module: Emission, name: str, index: str, func: Func):
        super().__init__(module, name)
        self.func = func
        self.index = index
        self.shared: list[str] = []
        self.shared_bytes = 0
        # Whether the launch says how much shared memory there is.
        self.dynamic = False
        self.sizes: dict[str, Lane] = {}
        # The names of the tensor maps that the kernel takes.
        self.maps: dict[BoxMap, str] = {}

    def map_of(self, op: kernel.CopyBox) -> str:
        """The address of the tensor map that a copy needs."""
        return f"ptr {self.maps[map_of(self.func, op)]}"

    def read_size(self, name: str) -> Lane:
        return self.sizes[name]

    def loop_note(self, op: Op, rounds: int | None) -> str:
        """The assembler may write out a loop of few rounds, and fetch at its beginning what all of them read: with a tile for each round,
        more than registers hold. Such loops stay loops.
        """
        if rounds is None or rounds > UNROLLED_ROUNDS or not any(isinstance(inner, kernel.Barrier) for inner in op.walk()):
            return ""
        self.module.loops += 1
        return f", !llvm.loop !{self.module.loops}"

    def intrinsic(self, op: Op, name: str, result: str, args: Sequence[str]) -> str:
        """A call of `llvm.nvvm.name`, after a check that the target has it."""
        full = require(name, self.target, f"'{op.name}'", op.location)
        return f"call {result} @{full}({', '.join(args)})"


def _place(register: str) -> Callable[[GridEmitter, Any], Lane]:
    """The special register of a coordinate, read once per function."""

    def emit(e: GridEmitter, op: Any) -> Lane:
        name = f"read.ptx.sreg.{register}.{'xyz'[op.axis]}"

        def read() -> Lane:
            number = e.code.value("i32", 1, e.intrinsic(op, name, "i32", []), register)
            return number if e.index == "i32" else number.convert("zext", e.index)

        return e.once((name,), read)

    return emit


def shared_size(op: Any) -> int:
    """The bytes of shared memory that an `alloc` takes."""
    return -(-max(1, int(product(op.shape))) * op.dtype.bytes // LINE_BYTES) * LINE_BYTES


def _emit_alloc(e: GridEmitter, op: Any) -> Lane:
    """Shared memory is one variable for each `alloc`, or, where all of them take more than a kernel has by itself, a part of the one whose
    size the launch says.
    """
    if op.space != "shared":
        return OPS[kernel.Alloc](e, op)
    start = e.shared_bytes
    e.shared_bytes += shared_size(op)
    if e.shared_bytes > e.target.shared_bytes:
        raise PolyremeError(
            f"expected at most {e.target.shared_bytes} bytes of shared memory in '{e.name}' but got {e.shared_bytes}",
            op.location,
            code="E0408",
        )
    if e.dynamic:
        return Lane(e.code, SHARED, 1, f"getelementptr (i8, {SHARED} @{DYNAMIC}, i32 {start})" if start else f"@{DYNAMIC}")
    name = f"{e.name}_shared_{len(e.shared)}"
    count = max(1, int(product(op.shape)))
    e.shared.append(f"@{name} = internal addrspace(3) global [{count} x {memory_element(op.dtype)}] undef, align {LINE_BYTES}")
    return Lane(e.code, SHARED, 1, f"@{name}")


def _emit_barrier(e: GridEmitter, op: Any) -> None:
    e.code.line(e.intrinsic(op, "barrier.cta.sync.aligned.all", "void", ["i32 0"]))


_SHUFFLES = {"xor": ("bfly", 31), "down": ("down", 31), "up": ("up", 0), "from": ("idx", 31)}


def _emit_shuffle(e: GridEmitter, op: Any) -> Lane:
    """By words of 32 bits: narrow values are widened, wide ones go in two."""
    mode, clamp = _SHUFFLES[op.mode]

    def exchange(word: Lane) -> Lane:
        args = [_WHOLE_WARP, word.typed, f"i32 {op.by}", f"i32 {clamp}"]
        return e.code.value("i32", 1, e.intrinsic(op, f"shfl.sync.{mode}.i32", "i32", args))

    x = e.get(op.x)
    bits = x.bits() if x.is_float else x
    width = int(bits.elem[1:])
    if width == 64:
        low = exchange(bits.convert("trunc", "i32")).convert("zext", "i64")
        high = exchange(bits.shift_right(32).convert("trunc", "i32")).convert("zext", "i64")
        got = (high << 32) | low
    else:
        got = exchange(bits if width == 32 else bits.convert("zext", "i32"))
        got = got if width == 32 else got.convert("trunc", bits.elem)
    return got.convert("bitcast", x.elem) if x.is_float else got


def _when(e: GridEmitter, mask: Any, write: Callable[[], None]) -> None:
    """Write code that runs only where the mask, if there is one, is on."""
    on = e.get(mask) if mask is not None else None
    if on is None or on.known:
        write()
        return
    yes, after = e.code.label("on"), e.code.label("after")
    e.code.branch(on.ref, yes, after)
    e.code.start(yes)
    with e.scope():
        write()
    e.code.jump(after)
    e.code.start(after)


def _emit_atomic(e: GridEmitter, op: Any) -> None:
    value, dtype = e.get(op.value), op.buffer.type.dtype
    place = e.address(op.buffer, op.index, inbounds=op.mask is None)
    word = "fadd" if dtype.is_float else "add"

    def write() -> None:
        e.code.value(value.elem, 1, f"atomicrmw {word} {place.typed}, {value.typed} monotonic, align {dtype.bytes}", "old")

    _when(e, op.mask, write)


# --- tensor cores


def _words(x: Lane, dtype: ScalarType) -> list[Lane]:
    """The fragment of a matrix as registers of 32 bits: float32 one each, 16-bit elements two each."""
    if dtype == f32:
        return x.convert("bitcast", "i32").split()
    half = x.lanes // 2
    return x.code.value("i32", half, f"bitcast {x.typed} to <{half} x i32>").split()


_MMA = {f32: "mma.m16n8k8.row.col.tf32", bf16: "mma.m16n8k16.row.col.bf16", f16: "mma.m16n8k16.row.col.f32.f32"}


def _emit_mma(e: GridEmitter, op: Any) -> Lane:
    dtype = scalar_of(op.a)
    words = [*_words(e.get(op.a), dtype), *_words(e.get(op.b), dtype)]
    if dtype == f16:
        words = [e.code.value("half", 2, f"bitcast {word.typed} to <2 x half>") for word in words]
    args = [word.typed for word in (*words, *e.get(op.c).split())]
    name = _MMA[dtype]
    kind = "{ float, float, float, float }"
    whole = e.code.value("", 1, e.intrinsic(op, name, kind, args), "mma").ref
    return join([e.code.value("float", 1, f"extractvalue {kind} {whole}, {i}") for i in range(4)])


def _emit_round_tf32(e: GridEmitter, op: Any) -> Lane:
    parts = []
    for x in e.get(op.x).split():
        parts.append(e.code.value("i32", 1, e.intrinsic(op, "f2tf32.rna", "i32", [x.typed])).convert("bitcast", "float"))
    return join(parts)


def _emit_exp2(e: GridEmitter, op: Any) -> Lane:
    return e.code.value("float", 1, e.intrinsic(op, "ex2.approx.ftz.f", "float", [e.get(op.x).typed]))


def _emit_apply(e: GridEmitter, op: Any) -> Any:
    """As elsewhere; two float32 are rounded to bfloat16 at once where there is an instruction for it."""
    x = op.operands[0]
    if op.fn != "cast" or scalar_of(op.result) != bf16 or scalar_of(x) != f32 or not has("ff2bf16x2.rn", e.target):
        return OPS[kernel.Apply](e, op)
    lanes = e.get(x).split()
    words = []
    for low, high in zip(lanes[::2], [*lanes[1::2], lanes[-1]][: len(lanes[::2])], strict=True):
        pair = e.code.value("bfloat", 2, e.intrinsic(op, "ff2bf16x2.rn", "<2 x bfloat>", [high.typed, low.typed]))
        words.append(e.code.value("i32", 1, f"bitcast {pair.typed} to i32"))
    together = join(words)
    if len(lanes) == 1:
        return together.convert("trunc", "i16")
    return e.code.value("i16", len(lanes), f"bitcast {together.typed} to <{len(lanes)} x i16>")


def _emit_load_matrix(e: GridEmitter, op: Any) -> Lane:
    place = e.address(op.buffer, op.index)
    if place.elem != SHARED:
        raise PolyremeError("'kernel.load_matrix' expected shared memory", op.location, code="E0408")
    name = f"ldmatrix.sync.aligned.m8n8.x{op.count}{'.trans' if op.transpose else ''}.b16.p3"
    kind = "i32" if op.count == 1 else "{ " + ", ".join(["i32"] * op.count) + " }"
    whole = e.code.value("i32", 1, e.intrinsic(op, name, kind, [place.typed]), "tile")
    words = [whole] if op.count == 1 else [e.code.value("i32", 1, f"extractvalue {kind} {whole.ref}, {i}") for i in range(op.count)]
    together = join(words)
    return e.code.value("i16", 2 * op.count, f"bitcast {together.typed} to <{2 * op.count} x i16>")


# --- copies


def _emit_copy_async(e: GridEmitter, op: Any) -> None:
    source, target = e.address(op.source, op.source_index, inbounds=op.mask is None), e.address(op.target, op.target_index)
    if (source.elem, target.elem) != (GLOBAL, SHARED):
        raise PolyremeError("'kernel.copy_async' expected a copy from device memory to shared memory", op.location, code="E0408")
    size = op.lanes * op.source.type.dtype.bytes
    name, args = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}", [target.typed, source.typed]
    if op.mask is not None:
        on = e.get(op.mask)
        # Bytes beyond those that are read are written as zeros.
        name, args = f"{name}.s", [*args, on.where(Lane(e.code, "i32", 1, str(size), size), 0).typed]
    e.code.line(e.intrinsic(op, name, "void", args))


def _emit_copy_commit(e: GridEmitter, op: Any) -> None:
    e.code.line(e.intrinsic(op, "cp.async.commit.group", "void", []))


def _emit_copy_wait(e: GridEmitter, op: Any) -> None:
    e.code.line(e.intrinsic(op, "cp.async.wait.group", "void", [f"i32 {op.pending}"]))


def _emit_nothing(e: GridEmitter, op: Any) -> None:
    """Prefetching is for machines that run one thread at a time."""


GRID: dict[type[Op], Any] = {
    **OPS,
    kernel.For: CONTROL[kernel.For],
    kernel.If: CONTROL[kernel.If],
    kernel.While: CONTROL[kernel.While],
    kernel.Alloc: _emit_alloc,
    kernel.Prefetch: _emit_nothing,
    kernel.BlockId: _place("ctaid"),
    kernel.BlockCount: _place("nctaid"),
    kernel.ThreadId: _place("tid"),
    kernel.ThreadCount: _place("ntid"),
    kernel.Barrier: _emit_barrier,
    kernel.WarpShuffle: _emit_shuffle,
    kernel.Atomic: _emit_atomic,
    kernel.Apply: _emit_apply,
    kernel.Exp2: _emit_exp2,
    kernel.Mma: _emit_mma,
    kernel.RoundTf32: _emit_round_tf32,
    kernel.LoadMatrix: _emit_load_matrix,
    kernel.CopyAsync: _emit_copy_async,
    kernel.CopyCommit: _emit_copy_commit,
    kernel.CopyWait: _emit_copy_wait,
    **WARPGROUPS,
}
