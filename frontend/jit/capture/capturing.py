"""Capturing a call: the function runs once on stand-ins, watched, and what comes of it is a program with guards and effects, or a reason
why it is none.

A capture leaves nothing behind. What the function wrote meanwhile is taken back, tensors that were written have their contents again, and
no stand-in is left in an object that lives on; then the program does at this call what it will do at each.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import threading
import types
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, NoReturn

import numpy as np

from polyreme import dispatch, tape, tensor, views
from polyreme.dialects import host
from polyreme.dialects import nn as ops
from polyreme.dtypes import default_dtype, set_default_dtype
from polyreme.function_steps import FunctionNode
from polyreme.grad_mode import set_grad_enabled
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import Location, PolyremeError, caller_location, raised_location
from polyreme.ir.dims import Dim, Expr, UnknownSize, deciding
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, i1, i64
from polyreme.jit.capture.calls import Watch
from polyreme.jit.capture.changing import as_tensor
from polyreme.jit.capture.effects import (
    CHECKS,
    Build,
    Call,
    Effect,
    Existing,
    KnownValue,
    Link,
    Output,
    Sized,
    ValueRecipe,
    condition,
    snapshot,
)
from polyreme.jit.capture.kinds import LISTS, flat, has_free_size, is_enumeration
from polyreme.jit.capture.leaf_gradients import LeafGradients, is_freed
from polyreme.jit.capture.sources import Argument, Attribute, Computed, Fixed, Guard, Guards, Item, Renamed, Source
from polyreme.jit.capture.trace import Trace, Traced, TraceError, size_error, trace
from polyreme.jit.capture.watched import Changing, ChangingNumber, NotWhole, NumbersChange, Watched, is_counted
from polyreme.jit.notes import remark
from polyreme.jit.program import TracedProgram
from polyreme.jit.sized_programs import Shapes, fits, shapes_of, sizes_of
from polyreme.jit.structure import LEAF, ArrayLeaf, Nested, Number, Plain, Template
from polyreme.lowering.gradients.reach import undecided
from polyreme.nn.layer import Layer
from polyreme.recorder import told_at
from polyreme.tensor import Tensor

__all__ = ["CheckFailed", "Whole", "capture", "trace_watched"]

MOST_SHAPES = 1024
ONE = threading.RLock()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), slice, range, type)


class _CaptureTrace(Trace):
    """A trace that knows where tensors outside come from: those that may be others at the next call are inputs, found by their path."""

    def __init__(self, state: Watched, named: dict[str, Tensor], moving: Container[str]):
        super().__init__(named)
        self.state = state
        self.moving = moving
        self.paths: list[Source] = []
        self.arguments = 0  # how many inputs are arguments
        self.thread = threading.get_ident()
        self.looked_at: set[tuple[Value, Dim, bool]] = set()  # positions that are checked, with the size of the axis
        # what lets arguments see their contents otherwise, by identity
        self.turns: dict[int, list[tuple[Callable[..., Tensor], tuple[Any, ...], dict[str, Any]]]] = {}
        self.before_turns: list[Tensor] = []  # what stands for them as they were before
        self.gradients = self.leaf_gradients = LeafGradients(state, self)
        self.reads_rows: Location | None = None  # where a table is read with sparse=True, and needs gradients
        self.may_step = True  # whether all that is read so may have its gradients in here
        self.each: dict[Any, Tensor] = {}  # what is computed by Python before each run

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """The least and the greatest position are results, which are looked at after the run."""
        value, key = positions._value, (positions._value, size, wraps)
        if not isinstance(value, Value) or positions.type.elements == 0 or _is_position(value) or key in self.looked_at:
            return positions
        if self.state.born:
            # What a body computes is no result of the function: the program tells of it by itself, with an error of its own.
            if not self.state.as_one_program:
                raise NotWhole("positions are read or written that a tensor says inside of a branch, a loop or a rule of gradients")
            return dispatch.call(ops.Within, positions, size=size, wraps=wraps, place=told_at(self.location(), error))
        self.looked_at.add(key)
        with tape.recording(False):
            ends = [dispatch.call(cls, positions, axis=tuple(range(positions.ndim)), keepdims=False) for cls in (ops.Min, ops.Max)]
            bound = [dispatch.call(ops.DimValue, size=size, dtype=i64)] if isinstance(size, Expr) else []
        self.state.effect("within", None, (error, size, wraps), *ends, *bound)
        return positions

    def outside(self, owner: Tensor, name: str) -> Value:
        """The argument for a tensor from outside."""
        state = self.state
        source = state.sources.get(id(owner))
        if source is None and (known := state.owners.get(id(owner._value))) is not None:
            # A tensor that was made with the contents of one outside, which nobody told of.
            if id(owner._value) in state.shared:
                raise NotWhole("two tensors outside share their contents")
            if id(known) not in self.by_tensor:
                self.by_tensor[id(known)] = self.outside(known, name)
            return self.by_tensor[id(known)]
        part = owner.persistable or isinstance(source, Attribute) and source.table != ""
        if source is None or part and source.said() not in self.moving:
            if source is not None:
                state.guard(
                    source, "{0} is {1}", owner, message=f"is the tensor '{owner.name}'", counted=getattr(source, "of_layer", False)
                )
            return super().outside(owner, name)
        number = self.arguments + len(self.paths)
        self.paths.append(source)
        self.path_tensors.append(owner)
        kind = type(owner)
        test = "{0}.__class__ is {1} and {0}.stop_gradient is {2} and {0}.type == {3}"
        state.guard(
            source,
            test,
            kind,
            owner.stop_gradient,
            owner.type,
            message=f"is a tensor of type {owner.type}{'' if owner.stop_gradient else ' that needs gradients'}",
        )
        if owner._view.__class__ is tuple and not views.is_contiguous(owner):
            state.guard(source, "not {1}({0})", _lies_by_rows, message="does not lie row by row")
        return self._argument(owner.type, name, "input", number)

    def note_choice(self, made: Tensor, olds: Sequence[Tensor]) -> None:
        if olds and not tape.is_grad_enabled() and not all(old.stop_gradient for old in olds):
            raise NotWhole("a tensor decides under no_grad whether a tensor that needs gradients is another one")
        super().note_choice(made, olds)


    def turned(
        self, tensor: Tensor, made: Tensor, before: Tensor, make: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """An argument is seen otherwise when the program has run, too. It lies row by row, so that this is a view there if it is one here.
        """
        source = self.state.sources.get(id(tensor))
        if source is None:
            return
        if made._view is None:
            raise NotWhole(f"'{source.said()}' comes to see a copy of its contents")
        if any(isinstance(value, Tensor) for value in flat([args, list(kwargs.values())])):
            raise NotWhole(f"a tensor says in which shape or order '{source.said()}' comes to see its contents")
        self.count_on_rows(tensor)
        self.turns.setdefault(id(tensor), []).append((make, args, kwargs))
        self.before_turns.append(before)

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """One from outside is an argument, even where nobody reads it: it is found again, or guarded, as any other."""
        if not isinstance(tensor._value, Value) and tensor._is_initialized():
            self.value_of(tensor)
        if views.counts_on_rows(tensor, self.sizes.applied):
            self.count_on_rows(tensor)
        super().assign(tensor, value)

    def count_on_rows(self, owner: Tensor) -> None:
        """The program is for calls in which a tensor that was there before lies row by row, as what stands for it does: only there is it
        seen in another shape without a copy.
        """
        source = self.state.sources.get(id(owner))
        if source is not None and ("rows", id(owner)) not in self.state.read:
            self.state.read["rows", id(owner)] = owner
            self.state.guard(source, "{1}({0})", _lies_by_rows, message="lies row by row")

    def each_time(self, key: Any, make: Callable[[], Tensor], name: str) -> Tensor:
        """An argument, which `make` gives at each call, or a number, where the function has set it itself. The key begins with the id of
        whom it belongs to, and ends with the factor that is in it.
        """
        rate = self.gradients.set_rates.get(key[0]) if self.gradients is not None else None
        if type(rate) is ChangingNumber:
            dtype = make().type.dtype
            return as_tensor(self.state, self.state.computed(operator.mul, rate, key[2]), dtype)
        if rate is not None:
            said = make()
            return dispatch.full((), said._array("a rate").item(), said.type.dtype)
        if key not in self.each:
            self.each[key] = made = make()
            self.state.note(made, Computed(make, name))
        return self.each[key]

    def expect(self, condition: Tensor) -> bool:
        """The program is for calls in which the condition holds: another one is run by Python, and nothing is written before."""
        self.state.effect("check", None, (None, self.location()), condition)
        return True

    def check_values(self, condition: Callable[[], Tensor], error: Exception) -> None:
        """As `expect`: where it does not hold Python runs the call, and raises the error."""
        if self.state.born:
            raise NotWhole("the values of tensors are checked in a branch, a loop or a rule of gradients")
        self.state.effect("check", None, (str(error), self.location()), condition())

    def keep_rows(self) -> Callable[[], NoReturn] | None:
        """As `Recorder` has it. Gradients that come after the call, or out of bodies, are whole: `check_rows` tells whether they may be."""
        self.reads_rows = self.location()
        if self.state.born:
            self.may_step = False
            return None

        def looked_at() -> NoReturn:
            raise NotWhole("which rows of a table have a gradient is asked, which is known when the program has run")

        return looked_at

    def check_rows(self, results: Iterable[Tensor], trains: bool) -> str:
        """At the end of the call: gradients of tables that it reads with `sparse=True` are those of eager mode. Of a function that leaves
        its gradients to others they are whole in one program, as in Paddle, which is a remark; else "".
        """
        if self.reads_rows is None or (self.may_step if trains else all(t.stop_gradient for t in results)):
            return ""
        reason = "is read in a branch, a loop or a rule of gradients, in a step of training" if trains else "has gradients after the call"
        if trains or not self.state.as_one_program:
            raise NotWhole(f"a table that is read with sparse=True {reason}", self.reads_rows)
        return f"a table that is read with sparse=True {reason}: they are whole, and an optimizer moves all rows by them"

    def is_outside(self, held: Tensor) -> bool:
        """Whether a tensor may have other values at the next call. Other threads' reads are nothing of this capture's."""
        return id(held) in self.state.outside_tensors and threading.get_ident() == self.thread

    def read(self, held: Tensor, what: str) -> None:
        """Python looks at the values of a tensor: if that is outside the call cannot be one program."""
        if self.is_outside(held):
            raise NotWhole(f"{what} of a tensor from outside")


class _WithoutGraph(FunctionNode):
    """What a step of training returns beside its loss: how that was computed is not kept."""

    __slots__ = ()

    def backward(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise RuntimeError(
            f"expected no gradients of what '{self.name}' returns beside its loss but they are asked for: a step of training that is one "
            "program (full_graph=True) keeps nothing for them; detach() the result in it, or call backward() of it there, or leave out "
            "full_graph=True"
        )


class CheckFailed(Exception):
    """What a call checks does not hold, and nothing has been changed yet: Python's own run of it does what stands before, and says what is
    amiss.
    """


@dataclass
class Whole:
    """A call as one program: it is run when its guards hold."""

    program: TracedProgram | None  # None where it computes nothing with tensors
    guards: Guards
    result: ValueRecipe
    effects: list[Effect]
    links: list[Link]  # results that are views
    existing: int  # how many of what the guards give back are objects that recipes need; the rest are inputs
    lone: bool = False  # whether the result is the program's only one, and there is nothing else to do
    shapes: Shapes = ()  # of the inputs of the call that it was made for: a program says itself which ones it takes
    remarks: tuple[str, ...] = ()  # in what it differs from Python, as who asks for one program is told
    enables: bool = False  # whether it is for calls under `no_grad`, and lets gradients through all the same, as by `enable_grad` inside
    # Of a step of training, which of the program's results gradients were sent back from: that cannot be done again. None of another one.
    freed: tuple[type[FunctionNode] | None, ...] | None = None
    proceeds: int | None = None  # which of the results tells whether a step of training is taken
    checks_first: bool = False  # whether it looks at results, and changes something besides: what Python does before an error is done then
    order: int = field(default_factory=itertools.count().__next__)  # which was made before which
    _fitting: dict[Shapes, bool] = field(default_factory=dict)

    def fits(self, shapes: Shapes) -> bool:
        """Whether the program is for inputs of these shapes."""
        if self.program is None:
            return shapes == self.shapes
        known = self._fitting.get(shapes)
        if known is None:
            if len(self._fitting) >= MOST_SHAPES:
                self._fitting.clear()
            known = self._fitting[shapes] = fits(self.program.traced, shapes)
        return known

    def check(self, given: Any) -> tuple[Any, ...] | None:
        """What `__call__` needs besides the inputs, if the program is right for a call with these arguments; None if it is not."""
        found: tuple[Any, ...] | None = self.guards.check(given)
        return found if found is not None and (self.program is None or self.program.holds()) else None

    def __call__(self, found: tuple[Any, ...], inputs: Sequence[Tensor]) -> Any:
        """The function's result. `found` is what the check of the guards gave."""
        given = [*inputs, *found[self.existing :]] if len(found) > self.existing else inputs
        results: list[Tensor]
        if self.freed is not None and self.program is not None:
            results = self._step(given)
        elif self.program is not None:
            with tape.recording(self.enables or tape.is_grad_enabled()):
                results = self.program(given, before_writing=self._check if self.checks_first else None)
        else:
            results = []
        if self.lone:
            return results[0]
        call = Call(
            results, found[: self.existing], lambda: {} if self.program is None else sizes_of(self.program.traced, shapes_of(inputs))
        )
        result = self.result.make(call)
        checked = self.freed is not None or self.checks_first
        # Values first: what an effect replaces may be part of another's.
        for effect in self.effects:
            for value in effect.values:
                value.make(call)
        for effect in self.effects:
            if not checked or effect.kind not in CHECKS:
                effect.apply(call)
        for link in self.links:
            link.apply(call)
        return result

    def _check(self, results: list[Tensor]) -> None:
        """`CheckFailed` if something that is looked at does not hold."""
        call = Call(results, ())
        for effect in self.effects:
            if effect.kind in CHECKS:
                try:
                    effect.apply(call)
                except Exception as error:
                    raise CheckFailed from error

    def _step(self, given: Sequence[Tensor]) -> list[Tensor]:
        """The results of a step of training. Nothing is changed before all checks have passed."""
        assert self.program is not None and self.freed is not None and self.proceeds is not None
        with tape.recording(False):
            computed = self.program.computed(given)
            results = computed[: len(self.freed)]
            if not results[self.proceeds]:
                raise CheckFailed
            self.program.write(computed)
        for result, freed in zip(results, self.freed, strict=True):
            if freed is not None:
                node = freed((), 1, list, self.program.name)
                node.free()
                tape.attach(node, [result])
        return results


