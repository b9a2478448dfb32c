"""Arrays of tensors: `create_array`, `array_write`, `array_read` and `array_length`, of `paddle.tensor`.

In dygraph mode, and where Python runs while a function is captured, an array is a list. In static mode it is a variable that operators
write to, and in bodies of branches and loops a tensor that is carried like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme import dispatch, dtypes, tape
from polyreme.ir.diagnostics import caller_location
from polyreme.ir.dims import symbols
from polyreme.operators import array as meanings
from polyreme.static.api import held_arrays as held
from polyreme.static.current import default_main_program
from polyreme.static.kinds import kind_named
from polyreme.static.operator import OperatorError
from polyreme.static.recorder import RECORDER, ProgramRecorder, temporary, variable_of
from polyreme.static.variable import Variable, VariableError, named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["array_length", "array_read", "array_write", "create_array"]


def create_array(dtype: Any, initialized_list: Sequence[Tensor] | None = None) -> Any:
    """An array of tensors of this dtype, with those in `initialized_list` as its first elements."""
    given = [] if initialized_list is None else initialized_list
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"Require type(initialized_list) should be list/tuple, but received {type(given)}")
    for value in given:
        if not isinstance(value, Tensor):
            raise TypeError(f"All values in `initialized_list` should be Variable or pir.Value, but received {type(value)}.")
    if not _in_program():
        return list(given)
    block = default_main_program().global_block()
    made = block.create_var(unique_name.generate("array.out"), None, dtype)
    made.is_tensor_array = True
    for place, value in enumerate(given):
        array_write(value.astype(dtype), dispatch.full((1,), place, dtypes.int64.scalar), made)
    return made


def array_write(x: Tensor, i: Tensor, array: Any = None) -> Any:
    """Put `x` into `array` as element number `i`, one integer: in place of the one there, or behind the last. Returns the array, a new one
    if none is given.
    """
    if isinstance(array, list) or array is None and not _in_program():
        return _write_to_list(x, i, [] if array is None else array)
    if array is None:
        array = create_array(x.dtype)
    if not isinstance(array, Tensor):
        raise TypeError(f"array should be tensor array variable in array_write Op but got {type(array).__name__}")
    if x.type.dtype != array._kind if isinstance(array, Variable) else x.type.dtype != array.type.dtype:
        raise OperatorError(f"expected elements of {array.dtype.name} for the array but got {x.dtype.name}", caller_location())
    if not isinstance(dispatch.active_trace(), ProgramRecorder):
        variable = named_variable(array)
        if variable is None:
            made = meanings.array_write(x, i, array)
            with tape.no_grad():  # what an array held does not count as a leaf
                dispatch.assign(array, made)
        else:
            _begin(variable, x)
            held.write(variable, x, i)
        return array
    block = default_main_program().current_block()
    out = variable_of(array, block)
    inputs = {"X": [variable_of(x, block)], "I": [variable_of(i, block)]} | ({"Array": [out]} if out.has_shape else {})
    block.append_op("write_to_array", inputs, {"Out": [out]})
    return array


def array_read(array: Any, i: Tensor) -> Tensor:
    """Element number `i` of an array."""
    if isinstance(array, list):
        place = _place(i)
        if place >= len(array):
            raise IndexError(f"expected the number of one of {len(array)} elements of the array but got {place}")
        element: Tensor = array[place]
        return element
    _check_array(array, "array_read")
    if isinstance(dispatch.active_trace(), ProgramRecorder):
        return _appended("read_from_array", {"X": array, "I": i})
    return held.read(array, i)


def array_length(array: Any) -> Any:
    """How many elements an array has: int64 [1], of a list a number."""
    if isinstance(array, list):
        return len(array)
    if isinstance(array, Variable) and array.is_tensor_array and not array.has_shape:
        return dispatch.full((1,), 0, dtypes.int64.scalar)
    _check_array(array, "array_length")
    if isinstance(dispatch.active_trace(), ProgramRecorder):
        return _appended("lod_array_length", {"X": array})
    return held.length(array)


def _in_program() -> bool:
    recorder = dispatch.active_trace()
    return isinstance(recorder, ProgramRecorder) or hasattr(recorder, "outer")


def _check_array(array: Any, function: str) -> None:
    if not isinstance(array, Tensor):
        raise TypeError(f"array should be tensor array variable in {function} Op but got {type(array).__name__}")
    if isinstance(array, Variable) and not array.has_shape:
        raise VariableError(
            f"expected an array with an element in {function} but nothing was written to '{array.name}' yet", caller_location()
        )


def _appended(type: str, inputs: dict[str, Tensor]) -> Tensor:
    """An operator at the end of the current block, and the variable for what it gives."""
    from polyreme.static.inference import inferred_types
    from polyreme.static.operator import Operator

    block = default_main_program().current_block()
    read = {slot: [variable_of(t, block).name] for slot, t in inputs.items()}
    op = Operator(block, type, kind_named(type), read, {}, block.program.role_attributes())
    result = temporary(block, type, inferred_types(op, op.kind)["Out"][0])
    op.outputs["Out"] = [result.name]
    block.place(op, len(block.ops))
    return result


def _begin(variable: Variable, x: Tensor) -> None:
    """Give an array that is first written to in a body no elements in front of the branch or loop."""
    if variable.has_shape:
        return
    block = variable.block
    outside: set[str] = set().union(*(symbols(d) for v in block.vars.values() if v.has_shape for d in v.type.shape))
    if any(not symbols(d) <= outside for d in x.type.shape):
        raise OperatorError(
            f"expected the first element of '{variable.name}' to have a shape that is known in front of the loop but it has "
            f"{list(x.shape)}; write one element in front of it",
            caller_location(),
        )
    with dispatch.trace_into(RECORDER):
        dispatch.assign(variable, dispatch.full((0, *x.type.shape), 0, x.type.dtype))


def _write_to_list(x: Tensor, i: Any, array: list[Any]) -> list[Any]:
    place = _place(i)
    if place > len(array):
        raise AssertionError(f"The index 'i' should not be greater than the length of 'array' in dygraph mode: {place} and {len(array)}")
    if place < len(array):
        array[place] = x
    else:
        array.append(x)
    return array


def _place(i: Any) -> int:
    if isinstance(i, Tensor) and i.size != 1:
        raise AssertionError(f"The shape of index 'i' should be [1] in dygraph mode but it is {list(i.shape)}")
    return int(i.item() if isinstance(i, Tensor) else i)
