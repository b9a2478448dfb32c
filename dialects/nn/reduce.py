"""Reductions along axes. An empty `axis` means all axes; the result has the operand's element type unless it says otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from polyreme.dialects.arrays import Array, reduce_array
from polyreme.dialects.shape_rules import normal_axes, normal_axis, reduced_shape
from polyreme.ir.accuracy import EXACT, SUM
from polyreme.ir.core import Op
from polyreme.ir.define import OpClass, Pure, attr, op, operand
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.types import ScalarType, TensorType, i64


def reduction_axes(axis: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes that an `axis` attribute means, sorted and counted from the front."""
    return normal_axes(axis, rank) if axis else tuple(range(rank))


class Reduction(Op):
    """All elements along `axis` combined by the row `reduce_fn` of `arrays.REDUCTIONS`; a mean divides by their number after."""

    reduce_fn: ClassVar[str] = ""


_SHAPE_RULE = (
    "`axis` lists the axes, negative ones counted from the end, none twice; an empty list means all. "
    "The result lacks these axes, or with `keepdims` has them with size 1. It has the operand's element type."
)
"""What all reductions say of shapes and types, at the end of their docstrings."""


def reduction(name: str, fn: str, kinds: str) -> Callable[[OpClass], OpClass]:
    """Declare the class as the op `name`, which reduces elements of `kinds` with `fn`."""

    def declare(cls: OpClass) -> OpClass:
        def infer(x: TensorType, *, axis: tuple[int, ...], keepdims: bool) -> TensorType:
            check_type(x.dtype.kind in kinds, f"expected elements of kind {kinds!r} but got {x.dtype}")
            axes = reduction_axes(axis, x.rank)
            check(fn not in ("max", "min") or all(x.shape[a] != 0 for a in axes), "expected at least one element along the axes but got 0")
            return x.with_shape(reduced_shape(x.shape, axes, keepdims))

        def reference(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
            return reduce_array(x, fn, reduction_axes(axis, x.ndim), keepdims)

        for attribute, value in (
            ("x", operand()),
            ("axis", attr(tuple[int, ...], default=())),
            ("keepdims", attr(bool, default=False)),
            ("reduce_fn", fn),
            ("infer", staticmethod(infer)),
            ("reference", vars(cls).get("reference", staticmethod(reference))),
        ):
            setattr(cls, attribute, value)
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{_SHAPE_RULE}"
        return op(name, Pure, accuracy=SUM if fn in ("add", "mul") else EXACT)(cls)

    return declare


@reduction("nn.sum", "add", "fiuc")
class Sum(Reduction):
    """The sum of the elements along the axes; 0 of no elements.

        %y = nn.sum %x {axis = [-1], keepdims = true} : tensor<Nx1xf32>      // %x: tensor<Nx4xf32>

    Integers wrap around. Floats add up in float64 in the reference, in any order in kernels.
    """


@reduction("nn.mean", "add", "f")
class Mean(Reduction):
    """The mean of the elements along the axes; nan of no elements.

        %y = nn.mean %x {axis = [0]} : tensor<4xf32>      // %x: tensor<Nx4xf32>

    The sum in float64, divided by the number of elements, rounded once to the operand's type.
    """

    @staticmethod
    def reference(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
        axes = reduction_axes(axis, x.ndim)
        count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        with np.errstate(all="ignore"):
            total = np.sum(x, axis=axes, keepdims=keepdims, dtype=np.float64)
            return np.asarray(np.divide(total, count)).astype(x.dtype)


@reduction("nn.max", "max", "fiu")
class Max(Reduction):
    """The largest element along the axes; nan where there is one.

        %y = nn.max %x {axis = [1]} : tensor<Nxf32>      // %x: tensor<Nx4xf32>

    Axes that are known to have no elements are refused.
    """


@reduction("nn.min", "min", "fiu")
class Min(Reduction):
    """The smallest element along the axes; nan where there is one.

        %y = nn.min %x {axis = [1]} : tensor<Nxf32>      // %x: tensor<Nx4xf32>

    Axes that are known to have no elements are refused.
    """


@reduction("nn.prod", "mul", "fiuc")
class Prod(Reduction):
    """The product of the elements along the axes; 1 of no elements.

        %y = nn.prod %x {axis = [1]} : tensor<Nxf32>      // %x: tensor<Nx4xf32>

    Integers wrap around.
    """


@reduction("nn.any", "or", "b")
class Any(Reduction):
    """Whether at least one element along the axes is true; false of no elements.

        %y = nn.any %x {axis = [1]} : tensor<Nxi1>      // %x: tensor<Nx4xi1>
    """


@reduction("nn.all", "and", "b")
class All(Reduction):
    """Whether every element along the axes is true; true of no elements.

        %y = nn.all %x {axis = [1]} : tensor<Nxi1>      // %x: tensor<Nx4xi1>
    """


class ArgReduction(Op):
    """Where along an axis the extreme, by `reduce_fn`, stands."""

    reduce_fn: ClassVar[str] = ""

    @staticmethod
    def infer(x: TensorType, *, axis: int, keepdims: bool, dtype: ScalarType) -> TensorType:
        axis = normal_axis(axis, x.rank)
        check_type(x.dtype.kind in "fiub", f"expected ordered elements but got {x.dtype}")
        check(x.shape[axis] != 0, "expected at least one element along the axis but got 0")
        check_type(dtype.is_integer, f"expected an integer type for positions but got {dtype}")
        return TensorType(reduced_shape(x.shape, (axis,), keepdims), dtype)

    @classmethod
    def reference(cls, x: Array, *, axis: int, keepdims: bool, dtype: ScalarType) -> Array:
        find = np.argmax if cls.reduce_fn == "max" else np.argmin
        return np.asarray(find(x, axis=axis, keepdims=keepdims)).astype(dtype.np)


@op("nn.arg_max", Pure)
class ArgMax(ArgReduction):
    """Where along `axis` the largest element stands.

        %i = nn.arg_max %x {axis = -1} : tensor<Nxi64>      // %x: tensor<Nx4xf32>

    The first of equals, and the first nan if there is one. The result lacks the axis, or has it with size 1 with `keepdims`; its elements
    are positions of the integer type `dtype`. An axis that is known to have no elements is refused. `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    keepdims = attr(bool, default=False)
    dtype = attr(ScalarType, default=i64)
    reduce_fn = "max"


@op("nn.arg_min", Pure)
class ArgMin(ArgReduction):
    """Where along `axis` the smallest element stands.

        %i = nn.arg_min %x {axis = -1} : tensor<Nxi64>      // %x: tensor<Nx4xf32>

    The first of equals, and the first nan if there is one. The result lacks the axis, or has it with size 1 with `keepdims`; its elements
    are positions of the integer type `dtype`. An axis that is known to have no elements is refused. `axis` counts from the end if negative.
    """

    x = operand()
    axis = attr(int)
    keepdims = attr(bool, default=False)
    dtype = attr(ScalarType, default=i64)
    reduce_fn = "min"
