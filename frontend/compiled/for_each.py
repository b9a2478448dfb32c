"""One formula applied to many sets of arrays on a GPU, by as few launches as one set needs.

The formula is recorded once for the types of its operands, and compiled for a row of any length and for many sets (`Func.many`): the
kernels find the addresses of each set in a table. So what an optimizer does to all parameters, and a clip to all gradients, is a handful of
launches. Rows whose length is a multiple of 8 have a program of their own, which reads several elements at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from polyreme.device import Place, copies_on
from polyreme.dispatch import trace_into
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import TensorType, scalar_type
from polyreme.recorder import Recorder
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.tensor import Tensor

__all__ = ["for_each", "reduced_each"]

Array = np.ndarray[Any, Any]
Formula = Callable[..., Sequence[Tensor]]
OfRow = Callable[[Tensor], Tensor]
LENGTH = symbol("N")
# Elements of 2 bytes that a thread reads at once.
MOST_LANES = 8

_programs: dict[Any, Any] = {}
MOST_PROGRAMS = 1024
# Elements that one block adds up.
PART = 1 << 16
_types: dict[Any, Any] = {}


def for_each(
    place: Place,
    name: str,
    key: Hashable,
    formula: Formula,
    sets: Sequence[Sequence[Any]],
    wholes: int,
    into: Sequence[Sequence[DeviceArray | None]] | None = None,
) -> list[list[Any]]:
    """What `formula` gives for each of `sets`. The first `wholes` arrays of a set have as many elements as each other, in whatever shape,
    and the formula sees them as rows; the others are single numbers. `key` tells it from all other formulas. Results are rows and single
    numbers, to be seen in other shapes (`DeviceArray.reshaped`). `into` is as in `GpuExecutable.run_many`: of a formula that computes each
    element from those at its place only.
    """
    copies = copies_on(place)
    kinds: dict[Any, list[int]] = {}
    for i, arrays in enumerate(sets):
        lanes = MOST_LANES if arrays[0].size % MOST_LANES == 0 else 1
        kinds.setdefault((lanes, *(a.dtype for a in arrays)), []).append(i)
    results: list[Any] = [None] * len(sets)
    for (lanes, *dtypes), members in kinds.items():
        program = _program(place, name, key, formula, lanes, dtypes, wholes)
        shapes = [tuple((a.size,) if n < wholes else () for n, a in enumerate(sets[i])) for i in members]
        targets = None if into is None else [into[i] for i in members]
        for i, made in zip(members, program.run_many([sets[i] for i in members], shapes, copies, targets), strict=True):
            results[i] = made
    return results


def reduced_each(place: Place, name: str, formula: OfRow, join: OfRow, arrays: Sequence[Any]) -> Any:
    """A row with a number for each of `arrays`: what `join` makes of what `formula` gives for its parts. The names tell the formulas from
    others, and both give numbers of one dtype for all arrays.
    """
    copies, count = copies_on(place), len(arrays)
    parts = [_parts(array, copies) for array in arrays]
    numbers = _numbers(place, name, formula, [part for group in parts for part in group])
    if numbers.size == count:
        return numbers
    starts = np.cumsum([0, *map(len, parts)])
    return _numbers(place, f"{name}_joined", join, [numbers.part(int(at), len(group)) for at, group in zip(starts, parts, strict=False)])


def _numbers(place: Place, name: str, formula: OfRow, rows: Sequence[Any]) -> Any:
    """A row with what `formula` gives for each of `rows`."""
    kind = np.dtype(_result_type(name, formula, rows[0].dtype).dtype.np)
    copies = copies_on(place)
    with copies.lock:
        made = copies.new_array((len(rows),), kind)
    for_each(place, name, name, lambda row: [formula(row)], [[row] for row in rows], 1, [[made.part(i, 1)] for i in range(len(rows))])
    return made


def _parts(array: Any, copies: Any) -> list[Any]:
    """The elements of an array in rows of which a block takes one each."""
    if array.size <= PART:
        return [array]
    there = array if type(array) is DeviceArray and array.memory.owner is copies else copies.resident(np.asarray(array))
    if there is None:  # a view, of which nothing is kept there
        return [row.copy() for row in np.array_split(np.asarray(array).reshape(-1), -(-array.size // PART))]
    return [there.part(at, min(PART, array.size - at)) for at in range(0, array.size, PART)]


def _result_type(name: str, formula: OfRow, dtype: Any) -> TensorType:
    """The type of what a formula gives for a row."""
    found = _types.get((name, dtype))
    if found is None:
        (found,) = _recorded(lambda row: [formula(row)], [TensorType((LENGTH,), scalar_type(dtype))]).function().function_type.results
        _types[name, dtype] = found
    return found


def _program(place: Place, name: str, key: Hashable, formula: Formula, lanes: int, dtypes: Sequence[Any], wholes: int) -> Any:
    whole = place.kind, name, key, lanes, tuple(dtypes), wholes
    found = _programs.get(whole)
    if found is None:
        from polyreme.compiled.executables import load_module

        if len(_programs) >= MOST_PROGRAMS:
            _programs.clear()
        module = _recorded(formula, [TensorType((LENGTH * lanes,) if i < wholes else (), scalar_type(d)) for i, d in enumerate(dtypes)])
        found = _programs[whole] = load_module(module, name, place)
    return found


def _recorded(formula: Formula, types: Sequence[TensorType]) -> Module:
    """A module whose `main` is the formula on operands of these types, for many sets of them."""
    module, func = Module.empty(), Func.empty("main", types, many=True)
    recorder = FormulaRecorder(Builder.at_end(func.block))
    with trace_into(recorder):
        results = formula(*(Tensor._wrap(arg, arg.type) for arg in func.args))
    recorder.b.insert(Return([recorder.value_of(result) for result in results]))
    module.block.append(func.finish())
    return module


class FormulaRecorder(Recorder):
    """Takes the ops of a formula, which writes to nothing."""

    def __init__(self, b: Builder):
        self.b = b

    def value_of(self, tensor: Tensor) -> Value:
        value = tensor._value
        if not isinstance(value, Value):
            raise TypeError(f"expected a formula of its operands alone but got a tensor of shape {tensor.shape}")
        return value

    def emit(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        values = [None if o is None else [*map(self.value_of, o)] if isinstance(o, (list, tuple)) else self.value_of(o) for o in operands]
        op = self.b.insert_op(cls(*values, **attributes))
        made = tuple(Tensor._wrap(result, result.type) for result in op.results)
        return made[0] if len(made) == 1 else made

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        raise TypeError("expected a formula that writes to nothing")

    def fresh_size(self) -> Dim:
        raise TypeError("expected a formula whose results have known sizes")
