"""One of several variables by a number, and the way back: how older programs join what their branches give."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.control_flow import branch
from polyreme.ir.types import i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


def _is(mask: Tensor, number: int) -> Tensor:
    return math.equal(math.reshape(cast_to(mask, i64), []), dispatch.full((), number, i64))


@operator(legacy=spelled("select_input", {"X": "inputs", "Mask": "mask"}))
def select_input(inputs: list[Tensor], mask: Tensor) -> Tensor:
    """The tensor whose number `mask` is; the last one if it is none."""
    if not inputs:
        raise UnsupportedError("expected variables to choose from but got none")
    first, *others = inputs
    if not others:
        return first
    if len(others) == 1:
        made: Tensor = branch(cast_to(mask, i64), lambda: others[0], lambda: first)
        return made
    rest = select_input(others, math.subtract(cast_to(mask, i64), dispatch.full((), 1, i64)))
    made = branch(_is(mask, 0), lambda: first, lambda: rest)
    return made


@operator(legacy=spelled("select_output", {"X": "x", "Mask": "mask"}))
def select_output(x: Tensor, mask: Tensor) -> list[Tensor]:
    """`x` as the result whose number `mask` is, and zeros as the other: the gradient of `select_input`."""
    zero = dispatch.full((), 0, x.type.dtype)
    return [math.where(_is(mask, i), x, zero) for i in range(2)]
