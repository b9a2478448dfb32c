"""Shapes as users see them, and the sizes in them that a static program leaves free: equal to -1, printed as -1, and usable as the size
they stand for.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from polyreme.ir.dims import Dim, Expr, product

__all__ = ["FreeSize", "Size", "plain_size", "shown_size"]


class Size(list[Any]):
    """The shape of a tensor: a list of sizes that prints as Paddle 3.3.1 prints it, `paddle.Size([2, 3])`. Sums, products and parts of it
    are of its kind.
    """

    __slots__ = ()

    def numel(self) -> Any:
        """The number of elements of a tensor of this shape."""
        return product(self)

    def __repr__(self) -> str:
        return f"paddle.Size({list.__repr__(self)})"

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, list(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __add__(self, other: Any) -> Size:
        return Size([*self, *other])

    def __radd__(self, other: Any) -> Size:
        return Size([*other, *self])

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(list.__mul__(self, times))

    __rmul__ = __mul__

    def __getitem__(self, place: Any) -> Any:
        found = list.__getitem__(self, place)
        return Size(found) if isinstance(place, slice) else found


class FreeSize(Expr):
    """The symbolic size that -1 in a variable's shape stands for.

    In arithmetic and in shapes given to functions it is that size, so that `reshape(x, [x.shape[0], -1])` keeps the batch; compared with
    numbers, printed, and as an `int`, it is -1, so that `x.shape[0] < 0` tells that it is free. A count, `range(x.shape[0])`, is an error.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == -1 if isinstance(other, int) else Expr.__eq__(self, other)

    def __lt__(self, other: Any) -> bool:
        return -1 < other if isinstance(other, int) else Expr.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        return -1 <= other if isinstance(other, int) else Expr.__le__(self, other)

    def __gt__(self, other: Any) -> bool:
        return -1 > other if isinstance(other, int) else Expr.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        return -1 >= other if isinstance(other, int) else Expr.__ge__(self, other)

    def __hash__(self) -> int:
        return Expr.__hash__(self)

    def __repr__(self) -> str:
        return "-1"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(-1, spec)

    def __int__(self) -> int:
        return -1

    def __index__(self) -> int:
        return Expr(self.terms).__index__()

    def __abs__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return True


def shown_size(dim: Dim) -> Any:
    """A size of a variable's type as `shape` shows it."""
    return dim if isinstance(dim, int) else FreeSize(dim.terms)


def plain_size(size: Any) -> Any:
    """A size out of a shape as types have it; whatever is no free size, and nested sequences of them, as they are."""
    if isinstance(size, FreeSize):
        return Expr(size.terms)
    if isinstance(size, (list, tuple)):
        return type(size)(plain_size(s) for s in size)
    return size
