"""Layer: what models are made of. Parameters, sublayers and buffers by name, in the order of their registration."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from polyreme import dtypes
from polyreme.device import as_place
from polyreme.nn.tables import Table, note_change
from polyreme.parameter import Parameter
from polyreme.provided import provided
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["Layer"]

# Paddle's `paddle.nn.layer.layers` is where the base of layers stands; here it is `paddle.nn.layer` itself.
layers = sys.modules[__name__]

_hook_ids = itertools.count()


class HookRemoveHelper:
    """Takes a hook off again: out of the table `hooks`, and out of `extra_hook_dict`, a table or a list of tables that know it, too."""

    def __init__(self, hooks: dict[int, Any], *, extra_hook_dict: Any = None):
        self._tables = [
            hooks,
            *([] if extra_hook_dict is None else extra_hook_dict if isinstance(extra_hook_dict, list) else [extra_hook_dict]),
        ]
        self._hook_id = next(_hook_ids)

    def __repr__(self) -> str:
        return f"HookRemoveHelper({'on' if any(self._hook_id in table for table in self._tables) else 'removed'})"

    def remove(self) -> None:
        """Take the hook off; nothing happens when it is off already."""
        for table in self._tables:
            table.pop(self._hook_id, None)


class _Hook(NamedTuple):
    """A hook around `forward`, and how it wants to be called."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False


def _snake_case(name: str) -> str:
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


# Layers that `Layer.bfloat16` leaves as they are by default; whose files put them in.
KEPT_FROM_BFLOAT16: list[type[Layer]] = []


