"""`to_static`: a function or a Layer's forward that runs as compiled code, and always as the Python that was written.

What belongs to a call's signature: how the arguments are nested, values of arguments that are no tensors, dtypes and shapes of tensors
(with sizes that an `InputSpec` leaves free, or that were others at an earlier call, standing for all), and which tensors need gradients.
The first call of a signature is captured (`capture/`): what comes of it is a program with guards for all that the function read besides. A
call for which no program's guards hold is captured again; one that cannot be captured is gathered (`gather.py`).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import sys
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from types import MethodType
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.casting.state import call_key
from polyreme.dtypes import default_dtype
from polyreme.grad_mode import MANNER
from polyreme.ir.diagnostics import Location, PolyremeError
from polyreme.ir.dims import Dim, Expr, evaluate
from polyreme.ir.dims import symbols as symbols_of
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType
from polyreme.jit import notes
from polyreme.jit.bound_methods import compiled_methods
from polyreme.jit.capture.capturing import ONE, CheckFailed, Whole, capture, trace_watched
from polyreme.jit.capture.trace import Traced, TraceError, UnknownSizeError
from polyreme.jit.capture.watched import NotWhole, NumbersChange
from polyreme.jit.compiled_function import CompiledFunction
from polyreme.jit.gather import Segments, call_gathered
from polyreme.jit.program import TracedProgram
from polyreme.jit.sized_programs import MOST_SIZES, Axes, Shapes, free_axes, is_accepted, shapes_of, with_numbers
from polyreme.jit.structure import Nested, Number, Plain, Template, flatten, is_tensor, paths, unflatten
from polyreme.runtime.errors import CallError
from polyreme.static.input_spec import InputSpec, input_types
from polyreme.tensor import Tensor

__all__ = ["StaticFunction", "enable_to_static", "ignore_module", "not_to_static", "to_static"]

_enabled = True
MOST_SHAPES = 1024
MOST_RECENT = 64
MOST_SIGNATURES = 1024
# Programs of one signature, which differ by what the function read besides; from then on calls that fit none are gathered.
MOST_PROGRAMS = 8
# So often a number whose value a program has to know may be another one before calls are gathered: there it is an argument.
MOST_NUMBERS = 2
# So many values of a whole number among the arguments are each a program's own; from then on it is read at each call.
MOST_CHOICES = 3
# So many signatures that differ in texts and objects may wait for a second call before further ones are gathered: one may be new at each.
MOST_WAITING = 64
# So many signatures are tried that turn out to be no whole programs for one reason; others are gathered at once then.
MOST_REFUSED = 3
# What sizes that specs leave free are in a call that is captured and not made: one that does not broadcast.
ANY_SIZE = 8
LOCATED_CALLS = 3
LOOKED_AGAIN = 64


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Let `to_static` functions run compiled (True) or as the Python they were written in (False)."""
    global _enabled
    if not isinstance(enable_to_static_bool, bool):
        raise TypeError(f"expected a bool but got {enable_to_static_bool!r}")
    _enabled = enable_to_static_bool


def _of_a_program(tensors: Sequence[Tensor]) -> bool:
    """Whether one of them is a variable of a static Program."""
    if all(isinstance(t._value, np.ndarray) for t in tensors):
        return False
    from polyreme.static.variable import named_variable  # which few need

    return any(named_variable(t) is not None for t in tensors)


def not_to_static(func: Callable[..., Any] | None = None) -> Any:
    """Mark a function as one that `to_static` leaves alone: given to `to_static` it stays plain Python.

    Called inside a traced function its tensor functions are traced like any others.
    """
    if func is None:
        return not_to_static
    func.__polyreme_not_to_static__ = True  # type: ignore[attr-defined]
    return func


def ignore_module(modules: Sequence[Any]) -> None:
    """Paddle's list of modules that are not rewritten. Tracing rewrites none, so that this only checks its argument."""
    if not all(inspect.ismodule(m) for m in modules):
        raise TypeError(f"expected a list of modules but got {modules!r}")


def to_static(
    function: Any = None,
    input_spec: Sequence[Any] | None = None,
    build_strategy: Any = None,
    backend: Any = None,
    full_graph: bool = False,
    **kwargs: Any,
) -> Any:
    """Compile a function or a Layer; a decorator with or without arguments.

    A function becomes a `StaticFunction`; a Layer is returned itself, its `forward` replaced. `input_spec` says for each positional
    argument what it will be, free sizes as None; without it a size that is another one at a later call is free from then on. What cannot be
    one program is an error with `full_graph`; without it the function runs as it is, and what it computes between two moments at which
    Python needs a value is compiled. `build_strategy` and `backend` choose between Paddle's own compilers and change nothing here.
    """
    unknown = set(kwargs) - {"property"}
    if unknown:
        raise TypeError(f"to_static() got an unexpected argument '{min(unknown)}'")
    if function is None:
        return functools.partial(to_static, input_spec=input_spec, build_strategy=build_strategy, backend=backend, full_graph=full_graph)
    from polyreme.nn.layer import Layer

    if isinstance(function, Layer):
        if isinstance(function.forward, StaticFunction):
            function.forward = function.forward.rollback()  # type: ignore[method-assign]
        if not getattr(function.forward, "__polyreme_not_to_static__", False):
            function.forward = StaticFunction(function.forward, input_spec, function, full_graph)  # type: ignore[method-assign]
        return function
    if isinstance(function, StaticFunction):
        return StaticFunction(function.rollback(), input_spec, function.layer, full_graph)
    if not callable(function):
        raise TypeError(f"expected a function or a Layer for to_static but got {function!r}")
    return function if getattr(function, "__polyreme_not_to_static__", False) else StaticFunction(function, input_spec, None, full_graph)


