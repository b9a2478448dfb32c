"""The invariants of modules with kernels, 17 to 21 of the list in `ir/verify.py`: whose memory is whose, who may write it, and what threads
do together.

The host runs `main` and `prepare`; functions that are called are kernels, those that are launched or called by these run on a grid of
threads. Of a function that nobody runs it is not known what it is, so that only what holds for all is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyreme.dialects.kernel.control import Call, For, If, Parallel, ReturnUnless, While
from polyreme.dialects.kernel.effects import CALLS, closed_over, root_of, written_arguments, written_by
from polyreme.dialects.kernel.grid import (
    Atomic,
    Barrier,
    BlockCount,
    BlockId,
    CopyAsync,
    CopyCommit,
    CopyWait,
    Launch,
    LoadMatrix,
    Mma,
    ThreadCount,
    ThreadId,
    WarpShuffle,
)
from polyreme.dialects.kernel.memory import Alloc, Data, FetchAdd
from polyreme.dialects.kernel.values import Constant, Size
from polyreme.dialects.kernel.warpgroups import (
    CopyBox,
    CountedArrive,
    CountedExpect,
    CountedInit,
    CountedWait,
    SetRegisters,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Op, Value
from polyreme.ir.debug.notes import definition_note
from polyreme.ir.types import BufferType, index
from polyreme.ir.verify import Report, invariants_of

HOSTED = ("main", "prepare")
READ_ONLY = ("input", "param", "packed", "constant")
GRID_OPS = (
    Atomic, Barrier, BlockCount, BlockId, CopyAsync, CopyBox, CopyCommit, CopyWait, CountedArrive, CountedExpect, CountedInit, CountedWait,
    LoadMatrix, Mma, SetRegisters, ThreadCount, ThreadId, WarpShuffle, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait,
)  # fmt: skip


@invariants_of("kernel")
def check_kernels(root: Op, report: Report) -> None:
    """Invariants 17 to 21, for a module or for a function alone."""
    found = list(root.functions) if isinstance(root, Module) else [root] if isinstance(root, Func) else []
    functions = {f.sym_name: f for f in found}
    # Walked once, since everything below looks at all of it.
    ops = {name: list(func.walk()) for name, func in functions.items()}
    written = written_arguments(functions)
    calls = {name: [op for op in inside if isinstance(op, CALLS)] for name, inside in ops.items()}
    called = {op.callee.name for found_calls in calls.values() for op in found_calls}
    launched = _on_a_grid(calls)
    meeting = _meeting(ops, calls)
    for name, func in functions.items():
        if name in HOSTED or name in called:
            check_signature(func, report)
            check_places(func, ops[name], name in launched, report)
        check_written(func, ops[name], written, report)
        if name in meeting:
            check_uniform(func, ops[name], meeting, report)
        for op in ops[name]:
            if isinstance(op, Parallel):
                check_iterations(op, written, report)


def check_signature(func: Func, report: Report) -> None:
    """17: a function on buffers takes buffers and index values, and returns nothing."""
    buffers = [isinstance(a.type, BufferType) for a in func.args]
    if not any(buffers):
        return
    name = f"'@{func.sym_name}'"
    for i, arg in enumerate(func.args):
        if not isinstance(arg.type, BufferType) and (func.sym_name in HOSTED or arg.type != index):
            wanted = "buffers" if func.sym_name in HOSTED else "buffers and index values"
            report("E0217", f"expected {wanted} as arguments of {name} but argument {i} is {arg.type}", func)
    last = func.block.last
    if last is not None and last.operands:
        report("E0217", f"expected {name}, a function on buffers, to return nothing but it returns {len(last.operands)} values", last)


def check_written(func: Func, ops: Sequence[Op], written: Mapping[str, frozenset[int]], report: Report) -> None:
    """18: nobody writes to memory that is the caller's, or constant."""
    role = dict(zip(func.args, func.arg_roles, strict=False))
    for op in ops:
        for value in (*written_by(op), *_written_by_callee(op, written)):
            root = root_of(value)
            if role.get(root) in READ_ONLY:
                report("E0218", f"'{op.name}' writes to {root!r}, whose role is '{role[root]}': it is only read", op)
            elif isinstance(root.producer(), Data):
                report("E0218", f"'{op.name}' writes to {root!r}, which is constant", op, *definition_note(root))