class Layer:
    """A part of a model. A subclass calls `super().__init__()`, sets parameters and sublayers as attributes and defines `forward`."""

    training: bool
    _cast_to_low_precision = True  # whether `amp.decorate` casts it

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32"):
        set_plain = object.__setattr__
        set_plain(self, "_parameters", Table())
        set_plain(self, "_buffers", Table())
        set_plain(self, "_sub_layers", Table())
        set_plain(self, "_non_persistable_buffer_names_set", set())
        self.training = True
        self._full_name = unique_name.generate(name_scope if name_scope is not None else _snake_case(type(self).__name__))
        self._dtype = dtype
        self._forward_pre_hooks: dict[int, Any] = Table()
        self._forward_post_hooks: dict[int, Any] = Table()
        self._state_dict_hooks: dict[int, Any] = OrderedDict()

    # --- running

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"expected '{type(self).__name__}' to define forward()")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            inputs, kwargs = self._before(hook, inputs, kwargs)
        try:
            outputs = self.forward(*inputs, **kwargs)
        except BaseException:
            for hook in self._forward_post_hooks.values():
                if hook.always:
                    self._after(hook, inputs, kwargs, None)
            raise
        for hook in list(self._forward_post_hooks.values()):
            outputs = self._after(hook, inputs, kwargs, outputs)
        return outputs

    def _before(self, hook: _Hook, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of `forward` after a hook."""
        if not hook.with_kwargs:
            changed = hook.function(self, inputs)
            return inputs if changed is None else changed if isinstance(changed, tuple) else (changed,), kwargs
        changed = hook.function(self, inputs, kwargs)
        if changed is None:
            return inputs, kwargs
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(f"expected the hook to return None or a tuple of new inputs and keywords but got {changed!r}")
        return changed

    def _after(self, hook: _Hook, inputs: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> Any:
        """The result of `forward` after a hook."""
        changed = hook.function(self, inputs, kwargs, outputs) if hook.with_kwargs else hook.function(self, inputs, outputs)
        return outputs if changed is None else changed

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> HookRemoveHelper:
        """Call `hook(layer, inputs)` before `forward`; it may return other inputs. `prepend` puts it before the hooks there are.

        `with_kwargs` calls `hook(layer, inputs, keywords)`, which may return a tuple of both.
        """
        return self._add_hook(self._forward_pre_hooks, _Hook(hook, with_kwargs), prepend)

    def register_forward_post_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> HookRemoveHelper:
        """Call `hook(layer, inputs, outputs)` after `forward`; it may return other outputs. `prepend` puts it before the hooks there are.

        `with_kwargs` calls `hook(layer, inputs, keywords, outputs)`. `always_call` calls it when `forward` raises, too, with None as
        outputs.
        """
        return self._add_hook(self._forward_post_hooks, _Hook(hook, with_kwargs, always_call), prepend)

    def register_state_dict_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """Call `hook(state_dict)` at the end of `state_dict`; it may return another one."""
        return self._add_hook(self._state_dict_hooks, hook)

    @staticmethod
    def _add_hook(hooks: Any, hook: Any, first: bool = False) -> HookRemoveHelper:
        helper = HookRemoveHelper(hooks)
        hooks[helper._hook_id] = hook
        if first:
            hooks.move_to_end(helper._hook_id, last=False)
        return helper

    def train(self, mode: bool = True) -> Layer:
        """Training mode for this layer and all below it (evaluation mode for False). Returns itself."""
        for layer in self.sublayers(include_self=True):
            layer.training = mode
        return self

    def eval(self) -> Layer:
        """Evaluation mode for this layer and all below it. Returns itself."""
        return self.train(False)

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Call `fn` on every layer below, children first, and last on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def full_name(self) -> str:
        """The name scope with a running number."""
        return self._full_name

    # --- attributes

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_sub_layers", "_buffers"):
            registered = self.__dict__.get(table)
            if registered is not None and name in registered:
                return registered[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __copy__(self) -> Self:
        """A Layer with the same attributes, which shares its parameters and sublayers; one that is compiled runs its own forward, not that
        of this Layer.
        """
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        compiled: Any = vars(made).get("forward")
        if hasattr(compiled, "bound_to"):
            vars(made)["forward"] = compiled.bound_to(made)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            note_change()
            return
        if isinstance(value, (Parameter, Layer)) or (isinstance(value, Tensor) and "_buffers" not in self.__dict__):
            if "_buffers" not in self.__dict__:
                raise ValueError(f"super().__init__() should be called first in {type(self).__name__}, before '{name}' is set")
        parameters, layers, buffers = (self.__dict__.get(t) for t in ("_parameters", "_sub_layers", "_buffers"))
        if parameters is None or layers is None or buffers is None:
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name)
            parameters[name] = value
        elif isinstance(value, Layer):
            self._forget(name)
            layers[name] = value
        elif name in parameters:
            if value is not None:
                raise TypeError(f"assignment to parameter '{name}' should be of type Parameter or None, but got '{type(value).__name__}'")
            parameters[name] = None
        elif name in layers:
            if value is not None:
                raise TypeError(f"assignment to sublayer '{name}' should be of type Layer or None, but got '{type(value).__name__}'")
            layers[name] = None
        elif isinstance(value, Tensor):
            if name not in buffers:
                self._forget(name)
                self._non_persistable_buffer_names_set.add(name)
            buffers[name] = value
        elif name in buffers:
            if value is not None:
                raise TypeError(f"assignment to buffers '{name}' should be of type Tensor or None, but got '{type(value).__name__}'")
            buffers[name] = None
        else:
            if self.__dict__.get(name, self) is not value:
                note_change()
            object.__setattr__(self, name, value)

    def _forget(self, name: str) -> None:
        """Make room for something registered under `name`."""
        for table in ("_parameters", "_sub_layers", "_buffers"):
            self.__dict__[table].pop(name, None)
        self._non_persistable_buffer_names_set.discard(name)
        self.__dict__.pop(name, None)

    def __delattr__(self, name: str) -> None:
        for table in ("_parameters", "_sub_layers", "_buffers"):
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistable_buffer_names_set.discard(name)
                return
        object.__delattr__(self, name)
        note_change()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parameters, *self._sub_layers, *self._buffers]

    # --- registering

    def _check_name(self, name: Any, what: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"The name of {what} should be a string, but received {type(name).__name__}.")
        if "." in name:
            raise KeyError(f'The name of {what} can not contain "."')
        if name == "":
            raise KeyError(f'The name of {what} can not be empty ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"The {what} '{name}' already exists.")

    def add_parameter(self, name: str, parameter: Parameter | None) -> Parameter | None:
        """Register a parameter; returns it."""
        self._check_name(name, "parameter", self._parameters)
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(f"The parameter to be added should be a Parameter, but received {type(parameter).__name__}.")
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer | None) -> Layer | None:
        """Register a sublayer; returns it."""
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise AssertionError(f"The sublayer to be added should be a Layer, but received {type(sublayer).__name__}.")
        self._sub_layers[str(name)] = sublayer
        return sublayer

    add_module = add_sublayer

    def register_buffer(self, name: str, tensor: Tensor | None, persistable: bool = True) -> None:
        """Register a tensor that no optimizer updates; persistable ones are part of the state dict."""
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"The registered buffer should be a Tensor, but received {type(tensor).__name__}.")
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable_buffer_names_set.discard(name)
        else:
            self._non_persistable_buffer_names_set.add(name)

    def create_parameter(
        self, shape: Any, attr: Any = None, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None, device: Any = None
    ) -> Any:
        """A Parameter, not yet registered; None when `attr` is False. Without a `dtype` it has the default one, without a `device` it lies
        on the current one.
        """
        from polyreme.nn.attributes import ParamAttr, make_parameter

        attr = ParamAttr.to_attr(attr)
        # Only a parameter without a name of its own takes a number.
        name = "" if attr is False or attr.name is not None else unique_name.generate(f"{self._full_name}.{'b' if is_bias else 'w'}")
        made = make_parameter(shape, attr, dtype, is_bias, default_initializer, name)
        if made is not None and device is not None:
            made._place = as_place(device)
        return made

    def create_variable(self, name: str | None = None, persistable: bool | None = None, dtype: Any = None) -> Tensor:
        """An empty tensor to keep an intermediate in, filled by `paddle.assign(x, tensor)`."""
        tensor = Tensor(None, dtype="float32" if dtype is None else dtype)
        tensor.name = f"{self._full_name}.{name}" if name is not None else unique_name.generate(f"{self._full_name}._generated_var")
        tensor.persistable = bool(persistable)
        return tensor

    create_tensor = create_variable

    # --- what is in it

    def children(self) -> Iterator[Layer]:
        """The direct sublayers."""
        for _, layer in self.named_children():
            yield layer

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """The direct sublayers with their names; one held twice comes once."""
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """All layers below, depth first."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[Layer] | None = None, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Layer]]:
        """All layers below with their dotted names, each once unless `remove_duplicate` is False; `layers_set` records what was seen."""
        seen: set[Layer] = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            if remove_duplicate:
                seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from layer.named_sublayers(path, include_self=True, layers_set=seen, remove_duplicate=remove_duplicate)

    def _members(self, table: str, prefix: str, include_sublayers: bool, once: bool = True) -> Iterator[tuple[str, Any]]:
        layers = self.named_sublayers(prefix, include_self=True, remove_duplicate=once) if include_sublayers else [(prefix, self)]
        seen: set[int] = set()
        for path, layer in layers:
            for name, member in layer.__dict__[table].items():
                if member is not None and not (once and id(member) in seen):
                    seen.add(id(member))
                    yield f"{path}.{name}" if path else name, member

    def parameters(self, include_sublayers: bool = True) -> list[Parameter]:
        return [p for _, p in self.named_parameters(include_sublayers=include_sublayers)]

    def named_parameters(
        self, prefix: str = "", include_sublayers: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted names, own ones first; one held twice comes once unless `remove_duplicate` is False."""
        return self._members("_parameters", prefix, include_sublayers, remove_duplicate)

    def buffers(self, include_sublayers: bool = True) -> list[Tensor]:
        return [b for _, b in self.named_buffers(include_sublayers=include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names, own ones first; one held twice comes once unless `remove_duplicate` is False."""
        return self._members("_buffers", prefix, include_sublayers, remove_duplicate)

    def clear_gradients(self, set_to_zero: bool = True) -> None:
        """Clear the gradients of all parameters."""
        for parameter in self.parameters():
            if parameter.trainable:
                parameter.clear_gradient(set_to_zero)

    # --- state

    def _gather_state(
        self, destination: Any, include_sublayers: bool, prefix: str, all_buffers: bool, use_hook: bool, keep_vars: bool = True
    ) -> dict[str, Tensor]:
        state = OrderedDict() if destination is None else destination
        for name, parameter in self._parameters.items():
            if parameter is not None:
                state[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and (all_buffers or name not in self._non_persistable_buffer_names_set):
                state[prefix + name] = buffer if keep_vars else buffer.detach()
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer._gather_state(state, include_sublayers, f"{prefix}{name}.", all_buffers, use_hook, keep_vars)
        if use_hook:
            for hook in self._state_dict_hooks.values():
                changed = hook(state)
                if changed is not None:
                    state = changed
        return state

    def state_dict(
        self,
        destination: Any = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Tensor]:
        """Parameters and persistable buffers by dotted name; put into `destination` when given. `keep_vars=False` gives detached tensors.
        """
        return self._gather_state(destination, include_sublayers, structured_name_prefix, False, use_hook, keep_vars)

    def to_static_state_dict(
        self,
        destination: Any = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Tensor]:
        """Parameters and all buffers by dotted name."""
        return self._gather_state(destination, include_sublayers, structured_name_prefix, True, use_hook, keep_vars)

    def set_state_dict(self, state_dict: dict[str, Any], use_structured_name: bool = True) -> tuple[list[str], list[str]]:
        """Take over values by dotted name (or, with `use_structured_name=False`, by the tensors' own names).

        Returns the names that were not found or did not fit, each with a warning, and those that nothing here is called.
        """
        own = self.state_dict(use_hook=False)
        wanted = {path if use_structured_name else tensor.name for path, tensor in own.items()}
        missing: list[str] = []
        unfit: list[str] = []
        fitting: list[tuple[Tensor, Any]] = []
        for path, tensor in own.items():
            name = path if use_structured_name else tensor.name
            if name not in state_dict:
                missing.append(name)
                warnings.warn(f"Skip loading for {path}. {path} is not found in the provided dict.", stacklevel=2)
                continue
            value = state_dict[name]
            shape = list(value.shape) if hasattr(value, "shape") else list(np.shape(value))
            if tensor._is_initialized() and shape != tensor.shape:
                missing.append(name)
                unfit.append(name)
                warnings.warn(
                    f"Skip loading for {path}. {path} receives a shape {shape}, but the expected shape is {list(tensor.shape)}.",
                    stacklevel=2,
                )
                continue
            fitting.append((tensor, value))
        for tensor, value in fitting:
            _load(tensor, value)
        unexpected = unfit + [name for name in state_dict if name not in wanted and name != "StructuredToParameterName@@"]
        return missing, unexpected

    set_dict = set_state_dict
    load_dict = set_state_dict

    # --- dtype and device

    def _cast(self, dtype: Any, floating_only: bool, skip: tuple[type, ...] = ()) -> Layer:
        wanted = dtypes.as_dtype(dtype)
        for layer in self.sublayers(include_self=True):
            if skip and isinstance(layer, skip):
                continue
            layer._cast_own(wanted, floating_only)
        return self

    def _cast_own(self, wanted: dtypes.dtype, floating_only: bool) -> None:
        """Cast the parameters and buffers of this layer alone."""
        from polyreme.math.elementwise import cast

        for table in (self._parameters, self._buffers):
            for tensor in table.values():
                if tensor is None or not tensor._is_initialized() or floating_only and not tensor.is_floating_point():
                    continue
                if provided.has("cast_variable") and provided.cast_variable(tensor, wanted):
                    continue
                if tensor.dtype is not wanted:
                    tensor._replace(cast(tensor.detach(), wanted))
                if tensor._grad is not None and tensor._grad.dtype is not wanted:
                    tensor._grad = tensor._grad.detach().astype(wanted)
        self._dtype = wanted

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None, non_blocking: bool | None = None) -> Layer:
        """Cast and move parameters and buffers; None keeps what is there. Returns itself."""
        place = None if device is None else as_place(device)
        if blocking is not None and not isinstance(blocking, bool):
            raise AssertionError(f"blocking value error, must be the True, False or None, but got {blocking!r}")
        tensors = [*self.parameters(), *self.buffers()]
        if place is not None:
            for tensor in tensors:
                tensor._place = place
        if dtype is None:
            return self
        # A dtype that is there already changes nothing, not even how the layer is printed.
        wanted = dtypes.as_dtype(dtype)
        if all(t.dtype is wanted for t in tensors):
            return self
        self._cast(wanted, floating_only=False)
        if isinstance(dtype, str):  # and is printed as it was given
            for layer in self.sublayers(include_self=True):
                layer._dtype = dtype
        return self

    def astype(self, dtype: Any = None) -> Layer:
        """Cast all parameters and buffers. Returns itself."""
        if dtype is None:
            return self
        known = [d.name for d in dtypes.DTYPES.values()]
        if isinstance(dtype, str) and dtype not in known:
            raise ValueError(
                f"dtype value error, must be 'bfloat16', 'float16', 'float32', 'float64', 'int8', 'int16', 'int32', 'int64', 'uint8', "
                f"'complex64', 'complex128', 'bool', but got {dtype!r}"
            )
        return self._cast(dtype, floating_only=False)

    def float(self, excluded_layers: Any = None) -> Layer:
        """Cast floating parameters and buffers to float32, but in layers of the excluded classes. Returns itself."""
        return self._cast(dtypes.float32, True, _classes(excluded_layers, ()))

    def float16(self, excluded_layers: Any = None) -> Layer:
        """As in Paddle on a CPU: float16 is no dtype to compute in there, so this warns and keeps what is there. Returns itself."""
        _classes(excluded_layers, ())
        warnings.warn("Paddle compiled by the user does not support float16, so keep original data type.", stacklevel=2)
        return self

    def bfloat16(self, excluded_layers: Any = None) -> Layer:
        """Cast floating parameters and buffers to bfloat16, but in layers of the excluded classes (None: `BatchNorm`, not `BatchNorm1D` and
        the like). Returns itself.
        """
        return self._cast(dtypes.bfloat16, True, _classes(excluded_layers, tuple(KEPT_FROM_BFLOAT16)))

    # --- text

    def extra_repr(self) -> str:
        """What `repr` shows inside the parentheses."""
        return ""

    def __repr__(self) -> str:
        lines = [_indented(f"({name}): {layer!r}") for name, layer in self._sub_layers.items()]
        head = self.extra_repr()
        if "\n" in head:
            head = "\n  " + head.replace("\n", "\n  ") + ("" if lines else "\n")
        return f"{type(self).__name__}({head}" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _load(tensor: Tensor, value: Any) -> None:
    from polyreme.math.creation import to_tensor
    from polyreme.math.elementwise import cast

    new = value.detach() if isinstance(value, Tensor) else to_tensor(np.asarray(value))
    if tensor.dtype is dtypes.bfloat16 and new.dtype is dtypes.uint16:
        # Files hold the bits of bfloat16 as uint16.
        new = Tensor._wrap(new._value.view(dtypes.bfloat16.np))
    tensor._replace(cast(new, tensor.dtype) if tensor._is_initialized() and new.dtype is not tensor.dtype else new)


def _classes(excluded: Any, otherwise: tuple[type, ...]) -> tuple[type, ...]:
    if excluded is None:
        return otherwise
    classes = tuple(excluded) if isinstance(excluded, (list, tuple)) else (excluded,)
    if not all(isinstance(c, type) and issubclass(c, Layer) for c in classes):
        raise TypeError(f"excluded_layers should be type nn.Layer or list, but got {excluded!r}")
    return classes
