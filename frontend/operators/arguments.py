"""The kinds of arguments that operators take, by the annotations of their parameters, and how what a program gives becomes one.

    Tensor, Tensor | None, list[Tensor]     values of the running program
    Sizes, Numbers, Number                  whole numbers or sizes, numbers, one number: attributes, or tensors whose contents are known
    FedSizes                                as Sizes, but what is known only when the program runs is a tensor of one integer
    Extents                                 sizes of a result, which become sizes when the program runs where they are not known before
    Scalar                                  a number where it is known, else the tensor
    list[Scalar]                            such numbers, one by one
    ScalarType | None                       a dtype, by name or number; None where the program leaves it open
    int, float, bool, str, Any              attributes as they are
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme import math
from polyreme.dtypes import DTYPES, PROTOBUF_DTYPES
from polyreme.dtypes import dtype as DType
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import ScalarType
from polyreme.math.common import axis_of
from polyreme.math.contents import known_contents
from polyreme.math.fed.sizes import extent
from polyreme.tensor import Tensor

__all__ = [
    "Number",
    "Numbers",
    "UnsupportedError",
    "Scalar",
    "Sizes",
    "FedSizes",
    "Extents",
    "axis_in",
    "channel_axis",
    "check_count",
    "converted",
    "number",
    "per_channel",
]

Sizes = Sequence[Dim]
FedSizes = Sequence[Dim | Tensor]
Extents = Sequence[Dim]
Numbers = Sequence[Any]
Number = Any  # an int, float or symbolic size
Scalar = Any  # as Number, or a Tensor


# As many axes as a shape that is fed may have.
MOST_FED = 64


class UnsupportedError(PolyremeError, ValueError):
    """An operator of Paddle with inputs or attributes that have no meaning here; whoever applies it knows the place."""

    code = "E0703"


def converted(value: Any, kind: str, name: str) -> Any:
    """`value` as a parameter `name` of this kind wants it; an `UnsupportedError` when it is none."""
    convert = _CONVERT.get(kind)
    return value if convert is None else convert(value, name)


def number(value: Any, name: str) -> Any:
    """An int, float or symbolic size; of a tensor, its contents if they are known."""
    found = _scalar(value, name)
    if isinstance(found, Tensor):
        raise UnsupportedError(f"expected '{name}' to be a number but it is computed from the model's inputs ({found.type})")
    return found


def axis_in(axis: Any, x: Tensor) -> int:
    """The number of one of x's axes, which may be counted from the end."""
    return axis_of(int(axis), x.ndim, "the operator")


def check_count(count: Any, most: int, what: str) -> None:
    """An `UnsupportedError` when a number from the program would have us do or keep more than `most` of something; symbolic sizes pass."""
    if isinstance(count, int) and abs(count) > most:
        raise UnsupportedError(f"expected at most {most} {what} but got {count}")


# --- what `data_format` says


def channel_axis(data_format: str, rank: int) -> int:
    """Where channels stand: last in formats that end in C."""
    return rank - 1 if data_format.endswith("C") and data_format != "NC" else 1


def per_channel(v: Tensor, x: Tensor, data_format: str) -> Tensor:
    """A vector of one value per channel, shaped so that it broadcasts to `x`."""
    axis = channel_axis(data_format, x.ndim)
    shape: list[Dim] = [1] * x.ndim
    shape[axis] = v.type.shape[0]
    return math.reshape(v, shape) if x.ndim > 1 else v


# --- conversions


def _one_tensor(value: Any, name: str) -> Tensor:
    if isinstance(value, (list, tuple)) and len(value) == 1:
        (value,) = value
    if not isinstance(value, Tensor):
        raise UnsupportedError(f"expected one tensor as '{name}' but got {_text(value)}")
    return value


def _tensors(value: Any, name: str) -> list[Tensor]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(v, Tensor) for v in items):
        raise UnsupportedError(f"expected tensors as '{name}' but got {_text(value)}")
    return items


def _numbers(value: Any, name: str) -> list[Any]:
    found: list[Any] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        found += _contents(item, name) if isinstance(item, Tensor) else [_plain_number(item)]
    if not all(isinstance(v, (int, float, Expr)) for v in found):
        raise UnsupportedError(f"expected numbers as '{name}' but got {_text(value)}")
    return found


