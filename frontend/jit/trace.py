"""Tracing: running a Python function once on stand-ins, and keeping the ops it applied as an `nn` function.

Tensors that the function reads from elsewhere (parameters, buffers, globals) become arguments too, so that the traced function has no hidden
state: what it reads comes in as an argument, what it writes (a running mean, the random generator's state) leaves as a further result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import Any

from polyreme import dispatch, tape
from polyreme.dialects import nn as ops
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Op, OpResult, Value
from polyreme.ir.diagnostics import InferError, Location, PolyremeError, caller_location, raised_location
from polyreme.ir.dims import Dim, substitute, symbol, symbols
from polyreme.ir.facts import Guard, assuming, solve, without_implied
from polyreme.ir.notes import operand_notes
from polyreme.ir.types import TensorType, type_symbols
from polyreme.jit.bodies import Body, Contents
from polyreme.jit.names import VariableNames
from polyreme.jit.structure import Template, flatten
from polyreme.jit.traced import Traced, TraceError
from polyreme.lowering.autodiff import GRADIENTS, bound_symbols
from polyreme.lowering.shapes import specialize_block, with_sizes
from polyreme.tensor import Tensor

__all__ = ["TraceError", "Traced", "trace"]


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
        # Of sizes that were found to follow from others: what they are, why, and who has seen them as they were.
        self.sizes: dict[str, Dim] = {}
        self.guards: list[Guard] = []
        self.counts: list[str] = []  # names of sizes that are known once an op has run
        self.made: list[weakref.ref[Tensor]] = []
        self.bodies: list[Body] = []  # those of branches and loops that are being recorded, from the outside in
        self.open: list[Block] = []  # the blocks of those, and of others whose op is not there yet
        self.changing: list[str] = []  # names of sizes that change from round to round of a loop

    # --- arguments

    def add_input(self, type: TensorType, name: str, stop_gradient: bool) -> Tensor:
        value = self._argument(type, name, "input", len(self.sources))
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
            tensor._type = value.type
            return self._seen_here(value, tensor)
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
        return self._seen_here(known, tensor)

    def _seen_here(self, value: Value, tensor: Tensor) -> Value:
        """A value as the body that is being recorded sees it: those from outside become arguments of it, and of the bodies around it."""
        block = value.op.parent if isinstance(value, OpResult) else value.owner
        blocks = [self.block, *(body.block for body in self.bodies)]
        if block is blocks[-1]:
            return value
        if block not in blocks:
            inside = isinstance(block, Block) and (block in self.open or block.parent is not None and isinstance(block.parent.parent, (ops.If, ops.While, ops.Scan)))
            if inside:
                raise TraceError("a tensor made in the body of a branch or loop is used outside of it, where it may not be there; return it from the body instead", caller_location())
            raise TraceError("a tensor made while another function was traced is used here; return it from that function instead", caller_location())
        for body in self.bodies[blocks.index(block) :]:
            arg = body.capture(value, tensor)
            if value in self.differentiable:
                self.differentiable.add(arg)
            value = arg
        return value

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
        if self.sizes:
            attributes = {name: with_sizes(value, self.sizes) for name, value in attributes.items()}
        try:
            if (op := self._fitting(cls, values, attributes, location)) is None:
                attributes = {name: with_sizes(value, self.sizes) for name, value in attributes.items()}
                op = cls(*values, **attributes, loc=location)
            self.builder.insert_op(op)
            for region in op.regions:
                if region.block in self.open:
                    self.open.remove(region.block)
        except InferError as error:
            notes = operand_notes(v for group in values for v in (group if isinstance(group, list) else [group]) if v is not None)
            raise InferError(replace(error.diagnostics[0], location=location, notes=tuple(notes))) from None
        if cls in GRADIENTS and any(v in self.differentiable for v in op.operands):
            self.differentiable.update(r for r in op.results if r.type.dtype.is_float)
        # Whether a result needs gradients is for dispatch to say, which records it next.
        results = tuple(map(self._tensor, op.results))
        return results[0] if len(results) == 1 else results

    def _fitting(self, cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], location: Location) -> Op | None:
        """The op; None if its operands fit from here on only, because sizes were found to follow from others: what it needs of them is a guard now."""
        try:
            return cls(*values, **attributes, loc=location)
        except InferError:
            if not self._assume(cls, values, attributes, location):
                raise
            return None

    def _assume(self, cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], location: Location) -> bool:
        """Whether some sizes, being what others say, make the op's operands fit; then they are that everywhere."""
        definition = cls.definition
        with assuming() as equations:
            try:
                flat, segments = definition.bind_operands(values)
                definition.infer(flat, segments, definition.bind_attributes(attributes))
            except InferError:
                return False
        used = dict.fromkeys([*(name for arg in self.block.args for name in sorted(type_symbols(arg.type))), *self.counts])
        solved: dict[str, Dim] = {}
        guards: list[Guard] = []
        for a, b in equations:
            found = solve(substitute(a, solved), substitute(b, solved), [*used, *self.sizes, *solved], self.sizes)
            if found is None:
                return False
            solved = {name: substitute(size, found.values) for name, size in solved.items()} | found.values
            guards = [*(g.substituted(found.values) for g in guards), *found.guards(cls.name, location)]
            used.update(dict.fromkeys(name for size in found.values.values() for name in symbols(size)))
        if not solved:
            return False
        self.sizes = {name: substitute(size, solved) for name, size in self.sizes.items()} | solved
        self.guards = without_implied([*(g.substituted(solved) for g in self.guards), *guards])
        for block in (self.block, *self.open):
            specialize_block(block, solved)
        for made in self.made:
            if (tensor := made()) is not None and isinstance(tensor._value, Value):
                tensor._type = tensor._value.type
        return True

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """Let `tensor` stand for the contents of `value` from here on, until the trace ends."""
        new = self.value_of(value)
        if self.bodies and id(tensor) not in self.bodies[-1].before and not self._is_here(tensor):
            self.bodies[-1].before[id(tensor)] = tensor, Contents.of(tensor)
        if isinstance(tensor._value, Value):
            tensor._node, tensor._index, tensor.stop_gradient = value._node, value._index, value.stop_gradient
        else:
            if tensor.type != new.type:
                raise TraceError(f"expected contents of type {tensor.type} for '{tensor.name}' but got {new.type}", caller_location())
            self.originals.setdefault(id(tensor), (tensor, tensor._value, tensor._type))
        tensor._value, tensor._type = new, new.type
        tensor._version += 1

    def _is_here(self, tensor: Tensor) -> bool:
        """Whether a tensor stands for a value of the body that is being recorded, and for nothing outside."""
        value = tensor._value
        return isinstance(value, Value) and (value.op.parent if isinstance(value, OpResult) else value.owner) is self.bodies[-1].block

    # --- branches and loops

    @contextmanager
    def inside(self, body: Body) -> Iterator[Body]:
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

    def given(self, body: Body, stop_gradients: Sequence[bool]) -> list[Tensor]:
        """Tensors that stand for what `body` is given."""
        return [self._stand_in(arg, stop) for arg, stop in zip(body.block.args[: body.given], stop_gradients, strict=True)]

    def stand_for(self, tensor: Tensor, other: Tensor) -> None:
        """In the body that is being recorded let `tensor`, from outside, stand for what `other` does, from its beginning on."""
        self.bodies[-1].before.setdefault(id(tensor), (tensor, Contents.of(tensor)))
        Contents.of(other).give(tensor)

    def end_body(self, tensors: Sequence[Tensor]) -> list[bool]:
        """End the body that is being recorded with what it gives; which of that needs no gradients."""
        recording = tape.is_grad_enabled()
        values = [self._operand(t, recording) for t in tensors]
        self.builder.insert(ops.Yield(values, loc=self.location()))
        return [not recording or t.stop_gradient or v.type.dtype.kind not in "fc" for t, v in zip(tensors, values, strict=True)]

    def give_up(self, body: Body) -> None:
        """Forget a body that no op will have."""
        if body.block in self.open:
            self.open.remove(body.block)

    def known_sizes(self) -> frozenset[str]:
        """Names of the sizes that are known where the bodies stand that are being recorded."""
        return frozenset(self.counts).union(*(type_symbols(arg.type) for arg in self.block.args))

    def changing_size(self) -> Dim:
        """A name for a size that changes from round to round of a loop; it is known once the loop has run."""
        name = str(self.fresh_size())
        self.changing.append(self.counts.pop())
        return symbol(name)

    def settle_sizes(self, sizes: Iterable[Dim]) -> None:
        """The loop with these changing sizes has run: what they are is known from here on."""
        self.counts += [str(size) for size in sizes]

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
        taken = {*self.counts, *self.changing, *self.sizes}.union(*(type_symbols(arg.type) for arg in self.block.args))
        name = next(n for n in chain(["K"], (f"K_{i}" for i in count(1))) if n not in taken)
        self.counts.append(name)
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
        func = Func.empty(name, (), loc=loc, arg_roles=tuple(roles), result_names=tuple(names), guards=tuple(map(str, self._guards())))
        func.attributes["arg_names"] = tuple(self.arg_names)
        func.regions[0].blocks = [self.block]
        self.block.parent = func.regions[0]
        func.finish()
        inputs = [arg.type for arg, role in zip(func.args, self.roles, strict=True) if role == "input"]
        return Traced(func, inputs, self.sources, template, len(outputs), written)


    def _guards(self) -> list[Guard]:
        """What a call can check before it runs; sizes that are known later are checked where they meet others."""
        told = bound_symbols(self.block.args)
        return [guard for guard in self.guards if symbols(guard.size) <= told]


