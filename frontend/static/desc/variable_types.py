"""The types of variables that are no dense tensors, or have no shape yet, as programs of Paddle 1 ask for them:
`x.type == VarDesc.VarType.LOD_TENSOR_ARRAY`.
"""

from __future__ import annotations

from typing import Any

from polyreme.ir.dims import Dim
from polyreme.ir.types import ScalarType, TensorType
from polyreme.loaders.program_desc import LOD_TENSOR
from polyreme.loaders.program_text import type_name

__all__ = ["KindedType", "ShapedType"]


class KindedType:
    """The type of a variable without a shape, which compares with `VarDesc.VarType`: the use of its shape is an error."""

    __slots__ = ("_variable", "kind")

    def __init__(self, variable: Any, kind: int):
        self._variable, self.kind = variable, kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._variable.without_shape()

    def __eq__(self, other: object) -> bool:
        kind = getattr(other, "kind", other)
        return int(kind) == self.kind if isinstance(kind, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return type_name(self.kind)


class ShapedType(TensorType):
    """The same with a shape: a tensor's type in all else."""

    __slots__ = ("kind",)
    kind: int

    def __init__(self, shape: tuple[Dim, ...], dtype: ScalarType, kind: int = LOD_TENSOR):
        super().__init__(shape, dtype)
        object.__setattr__(self, "kind", kind)

    def __eq__(self, other: object) -> bool:
        return (self.shape, self.dtype) == (other.shape, other.dtype) if isinstance(other, TensorType) else NotImplemented

    def __hash__(self) -> int:
        return TensorType.__hash__(self)

    def __reduce__(self) -> Any:
        return ShapedType, (self.shape, self.dtype, self.kind)
