"""Values that ops have been asked for but that nobody has computed yet: what stands behind a tensor while ops are gathered.

Whoever looks at one as at an array gets the array: it is computed then. So code that knows nothing of gathering still sees the right
numbers.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from polyreme.ir.types import TensorType
    from polyreme.tape import Node
    from polyreme.tensor import Tensor

__all__ = ["COUNT", "Owner", "Pending"]

Array = np.ndarray[Any, Any]


class _Count:
    """How many calls gather ops now, in all threads: while it is 0 nothing is pending, and nobody needs to look."""

    calls = 0
    lock = threading.Lock()

    def add(self, number: int) -> None:
        """So many more."""
        with self.lock:
            self.calls += number


COUNT = _Count()


class Owner(Protocol):
    """Who computes pending values: in the thread that it gathers in, or in another one that asks for them."""

    def flush(self, reason: str) -> None:
        """Compute all that is pending. `reason` says what asked for it."""


class Pending:
    """The result of a gathered op. `array` is there once it is computed, with the place that it has on the tape.

    `needs` says whether gradients flow through it; `tensors` are those that hold it, which get the array when it is there. One that is
    `apart` from another has its contents, but no place on the tape.
    """

    __slots__ = (
        "__weakref__",
        "apart_from",
        "array",
        "detached",
        "dtype",
        "index",
        "needs",
        "node",
        "number",
        "owner",
        "readers",
        "shape",
        "tensors",
        "type",
    )

    def __init__(self, type: TensorType, dtype: np.dtype[Any], owner: Owner, number: int, needs: bool, tensor: Tensor):
        self.type = type
        self.shape = type.shape
        self.dtype = dtype
        self.owner = owner
        self.number = number
        self.needs = needs
        self.array: Array | None = None
        self.node: Node | None = None
        self.index = 0
        self.tensors: list[weakref.ref[Tensor]] = [weakref.ref(tensor)]
        # Ops called whose gradients may need it: of which tensor that holds it, by identity, the op's number, and as which of its operands.
        self.readers: list[tuple[int, int, int]] | None = None
        self.apart_from: Pending | None = None
        self.detached: list[weakref.ref[Pending]] | None = None  # those that are apart from this one

    def held_by(self, tensor: Tensor) -> None:
        """Note that `tensor` holds this value, too, unless it is there by now: then `tensor` gets it."""
        if self.array is None:
            self.tensors.append(weakref.ref(tensor))
        else:
            self.give(tensor)

    def apart(self, tensor: Tensor) -> Pending | Array:
        """A value for `tensor` that has the same contents, and no place on the tape."""
        if self.array is not None:
            return self.array
        made = Pending(self.type, self.dtype, self.owner, self.number, False, tensor)
        made.apart_from = self
        if self.detached is None:
            self.detached = []
        self.detached.append(weakref.ref(made))
        return made

    def reader(self) -> Tensor | None:
        """The tensor of which ops have been called whose gradients may need this value; None where there is none any more, or several."""
        if self.readers is None:
            return None
        readers = {reader[0] for reader in self.readers}
        found = [t for t in (reference() for reference in self.tensors) if t is not None and t._value is self and id(t) in readers]
        return found[0] if len(found) == 1 else None

    def is_held(self) -> bool:
        """Whether a tensor has it, so that its place on the tape matters."""
        return any((tensor := reference()) is not None and tensor._value is self for reference in self.tensors)

    def settle(self, array: Array, node: Node | None, index: int) -> None:
        """The value is computed: hand it to the tensors that hold it."""
        self.array, self.node, self.index = array, node, index
        for reference in self.tensors:
            tensor = reference()
            if tensor is not None and tensor._value is self:
                self.give(tensor)
        self.tensors.clear()
        for other in self.detached or ():
            if (pending := other()) is not None:
                pending.apart_from = None
                pending.settle(array, None, 0)
        self.detached = None

    def give(self, tensor: Tensor) -> None:
        """Let a tensor that holds this value have the array, and its place on the tape."""
        tensor._value = self.array
        if self.needs:
            tensor._node, tensor._index = self.node, self.index

    def resolve(self, reason: str) -> Array:
        """The array, computed now if nobody has yet."""
        if self.array is None:
            self.owner.flush(reason)
        if self.array is None:
            raise RuntimeError(
                "expected a value that was computed but the op that should have made it failed: see the error before this one"
            )
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = np.asarray(self.resolve("numpy"))
        return array if dtype is None else array.astype(dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.resolve(name), name)

    def __getitem__(self, key: Any) -> Any:
        return self.resolve("indexing")[key]

    def __len__(self) -> int:
        return len(self.resolve("len()"))
