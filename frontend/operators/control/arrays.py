"""What a tensor array holds while branches and loops carry it: its elements, only their number, or elements with room for more.

A loop whose carried values change their sizes has no gradients. So an array of floats gets room for all its elements before the loop
begins: a first loop, without gradients, finds how many there will be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from polyreme import dispatch, math, tape
from polyreme.control_flow import on_trial
from polyreme.dialects import host
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, i64
from polyreme.operators.array import array_length, array_read, array_write, check_element, index_of
from polyreme.tensor import Tensor

__all__ = ["ArrayContents", "Count", "Elements", "ElementsNeededError", "Room", "empty_arrays", "with_room"]


class ArrayContents(Protocol):
    """What an array holds, as tensors that an op can carry."""

    @property
    def parts(self) -> list[Tensor]: ...

    def of(self, parts: Sequence[Tensor]) -> ArrayContents:
        """The same kind of contents, of other tensors."""

    def write(self, x: Tensor, i: Tensor) -> ArrayContents: ...

    def read(self, i: Tensor) -> Tensor: ...

    def length(self) -> Tensor: ...


@dataclass(frozen=True)
class Elements:
    """The elements along the first axis of a tensor, which is as long as there are."""

    tensor: Tensor

    @property
    def parts(self) -> list[Tensor]:
        return [self.tensor]

    def of(self, parts: Sequence[Tensor]) -> Elements:
        return Elements(*parts)

    def write(self, x: Tensor, i: Tensor) -> Elements:
        return Elements(array_write(x, i, self.tensor))

    def read(self, i: Tensor) -> Tensor:
        return array_read(self.tensor, i)

    def length(self) -> Tensor:
        # As an operator where there may be one: what the length is called while a program is built says nothing when it runs.
        recorder: Any = dispatch.active_trace()
        made = recorder.operator("lod_array_length", {"X": self.tensor}, {"Out": TensorType((1,), i64)}, {})
        return array_length(self.tensor) if made is None else made["Out"]


class ElementsNeededError(Exception):
    """Somebody reads an element where only their number is known."""


@dataclass(frozen=True)
class Count:
    """How many elements there are, int64 [], and none of them."""

    count: Tensor

    @property
    def parts(self) -> list[Tensor]:
        return [self.count]

    def of(self, parts: Sequence[Tensor]) -> Count:
        return Count(*parts)

    def write(self, x: Tensor, i: Tensor) -> Count:
        return Count(math.maximum(self.count, index_of(i) + 1))

    def read(self, i: Tensor) -> Tensor:
        raise ElementsNeededError

    def length(self) -> Tensor:
        return math.reshape(self.count, [1])


@dataclass(frozen=True)
class Room:
    """Elements along the first axis of a tensor that has room for more, and how many there are, int64 []."""

    tensor: Tensor
    count: Tensor

    @property
    def parts(self) -> list[Tensor]:
        return [self.tensor, self.count]

    def of(self, parts: Sequence[Tensor]) -> Room:
        return Room(*parts)

    def write(self, x: Tensor, i: Tensor) -> Room:
        check_element(x, self.tensor)
        index = index_of(i)
        places = math.reshape(math.arange(0, self.tensor.type.shape[0], 1, "int64"), [-1, *[1] * (self.tensor.ndim - 1)])
        made = math.where(math.equal(places, index), math.unsqueeze(x, 0), self.tensor)
        return Room(made, math.maximum(self.count, index + 1))

    def read(self, i: Tensor) -> Tensor:
        return array_read(self.tensor, i)

    def length(self) -> Tensor:
        return math.reshape(self.count, [1])


def with_room(contents: Elements, length: Tensor) -> Room:
    """The same elements, with room for `length` (int64 of one element) of them: that many or more than there are."""
    recorder: Any = dispatch.active_trace()
    places = dispatch.call(host.Range, math.reshape(length, []), count=recorder.fresh_size())
    kind, count = contents.tensor.type, math.reshape(contents.length(), [])
    rows = math.concat([contents.tensor, dispatch.full((1, *kind.shape[1:]), 0, kind.dtype)], 0)
    return Room(math.gather(rows, math.minimum(places, count), 0), count)


def empty_arrays(
    names: Sequence[str], known: Mapping[str, Any], run: Callable[[Sequence[str], Mapping[str, Any]], Sequence[Any]]
) -> dict[str, Tensor]:
    """Arrays whose first element the block of a loop writes, as they are in front of it: of no elements, whose shape one round tells.
    `run(names, known)` is as `run_while` wants it.
    """
    if not names:
        return {}
    with tape.no_grad():
        made = on_trial(lambda: run(names, known))
    types = {name: value.type for name, value in zip(names, made, strict=True) if isinstance(value, Tensor)}
    return {name: dispatch.full((0, *kind.shape[1:]), 0, kind.dtype) for name, kind in types.items()}
