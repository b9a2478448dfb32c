"""Tracing: running a Python function once on stand-ins, and keeping the ops it applied as an `nn` function.

Tensors that the function reads from elsewhere (parameters, buffers, globals) become arguments too, so that the traced function has no
hidden state: what it reads comes in as an argument, what it writes (a running mean, the random generator's state) leaves as a further
result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import Any, NamedTuple

from polyreme import dispatch, tape, views
from polyreme.dialects import nn as ops
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Op, OpResult, Value
from polyreme.ir.debug.notes import operand_notes
from polyreme.ir.define import View
from polyreme.ir.diagnostics import InferError, Location, PolyremeError, caller_location, raised_location
from polyreme.ir.dims import Dim, UnknownSize, deciding, symbol, symbols
from polyreme.ir.sizes.ranges import Range
from polyreme.ir.types import TensorType, type_symbols
from polyreme.jit.capture import rules
from polyreme.jit.capture.bodies import CapturedBody, Contents
from polyreme.jit.capture.fitting import CheckedSlice, fits_with, fitted, needed
from polyreme.jit.capture.leaf_gradients import LeafGradients
from polyreme.jit.capture.learned_sizes import Equation, LearnedSizes
from polyreme.jit.capture.names import VariableNames
from polyreme.jit.capture.uncertain import Uncertain, sharing_pairs
from polyreme.jit.structure import Template, flatten
from polyreme.jit.traced import BackwardTraceError, Traced, TraceError, UnknownSizeError
from polyreme.lowering.gradients.autodiff import GRADIENTS, bound_symbols
from polyreme.recorder import Recorder, told_at
from polyreme.tensor import Tensor

__all__ = ["TraceError", "Traced", "UnknownSizeError", "trace"]


# How often what an op needs of sizes is looked at anew, since it needs other things once it has some.
MOST_EQUATIONS = 8


class _Original(NamedTuple):
    """What a tensor was before a trace wrote to it."""

    tensor: Tensor
    value: Any
    type: TensorType | None
    version: int
    place: tuple[Any, int, bool]

    @classmethod
    def of(cls, tensor: Tensor) -> _Original:
        return cls(tensor, tensor._value, tensor._type, tensor._version, (tensor._node, tensor._index, tensor.stop_gradient))

    def restore(self) -> None:
        tensor = self.tensor
        tensor._value, tensor._type, tensor._version = self.value, self.type, self.version
        tensor._node, tensor._index, tensor.stop_gradient = self.place


class _Outside(tape.Node):
    """What has made the values that the body of a loop is given."""

    def __init__(self, made: Sequence[Tensor]):
        super().__init__((), len(made))

    def backward(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise BackwardTraceError(
            "backward() in a loop of the program goes on to what is around the loop, which it cannot do; take gradients with paddle.grad()",
            caller_location(),
        )


def keeps_elements(op: Op) -> bool:
    """Whether the op's result has the elements of its operand, as whole numbers, in another order or form."""
    if isinstance(op, ops.Cast):
        return op.operands[0].type.dtype.kind in "iu" and op.results[0].type.dtype.bits >= op.operands[0].type.dtype.bits
    return isinstance(op, (ops.Reshape, ops.Transpose, ops.BroadcastTo, ops.StopGradient))


def are_positions(value: Value, size: Dim) -> bool:
    """Whether they are sure to be those of an axis of this size, as what sorts it, or finds its greatest element, gives."""
    op = value.producer()
    while op is not None and (isinstance(op, ops.Slice) or keeps_elements(op)):
        op = op.operands[0].producer() if isinstance(op.operands[0], Value) else None
    if isinstance(op, ops.Iota):
        return bool(op.shape[op.axis] == size)
    if isinstance(op, (ops.ArgMax, ops.ArgMin, ops.Argsort)):
        return bool(op.operands[0].type.shape[op.axis] == size)
    return False


def _block_of(value: Value) -> Any:
    return value.op.parent if isinstance(value, OpResult) else value.owner


