"""Data parallel: which gradients are reduced together, and when.

`assign_buckets` groups parameters as Paddle's Reducer does. `BucketGradients` puts one all-reduce per bucket at the end of a backward
function, which is correct already. `OverlapCollectives` splits each into its start and its wait and moves them apart, so that a bucket
travels while the gradients of the next are computed. The order is fixed at compile time, and is the same in every rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

from polyreme.dialects import dist
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.define import Pure
from polyreme.ir.diagnostics import PassError
from polyreme.ir.passes import FuncPass, PassManager, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.text import print_module
from polyreme.ir.types import TensorType

__all__ = [
    "BUFFER",
    "LAST_BUFFER",
    "BucketGradients",
    "OverlapCollectives",
    "assign_buckets",
    "buckets_of",
    "fingerprint",
    "gradient_schedule",
]

# MB of one bucket, and of the one that leaves last: small, because nothing is left to compute while it travels.
BUFFER = 25.0
LAST_BUFFER = 1.0
MB = 1 << 20


def assign_buckets(types: Sequence[TensorType], buffer: float = BUFFER, last_buffer: float = LAST_BUFFER) -> list[tuple[int, ...]]:
    """The parameters of each bucket, by number, in the order in which buckets leave.

    Backward makes gradients against the order of the parameters, so the buckets of the last parameters leave first. From the first
    parameter on, a bucket of one dtype is full once it holds `last_buffer` MB (the first of its dtype) or `buffer` MB (the others).
    """
    limits = (int(last_buffer * MB), int(buffer * MB))
    full: list[list[int]] = []
    filling: dict[str, list[int]] = {}
    held: dict[str, int] = {}
    closed: dict[str, int] = {}
    for i, kind in enumerate(types):
        dtype = kind.dtype.name
        filling.setdefault(dtype, []).append(i)
        held[dtype] = held.get(dtype, 0) + _bytes(kind)
        if held[dtype] >= limits[min(closed.get(dtype, 0), 1)]:
            full.append(filling.pop(dtype))
            held[dtype] = 0
            closed[dtype] = closed.get(dtype, 0) + 1
    full += filling.values()
    return [tuple(bucket) for bucket in sorted(full, key=lambda b: b[0], reverse=True)]


def _bytes(kind: TensorType) -> int:
    if not kind.is_static:
        raise PassError(f"expected a parameter of known size to put into a bucket but got {kind}")
    return kind.dtype.bytes * int(kind.elements)


@register_pass
@dataclass(frozen=True)
class BucketGradients(FuncPass):
    """Average gradients over all ranks, bucket by bucket.

    Before: a function that returns gradients of this rank.  After: it returns their means, each by a `dist.all_reduce` of its bucket in
    front of the `return`. `results` are the gradients among the results in the order of the parameters; empty means all. Runs on a backward
    function that is otherwise done, since what is computed must not depend on it.
    """

    name: ClassVar[str] = "bucket-gradients"
    takes: ClassVar[tuple[str, ...]] = ("nn", "dist")
    leaves: ClassVar[str] = "dist"
    buffer: float = BUFFER
    last_buffer: float = LAST_BUFFER
    results: tuple[int, ...] = ()

    def run_on(self, func: Func) -> None:
        last = func.block.terminator
        values = list(last.operands)
        chosen = self.results or tuple(range(len(values)))
        grads = [values[i] for i in chosen]
        b = Builder(func.block, last, func.location)
        for number, bucket in enumerate(assign_buckets([g.type for g in grads], self.buffer, self.last_buffer)):
            made = b.insert_op(dist.AllReduce([grads[i] for i in bucket], reduce="mean", bucket=number))
            for i, mean in zip(bucket, made.results, strict=True):
                mean.name = f"mean_{grads[i].name}" if grads[i].name else ""
                values[chosen[i]] = mean
        last.set_operands(values, last.segments)


@register_pass
@dataclass(frozen=True)
class OverlapCollectives(FuncPass):
    """Let tensors travel while the rest is computed.

    Before: `dist.all_reduce` ops anywhere.  After: each is a `dist.all_reduce_start` as early as what it sends allows, and a `dist.wait` as
    late as what it brings allows. Ops are reordered so that the first start needs the fewest before it, then the second, and so on; ops
    with effects, starts among them, keep their order, because all ranks must have the same. Runs after `bucket-gradients`.
    """

    name: ClassVar[str] = "overlap-collectives"
    takes: ClassVar[tuple[str, ...]] = ("dist",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, dist.AllReduce):
                b = Builder.before_op(op)
                started = b.insert_op(dist.AllReduceStart(op.xs, reduce=op.reduce, bucket=op.bucket, loc=op.location))
                waited = b.insert_op(dist.Wait(started.results, loc=op.location))
                for old, on_its_way, new in zip(op.results, started.results, waited.results, strict=True):
                    new.name = old.name
                    on_its_way.name = f"{old.name}_pending" if old.name else ""
                op.replace_with(*waited.results)
        _reorder(func)


def _reorder(func: Func) -> None:
    block = func.block
    ops = block.ops
    position = {op: i for i, op in enumerate(ops)}
    placed: dict[Op, None] = {}

    def place(op: Op) -> None:
        """Put what `op` needs, in the order it had, and then `op`."""
        needed: set[Op] = set()
        waiting = [op]
        while waiting:
            at = waiting.pop()
            if at in placed or at in needed:
                continue
            needed.add(at)
            waiting += [owner for used in _used_by(at) if (owner := used.owner) in position]
        placed.update(dict.fromkeys(sorted(needed, key=position.__getitem__)))

    late = _late(ops)
    for op in ops:
        # A wait has effects too, but may stand wherever its tensors are wanted.
        if not op.has(Pure) and not isinstance(op, (dist.Wait, Return)):
            place(op)
    for op in ops:
        if op not in late:
            place(op)
    for op in ops:
        place(op)
    for op in ops:
        op.detach()
    for op in placed:
        block.append(op)


def _late(ops: Sequence[Op]) -> set[Op]:
    """The waits, and what depends on them."""
    late: set[Op] = set()
    for op in ops:
        if isinstance(op, (dist.Wait, Return)) or any(v.owner in late for v in _used_by(op)):
            late.add(op)
    return late


def _used_by(op: Op) -> list[Value]:
    """Values that an op or an op in its regions uses."""
    return [v for inner in op.walk() for v in inner.operands]


# --- the schedule on its own


def gradient_schedule(
    types: Sequence[TensorType], names: Sequence[str], buffer: float = BUFFER, last_buffer: float = LAST_BUFFER
) -> Module:
    """A module whose `main` takes the gradients of these parameters and returns their means over all ranks, bucket by bucket.

    This is the schedule where gradients come one by one, from the tape: a start runs as soon as all that it sends is there, and those
    before it have run.
    """
    module = Module.empty()
    func = Func.empty(
        "main", types, types, [f"grad_{name}" for name in names], arg_roles=("input",) * len(types), result_names=tuple(names)
    )
    func.block.append(Return(func.args))
    module.block.append(func.finish())
    PassManager([BucketGradients(buffer, last_buffer), OverlapCollectives()]).run(module)
    return module


def buckets_of(func: Func) -> list[tuple[dist.AllReduceStart, tuple[int, ...]]]:
    """The starts of a gradient schedule, in their order, each with the numbers of the arguments that it sends."""
    return [(op, tuple(func.args.index(v) for v in op.operands)) for op in func.block if isinstance(op, dist.AllReduceStart)]


def fingerprint(module: Module) -> str:
    """A short text that differs between schedules that differ; ranks compare it."""
    return hashlib.blake2b(print_module(module).encode(), digest_size=6).hexdigest()
