"""Rows that go one of two ways, as a mask says, and come together again."""

from __future__ import annotations

from polyreme import math
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


def _places(mask: Tensor, way: bool) -> Tensor:
    """Where the rows that go this way stand. A mask with more than one element in a row is a ValueError."""
    if any(size != 1 for size in mask.type.shape[1:]):
        raise ValueError(f"expected a mask with one element for each row, [N, 1], but got the shape {list(mask.shape)}")
    flat = math.reshape(mask, [-1])
    return math.reshape(math.nonzero(flat if way else math.logical_not(flat)), [-1])


@operator(legacy=spelled("split_lod_tensor", {"X": "x", "Mask": "mask"}, "OutTrue OutFalse", ignored="level"))
def split_rows(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The rows where the mask [N, 1] holds, and the others."""
    return math.gather(x, _places(mask, True), 0), math.gather(x, _places(mask, False), 0)


@operator(
    legacy=spelled("merge_lod_tensor", {"X": "like", "Mask": "mask", "InTrue": "first", "InFalse": "second"}, ignored="level")
)
def merge_rows(mask: Tensor, first: Tensor, second: Tensor, like: Tensor | None = None) -> Tensor:
    """Rows in the order of the mask: from `first` where it holds, else from `second`."""
    order = math.argsort(math.concat([_places(mask, True), _places(mask, False)], 0))
    return math.gather(math.concat([first, second], 0), order, 0)
