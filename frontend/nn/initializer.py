"""How parameters get their first values, with Paddle's own defaults and, after `paddle.seed`, its own numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.dtypes import as_dtype
from polyreme.ir.dims import product
from polyreme.ir.types import ScalarType
from polyreme.names import listed
from polyreme.random import Generator, default_generator, drawing_from
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = [
    "Assign", "Constant", "Dirac", "Initializer", "KaimingNormal", "KaimingUniform", "Normal", "Orthogonal", "TruncatedNormal", "Uniform",
    "Xavier", "XavierNormal",
    "XavierUniform", "calculate_gain", "set_global_initializer",
]  # fmt: skip

Shape = tuple[int, ...]


class Initializer(Shown):
    """Makes the values of a parameter from its shape and dtype; called with a tensor, it fills that."""

    def __call__(self, param: Tensor, block: Any = None) -> None:
        param._replace(initial(self, param.shape, param.dtype))

    def drawn_after(self, seed: int) -> Any:
        """The generator that values are drawn from if `seed` is not 0; None for the program's."""
        return Generator.plain(seed) if seed else None

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        raise NotImplementedError


def draw_uniform(shape: Shape, low: float, high: float, dtype: ScalarType) -> Tensor:
    """Uniform in [low, high), both rounded to float32, as Paddle keeps them: float64 parameters show it."""
    with tape.recording(False):
        return default_generator().uniform(shape, float(np.float32(low)), float(np.float32(high)), dtype)


def draw_normal(shape: Shape, mean: float, std: float, dtype: ScalarType) -> Tensor:
    """Normal with this mean and deviation, both rounded to float32, as Paddle keeps them."""
    return default_generator().normal(shape, float(np.float32(mean)), float(np.float32(std)), dtype)


class Constant(Initializer):
    """All `value`."""

    def __init__(self, value: float = 0.0):
        if value is None:
            raise ValueError("Constant expected a value but got None")
        self.value = value

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        return Tensor._wrap(np.full(shape, self.value, dtype.np))


class Assign(Initializer):
    """The values of an array, list or tensor of the parameter's shape."""

    def __init__(self, value: Any, name: str | None = None):
        self.value = value.numpy() if isinstance(value, Tensor) else np.asarray(value)

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        if self.value.size != product(shape):
            raise ValueError(f"Assign expected values for the shape {list(shape)} but got shape {list(self.value.shape)}")
        return Tensor._wrap(self.value.reshape(shape).astype(dtype.np))


class Uniform(Initializer):
    """Uniform in [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None):
        self.low, self.high = low, high

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        return draw_uniform(shape, self.low, self.high, dtype)


class Normal(Initializer):
    """Normal with the given mean and standard deviation."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None):
        self.mean, self.std = mean, std

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        return draw_normal(shape, self.mean, self.std, dtype)


class TruncatedNormal(Initializer):
    """Normal, held within mean + [a, b] * std by drawing the probability uniformly between theirs."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, name: str | None = None):
        self.mean, self.std, self.a, self.b = mean, std, a, b

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        if self.std == 0:
            return Tensor._wrap(np.full(shape, self.mean, dtype.np))
        normal = NormalDist()
        # Paddle takes a and b as bounds of the result.
        low, high = (normal.cdf((v - self.mean) / self.std) for v in (self.a, self.b))
        tiny = float(np.finfo(np.float32).tiny)
        draws = draw_uniform(shape, tiny, 1.0, dtype)._array("TruncatedNormal").astype(np.float64)
        inverse = np.vectorize(normal.inv_cdf, otypes=[np.float64])
        values = inverse(low + (high - low) * draws) * self.std + self.mean if draws.size else draws
        return Tensor._wrap(values.astype(dtype.np))


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many values go into and come out of one element: [in, out] matrices, [out, in, *kernel] filters."""
    if len(shape) == 0:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    window = int(product(shape[2:]))
    return shape[1] * window, shape[0] * window


class XavierUniform(Initializer):
    """Uniform within ±gain * sqrt(6 / (fan_in + fan_out)): the default of weights."""

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, gain: float = 1.0, name: str | None = None):
        self.fan_in, self.fan_out, self.gain = fan_in, fan_out, gain

    def total(self, shape: Shape) -> float:
        fan_in, fan_out = fans(shape)
        # Of a parameter without elements both may be 0, and any total will do.
        return (fan_in if self.fan_in is None else self.fan_in) + (fan_out if self.fan_out is None else self.fan_out) or 1.0

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        limit = self.gain * math.sqrt(6.0 / float(self.total(shape)))
        return draw_uniform(shape, -limit, limit, dtype)


