"""Fusion: which tensor ops share one kernel.

A group is convex (no path leaves and re-enters it) and has one form: rows (`rows.py`), or a contract with its epilogue (`epilogue.py`).
Groups grow from consumers to producers, because the consumer decides the shape of the loop. A producer joins if each of its elements is
still computed once, or costs nothing. What many places need is computed once and stored, unless its own group can return it as a further
result.

Views, pads and values made from nothing have no kernel of their own: every group that reads them gets a copy, which moves positions and no
memory. Reshapes stay outside, since the same memory under another shape is free.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import IsolatedFromAbove
from polyreme.ir.dims import product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import is_pooling, rows_of, shape_of
from polyreme.lowering.machines.gpu import BLOCK_THREADS, HELD_ELEMENTS
from polyreme.lowering.machines.instructions import MANY_REGISTERS, WIDEST_LANES
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import TASKS_OF_THREAD
from polyreme.lowering.transforms.widen_halves import widens_weights

_FREE = (
    tensor.Full,
    tensor.DimValue,
    tensor.Iota,
    tensor.Transpose,
    tensor.Slice,
    tensor.Reverse,
    tensor.Broadcast,
    tensor.Window,
    tensor.Pad,
)


def is_free(op: Op, write_pads: bool = True) -> bool:
    """Whether the op has no kernel of its own but is repeated in every group that reads it."""
    if write_pads and isinstance(op, tensor.Pad) and any(_is_slid_over(reader) for reader in op.result.users):
        return False
    return isinstance(op, _FREE) or (isinstance(op, tensor.Constant) and op.value.size == 1) or widens_weights(op)


def _is_slid_over(reader: Op) -> bool:
    """Whether `reader` makes overlapping windows for a pooling.

    Each element is then read several times, and a pad written once saves testing whether it lies inside. Contracts handle their pads
    themselves, and so do channels-last poolings.
    """
    if not isinstance(reader, tensor.Window) or len(shape_of(reader.x)) - 1 not in reader.axes:
        return False
    return _overlaps(reader) and not any(isinstance(r, tensor.Contract) for r in reader.result.users)


@register_pass
@dataclass(frozen=True)
class Fuse(FuncPass):
    """Gather tensor ops into `tensor.fused` regions, one kernel each.

    Before: `tensor` ops in a function body.  After: the same values; every op left is a root, a `fused` group or an op alone. Runs before
    scheduling, because a schedule is chosen per root. With `write_pads` a pad that a pooling's windows slide over has a kernel of its own.
    With `whole_rows` what is made of a row's reductions joins a group together with these, where it is a further result, such as the
    statistics of a normalisation: the row is read once.
    """

    name: ClassVar[str] = "fuse"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    max_ops: int = 64
    max_inputs: int = 24
    write_pads: bool = True
    whole_rows: bool = False

    def run_on(self, func: Func) -> None:
        if any(op.dialect == "tensor" for op in func.block):
            _Fusion(func, self).run()


class Group:
    """Ops that are to share a kernel, in the function's order."""

    def __init__(self, ops: Iterable[Op], order: dict[Op, int]):
        self.ops = sorted(ops, key=lambda op: order[op])
        self.members = set(self.ops)


