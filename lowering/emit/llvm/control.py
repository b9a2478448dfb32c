"""How loops, branches, calls, parallel loops and the clock are written in LLVM IR.

Loops test at their end, behind a guard unless the bounds are known. The body of `kernel.parallel` becomes a function on a range of
iterations, and a second one that unpacks its context for `polyreme_parallel`, so that buffers keep their `noalias` inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects import kernel
from polyreme.dialects.kernel.effects import root_of, written_by
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbols
from polyreme.ir.types import BufferType
from polyreme.lowering.emit.llvm.facts import SILENT, overlap
from polyreme.lowering.emit.llvm.function import EmitOp, EmittedPosition, FunctionEmitter
from polyreme.lowering.emit.llvm.text import Lane
from polyreme.lowering.machines.linux import CLOCK_MONOTONIC


def _emit_for(e: FunctionEmitter, op: Any) -> list[Any]:
    """A loop that tests at its end. Bounds that are known decide here whether it runs, and a single round is no loop."""
    lo, hi = e.values[op.lo], e.values[op.hi]
    rounds = _rounds(lo, hi, op.step)
    if rounds == 0:
        return [e.values[v] for v in op.inits]
    if rounds == 1:
        for arg, value in zip(op.block.args, (lo, *(e.values[v] for v in op.inits)), strict=True):
            e.bind(arg, value)
        return e.run_region(op.body)
    if lo.base is None and lo.offset == 0 and _shares_each_round(op):
        return _emit_rounds(e, op)
    return _write_loop(e, lo, hi, op.step, [e.get(v) for v in op.inits], op.body, guard=rounds is None, note=e.loop_note(op, rounds))


def _rounds(lo: EmittedPosition, hi: EmittedPosition, step: int) -> int | None:
    """How often the body runs, when that is known."""
    same = lo.base is hi.base or (lo.base is not None and hi.base is not None and lo.base.ref == hi.base.ref)
    return max(0, -((lo.offset - hi.offset) // step)) if same else None


def _write_loop(
    e: FunctionEmitter, lo: EmittedPosition, hi: EmittedPosition, step: int, inits: list[Lane], body: Region, guard: bool, note: str = ""
) -> list[Any]:
    code, args = e.code, body.block.args
    first, last = e.lane(lo), e.lane(hi)
    loop, end = code.label("loop"), code.label("end")
    before = code.block
    if guard:
        code.branch(first.compare("slt", last).ref, loop, end)
        before = code.block
    else:
        code.jump(loop)
    code.start(loop)
    # The phis' second values are known once the body is written; their lines wait.
    names = [code.name(e.hint(args[0], "i")), *(code.name(e.hint(a, "carried")) for a in args[1:])]
    kinds = [e.index, *(x.type for x in inits)]
    at = len(code.lines)
    code.lines += [""] * len(names)
    for arg, name in zip(args, names, strict=True):
        e.bind(arg, e.named(arg.type, name))
    with e.scope():
        yielded = [e.lane(v) if isinstance(v, EmittedPosition) else v for v in e.run_block(body.block)]
        counter = Lane(code, e.index, 1, names[0])
        following = counter.emit("add nsw", step, hint="next")
        again = following.compare("slt", last)
    latch = code.block
    code.branch(again.ref, loop, end, note)
    for k, (name, kind, start, latest) in enumerate(zip(names, kinds, [first, *inits], [following, *yielded], strict=True)):
        code.lines[at + k] = f"  {name} = phi {kind} [ {start.ref}, %{before} ], [ {latest.ref}, %{latch} ]"
    code.start(end)
    if not guard:
        return yielded
    return [
        code.value(x.elem, x.lanes, f"phi {x.type} [ {x.ref}, %{before} ], [ {y.ref}, %{latch} ]", "last")
        for x, y in zip(inits, yielded, strict=True)
    ]


def _emit_if(e: FunctionEmitter, op: Any) -> list[Lane]:
    code, condition = e.code, e.get(op.condition)
    yes, no, end = code.label("then"), code.label("else"), code.label("end")
    code.branch(condition.ref, yes, no)
    ways: list[tuple[list[Lane], str]] = []
    for label, region in ((yes, op.then_body), (no, op.else_body)):
        code.start(label)
        with e.scope():
            passed = e.run_block(region.block)
            # A position becomes a number inside the branch, where what it is made of stands.
            lanes = [e.lane(v) if isinstance(v, EmittedPosition) else v for v in passed]
        ways.append((lanes, code.block))
        code.jump(end)
    code.start(end)
    (first, block_a), (second, block_b) = ways
    return [
        code.value(a.elem, a.lanes, f"phi {a.type} [ {a.ref}, %{block_a} ], [ {b.ref}, %{block_b} ]", "either")
        for a, b in zip(first, second, strict=True)
    ]


def _emit_return_unless(e: FunctionEmitter, op: Any) -> None:
    code, condition = e.code, e.get(op.condition)
    goes_on, ends = code.label("goes_on"), code.label("ends")
    code.branch(condition.ref, goes_on, ends)
    code.start(ends)
    code.line("ret void")
    code.start(goes_on)


def _emit_while(e: FunctionEmitter, op: Any) -> list[Any]:
    """A loop that tests at its beginning."""
    code, inits = e.code, [e.get(v) for v in op.inits]
    head, body, end = code.label("head"), code.label("body"), code.label("end")
    before = code.block
    code.jump(head)
    code.start(head)
    # The phis' second values are known once the body is written; their lines wait.
    names = [code.name(e.hint(a, "carried")) for a in op.body.block.args]
    at = len(code.lines)
    code.lines += [""] * len(names)
    carried = [e.named(a.type, name) for a, name in zip(op.body.block.args, names, strict=True)]
    for region in (op.condition, op.body):
        for arg, value in zip(region.block.args, carried, strict=True):
            e.bind(arg, value)
    with e.scope():
        (again,) = e.run_block(op.condition.block)
        code.branch(again.ref, body, end)
    code.start(body)
    with e.scope():
        yielded = [e.lane(v) if isinstance(v, EmittedPosition) else v for v in e.run_block(op.body.block)]
    latch = code.block
    code.jump(head)
    for k, (name, start, latest) in enumerate(zip(names, inits, yielded, strict=True)):
        code.lines[at + k] = f"  {name} = phi {start.type} [ {start.ref}, %{before} ], [ {latest.ref}, %{latch} ]"
    code.start(end)
    return carried


def _emit_call(e: FunctionEmitter, op: Any) -> None:
    facts = e.module.facts[op.callee.name]
    func = e.module.code_of(e.module.by_name[op.callee.name])
    e.module.called[func.sym_name] = func
    wanted = [a.type for a in func.args]
    if len(wanted) != len(op.operands):
        raise PolyremeError(
            f"'kernel.call' expected {len(wanted)} arguments for '{op.callee}' but got {len(op.operands)}", op.location, code="E0408"
        )
    args = [e.get(v).typed for v in op.operands]
    if facts.pool:
        assert e.pool is not None
        args.append(e.pool.typed)
    if facts.sizes:
        args.append(e.sizes_for(facts.sizes).typed)
    e.code.line(f"call void @{e.module.symbol(func)}({', '.join(args)})")


def _emit_parallel(e: FunctionEmitter, op: Any) -> None:
    """The body as a function on a range, called through the pool with the values it uses from outside in a struct on the stack."""
    if e.part is not None:
        (begin, end), e.part = e.part, None
        _write_loop(e, EmittedPosition(begin, 0), EmittedPosition(end, 0), 1, [], op.body, guard=True)
        return
    count = e.values[op.count]
    if count.base is None and count.offset == 0:
        return
    if count.base is None and count.offset == 1:
        e.bind(op.block.args[0], EmittedPosition(None, 0))
        e.run_region(op.body)
        return

    def write(inner: FunctionEmitter, begin: Lane, end: Lane) -> None:
        _write_loop(inner, EmittedPosition(begin, 0), EmittedPosition(end, 0), 1, [], op.body, guard=True)

    body, context = _outline(e, op, ("begin", "end"), write)
    assert e.pool is not None
    e.code.line(f"call void @polyreme_parallel(ptr {e.pool.ref}, ptr @{body}, ptr {context}, i64 {e.lane(count).ref}, i64 {op.grain})")


def _shares_each_round(op: Any) -> bool:
    """Whether all that each round of a loop does is a parallel loop with a part for each thread: threads then meet between rounds without
    the pool.
    """
    if len(op.block) < 2:
        return False
    *numbers, parallel, _ = op.block
    simple = not op.inits and op.step == 1 and all(isinstance(x, (kernel.Apply, kernel.Constant)) for x in numbers)
    if not simple or not isinstance(parallel, kernel.Parallel) or parallel.grain != 1:
        return False
    made = parallel.count.producer()
    return made not in numbers and _counts_threads(parallel.count)


def _counts_threads(value: Value) -> bool:
    """Whether a number is that of threads, or one that was chosen beside it."""
    made = value.producer()
    return isinstance(made, kernel.Threads) or (
        isinstance(made, kernel.Apply) and made.fn in ("min", "select") and any(map(_counts_threads, made.operands))
    )


def _emit_rounds(e: FunctionEmitter, op: Any) -> list[Any]:
    """A loop that shares each round, as one job of the pool: its body is a function on a round and a range of parts."""
    parallel = op.block.ops[-2]

    def write(inner: FunctionEmitter, number: Lane, begin: Lane, end: Lane) -> None:
        inner.bind(op.block.args[0], EmittedPosition(number, 0))
        inner.part = (begin, end)
        inner.run_region(op.body)

    body, context = _outline(e, op, ("round", "begin", "end"), write)
    assert e.pool is not None
    rounds, parts = e.get(op.hi), e.get(parallel.count)
    e.code.line(f"call void @polyreme_parallel_rounds(ptr {e.pool.ref}, ptr @{body}, ptr {context}, i64 {rounds.ref}, i64 {parts.ref})")
    return []


def _outline(e: FunctionEmitter, op: Any, numbers: Sequence[str], write: Callable[..., None]) -> tuple[str, str]:
    """The body of an op as a function on some numbers, which `write` writes, behind one that unpacks a context; its name, and the context
    with the values it uses from outside.
    """
    code, module = e.code, e.module
    name = module.unique(f"{e.name}.body")
    unpack = module.unique(f"{name}.thread")
    inner = FunctionEmitter(module, name)
    inner.own_sizes = e.own_sizes
    params, fields = _capture(e, inner, op)
    lanes = [Lane(inner.code, "i64", 1, inner.code.name(n)) for n in numbers]
    write(inner, *lanes)
    inner.leave()
    module.finish(inner, f"define internal void @{name}({', '.join([*params, *(x.typed for x in lanes)])})")

    struct = "{ " + ", ".join(f.type for f in fields) + " }"
    lines = []
    for i, field in enumerate(fields):
        lines += [f"  %at{i} = getelementptr inbounds {struct}, ptr %context, i32 0, i32 {i}", f"  %x{i} = load {field.type}, ptr %at{i}"]
    numbered = [f"i64 %{n}" for n in numbers]
    arguments = ", ".join([*(f"{f.type} %x{i}" for i, f in enumerate(fields)), *numbered])
    thread = f"define internal void @{unpack}({', '.join(['ptr %context', *numbered])}) #0 {{"
    module.functions.append("\n".join([thread, "entry:", *lines, f"  call void @{name}({arguments})", "  ret void", "}"]))

    context = "null"
    if fields:
        context = code.name("context")
        code.entry.append(f"  {context} = alloca {struct}")
    for i, field in enumerate(fields):
        place = code.value("ptr", 1, f"getelementptr inbounds {struct}, ptr {context}, i32 0, i32 {i}", "at")
        code.line(f"store {field.typed}, ptr {place.ref}")
    return unpack, context


def _emit_threads(e: FunctionEmitter, op: Any) -> Lane:
    assert e.pool is not None
    count = e.code.value("i32", 1, f"call i32 @polyreme_pool_threads(ptr {e.pool.ref})", "threads")
    return count.convert("sext", "i64")


def _emit_alternate(e: FunctionEmitter, op: Any) -> Lane:
    """A flag of the code's own, which each call inverts. Of two calls at once both may see the same value."""
    place = f"@{e.module.unique(f'{e.name}.calls')}"
    e.module.functions.append(f"{place} = internal global i32 0, align 64")
    before = e.code.value("i32", 1, f"load atomic i32, ptr {place} monotonic, align 4", "calls")
    e.code.line(f"store atomic {(before ^ 1).typed}, ptr {place} monotonic, align 4")
    return before.convert("trunc", "i1")