class XavierNormal(XavierUniform):
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out))."""

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        return draw_normal(shape, 0.0, self.gain * math.sqrt(2.0 / float(self.total(shape))), dtype)


class KaimingUniform(Initializer):
    """Uniform within ±gain * sqrt(3 / fan), the gain being that of the nonlinearity that follows."""

    def __init__(self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu", mode: str = "fan_in"):
        if mode not in ("fan_in", "fan_out"):
            raise ValueError(f"expected mode to be 'fan_in' or 'fan_out' but got {mode!r}")
        self.fan_in, self.negative_slope, self.nonlinearity, self.mode = fan_in, negative_slope, nonlinearity, mode

    def deviation(self, shape: Shape) -> float:
        """Of the values to draw."""
        fan = float(self.fan_in) if self.fan_in is not None else float(fans(shape)[self.mode == "fan_out"])
        return calculate_gain(self.nonlinearity, self.negative_slope) / math.sqrt(fan)

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        limit = math.sqrt(3.0) * self.deviation(shape)
        return draw_uniform(shape, -limit, limit, dtype)


class Xavier(Initializer):
    """Glorot's initialization by its older name: `XavierUniform`, or `XavierNormal` for `uniform=False`. A seed other than 0 is not taken.
    """

    def __init__(self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0):
        if seed != 0:
            raise ValueError(f"Xavier expected seed=0 (paddle.seed is for all draws) but got {seed}")
        self._chosen: Initializer = XavierUniform(fan_in, fan_out) if uniform else XavierNormal(fan_in, fan_out)

    def __repr__(self) -> str:
        return repr(self._chosen)

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        return self._chosen.values(shape, dtype)


class KaimingNormal(KaimingUniform):
    """Normal with standard deviation gain / sqrt(fan)."""

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        return draw_normal(shape, 0.0, self.deviation(shape), dtype)


class Orthogonal(Initializer):
    """Rows (or columns, whichever are fewer) at right angles to each other, of length `gain`; axes after the first count as one."""

    def __init__(self, gain: float = 1.0, name: str | None = None):
        self.gain = gain

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        if len(shape) < 2:
            raise ValueError(f"Orthogonal expected a parameter of at least 2 axes but got shape {list(shape)}")
        rows, columns = shape[0], int(product(shape[1:]))
        flat = draw_normal((max(rows, columns), min(rows, columns)), 0.0, 1.0, dtype)._array("Orthogonal")
        q, r = np.linalg.qr(flat)
        q = q * np.sign(np.diag(r))
        return Tensor._wrap((self.gain * (q.T if rows < columns else q)).reshape(shape).astype(dtype.np))


class Dirac(Initializer):
    """Convolution filters [out, in, *kernel] that pass their input channels on unchanged, in each of `groups`."""

    def __init__(self, groups: int = 1, name: str | None = None):
        if groups < 1:
            raise AssertionError(f"Dirac expected groups of at least 1 but got {groups}")
        self.groups = groups

    def values(self, shape: Shape, dtype: ScalarType) -> Tensor:
        if not 3 <= len(shape) <= 5 or shape[0] % self.groups:
            raise ValueError(
                f"Dirac expected a filter of 3 to 5 axes whose first size {self.groups} groups divide but got shape {list(shape)}"
            )
        values = np.zeros(shape, dtype.np)
        each = shape[0] // self.groups
        for group in range(self.groups):
            for i in range(min(each, shape[1])):
                values[(group * each + i, i, *(n // 2 for n in shape[2:]))] = 1
        return Tensor._wrap(values)


_GAINS = {
    "sigmoid": 1,
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv1d_transpose": 1,
    "conv2d_transpose": 1,
    "conv3d_transpose": 1,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much to widen the values so that the nonlinearity keeps the variance."""
    gains = _GAINS | {
        "tanh": 5.0 / 3,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2)),
        "selu": 3.0 / 4,
    }
    if nonlinearity not in gains:
        raise ValueError(f"expected a nonlinearity of {', '.join(gains)} but got {nonlinearity!r}")
    return gains[nonlinearity]


_global_weight: Initializer | None = None
_global_bias: Initializer | None = None


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """The initializers of parameters that name none themselves; None restores Paddle's."""
    global _global_weight, _global_bias
    for value in (weight_init, bias_init):
        if value is not None and not isinstance(value, Initializer):
            raise TypeError(f"expected an initializer or None but got {type(value).__name__}")
    _global_weight, _global_bias = weight_init, bias_init


def global_initializer(is_bias: bool) -> Initializer | None:
    return _global_bias if is_bias else _global_weight


def initial(initializer: Any, shape: Sequence[int], dtype: Any, seed: int = 0) -> Tensor:
    """Values from an `Initializer`, or from a function that fills the tensor it is given; the same ones after each `seed` other than 0."""
    scalar = as_dtype(dtype).scalar
    if isinstance(initializer, Initializer):
        with drawing_from(initializer.drawn_after(seed)):
            return initializer.values(tuple(shape), scalar)
    tensor = Tensor._wrap(np.zeros(tuple(shape), scalar.np))
    with drawing_from(Generator.plain(seed) if seed else None):
        initializer(tensor)
    return tensor


__dir__ = listed(__name__)
