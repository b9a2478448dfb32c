"""Capturing a call: the function runs once on stand-ins, watched, and what comes of it is a program with guards and effects, or a reason why it is none.

A capture leaves nothing behind. What the function wrote meanwhile is taken back, tensors that were written have their contents again, and no stand-in is left in
an object that lives on; then the program does at this call what it will do at each.
"""

from __future__ import annotations

import collections
import threading
import types
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme import dispatch, tape, tensor
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import Location, PolyremeError, raised_location
from polyreme.ir.dims import Expr, UnknownSize, deciding
from polyreme.ir.types import TensorType
from polyreme.jit.calls import Watch
from polyreme.jit.effects import Build, Call, Constant, Effect, Existing, Output, Recipe
from polyreme.jit.kinds import LISTS
from polyreme.jit.program import Program
from polyreme.jit.sized_programs import Shapes, fits, shapes_of
from polyreme.jit.sources import Argument, Attribute, Fixed, Guard, Guards, Item, Named, Source
from polyreme.jit.structure import LEAF, Nested, Plain, Template
from polyreme.jit.trace import Trace, size_error
from polyreme.jit.watched import NotWhole, Watched
from polyreme.nn.layer import Layer
from polyreme.tensor import Tensor

__all__ = ["Whole", "capture"]

MOST_SHAPES = 1024
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), slice, range, type)


class _CaptureTrace(Trace):
    """A trace that knows where tensors outside come from: those that may be others at the next call are inputs, found by their path."""

    def __init__(self, state: Watched, named: dict[str, Tensor], moving: Container[str]):
        super().__init__(named)
        self.state = state
        self.moving = moving
        self.paths: list[Source] = []
        self.fixed: list[Tensor] = []  # tensors outside that belong to the program
        self.path_tensors: list[Tensor] = []
        self.arguments = 0  # how many inputs are arguments
        self.thread = threading.get_ident()

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
                state.guard(source, "{0} is {1}", owner, message=f"is the tensor '{owner.name}'", counted=getattr(source, "of_layer", False))
            self.fixed.append(owner)
            return super().outside(owner, name)
        number = self.arguments + len(self.paths)
        self.paths.append(source)
        self.path_tensors.append(owner)
        kind = type(owner)
        test = "{0}.__class__ is {1} and {0}.stop_gradient is {2} and {0}.type == {3}"
        state.guard(source, test, kind, owner.stop_gradient, owner.type, message=f"is a tensor of type {owner.type}{'' if owner.stop_gradient else ' that needs gradients'}")
        return self._argument(owner.type, name, "input", number)

    def is_outside(self, held: Tensor) -> bool:
        """Whether a tensor may have other values at the next call. Other threads' reads are nothing of this capture's."""
        return id(held) in self.state.outside_tensors and threading.get_ident() == self.thread

    def read(self, held: Tensor, what: str) -> None:
        """Python looks at the values of a tensor: if that is outside the call cannot be one program."""
        if self.is_outside(held):
            raise NotWhole(f"{what} of a tensor from outside")


