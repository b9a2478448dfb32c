"""The state of a capture: what the function has read, with guards for it, and what it has written."""

from __future__ import annotations

import types
from collections.abc import Callable, Container
from typing import Any, NoReturn

import numpy as np

from polyreme import device, dtypes
from polyreme.ir.core import OpResult, Value
from polyreme.ir.diagnostics import Location, caller_location
from polyreme.jit.capture.effects import Journal
from polyreme.jit.capture.instrument import NoTwin, twin_of
from polyreme.jit.capture.kinds import CONSTANTS, FUNCTIONS, LISTS, PLAIN_VALUES, has_operators, is_enumeration
from polyreme.jit.capture.sources import Attribute, Fixed, FunctionOf, Guard, Item, Source
from polyreme.jit.structure import exactly
from polyreme.nn.layer import Layer
from polyreme.nn.tables import Table
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["Changing", "ChangingArray", "ChangingNumber", "NotWhole", "NumbersChange", "Watched", "is_counted"]

MOST_ELEMENTS = 4096  # of containers that are guarded, all together
MOST_BYTES = 1 << 16  # of arrays whose contents are guarded
MOST_DEPTH = 64  # of calls


class NotWhole(BaseException):
    """What a function does cannot be one program: why, and at which line; `decided` where a branch or loop of the program may do it. No
    error, so that nobody but the capture catches it.
    """

    def __init__(self, reason: str, location: Location | None = None, decided: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.decided = decided
        self.by_numbers = False  # whether the function met a `ChangingNumber`: with constants in their places it may be one program
        self.placed = location is not None
        self.location = caller_location() if location is None else location


class NumbersChange(Exception):
    """A function gives numbers that it reads, called like this, other values: those are others at the next call."""

    def __init__(self, names: frozenset[str]):
        super().__init__(names)
        self.names = names


class Changing:
    """What is another at each call: its value in the call that is captured, and where it is found. Whoever looks at it without knowing what
    it is ends the capture.
    """

    __slots__ = ("is_true", "source", "value")

    def __init__(self, value: Any, source: Source):
        self.value = value
        self.source = source
        self.is_true: bool | None = None  # once that is guarded

    def __bool__(self) -> bool:
        return self._is_looked_at() if self.is_true is None else self.is_true

    def _is_looked_at(self, *_: Any) -> NoReturn:
        raise NotWhole(f"'{self.source.said()}', which is another at call after call, is looked at by code that is not watched")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _is_looked_at
    __hash__ = __int__ = __float__ = __index__ = __str__ = __format__ = _is_looked_at
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _is_looked_at
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __round__ = _is_looked_at
    __array__ = __len__ = __iter__ = __getitem__ = __setitem__ = __contains__ = __matmul__ = __rmatmul__ = _is_looked_at
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __invert__ = _is_looked_at


class ChangingNumber(Changing):
    """A whole number or a float of Python's that is another one at each call, such as a counter of steps. `changing.py` says what becomes
    of it.
    """

    __slots__ = ()


class ChangingArray(Changing):
    """An array, or a number, of NumPy's that may have other elements at each call: an argument, or what NumPy computes of one. `arrays.py`
    says what becomes of it.
    """

    __slots__ = ("free", "tensor")

    def __init__(self, value: Any, source: Source, tensor: Tensor | None, free: tuple[Any, ...]):
        super().__init__(value, source)
        self.tensor = tensor  # what the program is given of an argument
        self.free = free  # sizes that NumPy has computed with, which a program may leave free


class Watched:
    """One capture: what it has read, with guards, and what it has written."""

    def __init__(
        self,
        flow: bool = False,
        as_one_program: bool = False,
        stands_alone: bool = False,
        moving: Container[str] = (),
        with_numbers: bool = False,
    ) -> None:
        """With `flow` what tensors decide becomes branches and loops; `as_one_program` numbers among it may leave the function as tensors.
        A program that `stands_alone`, as it is saved, does nothing outside of itself. What is called as in `moving` was another one at
        another call: numbers there are a `ChangingNumber` each, `with_numbers`.
        """
        self.moving = moving
        self.with_numbers = with_numbers
        self.changing = False  # whether there is one
        # For each container, elements that change at each call, which nobody has looked at otherwise yet.
        self.changing_elements: dict[int, dict[Any, Changing]] = {}
        self.number_tensors: dict[tuple[int, Any], Tensor] = {}  # what of them, and of arrays, is an argument, by dtype
        self.stands_alone = stands_alone
        self.flow = flow
        self.as_one_program = as_one_program
        self.numbers: set[Value] = set()  # values of the program that Python would have as numbers
        self.kinds_of_numbers: dict[Value, frozenset[str]] = {}  # of those that may be of several kinds (b, i, f)
        self.tensors_or_numbers: set[Value] = set()  # those that are numbers where a loop does not run alone
        self.rounded_numbers: set[Value] = set()  # those of which Python would have more digits
        self.born: list[set[int]] = []  # for each body that is being run, what was made in it
        self.guards: list[Guard] = []
        self.sources: dict[int, Source] = {}  # of objects outside, by identity
        self.held: list[Any] = []  # keeps what identities are of alive
        self.read: dict[Any, Any] = {}  # what was read once, by where
        self.expanded: set[int] = set()  # containers and Layers whose contents are guarded
        self.given: set[int] = set()  # lists and dicts that stand for arguments
        self.written: set[tuple[int, Any]] = set()  # attributes that hold what the function put there
        self.journal = Journal()
        self.effects: list[tuple[str, Any, Any, tuple[Any, ...]]] = []
        self.optimizers: dict[Any, Any] = {}  # whose steps the function takes, or whose gradients it clears, and their state before
        self.casts = False  # whether the function enters a region that casts
        self.names: dict[str, int] | None = None  # how far names were counted before that
        self.inner: set[types.CodeType] = set()
        self.elements = 0
        self.depth = 0
        self.wrapped: dict[int, Any] = {}
        self.outside_tensors: set[int] = set()
        self.owners: dict[int, Tensor] = {}  # of arrays, the tensors outside that have them
        self.shared: set[int] = set()  # arrays that several have

    # --- reading

    def guard(self, source: Source, test: str, *constants: Any, message: str, counted: bool = False) -> None:
        self.guards.append(Guard(source, test, constants, message, counted))

    def note(self, value: Any, source: Source, counted: bool = False) -> Any:
        """`value` was read at `source`: guard what was learned by that. With `counted` a change is counted by Layers, as it is of their
        attributes.
        """
        counted = counted or isinstance(source, Attribute) and source.of_layer
        kind = type(value)
        if kind in CONSTANTS:
            self._constant(value, source, counted)
            return value
        self.check_operators(value, source)
        known = self.sources.get(id(value))
        if known is not None:
            if known is not source:
                # The same object twice: what is written to the one is read from the other.
                self.guard(source, "{0} is {1}", known, message=f"is {known.said()}", counted=counted and is_counted(known))
            return value
        if isinstance(value, (Tensor, Layer)):
            self.register(value, source)
            if isinstance(value, Tensor):
                # That it is a tensor, and of which shape, is seen without any op that takes it.
                self.guard(
                    source,
                    "{0}.__class__ is {1} and {0}.type == {2}",
                    kind,
                    value.type,
                    message=f"is a tensor of type {value.type}",
                    counted=counted,
                )
                self.outside_tensors.add(id(value))
                if self.owners.setdefault(id(value._value), value) is not value:
                    self.shared.add(id(value._value))
            else:
                self.guard(source, "{0}.__class__ is {1}", kind, message=f"is a {kind.__name__}", counted=True)
                if not counted:
                    self.guard(source, "{0} is {1}", value, message=f"is the same {kind.__name__}")
        elif kind is tuple or isinstance(value, tuple) and hasattr(value, "_fields"):
            self.register(value, source)
            self.guard(
                source, "{0}.__class__ is {1} and len({0}) == {2}", kind, len(value), message=f"is a tuple of {len(value)}", counted=counted
            )
            for i, element in enumerate(value):
                self.note(element, Item(source, i), counted)
        elif kind in LISTS:
            self.register(value, source)
            self.guard(source, "{0}.__class__ is {1}", kind, message=f"is a {kind.__name__}", counted=counted)
        elif isinstance(value, np.ndarray):
            self._array(value, source)
        elif isinstance(value, (*FUNCTIONS, type, types.ModuleType, dtypes.dtype, device.Place, np.dtype, np.generic)) or is_enumeration(
            value
        ):
            if kind is types.MethodType:
                self._method(value, source)
            elif isinstance(value, np.generic):
                # By its bytes: a zero has a sign, and nan is not equal to itself.
                same = "{0} == {2}" if value.dtype.hasobject else "{0}.dtype == {2}.dtype and {0}.tobytes() == {3}"
                self.guard(source, f"{{0}}.__class__ is {{1}} and {same}", kind, value, value.tobytes(), message=f"is {value!r}")
            elif kind is not types.BuiltinFunctionType or value.__self__ is None or isinstance(value.__self__, (types.ModuleType, type)):
                self.register(value, source)
                self.guard(
                    source,
                    "{0} is {1}",
                    value,
                    message=f"is {getattr(value, '__qualname__', None) or getattr(value, '__name__', value)}",
                    counted=counted,
                )
            else:
                raise NotWhole(f"'{source.said()}' is a method of an object that is not known")
        elif isinstance(value, (int, float, complex, str, bytes, tuple, frozenset)):
            # Of a class of the user's: what it holds cannot change, unless it has attributes.
            if getattr(value, "__dict__", None):
                raise NotWhole(f"'{source.said()}' is a {kind.__name__} with attributes")
            self.register(value, source)
            self.guard(source, "{0} is {1}", value, message=f"is the same {kind.__name__}", counted=counted)
            for i, element in enumerate(value if isinstance(value, tuple) else ()):
                self.note(element, Item(source, i), counted)
        else:
            self.register(value, source)
            self.guard(source, "{0}.__class__ is {1}", kind, message=f"is a {kind.__name__}", counted=counted)
        return value

    def take(self, value: Any, source: Source, changes: bool = False) -> Any:
        """As `note`, of what the watched function itself reads: a number that is another one at each call (which is known of some) is known
        as such.
        """
        if type(value) in (int, float) and self.with_numbers and (changes or source.said() in self.moving):
            return self.changing_number(value, source)
        if isinstance(value, np.generic) and self.with_numbers and (changes or source.said() in self.moving):
            self.changing = True
            return self._of_numpy(value, source)
        if type(value) is np.ndarray and not self.stands_alone and (value.nbytes > MOST_BYTES or source.said() in self.moving):
            return self._of_numpy(value, source)
        return self.note(value, source)

    def _of_numpy(self, value: Any, source: Source) -> Any:
        """An array or a number outside, which is read at each call."""
        if value.dtype.kind not in "biufc" or id(value) in self.sources:
            return self.note(value, source)
        self.guard(source, "{0}.__class__ is {1}", type(value), message=f"is a {type(value).__name__}")
        return self.changing_array(value, source)

    def changing_array(self, value: Any, source: Source, tensor: Tensor | None = None, free: tuple[Any, ...] = ()) -> ChangingArray:
        """An array or a number of NumPy's that is given, or computed, anew at each call."""
        made = ChangingArray(value, source, tensor, free)
        self.register(made, source)
        return made

    def changing_number(self, value: int | float, source: Source) -> ChangingNumber:
        """A number that is read, or computed, anew at each call."""
        made = ChangingNumber(value, source)
        self.changing = True
        self.register(made, source)
        self.guard(source, "{0}.__class__ is {1}", type(value), message=f"is a {type(value).__name__}")
        return made

    def computed(self, function: Callable[..., Any], *operands: Any) -> Any:
        """`function` of numbers, which looks at nothing else: a number that Python computes before each run. What is none is a guard."""
        value = function(*[v.value if isinstance(v, Changing) else v for v in operands])
        source = FunctionOf(function, tuple([v.source if isinstance(v, Changing) else v for v in operands]))
        if type(value) is tuple and all(type(part) in (int, float) for part in value):
            return tuple([self.changing_number(part, Item(source, i)) for i, part in enumerate(value)])
        return self.changing_number(value, source) if type(value) in (int, float) else self.note(value, source)

    def pinned(self, value: Any) -> Any:
        """The value, which is the same at each call from here on if it is a number."""
        if type(value) is ChangingNumber or type(value) is ChangingArray and isinstance(value.value, np.generic):
            return self.note(value.value, value.source)
        return value

    def element(self, held: Any, key: Any) -> Any:
        """`held[key]`, of a list or dict that was expanded with `but_numbers`."""
        found = self.changing_elements.get(id(held))
        if found and type(key) in (int, str) and (place := self.place(held, key)) in found:
            return found[place]
        return held[key]

    def place(self, held: Any, key: Any) -> Any:
        """The key, which counts from the beginning of a list."""
        return key + len(held) if type(key) is int and key < 0 and not isinstance(held, dict) else key

    def check_operators(self, value: Any, source: Source) -> None:
        """What numbers, texts and tuples do by operators is known, unless their class says it."""
        if isinstance(value, PLAIN_VALUES) and type(value) not in PLAIN_VALUES and has_operators(type(value)):
            raise NotWhole(f"'{source.said()}' is a {type(value).__name__}, which has operators of its own")

    def register(self, value: Any, source: Source) -> None:
        """An object that is outside is found at this source."""
        self.sources[id(value)] = source
        self.held.append(value)

    def _constant(self, value: Any, source: Source, counted: bool) -> None:
        if value is None or value is True or value is False or value is Ellipsis or value is NotImplemented:
            self.guard(source, "{0} is {1}", value, message=f"is {value}", counted=counted)
        elif isinstance(value, (float, complex)) and (value != value or value.real == 0 or isinstance(value, complex) and value.imag == 0):
            # A zero has a sign, and nan is not equal to itself.
            self._repeated(value, source, counted)
        elif isinstance(value, (slice, range)):
            # Two ranges of no numbers are equal, and so are slices of 1, 1.0 and True.
            if not all(type(part) in CONSTANTS for part in (value.start, value.stop, value.step)):
                raise NotWhole(f"'{source.said()}' is a slice of other things than numbers")
            self._repeated(value, source, counted)
        else:
            self.guard(source, "{0}.__class__ is {1} and {0} == {2}", type(value), value, message=f"is {value!r}", counted=counted)

    def _repeated(self, value: Any, source: Source, counted: bool) -> None:
        """Guard a value by its text."""
        test = "{0}.__class__ is {1} and repr({0}) == {2}"
        self.guard(source, test, type(value), repr(value), message=f"is {value!r}", counted=counted)

    def _array(self, value: Any, source: Source) -> None:
        if value.dtype.hasobject or value.nbytes > MOST_BYTES:
            raise NotWhole(
                f"'{source.said()}' is an array of {value.nbytes} bytes, whose contents are too many to be compared at every call"
            )
        self.register(value, source)
        self.guard(
            source,
            "{1}({0}, {2})",
            _is_array,
            (value.dtype, value.shape, value.strides, value.tobytes()),
            message=f"is an array with the same {value.size} elements",
        )

    def _method(self, value: types.MethodType, source: Source) -> None:
        self.register(value, source)
        self.guard(
            source,
            "{0}.__class__ is {1} and {0}.__func__ is {2}",
            types.MethodType,
            value.__func__,
            message=f"is the method {value.__qualname__}",
        )
        self.note(value.__self__, Attribute(source, "__self__"))

    def expand_deep(self, held: Any) -> None:
        """Guard the contents of a container, and of those in it."""
        if type(held) in LISTS:
            self.expand(held)
        if type(held) in LISTS or isinstance(held, tuple):
            for value in held.values() if isinstance(held, dict) else held:
                self.expand_deep(value)

    def expand(self, held: Any, but_numbers: bool = False) -> Any:
        """Guard the contents of a list, dict or set from outside, as they were before the function changed them; `but_numbers` those that
        change at each call are left to `element`.
        """
        if not but_numbers:
            for number in self.changing_elements.pop(id(held), {}).values():
                self.note(number.value, number.source)
        if type(held) not in LISTS or id(held) in self.expanded or (source := self.sources.get(id(held))) is None:
            return held
        but_numbers = but_numbers and id(held) not in self.journal.kept
        self.expanded.add(id(held))
        contents = self.journal.original(held)
        self.elements += len(contents)
        if self.elements > MOST_ELEMENTS:
            raise NotWhole(f"'{source.said()}' has {len(contents)} elements, too many to be compared at every call")
        if isinstance(held, Table):
            assert isinstance(source, Attribute)
            self.guard(source, "list({0}) == {1}", list(contents), message=f"has the names {list(contents)}", counted=True)
            for name, value in contents.items():
                self.note(value, Attribute(source.parent, name, source.name, of_layer=True))
        elif isinstance(held, dict):
            keys = list(contents)
            if not all(type(k) in CONSTANTS or isinstance(k, tuple) and all(type(e) in CONSTANTS for e in k) for k in keys):
                raise NotWhole(f"'{source.said()}' has keys that are no numbers or texts")
            self._guard_exactly(source, keys, f"has the keys {keys}")
            for key in keys:
                self._note_element(held, key, contents[key], Item(source, key), but_numbers)
        elif isinstance(held, set):
            if not all(type(e) in CONSTANTS for e in contents):
                raise NotWhole(f"'{source.said()}' has elements that are no numbers or texts")
            # Its order, too: the function may go through it.
            self._guard_exactly(source, list(contents), f"is {contents}")
        else:
            self.guard(source, "len({0}) == {1}", len(contents), message=f"has {len(contents)} elements")
            for i, element in enumerate(contents):
                self._note_element(held, i, element, Item(source, i), but_numbers)
        return held

    def _note_element(self, held: Any, key: Any, value: Any, source: Source, may_change: bool) -> None:
        taken = self.take(value, source) if may_change and type(key) in (int, str) else self.note(value, source)
        if isinstance(taken, Changing):
            self.changing_elements.setdefault(id(held), {})[key] = taken

    def _guard_exactly(self, source: Source, elements: list[Any], message: str) -> None:
        """Guard the keys of a dict, or the elements of a set."""
        exact = exactly(elements)
        if exact is None:
            self.guard(source, "list({0}) == {1}", elements, message=message)
        else:
            self.guard(source, "{1}({0}) == {2}", exactly, exact, message=message)

    def expand_layer(self, layer: Layer, deeply: bool) -> None:
        """Guard what a Layer holds: its tables, and `deeply` its attributes and those of all Layers below."""
        mark = (id(layer), deeply)
        if mark in self.read or (id(layer), True) in self.read:
            return
        self.read[mark] = layer
        source = self.sources.get(id(layer))
        if source is None:
            raise NotWhole(f"a {type(layer).__name__} is made inside the function")
        for table in ("_parameters", "_buffers", "_sub_layers"):
            entries = vars(layer)[table]
            holder = Attribute(source, table, of_layer=True)
            self.guard(holder, "list({0}) == {1}", list(entries), message=f"has the names {list(entries)}", counted=True)
            for name, value in entries.items():
                if (id(layer), name) not in self.written:
                    self.note(value, Attribute(source, name, table, of_layer=True))
        if not deeply:
            return
        for name, value in list(vars(layer).items()):
            if name in ("_parameters", "_buffers", "_sub_layers", "_state_dict_hooks", "_full_name", "_non_persistable_buffer_names_set"):
                continue
            if (id(layer), name) in self.written and (type(value) in CONSTANTS or type(value) is ChangingNumber):
                continue  # what it is before the call does not matter
            self._deep(value, Attribute(source, name, of_layer=True))
        for child in vars(layer)["_sub_layers"].values():
            if child is not None:
                self.expand_layer(child, True)

    def _deep(self, value: Any, source: Source) -> None:
        """Guard an attribute that the framework's own code may read in ways that are not watched."""
        kind = type(value)
        if kind in LISTS or kind is tuple or kind in CONSTANTS or isinstance(value, (Tensor, Layer, np.ndarray)):
            self.note(value, source)
            if isinstance(value, Layer):
                self.expand_layer(value, True)
            for element in value if kind in (list, tuple) else list(value.values()) if isinstance(value, dict) else ():
                if type(element) in LISTS:
                    self.expand(element)
            self.expand(value)
        else:
            self.sources.setdefault(id(value), source)
            self.held.append(value)
            self.guard(source, "{0} is {1}", value, message=f"is the same {kind.__name__}", counted=True)

    # --- the rest of a watcher

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise NotWhole(f"functions call each other more than {MOST_DEPTH} deep")

    def twin(self, function: types.FunctionType, watch: Any) -> Any:
        """The function's twin, which reports to a `watch(self, globals, cells)` of its own."""
        made = self.wrapped.get(id(function))
        if made is None:
            try:
                twin = twin_of(function.__code__, self.flow)
            except NoTwin as error:
                raise NotWhole(f"'{function.__name__}' cannot be watched: {error.reason}", error.location) from None
            self.inner |= twin.inner
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
            made = self.wrapped[id(function)] = twin.bind(function, watch(self, function.__globals__, cells))
            self.held.append(function)
            defined = Fixed(function, function.__name__)
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                self.guard(Attribute(defined, name), "{0} is {1}", getattr(function, name), message="is the same")
            for i, value in enumerate(function.__defaults__ or ()):
                if type(value) not in CONSTANTS:
                    self.note(value, Item(Attribute(defined, "__defaults__"), i))
            for name, value in (function.__kwdefaults__ or {}).items():
                self.note(value, Item(Attribute(defined, "__kwdefaults__"), name))
        return made

    def is_outside(self, value: Any) -> bool:
        return id(value) in self.sources

    def may_change(self, held: Any) -> None:
        """Objects that were there before a body of a branch or loop are not changed in it: it may run any number of times, or not at all.
        """
        if self.born and not any(id(held) in made for made in self.born):
            raise NotWhole(f"a {type(held).__name__} is changed in a branch, a loop or a rule of gradients of the program")

    def is_number(self, value: Any) -> bool:
        """Whether Python would have a number for a value of the program: one of `numbers`, or what is computed of these, and literals,
        alone.
        """
        if not self.numbers or not isinstance(value, Value):
            return False
        known: dict[Value, bool] = {}
        waiting = [value]
        while waiting:
            at = waiting[-1]
            if at not in known:
                operands = [] if at in self.numbers or not isinstance(at, OpResult) else [v for v in at.op.operands if not _is_literal(v)]
                if not operands or any(known.get(v) is False for v in operands):
                    known[at] = at in self.numbers
                elif unknown := [v for v in operands if v not in known]:
                    waiting.append(unknown[0])
                    continue
                else:
                    known[at] = True
            waiting.pop()
        return known[value]

    def note_optimizer(self, optimizer: Any) -> None:
        """The function uses an optimizer, which makes its state in the first step."""
        if self.names is None:
            self.names = unique_name.mark()
        self.optimizers[optimizer] = optimizer.kept_names()

    def undo(self, refused: bool) -> None:
        """Take back what the function did to objects. Where it is refused optimizers have the state that they had."""
        self.journal.undo()
        if refused and self.names is not None:
            for optimizer, names in self.optimizers.items():
                optimizer.forget_since(names)
            unique_name.back_to(self.names)

    def effect(self, kind: str, target: Any, name: Any, *values: Any) -> None:
        self.effects.append((kind, target, name, values))


def _is_literal(value: Value) -> bool:
    return isinstance(value, OpResult) and value.op.name in ("nn.constant", "nn.full")


def is_counted(source: Source) -> bool:
    """Whether Layers count changes all along the way to a value."""
    return isinstance(source, Fixed) or isinstance(source, Attribute) and source.of_layer and is_counted(source.parent)


def _is_array(value: Any, known: tuple[Any, ...]) -> bool:
    """Whether an array has the elements that are known, by their bytes (a zero has a sign), in the same order: `ravel("K")` tells it."""
    return value.__class__ is np.ndarray and (value.dtype, value.shape, value.strides) == known[:3] and value.tobytes() == known[3]
