"""`x.desc` and `op.desc` of programs of Paddle 1: what variables and operators are, by methods. They look at the program as it is now."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any

from polyreme.dtypes import PROTOBUF_DTYPES, dtype
from polyreme.ir.types import TensorType
from polyreme.loaders.program_desc import LOD_TENSOR
from polyreme.static.desc.variable_types import KindedType
from polyreme.utils.shown import Shown

__all__ = ["OperatorView", "VariableView"]

_NUMBERS = {name: number for number, name in PROTOBUF_DTYPES.items()}


class VariableView(Shown):
    """A variable as its program describes it, and the kinds of variables."""

    class VarType(IntEnum):
        """Element types, and what a variable may be, by their numbers in program files.

        `x.dtype == VarType.FP32` and `x.type == VarType.LOD_TENSOR` compare as in Paddle 1; a dtype hashes as itself, not as its number.
        """

        BOOL = 0
        INT16 = 1
        INT32 = 2
        INT64 = 3
        FP16 = 4
        FP32 = 5
        FP64 = 6
        LOD_TENSOR = 7
        SELECTED_ROWS = 8
        FEED_MINIBATCH = 9
        FETCH_LIST = 10
        STEP_SCOPES = 11
        LOD_RANK_TABLE = 12
        LOD_TENSOR_ARRAY = 13
        PLACE_LIST = 14
        READER = 15
        CHANNEL = 16
        RAW = 17
        TUPLE = 18
        SIZE_T = 19
        UINT8 = 20
        INT8 = 21

        def __eq__(self, other: object) -> bool:
            if isinstance(other, dtype):
                return PROTOBUF_DTYPES.get(int(self)) == other.name
            if not isinstance(other, int) and isinstance(other, (KindedType, TensorType)):
                return int(self) == getattr(other, "kind", LOD_TENSOR)
            return int.__eq__(self, other) if isinstance(other, int) else NotImplemented

        def __ne__(self, other: object) -> bool:
            return not self == other

        __hash__ = IntEnum.__hash__

    def __init__(self, variable: Any):
        self._variable = variable

    def name(self) -> str:
        """What the variable is called."""
        return str(self._variable.name)

    def shape(self) -> list[int]:
        """Its sizes, -1 for those that are free."""
        return [-1 if d == -1 else int(d) for d in self._variable.shape]

    def dtype(self) -> Any:
        """The number of its element type; the dtype itself where Paddle 1 has none."""
        number = _NUMBERS[self._variable.dtype.name]
        return self.VarType(number) if number in set(self.VarType) else self._variable.dtype

    def type(self) -> Any:
        """Of which kind it is."""
        return self.VarType.LOD_TENSOR_ARRAY if self._variable.is_tensor_array else self.VarType(self._variable.kind)

    def lod_level(self) -> int:
        """How many levels of detail it has."""
        return int(self._variable.lod_level or 0)

    def persistable(self) -> bool:
        """Whether it lives on between runs."""
        return bool(self._variable.persistable)

    def set_persistable(self, persistable: bool) -> None:
        """Say whether it does."""
        self._variable.persistable = bool(persistable)


class OperatorView(Shown):
    """An operator as its program describes it."""

    def __init__(self, op: Any):
        self._op = op

    def type(self) -> str:
        """Its type, `relu` say."""
        return str(self._op.type)

    def input_names(self) -> list[str]:
        """The slots of its inputs."""
        return list(self._op.input_names)

    def output_names(self) -> list[str]:
        """The slots of its outputs."""
        return list(self._op.output_names)

    def input(self, name: str) -> list[str]:
        """The variables in an input slot."""
        return list(self._op.input(name))

    def output(self, name: str) -> list[str]:
        """The variables in an output slot."""
        return list(self._op.output(name))

    def input_arg_names(self) -> list[str]:
        """All variables that it reads."""
        return list(self._op.input_arg_names)

    def output_arg_names(self) -> list[str]:
        """All variables that it writes."""
        return list(self._op.output_arg_names)

    def attr_names(self) -> Collection[str]:
        """The names of its attributes."""
        return list(self._op.attr_names)

    def has_attr(self, name: str) -> bool:
        """Whether it has an attribute."""
        return bool(self._op.has_attr(name))

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return self._op.attr(name)

    def attr_type(self, name: str) -> Any:
        """Of which kind an attribute is."""
        return self._op.attr_type(name)
