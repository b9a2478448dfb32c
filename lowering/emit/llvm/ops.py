"""How each op on values, memory and vectors is written in LLVM IR."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.builtin import Return
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import product
from polyreme.ir.types import ScalarType, f32, f64, i1, i32, i64, index, is_index
from polyreme.lowering.emit.llvm.dot4 import dot2_code, dot4_code
from polyreme.lowering.emit.llvm.function import EmitOp, EmittedPosition, FunctionEmitter, scalar_of
from polyreme.lowering.emit.llvm.scalar_functions import apply_code, element, memory_element, number_bits
from polyreme.lowering.emit.llvm.text import Lane, TextCode, constant_text, type_text
from polyreme.lowering.machines.memory import LINE_BYTES
from polyreme.lowering.machines.targets import STREAMED_BYTES


def _emit_return(e: FunctionEmitter, op: Any) -> None:
    e.leave()


def _emit_yield(e: FunctionEmitter, op: Any) -> None:
    """Its operands are read by the op around it."""


def _emit_constant(e: FunctionEmitter, op: Any) -> Lane:
    elem = e.index if op.dtype == index else element(op.dtype)
    return e.code.constant(elem, 1, number_bits(op.value, op.dtype))


def _emit_size(e: FunctionEmitter, op: Any) -> EmittedPosition:
    return e.dim(op.value)


_INDEX_RULES: dict[str, Callable[[FunctionEmitter, EmittedPosition, EmittedPosition], EmittedPosition]] = {
    "add": FunctionEmitter.add,
    "sub": FunctionEmitter.subtract,
    "mul": FunctionEmitter.multiply,
}


def _emit_apply(e: FunctionEmitter, op: Any) -> Any:
    operands, fn = op.operands, op.attributes["fn"]
    dtype = scalar_of(operands[-1])
    if is_index(op.results[0].type) and is_index(dtype):
        a = e.values[operands[0]]
        if fn in _INDEX_RULES:
            return _INDEX_RULES[fn](e, a, e.values[operands[1]])
        if len(operands) == 2:
            b = e.values[operands[1]]
            if a.base is None and b.base is None:
                return EmittedPosition(None, int(kernel.Apply.reference((a.offset, b.offset), fn=fn, dtype=None)))
    if fn == "cast" and dtype == f32 and scalar_of(op.result) == i32 and e.target.arch == "x86_64":
        rounded = operands[0].producer(kernel.Apply)
        if rounded is not None and rounded.fn == "round":
            return _nearest_integer(e.get(rounded.xs[0]))
    lanes = [e.get(v) for v in operands]
    return apply_code(fn, lanes, e.number(operands[-1]), e.number(op.result), e.target)


def _nearest_integer(x: Lane) -> Lane:
    """Rounding and conversion in one, halves to even, as x86's conversion does both."""
    into = type_text("i32", x.lanes)
    width = f"v{x.lanes}" if x.lanes > 1 else ""
    return x.code.value("i32", x.lanes, f"call {into} @llvm.lrint.{width}i32.{width}f32({x.typed})")


def _emit_fma(e: FunctionEmitter, op: Any) -> Lane:
    a, b, c = operands = [e.get(v) for v in op.operands]
    dtype = scalar_of(op.a)
    return a.fma(b, c) if dtype is f32 else apply_code("fma", operands, dtype, scalar_of(op.result), e.target)


def _emit_dot4(e: FunctionEmitter, op: Any) -> Lane:
    return dot4_code(e.get(op.a), e.get(op.b), e.get(op.c), e.target, e.once)


def _emit_dot2(e: FunctionEmitter, op: Any) -> Lane:
    return dot2_code(e.get(op.a), e.get(op.b), e.get(op.c), e.target, e.once)


# --- memory


def _emit_alloc(e: FunctionEmitter, op: Any) -> Lane:
    elem, code = memory_element(op.dtype), e.code
    if op.space == "local":
        name = code.name(e.hint(op.result, "local"))
        code.entry.append(f"  {name} = alloca [{product(op.shape)} x {elem}], align {LINE_BYTES}")
        return Lane(code, "ptr", 1, name)
    if e.arena is None:
        raise PolyremeError("'kernel.alloc' expected to stand in '@main', or to be local", op.location, code="E0408")
    if op.offset is None:
        raise PolyremeError("'kernel.alloc' expected an offset: memory is planned before code is emitted", op.location, code="E0408")
    offset = e.lane(e.dim(op.offset))
    return code.value("ptr", 1, f"getelementptr inbounds i8, ptr {e.arena.ref}, i64 {offset.ref}", e.hint(op.result, "buffer"))


