"""Gradient rules as lists of numpy calls, for the tape on the CPU.

A rule written in `nn` ops makes tensors and plans each of its steps whenever it runs. For operands of given types all of that is known:
here the rule's module (as in `heavy_gradients.py`) becomes a *recipe*, the kernels of its steps in order with the places of what they take
and make. The kernels are those of the dispatch point, so a recipe gives the same bits as the rule, and takes a fraction of the time where
arrays are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.compiled.heavy_gradients import rule_module
from polyreme.dialects import nn
from polyreme.ir.core import Op, Value
from polyreme.ir.scalar import loud, quietly
from polyreme.ir.types import TensorType

__all__ = ["GradientRecipe", "make_recipe"]

Array = np.ndarray[Any, Any]
# What dispatch knows of a call: the scalar function of a simple one, or the kernel that takes arrays and gives one or a tuple of them.
Kernels = Callable[[type[Op], Sequence[Value], dict[str, Any]], tuple[Callable[..., Any] | None, Callable[..., Any]]]

# Steps without operands are done once: nobody writes to the array behind a tensor.
FIXED = (nn.Constant, nn.Full, nn.Iota)


class GradientRecipe:
    """Gradients of an op's operands from arrays.

    `taken` are (kind, number) of what the first places hold, `steps` fill the others, `given` are the places of the gradients, None where
    none is wanted. `quiet` says that the steps are numpy's own functions, whose warnings are kept from the user for all of them at once.
    """

    __slots__ = ("given", "places", "quiet", "steps", "taken")

    def __init__(
        self,
        taken: list[tuple[str, int]],
        places: list[Array | None],
        steps: list[tuple[Callable[..., Any], tuple[int, ...], int]],
        given: list[int | None],
        quiet: bool,
    ):
        self.taken, self.places, self.steps, self.given, self.quiet = taken, places, steps, given, quiet

    def run(self, saved: Sequence[Any], results: Sequence[Array], grad: Array) -> list[Array | None]:
        """An array per operand. `saved` are tuples with an operand, as a tensor, in front; `grad` is the gradient of the one result."""
        held = self.places.copy()
        for i, (kind, number) in enumerate(self.taken):
            held[i] = grad if kind == "grad" else saved[number][0]._value if kind == "operand" else results[number]
        if self.quiet:
            quietly(self._steps, held)
        else:
            self._steps(held)
        return [None if i is None else held[i] for i in self.given]

    def _steps(self, held: list[Any]) -> None:
        for kernel, reads, place in self.steps:
            made = kernel(held[reads[0]], held[reads[1]]) if len(reads) == 2 else kernel(*[held[i] for i in reads])
            if made.__class__ is not np.ndarray:
                made = np.asarray(made[0] if isinstance(made, (tuple, list)) else made)
            held[place] = made


def make_recipe(
    cls: type[Op], types: Sequence[TensorType | None], attributes: dict[str, Any], wanted: Sequence[bool], kernels: Kernels
) -> GradientRecipe | None:
    """The recipe for an op with one result; None for a rule with a step that has several results, or operands of any number."""
    module, taken = rule_module(cls, types, attributes, (True,), wanted)
    (func,) = module.functions
    number = {arg: i for i, arg in enumerate(func.args)}
    places: list[Array | None] = [None] * len(number)
    steps: list[tuple[Callable[..., Any], tuple[int, ...], int]] = []
    quiet = True
    for op in func.block.ops[:-1]:
        definition = type(op).definition
        if len(op.results) != 1 or not definition.plain or len(op.operands) != len(definition.operands) or op.regions:
            return None
        fast, kernel = kernels(type(op), op.operands, op.attributes)
        reads, place = tuple(number[v] for v in op.operands), len(places)
        number[op.results[0]] = place
        places.append(None)
        if isinstance(op, FIXED):
            (made,) = out if isinstance(out := kernel(), (tuple, list)) else (out,)
            places[place] = np.asarray(made)
        else:
            steps.append((kernel if fast is None else fast, reads, place))
            quiet = quiet and fast is not None
    if quiet:
        steps = [(loud(fast), reads, place) for fast, reads, place in steps]
    returned = iter(func.block.terminator.operands)
    given = [number[next(returned)] if asked else None for asked in wanted]
    return GradientRecipe(taken, places, steps, given, quiet and bool(steps))
