"""Watching a function while it is captured: every read of the world outside becomes a guard, every write an effect, and whatever is not
understood ends the capture.

The rule is that of an allow-list. A value is one of a few kinds that are known through and through (numbers, text, tensors, lists, dicts,
Layers, plain objects), a call one of a function whose source can be watched too, of the framework's own, or of a built-in that is known to
look at nothing but its arguments (`kinds.py`). Anything else raises `NotWhole` before it happens, and the function is gathered. Here are
names, attributes, elements and operators; calls are in `calls.py`.
"""

from __future__ import annotations

import abc
import builtins
import collections
import contextlib
import enum
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from polyreme import dispatch, dtypes, tape
from polyreme.amp.regions import auto_cast
from polyreme.autograd.py_layer import PyLayerContext
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import caller_location
from polyreme.ir.dims import Expr
from polyreme.jit.capture import arrays, changing, numbers
from polyreme.jit.capture.effects import snapshot
from polyreme.jit.capture.kinds import (
    ARRAY_METHODS,
    CONSTANTS,
    FUNCTIONS,
    ITERATORS,
    LISTS,
    MAKERS,
    MISSING,
    PLAIN_VALUES,
    SAFE,
    TENSOR_ATTRIBUTES,
    TENSOR_REFUSED,
    VIEWS,
    has_free_size,
    has_operators,
    is_enumeration,
    is_ours,
    lookup,
    module_name,
)
from polyreme.jit.capture.sources import Attribute, ClosureVariable, Computed, Fixed, Global, Source
from polyreme.jit.capture.trace import Trace
from polyreme.jit.capture.watched import Changing, ChangingArray, ChangingNumber, NotWhole, Watched
from polyreme.nn.layer import Layer
from polyreme.optimizer.lr import LRScheduler
from polyreme.sizes import Size
from polyreme.tensor import Tensor

__all__ = ["Reads"]

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_CONTAINERS = (list, dict, set, collections.deque)
# What compares the elements of containers, one by one.
_COMPARING = _COMPARISONS | {"in", "max", "min", "sort", "sorted"}
# Attributes are looked up, and set, as `object` does it.
_PLAIN_ATTRIBUTES = (
    object.__getattribute__,
    types.SimpleNamespace.__getattribute__,
    *(kind.__getattribute__ for kind in PLAIN_VALUES),
)
_FIELDS_OF_TUPLES = type(vars(collections.namedtuple("_Example", "field"))["field"])


def _behind(kind: type, this: type, name: str) -> Any:
    """What `super(this, …)` of an instance of `kind` finds under a name, as it stands there; `MISSING` if there is nothing."""
    bases = kind.__mro__
    return next((vars(base)[name] for base in bases[bases.index(this) + 1 :] if name in vars(base)), MISSING)


def _is_of_python(found: Any) -> bool:
    """Whether an attribute of a class is what Python's own types have there, such as `object.__init__`."""
    return isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType))