def _emit_view(e: FunctionEmitter, op: Any) -> Lane:
    return e.get(op.buffer) if op.offset is None else e.address(op.buffer, op.offset)


def _alignment(op: Any, dtype: ScalarType) -> int:
    """Bytes that a place is a multiple of: an element's, or those of the bytes' own memory for a view of them as words."""
    view = op.buffer.producer(kernel.View)
    if view is not None and view.dtype is not None and view.buffer.type.dtype.kind != "c":
        dtype = view.buffer.type.dtype
    return max(op.align or 0, dtype.bytes)


def _mask(e: FunctionEmitter, op: Any) -> Lane | None:
    """The mask of a load or store, None when all lanes are known to be on."""
    mask = e.get(op.mask) if op.mask is not None else None
    return None if mask is None or mask.known else mask


def _emit_load(e: FunctionEmitter, op: Any) -> Lane:
    dtype, lanes = op.buffer.type.dtype, op.lanes
    elem, align, hint = memory_element(dtype), _alignment(op, op.buffer.type.dtype), e.hint(op.result, "x")
    kind, mask = type_text(elem, lanes), _mask(e, op)
    if mask is None:
        place = e.address(op.buffer, op.index)
        value = e.code.value(elem, lanes, f"load {kind}, {place.typed}, align {align}", hint)
    else:
        place = e.address(op.buffer, op.index, inbounds=False)
        if lanes == 1:
            value = _guarded_load(e, elem, place, mask, align)
        else:
            load = f"@llvm.masked.load.{_suffix(elem, lanes)}.{_space(place)}"
            call = f"call {kind} {load}({place.elem} align {align} {place.ref}, {mask.typed}, {kind} zeroinitializer)"
            value = e.code.value(elem, lanes, call, hint)
    return value.compare("ne", 0) if dtype == i1 else value


def _guarded_load(e: FunctionEmitter, elem: str, place: Lane, mask: Lane, align: int) -> Lane:
    """One element where the mask is on, else 0, without touching memory."""
    code = e.code
    before, on, after = code.block, code.label("on"), code.label("after")
    code.branch(mask.ref, on, after)
    code.start(on)
    loaded = code.value(elem, 1, f"load {elem}, {place.typed}, align {align}", "x")
    code.jump(after)
    code.start(after)
    return code.value(elem, 1, f"phi {elem} [ {loaded.ref}, %{on} ], [ {constant_text(elem, 1, 0)}, %{before} ]", "x")


def _emit_store(e: FunctionEmitter, op: Any) -> None:
    dtype = op.buffer.type.dtype
    value = _in_memory(e.get(op.value), dtype)
    align, mask = _alignment(op, dtype), _mask(e, op)
    if mask is None:
        place = e.address(op.buffer, op.index)
        # Of shorter vectors, or of whole pieces and a rest, every other one would go past the caches and those between them through: a line
        # that is written both ways goes to memory at each turn.
        if op.streaming and e.target.arch == "x86_64" and value.lanes * dtype.bytes % STREAMED_BYTES == 0:
            _stream(e, value, dtype, place, align)
        else:
            e.code.line(f"store {value.typed}, {place.typed}, align {align}")
        return
    place = e.address(op.buffer, op.index, inbounds=False)
    first = _known_lanes(op.mask)
    if value.lanes == 1:
        _guarded_store(e, value, place, mask, align)
    elif first is not None and value.elem in ("i8", "i16") and (first == 1 or not e.target.has("avx512bw")):
        _store_first(e, value, place, first, align)
    else:
        e.code.line(
            f"call void @llvm.masked.store.{_suffix(value.elem, value.lanes)}.{_space(place)}({value.typed}, {place.elem} align {align} "
            f"{place.ref}, {mask.typed})"
        )