@dataclass
class Whole:
    """A call as one program: it is run when its guards hold."""

    program: Program | None  # None where it computes nothing with tensors
    guards: Guards
    result: Recipe
    effects: list[Effect]
    existing: int  # how many of what the guards give back are objects that recipes need; the rest are inputs
    lone: bool = False  # whether the result is the program's only one, and there is nothing else to do
    _fitting: dict[Shapes, bool] = field(default_factory=dict)

    def fits(self, shapes: Shapes) -> bool:
        """Whether the program is for inputs of these shapes."""
        if self.program is None:
            return True
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
        results = self.program(given) if self.program is not None else []
        if self.lone:
            return results[0]
        call = Call(results, found[: self.existing])
        result = self.result.make(call)
        # Values first: what an effect replaces may be part of another's.
        for effect in self.effects:
            for value in effect.values:
                value.make(call)
        for effect in self.effects:
            effect.apply(call)
        return result


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
) -> Whole:
    """The program of one call; `NotWhole` if it is none.

    `template` says how the tensors `leaves`, which stand-ins of the types in `inputs` replace, are nested in the arguments, which have these `names`.
    Parameters and buffers belong to the program, but for those called as in `moving`: other tensors were met in their places.
    """
    state = Watched()
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
    if tensor.capturing() is not None:
        raise NotWhole("another function is being captured")
    try:
        with dispatch.trace_into(trace), tensor.captured_by(trace), deciding(trace.sizes):
            shapes = shapes_of(leaves)
            stand_ins = [trace.add_input(*given, shape) for given, shape in zip(inputs, shapes, strict=True)]
            trace.arguments = len(stand_ins)
            before = [t._value for t in stand_ins]
            args, kwargs = _arguments(template, iter(stand_ins), state, names)
            result = watch.call(function, *args, **kwargs)
            made = _Recipes(state, trace, stand_ins)
            recipe = made.recipe(result)
            effects = [Effect(kind, made.existing(target), key, tuple(map(made.recipe, values))) for kind, target, key, values in state.effects]
            for stand_in, value in zip(stand_ins, before, strict=True):
                if stand_in._value is not value:
                    if not leaves[stand_ins.index(stand_in)].stop_gradient and tape.is_grad_enabled():
                        raise NotWhole("an argument that needs gradients is changed in place", location)
                    effects.append(Effect("assign", made.existing(stand_in), None, (made.output(_fresh(stand_in)),)))
            written = list(trace.written.values())
            for outside in written:
                if any(outside is t for t in trace.path_tensors):
                    if not outside.stop_gradient and tape.is_grad_enabled():
                        raise NotWhole("a tensor outside that needs gradients is changed in place", location)
                    effects.append(Effect("assign", made.existing(outside), None, (made.output(_fresh(outside)),)))
            _guard_containers(state)
            if any(e.kind == "assign" for e in effects) or trace.written:
                _guard_apart(state, trace, stand_ins, any(e.kind == "assign" for e in effects))
            for outside in trace.path_tensors:
                trace.written_by_path.add(id(outside))
            if not made.outputs and (sized := next((t for t in stand_ins if not t.type.is_static), None)) is not None:
                made.output(_fresh(sized))  # which sizes it is for is the program's to say
            if not made.outputs and not trace.written:
                return _without_tensors(state, trace, made, recipe, effects)
            result_names = [f"output_{i}" if len(made.outputs) > 1 else "output" for i in range(len(made.outputs))]
            traced = trace.finish(name, made.outputs, LEAF, result_names, location)
    except PolyremeError as error:
        raise NotWhole(error.diagnostics[0].message, error.diagnostics[0].location or raised_location(error)) from error
    except UnknownSize as error:
        placed = size_error(error, trace)
        raise NotWhole(placed.diagnostics[0].message, placed.diagnostics[0].location) from placed
    except Exception as error:
        raise NotWhole(f"{type(error).__name__}: {error}", raised_location(error)) from error
    finally:
        state.journal.undo()
        trace.restore()
    guards = Guards(_distinct(state.guards), [*made.sources, *trace.paths])
    lone = not effects and isinstance(recipe, Output) and len(made.outputs) == 1
    return Whole(Program(traced, name), guards, recipe, effects, len(made.sources), lone)


def _without_tensors(state: Watched, trace: _CaptureTrace, made: _Recipes, recipe: Recipe, effects: list[Effect]) -> Whole:
    """A call that computes nothing with tensors."""
    return Whole(None, Guards(_distinct(state.guards), [*made.sources, *trace.paths]), recipe, effects, len(made.sources))


def _fresh(held: Tensor) -> Tensor:
    """A tensor for the value that `held` has now."""
    alias = Tensor._wrap(held._value, held._type)
    alias.stop_gradient, alias._node, alias._index = held.stop_gradient, held._node, held._index
    return alias


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


def _guard_apart(state: Watched, trace: _CaptureTrace, stand_ins: Sequence[Tensor], assigned: bool) -> None:
    """A program that writes to tensors takes each of its inputs for a tensor of its own, with contents of its own: say so. Where none of the inputs
    is `assigned` it is enough that they are apart from what the program writes to by itself."""
    sources = [*(state.sources[id(t)] for t in stand_ins), *trace.paths]
    others = [t for t in trace.fixed if not any(t is path for path in trace.path_tensors)]
    if not sources:
        return
    if not assigned:
        others = [t for t in others if id(t) in trace.written]
        known = frozenset(map(id, others))
        for source in sources:
            test = "(getattr({0}, '_view', None) is None and id({0}) not in {1}) or {2}([{0}], {3})"
            state.guard(source, test, known, _are_apart, others, message="shares its contents with no tensor that is written")
        return
    state.guard(sources[0], f"{{1}}([{_places(sources, 3)}], {{2}})", _are_apart, others, *sources[1:], message="and the other tensors share no contents, and one of them is written")


