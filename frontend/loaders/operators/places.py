"""Elements at places that other tensors tell: written there, selected by masks, sampled between pixels; and draws, which need no places."""

from __future__ import annotations

from polyreme import math
from polyreme.ir.types import ScalarType, f32, i64
from polyreme.loaders.errors import check_count
from polyreme.loaders.meaning import Number, Sizes, meaning
from polyreme.loaders.operators.shape import MOST_INDICES
from polyreme.nn import functional
from polyreme.random import Generator, default_generator
from polyreme.tensor import Tensor


@meaning()
def scatter(x: Tensor, index: Tensor, updates: Tensor, *, overwrite: bool = True) -> Tensor:
    return math.scatter(x, index, updates, overwrite)


@meaning()
def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return math.scatter_nd_add(x, index, updates)


@meaning()
def put_along_axis(arr: Tensor, indices: Tensor, values: Tensor, *, axis: int, reduce: str = "assign", include_self: bool = True) -> Tensor:
    return math.put_along_axis(arr, indices, values, axis, reduce, include_self, False)


@meaning()
def index_put(x: Tensor, indices: list[Tensor], value: Tensor, *, accumulate: bool = False) -> Tensor:
    return math.index_put(x, indices, value, accumulate)


@meaning()
def index_add(x: Tensor, index: Tensor, add_value: Tensor, *, axis: int = 0) -> Tensor:
    return math.index_add(x, index, axis, add_value)


@meaning()
def nonzero(condition: Tensor) -> Tensor:
    return math.nonzero(condition)


@meaning()
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    return math.masked_select(x, mask)


@meaning()
def diag(x: Tensor, *, offset: int = 0, padding_value: float = 0.0) -> Tensor:
    check_count(x.size, MOST_INDICES, "elements")
    return math.diag(x, offset, padding_value)


@meaning()
def grid_sample(x: Tensor, grid: Tensor, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True) -> Tensor:
    return functional.grid_sample(x, grid, mode, padding_mode, align_corners)


@meaning()
def affine_grid(input: Tensor, output_shape: Sizes, *, align_corners: bool = True) -> Tensor:
    return functional.affine_grid(input, output_shape, align_corners)


@meaning()
def gaussian(shape: Sizes, *, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: ScalarType | None = f32) -> Tensor:
    """Draws of the default generator, or of one that starts from a `seed` other than 0 at every run."""
    return _generator(seed).normal(shape, mean, std, dtype or f32)


@meaning()
def randint(shape: Sizes, *, low: int, high: int, seed: int = 0, dtype: ScalarType | None = i64) -> Tensor:
    return _generator(seed).integers(low, high, shape, dtype or i64)


@meaning()
def randperm(*, n: Number, dtype: ScalarType | None = i64) -> Tensor:
    return math.cast(default_generator().permutation(n), dtype or i64)


def _generator(seed: int) -> Generator:
    return Generator.plain(seed) if seed else default_generator()