def _stream(e: FunctionEmitter, value: Lane, dtype: ScalarType, place: Lane, align: int) -> None:
    """Past the caches in whole registers where `align` promises that, and else where the place is a multiple of 16 bytes, as arrays of
    others are too: then LLVM cuts the store into such pieces, which meet again in a line's buffer.
    """
    code = e.code
    e.streams = True
    if align >= min(value.lanes * dtype.bytes, e.target.vector_bytes):
        code.line(f"store {value.typed}, {place.typed}, align {align}, !nontemporal !{{i32 1}}")
        return
    address = code.value("i64", 1, f"ptrtoint {place.typed} to i64")
    past, through, after = code.label("past"), code.label("through"), code.label("after")
    code.branch((address & (STREAMED_BYTES - 1)).compare("eq", 0).ref, past, through)
    code.start(past)
    code.line(f"store {value.typed}, {place.typed}, align 16, !nontemporal !{{i32 1}}")
    code.jump(after)
    code.start(through)
    code.line(f"store {value.typed}, {place.typed}, align {align}")
    code.jump(after)
    code.start(after)


def _known_lanes(mask: Any) -> int | None:
    """How many lanes are on, where that is known."""
    made = mask.producer(kernel.LaneMask)
    number = None if made is None else made.n.producer(kernel.Constant)
    return None if number is None else int(number.value)


def _store_first(e: FunctionEmitter, value: Lane, place: Lane, first: int, align: int) -> None:
    """The first lanes, in pieces of powers of two. LLVM 22 makes a masked store of one lane of what was narrowed to 8 or 16 bits for it a
    store of the wide element, which writes beyond the lane; and most machines have no masked stores of such elements at all.
    """
    done, code = 0, e.code
    bytes_each = int(value.elem[1:]) // 8
    while done < min(first, value.lanes):
        count = 1 << (min(first, value.lanes) - done).bit_length() - 1
        piece = _pick(code, value, value, range(done, done + count)) if count < value.lanes else value
        at = place if not done else code.value("ptr", 1, f"getelementptr {value.elem}, {place.typed}, i64 {done}")
        code.line(f"store {piece.typed}, {at.typed}, align {math.gcd(align, done * bytes_each)}")
        done += count


def _guarded_store(e: FunctionEmitter, value: Lane, place: Lane, mask: Lane, align: int) -> None:
    code = e.code
    on, after = code.label("on"), code.label("after")
    code.branch(mask.ref, on, after)
    code.start(on)
    code.line(f"store {value.typed}, {place.typed}, align {align}")
    code.jump(after)
    code.start(after)


def _in_memory(value: Lane, dtype: ScalarType) -> Lane:
    return value.convert("zext", "i8") if dtype == i1 else value


def _suffix(elem: str, lanes: int) -> str:
    """How intrinsics spell a vector type in their names."""
    return f"v{lanes}{ {'float': 'f32', 'double': 'f64'}.get(elem, elem) }"


def _space(pointer: Lane) -> str:
    """How intrinsics spell a pointer's address space: p0 for a plain one."""
    return f"p{pointer.elem[-2]}" if pointer.elem.endswith(")") else "p0"


def _lane_addresses(e: FunctionEmitter, op: Any, elem: str) -> Lane:
    indices = e.get(op.indices)
    start = e.get(op.buffer)
    return e.code.value(start.elem, indices.lanes, f"getelementptr {elem}, {start.typed}, {indices.typed}", "at")


def _emit_gather(e: FunctionEmitter, op: Any) -> Lane:
    dtype = op.buffer.type.dtype
    elem, lanes = memory_element(dtype), kernel.lanes_of(op.indices.type)
    places = _lane_addresses(e, op, elem)
    kind = type_text(elem, lanes)
    mask = _mask(e, op)
    if lanes == 1:
        if mask is None:
            value = e.code.value(elem, 1, f"load {elem}, {places.typed}, align {dtype.bytes}", "x")
        else:
            value = _guarded_load(e, elem, places, mask, dtype.bytes)
    else:
        mask = mask or e.code.constant("i1", lanes, True)
        name = f"llvm.masked.gather.{_suffix(elem, lanes)}.v{lanes}{_space(places)}"
        call = f"call {kind} @{name}({places.type} align {dtype.bytes} {places.ref}, {mask.typed}, {kind} zeroinitializer)"
        value = e.code.value(elem, lanes, call, "x")
    return value.compare("ne", 0) if dtype == i1 else value


def _emit_scatter(e: FunctionEmitter, op: Any) -> None:
    dtype = op.buffer.type.dtype
    value = _in_memory(e.get(op.value), dtype)
    places = _lane_addresses(e, op, value.elem)
    lanes, mask = value.lanes, _mask(e, op)
    if lanes == 1:
        if mask is None:
            e.code.line(f"store {value.typed}, {places.typed}, align {dtype.bytes}")
        else:
            _guarded_store(e, value, places, mask, dtype.bytes)
        return
    mask = mask or e.code.constant("i1", lanes, True)
    name = f"llvm.masked.scatter.{_suffix(value.elem, lanes)}.v{lanes}{_space(places)}"
    e.code.line(f"call void @{name}({value.typed}, {places.type} align {dtype.bytes} {places.ref}, {mask.typed})")