def check_places(func: Func, ops: Sequence[Op], on_a_grid: bool, report: Report) -> None:
    """19: memory stands where its space exists; 20: ops of a grid stand in kernels that a grid runs."""
    name, hosted = f"'@{func.sym_name}'", func.sym_name in HOSTED
    for op in ops:
        if isinstance(op, Data) and not hosted:
            report("E0219", f"expected constants in 'main' but '@{func.sym_name}' is a kernel: hand it in as an argument", op)
        elif isinstance(op, Alloc):
            if (op.space == "arena") != hosted:
                where = "which the host runs: its memory is the arena's" if hosted else "a kernel: its memory is local or shared"
                report("E0219", f"expected no {op.space} memory in {name}, {where}", op)
            elif op.space == "shared" and not on_a_grid:
                report("E0219", f"expected shared memory in kernels that 'kernel.launch' runs but nothing launches {name}", op)
            elif op.offset is not None and isinstance(op.offset, int) and (op.offset < 0 or op.offset % 64):
                report("E0219", f"expected an offset in the arena that is a multiple of 64 but got {op.offset}", op)
        elif isinstance(op, ReturnUnless) and (not hosted or op.parent is not func.block):
            report("E0220", f"expected '{op.name}' in the block of a function that the host runs but it stands elsewhere in {name}", op)
        elif isinstance(op, GRID_OPS) and not on_a_grid:
            report("E0220", f"expected '{op.name}' in kernels that 'kernel.launch' runs but nothing launches {name}", op)


def check_uniform(func: Func, ops: Sequence[Op], meeting: frozenset[str], report: Report) -> None:
    """20: all threads of a block come to the same barriers."""
    barriers = [op for op in ops if _meets(op, meeting)]
    if not barriers or all(op.parent_op is func for op in barriers):
        return
    seeds: set[Value] = set()
    for op in ops:
        if isinstance(op, (ThreadId, WarpShuffle, Mma, LoadMatrix, Wgmma)) or (isinstance(op, Alloc) and op.space == "local"):
            seeds.update(op.results)
    differing = closed_over(func.block, seeds, from_memory=False)
    for barrier in barriers:
        for around in _around(barrier, func):
            decides = (
                around.operands[:2]
                if isinstance(around, For)
                else around.condition.block.terminator.operands
                if isinstance(around, While)
                else around.operands[:1]
            )
            if isinstance(around, Parallel) or (isinstance(around, (For, If, While)) and any(v in differing for v in decides)):
                why = "whose iterations run in any order" if isinstance(around, Parallel) else "which differs from thread to thread"
                report("E0220", f"expected all threads of a block at '{barrier.name}' but it stands in a '{around.name}', {why}", barrier)
                break


def check_iterations(loop: Parallel, written: Mapping[str, frozenset[int]], report: Report) -> None:
    """21: iterations that run at the same time do not all write to the same place."""
    count = loop.count.producer()
    known = count.value if isinstance(count, (Constant, Size)) else None
    if isinstance(known, int) and known <= 1:
        return
    private = {r for op in loop.walk() if isinstance(op, Alloc) for r in op.results}
    varying = closed_over(loop.block, {*loop.block.args, *private}, from_memory=True)
    for op in loop.walk():
        targets = [*written_by(op), *_written_by_callee(op, written)]
        if op is loop or not targets or isinstance(op, (Atomic, FetchAdd)):
            continue
        # What it writes may differ; where it writes must.
        where = op.operands[1:] if written_by(op) and not isinstance(op, CopyAsync) else op.operands
        if any(v in varying for v in where) or any(v in varying for around in _around(op, loop) for v in around.operands):
            continue
        report("E0221", f"'{op.name}' writes to the same place of {root_of(targets[0])!r} in every iteration of 'kernel.parallel'", op)


def _written_by_callee(op: Op, written: Mapping[str, frozenset[int]]) -> list[Value]:
    if not isinstance(op, CALLS):
        return []
    return [op.operands[i] for i in written.get(op.callee.name, ()) if i < len(op.operands)]


def _around(op: Op, limit: Op) -> Iterator[Op]:
    """The ops that `op` stands in, up to `limit`, which is left out."""
    at = op.parent_op
    while at is not None and at is not limit:
        yield at
        at = at.parent_op


def _on_a_grid(calls: Mapping[str, Sequence[Call | Launch]]) -> frozenset[str]:
    """The kernels that a launch runs, directly or by what they call."""
    found: set[str] = set()
    waiting = [op.callee.name for found_calls in calls.values() for op in found_calls if isinstance(op, Launch)]
    while waiting:
        name = waiting.pop()
        if name in calls and name not in found:
            found.add(name)
            waiting += [op.callee.name for op in calls[name]]
    return frozenset(found)


def _meeting(ops: Mapping[str, Sequence[Op]], calls: Mapping[str, Sequence[Call | Launch]]) -> frozenset[str]:
    """The functions with a barrier in them, or in what they call."""
    found = {name for name, inside in ops.items() if any(isinstance(op, Barrier) for op in inside)}
    size = -1
    while len(found) != size:
        size = len(found)
        found |= {name for name, made in calls.items() if any(_meets(op, frozenset(found)) for op in made)}
    return frozenset(found)


def _meets(op: Op, meeting: frozenset[str]) -> bool:
    return isinstance(op, Barrier) or (isinstance(op, CALLS) and not isinstance(op, Launch) and op.callee.name in meeting)
