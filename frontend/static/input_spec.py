"""`InputSpec`: shape, dtype and name of an input that is not there yet, with sizes that may be left free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.dtypes import as_dtype, dtype, of_numpy
from polyreme.ir.dims import Dim, Expr, parse_dim, symbol
from polyreme.ir.types import TensorType

__all__ = ["InputSpec", "input_types"]

BATCH = "N"


class InputSpec:
    """`InputSpec([None, 1, 28, 28], "float32", "image")`.

    A size is a number, None or -1 (free), or a name (`"T"`, free too): sizes of one name are equal wherever they stand. It may also be what is known
    of such a size, `"8*B"` or `"T+1"`. A free size of axis 0 is the batch, one for all inputs; any other None is a size of its own.
    """

    def __init__(self, shape: Sequence[Any], dtype: Any = "float32", name: str | None = None, stop_gradient: bool = False):
        self.shape = tuple(_size(size, shape) for size in shape)
        self.dtype: dtype = as_dtype(dtype)
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> InputSpec:
        """The spec of a tensor at hand, every size fixed."""
        return cls(tensor.shape, tensor.dtype, name or tensor.name, tensor.stop_gradient)

    @classmethod
    def from_numpy(cls, ndarray: Any, name: str | None = None) -> InputSpec:
        """The spec of an array, every size fixed."""
        return cls(ndarray.shape, of_numpy(ndarray.dtype), name)

    def batch(self, batch_size: int | Sequence[int] | None) -> InputSpec:
        """Put a batch axis in front, in place; returns itself."""
        if isinstance(batch_size, (list, tuple)):
            if len(batch_size) != 1:
                raise ValueError(f"expected one batch size but got {list(batch_size)}")
            (batch_size,) = batch_size
        self.shape = (_size(batch_size, [batch_size]), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Take axis 0 away, in place; returns itself."""
        if not self.shape:
            raise ValueError("expected a spec of rank 1 or more to take the batch axis from but its shape is []")
        self.shape = self.shape[1:]
        return self

    def type(self, name: str) -> TensorType:
        """The tensor type, free sizes as symbols; `name` is what an unnamed spec's own sizes are called after."""
        return TensorType(tuple(self._dim(axis, size, self.name or name) for axis, size in enumerate(self.shape)), self.dtype.scalar)

    @staticmethod
    def _dim(axis: int, size: Any, name: str) -> Dim:
        if isinstance(size, str):
            return parse_dim(size)
        if size is not None:
            return int(size)
        return open_size(name, axis)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype.name, self.name, self.stop_gradient

    def __repr__(self) -> str:
        shape = tuple(-1 if size is None else size for size in self.shape)
        return f"InputSpec(shape={shape}, dtype={self.dtype!r}, name={self.name}, stop_gradient={self.stop_gradient})"


def _size(size: Any, shape: Any) -> int | str | None:
    if isinstance(size, Expr):
        size = str(size)
    if size is None or (isinstance(size, str) and _is_free(size)):
        return size
    if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < -1:
        raise ValueError(f"expected sizes to be numbers, None or names but got {size!r} in the shape {list(shape)}")
    return None if int(size) == -1 else int(size)


def _is_free(size: str) -> bool:
    try:
        return isinstance(parse_dim(size), Expr)
    except ValueError:
        return False


def open_size(name: str, axis: int) -> Dim:
    """The size that what is called `name` leaves open along `axis`: one for all first axes, and one of its own for each other."""
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return symbol(BATCH if axis == 0 else f"{text if text[:1].isalpha() else f'x{text}'}_{axis}")


def input_types(specs: Sequence[InputSpec], names: Sequence[str]) -> list[TensorType]:
    """The types of several inputs that are called `names` where their specs do not say."""
    return [spec.type(name) for spec, name in zip(specs, names, strict=True)]
