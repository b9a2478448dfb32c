"""What the functions of fluid share: one makes variables and parameters, and appends operators by Paddle's names.

Inside `fluid.dygraph.guard()`, and in the functions given to `cond` and its relatives, nothing is appended: the operator is applied at
once, by the same entry of `polyreme.operators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyreme import dispatch, dtypes, math
from polyreme.fluid.framework import default_main_program, default_startup_program, in_dygraph_mode, runs_at_once
from polyreme.fluid.initializer import Constant, Xavier
from polyreme.fluid.param_attr import ParamAttr, WeightNormParamAttr
from polyreme.names import listed
from polyreme.operators.table import apply_legacy, find_legacy
from polyreme.parameter import Parameter
from polyreme.static.inference import appended
from polyreme.static.operator import Operator
from polyreme.static.recorder import variable_of
from polyreme.static.startup import initialize, startup_parameter
from polyreme.static.variable import Variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown

__all__ = ["LayerHelper", "sizes_given"]

# The slots for a variable in place of an attribute, and for variables in place of its elements.
_SLOTS_OF_ATTRIBUTES: dict[str, tuple[str | None, str | None]] = {
    "expand_times": ("ExpandTimes", "expand_times_tensor"),
    "starts": ("StartsTensor", "StartsTensorList"),
    "ends": ("EndsTensor", "EndsTensorList"),
    "strides": ("StridesTensor", "StridesTensorList"),
    "axes": ("AxesTensor", "AxesTensorList"),
    "axis": ("AxisTensor", None),
    "sections": (None, "SectionsTensorList"),
}


class LayerHelper(Shown):
    """Makes what one layer consists of. `kwargs` are the arguments of its function: `input`, `param_attr`, `bias_attr`, `act`, `name`, …"""

    def __init__(self, layer_type: str, **kwargs: Any):
        self.layer_type = layer_type
        self.kwargs = kwargs
        name = kwargs.get("name")
        self.name: str = unique_name.generate(layer_type) if name is None else name

    @property
    def main_program(self) -> Any:
        return default_main_program()

    @property
    def startup_program(self) -> Any:
        return default_startup_program()

    # --- operators

    def append_op(
        self, type: str, inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None, stop_gradient: bool = False,
    ) -> Operator | None:  # fmt: skip
        """An operator at the end of the current block; its slots take variables, names, or lists of them. None stands for an absent input,
        or an attribute as it is by default.
        """
        given = {slot: value for slot, value in (inputs or {}).items() if value is not None}
        made = {slot: value for slot, value in (outputs or {}).items() if value is not None}
        chosen = {name: value for name, value in (attrs or {}).items() if value is not None}
        if runs_at_once():
            self._apply(type, given, made, chosen)
            if stop_gradient:
                for target in (t for value in made.values() for t in _listed(value)):
                    target.stop_gradient = True
            return None
        self._move_to_slots(given, chosen)
        block = self.main_program.current_block()
        # Eager tensors, such as parameters of a Layer, are persistable variables of the program.
        read, written = (
            {slot: [v if isinstance(v, str) else variable_of(v, block) for v in _listed(value)] for slot, value in slots.items()}
            for slots in (given, made)
        )
        op = appended(block, type, read, written, {name: _plain(value) for name, value in chosen.items()})
        block.place(op, len(block.ops))
        if stop_gradient:
            for name in op.output_arg_names:
                block.var_recursive(name).stop_gradient = True
        return op

    def _move_to_slots(self, slots: dict[str, Any], attrs: dict[str, Any]) -> None:
        """Give variables that stand in place of an attribute, or of its elements, to the slots that Paddle has for them."""
        for name, (whole, elements) in _SLOTS_OF_ATTRIBUTES.items():
            value = attrs.get(name)
            if whole and isinstance(value, Tensor):
                slots[whole] = attrs.pop(name)
            elif elements and isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
                slots[elements] = [v if isinstance(v, Tensor) else self.constant([1], "int32", v) for v in attrs.pop(name)]

    @staticmethod
    def _apply(type: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        given = {slot: _listed(value) for slot, value in inputs.items()}
        for slot in find_legacy(type)[1].constant & given.keys():
            given[slot] = [tensor if tensor.stop_gradient else tensor.detach() for tensor in given[slot]]
        made = apply_legacy(type, given, {k: _plain(v) for k, v in attrs.items()})
        for slot, targets in outputs.items():
            for target, result in zip(_listed(targets), made.get(slot, ()), strict=False):
                if result is target:  # what the operator leaves as it is, such as the statistics of a norm that does not move them
                    continue
                wanted = getattr(target, "_wanted", None)
                if wanted == [1] and result.ndim == 0:
                    result = result.reshape([1])
                if result._node is None and not result.stop_gradient:
                    # An operator may give its input itself, to whose gradient the target's goes.
                    result = math.assign(result)
                dispatch.assign(target, result)
                target.stop_gradient = result.stop_gradient

    def append_activation(self, x: Any) -> Any:
        """What the argument `act`, the name of an activation or a dict with its `type` and attributes, makes of `x`."""
        act = self.kwargs.get("act")
        if act is None:
            return x
        attrs = {"type": act} if isinstance(act, str) else dict(act)
        type = attrs.pop("type")
        out = self.create_variable_for_type_inference(x.dtype)
        self.append_op(type, {"X": x}, {"Out": out}, attrs)
        return out

    def append_bias_op(self, x: Any, dim_start: int = 1, dim_end: int | None = None) -> Any:
        """`x` plus a bias as large as its axes from `dim_start` up to `dim_end`, where `bias_attr` is not False."""
        attr = ParamAttr.to_attr(self.kwargs.get("bias_attr"))
        if attr is False:
            return x
        bias = self.create_parameter(attr, x.shape[dim_start:dim_end], x.dtype, is_bias=True)
        out = self.create_variable_for_type_inference(x.dtype)
        self.append_op("elementwise_add", {"X": x, "Y": bias}, {"Out": out}, {"axis": dim_start})
        return out

    # --- what a layer is given

    def multiple_input(self, name: str = "input") -> list[Any]:
        """The tensors of an argument: one, or those of a list."""
        return _listed(self.kwargs.get(name))

    def input(self, name: str = "input") -> Any:
        """The only tensor of an argument."""
        given = self.multiple_input(name)
        if len(given) != 1:
            raise ValueError(f"{self.layer_type} expected one input but got {len(given)}")
        return given[0]

    def input_dtype(self, name: str = "input") -> Any:
        """The element type that all tensors of an argument have."""
        found = {t.dtype for t in self.multiple_input(name)}
        if len(found) != 1:
            raise ValueError(f"Data Type mismatch: {' to '.join(str(d) for d in found)}")
        return found.pop()

    @property
    def param_attr(self) -> Any:
        return ParamAttr.to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> Any:
        return ParamAttr.to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list[Any]:
        """One attribute for each of `length` inputs."""
        given = self.param_attr
        attrs = given if isinstance(given, list) else [given]
        if len(attrs) not in (1, length):
            raise ValueError(f"{self.layer_type} expected one param_attr, or {length}, but got {len(attrs)}")
        if len(attrs) == length:
            return attrs
        if given is not False and given.name is not None and length > 1:
            raise ValueError(f"{self.layer_type} expected {length} names for the parameters of {length} inputs but got '{given.name}'")
        return attrs * length

    # --- variables

    def create_variable_for_type_inference(self, dtype: Any, stop_gradient: bool = False, shape: Any = None) -> Any:
        """A variable for a result, of which an operator will say the shape. `shape` matters for one element: `[1]` is no number here."""
        if runs_at_once():
            made = Tensor()
            made._wanted = shape  # type: ignore[attr-defined]
            return made
        block = self.main_program.current_block()
        name = unique_name.generate(f"{self.name}.tmp")
        return block.create_var(name, shape, dtype, persistable=False, stop_gradient=stop_gradient)

    create_tmp_variable = create_variable_for_type_inference

    def constant(self, shape: Any, dtype: Any, value: Any) -> Any:
        """A variable that is `value` everywhere."""
        out = self.create_variable_for_type_inference(dtype, stop_gradient=True)
        attrs = {"shape": list(shape), "dtype": dtypes.as_dtype(dtype).name, "value": float(value)}
        if dtypes.as_dtype(dtype).scalar.is_integer:
            attrs["str_value"] = str(int(value))
        self.append_op("fill_constant", {}, {"Out": out}, attrs)
        return out

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args: Any, **kwargs: Any) -> Any:
        """A variable of the first block, without gradients; in dygraph mode a tensor of its own, zeros at first."""
        kwargs.setdefault("name", unique_name.generate(f"{self.name}.tmp"))
        if in_dygraph_mode():
            return self._tensor(persistable, *args, **kwargs)
        return self.main_program.global_block().create_var(*args, persistable=persistable, stop_gradient=True, **kwargs)

    @staticmethod
    def _tensor(persistable: bool, shape: Any, dtype: Any, name: str) -> Tensor:
        made = dispatch.full(tuple(int(size) for size in shape), 0, dtypes.as_dtype(dtype).scalar)
        made.name, made.persistable = name, persistable
        return made

    def create_or_get_global_variable(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
        """A variable of the first block, and whether it was made now, as always in dygraph mode."""
        if in_dygraph_mode():
            return self.create_global_variable(*args, name=name, **kwargs), True
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Any, initializer: Any) -> Any:
        """Let the startup program fill a persistable variable; a tensor of dygraph mode is filled at once."""
        if in_dygraph_mode():
            var.set_value(initializer.values(tuple(int(size) for size in var.shape), var.dtype.scalar))
            return var
        block = self.startup_program.global_block()
        if not block.has_var(var.name):
            there = block.create_var(var.name, var.shape, var.dtype, persistable=True, stop_gradient=var.stop_gradient)
            initialize(there, initializer, block)
        return var

    # --- parameters

    def create_parameter(
        self, attr: Any, shape: Any, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None, stop_gradient: bool = False
    ) -> Any:
        """A parameter in both programs, filled by the initializer of `attr`, or the default one, or Xavier's (zeros for a bias). None where
        `attr` is False.
        """
        chosen = ParamAttr.to_attr(attr)
        if chosen is False:
            return None
        sizes = [int(size) for size in shape]
        if any(size < 0 for size in sizes):
            raise ValueError(f"{self.layer_type} expected known sizes for its parameter but got the shape {sizes}")
        kind = dtypes.as_dtype(dtype) if dtype is not None else self.input_dtype()
        if not kind.scalar.is_float and chosen.initializer is None and default_initializer is None:
            raise TypeError(
                f"expected an input of floats for the parameters of '{self.layer_type}' but got {kind.name}; cast it to float32 first"
            )
        initializer = chosen.initializer or default_initializer or (Constant(0.0) if is_bias else Xavier())
        name = chosen.name or unique_name.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        if isinstance(chosen, WeightNormParamAttr):
            return self._weight_normalized(chosen, name, sizes, kind, initializer)
        return self._parameter(chosen, name, sizes, kind, initializer, stop_gradient)

    def get_parameter(self, name: str) -> Any:
        """The parameter of this name that there is in the program; a ValueError where it is none."""
        found = self.main_program.global_block().var(name)
        if not found.is_parameter():
            raise ValueError(f"{self.layer_type} expected the name of a parameter but got '{name}'")
        return found

    def _parameter(self, attr: Any, name: str, shape: Any, dtype: Any, initializer: Any, stop_gradient: bool = False) -> Any:
        if in_dygraph_mode():
            made: Any = Parameter(initializer.values(tuple(shape), dtype.scalar), trainable=attr.trainable)
            made.name = name
        else:
            main, startup = self.main_program.global_block(), self.startup_program.global_block()
            made = startup_parameter(main, startup, name, shape, dtype, initializer)
        made.stop_gradient = stop_gradient or not attr.trainable
        made.optimize_attr = {"learning_rate": attr.learning_rate}
        made.regularizer = attr.regularizer
        made.gradient_clip_attr = attr.gradient_clip
        made.do_model_average = attr.do_model_average
        return made

    def _weight_normalized(self, attr: WeightNormParamAttr, name: str, shape: Any, dtype: Any, initializer: Any) -> Any:
        """g * v / |v|; the startup program lets `g` be |v|."""
        if attr.dim is not None and not 0 <= attr.dim < len(shape):
            raise ValueError(f"expected the dim of a WeightNormParamAttr in [0, {len(shape)}) but got {attr.dim}")
        lengths = [size if axis == attr.dim else 1 for axis, size in enumerate(shape)]
        g = self._parameter(attr, f"{name}_g", lengths, dtype, Constant(1.0))
        v = self._parameter(attr, f"{name}_v", shape, dtype, initializer)
        startup = self.startup_program.global_block()
        if not in_dygraph_mode() and not startup.has_var(f"{name}_norm"):
            square, total = (startup.create_var(f"{name}_{part}", None, dtype) for part in ("square", "norm"))
            for type, read, written, attrs in self._length(startup.var(v.name), square, total, startup.var(g.name), attr.dim, len(shape)):
                startup.append_op(type, {"X": read}, {"Out": written}, attrs)
        square, total, length, ratio, weight = (self.create_variable_for_type_inference(dtype) for _ in range(5))
        for type, read, written, attrs in self._length(v, square, total, length, attr.dim, len(shape)):
            self.append_op(type, {"X": read}, {"Out": written}, attrs)
        self.append_op("elementwise_div", {"X": g, "Y": length}, {"Out": ratio})
        self.append_op("elementwise_mul", {"X": v, "Y": ratio}, {"Out": weight})
        WeightNormParamAttr.params_with_weight_norm.append(weight)
        return weight

    @staticmethod
    def _length(v: Any, square: Any, total: Any, length: Any, dim: int | None, rank: int) -> list[tuple[str, Any, Any, dict[str, Any]]]:
        """The operators that make |v| along all axes but `dim`."""
        axes = [axis for axis in range(rank) if axis != dim]
        reduced = {"dim": axes, "keep_dim": True, "reduce_all": dim is None}
        return [("square", v, square, {}), ("reduce_sum", square, total, reduced), ("sqrt", total, length, {})]


def sizes_given(value: Any) -> Any:
    """Numbers and variables as a list; one variable that stands for all of them as it is."""
    return value if isinstance(value, Tensor) else list(value)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _plain(value: Any) -> Any:
    """An attribute as operators take it: dtypes by name."""
    return value.name if isinstance(value, dtypes.dtype) else value


__dir__ = listed(__name__)