def _emit_fetch_add(e: FunctionEmitter, op: Any) -> Lane:
    place, value = e.address(op.buffer, op.index), e.get(op.value)
    return e.code.value("i64", 1, f"atomicrmw add {place.typed}, {value.typed} acq_rel, align {i64.bytes}", e.hint(op.result, "before"))


def _emit_prefetch(e: FunctionEmitter, op: Any) -> None:
    place = e.address(op.buffer, op.index, inbounds=False)
    e.code.line(f"call void @llvm.prefetch.{_space(place)}({place.typed}, i32 {int(op.write)}, i32 {op.locality}, i32 1)")


def _emit_until_aligned(e: FunctionEmitter, op: Any) -> Lane:
    place = e.address(op.buffer, op.index, inbounds=False)
    address = e.code.value("i64", 1, f"ptrtoint {place.typed} to i64", "place")
    return (-address & (op.bytes - 1)).shift_right(scalar_of(op.buffer).bytes.bit_length() - 1)


# --- vectors


def _emit_broadcast(e: FunctionEmitter, op: Any) -> Any:
    x, lanes = e.get(op.x), op.lanes
    if lanes == 1:
        return e.values[op.x]
    return e.once(("splat", x.ref, x.elem, lanes), lambda: _splat(e.code, x, lanes))


def _splat(code: TextCode, x: Lane, lanes: int) -> Lane:
    if x.known is not None:
        return code.constant(x.elem, lanes, x.known)
    kind = type_text(x.elem, lanes)
    one = code.value(x.elem, lanes, f"insertelement {kind} poison, {x.typed}, i32 0", "one")
    return code.value(x.elem, lanes, f"shufflevector {one.typed}, {kind} poison, <{lanes} x i32> zeroinitializer", "all")


def _emit_reduce(e: FunctionEmitter, op: Any) -> Lane:
    x, dtype = e.get(op.x), scalar_of(op.x)
    if dtype == i1 and x.lanes > 1 and op.fn in ("and", "or", "max", "min"):
        packed = e.code.value(f"i{x.lanes}", 1, f"bitcast {x.typed} to i{x.lanes}")
        return packed.compare("ne", 0) if op.fn in ("or", "max") else packed.compare("eq", -1)
    if dtype in (f32, f64) and x.lanes > 1 and op.fn in ("max", "min") and e.target.arch == "x86_64":
        # No instruction keeps nan there: it is looked for once, and not at every step.
        packed = e.code.value(f"i{x.lanes}", 1, f"bitcast {x.is_nan().typed} to i{x.lanes}")
        predicate = "ogt" if op.fn == "max" else "olt"
        best = _in_halves(e.code, x, lambda low, high: low.compare(predicate, high).where(low, high))
        return packed.compare("ne", 0).where(best.like(math.nan), best)
    return _in_halves(e.code, x, lambda low, high: apply_code(op.fn, [low, high], dtype, dtype, e.target))


def _in_halves(code: TextCode, x: Lane, combine: Callable[[Lane, Lane], Lane]) -> Lane:
    """The lower half combined with the upper half, until one lane is left."""
    while x.lanes > 1:
        half = x.lanes // 2
        x = combine(_pick(code, x, x, range(half)), _pick(code, x, x, range(half, x.lanes)))
    return x


def _pick(code: TextCode, a: Lane, b: Lane, lanes: Sequence[int]) -> Lane:
    """The lanes of two vectors laid end to end; one lane is a scalar."""
    if len(lanes) == 1:
        source, lane = (a, lanes[0]) if lanes[0] < a.lanes else (b, lanes[0] - a.lanes)
        return code.value(source.elem, 1, f"extractelement {source.typed}, i32 {lane}")
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return code.value(a.elem, len(lanes), f"shufflevector {a.typed}, {b.typed}, <{len(lanes)} x i32> <{order}>")


def _emit_iota(e: FunctionEmitter, op: Any) -> Lane:
    if op.lanes == 1:
        return e.code.constant(e.index, 1, 0)
    return Lane(e.code, e.index, op.lanes, "<" + ", ".join(f"{e.index} {i}" for i in range(op.lanes)) + ">")