class Reads(abc.ABC):
    """What the twin of one function reports but calls: its own variables are looked up here, everything else belongs to the capture."""

    __slots__ = ("cells", "globals", "state")

    def __init__(self, state: Watched, globals: dict[str, Any], cells: dict[str, Any]):
        self.state = state
        self.globals = globals
        self.cells = cells

    # --- names

    def name(self, name: str) -> Any:
        """A global variable, or a built-in."""
        table = self.globals
        if name not in table:
            value = getattr(builtins, name, MISSING)
            if value is MISSING:
                raise NameError(f"name '{name}' is not defined")
            self._once(
                ("builtin", id(table), name),
                lambda: self.state.guard(Fixed(table, "globals"), "{1} not in {0}", name, message=f"have no '{name}'"),
            )
            return value
        value = table[name]
        module = table.get("__name__") or ""
        if module.split(".")[0] == "polyreme":
            return value
        return self._noted(("global", id(table), name), value, lambda: Global(table, name))

    def closure(self, name: str, value: Any) -> Any:
        """A variable of the function around."""
        cell = self.cells[name]
        return self._noted(("cell", id(cell)), value, lambda: ClosureVariable(cell, name))

    def imported(self, module: str, name: str, value: Any) -> Any:
        """What `from module import name` gave."""
        if module.split(".")[0] in sys.stdlib_module_names or module.split(".")[0] == "polyreme":
            return value
        table = vars(sys.modules[module])
        return self._noted(("global", id(table), name), value, lambda: Global(table, name))

    def _once(self, key: Any, do: Callable[[], None]) -> None:
        if key not in self.state.read:
            self.state.read[key] = None
            do()

    def _noted(self, key: Any, value: Any, source: Callable[[], Source]) -> Any:
        """Note what was read, the first time; a number that was read twice has not changed meanwhile."""
        read = self.state.read
        if key not in read:
            read[key] = value
            read[key] = self.state.take(value, source())
        found = read[key]
        return found if isinstance(found, Changing) else value

    # --- attributes

    def attribute(self, held: Any, name: str) -> Any:
        """`held.name`."""
        state = self.state
        if type(held) is ChangingArray:
            return arrays.attribute(state, held, name)
        held = state.pinned(held)
        if isinstance(held, Tensor):
            return self._of_tensor(held, name)
        if isinstance(held, types.ModuleType):
            value = getattr(held, name)
            root = held.__name__.split(".")[0]
            if root == "polyreme" or root in sys.stdlib_module_names or root == "numpy":
                if name in vars(held):
                    table = vars(held)
                    self._once(
                        ("global", id(table), name),
                        lambda: self.state.guard(Global(table, name), "{0} is {1}", value, message=f"of {held.__name__} is the same"),
                    )
                return value
            return self._noted(("global", id(vars(held)), name), value, lambda: Global(vars(held), name))
        kind = type(held)
        if isinstance(held, PyLayerContext):
            return getattr(held, name)
        if isinstance(held, PLAIN_VALUES) and kind not in PLAIN_VALUES and not is_ours(kind) and not isinstance(held, np.generic):
            return self._of_object(held, name)
        if isinstance(
            held,
            (
                Expr,
                Size,
                np.generic,
                np.dtype,
                dtypes.dtype,
                *FUNCTIONS,
                str,
                int,
                float,
                complex,
                bytes,
                tuple,
                range,
                slice,
                types.GeneratorType,
            ),
        ):
            if isinstance(held, types.MethodType) or name.startswith("__") and name not in ("__name__", "__qualname__"):
                raise NotWhole(f"'{name}' of a {kind.__name__} is read")
            if name in getattr(held, "__dict__", ()):
                return self.read(held, name, getattr(held, name), "")
            return getattr(held, name)
        if kind in LISTS or kind in VIEWS or kind is frozenset:
            return getattr(held, name)
        if isinstance(held, np.ndarray):
            if name in ARRAY_METHODS:
                return arrays.ArrayMethod(held, name)
            if name in ("T", "mT", "real", "imag"):
                return arrays.seen(state, getattr(held, name), getattr, (held, name), {})
            if name in ("shape", "ndim", "dtype", "size") or not state.is_outside(held):
                return getattr(held, name)
            raise NotWhole(f"'{name}' of an array from outside is used")
        if kind is super:
            return self._of_super(held, name)
        if isinstance(held, type):
            return self._of_class(held, name)
        if isinstance(held, LRScheduler) and name != "step":
            self.check_schedule(held)
        return self._of_object(held, name)

    def _of_tensor(self, held: Tensor, name: str) -> Any:
        if name == "grad":
            return self.gradient_of(held)
        if name in TENSOR_REFUSED and (name != "register_hook" or self.state.is_outside(held)):
            raise NotWhole(f"'Tensor.{name}' is used")
        if name in ("contiguous", "is_contiguous", "strides"):
            self._count_on_rows(held)
        if not hasattr(Tensor, name):
            self._of_some_tensors(held, name)
        value = getattr(held, name)
        if name in ("stop_gradient", "trainable") and id(held) in self.state.outside_tensors:
            source, stops = self.state.sources[id(held)], held.stop_gradient
            self._once(
                ("stop_gradient", id(held)),
                lambda: self.state.guard(source, "{0}.stop_gradient is {1}", stops, message="needs gradients as it did"),
            )
        if name == "name" and id(held) in self.state.outside_tensors:
            return self._noted(("attribute", id(held), name), value, lambda: Attribute(self.state.sources[id(held)], name))
        if name in TENSOR_ATTRIBUTES or callable(value):
            return value
        raise NotWhole(f"'Tensor.{name}' is read")

    def _of_some_tensors(self, held: Tensor, name: str) -> None:
        """An attribute that only some tensors have. What stands for an argument has none of those."""
        trace, source = dispatch.active_trace(), self.state.sources.get(id(held))
        if source is None or not isinstance(trace, Trace) or trace.gradients is None or id(held) not in trace.gradients.given:
            return
        if hasattr(trace.gradients.given[id(held)], name):
            raise NotWhole(f"'Tensor.{name}' is used")
        self._once(("absent", id(held), name), lambda: self.state.guard(source, "not hasattr({0}, {1})", name, message=f"has no '{name}'"))

    def _count_on_rows(self, held: Tensor) -> None:
        """How the elements of a tensor lie depends on how those of the one do that it is a view of."""
        storage = held._view[0] if held._view.__class__ is tuple else held._view
        owner, trace = held if storage is None else storage.owner(), dispatch.active_trace()
        if owner is not None and isinstance(trace, Trace):
            trace.count_on_rows(owner)

    def _of_class(self, held: type, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__qualname__"):
            raise NotWhole(f"'{name}' of the class '{held.__name__}' is read")
        value = getattr(held, name)
        if is_ours(held) or held in MAKERS:
            return value
        if type(held) not in (type, abc.ABCMeta, enum.EnumType):
            raise NotWhole(f"'{held.__name__}' has a metaclass")
        if isinstance(value, types.MethodType):
            self.class_guard(held, name)
            return value
        return self._noted(("class", id(held), name), value, lambda: Attribute(Fixed(held, held.__name__), name))

    def _of_super(self, held: Any, name: str) -> Any:
        """`super().name`: what the bases behind a class have there, bound to the instance or class that `super()` was called for."""
        kind, this = held.__self_class__, held.__thisclass__
        found = _behind(kind, this, name)
        if found is MISSING:
            raise AttributeError(f"'super' object has no attribute '{name}'", name=name, obj=held)
        said = f"super({this.__name__}, {kind.__name__}).{name}"
        source = Computed(functools.partial(_behind, kind, this, name), said)
        if not isinstance(found, (types.FunctionType, property, classmethod, staticmethod)):
            if hasattr(type(found), "__get__") and not isinstance(found, (type, types.BuiltinFunctionType)):
                return getattr(held, name) if _is_of_python(found) else self._refuse_descriptor(kind, name)
            return self._noted(("super", id(kind), id(this), name), found, lambda: source)
        self._once(("super", id(kind), id(this), name), lambda: self.state.guard(source, "{0} is {1}", found, message="is the same"))
        instance = None if held.__self__ is kind else held.__self__
        if isinstance(found, property) and instance is not None:
            if found.fget is None:
                raise AttributeError(f"property '{name}' of '{kind.__name__}' has no getter")
            return self.call(found.fget, instance)
        return found.__get__(instance, kind)

    def _refuse_descriptor(self, kind: type, name: str) -> NoReturn:
        raise NotWhole(f"'{kind.__name__}.{name}' is a descriptor of a kind that is not known")

    def _of_object(self, held: Any, name: str) -> Any:
        state = self.state
        kind: Any = type(held)
        if kind.__getattribute__ not in _PLAIN_ATTRIBUTES:
            raise NotWhole(f"'{kind.__name__}' has a __getattribute__ of its own")
        if name == "__dict__":
            raise NotWhole(f"'{name}' of a {kind.__name__} is read")
        if name == "__class__":
            return kind
        found, where = lookup(kind, name)
        if is_enumeration(held) and name in ("name", "value", "_name_", "_value_") and where in (kind, enum.Enum, enum.ReprEnum):
            return getattr(held, name)  # of the one member that it is
        if isinstance(found, property):
            if found.fget is None:
                raise AttributeError(f"property '{name}' of '{kind.__name__}' has no getter")
            self.class_guard(kind, name)
            return self.call(found.fget, held)
        if isinstance(found, _FIELDS_OF_TUPLES) or isinstance(held, PLAIN_VALUES) and _is_of_python(found):
            return getattr(held, name)
        own = getattr(held, "__dict__", None)
        if isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            if own is not None and isinstance(found, types.GetSetDescriptorType):
                raise NotWhole(f"'{name}' of a {kind.__name__} is read")
            return self.read(held, name, getattr(held, name), "")
        if own is not None and name in own:
            return self.read(held, name, own[name], "")
        if isinstance(held, Layer):
            for table in ("_parameters", "_sub_layers", "_buffers"):
                if name in vars(held)[table]:
                    return self.read(held, name, vars(held)[table][name], table)
        if found is MISSING:
            custom, _ = lookup(kind, "__getattr__")
            if custom is not MISSING and not (isinstance(held, Layer) and custom is Layer.__getattr__):
                raise NotWhole(f"'{kind.__name__}' has a __getattr__ of its own")
            source = state.sources.get(id(held))
            if source is not None:
                self._once(
                    ("absent", id(held), name), lambda: state.guard(source, "not hasattr({0}, {1})", name, message=f"has no '{name}'")
                )
            raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'", name=name, obj=held)
        self._own_absent(held, name)
        if isinstance(found, types.FunctionType):
            self.class_guard(kind, name)
            return types.MethodType(found, held)
        if isinstance(found, classmethod):
            self.class_guard(kind, name)
            return types.MethodType(found.__func__, kind)
        if isinstance(found, staticmethod):
            self.class_guard(kind, name)
            return found.__func__
        if hasattr(type(found), "__get__") and not isinstance(found, (type, types.BuiltinFunctionType)):
            self._refuse_descriptor(kind, name)
        if is_ours(where):
            self.class_guard(kind, name)
            return found
        # Of the class itself, not of the base that has it: a class between them may get one of its own.
        return self._noted(("class", id(kind), name), found, lambda: Attribute(Fixed(kind, kind.__name__), name))

    def _own_absent(self, held: Any, name: str) -> None:
        """What the class has under this name is found as long as the object has nothing of its own there."""
        source = self.state.sources.get(id(held))
        if source is not None and hasattr(held, "__dict__") and (id(held), name) not in self.state.written:
            of_layer = isinstance(held, Layer)
            self._once(
                ("own", id(held), name),
                lambda: self.state.guard(source, "{1} not in {0}.__dict__", name, message=f"has no '{name}' of its own", counted=of_layer),
            )

    def class_guard(self, kind: type, name: str) -> None:
        """What instances of a class find under this name stays."""
        trusted = is_ours(kind) and is_ours(getattr(kind, name)) and name != "forward"
        if not trusted and kind not in MAKERS:
            self.method_guard(kind, name)

    def method_guard(self, kind: type, name: str) -> None:
        """The same, of any class."""
        value = getattr(kind, name)
        test = "{0} == {1}" if isinstance(value, types.MethodType) else "{0} is {1}"
        source = Attribute(Fixed(kind, kind.__name__), name)
        self._once(("method", id(kind), name), lambda: self.state.guard(source, test, value, message="is the same"))

    def read(self, held: Any, name: str, value: Any, table: str) -> Any:
        """An attribute that an object holds itself."""
        state = self.state
        source = state.sources.get(id(held))
        if source is None or (id(held), name) in state.written:
            return value
        made = lambda: Attribute(source, name, table, of_layer=isinstance(held, Layer))
        return self._noted(("attribute", id(held), name), value, made)

    def set_attribute(self, held: Any, name: str, value: Any) -> None:
        """`held.name = value`."""
        self._may_change(held, name, "__setattr__")
        if isinstance(held, Tensor):
            if type(value) is ChangingArray:
                raise NotWhole(f"'Tensor.{name}' is set to an array")
            value = self.state.pinned(value)
        if isinstance(held, Tensor) and name == "grad":
            self.set_gradient(held, value)
            return
        if isinstance(held, Tensor):
            if name != "stop_gradient" or self.state.is_outside(held):
                raise NotWhole(f"'Tensor.{name}' is set")
            trace = dispatch.active_trace()
            if isinstance(trace, Trace) and trace.uncertain.is_any(held):
                raise NotWhole("'stop_gradient' is set of a tensor that is another one if a tensor decides so")
            if held.stop_gradient and not value:
                self.make_leaf(held)
            held.stop_gradient = value
            return
        if not isinstance(held, PyLayerContext):
            self.state.may_change(held)
        outside = self.state.is_outside(held)
        if outside:
            self.state.journal.before(held)
        setattr(held, name, value)
        if outside:
            self.state.written.add((id(held), name))
            self.state.effect("set_attribute", held, name, value)

    def delete_attribute(self, held: Any, name: str) -> None:
        """`del held.name`."""
        self._may_change(held, name, "__delattr__")
        if isinstance(held, Tensor):
            raise NotWhole(f"'Tensor.{name}' is deleted")
        self.state.may_change(held)
        outside = self.state.is_outside(held)
        if outside:
            self.attribute(held, name)
            self.state.journal.before(held)
        delattr(held, name)
        if outside:
            self.state.written.add((id(held), name))
            self.state.effect("delete_attribute", held, name)

    def _may_change(self, held: Any, name: str, method: str) -> None:
        kind = type(held)
        if isinstance(held, Changing):
            raise NotWhole(f"an attribute of a {type(held.value).__name__} is set")
        if isinstance(held, (type, types.ModuleType, *FUNCTIONS)):
            raise NotWhole(f"an attribute of {getattr(held, '__name__', held)!r} is set")
        custom = getattr(kind, method)
        if (
            custom is not getattr(object, method)
            and custom is not getattr(types.SimpleNamespace, method)
            and not (isinstance(held, Layer) and custom is getattr(Layer, method))
            and not isinstance(held, Tensor)
        ):
            raise NotWhole(f"'{kind.__name__}' has a {method} of its own")
        found, _ = lookup(kind, name)
        if found is not MISSING and hasattr(type(found), "__set__") and not isinstance(held, Tensor):
            raise NotWhole(f"'{kind.__name__}.{name}' is set by a descriptor")
        if not isinstance(held, Tensor) and not hasattr(held, "__dict__"):
            raise NotWhole(f"an attribute of a {kind.__name__} is set")

    # --- elements

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        """`start:stop:step`."""
        return slice(*map(self.state.pinned, (start, stop, step)))

    def item(self, held: Any, key: Any) -> Any:
        """`held[key]`."""
        state = self.state
        if type(held) is ChangingArray or isinstance(held, np.ndarray) and arrays.meets(key):
            return arrays.item(state, held, key)
        key = self._known_key(key)
        if isinstance(held, Tensor):
            self._key(key)
            return held[arrays.key_of(state, key)]
        kind = type(held)
        if isinstance(key, Tensor):
            raise NotWhole("an element of a list is chosen by a tensor")
        if kind in LISTS:
            state.expand(held, but_numbers=type(key) in (int, str))
            if isinstance(held, dict):
                self.hashed(key)
            return state.element(held, key)
        if kind is collections.defaultdict or kind is collections.Counter:
            if state.is_outside(held):
                raise NotWhole(f"an element of a {kind.__name__} is read")
            return held[key]
        if isinstance(held, (tuple, str, bytes, range, Size)):
            return held[key]
        if isinstance(held, np.ndarray):
            return arrays.of_known(state, operator.getitem, (held, key), {})
        if isinstance(held, Layer) and is_ours(method := kind.__getitem__):
            state.expand_layer(held, False)
            return method(held, key)
        if isinstance(held, type):
            raise NotWhole(f"'{held.__name__}[…]' is made")
        found, _ = lookup(kind, "__getitem__")
        if isinstance(found, types.FunctionType):
            self.class_guard(kind, "__getitem__")
            return self.call(found, held, key)
        raise NotWhole(f"an element of a {kind.__name__} is read")

    def _known_key(self, key: Any) -> Any:
        """A key, of which each number is the same at each call."""
        return tuple(map(self.state.pinned, key)) if type(key) is tuple else self.state.pinned(key)

    def _key(self, key: Any) -> None:
        for part in key if isinstance(key, tuple) else (key,):
            if type(part) in LISTS:
                self.state.expand(part)

    def set_item(self, held: Any, key: Any, value: Any) -> None:
        """`held[key] = value`."""
        state = self.state
        key = self._known_key(key)
        if isinstance(held, Tensor):
            value = arrays.as_tensor(state, value, held.type.dtype) if type(value) is ChangingArray else state.pinned(value)
            state.expand_deep(value)
            self._key(key)
            key = arrays.key_of(state, key)
            if self.stands_for_number(value):
                # The tensor decides the dtype, whatever the number is.
                numbers.check_digits(self.state, value, held)
            held[key] = value
            return
        kind = type(held)
        if kind in LISTS or kind is collections.defaultdict and not state.is_outside(held):
            state.may_change(held)
            if isinstance(held, dict):
                self.hashed(key)
            outside = state.is_outside(held)
            if outside:
                if not isinstance(held, dict):
                    state.expand(held, but_numbers=type(key) is int)
                if isinstance(key, slice) and isinstance(held, list):
                    value = list(self.iterate(value))  # as it is now
                if type(key) not in CONSTANTS:
                    raise NotWhole("an element of a container outside is set by a key that is no number or text")
                state.journal.before(held)
            held[key] = value
            if outside:
                state.changing_elements.get(id(held), {}).pop(state.place(held, key), None)
                state.effect("set_item", held, key, value)
            return
        if isinstance(held, np.ndarray) and not state.is_outside(held) and not isinstance(value, (Tensor, Changing)):
            state.may_change(held)
            for given in (key, value):
                arrays.check_known(state, given)
            held[key] = value
            return
        if type(held) is ChangingArray:
            raise NotWhole("an element of an array is set")
        found, _ = lookup(kind, "__setitem__")
        if isinstance(found, types.FunctionType) and not isinstance(held, Layer):
            self.class_guard(kind, "__setitem__")
            self.call(found, held, key, value)
            return
        raise NotWhole(f"an element of a {kind.__name__} is set")

    def delete_item(self, held: Any, key: Any) -> None:
        """`del held[key]`."""
        state = self.state
        if type(held) not in LISTS:
            raise NotWhole(f"an element of a {type(held).__name__} is deleted")
        state.may_change(held)
        outside = state.is_outside(held)
        if outside:
            state.expand(held)
            if type(key) not in CONSTANTS:
                raise NotWhole("an element of a container outside is deleted by a key that is no number or text")
            state.journal.before(held)
        del held[key]
        if outside:
            state.effect("delete_item", held, key)

    def contains(self, value: Any, held: Any) -> bool:
        """`value in held`."""
        if type(held) is ChangingArray:
            return arrays.computed(self.state, operator.contains, held, value)
        value = self.state.pinned(value)
        self.safe(value, "in")
        self.not_a_view(held)
        if isinstance(held, Layer):
            self.state.expand_layer(held, False)
            if not is_ours(getattr(type(held), "__contains__", None)):
                return value in list(self.iterate(held))
        elif type(held) in LISTS or isinstance(held, tuple):
            if not isinstance(held, (dict, set)):
                self.safe(held, "in")
            self.state.expand_deep(held)
            self.state.expand_deep(value)
        elif isinstance(held, Tensor):
            raise NotWhole("it is asked whether a tensor has an element")
        elif not isinstance(held, (tuple, str, bytes, range, frozenset, *VIEWS, Size)):
            raise NotWhole(f"it is asked whether a {type(held).__name__} has an element")
        if has_free_size(value) and not isinstance(held, (list, tuple, range, Size, collections.deque)):
            raise NotWhole("it is asked whether a free size is among others by its hash")
        return value in held

    def iterate(self, held: Any) -> Any:
        """What a loop goes over, or is spread."""
        state, kind = self.state, type(held)
        if kind in LISTS:
            return state.expand(held)
        self.not_a_view(held)
        if isinstance(held, ITERATORS) and state.is_outside(held):
            raise NotWhole(f"a {kind.__name__} that was there before the call goes on")
        if isinstance(held, (Tensor, tuple, str, bytes, range, frozenset, Size, *VIEWS, *ITERATORS)):
            return held
        if isinstance(held, (collections.defaultdict, collections.Counter)) and not state.is_outside(held):
            return held
        if isinstance(held, Layer) and is_ours(getattr(kind, "__iter__", None)):
            state.expand_layer(held, False)
            return iter(held)
        if kind is ChangingArray:
            return arrays.rows(state, held)
        if isinstance(held, np.ndarray):
            return [self.item(held, i) for i in range(len(held))] if state.is_outside(held) else held
        raise NotWhole(f"a {kind.__name__} is gone through")

    def rows(self, held: Any, depth: int) -> Any:
        """What a loop goes over that unpacks each element, `depth` deep."""
        held = self.iterate(held)
        return held if isinstance(held, Tensor) else (self._unpacked(row, depth) for row in held)

    def _unpacked(self, row: Any, depth: int) -> Any:
        row = self.iterate(row)
        if depth == 1 or not isinstance(row, (list, tuple)):
            return row
        return [self._unpacked(part, depth - 1) if isinstance(part, (list, tuple)) else part for part in row]

    def not_a_view(self, held: Any) -> None:
        """The keys, values or items of a dict, as an object that was there before the call, tell of a dict that nobody guards."""
        if isinstance(held, VIEWS) and self.state.is_outside(held):
            raise NotWhole(f"a {type(held).__name__} from outside is looked into")

    # --- values

    def same(self, first: Any, second: Any) -> bool:
        """`first is second`."""
        sources = self.state.sources
        if first is not second and id(first) in sources and id(second) in sources:
            # What stands for two arguments may be one object at another call.
            self.state.guard(
                sources[id(first)], "{0} is not {1}", sources[id(second)], message=f"is another than {sources[id(second)].said()}"
            )
        return first is second

    def truth(self, value: Any) -> bool:
        """Whether a condition holds."""
        return bool(self.tested(value))

    def passes(self, test: Any, message: Callable[[], Any]) -> Any:
        """The test of an `assert`. One that a tensor decides is made once the program has run."""
        state = self.state
        if not (self._is_made(test) or id(test) in state.outside_tensors) or test.size != 1 or state.born or state.stands_alone:
            return self.truth(test)
        done = len(state.effects)
        text = message()
        if type(text) not in CONSTANTS or len(state.effects) != done:
            raise NotWhole("the message of an 'assert' is computed")
        state.effect("check", None, (text, caller_location()), snapshot(test))
        return True

    def _is_made(self, value: Any) -> bool:
        """Whether a value is a tensor that the program computes."""
        return isinstance(value, Tensor) and isinstance(value._value, Value) and id(value) not in self.state.outside_tensors

    def show(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """`print`: done once the program has run, in its turn among what is done to objects outside."""
        state = self.state
        if (
            state.born
            or state.stands_alone
            or not options.keys() <= {"sep", "end", "flush"}
            or not all(type(v) in CONSTANTS for v in options.values())
        ):
            raise NotWhole("'print' is called")
        shown: list[Any] = []
        for value in args:
            if self._is_made(value) and not state.is_number(value._value):
                shown.append(snapshot(value))
            elif type(value) in CONSTANTS or isinstance(value, Changing):
                shown.append(value)
            elif self.has_plain_text(value):
                shown.append(str(value))
            else:
                raise NotWhole(f"a {type(value).__name__} is printed")
        state.effect("show", None, tuple(sorted(options.items())), *shown)

    def tested(self, value: Any) -> Any:
        """A condition, whose truth is asked for next."""
        if value is True or value is False or value is None:
            return value
        if isinstance(value, Changing):
            value.is_true = self.state.computed(bool, value)
            return value  # which `or` and `and` may be
        if isinstance(value, Tensor):
            if id(value) in self.state.outside_tensors and not self.state.flow:
                raise NotWhole("a condition is a tensor", decided=True)
            return value
        kind = type(value)
        self.not_a_view(value)
        if kind in LISTS:
            return self.state.expand(value)
        if isinstance(value, Layer) and hasattr(kind, "__len__"):
            self.state.expand_layer(value, False)
            return value
        if isinstance(value, Expr):
            return value
        if isinstance(value, SAFE) and not self._is_foreign(value) or not hasattr(kind, "__bool__") and not hasattr(kind, "__len__"):
            return value
        if not self.state.is_outside(value) and isinstance(value, np.ndarray):
            return value
        raise NotWhole(f"a condition is a {kind.__name__}")

    def operator(self, name: str, *operands: Any) -> Any:
        """An operator of Python's on operands that do no more than compute by it."""
        if any(type(value) is ChangingArray for value in operands):
            return arrays.operator(self, name, operands)
        if any(type(value) is ChangingNumber for value in operands):
            of_numpy = any(isinstance(value, (np.ndarray, np.generic)) for value in operands)
            return (arrays if of_numpy else changing).operator(self, name, operands)
        first = operands[0]
        for value in operands:
            self.safe(value, name)
            if type(value) in LISTS or name in _COMPARISONS and isinstance(value, tuple):
                self.state.expand_deep(value) if name in _COMPARISONS else self.state.expand(value)
        if name[0] == "i" and name != "invert" and len(operands) == 2:
            if type(first) in LISTS or isinstance(first, np.ndarray):
                self.state.may_change(first)
            if type(first) in LISTS and self.state.is_outside(first):
                if name != "iadd" or not isinstance(first, list):
                    raise NotWhole("a container from outside is changed by an operator")
                return self.write(first, "extend", (operands[1],)) or first
            if isinstance(first, np.ndarray) and self.state.is_outside(first):
                raise NotWhole("an array from outside is changed")
        if name == "mod" and isinstance(first, (str, bytes)) and not self.has_plain_text(operands[1]):
            raise NotWhole("the text of something is asked for")
        if self.state.numbers and any(map(self.stands_for_number, operands)):
            if len(operands) == 2:
                return numbers.meeting(self.state, name, *operands)
            if name in ("neg", "pos"):
                return numbers.changed_sign(self.state, name, first)
        if any(isinstance(value, np.ndarray) for value in operands) and not any(isinstance(value, Tensor) for value in operands):
            return arrays.of_known(self.state, getattr(operator, name), operands, {})
        return getattr(operator, name)(*operands)

    def stands_for_number(self, value: Any) -> bool:
        """Whether a value is a tensor in whose place Python has a number."""
        return bool(numbers.kinds_of(self.state, value)) if isinstance(value, Tensor) else False

    def hashed(self, key: Any) -> None:
        """A key of a dict, or a member of a set: nobody's Python says what it is equal to."""
        if type(key) not in CONSTANTS:
            self.safe(key, "in")

    def safe(self, value: Any, name: str) -> None:
        kind: Any = type(value)
        if isinstance(value, Size) or isinstance(value, (*SAFE, np.ndarray)) and not self._is_foreign(value):
            if name in _COMPARING and (kind in LISTS or isinstance(value, tuple)):
                parts: Any = value.values() if isinstance(value, dict) else value
                for part in parts:
                    self.safe(part, name)
            return
        if name in ("eq", "ne", "in") and kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__:
            return
        if is_enumeration(value) and not has_operators(kind):
            return
        raise NotWhole(f"an operator is applied to a {kind.__name__}")

    def _is_foreign(self, value: Any) -> bool:
        """Whether a value is of a class of the user's that is a built-in container, whose contents nobody guards."""
        return isinstance(value, _CONTAINERS) and type(value) not in LISTS and (self.state.is_outside(value) or type(value) not in MAKERS)

    def shown(self, value: Any) -> Any:
        """A value whose text is asked for."""
        value = self.state.pinned(value)
        if self.has_plain_text(value):
            return value
        raise NotWhole(f"the text of a {type(value).__name__} is asked for")

    def has_plain_text(self, value: Any) -> bool:
        if type(value) is list or isinstance(value, tuple) and type(value).__repr__ is tuple.__repr__:
            self.state.expand(value)
            return all(map(self.has_plain_text, value))
        if isinstance(value, Size):
            return not has_free_size(value)
        return type(value) in CONSTANTS or isinstance(value, (dtypes.dtype, np.dtype, type))

    def manager(self, value: Any) -> Any:
        """What a `with` enters."""
        if (
            isinstance(value, (tape.no_grad, tape.enable_grad, tape.set_grad_enabled, contextlib.nullcontext))
            or module_name(type(value)) in ("polyreme.grad_mode", "polyreme.amp.regions")
        ):
            self.state.casts |= isinstance(value, auto_cast)
            return value
        raise NotWhole(f"a {type(value).__name__} is entered by 'with'")

    # --- what calls.py adds

    @abc.abstractmethod
    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """`function(*args, **kwargs)`."""

    @abc.abstractmethod
    def make_leaf(self, held: Tensor) -> None:
        """`held.stop_gradient = False`, of a tensor that the function has made."""

    @abc.abstractmethod
    def check_schedule(self, schedule: LRScheduler) -> None:
        """Before something of a schedule is read."""

    @abc.abstractmethod
    def gradient_of(self, held: Tensor) -> Tensor | None:
        """`held.grad`."""

    @abc.abstractmethod
    def set_gradient(self, held: Tensor, value: Any) -> None:
        """`held.grad = value`."""

    @abc.abstractmethod
    def write(self, held: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """A method that changes a list, dict or set."""