def _are_apart(given: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether tensors `given` share their contents neither with each other nor with the others."""
    known = {_contents(t) for t in given}
    return len(known) == len(given) and not any(_contents(t) in known for t in others)


def _contents(held: Tensor) -> int:
    """The identity of what a tensor has its contents in."""
    view = getattr(held, "_view", None)  # an array that is given for a tensor has none
    return id(held if view is None else view[0] if isinstance(view, tuple) else view)


def _guard_containers(state: Watched) -> None:
    """Lists and dicts among the arguments stand for such as are given but once, and are not met elsewhere: say so."""
    given = [state.sources[number] for number in state.given]
    if not given:
        return
    # Such as the function neither looks into nor changes do not matter, as the defaults of its own arguments.
    met = (state.expanded | state.journal.kept.keys()) - state.given
    others = [state.sources[id(v)] for v in {id(v): v for v in state.held}.values() if id(v) in met and type(v) in LISTS and id(v) in state.sources]
    sources = [*given, *others]
    if len(sources) == 1:
        return
    state.guard(sources[0], f"{{1}}({_places(sources, 2)})", _are_distinct, *sources[1:], message="and other lists and dicts are objects of their own")


def _places(sources: Sequence[Source], first: int) -> str:
    """How the test of a guard says the values at several sources, those after the first one being constants from the number `first` on."""
    return ", ".join(f"{{{i}}}" for i in (0, *range(first, first + len(sources) - 1)))


def _are_distinct(*objects: Any) -> bool:
    return len(set(map(id, objects))) == len(objects)


def _arguments(template: Nested, leaves: Iterator[Tensor], state: Watched, names: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with stand-ins for tensors, and copies of lists and dicts whose contents the call's signature guards."""
    positional, named = template.parts
    root = Argument()
    first, second = Item(root, 0), Item(root, 1)
    args = tuple(_argument(part, leaves, Named(first, i, names[i]), state) for i, part in enumerate(positional.parts))
    kwargs = {key: _argument(part, leaves, Named(second, key, str(key)), state) for key, part in zip(named.keys, named.parts, strict=True)}
    return args, kwargs


def _argument(part: Template, leaves: Iterator[Tensor], source: Source, state: Watched) -> Any:
    if part is LEAF:
        made: Any = next(leaves)
    elif isinstance(part, Plain):
        made = part.value
        if type(made) in (bool, int, float, complex, str, bytes, type(None)):
            return made
        if isinstance(made, Layer) or id(made) not in state.sources:
            state.sources.setdefault(id(made), source)
            state.held.append(made)
        return made
    else:
        parts = [_argument(p, leaves, Item(source, k), state) for k, p in zip(part.keys or range(len(part.parts)), part.parts, strict=True)]
        if part.keys or issubclass(part.kind, dict):
            made = part.kind(zip(part.keys, parts, strict=True))
        else:
            made = part.kind(*parts) if hasattr(part.kind, "_fields") else part.kind(parts)
        state.expanded.add(id(made))
        if type(made) in LISTS:
            state.given.add(id(made))
        elif not isinstance(made, tuple):
            raise NotWhole(f"a {type(made).__name__} is given")
    state.sources[id(made)] = source
    state.held.append(made)
    return made


class _Recipes:
    """How results and effects are made of the program's results."""

    def __init__(self, state: Watched, trace: _CaptureTrace, stand_ins: Sequence[Tensor]):
        self.state = state
        self.outputs: list[Tensor] = []
        self.numbers: dict[int, int] = {}
        self.sources: list[Source] = []
        self.places: dict[int, int] = {}
        self.made: dict[int, Recipe] = {}
        self.kept: list[Any] = []

    def output(self, held: Tensor) -> Output:
        number = self.numbers.get(id(held))
        if number is None:
            self._not_shared(held)
            number = self.numbers[id(held)] = len(self.outputs)
            self.outputs.append(held)
        return Output(number)

    def _not_shared(self, held: Tensor) -> None:
        """Results are tensors with contents of their own."""
        if held._view is None:
            return
        contents = _contents(held)
        if any(isinstance(t, Tensor) and id(t) in self.state.sources and t._view is not None and _contents(t) == contents for t in self.state.held):
            raise NotWhole("a view of a tensor from outside outlives the call")
        if any(t._view is not None and _contents(t) == contents for t in self.outputs):
            raise NotWhole("two tensors that share their contents outlive the call")

    def existing(self, value: Any) -> Existing:
        source = self.state.sources.get(id(value))
        if source is None:
            raise NotWhole(f"a {type(value).__name__} that is not known outlives the call")
        place = self.places.get(id(source))
        if place is None:
            place = self.places[id(source)] = len(self.sources)
            self.sources.append(source)
        return Existing(place)

    def recipe(self, value: Any) -> Recipe:
        """How `value`, which the function leaves behind, is made at a call."""
        if id(value) in self.state.sources and not isinstance(value, _PLAIN):
            return self.existing(value)
        if isinstance(value, Tensor):
            if isinstance(value._value, np.ndarray):
                raise NotWhole("a tensor that no op made outlives the call")
            return self.output(value)
        if isinstance(value, Expr):
            raise NotWhole(f"the free size '{value}' outlives the call")
        if isinstance(value, _PLAIN) or type(value).__module__.startswith("polyreme.dtypes"):
            return Constant(value)
        known = self.made.get(id(value))
        if known is None:
            self.kept.append(value)
            known = self.made[id(value)] = self._build(value)
        return known

    def _build(self, value: Any) -> Recipe:
        key, kind = len(self.made), type(value)
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
