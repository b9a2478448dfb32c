"""The matrices of Winograd's algorithm for windows of three and of five, and how to apply them with few operations.

Along one axis a piece has `size` results y, of size + 2 elements d and three weights g:

    y = A ((G g) * (B d))

It takes size + 2 products in place of 3 * size; with five weights size + 4. d and g are the coefficients of polynomials. B and G evaluate
them at chosen points, one of them infinity, and A interpolates (Winograd, "Arithmetic complexity of computations", 1980; Lavin and Gray,
"Fast algorithms for convolutional neural networks", 2016). In two dimensions each matrix is applied along one axis, then along the other.

With stride two the even elements meet the outer two weights, and the odd ones the middle weight. `size` results of 2 size + 1 elements take
size + 1 products for the even ones, by the formula above for two weights, and `size` for the odd ones.

The points decide how rounding errors grow. They come in pairs p, -p, so that half of the work is shared, and all entries of A and B are
exact in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType
from polyreme.lowering.kernels.code import Code

Matrix = tuple[tuple[Fraction, ...], ...]

# The points by how many results a piece has and how many weights a window; infinity is one more.
POINTS = {
    (2, 3): ("0", "1", "-1"),
    (3, 3): ("1/2", "-1/2", "5/4", "-5/4"),
    (4, 3): ("0", "5/8", "-5/8", "3/2", "-3/2"),
    (6, 3): ("0", "1", "-1", "2", "-2", "1/2", "-1/2"),
    (2, 5): ("0", "5/8", "-5/8", "3/2", "-3/2"),
    (3, 5): ("1/2", "-1/2", "1", "-1", "2", "-2"),
    (4, 5): ("0", "1/2", "-1/2", "1", "-1", "2", "-2"),
    (5, 5): ("1/4", "-1/4", "5/8", "-5/8", "1", "-1", "5/2", "-5/2"),
}


# The same for a stride of two and three weights.
STRIDED_POINTS = {
    2: ("1/2", "-1/2"),
    4: ("1/2", "-1/2", "5/4", "-5/4"),
}


def sizes_of_pieces(taps: int, stride: int) -> tuple[int, ...]:
    """The sizes of pieces for which there are matrices; none for other windows and strides."""
    if stride == 1:
        return tuple(size for size, span in POINTS if span == taps)
    return tuple(STRIDED_POINTS) if (taps, stride) == (3, 2) else ()


@dataclass(frozen=True)
class Transforms:
    """The matrices for pieces of `size` results: `data` is B, `weights` is G, `results` is A in the formula of the module."""

    size: int
    stride: int
    data: Matrix
    weights: Matrix
    results: Matrix

    @property
    def reach(self) -> int:
        """Elements along an axis that a piece reads, and values that it multiplies."""
        return (self.size - 1) * self.stride + len(self.weights[0])


@cache
def transforms(size: int, stride: int = 1, taps: int = 3) -> Transforms:
    """Those of `POINTS` or `STRIDED_POINTS`."""
    if stride == 1:
        return transforms_at(size, [Fraction(p) for p in POINTS[size, taps]], taps)
    return strided(transforms_at(size, [Fraction(p) for p in STRIDED_POINTS[size]], 2))


def strided(even: Transforms) -> Transforms:
    """The matrices for a stride of two and three weights, from those that convolve the even elements with the first and the last weight."""
    size, reach, zero = even.size, 2 * even.size + 1, Fraction(0)
    unit = lambda place, length: tuple(Fraction(i == place) for i in range(length))
    data = [tuple(zero if j % 2 else row[j // 2] for j in range(reach)) for row in even.data]
    data += [unit(2 * i + 1, reach) for i in range(size)]
    weights = [(first, zero, last) for first, last in even.weights] + [unit(1, 3)] * size
    results = [(*row, *unit(i, size)) for i, row in enumerate(even.results)]
    return Transforms(size, 2, tuple(data), tuple(weights), tuple(results))


def transforms_at(size: int, points: Sequence[Fraction], taps: int = 3) -> Transforms:
    """The matrices for `size` results of so many weights from as many points as it takes, size + taps - 2: rows of B are the polynomials
    that are 0 at all points but one, and G's are divided by their values there (Toom and Cook's construction, transposed).
    """
    reach = size + taps - 1
    if len(set(points)) != reach - 1:
        raise ValueError(f"expected {reach - 1} different points for {size} results but got {list(map(str, points))}")
    data, weights, results = [], [], [[Fraction(0)] * reach for _ in range(size)]
    for k, point in enumerate(points):
        others = [p for p in points if p != point]
        polynomial = _with_roots(others)
        value = sum((c * point**j for j, c in enumerate(polynomial)), Fraction(0))
        data.append((*polynomial, Fraction(0)))
        weights.append(tuple(point**j / value for j in range(taps)))
        for i in range(size):
            results[i][k] = point**i
    data.append(tuple(_with_roots(points)))
    weights.append(tuple(Fraction(j == taps - 1) for j in range(taps)))
    results[size - 1][reach - 1] = Fraction(1)
    return Transforms(size, 1, tuple(data), tuple(weights), tuple(map(tuple, results)))


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - root), lowest first."""
    product = [Fraction(1)]
    for root in roots:
        product = [a - root * b for a, b in zip([Fraction(0), *product], [*product, Fraction(0)], strict=True)]
    return product


