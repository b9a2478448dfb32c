"""`InputSpec`: shape, dtype and name of an input that is not there yet, with sizes that may be left free."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, overload

from polyreme.dtypes import as_dtype, dtype, of_numpy
from polyreme.ir.dims import Dim, Expr, parse_dim, symbol, symbols
from polyreme.ir.types import TensorType, type_symbols

__all__ = ["InputSpec", "input_types"]

BATCH = "N"


class InputSpec:
    """`InputSpec([None, 1, 28, 28], "float32", "image")`.

    A size is a number, None or -1 (free), or a name (`"T"`, free too): sizes of one name are equal wherever they stand. It may also be what
    is known of such a size, `"8*B"` or `"T+1"`. Any other None is a size of its own; that of axis 0 of the first input that has one is
    called `N`, as batches are.
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

    def type(self, name: str, taken: Collection[str] = (), batch: bool = True) -> TensorType:
        """The tensor type, free sizes as symbols; `name` is what an unnamed spec's own sizes are called after. They are called otherwise
        than `taken` ones.

        With `batch` that of axis 0 is `N`.
        """
        return TensorType(
            tuple(self._dim(axis, size, self.name or name, taken, batch) for axis, size in enumerate(self.shape)), self.dtype.scalar
        )

    @staticmethod
    def _dim(axis: int, size: Any, name: str, taken: Collection[str], batch: bool) -> Dim:
        if isinstance(size, str):
            return parse_dim(size)
        if size is not None:
            return int(size)
        return open_size(name, axis) if batch and axis == 0 else own_size(name, axis, taken)

    @property
    def size_names(self) -> frozenset[str]:
        """The names that are given in the shape."""
        return frozenset().union(*(symbols(parse_dim(size)) for size in self.shape if isinstance(size, str)))

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
    """The size that what is called `name` leaves open along `axis`, where all first axes are the batch: `N` for them, and one of its own
    for each other.
    """
    return symbol(BATCH) if axis == 0 else own_size(name, axis)


def own_size(name: str, axis: int, taken: Collection[str] = ()) -> Dim:
    """The size along an axis of what is called `name`, called otherwise than `taken` ones: `x_1`."""
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    own = f"{text if text[:1].isalpha() else f'x{text}'}_{axis}"
    while own in taken:
        own += "_"
    return symbol(own)


@overload
def input_types(specs: Sequence[InputSpec], names: Sequence[str]) -> list[TensorType]: ...


@overload
def input_types(specs: Sequence[InputSpec | None], names: Sequence[str]) -> list[TensorType | None]: ...


def input_types(specs: Sequence[InputSpec | None], names: Sequence[str]) -> Any:
    """The types of several inputs that are called `names` where their specs do not say; None where there is no spec.

    Free sizes are apart unless they have one name. That of axis 0 is `N` for the first input that has one.
    """
    given: frozenset[str] = frozenset().union(*(spec.size_names for spec in specs if spec is not None))
    taken = set(given)
    batch = BATCH not in given
    types = []
    for spec, name in zip(specs, names, strict=True):
        type = None if spec is None else spec.type(name, taken, batch)
        if type is not None:
            own = type_symbols(type) - given
            taken |= own
            batch = batch and BATCH not in own
        types.append(type)
    return types
