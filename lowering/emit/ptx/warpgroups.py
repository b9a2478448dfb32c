"""How the ops of `dialects/kernel/warpgroups.py` are written for sm_90a: as instructions of PTX, since LLVM has no intrinsics for most.

The sums of products are in and out of one instruction in the same registers (tied operands), so that the assembler sees one row of products
in place. `kernel.wgmma_fence` and `kernel.wgmma_wait` do the same with those that they give: whoever wrote a sum did so before the fence,
and whoever reads one reads what the wait gave.

What `kernel.copy_box` says of an array becomes a tensor map: 128 bytes that the host makes and the kernel takes as a parameter, in front of
all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType
from polyreme.lowering.emit.llvm.text import Lane, join
from polyreme.lowering.machines.ptx import EIGHT_LINES, SWIZZLE_128, require_instruction

if TYPE_CHECKING:
    from polyreme.lowering.emit.ptx.grid import GridEmitter

# A parameter of 128 bytes that the kernel gives the address of.
MAP_PARAMETER = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'


@dataclass(frozen=True)
class BoxMap:
    """A tensor map that a kernel takes: of which of its arguments, and what `kernel.copy_box` says of it."""

    argument: int
    dtype: ScalarType
    sizes: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    box: tuple[int, ...]
    start: Dim


def map_of(func: Func, op: kernel.CopyBox) -> BoxMap:
    """The tensor map that a copy needs; an error where it is not of an argument."""
    if op.source not in func.args:
        raise PolyremeError(f"'{op.name}' expected an argument of the kernel", op.location, code="E0408")
    return BoxMap(func.args.index(op.source), op.source.type.dtype, op.sizes, op.strides, op.box, op.start)


def maps_of(func: Func) -> tuple[BoxMap, ...]:
    """All tensor maps of a kernel, in the order of its parameters."""
    return tuple(dict.fromkeys(map_of(func, op) for op in func.walk() if isinstance(op, kernel.CopyBox)))


def _call(e: GridEmitter, op: Op, text: str, constraints: str, args: Sequence[str], result: str = "void") -> str:
    """One instruction, of which nothing moves past another one."""
    guard, _, rest = text.rpartition("@$1 ") if text.startswith("@") else ("", "", text)
    require_instruction(rest.split()[0].rstrip(";"), e.target, f"'{op.name}'", op.location)
    constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    return f'call {result} asm sideeffect "{text}", "{constraints}"({", ".join(args)})'


def _shared(e: GridEmitter, op: Any, buffer: Any, index: Any) -> Lane:
    place = e.address(buffer, index)
    if place.elem != "ptr addrspace(3)":
        raise PolyremeError(f"'{op.name}' expected shared memory", op.location, code="E0408")
    return place


def _word(x: Lane) -> Lane:
    """An index in 32 bits."""
    if x.known is not None:
        return Lane(x.code, "i32", 1, str(int(x.known)), x.known)
    return x if x.elem == "i32" else x.convert("trunc", "i32")


# --- counted barriers


def _emit_init(e: GridEmitter, op: Any) -> None:
    start = e.get(op.barriers)
    for i, count in enumerate(op.counts):
        place = e.code.value(start.elem, 1, f"getelementptr inbounds i64, {start.typed}, i64 {i}", "barrier")
        e.code.line(_call(e, op, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", [place.typed, f"i32 {count}"]))
    # For those who copy, which see memory in another way than threads do.
    e.code.line(_call(e, op, "fence.mbarrier_init.release.cluster;", "", []))


def _emit_expect(e: GridEmitter, op: Any) -> None:
    place = _shared(e, op, op.barriers, op.index)
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    e.code.line(_call(e, op, text, "r,r", [place.typed, f"i32 {op.bytes}"]))


def _emit_arrive(e: GridEmitter, op: Any) -> None:
    place = _shared(e, op, op.barriers, op.index)
    text, constraints, args = "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", [place.typed]
    if op.mask is not None:
        # No branch, which products under way would stand on both sides of.
        text, constraints, args = f"@$1 {text}", "r,b", [*args, e.get(op.mask).typed]
    e.code.line(_call(e, op, text, constraints, args))


def _emit_wait(e: GridEmitter, op: Any) -> None:
    """The instruction gives up after a while, so it is tried again."""
    place, parity = _shared(e, op, op.barriers, op.index), _word(e.get(op.parity))
    again, after = e.code.label("wait"), e.code.label("over")
    e.code.jump(again)
    e.code.start(again)
    text = "mbarrier.try_wait.parity.shared::cta.b64 $0, [$1], $2;"
    is_over = e.code.value("i1", 1, _call(e, op, text, "=b,r,r", [place.typed, parity.typed], "i1"), "is_over")
    e.code.branch(is_over.ref, after, again)
    e.code.start(after)


# --- copies


def _emit_copy_box(e: GridEmitter, op: Any) -> None:
    target, barrier = _shared(e, op, op.target, op.at), _shared(e, op, op.barriers, op.index)
    source = e.map_of(op)
    axes = len(op.sizes)
    coordinates = [_word(e.get(c)).typed for c in op.coordinates]
    places = ", ".join(f"${i + 2}" for i in range(axes))
    text = f"cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {{{places}}}], [${axes + 2}];"
    constraints = ",".join(["r", "l", *["r"] * axes, "r"])
    e.code.line(_call(e, op, text, constraints, [target.typed, source, *coordinates, barrier.typed]))


# --- products


def _descriptor(e: GridEmitter, op: Any, buffer: Any, at: Any, apart: int) -> Lane:
    """Where an operand lies, as the instruction wants it: all places in units of 16 bytes."""
    place = _shared(e, op, buffer, at)
    address = e.code.value("i32", 1, f"ptrtoint {place.typed} to i32", "place")
    units = (address & 0x3FFFF).shift_right(4).convert("zext", "i64")
    bits = SWIZZLE_128 | (EIGHT_LINES >> 4) << 32 | max(1, 2 * apart >> 4) << 16
    return units | bits


def _with_sums(e: GridEmitter, op: Any, text: str, kinds: Sequence[str], args: Sequence[str], sums: Sequence[Lane]) -> list[Lane]:
    """An instruction that changes sums where they are: `{sums}` in its text are all of them; other operands follow, from `{0}` on."""
    words = [word for lane in sums for word in lane.split()]
    count = len(words)
    names = [f"${count + i}" for i in range(len(kinds))]
    text = text.format(*names, sums=", ".join(f"${i}" for i in range(count)))
    constraints = ",".join([*["=f"] * count, *kinds, *map(str, range(count))])
    kind = "{ " + ", ".join(["float"] * count) + " }" if count > 1 else "float"
    whole = e.code.value("", 1, _call(e, op, text, constraints, [*args, *(w.typed for w in words)], kind), "sums").ref
    after = [e.code.value("float", 1, f"extractvalue {kind} {whole}, {i}") for i in range(count)]
    found = []
    for lane in sums:
        found.append(join(after[: lane.lanes]))
        after = after[lane.lanes :]
    return found


def _emit_wgmma(e: GridEmitter, op: Any) -> Lane:
    a = _descriptor(e, op, op.a, op.at_a, op.apart_a)
    b = _descriptor(e, op, op.b, op.at_b, op.apart_b)
    dtype = str(op.a.type.dtype)
    text = (
        f"wgmma.mma_async.sync.aligned.m64n{op.columns}k16.f32.{dtype}.{dtype} "
        f"{{{{{{sums}}}}}}, {{0}}, {{1}}, 1, 1, 1, {int(op.transpose_a)}, {int(op.transpose_b)};"
    )
    (after,) = _with_sums(e, op, text, ["l", "l"], [a.typed, b.typed], [e.get(op.sums)])
    return after


def _emit_products_wait(e: GridEmitter, op: Any) -> list[Lane] | None:
    return _around_products(e, op, f"wgmma.wait_group.sync.aligned {op.pending};")


def _emit_fence(e: GridEmitter, op: Any) -> list[Lane] | None:
    return _around_products(e, op, "wgmma.fence.sync.aligned;")


def _around_products(e: GridEmitter, op: Any, text: str) -> list[Lane] | None:
    if not op.sums:
        e.code.line(_call(e, op, text, "", []))
        return None
    return _with_sums(e, op, text, [], [], [e.get(v) for v in op.sums])


def _emit_commit(e: GridEmitter, op: Any) -> None:
    e.code.line(_call(e, op, "wgmma.commit_group.sync.aligned;", "", []))


def _emit_set_registers(e: GridEmitter, op: Any) -> None:
    e.code.line(_call(e, op, f"setmaxnreg.{'inc' if op.more else 'dec'}.sync.aligned.u32 {op.count};", "", []))


WARPGROUPS: dict[type[Op], Any] = {
    kernel.CountedInit: _emit_init,
    kernel.CountedExpect: _emit_expect,
    kernel.CountedArrive: _emit_arrive,
    kernel.CountedWait: _emit_wait,
    kernel.CopyBox: _emit_copy_box,
    kernel.Wgmma: _emit_wgmma,
    kernel.WgmmaFence: _emit_fence,
    kernel.WgmmaCommit: _emit_commit,
    kernel.WgmmaWait: _emit_products_wait,
    kernel.SetRegisters: _emit_set_registers,
}