def capture(
    function: Callable[..., Any],
    template: Template,
    inputs: Sequence[tuple[TensorType, str, bool]],
    leaves: Sequence[Tensor],
    names: Sequence[str],
    layer: Layer | None,
    named: dict[str, Tensor],
    name: str,
    location: Location,
    moving: Container[str] = (),
    flow: bool = False,
    as_one_program: bool = False,
    with_numbers: bool = False,
    arrays: Sequence[Any] = (),
) -> Whole:
    """The program of one call; `NotWhole` if it is none, `NumbersChange` if one `with_numbers` is to be made for others that are `moving`.

    `template` says how the tensors `leaves`, which stand-ins of the types in `inputs` replace, are nested in the arguments, which have
    these `names`; those that were made of `arrays` stand for these where they meet tensors. Parameters and buffers belong to the program,
    but for those called as in `moving`: other tensors were met in their places. With `flow` what tensors decide becomes branches and loops,
    of which numbers come as tensors: these leave the function only `as_one_program`, with a remark. Numbers in places that are called as in
    `moving` are read at each call, `with_numbers`; else they are guards.
    """
    state = Watched(flow, as_one_program, moving=moving, with_numbers=with_numbers)
    trace = _CaptureTrace(state, named, moving)
    watch = Watch(state, {}, {})
    if layer is not None:
        state.sources[id(layer)] = Fixed(layer, "self")
        state.held.append(layer)
    owner = getattr(function, "__self__", None)
    for part in (function, owner) if not isinstance(function, types.FunctionType) else ():
        if part is not None and id(part) not in state.sources:
            state.sources[id(part)] = Fixed(part, getattr(part, "__name__", type(part).__name__))
            state.held.append(part)
    ended = False
    traced: Traced | None = None
    modes = tape.is_grad_enabled(), default_dtype()
    try:
        # One capture at a time: while it runs it is told of all reads of values, those of other threads' functions are their own captures'
        # to know.
        with ONE, dispatch.trace_into(trace), tensor.captured_by(trace), deciding(trace.sizes):
            shapes = shapes_of(leaves)
            stand_ins = [trace.add_input(*given, shape) for given, shape in zip(inputs, shapes, strict=True)]
            trace.arguments = len(stand_ins)
            before = [t._value for t in stand_ins]
            trace.leaf_gradients.given = {id(t): leaf for t, leaf in zip(stand_ins, leaves, strict=True)}
            args, kwargs = _arguments(template, iter(stand_ins), state, names, iter(arrays))
            result = watch.call(function, *args, **kwargs)
            ended = True
            if (tape.is_grad_enabled(), default_dtype()) != modes:
                raise NotWhole("whether gradients are recorded, or the default dtype, is another when the function has ended")
            if with_numbers and (counted := _counted(state)):
                raise NumbersChange(counted)
            made = _Recipes(state, trace, stand_ins)
            recipe = made.recipe(result)
            effects = [made.effect(*effect) for effect in state.effects]
            effects += _gradient_effects(trace.leaf_gradients, made)
            trains = trace.leaf_gradients.trains
            changed: list[int] = []
            for i, (stand_in, leaf, value) in enumerate(zip(stand_ins, leaves, before, strict=True)):
                if stand_in._value is not value:
                    if not leaf.stop_gradient and tape.is_grad_enabled():
                        raise NotWhole("an argument that needs gradients is changed in place", location)
                    effects += _changes(trace, made, stand_in, leaf)
                    changed.append(i)
            written = list(trace.written.values())
            for outside in written:
                number = next((i for i, t in enumerate(trace.path_tensors) if t is outside), None)
                if number is not None:
                    if not outside.stop_gradient and tape.is_grad_enabled() and (not trains or trace._moved(outside)):
                        raise NotWhole("a tensor outside that needs gradients is changed in place", location)
                elif trains and trace._moved(outside):
                    raise NotWhole("a tensor outside becomes part of a graph beside a step of training", location)
                if number is not None:
                    effects.append(Effect("assign", made.existing(outside), None, (made.output(snapshot(outside)),)))
                    changed.append(trace.arguments + number)
            leaf_guards = trace.leaf_gradients.guards()
            for optimizer in state.optimizers:
                check = Computed(functools.partial(_is_as_it_was, optimizer, optimizer.signature()), f"the {type(optimizer).__name__}")
                leaf_guards.append(Guard(check, "{0}", (), "is what it was, but for its rate and the contents of its state"))
            proceeds = made.output(_all_hold(state)).number if trains else None
            made.remarks += filter(None, [trace.check_rows([*made.outputs, *written], trains)])
            made.link_views()
            _guard_apart(state, trace, stand_ins, leaves)
            _guard_containers(state)
            _guard_what_is_written(state)
            for outside in trace.path_tensors:
                trace.written_by_path.add(id(outside))
            if not made.outputs and (sized := next((t for t in stand_ins if not t.type.is_static), None)) is not None:
                made.output(snapshot(sized))  # which sizes it is for is the program's to say
            if not made.outputs and not trace.written:
                state.guards += leaf_guards
                return _without_tensors(state, trace, made, recipe, effects, shapes)
            if trace.leaf_gradients.made and (not trains or any(id(held) in trace.leaf_gradients.made for held in made.outputs)):
                raise NotWhole("a tensor that was made inside the function is to get gradients", location)
            freed = _freed(made.outputs, location, as_one_program) if trains else None
            if freed is not None and _WithoutGraph in freed:
                made.remarks.append("a result beside a step of training keeps nothing for gradients of it: to ask for them is an error")
            if freed is None:
                _refuse_gradients_that_are_undecided(trace, location)
            others = state.sources.keys() | made.numbers.keys()
            if any(trace.uncertain.is_seen(seen, others) for t in made.outputs for seen in views.sharing(t)):
                if not as_one_program:
                    raise NotWhole("a result is another tensor, or shares contents with it, if a tensor decides so", location)
                made.remarks.append(
                    "a result is a tensor of its own, where Python would give another one, or a view of it, by one of the ways that a "
                    "tensor decides about"
                )
            result_names = [f"output_{i}" if len(made.outputs) > 1 else "output" for i in range(len(made.outputs))]
            enables = not tape.is_grad_enabled() and any(not t.stop_gradient for t in made.outputs)
            with tape.recording(freed is None and (enables or tape.is_grad_enabled())):
                traced = trace.finish(name, made.outputs, LEAF, result_names, location)
    except NotWhole as refused:
        if ended and not refused.placed:
            refused.location = location  # of what it leaves behind no line of its own is to blame
        refused.by_numbers = state.changing
        raise
    except NumbersChange:
        raise
    except PolyremeError as error:
        raise _refused(state, error.diagnostics[0].message, error.diagnostics[0].location or raised_location(error)) from error
    except UnknownSize as error:
        placed = size_error(error, trace)
        raise _refused(state, placed.diagnostics[0].message, placed.diagnostics[0].location) from placed
    except Exception as error:
        raise _refused(state, f"{type(error).__name__}: {error}", raised_location(error)) from error
    finally:
        if (tape.is_grad_enabled(), default_dtype()) != modes:
            set_grad_enabled(modes[0])
            set_default_dtype(modes[1])
        state.undo(traced is None)
        trace.restore()
        trace.leaf_gradients.restore()
    guards = Guards(_distinct([*state.guards, *leaf_guards]), [*made.sources, *trace.paths])
    traced.proceeds = proceeds
    first = isinstance(recipe, Output) and recipe.number == 0
    lone = first and not effects and not made.links and len(made.outputs) == 1 + trains
    program = TracedProgram(traced, name)
    program.changed_inputs = frozenset(changed)
    checks = [effect.kind in CHECKS for effect in effects]
    return Whole(
        program, guards, recipe, effects, made.links, len(made.sources), lone, remarks=tuple(dict.fromkeys(made.remarks)),
        enables=enables and freed is None, freed=freed, proceeds=proceeds,
        checks_first=any(checks) and (not all(checks) or bool(written)),
    )  # fmt: skip