class _Fusion:
    def __init__(self, func: Func, options: Fuse):
        self.func, self.options = func, options
        self.order = {op: i for i, op in enumerate(func.block)}
        self.group: dict[Op, Group] = {}
        for op in func.block:
            if not self._is_free(op):
                self.group[op] = Group([op], self.order)
        self.readers: dict[Value, list[Op]] = {}

    def _is_free(self, op: Op) -> bool:
        return is_free(op, self.options.write_pads)

    def run(self) -> None:
        self._join_siblings()
        for op in reversed(self.func.block.ops):
            if op in self.group and not isinstance(op, Return):
                self._join_consumers(op)
        self._join_siblings()
        self._rebuild()

    # --- who reads what, through free ops

    def _readers_of(self, value: Value) -> list[Op]:
        """The ops with kernels (or the return) that read `value`, directly or through free ops."""
        if value not in self.readers:
            found: dict[Op, None] = {}
            for user in value.users:
                if self._is_free(user):
                    found.update(dict.fromkeys(r for v in user.results for r in self._readers_of(v)))
                else:
                    found[user] = None
            self.readers[value] = list(found)
        return self.readers[value]

    def _readers(self, op: Op) -> list[Op]:
        return sorted({r for value in op.results for r in self._readers_of(value)}, key=lambda reader: self.order[reader])

    def _reads_of(self, op: Op) -> list[tuple[Value, list[Op]]]:
        """The values from other kernels that `op` reads, each with the free ops on the way (nearest to `op` first)."""
        found = []
        pending: list[tuple[Value, list[Op]]] = [(v, []) for v in op.operands]
        while pending:
            value, path = pending.pop()
            producer = value.producer()
            if producer is not None and self._is_free(producer):
                pending += [(v, [*path, producer]) for v in producer.operands]
            else:
                found.append((value, path))
        return found

    def _reaches(self, starts: Iterable[Group], goal: Group) -> bool:
        """Whether some path leads from one of `starts` into `goal`."""
        pending = list(starts)
        seen = set(pending)
        while pending:
            group = pending.pop()
            if group is goal:
                return True
            for op in group.ops:
                for reader in self._readers(op):
                    following = self.group[reader]
                    if following not in seen:
                        seen.add(following)
                        pending.append(following)
        return False

    # --- growing

    def _join_consumers(self, op: Op) -> None:
        if not _fusible(op):
            return
        mine = self.group[op]
        groups = [g for g in dict.fromkeys(self.group[r] for r in self._readers(op)) if g is not mine]
        # What reads others of its group counts as well: no path may lead from these into the group that it joins.
        following = dict.fromkeys(self.group[r] for member in mine.ops for r in self._readers(member))
        for group in groups:
            if not _fusible(group.ops[0]):
                continue
            others = [g for g in following if g is not group and g is not mine]
            if (
                _follows_contract(op)
                and not self._depends_on_reduction(op)
                and any(isinstance(o, tensor.Reduce) and not is_pooling(o) for o in group.ops)
            ):
                # The contract's own kernel has the elements in registers; a kernel over rows would have to wait for them in memory anyway.
                continue
            if not self._reaches(others, group) and self._may_join(op, mine, group):
                self._merge(mine, group)
                return
            if self.options.whole_rows and self._join_with_reductions(op, group):
                return

    def _join_with_reductions(self, op: Op, group: Group) -> bool:
        """Join the ops from row reductions to `op`, and these, to a group that reads it; whether that can be. One of them alone might have
        no form beside the group.
        """
        steps, pending = {op: None}, [op]
        has_rows = False
        while pending:
            at = pending.pop()
            if isinstance(at, tensor.Reduce):
                has_rows = has_rows or not is_pooling(at)
                continue
            for x in at.operands:
                made = x.producer()
                if isinstance(made, (tensor.Map, tensor.Reduce)) and made not in steps and self._depends_on_reduction_itself(made):
                    steps[made] = None
                    pending.append(made)
        parts = list(dict.fromkeys([*(self.group[step] for step in steps if step in self.group), group]))
        joined = Group({member for part in parts for member in part.members}, self.order)
        if not has_rows or len(joined.ops) > self.options.max_ops or not all(_fusible(step) for step in joined.ops):
            return False
        following = dict.fromkeys(self.group[r] for member in joined.ops for r in self._readers(member))
        outside = [g for g in following if g not in parts]
        if any(self._reaches(outside, part) for part in parts):
            return False
        for consumer in joined.ops:
            for value, path in self._reads_of(consumer):
                made = value.producer()
                if made in joined.members and not self._reads_once(made, consumer, path, joined):
                    return False
        if not self._has_form(joined) or not self._has_short_rows(joined):
            return False
        for member in joined.ops:
            self.group[member] = joined
        return True

    def _has_short_rows(self, group: Group) -> bool:
        """Whether rows lie along memory and are short enough for the registers of a block: longer ones are cut into parts by themselves."""
        ops, _, results = self._parts(group)
        rows = rows_of(ops, results)
        if rows is None:
            return False
        length, sized = product(rows.space[a] for a in rows.reduced), [a for a, n in enumerate(rows.space) if n != 1]
        return bool(sized) and sized[-1] in rows.reduced and isinstance(length, int) and length <= HELD_ELEMENTS * BLOCK_THREADS

    def _depends_on_reduction_itself(self, op: Op) -> bool:
        return isinstance(op, tensor.Reduce) or self._depends_on_reduction(op)

    def _merge(self, a: Group, b: Group) -> None:
        merged = Group(a.members | b.members, self.order)
        for op in merged.ops:
            self.group[op] = merged

    def _may_join(self, op: Op, mine: Group, group: Group) -> bool:
        """Whether the group of `op`, whose results `group` reads, may be part of that."""
        joined = Group(mine.members | group.members, self.order)
        if len(joined.ops) > self.options.max_ops:
            return False
        for consumer in group.ops:
            for value, path in self._reads_of(consumer):
                if value.producer() is op and not self._reads_once(op, consumer, path, group):
                    return False
        return self._has_form(joined)

    def _has_form(self, group: Group) -> bool:
        ops, inputs, results = self._parts(group)
        if len(inputs) > self.options.max_inputs:
            return False
        contracts = [op for op in ops if isinstance(op, tensor.Contract)]
        if contracts:
            return len(contracts) == 1 and _follows(ops, contracts[0], results)
        scatters = [op for op in ops if isinstance(op, tensor.Scatter)]
        if scatters:
            return results == [scatters[0].result] and all(
                op is scatters[0] or isinstance(op, tensor.Map) or self._is_free(op) for op in ops
            )
        rows = rows_of(ops, results)
        if rows is None:
            return False
        concats = [op for op in ops if isinstance(op, tensor.Concat)]
        if concats:
            # Each operand is written where it belongs; within another group every element would ask which one it is from.
            return results == [concats[0].result] and len(concats) == 1 and not rows.staged
        if not rows.staged:
            return True
        count = estimate(product(rows.space[a] for a in rows.outer))
        length = estimate(product(rows.space[a] for a in rows.reduced))
        again = any(rows.is_full(v) and rows.level.get(v, 0) for v in results) or max(rows.level.values()) > 1
        # Few rows, each of which would be worth threads, are not made longer: threads would have nothing to share.
        return not (again and count < TASKS_OF_THREAD and length > Target.serial_cycles)

    def _reads_once(self, op: Op, consumer: Op, path: Sequence[Op], group: Group) -> bool:
        """Whether computing `op` where `consumer` reads it computes no element much more often than once."""
        if isinstance(consumer, tensor.Gather):
            # Places of single elements are asked for once each.
            return isinstance(op, tensor.Map) and not path and op.result is consumer.index and len(shape_of(consumer.x)) == 1
        if isinstance(consumer, tensor.Contract):
            return False
        if isinstance(consumer, tensor.Scatter):
            # Updates are read once, each; positions once for every column that is written.
            return isinstance(op, tensor.Map) and not path and op.result is not consumer.index
        if (
            isinstance(consumer, tensor.Fold)
            and not isinstance(op, tensor.Reshape)
            and not (isinstance(op, tensor.Map) and op.fn in ("mul", "select", "eq", "cast", "add", "div", "sub"))
        ):
            return False
        if isinstance(op, (tensor.Reduce, tensor.Contract, tensor.ArgReduce, tensor.Fold)):
            # Their elements are dear. Where they are repeated they must be the row's own, which `rows_of` checks.
            if any(not isinstance(step, (tensor.Broadcast, tensor.Window)) for step in path):
                return False
        for step in path:
            if isinstance(step, tensor.Window) and _overlaps(step):
                return False
        if isinstance(op, tensor.Reduce) and not is_pooling(op):
            return True
        return not self._is_repeated(op, consumer, path)

    def _is_repeated(self, op: Op, consumer: Op, path: Sequence[Op]) -> bool:
        """Whether an axis of `op` is repeated on the way, by a broadcast or by the consumer's own; single elements and what depends on a
        row's reduction are hoisted out of the loops that repeat them.
        """
        shape = shape_of(op.results[0])
        if all(n == 1 for n in shape):
            return False
        if self._depends_on_reduction(op):
            return False
        if any(isinstance(step, tensor.Broadcast) for step in path):
            return True
        if not isinstance(consumer, tensor.Map) or path:
            return False
        wanted = shape_of(consumer.result)
        return len(shape) == len(wanted) and any(n == 1 and m != 1 for n, m in zip(shape, wanted, strict=True))

    def _depends_on_reduction(self, op: Op) -> bool:
        """Whether a row reduction comes in elementwise steps before `op`; it joins the group next, or `op` is one element per row anyway.
        """
        pending, seen = [op], {op}
        while pending:
            for x in pending.pop().operands:
                producer = x.producer()
                if isinstance(producer, tensor.Reduce):
                    return True
                if isinstance(producer, (tensor.Map, tensor.Broadcast)) and producer not in seen:
                    seen.add(producer)
                    pending.append(producer)
        return False

    def _join_siblings(self) -> None:
        """Join row reductions over the same rows that read the same memory, so that it is read once."""
        groups = list(dict.fromkeys(self.group[op] for op in self.func.block if op in self.group))
        reducing = [g for g in groups if any(isinstance(op, tensor.Reduce) and not is_pooling(op) for op in g.ops)]
        for i, first in enumerate(reducing):
            for second in reducing[i + 1 :]:
                a, b = self.group[first.ops[0]], self.group[second.ops[0]]
                if a is b or any(isinstance(op, tensor.Contract) for g in (a, b) for op in g.ops):
                    continue
                shared = set(self._parts(a)[1]) & set(self._parts(b)[1])
                if not any(len(shape_of(v)) and estimate(product(shape_of(v))) > 1 for v in shared):
                    continue
                if self._reaches([a], b) or self._reaches([b], a):
                    continue
                joined = Group(a.members | b.members, self.order)
                if len(joined.ops) <= self.options.max_ops and self._has_form(joined):
                    self._merge(a, b)

    # --- outlining

    def _parts(self, group: Group) -> tuple[list[Op], list[Value], list[Value]]:
        """The group's ops with the free ones they read (in order), the values it takes from outside, and those it gives."""
        ops: dict[Op, None] = {}
        inputs: dict[Value, None] = {}

        def take(op: Op) -> None:
            if op in ops:
                return
            for value in op.operands:
                producer = value.producer()
                if producer is not None and (producer in group.members or self._is_free(producer)):
                    take(producer)
                else:
                    inputs[value] = None
            ops[op] = None

        for op in group.ops:
            take(op)
        results: list[Value] = [
            value for op in group.ops for value in op.results if any(r not in group.members for r in self._readers_of(value))
        ]
        return list(ops), list(inputs), results

    def _rebuild(self) -> None:
        """Write the block anew: groups in an order in which each stands behind what it reads."""
        block = self.func.block
        mapping: dict[Value, Value] = {}
        made: list[Op] = []
        placed: set[Group | Op] = set()

        def place_value(value: Value) -> None:
            producer = value.producer()
            if producer is not None and not self._is_free(producer):
                place(self.group[producer])
            elif producer is not None and producer not in placed:
                # A free op that no group can take in: it is returned, or read by an op that stays as it is.
                placed.add(producer)
                for x in producer.operands:
                    place_value(x)
                made.append(producer.clone(mapping))

        def place(group: Group) -> None:
            if group in placed:
                return
            placed.add(group)
            ops, inputs, results = self._parts(group)
            if not _fusible(group.ops[0]):
                ops, inputs = group.ops, list(group.ops[0].operands)
            for value in inputs:
                place_value(value)
            if len(ops) == 1:
                made.append(ops[0].clone(mapping))
            elif results:
                made.append(outline(ops, inputs, results, mapping))

        for group in self._in_order():
            place(group)
        for op in reversed(block):
            # Nothing may be left that holds on to the old values, in whatever order they stood.
            op.drop_operands()
            op.detach()
        for op in made:
            block.append(op)


    def _in_order(self) -> list[Group]:
        """The groups, each when all that it reads is there: of those that could be next, the one that began first in the function.

        A group may begin early and read what is computed late, such as a sum that joined another one. Were what it reads computed first
        thing, all that only the others need would come behind, and hold memory until then: the gradients of weights, for one.
        """
        groups = list(dict.fromkeys(self.group[op] for op in self.func.block if op in self.group))
        readers: dict[Group, list[Group]] = {group: [] for group in groups}
        waits = dict.fromkeys(groups, 0)
        for group in groups:
            read = {producer for op in group.ops for value, _ in self._reads_of(op) if (producer := value.producer()) is not None}
            for before in {self.group[op] for op in read} - {group}:
                readers[before].append(group)
                waits[group] += 1
        number = {group: i for i, group in enumerate(groups)}
        in_order = _sorted(groups, readers, waits, number)
        # What is a line of numbers at most comes when it is first needed, as rates that a step of training takes.
        for group in reversed(in_order):
            if all(estimate(product(shape_of(v))) <= WIDEST_LANES for op in group.ops for v in op.results):
                number[group] = min([number[group], *(number[reader] for reader in readers[group])])
        return _sorted(groups, readers, waits, number)