@dataclass
class _Calls:
    """What is known of calls with one signature."""

    wholes: list[Whole] = field(default_factory=list)  # the one used last in front
    changed: dict[str, int] = field(default_factory=dict)  # how often a number, by what it is called, was another one
    gathered: str = ""  # why the calls are not one program
    refused: dict[Shapes, str] = field(default_factory=dict)  # why calls of these sizes are none, where others may be
    sized: bool = False  # whether some sizes are free, so that a program may be for others than those of a call
    made: int = 0  # how often a program was made
    again: bool = False  # whether one was run at a second call
    numbered: Axes = frozenset()  # axes whose sizes the function wants to know: they are numbers though they may be others at the next call


class StaticFunction(CompiledFunction):
    """A function that runs compiled. Used as a method, it is bound to each instance separately."""

    def __init__(self, function: Callable[..., Any], input_spec: Sequence[Any] | None = None, layer: Any = None, full_graph: bool = False):
        functools.update_wrapper(self, function)
        if (
            layer is None
            and isinstance(function, MethodType)
            and not isinstance(function.__self__, type)
            and hasattr(function.__self__, "named_parameters")
        ):
            layer = function.__self__
        self._function = function
        self._layer = weakref.ref(layer) if layer is not None else None
        self._read_signature()
        # As a method of instances without `__dict__`, by their identity: they may be equal, or have no hash.
        self._bound: dict[int, tuple[weakref.ref[Any], StaticFunction]] = {}
        self._calls: dict[Any, _Calls] = {}
        self._checked: dict[Any, tuple[list[TensorType], tuple[str, ...]]] = {}
        # The shapes of the first of the calls that are alike but for sizes, and the axes at which a later one had another size.
        self._sizes: dict[Any, tuple[Shapes, Axes]] = {}
        # What is known of calls by what is quickly told of one, for plain calls with tensors.
        self._recent: dict[Any, _Calls] = {}
        self._segments = Segments(self._name)
        self._gathered_calls = 0
        self._refused: dict[tuple[str, int, str], int] = {}  # how many signatures are no whole programs, by place and reason
        self._captured: dict[Any, int] = {}  # how many programs there are of signatures that differ in numbers only
        # The numbers among the arguments of the first of such calls, which of them stand for any, and what others were.
        # (None stands for any in those of `_fixed_numbers`, which a program has to know.)
        self._numbers: dict[Any, tuple[tuple[int | float, ...], set[int], dict[int, set[int | float]]]] = {}
        self._fixed_numbers: set[Any] = set()
        self._waiting: dict[Any, list[_Calls]] = {}  # what is known of signatures that differ in texts and objects only
        self._never_whole = False  # since so many signatures were none for one reason
        # The arguments that were traced last: what is saved where no spec says more.
        self.last_arguments: tuple[Template, list[TensorType], list[bool]] | None = None
        self.input_spec = _check_specs(input_spec)
        self.full_graph = full_graph

    def _read_signature(self) -> None:
        """What the function takes; its defaults may be given anew later."""
        self._signature = inspect.signature(self._function)
        self._given = _defaults_of(self._function)
        parameters = list(self._signature.parameters.values())
        self._arity = len(parameters)
        # The defaults of the last parameters, if all are positional ones.
        positional = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        self._defaults = tuple(p.default for p in parameters if p.default is not p.empty) if positional else None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        functions = compiled_methods(instance)
        if functions is not None:
            if self not in functions:
                functions[self] = self._as_method_of(instance)
            return functions[self]
        found = self._bound.get(id(instance))
        if found is None or found[0]() is not instance:
            try:
                reference = weakref.ref(instance)
            except TypeError:
                return MethodType(self, instance)  # nothing tells when it is gone: it is an argument
            found = self._bound[id(instance)] = reference, self._as_method_of(instance)
        return found[1]

    def _as_method_of(self, instance: Any) -> StaticFunction:
        return StaticFunction(MethodType(self._function, instance), self.input_spec, None, self.full_graph)

    def bound_to(self, layer: Any) -> StaticFunction:
        """The function as the forward of another Layer, which has all that its own has."""
        function, own = self._function, self.layer
        if isinstance(function, MethodType) and function.__self__ is own:
            function = MethodType(function.__func__, layer)
        return StaticFunction(function, copy.copy(self.input_spec), layer, self.full_graph)

    def __deepcopy__(self, memo: dict[int, Any]) -> StaticFunction:
        """The function of the copied Layer, traced anew: programs belong to the tensors of their Layer."""
        return StaticFunction(
            copy.deepcopy(self._function, memo), copy.copy(self.input_spec), copy.deepcopy(self.layer, memo), self.full_graph
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickled as functions are, by its name, where it is found under that."""
        found: Any = sys.modules.get(getattr(self._function, "__module__", None) or "")
        path = getattr(self._function, "__qualname__", "")
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is self:
            return str(path)
        return StaticFunction, (self._function, self.input_spec, self.layer, self.full_graph)

    @property
    def layer(self) -> Any:
        """The Layer whose method this is, or None."""
        return self._layer() if self._layer is not None else None

    @property
    def dygraph_function(self) -> Callable[..., Any]:
        """The plain Python function."""
        return self._function

    def rollback(self) -> Callable[..., Any]:
        """The plain Python function, which also becomes the Layer's forward again."""
        layer = self.layer
        if layer is not None and vars(layer).get("forward") is self:
            del layer.forward
        return self._function

    @property
    def code(self) -> str:
        """The source text of the function."""
        return inspect.getsource(self._function)

    def __repr__(self) -> str:
        return f"<StaticFunction {self._name}{self._signature}>"

    @property
    def _name(self) -> str:
        layer = self.layer
        return str(getattr(self._function, "__name__", "function")) if layer is None else type(layer).__name__

    # --- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _enabled or dispatch.recorder() is not None:
            # Inside another traced function the ops simply become part of it.
            return self._function(*args, **kwargs)
        if self.full_graph:
            # Defaults may be arrays, too.
            bound = self._bind(args, kwargs) if kwargs or len(args) != self._arity else (args, kwargs)
            if bound is not None and _has_arrays(bound):
                with _tensors_of_arrays(*bound) as (args, kwargs):
                    return self._called_with(args, kwargs)
        return self._called_with(args, kwargs)

    def _called_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._never_whole:
            return self._gather(args, kwargs)
        if kwargs or len(args) != self._arity:
            bound = self._bind(args, kwargs)
            if bound is None:
                return self._function(*args, **kwargs)  # which says what is amiss, as ever
            args, kwargs = bound
        key = self._plain_key(args) if not kwargs else None
        calls = self._recent.get(key) if key is not None else None
        if calls is not None and calls.gathered and not calls.wholes:
            return self._plainly(args, kwargs) if self._is_small() else self._noted(args, kwargs)
        if calls is not None:
            given = args, kwargs
            tensors = [arg if isinstance(arg, Tensor) else _tensor(arg) for arg in args if isinstance(arg, (Tensor, np.ndarray))]
            for whole in calls.wholes:
                if calls.sized and not whole.fits(tuple([t._value.shape for t in tensors])):
                    continue
                found = whole.check(given)
                if found is not None:
                    calls.again = True
                    return self._called(whole, found, tensors, args, kwargs)
            if calls.gathered:
                return self._gather(args, kwargs)
        leaves: list[Any] = []
        template = flatten((args, kwargs), leaves, is_tensor)
        inputs = [leaf if isinstance(leaf, Tensor) else _tensor(leaf) for leaf in leaves]
        if _of_a_program(inputs):
            return self._function(*args, **kwargs)  # whose operators become part of the program
        types, texts = self._input_types(template, inputs)
        template = self._with_numbers_so_far(template, texts)
        modes = tape.is_grad_enabled(), default_dtype().name, MANNER.key(), call_key()
        signature = (template, texts, tuple([t.stop_gradient for t in inputs]), *modes)
        calls = self._known(signature, types)
        if key is not None:
            if len(self._recent) >= MOST_RECENT:
                self._recent.clear()
            self._recent[key] = calls
        return self._run(calls, template, types, inputs, args, kwargs)

    def _known(self, signature: Any, types: Sequence[TensorType]) -> _Calls:
        """What is known of calls with a signature."""
        calls = self._calls.get(signature)
        if calls is None:
            if len(self._calls) >= MOST_SIGNATURES:
                self._calls.clear()
                self._recent.clear()
                self._waiting.clear()
            calls = self._calls[signature] = _Calls(sized=not all(type.is_static for type in types))
        return calls

    def _plain_key(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What tells two calls apart that are made with tensors, numbers and texts only, as long as guards hold; None for other calls."""
        key: list[Any] = [(tape.is_grad_enabled(), default_dtype(), MANNER.key(), call_key())]
        for arg in args:
            if isinstance(arg, Tensor) and isinstance(arg._value, np.ndarray):
                key.append((arg._value.dtype, arg._value.shape, arg.stop_gradient))
            elif arg.__class__ in _PLAIN:
                key.append((arg.__class__, arg if arg else repr(arg)))
            elif arg.__class__ is np.ndarray and is_tensor(arg):
                key.append((arg.dtype, arg.shape, np.ndarray))
            else:
                return None
        return tuple(key)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments in one form: positional and keyword forms of one call, and defaults left out or given, are one signature. None for
        such as do not fit.
        """
        if any(a is not b for a, b in zip(self._given, _defaults_of(self._function), strict=True)):
            self._read_signature()
        if not kwargs and self._defaults is not None and 0 <= (missing := self._arity - len(args)) <= len(self._defaults):
            return (*args, *self._defaults[len(self._defaults) - missing :]), kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        return bound.args, dict(bound.kwargs)

    def _input_types(self, template: Template, inputs: Sequence[Tensor]) -> tuple[list[TensorType], tuple[str, ...]]:
        """The types that the inputs are traced with, and their texts."""
        shapes = (template, *((t.type.dtype.name, t.type.shape) for t in inputs))
        checked = self._checked.get(shapes)
        if checked is None:
            types = self._types(template, inputs) if self.input_spec is not None else self._types_so_far(template, inputs)
            checked = types, tuple(map(str, types))
            if len(self._checked) >= MOST_SHAPES:
                self._checked.clear()
            self._checked[shapes] = checked
        return checked


    def _run(
        self,
        calls: _Calls,
        template: Template,
        types: Sequence[TensorType],
        inputs: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        given, shapes = (args, kwargs), shapes_of(inputs)
        leaves: list[Any] = []
        flatten(given, leaves, is_tensor)
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        fitting = [whole for whole in calls.wholes if whole.fits(shapes)]
        for whole in fitting:
            found = whole.check(given)
            if found is not None:
                calls.again = True
                calls.wholes.remove(whole)
                calls.wholes.insert(0, whole)
                return self._called(whole, found, inputs, args, kwargs)
        reason = calls.gathered or calls.refused.get(shapes)
        if not reason and (changing := self._keeps_changing(calls, fitting, given)) is not None:
            if self._fix_numbers(template, types):
                return self(*args, **kwargs)
            reason = self._refuse(changing)
        if not reason and not calls.made and not self.full_graph and self._is_one_of_many(calls, template, types):
            reason = self._refuse(NotWhole("its arguments are other texts or objects at call after call", _location(self._function)))
        if not reason and calls.made >= MOST_SIZES and not self.full_graph:
            reason = self._refuse(NotWhole("its arguments have other sizes at call after call", _location(self._function)))
        if not reason:
            # Alone: until it has run, what it writes is as it was, and would be counted from there by another capture.
            with ExitStack() as alone:
                alone.enter_context(ONE)
                if any(whole.fits(shapes) and whole not in fitting for whole in calls.wholes):
                    alone.close()
                    return self._run(calls, template, types, inputs, args, kwargs)  # since another thread has made one
                try:
                    calls.made += 1
                    whole = self._capture_sized(calls, template, types, inputs, shapes, arrays)
                    if _may_wait(whole):
                        alone.close()
                    found = whole.check(given)
                    if found is not None:
                        try:
                            result = self._called(whole, found, inputs, args, kwargs)
                        except PolyremeError:
                            # Not all code can be made with sizes that nobody said were free: gradients of some slices cannot.
                            if self.input_spec is not None or free_axes(types) <= calls.numbered:
                                raise
                            calls.numbered = free_axes(types)
                            whole = self._capture_sized(calls, template, types, inputs, shapes, arrays)
                            found = whole.check(given)
                            result = None if found is None else self._called(whole, found, inputs, args, kwargs)
                    if found is not None:
                        calls.wholes.insert(0, whole)
                        del calls.wholes[MOST_SIZES:]
                        return result
                    reason = self._refuse(
                        NotWhole(f"'{whole.guards.failing(given)}' does not hold when it was just read", _location(self._function))
                    )
                except NotWhole as refused:
                    reason = self._refuse(refused)
                    if calls.sized and len(calls.refused) < MOST_REFUSED:
                        calls.refused[shapes] = reason
        if shapes not in calls.refused:
            calls.gathered = reason
        return self._gather(args, kwargs)


    def _is_one_of_many(self, calls: _Calls, template: Template, types: Sequence[TensorType]) -> bool:
        """Whether many signatures that differ from a new one in texts and objects only wait for a second call."""
        waiting = self._waiting.setdefault((_with_kinds(template), tuple(map(str, types))), [])
        if len(waiting) >= MOST_WAITING:
            waiting[:] = [known for known in waiting if not known.again]
        if len(waiting) >= MOST_WAITING:
            return True
        waiting.append(calls)
        return False

    def _called(self, whole: Whole, found: tuple[Any, ...], inputs: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result by a program whose guards hold."""
        try:
            return whole(found, inputs)
        except CheckFailed:
            return self._as_written(args, kwargs)
        except CallError:
            if self.full_graph or self.input_spec is not None or whole.freed is not None:
                raise
            return self._as_written(args, kwargs)  # which says what is amiss in its own words, if it is

    def _as_written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What Python does: the call of a program that has found what it checks not to hold, and changed nothing."""
        return self._function(*args, **kwargs)

    def _capture_sized(
        self,
        calls: _Calls,
        template: Template,
        types: Sequence[TensorType],
        inputs: Sequence[Tensor],
        shapes: Shapes,
        arrays: Sequence[Any],
    ) -> Whole:
        """A program for a call, with free sizes as far as the function, and the call, go with them."""
        axes, free = calls.numbered, free_axes(types)
        first: NotWhole | None = None
        refusing: Whole | None = None
        while True:
            try:
                whole = self._capture(template, with_numbers(types, shapes, axes), inputs, calls.changed, arrays)
            except NotWhole as refused:
                if (
                    self.input_spec is not None
                    and refusing is not None
                    and refusing.program is not None
                    and not is_accepted(refusing.program.traced, shapes)
                ):
                    return refusing  # which says what was expected of the sizes
                if axes >= free:
                    reason = first if first is not None and self.input_spec is not None else refused
                    raise reason from reason.__cause__
                first = first or refused
                cause = refused.__cause__
                wanted = free.intersection(cause.axes) - axes if isinstance(cause, UnknownSizeError) else None
                axes |= wanted or free
                continue
            for remark in whole.remarks:
                notes.remark(self._name, remark, _location(self._function))
            if first is not None:
                calls.numbered = axes
            if first is not None and self.input_spec is not None:
                notes.remark(self._name, f"sizes are numbers that were left free: {first.reason}", first.location)
            if whole.fits(shapes) or axes >= free:
                return refusing if refusing is not None and not whole.fits(shapes) else whole
            axes, refusing = free, whole

    def _keeps_changing(self, calls: _Calls, fitting: Sequence[Whole], given: Any) -> NotWhole | None:
        """Why no further program is made for this signature; None if one is. `fitting` are those for these sizes, whose guards do not hold.
        """
        if not fitting:
            return None
        failing = fitting[0].guards.failing(given)
        said = str(failing.source.said()) if failing is not None else "a tensor that is read"
        number = failing is not None and _is_number(failing.constants)
        # A whole number that is read at each call, and whose value matters all the same, may choose between a few ways.
        few = said in calls.changed and failing is not None and type(failing.constants[-1]) is int
        times = calls.changed[said] = calls.changed.get(said, 0) + 1
        for guard in fitting[0].guards.all_failing(given):
            if _is_number(guard.constants):
                calls.changed.setdefault(guard.source.said(), 1)
        if len(fitting) < (MOST_SIZES if self.full_graph else MOST_PROGRAMS) and not (
            number and not self.full_graph and times >= (MOST_CHOICES if few else MOST_NUMBERS)
        ):
            return None
        return NotWhole(f"'{said}' is another at call after call", _location(self._function))

    def _refuse(self, refused: NotWhole) -> str:
        """The function is no whole program, since …: an error with `full_graph`, else a note."""
        if self.full_graph:
            cause = refused.__cause__
            if cause is not None:
                raise cause
            raise TraceError(
                f"{refused.reason}; to_static without full_graph=True runs what is between such places compiled", refused.location
            )
        place = refused.location.file, refused.location.line, refused.reason
        if place not in self._refused:
            notes.say(self._name, refused.reason, refused.location)
        self._refused[place] = self._refused.get(place, 0) + 1
        self._never_whole = self._never_whole or self._refused[place] >= MOST_REFUSED
        return refused.reason

    def _is_small(self) -> bool:
        """Whether so little is computed between two looks at values that noting it first would cost more than it saves; of another call
        that is gathered.
        """
        self._gathered_calls += 1
        return self._gathered_calls > LOCATED_CALLS and self._gathered_calls % LOOKED_AGAIN != 0 and not self._segments.large

    def _gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._plainly(args, kwargs) if self._is_small() else self._noted(args, kwargs)

    def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function as the Python that it is."""
        return self._function(*args, **kwargs)

    def _noted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function while its ops are gathered."""
        self._segments.large = False
        return call_gathered(self._function, args, kwargs, self._segments, locating=self._gathered_calls <= LOCATED_CALLS)

    def _capture(
        self,
        template: Template,
        types: Sequence[TensorType],
        inputs: Sequence[Tensor],
        moving: dict[str, int],
        arrays: Sequence[Any],
    ) -> Whole:
        shape = _without_numbers(template, _NUMBERS), tuple(map(str, types)), _stands_for_any(template)
        times = self._captured[shape] = self._captured.get(shape, 0) + 1
        # Integers often choose between a few ways; other numbers come from a schedule as a rule.
        if times > (MOST_SIZES if self.full_graph else MOST_NUMBERS + 1 if _has_float(template) else MOST_PROGRAMS):
            reason = "its arguments have other numbers" if _has_number(template) else "what it reads is another"
            raise NotWhole(f"{reason} at call after call", _location(self._function))
        self.last_arguments = (
            template,
            list(types) if self.input_spec is not None else [t.type for t in inputs],
            [t.stop_gradient for t in inputs],
        )
        names = [_identifier(name) for name in self._input_names(template)]
        given = list(zip(types, names, [t.stop_gradient for t in inputs], strict=True))
        parameters = [p.name for p in self._signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        count = len(template.parts[0].parts)
        parameters = [*parameters, *(f"arguments[{i}]" for i in range(count))][:count] if len(parameters) < count else parameters

        def tried(flow: bool, with_numbers: bool) -> Whole:
            where = _location(self._function)
            while True:
                try:
                    return capture(
                        self._function,
                        template,
                        given,
                        inputs,
                        parameters,
                        self.layer,
                        _named_tensors(self.layer),
                        self._name,
                        where,
                        moving,
                        flow,
                        self.full_graph,
                        with_numbers,
                        arrays,
                    )
                except NumbersChange as change:
                    moving.update(dict.fromkeys(change.names, 0))

        def made(with_numbers: bool) -> Whole:
            try:
                return tried(False, with_numbers)
            except NotWhole as refused:
                cause = refused.__cause__
                if not refused.decided and (not isinstance(cause, PolyremeError) or cause.diagnostics[0].code != "E0502"):
                    raise
            # Python needs the value of a tensor: as a rule since that decides something.
            return tried(True, with_numbers)

        try:
            return made(True)
        except NotWhole as refused:
            if not refused.by_numbers:
                raise
        self._fix_numbers(template, types)
        return made(False)

    def _fix_numbers(self, template: Template, types: Sequence[TensorType]) -> bool:
        """Have calls with other numbers be signatures of their own from now on, where some are one so far; whether that is so."""
        if _stands_for_any(template):
            self._fixed_numbers.add((_without_numbers(template, _NUMBERS), tuple(map(str, types))))
        return _stands_for_any(template)

    def _with_numbers_so_far(self, template: Template, texts: tuple[str, ...]) -> Template:
        """The template in which a float that was another one at an earlier call stands for any, and so does a whole number of which there
        were many.
        """
        values = tuple(_numbers_in(template))
        if not values:
            return template
        alike = _without_numbers(template, _NUMBERS), texts
        if alike in self._fixed_numbers:
            return template
        known = self._numbers.get(alike)
        if known is None:
            if len(self._numbers) >= MOST_SIGNATURES:
                self._numbers.clear()
            known = self._numbers[alike] = values, set(), {}
        first, moved, seen = known
        new = {i for i, (a, b) in enumerate(zip(first, values, strict=True)) if i not in moved and Plain(a) != Plain(b)}
        for i in new:
            seen.setdefault(i, set()).add(values[i])
        moved.update(i for i in new if isinstance(values[i], (float, np.inexact)) or len(seen[i]) > MOST_CHOICES)
        return _with_numbers(template, moved, itertools.count()) if moved else template

    def _types(self, template: Template, inputs: Sequence[Tensor]) -> list[TensorType]:
        """The inputs' types with the sizes that the specs leave free; an input that does not fit is an error that names it."""
        names = self._input_names(template)
        specs = self._leaf_specs(template)
        types = []
        sizes: dict[str, tuple[int, str]] = {}
        for name, spec, expected, tensor in zip(names, specs, input_types(specs, names), inputs, strict=True):
            actual = tensor.type
            if spec is None or expected is None:
                types.append(actual)
                continue
            if spec.dtype.scalar != actual.dtype:
                raise TypeError(f"expected dtype {spec.dtype.name} for the input '{name}' but got {tensor.dtype.name}")
            if len(expected.shape) != len(actual.shape) or not all(map(_fits, expected.shape, actual.shape)):
                raise ValueError(
                    f"expected shape [{', '.join(map(str, expected.shape))}] for the input '{name}' but got {list(tensor.shape)}"
                )
            for dim, size in zip(expected.shape, actual.shape, strict=True):
                if isinstance(dim, Expr):
                    known, where = sizes.setdefault(str(dim), (size, name))  # type: ignore[arg-type]
                    if known != size:
                        raise ValueError(
                            f"expected {dim} = {known} for the input '{name}', as '{where}' has it, but got {size} in {list(tensor.shape)}"
                        )
            types.append(expected)
        return types

    def _types_so_far(self, template: Template, inputs: Sequence[Tensor]) -> list[TensorType]:
        """The inputs' types, with free sizes at axes that had another size at an earlier call; but 0 and 1, which ops take otherwise than
        other sizes, stay numbers.
        """
        alike = template, tuple((t.type.dtype, t.type.rank) for t in inputs)
        shapes = shapes_of(inputs)
        first, changed = self._sizes.get(alike, (shapes, frozenset()))
        changed |= {(i, axis) for i, (a, b) in enumerate(zip(first, shapes, strict=True)) for axis in range(len(a)) if a[axis] != b[axis]}
        if len(self._sizes) >= MOST_SIGNATURES:
            self._sizes.clear()
        self._sizes[alike] = first, changed
        free = {(i, axis) for i, axis in changed if shapes[i][axis] > 1}
        if not free:
            return [t.type for t in inputs]
        specs = [
            InputSpec([None if (i, axis) in free else size for axis, size in enumerate(t.type.shape)], t.dtype)
            for i, t in enumerate(inputs)
        ]
        return input_types(specs, self._input_names(template))

    def _parameters(self) -> list[str]:
        return [p.name for p in self._signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def _input_names(self, template: Template) -> list[str]:
        """What messages and the IR call each tensor among the arguments."""
        positional, named = template.parts
        parameters = list(self._signature.parameters.values())
        names: list[str] = []
        for i, part in enumerate(positional.parts):
            last = parameters[min(i, len(parameters) - 1)]
            rest = last.kind is inspect.Parameter.VAR_POSITIONAL
            names += paths(part, f"{last.name}[{i - len(parameters) + 1}]" if rest else last.name)
        for key, part in zip(named.keys, named.parts, strict=True):
            names += paths(part, str(key))
        specs = self._leaf_specs(template)
        return [spec.name if spec is not None and spec.name else name for spec, name in zip(specs, names, strict=True)]

    def _leaf_specs(self, template: Template) -> list[InputSpec | None]:
        """The spec of each tensor among the arguments, None where there is none."""
        positional, named = template.parts
        specs: list[InputSpec | None] = []
        for i, part in enumerate(positional.parts):
            count = sum(1 for _ in paths(part, ""))
            given: list[Any] = []
            if self.input_spec is not None and i < len(self.input_spec):
                flatten(self.input_spec[i], given, lambda v: isinstance(v, InputSpec))
            if given and len(given) != count:
                raise ValueError(f"expected {len(given)} tensors in argument {i} of '{self._name}', as in its input_spec, but got {count}")
            specs += given or [None] * count
        return specs + [None] * sum(1 for part in named.parts for _ in paths(part, ""))

    # --- tracing


    def _trace(
        self, template: Template, types: Sequence[TensorType], stop_gradients: Sequence[bool], examples: Shapes | None = None
    ) -> Traced:
        names = [_identifier(name) for name in self._input_names(template)]

        def arguments(stand_ins: Iterable[Tensor]) -> Any:
            return unflatten(template, iter(stand_ins))

        inputs = list(zip(types, names, stop_gradients, strict=True))
        return trace_watched(
            self._function, arguments, inputs, _named_tensors(self.layer), self.layer, self._name, _location(self._function), examples
        )

    def trace(self, input_spec: Sequence[Any] | None = None) -> Traced:
        """The program for inputs described by specs (or tensors), by default those of the Layer, or else of the call that was traced last,
        whatever its other arguments default to.
        """
        if input_spec is None and self.input_spec is None and self.last_arguments is not None:
            return self._trace(*self.last_arguments)
        with self._described(input_spec) as (template, leaves):
            types = input_types(leaves, self._input_names(template))
            return self._trace(template, types, [spec.stop_gradient for spec in leaves])

    def captured(self, input_spec: Sequence[Any] | None = None) -> TracedProgram:
        """The program of a call with inputs described by specs (or tensors), a step of training say: the function is watched as by such a
        call, with data that needs no gradients, and the program is not run. An optimizer has its first state then.
        """
        with self._described(input_spec) as (template, leaves):
            types = input_types(leaves, self._input_names(template))
            inputs = []
            for kind in types:
                shape = [dim if isinstance(dim, int) else evaluate(dim, dict.fromkeys(symbols_of(dim), ANY_SIZE)) for dim in kind.shape]
                inputs.append(Tensor._wrap(np.zeros(shape, kind.dtype.np)))
            try:
                whole = self._capture_sized(_Calls(), template, types, inputs, shapes_of(inputs), ())
            except NotWhole as refused:
                raise refused.__cause__ or TraceError(refused.reason, refused.location) from None
        if whole.program is None:
            raise TraceError(f"expected '{self._name}' to compute something with tensors", _location(self._function))
        return whole.program

    @contextlib.contextmanager
    def _described(self, input_spec: Sequence[Any] | None) -> Iterator[tuple[Template, list[Any]]]:
        """How arguments of these specs, or those of the function, nest, and the specs one by one; meanwhile they are the function's."""
        specs = _check_specs(input_spec) if input_spec is not None else self.input_spec
        if specs is None:
            several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            names = [p.name for p in self._signature.parameters.values() if p.default is p.empty and p.kind not in several] or ["x"]
            example = ", ".join(f"InputSpec([None, 10], 'float32', '{name}')" for name in names)
            raise TraceError(
                f"expected an input_spec that says what '{self._name}' takes; give one, such as [{example}], or to `polyreme inspect`, "
                f"`compile`, `bench` and `bisect` --input '{names[0]}=f32[N,10]'",
                _location(self._function),
                code="E0503",
            )
        try:
            bound = self._signature.bind(*specs)
        except TypeError as error:
            raise TraceError(
                f"expected an input_spec for '{self._name}({', '.join(self._signature.parameters)})' but {error}",
                _location(self._function),
                code="E0503",
            ) from None
        bound.apply_defaults()
        leaves: list[Any] = []
        template = flatten((bound.args, dict(bound.kwargs)), leaves, lambda v: isinstance(v, InputSpec))
        saved, self.input_spec = self.input_spec, specs
        try:
            yield template, leaves
        finally:
            self.input_spec = saved

    def programs(self) -> list[TracedProgram]:
        """The programs there are so far: of whole calls, then of segments that were gathered."""
        wholes = sorted((whole for calls in self._calls.values() for whole in calls.wholes), key=lambda whole: whole.order)
        return [whole.program for whole in wholes if whole.program is not None] + self._segments.programs()

    @property
    def name(self) -> str:
        """What messages call it: the Layer's class, or the function's name."""
        return self._name

    def known_calls(self) -> list[_Calls]:
        """What is known of calls, by signature."""
        return list(self._calls.values())

    def breaks(self) -> list[str]:
        """Where calls are no single programs, and why; then where Python asked for values."""
        refused = [f"{Location(file, line)}: {reason}" for file, line, reason in self._refused]
        return list(dict.fromkeys([*refused, *map(str, self._segments.breaks.values())]))

    def concrete_programs(self) -> list[Traced]:
        """Everything traced so far."""
        return [program.traced for program in self.programs()]


def _defaults_of(function: Any) -> tuple[Any, Any]:
    return getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)


def _may_wait(whole: Whole) -> bool:
    """Whether a run of a program may wait for other threads: the other ranks of a collective call, or what a Python function waits for."""
    return whole.program is not None and any(op.dialect in ("dist", "host") for op in whole.program.traced.func.walk())


_PLAIN = frozenset({bool, int, float, str, type(None)})
_NUMBERS = (int, float, complex, np.number)


def _without_numbers(template: Template, kinds: tuple[type, ...]) -> Any:
    """A template in which numbers of these kinds are only said to be some."""
    if isinstance(template, Nested):
        return template.kind, template.keys, tuple([_without_numbers(part, kinds) for part in template.parts])
    if isinstance(template, Plain) and isinstance(template.value, kinds) and not isinstance(template.value, bool):
        return type(template.value)
    return template


def _with_kinds(template: Template) -> Any:
    """A template in which it is only said of what kind texts and objects are; flags are as they are."""
    if isinstance(template, Nested):
        return template.kind, template.keys, tuple(map(_with_kinds, template.parts))
    if not isinstance(template, Plain) or isinstance(template.value, (bool, type(None))):
        return template
    return type(template.value)


def _moves(template: Template) -> bool:
    """Whether it is a number that may stand for any of its type."""
    return isinstance(template, Plain) and (type(template.value) in (int, float) or isinstance(template.value, np.number))


def _numbers_in(template: Template) -> Iterator[Any]:
    if isinstance(template, Nested):
        for part in template.parts:
            yield from _numbers_in(part)
    elif _moves(template):
        yield template.value


def _with_numbers(template: Template, moved: Container[int], count: Iterator[int]) -> Template:
    """A template in which of its numbers those that `moved` stand for any."""
    if isinstance(template, Nested):
        parts = tuple([_with_numbers(part, moved, count) for part in template.parts])
        return Nested(template.kind, template.keys, parts, template.exact)
    if _moves(template):
        return Number(template.value) if next(count) in moved else template
    return template


def _stands_for_any(template: Template) -> bool:
    return any(map(_stands_for_any, template.parts)) if isinstance(template, Nested) else isinstance(template, Number)


def _is_number(constants: Sequence[Any]) -> bool:
    return any(isinstance(c, (int, float, np.generic, np.ndarray)) and not isinstance(c, bool) for c in constants)


def _has_number(template: Template) -> bool:
    if isinstance(template, Nested):
        return any(map(_has_number, template.parts))
    return isinstance(template, Plain) and isinstance(template.value, _NUMBERS) and not isinstance(template.value, bool)


def _has_float(template: Template) -> bool:
    if isinstance(template, Nested):
        return any(map(_has_float, template.parts))
    return isinstance(template, Plain) and not isinstance(template, Number) and isinstance(template.value, (float, complex, np.inexact))


def _check_specs(specs: Any) -> list[Any] | None:
    """Specs as a list, tensors among them described; anything else stays an argument's value."""
    if specs is None:
        return None
    if isinstance(specs, (InputSpec, Tensor, str)) or not isinstance(specs, Iterable):
        raise TypeError(f"expected input_spec to be a list of InputSpec but got {type(specs).__name__}")

    def described(value: Any) -> Any:
        if isinstance(value, Tensor):
            return InputSpec.from_tensor(value)
        if isinstance(value, np.ndarray):
            return InputSpec.from_numpy(value)
        if isinstance(value, (list, tuple)):
            return type(value)(described(v) for v in value)
        return {k: described(v) for k, v in value.items()} if isinstance(value, dict) else value

    return [described(spec) for spec in specs]


def _fits(expected: Dim, actual: Dim) -> bool:
    return expected == actual or isinstance(expected, Expr) and len(symbols_of(expected)) == 1


def _tensor(array: Any) -> Tensor:
    from polyreme.math.creation import to_tensor

    return to_tensor(array)


def _has_arrays(value: Any) -> bool:
    """Whether an argument is an array, or a list, tuple or dict that holds one."""
    if isinstance(value, dict):
        return any(map(_has_arrays, value.values()))
    return isinstance(value, np.ndarray) or isinstance(value, (list, tuple)) and any(map(_has_arrays, value))


@contextmanager
def _tensors_of_arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments, with a tensor in place of each array, and copies of the lists and dicts around them; what is written to the tensor is
    in the array behind the `with`.
    """
    made: list[tuple[Any, Tensor, int]] = []

    def of(value: Any) -> Any:
        if not _has_arrays(value):
            return value
        if not isinstance(value, np.ndarray):
            parts: list[Any] = []
            template = flatten(value, parts, is_part)
            return unflatten(template, iter(list(map(of, parts))))
        tensor = next((t for array, t, _ in made if array is value), None)
        if tensor is None:
            tensor = _tensor(value)
            made.append((value, tensor, tensor._version))
        return tensor

    is_part = lambda value: not isinstance(value, (list, tuple, dict))
    try:
        yield tuple(map(of, args)), {name: of(arg) for name, arg in kwargs.items()}
    finally:
        for array, tensor, version in made:
            if tensor._version != version:
                array[...] = tensor.numpy()


def _named_tensors(layer: Any) -> dict[str, Tensor]:
    """Parameters and buffers by structured name, and the random generator's state."""
    from polyreme.random import default_generator

    named = {"random_state": default_generator().state}
    if layer is not None:
        named.update(layer.named_parameters())
        named.update((name, buffer) for name, buffer in layer.named_buffers() if buffer is not None and buffer._value is not None)
    return named


def _location(function: Callable[..., Any]) -> Location:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or (function.__module__ or "").split(".")[0] == "polyreme":
        return Location()
    return Location(code.co_filename, code.co_firstlineno)


def _identifier(name: str) -> str:
    """An input's name as the IR and a C header can have it: `x[0]['a']` is `x_0_a`."""
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.replace("'", ""))
    while "__" in text:
        text = text.replace("__", "_")
    text = text.strip("_") or "x"
    return text if not text[0].isdigit() else f"x{text}"