def _emit_lane_mask(e: FunctionEmitter, op: Any) -> Lane:
    """As bits of a number where masks are registers of their own, by comparing lane numbers elsewhere."""
    n, lanes = e.get(op.n), op.lanes
    if n.known is not None:
        return _known_mask(e.code, int(n.known), lanes)
    if lanes == 1:
        return n.compare("sgt", 0)
    n = n.call("smax", 0).call("smin", lanes)
    if e.code.avx512 and lanes < 64:
        bits = ~(n.like(-1) << n)
        packed = bits.convert("trunc", f"i{lanes}")
        return Lane(e.code, "i1", lanes, e.code.value("i1", lanes, f"bitcast {packed.typed} to <{lanes} x i1>", "mask").ref)
    numbers = Lane(e.code, "i32", lanes, "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">")
    return numbers.compare("slt", _splat(e.code, n if n.elem == "i32" else n.convert("trunc", "i32"), lanes))


def _known_mask(code: TextCode, n: int, lanes: int) -> Lane:
    """On for the first n lanes. `known` says when all lanes agree, so that whoever uses the mask can do without."""
    if n <= 0 or n >= lanes:
        return code.constant("i1", lanes, n > 0)
    return Lane(code, "i1", lanes, "<" + ", ".join(f"i1 {'true' if i < n else 'false'}" for i in range(lanes)) + ">")


def _emit_shuffle(e: FunctionEmitter, op: Any) -> Lane:
    return _pick(e.code, e.get(op.a), e.get(op.b), op.lanes)


def _emit_permute(e: FunctionEmitter, op: Any) -> Lane:
    """Lane by lane, of which LLVM makes one instruction where the machine has it."""
    x, places = e.get(op.x), e.get(op.places) & (kernel.lanes_of(op.x.type) - 1)
    made = Lane(e.code, x.elem, x.lanes, "poison")
    for i in range(x.lanes):
        place = e.code.value("i32", 1, f"extractelement {places.typed}, i32 {i}")
        lane = e.code.value(x.elem, 1, f"extractelement {x.typed}, {place.typed}")
        made = e.code.value(x.elem, x.lanes, f"insertelement {made.typed}, {lane.typed}, i32 {i}")
    return made


def _emit_reinterpret(e: FunctionEmitter, op: Any) -> Lane:
    x, elem, lanes = e.get(op.x), element(op.dtype), kernel.lanes_of(op.result.type)
    return x if (x.elem, x.lanes) == (elem, lanes) else e.code.value(elem, lanes, f"bitcast {x.typed} to {type_text(elem, lanes)}")


def _emit_extract(e: FunctionEmitter, op: Any) -> Lane:
    x = e.get(op.x)
    return x if x.lanes == 1 else _pick(e.code, x, x, [op.lane])


def _emit_insert(e: FunctionEmitter, op: Any) -> Lane:
    x, value = e.get(op.x), e.get(op.value)
    if x.lanes == 1:
        return value
    return e.code.value(x.elem, x.lanes, f"insertelement {x.typed}, {value.typed}, i32 {op.lane}")


OPS: dict[type[Op], EmitOp] = {
    Return: _emit_return,
    kernel.Yield: _emit_yield,
    kernel.Constant: _emit_constant,
    kernel.Size: _emit_size,
    kernel.Apply: _emit_apply,
    kernel.Fma: _emit_fma,
    kernel.Dot2: _emit_dot2,
    kernel.Dot4: _emit_dot4,
    kernel.Alloc: _emit_alloc,
    kernel.View: _emit_view,
    kernel.Load: _emit_load,
    kernel.Store: _emit_store,
    kernel.Gather: _emit_gather,
    kernel.Scatter: _emit_scatter,
    kernel.FetchAdd: _emit_fetch_add,
    kernel.UntilAligned: _emit_until_aligned,
    kernel.Prefetch: _emit_prefetch,
    kernel.Broadcast: _emit_broadcast,
    kernel.Reduce: _emit_reduce,
    kernel.Iota: _emit_iota,
    kernel.LaneMask: _emit_lane_mask,
    kernel.Permute: _emit_permute,
    kernel.Shuffle: _emit_shuffle,
    kernel.Reinterpret: _emit_reinterpret,
    kernel.Extract: _emit_extract,
    kernel.Insert: _emit_insert,
}
