"""`fluid.initializer`: what fills parameters first. Called with a variable of a startup program, one appends the operator that does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyreme.dialects import minimal_standard
from polyreme.ir.types import ScalarType, f32
from polyreme.names import listed
from polyreme.nn import initializer as init
from polyreme.static.current import default_main_program
from polyreme.static.startup import initialize
from polyreme.static.variable import named_variable
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = [
    "Bilinear", "BilinearInitializer", "Constant", "ConstantInitializer", "Initializer", "MSRA", "MSRAInitializer", "Normal",
    "NormalInitializer", "NumpyArrayInitializer", "TruncatedNormal", "TruncatedNormalInitializer", "Uniform", "UniformInitializer",
    "Xavier", "XavierInitializer", "force_init_on_cpu", "init_on_cpu",
]  # fmt: skip


class _Seeded:
    """Draws from one seed, as operators of Paddle 1 draw when they are given one: each time from its first number on."""

    def __init__(self, seed: int):
        self.seed = seed

    def uniform(self, shape: Any, low: float, high: float, dtype: ScalarType) -> Tensor:
        return Tensor._wrap(minimal_standard.uniform(self.seed, math.prod(shape), low, high, dtype.np).reshape(shape))

    def normal(self, shape: Any, mean: float, std: float, dtype: ScalarType) -> Tensor:
        return Tensor._wrap(minimal_standard.normal(self.seed, math.prod(shape), mean, std, dtype.np).reshape(shape))


class Initializer(init.Initializer):
    """Makes the values of a parameter. `seed` other than 0, or else a program's `random_seed`, makes them the same at every run: those of
    Paddle 1.
    """

    seed = 0

    def drawn_after(self, seed: int) -> Any:
        seed = seed or self.seed or default_main_program().random_seed
        return _Seeded(seed) if seed else None

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        """What Paddle calls the operator that fills a parameter of this shape, and its attributes."""
        raise NotImplementedError

    def __call__(self, param: Any, block: Any = None) -> Any:
        variable = named_variable(param)
        if variable is None:
            super().__call__(param)
            return None
        return initialize(variable, self, block or variable.block)


class ConstantInitializer(Initializer, init.Constant):
    """All `value`."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False):
        init.Constant.__init__(self, value)
        self.force_cpu = force_cpu

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        return "fill_constant", {"value": float(self.value), "force_cpu": self.force_cpu}


class UniformInitializer(Initializer, init.Uniform):
    """Uniform in [low, high); of a matrix, `diag_num` elements of the diagonal are then `diag_val`, one every `diag_step` rows."""

    def __init__(
        self, low: float = -1.0, high: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0
    ):
        init.Uniform.__init__(self, low, high)
        self.seed, self.diag_num, self.diag_step, self.diag_val = seed, diag_num, diag_step, diag_val

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        diagonal = {"diag_num": self.diag_num, "diag_step": self.diag_step, "diag_val": float(self.diag_val)}
        return "uniform_random", {"min": float(self.low), "max": float(self.high), **diagonal}

    def values(self, shape: Any, dtype: ScalarType) -> Tensor:
        made = super().values(shape, dtype)
        if not self.diag_num:
            return made
        array = made.numpy().reshape(shape[0], -1)
        for i in range(self.diag_num):
            place = i * self.diag_step + i
            if place >= array.size or i >= array.shape[0]:
                raise ValueError(f"expected at most {min(array.shape)} elements of a diagonal of {list(shape)} but got {self.diag_num}")
            array.reshape(-1)[i * array.shape[1] + place] = self.diag_val
        return Tensor._wrap(array.reshape(shape))


class NormalInitializer(Initializer, init.Normal):
    """Normal with mean `loc` and deviation `scale`."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        init.Normal.__init__(self, loc, scale)
        self.seed = seed

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        return "gaussian_random", {"mean": float(self.mean), "std": float(self.std)}


class TruncatedNormalInitializer(Initializer, init.TruncatedNormal):
    """Normal, within two deviations of the mean."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        init.TruncatedNormal.__init__(self, loc, scale, loc - 2.0 * scale, loc + 2.0 * scale)
        self.seed = seed

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        return "truncated_gaussian_random", {"mean": float(self.mean), "std": float(self.std)}