def _sorted(groups: Sequence[Group], readers: dict[Group, list[Group]], waits: dict[Group, int], number: dict[Group, int]) -> list[Group]:
    """The groups, each behind all that it waits for; of several that wait for nothing more, the one with the least number."""
    left = dict(waits)
    ready = [(number[group], i) for i, group in enumerate(groups) if not left[group]]
    places = {group: i for i, group in enumerate(groups)}
    heapq.heapify(ready)
    made = []
    while ready:
        group = groups[heapq.heappop(ready)[1]]
        made.append(group)
        for reader in readers[group]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, (number[reader], places[reader]))
    return made


_ALONE = (tensor.Random, tensor.Constant, tensor.Cumulate, tensor.Argsort, tensor.Pairs)


def _fusible(op: Op) -> bool:
    """Whether `op` may share a kernel; reshapes are mostly no kernels at all, random draws follow one another, and so do the steps of what
    goes along an axis in order.
    """
    if isinstance(op, tensor.Reshape):
        return _is_regrouping(op)
    return op.dialect == "tensor" and not op.regions and not isinstance(op, _ALONE) and not op.has(IsolatedFromAbove)


def _is_regrouping(op: tensor.Reshape) -> bool:
    """Whether a reshape only regroups the elements of windows on their way into or out of them: to look for the largest of a window along
    one axis, say.

    Then whoever reads it visits the regrouped axes element by element anyway, and needs no copy of all windows in memory.
    """
    made, readers = op.x.producer(), op.result.users
    if isinstance(made, tensor.Window):
        return bool(readers) and all(isinstance(r, tensor.ArgReduce) for r in readers)
    return isinstance(made, tensor.Map) and bool(readers) and all(isinstance(r, tensor.Fold) for r in readers)


