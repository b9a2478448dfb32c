"""What a step of training keeps for its gradients: products, and not what is cheap to compute of them.

At the end of the forward half a step holds all that its gradients need. Of a layer that is a product, the product normalised, that
activated, and perhaps that padded; all but the first follow from it element by element, in time that loads and stores hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, BlockArgument, Op, Value
from polyreme.ir.define import View
from polyreme.ir.dims import product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import erase_unused
from polyreme.ir.types import TensorType, f32, i1
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.machines.cost import OPS_OF_A_TRIP

# Functions that cost no more than the load of what they are of.
_CHEAP = frozenset({
    "add", "sub", "mul", "neg", "abs", "min", "max", "select", "cast", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
})  # fmt: skip
# What is so much smaller than a value, such as a mean per channel, is kept beside what the value is computed of.
_SMALLER = 16
# A value may be smaller than what it is computed of by so much, as the sign of an element is.
_LARGER = f32.bytes // i1.bytes
# Ops that stand so near each other in the text mostly share a kernel, and so what is computed anew for them.
_NEAR = 8


@register_pass
@dataclass(frozen=True)
class Recompute(FuncPass):
    """Compute cheap values anew where they are read long after they were made.

    Before and after: `tensor` ops.  Where the function holds the most bytes, of all that follows element by element from one value that is
    not cheap to compute only that value is held: for every later reader the ops between are copied. Nothing is done where less than
    `held` bytes are, which caches have room for, nor for values of less than `least` bytes.  Runs right before fusion, which takes the
    copies into the kernels of their readers; what merges equal ops has to run before it.
    """

    name: ClassVar[str] = "recompute"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    held: int = 1 << 25
    least: int = 1 << 19

    def run_on(self, func: Func) -> None:
        _Recomputing(func, self).run()


class _Recomputing:
    def __init__(self, func: Func, options: Recompute):
        self.block: Block = func.block
        self.func, self.options = func, options
        self.ops = list(func.block)
        self.place = {op: i for i, op in enumerate(self.ops)}
        self.lasts: dict[Value, int] = {}
        # By value, what it is computed of: itself, where that takes more than cheap ops or than one large operand; None of small ones only.
        self.sources: dict[Value, Value | None] = {}
        self.chains: dict[Value, int] = {}  # by value, how many ops lead from its source to it

    def run(self) -> None:
        held, peak = self._peak()
        if held < self.options.held:
            return
        across = [v for op in self.ops[: peak + 1] for v in op.results if self._last(v) > peak]
        members: dict[Value | None, list[Value]] = {}
        for op in self.ops[: peak + 1]:
            for value in op.results:
                source = self.sources[value] = self._source(op, value)
                if source is not value and self._bytes(value) >= self.options.least:
                    members.setdefault(source, []).append(value)
        anew: set[Value] = set()
        for source, values in members.items():
            late = [v for v in values if self._last(v) > peak]
            is_held = source is None or isinstance(source, BlockArgument) or source in across
            gain = sum(self._held(v) for v in late) - (0 if is_held or source is None else self._bytes(source))
            if gain >= self.options.least:
                anew.update(values)
        if anew:
            self._copy_for_readers(anew, peak)
            erase_unused(self.func)

    # --- what is held

    def _bytes(self, value: Value) -> int:
        type = value.type
        return estimate(product(type.shape)) * type.dtype.bytes if isinstance(type, TensorType) else 0

    def _held(self, value: Value) -> int:
        """The bytes that a value takes: a view takes none beside what it is of."""
        op = value.producer()
        return 0 if op is None or op.has(View) else self._bytes(value)

    def _last(self, value: Value) -> int:
        """The place of the last op that reads a value, or a view of it."""
        if value not in self.lasts:
            places = [self.place[user] for user in value.users]
            views = [self._last(v) for user in value.users if user.has(View) for v in user.results]
            self.lasts[value] = max([*places, *views], default=-1)
        return self.lasts[value]

    def _peak(self) -> tuple[int, int]:
        """How many bytes are held at most, and behind which op."""
        changes = [0] * (len(self.ops) + 1)
        for i, op in enumerate(self.ops):
            for value in op.results:
                last = self._last(value)
                if last > i:
                    size = self._held(value)
                    changes[i] += size
                    changes[last] -= size
        most = now = peak = 0
        for i, change in enumerate(changes):
            now += change
            if now > most:
                most, peak = now, i
        return most, peak

    # --- what is cheap

    def _source(self, op: Op, value: Value) -> Value | None:
        """The one value that `value` is cheap to compute of; `value` itself where there is none, None where that is of small ones only."""
        cheap = isinstance(op, tensor.Map) and op.fn in _CHEAP or op.has(View) or isinstance(op, (tensor.Pad, tensor.Full))
        if not cheap or any(isinstance(user, Return) for user in value.users):
            return value
        found: dict[Value, None] = {}
        count = 1
        for x in op.operands:
            if self._bytes(x) * _SMALLER <= self._bytes(value):
                continue
            source = self.sources.get(x, x)
            if source is not None:
                found[source] = None
            if source is not x:
                count += self.chains[x]
        if len(found) > 1 or count > OPS_OF_A_TRIP or any(self._bytes(x) > self._bytes(value) * _LARGER for x in found):
            return value
        self.chains[value] = count
        return next(iter(found), None)

    # --- copies

    def _copy_for_readers(self, anew: set[Value], peak: int) -> None:
        copies: dict[Value, Value] = {}
        before = -1
        for i, op in enumerate(self.ops):
            reads = [v for v in op.operands if v in anew and (i > peak or self._is_elementwise(v))]
            if not reads or (i <= peak and any(v in anew for v in op.results) and not isinstance(op, tensor.Map)):
                continue
            if i <= peak or i - before > _NEAR:
                copies = {}
            before = i
            operands = [self._copied(v, anew, copies, op) if v in reads else v for v in op.operands]
            for number, operand in enumerate(operands):
                op.set_operand(number, operand)

    def _is_elementwise(self, value: Value) -> bool:
        """Whether a value has several readers, all of which are elementwise: a copy for each goes into their kernels, and is never stored.
        """
        users = dict.fromkeys(value.users)
        return len(users) > 1 and all(isinstance(user, tensor.Map) for user in users)

    def _copied(self, value: Value, anew: set[Value], copies: dict[Value, Value], reader: Op) -> Value:
        if value not in copies:
            made = value.producer()
            assert made is not None
            mapping = {x: self._copied(x, anew, copies, reader) for x in self._between(made)}
            copy = made.clone(mapping)
            self.block.insert(copy, reader)
            for old, new in zip(made.results, copy.results, strict=True):
                copies[old] = new
                self.chains[new] = self.chains[old]  # its reader may be copied as well
        return copies[value]

    def _between(self, op: Op) -> Sequence[Value]:
        """The operands of an op that are computed anew as well."""
        return [x for x in op.operands if x in self.chains and self._bytes(x) >= self.options.least]
