"""Numbers of Python's that a tensor decides: what tensors stand for them do in operators.

`scale = 2 if flag else 3` makes a number, `count += 1` in a loop on tensors counts one. The program has tensors in their places, which have
a dtype. A number has none: it takes that of the tensor that it meets, or adds to another number as Python adds. So has what stands for one.
Floats are of the default dtype there, which holds most of them in less digits than Python: those do not meet float64 tensors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from polyreme import dtypes
from polyreme.ir.core import Value
from polyreme.ir.types import ScalarType, i1, i64
from polyreme.jit.capture.watched import NotWhole, Watched
from polyreme.math.common import cast_to, floating, scalar_dtype
from polyreme.tensor import Tensor

__all__ = ["changed_sign", "check_digits", "check_given", "is_rounded", "kinds_of", "meeting", "note"]

_NUMBERS = (bool, int, float)
# A number of each kind, for what depends on that alone.
_SAMPLES: dict[str, Any] = {"b": True, "i": 1, "f": 1.0}
_ARITHMETIC = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "pow"})
_BITS = frozenset({"and_", "or_", "xor"})


def kinds_of(state: Watched, value: Any) -> frozenset[str]:
    """What kinds of number Python may have for a number, or in the place of a tensor: b, i or f. Nothing for what is none."""
    if isinstance(value, Tensor):
        held = value._value
        if not isinstance(held, Value) or held not in state.numbers or held in state.tensors_or_numbers:
            return frozenset()
        return state.kinds_of_numbers.get(held, frozenset("i" if value.type.dtype.kind == "u" else value.type.dtype.kind))
    return (
        frozenset("b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f")
        if isinstance(value, _NUMBERS)
        else frozenset()
    )


def is_rounded(state: Watched, value: Any) -> bool:
    """Whether the default dtype may have less digits than Python of a number."""
    if isinstance(value, Tensor):
        return value._value in state.rounded_numbers
    return isinstance(value, float) and math.isfinite(value) and float(np.asarray(value, dtypes.default_dtype().scalar.np)) != value


def note(state: Watched, made: Tensor, kinds: frozenset[str], rounded: bool) -> None:
    """`made` stands for a number, of one of these kinds."""
    state.numbers.add(made._value)
    if len(kinds) > 1:
        state.kinds_of_numbers[made._value] = kinds
    if rounded and dtypes.default_dtype().scalar.bits < 64:
        state.rounded_numbers.add(made._value)


def check_given(state: Watched, values: Collection[Any]) -> None:
    """Refuse numbers, among what a function of the framework is given, with which it may make something else than with what Python has: of
    several kinds, or rounded beside float64 tensors.
    """
    for value in values:
        if isinstance(value, Tensor) and value._value in state.kinds_of_numbers:
            raise NotWhole(
                f"a number that a tensor decides is {_said(state.kinds_of_numbers[value._value])}, and handed to a function; make it of "
                f"one kind"
            )
    for value in values:
        if isinstance(value, Tensor) and value._value in state.rounded_numbers:
            for other in values:
                if isinstance(other, Tensor) and other._value not in state.numbers:
                    check_digits(state, value, other)


def check_digits(state: Watched, number: Tensor, tensor: Tensor) -> None:
    """Refuse a float that is rounded beside a tensor of more digits."""
    default, dtype = dtypes.default_dtype(), tensor.type.dtype
    if is_rounded(state, number) and dtype.kind in "fc" and dtype.bits // (2 if dtype.kind == "c" else 1) > default.scalar.bits:
        name = dtypes.of_scalar(dtype).name
        raise NotWhole(
            f"a float that a tensor decides, which the program has as {default.name}, meets a tensor of {name}; make it a tensor before, "
            f"by paddle.to_tensor(…, '{name}')"
        )


def _said(kinds: Iterable[str]) -> str:
    return " or ".join(sorted("a float" if kind == "f" else "a bool" if kind == "b" else "a whole number" for kind in kinds))


def changed_sign(state: Watched, name: str, value: Tensor) -> Tensor:
    """A unary operator on what stands for a number, which gives one."""
    made: Tensor = getattr(operator, name)(_without_bools(value, None))
    kinds = kinds_of(state, value)
    note(state, made, frozenset("i" if kind == "b" else kind for kind in kinds), is_rounded(state, value))
    return made


def meeting(state: Watched, name: str, first: Any, second: Any) -> Any:
    """The operator `name` of `operator` on two values, one of which at least stands for a number."""
    plain = {"iand": "and_", "ior": "or_"}.get(name, name[1:] if name[:1] == "i" and name[1:] in _ARITHMETIC | {"xor"} else name)
    apply = getattr(operator, plain)
    kinds = [kinds_of(state, first), kinds_of(state, second)]
    if all(kinds):
        return _of_numbers(state, plain, apply, first, second, *kinds)
    number, tensor = (first, second) if kinds[0] else (second, first)
    if not isinstance(tensor, Tensor):
        return apply(first, second)
    met = _tensor_that_meets(plain, tensor, kinds[0] or kinds[1], number is second)
    check_digits(state, number, met)
    dtype = _dtype_for(plain, met.type.dtype, kinds[0] or kinds[1])
    number, met = cast_to(number, dtype), cast_to(met, dtype)
    return apply(number, met) if kinds[0] else apply(met, number)


def _of_numbers(state: Watched, plain: str, apply: Any, first: Any, second: Any, kinds: frozenset[str], others: frozenset[str]) -> Any:
    """An operator on two numbers, which gives one: whole numbers for bools, and floats where Python has them."""
    if plain == "pow" and "f" not in kinds | others:
        # A whole number to a negative power is a float.
        if isinstance(second, Tensor):
            raise NotWhole(
                "a whole number is raised to a power that a tensor decides, which makes it a float if that is negative; make one of them a "
                "float"
            )
        if second < 0:
            second, others = float(second), frozenset("f")
    if plain in _ARITHMETIC:
        wanted = dtypes.default_dtype().scalar if plain == "truediv" else None
        first, second = (_without_bools(value, wanted) for value in (first, second))
    made = apply(first, second)
    if isinstance(made, Tensor) and isinstance(made._value, Value):
        ways = {max(a, b, key="bif".index) for a in kinds for b in others} if plain in _ARITHMETIC and plain != "truediv" else set()
        rounded = is_rounded(state, first) or is_rounded(state, second) or plain in _ARITHMETIC and made.type.dtype.kind == "f"
        note(state, made, frozenset("i" if way == "b" else way for way in ways), rounded)
    return made


def _without_bools(value: Any, wanted: ScalarType | None) -> Any:
    if not isinstance(value, Tensor):
        return int(value) if isinstance(value, bool) else value
    dtype = wanted or (i64 if value.type.dtype == i1 else value.type.dtype)
    return cast_to(value, dtype)


def _tensor_that_meets(plain: str, tensor: Tensor, kinds: frozenset[str], is_first: bool) -> Tensor:
    """The tensor as an operator takes it beside a number: a quotient is of floats, and so is a power with a float."""
    if plain == "truediv":
        return floating(tensor)
    if plain == "pow" and is_first:
        if tensor.type.dtype == i1 and kinds != frozenset("b"):
            tensor = cast_to(tensor, i64)
        if kinds == frozenset("f"):
            return floating(tensor)
    return tensor


def _dtype_for(plain: str, tensor: ScalarType, kinds: frozenset[str]) -> ScalarType:
    """The dtype in which both meet, which must not depend on what decides the number."""
    found = {i1 if plain in _BITS and tensor == i1 else scalar_dtype(tensor, _SAMPLES[kind]) for kind in kinds}
    if len(found) > 1:
        raise NotWhole(
            f"a number that a tensor decides is {_said(kinds)}, which a tensor of {dtypes.of_scalar(tensor).name} meets in different "
            f"dtypes; make it of one kind"
        )
    return found.pop()
