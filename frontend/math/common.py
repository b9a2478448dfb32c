"""Checking and normalising what the functions of this package share: numbers, shapes, axes, Paddle's type promotion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dialects.shape_rules import broadcast_shapes
from polyreme.dtypes import DTYPES, default_dtype, of_scalar
from polyreme.ir.diagnostics import InferError
from polyreme.ir.dims import Dim, Expr, UnknownSize, asked_equal
from polyreme.ir.sizes.facts import agree_all, assuming
from polyreme.ir.types import ScalarType, f32, i1, i8, i16, i64, u8
from polyreme.provided import provides
from polyreme.tensor import Tensor, shape_dims

_FLOAT_RANK = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}
_KIND_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def tensor_arg(value: Any, function: str, argument: str = "x") -> Tensor:
    """`value`, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}(): argument '{argument}' must be Tensor, but got {type(value).__name__}")
    return value


def number_of(value: Any) -> Any:
    """A Python number, or a size, from a number or a tensor of one element."""
    if isinstance(value, Tensor) and value.size == 1 and value.type.dtype.kind in "iu" and not isinstance(value._value, np.ndarray):
        return value._size()
    return value.item() if isinstance(value, (Tensor, np.generic, np.ndarray)) else value


def shape_of(shape: Any) -> tuple[Dim, ...]:
    """A shape argument as sizes, none of which may be negative."""
    dims = shape_dims(shape)
    for d in dims:
        if not isinstance(d, (int, Expr)) or isinstance(d, bool):
            raise TypeError(f"expected a shape of whole numbers but got {list(dims)}")
        if isinstance(d, int) and d < 0:
            raise ValueError(f"expected no negative size but got shape {list(dims)}")
    return dims


def axis_of(axis: Any, rank: int, function: str) -> int:
    """One axis, counted from the front."""
    axis = number_of(axis)
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        raise TypeError(f"{function}(): argument 'axis' must be int, but got {type(axis).__name__}")
    # A 0-D tensor takes the axes of a vector of one element, as in Paddle.
    bound = max(rank, 1)
    if not -bound <= axis < bound:
        # A ValueError and an IndexError: Paddle raises now the one, now the other.
        raise np.exceptions.AxisError(f"{function} expected axis in [{-bound}, {bound}) but got {axis}")
    return int(axis) % bound


