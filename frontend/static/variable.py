"""Variables of a static program: named tensors whose values exist only while an Executor runs the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import dtypes, parameter
from polyreme.ir.diagnostics import Location, PolyremeError, caller_location
from polyreme.ir.dims import Dim, Expr, symbol
from polyreme.ir.types import ScalarType, TensorType
from polyreme.loaders.program_desc import LOD_TENSOR, LOD_TENSOR_ARRAY, SELECTED_ROWS
from polyreme.loaders.program_text import text_of_variable, type_name
from polyreme.provided import provided
from polyreme.sizes import Size, plain_size, shown_size
from polyreme.static.desc.variable_types import KindedType, ShapedType
from polyreme.static.input_spec import open_size
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.operator import Operator
    from polyreme.static.program import Block

__all__ = ["GRAD", "Parameter", "Variable", "VariableError", "check_flags", "named_variable", "variable_type"]

GRAD = "@GRAD"
# The number of dense tensors among the kinds of variables that Paddle's programs have.
DENSE = LOD_TENSOR


class VariableError(PolyremeError, ValueError):
    """A variable that is not there, or is not what it is taken for."""

    code = "E0601"


class VariableContents:
    """What stands behind a variable in place of an array."""

    __slots__ = ("variable",)

    def __init__(self, variable: Variable):
        self.variable = variable


def check_flags(throw_on_error: Any, with_details: Any) -> None:
    """What `to_string` takes: two bools; `TypeError` otherwise."""
    for name, given in (("throw_on_error", throw_on_error), ("with_details", with_details)):
        if not isinstance(given, bool):
            raise TypeError(f"expected a bool as {name} but got {given!r}")


def variable_type(name: str, shape: Sequence[Any], dtype: ScalarType) -> TensorType:
    """The type of a variable, free sizes (-1 or None) as symbols: that of axis 0 is the batch, one for all variables; a name stands for
    itself.
    """

    def size(axis: int, given: Any) -> Dim:
        given = plain_size(given)
        if isinstance(given, Expr):
            return given
        if isinstance(given, str):
            return symbol(given)
        if given is None or int(given) == -1:
            return open_size(name, axis)
        if int(given) < 0:
            raise VariableError(f"expected sizes of at least 0, or -1, for '{name}' but got {list(shape)}", caller_location())
        return int(given)

    return TensorType(tuple(size(axis, given) for axis, given in enumerate(shape)), dtype)


class Variable(Tensor):
    """A name in a block, with the shape and dtype of what it will hold. Made by `Block.create_var` and by functions in static mode.

    Functions and methods of tensors append operators to the program. `shape` has -1 where a size is free. A persistable variable lives in
    the scope.
    """

    __slots__ = ()

    block: Block
    op: Operator | None
    is_data: bool
    location: Location

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[Any] | None = None,
        dtype: Any = None,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
        lod_level: int = 0,
        location: Location | None = None,
    ):
        kind = dtypes.as_dtype("float32" if dtype is None else dtype).scalar
        self._reset(VariableContents(self), None if shape is None else variable_type(name, shape, kind))
        self._kind = kind
        self._name = name
        self.block = block
        self.persistable = bool(persistable)
        self.stop_gradient = stop_gradient
        self.is_data = is_data
        self.need_check_feed = need_check_feed
        self.lod_level = lod_level
        self.op = None
        self.error_clip: Any = None
        self.is_tensor_array = False
        self.level_kinds: list[TensorType] | None = None  # the types of its levels, of an array whose level is a rank table
        self.kind = DENSE
        self.desc_kept: Any = None  # what Paddle's bytes say of a variable that is no dense tensor
        self.location = caller_location(name) if location is None else location

    # --- what it is

    @property
    def type(self) -> TensorType:
        kind = LOD_TENSOR_ARRAY if self.is_tensor_array else self.kind
        if self._type is None:
            made: Any = KindedType(self, kind)
            return made
        return self._type if kind == DENSE else ShapedType(self._type.shape, self._type.dtype, kind)

    def without_shape(self) -> VariableError:
        """What is raised where a shape is needed that nobody has said."""
        return VariableError(
            f"expected a variable with a shape but '{self.name}' has none yet: nothing was written to it", self.location, code="E0604"
        )

    @property
    def has_shape(self) -> bool:
        return self._type is not None

    @property
    def shape(self) -> Size:
        return Size() if self._type is None else Size(shown_size(d) for d in self._type.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.of_scalar(self._kind if self._type is None else self._type.dtype)

    @property
    def name(self) -> str:
        assert self._name is not None
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if name != self._name:
            self.block.rename_var(self._name, name)

    @property
    def desc(self) -> Any:
        """What it is, by methods, as programs of Paddle 1 ask: `x.desc.shape()`."""
        from polyreme.static.desc.views import VariableView

        return VariableView(self)

    @property
    def grad_name(self) -> str:
        return self.name + GRAD

    def set_type(self, type: TensorType) -> None:
        """What an operator writes to it."""
        self._type, self._kind = type, type.dtype

    def _is_initialized(self) -> bool:
        return True

    def is_parameter(self) -> bool:
        return isinstance(self, Parameter)

    # --- values, which only a run has

    def _value_text(self) -> str:
        return f"the variable '{self.name}' of a static program, which has no value in dygraph mode; run the program and fetch it"

    def _array(self, what: str) -> Any:
        raise VariableError(
            f"{what} needs the value of the variable '{self.name}', which it has only while the program runs; fetch it with Executor.run, "
            f"or use functions of the whole tensor",
            caller_location(),
        )

    def _known(self) -> Any:
        """Its elements as far as the operators that make it tell them from shapes."""
        return provided.variable_contents(self)

    def get_value(self, scope: Any = None) -> Any:
        """Its value in a scope (the global one by default), as an eager tensor."""
        from polyreme.static.scope import global_scope

        found = (scope or global_scope()).find_var(self.name)
        if found is None or found.array is None:
            raise VariableError(f"expected a value of '{self.name}' in the scope but it has none", self.location, code="E0604")
        return Tensor._wrap(found.array)

    def set_value(self, value: Any, scope: Any = None) -> None:
        """Give it a value in a scope (the global one by default)."""
        from polyreme.static.scope import global_scope

        array = value._array("set_value()") if isinstance(value, Tensor) else np.asarray(value)
        expected = tuple(self.type.shape)
        if not (len(expected) == array.ndim and all(isinstance(e, Expr) or e == n for e, n in zip(expected, array.shape, strict=True))):
            raise VariableError(
                f"expected a value of shape {list(self.shape)} for '{self.name}' but got {list(array.shape)}", self.location
            )
        if array.dtype != self.type.dtype.np:
            raise VariableError(f"expected a value of dtype {self.dtype.name} for '{self.name}' but got {array.dtype}", self.location)
        (scope or global_scope()).var(self.name).array = array.copy()

    def _replace(self, new: Tensor) -> None:
        # What fills parameters and buffers (state dicts, initializers called on them) reaches the scope, not the program.
        if isinstance(new._value, VariableContents):
            super()._replace(new)
        else:
            self.set_value(new)

    # --- what makes other variables

    def detach(self) -> Tensor:
        """The same values, through which no gradient flows."""
        from polyreme import dispatch
        from polyreme.dialects import nn as ops

        detached: Tensor = dispatch.call(ops.StopGradient, self)
        detached.stop_gradient = True
        return detached

    def detach_(self) -> Tensor:
        self.stop_gradient = True
        return self

    def backward(self, grad_tensor: Any = None, retain_graph: bool = False, *, dump_backward_graph_path: str | None = None) -> None:
        raise VariableError(
            f"expected a tensor of dygraph mode but backward() got the variable '{self.name}'; use paddle.static.append_backward(loss)",
            caller_location(),
            code="E0608",
        )

    def gradient(self) -> Any:
        raise VariableError(
            f"expected a tensor of dygraph mode but gradient() got the variable '{self.name}'; fetch '{self.name}{GRAD}' instead",
            caller_location(),
            code="E0608",
        )

    def register_hook(self, hook: Any) -> Any:
        raise VariableError(
            f"expected a tensor of dygraph mode but register_hook() got the variable '{self.name}': its gradient is the variable "
            f"'{self.grad_name}'",
            caller_location(),
        )

    def _set_error_clip(self, error_clip: Any) -> None:
        self.error_clip = error_clip

    set_error_clip = _set_error_clip

    def set_desc(self, input: Any) -> None:
        """Take the shape, dtype, LoD level and flags of a description, as `Program.get_desc` has them, or of another variable."""
        if isinstance(input, Variable):
            self._type, self._kind, self.kind = input._type, input._kind, input.kind
        elif hasattr(input, "need_check_feed") and hasattr(input, "dims"):
            dtype = dtypes.as_dtype(dtypes.PROTOBUF_DTYPES.get(input.dtype, "float32")).scalar
            self._type, self._kind, self.kind = variable_type(self.name, input.dims, dtype), dtype, input.kind
        else:
            raise TypeError(f"expected a description of a variable but got {type(input).__name__}")
        self.persistable, self.lod_level, self.need_check_feed = input.persistable, input.lod_level, input.need_check_feed
        self.block.program.touch()

    _set_desc = set_desc

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise VariableError(f"the variable '{self.name}' belongs to its program and cannot be copied; clone the program", caller_location())

    def __reduce__(self) -> Any:
        raise VariableError(
            f"the variable '{self.name}' belongs to its program and cannot be pickled; save the program with paddle.static.save",
            caller_location(),
        )

    # --- text

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """Its `VarDesc` as protobuf's text, as Paddle prints it; with details, also what a description lacks. `str` of a variable is
        shorter. `ValueError` when `throw_on_error` and it has no shape yet.
        """
        check_flags(throw_on_error, with_details)
        if throw_on_error:
            self.check_shape()
        more = self.details() if with_details else []
        return text_of_variable(self.block.program._printed_variable(self)) + "".join(f"{line}\n" for line in more)

    def check_shape(self) -> None:
        """That a tensor has a shape, without which its description lacks what it must have. Nobody knows that of a result which operators
        of Paddle have for their gradients alone, such as a dropout's mask.
        """
        made = any(self.name in op.output_arg_names for op in self.block.ops)
        if self._type is None and self.kind == DENSE and not self.is_tensor_array and not made:
            raise VariableError(f"expected a variable with a shape but '{self.name}' has none yet", self.location, code="E0604")

    def details(self) -> list[str]:
        """What a description lacks, as lines."""
        return [f"error_clip: {self.error_clip}", *([] if self.stop_gradient else ["stop_gradient: False"])]

    def _kind_text(self) -> str:
        return "persist var" if self.persistable else "var"

    def __repr__(self) -> str:
        if self._type is None and self.kind not in (DENSE, SELECTED_ROWS):
            return f"{self._kind_text()} {self.name} : {type_name(self.kind)}"
        shape = "(" + ", ".join(map(repr, self.shape)) + ("," if len(self.shape) == 1 else "") + ")"
        flags = f"dtype({self.dtype.name}).stop_gradient({self.stop_gradient})"
        return f"{self._kind_text()} {self.name} : {type_name(self.kind)}.shape{shape}.{flags}"

    __str__ = __repr__


class Parameter(Variable, parameter.Parameter):
    """A persistable variable that optimizers update."""

    __slots__ = ()

    def __init__(self, block: Block, name: str, shape: Sequence[Any], dtype: Any = None, trainable: bool = True, **fields: Any):
        for size in shape:
            if not isinstance(size, (int, np.integer)) or size < 0:
                raise VariableError(
                    f"each dimension of Parameter should be greater than 0 but '{name}' got shape {list(shape)}", caller_location()
                )
        location = fields.pop("location", None)
        Variable.__init__(self, block, name, shape, dtype, persistable=True, stop_gradient=not trainable, location=location)
        self.optimize_attr = fields.pop("optimize_attr", {"learning_rate": 1.0})
        self.regularizer = fields.pop("regularizer", None)
        self.need_clip = fields.pop("need_clip", True)
        self.do_model_average = fields.pop("do_model_average", None)
        self.is_distributed = fields.pop("is_distributed", False)
        if fields:
            raise TypeError(f"a Parameter has no field '{min(fields)}'")

    def details(self) -> list[str]:
        fields = ("trainable", "optimize_attr", "regularizer", "do_model_average", "need_clip")
        return [*super().details(), *(f"{field}: {getattr(self, field)}" for field in fields)]

    def _kind_text(self) -> str:
        return f"persist {'trainable ' if self.trainable else ''}param"


def named_variable(value: Any) -> Variable | None:
    """The variable that a tensor stands for, None for eager tensors."""
    cell = value._value if isinstance(value, Tensor) else None
    return cell.variable if isinstance(cell, VariableContents) else None
