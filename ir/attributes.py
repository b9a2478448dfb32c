"""Attribute values: plain immutable Python values.

An attribute is a bool, int, float, str, `Dim`, type, `SymbolRef`, `Dense` array, or a tuple of those. `None` means
that an optional attribute is absent. `normalize` turns what a caller may pass (lists, numpy numbers) into these.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Union, get_args, get_origin

import numpy as np

from polyreme.ir.diagnostics import InferError
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import (
    BufferType,
    FunctionType,
    PendingType,
    ScalarType,
    TensorType,
    Type,
    VectorType,
    scalar_type,
)

Number = Union[bool, int, float]

# Arrays from so many bytes on are weights of a network, which may lie in its file.
LARGE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """The name of a function of the module; printed `@name`."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


class Dense:
    """A constant array, read-only and contiguous (an array that may be written is copied); equality and hash are those of its bytes."""

    # What makes the elements of one that is made `later`, as a whole and in parts, and its type.
    _make: Callable[[], Any] | None = None
    _make_parts: Callable[[], Iterator[Any]] | None = None
    _type: TensorType | None = None

    def __init__(self, array: Any):
        array = np.asarray(array)
        if not array.flags.c_contiguous or array.flags.writeable:
            array = np.array(array, order="C")
        array = array.view()
        array.flags.writeable = False
        self.array = array

    @staticmethod
    def taking(array: Any) -> Dense:
        """The constant of an array that nobody writes to from now on: it is not copied if it is contiguous."""
        array = np.asarray(array).view()
        array.flags.writeable = False
        return Dense(array)

    @staticmethod
    def later(type: TensorType, make: Callable[[], Any], parts: Callable[[], Iterator[Any]] | None = None) -> Dense:
        """The constant of this type whose array `make` gives, each time that it is called; equal to itself alone. `parts` gives the same
        elements in their order as contiguous arrays, one after the other.
        """
        made = Dense.__new__(Dense)
        made._type, made._make, made._make_parts = type, make, parts
        return made

    @cached_property
    def array(self) -> Any:
        return Dense.taking(self.made()).array

    def made(self) -> Any:
        """The array; that of a constant made `later` is not kept."""
        return np.ascontiguousarray(self._make()) if self._make is not None and "array" not in self.__dict__ else self.array

    def parts(self) -> Iterator[Any]:
        """The elements in their order as contiguous arrays: not all at once, where they are made so."""
        if self._make_parts is not None and "array" not in self.__dict__:
            return self._make_parts()
        return iter((self.made(),))

    @property
    def type(self) -> TensorType:
        return self._type or TensorType(self.array.shape, scalar_type(self.array.dtype))

    @property
    def size(self) -> int:
        """How many elements there are; none is made for this."""
        return math.prod(n for n in self.type.shape if isinstance(n, int))

    @cached_property
    def raw(self) -> Any:
        """The elements as uint8, in order."""
        return self.array.reshape(-1).view(np.uint8)

    @cached_property
    def digest(self) -> bytes:
        """Of dtype, shape and bytes."""
        digest = hashlib.blake2b(f"{self.array.dtype.str}{self.array.shape}".encode(), digest_size=16)
        digest.update(self.raw)
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Dense) or self._make is not None or other._make is not None:
            return False
        mine, its = self.array, other.array
        return mine is its or (
            hash(self) == hash(other) and mine.dtype == its.dtype and mine.shape == its.shape and bool((self.raw == other.raw).all())
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        if self._make is not None:
            return id(self)
        # Of some of the elements: weights are large, and seldom differ in a few elements only. Of large ones those that stand side by side,
        # so that few pages of a file are read.
        elements = self.array.reshape(-1)
        some = elements[:: max(1, elements.size // 64)] if elements.nbytes < LARGE_BYTES else elements[-64:]
        return hash((self.array.dtype.str, self.array.shape, some.tobytes()))

    def __str__(self) -> str:
        return f"dense<{self.type}>"

    __repr__ = __str__


_TYPE_CLASSES = (ScalarType, TensorType, PendingType, BufferType, VectorType, FunctionType)


def normalize(kind: Any, value: Any, what: str) -> Any:
    """`value` as the attribute kind wants it; `InferError` naming `what` when it does not fit.

    `kind` is bool, int, float, `Number` (any of the three), str, `Dim`, `Type`, `ScalarType`, `TensorType`, `Dense`, `SymbolRef`, or a
    `tuple[kind, ...]`.
    """
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if isinstance(value, (list, tuple, np.ndarray)):
            return tuple(normalize(item, v, what) for v in value)
    elif kind is bool:
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
    elif kind is int:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return int(value)
    elif kind is float:
        if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise InferError(f"expected {what} to be a number that a float can be but got {int(value).bit_length()} bits") from None
    elif kind == Number:
        if isinstance(value, (bool, int, float, np.generic)):
            return value.item() if isinstance(value, np.generic) else value
    elif kind == Dim:
        if isinstance(value, Expr):
            return value
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return int(value)
    elif kind == Type:
        if isinstance(value, _TYPE_CLASSES):
            return value
    elif kind is Dense:
        if isinstance(value, Dense):
            return value
        array = np.asarray(value)
        if array.dtype.kind in "fiubc" or array.dtype.name == "bfloat16":
            return Dense(array)
    elif kind is SymbolRef and isinstance(value, str):
        return SymbolRef(value)
    elif isinstance(value, kind):
        return value
    raise InferError(f"expected {what} to be {kind_text(kind)} but got {value!r}", code="E0303")


def kind_text(kind: Any) -> str:
    """How a message names an attribute kind."""
    if get_origin(kind) is tuple:
        return f"a list of {kind_text(get_args(kind)[0])}"
    if kind == Number:
        return "a number"
    if kind == Dim:
        return "a size"
    if kind == Type:
        return "a type"
    return str(getattr(kind, "__name__", kind))


def attribute_key(value: Any) -> Any:
    """What stands for an attribute value in comparisons: tells apart what compares equal but differs (1, 1.0 and True; 0.0 and -0.0); nan
    equals nan.
    """
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, tuple):
        return tuple(map(attribute_key, value))
    return value.__class__, value
