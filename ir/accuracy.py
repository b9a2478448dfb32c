"""How exact an op is: a bound on the distance between its result and the exact one, declared with the op.

    @op("tensor.contract", Pure, accuracy=SUM)

For floats of a type whose neighbours of 1 lie `eps` apart, a result `y` of an op on operands `x` is within

    ulp * ulp(y)  +  absolute * eps  +  summed * eps * sqrt(n) * |op(|x|)|

of what the op would give in exact arithmetic. The first part is for functions that round their result, the second for results near 0 of
numbers near 1 (a logarithm of a sum). The third is for sums, in which large terms may cancel: `op(|x|)`, the op on the magnitudes of its
operands, says how large they were, and `n` is how many there are. The square root instead of `n` itself is what rounding errors of either
sign add up to, with all but certainty (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). So the bound does
not depend on the order in which a kernel adds.

Integers, truths and what an op merely moves are exact. `ir/debug/tolerance.py` makes bounds for whole programs from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The factors of the bound above."""

    ulp: float = 0.0
    absolute: float = 0.0
    summed: float = 0.0

    @property
    def is_exact(self) -> bool:
        return self.ulp == self.absolute == self.summed == 0

    def bound(self, result: Array, dtype: ScalarType, magnitude: Any = 0.0, terms: float = 1.0) -> Array:
        """The bound at each element of `result`, values of `dtype` held in any float type, as float64; 0 for types other than floats.

        `magnitude` is what the op gives on the magnitudes of its operands, `terms` the number of terms of a sum.
        """
        if dtype.kind not in "fc" or self.is_exact:
            return np.zeros(np.shape(result))
        with np.errstate(all="ignore"):
            sums = self.summed * math.sqrt(terms) * np.abs(magnitude).astype(np.float64) if self.summed else 0.0
            bound = self.ulp * ulp_of(result, dtype) + eps_of(dtype) * (self.absolute + sums)
            if self == ROUNDED and dtype.name not in ("f64", "complex<f64>"):
                # What needs no rounding is not rounded.
                bound = np.where(np.asarray(result).astype(dtype.np) == result, 0.0, bound)
        return np.where(np.isfinite(bound), bound, 0.0)

    def __str__(self) -> str:
        parts = [f"{self.ulp:g} ulp"] if self.ulp else []
        parts += [f"{self.absolute:g} eps"] if self.absolute else []
        parts += [f"{self.summed:g} eps * sqrt(n) * magnitude"] if self.summed else []
        return " + ".join(parts) or "exact"


EXACT = Accuracy()
ROUNDED = Accuracy(ulp=0.5)
"""The number of the type that is nearest to the exact result."""
SUM = Accuracy(ulp=0.5, summed=2.0)
"""Sums of products in any order, in the result's type or a wider one."""

# Algorithms with fewer multiplications, which a target allows. Who computes by them says what the magnitude is.
STRASSEN_PRODUCT = Accuracy(ulp=0.5, summed=1.0)
INNER_PRODUCT = Accuracy(ulp=0.5, summed=1.5)
"""For a magnitude of |a| |b|, the product of the norms, and for the steps of whole groups as terms."""


def terms_of(operands: Sequence[Any], result: Any) -> float:
    """About how many terms are added up for each element of `result`.

    That is what one operand has too many (a reduction), or two have together: the product of an m x k and a k x n matrix has mk * kn / mn =
    k * k.
    """
    count = max(np.size(result), 1)
    sizes = sorted((np.size(x) for x in operands), reverse=True)
    one = sizes[0] / count if sizes else 1.0
    two = math.sqrt(sizes[0] * sizes[1] / count) if len(sizes) > 1 else 1.0
    return max(one, two, 1.0)


def eps_of(dtype: ScalarType) -> float:
    """The distance between 1 and the next larger number of a float type; for complex numbers that of their parts."""
    digits = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52, "complex<f32>": 23, "complex<f64>": 52}
    return float(2.0 ** -digits[dtype.name])


def ulp_of(values: Any, dtype: ScalarType) -> Array:
    """The distance between neighbours of `dtype` at the size of each of `values`, as float64; not finite where the value is not."""
    least = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022, "complex<f32>": -126, "complex<f64>": -1022}
    size = np.abs(np.asarray(values)).astype(np.float64)
    _, exponent = np.frexp(size)
    spacing = np.ldexp(eps_of(dtype), np.where(size == 0, least[dtype.name], np.maximum(exponent - 1, least[dtype.name])))
    return np.where(np.isfinite(size), spacing, size)
