"""Draws, and dropout. The default generator's state is the program's; one with a `seed` of its own starts from it at every run."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import ScalarType, f32, i64
from polyreme.math.common import cast_to
from polyreme.nn import functional
from polyreme.operators.arguments import Extents, Number, Scalar, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.random import Generator, default_generator
from polyreme.tensor import Tensor

_SHAPE = {"ShapeTensor": "shape", "ShapeTensorList": "shape"}
_LONGS = {"shape": "LONGS"}


def _generator(seed: int) -> Generator:
    return Generator.plain(seed) if seed else default_generator()


@operator("uniform", legacy=spelled("uniform_random", _SHAPE, types=_LONGS, ignored="diag_num diag_step diag_val"), nn=nn.Uniform)
def uniform(
    shape: Extents, min: Number = -1.0, max: Number = 1.0, *, seed: int = 0, dtype: ScalarType | None = f32
) -> Tensor:
    return _generator(seed).uniform(tuple(shape), float(min), float(max), dtype or f32)


@operator("bernoulli", legacy=spelled("bernoulli"))
def bernoulli(x: Tensor) -> Tensor:
    return math.bernoulli(x)


@operator("gaussian", legacy=spelled("gaussian_random", _SHAPE, types=_LONGS))
def gaussian(shape: Extents, *, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: ScalarType | None = f32) -> Tensor:
    return _generator(seed).normal(shape, mean, std, dtype or f32)


@operator("randint", legacy=spelled("randint", _SHAPE, types=_LONGS))
def randint(shape: Extents, *, low: int, high: int, seed: int = 0, dtype: ScalarType | None = i64) -> Tensor:
    return _generator(seed).integers(low, high, shape, dtype or i64)


@operator("randperm", legacy=spelled("randperm", {}, types={"n": "INT"}))
def randperm(*, n: Number, dtype: ScalarType | None = i64) -> Tensor:
    return math.cast(default_generator().permutation(n), dtype or i64)


@operator(
    "dropout",
    legacy=spelled(
        "dropout", {"X": "x", "Seed": "seed_tensor"}, "Out Mask", attributes={"dropout_prob": "p", "dropout_implementation": "mode"}
    ),
)
def dropout(
    x: Tensor,
    seed_tensor: Tensor | None = None,
    p: Scalar = 0.5,
    *,
    is_test: bool = False,
    mode: str = "downgrade_in_infer",
    seed: int = 0,
    fix_seed: bool = False,
) -> tuple[Tensor, None]:
    """In a program for inference only the scaling that the mode asks for; in training by draws of the default generator, or with
    `fix_seed` from `seed`, the same at every run.
    """
    chosen = "downscale_in_infer" if mode in ("downgrade_in_infer", "downscale_in_infer") else mode
    if isinstance(p, Tensor):
        if not is_test:
            raise UnsupportedError("expected a number as 'dropout_prob' where a program trains but it is computed from the model's inputs")
        share = cast_to(math.subtract(dispatch.full((), 1, p.type.dtype), math.reshape(p, [])), x.type.dtype)
        return (math.multiply(x, share) if chosen == "downscale_in_infer" else x), None
    if not 0.0 <= float(p) <= 1.0:
        raise ValueError(f"expected a probability from 0 to 1 as 'dropout_prob' but got {float(p)}")
    if is_test or not (fix_seed and seed):
        return functional.dropout(x, float(p), training=not is_test, mode=chosen), None
    draws = Generator.plain(seed).uniform(x.type.shape, 0.0, 1.0, f32)
    kept = math.greater_equal(draws, dispatch.full((), float(p), f32))
    left = 0.0 if p >= 1.0 else 1.0 / (1.0 - p)
    scaled = math.scale(x, left) if chosen == "upscale_in_train" else x
    return math.multiply(scaled, math.cast(kept, x.type.dtype)), None