def trace(
    function: Callable[..., Any],
    call: Callable[[Iterable[Tensor]], tuple[tuple[Any, ...], dict[str, Any]]],
    inputs: Sequence[tuple[TensorType, str, bool]],
    named: Mapping[str, Tensor],
    name: str = "main",
    loc: Location | None = None,
) -> Traced:
    """Run `function` on stand-ins for `inputs` (type, name, stop_gradient), which `call` turns into its arguments.

    `named` gives names to tensors that the function may read. Errors of the framework without a place get the
    user's line; errors of the user's own pass through.
    """
    recorder = Trace(named)
    leaves: list[Tensor] = []
    try:
        with dispatch.trace_into(recorder):
            stand_ins = [recorder.add_input(*given) for given in inputs]
            args, kwargs = call(stand_ins)
            result = function(*args, **kwargs)
            template = flatten(result, leaves, lambda v: isinstance(v, Tensor))
            if not leaves:
                raise TraceError(f"expected '{name}' to return tensors but it returned {type(result).__name__} ({result!r})", loc or Location())
            result_names = [f"output_{i}" if len(leaves) > 1 else "output" for i in range(len(leaves))]
            return recorder.finish(name, leaves, template, result_names, loc or Location())
    except PolyremeError as error:
        raise _located(error) from error
    except TypeError as error:
        if "is not known while the program is built" not in str(error) and "known size but got the symbolic size" not in str(error):
            raise
        message = f"{error}; give the size a number in the InputSpec, or use functions of the whole tensor instead of Python's own control flow"
        raise TraceError(_with_way_out(message), raised_location(error)) from error
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