def axes_of(axis: Any, rank: int, function: str) -> tuple[int, ...]:
    """Axes of a reduction, counted from the front; () for all of them."""
    if axis is None:
        return ()
    if isinstance(axis, Tensor):
        axis = np.atleast_1d(axis._array("an axis")).tolist()
    given = [axis_of(a, rank, function) for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
    if len(set(given)) != len(given):
        raise ValueError(f"{function} expected each axis once but got {axis}")
    return () if rank == 0 else tuple(given)


@provides
def cast_to(x: Tensor, dtype: ScalarType) -> Tensor:
    """`x` itself when it has the dtype already."""
    return x if x.type.dtype == dtype else dispatch.call(ops.Cast, x, dtype=dtype)


def promoted(x: ScalarType, y: ScalarType, x_rank: int = 1, y_rank: int = 1) -> ScalarType:
    """The common dtype of two tensors, by Paddle's rules.

    Floats widen among each other, and reals to complex. A 0-D tensor takes the dtype of the other one unless it is of a higher kind (bool <
    integer < float < complex), or a float64 that meets complex numbers. Of two 0-D tensors the higher kind wins, and of two integers the
    wider one. Everything else is a `TypeError`.
    """
    if x == y:
        return x
    if {x.kind, y.kind} == {"c", "f"}:
        return _complex_of(x, y)
    if x_rank == y_rank == 0 and not x.kind == y.kind == "f":
        return i16 if {x, y} == {i8, u8} else max(x, y, key=lambda t: (_KIND_RANK[t.kind], t.bits))
    if (x_rank == 0) != (y_rank == 0):
        scalar, other = (x, y) if x_rank == 0 else (y, x)
        return scalar if _KIND_RANK[scalar.kind] > _KIND_RANK[other.kind] else other
    if x.kind == y.kind == "f":
        a, b = _FLOAT_RANK[of_scalar(x).name], _FLOAT_RANK[of_scalar(y).name]
        return f32 if a == b else x if a > b else y
    if "c" in (x.kind, y.kind):
        return _complex_of(x, y)
    raise TypeError(
        "(InvalidType) Type promotion only support calculations between floating-point numbers and between complex and real numbers. "
        f"But got different data type x: {of_scalar(x).name}, y: {of_scalar(y).name}."
    )


def _complex_of(x: ScalarType, y: ScalarType) -> ScalarType:
    double = any(t.bits == 128 or t.kind == "f" and t.bits == 64 for t in (x, y))
    return DTYPES["complex128" if double else "complex64"].scalar


def promote(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands in their common dtype."""
    a, b = x.type, y.type
    if a.dtype == b.dtype:
        return x, y
    dtype = promoted(a.dtype, b.dtype, len(a.shape), len(b.shape))
    return cast_to(x, dtype), cast_to(y, dtype)


def widest(x: ScalarType, y: ScalarType, x_rank: int = 1, y_rank: int = 1) -> ScalarType:
    """As `promoted`, but of two floats, or two complex dtypes, the wider one wins whatever the ranks: what functions have that Paddle
    promotes as if all tensors had axes.
    """
    return promoted(x, y) if x.kind == y.kind and x.kind in "fc" else promoted(x, y, x_rank, y_rank)


def promote_widest(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands in the dtype that `widest` gives."""
    dtype = widest(x.type.dtype, y.type.dtype, x.ndim, y.ndim)
    return cast_to(x, dtype), cast_to(y, dtype)


def number_dtype(value: Any) -> ScalarType:
    """The dtype of the tensor that Paddle makes of a number: NumPy's have their own, a size is an int64, a Python float is of the default
    dtype.
    """
    if isinstance(value, np.generic):
        found = next((d.scalar for d in DTYPES.values() if d.scalar.np == value.dtype), None)
        if found is not None:
            return found
    elif isinstance(value, bool):
        return i1
    elif isinstance(value, (int, Expr)):
        return i64
    elif isinstance(value, float):
        return default_dtype().scalar
    elif isinstance(value, complex):
        return _complex_of(default_dtype().scalar, default_dtype().scalar)
    raise TypeError(f"expected a number or a Tensor but got {type(value).__name__}")


def scalar_dtype(tensor: ScalarType, value: Any) -> ScalarType:
    """The dtype in which a tensor meets a Python number: the tensor's own, unless the number is of a higher kind."""
    if isinstance(value, bool) or tensor.kind in "fc" and not isinstance(value, complex):
        return tensor
    if isinstance(value, (int, Expr)):
        return DTYPES["int64"].scalar if tensor.kind == "b" else tensor
    if isinstance(value, float):
        return default_dtype().scalar
    return DTYPES["complex128" if tensor.bits == 64 and tensor.kind == "f" else "complex64"].scalar if tensor.kind != "c" else tensor


def floating(x: Tensor) -> Tensor:
    """Integers as the default float; floats as they are."""
    return cast_to(x, default_dtype().scalar) if x.type.dtype.kind in "iu" else x


def check_unique(axes: Sequence[int], function: str) -> None:
    if len(set(axes)) != len(axes):
        raise ValueError(f"{function} expected each axis once but got {list(axes)}")


def no_integers(x: Tensor, function: str) -> Tensor:
    """`x`, which must not hold whole numbers or bools: they would lose what the function multiplies them by."""
    if tensor_arg(x, function).type.dtype.kind in "iub":
        raise TypeError(f"{function} expected a tensor of floats but got {x.dtype.name}: cast it first, with x.astype('float32')")
    return x


def check_within(
    positions: Any, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool = True, by_op: bool = False
) -> Any:
    """The positions, a tensor or an array. Raises `error(lowest, highest, size)` if they are not those of an axis of `size`: from 0, or
    from -size where it `wraps`.

    What a compiled call or a program that stands alone computes is looked at once it has run: it has to read at the positions that are
    returned. `by_op` says that one op reads or writes at them along that very axis, which a static Program looks at for itself.
    """
    values = positions._held() if isinstance(positions, Tensor) else positions
    if isinstance(values, np.ndarray):
        if isinstance(size, int) and values.size and not is_within(int(values.min()), int(values.max()), size, wraps):
            raise error(int(values.min()), int(values.max()), size)
    elif (recorder := dispatch.recorder()) is not None and not (by_op and recorder.keeps_reads):
        return recorder.check_within(positions, size, error, wraps)
    return positions


def check_elements(x: Tensor, axes: Sequence[int]) -> Tensor | None:
    """Before the extreme along `axes` is taken: that there are elements. Sizes of arguments each call checks; how many elements values
    select is looked at once it has run. What is then a zero has to be taken off the result, so that somebody reads it; else None.
    """
    recorder: Any = dispatch.recorder()
    if recorder is None or not recorder.taped or not recorder.learns_sizes:
        return None
    zero = None
    for size in {x.type.shape[axis] for axis in axes if isinstance(x.type.shape[axis], Expr)}:
        if not recorder.is_told_by_values(size):
            recorder.require(size - 1)
            continue
        number = dispatch.call(ops.DimValue, size=size, dtype=i64)
        is_zero = cast_to(dispatch.call(ops.Equal, number, dispatch.full((), 0, i64)), i64)
        seen = recorder.check_within(is_zero, 1, _no_elements, False)
        if seen is not is_zero:
            zero = seen if zero is None else dispatch.call(ops.Add, zero, seen)
    return zero


def _no_elements(*_: int) -> InferError:
    return InferError("expected at least one element along the axes but got 0", code="E0301")


def is_within(lowest: int, highest: int, size: int, wraps: bool) -> bool:
    """Whether these are positions of an axis of `size`, and all between them."""
    return (-size if wraps else 0) <= lowest and highest < size


def number_like(x: Tensor, value: float) -> Tensor:
    """A number of `x`'s element type."""
    return dispatch.full((), value, x.type.dtype)


def common_shape(shapes: Callable[[], Sequence[Sequence[Dim]]]) -> list[Dim]:
    """What the shapes that `shapes` gives broadcast to. Where a trace finds that sizes in them have to be equal, they are from there on."""
    recorder = dispatch.active_trace()
    if recorder is not None and recorder.learns_sizes:
        with assuming() as equations, suppress(InferError):
            broadcast_shapes([tuple(s) for s in shapes()])
        if equations:
            recorder.learn_sizes(equations)
    return list(broadcast_shapes([tuple(s) for s in shapes()]))


def same_sizes(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are equal, or a trace can have them be so from here on."""
    if len(a) != len(b):
        return False
    with assuming() as equations:
        if not agree_all(tuple(a), tuple(b)):
            return False
    recorder = dispatch.active_trace()
    return not equations or (recorder is not None and recorder.learns_sizes and recorder.learn_sizes(equations))


def fitting_sizes(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """As `same_sizes`, for a function whose op judges sizes of which nothing tells yet, or has each run do so."""
    if same_sizes(a, b):
        return True
    if len(a) != len(b) or dispatch.active_trace() is None:
        return False
    with assuming() as equations:
        # A size of 1 would be repeated.
        return agree_all(tuple(a), tuple(b)) and all(1 not in equation for equation in equations)


def equal_sizes(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are equal, where either answer goes on: that of the call that is traced for; an `UnknownSize` where nothing tells.
    """

    def equal(x: Dim, y: Dim) -> bool:
        answer = asked_equal(x, y)
        if answer is None:
            raise UnknownSize(
                f"expected known sizes but got '{x}' and '{y}', of which it is not known while the program is built whether they are equal",
                x,
                y,
            )
        return answer

    return len(a) == len(b) and all(map(equal, a, b))


def select(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The elements of `x` where `condition` holds, else those of `y`, all of equal element types."""
    return dispatch.call(ops.Where, condition, x, y)
