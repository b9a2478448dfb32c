"""Feeds with batches of their own: the free sizes of axis 0 have one name while a program is built, and may be several when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyreme.ir.dims import Dim, Expr, substitute, symbol, symbols
from polyreme.ir.types import TensorType, type_symbols
from polyreme.lowering.transforms.solve_sizes import attribute_sizes
from polyreme.static.input_spec import own_size
from polyreme.static.kinds import Host
from polyreme.static.lod.travel import is_shared
from polyreme.static.program import Program

__all__ = ["may_part", "shape_fits", "with_fed_shapes", "with_own_batches"]


def shape_fits(kind: TensorType, shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape is of the type; free sizes are what they are."""
    return len(kind.shape) == len(shape) and all(isinstance(d, Expr) or d == n for d, n in zip(kind.shape, shape, strict=True))


def with_fed_shapes(types: Mapping[str, TensorType], arrays: Mapping[str, Any]) -> dict[str, TensorType]:
    """The types of feeds, where arrays have other shapes than were declared: a size that is another one becomes free, the same for all that
    declare the same and are fed the same; of an array with another number of axes the first one stays.
    """
    taken = frozenset().union(*map(type_symbols, types.values()))
    named: dict[tuple[Dim, int], Dim] = {}
    made = {}
    for name, kind in types.items():
        shape = arrays[name].shape
        if shape_fits(kind, shape):
            made[name] = kind
        elif len(kind.shape) == len(shape):
            made[name] = kind.with_shape(
                tuple(
                    d if isinstance(d, Expr) or d == n else named.setdefault((d, n), own_size(name, axis, taken))
                    for axis, (d, n) in enumerate(zip(kind.shape, shape, strict=True))
                )
            )
        else:
            made[name] = kind.with_shape((*kind.shape[: 1 if shape else 0], *shape[1:]))
    return made


def may_part(program: Program, size: str) -> bool:
    """Whether feeds may give `size` several values: it must be the batch or the rows of sequences, and no operator may speak of it, since
    whose batch that is nothing tells.
    """
    if not is_shared(size):
        return False
    # A reshape has as many elements as it reads, so that no other batch can be meant unnoticed.
    ops = [op for op in program.global_block().ops if op.type not in ("reshape", "reshape2")]
    return not any(isinstance(op.kind, Host) or _speaks_of(op.attrs, size) for op in ops)


def _speaks_of(attributes: Mapping[str, Any], size: str) -> bool:
    return any(size in attribute_sizes(value) for value in attributes.values())


def with_own_batches(types: Mapping[str, TensorType], arrays: Mapping[str, Any], alike: bool = False) -> dict[str, TensorType]:
    """The types of feeds; a batch (or the rows of sequences) is called otherwise for those whose arrays have another one than the first.

    With `alike`, batches that are equal in this run have one name, and one that is a multiple of the first is written so: `6*N`.
    """
    taken = frozenset().union(*map(type_symbols, types.values()))
    first: dict[str, int] = {}
    known: dict[tuple[str, int], Dim] = {}
    made = {}
    for name, kind in types.items():
        own: dict[str, Dim] = {}
        for axis, (dim, count) in enumerate(zip(kind.shape, arrays[name].shape, strict=True)):
            for size in symbols(dim):
                # Offsets are one more than there are sequences.
                value = count if dim == symbol(size) else count - 1
                if not is_shared(size) or first.setdefault(size, value) == value:
                    continue
                times, rest = divmod(value, first[size]) if first[size] else (0, value)
                fresh = times * symbol(size) if alike and times and not rest else own_size(name, axis, taken)
                own[size] = known.setdefault((size, value), fresh) if alike else fresh
        made[name] = kind.with_shape(tuple(substitute(d, own) for d in kind.shape)) if own else kind
    return made
