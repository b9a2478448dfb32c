"""Arrays of tensors: a tensor array is one tensor here, its elements along a new first axis where all of them have one shape and the same
levels of detail. Others are as `sequence/ragged.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import i32, i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.ragged import is_ragged, joined, numbers_below, ragged_element, ragged_length, spread, with_element
from polyreme.tensor import Tensor

__all__ = [
    "array_length", "array_read", "array_write", "check_element", "going_on", "has_other_rows", "index_of", "rank_table_of",
    "read_from_array", "write_to_array",
]  # fmt: skip


@operator("array_write_")
def array_write(x: Tensor, i: Tensor, array: Tensor | None = None) -> Tensor:
    """`array` [L, *shape] with `x` as element `i`: in place of the one there, or behind the last one; elements that are passed over are
    zeros. Without an array, one that has only this.
    """
    if array is None:
        array = dispatch.full((0, *x.type.shape), 0, x.type.dtype)
    check_element(x, array)
    index = index_of(i)
    length = array.type.shape[0]
    known = _known(index)
    row = math.unsqueeze(x, 0)
    if known is not None and isinstance(length, int):
        place = known
        if place < length:
            return math.concat([array[:place], row, array[place + 1 :]], 0)
        gap = dispatch.full((place - length, *x.type.shape), 0, x.type.dtype)
        return math.concat([array, row] if place == length else [array, gap, row], 0)
    count = _count(array)
    rows = math.concat([array, row, math.zeros_like(row)], 0)
    places = numbers_below(math.maximum(count, index + 1))
    kept = math.where(math.less_than(places, count), places, math.zeros_like(places) + (count + 1))
    return math.gather(rows, math.where(math.equal(places, index), math.zeros_like(places) + count, kept), 0)


@operator(
    legacy=spelled("write_to_array", {"X": "x", "I": "i", "Array": "array", "X@LOD": "own", "Array@LOD": "levels"}, "Out Out@LOD")
)
def write_to_array(
    x: Tensor, i: Tensor, array: Tensor | None = None, own: list[Tensor] | None = None, levels: list[Tensor] | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The same; the levels of detail of an array are those of its elements. An element that has other rows than the ones before makes the
    array one whose elements differ.
    """
    if array is not None and (is_ragged(levels) or has_other_rows(x, array)):
        alike = array.ndim > x.ndim  # whose levels may be those of an array whose elements differ all the same
        held, there = spread(array, () if is_ragged(levels) else levels or ()) if alike else (array, list(levels or ()))
        there = list(levels or ()) if is_ragged(levels) else there
        _check_ragged_element(x, own or (), held, there)
        return with_element(held, there, x, own or (), index_of(i))
    return array_write(x, i, array), list(levels or own or [])


def has_other_rows(x: Tensor, array: Tensor) -> bool:
    """Whether `x` may have other rows than the elements of an array that are alike, and is like them otherwise."""
    own, others = x.type, array.type
    if own.dtype != others.dtype or not 1 <= own.rank == others.rank - 1 or own.shape[1:] != others.shape[2:]:
        return False
    rows, before = own.shape[0], others.shape[1]
    return rows != before and not (isinstance(rows, int) and isinstance(before, int))


def _check_ragged_element(x: Tensor, own: Sequence[Tensor], array: Tensor, levels: Sequence[Tensor]) -> None:
    if x.type.dtype != array.type.dtype or x.type.shape[1:] != array.type.shape[1:]:
        raise UnsupportedError(
            f"expected elements of one dtype and of rows alike in a tensor array, {array.type.with_shape(array.type.shape[1:])}, but got "
            f"{x.type}; keep tensors of other shapes in an array of their own"
        )
    if len(own) != len(levels) - 1:
        raise UnsupportedError(
            f"expected elements of {len(levels) - 1} levels of detail in a tensor array but got one of {len(own)}; give it the levels of "
            "the others by lod_reset"
        )


@operator("array_read")
def array_read(array: Tensor, i: Tensor) -> Tensor:
    """Element `i`. One that is not there is an error where that is known, and else an arbitrary element or zeros."""
    index, length = index_of(i), array.type.shape[0]
    known = _known(index)
    if known is not None and isinstance(length, int) and not 0 <= known < length:
        raise UnsupportedError(f"expected the number of one of {length} elements of a tensor array but got {known}")
    return math.squeeze(math.gather(array, math.reshape(index, [1]), 0), 0)


