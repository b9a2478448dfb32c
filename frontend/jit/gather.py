"""Gathering: ops that a function asks for are noted as they are called, and run together when Python needs a value, or when the function
returns.

Nothing of Python is analysed or assumed: the function itself runs at every call, so what it reads, writes and decides is what eager mode
would have. Only the tensors' values come late. A *segment* is what was gathered between two moments at which values were needed. Its
structure (ops, types, which results somebody still holds) is looked up: one that is met for the first time is run op by op, as eager mode
runs it; one that is met again is compiled, and from then on found and run as one program. Numbers of Python's that differ between two calls
become arguments of it.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from polyreme import dispatch, tape, views
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import Location, PolyremeError, caller_location
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType
from polyreme.jit.capture.trace import Trace
from polyreme.jit.program import ProgramStep, TracedProgram
from polyreme.pending import COUNT, Pending
from polyreme.recorder import Gathering
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.stale import stand_for

__all__ = ["Break", "Gatherer", "Segments"]

# A function whose segments differ at every call is run op by op, from so many programs of one sequence of ops on.
MOST_PROGRAMS = 16
MOST_SEGMENTS = 512
# A segment of more ops is run: a function that loops for long must not hold all that it ever computed.
MOST_STEPS = 4096
# Elements that an op goes through, on average, from which on noting it first pays.
SMALL_STEP = 4096
MOST_NUMBERS = 4096
# Arrays of numbers of Python's, which nobody writes to. A zero is kept with its sign.
_numbers: dict[Any, Any] = {}
_STOPPED = 1 << 30  # added to the reference of an operand that passed no gradients on when the op was called


@dataclass(frozen=True)
class Break:
    """A moment at which Python needed a value: why, and the user's line."""

    reason: str
    location: Location

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}" if self.location else self.reason


class _Replay(Trace):
    """A trace of ops that were called before, at `place`."""

    place: Location | None = None

    def location(self) -> Location:
        return self.place or Location()

    def follow_variables(self) -> None:
        """Whoever called the ops has gone on."""


@dataclass
class _Known:
    """What is known of segments of one structure."""

    last: tuple[Any, ...]  # the numbers in it when it was met before
    large: bool  # whether it computes so much that a program of its own pays
    varying: frozenset[int] = frozenset()  # which of these are arguments
    programs: dict[Any, TracedProgram | None] = field(default_factory=dict)  # by the numbers that are not; None: met once


class Segments:
    """The segments of one function, by structure."""

    def __init__(self, name: str):
        self.name = name
        self.known: dict[Any, _Known] = {}
        self.compiled: dict[Any, int] = {}  # how many programs there are of each sequence of ops
        self.large = False  # whether a segment was large since that was asked
        self.failed: list[str] = []  # what could not be compiled, and why
        self.breaks: dict[tuple[str, int], Break] = {}  # by file and line

    def programs(self) -> list[TracedProgram]:
        """Those that are compiled."""
        return [program for known in self.known.values() for program in known.programs.values() if program is not None]

    def program(self, segment: _GatheredSegment, key: Any, live: Sequence[int]) -> TracedProgram | None:
        """The program of a segment; None where it is run op by op."""
        numbers = tuple(segment.numbers)
        known = self.known.get(key)
        if known is None:
            if len(self.known) >= MOST_SEGMENTS:
                self.known.clear()
                self.compiled.clear()
            known = self.known[key] = _Known(numbers, segment.is_large())
        self.large = self.large or known.large
        if numbers != known.last:
            changed = {i for i, (a, b) in enumerate(zip(numbers, known.last, strict=True)) if a != b}
            known.varying |= changed
            known.last = numbers
        fixed = tuple(n for i, n in enumerate(numbers) if i not in known.varying)
        place = known.varying, fixed, segment.identities()
        if place not in known.programs:
            known.programs[place] = None
            return None
        program = known.programs[place]
        if program is None:
            sequence = tuple(step.plan.cls for step in segment.steps)
            if self.compiled.get(sequence, 0) >= MOST_PROGRAMS:
                return None
            self.compiled[sequence] = self.compiled.get(sequence, 0) + 1
            program = known.programs[place] = segment.compile(self.name, live, known.varying)
        if not program.holds():
            del known.programs[place]
            return None
        return program


class _Step(NamedTuple):
    """A call of an op: its operands are references to values and arguments."""

    plan: Any
    refs: tuple[Any, ...]
    recording: bool
    location: Location | None


