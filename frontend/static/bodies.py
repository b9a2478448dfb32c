"""Branches and loops of static Programs: bodies are recorded as ops, not as operators of blocks, and one operator in the Program has them.

A variable that a body reads is captured like any other tensor; parameters that it makes are the Program's. What it writes, a variable or a
persistable tensor, is written by operators behind the branch or loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from polyreme import dispatch
from polyreme.control_flow import CONTROL
from polyreme.dialects.control import local_sizes
from polyreme.ir.core import BlockArgument, Op, Region, Value
from polyreme.ir.diagnostics import caller_location
from polyreme.ir.dims import Dim, symbol, told
from polyreme.ir.types import TensorType
from polyreme.jit.capture.bodies import CapturedBody
from polyreme.jit.capture.trace import Trace, TraceError
from polyreme.lowering.transforms.solve_sizes import specialize_block
from polyreme.static.variable import named_variable
from polyreme.tensor import Tensor

__all__ = ["BlockNeededError", "BodyTrace", "check_takes_operators", "regions_for"]


class BlockNeededError(TraceError):
    """A function appends to the program what a body of ops cannot hold, such as a step of an optimizer: it needs a block."""


def check_takes_operators(what: str) -> None:
    """That operators are appended to a block now, not recorded as ops of a body; a `BlockNeededError` where they are."""
    if isinstance(dispatch.active_trace(), BodyTrace):
        raise BlockNeededError(
            f"expected no {what} in the body of a branch or loop by functions that cannot be a block of its own; do it behind the branch",
            caller_location(),
        )


class BodyTrace(Trace):
    """The recorder inside of bodies. `outer` is the Program's."""

    learns_sizes = False

    def __init__(self, outer: Any):
        super().__init__({})
        self.outer = outer
        self.by_variable: dict[str, Value] = {}
        self.names_given = 0
        self.sizes_taken: set[str] = set()  # variables whose contents became sizes in a body

    @contextmanager
    def inside(self, body: CapturedBody) -> Iterator[CapturedBody]:
        """As `Trace` has it; ops go here meanwhile, not to the Program."""
        with dispatch.trace_into(self), super().inside(body) as entered:
            yield entered

    def value_of(self, tensor: Any) -> Value:
        """The value that a tensor stands for; a variable of the Program is one from outside."""
        from polyreme.random import default_generator

        if tensor is default_generator().state:
            raise TraceError(
                "random numbers in the bodies of branches and loops of static Programs are not supported yet; draw them in front of it",
                caller_location(),
            )
        variable = named_variable(tensor)
        if variable is None:
            return super().value_of(tensor)
        if variable.name not in self.by_variable:
            arg = self.by_variable[variable.name] = self.block.add_arg(tensor.type, variable.name)
            if not tensor.stop_gradient:
                self.differentiable.add(arg)
        return self._seen_here(self.by_variable[variable.name], tensor)

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """The run tells of them."""
        return self.told_by_run(positions, size, error, wraps)

    def outside_of(self, arg: Value) -> Any:
        """As `Trace` has it; what comes from the Program is its variable."""
        if isinstance(arg, BlockArgument) and arg.owner is self.block:
            name = next((name for name, known in self.by_variable.items() if known is arg), None)
            return None if name is None else self.outer.program().current_block().var_recursive(name)
        return super().outside_of(arg)

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """As `Trace` has it; a size that was taken from a variable stays what it was, so that the variable may not change any more."""
        variable = named_variable(tensor)
        if variable is not None and variable.name in self.sizes_taken:
            raise TraceError(
                f"expected '{variable.name}' to keep its value in the body of a branch or loop that uses it as a size, but it is written; "
                f"hand it on as a loop variable, or write a copy of it",
                caller_location(),
            )
        super().assign(tensor, value)

    def contents(self, tensor: Tensor) -> Tensor:
        """As `Trace` has it; a variable is itself, as a program has no graph that it could be part of."""
        return tensor if named_variable(tensor) is not None else super().contents(tensor)

    def note_choice(self, made: Tensor, olds: Sequence[Tensor]) -> None:
        """Nothing to do: variables are tensors of their own."""

    def note_given(self, made: Tensor, first: Tensor) -> None:
        """Nothing to do, either."""

    def create_parameter(self, name: str, shape: tuple[int, ...], dtype: Any, initializer: Any) -> Any:
        """A parameter of the Program."""
        return self.outer.create_parameter(name, shape, dtype, initializer)

    def fresh_size(self) -> Dim:
        """A name that no other size of the Program has."""
        self.names_given += 1
        name = f"{self.outer.fresh_size()}_{self.names_given}"
        self.sizes.counts.append(name)
        return symbol(name)


def regions_for(cls: type[Op], regions: Mapping[str, Region], operands: list[Any]) -> dict[str, Region]:
    """Copies of an op's bodies, whose sizes are those of `operands`: what the sizes of feeds are is known only when a Program runs."""
    assert cls in CONTROL
    given: list[Any] = [t for operand in operands for t in (operand if isinstance(operand, (list, tuple)) else [operand])]
    first = next(iter(regions.values()))
    types: list[TensorType] = [a.type for a in first.block.args]
    values = [t.type for t in given[len(given) - len(types) :]]
    rows = len(operands[0]) if cls is CONTROL[2] else 0  # a step sees one row of these
    values = [t.with_shape(t.shape[1:]) if i < rows else t for i, t in enumerate(values)]
    changing: frozenset[str] = frozenset()
    if cls is CONTROL[1]:
        count = len(operands[0])
        changing = local_sizes(types[:count], values[:count], types[count:])
    sizes: dict[str, Dim] = {}
    for kind, value in zip(types, values, strict=True):
        for dim, size in zip(kind.shape, value.shape, strict=True):
            found = told(dim, size)
            if found is not None and found[0] not in changing:
                sizes.setdefault(*found)
    copies = {}
    for name, region in regions.items():
        copies[name] = region.clone({})
        specialize_block(copies[name].block, sizes)
    return copies