def _refused(state: Watched, reason: str, location: Location | None) -> NotWhole:
    refused = NotWhole(reason, location)
    refused.by_numbers = state.changing
    return refused


def _counted(state: Watched) -> frozenset[str]:
    """Numbers that the function reads as constants, and gives other values: those are others at the next call."""
    names = set()
    for kind, target, name, values in state.effects:
        if kind == "set_attribute":
            before = state.read.get(("attribute", id(target), name))
            source: Source = Attribute(state.sources[id(target)], name)
        elif kind == "set_item" and type(target) in (list, dict) and id(target) in state.expanded and type(name) in (int, str):
            contents = state.journal.original(target)
            before = contents.get(name) if isinstance(contents, dict) else contents[name] if name < len(contents) else None
            source = Item(state.sources[id(target)], name)
        else:
            continue
        if type(before) in (int, float) and type(values[0]) in (int, float) and values[0] != before:
            names.add(source.said())
    return frozenset(name for name in names if name not in state.moving)


def _without_tensors(
    state: Watched, trace: _CaptureTrace, made: _Recipes, recipe: ValueRecipe, effects: list[Effect], shapes: Shapes
) -> Whole:
    """A call that computes nothing with tensors."""
    return Whole(
        None, Guards(_distinct(state.guards), [*made.sources, *trace.paths]), recipe, effects, made.links, len(made.sources), shapes=shapes
    )


