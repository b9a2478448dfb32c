"""Any scan as one kernel: a loop over the steps, around the kernels that the builders make for the ops of one step.

A step is fused like a function of its own. Its intermediates lie in scratch memory. What it carries lies in two places that are read and
written in turn. Packed forms of shared operands are made once, before the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, TensorType
from polyreme.lowering.analysis.rows import behind_reshapes, shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.nchw_choice import build_nchw_conv
from polyreme.lowering.kernels.conv.nchw_strategy import NchwSchedule
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.gemm.product_schedule import ContractSchedule
from polyreme.lowering.kernels.general.loops import build_loops, build_scatter, build_take
from polyreme.lowering.kernels.general.random import RandomSchedule, build_random
from polyreme.lowering.kernels.general.scatter import ScatterSchedule
from polyreme.lowering.kernels.general.take import TakeSchedule
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Request, Slot, Step, operand, pack, request_of, result, scratch, title
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.sequence.recurrent import RecurrentSchedule, build_recurrent
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.transforms.fuse import Fuse
from polyreme.lowering.transforms.scan_steps import step_of
from polyreme.lowering.transforms.sink_reshapes import SinkReshapes

__all__ = ["build_scan"]


@dataclass(frozen=True)
class GenericLoops(Schedule, kind="loops"):
    """Generic loops, whose own choices are no value that is read back."""


@dataclass(frozen=True)
class ScanSchedule(Schedule, kind="scan"):
    """Each of the `roots` of a step is computed by a schedule of its own, in their order."""

    roots: tuple[
        RecurrentSchedule
        | ScanSchedule
        | NchwSchedule
        | ContractSchedule
        | RandomSchedule
        | ScatterSchedule
        | TakeSchedule
        | GenericLoops,
        ...,
    ] = ()


@dataclass(frozen=True)
class ScannedSteps:
    """A root that is one `tensor.scan`: its `step` as a fused function, and the roots of that."""

    request: Request
    scan: tensor.Scan
    step: Func
    roots: tuple[tuple[Op, Request], ...]


def find_scan(request: Request) -> ScannedSteps | None:
    """The single `tensor.scan` that a root is; None for any other root."""
    scan = request.single(tensor.Scan)
    # An operand is left in another order for recurrent layers alone (`preferred_order_of_input`), which are asked before.
    if scan is None or request.operand_orders:
        return None
    step = step_of(scan)
    SinkReshapes().run_on(step)
    Fuse().run_on(step)
    return ScannedSteps(request, scan, step, tuple((op, _request_of(op, request, scan)) for op in step.block if _has_kernel(op)))


def _request_of(op: Op, request: Request, scan: tensor.Scan) -> Request:
    """A root of a step: packs of what all steps share are made in front of the loop, others at every step."""
    first = len(scan.xs) + len(scan.inits)
    sources = {i: s.index for i, v in enumerate(op.operands) if isinstance(s := behind_reshapes(v), BlockArgument) and s.index >= first}
    return request_of(op, request.target, sources, known=[i for i, source in sources.items() if source in request.known])


def _ways() -> tuple[Way, ...]:
    """Who makes the kernels of a step, but for the generic loops; scans within scans come back here."""
    return build_recurrent, build_scan, build_nchw_conv, build_contract, build_random, build_scatter, build_take


def choose_scan(found: ScannedSteps) -> ScanSchedule:
    """For each root the first way that takes it, as it chooses."""
    return ScanSchedule(tuple(_chosen(request) for _, request in found.roots))


def _chosen(request: Request) -> Any:
    for way in _ways():
        seen = way.find(request)
        chosen = None if seen is None else way.choose(seen)
        if chosen is not None:
            return chosen
    return GenericLoops()


def fit_scan(found: ScannedSteps, schedule: ScanSchedule) -> None:
    """`ScheduleError` unless each root of a step can be computed as is said of it."""
    if len(schedule.roots) != len(found.roots):
        raise ScheduleError(f"expected a schedule like {choose_scan(found)} for the {len(found.roots)} roots of a step but got {schedule}")
    for (_, request), said in zip(found.roots, schedule.roots, strict=True):
        way = _way_of(said)
        if way is None:
            continue
        seen = way.find(request)
        if seen is None:
            raise ScheduleError(f"expected a root of a step that '{said.kind}' is for but got {title(request)}")
        way.fits(seen, said)


def _way_of(schedule: Schedule) -> Way | None:
    """Whose schedule it is; None for the generic loops."""
    return next((way for way in _ways() if isinstance(schedule, way.schedule)), None)


def write_scan(found: ScannedSteps, schedule: ScanSchedule) -> KernelPlan:
    """The plan of a scan as its schedule says."""
    plans: dict[Op, KernelPlan] = {}
    for (op, request), said in zip(found.roots, schedule.roots, strict=True):
        way = _way_of(said)
        plan = build_loops(request) if way is None else way.plan(way.find(request), said)
        assert plan is not None, "steps have no groups of several contractions"
        plans[op] = plan
    return _Steps(found).build(plans)


build_scan = Way("scan", ScanSchedule, find_scan, choose_scan, write_scan, fit_scan)


@dataclass(frozen=True)
class _Place:
    """Memory of a value in the current step: `buffer` from element `start` on."""

    buffer: Value
    start: Index


class _Steps:
    """Writes the kernel of a scan from those of its ops."""

    def __init__(self, found: ScannedSteps):
        self.request, self.scan, self.step = found.request, found.scan, found.step
        self.slots: list[Slot] = []
        self.types: list[BufferType] = []
        self.packs: list[Pack] = []
        self.scratch: list[BufferType] = []
        self.memory: dict[Value, _Place] = {}

    def build(self, plans: Mapping[Op, KernelPlan]) -> KernelPlan:
        """The kernel, from those of the step's roots."""
        scan, request, step = self.scan, self.request, self.step
        # Buffers are added as they are needed; each is an argument of the kernel.
        func = Func.empty(request.name("scan"), [], loc=scan.location)
        self.func, self.code = func, Code(Builder.at_end(func.block, func.location))
        self.buffers: dict[Slot, Value] = {}
        code = self.code
        states = [self._scratch(2 * product(shape_of(x)), x) for x in scan.inits]
        for x, state in zip(range(len(scan.inits)), states, strict=True):
            self._copy(_Place(self._buffer(operand(len(scan.xs) + x)), 0), _Place(state, 0), scan.inits[x])
        with code.loop(0, scan.steps, name="t") as loop:
            parity = code.mod(loop.iv, 2)
            self._enter(step, loop.iv, parity, states)
            for op in step.block.ops[:-1]:
                self._op(op, plans)
            self._leave(step, loop.iv, parity, states)
        for i, (x, state) in enumerate(zip(scan.inits, states, strict=True)):
            start = code.mul(code.mod(code.value(scan.steps), 2), product(shape_of(x)))
            self._copy(_Place(state, start), _Place(self._buffer(result(i)), 0), x)
        code.b.insert(Return([]))
        func.finish()
        return KernelPlan((Step(func, tuple(self.slots)),), tuple(self.packs), tuple(self.scratch))

    # --- memory

    def _buffer(self, slot: Slot) -> Value:
        if slot not in self.buffers:
            types: dict[str, Sequence[TensorType]] = {
                "operand": self.request.operand_types,
                "result": self.request.result_types,
                "pack": [p.type for p in self.packs],
            }
            type = (
                self.scratch[slot.index]
                if slot.kind == "scratch"
                else BufferType(types[slot.kind][slot.index].shape, types[slot.kind][slot.index].dtype)
            )
            self.slots.append(slot)
            self.buffers[slot] = self.func.block.add_arg(type)
        return self.buffers[slot]

    def _scratch(self, size: Dim, like: Value) -> Value:
        assert isinstance(like.type, TensorType)
        self.scratch.append(BufferType((size,), like.type.dtype))
        return self._buffer(scratch(len(self.scratch) - 1))

    def _copy(self, source: _Place, target: _Place, like: Value) -> None:
        """The kernel of a function that returns its argument."""
        func = Func.empty("root", [like.type])
        Builder.at_end(func.block)(Return, tuple(func.args))
        plan = build_loops(Request(func.finish(), self.request.target))
        assert plan is not None
        self._inline(plan, [source], [target], 0, 0)

    def _enter(self, step: Func, t: Index, parity: Index, states: Sequence[Value]) -> None:
        """Say where the arguments of the step lie."""
        scan, code = self.scan, self.code
        here = code.sub(code.sub(scan.steps, 1), t) if scan.reverse else t
        for arg in step.args:
            size = product(shape_of(arg))
            carried = arg.index - len(scan.xs)
            if carried < 0:
                self.memory[arg] = _Place(self._buffer(operand(arg.index)), code.mul(here, size))
            elif carried < len(states):
                self.memory[arg] = _Place(states[carried], code.mul(parity, size))
            elif arg.uses:
                self.memory[arg] = _Place(self._buffer(operand(arg.index)), 0)
        # What is returned is written to its place by the kernel that makes it, if it is the first to ask.
        self.wanted: dict[Value, _Place] = {}
        self.places: list[_Place] = []
        for i, value in enumerate(step.block.terminator.operands):
            size = product(shape_of(value))
            if i < len(states):
                place = _Place(states[i], code.mul(code.sub(1, parity), size))
            else:
                place = _Place(self._buffer(result(i)), code.mul(here, size))
            self.places.append(place)
            if not isinstance(value, BlockArgument):
                self.wanted.setdefault(value, place)

    def _leave(self, step: Func, t: Index, parity: Index, states: Sequence[Value]) -> None:
        for value, place in zip(step.block.terminator.operands, self.places, strict=True):
            if self.memory[value] is not place:
                self._copy(self.memory[value], place, value)

    # --- the ops of a step

    def _op(self, op: Op, plans: Mapping[Op, KernelPlan]) -> None:
        if isinstance(op, tensor.Reshape):
            self.memory[op.result] = self.memory[op.x]
            return
        for value in op.results:
            self.memory[value] = self.wanted.get(value) or _Place(self._scratch(product(shape_of(value)), value), 0)
        plan = plans[op]
        packs, made = len(self.packs), len(self.scratch)
        for entry in plan.packs:
            source = behind_reshapes(op.operands[entry.operand])
            assert isinstance(source, BlockArgument)
            self.packs.append(replace(entry, operand=source.index))
        self.scratch += plan.scratch
        self._inline(
            plan, [self.memory[v] if v in self.memory else None for v in op.operands], [self.memory[v] for v in op.results], packs, made
        )

    def _inline(self, plan: KernelPlan, operands: Sequence[_Place | None], results: Sequence[_Place], packs: int, made: int) -> None:
        """The kernels of a plan, written out here on views of its memory."""
        code = self.code
        for step in plan.steps:
            mapping: dict[Value, Value] = {}
            for slot, arg in zip(step.slots, step.func.args, strict=True):
                if slot.kind in ("operand", "result"):
                    place = (operands if slot.kind == "operand" else results)[slot.index]
                    assert place is not None
                else:
                    place = _Place(self._buffer(pack(slot.index + packs) if slot.kind == "pack" else scratch(slot.index + made)), 0)
                assert isinstance(arg.type, BufferType)
                mapping[arg] = self._view(place, arg.type)
            for op in step.func.block.ops[:-1]:
                code.b.insert_op(op.clone(mapping))

    def _view(self, place: _Place, type: BufferType) -> Value:
        start = None if not isinstance(place.start, Value) and place.start == 0 else self.code.value(place.start)
        if start is None and place.buffer.type == type:
            return place.buffer
        view: Value = self.code.b(kernel.View, place.buffer, start, shape=type.shape)
        return view


def _has_kernel(op: Op) -> bool:
    return not isinstance(op, (tensor.Reshape, Return))
