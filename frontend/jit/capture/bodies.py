"""Bodies of branches and loops while they are recorded: blocks of their own, whose arguments are what they read from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from polyreme.ir.core import Block, BlockArgument, Region, Value
from polyreme.ir.types import TensorType
from polyreme.tensor import Tensor

__all__ = ["CapturedBody", "Contents"]


class Contents(NamedTuple):
    """What a tensor stands for, and where it is in the graph of gradients."""

    value: Any
    type: TensorType | None
    node: Any
    place: int
    stop_gradient: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Contents:
        return cls(tensor._value, tensor._type, tensor._node, tensor._index, tensor.stop_gradient)

    def give(self, tensor: Tensor) -> None:
        """Let `tensor` stand for this."""
        tensor._value, tensor._type, tensor._node, tensor._index, tensor.stop_gradient = self


class CapturedBody:
    """The body of a branch or loop. Its first arguments are given to it, the others are captured: values of the block around it, each with
    a tensor that stands for it there.
    """

    def __init__(self, given: Sequence[TensorType] = (), names: Sequence[str] = ()):
        self.block = Block(given, names)
        self.given = len(given)
        self.captures: dict[Value, tuple[BlockArgument, Tensor]] = {}
        self.stopped: dict[Value, Value] = {}
        self.condition: CapturedBody | None = None  # of the loop that it is the body of, recorded in front of it
        self.before: dict[int, tuple[Tensor, Contents]] = {}  # tensors from outside that are written to in here, with what they were
        self.after: dict[int, Contents] = {}  # and what they are at the end

    @property
    def written(self) -> list[Tensor]:
        """The tensors from outside that it writes to."""
        return [tensor for tensor, _ in self.before.values()]

    def capture(self, value: Value, tensor: Tensor) -> BlockArgument:
        """The argument that stands for a value of the block around it."""
        if value not in self.captures:
            self.captures[value] = self.block.add_arg(value.type, value.name), tensor
        arg, known = self.captures[value]
        if known.stop_gradient and not tensor.stop_gradient:
            self.captures[value] = arg, tensor
        return arg

    def begin(self) -> None:
        """Enter it, perhaps again: tensors that it has written to are what it made of them."""
        for key, contents in self.after.items():
            contents.give(self.before[key][0])

    def end(self) -> None:
        """Leave it: tensors that it wrote to are outside what they were before."""
        for key, (tensor, contents) in self.before.items():
            self.after[key] = Contents.of(tensor)
            contents.give(tensor)

    def region(self, captured: Sequence[Value]) -> Region:
        """The region, whose arguments are those given and then `captured`, in this order."""
        args = self.block.args[: self.given]
        for value in captured:
            args.append(self.captures[value][0] if value in self.captures else self.block.add_arg(value.type, value.name))
        self.block.args = args
        for i, arg in enumerate(args):
            arg.index = i
        return Region(self.block)
