"""Distributions, whose parameters are numbers, arrays or variables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.fluid.layers.elementwise import elementwise_add, elementwise_pow, elementwise_sub, less_than
from polyreme.fluid.layers.nn import gaussian_random, matmul, reduce_max, reduce_prod, reduce_sum, reshape, uniform_random
from polyreme.fluid.layers.nn import shape as layers_shape
from polyreme.fluid.layers.ops import exp, log
from polyreme.fluid.layers.places import uniform_random_batch_size_like
from polyreme.fluid.layers.tensor import assign, cast, diag, fill_constant_batch_size_like, ones, zeros
from polyreme.names import listed
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["Categorical", "MultivariateNormalDiag", "Normal", "Uniform"]


def _variables(*values: Any, numbers: bool = True) -> list[Any]:
    """Parameters as float32 variables of one shape, or as they are where they are variables."""
    kinds = (Tensor, np.ndarray, list, *((float,) if numbers else ()))
    for value in values:
        if not isinstance(value, kinds):
            raise TypeError(f"expected the parameters of a distribution as {kinds} but got {type(value)}")
    if any(isinstance(value, Tensor) for value in values):
        if not all(isinstance(value, Tensor) for value in values):
            raise ValueError("if one argument is Variable, all arguments should be Variable")
        return list(values)
    arrays = [np.array([value] if isinstance(value, float) else value) for value in values]
    for i, array in enumerate(arrays):
        if array.dtype not in (np.float32, np.float64):
            raise TypeError(f"data type of argument only support float but got {array.dtype}")
        if array.dtype != np.float32:
            warnings.warn("data type of argument only support float32, your argument will be convert to float32.", stacklevel=3)
            arrays[i] = array.astype(np.float32)
    size = np.broadcast_shapes(*(array.shape for array in arrays))
    return [assign(np.ascontiguousarray(np.broadcast_to(array, size))) for array in arrays]


class Distribution(Shown):
    """What all distributions have."""

    def sample(self, shape: Sequence[int], seed: int = 0) -> Any:
        """Draws, as many as `shape` says."""
        raise NotImplementedError(f"expected a distribution that defines sample() but got {type(self).__name__}")

    def entropy(self) -> Any:
        """How uncertain draws are."""
        raise NotImplementedError(f"expected a distribution that defines entropy() but got {type(self).__name__}")

    def kl_divergence(self, other: Any) -> Any:
        """How much another distribution of the kind differs."""
        raise NotImplementedError(f"expected a distribution that defines kl_divergence() but got {type(self).__name__}")

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        raise NotImplementedError(f"expected a distribution that defines log_prob() but got {type(self).__name__}")


def _check_draw(shape: Any, seed: Any) -> None:
    if not isinstance(shape, list) or not isinstance(seed, int):
        raise TypeError(f"expected a list as the shape and an int as the seed of a sample but got {type(shape)} and {type(seed)}")


class _OfTwo(Distribution):
    """A distribution by two parameters."""

    def __init__(self, first: Any, second: Any):
        self.batch_size_unknown = isinstance(first, Tensor) or isinstance(second, Tensor)
        self.all_arg_is_float = isinstance(first, float) and isinstance(second, float)
        self._given = _variables(first, second)

    def _sizes(self, drawn: list[int]) -> tuple[list[int], list[int]]:
        own = list((self._given[0] + self._given[1]).shape)
        return own, drawn + own


class Uniform(_OfTwo):
    """Draws from [low, high)."""

    def __init__(self, low: Any, high: Any):
        super().__init__(low, high)
        self.low, self.high = self._given

    def sample(self, shape: Any, seed: int = 0) -> Any:
        """[*shape, *own shape]; `shape` where the parameters are numbers. As in Paddle draws of parameters that are no variables are from
        [2 * low - high, high).
        """
        _check_draw(shape, seed)
        own, wanted = self._sizes(shape)
        if self.batch_size_unknown:
            none = fill_constant_batch_size_like(self.low + self.high, own + shape, self.low.dtype, 0.0)
            drawn = uniform_random_batch_size_like(none, none.shape, min=0.0, max=1.0, seed=seed)
            width = elementwise_sub(elementwise_add(none, self.high, axis=0), self.low, axis=0)
            return reshape(elementwise_add(drawn * width, self.low, axis=0), wanted)
        made = uniform_random(wanted, seed=seed) * (zeros(wanted, self.low.dtype) + (self.high - self.low)) + self.low
        return reshape(made, shape) if self.all_arg_is_float else made

    def log_prob(self, value: Any) -> Any:
        """-log(high - low) within the bounds, -inf outside."""
        above, below = (cast(part, value.dtype) for part in (less_than(self.low, value), less_than(value, self.high)))
        return log(above * below) - log(self.high - self.low)

    def entropy(self) -> Any:
        """log(high - low)."""
        return log(self.high - self.low)


class Normal(_OfTwo):
    """Draws around `loc` with the standard deviation `scale`."""

    def __init__(self, loc: Any, scale: Any):
        super().__init__(loc, scale)
        self.loc, self.scale = self._given

    def sample(self, shape: Any, seed: int = 0) -> Any:
        """[*shape, *own shape]; `shape` where the parameters are numbers."""
        _check_draw(shape, seed)
        own, wanted = self._sizes(shape)
        if self.batch_size_unknown:
            none = fill_constant_batch_size_like(self.loc + self.scale, own + shape, self.loc.dtype, 0.0)
            drawn = gaussian_random(layers_shape(none), mean=0.0, std=1.0, seed=seed)
            return reshape(elementwise_add(drawn * elementwise_add(none, self.scale, axis=0), self.loc, axis=0), wanted)
        made = gaussian_random(wanted, mean=0.0, std=1.0, seed=seed) * (zeros(wanted, self.loc.dtype) + self.scale) + self.loc
        return reshape(made, shape) if self.all_arg_is_float else made

    def entropy(self) -> Any:
        """0.5 + 0.5 log(2 pi) + log(scale)."""
        own, _ = self._sizes([])
        none = fill_constant_batch_size_like(self.loc + self.scale, own, self.loc.dtype, 0.0)
        return 0.5 + 0.5 * math.log(2 * math.pi) + log(self.scale + none)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at `value`."""
        apart = value - self.loc
        return -1.0 * (apart * apart) / (2.0 * (self.scale * self.scale)) - log(self.scale) - math.log(math.sqrt(2.0 * math.pi))

    def kl_divergence(self, other: Any) -> Any:
        """0.5 * (ratio + distance - 1 - log(ratio)), of the squares of scale / scale and of the distance over the other's scale."""
        if not isinstance(other, Normal):
            raise TypeError(f"expected a Normal as the other distribution but got {type(other)}")
        ratio, apart = self.scale / other.scale, (self.loc - other.loc) / other.scale
        ratio = ratio * ratio
        return 0.5 * (ratio + apart * apart - 1.0 - log(ratio))


