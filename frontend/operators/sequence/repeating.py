"""Sequences repeated, reversed, joined, and given other levels."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths, sequence_of_rows, with_as_many, zeros_where_right
from polyreme.tensor import Tensor

_ONE_EACH = "{} expected a row of 'X' for each sequence of 'Y'"
_OFFSETS = "lod_reset expected offsets that rise to the number of rows"




def counted(rows: Tensor) -> Tensor:
    """0, 1, …, one number for each row, int64."""
    return dispatch.call(nn.Iota, shape=(rows.type.shape[0],), axis=0, dtype=i64)


def offsets_of(sizes: Tensor) -> Tensor:
    """The offsets of sequences of these lengths, int64 [sequences + 1]."""
    return math.concat([math.zeros([1], i64), dispatch.call(nn.Cumsum, cast_to(sizes, i64), axis=0)], 0)


def rows_between(starts: Tensor, ends: Tensor, x: Tensor) -> Tensor:
    """The numbers of the rows of `x` in [start, end) of each pair, one pair behind the other."""
    here = math.unsqueeze(counted(x), 0)
    inside = math.logical_and(math.greater_equal(here, math.unsqueeze(starts, -1)), math.less_than(here, math.unsqueeze(ends, -1)))
    return math.nonzero(inside)[:, 1]


@operator(legacy=spelled("sequence_expand", {"X": "x", "Y": "y", "X@LOD": "own", "Y@LOD": "levels"}, "Out Out@LOD", constant="Y"))
def sequence_expand(
    x: Tensor, y: Tensor, own: list[Tensor] | None = None, levels: list[Tensor] | None = None, *, ref_level: int = -1
) -> tuple[Tensor, list[Tensor]]:
    """Each sequence of `x`, or each row of one without levels, as often as the sequence of `y` with its number in the level `ref_level` has
    parts. Each time it is a sequence of the result; of rows without levels the result has none.
    """
    given = levels or []
    last_level(given, "Y")
    if not -1 <= ref_level < len(given):
        raise UnsupportedError(f"expected a ref_level in [-1, {len(given)}) for 'sequence_expand' but got {ref_level}")
    if own and len(own) > 1:
        raise UnsupportedError(f"expected at most one level of detail in 'X' of 'sequence_expand' but it has {len(own)}")
    place = len(given) - 1 if ref_level == -1 else ref_level
    parts = y if place == len(given) - 1 else given[place + 1][1:]
    whole = sequence_of_rows(given[place], parts)
    if not own:
        whole = with_as_many(whole, x.type.shape[0], given[place].type.shape[0] - 1, _ONE_EACH.format("sequence_expand"))
        return math.gather(x, whole, 0), []
    starts, ends = (math.gather(part, whole, 0) for part in (own[0][:-1], own[0][1:]))
    return math.gather(x, rows_between(starts, ends, x), 0), [offsets_of(math.subtract(ends, starts))]


@operator(legacy=spelled("sequence_expand_as", {"X": "x", "Y": "y", "Y@LOD": "levels"}, "Out Out@LOD", constant="Y"))
def sequence_expand_as(x: Tensor, y: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """Each row of `x` as often as the sequence of `y` with its number has rows, as sequences like those of `y`."""
    given = levels or []
    last_level(given, "Y")
    if len(given) != 1:
        raise UnsupportedError(f"expected one level of detail in 'Y' of 'sequence_expand_as' but it has {len(given)}")
    whole = with_as_many(sequence_of_rows(given[0], y), x.type.shape[0], given[0].type.shape[0] - 1, _ONE_EACH.format("sequence_expand_as"))
    return math.gather(x, whole, 0), given


@operator(legacy=spelled("sequence_reverse", {"X": "x", "X@LOD": "levels"}, "Y"))
def sequence_reverse(x: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """The rows of each sequence from the last to the first."""
    offsets = last_level(levels or [], "X")
    belongs = sequence_of_rows(offsets, x)
    ends = math.add(math.gather(offsets[:-1], belongs, 0), math.gather(offsets[1:], belongs, 0))
    return math.gather(x, math.subtract(math.scale(ends, 1, -1), counted(x)), 0)


@operator(legacy=spelled("sequence_concat", {"X": "x", "X@LOD": "levels"}, "Out Out@LOD"))
def sequence_concat(x: list[Tensor], levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """The first sequences of all inputs one behind the other, then the second ones, and so on; each has one level."""
    given = levels or []
    if len(given) != len(x):
        raise UnsupportedError(f"expected one level of detail in each of the {len(x)} inputs of 'sequence_concat' but got {len(given)}")
    belongs = math.concat([sequence_of_rows(offsets, part) for offsets, part in zip(given, x, strict=True)], 0)
    sizes = lengths(given[0])
    for offsets in given[1:]:
        sizes = math.add(sizes, lengths(offsets))
    order = math.argsort(belongs, stable=True)
    return math.gather(math.concat(list(x), 0), order, 0), [offsets_of(sizes)]


@operator(legacy=spelled("sequence_reshape", {"X": "x", "X@LOD": "levels"}, "Out Out@LOD"))
def sequence_reshape(x: Tensor, levels: list[Tensor] | None = None, *, new_dim: int) -> tuple[Tensor, list[Tensor]]:
    """The elements of each sequence, which `new_dim` must divide, as rows of `new_dim`; lengths change accordingly."""
    offsets = last_level(levels or [], "X")
    width = x.type.shape[1] if x.ndim == 2 else None
    if not isinstance(width, int):
        raise UnsupportedError(f"expected rows of a known size in 'X' of 'sequence_reshape' but got the shape {list(x.shape)}")
    scaled = math.floor_divide(math.scale(offsets, width), math.full([1], new_dim, i64))
    if width % new_dim == 0:
        return math.reshape(x, [-1, new_dim]), [scaled]
    row = dispatch.call(nn.Iota, shape=(x.type.shape[0] * width // new_dim, 1), axis=0, dtype=i64)
    column = dispatch.call(nn.Iota, shape=(1, new_dim), axis=1, dtype=i64)
    places = math.add(math.scale(row, new_dim), column)
    taken = math.gather(math.reshape(x, [-1]), math.reshape(places, [-1]), 0)
    return math.reshape(taken, list(places.type.shape)), [scaled]


@operator(legacy=spelled("lod_reset", {"X": "x", "Y": "y", "X@LOD": "own", "Y@LOD": "levels"}, "Out Out@LOD", constant="Y"))
def lod_reset(
    x: Tensor, y: Tensor | None = None, own: list[Tensor] | None = None, levels: list[Tensor] | None = None, *, target_lod: Sizes = (),
    append: bool = False,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """`x` with the levels of `y`; where it has none, with one whose offsets are the values of `y`, or `target_lod`, which with `append`
    stands below those that `x` has.
    """
    rows = x.type.shape[0]
    if levels:
        last = with_as_many(levels[-1], rows, y.type.shape[0] if y is not None else rows, _OFFSETS)
        return x, [*levels[:-1], last]
    above = list(own or []) if append else []
    if y is not None:
        return x, [*above, _of_rows(math.reshape(cast_to(y, i64), [-1]), x)]
    if len(target_lod) < 2 or target_lod[0] != 0:
        raise UnsupportedError(f"expected a target_lod of offsets, which start with 0, but got {list(target_lod)}")
    return x, [*above, _of_rows(dispatch.constant(np.array(target_lod, "int64")), x)]


def _of_rows(offsets: Tensor, x: Tensor) -> Tensor:
    """The offsets, which must rise from 0 to the number of rows of `x`."""
    ends = [dispatch.full((1,), 0, i64), math.reshape(dispatch.call(nn.DimValue, size=x.type.shape[0], dtype=i64), [1])]
    first, last = (math.not_equal(offsets[part], end) for part, end in zip((slice(0, 1), slice(-1, None)), ends, strict=True))
    falls = math.less_than(lengths(offsets), dispatch.full((), 0, i64))
    return math.add(offsets, zeros_where_right(math.concat([math.logical_or(first, last), falls], 0), _OFFSETS))