def _capture(e: FunctionEmitter, inner: FunctionEmitter, op: Any) -> tuple[list[str], list[Lane]]:
    """Bind in `inner` what the body uses from outside: its parameters there, and the same values out here."""
    inside: set[Any] = set()
    outside: dict[Value, None] = {}
    needs_pool = needs_sizes = False
    written: set[Value] = set()
    they_meet = False
    for nested in op.walk():
        inside.update(nested.results)
        if nested is not op:
            for value in nested.operands:
                if value not in inside:
                    outside[value] = None
        if nested.regions:
            for region in nested.regions:
                inside.update(region.block.args)
        if nested.__class__ in SILENT:
            continue
        written.update(map(root_of, _written_by(e, nested)))
        if isinstance(nested, kernel.Call):
            facts = e.module.facts[nested.callee.name]
            needs_pool, needs_sizes = needs_pool or facts.pool, needs_sizes or bool(facts.sizes)
        elif nested is not op and isinstance(nested, (kernel.Parallel, kernel.Threads)):
            needs_pool = True
        elif isinstance(nested, kernel.Size):
            needs_sizes = needs_sizes or bool(symbols(nested.value))
        elif isinstance(nested, kernel.FetchAdd):
            they_meet = True
    params: list[str] = []
    fields: list[Lane] = []
    passed: dict[str, Lane] = {}

    def pass_in(lane: Lane, hint: str, promise: str = "") -> Lane:
        if lane.ref not in passed:
            fields.append(lane)
            passed[lane.ref] = Lane(inner.code, lane.elem, lane.lanes, inner.code.name(hint))
            params.append(f"{lane.type}{promise} {passed[lane.ref].ref}")
        return passed[lane.ref]

    buffers = [v for v in outside if isinstance(v.type, BufferType)]
    for value in outside:
        bound = e.values[value]
        hint = e.hint(value, "x")
        if isinstance(bound, EmittedPosition):
            inner.values[value] = EmittedPosition(None if bound.base is None else pass_in(bound.base, hint), bound.offset)
        elif bound.elem == "ptr":
            alone = all(other is value or not overlap(value, other) for other in buffers) and not _may_be_shared(e, value)
            # Iterations that hear of each other read what others write.
            alone = alone and not (they_meet and root_of(value) in written)
            promise = (" noalias" if alone else "") + ("" if root_of(value) in written else " readonly")
            inner.values[value] = pass_in(bound, hint, promise)
        elif bound.known is not None:
            inner.values[value] = Lane(inner.code, bound.elem, bound.lanes, bound.ref, bound.known)
        elif not bound.ref.startswith("%"):
            inner.values[value] = Lane(inner.code, bound.elem, bound.lanes, bound.ref)
        else:
            inner.values[value] = pass_in(bound, hint)
    if needs_pool:
        assert e.pool is not None
        inner.pool = pass_in(e.pool, "pool")
    if needs_sizes:
        assert e.size_array is not None
        inner.size_array = pass_in(e.size_array, "sizes")
    return params, fields


