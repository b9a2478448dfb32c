"""Paddle's dtypes: `paddle.float32` and its relatives, the default dtype, and conversions from what a user may write."""

from __future__ import annotations

import builtins
from enum import IntEnum
from typing import Any

import numpy as np

from polyreme.ir import types
from polyreme.ir.diagnostics import did_you_mean
from polyreme.ir.types import ScalarType

__all__ = [
    "bfloat16", "bool", "cdouble", "cfloat", "complex64", "complex128", "double", "dtype", "float", "float16", "float32", "float64",
    "get_default_dtype", "half", "int", "int8", "int16",
    "int32", "int64", "long", "set_default_dtype", "short", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


class dtype:
    """An element type, printed `paddle.float32`. There is one object per type, so `is` and `==` mean the same."""

    __slots__ = ("name", "scalar")

    def __init__(self, name: str, scalar: ScalarType):
        self.name = name
        self.scalar = scalar

    @property
    def np(self) -> np.dtype[Any]:
        """The numpy dtype with the same values."""
        return self.scalar.np

    @property
    def is_floating(self) -> builtins.bool:
        return self.scalar.kind == "f"

    @property
    def is_complex(self) -> builtins.bool:
        return self.scalar.kind == "c"

    @property
    def is_integer(self) -> builtins.bool:
        return self.scalar.kind in "iu"

    def __repr__(self) -> str:
        return f"paddle.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


bool = dtype("bool", types.i1)  # noqa: A001  Paddle's own name
uint8, uint16, uint32, uint64 = (dtype(f"uint{t.bits}", t) for t in (types.u8, types.u16, types.u32, types.u64))
int8, int16, int32, int64 = (dtype(f"int{t.bits}", t) for t in (types.i8, types.i16, types.i32, types.i64))
float16, bfloat16, float32, float64 = (
    dtype(n, t) for n, t in (("float16", types.f16), ("bfloat16", types.bf16), ("float32", types.f32), ("float64", types.f64))
)
complex64, complex128 = dtype("complex64", types.c64), dtype("complex128", types.c128)
# The shorter names are no dtypes of their own. Those of Python's types are wider where Python's types themselves are meant (`_BY_PYTHON`).
half, float, double, short, int, long, cfloat, cdouble = float16, float32, float64, int16, int32, int64, complex64, complex128

_ALL = (bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128, uint16, uint32, uint64)
DTYPES = {d.name: d for d in _ALL}
# Names by the number that ProgramDesc files know a dtype by, `VarType.Type`.
PROTOBUF_DTYPES = {
    0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8", 21: "int8", 22: "bfloat16",
    23: "complex64", 24: "complex128",
}  # fmt: skip
_BY_SCALAR = {d.scalar: d for d in DTYPES.values()}
# numpy has no bfloat16 of its own: its dtype is added when one is first met, so that ml_dtypes is not loaded for nothing.
_BY_NUMPY: dict[Any, dtype] = {d.np: d for d in DTYPES.values() if d is not bfloat16}
_BY_PYTHON = {builtins.float: float64, builtins.int: int64, builtins.bool: bool, complex: complex128}


def as_dtype(value: Any) -> dtype:
    """The dtype meant by a dtype, a name (`"float32"`, or as numpy says it, `"int"`, `"i4"`), a numpy dtype or type, a Python number type,
    or a member of Paddle 1's `VarDesc.VarType`; `TypeError` otherwise.
    """
    if isinstance(value, dtype):
        return value
    if isinstance(value, ScalarType):
        return of_scalar(value)
    if isinstance(value, str):
        found = DTYPES.get(value.removeprefix("paddle."))
        if found is None:
            try:
                found = of_numpy(np.dtype(value))
            except TypeError:
                raise TypeError(f"expected the name of a dtype but got {value!r}{did_you_mean(value, DTYPES)}") from None
        return found
    if isinstance(value, IntEnum) and builtins.int(value) in PROTOBUF_DTYPES:
        return DTYPES[PROTOBUF_DTYPES[builtins.int(value)]]
    if value in _BY_PYTHON:
        return _BY_PYTHON[value]
    try:
        return of_numpy(np.dtype(value))
    except TypeError:
        raise TypeError(f"expected a dtype but got {value!r}") from None


def of_numpy(value: Any) -> dtype:
    """The dtype of a numpy dtype; `TypeError` when Paddle has none."""
    found = _BY_NUMPY.get(value)
    if found is None:
        if value.name != "bfloat16":
            raise TypeError(f"expected a dtype of Paddle ({', '.join(DTYPES)}) but got numpy's {value}")
        found = _BY_NUMPY[value] = bfloat16
    return found


def of_scalar(value: ScalarType) -> dtype:
    """The dtype of an IR scalar type."""
    if value not in _BY_SCALAR:
        raise TypeError(f"expected a dtype of Paddle ({', '.join(DTYPES)}) but got {value}")
    return _BY_SCALAR[value]


_default = float32


def set_default_dtype(d: Any) -> None:
    """What `ones`, `rand`, Layers and float literals become: a floating dtype."""
    global _default
    chosen = as_dtype(d)
    if not chosen.is_floating:
        raise TypeError(f"expected float16, bfloat16, float32 or float64 as the default dtype but got {chosen.name}")
    _default = chosen


def get_default_dtype() -> str:
    """The name of the default dtype, `"float32"` at first."""
    return _default.name


def default_dtype() -> dtype:
    return _default