@operator(legacy=spelled("read_from_array", {"X": "array", "I": "i", "X@LOD": "levels", "X_W": "like"}, "Out Out@LOD"))
def read_from_array(
    array: Tensor, i: Tensor, levels: list[Tensor] | None = None, like: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The same, with levels of detail. Of rows of sequences by steps, as a rank table says, those of the sequences that have one.

    `like` stands in gradients of 1.8.5: the array that this one is the gradient of. An element that has none then has zeros.
    """
    if like is not None:
        rows = math.concat([array, dispatch.full((1, *array.type.shape[1:]), 0, array.type.dtype)], 0)
        return math.squeeze(math.gather(rows, math.reshape(math.minimum(index_of(i), _count(array)), [1]), 0), 0), []
    if is_ragged(levels):
        return ragged_element(array, levels, index_of(i))
    table = rank_table_of(levels)
    if table is None:
        return array_read(array, i), list(levels or [])
    return math.gather(array_read(array, i), numbers_below(going_on(table, i)), 0), []


@operator(legacy=spelled("tensor_array_to_tensor", {"X": "array", "X@LOD": "levels"}, "Out OutIndex"))
def tensor_array_to_tensor(
    array: Tensor, levels: list[Tensor] | None = None, *, axis: int = 0, use_stack: bool = False
) -> tuple[Tensor, Tensor]:
    """The elements of an array one behind the other along `axis`, or along a new axis there; and the size along `axis` of each, int32."""
    if is_ragged(levels):
        if use_stack or axis % array.ndim:
            how = "stacked" if use_stack else f"joined along axis {axis}"
            raise UnsupportedError(f"expected elements of as many rows in a tensor array that is {how} but theirs may differ")
        return array, cast_to(joined(levels), i32)
    count, *sizes = array.type.shape
    rank = len(sizes)
    if not -rank <= axis < rank + use_stack:
        raise UnsupportedError(f"expected an axis of the elements of the tensor array, which have {rank}, but got {axis}")
    place = axis % rank if axis < rank else axis
    made = math.moveaxis(array, 0, place)
    if not use_stack:
        made = math.reshape(made, [*sizes[:place], count * sizes[place], *sizes[place + 1 :]])
    each = sizes[place] if place < rank else 0
    return made, dispatch.full((count,), each, i32) if isinstance(each, int) else _each(each, count)


def _each(size: Dim, count: Dim) -> Tensor:
    """A free size, as often as there are elements: int32."""
    number = dispatch.call(nn.Cast, dispatch.call(nn.DimValue, size=size, dtype=i64), dtype=i32)
    made: Tensor = dispatch.call(nn.BroadcastTo, number, shape=(count,))
    return made


@operator("array_length")
def array_length(array: Tensor) -> Tensor:
    """How many elements there are: int64 [1]."""
    return math.reshape(_count(array), [1])


@operator(legacy=spelled("lod_array_length", {"X": "array", "X@LOD": "levels"}))
def lod_array_length(array: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """The same; of an array whose elements differ its levels tell."""
    return ragged_length(levels) if is_ragged(levels) else array_length(array)


def rank_table_of(levels: list[Tensor] | None) -> Tensor | None:
    """The rank table of an array that has rows of sequences by steps; None of other arrays, whose levels are offsets."""
    return levels[0] if levels and levels[0].ndim == 2 else None


def going_on(table: Tensor, i: Tensor) -> Tensor:
    """How many sequences of a rank table have a row with the number `i`, int64 []."""
    return math.sum(math.less_than(index_of(i), table[:, 1]).astype("int64"))


def index_of(i: Tensor) -> Tensor:
    """The number of an element, int64 []."""
    if i.type.elements != 1:
        raise UnsupportedError(f"expected one number as the place in a tensor array but got shape {list(i.shape)}")
    return math.reshape(i, []).astype("int64")


def _known(index: Tensor) -> int | None:
    """The number, if it is known while the program is made."""
    found = index._known() if dispatch.active_trace() is not None else index.numpy()
    number = None if found is None else found.reshape(-1)[0]
    return None if number is None or isinstance(number, Expr) else int(number)


def _count(array: Tensor) -> Tensor:
    count: Tensor = dispatch.call(nn.DimValue, size=array.type.shape[0], dtype=i64)
    return count


def check_element(x: Tensor, array: Tensor) -> None:
    """That `x` has the dtype and, as far as it is known, the shape of the elements of an array."""
    own, others = x.type, array.type
    fits = own.rank == others.rank - 1 and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(own.shape, others.shape[1:], strict=True)
    )
    if own.dtype != others.dtype or not fits:
        raise UnsupportedError(
            f"expected elements of one dtype and shape in a tensor array, {others.with_shape(others.shape[1:])}, but got {own}; keep "
            f"tensors of other shapes in a Python list"
        )