class Trace(Recorder):
    """A recorder: it answers dispatch with tensors that stand for the results of ops in `block`."""

    taped = True
    learns_sizes = True

    def __init__(self, named: Mapping[str, Tensor]):
        self.start = tape.now()
        self.block = Block()
        self.builder = Builder.at_end(self.block)
        self.names = {id(tensor): name for name, tensor in named.items()}
        self.roles: list[str] = []
        self.arg_names: list[str] = []
        self.sources: list[int | Tensor] = []
        self.by_tensor: dict[int, Value] = {}
        self.originals: dict[int, _Original] = {}  # of tensors written to
        self.written: dict[int, Tensor] = {}  # those that are given what they stand for in the end
        self.written_by_path: set[int] = set()  # which of these are given it by whoever calls the program
        self.apart_from: dict[int, Tensor] = {}  # tensors that were detached here
        self.differentiable: set[Value] = set()
        self.copies: dict[Op, None] = {}  # ops that move nothing, though what they make shares no contents with what it is made of: a clone
        self.stopped: dict[Value, Value] = {}
        self.unknown: set[Value] = set()  # what stands for values that are computed elsewhere, under an op that is none of theirs
        self.unset: set[Value] = set()  # what stands where a variable has no value, and nobody reads it
        self.hooks: set[Value] = set()  # values whose gradients pass a hook
        self.variables = VariableNames(self.block, trace.__code__)
        self.sizes = LearnedSizes(self.block)
        self.made: list[weakref.ref[Tensor]] = []  # who has seen sizes that are something else by now
        self.bodies: list[CapturedBody] = []  # those of branches and loops that are being recorded, from the outside in
        self.open = self.sizes.open  # the blocks of those, and of others whose op is not there yet
        self.inputs: set[int] = set()  # identities of what stands for inputs
        self.uncertain = Uncertain()
        self.doubts: list[list[TraceError]] = []  # of the loops around that may be recorded anew, what is amiss in them unless they are
        self.ranges: dict[Range, None] = {}  # what inputs may hold
        self.path_tensors: list[Tensor] = []  # those from outside that may be others at the next call
        self.place: Location | None = None  # of all ops, while the framework's own code records them
        self.gradients: LeafGradients | None = None  # `.grad` of leaves, where whoever runs the program sets it
        self.changing: list[str] = []  # names of sizes that change from round to round of a loop

    # --- arguments

    def add_input(self, type: TensorType, name: str, stop_gradient: bool, example: Sequence[int] | None = None) -> Tensor:
        """A stand-in for an input; `example` is its shape in the call that the function is traced for."""
        value = self._argument(type, name, "input", len(self.sources))
        self.sizes.add_input(self.arg_names[-1], type, example)
        made = self._stand_in(value, stop_gradient)
        self.inputs.add(id(made))
        return made

    def _argument(self, type: TensorType, name: str, role: str, source: int | Tensor) -> Value:
        taken = set(self.arg_names)
        unique = next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(taken) + 2))) if n not in taken)
        self.roles.append(role)
        self.arg_names.append(unique)
        self.sources.append(source)
        return self.block.add_arg(type, unique)

    def _stand_in(self, value: Value, stop_gradient: bool) -> Tensor:
        tensor = self.tensor(value)
        tensor.stop_gradient = stop_gradient
        if not stop_gradient:
            self.differentiable.add(value)
        return tensor

    def tensor(self, value: Value) -> Tensor:
        """A tensor that stands for the value."""
        tensor = Tensor._wrap(value, value.type)
        self.made.append(weakref.ref(tensor))
        return tensor

    # --- values

    def value_of(self, tensor: Any) -> Value:
        """The value that a tensor stands for here; eager ones become arguments."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected tensors but got {type(tensor).__name__} ({tensor!r})")
        value = tensor._value
        if (stale := self.uncertain.stale.get(id(tensor))) is not None:
            self._refuse_uncertain(stale[1])
        for size in self.uncertain.copied_from(tensor):
            self.require(size - 2)
        if isinstance(value, Value):
            tensor._type = value.type
            return self._seen_here(value, tensor)
        if value is None:
            raise TraceError("expected a tensor with contents but got one that is not initialized", caller_location())
        known = self.by_tensor.get(id(tensor))
        if known is None:
            known = self.by_tensor[id(tensor)] = self.outside(tensor, self.names.get(id(tensor), tensor.name))
            if not tensor.stop_gradient:
                self.differentiable.add(known)
        return self._seen_here(known, tensor)

    def _seen_here(self, value: Value, tensor: Tensor) -> Value:
        """A value as the body that is being recorded sees it: those from outside become arguments of it, and of the bodies around it."""
        block = _block_of(value)
        blocks = self._blocks()
        if block is blocks[-1]:
            return value
        if block not in blocks:
            inside = isinstance(block, Block) and (
                block in self.open or block.parent is not None and isinstance(block.parent.parent, (ops.If, ops.While, ops.Scan))
            )
            if inside:
                raise TraceError(
                    "a tensor made in the body of a branch or loop is used outside of it, where it may not be there; return it from the "
                    "body instead",
                    caller_location(),
                )
            raise TraceError(
                "a tensor made while another function was traced is used here; return it from that function instead", caller_location()
            )
        for body in self.bodies[blocks.index(block) :]:
            arg = body.capture(value, tensor)
            if value in self.differentiable:
                self.differentiable.add(arg)
            value = arg
        return value

    def outside_of(self, arg: Value) -> Any:
        """What an argument of a body that is being recorded stands for where the body stands: a value, or a tensor. None for what it is
        given, which may be something else in each round.
        """
        for body in self.bodies:
            for part in (body, body.condition):
                if part is not None and part.block is _block_of(arg):
                    return next((value for value, (known, _) in part.captures.items() if known is arg), None)
        return None

    def _blocks(self) -> list[Block]:
        """Those whose values can be read where ops are recorded, from the outside in."""
        return [self.block, *(body.block for body in self.bodies)]

    def is_reachable(self, tensor: Tensor) -> bool:
        """As `Recorder` has it."""
        return not isinstance(tensor._value, Value) or _block_of(tensor._value) in self._blocks()

    def outside(self, owner: Tensor, name: str) -> Value:
        """The argument for a tensor that is read from elsewhere."""
        return self._argument(owner.type, name, "param", owner)

    def location(self) -> Location:
        """The place of the op that is being recorded: the user's line."""
        return self.place or caller_location()

    def follow_variables(self) -> None:
        """Called in front of each op: values get the names of the user's variables."""
        if self.place is None:
            self.variables.step()

    @contextmanager
    def at_one_place(self) -> Iterator[None]:
        """The framework's own code records ops, however many: all of them stand at the user's line that has asked for them."""
        if self.place is not None:
            yield
            return
        self.variables.step()
        self.place = self.location()
        try:
            yield
        finally:
            self.place = None

    def _operand(self, tensor: Any, recording: bool) -> Value:
        value = self.value_of(tensor)
        if value not in self.differentiable or (recording and not tensor.stop_gradient and not self._was_detached(tensor)):
            return value
        # The user detached it or switched gradients off: the program has to say so too.
        return self._stopped(value)

    def _stopped(self, value: Value) -> Value:
        if value not in self.differentiable:
            return value
        if value not in self.stopped:
            self.stopped[value] = self.builder.insert(ops.StopGradient(value, loc=self.location()))
        return self.stopped[value]

    def _moved(self, tensor: Tensor) -> bool:
        """Whether a tensor from outside that was written to is made by an op now, where gradients are concerned."""
        return tensor._node is not None and tensor._node is not self.originals[id(tensor)].place[0]

    def emit(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """Append the op; a tensor for its result, or a tuple of them."""
        self.follow_variables()
        recording = tape.is_grad_enabled()
        values = [
            None if o is None else [self._operand(t, recording) for t in o] if isinstance(o, (list, tuple)) else self._operand(o, recording)
            for o in operands
        ]
        location = self.location()
        try:
            op = self._fitting(cls, values, attributes, location)
            self.builder.insert_op(op)
            for region in op.regions:
                if region.block in self.open:
                    self.open.remove(region.block)
        except InferError as error:
            notes = operand_notes(v for group in values for v in (group if isinstance(group, list) else [group]) if v is not None)
            raise InferError(replace(error.diagnostics[0], location=location, notes=tuple(notes))) from None
        if op.has(View):
            self.copies[op] = None
        if cls in GRADIENTS and any(v in self.differentiable for v in op.operands):
            self.differentiable.update(r for r in op.results if r.type.dtype.kind in "fc")
        # Whether a result needs gradients is for dispatch to say, which records it next.
        results = tuple(map(self.tensor, op.results))
        return results[0] if len(results) == 1 else results

    def shares(self, tensor: Tensor, count: int) -> None:
        value = tensor._value
        for _ in range(count):
            op = value.producer() if isinstance(value, Value) else None
            if op is None:
                return
            self.copies.pop(op, None)
            value = op.operands[0]

    def _fitting(self, cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], location: Location) -> Op:
        """The op. If its operands fit only where some sizes are equal, these are from here on, in all types; what types cannot say is
        checked by each call.
        """
        attributes = {name: self.sizes.applied(value) for name, value in attributes.items()}
        left: list[Equation] | None = None
        for _ in range(MOST_EQUATIONS):
            try:
                return cls(*values, **attributes, loc=location)
            except InferError:
                if left:
                    values = fitted(cls, values, attributes, left, self._checked_slice(cls, location))
                    break
                left = self._learn(cls, values, attributes, location)
                if left is None:
                    raise
                attributes = {name: self.sizes.applied(value) for name, value in attributes.items()}
        return cls(*values, **attributes, loc=location)

    def _learn(self, cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], location: Location) -> list[Equation] | None:
        """Have sizes be what makes the op's operands fit; the equations that are left, or None if nothing makes them fit."""
        equations = needed(cls, values, attributes)
        if equations is None:
            return None
        ones = self.sizes.ones(equations)
        # What is repeated in the call that is traced for, is repeated.
        if ones and fits_with(cls, values, attributes, ones, equations) and self.sizes.repeat(ones, cls.name, location):
            equations = []
        return self._learn_equations(equations, cls.name, location)

    def learn_sizes(self, equations: Sequence[Equation]) -> bool:
        """Have sizes be equal from here on, as a function asks for it that makes one shape of several; False if they cannot be."""
        return self._learn_equations(equations, "sizes", self.location()) == []

    def require(self, size: Dim) -> None:
        """Have each call check that a size is not negative."""
        self.sizes.require(size, self.location())

    def is_told_by_values(self, size: Dim) -> bool:
        """Whether a size is known once values have selected as many elements."""
        return bool(symbols(self.sizes.applied(size)) & {*self.sizes.counts, *self.changing})

    def _learn_equations(self, equations: Sequence[Equation], op: str, location: Location) -> list[Equation] | None:
        left = self.sizes.learn(equations, op, location)
        for made in self.made:
            if (tensor := made()) is not None and isinstance(tensor._value, Value):
                tensor._type = tensor._value.type
        return left

    def _checked_slice(self, cls: type[Op], location: Location) -> CheckedSlice:
        """What takes as many elements along an axis of a value as another size says: all of them, which each call checks."""

        def take(value: Value, axis: int, size: Dim) -> Value | None:
            old = value.type.shape[axis]
            if not self.sizes.check((old, size), cls.name, location):
                return None
            stops = tuple(size if i == axis else d for i, d in enumerate(value.type.shape))
            rank = len(stops)
            return self._same(
                value, self.builder.insert(ops.Slice(value, starts=(0,) * rank, stops=stops, strides=(1,) * rank, loc=location))
            )

        def reshape(value: Value, shape: Sequence[Dim]) -> Value:
            return self._same(value, self.builder.insert(ops.Reshape(value, shape=tuple(shape), loc=location)))

        return CheckedSlice(take, reshape)

    def _same(self, value: Value, made: Value) -> Value:
        """`made`, which holds the elements of `value` and gets gradients as it does."""
        if value in self.differentiable:
            self.differentiable.add(made)
        return made

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """Let `tensor` stand for the contents of `value` from here on, until the trace ends. One from outside is given them when the
        program has run; one that has no contents yet, such as the place for a result, is one of inside.
        """
        if not isinstance(tensor._value, Value) and not tensor._is_initialized():
            new = self.value_of(value)
            tensor._value, tensor._type = new, new.type
            tensor._node, tensor._index, tensor.stop_gradient = value._node, value._index, value.stop_gradient
            return
        if not isinstance(tensor._value, Value):
            self.written.setdefault(id(tensor), tensor)
        self.follow(tensor, value)

    def count_on_rows(self, owner: Tensor) -> None:
        """The program depends on it that the elements of a tensor from outside lie row by row. Those of inputs of a program that stands
        alone do.
        """

    def follow(self, tensor: Tensor, value: Tensor) -> None:
        """The same, but nothing is given to `tensor` then."""
        if id(tensor) in self.uncertain.stale or not self.uncertain.written(tensor, self._may_go_stale):
            self._refuse_uncertain(caller_location())
        for size in self.uncertain.written_beside_copies(tensor, self._may_go_stale):
            self.require(size - 2)
        new = self.value_of(value)
        if self.bodies and id(tensor) not in self.bodies[-1].before and not self._is_here(tensor):
            self.bodies[-1].before[id(tensor)] = tensor, Contents.of(tensor)
        # Of a stand-in for an argument nobody knows whether it is a leaf.
        known = not isinstance(tensor._value, Value) or id(tensor) in self.originals
        if known and tape.is_grad_enabled() and value._node is not None and views.is_gradient_leaf(tensor):
            raise RuntimeError(dispatch.leaf_is_changed(tensor))
        if not isinstance(tensor._value, Value):
            if tensor.type != new.type:
                raise TraceError(f"expected contents of type {tensor.type} for '{tensor.name}' but got {new.type}", caller_location())
            self.originals.setdefault(id(tensor), _Original.of(tensor))
        if value._node is not None:
            tensor._node, tensor._index, tensor.stop_gradient = value._node, value._index, value.stop_gradient
        elif not tensor.stop_gradient and (old := self.value_of(tensor)) in self.differentiable:
            # As eagerly: contents that come from nowhere leave the tensor its place in the graph.
            new = self.builder.insert(ops.Overwrite(old, new, loc=self.location()))
            self.differentiable.add(new)
        tensor._value, tensor._type = new, new.type
        tensor._version += 1

    def turn(self, tensor: Tensor) -> None:
        """As `Recorder` has it. Nothing tells a tensor from outside when the program has run, and a body of the program may run any number
        of times, or not at all.
        """
        if id(tensor) in self.uncertain.stale or not self.uncertain.written(tensor, self._may_go_stale):
            self._refuse_uncertain(caller_location())
        if not isinstance(tensor._value, Value) or id(tensor) in self.originals:
            raise TraceError(
                "a tensor from outside comes to see its contents in another shape or order; make a view of it instead, by the function "
                "without '_'",
                caller_location(),
            )
        if self.bodies and (id(tensor) in self.bodies[-1].before or not self._is_here(tensor)):
            raise TraceError(
                "a tensor comes to see its contents in another shape or order if a tensor decides so; make a view of it instead, by the "
                "function without '_'",
                caller_location(),
            )

    # --- tensors that are others if a tensor decides so

    def made_by_now(self) -> int:
        """A mark between the tensors that are there by now and those to come."""
        return len(self.made)

    def not_new(self, tensors: Iterable[Tensor], mark: int) -> list[Tensor]:
        """Those of `tensors` that were there at the mark, or share contents with one that was."""
        new = {id(t) for made in self.made[mark:] if (t := made()) is not None}
        return [t for t in tensors if not all(id(other) in new for other in views.sharing(t))]

    def note_choice(self, made: Tensor, olds: Sequence[Tensor]) -> None:
        """Python would have `made`, which a branch or loop gave, as one of several tensors, `olds` among them, or as a view of one."""
        if olds:
            self.uncertain.note(made, olds)

    def note_copy(self, made: Tensor, x: Tensor, size: Dim) -> None:
        self.uncertain.note_copy(made, x, size)

    def note_given(self, made: Tensor, first: Tensor) -> None:
        """Python would have `made`, which stands for what the body of a loop is given, as `first`, or as a view of it, in some of the
        rounds.
        """
        self.uncertain.note(made, [first])

    def _may_go_stale(self, tensor: Tensor) -> bool:
        """Whether a tensor is one that an op has made, or one that cannot be read any more: no argument, nothing from outside, and nothing
        that another round reads before.
        """
        value = tensor._value
        if id(tensor) in self.inputs or id(tensor) in self.originals or not isinstance(value, Value):
            return False
        if not self.is_reachable(tensor):
            return True
        blocks = self._blocks()
        inside = blocks.index(_block_of(value))
        if not isinstance(value, OpResult) or inside == len(self.bodies):
            return isinstance(value, OpResult)
        body = self.bodies[inside]
        return all(value not in part.captures for part in (body, body.condition) if part is not None)

    def _refuse_uncertain(self, place: Location) -> None:
        error = TraceError("a tensor is written to that is another one, or shares contents with it, if a tensor decides so", place)
        if not self.doubts:
            raise error
        self.doubts[-1].append(error)

    @contextmanager
    def doubting(self) -> Iterator[list[TraceError]]:
        """Record the bodies of a loop, perhaps not for the last time: what is amiss with tensors that may be others is noted, and for who
        makes the loop to raise by `settle_doubts`.
        """
        doubts: list[TraceError] = []
        self.doubts.append(doubts)
        try:
            yield doubts
        finally:
            self.doubts.pop()

    def check_rounds(self, body: CapturedBody, given: Sequence[Tensor], ends: Sequence[Any], handed: Sequence[Any]) -> None:
        """Called at the end of the body of a loop, which was `given` some tensors and hands on `ends`; `handed` are those of them that it
        has not made itself, None in place of the rest.

        In the next round what it is given are these: a write to one of them is seen in others that share its contents then.
        """
        changed = [t._value is not arg for t, arg in zip(given, body.block.args, strict=False)]
        for new, end in zip(changed[len(given) - len(ends) :], handed, strict=True):
            if end is not None and (new or any(id(t) in body.before for t in views.sharing(end))):
                self._refuse_uncertain(caller_location())
        for i, j in sharing_pairs(ends):
            if changed[len(given) - len(ends) + i] or changed[len(given) - len(ends) + j]:
                self._refuse_uncertain(caller_location())

    @contextmanager
    def in_front(self) -> Iterator[None]:
        """Record the op of a loop, which reads what it begins with in front of what its body writes to."""
        uncertain = self.uncertain
        stale, uncertain.stale = uncertain.stale, {}
        try:
            yield
        finally:
            uncertain.stale = stale

    def settle_doubts(self, doubts: Sequence[TraceError]) -> None:
        """The loop stays as it is: raise what is amiss, unless a loop around may be recorded anew."""
        if doubts and not self.doubts:
            raise doubts[0]
        if doubts:
            self.doubts[-1].extend(doubts)

    # --- gradients of the user's own

    def stands_for(self, old: Value, new: Value) -> None:
        """Whatever stands for one value stands for another one from here on."""
        self.differentiable.add(new)
        for made in self.made:
            if (tensor := made()) is not None and tensor._value is old:
                tensor._value = new


    def custom_gradient(
        self,
        values: Sequence[Tensor],
        inputs: Sequence[Tensor],
        rule: Callable[..., Sequence[Tensor | None]],
        function: Callable[..., Any] | None,
        what: str,
        takes_zeros: bool = True,
    ) -> list[Tensor]:
        """As `Recorder` has it."""
        return rules.custom_gradient(self, values, inputs, rule, function, what, takes_zeros)

    def hook(self, tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """As `Recorder` has it."""
        return rules.hooked(self, tensor, hook)

    def retain(self, tensor: Tensor, sometimes: bool = False) -> None:
        """Gradients are no results of a traced function that is saved; of one that is captured they are kept by whoever runs it."""
        if self.gradients is not None:
            if sometimes:
                raise BackwardTraceError(
                    "which tensors get gradients depends on a branch, or on whether a loop runs, that a tensor decides", caller_location()
                )
            self.gradients.arrives(tensor)
            return
        raise BackwardTraceError(
            "backward() and retain_grads() keep gradients in tensors, which a compiled function cannot do; take them with paddle.grad(), "
            "or call these outside of it",
            caller_location(),
        )

    def each_time(self, key: Any, make: Callable[[], Tensor], name: str) -> Tensor:
        """A saved program computes the same at each run."""
        raise BackwardTraceError(
            f"{name} is another at each run, and an optimizer's step changes parameters, which a program that is saved cannot do; take it "
            "outside of the function",
            caller_location(),
        )

    def check_values(self, condition: Callable[[], Tensor], error: Exception) -> None:
        """A program that is saved raises nothing."""

    def _is_here(self, tensor: Tensor) -> bool:
        """Whether a tensor stands for a value of the body that is being recorded, and for nothing outside."""
        value = tensor._value
        return isinstance(value, Value) and _block_of(value) is self.bodies[-1].block

    # --- branches and loops

    @contextmanager
    def inside(self, body: CapturedBody) -> Iterator[CapturedBody]:
        """Record into `body`, perhaps not for the first time. Tensors from outside that are written to are given back what they were."""
        saved = self.builder, self.stopped, self.variables
        self.builder, self.stopped, self.variables = Builder.at_end(body.block), body.stopped, VariableNames(body.block, trace.__code__)
        if body.block not in self.open:
            self.open.append(body.block)
        self.bodies.append(body)
        body.begin()
        try:
            yield body
            self.variables.look()
        finally:
            body.end()
            self.bodies.pop()
            self.builder, self.stopped, self.variables = saved

    def given(self, body: CapturedBody, stop_gradients: Sequence[bool]) -> list[Tensor]:
        """Tensors that stand for what `body` is given: no leaves, where they need gradients, but results of steps outside."""
        made = [self._stand_in(arg, stop) for arg, stop in zip(body.block.args[: body.given], stop_gradients, strict=True)]
        tape.attach(_Outside(made), made, [not stop for stop in stop_gradients])
        return made

    def stand_for(self, tensor: Tensor, other: Tensor) -> None:
        """In the body that is being recorded let `tensor`, from outside, stand for what `other` does, from its beginning on."""
        self.bodies[-1].before.setdefault(id(tensor), (tensor, Contents.of(tensor)))
        if views.is_gradient_leaf(tensor):
            other._node = None  # a leaf that is written to stays one
        Contents.of(other).give(tensor)

    def end_body(self, tensors: Sequence[Tensor]) -> list[bool]:
        """End the body that is being recorded with what it gives; which of that needs no gradients."""
        recording = tape.is_grad_enabled()
        values = [self._operand(t, recording) for t in tensors]
        self.builder.insert(ops.Yield(values, loc=self.location()))
        return [not recording or t.stop_gradient or v.type.dtype.kind not in "fc" for t, v in zip(tensors, values, strict=True)]

    def give_up(self, body: CapturedBody) -> None:
        """Forget a body that no op will have."""
        if body.block in self.open:
            self.open.remove(body.block)

    def known_sizes(self) -> frozenset[str]:
        """Names of the sizes that are known where the bodies stand that are being recorded."""
        return frozenset(self.sizes.counts).union(*(type_symbols(arg.type) for arg in self.block.args))

    def changing_size(self) -> Dim:
        """A name for a size that changes from round to round of a loop; it is known once the loop has run."""
        name = str(self.fresh_size())
        self.changing.append(self.sizes.counts.pop())
        return symbol(name)

    def settle_sizes(self, sizes: Iterable[Dim]) -> None:
        """The loop with these changing sizes has run: what they are is known from here on."""
        self.sizes.counts += [str(size) for size in sizes]

    def alias(self, tensor: Tensor) -> Tensor:
        """A stand-in for what the tensor is now."""
        made = self.tensor(self.value_of(tensor))
        made.stop_gradient, made._node, made._index = tensor.stop_gradient, tensor._node, tensor._index
        return made

    def apart(self, tensor: Tensor) -> None:
        """As `Recorder` has it."""
        self.apart_from[id(tensor)] = tensor

    def _was_detached(self, tensor: Tensor) -> bool:
        """Whether it was detached from what has the same contents, and then made to need gradients: a leaf of its own."""
        return tensor._node is None and id(tensor) in self.apart_from

    def fresh_size(self) -> Dim:
        """A size that is known once the op that is recorded next has run."""
        taken = {*self.sizes.names(), *self.sizes.solved, *self.changing}
        name = next(n for n in chain(["K"], (f"K_{i}" for i in count(1))) if n not in taken)
        self.sizes.counts.append(name)
        return symbol(name)

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """Inputs have ranges; a run tells of positions that are computed."""
        value: Any = positions._value
        while isinstance(value, Value) and (op := value.producer()) is not None and keeps_elements(op):
            value = op.operands[0]
        if isinstance(size, int) and isinstance(value, Value) and value in self.block.args:
            number = self.block.args.index(value)
            if self.roles[number] == "input" and value.type.dtype.kind in "iu":
                self.ranges[Range(self.arg_names[number], -size if wraps else 0, size, str(self.location()))] = None
                return positions
        if not isinstance(value, Value) or are_positions(value, size):
            return positions
        return dispatch.call(ops.Within, positions, size=size, wraps=wraps, place=told_at(self.location(), error))

    def told_by_run(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """The positions, of which the run tells if they are none of the axis. Of fed ones, too: where a body may not run, nobody looks at
        them before.
        """
        if positions.type.dtype.kind not in "iu" or are_positions(self.value_of(positions), size):
            return positions
        made: Tensor = dispatch.call(ops.Within, positions, size=size, wraps=wraps, place=told_at(self.location(), error))
        return made

    # --- the end

    def restore(self) -> None:
        """Give tensors that were written to their contents back: the trace computed nothing. Let go of the frames that were run."""
        self.variables.frames.clear()
        for original in self.originals.values():
            original.restore()

    def finish(self, name: str, outputs: Sequence[Any], template: Template, result_names: Sequence[str], loc: Location) -> Traced:
        """The function with these outputs."""
        self.variables.look()
        recording = tape.is_grad_enabled()
        results = [self._operand(t, recording) for t in outputs]
        written = [tensor for tensor in self.written.values() if id(tensor) not in self.written_by_path]
        roles = ["state" if any(source is t for t in written) else role for source, role in zip(self.sources, self.roles, strict=True)]
        results += [self._operand(t, recording) if self._moved(t) else self._stopped(self.value_of(t)) for t in written]
        names = [*result_names, *(t.name for t in written)]
        self.builder.insert(Return(results))
        guards = self.sizes.finished_guards(bound_symbols(self.block.args))
        func = Func.empty(name, (), loc=loc, arg_roles=tuple(roles), result_names=tuple(names), guards=tuple(map(str, guards)))
        if self.ranges:
            func.attributes["ranges"] = tuple(map(str, self.ranges))
        func.attributes["arg_names"] = tuple(self.arg_names)
        func.regions[0].blocks = [self.block]
        self.block.parent = func.regions[0]
        func.finish()
        inputs = [arg.type for arg, role in zip(func.args, self.roles, strict=True) if role == "input"]
        copies = tuple(number for number, op in enumerate(self.block) if op in self.copies)
        return Traced(func, inputs, self.sources, template, len(outputs), written, self.sizes.decided, copies)


def trace(
    function: Callable[..., Any],
    call: Callable[[Iterable[Tensor]], tuple[tuple[Any, ...], dict[str, Any]]],
    inputs: Sequence[tuple[TensorType, str, bool]],
    named: Mapping[str, Tensor],
    name: str = "main",
    loc: Location | None = None,
    examples: Sequence[Sequence[int]] | None = None,
) -> Traced:
    """Run `function` on stand-ins for `inputs` (type, name, stop_gradient), which `call` turns into its arguments.

    `examples` are the inputs' shapes in a call: Python's comparisons of free sizes are answered by them, and guarded. What asks for the
    number behind a free size is an `UnknownSizeError`. `named` gives names to tensors that the function may read. Errors of the framework
    without a place get the user's line; errors of the user's own pass through.
    """
    recorder = Trace(named)
    leaves: list[Tensor] = []
    try:
        with dispatch.trace_into(recorder), deciding(recorder.sizes):
            shapes: Sequence[Sequence[int] | None] = examples if examples is not None else [None] * len(inputs)
            stand_ins = [recorder.add_input(*given, shape) for given, shape in zip(inputs, shapes, strict=True)]
            args, kwargs = call(stand_ins)
            result = function(*args, **kwargs)
            template = flatten(result, leaves, lambda v: isinstance(v, Tensor))
            if not leaves:
                raise TraceError(
                    f"expected '{name}' to return tensors but it returned {type(result).__name__} ({result!r})", loc or Location()
                )
            result_names = [f"output_{i}" if len(leaves) > 1 else "output" for i in range(len(leaves))]
            return recorder.finish(name, leaves, template, result_names, loc or Location())
    except PolyremeError as error:
        raise _located(error) from error
    except UnknownSize as error:
        raise size_error(error, recorder) from error
    finally:
        recorder.restore()


def size_error(error: UnknownSize, recorder: Trace) -> UnknownSizeError:
    """The error that says what to do about code that needed the number of a free size."""
    if any(name in recorder.sizes.counts for size in error.sizes for name in symbols(size)):
        # No spec tells how many elements values select.
        way_out = (
            "how many there are is known when the program runs: ask for it as a tensor, "
            "such as `paddle.shape(y)[0] > 1`, which a branch or loop can hang on"
        )
    else:
        way_out = "give the size a number in the InputSpec, or use functions of the whole tensor instead of Python's own control flow"
    message = f"{error}; {way_out}"
    return UnknownSizeError.about(_with_way_out(message), raised_location(error), recorder.sizes.axes_of(error.sizes))


def _located(error: PolyremeError) -> PolyremeError:
    """The same error, its first fault with the user's line where it has no place of its own."""
    first = error.diagnostics[0]
    placed = replace(first, message=_with_way_out(first.message), location=first.location or raised_location(error))
    return error if placed == first else type(error)((placed, *error.diagnostics[1:]))


def _with_way_out(message: str) -> str:
    """A message about sizes, with what makes quotients of them known: a network that halves images five times wants multiples of 32."""
    return (
        f'{message}; where sizes are quotients, say what they are multiples of, such as "32*H" in the InputSpec'
        if "floordiv(" in message
        else message
    )