class _GatheredSegment:
    """Ops that were gathered, what they take from outside, and the values that they make."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.key: list[Any] = []
        self.values: list[weakref.ref[Pending]] = []
        self.makers: list[int] = []  # which step makes each of them
        self.viewing: set[int] = set()  # steps whose result shares contents with their first operand
        self.arguments: list[Tensor] = []
        self.arrays: list[Any] = []  # of each argument, when it was met
        self.nodes: list[Any] = []  # which step of the tape had made it then, as which result
        self.indices: list[int] = []
        self.versions: list[int] = []
        self.trains: list[bool] = []  # whether it needed gradients then, or passed some on later
        self.places: dict[int, int] = {}  # of an argument, by the tensor's identity
        self.numbers: list[Any] = []
        self.number_of: dict[int, int] = {}  # which of the numbers an argument is
        # Arguments that gradients may need, by the tensor's identity: of which step, as which of its operands.
        self.read: dict[int, list[tuple[int, int]]] = {}
        self.complete = 0, 0  # how many arguments, and parts of the key, there were before the op that is being noted

    def forget_last(self) -> None:
        """Forget what was noted of an op that becomes part of the next segment."""
        count, parts = self.complete
        if parts == len(self.key):
            return
        for tensor in self.arguments[count:]:
            self.places.pop(id(tensor), None)
        for at in [at for at in self.number_of if at >= count]:
            del self.number_of[at]
        del self.numbers[len(self.number_of) :]
        for noted in (self.arguments, self.arrays, self.nodes, self.indices, self.versions, self.trains):
            del noted[count:]
        del self.key[parts:]

    def note_reads(self, operands: Sequence[Any]) -> None:
        """Note that gradients of the last step may need its operands as they are, and so what these are views of."""
        number, position = len(self.steps) - 1, 0
        for operand in operands:
            for tensor in operand if isinstance(operand, (list, tuple)) else (operand,):
                if tensor is None:
                    continue
                self._note_read(tensor, number, position)
                if tensor._view.__class__ is tuple and (owner := tensor._view[0].owner()) is not None:
                    self._note_read(owner, number, position)
                position += 1

    def _note_read(self, tensor: Tensor, number: int, position: int) -> None:
        if (held := tensor._value).__class__ is not Pending:
            self.read.setdefault(id(tensor), []).append((number, position))
        elif held.readers is None:
            held.readers = [(id(tensor), number, position)]
        else:
            held.readers.append((id(tensor), number, position))

    def is_read(self, tensor: Tensor) -> bool:
        """Whether gradients of the steps need the contents that `tensor` has now, of it or of a view of it."""
        held = tensor._value
        if held.__class__ is not Pending:
            found = self.read.get(id(tensor), [])
        elif held.array is None and held.readers is not None:
            found = [(number, position) for identity, number, position in held.readers if identity == id(tensor)]
        else:
            return False
        return any(position in _operands_read(self.steps[number]) for number, position in found)

    def is_large(self) -> bool:
        """Whether noting its ops costs less than a program of them saves: by the elements that they go through, and kernels that are
        compiled anyway.
        """
        elements = sum(max((_elements(type) for type in (*step.plan.types, *step.plan.result_types)), default=0) for step in self.steps)
        return elements > SMALL_STEP * len(self.steps) or any(step.plan.heavy for step in self.steps)

    def identities(self) -> tuple[int, ...]:
        """Which tensors are parts of the program, as weights that it may lay out for itself."""
        return tuple(id(t) for t in self.arguments if t.persistable)

    def compile(self, name: str, live: Sequence[int], varying: frozenset[int]) -> TracedProgram:
        """The segment as a program whose inputs are the arguments that are no weights, and no numbers that are fixed."""
        trace = _Replay({t.name: t for t in self.arguments if t.persistable})
        operands: list[Tensor] = []
        with dispatch.trace_into(trace), tape.recording(False):
            for i, tensor in enumerate(self.arguments):
                if (number := self.number_of.get(i)) is not None and number not in varying:
                    operands.append(dispatch.full((), self.numbers[number][1], tensor.type.dtype))
                elif tensor.persistable:
                    operands.append(tensor)
                else:
                    operands.append(
                        trace.add_input(tensor.type, f"x_{i}" if tensor._name is None else _identifier(tensor._name), tensor.stop_gradient)
                    )
            for i, tensor in enumerate(operands):
                if tensor is self.arguments[i]:
                    # A stand-in behind those of inputs: where a weight passes no gradients on the program has to read it as well.
                    operands[i] = trace.tensor(trace.value_of(tensor))
                    operands[i].stop_gradient = tensor.stop_gradient
            made: list[Tensor] = []
            for number, step in enumerate(self.steps):
                trace.place = step.location
                given = [_pick(ref, operands, made) for ref in step.refs]
                with tape.recording(step.recording):
                    results = trace.emit(step.plan.cls, given, step.plan.attributes)
                if number in self.viewing:
                    trace.shares(results, 1)
                for result in results if isinstance(results, tuple) else (results,):
                    result.stop_gradient = result._value not in trace.differentiable
                    made.append(result)
            trace.place = None
            results = [made[i] for i in live]
            with tape.recording(True):
                traced = trace.finish(name, results, None, [f"output_{i}" for i in range(len(results))], Location())
        return TracedProgram(traced, name)

    def inputs(self, varying: frozenset[int]) -> list[Tensor]:
        """What a program of this segment is called with."""
        return [
            t
            for i, t in enumerate(self.arguments)
            if (i in self.number_of and self.number_of[i] in varying) or (i not in self.number_of and not t.persistable)
        ]


def _elements(type: Any) -> int:
    """Of an operand or result, or of several."""
    if type is None:
        return 0
    return sum(map(_elements, type)) if isinstance(type, tuple) else math.prod(type.shape)


def _operands_read(step: _Step) -> frozenset[int]:
    """The operands of a step, lists spread out, whose elements its gradients need: of a sum none."""
    refs = [r for ref in step.refs if ref is not None for r in (ref if isinstance(ref, tuple) else (ref,))]
    wrt = tuple([i for i, ref in enumerate(refs) if ref < _STOPPED >> 1])
    found = step.plan.read.get(wrt)
    if found is None:
        from polyreme.lowering.gradients.autodiff import arguments_read

        trace = _Replay({})
        with dispatch.trace_into(trace), tape.recording(True):
            results = trace.emit(step.plan.cls, [_inputs(trace, type) for type in step.plan.types], step.plan.attributes)
            results = results if isinstance(results, tuple) else (results,)
            for result in results:
                result.stop_gradient = result._value not in trace.differentiable
            traced = trace.finish("step", results, None, [f"output_{i}" for i in range(len(results))], Location())
        found = step.plan.read[wrt] = arguments_read(traced.func, wrt)
    return found


def _inputs(trace: Trace, type: Any) -> Any:
    """An input of this type, or a list of some."""
    if type is None:
        return None
    return [_inputs(trace, t) for t in type] if isinstance(type, tuple) else trace.add_input(type, "x", type.dtype.kind not in "fc")


def _identifier(name: str) -> str:
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return text if text[:1].isalpha() else f"x_{text}"


def _pick(ref: Any, arguments: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
    """The operand that a reference means: a value by its number, an argument by its number below 0."""
    if ref is None:
        return None
    if isinstance(ref, tuple):
        return [_pick(r, arguments, made) for r in ref]
    stopped = ref >= _STOPPED >> 1
    ref -= _STOPPED if stopped else 0
    tensor = made[ref] if ref >= 0 else arguments[-1 - ref]
    return tensor if not stopped or tensor.stop_gradient else Tensor._wrap(tensor._value, tensor._type)


class Gatherer(Gathering):
    """A recorder for one call of a function: it answers dispatch with tensors whose values come later."""

    def __init__(self, segments: Segments, locating: bool):
        self.segments = segments
        self.locating = locating
        self.segment = _GatheredSegment()
        # Tensors made of numbers of Python's, by identity: what tells the number from others, and the number.
        self.numbers: dict[int, tuple[Tensor, Any]] = {}
        self.passing = False  # whether gradients flow through an operand of the op that is being noted
        self.flushing = False
        # Runs of programs whose gradients may need a tensor as it is, and as which result, by the tensor's identity.
        self.watching: dict[int, list[tuple[weakref.ref[Tensor], weakref.ref[ProgramStep], int]]] = {}
        # Another thread that needs a value runs the segment. Nobody waits for values of another gatherer while this is held.
        self.lock = threading.RLock()

    # --- recording

    def number(self, value: Any, dtype: ScalarType) -> Tensor:
        """A tensor of a number of Python's, which is known to be one when it becomes an operand."""
        exact = value.__class__, repr(value) if not value or value.__class__ is complex else value
        key = exact, dtype
        array = _numbers.get(key)
        if array is None:
            if len(_numbers) >= MOST_NUMBERS:
                _numbers.clear()
            array = _numbers[key] = np.full((), value, dtype.np)
        tensor = Tensor._wrap(array)
        self.numbers[id(tensor)] = tensor, (exact, value)
        return tensor

    def emit(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """Note the op; a tensor for its result, or a tuple of them."""
        for operand in operands:
            for tensor in operand if isinstance(operand, (list, tuple)) else (operand,):
                self._settled(cls, tensor)
        return self.gather(dispatch.plan_of(cls, operands, attributes), operands)

    def gather(self, plan: Any, operands: Sequence[Any]) -> Any:
        """As `emit`, for a call that is planned."""
        if COUNT.calls > 1:
            self._take_others(operands)
        with self.lock:
            return self._note(plan, operands)

    def _take_others(self, operands: Sequence[Any]) -> None:
        """Have what other gatherers are to compute of these operands."""
        for operand in operands:
            for tensor in operand if isinstance(operand, (list, tuple)) else (operand,):
                if tensor is not None and tensor._value.__class__ is Pending and tensor._value.owner is not self:
                    tape.settle(tensor)

    def _note(self, plan: Any, operands: Sequence[Any]) -> Any:
        recording = tape.is_grad_enabled()
        segment = None
        while segment is not self.segment:
            # What an operand needs may have the segment run: references to its values are nothing in the next one.
            segment, self.passing = self.segment, False
            segment.forget_last()
            refs = tuple([self._reference(o, recording) for o in operands])
        segment.steps.append(_Step(plan, refs, recording, caller_location() if self.locating else None))
        segment.key += (plan, refs, recording)
        segment.complete = len(segment.arguments), len(segment.key)
        needs = self.passing and plan.cls in tape.gradient_rules()
        if needs:
            segment.note_reads(operands)
        values = segment.values
        made = []
        for type, dtype, continuous in plan.result_dtypes:
            tensor = Tensor._wrap(None, type)
            passes = needs and continuous
            if passes:
                tensor.stop_gradient = False
            pending = tensor._value = Pending(type, dtype, self, len(values), passes, tensor)
            values.append(weakref.ref(pending))
            segment.makers.append(len(segment.steps) - 1)
            made.append(tensor)
        if len(segment.steps) >= MOST_STEPS:
            self.flush("")
        return made[0] if len(made) == 1 else tuple(made)

    def shares(self, tensor: Tensor, count: int) -> None:
        with self.lock:
            segment, held = self.segment, tensor._value
            if held.__class__ is not Pending or held.array is not None or held.owner is not self:
                return
            number: Any = held.number
            for _ in range(count):
                segment.viewing.add(segment.makers[number])
                number = segment.steps[segment.makers[number]].refs[0]
                number -= _STOPPED if number >= _STOPPED >> 1 else 0
                if number < 0:
                    break
            segment.key.append(count)
            segment.complete = len(segment.arguments), len(segment.key)

    def _settled(self, cls: type[Op], tensor: Any) -> None:
        """An operand must be a tensor with a value, or with one that comes."""
        if tensor is None:
            return
        if not isinstance(tensor, Tensor) or tensor._value is None:
            dispatch.check_operands(cls, [tensor])
        if tensor._value.__class__ is not Pending and not isinstance(tensor._value, np.ndarray):
            raise RuntimeError(f"'{cls.name}' got {tensor._value_text()}")

    def _reference(self, operand: Any, recording: bool) -> Any:
        """How a step says which operand it takes; notes in `passing` if gradients flow through it."""
        if operand is None:
            return None
        if isinstance(operand, (list, tuple)):
            return tuple([self._reference(o, recording) for o in operand])
        value = operand._value
        if value.__class__ is Pending:
            if value.array is None and value.owner is self:
                if not recording or operand.stop_gradient:
                    return value.number + _STOPPED
                if value.needs:
                    self.passing = True
                    return value.number
            # A leaf from here on, or a value of another function's: it comes in as an argument.
            value.resolve("a tensor that gradients are wanted for")
            if operand._value is value:
                value.give(operand)
        segment = self.segment
        at = segment.places.get(id(operand))
        if at is None:
            at = self._argument(operand)
        elif segment.arrays[at] is not operand._value or segment.nodes[at] is not operand._node:
            # Past `assign`, which says when: what was called before takes it as it was.
            self.flush("a tensor is another one than an op before has read")
            at = self._argument(operand)
        if recording and not operand.stop_gradient:
            self.passing = self.segment.trains[at] = True
            return -1 - at
        return -1 - at + _STOPPED

    def _argument(self, tensor: Tensor) -> int:
        """The number of a new argument."""
        segment = self.segment
        at = segment.places[id(tensor)] = len(segment.arguments)
        segment.arguments.append(tensor)
        segment.arrays.append(tensor._value)
        segment.nodes.append(tensor._node)
        segment.indices.append(tensor._index)
        segment.versions.append(tensor._version)
        segment.trains.append(not tensor.stop_gradient)
        if (entry := self.numbers.get(id(tensor))) is not None:
            segment.number_of[at] = len(segment.numbers)
            segment.numbers.append(entry[1])
            segment.key.append("number")
        else:
            segment.key.append((tensor.stop_gradient, tensor.persistable))
        return at

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """As eager mode: `tensor` has the contents of `value` from here on."""
        if COUNT.calls > 1:
            self._take_others((tensor, value))
        with self.lock:
            self._assign(tensor, value)
        self.changed(tensor)

    def changed(self, tensor: Tensor) -> None:
        """Tell the runs of programs whose gradients may need `tensor` as it was: it may be gone when these are asked for."""
        for held, run, place in self.watching.get(id(tensor), ()) if self.watching else ():
            if held() is tensor and (step := run()) is not None:
                step.changed[place] = tensor._version

    def _assign(self, tensor: Tensor, value: Tensor) -> None:
        if self.segment.is_read(tensor):
            self.flush("a tensor is written that gradients may need as it was")
        at = self.segment.places.get(id(tensor))
        if at is not None and self.segment.arguments[at] is tensor:
            if tensor.persistable or (tensor._node is None and not tensor.stop_gradient):
                # The program reads it, or sends it gradients, as it was.
                self.flush("a tensor is written that was read before", tensor)
            else:
                before = self.segment.arguments[at] = views.alias(tensor)
                self.segment.versions[at] = before._version
                del self.segment.places[id(tensor)]
        new = value._value
        if tape.is_grad_enabled() and not tensor.stop_gradient and tensor.is_leaf and not value.is_leaf:
            raise RuntimeError(dispatch.leaf_is_changed(tensor))
        if self._keeps_place(tensor, value):
            # Contents and place in the graph are of two values from here on: the one that it has stays.
            self.flush("a tensor gets contents without their place in the graph")
            new = value._value
        if new.__class__ is not Pending:
            dispatch.take_over(tensor, value)
            return
        tensor._value, tensor._type, tensor._place = new, new.type, value._place
        tensor._version += 1
        if new.needs:
            tensor._node, tensor._index, tensor.stop_gradient = None, 0, value.stop_gradient
        if new.array is None:
            new.held_by(tensor)
        else:
            new.give(tensor)

    @staticmethod
    def _keeps_place(tensor: Tensor, value: Tensor) -> bool:
        """Whether `tensor` has, or will have, another place in the graph than the contents `value`, and one of both is pending."""
        new, held = value._value, tensor._value
        pending = new.__class__ is Pending and new.array is None
        if new.needs if pending else value._node is not None:
            return pending and value.stop_gradient
        return held.__class__ is Pending and held.array is None and held.needs and not tensor.stop_gradient

    def alias(self, tensor: Tensor) -> Tensor:
        """Another tensor that is what `tensor` is now, and stays that, with its place in the graph: so begins a write to `tensor`."""
        with self.lock:
            if self.segment.is_read(tensor):
                self.flush("a tensor is written that gradients may need as it was")
            made = views.alias(tensor)
            if made._value.__class__ is Pending:
                made._value.held_by(made)
            return made

    def contents(self, tensor: Tensor) -> Tensor:
        """What a tensor has now, without its place in the graph: if it needs gradients later, it is a leaf."""
        with self.lock:
            made = views.without_place(views.alias(tensor))
            if made._value.__class__ is Pending:
                made._value = made._value.apart(made)
            return made

    def fresh_size(self) -> Any:
        raise RuntimeError("expected sizes that are known: ops whose results' sizes follow from values run at once while ops are gathered")

    # --- running

    def flush(self, reason: str = "", changing: Tensor | None = None) -> None:
        """Run what was gathered. With a reason it is noted as a break: the function could not be one program there.

        `changing` is about to be changed. Gradients of no op that was gathered need its contents; the program's may, which makes views of
        it anew.
        """
        if reason and self.locating and not self.flushing:
            place = caller_location()
            key = place.file, place.line
            if key not in self.segments.breaks:
                self.segments.breaks[key] = Break(reason, place)
        with self.lock:
            self._run(changing)

    def _run(self, changing: Tensor | None) -> None:
        segment, self.segment = self.segment, _GatheredSegment()
        self.numbers.clear()
        segment.forget_last()
        if not segment.steps:
            return
        live = [i for i, reference in enumerate(segment.values) if reference() is not None]
        if not live:
            return
        self.flushing = True
        try:
            with dispatch.trace_into(None), _as_they_were(segment):
                if not self._run_program(segment, live, changing):
                    _run_steps(segment)
        finally:
            self.flushing = False

    def _run_program(self, segment: _GatheredSegment, live: Sequence[int], changing: Tensor | None) -> bool:
        """Run a segment by its program, and say so; False where it is to run op by op: there is none, or what it needs of its arguments is
        not so.
        """
        key = (*segment.key, tuple(live))
        held = [segment.values[i]() for i in live]
        try:
            program = self.segments.program(segment, key, live)
            if program is None:
                return False
            with tape.recording(any(p is not None and p.needs and p.is_held() for p in held)):
                results = program(segment.inputs(self.segments.known[key].varying), changing=changing)
        except PolyremeError as error:
            self.segments.failed.append(str(error))
            self.segments.known[key].programs = {}
            return False
        for i, (pending, result) in enumerate(zip(held, results, strict=True)):
            if pending is not None:
                if (reader := pending.reader()) is not None:
                    stand_for(result, reader)
                    if (watching := program.watch(results, i, reader)) is not None:
                        step, place = watching
                        self.watching.setdefault(id(reader), []).append((weakref.ref(reader), weakref.ref(step), place))
                pending.settle(result._value, result._node, result._index)
        return True


def _run_steps(segment: _GatheredSegment) -> None:
    """Run a segment op by op, as eager mode does."""
    last: dict[int, int] = {}
    for number, step in enumerate(segment.steps):
        for ref in step.refs:
            for r in ref if isinstance(ref, tuple) else (ref,):
                if r is not None:
                    last[r - _STOPPED if r >= _STOPPED >> 1 else r] = number
    made: list[Any] = []
    done: dict[int, list[int]] = {}
    for value, number in last.items():
        if value >= 0:
            done.setdefault(number, []).append(value)
    for number, step in enumerate(segment.steps):
        operands = [_pick(ref, segment.arguments, made) for ref in step.refs]
        with tape.recording(step.recording):
            results = dispatch.run_planned(step.plan, operands)
        for result in results if isinstance(results, tuple) else (results,):
            pending = segment.values[len(made)]()
            if pending is not None:
                if (reader := pending.reader()) is not None:
                    stand_for(result, reader)
                pending.settle(result._value, result._node, result._index)
            made.append(result)
        for value in done.get(number, ()):
            made[value] = None


@contextmanager
def _as_they_were(segment: _GatheredSegment) -> Iterator[None]:
    """Let arguments be inside the `with` what they were when the ops that take them were called; leaves are themselves there, for their
    gradients to arrive at them.
    """
    changed: list[tuple[Tensor, Any, Any, int, int, bool]] = []
    for i, (tensor, array, node, trains) in enumerate(zip(segment.arguments, segment.arrays, segment.nodes, segment.trains, strict=True)):
        if tensor._value is not array or tensor._node is not node or tensor.stop_gradient == trains:
            changed.append((tensor, tensor._value, tensor._node, tensor._index, tensor._version, tensor.stop_gradient))
            tensor._value, tensor._node, tensor._index, tensor._version, tensor.stop_gradient = (
                array,
                node,
                segment.indices[i],
                segment.versions[i],
                not trains,
            )
    try:
        yield
    finally:
        for tensor, array, node, index, version, stopped in changed:
            tensor._value, tensor._node, tensor._index, tensor._version, tensor.stop_gradient = array, node, index, version, stopped


def current() -> Gatherer | None:
    """The gatherer of the call that is going on in this thread, if any."""
    recorder = dispatch.recorder()
    return recorder if isinstance(recorder, Gatherer) else None


def call_gathered(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], segments: Segments, locating: bool) -> Any:
    """Run a function while its ops are gathered. What it raises passes through; tensors that it has made by then have their values."""
    gatherer = Gatherer(segments, locating)
    failed = False
    COUNT.add(1)
    try:
        with dispatch.trace_into(gatherer):
            return function(*args, **kwargs)
    except BaseException:
        failed = True
        raise
    finally:
        try:
            gatherer.flush()
        except BaseException:
            if not failed:
                raise
        finally:
            COUNT.add(-1)
