"""What operators with a block of operators do: `while`, `conditional_block` and `recurrent`, for whoever keeps variables by name.

`run(names, known)` runs the block on what the variables `known` hold, and gives what the variables `names` hold then; `UNDEFINED` stands
for a variable that nothing has written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme import dispatch, math
from polyreme.control_flow import UNDEFINED, branch, gathered_steps, loop
from polyreme.dialects import nn
from polyreme.ir.core import OpResult
from polyreme.ir.dims import product
from polyreme.ir.types import i1, i64
from polyreme.operators.arguments import UnsupportedError
from polyreme.tensor import Tensor

__all__ = [
    "BRANCHES", "OVER_SEQUENCES", "RECURRENT", "WHILE", "has_no_value", "is_not_empty", "run_branch", "run_recurrent", "run_while",
]  # fmt: skip

WHILE = "while"
BRANCHES = ("conditional_block", "conditional_block_infer")
RECURRENT = "recurrent"
# One whose rows are of sequences by steps, and must not depend on each other. Paddle has none.
OVER_SEQUENCES = "recurrent_over_sequences"

Run = Callable[[Sequence[str], Mapping[str, Any]], list[Any]]


# What Paddle's translator of Python fills a variable with that will have a value only in a branch or loop.
_NO_VALUE = (1.77113e27, float(np.float32(1.77113e27)))


def has_no_value(tensor: Tensor) -> bool:
    """Whether a tensor stands for a Python name that has no value yet: a certain number, declared as what the name will be."""
    held = tensor._value
    if tensor.type.shape not in ((), (1,)) or not tensor.type.dtype.is_float:
        return False
    if isinstance(held, OpResult):
        op = held.op
        number = op.value if isinstance(op, nn.Full) else op.value.made() if isinstance(op, nn.Constant) else None
    else:
        number = held if isinstance(held, np.ndarray) else None
    return number is not None and float(np.asarray(number).reshape(-1)[0]) in _NO_VALUE


def _values(known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if not (isinstance(value, Tensor) and has_no_value(value))}


def run_branch(condition: Tensor, names: Sequence[str], known: Mapping[str, Any], run: Run) -> list[Any]:
    """A block that runs if a condition holds: what it writes, `names`, is what it was before if it does not, and zeros if it was nothing.
    """
    known = _values(known)
    before = [known.get(name, UNDEFINED) for name in names]
    made: list[Any] = branch(condition, lambda: run(names, known), lambda: list(before))
    return made


def is_not_empty(tensors: Sequence[Tensor]) -> Tensor:
    """Whether all tensors have elements: the condition of a block that is to run on what there is, not on a bool."""
    found: Tensor | None = None
    for tensor in tensors:
        count = dispatch.call(nn.DimValue, size=product(tensor.type.shape), dtype=i64)
        some = dispatch.call(nn.Cast, count, dtype=i1)
        found = some if found is None else math.logical_and(found, some)
    if found is None:
        raise UnsupportedError("expected a condition of the block but got none")
    return found


def run_while(condition: str, names: Sequence[str], known: Mapping[str, Any], run: Run) -> list[Any]:
    """A block that runs as long as the variable `condition`, which it writes to, holds: what the variables `names` hold then."""
    known = _values(known)
    carried = [condition, *(name for name in names if name != condition)]

    def step(*given: Any) -> list[Any]:
        return run(carried, {**known, **{n: v for n, v in zip(carried, given, strict=True) if v is not UNDEFINED}})

    made = dict(zip(carried, loop(lambda again, *_: again, step, [known.get(n, UNDEFINED) for n in carried]), strict=True))
    return [made[name] for name in names]


def run_recurrent(
    inputs: Mapping[str, Tensor],
    states: Mapping[str, tuple[str, Tensor]],
    outputs: Sequence[str],
    known: Mapping[str, Any],
    run: Run,
    reverse: bool = False,
) -> list[Tensor]:
    """A block that runs once for each row of `inputs`: the rows of `outputs` that the runs gave, in the order of the rows.

    `states` says, by the variable that has a state when a run begins, which variable has it at its end, and the state before the first.
    """
    if not inputs:
        raise UnsupportedError("expected inputs that say how many steps there are but got none")

    def step(*given: Any) -> tuple[list[Any], list[Any]]:
        made = run([*(end for end, _ in states.values()), *outputs], {**known, **dict(zip((*inputs, *states), given, strict=True))})
        for name, value in zip((*states, *outputs), made, strict=True):
            if value is UNDEFINED:
                raise UnsupportedError(f"expected the block to write '{name}' in each step but no operator of it does")
        return made[: len(states)], made[len(states) :]

    _, rows = gathered_steps(step, [first for _, first in states.values()], list(inputs.values()), reverse)
    return rows
