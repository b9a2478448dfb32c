"""Calls of a function that is captured: which are watched in turn, which are known to look at nothing but their arguments, and which end
the capture.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from polyreme import device, dispatch, dtypes
from polyreme.amp.grad_scaler import AmpScaler
from polyreme.autograd.py_layer import PyLayer, PyLayerContext
from polyreme.casting.state import last_dtype
from polyreme.control_flow import UNDEFINED
from polyreme.from_data import to_tensor
from polyreme.ir.core import Value
from polyreme.ir.dims import Expr
from polyreme.ir.types import i64
from polyreme.jit.capture import arrays, changing, numbers
from polyreme.jit.capture.branches import TensorRange
from polyreme.jit.capture.kinds import (
    ARRAY_FUNCTIONS,
    CONSTANTS,
    FLOW,
    FUNCTIONS,
    HOOKS,
    ITERATORS,
    LAYER_READERS,
    LISTS,
    MAKERS,
    PURE,
    READERS,
    TENSOR_REFUSED,
    TRUSTED,
    VIEWS,
    WRITERS,
    flat,
    has_free_size,
    has_operators,
    is_enumeration,
    is_made_by_python,
    is_ours,
    lookup,
    module_name,
    module_of,
)
from polyreme.jit.capture.rules import WatchedRule
from polyreme.jit.capture.sources import Computed
from polyreme.jit.capture.steps import GRADIENT_FUNCTIONS, GRADIENT_METHODS, SCALER_METHODS, Steps
from polyreme.jit.capture.watched import Changing, ChangingArray, ChangingNumber, NotWhole
from polyreme.jit.compiled_function import CompiledFunction
from polyreme.nn.layer import Layer
from polyreme.nn.utils import SpectralNormHook, WeightNorm
from polyreme.optimizer.lr import LRScheduler
from polyreme.optimizer.optimizer import Optimizer
from polyreme.parameter import Parameter
from polyreme.sizes import Size
from polyreme.tensor import Tensor

__all__ = ["Watch"]


# Functions of the framework that make a tensor of an array.
_TAKE_ARRAYS = frozenset({"polyreme.math.creation.assign", "polyreme.tensor.Tensor.set_value"})
_APPLY = vars(PyLayer)["apply"].__func__

# Hooks of the framework's own, which compute a weight of a Layer: they are watched as the user's.
WEIGHT_HOOKS = (SpectralNormHook, WeightNorm)


class Watch(Steps):
    """What the twin of one function calls."""

    __slots__ = ()

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """`function(*args, **kwargs)`."""
        state, kind = self.state, type(function)
        if kind is types.FunctionType:
            if function.__code__ in state.inner:
                return function(*args, **kwargs)
            if is_ours(function):
                return self._call_ours(function, args, kwargs)
            if f"{module_name(function)}.{function.__name__}" in ARRAY_FUNCTIONS:  # some of NumPy's are Python, such as `ones` and `eye`
                return arrays.call_function(state, function, args, kwargs)
            return self._call_twin(function, args, kwargs)
        if kind is types.MethodType:
            return self._call_method(function, args, kwargs)
        if kind is types.BuiltinFunctionType:
            return self._call_builtin(function, args, kwargs)
        if isinstance(function, type):
            return self._construct(function, args, kwargs)
        if isinstance(function, Layer):
            return self._call_layer(function, args, kwargs)
        if kind is arrays.ArrayMethod:
            return arrays.call_method(state, function, args, kwargs)
        if kind is functools.partial:
            if state.is_outside(function):
                for name in ("func", "args", "keywords"):
                    state.expand(self.read(function, name, getattr(function, name), ""))
            return self.call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
        if isinstance(function, CompiledFunction):
            return self.call(function.dygraph_function, *args, **kwargs)
        if isinstance(function, LRScheduler) and is_ours(kind.__call__):
            return self.of_schedule(function, cast(Any, kind.__call__), args, kwargs)
        if (
            kind in (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
            or isinstance(function, np.ufunc)
            or kind.__module__ == "numpy"
        ):
            return self._call_builtin(function, args, kwargs)
        found, _ = lookup(kind, "__call__")
        if isinstance(found, types.FunctionType) and not is_ours(kind):
            self.class_guard(kind, "__call__")
            return self.call(found, function, *args, **kwargs)
        if isinstance(found, types.FunctionType) and kind in WEIGHT_HOOKS:
            return self._call_twin(found, (function, *args), kwargs)
        raise NotWhole(f"a {kind.__name__} is called")

    def _call_twin(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        root = module_name(function).split(".")[0]
        if root in sys.stdlib_module_names and root != "__main__":
            raise NotWhole(f"'{function.__module__}.{function.__qualname__}' is called")
        twin = self.state.twin(function, Watch)
        self.state.enter()
        try:
            return twin(*args, **kwargs)
        finally:
            self.state.depth -= 1

    def _call_method(self, function: types.MethodType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held, plain = function.__self__, function.__func__
        if isinstance(held, type) and issubclass(held, PyLayer) and plain is _APPLY:
            return self._apply_layer(held, args, kwargs)
        if not isinstance(plain, types.FunctionType):
            if plain is not None and isinstance(held, Layer):
                return self.call(plain, held, *args, **kwargs)
            raise NotWhole(f"a method of a {type(held).__name__} is called")
        if isinstance(held, Tensor) and plain.__name__ == "register_hook" and not self.state.is_outside(held):
            return plain(held, *map(self._rule, args))
        if isinstance(held, Tensor) and plain.__name__ in GRADIENT_METHODS and is_ours(plain):
            args, kwargs = self._arguments(args, kwargs)
            return self.of_gradients(held, plain, args, kwargs)
        if isinstance(held, Tensor):
            return self._call_ours(plain, (held, *args), kwargs)
        if isinstance(held, Optimizer) and is_ours(plain):
            return self.of_optimizer(held, plain, args, kwargs)
        if isinstance(held, LRScheduler) and is_ours(plain):
            return self.of_schedule(held, plain, args, kwargs)
        if isinstance(held, AmpScaler) and is_ours(plain):
            if plain.__name__ in SCALER_METHODS:
                return self.of_scaler(held, plain, args)
            if plain.__name__ != "_forget":
                self.check_scale(held)
            return self._call_twin(plain, (held, *args), kwargs)
        if isinstance(held, PyLayerContext):
            return plain(held, *args, **kwargs)
        if isinstance(held, tuple) and module_name(plain) == "collections" and plain.__name__ in ("_replace", "_asdict"):
            return self.made(plain(held, *args, **kwargs))  # of named tuples
        if isinstance(held, Layer) and is_ours(plain):
            return self._call_layer_method(held, plain, args, kwargs)
        if isinstance(held, WEIGHT_HOOKS) and is_ours(plain):
            return self._call_twin(plain, (held, *args), kwargs)
        if is_ours(plain) and not isinstance(held, (Size, Expr, dtypes.dtype)):
            raise NotWhole(f"'{plain.__qualname__}' is called")
        return self.call(plain, held, *args, **kwargs)

    def _apply_layer(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`PyLayer.apply`, whose `forward` and `backward` are watched."""
        methods: dict[str, Any] = {}
        for name in ("forward", "backward"):
            found, where = lookup(kind, name)
            if is_ours(where) or not isinstance(found, staticmethod):
                raise NotWhole(f"'{kind.__name__}.{name}' is no static method")
            self.class_guard(kind, name)
            methods[name] = staticmethod(functools.partial(self.call, found.__func__) if name == "forward" else self._rule(found.__func__))
        args, kwargs = self._arguments(args, kwargs)
        watched: Any = types.new_class(kind.__name__, (kind,), {}, lambda body: body.update(methods))
        return watched.apply(*args, **kwargs)

    def _rule(self, function: Any) -> Callable[..., Any]:
        """A function for gradients, watched, which changes nothing: it runs now, and what it computes will be computed whenever gradients
        are asked for.
        """
        return WatchedRule(lambda *args, **kwargs: self._inside(lambda: self.call(function, *args, **kwargs)))

    def _call_layer(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `Layer.__call__` does, watched."""
        kind = type(layer)
        if kind.__call__ is not Layer.__call__:
            found, _ = lookup(kind, "__call__")
            self.class_guard(kind, "__call__")
            return self.call(types.MethodType(found, layer), *args, **kwargs)
        return self._call_forward(layer, args, kwargs)

    def _call_forward(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `Layer.__call__` itself does: hooks, and forward between them."""
        if self._is_trusted(layer):
            return self._run_trusted(layer, layer, args, kwargs)
        pre, post = (list(self.state.expand(self.attribute(layer, name)).values()) if name in vars(layer) else [] for name in HOOKS)
        if any(hook.always for hook in post):
            raise NotWhole("a hook is to be called when forward raises, too")
        for hook in pre:
            if hook.with_kwargs:
                raise NotWhole("a hook takes the keywords of a call")
            changed = self.call(hook.function, layer, args)
            args = args if changed is None else changed if isinstance(changed, tuple) else (changed,)
        outputs = self.call(self.attribute(layer, "forward"), *args, **kwargs)
        for hook in post:
            if hook.with_kwargs:
                raise NotWhole("a hook takes the keywords of a call")
            changed = self.call(hook.function, layer, args, outputs)
            outputs = outputs if changed is None else changed
        return outputs

    def _run_trusted(self, layer: Layer, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a Layer of the framework's, or its forward, as it is."""
        self.state.expand_layer(layer, True)
        for part in (layer, *layer.sublayers()):
            if "forward" not in vars(part):
                self._own_absent(part, "forward")
            self.method_guard(type(part), "forward")
        args, kwargs = self._arguments(args, kwargs)
        return self._unchanged([layer, *layer.sublayers()], lambda: run(*args, **kwargs))

    def _is_trusted(self, layer: Layer) -> bool:
        """Whether a Layer, and all below it, are the framework's own, without hooks or changed methods: it reads its attributes, and
        nothing else.
        """
        if layer.sublayers() and not all(self._is_trusted(child) for child in layer.children()):
            return False
        own = vars(layer)
        ours = is_ours(type(layer)) and is_ours(type(layer).forward)
        return ours and not own["_forward_pre_hooks"] and not own["_forward_post_hooks"] and self._has_own_forward(layer)

    def _has_own_forward(self, layer: Layer) -> bool:
        """Whether a Layer runs the forward of its class, compiled or not."""
        forward = vars(layer).get("forward")
        return (
            forward is None
            or isinstance(forward, CompiledFunction)
            and getattr(forward.dygraph_function, "__func__", None) is type(layer).forward
        )

    def _unchanged(self, layers: list[Layer], run: Callable[[], Any]) -> Any:
        """Run the framework's own code on its Layers, which sets none of their attributes but to numbers and texts."""
        for layer in layers:
            self.state.journal.before(layer)
        before = [dict(vars(layer)) for layer in layers]
        result = run()
        for layer, was in zip(layers, before, strict=True):
            now = vars(layer)
            if now.keys() != was.keys():
                raise NotWhole(f"a {type(layer).__name__} changes its attributes")
            for name, value in was.items():
                if now[name] is value:
                    continue
                if type(now[name]) not in CONSTANTS or type(value) not in CONSTANTS:
                    raise NotWhole(f"a {type(layer).__name__} changes its attributes")
                if self.state.born:
                    raise NotWhole(f"a {type(layer).__name__} changes its attributes")
                if now[name] != value:
                    self.state.written.add((id(layer), name))
                    self.state.effect("set_attribute", layer, name, now[name])
        return result

    def _call_layer_method(self, layer: Layer, plain: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method that Layers have from the framework."""
        name = plain.__name__
        if name in LAYER_READERS:
            self.state.expand_layer(layer, False)
            for child in layer.sublayers():
                self.state.expand_layer(child, False)
            found = plain(layer, *args, **kwargs)
            return list(found) if isinstance(found, types.GeneratorType) else found
        if name == "state_dict" and not args and not kwargs:
            return self.made(self._state_dict(layer, plain))
        if name in ("set_state_dict", "set_dict", "load_dict") and len(args) == 1 and not kwargs and type(args[0]) in LISTS:
            return self._set_state_dict(layer, plain, args[0])
        if name == "__call__":
            return self._call_forward(layer, args, kwargs)
        if name in (
            "apply",
            "to",
            "astype",
            "float",
            "load_dict",
            "set_state_dict",
            "set_dict",
            "state_dict",
        ) or name.startswith(("register", "add_", "create")):
            raise NotWhole(f"'{type(layer).__name__}.{name}' is called")
        if name == "forward" and self._is_trusted(layer):
            return self._run_trusted(layer, functools.partial(plain, layer), args, kwargs)
        return self._call_twin(plain, (layer, *args), kwargs)

    def _state_dict(self, layer: Layer, plain: types.FunctionType) -> Any:
        """The tensors of a Layer by name, which are those that it holds."""
        for part in (layer, *layer.sublayers()):
            self.state.expand_layer(part, False)
            if self.state.expand(self.attribute(part, "_state_dict_hooks")):
                raise NotWhole(f"'{type(layer).__name__}.state_dict' is called, through hooks")
            if vars(part)["_buffers"]:
                self.state.expand(self.attribute(part, "_non_persistable_buffer_names_set"))
        return plain(layer)

    def _set_state_dict(self, layer: Layer, plain: types.FunctionType, given: Any) -> Any:
        """Values for all tensors of a Layer; others than those that it holds are told of by a warning, at each call."""
        own, given = self._state_dict(layer, cast(Any, Layer.state_dict)), self._argument(given)
        fits = own.keys() == given.keys() and all(
            isinstance(held, Tensor) and held.type.shape == own[name].type.shape and held.type.dtype == own[name].type.dtype
            for name, held in given.items()
        )
        if not fits or self.state.born:
            raise NotWhole(f"'{type(layer).__name__}.{plain.__name__}' is called")
        return self.made(plain(layer, given))

    def _call_ours(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of the framework."""
        module = module_name(function)
        if module == "polyreme.jit.static_function" or getattr(function, "__polyreme_not_to_static__", False):
            raise NotWhole(f"'{function.__name__}' is called")
        if module.startswith(("polyreme.nn.layer", "polyreme.nn.container")) or module == "polyreme.nn.recurrence":
            # Methods of Layers, called with the Layer.
            return self._call_twin(function, args, kwargs)
        if module == "polyreme.nn.utils" and function.__name__ in GRADIENT_FUNCTIONS or module == "polyreme.hapi.steps":
            return self._call_twin(function, args, kwargs)
        if module in FLOW:
            return function(*map(self._body, args), **{name: self._body(value) for name, value in kwargs.items()})
        if type(args[0] if args else None) is ChangingArray and function is to_tensor:
            return self._tensor_of(*args, **kwargs)
        if any(type(value) is ChangingArray for value in args) and f"{module}.{function.__qualname__}" in _TAKE_ARRAYS:
            args = tuple([arrays.as_tensor(self.state, v) if type(v) is ChangingArray else v for v in args])
        if function is to_tensor and len(args) == 1 and type(args[0]) is ChangingNumber and not kwargs:
            dtype = dtypes.default_dtype().scalar if isinstance(args[0].value, float) else i64
            return dispatch.alias(changing.as_tensor(self.state, args[0], dtype))
        if module.startswith("polyreme.tape") and function.__name__ == "grad":
            self._arguments(args, kwargs)
            self.check_behind(*(args[i] if len(args) > i else kwargs.get(name) for i, name in enumerate(("outputs", "inputs"))))
            return function(*args, **kwargs)
        if module.startswith("polyreme.tape") and function.__name__ == "backward":
            self._arguments(args, kwargs)
            outputs = [value for value in flat([args, list(kwargs.values())]) if isinstance(value, Tensor)]
            self.send_back(outputs, lambda: function(*args, **kwargs))
            return None
        if function is last_dtype:
            dtype = last_dtype()
            return dtype if self.state.casts else self.state.note(dtype, Computed(last_dtype, "the dtype of the last 'auto_cast'"))
        if not module.startswith(TRUSTED) or _makes_parameters(function, module):
            raise NotWhole(f"'{module}.{function.__qualname__}' is called")
        if self.state.kinds_of_numbers or self.state.rounded_numbers:
            numbers.check_given(self.state, (*args, *kwargs.values()))
        if function.__name__ in TENSOR_REFUSED or function.__name__ in GRADIENT_METHODS:
            raise NotWhole(f"'{function.__name__}' is called")
        args, kwargs = self._arguments(args, kwargs)
        if function.__name__ == "to_tensor" and not kwargs.get("stop_gradient", args[3] if len(args) > 3 else True):
            raise NotWhole("a tensor that was made inside the function is to get gradients")
        return function(*args, **kwargs)

    def _body(self, value: Any) -> Any:
        """An argument of a function that makes branches and loops: functions are bodies of these, alone or in pairs with their conditions.
        """
        if isinstance(value, (types.FunctionType, types.MethodType, Layer)):
            return lambda *args, **kwargs: self._inside(lambda: self.call(value, *args, **kwargs))
        if value is UNDEFINED:
            return value
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            self.state.expand(value)
            return type(value)(map(self._body, value))
        if isinstance(value, dict):
            self.state.expand(value)
            return {key: self._body(part) for key, part in value.items()}
        return self._argument(value)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments for code that is not watched: containers are guarded, functions are watched when they are called."""
        return tuple(map(self._argument, args)), {name: self._argument(value) for name, value in kwargs.items()}

    def _tensor_of(self, array: ChangingArray, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Any:
        """`to_tensor` of an array."""
        wanted = None if dtype is None else dtypes.as_dtype(self._argument(dtype)).scalar
        if not stop_gradient:
            raise NotWhole("a tensor that was made inside the function is to get gradients")
        return to_tensor(arrays.as_tensor(self.state, array, wanted), place=self._argument(place))

    def _argument(self, value: Any) -> Any:
        if type(value) is ChangingArray:
            return arrays.pinned(self.state, value)
        value = self.state.pinned(value)
        kind = type(value)
        if kind in CONSTANTS or isinstance(value, (Tensor, Expr, Size, dtypes.dtype, np.generic, np.dtype, device.Place)):
            return value
        if kind in LISTS:
            self.state.expand(value)
            for element in value.values() if isinstance(value, dict) else value:
                self._argument(element)
            return value
        if isinstance(value, tuple):
            for element in value:
                self._argument(element)
            return value
        if isinstance(value, np.ndarray):
            return value
        if kind is types.FunctionType:
            return value if value.__code__ in self.state.inner else functools.partial(self.call, value)
        if kind in (*ITERATORS, *VIEWS):
            return self.iterate(value)
        if isinstance(value, type) or kind is types.BuiltinFunctionType:
            return value
        if is_enumeration(value):
            return value
        raise NotWhole(f"a {kind.__name__} is handed to a function that is not watched")

    def _construct(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kind in MAKERS:
            return self._make(kind, args, kwargs)
        if issubclass(kind, BaseException):
            if lookup(kind, "__init__")[0] is not lookup(BaseException, "__init__")[0] and isinstance(
                lookup(kind, "__init__")[0], types.FunctionType
            ):
                raise NotWhole(f"a {kind.__name__} is made")
            return kind(*args, **kwargs)
        if issubclass(kind, tuple) and hasattr(kind, "_fields") or kind is contextlib.nullcontext:
            if issubclass(kind, tuple) and (has_operators(kind) or not is_made_by_python(kind)):
                raise NotWhole(f"a {kind.__name__} is made inside the function, which has a __new__ or operators of its own")
            return kind(*args, **kwargs)
        if is_ours(kind):
            if module_name(kind) in ("polyreme.grad_mode", "polyreme.amp.regions"):
                args, kwargs = self._arguments(args, kwargs)
                return kind(*args, **kwargs)
            raise NotWhole(f"a {kind.__name__} is made inside the function")
        if issubclass(kind, np.generic) and any(isinstance(a, Changing) for a in args):
            return arrays.computed(self.state, kind, *args, **kwargs)
        if issubclass(kind, (np.generic, np.dtype, np.finfo, np.iinfo)) and not any(isinstance(a, Tensor) for a in args):
            return kind(*map(self.state.pinned, args), **kwargs)
        if (
            type(kind) is not type
            or lookup(kind, "__new__")[1] is not object
            or issubclass(kind, (Layer, Tensor))
            or hasattr(kind, "__del__")
        ):
            raise NotWhole(f"a {kind.__name__} is made inside the function")
        init: Any
        init, where = lookup(kind, "__init__")
        made = self.made(object.__new__(kind))
        self.state.held.append(made)
        if where is object and not args and not kwargs:
            return made
        if not isinstance(init, types.FunctionType):
            raise NotWhole(f"a {kind.__name__} is made inside the function")
        self.class_guard(kind, "__init__")
        if init.__code__.co_filename == "<string>" and hasattr(kind, "__dataclass_fields__"):
            factories = [f.default_factory for f in dataclasses.fields(cast(Any, kind)) if f.default_factory is not dataclasses.MISSING]
            if (
                hasattr(kind, "__post_init__")
                or any(f not in (list, dict, set) for f in factories)
                or kind.__setattr__ is not object.__setattr__
                or any(_is_set_by_a_descriptor(kind, f.name) for f in dataclasses.fields(cast(Any, kind)))
            ):
                raise NotWhole(f"a {kind.__name__} is made inside the function")
            init(made, *args, **kwargs)
            return made
        self.call(init, made, *args, **kwargs)
        return made

    def _make(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A built-in type is called."""
        if kind is functools.partial:
            return functools.partial(args[0], *args[1:], **kwargs)
        if kind in (int, float, bool) and len(args) == 1 and type(args[0]) is ChangingNumber and not kwargs:
            return self.state.computed(kind, args[0])
        if kind is type and len(args) == 1 and isinstance(args[0], Changing):
            return type(args[0].value)  # by a guard
        if kind in (int, float, bool, complex) and args and type(args[0]) is ChangingArray:
            return arrays.computed(self.state, kind, *args, **kwargs)
        args = tuple(map(self.state.pinned, args))
        if kind is type:
            if len(args) != 1:
                raise NotWhole("a class is made")
            self._check_kind_asked(args[0])
            return int if isinstance(args[0], Expr) else type(args[0])
        if kind is map and has_free_size(args[1:]) and not isinstance(args[0], types.FunctionType):
            raise NotWhole("free sizes are handed to a function that is not watched")
        if kind is str and args and not self.has_plain_text(args[0]):
            raise NotWhole(f"the text of a {type(args[0]).__name__} is asked for")
        if kind in (int, float, bool, complex):
            for value in args:
                if isinstance(value, Expr):
                    if kind is int:
                        return value
                    raise NotWhole(f"a number is made of the free size '{value}'")
                if isinstance(value, Tensor):
                    return kind(value)  # which says what is amiss, but for constants
                if not isinstance(value, (bool, int, float, complex, str, np.generic, Size, list, tuple, dict, type(None))):
                    raise NotWhole(f"'{kind.__name__}()' of a {type(value).__name__}")
                self.iterate(value) if type(value) in LISTS else None
            return kind(*args, **kwargs)
        if kind is range and self.state.flow and any(isinstance(value, Tensor) for value in args):
            return TensorRange(*args)
        given = [self._spread(value) for value in args]
        return self.made(kind(*given, **kwargs))

    def _spread(self, value: Any) -> Any:
        """An argument of a built-in that may go through it, or call it."""
        if isinstance(value, types.FunctionType):
            return value if value.__code__ in self.state.inner else functools.partial(self.call, value)
        if type(value) in CONSTANTS or isinstance(value, (Tensor, Expr, type, np.generic, np.dtype)):
            return value
        if isinstance(value, FUNCTIONS) or callable(value) and not isinstance(value, Layer):
            return functools.partial(self.call, value)
        return self.iterate(value)

    def _call_builtin(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held = getattr(function, "__self__", None)
        if isinstance(function, np.ufunc) or module_of(function).split(".")[0] == "numpy" and not isinstance(held, np.ndarray):
            return arrays.call_function(self.state, function, args, kwargs)
        if type(args[0] if args else None) is ChangingArray and (held is None or isinstance(held, types.ModuleType)):
            if function in (isinstance, callable):
                return function(args[0].value, *args[1:])  # whose class is guarded
            if function is len and len(args) == 1:
                return arrays.length(self.state, args[0])
        if arrays.meets(args) and function in PURE and function not in (isinstance, len, id, iter, next, callable):
            return arrays.call_pure(self.state, function, args, kwargs)
        if any(type(value) is ChangingNumber for value in (*args, *kwargs.values())):
            if function in PURE and not kwargs and all(type(v) in (ChangingNumber, int, float, bool) for v in args):
                return self.state.computed(function, *args)
            if function is isinstance:
                args = tuple([v.value if type(v) is ChangingNumber else v for v in args])  # whose type is guarded
            elif function not in (print, setattr, getattr) and not isinstance(held, (dict, list, collections.deque)):
                args, kwargs = tuple(map(self.state.pinned, args)), {name: self.state.pinned(v) for name, v in kwargs.items()}
        if held is not None and not isinstance(held, (types.ModuleType, type)):
            return self._call_bound(function, held, args, kwargs)
        if function in (getattr, hasattr):
            return self._getattr(function, args)
        if function is print:
            self.show(args, kwargs)
            return None
        if function is setattr and len(args) == 3:
            self.set_attribute(*args)
            return None
        if function is delattr and len(args) == 2:
            self.delete_attribute(*args)
            return None
        name = getattr(function, "__name__", "")
        if function in (isinstance, issubclass):
            kinds = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(
                isinstance(k, type)
                and type(k).__instancecheck__ is not type.__instancecheck__
                and not is_ours(k)
                and k.__module__ not in ("collections.abc", "numbers", "typing", "abc")
                for k in kinds
            ):
                raise NotWhole("a class decides itself what its instances are")
            self._check_kind_asked(args[0], kinds)
            return function(0 if isinstance(args[0], Expr) else args[0], args[1])
        if function is len:
            (value,) = args
            if (
                isinstance(value, (Tensor, *VIEWS, tuple, str, bytes, range, frozenset, Size))
                or type(value) in LISTS
                or isinstance(value, np.ndarray)
            ):
                return len(self.iterate(value))
            if isinstance(value, Layer):
                self.state.expand_layer(value, False)
                return len(cast(Any, value))
            found, _ = lookup(type(value), "__len__")
            if isinstance(found, types.FunctionType):
                self.class_guard(type(value), "__len__")
                return self.call(found, value)
            raise NotWhole(f"the length of a {type(value).__name__} is asked for")
        if function in (repr, format, ascii):
            if not all(map(self.has_plain_text, args)):
                raise NotWhole(f"the text of a {type(args[0]).__name__} is asked for")
            return function(*args, **kwargs)
        if function is hash:
            raise NotWhole("a hash is asked for")
        if function is id and not isinstance(args[0], Tensor) and id(args[0]) in self.state.sources:
            self.state.guard(self.state.sources[id(args[0])], "{0} is {1}", args[0], message=f"is the same {type(args[0]).__name__}")
            return id(args[0])
        if function in PURE:
            values = [self._spread(value) for value in args]
            if function is sum and values and not kwargs:
                values[0] = list(values[0])
                if any(isinstance(value, Changing) for value in values[0]):
                    return functools.reduce(functools.partial(self.operator, "add"), values[0], values[1] if len(values) > 1 else 0)
            named = {key: self._spread(value) for key, value in kwargs.items()}
            if any(isinstance(value, Expr) for value in args):
                return self._of_sizes(function, args, kwargs)
            if module_of(function) == "math" and any(isinstance(value, Tensor) for value in args):
                raise NotWhole(f"'math.{name}' of a tensor")
            for value in values:
                # What they compare or add is not watched.
                for element in value if isinstance(value, (list, tuple)) else ():
                    self.safe(element, name)
                    self.state.expand_deep(element)
            return function(*values, **named)
        if isinstance(held, type) and isinstance(function, types.BuiltinFunctionType) and held in (dict, str, bytes, int, float):
            return function(*[self._spread(value) for value in args], **kwargs)  # dict.fromkeys and the like
        raise NotWhole(f"'{module_of(function)}.{name}' is called".replace("builtins.", ""))

    def _check_kind_asked(self, value: Any, kinds: tuple[Any, ...] | None = None) -> None:
        """A tensor that stands for a number would not be what Python has there, nor one that stands for a parameter among the arguments,
        where it is asked whether it is one of `kinds` that only these are.
        """
        if isinstance(value, Tensor) and isinstance(value._value, Value) and value._value in self.state.numbers:
            raise NotWhole("it is asked what a number is that a tensor decides")
        if kinds is not None and isinstance(value, Tensor) and issubclass(Tensor, kinds) == issubclass(Parameter, kinds):
            return
        if isinstance(value, Tensor) and id(value) in self.state.sources and id(value) not in self.state.outside_tensors:
            self.state.guard(self.state.sources[id(value)], "{0}.__class__ in {1}", (Tensor, np.ndarray), message="is a plain tensor")

    def _of_sizes(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            raise NotWhole(f"a number depends on a free size ({error})") from None

    def _getattr(self, function: Any, args: tuple[Any, ...]) -> Any:
        held, name, *default = args
        if not isinstance(name, str):
            raise TypeError("attribute name must be string")
        try:
            value = self.attribute(held, name)
        except AttributeError:
            if function is hasattr:
                return False
            if default:
                return default[0]
            raise
        return True if function is hasattr else value

    def _call_bound(self, function: Any, held: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A built-in method of an object."""
        name, kind = function.__name__, type(held)
        if isinstance(held, (str, bytes, int, float, complex, tuple, frozenset, range, slice, Size, *VIEWS)):
            self.not_a_view(held)
            if isinstance(held, tuple) and name in ("count", "index"):
                self.safe((held, args), "in")
            for value in args:
                if isinstance(value, Tensor):
                    raise NotWhole(f"'{kind.__name__}.{name}' of a tensor")
            if name in ("format", "join") and not all(
                self.has_plain_text(v) for v in [*args, *kwargs.values()] if not isinstance(v, ITERATORS)
            ):
                raise NotWhole("the text of something is asked for")
            return function(*[self._spread(value) for value in args], **kwargs)
        if isinstance(held, np.ndarray):
            if self.state.is_outside(held):
                raise NotWhole(f"'numpy.ndarray.{name}' is called")
            for value in (*args, *kwargs.values()):
                arrays.check_known(self.state, value)
            return function(*args, **kwargs)
        for family in (dict, list, set, collections.deque):
            if isinstance(held, family):
                if kind not in LISTS and kind not in (collections.defaultdict, collections.Counter):
                    break
                if name in ("count", "index", "remove"):
                    self.safe(held, "in")
                elif name == "sort" and "key" not in kwargs:
                    self.safe(held, name)
                if name in READERS[family]:
                    self.state.expand_deep(held) if name in ("count", "index") else self.state.expand(held)
                    return function(*[self._element(value) for value in args], **kwargs)
                if name in WRITERS[family]:
                    return self.write(held, name, args, kwargs)
        raise NotWhole(f"'{kind.__name__}.{name}' is called")

    def _element(self, value: Any) -> Any:
        self.safe(value, "in")
        self.state.expand_deep(value)
        return value

    def write(self, held: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """A method that changes a list, dict or set."""
        state = self.state
        family = next(f for f in (dict, list, set, collections.deque) if isinstance(held, f))
        if name in ("extend", "update"):
            args = tuple(dict(self.iterate(a)) if name == "update" and family is dict else list(self.iterate(a)) for a in args)
        if name == "sort":
            kwargs = {key: self._spread(value) for key, value in (kwargs or {}).items()}
        state.may_change(held)
        if args and (family is set or name in ("pop", "setdefault") and family is dict):
            self.hashed(args[0])
        outside = state.is_outside(held)
        if family is dict and name == "update" and kwargs:
            args, kwargs = (dict(*args, **kwargs),), None
        if outside:
            if kwargs:
                raise NotWhole(f"'{family.__name__}.{name}' with keywords changes a container outside")
            if WRITERS[family][name]:
                state.expand(held)
            for number in state.changing_elements.pop(id(held), {}).values():
                state.note(number.value, number.source)
            state.journal.before(held)
        result = getattr(held, name)(*args, **(kwargs or {}))
        if outside:
            state.effect("method", held, name, *args)
        return result


def _is_set_by_a_descriptor(kind: type, name: str) -> bool:
    found, _ = lookup(kind, name)
    return hasattr(type(found), "__set__") and not isinstance(found, types.MemberDescriptorType)


def _makes_parameters(function: Any, module: str) -> bool:
    """Whether a function of fluid makes parameters, at each call new ones."""
    return module.startswith("polyreme.fluid.") and any(
        name in ("param_attr", "persistable") for name in inspect.signature(function).parameters
    )
