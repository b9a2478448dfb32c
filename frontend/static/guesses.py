"""Sizes of results where an operator fits its inputs only for certain values of their free sizes.

While a program is built, a free size stands for whatever a run feeds: rows [N, 6] may well be reshaped to [4, 3, 2], and labels [N, 1] may
belong to scores [6*N, 20], if what is fed is so. Numbers for the free sizes are tried then, small ones that follow from what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr, substitute, symbol
from polyreme.ir.types import TensorType, type_symbols

__all__ = ["Types", "types_by_guess"]

Types = dict[str, list[TensorType]]
Sizes = dict[tuple[str, str], int]  # by variable and free size

# So many numbers are tried for a free size, by how many of them there are.
MOST_NUMBERS = {1: 24, 2: 10, 3: 5}


def types_by_guess(
    infer: Callable[[Mapping[str, TensorType]], Types], inputs: Mapping[str, TensorType], attributes: Mapping[str, Any]
) -> Types | None:
    """The types of results by slot, once `infer` takes the inputs with numbers for their free sizes; None when it takes none.

    A size that follows the numbers is that of an input which follows them alike, or a free one of its own.
    """

    def attempt(sizes: Sizes, factor: int = 1) -> Types | None:
        tried = {name: _with(kind, name, sizes, factor) for name, kind in inputs.items()}
        try:
            return infer(tried)
        except (PolyremeError, ValueError, TypeError, KeyError):
            return None

    for sizes in _choices(inputs, attributes):
        made = attempt(sizes)
        if made is None:
            continue
        for factor in (2, 3):
            other = attempt(sizes, factor)
            if other is not None:
                return _following(made, other, inputs, sizes, factor)
        return made
    return None


def _with(kind: TensorType, name: str, sizes: Sizes, factor: int) -> TensorType:
    values: dict[str, Dim] = {size: sizes[name, size] * factor for size in type_symbols(kind)}
    return kind.with_shape(tuple(substitute(d, values) for d in kind.shape)) if values else kind


def _choices(inputs: Mapping[str, TensorType], attributes: Mapping[str, Any]) -> Iterator[Sizes]:
    """Numbers for the free sizes: first those that give one size one number, then of each input its own."""
    owners = [(name, size) for name, kind in inputs.items() for size in sorted(type_symbols(kind))]
    numbers = _numbers(inputs, attributes)
    shared = sorted({size for _, size in owners})
    for free in [[[owner for owner in owners if owner[1] == size] for size in shared], [[owner] for owner in owners]]:
        if not 0 < len(free) <= len(MOST_NUMBERS):
            continue
        for chosen in product(numbers[: MOST_NUMBERS[len(free)]], repeat=len(free)):
            yield {owner: number for group, number in zip(free, chosen, strict=True) for owner in group}


def _numbers(inputs: Mapping[str, TensorType], attributes: Mapping[str, Any]) -> list[int]:
    """1, the known sizes and the factors of free ones, the sizes among the attributes, and by what one of their products is a multiple of
    another.
    """
    found, products = {1}, set[int]()
    for kind in inputs.values():
        known = [d for d in kind.shape if isinstance(d, int)]
        found.update(known)
        products.add(prod(known))
        for d in kind.shape:
            if isinstance(d, Expr):
                factors = [abs(factor) for _, factor in d.terms]
                found.update(factors)
                products.add(prod(known) * factors[0])
    for value in attributes.values():
        listed = [n for n in value if isinstance(n, int) and n > 0] if isinstance(value, (list, tuple)) else [value]
        if listed and all(type(n) is int and n > 0 for n in listed):
            found.update(listed)
            products.add(prod(listed))
    found.update(a // b for a in products for b in products if b > 0 and a % b == 0)
    return sorted(n for n in found if n > 0)


def _following(made: Types, other: Types, inputs: Mapping[str, TensorType], sizes: Sizes, factor: int) -> Types:
    """The types, where sizes that were others with other numbers are free."""
    known: dict[tuple[Dim, Dim], Dim] = {}
    for name, kind in inputs.items():
        one, two = (_with(kind, name, sizes, by).shape for by in (1, factor))
        known.update(zip(zip(one, two, strict=True), kind.shape, strict=True))

    def free(slot: str, place: int, axis: int, first: Dim, second: Dim) -> Dim:
        if first == second:
            return first
        return known.get((first, second), symbol(f"{slot.replace('@', '_')}_{place}_{axis}"))

    return {
        slot: [
            kind.with_shape(tuple(free(slot, i, axis, *pair) for axis, pair in enumerate(zip(kind.shape, others[i].shape, strict=True))))
            for i, kind in enumerate(kinds)
        ]
        for slot, kinds in made.items()
        for others in [other[slot]]
    }
