"""Tracing: running a Python function once on stand-ins, and keeping the ops it applied as an `nn` function.

Tensors that the function reads from elsewhere (parameters, buffers, globals) become arguments too, so that the traced function has no hidden
state: what it reads comes in as an argument, what it writes (a running mean, the random generator's state) leaves as a further result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

from polyreme import dispatch, tape
from polyreme.dialects import nn as ops
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Op, OpResult, Value
from polyreme.ir.diagnostics import InferError, Location, PolyremeError, caller_location, raised_location
from polyreme.ir.dims import Dim, UnknownSize, deciding, symbol
from polyreme.ir.notes import operand_notes
from polyreme.ir.types import TensorType
from polyreme.jit.fitting import CheckedSlice, fits_with, fitted, needed
from polyreme.jit.learned_sizes import Equation, LearnedSizes
from polyreme.jit.names import VariableNames
from polyreme.jit.structure import Template, flatten
from polyreme.jit.traced import Traced, TraceError, UnknownSizeError
from polyreme.lowering.autodiff import GRADIENTS, bound_symbols
from polyreme.tensor import Tensor

__all__ = ["TraceError", "Traced", "UnknownSizeError", "trace"]


# How often what an op needs of sizes is looked at anew, since it needs other things once it has some.
MOST_EQUATIONS = 8


class Trace:
    """A recorder: it answers dispatch with tensors that stand for the results of ops in `block`."""

    taped = True
    learns_sizes = True

    def __init__(self, named: Mapping[str, Tensor]):
        self.block = Block()
        self.builder = Builder.at_end(self.block)
        self.names = {id(tensor): name for name, tensor in named.items()}
        # A detached tensor shares the array of the one it came from, and must follow it when that changes between calls.
        self.owners = {id(tensor._value): tensor for tensor in named.values()}
        self.roles: list[str] = []
        self.arg_names: list[str] = []
        self.sources: list[int | Tensor] = []
        self.by_tensor: dict[int, Value] = {}
        self.originals: dict[int, tuple[Tensor, Any, Any]] = {}  # tensors written to, with their value and type from before
        self.differentiable: set[Value] = set()
        self.stopped: dict[Value, Value] = {}
        self.variables = VariableNames(self.block, trace.__code__)
        self.sizes = LearnedSizes(self.block)
        self.made: list[weakref.ref[Tensor]] = []  # who has seen sizes that are something else by now

    # --- arguments

    def add_input(self, type: TensorType, name: str, stop_gradient: bool, example: Sequence[int] | None = None) -> Tensor:
        """A stand-in for an input; `example` is its shape in the call that the function is traced for."""
        value = self._argument(type, name, "input", len(self.sources))
        self.sizes.add_input(self.arg_names[-1], type, example)
        return self._stand_in(value, stop_gradient)

    def _argument(self, type: TensorType, name: str, role: str, source: int | Tensor) -> Value:
        taken = set(self.arg_names)
        unique = next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(taken) + 2))) if n not in taken)
        self.roles.append(role)
        self.arg_names.append(unique)
        self.sources.append(source)
        return self.block.add_arg(type, unique)

    def _stand_in(self, value: Value, stop_gradient: bool) -> Tensor:
        tensor = self._tensor(value)
        tensor.stop_gradient = stop_gradient
        if not stop_gradient:
            self.differentiable.add(value)
        return tensor

    def _tensor(self, value: Value) -> Tensor:
        tensor = Tensor._wrap(value, value.type)
        self.made.append(weakref.ref(tensor))
        return tensor

    # --- values

    def value_of(self, tensor: Any) -> Value:
        """The value that a tensor stands for here; eager ones become arguments."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected tensors but got {type(tensor).__name__} ({tensor!r})")
        value = tensor._value
        if isinstance(value, Value):
            block = value.op.parent if isinstance(value, OpResult) else value.owner
            if block is not self.block:
                raise TraceError("a tensor made while another function was traced is used here; return it from that function instead", caller_location())
            tensor._type = value.type
            return value
        if value is None:
            raise TraceError("expected a tensor with contents but got one that is not initialized", caller_location())
        owner = self.owners.setdefault(id(value), tensor)
        if isinstance(owner._value, Value):
            return self.value_of(owner)
        known = self.by_tensor.get(id(owner))
        if known is None:
            name = self.names.get(id(owner), owner.name)
            known = self.by_tensor[id(owner)] = self._argument(owner.type, name, "param", owner)
            if not owner.stop_gradient:
                self.differentiable.add(known)
        return known

    def location(self) -> Location:
        """The place of the op that is being recorded: the user's line."""
        return caller_location()

    def follow_variables(self) -> None:
        """Called in front of each op: values get the names of the user's variables."""
        self.variables.step()

    def _operand(self, tensor: Any, recording: bool) -> Value:
        value = self.value_of(tensor)
        if value not in self.differentiable or (recording and not tensor.stop_gradient):
            return value
        # The user detached it or switched gradients off: the program has to say so too.
        if value not in self.stopped:
            self.stopped[value] = self.builder.insert(ops.StopGradient(value, loc=self.location()))
        return self.stopped[value]

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
        except InferError as error:
            notes = operand_notes(v for group in values for v in (group if isinstance(group, list) else [group]) if v is not None)
            raise InferError(replace(error.diagnostics[0], location=location, notes=tuple(notes))) from None
        if cls in GRADIENTS and any(v in self.differentiable for v in op.operands):
            self.differentiable.update(r for r in op.results if r.type.dtype.is_float)
        # Whether a result needs gradients is for dispatch to say, which records it next.
        results = tuple(map(self._tensor, op.results))
        return results[0] if len(results) == 1 else results

    def _fitting(self, cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], location: Location) -> Op:
        """The op. If its operands fit only where some sizes are equal, these are from here on, in all types; what types cannot say is checked by each call."""
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
            return self._same(value, self.builder.insert(ops.Slice(value, starts=(0,) * rank, stops=stops, strides=(1,) * rank, loc=location)))

        def reshape(value: Value, shape: Sequence[Dim]) -> Value:
            return self._same(value, self.builder.insert(ops.Reshape(value, shape=tuple(shape), loc=location)))

        return CheckedSlice(take, reshape)

    def _same(self, value: Value, made: Value) -> Value:
        """`made`, which holds the elements of `value` and gets gradients as it does."""
        if value in self.differentiable:
            self.differentiable.add(made)
        return made

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """Let `tensor` stand for the contents of `value` from here on, until the trace ends."""
        new = self.value_of(value)
        if isinstance(tensor._value, Value):
            tensor._node, tensor._index, tensor.stop_gradient = value._node, value._index, value.stop_gradient
        else:
            if tensor.type != new.type:
                raise TraceError(f"expected contents of type {tensor.type} for '{tensor.name}' but got {new.type}", caller_location())
            self.originals.setdefault(id(tensor), (tensor, tensor._value, tensor._type))
        tensor._value, tensor._type = new, new.type
        tensor._version += 1

    def create_parameter(self, name: str, shape: tuple[int, ...], dtype: Any, initializer: Any) -> None:
        """Parameters made while tracing are eager ones."""

    def operator(self, *_: Any) -> None:
        """A trace has ops only."""

    def share(self, tensor: Tensor) -> None:
        """Whoever shares the array of an eager tensor follows it when that changes between calls."""
        if tensor._value is not None and not isinstance(tensor._value, Value):
            self.owners.setdefault(id(tensor._value), tensor)

    def fresh_size(self) -> Dim:
        """A size that is known once the op that is recorded next has run."""
        taken = {*self.sizes.names(), *self.sizes.solved}
        name = next(n for n in chain(["K"], (f"K_{i}" for i in count(1))) if n not in taken)
        self.sizes.counts.append(name)
        return symbol(name)

    # --- the end

    def restore(self) -> None:
        """Give tensors that were written to their contents back: the trace computed nothing. Let go of the frames that were run."""
        self.variables.frames.clear()
        for tensor, value, type in self.originals.values():
            tensor._value, tensor._type = value, type

    def finish(self, name: str, outputs: Sequence[Any], template: Template, result_names: Sequence[str], loc: Location) -> Traced:
        """The function with these outputs."""
        self.variables.look()
        recording = tape.is_grad_enabled()
        results = [self._operand(t, recording) for t in outputs]
        written = [tensor for tensor, _, _ in self.originals.values()]
        roles = ["state" if any(source is t for t in written) else role for source, role in zip(self.sources, self.roles, strict=True)]
        results += [self.value_of(t) for t in written]
        names = [*result_names, *(t.name for t in written)]
        self.builder.insert(Return(results))
        guards = self.sizes.finished_guards(bound_symbols(self.block.args))
        func = Func.empty(name, (), loc=loc, arg_roles=tuple(roles), result_names=tuple(names), guards=tuple(map(str, guards)))
        func.attributes["arg_names"] = tuple(self.arg_names)
        func.regions[0].blocks = [self.block]
        self.block.parent = func.regions[0]
        func.finish()
        inputs = [arg.type for arg, role in zip(func.args, self.roles, strict=True) if role == "input"]
        return Traced(func, inputs, self.sources, template, len(outputs), written, self.sizes.decided)


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

    `examples` are the inputs' shapes in a call: Python's comparisons of free sizes are answered by them, and guarded. What asks for the number behind
    a free size is an `UnknownSizeError`. `named` gives names to tensors that the function may read. Errors of the framework without a place get the
    user's line; errors of the user's own pass through.
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
                raise TraceError(f"expected '{name}' to return tensors but it returned {type(result).__name__} ({result!r})", loc or Location())
            result_names = [f"output_{i}" if len(leaves) > 1 else "output" for i in range(len(leaves))]
            return recorder.finish(name, leaves, template, result_names, loc or Location())
    except PolyremeError as error:
        raise _located(error) from error
    except UnknownSize as error:
        message = f"{error}; give the size a number in the InputSpec, or use functions of the whole tensor instead of Python's own control flow"
        raise UnknownSizeError.about(_with_way_out(message), raised_location(error), recorder.sizes.axes_of(error.sizes)) from error
    finally:
        recorder.restore()


def _located(error: PolyremeError) -> PolyremeError:
    """The same error, its first fault with the user's line where it has no place of its own."""
    first = error.diagnostics[0]
    placed = replace(first, message=_with_way_out(first.message), location=first.location or raised_location(error))
    return error if placed == first else type(error)((placed, *error.diagnostics[1:]))


def _with_way_out(message: str) -> str:
    """A message about sizes, with what makes quotients of them known: a network that halves images five times wants multiples of 32."""
    return f'{message}; where sizes are quotients, say what they are multiples of, such as "32*H" in the InputSpec' if "floordiv(" in message else message