def _follows_contract(op: Op) -> bool:
    """Whether `op` continues a contract element by element."""
    while isinstance(op, tensor.Map):
        same = [x.producer() for x in op.operands if shape_of(x) == shape_of(op.result)]
        op = next((p for p in same if isinstance(p, (tensor.Contract, tensor.Map))), None)  # type: ignore[assignment]
    return isinstance(op, tensor.Contract)


def _overlaps(window: tensor.Window) -> bool:
    """Whether some element may lie in two windows."""
    return any(
        not (isinstance(n, int) and isinstance(s, int) and isinstance(d, int) and (n == 1 or (n - 1) * d < s))
        for n, s, d in zip(window.sizes, window.strides, window.dilations, strict=True)
    )


def _follows(ops: Sequence[Op], contract: tensor.Contract, results: Sequence[Value]) -> bool:
    """Whether all ops of a contract's group either are free and lead to it, or follow it as `epilogue.py` can write: elementwise, at most
    one pooling without padding, and elementwise again.
    """
    shape = shape_of(contract.result)
    before: set[Value] = {contract.result}
    after: set[Value] = set()
    window: tensor.Window | None = None
    for op in ops:
        touched = [v for v in op.operands if v in before or v in after or (window is not None and v is window.result)]
        if not touched:
            if op is contract or is_free(op):
                continue
            if isinstance(op, tensor.Map):
                # Only read by what follows the contract: an operand of the epilogue computed on the way.
                continue
            return False
        if isinstance(op, tensor.Map):
            stage = before if touched[0] in before else after
            if any(v not in stage or shape_of(v) != shape_of(op.result) for v in touched):
                return False
            stage.add(op.result)
        elif isinstance(op, tensor.Window) and window is None and op.x in before and not is_whole(op):
            window = op
        elif isinstance(op, tensor.Reduce) and window is not None and op.x is window.result and not after:
            if op.keepdims or op.axes != tuple(range(len(shape), len(shape_of(op.x)))):
                return False
            after.add(op.result)
        else:
            return False
    stage = after if window is not None else before
    return bool(results) and all(v in stage for v in results)