def _is_as_it_was(optimizer: Any, signature: tuple[Any, ...]) -> bool:
    return bool(optimizer.signature() == signature)


def _all_hold(state: Watched) -> Tensor:
    """Whether all that a step of training checks holds: it is taken then."""
    with tape.recording(False):
        holds = dispatch.full((), True, i1)
        for kind, _, said, values in state.effects:
            if kind in CHECKS:
                holds = dispatch.call(ops.LogicalAnd, holds, condition(kind, said, values))
    return holds


def _gradient_effects(gradients: LeafGradients, made: _Recipes) -> list[Effect]:
    """What is done to the gradients of leaves, as one effect."""
    said: list[tuple[str, bool, TensorType]] = []
    parts: list[ValueRecipe] = []
    for leaf, what, final in gradients.changes():
        said.append((what, final is None or final.stop_gradient, leaf.tensor.type))
        parts.append(KnownValue(leaf.real) if leaf.source is None else made.existing(leaf.tensor))
        if what in ("set", "put"):
            parts.append(made.recipe(final))
    return [Effect("gradients", KnownValue(None), tuple(said), tuple(parts))] if said else []


def _freed(outputs: Sequence[Tensor], location: Location, as_one_program: bool) -> tuple[type[FunctionNode] | None, ...]:
    """What stands behind each result of a step of training that has a graph. The step leaves none behind: gradients were sent back from
    some, and of the others there are none, which is an error once they are asked for.
    """
    freed = tuple(FunctionNode if is_freed(t) else _WithoutGraph if t._node is not None else None for t in outputs)
    if _WithoutGraph in freed and not as_one_program:
        raise NotWhole("a result beside a step of training may be asked for gradients later; detach() it", location)
    return freed


