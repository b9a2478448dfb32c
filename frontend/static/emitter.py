"""How operators become an `nn` function: they are applied again, through dispatch, to tensors that stand for IR values; those of a block
in the body of a branch or loop, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Op, OpResult, Value
from polyreme.ir.diagnostics import UNKNOWN, Location
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import TensorType
from polyreme.jit.capture.bodies import CapturedBody
from polyreme.jit.capture.trace import Trace, are_positions, keeps_elements
from polyreme.recorder import Recorder, told_at
from polyreme.tensor import Tensor

__all__ = ["Emitter", "ProgramSource", "TranslatedBodies", "source_tensor"]


class ProgramSource:
    """A value that a program starts from: a "feed" (the payload is its name), a persistable variable ("scope"), an eager "tensor"."""

    __slots__ = ("kind", "payload", "type")

    def __init__(self, kind: str, payload: Any, type: TensorType):
        self.kind, self.payload, self.type = kind, payload, type

    @property
    def name(self) -> str:
        return str(self.payload if isinstance(self.payload, str) else self.payload.name)


def source_tensor(source: ProgramSource) -> Tensor:
    return Tensor._wrap(source, source.type)


# Ops that read or write at positions along an axis, and which of their operands has these.
_READS_AT: dict[type[Op], int] = {ops.Gather: 1, ops.Scatter: 2, ops.ScatterAdd: 1}


class Emitter(Recorder):
    """A recorder that appends ops to `block`, and asks `imported(source)` for an argument of it for whatever comes from elsewhere.

    With `fed` a run tells of positions that are none of an axis, but for these: the names of what is fed and looked at before, with the
    size of the axis and whether they may count from its end.
    """

    taped = True

    def __init__(self, imported: Callable[[ProgramSource], Value], fed: frozenset[tuple[str, int, bool]] | None = None):
        self.imported = imported
        self.fed = fed
        self.feeds: dict[Value, str] = {}  # the arguments that are fed, by name
        self.within: dict[tuple[Value, Dim, bool], Tensor] = {}  # positions that a run tells of
        self.block = Block()
        self.builder = Builder.at_end(self.block)
        self.location: Location = UNKNOWN
        self.sizes_named = 0
        self.written: dict[int, tuple[Tensor, Any, Any]] = {}  # eager tensors that were written to, with their array and type from before
        self.captured: dict[int, ProgramSource] = {}
        self.host_calls: Any = None  # what takes operators that run in Python, where there may be such

    def source_of(self, tensor: Tensor) -> ProgramSource | None:
        """Where a tensor comes from, None when an op of the block makes it."""
        value = tensor._value
        if isinstance(value, ProgramSource):
            return value
        if isinstance(value, OpResult) and value.op.parent is self.block:
            return None
        if not isinstance(value, np.ndarray):
            raise TypeError(f"expected tensors of the program but got {tensor!r}")
        if id(value) not in self.captured:
            self.captured[id(value)] = ProgramSource("tensor", tensor, tensor.type)
        return self.captured[id(value)]

    def value_of(self, tensor: Tensor) -> Value:
        source = self.source_of(tensor)
        if source is None:
            made: Value = tensor._value
            return made
        value = self.imported(source)
        if source.kind == "feed":
            self.feeds[value] = source.name
        return value

    def emit(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        if self.fed is not None and cls is ops.Within:
            why = attributes.get("place", "").partition(" because ")[2]
            error = IndexError if not why else lambda low, high, size: ValueError(why)
            return self.check_within(operands[0], attributes["size"], error, attributes["wraps"])
        if self.fed is not None and cls in _READS_AT:
            operands = self._looked_at(cls, operands, attributes)
        if self.fed is not None and cls is ops.CrossEntropy and not attributes.get("soft_label", False):
            operands = [operands[0], self._classes(*operands, **attributes)]
        values = [
            None if o is None else [self.value_of(t) for t in o] if isinstance(o, (list, tuple)) else self.value_of(o) for o in operands
        ]
        op = self.builder.insert_op(cls(*values, **attributes, loc=self.location))
        results = tuple(Tensor._wrap(r, r.type) for r in op.results)
        return results[0] if len(results) == 1 else results

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """Eager tensors (the random generator's state) keep the new value until `restore`; the run gives it to them for good."""
        if isinstance(tensor._value, np.ndarray):
            self.source_of(tensor)
            self.written.setdefault(id(tensor), (tensor, tensor._value, tensor._type))
        tensor._value, tensor._type = value._value, value.type
        tensor._node, tensor._index = value._node, value._index
        tensor._version += 1

    def _looked_at(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Sequence[Any]:
        """The operands of an op that reads or writes at positions, of which a run tells: programs keep such ops, and not the checks of
        the functions that made them.
        """
        place = _READS_AT[cls]
        size = attributes["size"] if cls is ops.ScatterAdd else operands[0].type.shape[attributes.get("axis", 0)]
        index = self.check_within(operands[place], size, IndexError, True)
        return [*operands[:place], index, *operands[place + 1 :]]

    def _classes(self, logits: Tensor, label: Tensor, axis: int = -1, ignore_index: int = -100, **_: Any) -> Tensor:
        """The labels of a loss, of which a run tells as of positions, but for `ignore_index`."""
        size = logits.type.shape[axis]
        if label.type.dtype.kind not in "iu" or self._fits(self.value_of(label), size, False):
            return label
        ignored = dispatch.call(ops.Equal, label, dispatch.full((), ignore_index, label.type.dtype))
        looked_at = dispatch.call(ops.Where, ignored, dispatch.full((), 0, label.type.dtype), label)
        made: Tensor = dispatch.call(ops.Where, ignored, label, self.check_within(looked_at, size, IndexError, False))
        return made

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """A run tells of positions that are computed, and of those fed that nobody looks at before."""
        if self.fed is None or positions.type.dtype.kind not in "iu":
            return positions
        value = self.value_of(positions)
        if self._fits(value, size, wraps):
            return positions
        key = value, size, wraps
        if key not in self.within:
            made = self.builder.insert_op(ops.Within(value, size=size, wraps=wraps, place=told_at(self.location, error), loc=self.location))
            self.within[key] = Tensor._wrap(made.results[0], made.results[0].type)
        return self.within[key]

    def _fits(self, value: Value, size: Dim, wraps: bool) -> bool:
        """Whether somebody looks at these positions already, or they are sure to fit."""
        origin = value
        while (op := origin.producer()) is not None and (keeps_elements(op) or isinstance(op, ops.Within)):
            if isinstance(op, ops.Within) and op.size == size and op.wraps <= wraps:
                return True
            origin = op.operands[0]
        fed, looked_at = self.feeds.get(origin, ""), self.fed or frozenset()
        return isinstance(size, int) and not looked_at.isdisjoint({(fed, size, False), (fed, size, wraps)}) or are_positions(value, size)

    def fresh_size(self) -> Dim:
        self.sizes_named += 1
        return symbol(f"K_{len(self.block.ops)}_{self.sizes_named}")

    def bodies(self) -> TranslatedBodies:
        """What records the bodies of a branch or loop."""
        return TranslatedBodies(self)

    def restore(self) -> dict[int, tuple[Tensor, Any]]:
        """Give written tensors their arrays back; returns them with what the program gives them."""
        final = {}
        for key, (tensor, array, type) in self.written.items():
            final[key] = tensor, Tensor._wrap(tensor._value, tensor._type)
            tensor._value, tensor._type = array, type
        return final


class TranslatedBodies(Trace):
    """The recorder inside of bodies, where values of the function around are captured; `outer` is what records that."""

    learns_sizes = False

    def __init__(self, outer: Emitter):
        super().__init__({})
        self.outer = outer
        self.around: dict[int, tuple[Any, Value]] = {}

    @contextmanager
    def inside(self, body: CapturedBody) -> Iterator[CapturedBody]:
        """As `Trace` has it; ops go here meanwhile."""
        with dispatch.trace_into(self), super().inside(body) as entered:
            yield entered

    def value_of(self, tensor: Any) -> Value:
        """The value that a tensor stands for; one of the function around is one from outside."""
        held = tensor._value
        from_around = isinstance(held, ProgramSource) or isinstance(held, OpResult) and held.op.parent is self.outer.block
        if not from_around:
            return super().value_of(tensor)
        if id(held) not in self.around:
            self.around[id(held)] = held, self.block.add_arg(tensor.type, held.name or "")
        arg = self.around[id(held)][1]
        if not tensor.stop_gradient:
            self.differentiable.add(arg)
        return self._seen_here(arg, tensor)

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """The run tells of them."""
        return positions if self.outer.fed is None else self.told_by_run(positions, size, error, wraps)

    def location(self) -> Location:
        """The operator that is being applied."""
        return self.outer.location

    def follow_variables(self) -> None:
        """Values are called what the program calls them."""

    def fresh_size(self) -> Dim:
        """A name that no other size of the function has."""
        made = self.outer.fresh_size()
        self.sizes.counts.append(str(made))
        return made
