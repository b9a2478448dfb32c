"""Types: scalars, tensors (values, also those on their way), buffers (memory) and vectors (registers). All are immutable and compare by
value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.ir.dims import SYMBOL, Dim, Expr, product, substitute, symbols
from polyreme.ir.python.records import dataclass


@dataclass(frozen=True, slots=True)
class ScalarType:
    """An element type. `kind` is one of f(loat), i(nteger), u(nsigned), b(ool), c(omplex), x (index)."""

    name: str
    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory (a bool takes one)."""
        return (self.bits + 7) // 8

    def __eq__(self, other: object) -> bool:
        # There is one type of a name.
        return self is other or (isinstance(other, ScalarType) and self.name == other.name)

    def __hash__(self) -> int:
        # Texts keep their hash.
        return hash(self.name)

    @property
    def np(self) -> np.dtype[Any]:
        """The numpy dtype with the same values."""
        if self.name == "bf16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(_NUMPY[self.name])

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iux"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


f16, bf16, f32, f64 = (ScalarType(n, "f", b) for n, b in (("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64)))
i8, i16, i32, i64 = (ScalarType(f"i{b}", "i", b) for b in (8, 16, 32, 64))
u8, u16, u32, u64 = (ScalarType(f"ui{b}", "u", b) for b in (8, 16, 32, 64))
i1 = ScalarType("i1", "b", 1)
c64, c128 = ScalarType("complex<f32>", "c", 64), ScalarType("complex<f64>", "c", 128)
# The type of a complex number's parts, and the other way round.
PARTS, WHOLE = {c64: f32, c128: f64}, {f32: c64, f64: c128}
index = ScalarType("index", "x", 64)

SCALARS = {t.name: t for t in (f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, i1, c64, c128, index)}
_NUMPY = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64", "i1": "bool", "complex<f32>": "complex64",
    "complex<f64>": "complex128", "index": "int64",
}  # fmt: skip
_FROM_NUMPY = {np.dtype(n): SCALARS[k] for k, n in _NUMPY.items() if k != "index"}


def is_index(type: object) -> bool:
    """Whether a type is `index`: a comparison for where most are vectors, without asking the vector first."""
    return type is index or (type.__class__ is ScalarType and type == index)


def scalar_type(dtype: Any) -> ScalarType:
    """The scalar type of a numpy dtype (bfloat16 by ml_dtypes included); `TypeError` for any other."""
    dtype = np.dtype(dtype)
    if dtype in _FROM_NUMPY:
        return _FROM_NUMPY[dtype]
    if dtype.name == "bfloat16":
        return bf16
    raise TypeError(f"expected a numeric dtype but got {dtype}")


def has_scalar_type(dtype: Any) -> bool:
    """Whether a numpy dtype is that of a scalar type."""
    return dtype in _FROM_NUMPY or dtype.name == "bfloat16"


def dim_text(dim: Dim) -> str:
    """A dimension inside a type: bare when it cannot be confused with the `x` between sizes, else in parentheses."""
    text = str(dim)
    bare = isinstance(dim, int) or (SYMBOL.match(text) and "x" not in text)
    return text if bare else f"({text})"


def _shaped(shape: tuple[Dim, ...], dtype: ScalarType) -> str:
    return "x".join([*map(dim_text, shape), dtype.name])


@dataclass(frozen=True, slots=True)
class TensorType:
    """An immutable array value of any rank; printed `tensor<Nx28x28xf32>`."""

    shape: tuple[Dim, ...]
    dtype: ScalarType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Dim:
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        return not any(isinstance(d, Expr) for d in self.shape)

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: ScalarType) -> TensorType:
        return TensorType(self.shape, dtype)

    def __str__(self) -> str:
        return f"tensor<{_shaped(self.shape, self.dtype)}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class PendingType:
    """A tensor that is on its way from elsewhere, such as other ranks, and is read after waiting for it; printed `pending<4x4xf32>`."""

    shape: tuple[Dim, ...]
    dtype: ScalarType

    @property
    def tensor(self) -> TensorType:
        """What arrives."""
        return TensorType(self.shape, self.dtype)

    def __str__(self) -> str:
        return f"pending<{_shaped(self.shape, self.dtype)}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class BufferType:
    """Row-major memory; printed `buffer<8x128xf32>`. Views with other strides are made by `kernel` index arithmetic."""

    shape: tuple[Dim, ...]
    dtype: ScalarType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Dim:
        return product(self.shape)

    @property
    def strides(self) -> tuple[Dim, ...]:
        """Elements between neighbours along each axis."""
        return tuple(product(self.shape[axis + 1 :]) for axis in range(self.rank))

    def __str__(self) -> str:
        return f"buffer<{_shaped(self.shape, self.dtype)}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class VectorType:
    """A register of `lanes` elements; printed `vector<16xf32>`."""

    lanes: int
    dtype: ScalarType

    def __hash__(self) -> int:
        return hash((self.lanes, self.dtype.name))

    def __str__(self) -> str:
        return f"vector<{self.lanes}x{self.dtype}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class FunctionType:
    """Printed `(tensor<4xf32>) -> (tensor<4xf32>)`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.results))})"

    __repr__ = __str__


Type = ScalarType | TensorType | PendingType | BufferType | VectorType | FunctionType


def element_type(type: Type) -> ScalarType:
    """The scalar that a scalar, vector, tensor or buffer is made of."""
    if isinstance(type, ScalarType):
        return type
    if isinstance(type, FunctionType):
        raise TypeError(f"expected a type with elements but got {type}")
    return type.dtype


def type_symbols(type: Type) -> frozenset[str]:
    """Names of the sizes that a type mentions."""
    if isinstance(type, FunctionType):
        return frozenset().union(*(type_symbols(t) for t in type.inputs + type.results))
    if isinstance(type, (TensorType, PendingType, BufferType)):
        return frozenset().union(*(symbols(d) for d in type.shape))
    return frozenset()


def substitute_type(type: Type, values: dict[str, Dim]) -> Type:
    """`type` with each size in `values` replaced."""
    if isinstance(type, (TensorType, PendingType, BufferType)):
        return type.__class__(tuple(substitute(d, values) for d in type.shape), type.dtype)
    if isinstance(type, FunctionType):
        inputs, results = (tuple(substitute_type(t, values) for t in ts) for ts in (type.inputs, type.results))
        return FunctionType(inputs, results)
    return type