def _changes(trace: _CaptureTrace, made: _Recipes, stand_in: Tensor, leaf: Tensor) -> list[Effect]:
    """What is done to an argument that is changed in place: it comes to see its contents otherwise, or is written to, or both."""
    target, turns = made.existing(stand_in), trace.turns.get(id(stand_in), ())
    if turns and not _lies_by_rows(leaf):
        raise NotWhole("an argument comes to see its contents in another shape or order, which do not lie row by row")
    if stand_in.type.dtype != leaf.type.dtype and (turns or stand_in._version > 1):
        raise NotWhole("an argument changes its dtype in place, and is written to besides")
    effects = [
        Effect("turn", target, make, tuple(Sized(trace.sizes.applied(value)) for value in (args, tuple(kwargs.items()))))
        for make, args, kwargs in turns
    ]
    return [*effects, Effect("assign", target, None, (made.output(snapshot(stand_in)),))]


def _lies_by_rows(held: Any) -> bool:
    return not isinstance(held, Tensor) or views.is_contiguous(held)


def _is_position(value: Value) -> bool:
    """Whether a value is a position by what makes it."""
    while (op := value.producer()) is not None and isinstance(op, (ops.Reshape, ops.Cast, ops.Transpose, ops.Slice, ops.BroadcastTo)):
        value = op.operands[0]
    return (
        all(map(_is_position, op.operands))
        if isinstance(op, ops.Concat)
        else isinstance(op, (ops.ArgMax, ops.ArgMin, ops.Argsort, host.NonZero))
    )


def _distinct(guards: list[Guard]) -> list[Guard]:
    """The guards without those that say the same of the same source again."""
    seen: set[Any] = set()
    kept = []
    for guard in guards:
        key = id(guard.source), guard.test, tuple(map(id, guard.constants))
        if key not in seen:
            seen.add(key)
            kept.append(guard)
    return kept


