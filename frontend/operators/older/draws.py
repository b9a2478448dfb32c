"""Draws of operators before Paddle 2."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import ScalarType, f32, i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.create import full_batch_size_like
from polyreme.operators.definition import operator, spelled
from polyreme.random import Generator, default_generator
from polyreme.tensor import Tensor


def _generator(seed: int) -> Generator:
    return Generator.plain(seed) if seed else default_generator()


def _sizes(input: Tensor, shape: Sizes, input_dim_idx: int, output_dim_idx: int) -> tuple[Dim, ...]:
    made, _ = full_batch_size_like(input, shape=shape, input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx)
    return made.type.shape


_LIKE = {"Input": "input"}


@operator(legacy=spelled("uniform_random_batch_size_like", _LIKE, ignored="diag_num diag_step diag_val"))
def uniform_random_batch_size_like(
    input: Tensor, *, shape: Sizes, input_dim_idx: int = 0, output_dim_idx: int = 0,
    min: float = -1.0, max: float = 1.0, seed: int = 0, dtype: ScalarType | None = f32,
) -> Tensor:  # fmt: skip
    """Draws from [min, max), with one size that is the input's."""
    return _generator(seed).uniform(_sizes(input, shape, input_dim_idx, output_dim_idx), min, max, dtype or f32)


@operator(legacy=spelled("gaussian_random_batch_size_like", _LIKE))
def gaussian_random_batch_size_like(
    input: Tensor, *, shape: Sizes, input_dim_idx: int = 0, output_dim_idx: int = 0,
    mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: ScalarType | None = f32,
) -> Tensor:  # fmt: skip
    """Draws of a normal distribution, with one size that is the input's."""
    return _generator(seed).normal(_sizes(input, shape, input_dim_idx, output_dim_idx), mean, std, dtype or f32)


@operator(legacy=spelled("sampling_id"))
def sampling_id(x: Tensor, *, min: float = 0.0, max: float = 1.0, seed: int = 0) -> Tensor:
    """A column for each row of shares, drawn by them, int64 [N]: the first whose running sum is above a number drawn from
    [min, max).
    """
    if x.ndim != 2:
        raise UnsupportedError(f"expected shares [N, classes] for 'sampling_id' but got the shape {list(x.shape)}")
    x = x.detach()
    number = cast_to(_generator(seed).uniform((x.type.shape[0], 1), min, max, f32), x.type.dtype)
    passed = math.less_equal(dispatch.call(nn.Cumsum, x, axis=1), number)
    last = dispatch.full((), x.type.shape[1], i64) - 1
    return math.minimum(math.sum(cast_to(passed, i64), [1]), last)


@operator(legacy=spelled("random_crop", {"X": "x", "Seed": "seed"}, "Out SeedOut"))
def random_crop(x: Tensor, seed: Tensor | None = None, *, shape: Sizes, startup_seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """A part of each example, of the shape of the last axes, from a place that is drawn for each."""
    kept = x.ndim - len(shape)
    if not 0 < kept < x.ndim + 1:
        raise UnsupportedError(f"expected fewer sizes than {x.ndim} for 'random_crop' but got {list(shape)}")
    batch = x.type.shape[:kept]
    lists = math.reshape(x, [-1, *x.type.shape[kept:]])
    count = lists.type.shape[0]
    made = lists
    for axis, size in enumerate(shape, 1):
        extent = lists.type.shape[axis]
        spare = dispatch.full((), extent - size + 1, f32)
        start = cast_to(math.floor(default_generator().uniform((count,), 0.0, 1.0, f32) * spare), i64)
        start = math.minimum(start, dispatch.full((), extent - size, i64))
        place = math.unsqueeze(start, 1) + dispatch.call(nn.Iota, shape=(1, size), axis=1, dtype=i64)
        place = math.reshape(place, [count, *(size if i == axis else 1 for i in range(1, lists.ndim))])
        wanted = [size if i == axis else d for i, d in enumerate(made.type.shape)]
        made = math.take_along_axis(made, math.broadcast_to(place, wanted), axis, broadcast=False)
    return math.reshape(made, [*batch, *shape]), seed