def is_whole(window: tensor.Window) -> bool:
    """Whether a window takes in an image of many pixels whole: its mean reads what is in the cache, while tiles of a convolution would all
    have to wait for it. Up to half of the registers of a machine that has many, pixels wait there for their mean.
    """
    shape = shape_of(window.x)
    return (
        all(shape[axis] == size for axis, size in zip(window.axes, window.sizes, strict=True))
        and estimate(product(window.sizes)) > MANY_REGISTERS // 2
    )


def outline(ops: Sequence[Op], inputs: Sequence[Value], results: Sequence[Value], mapping: dict[Value, Value]) -> tensor.Fused:
    """The ops as one `tensor.fused`; `mapping` says what stands for values outside and learns what stands for the results."""
    block = Block([v.type for v in inputs], [v.name for v in inputs])
    inside: dict[Value, Value] = dict(zip(inputs, block.args, strict=True))
    b = Builder.at_end(block)
    for op in ops:
        b.insert(op.clone(inside))
    b.insert(tensor.Yield([inside[v] for v in results]))
    fused = tensor.Fused([mapping.get(v, v) for v in inputs], body=Region(block), loc=ops[-1].location)
    for old, new in zip(results, fused.results, strict=True):
        new.name = old.name
        mapping[old] = new
    return fused
