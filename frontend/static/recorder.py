"""Static mode: functions of the API append operators to the current block of the default program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme import dispatch, dtypes, tape
from polyreme.dialects import nn as ops
from polyreme.dispatch import types_of
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import InferError, caller_location
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import ScalarType, TensorType
from polyreme.math.manipulation import unsqueeze
from polyreme.operators.table import name_of_nn_op
from polyreme.parameter import Parameter
from polyreme.provided import provides
from polyreme.recorder import Recorder, told_at
from polyreme.sizes import plain_size
from polyreme.static import contents as contents  # provides what is known of variables
from polyreme.static.current import default_main_program, default_startup_program
from polyreme.static.guesses import Types, types_by_guess
from polyreme.static.kinds import kind_named, kind_of_nn_op
from polyreme.static.lod.travel import level_to_share
from polyreme.static.operator import Operator, OperatorError, located
from polyreme.static.program import Block, Program
from polyreme.static.startup import startup_parameter
from polyreme.static.variable import Variable, VariableError, named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["RECORDER", "ProgramRecorder", "cast_variable", "temporary", "variable_of"]


class ProgramRecorder(Recorder):
    """The recorder of static mode."""

    def emit(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        block = default_main_program().current_block()
        if cls is ops.Uniform:
            return self._draw(block, operands[0], attributes)
        kind = kind_of_nn_op(cls)
        definition = cls.definition
        definition.bind_operands(operands)
        given: list[tuple[Any, ...]] = [() if o is None else tuple(o) if isinstance(o, (list, tuple)) else (o,) for o in operands]
        given += [()] * (len(kind.slots) - len(given))
        inputs = {slot: [variable_of(t, block).name for t in group] for slot, group in zip(kind.slots, given, strict=True)}
        regions = {part.name: attributes[part.name] for part in definition.regions}
        attributes = definition.bind_attributes({name: plain_size(value) for name, value in attributes.items() if name not in regions})
        extra = {"is_test": False} if cls is ops.Dropout else {}
        op = Operator(
            block, name_of_nn_op(cls), kind, inputs, {}, {**attributes, **extra, **block.program.role_attributes()}, regions or None
        )
        operand_types = [types_of(o) for o in operands] + [None] * (len(definition.operands) - len(operands))
        try:
            types = definition.infer_types(operand_types, attributes, list(regions.values()))
        except InferError as error:
            infer = _inference(definition, operand_types, attributes)
            guessed = None if regions else types_by_guess(infer, _by_place(operand_types), attributes)
            if guessed is None:
                raise located(error, op) from None
            types = guessed["Out"]
        results = [temporary(block, op.type, kind) for kind in types]
        for result in results:
            result.lod_level = level_to_share(op, "Out", 0, result.type)
        op.outputs["Out"] = [v.name for v in results]
        block.place(op, len(block.ops))
        return results[0] if len(results) == 1 else tuple(results)

    def _draw(self, block: Block, state: Tensor, attributes: dict[str, Any]) -> Any:
        """Draws take the generator's state when they run; here it stays as it is."""
        from polyreme.random import default_generator

        if state is not default_generator().state:
            raise OperatorError(
                "expected draws from the program's generator; set Program.random_seed to draw the same numbers at every run",
                caller_location(),
            )
        result = temporary(block, "uniform_random", ops.Uniform.definition.infer_types([state.type], attributes)[0])
        attrs = {
            "shape": plain_size(tuple(attributes["shape"])), "min": float(attributes["low"]), "max": float(attributes["high"]),
            "dtype": dtypes.of_scalar(attributes["dtype"]).name, "seed": block.program.random_seed,
        }  # fmt: skip
        result.stop_gradient = True
        block.add_operator("uniform_random", kind_named("uniform_random"), {}, {"Out": [result.name]}, attrs)
        return result, state

    def aligned(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """In programs of the first Paddle the first axes of both stand under each other if the first size of `y` is free."""
        if not default_main_program().of_first_paddle or not isinstance(y, Variable) or x._type is None or y._type is None:
            return x, y
        if x.ndim == y.ndim or not x.ndim or not y.ndim or y.shape[0] != -1:
            return x, y
        if x.ndim < y.ndim:
            return unsqueeze(x, list(range(x.ndim, y.ndim))), y
        return x, unsqueeze(y, list(range(y.ndim, x.ndim)))

    keeps_reads = True

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """The run tells of them, by an operator that gives them on."""
        made: Tensor = dispatch.call(ops.Within, positions, size=size, wraps=wraps, place=told_at(caller_location(), error))
        return made

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """An in-place write of a named variable."""
        if value is tensor:
            return
        block = default_main_program().current_block()
        target, source = variable_of(tensor, block), variable_of(value, block)
        block.add_operator("assign", kind_named("assign"), {"X": [source.name]}, {"Out": [target.name]}, {})
        target.set_type(source.type)

    def follow(self, tensor: Tensor, value: Tensor) -> None:
        """Nothing to do: variables share no contents, and eager tensors that do follow what a run writes."""

    def bodies(self) -> Any:
        """What records the bodies of a branch or loop."""
        from polyreme.static.bodies import BodyTrace

        return BodyTrace(self)

    @staticmethod
    def program() -> Program:
        """The program that is being built."""
        return default_main_program()

    def fresh_size(self) -> Dim:
        block = default_main_program().current_block()
        return symbol(f"K_{block.idx}_{len(block.ops)}")

    def check_values(self, condition: Callable[[], Tensor], error: Exception) -> None:
        """A program raises nothing."""

    def create_parameter(self, name: str, shape: tuple[int, ...], dtype: ScalarType, initializer: Any) -> Any:
        """A parameter in the main program, and what fills it in the startup program."""
        kind = dtypes.of_scalar(dtype)
        return startup_parameter(
            default_main_program().global_block(), default_startup_program().global_block(), name, shape, kind, initializer
        )

    def operator(
        self,
        type: str,
        inputs: Mapping[str, Tensor | None],
        outputs: Mapping[str, Tensor | TensorType | Sequence[TensorType]],
        attributes: Mapping[str, Any],
    ) -> dict[str, Any]:
        """An operator under Paddle's name, as `append_op` makes it."""
        block = default_main_program().current_block()

        def variable(into: Tensor | TensorType) -> Any:
            return temporary(block, type, into) if isinstance(into, TensorType) else variable_of(into, block)

        read = {slot: [variable_of(t, block)] for slot, t in inputs.items() if t is not None}
        written = {slot: variable(t) if isinstance(t, (Tensor, TensorType)) else list(map(variable, t)) for slot, t in outputs.items()}
        block.append_op(type, read, {slot: made if isinstance(made, list) else [made] for slot, made in written.items()}, attributes)
        return written


RECORDER = ProgramRecorder()


@provides
def program_operator(
    type: str, inputs: Mapping[str, Tensor | None], outputs: Mapping[str, Tensor | TensorType], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """`ProgramRecorder.operator`, for files that stand below static mode and have met a variable of a program."""
    return RECORDER.operator(type, inputs, outputs, attributes)


def temporary(block: Block, what: str, kind: Any) -> Variable:
    """A variable for a result; gradients reach it unless they are switched off or it has none."""
    made = Variable(block, unique_name.generate(f"{what}.tmp"), kind.shape, dtypes.of_scalar(kind.dtype))
    made.stop_gradient = not tape.is_grad_enabled() or kind.dtype.kind not in "fc"
    block._add(made)
    return made


def variable_of(tensor: Any, block: Block) -> Variable:
    """The variable that a tensor is in this program. An eager tensor becomes a persistable one that reads, and writes, the tensor."""
    variable = named_variable(tensor)
    if variable is not None:
        known = block._find_var_recursive(variable.name)
        if known is None:
            raise OperatorError(
                f"expected a variable of the current program but '{variable.name}' belongs to another one; build both inside one "
                f"program_guard",
                caller_location(),
            )
        return known
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected tensors but got {type(tensor).__name__} ({tensor!r})")
    if not isinstance(tensor._value, np.ndarray):
        raise OperatorError(
            "expected variables, or tensors with contents, but got a tensor of a traced function or one that is not initialized",
            caller_location(),
        )
    program = block.program
    for name, captured in program.captured.items():
        if captured is tensor:
            return program.global_block().vars[name]
    main = program.global_block()
    name = tensor.name if not main.has_var(tensor.name) else unique_name.generate(f"{tensor.name}.captured")
    made: Variable
    if isinstance(tensor, Parameter):
        made = main.create_parameter(name, tensor.shape, tensor.dtype, trainable=not tensor.stop_gradient)
    else:
        made = main.create_var(name, tensor.shape, tensor.dtype, persistable=True, stop_gradient=tensor.stop_gradient)
    program.captured[name] = tensor
    return made


# --- variables where static mode is off


def _appending(name: str) -> Any:
    """An operator of Python on variables: it appends to the program, also in dygraph mode, where programs may be built by `fluid`."""

    def apply(self: Variable, *args: Any) -> Any:
        method = getattr(Tensor, name)
        if dispatch.active_trace() is not None:
            return method(self, *args)
        with dispatch.trace_into(RECORDER):
            return method(self, *args)

    apply.__name__ = name
    return apply


for _name in (
    *(f"__{r}{n}__" for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul") for r in ("", "r")),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__abs__"),
):
    setattr(Variable, _name, _appending(_name))


def _part(self: Variable, key: Any) -> Any:
    """`x[key]`: a variable of one integer is a number, and takes its axis away, and no result is without an axis. So it is in the Programs
    of `fluid`; in static mode the key means what it means elsewhere.
    """
    if dispatch.active_trace() is not None:
        return Tensor.__getitem__(self, key)
    with dispatch.trace_into(RECORDER):
        items = tuple(_number(item) for item in (key if isinstance(key, tuple) else (key,)))
        found = Tensor.__getitem__(self, items)
        return found.reshape([1]) if self.ndim and found.ndim == 0 else found


def _number(item: Any) -> Any:
    whole = isinstance(item, Variable) and item.type.dtype.kind in "iu" and list(item.type.shape) == [1]
    return item.reshape([]) if whole else item


setattr(Variable, "__getitem__", _part)  # noqa: B010
setattr(Variable, "__hash__", Tensor.__hash__)  # noqa: B010
_as_dtype = _appending("astype")


def astype(self: Variable, dtype: Any) -> Any:
    """The values as another dtype."""
    return _as_dtype(self, dtype)


setattr(Variable, "astype", astype)  # noqa: B010


# --- guesses: operands by their places


def _by_place(operand_types: Sequence[Any]) -> dict[str, TensorType]:
    """The types of single operands by their places; of lists, those of their members."""
    found: dict[str, TensorType] = {}
    for i, given in enumerate(operand_types):
        if isinstance(given, (list, tuple)):
            found.update({f"{i}_{k}": kind for k, kind in enumerate(given)})
        elif given is not None:
            found[str(i)] = given
    return found


def _inference(definition: Any, operand_types: Sequence[Any], attributes: Mapping[str, Any]) -> Callable[[Mapping[str, TensorType]], Types]:
    """What an op gives for types by place."""

    def infer(types: Mapping[str, TensorType]) -> Types:
        given = [
            [types[f"{i}_{k}"] for k in range(len(kind))] if isinstance(kind, (list, tuple)) else None if kind is None else types[str(i)]
            for i, kind in enumerate(operand_types)
        ]
        return {"Out": list(definition.infer_types(given, attributes, []))}

    return infer


@provides
def cast_variable(tensor: Any, dtype: dtypes.dtype) -> bool:
    """Have a persistable variable be of another dtype, in its program and in the startup program, whose operator fills it so; False for a
    tensor that is none.

    A `VariableError` for one that operators read already: these have been made for the dtype that it has.
    """
    variable = named_variable(tensor)
    if variable is None:
        return False
    if variable.dtype is dtype:
        return True
    block = variable.block
    if any(variable.name in op.input_arg_names for op in block.ops):
        raise VariableError(
            f"expected '{variable.name}' to become {dtype.name} before it is used but operators of the program read it; cast the model, or "
            "decorate it, before it is called",
            caller_location(),
        )
    first = default_startup_program().global_block()
    for there in (variable, *([first.vars[variable.name]] if first.has_var(variable.name) else [])):
        there.set_type(TensorType(there._type.shape if there._type is not None else (), dtype.scalar))
    for op in first.ops:
        if variable.name in op.output_arg_names and "dtype" in op.attrs:
            op.attrs["dtype"] = dtype.name
    block.program.touch()
    first.program.touch()
    return True