class Categorical(Distribution):
    """A class, by the logits of all of them."""

    def __init__(self, logits: Any):
        (self.logits,) = _variables(logits, numbers=False)

    def _shares(self) -> tuple[Any, Any]:
        """The logits less the greatest one, and the sum of their exponentials."""
        logits = self.logits - reduce_max(self.logits, dim=-1, keep_dim=True)
        return logits, reduce_sum(exp(logits), dim=-1, keep_dim=True)

    def kl_divergence(self, other: Any) -> Any:
        """The sum of share * log(share / other's share), [..., 1]."""
        if not isinstance(other, Categorical):
            raise TypeError(f"expected a Categorical as the other distribution but got {type(other)}")
        (logits, total), (others, other_total) = self._shares(), other._shares()
        return reduce_sum(exp(logits) / total * (logits - log(total) - others + log(other_total)), dim=-1, keep_dim=True)

    def entropy(self) -> Any:
        """The sum of -share * log(share), [..., 1]."""
        logits, total = self._shares()
        return -1.0 * reduce_sum(exp(logits) / total * (logits - log(total)), dim=-1, keep_dim=True)


class MultivariateNormalDiag(Distribution):
    """Vectors around `loc` [k] with the diagonal matrix `scale` [k, k] of variances."""

    def __init__(self, loc: Any, scale: Any):
        # Of arrays `loc` gets the shape of `scale`, as in Paddle; of variables it stays as it is.
        self.loc, self.scale = _variables(loc, scale, numbers=False)

    def _parts(self, matrix: Any) -> tuple[Any, Any]:
        """Ones everywhere, and ones on the diagonal."""
        return ones(list(matrix.shape), self.loc.dtype), diag(ones([matrix.shape[0]], self.loc.dtype))

    def _determinant(self, matrix: Any) -> Any:
        everywhere, diagonal = self._parts(matrix)
        return reduce_prod(matrix + everywhere - diagonal)

    def _inverse(self, matrix: Any) -> Any:
        everywhere, diagonal = self._parts(matrix)
        return elementwise_pow(matrix, everywhere - 2 * diagonal)

    def entropy(self) -> Any:
        """0.5 * (k * (1 + log(2 pi)) + log(determinant))."""
        return 0.5 * (self.scale.shape[0] * (1.0 + math.log(2 * math.pi)) + log(self._determinant(self.scale)))

    def kl_divergence(self, other: Any) -> Any:
        """0.5 * (trace + distance - k + log of the determinants' ratio)."""
        if not isinstance(other, MultivariateNormalDiag):
            raise TypeError(f"expected a MultivariateNormalDiag as the other distribution but got {type(other)}")
        inverse = self._inverse(other.scale)
        apart = other.loc - self.loc
        distance = matmul(matmul(apart, inverse), apart)
        ratio = log(self._determinant(other.scale)) - log(self._determinant(self.scale))
        return 0.5 * (reduce_sum(inverse * self.scale) + distance - self.scale.shape[0] + ratio)


__dir__ = listed(__name__)
