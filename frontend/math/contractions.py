"""Sums of products in Einstein's notation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.math.common import cast_to, promoted, tensor_arg
from polyreme.math.creation import clone
from polyreme.math.elementwise import multiply
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import reshape, transpose
from polyreme.math.reduction import sum
from polyreme.tensor import Tensor

__all__ = ["einsum"]
METHODS: list[str] = []

Labels = list[str]


@operator("einsum")
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """The sum of products that `equation` describes, as in numpy: "ij,jk->ik" is the product of two matrices.

    A letter stands for an axis; axes of one letter have one size and are multiplied with each other, or, within one operand, taken along
    their diagonal. Letters that are missing behind the arrow are summed over. Without an arrow, letters that occur once are kept, in
    alphabetical order. `...` stands for any axes, which broadcast. Operands are multiplied from left to right, two at a time.

    Raises:
        ValueError: an equation that does not fit the operands.
    """
    tensors = [tensor_arg(x, "einsum", f"operands[{i}]") for i, x in enumerate(operands)]
    labels, kept = _labels(equation, [len(x.shape) for x in tensors])
    _check_sizes(equation, tensors, labels)
    dtype = tensors[0].type.dtype
    for x in tensors[1:]:
        dtype = promoted(dtype, x.type.dtype)
    terms = [_diagonals(cast_to(x, dtype), axes) for x, axes in zip(tensors, labels)]
    result, axes = terms[0]
    for i, (x, others) in enumerate(terms[1:], 2):
        wanted = {*kept, *(label for _, later in terms[i:] for label in later)}
        result, axes = _product(result, axes, x, others, wanted)
    result, axes = _summed(result, axes, set(kept))
    result = _ordered(result, axes, kept)
    # A tensor of its own, which may be changed in place.
    return clone(result) if result is operands[0] else result


def _labels(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes and of the result's. Those of `...` are the digits of their places, counted from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: '{equation}' has {len(terms)} operands, but {len(ranks)} came")
    widest = max([rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks) if "..." in term], default=0)
    labels = []
    for i, (term, rank) in enumerate(zip(terms, ranks)):
        free = rank - len(term.replace("...", ""))
        if free < 0 or (free and "..." not in term):
            raise ValueError(f"einsum: '{term}' names {len(term.replace('...', ''))} axes, but operand {i} has {rank}")
        labels.append(_spelled(term, free, equation))
    if not arrow:
        letters = "".join(terms).replace("...", "")
        right = ("..." if "..." in left else "") + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    kept = _spelled(right, widest, equation)
    known = {label for axes in labels for label in axes}
    unknown = [label for label in kept if label not in known]
    if unknown or len(set(kept)) < len(kept) or ("..." in left and "..." not in right):
        wrong = (
            f"'{unknown[0]}', which no operand has"
            if unknown
            else "an axis twice"
            if len(set(kept)) < len(kept)
            else "no '...', which operands have"
        )
        raise ValueError(f"einsum: the result of '{equation}' has {wrong}")
    return labels, kept


def _spelled(term: str, free: int, equation: str) -> Labels:
    before, dots, after = term.partition("...")
    if not (before + after).isalpha() and before + after:
        raise ValueError(f"einsum: expected letters, '...', ',' and '->' but got '{equation}'")
    return [*before, *(str(i) for i in reversed(range(free)) if dots), *after]


def _check_sizes(equation: str, tensors: Sequence[Tensor], labels: Sequence[Labels]) -> None:
    sizes: dict[str, Dim] = {}
    for x, axes in zip(tensors, labels):
        for label, size in zip(axes, x.shape):
            known = sizes.setdefault(label, size)
            if label.isalpha() and isinstance(size, int) and isinstance(known, int) and size != known:
                raise ValueError(f"einsum: '{label}' of '{equation}' is {known} in one place and {size} in another")


def _diagonals(x: Tensor, axes: Labels) -> tuple[Tensor, Labels]:
    """Without axes of one label twice: their diagonal stays, as the last axis."""
    for label in sorted({label for label in axes if axes.count(label) > 1}):
        while axes.count(label) > 1:
            first = axes.index(label)
            second = axes.index(label, first + 1)
            rest = [i for i in range(len(axes)) if i not in (first, second)]
            size = x.shape[first]
            x = reshape(transpose(x, [*rest, first, second]), [*(x.shape[i] for i in rest), size * size])[..., :: size + 1]
            axes = [*(axes[i] for i in rest), label]
    return x, axes


def _summed(x: Tensor, axes: Labels, wanted: set[str]) -> tuple[Tensor, Labels]:
    lost = [i for i, label in enumerate(axes) if label not in wanted]
    return (sum(x, lost), [label for label in axes if label in wanted]) if lost else (x, axes)


def _ordered(x: Tensor, axes: Labels, wanted: Labels) -> Tensor:
    order = [axes.index(label) for label in wanted]
    return x.clone() if order == list(range(len(order))) else dispatch.call(ops.Transpose, x, perm=tuple(order))


def _product(x: Tensor, x_axes: Labels, y: Tensor, y_axes: Labels, wanted: set[str]) -> tuple[Tensor, Labels]:
    """The product of two operands, summed over what nobody wants: a matrix product where both have such an axis, whose batches are the axes
    that stay of both.
    """
    x, x_axes = _summed(x, x_axes, wanted | set(y_axes))
    y, y_axes = _summed(y, y_axes, wanted | set(x_axes))
    batch = [label for label in x_axes if label in y_axes and label in wanted]
    inner = [label for label in x_axes if label in y_axes and label not in wanted]
    rows = [label for label in x_axes if label not in y_axes]
    columns = [label for label in y_axes if label not in x_axes]
    left, right = _ordered(x, x_axes, batch + rows + inner), _ordered(y, y_axes, batch + inner + columns)
    n = len(batch)
    row_sizes, column_sizes = left.shape[n : n + len(rows)], right.shape[n + len(inner) :]
    if not inner:
        left = reshape(left, [*left.shape, *([1] * len(columns))])
        right = reshape(right, [*right.shape[:n], *([1] * len(rows)), *column_sizes])
        return multiply(left, right), batch + rows + columns
    depth = left.shape[n + len(rows) :]
    product = matmul(
        _grouped(left, [*left.shape[:n], math.prod(row_sizes), math.prod(depth)]),
        _grouped(right, [*right.shape[:n], math.prod(depth), math.prod(column_sizes)]),
    )
    return _grouped(product, [*product.shape[:n], *row_sizes, *column_sizes]), batch + rows + columns


def _grouped(x: Tensor, shape: list[Dim]) -> Tensor:
    return x if list(x.shape) == shape else reshape(x, shape)