class FixedMatrixProducts:
    """Writes products of fixed matrices with vectors whose elements are vectors of lanes."""

    def __init__(self, code: Code, dtype: ScalarType, lanes: int):
        self.code, self.dtype, self.lanes = code, dtype, lanes

    def apply(self, matrix: Matrix, xs: Sequence[Value]) -> list[Value]:
        """matrix @ xs. Two columns that differ in signs alone are added and subtracted first; of two rows that do, the common parts are
        computed once.
        """
        matrix, xs = self._join_columns(matrix, xs)
        done: list[Value] = []
        k = 0
        while k < len(matrix):
            if k + 1 < len(matrix) and _mirrored(matrix[k], matrix[k + 1]):
                even = [a if a == b else Fraction(0) for a, b in zip(matrix[k], matrix[k + 1], strict=True)]
                odd = [a if a != b else Fraction(0) for a, b in zip(matrix[k], matrix[k + 1], strict=True)]
                scale = next(c for c in reversed(odd) if c)
                base, part = self._sum(even, xs), self._sum([c / scale for c in odd], xs)
                done += [self._plus(base, scale, part), self._plus(base, -scale, part)]
                k += 2
            else:
                done.append(self._sum(matrix[k], xs))
                k += 1
        return done

    def square(self, matrix: Matrix, block: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """matrix @ block @ matrix.T"""
        columns = [self.apply(matrix, column) for column in zip(*block, strict=True)]
        return [self.apply(matrix, row) for row in zip(*columns, strict=True)]

    def _join_columns(self, matrix: Matrix, xs: Sequence[Value]) -> tuple[Matrix, Sequence[Value]]:
        columns, values = list(zip(*matrix, strict=True)), list(xs)
        for k in range(len(columns) - 1):
            first, second = columns[k], columns[k + 1]
            if len(matrix) < len(columns) and _mirrored(first, second):
                total = self.code.apply("add", values[k], values[k + 1])
                difference = self.code.apply("sub", values[k], values[k + 1])
                values[k : k + 2] = [total, difference]
                columns[k] = tuple(a if a == b else Fraction(0) for a, b in zip(first, second, strict=True))
                columns[k + 1] = tuple(a if a != b else Fraction(0) for a, b in zip(first, second, strict=True))
        return tuple(zip(*columns, strict=True)), values

    def _sum(self, factors: Sequence[Fraction], xs: Sequence[Value]) -> Value:
        terms = [(f, x) for f, x in zip(factors, xs, strict=True) if f]
        first = next((i for i, (f, _) in enumerate(terms) if f == 1), 0)
        factor, total = terms.pop(first)
        if factor != 1:
            total = self.code.apply("mul", total, self._number(factor))
        for factor, x in terms:
            total = self._plus(total, factor, x)
        return total

    def _plus(self, total: Value, factor: Fraction, x: Value) -> Value:
        if abs(factor) == 1:
            return self.code.apply("add" if factor == 1 else "sub", total, x)
        return self.code.fma(x, self._number(factor), total)

    def _number(self, x: Fraction) -> Value:
        return self.code.broadcast(self.code.constant(float(x), self.dtype), self.lanes)


def _mirrored(first: Sequence[Fraction], second: Sequence[Fraction]) -> bool:
    """Whether two rows agree but for signs, some of which are equal and some opposite."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a or b]
    return all(abs(a) == abs(b) for a, b in pairs) and any(a == b for a, b in pairs) and any(a == -b for a, b in pairs)
