"""A program made ready to run: its operators as SSA, cut into compiled regions where the host has to act.

Names are resolved in program order, so that an in-place write simply gives the name another value. Feeds, persistable variables and eager tensors come in as
arguments; what is fetched, the persistable variables that were written, and what later regions read leave as results. Forward,
backward and update of a training step are one region, unless a host operator stands between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block as IrBlock
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import Diagnostic, PolyremeError, did_you_mean
from polyreme.ir.dims import Expr
from polyreme.ir.types import TensorType
from polyreme.static.emitter import Emitter, Source, source_tensor
from polyreme.static.inference import located
from polyreme.static.meanings import Applied, Gradient, Slots, gradient_of
from polyreme.static.operator import Operator
from polyreme.static.program import Program
from polyreme.static.variable import GRAD, Parameter, Variable
from polyreme.tensor import Tensor

__all__ = ["Plan", "RunError", "UnknownNameError", "make_plan"]

Array = np.ndarray[Any, Any]
Values = dict[Any, Array]


class RunError(PolyremeError, RuntimeError):
    """A program that cannot run as it stands: something has no value."""

    code = "E0609"


class UnknownNameError(PolyremeError, ValueError):
    """A name to fetch or feed that the program does not have."""

    code = "E0602"


@dataclass
class Region:
    """Operators that are compiled together: a function of `sources` that makes the values in `results`."""

    block: IrBlock
    number: int
    sources: dict[Any, tuple[Source, Value]] = field(default_factory=dict)  # by what the source is
    results: dict[Value, tuple[int, int]] = field(default_factory=dict)  # the keys of values that something outside reads
    executable: Any = None

    def key_of(self, value: Value) -> tuple[int, int]:
        """The key under which a value of this region is kept while the program runs."""
        return self.results.setdefault(value, (self.number, len(self.results)))

    def results_in_order(self) -> list[tuple[int, int]]:
        """The keys of its results, as its function returns them."""
        return list(self.results.values())

    def module(self, written: set[Any]) -> Module:
        """The region as a module; arguments that the program changes, whose keys are in `written`, have the role "state"."""
        names: list[str] = []
        roles: list[str] = []
        for key, (source, _) in self.sources.items():
            names.append(_unique(source.name, names))
            roles.append("input" if source.kind in ("feed", "value") else "state" if key in written else "param")
        self.block.append(Return(list(self.results)))
        result_names = tuple(_unique(v.name or f"value_{i}", []) for i, v in enumerate(self.results))
        func = Func.empty("main", (), arg_roles=tuple(roles), result_names=_distinct(result_names))
        func.attributes["arg_names"] = tuple(names)
        func.regions[0].blocks = [self.block]
        self.block.parent = func.regions[0]
        for (_, value), arg_name in zip(self.sources.values(), names, strict=True):
            value.name = arg_name
        module = Module.empty()
        module.block.append(func.finish())
        return module

    def run(self, values: Values) -> None:
        arrays = self.executable.run([values[key] for key in self.sources])
        values.update(zip(self.results.values(), arrays, strict=True))


def _unique(name: str, taken: Sequence[str]) -> str:
    """A name as the IR has them, that is not taken."""
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name) or "value"
    text = text if text[0].isalpha() or text[0] == "_" else f"x{text}"
    number, candidate = 0, text
    while candidate in taken:
        number += 1
        candidate = f"{text}_{number}"
    return candidate


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        found.append(_unique(name, found))
    return tuple(found)


@dataclass
class HostStep:
    """An operator that runs in Python, on the arrays with these keys."""

    op: Operator
    inputs: dict[str, list[Any]]
    outputs: dict[str, list[tuple[Any, Variable]]]

    def run(self, values: Values) -> None:
        made = self.op.meaning.run(self.op, {slot: [values[key] for key in keys] for slot, keys in self.inputs.items()})
        for slot, places in self.outputs.items():
            for (key, variable), array in zip(places, made[slot], strict=True):
                values[key] = _checked(self.op, variable, np.asarray(array))


def _checked(op: Operator, variable: Variable, array: Array) -> Array:
    expected = variable.type
    fits = len(expected.shape) == array.ndim and all(isinstance(d, Expr) or d == n for d, n in zip(expected.shape, array.shape, strict=True))
    if array.dtype != expected.dtype.np or not fits:
        got = f"{array.dtype}{list(array.shape)}"
        raise RunError(Diagnostic(f"expected '{op.type}' to give {variable.dtype.name}{variable.shape} for '{variable.name}' but got {got}", variable.location))
    return array


@dataclass
class Plan:
    """A program for certain feeds and fetches. Keys name values: of a feed, a persistable variable, an eager tensor, or a result of a step."""

    steps: list[Region | HostStep]
    feeds: dict[Any, str]
    persistables: dict[Any, Variable]
    tensors: dict[Any, Tensor]
    fetches: list[Any]
    updates: dict[str, Any]  # persistable variables that get another value, with its key
    tensor_updates: list[tuple[Tensor, Any]]

    @property
    def regions(self) -> list[Region]:
        return [step for step in self.steps if isinstance(step, Region)]

    def run(self, feed: Mapping[str, Array], scope: Any) -> list[Array]:
        """The fetched arrays. The scope changes only if everything ran."""
        values: Values = {key: feed[name] for key, name in self.feeds.items()}
        for key, variable in self.persistables.items():
            stored = scope.find_var(variable.name)
            if stored is None or stored.array is None:
                what = "the parameter" if isinstance(variable, Parameter) else "the persistable variable"
                raise RunError(
                    Diagnostic(
                        f"expected a value of {what} '{variable.name}' in the scope but it has none; run the startup program first "
                        "(exe.run(paddle.static.default_startup_program())), in the same scope",
                        variable.location,
                    )
                )
            values[key] = stored.array
        for key, tensor in self.tensors.items():
            values[key] = tensor._value
        for step in self.steps:
            step.run(values)
        for name, key in self.updates.items():
            (scope.find_var(name) or scope.var(name)).array = values[key]
        for tensor, key in self.tensor_updates:
            tensor._value = values[key]
            tensor._version += 1
        # What somebody else holds (the scope, the caller's feed) is given away as a copy, and what is asked for twice is given twice.
        held = {*self.feeds, *self.persistables, *self.tensors, *self.updates.values(), *(key for _, key in self.tensor_updates)}
        found = []
        for key in self.fetches:
            found.append(values[key].copy() if key in held else values[key])
            held.add(key)
        return found


def make_plan(program: Program, feeds: Mapping[str, TensorType], fetches: Sequence[str], compile: Callable[[Module, str], Any], name: str = "program") -> Plan:
    """Translate block 0 of a program. `compile` makes an executable of a module."""
    translation = _Translation(program, feeds)
    try:
        with dispatch.trace_into(translation.emitter), tape.recording(False):
            for op in program.global_block().ops:
                translation.add(op)
            plan = translation.finish(fetches)
    finally:
        translation.emitter.restore()
    written = {("scope", n) for n in plan.updates} | {("tensor", id(tensor)) for tensor, _ in plan.tensor_updates}
    for region in plan.regions:
        region.executable = compile(region.module(written), name)
    return plan


class _Translation:
    """The state of a translation: what each name stands for so far, and the region that is being filled."""

    def __init__(self, program: Program, feeds: Mapping[str, TensorType]):
        self.program = program
        self.block = program.global_block()
        self.values: dict[str, Tensor] = {name: source_tensor(Source("feed", name, kind)) for name, kind in feeds.items()}
        self.written: dict[str, None] = {}
        self.applied: dict[int, Applied] = {}
        self.steps: list[Region | HostStep] = []
        self.differentiated = {uid for op in self.block.ops if (uid := gradient_of(op)) is not None}
        self.direct: dict[Any, Source] = {}  # what comes from outside and is read by the host, or fetched, as it is
        self.region_of: dict[int, Region] = {}
        self.region = Region(IrBlock(), 0)
        self.emitter = Emitter(self._argument, self._foreign)
        self._open()

    def _open(self) -> None:
        self.region = Region(IrBlock(), len(self.steps))
        self.region_of[id(self.region.block)] = self.region
        self.steps.append(self.region)
        self.emitter.open(self.region.block)

    # --- values that come from outside

    @staticmethod
    def _key(source: Source) -> Any:
        return source.payload if source.kind == "value" else (source.kind, id(source.payload) if source.kind == "tensor" else source.payload)

    def _argument(self, source: Source) -> Value:
        key = self._key(source)
        known = self.region.sources.get(key)
        if known is None:
            known = self.region.sources[key] = source, self.region.block.add_arg(source.type, "")
        return known[1]

    def _foreign(self, value: Value) -> Source:
        """A value that another region makes."""
        region = self.region_of[id(value.op.parent)]  # type: ignore[attr-defined]
        return Source("value", region.key_of(value), value.type)

    def _source(self, tensor: Tensor) -> Source:
        """Where a tensor is found once the current region has run."""
        source = self.emitter.source_of(tensor)
        return Source("value", self.region.key_of(tensor._value), tensor.type) if source is None else source

    def read(self, name: str, op: Operator | None) -> Tensor:
        """What a name stands for at this point."""
        if name in self.values:
            return self.values[name]
        captured = self.program.captured.get(name)
        if captured is not None:
            self.values[name] = source_tensor(Source("tensor", captured, captured.type))
            return self.values[name]
        variable = self.block.var_recursive(name)
        if variable.persistable:
            self.values[name] = source_tensor(Source("scope", name, variable.type))
            return self.values[name]
        reader = f", which '{op.type}' reads," if op is not None else ""
        place = (Diagnostic(f"'{op.type}' reads it here", op.location),) if op is not None and op.location else ()
        if variable.is_data:
            message = f"expected a feed for '{name}' ({variable.dtype.name}{variable.shape}) but got none; add it to feed={{...}}"
            raise RunError(Diagnostic(message, variable.location, place), code="E0604")
        raise RunError(Diagnostic(f"expected a value of '{name}'{reader} but no operator in front of it writes one", variable.location, place), code="E0604")

    # --- operators

    def add(self, op: Operator) -> None:
        inputs = {slot: [self.read(name, op) for name in names] for slot, names in op.inputs.items()}
        if op.meaning.host:
            outputs = self._add_host(op, inputs)
        else:
            outputs = self._apply(op, inputs)
        for slot, names in op.outputs.items():
            for name, tensor in zip(names, outputs.get(slot, ()), strict=False):
                self.values[name] = Tensor._wrap(tensor._value, tensor.type)
                if not isinstance(tensor._value, (Source, np.ndarray)):
                    tensor._value.name = tensor._value.name or name
                if self.block.var_recursive(name).persistable:
                    self.written[name] = None

    def _apply(self, op: Operator, inputs: Slots) -> Slots:
        differentiated = op.uid in self.differentiated
        if differentiated:
            # Leaves of their own, so that the tape knows where this operator starts.
            inputs = {slot: [_leaf(t) for t in tensors] for slot, tensors in inputs.items()}
            if isinstance(op.meaning, Gradient):
                inputs = op.meaning.applied_to(op, inputs, self.applied)
        self.emitter.location = op.location
        try:
            with tape.recording(differentiated):
                outputs = op.meaning.apply(op, inputs, self.applied)
        except (PolyremeError, ValueError, TypeError, KeyError) as error:
            raise located(error, op) from error
        if differentiated:
            self.applied[op.uid] = Applied(inputs, outputs)
        return outputs

    def _add_host(self, op: Operator, inputs: Slots) -> Slots:
        forward = self.applied.get(gradient_of(op) or 0)
        if forward is not None:
            # What its forward operator read and wrote, even if the names mean something else by now.
            inputs = {**inputs, **{slot: forward.inputs.get(slot) or forward.outputs[slot] for slot in inputs if not slot.endswith(GRAD)}}
        keys = {slot: [self._key(self._reachable(t)) for t in tensors] for slot, tensors in inputs.items()}
        if not len(self.region.block):
            self.steps.remove(self.region)
        number = len(self.steps)
        outputs: Slots = {}
        places: dict[str, list[tuple[Any, Variable]]] = {}
        for slot, names in op.outputs.items():
            for i, name in enumerate(names):
                variable = self.block.var_recursive(name)
                key = ("host", op.uid, slot, i)
                places.setdefault(slot, []).append((key, variable))
                outputs.setdefault(slot, []).append(source_tensor(Source("value", key, variable.type)))
        self.steps.insert(number, HostStep(op, keys, places))
        self._open()
        if op.uid in self.differentiated:
            self.applied[op.uid] = Applied(inputs, outputs)
        return outputs

    def _reachable(self, tensor: Tensor) -> Source:
        """A source that is read directly, by the host or as a fetch: the plan must know it."""
        source = self._source(tensor)
        if source.kind != "value":
            self.direct[self._key(source)] = source
        return source

    # --- the end

    def finish(self, fetches: Sequence[str]) -> Plan:
        found = []
        for name in fetches:
            if name not in self.values and not self.block.has_var(name):
                raise UnknownNameError(f"expected a variable of the program to fetch but got '{name}'{did_you_mean(name, [*self.block.vars])}")
            found.append(self._key(self._reachable(self.read(name, None))))
        updates = {name: self._key(self._reachable(self.values[name])) for name in self.written if name not in self.program.captured}
        changed = [(self.program.captured[name], self._key(self._reachable(self.values[name]))) for name in self.written if name in self.program.captured]
        for tensor, final in self.emitter.restore().values():
            changed.append((tensor, self._key(self._reachable(final))))
        steps = [s for s in self.steps if isinstance(s, HostStep) or s.results]
        sources = {key: source for step in steps if isinstance(step, Region) for key, (source, _) in step.sources.items()} | self.direct
        return Plan(
            steps,
            {key: str(s.payload) for key, s in sources.items() if s.kind == "feed"},
            {key: self.block.var_recursive(s.payload) for key, s in sources.items() if s.kind == "scope"},
            {key: s.payload for key, s in sources.items() if s.kind == "tensor"},
            found,
            updates,
            changed,
        )


def _leaf(tensor: Tensor) -> Tensor:
    leaf = Tensor._wrap(tensor._value, tensor.type)
    leaf.stop_gradient = not tensor.type.dtype.is_float
    return leaf