def _may_be_shared(e: FunctionEmitter, buffer: Value) -> bool:
    """Whether a buffer is, or views, an argument that some call gives together with an overlapping one."""
    root = root_of(buffer)
    func = next((f for f in e.module.module.functions if root in f.args), None)
    return func is not None and func.args.index(root) in e.module.facts[func.sym_name].shared


def _written_by(e: FunctionEmitter, op: Op) -> Sequence[Value]:
    """The buffers that an op writes to, itself or by what it calls."""
    if isinstance(op, kernel.Call):
        return [op.operands[i] for i in e.module.facts[op.callee.name].written]
    return written_by(op)


def _emit_clock(e: FunctionEmitter, op: Any) -> Lane:
    if e.target.pointer_bytes != 8 or "linux" not in e.target.triple:
        raise PolyremeError(f"'kernel.clock' expected a 64-bit Linux target but got {e.target.triple}", op.location, code="E0408")
    code = e.code
    time = code.name("time")
    code.entry.append(f"  {time} = alloca [2 x i64]")
    code.line(f"call i32 @clock_gettime(i32 {CLOCK_MONOTONIC}, ptr {time})")
    place = code.value("ptr", 1, f"getelementptr inbounds i64, ptr {time}, i64 1", "at")
    seconds, rest = (code.value("i64", 1, f"load i64, ptr {at}", hint) for at, hint in ((time, "seconds"), (place.ref, "rest")))
    return seconds * 1_000_000_000 + rest


CONTROL: dict[type[Op], EmitOp] = {
    kernel.Alternate: _emit_alternate,
    kernel.Clock: _emit_clock,
    kernel.For: _emit_for,
    kernel.If: _emit_if,
    kernel.Call: _emit_call,
    kernel.Parallel: _emit_parallel,
    kernel.ReturnUnless: _emit_return_unless,
    kernel.Threads: _emit_threads,
    kernel.While: _emit_while,
}
