"""Sizes that a static program leaves free, as users see them in `shape`: equal to -1, printed as -1, and usable as the size they stand for."""

from __future__ import annotations

from typing import Any

from polyreme.ir.dims import Dim, Expr

__all__ = ["FreeSize", "plain_size", "shown_size"]


class FreeSize(Expr):
    """The symbolic size that -1 in a variable's shape stands for.

    In arithmetic and in shapes given to functions it is that size, so that `reshape(x, [x.shape[0], -1])` keeps the batch; compared with -1 it is equal.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == -1 if isinstance(other, int) else Expr.__eq__(self, other)

    def __hash__(self) -> int:
        return Expr.__hash__(self)

    def __repr__(self) -> str:
        return "-1"


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
