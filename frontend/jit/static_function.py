"""`to_static`: a function or a Layer's forward that is traced once per signature and runs as compiled code.

What belongs to the signature: how the arguments are nested, values of arguments that are no tensors, dtypes and shapes of tensors (with
sizes that an `InputSpec` leaves free standing for all), which tensors need gradients, and for a Layer the training flag and the identity
of every parameter and buffer in it. Other Python state that a function reads counts as constant, as in Paddle.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.ir.diagnostics import Location
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.dims import symbols as symbols_of
from polyreme.ir.types import TensorType
from polyreme.jit.program import Program
from polyreme.jit.sized_programs import Shapes, SizedPrograms, shapes_of
from polyreme.jit.structure import LEAF, Template, flatten, is_tensor, paths, unflatten
from polyreme.jit.trace import Traced, TraceError, trace
from polyreme.nn.tables import structure_version
from polyreme.static.input_spec import InputSpec, input_types
from polyreme.tensor import Tensor

__all__ = ["StaticFunction", "enable_to_static", "ignore_module", "not_to_static", "to_static"]

_enabled = True
MOST_SHAPES = 1024
MOST_RECENT = 64


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Let `to_static` functions run compiled (True) or as the Python they were written in (False)."""
    global _enabled
    if not isinstance(enable_to_static_bool, bool):
        raise TypeError(f"expected a bool but got {enable_to_static_bool!r}")
    _enabled = enable_to_static_bool


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
    full_graph: bool = True,
    **kwargs: Any,
) -> Any:
    """Compile a function or a Layer; a decorator with or without arguments.

    A function becomes a `StaticFunction`; a Layer is returned itself, its `forward` replaced. `input_spec` says for each positional argument
    what it will be, free sizes as None; without it every new shape is traced anew. `build_strategy`, `backend` and `full_graph` choose
    between Paddle's own compilers and change nothing here.
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
            function.forward = StaticFunction(function.forward, input_spec, function)  # type: ignore[method-assign]
        return function
    if isinstance(function, StaticFunction):
        return StaticFunction(function.rollback(), input_spec, function.layer)
    if not callable(function):
        raise TypeError(f"expected a function or a Layer for to_static but got {function!r}")
    return function if getattr(function, "__polyreme_not_to_static__", False) else StaticFunction(function, input_spec)


class StaticFunction:
    """A function that runs compiled. Used as a method, it is bound to each instance separately."""

    def __init__(self, function: Callable[..., Any], input_spec: Sequence[Any] | None = None, layer: Any = None):
        functools.update_wrapper(self, function)
        if layer is None and isinstance(function, MethodType) and hasattr(function.__self__, "named_parameters"):
            layer = function.__self__
        self._function = function
        self._layer = weakref.ref(layer) if layer is not None else None
        self._signature = inspect.signature(function)
        self._bound: weakref.WeakKeyDictionary[Any, StaticFunction] = weakref.WeakKeyDictionary()
        self._programs: dict[Any, SizedPrograms] = {}
        self._checked: dict[Any, tuple[list[TensorType], tuple[str, ...]]] = {}
        # Programs by what is quickly told of a call, for plain calls with tensors.
        self._recent: dict[Any, tuple[Program, Template]] = {}
        self.input_spec = _check_specs(input_spec)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if instance not in self._bound:
            self._bound[instance] = StaticFunction(MethodType(self._function, instance), self.input_spec)
        return self._bound[instance]

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
        if not _enabled or dispatch.active_trace() is not None:
            # Inside another traced function the ops simply become part of it.
            return self._function(*args, **kwargs)
        key = None if kwargs else _plain_key(args)
        found = self._recent.get(key) if key is not None else None
        if found is not None and found[0].holds():
            program, outputs = found
            inputs: Sequence[Tensor] = args
        else:
            leaves: list[Any] = []
            template = self._flatten(args, kwargs, leaves)
            inputs = [leaf if isinstance(leaf, Tensor) else _tensor(leaf) for leaf in leaves]
            program, outputs = entry = self._program(template, inputs)
            if key is not None:
                if len(self._recent) >= MOST_RECENT:
                    self._recent.clear()
                self._recent[key] = entry
        results = program(inputs)
        return results[0] if outputs is LEAF else unflatten(outputs, iter(results))

    def _flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], leaves: list[Any]) -> Template:
        if kwargs or len(args) != len(self._signature.parameters):
            # Positional and keyword forms of one call, and defaults left out or given, are one signature.
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return flatten((args, dict(kwargs)), leaves, is_tensor)

    def _program(self, template: Template, inputs: Sequence[Tensor]) -> tuple[Program, Template]:
        layer = self.layer
        shapes = (template, *((t.type.dtype.name, t.type.shape) for t in inputs))
        checked = self._checked.get(shapes)
        if checked is None:
            types = self._types(template, inputs) if self.input_spec else [t.type for t in inputs]
            checked = types, tuple(map(str, types))
            if len(self._checked) >= MOST_SHAPES:
                self._checked.clear()
            self._checked[shapes] = checked
        key = (
            template,
            checked[1],
            tuple(t.stop_gradient for t in inputs),
            tape.is_grad_enabled(),
            _layer_state(layer) if layer is not None else (),
        )
        programs = self._programs.get(key)
        if programs is None:
            programs = self._programs[key] = SizedPrograms(checked[0])

        def make(types: list[TensorType], shapes: Shapes) -> tuple[Program, Template]:
            traced = self._trace(template, types, [t.stop_gradient for t in inputs], shapes)
            return Program(traced, self._name), traced.outputs

        return programs.find(shapes_of(inputs), make)

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
                raise ValueError(f"expected shape [{', '.join(map(str, expected.shape))}] for the input '{name}' but got {list(tensor.shape)}")
            for dim, size in zip(expected.shape, actual.shape, strict=True):
                if isinstance(dim, Expr):
                    known, where = sizes.setdefault(str(dim), (size, name))  # type: ignore[arg-type]
                    if known != size:
                        raise ValueError(f"expected {dim} = {known} for the input '{name}', as '{where}' has it, but got {size} in {list(tensor.shape)}")
            types.append(expected)
        return types

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

    def _trace(self, template: Template, types: Sequence[TensorType], stop_gradients: Sequence[bool], examples: Shapes | None = None) -> Traced:
        names = [_identifier(name) for name in self._input_names(template)]

        def arguments(stand_ins: Iterable[Tensor]) -> Any:
            return unflatten(template, iter(stand_ins))

        inputs = list(zip(types, names, stop_gradients, strict=True))
        return trace(self._function, arguments, inputs, _named_tensors(self.layer), self._name, _location(self._function), examples)

    def trace(self, input_spec: Sequence[Any] | None = None) -> Traced:
        """The program for inputs described by specs (or tensors), the Layer's own specs by default, whatever its other arguments default to."""
        specs = _check_specs(input_spec) if input_spec is not None else self.input_spec
        if specs is None:
            names = [p.name for p in self._signature.parameters.values() if p.default is p.empty] or ["x"]
            example = ", ".join(f"InputSpec([None, 10], 'float32', '{name}')" for name in names)
            raise TraceError(
                f"expected an input_spec that says what '{self._name}' takes; give one, such as [{example}], or to `polyreme inspect`, `compile`, `bench` and `bisect` --input '{names[0]}=f32[N,10]'",
                _location(self._function),
                code="E0503",
            )
        try:
            bound = self._signature.bind(*specs)
        except TypeError as error:
            raise TraceError(
                f"expected an input_spec for '{self._name}({', '.join(self._signature.parameters)})' but {error}", _location(self._function), code="E0503"
            ) from None
        bound.apply_defaults()
        leaves: list[Any] = []
        template = flatten((bound.args, dict(bound.kwargs)), leaves, lambda v: isinstance(v, InputSpec))
        saved, self.input_spec = self.input_spec, specs
        try:
            types = input_types(leaves, self._input_names(template))
            return self._trace(template, types, [spec.stop_gradient for spec in leaves])
        finally:
            self.input_spec = saved

    def concrete_programs(self) -> list[Traced]:
        """Everything traced so far."""
        return [program.traced for programs in self._programs.values() for program, _ in programs]


def _check_specs(specs: Any) -> list[Any] | None:
    """Specs as a list, tensors among them described; anything else stays an argument's value."""
    if specs is None:
        return None
    if isinstance(specs, (InputSpec, Tensor)):
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


def _plain_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What tells two calls apart that are made with tensors only, as long as nothing else changes; None for other calls."""
    key: list[Any] = [tape.is_grad_enabled(), structure_version()]
    for arg in args:
        if not isinstance(arg, Tensor) or not isinstance(arg._value, np.ndarray):
            return None
        key += (arg._value.dtype, arg._value.shape, arg.stop_gradient)
    return tuple(key)


def _layer_state(layer: Any) -> tuple[Any, ...]:
    """What of a Layer's state a program depends on, besides the contents of its tensors."""
    state: list[Any] = []
    waiting = [layer]
    for part in waiting:
        state.append(part.training)
        if part._parameters:
            state += map(id, part._parameters.values())
        if part._buffers:
            state += map(id, part._buffers.values())
        if part._sub_layers:
            waiting += [child for child in part._sub_layers.values() if child is not None]
            state.append(len(waiting))
    return tuple(state)


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