def _sizes(value: Any, name: str) -> list[Dim]:
    found = _numbers(value, name)
    for i, item in enumerate(found):
        if isinstance(item, float) and item.is_integer():
            found[i] = int(item)
        elif not isinstance(item, (int, Expr)) or isinstance(item, bool):
            raise UnsupportedError(f"expected whole numbers as '{name}' but got {_text(item)}")
    return found


def _fed_sizes(value: Any, name: str) -> list[Dim | Tensor]:
    found: list[Dim | Tensor] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(item, Tensor) or known_contents(item) is not None:
            found += _sizes(item, name)
            continue
        count = item.type.elements
        if not item.type.dtype.is_integer or not isinstance(count, int):
            raise UnsupportedError(f"expected a number of whole numbers as '{name}' but got {_text(item)}")
        check_count(count, MOST_FED, f"sizes in '{name}'")
        item = math.reshape(item, [count]) if item.ndim > 1 else item
        for part in [item[i] for i in range(count)] if item.ndim else [item]:
            # Some of them may be known: lists are tensors to Paddle as soon as one of their numbers is.
            found += [part] if known_contents(part) is None else _sizes(part, name)
    return found


def _extents(value: Any, name: str) -> list[Dim]:
    return [extent(size, name) for size in _fed_sizes(value, name)]


def _contents(tensor: Tensor, name: str) -> list[Any]:
    known = known_contents(tensor)
    if known is None:
        raise UnsupportedError(
            f"expected '{name}' to follow from shapes and constants but it is computed from the model's inputs ({tensor.type})"
        )
    return list(known.reshape(-1))


def _scalar(value: Any, name: str) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 1:
        (value,) = value
    if isinstance(value, Tensor):
        known = known_contents(value)
        if known is None or known.size != 1:
            return value
        (value,) = known.reshape(-1)
        return value
    value = _plain_number(value)
    if not isinstance(value, (int, float, Expr)):
        raise UnsupportedError(f"expected a number as '{name}' but got {_text(value)}")
    return value


def _scalars(value: Any, name: str) -> list[Any]:
    found: list[Any] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        count = item.type.elements if isinstance(item, Tensor) else 1
        check_count(count, MOST_FED, f"numbers in '{name}'")
        if not isinstance(item, Tensor) or item.ndim == 0:
            found.append(_scalar(item, name))
        elif item.ndim > 1 or not isinstance(count, int):
            raise UnsupportedError(f"expected a number of numbers as '{name}' but got {_text(item)}")
        else:
            found += [_scalar(item[i], name) for i in range(count)]
    return found


def _plain_number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _dtype(value: Any, name: str) -> ScalarType | None:
    if isinstance(value, ScalarType):
        return value
    if isinstance(value, DType):
        return value.scalar
    if isinstance(value, int) and not isinstance(value, bool):
        if value == -1:
            return None
        value = PROTOBUF_DTYPES.get(value, value)
    if value in ("undefined", "Undefined", ""):
        return None
    if not isinstance(value, str) or value not in DTYPES:
        raise UnsupportedError(f"expected a dtype as '{name}' but got {_text(value)}")
    return DTYPES[value].scalar


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor ({value.type})"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(kind: type | tuple[type, ...], what: str) -> Callable[[Any, str], Any]:
    def convert(value: Any, name: str) -> Any:
        value = _plain_number(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UnsupportedError(f"expected {what} as '{name}' but got {_text(value)}")
        return value

    return convert


def _flag(value: Any, name: str) -> bool:
    if value not in (0, 1):
        raise UnsupportedError(f"expected true or false as '{name}' but got {_text(value)}")
    return bool(value)


_CONVERT: dict[str, Callable[[Any, str], Any]] = {
    "Tensor": _one_tensor,
    "Tensor | None": _one_tensor,
    "list[Tensor]": _tensors,
    "FedSizes": _fed_sizes,
    "Extents": _extents,
    "Extents | None": _extents,
    "Sizes": _sizes,
    "Sizes | None": _sizes,
    "Numbers": _numbers,
    "Numbers | None": _numbers,
    "Number": number,
    "Number | None": number,
    "Scalar": _scalar,
    "list[Scalar] | None": _scalars,
    "Scalar | None": _scalar,
    "ScalarType | None": _dtype,
    "int": _plain(int, "a whole number"),
    "float": _plain((int, float), "a number"),
    "bool": _flag,
    "str": _plain(str, "text"),
}
