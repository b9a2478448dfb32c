"""The op `tensor.contract`: products of two tensors, summed over the axes that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import check_same_dtype
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.types import ScalarType, TensorType, i8, i16, i32, u8

__all__ = ["Contract", "ContractSpec", "contract_arrays"]


class ContractSpec:
    """A parsed `spec`: `a`, `b` and `out` are strings of letters, one per axis.

    `batch` letters stand in all three, `contracted` ones in both operands only, `free_a` and `free_b` in one operand and the result; each
    in the order of the first string that has them.
    """

    def __init__(self, spec: str):
        inputs, arrow, self.out = spec.replace(" ", "").partition("->")
        self.a, comma, self.b = inputs.partition(",")
        check_attr(bool(arrow) and bool(comma), f"expected a spec such as 'mk,kn->mn' but got {spec!r}")
        for letters in (self.a, self.b, self.out):
            plain = letters.isalpha() and letters.isascii() or not letters
            check_attr(
                plain and len(set(letters)) == len(letters),
                f"expected each axis as one letter, none twice, but got {letters!r} in {spec!r}",
            )
        self.batch = "".join(c for c in self.a if c in self.b and c in self.out)
        self.contracted = "".join(c for c in self.a if c in self.b and c not in self.out)
        self.free_a = "".join(c for c in self.a if c not in self.b)
        self.free_b = "".join(c for c in self.b if c not in self.a)
        expected = set(self.batch + self.free_a + self.free_b)
        check_attr(set(self.out) == expected, f"expected the result's letters to be those of one operand or of all three but got {spec!r}")

    def sizes(self, a: Sequence[Any], b: Sequence[Any]) -> dict[str, Any]:
        """Size by letter, from the operands' shapes."""
        return {**dict(zip(self.b, b, strict=True)), **dict(zip(self.a, a, strict=True))}


@op("tensor.contract", Pure, accuracy=SUM)
class Contract(Op):
    """Products summed over shared axes, in einsum letters: matrix products, batches of them, convolutions over windows.

        %z = tensor.contract %x, %y {spec = "mk,kn->mn"} : tensor<Nx3xf32>      // %x: tensor<Nx4xf32>, %y: tensor<4x3xf32>

    A letter per axis, none twice in an operand. Letters in both operands but not in the result are summed over; one that the result lacks
    stands in both operands. Over no elements the sum is 0. Element types are equal; 16-bit floats add up in float32. `spec` names the axes
    of `a`, those of `b` and those of the result. With `dtype = i32` the operands are integers of 8 bits, with a sign or without, each as it
    likes, or such numbers in 16 bits (none beyond 255 either way): products and sums are taken in 32 bits, and the result has them.
    """

    a = operand()
    b = operand()
    spec = attr(str)
    dtype = attr(ScalarType, default=None)

    @staticmethod
    def infer(a: TensorType, b: TensorType, *, spec: str, dtype: ScalarType | None = None) -> TensorType:
        parsed = ContractSpec(spec)
        check_attr(len(parsed.a) == a.rank and len(parsed.b) == b.rank, f"expected a spec for ranks {a.rank} and {b.rank} but got {spec!r}")
        if dtype is None:
            check_same_dtype([a, b])
            check_type(a.dtype.kind in "fiuc", f"expected numbers but got {a.dtype}")
        else:
            check_attr(dtype == i32, f"expected no 'dtype', or i32 for sums of products of 8-bit and 16-bit integers, but got {dtype}")
            for x in (a, b):
                check_type(x.dtype in (i8, u8, i16), f"expected operands of i8, u8 or i16 for sums in {dtype} but got {x.dtype}")
        sizes = parsed.sizes(a.shape, b.shape)
        for letter, size in zip(parsed.b, b.shape, strict=True):
            check(sizes[letter] == size, f"expected equal sizes for '{letter}' of {spec!r} but got {sizes[letter]} and {size}")
        return TensorType(tuple(sizes[c] for c in parsed.out), dtype or a.dtype)

    @staticmethod
    def reference(a: Array, b: Array, *, spec: str, dtype: ScalarType | None = None) -> Array:
        if dtype is not None:
            for x in (a, b):
                check(
                    x.dtype != np.int16 or not x.size or (-255 <= x.min() and x.max() <= 255),
                    "expected numbers from -255 to 255 in 16 bits",
                )
            a, b = a.astype(dtype.np), b.astype(dtype.np)
        return contract_arrays(a, b, spec)


def contract_arrays(a: Array, b: Array, spec: str) -> Array:
    """`tensor.contract` on numpy, by way of one batched matrix product."""
    s = ContractSpec(spec)
    sizes = s.sizes(a.shape, b.shape)
    dtype = a.dtype
    if dtype.kind == "V" or dtype == np.float16:
        a, b = a.astype(np.float32), b.astype(np.float32)

    def matrices(x: Array, letters: str, *groups: str) -> Array:
        x = x.transpose([letters.index(c) for group in groups for c in group])
        return x.reshape([int(np.prod([sizes[c] for c in group], dtype=np.int64)) for group in groups])

    left = matrices(a, s.a, s.batch, s.free_a, s.contracted)
    right = matrices(b, s.b, s.batch, s.contracted, s.free_b)
    with np.errstate(all="ignore"):
        product = np.matmul(left, right)
    order = s.batch + s.free_a + s.free_b
    product = product.reshape([sizes[c] for c in order]).transpose([order.index(c) for c in s.out])
    return product.astype(dtype, copy=False)