def _refuse_gradients_that_are_undecided(trace: Trace, location: Location) -> None:
    """Of what a program decides all ways get gradients, zeros where Python would not have come along: that is right only where every way
    reaches the same tensors.
    """
    op = undecided(trace.block, [arg for arg in trace.block.args if arg in trace.differentiable], trace.unset)
    if op is not None:
        raise NotWhole(
            "which tensors get gradients depends on a branch, or on whether a loop runs, that a tensor decides", op.location or location
        )


def _are_apart(a: Any, b: Any) -> bool:
    """Whether two tensors share no contents."""
    if a is b:
        return False
    one, other = (getattr(t, "_view", None) for t in (a, b))  # an array that is given for a tensor has none
    if one is None or other is None:
        return True
    one, other = (v if v.__class__ is views.Storage else v[0] for v in (one, other))
    return one is not other


def _guard_apart(state: Watched, trace: _CaptureTrace, stand_ins: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
    """A program that writes to a tensor takes its other inputs for tensors that share nothing with that: say so."""
    fixed = [s for s in trace.sources if isinstance(s, Tensor)]
    tensors = [*leaves, *trace.path_tensors, *fixed]
    sources = [*(state.sources[id(t)] for t in stand_ins), *trace.paths, *(Fixed(t, t.name) for t in fixed)]
    written = [stand_in._value is not arg for stand_in, arg in zip(stand_ins, trace.block.args, strict=False)]
    written += [id(t) in trace.written for t in (*trace.path_tensors, *fixed)]
    moving = len(tensors) - len(fixed)
    changed = [i for i, is_written in enumerate(written) if is_written]
    for i in changed:
        # Of those that are always the same it is known.
        for j in range(len(tensors) if i < moving else moving):
            if i != j and not _are_apart(tensors[i], tensors[j]):
                raise NotWhole(f"'{sources[i].said()}', which is changed in place, shares its contents with '{sources[j].said()}'")
    if changed and moving:
        apart = _Apart(fixed, [t for t, is_written in zip(fixed, written[moving:], strict=True) if is_written], written[:moving])
        state.guard(
            sources[0],
            f"{{1}}({_places(sources[:moving], 2)})",
            apart,
            *sources[1:moving],
            message=f"and the other tensors share no contents with {_listed([sources[i].said() for i in changed])}",
        )
    # What is written is read through other tensors, too, which are no inputs of their own: they must be the same views of it.
    inputs = set(map(id, tensors))
    for beside in state.held:
        if not isinstance(beside, Tensor) or id(beside) in inputs or id(beside) not in state.outside_tensors or beside._view is None:
            continue
        for i in changed:
            if not _are_apart(tensors[i], beside):
                message = f"is the same view of {sources[i].said()}"
                state.guard(state.sources[id(beside)], "{0} is {1} and {0}._view is {2}", beside, beside._view, message=message)


class _Apart:
    """Whether inputs that may be others at each call share no contents, as far as one of each pair is written to: with each other, and with
    the `fixed` tensors, of which some are `changed`.
    """

    def __init__(self, fixed: Sequence[Tensor], changed: Sequence[Tensor], written: Sequence[bool]):
        self.fixed, self.changed, self.written = fixed, changed, written
        self.fixed_ids, self.changed_ids = frozenset(map(id, fixed)), frozenset(map(id, changed))

    def __call__(self, *moving: Any) -> bool:
        views = []
        for held, written in zip(moving, self.written, strict=True):
            if id(held) in (self.fixed_ids if written else self.changed_ids):
                return False
            if getattr(held, "_view", None) is not None:
                views.append((held, written))
                if not all(_are_apart(held, t) for t in (self.fixed if written else self.changed)):
                    return False
        if not any(self.written):
            return True
        if len(set(map(id, moving))) < len(moving):
            written_ids = [id(held) for held, written in zip(moving, self.written, strict=True) if written]
            if any(sum(id(other) == number for other in moving) > 1 for number in written_ids):
                return False
        return all(
            _are_apart(a, b) for i, (a, one) in enumerate(views) for b, other in views[:i] if a is not b and (one or other)
        )


def _listed(names: Sequence[str]) -> str:
    """A few of many names."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _guard_containers(state: Watched) -> None:
    """Lists and dicts among the arguments stand for such as are given but once, and are not met elsewhere: say so."""
    given = [state.sources[number] for number in state.given]
    if not given:
        return
    # Such as the function neither looks into nor changes do not matter, as the defaults of its own arguments.
    met = (state.expanded | state.journal.kept.keys()) - state.given
    others = [
        state.sources[id(v)]
        for v in {id(v): v for v in state.held}.values()
        if id(v) in met and type(v) in LISTS and id(v) in state.sources
    ]
    sources = [*given, *others]
    if len(sources) == 1:
        return
    state.guard(
        sources[0],
        f"{{1}}({_places(sources, 2)})",
        _are_distinct,
        *sources[1:],
        message="and other lists and dicts are objects of their own",
    )


def _guard_what_is_written(state: Watched) -> None:
    """Objects that the function looks into are others than those of their class that it writes to: two of them may be one at a later call,
    and what is written is read then. (Of tensors, and of lists and dicts among the arguments, it is said elsewhere.)
    """
    written = {id(target): target for _, target, _, _ in state.effects if target is not None and not isinstance(target, Tensor)}
    looked_into = {key[1] for key in state.read if isinstance(key, tuple) and key[0] in ("attribute", "own", "absent")}
    looked_into |= written.keys() | state.expanded | state.given
    by_kind: dict[type, list[Any]] = {type(target): [] for target in written.values() if id(target) in state.sources}
    for held in {id(v): v for v in state.held}.values():
        if type(held) in by_kind and id(held) in looked_into and id(held) in state.sources:
            by_kind[type(held)].append(held)
    for kind, objects in by_kind.items():
        sources = [state.sources[id(held)] for held in objects]
        if len(sources) > 1:
            state.guard(
                sources[0],
                f"{{1}}({_places(sources, 2)})",
                _are_distinct,
                *sources[1:],
                message=f"and {_listed([source.said() for source in sources[1:]])} are objects of their own",
                counted=issubclass(kind, Layer) and all(map(is_counted, sources)),
            )


def _places(sources: Sequence[Source], first: int) -> str:
    """How the test of a guard says the values at several sources, those after the first one being constants from the number `first` on."""
    return ", ".join(f"{{{i}}}" for i in (0, *range(first, first + len(sources) - 1)))


def _are_distinct(*objects: Any) -> bool:
    return len(set(map(id, objects))) == len(objects)


def _arguments(
    template: Nested, leaves: Iterator[Tensor], state: Watched, names: Sequence[str], arrays: Iterator[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with stand-ins for tensors, and copies of lists and dicts whose contents the call's signature guards."""
    positional, named = template.parts
    root = Argument()
    first, second = Item(root, 0), Item(root, 1)
    args = tuple(_argument(part, leaves, Renamed(first, i, names[i]), state, arrays) for i, part in enumerate(positional.parts))
    kwargs = {
        key: _argument(part, leaves, Renamed(second, key, str(key)), state, arrays)
        for key, part in zip(named.keys, named.parts, strict=True)
    }
    return args, kwargs


def _argument(part: Template, leaves: Iterator[Tensor], source: Source, state: Watched, arrays: Iterator[Any]) -> Any:
    if isinstance(part, ArrayLeaf):
        tensor = next(leaves)
        state.sources[id(tensor)] = source
        state.held.append(tensor)
        value = next(arrays)
        return state.changing_array(value, source, tensor, tuple(size for size in tensor.type.shape if isinstance(size, Expr)))
    if part is LEAF:
        made: Any = next(leaves)
    elif isinstance(part, Plain):
        made = part.value
        if isinstance(part, Number):
            return state.take(made, source, changes=True)
        if isinstance(made, np.ndarray):
            raise NotWhole(f"an array of {made.dtype}, or of a class of its own, is given")
        if type(made) in (bool, int, float, complex, str, bytes, type(None)):
            return made
        state.check_operators(made, source)
        if isinstance(made, Layer) or id(made) not in state.sources:
            state.sources.setdefault(id(made), source)
            state.held.append(made)
        return made
    else:
        keys = part.keys or range(len(part.parts))
        parts = [_argument(p, leaves, Item(source, k), state, arrays) for k, p in zip(keys, part.parts, strict=True)]
        if part.keys or issubclass(part.kind, dict):
            made = part.kind(zip(part.keys, parts, strict=True))
        else:
            made = part.kind._make(parts) if hasattr(part.kind, "_fields") else part.kind(parts)
        state.check_operators(made, source)
        state.expanded.add(id(made))
        if type(made) in LISTS:
            state.given.add(id(made))
        elif not isinstance(made, tuple):
            raise NotWhole(f"a {type(made).__name__} is given")
    state.sources[id(made)] = source
    state.held.append(made)
    return made


def trace_watched(
    function: Callable[..., Any],
    call: Callable[[Iterable[Tensor]], tuple[tuple[Any, ...], dict[str, Any]]],
    inputs: Sequence[tuple[TensorType, str, bool]],
    named: dict[str, Tensor],
    layer: Layer | None,
    name: str,
    location: Location,
    examples: Sequence[Sequence[int]] | None = None,
) -> Traced:
    """As `trace`, for a program that stands alone, as it is saved: control flow on tensors is part of it, and what the function writes to
    objects is taken back.

    What it reads of Python's objects is as it is now. A function that cannot be watched is traced as it runs. A note says where it reads
    the values of the Layer's tensors, which it does not follow.
    """
    names = {id(held): said for said, held in named.items()}

    def told(held: Tensor, what: str) -> None:
        if id(held) in names:
            remark(
                name,
                f"{what} of '{names[id(held)]}': the program has what that is now, whatever it becomes; keep to tensor functions",
                caller_location(),
            )

    def tried(flow: bool) -> Traced:
        state = Watched(flow, as_one_program=True, stands_alone=True)
        if layer is not None:
            state.sources[id(layer)] = Fixed(layer, "self")
            state.held.append(layer)
        watch = Watch(state, {}, {})
        try:
            return trace(lambda *args, **kwargs: watch.call(function, *args, **kwargs), call, inputs, named, name, location, examples)
        finally:
            state.journal.undo()

    with tensor.reads_told_to(told):
        try:
            return tried(False)
        except NotWhole as refused:
            if not refused.decided:
                return trace(function, call, inputs, named, name, location, examples)
            cause: PolyremeError | NotWhole = refused
            decides = refused.reason
        except PolyremeError as error:
            if error.diagnostics[0].code != "E0502":
                raise
            cause, decides = error, error.diagnostics[0].message
        try:
            return tried(True)
        except NotWhole as refused:
            raise TraceError(f"{refused.reason}, in a function in which a tensor decides: {decides}", refused.location) from cause


class _Recipes:
    """How results and effects are made of the program's results."""

    def __init__(self, state: Watched, trace: _CaptureTrace, stand_ins: Sequence[Tensor]):
        self.state = state
        self.trace = trace
        self.outputs: list[Tensor] = []
        self.numbers: dict[int, int] = {}
        self.sources: list[Source] = []
        self.places: dict[int, int] = {}
        self.made: dict[int, ValueRecipe] = {}
        self.kept: list[Any] = []
        self.links: list[Link] = []
        self.remarks: list[str] = []

    def output(self, held: Tensor) -> Output:
        number = self.numbers.get(id(held))
        if number is None:
            number = self.numbers[id(held)] = len(self.outputs)
            self.outputs.append(held)
        return Output(number)

    def link_views(self) -> None:
        """Results that share contents with what is outside, or with each other, do so at each call."""
        together: dict[int, list[Tensor]] = {}
        for held in list(self.outputs):
            if held._view is not None:
                storage = held._view if held._view.__class__ is views.Storage else held._view[0]
                together.setdefault(id(storage), []).append(held)
        for members in together.values():
            first = members[0]._view
            storage = first if first.__class__ is views.Storage else first[0]
            owner = storage.owner()
            if any(owner is before for before in self.trace.before_turns):
                raise NotWhole("a result is a view of an argument that comes to see its contents in another shape or order")
            if owner is None:
                if len(members) > 1:
                    raise NotWhole("results are views of a tensor that is gone")
                continue
            outside = id(owner) in self.state.sources
            if not outside and len(members) < 2:
                continue
            if outside and views.counts_on_rows(owner, self.trace.sizes.applied):
                self.trace.count_on_rows(owner)
            base: ValueRecipe = self.existing(owner) if outside else self.output(owner)
            for member in members:
                if member is owner:
                    continue
                _, steps, attached = member._view
                if any(operands for _, operands, _ in steps):
                    raise NotWhole("a result is a view at a place that only the call tells")
                known = tuple(
                    (cls, operands, {n: self.trace.sizes.applied(v) for n, v in attributes.items()}) for cls, operands, attributes in steps
                )
                self.links.append(Link(base, self.output(member), known, attached is not None))

    def existing(self, value: Any) -> Existing:
        source = self.state.sources.get(id(value))
        if source is None:
            raise NotWhole(f"a {type(value).__name__} that is not known outlives the call")
        place = self.places.get(id(source))
        if place is None:
            place = self.places[id(source)] = len(self.sources)
            self.sources.append(source)
        return Existing(place)

    def effect(self, kind: str, target: Any, name: Any, values: Sequence[Any]) -> Effect:
        """What the program's caller does to an object, or with a value alone."""
        if target is None:
            return Effect(kind, KnownValue(None), name, tuple([self._shown(v) for v in values]))
        return Effect(kind, self.existing(target), name, tuple(map(self.recipe, values)))

    def _shown(self, value: Any) -> ValueRecipe:
        if isinstance(value, Changing):
            return self.existing(value)
        return self.output(value) if isinstance(value, Tensor) else KnownValue(value)

    def recipe(self, value: Any) -> ValueRecipe:
        """How `value`, which the function leaves behind, is made at a call."""
        if id(value) in self.state.sources and not isinstance(value, _PLAIN):
            return self.existing(value)
        if isinstance(value, Tensor):
            if isinstance(value._value, np.ndarray):
                raise NotWhole("a tensor that no op made outlives the call")
            if self.state.is_number(value._value):
                if not self.state.as_one_program:
                    raise NotWhole("a number that a branch or loop of the program computes outlives the call")
                self.remarks.append("a number that a branch or loop of the program computes outlives the call: it is a tensor")
            return self.output(value)
        if has_free_size(value):
            raise NotWhole(f"the free size '{value}' outlives the call")
        known = isinstance(value, (*_PLAIN, np.generic, np.dtype)) or is_enumeration(value)
        if known or type(value).__module__.startswith("polyreme.dtypes"):
            return KnownValue(value)
        if id(value) not in self.made:
            self.kept.append(value)
            self.made[id(value)] = self._build(value)
        return self.made[id(value)]

    def _build(self, value: Any) -> ValueRecipe:
        key, kind = len(self.kept), type(value)  # a number of its own, also beside those of its parts
        if isinstance(value, tuple):
            maker: Any = kind._make if hasattr(value, "_fields") else kind
            return Build(key, maker, tuple(map(self.recipe, value)))
        if kind in (list, collections.deque) or kind.__name__ == "Size":
            return Build(key, kind, tuple(map(self.recipe, value)))
        if kind in (dict, collections.OrderedDict):
            keys = list(value)
            if not all(isinstance(k, _PLAIN) for k in keys):
                raise NotWhole("a dict whose keys are no numbers or texts outlives the call")
            return Build(key, lambda parts: kind(zip(keys, parts, strict=True)), tuple(map(self.recipe, value.values())))
        if kind is np.ndarray and value.base is None and not value.dtype.hasobject:
            return Build(key, lambda _: value.copy("K"), ())
        if kind is set and all(isinstance(v, _PLAIN) for v in value):
            return Build(key, lambda _: set(value), ())
        state = getattr(value, "__dict__", None)
        if state is None or kind.__module__.split(".")[0] == "polyreme" or not any(value is held for held in self.state.held):
            raise NotWhole(f"a {kind.__name__} that is made inside the function outlives the call")
        names = list(state)

        def instance(parts: list[Any]) -> Any:
            made = object.__new__(kind)
            vars(made).update(zip(names, parts, strict=True))
            return made

        return Build(key, instance, tuple(map(self.recipe, state.values())))
