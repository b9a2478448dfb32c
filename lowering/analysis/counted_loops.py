"""Counted loops: how many rounds a `while` makes, if its condition says so before it runs."""

from __future__ import annotations

from typing import Any

from polyreme.dialects import nn
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, ceildiv, maximum

__all__ = ["known_rounds"]


def known_rounds(loop: nn.While) -> Dim | None:
    """The number of rounds of `for (i = start; i < stop; i += step)`, for numbers and sizes; None for any other loop."""
    test: Any = loop.condition.block.terminator.operands[0].producer()
    if not isinstance(test, (nn.Less, nn.LessEqual)):
        return None
    counter = test.operands[0]
    if not isinstance(counter, BlockArgument) or counter.index >= len(loop.inits) or not counter.type.dtype.is_integer:
        return None
    stop = _number(test.operands[1], loop)
    start = _number(loop.inits[counter.index], loop)
    step = _step(loop, counter.index)
    if stop is None or start is None or step is None:
        return None
    return maximum(ceildiv(stop - start + isinstance(test, nn.LessEqual), step), 0)


def _step(loop: nn.While, place: int) -> int | None:
    """What a round adds to a counter."""
    added: Any = loop.body.block.terminator.operands[place].producer(nn.Add)
    if added is None:
        return None
    arg = loop.body.block.args[place]
    others = [v for v in added.operands if v is not arg]
    step = _number(others[0], loop) if len(others) == 1 else None
    return step if isinstance(step, int) and step > 0 else None


def _number(value: Value, loop: nn.While) -> Dim | None:
    """The integer that the one element of a value is, in the loop or around it."""
    kind: Any = value.type
    if kind.elements != 1 or not kind.dtype.is_integer:
        return None
    if isinstance(value, BlockArgument):
        inside = value.block.parent_op is loop and value.index >= len(loop.inits)
        return _number(loop.captured[value.index - len(loop.inits)], loop) if inside else None
    made: Any = value.producer()
    if isinstance(made, nn.Full):
        return int(made.value)
    if isinstance(made, nn.Constant):
        return int(made.value.array.reshape(-1)[0])
    if isinstance(made, nn.DimValue):
        size: Dim = made.size
        return size
    if isinstance(made, (nn.Reshape, nn.BroadcastTo, nn.Cast)):
        return _number(made.operands[0], loop)
    return None