class _Scaled(Initializer):
    """Uniform or normal, as wide as the number of values that go into (and out of) an element says."""

    uniform: bool

    def deviation(self, shape: Any) -> float:
        raise NotImplementedError

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        deviation = self.deviation(shape)
        if self.uniform:
            limit = math.sqrt(3.0) * deviation
            return "uniform_random", {"min": -limit, "max": limit, "diag_num": 0, "diag_step": 0, "diag_val": 1.0}
        return "gaussian_random", {"mean": 0.0, "std": deviation}

    def values(self, shape: Any, dtype: ScalarType) -> Tensor:
        deviation = self.deviation(shape)
        if self.uniform:
            limit = math.sqrt(3.0) * deviation
            return init.draw_uniform(shape, -limit, limit, dtype)
        return init.draw_normal(shape, 0.0, deviation, dtype)


def _check_settings(uniform: Any, seed: Any) -> None:
    if uniform is None or seed is None:
        raise ValueError(f"expected a bool as uniform and a whole number as seed but got {uniform!r} and {seed!r}")


class XavierInitializer(_Scaled):
    """Glorot and Bengio: a variance of 2 / (fan_in + fan_out). Uniform, or normal."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0):
        _check_settings(uniform, seed)
        self.uniform, self.fan_in, self.fan_out, self.seed = uniform, fan_in, fan_out, seed

    def deviation(self, shape: Any) -> float:
        fan_in, fan_out = init.fans(shape)
        total = (fan_in if self.fan_in is None else self.fan_in) + (fan_out if self.fan_out is None else self.fan_out)
        return math.sqrt(2.0 / float(total or 1))


class MSRAInitializer(_Scaled):
    """He et al.: a variance of 2 / fan_in. Uniform, or normal."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0):
        _check_settings(uniform, seed)
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def deviation(self, shape: Any) -> float:
        return math.sqrt(2.0 / float((init.fans(shape)[0] if self.fan_in is None else self.fan_in) or 1))


class BilinearInitializer(Initializer):
    """The weights [channels, 1, k, k] of a transposed convolution that interpolates linearly."""

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        values = self.values(tuple(shape), f32).numpy().reshape(-1).tolist()
        return "assign_value", {"fp32_values": values}

    def values(self, shape: Any, dtype: ScalarType) -> Tensor:
        if len(shape) != 4:
            raise ValueError("the length of shape must be 4.")
        if shape[2] != shape[3]:
            raise ValueError("shape[2] must be equal to shape[3].")
        size = int(shape[3])
        factor = math.ceil(size / 2.0)
        middle = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        line = 1 - np.abs(np.arange(size) / factor - middle)
        return Tensor._wrap(np.broadcast_to(np.outer(line, line), shape).astype(dtype.np))


class NumpyArrayInitializer(Initializer, init.Assign):
    """The values of an array."""

    def __init__(self, value: Any):
        if not isinstance(value, np.ndarray):
            raise TypeError(f"expected an array but got {type(value).__name__}")
        init.Assign.__init__(self, value)

    def operator(self, shape: Any) -> tuple[str, dict[str, Any]]:
        key = "int32_values" if self.value.dtype == np.int32 else "fp32_values"
        return "assign_value", {key: self.value.reshape(-1).tolist()}


Constant, Uniform, Normal, TruncatedNormal = ConstantInitializer, UniformInitializer, NormalInitializer, TruncatedNormalInitializer
Xavier, MSRA, Bilinear = XavierInitializer, MSRAInitializer, BilinearInitializer


def force_init_on_cpu() -> bool:
    """Whether parameters are filled in main memory: always."""
    return True


class init_on_cpu(Shown):  # noqa: N801
    """A `with` that changes nothing: parameters are filled in main memory."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


__dir__ = listed(__name__)
